// Linear equations and inverses by LU factorization with partial pivoting, for processors only.
//
// The columns of a panel are eliminated first, and then all that is right of them, a tile at a time.
#include <float.h>

#include "gemm.h"

#define PANEL 16
#define MOST_ROWS 512
#if defined(__AVX512F__)
#define TALL 8
#define MOST_VECTORS 3
#elif defined(__aarch64__)
#define TALL 8
#define MOST_VECTORS 2
#else
#define TALL 4
#define MOST_VECTORS 2
#endif

// Only the loops over tiles take long, and these are unrolled in any case.
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)

#define NUMBER float
#define VECTOR floats
#define FUSED multiply_add
#define GREATEST FLT_MAX
#define NAMED(name) name##_float32
#include "lu.h"
#undef NUMBER
#undef VECTOR
#undef FUSED
#undef GREATEST
#undef NAMED

#define NUMBER double
#define VECTOR doubles
#define FUSED multiply_add_doubles
#define GREATEST DBL_MAX
#define NAMED(name) name##_float64
#include "lu.h"

#pragma clang attribute pop
