// Fourier transforms of rows of any length, in single precision with factors from double precision.
//
// Stockham's algorithm: a stage of radix r reads x[q + s (p + m j)], transforms over j, and writes
// y[q + s (r p + k)], where s is the product of the radices before it and n = s r m. So no stage
// permutes, and the innermost index q is contiguous. Real and imaginary parts are in separate
// planes; exchanging the planes gives the inverse transform.
//
// A length with a large prime factor becomes a convolution of a convenient length (Bluestein).
//
// A row of real numbers, if their count is even, is transformed as half as many complex numbers: z = even
// + i odd. As E and O, the transforms of even and odd ones, are symmetric, that of z gives them both, and
// X[k] = E[k] + w^k O[k], where w is exp(-2 pi i / n).
#include <math.h>

#include "gemm.h"

#define LARGEST_RADIX 31
#define TAU 6.28318530717958647693
#define INLINE static inline __attribute__((always_inline))

// As the host writes it: the complex numbers of a row, the length of the transform, the real numbers of
// a row or 0, and the radices.
typedef struct {
    int row, size, length, stages, radices[];
} plan;

static inline int is_packed(const plan *f) { return f->length == 2 * f->row; }

typedef struct {
    float *re, *im;
} planes;

// ---- tables: the powers of w, the factors of each stage, the roots of its radix, those of Bluestein ----

static complex128 root_of_unity(double turns) {
    const double angle = TAU * (turns - floor(turns));
    return __builtin_complex(cos(angle), -sin(angle));
}

// Write the powers 0, 1, … of exp(-2 pi i turns), each as the product of two roots.
#define FEW 64
static void write_powers(float *re, float *im, int count, double turns) {
    complex128 low[FEW], high = 0;
    for (int i = 0; i < FEW && i < count; i++) low[i] = root_of_unity(i * turns);
    for (int i = 0; i < count; i++) {
        if (i % FEW == 0) high = root_of_unity(i * turns);
        const complex128 power = high * low[i % FEW];
        re[i] = __real__ power;
        im[i] = __imag__ power;
    }
}

// The factors: (radix - 1) rows of real parts and as many of imaginary parts, `rest` in each row.
static float *write_stage(float *table, int radix, int rest) {
    const int count = (radix - 1) * rest;
    for (int k = 1; k < radix; k++, table += rest)
        write_powers(table, table + count, rest, k / ((double)radix * rest));
    table += count;
    write_powers(table, table + radix, radix, 1. / radix);
    return table + 2 * radix;
}

static planes transform(const plan *f, const float *table, planes x, planes y);

// The number of floats in the table of a plan.
EXPORTED(fft_table_size) int64_t fft_table_size(const plan *f, int) {
    int64_t count = is_packed(f) ? 2 * (int64_t)f->row : 0;
    if (f->row != f->size) count += 2 * (int64_t)f->row + 4 * (int64_t)f->size;
    for (int i = 0, rest = f->size; i < f->stages; i++) {
        rest /= f->radices[i];
        count += 2 * (f->radices[i] - 1) * (int64_t)rest + 2 * f->radices[i];
    }
    return count;
}

// descriptor: a plan. The table ends with room for one transform.
KERNEL(fft_table)(float *table, const plan *f) {
    const int n = f->row, size = f->size;
    if (is_packed(f)) {
        write_powers(table, table + n, n, 1. / f->length);
        table += 2 * n;
    }
    const float *stages = table;
    for (int i = 0, rest = size; i < f->stages; i++)
        table = write_stage(table, f->radices[i], rest /= f->radices[i]);
    if (n == size) return;
    const planes chirp = {table, table + n}, filter = {table + 2 * n, table + 2 * n + size};
    memset(filter.re, 0, 2 * size * sizeof(float));
    for (int i = 0; i < n; i++) {
        const complex128 y = root_of_unity((int64_t)i * i % (2 * n) / (2. * n));
        chirp.re[i] = __real__ y;
        chirp.im[i] = __imag__ y;
        const int mirrored = i ? size - i : 0;
        filter.re[i] = filter.re[mirrored] = __real__ y / size;
        filter.im[i] = filter.im[mirrored] = -__imag__ y / size;
    }
    float *room = filter.im + size;
    const planes result = transform(f, stages, filter, (planes){room, room + size});
    memmove(filter.re, result.re, 2 * size * sizeof(float));
}

// ---- stages ----

// Transform `radix` numbers in place; T is a float or a vector of them.
#define BUTTERFLY(T)                                                                               \
    INLINE void butterfly_##T(int radix, const float *cosines, T *re, T *im) {                     \
        const float *sines = cosines + radix; /* of negative angles */                             \
        if (radix == 2) {                                                                          \
            const T a = re[0], b = im[0];                                                          \
            re[0] = a + re[1], im[0] = b + im[1];                                                  \
            re[1] = a - re[1], im[1] = b - im[1];                                                  \
        } else if (radix == 4) {                                                                   \
            const T a = re[0] + re[2], b = im[0] + im[2], c = re[0] - re[2], d = im[0] - im[2];    \
            const T e = re[1] + re[3], f = im[1] + im[3], g = im[1] - im[3], h = re[3] - re[1];    \
            re[0] = a + e, im[0] = b + f, re[1] = c + g, im[1] = d + h;                            \
            re[2] = a - e, im[2] = b - f, re[3] = c - g, im[3] = d - h;                            \
        } else { /* odd: numbers k and radix - k share their products */                           \
            T x[LARGEST_RADIX], y[LARGEST_RADIX];                                                  \
            const T first = re[0], second = im[0];                                                 \
            for (int j = 1; 2 * j < radix; j++) {                                                  \
                x[j] = re[j] + re[radix - j], x[radix - j] = im[radix - j] - im[j];                \
                y[j] = im[j] + im[radix - j], y[radix - j] = re[j] - re[radix - j];                \
                re[0] += x[j], im[0] += y[j];                                                      \
            }                                                                                      \
            for (int k = 1; 2 * k < radix; k++) {                                                  \
                T a = first, b = second, c = {}, d = {};                                           \
                for (int j = 1, turn = k; 2 * j < radix; j++) {                                    \
                    a += x[j] * cosines[turn], b += y[j] * cosines[turn];                          \
                    c += x[radix - j] * sines[turn], d += y[radix - j] * sines[turn];              \
                    turn += k;                                                                     \
                    if (turn >= radix) turn -= radix;                                              \
                }                                                                                  \
                re[k] = a + c, im[k] = b + d, re[radix - k] = a - c, im[radix - k] = b - d;        \
            }                                                                                      \
        }                                                                                          \
    }
BUTTERFLY(float)
BUTTERFLY(floats)
#if LANES > 4
BUTTERFLY(quad)  // for an s less than LANES
#endif

#define ROTATE(re, im, a, b)                                                                       \
    do {                                                                                           \
        const typeof(re) real = re * (a) - im * (b);                                               \
        im = re * (b) + im * (a);                                                                  \
        re = real;                                                                                 \
    } while (0)

INLINE void rotate_float(float *re, float *im, float a, float b) { ROTATE(*re, *im, a, b); }

INLINE void rotate_floats(floats *re, floats *im, floats a, floats b) {
    const floats real = multiply_add(*re, a, -(*im * b));
    *im = multiply_add(*re, b, *im * a);
    *re = real;
}

// Store vectors with the runs of the four in turn: one of each, then the next one of each.
#define STORE_IN_TURN(vectors, target, low, high)                                                  \
    do {                                                                                           \
        const floats a = __builtin_shufflevector(vectors[0], vectors[2], low);                     \
        const floats b = __builtin_shufflevector(vectors[0], vectors[2], high);                    \
        const floats c = __builtin_shufflevector(vectors[1], vectors[3], low);                     \
        const floats d = __builtin_shufflevector(vectors[1], vectors[3], high);                    \
        store(target, __builtin_shufflevector(a, c, low));                                         \
        store((target) + LANES, __builtin_shufflevector(a, c, high));                              \
        store((target) + 2 * LANES, __builtin_shufflevector(b, d, low));                           \
        store((target) + 3 * LANES, __builtin_shufflevector(b, d, high));                          \
    } while (0)

// The indices that interleave runs of 1 or of 4 in the lower, or in the upper halves of two vectors.
#if LANES == 4
#define LOW_1 0, 4, 1, 5
#define HIGH_1 2, 6, 3, 7
#else
INLINE void rotate_quad(quad *re, quad *im, float a, float b) { ROTATE(*re, *im, a, b); }
#if LANES == 8
#define LOW_1 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_1 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_4 0, 1, 2, 3, 8, 9, 10, 11
#define HIGH_4 4, 5, 6, 7, 12, 13, 14, 15
INLINE floats each_four_times(const float *x) {
    return (floats){x[0], x[0], x[0], x[0], x[1], x[1], x[1], x[1]};
}
#else
#define LOW_1 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_1 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23
#define HIGH_4 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31
INLINE floats each_four_times(const float *x) {
    const quad four = load_quad(x);
    return __builtin_shufflevector(four, four, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
}
#endif
#endif

// LANES neighbours p of the first stage, where s = 1: the results of one p are contiguous.
INLINE void first_step(int radix, int rest, const float *factors, const float *roots, int p,
                       planes x, planes y) {
    floats re[LARGEST_RADIX], im[LARGEST_RADIX];
    for (int j = 0; j < radix; j++) {
        re[j] = load(x.re + p + j * rest);
        im[j] = load(x.im + p + j * rest);
    }
    butterfly_floats(radix, roots, re, im);
    for (int k = 1; k < radix; k++) {
        const float *factor = factors + (k - 1) * rest + p;
        rotate_floats(re + k, im + k, load(factor), load(factor + (radix - 1) * rest));
    }
    float *to_re = y.re + p * radix, *to_im = y.im + p * radix;
    if (radix == 4) {
        STORE_IN_TURN(re, to_re, LOW_1, HIGH_1);
        STORE_IN_TURN(im, to_im, LOW_1, HIGH_1);
    } else
        for (int k = 0; k < radix; k++)
            for (int i = 0; i < LANES; i++) {
                to_re[i * radix + k] = re[k][i];
                to_im[i * radix + k] = im[k][i];
            }
}

#if LANES > 4
// The same for a second stage of radix 4, where s = 4: a vector has four neighbours q for each p.
INLINE void second_step(int rest, const float *factors, int p, planes x, planes y) {
    floats re[4], im[4];
    for (int j = 0; j < 4; j++) {
        re[j] = load(x.re + 4 * (p + j * rest));
        im[j] = load(x.im + 4 * (p + j * rest));
    }
    butterfly_floats(4, factors, re, im);
    for (int k = 1; k < 4; k++) {
        const float *factor = factors + (k - 1) * rest + p;
        rotate_floats(re + k, im + k, each_four_times(factor), each_four_times(factor + 3 * rest));
    }
    STORE_IN_TURN(re, y.re + 16 * p, LOW_4, HIGH_4);
    STORE_IN_TURN(im, y.im + 16 * p, LOW_4, HIGH_4);
}
#endif

// One p and the neighbours q that T holds. The factors are those of p: radix - 1 real and imaginary parts.
#define STEP(T, load, store, splat)                                                                \
    INLINE void step_##T(int radix, int rest, const float *factors, const float *roots,            \
                         int is_turned, int s, planes x, planes y) {                               \
        T re[LARGEST_RADIX], im[LARGEST_RADIX];                                                    \
        for (int j = 0; j < radix; j++) {                                                          \
            re[j] = load(x.re + (ptrdiff_t)j * s * rest);                                          \
            im[j] = load(x.im + (ptrdiff_t)j * s * rest);                                          \
        }                                                                                          \
        butterfly_##T(radix, roots, re, im);                                                       \
        for (int k = 0; k < radix; k++) {                                                          \
            if (k && is_turned)                                                                    \
                rotate_##T(re + k, im + k, splat(factors[k]), splat(factors[radix + k]));          \
            store(y.re + k * s, re[k]);                                                            \
            store(y.im + k * s, im[k]);                                                            \
        }                                                                                          \
    }
#define LOAD_ONE(source) (*(source))
#define STORE_ONE(target, value) (*(target) = (value))
STEP(float, LOAD_ONE, STORE_ONE, )
STEP(floats, load, store, splat)
#if LANES > 4
STEP(quad, load_quad, store_quad, )
#endif

INLINE void stage(int radix, int rest, int s, const float *table, planes x, planes y) {
    const float *roots = table + 2 * (radix - 1) * rest;
    int p = 0;
    if (s == 1)
        for (; p + LANES <= rest; p += LANES) first_step(radix, rest, table, roots, p, x, y);
#if LANES > 4
    if (s == 4 && radix == 4)
        for (; p + LANES / 4 <= rest; p += LANES / 4) second_step(rest, table, p, x, y);
#endif
    for (; p < rest; p++) {
        const ptrdiff_t from = (ptrdiff_t)s * p, to = from * radix;
        float factors[2 * LARGEST_RADIX];  // copied, because y might be the table for all the compiler knows
        for (int k = 1; k < radix; k++) {
            factors[k] = table[(k - 1) * rest + p];
            factors[radix + k] = table[(k + radix - 2) * rest + p];
        }
#define STEPS(T, lanes)                                                                            \
    for (; q + lanes <= s; q += lanes)                                                             \
        step_##T(radix, rest, factors, roots, p, s, (planes){x.re + from + q, x.im + from + q},    \
                 (planes){y.re + to + q, y.im + to + q});
        int q = 0;
        STEPS(floats, LANES)
#if LANES > 4
        STEPS(quad, 4)
#endif
        STEPS(float, 1)
    }
}

// Transform x, with y as room, and return whichever of them holds the result.
static planes transform(const plan *f, const float *table, planes x, planes y) {
    int s = 1, rest = f->size;
    for (int i = 0; i < f->stages; i++) {
        const int radix = f->radices[i];
        rest /= radix;
        if (radix == 2)
            stage(2, rest, s, table, x, y);
        else if (radix == 3)
            stage(3, rest, s, table, x, y);
        else if (radix == 4)
            stage(4, rest, s, table, x, y);
        else if (radix == 5)
            stage(5, rest, s, table, x, y);
        else
            stage(radix, rest, s, table, x, y);
        table += 2 * (radix - 1) * rest + 2 * radix;
        s *= radix;
        const planes other = x;
        x = y, y = other;
    }
    return x;
}

// ---- the kernels ----

static const float *end_of_stages(const plan *f, const float *table) {
    for (int i = 0, rest = f->size; i < f->stages; i++) {
        rest /= f->radices[i];
        table += 2 * (f->radices[i] - 1) * rest + 2 * f->radices[i];
    }
    return table;
}

// Convolve with the chirp: three products and two transforms.
static planes transform_by_convolution(const plan *f, const float *table, planes x, planes y) {
    const int n = f->row, size = f->size;
    const float *chirp = end_of_stages(f, table), *filter = chirp + 2 * n;
    for (int i = 0; i < n; i++) ROTATE(x.re[i], x.im[i], chirp[i], chirp[n + i]);
    memset(x.re + n, 0, (size - n) * sizeof(float));
    memset(x.im + n, 0, (size - n) * sizeof(float));
    const planes z = transform(f, table, x, y), other = z.re == x.re ? y : x;
    for (int i = 0; i < size; i++) ROTATE(z.re[i], z.im[i], filter[i], filter[size + i]);
    const planes back = transform(f, table, (planes){z.im, z.re}, (planes){other.im, other.re});
    for (int i = 0; i < n; i++) ROTATE(back.im[i], back.re[i], chirp[i], chirp[n + i]);
    return (planes){back.im, back.re};
}

static planes transform_row(const plan *f, const float *table, planes x, planes y) {
    return f->row == f->size ? transform(f, table, x, y) : transform_by_convolution(f, table, x, y);
}

static void separate(const float *restrict x, float *restrict re, float *restrict im, int count) {
    for (int i = 0; i < count; i++) re[i] = x[2 * i], im[i] = x[2 * i + 1];
}

static void join(const float *restrict re, const float *restrict im, float *restrict out, int count,
                 float scale) {
    for (int i = 0; i < count; i++) out[2 * i] = re[i] * scale, out[2 * i + 1] = im[i] * scale;
}

// x and out are (rows, row). scratch: four planes.
KERNEL(fft_complex64)(const float *x, float *out, int rows, const plan *f, const float *table,
                      int is_inverse, float *scratch) {
    const int n = f->row, size = f->size;
    const planes room = {scratch + 2 * size, scratch + 3 * size};
    const float scale = is_inverse ? 1.f / n : 1;
    for (; rows > 0; rows--, x += 2 * n, out += 2 * n) {
        planes z = {scratch, scratch + size};
        separate(x, is_inverse ? z.im : z.re, is_inverse ? z.re : z.im, n);
        z = transform_row(f, table, z, room);
        join(is_inverse ? z.im : z.re, is_inverse ? z.re : z.im, out, n, scale);
    }
}

// out[k] = E + w^k O for k from 1 to n - 1; the planes hold the transform of z.
static void untangle(const float *restrict re, const float *restrict im,
                     const float *restrict powers, float *restrict out, int n) {
    for (int k = 1; k < n; k++) {
        const float a = re[k] + re[n - k], b = im[k] - im[n - k];  // 2 E
        const float c = im[k] + im[n - k], d = re[n - k] - re[k];  // 2 O
        const float u = powers[k], v = powers[n + k];
        out[2 * k] = (a + (c * u - d * v)) * 0.5f;
        out[2 * k + 1] = (b + (c * v + d * u)) * 0.5f;
    }
}

// The inverse: 2 z[k] = 2 (E + i O).
static void entangle(const float *restrict x, const float *restrict y, const float *restrict powers,
                     float *restrict re, float *restrict im, int n) {
    for (int k = 1; k < n; k++) {
        const float a = x[k] + x[n - k], b = y[k] - y[n - k];
        const float c = x[k] - x[n - k], d = y[k] + y[n - k];
        const float u = powers[k], v = -powers[n + k];
        re[k] = a - (c * v + d * u);
        im[k] = b + (c * u - d * v);
    }
}

// x is (rows, length) and out (rows, length / 2 + 1). scratch: four planes.
KERNEL(rfft_float32)(const float *x, float *out, int rows, const plan *f, const float *table,
                     float *scratch) {
    const int n = f->row, size = f->size, count = f->length / 2 + 1;
    const planes room = {scratch + 2 * size, scratch + 3 * size};
    for (; rows > 0; rows--, x += f->length, out += 2 * count) {
        planes z = {scratch, scratch + size};
        if (is_packed(f)) {
            separate(x, z.re, z.im, n);
            z = transform_row(f, table + 2 * n, z, room);
            untangle(z.re, z.im, table, out, n);
            out[0] = z.re[0] + z.im[0], out[1] = 0;
            out[2 * n] = z.re[0] - z.im[0], out[2 * n + 1] = 0;
        } else {
            memcpy(z.re, x, n * sizeof(float));
            memset(z.im, 0, n * sizeof(float));
            z = transform_row(f, table, z, room);
            join(z.re, z.im, out, count, 1);
        }
    }
}

// The inverse; imaginary parts that no real numbers have are not looked at. scratch: four planes of one
// number more.
KERNEL(irfft_complex64)(const float *x, float *out, int rows, const plan *f, const float *table,
                        float *scratch) {
    const int n = f->row, size = f->size, length = f->length, count = length / 2 + 1;
    const planes room = {scratch + 2 * size, scratch + 3 * size + 1};
    const float scale = 1.f / length;
    for (; rows > 0; rows--, x += 2 * count, out += length) {
        planes z = {scratch, scratch + size};
        if (is_packed(f)) {
            separate(x, room.re, room.im, count);
            entangle(room.re, room.im, table, z.re, z.im, n);
            z.re[0] = x[0] + x[2 * n], z.im[0] = x[0] - x[2 * n];
            z = transform_row(f, table + 2 * n, (planes){z.im, z.re}, room);
            join(z.im, z.re, out, n, scale);
        } else {
            separate(x, z.re, z.im, count);
            z.im[0] = 0;
            for (int k = 1; k < count; k++) z.re[n - k] = z.re[k], z.im[n - k] = -z.im[k];
            z = transform_row(f, table, (planes){z.im, z.re}, room);
            for (int i = 0; i < n; i++) out[i] = z.im[i] * scale;
        }
    }
}
