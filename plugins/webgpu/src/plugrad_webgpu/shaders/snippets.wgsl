// Functions that any shader may call. sources.py appends those of this file, of accurate.wgsl, of
// complex.wgsl and of long.wgsl that a source names.
//
// Drivers compile with fast-math: `x != x` is false, `max` drops NaN, `(1 + x) - 1` is x. So NaN and
// infinity are recognized and made by their bits, and low-order parts are cut off with masks, which no
// compiler can remove.

// --- bits

fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_infinite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

fn is_negative(x: f32) -> bool {
  return (bitcast<u32>(x) >> 31u) == 1u;
}

// A masked sign bit in the place of is_negative is miscompiled by Mesa 22.3, beside a comparison with NaN.
fn with_sign(magnitude: f32, sign: f32) -> f32 {
  let bits = bitcast<u32>(magnitude) & 0x7fffffffu;
  return bitcast<f32>(select(bits, bits | 0x80000000u, is_negative(sign)));
}

// Some drivers compute -x as 0 - x, which loses the sign of NaN.
fn negated(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u);
}

// A `var` keeps the compiler from folding the bits, which would be an error for these two.
fn nan() -> f32 {
  var bits = 0x7fc00000u;
  return bitcast<f32>(bits);
}

fn infinity() -> f32 {
  var bits = 0x7f800000u;
  return bitcast<f32>(bits);
}

// The leading 12 bits of x: the product of two such numbers is exact.
fn leading(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// 2^n for n in [-126, 127]
fn power_of_two(n: i32) -> f32 {
  return bitcast<f32>(u32(n + 127) << 23u);
}

// x * 2^n for n in [-252, 254], in two steps because 2^n alone may overflow
fn scaled(x: f32, n: i32) -> f32 {
  let half = n >> 1u;
  return x * power_of_two(half) * power_of_two(n - half);
}

// --- integers: fractions are cut off, floats beyond the limits saturate, and NaN gives 0

fn saturated_i32(x: f32) -> i32 {
  let magnitude = bitcast<u32>(x) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return 0; }  // NaN
  if (magnitude >= 0x4f000000u) {  // 2^31
    return select(0x7fffffff, bitcast<i32>(0x80000000u), is_negative(x));
  }
  return i32(x);
}

fn saturated_u32(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  if (bits > 0x7f800000u) { return 0u; }  // negative, or NaN
  if (bits >= 0x4f800000u) { return 0xffffffffu; }  // 2^32
  return u32(x);
}

// --- narrow dtypes, whose elements are words with fewer values

// The lowest 8 bits as a signed number
fn wrapped_i8(x: i32) -> i32 {
  return (x << 24u) >> 24u;
}

// The lowest 16 bits as a signed number
fn wrapped_i16(x: i32) -> i32 {
  return (x << 16u) >> 16u;
}

// The nearest float16; of two, the even one. Every float16 is a normal f32, so that no driver changes it.
fn rounded_to_half(x: f32) -> f32 {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if (bits > 0x7f800000u) { return x; }  // NaN
  if (bits >= 0x477ff000u) { return with_sign(infinity(), x); }  // 65520
  if (bits < 0x38800000u) {  // 2^-14: from here on, the distance of neighbours is 2^-24
    return with_sign(round(abs(x) * 16777216.0) * 5.9604644775390625e-8, x);
  }
  return with_sign(bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u), x);
}

// The bits of the nearest float16 of the bits of a float32; of two, the even one
fn half_bits(bits: u32) -> u32 {
  let sign = (bits >> 16u) & 0x8000u;
  let size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) { return sign | 0x7e00u | ((size >> 13u) & 0x3ffu); }  // NaN
  if (size >= 0x477ff000u) { return sign | 0x7c00u; }  // 65520
  if (size >= 0x38800000u) { return sign | ((size - 0x38000000u + 0xfffu + ((size >> 13u) & 1u)) >> 13u); }
  let shift = 126u - (size >> 23u);  // the distance of neighbours below 2^-14 is 2^-24
  if (shift > 24u) { return sign; }
  let digits = (size & 0x7fffffu) | 0x800000u;
  return sign | ((digits + (1u << (shift - 1u)) - 1u + ((digits >> shift) & 1u)) >> shift);
}

// The bits of the nearest bfloat16, likewise
fn brain_bits(bits: u32) -> u32 {
  let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
  return select(rounded, (bits >> 16u) | 0x40u, (bits & 0x7fffffffu) > 0x7f800000u);  // NaN
}

// The bits of float32, of those of float16. Every float16 is a normal f32, so that no driver changes it.
fn bits_of_half(bits: u32) -> u32 {
  let sign = (bits & 0x8000u) << 16u;
  let size = bits & 0x7fffu;
  if (size >= 0x7c00u) { return sign | 0x7f800000u | ((size & 0x3ffu) << 13u); }
  if (size < 0x400u) { return sign | bitcast<u32>(f32(size) * 5.9604644775390625e-8); }
  return sign | ((size << 13u) + 0x38000000u);
}

// The same of those of bfloat16
fn bits_of_brain(bits: u32) -> u32 {
  return bits << 16u;
}

// The bits of the four halves in two words, and back
fn halves_of_words(words: vec2u) -> vec4u {
  return vec4u(words.x & 0xffffu, words.x >> 16u, words.y & 0xffffu, words.y >> 16u);
}

fn words_of_halves(bits: vec4u) -> vec2u {
  return bits.xz | (bits.yw << vec2u(16u));
}

// The bits of the half at a place, in the word that holds it
fn half_at(word: u32, place: u32) -> u32 {
  return (word >> (16u * (place & 1u))) & 0xffffu;
}

// --- order; NaN propagates

fn maximum(a: f32, b: f32) -> f32 {
  return select(select(b, a, a > b || is_nan(a)), b, is_nan(b));
}

fn minimum(a: f32, b: f32) -> f32 {
  return select(select(b, a, a < b || is_nan(a)), b, is_nan(b));
}

fn sign_of(x: f32) -> f32 {
  return select(f32(x > 0.0) - f32(x < 0.0), x, is_nan(x));
}

// The position of a float in the order of all floats; 0 and -0 share one
fn place(x: f32) -> i32 {
  let bits = bitcast<i32>(x);
  return select(bits, -(bits & 0x7fffffff), bits < 0);
}

// A number that orders floats: NaN is the largest
fn order_key(x: f32) -> u32 {
  return select(bitcast<u32>(place(x)) ^ 0x80000000u, 0xffffffffu, is_nan(x));
}

fn next_after(a: f32, b: f32) -> f32 {
  if (is_nan(a) || is_nan(b)) { return nan(); }
  if (place(a) == place(b)) { return b; }
  let next = place(a) + select(-1, 1, place(b) > place(a));
  return with_sign(bitcast<f32>(abs(next)), select(a, f32(next), next != 0));
}

// The number after a on the way to b, both of float16. Numbers below 2^-14 have the distance of those just above.
fn next_half_after(a: f32, b: f32) -> f32 {
  if (is_nan(a) || is_nan(b)) { return nan(); }
  if (place(a) == place(b)) { return b; }
  let is_up = place(b) > place(a);
  if (is_infinite(a)) { return with_sign(65504.0, a); }
  let is_outwards = is_up == (place(a) > 0);
  let bits = bitcast<u32>(a) & 0x7fffffffu;
  if (bits < 0x38800000u || (bits == 0x38800000u && !is_outwards)) {
    let next = a + select(-5.9604644775390625e-8, 5.9604644775390625e-8, is_up);
    return select(next, with_sign(0.0, a), next == 0.0);
  }
  return rounded_to_half(with_sign(bitcast<f32>(select(bits - 0x2000u, bits + 0x2000u, is_outwards)), a));
}

// The number after a on the way to b, both of bfloat16, as a float32
fn next_brain_after(a: f32, b: f32) -> f32 {
  if (is_nan(a) || is_nan(b)) { return nan(); }
  let bits = bitcast<u32>(a);
  if (place(a) == place(b)) { return b; }
  if ((bits & 0x7fffffffu) == 0u) { return bitcast<f32>((bitcast<u32>(b) & 0x80000000u) | 0x10000u); }
  let is_outwards = (place(b) > place(a)) == (place(a) > 0);
  return bitcast<f32>(select(bits - 0x10000u, bits + 0x10000u, is_outwards));
}

// --- division that rounds down; the division of an integer by zero gives zero

fn floor_divide_i32(a: i32, b: i32) -> i32 {
  if (b == 0) { return 0; }
  if (b == -1) { return -a; }
  let quotient = a / b;
  return quotient - select(0, 1, quotient * b != a && (a < 0) != (b < 0));
}

fn remainder_i32(a: i32, b: i32) -> i32 {
  if (b == 0) { return 0; }
  return a - floor_divide_i32(a, b) * b;
}

fn floor_divide_u32(a: u32, b: u32) -> u32 {
  return select(a / max(b, 1u), 0u, b == 0u);
}

fn remainder_u32(a: u32, b: u32) -> u32 {
  return select(a % max(b, 1u), 0u, b == 0u);
}

// a - q b, with the products in exact parts
fn residual(a: f32, q: f32, b: f32) -> f32 {
  let q_high = leading(q);
  let b_high = leading(b);
  let q_low = q - q_high;
  let b_low = b - b_high;
  return (((a - q_high * b_high) - q_high * b_low) - q_low * b_high) - q_low * b_low;
}

fn exponent(x: f32) -> i32 {
  return i32((bitcast<u32>(x) >> 23u) & 0xffu);
}

// a / b. GPUs multiply by the reciprocal of b, which is 0 where it would be subnormal: WGSL promises nothing for
// divisors above 2^126. There a sixteenth is divided by a sixteenth.
fn divide(a: f32, b: f32) -> f32 {
  let scale = select(1.0, 0.0625, abs(b) > 8.5e37);
  return (a * scale) / (b * scale);
}

// The remainder of magnitudes, exact for quotients of any size: each round removes 11 bits of the quotient
fn magnitude_remainder(a: f32, b: f32) -> f32 {
  var rest = a;
  for (var round = 0; round < 32 && rest >= b; round++) {
    let step = scaled(b, max(exponent(rest) - exponent(b) - 11, 0));
    rest = residual(rest, trunc(divide(rest, step)), step);
    // The quotient was rounded: it may be too large or too small by one.
    if (rest < 0.0) { rest += step; }
    if (rest >= step) { rest -= step; }
  }
  return rest;
}

fn remainder(a: f32, b: f32) -> f32 {
  if (is_nan(a) || is_nan(b) || is_infinite(a) || b == 0.0) { return nan(); }
  let is_opposite = is_negative(a) != is_negative(b);
  if (is_infinite(b)) { return select(with_sign(a, b), b, a != 0.0 && is_opposite); }
  let rest = magnitude_remainder(abs(a), abs(b));
  return with_sign(select(rest, abs(b) - rest, is_opposite && rest != 0.0), b);
}

fn floor_divide(a: f32, b: f32) -> f32 {
  if (b == 0.0 || is_infinite(a) || is_nan(a) || is_nan(b)) {
    return select(a / b, nan(), is_infinite(a) && b != 0.0);
  }
  let sign = select(1.0, -1.0, is_negative(a) != is_negative(b));
  let quotient = select(round(divide(a - remainder(a, b), b)), min(sign, 0.0), is_infinite(b) && a != 0.0);
  return select(quotient, with_sign(0.0, sign), quotient == 0.0);
}

// --- pairs: numbers of 48 bits, as a float and a small rest
//
// `zero` is 0, but a parameter, so that no compiler knows it. It hides a rounded number from the algebra of
// fast-math, which would find that the error of each rounding is 0.

fn hidden(x: f32, zero: u32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ zero);
}

// a + b and its rounding error, which is exact (Knuth)
fn exact_sum(a: f32, b: f32, zero: u32) -> vec2f {
  let sum = hidden(a + b, zero);
  let of_b = hidden(sum - a, zero);
  let of_a = hidden(sum - of_b, zero);
  return vec2f(sum, hidden(a - of_a, zero) + hidden(b - of_b, zero));
}

// A pair whose number is infinite or NaN has no rest.
fn pair(number: f32, rest: f32) -> vec2f {
  return vec2f(number, select(0.0, rest, (bitcast<u32>(rest) & 0x7f800000u) != 0x7f800000u));
}

// Some drivers convert the lower 31 bits and add 2^31, which rounds twice. In half of the number, the last
// bit stands for both that it replaces, so that it is rounded like the number.
fn f32_of_u32(n: u32) -> f32 {
  return select(f32(i32(n)), f32(i32((n >> 1u) | (n & 1u))) * 2.0, n >= 0x80000000u);
}

// The number, or of its two neighbours the one whose last bit is odd, so that it can be rounded again
fn odd_f32_of_u32(n: u32) -> f32 {
  if (n < 0x1000000u) { return f32(i32(n)); }
  return f32(i32((n >> 8u) | u32((n & 0xffu) != 0u))) * 256.0;
}

fn odd_f32_of_i32(n: i32) -> f32 {
  let size = odd_f32_of_u32(bitcast<u32>(abs(n)));
  return select(size, -size, n < 0);
}

fn pair_of(n: u32) -> vec2f {
  let number = f32_of_u32(n);
  return vec2f(number, f32(i32(n - u32(number))));
}

// The same number with the smallest rest
fn normal_pair(a: vec2f, zero: u32) -> vec2f {
  let sum = exact_sum(a.x, a.y, zero);
  return pair(sum.x, sum.y);
}

fn add_pairs(a: vec2f, b: vec2f, zero: u32) -> vec2f {
  let sum = exact_sum(a.x, b.x, zero);
  return pair(sum.x, sum.y + (a.y + b.y));
}

fn multiply_pairs(a: vec2f, b: vec2f, zero: u32) -> vec2f {
  let product = hidden(a.x * b.x, zero);
  let a_high = leading(a.x);
  let b_high = leading(b.x);
  let a_low = a.x - a_high;
  let b_low = b.x - b_high;
  let error = ((hidden(a_high * b_high - product, zero) + a_high * b_low) + a_low * b_high) + a_low * b_low;
  return normal_pair(pair(product, error + (a.x * b.y + a.y * b.x)), zero);
}

fn divide_pairs(a: vec2f, b: vec2f, zero: u32) -> vec2f {
  let quotient = hidden(a.x / b.x, zero);
  let rest = add_pairs(a, -multiply_pairs(vec2f(quotient, 0.0), b, zero), zero);
  return normal_pair(pair(quotient, (rest.x + rest.y) / b.x), zero);
}

// --- indices

// A quotient where a software device should not divide lane by lane
fn quotient(a: u32, b: u32) -> u32 {
  return a / b;
}

// The number of an invocation in a grid of one or more rows
fn linear_index(id: vec3u, groups: vec3u, workgroup: u32) -> u32 {
  return id.y * groups.x * workgroup + id.x;
}

// A position counted from the front: the bits of a negative i32 count from the end, a u32 is never negative. The
// result is out of range if the position is.
fn from_front_i32(position: u32, size: u32) -> u32 {
  return select(position, position + size, position > 0x7fffffffu);
}

fn from_front_u32(position: u32, size: u32) -> u32 {
  return position;
}
