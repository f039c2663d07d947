// What reduction.wgsl and reduction_lanes.wgsl need for elements that are several vectors

fn combine_lines(a: $element, b: $element) -> $element {
  var both: $element;
  @repeat(i, lines) both[$i] = combine_vectors(a[$i], b[$i]);
  return both;
}

fn identity_line() -> $element {
  var line: $element;
  @repeat(i, lines) line[$i] = vec4<$T>(parameters.identity);
  return line;
}

// A loop, because what `store` computes would otherwise be compiled once for each vector.
fn store_line(index: u32, line: $element) {
  var vectors = line;
  for (var i = 0u; i < ${lines}u; i++) {
    let value = vectors[i];
    store(${lines}u * index + i, $finish);
  }
}
