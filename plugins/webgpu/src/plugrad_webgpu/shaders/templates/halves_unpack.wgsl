// output[i] = the two halves that are in a word, in the bits of float32

struct Parameters {
  count: u32,  // words
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<vec2u>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  output[index] = vec2u($widened(x[index] & 0xffffu), $widened(x[index] >> 16u));
}
