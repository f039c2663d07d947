// Pooling over windows of channels-last images, vectorised over channels. Padding is ignored; every
// window contains a cell of its image.
#include "window.h"

#define WIDTH 64  // channels that are processed together where a mask is needed

#define CELLS                                                                                      \
    ((layers.last - layers.first) * (rows.last - rows.first) * (columns.last - columns.first))

#define LARGEST(dtype, type, effort)                                                               \
    SHORT_LOOPS effort KERNEL(max_pool_##dtype)(const type *restrict x, type *restrict out,        \
                                                const window *w) {                                 \
        EACH_WINDOW(w, {                                                                           \
            int is_first = 1;                                                                      \
            EACH_CELL(w, {                                                                         \
                if (is_first)                                                                      \
                    for (int k = 0; k < w->channels; k++) out[y + k] = x[cell + k];                \
                else                                                                               \
                    for (int k = 0; k < w->channels; k++) {                                        \
                        const type value = x[cell + k], best = out[y + k];                         \
                        out[y + k] = ((value > best) | (value != value)) ? value : best;           \
                    }                                                                              \
                is_first = 0;                                                                      \
            })                                                                                     \
        })                                                                                         \
    }                                                                                              \
    static void replace_##dtype(const type *restrict x, int32_t position, type *restrict best,     \
                                int32_t *restrict positions, int count) {                          \
        for (int k = 0; k < count; k++) {                                                          \
            const type value = x[k], old = best[k];                                                \
            const int32_t place = positions[k];                                                    \
            const bool found = (value > old) | ((value != value) & (old == old));                  \
            best[k] = found ? value : old;                                                         \
            positions[k] = found ? position + k : place;                                           \
        }                                                                                          \
    }                                                                                              \
    /* positions: of the first largest elements, or the first NaN, plus image * offset */          \
    effort KERNEL(max_pool_with_argmax_##dtype)(const type *restrict x, type *restrict out,        \
                                                const window *w, int32_t *restrict positions,      \
                                                int offset) {                                      \
        EACH_WINDOW(w, {                                                                           \
            int is_first = 1;                                                                      \
            EACH_CELL(w, {                                                                         \
                const int32_t position = cell + image * offset;                                    \
                if (is_first)                                                                      \
                    for (int k = 0; k < w->channels; k++)                                          \
                        out[y + k] = x[cell + k], positions[y + k] = position + k;                 \
                else                                                                               \
                    replace_##dtype(x + cell, position, out + y, positions + y, w->channels);      \
                is_first = 0;                                                                      \
            })                                                                                     \
        })                                                                                         \
    }
EACH_INTEGER(LARGEST)
LARGEST(float32, float, FAST)
LARGEST(float64, double, FAST)

#define POOLING(dtype, type, effort)                                                               \
    /* The first cell of a window that equals the maximum, or is NaN like it, gets dy. */          \
    static void give_##dtype(type *restrict rest, const type *restrict x,                          \
                             const type *restrict out, type *restrict dx, int width) {             \
        for (int k = 0; k < width; k++) {                                                          \
            const bool found = (x[k] == out[k]) | (x[k] != x[k]);                                  \
            const type all = rest[k];                                                              \
            dx[k] += found ? all : 0;                                                              \
            rest[k] = found ? 0 : all;                                                             \
        }                                                                                          \
    }                                                                                              \
    KERNEL(max_pool_gradient_##dtype)(const type *dy, const type *x, const type *out, type *dx,    \
                                      const window *w) {                                           \
        memset(dx, 0, sizeof(type) * w->batch * image_size(w));                                    \
        EACH_WINDOW(w, {                                                                           \
            for (int first = 0; first < w->channels; first += WIDTH) {                             \
                const int width = smaller(WIDTH, w->channels - first);                             \
                type rest[WIDTH];                                                                  \
                memcpy(rest, dy + y + first, width * sizeof(type));                                \
                EACH_CELL(w, {                                                                     \
                    give_##dtype(rest, x + cell + first, out + y + first, dx + cell + first,       \
                                 width);                                                           \
                })                                                                                 \
            }                                                                                      \
        })                                                                                         \
    }                                                                                              \
    SHORT_LOOPS KERNEL(avg_pool_##dtype)(const type *restrict x, type *restrict out,               \
                                         const window *w) {                                        \
        EACH_WINDOW(w, {                                                                           \
            const type count = CELLS;                                                              \
            for (int k = 0; k < w->channels; k++) out[y + k] = 0;                                  \
            EACH_CELL(w, {                                                                         \
                for (int k = 0; k < w->channels; k++) out[y + k] += x[cell + k];                   \
            })                                                                                     \
            for (int k = 0; k < w->channels; k++) out[y + k] /= count;                             \
        })                                                                                         \
    }                                                                                              \
    KERNEL(avg_pool_gradient_##dtype)(const type *restrict dy, type *restrict dx,                  \
                                      const window *w) {                                           \
        memset(dx, 0, sizeof(type) * w->batch * image_size(w));                                    \
        EACH_WINDOW(w, {                                                                           \
            const type share = (type)1 / CELLS;                                                    \
            EACH_CELL(w, {                                                                         \
                for (int k = 0; k < w->channels; k++) dx[cell + k] += share * dy[y + k];           \
            })                                                                                     \
        })                                                                                         \
    }
EACH_FLOAT(POOLING)
