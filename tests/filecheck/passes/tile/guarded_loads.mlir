// RUN: gaf-opt %s --split-input-file -p lower-tile | filecheck %s

// Two guards on lanes: boxes that begin at lane 0 and in the middle of a tile, clipped to the window.
// CHECK-LABEL: ascendc.kernel @concat(
// CHECK: ascendc.let [[FRONT:box_lanes.*]] = max(0, min(K - k0, k_size))
// CHECK: ascendc.load_tile_box {{%.*}}, %x [src_at = x_at, rows = m_size, lanes = k_size, row0 = 0, col0 = 0, nrows = m_size, ncols = [[FRONT]], stride = K, fill = -0.0]
// CHECK: ascendc.let k_first = min(k_size, max(0, K - k0))
// CHECK: ascendc.let [[BACK:box_lanes.*]] = -k_first + k_size
// CHECK: ascendc.let z_at = {{.*}}k_first
// CHECK: ascendc.load_tile_box {{%.*}}, %z [src_at = z_at, rows = m_size, lanes = k_size, row0 = 0, col0 = k_first, nrows = m_size, ncols = [[BACK]], stride = L, fill = -0.0]
tile.kernel @concat(%x: !tile.gm<[M, K], f32>, %z: !tile.gm<[M, L], f32>, %y: !tile.gm<[M, K + L], f32, out>) symbols [M, K, L] axes [m = M, k = K + L] {
  tile.grid [m step 8, k step 64] {
    %a = tile.load %x[m, k] where [k in 0 to K] else -0.0 : !tile.t<[m, k], f32>
    %b = tile.load %z[m, k - K] where [k in K to K + L] else -0.0 : !tile.t<[m, k], f32>
    %s = tile.map add(%a, %b) : !tile.t<[m, k], f32>
    tile.store %s, %y[m, k]
  }
}

// -----

// A guard on a grid axis empties the box as a whole.
// CHECK-LABEL: ascendc.kernel @outer(
// CHECK: ascendc.let inside = max(0, min(1, min({{.*}}g{{.*}})))
// CHECK: ascendc.let [[ROWS:box_rows.*]] = {{.*}}inside{{.*}}
// CHECK: ascendc.load_tile_box {{%.*}}, %x [{{.*}}nrows = [[ROWS]], ncols = K, stride = K, fill = 1.0]
tile.kernel @outer(%x: !tile.gm<[G, M, K], f16>, %y: !tile.gm<[G + 2, M, K], f16, out>) symbols [G, M, K] axes [g = G + 2, m = M, k = K] {
  tile.grid [g step 1, m step 8] {
    %a = tile.load %x[g.lo - 1, m, k] where [g.lo in 1 to G + 1] else 1 : !tile.t<[m, k], f16>
    tile.store %a, %y[g.lo, m, k]
  }
}
