// SPDX-License-Identifier: Apache-2.0
// RUN: %verify

// What the verifiers of graph.generic and graph.custom say.

func.func @f(%a: !graph.tensor<[N], f32>) {
  %r = graph.generic %a {label = "next", meaning = #graph.meaning<[(d0 in N) -> f32 : in0[d0 + 1]] results [0]>} : (!graph.tensor<[N], f32>) -> !graph.tensor<[N], f32>
  func.return
}
// CHECK: 'next': the index 'd0 + 1' can't be shown to stay inside dim 0 of operand 0 [N] for 0 <= d0 < N; expected 0 <= d0 + 1 < N

// -----

func.func @f(%a: !graph.tensor<[N], f32>) {
  %r = graph.generic %a {label = "f", meaning = #graph.meaning<[(d0 in N) -> f32 : in1[d0]] results [0]>} : (!graph.tensor<[N], f32>) -> !graph.tensor<[N], f32>
  func.return
}
// CHECK: 'f': operand 1 is read; expected 1 operands, got no such operand

// -----

func.func @f(%a: !graph.tensor<[N, 4], f32>) {
  %r = graph.generic %a {label = "f", meaning = #graph.meaning<[(d0 in N) -> f32 : in0[d0]] results [0]>} : (!graph.tensor<[N, 4], f32>) -> !graph.tensor<[N], f32>
  func.return
}
// CHECK: 'f': operand 0 has rank 2; expected 2 indices, got 1

// -----

func.func @f(%a: !graph.tensor<[N], f32>, %b: !graph.tensor<[N], i32>) {
  %r = graph.generic %a, %b {label = "f", meaning = #graph.meaning<[(d0 in N) -> f32 : add(in0[d0], in1[d0])] results [0]>} : (!graph.tensor<[N], f32>, !graph.tensor<[N], i32>) -> !graph.tensor<[N], f32>
  func.return
}
// CHECK: 'f': operands of 'add' have different element types; expected f32, got i32

// -----

func.func @f(%a: !graph.tensor<[N], i32>) {
  %r = graph.generic %a {label = "f", meaning = #graph.meaning<[(d0 in N) -> i32 : exp(in0[d0])] results [0]>} : (!graph.tensor<[N], i32>) -> !graph.tensor<[N], i32>
  func.return
}
// CHECK: 'f': 'exp' works on floats; expected floats, got i32

// -----

func.func @f(%a: !graph.tensor<[N], f32>) {
  %r = graph.generic %a {label = "f", meaning = #graph.meaning<[(d0 in N) -> f32 : s0[d0]] results [0]>} : (!graph.tensor<[N], f32>) -> !graph.tensor<[N], f32>
  func.return
}
// CHECK: 'f': stage 0 is read before it is computed

// -----

func.func @f(%a: !graph.tensor<[N], f32>) {
  %r = graph.generic %a {label = "f", meaning = #graph.meaning<[(d0 in N) -> f16 : cast32(in0[d0])] results [0]>} : (!graph.tensor<[N], f32>) -> !graph.tensor<[N], f16>
  func.return
}
// CHECK: unknown scalar function 'cast32'

// -----

func.func @f(%a: !graph.tensor<[N], f32>) {
  %r = graph.custom %a {callee = "a::b", arguments = {}, mutates = array<i64: 1>, pure = true} : (!graph.tensor<[N], f32>) -> !graph.tensor<[N], f32>
  func.return
}
// CHECK: 'a::b' mutates operands [1]: expected distinct numbers below 1

// -----

func.func @f(%a: !graph.tensor<[N], f32>) {
  %r = graph.custom %a {callee = "a::b", arguments = {}, mutates = array<i64: 0>, pure = true} : (!graph.tensor<[N], f32>) -> !graph.tensor<[N], f16>
  func.return
}
// CHECK: 'a::b' mutates operand 0: expected a result of type f32[N], got f16[N]
