// The kernels of a variant, which the build lists in table.c by the declarations of the sources.
#pragma once

#include <stdint.h>

#include "python.h"

#define MOST_ARGUMENTS 20
#define MOST_LISTS 2 // of one kernel

enum kind {
    READ = 'r',
    WRITTEN = 'w',
    STRIDED = 's', // read, with gaps or repetitions that a descriptor tells
    DESCRIPTOR = 'd', // read: the number of axes, their sizes, and strides
    ALL_READ = 'R',
    ALL_WRITTEN = 'W',
    INTEGER = 'i',
    BITS = 'b',
    FLOAT = 'f'
};

#define MOST_AXES 32 // for whose positions functions have room

// Whether a descriptor of so many bytes has no more axes than there is room for, and a size for each of them.
static inline int is_descriptor(const int32_t *at, int64_t bytes) {
    return bytes >= 4 && *at >= 0 && *at <= MOST_AXES && bytes >= 4 * (1 + (int64_t)*at);
}

typedef union {
    void *pointer;
    int64_t integer;
    double number;
} value;

typedef struct {
    const char *name, *kinds; // a kind for each argument
    short count, has_result, first_need;
    int64_t (*run)(const value *arguments);
} kernel;

extern const kernel kernels[]; // the last one has no name

// How many items an array needs: the product of some arguments, or one item if another argument, its step, is 0.
// Arguments are counted from 1; 0 stands for none. The needs of a kernel end with one without an array.
#define MOST_FACTORS 3
typedef struct {
    unsigned char array, item_bytes, step, factors[MOST_FACTORS];
} need;

extern const need needs[];

// Return the kernel of a name; NULL with an error of Python if there is none.
const kernel *find_kernel(const char *name);

// A ufunc of NumPy, as its C API documents it.
typedef void loop_of_numpy(char **arrays, const ptrdiff_t *sizes, const ptrdiff_t *steps, void *data);
typedef struct {
    object_head head;
    int inputs, outputs, arrays, identity;
    loop_of_numpy **loops;
    void *const *data;
    int loop_count, reserved;
    const char *name, *types;
} ufunc;
