// output = a b; each workgroup computes a tile of rows and columns from tiles of the operands in shared memory.
//
// This is the schedule for GPUs. Each invocation loads at most one block of a and one of b at a time, the next ones
// while it computes with those in shared memory, and computes some blocks of the output.

const STEPS = ${steps}u;      // along the sums, of the tiles in shared memory
const ROWS = ${rows}u;        // of a tile, in blocks
const VECTORS = ${vectors}u;  // columns of a tile
const ACROSS = VECTORS / ${across}u;  // invocations beside each other
const INVOCATIONS = ${invocations}u;

var<workgroup> a_tile: array<vec4<$T>, 4 * ROWS * STEPS>;     // rows of steps
var<workgroup> b_tile: array<vec4<$T>, 4 * VECTORS * STEPS>;  // elements along the sums, of vectors of columns

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
  let row = local / ACROSS * ${down}u;
  let vector = local % ACROSS;
  @repeat(g, down) @repeat(i, 4) @repeat(j, across) var sum${g}_${i}_$j = vec4<$T>();
  var next_a: Block;
  var next_b: Block;
  for (var begin = tile.first; begin < tile.end + STEPS; begin += STEPS) {
    if (begin > tile.first) {
      if (loads_a) {
        @repeat(i, 4) a_tile[(4u * a_row + ${i}u) * STEPS + a_step] = next_a.lines[$i];
      }
      if (loads_b) {
        @repeat(i, 4) b_tile[(4u * b_step + ${i}u) * VECTORS + b_vector] = next_b.lines[$i];
      }
      workgroupBarrier();
    }
    next_a = Block();
    next_b = Block();
    if (loads_a && begin + a_step < tile.end) {
      let run = (begin + a_step) / run_steps;
      next_a = a_block(run_at(rows, tile.element, run), begin + a_step - run * run_steps);
    }
    if (loads_b && begin + b_step < tile.end) {
      let run = (begin + b_step) / run_steps;
      next_b = b_block(b_start(tile.element, run), tile.column + b_vector, begin + b_step - run * run_steps);
    }
    if (begin > tile.first) {
      for (var step = 0u; step < STEPS; step++) {
        @repeat(g, down) @repeat(i, 4) let a${g}_$i = a_tile[(4u * (row + ${g}u) + ${i}u) * STEPS + step];
        @repeat(k, 4) @repeat(j, across) let b${k}_$j = b_tile[(4u * step + ${k}u) * VECTORS + vector + ${j}u * ACROSS];
        @repeat(k, 4) @repeat(g, down) @repeat(i, 4) @repeat(j, across) sum${g}_${i}_$j += a${g}_$i[$k] * b${k}_$j;
      }
      workgroupBarrier();
    }
  }
  @repeat(g, down) @repeat(i, 4) @repeat(j, across) store(tile.start, tile.row + 4u * (row + ${g}u) + ${i}u, tile.column + vector + ${j}u * ACROSS, sum${g}_${i}_$j);
}
