// Attention: averages of values, weighted by how well keys match queries.
//
// The weights of a few queries exist at a time. Forward, they meet a few keys at a time: where the
// largest score grows, the sums so far are scaled (Milakov and Gimelshein, 2018; Dao and others, 2022).
#include <math.h>

#include "double_math.h"
#include "gemm.h"
#include "vector_math.h"

#define QUERIES 64  // whose weights exist at a time
#define KEYS 512
#define SIDE 16  // numbers that are compared or summed side by side, in vectors of any width

// x[i] = exp(x[i] - peak); the sum of them
static double exponentials_float32(float *x, int count, float peak) {
    double sum = 0;
    int i = 0;
    while (i + 2 * LANES <= count) {
        const int last = smaller(i + 32 * LANES, count);  // summed in single precision
        floats total = {0}, other = {0};
        for (; i + 2 * LANES <= last; i += 2 * LANES) {
            const floats y = exp_floats(load(x + i) - peak);
            const floats z = exp_floats(load(x + i + LANES) - peak);
            store(x + i, y);
            store(x + i + LANES, z);
            total += y, other += z;
        }
        sum += sum_lanes(total + other);
    }
    while (i < count) {
        const int rest = smaller(LANES, count - i);
        float lanes[LANES] = {0};
        memcpy(lanes, x + i, rest * sizeof(float));
        store(lanes, exp_floats(load(lanes) - peak));
        for (int j = 0; j < rest; j++) sum += x[i++] = lanes[j];
    }
    return sum;
}

static double exponentials_float64(double *x, int count, double peak) {
    double sum = 0;
    for (int i = 0; i < count; i += 2) {
        const doubles y = exp_doubles((doubles){x[i], x[smaller(i + 1, count - 1)]} - peak);
        sum += x[i] = y[0];
        if (i + 1 < count) sum += x[i + 1] = y[1];
    }
    return sum;
}

// The sums of all products are 0 without a width, for which products are not made.
#define ATTENTION(dtype, type, products, matrix)                                                   \
    static void multiply_##dtype(matrix a, matrix b, type *out, int rows, int columns, int depth,  \
                                 int accumulate) {                                                 \
        if (depth > 0)                                                                             \
            products(a, b, out, rows, columns, depth, accumulate);                                 \
        else if (!accumulate)                                                                      \
            memset(out, 0, (size_t)rows * columns * sizeof *out);                                  \
    }                                                                                              \
    /* The scores of some queries and keys, and the largest of each query. */                      \
    static void scores_##dtype(const type *q, const type *k, const type *mask, int mask_row,       \
                               int mask_column, type scale, type *scores, int queries, int keys,   \
                               int width, type *peaks) {                                           \
        multiply_##dtype((matrix){q, width, 1}, (matrix){k, 1, width}, scores, queries, keys,      \
                         width, 0);                                                                \
        for (int i = 0; i < queries; i++, scores += keys) {                                        \
            const type *row = mask + (ptrdiff_t)i * mask_row, constant = *row;                     \
            type peak = -INFINITY, tops[SIDE];                                                     \
            if (mask_column)                                                                       \
                for (int j = 0; j < keys; j++) scores[j] = scores[j] * scale + row[j];             \
            else                                                                                   \
                for (int j = 0; j < keys; j++) scores[j] = scores[j] * scale + constant;           \
            for (int j = 0; j < SIDE; j++) tops[j] = -INFINITY;                                    \
            int first = 0;                                                                         \
            for (; first + SIDE <= keys; first += SIDE)                                            \
                for (int j = 0; j < SIDE; j++)                                                     \
                    tops[j] = scores[first + j] > tops[j] ? scores[first + j] : tops[j];           \
            for (; first < keys; first++) peak = scores[first] > peak ? scores[first] : peak;      \
            for (int j = 0; j < SIDE; j++) peak = tops[j] > peak ? tops[j] : peak;                 \
            peaks[i] = peak;                                                                       \
        }                                                                                          \
    }                                                                                              \
    /* The mask steps by `mask_row` and `mask_column`, which are 0 where it is repeated. */        \
    KERNEL(attention_##dtype)(const type *q, const type *k, const type *v, const type *mask,       \
                              type *out, int batches, int queries, int keys, int width, int size,  \
                              int mask_row, int mask_column, ptrdiff_t mask_step, type scale,      \
                              type *scores) {                                                      \
        for (; batches > 0; batches--) {                                                           \
            for (int first = 0, n; first < queries; first += n) {                                  \
                n = smaller(QUERIES, queries - first);                                             \
                type *y = out + (ptrdiff_t)first * size, peaks[QUERIES], tops[QUERIES];            \
                double totals[QUERIES] = {0};                                                      \
                for (int i = 0; i < n; i++) tops[i] = -INFINITY;                                   \
                for (int key = 0, m; key < keys; key += m) {                                       \
                    m = smaller(KEYS, keys - key);                                                 \
                    const type *some = mask + (ptrdiff_t)first * mask_row + key * mask_column;     \
                    scores_##dtype(q + (ptrdiff_t)first * width, k + (ptrdiff_t)key * width, some, \
                                   mask_row, mask_column, scale, scores, n, m, width, peaks);      \
                    for (int i = 0; i < n; i++) {                                                  \
                        const type top = peaks[i] > tops[i] ? peaks[i] : tops[i];                  \
                        const type least = top == -(type)INFINITY ? 0 : top; /* no key so far */   \
                        const type shrunk = key ? (type)exp((double)tops[i] - least) : 0;                        \
                        totals[i] = totals[i] * shrunk +                                           \
                                    exponentials_##dtype(scores + (ptrdiff_t)i * m, m, least);     \
                        if (key && shrunk != 1)                                                    \
                            for (int j = 0; j < size; j++) y[i * size + j] *= shrunk;              \
                        tops[i] = top;                                                             \
                    }                                                                              \
                    multiply_##dtype((matrix){scores, m, 1},                                       \
                                     (matrix){v + (ptrdiff_t)key * size, size, 1}, y, n, size, m,  \
                                     key > 0);                                                     \
                }                                                                                  \
                for (int i = 0; i < n; i++) {                                                      \
                    const type factor = totals[i] == 0 ? 1 : 1 / totals[i];                        \
                    for (int j = 0; j < size; j++) y[i * size + j] *= factor;                      \
                }                                                                                  \
            }                                                                                      \
            q += (ptrdiff_t)queries * width, k += (ptrdiff_t)keys * width;                         \
            v += (ptrdiff_t)keys * size, out += (ptrdiff_t)queries * size, mask += mask_step;      \
        }                                                                                          \
    }                                                                                              \
    /* `weights` has room for the weights of `most` queries, twice. */                             \
    KERNEL(attention_gradient_##dtype)(                                                            \
        const type *dy, const type *q, const type *k, const type *v, const type *mask, type *dq,   \
        type *dk, type *dv, int batches, int queries, int keys, int width, int size, int mask_row, \
        int mask_column, ptrdiff_t mask_step, type scale, int most, type *weights) {               \
        type *slopes = weights + (ptrdiff_t)most * keys, peaks[QUERIES];                           \
        for (; batches > 0; batches--) {                                                           \
            for (int first = 0, n; first < queries; first += n) {                                  \
                n = smaller(most, queries - first);                                                \
                const type *some = q + (ptrdiff_t)first * width;                                   \
                const type *from = dy + (ptrdiff_t)first * size;                                   \
                scores_##dtype(some, k, mask + (ptrdiff_t)first * mask_row, mask_row, mask_column, \
                               scale, weights, n, keys, width, peaks);                             \
                multiply_##dtype((matrix){from, size, 1}, (matrix){v, 1, size}, slopes, n, keys,   \
                                 size, 0);                                                         \
                for (int i = 0; i < n; i++) {                                                      \
                    type *p = weights + (ptrdiff_t)i * keys, *s = slopes + (ptrdiff_t)i * keys;    \
                    const type peak = peaks[i] == -(type)INFINITY ? 0 : peaks[i];                  \
                    const double sum = exponentials_##dtype(p, keys, peak);                        \
                    const type factor = sum == 0 ? 1 : 1 / sum;                                    \
                    double total = 0;                                                              \
                    for (int j = 0; j < keys; j++) p[j] *= factor;                                 \
                    int whole = 0;                                                                 \
                    for (; whole + SIDE <= keys;) {                                                \
                        const int last = smaller(whole + 32 * SIDE, keys);                         \
                        type sums[SIDE] = {0};                                                     \
                        for (; whole + SIDE <= last; whole += SIDE)                                \
                            for (int j = 0; j < SIDE; j++)                                         \
                                sums[j] += p[whole + j] * s[whole + j];                            \
                        for (int j = 0; j < SIDE; j++) total += sums[j];                           \
                    }                                                                              \
                    for (; whole < keys; whole++) total += p[whole] * s[whole];                    \
                    const type average = total;                                                    \
                    for (int j = 0; j < keys; j++) s[j] = scale * p[j] * (s[j] - average);         \
                }                                                                                  \
                multiply_##dtype((matrix){slopes, keys, 1}, (matrix){k, width, 1},                 \
                                 dq + (ptrdiff_t)first * width, n, width, keys, 0);                \
                multiply_##dtype((matrix){slopes, 1, keys}, (matrix){some, width, 1}, dk, keys,    \
                                 width, n, first > 0);                                             \
                multiply_##dtype((matrix){weights, 1, keys}, (matrix){from, size, 1}, dv, keys,    \
                                 size, n, first > 0);                                              \
            }                                                                                      \
            q += (ptrdiff_t)queries * width, dq += (ptrdiff_t)queries * width;                     \
            k += (ptrdiff_t)keys * width, dk += (ptrdiff_t)keys * width;                           \
            v += (ptrdiff_t)keys * size, dv += (ptrdiff_t)keys * size;                             \
            dy += (ptrdiff_t)queries * size, mask += mask_step;                                    \
        }                                                                                          \
    }
ATTENTION(float32, float, multiply_matrices, matrix)
ATTENTION(float64, double, multiply_doubles, matrix_of_doubles)
