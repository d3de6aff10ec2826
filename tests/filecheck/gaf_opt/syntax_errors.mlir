// RUN: %verify

func.func @unknown_operation() {
  func.retrun
}
// CHECK:      syntax_errors.mlir:4:3: there is no operation 'func.retrun'
// CHECK-NEXT: {{^}}    func.retrun{{$}}
// CHECK-NEXT: {{^}}    ^^^^^^^^^^^{{$}}
// CHECK-NEXT: hint: did you mean func.return

// -----

func.func @unknown_dialect() {
  "grph.add"() : () -> ()
}
// CHECK: syntax_errors.mlir:14:4: there is no operation 'grph.add'
// CHECK: hint: there is no dialect 'grph' either; the dialects are ascendc, builtin, func, graph, tile

// -----

func.func @wrong_type(%a: i32) -> i32 {
  func.return %a : f32
}
// CHECK: syntax_errors.mlir:22:15: operand is used with type f32, but has been previously used or defined with type i32

// -----

func.func @undefined(%a: i32) -> i32 {
  func.return %missing : i32
}
// CHECK: syntax_errors.mlir:29:15: %missing is used but not defined

// -----

// Later chunks are still read.
func.func @fine() {
  func.return
}
// CHECK: func.func @fine
