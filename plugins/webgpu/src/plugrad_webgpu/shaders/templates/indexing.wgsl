// Loads at positions that are data, and marks there. An index out of range never reaches memory.

struct Parameters {
  count: u32,
  inner: u32,      // elements or vectors that move together
  positions: u32,  // indices of one batch
  size: u32,       // elements along the indexed axis, or or the depth
  outer: u32,      // of one batch
  unused: u32,     // the next two may be pairs
  on: $word,
  off: $word,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> indices: array<u32>;
@group(0) @binding(1) var<storage, read> input: array<$element>;
@group(0) @binding(1) var<storage, read_write> hot: array<$word>;
@group(0) @binding(2) var<storage, read_write> output: array<$element>;

// output[b, o, p, i] = input[b, o, indices[b, p], i]; a negative index counts from the end, and an index
// out of range gives zero
@compute @workgroup_size(64)
fn gather(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  // Divisions and stores take long on software devices, which also compute what a branch leaves out.
  let run = index / parameters.inner;
  let row = run / parameters.positions;
  let given = indices[(row / parameters.outer) * parameters.positions + run - row * parameters.positions];
  let found = from_front_$T(given, parameters.size);
  let is_inside = found < parameters.size;
  let place = (row * parameters.size + found) * parameters.inner + index - run * parameters.inner;
  output[index] = select($element(), input[select(0u, place, is_inside)], is_inside);
}

// hot[p, d] = on where indices[p] is d, otherwise off; both are the bits of an element
@compute @workgroup_size(64)
fn one_hot(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let position = index / parameters.size;
  let is_hot = indices[position] == index - position * parameters.size;
  hot[index] = select(parameters.off, parameters.on, is_hot);
}
