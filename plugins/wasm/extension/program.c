// Programs: tables of calls that run as one call of Python.
//
// Each module has this file, with a table of its own functions: the build writes FUNCTIONS, their names in the
// order of their signatures, and SIGNATURES, X(number, parameters, first, end, call), from the linked module.
//
//   table   := loop*
//   loop    := int32 count, block, calls, bytes  and then its calls, which run block by block, for `count`
//              items in all; `bytes` is the size of the loop with its calls
//   call    := int32 function, signature, operands, 0  operand*
//   operand := int32 base, step  int64 number
//
// An operand is bases[base] + number + step * (items of the blocks before). The first base is 0, which gives
// numbers; the second one is the number of items of a block; the others are addresses. Whatever does not fit
// the functions of the module traps.
#include <stdint.h>

typedef void (*function)(void);

typedef struct {
    int32_t base, step;
    int64_t number;
} operand;

typedef struct {
    int32_t function, signature, operands, reserved;
} call;

typedef struct {
    int32_t count, block, calls, bytes;
} loop;

enum { ITEMS = 1, MAX_OPERANDS = 24 };

#define DECLARE(name, ...) extern void name(__VA_ARGS__);
FUNCTIONS(DECLARE)
#define ADDRESS(name, ...) (function) name,
static const function functions[] = {FUNCTIONS(ADDRESS)};
static const int count_of_functions = sizeof functions / sizeof *functions;

[[maybe_unused]] static inline float as_float(int64_t bits) {
    union {
        int64_t bits;
        float number;
    } x = {bits};
    return x.number;
}

[[maybe_unused]] static inline double as_double(int64_t bits) {
    union {
        int64_t bits;
        double number;
    } x = {bits};
    return x.number;
}

static inline int64_t value_of(const operand *x, const int64_t *bases, int64_t first) {
    return bases[x->base] + x->number + x->step * first;
}

// Write the other operands as integers to the address that is the first one.
static void write_numbers(const operand *x, int count, const int64_t *bases) {
    int32_t *target = (int32_t *)(intptr_t)value_of(x, bases, 0);
    for (int i = 1; i < count; i++) target[i - 1] = (int32_t)value_of(x + i, bases, 0);
}

static const call *run(const call *now, const char *limit, const int64_t *bases, int64_t first) {
    const operand *x = (const operand *)(now + 1);
    if (limit < (const char *)x) __builtin_trap();
    const int count = now->operands, number = now->function;
    if (count < 0 || count > (limit - (const char *)x) / (int)sizeof(operand)) __builtin_trap();
    const call *next = (const call *)(x + count);
    if (number == count_of_functions) {
        write_numbers(x, count, bases);
        return next;
    }
    if (number < 0 || number > count_of_functions || count > MAX_OPERANDS) __builtin_trap();
    int64_t a[MAX_OPERANDS];
    for (int i = 0; i < count; i++) a[i] = value_of(x + i, bases, first);
    const function called = functions[number];
    switch (now->signature) {
#define CALL(signature, parameters, from, end, ...)                                                \
    case signature:                                                                                \
        if (count != parameters || number < from || number >= end) __builtin_trap();               \
        __VA_ARGS__;                                                                               \
        break;
        SIGNATURES(CALL)
    default:
        __builtin_trap();
    }
    return next;
}

__attribute__((export_name(NAME))) void run_program(const char *table, int bytes, int64_t *bases) {
    const char *const table_end = table + bytes;
    while (table != table_end) {
        const loop *now = (const loop *)table;
        if (now->block < 1 || now->bytes < (int)sizeof(loop) || now->bytes > table_end - table)
            __builtin_trap();
        table += now->bytes;
        for (int64_t first = 0; first < now->count; first += now->block) {
            const int64_t left = now->count - first;
            const call *next = (const call *)(now + 1);
            bases[ITEMS] = left < now->block ? left : now->block;
            for (int i = 0; i < now->calls; i++) next = run(next, table, bases, first);
        }
    }
}
