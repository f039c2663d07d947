// Images that are cut, turned and transformed: each pixel of a result shows a point of an image,
// the nearest pixel or the weighted pixels around. A gradient goes back to the same pixels.
//
// Points and weights are computed in double precision for images of any type, a row at a time.
#include <math.h>

#include "pixels.h"

// The geometry as the host writes it to linear memory.
typedef struct {
    int batch, height, width, channels;
    int out_height, out_width;
    int is_bilinear, fill_mode;
    int first, last;  // the rows of the results to compute
} view;

enum { FILL_CONSTANT, FILL_REFLECT, FILL_WRAP, FILL_NEAREST };

// A pixel of the images, counted over all of them, or OUTSIDE; and the share that it has. There are
// four taps for each pixel of a result, or one for the nearest pixel.
#define OUTSIDE (-1)
typedef struct {
    int pixel;
    double weight;
} tap;

static inline int taps_per_pixel(const view *v) { return v->is_bilinear ? 4 : 1; }

// ---- from points to taps ----

// The position on an axis that continues it to any whole place, or OUTSIDE.
__attribute__((noinline)) static int continued(double at, int length, int fill_mode) {
    if (fill_mode == FILL_CONSTANT) return OUTSIDE;
    if (fill_mode == FILL_NEAREST) return at < 0 ? 0 : length - 1;
    const double period = fill_mode == FILL_REFLECT ? 2. * length : length;
    at = fmod(at, period);
    if (at < 0) at += period;
    return (int)(at < length ? at : period - 1 - at);
}

static inline int position_at(double at, int length, int fill_mode) {
    return at >= 0 && at < length ? (int)at : continued(at, length, fill_mode);
}

static inline place place_at(double at, int length, const view *v) {
    if (!v->is_bilinear) {
        const int nearest = position_at(floor(at + 0.5), length, v->fill_mode);
        return (place){nearest, nearest, 0};
    }
    const double low = floor(at), share = at - low;
    const int first = position_at(low, length, v->fill_mode);
    return (place){first, share > 0 ? position_at(low + 1, length, v->fill_mode) : first, share};
}

static const place nowhere = {OUTSIDE, OUTSIDE, 0};

static inline void set_taps(const view *v, int image, place y, place x, tap *taps) {
    const int upper = (image * v->height + y.low) * v->width;
    const int lower = (image * v->height + y.high) * v->width;
    taps[0] = (tap){y.low < 0 || x.low < 0 ? OUTSIDE : upper + x.low,  //
                    (1 - y.share) * (1 - x.share)};
    if (!v->is_bilinear) return;
    taps[1] = (tap){y.low < 0 || x.high < 0 ? OUTSIDE : upper + x.high, (1 - y.share) * x.share};
    taps[2] = (tap){y.high < 0 || x.low < 0 ? OUTSIDE : lower + x.low, y.share * (1 - x.share)};
    taps[3] = (tap){y.high < 0 || x.high < 0 ? OUTSIDE : lower + x.high, y.share * x.share};
}

// ---- the rows of results ----

// What is done with one row of a result, whose taps are given. `fill` holds the channels of a pixel
// outside, then zeros, because the filling may be infinite and its weight 0.
typedef void consumer(void *row, void *images, const view *v, const tap *taps, const void *fill);

// The place of one of `count` evenly spaced points between two fractions of an axis; one alone is
// in the middle. A point outside is nowhere.
static place place_between(const double *ends, int step, int count, int length, const view *v) {
    const double share = count == 1 ? 0.5 : step == count - 1 ? 1 : step * (1. / (count - 1));
    const double at = (ends[0] * (1 - share) + ends[2] * share) * (length - 1);
    return at >= 0 && at <= length - 1 ? place_at(at, length, v) : nowhere;
}

// scratch: the places of the columns, then the taps of a row.
static void show_boxes(const view *v, const double *box, const int32_t *numbers, int count,
                       consumer *consume, char *row, int row_size, void *images, const void *fill,
                       place *columns) {
    const int per_pixel = taps_per_pixel(v);
    tap *taps = (tap *)(columns + v->out_width);
    for (int n = 0; n < count; n++, box += 4) {
        const int image = numbers[n] + (numbers[n] < 0 ? v->batch : 0);
        const bool exists = image >= 0 && image < v->batch;
        for (int j = 0; j < v->out_width; j++)
            columns[j] = place_between(box + 1, j, v->out_width, v->width, v);
        for (int i = v->first; i < v->last; i++, row += row_size) {
            const place y = place_between(box, i, v->out_height, v->height, v);
            for (int j = 0; j < v->out_width; j++) {
                const bool is_inside = exists && y.low != OUTSIDE && columns[j].low != OUTSIDE;
                set_taps(v, image, is_inside ? y : nowhere, is_inside ? columns[j] : nowhere,
                         taps + j * per_pixel);
                if (!exists) taps[j * per_pixel].weight = 0;  // shows zeros, not the filling
            }
            consume(row, images, v, taps, fill);
        }
    }
}

// A cosine is not exactly 0, which would decide between two pixels.
static inline double rounded(double at) { return nearbyint(at * 1e9) / 1e9; }

// `step` is 8 if each image has a transform of its own, else 0. scratch: the taps of a row.
static void show_transformed(const view *v, const double *t, int step, int is_rounded,
                             consumer *consume, char *row, int row_size, void *images,
                             const void *fill, tap *taps) {
    const int per_pixel = taps_per_pixel(v);
    for (int image = 0; image < v->batch; image++, t += step)
        for (int i = v->first; i < v->last; i++, row += row_size) {
            for (int j = 0; j < v->out_width; j++) {
                const double depth = t[6] * j + t[7] * i + 1;
                double y = (t[3] * j + t[4] * i + t[5]) / depth;
                double x = (t[0] * j + t[1] * i + t[2]) / depth;
                if (is_rounded) y = rounded(y), x = rounded(x);
                const bool is_known = fabs(y) < INFINITY && fabs(x) < INFINITY;
                set_taps(v, image, is_known ? place_at(y, v->height, v) : nowhere,
                         is_known ? place_at(x, v->width, v) : nowhere, taps + j * per_pixel);
            }
            consume(row, images, v, taps, fill);
        }
}

// ---- the kernels: forward, rows are made of pixels; backward, they are added in double ----

#define SHOWN(direction, dtype, type)                                                              \
    KERNEL(crop_and_resize##direction##_##dtype)(                                                  \
        type *result, void *images, const view *v, const double *boxes, const int32_t *numbers,    \
        int count, const type *fill, void *scratch) {                                              \
        show_boxes(v, boxes, numbers, count, use##direction##_##dtype, (char *)result,             \
                   v->out_width * v->channels * sizeof(type), images, fill, scratch);              \
    }                                                                                              \
    KERNEL(transform##direction##_##dtype)(type *result, void *images, const view *v,              \
                                           const double *transforms, int step, int is_rounded,     \
                                           const type *fill, void *scratch) {                      \
        show_transformed(v, transforms, step, is_rounded, use##direction##_##dtype,                \
                         (char *)result, v->out_width * v->channels * sizeof(type), images, fill,  \
                         scratch);                                                                 \
    }

#define SAMPLING(dtype, type, effort)                                                              \
    static inline const type *shown_##dtype(const type *images, const tap *t, const type *fill,    \
                                            int channels) {                                        \
        if (t->pixel != OUTSIDE) return images + (ptrdiff_t)t->pixel * channels;                   \
        return (type)t->weight == 0 ? fill + channels : fill;                                      \
    }                                                                                              \
    SHORT_LOOPS static inline void pick_##dtype(type *restrict out, const type *images,            \
                                                const tap *t, const type *fill, int width,         \
                                                int channels) {                                    \
        for (; width > 0; width--, t++, out += channels) {                                         \
            const type *pixel = shown_##dtype(images, t, fill, channels);                          \
            for (int k = 0; k < channels; k++) out[k] = pixel[k];                                  \
        }                                                                                          \
    }                                                                                              \
    SHORT_LOOPS static inline void mix_##dtype(type *restrict out, const type *images,             \
                                               const tap *t, const type *fill, int width,          \
                                               int channels) {                                     \
        for (; width > 0; width--, t += 4, out += channels) {                                      \
            const type *a = shown_##dtype(images, t, fill, channels);                              \
            const type *b = shown_##dtype(images, t + 1, fill, channels);                          \
            const type *c = shown_##dtype(images, t + 2, fill, channels);                          \
            const type *d = shown_##dtype(images, t + 3, fill, channels);                          \
            const type of_a = t[0].weight, of_b = t[1].weight;                                     \
            const type of_c = t[2].weight, of_d = t[3].weight;                                     \
            for (int k = 0; k < channels; k++)                                                     \
                out[k] = a[k] * of_a + b[k] * of_b + c[k] * of_c + d[k] * of_d;                    \
        }                                                                                          \
    }                                                                                              \
    SHORT_LOOPS effort static void use_##dtype(void *row, void *images, const view *v,             \
                                               const tap *taps, const void *fill) {                \
        const int width = v->out_width, channels = v->channels;                                    \
        if (v->is_bilinear)                                                                        \
            WITH_CHANNELS(mix_##dtype, type, channels, row, images, taps, fill, width);            \
        else                                                                                       \
            WITH_CHANNELS(pick_##dtype, type, channels, row, images, taps, fill, width);           \
    }                                                                                              \
    SHORT_LOOPS effort static void use_gradient_##dtype(void *row, void *images, const view *v,    \
                                                        const tap *t, const void *) {              \
        const int channels = v->channels, per_pixel = taps_per_pixel(v);                           \
        const type *restrict dy = row;                                                             \
        for (int j = 0; j < v->out_width; j++, dy += channels)                                     \
            for (int i = 0; i < per_pixel; i++, t++) {                                             \
                if (t->pixel == OUTSIDE) continue;                                                 \
                double *restrict dx = (double *)images + (ptrdiff_t)t->pixel * channels;           \
                const double weight = t->weight;                                                   \
                for (int k = 0; k < channels; k++) dx[k] += dy[k] * weight;                        \
            }                                                                                      \
    }                                                                                              \
    SHOWN(, dtype, type)                                                                           \
    SHOWN(_gradient, dtype, type)
EACH_FLOAT(SAMPLING)
