// Threads that compute parts of a call, without an interpreter.
#pragma once

#include "python.h"

// Compute parts 0 to `count` - 1 of `job`: in this thread, which must not hold Python's lock, and in up to `threads` - 1
// others that have time. Return when all parts are done. Other callers at the same time compute alone.
void run_parts(void (*run)(void *job, int part), void *job, int count, int threads);

// Start threads, so that there are `threads` with the caller's, if the system lets us. The caller holds Python's lock.
// With more threads than processors, those that wait sleep at once.
void start_helpers(int threads, int processors);

// Forget all threads: a forked child has none.
void forget_helpers(void);
