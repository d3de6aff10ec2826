// SPDX-License-Identifier: Apache-2.0
// RUN: %roundtrip
// RUN: %generic

// Every op of the graph dialect, with symbolic dims where its family takes them.

// CHECK-LABEL: func.func @unary
// GENERIC-LABEL: sym_name = "unary"
// GENERIC: "graph.neg"(
func.func @unary(%a0: !graph.tensor<[B, 4], f32>,
    %a1: !graph.tensor<[B, 4], i16>,
    %a2: !graph.tensor<[B, 4], i1>) {
  // CHECK: graph.neg {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %neg = graph.neg %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.abs {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %abs = graph.abs %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.sign {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %sign = graph.sign %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.bitwise_not {{%.*}} : (!graph.tensor<[B, 4], i16>) -> !graph.tensor<[B, 4], i16>
  %bitwise_not = graph.bitwise_not %a1 : (!graph.tensor<[B, 4], i16>) -> !graph.tensor<[B, 4], i16>
  // CHECK: graph.not {{%.*}} : (!graph.tensor<[B, 4], i1>) -> !graph.tensor<[B, 4], i1>
  %not = graph.not %a2 : (!graph.tensor<[B, 4], i1>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.isnan {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], i1>
  %isnan = graph.isnan %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.isinf {{%.*}} {negative = true, positive = true} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], i1>
  %isinf = graph.isinf %a0 {negative = true, positive = true} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.round {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %round = graph.round %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.relu {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %relu = graph.relu %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.exp {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %exp = graph.exp %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.log {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %log = graph.log %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.sqrt {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %sqrt = graph.sqrt %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.rsqrt {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %rsqrt = graph.rsqrt %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.reciprocal {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %reciprocal = graph.reciprocal %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.tanh {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %tanh = graph.tanh %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.sigmoid {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %sigmoid = graph.sigmoid %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.erf {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %erf = graph.erf %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.sin {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %sin = graph.sin %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.cos {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %cos = graph.cos %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.tan {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %tan = graph.tan %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.asin {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %asin = graph.asin %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.acos {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %acos = graph.acos %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.atan {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %atan = graph.atan %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.sinh {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %sinh = graph.sinh %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.cosh {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %cosh = graph.cosh %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.asinh {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %asinh = graph.asinh %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.acosh {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %acosh = graph.acosh %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.atanh {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %atanh = graph.atanh %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.floor {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %floor = graph.floor %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.ceil {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %ceil = graph.ceil %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.trunc {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %trunc = graph.trunc %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  func.return
}

// CHECK-LABEL: func.func @activation
// GENERIC-LABEL: sym_name = "activation"
// GENERIC: "graph.leaky_relu"(
func.func @activation(%a0: !graph.tensor<[B, 4], f32>) {
  // CHECK: graph.leaky_relu {{%.*}} {alpha = 1.000000e-02 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %leaky_relu = graph.leaky_relu %a0 {alpha = 1.000000e-02 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.thresholded_relu {{%.*}} {alpha = 1.000000e+00 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %thresholded_relu = graph.thresholded_relu %a0 {alpha = 1.000000e+00 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.elu {{%.*}} {alpha = 1.000000e+00 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %elu = graph.elu %a0 {alpha = 1.000000e+00 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.selu {{%.*}} {alpha = 1.6732631921768188 : f64, gamma = 1.0507010221481323 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %selu = graph.selu %a0 {alpha = 1.6732631921768188 : f64, gamma = 1.0507010221481323 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.celu {{%.*}} {alpha = 1.000000e+00 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %celu = graph.celu %a0 {alpha = 1.000000e+00 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.hard_sigmoid {{%.*}} {alpha = 2.000000e-01 : f64, beta = 5.000000e-01 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %hard_sigmoid = graph.hard_sigmoid %a0 {alpha = 2.000000e-01 : f64, beta = 5.000000e-01 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.hard_swish {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %hard_swish = graph.hard_swish %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.softplus {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %softplus = graph.softplus %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.softsign {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %softsign = graph.softsign %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.gelu {{%.*}} {approximate = "none"} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %gelu = graph.gelu %a0 {approximate = "none"} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.mish {{%.*}} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %mish = graph.mish %a0 : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.silu {{%.*}} {alpha = 1.000000e+00 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %silu = graph.silu %a0 {alpha = 1.000000e+00 : f64} : (!graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  func.return
}

// CHECK-LABEL: func.func @binary
// GENERIC-LABEL: sym_name = "binary"
// GENERIC: "graph.add"(
func.func @binary(%a0: !graph.tensor<[B, S, 4], f32>,
    %a1: !graph.tensor<[S, 1], f32>,
    %a2: !graph.tensor<[B, 4], f32>,
    %a3: !graph.tensor<[4], f32>,
    %a4: !graph.tensor<[B, 4], i32>,
    %a5: !graph.tensor<[4], i32>) {
  // CHECK: graph.add {{%.*}}, {{%.*}} : (!graph.tensor<[B, S, 4], f32>, !graph.tensor<[S, 1], f32>) -> !graph.tensor<[B, S, 4], f32>
  %add = graph.add %a0, %a1 : (!graph.tensor<[B, S, 4], f32>, !graph.tensor<[S, 1], f32>) -> !graph.tensor<[B, S, 4], f32>
  // CHECK: graph.sub {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  %sub = graph.sub %a2, %a3 : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.mul {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  %mul = graph.mul %a2, %a3 : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.div {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  %div = graph.div %a2, %a3 : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.pow {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  %pow = graph.pow %a2, %a3 : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.max {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  %max = graph.max %a2, %a3 : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.min {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  %min = graph.min %a2, %a3 : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.mod {{%.*}}, {{%.*}} {fmod = true} : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  %mod = graph.mod %a2, %a3 {fmod = true} : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.prelu {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  %prelu = graph.prelu %a2, %a3 : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
  // CHECK: graph.bitwise_and {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i32>, !graph.tensor<[4], i32>) -> !graph.tensor<[B, 4], i32>
  %bitwise_and = graph.bitwise_and %a4, %a5 : (!graph.tensor<[B, 4], i32>, !graph.tensor<[4], i32>) -> !graph.tensor<[B, 4], i32>
  // CHECK: graph.bitwise_or {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i32>, !graph.tensor<[4], i32>) -> !graph.tensor<[B, 4], i32>
  %bitwise_or = graph.bitwise_or %a4, %a5 : (!graph.tensor<[B, 4], i32>, !graph.tensor<[4], i32>) -> !graph.tensor<[B, 4], i32>
  // CHECK: graph.bitwise_xor {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i32>, !graph.tensor<[4], i32>) -> !graph.tensor<[B, 4], i32>
  %bitwise_xor = graph.bitwise_xor %a4, %a5 : (!graph.tensor<[B, 4], i32>, !graph.tensor<[4], i32>) -> !graph.tensor<[B, 4], i32>
  func.return
}

// CHECK-LABEL: func.func @compare
// GENERIC-LABEL: sym_name = "compare"
// GENERIC: "graph.equal"(
func.func @compare(%a0: !graph.tensor<[B, 4], i64>,
    %a1: !graph.tensor<[4], i64>,
    %a2: !graph.tensor<[B, 4], i1>,
    %a3: !graph.tensor<[4], i1>,
    %a4: !graph.tensor<[B, 1], i1>,
    %a5: !graph.tensor<[4], f32>,
    %a6: !graph.tensor<[B, 4], f32>) {
  // CHECK: graph.equal {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  %equal = graph.equal %a0, %a1 : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.not_equal {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  %not_equal = graph.not_equal %a0, %a1 : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.less {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  %less = graph.less %a0, %a1 : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.less_or_equal {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  %less_or_equal = graph.less_or_equal %a0, %a1 : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.greater {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  %greater = graph.greater %a0, %a1 : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.greater_or_equal {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  %greater_or_equal = graph.greater_or_equal %a0, %a1 : (!graph.tensor<[B, 4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.and {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[B, 4], i1>
  %and = graph.and %a2, %a3 : (!graph.tensor<[B, 4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.or {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[B, 4], i1>
  %or = graph.or %a2, %a3 : (!graph.tensor<[B, 4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.xor {{%.*}}, {{%.*}} : (!graph.tensor<[B, 4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[B, 4], i1>
  %xor = graph.xor %a2, %a3 : (!graph.tensor<[B, 4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[B, 4], i1>
  // CHECK: graph.where {{%.*}}, {{%.*}}, {{%.*}} : (!graph.tensor<[B, 1], i1>, !graph.tensor<[4], f32>, !graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  %where = graph.where %a4, %a5, %a6 : (!graph.tensor<[B, 1], i1>, !graph.tensor<[4], f32>, !graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32>
  func.return
}

// CHECK-LABEL: func.func @cast
// GENERIC-LABEL: sym_name = "cast"
// GENERIC: "graph.cast"(
func.func @cast(%a0: !graph.tensor<[2, 3], f32>) {
  // CHECK: graph.cast {{%.*}} {to = f32} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %cast = graph.cast %a0 {to = f32} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return
}

// CHECK-LABEL: func.func @reduce
// GENERIC-LABEL: sym_name = "reduce"
// GENERIC: "graph.reduce_sum"(
func.func @reduce(%a0: !graph.tensor<[2, 3, 4], f32>,
    %a1: !graph.tensor<[B, S, 3], f32>,
    %a2: !graph.tensor<[3, 5], f32>,
    %a3: !graph.tensor<[3, 4], f32>,
    %a4: !graph.tensor<[B, 9], f32>) {
  // CHECK: graph.reduce_sum {{%.*}} {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  %reduce_sum = graph.reduce_sum %a0 {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  // CHECK: graph.reduce_mean {{%.*}} {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[B, S, 3], f32>) -> !graph.tensor<[B, 3], f32>
  %reduce_mean = graph.reduce_mean %a1 {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[B, S, 3], f32>) -> !graph.tensor<[B, 3], f32>
  // CHECK: graph.reduce_max {{%.*}} {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  %reduce_max = graph.reduce_max %a0 {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  // CHECK: graph.reduce_min {{%.*}} {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  %reduce_min = graph.reduce_min %a0 {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  // CHECK: graph.reduce_prod {{%.*}} {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  %reduce_prod = graph.reduce_prod %a0 {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  // CHECK: graph.reduce_l1 {{%.*}} {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  %reduce_l1 = graph.reduce_l1 %a0 {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  // CHECK: graph.reduce_sum_square {{%.*}} {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  %reduce_sum_square = graph.reduce_sum_square %a0 {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  // CHECK: graph.reduce_l2 {{%.*}} {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  %reduce_l2 = graph.reduce_l2 %a0 {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  // CHECK: graph.reduce_log_sum {{%.*}} {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  %reduce_log_sum = graph.reduce_log_sum %a0 {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  // CHECK: graph.reduce_log_sum_exp {{%.*}} {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  %reduce_log_sum_exp = graph.reduce_log_sum_exp %a0 {axes = array<i64: 1>, keepdims = true} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 1, 4], f32>
  // CHECK: graph.argmax {{%.*}} {axis = 1 : i64, keepdims = true, select_last = true} : (!graph.tensor<[3, 5], f32>) -> !graph.tensor<[3, 1], i64>
  %argmax = graph.argmax %a2 {axis = 1 : i64, keepdims = true, select_last = true} : (!graph.tensor<[3, 5], f32>) -> !graph.tensor<[3, 1], i64>
  // CHECK: graph.argmin {{%.*}} {axis = 1 : i64, keepdims = true, select_last = true} : (!graph.tensor<[3, 5], f32>) -> !graph.tensor<[3, 1], i64>
  %argmin = graph.argmin %a2 {axis = 1 : i64, keepdims = true, select_last = true} : (!graph.tensor<[3, 5], f32>) -> !graph.tensor<[3, 1], i64>
  // CHECK: graph.cumsum {{%.*}} {axis = 1 : i64, exclusive = true, reverse = true} : (!graph.tensor<[3, 4], f32>) -> !graph.tensor<[3, 4], f32>
  %cumsum = graph.cumsum %a3 {axis = 1 : i64, exclusive = true, reverse = true} : (!graph.tensor<[3, 4], f32>) -> !graph.tensor<[3, 4], f32>
  // CHECK: graph.topk {{%.*}} {k = #graph.shape<[S]>, axis = 1 : i64, largest = true} : (!graph.tensor<[B, 9], f32>) -> (!graph.tensor<[B, S], f32>, !graph.tensor<[B, S], i64>)
  %topk0, %topk1 = graph.topk %a4 {k = #graph.shape<[S]>, axis = 1 : i64, largest = true} : (!graph.tensor<[B, 9], f32>) -> (!graph.tensor<[B, S], f32>, !graph.tensor<[B, S], i64>)
  func.return
}

// CHECK-LABEL: func.func @matmul
// GENERIC-LABEL: sym_name = "matmul"
// GENERIC: "graph.matmul"(
func.func @matmul(%a0: !graph.tensor<[B, S, 4], f32>,
    %a1: !graph.tensor<[4, 3], f32>) {
  // CHECK: graph.matmul {{%.*}}, {{%.*}} : (!graph.tensor<[B, S, 4], f32>, !graph.tensor<[4, 3], f32>) -> !graph.tensor<[B, S, 3], f32>
  %matmul = graph.matmul %a0, %a1 : (!graph.tensor<[B, S, 4], f32>, !graph.tensor<[4, 3], f32>) -> !graph.tensor<[B, S, 3], f32>
  func.return
}

// CHECK-LABEL: func.func @norm
// GENERIC-LABEL: sym_name = "norm"
// GENERIC: "graph.softmax"(
func.func @norm(%a0: !graph.tensor<[B, S], f32>,
    %a1: !graph.tensor<[2, 3, 4], f32>,
    %a2: !graph.tensor<[B, S, 4], f32>,
    %a3: !graph.tensor<[4], f32>,
    %a4: !graph.tensor<[4], f32>,
    %a5: !graph.tensor<[3], f32>,
    %a6: !graph.tensor<[3], f32>,
    %a7: !graph.tensor<[3], f32>,
    %a8: !graph.tensor<[3], f32>,
    %a9: !graph.tensor<[B, 6, S], f32>,
    %a10: !graph.tensor<[6], f32>,
    %a11: !graph.tensor<[6], f32>) {
  // CHECK: graph.softmax {{%.*}} {axes = array<i64: 1>} : (!graph.tensor<[B, S], f32>) -> !graph.tensor<[B, S], f32>
  %softmax = graph.softmax %a0 {axes = array<i64: 1>} : (!graph.tensor<[B, S], f32>) -> !graph.tensor<[B, S], f32>
  // CHECK: graph.log_softmax {{%.*}} {axes = array<i64: -1>} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 3, 4], f32>
  %log_softmax = graph.log_softmax %a1 {axes = array<i64: -1>} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[2, 3, 4], f32>
  // CHECK: graph.layer_norm {{%.*}}, {{%.*}}, {{%.*}} {axis = -1 : i64, epsilon = 1.000000e-05 : f64, stash = false} : (!graph.tensor<[B, S, 4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, S, 4], f32>
  %layer_norm = graph.layer_norm %a2, %a3, %a4 {axis = -1 : i64, epsilon = 1.000000e-05 : f64, stash = false} : (!graph.tensor<[B, S, 4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, S, 4], f32>
  // CHECK: graph.rms_norm {{%.*}}, {{%.*}} {axis = -1 : i64, epsilon = 1.000000e-05 : f64} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[2, 3, 4], f32>
  %rms_norm = graph.rms_norm %a1, %a3 {axis = -1 : i64, epsilon = 1.000000e-05 : f64} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[2, 3, 4], f32>
  // CHECK: graph.batch_norm {{%.*}}, {{%.*}}, {{%.*}}, {{%.*}}, {{%.*}} {epsilon = 1.000000e-05 : f64} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[2, 3, 4], f32>
  %batch_norm = graph.batch_norm %a1, %a5, %a6, %a7, %a8 {epsilon = 1.000000e-05 : f64} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[2, 3, 4], f32>
  // CHECK: graph.instance_norm {{%.*}}, {{%.*}}, {{%.*}} {epsilon = 1.000000e-05 : f64} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[2, 3, 4], f32>
  %instance_norm = graph.instance_norm %a1, %a5, %a6 {epsilon = 1.000000e-05 : f64} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[2, 3, 4], f32>
  // CHECK: graph.group_norm {{%.*}}, {{%.*}}, {{%.*}} {num_groups = 2 : i64, epsilon = 1.000000e-05 : f64} : (!graph.tensor<[B, 6, S], f32>, !graph.tensor<[6], f32>, !graph.tensor<[6], f32>) -> !graph.tensor<[B, 6, S], f32>
  %group_norm = graph.group_norm %a9, %a10, %a11 {num_groups = 2 : i64, epsilon = 1.000000e-05 : f64} : (!graph.tensor<[B, 6, S], f32>, !graph.tensor<[6], f32>, !graph.tensor<[6], f32>) -> !graph.tensor<[B, 6, S], f32>
  func.return
}

// CHECK-LABEL: func.func @shape
// GENERIC-LABEL: sym_name = "shape"
// GENERIC: "graph.reshape"(
func.func @shape(%a0: !graph.tensor<[B, S, 12], f32>,
    %a1: !graph.tensor<[1, 2, 1], f32>,
    %a2: !graph.tensor<[2, 3], f32>,
    %a3: !graph.tensor<[B, S, 4], f32>,
    %a4: !graph.tensor<[B, 1, S], f32>,
    %a5: !graph.tensor<[B, 2], f32>,
    %a6: !graph.tensor<[B, S], f32>) {
  // CHECK: graph.reshape {{%.*}} {shape = #graph.shape<[B * S, 12]>} : (!graph.tensor<[B, S, 12], f32>) -> !graph.tensor<[B * S, 12], f32>
  %reshape = graph.reshape %a0 {shape = #graph.shape<[B * S, 12]>} : (!graph.tensor<[B, S, 12], f32>) -> !graph.tensor<[B * S, 12], f32>
  // CHECK: graph.squeeze {{%.*}} {axes = array<i64: 0, 2>} : (!graph.tensor<[1, 2, 1], f32>) -> !graph.tensor<[2], f32>
  %squeeze = graph.squeeze %a1 {axes = array<i64: 0, 2>} : (!graph.tensor<[1, 2, 1], f32>) -> !graph.tensor<[2], f32>
  // CHECK: graph.unsqueeze {{%.*}} {axes = array<i64: 0, 2>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[1, 2, 1, 3], f32>
  %unsqueeze = graph.unsqueeze %a2 {axes = array<i64: 0, 2>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[1, 2, 1, 3], f32>
  // CHECK: graph.transpose {{%.*}} {perm = array<i64: 1, 2, 0>} : (!graph.tensor<[B, S, 4], f32>) -> !graph.tensor<[S, 4, B], f32>
  %transpose = graph.transpose %a3 {perm = array<i64: 1, 2, 0>} : (!graph.tensor<[B, S, 4], f32>) -> !graph.tensor<[S, 4, B], f32>
  // CHECK: graph.expand {{%.*}} {shape = #graph.shape<[B, 3, S]>} : (!graph.tensor<[B, 1, S], f32>) -> !graph.tensor<[B, 3, S], f32>
  %expand = graph.expand %a4 {shape = #graph.shape<[B, 3, S]>} : (!graph.tensor<[B, 1, S], f32>) -> !graph.tensor<[B, 3, S], f32>
  // CHECK: graph.tile {{%.*}} {repeats = #graph.shape<[S, 2]>} : (!graph.tensor<[B, 2], f32>) -> !graph.tensor<[B * S, 4], f32>
  %tile = graph.tile %a5 {repeats = #graph.shape<[S, 2]>} : (!graph.tensor<[B, 2], f32>) -> !graph.tensor<[B * S, 4], f32>
  // CHECK: graph.flip {{%.*}} {axes = array<i64: 1>} : (!graph.tensor<[B, S], f32>) -> !graph.tensor<[B, S], f32>
  %flip = graph.flip %a6 {axes = array<i64: 1>} : (!graph.tensor<[B, S], f32>) -> !graph.tensor<[B, S], f32>
  func.return
}

// CHECK-LABEL: func.func @slice
// GENERIC-LABEL: sym_name = "slice"
// GENERIC: "graph.slice"(
func.func @slice(%a0: !graph.tensor<[6, S], f32>,
    %a1: !graph.tensor<[B, 2], f32>,
    %a2: !graph.tensor<[B, S], f32>,
    %a3: !graph.tensor<[B, 1], f32>,
    %a4: !graph.tensor<[S, 2], f32>) {
  // CHECK: graph.slice {{%.*}} {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[B, S]>, steps = array<i64: 1, 1>} : (!graph.tensor<[6, S], f32>) -> !graph.tensor<[B, S], f32>
  %slice = graph.slice %a0 {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[B, S]>, steps = array<i64: 1, 1>} : (!graph.tensor<[6, S], f32>) -> !graph.tensor<[B, S], f32>
  // CHECK: graph.concat {{%.*}}, {{%.*}}, {{%.*}} {axis = 1 : i64} : (!graph.tensor<[B, 2], f32>, !graph.tensor<[B, S], f32>, !graph.tensor<[B, 1], f32>) -> !graph.tensor<[B, S + 3], f32>
  %concat = graph.concat %a1, %a2, %a3 {axis = 1 : i64} : (!graph.tensor<[B, 2], f32>, !graph.tensor<[B, S], f32>, !graph.tensor<[B, 1], f32>) -> !graph.tensor<[B, S + 3], f32>
  // CHECK: graph.pad {{%.*}} {before = #graph.shape<[B, 0]>, after = #graph.shape<[0, 1]>, mode = "constant", value = 1.500000e+00 : f64} : (!graph.tensor<[S, 2], f32>) -> !graph.tensor<[B + S, 3], f32>
  %pad = graph.pad %a4 {before = #graph.shape<[B, 0]>, after = #graph.shape<[0, 1]>, mode = "constant", value = 1.500000e+00 : f64} : (!graph.tensor<[S, 2], f32>) -> !graph.tensor<[B + S, 3], f32>
  func.return
}

// CHECK-LABEL: func.func @index
// GENERIC-LABEL: sym_name = "index"
// GENERIC: "graph.gather"(
func.func @index(%a0: !graph.tensor<[2, 3, 4], f32>,
    %a1: !graph.tensor<[2, 2], i64>,
    %a2: !graph.tensor<[3, 4], f32>,
    %a3: !graph.tensor<[3, 2], i64>,
    %a4: !graph.tensor<[5, 2], i64>,
    %a5: !graph.tensor<[3, 3], f32>,
    %a6: !graph.tensor<[2, 3], i64>,
    %a7: !graph.tensor<[2, 3], f32>,
    %a8: !graph.tensor<[2, 1], i64>,
    %a9: !graph.tensor<[2, 4], f32>,
    %a10: !graph.tensor<[4], i64>,
    %a11: !graph.tensor<[2], f32>) {
  // CHECK: graph.gather {{%.*}}, {{%.*}} {axis = 1 : i64, wrap = false} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[2, 2], i64>) -> !graph.tensor<[2, 2, 2, 4], f32>
  %gather = graph.gather %a0, %a1 {axis = 1 : i64, wrap = false} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[2, 2], i64>) -> !graph.tensor<[2, 2, 2, 4], f32>
  // CHECK: graph.gather_elements {{%.*}}, {{%.*}} {axis = 1 : i64, wrap = true} : (!graph.tensor<[3, 4], f32>, !graph.tensor<[3, 2], i64>) -> !graph.tensor<[3, 2], f32>
  %gather_elements = graph.gather_elements %a2, %a3 {axis = 1 : i64, wrap = true} : (!graph.tensor<[3, 4], f32>, !graph.tensor<[3, 2], i64>) -> !graph.tensor<[3, 2], f32>
  // CHECK: graph.gather_nd {{%.*}}, {{%.*}} {batch_dims = 0 : i64, wrap = false} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[5, 2], i64>) -> !graph.tensor<[5, 4], f32>
  %gather_nd = graph.gather_nd %a0, %a4 {batch_dims = 0 : i64, wrap = false} : (!graph.tensor<[2, 3, 4], f32>, !graph.tensor<[5, 2], i64>) -> !graph.tensor<[5, 4], f32>
  // CHECK: graph.scatter_elements {{%.*}}, {{%.*}}, {{%.*}} {axis = 0 : i64, reduction = "none"} : (!graph.tensor<[3, 3], f32>, !graph.tensor<[2, 3], i64>, !graph.tensor<[2, 3], f32>) -> !graph.tensor<[3, 3], f32>
  %scatter_elements = graph.scatter_elements %a5, %a6, %a7 {axis = 0 : i64, reduction = "none"} : (!graph.tensor<[3, 3], f32>, !graph.tensor<[2, 3], i64>, !graph.tensor<[2, 3], f32>) -> !graph.tensor<[3, 3], f32>
  // CHECK: graph.scatter_nd {{%.*}}, {{%.*}}, {{%.*}} {reduction = "none"} : (!graph.tensor<[3, 4], f32>, !graph.tensor<[2, 1], i64>, !graph.tensor<[2, 4], f32>) -> !graph.tensor<[3, 4], f32>
  %scatter_nd = graph.scatter_nd %a2, %a8, %a9 {reduction = "none"} : (!graph.tensor<[3, 4], f32>, !graph.tensor<[2, 1], i64>, !graph.tensor<[2, 4], f32>) -> !graph.tensor<[3, 4], f32>
  // CHECK: graph.one_hot {{%.*}}, {{%.*}} {depth = #graph.shape<[3]>, axis = -1 : i64} : (!graph.tensor<[4], i64>, !graph.tensor<[2], f32>) -> !graph.tensor<[4, 3], f32>
  %one_hot = graph.one_hot %a10, %a11 {depth = #graph.shape<[3]>, axis = -1 : i64} : (!graph.tensor<[4], i64>, !graph.tensor<[2], f32>) -> !graph.tensor<[4, 3], f32>
  // CHECK: graph.nonzero {{%.*}} {count = #graph.shape<[nonzero]>} : (!graph.tensor<[3, 4], f32>) -> !graph.tensor<[2, nonzero], i64>
  %nonzero = graph.nonzero %a2 {count = #graph.shape<[nonzero]>} : (!graph.tensor<[3, 4], f32>) -> !graph.tensor<[2, nonzero], i64>
  func.return
}

// CHECK-LABEL: func.func @create
// GENERIC-LABEL: sym_name = "create"
// GENERIC: "graph.full"(
func.func @create(%a0: !graph.tensor<[], f32>,
    %a1: !graph.tensor<[], f32>,
    %a2: !graph.tensor<[S, S], f32>,
    %a3: !graph.tensor<[2, 3, 4], f32>) {
  // CHECK: graph.full {shape = #graph.shape<[B, S]>, value = #graph.array<f32 [] : 2.0>} : () -> !graph.tensor<[B, S], f32>
  %full = graph.full {shape = #graph.shape<[B, S]>, value = #graph.array<f32 [] : 2.0>} : () -> !graph.tensor<[B, S], f32>
  // CHECK: graph.range {{%.*}}, {{%.*}} {count = #graph.shape<[S]>} : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[S], f32>
  %range = graph.range %a0, %a1 {count = #graph.shape<[S]>} : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[S], f32>
  // CHECK: graph.eye {shape = #graph.shape<[S, B]>, k = 0 : i64, dtype = f32} : () -> !graph.tensor<[S, B], f32>
  %eye = graph.eye {shape = #graph.shape<[S, B]>, k = 0 : i64, dtype = f32} : () -> !graph.tensor<[S, B], f32>
  // CHECK: graph.trilu {{%.*}} {upper = false, k = 0 : i64} : (!graph.tensor<[S, S], f32>) -> !graph.tensor<[S, S], f32>
  %trilu = graph.trilu %a2 {upper = false, k = 0 : i64} : (!graph.tensor<[S, S], f32>) -> !graph.tensor<[S, S], f32>
  // CHECK: graph.shape {{%.*}} {start = 0 : i64, end = 3 : i64} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[3], i64>
  %shape = graph.shape %a3 {start = 0 : i64, end = 3 : i64} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[3], i64>
  // CHECK: graph.size {{%.*}} : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[], i64>
  %size = graph.size %a3 : (!graph.tensor<[2, 3, 4], f32>) -> !graph.tensor<[], i64>
  func.return
}

// CHECK-LABEL: func.func @conv
// GENERIC-LABEL: sym_name = "conv"
// GENERIC: "graph.conv"(
func.func @conv(%a0: !graph.tensor<[2, 3, 7], f32>,
    %a1: !graph.tensor<[4, 3, 3], f32>,
    %a2: !graph.tensor<[1, 2, 3, 3], f32>,
    %a3: !graph.tensor<[2, 3, 2, 2], f32>) {
  // CHECK: graph.conv {{%.*}}, {{%.*}} {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64} : (!graph.tensor<[2, 3, 7], f32>, !graph.tensor<[4, 3, 3], f32>) -> !graph.tensor<[2, 4, 5], f32>
  %conv = graph.conv %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64} : (!graph.tensor<[2, 3, 7], f32>, !graph.tensor<[4, 3, 3], f32>) -> !graph.tensor<[2, 4, 5], f32>
  // CHECK: graph.conv_transpose {{%.*}}, {{%.*}} {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>} : (!graph.tensor<[1, 2, 3, 3], f32>, !graph.tensor<[2, 3, 2, 2], f32>) -> !graph.tensor<[1, 3, 6, 6], f32>
  %conv_transpose = graph.conv_transpose %a2, %a3 {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>} : (!graph.tensor<[1, 2, 3, 3], f32>, !graph.tensor<[2, 3, 2, 2], f32>) -> !graph.tensor<[1, 3, 6, 6], f32>
  func.return
}

// CHECK-LABEL: func.func @pool
// GENERIC-LABEL: sym_name = "pool"
// GENERIC: "graph.max_pool"(
func.func @pool(%a0: !graph.tensor<[1, 2, 6, 7], f32>) {
  // CHECK: graph.max_pool {{%.*}} {kernel = array<i64: 3, 2>, ceil_mode = false, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (!graph.tensor<[1, 2, 6, 7], f32>) -> !graph.tensor<[1, 2, 3, 4], f32>
  %max_pool = graph.max_pool %a0 {kernel = array<i64: 3, 2>, ceil_mode = false, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (!graph.tensor<[1, 2, 6, 7], f32>) -> !graph.tensor<[1, 2, 3, 4], f32>
  // CHECK: graph.average_pool {{%.*}} {kernel = array<i64: 3, 2>, ceil_mode = false, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, count_include_pad = false} : (!graph.tensor<[1, 2, 6, 7], f32>) -> !graph.tensor<[1, 2, 3, 4], f32>
  %average_pool = graph.average_pool %a0 {kernel = array<i64: 3, 2>, ceil_mode = false, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, count_include_pad = false} : (!graph.tensor<[1, 2, 6, 7], f32>) -> !graph.tensor<[1, 2, 3, 4], f32>
  func.return
}

// CHECK-LABEL: func.func @structure
// GENERIC-LABEL: sym_name = "structure"
// GENERIC: "graph.constant"() <{value = #graph.array<f32 [3] : 1.5, inf, 0x7fc00000>}>
func.func @structure(%x: !graph.tensor<[B, 4], f32>) -> !graph.tensor<[B, 4], f32> {
  // CHECK: graph.constant {value = #graph.array<f32 [3] : 1.5, inf, 0x7fc00000>} : () -> !graph.tensor<[3], f32>
  %c = graph.constant {value = #graph.array<f32 [3] : 1.5, inf, 0x7fc00000>} : () -> !graph.tensor<[3], f32>
  // CHECK: [[W:%.*]] = graph.weight {weight = "encoder.scale"} : () -> !graph.tensor<[4], f32>
  %w = graph.weight {weight = "encoder.scale"} : () -> !graph.tensor<[4], f32>
  // CHECK: graph.fused "elementwise" @scale([[A:%.*]] = %{{.*}} : !graph.tensor<[B, 4], f32>, [[B:%.*]] = [[W]] : !graph.tensor<[4], f32>) -> (!graph.tensor<[B, 4], f32>) {
  // CHECK-NEXT: [[P:%.*]] = graph.mul [[A]], [[B]]
  // CHECK-NEXT: graph.yield [[P]] : !graph.tensor<[B, 4], f32>
  %y = graph.fused "elementwise" @scale(%a = %x : !graph.tensor<[B, 4], f32>, %b = %w : !graph.tensor<[4], f32>) -> (!graph.tensor<[B, 4], f32>) {
    %p = graph.mul %a, %b : (!graph.tensor<[B, 4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[B, 4], f32>
    graph.yield %p : !graph.tensor<[B, 4], f32>
  }
  func.return %y : !graph.tensor<[B, 4], f32>
}
