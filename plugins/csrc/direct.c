// Convolution of float32 and its filter gradient, without packed patches: a micro-kernel reads the
// numbers of images one by one, where they are. For processors only.
//
// The results are computed in bands of neighbouring pixels. What the windows of a band meet is copied
// to a frame, with zeros for the padding, so that all windows look alike: the numbers that a window
// meets are some runs, equally far apart. Where there is no padding, the images are the frame.
#include "gemm.h"
#include "tiles.h"
#include "window.h"

#define NUMBER float
#define VECTOR floats
#define FUSED multiply_add
#define PACKED "ps"
#define SHORT_BAND 128      // pixels at a time in the gradient, where they stay in the L1 cache
#define PANEL_FLOATS 10000  // of a part of the filters that stays in the L1 cache
#define MOST_VECTORS 3      // of a tile
#define PANEL_WIDTH (MOST_VECTORS * LANES)
#define ROWS_AHEAD 16       // rows of filters that are copied later

#define ITEM float
#include "frames.h"

// ---- tiles: the sums of some rows and vectors, in registers ----

#if defined(__AVX512F__) || !defined(__x86_64__)  // there are 32 registers
#define MOST_ROWS 8
#define EACH_HEIGHT(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v) X(7, v) X(8, v)
#define HEIGHTS(f, v)                                                                              \
    {f##_1_##v, f##_2_##v, f##_3_##v, f##_4_##v, f##_5_##v, f##_6_##v, f##_7_##v, f##_8_##v}
#else
#define MOST_ROWS 4
#define EACH_HEIGHT(X, v) X(1, v) X(2, v) X(3, v) X(4, v)
#define HEIGHTS(f, v) {f##_1_##v, f##_2_##v, f##_3_##v, f##_4_##v}
#endif

// What becomes of sums, bias and limits, and what a tile fetches meanwhile: a place for each of its products.
typedef struct {
    float bias[PANEL_WIDTH], least, most;
    const float *ahead;
    ptrdiff_t ahead_step;
} ending;

static inline floats limited(floats y, floats least, floats most) {
    y = choose(y <= least, least, y);
    return choose(y > most, most, y);
}

// out[i] = (out[i] +) the sum over the cells of window i times a panel.
#define TILE(rows, vectors)                                                                        \
    static void tile_##rows##_##vectors(const float *data, const int *offsets, int runs,           \
                                        int length, ptrdiff_t run_step, const float *panel,        \
                                        float *out, ptrdiff_t stride, int accumulate,              \
                                        const ending *end) {                                       \
        floats sums[rows][vectors] = {};                                                           \
        const float *pixels[rows];                                                                 \
        UNROLLED for (int i = 0; i < rows; i++) pixels[i] = data + offsets[i];                     \
        const float *ahead = end->ahead;                                                           \
        for (int run = 0; run < runs; run++) {                                                     \
            for (int k = 0; k < length; k++, panel += vectors * LANES) {                           \
                ROW(b, panel, vectors)                                                             \
                __builtin_prefetch(ahead);                                                         \
                ahead += end->ahead_step;                                                          \
                UNROLLED for (int i = 0; i < rows; i++) {                                          \
                    floats a = splat(pixels[i][k]);                                                \
                    IN_ORDER(a);                                                                   \
                    UNROLLED for (int j = 0; j < vectors; j++) ADD_PRODUCT(sums[i][j], a, b[j]);   \
                }                                                                                  \
            }                                                                                      \
            UNROLLED for (int i = 0; i < rows; i++) pixels[i] += run_step;                         \
        }                                                                                          \
        UNROLLED for (int j = 0; j < vectors; j++)                                                 \
            UNROLLED for (int i = 0; i < rows; i++) {                                              \
                float *target = out + i * stride + j * LANES;                                      \
                floats y = sums[i][j];                                                             \
                if (accumulate) y += load(target);                                                 \
                y += load(end->bias + j * LANES);                                                  \
                store(target, limited(y, splat(end->least), splat(end->most)));                    \
            }                                                                                      \
    }
EACH_HEIGHT(TILE, 1)
EACH_HEIGHT(TILE, 2)
EACH_HEIGHT(TILE, 3)

static void (*const tiles[MOST_VECTORS][MOST_ROWS])(const float *, const int *, int, int, ptrdiff_t,
                                                    const float *, float *, ptrdiff_t, int,
                                                    const ending *) = {
    HEIGHTS(tile, 1), HEIGHTS(tile, 2), HEIGHTS(tile, 3)};

// The columns of the panel that begins at a column: whole vectors, and about as many in each.
static inline int panel_width(int column, int columns) {
    const int vectors = ceil_divide(columns - column, LANES);
    const int panels = ceil_divide(vectors, MOST_VECTORS);
    return ceil_divide(vectors, panels) * LANES;
}

// Return the rows first <= k < first + count of a panel, which are copied unless they are contiguous. Each lies in another
// page than the one before, and the processor fetches ahead within a page only.
SHORT_LOOPS static const float *packed(const float *filter, int columns, int column, int width,
                                       int first, int count, float *room) {
    const float *source = filter + (ptrdiff_t)first * columns + column;
    if (width == columns) return source;
    const int whole = smaller(width, columns - column);
    for (int k = 0; k < count; k++, source += columns) {
        if ((ptrdiff_t)(count - k) * columns >= column + width) {  // else it ends behind the last row
            for (int j = 0; j < width; j += LANES) {
                __builtin_prefetch(source + ROWS_AHEAD * (ptrdiff_t)columns + j, 0, 2);
                store(room + k * width + j, load(source + j));
            }
        } else {
            ONE_BY_ONE for (int j = 0; j < width; j++) room[k * width + j] = j < whole ? source[j] : 0;
        }
    }
    return room;
}

// Add to the results of a band what some runs give, or a part of one.
static void convolve_band(const plan *p, const band *cells, int run, int runs, int from, int length,
                          const float *filter, int out_channels, float *out, int accumulate,
                          const float *bias, float least, float most) {
    float room[PANEL_FLOATS];
    const float *data = cells->data + run * p->run_step + from;
    for (int column = 0, width; column < out_channels; column += width) {
        width = panel_width(column, out_channels);
        const int whole = smaller(width, out_channels - column), k = run * p->length + from;
        const float *panel =
            packed(filter, out_channels, column, width, k, runs * length, room);
        ending end = {.least = least, .most = most};
        for (int j = 0; j < width; j++) end.bias[j] = bias && j < whole ? bias[column + j] : -0.f;
        const int next_column = column + width < out_channels ? column + width : 0;
        const int next_k = next_column ? k : k + runs * length;
        const float *next = filter + (ptrdiff_t)next_k * out_channels + next_column;
        const int next_width = next_k < p->runs * p->length ? width : 0;
        for (int row = 0, rows, j = 0; row < cells->pixels; row += rows, j += LANES) {
            const int rest = cells->pixels - row;
            rows = ceil_divide(rest, ceil_divide(rest, MOST_ROWS));
            // The first tiles fetch the next panel, a vector of each row, and the others the pixels of the next tile.
            const int is_first = j < next_width;
            end.ahead = is_first ? next + j : data + cells->offsets[smaller(row + rows, cells->pixels - 1)];
            end.ahead_step = is_first ? out_channels : rows;
            float tile[MOST_ROWS * PANEL_WIDTH], *target = out + (ptrdiff_t)row * out_channels + column;
            float *place = whole == width ? target : tile;
            const ptrdiff_t stride = whole == width ? out_channels : width;
            for (int i = 0; i < rows && place == tile && accumulate; i++)
                memcpy(tile + i * width, target + (ptrdiff_t)i * out_channels, whole * sizeof *tile);
            tiles[width / LANES - 1][rows - 1](data, cells->offsets + row, runs, length,
                                               p->run_step, panel, place, stride, accumulate, &end);
            for (int i = 0; i < rows && place == tile; i++)
                memcpy(target + (ptrdiff_t)i * out_channels, tile + i * width, whole * sizeof *tile);
        }
    }
}

// out = the results, plus a bias that may be absent, within limits. scratch: see direct_scratch.
KERNEL(convolution_direct_float32)(const float *x, const float *filter, const float *bias,
                                   float *out, const window *w, int out_channels, float least,
                                   float most, float *scratch) {
    const plan p = plan_of(w, BAND);
    const int deepest = PANEL_FLOATS / panel_width(0, out_channels);
    EACH_BAND(p, x, scratch)
            float *target = out + first * out_channels;
            for (int run = 0, runs; run < p.runs; run += runs) {
                runs = p.length > deepest ? 1 : smaller(deepest / p.length, p.runs - run);
                const int parts = ceil_divide(p.length, deepest);
                for (int from = 0, length; from < p.length; from += length) {
                    length = smaller(ceil_divide(p.length, parts), p.length - from);
                    const int is_last = run + runs == p.runs && from + length == p.length;
                    convolve_band(&p, &cells, run, runs, from, length, filter, out_channels, target,
                                  run + from > 0, is_last ? bias : NULL,
                                  is_last ? least : -__builtin_inff(),
                                  is_last ? most : __builtin_inff());
                }
            }
        }
}

// ---- the gradient of the filter ----

// out[i] += the sums over all pixels of cell i of their windows times their rows of dy.
#define SLOPE_TILE(rows, vectors)                                                                  \
    static void slopes_##rows##_##vectors(const float *data, const int *offsets, int pixels,       \
                                          const ptrdiff_t *places, const float *dy,                \
                                          ptrdiff_t dy_stride, float *out, ptrdiff_t stride) {     \
        floats sums[rows][vectors] = {};                                                           \
        ptrdiff_t cells[rows];                                                                     \
        UNROLLED for (int i = 0; i < rows; i++) cells[i] = places[i];                              \
        for (int p = 0; p < pixels; p++, dy += dy_stride) {                                        \
            const float *pixel = data + offsets[p];                                                \
            ROW(b, dy, vectors)                                                                    \
            UNROLLED for (int i = 0; i < rows; i++) {                                              \
                floats a = splat(pixel[cells[i]]);                                                 \
                IN_ORDER(a);                                                                       \
                UNROLLED for (int j = 0; j < vectors; j++) ADD_PRODUCT(sums[i][j], a, b[j]);       \
            }                                                                                      \
        }                                                                                          \
        UNROLLED for (int i = 0; i < rows; i++)                                                    \
            UNROLLED for (int j = 0; j < vectors; j++) {                                           \
                float *target = out + i * stride + j * LANES;                                      \
                store(target, load(target) + sums[i][j]);                                          \
            }                                                                                      \
    }
EACH_HEIGHT(SLOPE_TILE, 1)
EACH_HEIGHT(SLOPE_TILE, 2)
EACH_HEIGHT(SLOPE_TILE, 3)

static void (*const slope_tiles[MOST_VECTORS][MOST_ROWS])(const float *, const int *, int,
                                                          const ptrdiff_t *, const float *,
                                                          ptrdiff_t, float *, ptrdiff_t) = {
    HEIGHTS(slopes, 1), HEIGHTS(slopes, 2), HEIGHTS(slopes, 3)};

// dfilter += the gradient, for the numbers begin <= k < end of each filter. scratch: see direct_scratch.
KERNEL(convolution_direct_filter_gradient_float32)(const float *x, const float *dy, float *dfilter,
                                                   const window *w, int out_channels, int begin,
                                                   int end, float *scratch) {
    const plan p = plan_of(w, SHORT_BAND);
    EACH_BAND(p, x, scratch)
            float room[SHORT_BAND * PANEL_WIDTH];
            const float *slopes = dy + first * out_channels;
            for (int column = 0, width; column < out_channels; column += width) {
                width = panel_width(column, out_channels);
                const int whole = smaller(width, out_channels - column);
                const float *panel = slopes + column;
                if (whole < width)
                    panel = packed(slopes, out_channels, column, width, 0, cells.pixels, room);
                for (int k = begin, rows; k < end; k += rows) {
                    rows = ceil_divide(end - k, ceil_divide(end - k, MOST_ROWS));
                    ptrdiff_t places[MOST_ROWS];
                    for (int i = 0; i < rows; i++)
                        places[i] = (k + i) / p.length * p.run_step + (k + i) % p.length;
                    float tile[MOST_ROWS * PANEL_WIDTH];
                    float *target = dfilter + (ptrdiff_t)k * out_channels + column;
                    float *place = whole == width ? target : tile;
                    const ptrdiff_t stride = whole == width ? out_channels : width;
                    for (int i = 0; i < rows && place == tile; i++)
                        memcpy(tile + i * width, target + (ptrdiff_t)i * out_channels,
                               whole * sizeof *tile);
                    slope_tiles[width / LANES - 1][rows - 1](cells.data, cells.offsets,
                                                             cells.pixels, places, panel,
                                                             whole < width ? width : out_channels,
                                                             place, stride);
                    for (int i = 0; i < rows && place == tile; i++)
                        memcpy(target + (ptrdiff_t)i * out_channels, tile + i * width,
                               whole * sizeof *tile);
                }
            }
        }
}

// The number of elements of scratch memory that both need.
EXPORTED(direct_scratch) int64_t direct_scratch(const window *w) {
    const plan p = plan_of(w, BAND), q = plan_of(w, SHORT_BAND);
    return 1 + (frame_size(&p) > frame_size(&q) ? frame_size(&p) : frame_size(&q));
}
