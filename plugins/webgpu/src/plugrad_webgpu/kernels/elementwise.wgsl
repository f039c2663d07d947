// output[i] = apply(inputs at i), four elements at a time.
//
// The host merges axes as far as the inputs' broadcasting allows. An input moves along the merged axes by
// its strides; along the last one it either has all elements (bound as vectors) or repeats one (bound as
// scalars), so that a vector of outputs needs one load of each.

struct Parameters {
  count: u32,  // vectors of outputs
$fields
}
var<immediate> parameters: Parameters;

$bindings

fn apply($arguments) -> $result { return $expression; }

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  var rest = index;
  @repeat(axis, axes) let at$axis = rest % parameters.sizes[$axis]; rest /= parameters.sizes[$axis];
$loads
  output[index] = $values;
}
