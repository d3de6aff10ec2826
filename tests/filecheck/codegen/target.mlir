// RUN: gaf-opt %s -t ascendc | filecheck %s
// RUN: gaf-opt %s -t 'ascendc{host=true}' | filecheck %s --check-prefix=HOST

// CHECK: extern "C" __global__ GAF_CORE __aicore__ void scale(GM_ADDR x, GM_ADDR y, GM_ADDR workspace,
// CHECK-NEXT: GafScaleTiling t)
// CHECK: gaf::LoadTile(inTile, xGm[i * 64], 1, 64, 64);
// CHECK: GAF_AT("model/Scale");
// CHECK-NEXT: Muls(outTile, inTile2, 0.5f, 64);
// HOST: inline gaf_host::Launch<GafScaleTiling> scale_tiling(int64_t M)
// HOST: launch.blocks = static_cast<uint32_t>(gaf_host::Max(1, gaf_host::Min(40, M)));
ascendc.kernel @scale(%x: !ascendc.gm<f32> in [M, 64], %y: !ascendc.gm<f32> out [M, 64]) kind<aiv>
    symbols [M] tiling [tiles = M] blocks min(40, M) members ["model/Scale"] {
  %in = ascendc.init_queue [bytes = 256] : !ascendc.queue<vecin, 2>
  %out = ascendc.init_queue [bytes = 256] : !ascendc.queue<vecout, 2>
  ascendc.for i = block to tiles step blocks {
    %inTile = ascendc.alloc %in : !ascendc.local<f32>
    ascendc.load_tile %inTile, %x [src_at = i * 64, rows = 1, lanes = 64, stride = 64]
    ascendc.enque %in, %inTile
    %inTile2 = ascendc.deque %in : !ascendc.local<f32>
    %outTile = ascendc.alloc %out : !ascendc.local<f32>
    ascendc.node "model/Scale"
    ascendc.muls %outTile, %inTile2 [scalar = 0.5, count = 64]
    ascendc.free %in, %inTile2
    ascendc.enque %out, %outTile
    %outTile2 = ascendc.deque %out : !ascendc.local<f32>
    ascendc.store_tile %y, %outTile2 [dst_at = i * 64, rows = 1, lanes = 64, stride = 64]
    ascendc.free %out, %outTile2
  }
}
