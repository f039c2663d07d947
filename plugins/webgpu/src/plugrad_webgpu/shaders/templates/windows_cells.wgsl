// Each result is made of the cells of one window, in row-major order; this is appended to windows.wgsl.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let p = parameters;
  let stops = p.stops[0] * p.stop_strides[0];
  let image = i32(index) / stops;
  var rest = i32(index) % stops;
  @repeat(axis, axes) let stop$axis = rest / p.stop_strides[$axis]; rest %= p.stop_strides[$axis];
  let channel = rest;
  @repeat(axis, axes) let start$axis = stop$axis * p.strides[$axis] - p.before[$axis];
  @repeat(axis, axes) let first$axis = first_cell(start$axis, p.dilations[$axis]);
  @repeat(axis, axes) let end$axis = end_cell(start$axis, p.dilations[$axis], p.size[$axis], p.cells[$axis]);
  @repeat(axis, axes) let step$axis = p.dilations[$axis] * p.image_strides[$axis];
  var inside = 1;  // cells of the window in the image
  @repeat(axis, axes) inside *= end$axis - first$axis;
  var at = image * p.size[0] * p.image_strides[0] + channel;
  @repeat(axis, axes) at += start$axis * p.image_strides[$axis];
  $start
  @repeat(axis, axes) for (var i$axis = first$axis; i$axis < end$axis; i$axis++) { let at = at + i$axis * step$axis;
    var cell = 0;
    @repeat(axis, axes) cell = cell * p.cells[$axis] + i$axis;
    let weight = cell * channels_of() + channel;
    $step
  @repeat(axis, axes) }
  store(index, $result);
}
