fn send(pixel: i32, weight: f32, channel: u32, value: f32) {
  if (pixel >= 0 && weight != 0.0) { $send(u32(pixel) * parameters.channels + channel, value * weight); }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let pixel = index / parameters.chunks;
  let shown = shown_at(pixel);
  let first = (index % parameters.chunks) * parameters.chunk;
  let end = min(first + parameters.chunk, parameters.channels);
  for (var channel = first; channel < end; channel++) {
    let value = dy[pixel * parameters.channels + channel];
    send(shown.pixels[0], shown.weights[0], channel, value);
    @repeat(i, more) send(shown.pixels[$i + 1], shown.weights[$i + 1], channel, value);
  }
}
