// RUN: %verify --allow-unregistered-dialect -p 'verify-level{level=graph}'

// A legal program is printed unchanged.
func.func @legal(%a: i32) -> i32 {
  func.return %a : i32
}
// CHECK-LABEL: func.func @legal

// -----

// xDSL's own verifier accepts a use before the definition in the same block.
func.func @use_before_definition(%a: i32) -> i32 {
  %c = "builtin.unrealized_conversion_cast"(%b) : (i32) -> i32
  %b = "builtin.unrealized_conversion_cast"(%a) : (i32) -> i32
  func.return %c : i32
}
// CHECK: verify_level.mlir:13:3: builtin.unrealized_conversion_cast: operand 0 is used before or outside of its definition
// CHECK-SAME: expected a value defined earlier in this block or in a block around it

// -----

// The block that defines %b doesn't dominate the one that uses it.
func.func @sibling_blocks(%a: i32, %flag: i1) -> i32 {
  "other.branch"(%flag)[^left, ^right] : (i1) -> ()
^left:
  %b = "builtin.unrealized_conversion_cast"(%a) : (i32) -> i32
  func.return %b : i32
^right:
  func.return %b : i32
}
// CHECK: verify_level.mlir:29:3: func.return: operand 0 is used before or outside of its definition

// -----

func.func @foreign_dialect(%a: i32) -> i32 {
  %b = "other.op"(%a) : (i32) -> i32
  func.return %b : i32
}
// CHECK: verify_level.mlir:36:3: other.op: this operation may not occur at the graph level
// CHECK-SAME: expected only the dialects builtin, func, graph

// -----

func.func @wrong_return(%a: i32) -> i64 {
  func.return %a : i32
}
// CHECK: verify_level.mlir:45:3: func.return: Expected arguments to have the same types as the function output types
// CHECK-SAME: expected [i64], got [i32]
