// output = a b; the invocations of a workgroup share the sums of a few rows and columns, and join what they have found.
//
// This is the schedule for GPUs where the product has few rows or columns, and the larger operand has the elements of
// a sum side by side: neighbours load neighbouring elements.

$join

@compute @workgroup_size($invocations)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
  $lanes_given
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let tile = tile_of(index, ${rows}u, ${vectors}u);
  let rows = rows_at(tile.row);
  @repeat(i, lines) @repeat(j, vectors) var sum${i}_$j = vec4<$T>();
  let run_steps = steps_of_run();
  for (var at = tile.first + local; at < tile.end; at += ${invocations}u) {
    let run = at / run_steps;
    let step = at - run * run_steps;
    let a = a_block(run_at(rows, tile.element, run), step);
    let start = b_start(tile.element, run);
    @repeat(j, vectors) let b$j = b_block(start, tile.column + ${j}u, step);
    @repeat(k, 4) @repeat(i, lines) @repeat(j, vectors) sum${i}_$j += a.lines[$i][$k] * b$j.lines[$k];
  }
  @repeat(i, lines) @repeat(j, vectors) let total${i}_$j = total(sum${i}_$j, local, $lanes); if (local == 0u) { store_columns(tile.start, tile.row + ${i}u, tile.column + ${j}u, total${i}_$j); }
}
