// RUN: gaf-opt %s -p pack-matmuls --split-input-file | filecheck %s

// Two projections of one input with bias: one matmul over both weights, and two slices of its result.
// CHECK-LABEL: func.func @projections
// CHECK: %[[W:.*]] = graph.constant {value = #graph.array<f32 [2, 3] : 1.0, 2.0, 5.0, 3.0, 4.0, 6.0>}
// CHECK: %[[M:.*]] = graph.matmul %x, %[[W]]
// CHECK: %[[B:.*]] = graph.constant {value = #graph.array<f32 [3] : 0.5, 0.25, 1.0>}
// CHECK: %[[R:.*]] = graph.add %[[M]], %[[B]]
// CHECK: %[[Q:.*]] = graph.slice %[[R]] {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[M, 2]>
// CHECK: %[[K:.*]] = graph.slice %[[R]] {starts = #graph.shape<[0, 2]>, sizes = #graph.shape<[M, 1]>
// CHECK-NOT: graph.matmul
// CHECK: func.return %[[Q]], %[[K]]
func.func @projections(%x: !graph.tensor<[M, 2], f32>) -> (!graph.tensor<[M, 2], f32>, !graph.tensor<[M, 1], f32>) {
  %wq = graph.constant {value = #graph.array<f32 [2, 2] : 1.0, 2.0, 3.0, 4.0>} : () -> !graph.tensor<[2, 2], f32>
  %wk = graph.constant {value = #graph.array<f32 [2, 1] : 5.0, 6.0>} : () -> !graph.tensor<[2, 1], f32>
  %bq = graph.constant {value = #graph.array<f32 [2] : 0.5, 0.25>} : () -> !graph.tensor<[2], f32>
  %bk = graph.constant {value = #graph.array<f32 [1] : 1.0>} : () -> !graph.tensor<[1], f32>
  %0 = graph.matmul %x, %wq : (!graph.tensor<[M, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[M, 2], f32>
  %1 = graph.add %0, %bq : (!graph.tensor<[M, 2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[M, 2], f32>
  %2 = graph.matmul %x, %wk : (!graph.tensor<[M, 2], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[M, 1], f32>
  %3 = graph.add %2, %bk : (!graph.tensor<[M, 1], f32>, !graph.tensor<[1], f32>) -> !graph.tensor<[M, 1], f32>
  func.return %1, %3 : !graph.tensor<[M, 2], f32>, !graph.tensor<[M, 1], f32>
}

// -----

// Different left operands stay apart.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-2: graph.matmul
func.func @apart(%x: !graph.tensor<[M, 2], f32>, %y: !graph.tensor<[M, 2], f32>) -> (!graph.tensor<[M, 2], f32>, !graph.tensor<[M, 2], f32>) {
  %w = graph.constant {value = #graph.array<f32 [2, 2] : 1.0, 2.0, 3.0, 4.0>} : () -> !graph.tensor<[2, 2], f32>
  %0 = graph.matmul %x, %w : (!graph.tensor<[M, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[M, 2], f32>
  %1 = graph.matmul %y, %w : (!graph.tensor<[M, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[M, 2], f32>
  func.return %0, %1 : !graph.tensor<[M, 2], f32>, !graph.tensor<[M, 2], f32>
}
