// SPDX-License-Identifier: Apache-2.0
// RUN: %roundtrip

// Ops of users: a meaning that is written down, and calls that nobody can look into.

// CHECK-LABEL: func.func @meanings
func.func @meanings(%a: !graph.tensor<[M, K], f32>, %b: !graph.tensor<[N, K], f32>, %i: !graph.tensor<[N], i64>) {
  // CHECK: graph.generic %a, %b {label = "rowdist", meaning = #graph.meaning<[(d0 in M, d1 in N) -> f32 : fold sum (r0 in K) mul(sub(in0[d0, r0], in1[d1, r0]), sub(in0[d0, r0], in1[d1, r0]))] results [0]>}
  %0 = graph.generic %a, %b {label = "rowdist", meaning = #graph.meaning<[(d0 in M, d1 in N) -> f32 : fold sum (r0 in K) mul(sub(in0[d0, r0], in1[d1, r0]), sub(in0[d0, r0], in1[d1, r0]))] results [0]>} : (!graph.tensor<[M, K], f32>, !graph.tensor<[N, K], f32>) -> !graph.tensor<[M, N], f32>
  // CHECK: s0[d0]
  // CHECK-SAME: results [1, 0]
  %1, %2 = graph.generic %a {label = "mean", meaning = #graph.meaning<[(d0 in M) -> f32 : fold sum (r0 in K) in0[d0, r0], (d0 in M) -> f32 : div(s0[d0], extent(K))] results [1, 0]>} : (!graph.tensor<[M, K], f32>) -> (!graph.tensor<[M], f32>, !graph.tensor<[M], f32>)
  // CHECK: select(lt(f32(coord(d1)), 2.5), in0[read in1[d0], d1], -inf)
  %3 = graph.generic %b, %i {label = "rows", meaning = #graph.meaning<[(d0 in N, d1 in K) -> f32 : select(lt(f32(coord(d1)), 2.5), in0[read in1[d0], d1], -inf)] results [0]>} : (!graph.tensor<[N, K], f32>, !graph.tensor<[N], i64>) -> !graph.tensor<[N, K], f32>
  // CHECK: max(in0[d0, (d1 floordiv 2) * 2], nan)
  %4 = graph.generic %b {label = "even", meaning = #graph.meaning<[(d0 in N, d1 in K) -> f32 : max(in0[d0, (d1 floordiv 2) * 2], nan)] results [0]>} : (!graph.tensor<[N, K], f32>) -> !graph.tensor<[N, K], f32>
  func.return
}

// CHECK-LABEL: func.func @opaque
func.func @opaque(%a: !graph.tensor<[N, 4], f32>, %b: !graph.tensor<[4], f32>) {
  // CHECK: graph.custom %a, %b {callee = "acme::gate", arguments = {alpha = 1.500000e+00 : f64, name = "x", steps = [1 : i64, 2 : i64]}, mutates = array<i64>, pure = true, onnx = "com.acme.Gate"}
  %0 = graph.custom %a, %b {callee = "acme::gate", arguments = {alpha = 1.5 : f64, name = "x", steps = [1 : i64, 2 : i64]}, mutates = array<i64>, pure = true, onnx = "com.acme.Gate"} : (!graph.tensor<[N, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[N, 4], f32>
  // CHECK: mutates = array<i64: 0>
  %1 = graph.custom %a, %b {callee = "acme::write", arguments = {}, mutates = array<i64: 0>, pure = false} : (!graph.tensor<[N, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[N, 4], f32>
  func.return
}
