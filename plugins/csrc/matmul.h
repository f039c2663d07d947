// What linalg.c includes for each type: products of matrices of type MATRIX, whose numbers are of type NUMBER. FUSED is
// a * b + c in lanes of a VECTOR, and PACKED the last letters of its instruction; READS_ROWS tells whether rows of a may be read where they are.
#include "lanes.h"

// For loops over what whole vectors leave over: others would only make the code longer.
#define ONE_AFTER_THE_OTHER _Pragma("clang loop vectorize(disable) unroll(disable)")

#ifndef __wasm__  // where products.c has the products of matrices
// A micro-kernel multiplies a packed strip of TILE_ROWS rows by a packed panel of three vectors of columns, or of one or
// two at the right edge. All sums stay in registers.
#define PANEL_WIDTH (3 * WIDTH)
#define BLOCK_ROWS (BLOCK_BYTES / BLOCK_DEPTH / (int)sizeof(NUMBER))

// Element k of row i of the strip is at a[k * TILE_ROWS + i] if it is packed, else at a[i * a_row + k]. Element k of
// column j of the panel is at b[k * b_row + j].
typedef struct {
    const NUMBER *a, *b;
    ptrdiff_t a_row, b_row;
    int is_packed, depth;
} NAMED(factors);

// All loops over sums are unrolled, or the compiler keeps them in memory. What will be written is fetched early.
#define FULL_TILE(name, vectors, SETUP, ELEMENT)                                                   \
    static void NAMED(name##_##vectors)(NAMED(factors) f, NUMBER *target, ptrdiff_t stride,        \
                                        int accumulate) {                                          \
        VECTOR sums[TILE_ROWS][vectors] = {};                                                      \
        SETUP                                                                                      \
        UNROLLED for (int i = 0; i < TILE_ROWS; i++)                                               \
            UNROLLED for (int j = 0; j < vectors; j++)                                             \
                __builtin_prefetch(target + i * stride + j * WIDTH, 1);                            \
        for (ptrdiff_t k = 0; k < f.depth; k++, f.b += f.b_row) {                                  \
            ROW(b, f.b, vectors)                                                                   \
            UNROLLED for (int i = 0; i < TILE_ROWS; i++) {                                         \
                VECTOR a = ELEMENT - (VECTOR){};                                                   \
                IN_ORDER(a);                                                                       \
                UNROLLED for (int j = 0; j < vectors; j++) ADD_PRODUCT(sums[i][j], a, b[j]);       \
            }                                                                                      \
        }                                                                                          \
        if (accumulate)                                                                            \
            UNROLLED for (int i = 0; i < TILE_ROWS; i++)                                           \
                UNROLLED for (int j = 0; j < vectors; j++)                                         \
                    sums[i][j] += NAMED(read)(target + i * stride + j * WIDTH);                    \
        UNROLLED for (int i = 0; i < TILE_ROWS; i++)                                               \
            UNROLLED for (int j = 0; j < vectors; j++)                                             \
                NAMED(write)(target + i * stride + j * WIDTH, sums[i][j]);                         \
    }
// The compiler would compute the address of each row from that of the row before, if it knew how far apart they are.
#define ROWS_OF_A                                                                                  \
    const NUMBER *rows[TILE_ROWS];                                                                 \
    UNROLLED for (int i = 0; i < TILE_ROWS; i++) {                                                 \
        rows[i] = f.a + i * f.a_row;                                                               \
        __asm__("" : "+r"(rows[i]));                                                               \
    }
#define FULL_TILES(name, SETUP, ELEMENT)                                                           \
    FULL_TILE(name, 1, SETUP, ELEMENT)                                                             \
    FULL_TILE(name, 2, SETUP, ELEMENT)                                                             \
    FULL_TILE(name, 3, SETUP, ELEMENT)
FULL_TILES(multiply_packed, , f.a[k * TILE_ROWS + i])
#if READS_ROWS
FULL_TILES(multiply_rows, ROWS_OF_A, rows[i][k])
#define TILE_OF(vectors)                                                                           \
    (f.is_packed ? NAMED(multiply_packed_##vectors) : NAMED(multiply_rows_##vectors))
#else
#define TILE_OF(vectors) NAMED(multiply_packed_##vectors)
#endif

static void NAMED(multiply_full_tile)(NAMED(factors) f, NUMBER *target, ptrdiff_t stride,
                                      int columns, int accumulate) {
    if (columns == 3 * WIDTH)
        TILE_OF(3)(f, target, stride, accumulate);
    else if (columns == 2 * WIDTH)
        TILE_OF(2)(f, target, stride, accumulate);
    else
        TILE_OF(1)(f, target, stride, accumulate);
}

static void NAMED(multiply_tile)(NAMED(factors) f, NUMBER *target, ptrdiff_t stride, int height,
                                 int width, int accumulate) {
    const int columns = round_up(width, WIDTH);
    if (height == TILE_ROWS && width == columns) {
        NAMED(multiply_full_tile)(f, target, stride, columns, accumulate);
        return;
    }
    NUMBER tile[TILE_ROWS * PANEL_WIDTH];
    NAMED(multiply_full_tile)(f, tile, columns, columns, 0);
    for (int i = 0; i < height; i++)
        ONE_AFTER_THE_OTHER for (int j = 0; j < width; j++) {
            const NUMBER y = tile[i * columns + j];
            target[i * stride + j] = accumulate ? target[i * stride + j] + y : y;
        }
}

// Pack `count` <= `tile` vectors of length `depth`, element k of vector i at packed[k * tile + i];
// missing vectors are zeros. `vector_stride` is the step to the next vector, `stride` along one.
static void NAMED(pack_tile)(const NUMBER *data, ptrdiff_t vector_stride, ptrdiff_t stride,
                             int count, int depth, int tile, NUMBER *packed) {
    int whole = tile / 4 * 4;  // vectors that are packed by fours; a tile of three vectors of two doubles has two more
    if (count == tile && stride == 1) {
        for (int i = 0; i < whole; i += 4) {
            const NUMBER *first = data + i * vector_stride;
            const NUMBER *const sources[4] = {first, first + vector_stride,
                                              first + 2 * vector_stride, first + 3 * vector_stride};
            INTERLEAVE(sources, depth, packed + i, tile);
        }
    } else if (count == tile && vector_stride == 1) {
        for (int k = 0; k < depth; k++)
            for (int i = 0; i < whole; i += 4)
                memcpy(packed + k * tile + i, data + k * stride + i, 4 * sizeof(NUMBER));
    } else
        whole = 0;
    if (whole < tile)
        for (int k = 0; k < depth; k++)
            ONE_AFTER_THE_OTHER for (int i = whole; i < tile; i++)
                packed[k * tile + i] = i < count ? data[i * vector_stride + k * stride] : 0;
}

static void NAMED(pack_strips)(MATRIX a, int rows, int depth, NUMBER *packed) {
    for (int i = 0; i < rows; i += TILE_ROWS)
        NAMED(pack_tile)(a.data + i * a.row_stride, a.row_stride, a.column_stride,
                         smaller(TILE_ROWS, rows - i), depth, TILE_ROWS, packed + (ptrdiff_t)i * depth);
}

// Pack depth x columns of b, PANEL_WIDTH at most, with zeros behind them up to a whole vector.
static void NAMED(pack_panel)(MATRIX b, int depth, int columns, NUMBER *packed) {
    if (b.column_stride == 1 && columns == PANEL_WIDTH)
        for (int k = 0; k < depth; k++)
            for (int j = 0; j < PANEL_WIDTH; j += WIDTH)
                NAMED(write)(packed + k * PANEL_WIDTH + j, NAMED(read)(b.data + k * b.row_stride + j));
    else
        NAMED(pack_tile)(b.data, b.column_stride, b.row_stride, columns, depth,
                         round_up(columns, WIDTH), packed);
}

// out (rows <= BLOCK_ROWS, row stride `stride`) = a * b, or += it, for depth <= BLOCK_DEPTH.
static void NAMED(multiply_block)(MATRIX a, MATRIX b, NUMBER *out, ptrdiff_t stride, int rows,
                                  int columns, int depth, int accumulate) {
    NUMBER *const strips = (NUMBER *)packed_strips;
    alignas(VECTOR_BYTES) NUMBER panel[BLOCK_DEPTH * PANEL_WIDTH];
    const int has_rows =
        READS_ROWS && a.column_stride == 1 && columns <= FEW_COLUMNS && a.row_stride % CROWDED;
    const int left = has_rows ? rows / TILE_ROWS * TILE_ROWS : 0;  // what is not packed
    NAMED(pack_strips)((MATRIX){a.data + left * a.row_stride, a.row_stride, a.column_stride},
                       rows - left, depth, strips);
    for (int j = 0, width; j < columns; j += width) {
        // Panels of about the same width: two of two vectors take less time than one of three and one of one.
        const int vectors = round_up(columns - j, WIDTH) / WIDTH, panels = (vectors + 2) / 3;
        width = smaller((vectors + panels - 1) / panels * WIDTH, columns - j);
        const MATRIX cells = {b.data + j * b.column_stride, b.row_stride, b.column_stride};
        const int is_packed = b.column_stride != 1 || width % WIDTH || rows > FEW_ROWS(b);
        if (is_packed) NAMED(pack_panel)(cells, depth, width, panel);
        NAMED(factors) f = {.b = is_packed ? panel : cells.data,
                            .b_row = is_packed ? round_up(width, WIDTH) : b.row_stride,
                            .a_row = a.row_stride,
                            .depth = depth};
        for (int i = 0; i < rows; i += TILE_ROWS) {
            f.is_packed = i >= left;
            f.a = f.is_packed ? strips + (ptrdiff_t)(i - left) * depth : a.data + i * a.row_stride;
            NAMED(multiply_tile)(f, out + i * stride + j, stride, smaller(TILE_ROWS, rows - i),
                                 width, accumulate);
        }
    }
}

void MULTIPLY(MATRIX a, MATRIX b, NUMBER *out, int rows, int columns, int depth, int accumulate) {
    const int blocks = 1 + (depth - 1) / BLOCK_DEPTH;  // of about the same length
    const int longest = (depth + blocks - 1) / blocks;
    for (int k = 0; k < depth; k += longest)
        for (int i = 0; i < rows; i += BLOCK_ROWS)
            NAMED(multiply_block)(
                (MATRIX){a.data + i * a.row_stride + k * a.column_stride, a.row_stride,
                         a.column_stride},
                (MATRIX){b.data + k * b.row_stride, b.row_stride, b.column_stride},
                out + (ptrdiff_t)i * columns, columns, smaller(BLOCK_ROWS, rows - i), columns,
                smaller(longest, depth - k), accumulate || k > 0);
}
#endif

// Products of a vector and `count` others, each with the same order of additions.
static inline __attribute__((always_inline)) void NAMED(multiply_pairs)(
    const NUMBER *vector, const NUMBER *others, ptrdiff_t distance, NUMBER *out, int count, int depth) {
    VECTOR sums[4][2] = {};
    int k = 0;
    _Pragma("clang loop unroll_count(2)")
    for (; k + 2 * WIDTH <= depth; k += 2 * WIDTH) {
        const VECTOR a = NAMED(read)(vector + k), b = NAMED(read)(vector + k + WIDTH);
        UNROLLED for (int i = 0; i < count; i++) {
            const NUMBER *other = others + i * distance + k;
            sums[i][0] = FUSED(a, NAMED(read)(other), sums[i][0]);
            sums[i][1] = FUSED(b, NAMED(read)(other + WIDTH), sums[i][1]);
        }
    }
    UNROLLED for (int i = 0; i < count; i++) {
        NUMBER lanes[WIDTH];
        NAMED(write)(lanes, sums[i][0] + sums[i][1]);
        for (int rest = WIDTH / 2; rest > 0; rest /= 2)
            for (int j = 0; j < rest; j++) lanes[j] = lanes[2 * j] + lanes[2 * j + 1];
        NUMBER y = lanes[0];
        ONE_AFTER_THE_OTHER for (int rest = k; rest < depth; rest++) y += vector[rest] * others[i * distance + rest];
        out[i] = y;
    }
}

// out (columns) += the sum over `count` rows of b, from row k on, each times a number of the vector; added one by one. Return
// how many columns are done: whole vectors of them if those of a row are adjacent, else all.
static inline __attribute__((always_inline)) int NAMED(add_scaled_rows)(
    const NUMBER *vector, ptrdiff_t stride, MATRIX b, NUMBER *out, int columns, int k, int count) {
    const NUMBER *row = b.data + k * b.row_stride;
    int j = 0;
    if (b.column_stride == 1) {
        for (; j + WIDTH <= columns; j += WIDTH) {
            VECTOR y = NAMED(read)(out + j);
            UNROLLED for (int i = 0; i < count; i++)
                y = FUSED(vector[(k + i) * stride] - (VECTOR){},
                          NAMED(read)(row + i * b.row_stride + j), y);
            NAMED(write)(out + j, y);
        }
        return j;
    }
    ONE_AFTER_THE_OTHER for (; j < columns; j++)
        for (int i = 0; i < count; i++)
            out[j] += vector[(k + i) * stride] * row[i * b.row_stride + j * b.column_stride];
    return j;
}

// out (columns) = vector (depth) * b, for fewer columns than a vector has: what is behind a row is read and not used, but
// for the last rows, behind which nothing may be.
static void NAMED(multiply_few_columns)(const NUMBER *vector, ptrdiff_t stride, MATRIX b, NUMBER *out,
                                        int columns, int depth) {
    VECTOR y = {};
    NUMBER row[WIDTH] = {};
    for (int k = 0; k < depth; k++) {
        const NUMBER *at = b.data + k * b.row_stride;
        if ((depth - 1 - k) * b.row_stride + columns < WIDTH) at = memcpy(row, at, columns * sizeof *row);
        y = FUSED(vector[k * stride] - (VECTOR){}, NAMED(read)(at), y);
    }
    NAMED(write)(row, y);
    memcpy(out, row, columns * sizeof *row);
}

// out (columns) = vector (depth) * b: packing b would cost more than it saves.
static void NAMED(multiply_vector)(const NUMBER *vector, ptrdiff_t stride, MATRIX b, NUMBER *out,
                                   int columns, int depth) {
    if (b.row_stride == 1 && stride == 1) {
        int j = 0;
        for (; j + 4 <= columns; j += 4)
            NAMED(multiply_pairs)(vector, b.data + j * b.column_stride, b.column_stride, out + j, 4,
                                  depth);
        for (; j < columns; j++)
            NAMED(multiply_pairs)(vector, b.data + j * b.column_stride, 0, out + j, 1, depth);
        return;
    }
    memset(out, 0, columns * sizeof *out);
    int k = 0, done = 0;
    for (; k + 4 <= depth; k += 4) done = NAMED(add_scaled_rows)(vector, stride, b, out, columns, k, 4);
    for (; k < depth; k++) done = NAMED(add_scaled_rows)(vector, stride, b, out, columns, k, 1);
    const MATRIX rest = {b.data + done * b.column_stride, b.row_stride, b.column_stride};
    if (done < columns) NAMED(multiply_few_columns)(vector, stride, rest, out + done, columns - done, depth);
}

static void NAMED(matmul_one)(MATRIX a, MATRIX b, NUMBER *out, int rows, int columns, int depth) {
    if (rows == 1)
        NAMED(multiply_vector)(a.data, a.column_stride, b, out, columns, depth);
    else if (columns == 1)
        NAMED(multiply_vector)(b.data, b.row_stride, (MATRIX){a.data, a.column_stride, a.row_stride},
                               out, rows, depth);
    else
        MULTIPLY(a, b, out, rows, columns, depth, 0);
}

#undef WIDTH
#undef TILE_OF
#undef READS_ROWS
#undef NUMBER
#undef VECTOR
#undef FUSED
#undef PACKED
#undef MATRIX
#undef INTERLEAVE
#undef MULTIPLY
#undef NAMED
