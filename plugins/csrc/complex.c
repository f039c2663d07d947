// Elementwise kernels of complex numbers. Functions are computed in double precision, in which no
// square of a float overflows or vanishes, and rounded once.
#include <complex.h>
#include <math.h>
#include <stdbool.h>

#include "elementwise.h"

#undef complex  // the name of a kernel, which macros pass on
#undef I
#define PI_2 1.57079632679489661923

static inline complex128 number(double real, double imag) { return __builtin_complex(real, imag); }

static inline bool is_infinite(complex128 z) { return isinf(creal(z)) || isinf(cimag(z)); }

static inline double length(double x, double y) {
    const double finite = sqrt(x * x + y * y);
    return fabs(x) == INFINITY || fabs(y) == INFINITY ? INFINITY : finite;
}

// The same in single precision, as vectors. Extreme numbers are scaled before they are squared.
static inline float absolute_value(complex64 z) {
#pragma STDC FP_CONTRACT OFF  // vectors would be rounded once, and what is left of a row twice
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
    return square > 0 && square < INFINITY ? a * number(x, -y) * (1 / square)
                                           : careful_quotient(a, b);
}

static inline complex128 inverse(complex128 z) {
    return z == 0 ? number(NAN, NAN) : quotient(1, z);
}

// ---- roots, logarithms and powers ----

static complex128 root(complex128 z) {
    const double x = creal(z), y = cimag(z), whole = fabs(x) + length(x, y);
    if (!(whole > 0 && whole < INFINITY)) return csqrt(z);
    const double large = sqrt(whole / 2), small = fabs(y) / (2 * large);
    return x < 0 ? number(small, copysign(large, y)) : number(large, copysign(small, y));
}

static complex128 logarithm(complex128 z) {
    const double x = fabs(creal(z)), y = fabs(cimag(z));
    const double large = x > y ? x : y, small = x > y ? y : x;
    // Near the unit circle, where the length rounds to 1.
    const double real = large > 0.5 && large < 2
                            ? log1p((large - 1) * (large + 1) + small * small) / 2
                            : log(length(x, y));
    return number(real, carg(z));
}

static complex128 logarithm_of_1_plus(complex128 z) {
    const double x = creal(z), y = cimag(z);
    if (x < -0.5 || is_infinite(z)) return logarithm(1 + z);
    return number(log1p(x * (x + 2) + y * y) / 2, atan2(y, x + 1));
}

static complex128 exponential_minus_1(complex128 z) {
    const double x = creal(z), y = cimag(z), half = sin(y / 2);
    if (y == 0) return number(x == 0 ? 0 : expm1(x), y); // not -0: as exp(x) - 1
    if (!isfinite(x)) {
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
    if (x == 0 && y != y) return z;
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
    MAP(name, complex64, complex64, complex64, effort, expression)
#define COMPLEX_PAIRS(name, effort, expression)                                                    \
    PAIRS(name, complex64, complex64, complex64, effort, expression)

MAP(real, complex64, complex64, float, FAST, crealf(x))
MAP(imag, complex64, complex64, float, FAST, cimagf(x))
PAIRS(complex, float32, float, complex64, FAST, __builtin_complex(a, b))
MAP(cast_float32, complex64, float, complex64, FAST, x)
MAP(cast_complex64, bool, complex64, boolean, FAST, x != 0)
MAP(complex_abs, complex64, complex64, float, FAST, absolute_value(x))
COMPLEX_MAP(conj, FAST, conjf(x))

COMPLEX_MAP(negative, FAST, -x)
COMPLEX_MAP(square, FAST, x *x)
COMPLEX_MAP(reciprocal, FAST, inverse(x))
COMPLEX_MAP(sqrt, SMALL, root(x))
COMPLEX_MAP(rsqrt, SMALL, quotient(1, root(x)))
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
MAP(is_nan, complex64, complex64, boolean, FAST, isnan(crealf(x)) || isnan(cimagf(x)))
MAP(is_inf, complex64, complex64, boolean, SMALL, is_infinite(x))
MAP(is_finite, complex64, complex64, boolean, SMALL, isfinite(crealf(x)) && isfinite(cimagf(x)))

// Sums of arrays are those of twice as many floats, which compilers turn into vectors.
#define COMPLEX_SUMS(name, sign)                                                                   \
    KERNEL(name##_complex64)(const complex64 *restrict left, const complex64 *restrict right,      \
                             complex64 *restrict out, int count, int left_step, int right_step) {  \
        if (!left_step || !right_step)                                                             \
            for (int i = 0; i < count; i++)                                                        \
                out[i] = left[i * left_step] sign right[i * right_step];                           \
        else                                                                                       \
            for (ptrdiff_t i = 0; i < 2 * (ptrdiff_t)count; i++)                                   \
                ((float *)out)[i] = ((const float *)left)[i] sign((const float *)right)[i];        \
    }                                                                                              \
    BROADCAST(name, complex64, complex64, complex64)
COMPLEX_SUMS(add, +)
COMPLEX_SUMS(subtract, -)
COMPLEX_PAIRS(multiply, FAST, a *b)
COMPLEX_PAIRS(squared_difference, FAST, (a - b) * (a - b))
COMPLEX_PAIRS(divide, FAST, quotient(a, b))
COMPLEX_PAIRS(power, SMALL, power_of(a, b))
PAIRS(equal, complex64, complex64, boolean, SMALL, a == b)
PAIRS(not_equal, complex64, complex64, boolean, SMALL, a != b)

// ---- sums: those of floats with twice the columns; one column is cut into COLUMNS first ----

#define COLUMNS 8

typedef void reduction(const float *x, float *out, int outer, int reduced, int inner);
reduction sum_float32, mean_float32;

static void reduce(reduction of_floats, const float *x, float *out, int outer, int reduced,
                   int inner, double divisor) {
    if (inner > 1) {
        of_floats(x, out, outer, reduced, 2 * inner);
        return;
    }
    for (; outer > 0; outer--, x += 2 * reduced, out += 2) {
        float columns[2 * COLUMNS];
        double total[2] = {0};
        if (reduced >= COLUMNS) {
            sum_float32(x, columns, 1, reduced / COLUMNS, 2 * COLUMNS);
            for (int i = 0; i < 2 * COLUMNS; i++) total[i % 2] += columns[i];
        }
        for (int i = reduced / COLUMNS * 2 * COLUMNS; i < 2 * reduced; i++) total[i % 2] += x[i];
        for (int i = 0; i < 2; i++) out[i] = total[i] / divisor;
    }
}

KERNEL(sum_complex64)(const float *x, float *out, int outer, int reduced, int inner) {
    reduce(sum_float32, x, out, outer, reduced, inner, 1);
}

KERNEL(mean_complex64)(const float *x, float *out, int outer, int reduced, int inner) {
    reduce(mean_float32, x, out, outer, reduced, inner, reduced);
}

// ---- matrices: a complex product is a real one with twice the depth and the columns ----

// x is (rows, columns), out (rows, 2, columns): each row, and the row times i.
KERNEL(expand_complex64)(const complex64 *restrict x, complex64 *restrict out, int rows,
                         int columns) {
    for (; rows > 0; rows--, x += columns, out += 2 * columns)
        for (int j = 0; j < columns; j++) {
            out[j] = x[j];
            out[columns + j] = __builtin_complex(-cimagf(x[j]), crealf(x[j]));
        }
}
