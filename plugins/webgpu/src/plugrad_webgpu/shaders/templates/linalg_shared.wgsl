// output = a b; each workgroup computes a tile of rows and columns from tiles of the operands in shared memory.
//
// This is the schedule for GPUs. Each invocation loads at most one block of a and one of b at a time, the next ones
// while it computes with those in shared memory, and computes some blocks of the output. Shared memory has vectors of
// four rows of a and of four columns of b for each element of the sums, so an invocation holds few of them at a time.

const STEPS = ${steps}u;      // along the sums, of the tiles in shared memory
const ROWS = ${rows}u;        // of a tile, in blocks
const VECTORS = ${vectors}u;  // columns of a tile
const DOWN = ROWS / ${down}u;         // invocations below each other
const ACROSS = VECTORS / ${across}u;  // invocations beside each other
const INVOCATIONS = ${invocations}u;
// Neighbours of 32 compute 4 by 8 blocks: so they load the fewest different vectors.
const GROUPS_ACROSS = ACROSS / 8u;
// The vectors of each step are in another order, so that neighbours do not wait for the same bank of memory.
const ORDERS = 8u / STEPS;

var<workgroup> a_tile: array<vec4<$T>, 4 * ROWS * STEPS>;
var<workgroup> b_tile: array<vec4<$T>, 4 * VECTORS * STEPS>;

@compute @workgroup_size(INVOCATIONS)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let tile = tile_of(index, 4u * ROWS, VECTORS);
  let run_steps = steps_of_run();
  // Neighbours load what lies side by side. The last invocations load b, so that all have something to load.
  let a_row = $a_own_row;
  let a_step = $a_own_step;
  let loads_a = local < ROWS * STEPS;
  let b_local = INVOCATIONS - 1u - local;
  let b_vector = $b_own_vector;
  let b_step = $b_own_step;
  let loads_b = b_local < VECTORS * STEPS;
  let rows = rows_at(tile.row + 4u * a_row);
  let warp = local / 32u;
  let row = warp / GROUPS_ACROSS * 4u + local % 32u / 8u;
  let vector = warp % GROUPS_ACROSS * 8u + local % 8u;
  @repeat(g, down) @repeat(i, 4) @repeat(j, across) var sum${g}_${i}_$j = vec4<$T>();
  for (var begin = tile.first; begin < tile.end + STEPS; begin += STEPS) {
    var next_a = Block();
    var next_b = Block();
    if (loads_a && begin + a_step < tile.end) {
      let run = (begin + a_step) / run_steps;
      next_a = a_columns(run_at(rows, tile.element, run), begin + a_step - run * run_steps);
    }
    if (loads_b && begin + b_step < tile.end) {
      let run = (begin + b_step) / run_steps;
      next_b = b_block(b_start(tile.element, run), tile.column + b_vector, begin + b_step - run * run_steps);
    }
    if (begin > tile.first) {
      for (var step = 0u; step < STEPS; step++) {
        let a_at = step * 4u * ROWS;
        let b_at = step * 4u * VECTORS;
        @repeat(g, down) let row$g = a_at + ((row + ${g}u * DOWN) ^ (ORDERS * step));
        @repeat(j, across) let vector$j = b_at + ((vector + ${j}u * ACROSS) ^ (ORDERS * step));
        @repeat(k, 4) {
          @repeat(g, down) let a${k}_$g = a_tile[${k}u * ROWS + row$g];
          @repeat(j, across) let b${k}_$j = b_tile[${k}u * VECTORS + vector$j];
          @repeat(g, down) @repeat(i, 4) @repeat(j, across) sum${g}_${i}_$j += a${k}_$g[$i] * b${k}_$j;
        }
      }
      workgroupBarrier();
    }
    if (loads_a) {
      @repeat(k, 4) a_tile[(a_step * 4u + ${k}u) * ROWS + (a_row ^ (ORDERS * a_step))] = next_a.lines[$k];
    }
    if (loads_b) {
      @repeat(k, 4) b_tile[(b_step * 4u + ${k}u) * VECTORS + (b_vector ^ (ORDERS * b_step))] = next_b.lines[$k];
    }
    workgroupBarrier();
  }
  @repeat(g, down) @repeat(i, 4) @repeat(j, across) store_columns(tile.start, tile.row + 4u * (row + ${g}u * DOWN) + ${i}u, tile.column + vector + ${j}u * ACROSS, sum${g}_${i}_$j);
}
