// Bitwise kernels.
#include "elementwise.h"

// The number of bits of the type in which C computes: narrow types are shifted as int. As an
// unsigned integer, a negative count is a large one.
#define PLACES(type) (8 * (sizeof(type) < sizeof(int) ? sizeof(int) : sizeof(type)))

#define INTEGER_KERNELS(dtype, type, effort)                                                       \
    MAP(invert, dtype, type, type, effort, ~x)                                                     \
    PAIRS(bitwise_and, dtype, type, type, effort, a &b)                                            \
    PAIRS(bitwise_or, dtype, type, type, effort, a | b)                                            \
    PAIRS(bitwise_xor, dtype, type, type, effort, a ^ b)                                           \
    PAIRS(right_shift, dtype, type, type, effort,                                                  \
          (uint64_t)b < PLACES(type) ? a >> b : a < 0 ? -1 : 0)
EACH_INTEGER(INTEGER_KERNELS)

#define LEFT_SHIFT(dtype, type, effort)                                                            \
    PAIRS(left_shift, dtype, type, type, effort, (uint64_t)b < PLACES(type) ? a << b : 0)
LEFT_SHIFT(int64, int64_t, FAST)
LEFT_SHIFT(int8, int8_t, FAST)
LEFT_SHIFT(int16, int16_t, SMALL)
LEFT_SHIFT(uint8, uint8_t, FAST)
LEFT_SHIFT(uint16, uint16_t, SMALL)
LEFT_SHIFT(uint32, uint32_t, SMALL)
LEFT_SHIFT(uint64, uint64_t, SMALL)
#ifdef __wasm__
// WebAssembly has no vectors of different shifts, but products with 2^b: the bits of that float are
// those of an exponent, and 2^31 becomes the largest integer, which is 1 less.
static inline ints left_shift_ints(ints a, ints b) {
    ints power = __builtin_wasm_trunc_saturate_s_i32x4_f32x4((floats)((b + 127) << 23));
    power -= b == 31;  // a true mask is -1
    return (a * power) & ((unsigned_ints)b < 32);
}
VECTOR_PAIRS(left_shift, int32, int32_t, ints)
#else
LEFT_SHIFT(int32, int32_t, FAST)
#endif

MAP(invert, bool, boolean, boolean, FAST, !x)
PAIRS(bitwise_and, bool, boolean, boolean, FAST, a &b)
PAIRS(bitwise_or, bool, boolean, boolean, FAST, a | b)
PAIRS(bitwise_xor, bool, boolean, boolean, FAST, a ^ b)
