// The activations.
#include <tgmath.h>

#include "double_math.h"
#include "elementwise.h"
#include "vector_math.h"

#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

static inline floats sigmoid_floats(floats x) {
    const floats e = exp_of_negative(-absolute(x));
    return choose(x < splat(0.f), e, splat(1.f)) / (e + 1.f);
}

static inline floats softplus_floats(floats x) {
    return choose(x < splat(0.f), splat(0.f), x) + log1p_floats(exp_of_negative(-absolute(x)));
}

static inline floats elu_floats(floats x) { return choose(x < splat(0.f), expm1_floats(x), x); }

static inline floats selu_floats(floats x) {
    const floats below = expm1_floats(x) * splat(SELU_ALPHA);
    return choose(x < splat(0.f), below, x) * splat(SELU_SCALE);
}

static inline doubles sigmoid_doubles(doubles x) {
    const doubles e = exp_doubles(-absolute_doubles(x));
    return choose_doubles(x < repeated(0), e, repeated(1)) / (e + 1.);
}

static inline doubles softplus_doubles(doubles x) {
    const doubles above = choose_doubles(x < repeated(0), repeated(0), x);
    return above + log1p_doubles(exp_doubles(-absolute_doubles(x)));
}

static inline doubles elu_doubles(doubles x) {
    return choose_doubles(x < repeated(0), expm1_doubles(x), x);
}

static inline doubles selu_doubles(doubles x) {
    const doubles below = expm1_doubles(x) * SELU_ALPHA;
    return choose_doubles(x < repeated(0), below, x) * SELU_SCALE;
}

// x P(x), where P is the distribution of a normal number, and p its density; or x s(x), where s is a
// sigmoid that is close to P. Far from 0, the limits are reached: 0 must not meet infinity.
#define FAR 40
#define GELU_FAR 14.6f  // where x P(x) and x p(x) are less than half of the least float32
#define ROOT_HALF 0.70710678118654752440
#define DENSITY_AT_0 0.39894228040143267794
#define LOG2_E 1.4426950408889634074
#define GELU_SLOPE 1.5957691216057308
#define GELU_CUBIC (0.044715 * GELU_SLOPE)

// The q for which 2^(m q - 1) is P(-m), of 0 <= m <= 14.6. Its error is less than that of rounding up to 1, and then
// grows, to 1 percent of P(-m) where that is less than 1e-9. Odd powers apart: fewer steps wait for another.
static inline floats exponent_below(floats m) {
    const floats square = m * m;
    floats even = splat(2.3752144695521338e-9f), odd = splat(-3.347632934747047e-11f);
    even = multiply_add(even, square, splat(1.2146487051722943e-6f));
    odd = multiply_add(odd, square, splat(-7.190443795934698e-8f));
    even = multiply_add(even, square, splat(8.035901555558667e-5f));
    odd = multiply_add(odd, square, splat(-1.2541717296699062e-5f));
    even = multiply_add(even, square, splat(1.0700504162741709e-6f));
    odd = multiply_add(odd, square, splat(-2.8461666079238057e-4f));
    even = multiply_add(even, square, splat(-5.244794487953186e-2f));
    odd = multiply_add(odd, square, splat(6.952270865440369e-3f));
    even = multiply_add(even, square, splat(-1.1511045694351196f));
    odd = multiply_add(odd, square, splat(-4.5921793580055237e-1f));
    return multiply_add(odd, m, even);
}

// x P(x) = max(x, 0) - |x| P(-|x|), which is -0 far below 0
static inline floats gelu_floats(floats x) {
    const floats m = at_most(absolute(x), GELU_FAR);
    const floats below = scaled_power(m, exponent_below(m));
    return multiply_add(m * -0x1p-65f, below, at_least(x, -0.f));
}

static inline floats gelu_gradient_floats(floats dy, floats x) {
    const floats m = at_most(absolute(x), GELU_FAR);
    const floats bell = scaled_power(m, m * (float)(-0.5 * LOG2_E));  // exp(-m^2 / 2)
    const floats below = scaled_power(m, exponent_below(m)) * 0x1p-65f;
    const floats rest = multiply_add(m * (float)(DENSITY_AT_0 * 0x1p-64), bell, -below);
    return dy * choose(x > splat(0.f), rest + 1.f, -rest);
}

static inline floats inner_floats(floats x) {
    return x * multiply_add(x * x, splat(GELU_CUBIC), splat(GELU_SLOPE));
}

static inline floats gelu_tanh_floats(floats x) {
    x = at_least(x, -FAR);
    return x / (exp_floats(-inner_floats(x)) + 1.f);
}

static inline floats gelu_tanh_gradient_floats(floats dy, floats x) {
    x = at_most(at_least(x, -FAR), FAR);
    const floats inner = inner_floats(x), e = exp_of_negative(-absolute(inner));
    const floats inverse = 1.f / (e + 1.f), least = e * inverse;  // s and 1 - s, or 1 - s and s
    const floats slope = x * multiply_add(x * x, splat(3 * GELU_CUBIC), splat(GELU_SLOPE));
    const floats s = choose(inner < splat(0.f), least, inverse);
    return dy * multiply_add(slope, least * inverse, s);
}

static inline doubles gelu_doubles(doubles x) {
    return 0.5 * choose_doubles(x < repeated(-FAR), repeated(-FAR), x) *
           (1. + erf_doubles(x * ROOT_HALF));
}

static inline doubles gelu_gradient_doubles(doubles dy, doubles x) {
    x = choose_doubles(x < repeated(-FAR), repeated(-FAR), x);
    x = choose_doubles(x > repeated(FAR), repeated(FAR), x);
    const doubles density = DENSITY_AT_0 * exp_doubles(-0.5 * x * x);
    return dy * (0.5 * (1. + erf_doubles(x * ROOT_HALF)) + x * density);
}

static inline doubles gelu_tanh_doubles(doubles x) {
    x = choose_doubles(x < repeated(-FAR), repeated(-FAR), x);
    return x / (exp_doubles(-x * (x * x * GELU_CUBIC + GELU_SLOPE)) + 1.);
}

static inline doubles gelu_tanh_gradient_doubles(doubles dy, doubles x) {
    x = choose_doubles(x < repeated(-FAR), repeated(-FAR), x);
    x = choose_doubles(x > repeated(FAR), repeated(FAR), x);
    const doubles inner = x * (x * x * GELU_CUBIC + GELU_SLOPE);
    const doubles e = exp_doubles(-absolute_doubles(inner));
    const doubles inverse = 1. / (e + 1.), least = e * inverse;
    const doubles slope = x * (x * x * (3 * GELU_CUBIC) + GELU_SLOPE);
    return dy * (choose_doubles(inner < repeated(0), least, inverse) + slope * (least * inverse));
}

FLOATS_KERNEL(gelu)
DOUBLES_KERNEL(gelu)
FLOATS_KERNEL(gelu_tanh)
DOUBLES_KERNEL(gelu_tanh)
VECTOR_PAIRS(gelu_gradient, float32, float, floats)
VECTOR_PAIRS(gelu_gradient, float64, double, doubles)
VECTOR_PAIRS(gelu_tanh_gradient, float32, float, floats)
VECTOR_PAIRS(gelu_tanh_gradient, float64, double, doubles)

#define VECTOR_KERNELS(name) FLOATS_KERNEL(name) DOUBLES_KERNEL(name)
VECTOR_KERNELS(sigmoid)
VECTOR_KERNELS(softplus)
VECTOR_KERNELS(elu)
VECTOR_KERNELS(selu)

#define NUMBER_KERNELS(dtype, type, effort)                                                        \
    MAP(relu, dtype, type, type, effort, x <= 0 ? 0 : x) /* also of -0 */                                            \
    MAP(relu6, dtype, type, type, effort, x <= 0 ? 0 : x > 6 ? 6 : x)
EACH_NUMBER(NUMBER_KERNELS)

#define FLOAT_KERNELS(dtype, type, effort)                                                         \
    MAP(leaky_relu, dtype, type, type, effort, x > 0 ? x : alpha * x, type alpha)                  \
    PAIRS(prelu, dtype, type, type, effort, a > 0 ? a : b * a)                                     \
    PAIRS(elu_gradient, dtype, type, type, effort, b >= 0 ? a : a * (b + 1))                       \
    PAIRS(relu6_gradient, dtype, type, type, effort, b <= 0 || b >= 6 ? 0 : a)                     \
    PAIRS(sigmoid_gradient, dtype, type, type, effort, a *b * (1 - b))
EACH_FLOAT(FLOAT_KERNELS)
