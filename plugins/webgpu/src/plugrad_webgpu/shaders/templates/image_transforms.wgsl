fn coefficient(at: u32) -> vec2f { return vec2f(transforms[at], 0.0); }

fn point_of(image: u32, row: u32, column: u32) -> Point {
  let at = image * parameters.step;
  let x = pair_of(column);
  let y = pair_of(row);
  let p = combined(coefficient(at + 6u), coefficient(at + 7u), vec2f(1.0, 0.0), x, y);
  let depth = normal_pair(p, parameters.zero);
  let across = combined(coefficient(at), coefficient(at + 1u), coefficient(at + 2u), x, y);
  let down = combined(coefficient(at + 3u), coefficient(at + 4u), coefficient(at + 5u), x, y);
  let from_row = divide_pairs(down, depth, parameters.zero);
  let from_column = divide_pairs(across, depth, parameters.zero);
  let is_known = depth.x != 0.0 && is_number(from_row.x) && is_number(from_column.x);
  return Point(i32(image), from_row, from_column, is_known);
}
