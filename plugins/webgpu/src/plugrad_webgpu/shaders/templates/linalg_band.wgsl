// The matrices of the input with zeros outside a band around the diagonal; elements are the bits of any dtype
//
// The numbers of diagonals below and above the main one are on the device. A negative number keeps all.

struct Parameters {
  count: u32,
  rows: u32,
  columns: u32,  // or vectors
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> input: array<$element>;
@group(0) @binding(1) var<storage, read> lower: array<i32>;
@group(0) @binding(2) var<storage, read> upper: array<i32>;
@group(0) @binding(3) var<storage, read_write> output: array<$element>;

fn kept(diagonals: i32) -> $number { return $number(select(diagonals, 0x7fffffff, diagonals < 0)); }

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let column = i32(index % parameters.columns) * $width + $number($lanes);
  let row = $number(i32((index / parameters.columns) % parameters.rows));
  let is_kept = (row - column <= kept(lower[0])) & (column - row <= kept(upper[0]));
  output[index] = select($element(), input[index], is_kept);
}
