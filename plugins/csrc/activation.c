// The activations.
#include <tgmath.h>

#include "double_math.h"
#include "elementwise.h"
#include "vector_math.h"

#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

// With x = n ln(2) + r, exp(r) = (a + b) / (a - b), where a has the even powers of r, and b the odd ones: the relative error is
// 2^-31. So there is one quotient, and fewer products than in a polynomial.
static inline floats sigmoid_near(floats x, floats shifted) {
    floats magic = splat(MAGIC);
    OPAQUE(magic);
    const floats n = shifted - magic, rest = multiply_add(n, splat(-LN2_HIGH), x);
    const floats r = multiply_add(n, splat(-LN2_LOW), rest), square = r * r;
    const floats a = multiply_add(square, splat(0.19996418f), splat(2.f));
    const floats b = r * multiply_add(square, splat(0.0166488f), splat(1.f));
    const floats scaled = (a + b) * (floats)((ints)shifted << 23);
    return scaled / (scaled + (a - b));
}

static inline floats sigmoid_anywhere(floats x, ints is_fused) {
    const floats shifted = shifted_exponent(x), e = exp_of_negative(negative_magnitude(x));
    const ints is_near = is_fused & (ints)(distance(shifted) < 2 * FARTHEST);
    const floats far = choose(x < splat(0.f), e, splat(1.f)) / (e + 1.f);
    return choose(is_near, sigmoid_near(x, shifted), far);
}
NEAR_KERNEL(sigmoid)

// x s(x), where s is the sigmoid. Where that is 0 or 1 in every dtype, x is limited: infinity must not meet 0. The products
// are those of the ops to which a traced function is reduced, so that both have the same bits.
#define SILU_FAR 800
static inline floats silu_near(floats x, floats shifted) { return x * sigmoid_near(x, shifted); }
static inline floats silu_anywhere(floats x, ints is_fused) {
    return at_least(x, -SILU_FAR) * sigmoid_anywhere(x, is_fused);
}
NEAR_KERNEL(silu)

static inline floats silu_slope_times(floats dy, floats x, floats s) {
#pragma clang fp contract(off)
    return dy * (s * (x * (1.f - s) + 1.f));
}

static inline floats silu_gradient_floats(floats dy, floats x) {
    const floats s = sigmoid_anywhere(x, (ints){} - is_fused());
    return silu_slope_times(dy, at_most(at_least(x, -SILU_FAR), SILU_FAR), s);
}

static inline floats softplus_floats(floats x) {
    return at_least(x, 0.f) + log1p_of_exp(negative_magnitude(x));
}

static inline floats elu_floats(floats x) { return choose(x < splat(0.f), expm1_floats(x), x); }

static inline floats selu_floats(floats x) {
    const floats below = expm1_floats(x) * splat(SELU_ALPHA);
    return choose(x < splat(0.f), below, x) * splat(SELU_SCALE);
}

#ifdef __wasm__
// As `sigmoid_near`, with a relative error of 2^-58, of numbers for which exp(x) is finite and not denormal.
static inline doubles sigmoid_usual_doubles(doubles x) {
    const doubles magic = repeated(ROUNDING);
    const doubles shifted = multiply_add_doubles(x, repeated(0x1.71547652b82fep0), magic);
    const doubles n = shifted - magic;
    doubles r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_HIGH), x);
    r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_LOW), r);
    const doubles square = r * r;
    doubles a = multiply_add_doubles(square, repeated(0x1.03fe11f5a7f75p-9), repeated(0x1.c7199a58d4deap-3));
    a = multiply_add_doubles(a, square, repeated(2));
    doubles b = multiply_add_doubles(square, repeated(0x1.153634ebb829bp-14), repeated(0x1.c711140dfe323p-6));
    b = r * multiply_add_doubles(b, square, repeated(1));
    const doubles scaled = (doubles)((longs)(a + b) + (longs)((unsigned_longs)shifted << 52));
    return scaled / (scaled + (a - b));
}
static inline doubles sigmoid_doubles(doubles x) {
    const doubles least = repeated(-USUAL), most = repeated(USUAL);
    const doubles y = sigmoid_usual_doubles(larger_doubles(lesser_doubles(x, most), least));
    return choose_doubles(x >= least, y, exp_doubles(x)); /* also of NaN */
}
#else
static inline doubles sigmoid_doubles(doubles x) {
    const doubles e = exp_doubles(-absolute_doubles(x));
    return choose_doubles(x < repeated(0), e, repeated(1)) / (e + 1.);
}
#endif

#ifdef __wasm__
static inline doubles silu_usual_doubles(doubles x) { return x * sigmoid_usual_doubles(x); }
#endif
static inline doubles silu_doubles(doubles x) {
    const doubles least = repeated(-SILU_FAR);
    return choose_doubles(x < least, least, x) * sigmoid_doubles(x);
}

static inline doubles silu_gradient_doubles(doubles dy, doubles x) {
#pragma clang fp contract(off)
    const doubles s = sigmoid_doubles(x), least = repeated(-SILU_FAR), most = repeated(SILU_FAR);
    const doubles limited = choose_doubles(x > most, most, choose_doubles(x < least, least, x));
    return dy * (s * (limited * (1. - s) + 1.));
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
#define DENSITY_AT_0 0.39894228040143267794
#define GELU_SLOPE 1.5957691216057308
#define GELU_CUBIC (0.044715 * GELU_SLOPE)

// Of floats, P(-m) = exp(-m^2 / 2) p(m) / q(m), where the quotient of polynomials has the least relative error, 2^-27
// for m up to 14.6; all terms are positive, so that hardly any digit is lost. Of doubles, it is exp(-m^2 / 2) p(t) / (m + k),
// where t = (m - k) / (m + k), and the error of p is 2^-55 up to 40.
static const float TAIL_TERMS[2][6] = {
    {0.00523601146f, 0.0516560413f, 0.232843146f, 0.556757748f, 0.634848058f},
    {0.0131245842f, 0.129490599f, 0.596587181f, 1.52760303f, 2.12658691f, 1.26969612f}};
#define TAIL_CENTRE_OF_DOUBLES 6
static const double TAIL_TERMS_OF_DOUBLES[] = {
    2.74939182610010595e-9, 2.27871102717622372e-10, -3.77816564629587916e-8, 1.24650612702751983e-8,
    3.04596480536068656e-7, -4.35534213216657667e-7, -1.79629291688064992e-6, 6.80045157779861814e-6,
    1.07441238205911918e-6, -0.0000647536961202941844, 0.000181360657341464736, 0.0000328704572900531207,
    -0.00213160523618629576, 0.0100298205711239414, -0.0309853155064862378, 0.0751719156753218431,
    -0.152680232064472745, 0.267974245841355142, -0.413903585775592664, 0.568968891814789236,
    -0.701009029590865525, 0.777351771893362174};

// P(-m) / exp(-m^2 / 2). Odd powers apart: fewer steps wait for another, and the rounding error of the square, which p and q
// have in common, nearly cancels.
static inline floats tail_factor(floats m) {
    const float *const p = TAIL_TERMS[0], *const q = TAIL_TERMS[1];
    const floats square = m * m;
    const floats p_even = multiply_add(multiply_add(splat(p[0]), square, splat(p[2])), square, splat(p[4]));
    const floats p_odd = multiply_add(splat(p[1]), square, splat(p[3]));
    const floats q_odd = multiply_add(multiply_add(splat(q[0]), square, splat(q[2])), square, splat(q[4]));
    const floats q_even = multiply_add(multiply_add(splat(q[1]), square, splat(q[3])), square, splat(q[5]));
    return multiply_add(p_odd, m, p_even) / multiply_add(q_odd, m, q_even);
}

// exp(-m^2 / 2) 2^64 of 0 <= m <= 14.6. Its square needs more digits than a float has: the square of the upper half
// of the digits is exact.
typedef struct {
    floats rest, shifted;  // m^2 = rest - 2 n ln(2), and n + 64 in the last bits
} bell_exponent;
static inline bell_exponent split_bell(floats m) {
    const floats upper = (floats)((ints)m & ~0xfff);
    floats magic = splat(MAGIC - 127 + 64);
    OPAQUE(magic);
    const floats shifted = multiply_add(m * m, splat(-0.72134752f), magic), n = shifted - magic;
    floats rest = multiply_add(n, splat(2 * LN2_HIGH), upper * upper);
    rest = multiply_add(m - upper, m + upper, rest);
    return (bell_exponent){multiply_add(n, splat(2 * LN2_LOW), rest), shifted};
}
// The power of two is added to the exponent, because products are what takes the time.
static inline floats bell_of(floats rest, floats shifted) {
    return (floats)((ints)exp_near_0(rest, -0.5f) + ((ints)shifted << 23));
}
static inline floats bell_times(floats m) {
    const bell_exponent e = split_bell(m);
    return bell_of(e.rest, e.shifted);
}

// x P(x) = max(x, 0) - |x| P(-|x|), which is -0 far below 0
static inline floats gelu_of(floats x, floats m, floats bell, floats factor) {
    return multiply_add(m * (bell * factor), splat(-0x1p-64f), at_least(x, -0.f));
}

static inline floats limited_magnitude(floats x) { return at_most(absolute(x), GELU_FAR); }

static inline floats gelu_floats(floats x) {
    const floats m = limited_magnitude(x);
    return gelu_of(x, m, bell_times(m), tail_factor(m));
}

static inline floats gelu_gradient_of(floats dy, floats x, floats m, floats bell, floats factor) {
    const floats slope = multiply_add(m, splat((float)DENSITY_AT_0), -factor);
    const floats rest = bell * slope * 0x1p-64f;
    return dy * choose(x > splat(0.f), rest + 1.f, -rest);
}

static inline floats gelu_gradient_floats(floats dy, floats x) {
    const floats m = limited_magnitude(x);
    return gelu_gradient_of(dy, x, m, bell_times(m), tail_factor(m));
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
    const floats inner = inner_floats(x), e = exp_of_negative(negative_magnitude(inner));
    const floats inverse = 1.f / (e + 1.f), least = e * inverse;  // s and 1 - s, or 1 - s and s
    const floats slope = x * multiply_add(x * x, splat(3 * GELU_CUBIC), splat(GELU_SLOPE));
    const floats s = choose(inner < splat(0.f), least, inverse);
    return dy * multiply_add(slope, least * inverse, s);
}

static inline doubles tail_factor_of_doubles(doubles m) {
    const doubles inverse = 1. / (m + TAIL_CENTRE_OF_DOUBLES);
    const doubles t = (m - TAIL_CENTRE_OF_DOUBLES) * inverse;
    return polynomial(TAIL_TERMS_OF_DOUBLES, 22, t, t * t) * inverse;
}

// exp(-m^2 / 2) of 0 <= m <= 40
static inline doubles bell_of_doubles(doubles m) {
    const doubles upper = upper_half(m);
    const doubles shifted =
        multiply_add_doubles(m * m, repeated(-0.72134752044448170368), repeated(ROUNDING));
    const doubles n = shifted - ROUNDING;
    doubles r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_HIGH), upper * upper * -0.5);
    r += (upper - m) * (upper + m) * 0.5;
    r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_LOW), r);
    return scaled_fraction(exp_fraction(r), (longs)shifted - (longs)repeated(ROUNDING));
}

static inline doubles gelu_doubles(doubles x) {
    const doubles m = lesser_doubles(absolute_doubles(x), repeated(FAR));
    const doubles above = choose_doubles(x < repeated(0), repeated(-0.), x);
    return above - m * tail_factor_of_doubles(m) * bell_of_doubles(m);
}

static inline doubles gelu_gradient_doubles(doubles dy, doubles x) {
    const doubles m = lesser_doubles(absolute_doubles(x), repeated(FAR));
    const doubles rest = (m * DENSITY_AT_0 - tail_factor_of_doubles(m)) * bell_of_doubles(m);
    return dy * choose_doubles(x > repeated(0), 1. + rest, -rest);
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

#ifdef __wasm__
// The instructions of a vector follow each other, as wasmtime orders them, and most wait for the one before. A processor
// looks ahead to others only if these are few, so there are three loops, each with constants for which there are registers.
#define AT_ONCE 256
#define EACH_VECTOR                                                                                \
    _Pragma("clang loop unroll_count(4)") for (int i = 0; i + LANES <= count; i += LANES)
ONCE static void find_tail_factors(const float *values, float *sizes, float *factors, int count) {
    EACH_VECTOR {
        const floats m = limited_magnitude(load(values + i));
        store(sizes + i, m), store(factors + i, tail_factor(m));
    }
}

ONCE static void split_bells(const float *sizes, float *rest, float *shifted, int count) {
    EACH_VECTOR {
        const bell_exponent e = split_bell(load(sizes + i));
        store(rest + i, e.rest), store(shifted + i, e.shifted);
    }
}

ONCE static void join_gelus(const float *values, const float *sizes, const float *factors,
                            const float *rest, const float *shifted, float *out, int count) {
    EACH_VECTOR {
        const floats x = load(values + i);
        const floats bell = bell_of(load(rest + i), load(shifted + i));
        store(out + i, gelu_of(x, load(sizes + i), bell, load(factors + i)));
    }
}

ONCE static void join_gelu_gradients(const float *dy, const float *values, const float *sizes,
                                     const float *factors, const float *rest, const float *shifted,
                                     float *out, int count) {
    EACH_VECTOR {
        const floats x = load(values + i), bell = bell_of(load(rest + i), load(shifted + i));
        store(out + i,
              gelu_gradient_of(load(dy + i), x, load(sizes + i), bell, load(factors + i)));
    }
}

#define JOINED_LOOPS(values, joined)                                                               \
    float sizes[AT_ONCE], factors[AT_ONCE], rest[AT_ONCE], shifted[AT_ONCE];                       \
    for (int first = 0; first < whole; first += AT_ONCE) {                                         \
        const int size = smaller(AT_ONCE, whole - first);                                          \
        find_tail_factors(values + first, sizes, factors, size);                                   \
        split_bells(sizes, rest, shifted, size);                                                   \
        joined;                                                                                    \
    }

KERNEL(gelu_float32)(const float *values, float *out, int count) {
    const int whole = count / LANES * LANES;
    JOINED_LOOPS(values, join_gelus(values + first, sizes, factors, rest, shifted, out + first, size))
    floats x = {};
    memcpy(&x, values + whole, (count - whole) * sizeof(float));
    x = gelu_floats(x);
    memcpy(out + whole, &x, (count - whole) * sizeof(float));
}

static void gelu_gradient_anywhere(const float *left, const float *right, float *out, int count,
                                   int left_step, int right_step) {
    VECTOR_RUN(gelu_gradient, gelu_gradient_anywhere, float, floats)
}
KERNEL(gelu_gradient_float32)(const float *left, const float *right, float *out, int count,
                              int left_step, int right_step) {
    const int whole = left_step && right_step ? count / LANES * LANES : 0;
    JOINED_LOOPS(right, join_gelu_gradients(left + first, right + first, sizes, factors, rest,
                                            shifted, out + first, size))
    gelu_gradient_anywhere(left + whole * left_step, right + whole * right_step, out + whole,
                           count - whole, left_step, right_step);
}
BROADCAST(gelu_gradient, float32, float, float)
#else
FLOATS_KERNEL(gelu)
VECTOR_PAIRS(gelu_gradient, float32, float, floats)
#endif
DOUBLES_KERNEL(gelu)
FLOATS_KERNEL(gelu_tanh)
DOUBLES_KERNEL(gelu_tanh)
VECTOR_PAIRS(gelu_gradient, float64, double, doubles)
VECTOR_PAIRS(gelu_tanh_gradient, float32, float, floats)
VECTOR_PAIRS(gelu_tanh_gradient, float64, double, doubles)

EXP_DOUBLES_KERNEL(sigmoid)
EXP_DOUBLES_KERNEL(silu)
#ifdef __wasm__
// Four vectors of numbers near 0 have a loop of their own, as in NEAR_KERNEL.
ONCE static int silu_gradient_near_run(const float *dy, const float *values, float *out, int count,
                                       int dy_step) {
    int i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES, dy += 4 * LANES * dy_step) {
        floats shifted[4];
        unsigned_ints far = {0};
        UNROLLED EACH_OF_FOUR {
            shifted[v] = shifted_exponent(load(values + at));
            far |= distance(shifted[v]);
        }
        if (any_lane((ints)(far & ~(2u * FARTHEST - 1)))) break;
        UNROLLED EACH_OF_FOUR {
            const floats x = load(values + at);
            store(out + at, silu_slope_times(load(dy + v * LANES), x, sigmoid_near(x, shifted[v])));
        }
    }
    return i;
}

static void silu_gradient_anywhere(const float *left, const float *right, float *out, int count,
                                   int left_step, int right_step) {
    VECTOR_RUN(silu_gradient, silu_gradient_anywhere, float, floats)
}
KERNEL(silu_gradient_float32)(const float *left, const float *right, float *out, int count,
                              int left_step, int right_step) {
    RUN_STRIPS(silu_gradient_float32, float, float)
    if (!count || !right_step || !is_fused())
        return silu_gradient_anywhere(left, right, out, count, left_step, right_step);
    float repeated[4 * LANES];
    const float *dy = left;
    if (!left_step) {
        for (int i = 0; i < 4 * LANES; i++) repeated[i] = *left;
        dy = repeated;
    }
    for (int i = 0; (i += silu_gradient_near_run(dy + i * left_step, right + i, out + i, count - i,
                                                 left_step)) < count;) {
        const int size = smaller(4 * LANES, count - i);
        silu_gradient_anywhere(left + i * left_step, right + i, out + i, size, left_step, 1);
        i += size;
    }
}
BROADCAST(silu_gradient, float32, float, float)
#else
VECTOR_PAIRS(silu_gradient, float32, float, floats)
#endif
VECTOR_PAIRS(silu_gradient, float64, double, doubles)
#define VECTOR_KERNELS(name) FLOATS_KERNEL(name) DOUBLES_KERNEL(name)
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
