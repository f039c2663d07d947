// Images of another size. Row i of the result shows the point between row low[i] of the image and the next one, at a
// share of the distance; its columns likewise. The host has computed both.
//
// An invocation works on some channels of one pixel, because divisions, of which its place takes several, are slow.

struct Parameters {
  count: u32,
  chunks: u32,      // of the channels of a pixel
  chunk: u32,       // elements or vectors of channels
  channels: u32,    // elements or vectors
  height: u32,
  width: u32,
  out_height: u32,
  out_width: u32,
}
var<immediate> parameters: Parameters;

// The positions `low` of the rows of the result and the bits of their shares, then those of its columns
@group(0) @binding(0) var<storage, read> places: array<u32>;
@group(0) @binding(1) var<storage, read> input: array<$element>;
@group(0) @binding(2) var<storage, read_write> output: array<$element>;

fn mixed(first: $element, second: $element, share: f32) -> $element { return $mix; }

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let pixel = index / parameters.chunks;
  let row_of_all = pixel / parameters.out_width;
  let j = 2u * parameters.out_height + pixel % parameters.out_width;
  let i = row_of_all % parameters.out_height;
  let image = row_of_all / parameters.out_height * parameters.height;
  let down = bitcast<f32>(places[parameters.out_height + i]);
  let right = bitcast<f32>(places[parameters.out_width + j]);
  let top = (image + places[i]) * parameters.width;
  let bottom = (image + min(places[i] + 1u, parameters.height - 1u)) * parameters.width;
  let column = places[j];
  let next = min(column + 1u, parameters.width - 1u);
  let first = (index % parameters.chunks) * parameters.chunk;
  let end = min(first + parameters.chunk, parameters.channels);
  for (var c = first; c < end; c++) {
    let before = mixed(
      input[(top + column) * parameters.channels + c], input[(bottom + column) * parameters.channels + c], down);
    let after = mixed(
      input[(top + next) * parameters.channels + c], input[(bottom + next) * parameters.channels + c], down);
    output[pixel * parameters.channels + c] = mixed(before, after, right);
  }
}
