// The largest cell of each window, for any number dtype; this is appended to pooling_windows.wgsl.

@group(0) @binding(0) var<storage, read> input: array<$T>;
@group(0) @binding(1) var<storage, read_write> output: array<$T>;
@group(0) @binding(1) var<storage, read_write> found: array<i32>;

fn is_better(value: $T, best: $T) -> bool { return $is_better; }

// The offset of the first largest cell of the window; -1 if the window is empty
fn largest(p: Place) -> i32 {
  let cells = window(p.row, p.column);
  var best_at = -1;
  var best = $T();
  for (var row = cells.x; row < cells.y; row++) {
    for (var column = cells.z; column < cells.w; column++) {
      let at = image_offset(p, row, column);
      let value = input[at];
      if (best_at < 0 || is_better(value, best)) {
        best = value;
        best_at = at;
      }
    }
  }
  return best_at;
}

@compute @workgroup_size(64)
fn max_pool(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let at = largest(place_of(index, parameters.out_height, parameters.out_width));
  if (at < 0) { output[index] = $lowest; } else { output[index] = input[at]; }
}

@compute @workgroup_size(64)
fn max_position(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  found[index] = largest(place_of(index, parameters.out_height, parameters.out_width));
}
