// RUN: %roundtrip
// RUN: %generic

// The structure of a kernel and one call of each kind; tests/dialects/ascendc/test_syntax.py prints every call.

// CHECK-LABEL: ascendc.kernel @norm(%x: !ascendc.gm<f16> in [M, K], %y: !ascendc.gm<f32> out [M, K]) kind<aiv>
// CHECK-SAME: symbols [M, K] tiling [K = K, tm = min(8, M)] guards [-K + 4096] blocks min(40, M) workspace tm * 64 members ["block/Norm", "block/Mul"] {
// GENERIC: "ascendc.kernel"() <{sym_name = "norm", kind = #ascendc<kind aiv>, arg_names = #ascendc.names<[x, y]>, roles = #ascendc.names<[in, out]>
ascendc.kernel @norm(%x: !ascendc.gm<f16> in [M, K], %y: !ascendc.gm<f32> out [M, K]) kind<aiv>
    symbols [M, K] tiling [K = K, tm = min(8, M)] guards [4096 - K] blocks min(M, 40) workspace tm * 64 members ["block/Norm", "block/Mul"] {
  // CHECK-NEXT: %w = ascendc.workspace [offset = 0] : !ascendc.gm<f32>
  %w = ascendc.workspace [offset = 0] : !ascendc.gm<f32>
  // CHECK-NEXT: %q = ascendc.init_queue [bytes = tm * 256] : !ascendc.queue<vecin, 2>
  // GENERIC: "ascendc.init_queue"() <{bytes = #graph.expr<tm * 256>}> : () -> !ascendc.queue<vecin, 2>
  %q = ascendc.init_queue [bytes = 256 * tm] : !ascendc.queue<vecin, 2>
  // CHECK-NEXT: %p = ascendc.init_buf [bytes = 8192] : !ascendc.buf<veccalc>
  %p = ascendc.init_buf [bytes = 8192] : !ascendc.buf<veccalc>
  // CHECK-NEXT: %f = ascendc.buf_get %p [offset = 0, count = 512] : !ascendc.local<f32>
  %f = ascendc.buf_get %p [offset = 0, count = 512] : !ascendc.local<f32>
  %t = ascendc.buf_get %p [offset = 2048, count = 1024] : !ascendc.local<f32>
  // CHECK: %u = ascendc.reinterpret %t : !ascendc.local<ui8>
  %u = ascendc.reinterpret %t : !ascendc.local<ui8>
  // CHECK-NEXT: %s = ascendc.slice %f [offset = 8, count = 64] : !ascendc.local<f32>
  %s = ascendc.slice %f [offset = 8, count = 64] : !ascendc.local<f32>
  // CHECK-NEXT: ascendc.for i = block to K step blocks {
  // GENERIC: "ascendc.for"() <{var = "i", lo = #graph.expr<block>, hi = #graph.expr<K>, step = #graph.expr<blocks>}>
  ascendc.for i = block to K step blocks {
    // CHECK-NEXT: ascendc.let rows = min(K - i, tm)
    ascendc.let rows = min(K - i, tm)
    // CHECK-NEXT: ascendc.node "block/Norm", "first pass"
    ascendc.node "block/Norm", "first pass"
    // CHECK-NEXT: %a = ascendc.alloc %q : !ascendc.local<f16>
    %a = ascendc.alloc %q : !ascendc.local<f16>
    // CHECK-NEXT: ascendc.load_tile %a, %x [src_at = K * i, rows = rows, lanes = 16, stride = K]
    ascendc.load_tile %a, %x [src_at = i * K, rows = rows, lanes = 16, stride = K]
    // CHECK-NEXT: ascendc.enque %q, %a
    ascendc.enque %q, %a
    // CHECK-NEXT: %b = ascendc.deque %q : !ascendc.local<f16>
    %b = ascendc.deque %q : !ascendc.local<f16>
    // CHECK-NEXT: ascendc.cast_tile %f, %b [mode = none, rows = rows, lanes = 16]
    // GENERIC: "ascendc.cast_tile"(%f, %b) <{mode = #ascendc<round none>, rows = #graph.expr<rows>, lanes = #graph.expr<16>}>
    ascendc.cast_tile %f, %b [rows = rows, mode = none, lanes = 16]
    // CHECK-NEXT: ascendc.free %q, %b
    ascendc.free %q, %b
    // CHECK-NEXT: ascendc.if rows ge 4 {
    ascendc.if rows ge 4 {
      // CHECK-NEXT: ascendc.muls %f, %f [scalar = -inf, count = 64]
      ascendc.muls %f, %f [scalar = -inf, count = 64]
      // CHECK-NEXT: ascendc.duplicate %f [scalar = float(K), count = 64]
      ascendc.duplicate %f [scalar = float(K), count = 64]
      // CHECK-NEXT: ascendc.compare01s %f, %f, %u [mode = ge, scalar = 0.5, count = 64]
      ascendc.compare01s %f, %f, %u [count = 64, mode = ge, scalar = 0.5]
    }
    // CHECK: ascendc.pipe_barrier [pipe = V]
    ascendc.pipe_barrier [pipe = V]
  }
  // CHECK: ascendc.sync_all
  ascendc.sync_all
}

// -----

// CHECK-LABEL: ascendc.kernel @matmul
ascendc.kernel @matmul(%a: !ascendc.gm<bf16> in [64, 32], %b: !ascendc.gm<bf16> in [16, 32]) kind<mix> blocks 1 workspace 4096 {
  %ring = ascendc.workspace [offset = block * 4096] : !ascendc.gm<f32>
  // CHECK: ascendc.section aic {
  ascendc.section aic {
    // CHECK-NEXT: %mm = ascendc.init_mmad [m = 64, n = 16] : !ascendc.mmad<bf16, nt, f32>
    %mm = ascendc.init_mmad [m = 64, n = 16] : !ascendc.mmad<bf16, nt, f32>
    // CHECK-NEXT: ascendc.mmad_run %mm, %ring, %a, %b [c_at = 0, ldc = 16, a_at = 0, lda = 32, b_at = 0, ldb = 32, m = 64, n = 16, k = 32]
    ascendc.mmad_run %mm, %ring, %a, %b [c_at = 0, ldc = 16, a_at = 0, lda = 32, b_at = 0, ldb = 32, m = 64, n = 16, k = 32]
    // CHECK-NEXT: ascendc.cross_core_set_flag [pipe = FIX, flag = 0]
    ascendc.cross_core_set_flag [pipe = FIX, flag = 0]
  }
  // CHECK: ascendc.section aiv {
  ascendc.section aiv {
    // CHECK-NEXT: ascendc.cross_core_wait_flag [flag = 0]
    ascendc.cross_core_wait_flag [flag = 0]
  }
}

// -----

// Rows of the right operand that are windows of an image.
// CHECK-LABEL: ascendc.kernel @convolution
ascendc.kernel @convolution(%w: !ascendc.gm<f32> in [16, 18], %x: !ascendc.gm<f32> in [2, 3, 6, 16], %y: !ascendc.gm<f32> out [16, 64]) kind<aic> blocks 1 {
  %mm = ascendc.init_mmad [m = 16, n = 64] : !ascendc.mmad<f32, nn, f32>
  // CHECK: ascendc.mmad_windows %mm, %y, %w, %x [taps = 3, inner = 3, line = 16, phase = 0, step = 96, dilation = 1, stride = 1, c_at = 0, ldc = 64, a_at = 0, lda = 18, b_at = 0, ldb = 288, m = 16, n = 64, k = 18]
  ascendc.mmad_windows %mm, %y, %w, %x [taps = 3, inner = 3, line = 16, phase = 0, step = 96, dilation = 1, stride = 1, c_at = 0, ldc = 64, a_at = 0, lda = 18, b_at = 0, ldb = 288, m = 16, n = 64, k = 18]
}
