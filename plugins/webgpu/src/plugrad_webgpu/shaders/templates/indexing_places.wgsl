// places[p] = the place of the coordinates indices[p, :] when the axes that they are about are flattened
//
// Negative coordinates count from the end. A place beyond all others stands for coordinates out of range.

struct Parameters {
  count: u32,
  sizes: array<u32, $sizes>,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> indices: array<u32>;
@group(0) @binding(1) var<storage, read_write> places: array<u32>;

const NOWHERE = 0x7fffffffu;

// The place after one more coordinate
fn place_at(place: u32, given: u32, size: u32) -> u32 {
  let position = from_front_$T(given, size);
  return select(NOWHERE, place * size + position, place != NOWHERE && position < size);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  var place = 0u;
  @repeat(axis, depth) place = place_at(place, indices[index * ${depth}u + ${axis}u], parameters.sizes[$axis]);
  places[index] = place;
}
