// The gradient of a resized axis, the middle one of (outer, length, inner): each position collects from the steps
// that show it. Step i shows position low[i] and the next one, at a share of the distance.

struct Parameters {
  count: u32,
  chunks: u32,  // of `inner`
  chunk: u32,   // elements or vectors that an invocation works on
  inner: u32,   // elements or vectors
  length: u32,
  steps: u32,
  begin: u32,   // the steps from which this dispatch collects
  end: u32,
}
var<immediate> parameters: Parameters;

// The steps' positions `low` and the bits of their shares, the first step that shows each position, and the end of
// these steps
@group(0) @binding(0) var<storage, read> places: array<u32>;
@group(0) @binding(1) var<storage, read> dy: array<$element>;
@group(0) @binding(2) var<storage, read_write> output: array<$element>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let place = index / parameters.chunks;
  let position = place % parameters.length;
  let row = place / parameters.length * parameters.steps;
  let ranges = 2u * parameters.steps + position;
  let first_step = max(places[ranges], parameters.begin);
  let end_step = min(places[ranges + parameters.length], parameters.end);
  let first = (index % parameters.chunks) * parameters.chunk;
  let end = min(first + parameters.chunk, parameters.inner);
  for (var i = first; i < end; i++) {
    var sum = $element();
    if (parameters.begin > 0u) { sum = output[place * parameters.inner + i]; }
    for (var step = first_step; step < end_step; step++) {
      let share = bitcast<f32>(places[parameters.steps + step]);
      let weight = select(share, 1.0 - share, places[step] == position);
      if (weight != 0.0) { sum += dy[(row + step) * parameters.inner + i] * weight; }
    }
    output[place * parameters.inner + i] = sum;
  }
}
