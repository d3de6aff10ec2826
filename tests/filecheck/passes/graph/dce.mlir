// RUN: gaf-opt %s -p dce | filecheck %s

// A chain without use vanishes from its end.
func.func @dead(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %w = graph.weight {weight = "w"} : () -> !graph.tensor<[4], f32>
  %a = graph.exp %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %b = graph.add %a, %w : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %c = graph.neg %b : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %a : !graph.tensor<[4], f32>
}
// CHECK-LABEL: func.func @dead
// CHECK-SAME:  ([[X:%.*]]: !graph.tensor
// CHECK-NEXT:  [[A:%.*]] = graph.exp [[X]]
// CHECK-NEXT:  func.return [[A]]

// An op that may have effects stays; one that has none goes.
func.func @effects(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %a = graph.foreign %x {framework = "onnx", domain = "com.acme", op_type = "Log", opset = 1 : i64, pure = false, node = "input: \"i0\" output: \"o0\" op_type: \"Log\""} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %b = graph.foreign %x {framework = "onnx", domain = "com.acme", op_type = "Gate", opset = 1 : i64, pure = true, node = "input: \"i0\" output: \"o0\" op_type: \"Gate\""} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %x : !graph.tensor<[4], f32>
}
// CHECK-LABEL: func.func @effects
// CHECK:       op_type = "Log"
// CHECK-NOT:   op_type = "Gate"
// CHECK:       func.return
