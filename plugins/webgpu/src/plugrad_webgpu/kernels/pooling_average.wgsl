// The averages of windows and the gradients of pooling; this is appended to pooling_windows.wgsl.

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read> positions: array<i32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
@group(0) @binding(2) var<storage, read_write> gradient: array<f32>;

// `input` is the gradient of the stops, and `positions` is where each stop found its maximum.
@compute @workgroup_size(64)
fn max_pool_gradient(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let p = place_of(index, parameters.height, parameters.width);
  let stops = covers(p.row, p.column);
  var sum = 0.0;
  for (var row = stops.x; row < stops.y; row++) {
    for (var column = stops.z; column < stops.w; column++) {
      let stop = stop_offset(p, row, column);
      if (positions[stop] == i32(index)) { sum += input[stop]; }
    }
  }
  gradient[index] = sum;
}

fn cells_of(row: i32, column: i32) -> f32 {
  let cells = window(row, column);
  return f32((cells.y - cells.x) * (cells.w - cells.z));
}

@compute @workgroup_size(64)
fn avg_pool(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let p = place_of(index, parameters.out_height, parameters.out_width);
  let cells = window(p.row, p.column);
  var sum = 0.0;
  for (var row = cells.x; row < cells.y; row++) {
    for (var column = cells.z; column < cells.w; column++) { sum += input[image_offset(p, row, column)]; }
  }
  output[index] = sum / cells_of(p.row, p.column);
}

// `input` is the gradient of the stops.
@compute @workgroup_size(64)
fn avg_pool_gradient(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let p = place_of(index, parameters.height, parameters.width);
  let stops = covers(p.row, p.column);
  var sum = 0.0;
  for (var row = stops.x; row < stops.y; row++) {
    for (var column = stops.z; column < stops.w; column++) {
      sum += input[stop_offset(p, row, column)] / cells_of(row, column);
    }
  }
  output[index] = sum;
}
