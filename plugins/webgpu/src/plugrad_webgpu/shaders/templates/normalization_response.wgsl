// output[i] = a function of element i and of the sum of a term over the elements of the same row that are at most
// `radius` away

struct Parameters {
  count: u32,
  length: u32,  // of a row
  radius: u32,
  bias: f32,
  alpha: f32,
  beta: f32,
$fields
}
var<immediate> parameters: Parameters;

$bindings

$store

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = linear_index(id, groups, 64u);
  if (i >= parameters.count) { return; }
  let place = i % parameters.length;
  let first = i - min(place, parameters.radius);
  let last = i + min(parameters.length - 1u - place, parameters.radius);
  var sum = 0.0;
  for (var k = first; k <= last; k++) { sum += $term; }
  store(i, $finish);
}
