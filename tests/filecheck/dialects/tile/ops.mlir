// RUN: %roundtrip
// RUN: %generic

// Every op of the dialect once, in the shape in which lowerings use it.

// CHECK-LABEL: tile.kernel @vector(%x: !tile.gm<[M, K], f16>, %mask: !tile.gm<[M, K], i1>, %ids: !tile.gm<[M], i64>, %y: !tile.gm<[M, K], f32, out>, %s: !tile.gm<[M], f32, out>)
// CHECK-SAME: symbols [M, K] axes [m = M, k = K, ih hull k + m * 2 - 1] params [tm = min(64, M)] guards [-tm + 512] attributes {members = ["a/Softmax", "a/Sum"]} {
// GENERIC: "tile.kernel"() <{sym_name = "vector", arg_names = #tile.names<[x, mask, ids, y, s]>, symbols = #tile.names<[M, K]>
// GENERIC-SAME: axes = #tile.axes<[m = M, k = K, ih hull k + m * 2 - 1]>, params = #tile.bind<[tm = min(64, M)]>, guards = #graph.shape<[-tm + 512]>
tile.kernel @vector(%x: !tile.gm<[M, K], f16>, %mask: !tile.gm<[M, K], i1>, %ids: !tile.gm<[M], i64>, %y: !tile.gm<[M, K], f32, out>, %s: !tile.gm<[M], f32, out>)
    symbols [M, K] axes [m = M, k = K, ih hull m * 2 + k - 1] params [tm = min(64, M)] guards [512 - tm]
    attributes {members = ["a/Softmax", "a/Sum"]} {
  // CHECK-NEXT: %ws = tile.workspace : !tile.gm<[M, K], f32, ws>
  %ws = tile.workspace : !tile.gm<[M, K], f32, ws>
  // CHECK-NEXT: tile.grid [m step tm, k step 128] sub m {
  // GENERIC: "tile.grid"() <{steps = #tile.bind<[m = tm, k = 128]>, sub = "m"}>
  tile.grid [m step tm, k step 128] sub m {
    // CHECK-NEXT: %t = tile.load %x[read ids[m], k] {buffers = 2 : i64} : !tile.t<[m, k], f16>
    %t = tile.load %x[read ids[m], k] {buffers = 2 : i64} : !tile.t<[m, k], f16>
    // CHECK-NEXT: %c = tile.load %mask[m, k + 1] where [k in 0 to K - 1] else 0 : !tile.t<[m, k], i1>
    // GENERIC: "tile.load"(%mask) <{index = #graph.shape<[m, k + 1]>, guards = #tile.guards<[k in 0 to K - 1]>, otherwise = #tile.number<0>}>
    %c = tile.load %mask[m, k + 1] where [k in 0 to K - 1] else 0 : !tile.t<[m, k], i1>
    // CHECK-NEXT: %f = tile.map cast(%t) : !tile.t<[m, k], f32>
    %f = tile.map cast(%t) : !tile.t<[m, k], f32>
    // CHECK-NEXT: %n = tile.fill -inf : !tile.t<[], f32>
    %n = tile.fill -inf : !tile.t<[], f32>
    // CHECK-NEXT: %e = tile.fill 1.0e-05 : !tile.t<[], f32>
    %e = tile.fill 1.0e-05 : !tile.t<[], f32>
    // CHECK-NEXT: %i = tile.index(k + K * m) : !tile.t<[m, k], i32>
    %i = tile.index(m * K + k) : !tile.t<[m, k], i32>
    // CHECK-NEXT: %g = tile.map select(%c, %f, %n) : !tile.t<[m, k], f32>
    %g = tile.map select(%c, %f, %n) : !tile.t<[m, k], f32>
    // CHECK-NEXT: %v = tile.view %g[k = -k + k.hi - 1] : !tile.t<[m, k], f32>
    %v = tile.view %g[k = k.hi - k - 1] : !tile.t<[m, k], f32>
    // CHECK-NEXT: tile.store %v, %ws[m, k]
    tile.store %v, %ws[m, k]
    // CHECK-NEXT: %q = tile.call @sort(%v) : !tile.t<[m, k], f32>
    %q = tile.call @sort(%v) : !tile.t<[m, k], f32>
    // CHECK-NEXT: tile.store %q, %y[m, k] where [m in 0 to M]
    tile.store %q, %y[m, k] where [m in 0 to M]
  }
  // CHECK: tile.sync
  tile.sync
  // CHECK-NEXT: tile.grid [m step 8] {
  tile.grid [m step 8] {
    %z = tile.fill 0 : !tile.t<[m], f32>
    // CHECK: %r, %h = tile.for k step 16 in 0 to K - 1 iter(%a = %z) attributes {ahead = 2 : i64} {
    // GENERIC: "tile.for"(%z) <{axis = "k", step = #graph.expr<16>, bounds = #graph.shape<[0, K - 1]>}>
    %r, %h = tile.for k step 16 in 0 to K - 1 iter(%a = %z) attributes {ahead = 2 : i64} {
      %u = tile.load %ws[m, k] : !tile.t<[m, k], f32>
      // CHECK: %b = tile.reduce sum(%u) over [k] : !tile.t<[m], f32>
      %b = tile.reduce sum(%u) over [k] : !tile.t<[m], f32>
      // CHECK-NEXT: %p, %l = tile.scan sum(%u, %a) over [k]
      %p, %l = tile.scan sum(%u, %a) over [k]
      // CHECK-NEXT: %d = tile.merge sum(%a | %b)
      // GENERIC: "tile.merge"(%a, %b) <{monoid = "sum", operandSegmentSizes = array<i32: 1, 1>}>
      %d = tile.merge sum(%a | %b)
      // CHECK-NEXT: tile.yield %d collect %u
      tile.yield %d collect %u
    }
    // CHECK: tile.for k step 16 {
    tile.for k step 16 {
    // CHECK-NEXT: }
    }
    tile.store %r, %s[m]
  }
}

// -----

// CHECK-LABEL: tile.kernel @ordered
tile.kernel @ordered(%x: !tile.gm<[M, K], f32>, %v: !tile.gm<[M, 8], f32, out>, %i: !tile.gm<[M, 8], i32, out>, %y: !tile.gm<[M, K], f32, out>) symbols [M, K] axes [m = M, n = K, k = 8, r = 16] {
  tile.grid [m step 8] {
    %e = tile.fill 0 : !tile.t<[m, r], f32>
    %z = tile.fill 0 : !tile.t<[m], f32>
    %s, %c = tile.for n step 512 iter(%a = %e, %b = %z) {
      %t = tile.load %x[m, n] : !tile.t<[m, n], f32>
      // CHECK: %o = tile.rank largest(%t, %a) over [n]
      // GENERIC: "tile.rank"(%t, %a) <{order = "largest", over = "n"}>
      %o = tile.rank largest(%t, %a) over [n]
      // CHECK-NEXT: %p, %l = tile.scan sum(%t, %b) over [n] exclusive
      // GENERIC: "tile.scan"(%t, %b) <{monoid = "sum", over = "n", exclusive}>
      %p, %l = tile.scan sum(%t, %b) over [n] exclusive
      tile.store %p, %y[m, n]
      tile.yield %o, %l
    }
    // CHECK: %f = tile.ranked values largest(%s) : !tile.t<[m, k], f32>
    %f = tile.ranked values largest(%s) : !tile.t<[m, k], f32>
    // CHECK-NEXT: %g = tile.ranked places largest(%s) : !tile.t<[m, k], i32>
    %g = tile.ranked places largest(%s) : !tile.t<[m, k], i32>
    tile.store %f, %v[m, k]
    tile.store %g, %i[m, k]
  }
}

// -----

// CHECK-LABEL: tile.kernel @cube
tile.kernel @cube(%a: !tile.gm<[M, K], bf16>, %w: !tile.gm<[K, N], bf16>, %y: !tile.gm<[M, N], bf16, out>) symbols [M, N, K] axes [m = M, n = N, k = K] {
  tile.grid [m step 128, n step 256] sub m {
    // CHECK: %al = tile.load %a[m, k] : !tile.t<[m, k], bf16, l1>
    %al = tile.load %a[m, k] : !tile.t<[m, k], bf16, l1>
    %wl = tile.load %w[k, n] : !tile.t<[k, n], bf16, l1>
    // CHECK: %c = tile.contract(%al, %wl) : !tile.t<[m, n], f32, l0c>
    %c = tile.contract(%al, %wl) : !tile.t<[m, n], f32, l0c>
    // CHECK-NEXT: %d = tile.contract(%al, %wl) acc %c : !tile.t<[m, n], f32, l0c>
    %d = tile.contract(%al, %wl) acc %c : !tile.t<[m, n], f32, l0c>
    // CHECK-NEXT: %u = tile.move %d {slots = 2 : i64} : !tile.t<[m, n], f32>
    %u = tile.move %d {slots = 2 : i64} : !tile.t<[m, n], f32>
    %h = tile.map cast(%u) : !tile.t<[m, n], bf16>
    tile.store %h, %y[m, n]
  }
}
