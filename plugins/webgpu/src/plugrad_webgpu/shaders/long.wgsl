// 64-bit integers, as vectors of two words: the lower one, then the higher one, whose first bit is the sign
//
// WGSL has no such type. Sums, differences and products wrap around, as those of i32 do, and are the same for
// signed and unsigned numbers. Shifts by more than the width, and division by zero, give what snippets.wgsl and
// the expressions of bitwise.py give for i32.

fn i64_of_i32(x: i32) -> vec2u {
  return vec2u(bitcast<u32>(x), bitcast<u32>(x >> 31u));
}

fn i64_of_words(words: array<u32, 2>) -> vec2u {
  return vec2u(words[0], words[1]);
}

fn is_negative_i64(a: vec2u) -> bool {
  return a.y > 0x7fffffffu;
}

// --- order

fn is_equal_i64(a: vec2u, b: vec2u) -> bool {
  return a.x == b.x && a.y == b.y;
}

fn is_less_u64(a: vec2u, b: vec2u) -> bool {
  return select(a.y < b.y, a.x < b.x, a.y == b.y);
}

fn is_less_i64(a: vec2u, b: vec2u) -> bool {
  return select(bitcast<i32>(a.y) < bitcast<i32>(b.y), a.x < b.x, a.y == b.y);
}

fn maximum_i64(a: vec2u, b: vec2u) -> vec2u {
  return select(a, b, is_less_i64(a, b));
}

fn minimum_i64(a: vec2u, b: vec2u) -> vec2u {
  return select(a, b, is_less_i64(b, a));
}

fn sign_i64(a: vec2u) -> vec2u {
  return select(vec2u(u32((a.x | a.y) != 0u), 0u), vec2u(0xffffffffu), is_negative_i64(a));
}

// --- arithmetic

fn sum_i64(a: vec2u, b: vec2u) -> vec2u {
  let low = a.x + b.x;
  return vec2u(low, a.y + b.y + u32(low < a.x));
}

fn difference_i64(a: vec2u, b: vec2u) -> vec2u {
  return vec2u(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}

fn negative_i64(a: vec2u) -> vec2u {
  return difference_i64(vec2u(), a);
}

fn magnitude_i64(a: vec2u) -> vec2u {
  return select(a, negative_i64(a), is_negative_i64(a));
}

// The 64 bits of a product of words, from products of their halves
fn product_u32(a: u32, b: u32) -> vec2u {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  return vec2u((other << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u));
}

fn product_i64(a: vec2u, b: vec2u) -> vec2u {
  let low = product_u32(a.x, b.x);
  return vec2u(low.x, low.y + a.x * b.y + a.y * b.x);
}

fn square_i64(a: vec2u) -> vec2u {
  return product_i64(a, a);
}

// The quotient and the remainder of numbers from 0 to 2^63, bit by bit; b is not 0
fn divided_u64(a: vec2u, b: vec2u) -> vec4u {
  if ((a.y | b.y) == 0u) { return vec4u(a.x / b.x, 0u, a.x % b.x, 0u); }
  var quotient = a;
  var rest = vec2u();
  for (var bit = 0; bit < 64; bit++) {
    rest = vec2u((rest.x << 1u) | (quotient.y >> 31u), (rest.y << 1u) | (rest.x >> 31u));
    quotient = vec2u(quotient.x << 1u, (quotient.y << 1u) | (quotient.x >> 31u));
    if (!is_less_u64(rest, b)) {
      rest = difference_i64(rest, b);
      quotient.x |= 1u;
    }
  }
  return vec4u(quotient, rest);
}

// The remainder has the sign of b, so that the quotient is rounded down; both are 0 if b is 0.
fn floor_divided_i64(a: vec2u, b: vec2u) -> vec4u {
  if ((b.x | b.y) == 0u) { return vec4u(); }
  let whole = divided_u64(magnitude_i64(a), magnitude_i64(b));
  let rest = select(whole.zw, negative_i64(whole.zw), is_negative_i64(b));
  if (is_negative_i64(a) == is_negative_i64(b)) { return vec4u(whole.xy, rest); }
  let quotient = negative_i64(whole.xy);
  if ((rest.x | rest.y) == 0u) { return vec4u(quotient, rest); }
  return vec4u(difference_i64(quotient, vec2u(1u, 0u)), difference_i64(b, rest));
}

fn floor_divide_i64(a: vec2u, b: vec2u) -> vec2u {
  return floor_divided_i64(a, b).xy;
}

fn remainder_i64(a: vec2u, b: vec2u) -> vec2u {
  return floor_divided_i64(a, b).zw;
}

fn power_i64(x: vec2u, y: vec2u) -> vec2u {
  if (is_negative_i64(y)) {
    let sign = select(vec2u(1u, 0u), x, (y.x & 1u) == 1u);
    return select(vec2u(), sign, is_equal_i64(magnitude_i64(x), vec2u(1u, 0u)));
  }
  var result = vec2u(1u, 0u);
  var factor = x;
  var rest = y;
  while ((rest.x | rest.y) != 0u) {
    if ((rest.x & 1u) == 1u) { result = product_i64(result, factor); }
    factor = square_i64(factor);
    rest = vec2u((rest.x >> 1u) | (rest.y << 31u), rest.y >> 1u);
  }
  return result;
}

// --- shifts; a negative count is a large one

fn shifted_left_i64(a: vec2u, count: vec2u) -> vec2u {
  if (count.y != 0u || count.x > 63u) { return vec2u(); }
  if (count.x > 31u) { return vec2u(0u, a.x << (count.x & 31u)); }
  if (count.x == 0u) { return a; }
  return vec2u(a.x << count.x, (a.y << count.x) | (a.x >> (32u - count.x)));
}

fn shifted_right_i64(a: vec2u, count: vec2u) -> vec2u {
  let bits = select(63u, min(count.x, 63u), count.y == 0u);
  let high = bitcast<i32>(a.y);
  if (bits > 31u) { return vec2u(bitcast<u32>(high >> (bits & 31u)), bitcast<u32>(high >> 31u)); }
  if (bits == 0u) { return a; }
  return vec2u((a.x >> bits) | (a.y << (32u - bits)), bitcast<u32>(high >> bits));
}

// --- floats

// A number with the 32 leading bits, of which the last one stands for all bits after it, is rounded like the whole.
// The leading 32 bits of the magnitude, of which the last one stands for all that are cut off, too, and their number
fn leading_i64(x: vec2u) -> vec2u {
  let size = magnitude_i64(x);
  let bits = 32u - countLeadingZeros(size.y);
  if (bits == 32u) { return vec2u(size.y | u32(size.x != 0u), bits); }
  if (bits == 0u) { return vec2u(size.x, 0u); }
  let cut = u32((size.x << (32u - bits)) != 0u);
  return vec2u((size.y << (32u - bits)) | (size.x >> bits) | cut, bits);
}

fn f32_of_i64(x: vec2u) -> f32 {
  let leading = leading_i64(x);
  let magnitude = f32_of_u32(leading.x) * power_of_two(i32(leading.y));
  return select(magnitude, -magnitude, is_negative_i64(x));
}

fn odd_f32_of_i64(x: vec2u) -> f32 {
  let leading = leading_i64(x);
  let magnitude = odd_f32_of_u32(leading.x) * power_of_two(i32(leading.y));
  return select(magnitude, -magnitude, is_negative_i64(x));
}

fn saturated_i64(x: f32) -> vec2u {
  if (is_nan(x)) { return vec2u(); }
  let bits = bitcast<u32>(x);
  let shift = i32((bits >> 23u) & 0xffu) - 150;
  if (shift > 39) {  // 2^63 or more
    return select(vec2u(0xffffffffu, 0x7fffffffu), vec2u(0u, 0x80000000u), is_negative(x));
  }
  if (shift < 0) { return i64_of_i32(i32(x)); }
  let size = shifted_left_i64(vec2u((bits & 0x7fffffu) | 0x800000u, 0u), vec2u(u32(shift), 0u));
  return select(size, negative_i64(size), is_negative(x));
}

// A position beyond all others stays out of range.
fn saturated_i32_of_i64(x: vec2u) -> i32 {
  let low = bitcast<i32>(x.x);
  if (is_equal_i64(x, i64_of_i32(low))) { return low; }
  return select(0x7fffffff, bitcast<i32>(0x80000000u), is_negative_i64(x));
}
