// Concatenations of a few elements, see small_results.h.
#include <string.h>

#include "small_results.h"

#include "arrays.h"

#define MOST_DTYPES 16
#define MOST_JOINED_AXES 16

typedef struct {
    int is_stack, count;
    ptrdiff_t most; // bytes
    PyObject *otherwise, *dtypes[MOST_DTYPES];
} joiner;

static PyObject *axis_name;

static array *part_of(PyObject *arrays, ptrdiff_t i) { return (array *)PyTuple_GetItem(arrays, i); }

static ptrdiff_t bytes_of(const array *x) { return product(x->sizes, x->axes) * x->dtype->item_bytes; }

// Return the dtype of arrays if they have one of those that are copied as bytes, and shapes that fit, else NULL.
static dtype_of_numpy *find_dtype(const joiner *j, PyObject *arrays, ptrdiff_t count, int axis) {
    const array *first = part_of(arrays, 0);
    ptrdiff_t bytes = 0;
    for (ptrdiff_t n = 0; n < count; n++) {
        const array *x = part_of(arrays, n);
        if (!is_array((const PyObject *)x) || !(x->flags & IS_CONTIGUOUS) || x->dtype != first->dtype ||
            x->axes != first->axes || axis >= x->axes + j->is_stack || x->axes >= MOST_JOINED_AXES)
            return NULL;
        for (int i = 0; i < x->axes; i++)
            if (x->sizes[i] != first->sizes[i] && (i != axis || j->is_stack)) return NULL;
        bytes += bytes_of(x);
        if (bytes >= j->most) return NULL;
    }
    for (int i = 0; i < j->count; i++)
        if (j->dtypes[i] == (PyObject *)first->dtype) return first->dtype;
    return NULL;
}

// Return an array for the result.
static array *make_result(const joiner *j, PyObject *arrays, ptrdiff_t count, int axis) {
    const array *first = part_of(arrays, 0);
    const int axes = first->axes + j->is_stack;
    ptrdiff_t sizes[MOST_JOINED_AXES + 1], length = j->is_stack ? count : 0;
    for (ptrdiff_t n = 0; n < count && !j->is_stack; n++) length += part_of(arrays, n)->sizes[axis];
    for (int i = 0; i < axes; i++) sizes[i] = i == axis ? length : first->sizes[i - (j->is_stack && i > axis)];
    return new_array(first->dtype, axes, sizes);
}

static PyObject *run_join(PyObject *self, PyObject *arguments, PyObject *keywords) {
    const joiner *j = PyCapsule_GetPointer(self, NULL);
    const ptrdiff_t count = PyTuple_Size(arguments);
    PyObject *place = keywords ? PyDict_GetItemWithError(keywords, axis_name) : NULL;
    const int axis = place ? (int)PyLong_AsLongLong(place) : -1;
    if (axis < 0 || !count || !find_dtype(j, arguments, count, axis))
        return PyErr_Occurred() ? NULL : PyObject_Call(j->otherwise, arguments, keywords);
    array *result = make_result(j, arguments, count, axis);
    if (!result) return NULL;
    const ptrdiff_t outer = product(part_of(arguments, 0)->sizes, axis), row = bytes_of(result) / (outer ? outer : 1);
    char *to = result->data;
    for (ptrdiff_t i = 0; row && i < count; i++) {
        const array *x = part_of(arguments, i);
        const ptrdiff_t bytes = bytes_of(x) / outer;
        for (ptrdiff_t n = 0; bytes && n < outer; n++) memcpy(to + n * row, x->data + n * bytes, (size_t)bytes);
        to += bytes;
    }
    return (PyObject *)result;
}

static PyMethodDef definition = {"small_concatenation", (PyCFunction *)(void *)run_join, METH_VARARGS | METH_KEYWORDS, NULL};

static void free_joiner(PyObject *capsule) {
    joiner *j = PyCapsule_GetPointer(capsule, NULL);
    while (j->count > 0) Py_DecRef(j->dtypes[--j->count]);
    Py_DecRef(j->otherwise);
    PyMem_Free(j);
}

PyObject *make_small_concatenation(PyObject *, PyObject *const *arguments, ptrdiff_t count) {
    const ptrdiff_t dtypes = count == 4 ? PyTuple_Size(arguments[1]) : -1;
    if (dtypes < 0 || dtypes > MOST_DTYPES)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError,
                                                       "make_small_concatenation takes four arguments and few dtypes");
    if (!axis_name) axis_name = PyUnicode_InternFromString("axis");
    joiner *j = PyMem_Malloc(sizeof(joiner));
    if (!j || !axis_name) {
        PyMem_Free(j);
        return PyErr_NoMemory();
    }
    *j = (joiner){.is_stack = PyObject_IsTrue(arguments[0]) == 1, .most = PyLong_AsLongLong(arguments[2])};
    j->otherwise = arguments[3];
    Py_IncRef(j->otherwise);
    for (; j->count < dtypes; j->count++) Py_IncRef(j->dtypes[j->count] = PyTuple_GetItem(arguments[1], j->count));
    PyObject *self = PyCapsule_New(j, NULL, free_joiner);
    PyObject *function = self ? PyCFunction_NewEx(&definition, self, NULL) : NULL;
    if (self) Py_DecRef(self);
    return function;
}
