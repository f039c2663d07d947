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
// WebAssembly has no vectors of different shifts, but products with -2^b, which is an integer for 31, too: the bits of
// that float are those of an exponent.
#ifdef __wasm_relaxed_simd__
#define TRUNCATE __builtin_wasm_relaxed_trunc_s_i32x4_f32x4
#else
#define TRUNCATE __builtin_wasm_trunc_saturate_s_i32x4_f32x4
#endif
static inline ints left_shift_ints(ints a, ints b) {
    const ints power = TRUNCATE((floats)((b + (256 + 127)) << 23));
    return -(a * power) & ((b & ~31) == 0);
}
VECTOR_PAIRS(left_shift, int32, int32_t, ints)
#else
LEFT_SHIFT(int32, int32_t, FAST)
#endif

MAP(invert, bool, boolean, boolean, FAST, !x)
PAIRS(bitwise_and, bool, boolean, boolean, FAST, a &b)
PAIRS(bitwise_or, bool, boolean, boolean, FAST, a | b)
PAIRS(bitwise_xor, bool, boolean, boolean, FAST, a ^ b)
