// The stable order of each row of keys, as positions within the row
//
// Short rows: each key counts those that come before it. Long rows: the positions are sorted by the lowest digit of the
// keys, then by the next one, and so on. A pass over a digit counts the digits of each block of a row, adds up the
// counts, and moves the positions. One invocation has a whole block, so that equal digits stay in order and no
// invocation waits for another. GPUs, which have many more of them, merge instead (sorting_blocks.wgsl).

struct Parameters {
  count: u32,   // invocations
  size: u32,    // elements of a row
  blocks: u32,  // of a row
  run: u32,     // elements of a block
  shift: u32,   // of the digit, a few bits of a key
  has_order: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read> before: array<u32>;
@group(0) @binding(2) var<storage, read> counted: array<u32>;
@group(0) @binding(0) var<storage, read_write> sums: array<u32>;
@group(0) @binding(1) var<storage, read_write> ranked: array<u32>;
@group(0) @binding(2) var<storage, read_write> counts: array<u32>;
@group(0) @binding(3) var<storage, read_write> moved: array<u32>;

const DIGITS = ${digits}u;

@compute @workgroup_size(32)
fn rank(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 32u);
  if (index >= parameters.count) { return; }
  let own = keys[index];
  let start = index - index % parameters.size;
  var place = start;
  for (var other = start; other < index; other++) { place += u32(keys[other] <= own); }
  for (var other = index; other < start + parameters.size; other++) { place += u32(keys[other] < own); }
  ranked[place] = index - start;
}

// The position at a place of a row in the order of the pass before; that of the first pass may be the given one.
fn position(row: u32, place: u32) -> u32 {
  if (parameters.has_order == 0u) { return place; }
  return before[row * parameters.size + place];
}

fn digit(row: u32, position: u32) -> u32 {
  return (keys[row * parameters.size + position] >> parameters.shift) % DIGITS;
}

// Each digit of a row has a count for each block, and a last one for their sum.
fn counts_of(row: u32, d: u32) -> u32 {
  return (row * DIGITS + d) * (parameters.blocks + 1u);
}

@compute @workgroup_size(32)
fn count_digits(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 32u);
  if (index >= parameters.count) { return; }
  let row = index / parameters.blocks;
  let block = index % parameters.blocks;
  let first = block * parameters.run;
  var found: array<u32, DIGITS>;
  for (var k = first; k < min(first + parameters.run, parameters.size); k++) {
    found[digit(row, position(row, k))]++;
  }
  for (var d = 0u; d < DIGITS; d++) { counts[counts_of(row, d) + block] = found[d]; }
}

@compute @workgroup_size(32)
fn sum_digit_counts(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 32u);
  if (index >= parameters.count) { return; }
  let start = counts_of(0u, index);
  var sum = 0u;
  for (var at = start; at < start + parameters.blocks; at++) {
    let found = sums[at];
    sums[at] = sum;
    sum += found;
  }
  sums[start + parameters.blocks] = sum;
}

@compute @workgroup_size(32)
fn reorder(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 32u);
  if (index >= parameters.count) { return; }
  let row = index / parameters.blocks;
  let block = index % parameters.blocks;
  let first = block * parameters.run;
  var places: array<u32, DIGITS>;
  var start = row * parameters.size;
  for (var d = 0u; d < DIGITS; d++) {
    let at = counts_of(row, d);
    places[d] = start + counted[at + block];
    start += counted[at + parameters.blocks];
  }
  for (var k = first; k < min(first + parameters.run, parameters.size); k++) {
    let from_place = position(row, k);
    let d = digit(row, from_place);
    moved[places[d]] = from_place;
    places[d]++;
  }
}
