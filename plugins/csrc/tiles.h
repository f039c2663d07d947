// Tiles of sums that stay in registers, for processors only. NUMBER, VECTOR, FUSED and PACKED are as in matmul.h.
#pragma once

#include "common.h"

// Sixteen registers are just enough for the sums, a row of the panel and a repeated number. The
// compiler spills sums, because it computes them in other registers and loads numbers early: hence
// the instructions, whose order it keeps. Without fused ones, a product takes one more register, and
// the panel is read for each row.
#if defined(__AVX512F__) || !defined(__x86_64__)
#define IN_ORDER(lanes)
#define ADD_PRODUCT(sum, a, b) sum = FUSED(a, b, sum)
#define ROW LOADED
#elif defined(__FMA__)
#define IN_ORDER(lanes) __asm__ volatile("" : "+x"(lanes))
#define ADD_PRODUCT(sum, a, b)                                                                     \
    __asm__ volatile("vfmadd231" PACKED " %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b))
#define ROW LOADED
#else
#define IN_ORDER(lanes) __asm__ volatile("" : "+x"(lanes))
#define ADD_PRODUCT(sum, a, b)                                                                     \
    do {                                                                                           \
        VECTOR product;                                                                            \
        __asm__ volatile("movu" PACKED " %3, %1\n\tmul" PACKED " %2, %1\n\tadd" PACKED " %1, %0"     \
                         : "+x"(sum), "=&x"(product)                                               \
                         : "x"(a), "m"(b));                                                        \
    } while (0)
#define ROW(b, panel, vectors)                                                                     \
    typedef VECTOR unaligned __attribute__((aligned(4), may_alias));                               \
    const unaligned *const b = (const unaligned *)(panel);
#endif
#define LOADED(b, panel, vectors)                                                                  \
    VECTOR b[vectors];                                                                             \
    for (int j = 0; j < vectors; j++) {                                                            \
        memcpy(b + j, panel + j * (ptrdiff_t)(sizeof(VECTOR) / sizeof(NUMBER)), sizeof(VECTOR));   \
        IN_ORDER(b[j]);                                                                            \
    }
