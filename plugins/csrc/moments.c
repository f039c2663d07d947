// Variances and Euclidean norms in one pass: sums of differences from a number, and of their squares, in double.
//
// A variance takes its first element for that number, so that the squares are not much larger than the variance
// itself: n elements of float32 lose as many as n * 2^-53 of it. Float64 takes the mean in a second pass.
#include "common.h"

#ifdef __wasm__
#define WIDTH 8          // sums that do not wait for each other, and stay in registers
#else
#define WIDTH 16
#endif
#define RUN 512          // numbers that are added one after the other; more are added by halves
#define COLUMNS 64       // that are read at a time
#define RUN_ROWS 32      // of such columns
#define PART (1 << 17)   // elements of a long row, which is added part by part, so that threads may share it
#define SMALLEST 0x1p-800 // of squares that are added in double without losses
#define LARGEST 0x1p800
#define SCALE 0x1p700

typedef struct {
    double sum, squares;
} moments;

#define ADD_MOMENTS(difference)                                                                    \
    for (; count >= WIDTH; count -= WIDTH, x += WIDTH)                                             \
        UNROLLED for (int i = 0; i < WIDTH; i++) {                                                 \
            const double d = difference;                                                           \
            sums[i] += d, squares[i] += d * d;                                                     \
        }

#define MOMENTS(dtype, type, effort)                                                               \
    effort static moments moments_of_##dtype(const type *x, int count, double from, double scale) { \
        if (count > RUN) {                                                                         \
            const int half = count / (2 * WIDTH) * WIDTH;                                          \
            const moments a = moments_of_##dtype(x, half, from, scale);                            \
            const moments b = moments_of_##dtype(x + half, count - half, from, scale);             \
            return (moments){a.sum + b.sum, a.squares + b.squares};                                \
        }                                                                                          \
        double sums[WIDTH] = {}, squares[WIDTH] = {};                                              \
        moments found = {};                                                                        \
        if (scale == 1)                                                                            \
            ADD_MOMENTS(x[i] - from)                                                               \
        else                                                                                       \
            ADD_MOMENTS((x[i] - from) * scale)                                                     \
        for (int i = 0; i < count; i++) {                                                          \
            const double d = (x[i] - from) * scale;                                                \
            sums[i] += d, squares[i] += d * d;                                                     \
        }                                                                                          \
        for (int i = 0; i < WIDTH; i++) found.sum += sums[i], found.squares += squares[i];         \
        return found;                                                                              \
    }                                                                                              \
    /* The moments of a row of a length, part by part. */                                          \
    static moments moments_of_row_##dtype(const type *x, int count, double from, double scale) {   \
        moments found = moments_of_##dtype(x, smaller(PART, count), from, scale);                  \
        for (int first = PART; first < count; first += PART) {                                     \
            const moments next =                                                                   \
                moments_of_##dtype(x + first, smaller(PART, count - first), from, scale);          \
            found.sum += next.sum, found.squares += next.squares;                                  \
        }                                                                                          \
        return found;                                                                              \
    }                                                                                              \
    effort static void moments_of_columns_##dtype(const type *x, int rows, ptrdiff_t pitch, int width, \
                                                  const double *from, const double *scale,         \
                                                  double *sums, double *squares) {                 \
        if (rows > RUN_ROWS) {                                                                     \
            double more_sums[COLUMNS], more_squares[COLUMNS];                                      \
            const int half = rows / 2;                                                             \
            moments_of_columns_##dtype(x, half, pitch, width, from, scale, sums, squares);         \
            moments_of_columns_##dtype(x + half * pitch, rows - half, pitch, width, from, scale,   \
                                       more_sums, more_squares);                                   \
            for (int i = 0; i < width; i++) sums[i] += more_sums[i], squares[i] += more_squares[i]; \
            return;                                                                                \
        }                                                                                          \
        for (int i = 0; i < width; i++) sums[i] = squares[i] = 0;                                  \
        for (int row = 0; row < rows; row++, x += pitch)                                           \
            for (int i = 0; i < width; i++) {                                                      \
                const double d = (x[i] - from[i]) * scale[i];                                      \
                sums[i] += d, squares[i] += d * d;                                                 \
            }                                                                                      \
    }                                                                                              \
    /* The moments of a part of a row. */                                                          \
    KERNEL(moments_##dtype)(const type *x, double *totals, int count, double from, double scale) { \
        const moments found = moments_of_##dtype(x, count, from, scale);                           \
        totals[0] = found.sum, totals[1] = found.squares;                                          \
    }                                                                                              \
    KERNEL(variance_pitched_##dtype)(const type *x, type *out, int columns, int reduced, int pitch) { \
        double from[COLUMNS], scale[COLUMNS], sums[COLUMNS], squares[COLUMNS];                     \
        for (int i = 0; i < COLUMNS; i++) scale[i] = 1;                                            \
        for (int width; columns > 0; columns -= width, x += width, out += width) {                 \
            width = smaller(COLUMNS, columns);                                                     \
            for (int i = 0; i < width; i++) from[i] = x[i];                                        \
            moments_of_columns_##dtype(x, reduced, pitch, width, from, scale, sums, squares);      \
            if (sizeof(type) == sizeof(double)) {                                                  \
                for (int i = 0; i < width; i++) from[i] += sums[i] / reduced;                      \
                moments_of_columns_##dtype(x, reduced, pitch, width, from, scale, sums, squares);  \
            }                                                                                      \
            for (int i = 0; i < width; i++)                                                        \
                out[i] = (type)variance_of((moments){sums[i], squares[i]}, reduced);               \
        }                                                                                          \
    }                                                                                              \
    KERNEL(variance_##dtype)(const type *x, type *out, int outer, int reduced, int inner) {        \
        for (; outer > 0; outer--, x += (ptrdiff_t)reduced * inner, out += inner) {                \
            if (inner != 1) {                                                                      \
                variance_pitched_##dtype(x, out, inner, reduced, inner);                           \
                continue;                                                                          \
            }                                                                                      \
            moments found = moments_of_row_##dtype(x, reduced, x[0], 1);                           \
            if (sizeof(type) == sizeof(double))                                                    \
                found = moments_of_row_##dtype(x, reduced, x[0] + found.sum / reduced, 1);         \
            *out = (type)variance_of(found, reduced);                                              \
        }                                                                                          \
    }                                                                                              \
    KERNEL(norm_pitched_##dtype)(const type *x, type *out, int columns, int reduced, int pitch) {  \
        double from[COLUMNS] = {}, scale[COLUMNS], sums[COLUMNS], squares[COLUMNS];                \
        for (int width; columns > 0; columns -= width, x += width, out += width) {                 \
            width = smaller(COLUMNS, columns);                                                     \
            for (int i = 0; i < width; i++) scale[i] = 1;                                          \
            moments_of_columns_##dtype(x, reduced, pitch, width, from, scale, sums, squares);      \
            if (sizeof(type) == sizeof(double)) {                                                  \
                for (int i = 0; i < width; i++) scale[i] = scale_for(squares[i]);                  \
                moments_of_columns_##dtype(x, reduced, pitch, width, from, scale, sums, squares);  \
            }                                                                                      \
            for (int i = 0; i < width; i++) out[i] = (type)(__builtin_sqrt(squares[i]) / scale[i]); \
        }                                                                                          \
    }                                                                                              \
    KERNEL(norm_##dtype)(const type *x, type *out, int outer, int reduced, int inner) {            \
        for (; outer > 0; outer--, x += (ptrdiff_t)reduced * inner, out += inner) {                \
            if (inner != 1) {                                                                      \
                norm_pitched_##dtype(x, out, inner, reduced, inner);                               \
                continue;                                                                          \
            }                                                                                      \
            double scale = 1, squares = moments_of_row_##dtype(x, reduced, 0, 1).squares;          \
            if (sizeof(type) == sizeof(double) && (scale = scale_for(squares)) != 1)               \
                squares = moments_of_row_##dtype(x, reduced, 0, scale).squares;                    \
            *out = (type)(__builtin_sqrt(squares) / scale);                                        \
        }                                                                                          \
    }

// The variance of a number of elements; rounding may leave less than nothing.
static double variance_of(moments m, int count) {
    const double found = (m.squares - m.sum * m.sum / count) / count;
    return found < 0 ? 0 : found;
}

// By what to multiply elements so that their squares, which have been added, neither overflow nor vanish.
static double scale_for(double squares) {
    return squares > LARGEST ? 1 / SCALE : squares < SMALLEST ? SCALE : 1;
}

EACH_FLOAT(MOMENTS)
