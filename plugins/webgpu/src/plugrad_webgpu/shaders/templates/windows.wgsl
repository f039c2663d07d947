// Windows that slide over images (batch, spatial axes …, channels); cells outside the image do not exist.
//
// Three loops follow this file: windows_cells.wgsl has an invocation for each stop of the window and visits its
// cells, windows_stops.wgsl has one for each pixel and visits the stops that cover it, windows_weights.wgsl has
// one for each cell of a filter and visits all stops. What they do with each element is written by the host.
//
// Lists have an entry for each spatial axis. Channels lie in vectors of $width.

alias Element = $element;
alias Integers = $integers;
alias Bits = $bits;
alias Mask = $mask;

struct Parameters {
  count: u32,        // of the results
  positions_per_image: i32,  // subtracted for each image
  rows: i32,         // stops in all images
  run: i32,          // the stops of one segment
  size: array<i32, $axes>,
  stops: array<i32, $axes>,
  cells: array<i32, $axes>,
  strides: array<i32, $axes>,
  dilations: array<i32, $axes>,
  before: array<i32, $axes>,  // padding
  image_strides: array<i32, $axes>,
  stop_strides: array<i32, $axes>,
  periods: array<i32, $axes>,  // stops between those whose windows have a cell at one place
$fields
}
var<immediate> parameters: Parameters;

$bindings

$store

// The number of channels, in vectors
fn channels_of() -> i32 { return parameters.image_strides[$axes - 1]; }

// The positions of the elements of a vector of the images
fn positions(at: i32, image: i32) -> Integers {
  return Integers($width * at - image * parameters.positions_per_image) + $lanes;
}

fn are_nan(x: Element) -> Mask {
  return (bitcast<Bits>(x) & Bits(0x7fffffffu)) > Bits(0x7f800000u);
}

// How many cells of a window begin within a length
fn cells_within(length: i32, dilation: i32) -> i32 { return $cells_within; }

// The first cell of a window that is not in front of the image
fn first_cell(start: i32, dilation: i32) -> i32 { return max(cells_within(-start, dilation), 0); }

// The end of the cells of a window that are not behind the image
fn end_cell(start: i32, dilation: i32, size: i32, cells: i32) -> i32 {
  return min(cells_within(size - start, dilation), cells);
}
