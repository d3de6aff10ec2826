// SPDX-License-Identifier: Apache-2.0
// RUN: %verify

// What the verifiers say: what is wrong, expected, got.

func.func @f(%a: !graph.tensor<[B, 4], f32>, %b: !graph.tensor<[B, 3], f32>) {
  %r = graph.add %a, %b : (!graph.tensor<[B, 4], f32>, !graph.tensor<[B, 3], f32>) -> !graph.tensor<[B, 4], f32>
  func.return
}
// CHECK: graph.add: shapes don't broadcast; expected dim -1 to be equal or 1, got [B, 4] and [B, 3]

// -----

func.func @f(%a: !graph.tensor<[B, 4], f32>, %b: !graph.tensor<[B, 4], f16>) {
  %r = graph.add %a, %b : (!graph.tensor<[B, 4], f32>, !graph.tensor<[B, 4], f16>) -> !graph.tensor<[B, 4], f32>
  func.return
}
// CHECK: graph.add: operands have different element types; expected f32, got f16

// -----

func.func @f(%a: !graph.tensor<[B, 4], f32>, %b: !graph.tensor<[S, 4], f32>) {
  %r = graph.add %a, %b : (!graph.tensor<[B, 4], f32>, !graph.tensor<[S, 4], f32>) -> !graph.tensor<[B, 4], f32>
  func.return
}
// CHECK: graph.add: shapes don't broadcast; expected dim -2 to be equal or 1, got [B, 4] and [S, 4]

// -----

func.func @f(%a: !graph.tensor<[B, 4], f32>, %b: !graph.tensor<[4], f32>) {
  %r = graph.add %a, %b : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return
}
// CHECK: graph.add: expected result types (f32[B, 4]), got (f32[4])

// -----

func.func @f(%a: !graph.tensor<[4], i32>) {
  %r = graph.exp %a : (!graph.tensor<[4], i32>) -> !graph.tensor<[4], i32>
  func.return
}
// CHECK: graph.exp: wrong element type; expected float, got i32

// -----

func.func @f(%a: !graph.tensor<[4], f32>) {
  %r = graph.not %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], i1>
  func.return
}
// CHECK: graph.not: wrong element type; expected bool, got f32

// -----

func.func @f(%a: !graph.tensor<[4], f32>) {
  %r = graph.gelu %a {approximate = "erf"} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return
}
// CHECK: graph.gelu: unknown approximation; expected none or tanh, got erf

// -----

func.func @f(%a: !graph.tensor<[4], f32>, %b: !graph.tensor<[4], f32>, %c: !graph.tensor<[4], f32>) {
  %r = graph.where %a, %b, %c : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return
}
// CHECK: graph.where: condition: wrong element type; expected bool, got f32

// -----

func.func @f(%a: !graph.tensor<[3], f32>, %b: !graph.tensor<[2, 3], f32>) {
  %r = graph.prelu %a, %b : (!graph.tensor<[3], f32>, !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return
}
// CHECK: graph.prelu: the slope doesn't broadcast to x; expected a shape that broadcasts to [3], got [2, 3]

// -----

func.func @f(%a: !graph.tensor<[B, 4], f32>) {
  %r = graph.reduce_sum %a {axes = array<i64: 2>, keepdims = false} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B], f32>
  func.return
}
// CHECK: graph.reduce_sum: axis out of range; expected an axis of -2..1, got 2

// -----

func.func @f(%a: !graph.tensor<[B, 4], f32>) {
  %r = graph.reduce_sum %a {axes = array<i64: 1, -1>, keepdims = false} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B], f32>
  func.return
}
// CHECK: graph.reduce_sum: an axis is named twice; got (1, -1)

// -----

func.func @f(%a: !graph.tensor<[B, 4], f32>, %b: !graph.tensor<[3, N], f32>) {
  %r = graph.matmul %a, %b : (!graph.tensor<[B, 4], f32>, !graph.tensor<[3, N], f32>) -> !graph.tensor<[B, N], f32>
  func.return
}
// CHECK: graph.matmul: the summed dims differ; expected 4 rows in b (the columns of a [B, 4]), got [3, N]

// -----

func.func @f(%a: !graph.tensor<[4], f32>, %b: !graph.tensor<[4, 3], f32>) {
  %r = graph.matmul %a, %b : (!graph.tensor<[4], f32>, !graph.tensor<[4, 3], f32>) -> !graph.tensor<[3], f32>
  func.return
}
// CHECK: graph.matmul: operands are matrices; expected rank 2 or more, got ranks 1 and 2

// -----

func.func @f(%a: !graph.tensor<[2, 3, 4], f32>, %b: !graph.tensor<[3, 1], f32>) {
  %r = graph.layer_norm %a, %b {axis = 2 : i64, epsilon = 1.000000e-05 : f64, stash = false} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[3, 1], f32>) -> !graph.tensor<[2, 4], f32>
  func.return
}
// CHECK: graph.layer_norm: expected result types (f32[2, 3, 4]), got (f32[2, 4])

// -----

func.func @f(%a: !graph.tensor<[1, 1], f32>, %b: !graph.tensor<[2], f32>) {
  %r = graph.layer_norm %a, %b {axis = 1 : i64, epsilon = 1.000000e-05 : f64, stash = false} : (!graph.tensor<[1, 1], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[1, 2], f32>
  func.return
}
// CHECK: graph.layer_norm: scale doesn't broadcast to x; expected a shape that broadcasts to [1, 1], got [2]

// -----

func.func @f(%a: !graph.tensor<[B, 6], f32>) {
  %r = graph.reshape %a {shape = #graph.shape<[B, 4]>} : (!graph.tensor<[B, 6], f32>) -> !graph.tensor<[B, 4], f32>
  func.return
}
// CHECK: graph.reshape: the number of elements changes; expected B * 6 elements [B, 6], got B * 4 [B, 4]

// -----

func.func @f(%a: !graph.tensor<[2, 3], f32>) {
  %r = graph.transpose %a {perm = array<i64: 0, 0>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return
}
// CHECK: graph.transpose: perm is no permutation; expected each of 0..1 once, got (0, 0)

// -----

func.func @f(%a: !graph.tensor<[B, 3], f32>) {
  %r = graph.squeeze %a {axes = array<i64: 1>} : (!graph.tensor<[B, 3], f32>) -> !graph.tensor<[B], f32>
  func.return
}
// CHECK: graph.squeeze: dim 1 is not 1; expected size 1, got [B, 3]

// -----

func.func @f(%a: !graph.tensor<[3, 4], f32>) {
  %r = graph.expand %a {shape = #graph.shape<[1, 4]>} : (!graph.tensor<[3, 4], f32>) -> !graph.tensor<[1, 4], f32>
  func.return
}
// CHECK: graph.expand: the shape would not widen the operand only; expected a shape that [3, 4] broadcasts to, got [1, 4]

// -----

func.func @f(%a: !graph.tensor<[S], f32>) {
  %r = graph.slice %a {starts = #graph.shape<[1]>, sizes = #graph.shape<[S]>, steps = array<i64: 1>} : (!graph.tensor<[S], f32>) -> !graph.tensor<[S], f32>
  func.return
}
// CHECK: graph.slice: dim 0 is read out of bounds; expected positions 0..S - 1, got S

// -----

func.func @f(%a: !graph.tensor<[B, 3], f32>, %b: !graph.tensor<[C, 3], f32>) {
  %r = graph.concat %a, %b {axis = 1 : i64} : (!graph.tensor<[B, 3], f32>, !graph.tensor<[C, 3], f32>) -> !graph.tensor<[B, 6], f32>
  func.return
}
// CHECK: graph.concat: operands differ outside dim 1; expected [B, 3], got [C, 3]

// -----

func.func @f(%a: !graph.tensor<[2], f32>) {
  %r = graph.pad %a {before = #graph.shape<[4]>, after = #graph.shape<[0]>, mode = "reflect", value = 0.000000e+00 : f64} : (!graph.tensor<[2], f32>) -> !graph.tensor<[6], f32>
  func.return
}
// CHECK: graph.pad: dim 0 is too short to reflect; expected a pad of at most 1, got 4

// -----

func.func @f(%a: !graph.tensor<[4], f32>, %b: !graph.tensor<[2], f32>) {
  %r = graph.gather %a, %b {axis = 0 : i64, wrap = false} : (!graph.tensor<[4], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return
}
// CHECK: graph.gather: wrong type of indices; expected i32 or i64, got f32

// -----

func.func @f(%a: !graph.tensor<[4], f32>) {
  %r:2 = graph.topk %a {k = #graph.shape<[9]>, axis = 0 : i64, largest = true} : (!graph.tensor<[4], f32>) -> (!graph.tensor<[9], f32>, !graph.tensor<[9], i64>)
  func.return
}
// CHECK: graph.topk: k is out of range; expected 0..4, got 9

// -----

func.func @f(%a: !graph.tensor<[1, 3, 8], f32>, %b: !graph.tensor<[4, 2, 3], f32>) {
  %r = graph.conv %a, %b {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64} : (!graph.tensor<[1, 3, 8], f32>, !graph.tensor<[4, 2, 3], f32>) -> !graph.tensor<[1, 4, 6], f32>
  func.return
}
// CHECK: graph.conv: channels of x don't fit the weights; expected 2, got 3

// -----

func.func @f(%a: !graph.tensor<[1, 3, 2], f32>) {
  %r = graph.max_pool %a {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = false} : (!graph.tensor<[1, 3, 2], f32>) -> !graph.tensor<[1, 3, 0], f32>
  func.return
}
// CHECK: graph.max_pool: the window is larger than spatial dim 0 with its padding; got 0 positions

// -----

func.func @f(%a: !graph.tensor<[-1, 4], f32>) {
  func.return
}
// CHECK: graph.tensor: dims are >= 0, got [-1, 4]

// -----

func.func @f(%a: !graph.tensor<[4], i7>) {
  func.return
}
// CHECK: graph.tensor: unsupported element type i7
