// Reductions of axes. The host brings x to the form (outer, reduced, inner).
//
// Rows are combined elementwise, `WIDTH` columns at a time, which stay in registers, and block by
// block along `STRIPE` columns, which memory delivers well; a contiguous row (inner = 1) is first
// cut into `WIDTH` interleaved columns. Sums of BLOCK rows are computed in the precision of the
// elements and then added in double, which is as accurate as pairwise summation and vectorises.
#include "common.h"

#define BLOCK 16
#define FEW 8  // rows of so small a number are added in place
#define SHORT 16  // so few columns, such as channels, are reduced as WIDTH times as many
#ifdef __wasm__
#define WIDTH 16
#define NARROW WIDTH
#define RUN 16         // floats that are summed in single precision, in each lane of eight vectors
#define LONG (1 << 15)  // floats of a row from which on memory delivers two streams faster than one

#include "rows.h"

// The reductions of a row for which there is more than the common way.
#define FAST_ROW(dtype, total, initial, combine) FAST_ROW_##combine(dtype)
#define FAST_ROW_SUM(dtype)                                                                        \
    if (_Generic(*x, float: 1, default: 0)) return sum_of_floats((const float *)x, count);         \
    if (_Generic(*x, double: 1, default: 0)) return sum_of_doubles((const double *)x, count);
#define FAST_ROW_PRODUCT(dtype)
#define FAST_ROW_BOTH(dtype)
#define FAST_ROW_EITHER(dtype)
#define FAST_ROW_GREATEST(dtype) return extreme_of_##dtype(x, count, 1);
#define FAST_ROW_LEAST(dtype) return extreme_of_##dtype(x, count, 0);
#define FAST_ROW_MAXIMUM(dtype) EXTREME_OF_INTEGERS(__builtin_elementwise_max)
#define FAST_ROW_MINIMUM(dtype) EXTREME_OF_INTEGERS(__builtin_elementwise_min)
#define SHORT_ROWS(dtype, type, total, initial, combine, finish)
#define STRIPE 256
#define STRIP_ROWS BLOCK  // rows of columns, whose sums wait in the cache meanwhile
#define EXTREME_ROWS_AT_ONCE (8 * BLOCK)  // whose extremes are looked for with more to do before and after
#define SIDE_BY_SIDE _Pragma("clang loop interleave(disable)")
#define BRIEF
#define ROWS_OF(block) (sizeof(block) == sizeof(float) ? BLOCK : 8 * BLOCK)

// The rows of WIDTH columns, whose partial results are vectors: LLVM would keep an array in memory. So does
// wasmtime with some of them, once for each round of the loop, which is therefore unrolled where that gains.
#define WIDE_ROWS(type, block, initial, combine)                                                   \
    typedef type numbers __attribute__((vector_size(WIDTH * sizeof(type))));                       \
    typedef block results __attribute__((vector_size(WIDTH * sizeof(block))));                     \
    results lanes = initial - (results){};                                                         \
    for (int row = first; row < last; row++) {                                                     \
        ints part[sizeof(numbers) / 16]; /* read whole, also if it is widened half by half */      \
        memcpy(part, x + row * stride, sizeof part);                                               \
        if (sizeof(block) > sizeof(type))                                                          \
            UNROLLED for (int i = 0; i < (int)(sizeof(numbers) / 16); i++) OPAQUE(part[i]);        \
        numbers y;                                                                                 \
        memcpy(&y, part, sizeof y);                                                                \
        lanes = combine(lanes, __builtin_convertvector(y, results));                               \
    }                                                                                              \
    memcpy(partial, &lanes, sizeof lanes);

#define PARTS(type) (WIDTH * (int)sizeof(type) / 16)
// A function of its own, whose results wasmtime keeps in registers.
#define WIDE_EXTREMES(dtype, type, initial, is_better)                                             \
    is_better##_in_columns_##dtype(partial, is_odd, x, rows, stride);
#define EXTREMES_IN_COLUMNS(dtype, type, initial, is_better)                                       \
    ONCE static void is_better##_in_columns_##dtype(type *partial, BITS_##dtype *is_odd,           \
                                                    const type *x, int rows, ptrdiff_t stride) {   \
        typedef type numbers __attribute__((vector_size(16)));                                     \
        typedef BITS_##dtype masks __attribute__((vector_size(16)));                               \
        numbers best[PARTS(type)];                                                                 \
        masks odd[PARTS(type)] = {};                                                               \
        UNROLLED for (int i = 0; i < PARTS(type); i++) best[i] = initial - (numbers){};            \
        for (int row = 0; row < rows; row++)                                                       \
            UNROLLED for (int i = 0; i < PARTS(type); i++) {                                       \
                const numbers y = *(const numbers *)(x + row * stride + i * (16 / sizeof(type)));  \
                best[i] = CHOICE_##is_better##_##dtype(y, best[i]);                                \
                odd[i] |= y != y;                                                                  \
            }                                                                                      \
        memcpy(partial, best, sizeof best), memcpy(is_odd, odd, sizeof odd);                       \
    }
#ifdef __wasm_relaxed_simd__  // one instruction; NaN is looked for apart
#define CHOICE_IS_GREATER_float32 __builtin_wasm_relaxed_max_f32x4
#define CHOICE_IS_GREATER_float64 __builtin_wasm_relaxed_max_f64x2
#define CHOICE_IS_LESS_float32 __builtin_wasm_relaxed_min_f32x4
#define CHOICE_IS_LESS_float64 __builtin_wasm_relaxed_min_f64x2
#else
#define CHOICE_IS_GREATER_float32 __builtin_wasm_pmax_f32x4
#define CHOICE_IS_GREATER_float64 __builtin_wasm_pmax_f64x2
#define CHOICE_IS_LESS_float32 __builtin_wasm_pmin_f32x4
#define CHOICE_IS_LESS_float64 __builtin_wasm_pmin_f64x2
#endif

#else
#define SIDE_BY_SIDE
#define EXTREMES_IN_COLUMNS(dtype, type, initial, is_better)
// For loops that combine few elements: one vector at a time is as fast there, and takes less code.
#define BRIEF _Pragma("clang loop interleave(disable)")
#define STRIPE 1024
#define STRIP_ROWS 32
#define EXTREME_ROWS_AT_ONCE STRIP_ROWS
#define ROWS_OF(block) BLOCK
#define WIDE_ROWS(type, block, initial, combine)                                                   \
    for (int row = first; row < last; row++)                                                       \
        for (int i = 0; i < WIDTH; i++) partial[i] = combine(partial[i], x[row * stride + i]);
#define WIDE_EXTREMES(dtype, type, initial, is_better)                                             \
    for (int row = 0; row < rows; row++)                                                           \
        for (int i = 0; i < WIDTH; i++) {                                                          \
            const type y = x[row * stride + i];                                                    \
            partial[i] = is_better(y, partial[i]) ? y : partial[i];                                \
            is_odd[i] |= -(y != y);                                                                \
        }
#define WIDTH 64  // several wide vectors, which do not wait for each other
#define NARROW 16
#define SIDE 8  // of short rows, which are reduced side by side
// Rows of fewer numbers than SHORT_ROW, in which WIDTH columns would have little to do.
#define SHORT_ROW 256
#define SHORT_ROW_LANES 32
#define IS_FLOATING(x) _Generic(x, float: 1, double: 1, default: 0)
#define FAST_ROW(dtype, total, initial, combine)                                                   \
    if (IS_FLOATING(*x) && count < SHORT_ROW) {                                                    \
        alignas(VECTOR_BYTES) total lanes[SHORT_ROW_LANES];                                        \
        for (int i = 0; i < SHORT_ROW_LANES; i++) lanes[i] = initial;                              \
        for (; count >= SHORT_ROW_LANES; count -= SHORT_ROW_LANES, x += SHORT_ROW_LANES)           \
            for (int i = 0; i < SHORT_ROW_LANES; i++) lanes[i] = combine(lanes[i], x[i]);          \
        _Pragma("clang loop vectorize(disable) unroll(disable)") for (int i = 0; i < count; i++)   \
            lanes[i] = combine(lanes[i], x[i]);                                                    \
        UNROLLED for (int half = SHORT_ROW_LANES / 2; half > 0; half /= 2)                         \
            for (int i = 0; i < half; i++) lanes[i] = combine(lanes[i], lanes[i + half]);          \
        return lanes[0];                                                                           \
    }
#define SHORT_ROWS(dtype, type, total, initial, combine, finish)                                   \
    if (inner == 1 && reduced < (IS_FLOATING(*x) ? SHORT_ROW_LANES : WIDTH))                       \
        for (; outer >= SIDE; outer -= SIDE, x += (ptrdiff_t)SIDE * reduced, out += SIDE) {        \
            total totals[SIDE];                                                                    \
            for (int row = 0; row < SIDE; row++) totals[row] = initial;                            \
            for (int i = 0; i < reduced; i++)                                                      \
                for (int row = 0; row < SIDE; row++)                                               \
                    totals[row] = combine(totals[row], x[(ptrdiff_t)row * reduced + i]);           \
            for (int row = 0; row < SIDE; row++) out[row] = finish(totals[row], reduced);          \
        }                                                                                          \
    if (IS_FLOATING(*x) && inner == 1 && reduced < SHORT_ROW_LANES) /* in the same order */        \
        for (; outer > 0; outer--, x += reduced, out++) {                                          \
            total sum = initial;                                                                   \
            _Pragma("clang loop vectorize(disable) unroll(disable)") for (int i = 0; i < reduced; i++) \
                sum = combine(sum, x[i]);                                                          \
            *out = finish(sum, reduced);                                                           \
        }
#endif
// Many columns of STRIP_ROWS rows at most, four of which are read at a time, so that few partial results are.
#define LINES(name, dtype, type, block, total, effort, initial, combine)                           \
    ONCE effort static void name##_lines_##dtype(total *restrict totals, const type *restrict x,   \
                                                 int rows, ptrdiff_t stride, int width) {          \
        alignas(VECTOR_BYTES) block partial[STRIPE];                                               \
        for (int i = 0; i < width; i++) partial[i] = initial;                                      \
        int row = 0;                                                                               \
        for (; row + 4 <= rows; row += 4, x += 4 * stride)                                         \
            for (int i = 0; i < width; i++) {                                                      \
                block y = combine(partial[i], x[i]);                                               \
                y = combine(y, x[stride + i]);                                                     \
                y = combine(y, x[2 * stride + i]);                                                 \
                partial[i] = combine(y, x[3 * stride + i]);                                        \
            }                                                                                      \
        for (; row < rows; row++, x += stride)                                                     \
            BRIEF for (int i = 0; i < width; i++) partial[i] = combine(partial[i], x[i]);          \
        for (int i = 0; i < width; i++) totals[i] = combine(totals[i], partial[i]);                \
    }
#define REDUCE_LINES(name, dtype)                                                                  \
    name##_lines_##dtype(totals, x + (ptrdiff_t)row * pitch + first,                               \
                         smaller(STRIP_ROWS, reduced - row), pitch, width);
#define AT_ONCE_REDUCE_LINES STRIP_ROWS
#define AT_ONCE_REDUCE_ROWS STRIP_ROWS
#define AT_ONCE_REDUCE_EXTREMES EXTREME_ROWS_AT_ONCE
#define REDUCE_ROWS(name, dtype) REDUCE_BY_ROWS(name, dtype, STRIP_ROWS)
#define REDUCE_EXTREMES(name, dtype) REDUCE_BY_ROWS(name, dtype, EXTREME_ROWS_AT_ONCE)
#define REDUCE_BY_ROWS(name, dtype, at_once)                                                       \
    for (int i = 0, part; i < width; i += part) {                                                  \
        part = width - i >= WIDTH ? WIDTH : smaller(NARROW, width - i);                            \
        name##_rows_##dtype(totals + i, x + (ptrdiff_t)row * pitch + first + i,                    \
                            smaller(at_once, reduced - row), pitch, part);                         \
    }
#define GROUP 32  // elements among which an extreme value is looked for at a time
#define SPAN 1024  // bools that are looked at at a time
#define PART (1 << 17)  // elements of a long row, which is reduced part by part, so that threads may share it

// combine(a, b) reduces; `block` and `total` are the types of the two levels of partial results.
#define REDUCTION(name, dtype, type, block, total, result, effort, initial, combine, finish)       \
    ROWS(name, dtype, type, block, total, effort, initial, combine, WIDE_ROWS)                     \
    LINES(name, dtype, type, block, total, effort, initial, combine)                               \
    ROW(name, dtype, type, total, effort, initial, combine)                                        \
    FOLD(name, dtype, type, block, total, result, effort, initial, combine, finish, REDUCE_LINES)

#define PLAIN_ROWS(type, block, initial, combine)                                                  \
    for (int row = first; row < last; row++)                                                       \
        SIDE_BY_SIDE for (int i = 0; i < WIDTH; i++)                                               \
            partial[i] = combine(partial[i], x[row * stride + i]);
#define ROWS(name, dtype, type, block, total, effort, initial, combine, wide_rows)                 \
    ONCE effort static void name##_rows_##dtype(total *restrict totals, const type *restrict x,    \
                                           int rows, ptrdiff_t stride, int width) {                \
        for (int first = 0; first < rows; first += ROWS_OF(block)) {                               \
            const int last = smaller(first + ROWS_OF(block), rows);                                \
            alignas(VECTOR_BYTES) block partial[WIDTH];                                            \
            for (int i = 0; i < WIDTH; i++) partial[i] = initial;                                  \
            if (width == WIDTH) {                                                                  \
                wide_rows(type, block, initial, combine)                                           \
            } else if (width == NARROW)                                                            \
                for (int row = first; row < last; row++)                                           \
                    for (int i = 0; i < NARROW; i++)                                               \
                        partial[i] = combine(partial[i], x[row * stride + i]);                     \
            else                                                                                   \
                for (int row = first; row < last; row++)                                           \
                    SIDE_BY_SIDE BRIEF for (int i = 0; i < width; i++)                             \
                        partial[i] = combine(partial[i], x[row * stride + i]);                     \
            SIDE_BY_SIDE for (int i = 0; i < width; i++)                                           \
                totals[i] = combine(totals[i], partial[i]);                                        \
        }                                                                                          \
    }

// The greatest or the least numbers. NaN is looked for apart, because the instruction of processors
// for the greater of two numbers forgets it.
#define BITS_float32 int32_t
#define BITS_float64 int64_t
#define EXTREME_ROWS(name, dtype, type, effort, initial, is_better)                                \
    EXTREMES_IN_COLUMNS(dtype, type, initial, is_better)                                           \
    ONCE effort static void name##_rows_##dtype(type *restrict totals, const type *restrict x,     \
                                                int rows, ptrdiff_t stride, int width) {           \
        alignas(VECTOR_BYTES) type partial[WIDTH];                                                 \
        alignas(VECTOR_BYTES) BITS_##dtype is_odd[WIDTH] = {0}, bits[WIDTH];                       \
        for (int i = 0; i < WIDTH; i++) partial[i] = initial;                                      \
        if (width == WIDTH) {                                                                      \
            WIDE_EXTREMES(dtype, type, initial, is_better)                                         \
        } else                                                                                     \
            for (int row = 0; row < rows; row++)                                                   \
                for (int i = 0; i < width; i++) {                                                  \
                    const type y = x[row * stride + i];                                            \
                    partial[i] = is_better(y, partial[i]) ? y : partial[i];                        \
                    is_odd[i] |= -(y != y);                                                        \
                }                                                                                  \
        alignas(VECTOR_BYTES) type all[WIDTH] = {0};                                               \
        memcpy(all, totals, width * sizeof *all);                                                  \
        for (int i = 0; i < WIDTH; i++)                                                            \
            all[i] = is_better(partial[i], all[i]) ? partial[i] : all[i];                          \
        memcpy(bits, all, sizeof bits);                                                            \
        for (int i = 0; i < WIDTH; i++) bits[i] |= is_odd[i]; /* a number of ones only is NaN */   \
        memcpy(totals, bits, width * sizeof *bits);                                                \
    }

#define ROW(name, dtype, type, total, effort, initial, combine)                                    \
    ONCE effort static total name##_row_##dtype(const type *x, int count) {                        \
        FAST_ROW(dtype, total, initial, combine)                                                   \
        const int rows = count / WIDTH;                                                            \
        alignas(VECTOR_BYTES) total totals[WIDTH];                                                 \
        for (int i = 0; i < WIDTH; i++) totals[i] = initial;                                       \
        name##_rows_##dtype(totals, x, rows, WIDTH, WIDTH);                                        \
        BRIEF for (int i = 0; i < count - rows * WIDTH; i++)                                       \
            totals[i] = combine(totals[i], x[rows * WIDTH + i]);                                   \
        for (int half = WIDTH / 2; half > 0; half /= 2)                                            \
            for (int i = 0; i < half; i++) totals[i] = combine(totals[i], totals[i + half]);       \
        return totals[0];                                                                          \
    }

// The parts of a long row, each of which has PART elements but the last one; and what they come to, divided.
#define ROW_PARTS(name, dtype, type, total, combine)                                               \
    KERNEL(name##_parts_##dtype)(const type *x, total *totals, int count) {                        \
        for (; count > 0; count -= PART, x += PART)                                                \
            *totals++ = name##_row_##dtype(x, smaller(PART, count));                               \
    }                                                                                              \
    KERNEL(name##_total_##dtype)(const total *totals, type *out, int count, int divisor) {         \
        total y = totals[0];                                                                       \
        for (int i = 1; i < count; i++) y = combine(y, totals[i]);                                 \
        *out = y / divisor;                                                                        \
    }

#define FOLD(name, dtype, type, block, total, result, effort, initial, combine, finish, reduce)    \
    /* Some columns of a matrix whose rows have `pitch` elements. */                               \
    effort KERNEL(name##_pitched_##dtype)(const type *x, result *out, int columns, int reduced,    \
                                          int pitch) {                                             \
        if (reduced <= FEW)                                                                        \
            for (int first = 0; first < columns; first += STRIPE) {                                \
                const int width = smaller(STRIPE, columns - first);                                \
                alignas(VECTOR_BYTES) block partial[STRIPE];                                       \
                for (int i = 0; i < width; i++) partial[i] = initial;                              \
                for (int row = 0; row < reduced; row++)                                            \
                    for (int i = 0; i < width; i++)                                                \
                        partial[i] = combine(partial[i], x[(ptrdiff_t)row * pitch + first + i]);   \
                for (int i = 0; i < width; i++)                                                    \
                    out[first + i] = finish((total)partial[i], reduced);                           \
            }                                                                                      \
        else                                                                                       \
            for (int first = 0; first < columns; first += STRIPE) {                                \
                const int width = smaller(STRIPE, columns - first);                                \
                alignas(VECTOR_BYTES) total totals[STRIPE];                                        \
                for (int i = 0; i < width; i++) totals[i] = initial;                               \
                for (int row = 0; row < reduced; row += AT_ONCE_##reduce)                          \
                    reduce(name, dtype)                                                            \
                for (int i = 0; i < width; i++) out[first + i] = finish(totals[i], reduced);       \
            }                                                                                      \
    }                                                                                              \
    effort KERNEL(name##_##dtype)(const type *x, result *out, int outer, int reduced, int inner) { \
        SHORT_ROWS(dtype, type, total, initial, combine, finish)                                   \
        for (; outer > 0; outer--, x += (ptrdiff_t)reduced * inner, out += inner)                  \
            if (inner == 1) {                                                                      \
                total y = name##_row_##dtype(x, smaller(PART, reduced));                           \
                for (int first = PART; first < reduced; first += PART)                             \
                    y = combine(y, name##_row_##dtype(x + first, smaller(PART, reduced - first))); \
                *out = finish(y, reduced);                                                         \
            } else if (inner <= SHORT && reduced >= 2 * WIDTH) {                                   \
                const int columns = WIDTH * inner, rows = reduced / WIDTH;                         \
                const type *const rest = x + (ptrdiff_t)rows * columns;                            \
                total totals[WIDTH * SHORT];                                                       \
                BRIEF for (int i = 0; i < columns; i++) totals[i] = initial;                       \
                for (int row = 0; row < rows; row += BLOCK)                                        \
                    for (int i = 0; i < columns; i += WIDTH)                                       \
                        name##_rows_##dtype(totals + i, x + (ptrdiff_t)row * columns + i,          \
                                            smaller(BLOCK, rows - row), columns, WIDTH);           \
                BRIEF for (int i = 0; i < (reduced - rows * WIDTH) * inner; i++)                   \
                    totals[i] = combine(totals[i], rest[i]);                                       \
                for (int count = columns / 2; count >= inner; count /= 2)                          \
                    BRIEF for (int i = 0; i < count; i++)                                          \
                        totals[i] = combine(totals[i], totals[i + count]);                         \
                BRIEF for (int i = 0; i < inner; i++) out[i] = finish(totals[i], reduced);         \
            } else                                                                                 \
                name##_pitched_##dtype(x, out, inner, reduced, inner);                             \
    }

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define GREATEST(a, b) ((((b) >= (a)) | ((b) != (b))) ? (b) : (a)) /* NaN wins and stays; else the last */
#define LEAST(a, b) ((((b) <= (a)) | ((b) != (b))) ? (b) : (a))
#define MAXIMUM(a, b) __builtin_elementwise_max(a, b) // of integers
#define MINIMUM(a, b) __builtin_elementwise_min(a, b)
#define IS_GREATER(y, best) ((y) > (best))
#define IS_LESS(y, best) ((y) < (best))
#define BOTH(a, b) ((a) & (b))
#define EITHER(a, b) ((a) | (b))
#define WHOLE(y, count) (y)
#define AVERAGE(y, count) ((y) / (count))

#define EXTREME(name, dtype, type, effort, initial, is_better, combine)                            \
    EXTREME_ROWS(name, dtype, type, effort, initial, is_better)                                    \
    ROW(name, dtype, type, type, effort, initial, combine)                                         \
    FOLD(name, dtype, type, type, type, type, effort, initial, combine, WHOLE, REDUCE_EXTREMES)

#define mean_rows_float32 sum_rows_float32
#define mean_rows_float64 sum_rows_float64
#define mean_lines_float32 sum_lines_float32
#define mean_lines_float64 sum_lines_float64
#define mean_row_float32 sum_row_float32
#define mean_row_float64 sum_row_float64
#ifdef __wasm__
// What is multiplied is converted to double, so that results in memory would take longer than the columns.
#define PRODUCTS(dtype, type, effort)                                                              \
    ROWS(prod, dtype, type, double, double, effort, 1, PRODUCT, WIDE_ROWS)                               \
    ROW(prod, dtype, type, double, effort, 1, PRODUCT)                                             \
    FOLD(prod, dtype, type, double, double, type, effort, 1, PRODUCT, WHOLE, REDUCE_EXTREMES)
#else
#define PRODUCTS(dtype, type, effort)                                                              \
    REDUCTION(prod, dtype, type, double, double, type, effort, 1, PRODUCT, WHOLE)
#endif
#define FLOAT_KERNELS(dtype, type, effort)                                                         \
    REDUCTION(sum, dtype, type, type, double, type, effort, 0, SUM, WHOLE)                         \
    FOLD(mean, dtype, type, type, double, type, effort, 0, SUM, AVERAGE, REDUCE_LINES)             \
    PRODUCTS(dtype, type, effort)                                                                  \
    ROW_PARTS(sum, dtype, type, double, SUM)                                                       \
    ROW_PARTS(prod, dtype, type, double, PRODUCT)                                                  \
    EXTREME(max, dtype, type, effort, -__builtin_inff(), IS_GREATER, GREATEST)                     \
    EXTREME(min, dtype, type, effort, __builtin_inff(), IS_LESS, LEAST)
EACH_FLOAT(FLOAT_KERNELS)

#ifdef __wasm__
#include "half_sums.h"
#endif

#define COMPLEX_PRODUCTS(type)                                                                     \
    ROWS(prod, type, type, complex128, complex128, SMALL, 1, PRODUCT, PLAIN_ROWS)                  \
    ROW(prod, type, type, complex128, SMALL, 1, PRODUCT)                                           \
    FOLD(prod, type, type, complex128, complex128, type, SMALL, 1, PRODUCT, WHOLE, REDUCE_ROWS)
COMPLEX_PRODUCTS(complex64)
COMPLEX_PRODUCTS(complex128)

// Sums and products of unsigned numbers have the bits of those of signed ones.
#define OF_UNSIGNED(name, dtype, type)                                                             \
    KERNEL(name##_u##dtype)(const type *x, type *out, int outer, int reduced, int inner) {         \
        name##_##dtype(x, out, outer, reduced, inner);                                             \
    }                                                                                              \
    KERNEL(name##_pitched_u##dtype)(const type *x, type *out, int columns, int reduced, int pitch) { \
        name##_pitched_##dtype(x, out, columns, reduced, pitch);                                   \
    }
#define SIGNED_KERNELS(dtype, type, effort)                                                        \
    REDUCTION(sum, dtype, type, type, type, type, effort, 0, SUM, WHOLE)                           \
    REDUCTION(prod, dtype, type, type, type, type, effort, 1, PRODUCT, WHOLE)                      \
    OF_UNSIGNED(sum, dtype, type)                                                                  \
    OF_UNSIGNED(prod, dtype, type)
EACH_SIGNED(SIGNED_KERNELS)

#define INTEGER_KERNELS(dtype, type, effort)                                                       \
    REDUCTION(max, dtype, type, type, type, type, effort, LEAST_##dtype, MAXIMUM, WHOLE)           \
    REDUCTION(min, dtype, type, type, type, type, effort, GREATEST_##dtype, MINIMUM, WHOLE)
EACH_INTEGER(INTEGER_KERNELS)

// Along rows, the first block with a decisive element ends the search.
#define DECISION(name, initial, combine)                                                           \
    static void name##_of_columns(const boolean *x, boolean *out, int reduced, int inner) {        \
        memset(out, initial, inner);                                                               \
        for (int row = 0; row < reduced; row++, x += inner)                                        \
            for (int i = 0; i < inner; i++) out[i] = combine(out[i], x[i]);                        \
    }                                                                                              \
    KERNEL(name##_bool)(const boolean *x, boolean *out, int outer, int reduced, int inner) {       \
        for (; outer > 0; outer--, x += (ptrdiff_t)reduced * inner, out += inner) {                \
            if (inner > 1) {                                                                       \
                name##_of_columns(x, out, reduced, inner);                                         \
                continue;                                                                          \
            }                                                                                      \
            boolean y = initial;                                                                   \
            int first = 0;                                                                         \
            for (; first + SPAN <= reduced && y == initial; first += SPAN)                       \
                for (int i = 0; i < SPAN; i++) y = combine(y, x[first + i]);                      \
            for (; first < reduced && y == initial; first++) y = combine(y, x[first]);             \
            *out = y;                                                                              \
        }                                                                                          \
    }
DECISION(all, 1, BOTH)
DECISION(any, 0, EITHER)

// ---- positions: the first one of the extreme value; NaN counts as extreme ----

#undef WIDTH
#define WIDTH 16
// If there is a NaN, it is the extreme value.
#define IS_PLACE(x, y) (((x) == (y)) | ((x) != (x)))
#define POSITION(name, dtype, type, effort, is_better, extreme)                                   \
    effort static void name##_rows_##dtype(type *restrict best, int32_t *restrict position,        \
                                           const type *restrict x, int rows, ptrdiff_t stride,     \
                                           int width) {                                            \
        for (int i = 0; i < width; i++) best[i] = x[i], position[i] = 0;                           \
        for (int row = 1; row < rows; row++)                                                       \
            SIDE_BY_SIDE for (int i = 0; i < width; i++) {                                         \
                const type y = x[row * stride + i];                                                \
                const bool found = is_better(y, best[i]);                                          \
                best[i] = found ? y : best[i];                                                     \
                position[i] = found ? row : position[i];                                           \
            }                                                                                      \
    }                                                                                              \
    effort KERNEL(name##_pitched_##dtype)(const type *x, int32_t *out, int columns, int reduced,   \
                                          int pitch) {                                             \
        alignas(VECTOR_BYTES) type best[WIDTH];                                                    \
        alignas(VECTOR_BYTES) int32_t position[WIDTH];                                             \
        for (int first = 0; first < columns; first += WIDTH) {                                     \
            const int width = smaller(WIDTH, columns - first);                                     \
            if (width == WIDTH)                                                                    \
                name##_rows_##dtype(best, position, x + first, reduced, pitch, WIDTH);             \
            else                                                                                   \
                name##_rows_##dtype(best, position, x + first, reduced, pitch, width);             \
            memcpy(out + first, position, width * sizeof *out);                                    \
        }                                                                                          \
    }                                                                                              \
    effort KERNEL(name##_##dtype)(const type *x, int32_t *out, int outer, int reduced,             \
                                  int inner) {                                                     \
        for (; outer > 0; outer--, x += (ptrdiff_t)reduced * inner, out += inner)                  \
            if (inner == 1 && reduced >= WIDTH) { /* the extreme value, and then its place */      \
                type y;                                                                            \
                int first = 0, found = 0;                                                          \
                extreme##_##dtype(x, &y, 1, reduced, 1);                                           \
                for (; first + GROUP <= reduced; first += GROUP) {                                 \
                    for (int i = 0; i < GROUP; i++) found |= IS_PLACE(x[first + i], y);            \
                    if (found) break;                                                              \
                }                                                                                  \
                while (!IS_PLACE(x[first], y)) first++;                                            \
                *out = first;                                                                      \
            } else                                                                                 \
                name##_pitched_##dtype(x, out, inner, reduced, inner);                             \
    }
#define COMES_BEFORE_MAX(y, best) (IS_GREATER(y, best) | (((y) != (y)) & ((best) == (best))))
#define COMES_BEFORE_MIN(y, best) (IS_LESS(y, best) | (((y) != (y)) & ((best) == (best))))
#define POSITION_KERNELS(dtype, type, effort)                                                      \
    POSITION(argmax, dtype, type, effort, COMES_BEFORE_MAX, max)                                   \
    POSITION(argmin, dtype, type, effort, COMES_BEFORE_MIN, min)
EACH_NUMBER(POSITION_KERNELS)
