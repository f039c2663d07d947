// output[r, i] = the first class at which the running sums of row r exceed u * total, where u is the upper 24 bits of
// word [r, i], times 2^-24

struct Parameters {
  count: u32,    // samples of all rows
  samples: u32,  // of a row
  classes: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> sums: array<f32>;
@group(0) @binding(1) var<storage, read> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let row = index / parameters.samples * parameters.classes;
  let last = parameters.classes - 1u;
  let place = f32(words[index] >> 8u) * 5.9604644775390625e-8 * sums[row + last];
  var first = 0u;
  var end = last;  // the last class, if rounding leaves no other
  while (first < end) {
    let middle = (first + end) / 2u;
    if (sums[row + middle] > place) { end = middle; } else { first = middle + 1u; }
  }
  output[index] = first;
}
