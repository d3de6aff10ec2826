// RUN: gaf-opt %s -p 'tile-plan,limit-tiles{limits="scale.tn=128"}' | filecheck %s
// RUN: not gaf-opt %s -p 'tile-plan,limit-tiles{limits="scale.tk=128"}' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not gaf-opt %s -p 'tile-plan,limit-tiles{limits="scale"}' 2>&1 | filecheck %s --check-prefix=FORM

// A bound only lowers a parameter; those that are derived from it follow.
// CHECK: tn = min(128, {{.*}}N{{.*}}), tm_fit = {{.*}}tn{{.*}}, tm_most = {{.*}}tm_fit
// NAME: gaf-opt: no tiling parameter of kernel 'scale' is called 'tk'; expected tn_fit or tn_widest or tn or tm_fit
// FORM: gaf-opt: this is no bound of a tile; expected "kernel.parameter=value", got "scale"
tile.kernel @scale(%x: !tile.gm<[M, N], f32>, %y: !tile.gm<[M, N], f32, out>) symbols [M, N] axes [m = M, n = N] params [tm = M, tn = N] {
  tile.grid [m step tm, n step tn] {
    %t = tile.load %x[m, n] : !tile.t<[m, n], f32>
    %h = tile.fill 0.5 : !tile.t<[], f32>
    %u = tile.map mul(%t, %h) : !tile.t<[m, n], f32>
    tile.store %u, %y[m, n]
  }
}
