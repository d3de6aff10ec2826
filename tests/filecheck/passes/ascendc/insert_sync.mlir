// RUN: gaf-opt %s -p insert-sync | filecheck %s

// CHECK-LABEL: ascendc.kernel @chain
ascendc.kernel @chain(%x: !ascendc.gm<f32> in [64]) kind<aiv> blocks 1 {
  %p = ascendc.init_buf [bytes = 1024] : !ascendc.buf<veccalc>
  %a = ascendc.buf_get %p [offset = 0, count = 64] : !ascendc.local<f32>
  %b = ascendc.buf_get %p [offset = 256, count = 64] : !ascendc.local<f32>
  %c = ascendc.buf_get %p [offset = 512, count = 64] : !ascendc.local<f32>
  // CHECK: ascendc.for i = 0 to 4 {
  ascendc.for i = 0 to 4 {
    // The last call of the previous iteration reads %a.
    // CHECK-NEXT: ascendc.pipe_barrier [pipe = V]
    // CHECK-NEXT: ascendc.duplicate %a
    ascendc.duplicate %a [scalar = 1.0, count = 64]
    // Independent of it:
    // CHECK-NEXT: ascendc.duplicate %b
    ascendc.duplicate %b [scalar = 2.0, count = 64]
    // CHECK-NEXT: ascendc.pipe_barrier [pipe = V]
    // CHECK-NEXT: ascendc.add %c, %a, %b
    ascendc.add %c, %a, %b [count = 64]
  }
}
