// Softmax along contiguous rows.
#include "vector_math.h"

#define BLOCK 1024  // floats that are summed in single precision; the sums are added in double

static float greatest(const float *row, int count) {
    floats best = splat(-INFINITY);
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        const floats x = load(row + i);
        best = choose(x > best, x, best);
    }
    float y = -INFINITY;
    for (int lane = 0; lane < LANES; lane++) y = best[lane] > y ? best[lane] : y;
    for (; i < count; i++) y = row[i] > y ? row[i] : y;
    return y;  // ignores NaN, which reaches the sum through exp
}

// out[i] = exp(row[i] - peak); return their sum. One loop for both would spill registers.
static float exponentials(const float *row, float *out, int count, float peak) {
    for (int i = 0; i < count; i++) out[i] = row[i] - peak;
    MAP_FLOATS(exp_floats, out, out, count);
    double sum = 0;
    int i = 0;
    while (count - i >= LANES) {
        const int last = smaller(i + BLOCK, count);
        floats total = {};
        for (; i + LANES <= last; i += LANES) total += load(out + i);
        sum += sum_lanes(total);
    }
    for (; i < count; i++) sum += out[i];
    return sum;
}

KERNEL(softmax_float32)(const float *x, float *out, int rows, int count) {
    for (; rows > 0; rows--, x += count, out += count) {
        const float scale = 1 / exponentials(x, out, count, greatest(x, count));
        for (int i = 0; i < count; i++) out[i] *= scale;
    }
}

KERNEL(log_softmax_float32)(const float *x, float *out, int rows, int count) {
    for (; rows > 0; rows--, x += count, out += count) {
        const float peak = greatest(x, count);
        const float log_sum = logf(exponentials(x, out, count, peak));
        for (int i = 0; i < count; i++) out[i] = (x[i] - peak) - log_sum;
    }
}

#define DOUBLE_SOFTMAX(name, expression)                                                           \
    SMALL KERNEL(name##_float64)(const double *x, double *out, int rows, int count) {              \
        for (; rows > 0; rows--, x += count, out += count) {                                       \
            double peak = -INFINITY, sum = 0;                                                      \
            for (int i = 0; i < count; i++) peak = x[i] > peak ? x[i] : peak;                      \
            for (int i = 0; i < count; i++) sum += exp(x[i] - peak);                               \
            for (int i = 0; i < count; i++) out[i] = expression;                                   \
        }                                                                                          \
    }
DOUBLE_SOFTMAX(softmax, exp(x[i] - peak) / sum)
DOUBLE_SOFTMAX(log_softmax, x[i] - peak - log(sum))
