// RUN: gaf-opt %s -p narrow-integers,dce --split-input-file | filecheck %s

// Positions: only valid ones count, and those fit int32.
// CHECK-LABEL: func.func @positions
// CHECK: %[[I:.*]] = graph.cast %i {to = i32}
// CHECK: %[[A:.*]] = graph.add %[[I]], %{{.*}} : (!graph.tensor<[4], i32>, !graph.tensor<[], i32>)
// CHECK: graph.gather %x, %[[A]]
func.func @positions(%x: !graph.tensor<[8, 16], f32>, %i: !graph.tensor<[4], i64>) -> !graph.tensor<[4, 16], f32> {
  %c = graph.constant {value = #graph.array<i64 [] : 2>} : () -> !graph.tensor<[], i64>
  %0 = graph.add %i, %c : (!graph.tensor<[4], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[4], i64>
  %1 = graph.gather %x, %0 {axis = 0 : i64, wrap = true} : (!graph.tensor<[8, 16], f32>, !graph.tensor<[4], i64>) -> !graph.tensor<[4, 16], f32>
  func.return %1 : !graph.tensor<[4, 16], f32>
}

// -----

// A sum that is also a result needs all its bits.
// CHECK-LABEL: func.func @result_too
// CHECK-NOT: i32
// CHECK: graph.gather
func.func @result_too(%x: !graph.tensor<[8, 16], f32>, %i: !graph.tensor<[4], i64>) -> (!graph.tensor<[4, 16], f32>, !graph.tensor<[4], i64>) {
  %c = graph.constant {value = #graph.array<i64 [] : 2>} : () -> !graph.tensor<[], i64>
  %0 = graph.add %i, %c : (!graph.tensor<[4], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[4], i64>
  %1 = graph.gather %x, %0 {axis = 0 : i64, wrap = true} : (!graph.tensor<[8, 16], f32>, !graph.tensor<[4], i64>) -> !graph.tensor<[4, 16], f32>
  func.return %1, %0 : !graph.tensor<[4, 16], f32>, !graph.tensor<[4], i64>
}

// -----

// A maximum isn't made of the low bits alone.
// CHECK-LABEL: func.func @clamped
// CHECK-NOT: i32
// CHECK: graph.max %i
func.func @clamped(%x: !graph.tensor<[8, 16], f32>, %i: !graph.tensor<[4], i64>) -> !graph.tensor<[4, 16], f32> {
  %c = graph.constant {value = #graph.array<i64 [] : 2>} : () -> !graph.tensor<[], i64>
  %0 = graph.max %i, %c : (!graph.tensor<[4], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[4], i64>
  %1 = graph.gather %x, %0 {axis = 0 : i64, wrap = true} : (!graph.tensor<[8, 16], f32>, !graph.tensor<[4], i64>) -> !graph.tensor<[4, 16], f32>
  func.return %1 : !graph.tensor<[4, 16], f32>
}

// -----

// A length against a position: the summand that is known to be small moves to the other side, through views.
// CHECK-LABEL: func.func @lengths
// CHECK: %[[N:.*]] = graph.unsqueeze %n
// CHECK: %[[S:.*]] = graph.add %{{.*}}, %{{.*}} : (!graph.tensor<[1, 4], i64>, !graph.tensor<[1], i64>)
// CHECK: graph.less %[[N]], %[[S]]
func.func @lengths(%n: !graph.tensor<[2], i64>) -> !graph.tensor<[2, 4], i1> {
  %c = graph.constant {value = #graph.array<i64 [1] : 1>} : () -> !graph.tensor<[1], i64>
  %p = graph.constant {value = #graph.array<i64 [1, 4] : 0, 1, 2, 3>} : () -> !graph.tensor<[1, 4], i64>
  %0 = graph.sub %n, %c : (!graph.tensor<[2], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[2], i64>
  %1 = graph.unsqueeze %0 {axes = array<i64: 1>} : (!graph.tensor<[2], i64>) -> !graph.tensor<[2, 1], i64>
  %2 = graph.less %1, %p : (!graph.tensor<[2, 1], i64>, !graph.tensor<[1, 4], i64>) -> !graph.tensor<[2, 4], i1>
  func.return %2 : !graph.tensor<[2, 4], i1>
}

// -----

// Two lengths, neither of them known to be small, stay where they are.
// CHECK-LABEL: func.func @two_lengths
// CHECK: graph.add %n, %m
// CHECK: graph.less
func.func @two_lengths(%n: !graph.tensor<[2], i64>, %m: !graph.tensor<[2], i64>, %k: !graph.tensor<[2], i64>) -> !graph.tensor<[2], i1> {
  %0 = graph.add %n, %m : (!graph.tensor<[2], i64>, !graph.tensor<[2], i64>) -> !graph.tensor<[2], i64>
  %1 = graph.less %0, %k : (!graph.tensor<[2], i64>, !graph.tensor<[2], i64>) -> !graph.tensor<[2], i1>
  func.return %1 : !graph.tensor<[2], i1>
}
