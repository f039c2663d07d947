// output[n, stop …, cell …, c] = the element of an image that a cell of the filter meets at a stop, or zero
//
// A convolution is the product of these patches and the filter. The coordinate on each spatial axis is
// (stop * step + origin + cell * spread) / divisor if that is an integer and inside the image. For a forward
// convolution the step is the stride; its input gradient walks backward, and there the divisor is the stride.
//
// Lists have an entry for each spatial axis, the last axis first. Channels lie in vectors if they can.

struct Parameters {
  count: u32,
  channels: u32,
  image: u32,  // elements of one image
  cells: array<u32, $axes>,  // of the filter
  stops: array<u32, $axes>,
  size: array<i32, $axes>,  // of the image
  strides: array<i32, $axes>,
  steps: array<i32, $axes>,
  origins: array<i32, $axes>,
  spreads: array<i32, $axes>,
  divisors: array<i32, $axes>,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> image: array<$element>;
@group(0) @binding(1) var<storage, read_write> output: array<$element>;

@compute @workgroup_size(64)
fn patches(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  let p = parameters;
  var rest = index / p.channels;
  @repeat(axis, axes) let cell$axis = i32(rest % p.cells[$axis]); rest /= p.cells[$axis];
  @repeat(axis, axes) let stop$axis = i32(rest % p.stops[$axis]); rest /= p.stops[$axis];
  @repeat(axis, axes) let sum$axis = stop$axis * p.steps[$axis] + p.origins[$axis] + cell$axis * p.spreads[$axis];
  @repeat(axis, axes) let place$axis = sum$axis / p.divisors[$axis];
  var is_pixel = true;
  @repeat(axis, axes) is_pixel &= sum$axis >= 0 && place$axis < p.size[$axis] && place$axis * p.divisors[$axis] == sum$axis;
  if (!is_pixel) {
    output[index] = $element();
    return;
  }
  var at = rest * p.image + index % p.channels;
  @repeat(axis, axes) at += u32(place$axis * p.strides[$axis]);
  output[index] = image[at];
}
