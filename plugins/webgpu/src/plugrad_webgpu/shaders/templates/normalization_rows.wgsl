// Layer normalization of the rows of (count, size), or its gradient: passes over a row that find averages, and one that
// computes the results
//
// There are two schedules: one invocation for each row, for software devices, and one workgroup for each row, whose
// invocations share what they have found, for GPUs. Elements are scalars, or vectors along the row.

struct Parameters {
  count: u32,  // rows
  size: u32,     // elements
  vectors: u32,  // elements or vectors
  epsilon: f32,
$fields
}
var<immediate> parameters: Parameters;

$bindings

$store

$joined

const BLOCK = 64u;  // terms that are added one after the other, before their sum is added to others

fn sum_of(v: $element) -> f32 { return $sum_of; }

// The mean of a row, the inverse of its deviation, and two averages that the gradient takes
alias Found = vec4f;

// What pass number `turn` adds up over the elements k of a row, which are at `at`
fn term(turn: u32, at: u32, k: u32, found: Found) -> vec2f {
  if (turn == 0u) { return vec2f(sum_of(x[at]), 0.0); }
  let centred = x[at] - found.x;
  if (turn == 1u) { return vec2f(sum_of(centred * centred), 0.0); }
  let g = $g;
  return vec2f(sum_of(g), sum_of(g * centred * found.y));
}

fn extended(turn: u32, found: Found, sums: vec2f) -> Found {
  let averages = sums / f32(parameters.size);
  if (turn == 0u) { return Found(averages.x, 0.0, 0.0, 0.0); }
  if (turn == 1u) { return Found(found.x, 1.0 / sqrt(averages.x + parameters.epsilon), 0.0, 0.0); }
  return Found(found.xy, averages);
}

fn result(at: u32, k: u32, found: Found) -> $element {
  let h = (x[at] - found.x) * found.y;
  return $result;
}

@compute @workgroup_size(8)
fn by_invocation(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let row = linear_index(id, groups, 8u);
  if (row >= parameters.count) { return; }
  let start = row * parameters.vectors;
  var found = Found();
  @repeat(turn, turns) {
    var sums = vec2f();
    for (var first = 0u; first < parameters.vectors; first += BLOCK) {
      var part = vec2f();
      let end = min(first + BLOCK, parameters.vectors);
      for (var k = first; k < end; k++) { part += term(${turn}u, start + k, k, found); }
      sums += part;
    }
    found = extended(${turn}u, found, sums);
  }
  for (var k = 0u; k < parameters.vectors; k++) { store(start + k, result(start + k, k, found)); }
}

@compute @workgroup_size(64)
fn by_workgroup(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
  $lanes_given
) {
  let row = group.y * groups.x + group.x;
  if (row >= parameters.count) { return; }
  let start = row * parameters.vectors;
  var found = Found();
  @repeat(turn, turns) {
    var sums = vec2f();
    for (var k = local; k < parameters.vectors; k += 64u) { sums += term(${turn}u, start + k, k, found); }
    found = extended(${turn}u, found, sums_of_all(sums, local, $lanes));
  }
  for (var k = local; k < parameters.vectors; k += 64u) { store(start + k, result(start + k, k, found)); }
}
