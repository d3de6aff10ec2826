// RUN: gaf-opt %s -p fold-constants | filecheck %s
// RUN: gaf-opt %s -p 'fold-constants{max-bytes=0}' | filecheck %s --check-prefix=CAPPED

// A chain of operations on constants leaves its last result.
func.func @chain(%x: !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32> {
  %a = graph.constant {value = #graph.array<i8 [2] : 3, -5>} : () -> !graph.tensor<[2], i8>
  %s = graph.constant {value = #graph.array<f32 [] : 0.5>} : () -> !graph.tensor<[], f32>
  %f = graph.cast %a {to = f32} : (!graph.tensor<[2], i8>) -> !graph.tensor<[2], f32>
  %w = graph.mul %f, %s : (!graph.tensor<[2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2], f32>
  %y = graph.add %x, %w : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return %y : !graph.tensor<[2], f32>
}
// CHECK-LABEL:  func.func @chain
// CHECK-NEXT:   [[W:%.*]] = graph.constant {value = #graph.array<f32 [2] : 1.5, -2.5>}
// CHECK-NEXT:   [[Y:%.*]] = graph.add {{%.*}}, [[W]]
// CHECK-NEXT:   func.return [[Y]]
// CAPPED-LABEL: func.func @chain
// CAPPED:       graph.cast
// CAPPED:       graph.mul

// A weight whose content isn't at hand, symbolic sizes, and a broadcast are left alone.
func.func @stays(%x: !graph.tensor<[B, 32, 4], f32>) -> (!graph.tensor<[B, 32, 4], f32>, !graph.tensor<[32, 4], f32>) {
  %w = graph.weight {weight = "w"} : () -> !graph.tensor<[32, 4], f32>
  %n = graph.neg %w : (!graph.tensor<[32, 4], f32>) -> !graph.tensor<[32, 4], f32>
  %c = graph.constant {value = #graph.array<f32 [] : 0.5>} : () -> !graph.tensor<[], f32>
  %e = graph.expand %c {shape = #graph.shape<[B, 32, 4]>} : (!graph.tensor<[], f32>) -> !graph.tensor<[B, 32, 4], f32>
  %f = graph.expand %c {shape = #graph.shape<[32, 4]>} : (!graph.tensor<[], f32>) -> !graph.tensor<[32, 4], f32>
  %y = graph.add %x, %n : (!graph.tensor<[B, 32, 4], f32>, !graph.tensor<[32, 4], f32>) -> !graph.tensor<[B, 32, 4], f32>
  %z = graph.add %y, %e : (!graph.tensor<[B, 32, 4], f32>, !graph.tensor<[B, 32, 4], f32>) -> !graph.tensor<[B, 32, 4], f32>
  func.return %z, %f : !graph.tensor<[B, 32, 4], f32>, !graph.tensor<[32, 4], f32>
}
// CHECK-LABEL: func.func @stays
// CHECK-NEXT:  [[W:%.*]] = graph.weight {weight = "w"}
// CHECK-NEXT:  graph.neg [[W]]
// CHECK-NEXT:  [[C:%.*]] = graph.constant
// CHECK-NEXT:  graph.expand [[C]]
// CHECK-NEXT:  graph.expand [[C]]

// Tensors without elements are known: what is made of them is a constant, and the sum over none of them, too.
func.func @empty(%x: !graph.tensor<[2, 0, 3], f32>) -> (!graph.tensor<[2, 3], f32>, !graph.tensor<[2, 0, 3], f32>) {
  %e = graph.exp %x : (!graph.tensor<[2, 0, 3], f32>) -> !graph.tensor<[2, 0, 3], f32>
  %s = graph.reduce_sum %e {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[2, 0, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return %s, %e : !graph.tensor<[2, 3], f32>, !graph.tensor<[2, 0, 3], f32>
}
// CHECK-LABEL: func.func @empty
// CHECK-NOT:   graph.exp
// CHECK-NOT:   graph.reduce_sum
// CHECK:       #graph.array<f32 [2, 3] : 0.0, 0.0, 0.0, 0.0, 0.0, 0.0>
// CHECK:       func.return
