// output = softmax(scale q k^T + mask) v, without the matrix of weights
//
// A workgroup computes 32 rows and goes through the keys, some of them at a time. For each row it keeps the largest
// score so far, the sum of the exponentials of the others relative to it, and the sum of the values; where a larger
// score comes, both sums are scaled (Milakov and Gimelshein, 2018; Dao and others, 2022). An invocation has four rows,
// and of these every eighth key and every eighth vector of values.

struct Parameters {
  count: u32,       // workgroups
  row_tiles: u32,   // workgroups for each element of the batch
  queries: u32,
  keys: u32,
  width: u32,       // elements of a query and of a key
  size: u32,        // elements of a value
  mask_batch: u32,  // steps in the mask
  mask_row: u32,
  mask_key: u32,
  scale: f32,
}
var<immediate> parameters: Parameters;

$bindings

const KEYS = ${keys}u;
const WIDTH = ${width}u;    // vectors of a query
const SIZE = ${size}u;      // vectors of a value
const STRIDE = ${stride}u;  // an odd number of vectors, so that rows begin in different banks of the memory

var<workgroup> queries: array<vec4f, ${queries_length}>;
var<workgroup> tile: array<vec4f, ${tile_length}>;  // keys, then values
var<workgroup> scores: array<vec4f, ${scores_length}>;  // of a key, for four rows; then their exponentials

fn q_at(row: u32, vector: u32) -> vec4f { return $q_vector; }
fn k_at(row: u32, vector: u32) -> vec4f { return $k_vector; }
fn v_at(row: u32, vector: u32) -> vec4f { return $v_vector; }

// The scores of four rows for a key, which may not exist
fn masked(score: vec4f, batch: u32, rows: vec4u, key: u32) -> vec4f {
  let known = min(key, parameters.keys - 1u);
  return select(vec4f(-infinity()), $masked, key < parameters.keys);
}

fn larger(a: vec4f, b: vec4f) -> vec4f {
  return vec4f(maximum(a.x, b.x), maximum(a.y, b.y), maximum(a.z, b.z), maximum(a.w, b.w));
}

fn exponentials(x: vec4f) -> vec4f {
  return vec4f(exp_accurate(x.x), exp_accurate(x.y), exp_accurate(x.z), exp_accurate(x.w));
}

fn without_keys(largest: vec4f) -> vec4<bool> { return bitcast<vec4u>(largest) == vec4u(0xff800000u); }

fn store(batch: u32, row: u32, vector: u32, value: vec4f) {
  if (row >= parameters.queries || vector >= SIZE) { return; }
  let start = (batch * parameters.queries + row) * parameters.size + 4u * vector;
  $store
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let batch = index / parameters.row_tiles;
  let first_row = 32u * (index % parameters.row_tiles);
  let lane = local % 8u;
  let block = local / 8u;
  let rows = min(vec4u(0u, 1u, 2u, 3u) + first_row + 4u * block, vec4u(parameters.queries - 1u));
  for (var i = local; i < 32u * WIDTH; i += 64u) {
    let row = min(first_row + i / WIDTH, parameters.queries - 1u);
    queries[i / WIDTH * STRIDE + i % WIDTH] = parameters.scale * q_at(batch * parameters.queries + row, i % WIDTH);
  }
  var largest = vec4f(-infinity());
  var total = vec4f();
  @repeat(c, columns) @repeat(i, 4) var sum${c}_$i = vec4f();
  for (var first_key = 0u; first_key < parameters.keys; first_key += KEYS) {
    workgroupBarrier();  // the values of the tile before have been read
    for (var i = local; i < KEYS * WIDTH; i += 64u) {
      let key = min(first_key + i / WIDTH, parameters.keys - 1u);
      tile[i / WIDTH * STRIDE + i % WIDTH] = k_at(batch * parameters.keys + key, i % WIDTH);
    }
    workgroupBarrier();
    @repeat(j, own) var score$j = vec4f();
    for (var w = 0u; w < WIDTH; w++) {
      @repeat(i, 4) let row$i = queries[(4u * block + ${i}u) * STRIDE + w];
      @repeat(j, own) let key$j = tile[(lane + 8u * ${j}u) * STRIDE + w];
      @repeat(j, own) score$j += vec4f(dot(row0, key$j), dot(row1, key$j), dot(row2, key$j), dot(row3, key$j));
    }
    @repeat(j, own) score$j = masked(score$j, batch, rows, first_key + lane + 8u * ${j}u);
    @repeat(j, own) scores[(lane + 8u * ${j}u) * 8u + block] = score$j;
    workgroupBarrier();
    var next = largest;
    for (var key = 0u; key < KEYS; key += 4u) {
      @repeat(n, 4) next = larger(next, scores[(key + ${n}u) * 8u + block]);
    }
    // Without a key so far, the largest score is -infinity, from which nothing can be subtracted.
    let origin = select(next, vec4f(), without_keys(next));
    let kept = exponentials(largest - origin);
    largest = next;
    workgroupBarrier();  // the scores have been read
    @repeat(j, own) scores[(lane + 8u * ${j}u) * 8u + block] = exponentials(score$j - origin);
    for (var i = local; i < KEYS * SIZE; i += 64u) {
      let key = first_key + i / SIZE;
      let value = v_at(batch * parameters.keys + min(key, parameters.keys - 1u), i % SIZE);
      tile[i] = select(vec4f(), value, key < parameters.keys);
    }
    workgroupBarrier();
    total *= kept;
    @repeat(c, columns) @repeat(i, 4) sum${c}_$i *= kept[$i];
    for (var key = 0u; key < KEYS; key++) {
      let weights = scores[key * 8u + block];
      total += weights;
      @repeat(c, columns) let value$c = tile[key * SIZE + min(lane + 8u * ${c}u, SIZE - 1u)];
      @repeat(c, columns) @repeat(i, 4) sum${c}_$i += weights[$i] * value$c;
    }
  }
  let has_keys = !without_keys(largest);
  @repeat(c, columns) @repeat(i, 4) store(batch, first_row + 4u * block + ${i}u, lane + 8u * ${c}u, select(vec4f(), sum${c}_$i / total[$i], has_keys[$i]));
}
