// Matrix multiplication: packed and tiled for floats, plain loops for integers.
#include "gemm.h"

#ifndef __wasm__
#include "tiles.h"

// A panel of b stays in the L1 cache while it meets the strips of a block of a, which stays in the L2 cache.
#define BLOCK_DEPTH 192
#define BLOCK_BYTES (768 * BLOCK_DEPTH * (int)sizeof(float))
alignas(VECTOR_BYTES) static _Thread_local char packed_strips[BLOCK_BYTES];  // too large for a stack
// Where little would be saved, factors are read where they are: a if it meets few columns, b if it meets few rows.
#define FEW_COLUMNS 512
#define FEW_ROWS(b) (b.row_stride > 512 ? 32 : 64)
#define CROWDED 512  // rows that are multiples of so many numbers apart share few places of a cache
#endif

#define NUMBER float
#define VECTOR floats
#define FUSED multiply_add
#define PACKED "ps"
#define READS_ROWS 1
#define MATRIX matrix
#define INTERLEAVE interleave
#define MULTIPLY multiply_matrices
#define NAMED(name) name##_float32
#include "matmul.h"

#ifndef __wasm__
#define NUMBER double
#define VECTOR doubles
#define FUSED multiply_add_doubles
#define PACKED "pd"
#define READS_ROWS 0
#define MATRIX matrix_of_doubles
#define INTERLEAVE interleave_doubles
#define MULTIPLY multiply_doubles
#define NAMED(name) name##_float64
#include "matmul.h"

// out += a * b, for matrices whose rows and columns are as far apart as the strides say
KERNEL(add_matmul_float32)(const float *a, const float *b, float *out, int rows, int columns,
                           int depth, int a_row_stride, int a_column_stride, int b_row_stride,
                           int b_column_stride) {
    multiply_matrices((matrix){a, a_row_stride, a_column_stride},
                      (matrix){b, b_row_stride, b_column_stride}, out, rows, columns, depth, 1);
}
#endif

// ---- kernels ----

// Natively, tiles of integer products stay in registers, and wrap around at the end. What whole tiles
// leave over is multiplied by plain loops.
#ifdef __wasm__
#define TILES(dtype, type)
#define TILED(dtype) 0
#else
#define TALL 4
#define WIDE(dtype) (2 * VECTOR_BYTES / (int)sizeof(SUM_##dtype))
#define SUM_int8 uint32_t
#define SUM_int16 uint32_t
#define SUM_int32 uint32_t
#define SUM_int64 uint64_t
#define TILES(dtype, type)                                                                         \
    static void tile_##dtype(const type *a, ptrdiff_t a_row, ptrdiff_t a_column, const type *b,    \
                             ptrdiff_t b_row, type *restrict out, ptrdiff_t out_row, int depth) {  \
        SUM_##dtype sums[TALL][WIDE(dtype)] = {};                                                  \
        for (int k = 0; k < depth; k++)                                                            \
            for (int i = 0; i < TALL; i++)                                                         \
                for (int j = 0; j < WIDE(dtype); j++)                                              \
                    sums[i][j] += (SUM_##dtype)a[i * a_row + k * a_column] * b[k * b_row + j];     \
        for (int i = 0; i < TALL; i++)                                                             \
            for (int j = 0; j < WIDE(dtype); j++) out[i * out_row + j] = sums[i][j];               \
    }                                                                                              \
    /* Multiply all whole tiles; return how many columns they have. */                             \
    static int tiled_##dtype(matrix_##dtype a, matrix_##dtype b, type *out, int rows, int columns, \
                             int depth) {                                                          \
        const int end = b.column_stride == 1 ? columns / WIDE(dtype) * WIDE(dtype) : 0;            \
        for (int j = 0; j < end; j += WIDE(dtype))                                                 \
            for (int i = 0; i + TALL <= rows; i += TALL)                                           \
                tile_##dtype(a.data + i * a.row_stride, a.row_stride, a.column_stride, b.data + j, \
                             b.row_stride, out + (ptrdiff_t)i * columns + j, columns, depth);      \
        return end;                                                                                \
    }
#define TILED(dtype) (tiled_##dtype(a, b, out, rows, columns, depth))
#endif

#define PLAIN(dtype, type)                                                                         \
    TILES(dtype, type)                                                                             \
    static void matmul_one_##dtype(matrix_##dtype a, matrix_##dtype b, type *restrict out,         \
                                   int rows, int columns, int depth) {                             \
        const int wide = TILED(dtype);                                                             \
        for (int i = 0; i < rows; i++, out += columns) {                                           \
            const int first = wide && i < rows / 4 * 4 ? wide : 0;                                 \
            memset(out + first, 0, (size_t)(columns - first) * sizeof *out);                       \
            for (int k = 0; k < depth && first < columns; k++) {                                   \
                const type scale = a.data[i * a.row_stride + k * a.column_stride];                 \
                const type *row = b.data + k * b.row_stride;                                       \
                for (int j = first; j < columns; j++) out[j] += scale * row[j * b.column_stride];  \
            }                                                                                      \
        }                                                                                          \
    }

// descriptor of the batch: axes, sizes[axes], a_strides[axes], b_strides[axes], in elements; NULL if it is one product.
#define MATMUL(dtype, type, effort)                                                                \
    effort KERNEL(matmul_##dtype)(const type *a, const type *b, type *out, int rows, int columns,  \
                                  int depth, int a_row_stride, int a_column_stride,                \
                                  int b_row_stride, int b_column_stride, const int *descriptor) {  \
        const int axes = descriptor ? descriptor[0] : 0;                                           \
        const int *sizes = descriptor + 1, *a_strides = sizes + axes;                              \
        const int *b_strides = a_strides + axes;                                                   \
        int index[MAX_AXES] = {0};                                                                 \
        ptrdiff_t a_offset = 0, b_offset = 0;                                                      \
        do {                                                                                       \
            matmul_one_##dtype(                                                                    \
                (matrix_##dtype){a + a_offset, a_row_stride, a_column_stride},                     \
                (matrix_##dtype){b + b_offset, b_row_stride, b_column_stride}, out, rows, columns, \
                depth);                                                                            \
            out += (ptrdiff_t)rows * columns;                                                      \
        } while (step_axes(axes, sizes, index, a_strides, b_strides, &a_offset, &b_offset));       \
    }

typedef matrix matrix_float32;
MATMUL(float32, float, FAST)

#define PLAIN_MATMUL(dtype, type, effort)                                                          \
    typedef struct {                                                                               \
        const type *data;                                                                          \
        ptrdiff_t row_stride, column_stride;                                                       \
    } matrix_##dtype;                                                                              \
    PLAIN(dtype, type)                                                                             \
    MATMUL(dtype, type, effort)                                                                    \
    /* Products of unsigned numbers have the bits of those of signed ones. */                      \
    effort KERNEL(matmul_u##dtype)(const type *a, const type *b, type *out, int rows, int columns, \
                                   int depth, int a_row_stride, int a_column_stride,               \
                                   int b_row_stride, int b_column_stride, const int *descriptor) { \
        matmul_##dtype(a, b, out, rows, columns, depth, a_row_stride, a_column_stride,             \
                       b_row_stride, b_column_stride, descriptor);                                 \
    }
EACH_SIGNED(PLAIN_MATMUL)

typedef matrix_of_doubles matrix_float64;
#ifdef __wasm__
static void matmul_one_float64(matrix_float64 a, matrix_float64 b, double *out, int rows,
                               int columns, int depth) {
    multiply_doubles(a, b, out, rows, columns, depth, 0);
}
#endif
MATMUL(float64, double, FAST)

// ---- outer products ----

// y (rows x columns) of each of `count` products = a (rows) times b (columns). What BLAS adds to 0 is never -0.
#define OUTER(dtype, type, effort)                                                                 \
    effort KERNEL(outer_##dtype)(const type *restrict a, const type *restrict b, type *restrict y, \
                                 int count, int rows, int columns) {                               \
        for (int n = 0; n < count; n++, a += rows, b += columns)                                   \
            for (int i = 0; i < rows; i++, y += columns)                                           \
                for (int j = 0; j < columns; j++) y[j] = a[i] * b[j] + 0;                          \
    }
EACH_FLOAT(OUTER)

#ifdef __wasm__
// ---- small matrices of halves, in one call; others are converted by kernels of their own ----

#include "half_vectors.h"

#define SMALL_MATRIX 1024  // elements at most
#define SMALL_PRODUCTS(dtype)                                                                      \
    KERNEL(matmul_##dtype)(const half *a, const half *b, half *out, int rows, int columns,         \
                           int depth, int a_row_stride, int a_column_stride, int b_row_stride,     \
                           int b_column_stride, const int *descriptor) {                           \
        float left[SMALL_MATRIX], right[SMALL_MATRIX], product[SMALL_MATRIX];                      \
        widen_##dtype(a, left, rows * depth);                                                      \
        widen_##dtype(b, right, depth * columns);                                                  \
        matmul_float32(left, right, product, rows, columns, depth, a_row_stride, a_column_stride,  \
                       b_row_stride, b_column_stride, descriptor);                                 \
        narrow_##dtype(product, out, rows * columns);                                              \
    }
SMALL_PRODUCTS(float16)
SMALL_PRODUCTS(bfloat16)
#endif
