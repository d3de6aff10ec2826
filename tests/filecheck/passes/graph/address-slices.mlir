// RUN: gaf-opt %s -p 'address-slices{many=2}' --split-input-file | filecheck %s

// Two rows of an input, each in one piece: kernels get their addresses.
// CHECK-LABEL: func.func @rows
// CHECK-COUNT-2: graph.slice {{.*}}gaf.host
func.func @rows(%x: !graph.tensor<[4, B, 32], f32>) -> (!graph.tensor<[1, B, 32], f32>, !graph.tensor<[1, B, 32], f32>) {
  %0 = graph.slice %x {starts = #graph.shape<[0, 0, 0]>, sizes = #graph.shape<[1, B, 32]>, steps = array<i64: 1, 1, 1>} : (!graph.tensor<[4, B, 32], f32>) -> !graph.tensor<[1, B, 32], f32>
  %1 = graph.slice %x {starts = #graph.shape<[3, 0, 0]>, sizes = #graph.shape<[1, B, 32]>, steps = array<i64: 1, 1, 1>} : (!graph.tensor<[4, B, 32], f32>) -> !graph.tensor<[1, B, 32], f32>
  func.return %0, %1 : !graph.tensor<[1, B, 32], f32>, !graph.tensor<[1, B, 32], f32>
}

// -----

// Columns are many pieces, and single numbers have no aligned address.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: gaf.host
func.func @columns(%x: !graph.tensor<[4, 32], f32>, %i: !graph.tensor<[1, 8], i64>) -> (!graph.tensor<[4, 16], f32>, !graph.tensor<[4, 16], f32>, !graph.tensor<[1, 1], i64>, !graph.tensor<[1, 1], i64>) {
  %0 = graph.slice %x {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[4, 16]>, steps = array<i64: 1, 1>} : (!graph.tensor<[4, 32], f32>) -> !graph.tensor<[4, 16], f32>
  %1 = graph.slice %x {starts = #graph.shape<[0, 16]>, sizes = #graph.shape<[4, 16]>, steps = array<i64: 1, 1>} : (!graph.tensor<[4, 32], f32>) -> !graph.tensor<[4, 16], f32>
  %2 = graph.slice %i {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[1, 1]>, steps = array<i64: 1, 1>} : (!graph.tensor<[1, 8], i64>) -> !graph.tensor<[1, 1], i64>
  %3 = graph.slice %i {starts = #graph.shape<[0, 4]>, sizes = #graph.shape<[1, 1]>, steps = array<i64: 1, 1>} : (!graph.tensor<[1, 8], i64>) -> !graph.tensor<[1, 1], i64>
  func.return %0, %1, %2, %3 : !graph.tensor<[4, 16], f32>, !graph.tensor<[4, 16], f32>, !graph.tensor<[1, 1], i64>, !graph.tensor<[1, 1], i64>
}
