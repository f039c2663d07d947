// output[o, s, i] = the position k of the best input[o, k, i] of segment s, the first one among equals
//
// A later stage chooses among the positions that the previous stage found. Segments are runs of neighbours, so
// that their order is that of the positions.

struct Parameters {
  count: u32,     // outputs
  length: u32,    // positions to choose from, along the reduced axis
  segments: u32,
  inner: u32,
  size: u32,      // elements along the reduced axis
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> input: array<$T>;
$bindings

fn is_better(value: $T, best: $T) -> bool { return $is_better; }

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let inner = index % parameters.inner;
  let segment = (index / parameters.inner) % parameters.segments;
  let outer = index / (parameters.inner * parameters.segments);
  let run = (parameters.length + parameters.segments - 1u) / parameters.segments;
  let first = segment * run;
  let start = outer * parameters.size * parameters.inner + inner;
  let choices = outer * parameters.length * parameters.inner + inner;
  var best_position = $position_of_first;
  var best = input[start + u32(best_position) * parameters.inner];
  for (var k = first + 1u; k < min(first + run, parameters.length); k++) {
    let position = $position;
    let value = input[start + u32(position) * parameters.inner];
    if (is_better(value, best)) {
      best = value;
      best_position = position;
    }
  }
  output[index] = best_position;
}
