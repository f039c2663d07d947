// The place of one of `count` evenly spaced points between two fractions of an axis; one alone is in the middle
fn between(first: f32, last: f32, step: u32, count: u32, length: i32) -> vec2f {
  let zero = parameters.zero;
  var share = vec2f(0.5, 0.0);
  if (count > 1u) { share = divide_pairs(pair_of(step), pair_of(count - 1u), zero); }
  if (count > 1u && step == count - 1u) { share = vec2f(1.0, 0.0); }
  let from_first = multiply_pairs(vec2f(first, 0.0), add_pairs(vec2f(1.0, 0.0), -share, zero), zero);
  let from_last = multiply_pairs(vec2f(last, 0.0), share, zero);
  return multiply_pairs(add_pairs(from_first, from_last, zero), pair_of(u32(length - 1)), zero);
}

fn is_inside(at: vec2f, length: i32) -> bool {
  let beyond = normal_pair(add_pairs(at, -pair_of(u32(length - 1)), parameters.zero), parameters.zero);
  return is_number(at.x) && at.x >= 0.0 && beyond.x <= 0.0;
}

fn point_of(box: u32, row: u32, column: u32) -> Point {
  let y = between(boxes[4u * box], boxes[4u * box + 2u], row, parameters.out_height, parameters.height);
  let x = between(boxes[4u * box + 1u], boxes[4u * box + 3u], column, parameters.out_width, parameters.width);
  let number = numbers[box];
  let image = select(number, number + parameters.batch, number < 0);
  return Point(image, y, x, is_inside(y, parameters.height) && is_inside(x, parameters.width));
}
