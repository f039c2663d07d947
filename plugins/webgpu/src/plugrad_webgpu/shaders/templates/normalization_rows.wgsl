// Layer normalization of the rows of (count, size), or its gradient: passes over a row that find averages, and one that
// computes the results
//
// There are two schedules: one invocation for each row, for software devices, and one workgroup for each row, whose
// invocations share what they have found, for GPUs. Elements are scalars, or vectors along the row. A load is what takes
// a software device the longest, so one invocation finds the mean and the deviation in one pass.

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

const WIDTH = $width;  // of an element
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

// The mean of some elements, and the sum of the squares of their differences from it
struct Moments {
  count: f32,
  mean: f32,
  squares: f32,
}

// The moments of two sets of elements together (Chan, Golub and LeVeque, 1979)
fn together(a: Moments, b: Moments) -> Moments {
  let count = a.count + b.count;
  let share = b.count / count;
  let distance = b.mean - a.mean;
  return Moments(count, a.mean + distance * share, a.squares + b.squares + distance * distance * a.count * share);
}

fn moments_of_four(a: $element, b: $element, c: $element, d: $element) -> Moments {
  let mean = sum_of((a + b) + (c + d)) / (4.0 * WIDTH);
  let e = a - mean;
  let f = b - mean;
  let g = c - mean;
  let h = d - mean;
  return Moments(4.0 * WIDTH, mean, sum_of((e * e + f * f) + (g * g + h * h)));
}

fn moments_of_one(a: $element) -> Moments {
  let mean = sum_of(a) / WIDTH;
  let e = a - mean;
  return Moments(WIDTH, mean, sum_of(e * e));
}

@compute @workgroup_size(8)
fn by_invocation(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let row = linear_index(id, groups, 8u);
  if (row >= parameters.count) { return; }
  let start = row * parameters.vectors;
  // The moments are those of the differences from a number near the mean, which are rounded less.
  let near = sum_of(x[start]) / WIDTH;
  var moments = Moments();
  var at = start;
  let end = start + parameters.vectors;
  for (; at + 3u < end; at += 4u) {
    moments = together(moments, moments_of_four(x[at] - near, x[at + 1u] - near, x[at + 2u] - near, x[at + 3u] - near));
  }
  for (; at < end; at++) { moments = together(moments, moments_of_one(x[at] - near)); }
  let variance = moments.squares / f32(parameters.size);
  var found = Found(near + moments.mean, 1.0 / sqrt(variance + parameters.epsilon), 0.0, 0.0);
  @repeat(turn, gradient_turns) {
    var sums = vec2f();
    for (var first = 0u; first < parameters.vectors; first += BLOCK) {
      var part = vec2f();
      let last = min(first + BLOCK, parameters.vectors);
      for (var k = first; k < last; k++) { part += term(2u, start + k, k, found); }
      sums += part;
    }
    found = extended(2u, found, sums);
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
