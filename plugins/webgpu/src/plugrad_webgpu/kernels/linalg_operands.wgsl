// What the schedules of a product share. Matrices are row-major. `b` is read as vectors along its rows, so the
// host has padded its columns to whole vectors, and also those of `a` where `a` is read in the same way. A long
// sum is split: each split writes its part, and the parts are added later.

struct Parameters {
  count: u32,         // tiles, in all matrices and splits
  rows: u32,
  columns: u32,       // of the output, in elements
  vectors: u32,       // of a row of b
  depth: u32,         // in vectors; in elements if a is transposed
  row_tiles: u32,
  column_tiles: u32,
  batch: u32,
  a_step: u32,        // vectors from one matrix of a batch to the next, or 0
  b_step: u32,
  run: u32,           // the part of depth that belongs to one split
}
var<immediate> parameters: Parameters;

@group(0) @binding(0) var<storage, read> a: array<vec4<$T>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<$T>>;
@group(0) @binding(2) var<storage, read_write> output: array<$result>;

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
  let first = (matrix / parameters.batch) * parameters.run;
  return Tile(
    rows * ((index / parameters.column_tiles) % parameters.row_tiles),
    vectors * (index % parameters.column_tiles),
    matrix % parameters.batch,
    matrix * parameters.rows * parameters.columns,
    first,
    min(first + parameters.run, parameters.depth),
  );
}

fn store(start: u32, row: u32, column: u32, value: vec4<$T>) {
  if (row >= parameters.rows || column >= parameters.vectors) { return; }
  let offset = start + row * parameters.columns + 4u * column;
  $store
}
