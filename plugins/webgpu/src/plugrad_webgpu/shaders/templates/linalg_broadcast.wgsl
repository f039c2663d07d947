// output = a b; each workgroup is one subgroup of 8 invocations, which computes up to 32 rows of 32 or 64 columns.
//
// An invocation has one or two vectors of 4 columns. It loads 4 of the rows and broadcasts their elements to the
// others. This is the schedule for software devices, which run an invocation in each lane of a vector of the processor:
// there a load goes through one lane after the other, and a broadcast is one instruction. The sums do not fit the
// registers of the processor. So each one gets all that a step adds before the next one is touched.

@compute @workgroup_size(8)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let tile = tile_of(index, 4u * ${blocks}u, 8u * ${across}u);
  let rows = rows_at(tile.row + 4u * lane);
  @repeat(v, across) @repeat(g, blocks) @repeat(i, 4) var sum${v}_${g}_$i = vec4<$T>();
  let run_steps = steps_of_run();
  for (var begin = tile.first; begin < tile.end;) {
    let run = begin / run_steps;
    let end = min(tile.end, (run + 1u) * run_steps);
    let own_run = run_at(rows, tile.element, run);
    let start = b_start(tile.element, run);
    for (var step = begin - run * run_steps; step < end - run * run_steps; step++) {
      let own = a_block(own_run, step);
      @repeat(v, across) {
        let right = b_block(start, tile.column + 8u * ${v}u + lane, step);
        @repeat(g, blocks) @repeat(i, 4) @repeat(k, 4) sum${v}_${g}_$i += subgroupBroadcast(own.lines[$i][$k], ${g}u) * right.lines[$k];
      }
    }
    begin = end;
  }
  @repeat(v, across) @repeat(g, blocks) @repeat(i, 4) store_columns(tile.start, tile.row + 4u * ${g}u + ${i}u, tile.column + 8u * ${v}u + lane, sum${v}_${g}_$i);
}
