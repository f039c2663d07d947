// Casts, between all pairs of numbers and bools.
#include "elementwise.h"

#define CAST(from, type, to, result, effort) MAP(cast_##from, to, type, result, effort, (result)x)
#define TO_BOOL(from, type, effort) MAP(cast_##from, bool, type, boolean, effort, x != 0)

// Floats to integers: fractions are cut off, values out of range become the nearest limit, and NaN
// becomes 0.
#define TO_NARROW(from, type, to, result, effort)                                                  \
    static inline result narrow_##from##_##to(type x) {                                            \
        const int32_t y = TRUNCATE_int32_##from(x);                                                \
        return y < LEAST_##to ? LEAST_##to : y > GREATEST_##to ? GREATEST_##to : y;                \
    }                                                                                              \
    MAP(cast_##from, to, type, result, effort, narrow_##from##_##to(x))
#define TO_INTEGER(from, type, to, result, effort)                                                 \
    MAP(cast_##from, to, type, result, effort, TRUNCATE_##to##_##from(x))

#define FROM_FLOAT(from, type, effort)                                                             \
    CAST(from, type, float32, float, effort)                                                       \
    CAST(from, type, float64, double, effort)                                                      \
    TO_INTEGER(from, type, int32, int32_t, effort)                                                 \
    TO_INTEGER(from, type, int64, int64_t, effort)                                                 \
    TO_NARROW(from, type, int8, int8_t, effort)                                                    \
    TO_NARROW(from, type, int16, int16_t, effort)                                                  \
    TO_NARROW(from, type, uint8, uint8_t, effort)                                                  \
    TO_NARROW(from, type, uint16, uint16_t, effort)                                                \
    TO_INTEGER(from, type, uint32, uint32_t, effort)                                               \
    TO_INTEGER(from, type, uint64, uint64_t, effort)                                               \
    TO_BOOL(from, type, effort)
EACH_FLOAT(FROM_FLOAT)

// Integers to narrower integers wrap around.
#define FROM_INTEGER(from, type, effort)                                                           \
    CAST(from, type, float32, float, effort)                                                       \
    CAST(from, type, float64, double, effort)                                                      \
    CAST(from, type, int32, int32_t, effort)                                                       \
    CAST(from, type, int64, int64_t, effort)                                                       \
    CAST(from, type, int8, int8_t, effort)                                                         \
    CAST(from, type, int16, int16_t, effort)                                                       \
    CAST(from, type, uint8, uint8_t, effort)                                                       \
    CAST(from, type, uint16, uint16_t, effort)                                                     \
    CAST(from, type, uint32, uint32_t, effort)                                                     \
    CAST(from, type, uint64, uint64_t, effort)                                                     \
    TO_BOOL(from, type, effort)
EACH_INTEGER(FROM_INTEGER)
FROM_INTEGER(bool, boolean, FAST)
