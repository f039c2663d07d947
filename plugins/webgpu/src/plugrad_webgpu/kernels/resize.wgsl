// The middle one of the axes (outer, length, inner) is resized to `steps` places. Step i of the result shows the
// point between low[i] and the next position, at a share of the distance, which the host has computed.
//
// The gradient has an invocation for each element of the image, which collects from the steps that show it.

struct Parameters {
  count: u32,
  inner: u32,   // elements or vectors
  length: u32,
  steps: u32,
  begin: u32,   // the steps from which a gradient collects
  end: u32,
}
var<immediate> parameters: Parameters;

// The steps' positions `low` and the bits of their shares; for a gradient followed by the first step that shows
// each position, and the end of these steps
@group(0) @binding(0) var<storage, read> places: array<u32>;
@group(0) @binding(1) var<storage, read> input: array<$element>;
@group(0) @binding(2) var<storage, read_write> output: array<$element>;

fn share_of(step: u32) -> f32 { return bitcast<f32>(places[parameters.steps + step]); }

@compute @workgroup_size(64)
fn resize(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let inner = index % parameters.inner;
  let step = (index / parameters.inner) % parameters.steps;
  let row = index / (parameters.inner * parameters.steps) * parameters.length;
  let low = places[step];
  let first = input[(row + low) * parameters.inner + inner];
  let second = input[(row + min(low + 1u, parameters.length - 1u)) * parameters.inner + inner];
  output[index] = first + (second - first) * share_of(step);
}

@compute @workgroup_size(64)
fn gradient(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let inner = index % parameters.inner;
  let position = (index / parameters.inner) % parameters.length;
  let row = index / (parameters.inner * parameters.length) * parameters.steps;
  let ranges = 2u * parameters.steps + position;
  let end = min(places[ranges + parameters.length], parameters.end);
  var sum = $element();
  if (parameters.begin > 0u) { sum = output[index]; }
  for (var step = max(places[ranges], parameters.begin); step < end; step++) {
    let share = share_of(step);
    let weight = select(share, 1.0 - share, places[step] == position);
    if (weight != 0.0) { sum += input[(row + step) * parameters.inner + inner] * weight; }
  }
  output[index] = sum;
}
