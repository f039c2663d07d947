// Arrays of NumPy, see arrays.h.
#include "arrays.h"

#define ABI 0x2000000

// The places of NumPy's functions and types in the table that it exports.
enum { GET_ABI = 0, ARRAY_TYPE = 2, CAST_ARRAY = 49, NEW_ARRAY = 94, SET_BASE = 282 };

typedef unsigned get_abi(void);
typedef PyObject *make_array(void *type, void *dtype, int axes, const ptrdiff_t *sizes, const ptrdiff_t *strides, void *data,
                             int flags, PyObject *base);

typedef PyObject *convert(array *x, void *dtype, int is_in_order_of_fortran);
typedef int set_base(array *view, PyObject *base);

void *array_type;
static make_array *make;
static convert *cast;
static set_base *refer;

int load_numpy(void) {
    PyObject *module = PyImport_ImportModule("numpy._core._multiarray_umath");
    PyObject *capsule = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
    void *const *table = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    if (module) Py_DecRef(module);
    if (capsule) Py_DecRef(capsule); // which the module keeps
    if (!table) return 0;
    if (((get_abi *)table[GET_ABI])() != ABI) {
        PyErr_Format(PyExc_ImportError, "plugrad-native needs NumPy 2");
        return 0;
    }
    array_type = table[ARRAY_TYPE];
    make = (make_array *)table[NEW_ARRAY];
    cast = (convert *)table[CAST_ARRAY];
    refer = (set_base *)table[SET_BASE];
    return 1;
}

ptrdiff_t product(const ptrdiff_t *sizes, int count) {
    ptrdiff_t found = 1;
    _Pragma("clang loop vectorize(disable)") // there are few axes
    for (int i = 0; i < count; i++) found *= sizes[i];
    return found;
}

array *new_array(dtype_of_numpy *dtype, int axes, const ptrdiff_t *sizes) {
    Py_IncRef((PyObject *)dtype); // which is handed over
    return (array *)make(array_type, dtype, axes, sizes, NULL, NULL, 0, NULL);
}

array *new_view(array *x, int axes, const ptrdiff_t *sizes) {
    Py_IncRef((PyObject *)x->dtype);
    array *view = (array *)make(array_type, x->dtype, axes, sizes, NULL, x->data, x->flags & (IS_ALIGNED | IS_WRITABLE), NULL);
    if (!view) return NULL;
    Py_IncRef((PyObject *)x); // which is handed over, whatever comes
    if (!refer(view, (PyObject *)x)) return view;
    Py_DecRef((PyObject *)view);
    return NULL;
}

PyObject *cast_array(array *x, dtype_of_numpy *dtype) {
    Py_IncRef((PyObject *)dtype); // which is handed over
    return cast(x, dtype, 0);
}

int get_buffer(PyObject *x, Py_buffer *view, int flags) {
    const array *a = (const array *)x;
    const int wanted = (flags & PyBUF_WRITABLE ? IS_WRITABLE : 0) |
                       ((flags & PyBUF_STRIDES) == PyBUF_STRIDES ? 0 : IS_CONTIGUOUS);
    if (!is_array(x) || (a->flags & wanted) != wanted) return PyObject_GetBuffer(x, view, flags);
    *view = (Py_buffer){.buf = a->data, .itemsize = a->dtype->item_bytes, .ndim = a->axes, .shape = a->sizes,
                        .strides = a->strides};
    view->len = product(a->sizes, a->axes) * view->itemsize;
    return 0;
}
