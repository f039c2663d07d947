// Kernels that combine two tensors element by element: an expression of a and b each.
#include <tgmath.h>

#include "double_math.h"
#include "elementwise.h"
#include "vector_math.h"

// ---- division that rounds down, and powers ----

// Integers never trap: x / 0 and x % 0 are 0, as in NumPy, and the least integer divided by -1
// wraps around to itself.
#define INTEGER_ARITHMETIC(dtype, type, effort)                                                    \
    static type quotient_##dtype(type a, type b) {                                                 \
        if (b == 0) return 0;                                                                      \
        if ((type)(b + 1) == 0 && b < 0) return -a;                                                \
        return a / b - (a % b != 0 && (a < 0) != (b < 0));                                         \
    }                                                                                              \
    static type modulo_##dtype(type a, type b) {                                                   \
        if (b == 0 || ((type)(b + 1) == 0 && b < 0)) return 0;                                     \
        const type rest = a % b;                                                                   \
        return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;                               \
    }                                                                                              \
    /* By squaring. A negative exponent turns everything but 1 and -1 into 0. */                   \
    static type power_of_##dtype(type a, type b) {                                                 \
        if (b < 0) return a == 1 ? 1 : a + 1 == 0 ? (b & 1 ? -1 : 1) : 0;                          \
        type y = 1;                                                                                \
        for (; b > 0; b >>= 1, a *= a)                                                             \
            if (b & 1) y *= a;                                                                     \
        return y;                                                                                  \
    }
EACH_INTEGER(INTEGER_ARITHMETIC)

// NumPy's definition: the remainder has the sign of the divisor, and the quotient is the integer
// that belongs to it.
#define FLOAT_ARITHMETIC(dtype, type, effort)                                                      \
    static type modulo_##dtype(type a, type b) {                                                   \
        const type rest = fmod(a, b);                                                              \
        if (rest == 0) return copysign(rest, b);                                                   \
        return (rest < 0) != (b < 0) ? rest + b : rest;                                            \
    }                                                                                              \
    static type quotient_##dtype(type a, type b) {                                                 \
        if (b == 0) return a / b;                                                                  \
        const type rest = fmod(a, b);                                                              \
        const type y = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0));                      \
        const type below = floor(y);                                                               \
        return y == 0 ? copysign(0, a / b) : y - below > 0.5f ? below + 1 : below;                 \
    }
EACH_FLOAT(FLOAT_ARITHMETIC)

// ---- the kernels ----

#define NUMBER_KERNELS(dtype, type, effort)                                                        \
    PAIRS(add, dtype, type, type, effort, a + b)                                                   \
    PAIRS(subtract, dtype, type, type, effort, a - b)                                              \
    PAIRS(multiply, dtype, type, type, effort, a *b)                                               \
    PAIRS(maximum, dtype, type, type, effort, a > b || a != a ? a : b)                             \
    PAIRS(minimum, dtype, type, type, effort, a < b || a != a ? a : b)                             \
    PAIRS(squared_difference, dtype, type, type, effort, (a - b) * (a - b))                        \
    PAIRS(equal, dtype, type, boolean, effort, a == b)                                             \
    PAIRS(not_equal, dtype, type, boolean, effort, a != b)                                         \
    PAIRS(less, dtype, type, boolean, effort, a < b)                                               \
    PAIRS(less_equal, dtype, type, boolean, effort, a <= b)
EACH_NUMBER(NUMBER_KERNELS)

#define DIVISIONS(dtype, type, effort)                                                             \
    PAIRS(floor_divide, dtype, type, type, SMALL, quotient_##dtype(a, b))                          \
    PAIRS(remainder, dtype, type, type, SMALL, modulo_##dtype(a, b))
EACH_INTEGER(DIVISIONS)
DIVISIONS(float64, double, SMALL)

#define FLOAT_KERNELS(dtype, type, effort)                                                         \
    PAIRS(divide, dtype, type, type, effort, a / b)                                                \
    PAIRS(next_after, dtype, type, type, SMALL, nextafter(a, b))
EACH_FLOAT(FLOAT_KERNELS)

// A half of a vector, in double precision; and two such halves.
static inline doubles half_of(floats x, int is_upper) {
    typedef float pair __attribute__((vector_size(VECTOR_BYTES / 2)));
    pair y;
    memcpy(&y, (const char *)&x + is_upper * sizeof y, sizeof y);
    return __builtin_convertvector(y, doubles);
}

static inline floats both_halves(const doubles *halves) {
    typedef float pair __attribute__((vector_size(VECTOR_BYTES / 2)));
    const pair parts[2] = {__builtin_convertvector(halves[0], pair),
                           __builtin_convertvector(halves[1], pair)};
    floats y;
    memcpy(&y, parts, sizeof y);
    return y;
}

// Of floats whose quotient is less than 2^29: a double has 29 more bits, so that the quotient rounds
// down as the exact one does, and that its product with b is exact. Others take the long way.
#define WHOLE_QUOTIENTS(name, expression, other)                                                   \
    static inline floats name##_floats(floats a, floats b) {                                       \
        doubles halves[2];                                                                         \
        longs is_usual = (longs){} - 1;                                                            \
        for (int i = 0; i < 2; i++) {                                                              \
            const doubles x = half_of(a, i), z = half_of(b, i);                                    \
            const doubles q = __builtin_elementwise_floor(x / z);                                  \
            is_usual &= absolute_doubles(q) < repeated(0x1p29);                                    \
            is_usual &= absolute_doubles(z) < repeated(__builtin_inf());                           \
            halves[i] = expression;                                                                \
        }                                                                                          \
        floats y = both_halves(halves);                                                            \
        if (any_lane((ints)~is_usual))                                                             \
            for (int i = 0; i < LANES; i++) y[i] = other##_float32(a[i], b[i]);                    \
        return y;                                                                                  \
    }                                                                                              \
    VECTOR_PAIRS(name, float32, float, floats)
WHOLE_QUOTIENTS(floor_divide, q, quotient)
WHOLE_QUOTIENTS(remainder, with_sign_of_doubles(z, absolute_doubles(x - q * z)), modulo)

// The root of the sum of the squares of both, which are multiplied by a power of two that brings the
// larger one close to 1: squares would leave the range earlier than the result. Infinity wins over NaN.
#define HYPOT(dtype, type, vector, integers, bias)                                                 \
    static inline vector hypot_##vector(vector a, vector b) {                                      \
        const vector zero = {0}, infinity = zero + (type)INFINITY;                                 \
        a = __builtin_elementwise_abs(a), b = __builtin_elementwise_abs(b);                        \
        const integers least = (integers)(zero + 1) / bias, one = least * bias;                    \
        const integers x = (integers)a, z = (integers)b;                                           \
        integers place = __builtin_elementwise_max(x, z) & (integers)infinity;                     \
        place = __builtin_elementwise_max(place, least);                                           \
        place = __builtin_elementwise_min(place, least * (2 * bias - 1));                          \
        const vector scale = (vector)(2 * one - place);                                            \
        const vector c = a * scale, d = b * scale;                                                 \
        const vector y = __builtin_elementwise_sqrt(c * c + d * d) * (vector)place;                \
        const integers is_infinite = (a == infinity) | (b == infinity);                            \
        return (vector)(((integers)infinity & is_infinite) | ((integers)y & ~is_infinite));        \
    }                                                                                              \
    VECTOR_PAIRS(hypot, dtype, type, vector)
HYPOT(float32, float, floats, ints, 127)
HYPOT(float64, double, doubles, longs, 1023)

// ---- log(exp(a) + exp(b)) ----

static inline doubles log1p_of_exp_doubles(doubles x) { return log1p_doubles(exp_doubles(x)); }
static inline floats log1p_of_exp_floats(floats x) { return log1p_of_exp(x); }
#define LOG_ADD_EXP(dtype, type, vector, mask, select, magnitude)                                  \
    static inline vector log_add_exp_##vector(vector a, vector b) {                                \
        const vector larger = select((a > b) | (a != a), a, b);                                    \
        const vector y = larger + log1p_of_exp_##vector(-magnitude(a - b));                        \
        const mask is_finite = magnitude(larger) < (vector){0} + (type)INFINITY;                   \
        return select(is_finite, y, larger);                                                       \
    }                                                                                              \
    VECTOR_PAIRS(log_add_exp, dtype, type, vector)
LOG_ADD_EXP(float32, float, floats, ints, choose, absolute)
LOG_ADD_EXP(float64, double, doubles, longs, choose_doubles, absolute_doubles)

VECTOR_PAIRS(atan2, float32, float, floats)
PAIRS(atan2, float64, double, double, SMALL, atan2(a, b))

// ---- powers ----

#define INTEGER_POWERS(dtype, type, effort)                                                        \
    PAIRS(power, dtype, type, type, SMALL, power_of_##dtype(a, b))
EACH_INTEGER(INTEGER_POWERS)

// log2(m 2^n) of two floats in double precision, with m between the square roots of 1/2 and 2. The
// polynomial has the least relative error, 2^-37.
static inline doubles log2_of_pair(doubles m, doubles n) {
    const doubles s = (m - 1.) / (m + 1.), z = s * s;
    static const double terms[] = {0x1.5cea835693115p-2, 0x1.a58d66e987528p-2,
                                   0x1.2777803a8d889p-1, 0x1.ec709d125086bp-1};
    const doubles p = polynomial(terms, 4, z, z * z);
    return multiply_add_doubles(multiply_add_doubles(p, z, repeated(0x1.71547652bee6ap+1)), s, n);
}

// The lower 32 bits of two vectors of 64-bit numbers.
static inline ints lower_halves(longs first, longs second) {
    typedef int32_t pair __attribute__((vector_size(VECTOR_BYTES / 2)));
    const pair halves[2] = {__builtin_convertvector(first, pair),
                            __builtin_convertvector(second, pair)};
    ints y;
    memcpy(&y, halves, sizeof y);
    return y;
}

// a^b = 2^(b log2 a) of finite a >= 2^-126 and finite b. The exponential magnifies errors of the
// product, which is therefore a double, and then an integer in units of 2^-22.
typedef struct {
    ints units;
} product_floats;

static inline product_floats product_of_floats(floats a, floats b) {
    const scaled_floats parts = split_floats(a);
    doubles products[2];
    for (int i = 0; i < 2; i++) {
        const doubles logarithm = log2_of_pair(half_of(parts.m, i), half_of(parts.n, i));
        doubles y = half_of(b, i) * logarithm;
        y = lesser_doubles(larger_doubles(y, repeated(-200)), repeated(200));  // 0 and infinity
        products[i] = y + 0x1.8p30;  // of which the lower 32 bits are the integer
    }
    return (product_floats){lower_halves((longs)products[0], (longs)products[1])};
}

static inline floats power_of_floats(product_floats of) {
    const ints product = of.units;
    const ints n = (product + (1 << 21)) >> 22, half = n >> 1;
    const floats r = __builtin_convertvector(product - (n << 22), floats) * 0x1p-22f;
    floats p = splat(1.5353362e-4f);
    p = multiply_add(p, r, splat(1.3398875e-3f));
    p = multiply_add(p, r, splat(9.618437e-3f));
    p = multiply_add(p, r, splat(5.5503324e-2f));
    p = multiply_add(p, r, splat(2.4022648e-1f));
    p = multiply_add(p, r, splat(6.931472e-1f));
    const floats scale = power_of_two(half);
    return multiply_add(p * r, scale, scale) * power_of_two(n - half);
}

#define AT_ONCE 64  // powers

// The products of AT_ONCE numbers. Return where a base is not positive, or a number not finite.
static ints products_of_floats(const float *left, const float *right, int left_step, int right_step,
                               product_floats *products) {
    floats a = splat(*left), b = splat(*right);
    ints is_unusual = {0};
    for (int i = 0; i < AT_ONCE; i += LANES) {
        if (left_step) a = load(left + i);
        if (right_step) b = load(right + i);
        is_unusual |= unusual_floats(a) | (b - b != splat(0.f));
        products[i / LANES] = product_of_floats(a, b);
    }
    return is_unusual;
}

static longs products_of_doubles(const double *left, const double *right, int left_step,
                                 int right_step, product_doubles *products) {
    enum { lanes = sizeof(doubles) / sizeof(double), COUNT = AT_ONCE / lanes };
    quotient_doubles quotients[COUNT];
    doubles a = repeated(*left), b = repeated(*right);
    longs is_unusual = {0};
    for (int i = 0; i < COUNT; i++) {
        if (left_step) memcpy(&a, left + i * lanes, sizeof a);
        is_unusual |= unusual_doubles(a);
        quotients[i] = quotient_of_doubles(a);
    }
    for (int i = 0; i < COUNT; i++) products[i] = atanh_of_doubles(quotients[i]);
    for (int i = 0; i < COUNT; i++) {
        if (right_step) memcpy(&b, right + i * lanes, sizeof b);
        is_unusual |= b - b != repeated(0);
        products[i] = product_of_doubles(products[i], quotients[i].n, b);
    }
    return is_unusual;
}
#define CONSTANT_POWER(exponent, expression)                                                       \
    if (*right == exponent) {                                                                      \
        for (int i = 0; i < count; i++) {                                                          \
            const typeof(*out) x = left[i];                                                        \
            out[i] = expression;                                                                   \
        }                                                                                          \
        return;                                                                                    \
    }

static inline floats plain_power_floats(floats a, floats b) {
    return power_of_floats(product_of_floats(a, b));
}

static inline doubles plain_power_doubles(doubles a, doubles b) {
    const quotient_doubles quotient = quotient_of_doubles(a);
    return power_of_doubles(product_of_doubles(atanh_of_doubles(quotient), quotient.n, b));
}

// The sign of a negative base counts if the exponent is odd; only integers can be exponents of it.
// Exponents that are common have shorter ways.
#define POWER(dtype, type, vector, integers, least)                                                \
    ONCE static vector with_unusual_power_##vector(vector a, vector b, integers is_unusual,        \
                                                   vector y) {                                     \
        for (size_t i = 0; i < sizeof y / sizeof(type); i++)                                       \
            if (is_unusual[i]) y[i] = pow(a[i], b[i]);                                             \
        return y;                                                                                  \
    }                                                                                              \
    static inline vector general_power_##vector(vector a, vector b) {                              \
        const vector zero = {0}, magnitude = __builtin_elementwise_abs(a);                         \
        const integers is_usual =                                                                  \
            (magnitude >= zero + (type)least) & ((a - a) + (b - b) == zero); /* all are finite */  \
        vector y = plain_power_##vector(magnitude, b);                                             \
        /* A power close to the largest number may have been rounded up. */                        \
        const integers is_unusual = ~is_usual | (y == zero + (type)INFINITY);                      \
        const integers is_negative = a < zero;                                                     \
        if (any_lane((ints)is_negative)) {                                                         \
            const vector half = b * (type)0.5;                                                     \
            const integers is_integer = __builtin_elementwise_trunc(b) == b;                       \
            const integers is_even = __builtin_elementwise_trunc(half) == half;                    \
            const integers is_nan = is_negative & ~is_integer;                                     \
            const integers sign = (integers)-zero & is_negative & is_integer & ~is_even;           \
            y = (vector)(((integers)y ^ sign) | ((integers)(zero + (type)NAN) & is_nan));          \
        }                                                                                          \
        return any_lane((ints)is_unusual) ? with_unusual_power_##vector(a, b, is_unusual, y) : y;  \
    }                                                                                              \
    /* b is 1/2 or -1/2; roots of -infinity and -0 are those of their magnitudes. */               \
    static inline vector root_##vector(vector a, vector b) {                                       \
        const integers is_least = a == (vector){0} - (type)INFINITY;                               \
        const integers bits = (integers)a & ~((integers)-(vector){0} & is_least);                  \
        const vector root = __builtin_elementwise_sqrt((vector)bits) + (type)0;                    \
        return b[0] > 0 ? root : ((vector){0} + (type)1) / root;                                   \
    }                                                                                              \
    ONCE static void general_powers_##vector(const type *left, const type *right, type *out,       \
                                             int count, int left_step, int right_step) {           \
        VECTOR_RUN(general_power, general_powers_##vector, type, vector)                           \
    }                                                                                              \
    /* Most bases are positive. A block with others, or an infinity, is computed again. The steps   \
       are loops of their own, whose constants stay in registers. */                               \
    static void powers_##vector(const type *left, const type *right, type *out, int count,         \
                                int left_step, int right_step) {                                   \
        const int lanes = sizeof(vector) / sizeof(type);                                           \
        product_##vector products[AT_ONCE * sizeof(type) / sizeof(vector)];                        \
        for (; count >= AT_ONCE; count -= AT_ONCE, out += AT_ONCE) {                               \
            integers is_unusual =                                                                  \
                products_of_##vector(left, right, left_step, right_step, products);                \
            for (int i = 0; i < AT_ONCE; i += lanes) {                                             \
                const vector y = power_of_##vector(products[i / lanes]);                           \
                is_unusual |= y == (vector){} + (type)INFINITY;                                    \
                memcpy(out + i, &y, sizeof y);                                                     \
            }                                                                                      \
            if (any_lane((ints)is_unusual))                                                        \
                general_powers_##vector(left, right, out, AT_ONCE, left_step, right_step);         \
            left += AT_ONCE * left_step;                                                           \
            right += AT_ONCE * right_step;                                                         \
        }                                                                                          \
        if (count > 0) general_powers_##vector(left, right, out, count, left_step, right_step);    \
    }                                                                                              \
    KERNEL(power_##dtype)(const type *left, const type *right, type *out, int count,               \
                          int left_step, int right_step) {                                         \
        if (left_step && !right_step) {                                                            \
            CONSTANT_POWER(2, x * x)                                                               \
            CONSTANT_POWER(3, x * x * x)                                                           \
            CONSTANT_POWER(1, x)                                                                   \
            CONSTANT_POWER(-1, 1 / x)                                                              \
            CONSTANT_POWER(4, (x * x) * (x * x))                                                   \
            CONSTANT_POWER(-2, (1 / x) * (1 / x))                                                  \
            if (fabs(*right) == (type)0.5) {                                                       \
                VECTOR_RUN(root, power_##dtype, type, vector)                                      \
                return;                                                                            \
            }                                                                                      \
        }                                                                                          \
        powers_##vector(left, right, out, count, left_step, right_step);                           \
    }                                                                                              \
    BROADCAST(power, dtype, type, type)
POWER(float32, float, floats, ints, 0x1p-126)
POWER(float64, double, doubles, longs, 0x1p-1022)

// There are no comparisons of bools: the host compares their bytes as uint8.
PAIRS(logical_and, bool, boolean, boolean, FAST, a & b)
PAIRS(logical_or, bool, boolean, boolean, FAST, a | b)
PAIRS(logical_xor, bool, boolean, boolean, FAST, a ^ b)

// ---- select: a choice between two tensors of one item size ----

// By bits, because compilers branch if they may choose which operand to read.
#define CHOOSE(type, condition, yes, no)                                                           \
    for (int i = 0; i < count; i++) {                                                              \
        const type others = no, changes = others ^ yes, mask = -(type)condition;                   \
        out[i] = others ^ (changes & mask);                                                        \
    }
#define SELECT(item_size, type)                                                                    \
    KERNEL(select_##item_size)(const boolean *restrict condition, const type *restrict yes,        \
                               const type *restrict no, type *restrict out, int count,             \
                               int condition_step, int yes_step, int no_step) {                    \
        if (condition_step & yes_step & no_step)                                                   \
            CHOOSE(type, condition[i], yes[i], no[i])                                              \
        else if (condition_step & no_step)                                                         \
            CHOOSE(type, condition[i], *yes, no[i])                                                \
        else if (condition_step & yes_step)                                                        \
            CHOOSE(type, condition[i], yes[i], *no)                                                \
        else                                                                                       \
            CHOOSE(type, condition[i *condition_step], yes[i *yes_step], no[i *no_step])           \
    }
EACH_MOVED_SIZE(SELECT)
