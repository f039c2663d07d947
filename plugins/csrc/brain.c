// Products and convolutions of bfloat16: pairs of neighbours are multiplied, and added to sums of float32. For processors only.
//
// A word holds elements 2k and 2k + 1 of a row of a, or of a column of b. Processors with AVX512-BF16 have an instruction that
// multiplies words, and takes denormal numbers for 0; others multiply both elements in turn.
//
// This is compiled for vectors of 64 bytes only. With narrower ones, it takes less time to convert to float32 and to
// multiply there, so half_products.py is not imported, and the extension would be larger for nothing (see WIDE_KERNELS).
#include "gemm.h"
#include "halves.h"

#define ITEM half
#include "frames.h"

#define PANEL_VECTORS 3
#define PANEL_WIDTH (PANEL_VECTORS * LANES)
#define PANEL_PAIRS 512     // of a panel of b, which stays in the L2 cache
#define BLOCK_ROWS 256      // of a that meet a panel
#define BLOCK_COLUMNS 384   // whose sums are kept while more pairs are added
#define ROOM (2 * PANEL_PAIRS + 32)  // between copied rows, which do not share the places of a cache
#define CROWDED 2048        // rows that are multiples of so many halves apart share few places of a cache
#define MOST_STEP (1 << 20)  // between rows that are read where they are

// ---- tiles of sums in registers ----

// tile (TILE_ROWS x vectors, dense) = the sum over `runs` runs of `length` pairs, `run_step` apart, of rows times a panel.
typedef void pair_tile(const half *data, const int *offsets, int runs, int length,
                       ptrdiff_t run_step, const uint32_t *panel, float *tile);

#define PAIR_TILE(name, options, ADD_PAIRS, vectors)                                               \
    options static void name##_##vectors(const half *data, const int *offsets, int runs,           \
                                         int length, ptrdiff_t run_step, const uint32_t *panel,    \
                                         float *tile) {                                            \
        floats sums[TILE_ROWS][vectors] = {};                                                      \
        const half *rows[TILE_ROWS];                                                               \
        UNROLLED for (int i = 0; i < TILE_ROWS; i++) rows[i] = data + offsets[i];                  \
        for (int run = 0; run < runs; run++) {                                                     \
            for (ptrdiff_t k = 0; k < length; k++, panel += vectors * LANES) {                     \
                unsigned_ints b[vectors];                                                          \
                memcpy(b, panel, sizeof b);                                                        \
                UNROLLED for (int i = 0; i < TILE_ROWS; i++) {                                     \
                    uint32_t word;                                                                 \
                    memcpy(&word, rows[i] + 2 * k, sizeof word);                                   \
                    const unsigned_ints a = word - (unsigned_ints){};                              \
                    UNROLLED for (int j = 0; j < vectors; j++) ADD_PAIRS(sums[i][j], a, b[j]);     \
                }                                                                                  \
            }                                                                                      \
            UNROLLED for (int i = 0; i < TILE_ROWS; i++) rows[i] += run_step;                      \
        }                                                                                          \
        UNROLLED for (int i = 0; i < TILE_ROWS; i++)                                               \
            UNROLLED for (int j = 0; j < vectors; j++)                                             \
                store(tile + (i * vectors + j) * LANES, sums[i][j]);                               \
    }
#define PAIR_TILES(name, options, ADD_PAIRS)                                                       \
    PAIR_TILE(name, options, ADD_PAIRS, 1)                                                         \
    PAIR_TILE(name, options, ADD_PAIRS, 2)                                                         \
    PAIR_TILE(name, options, ADD_PAIRS, 3)                                                         \
    static pair_tile *const name[PANEL_VECTORS] = {name##_1, name##_2, name##_3};

#define FIRST(words) ((floats)((words) << 16))
#define SECOND_HALF(words) ((floats)((words) & 0xffff0000))
#define ADD_IN_TURN(sum, a, b)                                                                     \
    sum = multiply_add(SECOND_HALF(a), SECOND_HALF(b), multiply_add(FIRST(a), FIRST(b), sum))
PAIR_TILES(separate, , ADD_IN_TURN)

#ifdef __AVX512F__ // not where the build reads nothing but declarations
#include <cpuid.h>

typedef __bf16 brains __attribute__((vector_size(VECTOR_BYTES)));
#define ADD_AT_ONCE(sum, a, b) sum = __builtin_ia32_dpbf16ps_512(sum, (brains)(a), (brains)(b))
PAIR_TILES(joined, __attribute__((target("avx512bf16"))), ADD_AT_ONCE)

static int has_instruction(void) {
    uint32_t a = 0, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bit_AVX512BF16);
}

static pair_tile *const *pair_tiles(void) {
    static int known;  // threads find out the same
    if (!known) known = has_instruction() ? 1 : -1;
    return known > 0 ? joined : separate;
}
#endif

// ---- panels ----

typedef struct {
    const half *data;
    ptrdiff_t row_stride, column_stride;
} half_matrix;

typedef uint32_t word_quad __attribute__((vector_size(16)));

// Four columns whose elements are contiguous: whole pairs, 4 at a time. Return how many pairs that were.
static int pack_four(const half *b, ptrdiff_t column_stride, int pairs, uint32_t *panel, int width) {
    int k = 0;
    for (; k + 4 <= pairs; k += 4) {
        quad rows[4];
        for (int j = 0; j < 4; j++) memcpy(rows + j, b + j * column_stride + 2 * k, sizeof *rows);
        const word_quad *words = (const word_quad *)rows;
        const word_quad low0 = __builtin_shufflevector(words[0], words[1], 0, 4, 1, 5);
        const word_quad low1 = __builtin_shufflevector(words[2], words[3], 0, 4, 1, 5);
        const word_quad high0 = __builtin_shufflevector(words[0], words[1], 2, 6, 3, 7);
        const word_quad high1 = __builtin_shufflevector(words[2], words[3], 2, 6, 3, 7);
        const word_quad lines[4] = {__builtin_shufflevector(low0, low1, 0, 1, 4, 5),
                                    __builtin_shufflevector(low0, low1, 2, 3, 6, 7),
                                    __builtin_shufflevector(high0, high1, 0, 1, 4, 5),
                                    __builtin_shufflevector(high0, high1, 2, 3, 6, 7)};
        for (int i = 0; i < 4; i++) memcpy(panel + (k + i) * width, lines + i, sizeof *lines);
    }
    return k;
}

// Pack depth x columns of b into (depth + 1) / 2 rows of `width` words, with zeros behind them.
static void pack_pairs(half_matrix b, int depth, int columns, int width, uint32_t *panel) {
    const int pairs = depth / 2;
    if (b.column_stride == 1) {
        for (int k = 0; k < pairs; k++) {
            const half *first = b.data + 2 * k * b.row_stride, *second = first + b.row_stride;
            uint32_t *words = panel + k * width;
            for (int j = 0; j < columns; j++) words[j] = first[j] | (uint32_t)second[j] << 16;
        }
    } else {
        for (int j = 0; j < columns;) {
            const half *column = b.data + j * b.column_stride;
            int k = 0, count = 1;
            if (b.row_stride == 1 && j + 4 <= columns) {
                count = 4;
                k = pack_four(column, b.column_stride, pairs, panel + j, width);
            }
            for (int c = 0; c < count; c++, j++, column += b.column_stride)
                for (int rest = k; rest < pairs; rest++)
                    panel[rest * width + j] = column[2 * rest * b.row_stride] |
                        (uint32_t)column[(2 * rest + 1) * b.row_stride] << 16;
        }
    }
    if (depth % 2)
        for (int j = 0; j < columns; j++)
            panel[pairs * width + j] = b.data[(depth - 1) * b.row_stride + j * b.column_stride];
    for (int k = 0; k < (depth + 1) / 2 && columns < width; k++)
        memset(panel + k * width + columns, 0, (width - columns) * sizeof *panel);
}

// The columns of the panel that begins at a column: whole vectors, and about as many in each.
static inline int panel_width(int column, int columns) {
    const int vectors = ceil_divide(columns - column, LANES);
    const int panels = ceil_divide(vectors, PANEL_VECTORS);
    return ceil_divide(vectors, panels) * LANES;
}

// ---- a part of a sum, for some rows and all columns ----

// Rows whose pairs are some runs, as in a tile; and where the results go.
typedef struct {
    const half *data;
    const int *offsets;
    int count, runs, length;
    ptrdiff_t run_step;
    float *sums;  // of all parts so far; rows of `columns`
    half *out;
    ptrdiff_t stride;  // between rows of out
    int is_first, is_last;
} part;

static void finish_tile(const part *p, float *restrict tile, int row, int rows, int column,
                        int whole, int width, int columns) {
    for (int i = 0; i < rows; i++, tile += width) {
        float *restrict sums = p->sums + (ptrdiff_t)(row + i) * columns + column;
        half *restrict out = p->out + (row + i) * p->stride + column;
        if (!p->is_first)
            for (int j = 0; j < whole; j++) tile[j] += sums[j];
        if (!p->is_last)
            memcpy(sums, tile, whole * sizeof *tile);
        else
            for (int j = 0; j < whole; j++) out[j] = narrowed_brain(tile[j]);
    }
}

// Multiply rows by b (depth x columns), of which they have 2 * runs * length elements, or one 0 more.
static void multiply_part(const part *p, half_matrix b, int depth, int columns) {
    alignas(VECTOR_BYTES) static _Thread_local uint32_t panel[PANEL_PAIRS * PANEL_WIDTH];
    pair_tile *const *tiles = pair_tiles();
    for (int column = 0, width; column < columns; column += width) {
        width = panel_width(column, columns);
        const int whole = smaller(width, columns - column);
        const half_matrix cells = {b.data + column * b.column_stride, b.row_stride, b.column_stride};
        pack_pairs(cells, depth, whole, width, panel);
        for (int row = 0; row < p->count; row += TILE_ROWS) {
            const int rows = smaller(TILE_ROWS, p->count - row);
            alignas(VECTOR_BYTES) float tile[TILE_ROWS * PANEL_WIDTH];
            int offsets[TILE_ROWS];  // those that are missing repeat the last one
            for (int i = 0; i < TILE_ROWS; i++) offsets[i] = p->offsets[row + smaller(i, rows - 1)];
            tiles[width / LANES - 1](p->data, offsets, p->runs, p->length, p->run_step, panel, tile);
            finish_tile(p, tile, row, rows, column, whole, width, columns);
        }
    }
}

// ---- products ----

// Copy rows x depth of a, with a 0 behind rows of odd length.
static void copy_rows(half_matrix a, int rows, int depth, half *copy) {
    const int some = 32;  // whose lines stay in the cache
    for (int first = 0; first < depth; first += some) {
        const int count = smaller(some, depth - first);
        for (int i = 0; i < rows; i++) {
            const half *x = a.data + i * a.row_stride + first * a.column_stride;
            half *y = copy + i * ROOM + first;
            if (a.column_stride == 1)
                memcpy(y, x, count * sizeof *y);
            else
                for (int k = 0; k < count; k++) y[k] = x[k * a.column_stride];
        }
    }
    for (int i = 0; i < rows && depth % 2; i++) copy[i * ROOM + depth] = 0;
}

// out (rows <= BLOCK_ROWS, columns <= BLOCK_COLUMNS, row stride `stride`) = a * b
static void multiply_brains(half_matrix a, half_matrix b, half *out, ptrdiff_t stride, int rows,
                            int columns, int depth) {
    static _Thread_local half copies[BLOCK_ROWS * ROOM];  // too large for a stack
    static _Thread_local float sums[BLOCK_ROWS * BLOCK_COLUMNS];
    int offsets[BLOCK_ROWS];
    const int parts = ceil_divide(depth, 2 * PANEL_PAIRS);
    const int longest = round_up(ceil_divide(depth, parts), 2);
    const int is_in_place = a.column_stride == 1 && depth % 2 == 0 && a.row_stride % CROWDED &&
                            a.row_stride < MOST_STEP;
    part p = {.offsets = offsets, .count = rows, .runs = 1, .sums = sums, .out = out, .stride = stride};
    for (int i = 0; i < rows; i++) offsets[i] = i * (is_in_place ? a.row_stride : ROOM);
    for (int k = 0, length; k < depth; k += length) {
        length = smaller(longest, depth - k);
        const half_matrix lines = {a.data + k * a.column_stride, a.row_stride, a.column_stride};
        if (!is_in_place) copy_rows(lines, rows, length, copies);
        p.data = is_in_place ? lines.data : copies;
        p.length = (length + 1) / 2;
        p.is_first = k == 0, p.is_last = k + length == depth;
        multiply_part(&p, (half_matrix){b.data + k * b.row_stride, b.row_stride, b.column_stride},
                      length, columns);
    }
}

// descriptor of the batch: axes, sizes[axes], a_strides[axes], b_strides[axes], in elements.
KERNEL(matmul_bfloat16)(const half *a, const half *b, half *out, int rows, int columns, int depth,
                        int a_row_stride, int a_column_stride, int b_row_stride,
                        int b_column_stride, const int *descriptor) {
    const int axes = descriptor[0];
    const int *sizes = descriptor + 1, *a_strides = sizes + axes, *b_strides = a_strides + axes;
    int index[MAX_AXES] = {0};
    ptrdiff_t a_offset = 0, b_offset = 0;
    do {
        for (int j = 0; j < columns; j += BLOCK_COLUMNS)
            for (int i = 0; i < rows; i += BLOCK_ROWS)
                multiply_brains(
                    (half_matrix){a + a_offset + (ptrdiff_t)i * a_row_stride, a_row_stride,
                                  a_column_stride},
                    (half_matrix){b + b_offset + (ptrdiff_t)j * b_column_stride, b_row_stride,
                                  b_column_stride},
                    out + (ptrdiff_t)i * columns + j, columns, smaller(BLOCK_ROWS, rows - i),
                    smaller(BLOCK_COLUMNS, columns - j), depth);
        out += (ptrdiff_t)rows * columns;
    } while (step_axes(axes, sizes, index, a_strides, b_strides, &a_offset, &b_offset));
}

// ---- convolutions of images with an even number of channels ----

// scratch: see brain_scratch.
KERNEL(convolution_direct_bfloat16)(const half *x, const half *filter, half *out, const window *w,
                                    int out_channels, float *scratch) {
    const plan p = plan_of(w, BAND);
    const int deepest = PANEL_PAIRS, pairs = p.length / 2;
    half *frame = (half *)(scratch + BAND * out_channels);
    EACH_BAND(p, x, frame)
            part some = {.offsets = cells.offsets,
                         .count = cells.pixels,
                         .run_step = p.run_step,
                         .sums = scratch,
                         .out = out + first * out_channels,
                         .stride = out_channels};
            for (int run = 0; run < p.runs; run += some.runs) {
                some.runs = pairs > deepest ? 1 : smaller(deepest / pairs, p.runs - run);
                const int parts = ceil_divide(pairs, deepest);
                for (int from = 0; from < pairs; from += some.length) {
                    some.length = smaller(ceil_divide(pairs, parts), pairs - from);
                    some.data = cells.data + run * p.run_step + 2 * from;
                    some.is_first = run + from == 0;
                    some.is_last = run + some.runs == p.runs && from + some.length == pairs;
                    const ptrdiff_t row = (ptrdiff_t)run * p.length + 2 * from;
                    multiply_part(&some, (half_matrix){filter + row * out_channels, out_channels, 1},
                                  2 * some.runs * some.length, out_channels);
                }
            }
        }
}

// The number of float32 of scratch memory that it needs.
EXPORTED(brain_scratch) int64_t brain_scratch(const window *w, int out_channels) {
    const plan p = plan_of(w, BAND);
    return 1 + (int64_t)BAND * out_channels + (frame_size(&p) + 1) / 2;
}
