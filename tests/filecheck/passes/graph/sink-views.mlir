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

// -----

// A triangle depends on positions: the transpose stays in front of it.
// CHECK-LABEL: func.func @triangle
// CHECK: %[[T:.*]] = graph.transpose %x
// CHECK: graph.trilu %[[T]]
func.func @triangle(%x: !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> {
  %0 = graph.transpose %x {perm = array<i64: 1, 0>} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %1 = graph.trilu %0 {upper = true, k = 0} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  func.return %1 : !graph.tensor<[4, 4], f32>
}

// -----

// An op that reads another place than its own stays behind the transpose.
// CHECK-LABEL: func.func @mirrored
// CHECK: %[[T:.*]] = graph.transpose %x
// CHECK: graph.generic %[[T]]
func.func @mirrored(%x: !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> {
  %0 = graph.transpose %x {perm = array<i64: 1, 0>} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %1 = graph.generic %0 {label = "f", meaning = #graph.meaning<[(d0 in 4, d1 in 4) -> f32 : exp(in0[d0, -d1 + 3])] results [0]>} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  func.return %1 : !graph.tensor<[4, 4], f32>
}

// -----

// The iteration space is a property of the op and doesn't fit the operand of the reshape: nothing moves.
// CHECK-LABEL: func.func @rows
// CHECK: %[[R:.*]] = graph.reshape %x
// CHECK: graph.generic %[[R]]
func.func @rows(%x: !graph.tensor<[24], f32>) -> !graph.tensor<[6, 4], f32> {
  %0 = graph.reshape %x {shape = #graph.shape<[6, 4]>} : (!graph.tensor<[24], f32>) -> !graph.tensor<[6, 4], f32>
  %1 = graph.generic %0 {label = "f", meaning = #graph.meaning<[(d0 in 6, d1 in 4) -> f32 : exp(in0[d0, d1])] results [0]>} : (!graph.tensor<[6, 4], f32>) -> !graph.tensor<[6, 4], f32>
  func.return %1 : !graph.tensor<[6, 4], f32>
}
