// Convolution as matrix multiplication: each output pixel is a row, the patch of the image that the
// filter covers there, times the matrix of filters.
//
// Images have their channels at the end, filters the input and then the output channels. A chunk of
// patches at a time is copied to scratch memory. Natively, direct.c has the forward pass in float32
// and the gradient of the filter.
#include "gemm.h"
#include "window.h"

#define CHUNK 256        // output pixels whose patches are in scratch memory at a time
#define PADDED 1024      // numbers of a row of the image that are copied with the padding beside them
#define BEHIND 12        // numbers behind a patch that vectors may reach into

static inline int patch_size(const window *w) { return cell_count(w) * w->channels; }

// Where the patch of one output pixel begins: a cell of an image, or of its padding.
typedef struct {
    ptrdiff_t image;
    int layer, row, column;
} corner;

static inline corner corner_of(const window *w, int pixel) {
    const int column = pixel % w->width.out, rows = pixel / w->width.out;
    const int row = rows % w->height.out, layers = rows / w->height.out;
    const int layer = layers % w->depth.out, image = layers / w->depth.out;
    return (corner){(ptrdiff_t)image * image_size(w), start_of(&w->depth, layer),
                    start_of(&w->height, row), start_of(&w->width, column)};
}

// The offset of what layer l of the filter meets in x, or -1 if that is padding.
static inline ptrdiff_t layer_offset(const window *w, corner c, int l) {
    const int layer = c.layer + l * w->depth.dilation;
    if (!is_inside(&w->depth, layer)) return -1;
    return c.image + (ptrdiff_t)layer * w->height.size * w->width.size * w->channels;
}

// The offset of what row i of the filter meets in a layer, or -1 if that is padding.
static inline ptrdiff_t row_offset(const window *w, corner c, ptrdiff_t layer, int i) {
    const int row = c.row + i * w->height.dilation;
    if (layer < 0 || !is_inside(&w->height, row)) return -1;
    return layer + (ptrdiff_t)row * w->width.size * w->channels;
}

// Whether all columns of a filter row are contiguous within the image, so that they are one run.
static inline int is_one_run(const window *w, corner c) {
    return w->width.dilation == 1 && c.column >= 0 && c.column + w->width.filter <= w->width.size;
}

#define product_float32 multiply_matrices
#define product_float64 multiply_doubles
#define MATRIX_float32 matrix
#define MATRIX_float64 matrix_of_doubles

// Visit the runs of the patch of one pixel in memory order: their offsets in x (or -1 in the
// padding) and their length.
#define EACH_RUN(w, c, body)                                                                       \
    const int fits = is_one_run(w, c);                                                             \
    for (int l = 0; l < (w)->depth.filter; l++) {                                                  \
        const ptrdiff_t layer = layer_offset(w, c, l);                                             \
        for (int i = 0; i < (w)->height.filter; i++) {                                             \
            const ptrdiff_t row = row_offset(w, c, layer, i);                                      \
            const int one_run = fits && row >= 0, runs = one_run ? 1 : (w)->width.filter;          \
            const int length = one_run ? (w)->width.filter * (w)->channels : (w)->channels;        \
            for (int j = 0; j < runs; j++, patch += length) {                                      \
                const int column = (c).column + j * (w)->width.dilation;                           \
                const int inside = row >= 0 && is_inside(&(w)->width, column);                     \
                const ptrdiff_t offset = row + (ptrdiff_t)column * (w)->channels;                  \
                body                                                                               \
            }                                                                                      \
        }                                                                                          \
    }

#define PATCHES(dtype, type, effort)                                                               \
    static void scatter_patches_##dtype(const window *w, const type *patch, int first, int count,  \
                                        type *restrict x) {                                        \
        for (int p = first; p < first + count; p++) {                                              \
            const corner c = corner_of(w, p);                                                      \
            EACH_RUN(w, c, {                                                                       \
                if (inside)                                                                        \
                    for (int k = 0; k < length; k++) x[offset + k] += patch[k];                    \
            })                                                                                     \
        }                                                                                          \
    }                                                                                              \
    /* dx = the patches of dy * transposed filter, summed where they overlap; scratch: CHUNK       \
       patches */                                                                                  \
    KERNEL(convolution_input_gradient_##dtype)(const type *dy, const type *filter, type *dx,       \
                                               const window *w, int out_channels, type *scratch) { \
        const int depth = patch_size(w), pixels = position_count(w);                               \
        const MATRIX_##dtype transposed = {filter, 1, out_channels};                               \
        memset(dx, 0, sizeof(type) * w->batch * image_size(w));                                    \
        for (int first = 0; first < pixels; first += CHUNK) {                                      \
            const int count = smaller(CHUNK, pixels - first);                                      \
            const MATRIX_##dtype rows = {dy + (ptrdiff_t)first * out_channels, out_channels, 1};   \
            product_##dtype(rows, transposed, scratch, count, depth, out_channels, 0);             \
            scatter_patches_##dtype(w, scratch, first, count, dx);                                 \
        }                                                                                          \
    }
EACH_FLOAT(PATCHES)

static inline void copy_vector(void *to, const void *from) { memcpy(to, from, 16); }

#define EACH_PIXEL(...)                                                                            \
    for (int c = 0; c < n; c++, source += step, target += patch) {                                 \
        __VA_ARGS__;                                                                               \
    }

// The other two copy patches to scratch memory, for a block of products. Those of float32 are for
// WebAssembly: where there are many registers, direct.c reads the patches where they are.
#define COPYING(dtype, type, filter_gradient)                                                                       \
    /* By vectors, of which the last may overlap the one before. */                                \
    static inline void copy_run_##dtype(const type *x, int length, type *out) {                    \
        const int few = 16 / sizeof(type);                                                         \
        int k = 0;                                                                                 \
        if (length > 2 * few && length <= 3 * few) { /* three pixels of three channels */          \
            memcpy(out, x, 16);                                                                    \
            memcpy(out + few, x + few, 16);                                                        \
            memcpy(out + length - few, x + length - few, 16);                                      \
            return;                                                                                \
        }                                                                                          \
        if (length < few)                                                                          \
            for (; k < length; k++) out[k] = x[k];                                                 \
        for (; k + 4 * few <= length; k += 4 * few)                                                \
            UNROLLED for (int i = 0; i < 4; i++) memcpy(out + k + i * few, x + k + i * few, 16);   \
        for (; k + few <= length; k += few) memcpy(out + k, x + k, 16);                            \
        if (k < length) memcpy(out + length - few, x + length - few, 16);                          \
    }                                                                                              \
    SHORT_LOOPS static void gather_patches_##dtype(const window *w, const type *x, int first,      \
                                                   int count, type *restrict patch) {              \
        int column = first % w->width.out;                                                         \
        corner c = corner_of(w, first);                                                            \
        for (int p = first; p < first + count; p++) {                                              \
            EACH_RUN(w, c, {                                                                       \
                if (inside)                                                                        \
                    copy_run_##dtype(x + offset, length, patch);                                   \
                else                                                                               \
                    for (int k = 0; k < length; k++) patch[k] = 0;                                 \
            })                                                                                     \
            c.column += w->width.stride;                                                           \
            if (++column == w->width.out) column = 0, c = corner_of(w, p + 1);                     \
        }                                                                                          \
    }                                                                                              \
    /* The same for filters whose columns are contiguous. Rows of the image are copied once with the padding beside    \
       them, so that a row of each patch is a part of that, whose last vector may reach into the next row of the patch,  \
       or behind it. */                                                                            \
    SHORT_LOOPS static void gather_rows_##dtype(const window *w, const type *x, int first,         \
                                                int count, type *patches, int patch) {             \
        const int few = 16 / sizeof(type), channels = w->channels;                                 \
        const int length = w->width.filter * channels, step = w->width.stride * channels;          \
        const type zeros[16 / sizeof(type)] = {};                                                  \
        type padded[PADDED + 64 / sizeof(type)];                                                   \
        for (int p = first, n; p < first + count; p += n, patches += (ptrdiff_t)n * patch) {       \
            const corner c = corner_of(w, p);                                                      \
            n = smaller(w->width.out - p % w->width.out, first + count - p);                       \
            n = smaller(n, (PADDED - length) / step + 1);                                          \
            const int columns = (n - 1) * w->width.stride + w->width.filter;                       \
            const int left = smaller(c.column < 0 ? -c.column : 0, columns);                       \
            const int right = smaller(w->width.size - c.column, columns);                          \
            type *line = patches;                                                                  \
            for (int l = 0; l < w->depth.filter; l++) {                                            \
                const ptrdiff_t layer = layer_offset(w, c, l);                                     \
                for (int i = 0; i < w->height.filter; i++, line += length) {                       \
                    const ptrdiff_t row = row_offset(w, c, layer, i);                              \
                    const int begin = left * channels;                                             \
                    const int end = row < 0 || right < left ? begin : right * channels;            \
                    for (int k = 0; k < begin; k += few) copy_vector(padded + k, zeros);            \
                    copy_run_##dtype(x + row + (ptrdiff_t)c.column * channels + begin, end - begin,\
                                     padded + begin);                                              \
                    for (int k = end; k < columns * channels; k += few)                            \
                        copy_vector(padded + k, zeros);                                             \
                    const type *source = padded;                                                   \
                    type *target = line;                                                           \
                    if (length <= few)                                                             \
                        EACH_PIXEL(copy_vector(target, source))                                     \
                    else if (length <= 3 * few)                                                    \
                        EACH_PIXEL(UNROLLED for (int v = 0; v < 3; v++)                            \
                                       copy_vector(target + v * few, source + v * few))             \
                    else                                                                           \
                        EACH_PIXEL(for (int k = 0; k < length; k += few)                           \
                                       copy_vector(target + k, source + k))                         \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* The patches of a chunk in scratch memory: a row for each pixel. */                          \
    static MATRIX_##dtype gather_##dtype(const window *w, const type *x, int first, int count,     \
                                         type *scratch) {                                          \
        const int size = patch_size(w), step = size + BEHIND;                                      \
        if (w->width.dilation == 1 && w->width.filter * w->channels <= PADDED / 2) {               \
            gather_rows_##dtype(w, x, first, count, scratch, step);                                \
            return (MATRIX_##dtype){scratch, step, 1};                                             \
        }                                                                                          \
        gather_patches_##dtype(w, x, first, count, scratch);                                       \
        return (MATRIX_##dtype){scratch, size, 1};                                                 \
    }                                                                                              \
    /* dfilter += transposed patches of x * dy, chunk by chunk. The window may have some cells of  \
       the filter only. scratch: CHUNK patches */                                                  \
    filter_gradient(const type *x, const type *dy, type *dfilter, const window *w,                 \
                    int out_channels, type *scratch) {                                             \
        const int depth = patch_size(w), pixels = position_count(w);                               \
        for (int first = 0; first < pixels; first += CHUNK) {                                      \
            const int count = smaller(CHUNK, pixels - first);                                      \
            const MATRIX_##dtype rows = {dy + (ptrdiff_t)first * out_channels, out_channels, 1};   \
            const MATRIX_##dtype patches = gather_##dtype(w, x, first, count, scratch);            \
            product_##dtype((MATRIX_##dtype){scratch, patches.column_stride, patches.row_stride},  \
                            rows, dfilter, depth, out_channels, count, 1);                         \
        }                                                                                          \
    }
COPYING(float64, double, KERNEL(convolution_filter_gradient_float64))

// scratch: the patches of a chunk, which a block of products uses
KERNEL(convolution_float64)(const double *x, const double *filter, double *out, const window *w,
                            int out_channels, double *scratch) {
    const int depth = patch_size(w), pixels = position_count(w);
    const matrix_of_doubles weights = {filter, out_channels, 1};
    for (int first = 0; first < pixels; first += CHUNK) {
        const int count = smaller(CHUNK, pixels - first);
        multiply_doubles(gather_float64(w, x, first, count, scratch), weights,
                         out + (ptrdiff_t)first * out_channels, count, out_channels, depth, 0);
    }
}

#ifdef __wasm__
COPYING(float32, float, static void copy_filter_gradient)

// If the channels are whole groups, pixels are found by pointers, and nothing is copied but into the packed
// blocks of a product.
#define BLOCK_NUMBERS (1 << 17)  // of packed patches, which stay in the L2 cache
#define LEAST_ROWS 32            // of a block

static inline int has_groups(const window *w) { return w->channels % GROUP == 0; }

static inline int rows_in_block(const window *w) {
    const int rows = BLOCK_NUMBERS / patch_size(w) / 8 * 8;
    return rows < LEAST_ROWS ? LEAST_ROWS : smaller(MOST_ROWS, rows);
}

// The pixels that a cell of the filter meets at `count` positions; `zeros` stands for the padding.
static void find_pixels(const window *w, const float *x, const float *zeros, int cell, int first,
                        int count, const float **pixels) {
    const int j = cell % w->width.filter, rows = cell / w->width.filter;
    const int i = rows % w->height.filter, l = rows / w->height.filter;
    for (int p = 0; p < count;) {
        const corner c = corner_of(w, first + p);
        const int end = smaller(p + w->width.out - (first + p) % w->width.out, count);
        const ptrdiff_t row = row_offset(w, c, layer_offset(w, c, l), i);
        int column = c.column + j * w->width.dilation;
        for (; p < end; p++, column += w->width.stride)
            pixels[p] = row >= 0 && is_inside(&w->width, column)
                            ? x + row + (ptrdiff_t)column * w->channels
                            : zeros;
    }
}

// scratch: a pixel of zeros, then the patches of a block in groups
static void convolve_groups(const float *x, const float *filter, float *out, const window *w,
                            const float *bias, float least, float most, int out_channels,
                            float *scratch) {
    const int channels = w->channels, depth = patch_size(w), pixels = position_count(w);
    const int most_rows = rows_in_block(w);
    const float *places[MOST_ROWS], *zeros = memset(scratch, 0, channels * sizeof *scratch);
    float *packed = scratch + channels;
    for (int first = 0; first < pixels; first += most_rows) {
        const int rows = smaller(most_rows, pixels - first);
        for (int cell = 0; cell < cell_count(w); cell++) {
            float *target = packed + (ptrdiff_t)cell * channels * rows;
            find_pixels(w, x, zeros, cell, first, rows, places);
            for (int p = 0; p < rows; p++, target += GROUP)
                for (int k = 0; k < channels; k += GROUP)
                    store_quad(target + k * rows, load_quad(places[p] + k));
        }
        multiply_groups(packed, rows * GROUP, filter, out_channels, SLAB, out + (ptrdiff_t)first * out_channels,
                        out_channels, rows, out_channels, depth, 0, bias, least, most);
    }
}

// Pack some numbers of the patches of a chunk, from number `first` on, as the rows of a product: number r of pixel p
// goes to packed[(p / GROUP * rows + r) * GROUP + p % GROUP], with zeros behind the last pixel.
static void pack_patches(const window *w, const float *x, const float *zeros, int pixel,
                         int count, int first, int rows, float *packed) {
    const float *places[CHUNK + GROUP];
    for (int i = 0; i < GROUP; i++) places[count + i] = zeros;
    for (int r = 0, length; r < rows; r += length, packed += length * GROUP) {
        const int cell = (first + r) / w->channels, channel = (first + r) % w->channels;
        length = smaller(w->channels - channel, rows - r);
        find_pixels(w, x, zeros, cell, pixel, count, places);
        for (int p = 0; p < count; p += GROUP) {
            const float *const *four = places + p;
            float *target = packed + p * rows;
            for (int c = channel; c < channel + length; c += GROUP, target += GROUP * GROUP) {
                const quad numbers[GROUP] = {load_quad(four[0] + c), load_quad(four[1] + c),
                                             load_quad(four[2] + c), load_quad(four[3] + c)};
                store_transposed(numbers, target, GROUP);
            }
        }
    }
}

// dfilter += transposed patches of x * dy, chunk by chunk, if the channels are whole groups. The sums of a chunk are
// apart, because a sum over all pixels would lose digits. scratch: a pixel of zeros, the packed patches, the sums.
static void add_filter_gradient(const float *x, const float *dy, float *dfilter, const window *w,
                                int out_channels, float *scratch) {
    const int size = patch_size(w), pixels = position_count(w);
    const int blocks = (size + MOST_ROWS - 1) / MOST_ROWS;  // of about the same size
    const int most = round_up((size + blocks - 1) / blocks, 2 * GROUP);
    const float *zeros = memset(scratch, 0, w->channels * sizeof *scratch);
    float *packed = scratch + w->channels, *sums = packed + (CHUNK + GROUP) * MOST_ROWS;
    for (int pixel = 0; pixel < pixels; pixel += CHUNK) {
        const int count = smaller(CHUNK, pixels - pixel);
        for (int first = 0; first < size; first += most) {
            const int rows = smaller(most, size - first);
            pack_patches(w, x, zeros, pixel, count, first, rows, packed);
            multiply_into_slabs(packed, dy + (ptrdiff_t)pixel * out_channels, sums, rows, rows,
                                out_channels, count);
            float *target = dfilter + (ptrdiff_t)first * out_channels;
            for (int left = 0; left < out_channels; left += SLAB) {
                const float *source = sums + (ptrdiff_t)left * rows;
                const int width = smaller(SLAB, out_channels - left);
                float *line = target + left;
                for (int i = 0; i < rows; i++, source += SLAB, line += out_channels) {
                    int j = 0;
                    for (; j + 4 <= width; j += 4)
                        store_quad(line + j, load_quad(line + j) + load_quad(source + j));
                    for (; j < width; j++) line[j] += source[j];
                }
            }
        }
    }
}

// Short patches are not copied: a block of the image is, with the padding beside it, and products read them where
// they lie in that.
#define MOST_NUMBERS 32  // of a patch

static inline int has_short_patches(const window *w) {
    return w->depth.dilation == 1 && w->height.dilation == 1 && w->width.dilation == 1 &&
           w->height.stride <= w->height.filter && w->width.stride <= w->width.filter &&
           w->channels <= 2 && patch_size(w) <= MOST_NUMBERS && position_count(w) > 0;
}

// How far apart the patches, sums or results of two lines and of two pixels are.
typedef struct {
    ptrdiff_t line, pixel;
} distances;

// Some columns of some lines of pixels of the results.
typedef struct {
    int lines, columns;
    distances patches;
} block;

// Copy what the patches of a block cover; `offsets` are those of the numbers of a patch. With `is_split`, cells that
// are a stride apart lie side by side, and so do the patches of two pixels.
SHORT_LOOPS static block copy_block(const window *w, const float *x, int first, int lines, int columns,
                                    int is_split, float *padded, int *offsets) {
    const corner c = corner_of(w, first);
    const int cells = (columns - 1) * w->width.stride + w->width.filter, channels = w->channels;
    const int rows = (lines - 1) * w->height.stride + w->height.filter;
    const int step = is_split ? w->width.stride : 1, part = round_up(cells, step) / step;
    const int length = part * step * channels;
    const int left = smaller(c.column < 0 ? -c.column : 0, cells);
    const int right = smaller(w->width.size - c.column, cells);
    for (int l = 0; l < w->depth.filter; l++) {
        const ptrdiff_t layer = layer_offset(w, c, l);
        for (int i = 0; i < w->height.filter; i++)
            for (int j = 0; j < w->width.filter; j++)
                for (int k = 0; k < channels; k++)
                    *offsets++ = (l * rows + i) * length +
                                 (is_split ? (j % step * channels + k) * part + j / step
                                           : j * channels + k);
        for (int i = 0; i < rows; i++, padded += length) {
            const ptrdiff_t row = row_offset(w, c, layer, i);
            const float *source = x + row + (ptrdiff_t)c.column * channels;
            const int end = row < 0 || right < left ? left : right;
            if (!is_split || (step == 1 && channels == 1)) {
                const int begin = left * channels;
                for (int k = 0; k < begin; k++) padded[k] = 0;
                copy_run_float32(source + begin, (end - left) * channels, padded + begin);
                for (int k = end * channels; k < length; k++) padded[k] = 0;
                continue;
            }
            for (int j = 0; j < cells; j++)
                for (int k = 0; k < channels; k++)
                    padded[(j % step * channels + k) * part + j / step] =
                        j < left || j >= end ? 0 : source[j * channels + k];
        }
    }
    return (block){lines, columns, {w->height.stride * length, is_split ? 1 : w->width.stride * channels}};
}

// Visit the blocks of the pixels: `first` is the first pixel of `lines` times `columns`.
#define EACH_BLOCK(w, ...)                                                                         \
    const int most_columns = smaller((w)->width.out, MOST_ROWS);                                   \
    const int most_lines = MOST_ROWS / most_columns;                                               \
    for (int image = 0; image < (w)->batch * (w)->depth.out; image++)                              \
        for (int row = 0; row < (w)->height.out; row += most_lines)                                \
            for (int column = 0; column < (w)->width.out; column += most_columns) {                \
                const int lines = smaller(most_lines, (w)->height.out - row);                      \
                const int columns = smaller(most_columns, (w)->width.out - column);                \
                const int first = (image * (w)->height.out + row) * (w)->width.out + column;       \
                __VA_ARGS__                                                                        \
            }

#define REPEATED(x, lane) __builtin_shufflevector(x, x, lane, lane, lane, lane)

// to (SLAB numbers for each pixel) = from + `count` numbers of the patches * weights, at last plus a bias and within
// limits.
__attribute__((always_inline)) static inline void
add_numbers(const float *x, block b, const float *weights, ptrdiff_t row, int count, const float *from,
            distances source, float *to, distances target, int is_last, const float *bias, float least,
            float most) {
    quad cells[GROUP][2];
    for (int k = 0; k < count; k++)
        for (int j = 0; j < 2; j++) cells[k][j] = load_quad(weights + k * row + 4 * j);
    for (int i = 0; i < b.lines; i++, x += b.patches.line, from += source.line, to += target.line) {
        const float *numbers = x, *sums = from;
        float *results = to;
        _Pragma("clang loop unroll_count(8)")
        for (int p = 0; p < b.columns; p++) {
            const quad y = load_quad(numbers);
            const quad factors[GROUP] = {REPEATED(y, 0), REPEATED(y, 1), REPEATED(y, 2), REPEATED(y, 3)};
            UNROLLED for (int j = 0; j < 2; j++) {
                quad sum = load_quad(sums + 4 * j);
                UNROLLED for (int k = 0; k < count; k++) sum = multiply_add(factors[k], cells[k][j], sum);
                if (is_last) sum = limited(sum + load_quad(bias + 4 * j), least, most);
                store_quad(results + 4 * j, sum);
            }
            numbers += b.patches.pixel, sums += source.pixel, results += target.pixel;
        }
    }
}

// The results of a block, for a slab of the filters, whose rows are `row` apart.
static void convolve_block(const window *w, const float *padded, const int *offsets, block b, const float *weights,
                           ptrdiff_t row, float *out, distances target, const float *bias, float least,
                           float most) {
    float sums[MOST_ROWS * SLAB];
    const float zeros[SLAB] = {}, *from = zeros;
    const distances dense = {b.columns * SLAB, SLAB};
    distances source = {0, 0};
    const int size = patch_size(w), run = w->width.filter * w->channels;
    for (int r = 0, count; r < size; r += count, weights += count * row, from = sums, source = dense) {
        const float *x = padded + offsets[r];
        const int left = run - r % run;
#define ADD(n)                                                                                     \
    count = n;                                                                                     \
    if (r + count < size)                                                                          \
        add_numbers(x, b, weights, row, n, from, source, sums, dense, 0, NULL, 0, 0);              \
    else                                                                                           \
        add_numbers(x, b, weights, row, n, from, source, out, target, 1, bias, least, most);
        if (left == 3 || (left > 4 && run % 3 == 0)) {
            ADD(3)
        } else if (left >= 4) {
            ADD(4)
        } else {
            ADD(1)
        }
    }
}

// scratch: a block of the image
static void convolve_short_patches(const float *x, const float *filter, float *out, const window *w,
                                   const float *bias, float least, float most, int out_channels,
                                   float *padded) {
    const int size = patch_size(w), whole = out_channels / SLAB * SLAB, rest = out_channels - whole;
    float weights[MOST_NUMBERS * SLAB], constants[SLAB], results[MOST_ROWS * SLAB];
    const float no_bias[SLAB] = {-0.f, -0.f, -0.f, -0.f, -0.f, -0.f, -0.f, -0.f};
    int offsets[MOST_NUMBERS];
    for (int j = 0; j < SLAB; j++) {
        for (int r = 0; r < size; r++)
            weights[r * SLAB + j] = j < rest ? filter[(ptrdiff_t)r * out_channels + whole + j] : 0;
        constants[j] = bias && j < rest ? bias[whole + j] : -0.f;
    }
    const distances target = {(ptrdiff_t)w->width.out * out_channels, out_channels};
    EACH_BLOCK(w, {
        const block b = copy_block(w, x, first, lines, columns, 0, padded, offsets);
        float *to = out + (ptrdiff_t)first * out_channels;
        for (int left = 0; left < whole; left += SLAB)
            convolve_block(w, padded, offsets, b, filter + left, out_channels, to + left, target,
                           bias ? bias + left : no_bias, least, most);
        if (!rest) continue;
        convolve_block(w, padded, offsets, b, weights, SLAB, results, (distances){columns * SLAB, SLAB},
                       constants, least, most);
        for (int p = 0; p < lines * columns; p++)
            for (int j = 0; j < rest; j++)
                to[p / columns * target.line + p % columns * target.pixel + whole + j] =
                    results[p * SLAB + j];
    })
}

// sums (SLAB numbers for each of a patch) += the patches of `count` pixels, which are side by side, * their gradients.
__attribute__((always_inline)) static inline void add_pixels(const float *x, const int *offsets, int size,
                                                             const float *dy, ptrdiff_t row, int count,
                                                             float *sums) {
    quad cells[GROUP][2];
    for (int k = 0; k < count; k++)
        for (int j = 0; j < 2; j++) cells[k][j] = load_quad(dy + k * row + 4 * j);
    _Pragma("clang loop unroll_count(3)")
    for (int r = 0; r < size; r++) {
        const quad y = load_quad(x + offsets[r]);
        const quad factors[GROUP] = {REPEATED(y, 0), REPEATED(y, 1), REPEATED(y, 2), REPEATED(y, 3)};
        UNROLLED for (int j = 0; j < 2; j++) {
            quad sum = load_quad(sums + r * SLAB + 4 * j);
            UNROLLED for (int k = 0; k < count; k++) sum = multiply_add(factors[k], cells[k][j], sum);
            store_quad(sums + r * SLAB + 4 * j, sum);
        }
    }
}

// scratch: the sums by slabs, and a block of the image
static void add_gradient_of_short_patches(const float *x, const float *dy, float *dfilter, const window *w,
                                          int out_channels, float *scratch) {
    const int size = patch_size(w), slabs = round_up(out_channels, SLAB);
    float *padded = scratch + (ptrdiff_t)size * slabs;
    int offsets[MOST_NUMBERS];
#define EACH_SUM(statement)                                                                        \
    for (int r = 0; r < size; r++)                                                                 \
        for (int j = 0; j < slabs; j++) {                                                          \
            float *sum = scratch + (j / SLAB * size + r) * SLAB + j % SLAB;                        \
            statement;                                                                             \
        }
    EACH_SUM(*sum = j < out_channels ? dfilter[(ptrdiff_t)r * out_channels + j] : 0)
    EACH_BLOCK(w, {
        const block b = copy_block(w, x, first, lines, columns, 1, padded, offsets);
        for (int left = 0; left < out_channels; left += SLAB)
            for (int i = 0; i < lines; i++) {
                const float *line = padded + i * b.patches.line;
                const float *gradients =
                    dy + (first + (ptrdiff_t)i * w->width.out) * out_channels + left;
                float *const sum = scratch + left * size, few[GROUP * SLAB] = {};
                const int width = smaller(SLAB, out_channels - left);
                for (int j = 0, count; j < columns; j += count, gradients += count * out_channels) {
                    count = smaller(GROUP, columns - j);
                    if (width == SLAB && count == GROUP) {
                        add_pixels(line + j, offsets, size, gradients, out_channels, GROUP, sum);
                        continue;
                    }
                    for (int k = 0; k < count; k++)
                        for (int n = 0; n < width; n++)
                            few[k * SLAB + n] = gradients[k * out_channels + n];
                    if (count == GROUP)
                        add_pixels(line + j, offsets, size, few, SLAB, GROUP, sum);
                    for (int k = 0; k < count && count < GROUP; k++)
                        add_pixels(line + j + k, offsets, size, few + k * SLAB, SLAB, 1, sum);
                }
            }
    })
    EACH_SUM(if (j < out_channels) dfilter[(ptrdiff_t)r * out_channels + j] = *sum)
}

KERNEL(convolution_filter_gradient_float32)(const float *x, const float *dy, float *dfilter,
                                            const window *w, int out_channels, float *scratch) {
    (has_groups(w)          ? add_filter_gradient
     : has_short_patches(w) ? add_gradient_of_short_patches
                            : copy_filter_gradient)(x, dy, dfilter, w, out_channels, scratch);
}

// The same plus a bias for each channel, which may be absent, within limits.
KERNEL(convolution_float32)(const float *x, const float *filter, float *out, const window *w,
                            const float *bias, float least, float most, int out_channels,
                            float *scratch) {
    const int depth = patch_size(w), pixels = position_count(w);
    if (has_groups(w)) {
        convolve_groups(x, filter, out, w, bias, least, most, out_channels, scratch);
        return;
    }
    if (has_short_patches(w)) {
        convolve_short_patches(x, filter, out, w, bias, least, most, out_channels, scratch);
        return;
    }
    const matrix weights = {filter, out_channels, 1};
    for (int first = 0; first < pixels; first += CHUNK) {
        const int count = smaller(CHUNK, pixels - first);
        multiply_within(gather_float32(w, x, first, count, scratch), weights,
                        out + (ptrdiff_t)first * out_channels, count, out_channels, depth, 0, bias,
                        least, most);
    }
}
#endif

// The number of elements of scratch memory that these kernels need.
EXPORTED(chunk_scratch) int64_t chunk_scratch(const window *w, int out_channels) {
    const int count = smaller(CHUNK, position_count(w));
    int64_t size = (int64_t)(patch_size(w) + BEHIND) * count;
#ifdef __wasm__
    // This is more than short patches need.
    const int64_t packed = (int64_t)(CHUNK + GROUP + round_up(out_channels, SLAB)) * MOST_ROWS;
    size = w->channels + (size < packed ? packed : size);
#else
    (void)out_channels;
#endif
    return size;
}
