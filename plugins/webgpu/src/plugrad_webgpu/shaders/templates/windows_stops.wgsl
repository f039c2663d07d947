// Each result is made of the stops of the windows that cover one pixel; this is appended to windows.wgsl.

// The first stop whose window has a cell at a pixel `base` cells behind the start of the first window, if it does
// not lie behind the end of the image. The next such stop follows after `period` stops.
fn first_stop(base: i32, cells: i32, dilation: i32, stride: i32, period: i32) -> i32 {
  let first = max(base - (cells - 1) * dilation + stride - 1, 0) / stride;
  for (var stop = first; stop < first + period; stop++) {
    if (cell_at(base - stop * stride, dilation) * dilation == base - stop * stride) { return stop; }
  }
  return 0x7fffffff;
}

fn cell_at(offset: i32, dilation: i32) -> i32 { return $cell_at; }

fn cells_inside(start: i32, dilation: i32, size: i32, cells: i32) -> i32 {
  return end_cell(start, dilation, size, cells) - first_cell(start, dilation);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let p = parameters;
  let pixels = p.size[0] * p.image_strides[0];
  let image = i32(index) / pixels;
  var rest = i32(index) % pixels;
  @repeat(axis, axes) let base$axis = rest / p.image_strides[$axis] + p.before[$axis]; rest %= p.image_strides[$axis];
  let channel = rest;
  @repeat(axis, axes) let first$axis = first_stop(base$axis, p.cells[$axis], p.dilations[$axis], p.strides[$axis], p.periods[$axis]);
  @repeat(axis, axes) let end$axis = min(max(base$axis + p.strides[$axis], 0) / p.strides[$axis], p.stops[$axis]);
  let own = positions(i32(index), image);
  let at = image * p.stops[0] * p.stop_strides[0] + channel;
  $start
  @repeat(axis, axes) for (var s$axis = first$axis; s$axis < end$axis; s$axis += p.periods[$axis]) { let at = at + s$axis * p.stop_strides[$axis];
    @repeat(axis, axes) let offset$axis = base$axis - s$axis * p.strides[$axis];
    var cell = 0;
    @repeat(axis, axes) cell = cell * p.cells[$axis] + cell_at(offset$axis, p.dilations[$axis]);
    let weight = cell * channels_of() + channel;
    var inside = 1;  // cells of the window in the image
    @repeat(axis, axes) inside *= cells_inside(s$axis * p.strides[$axis] - p.before[$axis], p.dilations[$axis], p.size[$axis], p.cells[$axis]);
    $step
  @repeat(axis, axes) }
  store(index, $result);
}
