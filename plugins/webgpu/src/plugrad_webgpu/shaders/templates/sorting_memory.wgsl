// Keys in shared memory, sorted by bitonic merging

const PLACES = ${places}u;  // a power of two, so some of them may be empty
const SORTERS = 256u;

var<workgroup> block_keys: array<u32, PLACES>;
var<workgroup> block_order: array<u32, PLACES>;

// Keys that are equal are in the order of the other array.
fn is_behind(a: u32, b: u32) -> bool {
  return block_keys[a] > block_keys[b] || (block_keys[a] == block_keys[b] && block_order[a] > block_order[b]);
}

fn sort_in_memory(local: u32) {
  for (var run = 2u; run <= PLACES; run *= 2u) {
    for (var distance = run / 2u; distance > 0u; distance /= 2u) {
      workgroupBarrier();
      for (var pair = local; pair < PLACES / 2u; pair += SORTERS) {
        let a = pair / distance * distance * 2u + pair % distance;
        let b = a + distance;
        if (is_behind(a, b) == ((a & run) == 0u)) {
          let key = block_keys[a];
          let position = block_order[a];
          block_keys[a] = block_keys[b];
          block_order[a] = block_order[b];
          block_keys[b] = key;
          block_order[b] = position;
        }
      }
    }
  }
  workgroupBarrier();
}
