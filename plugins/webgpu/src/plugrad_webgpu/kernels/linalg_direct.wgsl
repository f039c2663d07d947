// output = a b, each invocation computing $rows rows of 8 columns straight from the buffers.
//
// The schedule for software devices, where barriers are slow, and for few rows anywhere. The host has filled
// up the depth and the columns of b to whole vectors; rows and columns beyond the end are computed twice
// rather than guarded, and not stored. A long sum is split: each split writes its part, to be added later.

struct Parameters {
  count: u32,         // invocations
  rows: u32,
  columns: u32,       // of the output, in elements
  vectors: u32,       // of a row of b
  depth: u32,         // vectors of a row of a
  row_tiles: u32,
  column_tiles: u32,
  batch: u32,
  a_step: u32,        // vectors from one matrix of a batch to the next, or 0
  b_step: u32,
  run: u32,           // vectors of depth of one split
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> a: array<vec4<$T>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<$T>>;
@group(0) @binding(2) var<storage, read_write> output: array<$result>;

fn store(start: u32, row: u32, column: u32, value: vec4<$T>) {
  if (row >= parameters.rows || column >= parameters.vectors) { return; }
  let offset = start + row * parameters.columns + 4u * column;
  $store
}

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 8u);
  if (index >= parameters.count) { return; }
  let column = 2u * (index % parameters.column_tiles);
  let row = ${rows}u * ((index / parameters.column_tiles) % parameters.row_tiles);
  let matrix = index / (parameters.column_tiles * parameters.row_tiles);
  let element = matrix % parameters.batch;
  let first = (matrix / parameters.batch) * parameters.run;
  let end = min(first + parameters.run, parameters.depth);

  @repeat(i, rows) let a_row$i = element * parameters.a_step + min(row + ${i}u, parameters.rows - 1u) * parameters.depth;
  let last = parameters.vectors - 1u;
  var left_at = element * parameters.b_step + 4u * first * parameters.vectors + column;
  var right_at = element * parameters.b_step + 4u * first * parameters.vectors + min(column + 1u, last);
  @repeat(i, rows) var left$i = vec4<$T>(); var right$i = vec4<$T>();
  for (var k = first; k < end; k++) {
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
  let start = matrix * parameters.rows * parameters.columns;
  @repeat(i, rows) store(start, row + ${i}u, column, left$i); store(start, row + ${i}u, column + 1u, right$i);
}
