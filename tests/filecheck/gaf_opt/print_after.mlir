// RUN: gaf-opt %s -p verify-level,verify-level --print-after=verify-level 2>&1 | filecheck %s
// RUN: gaf-opt %s -p verify-level --print-debuginfo | filecheck %s --check-prefix=DEBUGINFO

func.func @f() {
  func.return
}

// CHECK-COUNT-2: // IR after verify-level
// CHECK:         func.func @f
// CHECK-NOT:     IR after

// An operation knows the line it was read from.
// DEBUGINFO: func.return loc("{{.*}}print_after.mlir":5:3)
