// output[i] = two numbers as the upper halves of their bits, rounded half to even
//
// The bits are computed, not the numbers, so that denormal numbers and NaN stay what they are. The last word may
// have an element of the padding.

struct Parameters {
  count: u32,  // words
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> x: array<vec2u>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;

fn upper_half(bits: u32) -> u32 {
  let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
  return select(rounded, (bits >> 16u) | 0x40u, (bits & 0x7fffffffu) > 0x7f800000u);  // NaN
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  output[index] = upper_half(x[index].x) | (upper_half(x[index].y) << 16u);
}
