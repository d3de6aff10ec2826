// RUN: gaf-opt %s -p sink-views --split-input-file | filecheck %s

// CHECK-LABEL: func.func @scaled_keys
// CHECK: %[[M:.*]] = graph.mul %k, %c
// CHECK: %[[R:.*]] = graph.reshape %[[M]]
// CHECK: %[[T:.*]] = graph.transpose %[[R]]
// CHECK: func.return %[[T]]
func.func @scaled_keys(%k: !graph.tensor<[B, S, 64], f32>, %c: !graph.tensor<[], f32>) -> !graph.tensor<[B, 4, 16, S], f32> {
  %0 = graph.reshape %k {shape = #graph.shape<[B, S, 4, 16]>} : (!graph.tensor<[B, S, 64], f32>) -> !graph.tensor<[B, S, 4, 16], f32>
  %1 = graph.transpose %0 {perm = array<i64: 0, 2, 3, 1>} : (!graph.tensor<[B, S, 4, 16], f32>) -> !graph.tensor<[B, 4, 16, S], f32>
  %2 = graph.mul %1, %c : (!graph.tensor<[B, 4, 16, S], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[B, 4, 16, S], f32>
  func.return %2 : !graph.tensor<[B, 4, 16, S], f32>
}

// -----

// Two operands through the same view sink together.
// CHECK-LABEL: func.func @both
// CHECK: %[[A:.*]] = graph.add %x, %y
// CHECK: graph.transpose %[[A]]
// CHECK-NOT: graph.transpose
func.func @both(%x: !graph.tensor<[4, 8], f32>, %y: !graph.tensor<[4, 8], f32>) -> !graph.tensor<[8, 4], f32> {
  %0 = graph.transpose %x {perm = array<i64: 1, 0>} : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[8, 4], f32>
  %1 = graph.transpose %y {perm = array<i64: 1, 0>} : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[8, 4], f32>
  %2 = graph.add %0, %1 : (!graph.tensor<[8, 4], f32>, !graph.tensor<[8, 4], f32>) -> !graph.tensor<[8, 4], f32>
  func.return %2 : !graph.tensor<[8, 4], f32>
}

// -----

// A bias along the transposed axis would need the inverse view: nothing moves.
// CHECK-LABEL: func.func @bias
// CHECK: %[[T:.*]] = graph.transpose %x
// CHECK: graph.add %[[T]], %b
func.func @bias(%x: !graph.tensor<[4, 8], f32>, %b: !graph.tensor<[4], f32>) -> !graph.tensor<[8, 4], f32> {
  %0 = graph.transpose %x {perm = array<i64: 1, 0>} : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[8, 4], f32>
  %1 = graph.add %0, %b : (!graph.tensor<[8, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[8, 4], f32>
  func.return %1 : !graph.tensor<[8, 4], f32>
}
