// output = a b for 64-bit integers, at any strides; each invocation computes $rows rows of $columns columns
//
// The lower halves of two elements have a product of 64 bits. Of the products of a lower and an upper half only the
// lower 32 bits count, and of that of the upper halves nothing. A long sum is split: each split writes its part, and
// the parts are added later.
//
// On a software device the invocations of a subgroup load one row each, and broadcast its elements to the others:
// linalg_broadcast.wgsl tells why. Words of 64 bits are used where the device has them.

struct Parameters {
  count: u32,
  rows: u32,
  row_tiles: u32,
  columns: u32,
  stride: u32,  // from one column of an invocation to the next
  depth: u32,
  run: u32,     // the part of depth that belongs to one split
  batch: u32,
  a_step: u32,  // from one matrix of a batch to the next, or 0
  a_row: u32,
  a_column: u32,
  b_step: u32,
  b_row: u32,
  b_column: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> a: array<$word>;
@group(0) @binding(1) var<storage, read> b: array<$word>;
@group(0) @binding(2) var<storage, read_write> output: array<vec2u>;

fn halves(word: $word) -> vec2u { return $halves; }

fn added(sum: $word, a: u32, b: u32) -> $word { return $added; }

@compute @workgroup_size($workgroup)
fn main(
  @builtin(global_invocation_id) id: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  $lane
) {
  let index = linear_index(id, groups, ${workgroup}u);
  if (index >= parameters.count) { return; }
  let row = ${rows}u * ((index / parameters.stride) % parameters.row_tiles);
  let matrix = index / (parameters.stride * parameters.row_tiles);
  let element = matrix % parameters.batch;
  let first = matrix / parameters.batch * parameters.run;
  @repeat(j, columns) let column$j = index % parameters.stride + ${j}u * parameters.stride;
  @repeat(j, columns) let b_start$j = element * parameters.b_step + min(column$j, parameters.columns - 1u) * parameters.b_column;
  @repeat(i, loads) let a_start$i = element * parameters.a_step + min(row + $own${i}, parameters.rows - 1u) * parameters.a_row;
  @repeat(i, rows) @repeat(j, columns) var lower${i}_$j = $zero;
  @repeat(i, rows) @repeat(j, columns) var upper${i}_$j = 0u;
  for (var k = first; k < min(first + parameters.run, parameters.depth); k++) {
    @repeat(i, loads) let own$i = halves(a[a_start$i + k * parameters.a_column]);
    @repeat(j, columns) let right$j = halves(b[b_start$j + k * parameters.b_row]);
    @repeat(i, rows) {
      let left = $left${i};
      @repeat(j, columns) lower${i}_$j = added(lower${i}_$j, left.x, right$j.x);
      @repeat(j, columns) upper${i}_$j += left.x * right$j.y + left.y * right$j.x;
    }
  }
  let start = (matrix * parameters.rows + row) * parameters.columns;
  @repeat(i, rows) @repeat(j, columns) if (row + ${i}u < parameters.rows && column$j < parameters.columns) { output[start + ${i}u * parameters.columns + column$j] = halves(lower${i}_$j) + vec2u(0u, upper${i}_$j); }
}
