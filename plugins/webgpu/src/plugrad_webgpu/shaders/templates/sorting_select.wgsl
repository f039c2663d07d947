// The positions of the smallest keys of each row; of equal keys, the first
//
// A workgroup finds them in a segment of a row without sorting it: it counts the highest digits of the keys, finds the digit of
// the last key that is wanted, then does so with the next digit of the keys that have this one. Where not all equal keys
// are wanted, it goes on with the digits of their positions. What is selected is sorted in shared memory.

struct Parameters {
  count: u32,     // segments, of all rows
  size: u32,      // elements of a row
  length: u32,    // candidates of a row
  segments: u32,  // of a row
  wanted: u32,    // of a segment
  passes: u32,    // digits of keys and of positions
  has_order: u32, // whether the candidates are in `before`
  by_place: u32,  // whether the result is in the order of the positions
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read> before: array<u32>;
@group(0) @binding(2) var<storage, read_write> selected: array<u32>;

const KEY_DIGITS = 4u;

var<workgroup> counts: array<atomic<u32>, SORTERS>;  // of the digits
var<workgroup> sums: array<u32, SORTERS>;
var<workgroup> found: vec3u;  // the digit of the last key, how many keys are before those with it, and how many have it
var<workgroup> taken: atomic<u32>;

fn candidate(row: u32, k: u32) -> u32 {
  if (parameters.has_order == 0u) { return k; }
  return before[row * parameters.length + k];
}

@compute @workgroup_size(SORTERS)
fn select_first(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let row = index / parameters.segments;
  let segment = index % parameters.segments;
  let longer = parameters.length % parameters.segments;  // segments that have one more
  let least = parameters.length / parameters.segments;
  let first = segment * least + min(segment, longer);
  let end = first + least + u32(segment < longer);
  // What the digits of the last key and of its position are, as far as known, and which these are
  var last = vec2u();
  var known = vec2u();
  var wanted = parameters.wanted;
  var is_done = false;
  for (var pass_number = 0u; pass_number < parameters.passes; pass_number++) {
    let of_keys = pass_number < KEY_DIGITS;
    let shift = 8u * (select(parameters.passes, KEY_DIGITS, of_keys) - 1u - pass_number);
    atomicStore(&counts[local], 0u);
    workgroupBarrier();
    if (!is_done) {
      for (var k = first + local; k < end; k += SORTERS) {
        let place = candidate(row, k);
        let key = keys[row * parameters.size + place];
        if (all((vec2u(key, place) & known) == last)) {
          atomicAdd(&counts[(select(place, key, of_keys) >> shift) & 255u], 1u);
        }
      }
    }
    workgroupBarrier();
    let own = atomicLoad(&counts[local]);
    var sum = own;
    for (var distance = 1u; distance < SORTERS; distance *= 2u) {
      sums[local] = sum;
      workgroupBarrier();
      sum += select(0u, sums[max(local, distance) - distance], local >= distance);
      workgroupBarrier();
    }
    if (sum - own < wanted && wanted <= sum) { found = vec3u(local, sum - own, own); }
    workgroupBarrier();
    if (!is_done) {
      last |= select(vec2u(0u, found.x << shift), vec2u(found.x << shift, 0u), of_keys);
      known |= select(vec2u(0u, 255u << shift), vec2u(255u << shift, 0u), of_keys);
      wanted -= found.y;
      is_done = wanted == found.z;
    }
  }
  if (local == 0u) { atomicStore(&taken, 0u); }
  for (var k = local; k < PLACES; k += SORTERS) {
    block_keys[k] = 0xffffffffu;
    block_order[k] = 0xffffffffu;
  }
  workgroupBarrier();
  for (var k = first + local; k < end; k += SORTERS) {
    let place = candidate(row, k);
    let key = keys[row * parameters.size + place];
    let digits = vec2u(key, place) & known;
    if (digits.x < last.x || (digits.x == last.x && digits.y <= last.y)) {
      let slot = min(atomicAdd(&taken, 1u), PLACES - 1u);
      block_keys[slot] = select(key, 0u, parameters.by_place == 1u);
      block_order[slot] = place;
    }
  }
  sort_in_memory(local);
  for (var k = local; k < parameters.wanted; k += SORTERS) { selected[index * parameters.wanted + k] = block_order[k]; }
}
