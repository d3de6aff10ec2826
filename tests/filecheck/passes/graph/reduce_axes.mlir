// RUN: gaf-opt %s -p fuse,lower-graph --split-input-file | filecheck %s

// Rows of the tile are one reduced axis, the other is walked point by point; the partial sums are merged.
// CHECK: tile.kernel @reduce_sum(
// CHECK: tile.grid [g0 step 1, n step tn] {
// CHECK: %[[ALL:.*]] = tile.for g1 step 1 iter(%[[OUTER:.*]] = %{{.*}}) {
// CHECK: %[[ROWS:.*]] = tile.for m step tm iter(%[[INNER:.*]] = %{{.*}}) {
// CHECK: %[[X:.*]] = tile.load %x[m, g0.lo, g1.lo, n] : !tile.t<[m, n], f32>
// CHECK: %[[PART:.*]] = tile.reduce sum(%[[X]]) over [m] : !tile.t<[n], f32>
// CHECK: tile.merge sum(%[[INNER]] | %[[PART]])
// CHECK: tile.merge sum(%[[OUTER]] | %[[ROWS]])
// CHECK: tile.store %[[ALL]]
func.func @main(%x: !graph.tensor<[B, 600, S, 40], f32>) -> !graph.tensor<[600, 40], f32> {
  %y = graph.reduce_sum %x {axes = array<i64: 0, 2>, keepdims = false} : (!graph.tensor<[B, 600, S, 40], f32>) -> !graph.tensor<[600, 40], f32>
  func.return %y : !graph.tensor<[600, 40], f32>
}

// -----

// Channels of a group and positions are rows and lanes of one tile; the dim of channels is cut into groups.
// CHECK: tile.kernel @group_norm(
// CHECK-SAME: axes [g0 = B, g1 = 2, m = 4, n = 49]
// CHECK: %[[X:.*]] = tile.load %x[g0.lo, g1.lo * 4 + m, n] : !tile.t<[m, n], f32>
// CHECK: tile.reduce sum(%[[X]]) over [m, n] : !tile.t<[], f32>
// CHECK: tile.load %w[g1.lo * 4 + m] : !tile.t<[m], f32>
// CHECK: tile.kernel @group_norm_streamed(
// CHECK: tile.for m step tm iter(
// CHECK: tile.for n step tn iter(
func.func @group(%x: !graph.tensor<[B, 8, 49], f32>, %w: !graph.tensor<[8], f32>, %b: !graph.tensor<[8], f32>) -> !graph.tensor<[B, 8, 49], f32> {
  %y = graph.group_norm %x, %w, %b {epsilon = 1.000000e-05 : f64, num_groups = 2 : i64} : (!graph.tensor<[B, 8, 49], f32>, !graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[B, 8, 49], f32>
  func.return %y : !graph.tensor<[B, 8, 49], f32>
}
