// Calls of kernels by Python.
#pragma once

#include "table.h"

// The buffers of a tuple's items, with a pointer to each in front of them.
typedef struct {
    void **pointers;
    Py_buffer *views;
    ptrdiff_t count;
} list;

// A kernel, and what it is called with.
typedef struct {
    const kernel *k;
    value values[MOST_ARGUMENTS];
    Py_buffer views[MOST_ARGUMENTS];
    list lists[MOST_LISTS];
    ptrdiff_t item_bytes[MOST_ARGUMENTS]; // of an array; 0 of other arguments
    int held, lists_held;
    ptrdiff_t bytes; // of all arrays
} kernel_call;

// The function of Python that calls a kernel, which `self` stands for.
PyObject *run_kernel(PyObject *self, PyObject *const *arguments, ptrdiff_t count);

// Hold the arrays of a call; return whether that is possible, else there is an error of Python.
int open_call(PyObject *self, PyObject *const *arguments, ptrdiff_t count, kernel_call *c);

// Release what `open_call` holds, whatever it has returned.
void close_call(kernel_call *c);
