// output[m, r, c] = the input at any strides, and zeros beyond its rows and columns, for any 32-bit dtype
//
// This brings the operands of a product into the form that the schedules read: row-major, in whole vectors.

struct Parameters {
  count: u32,
  rows: u32,          // of the output
  columns: u32,
  input_rows: u32,
  input_columns: u32,
  batch_stride: u32,
  row_stride: u32,
  column_stride: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let column = index % parameters.columns;
  let row = (index / parameters.columns) % parameters.rows;
  let matrix = index / (parameters.columns * parameters.rows);
  if (row >= parameters.input_rows || column >= parameters.input_columns) {
    output[index] = 0u;
    return;
  }
  output[index] = input[
    matrix * parameters.batch_stride + row * parameters.row_stride + column * parameters.column_stride
  ];
}
