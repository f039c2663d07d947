// output[i] = call(inputs at i), four elements at a time; a chain of calls writes the results that are needed
//
// The host merges axes as far as the broadcasting of the inputs allows. An input has all elements of the result, or
// it advances along the merged axes by its strides. Along the last axis it then either has all elements, and is
// bound as vectors, or repeats one element, and is bound as scalars. So a vector of results needs one load of each
// input.

struct Parameters {
  count: u32,  // vectors of outputs
$fields
}
var<immediate> parameters: Parameters;

$bindings

$functions

@compute @workgroup_size($workgroup)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, ${workgroup}u);
  if (index >= parameters.count) { return; }
$calls}
