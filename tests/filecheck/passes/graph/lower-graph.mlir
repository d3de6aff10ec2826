// RUN: gaf-opt %s -p fuse,lower-graph --split-input-file | filecheck %s

// Rows of B*S elements become one axis; the reductions run over whole rows, or stream them in chunks: maximum and sum in
// one pass, in which the sum moves along with the maximum, and the quotients in another.
// CHECK: tile.kernel @softmax_op(%x: !tile.gm<[B, S, 96], f32>, %y0: !tile.gm<[B, S, 96], f32, out>) symbols [B, S] axes [m = B * S, n = 96]
// CHECK-NEXT: tile.grid [m step tm]
// CHECK: %[[MAX:.*]] = tile.reduce max(%{{.*}}) over [n] : !tile.t<[m], f32>
// CHECK: tile.map sub(%{{.*}}, %[[MAX]]) : !tile.t<[m, n], f32>
// CHECK: tile.kernel @softmax_op_streamed
// CHECK: tile.for n step tn iter(
// CHECK: %[[RUNNING:.*]] = tile.merge max(
// CHECK: tile.map mul(
// CHECK: %[[SUM:.*]] = tile.map add(
// CHECK: tile.yield %[[RUNNING]], %[[SUM]]
// CHECK: tile.for n step tn {
// CHECK: tile.store
func.func @main(%x: !graph.tensor<[B, S, 96], f32>) -> !graph.tensor<[B, S, 96], f32> {
  %0 = graph.softmax %x {axes = array<i64: -1>} : (!graph.tensor<[B, S, 96], f32>) -> !graph.tensor<[B, S, 96], f32>
  func.return %0 : !graph.tensor<[B, S, 96], f32>
}

// -----

// Two equal regions share one kernel.
// CHECK: graph.fused "elementwise" @exp_op(%{{.*}}) -> ({{.*}}) attributes {kernels = ["exp_op"]
// CHECK: graph.fused "elementwise" @exp_op(%{{.*}}) -> ({{.*}}) attributes {kernels = ["exp_op"]
// CHECK: tile.kernel @exp_op(
// CHECK-NOT: tile.kernel @exp_op_2
func.func @shared(%x: !graph.tensor<[64], f32>, %z: !graph.tensor<[64], f32>) -> (!graph.tensor<[64], f32>, !graph.tensor<[64], f32>) {
  %0 = graph.exp %x : (!graph.tensor<[64], f32>) -> !graph.tensor<[64], f32>
  %1 = graph.exp %z : (!graph.tensor<[64], f32>) -> !graph.tensor<[64], f32>
  func.return %0, %1 : !graph.tensor<[64], f32>, !graph.tensor<[64], f32>
}

// -----

// Splitting heads and transposing cost nothing: they are the index map of the loads.
// CHECK: tile.kernel @matmul_op(
// CHECK: tile.load %q[g0.lo, m, g1.lo * 16 + k] : !tile.t<[m, k], f32, l1>
// CHECK: tile.load %k[g0.lo, n, g1.lo * 16 + k] : !tile.t<[k, n], f32, l1>
func.func @heads(%q: !graph.tensor<[B, S, 64], f32>, %k: !graph.tensor<[B, S, 64], f32>) -> !graph.tensor<[B, 4, S, S], f32> {
  %0 = graph.reshape %q {shape = #graph.shape<[B, S, 4, 16]>} : (!graph.tensor<[B, S, 64], f32>) -> !graph.tensor<[B, S, 4, 16], f32>
  %1 = graph.transpose %0 {perm = array<i64: 0, 2, 1, 3>} : (!graph.tensor<[B, S, 4, 16], f32>) -> !graph.tensor<[B, 4, S, 16], f32>
  %2 = graph.reshape %k {shape = #graph.shape<[B, S, 4, 16]>} : (!graph.tensor<[B, S, 64], f32>) -> !graph.tensor<[B, S, 4, 16], f32>
  %3 = graph.transpose %2 {perm = array<i64: 0, 2, 3, 1>} : (!graph.tensor<[B, S, 4, 16], f32>) -> !graph.tensor<[B, 4, 16, S], f32>
  %4 = graph.matmul %1, %3 : (!graph.tensor<[B, 4, S, 16], f32>, !graph.tensor<[B, 4, 16, S], f32>) -> !graph.tensor<[B, 4, S, S], f32>
  func.return %4 : !graph.tensor<[B, 4, S, S], f32>
}
