// The shape of elementwise kernels: an expression becomes a loop.
#pragma once

#include "common.h"

// ---- one input: an expression of x ----

#define MAP(name, dtype, type, result, effort, expression, ...)                                    \
    effort KERNEL(name##_##dtype)(const type *restrict values, result *restrict out,               \
                                  int count __VA_OPT__(, ) __VA_ARGS__) {                          \
        for (int i = 0; i < count; i++) {                                                          \
            const type x = values[i];                                                              \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }

// The functions that take most of the time of models have vectors for float32.
#define FLOATS_KERNEL(name)                                                                        \
    KERNEL(name##_float32)(const float *values, float *out, int count) {                           \
        MAP_FLOATS(name##_floats, values, out, count);                                             \
    }
#define VECTOR_KERNEL(name, float64_expression)                                                    \
    FLOATS_KERNEL(name)                                                                            \
    MAP(name, float64, double, double, SMALL, float64_expression)
#define DOUBLES_KERNEL(name)                                                                       \
    KERNEL(name##_float64)(const double *values, double *out, int count) {                         \
        for (int i = 0; i < count; i += 2) {                                                       \
            const doubles y = name##_doubles((doubles){values[i], values[smaller(i + 1, count - 1)]}); \
            out[i] = y[0];                                                                         \
            if (i + 1 < count) out[i + 1] = y[1];                                                  \
        }                                                                                          \
    }

// ---- two inputs: an expression of a and b, with broadcasting ----

// Each has two entry points. The plain one takes runs: an operand steps by 1, or by 0 if it is one
// repeated value. The one called `_broadcast` calls the plain one for each run of a strided walk.
typedef void (*run)(const void *a, const void *b, void *out, int count, int a_step, int b_step);

// descriptor: axes, sizes[axes], a_strides[axes], b_strides[axes]; strides in elements.
void broadcast(run combine, const char *a, const char *b, char *out, const int *descriptor,
               int item_size, int out_size);

#define RUN(type, left_index, right_index, expression)                                             \
    for (int i = 0; i < count; i++) {                                                              \
        const type a = left[left_index], b = right[right_index];                                   \
        out[i] = expression;                                                                       \
    }

#define PAIRS(name, dtype, type, result, effort, expression)                                       \
    effort KERNEL(name##_##dtype)(const type *restrict left, const type *restrict right,           \
                                  result *restrict out, int count, int left_step,                  \
                                  int right_step) {                                                \
        if (left_step && right_step) {                                                             \
            RUN(type, i, i, expression)                                                            \
        } else if (left_step) {                                                                    \
            RUN(type, i, 0, expression)                                                            \
        } else {                                                                                   \
            RUN(type, 0, i, expression)                                                            \
        }                                                                                          \
    }                                                                                              \
    BROADCAST(name, dtype, type, result)

#define BROADCAST(name, dtype, type, result)                                                       \
    KERNEL(name##_##dtype##_broadcast)(const char *left, const char *right, char *out,             \
                                       const int *descriptor) {                                    \
        broadcast((run)name##_##dtype, left, right, out, descriptor, sizeof(type),                 \
                  sizeof(result));                                                                 \
    }

// A function of vectors of floats.
#define VECTOR_PAIRS(name)                                                                         \
    KERNEL(name##_float32)(const float *left, const float *right, float *out, int count,           \
                           int left_step, int right_step) {                                        \
        for (int i = 0; i < count; i += LANES) {                                                   \
            const int rest = smaller(LANES, count - i);                                            \
            const floats a = load_run(left + i * left_step, rest, left_step);                      \
            const floats b = load_run(right + i * right_step, rest, right_step);                   \
            const floats y = name##_floats(a, b);                                                  \
            if (rest == LANES)                                                                     \
                store(out + i, y);                                                                 \
            else                                                                                   \
                memcpy(out + i, &y, rest * sizeof(float));                                         \
        }                                                                                          \
    }                                                                                              \
    BROADCAST(name, float32, float, float)

static inline floats load_run(const float *values, int rest, int step) {
    if (step == 0) return splat(*values);
    if (rest == LANES) return load(values);
    float padded[LANES] = {0};
    memcpy(padded, values, rest * sizeof(float));
    return load(padded);
}
