// Random words by Philox 4x32-10 (Salmon and others, 2011), and pairs of normal numbers by the transformation of Box
// and Muller (1958). Each invocation makes a block of four.

struct Parameters {
  count: u32,  // blocks; the last one may end in the padding of the buffer
  zero: u32,   // hides what is rounded from compilers
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> state: array<u32>;  // two words of the key, four of the counter
@group(0) @binding(1) var<storage, read_write> output: array<$result>;

// Number `index` of the counter, with its block
fn block_of(index: u32) -> vec4u {
  var x = vec4u(state[2], state[3], state[4], state[5]);
  x[0] += index;
  let carry = vec3<bool>(x[0] < index, x[1] == 0xffffffffu, x[2] == 0xffffffffu);
  if (carry.x) {
    x[1] += 1u;
    if (carry.y) {
      x[2] += 1u;
      if (carry.z) { x[3] += 1u; }
    }
  }
  var key = vec2u(state[0], state[1]);
  for (var round = 0; round < 10; round++) {
    x = vec4u(
      high_word(0xcd9e8d57u, x[2]) ^ x[1] ^ key[0], 0xcd9e8d57u * x[2],
      high_word(0xd2511f53u, x[0]) ^ x[3] ^ key[1], 0xd2511f53u * x[0],
    );
    key += vec2u(0x9e3779b9u, 0xbb67ae85u);
  }
  return x;
}

// a * b + c, rounded twice: drivers would round it once
fn scaled_sum(a: f32, b: f32, c: f32) -> f32 {
  return hidden(a * b, parameters.zero) + c;
}

// The root, rounded correctly: that of GPUs may be the number beside it, which a step of Newton's method mends
fn root(x: f32) -> f32 {
  let near = sqrt(x);
  return near + residual(x, near, near) / max(2.0 * near, 1.0e-30);
}

// The polynomials and the order of the operations are those of other backends, so that the bits are theirs.
fn pair_of_words(a: u32, b: u32) -> vec2f {
  let bits = bitcast<i32>(f32(i32((a >> 1u) | 1u))) - 0x3f3504f3;
  let exponent = f32(bits >> 23u) - 31.0;
  let x = bitcast<f32>((bits & 0x7fffff) + 0x3f3504f3) - 1.0;
  let square = hidden(x * x, parameters.zero);
  var y = scaled_sum(x, 7.0376836292e-2, -1.1514610310e-1);
  y = scaled_sum(y, x, 1.1676998740e-1);
  y = scaled_sum(y, x, -1.2420140846e-1);
  y = scaled_sum(y, x, 1.4249322787e-1);
  y = scaled_sum(y, x, -1.6668057665e-1);
  y = scaled_sum(y, x, 2.0000714765e-1);
  y = scaled_sum(y, x, -2.4999993993e-1);
  y = scaled_sum(y, x, 3.3333331174e-1);
  y = hidden(hidden(y * x, parameters.zero) * square, parameters.zero);
  y = scaled_sum(exponent, -2.12194440e-4, y);
  y = hidden(y - square * 0.5, parameters.zero) + x;
  y += exponent * 0.693359375;  // an exact product
  let radius = root(y * -2.0);
  let angle = f32(bitcast<i32>(b << 2u)) * 3.657295299941e-10;  // pi / 4 * 2^-31
  let z = hidden(angle * angle, parameters.zero);
  var sine = scaled_sum(z, -1.9515295891e-4, 8.3321608736e-3);
  sine = hidden(scaled_sum(sine, z, -1.6666654611e-1) * z, parameters.zero);
  sine = scaled_sum(sine, angle, angle);
  var cosine = scaled_sum(z, 2.443315711809948e-5, -1.388731625493765e-3);
  cosine = hidden(scaled_sum(cosine, z, 4.166664568298827e-2) * z, parameters.zero);
  cosine = hidden(cosine * z, parameters.zero) - z * 0.5;
  cosine = hidden(cosine, parameters.zero) + 1.0;
  let signed = select(cosine, -cosine, (b & 0x80000000u) != 0u);
  return radius * select(vec2f(signed, sine), vec2f(sine, signed), (b & 0x40000000u) != 0u);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let words = block_of(index);
  output[index] = $made;
}
