// RUN: gaf-opt %s --split-input-file -p tile-plan | filecheck %s
// RUN: gaf-opt %s --split-input-file -p 'tile-plan{target="ascend910b1"}' | filecheck %s --check-prefix=B1

// Whole rows on chip: as many rows as fit UB and leave each of the 40 vector cores some, in equal rounds.
// CHECK-LABEL: @softmax
// CHECK-SAME: params [tm_fit = (187908 floordiv {{.*}}K{{.*}}), tm_most = max(1, min(tm_fit, {{.*}}(M + 39) floordiv 40{{.*}})), tm_rounds = ((M - 1) floordiv (tm_most * 40)) + 1, tm = ((M - 1) floordiv (max(1, tm_rounds * 40))) + 1]
// CHECK-SAME: guards [-((K + 7) floordiv 8) * 160 {{.*}} + 187872]
// B1-LABEL: @softmax
// B1-SAME: (M + 47) floordiv 48
tile.kernel @softmax(%x: !tile.gm<[M, K], f32>, %y: !tile.gm<[M, K], f32, out>) symbols [M, K] axes [m = M, k = K] params [tm = M] {
  tile.grid [m step tm] {
    %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
    %c = tile.reduce max(%t) over [k] : !tile.t<[m], f32>
    %d = tile.map sub(%t, %c) : !tile.t<[m, k], f32>
    %e = tile.map exp(%d) : !tile.t<[m, k], f32>
    %s = tile.reduce sum(%e) over [k] : !tile.t<[m], f32>
    %o = tile.map div(%e, %s) : !tile.t<[m, k], f32>
    tile.store %o, %y[m, k]
  }
}

// -----

// Lanes are bound before rows, whose number depends on them.
// CHECK-LABEL: @scale
// CHECK-SAME: params [tn_fit = {{.*}}, tn_widest = min(N, {{.*}}tn_fit{{.*}}), tn = min(max(128, ((((M * N + 39) floordiv 40) + 63) floordiv 64) * 64), {{.*}}tn_widest{{.*}}), tm_fit = {{.*}}tn{{.*}}, tm_most = max(1, min(tm_fit
tile.kernel @scale(%x: !tile.gm<[M, N], f32>, %y: !tile.gm<[M, N], f32, out>) symbols [M, N] axes [m = M, n = N] params [tm = M, tn = N] {
  tile.grid [m step tm, n step tn] {
    %t = tile.load %x[m, n] : !tile.t<[m, n], f32>
    %h = tile.fill 0.5 : !tile.t<[], f32>
    %u = tile.map mul(%t, %h) : !tile.t<[m, n], f32>
    tile.store %u, %y[m, n]
  }
}

// -----

// Blocks of a matmul: fewer rows when there are few of them. Rows of the epilogue: at most one core's half.
// CHECK-LABEL: @linear
// CHECK-SAME: params [bn = 128, bm = min(128, max(16, {{.*}}bn{{.*}} * 16 + 16)), tm_fit = {{.*}}bn{{.*}}, tm = max(1, min((bm + 1) floordiv 2,
tile.kernel @linear(%a: !tile.gm<[M, K], f16>, %w: !tile.gm<[K, N], f16>, %y: !tile.gm<[M, N], f16, out>) symbols [M, N, K] axes [m = M, n = N, k = K] params [bm = 128, bn = 128, tm = M] {
  tile.grid [m step bm, n step bn] sub m {
    %al = tile.load %a[m, k] : !tile.t<[m, k], f16, l1>
    %wl = tile.load %w[k, n] : !tile.t<[k, n], f16, l1>
    %c = tile.contract(%al, %wl) : !tile.t<[m, n], f32, l0c>
    tile.for m step tm {
      %u = tile.move %c : !tile.t<[m, n], f32>
      %r = tile.map relu(%u) : !tile.t<[m, n], f32>
      %h = tile.map cast(%r) : !tile.t<[m, n], f16>
      tile.store %h, %y[m, n]
    }
  }
}
