// Elementwise kernels of complex numbers. Functions are computed in double precision, in which no
// square of a float overflows or vanishes; doubles whose squares do take ways of their own.
#include <complex.h>
#include <math.h>
#include <stdbool.h>

#include "elementwise.h"

#undef complex  // the name of a kernel, which macros pass on
#undef I
#define PI_2 1.57079632679489661923
#define LN_2 0.69314718055994530942

static inline complex128 number(double real, double imag) { return __builtin_complex(real, imag); }

static inline bool is_infinite(complex128 z) { return isinf(creal(z)) || isinf(cimag(z)); }

// Beyond these, squares overflow, or lose digits. Floats are within, but for 0.
#define LARGE 0x1p500
#define LITTLE 0x1p-450

static inline double length(double x, double y) {
#pragma STDC FP_CONTRACT OFF  // vectors would be rounded once, and what is left of a row twice
    const double larger = fmax(fabs(x), fabs(y));
    const double scale = larger > LARGE ? 0x1p-600 : larger < LITTLE ? 0x1p600 : 1;
    const double inverse = larger > LARGE ? 0x1p600 : larger < LITTLE ? 0x1p-600 : 1;
    const double a = x * scale, b = y * scale, finite = sqrt(a * a + b * b) * inverse;
    return fabs(x) == INFINITY || fabs(y) == INFINITY ? INFINITY : finite;
}

// The same in single precision, as vectors. Extreme numbers are scaled before they are squared.
static inline float absolute_value(complex64 z) {
#pragma STDC FP_CONTRACT OFF
    const float x = fabsf(crealf(z)), y = fabsf(cimagf(z)), larger = x > y ? x : y;
    const float scale = larger > 1e18f ? 0x1p-70f : larger < 1e-18f ? 0x1p120f : 1;
    const float inverse = larger > 1e18f ? 0x1p70f : larger < 1e-18f ? 0x1p-120f : 1;
    const float a = x * scale, b = y * scale, finite = sqrtf(a * a + b * b) * inverse;
    return x == INFINITY || y == INFINITY ? INFINITY : finite;
}

static inline complex128 turned(complex128 z) { return number(-cimag(z), creal(z)); }     // i z
static inline complex128 turned_back(complex128 z) { return number(cimag(z), -creal(z)); }  // -i z

// ---- quotients ----

// If the square of the divisor is out of range, its smaller part is divided by the larger one.
static complex128 careful_quotient(complex128 a, complex128 b) {
    const double x = creal(b), y = cimag(b);
    if (x == 0 && y == 0) return number(creal(a) / fabs(x), cimag(a) / fabs(x));
    if (fabs(x) < fabs(y)) return turned_back(careful_quotient(a, turned_back(b)));
    const double ratio = y / x, scale = 1 / (x + y * ratio);
    return number((creal(a) + cimag(a) * ratio) * scale, (cimag(a) - creal(a) * ratio) * scale);
}

static inline complex128 quotient(complex128 a, complex128 b) {
    const double x = creal(b), y = cimag(b), square = x * x + y * y;
    return square > 0x1p-900 && square < INFINITY ? a * number(x, -y) * (1 / square)
                                                  : careful_quotient(a, b);
}

static inline complex128 inverse(complex128 z) {
    return z == 0 ? number(NAN, NAN) : quotient(1, z);
}

// Products of doubles overflow where their quotients do not.
static inline complex128 wide_quotient(complex128 a, complex128 b) { return careful_quotient(a, b); }

static inline complex128 wide_inverse(complex128 z) {
    return z == 0 ? number(NAN, NAN) : careful_quotient(1, z);
}

// ---- roots, logarithms and powers ----

static complex128 root(complex128 z) {
    const double x = creal(z), y = cimag(z), whole = fabs(x) + length(x, y);
    if (!(whole > 0 && whole < INFINITY)) return csqrt(z);
    if (whole < 0x1p-1000) return 0x1p-100 * root(0x1p200 * z);  // half of the smallest number is 0
    const double large = sqrt(whole / 2), small = fabs(y) / (2 * large);
    return x < 0 ? number(small, copysign(large, y)) : number(large, copysign(small, y));
}

static complex128 logarithm(complex128 z) {
    const double x = fabs(creal(z)), y = fabs(cimag(z));
    const double large = x > y ? x : y, small = x > y ? y : x;
    // Near the unit circle, where the length rounds to 1.
    const double real = large > 0.5 && large < 2
                            ? log1p((large - 1) * (large + 1) + small * small) / 2
                            : large > LARGE ? log(length(x / 2, y / 2)) + LN_2
                                            : log(length(x, y));
    return number(real, carg(z));
}

static complex128 logarithm_of_1_plus(complex128 z) {
    const double x = creal(z), y = cimag(z);
    if (x < -0.5 || fabs(x) > 1e10 || fabs(y) > 1e10) return logarithm(1 + z);
    return number(log1p(x * (x + 2) + y * y) / 2, atan2(y, x + 1));
}

static complex128 exponential_minus_1(complex128 z) {
    const double x = creal(z), y = cimag(z), half = sin(y / 2);
    if (y == 0) return number(x == 0 ? 0 : expm1(x), y); // not -0: as exp(x) - 1
    if (!(fabs(x) < 700)) {  // beyond, the exponential overflows where a part of the result does not
        const complex128 e = cexp(z);
        return number(creal(e) - 1, cimag(e));
    }
    return number(expm1(x) * cos(y) - 2 * half * half, exp(x) * sin(y));
}

// Small whole exponents by squaring.
static complex128 power_of(complex128 a, complex128 b) {
    const double x = creal(b);
    if (b == 0) return 1;
    if (a == 0) return x > 0 ? 0 : number(NAN, NAN);
    if (cimag(b) != 0 || x != rint(x) || fabs(x) >= 100) return cexp(b * logarithm(a));
    complex128 y = a;
    for (int n = (int)fabs(x) - 1; n > 0; n >>= 1, a *= a)
        if (n & 1) y *= a;
    return x < 0 ? quotient(1, y) : y;
}

// ---- inverse functions: Hull, Fairgrieve and Tang, ACM TOMS 23 (1997) ----

// For the point (x, y): its angle in the ellipse through it whose foci are 1 and -1, as a sine and
// a cosine that share a factor, and the logarithm of the sum of the half axes.
typedef struct {
    double sine, cosine, logarithm;
} ellipse;

static ellipse ellipse_through(complex128 z) {
    const double x = fabs(creal(z)), y = fabs(cimag(z));
    if (is_infinite(z)) return (ellipse){x, y, INFINITY};
    if (x == 0 && y != y) return (ellipse){x, 1, y};
    if (fmax(x, y) > LARGE) return (ellipse){x, y, log(length(x / 4, y / 4)) + 3 * LN_2};
    if (x < 1 && y < LITTLE) {
        const double height = sqrt((1 - x) * (1 + x));
        return (ellipse){x, height, y / height};
    }
    const double far = length(x + 1, y), near = length(x - 1, y), axis = (far + near) / 2;
    const double from_far = y * y / (far + x + 1);
    // The half axis minus 1, and minus x, without cancellation.
    double beyond_1, beyond_x;
    if (x < 1) {
        beyond_1 = (from_far + y * y / (near + (1 - x))) / 2;
        beyond_x = (from_far + near + (1 - x)) / 2;
    } else {
        const double rest = near + (x - 1);
        beyond_1 = (from_far + rest) / 2;
        beyond_x = (from_far + (rest > 0 ? y * y / rest : 0)) / 2;
    }
    return (ellipse){x, sqrt(beyond_x * (axis + x)),
                     log1p(beyond_1 + sqrt(beyond_1 * (axis + 1)))};
}

static complex128 arc_sine(complex128 z) {
    const ellipse e = ellipse_through(z);
    return number(copysign(atan2(e.sine, e.cosine), creal(z)), copysign(e.logarithm, cimag(z)));
}

static complex128 arc_cosine(complex128 z) {
    const ellipse e = ellipse_through(z);
    return number(atan2(e.cosine, copysign(e.sine, creal(z))), -copysign(e.logarithm, cimag(z)));
}

static complex128 area_cosine(complex128 z) {
    const complex128 y = arc_cosine(z);
    return number(fabs(cimag(y)), copysign(creal(y), cimag(z)));
}

static complex128 area_tangent(complex128 z) {
    const double x = fabs(creal(z)), y = cimag(z);
    if (is_infinite(z)) return number(copysign(0, creal(z)), y != y ? y : copysign(PI_2, y));
    if (x != x || y != y) return number(x == 0 ? creal(z) : NAN, NAN);
    if (fmax(x, fabs(y)) > LARGE) {
        const double distance = length(x / 2, y / 2);
        return number(copysign(x / 2 / distance / distance / 2, creal(z)), copysign(PI_2, y));
    }
    const double rest = (1 - x) * (1 - x) + y * y;
    return number(copysign(log1p(4 * x / rest) / 4, creal(z)),
                  atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2);
}

// Where x is infinite, the imaginary part is a zero with the sign of y, as the array API asks. C99
// gives it that of sin(2y).
static complex128 hyperbolic_tangent(complex128 z) {
    return isinf(creal(z)) ? number(copysign(1, creal(z)), copysign(0, cimag(z))) : ctanh(z);
}

// ---- the kernels ----

#define COMPLEX_MAP(name, effort, expression)                                                      \
    MAP(name, complex64, complex64, complex64, effort, expression)                                 \
    MAP(name, complex128, complex128, complex128, SMALL, expression)
#define COMPLEX_PAIRS(name, effort, expression)                                                    \
    PAIRS(name, complex64, complex64, complex64, effort, expression)                               \
    PAIRS(name, complex128, complex128, complex128, SMALL, expression)
#define COMPLEX_TEST(name, effort, expression)                                                     \
    MAP(name, complex64, complex64, boolean, effort, expression)                                   \
    MAP(name, complex128, complex128, boolean, SMALL, expression)

MAP(real, complex64, complex64, float, FAST, crealf(x))
MAP(real, complex128, complex128, double, FAST, creal(x))
MAP(imag, complex64, complex64, float, FAST, cimagf(x))
MAP(imag, complex128, complex128, double, FAST, cimag(x))
PAIRS(complex, float32, float, complex64, FAST, __builtin_complex(a, b))
PAIRS(complex, float64, double, complex128, FAST, __builtin_complex(a, b))
MAP(cast_float32, complex64, float, complex64, FAST, x)
MAP(cast_float64, complex128, double, complex128, FAST, x)
MAP(cast_complex64, complex128, complex64, complex128, FAST, x)
MAP(cast_complex128, complex64, complex128, complex64, FAST, x)
MAP(cast_complex64, bool, complex64, boolean, FAST, x != 0)
MAP(cast_complex128, bool, complex128, boolean, SMALL, x != 0)
MAP(complex_abs, complex64, complex64, float, FAST, absolute_value(x))
MAP(complex_abs, complex128, complex128, double, FAST, length(creal(x), cimag(x)))
COMPLEX_MAP(conj, FAST, conj(x))

COMPLEX_MAP(negative, FAST, -x)
COMPLEX_MAP(square, FAST, x *x)
MAP(reciprocal, complex64, complex64, complex64, FAST, inverse(x))
MAP(reciprocal, complex128, complex128, complex128, SMALL, wide_inverse(x))
COMPLEX_MAP(sqrt, SMALL, root(x))
MAP(rsqrt, complex64, complex64, complex64, SMALL, quotient(1, root(x)))
MAP(rsqrt, complex128, complex128, complex128, SMALL, wide_quotient(1, root(x)))
COMPLEX_MAP(exp, SMALL, cexp(x))
COMPLEX_MAP(expm1, SMALL, exponential_minus_1(x))
COMPLEX_MAP(log, SMALL, logarithm(x))
COMPLEX_MAP(log1p, SMALL, logarithm_of_1_plus(x))
COMPLEX_MAP(log2, SMALL, logarithm(x) * 1.44269504088896340736)
COMPLEX_MAP(log10, SMALL, logarithm(x) * 0.434294481903251827651)
COMPLEX_MAP(sin, SMALL, turned_back(csinh(turned(x))))
COMPLEX_MAP(cos, SMALL, ccosh(turned(x)))
COMPLEX_MAP(tan, SMALL, turned_back(hyperbolic_tangent(turned(x))))
COMPLEX_MAP(asin, SMALL, arc_sine(x))
COMPLEX_MAP(acos, SMALL, arc_cosine(x))
COMPLEX_MAP(atan, SMALL, turned_back(area_tangent(turned(x))))
COMPLEX_MAP(sinh, SMALL, csinh(x))
COMPLEX_MAP(cosh, SMALL, ccosh(x))
COMPLEX_MAP(tanh, SMALL, hyperbolic_tangent(x))
COMPLEX_MAP(asinh, SMALL, turned_back(arc_sine(turned(x))))
COMPLEX_MAP(acosh, SMALL, area_cosine(x))
COMPLEX_MAP(atanh, SMALL, area_tangent(x))
COMPLEX_MAP(sigmoid, SMALL, quotient(1, 1 + cexp(-(complex128)x)))
COMPLEX_TEST(is_nan, FAST, isnan(creal(x)) || isnan(cimag(x)))
COMPLEX_TEST(is_inf, SMALL, is_infinite(x))
COMPLEX_TEST(is_finite, SMALL, isfinite(creal(x)) && isfinite(cimag(x)))

// Sums of arrays are those of twice as many floats, which compilers turn into vectors.
#define COMPLEX_SUMS(name, sign, dtype, type)                                                      \
    KERNEL(name##_##dtype)(const dtype *restrict left, const dtype *restrict right,                \
                           dtype *restrict out, int count, int left_step, int right_step) {        \
        if (!left_step || !right_step)                                                             \
            for (int i = 0; i < count; i++)                                                        \
                out[i] = left[i * left_step] sign right[i * right_step];                           \
        else                                                                                       \
            for (ptrdiff_t i = 0; i < 2 * (ptrdiff_t)count; i++)                                   \
                ((type *)out)[i] = ((const type *)left)[i] sign((const type *)right)[i];           \
    }                                                                                              \
    BROADCAST(name, dtype, dtype, dtype)
COMPLEX_SUMS(add, +, complex64, float)
COMPLEX_SUMS(subtract, -, complex64, float)
COMPLEX_SUMS(add, +, complex128, double)
COMPLEX_SUMS(subtract, -, complex128, double)
COMPLEX_PAIRS(multiply, FAST, a *b)
COMPLEX_PAIRS(squared_difference, FAST, (a - b) * (a - b))
PAIRS(divide, complex64, complex64, complex64, FAST, quotient(a, b))
PAIRS(divide, complex128, complex128, complex128, SMALL, wide_quotient(a, b))
COMPLEX_PAIRS(power, SMALL, power_of(a, b))
PAIRS(equal, complex64, complex64, boolean, SMALL, a == b)
PAIRS(not_equal, complex64, complex64, boolean, SMALL, a != b)
PAIRS(equal, complex128, complex128, boolean, SMALL, a == b)
PAIRS(not_equal, complex128, complex128, boolean, SMALL, a != b)

// ---- sums: those of real numbers with twice the columns; one column is cut into COLUMNS first ----

#define COLUMNS 8

#define COMPLEX_REDUCTION(dtype, type, real)                                                       \
    typedef void reduction_of_##real(const type *x, type *out, int outer, int reduced, int inner); \
    reduction_of_##real sum_##real, mean_##real;                                                   \
    static void reduce_##dtype(reduction_of_##real of_real, const type *x, type *out, int outer,   \
                               int reduced, int inner, double divisor) {                           \
        if (inner > 1) {                                                                           \
            of_real(x, out, outer, reduced, 2 * inner);                                            \
            return;                                                                                \
        }                                                                                          \
        for (; outer > 0; outer--, x += 2 * reduced, out += 2) {                                   \
            type columns[2 * COLUMNS];                                                             \
            double total[2] = {0};                                                                 \
            if (reduced >= COLUMNS) {                                                              \
                sum_##real(x, columns, 1, reduced / COLUMNS, 2 * COLUMNS);                         \
                for (int i = 0; i < 2 * COLUMNS; i++) total[i % 2] += columns[i];                  \
            }                                                                                      \
            for (int i = reduced / COLUMNS * 2 * COLUMNS; i < 2 * reduced; i++)                    \
                total[i % 2] += x[i];                                                              \
            for (int i = 0; i < 2; i++) out[i] = total[i] / divisor;                               \
        }                                                                                          \
    }                                                                                              \
    KERNEL(sum_##dtype)(const type *x, type *out, int outer, int reduced, int inner) {             \
        reduce_##dtype(sum_##real, x, out, outer, reduced, inner, 1);                              \
    }                                                                                              \
    KERNEL(mean_##dtype)(const type *x, type *out, int outer, int reduced, int inner) {            \
        reduce_##dtype(mean_##real, x, out, outer, reduced, inner, reduced);                       \
    }
COMPLEX_REDUCTION(complex64, float, float32)
COMPLEX_REDUCTION(complex128, double, float64)

// ---- matrices: a complex product is a real one with twice the depth and the columns ----

// x is (rows, columns), out (rows, 2, columns): each row, and the row times i.
#define EXPAND_ROWS(dtype)                                                                         \
    KERNEL(expand_##dtype)(const dtype *restrict x, dtype *restrict out, int rows, int columns) {  \
        for (; rows > 0; rows--, x += columns, out += 2 * columns)                                 \
            for (int j = 0; j < columns; j++) {                                                    \
                out[j] = x[j];                                                                     \
                out[columns + j] = __builtin_complex(-__imag__ x[j], __real__ x[j]);               \
            }                                                                                      \
    }
EXPAND_ROWS(complex64)
EXPAND_ROWS(complex128)
