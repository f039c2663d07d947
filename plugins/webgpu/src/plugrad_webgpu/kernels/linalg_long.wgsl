// output = a b for 64-bit integers, at any strides; each invocation computes $rows rows of one column
//
// A long sum is split: each split writes its part, and the parts are added later.

struct Parameters {
  count: u32,
  rows: u32,
  row_tiles: u32,
  columns: u32,
  depth: u32,
  run: u32,  // the part of depth that belongs to one split
  batch: u32,
  a_step: u32,  // from one matrix of a batch to the next, or 0
  a_row: u32,
  a_column: u32,
  b_step: u32,
  b_row: u32,
  b_column: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> a: array<vec2u>;
@group(0) @binding(1) var<storage, read> b: array<vec2u>;
@group(0) @binding(2) var<storage, read_write> output: array<vec2u>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let column = index % parameters.columns;
  let row = ${rows}u * ((index / parameters.columns) % parameters.row_tiles);
  let matrix = index / (parameters.columns * parameters.row_tiles);
  let element = matrix % parameters.batch;
  let first = matrix / parameters.batch * parameters.run;
  let a_start = element * parameters.a_step;
  @repeat(i, rows) let a_row$i = a_start + min(row + ${i}u, parameters.rows - 1u) * parameters.a_row;
  let b_start = element * parameters.b_step + column * parameters.b_column;
  @repeat(i, rows) var total$i = vec2u();
  for (var k = first; k < min(first + parameters.run, parameters.depth); k++) {
    let right = b[b_start + k * parameters.b_row];
    let at = k * parameters.a_column;
    @repeat(i, rows) total$i = sum_i64(total$i, product_i64(a[a_row$i + at], right));
  }
  let start = (matrix * parameters.rows + row) * parameters.columns + column;
  @repeat(i, rows) if (row + ${i}u < parameters.rows) { output[start + ${i}u * parameters.columns] = total$i; }
}
