// RUN: %verify

// Messages as users of gaf-opt see them; tests/dialects/ascendc/test_verifier.py has a kernel for every rule.

ascendc.kernel @unknown_name(%x: !ascendc.gm<f32> in [M]) kind<aiv> symbols [M] blocks 1 {
  ascendc.let n = M + 1
}
// CHECK: ascendc.let: value uses the unknown name M; expected one of block, blocks

// -----

ascendc.kernel @not_dequeued(%x: !ascendc.gm<f32> in [64]) kind<aiv> blocks 1 {
  %q = ascendc.init_queue [bytes = 256] : !ascendc.queue<vecin, 1>
  %t = ascendc.alloc %q : !ascendc.local<f32>
  ascendc.exp %t, %t [count = 64]
}
// CHECK: ascendc.exp runs on PIPE_V and can't use src

// -----

ascendc.kernel @no_such_cast(%x: !ascendc.gm<f32> in [64]) kind<aiv> blocks 1 {
  %p = ascendc.init_buf [bytes = 256] : !ascendc.buf<veccalc>
  %a = ascendc.buf_get %p [offset = 0, count = 32] : !ascendc.local<f16>
  %b = ascendc.buf_get %p [offset = 64, count = 32] : !ascendc.local<bf16>
  ascendc.cast %a, %b [mode = rint, count = 32]
}
// CHECK: ascendc.cast: no instruction converts bf16 to f16; expected bf16 to f32, i32, got f16

// -----

ascendc.kernel @no_such_param(%x: !ascendc.gm<f32> in [64]) kind<aiv> blocks 1 {
  ascendc.pipe_barrier [unit = V]
}
// CHECK: ascendc.pipe_barrier has no parameter 'unit', only pipe
