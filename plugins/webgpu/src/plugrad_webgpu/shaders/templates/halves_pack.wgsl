// output[i] = two numbers in the bits of halves, rounded half to even
//
// The bits are computed, not the numbers, so that denormal numbers and NaN stay what they are. The last word may
// have an element of the padding.

struct Parameters {
  count: u32,  // words
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> x: array<vec2u>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  output[index] = $narrowed(x[index].x) | ($narrowed(x[index].y) << 16u);
}
