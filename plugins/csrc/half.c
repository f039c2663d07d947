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
#include "half_vectors.h"

KERNEL(cast_float16_float32)(const half *restrict x, float *restrict out, int count) {
    widen_float16(x, out, count);
}
// How many of the first numbers are written, by eights without denormal, infinite and odd results: rounded by one step less.
ONCE static int narrow_usual(const float *restrict x, half *restrict out, int count) {
    int i = 0;
    for (; i + 8 <= count; i += 8) {
        const float_pair y = {load(x + i), load(x + i + 4)};
        const unsigned_shorts z = rounded_halves((float_pair){y.low * 0x1p-112f, y.high * 0x1p-112f});
        const unsigned_shorts bits =  // 0 for 0 alone
            (unsigned_shorts)__builtin_wasm_narrow_s_i16x8_i32x4((ints)y.low, (ints)y.high);
        const unsigned_shorts denormal =
            __builtin_elementwise_sub_sat((unsigned_shorts){} + 0x401, z);
        if (any_lane((ints)(__builtin_elementwise_min(denormal, bits) | is_special(z)))) break;
        const unsigned_shorts result = z | (bits & 0x8000);
        memcpy(out + i, &result, sizeof result);
    }
    return i;
}
KERNEL(cast_float32_float16)(const float *restrict x, half *restrict out, int count) {
    for (int i = 0; (i += narrow_usual(x + i, out + i, count - i)) < count;) {
        const int last = smaller(i + 8, count);
        if (i + 8 <= count) {
            const shorts y = narrowed_floats((float_pair){load(x + i), load(x + i + 4)});
            memcpy(out + i, &y, sizeof y), i += 8;
        }
        for (; i < last; i++) out[i] = narrowed(x[i]);
    }
}
#else
MAP(cast_float16, float32, half, float, FAST, widened(x))
MAP(cast_float32, float16, float, half, FAST, narrowed(x))
#endif
MAP(cast_float64, float16, double, half, SMALL, narrowed(rounded_to_odd(x)))
MAP(cast_bfloat16, float32, half, float, FAST, widened_brain(x))
MAP(cast_float32, bfloat16, float, half, FAST, narrowed_brain(x))
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

// What memory limits is converted in registers.
#ifdef __wasm__
// Eight at a time.
#define EIGHT_AT_A_TIME(name, dtype)                                                               \
    KERNEL(name##_##dtype)(const half *x, half *out, int count) {                                  \
        shorts y = {};                                                                             \
        int i = 0;                                                                                 \
        _Pragma("clang loop unroll_count(4)") for (; i + 8 <= count; i += 8) {                     \
            y = name##_of_##dtype(load_halves(x + i));                                             \
            memcpy(out + i, &y, sizeof y);                                                         \
        }                                                                                          \
        memcpy(&y, x + i, (count - i) * sizeof(half));                                             \
        y = name##_of_##dtype(y);                                                                  \
        memcpy(out + i, &y, (count - i) * sizeof(half));                                           \
    }
#define EIGHT_PAIRS_AT_A_TIME(name, dtype)                                                         \
    KERNEL(name##_##dtype)(const half *left, const half *right, half *out, int count,              \
                           int left_step, int right_step) {                                        \
        if (!count) return; /* the operands have no first element */                               \
        shorts a = (short)*left - (shorts){}, b = (short)*right - (shorts){}, y;                   \
        int i = 0;                                                                                 \
        EIGHT_PAIRS(name##_of_##dtype)                                                             \
    }                                                                                              \
    BROADCAST(name, dtype, half, half)
// One loop for each operand that is one repeated number: what is computed of this alone comes before the loop.
#define WHOLE_EIGHTS(function, condition, first, second)                                           \
    if (condition)                                                                                 \
        _Pragma("clang loop unroll_count(2)") for (; i + 8 <= count; i += 8) {                     \
            y = function(first, second);                                                           \
            memcpy(out + i, &y, sizeof y);                                                         \
        }
#define EIGHT_PAIRS(function)                                                                      \
    WHOLE_EIGHTS(function, left_step && right_step, load_halves(left + i), load_halves(right + i)) \
    else WHOLE_EIGHTS(function, left_step, load_halves(left + i), b)                               \
    else WHOLE_EIGHTS(function, right_step, a, load_halves(right + i))                             \
    if (left_step) memcpy(&a, left + i, (count - i) * sizeof(half));                               \
    if (right_step) memcpy(&b, right + i, (count - i) * sizeof(half));                             \
    y = function(a, b);                                                                            \
    memcpy(out + i, &y, (count - i) * sizeof(half));

// The greater or the less of two numbers is found as that of two integers: both zeros are 0.
static inline shorts as_integers(shorts x) {
    const shorts sign = x >> 15;
    return ((x & 0x7fff) ^ sign) - sign;
}
// LLVM would compare without signs, for which wasmtime needs four instructions.
static inline shorts is_above(shorts magnitudes, short limit) {
    OPAQUE(magnitudes);
    return magnitudes > limit;
}
static inline shorts choose_halves(shorts mask, shorts yes, shorts no) {
    return (shorts)__builtin_wasm_relaxed_laneselect_i16x8(yes, no, mask);
}
#define NAN_OF_float16(x) ((x & (short)0x8000) | 0x7e00)
#define NAN_OF_bfloat16(x) (x | 0x40)
#define BETTER(name, dtype, infinity, is_better)                                                   \
    static inline shorts name##_of_##dtype(shorts a, shorts b) {                                   \
        const shorts is_better_one = as_integers(a) is_better as_integers(b);                      \
        const shorts a_is_nan = is_above(a & 0x7fff, infinity),                                    \
                     b_is_nan = is_above(b & 0x7fff, infinity);                                    \
        const shorts y = choose_halves((is_better_one & ~b_is_nan) | a_is_nan, a, b);              \
        return choose_halves(a_is_nan | b_is_nan, NAN_OF_##dtype(y), y);                           \
    }                                                                                              \
    EIGHT_PAIRS_AT_A_TIME(name, dtype)
#define ORDERED(dtype, infinity)                                                                   \
    BETTER(maximum, dtype, infinity, >)                                                            \
    BETTER(minimum, dtype, infinity, <)                                                            \
    static inline shorts relu_of_##dtype(shorts x) {                                               \
        const shorts above = __builtin_elementwise_max(x, (shorts){});                             \
        return choose_halves(is_above(x & 0x7fff, infinity), NAN_OF_##dtype(x), above);            \
    }                                                                                              \
    EIGHT_AT_A_TIME(relu, dtype)
ORDERED(float16, 0x7c00)
ORDERED(bfloat16, 0x7f80)

// bfloat16 is the upper half of float32. What arithmetic makes of such numbers has nothing in its lower half if it is
// NaN, and is quiet, so it is rounded as any other number.
static inline ints upper_half_of(floats x) {
    const unsigned_ints bits = (unsigned_ints)x;
    return (ints)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline shorts narrowed_brains(float_pair x) {
    return __builtin_wasm_narrow_u_i16x8_i32x4(upper_half_of(x.low), upper_half_of(x.high));
}
#define ARITHMETIC(name, sign)                                                                     \
    static inline shorts name##_of_bfloat16(shorts a, shorts b) {                                  \
        const float_pair x = widened_brains(a), y = widened_brains(b);                             \
        return narrowed_brains((float_pair){x.low sign y.low, x.high sign y.high});                \
    }                                                                                              \
    EIGHT_PAIRS_AT_A_TIME(name, bfloat16)
ARITHMETIC(add, +)
ARITHMETIC(subtract, -)
ARITHMETIC(multiply, *)
ARITHMETIC(divide, /)

static inline shorts sqrt_of_bfloat16(shorts x) {
    const float_pair y = widened_brains(x);
    return narrowed_brains((float_pair){__builtin_elementwise_sqrt(y.low),
                                        __builtin_elementwise_sqrt(y.high)});
}
EIGHT_AT_A_TIME(sqrt, bfloat16)

// Most eights of halves are usual: finite, with results that are not too small. A function without calls computes these,
// because wasmtime keeps nothing in registers across a call, until it meets another eight or the end; it returns
// how many it has done. Another function computes any eight.
typedef int usual_run(const half *left, const half *right, half *out, int count);
typedef shorts any_eight(shorts a, shorts b);
static inline shorts load_some(const half *source, int count, int step) {
    shorts x = (short)*source - (shorts){};
    if (step && count == 8)
        x = load_halves(source);
    else if (step)
        for (int i = 1; i < count; i++) x[i] = (short)source[i];
    return x;
}
ONCE static void run_halves(usual_run *run, any_eight *any, const half *left, const half *right,
                            half *out, int count, int left_step, int right_step) {
    for (int i = 0; (i += run(left + i * left_step, right + i * right_step, out + i, count - i)) < count;) {
        const int size = smaller(8, count - i);
        const shorts y = any(load_some(left + i * left_step, size, left_step),
                             load_some(right + i * right_step, size, right_step));
        memcpy(out + i, &y, size * sizeof(half));
        i += size;
    }
}

#define USUAL_RUN(run, function, first, second)                                                    \
    ONCE static int run(const half *left, [[maybe_unused]] const half *right, half *out,           \
                        int count) {                                                               \
        int i = 0;                                                                                 \
        shorts y[2];                                                                               \
        TWO_EIGHTS_##function(first, second)                                                       \
        for (; i + 8 <= count; i += 8) {                                                           \
            if (any_lane((ints)function(first, second, y))) break;                                 \
            memcpy(out + i, y, sizeof *y);                                                         \
        }                                                                                          \
        return i;                                                                                  \
    }
// Two eights at a time, where they need no more registers than there are.
#define TWO_EIGHTS(function, first, second)                                                        \
    for (; i + 16 <= count; i += 8) {                                                              \
        unsigned_shorts odd = function(first, second, y);                                          \
        i += 8;                                                                                    \
        odd |= function(first, second, y + 1);                                                     \
        if (any_lane((ints)odd)) return i - 8;                                                     \
        memcpy(out + i - 8, y, sizeof y);                                                          \
    }
#define TWO_EIGHTS_add_usual(first, second) TWO_EIGHTS(add_usual, first, second)
#define TWO_EIGHTS_subtract_usual(first, second) TWO_EIGHTS(subtract_usual, first, second)
#define TWO_EIGHTS_multiply_usual(first, second)
#define TWO_EIGHTS_divide_usual(first, second)
#define TWO_EIGHTS_sqrt_usual(first, second)
#define REPEATED_HALF(x) ((short)*(x) - (shorts){})
#define ANY_HALVES(name, sign)                                                                     \
    static shorts name##_any_halves(shorts a, shorts b) {                                          \
        const float_pair x = widened_halves(a), y = widened_halves(b);                             \
        return narrowed_floats((float_pair){x.low sign y.low, x.high sign y.high});                \
    }
#define SIMPLE(name, sign)                                                                         \
    ANY_HALVES(name, sign)                                                                         \
    USUAL_RUN(name##_usual_pairs, name##_usual, load_halves(left + i), load_halves(right + i))     \
    USUAL_RUN(name##_usual_left, name##_usual, load_halves(left + i), REPEATED_HALF(right))        \
    USUAL_RUN(name##_usual_right, name##_usual, REPEATED_HALF(left), load_halves(right + i))       \
    KERNEL(name##_float16)(const half *left, const half *right, half *out, int count,              \
                           int left_step, int right_step) {                                        \
        run_halves(!right_step ? name##_usual_left : left_step ? name##_usual_pairs                \
                                                               : name##_usual_right,               \
                   name##_any_halves, left, right, out, count, left_step, right_step);             \
    }                                                                                              \
    BROADCAST(name, float16, half, half)

// A square root is that of the number times 2^-112, times 2^56, and never too small.
static inline unsigned_shorts sqrt_usual(shorts x, [[maybe_unused]] shorts, shorts *y) {
    const unsigned_shorts bits = (unsigned_shorts)x;
    const float_pair z = scaled_magnitudes(bits);
    *y = (shorts)rounded_magnitudes((float_pair){__builtin_elementwise_sqrt(z.low) * 0x1p-56f,
                                                 __builtin_elementwise_sqrt(z.high) * 0x1p-56f});
    return excess(bits, 0x7bff);
}
static shorts sqrt_any_halves(shorts x, [[maybe_unused]] shorts) {
    const float_pair y = widened_halves(x);
    return narrowed_floats((float_pair){__builtin_elementwise_sqrt(y.low),
                                        __builtin_elementwise_sqrt(y.high)});
}
USUAL_RUN(sqrt_usual_run, sqrt_usual, load_halves(left + i), (shorts){})
KERNEL(sqrt_float16)(const half *x, half *out, int count) {
    run_halves(sqrt_usual_run, sqrt_any_halves, x, x, out, count, 1, 1);
}

// Sums of numbers that are all smaller by a power of two need no product with it, even where they are denormal. Below
// 2^15, they do not exceed infinity.
static inline unsigned_shorts sum_usual(shorts a, shorts b, neighbours sums, shorts *y) {
    *y = joined_magnitudes(rounded_to_half(sums.even), rounded_to_half(sums.odd)) |
         joined_signs(sums.even, sums.odd);
    return excess(__builtin_elementwise_max(magnitude(a), magnitude(b)), 0x77ff);
}

static inline unsigned_shorts add_usual(shorts a, shorts b, shorts *y) {
    const neighbours x = scaled_neighbours(a), z = scaled_neighbours(b);
    return sum_usual(a, b, (neighbours){x.even + z.even, x.odd + z.odd}, y);
}

static inline unsigned_shorts subtract_usual(shorts a, shorts b, shorts *y) {
    const neighbours x = scaled_neighbours(a), z = scaled_neighbours(b);
    return sum_usual(a, b, (neighbours){x.even - z.even, x.odd - z.odd}, y);
}

// Not 0 where an operand is odd, or a result so small that it may be denormal, unless an operand is 0.
static inline unsigned_shorts unusual(unsigned_shorts odd, unsigned_shorts y,
                                      unsigned_shorts not_zero) {
    const unsigned_shorts above_denormal = (unsigned_shorts){} + 0x401;  // if it was not rounded up
    const unsigned_shorts denormal = __builtin_elementwise_sub_sat(above_denormal, y);
    return odd | __builtin_elementwise_min(denormal, not_zero);
}

// Products are exact, except for those that are denormal.
static inline unsigned_shorts multiply_usual(shorts a, shorts b, shorts *y) {
    const unsigned_shorts m = magnitude(a), n = magnitude(b);
    const unsigned_shorts infinity = (unsigned_shorts){} + 0x7c00;
    const float_pair wide = widened_pair(scaled_magnitudes(m)), narrow = scaled_magnitudes(n);
    const unsigned_shorts product =
        rounded_magnitudes((float_pair){wide.low * narrow.low, wide.high * narrow.high});
    *y = (shorts)__builtin_elementwise_min(product, infinity) | ((a ^ b) & (short)0x8000);
    return unusual(is_special(__builtin_elementwise_max(m, n)), product,
                   __builtin_elementwise_min(m, n));
}

// Quotients of numbers times 2^-112 are of usual size.
static inline unsigned_shorts divide_usual(shorts a, shorts b, shorts *y) {
    const unsigned_shorts m = magnitude(a), n = magnitude(b);
    const float_pair x = scaled_magnitudes(m), z = scaled_magnitudes(n);
    const unsigned_shorts quotient = rounded_magnitudes(
        (float_pair){x.low / z.low * 0x1p-112f, x.high / z.high * 0x1p-112f});
    const unsigned_shorts infinity = (unsigned_shorts){} + 0x7c00;
    *y = (shorts)__builtin_elementwise_min(quotient, infinity) | ((a ^ b) & (short)0x8000);
    return unusual(is_special(__builtin_elementwise_max(m, n)) | (unsigned_shorts)(n == 0), quotient,
                   m);
}
SIMPLE(add, +)
SIMPLE(multiply, *)
SIMPLE(subtract, -)
SIMPLE(divide, /)
#else
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
