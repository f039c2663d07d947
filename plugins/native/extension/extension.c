// The Python module of one variant: it gives out the kernels as builtin functions.
//
// A kernel takes what its C function takes: arrays as objects with contiguous buffers, or None,
// tuples of arrays, and numbers. While much memory is read or written, other threads of Python run.
#include "arrays.h"
#include "calls.h"

#include <string.h>

#include "small_results.h"
#include "program.h"
#include "sharing.h"

#define LONG (1 << 18) // bytes of all arrays from which on other threads run

static PyObject *nothing(void) {
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

// Read the arrays of a tuple; return whether that is possible.
static int read_list(PyObject *tuple, int flags, list *l, ptrdiff_t *bytes) {
    const ptrdiff_t count = PyTuple_Size(tuple);
    if (count < 0) return 0;
    l->pointers = PyMem_Malloc((size_t)(count + 1) * (sizeof(void *) + sizeof(Py_buffer)));
    if (!l->pointers) return PyErr_NoMemory() != NULL;
    l->views = (Py_buffer *)(l->pointers + count + 1);
    for (l->count = 0; l->count < count; l->count++) {
        Py_buffer *view = l->views + l->count;
        if (get_buffer(PyTuple_GetItem(tuple, l->count), view, flags)) return 0;
        l->pointers[l->count] = view->buf;
        *bytes += view->len;
    }
    return 1;
}

// Read argument i; return whether that is possible.
static int read_argument(kernel_call *c, PyObject *argument, int i) {
    const kernel *k = c->k;
    value *to = c->values + i;
    c->item_bytes[i] = 0;
    const int kind = signature_of(k)->kinds[i];
    const int is_whole = kind == READ || kind == DESCRIPTOR || kind == ALL_READ;
    const int flags = kind == STRIDED ? PyBUF_STRIDES : is_whole ? PyBUF_SIMPLE : PyBUF_WRITABLE;
    switch (kind) {
    case ALL_READ:
    case ALL_WRITTEN: {
        list *l = c->lists + c->lists_held++;
        *l = (list){};
        const int is_read = read_list(argument, flags, l, &c->bytes);
        to->pointer = l->pointers;
        return is_read;
    }
    case READ:
    case DESCRIPTOR:
    case STRIDED:
    case WRITTEN:
        to->pointer = NULL;
        if (argument == &_Py_NoneStruct) return 1;
        if (get_buffer(argument, c->views + c->held, flags)) return 0;
        to->pointer = c->views[c->held].buf;
        c->item_bytes[i] = c->views[c->held].itemsize;
        const ptrdiff_t length = c->views[c->held++].len;
        c->bytes += length;
        if (kind != DESCRIPTOR || is_descriptor(to->pointer, length)) return 1;
        PyErr_Format(PyExc_ValueError, "%s: argument %d has more axes than %d, or not their sizes", k->name, i,
                     MOST_AXES);
        return 0;
    case FLOAT:
        to->number = PyFloat_AsDouble(argument);
        return to->number != -1 || !PyErr_Occurred();
    case BITS:
        to->integer = (int64_t)PyLong_AsUnsignedLongLongMask(argument);
        return to->integer != -1 || !PyErr_Occurred();
    default:
        to->integer = PyLong_AsLongLong(argument);
        if (to->integer == -1 && PyErr_Occurred()) return 0;
        if (to->integer == (int32_t)to->integer) return 1;
        PyErr_Format(PyExc_OverflowError, "%s: argument %d does not fit in 32 bits", k->name, i);
        return 0;
    }
}

int open_call(PyObject *self, PyObject *const *arguments, ptrdiff_t count, kernel_call *c) {
    const kernel *k = c->k = PyCapsule_GetPointer(self, NULL);
    c->held = c->lists_held = 0;
    c->bytes = 0;
    if (count != signature_of(k)->count) {
        PyErr_Format(PyExc_TypeError, "%s takes %d arguments, not %zd", k->name, signature_of(k)->count, count);
        return 0;
    }
    for (int i = 0; i < count; i++)
        if (!read_argument(c, arguments[i], i)) return 0;
    return 1;
}

void close_call(kernel_call *c) {
    while (c->held > 0) PyBuffer_Release(c->views + --c->held);
    while (c->lists_held > 0) {
        list *l = c->lists + --c->lists_held;
        while (l->count > 0) PyBuffer_Release(l->views + --l->count);
        PyMem_Free(l->pointers);
    }
}

PyObject *run_kernel(PyObject *self, PyObject *const *arguments, ptrdiff_t count) {
    kernel_call c;
    const int is_ready = open_call(self, arguments, count, &c);
    int64_t result = 0;
    if (is_ready) {
        PyThreadState *state = c.bytes < LONG ? NULL : PyEval_SaveThread();
        result = call_kernel(c.k, c.values);
        if (state) PyEval_RestoreThread(state);
    }
    close_call(&c);
    return !is_ready ? NULL : signature_of(c.k)->has_result ? PyLong_FromLongLong(result) : nothing();
}

static PyMethodDef definition = {"kernel", run_kernel, METH_FASTCALL, NULL};

const kernel *find_kernel(const char *name) {
    for (const kernel *k = kernels; *k->name; k++)
        if (!strcmp(k->name, name)) return k;
    PyErr_Format(PyExc_AttributeError, "there is no kernel '%s'", name);
    return NULL;
}

// Return the kernel of a name.
static PyObject *kernel_of([[maybe_unused]] PyObject *module, PyObject *const *arguments,
                           ptrdiff_t count) {
    if (count != 1) return PyErr_Format(PyExc_TypeError, "kernel takes one name");
    const char *name = PyUnicode_AsUTF8AndSize(arguments[0], NULL);
    const kernel *k = name ? find_kernel(name) : NULL;
    if (!k) return NULL;
    PyObject *self = PyCapsule_New((void *)k, NULL, NULL);
    PyObject *function = self ? PyCFunction_NewEx(&definition, self, NULL) : NULL;
    if (self) Py_DecRef(self);
    return function;
}

// Return how much the processor can do: 2, 3 or 4, the levels of the x86-64 psABI; else 0.
static PyObject *x86_64_level(PyObject *, PyObject *const *, ptrdiff_t);

static PyMethodDef methods[] = {
    {"kernel", kernel_of, METH_FASTCALL, "Return the kernel of a name."},
    {"make_small_result_function", make_small_result_function, METH_FASTCALL,
     "Return a function that computes small results of kernels in C."},
    {"make_small_concatenation", make_small_concatenation, METH_FASTCALL,
     "Return a function that concatenates small arrays in C."},
    {"make_program", make_program, METH_FASTCALL, "Return a function that runs a table of calls."},
    {"run_parts_in_threads", run_parts_in_threads, METH_FASTCALL, "Divide a call among several threads."},
    {"run_calls_in_threads", run_calls_in_threads, METH_FASTCALL, "Make calls in several threads."},
    {"forget_threads", forget_threads, METH_FASTCALL, "Forget the threads, in a forked child."},
    {"x86_64_level", x86_64_level, METH_FASTCALL, "Return the x86-64 level of the processor, or 0."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef module = {
    .base = {.head = STATIC_HEAD}, .name = MODULE, .doc = "Kernels.", .size = -1, .methods = methods};

#define JOINED(a, b) a##b
#define INITIALIZER(name) JOINED(PyInit_, name)

TO_PYTHON PyObject *INITIALIZER(MODULE_NAME)(void) {
    if (!load_numpy()) return NULL;
    PyObject *created = PyModule_Create2(&module, STABLE_ABI);
#ifdef FREE_THREADED
    // Kernels share nothing, and programs are taken by one thread at a time (see program.c).
    if (created) PyUnstable_Module_SetGIL(created, (void *)1);
#endif
    if (created) PyModule_AddIntConstant(created, "VECTOR_BYTES", VECTOR_BYTES);
    return created;
}

#ifdef __x86_64__
#include <cpuid.h>

// The registers that the operating system saves (XGETBV with index 0).
static uint32_t saved_registers(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static PyObject *x86_64_level(PyObject *, PyObject *const *, ptrdiff_t) {
    uint32_t a, b, c, d, wide_b = 0, more_c = 0;
    const uint32_t v2 = bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B;
    const uint32_t v3 = bit_AVX | bit_FMA | bit_F16C | bit_MOVBE | bit_OSXSAVE;
    const uint32_t v3_b = bit_AVX2 | bit_BMI | bit_BMI2, v3_more = bit_LZCNT;
    const uint32_t v4_b = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & v2) != v2) return PyLong_FromLongLong(0);
    const uint32_t basic_c = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) wide_b = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) more_c = c;
    const uint32_t saved = basic_c & bit_OSXSAVE ? saved_registers() : 0;
    const int is_v3 = (basic_c & v3) == v3 && (wide_b & v3_b) == v3_b &&
                      (more_c & v3_more) == v3_more && (saved & 0x06) == 0x06;
    const int is_v4 = is_v3 && (wide_b & v4_b) == v4_b && (saved & 0xe6) == 0xe6;
    return PyLong_FromLongLong(is_v4 ? 4 : is_v3 ? 3 : 2);
}
#else
static PyObject *x86_64_level(PyObject *, PyObject *const *, ptrdiff_t) { return PyLong_FromLongLong(0); }
#endif
