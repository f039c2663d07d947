// Results of a few elements, see small_results.h.
#include "small_results.h"

#include <string.h>

#include "calls.h"

#define MOST_VARIANTS 12
#define MOST_ARRAYS 2 // that are read

enum how { EACH = 'e', AXES = 'a', ROWS = 'r' };

typedef struct {
    PyObject *dtype, *function, *result;
    const kernel *k;
} variant;

typedef struct {
    enum how how;
    int inputs, count; // of variants
    ptrdiff_t most;
    PyObject *make, *otherwise, *name;
    variant variants[MOST_VARIANTS];
} maker;

// The arrays of a call.
typedef struct {
    Py_buffer views[MOST_ARRAYS];
    int held;
    const variant *chosen;
    ptrdiff_t size;
} operands;

static PyObject *dtype_name, *keep_dims_name;

// Hold arrays; return whether a kernel takes them. There is no error of Python in any case.
static int hold(const maker *m, PyObject *const *arrays, operands *o) {
    for (; o->held < m->inputs; o->held++) {
        PyObject *x = arrays[o->held], *dtype = PyObject_GetAttr(x, dtype_name);
        Py_buffer *view = o->views + o->held, *first = o->views;
        if (!dtype) break;
        Py_DecRef(dtype); // which the array keeps
        if (!o->held) {
            int i = 0;
            while (i < m->count && m->variants[i].dtype != dtype) i++;
            if (i == m->count) return 0;
            o->chosen = m->variants + i;
        } else if (dtype != o->chosen->dtype)
            return 0;
        if (PyObject_GetBuffer(x, view, PyBUF_ND)) break;
        if (view->len == first->len && view->ndim == first->ndim &&
            (!view->ndim || !memcmp(view->shape, first->shape, sizeof(ptrdiff_t) * view->ndim)))
            continue;
        PyBuffer_Release(view);
        return 0;
    }
    if (o->held < m->inputs) {
        PyErr_Clear();
        return 0;
    }
    o->size = o->views->itemsize ? o->views->len / o->views->itemsize : 0;
    return 0 < o->size && o->size < m->most;
}

static int64_t product(const ptrdiff_t *sizes, int count) {
    int64_t found = 1;
    for (int i = 0; i < count; i++) found *= sizes[i];
    return found;
}

// Read the axes of a reduction, and write the kernel's numbers and which axes disappear from `first` to `last`;
// return whether a kernel takes them, 0 also with an error of Python.
static int read_axes(const maker *m, const Py_buffer *x, PyObject *keywords, value *to, int *first, int *last,
                     int *is_kept) {
    PyObject *axes = PyDict_GetItemWithError(keywords, m->name);
    PyObject *kept = axes ? PyDict_GetItemWithError(keywords, keep_dims_name) : NULL;
    const ptrdiff_t count = kept ? PyTuple_Size(axes) : 0;
    if (count < 1 || count > x->ndim) return 0;
    *first = (int)PyLong_AsLongLong(PyTuple_GetItem(axes, 0));
    *last = (int)PyLong_AsLongLong(PyTuple_GetItem(axes, count - 1)) + 1;
    if (*first < 0 || *last > x->ndim || *last - *first != count) return 0;
    *is_kept = PyObject_IsTrue(kept);
    to[0].integer = product(x->shape, *first);
    to[1].integer = product(x->shape + *first, *last - *first);
    to[2].integer = product(x->shape + *last, x->ndim - *last);
    return *is_kept >= 0;
}

// Return the shape of an array, in which the axes from `first` to `last` are 1, or are missing.
static PyObject *shape_of(const Py_buffer *x, int first, int last, int is_kept) {
    PyObject *shape = PyTuple_New(x->ndim - (is_kept ? 0 : last - first));
    for (int axis = 0, to = 0; shape && axis < x->ndim; axis++) {
        const int is_reduced = first <= axis && axis < last;
        if (is_reduced && !is_kept) continue;
        PyObject *size = PyLong_FromLongLong(is_reduced ? 1 : x->shape[axis]);
        if (!size || PyTuple_SetItem(shape, to++, size)) {
            Py_DecRef(shape);
            return NULL;
        }
    }
    return shape;
}

// Call the kernel for arrays that are held, which writes to a new array; return that.
static PyObject *write(const maker *m, const operands *o, PyObject *shape, value *values) {
    if (!shape) return NULL;
    PyObject *made = PyObject_CallFunctionObjArgs(m->make, shape, o->chosen->result, NULL);
    Py_DecRef(shape);
    Py_buffer out;
    if (!made) return NULL;
    if (PyObject_GetBuffer(made, &out, PyBUF_WRITABLE)) {
        Py_DecRef(made);
        return NULL;
    }
    for (int i = 0; i < m->inputs; i++) values[i].pointer = o->views[i].buf;
    values[m->inputs].pointer = out.buf;
    call_kernel(o->chosen->k, values);
    PyBuffer_Release(&out);
    return made;
}

static void release(operands *o) {
    while (o->held > 0) PyBuffer_Release(o->views + --o->held);
}

static PyObject *run_each(PyObject *self, PyObject *const *arrays, ptrdiff_t count) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    operands o = {};
    PyObject *result = NULL;
    const int is_meant = count == m->inputs && hold(m, arrays, &o);
    if (is_meant) {
        value values[MOST_ARRAYS + 1 + 3], *numbers = values + count + 1;
        numbers[0].integer = o.size, numbers[1].integer = numbers[2].integer = 1;
        result = write(m, &o, shape_of(o.views, 0, 0, 0), values);
    }
    release(&o);
    if (is_meant) return result;
    return PyObject_CallFunctionObjArgs(m->otherwise, arrays[0], count > 1 ? arrays[1] : NULL, NULL);
}

static PyObject *run_along(PyObject *self, PyObject *arguments, PyObject *keywords) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    PyObject *result = NULL, *array = PyTuple_Size(arguments) == 1 && keywords ? PyTuple_GetItem(arguments, 0) : NULL;
    operands o = {};
    int is_meant = array && hold(m, &array, &o), first = 0, last = 0, is_kept = 0;
    value values[1 + 1 + 3], *numbers = values + 2;
    const Py_buffer *x = o.views;
    if (is_meant && m->how == ROWS) {
        PyObject *axis = PyDict_GetItemWithError(keywords, m->name);
        is_meant = axis && x->ndim && PyLong_AsLongLong(axis) == x->ndim - 1;
        if (is_meant) numbers[0].integer = o.size / x->shape[x->ndim - 1], numbers[1].integer = x->shape[x->ndim - 1];
    } else if (is_meant)
        is_meant = read_axes(m, x, keywords, numbers, &first, &last, &is_kept);
    if (is_meant) result = write(m, &o, shape_of(x, first, last, is_kept), values);
    release(&o);
    if (is_meant) return result;
    return PyErr_Occurred() ? NULL : PyObject_Call(m->otherwise, arguments, keywords);
}

static PyMethodDef each = {"small_result", run_each, METH_FASTCALL, NULL};
static PyMethodDef along = {"few", (PyCFunction *)(void *)run_along, METH_VARARGS | METH_KEYWORDS, NULL};

static void free_maker(PyObject *capsule) {
    maker *m = PyCapsule_GetPointer(capsule, NULL);
    for (int i = 0; i < m->count; i++) {
        Py_DecRef(m->variants[i].dtype);
        Py_DecRef(m->variants[i].function);
        Py_DecRef(m->variants[i].result);
    }
    if (m->make) Py_DecRef(m->make);
    if (m->otherwise) Py_DecRef(m->otherwise);
    if (m->name) Py_DecRef(m->name);
    PyMem_Free(m);
}

static PyObject *kept(PyObject *object) {
    Py_IncRef(object);
    return object;
}

static int is_wrong_call(void) {
    PyErr_Format(PyExc_ValueError, "make_small_result_function: the kernels do not take what it has");
    return 0;
}

// Read the variants, whose kernels take the right arguments.
static int read_variants(maker *m, PyObject *variants) {
    static const char *const kinds[2][2] = {{"rwi", "rrwiii"}, {"rwiii", ""}};
    for (ptrdiff_t i = 0, count = PyTuple_Size(variants); i < count; i++) {
        PyObject *each = PyTuple_GetItem(variants, i);
        if (i == MOST_VARIANTS || PyTuple_Size(each) != 3) return is_wrong_call();
        PyObject *function = PyTuple_GetItem(each, 1);
        if (PyCFunction_GetFunction(function) != run_kernel) return is_wrong_call();
        const kernel *k = PyCapsule_GetPointer(PyCFunction_GetSelf(function), NULL);
        m->inputs = signature_of(k)->count == 6 ? 2 : 1;
        const char *wanted = m->how == ROWS ? "rwii" : kinds[m->how == AXES][m->inputs - 1];
        if (strcmp(signature_of(k)->kinds, wanted)) return is_wrong_call();
        m->variants[i] = (variant){kept(PyTuple_GetItem(each, 0)), kept(function), kept(PyTuple_GetItem(each, 2)), k};
        m->count++;
    }
    return m->count > 0 || is_wrong_call();
}

PyObject *make_small_result_function(PyObject *, PyObject *const *arguments, ptrdiff_t count) {
    const char *how = count == 6 ? PyUnicode_AsUTF8AndSize(arguments[0], NULL) : "";
    if (!how) return NULL;
    if (!*how || !strchr("ear", *how)) return PyErr_Format(PyExc_TypeError, "make_small_result_function takes six arguments");
    if (!dtype_name) dtype_name = PyUnicode_InternFromString("dtype");
    if (!keep_dims_name) keep_dims_name = PyUnicode_InternFromString("keep_dims");
    maker *m = PyMem_Malloc(sizeof(maker));
    if (!m || !dtype_name || !keep_dims_name) {
        PyMem_Free(m);
        return PyErr_NoMemory();
    }
    *m = (maker){.how = *how, .most = PyLong_AsLongLong(arguments[2])};
    m->make = kept(arguments[3]), m->otherwise = kept(arguments[4]), m->name = kept(arguments[5]);
    PyObject *self = PyCapsule_New(m, NULL, free_maker);
    if (!self) return NULL;
    PyObject *function = read_variants(m, arguments[1]) ? PyCFunction_NewEx(m->how == EACH ? &each : &along, self, NULL) : NULL;
    Py_DecRef(self);
    return function;
}
