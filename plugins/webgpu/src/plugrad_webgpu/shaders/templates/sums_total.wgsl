// output[i] = the sum that sums.wgsl has collected at place i, rounded

struct Parameters { count: u32 }
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> sums: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;

fn total(largest: u32, low_word: u32, high_word: u32) -> f32 {
  if (largest >= 0x7f800000u) {
    if (low_word > 2u) { return nan(); }  // a NaN, or infinities of both signs
    return select(infinity(), -infinity(), low_word == 2u);
  }
  var low = low_word;
  var high = high_word;
  let sign = select(1.0, -1.0, (high >> 31u) == 1u);
  if (sign < 0.0) {
    low = ~low + 1u;
    high = ~high + u32(low == 0u);
  }
  let unit = i32(max(largest >> 23u, 1u)) - 162;  // 127 of the exponent, 23 of the significand, and 12
  if (high == 0u) { return sign * scaled(f32_of_u32(low), unit); }
  let shift = countLeadingZeros(high);  // at least 1, because the sum is not negative
  let word = (high << shift) | (low >> (32u - shift));
  return sign * scaled(f32_of_u32(word), unit + 32 - i32(shift));
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  output[index] = total(sums[3u * index], sums[3u * index + 1u], sums[3u * index + 2u]);
}
