// One strided copy moves everything: the host chooses its strides so that it is a transpose, slice,
// pad, concat, tile, reverse or broadcast.
#include "gemm.h"

#define TILE 32

// Transpose SIDE x SIDE elements: target[row * target_row + column] = source[column * source_step + row].
#define TRANSPOSE(item_size, type)                                                                 \
    static inline void transpose_##item_size(const type *source, ptrdiff_t source_step,            \
                                             type *target, ptrdiff_t target_row) {                 \
        typedef type block __attribute__((vector_size(16 * sizeof(type))));                        \
        type lines[4][4];                                                                          \
        block x;                                                                                   \
        for (int i = 0; i < 4; i++) memcpy(lines[i], source + i * source_step, sizeof lines[i]);   \
        memcpy(&x, lines, sizeof x);                                                               \
        x = __builtin_shufflevector(x, x, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);   \
        memcpy(lines, &x, sizeof x);                                                               \
        for (int i = 0; i < 4; i++) memcpy(target + i * target_row, lines[i], sizeof lines[i]);    \
    }
#define SIDE_1 4
#define SIDE_2 4

#if VECTOR_BYTES == 16
#define SIDE_4 4
#define SIDE_8 4
TRANSPOSE(8, uint64_t)
#else
// In wide vectors: to interleave line i with the one half of all lines further, for all i, and to do so
// again and again, gives the transposed lines.
#if VECTOR_BYTES == 64
#define SIDE_4 16
#define SIDE_8 8
#else
#define SIDE_4 8
#define SIDE_8 4
#endif
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW(side) LOW_##side
#define HIGH(side) HIGH_##side
#define INTERLEAVE(a, b, indices) __builtin_shufflevector(a, b, indices)
#define WIDE_TRANSPOSE(item_size, type, side)                                                      \
    static inline void transpose_##item_size(const type *source, ptrdiff_t source_step,            \
                                             type *target, ptrdiff_t target_row) {                 \
        typedef type line __attribute__((vector_size(VECTOR_BYTES)));                              \
        line lines[side], others[side];                                                            \
        for (int i = 0; i < side; i++) memcpy(lines + i, source + i * source_step, sizeof *lines); \
        for (int step = 1; step < side; step *= 2) {                                               \
            for (int i = 0; i < side / 2; i++) {                                                   \
                others[2 * i] = INTERLEAVE(lines[i], lines[i + side / 2], LOW(side));              \
                others[2 * i + 1] = INTERLEAVE(lines[i], lines[i + side / 2], HIGH(side));         \
            }                                                                                      \
            memcpy(lines, others, sizeof lines);                                                   \
        }                                                                                          \
        for (int i = 0; i < side; i++) memcpy(target + i * target_row, lines + i, sizeof *lines);  \
    }
#if VECTOR_BYTES == 64
WIDE_TRANSPOSE(4, uint32_t, 16)
WIDE_TRANSPOSE(8, uint64_t, 8)
#else
WIDE_TRANSPOSE(4, uint32_t, 8)
WIDE_TRANSPOSE(8, uint64_t, 4)
#endif
#endif
TRANSPOSE(1, uint8_t)
TRANSPOSE(2, uint16_t)

#if VECTOR_BYTES == 16
static inline void transpose_4(const uint32_t *source, ptrdiff_t source_step, uint32_t *target,
                               ptrdiff_t target_row) {
    quad rows[4];
    for (int column = 0; column < 4; column++)
        rows[column] = load_quad((const float *)source + column * source_step);
    store_transposed(rows, (float *)target, target_row);
}
#endif

#ifdef __wasm__
#define SIDE_16 1  // a vector holds one
static inline void transpose_16(const uint128 *source, ptrdiff_t, uint128 *target, ptrdiff_t) {
    *target = *source;
}
#endif

// Copy SHORTEST_ROW bytes or more, the last of them a second time perhaps.
#ifdef __wasm__
#define SHORTEST_ROW 4
#else
#define SHORTEST_ROW 16
#endif
static inline void copy_short_row(const char *source, char *target, int bytes) {
#ifdef __wasm__  // where a loop over single elements takes three times as long
#define COPY_TWICE(part)                                                                           \
    if (bytes < 2 * part) {                                                                        \
        memcpy(target, source, part);                                                              \
        memcpy(target + bytes - part, source + bytes - part, part);                                \
        return;                                                                                    \
    }
    COPY_TWICE(4)
    COPY_TWICE(8)
#endif
    for (int at = 0; at < bytes - 16; at += 16) memcpy(target + at, source + at, 16);
    memcpy(target + bytes - 16, source + bytes - 16, 16);
}

// Copy a plane of rows x columns whose strides are arbitrary. Rows that run backwards have a function of their own, whose
// variables wasmtime keeps in registers.
#define COPY_PLANE(item_size, type)                                                                \
    ONCE static void copy_backwards_##item_size(const type *restrict source,                       \
                                                type *restrict target, int rows, int columns,      \
                                                ptrdiff_t source_row, ptrdiff_t target_row) {      \
        for (; rows > 0; rows--, source += source_row, target += target_row)                       \
            for (int j = 0; j < columns; j++) target[j] = source[-j];                              \
    }                                                                                              \
    static void copy_plane_##item_size(const type *source, type *target, int rows, int columns,    \
                                       const int *source_strides, const int *target_strides) {     \
        const ptrdiff_t source_row = source_strides[0], source_step = source_strides[1];           \
        const ptrdiff_t target_row = target_strides[0], target_step = target_strides[1];           \
        if (source_step == -1 && target_step == 1)                                                 \
            return copy_backwards_##item_size(source, target, rows, columns, source_row,           \
                                              target_row);                                         \
        if (source_step == 0 && target_step == 1) {                                                \
            for (int i = 0; i < rows; i++, source += source_row, target += target_row) {           \
                const type value = *source;                                                        \
                for (int j = 0; j < columns; j++) target[j] = value;                               \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        if (source_step == 1 && target_step == 1) {                                                \
            const int bytes = columns * sizeof(type);                                              \
            for (int i = 0; i < rows; i++, source += source_row, target += target_row)             \
                if (bytes >= SHORTEST_ROW && bytes < 128)                                          \
                    copy_short_row((const char *)source, (char *)target, bytes);                   \
                else if (bytes >= 128)                                                             \
                    memcpy(target, source, bytes);                                                 \
                else                                                                               \
                    for (int j = 0; j < columns; j++) target[j] = source[j];                       \
            return;                                                                                \
        }                                                                                          \
        /* Square tiles, so that a transposition uses whole cache lines on both sides. */          \
        const int is_transposition = source_row == 1 && target_step == 1;                          \
        for (int top = 0; top < rows; top += TILE)                                                 \
            for (int left = 0; left < columns; left += TILE) {                                     \
                const int bottom = smaller(top + TILE, rows);                                      \
                const int right = smaller(left + TILE, columns);                                   \
                /* What square blocks leave over at both edges goes one by one. */                 \
                const int side = SIDE_##item_size;                                                 \
                const int low = is_transposition ? bottom - (bottom - top) % side : top;           \
                const int end = is_transposition ? right - (right - left) % side : left;           \
                for (int i = top; i < low; i += side)                                              \
                    for (int j = left; j < end; j += side)                                         \
                        transpose_##item_size(source + j * source_step + i, source_step,           \
                                              target + i * target_row + j, target_row);            \
                for (int i = top; i < bottom; i++)                                                 \
                    for (int j = i < low ? end : left; j < right; j++)                             \
                        target[i * target_row + j * target_step] =                                 \
                            source[i * source_row + j * source_step];                              \
            }                                                                                      \
    }

// descriptor: axes (at least 2), sizes, source_strides, target_strides; strides in elements.
#define COPY(item_size, type)                                                                      \
    COPY_PLANE(item_size, type)                                                                    \
    KERNEL(copy_##item_size)(const strided *from_bytes, type *target, const int *descriptor) {     \
        const type *source = (const type *)from_bytes;                                             \
        const int axes = descriptor[0], outer = axes - 2;                                          \
        const int *sizes = descriptor + 1, *source_strides = sizes + axes;                         \
        const int *target_strides = source_strides + axes;                                         \
        int index[MAX_AXES] = {0};                                                                 \
        ptrdiff_t from = 0, to = 0;                                                                \
        do copy_plane_##item_size(source + from, target + to, sizes[outer], sizes[outer + 1],      \
                                  source_strides + outer, target_strides + outer);                 \
        while (step_axes(outer, sizes, index, source_strides, target_strides, &from, &to));        \
    }
EACH_MOVED_SIZE(COPY)

#define MOST_REPEATED 16  // elements of rows so short that each costs more than what is in it
// A part of an array that is broadcast, `count` elements from the position `first` on. descriptor: axes, sizes, strides
// of the source in elements.
#define EXPAND(item_size, type)                                                                    \
    SHORT_LOOPS KERNEL(expand_##item_size)(const type *restrict source, type *restrict target,     \
                                           int count, int first, const int *descriptor) {          \
        const int last = descriptor[0] - 1, *sizes = descriptor + 1, *strides = sizes + last + 1;  \
        const int step = strides[last];                                                            \
        int index[MAX_AXES];                                                                       \
        for (int axis = last; axis >= 0; axis--) {                                                 \
            index[axis] = first % sizes[axis];                                                     \
            first /= sizes[axis];                                                                  \
            source += (ptrdiff_t)index[axis] * strides[axis];                                      \
        }                                                                                          \
        const int row_step = last > 0 ? strides[last - 1] : 0;                                     \
        while (count > 0) {                                                                        \
            const int n = smaller(count, sizes[last] - index[last]);                               \
            const int is_whole = last > 0 && n == sizes[last];                                     \
            const int rows = is_whole ? smaller(count / n, sizes[last - 1] - index[last - 1]) : 1; \
            const int all = rows * n, is_short = rows > 1 && n <= MOST_REPEATED;                   \
            if (is_short && !row_step) { /* the same row: what is written is copied behind it */   \
                ONE_BY_ONE for (int i = 0; i < n; i++) target[i] = source[(ptrdiff_t)i * step];    \
                for (int done = n, more; done < all; done += more) {                               \
                    more = smaller(done, all - done);                                              \
                    for (int i = 0; i < more; i++) target[done + i] = target[i];                   \
                }                                                                                  \
            } else if (is_short && !step) { /* the same element in all columns */                  \
                for (int i = 0; i < n; i++)                                                        \
                    ONE_BY_ONE for (int row = 0; row < rows; row++)                                \
                        target[row * n + i] = source[(ptrdiff_t)row * row_step];                   \
            } else                                                                                 \
                for (int row = 0; row < rows; row++) {                                             \
                    const type *from = source + (ptrdiff_t)row * row_step;                         \
                    type *to = target + row * n;                                                   \
                    if (step == 1)                                                                 \
                        for (int i = 0; i < n; i++) to[i] = from[i];                               \
                    else if (step == 0)                                                            \
                        for (int i = 0; i < n; i++) to[i] = *from;                                 \
                    else                                                                           \
                        for (int i = 0; i < n; i++) to[i] = from[(ptrdiff_t)i * step];             \
                }                                                                                  \
            target += all;                                                                         \
            count -= all;                                                                          \
            int axis = is_whole ? last - 1 : last;                                                 \
            index[axis] += is_whole ? rows : n;                                                    \
            source += (ptrdiff_t)(is_whole ? rows : n) * strides[axis];                            \
            for (; axis > 0 && index[axis] == sizes[axis]; axis--) {                               \
                source += strides[axis - 1] - (ptrdiff_t)strides[axis] * sizes[axis];              \
                index[axis] = 0;                                                                   \
                index[axis - 1]++;                                                                 \
            }                                                                                      \
        }                                                                                          \
    }
EACH_MOVED_SIZE(EXPAND)

#define FILL(item_size, type)                                                                      \
    KERNEL(fill_##item_size)(type *out, int count, uint64_t bits) {                                \
        for (int i = 0; i < count; i++) out[i] = (type)bits;                                       \
    }
EACH_ITEM_SIZE(FILL)
#ifdef __wasm__
KERNEL(fill_16)(uint128 *out, int count, uint64_t low, uint64_t high) {
    for (int i = 0; i < count; i++) out[i] = (uint128)high << 64 | low;
}
#endif

// start, start + step, ...: floats in double precision, and integers as integers.
#define RAMP(dtype, type, number)                                                                  \
    KERNEL(ramp_##dtype)(type *out, int count, number start, number step) {                        \
        for (int i = 0; i < count; i++) out[i] = (type)(start + step * (number)i);                 \
    }
RAMP(float32, float, double)
RAMP(float64, double, double)
RAMP(int32, int32_t, int32_t)
RAMP(int64, int64_t, int64_t)

// Matrices without what lies more than `lower` diagonals below or `upper` above the main one; a
// negative number keeps all.
#define BAND_PART(item_size, type)                                                                 \
    KERNEL(band_part_##item_size)(const type *restrict x, type *restrict out, int batch, int rows, \
                                  int columns, const int32_t *lower, const int32_t *upper) {       \
        const int below = *lower < 0 ? rows : smaller(*lower, rows);                               \
        const int above = *upper < 0 ? columns : smaller(*upper, columns);                         \
        for (; batch > 0; batch--)                                                                 \
            for (int i = 0; i < rows; i++, x += columns, out += columns) {                         \
                const int first = i < below ? 0 : smaller(i - below, columns);                     \
                const int end = above < columns - i ? i + above + 1 : columns;                     \
                const int last = end < first ? first : end;                                        \
                memset(out, 0, first * sizeof *out);                                               \
                memcpy(out + first, x + first, (last - first) * sizeof *out);                      \
                memset(out + last, 0, (columns - last) * sizeof *out);                             \
            }                                                                                      \
    }
EACH_MOVED_SIZE(BAND_PART)
