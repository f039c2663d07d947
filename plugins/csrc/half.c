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
#ifdef __wasm__
#undef KERNEL
#define KERNEL(name) EXPORTED(name) void name
#else
#undef LISTED
#define LISTED IN_TABLE
#endif

#undef BLOCK
#define BLOCK 256

typedef uint16_t half;

static inline float of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#if defined(__F16C__) || defined(__aarch64__)  // the processor converts
static inline float widened(half x) {
    _Float16 number;
    memcpy(&number, &x, sizeof number);
    return number;
}

static inline half narrowed(float x) {
    const _Float16 number = x;
    half bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}
#else
// The exponents differ by 112; a product with a power of two is exact for denormal numbers, too.
static inline float widened(half x) {
    const uint32_t magnitude = x & 0x7fff;
    const uint32_t bits = bits_of(of_bits(magnitude << 13) * 0x1p112f);
    const uint32_t special = magnitude >= 0x7c00 ? 0x7f800000 : 0;  // infinity and NaN
    return of_bits(bits | special | (uint32_t)(x & 0x8000) << 16);
}

// Rounds half to even. A number that is denormal in float16 is added to one whose last bit has the
// value of theirs; adding an odd half of what is cut off rounds the others.
static inline half narrowed(float x) {
    const uint32_t bits = bits_of(x), magnitude = bits & 0x7fffffff;
    const uint32_t finite = magnitude < 0x47800000 ? magnitude : 0x47800000;  // 2^16 is infinity
    const uint32_t small = bits_of(of_bits(magnitude) + 0.5f) - bits_of(0.5f);
    const uint32_t usual = (finite - (112 << 23) + 0xfff + (finite >> 13 & 1)) >> 13;
    const uint32_t y = magnitude < 113 << 23 ? small : usual;
    return y | (magnitude > 0x7f800000 ? 0x200 : 0) | (bits >> 16 & 0x8000);
}
#endif

// bfloat16 is the first half of float32, rounded half to even; NaN keeps a bit that says so. The instruction of
// AVX512-BF16 is not used, because it takes denormal numbers for 0.
static inline float widened_brain(half x) {
    return of_bits((uint32_t)x << 16);
}

static inline half narrowed_brain(float x) {
    const uint32_t bits = bits_of(x);
    const uint32_t even = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return x != x ? bits >> 16 | 0x40 : even;
}

// Rounding twice is harmless if the first result is odd where it is not exact.
static float rounded_to_odd(double x) {
    const float y = x;
    uint32_t bits = bits_of(y);
    if (x != x || y == x || (bits & 0x7fffffff) == 0x7f800000) return y;
    if (__builtin_fabs(y) > __builtin_fabs(x)) bits--;
    return of_bits(bits | 1);
}

MAP(cast_float16, float32, half, float, FAST, widened(x))
MAP(cast_float32, float16, float, half, FAST, narrowed(x))
MAP(cast_float64, float16, double, half, SMALL, narrowed(rounded_to_odd(x)))
MAP(cast_bfloat16, float32, half, float, FAST, widened_brain(x))
MAP(cast_float32, bfloat16, float, half, FAST, narrowed_brain(x))
MAP(cast_float64, bfloat16, double, half, SMALL, narrowed_brain(rounded_to_odd(x)))

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
FUNCTION(log2) FUNCTION(reciprocal) FUNCTION(relu) FUNCTION(relu6)
FUNCTION(round) FUNCTION(rsqrt) FUNCTION(selu) FUNCTION(sigmoid) FUNCTION(sign) FUNCTION(sin)
FUNCTION(sinh) FUNCTION(softplus) FUNCTION(sqrt) FUNCTION(square) FUNCTION(tan) FUNCTION(tanh)
FUNCTION(trunc)

PREDICATE(is_finite) PREDICATE(is_inf) PREDICATE(is_nan) PREDICATE(sign_bit)

OPERATION(add) OPERATION(atan2) OPERATION(divide) OPERATION(elu_gradient) OPERATION(floor_divide)
OPERATION(gelu_gradient) OPERATION(gelu_tanh_gradient) OPERATION(hypot) OPERATION(log_add_exp)
OPERATION(maximum) OPERATION(minimum) OPERATION(multiply)
OPERATION(power) OPERATION(prelu) OPERATION(relu6_gradient) OPERATION(remainder)
OPERATION(sigmoid_gradient) OPERATION(squared_difference) OPERATION(subtract)

FUNCTION_OF(exp, bfloat16)  // that of float16 needs fewer digits

COMPARISON(equal) COMPARISON(less) COMPARISON(less_equal) COMPARISON(not_equal)

// 2^x has 20 correct digits, of which 11 remain; beyond [-26, 16] it is 0 and infinity.
static inline floats exp_of_half_floats(floats x) {
    const floats t = at_most(at_least(x * 1.44269504088896341f, -26.f), 16.f);
    const floats shifted = t + splat(12582912.f), r = t - (shifted - 12582912.f);
    floats p = splat(1.5353362e-4f);
    p = multiply_add(p, r, splat(1.3398875e-3f));
    p = multiply_add(p, r, splat(9.618437e-3f));
    p = multiply_add(p, r, splat(5.5503324e-2f));
    p = multiply_add(p, r, splat(2.4022648e-1f));
    p = multiply_add(p, r, splat(6.931472e-1f));
    const floats scale = power_of_two((ints)shifted - (ints)splat(12582912.f));
    return multiply_add(p * r, scale, scale);
}
static void exp_of_half_float32(const float *values, float *out, int count) {
    MAP_FLOATS(exp_of_half_floats, values, out, count);
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

#define ROWS(dtype, widened, narrowed)                                                             \
    /* The sum of each row, divided by a number. */                                                \
    KERNEL(sum_rows_##dtype)(const half *x, half *out, int rows, int count, float divisor) {       \
        float values[BLOCK];                                                                       \
        for (; rows > 0; rows--, x += count) {                                                     \
            double total = 0;                                                                      \
            for (int first = 0; first < count; first += BLOCK) {                                   \
                const int size = smaller(BLOCK, count - first);                                    \
                cast_##dtype##_float32(x + first, values, size);                                   \
                total += sum_of(values, size);                                                     \
            }                                                                                      \
            *out++ = narrowed(total / divisor);                                                    \
        }                                                                                          \
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
