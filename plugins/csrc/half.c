// float16 and bfloat16: stored in 16 bits, computed in float32 by the kernels of that type, a block at a time.
//
// A module of WebAssembly cannot call others, so this one has copies of those kernels, which it does
// not export. An extension has copies of those only that it does not list.
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wmacro-redefined"
#pragma clang diagnostic ignored "-Wstatic-in-inline"
#ifdef __wasm__
#define KERNEL(name) static void name
#else
#define LISTED extern inline __attribute__((gnu_inline))  // only declared, unless it is inlined
#endif
#include "activation.c"
#include "binary.c"
#include "unary.c"
#include "halves.h"
#ifdef __wasm__
#undef KERNEL
#define KERNEL(name) EXPORTED(name) void name
#else
#undef LISTED
#define LISTED IN_TABLE
#endif

#undef BLOCK
#define BLOCK 256

// Rounding twice is harmless if the first result is odd where it is not exact.
static float rounded_to_odd(double x) {
    const float y = x;
    uint32_t bits = bits_of(y);
    if (x != x || y == x || (bits & 0x7fffffff) == 0x7f800000) return y;
    if (__builtin_fabs(y) > __builtin_fabs(x)) bits--;
    return of_bits(bits | 1);
}

#ifdef __wasm__
#include "half_eights.h"

KERNEL(cast_float16_float32)(const half *restrict x, float *restrict out, int count) {
    widen_float16(x, out, count);
}
KERNEL(cast_float32_float16)(const float *restrict x, half *restrict out, int count) {
    narrow_float16(x, out, count);
}
KERNEL(cast_float32_bfloat16)(const float *restrict x, half *restrict out, int count) {
    narrow_bfloat16(x, out, count);
}
#else
#define LOOK_UP(function, result)
MAP(cast_float16, float32, half, float, FAST, widened(x))
MAP(cast_float32, float16, float, half, FAST, narrowed(x))
MAP(cast_float32, bfloat16, float, half, FAST, narrowed_brain(x))
#endif
MAP(cast_float64, float16, double, half, SMALL, narrowed(rounded_to_odd(x)))
MAP(cast_bfloat16, float32, half, float, FAST, widened_brain(x))
MAP(cast_float64, bfloat16, double, half, SMALL, narrowed_brain(rounded_to_odd(x)))

// 24 bits of an integer, of which the last one stands for all that are cut off, too.
static float odd_from_uint64(uint64_t x) {
    if (x < 1 << 24) return x;
    const int cut = 40 - __builtin_clzll(x);
    const uint32_t leading = (x >> cut) | ((x & ((UINT64_C(1) << cut) - 1)) != 0);
    return leading * of_bits((uint32_t)(127 + cut) << 23);
}
static float odd_from_int64(int64_t x) {
    return x < 0 ? -odd_from_uint64(-(uint64_t)x) : odd_from_uint64(x);
}
MAP(cast_int64, bfloat16, int64_t, half, SMALL, narrowed_brain(odd_from_int64(x)))
MAP(cast_uint64, bfloat16, uint64_t, half, SMALL, narrowed_brain(odd_from_uint64(x)))

typedef struct {
    void (*widen)(const half *x, float *out, int count);
    void (*narrow)(const float *x, half *out, int count);
} format;
static const format float16_format = {cast_float16_float32, cast_float32_float16};
static const format bfloat16_format = {cast_bfloat16_float32, cast_float32_bfloat16};

// ---- kernels of float32 on blocks ----

typedef void mapped(const float *x, void *y, int count);
typedef void combined(const float *a, const float *b, void *y, int count, int a_step, int b_step);

ONCE static void map(const format *format, mapped *kernel, const half *x, void *out, int count,
                     int keeps_bools) {
    float values[BLOCK], y[BLOCK];
    for (int first = 0; first < count; first += BLOCK) {
        const int size = smaller(BLOCK, count - first);
        format->widen(x + first, values, size);
        kernel(values, keeps_bools ? (void *)((boolean *)out + first) : y, size);
        if (!keeps_bools) format->narrow(y, (half *)out + first, size);
    }
}

ONCE static void combine(const format *format, combined *kernel, const half *left, const half *right,
                         void *out, int count, int left_step, int right_step, int keeps_bools) {
    float a[BLOCK], b[BLOCK], y[BLOCK];
    for (int first = 0; first < count; first += BLOCK) {
        const int size = smaller(BLOCK, count - first);
        format->widen(left + first * left_step, a, left_step ? size : 1);
        format->widen(right + first * right_step, b, right_step ? size : 1);
        kernel(a, b, keeps_bools ? (void *)((boolean *)out + first) : y, size, left_step,
               right_step);
        if (!keeps_bools) format->narrow(y, (half *)out + first, size);
    }
}

#define MAPPED(name, dtype, result, keeps_bools)                                                   \
    KERNEL(name##_##dtype)(const half *x, result *out, int count) {                                \
        LOOK_UP(name##_##dtype, result)                                                            \
        map(&dtype##_format, (mapped *)name##_float32, x, out, count, keeps_bools);                \
    }
#define COMBINED(name, dtype, result, keeps_bools)                                                 \
    KERNEL(name##_##dtype)(const half *left, const half *right, result *out, int count,            \
                           int left_step, int right_step) {                                        \
        combine(&dtype##_format, (combined *)name##_float32, left, right, out, count, left_step,   \
                right_step, keeps_bools);                                                          \
    }                                                                                              \
    KERNEL(name##_##dtype##_broadcast)(const strided *left, const strided *right, char *out,       \
                                       const int *descriptor) {                                    \
        broadcast((run)name##_##dtype, left, right, out, descriptor, sizeof(half),                 \
                  sizeof(result));                                                                 \
    }

#define EACH_HALF(X, ...) X(__VA_ARGS__, float16) X(__VA_ARGS__, bfloat16)
#define FUNCTION_OF(name, dtype) MAPPED(name, dtype, half, 0)
#define PREDICATE_OF(name, dtype) MAPPED(name, dtype, boolean, 1)
#define OPERATION_OF(name, dtype) COMBINED(name, dtype, half, 0)
#define COMPARISON_OF(name, dtype) COMBINED(name, dtype, boolean, 1)
#define FUNCTION(name) EACH_HALF(FUNCTION_OF, name)
#define PREDICATE(name) EACH_HALF(PREDICATE_OF, name)
#define OPERATION(name) EACH_HALF(OPERATION_OF, name)
#define COMPARISON(name) EACH_HALF(COMPARISON_OF, name)

FUNCTION(acos) FUNCTION(acosh) FUNCTION(asin) FUNCTION(asinh) FUNCTION(atan)
FUNCTION(atanh) FUNCTION(ceil) FUNCTION(cos) FUNCTION(cosh) FUNCTION(elu) FUNCTION(erf)
FUNCTION(expm1) FUNCTION(floor) FUNCTION(gelu) FUNCTION(gelu_tanh) FUNCTION(log)
FUNCTION(log10) FUNCTION(log1p)
FUNCTION(log2) FUNCTION(reciprocal) FUNCTION(relu6)
FUNCTION(round) FUNCTION(rsqrt) FUNCTION(selu) FUNCTION(sigmoid) FUNCTION(sign)
FUNCTION(silu) FUNCTION(sin)
FUNCTION(sinh) FUNCTION(softplus) FUNCTION(square) FUNCTION(tan) FUNCTION(tanh)
FUNCTION(trunc)

PREDICATE(is_finite) PREDICATE(is_inf) PREDICATE(is_nan) PREDICATE(sign_bit)

OPERATION(atan2) OPERATION(elu_gradient) OPERATION(floor_divide)
OPERATION(gelu_gradient) OPERATION(gelu_tanh_gradient) OPERATION(hypot) OPERATION(log_add_exp)
OPERATION(power) OPERATION(prelu) OPERATION(relu6_gradient) OPERATION(remainder)
OPERATION(sigmoid_gradient) OPERATION(silu_gradient) OPERATION(squared_difference)

#ifndef __wasm__  // which has others, in half_eights.h
FUNCTION(relu) FUNCTION(sqrt)
OPERATION(divide) OPERATION(maximum) OPERATION(minimum)
#define SIMPLE(name, sign)                                                                         \
    PAIRS(name, float16, half, half, FAST, narrowed(widened(a) sign widened(b)))                   \
    PAIRS(name, bfloat16, half, half, FAST, narrowed_brain(widened_brain(a) sign widened_brain(b)))
SIMPLE(add, +)
SIMPLE(multiply, *)
SIMPLE(subtract, -)
#endif

FUNCTION_OF(exp, bfloat16)  // that of float16 needs fewer digits

COMPARISON(equal) COMPARISON(less) COMPARISON(less_equal) COMPARISON(not_equal)

// 2^x has 20 correct digits, of which 11 remain; beyond [-26, 16] it is 0 and infinity.
typedef struct {
    floats rest, shifted;  // of the exponent
} power_exponent;
static inline power_exponent power_parts(floats x, float factor) {
    const floats t = at_most(at_least(x * (1.44269504088896341f * factor), -26.f), 16.f);
    const floats shifted = t + splat(12582912.f);
    return (power_exponent){t - (shifted - 12582912.f), shifted};
}
static inline floats half_power(power_exponent e) {
    const floats r = e.rest;
    floats p = splat(1.5353362e-4f);
    p = multiply_add(p, r, splat(1.3398875e-3f));
    p = multiply_add(p, r, splat(9.618437e-3f));
    p = multiply_add(p, r, splat(5.5503324e-2f));
    p = multiply_add(p, r, splat(2.4022648e-1f));
    p = multiply_add(p, r, splat(6.931472e-1f));
    const floats scale = power_of_two((ints)e.shifted - (ints)splat(12582912.f));
    return multiply_add(p * r, scale, scale);
}
#ifdef __wasm__
// Infinity as the finite number that its bits are here is far enough. The results have 20 digits, also where they are
// denormal.
#define SIZE_OF_HALVES 0x1p112f  // by which the exponential multiplies: as floats, their bits are smaller
static inline shorts rounded_powers(float_pair powers, shorts x) {
    const shorts y = (shorts)rounded_magnitudes(powers);
    return y | (is_above(x & 0x7fff, 0x7c00) & 0x7e00);
}

// Three loops, as for gelu: in one, each vector would wait for the one before.
ONCE static void split_exponents(const half *x, float *rest, float *shifted, int count) {
    for (int i = 0; i < count; i += 8) {
        const float_pair y = scaled_from(x + i);
        const power_exponent low = power_parts(y.low, SIZE_OF_HALVES);
        const power_exponent high = power_parts(y.high, SIZE_OF_HALVES);
        store(rest + i, low.rest), store(shifted + i, low.shifted);
        store(rest + i + LANES, high.rest), store(shifted + i + LANES, high.shifted);
    }
}
ONCE static void find_powers(const float *rest, const float *shifted, float *powers, int count) {
    for (int i = 0; i < count; i += 8)
        UNROLLED for (int k = i; k < i + 8; k += LANES) {
            const power_exponent e = {load(rest + k), load(shifted + k)};
            store(powers + k, half_power(e) * (1 / SIZE_OF_HALVES));
        }
}
ONCE static void round_powers(const float *powers, const half *x, half *out, int count) {
    _Pragma("clang loop unroll_count(2)") for (int i = 0; i < count; i += 8) {
        const float_pair y = {load(powers + i), load(powers + i + LANES)};
        const shorts z = rounded_powers(y, load_halves(x + i));
        memcpy(out + i, &z, sizeof z);
    }
}
ONCE static void exp_eights(const half *x, half *out, int count) {
    float rest[AT_ONCE], shifted[AT_ONCE];
    for (int first = 0; first < count; first += AT_ONCE) {
        const int size = smaller(AT_ONCE, count - first);
        split_exponents(x + first, rest, shifted, size);
        find_powers(rest, shifted, rest, size);
        round_powers(rest, x + first, out + first, size);
    }
}
KERNEL(exp_float16)(const half *x, half *out, int count) {
    LOOK_UP(exp_float16, half)
    const int whole = count / 8 * 8;
    exp_eights(x, out, whole);
    half rest[8] = {};
    memcpy(rest, x + whole, (count - whole) * sizeof(half));
    exp_eights(rest, rest, 8);
    memcpy(out + whole, rest, (count - whole) * sizeof(half));
}
#else
static void exp_of_half_float32(const float *values, float *out, int count) {
#define exp_of_floats(x) half_power(power_parts(x, 1))
    MAP_FLOATS(exp_of_floats, values, out, count);
}

#if defined(__F16C__) || defined(__aarch64__)
#define narrowed_power narrowed
#else
// `narrowed` of 0 <= x <= 2^16, which is infinity, and of NaN.
static inline half narrowed_power(float x) {
    const uint32_t bits = bits_of(x);
    const uint32_t small = bits_of(x + 0.5f) - bits_of(0.5f);
    const uint32_t usual = (bits - (112 << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
    return (bits < 113 << 23 ? small : usual) | (x != x ? 0x7e00 : 0);
}
#endif
KERNEL(exp_float16)(const half *restrict x, half *restrict out, int count) {
    float values[BLOCK], y[BLOCK];
    for (int first = 0; first < count; first += BLOCK) {
        const int size = smaller(BLOCK, count - first);
        cast_float16_float32(x + first, values, size);
        exp_of_half_float32(values, y, size);
        for (int i = 0; i < size; i++) out[first + i] = narrowed_power(y[i]);
    }
}
#endif

// Only the bit of the sign changes.
MAP(abs, float16, half, half, FAST, x & 0x7fff)
MAP(abs, bfloat16, half, half, FAST, x & 0x7fff)
MAP(negative, float16, half, half, FAST, x ^ 0x8000)
MAP(negative, bfloat16, half, half, FAST, x ^ 0x8000)

// The neighbour of a in the direction of b, whose values are x and y; bits of one sign are in the order of the numbers.
static half neighbour(half a, half b, float x, float y, half not_a_number) {
    if (x != x || y != y) return not_a_number;
    if (x == y) return b;
    if (x == 0) return (b & 0x8000) | 1;
    return (x < y) == (x > 0) ? a + 1 : a - 1;
}
PAIRS(next_after, float16, half, half, SMALL, neighbour(a, b, widened(a), widened(b), 0x7e00))
PAIRS(next_after, bfloat16, half, half, SMALL,
      neighbour(a, b, widened_brain(a), widened_brain(b), 0x7fc0))

#ifndef __wasm__
#define STEP(dtype, one, infinity, narrowed)                                                       \
    MAP(step, dtype, half, half, FAST,                                                             \
        (x & 0x7fff) > infinity ? x : (int16_t)x > 0 ? one : narrowed(alpha), float alpha)
STEP(float16, 0x3c00, 0x7c00, narrowed)
STEP(bfloat16, 0x3f80, 0x7f80, narrowed_brain)

// ---- rows: sums and norms of what is converted into the first level of the cache ----

static inline float sum_of(const float *x, int count) {
    const int lanes = VECTOR_BYTES / sizeof(float), whole = count / lanes * lanes;
    floats total = {}, values;
    for (int i = 0; i < whole; i += lanes) {
        memcpy(&values, x + i, sizeof values);
        total += values;
    }
    float sum = sum_lanes(total);
    for (int i = whole; i < count; i++) sum += x[i];
    return sum;
}

static inline float sum_of_squares(const float *x, float mean, int count) {
    float differences[BLOCK];
    for (int i = 0; i < count; i++) differences[i] = (x[i] - mean) * (x[i] - mean);
    return sum_of(differences, count);
}

#define SUMS (4 * LANES)  // side by side, in registers
#define LONG_BLOCK 2048
#define GROUP 256
#define COLUMNS 512
#define ROWS(dtype, widened, narrowed)                                                             \
    /* The sum of each row, divided by a number. */                                                \
    KERNEL(sum_rows_##dtype)(const half *x, half *out, int rows, int count, float divisor) {       \
        for (; rows > 0; rows--, x += count) {                                                     \
            double total = 0;                                                                      \
            for (int first = 0; first < count; first += LONG_BLOCK) {                              \
                const int size = smaller(LONG_BLOCK, count - first);                               \
                float sums[SUMS] = {};                                                             \
                int i = first;                                                                     \
                for (; i + SUMS <= first + size; i += SUMS)                                        \
                    for (int k = 0; k < SUMS; k++) sums[k] += widened(x[i + k]);                   \
                for (int k = 0; i + k < first + size; k++) sums[k] += widened(x[i + k]);           \
                total += sum_of(sums, SUMS);                                                       \
            }                                                                                      \
            *out++ = narrowed(total / divisor);                                                    \
        }                                                                                          \
    }                                                                                              \
    /* The sums of columns, likewise: of GROUP rows in float32, and then of the groups. */         \
    KERNEL(sum_columns_##dtype)(const half *x, half *out, int outer, int reduced, int inner,       \
                                float divisor) {                                                   \
        for (; outer > 0; outer--, x += (ptrdiff_t)reduced * inner, out += inner)                  \
            for (int first = 0; first < inner; first += COLUMNS) {                                 \
                const int width = smaller(COLUMNS, inner - first);                                 \
                float total[COLUMNS] = {}, sums[COLUMNS];                                          \
                for (int row = 0, end; row < reduced; row = end) {                                 \
                    end = smaller(row + GROUP, reduced);                                           \
                    memset(sums, 0, sizeof sums);                                                  \
                    const half *line = x + (ptrdiff_t)row * inner + first;                         \
                    for (; row + 4 <= end; row += 4, line += 4 * (ptrdiff_t)inner)                 \
                        for (int i = 0; i < width; i++)                                            \
                            sums[i] += widened(line[i]) + widened(line[i + (ptrdiff_t)inner]) +    \
                                       (widened(line[i + 2 * (ptrdiff_t)inner]) +                  \
                                        widened(line[i + 3 * (ptrdiff_t)inner]));                  \
                    for (; row < end; row++, line += inner)                                        \
                        for (int i = 0; i < width; i++) sums[i] += widened(line[i]);               \
                    for (int i = 0; i < width; i++) total[i] += sums[i];                           \
                }                                                                                  \
                for (int i = 0; i < width; i++) out[first + i] = narrowed(total[i] / divisor);     \
            }                                                                                      \
    }                                                                                              \
    /* Each channel by numbers of its own. */                                                      \
    KERNEL(scale_rows_##dtype)(const half *restrict x, const float *restrict mean,                 \
                               const float *restrict factor, const float *restrict offset,         \
                               half *restrict out, int rows, int channels) {                       \
        for (; rows > 0; rows--, x += channels, out += channels)                                   \
            for (int i = 0; i < channels; i++)                                                     \
                out[i] = narrowed((widened(x[i]) - mean[i]) * factor[i] + offset[i]);              \
    }                                                                                              \
    KERNEL(layer_norm_##dtype)(const half *restrict x, const float *restrict offset,               \
                               const float *restrict scale, half *restrict out, int rows,          \
                               int count, float epsilon, float *restrict row) {                    \
        for (; rows > 0; rows--, x += count, out += count) {                                       \
            cast_##dtype##_float32(x, row, count);                                                 \
            double total = 0, squares = 0;                                                         \
            for (int i = 0; i < count; i += BLOCK)                                                 \
                total += sum_of(row + i, smaller(BLOCK, count - i));                               \
            const float mean = total / count;                                                      \
            for (int i = 0; i < count; i += BLOCK)                                                 \
                squares += sum_of_squares(row + i, mean, smaller(BLOCK, count - i));               \
            const float inverse = 1 / __builtin_sqrt(squares / count + epsilon);                   \
            for (int i = 0; i < count; i++)                                                        \
                out[i] = narrowed((row[i] - mean) * inverse * scale[i] + offset[i]);               \
        }                                                                                          \
    }
ROWS(float16, widened, narrowed)
ROWS(bfloat16, widened_brain, narrowed_brain)
#endif
