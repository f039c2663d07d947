// output = a b; each invocation computes up to 8 rows of 8 columns directly from the buffers.
//
// This is the schedule for software devices, where barriers are slow, and for few rows on any device. Rows and
// columns beyond the end repeat the last one instead of being guarded, and are not stored.

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 8u);
  if (index >= parameters.count) { return; }
  let tile = tile_of(index, ${rows}u, 2u);
  let a_start = tile.element * parameters.a_step;
  let last_row = parameters.rows - 1u;
  @repeat(i, rows) let a_row$i = a_start + min(tile.row + ${i}u, last_row) * parameters.depth;
  let b_start = tile.element * parameters.b_step + 4u * tile.first * parameters.vectors;
  var left_at = b_start + tile.column;
  var right_at = b_start + min(tile.column + 1u, parameters.vectors - 1u);
  @repeat(i, rows) var left$i = vec4<$T>(); var right$i = vec4<$T>();
  for (var k = tile.first; k < tile.end; k++) {
    @repeat(i, rows) let a$i = a[a_row$i + k];
    let left_x = b[left_at];
    let right_x = b[right_at];
    @repeat(i, rows) left$i += a$i.x * left_x; right$i += a$i.x * right_x;
    let left_y = b[left_at + parameters.vectors];
    let right_y = b[right_at + parameters.vectors];
    @repeat(i, rows) left$i += a$i.y * left_y; right$i += a$i.y * right_y;
    let left_z = b[left_at + 2u * parameters.vectors];
    let right_z = b[right_at + 2u * parameters.vectors];
    @repeat(i, rows) left$i += a$i.z * left_z; right$i += a$i.z * right_z;
    let left_w = b[left_at + 3u * parameters.vectors];
    let right_w = b[right_at + 3u * parameters.vectors];
    @repeat(i, rows) left$i += a$i.w * left_w; right$i += a$i.w * right_w;
    left_at += 4u * parameters.vectors;
    right_at += 4u * parameters.vectors;
  }
  @repeat(i, rows) store(tile.start, tile.row + ${i}u, tile.column, left$i);
  @repeat(i, rows) store(tile.start, tile.row + ${i}u, tile.column + 1u, right$i);
}
