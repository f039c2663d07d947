// A pixel outside is the filling, which may be infinite or NaN where its weight is 0.
fn weighted(pixel: i32, weight: f32, channel: u32) -> f32 {
  if (pixel >= 0) { return images[u32(pixel) * parameters.channels + channel] * weight; }
  if (weight == 0.0) { return 0.0; }
  return filling[channel] * weight;
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
    var sum = weighted(shown.pixels[0], shown.weights[0], channel);
    @repeat(i, more) sum += weighted(shown.pixels[$i + 1], shown.weights[$i + 1], channel);
    output[pixel * parameters.channels + channel] = sum;
  }
}
