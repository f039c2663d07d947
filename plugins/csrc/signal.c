// Fourier transforms of rows of any length. What is computed is in double precision and rounded once, at the end,
// because the error of float32 grows with the number of stages.
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
    double *re, *im;
} planes;

// Four numbers: the neighbours of a second stage of radix 4, on every processor. In WebAssembly, two: four
// complex vectors of them stay in registers.
#ifdef __wasm__
#define NUMBERS 2
#else
#define NUMBERS 4
#endif
typedef double numbers __attribute__((vector_size(8 * NUMBERS)));
typedef double unaligned_numbers __attribute__((vector_size(8 * NUMBERS), aligned(8)));
INLINE numbers load_numbers(const double *x) { return *(const unaligned_numbers *)x; }
INLINE void store_numbers(double *x, numbers value) { *(unaligned_numbers *)x = value; }
INLINE numbers splat_number(double x) { return x - (numbers){}; }

// ---- tables: the powers of w, the factors of each stage, the roots of its radix, those of Bluestein ----

static complex128 root_of_unity(double turns) {
    const double angle = TAU * (turns - floor(turns));
    return __builtin_complex(cos(angle), -sin(angle));
}

// Write the powers 0, 1, … of exp(-2 pi i turns), each as the product of two roots.
#define FEW 64
static void write_powers(double *re, double *im, int count, double turns) {
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
static double *write_stage(double *table, int radix, int rest) {
    const int count = (radix - 1) * rest;
    for (int k = 1; k < radix; k++, table += rest)
        write_powers(table, table + count, rest, k / ((double)radix * rest));
    table += count;
    write_powers(table, table + radix, radix, 1. / radix);
    return table + 2 * radix;
}

static planes transform(const plan *f, const double *table, planes x, planes y);

// The number of doubles in the table of a plan.
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
KERNEL(fft_table)(double *table, const plan *f) {
    const int n = f->row, size = f->size;
    if (is_packed(f)) {
        write_powers(table, table + n, n, 1. / f->length);
        table += 2 * n;
    }
    const double *stages = table;
    for (int i = 0, rest = size; i < f->stages; i++)
        table = write_stage(table, f->radices[i], rest /= f->radices[i]);
    if (n == size) return;
    const planes chirp = {table, table + n}, filter = {table + 2 * n, table + 2 * n + size};
    memset(filter.re, 0, 2 * size * sizeof(double));
    for (int i = 0; i < n; i++) {
        const complex128 y = root_of_unity((int64_t)i * i % (2 * n) / (2. * n));
        chirp.re[i] = __real__ y;
        chirp.im[i] = __imag__ y;
        const int mirrored = i ? size - i : 0;
        filter.re[i] = filter.re[mirrored] = __real__ y / size;
        filter.im[i] = filter.im[mirrored] = -__imag__ y / size;
    }
    double *room = filter.im + size;
    const planes result = transform(f, stages, filter, (planes){room, room + size});
    memmove(filter.re, result.re, 2 * size * sizeof(double));
}

// ---- stages ----

// Transform `radix` numbers in place; T is a double or a vector of them.
#define BUTTERFLY(T)                                                                               \
    INLINE void butterfly_##T(int radix, const double *cosines, T *re, T *im) {                     \
        const double *sines = cosines + radix; /* of negative angles */                             \
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
BUTTERFLY(double)
BUTTERFLY(numbers)

#define ROTATE(re, im, a, b)                                                                       \
    do {                                                                                           \
        const typeof(re) real = re * (a) - im * (b);                                               \
        im = re * (b) + im * (a);                                                                  \
        re = real;                                                                                 \
    } while (0)

INLINE void rotate_double(double *re, double *im, double a, double b) { ROTATE(*re, *im, a, b); }
INLINE void rotate_numbers(numbers *re, numbers *im, numbers a, numbers b) {
#ifdef __wasm__  // LLVM would keep -b in another register
    const numbers real = __builtin_wasm_relaxed_nmadd_f64x2(*im, b, *re * a);
    *im = __builtin_wasm_relaxed_madd_f64x2(*re, b, *im * a);
    *re = real;
#else
    ROTATE(*re, *im, a, b);
#endif
}

// Store four vectors in turn: the first number of each, then the second of each.
INLINE void store_in_turn(const numbers *v, double *target) {
#ifdef __wasm__
    store_numbers(target, __builtin_shufflevector(v[0], v[1], 0, 2));
    store_numbers(target + 2, __builtin_shufflevector(v[2], v[3], 0, 2));
    store_numbers(target + 4, __builtin_shufflevector(v[0], v[1], 1, 3));
    store_numbers(target + 6, __builtin_shufflevector(v[2], v[3], 1, 3));
#else
    const numbers a = __builtin_shufflevector(v[0], v[2], 0, 4, 1, 5);
    const numbers b = __builtin_shufflevector(v[0], v[2], 2, 6, 3, 7);
    const numbers c = __builtin_shufflevector(v[1], v[3], 0, 4, 1, 5);
    const numbers d = __builtin_shufflevector(v[1], v[3], 2, 6, 3, 7);
    store_numbers(target, __builtin_shufflevector(a, c, 0, 4, 1, 5));
    store_numbers(target + 4, __builtin_shufflevector(a, c, 2, 6, 3, 7));
    store_numbers(target + 8, __builtin_shufflevector(b, d, 0, 4, 1, 5));
    store_numbers(target + 12, __builtin_shufflevector(b, d, 2, 6, 3, 7));
#endif
}

// Neighbours p of the first stage, where s = 1, whose numbers are read: the results of one p are contiguous.
INLINE void finish_first_step(int radix, int rest, const double *factors, const double *roots,
                              int p, numbers *re, numbers *im, planes y) {
    butterfly_numbers(radix, roots, re, im);
    for (int k = 1; k < radix; k++) {
        const double *factor = factors + (k - 1) * rest + p;
        rotate_numbers(re + k, im + k, load_numbers(factor),
                       load_numbers(factor + (radix - 1) * rest));
    }
    double *to_re = y.re + p * radix, *to_im = y.im + p * radix;
    if (radix == 4) {
        store_in_turn(re, to_re);
        store_in_turn(im, to_im);
    } else
        for (int k = 0; k < radix; k++)
            for (int i = 0; i < NUMBERS; i++) {
                to_re[i * radix + k] = re[k][i];
                to_im[i * radix + k] = im[k][i];
            }
}

INLINE void first_step(int radix, int rest, const double *factors, const double *roots, int p,
                       planes x, planes y) {
    numbers re[LARGEST_RADIX], im[LARGEST_RADIX];
    for (int j = 0; j < radix; j++) {
        re[j] = load_numbers(x.re + p + j * rest);
        im[j] = load_numbers(x.im + p + j * rest);
    }
    finish_first_step(radix, rest, factors, roots, p, re, im, y);
}

// One p and the neighbours q that T holds. The factors are those of p: radix - 1 real and imaginary parts.
#define STEP(T, load, store, splat)                                                                \
    INLINE void step_##T(int radix, int rest, const double *factors, const double *roots,            \
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
STEP(double, LOAD_ONE, STORE_ONE, )
STEP(numbers, load_numbers, store_numbers, splat_number)

INLINE void stage(int radix, int rest, int s, const double *table, planes x, planes y) {
    const double *roots = table + 2 * (radix - 1) * rest;
    int p = 0;
    if (s == 1)
        for (; p + NUMBERS <= rest; p += NUMBERS) first_step(radix, rest, table, roots, p, x, y);
    for (; p < rest; p++) {
        const ptrdiff_t from = (ptrdiff_t)s * p, to = from * radix;
        double factors[2 * LARGEST_RADIX];  // copied, because y might be the table for all the compiler knows
        for (int k = 1; k < radix; k++) {
            factors[k] = table[(k - 1) * rest + p];
            factors[radix + k] = table[(k + radix - 2) * rest + p];
        }
#define STEPS(T, lanes)                                                                            \
    for (; q + lanes <= s; q += lanes)                                                             \
        step_##T(radix, rest, factors, roots, p, s, (planes){x.re + from + q, x.im + from + q},    \
                 (planes){y.re + to + q, y.im + to + q});
        int q = 0;
        STEPS(numbers, NUMBERS)
        STEPS(double, 1)
    }
}

// Compute stages of the transform of x, with y as room, and return whichever of them holds the result.
static planes run_stages(const plan *f, const double *table, int begin, int end, planes x,
                         planes y) {
    int s = 1, rest = f->size;
    for (int i = 0; i < end; i++) {
        const int radix = f->radices[i];
        rest /= radix;
        if (i >= begin) {
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
            const planes other = x;
            x = y, y = other;
        }
        table += 2 * (radix - 1) * rest + 2 * radix;
        s *= radix;
    }
    return x;
}

static planes transform(const plan *f, const double *table, planes x, planes y) {
    return run_stages(f, table, 0, f->stages, x, y);
}

// ---- the kernels ----

static const double *end_of_stages(const plan *f, const double *table) {
    for (int i = 0, rest = f->size; i < f->stages; i++) {
        rest /= f->radices[i];
        table += 2 * (f->radices[i] - 1) * rest + 2 * f->radices[i];
    }
    return table;
}

// Convolve with the chirp: three products and two transforms.
static planes transform_by_convolution(const plan *f, const double *table, planes x, planes y) {
    const int n = f->row, size = f->size;
    const double *chirp = end_of_stages(f, table), *filter = chirp + 2 * n;
    for (int i = 0; i < n; i++) ROTATE(x.re[i], x.im[i], chirp[i], chirp[n + i]);
    memset(x.re + n, 0, (size - n) * sizeof(double));
    memset(x.im + n, 0, (size - n) * sizeof(double));
    const planes z = transform(f, table, x, y), other = z.re == x.re ? y : x;
    for (int i = 0; i < size; i++) ROTATE(z.re[i], z.im[i], filter[i], filter[size + i]);
    const planes back = transform(f, table, (planes){z.im, z.re}, (planes){other.im, other.re});
    for (int i = 0; i < n; i++) ROTATE(back.im[i], back.re[i], chirp[i], chirp[n + i]);
    return (planes){back.im, back.re};
}

static planes transform_row(const plan *f, const double *table, planes x, planes y) {
    return f->row == f->size ? transform(f, table, x, y) : transform_by_convolution(f, table, x, y);
}

// The numbers of a row and the planes: x[2 i] is real, x[2 i + 1] imaginary.
#define PLANES(real, type)                                                                          \
    static void separate_##real(const type *restrict x, double *restrict re, double *restrict im,   \
                                int count) {                                                        \
        int i = 0;                                                                                  \
        SEPARATE_PAIRS(real)                                                                        \
        for (; i < count; i++) re[i] = x[2 * i], im[i] = x[2 * i + 1];                              \
    }                                                                                               \
    static void join_##real(const double *restrict re, const double *restrict im,                   \
                            type *restrict out, int count, double scale) {                          \
        int i = 0;                                                                                  \
        JOIN_PAIRS(real)                                                                            \
        for (; i < count; i++) out[2 * i] = re[i] * scale, out[2 * i + 1] = im[i] * scale;          \
    }                                                                                               \
    FIRST_AND_LAST(real, type)
#ifdef __wasm__
typedef float pair __attribute__((vector_size(8)));
INLINE quad round_numbers(numbers x) {
    quad y = __builtin_convertvector(__builtin_shufflevector(x, (numbers){}, 0, 1, 2, 3), quad);
    __asm__("" : "+r"(y)); // else LLVM sees that two of the four are not needed, and finds no instruction
    return y;
}
INLINE void load_pairs_float32(const float *x, numbers *re, numbers *im) {
    const quad y = load_quad(x);
    const pair a = __builtin_shufflevector(y, y, 0, 2), b = __builtin_shufflevector(y, y, 1, 3);
    *re = __builtin_convertvector(a, numbers), *im = __builtin_convertvector(b, numbers);
}
INLINE void store_pairs_float32(float *out, numbers re, numbers im) {
    const quad a = round_numbers(re), b = round_numbers(im);
    store_quad(out, __builtin_shufflevector(a, b, 0, 4, 1, 5));
}
INLINE void load_pairs_float64(const double *x, numbers *re, numbers *im) {
    const numbers a = load_numbers(x), b = load_numbers(x + 2);
    *re = __builtin_shufflevector(a, b, 0, 2), *im = __builtin_shufflevector(a, b, 1, 3);
}
INLINE void store_pairs_float64(double *out, numbers re, numbers im) {
    store_numbers(out, __builtin_shufflevector(re, im, 0, 2));
    store_numbers(out + 2, __builtin_shufflevector(re, im, 1, 3));
}
#define SEPARATE_PAIRS(real)                                                                        \
    for (; i + NUMBERS <= count; i += NUMBERS) {                                                    \
        numbers a, b;                                                                               \
        load_pairs_##real(x + 2 * i, &a, &b);                                                       \
        store_numbers(re + i, a), store_numbers(im + i, b);                                         \
    }
#define JOIN_PAIRS(real)                                                                            \
    for (; i + NUMBERS <= count; i += NUMBERS)                                                      \
        store_pairs_##real(out + 2 * i, load_numbers(re + i) * scale, load_numbers(im + i) * scale);

INLINE numbers load_backwards(const double *x) {
    const numbers y = load_numbers(x);
    return __builtin_shufflevector(y, y, 1, 0);
}
#define UNTANGLE_PAIRS(real)                                                                        \
    for (; k + NUMBERS <= n; k += NUMBERS) {                                                        \
        const numbers p = load_numbers(re + k), q = load_backwards(re + n - k - 1);                 \
        const numbers r = load_numbers(im + k), s = load_backwards(im + n - k - 1);                 \
        const numbers a = p + q, b = r - s, c = r + s, d = q - p;                                   \
        const numbers u = load_numbers(powers + k), v = load_numbers(powers + n + k);               \
        store_pairs_##real(out + 2 * k, (a + (c * u - d * v)) * 0.5, (b + (c * v + d * u)) * 0.5);  \
    }
#define ENTANGLE_PAIRS                                                                              \
    for (; k + NUMBERS <= n; k += NUMBERS) {                                                        \
        const numbers p = load_numbers(x + k), q = load_backwards(x + n - k - 1);                   \
        const numbers r = load_numbers(y + k), s = load_backwards(y + n - k - 1);                   \
        const numbers a = p + q, b = r - s, c = p - q, d = r + s;                                   \
        const numbers u = load_numbers(powers + k), v = load_numbers(powers + n + k);               \
        store_numbers(re + k, a - (d * u - c * v)), store_numbers(im + k, b + (c * u + d * v));     \
    }

// The first stage, if it is of radix 4 and of whole vectors, reads pairs itself, and the last one, of radix 2 or 4,
// writes them: while memory is waited for, there is something to compute.
static inline int reads_pairs(const plan *f) {
    return f->row == f->size && f->stages > 0 && f->radices[0] == 4 && f->size % (4 * NUMBERS) == 0;
}
static inline int writes_pairs(const plan *f) {
    if (f->row != f->size || f->stages < 2) return 0;
    const int last = f->radices[f->stages - 1];
    return (last == 2 || last == 4) && f->size / last % NUMBERS == 0;
}
#define FIRST_AND_LAST(real, type)                                                                  \
    INLINE void first_stage_##real(const type *x, const double *table, planes y, int rest,          \
                                   int is_swapped) {                                                \
        for (int p = 0; p < rest; p += NUMBERS) {                                                   \
            numbers re[4], im[4];                                                                   \
            UNROLLED for (int j = 0; j < 4; j++)                                                    \
                load_pairs_##real(x + 2 * (p + j * rest), (is_swapped ? im : re) + j,               \
                                  (is_swapped ? re : im) + j);                                      \
            finish_first_step(4, rest, table, NULL, p, re, im, y);                                  \
        }                                                                                           \
    }                                                                                               \
    INLINE void last_stage_##real(int radix, planes x, type *out, int s, double scale,              \
                                  int is_swapped) {                                                 \
        for (int q = 0; q < s; q += NUMBERS) {                                                      \
            numbers re[4], im[4];                                                                   \
            UNROLLED for (int j = 0; j < radix; j++) {                                              \
                re[j] = load_numbers(x.re + q + j * s);                                             \
                im[j] = load_numbers(x.im + q + j * s);                                             \
            }                                                                                       \
            butterfly_numbers(radix, NULL, re, im);                                                 \
            UNROLLED for (int k = 0; k < radix; k++)                                                \
                store_pairs_##real(out + 2 * (q + k * s), (is_swapped ? im : re)[k] * scale,        \
                                   (is_swapped ? re : im)[k] * scale);                              \
        }                                                                                           \
    }                                                                                               \
    static void read_first_stage_##real(const plan *f, const type *x, const double *table, planes y, \
                                        int is_swapped) {                                           \
        if (is_swapped)                                                                             \
            first_stage_##real(x, table, y, f->size / 4, 1);                                        \
        else                                                                                        \
            first_stage_##real(x, table, y, f->size / 4, 0);                                        \
    }                                                                                               \
    static void write_last_stage_##real(const plan *f, planes x, type *out, double scale,           \
                                        int is_swapped) {                                           \
        const int radix = f->radices[f->stages - 1], s = f->size / radix;                           \
        if (radix == 4 && is_swapped)                                                               \
            last_stage_##real(4, x, out, s, scale, 1);                                              \
        else if (radix == 4)                                                                        \
            last_stage_##real(4, x, out, s, scale, 0);                                              \
        else                                                                                        \
            last_stage_##real(2, x, out, s, scale, is_swapped);                                     \
    }
#else
#define SEPARATE_PAIRS(real)
#define JOIN_PAIRS(real)
#define UNTANGLE_PAIRS(real)
#define ENTANGLE_PAIRS
static inline int reads_pairs(const plan *) { return 0; }
static inline int writes_pairs(const plan *) { return 0; }
#define FIRST_AND_LAST(real, type)                                                                  \
    static inline void read_first_stage_##real(const plan *, const type *, const double *, planes,  \
                                               int) {}                                              \
    static inline void write_last_stage_##real(const plan *, planes, type *, double, int) {}
#endif
PLANES(float32, float)
#ifdef __wasm__
PLANES(float64, double)
#endif

// fft: x and out are (rows, row). rfft: x is (rows, length) and out (rows, length / 2 + 1). irfft does the inverse, and
// does not look at imaginary parts that no real numbers have. scratch: four planes, in irfft of one number more.
//
// `untangle` writes out[k] = E + w^k O for k from 1 to n - 1, of which the planes hold the transform of z. The inverse
// is 2 z[k] = 2 (E + i O).
//
// For the inverse, real and imaginary parts are swapped before and after.
#define FOURIER(complex, real, type)                                                               \
    static planes transform_pairs_##real(const plan *f, const double *table, const type *x,         \
                                         planes z, planes room, int end, int is_swapped) {          \
        const int is_read = reads_pairs(f);                                                         \
        if (is_read)                                                                                \
            read_first_stage_##real(f, x, table, z, is_swapped);                                    \
        else                                                                                        \
            separate_##real(x, is_swapped ? z.im : z.re, is_swapped ? z.re : z.im, f->row);         \
        return f->row == f->size                                                                    \
                   ? run_stages(f, table, is_read, end, z, room)     \
                   : transform_by_convolution(f, table, z, room);                                   \
    }                                                                                               \
    KERNEL(fft_##complex)(const type *x, type *out, int rows, const plan *f, const double *table,   \
                          int is_inverse, double *scratch) {                                        \
        const int n = f->row, size = f->size;                                                       \
        const planes room = {scratch + 2 * size, scratch + 3 * size};                               \
        const double scale = is_inverse ? 1. / n : 1;                                               \
        for (; rows > 0; rows--, x += 2 * n, out += 2 * n) {                                        \
            const int is_written = writes_pairs(f);                                                 \
            const planes z =                                                                        \
                transform_pairs_##real(f, table, x, (planes){scratch, scratch + size}, room,        \
                                       f->stages - is_written, is_inverse);                         \
            if (is_written)                                                                         \
                write_last_stage_##real(f, z, out, scale, is_inverse);                              \
            else                                                                                    \
                join_##real(is_inverse ? z.im : z.re, is_inverse ? z.re : z.im, out, n, scale);     \
        }                                                                                           \
    }                                                                                               \
    static void untangle_##real(const double *restrict re, const double *restrict im,               \
                         const double *restrict powers, type *restrict out, int n) {                \
        int k = 1;                                                                                  \
        UNTANGLE_PAIRS(real)                                                                        \
        for (; k < n; k++) {                                                                        \
            const double a = re[k] + re[n - k], b = im[k] - im[n - k];  /* 2 E */                   \
            const double c = im[k] + im[n - k], d = re[n - k] - re[k];  /* 2 O */                   \
            const double u = powers[k], v = powers[n + k];                                          \
            out[2 * k] = (a + (c * u - d * v)) * 0.5;                                               \
            out[2 * k + 1] = (b + (c * v + d * u)) * 0.5;                                           \
        }                                                                                           \
    }                                                                                               \
    static void entangle_##real(const double *restrict x, const double *restrict y,                 \
                         const double *restrict powers, double *restrict re, double *restrict im, int n) { \
        int k = 1;                                                                                  \
        ENTANGLE_PAIRS                                                                              \
        for (; k < n; k++) {                                                                        \
            const double a = x[k] + x[n - k], b = y[k] - y[n - k];                                  \
            const double c = x[k] - x[n - k], d = y[k] + y[n - k];                                  \
            const double u = powers[k], v = -powers[n + k];                                         \
            re[k] = a - (c * v + d * u);                                                            \
            im[k] = b + (c * u - d * v);                                                            \
        }                                                                                           \
    }                                                                                               \
    KERNEL(rfft_##real)(const type *x, type *out, int rows, const plan *f, const double *table,     \
                         double *scratch) {                                                         \
        const int n = f->row, size = f->size, count = f->length / 2 + 1;                            \
        const planes room = {scratch + 2 * size, scratch + 3 * size};                               \
        for (; rows > 0; rows--, x += f->length, out += 2 * count) {                                \
            planes z = {scratch, scratch + size};                                                   \
            if (is_packed(f)) {                                                                     \
                z = transform_pairs_##real(f, table + 2 * n, x, z, room, f->stages, 0);             \
                untangle_##real(z.re, z.im, table, out, n);                                         \
                out[0] = z.re[0] + z.im[0], out[1] = 0;                                             \
                out[2 * n] = z.re[0] - z.im[0], out[2 * n + 1] = 0;                                 \
            } else {                                                                                \
                for (int i = 0; i < n; i++) z.re[i] = x[i], z.im[i] = 0;                            \
                z = transform_row(f, table, z, room);                                               \
                join_##real(z.re, z.im, out, count, 1);                                             \
            }                                                                                       \
        }                                                                                           \
    }                                                                                               \
    KERNEL(irfft_##complex)(const type *x, type *out, int rows, const plan *f, const double *table, \
                            double *scratch) {                                                      \
        const int n = f->row, size = f->size, length = f->length, count = length / 2 + 1;           \
        const planes room = {scratch + 2 * size, scratch + 3 * size + 1};                           \
        const double scale = 1. / length;                                                           \
        for (; rows > 0; rows--, x += 2 * count, out += length) {                                   \
            planes z = {scratch, scratch + size};                                                   \
            if (is_packed(f)) {                                                                     \
                separate_##real(x, room.re, room.im, count);                                        \
                entangle_##real(room.re, room.im, table, z.re, z.im, n);                            \
                z.re[0] = (double)x[0] + x[2 * n], z.im[0] = (double)x[0] - x[2 * n];               \
                z = (planes){z.im, z.re};                                                           \
                if (writes_pairs(f)) {                                                              \
                    z = run_stages(f, table + 2 * n, 0, f->stages - 1, z, room);                    \
                    write_last_stage_##real(f, z, out, scale, 1);                                   \
                } else {                                                                            \
                    z = transform_row(f, table + 2 * n, z, room);                                   \
                    join_##real(z.im, z.re, out, n, scale);                                         \
                }                                                                                   \
            } else {                                                                                \
                separate_##real(x, z.re, z.im, count);                                              \
                z.im[0] = 0;                                                                        \
                for (int k = 1; k < count; k++) z.re[n - k] = z.re[k], z.im[n - k] = -z.im[k];      \
                z = transform_row(f, table, (planes){z.im, z.re}, room);                            \
                for (int i = 0; i < n; i++) out[i] = z.im[i] * scale;                               \
            }                                                                                       \
        }                                                                                           \
    }

FOURIER(complex64, float32, float)
#ifdef __wasm__
FOURIER(complex128, float64, double)
#endif
