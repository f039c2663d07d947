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

// What functions of the same parameters have in common: a kind for each argument.
typedef struct {
    char kinds[MOST_ARGUMENTS + 1];
    unsigned char count, has_result;
} signature;

typedef struct {
    char name[44];
    unsigned char signature;
    short first_need;
} kernel;

extern const kernel kernels[]; // the last one has no name
extern const signature signatures[];

static inline const signature *signature_of(const kernel *k) { return signatures + k->signature; }

// The functions of the kernels, ADDRESSES(ADDRESS(name) ADDRESS(name) …), in the order of their table. Pointers would be
// relocated when the module is loaded, and each relocation takes 24 bytes. So this is how far each function is from the
// first number, for which C has no words, nor has the format of object files of macOS.
void *function_of(const kernel *k);
#ifdef __APPLE__
#define ADDRESS(name) (void *)name,
#define ADDRESSES(...)                                                                             \
    static void *const addresses[] = {__VA_ARGS__};                                                \
    void *function_of(const kernel *k) { return addresses[k - kernels]; }
#else
#define ADDRESS(name) ".long " #name " - offsets\n"
#define ADDRESSES(...)                                                                             \
    __asm__(".text\n.p2align 2\noffsets:\n" __VA_ARGS__);                                         \
    extern const int32_t offsets[] __attribute__((visibility("hidden")));                          \
    void *function_of(const kernel *k) { return (char *)offsets + offsets[k - kernels]; }
#endif

// Call a function that has the signature of a number.
int64_t call_function(int signature, void *f, const value *arguments);

static inline int64_t call_kernel(const kernel *k, const value *arguments) {
    return call_function(k->signature, function_of(k), arguments);
}

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
