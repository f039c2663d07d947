// Steps of optimizers: lists of variables move against their gradients, in one pass over each of them.
//
// The formulas are those of plugrad/host/optimizers.py. `inputs` are the variables v, their gradients g, and lists
// of what is kept for each of them, a, b and c; `outputs` are the same without the gradients.
#include "common.h"

#ifdef __wasm__
// Several vectors at a time, unless roots and quotients take longer.
#define PRAGMA(text) _Pragma(#text)
#define EACH_ELEMENT(kept)                                                                         \
    PRAGMA(clang loop vectorize(assume_safety) interleave_count(kept > 1 ? 1 : kept ? 2 : 4))
// Only whole vectors fuse a product and a sum. So parts begin at rounds of 16 elements, and what is left of the last one
// is padded, for a call of its own.
#define ROUND 16
#define START(size, part, parts)                                                                   \
    ((part) == (parts) ? (size) : (int)((int64_t)(size) * (part) / (parts)) & -ROUND)
#define LEFT(begin, end) (((end) - (begin)) % ROUND)
#define STEP_OF_REST(dtype, type, effort)                                                          \
    typedef void step_##dtype(const type *, const int *, const type *const *, type *const *, int, int, int); \
    static void step_rest_##dtype(step_##dtype *step, int lists, const type *k,                    \
                                  const type *const *inputs, type *const *outputs, int count,      \
                                  int first, int rest) {                                           \
        type padded[5][ROUND] = {}, made[4][ROUND];                                                \
        const type *sources[5];                                                                    \
        type *targets[4];                                                                          \
        const int size = ROUND;                                                                    \
        for (int list = 0; list < lists; list++)                                                   \
            sources[list] = memcpy(padded[list], inputs[list * count] + first, rest * sizeof(type)); \
        for (int list = 0; list < lists - 1; list++) targets[list] = made[list];                   \
        step(k, &size, sources, targets, 1, 0, 1);                                                 \
        for (int list = 0; list < lists - 1; list++)                                               \
            memcpy(outputs[list * count] + first, made[list], rest * sizeof(type));                \
    }
EACH_FLOAT(STEP_OF_REST)
#define REST(name, kept, dtype)                                                                    \
    if (left)                                                                                      \
        step_rest_##dtype(name##_##dtype, kept + 2, k, inputs + n, outputs + n, count, end, left);
#else
#define EACH_ELEMENT(kept) _Pragma("clang loop vectorize(assume_safety)")
#define START(size, part, parts) ((int64_t)(size) * (part) / (parts))
#define LEFT(begin, end) 0
#define REST(name, kept, dtype)
#endif

// Take a step with part `part` of `parts` of each of `count` variables. The statements read elements and the
// coefficients k, and write to next_v, next_a, next_b and next_c.
#define STEP(name, kept, dtype, type, effort, ...)                                                 \
    effort KERNEL(name##_##dtype)(const type *restrict k, const int *sizes,                        \
                                  const type *const *inputs, type *const *outputs, int count,      \
                                  int part, int parts) {                                           \
        for (int n = 0; n < count; n++) {                                                          \
            const int begin = START(sizes[n], part, parts);                                        \
            const int stop = START(sizes[n], part + 1, parts), left = LEFT(begin, stop);           \
            const int end = stop - left;                                                           \
            const type *v = inputs[n], *g = inputs[count + n];                                     \
            const type *const *states = inputs + 2 * count + n;                                    \
            [[maybe_unused]] const type *a = kept > 0 ? states[0] : v;                             \
            [[maybe_unused]] const type *b = kept > 1 ? states[count] : v;                         \
            [[maybe_unused]] const type *c = kept > 2 ? states[2 * count] : v;                     \
            type *next_v = outputs[n];                                                             \
            [[maybe_unused]] type *next_a = kept > 0 ? outputs[count + n] : next_v;                \
            [[maybe_unused]] type *next_b = kept > 1 ? outputs[2 * count + n] : next_v;            \
            [[maybe_unused]] type *next_c = kept > 2 ? outputs[3 * count + n] : next_v;            \
            EACH_ELEMENT(kept) /* no two of them overlap */                                        \
            for (int i = begin; i < end; i++) {                                                    \
                __VA_ARGS__                                                                        \
            }                                                                                      \
            REST(name, kept, dtype)                                                                \
        }                                                                                          \
    }

#define GRADIENT_DESCENT(dtype, type, effort)                                                      \
    STEP(gradient_descent, 0, dtype, type, effort, next_v[i] = v[i] - g[i] * k[0];)
EACH_FLOAT(GRADIENT_DESCENT)

#define MOMENTUM(dtype, type, effort)                                                              \
    STEP(momentum, 1, dtype, type, effort,                                                         \
         const type velocity = g[i] + a[i] * k[1];                                                 \
         next_a[i] = velocity;                                                                     \
         next_v[i] = v[i] - (k[2] != 0 ? g[i] + velocity * k[1] : velocity) * k[0];)
EACH_FLOAT(MOMENTUM)

#define ADAGRAD(dtype, type, effort)                                                               \
    STEP(adagrad, 1, dtype, type, effort,                                                          \
         const type squares = a[i] + g[i] * g[i];                                                  \
         next_a[i] = squares;                                                                      \
         next_v[i] = v[i] - g[i] / (__builtin_elementwise_sqrt(squares) + k[1]) * k[0];)
EACH_FLOAT(ADAGRAD)

#define ADADELTA(dtype, type, effort)                                                              \
    STEP(adadelta, 2, dtype, type, effort,                                                         \
         const type squares = a[i] * k[1] + g[i] * g[i] * k[2];                                    \
         const type d = g[i] * __builtin_elementwise_sqrt((b[i] + k[3]) / (squares + k[3]));       \
         next_a[i] = squares;                                                                      \
         next_b[i] = b[i] * k[1] + d * d * k[2];                                                   \
         next_v[i] = v[i] - d * k[0];)
EACH_FLOAT(ADADELTA)

#define RMSPROP(dtype, type, effort)                                                               \
    STEP(rmsprop, 2, dtype, type, effort,                                                          \
         const type squares = a[i] * k[1] + g[i] * g[i] * k[2];                                    \
         const type root = __builtin_elementwise_sqrt(squares);                                    \
         const type velocity = g[i] / (root + k[4]) + b[i] * k[3];                                 \
         next_a[i] = squares;                                                                      \
         next_b[i] = velocity;                                                                     \
         next_v[i] = v[i] - velocity * k[0];)                                                      \
    STEP(centered_rmsprop, 3, dtype, type, effort,                                                 \
         const type squares = a[i] * k[1] + g[i] * g[i] * k[2];                                    \
         const type mean = c[i] * k[1] + g[i] * k[2];                                              \
         const type variance = squares - mean * mean;                                              \
         const type root = __builtin_elementwise_sqrt(variance < 0 ? 0 : variance);                \
         const type velocity = g[i] / (root + k[4]) + b[i] * k[3];                                 \
         next_a[i] = squares;                                                                      \
         next_b[i] = velocity;                                                                     \
         next_c[i] = mean;                                                                         \
         next_v[i] = v[i] - velocity * k[0];)
EACH_FLOAT(RMSPROP)

#define ADAM(dtype, type, effort)                                                                  \
    STEP(adam, 2, dtype, type, effort,                                                             \
         const type mean = a[i] * k[2] + g[i] * k[3];                                              \
         const type squares = b[i] * k[4] + g[i] * g[i] * k[5];                                    \
         next_a[i] = mean;                                                                         \
         next_b[i] = squares;                                                                      \
         const type direction = mean / (__builtin_elementwise_sqrt(squares) + k[6]);               \
         next_v[i] = v[i] * k[1] - direction * k[0];)
EACH_FLOAT(ADAM)

#define ADAMAX(dtype, type, effort)                                                                \
    STEP(adamax, 2, dtype, type, effort,                                                           \
         const type mean = a[i] * k[1] + g[i] * k[2];                                              \
         const type before = b[i] * k[3];                                                          \
         const type now = __builtin_elementwise_abs(g[i]) + k[4];                                  \
         const type greatest = before > now || before != before ? before : now;                    \
         next_a[i] = mean;                                                                         \
         next_b[i] = greatest;                                                                     \
         next_v[i] = v[i] - mean / greatest * k[0];)
EACH_FLOAT(ADAMAX)
