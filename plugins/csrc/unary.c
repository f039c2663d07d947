// Kernels that map each element of one tensor: an expression of x each.
#include <tgmath.h>

#include "double_math.h"
#include "elementwise.h"
#include "vector_math.h"

// ---- all numbers ----

#define NUMBER_KERNELS(dtype, type, effort)                                                        \
    MAP(negative, dtype, type, type, effort, -x)                                                   \
    MAP(sign, dtype, type, type, effort, x != x ? x : (type)((x > 0) - (x < 0)))                   \
    MAP(square, dtype, type, type, effort, x *x)                                                   \
    MAP(step, dtype, type, type, effort, x != x ? x : x > 0 ? 1 : alpha, type alpha)               \
    MAP(clip, dtype, type, type, effort, x < low ? low : x > high ? high : x, type low, type high)
EACH_NUMBER(NUMBER_KERNELS)

#define INTEGER_KERNELS(dtype, type, effort) MAP(abs, dtype, type, type, effort, x < 0 ? -x : x)
EACH_INTEGER(INTEGER_KERNELS)

// ---- floats ----

#define FLOAT_KERNELS(dtype, type, effort)                                                         \
    MAP(abs, dtype, type, type, effort, fabs(x))                                                   \
    MAP(ceil, dtype, type, type, effort, ceil(x))                                                  \
    MAP(floor, dtype, type, type, effort, floor(x))                                                \
    MAP(reciprocal, dtype, type, type, effort, 1 / x)                                              \
    MAP(round, dtype, type, type, effort, nearbyint(x)) /* half to even */                         \
    MAP(rsqrt, dtype, type, type, effort, 1 / sqrt(x))                                             \
    MAP(sqrt, dtype, type, type, effort, sqrt(x))                                                  \
    MAP(trunc, dtype, type, type, effort, trunc(x))                                                \
    MAP(sign_bit, dtype, type, boolean, effort, signbit(x) != 0)                                   \
    MAP(is_nan, dtype, type, boolean, effort, x != x)                                              \
    MAP(is_inf, dtype, type, boolean, effort, fabs(x) == (type)INFINITY)                           \
    MAP(is_finite, dtype, type, boolean, effort, fabs(x) < (type)INFINITY)
EACH_FLOAT(FLOAT_KERNELS)

// ---- functions: vectors for float32; libm is exact to within one unit in the last place ----

// Whether |n| <= 32 for all lanes, with some to spare.
#define FARTHEST 32
static inline unsigned_ints distance(floats shifted) {
    return (unsigned_ints)shifted - ((unsigned_ints)splat(MAGIC) - FARTHEST);
}

// exp(x) of any x. Each lane is computed by what is right for it, so that its bits do not depend on others. `is_fused`
// has all bits if products are not rounded.
static inline floats exp_anywhere(floats x, ints is_fused) {
    const floats shifted = shifted_exponent(x), n = shifted - splat(MAGIC);
    const ints is_near = is_fused & (ints)(distance(shifted) < 2 * FARTHEST);
    floats r = multiply_add(n, choose(is_near, splat(-LN2), splat(-LN2_HIGH)), x);
    r = choose(is_near, r, multiply_add(n, splat(-LN2_LOW), r));
    const floats y = exp_of_rest(r, shifted);
    const ints is_extreme = absolute(x) > splat(87.f);
    return any_lane(is_extreme) ? choose(is_extreme, exp_floats(x), y) : y;
}

// Four vectors at a time. Most hold numbers near 0, whose parts n are found to be small before the rest is computed;
// a loop of their own has the constants in registers. `fast_count` is 0 where products are rounded.
#define EACH_VECTOR for (int v = 0, at = i; v < 4; v++, at += LANES)
KERNEL(exp_float32)(const float *values, float *out, int count) {
    const int fast_count = is_fused() ? count : 0;
    const ints fused = (ints){} - (fast_count > 0);
    int i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        for (; i + 4 * LANES <= fast_count; i += 4 * LANES) {
            read_ahead(values + i), write_ahead(out + i);
            floats shifted[4];
            unsigned_ints far = {0};
            UNROLLED EACH_VECTOR {
                shifted[v] = shifted_exponent(load(values + at));
                far |= distance(shifted[v]);
            }
            if (any_lane((ints)(far & ~(2u * FARTHEST - 1)))) break;
            UNROLLED EACH_VECTOR store(out + at, exp_of_parts(load(values + at), shifted[v], true));
        }
        if (i + 4 * LANES > count) break;
        _Pragma("nounroll") EACH_VECTOR store(out + at, exp_anywhere(load(values + at), fused));
    }
#define exp_of_rest_of_array(x) exp_anywhere(x, fused)
    MAP_FLOATS(exp_of_rest_of_array, values + i, out + i, count - i);
}
DOUBLES_KERNEL(exp)
FLOATS_KERNEL(expm1)
DOUBLES_KERNEL(expm1)
FLOATS_KERNEL(log)
DOUBLES_KERNEL(log)
FLOATS_KERNEL(log1p)
DOUBLES_KERNEL(log1p)
VECTOR_KERNEL(sin, sin(x))
VECTOR_KERNEL(cos, cos(x))
FLOATS_KERNEL(tanh)
DOUBLES_KERNEL(tanh)
FLOATS_KERNEL(erf)
DOUBLES_KERNEL(erf)
VECTOR_KERNEL(acos, acos(x))
VECTOR_KERNEL(acosh, x < 1 ? NAN : acosh(x)) /* musl's is wrong there */
VECTOR_KERNEL(asin, asin(x))
VECTOR_KERNEL(asinh, asinh(x))
VECTOR_KERNEL(atan, atan(x))
VECTOR_KERNEL(atanh, atanh(x))
VECTOR_KERNEL(cosh, cosh(x))
VECTOR_KERNEL(log10, log10(x))
VECTOR_KERNEL(log2, log2(x))
VECTOR_KERNEL(sinh, sinh(x))
VECTOR_KERNEL(tan, tan(x))

MAP(logical_not, bool, boolean, boolean, FAST, !x)
