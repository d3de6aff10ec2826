// RUN: gaf-opt %s -p fuse,lower-graph --split-input-file | filecheck %s

// A concat inside a kernel is the sum of guarded loads.
// CHECK: tile.kernel @concat_tanh(
// CHECK: %[[A:.*]] = tile.load %x[m, n] where [n in 0 to 40] else -0.0 : !tile.t<[m, n], f32>
// CHECK: %[[B:.*]] = tile.load %y[m, n - 40] where [n in 40 to 64] else -0.0 : !tile.t<[m, n], f32>
// CHECK: tile.map add(%[[A]], %[[B]])
func.func @main(%x: !graph.tensor<[B, 40], f32>, %y: !graph.tensor<[B, 24], f32>) -> !graph.tensor<[B, 64], f32> {
  %c = graph.concat %x, %y {axis = 1 : i64} : (!graph.tensor<[B, 40], f32>, !graph.tensor<[B, 24], f32>) -> !graph.tensor<[B, 64], f32>
  %t = graph.tanh %c : (!graph.tensor<[B, 64], f32>) -> !graph.tensor<[B, 64], f32>
  func.return %t : !graph.tensor<[B, 64], f32>
}

// -----

// rotate_half: the axis is cut where the halves meet; each half is written for itself, and they share their loads.
// CHECK: tile.kernel @neg_concat_mul({{.*}} axes [m_0 = B, n_0 = 32]
// CHECK: %[[SECOND:.*]] = tile.load %x[m_0, n_0 + 32] : !tile.t<[m_0, n_0], f32>
// CHECK: tile.map neg(%[[SECOND]])
// CHECK: %[[FIRST:.*]] = tile.load %x[m_0, n_0] : !tile.t<[m_0, n_0], f32>
// CHECK: tile.store %{{.*}}, %y[m_0, n_0]
// CHECK: %[[PRODUCT:.*]] = tile.map mul(%[[FIRST]], %[[SECOND]])
// CHECK: tile.store %[[PRODUCT]], %y[m_0, n_0 + 32]
func.func @rotate(%x: !graph.tensor<[B, 64], f32>) -> !graph.tensor<[B, 64], f32> {
  %a = graph.slice %x {starts = #graph.shape<[0, 32]>, sizes = #graph.shape<[B, 32]>, steps = array<i64: 1, 1>} : (!graph.tensor<[B, 64], f32>) -> !graph.tensor<[B, 32], f32>
  %b = graph.slice %x {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[B, 32]>, steps = array<i64: 1, 1>} : (!graph.tensor<[B, 64], f32>) -> !graph.tensor<[B, 32], f32>
  %n = graph.neg %a : (!graph.tensor<[B, 32], f32>) -> !graph.tensor<[B, 32], f32>
  %c = graph.concat %n, %b {axis = 1 : i64} : (!graph.tensor<[B, 32], f32>, !graph.tensor<[B, 32], f32>) -> !graph.tensor<[B, 64], f32>
  %y = graph.mul %c, %x : (!graph.tensor<[B, 64], f32>, !graph.tensor<[B, 64], f32>) -> !graph.tensor<[B, 64], f32>
  func.return %y : !graph.tensor<[B, 64], f32>
}

// -----

// A pad that is a result of the model is a copy kernel.
// CHECK: tile.kernel @pad_op(
// CHECK: tile.load %x[{{.*}}] where [m - 1 in 0 to B, n - 2 in 0 to 30] else 0.5 : !tile.t<[m, n], f16>
func.func @pad(%x: !graph.tensor<[B, 30], f16>) -> !graph.tensor<[B + 1, 32], f16> {
  %p = graph.pad %x {before = #graph.shape<[1, 2]>, after = #graph.shape<[0, 0]>, mode = "constant", value = 5.000000e-01 : f64} : (!graph.tensor<[B, 30], f16>) -> !graph.tensor<[B + 1, 32], f16>
  func.return %p : !graph.tensor<[B + 1, 32], f16>
}
