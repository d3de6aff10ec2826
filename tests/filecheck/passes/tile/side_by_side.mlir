// RUN: gaf-opt %s -p lower-tile | filecheck %s

// Two products of one grid tile: one BlockMmad for both, a ring each, but one hand-over, so one pair of flags a slot.
// CHECK-LABEL: ascendc.kernel @gated
// CHECK-SAME: workspace min(20, tiles) * 98304 {
// CHECK: [[G:%.*]] = ascendc.workspace [offset = 0] : !ascendc.gm<f32>
// CHECK: [[U:%.*]] = ascendc.workspace [offset = ring1_offset] : !ascendc.gm<f32>
// CHECK: ascendc.section aic {
// CHECK: [[MM:%.*]] = ascendc.init_mmad [m = 64, n = 96] : !ascendc.mmad<f32, nn, f32>
// CHECK-NOT: ascendc.share_mmad
// CHECK: ascendc.cross_core_wait_flag [flag = ring_slot + 2]
// CHECK: ascendc.mmad_run [[MM]], [[G]], %x, %gate [c_at = ring_at,
// CHECK-NOT: ascendc.cross_core
// CHECK: ascendc.mmad_run [[MM]], [[U]], %x, %up [c_at = ring_at,
// CHECK-NEXT: ascendc.cross_core_set_flag [pipe = FIX, flag = ring_slot]
// CHECK-NEXT: }
// CHECK: ascendc.section aiv {
// CHECK: ascendc.cross_core_wait_flag [flag = [[SLOT:.*]]]
// CHECK: ascendc.load_tile {{%.*}}, [[G]]
// CHECK: ascendc.load_tile {{%.*}}, [[U]]
// CHECK: ascendc.store_tile %y
// CHECK: ascendc.cross_core_set_flag [pipe = MTE2, flag = [[SLOT]] + 2]
// CHECK-NOT: ascendc.cross_core
tile.kernel @gated(%x: !tile.gm<[M, K], f32>, %gate: !tile.gm<[K, N], f32>, %up: !tile.gm<[K, N], f32>, %y: !tile.gm<[M, N], f32, out>) symbols [M, N, K] axes [m = M, n = N, k = K] {
  tile.grid [m step 64, n step 96] sub m {
    %xt = tile.load %x[m, k] : !tile.t<[m, k], f32, l1>
    %gt = tile.load %gate[k, n] : !tile.t<[k, n], f32, l1>
    %g = tile.contract(%xt, %gt) : !tile.t<[m, n], f32, l0c>
    %ut = tile.load %up[k, n] : !tile.t<[k, n], f32, l1>
    %u = tile.contract(%xt, %ut) : !tile.t<[m, n], f32, l0c>
    tile.for m step 8 {
      %a = tile.move %g {slots = 2 : i64} : !tile.t<[m, n], f32>
      %s = tile.map sigmoid(%a) : !tile.t<[m, n], f32>
      %b = tile.move %u {slots = 2 : i64} : !tile.t<[m, n], f32>
      %r = tile.map mul(%s, %b) : !tile.t<[m, n], f32>
      tile.store %r, %y[m, n]
    }
  }
}
