// Each pixel of a result shows a point of an image: the nearest pixel, or the four pixels around with weights.
// A gradient goes back to the same pixels.
//
// An invocation works on some channels of a pixel of the result. `point_of` finds the point, in pairs of floats: a
// single float would not tell the nearer one of two pixels.

struct Parameters {
  count: u32,
  chunks: u32,      // of the channels of a pixel
  chunk: u32,       // channels
  batch: i32,       // of the images
  height: i32,
  width: i32,
  channels: u32,
  out_height: u32,
  out_width: u32,
  fill_mode: u32,   // constant, reflect, wrap, nearest
  zero: u32,
  step: u32,        // from the transform of one image to the next
  nudge: f32,       // what is added before the nearest pixel is chosen
}
var<immediate> parameters: Parameters;

const OUTSIDE = -1;

$bindings

// The point of an image that a pixel of a result shows. One that is not known is filled; one in an image that does
// not exist shows nothing.
struct Point { image: i32, row: vec2f, column: vec2f, is_known: bool }

// Positions on an axis, or OUTSIDE, and how far the point is from the first one
struct Place { low: i32, high: i32, share: f32 }

// The pixels that a point shows, counted over all images, or OUTSIDE
struct Shown { pixels: vec4i, weights: vec4f }

fn is_number(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }

// a x + b y + c
fn combined(a: vec2f, b: vec2f, c: vec2f, x: vec2f, y: vec2f) -> vec2f {
  let of_x = multiply_pairs(a, x, parameters.zero);
  let of_both = add_pairs(of_x, multiply_pairs(b, y, parameters.zero), parameters.zero);
  return add_pairs(of_both, c, parameters.zero);
}

// The position on an axis that continues it to any place
fn continued(at: i32, length: i32) -> i32 {
  if (at >= 0 && at < length) { return at; }
  if (parameters.fill_mode == 0u) { return OUTSIDE; }
  if (parameters.fill_mode == 3u) { return clamp(at, 0, length - 1); }
  let period = select(length, 2 * length, parameters.fill_mode == 1u);
  let rest = remainder_i32(at, period);
  return select(period - 1 - rest, rest, rest < length);
}

// A place far outside is as good as any other, because positions have 31 bits.
fn whole(x: f32) -> i32 { return i32(clamp(x, -1073741824.0, 1073741824.0)); }

fn nearest_place(point: vec2f, length: i32) -> Place {
  let at = normal_pair(add_pairs(point, vec2f(0.5, parameters.nudge), parameters.zero), parameters.zero);
  let low = floor(at.x);
  let position = continued(whole(low) + select(0, whole(floor(at.y)), low == at.x), length);
  return Place(position, position, 0.0);
}

fn bilinear_place(point: vec2f, length: i32) -> Place {
  let at = normal_pair(point, parameters.zero);
  let low = floor(at.x);
  let more = select(0.0, floor(at.y), low == at.x);
  let share = (at.x - low) + (at.y - more);
  let position = whole(low) + whole(more);
  let high = select(position, position + 1, share > 0.0);
  return Place(continued(position, length), continued(high, length), share);
}

fn shown_at(index: u32) -> Shown {
  let column = index % parameters.out_width;
  let row = (index / parameters.out_width) % parameters.out_height;
  let point = point_of(index / (parameters.out_width * parameters.out_height), row, column);
  if (point.image < 0 || point.image >= parameters.batch) { return Shown(vec4i(OUTSIDE), vec4f()); }
  if (!point.is_known) { return Shown(vec4i(OUTSIDE), vec4f(1.0, 0.0, 0.0, 0.0)); }
  let y = ${interpolation}_place(point.row, parameters.height);
  let x = ${interpolation}_place(point.column, parameters.width);
  let rows = vec4i(y.low, y.low, y.high, y.high);
  let columns = vec4i(x.low, x.high, x.low, x.high);
  let pixels = (point.image * parameters.height + rows) * parameters.width + columns;
  let is_outside = (rows < vec4i()) | (columns < vec4i());
  let of_rows = vec4f(1.0 - y.share, 1.0 - y.share, y.share, y.share);
  let of_columns = vec4f(1.0 - x.share, x.share, 1.0 - x.share, x.share);
  return Shown(select(pixels, vec4i(OUTSIDE), is_outside), of_rows * of_columns);
}
