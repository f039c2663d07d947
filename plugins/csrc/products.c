// Products of matrices of floats in WebAssembly; linalg.c has those for processors.
//
// Compilers of WebAssembly keep the sums that a loop carries in memory as soon as there are many, and
// then each addition waits for the one before. So the innermost loop carries none: it goes down the
// rows of a, whose sums are in the L1 cache, and four rows by eight columns of b stay in registers.
#include <math.h>

#include "gemm.h"

#define BLOCK_DEPTH 512  // a packed block of a stays in the L2 cache
#define BLOCK_COLUMNS 1024

#define REPEATED(x, lane) __builtin_shufflevector(x, x, lane, lane, lane, lane)

// target (rows x SLAB) = source + a (rows x GROUP, dense) * b (GROUP x SLAB), which `finish` may change. One vector of
// columns is as much as the last slab needs if there are few. Eight rows are one round of the loop: the counter and the
// addresses of a round compete with the products for the units of the processor.
#define EACH_ROW(vectors, source, target, advance, finish)                                         \
    quad cells[GROUP][vectors];                                                                    \
    for (int k = 0; k < GROUP; k++)                                                                \
        for (int j = 0; j < vectors; j++) cells[k][j] = load_quad(b + k * b_row + 4 * j);          \
    _Pragma("clang loop unroll_count(8)")                                                          \
    for (int i = 0; i < rows; i++, a += GROUP, advance) {                                          \
        const quad x = load_quad(a);                                                               \
        const quad factors[GROUP] = {REPEATED(x, 0), REPEATED(x, 1), REPEATED(x, 2),               \
                                     REPEATED(x, 3)};                                              \
        for (int j = 0; j < vectors; j++) {                                                        \
            quad sum = load_quad(source + 4 * j);                                                  \
            for (int k = 0; k < GROUP; k++) sum = multiply_add(factors[k], cells[k][j], sum);      \
            finish;                                                                                \
            store_quad(target + 4 * j, sum);                                                       \
        }                                                                                          \
    }

// sums += a * b, for some groups, for slabs and for narrow ones of one vector. Most steps of a deep product are such.
// The distance of rows is known, so that the instructions have the addresses of eight.
ONCE static void add_products(const float *groups, ptrdiff_t a_group, const float *b, ptrdiff_t b_row, float *sums,
                              int rows, int count) {
    for (; count > 0; count--, groups += a_group, b += GROUP * b_row) {
        const float *a = groups;
        float *line = sums;
        EACH_ROW(2, line, line, line += SLAB, (void)0)
    }
}
ONCE static void add_narrow_products(const float *a, const float *b, ptrdiff_t b_row, float *sums,
                                     int rows) {
    EACH_ROW(1, sums, sums, sums += 4, (void)0)
}

// to = from + a * b, perhaps plus a bias and within limits: the first and the last step.
static void start_products(const float *a, const float *b, ptrdiff_t b_row, const float *from,
                           ptrdiff_t from_row, float *to, ptrdiff_t to_row, int rows) {
    EACH_ROW(2, from, to, (from += from_row, to += to_row), (void)0)
}
static void finish_products(const float *a, const float *b, ptrdiff_t b_row, const float *from,
                            ptrdiff_t from_row, float *to, ptrdiff_t to_row, int rows,
                            const float *bias, float least, float most) {
    EACH_ROW(2, from, to, (from += from_row, to += to_row),
             sum = limited(sum + load_quad(bias + 4 * j), least, most))
}

static const float no_bias[SLAB] = {-0.f, -0.f, -0.f, -0.f, -0.f, -0.f, -0.f, -0.f};

static inline int has_epilogue(const float *bias, float least, float most) {
    return bias != no_bias || least > -INFINITY || most < INFINITY;
}

// Copy rows x columns of b, with zeros up to GROUP x `width`.
SHORT_LOOPS static void copy_cells(const float *b, ptrdiff_t b_row, int rows, int columns, int width,
                                   float *cells) {
    for (int i = 0; i < GROUP; i++)
        for (int j = 0; j < width; j++)
            cells[i * width + j] = i < rows && j < columns ? b[i * b_row + j] : 0;
}

// to (rows x SLAB) = from + a * b + bias, within limits. The bias comes last, as if it were added to a finished product.
static void multiply_slab(const float *a, ptrdiff_t a_group, const float *b, ptrdiff_t b_row, const float *from,
                          ptrdiff_t from_row, float *to, ptrdiff_t to_row, int rows, int depth,
                          const float *bias, float least, float most) {
    float sums[MOST_SUMS * SLAB], cells[GROUP * SLAB];
    for (int k = 0; k < depth; k += GROUP, a += a_group, b += GROUP * b_row) {
        const int between = from == sums ? (depth - 1 - k) / GROUP : 0;  // the first and the last
        add_products(a, a_group, b, b_row, sums, rows, between);
        k += between * GROUP, a += between * a_group, b += between * GROUP * b_row;
        const int is_last = k + GROUP >= depth;
        if (k + GROUP > depth) {
            copy_cells(b, b_row, depth - k, SLAB, SLAB, cells);
            b = cells, b_row = SLAB;
        }
        if (is_last && has_epilogue(bias, least, most))
            finish_products(a, b, b_row, from, from_row, to, to_row, rows, bias, least, most);
        else
            start_products(a, b, b_row, from, from_row, is_last ? to : sums, is_last ? to_row : SLAB,
                           rows);
        from = sums, from_row = SLAB;
    }
}

// The same for the columns of b behind whole slabs: out (rows x columns) = or += a * b + bias, within limits.
SHORT_LOOPS ONCE static void multiply_edge(const float *a, ptrdiff_t a_group, const float *b, ptrdiff_t b_row,
                                           float *out, ptrdiff_t stride, int rows, int columns, int depth,
                                           int accumulate, const float *bias, float least, float most) {
    const int width = columns > 4 ? SLAB : 4;
    float sums[MOST_SUMS * SLAB], cells[GROUP * SLAB], constants[SLAB] = {};
    for (int j = 0; j < columns; j++) constants[j] = bias[j];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j++)
            sums[i * width + j] = accumulate && j < columns ? out[i * stride + j] : 0;
    for (int k = 0; k < depth; k += GROUP, a += a_group, b += GROUP * b_row) {
        copy_cells(b, b_row, smaller(GROUP, depth - k), columns, width, cells);
        if (columns > 4)
            add_products(a, a_group, cells, width, sums, rows, 1);
        else
            add_narrow_products(a, cells, width, sums, rows);
    }
    for (int i = 0; i < rows; i++) {
        float *line = sums + i * width;
        for (int j = 0; j < width; j += 4)
            store_quad(line + j, limited(load_quad(line + j) + load_quad(constants + j), least, most));
        for (int j = 0; j < columns; j++) out[i * stride + j] = line[j];
    }
}

void multiply_groups(const float *a, ptrdiff_t a_group, const float *b, ptrdiff_t b_row, ptrdiff_t b_slab, float *out,
                     ptrdiff_t stride, int rows, int columns, int depth, int accumulate,
                     const float *bias, float least, float most) {
    const float zeros[SLAB] = {};
    for (int left = 0; left < columns; left += SLAB, b += b_slab) {
        const float *constants = bias ? bias + left : no_bias;
        float *to = out + left;
        if (columns - left < SLAB)
            multiply_edge(a, a_group, b, b_row, to, stride, rows, columns - left, depth, accumulate, constants,
                          least, most);
        else
            multiply_slab(a, a_group, b, b_row, accumulate ? to : zeros, accumulate ? stride : 0, to, stride,
                          rows, depth, constants, least, most);
    }
}

void multiply_into_slabs(const float *a, const float *b, float *out, int rows, int all_rows, int columns,
                         int depth) {
    for (int left = 0; left < columns; left += SLAB, out += all_rows * SLAB)
        multiply_groups(a, all_rows * GROUP, b + left, columns, 0, out, SLAB, rows, smaller(SLAB, columns - left),
                        depth, 0, NULL, -INFINITY, INFINITY);
}

// The last numbers of a row, which end before `end`, with zeros behind them; there are four before `end`.
static inline quad load_last(const float *end, int count) {
    const int8_t shift = 4 * (GROUP - count);
    const quad_of_bytes places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (quad)__builtin_wasm_swizzle_i8x16((quad_of_bytes)load_quad(end - GROUP), places + shift);
}

// Pack rows x depth of a, with zeros behind each row up to whole groups.
static void pack_groups(matrix a, int rows, int depth, float *packed) {
    for (int k = 0; k < depth; k += GROUP) {
        const float *x = a.data + k * a.column_stride;
        const int length = smaller(GROUP, depth - k);
        int i = 0;
        if (length == GROUP && a.column_stride == 1) {
            for (; i < rows; i++, packed += GROUP) store_quad(packed, load_quad(x + i * a.row_stride));
        } else if (k && a.column_stride == 1) {
            for (; i < rows; i++, packed += GROUP)
                store_quad(packed, load_last(x + i * a.row_stride + length, length));
        } else if (a.row_stride == 1 && rows >= 4) {
            for (; i < rows; i += 4) {  // the last four again with some before them, if fewer are left
                const int first = smaller(i, rows - 4);
                quad lines[GROUP] = {};
                for (int l = 0; l < length; l++) lines[l] = load_quad(x + l * a.column_stride + first);
                store_transposed(lines, packed + first * GROUP, GROUP);
            }
            packed += rows * GROUP;
        }
        for (; i < rows; i++, packed += GROUP)
            for (int l = 0; l < GROUP; l++)
                packed[l] = l < length ? x[i * a.row_stride + l * a.column_stride] : 0;
    }
}

// Pack depth x columns of b slab by slab; a partial slab has zeros behind it.
static void pack_slabs(matrix b, int depth, int columns, float *packed) {
    for (int left = 0; left < columns; left += SLAB, packed += depth * SLAB) {
        const float *x = b.data + left * b.column_stride;
        const int width = smaller(SLAB, columns - left);
        if (width == SLAB && b.row_stride == 1) {
            for (int j = 0; j < SLAB; j += 4) {
                const float *first = x + j * b.column_stride;
                const float *const sources[4] = {first, first + b.column_stride,
                                                 first + 2 * b.column_stride,
                                                 first + 3 * b.column_stride};
                interleave(sources, depth, packed + j, SLAB);
            }
            continue;
        }
        for (int k = 0; k < depth; k++)
            for (int j = 0; j < SLAB; j++)
                packed[k * SLAB + j] = j < width ? x[k * b.row_stride + j * b.column_stride] : 0;
    }
}

// The same for few rows of whole groups, and columns of whole slabs. All of b is read in its order, because
// that takes longer than the products: the processor sees it coming.
#define FEW 4
static void multiply_few(matrix a, const float *b, ptrdiff_t b_row, float *out, int rows, int columns,
                         int depth, int accumulate, const float *bias, float least, float most) {
    for (int i = 0; i < rows && !accumulate; i++)
        for (int j = 0; j < columns; j++) out[i * columns + j] = 0;
    for (int k = 0; k < depth; k += GROUP, b += GROUP * b_row)
        for (int i = 0; i < rows; i++) {
            quad factors[GROUP];
            UNROLLED for (int l = 0; l < GROUP; l++)
                factors[l] = a.data[i * a.row_stride + (k + l) * a.column_stride] - (quad){};
            for (int j = 0; j < columns; j += SLAB)
                UNROLLED for (int v = 0; v < SLAB; v += 4) {
                    quad sum = load_quad(out + i * columns + j + v);
                    UNROLLED for (int l = 0; l < GROUP; l++)
                        sum = multiply_add(factors[l], load_quad(b + l * b_row + j + v), sum);
                    store_quad(out + i * columns + j + v, sum);
                }
        }
    for (int i = 0; i < rows; i++, out += columns)
        for (int j = 0; j < columns; j += 4)
            store_quad(out + j, limited(load_quad(out + j) + load_quad(bias ? bias + j : no_bias),
                                        least, most));
}

void multiply_within(matrix a, matrix b, float *out, int rows, int columns, int depth,
                     int accumulate, const float *bias, float least, float most) {
    float packed_a[MOST_ROWS * BLOCK_DEPTH], packed_b[BLOCK_DEPTH * BLOCK_COLUMNS];
    const int blocks = 1 + (depth - 1) / BLOCK_DEPTH;  // of about the same length
    const int longest = round_up((depth + blocks - 1) / blocks, GROUP);
    const int parts = 1 + (rows - 1) / MOST_ROWS;
    const int highest = round_up((rows + parts - 1) / parts, 8);
    const int has_rows = b.column_stride == 1;  // which are read where they are
    if (has_rows && rows <= FEW && columns % SLAB == 0 && depth % GROUP == 0) {
        multiply_few(a, b.data, b.row_stride, out, rows, columns, depth, accumulate, bias, least, most);
        return;
    }
    const int widest = has_rows ? columns : BLOCK_COLUMNS;
    for (int left = 0; left < columns; left += widest) {
        const int width = smaller(widest, columns - left);
        for (int k = 0; k < depth; k += longest) {
            const int length = smaller(longest, depth - k);
            const matrix cells = {b.data + k * b.row_stride + left * b.column_stride, b.row_stride,
                                  b.column_stride};
            if (!has_rows) pack_slabs(cells, length, width, packed_b);
            for (int i = 0; i < rows; i += highest) {
                const int height = smaller(highest, rows - i);
                const matrix lines = {a.data + i * a.row_stride + k * a.column_stride, a.row_stride,
                                      a.column_stride};
                pack_groups(lines, height, length, packed_a);
                float *target = out + (ptrdiff_t)i * columns + left;
                const int is_last = k + length == depth;
                multiply_groups(packed_a, height * GROUP, has_rows ? cells.data : packed_b,
                                has_rows ? b.row_stride : SLAB,
                                has_rows ? SLAB : (ptrdiff_t)length * SLAB, target, columns, height,
                                width, length, accumulate || k > 0,
                                bias && is_last ? bias + left : NULL,
                                is_last ? least : -INFINITY, is_last ? most : INFINITY);
            }
        }
    }
}

void multiply_matrices(matrix a, matrix b, float *out, int rows, int columns, int depth,
                       int accumulate) {
    multiply_within(a, b, out, rows, columns, depth, accumulate, NULL, -INFINITY, INFINITY);
}

// ---- float64: the same with slabs of four columns ----

#define DOUBLE_SLAB 4
#define DOUBLE_ROWS 64
#define DOUBLE_DEPTH 256

// sums (rows x DOUBLE_SLAB) += a (rows x GROUP, packed) * b (GROUP x DOUBLE_SLAB). Pairs of a are read whole: wasmtime loads
// a number that it repeats into another kind of register first.
#define REPEATED_OF_PAIR(x, lane) __builtin_shufflevector(x, x, lane, lane)
static void add_double_products(const double *a, const double *b, ptrdiff_t b_row, double *sums,
                                int rows) {
    doubles cells[GROUP][2];
    for (int k = 0; k < GROUP; k++) memcpy(cells[k], b + k * b_row, sizeof cells[k]);
    _Pragma("clang loop unroll_count(4)")
    for (int i = 0; i < rows; i++, a += GROUP, sums += DOUBLE_SLAB) {
        doubles x[2], y[2];
        memcpy(x, a, sizeof x), memcpy(y, sums, sizeof y);
        const doubles factors[GROUP] = {REPEATED_OF_PAIR(x[0], 0), REPEATED_OF_PAIR(x[0], 1),
                                        REPEATED_OF_PAIR(x[1], 0), REPEATED_OF_PAIR(x[1], 1)};
        UNROLLED for (int k = 0; k < GROUP; k++)
            UNROLLED for (int j = 0; j < 2; j++)
                y[j] = multiply_add_doubles(factors[k], cells[k][j], y[j]);
        memcpy(sums, y, sizeof y);
    }
}

// One slab: out (rows x width) = or += a block of packed rows times a block of columns.
static void multiply_double_slab(const double *a, matrix_of_doubles b, double *out, ptrdiff_t stride,
                                 int rows, int width, int depth, int accumulate) {
    double sums[DOUBLE_ROWS * DOUBLE_SLAB] = {}, cells[GROUP * DOUBLE_SLAB] = {};
    for (int k = 0; k < depth; k += GROUP, a += rows * GROUP) {
        const double *cell = b.data + k * b.row_stride;
        const int length = smaller(GROUP, depth - k);
        if (length == GROUP && width == DOUBLE_SLAB && b.column_stride == 1) {
            add_double_products(a, cell, b.row_stride, sums, rows);
            continue;
        }
        for (int l = 0; l < GROUP; l++)
            for (int j = 0; j < width; j++)
                cells[l * DOUBLE_SLAB + j] =
                    l < length ? cell[l * b.row_stride + j * b.column_stride] : 0;
        add_double_products(a, cells, DOUBLE_SLAB, sums, rows);
    }
    if (accumulate || width < DOUBLE_SLAB)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < width; j++)
                out[i * stride + j] =
                    (accumulate ? out[i * stride + j] : 0) + sums[i * DOUBLE_SLAB + j];
    else
        for (int i = 0; i < rows; i++)
            memcpy(out + i * stride, sums + i * DOUBLE_SLAB, DOUBLE_SLAB * sizeof *sums);
}

void multiply_doubles(matrix_of_doubles a, matrix_of_doubles b, double *out, int rows, int columns,
                      int depth, int accumulate) {
    double packed[DOUBLE_ROWS * DOUBLE_DEPTH];
    for (int i = 0; i < rows; i += DOUBLE_ROWS)
        for (int k = 0; k < depth; k += DOUBLE_DEPTH) {
            const int height = smaller(DOUBLE_ROWS, rows - i), length = smaller(DOUBLE_DEPTH, depth - k);
            const double *x = a.data + i * a.row_stride + k * a.column_stride;
            double *place = packed;
            for (int l = 0; l < length; l += GROUP)
                for (int r = 0; r < height; r++, place += GROUP)
                    if (a.column_stride == 1 && l + GROUP <= length)
                        memcpy(place, x + r * a.row_stride + l, GROUP * sizeof *place);
                    else
                        for (int n = 0; n < GROUP; n++)
                            place[n] = l + n < length
                                           ? x[r * a.row_stride + (l + n) * a.column_stride]
                                           : 0;
            for (int j = 0; j < columns; j += DOUBLE_SLAB)
                multiply_double_slab(packed,
                                     (matrix_of_doubles){b.data + k * b.row_stride + j * b.column_stride,
                                                         b.row_stride, b.column_stride},
                                     out + (ptrdiff_t)i * columns + j, columns, height,
                                     smaller(DOUBLE_SLAB, columns - j), length, accumulate || k > 0);
        }
}

// A single product plus a bias for each column, which may be absent, within limits.
KERNEL(matmul_within_float32)(const float *a, const float *b, float *out, int rows, int columns,
                              int depth, int a_row_stride, int a_column_stride, int b_row_stride,
                              int b_column_stride, const float *bias, float least, float most) {
    multiply_within((matrix){a, a_row_stride, a_column_stride},
                    (matrix){b, b_row_stride, b_column_stride}, out, rows, columns, depth, 0, bias,
                    least, most);
}
