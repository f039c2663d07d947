// The geometry of a window that slides over channels-last images, as the host writes it to linear
// memory. Images with fewer than three spatial axes have leading axes of size 1.
#pragma once

#include "common.h"

typedef struct {
    int size, out;  // of the image, and the number of positions of the window
    int filter, stride, dilation;
    int before;  // cells of padding; negative if the first window begins inside the image
} axis;          // the host sees to it that no position of a cell overflows

typedef struct {
    int batch, channels;
    axis depth, height, width;
} window;

// Where the window begins at one of its positions.
static inline int start_of(const axis *a, int out) { return out * a->stride - a->before; }

static inline int is_inside(const axis *a, int cell) { return cell >= 0 && cell < a->size; }

static inline int image_size(const window *w) {
    return w->depth.size * w->height.size * w->width.size * w->channels;
}

static inline int position_count(const window *w) {
    return w->batch * w->depth.out * w->height.out * w->width.out;
}

static inline int cell_count(const window *w) {
    return w->depth.filter * w->height.filter * w->width.filter;
}

// a / b rounded up, or 0 if a is negative.
static inline int ceil_divide(int a, int b) { return a <= 0 ? 0 : b == 1 ? a : (a - 1) / b + 1; }

// The cells first <= i < last of the window at one position, along one axis, that lie in the image.
typedef struct {
    int start, first, last;
} span;

static inline span span_at(const axis *a, int out) {
    const int start = start_of(a, out), extent = (a->filter - 1) * a->dilation + 1;
    if (start >= 0 && start + extent <= a->size) return (span){start, 0, a->filter};
    return (span){start, ceil_divide(-start, a->dilation),
                  smaller(a->filter, ceil_divide(a->size - start, a->dilation))};
}

// The positions first <= out < last at which one cell of the window lies in the image.
static inline span positions_of(const axis *a, int cell) {
    const int start = cell * a->dilation - a->before;
    return (span){start, ceil_divide(-start, a->stride),
                  smaller(a->out, ceil_divide(a->size - start, a->stride))};
}

// Visit the windows in order: `layers`, `rows` and `columns` are their cells in the image, and y is
// the offset of their result.
#define EACH_WINDOW(w, ...)                                                                        \
    ptrdiff_t y = 0;                                                                               \
    for (int image = 0; image < (w)->batch; image++)                                               \
        for (int out_layer = 0; out_layer < (w)->depth.out; out_layer++) {                         \
            const span layers = span_at(&(w)->depth, out_layer);                                   \
            for (int out_row = 0; out_row < (w)->height.out; out_row++) {                          \
                const span rows = span_at(&(w)->height, out_row);                                  \
                for (int out_column = 0; out_column < (w)->width.out;                              \
                     out_column++, y += (w)->channels) {                                           \
                    const span columns = span_at(&(w)->width, out_column);                         \
                    __VA_ARGS__                                                                    \
                }                                                                                  \
            }                                                                                      \
        }

// Visit the cells of a window: x + cell are the channels of one of them.
#define EACH_CELL(w, ...)                                                                          \
    for (int l = layers.first; l < layers.last; l++)                                               \
        for (int i = rows.first; i < rows.last; i++) {                                             \
            const int layer = layers.start + l * (w)->depth.dilation;                              \
            const int row = rows.start + i * (w)->height.dilation;                                 \
            const ptrdiff_t line =                                                                 \
                (((ptrdiff_t)image * (w)->depth.size + layer) * (w)->height.size + row) *          \
                (w)->width.size;                                                                   \
            for (int j = columns.first; j < columns.last; j++) {                                   \
                const int column = columns.start + j * (w)->width.dilation;                        \
                const ptrdiff_t cell = (line + column) * (w)->channels;                            \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }
