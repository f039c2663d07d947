// Functions that make the results of kernels of a few elements, which takes Python longer than the arithmetic.
#pragma once

#include "python.h"

// make_small_result_function(how, variants, most, make, otherwise[, name]): return a function of arrays of one dtype and
// shape. If they have fewer than `most` elements, and these follow each other in memory, it calls a kernel; and else
// `otherwise`, with the same arguments. Each of `variants` is a tuple of a dtype, the kernel for it, and the dtype of the
// result, which make(shape, dtype) makes. `how` tells what the kernel takes behind the arrays:
//
// "each": the number of elements, and a step of 1 for each array if there are two
// "axes": the sizes before, of and behind the axes that the keyword `name` has, which are adjacent and not in the result
//         unless the keyword keep_dims is true
// "rows": the number of rows, and their size; the keyword `name` is the last axis
PyObject *make_small_result_function(PyObject *module, PyObject *const *arguments, ptrdiff_t count);

// make_small_concatenation(is_stack, dtypes, most, make, otherwise): return a function of arrays that concatenates them along
// the keyword axis, which is a new one if `is_stack` is true. If they have one of `dtypes`, whose elements are copied as bytes,
// and fewer than `most` bytes, which follow each other in memory, it does so itself; and else it calls `otherwise`, with the
// same arguments.
PyObject *make_small_concatenation(PyObject *module, PyObject *const *arguments, ptrdiff_t count);
