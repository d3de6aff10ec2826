// RUN: gaf-opt %s --load %S/Inputs/drop_casts.py -p drop-casts --explain 2>&1 | filecheck %s
// RUN: gaf-opt %s --load %S/Inputs/drop_casts.py -p 'drop-casts{enabled=false}' | filecheck %s --check-prefix=OFF
// RUN: gaf-opt %s --load %S/Inputs/drop_casts.py --list-passes | filecheck %s --check-prefix=LIST
// RUN: not gaf-opt %s -p drop-casts 2>&1 | filecheck %s --check-prefix=FORGOTTEN

// What a file registered is known in that run only: the last RUN line would find the pass otherwise.

func.func @f(%a: i32) -> i32 {
  %b = "builtin.unrealized_conversion_cast"(%a) : (i32) -> i32
  %c = "builtin.unrealized_conversion_cast"(%b) : (i32) -> i32
  func.return %c : i32
}

// CHECK:      func.func @f([[A:%.*]]: i32) -> i32 {
// CHECK-NEXT:   func.return [[A]] : i32
// CHECK:      drop-casts: 2 rewrites
// CHECK-NEXT:   2  drop-identity-cast

// OFF: unrealized_conversion_cast
// OFF: unrealized_conversion_cast

// LIST:      {{^}}drop-casts{{$}}
// LIST-NEXT:   Drop casts that change nothing.
// LIST-NEXT:   enabled: bool (default true)  false leaves the program alone

// FORGOTTEN: gaf-opt: unknown pass 'drop-casts'
