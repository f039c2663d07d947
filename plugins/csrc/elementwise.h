// The shape of elementwise kernels: an expression becomes a loop.
#pragma once

#include <stdlib.h>

#include "common.h"

// Several vectors at a time: around one, WebAssembly has more instructions than for what it computes. A vector
// of bools has as many elements as four of floats. LLVM decides well for processors.
#ifdef __wasm__
#define PRAGMA(text) _Pragma(#text)
#define SEVERAL_AT_A_TIME(result)                                                                  \
    PRAGMA(clang loop interleave_count(sizeof(result) == 1 ? 2 : 4))
#else
#define SEVERAL_AT_A_TIME(result)
#endif

// ---- strips of long arrays ----

// What a kernel touched last is still in the cache. For a long array, it calls itself for one strip after the
// other, forwards and backwards in turns, so that each call begins where the one before has ended. Compiled
// for processors, it gained nothing.

typedef void (*mapping)(const void *values, void *out, int count);
typedef void (*run)(const void *a, const void *b, void *out, int count, int a_step, int b_step);

#ifdef __wasm__
#define STRIP (1 << 15)
#define EACH_STRIP(count)                                                                          \
    for (int n = 0, last = ((count) - 1) / STRIP, from = first_strip(last); n <= last; n++)

static inline int first_strip(int last) {
    static bool backwards;  // threads may confuse it, which changes no result
    backwards = !backwards;
    return backwards ? last : 0;
}

ONCE static inline void map_strips(mapping kernel, const char *values, int item_size, char *out,
                                   int out_size, int count) {
    EACH_STRIP(count) {
        const ptrdiff_t first = STRIP * abs(n - from);
        kernel(values + first * item_size, out + first * out_size, smaller(STRIP, count - first));
    }
}

ONCE static inline void run_strips(run kernel, const char *a, const char *b, int item_size,
                                   char *out, int out_size, int count, int a_step, int b_step) {
    EACH_STRIP(count) {
        const ptrdiff_t first = STRIP * abs(n - from);
        kernel(a + first * a_step * item_size, b + first * b_step * item_size,
               out + first * out_size, smaller(STRIP, count - first), a_step, b_step);
    }
}

#define MAP_STRIPS(kernel, type, result)                                                           \
    if (count > STRIP)                                                                             \
        return map_strips((mapping)kernel, (const char *)values, sizeof(type), (char *)out,        \
                          sizeof(result), count);
#define RUN_STRIPS(kernel, type, result)                                                           \
    if (count > STRIP)                                                                             \
        return run_strips((run)kernel, (const char *)left, (const char *)right, sizeof(type),      \
                          (char *)out, sizeof(result), count, left_step, right_step);
#else
#define MAP_STRIPS(kernel, type, result)
#define RUN_STRIPS(kernel, type, result)
#endif
#define MAP_STRIPS_NOT(kernel, type, result)  // attributes would have to be handed on

// ---- one input: an expression of x ----

#define MAP(name, dtype, type, result, effort, expression, ...)                                    \
    effort KERNEL(name##_##dtype)(const type *restrict values, result *restrict out,               \
                                  int count __VA_OPT__(, ) __VA_ARGS__) {                          \
        MAP_STRIPS##__VA_OPT__(_NOT)(name##_##dtype, type, result)                                 \
        SEVERAL_AT_A_TIME(result)                                                                  \
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
#define DOUBLES_IN_VECTOR (int)(sizeof(doubles) / sizeof(double))
// What is left after whole vectors is padded, for a call of its own: one in the loop would cost wasmtime all registers.
#define DOUBLES_KERNEL(name)                                                                       \
    KERNEL(name##_float64)(const double *values, double *out, int count) {                         \
        int i = 0;                                                                                 \
        for (; i + DOUBLES_IN_VECTOR <= count; i += DOUBLES_IN_VECTOR) {                           \
            doubles x;                                                                             \
            memcpy(&x, values + i, sizeof x);                                                      \
            x = name##_doubles(x);                                                                 \
            memcpy(out + i, &x, sizeof x);                                                         \
        }                                                                                          \
        if (i == count) return;                                                                    \
        double padded[DOUBLES_IN_VECTOR] = {0};                                                    \
        memcpy(padded, values + i, (count - i) * sizeof(double));                                  \
        name##_float64(padded, padded, DOUBLES_IN_VECTOR);                                         \
        memcpy(out + i, padded, (count - i) * sizeof(double));                                     \
    }
// A function of an exponential. Four vectors of usual numbers have a loop of their own, whose constants are in registers.
#ifdef __wasm__
#define EXP_DOUBLES_KERNEL(name)                                                                   \
    ONCE static int name##_usual_run(const double *values, double *out, int count) {               \
        int i = 0;                                                                                 \
        for (; i + 4 * DOUBLES_IN_VECTOR <= count; i += 4 * DOUBLES_IN_VECTOR) {                   \
            doubles x[4];                                                                          \
            memcpy(x, values + i, sizeof x);                                                       \
            if (!are_usual_doubles(x)) break;                                                  \
            UNROLLED for (int v = 0; v < 4; v++) x[v] = name##_usual_doubles(x[v]);                \
            memcpy(out + i, x, sizeof x);                                                          \
        }                                                                                          \
        return i;                                                                                  \
    }                                                                                              \
    KERNEL(name##_float64)(const double *values, double *out, int count) {                         \
        for (int i = 0; (i += name##_usual_run(values + i, out + i, count - i)) < count;) {        \
            const int size = smaller(4 * DOUBLES_IN_VECTOR, count - i);                            \
            doubles x[4] = {};                                                                     \
            memcpy(x, values + i, size * sizeof(double));                                          \
            _Pragma("nounroll") for (int v = 0; v < 4; v++) x[v] = name##_doubles(x[v]);           \
            memcpy(out + i, x, size * sizeof(double));                                             \
            i += size;                                                                             \
        }                                                                                          \
    }
#else
#define EXP_DOUBLES_KERNEL(name) DOUBLES_KERNEL(name)
#endif

// ---- two inputs: an expression of a and b, with broadcasting ----

// Rows that are too short for a loop, of which one operand has the same for each of the other's, as when the
// means of three channels are subtracted from pixels: many copies of it make the loop long.
#ifdef __wasm__
#define SHORT_ROW 128
#else
#define SHORT_ROW 16
#endif
#define COPIES_BYTES 4096

ONCE static inline void broadcast_rows(run combine, const char *a, const char *b, char *out,
                                       const int *descriptor, int item_size, int out_size) {
    const int outer = descriptor[0] - 2;
    const int *sizes = descriptor + 1, *a_strides = sizes + outer + 2;
    const int *b_strides = a_strides + outer + 2;
    const int rows = sizes[outer], row_bytes = sizes[outer + 1] * item_size;
    const int a_is_repeated = !a_strides[outer];
    const int at_once = smaller(rows, COPIES_BYTES / row_bytes), bytes = at_once * row_bytes;
    char copies[COPIES_BYTES];
    const char *copied = NULL;
    int index[MAX_AXES] = {0};
    ptrdiff_t a_offset = 0, b_offset = 0;
    do {
        const char *left = a + a_offset * item_size, *right = b + b_offset * item_size;
        const char *const repeated = a_is_repeated ? left : right;
        if (repeated != copied) {
            memcpy(copies, repeated, row_bytes);
            copied = repeated;
            for (int done = row_bytes; done < bytes; done *= 2)
                memcpy(copies + done, copies, smaller(done, bytes - done));
        }
        for (int row = 0; row < rows; row += at_once) {
            const int size = smaller(at_once, rows - row) * row_bytes, count = size / item_size;
            combine(a_is_repeated ? copies : left, a_is_repeated ? right : copies, out, count, 1, 1);
            left += size, right += size, out += (ptrdiff_t)count * out_size;
        }
    } while (step_axes(outer, sizes, index, a_strides, b_strides, &a_offset, &b_offset));
}

// Each has two entry points. The plain one takes runs: an operand steps by 1, or by 0 if it is one
// repeated value. The one called `_broadcast` calls the plain one for each run of a strided walk.
// descriptor: axes, sizes[axes], a_strides[axes], b_strides[axes]; strides in elements.
ONCE static inline void broadcast(run combine, const char *a, const char *b, char *out,
                                  const int *descriptor, int item_size, int out_size) {
    const int outer = descriptor[0] - 1;
    const int *sizes = descriptor + 1, *a_strides = sizes + outer + 1;
    const int *b_strides = a_strides + outer + 1;
    const int count = sizes[outer], a_step = a_strides[outer], b_step = b_strides[outer];
    if (outer && count <= SHORT_ROW && a_step && b_step) {
        const int a_stride = a_strides[outer - 1], b_stride = b_strides[outer - 1];
        if ((a_stride == count && !b_stride) || (b_stride == count && !a_stride))
            return broadcast_rows(combine, a, b, out, descriptor, item_size, out_size);
    }
    int index[MAX_AXES] = {0};
    ptrdiff_t a_offset = 0, b_offset = 0;
    do {
        combine(a + a_offset * item_size, b + b_offset * item_size, out, count, a_step, b_step);
        out += (ptrdiff_t)count * out_size;
    } while (step_axes(outer, sizes, index, a_strides, b_strides, &a_offset, &b_offset));
}

#define RUN(type, left_index, right_index, expression)                                             \
    for (int i = 0; i < count; i++) {                                                              \
        const type a = left[left_index], b = right[right_index];                                   \
        out[i] = expression;                                                                       \
    }

#define PAIRS(name, dtype, type, result, effort, expression)                                       \
    effort KERNEL(name##_##dtype)(const type *restrict left, const type *restrict right,           \
                                  result *restrict out, int count, int left_step,                  \
                                  int right_step) {                                                \
        RUN_STRIPS(name##_##dtype, type, result)                                                   \
        if (left_step && right_step) {                                                             \
            SEVERAL_AT_A_TIME(result)                                                              \
            RUN(type, i, i, expression)                                                            \
        } else if (left_step) {                                                                    \
            RUN(type, i, 0, expression)                                                            \
        } else {                                                                                   \
            RUN(type, 0, i, expression)                                                            \
        }                                                                                          \
    }                                                                                              \
    BROADCAST(name, dtype, type, result)

#define BROADCAST(name, dtype, type, result)                                                       \
    KERNEL(name##_##dtype##_broadcast)(const strided *left, const strided *right, char *out,       \
                                       const int *descriptor) {                                    \
        broadcast((run)name##_##dtype, left, right, out, descriptor, sizeof(type),                 \
                  sizeof(result));                                                                 \
    }

// A function of vectors of floats or doubles. An operand that is one repeated number is a vector of it, which is read
// again and again, so that there is one loop. What is left after whole vectors is padded, for a call of its own.
#define VECTOR_PAIRS(name, dtype, type, vector)                                                    \
    KERNEL(name##_##dtype)(const type *left, const type *right, type *out, int count,              \
                           int left_step, int right_step) {                                        \
        RUN_STRIPS(name##_##dtype, type, type)                                                     \
        VECTOR_RUN(name, name##_##dtype, type, vector)                                             \
    }                                                                                              \
    BROADCAST(name, dtype, type, type)
#define VECTOR_RUN(name, again, type, vector)                                                      \
        if (!count) return; /* the operands have no first element */                               \
        enum { lanes = VECTOR_BYTES / sizeof(type) };                                              \
        vector a = *left - (vector){}, b = *right - (vector){}, y; /* which keep -0 */             \
        const type *first = left_step ? left : (const type *)&a;                                   \
        const type *second = right_step ? right : (const type *)&b;                                \
        const int left_lanes = left_step * lanes, right_lanes = right_step * lanes;                \
        int i = 0;                                                                                 \
        for (; i + lanes <= count; i += lanes, first += left_lanes, second += right_lanes) {       \
            vector x, z;                                                                           \
            read_ahead(first), read_ahead(second), write_ahead(out + i);                           \
            memcpy(&x, first, sizeof x), memcpy(&z, second, sizeof z);                             \
            x = name##_##vector(x, z);                                                             \
            memcpy(out + i, &x, sizeof x);                                                         \
        }                                                                                          \
        if (i == count) return;                                                                    \
        if (left_step) memcpy(&a, left + i, (count - i) * sizeof(type));                           \
        if (right_step) memcpy(&b, right + i, (count - i) * sizeof(type));                         \
        again((const type *)&a, (const type *)&b, (type *)&y, lanes, left_step, right_step);       \
        memcpy(out + i, &y, (count - i) * sizeof(type));
