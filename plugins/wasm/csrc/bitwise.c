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
    PAIRS(left_shift, dtype, type, type, effort, (uint64_t)b < PLACES(type) ? a << b : 0)          \
    PAIRS(right_shift, dtype, type, type, effort,                                                  \
          (uint64_t)b < PLACES(type) ? a >> b : a < 0 ? -1 : 0)
EACH_INTEGER(INTEGER_KERNELS)

MAP(invert, bool, boolean, boolean, FAST, !x)
PAIRS(bitwise_and, bool, boolean, boolean, FAST, a &b)
PAIRS(bitwise_or, bool, boolean, boolean, FAST, a | b)
PAIRS(bitwise_xor, bool, boolean, boolean, FAST, a ^ b)
