// Each result is made of what one cell of a filter meets at the stops of a segment, on two spatial axes; this is
// appended to windows.wgsl.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let p = parameters;
  let channels = channels_of();
  let channel = i32(index) % channels;
  let cell = i32(index) / channels % (p.cells[0] * p.cells[1]);
  let first = i32(index) / channels / (p.cells[0] * p.cells[1]) * p.run;
  let from0 = cell / p.cells[1] * p.dilations[0] - p.before[0];
  let from1 = cell % p.cells[1] * p.dilations[1] - p.before[1];
  var stop1 = first % p.stops[1];
  var stop0 = first / p.stops[1] % p.stops[0];
  var image = first / p.stops[1] / p.stops[0];
  $start
  for (var row = first; row < min(first + p.run, p.rows); row++) {
    let y = stop0 * p.strides[0] + from0;
    let x = stop1 * p.strides[1] + from1;
    if (y >= 0 && x >= 0 && y < p.size[0] && x < p.size[1]) {
      let at = ((image * p.size[0] + y) * p.size[1] + x) * channels + channel;
      let stop = row * channels + channel;
      $step
    }
    stop1++;
    if (stop1 == p.stops[1]) { stop1 = 0; stop0++; }
    if (stop0 == p.stops[0]) { stop0 = 0; image++; }
  }
  store(index, $result);
}
