// output = a b; each workgroup computes a tile of 64 rows and 64 columns from tiles in shared memory.
//
// This is the schedule for GPUs: 256 invocations load 16 columns of a and 16 rows of b at a time, and each
// computes 4 rows of 4 columns. Loads beyond the matrices give zero.

var<workgroup> a_tile: array<vec4<$T>, 256>;  // 64 rows of 4 vectors
var<workgroup> b_tile: array<vec4<$T>, 256>;  // 16 rows of 16 vectors

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let tile = tile_of(index, 64u, 16u);
  let a_row = min(tile.row + local / 4u, parameters.rows - 1u);
  let b_vector = min(tile.column + local % 16u, parameters.vectors - 1u);
  let a_start = tile.element * parameters.a_step + a_row * parameters.depth;
  let b_start = tile.element * parameters.b_step + b_vector;
  let row = 4u * (local / 16u);
  let vector = local % 16u;
  @repeat(i, 4) var sum$i = vec4<$T>();
  for (var k = tile.first; k < tile.end; k += 4u) {
    let a_at = k + local % 4u;
    let b_row = 4u * k + local / 16u;
    let b_end = 4u * tile.end;
    a_tile[local] = select(vec4<$T>(), a[a_start + min(a_at, tile.end - 1u)], a_at < tile.end);
    b_tile[local] = select(
      vec4<$T>(), b[b_start + min(b_row, b_end - 1u) * parameters.vectors], b_row < b_end
    );
    workgroupBarrier();
    for (var step = 0u; step < 4u; step++) {
      @repeat(i, 4) let a$i = a_tile[(row + ${i}u) * 4u + step];
      @repeat(j, 4) let b$j = b_tile[(4u * step + ${j}u) * 16u + vector];
      @repeat(i, 4) sum$i += a$i.x * b0; sum$i += a$i.y * b1; sum$i += a$i.z * b2; sum$i += a$i.w * b3;
    }
    workgroupBarrier();
  }
  @repeat(i, 4) store(tile.start, tile.row + row + ${i}u, tile.column + vector, sum$i);
}
