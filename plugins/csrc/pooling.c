// Pooling over windows of channels-last images, vectorised over channels. Padding is ignored; every
// window contains a cell of its image.
#include "halves.h"
#include "window.h"

#define CELLS                                                                                      \
    ((layers.last - layers.first) * (rows.last - rows.first) * (columns.last - columns.first))

// Whether the windows cover each cell of an axis once.
static inline int is_tiled(const axis *a) {
    return a->before == 0 && a->filter == a->stride && (a->dilation == 1 || a->filter == 1) &&
           a->out * a->stride == a->size;
}

static inline int is_tiled_window(const window *w) {
    return is_tiled(&w->depth) && is_tiled(&w->height) && is_tiled(&w->width);
}

#define FEW_CELLS 4

// Whether each cell is in one window, and each window has four cells, which are then found once for all windows:
// `offsets` are their distances from the first one.
static inline int has_few_cells(const window *w, ptrdiff_t offsets[FEW_CELLS]) {
    if (!is_tiled_window(w) || cell_count(w) != FEW_CELLS) return 0;
    for (int cell = 0; cell < FEW_CELLS; cell++) {
        const int column = cell % w->width.filter, rows = cell / w->width.filter;
        const int row = rows % w->height.filter, layer = rows / w->height.filter;
        offsets[cell] = (((ptrdiff_t)layer * w->height.size + row) * w->width.size + column) * w->channels;
    }
    return 1;
}

// Visit such windows in order: `first` is the offset of the first cell, and y that of the result.
#define EACH_TILE(w, ...)                                                                          \
    ptrdiff_t y = 0;                                                                               \
    for (int layer = 0; layer < (w)->batch * (w)->depth.out; layer++)                              \
        for (int row = 0; row < (w)->height.out; row++) {                                          \
            const ptrdiff_t line = (ptrdiff_t)layer * (w)->depth.stride * (w)->height.size +       \
                                   row * (w)->height.stride;                                       \
            ptrdiff_t first = line * (w)->width.size * (w)->channels;                              \
            for (int column = 0; column < (w)->width.out; column++, y += (w)->channels,            \
                     first += (ptrdiff_t)(w)->width.stride * (w)->channels) {                      \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }

// The arrays of a kernel, and where one of its windows is.
typedef struct {
    const void *x;
    void *out;
    int32_t *positions;
    const window *w;
    int offset, image;
    span layers, rows, columns;
    ptrdiff_t y;
} pooled;

// Visit the windows in order. One function does so for all types, because the walk is longer than what they do.
static ONCE void each_window(pooled p, void (*visit)(const pooled *)) {
    EACH_WINDOW(p.w, {
        p.image = image, p.layers = layers, p.rows = rows, p.columns = columns, p.y = y;
        visit(&p);
    })
}

#define LARGEST(dtype, type, effort)                                                               \
    SHORT_LOOPS effort KERNEL(max_pool_##dtype)(const type *restrict x, type *restrict out,        \
                                                const window *w) {                                 \
        ptrdiff_t offsets[FEW_CELLS];                                                              \
        if (has_few_cells(w, offsets)) {                                                           \
            EACH_TILE(w, {                                                                         \
                for (int k = 0; k < w->channels; k++) {                                            \
                    type best = x[first + k];                                                      \
                    UNROLLED for (int cell = 1; cell < FEW_CELLS; cell++) {                        \
                        const type value = x[first + offsets[cell] + k];                           \
                        best = ((value > best) | (value != value)) ? value : best;                 \
                    }                                                                              \
                    out[y + k] = best;                                                             \
                }                                                                                  \
            })                                                                                     \
            return;                                                                                \
        }                                                                                          \
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
    static effort void find_positions_##dtype(const pooled *p) {                                   \
        const span layers = p->layers, rows = p->rows, columns = p->columns;                       \
        const window *w = p->w;                                                                    \
        const type *x = p->x;                                                                      \
        type *out = (type *)p->out + p->y;                                                         \
        int32_t *positions = p->positions + p->y;                                                  \
        const int image = p->image;                                                                \
        int is_first = 1;                                                                          \
        EACH_CELL(w, {                                                                             \
            const int32_t position = (int32_t)cell + image * p->offset;                            \
            if (is_first)                                                                          \
                for (int k = 0; k < w->channels; k++)                                              \
                    out[k] = x[cell + k], positions[k] = position + k;                             \
            else                                                                                   \
                replace_##dtype(x + cell, position, out, positions, w->channels);                  \
            is_first = 0;                                                                          \
        })                                                                                         \
    }                                                                                              \
    /* positions: of the first largest elements, or the first NaN, plus image * offset */          \
    KERNEL(max_pool_with_argmax_##dtype)(const type *restrict x, type *restrict out,               \
                                         const window *w, int32_t *restrict positions,             \
                                         int offset) {                                             \
        each_window((pooled){x, out, positions, w, offset, 0, {}, {}, {}, 0},                      \
                    find_positions_##dtype);                                                       \
    }
EACH_INTEGER(LARGEST)
LARGEST(float32, float, FAST)
LARGEST(float64, double, FAST)

#define VECTOR_float32 floats
#define VECTOR_float64 doubles
#define MASK_float32 ints
#define MASK_float64 longs

#define POOLING(dtype, type, effort)                                                               \
    /* The first cell of a window that equals the maximum, or is NaN like it, gets dy. Where each  \
       cell is in one window, the others get 0, and dx is written once. */                         \
    static inline __attribute__((always_inline)) void give_##dtype(                                \
        const type *restrict dy, const type *restrict x, const type *restrict out,                 \
        type *restrict dx, const window *w, int is_once) {                                         \
        const int lanes = VECTOR_BYTES / sizeof(type);                                             \
        EACH_WINDOW(w, {                                                                           \
            int k = 0;                                                                             \
            for (; k + lanes <= w->channels; k += lanes) {                                         \
                VECTOR_##dtype best, value, sum = {};                                              \
                MASK_##dtype rest;                                                                 \
                memcpy(&best, out + y + k, sizeof best);                                           \
                memcpy(&rest, dy + y + k, sizeof rest);                                            \
                EACH_CELL(w, {                                                                     \
                    memcpy(&value, x + cell + k, sizeof value);                                    \
                    const MASK_##dtype found = (value == best) | (value != value);                 \
                    if (!is_once) memcpy(&sum, dx + cell + k, sizeof sum);                         \
                    const VECTOR_##dtype given = (VECTOR_##dtype)(rest & found);                   \
                    value = is_once ? given : sum + given;                                         \
                    memcpy(dx + cell + k, &value, sizeof value);                                   \
                    rest &= ~found;                                                                \
                })                                                                                 \
            }                                                                                      \
            for (; k < w->channels; k++) {                                                         \
                type rest = dy[y + k];                                                             \
                EACH_CELL(w, {                                                                     \
                    const type value = x[cell + k];                                                \
                    const bool found = (value == out[y + k]) | (value != value);                   \
                    const type given = found ? rest : 0;                                           \
                    dx[cell + k] = is_once ? given : dx[cell + k] + given;                         \
                    rest = found ? 0 : rest;                                                       \
                })                                                                                 \
            }                                                                                      \
        })                                                                                         \
    }                                                                                              \
    KERNEL(max_pool_gradient_##dtype)(const type *dy, const type *x, const type *out, type *dx,    \
                                      const window *w) {                                           \
        const int lanes = VECTOR_BYTES / sizeof(type);                                             \
        ptrdiff_t offsets[FEW_CELLS];                                                              \
        if (w->channels % lanes == 0 && has_few_cells(w, offsets)) {                               \
            EACH_TILE(w, {                                                                         \
                for (int k = 0; k < w->channels; k += lanes) {                                     \
                    VECTOR_##dtype best, values[FEW_CELLS];                                        \
                    MASK_##dtype rest;                                                             \
                    memcpy(&best, out + y + k, sizeof best);                                       \
                    memcpy(&rest, dy + y + k, sizeof rest);                                        \
                    UNROLLED for (int cell = 0; cell < FEW_CELLS; cell++)                          \
                        memcpy(values + cell, x + first + offsets[cell] + k, sizeof best);         \
                    UNROLLED for (int cell = 0; cell < FEW_CELLS; cell++) {                        \
                        const VECTOR_##dtype value = values[cell];                                 \
                        const MASK_##dtype found = (value == best) | (value != value);             \
                        const MASK_##dtype given = rest & found;                                   \
                        memcpy(dx + first + offsets[cell] + k, &given, sizeof given);              \
                        rest &= ~found;                                                            \
                    }                                                                              \
                }                                                                                  \
            })                                                                                     \
            return;                                                                                \
        }                                                                                          \
        if (is_tiled_window(w)) {                                                                  \
            give_##dtype(dy, x, out, dx, w, 1);                                                    \
            return;                                                                                \
        }                                                                                          \
        memset(dx, 0, sizeof(type) * w->batch * image_size(w));                                    \
        give_##dtype(dy, x, out, dx, w, 0);                                                        \
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

// ---- halves: converted in registers, and rounded once ----

#ifndef __wasm__
#define SOME 64  // channels, whose numbers stay in registers if there are as many

// START of some channels, ADD the x of each of the other cells, and what is stored at the END.
#define POOL_SOME(width, widened, narrowed, START, ADD, END)                             \
    for (int k = 0; k < width; k++) values[k] = START;                                    \
    EACH_CELL(w, {                                                                                 \
        for (int k = 0; k < width; k++) {                                                 \
            const float value = widened(x[cell + first + k]);                                      \
            const float other = values[k];                                                         \
            values[k] = ADD;                                                                       \
        }                                                                                          \
    })                                                                                             \
    for (int k = 0; k < width; k++) out[y + first + k] = narrowed(END);
#define POOL_HALVES(name, dtype, widened, narrowed, START, ADD, END)                               \
    KERNEL(name##_##dtype)(const half *restrict x, half *restrict out, const window *w) {          \
        EACH_WINDOW(w, {                                                                           \
            for (int first = 0; first < w->channels; first += SOME) {                              \
                const int width = smaller(SOME, w->channels - first);                              \
                [[maybe_unused]] const float count = CELLS;                                        \
                float values[SOME];                                                                \
                if (width == SOME) {                                                               \
                    POOL_SOME(SOME, widened, narrowed, START, ADD, END)                          \
                } else {                                                                           \
                    POOL_SOME(width, widened, narrowed, START, ADD, END)                         \
                }                                                                                  \
            }                                                                                      \
        })                                                                                         \
    }
#define GREATER (((value > other) | (value != value)) ? value : other)
#define HALF_POOLING(dtype, widened, narrowed)                                                     \
    POOL_HALVES(max_pool, dtype, widened, narrowed, -__builtin_inff(), GREATER, values[k])         \
    POOL_HALVES(avg_pool, dtype, widened, narrowed, 0, other + value, values[k] / count)
HALF_POOLING(float16, widened, narrowed)
HALF_POOLING(bfloat16, widened_brain, narrowed_brain)
#endif
