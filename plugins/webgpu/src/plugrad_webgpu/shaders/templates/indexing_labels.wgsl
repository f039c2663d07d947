// Whole numbers that are added where labels say; the order of such additions does not change their sums
//
// The labels may have rows, each with segments of its own. A label that is no segment adds nothing.

struct Parameters {
  count: u32,
  inner: u32,   // elements with one label
  length: u32,  // labels of a row
  size: u32,    // segments of a row
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> labels: array<u32>;
@group(0) @binding(1) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read_write> segments: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<atomic<u32>>;

const NONE = 0xffffffffu;

// The segment of a label among those of all rows
fn segment_of(index: u32) -> u32 {
  let label = labels[index];
  return select(NONE, index / parameters.length * parameters.size + label, label < parameters.size);
}

@compute @workgroup_size(64)
fn segments_of_rows(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  segments[index] = segment_of(index);
}

@compute @workgroup_size(64)
fn count_labels(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let segment = segment_of(index);
  if (segment != NONE) { atomicAdd(&counts[segment], 1u); }
}

@compute @workgroup_size(64)
fn find_labels(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let segment = segment_of(index);
  if (segment != NONE) { atomicMax(&counts[segment], 1u); }
}

@compute @workgroup_size(64)
fn add_elements(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let segment = segment_of(index / parameters.inner);
  if (segment != NONE) {
    atomicAdd(&sums[segment * parameters.inner + index % parameters.inner], input[index]);
  }
}

// Integers of two words: a word that overflows passes a carry to the higher one.
@compute @workgroup_size(64)
fn add_longs(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let segment = segment_of(index / parameters.inner);
  if (segment != NONE) {
    let at = 2u * (segment * parameters.inner + index % parameters.inner);
    let low = input[2u * index];
    let carry = u32(atomicAdd(&sums[at], low) + low < low);
    atomicAdd(&sums[at + 1u], input[2u * index + 1u] + carry);
  }
}
