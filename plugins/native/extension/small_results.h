// Functions that make the results of kernels of a few elements, which takes Python longer than the arithmetic.
#pragma once

#include "python.h"

// make_small_result_function(how, variants, most, otherwise, names, ufunc type, allocate): return a function of arrays of one
// dtype, whose elements follow each other in memory. If there are fewer than `most`, it makes a new array and calls a function
// that writes to it; and else `otherwise`, with the same arguments. Each of `variants` is a tuple of a dtype, a function for it,
// and the dtype of the result. `allocate` makes large arrays of a shape and a dtype. `how` tells what the function takes behind
// the arrays:
//
// "each": the number of elements, and a step for each array if there are several: 1, or 0 for a number, which stands
//         beside each element of the others. It may also be a loop of NumPy, a pair of a ufunc and the loop's number. It is
//         called for each row if an array is a row or a column, as in an outer sum, or has gaps between its rows. The first
//         array of three has bools
// "pairs": the same of arrays of one shape, with two elements or more
// "cast": the number of elements. The keyword dtype, which has an attribute numpy, is that of the result. Without a function,
//         None, a dtype is one of results that NumPy converts numbers to, but not floats to integers
// "axes": the sizes before, of and behind the axes that the keyword names[0] has, which are adjacent and not in the result
//         unless the keyword keep_dims is true
// "indices": the sizes before, of and behind the axis that the keyword names[0] is, which is not in the result
// "scan": the same sizes of an axis that is in the result
// "rows": the number of rows, and their size; the keyword names[0] is the last axis
// "band": the number of matrices, of their rows and columns, and two more arrays, which are numbers of int32
//
// "largest": the number of rows, their size, the keyword names[0], which is how many of the largest elements of each row are
//            kept, 1 for descending, the keyword names[1], which is whether they are in order, and memory for two numbers of 64 bits
//            for each element. It returns the elements and their positions
//
// And some without C functions:
//
// "view": return a view with the shape that the keyword names[0] is, of an array of any size
// "new axis": return a view with one more axis, whose place the keyword names[0] is
// "take": return the elements of an array of any size at the positions on the axis names[0] that a second array has; the
//         keyword names[1], the number of axes of batches, is 0
// "fill": return an array with the keywords shape, value and dtype; `variants` have the dtypes
//
// Behind the sizes, a function takes the flags that the keywords of the other names are.
PyObject *make_small_result_function(PyObject *module, PyObject *const *arguments, ptrdiff_t count);

// make_small_concatenation(is_stack, dtypes, most, otherwise): return a function of arrays that joins them along the keyword
// axis, which is a new one if `is_stack` is true. If they have one of `dtypes`, whose elements are copied as bytes, and fewer
// than `most` bytes, which follow each other in memory, it does so itself; and else it calls `otherwise`, with the same
// arguments.
PyObject *make_small_concatenation(PyObject *module, PyObject *const *arguments, ptrdiff_t count);
