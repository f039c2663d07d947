// The stable order of each row of keys, as positions within the row: for GPUs
//
// A workgroup sorts a block of a row in shared memory by bitonic merging (Batcher, "Sorting networks and their
// applications", 1968). Then two sorted runs become one, and so on: each element finds by halves how many of the
// other run come before it. The keys move with their positions, so that a search reads one array.

struct Parameters {
  count: u32,      // workgroups, or elements
  size: u32,       // elements of a row
  run: u32,        // elements that are sorted, of a block or before merging
  blocks: u32,     // of a row
  has_order: u32,  // whether the elements are in the order `before`
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read> before: array<u32>;
@group(0) @binding(2) var<storage, read_write> ranked: array<u32>;
@group(0) @binding(2) var<storage, read_write> sorted: array<vec2u>;
@group(0) @binding(0) var<storage, read> runs: array<vec2u>;  // keys and positions
@group(0) @binding(1) var<storage, read_write> merged: array<vec2u>;
@group(0) @binding(1) var<storage, read_write> merged_places: array<u32>;

fn position(row: u32, place: u32) -> u32 {
  if (parameters.has_order == 0u) { return place; }
  return before[row * parameters.size + place];
}

// The row of a block, its first place and its end
fn block_of(index: u32) -> vec3u {
  let first = index % parameters.blocks * parameters.run;
  return vec3u(index / parameters.blocks, first, min(first + parameters.run, parameters.size));
}

fn sort_block(block: vec3u, local: u32) {
  for (var k = local; k < PLACES; k += SORTERS) {
    let place = position(block.x, min(block.y + k, block.z - 1u));
    block_keys[k] = select(0xffffffffu, keys[block.x * parameters.size + place], block.y + k < block.z);
    block_order[k] = k;
  }
  sort_in_memory(local);
}

@compute @workgroup_size(SORTERS)
fn sort_rows(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let block = block_of(index);
  sort_block(block, local);
  for (var k = local; k < block.z; k += SORTERS) {
    ranked[block.x * parameters.size + k] = position(block.x, block_order[k]);
  }
}

@compute @workgroup_size(SORTERS)
fn sort_blocks(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let block = block_of(index);
  sort_block(block, local);
  for (var k = local; block.y + k < block.z; k += SORTERS) {
    let place = position(block.x, block.y + block_order[k]);
    sorted[block.x * parameters.size + block.y + k] = vec2u(block_keys[k], place);
  }
}

// The place of an element of a run after merging; of equal ones, those of the left run come first.
fn merged_place(index: u32) -> u32 {
  let start = index - index % parameters.size;
  let at = index - start;
  let is_right = at / parameters.run % 2u == 1u;
  let other = select(at - at % parameters.run + parameters.run, at - at % parameters.run - parameters.run, is_right);
  let own = runs[index].x;
  var low = min(other, parameters.size);
  var high = min(low + parameters.run, parameters.size);
  while (low < high) {
    let middle = low + (high - low) / 2u;
    let key = runs[start + middle].x;
    if (key < own || (is_right && key == own)) { low = middle + 1u; } else { high = middle; }
  }
  return start + at - select(0u, parameters.run, is_right) + low - min(other, parameters.size);
}

@compute @workgroup_size(64)
fn merge(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  merged[merged_place(index)] = runs[index];
}

@compute @workgroup_size(64)
fn merge_last(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  merged_places[merged_place(index)] = runs[index].y;
}
