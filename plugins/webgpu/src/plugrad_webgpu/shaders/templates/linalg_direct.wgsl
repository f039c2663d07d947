// output = a b; each invocation computes up to 8 rows of 8 columns directly from the buffers.
//
// This is the schedule for few rows or columns, and for software devices without subgroups of a fitting size, where
// barriers are slow.

@compute @workgroup_size($invocations)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, ${invocations}u);
  if (index >= parameters.count) { return; }
  let tile = tile_of(index, ${rows}u, ${vectors}u);
  @repeat(g, blocks) let rows$g = rows_at(tile.row + 4u * ${g}u);
  @repeat(g, blocks) @repeat(i, lines) @repeat(j, vectors) var sum${g}_${i}_$j = vec4<$T>();
  let run_steps = steps_of_run();
  for (var begin = tile.first; begin < tile.end;) {
    let run = begin / run_steps;
    let end = min(tile.end, (run + 1u) * run_steps);
    @repeat(g, blocks) let run$g = run_at(rows$g, tile.element, run);
    let start = b_start(tile.element, run);
    for (var step = begin - run * run_steps; step < end - run * run_steps; step++) {
      @repeat(g, blocks) let a$g = a_block(run$g, step);
      @repeat(j, vectors) let b$j = b_block(start, tile.column + ${j}u, step);
      @repeat(k, 4) @repeat(g, blocks) @repeat(i, lines) @repeat(j, vectors) sum${g}_${i}_$j += a$g.lines[$i][$k] * b$j.lines[$k];
    }
    begin = end;
  }
  @repeat(g, blocks) @repeat(i, lines) @repeat(j, vectors) store_columns(tile.start, tile.row + 4u * ${g}u + ${i}u, tile.column + ${j}u, sum${g}_${i}_$j);
}
