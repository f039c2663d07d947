// output[i] = value, the bits of a complex number or of two elements of a 32-bit dtype. The last vector may end in the padding of the buffer.

struct Parameters {
  count: u32,  // vectors
  value: vec2u,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read_write> output: array<vec4u>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  output[index] = parameters.value.xyxy;
}
