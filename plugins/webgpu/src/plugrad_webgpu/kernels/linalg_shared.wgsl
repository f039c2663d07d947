// output = a b, each workgroup computing a tile of 64 rows and 64 columns from tiles in shared memory.
//
// The schedule for GPUs: 256 invocations load 16 columns of a and 16 rows of b at a time, and each computes
// 4 rows of 4 columns. Loads beyond the matrices give zero. Operands, batches and splits as in
// linalg_direct.wgsl.

struct Parameters {
  count: u32,         // workgroups
  rows: u32,
  columns: u32,
  vectors: u32,
  depth: u32,
  row_tiles: u32,
  column_tiles: u32,
  batch: u32,
  a_step: u32,
  b_step: u32,
  run: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> a: array<vec4<$T>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<$T>>;
@group(0) @binding(2) var<storage, read_write> output: array<$result>;

var<workgroup> a_tile: array<vec4<$T>, 256>;  // 64 rows of 4 vectors
var<workgroup> b_tile: array<vec4<$T>, 256>;  // 16 rows of 16 vectors

fn store(start: u32, row: u32, column: u32, value: vec4<$T>) {
  if (row >= parameters.rows || column >= parameters.vectors) { return; }
  let offset = start + row * parameters.columns + 4u * column;
  $store
}

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let first_vector = 16u * (index % parameters.column_tiles);
  let first_row = 64u * ((index / parameters.column_tiles) % parameters.row_tiles);
  let matrix = index / (parameters.column_tiles * parameters.row_tiles);
  let element = matrix % parameters.batch;
  let first = (matrix / parameters.batch) * parameters.run;
  let end = min(first + parameters.run, parameters.depth);

  let a_row = first_row + local / 4u;
  let b_vector = first_vector + local % 16u;
  let a_start = element * parameters.a_step + min(a_row, parameters.rows - 1u) * parameters.depth;
  let b_start = element * parameters.b_step + min(b_vector, parameters.vectors - 1u);
  let row = 4u * (local / 16u);
  let vector = local % 16u;
  @repeat(i, 4) var sum$i = vec4<$T>();
  for (var k = first; k < end; k += 4u) {
    let a_vector = k + local % 4u;
    let b_row = 4u * k + local / 16u;
    a_tile[local] = select(vec4<$T>(), a[a_start + min(a_vector, end - 1u)], a_vector < end);
    b_tile[local] = select(vec4<$T>(), b[b_start + min(b_row, 4u * end - 1u) * parameters.vectors], b_row < 4u * end);
    workgroupBarrier();
    for (var step = 0u; step < 4u; step++) {
      @repeat(i, 4) let a$i = a_tile[(row + ${i}u) * 4u + step];
      @repeat(j, 4) let b$j = b_tile[(4u * step + ${j}u) * 16u + vector];
      @repeat(i, 4) sum$i += a$i.x * b0; sum$i += a$i.y * b1; sum$i += a$i.z * b2; sum$i += a$i.w * b3;
    }
    workgroupBarrier();
  }
  let start = matrix * parameters.rows * parameters.columns;
  @repeat(i, 4) store(start, first_row + row + ${i}u, first_vector + vector, sum$i);
}
