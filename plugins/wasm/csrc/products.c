// Products of float32 matrices in WebAssembly; linalg.c has those for processors.
//
// Compilers of WebAssembly keep the sums that a loop carries in memory as soon as there are many, and
// then each addition waits for the one before. So the innermost loop carries none: it goes down the
// rows of a, whose sums are in the L1 cache, and four rows by eight columns of b stay in registers.
#include "gemm.h"

#define MOST_ROWS 96     // of a
#define BLOCK_DEPTH 512  // a packed block of a stays in the L2 cache
#define BLOCK_COLUMNS 1024

#define REPEATED(x, lane) __builtin_shufflevector(x, x, lane, lane, lane, lane)

// sums (rows x SLAB) += a (rows x GROUP, dense) * b (GROUP x SLAB). One vector of columns is as much as
// the last slab needs if there are few.
#define ADD_PRODUCTS(name, vectors)                                                                \
    static void name(const float *a, const float *b, ptrdiff_t b_row, float *sums, int rows) {     \
        quad cells[GROUP][vectors];                                                                \
        for (int k = 0; k < GROUP; k++)                                                            \
            for (int j = 0; j < vectors; j++) cells[k][j] = load_quad(b + k * b_row + 4 * j);      \
        for (int i = 0; i < rows; i++, a += GROUP, sums += SLAB) {                                 \
            const quad x = load_quad(a);                                                           \
            const quad factors[GROUP] = {REPEATED(x, 0), REPEATED(x, 1), REPEATED(x, 2),           \
                                         REPEATED(x, 3)};                                          \
            for (int j = 0; j < vectors; j++) {                                                    \
                quad sum = load_quad(sums + 4 * j);                                                \
                for (int k = 0; k < GROUP; k++)                                                    \
                    sum = multiply_add(factors[k], cells[k][j], sum);                              \
                store_quad(sums + 4 * j, sum);                                                     \
            }                                                                                      \
        }                                                                                          \
    }
ADD_PRODUCTS(add_products_of_four, 1)
ADD_PRODUCTS(add_products_of_eight, 2)

// The same for a part of b that is not whole.
SHORT_LOOPS ONCE static void add_edge(const float *a, const float *b, ptrdiff_t b_row, float *sums,
                                      int rows, int width, int length) {
    float edge[GROUP * SLAB] = {};
    for (int i = 0; i < length; i++)
        for (int j = 0; j < width; j++) edge[i * SLAB + j] = b[i * b_row + j];
    (width > 4 ? add_products_of_eight : add_products_of_four)(a, edge, SLAB, sums, rows);
}

// sums (rows x SLAB, dense) = a * b for `width` columns of b.
SHORT_LOOPS static void multiply_slab(const float *a, const float *b, ptrdiff_t b_row, float *sums,
                                      int rows, int width, int depth) {
    for (int i = 0; i < rows * SLAB; i += 4) store_quad(sums + i, (quad){});
    for (int k = 0; k < depth; k += GROUP, a += rows * GROUP, b += GROUP * b_row)
        if (width < SLAB || k + GROUP > depth)
            add_edge(a, b, b_row, sums, rows, width, smaller(GROUP, depth - k));
        else
            add_products_of_eight(a, b, b_row, sums, rows);
}

// out (rows x columns, row stride `stride`) = a * b, or += it, for MOST_ROWS rows at most. Rows of b are
// `b_row` apart, and SLAB columns are `b_slab` behind those before them.
static void multiply_groups(const float *a, const float *b, ptrdiff_t b_row, ptrdiff_t b_slab,
                            float *out, ptrdiff_t stride, int rows, int columns, int depth,
                            int accumulate) {
    float sums[MOST_ROWS * SLAB];
    for (int left = 0; left < columns; left += SLAB, b += b_slab) {
        const int width = smaller(SLAB, columns - left);
        multiply_slab(a, b, b_row, sums, rows, width, depth);
        for (int i = 0; i < rows; i++) {
            float *target = out + i * stride + left, *row = sums + i * SLAB;
            if (accumulate)
                for (int j = 0; j < width; j++) row[j] += target[j];
            if (width == SLAB) {
                store_quad(target, load_quad(row));
                store_quad(target + 4, load_quad(row + 4));
            } else {
                memcpy(target, row, width * sizeof *row);
            }
        }
    }
}

void multiply_into_slabs(const float *a, const float *b, float *out, int rows, int columns,
                         int depth) {
    for (int left = 0; left < columns; left += SLAB, out += rows * SLAB)
        multiply_slab(a, b + left, columns, out, rows, smaller(SLAB, columns - left), depth);
}

// Pack rows x depth of a, with zeros behind each row up to whole groups.
static void pack_groups(matrix a, int rows, int depth, float *packed) {
    for (int k = 0; k < depth; k += GROUP) {
        const float *x = a.data + k * a.column_stride;
        const int length = smaller(GROUP, depth - k);
        int i = 0;
        if (length == GROUP && a.column_stride == 1) {
            for (; i < rows; i++, packed += GROUP) store_quad(packed, load_quad(x + i * a.row_stride));
        } else if (length == GROUP && a.row_stride == 1) {
            for (; i + 4 <= rows; i += 4, packed += 4 * GROUP) {
                quad lines[GROUP];
                for (int l = 0; l < GROUP; l++) lines[l] = load_quad(x + l * a.column_stride + i);
                store_transposed(lines, packed, GROUP);
            }
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

void multiply_matrices(matrix a, matrix b, float *out, int rows, int columns, int depth,
                       int accumulate) {
    float packed_a[MOST_ROWS * BLOCK_DEPTH], packed_b[BLOCK_DEPTH * BLOCK_COLUMNS];
    const int blocks = 1 + (depth - 1) / BLOCK_DEPTH;  // of about the same length
    const int longest = round_up((depth + blocks - 1) / blocks, GROUP);
    const int has_rows = b.column_stride == 1;  // which are read where they are
    const int widest = has_rows ? columns : BLOCK_COLUMNS;
    for (int left = 0; left < columns; left += widest) {
        const int width = smaller(widest, columns - left);
        for (int k = 0; k < depth; k += longest) {
            const int length = smaller(longest, depth - k);
            const matrix cells = {b.data + k * b.row_stride + left * b.column_stride, b.row_stride,
                                  b.column_stride};
            if (!has_rows) pack_slabs(cells, length, width, packed_b);
            for (int i = 0; i < rows; i += MOST_ROWS) {
                const int height = smaller(MOST_ROWS, rows - i);
                const matrix lines = {a.data + i * a.row_stride + k * a.column_stride, a.row_stride,
                                      a.column_stride};
                pack_groups(lines, height, length, packed_a);
                multiply_groups(packed_a, has_rows ? cells.data : packed_b,
                                has_rows ? b.row_stride : SLAB,
                                has_rows ? SLAB : (ptrdiff_t)length * SLAB,
                                out + (ptrdiff_t)i * columns + left, columns, height, width, length,
                                accumulate || k > 0);
            }
        }
    }
}
