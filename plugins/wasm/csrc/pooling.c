// Pooling over windows of NHWC images, vectorised over channels. Padding is ignored.
#include "common.h"
#include "window.h"

#define WIDTH 64  // channels that are processed together where a mask is needed

// The cells of the window at one output position that lie inside the image: [first, last) per axis,
// counted in filter cells.
typedef struct {
    int row, column, first_row, last_row, first_column, last_column;
} cells;

static inline cells cells_at(const window *w, int out_row, int out_column) {
    const int row = out_row * w->height.stride - w->height.before;
    const int column = out_column * w->width.stride - w->width.before;
    return (cells){
        row,
        column,
        ceil_divide(-row, w->height.dilation),
        smaller(w->height.filter, ceil_divide(w->height.size - row, w->height.dilation)),
        ceil_divide(-column, w->width.dilation),
        smaller(w->width.filter, ceil_divide(w->width.size - column, w->width.dilation)),
    };
}

static inline int covered(cells c) {
    const int rows = c.last_row - c.first_row, columns = c.last_column - c.first_column;
    return rows > 0 && columns > 0 ? rows * columns : 0;
}

// Visit output positions in order with `c`, the `cells` there, and `y`, their offset in the output.
#define EACH_POSITION(w)                                                                           \
    ptrdiff_t y = 0;                                                                               \
    for (int image = 0; image < (w)->batch; image++)                                               \
        for (int out_row = 0; out_row < (w)->height.out; out_row++)                                \
            for (int out_column = 0; out_column < (w)->width.out;                                  \
                 out_column++, y += (w)->channels)

// Visit the cells of a window with `cell`, their offset in the input.
#define EACH_CELL(w, c)                                                                            \
    for (int i = (c).first_row; i < (c).last_row; i++)                                             \
        for (int j = (c).first_column; j < (c).last_column; j++)

static inline ptrdiff_t cell_offset(const window *w, int image, cells c, int i, int j) {
    const int row = c.row + i * w->height.dilation, column = c.column + j * w->width.dilation;
    return (((ptrdiff_t)image * w->height.size + row) * w->width.size + column) * w->channels;
}

#define POOLING(dtype, type, effort)                                                               \
    effort KERNEL(max_pool_##dtype)(const type *restrict x, type *restrict out, const window *w,   \
                                    type least) {                                                  \
        EACH_POSITION(w) {                                                                         \
            const cells c = cells_at(w, out_row, out_column);                                      \
            for (int k = 0; k < w->channels; k++) out[y + k] = least;                              \
            EACH_CELL(w, c) {                                                                      \
                const type *cell = x + cell_offset(w, image, c, i, j);                             \
                for (int k = 0; k < w->channels; k++) {                                            \
                    const type value = cell[k], best = out[y + k];                                 \
                    out[y + k] = value > best || value != value ? value : best;                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* The first cell of a window that equals the maximum, or is NaN like it, gets dy. */          \
    effort static void give_##dtype(type *restrict rest, const type *restrict x,                   \
                                    const type *restrict out, type *restrict dx, int width) {      \
        for (int k = 0; k < width; k++) {                                                          \
            const bool found = (x[k] == out[k]) | (x[k] != x[k]);                                  \
            const type all = rest[k];                                                              \
            dx[k] += found ? all : 0;                                                              \
            rest[k] = found ? 0 : all;                                                             \
        }                                                                                          \
    }                                                                                              \
    effort KERNEL(max_pool_gradient_##dtype)(const type *dy, const type *x, const type *out,       \
                                             type *dx, const window *w) {                          \
        memset(dx, 0, sizeof(type) * w->batch * w->height.size * w->width.size * w->channels);     \
        EACH_POSITION(w) {                                                                         \
            const cells c = cells_at(w, out_row, out_column);                                      \
            for (int first = 0; first < w->channels; first += WIDTH) {                             \
                const int width = smaller(WIDTH, w->channels - first);                             \
                type rest[WIDTH];                                                                  \
                memcpy(rest, dy + y + first, width * sizeof(type));                                \
                EACH_CELL(w, c) {                                                                  \
                    const ptrdiff_t cell = cell_offset(w, image, c, i, j) + first;                 \
                    give_##dtype(rest, x + cell, out + y + first, dx + cell, width);               \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
EACH_NUMBER(POOLING)

#define AVERAGE_POOLING(dtype, type, effort)                                                       \
    effort KERNEL(avg_pool_##dtype)(const type *restrict x, type *restrict out, const window *w) { \
        EACH_POSITION(w) {                                                                         \
            const cells c = cells_at(w, out_row, out_column);                                      \
            const type count = covered(c);                                                         \
            for (int k = 0; k < w->channels; k++) out[y + k] = 0;                                  \
            EACH_CELL(w, c) {                                                                      \
                const type *cell = x + cell_offset(w, image, c, i, j);                             \
                for (int k = 0; k < w->channels; k++) out[y + k] += cell[k];                       \
            }                                                                                      \
            for (int k = 0; k < w->channels; k++) out[y + k] /= count;                             \
        }                                                                                          \
    }                                                                                              \
    effort KERNEL(avg_pool_gradient_##dtype)(const type *restrict dy, type *restrict dx,           \
                                             const window *w) {                                    \
        memset(dx, 0, sizeof(type) * w->batch * w->height.size * w->width.size * w->channels);     \
        EACH_POSITION(w) {                                                                         \
            const cells c = cells_at(w, out_row, out_column);                                      \
            const type share = (type)1 / covered(c);                                               \
            EACH_CELL(w, c) {                                                                      \
                type *cell = dx + cell_offset(w, image, c, i, j);                                  \
                for (int k = 0; k < w->channels; k++) cell[k] += share * dy[y + k];                \
            }                                                                                      \
        }                                                                                          \
    }
EACH_FLOAT(AVERAGE_POOLING)
