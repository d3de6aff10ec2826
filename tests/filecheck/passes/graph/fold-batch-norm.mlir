// RUN: gaf-opt %s -p fold-batch-norm,dce --split-input-file | filecheck %s

// The factor goes into the weights, the shift into a bias.
func.func @main(%x: !graph.tensor<[B, 2], f32>) -> (!graph.tensor<[B, 2], f32>) {
  %w = graph.constant {value = #graph.array<f32 [2, 2] : 1.0, 2.0, 3.0, 4.0>} : () -> !graph.tensor<[2, 2], f32>
  %a = graph.constant {value = #graph.array<f32 [2] : 2.0, 10.0>} : () -> !graph.tensor<[2], f32>
  %b = graph.constant {value = #graph.array<f32 [2] : 0.5, 0.25>} : () -> !graph.tensor<[2], f32>
  %0 = graph.matmul %x, %w : (!graph.tensor<[B, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[B, 2], f32>
  %1 = graph.mul %0, %a : (!graph.tensor<[B, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[B, 2], f32>
  %2 = graph.add %1, %b : (!graph.tensor<[B, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[B, 2], f32>
  func.return %2 : !graph.tensor<[B, 2], f32>
}
// CHECK-LABEL: func.func @main
// CHECK-DAG: #graph.array<f32 [2, 2] : 2.0, 20.0, 6.0, 40.0>
// CHECK-DAG: #graph.array<f32 [2] : 0.5, 0.25>
// CHECK-NOT: graph.mul
// CHECK: graph.matmul
// CHECK-NEXT: graph.add

// -----

// A shift alone is a bias already.
func.func @bias(%x: !graph.tensor<[B, 2], f32>) -> (!graph.tensor<[B, 2], f32>) {
  %w = graph.constant {value = #graph.array<f32 [2, 2] : 1.0, 2.0, 3.0, 4.0>} : () -> !graph.tensor<[2, 2], f32>
  %b = graph.constant {value = #graph.array<f32 [2] : 0.5, 0.25>} : () -> !graph.tensor<[2], f32>
  %0 = graph.matmul %x, %w : (!graph.tensor<[B, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[B, 2], f32>
  %1 = graph.add %0, %b : (!graph.tensor<[B, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[B, 2], f32>
  func.return %1 : !graph.tensor<[B, 2], f32>
}
// CHECK-LABEL: func.func @bias
// CHECK: #graph.array<f32 [2, 2] : 1.0, 2.0, 3.0, 4.0>
