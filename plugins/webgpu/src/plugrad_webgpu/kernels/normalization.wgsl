// Softmax and its logarithm along the middle axis of (outer, size, inner)
//
// There are two schedules: one invocation for each row, for software devices, and one workgroup for each row,
// whose invocations share the maximum and the sum, for GPUs.

struct Parameters {
  count: u32,  // rows
  size: u32,
  inner: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;

var<workgroup> parts: array<f32, 64>;

// What the second pass over a row stores in the output, and what the last pass computes from it
fn kept_of(shifted: f32, exponential: f32) -> f32 { return $kept; }

fn total_of(sum: f32) -> f32 { return $total; }

fn finished(kept: f32, total: f32) -> f32 { return $finish; }

@compute @workgroup_size(8)
fn by_invocation(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let row = linear_index(id, groups, 8u);
  if (row >= parameters.count) { return; }
  let step = parameters.inner;
  let start = (row / step) * step * parameters.size + row % step;
  let end = start + step * parameters.size;
  var highest = input[start];
  for (var at = start; at < end; at += step) { highest = maximum(highest, input[at]); }
  var sum = 0.0;
  for (var at = start; at < end; at += step) {
    let shifted = input[at] - highest;
    let exponential = exp_accurate(shifted);
    output[at] = kept_of(shifted, exponential);
    sum += exponential;
  }
  let total = total_of(sum);
  for (var at = start; at < end; at += step) { output[at] = finished(output[at], total); }
}

@compute @workgroup_size(64)
fn by_workgroup(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
) {
  let row = group.y * groups.x + group.x;
  if (row >= parameters.count) { return; }
  let start = (row / parameters.inner) * parameters.inner * parameters.size + row % parameters.inner;
  var highest = input[start];
  for (var k = local; k < parameters.size; k += 64u) {
    highest = maximum(highest, input[start + k * parameters.inner]);
  }
  parts[local] = highest;
  workgroupBarrier();
  for (var half = 32u; half > 0u; half /= 2u) {
    if (local < half) { parts[local] = maximum(parts[local], parts[local + half]); }
    workgroupBarrier();
  }
  highest = parts[0];
  workgroupBarrier();
  var sum = 0.0;
  for (var k = local; k < parameters.size; k += 64u) {
    let at = start + k * parameters.inner;
    let shifted = input[at] - highest;
    let exponential = exp_accurate(shifted);
    output[at] = kept_of(shifted, exponential);
    sum += exponential;
  }
  parts[local] = sum;
  workgroupBarrier();
  for (var half = 32u; half > 0u; half /= 2u) {
    if (local < half) { parts[local] += parts[local + half]; }
    workgroupBarrier();
  }
  let total = total_of(parts[0]);
  for (var k = local; k < parameters.size; k += 64u) {
    let at = start + k * parameters.inner;
    output[at] = finished(output[at], total);
  }
}
