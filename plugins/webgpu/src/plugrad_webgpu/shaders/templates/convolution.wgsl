// The patches of images, as the left operand of a product: what the cells of a filter meet at each stop, or zero
//
// A row is a stop of the filter, and a run has the channels of the pixel that one cell meets. A forward walk meets
// the pixel stop * stride + cell * dilation - before. The gradient of the input walks backward over the gradient of
// the output: there the stop is that sum, and the pixel is what gives it.
//
// Where channels do not make vectors, the cells along the last axis can be JOINED in one run: their pixels are
// neighbours. Lists have an entry for each spatial axis.

const JOINED = $joined;

struct Rows {
  image: vec4i,
  at: array<vec4i, $axes>,  // where the filter is
}

fn place_of_stop(stop: vec4i, stride: i32, before: i32) -> vec4i { return $at; }

// The pixel that a cell meets, on one axis, and whether there is one
fn place_of(at: vec4i, cell: i32, stride: i32, dilation: i32) -> vec4i { return $place; }

fn is_place(place: vec4i, at: vec4i, cell: i32, stride: i32, dilation: i32, size: i32) -> vec4<bool> {
  return (place >= vec4i(0)) & (place < vec4i(size))$condition;
}

fn rows_at(first: u32) -> Rows {
  var rest = min(vec4u(0u, 1u, 2u, 3u) + first, vec4u(parameters.rows - 1u));
  var rows: Rows;
  @repeat(i, axes) rows.at[$last - $i] = vec4i(rest % parameters.stops[$last - $i]); rest /= parameters.stops[$last - $i];
  @repeat(axis, axes) rows.at[$axis] = place_of_stop(rows.at[$axis], parameters.strides[$axis], parameters.before[$axis]);
  rows.image = vec4i(rest);
  return rows;
}

fn run_at(rows: Rows, element: u32, run: u32) -> Run {
  var rest = run;
  var cell: array<i32, $axes>;
  if (!JOINED) { cell[$last] = i32(rest % parameters.cells[$last]); rest /= parameters.cells[$last]; }
  @repeat(i, others) cell[$last - 1 - $i] = i32(rest % parameters.cells[$last - 1 - $i]); rest /= parameters.cells[$last - 1 - $i];
  var pixel = rows.image;
  var is_pixel = vec4<bool>(true);
  @repeat(axis, others) let place$axis = place_of(rows.at[$axis], cell[$axis], parameters.strides[$axis], parameters.dilations[$axis]);
  @repeat(axis, others) is_pixel &= is_place(place$axis, rows.at[$axis], cell[$axis], parameters.strides[$axis], parameters.dilations[$axis], parameters.size[$axis]);
  @repeat(axis, others) pixel = pixel * parameters.size[$axis] + place$axis;
  let units = i32(parameters.depth / ${unit}u);
  if (JOINED) {
    // Two numbers that no window passes keep the products small.
    let start = clamp(rows.at[$last], vec4i(-i32(parameters.cells[$last])), vec4i(parameters.size[$last]));
    let first = max(-start * parameters.channels, vec4i(0));
    let end = min((parameters.size[$last] - start) * parameters.channels, vec4i(units));
    pixel = pixel * parameters.size[$last] + start;
    return Run(pixel * parameters.channels, first, select(vec4i(0), end, is_pixel));
  }
  let place = place_of(rows.at[$last], cell[$last], parameters.strides[$last], parameters.dilations[$last]);
  is_pixel &= is_place(place, rows.at[$last], cell[$last], parameters.strides[$last], parameters.dilations[$last], parameters.size[$last]);
  pixel = pixel * parameters.size[$last] + place;
  return Run(pixel * units, vec4i(0), select(vec4i(0), vec4i(units), is_pixel));
}
