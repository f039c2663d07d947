// Convolution by filters of 3 x 3 cells and steps of one pixel, with fewer products: Lavin and Gray,
// "Fast Algorithms for Convolutional Neural Networks" (2015), F(2 x 2, 3 x 3). Where the cells are `dilation`
// pixels apart, so are the results of a tile and the pixels that they depend on.
//
// A tile is 2 x 2 results. The 4 x 4 pixels that they depend on, and the filter, become 16 numbers
// each, whose products give the results: 16 products where there were 36. Over all channels they
// are 16 matrix products. The transforms subtract pixels from each other, so rounding errors are
// relative to the largest pixel of the neighbourhood, and an infinite pixel spoils the results next
// to it: tiles with a result that is not finite are computed again, by the definition.
#include <math.h>

#include "gemm.h"
#include "window.h"

#define POINTS 16
#define BLOCK 64   // tiles whose transforms stay in the cache
#define APART 16   // numbers between matrices, which would compete for the same lines of the cache

typedef struct {
    int rows, columns;  // of tiles
} grid;

// As many tiles follow each other as there are pixels between two results of one.
static inline int count_tiles(const axis *a) {
    return (a->out + 2 * a->dilation - 1) / (2 * a->dilation) * a->dilation;
}

static inline grid grid_of(const window *w) {
    return (grid){count_tiles(&w->height), count_tiles(&w->width)};
}

// The four combinations of four pixels, of three cells of the filter, and of four products.
static inline void combine_pixels(const quad *d, int step, quad *out) {
    out[0] = d[0] - d[2 * step];
    out[step] = d[step] + d[2 * step];
    out[2 * step] = d[2 * step] - d[step];
    out[3 * step] = d[step] - d[3 * step];
}

static inline void combine_cells(const quad *g, int step, quad *out, int out_step) {
    const quad ends = g[0] + g[2 * step];
    out[0] = g[0];
    out[out_step] = (ends + g[step]) * 0.5f;
    out[2 * out_step] = (ends - g[step]) * 0.5f;
    out[3 * out_step] = g[2 * step];
}

static inline void combine_products(const quad *m, int step, quad *out, int out_step) {
    out[0] = m[0] + m[step] + m[2 * step];
    out[out_step] = m[step] - m[2 * step] - m[3 * step];
}

// The transformed filters: matrix after matrix, with a row for each channel.
static void transform_filters(const float *filter, ptrdiff_t cell, float *weights,
                              ptrdiff_t matrix) {
    for (ptrdiff_t place = 0; place < cell; place += 4) {
        quad cells[9], lines[12], points[POINTS];
        for (int i = 0; i < 9; i++) cells[i] = load_quad(filter + i * cell + place);
        for (int i = 0; i < 3; i++) combine_cells(cells + i, 3, lines + i, 3);
        for (int i = 0; i < 4; i++) combine_cells(lines + 3 * i, 1, points + 4 * i, 1);
        for (int i = 0; i < POINTS; i++) store_quad(weights + i * matrix + place, points[i]);
    }
}

// Where a tile is: its image, its first result there, and how many tiles are above it and to its left.
typedef struct {
    int image, row, column;
    grid before;
} corner;

static inline int first_result(const axis *a, int tile) {
    return tile / a->dilation * 2 * a->dilation + tile % a->dilation;
}

// The next tile. Divisions for each tile would take as long as its transforms.
static inline corner next_corner(const window *w, grid g, corner c) {
    const int down = w->height.dilation, right = w->width.dilation;
    if (++c.before.columns < g.columns) {
        c.column += right == 1 ? 2 : first_result(&w->width, c.before.columns) - c.column;
        return c;
    }
    c.before.columns = c.column = 0;
    if (++c.before.rows < g.rows) {
        c.row += down == 1 ? 2 : first_result(&w->height, c.before.rows) - c.row;
        return c;
    }
    return (corner){c.image + 1, 0, 0, {0, 0}};
}

// How many results of a tile there are along an axis.
static inline int count_results(const axis *a, int first) {
    return (first < a->out) + (first + a->dilation < a->out);
}

// The places of the 4 x 4 pixels of a tile; `zeros` stands for those in the padding, and behind the last image. Addresses
// of a row are a vector.
static inline void find_pixels(const window *w, const float *x, const float *zeros, corner c,
                               const float *pixels[POINTS]) {
    static_assert(sizeof(int_quad) == GROUP * sizeof *pixels);
    const int_quad columns = c.column - w->width.before + (int_quad){0, 1, 2, 3} * w->width.dilation;
    const int_quad has_column = c.image < w->batch ? (columns >= 0) & (columns < w->width.size) : (int_quad){};
    const int_quad steps = columns * (w->channels * (int)sizeof *x), nowhere = (int)(intptr_t)zeros - (int_quad){};
    for (int i = 0, y = c.row - w->height.before; i < 4; i++, y += w->height.dilation) {
        const ptrdiff_t line = (ptrdiff_t)c.image * w->height.size + y;
        const int start = (int)(intptr_t)(x + line * w->width.size * w->channels);
        const int_quad found = is_inside(&w->height, y) ? has_column : (int_quad){};
        const int_quad places = (found & (start + steps)) | (~found & nowhere);
        memcpy(pixels + 4 * i, &places, sizeof places);
    }
}

// The same place in the next matrix. One address at a time takes one register; the compiler would keep all distances.
static inline float *next_matrix(const float *place, ptrdiff_t matrix) {
    place += matrix;
    __asm__("" : "+r"(place));
    return (float *)place;
}

// Transform channels of the pixels of a tile, which become one row of each of the matrices; `step` is from group to
// group in a row.
static inline void transform_pixels(const float *const pixels[POINTS], int first, int end, float *row,
                                    ptrdiff_t step, ptrdiff_t matrix) {
    for (int k = first; k < end; k += GROUP, row += step) {
        quad points[POINTS], lines[POINTS];
        for (int i = 0; i < POINTS; i++) points[i] = load_quad(pixels[i] + k);
        for (int i = 0; i < 4; i++) combine_pixels(points + i, 4, lines + i);
        for (int i = 0; i < 4; i++) combine_pixels(lines + 4 * i, 1, points + 4 * i);
        float *place = row;
        for (int i = 0; i < POINTS; i++, place = next_matrix(place, matrix)) store_quad(place, points[i]);
    }
}

// Four numbers of a bias that may be absent; -0 changes no sum.
static inline quad load_bias(const float *bias, int j) {
    return bias ? load_quad(bias + j) : -(quad){};
}

// One pixel of the results, by the definition.
ONCE static void convolve_pixel(const float *const pixels[POINTS], const float *filter,
                                const float *zeros, const float *bias, float least, float most,
                                int corner, int channels, int out_channels, float *out) {
    for (int j = 0; j < out_channels; j++) out[j] = 0;
    for (int i = 0; i < 9; i++) {
        const float *pixel = pixels[corner + i / 3 * 4 + i % 3];
        const float *weights = filter + (ptrdiff_t)i * channels * out_channels;
        if (pixel == zeros) continue;
        for (int k = 0; k < channels; k++, weights += out_channels)
            for (int j = 0; j < out_channels; j++) out[j] += pixel[k] * weights[j];
    }
    for (int j = 0; j < out_channels; j += 4)
        store_quad(out + j, limited(load_quad(out + j) + load_bias(bias, j), least, most));
}

// How far apart the matrices of the transforms are.
typedef struct {
    ptrdiff_t weights, rows, products;
} steps;

static inline steps steps_of(int channels, int out_channels) {
    return (steps){(ptrdiff_t)channels * out_channels + APART, BLOCK * channels + APART,
                   BLOCK * round_up(out_channels, SLAB) + APART};
}

// The results plus a bias for each channel, which may be absent, within limits.
// scratch: channels zeros, weights, rows of tiles, products; see winograd_scratch.
KERNEL(convolution_winograd_float32)(const float *x, const float *filter, float *out,
                                     const window *w, const float *bias, float least, float most,
                                     int out_channels, float *scratch) {
    const int channels = w->channels;
    const grid g = grid_of(w);
    const int tiles = w->batch * g.rows * g.columns;
    const int blocks = (tiles + BLOCK - 1) / BLOCK;  // of about the same size
    const steps step = steps_of(channels, out_channels);
    float *weights = scratch + channels, *rows = weights + POINTS * step.weights;
    float *products = rows + POINTS * step.rows;
    memset(scratch, 0, channels * sizeof *scratch);
    transform_filters(filter, (ptrdiff_t)channels * out_channels, weights, step.weights);
    const float *pixels[BLOCK][POINTS];
    corner corners[BLOCK], next = {};
    for (int block = 0, first = 0, count; block < blocks; block++, first += count) {
        count = (tiles - first) / (blocks - block);
        for (int t = 0; t < count; t++, next = next_corner(w, g, next)) {
            corners[t] = next;
            find_pixels(w, x, scratch, next, pixels[t]);
            transform_pixels(pixels[t], 0, channels, rows + t * GROUP, count * GROUP, step.rows);
        }
        for (int i = 0; i < POINTS; i++)
            multiply_into_slabs(rows + i * step.rows, weights + i * step.weights,
                                products + i * step.products, count, out_channels, channels);
        for (int t = 0; t < count; t++) {
            const corner c = corners[t];
            const int height = count_results(&w->height, c.row);
            const int width = count_results(&w->width, c.column);
            if (!height || !width) continue;
            const ptrdiff_t line = (ptrdiff_t)c.image * w->height.out + c.row;
            float *target = out + (line * w->width.out + c.column) * out_channels;
            const ptrdiff_t right = (ptrdiff_t)w->width.dilation * out_channels;
            const ptrdiff_t down = (ptrdiff_t)w->height.dilation * w->width.out * out_channels;
            // What is behind the edge goes to the place of the first result, which is stored last. If it were stored in a
            // branch, wasmtime would compute it there and again for the differences.
            const ptrdiff_t places[4] = {0, width > 1 ? right : 0, height > 1 ? down : 0,
                                         height > 1 && width > 1 ? down + right : 0};
            quad differences = {0};  // NaN where a result is not finite
            for (int j = 0; j < out_channels; j += 4) {
                const float *source = products + (j / SLAB * count + t) * SLAB + j % SLAB;
                const quad constant = load_bias(bias, j);
                quad points[POINTS], lines[8], results[4];
                for (int i = 0; i < POINTS; i++, source = next_matrix(source, step.products))
                    points[i] = load_quad(source);
                for (int i = 0; i < 4; i++) combine_products(points + i, 4, lines + i, 4);
                for (int i = 0; i < 2; i++) combine_products(lines + 4 * i, 1, results + 2 * i, 1);
                for (int i = 3; i >= 0; i--) {
                    differences = multiply_add(results[i], (quad){}, differences);
                    store_quad(target + places[i] + j, limited(results[i] + constant, least, most));
                }
            }
            float sum = 0;
            for (int i = 0; i < 4; i++) sum += differences[i];
            if (sum == 0) continue;
            for (int i = 0; i < height; i++)
                for (int j = 0; j < width; j++)
                    convolve_pixel(pixels[t], filter, scratch, bias, least, most, 4 * i + j,
                                   channels, out_channels, target + i * down + j * right);
        }
    }
}

EXPORTED(winograd_scratch) int64_t winograd_scratch(const window *w, int out_channels) {
    const steps step = steps_of(w->channels, out_channels);
    return w->channels + POINTS * ((int64_t)step.weights + step.rows + step.products);
}

// ---- the gradient with respect to the filters ----
//
// The transposed algorithm, F(3 x 3, 2 x 2): the 2 x 2 gradients of a tile become 16 numbers, too, and the products of
// them with those of the pixels, summed over all tiles, become the 3 x 3 cells. Here the tiles are the depth of the 16
// products, so the numbers of four tiles are side by side.

static inline void combine_gradients(const quad *e, int step, quad *out, int out_step) {
    out[0] = e[0];
    out[out_step] = e[0] + e[step];
    out[2 * out_step] = e[0] - e[step];
    out[3 * out_step] = e[step];
}

// The transpose of combine_cells; the last product has the other sign, because combine_gradients leaves it.
static inline void combine_sums(const quad *m, int step, quad *out, int out_step) {
    const quad even = (m[step] + m[2 * step]) * 0.5f;
    out[0] = m[0] + even;
    out[out_step] = (m[step] - m[2 * step]) * 0.5f;
    out[2 * out_step] = even - m[3 * step];
}

// Transform the pixels of four tiles, for some of the channels, which are the rows of the products.
static void transform_pixels_of_four(const float *const pixels[GROUP][POINTS], int top, int channels,
                                     float *rows, ptrdiff_t matrix) {
    for (int k = top; k < top + channels; k += GROUP, rows += GROUP * GROUP) {
        float points[GROUP][POINTS * GROUP];
        for (int t = 0; t < GROUP; t++)
            transform_pixels(pixels[t], k, k + GROUP, points[t], 0, GROUP);
        for (int i = 0; i < POINTS; i++) {
            const quad numbers[GROUP] = {
                load_quad(points[0] + i * GROUP), load_quad(points[1] + i * GROUP),
                load_quad(points[2] + i * GROUP), load_quad(points[3] + i * GROUP)};
            store_transposed(numbers, rows + i * matrix, GROUP);
        }
    }
}

// Transform the gradients of a tile, which become one row of each of the matrices.
static void transform_gradients(const window *w, const float *dy, int out_channels, int columns,
                                const float *zeros, corner c, float *row, ptrdiff_t matrix) {
    const float *places[4];
    for (int i = 0; i < 4; i++) {
        const int y = c.row + i / 2 * w->height.dilation;
        const int z = c.column + i % 2 * w->width.dilation;
        const ptrdiff_t line = (ptrdiff_t)c.image * w->height.out + y;
        places[i] = c.image < w->batch && y < w->height.out && z < w->width.out
                        ? dy + (line * w->width.out + z) * out_channels
                        : zeros;
    }
    for (int j = 0; j < columns; j += 4) {
        quad gradients[4], lines[8], points[POINTS];
        for (int i = 0; i < 4; i++) gradients[i] = load_quad(places[i] + j);
        for (int i = 0; i < 2; i++) combine_gradients(gradients + i, 2, lines + i, 2);
        for (int i = 0; i < 4; i++) combine_gradients(lines + 2 * i, 1, points + 4 * i, 1);
        float *place = row + j;
        for (int i = 0; i < POINTS; i++, place = next_matrix(place, matrix)) store_quad(place, points[i]);
    }
}

// Nine cells of one channel and four result channels, by the definition.
ONCE static void correlate_cells(const window *w, const float *x, const float *dy, int out_channels,
                                 quad cells[9]) {
    for (int i = 0; i < 9; i++) {
        cells[i] = (quad){};
        for (int row = 0; row < w->batch * w->height.out; row++) {
            const int y = row % w->height.out + i / 3 * w->height.dilation - w->height.before;
            const ptrdiff_t line = (ptrdiff_t)(row / w->height.out) * w->height.size + y;
            quad sum = {};
            for (int column = 0; column < w->width.out && is_inside(&w->height, y); column++) {
                const int z = column + i % 3 * w->width.dilation - w->width.before;
                if (is_inside(&w->width, z))
                    sum += x[(line * w->width.size + z) * w->channels] *
                           load_quad(dy + ((ptrdiff_t)row * w->width.out + column) * out_channels);
            }
            cells[i] += sum;
        }
    }
}

// How far apart the matrices of the gradient's transforms and of their products are.
static inline steps gradient_steps(int channels, int columns) {
    return (steps){(ptrdiff_t)BLOCK * columns + APART, BLOCK * channels + APART,
                   (ptrdiff_t)channels * round_up(columns, SLAB)};
}

// dfilter += the gradient for `columns` of the result channels. The sums of a block are apart, because a sum over all
// tiles would lose digits. Cells with a sum that is not finite are computed again by the definition.
// scratch: zeros, rows of pixels, gradients, the sums, those of a block; see winograd_gradient_scratch.
KERNEL(convolution_winograd_filter_gradient_float32)(const float *x, const float *dy, float *dfilter,
                                                     const window *w, int out_channels, int columns,
                                                     float *scratch) {
    const int channels = w->channels;
    const grid g = grid_of(w);
    const int tiles = w->batch * g.rows * g.columns;
    const steps step = gradient_steps(channels, columns);
    const int parts = (channels + MOST_ROWS - 1) / MOST_ROWS;  // of about the same size
    const int height = round_up((channels + parts - 1) / parts, GROUP);
    const int longest = channels > columns ? channels : columns;
    const float *zeros = memset(scratch, 0, longest * sizeof *scratch);
    float *rows = scratch + longest, *gradients = rows + POINTS * step.rows;
    float *sums = gradients + POINTS * step.weights, *some = sums + POINTS * step.products;
    memset(sums, 0, POINTS * step.products * sizeof *sums);
    corner c = {};
    for (int first = 0; first < tiles; first += BLOCK) {
        const int count = round_up(smaller(BLOCK, tiles - first), GROUP);
        for (int t = 0; t < count; t += GROUP) {
            const float *pixels[GROUP][POINTS];
            for (int i = 0; i < GROUP; i++, c = next_corner(w, g, c)) {
                find_pixels(w, x, zeros, c, pixels[i]);
                transform_gradients(w, dy, out_channels, columns, zeros, c,
                                    gradients + (t + i) * columns, step.weights);
            }
            for (int top = 0; top < channels; top += height) {
                const int length = smaller(height, channels - top);
                transform_pixels_of_four(pixels, top, length, rows + top * count + t * length, step.rows);
            }
        }
        for (int i = 0; i < POINTS; i++)
            for (int top = 0; top < channels; top += height) {
                const int length = smaller(height, channels - top);
                multiply_into_slabs(rows + i * step.rows + top * count, gradients + i * step.weights,
                                    some, length, columns, count);
                float *total = sums + i * step.products + top * round_up(columns, SLAB);
                for (int j = 0; j < length * round_up(columns, SLAB); j += 4)
                    store_quad(total + j, load_quad(total + j) + load_quad(some + j));
            }
    }
    for (int k = 0; k < channels; k++)
        for (int j = 0; j < columns; j += 4) {
            const int top = k / height * height, length = smaller(height, channels - top);
            const float *source = sums + top * round_up(columns, SLAB) +
                                  (j / SLAB * length + k - top) * SLAB + j % SLAB;
            quad points[POINTS], lines[12], cells[9], difference = {};
            for (int i = 0; i < POINTS; i++) points[i] = load_quad(source + i * step.products);
            for (int i = 0; i < 4; i++) combine_sums(points + i, 4, lines + i, 4);
            for (int i = 0; i < 3; i++) combine_sums(lines + 4 * i, 1, cells + 3 * i, 1);
            for (int i = 0; i < 9; i++) difference += cells[i] - cells[i];
            if (difference[0] + difference[1] + difference[2] + difference[3] != 0)
                correlate_cells(w, x + k, dy + j, out_channels, cells);
            for (int i = 0; i < 9; i++) {
                float *target = dfilter + ((ptrdiff_t)i * channels + k) * out_channels + j;
                store_quad(target, load_quad(target) + cells[i]);
            }
        }
}

EXPORTED(winograd_gradient_scratch) int64_t winograd_gradient_scratch(const window *w, int columns) {
    const steps step = gradient_steps(w->channels, columns);
    const int longest = w->channels > columns ? w->channels : columns;
    return longest + POINTS * ((int64_t)step.weights + step.rows + step.products) +
           MOST_ROWS * round_up(columns, SLAB);
}
