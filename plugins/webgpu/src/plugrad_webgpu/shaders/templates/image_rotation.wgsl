// The coefficients of a rotation are pairs, because the host knows them in double precision.
fn point_of(image: u32, row: u32, column: u32) -> Point {
  let x = pair_of(column);
  let y = pair_of(row);
  let from_row = combined(rotation[3], rotation[4], rotation[5], x, y);
  return Point(i32(image), from_row, combined(rotation[0], rotation[1], rotation[2], x, y), true);
}
