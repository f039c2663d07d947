// Convolution by filters of 3 or 5 cells along both axes, or along the width only, and steps of one pixel, with fewer
// products: Lavin and Gray,
// "Fast Algorithms for Convolutional Neural Networks" (2015), F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5). Where the cells
// are `dilation` pixels apart, so are the results of a tile and the pixels that they depend on.
//
// A tile is 4 x 4 results, or 2 x 2. The 6 x 6 pixels that they depend on, and the filter, become 36 numbers
// each, whose products give the results: 36 products where there were 144, or 100. Over all channels they
// are 36 matrix products. The transforms subtract pixels from each other, so rounding errors are
// relative to the largest pixel of the neighbourhood, and an infinite pixel spoils the results next
// to it: tiles with a result that is not finite are computed again, by the definition.
//
// Results, cells and pixels are the coefficients of polynomials; the numbers are values of these at 0, A, -A, B, -B and
// infinity. With 3/4 and 3/2, rounding errors are two to three times those of the definition, where 1 and 2, which
// are usual, have five times.
#include <math.h>

#include "gemm.h"
#include "window.h"

#define SIDE 6  // pixels of a tile along an axis
#define POINTS (SIDE * SIDE)
#define MOST_CELLS 5  // of a filter along an axis
#define MOST_RESULTS 4  // of a tile along an axis
#define BLOCK 32  // tiles whose transforms stay in the cache
#define APART 16  // numbers between matrices, which would compete for the same lines of the cache
#define A 0.75f
#define B 1.5f
#define ONE_AT_A_TIME _Pragma("nounroll")  // so that what is in between is in memory, and constants in registers
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    int rows, columns;  // of tiles
} grid;

// Filters of one row, as of sequences, have tiles of one row, and 6 numbers instead of 36.
static inline int pixels_of(int cells) { return cells == 1 ? 1 : SIDE; }
static inline int results_of(int cells) { return pixels_of(cells) + 1 - cells; }
static inline int points_of(const window *w) { return pixels_of(w->height.filter) * SIDE; }

// x - factor * y
INLINE quad minus_product(quad x, float factor, quad y) {
#ifdef __wasm_relaxed_simd__  // LLVM would keep the negative constant in another register
    return __builtin_wasm_relaxed_nmadd_f32x4(splat(factor), y, x);
#else
    return x - splat(factor) * y;
#endif
}

// As many tiles follow each other as there are pixels between two results of one.
static inline int count_tiles(const axis *a) {
    const int length = results_of(a->filter) * a->dilation;
    return (a->out + length - 1) / length * a->dilation;
}

static inline grid grid_of(const window *w) {
    return (grid){count_tiles(&w->height), count_tiles(&w->width)};
}

// The numbers of six pixels, with few constants, because there are few registers.
INLINE void combine_pixels(const quad *d, quad *out, int out_step) {
    const quad even = minus_product(d[4], B * B, d[2]), odd = minus_product(d[3], B * B, d[1]);
    out[0] = minus_product(even, A * A, minus_product(d[2], B * B, d[0]));
    out[out_step] = multiply_add(splat(A), odd, even);
    out[2 * out_step] = minus_product(even, A, odd);
    out[5 * out_step] = minus_product(minus_product(d[5], B * B, d[3]), A * A, odd);
    const quad even_b = minus_product(d[4], A * A, d[2]), odd_b = minus_product(d[3], A * A, d[1]);
    out[3 * out_step] = multiply_add(splat(B), odd_b, even_b);
    out[4 * out_step] = minus_product(even_b, B, odd_b);
}

// The values of a polynomial of `count` coefficients, from 2 to 5, at the points.
INLINE void evaluate(const quad *c, int count, int step, quad *out, int out_step) {
    out[0] = c[0];
    for (int i = 0; i < 2; i++) {
        const float point = i ? B : A;
        const int last = count - 1, even = last / 2 * 2, odd = last - 1 + last % 2;
        quad y = c[even * step], z = c[odd * step];
        for (int k = even - 2; k >= 0; k -= 2) y = multiply_add(y, splat(point * point), c[k * step]);
        for (int k = odd - 2; k >= 0; k -= 2) z = multiply_add(z, splat(point * point), c[k * step]);
        out[(1 + 2 * i) * out_step] = multiply_add(z, splat(point), y);
        out[(2 + 2 * i) * out_step] = minus_product(y, point, z);
    }
    out[5 * out_step] = c[(count - 1) * step];
}

// The transpose of it: `count` sums of the numbers at the points, each times a power of its point.
INLINE void gather_powers(const quad *m, int step, int count, quad *out, int out_step) {
    quad sums[2] = {m[step] + m[2 * step], m[step] - m[2 * step]};
    quad far[2] = {m[3 * step] + m[4 * step], m[3 * step] - m[4 * step]};
    float near_power = 1, far_power = 1;
    for (int i = 0; i < count; i++, near_power *= A, far_power *= B) {
        quad y = i ? multiply_add(far[i % 2], splat(far_power), sums[i % 2] * splat(near_power))
                   : sums[0] + far[0] + m[0];
        if (i == count - 1) y += m[5 * step];
        out[i * out_step] = y;
    }
}

// What the values of filters are divided by: a polynomial of degree 4 has its other values 0 where one is this.
static inline float divisor(int point) {
    const float a = A * A, b = B * B;
    return point == 0 ? a * b : point < 3 ? 2 * a * (a - b) : point < 5 ? 2 * b * (b - a) : 1;
}

static inline quad inverse_divisor(int i, int down) {
    return splat(1 / ((down == 1 ? 1 : divisor(i / SIDE)) * divisor(i % SIDE)));
}

// The transformed filters of down x across cells: matrix after matrix, with a row for each channel.
INLINE void transform_filters(int down, int across, const float *filter, ptrdiff_t cell,
                              float *weights, ptrdiff_t matrix) {
    for (ptrdiff_t place = 0; place < cell; place += 4) {
        quad cells[MOST_CELLS * MOST_CELLS], lines[SIDE * MOST_CELLS], points[POINTS];
        UNROLLED for (int i = 0; i < down * across; i++) cells[i] = load_quad(filter + i * cell + place);
        UNROLLED for (int i = 0; i < across; i++)
            if (down > 1) evaluate(cells + i, down, across, lines + i, across);
        UNROLLED for (int i = 0; i < pixels_of(down); i++)
            evaluate((down > 1 ? lines : cells) + across * i, across, 1, points + SIDE * i, 1);
        UNROLLED for (int i = 0; i < pixels_of(down) * SIDE; i++)
            store_quad(weights + i * matrix + place, points[i] * inverse_divisor(i, down));
    }
}

// Where a tile is: its image, its first result there, and how many tiles are above it and to its left.
typedef struct {
    int image, row, column;
    grid before;
} corner;

static inline int first_result(const axis *a, int tile) {
    return tile / a->dilation * results_of(a->filter) * a->dilation + tile % a->dilation;
}

// The next tile. Divisions for each tile would take as long as its transforms.
static inline corner next_corner(const window *w, grid g, corner c) {
    const int down = w->height.dilation, right = w->width.dilation;
    if (++c.before.columns < g.columns) {
        c.column += right == 1 ? results_of(w->width.filter) : first_result(&w->width, c.before.columns) - c.column;
        return c;
    }
    c.before.columns = c.column = 0;
    if (++c.before.rows < g.rows) {
        c.row += down == 1 ? results_of(w->height.filter) : first_result(&w->height, c.before.rows) - c.row;
        return c;
    }
    return (corner){c.image + 1, 0, 0, {0, 0}};
}

// How many results of a tile there are along an axis.
static inline int count_results(const axis *a, int first) {
    return smaller(results_of(a->filter), (a->out - first + a->dilation - 1) / a->dilation);
}

// The places of the 6 x 6 pixels of a tile; `zeros` stands for those in the padding, and behind the last image. Addresses
// of a row are two vectors, of which two numbers are the same.
static void find_pixels(const window *w, const float *x, const float *zeros, corner c,
                        const float *pixels[POINTS]) {
    static_assert(sizeof(int_quad) == GROUP * sizeof *pixels && SIDE == 6);
    const int right = w->width.dilation, size = w->width.size;
    const int_quad left_columns = c.column - w->width.before + (int_quad){0, 1, 2, 3} * right;
    const int_quad right_columns = left_columns + 2 * right;
    const int_quad has_left = (left_columns >= 0) & (left_columns < size);
    const int_quad has_right = (right_columns >= 0) & (right_columns < size);
    const int pixel = w->channels * (int)sizeof *x;
    const int_quad nowhere = (int)(intptr_t)zeros - (int_quad){};
    const int rows = pixels_of(w->height.filter);
    for (int i = 0, y = c.row - w->height.before; i < rows; i++, y += w->height.dilation) {
        const int_quad found = -(c.image < w->batch && is_inside(&w->height, y)) - (int_quad){};
        const int line = (int)(intptr_t)x + (c.image * w->height.size + y) * size * pixel;
        const int_quad first = found & has_left, last = found & has_right;
        const int_quad places = (first & (line + left_columns * pixel)) | (~first & nowhere);
        const int_quad others = (last & (line + right_columns * pixel)) | (~last & nowhere);
        memcpy(pixels + SIDE * i, &places, sizeof places);
        memcpy(pixels + SIDE * i + 2, &others, sizeof others);
    }
}

// The same place in a matrix that is `step` numbers behind. One address at a time takes one register; the compiler would
// keep all distances.
static inline float *next_matrix(const float *place, ptrdiff_t step) {
    place += step;
    __asm__("" : "+r"(place));
    return (float *)place;
}

// Transform channels of the pixels of a tile, which become one row of each of the matrices; `step` is from group to
// group in a row.
INLINE void transform_pixels(int down, const float *const pixels[POINTS], int first, int end,
                             float *row, ptrdiff_t step, ptrdiff_t matrix) {
    for (int k = first; k < end; k += GROUP, row += step) {
        quad lines[POINTS];
        ONE_AT_A_TIME for (int j = 0; j < SIDE; j++) {
            quad column[SIDE];
            UNROLLED for (int i = 0; i < pixels_of(down); i++)
                column[i] = load_quad(pixels[SIDE * i + j] + k);
            if (down > 1)
                combine_pixels(column, lines + j, SIDE);
            else
                lines[j] = column[0];
        }
        float *place = row;
        ONE_AT_A_TIME for (int i = 0; i < pixels_of(down); i++) {
            quad points[SIDE];
            combine_pixels(lines + SIDE * i, points, 1);
            UNROLLED for (int j = 0; j < SIDE; j++, place = next_matrix(place, matrix))
                store_quad(place, points[j]);
        }
    }
}

// Four numbers of a bias that may be absent; -0 changes no sum.
static inline quad load_bias(const float *bias, int j) {
    return bias ? load_quad(bias + j) : -(quad){};
}

// One pixel of the results, by the definition, without the products of the pixels that are `skipped`.
ONCE static void convolve_pixel(const float *const pixels[POINTS], const float *filter, int down,
                                int across, const float *skipped, const float *bias, float least, float most,
                                int corner, int channels, int out_channels, float *out) {
    for (int j = 0; j < out_channels; j++) out[j] = 0;
    for (int i = 0; i < down * across; i++) {
        const float *pixel = pixels[corner + i / across * SIDE + i % across];
        const float *weights = filter + (ptrdiff_t)i * channels * out_channels;
        if (pixel == skipped) continue;
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

static inline void add_numbers(float *sums, const float *numbers, int count) {
    for (int j = 0; j < count; j += 4)
        store_quad(sums + j, load_quad(sums + j) + load_quad(numbers + j));
}

// The products of rows of tiles with transformed filters. Sums of CHANNELS at most are apart, because the transforms
// multiply the errors of long sums.
#define CHANNELS 64
static void multiply_channels(const float *rows, const float *weights, float *products, float *some,
                              int count, int out_channels, int channels) {
    for (int first = 0; first < channels; first += CHANNELS) {
        multiply_into_slabs(rows + first * count, weights + (ptrdiff_t)first * out_channels,
                            first ? some : products, count, out_channels,
                            smaller(CHANNELS, channels - first));
        if (first) add_numbers(products, some, count * round_up(out_channels, SLAB));
    }
}

// Write the results of a tile, whose products are `slab` apart in the matrices; return whether all are finite.
INLINE int write_results(int down, int across, int is_limited, const float *products, int slab,
                         ptrdiff_t matrix, float *const places[], const float *bias, float least,
                         float most, int out_channels) {
    const int height = results_of(down), width = results_of(across);
    quad differences[2] = {};  // NaN where a result is not finite
    for (int j = 0; j < out_channels; j += 4) {
        const float *source = products + j / SLAB * slab + j % SLAB;
        const quad constant = is_limited ? load_bias(bias, j) : (quad){};
        quad lines[MOST_RESULTS * SIDE];
        ONE_AT_A_TIME for (int k = 0; k < SIDE; k++) {
            quad points[SIDE];
            const float *place = source + k * matrix;
            UNROLLED for (int i = 0; i < pixels_of(down); i++, place = next_matrix(place, SIDE * matrix))
                points[i] = load_quad(place);
            if (down > 1)
                gather_powers(points, 1, height, lines + k, SIDE);
            else
                lines[k] = points[0];
        }
        ONE_AT_A_TIME for (int i = 0; i < height; i++) {
            quad results[MOST_RESULTS];
            gather_powers(lines + SIDE * i, 1, width, results, 1);
            UNROLLED for (int k = 0; k < width; k++) {
                differences[k % 2] = multiply_add(results[k], (quad){}, differences[k % 2]);
                if (is_limited) results[k] = limited(results[k] + constant, least, most);
                store_quad(places[width * i + k] + j, results[k]);
            }
        }
    }
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += differences[0][i] + differences[1][i];
    return sum == 0;
}

// The results plus a bias for each channel, which may be absent, within limits. Pixels in the padding are zeros, and so
// NaN times an infinite cell, unless there is no padding but results of a convolution of which this is the gradient.
// scratch: channels zeros, weights, rows of tiles, products, some of them; see winograd_scratch.
INLINE void convolve_in_tiles(int down, int across, const float *x, const float *filter, float *out,
                              const window *w, const float *bias, float least, float most,
                              int out_channels, int is_gradient, float *scratch) {
    const int channels = w->channels, count_of_points = pixels_of(down) * SIDE;
    const int most_rows = results_of(down), most_columns = results_of(across);
    const grid g = grid_of(w);
    const int tiles = w->batch * g.rows * g.columns;
    const int blocks = (tiles + BLOCK - 1) / BLOCK;  // of about the same size
    const steps step = steps_of(channels, out_channels);
    float *weights = scratch + channels, *rows = weights + count_of_points * step.weights;
    float *products = rows + count_of_points * step.rows;
    float *some = products + count_of_points * step.products;
    memset(scratch, 0, channels * sizeof *scratch);
    transform_filters(down, across, filter, (ptrdiff_t)channels * out_channels, weights, step.weights);
    const int is_limited = bias || least > -INFINITY || most < INFINITY;
    const float *pixels[BLOCK][POINTS];
    corner corners[BLOCK], next = {};
    for (int block = 0, first = 0, count; block < blocks; block++, first += count) {
        count = smaller(round_up((tiles - first) / (blocks - block), 8), tiles - first);
        for (int t = 0; t < count; t++, next = next_corner(w, g, next)) {
            corners[t] = next;
            find_pixels(w, x, scratch, next, pixels[t]);
            transform_pixels(down, pixels[t], 0, channels, rows + t * GROUP, count * GROUP, step.rows);
        }
        for (int i = 0; i < count_of_points; i++)
            multiply_channels(rows + i * step.rows, weights + i * step.weights,
                              products + i * step.products, some, count, out_channels, channels);
        for (int t = 0; t < count; t++) {
            const corner c = corners[t];
            const int height = count_results(&w->height, c.row);
            const int width = count_results(&w->width, c.column);
            const ptrdiff_t line = (ptrdiff_t)c.image * w->height.out + c.row;
            float *target = out + (line * w->width.out + c.column) * out_channels;
            const ptrdiff_t column = (ptrdiff_t)w->width.dilation * out_channels;
            const ptrdiff_t row = (ptrdiff_t)w->height.dilation * w->width.out * out_channels;
            float *places[MOST_RESULTS * MOST_RESULTS];
            for (int i = 0; i < most_rows * most_columns; i++)
                places[i] = i / most_columns < height && i % most_columns < width
                                ? target + i / most_columns * row + i % most_columns * column
                                : some;
            const float *source = products + t * SLAB;
#define WRITE(is_limited)                                                                          \
    write_results(down, across, is_limited, source, count * SLAB, step.products, places, bias, least, most, \
                  out_channels)
            if (is_limited ? WRITE(1) : WRITE(0)) continue;
            for (int i = 0; i < height; i++)
                for (int j = 0; j < width; j++)
                    convolve_pixel(pixels[t], filter, down, across, is_gradient ? scratch : 0, bias, least, most,
                                   SIDE * i + j, channels, out_channels, target + i * row + j * column);
        }
    }
}

// For the filters that have tiles.
#define EACH_FILTER(run)                                                                           \
    if (w->width.filter == 3 && w->height.filter == 3) run(3, 3);                                  \
    if (w->width.filter == 5 && w->height.filter == 5) run(5, 5);                                  \
    if (w->width.filter == 3 && w->height.filter == 1) run(1, 3);                                  \
    if (w->width.filter == 5 && w->height.filter == 1) run(1, 5);

KERNEL(convolution_winograd_float32)(const float *x, const float *filter, float *out,
                                     const window *w, const float *bias, float least, float most,
                                     int out_channels, int is_gradient, float *scratch) {
#define CONVOLVE(down, across)                                                                     \
    convolve_in_tiles(down, across, x, filter, out, w, bias, least, most, out_channels, is_gradient, scratch)
    EACH_FILTER(CONVOLVE)
}

EXPORTED(winograd_scratch) int64_t winograd_scratch(const window *w, int out_channels) {
    const steps step = steps_of(w->channels, out_channels);
    return w->channels + points_of(w) * ((int64_t)step.weights + step.rows + step.products) + step.products;
}

// ---- the gradient with respect to the filters ----
//
// The transposed algorithm: the gradients of a tile become 36 numbers, too, and the products of
// them with those of the pixels, summed over all tiles, become the cells. Here the tiles are the depth of the 36
// products, so the numbers of four tiles are side by side.

// Transform the pixels of four tiles, for some of the channels, which are the rows of the products.
INLINE void transform_pixels_of_four(int down, const float *const pixels[GROUP][POINTS], int top, int channels,
                                     float *rows, ptrdiff_t matrix) {
    for (int k = top; k < top + channels; k += GROUP, rows += GROUP * GROUP) {
        float points[GROUP][POINTS * GROUP];
        for (int t = 0; t < GROUP; t++)
            transform_pixels(down, pixels[t], k, k + GROUP, points[t], 0, GROUP);
        for (int i = 0; i < pixels_of(down) * SIDE; i++) {
            const quad numbers[GROUP] = {
                load_quad(points[0] + i * GROUP), load_quad(points[1] + i * GROUP),
                load_quad(points[2] + i * GROUP), load_quad(points[3] + i * GROUP)};
            store_transposed(numbers, rows + i * matrix, GROUP);
        }
    }
}

// Transform the gradients of a tile, which become one row of each of the matrices.
INLINE void transform_gradients(int down, int across, const window *w, const float *dy, int out_channels,
                                int columns, const float *zeros, corner c, float *row,
                                ptrdiff_t matrix) {
    const int height = results_of(down), width = results_of(across);
    const float *places[MOST_RESULTS * MOST_RESULTS];
    for (int i = 0; i < height * width; i++) {
        const int y = c.row + i / width * w->height.dilation;
        const int z = c.column + i % width * w->width.dilation;
        const ptrdiff_t line = (ptrdiff_t)c.image * w->height.out + y;
        places[i] = c.image < w->batch && y < w->height.out && z < w->width.out
                        ? dy + (line * w->width.out + z) * out_channels
                        : zeros;
    }
    for (int j = 0; j < columns; j += 4) {
        quad lines[MOST_RESULTS * SIDE];
        ONE_AT_A_TIME for (int k = 0; k < width; k++) {
            quad column[MOST_RESULTS];
            UNROLLED for (int i = 0; i < height; i++) column[i] = load_quad(places[width * i + k] + j);
            if (down > 1)
                evaluate(column, height, 1, lines + k, width);
            else
                lines[k] = column[0];
        }
        float *place = row + j;
        ONE_AT_A_TIME for (int i = 0; i < pixels_of(down); i++) {
            quad points[SIDE];
            evaluate(lines + width * i, width, 1, points, 1);
            UNROLLED for (int k = 0; k < SIDE; k++, place = next_matrix(place, matrix))
                store_quad(place, points[k]);
        }
    }
}

// The cells of one channel and four result channels, by the definition.
ONCE static void correlate_cells(const window *w, const float *x, const float *dy, int out_channels,
                                 quad *cells) {
    const int side = w->width.filter;
    for (int i = 0; i < w->height.filter * side; i++) {
        cells[i] = (quad){};
        for (int row = 0; row < w->batch * w->height.out; row++) {
            const int y = row % w->height.out + i / side * w->height.dilation - w->height.before;
            const ptrdiff_t line = (ptrdiff_t)(row / w->height.out) * w->height.size + y;
            quad sum = {};
            for (int column = 0; column < w->width.out; column++) {
                const int z = column + i % side * w->width.dilation - w->width.before;
                const int is_pixel = is_inside(&w->height, y) && is_inside(&w->width, z);
                sum += (is_pixel ? x[(line * w->width.size + z) * w->channels] : 0) *
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
INLINE void correlate_in_tiles(int down, int across, const float *x, const float *dy, float *dfilter,
                               const window *w, int out_channels, int columns, float *scratch) {
    const int channels = w->channels, count_of_points = pixels_of(down) * SIDE;
    const grid g = grid_of(w);
    const int tiles = w->batch * g.rows * g.columns;
    const steps step = gradient_steps(channels, columns);
    const int parts = (channels + MOST_ROWS - 1) / MOST_ROWS;  // of about the same size
    const int height = round_up((channels + parts - 1) / parts, GROUP);
    const int longest = channels > columns ? channels : columns;
    const float *zeros = memset(scratch, 0, longest * sizeof *scratch);
    float *rows = scratch + longest, *gradients = rows + count_of_points * step.rows;
    float *sums = gradients + count_of_points * step.weights;
    float *some = sums + count_of_points * step.products;
    memset(sums, 0, count_of_points * step.products * sizeof *sums);
    corner c = {};
    for (int first = 0; first < tiles; first += BLOCK) {
        const int count = round_up(smaller(BLOCK, tiles - first), GROUP);
        for (int t = 0; t < count; t += GROUP) {
            const float *pixels[GROUP][POINTS];
            for (int i = 0; i < GROUP; i++, c = next_corner(w, g, c)) {
                find_pixels(w, x, zeros, c, pixels[i]);
                transform_gradients(down, across, w, dy, out_channels, columns, zeros, c,
                                    gradients + (t + i) * columns, step.weights);
            }
            for (int top = 0; top < channels; top += height) {
                const int length = smaller(height, channels - top);
                transform_pixels_of_four(down, pixels, top, length, rows + top * count + t * length, step.rows);
            }
        }
        for (int i = 0; i < count_of_points; i++)
            for (int top = 0; top < channels; top += height) {
                const int length = smaller(height, channels - top);
                multiply_into_slabs(rows + i * step.rows + top * count, gradients + i * step.weights,
                                    some, length, columns, count);
                float *total = sums + i * step.products + top * round_up(columns, SLAB);
                add_numbers(total, some, length * round_up(columns, SLAB));
            }
    }
    for (int k = 0; k < channels; k++)
        for (int j = 0; j < columns; j += 4) {
            const int top = k / height * height, length = smaller(height, channels - top);
            const float *source = sums + top * round_up(columns, SLAB) +
                                  (j / SLAB * length + k - top) * SLAB + j % SLAB;
            quad points[POINTS], lines[MOST_CELLS * SIDE], cells[MOST_CELLS * MOST_CELLS], difference = {};
            UNROLLED for (int i = 0; i < count_of_points; i++)
                points[i] = load_quad(source + i * step.products) * inverse_divisor(i, down);
            UNROLLED for (int i = 0; i < SIDE; i++)
                if (down > 1) gather_powers(points + i, SIDE, down, lines + i, SIDE);
            UNROLLED for (int i = 0; i < down; i++)
                gather_powers((down > 1 ? lines : points) + SIDE * i, 1, across, cells + across * i, 1);
            for (int i = 0; i < down * across; i++) difference += cells[i] - cells[i];
            if (difference[0] + difference[1] + difference[2] + difference[3] != 0)
                correlate_cells(w, x + k, dy + j, out_channels, cells);
            for (int i = 0; i < down * across; i++) {
                float *target = dfilter + ((ptrdiff_t)i * channels + k) * out_channels + j;
                store_quad(target, load_quad(target) + cells[i]);
            }
        }
}

KERNEL(convolution_winograd_filter_gradient_float32)(const float *x, const float *dy, float *dfilter,
                                                     const window *w, int out_channels, int columns,
                                                     float *scratch) {
#define CORRELATE(down, across)                                                                    \
    correlate_in_tiles(down, across, x, dy, dfilter, w, out_channels, columns, scratch)
    EACH_FILTER(CORRELATE)
}

EXPORTED(winograd_gradient_scratch) int64_t winograd_gradient_scratch(const window *w, int columns) {
    const steps step = gradient_steps(w->channels, columns);
    const int longest = w->channels > columns ? w->channels : columns;
    return longest + points_of(w) * ((int64_t)step.weights + step.rows + step.products) +
           MOST_ROWS * round_up(columns, SLAB);
}
