// Matrix multiplication: packed and tiled for floats, plain loops for integers.
#include "gemm.h"

#ifndef __wasm__  // where products.c has the products of float32 matrices
#include "tiles.h"

// A panel of b stays in the L1 cache while it meets the strips of a block of a, which stays in the L2 cache.
#define BLOCK_ROWS 768
#define BLOCK_DEPTH 192
// Where little would be saved, factors are read where they are: a if it meets few columns, b if it meets few rows.
#define FEW_COLUMNS 512
#define FEW_ROWS(b) (b.row_stride > 512 ? 32 : 64)
#define CROWDED 512  // rows that are multiples of so many numbers apart share few places of a cache

// Element k of row i of the strip is at a[k * TILE_ROWS + i] if it is packed, else at a[i * a_row + k]. Element k of
// column j of the panel is at b[k * b_row + j].
typedef struct {
    const float *a, *b;
    ptrdiff_t a_row, b_row;
    int is_packed, depth;
} factors;

// All loops over sums are unrolled, or the compiler keeps them in memory. What will be written is fetched early.
#define FULL_TILE(name, vectors, SETUP, ELEMENT)                                                   \
    static void name##_##vectors(factors f, float *target, ptrdiff_t stride, int accumulate) {     \
        floats sums[TILE_ROWS][vectors] = {};                                                      \
        SETUP                                                                                      \
        UNROLLED for (int i = 0; i < TILE_ROWS; i++)                                               \
            UNROLLED for (int j = 0; j < vectors; j++)                                             \
                __builtin_prefetch(target + i * stride + j * LANES, 1);                            \
        for (ptrdiff_t k = 0; k < f.depth; k++, f.b += f.b_row) {                                  \
            ROW(b, f.b, vectors)                                                                   \
            UNROLLED for (int i = 0; i < TILE_ROWS; i++) {                                         \
                floats a = splat(ELEMENT);                                                         \
                IN_ORDER(a);                                                                       \
                UNROLLED for (int j = 0; j < vectors; j++) ADD_PRODUCT(sums[i][j], a, b[j]);       \
            }                                                                                      \
        }                                                                                          \
        if (accumulate)                                                                            \
            UNROLLED for (int i = 0; i < TILE_ROWS; i++)                                           \
                UNROLLED for (int j = 0; j < vectors; j++)                                         \
                    sums[i][j] += load(target + i * stride + j * LANES);                           \
        UNROLLED for (int i = 0; i < TILE_ROWS; i++)                                               \
            UNROLLED for (int j = 0; j < vectors; j++)                                             \
                store(target + i * stride + j * LANES, sums[i][j]);                                \
    }
// The compiler would compute the address of each row from that of the row before, if it knew how far apart they are.
#define ROWS_OF_A                                                                                  \
    const float *rows[TILE_ROWS];                                                                  \
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) {                                                 \
        rows[i] = f.a + i * f.a_row;                                                               \
        __asm__("" : "+r"(rows[i]));                                                               \
    }
#define FULL_TILES(vectors)                                                                        \
    FULL_TILE(multiply_packed, vectors, , f.a[k * TILE_ROWS + i])                                  \
    FULL_TILE(multiply_rows, vectors, ROWS_OF_A, rows[i][k])
FULL_TILES(1)
FULL_TILES(2)
FULL_TILES(3)

static void multiply_full_tile(factors f, float *target, ptrdiff_t stride, int columns,
                               int accumulate) {
    if (columns == 3 * LANES)
        (f.is_packed ? multiply_packed_3 : multiply_rows_3)(f, target, stride, accumulate);
    else if (columns == 2 * LANES)
        (f.is_packed ? multiply_packed_2 : multiply_rows_2)(f, target, stride, accumulate);
    else
        (f.is_packed ? multiply_packed_1 : multiply_rows_1)(f, target, stride, accumulate);
}

static void multiply_tile(factors f, float *target, ptrdiff_t stride, int height, int width,
                          int accumulate) {
    const int columns = round_up(width, LANES);
    if (height == TILE_ROWS && width == columns) {
        multiply_full_tile(f, target, stride, columns, accumulate);
        return;
    }
    float tile[TILE_ROWS * TILE_COLUMNS];
    multiply_full_tile(f, tile, columns, columns, 0);
    for (int i = 0; i < height; i++)
        for (int j = 0; j < width; j++) {
            const float y = tile[i * columns + j];
            target[i * stride + j] = accumulate ? target[i * stride + j] + y : y;
        }
}

// Pack `count` <= `tile` vectors of length `depth`, element k of vector i at packed[k * tile + i];
// missing vectors are zeros. `vector_stride` is the step to the next vector, `stride` along one.
static void pack_tile(const float *data, ptrdiff_t vector_stride, ptrdiff_t stride, int count,
                      int depth, int tile, float *packed) {
    if (count == tile && stride == 1) {
        for (int i = 0; i < tile; i += 4) {
            const float *first = data + i * vector_stride;
            const float *const sources[4] = {first, first + vector_stride,
                                             first + 2 * vector_stride, first + 3 * vector_stride};
            interleave(sources, depth, packed + i, tile);
        }
    } else if (count == tile && vector_stride == 1) {
        for (int k = 0; k < depth; k++)
            for (int i = 0; i < tile; i += 4)
                store_quad(packed + k * tile + i, load_quad(data + k * stride + i));
    } else {
        for (int k = 0; k < depth; k++)
            for (int i = 0; i < tile; i++)
                packed[k * tile + i] = i < count ? data[i * vector_stride + k * stride] : 0;
    }
}

static void pack_strips(matrix a, int rows, int depth, float *packed) {
    for (int i = 0; i < rows; i += TILE_ROWS)
        pack_tile(a.data + i * a.row_stride, a.row_stride, a.column_stride,
                  smaller(TILE_ROWS, rows - i), depth, TILE_ROWS, packed + (ptrdiff_t)i * depth);
}

// Pack depth x columns of b, TILE_COLUMNS at most, with zeros behind them up to a whole vector.
static void pack_panel(matrix b, int depth, int columns, float *packed) {
    if (b.column_stride == 1 && columns == TILE_COLUMNS)
        for (int k = 0; k < depth; k++)
            for (int j = 0; j < TILE_COLUMNS; j += LANES)
                store(packed + k * TILE_COLUMNS + j, load(b.data + k * b.row_stride + j));
    else
        pack_tile(b.data, b.column_stride, b.row_stride, columns, depth, round_up(columns, LANES),
                  packed);
}

// out (rows <= BLOCK_ROWS, row stride `stride`) = a * b, or += it, for depth <= BLOCK_DEPTH.
static void multiply_block(matrix a, matrix b, float *out, ptrdiff_t stride, int rows, int columns,
                           int depth, int accumulate) {
    alignas(VECTOR_BYTES) static _Thread_local float strips[BLOCK_ROWS * BLOCK_DEPTH];  // too large for a stack
    alignas(VECTOR_BYTES) float panel[BLOCK_DEPTH * TILE_COLUMNS];
    const int has_rows = a.column_stride == 1 && columns <= FEW_COLUMNS && a.row_stride % CROWDED;
    const int left = has_rows ? rows / TILE_ROWS * TILE_ROWS : 0;  // what is not packed
    pack_strips((matrix){a.data + left * a.row_stride, a.row_stride, a.column_stride}, rows - left,
                depth, strips);
    for (int j = 0, width; j < columns; j += width) {
        // Two panels of two vectors take less time than one of three and one of one.
        width = columns - j == 4 * LANES ? 2 * LANES : smaller(TILE_COLUMNS, columns - j);
        const matrix cells = {b.data + j * b.column_stride, b.row_stride, b.column_stride};
        const int is_packed = b.column_stride != 1 || width % LANES || rows > FEW_ROWS(b);
        if (is_packed) pack_panel(cells, depth, width, panel);
        factors f = {.b = is_packed ? panel : cells.data,
                     .b_row = is_packed ? round_up(width, LANES) : b.row_stride,
                     .a_row = a.row_stride,
                     .depth = depth};
        for (int i = 0; i < rows; i += TILE_ROWS) {
            f.is_packed = i >= left;
            f.a = f.is_packed ? strips + (ptrdiff_t)(i - left) * depth : a.data + i * a.row_stride;
            multiply_tile(f, out + i * stride + j, stride, smaller(TILE_ROWS, rows - i), width,
                          accumulate);
        }
    }
}

void multiply_matrices(matrix a, matrix b, float *out, int rows, int columns, int depth,
                       int accumulate) {
    const int blocks = 1 + (depth - 1) / BLOCK_DEPTH;  // of about the same length
    const int longest = (depth + blocks - 1) / blocks;
    for (int k = 0; k < depth; k += longest)
        for (int i = 0; i < rows; i += BLOCK_ROWS)
            multiply_block(
                (matrix){a.data + i * a.row_stride + k * a.column_stride, a.row_stride,
                         a.column_stride},
                (matrix){b.data + k * b.row_stride, b.row_stride, b.column_stride},
                out + (ptrdiff_t)i * columns, columns, smaller(BLOCK_ROWS, rows - i), columns,
                smaller(longest, depth - k), accumulate || k > 0);
}

// out += a * b, for matrices whose rows and columns are as far apart as the strides say
KERNEL(add_matmul_float32)(const float *a, const float *b, float *out, int rows, int columns,
                           int depth, int a_row_stride, int a_column_stride, int b_row_stride,
                           int b_column_stride) {
    multiply_matrices((matrix){a, a_row_stride, a_column_stride},
                      (matrix){b, b_row_stride, b_column_stride}, out, rows, columns, depth, 1);
}
#endif

// Products of a vector and `count` others, each with the same order of additions.
static inline __attribute__((always_inline)) void multiply_pairs(const float *vector,
                                                                 const float *others,
                                                                 ptrdiff_t distance, float *out,
                                                                 int count, int depth) {
    floats sums[4][2] = {};
    int k = 0;
    _Pragma("clang loop unroll_count(2)")
    for (; k + 2 * LANES <= depth; k += 2 * LANES) {
        const floats a = load(vector + k), b = load(vector + k + LANES);
        UNROLLED for (int i = 0; i < count; i++) {
            const float *other = others + i * distance + k;
            sums[i][0] = multiply_add(a, load(other), sums[i][0]);
            sums[i][1] = multiply_add(b, load(other + LANES), sums[i][1]);
        }
    }
    UNROLLED for (int i = 0; i < count; i++) {
        float y = sum_lanes(sums[i][0] + sums[i][1]);
        for (int rest = k; rest < depth; rest++) y += vector[rest] * others[i * distance + rest];
        out[i] = y;
    }
}

// out (columns) = vector (depth) * b: packing b would cost more than it saves.
static void multiply_vector(const float *vector, ptrdiff_t stride, matrix b, float *out,
                            int columns, int depth) {
    if (b.row_stride == 1 && stride == 1) {
        int j = 0;
        for (; j + 4 <= columns; j += 4)
            multiply_pairs(vector, b.data + j * b.column_stride, b.column_stride, out + j, 4, depth);
        for (; j < columns; j++)
            multiply_pairs(vector, b.data + j * b.column_stride, 0, out + j, 1, depth);
        return;
    }
    memset(out, 0, columns * sizeof *out);
    for (int k = 0; k < depth; k++) {
        const float scale = vector[k * stride], *row = b.data + k * b.row_stride;
        int j = 0;
        if (b.column_stride == 1)
            for (; j + LANES <= columns; j += LANES)
                store(out + j, multiply_add(splat(scale), load(row + j), load(out + j)));
        for (; j < columns; j++) out[j] += scale * row[j * b.column_stride];
    }
}

// ---- kernels ----

static void matmul_one_float32(matrix a, matrix b, float *out, int rows, int columns, int depth) {
    if (rows == 1)
        multiply_vector(a.data, a.column_stride, b, out, columns, depth);
    else if (columns == 1)
        multiply_vector(b.data, b.row_stride, (matrix){a.data, a.column_stride, a.row_stride}, out,
                        rows, depth);
    else
        multiply_matrices(a, b, out, rows, columns, depth, 0);
}

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

// descriptor of the batch: axes, sizes[axes], a_strides[axes], b_strides[axes], in elements.
#define MATMUL(dtype, type, effort)                                                                \
    effort KERNEL(matmul_##dtype)(const type *a, const type *b, type *out, int rows, int columns,  \
                                  int depth, int a_row_stride, int a_column_stride,                \
                                  int b_row_stride, int b_column_stride, const int *descriptor) {  \
        const int axes = descriptor[0];                                                            \
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

#ifndef __wasm__
// ---- float64: tiles of four rows and two vectors, which stay in registers ----

#define PANEL_DEPTH 256  // rows of a panel that stay in the cache while all rows of a use them
#define PANEL_COLUMNS (2 * (int)(sizeof(doubles) / sizeof(double)))

// Add rows (each `step` apart) times a packed panel of columns to a tile of out, or set it.
static void double_tile(const double *const rows[4], ptrdiff_t step, const double *panel, int depth,
                        double *out, ptrdiff_t stride, int height, int width, int accumulate) {
    doubles sums[8] = {}, left, right;
    for (int k = 0; k < depth; k++) {
        memcpy(&left, panel + PANEL_COLUMNS * k, sizeof left);
        memcpy(&right, panel + PANEL_COLUMNS * k + PANEL_COLUMNS / 2, sizeof right);
        for (int i = 0; i < 4; i++) {
            const doubles scale = rows[i][k * step] - (doubles){};
            sums[2 * i] = multiply_add_doubles(scale, left, sums[2 * i]);
            sums[2 * i + 1] = multiply_add_doubles(scale, right, sums[2 * i + 1]);
        }
    }
    double tile[4 * PANEL_COLUMNS];
    memcpy(tile, sums, sizeof tile);
    for (int i = 0; i < height; i++, out += stride)
        for (int j = 0; j < width; j++) out[j] = (accumulate ? out[j] : 0) + tile[PANEL_COLUMNS * i + j];
}

void multiply_doubles(matrix_of_doubles a, matrix_of_doubles b, double *out, int rows, int columns,
                      int depth, int accumulate) {
    double panel[PANEL_DEPTH * PANEL_COLUMNS];
    for (int j = 0; j < columns; j += PANEL_COLUMNS)
        for (int k = 0; k < depth; k += PANEL_DEPTH) {
            const int length = smaller(PANEL_DEPTH, depth - k);
            const int width = smaller(PANEL_COLUMNS, columns - j);
            for (int l = 0; l < length; l++)
                for (int c = 0; c < PANEL_COLUMNS; c++)
                    panel[PANEL_COLUMNS * l + c] = c < width ? b.data[(k + l) * b.row_stride +
                                                          (j + c) * b.column_stride]
                                                 : 0;
            for (int i = 0; i < rows; i += 4) {
                const double *sources[4];
                for (int r = 0; r < 4; r++)  // a partial tile repeats the last row
                    sources[r] = a.data + smaller(i + r, rows - 1) * a.row_stride +
                                 k * a.column_stride;
                double_tile(sources, a.column_stride, panel, length,
                            out + (ptrdiff_t)i * columns + j, columns, smaller(4, rows - i), width,
                            accumulate || k > 0);
            }
        }
}
#endif

typedef matrix_of_doubles matrix_float64;

static void matmul_one_float64(matrix_float64 a, matrix_float64 b, double *out, int rows,
                               int columns, int depth) {
    multiply_doubles(a, b, out, rows, columns, depth, 0);
}
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

#include "halves.h"

#define SMALL_MATRIX 1024  // elements at most
#define SMALL_PRODUCTS(dtype, widened, narrowed)                                                   \
    KERNEL(matmul_##dtype)(const half *a, const half *b, half *out, int rows, int columns,         \
                           int depth, int a_row_stride, int a_column_stride, int b_row_stride,     \
                           int b_column_stride, const int *descriptor) {                           \
        float left[SMALL_MATRIX], right[SMALL_MATRIX], product[SMALL_MATRIX];                      \
        for (int i = 0; i < rows * depth; i++) left[i] = widened(a[i]);                            \
        for (int i = 0; i < depth * columns; i++) right[i] = widened(b[i]);                        \
        matmul_float32(left, right, product, rows, columns, depth, a_row_stride, a_column_stride,  \
                       b_row_stride, b_column_stride, descriptor);                                 \
        for (int i = 0; i < rows * columns; i++) out[i] = narrowed(product[i]);                    \
    }
SMALL_PRODUCTS(float16, widened, narrowed)
SMALL_PRODUCTS(bfloat16, widened_brain, narrowed_brain)
#endif
