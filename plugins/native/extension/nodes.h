// What a program is made of while it runs: the table of program.h with numbers as C reads them.
#pragma once

#include <stdatomic.h>
#include <string.h>

#include "program.h"
#include "table.h"

#define LONG (1 << 18) // bytes of all operands from which on other threads run
#define PIECE 512 // bytes of an array that are fetched at once
#define MOST_POINTERS 5 // of a ufunc
#define TEST_BYTES 64 // what a test of a flag counts towards CHECKED, so that empty loops are answered, too

enum node_kind { LOOP, REPEAT, CHOOSE, WHILE };
enum tag { NUMBER, COUNT, POSITION, ABSENT, PLACE, LIST };

typedef struct {
    const kernel *kernel;
    loop_of_numpy *loop; // or that of a ufunc, which takes so many arrays of these types
    void *data;
    const char *types;
    int arrays, is_matmul;
} function;

typedef struct {
    loop_of_numpy *loop; // of a ufunc, or NULL
    void *data;          // of that, or the function of a kernel
    int signature, first, pointers; // that of the kernel; the first argument; the number of pointers of a ufunc
} call;

// A cell of the arguments that is an address.
typedef struct {
    int cell, slot;
    int64_t offset, step, turn;
} place;

// A cell that is a number of items times a factor, plus another number.
typedef struct {
    int cell, factor, first;
} multiple;

// Calls that run block by block. The first `moving` of its places are others for each block or each time. The first
// `streams` of these are arrays whose next block is fetched while one is computed, in so many pieces.
typedef struct {
    int64_t count, block, bytes;
    int first_call, calls, first_place, places, moving, streams, pieces;
    int first_count, counts, first_position, positions;
} loop;

// A loop, or nodes that run several times, as one of two lists, or while a flag is true. What is inside it follows it.
typedef struct {
    int kind, loop, flag; // the number of the loop, or of the place of the flag
    int middle, end;      // the first node of the second list, and the first one behind all that is inside
    int64_t times;
} node;

struct program {
    int nodes, loops, cells, slots, inputs, outputs, constants, is_long;
    _Atomic(int) is_busy; // while a run uses `own`, which another thread may ask for
    int64_t arena_bytes;
    node *node;
    loop *loop;
    call *call;
    place *place;
    multiple *count, *position;
    value *template;
    int64_t *size;  // of each slot
    Py_buffer *constant;
    workspace own;
};

// Return memory of zeros for so many items, at least one; NULL if there is none.
static inline void *many(size_t count, size_t size) {
    void *memory = PyMem_Malloc((count + 1) * size);
    if (memory) memset(memory, 0, (count + 1) * size);
    return memory;
}

// Return 0, with an error of Python that says what is wrong with a table.
int is_wrong(const char *what);

// Find the function that a name, or a ufunc and the number of one of its loops, stands for.
int find_function(PyObject *item, PyObject *ufunc_type, function *to);

// Read the bytes of all slots, and hold the constants; return whether they are all right.
int read_slots(program *p, const Py_buffer *sizes, PyObject *constants);

// Read and check all nodes; return whether they are all right.
int read_table(program *p, const Py_buffer *words, const function *functions, int count);
