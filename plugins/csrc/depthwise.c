// Depthwise convolution of NHWC images: each channel meets a filter of its own.
//
// All cells of a window are multiplied by their weights; those in the padding are read from a row
// of zeros. Where channels have several filters, the host repeats the channels of the images.
#include <math.h>

#include "gemm.h"
#include "window.h"

#define WIDTH 16   // channels whose sums are in registers, in the gradient of the filter
#define VECTORS 4  // of channels whose sums are in registers, of a window at the edge
#if defined(__AVX512F__) || defined(__ARM_NEON)
#define WINDOWS 8  // neighbouring windows whose sums are in registers, of a vector of channels
#else
#define WINDOWS 4
#endif

#define VECTOR_float32 floats
#define VECTOR_float64 doubles
#define MASK_float32 ints
#define MASK_float64 longs
#define MULTIPLY_ADD_float32 multiply_add
#define MULTIPLY_ADD_float64 multiply_add_doubles

// The row of an image that meets row i of the filter, or -1 if it is padding.
static inline ptrdiff_t row_offset(const window *w, int image, int out_row, int i) {
    const int row = start_of(&w->height, out_row) + i * w->height.dilation;
    if (!is_inside(&w->height, row)) return -1;
    return ((ptrdiff_t)image * w->height.size + row) * w->width.size * w->channels;
}

// ---- windows of 3 x 3 neighbouring pixels, `stride` pixels apart, of a vector of channels ----

#ifdef __wasm__
#define SLIDES 1
// They slide along three rows of pixels: each pixel and each weight is read once. Columns of the filter are added in their
// order, so that few sums are under way.
#define ADD_COLUMN(dtype, sum, j)                                                                  \
    MULTIPLY_ADD_##dtype(                                                                          \
        pixels[2], weights[6 + j],                                                                 \
        MULTIPLY_ADD_##dtype(pixels[1], weights[3 + j],                                            \
                             MULTIPLY_ADD_##dtype(pixels[0], weights[j], sum)))
#define FIRST_COLUMN(dtype) ADD_COLUMN(dtype, ((VECTOR_##dtype){}), 0)
#define READ_COLUMN                                                                                \
    UNROLLED for (int i = 0; i < 3; i++) memcpy(pixels + i, lines[i], sizeof *pixels);             \
    UNROLLED for (int i = 0; i < 3; i++) lines[i] += channels;
#define PAD_COLUMN UNROLLED for (int i = 0; i < 3; i++) memset(pixels + i, 0, sizeof *pixels);
#define NINE_CELLS(dtype, type)                                                                    \
    SLIDING(dtype, type, 1)                                                                        \
    SLIDING(dtype, type, 2)                                                                        \
    /* All channels; the last vector may overlap the one before. What becomes of the sums is left to do. With `left`\
       and `right`, the first and the last window begin and end in the padding. */                 \
    static void slide_##dtype(const type *const *rows, ptrdiff_t start, const type *filter,        \
                              ending_##dtype end, int channels, type *out, int windows,            \
                              int stride, int left, int right) {                                   \
        const int lanes = VECTOR_BYTES / sizeof(type);                                             \
        for (int c = 0; c < channels; c += lanes) {                                                \
            c = smaller(c, channels - lanes);                                                      \
            const type *lines[3];                                                                  \
            for (int i = 0; i < 3; i++) lines[i] = rows[i] + start + c;                            \
            (stride == 1 ? slide_by_1_##dtype : slide_by_2_##dtype)(                               \
                lines, filter + c, channels, out + c, windows, left, right);                       \
        }                                                                                          \
        if (!end.bias && end.least == -(type)INFINITY && end.most == (type)INFINITY) return;       \
        for (; windows > 0; windows--, out += channels)                                            \
            for (int c = 0; c < channels; c++) {                                                   \
                type y = out[c] + (end.bias ? end.bias[c] : -(type)0);                             \
                y = y <= end.least ? end.least : y;                                                \
                out[c] = y > end.most ? end.most : y;                                              \
            }                                                                                      \
    }
// For a vector of channels, in a function of its own, whose weights wasmtime keeps in registers.
#define SLIDING(dtype, type, stride)                                                               \
    ONCE static void slide_by_##stride##_##dtype(const type *const *rows, const type *filter,      \
                                                 int channels, type *out, int windows, int left,   \
                                                 int right) {                                      \
        const type *lines[3] = {rows[0], rows[1], rows[2]};                                        \
        VECTOR_##dtype weights[9], pixels[3], sum, next;                                           \
        UNROLLED for (int k = 0; k < 9; k++)                                                       \
            memcpy(weights + k, filter + (ptrdiff_t)k * channels, sizeof *weights);                \
        if (left) {                                                                                \
            PAD_COLUMN                                                                             \
        } else {                                                                                   \
            READ_COLUMN                                                                            \
        }                                                                                          \
        next = sum = FIRST_COLUMN(dtype);                                                          \
        if (stride == 1) {                                                                         \
            READ_COLUMN                                                                            \
            sum = ADD_COLUMN(dtype, next, 1);                                                      \
            next = FIRST_COLUMN(dtype);                                                            \
        }                                                                                          \
        for (windows -= right; windows > 0; windows--, out += channels) {                          \
            if (stride == 2) {                                                                     \
                READ_COLUMN                                                                        \
                sum = ADD_COLUMN(dtype, sum, 1);                                                   \
            }                                                                                      \
            READ_COLUMN                                                                            \
            sum = ADD_COLUMN(dtype, sum, 2);                                                       \
            memcpy(out, &sum, sizeof sum);                                                         \
            if (stride == 1) sum = ADD_COLUMN(dtype, next, 1);                                     \
            next = FIRST_COLUMN(dtype);                                                            \
            if (stride == 2) sum = next;                                                           \
        }                                                                                          \
        if (!right) return;                                                                        \
        if (stride == 2) {                                                                         \
            READ_COLUMN                                                                            \
            sum = ADD_COLUMN(dtype, sum, 1);                                                       \
        }                                                                                          \
        PAD_COLUMN                                                                                 \
        sum = ADD_COLUMN(dtype, sum, 2);                                                           \
        memcpy(out, &sum, sizeof sum);                                                             \
    }
#define SUM_NINE(dtype)
#define SLIDE(dtype)                                                                               \
    if (nine && outer > inner) {                                                                   \
        slide_##dtype(rows, (ptrdiff_t)(start_of(width, inner) + left) * channels, filter, end,    \
                      channels, out + (ptrdiff_t)inner * channels, outer - inner, nine, left,      \
                      right);                                                                      \
        continue;                                                                                  \
    }
#else
#define SLIDES 0
// A pixel is read once for all windows that it belongs to.
#define NINE_CELLS(dtype, type)                                                                    \
    static inline __attribute__((always_inline)) void sum_nine_##dtype(                            \
        const type *const *cells, const type *filter, ending_##dtype end, int channels,            \
        ptrdiff_t c, type *out, int windows, int stride) {                                         \
        VECTOR_##dtype sums[WINDOWS] = {}, a, b[3];                                                \
        UNROLLED for (int i = 0; i < 3; i++) {                                                     \
            const type *pixel = cells[3 * i] + c, *weights = filter + 3 * i * channels + c;        \
            UNROLLED for (int j = 0; j < 3; j++) memcpy(b + j, weights + j * channels, sizeof a);  \
            UNROLLED for (int j = 0; j < (windows - 1) * stride + 3; j++) {                        \
                memcpy(&a, pixel + j * channels, sizeof a);                                        \
                UNROLLED for (int k = 0; k < 3; k++) {                                             \
                    const int n = (j - k) / stride;                                                \
                    if (j >= k && n * stride == j - k && n < windows)                              \
                        sums[n] = MULTIPLY_ADD_##dtype(a, b[k], sums[n]);                          \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        a = -(type)0 - (VECTOR_##dtype){};                                                         \
        if (end.bias) memcpy(&a, end.bias + c, sizeof a);                                          \
        UNROLLED for (int i = 0; i < windows; i++) {                                               \
            b[0] = limited_##dtype(sums[i] + a, end);                                              \
            memcpy(out + (ptrdiff_t)i * channels + c, b, sizeof a);                                \
        }                                                                                          \
    }
#define SUM_NINE(dtype)                                                                            \
    else if (windows == 4 && nine == 1)                                                            \
        sum_nine_##dtype(cells, filter, end, channels, c, out, 4, 1);                              \
    else if (windows == 4 && nine == 2)                                                            \
        sum_nine_##dtype(cells, filter, end, channels, c, out, 4, 2);                              \
    else if (windows == WINDOWS && nine == 1)                                                      \
        sum_nine_##dtype(cells, filter, end, channels, c, out, WINDOWS, 1);                        \
    else if (windows == WINDOWS && nine == 2)                                                      \
        sum_nine_##dtype(cells, filter, end, channels, c, out, WINDOWS, 2);
#define SLIDE(dtype)
#endif

// What becomes of sums: a bias for each channel, which may be absent, and limits.
#define FORWARD(dtype, type, effort)                                                               \
    typedef struct {                                                                               \
        const type *bias;                                                                          \
        type least, most;                                                                          \
    } ending_##dtype;                                                                              \
    static inline VECTOR_##dtype limited_##dtype(VECTOR_##dtype y, ending_##dtype end) {           \
        const VECTOR_##dtype least = end.least - (VECTOR_##dtype){};                               \
        const VECTOR_##dtype most = end.most - (VECTOR_##dtype){};                                 \
        const MASK_##dtype low = y <= least;                                                       \
        y = (VECTOR_##dtype)((low & (MASK_##dtype)least) | (~low & (MASK_##dtype)y));              \
        const MASK_##dtype high = y > most;                                                        \
        return (VECTOR_##dtype)((high & (MASK_##dtype)most) | (~high & (MASK_##dtype)y));          \
    }                                                                                              \
    /* `vectors` vectors of channels of `windows` windows, whose cells are `step` apart: the sum of\
       cells[k] * filter[k], for the channels from c on. */                                        \
    static inline __attribute__((always_inline)) void sum_tile_##dtype(                            \
        const type *const *cells, int count, const type *filter, ending_##dtype end, int channels, \
        ptrdiff_t step, ptrdiff_t c, type *out, int windows, int vectors) {                        \
        const int lanes = VECTOR_BYTES / sizeof(type);                                             \
        VECTOR_##dtype sums[WINDOWS * VECTORS] = {}, a, b;                                         \
        for (int k = 0; k < count; k++) {                                                          \
            const type *cell = cells[k] + c, *weights = filter + (ptrdiff_t)k * channels + c;      \
            UNROLLED for (int j = 0; j < vectors; j++) {                                           \
                memcpy(&b, weights + j * lanes, sizeof b);                                         \
                UNROLLED for (int i = 0; i < windows; i++) {                                       \
                    memcpy(&a, cell + i * step + j * lanes, sizeof a);                             \
                    sums[i * vectors + j] = MULTIPLY_ADD_##dtype(a, b, sums[i * vectors + j]);     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        UNROLLED for (int j = 0; j < vectors; j++) {                                               \
            b = -(type)0 - (VECTOR_##dtype){}; /* -0 leaves all numbers as they are */             \
            if (end.bias) memcpy(&b, end.bias + c + j * lanes, sizeof b);                          \
            UNROLLED for (int i = 0; i < windows; i++) {                                           \
                a = limited_##dtype(sums[i * vectors + j] + b, end);                               \
                memcpy(out + (ptrdiff_t)i * channels + c + j * lanes, &a, sizeof a);               \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    NINE_CELLS(dtype, type)                                                                        \
    /* All channels of 1, 4 or WINDOWS windows, the first of which is at `cells`. The last vector  \
       may overlap the one before. `nine` is the distance of windows of 3 x 3 neighbouring pixels, \
       of which there are the first cells of the rows only, or 0. */                               \
    static void sum_cells_##dtype(const type *const *cells, int count, const type *filter,         \
                                  ending_##dtype end, int channels, ptrdiff_t step,                \
                                  type *out, int windows, [[maybe_unused]] int nine) {             \
        const int lanes = VECTOR_BYTES / sizeof(type);                                             \
        int c = 0;                                                                                 \
        if (windows == 1)                                                                          \
            for (; c + VECTORS * lanes <= channels; c += VECTORS * lanes)                          \
                sum_tile_##dtype(cells, count, filter, end, channels, step, c, out, 1, VECTORS);   \
        for (; c < channels && lanes <= channels; c += lanes) {                                    \
            c = smaller(c, channels - lanes);                                                      \
            if (windows == 1)                                                                      \
                sum_tile_##dtype(cells, count, filter, end, channels, step, c, out, 1, 1);         \
            SUM_NINE(dtype)                                                                        \
            else if (windows == 4)                                                                 \
                sum_tile_##dtype(cells, count, filter, end, channels, step, c, out, 4, 1);         \
            else                                                                                   \
                sum_tile_##dtype(cells, count, filter, end, channels, step, c, out, WINDOWS, 1);   \
        }                                                                                          \
        for (; c < channels; c++)                                                                  \
            for (int i = 0; i < windows; i++) {                                                    \
                type y = 0;                                                                        \
                for (int k = 0; k < count; k++)                                                    \
                    y += cells[k][c + i * step] * filter[(ptrdiff_t)k * channels + c];             \
                if (end.bias) y += end.bias[c];                                                    \
                y = y <= end.least ? end.least : y;                                                \
                out[(ptrdiff_t)i * channels + c] = y > end.most ? end.most : y;                    \
            }                                                                                      \
    }                                                                                              \
    /* scratch: a pointer for each row and each cell of the filter, then a row of zeros */         \
    effort KERNEL(depthwise_##dtype)(const type *x, const type *filter, type *out,                 \
                                     const window *w, const type *bias, type least, type most,     \
                                     void *scratch) {                                              \
        const ending_##dtype end = {bias, least, most};                                            \
        const axis *width = &w->width;                                                             \
        const int channels = w->channels, count = cell_count(w);                                   \
        const ptrdiff_t step = (ptrdiff_t)width->stride * channels;                                \
        const int is_nine = w->height.filter == 3 && width->filter == 3 && width->dilation == 1 && \
                            channels >= VECTOR_BYTES / (int)sizeof(type);                          \
        const int nine = is_nine && width->stride <= 2 ? width->stride : 0;                        \
        const int row_size = width->size * channels;                                               \
        /* windows that slide may begin or end one pixel beside their rows */                      \
        const int begin = start_of(width, 0), end_of_last = start_of(width, width->out - 1) + 2;   \
        [[maybe_unused]] const int left = SLIDES && nine && begin == -1;                           \
        [[maybe_unused]] const int right = SLIDES && nine && end_of_last == width->size;           \
        /* the other windows from `inner` to `outer` lie inside */                                 \
        const int inner = smaller(positions_of(width, 0).first, width->out) - left;                \
        const int last = positions_of(width, width->filter - 1).last + right;                      \
        const int outer = last > inner ? last : inner;                                             \
        const type **rows = scratch, **cells = rows + w->height.filter;                            \
        const int even = (w->height.filter + count + 1) / 2 * 2; /* so that doubles are aligned */ \
        const type *zeros = memset(rows + even, 0, row_size * sizeof(type));                       \
        for (int line = 0; line < w->batch * w->height.out; line++, out += width->out * channels) {\
            for (int i = 0; i < w->height.filter; i++) {                                           \
                const ptrdiff_t offset =                                                           \
                    row_offset(w, line / w->height.out, line % w->height.out, i);                  \
                rows[i] = offset < 0 ? zeros : x + offset;                                         \
            }                                                                                      \
            for (int column = 0; column < width->out; column++) {                                  \
                if (column == inner) column = outer;                                               \
                if (column == width->out) break;                                                   \
                const type **cell = cells;                                                         \
                for (int i = 0; i < w->height.filter; i++)                                         \
                    for (int j = 0; j < width->filter; j++) {                                      \
                        const int place = start_of(width, column) + j * width->dilation;           \
                        const ptrdiff_t offset = (ptrdiff_t)place * channels;                      \
                        *cell++ = is_inside(width, place) ? rows[i] + offset : zeros;              \
                    }                                                                              \
                sum_cells_##dtype(cells, count, filter, end, channels,  step,                      \
                                  out + (ptrdiff_t)column * channels, 1, nine);                    \
            }                                                                                      \
            SLIDE(dtype)                                                                           \
            for (int column = inner, windows; column < outer; column += windows) {                 \
                const int rest = outer - column, all = outer - inner;                              \
                windows = all < 4 ? 1 : rest > 4 && all >= WINDOWS ? WINDOWS : 4;                  \
                column = smaller(column, outer - windows); /* it may overlap the ones before */    \
                const int start = start_of(width, column);                                         \
                for (int i = 0; i < w->height.filter; i++)                                         \
                    for (int j = 0; j < (nine && windows > 1 ? 1 : width->filter); j++)            \
                        cells[i * width->filter + j] =                                             \
                            rows[i] + (ptrdiff_t)(start + j * width->dilation) * channels;         \
                sum_cells_##dtype(cells, count, filter, end, channels,  step,                      \
                                  out + (ptrdiff_t)column * channels, windows, nine);              \
            }                                                                                      \
        }                                                                                          \
    }
EACH_FLOAT(FORWARD)

// ---- gradients ----

// Visit the runs of windows of one row in which cell (i, j) of the filter, with number k, lies in
// the image: `count` pixels of x from offset `from` on, and as many windows from offset `to` on.
#define EACH_RUN(w)                                                                                \
    const axis *width = &(w)->width;                                                               \
    const int channels = (w)->channels, step = width->stride * channels;                           \
    for (int row = 0; row < (w)->batch * (w)->height.out; row++)                                   \
        for (int k = 0; k < cell_count(w); k++) {                                                  \
            const int i = k / width->filter;                                                       \
            const span columns = positions_of(width, k % width->filter);                           \
            const int count = columns.last - columns.first;                                        \
            const ptrdiff_t start =                                                                \
                row_offset(w, row / (w)->height.out, row % (w)->height.out, i);                    \
            if (start < 0 || count <= 0) continue;                                                 \
            const ptrdiff_t to = ((ptrdiff_t)row * width->out + columns.first) * channels;         \
            const ptrdiff_t from =                                                                 \
                start + (columns.start + columns.first * width->stride) * channels;

#define GRADIENTS(dtype, type, effort)                                                             \
    KERNEL(depthwise_input_gradient_##dtype)(const type *restrict dy, const type *restrict filter, \
                                             type *restrict dx, const window *w) {                 \
        memset(dx, 0, sizeof(type) * w->batch * image_size(w));                                    \
        EACH_RUN(w)                                                                                \
            for (int n = 0; n < count; n++)                                                        \
                for (int c = 0; c < channels; c++)                                                 \
                    dx[from + (ptrdiff_t)n * step + c] +=                                          \
                        dy[to + (ptrdiff_t)n * channels + c] * filter[(ptrdiff_t)k * channels + c];\
        }                                                                                          \
    }                                                                                              \
    /* dfilter += the sums; the window may have some cells of the filter only. */                  \
    KERNEL(depthwise_filter_gradient_##dtype)(const type *restrict x, const type *restrict dy,     \
                                              type *restrict dfilter, const window *w) {           \
        EACH_RUN(w)                                                                                \
            type *out = dfilter + (ptrdiff_t)k * channels;                                         \
            int c = 0;                                                                             \
            for (; c + WIDTH <= channels; c += WIDTH) {                                            \
                const type *pixel = x + from + c, *slope = dy + to + c;                            \
                type sums[WIDTH] = {0};                                                            \
                for (int n = 0; n < count; n++, pixel += step, slope += channels)                  \
                    for (int l = 0; l < WIDTH; l++) sums[l] += pixel[l] * slope[l];                \
                for (int l = 0; l < WIDTH; l++) out[c + l] += sums[l];                             \
            }                                                                                      \
            for (; c < channels; c++) {                                                            \
                const type *pixel = x + from + c, *slope = dy + to + c;                            \
                type sum = 0;                                                                      \
                for (int n = 0; n < count; n++, pixel += step, slope += channels)                  \
                    sum += *pixel * *slope;                                                        \
                out[c] += sum;                                                                     \
            }                                                                                      \
        }                                                                                          \
    }
EACH_FLOAT(GRADIENTS)
