// Sums over windows of an attribute's width, along the last axis; the second output is the largest.
#include <plugrad_kernel.h>

PLUGRAD_EXPORT("scratch_size") uint32_t scratch_size(const plugrad_call *call) {
    const plugrad_tensor x = call->tensors[0];
    return (x.sizes[x.rank - 1] + 1) * sizeof(double);
}

#define MOVING_SUM(type)                                                                           \
    for (uint32_t row = 0; row < rows; row++) {                                                    \
        const type *values = (const type *)x.data + row * length;                                  \
        type *out = (type *)sums.data + row * count;                                               \
        total[0] = 0;                                                                              \
        for (int i = 0; i < length; i++) total[i + 1] = total[i] + values[i];                      \
        for (int i = 0; i < count; i++) {                                                          \
            out[i] = total[i + width] - total[i];                                                  \
            if (i == 0 || out[i] > ((type *)largest.data)[row]) ((type *)largest.data)[row] = out[i]; \
        }                                                                                          \
    }

int32_t kernel(const plugrad_call *call) {
    const plugrad_tensor x = call->tensors[0], sums = call->tensors[1], largest = call->tensors[2];
    const int width = call->attributes[0], length = x.sizes[x.rank - 1];
    const int count = sums.sizes[sums.rank - 1];
    const uint32_t rows = length ? x.size / length : 0;
    double *total = call->scratch;
    if (call->attribute_count != 1 || call->scratch_size < (length + 1) * sizeof(double)) return 2;
    if (x.dtype == PLUGRAD_FLOAT32) {
        MOVING_SUM(float)
    } else if (x.dtype == PLUGRAD_INT32) {
        MOVING_SUM(int32_t)
    } else {
        return 1;
    }
    return 0;
}
