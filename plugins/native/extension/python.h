// The part of CPython's stable ABI that the extension uses, as of Python 3.11.
//
// The stable ABI is the same on all platforms and in all later versions, so these declarations take
// the place of Python.h: building needs no headers of Python, also for other platforms. Free-threaded
// interpreters have no stable ABI, but the same functions; there, FREE_THREADED is defined, and what all
// objects begin with is another: it is the same in 3.13 and 3.14.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define FROM_PYTHON __declspec(dllimport) extern
#define TO_PYTHON __declspec(dllexport)
#else
#define FROM_PYTHON extern
#define TO_PYTHON __attribute__((visibility("default")))
#endif

typedef struct object PyObject;
typedef struct thread_state PyThreadState;

typedef struct {
    void *buf;
    PyObject *obj;
    ptrdiff_t len, itemsize;
    int readonly, ndim;
    char *format;
    ptrdiff_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;

typedef PyObject *PyCFunction(PyObject *self, PyObject *const *arguments, ptrdiff_t count);

typedef struct {
    const char *name;
    PyCFunction *function;
    int flags;
    const char *doc;
} PyMethodDef;

// What all objects begin with.
typedef struct {
#ifdef FREE_THREADED
    uintptr_t thread;
    uint16_t flags;
    uint8_t mutex, collector_bits;
    uint32_t own_references;
    ptrdiff_t shared_references;
#else
    ptrdiff_t references;
#endif
    void *type;
} object_head;

#ifdef FREE_THREADED
#define STATIC_HEAD {.own_references = UINT32_MAX} // which never dies
#else
#define STATIC_HEAD {.references = 1}
#endif

typedef struct {
    struct {
        object_head head;
        void *initialize;
        ptrdiff_t index;
        PyObject *copy;
    } base;
    const char *name, *doc;
    ptrdiff_t size;
    PyMethodDef *methods;
    void *slots, *traverse, *clear, *free;
} PyModuleDef;

#define METH_VARARGS 1
#define METH_KEYWORDS 2
#define METH_FASTCALL 0x80
#define PyBUF_SIMPLE 0
#define PyBUF_WRITABLE 1
#define PyBUF_FORMAT 4
#define PyBUF_ND 8
#define PyBUF_STRIDES 0x18
#define STABLE_ABI 3

FROM_PYTHON PyObject _Py_NoneStruct;
FROM_PYTHON PyObject *PyExc_TypeError, *PyExc_OverflowError, *PyExc_AttributeError;
FROM_PYTHON PyObject *PyExc_ValueError, *PyExc_BufferError, *PyExc_ImportError;

FROM_PYTHON int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
FROM_PYTHON void PyBuffer_Release(Py_buffer *view);
FROM_PYTHON PyObject *PyCFunction_NewEx(PyMethodDef *definition, PyObject *self, PyObject *module);
FROM_PYTHON PyCFunction *PyCFunction_GetFunction(PyObject *function);
FROM_PYTHON PyObject *PyCFunction_GetSelf(PyObject *function);
FROM_PYTHON PyObject *PyCapsule_New(void *pointer, const char *name, void (*destroy)(PyObject *));
FROM_PYTHON void *PyCapsule_GetPointer(PyObject *capsule, const char *name);
FROM_PYTHON PyObject *PyErr_Format(PyObject *kind, const char *format, ...);
FROM_PYTHON int PyErr_CheckSignals(void);
FROM_PYTHON void PyErr_Clear(void);
FROM_PYTHON PyObject *PyErr_NoMemory(void);
FROM_PYTHON PyObject *PyErr_Occurred(void);
FROM_PYTHON PyThreadState *PyEval_SaveThread(void);
FROM_PYTHON void PyEval_RestoreThread(PyThreadState *state);
FROM_PYTHON void *PyThread_allocate_lock(void);
FROM_PYTHON int PyThread_acquire_lock(void *lock, int waits);
FROM_PYTHON void PyThread_release_lock(void *lock);
FROM_PYTHON unsigned long PyThread_start_new_thread(void (*function)(void *), void *argument);
FROM_PYTHON void *PyMem_Malloc(size_t size);
FROM_PYTHON void PyMem_Free(void *memory);
FROM_PYTHON PyObject *PyDict_GetItemWithError(PyObject *dict, PyObject *key);
FROM_PYTHON PyObject *PyTuple_New(ptrdiff_t size);
FROM_PYTHON int PyTuple_SetItem(PyObject *tuple, ptrdiff_t index, PyObject *item);
FROM_PYTHON ptrdiff_t PyTuple_Size(PyObject *tuple);
FROM_PYTHON PyObject *PyTuple_GetItem(PyObject *tuple, ptrdiff_t index);
FROM_PYTHON double PyFloat_AsDouble(PyObject *number);
FROM_PYTHON long long PyLong_AsLongLong(PyObject *number);
FROM_PYTHON unsigned long long PyLong_AsUnsignedLongLongMask(PyObject *number);
FROM_PYTHON PyObject *PyBool_FromLong(long number);
FROM_PYTHON PyObject *PyLong_FromLongLong(long long number);
FROM_PYTHON PyObject *PyObject_Type(PyObject *object);
FROM_PYTHON PyObject *PyObject_GetAttr(PyObject *object, PyObject *name);
FROM_PYTHON PyObject *PyObject_GetAttrString(PyObject *object, const char *name);
FROM_PYTHON PyObject *PyImport_ImportModule(const char *name);
FROM_PYTHON int PyObject_IsTrue(PyObject *object);
FROM_PYTHON PyObject *PyObject_Call(PyObject *function, PyObject *arguments, PyObject *keywords);
FROM_PYTHON PyObject *PyObject_CallFunctionObjArgs(PyObject *function, ...);
FROM_PYTHON PyObject *PyModule_Create2(PyModuleDef *definition, int version);
#ifdef FREE_THREADED
FROM_PYTHON int PyUnstable_Module_SetGIL(PyObject *module, void *is_used);
#endif
FROM_PYTHON int PyModule_AddIntConstant(PyObject *module, const char *name, long value);
FROM_PYTHON PyObject *PyUnicode_InternFromString(const char *text);
FROM_PYTHON const char *PyUnicode_AsUTF8AndSize(PyObject *text, ptrdiff_t *size);
FROM_PYTHON void Py_IncRef(PyObject *object);
FROM_PYTHON void Py_DecRef(PyObject *object);
