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
#define VECTOR_KERNEL(name, float64_expression)                                                    \
    KERNEL(name##_float32)(const float *values, float *out, int count) {                           \
        MAP_FLOATS(name##_floats, values, out, count);                                             \
    }                                                                                              \
    MAP(name, float64, double, double, SMALL, float64_expression)

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
    KERNEL(name##_##dtype##_broadcast)(const char *left, const char *right, char *out,             \
                                       const int *descriptor) {                                    \
        broadcast((run)name##_##dtype, left, right, out, descriptor, sizeof(type),                 \
                  sizeof(result));                                                                 \
    }
