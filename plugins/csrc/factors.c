// Determinants, factors and triangular equations of small matrices. As many matrices as a vector has numbers are computed
// side by side: so the loops of the textbook are vectorized, whatever the size.
#include "common.h"

#define NUMBER float
#define VECTOR floats
#define MASK ints
#define FUSED multiply_add
#define LEAST_SQUARE 1e-30f
#define NAMED(name) name##_float32
#include "factors.h"
#undef NUMBER
#undef VECTOR
#undef MASK
#undef FUSED
#undef LEAST_SQUARE
#undef NAMED

#define NUMBER double
#define VECTOR doubles
#define MASK longs
#define FUSED multiply_add_doubles
#define LEAST_SQUARE 1e-290
#define NAMED(name) name##_float64
#include "factors.h"
