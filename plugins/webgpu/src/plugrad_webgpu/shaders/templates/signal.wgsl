// Passes of Stockham's Fourier transform, and products of rows with factors
//
// A pass of a radix r reads x[q + s (p + m j)], transforms over j, and writes y[q + s (r p + k)], where s is the
// product of the radices before it and n = s r m. So no pass permutes, and neighbouring invocations read neighbours.
// Each invocation transforms r numbers.
//
// The roots are exp(-2 pi i t / n), computed by the host in double precision. Exchanging the parts of what the
// first pass reads and of what the last one writes makes the transform an inverse one.
//
// A rounding in each pass would add up to more than the digits that float32 has to spare. So numbers are wide until
// the last pass: a complex value (x, y) and what it lacks (z, w), both written by all passes but the last one. A sum
// is as in D. E. Knuth, "The art of computer programming", volume 2, 4.2.2; for products, numbers are cut into parts
// of 12 bits. Roots and factors come in two parts, the first of which has 12 bits.

struct Parameters {
  count: u32,    // invocations
  size: u32,     // n; in a product, the length of a row of the output
  span: u32,     // s; in a product, the length of a row of the input
  radix: u32,
  is_first: u32,          // whether the input is narrow, and not of a pass before
  is_last: u32,           // whether the output is
  swaps_parts_of_input: u32,
  swaps_parts_of_output: u32,
  scale: vec2f,           // of the output, in two parts; where the output is narrow
  zero: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> input: array<vec2f>;
@group(0) @binding(1) var<storage, read> factors: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> output: array<vec2f>;

fn load(at: u32) -> vec4f {
  var z = vec4f(0.0);
  if (parameters.is_first != 0u) {
    z = vec4f(input[at], 0.0, 0.0);
  } else {
    z = vec4f(input[2u * at], input[2u * at + 1u]);
  }
  return select(z, z.yxwz, parameters.swaps_parts_of_input != 0u);
}

fn store(at: u32, number: vec4f) {
  let z = select(number, number.yxwz, parameters.swaps_parts_of_output != 0u);
  if (parameters.is_last == 0u) {
    output[2u * at] = z.xy;
    output[2u * at + 1u] = z.zw;
    return;
  }
  let y = wide_scaled(z, parameters.scale.x, parameters.scale.y);
  output[at] = vec2f(narrowed(y.x, y.z), narrowed(y.y, y.w));
}

// What an infinite number lacks is NaN.
fn narrowed(x: f32, rest: f32) -> f32 {
  return select(x + rest, x, is_nan(rest));
}

// z, of which a compiler knows nothing: it may take (a + b) - a for b.
fn rounded(z: vec2f) -> vec2f {
  return bitcast<vec2f>(bitcast<vec2u>(z) | vec2u(parameters.zero));
}

fn wide_sum(a: vec4f, b: vec4f) -> vec4f {
  let sum = rounded(a.xy + b.xy);
  let second = rounded(sum - a.xy);
  let lost = (a.xy - (sum - second)) + (b.xy - second);
  return vec4f(sum, lost + (a.zw + b.zw));
}

fn wide_difference(a: vec4f, b: vec4f) -> vec4f {
  return wide_sum(a, -b);
}

fn wide_turned(z: vec4f) -> vec4f {  // i z
  return vec4f(-z.y, z.x, -z.w, z.z);
}

fn wide_turned_back(z: vec4f) -> vec4f {  // -i z
  return vec4f(z.y, -z.x, z.w, -z.z);
}

fn leading_parts(z: vec2f) -> vec2f {
  return vec2f(leading(z.x), leading(z.y));
}

// z times a real number, which is the sum of two; the first has 12 bits
fn wide_scaled(z: vec4f, first: f32, second: f32) -> vec4f {
  let parts = leading_parts(z.xy);
  let product = first * parts;
  let rest = second * parts + (first + second) * ((z.xy - parts) + z.zw);
  let sum = rounded(product + rest);
  return vec4f(sum, rest - (sum - product));
}

// z times a complex number in two parts
fn wide_product(z: vec4f, root: vec4f) -> vec4f {
  let parts = leading_parts(z.xy);
  let rests = (z.xy - parts) + z.zw;
  let whole = root.xy + root.zw;
  let first = parts.x * root.xy;
  let second = parts.y * complex_turned(root.xy);
  let rest = (parts.x * root.zw + parts.y * complex_turned(root.zw))
    + (rests.x * whole + rests.y * complex_turned(whole));
  let sum = wide_sum(vec4f(first, 0.0, 0.0), vec4f(second, rest));
  let result = rounded(sum.xy + sum.zw);
  return vec4f(result, sum.zw - (result - sum.xy));
}

// The work of one invocation
struct Step {
  reads: u32,    // the place of the first input
  between: u32,  // from one input to the next
  writes: u32,   // the place of the first output; the outputs are `span` apart
  turn: u32,     // the root that the second output is multiplied with
}

fn step_of(index: u32) -> Step {
  let items = parameters.size / parameters.radix;
  let row = index / items;
  let item = index - row * items;
  let lane = item % parameters.span;
  let turn = item - lane;
  let start = row * parameters.size;
  return Step(start + item, items, start + lane + parameters.radix * turn, turn);
}

fn store_turned(step: Step, k: u32, z: vec4f) {
  store(step.writes + k * parameters.span, wide_product(z, factors[k * step.turn]));
}

@compute @workgroup_size(64)
fn radix_2(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let step = step_of(index);
  let a = load(step.reads);
  let b = load(step.reads + step.between);
  store(step.writes, wide_sum(a, b));
  store_turned(step, 1u, wide_difference(a, b));
}

@compute @workgroup_size(64)
fn radix_3(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let step = step_of(index);
  @repeat(j, 3) let x$j = load(step.reads + ${j}u * step.between);
  let sum = wide_sum(x1, x2);
  let a = wide_sum(x0, -0.5 * sum);
  let b = wide_scaled(wide_turned_back(wide_difference(x1, x2)), 0.865966796875, 5.86069109e-05);
  store(step.writes, wide_sum(x0, sum));
  store_turned(step, 1u, wide_sum(a, b));
  store_turned(step, 2u, wide_difference(a, b));
}

fn fourier_4(x0: vec4f, x1: vec4f, x2: vec4f, x3: vec4f) -> mat4x4f {
  let a = wide_sum(x0, x2);
  let b = wide_difference(x0, x2);
  let c = wide_sum(x1, x3);
  let d = wide_turned_back(wide_difference(x1, x3));
  return mat4x4f(wide_sum(a, c), wide_sum(b, d), wide_difference(a, c), wide_difference(b, d));
}

@compute @workgroup_size(64)
fn radix_4(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let step = step_of(index);
  @repeat(j, 4) let x$j = load(step.reads + ${j}u * step.between);
  let y = fourier_4(x0, x1, x2, x3);
  store(step.writes, y[0]);
  @repeat(k, 3) store_turned(step, ${k}u + 1u, y[$k + 1]);
}

@compute @workgroup_size(64)
fn radix_8(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let step = step_of(index);
  @repeat(j, 8) let x$j = load(step.reads + ${j}u * step.between);
  let even = fourier_4(x0, x2, x4, x6);
  let odd = fourier_4(x1, x3, x5, x7);
  let eighths = mat4x4f(
    odd[0],
    wide_scaled(wide_sum(odd[1], wide_turned_back(odd[1])), 0.70703125, 7.55311848e-05),
    wide_turned_back(odd[2]),
    wide_scaled(wide_difference(wide_turned_back(odd[3]), odd[3]), 0.70703125, 7.55311848e-05),
  );
  store(step.writes, wide_sum(even[0], eighths[0]));
  @repeat(k, 3) store_turned(step, ${k}u + 1u, wide_sum(even[$k + 1], eighths[$k + 1]));
  @repeat(k, 4) store_turned(step, ${k}u + 4u, wide_difference(even[$k], eighths[$k]));
}

@compute @workgroup_size(64)
fn radix_5(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let step = step_of(index);
  @repeat(j, 5) let x$j = load(step.reads + ${j}u * step.between);
  let near = wide_sum(x1, x4);
  let far = wide_sum(x2, x3);
  let a = wide_sum(x0, wide_sum(cos_72(near), cos_144(far)));
  let b = wide_sum(x0, wide_sum(cos_144(near), cos_72(far)));
  let inner = wide_turned_back(wide_difference(x1, x4));
  let outer = wide_turned_back(wide_difference(x2, x3));
  let c = wide_sum(sin_72(inner), sin_144(outer));
  let d = wide_difference(sin_144(inner), sin_72(outer));
  store(step.writes, wide_sum(x0, wide_sum(near, far)));
  store_turned(step, 1u, wide_sum(a, c));
  store_turned(step, 2u, wide_sum(b, d));
  store_turned(step, 3u, wide_difference(b, d));
  store_turned(step, 4u, wide_difference(a, c));
}

fn cos_72(z: vec4f) -> vec4f { return wide_scaled(z, 0.3089599609375, 5.70334378e-05); }
fn cos_144(z: vec4f) -> vec4f { return wide_scaled(z, -0.808837890625, -1.79103750e-04); }
fn sin_72(z: vec4f) -> vec4f { return wide_scaled(z, 0.950927734375, 1.28781918e-04); }
fn sin_144(z: vec4f) -> vec4f { return wide_scaled(z, 0.587646484375, 1.38767922e-04); }

// An odd radix. The inputs j and r - j are turned by the same angle, but in opposite directions.
@compute @workgroup_size(64)
fn any_radix(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let step = step_of(index);
  let first = load(step.reads);
  let last = step.reads + parameters.radix * step.between;
  let half = parameters.radix / 2u;
  var sum = first;
  for (var j = 1u; j < parameters.radix; j++) { sum = wide_sum(sum, load(step.reads + j * step.between)); }
  store(step.writes, sum);
  for (var k = 1u; k <= half; k++) {
    var even = first;
    var odd = vec4f(0.0);
    var turn = 0u;
    for (var j = 1u; j <= half; j++) {
      turn += k;
      if (turn >= parameters.radix) { turn -= parameters.radix; }
      let root = factors[turn * step.between];
      let a = load(step.reads + j * step.between);
      let b = load(last - j * step.between);
      even = wide_sum(even, wide_scaled(wide_sum(a, b), root.x, root.z));
      odd = wide_sum(odd, wide_scaled(wide_turned(wide_difference(a, b)), root.y, root.w));
    }
    store_turned(step, k, wide_sum(even, odd));
    store_turned(step, parameters.radix - k, wide_difference(even, odd));
  }
}

// output[r, i] = input[r, i] factors[i]; rows are cut or filled up with zeros
@compute @workgroup_size(64)
fn modulate(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let i = index % parameters.size;
  if (i >= parameters.span) {
    store(index, vec4f(0.0));
    return;
  }
  store(index, wide_product(load((index / parameters.size) * parameters.span + i), factors[i]));
}
