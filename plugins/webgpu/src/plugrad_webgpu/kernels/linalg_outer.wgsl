// output = the transpose of a times b; each invocation computes 8 rows of 8 columns directly from the buffers.
//
// Both operands are read along their rows, so a sum of outer products does not need a transposed copy. The
// gradients of a product and of a filter are such sums. In all else this is like linalg_direct.wgsl.

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 8u);
  if (index >= parameters.count) { return; }
  let tile = tile_of(index, 8u, 2u);
  let a_vectors = parameters.rows / 4u;
  let a_start = tile.element * parameters.a_step + tile.first * a_vectors;
  let b_start = tile.element * parameters.b_step + tile.first * parameters.vectors;
  var upper_at = a_start + tile.row / 4u;
  var lower_at = a_start + min(tile.row / 4u + 1u, a_vectors - 1u);
  var left_at = b_start + tile.column;
  var right_at = b_start + min(tile.column + 1u, parameters.vectors - 1u);
  @repeat(i, 8) var left$i = vec4<$T>(); var right$i = vec4<$T>();
  for (var k = tile.first; k < tile.end; k++) {
    let upper = a[upper_at];
    let lower = a[lower_at];
    let left = b[left_at];
    let right = b[right_at];
    @repeat(i, 4) left$i += upper[$i] * left; right$i += upper[$i] * right;
    left4 += lower.x * left;
    right4 += lower.x * right;
    left5 += lower.y * left;
    right5 += lower.y * right;
    left6 += lower.z * left;
    right6 += lower.z * right;
    left7 += lower.w * left;
    right7 += lower.w * right;
    upper_at += a_vectors;
    lower_at += a_vectors;
    left_at += parameters.vectors;
    right_at += parameters.vectors;
  }
  @repeat(i, 8) store(tile.start, tile.row + ${i}u, tile.column, left$i);
  @repeat(i, 8) store(tile.start, tile.row + ${i}u, tile.column + 1u, right$i);
}
