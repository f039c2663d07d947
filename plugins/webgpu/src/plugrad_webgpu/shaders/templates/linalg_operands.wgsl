// What the schedules of a product share: output = a b
//
// A sum has runs. A product of matrices has one; a convolution has one for each cell of the filter, or one for each
// row of an image, so that its patches are never written to memory. Both operands are read as blocks of four by four
// elements, whichever way they lie in memory. Rows and columns beyond the end repeat the last one and are not
// stored; elements beyond the end of a run are zero in both operands. A long sum is split: each split writes its
// part, and the parts are added later.

struct Parameters {
  count: u32,         // tiles, in all matrices and splits
  rows: u32,
  columns: u32,
  depth: u32,         // elements of a run
  row_tiles: u32,
  column_tiles: u32,
  batch: u32,
  a_step: u32,        // items of an array from one matrix of a batch to the next, or 0
  b_step: u32,
  steps: u32,         // blocks along the sums, in all runs
  share: u32,         // the steps of one split
$operand_fields
$fields
}
var<immediate> parameters: Parameters;

$bindings

// Four vectors: in a block of a, each has four elements along the sums; in a block of b, along the columns
struct Block { lines: array<vec4<$T>, 4> }

// Where four rows of a have the elements of a run: the items of the first one, and the range that exists
struct Run {
  start: vec4i,
  first: vec4i,
  end: vec4i,
}

// The part of the output that an invocation or a workgroup computes, and the part of the sums
struct Tile {
  row: u32,
  column: u32,   // in vectors
  element: u32,  // of the batch
  start: u32,    // of the matrix in the output
  first: u32,
  end: u32,
}

fn tile_of(index: u32, rows: u32, vectors: u32) -> Tile {
  let matrix = index / (parameters.column_tiles * parameters.row_tiles);
  let first = (matrix / parameters.batch) * parameters.share;
  return Tile(
    rows * ((index / parameters.column_tiles) % parameters.row_tiles),
    vectors * (index % parameters.column_tiles),
    matrix % parameters.batch,
    matrix * parameters.rows * parameters.columns,
    first,
    min(first + parameters.share, parameters.steps),
  );
}

fn steps_of_run() -> u32 { return (parameters.depth + 3u) / 4u; }

fn flipped(b: Block) -> Block {
  var turned: Block;
  @repeat(i, 4) turned.lines[$i] = vec4<$T>(b.lines[0][$i], b.lines[1][$i], b.lines[2][$i], b.lines[3][$i]);
  return turned;
}

fn a_item(at: i32, is_real: bool) -> $a_type { return $a_item; }

fn b_item(at: u32, is_real: bool) -> $b_type { return $b_item; }

// Line i of a block of a, as it lies in memory
fn a_line(run: Run, i: u32, step: u32) -> vec4<$T> {
  let k = i32($a_place);
  return $a_line;
}

fn a_block(run: Run, step: u32) -> Block {
  var block: Block;
  @repeat(i, 4) block.lines[$i] = a_line(run, ${i}u, step);
  return $a_turned;
}

// The same block, with its elements along the sums as lines, of four rows
fn a_columns(run: Run, step: u32) -> Block {
  var block: Block;
  @repeat(i, 4) block.lines[$i] = a_line(run, ${i}u, step);
  return $a_as_columns;
}

fn b_start(element: u32, run: u32) -> u32 {
  return element * parameters.b_step + run * parameters.depth * parameters.columns / ${b_unit}u;
}

fn b_line(start: u32, vector: u32, i: u32, step: u32) -> vec4<$T> {
  let k = $b_place;
  let column = min($b_column, $columns_end - 1u);
  return $b_line;
}

// The elements of a run in the columns of a vector; `start` is that of the run
fn b_block(start: u32, vector: u32, step: u32) -> Block {
  var block: Block;
  @repeat(i, 4) block.lines[$i] = b_line(start, vector, ${i}u, step);
  return $b_turned;
}

// What is stored of an element
fn apply_epilogue(y: $T, column: u32) -> $T {
  $before
  return $epilogue;
}

$store

fn store_columns(start: u32, row: u32, vector: u32, value: vec4<$T>) {
  if (row >= parameters.rows || 4u * vector >= parameters.columns) { return; }
  let offset = start + row * parameters.columns + 4u * vector;
  $store_vector
}
