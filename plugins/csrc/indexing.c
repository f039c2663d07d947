// Kernels that look up elements by index. An index out of range reads and writes nothing.
#include "common.h"

static inline int is_within(int index, int size) { return index >= 0 && index < size; }

// An index from 0 to size - 1 needs few instructions, so that the processor looks further ahead for the next elements; the
// empty statement keeps the branch.
#ifdef __wasm__
#define USUAL_ELEMENT(index_type)                                                                  \
    if (indices[j] >= 0 && indices[j] < (index_type)size) {                                        \
        out[j] = x[(int)indices[j]];                                                               \
        continue;                                                                                  \
    }                                                                                              \
    __asm__ volatile("");
#else
#define USUAL_ELEMENT(index_type)
#endif

// x is (batch, outer, size, inner), indices (batch, count), out (batch, outer, count, inner);
// a negative index counts from the end, and one out of range gives zeros.
#define GATHER(name, item_size, type, index_type)                                                  \
    /* Single elements: in a function of its own, whose variables wasmtime keeps in registers. */  \
    ONCE static void name##_elements_##item_size(                                                  \
        const type *restrict x, const index_type *restrict indices, type *restrict out, int batch, \
        int outer, int size, int count) {                                                          \
        const uint64_t end = size;                                                                 \
        const type zero = 0;                                                                       \
        for (; batch > 0; batch--, indices += count)                                               \
            for (int i = 0; i < outer; i++, x += size, out += count)                               \
                _Pragma("clang loop unroll_count(4)") for (int j = 0; j < count; j++) {            \
                    USUAL_ELEMENT(index_type)                                                      \
                    const int64_t index = indices[j] + (indices[j] < 0 ? (int64_t)size : 0);       \
                    out[j] = *((uint64_t)index < end ? x + (int)index : &zero);                    \
                }                                                                                  \
    }                                                                                              \
    SHORT_LOOPS KERNEL(name##_##item_size)(                                                        \
        const type *restrict x, const index_type *restrict indices, type *restrict out, int batch, \
        int outer, int size, int inner, int count) {                                               \
        if (inner == 1)                                                                            \
            return name##_elements_##item_size(x, indices, out, batch, outer, size, count);        \
        for (; batch > 0; batch--, indices += count)                                               \
            for (int i = 0; i < outer; i++, x += (ptrdiff_t)size * inner, out += count * inner)    \
                for (int j = 0; j < count; j++) {                                                  \
                    const index_type index = indices[j] + (indices[j] < 0 ? size : 0);             \
                    const int is_valid = index >= 0 && index < size;                               \
                    const type *row = x + (ptrdiff_t)(is_valid ? (int)index : 0) * inner;          \
                    type *target = out + (ptrdiff_t)j * inner;                                     \
                    if (is_valid)                                                                  \
                        for (int k = 0; k < inner; k++) target[k] = row[k];                        \
                    else                                                                           \
                        for (int k = 0; k < inner; k++) target[k] = 0;                             \
                }                                                                                  \
    }
#define GATHERS(item_size, type)                                                                   \
    GATHER(gather, item_size, type, int32_t)                                                       \
    GATHER(gather_by_int64, item_size, type, int64_t)
EACH_MOVED_SIZE(GATHERS)

// The places of rows of coordinates on axes that are flattened; one out of range gives a place that
// is out of range, also when counted from the end. descriptor: depth, sizes[depth].
#define FLAT_PLACES(name, type)                                                                    \
    KERNEL(name)(const type *restrict coordinates, int32_t *restrict out, int count,               \
                 const int *descriptor) {                                                          \
        const int depth = descriptor[0], *sizes = descriptor + 1;                                  \
        if (depth == 1) {                                                                          \
            const int size = sizes[0];                                                             \
            _Pragma("clang loop unroll_count(4)") for (int i = 0; i < count; i++) {                \
                const type place = coordinates[i] + (coordinates[i] < 0 ? size : 0);               \
                out[i] = place >= 0 && place < size ? (int32_t)place : INT32_MIN;                  \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int i = 0; i < count; i++, coordinates += depth) {                                    \
            int place = 0, is_valid = 1;                                                           \
            for (int axis = 0; axis < depth; axis++) {                                             \
                const int size = sizes[axis];                                                      \
                const type position = coordinates[axis] + (coordinates[axis] < 0 ? size : 0);      \
                is_valid &= position >= 0 && position < size;                                      \
                place = place * size + (int)position;                                              \
            }                                                                                      \
            out[i] = is_valid ? place : INT32_MIN;                                                 \
        }                                                                                          \
    }
FLAT_PLACES(flat_places, int32_t)
#ifdef __wasm__
FLAT_PLACES(flat_places_by_int64, int64_t)
#endif

// Write row i of updates, or the only one if `step` is 0, to out[places[i]], in order.
#define SCATTER(item_size, type)                                                                   \
    SHORT_LOOPS KERNEL(scatter_##item_size)(const type *restrict updates,                          \
                                            const int32_t *restrict places, type *restrict out,    \
                                            int count, int inner, int size, int step) {            \
        for (int i = 0; i < count; i++, updates += step) {                                         \
            if (!is_within(places[i], size)) continue;                                             \
            type *row = out + (ptrdiff_t)places[i] * inner;                                        \
            for (int k = 0; k < inner; k++) row[k] = updates[k];                                   \
        }                                                                                          \
    }
EACH_MOVED_SIZE(SCATTER)

// `on` and `off` are bits.
#define ONE_HOT(item_size, type)                                                                   \
    static void one_hots_##item_size(const int32_t *indices, type *out, int count, int depth,      \
                                     type on, type off) {                                          \
        for (int i = 0; i < count; i++, out += depth) {                                            \
            for (int j = 0; j < depth; j++) out[j] = off;                                          \
            if (is_within(indices[i], depth)) out[indices[i]] = on;                                \
        }                                                                                          \
    }
#define ONE_HOT_OF_BITS(item_size, type)                                                           \
    ONE_HOT(item_size, type)                                                                       \
    KERNEL(one_hot_##item_size)(const int32_t *indices, type *out, int count, int depth,           \
                                uint64_t on, uint64_t off) {                                       \
        one_hots_##item_size(indices, out, count, depth, (type)on, (type)off);                     \
    }
EACH_ITEM_SIZE(ONE_HOT_OF_BITS)
#ifdef __wasm__
ONE_HOT(16, uint128)
KERNEL(one_hot_16)(const int32_t *indices, uint128 *out, int count, int depth, uint64_t on_low,
                   uint64_t on_high, uint64_t off_low, uint64_t off_high) {
    one_hots_16(indices, out, count, depth, (uint128)on_high << 64 | on_low,
                (uint128)off_high << 64 | off_low);
}
#endif

// x is (batch, count, inner), ids (batch, count), out (batch, segments, inner).
#define SEGMENT_SUM(dtype, type, effort)                                                           \
    effort KERNEL(segment_sum_##dtype)(const type *restrict x, const int32_t *restrict ids,        \
                                       type *restrict out, int batch, int count, int inner,        \
                                       int segments) {                                             \
        memset(out, 0, (size_t)batch * segments * inner * sizeof *out);                            \
        for (; batch > 0; batch--, out += (ptrdiff_t)segments * inner)                             \
            for (int i = 0; i < count; i++, ids++, x += inner) {                                   \
                if (!is_within(*ids, segments)) continue;                                          \
                type *row = out + (ptrdiff_t)*ids * inner;                                         \
                if (inner == 1)                                                                    \
                    *row += *x;                                                                    \
                else                                                                               \
                    for (int k = 0; k < inner; k++) row[k] += x[k];                                \
            }                                                                                      \
    }
EACH_NUMBER(SEGMENT_SUM)
SEGMENT_SUM(complex64, complex64, SMALL)
SEGMENT_SUM(complex128, complex128, SMALL)
#ifndef __wasm__
// Positions on an axis of a size counted from its front, as int32; returns whether one is out of range.
#define WRAPPED(dtype, type)                                                                       \
    EXPORTED(wrapped_##dtype)                                                                      \
    int wrapped_##dtype(const type *restrict indices, int32_t *restrict out, int count, int size) { \
        type is_wrong = 0;                                                                         \
        for (int i = 0; i < count; i++) {                                                          \
            const type place = indices[i] + (indices[i] < 0 ? size : 0);                           \
            is_wrong |= place < 0 || place >= size;                                                \
            out[i] = (int32_t)place;                                                               \
        }                                                                                          \
        return is_wrong != 0;                                                                      \
    }
WRAPPED(int32, int32_t)
WRAPPED(int64, int64_t)

// The gradient of taking one element of each row: out is (batch, size), x and indices are (batch). As in
// a sum, -0 becomes 0.
#define GATHER_GRADIENT_OF_ROWS(name, type, index_type)                                            \
    __attribute__((minsize)) KERNEL(name)(const type *restrict x,                                  \
                                          const index_type *restrict indices,                      \
                                          type *restrict out, int batch, int size) {               \
        memset(out, 0, (size_t)batch * size * sizeof *out);                                        \
        for (int i = 0; i < batch; i++, out += size) {                                             \
            const index_type index = indices[i] + (indices[i] < 0 ? size : 0);                     \
            if (index >= 0 && index < size) out[index] += x[i];                                    \
        }                                                                                          \
    }
#define GATHER_GRADIENTS_OF_ROWS(dtype, type, effort)                                              \
    GATHER_GRADIENT_OF_ROWS(gather_gradient_of_rows_##dtype, type, int32_t)                        \
    GATHER_GRADIENT_OF_ROWS(gather_gradient_of_rows_by_int64_##dtype, type, int64_t)
EACH_FLOAT(GATHER_GRADIENTS_OF_ROWS)

// Single elements at places that are in range: x is (batch, outer, size), places are (batch, count).
#define PICK(item_size, type)                                                                      \
    KERNEL(pick_##item_size)(const type *restrict x, const int32_t *restrict places,               \
                             type *restrict out, int batch, int outer, int size, int count) {      \
        for (; batch > 0; batch--, places += count)                                                \
            for (int i = 0; i < outer; i++, x += size, out += count)                               \
                for (int j = 0; j < count; j++) out[j] = x[places[j]];                             \
    }
EACH_ITEM_SIZE(PICK)

// Sums of single elements in double precision. scratch has the sums of all segments, which are zeros again
// after each batch. For a single batch of fewer elements than segments, it has those of the segments that
// occur: each segment refers to the last of its elements meanwhile, whose place has the sum. So it takes
// 12 bytes for each segment, or for each element of such a batch.
KERNEL(segment_sum_of_elements_float32)(const float *restrict x, const int32_t *restrict ids,
                                        float *restrict out, int batch, int count, int segments,
                                        double *restrict sums) {
    if (batch == 1 && count < segments) {
        int32_t *const lasts = (int32_t *)(sums + count);
        memset(out, 0, segments * sizeof *out);
        memset(sums, 0, count * sizeof *sums);
        for (int32_t i = 0; i < count; i++)
            if (is_within(ids[i], segments)) memcpy(out + ids[i], &i, sizeof i);
        for (int i = 0; i < count; i++) {
            if (!is_within(ids[i], segments)) continue;
            memcpy(lasts + i, out + ids[i], sizeof *lasts);
            sums[lasts[i]] += x[i];
        }
        for (int i = 0; i < count; i++)
            if (is_within(ids[i], segments)) out[ids[i]] = sums[lasts[i]];
        return;
    }
    memset(sums, 0, segments * sizeof *sums);
    for (; batch > 0; batch--, x += count, ids += count, out += segments) {
        for (int i = 0; i < count; i++)
            if (is_within(ids[i], segments)) sums[ids[i]] += x[i];
        if (count >= segments) {
            for (int i = 0; i < segments; i++) out[i] = sums[i], sums[i] = 0;
            continue;
        }
        memset(out, 0, segments * sizeof *out);
        for (int i = 0; i < count; i++)
            if (is_within(ids[i], segments)) out[ids[i]] = sums[ids[i]];
        for (int i = 0; i < count; i++)
            if (is_within(ids[i], segments)) sums[ids[i]] = 0;
    }
}

// Sums of rows in double precision: the rows of each segment are listed and then added, a few columns at
// a time, so that each sum is written once. scratch has room for the segments and the rows of a batch.
#define COLUMNS 64
KERNEL(segment_sum_of_rows_float32)(const float *restrict x, const int32_t *restrict ids,
                                    float *restrict out, int batch, int count, int inner,
                                    int segments, int32_t *restrict scratch) {
    int32_t *const firsts = scratch, *const nexts = scratch + segments;
    for (; batch > 0; batch--, x += (ptrdiff_t)count * inner, ids += count) {
        memset(firsts, 0xff, segments * sizeof *firsts);  // -1: no row
        for (int i = count - 1; i >= 0; i--)
            if (is_within(ids[i], segments)) {
                nexts[i] = firsts[ids[i]];
                firsts[ids[i]] = i;
            }
        for (int segment = 0; segment < segments; segment++, out += inner) {
            const int first = firsts[segment];
            if (first < 0 || nexts[first] < 0) {
                if (first < 0)
                    memset(out, 0, inner * sizeof *out);
                else
                    memcpy(out, x + (ptrdiff_t)first * inner, inner * sizeof *out);
                continue;
            }
            for (int column = 0; column < inner; column += COLUMNS) {
                const int width = smaller(COLUMNS, inner - column);
                double sums[COLUMNS] = {0};
                for (int i = first; i >= 0; i = nexts[i]) {
                    const float *row = x + (ptrdiff_t)i * inner + column;
                    for (int j = 0; j < width; j++) sums[j] += row[j];
                }
                for (int j = 0; j < width; j++) out[column + j] = sums[j];
            }
        }
    }
}
#endif

// How often each id occurs in each row of (batch, count), or whether it does; out is (batch, bins). Few
// bins are counted in turn in four tables, because an addition to the bin before has to wait for that.
#define TABLES 4
#define FEW_BINS 256
KERNEL(count_ids)(const int32_t *restrict ids, int32_t *restrict out, int batch, int count, int bins,
                  int is_binary) {
    memset(out, 0, (size_t)batch * bins * sizeof *out);
    for (; batch > 0; batch--, out += bins, ids += count) {
        int i = 0;
        if (bins <= FEW_BINS && count > FEW_BINS * TABLES) {
            int32_t counts[TABLES][FEW_BINS + 1] = {};  // the last one counts what is out of range
            for (; i + TABLES <= count; i += TABLES)
                for (int j = 0; j < TABLES; j++)
                    counts[j][is_within(ids[i + j], bins) ? ids[i + j] : bins]++;
            for (int bin = 0; bin < bins; bin++)
                for (int j = 0; j < TABLES; j++) out[bin] += counts[j][bin];
        }
        for (; i < count; i++)
            if (is_within(ids[i], bins)) out[ids[i]]++;
        for (i = 0; is_binary && i < bins; i++) out[i] = out[i] > 0;
    }
}
