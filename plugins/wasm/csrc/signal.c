// Fourier transforms of rows of any length, in single precision with factors from double precision.
//
// Stockham's algorithm: a stage of radix r reads x[q + s (p + m j)], transforms over j, and writes
// y[q + s (r p + k)], where s is the product of the radices before it and n = s r m. So no stage
// permutes, and the innermost index q is contiguous. Real and imaginary parts are in separate
// planes; exchanging the planes gives the inverse transform.
//
// A length with a large prime factor becomes a convolution of a convenient length (Bluestein).
#include <math.h>

#include "gemm.h"

#define LARGEST_RADIX 31
#define TAU 6.28318530717958647693
#define INLINE static inline __attribute__((always_inline))

// As the host writes it: the length of a row, that of the transform, and its radices.
typedef struct {
    int row, size, stages, radices[];
} plan;

typedef struct {
    float *re, *im;
} planes;

// ---- tables: the factors of each stage, the roots of its radix, then those of Bluestein ----

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

// descriptor: a plan. The table ends with room for one transform.
KERNEL(fft_table)(float *table, const plan *f) {
    const int n = f->row, size = f->size;
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

#define ROTATE(re, im, a, b)                                                                       \
    do {                                                                                           \
        const typeof(re) real = re * (a) - im * (b);                                               \
        im = re * (b) + im * (a);                                                                  \
        re = real;                                                                                 \
    } while (0)

// Four neighbours p of the first stage, where s = 1: the results of one p are contiguous.
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
        ROTATE(re[k], im[k], load(factor), load(factor + (radix - 1) * rest));
    }
    float *to_re = y.re + p * radix, *to_im = y.im + p * radix;
    if (radix == 4) {
        store_transposed(re, to_re, 4);
        store_transposed(im, to_im, 4);
    } else
        for (int k = 0; k < radix; k++)
            for (int i = 0; i < LANES; i++) {
                to_re[i * radix + k] = re[k][i];
                to_im[i * radix + k] = im[k][i];
            }
}

#define STEP(T, load, store)                                                                       \
    INLINE void step_##T(int radix, int rest, const float *factors, const float *roots, int p,     \
                         int s, planes x, planes y) {                                              \
        T re[LARGEST_RADIX], im[LARGEST_RADIX];                                                    \
        for (int j = 0; j < radix; j++) {                                                          \
            re[j] = load(x.re + (ptrdiff_t)j * s * rest);                                          \
            im[j] = load(x.im + (ptrdiff_t)j * s * rest);                                          \
        }                                                                                          \
        butterfly_##T(radix, roots, re, im);                                                       \
        for (int k = 0; k < radix; k++) {                                                          \
            if (k && p) {                                                                          \
                const float *factor = factors + (k - 1) * rest + p;                                \
                ROTATE(re[k], im[k], factor[0], factor[(radix - 1) * rest]);                       \
            }                                                                                      \
            store(y.re + k * s, re[k]);                                                            \
            store(y.im + k * s, im[k]);                                                            \
        }                                                                                          \
    }
#define LOAD_ONE(source) (*(source))
#define STORE_ONE(target, value) (*(target) = (value))
STEP(float, LOAD_ONE, STORE_ONE)
STEP(floats, load, store)

INLINE void stage(int radix, int rest, int s, const float *table, planes x, planes y) {
    const float *roots = table + 2 * (radix - 1) * rest;
    int p = 0;
    if (s == 1)
        for (; p + LANES <= rest; p += LANES) first_step(radix, rest, table, roots, p, x, y);
    for (; p < rest; p++) {
        const ptrdiff_t from = (ptrdiff_t)s * p, to = from * radix;
        int q = 0;
        for (; q + LANES <= s; q += LANES)
            step_floats(radix, rest, table, roots, p, s, (planes){x.re + from + q, x.im + from + q},
                        (planes){y.re + to + q, y.im + to + q});
        for (; q < s; q++)
            step_float(radix, rest, table, roots, p, s, (planes){x.re + from + q, x.im + from + q},
                       (planes){y.re + to + q, y.im + to + q});
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

// ---- the kernel ----

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

// x and out are (rows, row). scratch: four planes.
KERNEL(fft_complex64)(const float *x, float *out, int rows, const plan *f, const float *table,
                      int is_inverse, float *scratch) {
    const int n = f->row, size = f->size;
    const planes room = {scratch + 2 * size, scratch + 3 * size};
    const float scale = is_inverse ? 1.f / n : 1;
    for (; rows > 0; rows--, x += 2 * n, out += 2 * n) {
        planes z = {scratch, scratch + size};
        float *re = is_inverse ? z.im : z.re, *im = is_inverse ? z.re : z.im;
        for (int i = 0; i < n; i++) re[i] = x[2 * i], im[i] = x[2 * i + 1];
        z = n == size ? transform(f, table, z, room) : transform_by_convolution(f, table, z, room);
        re = is_inverse ? z.im : z.re, im = is_inverse ? z.re : z.im;
        for (int i = 0; i < n; i++) out[2 * i] = re[i] * scale, out[2 * i + 1] = im[i] * scale;
    }
}
