// Programs: tables of calls that run as one call of Python.
#pragma once

#include "python.h"
#include "table.h"

// program(words, sizes, functions, constants, ufunc[, anything]): return a function that runs the calls of a table. With
// a last argument, it keeps Python's lock and answers no interrupts however long it is: nobody sees half of its work.
//
// `functions` are names of kernels, or pairs of a ufunc of NumPy and the number of one of its loops. `sizes` are the
// bytes of the arena, the number of inputs and that of outputs, and then the bytes of each input and output. Slots are
// numbered: the arena, the inputs, the outputs, the constants. The words are nodes, one after the other:
//
//   node    := LOOP count block calls call*                     calls that run block by block, for `count` items in all
//            | REPEAT times nodes node*                         nodes that run in turn, several times over
//            | CHOOSE place nodes nodes node* node*             the first ones if the byte at the place is not 0
//            | WHILE nodes nodes node* place node*              the first ones, then the others while the byte is not 0
//   call    := function operand*
//   operand := NUMBER bits | COUNT factor | POSITION factor first | ABSENT | LIST length place* | place
//   place   := PLACE slot offset step turn bytes
//
// COUNT is the number of items of a block times a factor, and POSITION that of the items before it times a factor, plus
// `first`. A place is the address of an offset in a slot, which moves by `step` bytes for each item, and by `turn` bytes
// each time that the innermost REPEAT around it runs again; from there on, the function reads or writes `bytes` for each
// item.
//
// All numbers are checked when the program is made, and the bytes of arrays when it is called.
PyObject *make_program(PyObject *module, PyObject *const *arguments, ptrdiff_t count);

typedef struct program program;

typedef struct {
    char *memory; // what PyMem_Malloc has returned
    char **bases; // the address of each slot, and of the cells
    value *cells;
    Py_buffer *views;
    char *arena;
} workspace;

// A run of a program: its arrays are held.
typedef struct {
    program *p;
    workspace another, *w; // that of the program, or another while somebody uses it
    int held;
} program_run;

// The function of Python that runs a program, which `self` stands for.
PyObject *run_program(PyObject *self, PyObject *const *arguments, ptrdiff_t count);

// Hold the arrays for a run; return whether that is possible, else there is an error of Python.
int open_run(PyObject *self, PyObject *const *arguments, ptrdiff_t count, program_run *r);

// Run a program that has been opened, in any thread, without Python's lock and without answering interrupts.
void run_part_of_program(const program_run *r);

// Release what `open_run` holds, whatever it has returned.
void close_run(program_run *r);
