// Attention of heads that are so small that all weights of some queries stay in the first cache.
//
// The lanes of vectors are queries, so that the largest scores, their exponentials and their sums need no steps across
// lanes. Queries, weights and results stand in blocks: of each number of a row, or of each key, those of SIDE queries.
#include <math.h>

#include "gemm.h"
#include "vector_math.h"

#define VECTORS 2
#define SIDE (VECTORS * LANES)  // queries side by side
#if defined(__AVX512F__) || defined(__aarch64__)
#define SUMS 8  // of a block that stay in registers, of which there are 32
#else
#define SUMS 4
#endif
#define MOST_SPREAD (VECTOR_BYTES == 16 ? SUMS : 8)  // keys of eight columns that do
#define EACH_VECTOR UNROLLED for (int v = 0; v < VECTORS; v++)

typedef float eights __attribute__((vector_size(32)));  // columns of the results for keys and values

// blocks[column] = a column of `rows` rows; the last row is repeated
static void make_blocks(const float *x, int rows, int columns, float *blocks) {
    for (int i = 0; i < SIDE; i += 4) {
        const float *some[4];
        for (int j = 0; j < 4; j++) some[j] = x + (ptrdiff_t)smaller(i + j, rows - 1) * columns;
        interleave(some, columns, blocks + i, SIDE);
    }
}

// The opposite: `rows` rows of columns, a multiple of four.
static void make_rows(const float *blocks, int rows, int columns, float *x) {
    for (int j = 0; j < columns; j += 4, blocks += 4 * SIDE) {
        const float *some[4] = {blocks, blocks + SIDE, blocks + 2 * SIDE, blocks + 3 * SIDE};
        interleave(some, rows, x + j, columns);
    }
}

// out[a] = the sum of blocks[b] * factors[a * outer + b * inner], for some a
static inline __attribute__((always_inline)) void combine_some(
    const float *blocks, const float *factors, ptrdiff_t outer, ptrdiff_t inner, float *out,
    const int some, int count) {
    floats sums[SUMS][VECTORS] = {};
    for (int b = 0; b < count; b++, blocks += SIDE, factors += inner) {
        floats x[VECTORS];
        EACH_VECTOR x[v] = load(blocks + v * LANES);
        UNROLLED for (int a = 0; a < some; a++) {
            const floats factor = splat(factors[a * outer]);
            EACH_VECTOR sums[a][v] = multiply_add(x[v], factor, sums[a][v]);
        }
    }
    UNROLLED for (int a = 0; a < some; a++) EACH_VECTOR
        store(out + a * SIDE + v * LANES, sums[a][v]);
}

static void combine(const float *blocks, const float *factors, ptrdiff_t outer, ptrdiff_t inner,
                    float *out, int outs, int count) {
    int a = 0;
    for (; a + SUMS <= outs; a += SUMS)
        combine_some(blocks, factors + a * outer, outer, inner, out + a * SIDE, SUMS, count);
    for (; a < outs; a++)
        combine_some(blocks, factors + a * outer, outer, inner, out + a * SIDE, 1, count);
}

// out[key] = or += the sum of weights[key][i] * x[i], for some keys, and one or two times eight columns
static inline __attribute__((always_inline)) void spread_some(const float *weights, const float *x,
                                                              float *out, const int some,
                                                              const int parts, int rows,
                                                              int columns, int accumulate) {
    eights sums[MOST_SPREAD][2] = {};
    if (accumulate)
        UNROLLED for (int a = 0; a < some; a++)
            memcpy(sums[a], out + (ptrdiff_t)a * columns, parts * sizeof(eights));
    for (int i = 0; i < rows; i++, x += columns) {
        eights row[2];
        memcpy(row, x, parts * sizeof(eights));
        UNROLLED for (int a = 0; a < some; a++) {
            const eights factor = weights[a * SIDE + i] - (eights){};
            UNROLLED for (int part = 0; part < parts; part++)
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
                sums[a][part] = __builtin_elementwise_fma(row[part], factor, sums[a][part]);
#else
                sums[a][part] += row[part] * factor;
#endif
        }
    }
    UNROLLED for (int a = 0; a < some; a++)
        memcpy(out + (ptrdiff_t)a * columns, sums[a], parts * sizeof(eights));
}

static void spread(const float *weights, const float *x, float *out, int keys, int rows,
                   int columns, int accumulate) {
    for (int j = 0, parts; j < columns; j += 8 * parts) {
        parts = VECTOR_BYTES >= 32 && j + 16 <= columns ? 2 : 1;
        const int most = parts == 2 ? SUMS : MOST_SPREAD;
        for (int key = 0, some; key < keys; key += some) {
            some = key + most <= keys ? most : 1;
            const float *from = weights + key * SIDE;
            float *to = out + (ptrdiff_t)key * columns + j;
            if (parts == 2 && some > 1)
                spread_some(from, x + j, to, SUMS, 2, rows, columns, accumulate);
            else if (parts == 2)
                spread_some(from, x + j, to, 1, 2, rows, columns, accumulate);
            else if (some > 1)
                spread_some(from, x + j, to, MOST_SPREAD, 1, rows, columns, accumulate);
            else
                spread_some(from, x + j, to, 1, 1, rows, columns, accumulate);
        }
    }
}

// exp(x) of differences from the largest; 0 where it has fewer digits than others.
static inline floats exp_of_difference(floats x) {
    const floats shifted = shifted_exponent(x);
    const floats y = exp_times(x, shifted, shifted - splat(MAGIC), 0);
    return choose(x < splat(-87.f), (floats){}, y);
}

// Make weights of scores, not yet divided by their sums, whose reciprocals are `factors`.
static void weigh(float *scores, const float *mask, float scale, int keys, float *factors) {
    floats peaks[VECTORS], sums[VECTORS] = {};
    EACH_VECTOR peaks[v] = splat(-INFINITY);
    for (int key = 0; key < keys; key++) EACH_VECTOR {
        const int at = key * SIDE + v * LANES;
        const floats score = multiply_add(load(scores + at), splat(scale), load(mask + at));
        peaks[v] = larger(peaks[v], score);
        store(scores + at, score);
    }
    EACH_VECTOR peaks[v] = choose(peaks[v] == splat(-INFINITY), (floats){}, peaks[v]);  // no key
    for (int key = 0; key < keys; key++) EACH_VECTOR {
        const int at = key * SIDE + v * LANES;
        const floats weight = exp_of_difference(load(scores + at) - peaks[v]);
        sums[v] += weight;
        store(scores + at, weight);
    }
    EACH_VECTOR store(factors + v * LANES, 1 / choose(sums[v] == 0, splat(1), sums[v]));
}

// blocks[block][key] = the numbers of a mask that are added to the scores of some queries
static void make_mask(const float *mask, int mask_row, int mask_column, int queries, int keys,
                      float *blocks) {
    for (int first = 0; first < queries; first += SIDE)
        for (int key = 0; key < keys; key++, blocks += SIDE)
            for (int i = 0; i < SIDE; i++)
                blocks[i] = mask[(ptrdiff_t)smaller(first + i, queries - 1) * mask_row +
                                 (ptrdiff_t)key * mask_column];
}

// Widths and sizes are multiples of eight. The scratch memory begins with blocks of the mask.
KERNEL(attention_of_small_heads_float32)(const float *q, const float *k, const float *v,
                                         const float *mask, float *out, int batches, int queries,
                                         int keys, int width, int size, int mask_row,
                                         int mask_column, ptrdiff_t mask_step, float scale,
                                         float *scratch) {
    const ptrdiff_t masks = (ptrdiff_t)round_up(queries, SIDE) * keys;
    float *scores = scratch + masks, *some = scores + keys * SIDE, *sums = some + width * SIDE;
    for (int batch = 0; batch < batches; batch++) {
        if (batch == 0 || mask_step)
            make_mask(mask, mask_row, mask_column, queries, keys, scratch);
        for (int first = 0; first < queries; first += SIDE) {
            const int rows = smaller(SIDE, queries - first);
            float factors[SIDE];
            make_blocks(q + (ptrdiff_t)first * width, rows, width, some);
            combine(some, k, width, 1, scores, keys, width);
            weigh(scores, scratch + (ptrdiff_t)first * keys, scale, keys, factors);
            combine(scores, v, 1, size, sums, size, keys);
            for (int j = 0; j < size; j++)
                for (int i = 0; i < SIDE; i++) sums[j * SIDE + i] *= factors[i];
            make_rows(sums, rows, size, out + (ptrdiff_t)first * size);
        }
        q += (ptrdiff_t)queries * width, k += (ptrdiff_t)keys * width;
        v += (ptrdiff_t)keys * size, out += (ptrdiff_t)queries * size, mask += mask_step;
    }
}

KERNEL(attention_of_small_heads_gradient_float32)(
    const float *dy, const float *q, const float *k, const float *v, const float *mask, float *dq,
    float *dk, float *dv, int batches, int queries, int keys, int width, int size, int mask_row,
    int mask_column, ptrdiff_t mask_step, float scale, float *scratch) {
    const ptrdiff_t masks = (ptrdiff_t)round_up(queries, SIDE) * keys;
    float *weights = scratch + masks, *slopes = weights + keys * SIDE;
    float *some = slopes + keys * SIDE, *from = some + width * SIDE;
    for (int batch = 0; batch < batches; batch++) {
        if (batch == 0 || mask_step)
            make_mask(mask, mask_row, mask_column, queries, keys, scratch);
        for (int first = 0; first < queries; first += SIDE) {
            const int rows = smaller(SIDE, queries - first);
            const float *q_rows = q + (ptrdiff_t)first * width;
            const float *dy_rows = dy + (ptrdiff_t)first * size;
            float factors[SIDE], averages[SIDE] = {};
            make_blocks(q_rows, rows, width, some);
            make_blocks(dy_rows, rows, size, from);
            combine(some, k, width, 1, weights, keys, width);
            combine(from, v, size, 1, slopes, keys, size);
            weigh(weights, scratch + (ptrdiff_t)first * keys, scale, keys, factors);
            for (int key = 0; key < keys; key++)
                for (int i = 0; i < SIDE; i++) {
                    weights[key * SIDE + i] *= factors[i];
                    averages[i] += weights[key * SIDE + i] * slopes[key * SIDE + i];
                }
            for (int key = 0; key < keys; key++)
                for (int i = 0; i < SIDE; i++)
                    slopes[key * SIDE + i] = scale * weights[key * SIDE + i] *
                                             (slopes[key * SIDE + i] - averages[i]);
            combine(slopes, k, 1, width, some, width, keys);
            make_rows(some, rows, width, dq + (ptrdiff_t)first * width);
            spread(slopes, q_rows, dk, keys, rows, width, first > 0);
            spread(weights, dy_rows, dv, keys, rows, size, first > 0);
        }
        q += (ptrdiff_t)queries * width, dq += (ptrdiff_t)queries * width;
        k += (ptrdiff_t)keys * width, dk += (ptrdiff_t)keys * width;
        v += (ptrdiff_t)keys * size, dv += (ptrdiff_t)keys * size;
        dy += (ptrdiff_t)queries * size, mask += mask_step;
    }
}
