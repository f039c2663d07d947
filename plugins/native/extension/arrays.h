// Arrays of NumPy, as its C API documents them: their layout is the same in all its versions 2.
#pragma once

#include "python.h"

typedef struct {
    object_head head;
    void *type;
    char kind, letter, order, unused;
    int number;
    uint64_t flags;
    ptrdiff_t item_bytes;
} dtype_of_numpy;

typedef struct {
    object_head head;
    char *data;
    int axes;
    ptrdiff_t *sizes, *strides;
    PyObject *base;
    dtype_of_numpy *dtype;
    int flags;
} array;

enum array_flag { IS_CONTIGUOUS = 1, IS_ALIGNED = 0x100, IS_WRITABLE = 0x400 };

// The type of arrays; subclasses have others.
extern void *array_type;

// Import NumPy; return whether that is possible, else there is an error of Python.
int load_numpy(void);

static inline int is_array(const PyObject *x) { return ((const object_head *)x)->type == array_type; }

ptrdiff_t product(const ptrdiff_t *sizes, int count);

// Return a new array, or NULL with an error of Python.
array *new_array(dtype_of_numpy *dtype, int axes, const ptrdiff_t *sizes);

// Return an array with the elements of a contiguous one, which it refers to, or NULL with an error of Python.
array *new_view(array *x, int axes, const ptrdiff_t *sizes);

// Return a new array with the elements of another one as NumPy converts them, or NULL with an error of Python.
PyObject *cast_array(array *x, dtype_of_numpy *dtype);

// Do what PyObject_GetBuffer does, in less time for arrays; `flags` do not ask for a format. The caller keeps the array alive.
int get_buffer(PyObject *x, Py_buffer *view, int flags);
