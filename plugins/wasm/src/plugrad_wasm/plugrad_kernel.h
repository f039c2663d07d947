// What a WebAssembly module for plugrad exports, and what its kernel receives.
//
//     zig cc -target wasm32-freestanding -O3 -nostdlib -Wl,--no-entry -I… -o kernel.wasm kernel.c
//     clang --target=wasm32 -O3 -nostdlib -Wl,--no-entry -I… -o kernel.wasm kernel.c
//
// A module exports its memory as "memory" and imports nothing. It has a memory of its own: the
// inputs are copied into it, and the outputs out of it.
#pragma once

#include <stdint.h>

#define PLUGRAD_ABI_VERSION 1
#define PLUGRAD_EXPORT(name) __attribute__((export_name(name))) __attribute__((used))

enum plugrad_dtype {
    PLUGRAD_BOOL,
    PLUGRAD_INT8,
    PLUGRAD_INT16,
    PLUGRAD_INT32,
    PLUGRAD_INT64,
    PLUGRAD_UINT8,
    PLUGRAD_UINT16,
    PLUGRAD_UINT32,
    PLUGRAD_UINT64,
    PLUGRAD_FLOAT16,
    PLUGRAD_FLOAT32,
    PLUGRAD_FLOAT64,
    PLUGRAD_COMPLEX64,
    PLUGRAD_COMPLEX128,
};

typedef struct {
    void *data; // row-major; null for an optional input that is absent
    int32_t dtype;
    int32_t rank;
    const int32_t *sizes;
    const int32_t *strides; // in elements
    uint32_t size;          // the number of elements
    uint32_t reserved;
} plugrad_tensor;

typedef struct {
    int32_t input_count;
    int32_t output_count;
    const double *attributes; // in the order of the contract; a tuple is its items
    int32_t attribute_count;
    void *scratch; // as many bytes as scratch_size has returned
    uint32_t scratch_size;
    plugrad_tensor *tensors; // the inputs, then the outputs, whose data the kernel writes
} plugrad_call;

// The version of this header that the module was compiled with.
PLUGRAD_EXPORT("plugrad_abi_version") __attribute__((weak)) int32_t plugrad_abi_version(void) {
    return PLUGRAD_ABI_VERSION;
}

// Compute the outputs. Return 0, or another number to report a failure.
PLUGRAD_EXPORT("kernel") int32_t kernel(const plugrad_call *call);

// Optional: return the number of bytes of scratch memory that this call needs.
//
//     PLUGRAD_EXPORT("scratch_size") uint32_t scratch_size(const plugrad_call *call);
