// RUN: gaf-opt %s -p canonicalize,dce | filecheck %s

// The constant goes to the right and the division by a power of two becomes a product.
func.func @constants(%x: !graph.tensor<[B, 8], f32>) -> !graph.tensor<[B, 8], f32> {
  %c = graph.constant {value = #graph.array<f32 [] : 3.0>} : () -> !graph.tensor<[], f32>
  %eight = graph.constant {value = #graph.array<f32 [] : 8.0>} : () -> !graph.tensor<[], f32>
  %a = graph.add %c, %x : (!graph.tensor<[], f32>, !graph.tensor<[B, 8], f32>) -> !graph.tensor<[B, 8], f32>
  %d = graph.div %a, %eight : (!graph.tensor<[B, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[B, 8], f32>
  func.return %d : !graph.tensor<[B, 8], f32>
}
// CHECK-LABEL: func.func @constants
// CHECK-SAME:  ([[X:%.*]]: !graph.tensor
// CHECK:       [[C:%.*]] = graph.constant {value = #graph.array<f32 [] : 3.0>}
// CHECK:       [[A:%.*]] = graph.add [[X]], [[C]]
// CHECK:       [[I:%.*]] = graph.constant {value = #graph.array<f32 [] : 0.125>}
// CHECK:       [[D:%.*]] = graph.mul [[A]], [[I]]
// CHECK:       func.return [[D]]

// x - 0 is x, but x + 0 turns -0 into 0, and a third is no power of two.
func.func @what_rounds_stays(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %zero = graph.constant {value = #graph.array<f32 [] : 0.0>} : () -> !graph.tensor<[], f32>
  %three = graph.constant {value = #graph.array<f32 [] : 3.0>} : () -> !graph.tensor<[], f32>
  %a = graph.sub %x, %zero : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %b = graph.add %a, %zero : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %c = graph.div %b, %three : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  func.return %c : !graph.tensor<[4], f32>
}
// CHECK-LABEL: func.func @what_rounds_stays
// CHECK-SAME:  ([[X:%.*]]: !graph.tensor
// CHECK-NOT:   graph.sub
// CHECK:       [[B:%.*]] = graph.add [[X]],
// CHECK:       [[C:%.*]] = graph.div [[B]],
// CHECK:       func.return [[C]]

// f16 -> f32 -> f16 changes nothing; f32 -> f16 -> f32 rounds.
func.func @casts(%h: !graph.tensor<[4], f16>, %f: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f16>, !graph.tensor<[4], f32>) {
  %a = graph.cast %h {to = f32} : (!graph.tensor<[4], f16>) -> !graph.tensor<[4], f32>
  %b = graph.cast %a {to = f16} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f16>
  %c = graph.cast %f {to = f16} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f16>
  %d = graph.cast %c {to = f32} : (!graph.tensor<[4], f16>) -> !graph.tensor<[4], f32>
  func.return %b, %d : !graph.tensor<[4], f16>, !graph.tensor<[4], f32>
}
// CHECK-LABEL: func.func @casts
// CHECK-SAME:  ([[H:%.*]]: !graph.tensor<[4], f16>, [[F:%.*]]: !graph.tensor<[4], f32>)
// CHECK-NEXT:  [[C:%.*]] = graph.cast [[F]] {to = f16}
// CHECK-NEXT:  [[D:%.*]] = graph.cast [[C]] {to = f32}
// CHECK-NEXT:  func.return [[H]], [[D]]

// Heads are split and joined again: with symbolic sizes, too, nothing is left.
func.func @views(%x: !graph.tensor<[B, S, 768], f32>) -> !graph.tensor<[B * S, 768], f32> {
  %a = graph.reshape %x {shape = #graph.shape<[B, S, 12, 64]>} : (!graph.tensor<[B, S, 768], f32>) -> !graph.tensor<[B, S, 12, 64], f32>
  %b = graph.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (!graph.tensor<[B, S, 12, 64], f32>) -> !graph.tensor<[B, 12, S, 64], f32>
  %c = graph.transpose %b {perm = array<i64: 0, 2, 1, 3>} : (!graph.tensor<[B, 12, S, 64], f32>) -> !graph.tensor<[B, S, 12, 64], f32>
  %d = graph.reshape %c {shape = #graph.shape<[B, S, 768]>} : (!graph.tensor<[B, S, 12, 64], f32>) -> !graph.tensor<[B, S, 768], f32>
  %e = graph.reshape %d {shape = #graph.shape<[B * S, 768]>} : (!graph.tensor<[B, S, 768], f32>) -> !graph.tensor<[B * S, 768], f32>
  func.return %e : !graph.tensor<[B * S, 768], f32>
}
// CHECK-LABEL: func.func @views
// CHECK-SAME:  ([[X:%.*]]: !graph.tensor
// CHECK-NEXT:  [[E:%.*]] = graph.reshape [[X]] {shape = #graph.shape<[B * S, 768]>}
// CHECK-NEXT:  func.return [[E]]

// The exponent 0.5 is a square root only where the operand can't be negative.
func.func @powers(%x: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %two = graph.constant {value = #graph.array<f32 [] : 2.0>} : () -> !graph.tensor<[], f32>
  %half = graph.constant {value = #graph.array<f32 [] : 0.5>} : () -> !graph.tensor<[], f32>
  %s = graph.pow %x, %two : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %r = graph.pow %s, %half : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %q = graph.pow %x, %half : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  func.return %r, %q : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}
// CHECK-LABEL: func.func @powers
// CHECK-SAME:  ([[X:%.*]]: !graph.tensor
// CHECK:       [[S:%.*]] = graph.mul [[X]], [[X]]
// CHECK:       [[R:%.*]] = graph.sqrt [[S]]
// CHECK:       [[Q:%.*]] = graph.pow [[X]],
// CHECK:       func.return [[R]], [[Q]]

// Inside a region the same rules hold.
func.func @region(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %y = graph.fused "elementwise" @neg (%a = %x : !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>) {
    %n = graph.neg %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %m = graph.neg %n : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    %o = graph.neg %m : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    graph.yield %o : !graph.tensor<[4], f32>
  }
  func.return %y : !graph.tensor<[4], f32>
}
// CHECK-LABEL: func.func @region
// CHECK:       graph.fused "elementwise" @neg{{ ?}}([[A:%.*]] = {{%.*}} : !graph.tensor<[4], f32>)
// CHECK-NEXT:  [[N:%.*]] = graph.neg [[A]]
// CHECK-NEXT:  graph.yield [[N]]

// An integer less itself is 0; a float may be infinite.
func.func @differences(%i: !graph.tensor<[4], i64>, %x: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], i64>, !graph.tensor<[4], f32>) {
  %0 = graph.sub %i, %i : (!graph.tensor<[4], i64>, !graph.tensor<[4], i64>) -> !graph.tensor<[4], i64>
  %1 = graph.sub %x, %x : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %0, %1 : !graph.tensor<[4], i64>, !graph.tensor<[4], f32>
}
// CHECK-LABEL: func.func @differences
// CHECK-NEXT:  graph.full
// CHECK-NEXT:  graph.sub %x, %x
