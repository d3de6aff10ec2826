// RUN: gaf-opt %s -p 'tile-plan,lower-tile{hf32=true}' | filecheck %s
// RUN: gaf-opt %s -p 'tile-plan,lower-tile{hf32=true}' --target=ascendc | filecheck %s --check-prefix=CPP

// The mode belongs to the core: on before the first product, off behind the last, for the kernel after it.
// CHECK-LABEL: ascendc.kernel @linear
// CHECK: ascendc.init_mmad
// CHECK-NEXT: ascendc.set_hf32 [on = 1]
// CHECK: ascendc.mmad_run
// CHECK: ascendc.set_hf32 [on = 0]
// CPP: SetHF32Mode(true);
// CPP: mmad.Run(
// CPP: SetHF32Mode(false);
tile.kernel @linear(%a: !tile.gm<[M, 64], f32>, %w: !tile.gm<[64, 768], f32>, %y: !tile.gm<[M, 768], f32, out>) symbols [M] axes [m = M, n = 768, k = 64] {
  tile.grid [m step 128, n step 128] {
    %al = tile.load %a[m, k] : !tile.t<[m, k], f32, l1>
    %wl = tile.load %w[k, n] : !tile.t<[k, n], f32, l1>
    %c = tile.contract(%al, %wl) : !tile.t<[m, n], f32, l0c>
    tile.store %c, %y[m, n]
  }
}
