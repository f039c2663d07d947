// output[o, s, i] = the combination of input[o, k, i] over the k that belong to segment s
//
// The array has the axes (outer, length, inner), of which the middle one is reduced. Each invocation reduces one
// segment; the host then reduces the segments until one is left. No loop is longer than drivers allow. The host also
// decides where the elements of a segment are: next to each other for the caches of a CPU (10 times as fast on
// lavapipe), or interleaved, so that the invocations of a GPU read neighbours at the same time. On GPUs, the
// invocations of a workgroup combine their segments of a row; on software devices, no invocation waits for another.
//
// A long segment is combined in rows of blocks, because a long sum in single precision loses small terms.
//
// Elements are scalars, vectors across `inner`, or vectors along the reduced axis. In the last case the last
// vector is filled up with the identity, and the lanes are combined at the end. What vectors need is in
// reduction_lanes.wgsl, and what several vectors across `inner` need in reduction_lines.wgsl.

struct Parameters {
  count: u32,     // invocations with a segment
  segments: u32,
  inner: u32,     // elements or vectors
  length: u32,    // of the reduced axis; this and the next three are distances in the input
  offset: u32,    // from the start of one segment to that of the next
  step: u32,      // from one element of a segment to the next
  span: u32,      // from the start of a segment to its end
  size: u32,      // elements along the reduced axis
  identity: $T,
  divisor: f32,
$fields
}
var<immediate> parameters: Parameters;

const BLOCK = ${block}u;

@group(0) @binding(0) var<storage, read> input: array<$element>;

$store

fn combine(a: $T, b: $T) -> $T { return $combine; }

$joined

fn whole(v: $element, k: u32) -> $element { return v; }

fn one_by_one(start: u32, first: u32, end: u32) -> $element {
  let step = parameters.step;
  var total = $identity;
  for (var at = first; at < end; at += step) {
    total = $combine_elements(total, $prepare(input[start + at], at));
  }
  return total;
}

fn row_by_row(start: u32, first: u32, end: u32) -> $element {
  let block_span = BLOCK * parameters.step;
  let row_span = BLOCK * block_span;
  var total = $identity;
  for (var row = first; row < end; row += row_span) {
    let row_end = min(row + row_span, end);
    var of_row = $identity;
    for (var block = row; block < row_end; block += block_span) {
      of_row = $combine_elements(of_row, one_by_one(start, block, min(block + block_span, row_end)));
    }
    total = $combine_elements(total, of_row);
  }
  return total;
}

@compute @workgroup_size(${workgroup})
fn main(
  @builtin(global_invocation_id) id: vec3u,
  @builtin(local_invocation_index) place: u32,
  @builtin(num_workgroups) groups: vec3u,
  $lanes_given
) {
  let index = linear_index(id, groups, ${workgroup}u);
  $guard
  let inner = index % parameters.inner;
  let segment = (index / parameters.inner) % parameters.segments;
  let outer = index / (parameters.inner * parameters.segments);
  let start = outer * parameters.length + inner;
  let first = segment * parameters.offset;
  let total = $walk(start, first, min(first + parameters.span, parameters.length));
  $store_total
}
