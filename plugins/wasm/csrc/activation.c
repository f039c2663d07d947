// The activations.
#include <tgmath.h>

#include "double_math.h"
#include "elementwise.h"
#include "vector_math.h"

#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

static inline floats sigmoid_floats(floats x) {
    const floats e = exp_floats(-absolute(x));
    return choose(x < splat(0.f), e, splat(1.f)) / (e + 1.f);
}

static inline floats softplus_floats(floats x) {
    return choose(x < splat(0.f), splat(0.f), x) + log1p_floats(exp_floats(-absolute(x)));
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
    PAIRS(elu_gradient, dtype, type, type, effort, b >= 0 ? a : a * (b + 1))
EACH_FLOAT(FLOAT_KERNELS)
