// output[n, h, w, i, j, c] = the element of an image that filter cell (i, j) meets at stop (h, w), or zero
//
// A convolution is the product of these patches and the filter. The coordinate is
// (stop * step + origin + cell * spread) / divisor if that is an integer and inside the image. For a forward
// convolution the step is the stride; its input gradient walks backward, and there the divisor is the stride.

struct Parameters {
  count: u32,          // vectors
  channels: u32,       // vectors
  filter_height: u32,
  filter_width: u32,
  out_height: u32,
  out_width: u32,
  height: i32,         // of the image
  width: i32,
  row_step: i32,
  column_step: i32,
  row_origin: i32,
  column_origin: i32,
  row_spread: i32,
  column_spread: i32,
  row_divisor: i32,
  column_divisor: i32,
  batch_stride: u32,   // of the image, in vectors
  row_stride: u32,
  column_stride: u32,
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> image: array<$element>;
@group(0) @binding(1) var<storage, read_write> output: array<$element>;

@compute @workgroup_size(64)
fn patches(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index >= parameters.count) { return; }
  var rest = index;
  let channel = rest % parameters.channels;
  rest /= parameters.channels;
  let j = rest % parameters.filter_width;
  rest /= parameters.filter_width;
  let i = rest % parameters.filter_height;
  rest /= parameters.filter_height;
  let w = rest % parameters.out_width;
  rest /= parameters.out_width;
  let h = rest % parameters.out_height;
  let n = rest / parameters.out_height;
  let p = parameters;
  let row_sum = i32(h) * p.row_step + p.row_origin + i32(i) * p.row_spread;
  let column_sum = i32(w) * p.column_step + p.column_origin + i32(j) * p.column_spread;
  let row = row_sum / p.row_divisor;
  let column = column_sum / p.column_divisor;
  let is_inside = row_sum >= 0 && column_sum >= 0 && row < p.height && column < p.width;
  let is_integer = row * p.row_divisor == row_sum && column * p.column_divisor == column_sum;
  if (!is_inside || !is_integer) {
    output[index] = $element();
    return;
  }
  let at = n * p.batch_stride + u32(row) * p.row_stride + u32(column) * p.column_stride;
  output[index] = image[at + channel];
}
