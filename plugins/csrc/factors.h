// What factors.c includes for each type: a VECTOR has a NUMBER of each of SIDE matrices, and BITS are integers as wide.
#define SIDE ((int)(sizeof(VECTOR) / sizeof(NUMBER)))

// The elements of up to SIDE matrices, side by side. The last matrix stands for those that are missing.
static void NAMED(gather)(const NUMBER *matrices, VECTOR *target, int size, int count) {
    NUMBER *numbers = (NUMBER *)target;
    for (int lane = 0; lane < SIDE; lane++) {
        const NUMBER *matrix = matrices + (ptrdiff_t)smaller(lane, count - 1) * size;
        for (int i = 0; i < size; i++) numbers[i * SIDE + lane] = matrix[i];
    }
}

static void NAMED(scatter)(const VECTOR *source, NUMBER *matrices, int size, int count) {
    const NUMBER *numbers = (const NUMBER *)source;
    for (int lane = 0; lane < count; lane++)
        for (int i = 0; i < size; i++) *matrices++ = numbers[i * SIDE + lane];
}

static inline VECTOR NAMED(choose)(MASK mask, VECTOR yes, VECTOR no) {
    return (VECTOR)((mask & (MASK)yes) | (~mask & (MASK)no));
}

#define EACH_GROUP                                                                                 \
    VECTOR *const a = (VECTOR *)(((uintptr_t)scratch + sizeof(VECTOR) - 1) / sizeof(VECTOR) *      \
                                 sizeof(VECTOR));                                                  \
    for (int first = 0, count; first < batch && (count = smaller(SIDE, batch - first)); first += SIDE)

// The determinants, as fractions of at least a half and exponents of 2, from the pivots of LU factorizations. `fails` is
// set to 1 if one is not finite, or smaller than what the exponent can tell.
KERNEL(NAMED(determinant))(const NUMBER *x, double *fractions, int32_t *exponents, int32_t *fails,
                           int batch, int n, NUMBER *scratch) {
    EACH_GROUP {
        double fraction[SIDE];
        int32_t exponent[SIDE] = {0};
        NAMED(gather)(x + (ptrdiff_t)first * n * n, a, n * n, count);
        for (int lane = 0; lane < SIDE; lane++) fraction[lane] = 1;
        for (int j = 0; j < n; j++) {
            VECTOR *const pivots = a + j * n;
            for (int lane = 0; lane < count; lane++) {
                NUMBER *const numbers = (NUMBER *)a + lane;
                NUMBER most = -1;
                int best = j;
                for (int i = j; i < n; i++) {
                    const NUMBER y = numbers[(i * n + j) * SIDE], size = y < 0 ? -y : y;
                    if (size > most) most = size, best = i;
                }
                for (int k = j; k < n && best != j; k++) {
                    const NUMBER y = numbers[(j * n + k) * SIDE];
                    numbers[(j * n + k) * SIDE] = numbers[(best * n + k) * SIDE];
                    numbers[(best * n + k) * SIDE] = y;
                }
                const double y = fraction[lane] * pivots[j][lane] * (best == j ? 1 : -1);
                uint64_t bits;
                memcpy(&bits, &y, sizeof bits);
                const int power = bits >> 52 & 0x7ff;
                if ((power == 0 && y != 0) || power == 0x7ff) {
                    *fails = 1;
                    return;
                }
                exponent[lane] += power ? power - 1022 : 0;
                bits = power ? (bits & ~(0x7ffull << 52)) | 1022ull << 52 : bits;
                memcpy(fraction + lane, &bits, sizeof bits);
            }
            const VECTOR scale = NAMED(choose)(pivots[j] == 0, (VECTOR){}, 1 / pivots[j]);
            for (int i = j + 1; i < n; i++) {
                const VECTOR factor = -a[i * n + j] * scale;
                for (int k = j + 1; k < n; k++)
                    a[i * n + k] = FUSED(factor, pivots[k], a[i * n + k]);
            }
        }
        memcpy(fractions + first, fraction, count * sizeof *fraction);
        memcpy(exponents + first, exponent, count * sizeof *exponent);
    }
}

// The lower triangular factors L, where x = L Lᵀ. `fails` is set to 1 if a matrix is not positive definite.
KERNEL(NAMED(cholesky))(const NUMBER *x, NUMBER *out, int32_t *fails, int batch, int n,
                        NUMBER *scratch) {
    EACH_GROUP {
        NAMED(gather)(x + (ptrdiff_t)first * n * n, a, n * n, count);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                VECTOR sum = a[i * n + j];
                for (int k = 0; k < j && j <= i; k++)
                    sum = FUSED(-a[i * n + k], a[j * n + k], sum);
                if (i == j && !__builtin_reduce_and(sum > 0)) {
                    *fails = 1;
                    return;
                }
                a[i * n + j] = j > i ? (VECTOR){} : j < i ? sum / a[j * n + j] : __builtin_elementwise_sqrt(sum);
            }
        NAMED(scatter)(a, out + (ptrdiff_t)first * n * n, n * n, count);
    }
}

// Reflect `columns` columns of y, whose rows have `stride` vectors: y -= tau v (vᵀ y), where v is 1 and then `below`.
static void NAMED(reflect)(const VECTOR *below, ptrdiff_t step, VECTOR tau, VECTOR *y, int rows,
                           int columns, ptrdiff_t stride) {
    for (int k = 0; k < columns; k++) {
        VECTOR sum = y[k];
        for (int i = 1; i < rows; i++) sum = FUSED(below[i * step], y[i * stride + k], sum);
        sum *= -tau;
        y[k] += sum;
        for (int i = 1; i < rows; i++)
            y[i * stride + k] = FUSED(below[i * step], sum, y[i * stride + k]);
    }
}

// Q (rows x width) and R (width x columns), from Householder's reflections with the signs of LAPACK's. `fails` is set to 1
// if the square of a norm is not finite, or so small that squares are lost.
KERNEL(NAMED(qr))(const NUMBER *x, NUMBER *q, NUMBER *r, int32_t *fails, int batch, int rows,
                  int columns, int width, NUMBER *scratch) {
    const int least = smaller(rows, columns);
    EACH_GROUP {
        VECTOR *const taus = a + rows * columns, *const out = taus + least;
        NAMED(gather)(x + (ptrdiff_t)first * rows * columns, a, rows * columns, count);
        for (int j = 0; j < least; j++) {
            VECTOR *const corner = a + j * columns + j;
            VECTOR sum = {}, most = {};
            for (int i = 1; i < rows - j; i++) {
                const VECTOR y = corner[i * columns];
                sum = FUSED(y, y, sum);
                most = NAMED(choose)(y == 0, most, y);
            }
            const VECTOR head = *corner, square = FUSED(head, head, sum);
            const MASK is_done = most == 0;
            if (!__builtin_reduce_and(is_done |
                                      ((sum > LEAST_SQUARE) & (square < 1 / LEAST_SQUARE)))) {
                *fails = 1;
                return;
            }
            const VECTOR norm = __builtin_elementwise_sqrt(square);
            const VECTOR beta = NAMED(choose)(is_done, head, NAMED(choose)(head < 0, norm, -norm));
            const VECTOR scale = NAMED(choose)(is_done, (VECTOR){}, 1 / (head - beta));
            taus[j] = NAMED(choose)(is_done, (VECTOR){}, (beta - head) / beta);
            *corner = beta;
            for (int i = 1; i < rows - j; i++) corner[i * columns] *= scale;
            NAMED(reflect)(corner, columns, taus[j], corner + 1, rows - j, columns - j - 1, columns);
        }
        for (int i = 0; i < rows * width; i++)
            out[i] = (NUMBER)(i / width == i % width) - (VECTOR){};
        for (int j = least - 1; j >= 0; j--)
            NAMED(reflect)(a + j * columns + j, columns, taus[j], out + j * width + j, rows - j,
                           width - j, width);
        NAMED(scatter)(out, q + (ptrdiff_t)first * rows * width, rows * width, count);
        for (int i = 0; i < width; i++)
            for (int j = 0; j < columns; j++)
                out[i * columns + j] = j < i ? (VECTOR){} : a[i * columns + j];
        NAMED(scatter)(out, r + (ptrdiff_t)first * width * columns, width * columns, count);
    }
}

// X (n x columns), where matrix * X = rhs for triangular matrices. None of them fails.
KERNEL(NAMED(triangular_solve))(const NUMBER *matrix, const NUMBER *rhs, NUMBER *out,
                                [[maybe_unused]] int32_t *fails, int batch, int n, int columns,
                                int is_lower, int is_unit, NUMBER *scratch) {
    EACH_GROUP {
        VECTOR *const x = a + n * n;
        NAMED(gather)(matrix + (ptrdiff_t)first * n * n, a, n * n, count);
        NAMED(gather)(rhs + (ptrdiff_t)first * n * columns, x, n * columns, count);
        for (int step = 0; step < n; step++) {
            const int i = is_lower ? step : n - 1 - step;
            for (int j = 0; j < columns; j++) {
                VECTOR sum = x[i * columns + j];
                for (int k = is_lower ? 0 : i + 1; k < (is_lower ? i : n); k++)
                    sum = FUSED(-a[i * n + k], x[k * columns + j], sum);
                x[i * columns + j] = is_unit ? sum : sum / a[i * n + i];
            }
        }
        NAMED(scatter)(x, out + (ptrdiff_t)first * n * columns, n * columns, count);
    }
}
#undef SIDE
#undef EACH_GROUP
