// What follows a product or a convolution in the same kernel, in one pass: bias and activation.
#include <math.h>

#include "common.h"

#define BLOCK 1024  // numbers that stay in the cache between the bias and the activation

enum { LINEAR, RELU, RELU6, ELU, SIGMOID, LEAKY_RELU, PRELU };  // the order of the host

#define LIMITED(x, least, most) ((x) <= (least) ? (least) : (x) > (most) ? (most) : (x))

// y = activation(y + bias), along one run. `bias` may be absent; it and the slopes are vectors of
// which a step of 0 repeats the first element. The activations are those of activation.c; relu and
// relu6 are limits, which are applied in the same pass as the bias.
#define FINISH(dtype, type, effort)                                                                \
    void elu_##dtype(const type *x, type *out, int count);                                         \
    void sigmoid_##dtype(const type *x, type *out, int count);                                     \
    void leaky_relu_##dtype(const type *restrict x, type *restrict out, int count, type alpha);    \
    void prelu_##dtype(const type *restrict x, const type *restrict slopes, type *restrict out,    \
                       int count, int x_step, int slopes_step);                                    \
    static void finish_run_##dtype(type *restrict y, int count, const type *restrict bias,         \
                                   int bias_step, const type *restrict slopes, int slopes_step,    \
                                   int activation, type alpha) {                                   \
        const type constant = bias ? *bias : -0.f; /* leaves all numbers as they are */            \
        const type least = activation == LINEAR ? -INFINITY : 0;                                   \
        const type most = activation == RELU6 ? 6 : INFINITY;                                      \
        type sums[BLOCK];                                                                          \
        for (int n = 0; count > 0; count -= n, y += n) {                                           \
            n = smaller(BLOCK, count);                                                             \
            if (activation <= RELU6 && bias && bias_step)                                          \
                for (int i = 0; i < n; i++) y[i] = LIMITED(y[i] + bias[i], least, most);           \
            else if (activation <= RELU6)                                                          \
                for (int i = 0; i < n; i++) y[i] = LIMITED(y[i] + constant, least, most);          \
            else if (bias && bias_step)                                                            \
                for (int i = 0; i < n; i++) sums[i] = y[i] + bias[i];                              \
            else                                                                                   \
                for (int i = 0; i < n; i++) sums[i] = y[i] + constant;                             \
            if (activation == ELU) elu_##dtype(sums, y, n);                                        \
            if (activation == SIGMOID) sigmoid_##dtype(sums, y, n);                                \
            if (activation == LEAKY_RELU) leaky_relu_##dtype(sums, y, n, alpha);                   \
            if (activation == PRELU) prelu_##dtype(sums, slopes, y, n, 1, slopes_step);            \
            if (bias) bias += n * bias_step;                                                       \
            if (slopes) slopes += n * slopes_step;                                                 \
        }                                                                                          \
    }                                                                                              \
    /* out = x repeated; an absent x stays absent. */                                              \
    static const type *repeated_##dtype(const type *x, int step, int count, int repeats,           \
                                        type *restrict out) {                                      \
        for (int i = 0; x && i < count * repeats; i++) out[i] = x[i % count * step];               \
        return x ? out : x;                                                                        \
    }                                                                                              \
    /* descriptor: axes, sizes[axes], bias_strides[axes], slopes_strides[axes], in elements */     \
    KERNEL(finish_##dtype)(type *y, const type *bias, const type *slopes, const int *descriptor,   \
                           int activation, type alpha) {                                           \
        int outer = descriptor[0] - 1;                                                             \
        const int *sizes = descriptor + 1, *bias_strides = sizes + outer + 1;                      \
        const int *slopes_strides = bias_strides + outer + 1;                                      \
        const int count = sizes[outer], bias_step = bias_strides[outer];                           \
        const int slopes_step = slopes_strides[outer];                                             \
        int index[MAX_AXES] = {0}, rows = 1;                                                       \
        ptrdiff_t a = 0, b = 0;                                                                    \
        if (outer && 2 * count <= BLOCK && !bias_strides[outer - 1] && !slopes_strides[outer - 1]) \
            rows = sizes[--outer];  /* short runs beside equal numbers: several at a time */       \
        const int group = rows > 1 ? smaller(rows, BLOCK / count) : 1;                             \
        do {                                                                                       \
            type wide_bias[BLOCK], wide_slopes[BLOCK];                                             \
            const type *c = bias ? bias + a : bias, *d = slopes ? slopes + b : slopes;             \
            if (group > 1) {                                                                       \
                c = repeated_##dtype(c, bias_step, count, group, wide_bias);                       \
                d = repeated_##dtype(d, slopes_step, count, group, wide_slopes);                   \
            }                                                                                      \
            for (int row = 0, n; row < rows; row += n, y += n * count) {                           \
                n = smaller(group, rows - row);                                                    \
                finish_run_##dtype(y, n * count, c, group > 1 || bias_step, d,                     \
                                   group > 1 || slopes_step, activation, alpha);                   \
            }                                                                                      \
        } while (step_axes(outer, sizes, index, bias_strides, slopes_strides, &a, &b));            \
    }
EACH_FLOAT(FINISH)
