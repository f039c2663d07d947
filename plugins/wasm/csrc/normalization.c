// Normalizations: softmax of rows and columns, of batches, and by neighbours on the last axis.
#include <tgmath.h>

#include "elementwise.h"
#include "vector_math.h"

// ---- softmax ----

#define BLOCK 128  // floats that are summed in single precision; the sums are added in double

// A constant as it is: LLVM would keep its negative in another register, and WebAssembly has too few.
#ifdef __wasm__
#define OPAQUE(lanes) __asm__("" : "+r"(lanes))
#else
#define OPAQUE(lanes)
#endif

#define NEAR 16.f  // differences up to here need fewer instructions

// Whether multiply_add rounds once, which a WebAssembly module only sees when it runs.
static inline int is_fused(void) {
    const volatile float factor = 1 + 0x1p-12f;  // the compiler would compute with one rounding
    return multiply_add(splat(factor), splat(factor), splat(-1 - 0x1p-11f))[0] != 0;
}

// exp(x) of x <= 0, and 0 where it would be denormal: half the work of exp_floats. The polynomial
// has the least relative error, 3e-9. The result is within two units in the last place. If `is_near`,
// x >= -NEAR, and n * ln(2) is not rounded before it is subtracted, so that an error of 2e-9 in ln(2)
// does not matter.
static inline floats exp_below_zero(floats x, int is_near) {
    floats magic = splat(12582912.f + 127.f);  // rounds, and leaves the exponent of 2^n
    OPAQUE(magic);
    if (!is_near) x = larger(x, splat(-88.f));
    const floats shifted = multiply_add(x, splat(1.44269504088896341f), magic);
    const floats n = shifted - magic;
    floats r = multiply_add(n, splat(is_near ? -LN2 : -LN2_HIGH), x);
    if (!is_near) r = multiply_add(n, splat(-LN2_LOW), r);
    floats p = splat(1.3814467e-3f);
    p = multiply_add(p, r, splat(8.368781e-3f));
    p = multiply_add(p, r, splat(4.1668393e-2f));
    p = multiply_add(p, r, splat(1.666652e-1f));
    p = multiply_add(p, r, splat(4.9999994e-1f));
    p = multiply_add(p, r, splat(1.f));
    p = multiply_add(p, r, splat(1.f));
    return p * (floats)((ints)shifted << 23);
}

// The last elements of a row of `count`. A row shorter than a vector ends in its last lane, after
// elements whose exponentials are 0.
static inline floats load_last(const float *row, int count) {
    if (count >= LANES) return load(row + count - LANES);
    float lanes[LANES];
    store(lanes, splat(-INFINITY));
    for (int i = 0; i < count; i++) lanes[LANES - count + i] = row[i];
    return load(lanes);
}

SHORT_LOOPS static inline void store_last(float *row, floats values, int count) {
    if (count >= LANES) return store(row + count - LANES, values);
    for (int i = 0; i < count; i++) row[i] = values[LANES - count + i];
}

// The passes over a row are functions, because inlined their constants would fill the registers.
#define PASS SHORT_LOOPS __attribute__((noinline)) static

// The largest element; NaN is ignored, and reaches the sum of exponentials. `is_near` becomes whether the
// row is long and all others differ from it by NEAR at most.
PASS float greatest(const float *row, int count, int *is_near) {
    floats a = load_last(row, count), b = a, c = a, d = a, least = a, other = a;
    int i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        const floats e = load(row + i), f = load(row + i + LANES);
        const floats g = load(row + i + 2 * LANES), h = load(row + i + 3 * LANES);
        a = larger(a, e), b = larger(b, f), c = larger(c, g), d = larger(d, h);
        least = lesser(lesser(least, e), f), other = lesser(lesser(other, g), h);
    }
    for (; i + LANES <= count; i += LANES)
        a = larger(a, load(row + i)), least = lesser(least, load(row + i));
    a = larger(larger(a, b), larger(c, d));
    least = lesser(least, other);
    float peak = -INFINITY;
    for (int lane = 0; lane < LANES; lane++) peak = a[lane] > peak ? a[lane] : peak;
    *is_near = count >= 4 * LANES && !any_lane(least < peak - NEAR);
    return peak;
}

// The sum of exp(row[i] - peak), which go to `out` if they are kept.
#define EXPONENTIALS(name, are_kept, is_near)                                                      \
    PASS double name(const float *row, float *out, int count, float peak) {                        \
        const int whole = count / LANES * LANES;                                                   \
        double sum = 0;                                                                            \
        for (int i = 0; i < whole;) {                                                              \
            const int last = smaller(i + BLOCK, whole);                                            \
            floats total = {};                                                                     \
            for (; i < last; i += LANES) {                                                         \
                const floats y = exp_below_zero(load(row + i) - peak, is_near);                    \
                if (are_kept) store(out + i, y);                                                   \
                total += y;                                                                        \
            }                                                                                      \
            sum += sum_lanes(total);                                                               \
        }                                                                                          \
        if (whole < count) {                                                                       \
            const floats y = exp_below_zero(load_last(row, count) - peak, is_near);                \
            if (are_kept) store_last(out, y, count);                                               \
            for (int lane = LANES - (count - whole); lane < LANES; lane++) sum += y[lane];         \
        }                                                                                          \
        return sum;                                                                                \
    }
EXPONENTIALS(exponentials, true, false)
EXPONENTIALS(exponentials_near, true, true)
EXPONENTIALS(sum_of_exponentials, false, false)
EXPONENTIALS(sum_of_exponentials_near, false, true)

// out[i] = an expression of y = row[i] and one or two numbers.
#define FINISH(name, expression, ...)                                                              \
    PASS void name(const float *row, float *out, int count, __VA_ARGS__) {                         \
        int i = 0;                                                                                 \
        for (floats y; i + 2 * LANES <= count; i += 2 * LANES) {                                   \
            y = load(row + i);                                                                     \
            const floats first = expression;                                                       \
            y = load(row + i + LANES);                                                             \
            store(out + i, first);                                                                 \
            store(out + i + LANES, expression);                                                    \
        }                                                                                          \
        for (float y; i < count; i++) y = row[i], out[i] = expression;                             \
    }
FINISH(multiply, y *factor, float factor)
FINISH(subtract, (y - a) - b, float a, float b)

// Rows of less than SHORT floats go side by side: a vector holds one element of each of LANES rows, and no lane is
// idle. Lanes without a row hold zeros. All rows are computed alike, wherever they are.
#define SHORT 32

static inline void turn(const float *rows, floats *columns, int lanes, int count) {
    for (int i = 0; i < count; i++) {
        floats column = {};
        for (int lane = 0; lane < lanes; lane++) column[lane] = rows[lane * count + i];
        columns[i] = column;
    }
}

static inline void turn_back(const floats *columns, float *rows, int lanes, int count) {
    for (int i = 0; i < count; i++)
        for (int lane = 0; lane < lanes; lane++) rows[lane * count + i] = columns[i][lane];
}

// The results are made of the exponentials in `columns`, of the differences `d` from the peaks, and of the sums.
#define SHORT_ROWS(name, keep, prepared, result)                                                   \
    PASS void name(const float *x, float *out, int lanes, int count) {                             \
        floats columns[SHORT], peak = splat(-INFINITY), sum = {}, excess = {};                     \
        if (lanes == LANES)                                                                        \
            turn(x, columns, LANES, count);                                                        \
        else                                                                                       \
            turn(x, columns, lanes, count);                                                        \
        for (int i = 0; i < count; i++) peak = larger(peak, columns[i]);                           \
        for (int i = 0; i < count; i++) {                                                          \
            const floats d = columns[i] - peak, y = exp_below_zero(d, false);                      \
            columns[i] = keep;                                                                     \
            /* Kahan's sum: what rounding adds to one term is taken from the next. */              \
            const floats term = y - excess, more = sum + term;                                     \
            excess = (more - sum) - term;                                                          \
            sum = more;                                                                            \
        }                                                                                          \
        const floats total = prepared;                                                             \
        for (int i = 0; i < count; i++) columns[i] = result;                                       \
        if (lanes == LANES)                                                                        \
            turn_back(columns, out, LANES, count);                                                 \
        else                                                                                       \
            turn_back(columns, out, lanes, count);                                                 \
    }
SHORT_ROWS(softmax_of_short_rows, y, splat(1) / sum, columns[i] * total)
SHORT_ROWS(log_softmax_of_short_rows, d, log_floats(sum), columns[i] - total)

#define EACH_SHORT_ROW(name)                                                                       \
    if (count < SHORT) {                                                                           \
        for (; rows > 0; rows -= LANES, x += LANES * count, out += LANES * count)                  \
            name(x, out, smaller(rows, LANES), count);                                             \
        return;                                                                                    \
    }

KERNEL(softmax_float32)(const float *x, float *out, int rows, int count) {
    EACH_SHORT_ROW(softmax_of_short_rows)
    const int fused = is_fused();
    for (int is_near; rows > 0; rows--, x += count, out += count) {
        const float peak = greatest(x, count, &is_near);
        const double sum =
            (fused && is_near ? exponentials_near : exponentials)(x, out, count, peak);
        multiply(out, out, count, 1 / sum);
    }
}

KERNEL(log_softmax_float32)(const float *x, float *out, int rows, int count) {
    EACH_SHORT_ROW(log_softmax_of_short_rows)
    const int fused = is_fused();
    for (int is_near; rows > 0; rows--, x += count, out += count) {
        const float peak = greatest(x, count, &is_near);
        subtract(x, out, count, peak,
                 logf((fused && is_near ? sum_of_exponentials_near : sum_of_exponentials)(
                     x, out, count, peak)));
    }
}

// Columns of x, which is (outer, length, inner), as whole vectors, `TILE` at a time. The columns
// that are left over form a vector with some that have been computed before.
#define TILE 64
#define BLOCK_ROWS 32  // rows that are summed in single precision

#define EACH_VECTOR(width) for (int v = 0, column = 0; column < (width); v++, column += LANES)

PASS void greatest_of_columns(const float *x, floats *peaks, int length, int inner, int width) {
    EACH_VECTOR(width) peaks[v] = splat(-INFINITY);
    for (; length > 0; length--, x += inner)
        EACH_VECTOR(width) peaks[v] = larger(peaks[v], load(x + column));
}

#define COLUMN_EXPONENTIALS(name, are_kept)                                                        \
    PASS void name(const float *x, float *out, const floats *peaks, floats *sums, int length,      \
                   int inner, int width) {                                                         \
        double totals[TILE * LANES] = {0};                                                         \
        for (int row = 0; row < length;) {                                                         \
            const int last = smaller(row + BLOCK_ROWS, length);                                    \
            EACH_VECTOR(width) sums[v] = (floats){};                                               \
            for (; row < last; row++, x += inner, out += inner)                                    \
                EACH_VECTOR(width) {                                                               \
                    const floats y = exp_below_zero(load(x + column) - peaks[v], false);           \
                    if (are_kept) store(out + column, y);                                          \
                    sums[v] += y;                                                                  \
                }                                                                                  \
            EACH_VECTOR(width)                                                                     \
            for (int lane = 0; lane < LANES; lane++) totals[v * LANES + lane] += sums[v][lane];    \
        }                                                                                          \
        EACH_VECTOR(width)                                                                         \
        for (int lane = 0; lane < LANES; lane++) sums[v][lane] = totals[v * LANES + lane];         \
    }
COLUMN_EXPONENTIALS(column_exponentials, true)
COLUMN_EXPONENTIALS(sums_of_column_exponentials, false)

#define COLUMN_SOFTMAX(name, pass, finish, result)                                                 \
    KERNEL(name##_columns_float32)(const float *x, float *out, int outer, int length, int inner) { \
        const ptrdiff_t size = (ptrdiff_t)length * inner;                                          \
        for (; outer > 0; outer--, x += size, out += size)                                         \
            for (int first = 0, width; first < inner; first += width) {                            \
                const int begin = smaller(first, inner - LANES);                                   \
                width = smaller(TILE * LANES, (inner - begin) / LANES * LANES);                    \
                const float *in = x + begin;                                                       \
                float *to = out + begin;                                                           \
                floats peaks[TILE], sums[TILE];                                                    \
                greatest_of_columns(in, peaks, length, inner, width);                              \
                pass(in, to, peaks, sums, length, inner, width);                                   \
                EACH_VECTOR(width)                                                                 \
                for (int lane = 0; lane < LANES; lane++) sums[v][lane] = finish(sums[v][lane]);    \
                for (int row = 0; row < length; row++, in += inner, to += inner)                   \
                    EACH_VECTOR(width) store(to + column, result);                                 \
            }                                                                                      \
    }
#define INVERSE(sum) (1 / (sum))
COLUMN_SOFTMAX(softmax, column_exponentials, INVERSE, load(to + column) * sums[v])
COLUMN_SOFTMAX(log_softmax, sums_of_column_exponentials, logf,
               load(in + column) - peaks[v] - sums[v])

#define DOUBLE_SOFTMAX(name, before, after)                                                        \
    SMALL KERNEL(name##_float64)(const double *x, double *out, int rows, int count) {              \
        for (; rows > 0; rows--, x += count, out += count) {                                       \
            double peak = -INFINITY, sum = 0;                                                      \
            for (int i = 0; i < count; i++) peak = x[i] > peak ? x[i] : peak;                      \
            for (int i = 0; i < count; i++) {                                                      \
                const double shifted = x[i] - peak, y = exp(shifted);                              \
                out[i] = before;                                                                   \
                sum += y;                                                                          \
            }                                                                                      \
            for (int i = 0; i < count; i++) out[i] = after;                                        \
        }                                                                                          \
    }
DOUBLE_SOFTMAX(softmax, y, out[i] / sum)
DOUBLE_SOFTMAX(log_softmax, shifted, out[i] - log(sum))

// ---- batches ----

// What differences from the mean are multiplied with.
#define INVERSE_DEVIATION(dtype, type, effort)                                                     \
    MAP(inverse_deviation, dtype, type, type, effort, 1 / sqrt(x + epsilon), type epsilon)
EACH_FLOAT(INVERSE_DEVIATION)

#define SCALED(i, j, k, l) out[i] = (x[i] - mean[j]) * factor[k] + offset[l]

// descriptor: axes, sizes, and the strides by which mean, factor and offset are broadcast to x.
#define BATCH_NORM(dtype, type, effort)                                                            \
    effort static void scale_##dtype(const type *restrict x, const type *restrict mean,            \
                                     const type *restrict factor, const type *restrict offset,     \
                                     type *restrict out, int count, int mean_step,                 \
                                     int factor_step, int offset_step) {                           \
        if (mean_step == 1 && factor_step == 1 && offset_step == 1)                                \
            for (int i = 0; i < count; i++) SCALED(i, i, i, i);                                    \
        else if (mean_step == 0 && factor_step == 0 && offset_step == 0)                           \
            for (int i = 0; i < count; i++) SCALED(i, 0, 0, 0);                                    \
        else if (mean_step == 0 && factor_step == 1 && offset_step == 1)                           \
            for (int i = 0; i < count; i++) SCALED(i, 0, i, i);                                    \
        else                                                                                       \
            for (int i = 0; i < count; i++)                                                        \
                SCALED(i, i * mean_step, i * factor_step, i * offset_step);                        \
    }                                                                                              \
    effort KERNEL(batch_norm_##dtype)(const type *x, const type *mean, const type *factor,         \
                                      const type *offset, type *out, const int *descriptor) {      \
        const int axes = descriptor[0], outer = axes - 1, *sizes = descriptor + 1;                 \
        const int *mean_strides = sizes + axes, *factor_strides = mean_strides + axes;             \
        const int *offset_strides = factor_strides + axes, count = sizes[outer];                   \
        int index[MAX_AXES] = {0}, same_index[MAX_AXES] = {0};                                     \
        ptrdiff_t i = 0, j = 0, k = 0, same_k = 0;                                                 \
        do {                                                                                       \
            scale_##dtype(x, mean + i, factor + j, offset + k, out, count, mean_strides[outer],    \
                          factor_strides[outer], offset_strides[outer]);                           \
            x += count, out += count;                                                              \
            step_axes(outer, sizes, same_index, offset_strides, offset_strides, &k, &same_k);      \
        } while (step_axes(outer, sizes, index, mean_strides, factor_strides, &i, &j));            \
    }
EACH_FLOAT(BATCH_NORM)

// ---- layers, and batches in training ----

#define SIDE 16  // numbers that are summed side by side, in vectors of any width
#define RUN_LENGTH 512  // numbers that are summed in their own precision; the sums are added in double
#define CHANNELS 64  // columns that are summed side by side

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
        for (int j_ = 0; j_ < SIDE; j_++) total += sums_[j_];                                      \
    }

// totals[i] += the sum over the rows of a term, an expression of i and of what `prepare` declares for a row.
#define ADD_COLUMNS(type, totals, rows, width, prepare, term)                                      \
    for (int row = 0; row < (rows);) {                                                             \
        const int last_ = smaller(row + BLOCK_ROWS, (rows));                                       \
        type sums_[CHANNELS] = {0};                                                                \
        for (; row < last_; row++) {                                                               \
            prepare;                                                                               \
            for (int i = 0; i < (width); i++) sums_[i] += term;                                    \
        }                                                                                          \
        for (int i = 0; i < (width); i++) totals[i] += sums_[i];                                   \
    }

#define LAYERS(dtype, type, effort)                                                                \
    effort static void moments_##dtype(const type *restrict x, int count, type epsilon, type *mean, \
                                       type *inverse) {                                            \
        double total = 0, squares = 0;                                                             \
        ADD_UP(type, total, count, x[i])                                                           \
        const type m = total / count;                                                              \
        ADD_UP(type, squares, count, (x[i] - m) * (x[i] - m))                                      \
        *mean = m;                                                                                 \
        *inverse = 1 / sqrt((type)(squares / count) + epsilon);                                    \
    }                                                                                              \
    effort KERNEL(layer_norm_##dtype)(const type *restrict x, const type *restrict offset,         \
                                      const type *restrict scale, type *restrict out, int rows,    \
                                      int count, type epsilon) {                                   \
        for (; rows > 0; rows--, x += count, out += count) {                                       \
            type mean, inverse;                                                                    \
            moments_##dtype(x, count, epsilon, &mean, &inverse);                                   \
            for (int i = 0; i < count; i++)                                                        \
                out[i] = (x[i] - mean) * inverse * scale[i] + offset[i];                           \
        }                                                                                          \
    }                                                                                              \
    /* The mean of a row and the inverse of its deviation go to `moments`, two numbers a row. */   \
    effort KERNEL(layer_norm_gradient_##dtype)(                                                    \
        const type *restrict dy, const type *restrict x, const type *restrict scale,               \
        type *restrict dx, type *restrict moments, int rows, int count, type epsilon) {            \
        for (; rows > 0; rows--, dy += count, x += count, dx += count, moments += 2) {             \
            moments_##dtype(x, count, epsilon, moments, moments + 1);                              \
            const type mean = moments[0], inverse = moments[1];                                    \
            double sum = 0, product = 0;                                                           \
            ADD_UP(type, sum, count, dy[i] * scale[i])                                             \
            ADD_UP(type, product, count, dy[i] * scale[i] * ((x[i] - mean) * inverse))             \
            const type average = sum / count, along = product / count;                             \
            for (int i = 0; i < count; i++)                                                        \
                dx[i] = inverse *                                                                  \
                        (dy[i] * scale[i] - average - (x[i] - mean) * inverse * along);            \
        }                                                                                          \
    }                                                                                              \
    /* The sums of dy and of dy (x - mean) inverse in some columns of `rows` rows. */              \
    effort KERNEL(layer_norm_sums_##dtype)(const type *restrict dy, const type *restrict x,        \
                                           type *restrict sums, type *restrict products, int columns, \
                                           int rows, int pitch, const type *restrict moments) {    \
        for (int first = 0; first < columns; first += CHANNELS) {                                  \
            const int width = smaller(CHANNELS, columns - first);                                  \
            double totals[CHANNELS] = {0}, along[CHANNELS] = {0};                                  \
            ADD_COLUMNS(type, totals, rows, width,                                                 \
                        const type *d = dy + (ptrdiff_t)row * pitch + first, d[i])                 \
            ADD_COLUMNS(type, along, rows, width,                                                  \
                        const ptrdiff_t place = (ptrdiff_t)row * pitch + first;                    \
                        const type *d = dy + place; const type *y = x + place;                     \
                        const type mean = moments[2 * row];                                        \
                        const type inverse = moments[2 * row + 1],                                 \
                        d[i] * ((y[i] - mean) * inverse))                                          \
            for (int i = 0; i < width; i++) sums[first + i] = totals[i];                           \
            for (int i = 0; i < width; i++) products[first + i] = along[i];                        \
        }                                                                                          \
    }
EACH_FLOAT(LAYERS)

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
                ADD_COLUMNS(type, totals, outer, width, const type *y = some + (ptrdiff_t)row * pitch, \
                            y[i])                                                                  \
            else                                                                                   \
                for (int n = 0; n < outer; n++)                                                    \
                    for (int c = 0; c < width; c++) {                                              \
                        const type *y = some + (ptrdiff_t)n * pitch + (ptrdiff_t)c * inner;        \
                        ADD_UP(type, totals[c], inner, y[i])                                       \
                    }                                                                              \
            for (int c = 0; c < width; c++) means[first + c] = mean[c] = totals[c] / size;         \
            if (inner == 1)                                                                        \
                ADD_COLUMNS(type, squares, outer, width, const type *y = some + (ptrdiff_t)row * pitch, \
                            (y[i] - mean[i]) * (y[i] - mean[i]))                                   \
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
                ADD_COLUMNS(type, totals, outer, width, const type *d = from + (ptrdiff_t)row * pitch, \
                            d[i])                                                                  \
                ADD_COLUMNS(type, along, outer, width, const type *d = from + (ptrdiff_t)row * pitch; \
                            const type *y = some + (ptrdiff_t)row * pitch, d[i] * (y[i] - mean[i])) \
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
