// Running sums and products along the middle axis of x, which is (outer, length, inner).
//
// Rows are combined elementwise, `WIDTH` columns at a time. Floats are accumulated in double.
#include "common.h"

#define WIDTH 16

#define SCAN(name, dtype, type, total, effort, initial, operator)                                  \
    effort KERNEL(name##_##dtype)(const type *restrict x, type *restrict out, int outer,           \
                                  int length, int inner, int exclusive, int reverse) {             \
        const ptrdiff_t size = (ptrdiff_t)length * inner;                                          \
        const ptrdiff_t first = reverse ? size - inner : 0, step = reverse ? -inner : inner;       \
        for (; outer > 0; outer--, x += size, out += size)                                         \
            for (int column = 0; column < inner; column += WIDTH) {                                \
                const int width = smaller(WIDTH, inner - column);                                  \
                total totals[WIDTH];                                                               \
                for (int i = 0; i < width; i++) totals[i] = initial;                               \
                ptrdiff_t row = first + column;                                                    \
                for (int count = length; count > 0; count--, row += step)                          \
                    for (int i = 0; i < width; i++) {                                              \
                        const total before = totals[i];                                            \
                        totals[i] = before operator x[row + i];                                    \
                        out[row + i] = exclusive ? before : totals[i];                             \
                    }                                                                              \
            }                                                                                      \
    }

#define FLOAT_KERNELS(dtype, type, effort)                                                         \
    SCAN(cumsum, dtype, type, double, effort, 0, +)                                                \
    SCAN(cumprod, dtype, type, double, effort, 1, *)
EACH_FLOAT(FLOAT_KERNELS)
SCAN(cumsum, complex64, complex64, complex128, SMALL, 0, +)
SCAN(cumprod, complex64, complex64, complex128, SMALL, 1, *)

#define INTEGER_KERNELS(dtype, type, effort)                                                       \
    SCAN(cumsum, dtype, type, type, effort, 0, +)                                                  \
    SCAN(cumprod, dtype, type, type, effort, 1, *)
EACH_INTEGER(INTEGER_KERNELS)
