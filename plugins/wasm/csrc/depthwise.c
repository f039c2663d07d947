// Depthwise convolution of NHWC images: each channel meets a filter of its own.
//
// All cells of a window are multiplied by their weights; those in the padding are read from a row
// of zeros. Where channels have several filters, the host repeats the channels of the images.
#include "gemm.h"
#include "window.h"

#define WIDTH 16   // channels of one window whose sums are in registers
#define WINDOWS 4  // neighbouring windows whose sums are, of a vector of channels

#define VECTOR_float32 floats
#define VECTOR_float64 doubles
#define MULTIPLY_ADD_float32 multiply_add
#define MULTIPLY_ADD_float64 multiply_add_doubles

// The row of an image that meets row i of the filter, or -1 if it is padding.
static inline ptrdiff_t row_offset(const window *w, int image, int out_row, int i) {
    const int row = start_of(&w->height, out_row) + i * w->height.dilation;
    if (!is_inside(&w->height, row)) return -1;
    return ((ptrdiff_t)image * w->height.size + row) * w->width.size * w->channels;
}

#define FORWARD(dtype, type, effort)                                                               \
    /* `vectors` vectors of channels of `windows` windows, whose cells are `step` apart: the sum of\
       cells[k] * filter[k], for the channels from c on. */                                        \
    static inline __attribute__((always_inline)) void sum_tile_##dtype(                            \
        const type *const *cells, int count, const type *filter, int channels, int step, int c,    \
        type *out, int windows, int vectors) {                                                     \
        const int lanes = VECTOR_BYTES / sizeof(type);                                             \
        VECTOR_##dtype sums[WINDOWS * WIDTH] = {0}, a, b;                                          \
        for (int k = 0; k < count; k++)                                                            \
            for (int i = 0; i < windows; i++)                                                      \
                for (int j = 0; j < vectors; j++) {                                                \
                    memcpy(&a, cells[k] + c + i * step + j * lanes, sizeof a);                     \
                    memcpy(&b, filter + k * channels + c + j * lanes, sizeof b);                   \
                    sums[i * vectors + j] = MULTIPLY_ADD_##dtype(a, b, sums[i * vectors + j]);     \
                }                                                                                  \
        for (int i = 0; i < windows; i++)                                                          \
            memcpy(out + c + i * channels, sums + i * vectors, vectors * sizeof *sums);            \
    }                                                                                              \
    static void sum_cells_##dtype(const type *const *cells, int count, const type *filter,         \
                                  int channels, int step, type *out, int windows) {                \
        const int lanes = VECTOR_BYTES / sizeof(type);                                             \
        int c = 0;                                                                                 \
        if (windows == WINDOWS)                                                                    \
            for (; c + lanes <= channels; c += lanes)                                              \
                sum_tile_##dtype(cells, count, filter, channels, step, c, out, WINDOWS, 1);        \
        else                                                                                       \
            for (; c + WIDTH <= channels; c += WIDTH)                                              \
                sum_tile_##dtype(cells, count, filter, channels, 0, c, out, 1, WIDTH / lanes);     \
        for (; c < channels; c++)                                                                  \
            for (int i = 0; i < windows; i++) {                                                    \
                type sum = 0;                                                                      \
                for (int k = 0; k < count; k++)                                                    \
                    sum += cells[k][c + i * step] * filter[k * channels + c];                      \
                out[c + i * channels] = sum;                                                       \
            }                                                                                      \
    }                                                                                              \
    /* scratch: a pointer for each row and each cell of the filter, then a row of zeros */         \
    effort KERNEL(depthwise_##dtype)(const type *x, const type *filter, type *out,                 \
                                     const window *w, void *scratch) {                             \
        const axis *width = &w->width;                                                             \
        const int channels = w->channels, count = cell_count(w), step = width->stride * channels;  \
        const int row_size = width->size * channels;                                               \
        const int inner = positions_of(width, 0).first;                                            \
        const int outer = positions_of(width, width->filter - 1).last;                             \
        const type **rows = scratch, **cells = rows + w->height.filter;                            \
        const int even = (w->height.filter + count + 1) / 2 * 2; /* so that doubles are aligned */ \
        const type *zeros = memset(rows + even, 0, row_size * sizeof(type));                       \
        for (int image = 0; image < w->batch; image++)                                             \
            for (int out_row = 0; out_row < w->height.out; out_row++)  {                           \
                for (int i = 0; i < w->height.filter; i++) {                                       \
                    const ptrdiff_t offset = row_offset(w, image, out_row, i);                     \
                    rows[i] = offset < 0 ? zeros : x + offset;                                     \
                }                                                                                  \
                for (int column = 0, windows; column < width->out; column += windows) {            \
                    windows = column >= inner && column + WINDOWS <= outer ? WINDOWS : 1;          \
                    for (int k = 0; k < count; k++) {                                              \
                        const int i = k / width->filter, j = k % width->filter;                    \
                        const int cell = start_of(width, column) + j * width->dilation;            \
                        cells[k] = is_inside(width, cell) ? rows[i] + cell * channels : zeros;     \
                    }                                                                              \
                    sum_cells_##dtype(cells, count, filter, channels, step, out, windows);         \
                    out += windows * channels;                                                     \
                }                                                                                  \
            }                                                                                      \
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
