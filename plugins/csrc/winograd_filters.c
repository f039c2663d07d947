// Gradients of convolutions with respect to their filters, in tiles; see winograd.h.
//
// The transposed algorithm: the gradients of a tile become as many numbers as its pixels, and the products of
// them with those of the pixels, summed over all tiles, become the cells. Here the tiles are the depth of the
// products, so the numbers of four tiles are side by side.
#include "winograd.h"

// Transform the pixels of four tiles, for some of the channels, which are the rows of the products.
INLINE void transform_pixels_of_four(scheme down, scheme across, const window *w,
                                     const float *pixels[GROUP][MOST_PIXELS * MOST_PIXELS], int top,
                                     int length, int count, float *rows) {
    const ptrdiff_t unit = (ptrdiff_t)count * w->channels;
    for (int k = top; k < top + length; k += GROUP, rows += GROUP * GROUP) {
        float points[GROUP][MOST_POINTS * MOST_POINTS * GROUP], *number = points[0];
        for (int t = 0; t < GROUP; t++)
            transform_pixels(down, across, w, pixels[t], k, points[t], GROUP, 0, GROUP, 0, points_of(down),
                             points_of(across));
        EACH_WEIGHT(down, across, {
            float *place = rows + matrix_place(down, across, i, j, unit, APART) + (ptrdiff_t)numbers * top * count;
            for (int n = 0; n < numbers; n++, number += GROUP, place += count * length) {
                const quad four[GROUP] = {load_quad(number), load_quad(number + sizeof points[0] / sizeof *number),
                                          load_quad(number + 2 * sizeof points[0] / sizeof *number),
                                          load_quad(number + 3 * sizeof points[0] / sizeof *number)};
                store_transposed(four, place, GROUP);
            }
        })
    }
}

// The numbers of the results of a tile along an axis.
INLINE void transform_results(scheme s, const quad *y, int step, quad *out, int out_step) {
    evaluate(!has_phases(s), y, results_of(s), step, out, out_step);
    if (has_phases(s))
        UNROLLED for (int i = 0; i < 4; i++) out[(FACTORS + i) * out_step] = y[i * step];
}

// Transform the gradients of a tile, which become one row of each of the matrices.
INLINE void transform_gradients(scheme down, scheme across, const window *w, const float *dy, int out_channels,
                                int columns, const float *zeros, corner c, float *row,
                                ptrdiff_t unit) {
    const int height = results_of(down), width = results_of(across);
    const float *places[MOST_RESULTS * MOST_RESULTS];
    for (int i = 0; i < height * width; i++) {
        const int y = c.row + result_place(down, &w->height, i / width);
        const int z = c.column + result_place(across, &w->width, i % width);
        const ptrdiff_t line = (ptrdiff_t)c.image * w->height.out + y;
        places[i] = c.image < w->batch && y < w->height.out && z < w->width.out
                        ? dy + (line * w->width.out + z) * out_channels
                        : zeros;
    }
    for (int j = 0; j < columns; j += 4) {
        quad lines[MOST_POINTS * MOST_RESULTS];
        ONE_AT_A_TIME for (int k = 0; k < width; k++) {
            quad column[MOST_RESULTS];
            UNROLLED for (int i = 0; i < height; i++) column[i] = load_quad(places[width * i + k] + j);
            if (down == ONE_ROW)
                lines[k] = column[0];
            else
                transform_results(down, column, 1, lines + k, width);
        }
        ONE_AT_A_TIME for (int i = 0; i < points_of(down); i++) {
            const line at = line_at(down, across, i, unit, APART, unit, 0);
            quad points[MOST_POINTS];
            transform_results(across, lines + width * i, 1, points, 1);
            float *place = row + j + at.regular;
            UNROLLED for (int k = 0; k < (has_phases(across) ? FACTORS : SIDE); k++, place = next_matrix(place, at.step))
                store_quad(place, points[k]);
            if (!has_phases(across)) continue;
            place = row + j + at.plain;
            UNROLLED for (int k = FACTORS; k < MOST_POINTS; k++, place = next_matrix(place, at.plain_step))
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
            const int y = start_of(&w->height, row % w->height.out) + i / side * w->height.dilation;
            const ptrdiff_t line = (ptrdiff_t)(row / w->height.out) * w->height.size + y;
            quad sum = {};
            for (int column = 0; column < w->width.out; column++) {
                const int z = start_of(&w->width, column) + i % side * w->width.dilation;
                const int is_pixel = is_inside(&w->height, y) && is_inside(&w->width, z);
                sum += (is_pixel ? x[(line * w->width.size + z) * w->channels] : 0) *
                       load_quad(dy + ((ptrdiff_t)row * w->width.out + column) * out_channels);
            }
            cells[i] += sum;
        }
    }
}

// dfilter += the gradient for `columns` of the result channels. The sums of a block are apart, because a sum over all
// tiles would lose digits. Cells with a sum that is not finite are computed again by the definition.
// scratch: zeros, rows of pixels, gradients, the sums, those of a block; see winograd_gradient_scratch.
INLINE void correlate_in_tiles(scheme down, scheme across, const float *x, const float *dy, float *dfilter,
                               const window *w, int out_channels, int columns, float *scratch) {
    const int channels = w->channels;
    const int weights = weights_of(down) * weights_of(across), cells_of_filter = cells_of(down) * cells_of(across);
    const int most_tiles = tiles_in_block(across, 2 * channels);  // whatever the threads have of the result channels
    const grid g = grid_of(down, across, w);
    const int tiles = w->batch * g.rows * g.columns;
    const ptrdiff_t of_sums = (ptrdiff_t)channels * round_up(columns, SLAB);
    const int parts = (channels + MOST_ROWS - 1) / MOST_ROWS;  // of about the same size
    const int height = round_up((channels + parts - 1) / parts, GROUP);
    const int longest = channels > columns ? channels : columns;
    const float *zeros = memset(scratch, 0, longest * sizeof *scratch);
    float *rows = scratch + longest, *gradients = rows + size_of_matrices(down, across, most_tiles * channels);
    float *sums = gradients + size_of_matrices(down, across, most_tiles * columns);
    float *some = sums + weights * of_sums;
    memset(sums, 0, weights * of_sums * sizeof *sums);
    corner c = {};
    for (int done = 0; done < tiles; done += most_tiles) {
        const int count = round_up(smaller(most_tiles, tiles - done), GROUP);
        const ptrdiff_t unit = (ptrdiff_t)count * channels, of_gradients = (ptrdiff_t)count * columns;
        for (int t = 0; t < count; t += GROUP) {
            const float *pixels[GROUP][MOST_PIXELS * MOST_PIXELS];
            for (int i = 0; i < GROUP; i++, c = next_corner(down, across, w, g, c)) {
                find_pixels(down, across, w, x, channels, zeros, c, pixels[i]);
                transform_gradients(down, across, w, dy, out_channels, columns, zeros, c,
                                    gradients + (t + i) * columns, of_gradients);
            }
            for (int top = 0; top < channels; top += height) {
                const int length = smaller(height, channels - top);
                transform_pixels_of_four(down, across, w, pixels, top, length, count, rows + t * length);
            }
        }
        EACH_WEIGHT(down, across, {
            const float *numbers_of_pixels = rows + matrix_place(down, across, i, j, unit, APART);
            const float *others = gradients + matrix_place(down, across, i, j, of_gradients, APART);
            for (int top = 0; top < channels; top += height) {
                const int length = smaller(height, channels - top);
                multiply_into_slabs(numbers_of_pixels + (ptrdiff_t)numbers * top * count, others, some, length,
                                    length, columns, numbers * count);
                float *total = sums + (i * SIDE + j) * of_sums + top * round_up(columns, SLAB);
                add_numbers(total, some, length * round_up(columns, SLAB));
            }
        })
    }
    for (int k = 0; k < channels; k++)
        for (int j = 0; j < columns; j += 4) {
            const int top = k / height * height, length = smaller(height, channels - top);
            const float *source = sums + top * round_up(columns, SLAB) +
                                  (j / SLAB * length + k - top) * SLAB + j % SLAB;
            quad points[SIDE * SIDE], lines[MOST_CELLS * SIDE], cells[MOST_CELLS * MOST_CELLS], difference = {};
            UNROLLED for (int i = 0; i < weights; i++)
                points[i] = load_quad(source + i * of_sums) * inverse_divisor(down, across, i);
            UNROLLED for (int i = 0; i < SIDE; i++)
                if (down != ONE_ROW) gather_cells(down, points + i, SIDE, lines + i, SIDE);
            UNROLLED for (int i = 0; i < cells_of(down); i++)
                gather_cells(across, (down != ONE_ROW ? lines : points) + SIDE * i, 1, cells + cells_of(across) * i, 1);
            for (int i = 0; i < cells_of_filter; i++) difference += cells[i] - cells[i];
            if (difference[0] + difference[1] + difference[2] + difference[3] != 0)
                correlate_cells(w, x + k, dy + j, out_channels, cells);
            for (int i = 0; i < cells_of_filter; i++) {
                float *target = dfilter + ((ptrdiff_t)i * channels + k) * out_channels + j;
                store_quad(target, load_quad(target) + cells[i]);
            }
        }
}

#define TILED(down, across)                                                                        \
    ONCE static void correlate_##down##_##across(const float *x, const float *dy, float *dfilter,  \
                                                 const window *w, int out_channels, int columns,   \
                                                 float *scratch) {                                 \
        correlate_in_tiles(down, across, x, dy, dfilter, w, out_channels, columns, scratch);       \
    }
EACH_SCHEME(TILED)

KERNEL(convolution_winograd_filter_gradient_float32)(const float *x, const float *dy, float *dfilter,
                                                     const window *w, int out_channels, int columns,
                                                     float *scratch) {
#define CORRELATE(down, across)                                                                    \
    if (scheme_of(&w->height) == down && scheme_of(&w->width) == across)                           \
        correlate_##down##_##across(x, dy, dfilter, w, out_channels, columns, scratch);
    EACH_SCHEME(CORRELATE)
}

EXPORTED(winograd_gradient_scratch) int64_t winograd_gradient_scratch(const window *w, int columns) {
    const scheme down = scheme_of(&w->height), across = scheme_of(&w->width);
    const int longest = w->channels > columns ? w->channels : columns;
    const int64_t tiles = tiles_in_block(across, 2 * w->channels);
    return longest + size_of_matrices(down, across, tiles * w->channels) + size_of_matrices(down, across, tiles * columns) +
           (weights_of(down) * weights_of(across) * (int64_t)w->channels + MOST_ROWS) * round_up(columns, SLAB);
}
