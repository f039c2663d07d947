// What lu.c includes for each type: VECTOR holds some of type NUMBER, and FUSED is a * b + c.
#include "lanes.h"

// sum - factor * lanes
static inline VECTOR NAMED(less)(VECTOR sum, NUMBER factor, VECTOR lanes) {
    return FUSED(-factor - (VECTOR){}, lanes, sum);
}

// target (TALL x vectors) -= left (TALL x PANEL) * right (PANEL x vectors). The rows of each are `stride` apart.
static inline __attribute__((always_inline)) void NAMED(subtract_tile)(
    const NUMBER *left, const NUMBER *right, NUMBER *target, ptrdiff_t stride, int vectors) {
    VECTOR sums[TALL][MOST_VECTORS], row[MOST_VECTORS];
    UNROLLED for (int i = 0; i < TALL; i++)
        UNROLLED for (int j = 0; j < vectors; j++)
            sums[i][j] = NAMED(read)(target + i * stride + j * WIDTH);
    for (int k = 0; k < PANEL; k++, right += stride) {
        UNROLLED for (int j = 0; j < vectors; j++) row[j] = NAMED(read)(right + j * WIDTH);
        UNROLLED for (int i = 0; i < TALL; i++)
            UNROLLED for (int j = 0; j < vectors; j++)
                sums[i][j] = NAMED(less)(sums[i][j], left[i * stride + k], row[j]);
    }
    UNROLLED for (int i = 0; i < TALL; i++)
        UNROLLED for (int j = 0; j < vectors; j++)
            NAMED(write)(target + i * stride + j * WIDTH, sums[i][j]);
}

// Replace `count` rows by the solution X of triangle * X = rows. The lower triangle has ones on its diagonal; that of
// the upper one holds reciprocals.
static inline __attribute__((always_inline)) void NAMED(substitute_tile)(
    const NUMBER *triangle, NUMBER *rows, ptrdiff_t stride, int count, int is_upper, int vectors) {
    VECTOR sums[MOST_VECTORS];
    for (int step = 0; step < count; step++) {
        const int i = is_upper ? count - 1 - step : step;
        const NUMBER *factors = triangle + i * stride;
        NUMBER *target = rows + i * stride;
        UNROLLED for (int j = 0; j < vectors; j++) sums[j] = NAMED(read)(target + j * WIDTH);
        for (int k = is_upper ? i + 1 : 0; k < (is_upper ? count : i); k++)
            UNROLLED for (int j = 0; j < vectors; j++)
                sums[j] = NAMED(less)(sums[j], factors[k],
                                      NAMED(read)(rows + k * stride + j * WIDTH));
        UNROLLED for (int j = 0; j < vectors; j++)
            NAMED(write)(target + j * WIDTH, is_upper ? sums[j] * factors[i] : sums[j]);
    }
}

// Solve for the rows of a panel, and subtract left (height x PANEL) * rows (PANEL x columns) from the target.
static void NAMED(use_panel)(const NUMBER *triangle, NUMBER *rows, const NUMBER *left,
                             NUMBER *target, ptrdiff_t stride, int count, int height, int columns,
                             int is_upper) {
#define STRIP(vectors)                                                                             \
    do {                                                                                           \
        NAMED(substitute_tile)(triangle, rows, stride, count, is_upper, vectors);                  \
        for (int i = 0; i < height; i += TALL)                                                     \
            NAMED(subtract_tile)(left + i * stride, rows, target + i * stride, stride, vectors);   \
        rows += (vectors) * WIDTH, target += (vectors) * WIDTH, columns -= (vectors) * WIDTH;      \
    } while (0)
    while (columns >= MOST_VECTORS * WIDTH) STRIP(MOST_VECTORS);
    while (columns > 0) STRIP(1);
#undef STRIP
}

static const NUMBER NAMED(steps)[2 * PANEL] = {[PANEL... 2 * PANEL - 1] = 1};

// Eliminate the columns of a panel below the diagonal, on which reciprocals are left. Return 0 if one is not finite,
// as it is where a pivot is 0, or where the matrix is not finite.
static int NAMED(eliminate_panel)(NUMBER *data, ptrdiff_t stride, int first, int last, int n,
                                  int is_upper, int *order) {
    for (int j = first; j < last; j++) {
        const int end = is_upper ? j + 1 : n;
        int best = j;
        NUMBER most = 0;
        for (int i = j; i < end; i++) {
            const NUMBER x = data[i * stride + j], size = x < 0 ? -x : x;
            if (size > most) most = size, best = i;
        }
        NUMBER *pivot = data + j * stride, *other = data + best * stride;
        const NUMBER scale = 1 / other[j];
        if (!(most <= GREATEST && scale - scale == 0)) return 0;
        if (best != j) {
            for (ptrdiff_t k = first; k < stride; k += WIDTH) {
                const VECTOR lanes = NAMED(read)(pivot + k);
                NAMED(write)(pivot + k, NAMED(read)(other + k));
                NAMED(write)(other + k, lanes);
            }
            const int place = order[j];
            order[j] = order[best], order[best] = place;
        }
        VECTOR behind[PANEL / WIDTH];  // the row, with zeros up to the diagonal
        UNROLLED for (int k = 0; k < PANEL / WIDTH; k++)
            behind[k] = NAMED(read)(pivot + first + k * WIDTH) *
                        NAMED(read)(NAMED(steps) + PANEL - 1 - j + first + k * WIDTH);
        pivot[j] = scale;
        for (int i = j + 1; i < end; i++) {
            NUMBER *row = data + i * stride;
            const NUMBER factor = row[j] * scale;
            UNROLLED for (int k = 0; k < PANEL / WIDTH; k++) {
                NUMBER *place = row + first + k * WIDTH;
                NAMED(write)(place, NAMED(less)(NAMED(read)(place), factor, behind[k]));
            }
            row[j] = factor;
        }
    }
    return 1;
}

// Whether all numbers are finite, and those below the diagonal are 0: then nothing is to be eliminated.
static int NAMED(is_upper)(const NUMBER *data, ptrdiff_t stride, int n) {
    for (int i = 1; i < n; i++)
        for (int j = 0; j < i; j++)
            if (data[i * stride + j] != 0) return 0;
    VECTOR zeros = {};
    for (ptrdiff_t k = 0; k < n * stride; k += WIDTH) zeros += NAMED(read)(data + k) * 0;
    for (int k = 0; k < WIDTH; k++)
        if (zeros[k] != 0) return 0;
    return 1;
}

// Solve matrix * X = rhs, or find the inverse if rhs is NULL. Return 0 if there is no finite reciprocal of a pivot.
//
// The right-hand sides stand beside the matrix, so that they are eliminated with it. Zeros behind both make panels and
// tiles whole. The inverse has the unit matrix there, whose rows keep their places when those of the matrix change
// theirs; so all is 0 right of a panel's place in it, and the columns of the result are put in order at the end.
static int NAMED(solve_one)(const NUMBER *matrix, const NUMBER *rhs, NUMBER *out, int n,
                            int columns, NUMBER *data) {
    const int size = round_up(n, PANEL), wide = round_up(columns, PANEL);
    const ptrdiff_t stride = size + wide + WIDTH;  // no power of two: such rows share few places of a cache
    NUMBER *right = data + size;
    int order[MOST_ROWS];
    memset(data, 0, size * stride * sizeof *data);
    for (int i = 0; i < n; i++) {
        order[i] = i;
        memcpy(data + i * stride, matrix + (ptrdiff_t)i * n, n * sizeof *data);
        if (rhs)
            memcpy(right + i * stride, rhs + (ptrdiff_t)i * columns, columns * sizeof *data);
    }
    const int is_upper = NAMED(is_upper)(data, stride, n);
    for (int first = 0; first < n; first += PANEL) {
        const int last = first + PANEL, count = smaller(PANEL, n - first);
        if (!NAMED(eliminate_panel)(data, stride, first, first + count, n, is_upper, order))
            return 0;
        if (!rhs)
            for (int i = first; i < first + count; i++) right[i * stride + i] = 1;
        if (is_upper) continue;
        NUMBER *corner = data + first * stride + first, *below = corner + PANEL * stride;
        NAMED(use_panel)(corner, corner + PANEL, below, below + PANEL, stride, count, size - last,
                         size - last + (rhs ? wide : last), 0);
    }
    for (int first = size - PANEL; first >= 0; first -= PANEL) {
        const int zeros = is_upper && !rhs ? first : 0;
        NAMED(use_panel)(data + first * stride + first, right + first * stride + zeros, data + first,
                         right + zeros, stride, smaller(PANEL, n - first), first, wide - zeros, 1);
    }
    for (int i = 0; i < n; i++, out += columns) {
        const NUMBER *row = right + i * stride;
        if (rhs)
            memcpy(out, row, columns * sizeof *out);
        else
            for (int j = 0; j < n; j++) out[order[j]] = row[j];
    }
    return 1;
}

// The scratch memory has place for the padded matrix and right-hand sides, and for two more vectors. What fails is
// set to 1 if a matrix cannot be solved so, and the results are undefined.
KERNEL(NAMED(solve))(const NUMBER *matrix, const NUMBER *rhs, NUMBER *out, int32_t *fails,
                     int batch, int n, int columns, NUMBER *scratch) {
    const uintptr_t place = (uintptr_t)scratch + VECTOR_BYTES - 1;
    NUMBER *data = (NUMBER *)(place / VECTOR_BYTES * VECTOR_BYTES);  // where a cache line begins
    for (int i = 0; i < batch; i++) {
        if (!NAMED(solve_one)(matrix, rhs, out, n, columns, data)) {
            *fails = 1;
            return;
        }
        matrix += (ptrdiff_t)n * n, out += (ptrdiff_t)n * columns;
        if (rhs) rhs += (ptrdiff_t)n * columns;
    }
}
#undef WIDTH
