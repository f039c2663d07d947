// Threads that compute parts of a call, see threads.h.
//
// Each thread has a share of the parts, the same of every call: so it finds in its own cache what it has written in the
// call before. Nobody waits for a thread that has not begun: others take its parts, and it comes too late and finds nothing.
// Where calls follow each other, a thread that has computed looks for more for a while before it sleeps, because waking it
// takes longer than many a call.
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
    int count, shares;
} current; // is written while nobody is inside

// Of each share, in a cache line of its own: the first part that nobody has taken, and, in the high half, the end of them.
static struct {
    _Alignas(64) _Atomic(uint64_t) left;
} shares[MOST_HELPERS + 1];

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

// Let the other thread of a core compute for some cycles.
static void pause_processor(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("isb");
#endif
}

// Pause; return whether this thread has waited long enough since `begin`.
static int pause_until(uint64_t begin) {
    pause_processor();
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

static uint32_t begin_of(int share) {
    return (uint32_t)((int64_t)current.count * share / current.shares);
}

enum taken { OWN, NOT_BEGUN, ANY };

// Compute parts of a share while there are any: the first ones of one's own, the last ones of another's.
static void take_parts_of(int share, enum taken which) {
    const int is_own = which == OWN;
    uint64_t left = atomic_load(&shares[share].left);
    for (uint32_t first, end; (first = (uint32_t)left) < (end = (uint32_t)(left >> 32));) {
        if (which == NOT_BEGUN && first != begin_of(share)) return;
        const uint64_t after = is_own ? left + 1 : (uint64_t)(end - 1) << 32 | first;
        if (!atomic_compare_exchange_weak(&shares[share].left, &left, after)) continue;
        current.run(current.job, (int)(is_own ? first : end - 1));
        left = atomic_load(&shares[share].left);
    }
}

// Compute the parts of the thread's own share, and of those that nobody has begun. The other threads may finish theirs,
// which are in their caches, in one and a half times the time; then help them. When none is left, nobody else need come.
static void take_parts(int self) {
    const uint64_t begin = now();
    take_parts_of(self, OWN);
    for (int i = 1; i < current.shares; i++) take_parts_of((self + i) % current.shares, NOT_BEGUN);
    const uint64_t own_end = now();
    for (int i = 1; i < current.shares; i++) {
        const int share = (self + i) % current.shares;
        for (uint64_t left; left = atomic_load(&shares[share].left), (uint32_t)left < left >> 32;) {
            if (atomic_load(&is_patient) && now() - own_end < (own_end - begin) / 2)
                pause_processor();
            else
                take_parts_of(share, ANY);
        }
    }
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
    const int number = (int)((bed *)own - helpers) + 1;
    int hope = HOPEFUL_CALLS;
    for (uint64_t begin = now();;) {
        if (enter()) {
            hope = now() - begin < patience() ? HOPEFUL_CALLS : hope - (hope > 0);
            take_parts(number % current.shares);
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
    current.run = run, current.job = job, current.count = count, current.shares = seats + 1;
    for (int i = 0; i <= seats; i++)
        atomic_store(&shares[i].left, (uint64_t)begin_of(i + 1) << 32 | begin_of(i));
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
