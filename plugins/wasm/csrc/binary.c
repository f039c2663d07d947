// Kernels that combine two tensors element by element: an expression of a and b each.
#include <tgmath.h>

#include "double_math.h"
#include "elementwise.h"
#include "vector_math.h"

ONCE void broadcast(run combine, const char *a, const char *b, char *out, const int *descriptor,
                    int item_size, int out_size) {
    const int outer = descriptor[0] - 1;
    const int *sizes = descriptor + 1, *a_strides = sizes + outer + 1;
    const int *b_strides = a_strides + outer + 1;
    const int count = sizes[outer], a_step = a_strides[outer], b_step = b_strides[outer];
    int index[MAX_AXES] = {0};
    ptrdiff_t a_offset = 0, b_offset = 0;
    do {
        combine(a + a_offset * item_size, b + b_offset * item_size, out, count, a_step, b_step);
        out += (ptrdiff_t)count * out_size;
    } while (step_axes(outer, sizes, index, a_strides, b_strides, &a_offset, &b_offset));
}

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
    }                                                                                              \
    static type log_of_sum_##dtype(type a, type b) {                                               \
        const type larger = a > b || a != a ? a : b;                                               \
        return fabs(larger) < (type)INFINITY ? larger + log1p(exp(-fabs(a - b))) : larger;         \
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
    PAIRS(floor_divide, dtype, type, type, SMALL, quotient_##dtype(a, b))                          \
    PAIRS(remainder, dtype, type, type, SMALL, modulo_##dtype(a, b))                               \
    PAIRS(equal, dtype, type, boolean, effort, a == b)                                             \
    PAIRS(not_equal, dtype, type, boolean, effort, a != b)                                         \
    PAIRS(less, dtype, type, boolean, effort, a < b)                                               \
    PAIRS(less_equal, dtype, type, boolean, effort, a <= b)
EACH_NUMBER(NUMBER_KERNELS)

#define FLOAT_KERNELS(dtype, type, effort)                                                         \
    PAIRS(divide, dtype, type, type, effort, a / b)                                                \
    PAIRS(hypot, dtype, type, type, SMALL, hypot(a, b))                                            \
    PAIRS(log_add_exp, dtype, type, type, SMALL, log_of_sum_##dtype(a, b))                         \
    PAIRS(next_after, dtype, type, type, SMALL, nextafter(a, b))
EACH_FLOAT(FLOAT_KERNELS)

VECTOR_PAIRS(atan2)
PAIRS(atan2, float64, double, double, SMALL, atan2(a, b))

// ---- powers ----

#define INTEGER_POWERS(dtype, type, effort)                                                        \
    PAIRS(power, dtype, type, type, SMALL, power_of_##dtype(a, b))
EACH_INTEGER(INTEGER_POWERS)
PAIRS(power, float64, double, double, SMALL, b == 2 ? a * a : pow(a, b))

// |a|^b = exp(b log |a|) in double precision; a negative base needs an integer as exponent.
static floats general_power(floats a, floats b) {
    const floats magnitude = absolute(a), half = b * 0.5f;
    const ints is_usual = (magnitude > splat(0.f)) & (magnitude < splat(INFINITY)) &
                          (absolute(b) < splat(INFINITY));
    if (!(is_usual[0] & is_usual[1] & is_usual[2] & is_usual[3]))
        return (floats){powf(a[0], b[0]), powf(a[1], b[1]), powf(a[2], b[2]), powf(a[3], b[3])};
    typedef float pair __attribute__((vector_size(8)));
    pair parts[2];
    for (int i = 0; i < 2; i++) {
        const pair base = {magnitude[2 * i], magnitude[2 * i + 1]};
        const pair exponent = {b[2 * i], b[2 * i + 1]};
        const doubles logarithm = log_series(__builtin_convertvector(base, doubles), 5);
        const doubles product = __builtin_convertvector(exponent, doubles) * logarithm;
        parts[i] = __builtin_convertvector(exp_series(product, 5), pair);
    }
    floats y = __builtin_shufflevector(parts[0], parts[1], 0, 1, 2, 3);
    const ints is_integer = __builtin_elementwise_trunc(b) == b;
    const ints is_odd = is_integer & (__builtin_elementwise_trunc(half) != half);
    const ints is_negative = a < splat(0.f);
    y = choose(is_negative & ~is_integer, splat(NAN), y);
    return (floats)((ints)y ^ (is_negative & is_odd & INT32_MIN));
}

// Exponents that are common have shorter ways.
static inline floats power_floats(floats a, floats b) {
    const float exponent = b[0];
    const ints differs = b != splat(exponent);
    if (differs[1] | differs[2] | differs[3]) return general_power(a, b);
    if (exponent == 2) return a * a;
    if (exponent == 3) return a * a * a;
    if (exponent == 1) return a;
    if (exponent == -1) return 1.f / a;
    if (exponent == 4) return (a * a) * (a * a);
    if (exponent == -2) return (1.f / a) * (1.f / a);
    if (exponent == 0.5f || exponent == -0.5f) {  // of -infinity and -0 as of their magnitudes
        const floats root = __builtin_elementwise_sqrt(choose(a == -INFINITY, -a, a)) + 0.f;
        return exponent > 0 ? root : 1.f / root;
    }
    return general_power(a, b);
}
VECTOR_PAIRS(power)

// There are no comparisons of bools: the host compares their bytes as uint8.
PAIRS(logical_and, bool, boolean, boolean, FAST, a & b)
PAIRS(logical_or, bool, boolean, boolean, FAST, a | b)
PAIRS(logical_xor, bool, boolean, boolean, FAST, a ^ b)

// ---- select: a choice between two tensors of one item size ----

#define SELECT(item_size, type)                                                                    \
    KERNEL(select_##item_size)(const boolean *restrict condition, const type *restrict yes,        \
                               const type *restrict no, type *restrict out, int count,             \
                               int condition_step, int yes_step, int no_step) {                    \
        if (condition_step & yes_step & no_step)                                                   \
            for (int i = 0; i < count; i++) out[i] = condition[i] ? yes[i] : no[i];                \
        else                                                                                       \
            for (int i = 0; i < count; i++)                                                        \
                out[i] = condition[i * condition_step] ? yes[i * yes_step] : no[i * no_step];      \
    }
EACH_ITEM_SIZE(SELECT)
