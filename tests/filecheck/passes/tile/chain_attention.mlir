// RUN: gaf-opt %s -p lower-tile | filecheck %s

// Two matmuls with vector work between them and behind the second. Three hand-overs would take 12 flags with two slots
// each, so the last gets one slot: flags 0-3 scores, 4-7 panel, 8-9 result. The keys are stored by rows, the values
// aren't: two BlockMmad objects in the buffers of the first. Temporaries and queues of the two vector phases share
// memory.
// CHECK-LABEL: ascendc.kernel @attention
// CHECK-SAME: kind<mix>
// CHECK: [[S:%.*]] = ascendc.workspace [offset = 0] : !ascendc.gm<f32>
// CHECK: [[P:%.*]] = ascendc.workspace [offset = panel1_offset] : !ascendc.gm<bf16>
// CHECK: [[O:%.*]] = ascendc.workspace [offset = ring2_offset] : !ascendc.gm<f32>
// CHECK: ascendc.section aic {
// CHECK: [[QK:%.*]] = ascendc.init_mmad [m = 64, n = 128] : !ascendc.mmad<bf16, nt, f32>
// CHECK-NEXT: [[PV:%.*]] = ascendc.share_mmad [[QK]] : !ascendc.mmad<bf16, nn, f32>
// CHECK: ascendc.let ring2_at = block * {{[0-9]+}}
// CHECK: ascendc.if round ge 2 {
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = ring_slot + 2]
// CHECK: ascendc.mmad_run [[QK]], [[S]], %query, %key [
// CHECK: ascendc.cross_core_set_flag [pipe = FIX, flag = ring_slot]
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = ring_slot + 4]
// CHECK-NEXT: ascendc.if round ge 1 {
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = 9]
// CHECK: ascendc.mmad_run [[PV]], [[O]], [[P]], %value [
// CHECK: ascendc.cross_core_set_flag [pipe = MTE2, flag = ring_slot + 6]
// CHECK-NEXT: ascendc.cross_core_set_flag [pipe = FIX, flag = 8]
// CHECK: ascendc.if rounds ge 1 {
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = 9]
// CHECK: ascendc.section aiv {
// CHECK: ascendc.init_queue [bytes = {{.*}}] : !ascendc.queue<vecin, 2>
// CHECK: ascendc.init_queue [bytes = {{.*}}] : !ascendc.queue<vecout, 2>
// CHECK-NOT: ascendc.init_queue
// CHECK: ascendc.cross_core_wait_flag [flag = [[SLOT:.*]]]
// CHECK-NEXT: ascendc.if {{.*}} ge 2 {
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = [[SLOT]] + 6]
// CHECK: ascendc.load_tile {{%.*}}, [[S]]
// CHECK: ascendc.store_tile [[P]]
// CHECK: ascendc.cross_core_set_flag [pipe = MTE2, flag = [[SLOT]] + 2]
// CHECK-NEXT: ascendc.cross_core_set_flag [pipe = MTE3, flag = [[SLOT]] + 4]
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = 8]
// CHECK: ascendc.load_tile {{%.*}}, [[O]]
// CHECK: ascendc.cross_core_set_flag [pipe = MTE2, flag = 9]
tile.kernel @attention(%query: !tile.gm<[B, M, 64], bf16>, %key: !tile.gm<[B, S, 64], bf16>, %value: !tile.gm<[B, S, 64], bf16>, %y: !tile.gm<[B, M, 64], f32, out>) symbols [B, M, S] axes [b = B, m = M, k = S, d = 64, n = 64] {
  tile.grid [b step 1, m step 64] sub m {
    %qt = tile.load %query[b.lo, m, d] : !tile.t<[m, d], bf16, l1>
    %s = tile.for k step 128 {
      %kt = tile.load %key[b.lo, k, d] : !tile.t<[d, k], bf16, l1>
      %sc = tile.contract(%qt, %kt) : !tile.t<[m, k], f32, l0c>
      tile.yield collect %sc
    }
    %rows = tile.for m step 8 {
      %u = tile.move %s {slots = 2 : i64} : !tile.t<[m, k], f32>
      %top = tile.reduce max(%u) over [k] : !tile.t<[m], f32>
      %d = tile.map sub(%u, %top) : !tile.t<[m, k], f32>
      %e = tile.map exp(%d) : !tile.t<[m, k], f32>
      %sum = tile.reduce sum(%e) over [k] : !tile.t<[m], f32>
      %p = tile.map div(%e, %sum) : !tile.t<[m, k], f32>
      %pb = tile.map cast(%p) : !tile.t<[m, k], bf16>
      tile.yield collect %pb
    }
    %panel = tile.move %rows {slots = 2 : i64} : !tile.t<[m, k], bf16, l1>
    %o = tile.for n step 64 {
      %vt = tile.load %value[b.lo, k, n] : !tile.t<[k, n], bf16, l1>
      %oc = tile.contract(%panel, %vt) : !tile.t<[m, n], f32, l0c>
      tile.yield collect %oc
    }
    tile.for m step 8 {
      %w = tile.move %o {slots = 2 : i64} : !tile.t<[m, n], f32>
      %t = tile.map tanh(%w) : !tile.t<[m, n], f32>
      tile.store %t, %y[b.lo, m, n]
    }
  }
}
