// Windows over images of shape (batch, height, width, channels). Cells outside the image do not exist.
//
// Forward kernels have an invocation for each stop of the window. Gradients have one for each cell of the image,
// which collects from the windows that cover it.

struct Parameters {
  count: u32,
  height: i32,      // of the image
  width: i32,
  out_height: i32,
  out_width: i32,
  channels: i32,
  filter_height: i32,
  filter_width: i32,
  row_stride: i32,
  column_stride: i32,
  top: i32,         // padding
  left: i32,
}
var<immediate> parameters: Parameters;

// A place in an image or among the stops
struct Place { batch: i32, row: i32, column: i32, channel: i32 }

fn place_of(index: u32, height: i32, width: i32) -> Place {
  var rest = i32(index);
  let channel = rest % parameters.channels;
  rest /= parameters.channels;
  let column = rest % width;
  rest /= width;
  return Place(rest / height, rest % height, column, channel);
}

fn image_offset(p: Place, row: i32, column: i32) -> i32 {
  let cell = (p.batch * parameters.height + row) * parameters.width + column;
  return cell * parameters.channels + p.channel;
}

fn stop_offset(p: Place, row: i32, column: i32) -> i32 {
  let stop = (p.batch * parameters.out_height + row) * parameters.out_width + column;
  return stop * parameters.channels + p.channel;
}

// The cells of the image that a stop covers: first row, end row, first column, end column
fn window(row: i32, column: i32) -> vec4i {
  let strides = vec2i(parameters.row_stride, parameters.column_stride);
  let first = vec2i(row, column) * strides - vec2i(parameters.top, parameters.left);
  let filter_size = vec2i(parameters.filter_height, parameters.filter_width);
  let end = min(first + filter_size, vec2i(parameters.height, parameters.width));
  return vec4i(max(first.x, 0), end.x, max(first.y, 0), end.y);
}

// The stops along one axis that cover a cell: first and end
fn covering(cell: i32, before: i32, filter_size: i32, stride: i32, stops: i32) -> vec2i {
  let last_start = cell + before;
  let first = max(last_start - filter_size + stride, 0) / stride;
  return vec2i(first, min(last_start / stride + 1, stops));
}

// The stops that cover a cell of the image: first row, end row, first column, end column
fn covers(row: i32, column: i32) -> vec4i {
  let p = parameters;
  let rows = covering(row, p.top, p.filter_height, p.row_stride, p.out_height);
  let columns = covering(column, p.left, p.filter_width, p.column_stride, p.out_width);
  return vec4i(rows, columns);
}
