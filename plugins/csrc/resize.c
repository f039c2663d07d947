// Images of another size, row by row: rows are interpolated first, then their columns.
#include "pixels.h"

// The geometry as the host writes it to linear memory.
typedef struct {
    int height, width, channels;
    int out_height, out_width;
    int align_corners, half_pixel_centers;
    int first, last;  // the rows of the results to compute
} resizing;

__attribute__((noinline)) static place place_between(int step, int length, int count,
                                                     const resizing *r) {
    double at = r->align_corners && count > 1 ? step * ((length - 1) / (count - 1.))
                : r->half_pixel_centers       ? (step + 0.5) * ((double)length / count) - 0.5
                                              : step * ((double)length / count);
    at = at < 0 ? 0 : at > length - 1 ? length - 1 : at;
    const int low = (int)at;
    return (place){low, smaller(low + 1, length - 1), at - low};
}

// Integers avoid rounding errors.
__attribute__((noinline)) static place nearest_place(int step, int length, int count,
                                                     const resizing *r) {
    int64_t low = (int64_t)step * length / count;
    if (r->align_corners && count > 1)
        low = (2 * (int64_t)step * (length - 1) + count - 1) / (2 * ((int64_t)count - 1));
    else if (r->half_pixel_centers)
        low = (2 * (int64_t)step + 1) * length / (2 * (int64_t)count);
    return (place){low, low, 0};
}

typedef place place_of(int step, int length, int count, const resizing *r);

// The places of all columns, as offsets in a row.
__attribute__((noinline)) static void place_columns(const resizing *r, place_of *find,
                                                    place *columns) {
    for (int j = 0; j < r->out_width; j++) {
        const place at = find(j, r->width, r->out_width, r);
        columns[j] = (place){at.low * r->channels, at.high * r->channels, at.share};
    }
}

// Visit the rows i of the result; `image` is the offset of their image.
#define EACH_ROW(r)                                                                                \
    const int channels = (r)->channels, length = (r)->width * channels;                            \
    ptrdiff_t image = 0;                                                                           \
    for (int n = 0; n < batch; n++, image += (ptrdiff_t)(r)->height * length)                      \
        for (int i = (r)->first; i < (r)->last; i++)

// scratch: the places of the columns, and one row of the images.
#define RESIZING(dtype, type, effort)                                                              \
    SHORT_LOOPS static inline void stretch_##dtype(const type *restrict line, type *restrict out,  \
                                                   const place *restrict columns, int width,       \
                                                   int channels) {                                 \
        for (int j = 0; j < width; j++, out += channels) {                                         \
            const type *first = line + columns[j].low, *second = line + columns[j].high;           \
            const type share = columns[j].share;                                                   \
            for (int k = 0; k < channels; k++)                                                     \
                out[k] = first[k] + (second[k] - first[k]) * share;                                \
        }                                                                                          \
    }                                                                                              \
    SHORT_LOOPS effort KERNEL(resize_bilinear_##dtype)(const type *restrict x, type *restrict out, \
                                                       int batch, const resizing *r,               \
                                                       place *columns) {                           \
        type *restrict line = (type *)(columns + r->out_width);                                    \
        place_columns(r, place_between, columns);                                                  \
        EACH_ROW(r) {                                                                              \
            const place row = place_between(i, r->height, r->out_height, r);                       \
            const type *top = x + image + (ptrdiff_t)row.low * length;                             \
            const type *bottom = x + image + (ptrdiff_t)row.high * length;                         \
            const type share = row.share;                                                          \
            for (int k = 0; k < length; k++) line[k] = top[k] + (bottom[k] - top[k]) * share;      \
            WITH_CHANNELS(stretch_##dtype, type, channels, line, out, columns, r->out_width);      \
            out += r->out_width * channels;                                                        \
        }                                                                                          \
    }                                                                                              \
    SHORT_LOOPS static inline void shrink_##dtype(const type *restrict dy, type *restrict line,    \
                                                  const place *restrict columns, int width,        \
                                                  int channels) {                                  \
        for (int j = 0; j < width; j++, dy += channels) {                                          \
            type *first = line + columns[j].low, *second = line + columns[j].high;                 \
            const type share = columns[j].share;                                                   \
            for (int k = 0; k < channels; k++) first[k] += dy[k] * (1 - share);                    \
            if (share)                                                                             \
                for (int k = 0; k < channels; k++) second[k] += dy[k] * share;                     \
        }                                                                                          \
    }                                                                                              \
    effort static void add_##dtype(const type *restrict line, type *restrict dx, int count,        \
                                   type share) {                                                   \
        for (int k = 0; k < count; k++) dx[k] += line[k] * share;                                  \
    }                                                                                              \
    effort KERNEL(resize_gradient_##dtype)(const type *restrict dy, type *restrict dx, int batch,  \
                                           const resizing *r, int is_nearest, place *columns) {    \
        place_of *find = is_nearest ? nearest_place : place_between;                               \
        type *line = (type *)(columns + r->out_width);                                             \
        place_columns(r, find, columns);                                                           \
        EACH_ROW(r) {                                                                              \
            const place row = find(i, r->height, r->out_height, r);                                \
            memset(line, 0, length * sizeof(type));                                                \
            WITH_CHANNELS(shrink_##dtype, type, channels, dy, line, columns, r->out_width);        \
            dy += r->out_width * channels;                                                         \
            add_##dtype(line, dx + image + (ptrdiff_t)row.low * length, length, 1 - row.share);    \
            if (row.share)                                                                         \
                add_##dtype(line, dx + image + (ptrdiff_t)row.high * length, length, row.share);   \
        }                                                                                          \
    }
EACH_FLOAT(RESIZING)

#define NEAREST(item_size, type)                                                                   \
    SHORT_LOOPS static inline void pick_##item_size(const type *restrict line, type *restrict out, \
                                                    const place *restrict columns, int width,      \
                                                    int channels) {                                \
        for (int j = 0; j < width; j++, out += channels)                                           \
            for (int k = 0; k < channels; k++) out[k] = line[columns[j].low + k];                  \
    }                                                                                              \
    SHORT_LOOPS KERNEL(resize_nearest_##item_size)(const type *x, type *out, int batch,            \
                                                   const resizing *r, place *columns) {            \
        place_columns(r, nearest_place, columns);                                                  \
        EACH_ROW(r) {                                                                              \
            const place row = nearest_place(i, r->height, r->out_height, r);                       \
            const type *line = x + image + (ptrdiff_t)row.low * length;                            \
            WITH_CHANNELS(pick_##item_size, type, channels, line, out, columns, r->out_width);     \
            out += r->out_width * channels;                                                        \
        }                                                                                          \
    }
EACH_ITEM_SIZE(NEAREST)
