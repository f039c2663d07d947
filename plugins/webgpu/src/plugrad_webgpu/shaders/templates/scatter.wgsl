// Updates that replace parts of a tensor; of several updates for one place, the last one stays
//
// First, each place gets the highest number of the updates for it. Then the update of that number is written there.
// Elements are the bits of any dtype, in 32-bit words.

struct Parameters {
  count: u32,
  inner: u32,  // words or vectors of a part
  size: u32,   // places
  step: u32,   // 0 if one update is for all places, otherwise 1
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> places: array<u32>;
@group(0) @binding(1) var<storage, read_write> highest: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read> last: array<u32>;
@group(0) @binding(2) var<storage, read> updates: array<$element>;
@group(0) @binding(3) var<storage, read_write> output: array<$element>;

@compute @workgroup_size(64)
fn last_updates(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let number = linear_index(id, groups, 64u);
  if (number >= parameters.count) { return; }
  let place = places[number];
  if (place < parameters.size) { atomicMax(&highest[place], number); }
}

@compute @workgroup_size(64)
fn write(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let number = index / parameters.inner;
  let place = places[number];
  if (place < parameters.size && last[place] == number) {
    let inner = index % parameters.inner;
    output[place * parameters.inner + inner] = updates[number * parameters.inner * parameters.step + inner];
  }
}
