// The patches of images in the other order, as the left operand of a product: the gradient of the filters
//
// A row is a channel of a cell of the filter, and a run has what this cell meets at the stops of the last axis.
// Lists have an entry for each spatial axis.

struct Rows {
  channel: vec4i,  // in vectors if they are whole
  origin: array<vec4i, $axes>,
}

fn rows_at(first: u32) -> Rows {
  let row = min(vec4u(0u, 1u, 2u, 3u) + first, vec4u(parameters.rows - 1u));
  let channels = u32(parameters.channels);
  var rest = row / channels;
  var rows: Rows;
  rows.channel = vec4i((row % channels) / ${unit}u);
  @repeat(i, axes) rows.origin[$last - $i] = vec4i(rest % parameters.cells[$last - $i]); rest /= parameters.cells[$last - $i];
  @repeat(axis, axes) rows.origin[$axis] = rows.origin[$axis] * parameters.dilations[$axis] - parameters.before[$axis];
  return rows;
}

fn run_at(rows: Rows, element: u32, run: u32) -> Run {
  var rest = run;
  var stop: array<i32, $axes>;
  @repeat(i, others) stop[$last - 1 - $i] = i32(rest % parameters.stops[$last - 1 - $i]); rest /= parameters.stops[$last - 1 - $i];
  var pixel = vec4i(i32(rest));
  var is_pixel = vec4<bool>(true);
  @repeat(axis, others) let place$axis = stop[$axis] * parameters.strides[$axis] + rows.origin[$axis]; is_pixel &= (place$axis >= vec4i(0)) & (place$axis < vec4i(parameters.size[$axis])); pixel = pixel * parameters.size[$axis] + place$axis;
  let stride = parameters.strides[$last];
  let origin = rows.origin[$last];
  let first = (max(-origin, vec4i(0)) + stride - 1) / stride;
  let end = min((max(parameters.size[$last] - origin, vec4i(0)) + stride - 1) / stride, vec4i(i32(parameters.depth)));
  let start = (pixel * parameters.size[$last] + origin) * (parameters.channels / $unit) + rows.channel;
  return Run(start, first, select(vec4i(0), end, is_pixel));
}
