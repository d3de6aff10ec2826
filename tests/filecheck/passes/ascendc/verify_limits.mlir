// RUN: gaf-opt %s -p 'verify-limits{target="ascend910b1"}' | filecheck %s

// CHECK: ascendc.kernel @copy
ascendc.kernel @copy(%x: !ascendc.gm<f32> in [64]) kind<aiv> blocks 1 {
  %in = ascendc.init_queue [bytes = 60000] : !ascendc.queue<vecin, 2>
  %pool = ascendc.init_buf [bytes = 60000] : !ascendc.buf<veccalc>
}
