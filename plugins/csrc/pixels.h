// What kernels for NHWC images share that compute from which pixels a pixel is made.
#pragma once

#include "common.h"

// What a place along an axis shows: the positions before and after it, and its distance from the
// first as a fraction.
typedef struct {
    int low, high;
    double share;
} place;

// Call a function with the channels of a pixel last. Few channels are unrolled, but for the large
// types.
#define WITH_CHANNELS(function, type, channels, ...)                                               \
    do {                                                                                           \
        if (sizeof(type) < 8 && channels == 1)                                                     \
            function(__VA_ARGS__, 1);                                                              \
        else if (sizeof(type) < 8 && channels == 3)                                                \
            function(__VA_ARGS__, 3);                                                              \
        else                                                                                       \
            function(__VA_ARGS__, channels);                                                       \
    } while (0)
