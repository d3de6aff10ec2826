// RUN: gaf-opt %s --split-input-file -p lower-tile | filecheck %s

// Loads through a VECIN queue, a chain in one slot, a column as an operand, the result straight into VECOUT.
// CHECK-LABEL: ascendc.kernel @norm(%x: !ascendc.gm<f16> in [M, K], %y: !ascendc.gm<f32> out [M, K]) kind<aiv>
// CHECK-SAME: tiling [M = M, K = K, m_tiles = (M + 7) floordiv 8
// CHECK-SAME: blocks min(40, m_tiles) members ["a/Norm"]
// CHECK: [[IN:%.*]] = ascendc.init_queue [bytes = x_bytes] : !ascendc.queue<vecin, 2>
// CHECK: [[OUT:%.*]] = ascendc.init_queue [bytes = y_bytes] : !ascendc.queue<vecout, 2>
// CHECK: ascendc.for tile = block to m_tiles step blocks {
// CHECK: ascendc.let m0 = tile * 8
// CHECK: ascendc.let m_size = min(8, M - m0)
// CHECK: [[ROOM:%.*]] = ascendc.alloc [[IN]] : !ascendc.local<f16>
// CHECK: ascendc.load_tile [[ROOM]], %x [src_at = x_at, rows = m_size, lanes = K, stride = K]
// CHECK: ascendc.enque [[IN]], [[ROOM]]
// CHECK: [[T:%.*]] = ascendc.deque [[IN]] : !ascendc.local<f16>
// CHECK: ascendc.cast_tile [[F:%.*]], [[T]] [mode = none, rows = m_size, lanes = K]
// CHECK: ascendc.free [[IN]], [[T]]
// CHECK: ascendc.row_reduce [[C:%.*]], [[F]], {{.*}} [mon = max, rows = m_size, lanes = K]
// CHECK: ascendc.binary_col [[F]], [[F]], [[C]], {{.*}} [op = sub, rows = m_size, lanes = K]
// CHECK: [[RES:%.*]] = ascendc.alloc [[OUT]] : !ascendc.local<f32>
// CHECK: ascendc.exp [[RES]], [[F]] [count = count]
// CHECK: ascendc.enque [[OUT]], [[RES]]
// CHECK: ascendc.store_tile %y, {{%.*}} [dst_at = x_at, rows = m_size, lanes = K, stride = K]
tile.kernel @norm(%x: !tile.gm<[M, K], f16>, %y: !tile.gm<[M, K], f32, out>) symbols [M, K] axes [m = M, k = K] attributes {members = ["a/Norm"]} {
  tile.grid [m step 8] {
    %t = tile.load %x[m, k] : !tile.t<[m, k], f16>
    %f = tile.map cast(%t) : !tile.t<[m, k], f32>
    %c = tile.reduce max(%f) over [k] : !tile.t<[m], f32>
    %d = tile.map sub(%f, %c) : !tile.t<[m, k], f32>
    %e = tile.map exp(%d) : !tile.t<[m, k], f32>
    tile.store %e, %y[m, k]
  }
}

// -----

// Unit axes become scalars, a gather reads its indices from the other argument, a guard becomes a condition.
// CHECK-LABEL: ascendc.kernel @embed
// CHECK: ascendc.for tile = block to tiles step blocks {
// CHECK: ascendc.gather_tile {{%.*}}, %table, %ids [table_at = 0, ids_at = {{.*}}, rows = s_size, lanes = D, id_stride = 1, table_stride = D, table_rows = V]
// CHECK: ascendc.if {{.*}} lt 1 {
// CHECK: ascendc.store_tile %last
tile.kernel @embed(%table: !tile.gm<[V, D], f32>, %ids: !tile.gm<[B, S], i64>, %y: !tile.gm<[B, S, D], f32, out>, %last: !tile.gm<[S, D], f32, out>) symbols [B, S, V, D] axes [b = B, s = S, d = D] {
  tile.grid [b step 1, s step 8] {
    %t = tile.load %table[read ids[b.lo, s], d] : !tile.t<[s, d], f32>
    tile.store %t, %y[b.lo, s, d]
    tile.store %t, %last[s, d] where [b.lo in 0 to 1]
  }
}

// -----

// A matmul and its epilogue: two programs, a ring of two slots, FULL flags 0 and 1, FREE flags 2 and 3.
// CHECK-LABEL: ascendc.kernel @linear
// CHECK-SAME: kind<mix>
// CHECK-SAME: blocks min(20, tiles) workspace min(20, tiles) * 131072
// CHECK: ascendc.section aic {
// CHECK: [[MM:%.*]] = ascendc.init_mmad [m = 128, n = 128] : !ascendc.mmad<bf16, nt, f32>
// CHECK: ascendc.let ring_slot = round mod 2
// CHECK: ascendc.if round ge 2 {
// CHECK-NEXT: ascendc.cross_core_wait_flag [flag = ring_slot + 2]
// CHECK: ascendc.mmad_run [[MM]], %ring, %a, %w [c_at = ring_at, ldc = 128, a_at = {{.*}}, lda = K, b_at = {{.*}}, ldb = K, m = m_size, n = n_size, k = K]
// CHECK-NEXT: ascendc.cross_core_set_flag [pipe = FIX, flag = ring_slot]
// CHECK: ascendc.cross_core_wait_flag [flag = ({{.*}} mod 2) + 2]
// CHECK: ascendc.section aiv {
// CHECK: ascendc.let [[SLOT:.*]] = {{.*}} mod 2
// CHECK: ascendc.let share = {{.*}} floordiv 2
// CHECK: ascendc.cross_core_wait_flag [flag = [[SLOT]]]
// CHECK: ascendc.load_tile {{%.*}}, %ring
// CHECK: ascendc.relu
// CHECK: ascendc.store_tile %y
// CHECK: ascendc.cross_core_set_flag [pipe = MTE2, flag = [[SLOT]] + 2]
tile.kernel @linear(%a: !tile.gm<[M, K], bf16>, %w: !tile.gm<[N, K], bf16>, %y: !tile.gm<[M, N], f32, out>) symbols [M, N, K] axes [m = M, n = N, k = K] {
  tile.grid [m step 128, n step 128] sub m {
    %al = tile.load %a[m, k] : !tile.t<[m, k], bf16, l1>
    %wl = tile.load %w[n, k] : !tile.t<[n, k], bf16, l1>
    %c = tile.contract(%al, %wl) : !tile.t<[m, n], f32, l0c>
    tile.for m step 16 {
      %u = tile.move %c {slots = 2 : i64} : !tile.t<[m, n], f32>
      %r = tile.map relu(%u) : !tile.t<[m, n], f32>
      tile.store %r, %y[m, n]
    }
  }
}

// -----

// No vector part: the cube stores its block itself.
// CHECK-LABEL: ascendc.kernel @matmul
// CHECK-SAME: kind<aic>
// CHECK: ascendc.init_mmad [m = 128, n = 128, k = 64] : !ascendc.mmad<f16, nn, f16>
// CHECK: ascendc.mmad_run {{%.*}}, %y, %a, %w [c_at = {{.*}}, ldc = 768,
tile.kernel @matmul(%a: !tile.gm<[M, 64], f16>, %w: !tile.gm<[64, 768], f16>, %y: !tile.gm<[M, 768], f16, out>) symbols [M] axes [m = M, n = 768, k = 64] {
  tile.grid [m step 128, n step 128] {
    %al = tile.load %a[m, k] : !tile.t<[m, k], f16, l1>
    %wl = tile.load %w[k, n] : !tile.t<[k, n], f16, l1>
    %c = tile.contract(%al, %wl) : !tile.t<[m, n], f32, l0c>
    tile.store %c, %y[m, n]
  }
}

// -----

// Ordered rows and running folds continue from states that the loop owns; the place of a chunk is where it begins.
// CHECK-LABEL: ascendc.kernel @ordered
// CHECK: ascendc.duplicate [[STATE:%.*]] [scalar = 0.0,
// CHECK: ascendc.for n0 = 0 to K step 512 {
// CHECK: ascendc.rank_tile [[STATE]], {{%.*}}, {{%.*}} [lanes = n_size, first = n0, rows = m_size, kept = 8, largest = 1]
// CHECK: ascendc.scan_lanes {{%.*}}, [[SUM:%.*]], {{%.*}}, {{%.*}} [rows = m_size, lanes = n_size, mon = sum, exclusive = 1]
// CHECK: }
// CHECK: ascendc.rank_values {{%.*}}, [[STATE]], {{%.*}} [rows = m_size, kept = 8, largest = 1]
// CHECK: ascendc.rank_places {{%.*}}, [[STATE]] [rows = m_size, kept = 8, largest = 1]
tile.kernel @ordered(%x: !tile.gm<[M, K], f32>, %v: !tile.gm<[M, 8], f32, out>, %i: !tile.gm<[M, 8], i32, out>, %y: !tile.gm<[M, K], f32, out>) symbols [M, K] axes [m = M, n = K, k = 8, r = 16] {
  tile.grid [m step 8] {
    %e = tile.fill 0 : !tile.t<[m, r], f32>
    %z = tile.fill 0 : !tile.t<[m], f32>
    %s, %c = tile.for n step 512 iter(%a = %e, %b = %z) {
      %t = tile.load %x[m, n] : !tile.t<[m, n], f32>
      %o = tile.rank largest(%t, %a) over [n]
      %p, %l = tile.scan sum(%t, %b) over [n] exclusive
      tile.store %p, %y[m, n]
      tile.yield %o, %l
    }
    %f = tile.ranked values largest(%s) : !tile.t<[m, k], f32>
    %g = tile.ranked places largest(%s) : !tile.t<[m, k], i32>
    tile.store %f, %v[m, k]
    tile.store %g, %i[m, k]
  }
}
