// Results of a few elements, see small_results.h.
#include "small_results.h"

#include <string.h>

#include "arrays.h"
#include "calls.h"
#include "nodes.h"

#define MOST_VARIANTS 16
#define MOST_READ 3 // arrays
#define MOST_RANK 64
#define MOST_FLAGS 2
#define MOST_ORDERED 1024 // elements of a row
#define SHORT_RUN 64      // elements
#define MOST_SHORT_RUNS 128
#define TRACKED 16384 // elements from which on an array may be tracked, and computing it takes time

enum how { EACH = 'e', PAIRS = 'p', CAST = 'c', AXES = 'a', AXIS = 'i', SCAN = 's', ROWS = 'r', BAND = 'b', LARGEST = 'l',
           VIEW = 'v', NEW_AXIS = 'n', TAKE = 't', FILL = 'f' };

typedef struct {
    dtype_of_numpy *dtype, *result;
    PyObject *function; // to be kept
    const kernel *k;    // or a loop of a ufunc
    loop_of_numpy *loop;
    void *data;
} variant;

typedef struct {
    enum how how;
    int inputs, flags, count; // of variants
    ptrdiff_t most;
    PyObject *otherwise, *names; // of what has the axes, and of flags
    PyObject *allocate;          // what makes arrays that are tracked
    variant variants[MOST_VARIANTS];
} maker;

static PyObject *keep_dims_name, *shape_name, *value_name, *dtype_name, *numpy_name;

// Return the variant for an array, whose rows have no gaps unless the result is elementwise, or NULL.
static const variant *find_variant(const maker *m, const array *x) {
    if (!is_array((const PyObject *)x) || !(x->flags & IS_CONTIGUOUS || m->how == EACH)) return NULL;
    for (int i = 0; i < m->count; i++)
        if (m->variants[i].dtype == x->dtype) return m->variants + i;
    return NULL;
}

static int is_few(const maker *m, ptrdiff_t size) { return 0 < size && size < m->most; }

// Where an array is in a run of the innermost loop: how many bytes are between elements, and between those of two runs.
typedef struct {
    const char *at;
    ptrdiff_t step, item_bytes, turn; // of elements
} operand;

static int have_equal_sizes(const ptrdiff_t *x, const ptrdiff_t *y, int count) {
    int i = 0;
    while (i < count && x[i] == y[i]) i++;
    return i == count;
}

// Return how many elements are between two rows of an array with gaps between them; 0 if that differs, or rows have gaps.
static ptrdiff_t find_turn(const array *x) {
    const int last = x->axes - 1;
    if (last < 1 || (x->sizes[last] > 1 && x->strides[last] != x->dtype->item_bytes)) return 0;
    for (int i = 1; i < last; i++)
        if (x->strides[i - 1] != x->strides[i] * x->sizes[i]) return 0;
    const ptrdiff_t bytes = x->strides[last - 1];
    return bytes % x->dtype->item_bytes ? 0 : bytes / x->dtype->item_bytes;
}

// The shape of a result, and its elements.
typedef struct {
    int axes;
    ptrdiff_t size, sizes[MOST_RANK];
} shape;

// Describe how an array stands beside a result: as large, as a number, as a row that all rows meet, or as a column. Return how
// many elements follow each other until the next run; 0 if it is none of these.
static ptrdiff_t describe_operand(const array *x, const shape *whole, operand *to) {
    const int more = whole->axes - x->axes, last = x->axes - 1, is_dense = x->flags & IS_CONTIGUOUS;
    const ptrdiff_t own = product(x->sizes, x->axes);
    if (own == 1 && whole->size > 1) return to->step = to->turn = 0, whole->size;
    int ones = 0; // axes in front of a row
    while (ones < last && x->sizes[ones] == 1) ones++;
    to->turn = own < whole->size ? 0 : -1; // the elements of a run
    if (is_dense && have_equal_sizes(x->sizes + ones, whole->sizes + more + ones, x->axes - ones)) return own;
    to->turn = is_dense ? 1 : find_turn(x);
    if (more || to->turn < 1 || !have_equal_sizes(x->sizes, whole->sizes, last)) return 0;
    if (x->sizes[last] == 1) to->step = 0;
    return x->sizes[last] == 1 || (!is_dense && x->sizes[last] == whole->sizes[last]) ? whole->sizes[last] : 0;
}

// Describe arrays, and find the shape of the result. Return how many elements have a run, or 0.
static ptrdiff_t describe_operands(PyObject *const *arrays, int count, operand *operands, shape *whole) {
    whole->axes = 0;
    for (int i = 0; i < count; i++) {
        const array *x = (const array *)arrays[i];
        for (; whole->axes < x->axes; whole->axes++) {
            memmove(whole->sizes + 1, whole->sizes, (size_t)whole->axes * sizeof *whole->sizes);
            whole->sizes[0] = 1;
        }
        ptrdiff_t *sizes = whole->sizes + whole->axes - x->axes;
        for (int axis = 0; axis < x->axes; axis++)
            if (x->sizes[axis] != 1) sizes[axis] = x->sizes[axis];
    }
    ptrdiff_t run = whole->size = product(whole->sizes, whole->axes);
    for (int i = 0; run && i < count; i++) {
        const ptrdiff_t own = describe_operand((const array *)arrays[i], whole, operands + i);
        if (own != whole->size) run = run == whole->size || run == own ? own : 0;
    }
    return run;
}

// Compute `size` elements of a result, `run` elements at a time.
static void write_each(const variant *v, int inputs, const operand *operands, char *out, ptrdiff_t run, ptrdiff_t size) {
    ptrdiff_t bytes[MOST_READ + 1], turns[MOST_READ + 1];
    value values[2 * (MOST_READ + 1)], *numbers = values + inputs + 1;
    for (int i = 0; i < inputs; i++) {
        const operand *x = operands + i;
        values[i].pointer = (char *)x->at;
        numbers[1 + i].integer = x->step;
        bytes[i] = x->step * x->item_bytes;
        turns[i] = (x->turn < 0 ? run : x->turn) * x->item_bytes;
    }
    values[inputs].pointer = out;
    numbers[0].integer = run;
    bytes[inputs] = v->result->item_bytes;
    turns[inputs] = run * bytes[inputs];
    PyThreadState *state = size < TRACKED ? NULL : PyEval_SaveThread(); // for other threads
    for (ptrdiff_t done = 0; done < size; done += run) {
        if (v->loop)
            v->loop((char **)values, &run, bytes, v->data);
        else
            call_kernel(v->k, values);
        for (int i = 0; i <= inputs; i++) values[i].pointer = (char *)values[i].pointer + turns[i];
    }
    if (state) PyEval_RestoreThread(state);
}

// Return a new array.
static array *make_result(const maker *m, const variant *v, const shape *whole) {
    if (whole->size < TRACKED) return new_array(v->result, whole->axes, whole->sizes);
    PyObject *sizes = PyTuple_New(whole->axes), *made = NULL;
    for (int i = 0; sizes && i < whole->axes; i++) PyTuple_SetItem(sizes, i, PyLong_FromLongLong(whole->sizes[i]));
    if (sizes && !PyErr_Occurred()) made = PyObject_CallFunctionObjArgs(m->allocate, sizes, (PyObject *)v->result, NULL);
    if (sizes) Py_DecRef(sizes);
    return (array *)made;
}

static PyObject *run_each(PyObject *self, PyObject *const *arrays, ptrdiff_t count) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    if (count < 1 || count > MOST_READ) return PyErr_Format(PyExc_TypeError, "an implementation takes one to three arrays here");
    const variant *v = count == m->inputs ? find_variant(m, (const array *)arrays[count - 1]) : NULL;
    const array *first = (const array *)arrays[0];
    shape whole;
    operand operands[MOST_READ];
    int are_alike = 1;
    for (int i = 0; v && i < count; i++) {
        const array *x = (const array *)arrays[i];
        if (!is_array(arrays[i]) || !(x->flags & IS_CONTIGUOUS || m->how == EACH) ||
            (x->dtype != v->dtype && (i || count < MOST_READ || x->dtype->kind != 'b'))) { // the first of three is a condition
            v = NULL;
            break;
        }
        operands[i] = (operand){.at = x->data, .step = 1, .item_bytes = x->dtype->item_bytes};
        are_alike &= x->flags & IS_CONTIGUOUS && x->axes == first->axes && have_equal_sizes(x->sizes, first->sizes, x->axes);
    }
    const ptrdiff_t run = v && (are_alike || m->how == EACH) ? describe_operands(arrays, (int)count, operands, &whole) : 0;
    // Other loops take several axes of short runs, and a power with a single exponent has other functions.
    if (!run || (run < SHORT_RUN && whole.size > run * MOST_SHORT_RUNS) || !is_few(m, whole.size) ||
        (m->how == PAIRS && whole.size == 1))
        return PyObject_CallFunctionObjArgs(m->otherwise, arrays[0], count > 1 ? arrays[1] : NULL, count > 2 ? arrays[2] : NULL,
                                            NULL);
    array *out = make_result(m, v, &whole);
    if (out) write_each(v, (int)count, operands, out->data, run, whole.size);
    return (PyObject *)out;
}

// Convert with a function of C, or else with NumPy's, whose casts of floats to integers are undefined beyond their limits.
static PyObject *run_cast(PyObject *self, PyObject *arguments, PyObject *keywords) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    array *x = PyTuple_Size(arguments) == 1 && keywords ? (array *)PyTuple_GetItem(arguments, 0) : NULL;
    const int is_read = x && is_array((PyObject *)x) && x->flags & IS_CONTIGUOUS && is_few(m, product(x->sizes, x->axes));
    PyObject *named = is_read ? PyDict_GetItemWithError(keywords, dtype_name) : NULL;
    dtype_of_numpy *dtype = named ? (dtype_of_numpy *)PyObject_GetAttr(named, numpy_name) : NULL;
    const variant *v = NULL; // of C, or of NumPy for any dtypes that come before
    for (int i = 0; dtype && i < m->count && !(v && v->k); i++)
        if (m->variants[i].result == dtype && (!m->variants[i].k || m->variants[i].dtype == x->dtype)) v = m->variants + i;
    if (v && !v->k && (!strchr("biuf", x->dtype->kind) || (x->dtype->kind == 'f' && strchr("iu", dtype->kind)))) v = NULL;
    PyObject *out = v && !v->k ? cast_array(x, dtype) : NULL;
    if (v && v->k && (out = (PyObject *)new_array(dtype, x->axes, x->sizes))) {
        const operand whole = {.at = x->data};
        const ptrdiff_t size = product(x->sizes, x->axes);
        write_each(v, 1, &whole, ((array *)out)->data, size, size);
    }
    if (dtype) Py_DecRef((PyObject *)dtype);
    if (v) return out;
    PyErr_Clear(); // what is no dtype is for the other function
    return PyObject_Call(m->otherwise, arguments, keywords);
}

// What a kernel is called with behind the arrays, and the shape of the result.
typedef struct {
    value numbers[3 + MOST_FLAGS];
    int count, axes;
    ptrdiff_t sizes[MOST_RANK];
} layout;

// Describe a call along the axes from `first` to `last`, which remain as they are in a scan or in rows.
static void describe(const maker *m, const array *x, int first, int last, int is_kept, layout *l) {
    l->axes = 0;
    for (int axis = 0; axis < x->axes; axis++) {
        const int is_reduced = first <= axis && axis < last && m->how != SCAN && m->how != ROWS;
        if (!is_reduced || is_kept) l->sizes[l->axes++] = is_reduced ? 1 : x->sizes[axis];
    }
    l->numbers[0].integer = product(x->sizes, first);
    l->numbers[1].integer = product(x->sizes + first, last - first);
    l->numbers[2].integer = product(x->sizes + last, x->axes - last);
    l->count = m->how == ROWS ? 2 : 3;
}

// Read what keywords say; return whether a kernel takes it, 0 also with an error of Python.
static int read_keywords(const maker *m, const array *x, PyObject *keywords, layout *l) {
    PyObject *axes = PyDict_GetItemWithError(keywords, PyTuple_GetItem(m->names, 0));
    if (!axes || !x->axes) return 0;
    if (m->how == AXES) {
        PyObject *kept = PyDict_GetItemWithError(keywords, keep_dims_name);
        const ptrdiff_t count = kept ? PyTuple_Size(axes) : 0;
        if (count < 1 || count > x->axes) return 0;
        const int first = (int)PyLong_AsLongLong(PyTuple_GetItem(axes, 0));
        const int last = (int)PyLong_AsLongLong(PyTuple_GetItem(axes, count - 1)) + 1, is_kept = PyObject_IsTrue(kept);
        if (first < 0 || last > x->axes || last - first != count || is_kept < 0) return 0;
        describe(m, x, first, last, is_kept, l);
        return 1;
    }
    const long long axis = PyLong_AsLongLong(axes);
    if (axis < 0 || axis >= x->axes || (m->how == ROWS && axis != x->axes - 1)) return 0;
    describe(m, x, (int)axis, (int)axis + 1, 0, l);
    for (ptrdiff_t i = 1, names = PyTuple_Size(m->names); i < names; i++) {
        PyObject *flag = PyDict_GetItemWithError(keywords, PyTuple_GetItem(m->names, i));
        const int is_set = flag ? PyObject_IsTrue(flag) : -1;
        if (is_set < 0) return 0;
        l->numbers[l->count++].integer = is_set;
    }
    return 1;
}

static PyObject *run_along(PyObject *self, PyObject *arguments, PyObject *keywords) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    const array *x = PyTuple_Size(arguments) == 1 && keywords ? (const array *)PyTuple_GetItem(arguments, 0) : NULL;
    const variant *v = x ? find_variant(m, x) : NULL;
    layout l;
    if (!v || !is_few(m, product(x->sizes, x->axes)) || !read_keywords(m, x, keywords, &l))
        return PyErr_Occurred() ? NULL : PyObject_Call(m->otherwise, arguments, keywords);
    array *out = new_array(v->result, l.axes, l.sizes);
    if (!out) return NULL;
    value values[2 + 3 + MOST_FLAGS] = {{.pointer = x->data}, {.pointer = out->data}};
    memcpy(values + 2, l.numbers, (size_t)l.count * sizeof(value));
    call_kernel(v->k, values);
    return (PyObject *)out;
}

static int is_number(const PyObject *x) {
    const array *a = (const array *)x;
    return is_array(x) && !a->axes && a->dtype->kind == 'i' && a->dtype->item_bytes == 4 && a->dtype->order != '>';
}

static PyObject *run_band(PyObject *self, PyObject *const *arrays, ptrdiff_t count) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    if (count != 3) return PyErr_Format(PyExc_TypeError, "an implementation takes three arrays here");
    const array *x = (const array *)arrays[0], *below = (const array *)arrays[1], *above = (const array *)arrays[2];
    const variant *v = is_number(arrays[1]) && is_number(arrays[2]) ? find_variant(m, x) : NULL;
    const ptrdiff_t size = v && x->axes > 1 ? product(x->sizes, x->axes) : 0;
    if (!is_few(m, size)) return PyObject_CallFunctionObjArgs(m->otherwise, arrays[0], arrays[1], arrays[2], NULL);
    array *out = new_array(v->result, x->axes, x->sizes);
    if (!out) return NULL;
    const ptrdiff_t rows = x->sizes[x->axes - 2], columns = x->sizes[x->axes - 1];
    const value values[] = {{.pointer = x->data},     {.pointer = out->data},   {.integer = size / (rows * columns)},
                            {.integer = rows},        {.integer = columns},     {.pointer = below->data},
                            {.pointer = above->data}};
    call_kernel(v->k, values);
    return (PyObject *)out;
}

// Return a keyword that is a whole number, or -1 if there is none, also with an error of Python.
static long long read_number(PyObject *keywords, PyObject *name) {
    PyObject *said = PyDict_GetItemWithError(keywords, name);
    return said ? PyLong_AsLongLong(said) : -1;
}

// Copy the elements of x at `count` places on an axis, which are in range.
static void copy_elements(const array *x, int axis, const ptrdiff_t *places, ptrdiff_t count, char *to) {
    const ptrdiff_t outer = product(x->sizes, axis), size = x->sizes[axis];
    const ptrdiff_t bytes = product(x->sizes + axis + 1, x->axes - axis - 1) * x->dtype->item_bytes;
    for (const char *from = x->data, *end = from + outer * size * bytes; from < end; from += size * bytes)
        for (ptrdiff_t i = 0; i < count; i++, to += bytes) memcpy(to, from + places[i] * bytes, (size_t)bytes);
}

static PyObject *run_largest(PyObject *self, PyObject *arguments, PyObject *keywords) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    const array *x = PyTuple_Size(arguments) == 1 && keywords ? (const array *)PyTuple_GetItem(arguments, 0) : NULL;
    const variant *v = x ? find_variant(m, x) : NULL;
    const ptrdiff_t size = v && x->axes ? product(x->sizes, x->axes) : 0;
    const ptrdiff_t length = is_few(m, size) ? x->sizes[x->axes - 1] : 0;
    const ptrdiff_t kept = length && length < MOST_ORDERED ? (ptrdiff_t)read_number(keywords, PyTuple_GetItem(m->names, 0)) : -1;
    const long long is_sorted = 0 < kept && kept <= length ? read_number(keywords, PyTuple_GetItem(m->names, 1)) : -1;
    if (is_sorted < 0) {
        PyErr_Clear(); // what is no such number is for the other function
        return PyObject_Call(m->otherwise, arguments, keywords);
    }
    ptrdiff_t sizes[MOST_RANK], row[MOST_ORDERED];
    memcpy(sizes, x->sizes, (size_t)x->axes * sizeof *sizes);
    sizes[x->axes - 1] = kept;
    array *largest = new_array(x->dtype, x->axes, sizes), *places = new_array(v->result, x->axes, sizes);
    PyObject *both = largest && places ? PyTuple_New(2) : NULL;
    if (!both) {
        if (largest) Py_DecRef((PyObject *)largest);
        if (places) Py_DecRef((PyObject *)places);
        return NULL;
    }
    uint64_t scratch[2 * MOST_ORDERED];
    const value values[] = {{.pointer = x->data}, {.pointer = places->data}, {.integer = size / length}, {.integer = length},
                            {.integer = kept},    {.integer = 1},            {.integer = is_sorted},     {.pointer = scratch}};
    call_kernel(v->k, values);
    array one = *x; // a row
    one.axes = 1, one.sizes = x->sizes + x->axes - 1;
    const int32_t *found = (const int32_t *)places->data;
    const ptrdiff_t item = x->dtype->item_bytes;
    for (ptrdiff_t done = 0; done < size; done += length, one.data += length * item, found += kept) {
        for (ptrdiff_t i = 0; i < kept; i++) row[i] = found[i];
        copy_elements(&one, 0, row, kept, largest->data + done / length * kept * item);
    }
    PyTuple_SetItem(both, 0, (PyObject *)largest), PyTuple_SetItem(both, 1, (PyObject *)places); // which are handed over
    return both;
}

// Return whether an array has numbers or bools, also those of other packages: what else there is may need more than its bytes.
static int has_numbers(const array *x) {
    return is_array((const PyObject *)x) && x->flags & IS_CONTIGUOUS && strchr("biufcV", x->dtype->kind);
}

// Read positions on an axis of `size` elements, counted from the front; return whether all are in range.
static int read_places(const array *x, ptrdiff_t size, ptrdiff_t *places) {
    const ptrdiff_t count = product(x->sizes, x->axes);
    for (ptrdiff_t i = 0; i < count; i++) {
        const int64_t place = x->dtype->item_bytes == 8 ? ((const int64_t *)x->data)[i] : ((const int32_t *)x->data)[i];
        places[i] = (ptrdiff_t)(place < 0 ? place + size : place);
        if (places[i] < 0 || places[i] >= size) return 0;
    }
    return 1;
}

static int are_positions(const array *x) {
    return is_array((const PyObject *)x) && (x->flags & IS_CONTIGUOUS) && (x->flags & IS_ALIGNED) && x->dtype->kind == 'i' &&
           x->dtype->item_bytes >= 4 && x->dtype->order != '>';
}

// Copy sizes of axes; an array without axes has no place for them, which memcpy must not be given.
static void copy_sizes(ptrdiff_t *target, const ptrdiff_t *sizes, int count) {
    for (int i = 0; i < count; i++) target[i] = sizes[i];
}

static PyObject *run_take(PyObject *self, PyObject *arguments, PyObject *keywords) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    const int are_two = PyTuple_Size(arguments) == 2 && keywords;
    const array *x = are_two ? (const array *)PyTuple_GetItem(arguments, 0) : NULL;
    const array *positions = are_two ? (const array *)PyTuple_GetItem(arguments, 1) : NULL;
    const int are_read = are_two && has_numbers(x) && are_positions(positions) && x->axes + positions->axes <= MOST_RANK;
    const long long axis = are_read ? read_number(keywords, PyTuple_GetItem(m->names, 0)) : -1;
    if (0 <= axis && axis < x->axes && !read_number(keywords, PyTuple_GetItem(m->names, 1))) { // without axes of batches
        ptrdiff_t sizes[MOST_RANK], places[MOST_ORDERED];
        const ptrdiff_t count = product(positions->sizes, positions->axes);
        const int before = (int)axis, behind = x->axes - before - 1, axes = before + positions->axes + behind;
        copy_sizes(sizes, x->sizes, before);
        copy_sizes(sizes + before, positions->sizes, positions->axes);
        copy_sizes(sizes + before + positions->axes, x->sizes + before + 1, behind);
        if (count <= MOST_ORDERED && is_few(m, product(sizes, axes)) && read_places(positions, x->sizes[axis], places)) {
            array *out = new_array(x->dtype, axes, sizes);
            if (out) copy_elements(x, before, places, count, out->data);
            return (PyObject *)out;
        }
    }
    PyErr_Clear(); // what is out of range is for the other function
    return PyObject_Call(m->otherwise, arguments, keywords);
}

// Read the sizes of a tuple; return how many there are, or -1 if an array cannot have them, also with an error of Python.
static int read_sizes(PyObject *tuple, ptrdiff_t *sizes) {
    const ptrdiff_t count = tuple ? PyTuple_Size(tuple) : -1;
    if (count > MOST_RANK) return -1;
    ptrdiff_t elements = 1; // without empty axes, as NumPy counts
    for (ptrdiff_t i = 0; i < count; i++) {
        sizes[i] = (ptrdiff_t)PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (sizes[i] < 0 || __builtin_mul_overflow(elements, sizes[i] ? sizes[i] : 1, &elements)) return -1;
    }
    return (int)count;
}

static PyObject *run_view(PyObject *self, PyObject *arguments, PyObject *keywords) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    array *x = PyTuple_Size(arguments) == 1 && keywords ? (array *)PyTuple_GetItem(arguments, 0) : NULL;
    ptrdiff_t sizes[MOST_RANK];
    int axes = -1;
    PyObject *said = x && has_numbers(x) ? PyDict_GetItemWithError(keywords, PyTuple_GetItem(m->names, 0)) : NULL;
    if (said && m->how == VIEW) axes = read_sizes(said, sizes);
    if (said && m->how == NEW_AXIS && x->axes < MOST_RANK) {
        const long long place = PyLong_AsLongLong(said);
        if (0 <= place && place <= x->axes) axes = x->axes + 1;
        for (int i = 0; i < axes; i++) sizes[i] = i == place ? 1 : x->sizes[i - (i > place)];
    }
    if (axes >= 0 && product(sizes, axes) == product(x->sizes, x->axes)) return (PyObject *)new_view(x, axes, sizes);
    PyErr_Clear(); // what is no such shape is for the other function
    return PyObject_Call(m->otherwise, arguments, keywords);
}

// Write a number to each of `size` elements; return whether the dtype is one of those that this knows.
static int fill(array *out, double number, long long integer, ptrdiff_t size) {
#define EACH_ELEMENT(type, value) for (ptrdiff_t i = 0; i < size; i++) ((type *)out->data)[i] = (type)(value)
    switch (out->dtype->kind << 8 | (int)out->dtype->item_bytes) {
    case 'f' << 8 | 4: EACH_ELEMENT(float, number); return 1;
    case 'f' << 8 | 8: EACH_ELEMENT(double, number); return 1;
    case 'i' << 8 | 4: EACH_ELEMENT(int32_t, integer); return 1;
    case 'i' << 8 | 8: EACH_ELEMENT(int64_t, integer); return 1;
    default: return 0;
    }
}

static PyObject *run_fill(PyObject *self, PyObject *arguments, PyObject *keywords) {
    const maker *m = PyCapsule_GetPointer(self, NULL);
    PyObject *value = keywords ? PyDict_GetItemWithError(keywords, value_name) : NULL;
    PyObject *named = value ? PyDict_GetItemWithError(keywords, dtype_name) : NULL;
    PyObject *dtype = named ? PyObject_GetAttr(named, numpy_name) : NULL;
    ptrdiff_t sizes[MOST_RANK];
    const int axes = dtype ? read_sizes(PyDict_GetItemWithError(keywords, shape_name), sizes) : -1;
    const ptrdiff_t size = axes < 0 ? m->most : product(sizes, axes);
    int is_known = 0;
    for (int i = 0; i < m->count && size < m->most; i++) is_known |= m->variants[i].dtype == (dtype_of_numpy *)dtype;
    const double number = is_known ? PyFloat_AsDouble(value) : 0;
    const long long integer = is_known && ((dtype_of_numpy *)dtype)->kind == 'i' ? PyLong_AsLongLong(value) : 0;
    array *out = is_known && !PyErr_Occurred() ? new_array((dtype_of_numpy *)dtype, axes, sizes) : NULL;
    if (dtype) Py_DecRef(dtype);
    if (out && fill(out, number, integer, size)) return (PyObject *)out;
    if (out) Py_DecRef((PyObject *)out);
    PyErr_Clear(); // what is no such number is for the other function
    return PyObject_Call(m->otherwise, arguments, keywords);
}

static PyMethodDef each = {"small_result", run_each, METH_FASTCALL, NULL};
static PyMethodDef converted = {"small_result", (PyCFunction *)(void *)run_cast, METH_VARARGS | METH_KEYWORDS, NULL};
static PyMethodDef along = {"small_result", (PyCFunction *)(void *)run_along, METH_VARARGS | METH_KEYWORDS, NULL};
static PyMethodDef band = {"small_result", run_band, METH_FASTCALL, NULL};
static PyMethodDef largest = {"small_result", (PyCFunction *)(void *)run_largest, METH_VARARGS | METH_KEYWORDS, NULL};
static PyMethodDef taken = {"small_result", (PyCFunction *)(void *)run_take, METH_VARARGS | METH_KEYWORDS, NULL};
static PyMethodDef view = {"small_result", (PyCFunction *)(void *)run_view, METH_VARARGS | METH_KEYWORDS, NULL};
static PyMethodDef filled = {"small_result", (PyCFunction *)(void *)run_fill, METH_VARARGS | METH_KEYWORDS, NULL};

static PyMethodDef *definition_of(enum how how) {
    switch (how) {
    case EACH:
    case PAIRS: return &each;
    case CAST: return &converted;
    case BAND: return &band;
    case LARGEST: return &largest;
    case VIEW:
    case NEW_AXIS: return &view;
    case TAKE: return &taken;
    case FILL: return &filled;
    default: return &along;
    }
}

static void free_maker(PyObject *capsule) {
    maker *m = PyCapsule_GetPointer(capsule, NULL);
    for (int i = 0; i < m->count; i++) {
        Py_DecRef((PyObject *)m->variants[i].dtype);
        Py_DecRef((PyObject *)m->variants[i].result);
        Py_DecRef(m->variants[i].function);
    }
    Py_DecRef(m->otherwise);
    Py_DecRef(m->names);
    Py_DecRef(m->allocate);
    PyMem_Free(m);
}

static PyObject *kept(PyObject *object) {
    Py_IncRef(object);
    return object;
}

static int is_wrong_call(void) {
    PyErr_Format(PyExc_ValueError, "make_small_result_function: the functions do not take what it has");
    return 0;
}

// Find the function of a variant, and how many arrays it reads; return whether it takes the right arguments.
static int read_function(const maker *m, PyObject *given, PyObject *ufunc_type, variant *v, int *inputs) {
    const int is_each = m->how == EACH || m->how == PAIRS;
    if (is_each && PyTuple_Size(given) == 2) {
        function f;
        if (!find_function(given, ufunc_type, &f)) return 0;
        v->loop = f.loop, v->data = f.data, *inputs = f.arrays - 1;
        return (f.arrays <= MOST_READ && v->loop) || is_wrong_call();
    }
    PyErr_Clear();
    *inputs = 1;
    if (m->how == FILL || (m->how == CAST && given == &_Py_NoneStruct)) return 1;
    if (PyCFunction_GetFunction(given) != run_kernel) return is_wrong_call();
    v->k = PyCapsule_GetPointer(PyCFunction_GetSelf(given), NULL);
    const char *kinds = signature_of(v->k)->kinds;
    static const char along[] = "rwiiiii", *const each[] = {"rwi", "rrwiii", "rrrwiiii"};
    char wanted[sizeof along] = "";
    memcpy(wanted, along, (size_t)(2 + (m->how == ROWS ? 2 : 3) + m->flags));
    while (is_each && *inputs < MOST_READ && kinds[*inputs] == READ) ++*inputs;
    const char *right = is_each || m->how == CAST ? each[*inputs - 1]
                        : m->how == BAND          ? "rwiiirr"
                        : m->how == LARGEST       ? "rwiiiiiw"
                                                  : wanted;
    return !strcmp(kinds, right) || is_wrong_call();
}

static int read_variants(maker *m, PyObject *variants, PyObject *ufunc_type) {
    for (ptrdiff_t i = 0, count = PyTuple_Size(variants); i < count; i++) {
        PyObject *parts = PyTuple_GetItem(variants, i);
        if (i == MOST_VARIANTS || PyTuple_Size(parts) != 3) return is_wrong_call();
        variant v = {.dtype = (dtype_of_numpy *)PyTuple_GetItem(parts, 0), .function = PyTuple_GetItem(parts, 1),
                     .result = (dtype_of_numpy *)PyTuple_GetItem(parts, 2)};
        int inputs = 0;
        if (!read_function(m, v.function, ufunc_type, &v, &inputs)) return 0;
        if (i && inputs != m->inputs) return is_wrong_call();
        m->inputs = inputs;
        kept((PyObject *)v.dtype), kept((PyObject *)v.result), kept(v.function);
        m->variants[m->count++] = v;
    }
    return m->count > 0 || strchr("vnt", m->how) || is_wrong_call();
}

PyObject *make_small_result_function(PyObject *, PyObject *const *arguments, ptrdiff_t count) {
    const char *how = count == 7 ? PyUnicode_AsUTF8AndSize(arguments[0], NULL) : "";
    if (!how) return NULL;
    if (!*how || !strchr("epcaisrblvntf", *how)) return PyErr_Format(PyExc_TypeError, "make_small_result_function takes seven arguments");
    if (!keep_dims_name) keep_dims_name = PyUnicode_InternFromString("keep_dims");
    if (!shape_name) shape_name = PyUnicode_InternFromString("shape");
    if (!value_name) value_name = PyUnicode_InternFromString("value");
    if (!dtype_name) dtype_name = PyUnicode_InternFromString("dtype");
    if (!numpy_name) numpy_name = PyUnicode_InternFromString("numpy");
    maker *m = PyMem_Malloc(sizeof(maker));
    if (!m || !keep_dims_name || !shape_name || !value_name || !dtype_name || !numpy_name) {
        PyMem_Free(m);
        return PyErr_NoMemory();
    }
    *m = (maker){.how = *how, .most = PyLong_AsLongLong(arguments[2])};
    m->otherwise = kept(arguments[3]), m->names = kept(arguments[4]), m->allocate = kept(arguments[6]);
    const ptrdiff_t names = PyTuple_Size(m->names);
    m->flags = names > 1 ? (int)names - 1 : 0;
    PyObject *self = PyCapsule_New(m, NULL, free_maker);
    if (!self) return NULL;
    const int needed = strchr("epcfb", *how) ? 0 : strchr("lt", *how) ? 2 : 1; // names
    const int is_right = names >= needed && m->flags <= MOST_FLAGS;
    PyObject *made = (is_right || is_wrong_call()) && read_variants(m, arguments[1], arguments[5])
                         ? PyCFunction_NewEx(definition_of(m->how), self, NULL)
                         : NULL;
    Py_DecRef(self);
    return made;
}
