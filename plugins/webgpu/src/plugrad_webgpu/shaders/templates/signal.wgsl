// Passes of Stockham's Fourier transform, and products of rows with factors
//
// A pass of a radix r reads x[q + s (p + m j)], transforms over j, and writes y[q + s (r p + k)], where s is the
// product of the radices before it and n = s r m. So no pass permutes, and neighbouring invocations read neighbours.
// Each invocation transforms r numbers.
//
// The roots are exp(-2 pi i t / n), computed by the host in double precision. Exchanging the parts of what the
// first pass reads and of what the last one writes makes the transform an inverse one.

struct Parameters {
  count: u32,    // invocations
  size: u32,     // n; in a product, the length of a row of the output
  span: u32,     // s; in a product, the length of a row of the input
  radix: u32,
  is_first_swapped: u32,
  is_last_swapped: u32,
  scale: f32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> input: array<vec2f>;
@group(0) @binding(1) var<storage, read> factors: array<vec2f>;
@group(0) @binding(2) var<storage, read_write> output: array<vec2f>;

fn load(at: u32) -> vec2f {
  let z = input[at];
  return select(z, z.yx, parameters.is_first_swapped != 0u);
}

fn store(at: u32, z: vec2f) {
  output[at] = parameters.scale * select(z, z.yx, parameters.is_last_swapped != 0u);
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

fn store_turned(step: Step, k: u32, z: vec2f) {
  store(step.writes + k * parameters.span, complex_product(z, factors[k * step.turn]));
}

@compute @workgroup_size(64)
fn radix_2(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let step = step_of(index);
  let a = load(step.reads);
  let b = load(step.reads + step.between);
  store(step.writes, a + b);
  store_turned(step, 1u, a - b);
}

@compute @workgroup_size(64)
fn radix_3(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let step = step_of(index);
  @repeat(j, 3) let x$j = load(step.reads + ${j}u * step.between);
  let sum = x1 + x2;
  let a = x0 - 0.5 * sum;
  let b = 0.866025404 * complex_turned_back(x1 - x2);
  store(step.writes, x0 + sum);
  store_turned(step, 1u, a + b);
  store_turned(step, 2u, a - b);
}

fn fourier_4(x0: vec2f, x1: vec2f, x2: vec2f, x3: vec2f) -> mat4x2f {
  let a = x0 + x2;
  let b = x0 - x2;
  let c = x1 + x3;
  let d = complex_turned_back(x1 - x3);
  return mat4x2f(a + c, b + d, a - c, b - d);
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
  let eighths = mat4x2f(
    odd[0],
    0.707106781 * (odd[1] + complex_turned_back(odd[1])),
    complex_turned_back(odd[2]),
    0.707106781 * (complex_turned_back(odd[3]) - odd[3]),
  );
  store(step.writes, even[0] + eighths[0]);
  @repeat(k, 3) store_turned(step, ${k}u + 1u, even[$k + 1] + eighths[$k + 1]);
  @repeat(k, 4) store_turned(step, ${k}u + 4u, even[$k] - eighths[$k]);
}

@compute @workgroup_size(64)
fn radix_5(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let step = step_of(index);
  @repeat(j, 5) let x$j = load(step.reads + ${j}u * step.between);
  let near = x1 + x4;
  let far = x2 + x3;
  let a = x0 + 0.309016994 * near - 0.809016994 * far;
  let b = x0 - 0.809016994 * near + 0.309016994 * far;
  let c = complex_turned_back(0.951056516 * (x1 - x4) + 0.587785252 * (x2 - x3));
  let d = complex_turned_back(0.587785252 * (x1 - x4) - 0.951056516 * (x2 - x3));
  store(step.writes, x0 + near + far);
  store_turned(step, 1u, a + c);
  store_turned(step, 2u, b + d);
  store_turned(step, 3u, b - d);
  store_turned(step, 4u, a - c);
}

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
  for (var j = 1u; j < parameters.radix; j++) { sum += load(step.reads + j * step.between); }
  store(step.writes, sum);
  for (var k = 1u; k <= half; k++) {
    var even = first;
    var odd = vec2f(0.0);
    var turn = 0u;
    for (var j = 1u; j <= half; j++) {
      turn += k;
      if (turn >= parameters.radix) { turn -= parameters.radix; }
      let root = factors[turn * step.between];
      let a = load(step.reads + j * step.between);
      let b = load(last - j * step.between);
      even += root.x * (a + b);
      odd += root.y * complex_turned(a - b);
    }
    store_turned(step, k, even + odd);
    store_turned(step, parameters.radix - k, even - odd);
  }
}

// output[r, i] = input[r, i] factors[i]; rows are cut or filled up with zeros
@compute @workgroup_size(64)
fn modulate(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let i = index % parameters.size;
  if (i >= parameters.span) {
    store(index, vec2f(0.0));
    return;
  }
  store(index, complex_product(load((index / parameters.size) * parameters.span + i), factors[i]));
}
