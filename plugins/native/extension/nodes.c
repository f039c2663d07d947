// The tables of programs are read, and all numbers in them are checked; see program.h.
#include "nodes.h"

#define MOST_LEVELS 32 // of nodes inside of nodes
#define UNCACHED (1 << 20) // bytes of arrays that do not stay in the cache
#define LEAST_FETCHED PIECE // bytes of a block
#define MOST_FETCHED (1 << 15)
#define LEAST_CALLS 4 // for each array that is fetched

// What a table gives for an argument of a call: a number or a factor, or a place.
typedef struct {
    int64_t tag, number, step, bytes;
    const int64_t *constant; // what lies there, if it is a constant
} operand;

typedef struct {
    const int64_t *at, *end;
    program *p;
    operand given[MOST_ARGUMENTS], *operand; // of the call that is being read
    const function *functions;
    int function_count, calls, places, counts, positions;
    const loop *loop; // the one that is being read
    int64_t times;    // how often the innermost nodes that are repeated run
} reader;

int is_wrong(const char *what) {
    PyErr_Format(PyExc_ValueError, "the table of the program is wrong: %s", what);
    return 0;
}

// Read a number between two limits.
static int read(reader *r, int64_t least, int64_t most, int64_t *to) {
    if (r->at == r->end) return is_wrong("it ends within a call");
    *to = *r->at++;
    return (*to >= least && *to <= most) || is_wrong("a number is out of range");
}

// Read the address that goes into a cell.
static int read_place(reader *r, int cell, int is_written, int64_t *total) {
    program *p = r->p;
    const int64_t items = r->loop->count - 1, times = r->times - 1;
    int64_t slot, offset, step, turn, bytes;
    if (!read(r, 0, p->slots - 1, &slot) || !read(r, 0, p->size[slot], &offset)) return 0;
    const int64_t size = p->size[slot], most = times ? size / times : size;
    if (!read(r, 0, items ? size / items : size, &step) || !read(r, -most, most, &turn) ||
        !read(r, 0, size, &bytes))
        return 0;
    if (is_written && slot != 0 && (slot <= p->inputs || slot > p->inputs + p->outputs))
        return is_wrong("a call writes to an input or a constant");
    const int64_t first = offset + (turn < 0 ? turn * times : 0);
    const int64_t end = offset + (turn > 0 ? turn * times : 0) + step * items + bytes;
    if (first < 0 || end > size) return is_wrong("a place does not lie inside its array");
    p->place[r->places++] = (place){cell, (int)slot, offset, step, turn};
    *total += step * items + bytes;
    const int constant = (int)slot - 1 - p->inputs - p->outputs;
    r->operand->step = step, r->operand->bytes = bytes;
    if (constant >= 0 && !step && !turn && !offset) r->operand->constant = p->constant[constant].buf;
    return 1;
}

// Read an operand of a kind into the cells from `cell` on.
static int read_operand(reader *r, int kind, int cell, int64_t *total) {
    program *p = r->p;
    int64_t tag, number, start = 0;
    if (!read(r, NUMBER, LIST, &tag)) return 0;
    *r->operand = (operand){.tag = tag};
    const int is_pointer =
        kind == READ || kind == DESCRIPTOR || kind == STRIDED || kind == WRITTEN;
    const int is_list = kind == ALL_READ || kind == ALL_WRITTEN;
    switch (tag) {
    case NUMBER:
        if (is_pointer || is_list) return is_wrong("a number stands for an array");
        if (kind == INTEGER ? !read(r, INT32_MIN, INT32_MAX, &number)
                            : !read(r, INT64_MIN, INT64_MAX, &number))
            return 0;
        p->template[cell].integer = r->operand->number = number;
        return 1;
    case COUNT:
    case POSITION:
        if (kind != INTEGER) return is_wrong("a count stands for something else");
        if (!read(r, 1, INT32_MAX / r->loop->count, &number)) return 0;
        if (tag == POSITION && !read(r, 0, INT32_MAX - number * r->loop->count, &start)) return 0;
        r->operand->number = number;
        const multiple found = {cell, (int)number, (int)start};
        if (r->loop->count <= r->loop->block)
            p->template[cell].integer = tag == COUNT ? number * r->loop->count : start;
        else if (tag == COUNT)
            p->count[r->counts++] = found;
        else
            p->position[r->positions++] = found;
        return 1;
    case ABSENT: return kind == READ || is_wrong("an array is missing");
    case PLACE:
        if (!is_pointer) return is_wrong("an array stands for a number");
        if (!read_place(r, cell, kind == WRITTEN, total)) return 0;
        return kind != DESCRIPTOR ||
               (r->operand->constant &&
                is_descriptor((const int32_t *)r->operand->constant, r->operand->bytes)) ||
               is_wrong("a descriptor is no constant, or it has more axes than there is room for");
    default:
        if (!is_list) return is_wrong("a list stands for something else");
        if (!read(r, 0, r->end - r->at, &number)) return 0;
        p->place[r->places++] = (place){cell, p->slots, (int64_t)(p->cells * sizeof(value)), 0, 0};
        const int first = p->cells;
        p->cells += (int)number;
        for (int i = 0; i < number; i++)
            if (!read(r, PLACE, PLACE, &tag) || !read_place(r, first + i, kind == ALL_WRITTEN, total))
                return 0;
        return 1;
    }
}

// Whether some array of a call moves by steps that are not 0; functions may take one array for such a one if none does.
static int has_steps(const reader *r, const need *needed) {
    for (; needed->array; needed++)
        if (needed->step && r->given[needed->step - 1].number) return 1;
    return 0;
}

// The items that an array needs while a loop has n of its own; -1 if nobody can tell.
static int64_t needed_items(const reader *r, const need *needed, int is_stepping, int64_t n) {
    if (is_stepping && needed->step) { // arguments are counted from 1
        const operand *step = r->given + (needed->step - 1);
        if (step->tag == NUMBER && !step->number) return 1;
    }
    int64_t items = 1;
    for (int i = 0; i < MOST_FACTORS && needed->factors[i]; i++) {
        const operand *factor = r->given + (needed->factors[i] - 1);
        const int64_t number = factor->tag == COUNT ? factor->number * n : factor->number;
        if (factor->tag == POSITION || (number > 0 && __builtin_mul_overflow(items, number, &items)))
            return -1;
        if (number <= 0) return 0;
    }
    return items;
}

// Whether a place has so many bytes behind it while a loop has n items.
static int has_bytes(const operand *given, int64_t n, int64_t items, int64_t item_bytes) {
    return items >= 0 && items <= INT64_MAX / item_bytes &&
           items * item_bytes <= given->step * (n - 1) + given->bytes;
}

// Whether the arrays of a call are as large as its numbers say. Needs grow at least as fast as what places have behind
// them, so it is enough to look at the shortest and the longest block.
static int are_large_enough(const reader *r, const need *needed) {
    const int64_t longest = r->loop->count < r->loop->block ? r->loop->count : r->loop->block;
    const int is_stepping = has_steps(r, needed);
    for (; needed->array; needed++) {
        const operand *given = r->given + (needed->array - 1);
        if (given->tag != PLACE) continue;
        for (int64_t n = 1;; n = longest) {
            if (!has_bytes(given, n, needed_items(r, needed, is_stepping, n), needed->item_bytes))
                return is_wrong("an array of a call has fewer items than its numbers say");
            if (n == longest) break;
        }
    }
    return 1;
}

// The bytes of an item by the number of its type in NumPy; 0 for what no loop of a program reads.
static int bytes_of_type(int type) {
    static const char bytes[] = {1, 1, 1, 2, 2, 4, 4, sizeof(long), sizeof(long), 8, 8, 4, 8, 0, 8, 16};
    enum { HALF = 23 };
    return type >= 0 && type < (int)sizeof bytes ? bytes[type] : type == HALF ? 2 : 0;
}

// Whether the arrays of a loop of NumPy are as large as its numbers say: an elementwise one, or products of matrices.
static int are_ufuncs_large_enough(const reader *r, const function *f) {
    const operand *count = r->given, *sizes = r->given + 1, *steps = r->given + 2;
    const int64_t longest = r->loop->count < r->loop->block ? r->loop->count : r->loop->block;
    const int64_t n = count->tag == COUNT ? count->number * longest : count->number;
    const int is_elementwise = sizes->tag == ABSENT;
    const int step_count = f->arrays + (is_elementwise ? 0 : 6);
    if (count->tag == POSITION || !steps->constant || steps->bytes < step_count * 8 ||
        (!is_elementwise && (!f->is_matmul || !sizes->constant || sizes->bytes < 4 * 8)))
        return is_wrong("a loop of NumPy has no steps or sizes");
    const int64_t *by = steps->constant, *size = sizes->constant;
    const int axes[3][2] = {{1, 2}, {2, 3}, {1, 3}}; // of the matrices: rows, what is summed, columns
    for (int i = 0; i < f->arrays; i++) {
        const operand *given = r->given + 3 + i;
        int64_t bytes = bytes_of_type(f->types[i]), behind = given->step * (longest - 1) + given->bytes;
        if (!bytes || given->tag != PLACE) return is_wrong("a loop of NumPy has no array of numbers");
        const int64_t most = (is_elementwise ? n : size[0]) - 1;
        int is_wide = __builtin_mul_overflow(most > 0 ? most : 0, by[i], &behind) || by[i] < 0;
        bytes += behind;
        for (int axis = 0; !is_elementwise && axis < 2; axis++) {
            const int64_t length = size[axes[i][axis]], step = by[3 + 2 * i + axis];
            is_wide |= length < 1 || step < 0 || __builtin_mul_overflow(length - 1, step, &behind) ||
                       __builtin_add_overflow(bytes, behind, &bytes);
        }
        if (is_wide || bytes < 0 || bytes > given->step * (longest - 1) + given->bytes)
            return is_wrong("an array of a loop of NumPy has fewer items than its numbers say");
    }
    return 1;
}

static int read_call(reader *r, int64_t *total) {
    program *p = r->p;
    int64_t number;
    if (!read(r, 0, r->function_count - 1, &number)) return 0;
    const function *f = r->functions + number;
    call *c = p->call + r->calls++;
    *c = f->kernel ? (call){NULL, function_of(f->kernel), f->kernel->signature, p->cells, 0}
                   : (call){f->loop, f->data, 0, p->cells, f->arrays};
    // A loop of NumPy takes a count, the sizes or nothing, the steps, and the arrays.
    const int arguments = f->kernel ? signature_of(f->kernel)->count : 3 + f->arrays;
    p->cells += arguments;
    for (int i = 0; i < arguments; i++) {
        const int kind = f->kernel ? signature_of(f->kernel)->kinds[i]
                         : i == 0  ? INTEGER
                         : i == arguments - 1 ? WRITTEN
                                              : READ;
        r->operand = r->given + i;
        if (!read_operand(r, kind, c->first + i, total)) return 0;
    }
    return f->kernel ? are_large_enough(r, needs + f->kernel->first_need)
                     : are_ufuncs_large_enough(r, f);
}

static void exchange(place *a, place *b) {
    const place other = *a;
    *a = *b;
    *b = other;
}

// Put one place for each array that moves with the blocks in front of the others, if all of them are too large for the
// cache, and the calls of a block take long enough: where a few calls only wait for memory, to ask earlier costs more than
// it saves. What comes next in longer blocks is fetched by the processor itself.
static void find_streams(program *p, loop *l) {
    place *places = p->place + l->first_place;
    int64_t bytes = 0, longest = 0;
    for (int i = 0; i < l->moving; i++) {
        const place found = places[i];
        const int64_t length = found.step * l->block;
        int known = 0;
        while (known < l->streams &&
               (places[known].slot != found.slot || places[known].offset != found.offset))
            known++;
        if (known < l->streams || length < LEAST_FETCHED || length > MOST_FETCHED) continue;
        exchange(places + l->streams++, places + i);
        bytes += found.step * l->count;
        if (length > longest) longest = length;
    }
    if (bytes < UNCACHED || l->calls < LEAST_CALLS * l->streams) l->streams = 0;
    l->pieces = l->streams * (int)((longest + PIECE - 1) / PIECE);
}

// Put the places of a loop that move in front of the others.
static void sort_places(program *p, loop *l) {
    const int is_one_block = l->count <= l->block;
    for (int i = l->first_place; i < l->first_place + l->places; i++) {
        const place *found = p->place + i;
        if (!found->turn && (!found->step || is_one_block)) continue;
        exchange(p->place + i, p->place + l->first_place + l->moving++);
    }
    if (!is_one_block) find_streams(p, l);
}

static int read_loop(reader *r, int64_t *total) {
    program *p = r->p;
    loop *l = p->loop + p->loops++;
    int64_t calls;
    *l = (loop){.first_call = r->calls,
                .first_place = r->places,
                .first_count = r->counts,
                .first_position = r->positions};
    if (!read(r, 1, INT32_MAX, &l->count) || !read(r, 1, INT32_MAX, &l->block) ||
        !read(r, 1, r->end - r->at, &calls))
        return 0;
    r->loop = l;
    for (l->calls = (int)calls; calls > 0; calls--)
        if (!read_call(r, &l->bytes)) return 0;
    l->places = r->places - l->first_place;
    l->counts = r->counts - l->first_count;
    l->positions = r->positions - l->first_position;
    sort_places(p, l);
    *total += l->bytes;
    return 1;
}

// Read where a flag lies, which is one byte.
static int read_flag(reader *r, node *n) {
    static const loop one = {.count = 1, .block = 1};
    int64_t tag, total = 0;
    r->loop = &one;
    *(r->operand = r->given) = (operand){.tag = PLACE};
    n->flag = r->places;
    return read(r, PLACE, PLACE, &tag) && read_place(r, 0, 0, &total) &&
           (r->operand->bytes > 0 || is_wrong("a flag has no bytes"));
}

static int read_node(reader *r, int level, int64_t *total);

static int read_nodes(reader *r, int64_t count, int level, int64_t *total) {
    for (; count > 0; count--)
        if (!read_node(r, level, total)) return 0;
    return 1;
}

static int read_node(reader *r, int level, int64_t *total) {
    program *p = r->p;
    node *n = p->node + p->nodes++;
    const int64_t times = r->times, left = r->end - r->at;
    int64_t kind, first, second = 0, bytes = 0;
    if (level == MOST_LEVELS) return is_wrong("it has too many levels");
    if (!read(r, LOOP, WHILE, &kind)) return 0;
    *n = (node){.kind = (int)kind, .loop = p->loops, .times = 1};
    int is_read = 1;
    switch (kind) {
    case LOOP: is_read = read_loop(r, &bytes); break;
    case REPEAT:
        if (!read(r, 1, INT32_MAX, &n->times) || !read(r, 0, left, &first)) return 0;
        r->times = n->times;
        is_read = read_nodes(r, first, level + 1, &bytes);
        r->times = times;
        break;
    default: // a choice has its flag first, and a loop behind the condition
        if ((kind == CHOOSE && !read_flag(r, n)) || !read(r, 0, left, &first) ||
            !read(r, 0, left, &second) || !read_nodes(r, first, level + 1, &bytes) ||
            (kind == WHILE && !read_flag(r, n)))
            return 0;
        n->middle = p->nodes;
        is_read = read_nodes(r, second, level + 1, &bytes);
        bytes += kind == WHILE ? LONG : 0; // nobody knows how long it is
    }
    n->end = p->nodes;
    if (is_read && bytes > (INT64_MAX / 2 - *total) / n->times) return is_wrong("it is too long");
    *total += bytes * n->times;
    return is_read;
}

// ---- all of a table ----

int find_function(PyObject *item, PyObject *ufunc_type, function *to) {
    *to = (function){};
    if (PyTuple_Size(item) != 2) {
        PyErr_Clear();
        const char *name = PyUnicode_AsUTF8AndSize(item, NULL);
        if (!name) return 0;
        to->kernel = find_kernel(name);
        return to->kernel != NULL && (!signature_of(to->kernel)->has_result || is_wrong("a kernel returns a number"));
    }
    ufunc *u = (ufunc *)PyTuple_GetItem(item, 0);
    PyObject *type = PyObject_Type((PyObject *)u);
    const int is_ufunc = type == ufunc_type;
    if (type) Py_DecRef(type);
    const long long number = PyLong_AsLongLong(PyTuple_GetItem(item, 1));
    if (!is_ufunc || u->outputs != 1 || u->arrays != u->inputs + 1 || u->arrays > MOST_POINTERS ||
        number < 0 || number >= u->loop_count)
        return is_wrong("a pair is not a ufunc of one result and the number of a loop");
    *to = (function){.loop = u->loops[number], .data = u->data[number],
                     .types = u->types + number * u->arrays, .arrays = u->arrays,
                     .is_matmul = strcmp(u->name, "matmul") == 0};
    return to->loop != NULL || is_wrong("a ufunc has no such loop");
}

int read_slots(program *p, const Py_buffer *sizes, PyObject *constants) {
    const int64_t *n = sizes->buf, count = sizes->len / (int64_t)sizeof *n;
    const ptrdiff_t constant_count = PyTuple_Size(constants);
    if (constant_count < 0) return 0;
    if (count < 3 || n[1] < 0 || n[2] < 0 || n[1] > INT16_MAX || n[2] > INT16_MAX ||
        count != 3 + n[1] + n[2] || n[0] < 0 || constant_count > INT16_MAX)
        return is_wrong("the sizes of slots");
    p->arena_bytes = n[0];
    p->inputs = (int)n[1], p->outputs = (int)n[2];
    p->slots = 1 + p->inputs + p->outputs + (int)constant_count;
    p->size = many((size_t)p->slots, sizeof *p->size);
    p->constant = many((size_t)constant_count, sizeof *p->constant);
    if (!p->size || !p->constant) return PyErr_NoMemory() != NULL;
    p->size[0] = n[0];
    for (int i = 0; i < p->inputs + p->outputs; i++)
        if ((p->size[1 + i] = n[3 + i]) < 0) return is_wrong("the sizes of slots");
    for (; p->constants < constant_count; p->constants++) {
        Py_buffer *view = p->constant + p->constants;
        if (PyObject_GetBuffer(PyTuple_GetItem(constants, p->constants), view, PyBUF_SIMPLE)) return 0;
        p->size[1 + p->inputs + p->outputs + p->constants] = view->len;
    }
    return 1;
}

int read_table(program *p, const Py_buffer *words, const function *functions, int count) {
    const size_t length = (size_t)words->len / sizeof(int64_t), most = length + MOST_ARGUMENTS + 8;
    reader r = {.at = words->buf, .end = (const int64_t *)words->buf + length, .p = p,
                .functions = functions, .function_count = count, .times = 1};
    p->node = many(most, sizeof *p->node);
    p->loop = many(most, sizeof *p->loop);
    p->call = many(most, sizeof *p->call);
    p->place = many(most, sizeof *p->place);
    p->count = many(most, sizeof *p->count);
    p->position = many(most, sizeof *p->position);
    p->template = many(most, sizeof *p->template);
    if (!p->node || !p->loop || !p->call || !p->place || !p->count || !p->position || !p->template)
        return PyErr_NoMemory() != NULL;
    int64_t total = 0;
    while (r.at < r.end)
        if (!read_node(&r, 0, &total)) return 0;
    p->is_long = total >= LONG;
    return 1;
}
