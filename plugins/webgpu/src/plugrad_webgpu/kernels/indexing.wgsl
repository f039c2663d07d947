// Loads and additions at positions that are data. An index out of range never reaches memory.

struct Parameters {
  count: u32,
  inner: u32,      // elements or vectors that move together
  positions: u32,  // indices of one batch
  size: u32,       // elements along the indexed axis, or the depth, or the number of segments
  outer: u32,      // of one batch
  on: u32,
  off: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> indices: array<i32>;
@group(0) @binding(1) var<storage, read> input: array<$element>;
@group(0) @binding(1) var<storage, read_write> hot: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<$element>;
@group(0) @binding(2) var<storage, read_write> sums: array<atomic<u32>>;

// output[b, o, p, i] = input[b, o, indices[b, p], i]; a negative index counts from the end, and an index
// out of range gives zero
@compute @workgroup_size(64)
fn gather(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let inner = index % parameters.inner;
  let position = (index / parameters.inner) % parameters.positions;
  let row = index / (parameters.inner * parameters.positions);
  let given = indices[(row / parameters.outer) * parameters.positions + position];
  let found = u32(select(given, given + i32(parameters.size), given < 0));
  if (found >= parameters.size) {
    output[index] = $element();
    return;
  }
  output[index] = input[(row * parameters.size + found) * parameters.inner + inner];
}

// hot[p, d] = on where indices[p] is d, otherwise off; both are bits
@compute @workgroup_size(64)
fn one_hot(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let is_hot = u32(indices[index / parameters.size]) == index % parameters.size;
  hot[index] = select(parameters.off, parameters.on, is_hot);
}

// sums[indices[p], i] += input[p, i]; floats are added by comparing and exchanging their bits
@compute @workgroup_size(64)
fn segment_sum(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let segment = u32(indices[index / parameters.inner]);
  if (segment >= parameters.size) { return; }
  let at = segment * parameters.inner + index % parameters.inner;
  let value = input[index];
  $add
}
