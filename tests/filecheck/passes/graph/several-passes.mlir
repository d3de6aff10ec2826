// RUN: gaf-opt %s -p several-passes | filecheck %s

// CHECK-LABEL: func.func @mean
// CHECK: graph.reduce_mean
// CHECK-SAME: gaf.several_passes
func.func @mean(%x: !graph.tensor<[8, 64], f32>) -> !graph.tensor<[8], f32> {
  %0 = graph.reduce_mean %x {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[8, 64], f32>) -> !graph.tensor<[8], f32>
  func.return %0 : !graph.tensor<[8], f32>
}
