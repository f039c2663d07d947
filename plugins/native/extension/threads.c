// Threads that compute parts of a call, see threads.h.
//
// Whoever is there takes the next part, the caller, too. So nobody waits for a thread that has not begun: it comes too
// late and finds nothing. Where calls follow each other, a thread that has computed looks for more for a while before it
// sleeps, because waking it takes longer than many a call.
//
// Threads and locks are those of CPython's ABI, which has them for all systems. A helper never takes Python's lock.
#include "threads.h"

#include <stdatomic.h>

#define MOST_HELPERS 255
#define HOPEFUL_CALLS 4 // after one that came soon
#define SEAT (1u << 16) // for a helper that may come
#define INSIDE (SEAT - 1)

// What a thread sleeps on. The lock is held but when the thread is to wake up.
typedef struct {
    void *lock;
    _Atomic(int) is_asleep;
} bed;

static bed helpers[MOST_HELPERS], caller;
static _Atomic(int) helper_count, is_patient; // whether there are processors for all that look for parts
static _Atomic(int) is_taken; // whether somebody uses the helpers
static _Atomic(uint32_t) gate; // how many helpers are inside, and a SEAT for each that may still come

static struct {
    void (*run)(void *job, int part);
    void *job;
    _Atomic(uint64_t) left; // the first part that nobody has taken, and, in the high half, the end of them
} current; // is written while nobody is inside

// What the processor counts all the time.
static uint64_t now(void) {
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

// The ticks for which a thread waits before it sleeps: about 50 µs, at most 100.
static uint64_t patience(void) {
#ifdef __x86_64__
    return 200000;
#else
    uint64_t per_second;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(per_second));
    return per_second / 20000;
#endif
}

// Let the other thread of a core compute for some cycles; return whether this one has waited long enough since `begin`.
static int pause_until(uint64_t begin) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("isb");
#endif
    return !atomic_load(&is_patient) || now() - begin > patience();
}

static void wake(bed *b) {
    if (atomic_exchange(&b->is_asleep, 0)) PyThread_release_lock(b->lock);
}

// Sleep until somebody wakes this thread, unless there is a gate to enter, or an empty room to see.
static void sleep_at_gate(bed *b, int is_helper) {
    atomic_store(&b->is_asleep, 1);
    const uint32_t seen = atomic_load(&gate);
    const int is_ready = is_helper ? seen >= SEAT : !seen;
    if (is_ready && atomic_exchange(&b->is_asleep, 0)) return;
    PyThread_acquire_lock(b->lock, 1);
}

// Take the first part that is left, or the last one; return -1 if there is none.
static int take_part(int is_helper) {
    uint64_t left = atomic_load(&current.left);
    for (;;) {
        const uint32_t first = (uint32_t)left, end = (uint32_t)(left >> 32);
        if (first >= end) return -1;
        const uint64_t after = is_helper ? (uint64_t)(end - 1) << 32 | first : left + 1;
        if (atomic_compare_exchange_weak(&current.left, &left, after))
            return (int)(is_helper ? end - 1 : first);
    }
}

// Compute parts until none is left; then nobody else need come. Callers take the first ones and helpers the last ones, so
// that each finds in its own cache what it has written in the call before.
static void take_parts(int is_helper) {
    for (int part; (part = take_part(is_helper)) >= 0;) current.run(current.job, part);
    atomic_fetch_and(&gate, INSIDE);
}

static int enter(void) {
    uint32_t seen = atomic_load(&gate);
    while (seen >= SEAT)
        if (atomic_compare_exchange_weak(&gate, &seen, seen - SEAT + 1)) return 1;
    return 0;
}

// A thread waits awake if one of its last calls came soon after the one before: then the next one may, too. Else it would
// only burn the time of its processor.
static void help(void *own) {
    int hope = HOPEFUL_CALLS;
    for (uint64_t begin = now();;) {
        if (enter()) {
            hope = now() - begin < patience() ? HOPEFUL_CALLS : hope - (hope > 0);
            take_parts(1);
            if (atomic_fetch_sub(&gate, 1) == 1) wake(&caller);
            begin = now();
        } else if (!hope || pause_until(begin)) {
            sleep_at_gate(own, 1);
        }
    }
}

static void *make_bed(void) {
    void *lock = PyThread_allocate_lock();
    if (lock) PyThread_acquire_lock(lock, 1);
    return lock;
}

void start_helpers(int threads, int processors) {
    atomic_store(&is_patient, threads <= processors);
    if (atomic_load(&helper_count) >= threads - 1 || atomic_exchange(&is_taken, 1)) return;
    if (!caller.lock) caller.lock = make_bed();
    while (caller.lock && helper_count < threads - 1 && helper_count < MOST_HELPERS) {
        bed *own = helpers + helper_count;
        if (!own->lock) own->lock = make_bed();
        if (!own->lock || PyThread_start_new_thread(help, own) == (unsigned long)-1) break;
        helper_count++;
    }
    atomic_store(&is_taken, 0);
}

void forget_helpers(void) {
    for (int i = 0; i < MOST_HELPERS; i++) helpers[i] = (bed){};
    caller = (bed){};
    helper_count = is_taken = 0;
    gate = 0;
}

void run_parts(void (*run)(void *job, int part), void *job, int count, int threads) {
    const int most = count < threads ? count : threads;
    if (most < 2 || !atomic_load(&helper_count) || atomic_exchange(&is_taken, 1)) {
        for (int part = 0; part < count; part++) run(job, part);
        return;
    }
    const int there = helper_count, seats = most - 1 < there ? most - 1 : there;
    current.run = run, current.job = job;
    atomic_store(&current.left, (uint64_t)count << 32);
    atomic_store(&gate, (uint32_t)seats * SEAT);
    int awake = 0;
    for (int i = 0; i < there; i++) awake += !atomic_load(&helpers[i].is_asleep);
    for (int i = 0; i < there && awake < seats; i++)
        if (atomic_load(&helpers[i].is_asleep)) wake(helpers + i), awake++;
    take_parts(0);
    for (const uint64_t begin = now(); atomic_load(&gate);)
        if (pause_until(begin)) sleep_at_gate(&caller, 0);
    atomic_store(&is_taken, 0);
}
