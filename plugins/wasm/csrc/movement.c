// One strided copy moves everything: the host chooses its strides so that it is a transpose, slice,
// pad, concat, tile, reverse or broadcast.
#include "common.h"

#define TILE 16

// Copy a plane of rows x columns whose strides are arbitrary.
#define COPY_PLANE(item_size, type)                                                                \
    static void copy_plane_##item_size(const type *source, type *target, int rows, int columns,    \
                                       const int *source_strides, const int *target_strides) {     \
        const ptrdiff_t source_row = source_strides[0], source_step = source_strides[1];           \
        const ptrdiff_t target_row = target_strides[0], target_step = target_strides[1];           \
        if (source_step == -1 && target_step == 1) {                                               \
            for (int i = 0; i < rows; i++, source += source_row, target += target_row)             \
                for (int j = 0; j < columns; j++) target[j] = source[-j];                          \
            return;                                                                                \
        }                                                                                          \
        if (source_step == 1 && target_step == 1) {                                                \
            for (int i = 0; i < rows; i++, source += source_row, target += target_row)             \
                if (columns * sizeof(type) >= 128)                                                 \
                    memcpy(target, source, columns * sizeof(type));                                \
                else                                                                               \
                    for (int j = 0; j < columns; j++) target[j] = source[j];                       \
            return;                                                                                \
        }                                                                                          \
        /* Square tiles, so that a transposition uses whole cache lines on both sides. */          \
        for (int top = 0; top < rows; top += TILE)                                                 \
            for (int left = 0; left < columns; left += TILE)                                       \
                for (int i = top; i < smaller(top + TILE, rows); i++)                              \
                    for (int j = left; j < smaller(left + TILE, columns); j++)                     \
                        target[i * target_row + j * target_step] =                                 \
                            source[i * source_row + j * source_step];                              \
    }

// descriptor: axes (at least 2), sizes, source_strides, target_strides; strides in elements.
#define COPY(item_size, type)                                                                      \
    COPY_PLANE(item_size, type)                                                                    \
    KERNEL(copy_##item_size)(const type *source, type *target, const int *descriptor) {            \
        const int axes = descriptor[0], outer = axes - 2;                                          \
        const int *sizes = descriptor + 1, *source_strides = sizes + axes;                         \
        const int *target_strides = source_strides + axes;                                         \
        int index[MAX_AXES] = {0};                                                                 \
        ptrdiff_t from = 0, to = 0;                                                                \
        do copy_plane_##item_size(source + from, target + to, sizes[outer], sizes[outer + 1],      \
                                  source_strides + outer, target_strides + outer);                 \
        while (step_axes(outer, sizes, index, source_strides, target_strides, &from, &to));        \
    }
EACH_ITEM_SIZE(COPY)

#define FILL(item_size, type)                                                                      \
    KERNEL(fill_##item_size)(type *out, int count, uint64_t bits) {                                \
        for (int i = 0; i < count; i++) out[i] = (type)bits;                                       \
    }
EACH_ITEM_SIZE(FILL)

// Matrices without what lies more than `lower` diagonals below or `upper` above the main one; a
// negative number keeps all.
#define BAND_PART(item_size, type)                                                                 \
    KERNEL(band_part_##item_size)(const type *restrict x, type *restrict out, int batch, int rows, \
                                  int columns, const int32_t *lower, const int32_t *upper) {       \
        const int below = *lower < 0 ? rows : smaller(*lower, rows);                               \
        const int above = *upper < 0 ? columns : smaller(*upper, columns);                         \
        for (; batch > 0; batch--)                                                                 \
            for (int i = 0; i < rows; i++, x += columns, out += columns)                           \
                for (int j = 0; j < columns; j++)                                                  \
                    out[j] = j >= i - below && j <= i + above ? x[j] : 0;                          \
    }
EACH_ITEM_SIZE(BAND_PART)
