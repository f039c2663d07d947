// Calls that threads share.
#pragma once

#include "python.h"

// run_calls_in_threads(ufunc type, processors, calls, threads): make the calls of a tuple in up to so many threads. Return
// whether it did: each call is a tuple of a function and its arguments, and the functions are kernels, programs, or ufuncs of
// NumPy that take and write vectors. If one is something else, it makes none of them.
PyObject *run_calls_in_threads(PyObject *module, PyObject *const *arguments, ptrdiff_t count);

// run_parts_in_threads(ufunc type, processors, function, arguments, steps, place, count, multiple, parts, threads): make a call
// for `count` items in parts, in up to so many threads; return whether the function is one of the above. Of arguments, a tuple,
// the one at `place`, if not -1, is the number of items, or a descriptor whose first axis has so many. `steps` has a number
// for each: n if an array has n elements for each item, -n if each part has n elements for itself, 0 if all share it. All
// parts but the last have a multiple of so many items.
PyObject *run_parts_in_threads(PyObject *module, PyObject *const *arguments, ptrdiff_t count);

// forget_threads(): nobody is left to share with. A forked child calls it.
PyObject *forget_threads(PyObject *module, PyObject *const *arguments, ptrdiff_t count);
