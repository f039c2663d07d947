// destination[...] = source[...] in nested loops; the elements are the bits of any dtype
//
// An invocation moves an element or vector, some neighbours, or, where the source has vectors along one axis and the
// target along another, a tile of four by four elements. The host writes these moves.
//
// Transposition, slicing, reversal, broadcasting, tiling, padding and joining are all this loop with suitable
// strides. Offsets wrap around, so a negative stride is its two's complement.

struct Parameters {
  count: u32,
  source_start: u32,
  target_start: u32,
$fields
  sizes: array<u32, $axes>,
  source_strides: array<u32, $axes>,
  target_strides: array<u32, $axes>,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> source: array<$element>;
@group(0) @binding(1) var<storage, read_write> destination: array<$target>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  var rest = index;
  // The last axis needs no division.
  @repeat(axis, places) let next$axis = quotient(rest, parameters.sizes[$axis]); let at$axis = rest - next$axis * parameters.sizes[$axis]; rest = next$axis;
  let at$last = rest;
  var source_at = parameters.source_start;
  @repeat(axis, axes) source_at += at$axis * parameters.source_strides[$axis];
  var target_at = parameters.target_start;
  @repeat(axis, axes) target_at += at$axis * parameters.target_strides[$axis];
  $moves
}
