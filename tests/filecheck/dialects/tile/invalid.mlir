// RUN: %verify

// Messages as users of gaf-opt see them; tests/dialects/tile/test_verifier.py has a kernel for every rule.

tile.kernel @store_twice(%x: !tile.gm<[M, K], f32>, %s: !tile.gm<[M], f32, out>) symbols [M, K] axes [m = M, k = K] {
  tile.grid [m step 8] {
    %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
    tile.store %t, %s[m]
  }
}
// CHECK: tile.store writes elements twice: its index lacks the axis 'k' of the tile; expected 'k' in the index or a guard

// -----

tile.kernel @partial(%x: !tile.gm<[M, K], f32>, %s: !tile.gm<[M], f32, out>) symbols [M, K] axes [m = M, k = K] {
  tile.grid [m step 8, k step 64] {
    %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
    %r = tile.reduce sum(%t) over [k] : !tile.t<[m], f32>
    tile.store %r, %s[m] where [k.lo in 0 to 1]
  }
}
// CHECK: tile.store writes a value that is folded over a part of 'k' only; expected a value that is complete over every axis

// -----

tile.kernel @no_path(%x: !tile.gm<[M], f32>) symbols [M] axes [m = M] {
  %t = tile.load %x[m] : !tile.t<[m], f32>
  %u = tile.move %t : !tile.t<[m], f32, l0c>
}
// CHECK: no such path on the chip; expected l0c -> l1 or l0c -> ub or ub -> l1, got ub -> l0c

// -----

tile.kernel @bad_syntax(%x: !tile.gm<[M], f32>) symbols [M] axes [m = M] {
  %t = tile.load %q[m] : !tile.t<[m], f32>
}
// CHECK: value used before it is defined

// -----

tile.kernel @ranked_columns(%x: !tile.gm<[M, K], f32>) symbols [M, K] axes [m = M, k = K, r = 16] {
  tile.grid [k step 8] {
    %e = tile.fill 0 : !tile.t<[k, r], f32>
    %t = tile.load %x[m, k] : !tile.t<[m, k], f32>
    %o = tile.rank largest(%t, %e) over [m]
  }
}
// CHECK: tile.rank orders the lanes of its operand; expected ('k',), got m
