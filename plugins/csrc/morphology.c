// Grayscale morphology on NHWC images, vectorised over channels: the largest sum of a pixel and a
// weight in each window. Padding is ignored.
#include "window.h"

#define WIDTH 64  // channels that are processed together where a sum is looked for

#define WEIGHT (((ptrdiff_t)i * w->width.filter + j) * w->channels)  // of cell (i, j) of the filter

#define DILATION(dtype, type, effort, lowest)                                                      \
    effort KERNEL(dilation_##dtype)(const type *restrict x, const type *restrict filter,           \
                                    type *restrict out, const window *w) {                         \
        EACH_WINDOW(w, {                                                                           \
            for (int k = 0; k < w->channels; k++) out[y + k] = lowest;                             \
            EACH_CELL(w, {                                                                         \
                const ptrdiff_t weight = WEIGHT;                                                   \
                for (int k = 0; k < w->channels; k++) {                                            \
                    const type sum = x[cell + k] + filter[weight + k], best = out[y + k];          \
                    out[y + k] = ((sum > best) | (sum != sum)) ? sum : best;                       \
                }                                                                                  \
            })                                                                                     \
        })                                                                                         \
    }                                                                                              \
    /* Note the sums that are larger than the best ones so far, and where they were found. */      \
    effort static void note_##dtype(const type *restrict x, const type *restrict weights,          \
                                    int32_t place, type *restrict best, int32_t *restrict places,  \
                                    int count) {                                                   \
        for (int k = 0; k < count; k++) {                                                          \
            const type sum = x[k] + weights[k], old = best[k];                                     \
            const int32_t old_place = places[k];                                                   \
            const bool found = sum > old;                                                          \
            best[k] = found ? sum : old;                                                           \
            places[k] = found ? place + k : old_place;                                             \
        }                                                                                          \
    }                                                                                              \
    /* dy is added to target, which is like the filter or like x, where the first largest sum of   \
       each window was found. */                                                                   \
    effort KERNEL(dilation_gradient_##dtype)(const type *x, const type *filter, const type *dy,    \
                                             type *target, const window *w, int is_like_filter) {  \
        EACH_WINDOW(w, {                                                                           \
            for (int first = 0; first < w->channels; first += WIDTH) {                             \
                const int count = smaller(WIDTH, w->channels - first);                             \
                type best[WIDTH];                                                                  \
                int32_t places[WIDTH];                                                             \
                int is_empty = 1;                                                                  \
                EACH_CELL(w, {                                                                     \
                    const ptrdiff_t pixel = cell + first, weight = WEIGHT + first;                 \
                    const ptrdiff_t place = is_like_filter ? weight : pixel;                       \
                    if (is_empty)                                                                  \
                        for (int k = 0; k < count; k++)                                            \
                            best[k] = x[pixel + k] + filter[weight + k], places[k] = place + k;    \
                    else                                                                           \
                        note_##dtype(x + pixel, filter + weight, place, best, places, count);      \
                    is_empty = 0;                                                                  \
                })                                                                                 \
                if (is_empty) continue;                                                            \
                for (int k = 0; k < count; k++) target[places[k]] += dy[y + first + k];            \
            }                                                                                      \
        })                                                                                         \
    }

#define ON_FLOATS(dtype, type, effort) DILATION(dtype, type, effort, -__builtin_inff())
#define ON_INTEGERS(dtype, type, effort) DILATION(dtype, type, effort, LEAST_##dtype)
EACH_FLOAT(ON_FLOATS)
EACH_INTEGER(ON_INTEGERS)
