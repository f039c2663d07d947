// output[o, k, i] = the combination of input[o, j, i] over the j up to k
//
// The array has the axes (outer, length, inner), of which the middle one is accumulated, in blocks. First each
// invocation computes the total of a block. The totals are then accumulated in the same way, and tell each block
// where it starts. Last each invocation accumulates a block. No invocation waits for another.
//
// A running total is a `$state`, which for sums of floats is more precise than an element. Where the axis is the last
// one, elements are read and written as vectors; after the end of the last one there may be elements of no meaning.

struct Parameters {
  count: u32,         // blocks of all rows
  length: u32,        // elements or vectors
  inner: u32,
  run: u32,           // elements or vectors of a block
  blocks: u32,        // of a row
  is_exclusive: u32,
  is_reverse: u32,
  zero: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> input: array<$element>;
$bindings

fn joined(a: $state, b: $state) -> $state { return $join; }

fn state_of(x: $item) -> $state { return $lift; }

fn result_of(total: $state) -> $item { return $lower; }

// The element at place k of a row that starts at `row`
fn element_at(row: u32, k: u32) -> u32 {
  return row + select(k, parameters.length - 1u - k, parameters.is_reverse == 1u) * parameters.inner;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let inner = index % parameters.inner;
  let block = (index / parameters.inner) % parameters.blocks;
  let row = index / (parameters.inner * parameters.blocks) * parameters.length * parameters.inner + inner;
  let first = block * parameters.run;
  let end = min(first + parameters.run, parameters.length);
  var total = $start;
  for (var k = first; k < end; k++) {
    let at = element_at(row, k);
    let values = input[at];
    $each
  }
  $last
}
