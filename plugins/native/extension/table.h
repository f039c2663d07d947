// The kernels of a variant, which the build lists in table.c by the declarations of the sources.
#pragma once

#include <stdint.h>

#define MOST_ARGUMENTS 20
#define MOST_LISTS 2 // of one kernel

enum kind {
    READ = 'r',
    WRITTEN = 'w',
    STRIDED = 's', // read, with gaps or repetitions that a descriptor tells
    ALL_READ = 'R',
    ALL_WRITTEN = 'W',
    INTEGER = 'i',
    BITS = 'b',
    FLOAT = 'f'
};

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
