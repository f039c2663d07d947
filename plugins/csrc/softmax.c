// Softmax and its logarithm, of rows and of columns.
#include <tgmath.h>

#include "double_math.h"
#include "elementwise.h"
#include "vector_math.h"

#define BLOCK 128  // floats that are summed in single precision; the sums are added in double

// ---- long rows ----

// The passes over a row are functions, because inlined their constants would fill the registers.
#define PASS SHORT_LOOPS __attribute__((noinline)) static

#define UNROLL (4 * LANES)  // floats for which a pass has instructions
#define LINE 16  // floats in a line of the cache

#define EACH_PART(step) UNROLLED for (int part = 0; part < UNROLL; part += (step))

// The processor fetches what is read later. WebAssembly has no instruction for that; reading is one, too.
static inline void fetch(const float *line) {
#ifdef __wasm__
    (void)*(const volatile float *)line;
#else
    __builtin_prefetch(line);
#endif
}

typedef struct {
    floats most, least;
} range;

static inline range wider(range known, floats most, floats least) {
    return (range){larger(known.most, most), lesser(known.least, least)};
}

// Four vectors are compared with each other first, because what is known comes from the ones before.
static inline range wider_by_four(range known, const float *row) {
    const floats a = load(row), b = load(row + LANES);
    const floats c = load(row + 2 * LANES), d = load(row + 3 * LANES);
    return wider(known, larger(larger(a, b), larger(c, d)), lesser(lesser(a, b), lesser(c, d)));
}

// The largest element of a row. `is_near` becomes whether all others differ from it by NEAR at most. NaN may
// hide others, and reaches the sum of exponentials.
static inline float peak_of(range row, int *is_near) {
    float peak = -INFINITY;
    for (int lane = 0; lane < LANES; lane++) peak = row.most[lane] > peak ? row.most[lane] : peak;
    *is_near = !any_lane(row.least < peak - NEAR);
    return peak;
}

PASS float find_peak(const float *row, int count, int *is_near) {
    floats x = load(row + count - LANES);
    range all = {x, x};
    int i = 0;
    for (; i + UNROLL <= count; i += UNROLL) all = wider_by_four(all, row + i);
    for (; i + LANES <= count; i += LANES) x = load(row + i), all = wider(all, x, x);
    return peak_of(all, is_near);
}

// The sum of exp(row[i] - peak), which go to `out` if they are kept. The last vector begins with elements that
// have been computed before. Meanwhile, the processor fetches the next row.
#define EXPONENTIALS(name, are_kept, is_near)                                                      \
    static inline floats name##_of(const float *row, float *out, float peak) {                     \
        const floats y = exp_small(load(row) - peak, is_near);                                \
        if (are_kept) store(out, y);                                                               \
        return y;                                                                                  \
    }                                                                                              \
    PASS double name(const float *row, float *out, const float *next, int count, float peak) {     \
        const int whole = count / LANES * LANES;                                                   \
        double sum = 0;                                                                            \
        for (int i = 0; i < whole;) {                                                              \
            const int last = smaller(i + BLOCK, whole);                                            \
            floats total = {};                                                                     \
            for (; i + UNROLL <= last; i += UNROLL) {                                              \
                EACH_PART(LINE) fetch(next + i + part);                                            \
                EACH_PART(LANES) total += name##_of(row + i + part, out + i + part, peak);         \
            }                                                                                      \
            for (; i < last; i += LANES) total += name##_of(row + i, out + i, peak);               \
            sum += sum_lanes(total);                                                               \
        }                                                                                          \
        if (whole < count) {                                                                       \
            const floats y = name##_of(row + count - LANES, out + count - LANES, peak);            \
            for (int lane = LANES - (count - whole); lane < LANES; lane++) sum += y[lane];         \
        }                                                                                          \
        return sum;                                                                                \
    }
EXPONENTIALS(exponentials, true, false)
EXPONENTIALS(exponentials_near, true, true)
EXPONENTIALS(sum_of_exponentials, false, false)
EXPONENTIALS(sum_of_exponentials_near, false, true)

// out[i] = an expression of y = row[i] and one or two numbers. Returns the peak of the next row: one loop for
// both takes less time than two.
#define FINISH(name, expression, ...)                                                              \
    PASS float name(const float *row, float *out, const float *next, int count, int *is_near,      \
                    __VA_ARGS__) {                                                                 \
        const floats end = load(row + count - LANES); /* before it may be overwritten */           \
        floats x = load(next + count - LANES), y;                                                  \
        range all = {x, x};                                                                        \
        int i = 0;                                                                                 \
        for (; i + UNROLL <= count; i += UNROLL) {                                                 \
            all = wider_by_four(all, next + i);                                                    \
            EACH_PART(LANES) y = load(row + i + part), store(out + i + part, expression);          \
        }                                                                                          \
        for (; i + LANES <= count; i += LANES) {                                                   \
            x = load(next + i), all = wider(all, x, x);                                            \
            y = load(row + i), store(out + i, expression);                                         \
        }                                                                                          \
        y = end, store(out + count - LANES, expression);                                           \
        return peak_of(all, is_near);                                                              \
    }
FINISH(multiply, y *factor, float factor)
FINISH(subtract, (y - a) - b, float a, float b)

// ---- short rows ----

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
            const floats d = columns[i] - peak, y = exp_small(d, false);                      \
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

#define LONG_ROWS(pass, finish, source, ...)                                                       \
    const int fused = is_fused();                                                                  \
    int is_near;                                                                                   \
    float peak = find_peak(x, count, &is_near);                                                    \
    for (const float *next; rows > 0; rows--, x = next, out += count) {                            \
        next = rows > 1 ? x + count : x;                                                           \
        const double sum = (fused && is_near ? pass##_near : pass)(x, out, next, count, peak);     \
        peak = finish(source, out, rows > 1 ? next : source, count, &is_near, __VA_ARGS__);        \
    }

KERNEL(softmax_float32)(const float *x, float *out, int rows, int count) {
    EACH_SHORT_ROW(softmax_of_short_rows)
    LONG_ROWS(exponentials, multiply, out, 1 / sum)
}

KERNEL(log_softmax_float32)(const float *x, float *out, int rows, int count) {
    EACH_SHORT_ROW(log_softmax_of_short_rows)
    LONG_ROWS(sum_of_exponentials, subtract, x, peak, logf(sum))
}

// ---- columns ----

// Columns of x, which is (outer, length, inner), as whole vectors, `TILE` at a time. The columns
// that are left over form a vector with some that have been computed before.
#define TILE 64
#define BLOCK_ROWS 32  // rows that are summed in single precision

#define EACH_VECTOR(width)                                                                         \
    _Pragma("clang loop unroll_count(4)") for (int v = 0, column = 0; column < (width);            \
                                               v++, column += LANES)

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
                    const floats y = exp_small(load(x + column) - peaks[v], false);           \
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
    KERNEL(name##_pitched_float32)(const float *x, float *out, int columns, int length, int pitch) {\
        for (int first = 0, width; first < columns; first += width) {                              \
            const int begin = smaller(first, columns - LANES);                                     \
            width = smaller(TILE * LANES, (columns - begin) / LANES * LANES);                      \
            const float *in = x + begin;                                                           \
            float *to = out + begin;                                                               \
            floats peaks[TILE], sums[TILE];                                                        \
            greatest_of_columns(in, peaks, length, pitch, width);                                  \
            pass(in, to, peaks, sums, length, pitch, width);                                       \
            EACH_VECTOR(width)                                                                     \
            for (int lane = 0; lane < LANES; lane++) sums[v][lane] = finish(sums[v][lane]);        \
            for (int row = 0; row < length; row++, in += pitch, to += pitch)                       \
                EACH_VECTOR(width) store(to + column, result);                                     \
        }                                                                                          \
    }                                                                                              \
    KERNEL(name##_columns_float32)(const float *x, float *out, int outer, int length, int inner) { \
        const ptrdiff_t size = (ptrdiff_t)length * inner;                                          \
        for (; outer > 0; outer--, x += size, out += size)                                         \
            name##_pitched_float32(x, out, inner, length, inner);                                  \
    }
#define INVERSE(sum) (1 / (sum))
COLUMN_SOFTMAX(softmax, column_exponentials, INVERSE, load(to + column) * sums[v])
COLUMN_SOFTMAX(log_softmax, sums_of_column_exponentials, logf,
               load(in + column) - peaks[v] - sums[v])

// ---- float64 ----

#define DOUBLES (int)(sizeof(doubles) / sizeof(double))

// The next `count` elements of a row, at most a vector of them; behind them comes minus infinity, whose exponential is 0.
static inline doubles doubles_of(const double *row, int count) {
    doubles x = repeated(-INFINITY);
    if (count >= DOUBLES)
        memcpy(&x, row, sizeof x);
    else
        memcpy(&x, row, count * sizeof(double));
    return x;
}

// Without a call, across which wasmtime would keep the greatest numbers in memory.
ONCE static double peak_of_doubles(const double *row, int count) {
    doubles most[4], x[4];
    UNROLLED for (int v = 0; v < 4; v++) most[v] = repeated(-INFINITY);
    int i = 0;
    for (; i + 4 * DOUBLES <= count; i += 4 * DOUBLES) {
        memcpy(x, row + i, sizeof x);
        UNROLLED for (int v = 0; v < 4; v++) most[v] = larger_doubles(most[v], x[v]);
    }
    most[0] = larger_doubles(larger_doubles(most[0], most[1]), larger_doubles(most[2], most[3]));
    double peak = -INFINITY;
    for (int lane = 0; lane < DOUBLES; lane++) peak = most[0][lane] > peak ? most[0][lane] : peak;
    for (; i < count; i++) peak = row[i] > peak ? row[i] : peak;
    return peak;
}

#ifdef __wasm__
// Four vectors of usual numbers at a time, whose exponentials are in `out` and added to `sums`; return how many numbers.
ONCE static int usual_exponentials(const double *row, double *out, int count, double peak,
                                   doubles *sums) {
    const int step = row != out ? 4 * DOUBLES : 0;
    doubles sum = {}, ignored[4];
    double *place = step ? out : (double *)ignored;
    int i = 0;
    for (; i + 4 * DOUBLES <= count; i += 4 * DOUBLES, place += step) {
        doubles y[4];
        memcpy(y, row + i, sizeof y);
        UNROLLED for (int v = 0; v < 4; v++) y[v] -= repeated(peak);
        if (!are_usual_doubles(y)) break;
        UNROLLED for (int v = 0; v < 4; v++) sum += y[v] = exp_usual_doubles(y[v]);
        memcpy(place, y, sizeof y);
    }
    *sums = sum;
    return i;
}
#endif

// The sum of exp(row[i] - peak), which go to `out`, unless that is the row.
ONCE static double exponentials_of_doubles(const double *row, double *out, int count, double peak) {
    const int whole = count / DOUBLES * DOUBLES, step = row != out ? DOUBLES : 0;
    doubles sums = {}, y, ignored;
    int i = 0;
#ifdef __wasm__
    i = usual_exponentials(row, out, count, peak, &sums);
#endif
    // wasmtime would compute twice what is stored in a branch and used after it.
    double *place = row != out ? out + i : (double *)&ignored;
    for (; i < whole; i += DOUBLES, place += step) {
        memcpy(&y, row + i, sizeof y);
        y = exp_doubles(y - repeated(peak));
        sums += y;
        memcpy(place, &y, sizeof y);
    }
    if (whole < count) {
        y = exp_doubles(doubles_of(row + whole, count - whole) - repeated(peak));
        sums += y;
        if (row != out) memcpy(out + whole, &y, (count - whole) * sizeof(double));
    }
    double sum = 0;
    for (int lane = 0; lane < DOUBLES; lane++) sum += sums[lane];
    return sum;
}

KERNEL(softmax_float64)(const double *x, double *out, int rows, int count) {
    for (; rows > 0; rows--, x += count, out += count) {
        const double sum = exponentials_of_doubles(x, out, count, peak_of_doubles(x, count));
        for (int i = 0; i < count; i++) out[i] /= sum;
    }
}

KERNEL(log_softmax_float64)(const double *x, double *out, int rows, int count) {
    for (; rows > 0; rows--, x += count, out += count) {
        const double peak = peak_of_doubles(x, count);
        const double logarithm = log(exponentials_of_doubles(x, (double *)x, count, peak));
        for (int i = 0; i < count; i++) out[i] = (x[i] - peak) - logarithm;
    }
}
