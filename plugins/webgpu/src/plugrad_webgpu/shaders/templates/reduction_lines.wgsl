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

fn finished_line(line: $element) -> $element {
  var results: $element;
  @repeat(i, lines) { let value = line[$i]; results[$i] = $line_finish; }
  return results;
}
