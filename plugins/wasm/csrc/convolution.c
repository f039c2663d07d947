// Convolution as matrix multiplication: each output pixel is a row, the patch of the image that the
// filter covers there, times the matrix of filters.
//
// Images are NHWC, filters HWIO. The forward pass packs patches directly into strips; the gradients
// copy a chunk of patches at a time to scratch memory.
#include "gemm.h"
#include "window.h"

#define CHUNK 256  // output pixels whose patches are in scratch memory at a time
#define STRIP_FLOATS 24576  // packed patches that stay in the cache while all filters use them

static inline int patch_size(const window *w) {
    return w->filter_height * w->filter_width * w->channels;
}

static inline int pixel_count(const window *w) { return w->batch * w->out_height * w->out_width; }

// Where the patch of one output pixel begins: a row and column of an image, or of its padding.
typedef struct {
    ptrdiff_t image;
    int row, column;
} corner;

static inline corner corner_of(const window *w, int pixel) {
    const int column = pixel % w->out_width, rest = pixel / w->out_width;
    const int row = rest % w->out_height, image = rest / w->out_height;
    return (corner){(ptrdiff_t)image * w->height * w->width * w->channels,
                    row * w->stride_height - w->pad_top,
                    column * w->stride_width - w->pad_left};
}

static inline int is_inside(const window *w, int row, int column) {
    return row >= 0 && row < w->height && column >= 0 && column < w->width;
}

static inline ptrdiff_t offset_of(const window *w, corner c, int row, int column) {
    return c.image + ((ptrdiff_t)row * w->width + column) * w->channels;
}

// Whether all columns of a filter row are contiguous within the image, so that they are one run.
static inline int is_one_run(const window *w, corner c, int row) {
    return w->dilation_width == 1 && is_inside(w, row, c.column) &&
           c.column + w->filter_width <= w->width;
}

// ---- forward ----

// Pack the patches of four pixels into a strip; `zeros` stands for pixels in the padding.
static void pack_patches(const window *w, const float *x, const float *zeros,
                         const corner corners[4], float *strip) {
    for (int i = 0; i < w->filter_height; i++) {
        int row[4], one_run = 1;
        for (int p = 0; p < 4; p++) {
            row[p] = corners[p].row + i * w->dilation_height;
            one_run &= is_one_run(w, corners[p], row[p]);
        }
        const int runs = one_run ? 1 : w->filter_width;
        const int length = one_run ? w->filter_width * w->channels : w->channels;
        for (int j = 0; j < runs; j++, strip += 4 * length) {
            const float *sources[4];
            for (int p = 0; p < 4; p++) {
                const int column = corners[p].column + j * w->dilation_width;
                sources[p] = is_inside(w, row[p], column)
                                 ? x + offset_of(w, corners[p], row[p], column)
                                 : zeros;
            }
            interleave(sources, length, strip, 4);
        }
    }
}

// scratch: channels zeros, packed filters, strips; see conv2d_scratch.
KERNEL(conv2d_float32)(const float *x, const float *filter, float *out, const window *w,
                       int out_channels, float *scratch) {
    const int depth = patch_size(w), pixels = pixel_count(w);
    const int block = smaller(round_up(pixels, 4), STRIP_FLOATS / depth / 4 * 4 + 4);
    float *panels = scratch + w->channels;
    float *strips = panels + depth * round_up(out_channels, 4);
    memset(scratch, 0, w->channels * sizeof *scratch);
    pack_panels((matrix){filter, out_channels, 1}, depth, out_channels, panels);
    for (int first = 0; first < pixels; first += block) {
        const int count = smaller(block, pixels - first);
        for (int p = 0; p < count; p += 4) {
            corner corners[4];
            for (int i = 0; i < 4; i++)  // a partial strip repeats the last pixel
                corners[i] = corner_of(w, smaller(first + p + i, pixels - 1));
            pack_patches(w, x, scratch, corners, strips + (ptrdiff_t)p * depth);
        }
        for (int j = 0; j < out_channels; j += TILE_COLUMNS)
            for (int p = 0; p < count; p += 4)
                multiply_tile(depth, strips + (ptrdiff_t)p * depth, panels + (ptrdiff_t)j * depth,
                              out + (ptrdiff_t)(first + p) * out_channels + j, out_channels,
                              smaller(4, count - p), smaller(TILE_COLUMNS, out_channels - j), 0);
    }
}

// The number of floats of scratch memory that conv2d_float32 needs.
EXPORTED(conv2d_scratch) int64_t conv2d_scratch(const window *w, int out_channels) {
    const int64_t depth = patch_size(w);
    return w->channels + depth * round_up(out_channels, 4) + STRIP_FLOATS + 8 * depth;
}

// ---- gradients ----

// Call `body` for each run of the patch of one pixel: its offset in x (or -1 in the padding) and
// its length; patches are visited in memory order.
#define EACH_RUN(w, c, body)                                                                       \
    for (int i = 0; i < (w)->filter_height; i++) {                                                 \
        const int row = (c).row + i * (w)->dilation_height, one_run = is_one_run(w, c, row);       \
        const int runs = one_run ? 1 : (w)->filter_width;                                          \
        const int length = one_run ? (w)->filter_width * (w)->channels : (w)->channels;            \
        for (int j = 0; j < runs; j++, patch += length) {                                          \
            const int column = (c).column + j * (w)->dilation_width;                               \
            const int inside = is_inside(w, row, column);                                          \
            const ptrdiff_t offset = offset_of(w, c, row, column);                                 \
            body                                                                                   \
        }                                                                                          \
    }

SHORT_LOOPS static void gather_patches(const window *w, const float *x, int first, int count,
                                       float *restrict patch) {
    for (int p = first; p < first + count; p++) {
        const corner c = corner_of(w, p);
        EACH_RUN(w, c, {
            if (inside)
                for (int k = 0; k < length; k++) patch[k] = x[offset + k];
            else
                for (int k = 0; k < length; k++) patch[k] = 0;
        })
    }
}

static void scatter_patches(const window *w, const float *patch, int first, int count,
                            float *restrict x) {
    for (int p = first; p < first + count; p++) {
        const corner c = corner_of(w, p);
        EACH_RUN(w, c, {
            if (inside)
                for (int k = 0; k < length; k++) x[offset + k] += patch[k];
        })
    }
}

// dx = the patches of dy * transposed filter, summed where they overlap. scratch: CHUNK patches.
KERNEL(conv2d_input_gradient_float32)(const float *dy, const float *filter, float *dx,
                                      const window *w, int out_channels, float *scratch) {
    const int depth = patch_size(w), pixels = pixel_count(w);
    const matrix transposed = {filter, 1, out_channels};
    memset(dx, 0, sizeof(float) * w->batch * w->height * w->width * w->channels);
    for (int first = 0; first < pixels; first += CHUNK) {
        const int count = smaller(CHUNK, pixels - first);
        const matrix rows = {dy + (ptrdiff_t)first * out_channels, out_channels, 1};
        multiply_matrices(rows, transposed, scratch, count, depth, out_channels, 0);
        scatter_patches(w, scratch, first, count, dx);
    }
}

// dfilter = transposed patches of x * dy, chunk by chunk. scratch: CHUNK patches.
KERNEL(conv2d_filter_gradient_float32)(const float *x, const float *dy, float *dfilter,
                                       const window *w, int out_channels, float *scratch) {
    const int depth = patch_size(w), pixels = pixel_count(w);
    memset(dfilter, 0, sizeof(float) * depth * out_channels);
    for (int first = 0; first < pixels; first += CHUNK) {
        const int count = smaller(CHUNK, pixels - first);
        gather_patches(w, x, first, count, scratch);
        multiply_matrices((matrix){scratch, 1, depth},
                          (matrix){dy + (ptrdiff_t)first * out_channels, out_channels, 1}, dfilter,
                          depth, out_channels, count, 1);
    }
}

// The number of floats of scratch memory that the gradients need.
EXPORTED(conv2d_gradient_scratch) int64_t conv2d_gradient_scratch(const window *w, int) {
    return (int64_t)patch_size(w) * smaller(CHUNK, pixel_count(w));
}
