// RUN: gaf-opt %s -p 'overlap-collectives{objective=time}' | filecheck %s

// The rows of x are cut into parts: while one part is added up over the ranks, the next one is multiplied.

func.func @main(%x: !graph.tensor<[16384, 4096], f16>, %w: !graph.tensor<[4096, 4096], f16>) -> !graph.tensor<[16384, 4096], f16> {
  %0 = graph.fused "matmul" @project(%a = %x : !graph.tensor<[16384, 4096], f16>, %b = %w : !graph.tensor<[4096, 4096], f16>) -> (!graph.tensor<[16384, 4096], f16>) {
    %2 = graph.matmul %a, %b : (!graph.tensor<[16384, 4096], f16>, !graph.tensor<[4096, 4096], f16>) -> !graph.tensor<[16384, 4096], f16>
    graph.yield %2 : !graph.tensor<[16384, 4096], f16>
  }
  %1 = graph.all_reduce %0 {reduce = "sum", ranks = 8 : i64, group = ""} : (!graph.tensor<[16384, 4096], f16>) -> !graph.tensor<[16384, 4096], f16>
  func.return %1 : !graph.tensor<[16384, 4096], f16>
}

// CHECK-LABEL: func.func @main
// CHECK: graph.overlap %x, %w {parts = {{[248]}} : i64, axes = array<i64: 0, -1>, result_axes = array<i64: 0>}
// CHECK: graph.fused "matmul" @project_part
// CHECK: graph.yield
// CHECK: graph.all_reduce
// CHECK: graph.yield
