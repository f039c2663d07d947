// Normalizations: of layers, of batches, and by neighbours on the last axis.
#include <tgmath.h>

#include "elementwise.h"

// ---- batches ----

// What differences from the mean are multiplied with.
#define INVERSE_DEVIATION(dtype, type, effort)                                                     \
    MAP(inverse_deviation, dtype, type, type, effort, 1 / sqrt(x + epsilon), type epsilon)
EACH_FLOAT(INVERSE_DEVIATION)

#define SCALED(i, j, k, l) out[i] = (x[i] - mean[j]) * factor[k] + offset[l]

// descriptor: axes, sizes, and the strides by which mean, factor and offset are broadcast to x. Rows that have the same
// of these are scaled by one call, because rows may be short.
#define BATCH_NORM(dtype, type, effort)                                                            \
    effort static void scale_##dtype(const type *restrict x, const type *restrict mean,            \
                                     const type *restrict factor, const type *restrict offset,     \
                                     type *restrict out, int rows, int count, int mean_step,       \
                                     int factor_step, int offset_step) {                           \
        for (; rows > 0; rows--, x += count, out += count)                                         \
            if (mean_step == 1 && factor_step == 1 && offset_step == 1)                            \
                for (int i = 0; i < count; i++) SCALED(i, i, i, i);                                \
            else if (mean_step == 0 && factor_step == 0 && offset_step == 0)                       \
                for (int i = 0; i < count; i++) SCALED(i, 0, 0, 0);                                \
            else if (mean_step == 0 && factor_step == 1 && offset_step == 1)                       \
                for (int i = 0; i < count; i++) SCALED(i, 0, i, i);                                \
            else                                                                                   \
                for (int i = 0; i < count; i++)                                                    \
                    SCALED(i, i * mean_step, i * factor_step, i * offset_step);                    \
    }                                                                                              \
    effort KERNEL(batch_norm_##dtype)(const type *x, const type *mean, const type *factor,         \
                                      const type *offset, type *out, const int *descriptor) {      \
        const int axes = descriptor[0], last = axes - 1, *sizes = descriptor + 1;                  \
        const int *mean_strides = sizes + axes, *factor_strides = mean_strides + axes;             \
        const int *offset_strides = factor_strides + axes, count = sizes[last];                    \
        int index[MAX_AXES] = {0}, same_index[MAX_AXES] = {0}, outer = last, rows = 1;             \
        ptrdiff_t i = 0, j = 0, k = 0, same_k = 0;                                                 \
        if (last && !mean_strides[last - 1] && !factor_strides[last - 1] &&                        \
            !offset_strides[last - 1])                                                             \
            rows = sizes[--outer];                                                                 \
        do {                                                                                       \
            scale_##dtype(x, mean + i, factor + j, offset + k, out, rows, count,                   \
                          mean_strides[last], factor_strides[last], offset_strides[last]);         \
            x += (ptrdiff_t)rows * count, out += (ptrdiff_t)rows * count;                          \
            step_axes(outer, sizes, same_index, offset_strides, offset_strides, &k, &same_k);      \
        } while (step_axes(outer, sizes, index, mean_strides, factor_strides, &i, &j));            \
    }
EACH_FLOAT(BATCH_NORM)

// ---- layers, and batches in training ----

#define SIDE 16  // numbers that are summed side by side, in vectors of any width
#define RUN_LENGTH 512  // numbers that are summed in their own precision; the sums are added in double
#define CHANNELS 64  // columns that are summed side by side
#define SUMS 256     // of long rows, of which memory delivers a part faster the longer it is
#define BLOCK_ROWS 32  // rows of columns that are summed in their own precision
#define FEW_ROWS 4     // which the cache has, unless there are more numbers in each than LONG_ROW
#define LONG_ROW 2048

// The sum of SIDE numbers in double. In wide vectors they are added by halves: one after the other, that takes longer
// than the rest of a short row.
#if VECTOR_BYTES > 16
#define SUM_OF_SIDE(type)                                                                          \
    static inline double sum_of_side_##type(const type *numbers) {                                 \
        typedef type line __attribute__((vector_size(SIDE * sizeof(type))));                       \
        typedef double wide __attribute__((vector_size(SIDE * sizeof(double))));                   \
        line x;                                                                                    \
        memcpy(&x, numbers, sizeof x);                                                             \
        const wide y = __builtin_convertvector(x, wide);                                           \
        const auto eight = __builtin_shufflevector(y, y, 0, 1, 2, 3, 4, 5, 6, 7) +                 \
                           __builtin_shufflevector(y, y, 8, 9, 10, 11, 12, 13, 14, 15);            \
        const auto four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) +                      \
                          __builtin_shufflevector(eight, eight, 4, 5, 6, 7);                       \
        return four[0] + four[2] + (four[1] + four[3]);                                            \
    }
#else
#define SUM_OF_SIDE(type)                                                                          \
    static inline double sum_of_side_##type(const type *numbers) {                                 \
        double total = 0;                                                                          \
        for (int i = 0; i < SIDE; i++) total += numbers[i];                                        \
        return total;                                                                              \
    }
#endif
SUM_OF_SIDE(float)
SUM_OF_SIDE(double)

// total += the sum of a term, an expression of i, for i < count.
#define ADD_UP(type, total, count, term)                                                           \
    for (int first_ = 0; first_ < (count); first_ += RUN_LENGTH) {                                 \
        const int last_ = smaller(first_ + RUN_LENGTH, (count));                                   \
        const int whole_ = first_ + (last_ - first_) / SIDE * SIDE;                                \
        type sums_[SIDE] = {0};                                                                    \
        for (int k_ = first_; k_ < whole_; k_ += SIDE)                                             \
            for (int j_ = 0; j_ < SIDE; j_++) {                                                    \
                const int i = k_ + j_;                                                             \
                sums_[j_] += term;                                                                 \
            }                                                                                      \
        for (int i = whole_; i < last_; i++) sums_[0] += term;                                     \
        total += sum_of_side_##type(sums_);                                                        \
    }

// totals[i] += the sum over the rows of a term, an expression of i and of what `prepare` declares for a row. The
// sums of some columns at a time stay in registers.
#define COLUMNS (LANES > 8 ? 2 * LANES : 16)
#define ADD_GROUP(type, totals, rows, first, count, prepare, term)                                 \
    for (int row = 0; row < (rows);) {                                                             \
        const int last_ = smaller(row + BLOCK_ROWS, (rows));                                       \
        type sums_[COLUMNS] = {0};                                                                 \
        for (; row < last_; row++) {                                                               \
            prepare;                                                                               \
            for (int j_ = 0; j_ < (count); j_++) {                                                 \
                const int i = (first) + j_;                                                        \
                sums_[j_] += term;                                                                 \
            }                                                                                      \
        }                                                                                          \
        for (int j_ = 0; j_ < (count); j_++) totals[(first) + j_] += sums_[j_];                    \
    }
#define ADD_COLUMNS(type, totals, rows, width, prepare, term)                                      \
    for (int first_ = 0; first_ < (width); first_ += COLUMNS) {                                    \
        const int count_ = smaller(COLUMNS, (width) - first_);                                     \
        if (count_ == COLUMNS)                                                                     \
            ADD_GROUP(type, totals, rows, first_, COLUMNS, prepare, term)                          \
        else                                                                                       \
            ADD_GROUP(type, totals, rows, first_, count_, prepare, term)                           \
    }

#ifdef __wasm__
// Sums of two rows, of which one does not wait for the other, in the order of ADD_UP.
#define ADD_UP_TWO(name, term)                                                                     \
    ONCE static void name(const float *x, int count, [[maybe_unused]] const float *means,          \
                          double *totals) {                                                        \
        _Pragma("clang fp contract(off)")                                                          \
        for (int first = 0; first < count; first += RUN_LENGTH) {                                  \
            const int last = smaller(first + RUN_LENGTH, count);                                   \
            floats sums[2][SIDE / LANES] = {};                                                     \
            int i = first;                                                                         \
            for (; i + SIDE <= last; i += SIDE)                                                    \
                UNROLLED for (int row = 0; row < 2; row++)                                         \
                    UNROLLED for (int v = 0; v < SIDE / LANES; v++) {                              \
                        const floats y = load(x + row * count + i + v * LANES);                    \
                        sums[row][v] += term(y, splat(means[row]));                                \
                    }                                                                              \
            UNROLLED for (int row = 0; row < 2; row++) {                                           \
                float side[SIDE];                                                                  \
                memcpy(side, sums[row], sizeof side);                                              \
                for (int k = i; k < last; k++) side[0] += term(x[row * count + k], means[row]);    \
                totals[row] += sum_of_side_float(side);                                            \
            }                                                                                      \
        }                                                                                          \
    }
#define ITSELF(x, mean) (x)
#define SQUARED_DIFFERENCE(x, mean) (((x) - (mean)) * ((x) - (mean)))
ADD_UP_TWO(add_up_two, ITSELF)
ADD_UP_TWO(add_up_two_squares, SQUARED_DIFFERENCE)

// Find the means and the inverses of the deviations of as many rows as there are pairs; return their number.
ONCE static int find_moments_of_pairs(const float *x, int rows, int count, float epsilon,
                                      float *means, float *inverses) {
    const int even = rows / 2 * 2;
    for (int i = 0; i < even; i += 2) {
        double totals[2] = {0};
        add_up_two(x + i * count, count, means + i, totals);
        for (int k = 0; k < 2; k++) means[i + k] = totals[k] / count;
    }
    for (int i = 0; i < even; i += 2) {
        double squares[2] = {0};
        add_up_two_squares(x + i * count, count, means + i, squares);
        for (int k = 0; k < 2; k++)
            inverses[i + k] = 1 / sqrt((float)(squares[k] / count) + epsilon);
    }
    return even;
}
#define PAIRED_ROWS_float32 find_moments_of_pairs(x, rows, count, epsilon, means, inverses)
#else
#define PAIRED_ROWS_float32 0
#endif
#define PAIRED_ROWS_float64 0

#define LAYERS(dtype, type, effort)                                                                \
    effort static type mean_of_##dtype(const type *restrict x, int count) {                        \
        double total = 0;                                                                          \
        ADD_UP(type, total, count, x[i])                                                           \
        return total / count;                                                                      \
    }                                                                                              \
    effort static type inverse_of_##dtype(const type *restrict x, int count, type mean,            \
                                          type epsilon) {                                          \
        double squares = 0;                                                                        \
        ADD_UP(type, squares, count, (x[i] - mean) * (x[i] - mean))                                \
        return 1 / sqrt((type)(squares / count) + epsilon);                                        \
    }                                                                                              \
    effort static void find_moments_##dtype(const type *restrict x, int rows, int count,           \
                                            type epsilon, type *means, type *inverses) {           \
        const int first = PAIRED_ROWS_##dtype;                                                        \
        for (int i = first; i < rows; i++) means[i] = mean_of_##dtype(x + i * count, count);       \
        for (int i = first; i < rows; i++)                                                         \
            inverses[i] = inverse_of_##dtype(x + i * count, count, means[i], epsilon);             \
    }                                                                                              \
    /* Few rows at a time: what ends the sums of one is computed beside those of the next. */      \
    effort KERNEL(layer_norm_##dtype)(const type *restrict x, const type *restrict offset,         \
                                      const type *restrict scale, type *restrict out, int rows,    \
                                      int count, type epsilon) {                                   \
        type means[FEW_ROWS], inverses[FEW_ROWS];                                                  \
        for (int some; rows > 0; rows -= some) {                                                   \
            some = count > LONG_ROW ? 1 : smaller(FEW_ROWS, rows);                                 \
            find_moments_##dtype(x, some, count, epsilon, means, inverses);                        \
            for (int row = 0; row < some; row++, x += count, out += count) {                       \
                const type mean = means[row], inverse = inverses[row];                             \
                SEVERAL_AT_A_TIME(type)                                                            \
                for (int i = 0; i < count; i++)                                                    \
                    out[i] = (x[i] - mean) * inverse * scale[i] + offset[i];                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* The mean of a row and the inverse of its deviation go to `moments`, two numbers a row. */   \
    effort KERNEL(layer_norm_gradient_##dtype)(                                                    \
        const type *restrict dy, const type *restrict x, const type *restrict scale,               \
        type *restrict dx, type *restrict moments, int rows, int count, type epsilon) {            \
        for (; rows > 0; rows--, dy += count, x += count, dx += count, moments += 2) {             \
            const type mean = moments[0] = mean_of_##dtype(x, count);                              \
            const type inverse = moments[1] = inverse_of_##dtype(x, count, mean, epsilon);         \
            double sum = 0, product = 0;                                                           \
            ADD_UP(type, sum, count, dy[i] * scale[i])                                             \
            ADD_UP(type, product, count, dy[i] * scale[i] * ((x[i] - mean) * inverse))             \
            const type average = sum / count, along = product / count;                             \
            SEVERAL_AT_A_TIME(type)                                                                \
            for (int i = 0; i < count; i++)                                                        \
                dx[i] = inverse *                                                                  \
                        (dy[i] * scale[i] - average - (x[i] - mean) * inverse * along);            \
        }                                                                                          \
    }                                                                                              \
    /* Add rows to such sums, two at a time, so that few sums are read and written. */             \
    effort static void add_rows_##dtype(const type *restrict dy, const type *restrict x,           \
                                        type *restrict slopes, type *restrict shares,              \
                                        const type *restrict moments, int rows, int pitch,         \
                                        int width) {                                               \
        int row = 0;                                                                               \
        for (; row + 2 <= rows; row += 2, dy += 2 * pitch, x += 2 * pitch, moments += 4) {         \
            const type mean = moments[0], inverse = moments[1];                                    \
            const type mean_below = moments[2], inverse_below = moments[3];                        \
            for (int i = 0; i < width; i++) {                                                      \
                const type d = dy[i], e = dy[pitch + i];                                           \
                slopes[i] = slopes[i] + d + e;                                                     \
                shares[i] = shares[i] + d * ((x[i] - mean) * inverse) +                            \
                            e * ((x[pitch + i] - mean_below) * inverse_below);                     \
            }                                                                                      \
        }                                                                                          \
        for (int i = 0; row < rows && i < width; i++) {                                            \
            slopes[i] += dy[i];                                                                    \
            shares[i] += dy[i] * ((x[i] - moments[0]) * moments[1]);                               \
        }                                                                                          \
    }                                                                                              \
    /* The sums of dy and of dy (x - mean) inverse in some columns of `rows` rows. */              \
    effort KERNEL(layer_norm_sums_##dtype)(const type *restrict dy, const type *restrict x,        \
                                           type *restrict sums, type *restrict products, int columns, \
                                           int rows, int pitch, const type *restrict moments) {    \
        for (int first = 0; first < columns; first += SUMS) {                                      \
            const int width = smaller(SUMS, columns - first);                                      \
            double totals[SUMS] = {0}, along[SUMS] = {0};                                          \
            for (int row = 0; row < rows; row += BLOCK_ROWS) {                                     \
                const ptrdiff_t place = (ptrdiff_t)row * pitch + first;                            \
                type slopes[SUMS] = {0}, shares[SUMS] = {0};                                       \
                add_rows_##dtype(dy + place, x + place, slopes, shares, moments + 2 * row,         \
                                 smaller(BLOCK_ROWS, rows - row), pitch, width);                   \
                for (int i = 0; i < width; i++) totals[i] += slopes[i], along[i] += shares[i];     \
            }                                                                                      \
            for (int i = 0; i < width; i++) sums[first + i] = totals[i];                           \
            for (int i = 0; i < width; i++) products[first + i] = along[i];                        \
        }                                                                                          \
    }
EACH_FLOAT(LAYERS)

#ifdef __wasm__
// Rows of halves are converted some at a time, and normalized while the cache has them.
#include "half_vectors.h"

#define LONGEST_ROW (1 << 17)  // which the host knows, too
#define ROWS_ELEMENTS 4096     // of short rows that are converted at a time
#define LAYERS_OF_HALVES(dtype)                                                                    \
    KERNEL(layer_norm_##dtype)(const half *x, const float *offset, const float *scale, half *out,  \
                               int rows, int count, float epsilon) {                               \
        float wide[LONGEST_ROW], y[LONGEST_ROW];                                                   \
        const int at_once = count < ROWS_ELEMENTS ? ROWS_ELEMENTS / count : 1;                     \
        for (int row = 0; row < rows; row += at_once) {                                            \
            const int some = smaller(at_once, rows - row);                                         \
            widen_##dtype(x + (ptrdiff_t)row * count, wide, some * count);                         \
            layer_norm_float32(wide, offset, scale, y, some, count, epsilon);                      \
            narrow_##dtype(y, out + (ptrdiff_t)row * count, some * count);                         \
        }                                                                                          \
    }
LAYERS_OF_HALVES(float16)
LAYERS_OF_HALVES(bfloat16)
#endif

// Sums over the rows of columns are those of parts of so many rows, which threads share.
#define PART_ROWS 2048
#define EACH_PART_OF_ROWS(rows)                                                                    \
    for (int start = 0, rows_; start < (rows) && (rows_ = smaller(PART_ROWS, (rows) - start));       \
         start += PART_ROWS)

#define CHANNEL_SUMS(dtype, type, effort)                                                          \
    /* totals += the sums over rows of x, or of (x - mean)^2. */                                   \
    ONCE effort static void add_channels_##dtype(const type *restrict x,                           \
                                                 const type *restrict means, double *totals,       \
                                                 int rows, int width, int pitch) {                 \
        if (means)                                                                                 \
            ADD_COLUMNS(type, totals, rows, width, const type *y = x + (ptrdiff_t)row * pitch,     \
                        (y[i] - means[i]) * (y[i] - means[i]))                                     \
        else                                                                                       \
            ADD_COLUMNS(type, totals, rows, width, const type *y = x + (ptrdiff_t)row * pitch,     \
                        y[i])                                                                      \
    }                                                                                              \
    /* totals += the sums over rows of dy, and along += those of dy (x - mean). */                 \
    ONCE effort static void add_slopes_##dtype(const type *restrict dy, const type *restrict x,    \
                                               const type *restrict means, double *totals,         \
                                               double *along, int rows, int width, int pitch) {    \
        ADD_COLUMNS(type, totals, rows, width, const type *d = dy + (ptrdiff_t)row * pitch, d[i])  \
        ADD_COLUMNS(type, along, rows, width, const type *d = dy + (ptrdiff_t)row * pitch;         \
                    const type *y = x + (ptrdiff_t)row * pitch, d[i] * (y[i] - means[i]))          \
    }                                                                                              \
    /* These sums for each part of the rows, of which `totals` has a row for each. */              \
    KERNEL(channel_sums_##dtype)(const type *x, const type *means, double *totals, int rows,       \
                                 int channels) {                                                   \
        EACH_PART_OF_ROWS(rows) {                                                                  \
            memset(totals, 0, channels * sizeof *totals);                                          \
            for (int first = 0; first < channels; first += CHANNELS)                               \
                add_channels_##dtype(x + (ptrdiff_t)start * channels + first,                      \
                                     means ? means + first : NULL, totals + first, rows_,           \
                                     smaller(CHANNELS, channels - first), channels);               \
            totals += channels;                                                                    \
        }                                                                                          \
    }                                                                                              \
    /* The same of slopes: the rows of `totals` have those of dy before those of dy (x - mean). */ \
    KERNEL(channel_slopes_##dtype)(const type *dy, const type *x, const type *means,               \
                                   double *totals, int rows, int channels) {                       \
        EACH_PART_OF_ROWS(rows) {                                                                  \
            memset(totals, 0, 2 * channels * sizeof *totals);                                      \
            for (int first = 0; first < channels; first += CHANNELS) {                             \
                const ptrdiff_t place = (ptrdiff_t)start * channels + first;                       \
                add_slopes_##dtype(dy + place, x + place, means + first, totals + first,           \
                                   totals + channels + first, rows_,                                \
                                   smaller(CHANNELS, channels - first), channels);                 \
            }                                                                                      \
            totals += 2 * channels;                                                                \
        }                                                                                          \
    }                                                                                              \
    /* dy * a + (x - mean) * b + c, where the last ones belong to channels. */                     \
    KERNEL(combine_channels_##dtype)(const type *restrict dy, const type *restrict x,              \
                                     const type *restrict means, const type *restrict a,           \
                                     const type *restrict b, const type *restrict c,               \
                                     type *restrict dx, int rows, int channels) {                  \
        for (; rows > 0; rows--, dy += channels, x += channels, dx += channels)                    \
            for (int i = 0; i < channels; i++)                                                     \
                dx[i] = dy[i] * a[i] + (x[i] - means[i]) * b[i] + c[i];                            \
    }
EACH_FLOAT(CHANNEL_SUMS)

// Some channels of x, which is (outer, channels, inner) and has `pitch` numbers for each of outer. Where
// inner is 1, channels are columns.
#define BATCHES(dtype, type, effort)                                                               \
    effort KERNEL(batch_norm_training_##dtype)(                                                    \
        const type *restrict x, const type *restrict offset, const type *restrict scale,           \
        type *restrict out, type *restrict means, type *restrict variances, int channels, int outer, \
        int pitch, int inner, type epsilon) {                                                      \
        const double size = (double)outer * inner;                                                 \
        for (int first = 0; first < channels; first += CHANNELS) {                                 \
            const int width = smaller(CHANNELS, channels - first);                                 \
            double totals[CHANNELS] = {0}, squares[CHANNELS] = {0};                                \
            type mean[CHANNELS], factor[CHANNELS], shift[CHANNELS];                                \
            const type *some = x + (ptrdiff_t)first * inner;                                       \
            type *to = out + (ptrdiff_t)first * inner;                                             \
            if (inner == 1)                                                                        \
                EACH_PART_OF_ROWS(outer) {                                                         \
                    double part[CHANNELS] = {0};                                                   \
                    add_channels_##dtype(some + (ptrdiff_t)start * pitch, NULL, part, rows_, width, \
                                         pitch);                                                   \
                    for (int c = 0; c < width; c++) totals[c] += part[c];                          \
                }                                                                                  \
            else                                                                                   \
                for (int n = 0; n < outer; n++)                                                    \
                    for (int c = 0; c < width; c++) {                                              \
                        const type *y = some + (ptrdiff_t)n * pitch + (ptrdiff_t)c * inner;        \
                        ADD_UP(type, totals[c], inner, y[i])                                       \
                    }                                                                              \
            for (int c = 0; c < width; c++) means[first + c] = mean[c] = totals[c] / size;         \
            if (inner == 1)                                                                        \
                EACH_PART_OF_ROWS(outer) {                                                         \
                    double part[CHANNELS] = {0};                                                   \
                    add_channels_##dtype(some + (ptrdiff_t)start * pitch, mean, part, rows_, width, \
                                         pitch);                                                   \
                    for (int c = 0; c < width; c++) squares[c] += part[c];                         \
                }                                                                                  \
            else                                                                                   \
                for (int n = 0; n < outer; n++)                                                    \
                    for (int c = 0; c < width; c++) {                                              \
                        const type *y = some + (ptrdiff_t)n * pitch + (ptrdiff_t)c * inner;        \
                        const type m = mean[c];                                                    \
                        ADD_UP(type, squares[c], inner, (y[i] - m) * (y[i] - m))                   \
                    }                                                                              \
            for (int c = 0; c < width; c++) {                                                      \
                const type variance = variances[first + c] = squares[c] / size;                    \
                factor[c] = scale[first + c] / sqrt(variance + epsilon);                           \
                shift[c] = offset[first + c];                                                      \
            }                                                                                      \
            for (int n = 0; n < outer; n++, some += pitch, to += pitch)                            \
                if (inner == 1)                                                                    \
                    for (int i = 0; i < width; i++)                                                \
                        to[i] = (some[i] - mean[i]) * factor[i] + shift[i];                        \
                else                                                                               \
                    for (int c = 0; c < width; c++)                                                \
                        for (int i = 0; i < inner; i++)                                            \
                            to[c * inner + i] =                                                    \
                                (some[c * inner + i] - mean[c]) * factor[c] + shift[c];            \
        }                                                                                          \
    }                                                                                              \
    effort KERNEL(batch_norm_gradient_##dtype)(                                                    \
        const type *restrict dy, const type *restrict x, const type *restrict means,               \
        const type *restrict variances, const type *restrict scale, type *restrict dx,             \
        type *restrict sums, type *restrict products, int channels, int outer, int pitch, int inner, \
        type epsilon) {                                                                            \
        const double size = (double)outer * inner;                                                 \
        for (int first = 0; first < channels; first += CHANNELS) {                                 \
            const int width = smaller(CHANNELS, channels - first);                                 \
            double totals[CHANNELS] = {0}, along[CHANNELS] = {0};                                  \
            type a[CHANNELS], b[CHANNELS], c[CHANNELS];                                            \
            const type *mean = means + first;                                                      \
            const type *some = x + (ptrdiff_t)first * inner, *from = dy + (ptrdiff_t)first * inner; \
            type *to = dx + (ptrdiff_t)first * inner;                                              \
            if (inner == 1) {                                                                      \
                EACH_PART_OF_ROWS(outer) {                                                         \
                    double part[2 * CHANNELS] = {0};                                               \
                    const ptrdiff_t place = (ptrdiff_t)start * pitch;                              \
                    add_slopes_##dtype(from + place, some + place, mean, part, part + CHANNELS,    \
                                       rows_, width, pitch);                                      \
                    for (int j = 0; j < width; j++) totals[j] += part[j];                          \
                    for (int j = 0; j < width; j++) along[j] += part[CHANNELS + j];                \
                }                                                                                  \
            } else                                                                                 \
                for (int n = 0; n < outer; n++)                                                    \
                    for (int j = 0; j < width; j++) {                                              \
                        const ptrdiff_t place = (ptrdiff_t)n * pitch + (ptrdiff_t)j * inner;       \
                        const type *d = from + place, *y = some + place, m = mean[j];              \
                        ADD_UP(type, totals[j], inner, d[i])                                       \
                        ADD_UP(type, along[j], inner, d[i] * (y[i] - m))                           \
                    }                                                                              \
            for (int j = 0; j < width; j++) {                                                      \
                const double inverse = 1 / sqrt((double)variances[first + j] + epsilon);           \
                sums[first + j] = totals[j];                                                       \
                products[first + j] = inverse * along[j];                                          \
                a[j] = inverse * scale[first + j];                                                 \
                b[j] = -inverse * scale[first + j] * inverse * inverse * along[j] / size;          \
                c[j] = -inverse * scale[first + j] * totals[j] / size;                             \
            }                                                                                      \
            for (int n = 0; n < outer; n++, some += pitch, from += pitch, to += pitch)             \
                if (inner == 1)                                                                    \
                    for (int i = 0; i < width; i++)                                                \
                        to[i] = from[i] * a[i] + (some[i] - mean[i]) * b[i] + c[i];                \
                else                                                                               \
                    for (int j = 0; j < width; j++)                                                \
                        for (int i = j * inner; i < (j + 1) * inner; i++)                          \
                            to[i] = from[i] * a[j] + (some[i] - mean[j]) * b[j] + c[j];            \
        }                                                                                          \
    }
EACH_FLOAT(BATCHES)

// ---- neighbours on the last axis ----

// Rows are computed in scratch memory: `padded` has `radius` zeros on both sides of a row.
#define RESPONSE(dtype, type, effort)                                                              \
    effort static void sum_neighbours_##dtype(const type *restrict padded, type *restrict sums,    \
                                              int count, int radius) {                             \
        for (int i = 0; i < count; i++) sums[i] = padded[i];                                       \
        for (int distance = 1; distance <= 2 * radius; distance++)                                 \
            for (int i = 0; i < count; i++) sums[i] += padded[i + distance];                       \
    }                                                                                              \
    /* Powers that are multiples of 1/4 are products of roots. */                                  \
    effort static void powers_##dtype(const type *restrict norms, type *restrict powers,           \
                                      int count, type beta) {                                      \
        const int quarters = beta >= 0 && beta < 2 ? (int)(4 * beta) : 0;                          \
        if (quarters != 4 * beta)                                                                  \
            for (int i = 0; i < count; i++) powers[i] = pow(norms[i], beta);                       \
        else                                                                                       \
            for (int i = 0; i < count; i++) {                                                      \
                const type norm = norms[i], root = sqrt(norm), second_root = sqrt(root);           \
                powers[i] = (quarters & 4 ? norm : 1) * (quarters & 2 ? root : 1) *                \
                            (quarters & 1 ? second_root : 1);                                      \
            }                                                                                      \
    }                                                                                              \
    effort static void norms_##dtype(const type *restrict x, type *restrict padded,                \
                                     type *restrict norms, int count, int radius, type bias,       \
                                     type alpha) {                                                 \
        for (int i = 0; i < count; i++) padded[radius + i] = x[i] * x[i];                          \
        sum_neighbours_##dtype(padded, norms, count, radius);                                      \
        for (int i = 0; i < count; i++) norms[i] = bias + alpha * norms[i];                        \
    }                                                                                              \
    effort KERNEL(lrn_##dtype)(const type *restrict x, type *restrict out, int rows, int count,    \
                               int radius, type bias, type alpha, type beta,                       \
                               type *restrict padded) {                                            \
        type *norms = padded + count + 2 * radius;                                                 \
        memset(padded, 0, (count + 2 * radius) * sizeof(type));                                    \
        for (; rows > 0; rows--, x += count, out += count) {                                       \
            norms_##dtype(x, padded, norms, count, radius, bias, alpha);                           \
            powers_##dtype(norms, out, count, beta);                                               \
            for (int i = 0; i < count; i++) out[i] = x[i] / out[i];                                \
        }                                                                                          \
    }                                                                                              \
    effort KERNEL(lrn_gradient_##dtype)(const type *restrict x, const type *restrict y,            \
                                        const type *restrict dy, type *restrict dx, int rows,      \
                                        int count, int radius, type bias, type alpha, type beta,   \
                                        type *restrict padded) {                                   \
        type *restrict norms = padded + count + 2 * radius;                                        \
        memset(padded, 0, (count + 2 * radius) * sizeof(type));                                    \
        for (; rows > 0; rows--, x += count, y += count, dy += count, dx += count) {               \
            norms_##dtype(x, padded, norms, count, radius, bias, alpha);                           \
            powers_##dtype(norms, dx, count, beta);                                                \
            for (int i = 0; i < count; i++) padded[radius + i] = dy[i] * y[i] / norms[i];          \
            sum_neighbours_##dtype(padded, norms, count, radius);                                  \
            for (int i = 0; i < count; i++)                                                        \
                dx[i] = dy[i] / dx[i] - 2 * alpha * beta * x[i] * norms[i];                        \
        }                                                                                          \
    }
EACH_FLOAT(RESPONSE)
