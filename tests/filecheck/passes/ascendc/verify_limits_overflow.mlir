// RUN: not gaf-opt %s -p verify-limits 2>&1 | filecheck %s

// CHECK: kernel 'copy': the buffers don't fit UB; expected at most 188160 bytes, got 200000: in 120000, pool 80000
// CHECK-NEXT: hint: a smaller tile, or fewer buffers per queue
ascendc.kernel @copy(%x: !ascendc.gm<f32> in [64]) kind<aiv> blocks 1 {
  %in = ascendc.init_queue [bytes = 60000] : !ascendc.queue<vecin, 2>
  %pool = ascendc.init_buf [bytes = 80000] : !ascendc.buf<veccalc>
}
