// Calls that threads share, see sharing.h.
#include "sharing.h"

#include <string.h>

#include "calls.h"
#include "program.h"
#include "threads.h"

#define MOST_VECTORS 4 // of a ufunc
#define MOST_NUMBERS 256 // of a descriptor

// An elementwise function of NumPy, and the vectors that it is called with.
typedef struct {
    loop_of_numpy *loop;
    void *data;
    Py_buffer views[MOST_VECTORS];
    ptrdiff_t count, steps[MOST_VECTORS];
    int held;
} ufunc_call;

enum part_kind { KERNEL, PROGRAM, UFUNC };

typedef struct {
    enum part_kind kind;
    union {
        kernel_call kernel;
        program_run program;
        ufunc_call ufunc;
    };
} part;

// The number by which NumPy knows the type of a buffer; -1 for those that no loop here takes.
static int type_of(const Py_buffer *view) {
    static const char formats[] = "?bBhHiIlLqQfd";
    const char *format = view->format;
    if (!format) return -1;
    const char *found = *format && !format[1] ? strchr(formats, *format) : NULL;
    return found ? (int)(found - formats) : !strcmp(format, "Zf") ? 14 : !strcmp(format, "Zd") ? 15 : -1;
}

// Hold the vectors; return whether NumPy has a loop for exactly these. There is no error of Python in any case.
static int open_ufunc(ufunc *u, PyObject *const *arguments, ptrdiff_t count, ufunc_call *c) {
    c->held = 0;
    if (u->outputs != 1 || u->arrays != count || count > MOST_VECTORS) return 0;
    int types[MOST_VECTORS];
    for (; c->held < count; c->held++) {
        Py_buffer *view = c->views + c->held;
        const int is_result = c->held == count - 1;
        if (PyObject_GetBuffer(arguments[c->held], view,
                               PyBUF_STRIDES | PyBUF_FORMAT | (is_result ? PyBUF_WRITABLE : 0))) {
            PyErr_Clear();
            return 0;
        }
        types[c->held] = type_of(view);
        if (view->ndim != 1) {
            PyBuffer_Release(view);
            return 0;
        }
    }
    c->count = c->views[count - 1].shape[0];
    for (int i = 0; i < count; i++) {
        const Py_buffer *view = c->views + i;
        if (view->shape[0] != c->count && (view->shape[0] != 1 || i == count - 1)) return 0;
        c->steps[i] = view->shape[0] == 1 && c->count != 1 ? 0 : view->strides[0];
    }
    for (int i = 0; i < u->loop_count; i++) {
        int is_right = u->loops[i] != NULL;
        for (int j = 0; is_right && j < count; j++) is_right = u->types[i * u->arrays + j] == types[j];
        if (!is_right) continue;
        c->loop = u->loops[i], c->data = u->data[i];
        return 1;
    }
    return 0;
}

static void close_part(part *p) {
    if (p->kind == KERNEL) close_call(&p->kernel);
    if (p->kind == PROGRAM) close_run(&p->program);
    if (p->kind == UFUNC)
        while (p->ufunc.held > 0) PyBuffer_Release(p->ufunc.views + --p->ufunc.held);
}

// Read a call of a function, or of the first item if that is NULL; return 1, or 0 if it is something else, or -1 with an
// error of Python. What it holds is to be closed.
static int open_part(PyObject *function, PyObject *given, PyObject *ufunc_type, part *p) {
    PyObject *arguments[MOST_ARGUMENTS];
    const int first = function == NULL;
    const ptrdiff_t count = PyTuple_Size(given) - first;
    p->kind = UFUNC, p->ufunc.held = 0;
    if (count < 0 || count > MOST_ARGUMENTS) {
        PyErr_Clear();
        return 0;
    }
    for (int i = 0; i < count; i++) arguments[i] = PyTuple_GetItem(given, first + i);
    if (!function) function = PyTuple_GetItem(given, 0);
    PyObject *type = PyObject_Type(function);
    if (!type) return -1;
    Py_DecRef(type); // which the function keeps
    if (type == ufunc_type) return open_ufunc((ufunc *)function, arguments, count, &p->ufunc);
    PyCFunction *compiled = PyCFunction_GetFunction(function);
    if (compiled == run_kernel) {
        p->kind = KERNEL;
        return open_call(PyCFunction_GetSelf(function), arguments, count, &p->kernel) ? 1 : -1;
    }
    if (compiled == run_program) {
        p->kind = PROGRAM;
        return open_run(PyCFunction_GetSelf(function), arguments, count, &p->program) ? 1 : -1;
    }
    PyErr_Clear();
    return 0;
}

static void run_part(void *parts, int i) {
    part *p = (part *)parts + i;
    if (p->kind == KERNEL) {
        call_kernel(p->kernel.k, p->kernel.values);
    } else if (p->kind == PROGRAM) {
        run_part_of_program(&p->program);
    } else {
        char *vectors[MOST_VECTORS];
        for (int j = 0; j < p->ufunc.held; j++) vectors[j] = p->ufunc.views[j].buf;
        p->ufunc.loop(vectors, &p->ufunc.count, p->ufunc.steps, p->ufunc.data);
    }
}

PyObject *run_calls_in_threads([[maybe_unused]] PyObject *module, PyObject *const *arguments, ptrdiff_t count) {
    if (count != 4) return PyErr_Format(PyExc_TypeError, "run_calls_in_threads takes four arguments");
    PyObject *calls = arguments[2];
    const long long processors = PyLong_AsLongLong(arguments[1]), threads = PyLong_AsLongLong(arguments[3]);
    const ptrdiff_t most = PyTuple_Size(calls);
    if (PyErr_Occurred()) return NULL;
    part *parts = PyMem_Malloc((size_t)(most + 1) * sizeof *parts);
    if (!parts) return PyErr_NoMemory();
    int opened = 0, is_ready = 1;
    while (is_ready > 0 && opened < most) {
        is_ready = open_part(NULL, PyTuple_GetItem(calls, opened), arguments[0], parts + opened);
        opened++;
    }
    if (is_ready > 0) {
        start_helpers((int)threads, (int)processors);
        PyThreadState *state = PyEval_SaveThread();
        run_parts(run_part, parts, opened, (int)threads);
        PyEval_RestoreThread(state);
    }
    while (opened > 0) close_part(parts + --opened);
    PyMem_Free(parts);
    return is_ready < 0 ? NULL : PyBool_FromLong(is_ready);
}

// A call that is divided.
typedef struct {
    part whole;
    int64_t steps[MOST_ARGUMENTS], count, multiple;
    int arguments, place, parts;
    int64_t descriptor_bytes; // of the argument at `place`, if that is a vector of integers
    int number; // which of these is the number of items
} division;

static int64_t bound(const division *d, int part) {
    return part == d->parts ? d->count : d->count * part / d->parts / d->multiple * d->multiple;
}

static void run_items(void *job, int part) {
    const division *d = job;
    const int64_t first = bound(d, part), count = bound(d, part + 1) - first;
    if (!count) return;
    if (d->whole.kind == KERNEL) {
        const kernel_call *c = &d->whole.kernel;
        value values[MOST_ARGUMENTS];
        for (int i = 0; i < d->arguments; i++) {
            values[i] = c->values[i];
            const int64_t step = d->steps[i], items = step < 0 ? -step * part : step * (first / d->multiple);
            if (step && values[i].pointer)
                values[i].pointer = (char *)values[i].pointer + items * c->item_bytes[i];
        }
        int32_t numbers[MOST_NUMBERS];
        if (d->descriptor_bytes) {
            memcpy(numbers, values[d->place].pointer, (size_t)d->descriptor_bytes);
            numbers[d->number] = (int32_t)count;
            values[d->place].pointer = numbers;
        } else if (d->place >= 0) {
            values[d->place].integer = count;
        }
        call_kernel(c->k, values);
    } else {
        const ufunc_call *c = &d->whole.ufunc;
        char *vectors[MOST_VECTORS];
        for (int i = 0; i < d->arguments; i++) vectors[i] = (char *)c->views[i].buf + first * c->steps[i];
        const ptrdiff_t some = count;
        c->loop(vectors, &some, c->steps, c->data);
    }
}

// Whether every step is that of an array, and the place that of a number, of a descriptor, or of a window, which begins
// with the number of images.
static int are_steps_right(division *d) {
    const kernel_call *c = &d->whole.kernel;
    if (d->whole.kind == UFUNC) return d->place == -1 && d->count == d->whole.ufunc.count;
    for (int i = 0; i < d->arguments; i++)
        if (d->steps[i] && c->values[i].pointer && !c->item_bytes[i]) return 0;
    if (d->whole.kind != KERNEL || d->place >= d->arguments) return 0;
    const enum kind kind = d->place < 0 ? INTEGER : signature_of(c->k)->kinds[d->place];
    if (kind == INTEGER) return 1;
    const int32_t *numbers = c->values[d->place].pointer;
    for (int i = 0; i < c->held; i++)
        if (c->views[i].buf == numbers) d->descriptor_bytes = c->views[i].len;
    d->number = kind == DESCRIPTOR;
    return (kind == DESCRIPTOR || kind == READ) && d->descriptor_bytes > (int64_t)sizeof *numbers &&
           d->descriptor_bytes <= (int64_t)(MOST_NUMBERS * sizeof *numbers) && *numbers > 0 &&
           numbers[d->number] == d->count;
}

PyObject *run_parts_in_threads([[maybe_unused]] PyObject *module, PyObject *const *arguments, ptrdiff_t count) {
    if (count != 10) return PyErr_Format(PyExc_TypeError, "run_parts_in_threads takes ten arguments");
    division d;
    const ptrdiff_t given = PyTuple_Size(arguments[3]), steps = PyTuple_Size(arguments[4]);
    if (steps >= 0 && (given != steps || given > MOST_ARGUMENTS))
        return PyErr_Format(PyExc_ValueError,
                            "run_parts_in_threads: there is a step for each of %d or fewer arguments",
                            MOST_ARGUMENTS);
    d.arguments = (int)given, d.descriptor_bytes = 0;
    for (int i = 0; i < steps; i++) d.steps[i] = PyLong_AsLongLong(PyTuple_GetItem(arguments[4], i));
    long long numbers[5];
    for (int i = 0; i < 5; i++) numbers[i] = PyLong_AsLongLong(arguments[5 + i]);
    const int processors = (int)PyLong_AsLongLong(arguments[1]), threads = (int)numbers[4];
    if (PyErr_Occurred()) return NULL;
    d.place = (int)numbers[0], d.count = numbers[1], d.multiple = numbers[2], d.parts = (int)numbers[3];
    if (d.place < -1 || d.count < 0 || d.multiple < 1 || d.parts < 1)
        return PyErr_Format(PyExc_ValueError, "run_parts_in_threads: a number is out of range");
    int is_ready = open_part(arguments[2], arguments[3], arguments[0], &d.whole);
    if (is_ready > 0 && !are_steps_right(&d)) {
        PyErr_Format(PyExc_ValueError,
                     "run_parts_in_threads: a step is not that of an array, or a place not that of a number");
        is_ready = -1;
    }
    if (is_ready > 0) {
        start_helpers(threads, processors);
        PyThreadState *state = PyEval_SaveThread();
        run_parts(run_items, &d, d.parts, threads);
        PyEval_RestoreThread(state);
    }
    close_part(&d.whole);
    return is_ready < 0 ? NULL : PyBool_FromLong(is_ready);
}

PyObject *forget_threads([[maybe_unused]] PyObject *module, [[maybe_unused]] PyObject *const *arguments,
                         ptrdiff_t count) {
    if (count) return PyErr_Format(PyExc_TypeError, "forget_threads takes no arguments");
    forget_helpers();
    return PyBool_FromLong(1);
}
