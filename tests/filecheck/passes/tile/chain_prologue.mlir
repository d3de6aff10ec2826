// RUN: gaf-opt %s --split-input-file -p lower-tile | filecheck %s

// Vector work in front of a matmul: the vector cores write rows into the panel ring and signal FULL (flags 0 and 1)
// when the stores are complete; the cube reads its left operand from there and signals FREE (2 and 3) after its last
// load. The blocks go back through a second ring with flags 4 to 7. Rows of the panel are 512 bytes apart.
// CHECK-LABEL: ascendc.kernel @norm_linear
// CHECK-SAME: kind<mix>
// CHECK-SAME: panel_elements = ((K + 255) floordiv 256) * 16384, ring1_offset = panel_elements * min(20, m_tiles) * 4, ring1_elements = ((N + 15) floordiv 16) * 1024
// CHECK-SAME: workspace panel_elements * min(20, m_tiles) * 4 + ring1_elements * min(20, m_tiles) * 8 {
// CHECK: [[PANEL:%.*]] = ascendc.workspace [offset = 0] : !ascendc.gm<f16>
// CHECK: [[RING:%.*]] = ascendc.workspace [offset = ring1_offset] : !ascendc.gm<f32>
// CHECK: ascendc.section aic {
// CHECK: [[MM:%.*]] = ascendc.init_mmad [m = 64, n = 128] : !ascendc.mmad<f16, nn, f32>
// CHECK: ascendc.for round = 0 to rounds {
// CHECK: ascendc.let ring_slot = round mod 2
// CHECK: ascendc.let panel_at = block * panel_elements * 2 + panel_elements * ring_slot
// CHECK: ascendc.cross_core_wait_flag [flag = ring_slot]
// CHECK-NEXT: ascendc.if round ge 2 {
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = ring_slot + 6]
// CHECK-NEXT: }
// CHECK-NEXT: ascendc.for n0 = 0 to N step 128 {
// CHECK: ascendc.mmad_run [[MM]], [[RING]], [[PANEL]], %w [c_at = c_at, ldc = ring1_pitch, a_at = panel_at, lda = panel_pitch, {{.*}}m = m_size, n = n_size, k = K]
// CHECK-NEXT: }
// CHECK-NEXT: ascendc.cross_core_set_flag [pipe = MTE2, flag = ring_slot + 2]
// CHECK-NEXT: ascendc.cross_core_set_flag [pipe = FIX, flag = ring_slot + 4]
// CHECK-NEXT: }
// CHECK-NEXT: ascendc.for [[R:.*]] = max(0, rounds - 2) to rounds {
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = ([[R]] mod 2) + 6]
// CHECK: ascendc.section aiv {
// CHECK: ascendc.let share = {{.*}} floordiv 2
// CHECK: ascendc.if {{.*}} ge 2 {
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = [[SLOT:.*]] + 2]
// CHECK: ascendc.for {{.*}} step 8 {
// CHECK: ascendc.load_tile {{%.*}}, %x
// CHECK: ascendc.store_tile [[PANEL]], {{%.*}} [dst_at = rows_at, rows = {{.*}}, lanes = K, stride = panel_pitch]
// CHECK: ascendc.cross_core_set_flag [pipe = MTE3, flag = [[SLOT]]]
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = [[SLOT]] + 4]
// CHECK: ascendc.load_tile {{%.*}}, [[RING]]
// CHECK: ascendc.store_tile %y
// CHECK: ascendc.cross_core_set_flag [pipe = MTE2, flag = [[SLOT]] + 6]
// CHECK: ascendc.cross_core_wait_flag [flag = ({{.*}} mod 2) + 2]
tile.kernel @norm_linear(%x: !tile.gm<[M, K], f16>, %w: !tile.gm<[K, N], f16>, %y: !tile.gm<[M, N], f32, out>) symbols [M, K, N] axes [m = M, k = K, n = N] {
  tile.grid [m step 64] sub m {
    %h = tile.for m step 8 {
      %xh = tile.load %x[m, k] : !tile.t<[m, k], f16>
      %t = tile.map cast(%xh) : !tile.t<[m, k], f32>
      %g = tile.map tanh(%t) : !tile.t<[m, k], f32>
      %o = tile.map cast(%g) : !tile.t<[m, k], f16>
      tile.yield collect %o
    }
    %p = tile.move %h {slots = 2 : i64} : !tile.t<[m, k], f16, l1>
    %c = tile.for n step 128 {
      %wt = tile.load %w[k, n] : !tile.t<[k, n], f16, l1>
      %acc = tile.contract(%p, %wt) : !tile.t<[m, n], f32, l0c>
      tile.yield collect %acc
    }
    tile.for m step 8 {
      %u = tile.move %c {slots = 2 : i64} : !tile.t<[m, n], f32>
      %r = tile.map relu(%u) : !tile.t<[m, n], f32>
      tile.store %r, %y[m, n]
    }
  }
}

// -----

// A bare matmul behind the prologue: the cube stores the result itself, and the prologue has an output of its own.
// CHECK-LABEL: ascendc.kernel @direct
// CHECK-SAME: workspace min(20, m_tiles) * 65536 {
// CHECK: ascendc.cross_core_wait_flag [flag = ring_slot]
// CHECK: ascendc.mmad_run {{%.*}}, %y, [[PANEL:%.*]], %w [c_at = {{.*}}, ldc = 32, a_at = panel_at, lda = 128,
// CHECK: ascendc.cross_core_set_flag [pipe = MTE2, flag = ring_slot + 2]
// CHECK: ascendc.section aiv {
// CHECK: ascendc.store_tile %h
// CHECK: ascendc.store_tile [[PANEL]]
// CHECK: ascendc.cross_core_set_flag [pipe = MTE3, flag = [[SLOT:.*]]]
tile.kernel @direct(%x: !tile.gm<[M, 100], f32>, %w: !tile.gm<[100, 32], f32>, %h: !tile.gm<[M, 100], f32, out>, %y: !tile.gm<[M, 32], f32, out>) symbols [M] axes [m = M, k = 100, n = 32] {
  tile.grid [m step 64] sub m {
    %rows = tile.for m step 8 {
      %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
      %g = tile.map tanh(%t) : !tile.t<[m, k], f32>
      tile.store %g, %h[m, k]
      tile.yield collect %g
    }
    %p = tile.move %rows {slots = 2 : i64} : !tile.t<[m, k], f32, l1>
    tile.for n step 32 {
      %wt = tile.load %w[k, n] : !tile.t<[k, n], f32, l1>
      %acc = tile.contract(%p, %wt) : !tile.t<[m, n], f32, l0c>
      tile.store %acc, %y[m, n]
    }
  }
}
