// Sums of the elements with each label, added in their order, so that every run gives the same sum
//
// The host has sorted the positions by their labels. The sorted elements are added up in blocks, each run of equal
// labels by itself. The sum of a segment is then that of the parts of its run in each block, which are the running
// sums at the ends of the parts. So no loop is as long as a segment.

struct Parameters {
  count: u32,
  inner: u32,      // elements or vectors with one label
  positions: u32,  // labels
  run: u32,        // positions of a block
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> labels: array<u32>;
@group(0) @binding(1) var<storage, read> order: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<$element>;
@group(0) @binding(2) var<storage, read_write> starts: array<u32>;
@group(0) @binding(3) var<storage, read_write> running: array<$element>;
@group(0) @binding(0) var<storage, read> bounds: array<u32>;
@group(0) @binding(1) var<storage, read> parts: array<$element>;
@group(0) @binding(2) var<storage, read_write> output: array<$element>;

// starts[s] = the number of positions whose label is below s
@compute @workgroup_size(64)
fn start_of_segments(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let segment = linear_index(id, groups, 64u);
  if (segment >= parameters.count) { return; }
  var low = 0u;
  var high = parameters.positions;
  for (var step = 0; step < 32 && low < high; step++) {
    let middle = (low + high) / 2u;
    if (labels[order[middle]] < segment) { low = middle + 1u; } else { high = middle; }
  }
  starts[segment] = low;
}

@compute @workgroup_size(64)
fn running_sums(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let inner = index % parameters.inner;
  let first = (index / parameters.inner) * parameters.run;
  var label = labels[order[first]];
  var sum = input[order[first] * parameters.inner + inner];
  running[first * parameters.inner + inner] = sum;
  for (var k = first + 1u; k < min(first + parameters.run, parameters.positions); k++) {
    let value = input[order[k] * parameters.inner + inner];
    let next = labels[order[k]];
    sum = select(value, sum + value, next == label);
    label = next;
    running[k * parameters.inner + inner] = sum;
  }
}

@compute @workgroup_size(64)
fn sums_of_parts(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let inner = index % parameters.inner;
  let segment = index / parameters.inner;
  let start = bounds[segment];
  let end = bounds[segment + 1u];
  var sum = $element();
  if (start < end) {
    var next = min((start / parameters.run + 1u) * parameters.run, end);
    sum = parts[(next - 1u) * parameters.inner + inner];
    while (next < end) {
      next = min(next + parameters.run, end);
      sum += parts[(next - 1u) * parameters.inner + inner];
    }
  }
  output[index] = sum;
}
