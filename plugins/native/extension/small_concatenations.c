// Concatenations of a few elements, see small_results.h.
#include <string.h>

#include "small_results.h"

#define MOST_JOINED 16
#define MOST_DTYPES 16
#define MOST_JOINED_AXES 16

typedef struct {
    int is_stack, count;
    ptrdiff_t most; // bytes
    PyObject *make, *otherwise, *dtypes[MOST_DTYPES];
} joiner;

static PyObject *dtype_name, *axis_name;

// Hold the arrays; return their dtype if they have one of those that are copied as bytes, and shapes that fit, else NULL.
// There is no error of Python in any case.
static PyObject *hold(const joiner *j, PyObject *arrays, ptrdiff_t count, int axis, Py_buffer *views, int *held) {
    PyObject *known = NULL;
    ptrdiff_t bytes = 0;
    for (; *held < count; ++*held) {
        PyObject *x = PyTuple_GetItem(arrays, *held), *dtype = PyObject_GetAttr(x, dtype_name);
        Py_buffer *view = views + *held;
        if (!dtype || (Py_DecRef(dtype), PyObject_GetBuffer(x, view, PyBUF_ND))) { // the array keeps its dtype
            PyErr_Clear();
            return NULL;
        }
        int is_right = view->ndim < MOST_JOINED_AXES && view->ndim == views->ndim && axis < view->ndim + j->is_stack;
        for (int i = 0; is_right && i < view->ndim; i++)
            is_right = view->shape[i] == views->shape[i] || (i == axis && !j->is_stack);
        int i = 0;
        while (!known && i < j->count && j->dtypes[i] != dtype) i++;
        if (!known && i < j->count) known = dtype;
        bytes += view->len;
        if (is_right && known == dtype && bytes < j->most) continue;
        ++*held;
        return NULL;
    }
    return known;
}

// Return the shape of the result.
static PyObject *joined_shape(const joiner *j, const Py_buffer *views, ptrdiff_t count, int axis) {
    const int axes = views->ndim + j->is_stack;
    PyObject *shape = PyTuple_New(axes);
    for (int i = 0, from = 0; shape && i < axes; i++) {
        ptrdiff_t length = count;
        if (!j->is_stack || i != axis) length = views->shape[from++];
        if (!j->is_stack && i == axis)
            for (ptrdiff_t n = 1; n < count; n++) length += views[n].shape[axis];
        PyObject *size = PyLong_FromLongLong(length);
        if (!size || PyTuple_SetItem(shape, i, size)) {
            Py_DecRef(shape);
            return NULL;
        }
    }
    return shape;
}

static PyObject *run_join(PyObject *self, PyObject *arguments, PyObject *keywords) {
    const joiner *j = PyCapsule_GetPointer(self, NULL);
    const ptrdiff_t count = PyTuple_Size(arguments);
    PyObject *place = keywords ? PyDict_GetItemWithError(keywords, axis_name) : NULL, *result = NULL, *dtype = NULL;
    const int axis = place ? (int)PyLong_AsLongLong(place) : -1;
    Py_buffer views[MOST_JOINED], out;
    int held = 0;
    if (axis >= 0 && 0 < count && count <= MOST_JOINED) dtype = hold(j, arguments, count, axis, views, &held);
    PyObject *shape = dtype ? joined_shape(j, views, count, axis) : NULL;
    if (shape) {
        result = PyObject_CallFunctionObjArgs(j->make, shape, dtype, NULL);
        Py_DecRef(shape);
    }
    if (result && PyObject_GetBuffer(result, &out, PyBUF_WRITABLE)) {
        Py_DecRef(result);
        result = NULL;
    }
    if (result) {
        ptrdiff_t outer = 1;
        for (int i = 0; i < axis; i++) outer *= views->shape[i];
        char *to = out.buf;
        for (ptrdiff_t row = 0; row < outer; row++)
            for (int i = 0; i < held; i++) {
                const ptrdiff_t bytes = views[i].len / outer;
                if (bytes) memcpy(to, (const char *)views[i].buf + row * bytes, (size_t)bytes);
                to += bytes;
            }
        PyBuffer_Release(&out);
    }
    while (held > 0) PyBuffer_Release(views + --held);
    if (result || PyErr_Occurred()) return result;
    return PyObject_Call(j->otherwise, arguments, keywords);
}

static PyMethodDef definition = {"small_concatenation", (PyCFunction *)(void *)run_join, METH_VARARGS | METH_KEYWORDS, NULL};

static void free_joiner(PyObject *capsule) {
    joiner *j = PyCapsule_GetPointer(capsule, NULL);
    while (j->count > 0) Py_DecRef(j->dtypes[--j->count]);
    Py_DecRef(j->make);
    Py_DecRef(j->otherwise);
    PyMem_Free(j);
}

PyObject *make_small_concatenation(PyObject *, PyObject *const *arguments, ptrdiff_t count) {
    const ptrdiff_t dtypes = count == 5 ? PyTuple_Size(arguments[1]) : -1;
    if (dtypes < 0 || dtypes > MOST_DTYPES)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError,
                                                       "make_small_concatenation takes five arguments and few dtypes");
    if (!dtype_name) dtype_name = PyUnicode_InternFromString("dtype");
    if (!axis_name) axis_name = PyUnicode_InternFromString("axis");
    joiner *j = PyMem_Malloc(sizeof(joiner));
    if (!j || !dtype_name || !axis_name) {
        PyMem_Free(j);
        return PyErr_NoMemory();
    }
    *j = (joiner){.is_stack = PyObject_IsTrue(arguments[0]) == 1, .most = PyLong_AsLongLong(arguments[2])};
    j->make = arguments[3], j->otherwise = arguments[4];
    Py_IncRef(j->make);
    Py_IncRef(j->otherwise);
    for (; j->count < dtypes; j->count++) Py_IncRef(j->dtypes[j->count] = PyTuple_GetItem(arguments[1], j->count));
    PyObject *self = PyCapsule_New(j, NULL, free_joiner);
    PyObject *function = self ? PyCFunction_NewEx(&definition, self, NULL) : NULL;
    if (self) Py_DecRef(self);
    return function;
}
