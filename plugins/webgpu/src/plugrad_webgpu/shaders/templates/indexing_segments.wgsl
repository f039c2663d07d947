// Sums of the elements with each label, added in their order, so that every run gives the same sum
//
// The host has sorted the positions by their labels. Each invocation adds up a block of sorted elements, one run of
// equal labels after the other, and stores the sums of the runs that end in its block. What the blocks before it have
// of its first run comes from a first dispatch, which sums the last run of every block. So no loop is as long as a
// segment.

struct Parameters {
  count: u32,
  inner: u32,      // elements or vectors with one label
  positions: u32,  // labels
  run: u32,        // positions of a block
  segments: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> labels: array<u32>;
@group(0) @binding(1) var<storage, read> order: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<$element>;
@group(0) @binding(3) var<storage, read_write> last: array<$element>;
@group(0) @binding(3) var<storage, read> last_runs: array<$element>;
@group(0) @binding(4) var<storage, read_write> output: array<$element>;

fn label_at(k: u32) -> u32 { return labels[order[k]]; }

fn element_at(k: u32, inner: u32) -> $element { return input[order[k] * parameters.inner + inner]; }

fn store(label: u32, inner: u32, sum: $element) {
  if (label < parameters.segments) { output[label * parameters.inner + inner] = sum; }
}

@compute @workgroup_size(64)
fn sums_of_last_runs(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let inner = index % parameters.inner;
  let first = index / parameters.inner * parameters.run;
  let end = min(first + parameters.run, parameters.positions);
  let label = label_at(end - 1u);
  var sum = element_at(end - 1u, inner);
  for (var k = end - 1u; k > first && label_at(k - 1u) == label; k--) { sum += element_at(k - 1u, inner); }
  last[index] = sum;
}

@compute @workgroup_size(64)
fn sums_of_runs(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let inner = index % parameters.inner;
  let first = index / parameters.inner * parameters.run;
  let end = min(first + parameters.run, parameters.positions);
  var label = label_at(first);
  var sum = element_at(first, inner);
  for (var block = first; block > 0u && label_at(block - 1u) == label; block -= parameters.run) {
    sum += last_runs[(block / parameters.run - 1u) * parameters.inner + inner];
    if (label_at(block - parameters.run) != label) { break; }
  }
  for (var k = first + 1u; k < end; k++) {
    let next = label_at(k);
    let value = element_at(k, inner);
    if (next == label) {
      sum += value;
    } else {
      store(label, inner, sum);
      label = next;
      sum = value;
    }
  }
  if (end == parameters.positions || label_at(end) != label) { store(label, inner, sum); }
}
