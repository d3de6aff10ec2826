// RUN: gaf-opt %s -p fuse --split-input-file | filecheck %s

// A matmul takes its bias, activation, residual and row normalisation into one kernel.
// CHECK-LABEL: func.func @main(%x: !graph.tensor<[B, S, 64], f32>
// CHECK: %[[Y:.*]] = graph.fused "matmul+reduction+elementwise" @matmul_add_gelu_add_layer_norm(
// CHECK: graph.matmul
// CHECK: graph.layer_norm
// CHECK: graph.yield
// CHECK: func.return %[[Y]]
func.func @main(%x: !graph.tensor<[B, S, 64], f32>, %w: !graph.tensor<[64, 96], f32>, %b: !graph.tensor<[96], f32>, %r: !graph.tensor<[B, S, 96], f32>, %g: !graph.tensor<[96], f32>, %be: !graph.tensor<[96], f32>) -> !graph.tensor<[B, S, 96], f32> {
  %0 = graph.matmul %x, %w : (!graph.tensor<[B, S, 64], f32>, !graph.tensor<[64, 96], f32>) -> !graph.tensor<[B, S, 96], f32>
  %1 = graph.add %0, %b : (!graph.tensor<[B, S, 96], f32>, !graph.tensor<[96], f32>) -> !graph.tensor<[B, S, 96], f32>
  %2 = graph.gelu %1 {approximate = "none"} : (!graph.tensor<[B, S, 96], f32>) -> !graph.tensor<[B, S, 96], f32>
  %3 = graph.add %2, %r : (!graph.tensor<[B, S, 96], f32>, !graph.tensor<[B, S, 96], f32>) -> !graph.tensor<[B, S, 96], f32>
  %4 = graph.layer_norm %3, %g, %be {axis = -1 : i64, epsilon = 1.0e-05 : f64, stash = false} : (!graph.tensor<[B, S, 96], f32>, !graph.tensor<[96], f32>, !graph.tensor<[96], f32>) -> !graph.tensor<[B, S, 96], f32>
  func.return %4 : !graph.tensor<[B, S, 96], f32>
}

// -----

// A value inside the group that is also a result is stored too (several results of one kernel).
// CHECK-LABEL: func.func @two_results
// CHECK: %[[A:.*]], %[[B:.*]] = graph.fused "elementwise" @exp_tanh(
// CHECK: graph.yield %{{.*}}, %{{.*}} :
// CHECK: func.return %[[A]], %[[B]]
func.func @two_results(%x: !graph.tensor<[M, 8], f32>) -> (!graph.tensor<[M, 8], f32>, !graph.tensor<[M, 8], f32>) {
  %0 = graph.exp %x : (!graph.tensor<[M, 8], f32>) -> !graph.tensor<[M, 8], f32>
  %1 = graph.tanh %0 : (!graph.tensor<[M, 8], f32>) -> !graph.tensor<[M, 8], f32>
  func.return %0, %1 : !graph.tensor<[M, 8], f32>, !graph.tensor<[M, 8], f32>
}

// -----

// Sigmoid - MatMul - Mul: the sigmoid feeds the matmul and, at other elements, its epilogue, which computes it again.
// CHECK-LABEL: func.func @straddle
// CHECK: graph.fused "elementwise+matmul" @sigmoid_matmul_mul(
// CHECK-NOT: graph.fused
func.func @straddle(%x: !graph.tensor<[6, 40], f32>, %w: !graph.tensor<[40, 40], f32>) -> !graph.tensor<[6, 40], f32> {
  %0 = graph.sigmoid %x : (!graph.tensor<[6, 40], f32>) -> !graph.tensor<[6, 40], f32>
  %1 = graph.matmul %0, %w : (!graph.tensor<[6, 40], f32>, !graph.tensor<[40, 40], f32>) -> !graph.tensor<[6, 40], f32>
  %2 = graph.mul %0, %1 : (!graph.tensor<[6, 40], f32>, !graph.tensor<[6, 40], f32>) -> !graph.tensor<[6, 40], f32>
  func.return %2 : !graph.tensor<[6, 40], f32>
}

// -----

// float64 has no vector unit: the op stays on the host and says why.
// CHECK-LABEL: func.func @double
// CHECK: graph.exp %x {gaf.host = "float64 has no vector unit on this chip; it stays on the host"}
func.func @double(%x: !graph.tensor<[4, 4], f64>) -> !graph.tensor<[4, 4], f64> {
  %0 = graph.exp %x : (!graph.tensor<[4, 4], f64>) -> !graph.tensor<[4, 4], f64>
  func.return %0 : !graph.tensor<[4, 4], f64>
}
