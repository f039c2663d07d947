// Running sums and products along the middle axis of x, which is (outer, length, inner).
//
// Rows are combined elementwise, `WIDTH` columns at a time. Floats are accumulated in double.
#include "common.h"

#define WIDTH 16

// Where the axis is contiguous, a sum waits for the one before it. So CHAINS rows are scanned at a
// time, or as many parts of one row, after a pass that sums each part. Then sums must not overflow
// where those of the whole row do not: not those of doubles, nor products.
#define CHAINS 8
#define SCAN_ROWS(name, dtype)                                                                     \
    if (inner == 1) {                                                                              \
        name##_rows_##dtype(x, out, outer, length, exclusive, reverse);                            \
        return;                                                                                    \
    }
#define ROWS_OF(name, dtype, type, total, initial, operator, has_parts)                            \
    static inline __attribute__((always_inline)) void name##_chains_##dtype(                       \
        const type *restrict x, type *restrict out, ptrdiff_t apart, ptrdiff_t step, int count,    \
        total *totals, int chains, int exclusive, int is_kept) {                                   \
        total now[CHAINS];                                                                         \
        for (int i = 0; i < chains; i++) now[i] = totals[i];                                       \
        for (ptrdiff_t place = 0; count > 0; count--, place += step)                               \
            for (int i = 0; i < chains; i++) {                                                     \
                const total before = now[i];                                                       \
                now[i] = before operator x[place + i * apart];                                     \
                if (is_kept) out[place + i * apart] = exclusive ? before : now[i];                 \
            }                                                                                      \
        for (int i = 0; i < chains; i++) totals[i] = now[i];                                       \
    }                                                                                              \
    static void name##_rows_##dtype(const type *x, type *out, int outer, int length,               \
                                    int exclusive, int reverse) {                                  \
        const ptrdiff_t step = reverse ? -1 : 1, part = length / CHAINS;                           \
        if (reverse) x += length - 1, out += length - 1;                                           \
        while (outer > 0) {                                                                        \
            const int has_rows = outer >= CHAINS, is_parted = has_parts && part >= CHAINS;         \
            const ptrdiff_t apart = has_rows ? length : step * part;                               \
            const int count = has_rows ? length : part;                                            \
            total totals[CHAINS];                                                                  \
            for (int i = 0; i < CHAINS; i++) totals[i] = initial;                                  \
            int done = 0;                                                                          \
            if (!has_rows && is_parted) {                                                          \
                name##_chains_##dtype(x, out, apart, step, count, totals, CHAINS, 0, 0);           \
                total before = initial;                                                            \
                for (int i = 0; i < CHAINS; i++) {                                                 \
                    const total all = before operator totals[i];                                   \
                    totals[i] = before;                                                            \
                    before = all;                                                                  \
                }                                                                                  \
            }                                                                                      \
            if (has_rows || is_parted) {                                                           \
                if (exclusive)                                                                     \
                    name##_chains_##dtype(x, out, apart, step, count, totals, CHAINS, 1, 1);       \
                else                                                                               \
                    name##_chains_##dtype(x, out, apart, step, count, totals, CHAINS, 0, 1);       \
                done = has_rows ? length : (int)part * CHAINS;                                     \
            }                                                                                      \
            name##_chains_##dtype(x + done * step, out + done * step, 0, step, length - done,      \
                                  totals + (done ? CHAINS - 1 : 0), 1, exclusive, 1);              \
            const int rows = has_rows ? CHAINS : 1;                                                \
            outer -= rows, x += (ptrdiff_t)rows * length, out += (ptrdiff_t)rows * length;         \
        }                                                                                          \
    }

#define SCAN(name, dtype, type, total, effort, initial, operator, has_parts)                       \
    ROWS_OF(name, dtype, type, total, initial, operator, has_parts)                                \
    ONCE effort KERNEL(name##_pitched_##dtype)(const type *restrict x, type *restrict out,         \
                                               int columns, int length, int pitch, int exclusive,  \
                                               int reverse) {                                      \
        const ptrdiff_t step = reverse ? -pitch : pitch;                                           \
        const ptrdiff_t first = reverse ? (ptrdiff_t)(length - 1) * pitch : 0;                     \
        for (int column = 0; column < columns; column += WIDTH) {                                  \
            const int width = smaller(WIDTH, columns - column);                                    \
            total totals[WIDTH];                                                                   \
            for (int i = 0; i < width; i++) totals[i] = initial;                                   \
            ptrdiff_t row = first + column;                                                        \
            for (int count = length; count > 0; count--, row += step)                              \
                for (int i = 0; i < width; i++) {                                                  \
                    const total before = totals[i];                                                \
                    totals[i] = before operator x[row + i];                                        \
                    out[row + i] = exclusive ? before : totals[i];                                 \
                }                                                                                  \
        }                                                                                          \
    }                                                                                              \
    effort KERNEL(name##_##dtype)(const type *restrict x, type *restrict out, int outer,           \
                                  int length, int inner, int exclusive, int reverse) {             \
        SCAN_ROWS(name, dtype)                                                                     \
        const ptrdiff_t size = (ptrdiff_t)length * inner;                                          \
        for (; outer > 0; outer--, x += size, out += size)                                         \
            name##_pitched_##dtype(x, out, inner, length, inner, exclusive, reverse);              \
    }

SCAN(cumsum, float32, float, double, FAST, 0, +, 1)
SCAN(cumprod, float32, float, double, FAST, 1, *, 0)
SCAN(cumsum, float64, double, double, FAST, 0, +, 0)
SCAN(cumprod, float64, double, double, FAST, 1, *, 0)
SCAN(cumsum, complex64, complex64, complex128, SMALL, 0, +, 0)
SCAN(cumprod, complex64, complex64, complex128, SMALL, 1, *, 0)
SCAN(cumsum, complex128, complex128, complex128, SMALL, 0, +, 0)
SCAN(cumprod, complex128, complex128, complex128, SMALL, 1, *, 0)

// Sums and products of unsigned numbers have the bits of those of signed ones.
#define OF_UNSIGNED(name, dtype, type)                                                             \
    KERNEL(name##_u##dtype)(const type *restrict x, type *restrict out, int outer, int length,     \
                            int inner, int exclusive, int reverse) {                               \
        name##_##dtype(x, out, outer, length, inner, exclusive, reverse);                          \
    }
#define SIGNED_KERNELS(dtype, type, effort)                                                        \
    SCAN(cumsum, dtype, type, type, effort, 0, +, 1)                                               \
    SCAN(cumprod, dtype, type, type, effort, 1, *, 1)                                              \
    OF_UNSIGNED(cumsum, dtype, type)                                                               \
    OF_UNSIGNED(cumprod, dtype, type)
EACH_SIGNED(SIGNED_KERNELS)
