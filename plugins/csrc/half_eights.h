// Kernels of halves in WebAssembly: eight at a time, converted in registers, or looked up. Only half.c includes this.
#pragma once

#include "half_vectors.h"

// There are 65,536 halves, so of many more numbers the function is computed once for each, and then looked up.
#define ALL_HALVES (1 << 16)
#define MANY_HALVES (1 << 18)
typedef void of_halves(const half *x, half *out, int count);
ONCE static void look_up(of_halves *function, const half *x, half *out, int count) {
    half table[ALL_HALVES], bits[BLOCK];
    for (int first = 0; first < ALL_HALVES; first += BLOCK) {
        for (int i = 0; i < BLOCK; i++) bits[i] = first + i;
        function(bits, table + first, BLOCK);
    }
    _Pragma("clang loop unroll_count(2)") for (; count >= 8; count -= 8, x += 8, out += 8) {
        unsigned_shorts y = {};
        UNROLLED for (int i = 0; i < 8; i++) y[i] = table[x[i]];
        memcpy(out, &y, sizeof y);
    }
    for (int i = 0; i < count; i++) out[i] = table[x[i]];
}
#define LOOK_UP(function, result)                                                                  \
    if (sizeof(result) == sizeof(half) && count >= MANY_HALVES)                                    \
        return look_up((of_halves *)function, x, (half *)out, count);

// Eight at a time.
#define EIGHT_AT_A_TIME(name, dtype, begin)                                                        \
    KERNEL(name##_##dtype)(const half *x, half *out, int count) {                                  \
        begin                                                                                      \
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
    EIGHT_AT_A_TIME(relu, dtype, )
ORDERED(float16, 0x7c00)
ORDERED(bfloat16, 0x7f80)

// What arithmetic makes of bfloat16 has nothing in its lower half if it is NaN, and is quiet.
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
EIGHT_AT_A_TIME(sqrt, bfloat16, LOOK_UP(sqrt_bfloat16, half))

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

#define USUAL_RUN(run, function, prepare, first, second)                                           \
    ONCE static int run([[maybe_unused]] const half *left, [[maybe_unused]] const half *right,     \
                        half *out, int count) {                                                    \
        int i = 0;                                                                                 \
        prepare                                                                                    \
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
// One number for all: LLVM would read it in each round, because it may be one of the results.
#define REPEATED_HALF(x)                                                                           \
    if (!count) return 0;                                                                          \
    shorts repeated = (short)*(x) - (shorts){};                                                    \
    OPAQUE(repeated);
#define ANY_HALVES(name, sign)                                                                     \
    static shorts name##_any_halves(shorts a, shorts b) {                                          \
        const float_pair x = widened_halves(a), y = widened_halves(b);                             \
        return narrowed_floats((float_pair){x.low sign y.low, x.high sign y.high});                \
    }
#define SIMPLE(name, sign)                                                                         \
    ANY_HALVES(name, sign)                                                                         \
    USUAL_RUN(name##_usual_pairs, name##_usual, , load_halves(left + i), load_halves(right + i))   \
    USUAL_RUN(name##_usual_left, name##_usual, REPEATED_HALF(right), load_halves(left + i), repeated) \
    USUAL_RUN(name##_usual_right, name##_usual, REPEATED_HALF(left), repeated, load_halves(right + i)) \
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
USUAL_RUN(sqrt_usual_run, sqrt_usual, , load_halves(left + i), (shorts){})
KERNEL(sqrt_float16)(const half *x, half *out, int count) {
    LOOK_UP(sqrt_float16, half)
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
    const neighbours x = scaled_sizes(m), z = scaled_sizes(n);
    const unsigned_shorts product = (unsigned_shorts)joined_magnitudes(
        rounded_to_half(x.even * (z.even * 0x1p112f)), rounded_to_half(x.odd * (z.odd * 0x1p112f)));
    *y = (shorts)__builtin_elementwise_min(product, infinity) | ((a ^ b) & (short)0x8000);
    return unusual(is_special(__builtin_elementwise_max(m, n)), product,
                   __builtin_elementwise_min(m, n));
}

// Quotients of numbers times 2^-112 are of usual size.
static inline unsigned_shorts divide_usual(shorts a, shorts b, shorts *y) {
    const unsigned_shorts m = magnitude(a), n = magnitude(b);
    const neighbours x = scaled_sizes(m), z = scaled_sizes(n);
    const unsigned_shorts quotient = (unsigned_shorts)joined_magnitudes(
        rounded_to_half(x.even / z.even * 0x1p-112f), rounded_to_half(x.odd / z.odd * 0x1p-112f));
    const unsigned_shorts infinity = (unsigned_shorts){} + 0x7c00;
    *y = (shorts)__builtin_elementwise_min(quotient, infinity) | ((a ^ b) & (short)0x8000);
    return unusual(is_special(__builtin_elementwise_max(m, n)) | (unsigned_shorts)(n == 0), quotient,
                   m);
}
SIMPLE(add, +)
SIMPLE(multiply, *)
SIMPLE(subtract, -)
SIMPLE(divide, /)
