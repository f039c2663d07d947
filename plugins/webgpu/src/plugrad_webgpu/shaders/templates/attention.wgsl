// output = softmax(scale q k^T + mask) v, without the matrix of weights
//
// A workgroup computes some rows and goes through the keys, some of them at a time. For each row it keeps the largest
// score so far, the sum of the exponentials of the others relative to it, and the sum of the values; where a larger
// score comes, both sums are scaled (Milakov and Gimelshein, 2018; Dao and others, 2022).
//
// Eight invocations beside each other have the same rows. Of the keys and of the vectors of values, both in blocks of
// four, an invocation has every eighth one. Queries, keys and weights lie in shared memory as the operands of a product do: a vector has four of them for one element of the
// sums. The vectors of an element are in another order than those of its neighbours, so that those who store a block
// do not wait for the same bank of memory.

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
  scale: f32,       // of scores whose weights are powers of two
}
var<immediate> parameters: Parameters;

$bindings

const LINES = ${lines}u;  // invocations below each other
const INVOCATIONS = 8u * LINES;
const ROWS = ${rows}u;    // of a workgroup, in blocks
const KEYS = ${keys}u;    // in shared memory at a time, in blocks
const WIDTH = ${width}u;  // vectors of a query
const SIZE = ${size}u;    // vectors of a value

var<workgroup> queries: array<vec4f, ${queries_length}>;
var<workgroup> tile: array<vec4f, ${tile_length}>;  // keys, then weights
var<workgroup> values: array<vec4f, ${values_length}>;  // and before them what invocations know of rows

fn q_at(row: u32, vector: u32) -> vec4f { return $q_vector; }
fn k_at(row: u32, vector: u32) -> vec4f { return $k_vector; }
fn v_at(row: u32, vector: u32) -> vec4f { return $v_vector; }

// The scores of four rows for a key, which may not exist
fn masked(score: vec4f, batch: u32, rows: vec4u, key: u32) -> vec4f {
  let known = min(key, parameters.keys - 1u);
  return select(vec4f(-infinity()), $masked, key < parameters.keys);
}

fn without_keys(largest: vec4f) -> vec4<bool> { return bitcast<vec4u>(largest) == vec4u(0xff800000u); }

// 2^x for x <= 0, by the series of exp; 0 below 2^-126, and NaN for NaN
fn powers(x: vec4f) -> vec4f {
  let bounded = max(x, vec4f(-126.0));
  let n = vec4i(bounded - 0.5);
  let r = bounded - vec4f(n);
  let high = 9.6181291e-3 + r * (1.3333558e-3 + r * (1.5403530e-4 + r * 1.5252734e-5));
  let fraction = 1.0 + r * (0.69314718 + r * (0.24022651 + r * (5.5504109e-2 + r * high)));
  let power = fraction * bitcast<vec4f>((n + 127) << vec4u(23u));
  let is_not_number = (bitcast<vec4u>(x) & vec4u(0x7fffffffu)) > vec4u(0x7f800000u);
  return select(select(power, vec4f(), x < vec4f(-126.0)), x, is_not_number);
}

fn store(batch: u32, row: u32, vector: u32, value: vec4f) {
  if (row >= parameters.queries || vector >= SIZE) { return; }
  let start = (batch * parameters.queries + row) * parameters.size + 4u * vector;
  $store
}

@compute @workgroup_size(INVOCATIONS)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) local: u32,
) {
  let index = group.y * groups.x + group.x;
  if (index >= parameters.count) { return; }
  let batch = index / parameters.row_tiles;
  let first_row = 4u * ROWS * (index % parameters.row_tiles);
  let lane = local % 8u;
  let block = local / 8u;
  @repeat(g, down) let rows$g = min(vec4u(0u, 1u, 2u, 3u) + first_row + 4u * (block + LINES * ${g}u), vec4u(parameters.queries - 1u));
  for (var i = local; i < ROWS * WIDTH; i += INVOCATIONS) {
    let step = i % WIDTH;
    let at = vec4u(0u, 1u, 2u, 3u) + first_row + i / WIDTH * 4u;
    let line = batch * parameters.queries + min(at, vec4u(parameters.queries - 1u));
    @repeat(n, 4) let line$n = parameters.scale * q_at(line[$n], step);
    @repeat(n, 4) queries[(4u * step + ${n}u) * ROWS + ((i / WIDTH) ^ (step & 7u))] = vec4f(line0[$n], line1[$n], line2[$n], line3[$n]);
  }
  @repeat(g, down) var largest$g = vec4f(-infinity());
  @repeat(g, down) var total$g = vec4f();
  @repeat(g, down) @repeat(i, 4) @repeat(c, columns) var sum${g}_${i}_$c = vec4f();
  for (var first_key = 0u; first_key < parameters.keys; first_key += 4u * KEYS) {
    workgroupBarrier();  // the tile before has been read
    for (var i = local; i < KEYS * WIDTH; i += INVOCATIONS) {
      let step = i % WIDTH;
      let at = vec4u(0u, 1u, 2u, 3u) + first_key + i / WIDTH * 4u;
      let line = batch * parameters.keys + min(at, vec4u(parameters.keys - 1u));
      @repeat(n, 4) let line$n = k_at(line[$n], step);
      @repeat(n, 4) tile[(4u * step + ${n}u) * KEYS + ((i / WIDTH) ^ (step & 7u))] = vec4f(line0[$n], line1[$n], line2[$n], line3[$n]);
    }
    workgroupBarrier();
    @repeat(g, down) @repeat(j, across) @repeat(c, 4) var score${g}_${j}_$c = vec4f();
    for (var step = 0u; step < WIDTH; step++) {
      @repeat(g, down) let row$g = 4u * step * ROWS + ((block + LINES * ${g}u) ^ (step & 7u));
      @repeat(j, across) let key$j = 4u * step * KEYS + ((lane + 8u * ${j}u) ^ (step & 7u));
      @repeat(n, 4) {
        @repeat(g, down) let q${n}_$g = queries[row$g + ${n}u * ROWS];
        @repeat(j, across) let k${n}_$j = tile[key$j + ${n}u * KEYS];
        @repeat(g, down) @repeat(j, across) @repeat(c, 4) score${g}_${j}_$c += q${n}_$g * k${n}_$j[$c];
      }
    }
    @repeat(g, down) @repeat(j, across) @repeat(c, 4) score${g}_${j}_$c = masked(score${g}_${j}_$c, batch, rows$g, first_key + 4u * (lane + 8u * ${j}u) + ${c}u);
    @repeat(g, down) {
      var own$g = vec4f(-infinity());
      @repeat(j, across) @repeat(c, 4) own$g = max(own$g, score${g}_${j}_$c);
      values[lane * ROWS + block + LINES * ${g}u] = own$g;
    }
    workgroupBarrier();
    @repeat(g, down) var next$g = largest$g;
    @repeat(n, 8) @repeat(g, down) next$g = max(next$g, values[${n}u * ROWS + block + LINES * ${g}u]);
    // Without a key so far, the largest score is -infinity, from which nothing can be subtracted.
    @repeat(g, down) let origin$g = select(next$g, vec4f(), without_keys(next$g));
    @repeat(g, down) let kept$g = powers(largest$g - origin$g);
    @repeat(g, down) largest$g = next$g;
    @repeat(g, down) total$g *= kept$g;
    @repeat(g, down) @repeat(i, 4) @repeat(c, columns) sum${g}_${i}_$c *= kept$g[$i];
    workgroupBarrier();  // the largest scores have been read
    @repeat(g, down) {
      @repeat(j, across) let place${g}_$j = 4u * (lane + 8u * ${j}u) * ROWS + ((block + LINES * ${g}u) ^ lane);
      @repeat(j, across) @repeat(c, 4) let weight${g}_${j}_$c = powers(score${g}_${j}_$c - origin$g);
      @repeat(j, across) @repeat(c, 4) total$g += weight${g}_${j}_$c;
      @repeat(j, across) @repeat(c, 4) tile[place${g}_$j + ${c}u * ROWS] = weight${g}_${j}_$c;
    }
    for (var i = local; i < 4u * KEYS * SIZE; i += INVOCATIONS) {
      let key = first_key + i / SIZE;
      let value = v_at(batch * parameters.keys + min(key, parameters.keys - 1u), i % SIZE);
      values[i] = select(vec4f(), value, key < parameters.keys);
    }
    workgroupBarrier();
    for (var step = 0u; step < KEYS; step++) {
      @repeat(g, down) let row$g = 4u * step * ROWS + ((block + LINES * ${g}u) ^ (step & 7u));
      @repeat(n, 4) {
        @repeat(g, down) let weight${n}_$g = tile[row$g + ${n}u * ROWS];
        @repeat(c, columns) let value${n}_$c = values[(4u * step + ${n}u) * SIZE + min(lane + 8u * ${c}u, SIZE - 1u)];
        @repeat(g, down) @repeat(i, 4) @repeat(c, columns) sum${g}_${i}_$c += weight${n}_$g[$i] * value${n}_$c;
      }
    }
  }
  workgroupBarrier();
  @repeat(g, down) values[lane * ROWS + block + LINES * ${g}u] = total$g;
  workgroupBarrier();
  @repeat(g, down) {
    var all$g = vec4f();
    @repeat(n, 8) all$g += values[${n}u * ROWS + block + LINES * ${g}u];
    // The largest score of a row adds 1, so the sum is 0 only without a key. NaN is not 0.
    @repeat(i, 4) @repeat(c, columns) store(batch, first_row + 4u * (block + LINES * ${g}u) + ${i}u, lane + 8u * ${c}u, select(sum${g}_${i}_$c / all$g[$i], vec4f(), all$g[$i] == 0.0));
  }
}
