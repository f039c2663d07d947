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

#ifdef __wasm__
// out = step(x) * y, for programs: the gradient of relu in one pass. out may be x or y.
KERNEL(multiply_by_step_float32)(const float *x, const float *y, float *out, int count, float alpha) {
    _Pragma("clang loop vectorize(assume_safety)")
    for (int i = 0; i < count; i++)
        out[i] = (x[i] != x[i] ? x[i] : x[i] > 0 ? 1 : alpha) * y[i];
}
#endif

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

static inline floats exp_near(floats x, floats shifted) { return exp_of_parts(x, shifted, true); }

// Each lane is computed by what is right for it, so that its bits do not depend on others.
static inline floats exp_anywhere(floats x, ints is_fused) {
    const floats shifted = shifted_exponent(x), n = shifted - splat(MAGIC);
    const ints is_near = is_fused & (ints)(distance(shifted) < 2 * FARTHEST);
    floats r = multiply_add(n, choose(is_near, splat(-LN2), splat(-LN2_HIGH)), x);
    r = choose(is_near, r, multiply_add(n, splat(-LN2_LOW), r));
    const floats y = exp_of_rest(r, shifted);
    const ints is_extreme = absolute(x) > splat(87.f);
    return any_lane(is_extreme) ? choose(is_extreme, exp_floats(x), y) : y;
}
NEAR_KERNEL(exp)
EXP_DOUBLES_KERNEL(exp)
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
#ifdef __wasm__ // there, log10 and log2 of zig lose digits of denormal numbers
VECTOR_KERNEL(log10, x < 0x1p-1022 ? log10(x * 0x1p54) - 16.255619765854984542 : log10(x))
VECTOR_KERNEL(log2, x < 0x1p-1022 ? log2(x * 0x1p54) - 54 : log2(x))
#else
VECTOR_KERNEL(log10, log10(x))
VECTOR_KERNEL(log2, log2(x))
#endif
VECTOR_KERNEL(sinh, sinh(x))
VECTOR_KERNEL(tan, tan(x))

MAP(logical_not, bool, boolean, boolean, FAST, !x)
