// RUN: gaf-opt %s -p cse | filecheck %s

// Equal ops and constants are merged, in either order of a sum; constants of other bits are not.
func.func @merge(%x: !graph.tensor<[4], f32>, %y: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %two = graph.constant {value = #graph.array<f32 [] : 2.0>} : () -> !graph.tensor<[], f32>
  %four = graph.constant {value = #graph.array<f32 [] : 4.0>} : () -> !graph.tensor<[], f32>
  %again = graph.constant {value = #graph.array<f32 [] : 2.0>} : () -> !graph.tensor<[], f32>
  %a = graph.add %x, %y : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %b = graph.add %y, %x : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %c = graph.div %a, %two : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %d = graph.div %b, %again : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %e = graph.div %b, %four : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %f = graph.sub %c, %d : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %g = graph.sub %f, %e : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %g : !graph.tensor<[4], f32>
}
// CHECK-LABEL: func.func @merge
// CHECK-SAME:  ([[X:%.*]]: !graph.tensor<[4], f32>, [[Y:%.*]]: !graph.tensor<[4], f32>)
// CHECK-NEXT:  [[TWO:%.*]] = graph.constant {value = #graph.array<f32 [] : 2.0>}
// CHECK-NEXT:  [[FOUR:%.*]] = graph.constant {value = #graph.array<f32 [] : 4.0>}
// CHECK-NEXT:  [[A:%.*]] = graph.add [[X]], [[Y]]
// CHECK-NEXT:  [[C:%.*]] = graph.div [[A]], [[TWO]]
// CHECK-NEXT:  [[E:%.*]] = graph.div [[A]], [[FOUR]]
// CHECK-NEXT:  [[F:%.*]] = graph.sub [[C]], [[C]]
// CHECK-NEXT:  graph.sub [[F]], [[E]]

// Weights with one name are one.
func.func @weights() -> (!graph.tensor<[99], f32>, !graph.tensor<[99], f32>, !graph.tensor<[99], f32>) {
  %a = graph.weight {weight = "w"} : () -> !graph.tensor<[99], f32>
  %b = graph.weight {weight = "w"} : () -> !graph.tensor<[99], f32>
  %c = graph.weight {weight = "v"} : () -> !graph.tensor<[99], f32>
  func.return %a, %b, %c : !graph.tensor<[99], f32>, !graph.tensor<[99], f32>, !graph.tensor<[99], f32>
}
// CHECK-LABEL: func.func @weights
// CHECK-NEXT:  [[A:%.*]] = graph.weight {weight = "w"}
// CHECK-NEXT:  [[C:%.*]] = graph.weight {weight = "v"}
// CHECK-NEXT:  func.return [[A]], [[A]], [[C]]
