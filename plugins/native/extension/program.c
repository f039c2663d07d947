// Programs, see program.h: how they are made, and how they run.
#include "arrays.h"
#include "nodes.h"

#define CHECKED (1 << 22)     // bytes after which interrupts are answered
#define LARGE_ARENA (1 << 18) // bytes of an arena that the caller hands in
#define ALIGNMENT 64
#define LINE 64 // bytes of a line of the cache

// ---- memory ----

static int has_own_arena(const program *p) { return p->arena_bytes < LARGE_ARENA; }

// Make what one run needs; return whether there is memory for it.
static int make_workspace(const program *p, workspace *w) {
    const size_t arrays = (size_t)(p->inputs + p->outputs + 1);
    const size_t bytes = (size_t)(p->slots + 1) * sizeof(char *) + (size_t)p->cells * sizeof(value) +
                         arrays * sizeof(Py_buffer) + ALIGNMENT +
                         (has_own_arena(p) ? (size_t)p->arena_bytes : 0);
    w->memory = PyMem_Malloc(bytes);
    if (!w->memory) return 0;
    w->views = (Py_buffer *)w->memory;
    w->cells = (value *)(w->views + arrays);
    w->bases = (char **)(w->cells + p->cells);
    char *end = (char *)(w->bases + p->slots + 1);
    w->arena = end + (ALIGNMENT - (uintptr_t)end % ALIGNMENT) % ALIGNMENT;
    memcpy(w->cells, p->template, (size_t)p->cells * sizeof(value));
    w->bases[0] = w->arena;
    for (int i = 0; i < p->constants; i++)
        w->bases[1 + p->inputs + p->outputs + i] = p->constant[i].buf;
    w->bases[p->slots] = (char *)w->cells;
    return 1;
}

static void free_program(program *p) {
    if (!p) return;
    for (int i = 0; i < p->constants; i++) PyBuffer_Release(p->constant + i);
    void *parts[] = {p->node,     p->loop,     p->call, p->place,    p->count,      p->position,
                     p->template, p->size, p->constant, p->own.memory, p};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) PyMem_Free(parts[i]);
}

static void destroy(PyObject *capsule) { free_program(PyCapsule_GetPointer(capsule, NULL)); }

// ---- runs ----

static void run_ufunc(const call *c, const value *arguments) {
    char *arrays[MOST_POINTERS];
    for (int i = 0; i < c->pointers; i++) arrays[i] = arguments[3 + i].pointer;
    const ptrdiff_t count = arguments[0].integer;
    const ptrdiff_t *sizes = arguments[1].pointer ? arguments[1].pointer : &count;
    c->loop(arrays, sizes, arguments[2].pointer, c->data);
}

static char *address_of(const place *x, const workspace *w, int64_t at, int64_t time) {
    return w->bases[x->slot] + x->offset + x->step * at + x->turn * time;
}

// Set the cells whose addresses are the same whenever a loop runs.
static void set_fixed_cells(const program *p, const workspace *w) {
    for (const loop *l = p->loop; l < p->loop + p->loops; l++)
        for (int i = l->first_place + l->moving; i < l->first_place + l->places; i++)
            w->cells[p->place[i].cell].pointer = address_of(p->place + i, w, 0, 0);
}

// Ask for a piece of the next block, of n items from `at` on. The streams take turns.
static void fetch(const loop *l, const place *streams, const workspace *w, int64_t at, int64_t n, int64_t time,
                  int piece) {
    const place *x = streams + piece % l->streams;
    const int64_t bytes = x->step * n, first = (int64_t)(piece / l->streams) * PIECE;
    const int64_t end = first + PIECE < bytes ? first + PIECE : bytes;
    const char *from = address_of(x, w, at, time);
    for (int64_t i = first; i < end; i += LINE) __builtin_prefetch(from + i, 0, 2);
}

// Run a loop for the time `time`.
static void run_loop(const program *p, const loop *l, const workspace *w, int64_t time) {
    const place *places = p->place + l->first_place;
    const call *calls = p->call + l->first_call;
    const multiple *counts = p->count + l->first_count, *positions = p->position + l->first_position;
    for (int64_t at = 0; at < l->count; at += l->block) {
        const int64_t n = l->count - at < l->block ? l->count - at : l->block;
        for (const place *x = places; x < places + l->moving; x++)
            w->cells[x->cell].pointer = address_of(x, w, at, time);
        for (const multiple *m = counts; m < counts + l->counts; m++)
            w->cells[m->cell].integer = n * m->factor;
        for (const multiple *m = positions; m < positions + l->positions; m++)
            w->cells[m->cell].integer = at * m->factor + m->first;
        const int64_t next = at + l->block, left = l->count - next;
        const int pieces = left > 0 ? l->pieces : 0;
        for (int i = 0, piece = 0; i < l->calls; i++) {
            // Between the calls, because a processor waits for no more than some twenty lines at a time.
            for (; (int64_t)piece * l->calls < (int64_t)pieces * (i + 1); piece++)
                fetch(l, places, w, next, left < l->block ? left : l->block, time, piece);
            const call *c = calls + i;
            if (c->loop)
                run_ufunc(c, w->cells + c->first);
            else
                call_function(c->signature, c->data, w->cells + c->first);
        }
    }
}

typedef struct {
    const program *p;
    const workspace *w;
    PyThreadState *state; // of the thread while others run
    int64_t bytes;        // since interrupts were answered
    int answers;          // whether they are answered
} run;

// Count bytes, and answer interrupts from time to time; return whether none came. What never comes to that is short, and
// keeps Python's lock.
static int pass(run *r, int64_t bytes) {
    r->bytes += bytes;
    if (r->bytes < CHECKED || !r->answers) return 1;
    r->bytes = 0;
    PyEval_RestoreThread(r->state);
    r->state = NULL;
    if (PyErr_CheckSignals()) return 0;
    r->state = PyEval_SaveThread();
    return 1;
}

// Run the nodes from `first` to `end`, for the time `time` of the nodes that are repeated around them.
static int run_nodes(run *r, int first, int end, int64_t time) {
    const program *p = r->p;
    while (first < end) {
        const node *n = p->node + first;
        const place *flag = p->place + n->flag;
        switch (n->kind) {
        case LOOP:
            if (!pass(r, p->loop[n->loop].bytes)) return 0;
            run_loop(p, p->loop + n->loop, r->w, time);
            break;
        case REPEAT:
            for (int64_t i = 0; i < n->times; i++)
                if (!run_nodes(r, first + 1, n->end, i)) return 0;
            break;
        case CHOOSE:
            if (!(*address_of(flag, r->w, 0, time) ? run_nodes(r, first + 1, n->middle, time)
                                                   : run_nodes(r, n->middle, n->end, time)))
                return 0;
            break;
        default:
            for (;;) {
                if (!pass(r, TEST_BYTES) || !run_nodes(r, first + 1, n->middle, time)) return 0;
                if (!*address_of(flag, r->w, 0, time)) break;
                if (!run_nodes(r, n->middle, n->end, time)) return 0;
            }
        }
        first = n->end;
    }
    return 1;
}

static PyObject *nothing(void) {
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

int open_run(PyObject *self, PyObject *const *arguments, ptrdiff_t count, program_run *r) {
    program *p = r->p = PyCapsule_GetPointer(self, NULL);
    r->held = 0;
    r->w = &p->own;
    const int arrays = p->inputs + p->outputs, takes = arrays + !has_own_arena(p);
    if (atomic_exchange(&p->is_busy, 1)) {
        r->w = &r->another;
        if (!make_workspace(p, r->w)) return PyErr_NoMemory() != NULL;
    }
    if (count != takes) {
        PyErr_Format(PyExc_TypeError, "the program takes %d arrays, not %zd", takes, count);
        return 0;
    }
    for (; r->held < count; r->held++) {
        const int held = r->held, slot = held < arrays ? 1 + held : 0;
        Py_buffer *view = r->w->views + held;
        if (get_buffer(arguments[held], view, held < p->inputs ? PyBUF_SIMPLE : PyBUF_WRITABLE)) {
            PyErr_Clear();
            PyErr_Format(PyExc_BufferError, "array %d of the program is not contiguous", held);
            return 0;
        }
        r->w->bases[slot] = view->buf;
        if (view->len != p->size[slot]) {
            PyErr_Format(PyExc_ValueError, "array %d of the program has %zd bytes instead of %zd", held,
                         view->len, (ptrdiff_t)p->size[slot]);
            PyBuffer_Release(view);
            return 0;
        }
    }
    return 1;
}

void run_part_of_program(const program_run *r) {
    set_fixed_cells(r->p, r->w);
    run whole = {.p = r->p, .w = r->w};
    run_nodes(&whole, 0, r->p->nodes, 0);
}

void close_run(program_run *r) {
    while (r->held > 0) PyBuffer_Release(r->w->views + --r->held);
    if (r->w == &r->p->own)
        r->p->is_busy = 0;
    else
        PyMem_Free(r->another.memory);
}

// Run all nodes; return whether no interrupt came. During a long program, other threads of Python run.
static int run_all(const program *p, const workspace *w) {
    set_fixed_cells(p, w);
    run r = {.p = p, .w = w, .state = p->is_long ? PyEval_SaveThread() : NULL, .answers = p->is_long};
    const int is_done = run_nodes(&r, 0, p->nodes, 0);
    if (r.state) PyEval_RestoreThread(r.state);
    return is_done;
}

PyObject *run_program(PyObject *self, PyObject *const *arguments, ptrdiff_t count) {
    program_run r;
    const int is_done = open_run(self, arguments, count, &r) && run_all(r.p, r.w);
    close_run(&r);
    return is_done ? nothing() : NULL;
}

static int64_t *words_of(PyObject *object, Py_buffer *view) {
    if (PyObject_GetBuffer(object, view, PyBUF_SIMPLE)) return NULL;
    return view->buf;
}

static PyMethodDef definition = {"program", run_program, METH_FASTCALL, NULL};

PyObject *make_program([[maybe_unused]] PyObject *module, PyObject *const *arguments,
                       ptrdiff_t count) {
    if (count != 5 && count != 6)
        return PyErr_Format(PyExc_TypeError, "program takes five or six arguments");
    const ptrdiff_t functions = PyTuple_Size(arguments[2]);
    if (functions < 0) return NULL;
    Py_buffer words = {}, sizes = {};
    program *p = many(1, sizeof *p);
    function *found = many((size_t)functions, sizeof *found);
    int is_ready = p && found ? 1 : PyErr_NoMemory() != NULL;
    for (ptrdiff_t i = 0; is_ready && i < functions; i++)
        is_ready = find_function(PyTuple_GetItem(arguments[2], i), arguments[4], found + i);
    is_ready = is_ready && words_of(arguments[0], &words) && words_of(arguments[1], &sizes) &&
               read_slots(p, &sizes, arguments[3]) &&
               read_table(p, &words, found, (int)functions) &&
               (make_workspace(p, &p->own) || PyErr_NoMemory() != NULL);
    if (is_ready && count == 6) p->is_long = 0;
    if (words.obj) PyBuffer_Release(&words);
    if (sizes.obj) PyBuffer_Release(&sizes);
    PyMem_Free(found);
    PyObject *self = is_ready ? PyCapsule_New(p, NULL, destroy) : NULL;
    if (!self) {
        free_program(p);
        return NULL;
    }
    PyObject *run = PyCFunction_NewEx(&definition, self, NULL);
    Py_DecRef(self);
    return run;
}
