fn coefficient(at: u32) -> vec2f {
  return vec2f(transforms[at], select(0.0, transforms[parameters.rests + at], parameters.rests > 0u));
}

// a x + b y + c for the coefficients a and b from a place on
fn combined(at: u32, x: vec2f, y: vec2f, c: vec2f) -> vec2f {
  let zero = parameters.zero;
  let of_x = multiply_pairs(coefficient(at), x, zero);
  return add_pairs(add_pairs(of_x, multiply_pairs(coefficient(at + 1u), y, zero), zero), c, zero);
}

fn point_of(image: u32, row: u32, column: u32) -> Point {
  let at = image * parameters.step;
  let x = pair_of(column);
  let y = pair_of(row);
  let depth = normal_pair(combined(at + 6u, x, y, vec2f(1.0, 0.0)), parameters.zero);
  let from_row = divide_pairs(combined(at + 3u, x, y, coefficient(at + 5u)), depth, parameters.zero);
  let from_column = divide_pairs(combined(at, x, y, coefficient(at + 2u)), depth, parameters.zero);
  let is_known = depth.x != 0.0 && is_number(from_row.x) && is_number(from_column.x);
  return Point(i32(image), from_row, from_column, is_known);
}
