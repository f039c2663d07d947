// Softmax and its logarithm along the middle axis of (outer, size, inner), in two passes
//
// The first pass finds the maximum and the sum of the exponentials at once: where the maximum grows, the sum so far
// is scaled. The second pass computes the results. There are two schedules: one invocation for each row, for software
// devices, which scales the sum once for four elements, and one workgroup for each row, whose invocations share what
// they have found, for GPUs.
//
// Elements are scalars, or vectors along the row.

struct Parameters {
  count: u32,  // rows
  size: u32,   // elements or vectors
  inner: u32,
$fields
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> input: array<$element>;

$store

$joined

// What is less than every number that matters: a difference from -infinity would be NaN
const LOWEST = -0x1.fffffep+127f;

// The maximum so far, and the sum of the exponentials of the differences from it
struct Found {
  highest: f32,
  sum: $element,
}

fn largest(v: $element) -> f32 { return $largest; }

// exp(v) for v <= 0, as exp_accurate computes it, but 0 below 2^-125, and without branches
fn exponentials(v: $element) -> $element {
  let n = floor(max(v, $element(-104.0)) * 1.44269504088896341 + 0.5);
  let r = (v - n * 0.693359375) - n * -2.12194440e-4;
  var p = $element(1.9875691500e-4);
  p = p * r + 1.3981999507e-3;
  p = p * r + 8.3334519073e-3;
  p = p * r + 4.1665795894e-2;
  p = p * r + 1.6666665459e-1;
  p = p * r + 5.0000001201e-1;
  p = p * r * r + r + 1.0;
  let power = bitcast<$element>(bitcast<$integer>(p) + $integer(n) * 8388608);
  let is_nan = (bitcast<$integer>(v) & $integer(0x7fffffff)) > $integer(0x7f800000);
  return select(select(power, $element(), n < $element(-125.0)), v, is_nan);
}

fn sum_of(v: $element) -> f32 { return $sum_of; }

fn extended(found: Found, v: $element) -> Found {
  let highest = maximum(found.highest, largest(v));
  let sum = found.sum * exp_accurate(found.highest - highest) + exponentials(v - highest);
  return Found(highest, sum);
}

fn extended_by_four(found: Found, a: $element, b: $element, c: $element, d: $element) -> Found {
  let of_pairs = maximum(maximum(largest(a), largest(b)), maximum(largest(c), largest(d)));
  let highest = maximum(found.highest, of_pairs);
  let sum = (exponentials(a - highest) + exponentials(b - highest)) + (exponentials(c - highest) + exponentials(d - highest));
  return Found(highest, found.sum * exp_accurate(found.highest - highest) + sum);
}

fn total_of(sum: f32) -> f32 { return $total; }

fn finished(shifted: $element, total: f32) -> $element { return $finish; }

@compute @workgroup_size(8)
fn by_invocation(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let row = linear_index(id, groups, 8u);
  if (row >= parameters.count) { return; }
  let step = parameters.inner;
  let start = (row / step) * step * parameters.size + row % step;
  let end = start + step * parameters.size;
  var found = Found(LOWEST, $element());
  var first = start;
  for (; first + 3u * step < end; first += 4u * step) {
    found = extended_by_four(found, input[first], input[first + step], input[first + 2u * step], input[first + 3u * step]);
  }
  for (; first < end; first += step) { found = extended(found, input[first]); }
  let total = total_of(sum_of(found.sum));
  for (var at = start; at < end; at += step) { store(at, finished(input[at] - found.highest, total)); }
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
  let start = (row / parameters.inner) * parameters.inner * parameters.size + row % parameters.inner;
  var found = Found(LOWEST, $element());
  for (var k = local; k < parameters.size; k += 64u) {
    found = extended(found, input[start + k * parameters.inner]);
  }
  let highest = highest_of_all(found.highest, local, $lanes);
  let sum = sum_of_all(sum_of(found.sum) * exp_accurate(found.highest - highest), local, $lanes);
  let total = total_of(sum);
  for (var k = local; k < parameters.size; k += 64u) {
    let at = start + k * parameters.inner;
    store(at, finished(input[at] - highest, total));
  }
}
