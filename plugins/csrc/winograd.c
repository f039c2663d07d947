// Convolutions in tiles, and their gradients with respect to the images; see winograd.h.
#include "winograd.h"

// The transformed filters: matrix after matrix, with a row for each channel.
INLINE void transform_filters(scheme down, scheme across, const float *filter, ptrdiff_t cell,
                              float *weights, ptrdiff_t matrix) {
    const int height = cells_of(down), width = cells_of(across);
    for (ptrdiff_t place = 0; place < cell; place += 4) {
        quad cells[MOST_CELLS * MOST_CELLS], lines[SIDE * MOST_CELLS], points[SIDE * SIDE];
        UNROLLED for (int i = 0; i < height * width; i++) cells[i] = load_quad(filter + i * cell + place);
        UNROLLED for (int i = 0; i < width; i++)
            if (down != ONE_ROW) transform_cells(down, cells + i, width, lines + i, width);
        UNROLLED for (int i = 0; i < weights_of(down); i++)
            transform_cells(across, (down != ONE_ROW ? lines : cells) + width * i, 1, points + SIDE * i, 1);
        UNROLLED for (int i = 0; i < weights_of(down) * SIDE; i++)
            store_quad(weights + i * matrix + place, points[i] * inverse_divisor(down, across, i));
    }
}

// Four numbers of a bias that may be absent; -0 changes no sum.
static inline quad load_bias(const float *bias, int j) {
    return bias ? load_quad(bias + j) : -(quad){};
}

// One pixel of the results, by the definition, without the products of the pixels that are `skipped`.
ONCE static void convolve_pixel(const window *w, scheme down, scheme across, const float *const *pixels,
                                const float *filter, const float *skipped, const float *bias, float least,
                                float most, int row, int column, int channels, int out_channels, float *out) {
    for (int j = 0; j < out_channels; j++) out[j] = 0;
    for (int i = 0; i < cells_of(down); i++)
        for (int l = 0; l < cells_of(across); l++) {
            const int y = pixel_in_cell(down, &w->height, row, i), z = pixel_in_cell(across, &w->width, column, l);
            const float *pixel = y < 0 || z < 0 ? skipped : pixels[y * pixels_of(across) + z];
            const float *weights = filter + (ptrdiff_t)(i * cells_of(across) + l) * channels * out_channels;
            if (pixel == skipped) continue;
            for (int k = 0; k < channels; k++, weights += out_channels)
                for (int j = 0; j < out_channels; j++) out[j] += pixel[k] * weights[j];
        }
    for (int j = 0; j < out_channels; j += 4)
        store_quad(out + j, limited(load_quad(out + j) + load_bias(bias, j), least, most));
}

// The products of rows of tiles, from `begin` to `end`, with transformed filters, and zeros for other rows. Sums of
// CHANNELS at most are apart, because the transforms multiply the errors of long sums.
#define CHANNELS 64
static void multiply_channels(const float *rows, const float *weights, float *products, float *some, int begin,
                              int end, int count, int out_channels, int channels) {
    const int some_rows = end - begin, slabs = round_up(out_channels, SLAB) / SLAB;
    float *target = products + begin * SLAB;
    for (int first = 0; first < channels && some_rows; first += CHANNELS) {
        multiply_into_slabs(rows + first * count + begin * GROUP, weights + (ptrdiff_t)first * out_channels,
                            first ? some : target, some_rows, count, out_channels,
                            smaller(CHANNELS, channels - first));
        for (int i = 0; i < slabs && first; i++)
            add_numbers(target + i * count * SLAB, some + i * count * SLAB, some_rows * SLAB);
    }
    for (int i = 0; i < slabs && some_rows < count; i++, products += count * SLAB) {
        memset(products, 0, begin * SLAB * sizeof *products);
        memset(products + end * SLAB, 0, (count - end) * SLAB * sizeof *products);
    }
}

// Where the tiles of a block are. Those at the end of an image need fewer points along an axis, so in order are those with
// fewer across, with all, with fewer down, and with fewer along both: the tiles that need a point are neighbours.
typedef struct {
    int starts[5], points_down, points_across;  // of those with fewer
} tile_order;

INLINE int place_in_order(scheme down, scheme across, const window *w, corner c) {
    const int is_short = points_at(across, &w->width, c.column) < points_of(across);
    return points_at(down, &w->height, c.row) < points_of(down) ? 2 + is_short : 1 - is_short;
}

// Write the corners of the next tiles in this order.
INLINE tile_order order_tiles(scheme down, scheme across, const window *w, grid g, int count, corner *next,
                              corner *corners) {
    corner found[MOST_TILES];
    tile_order order = {.starts = {0, 0, count, count, count},
                        .points_down = points_at(down, &w->height, first_result(down, &w->height, g.rows - 1)),
                        .points_across = points_at(across, &w->width, first_result(across, &w->width, g.columns - 1))};
    const int are_whole = order.points_down == points_of(down) && order.points_across == points_of(across);
    int places[4] = {};
    for (int t = 0; t < count; t++, *next = next_corner(down, across, w, g, *next))
        (are_whole ? corners : found)[t] = *next;
    if (are_whole) return order;
    for (int t = 0; t < count; t++) places[place_in_order(down, across, w, found[t])]++;
    for (int i = 0; i < 4; i++) {
        order.starts[i + 1] = order.starts[i] + places[i];
        places[i] = order.starts[i];
    }
    for (int t = 0; t < count; t++) corners[places[place_in_order(down, across, w, found[t])]++] = found[t];
    return order;
}

// The results along an axis.
INLINE void gather_results(scheme s, const quad *m, quad *out, int out_step) {
    gather_powers(!has_phases(s), m, 1, s == REVERSED ? 4 : results_of(s), out, out_step);
    if (has_phases(s))
        UNROLLED for (int i = 0; i < 4; i++) {
            if (s == STRIDED)
                out[i * out_step] += m[FACTORS + i];
            else
                out[(4 + i) * out_step] = m[FACTORS + i];
        }
}

// Write the results of a tile, one of `count`; return whether all are finite, and so are their sums.
INLINE int write_results(scheme down, scheme across, int is_limited, const float *products, int count,
                         float *const *places, const float *bias, float least, float most,
                         int out_channels) {
    const int height = results_of(down), width = results_of(across), side = points_of(across);
    const ptrdiff_t unit = (ptrdiff_t)count * round_up(out_channels, SLAB), number = count * SLAB;
    quad difference = {};  // NaN where a sum of results is not finite
    for (int j = 0; j < out_channels; j += 4) {
        const float *source = products + j % SLAB, *start = source + j / SLAB * number;
        const quad constant = is_limited ? load_bias(bias, j) : (quad){};
        quad lines[MOST_RESULTS * MOST_POINTS], sum = {};
        ONE_AT_A_TIME for (int k = 0; k < side; k++, start = next_matrix(start, unit + APART)) {
            // A column of numbers; line_at has rows.
            const int column = has_phases(across) ? smaller(k, FACTORS) : k, numbers = numbers_of(across, column);
            const ptrdiff_t slab = j / SLAB * number;
            quad points[MOST_POINTS];
            const float *place = start;
            if (has_phases(across))
                place = source + matrix_place(down, across, 0, column, unit, APART) + numbers * slab +
                        (k - column) * number;
            UNROLLED for (int i = 0; i < (has_phases(down) ? FACTORS : points_of(down)); i++) {
                points[i] = load_quad(place);
                place = next_matrix(place, side * unit + SIDE * APART);
            }
            if (has_phases(down)) {
                place = source + matrix_place(down, across, FACTORS, column, unit, APART) + 4 * numbers * slab +
                        4 * (k - column) * number;
                UNROLLED for (int i = FACTORS; i < MOST_POINTS; i++, place = next_matrix(place, number))
                    points[i] = load_quad(place);
            }
            if (down == ONE_ROW)
                lines[k] = points[0];
            else
                gather_results(down, points, lines + k, side);
        }
        ONE_AT_A_TIME for (int i = 0; i < height; i++) {
            quad results[MOST_RESULTS];
            gather_results(across, lines + side * i, results, 1);
            quad row = results[0];
            UNROLLED for (int k = 1; k < width; k++) row += results[k];
            sum += row;
            UNROLLED for (int k = 0; k < width; k++) {
                if (is_limited) results[k] = limited(results[k] + constant, least, most);
                store_quad(places[width * i + k] + j, results[k]);
            }
        }
        difference += sum - sum;
    }
    return difference[0] + difference[1] + difference[2] + difference[3] == 0;
}

// The results plus a bias for each channel, which may be absent, within limits. Pixels in the padding are zeros, and so
// NaN times an infinite cell, unless there is no padding but results of a convolution of which this is the gradient.
// scratch: channels zeros, weights, rows of tiles, products, some of them; see winograd_scratch.
INLINE void convolve_in_tiles(scheme down, scheme across, const float *x, const float *filter, float *out,
                              const window *w, const float *bias, float least, float most, int channels,
                              int out_channels, int is_gradient, float *scratch) {
    const int height = results_of(down), width = results_of(across);
    const int pixels_of_tile = pixels_of(down) * pixels_of(across);
    const int most_tiles = tiles_in_block(across, channels + out_channels);
    // Four numbers side by side are a line of the cache, of which STRIDED has too many to wait for the next tile.
    const int tiles_at_a_time = has_phases(across) ? GROUP : 1;
    const int result_rows = result_count(down, &w->height), result_columns = result_count(across, &w->width);
    const grid g = grid_of(down, across, w);
    const int tiles = w->batch * g.rows * g.columns;
    const int blocks = (tiles + most_tiles - 1) / most_tiles;  // of about the same size
    const ptrdiff_t matrix = (ptrdiff_t)channels * out_channels + APART;
    float *weights = scratch + channels, *rows = weights + weights_of(down) * weights_of(across) * matrix;
    float *products = rows + size_of_matrices(down, across, (ptrdiff_t)most_tiles * channels);
    float *some =
        products + size_of_matrices(down, across, (ptrdiff_t)most_tiles * round_up(out_channels, SLAB));
    memset(scratch, 0, channels * sizeof *scratch);
    transform_filters(down, across, filter, (ptrdiff_t)channels * out_channels, weights, matrix);
    const int is_limited = bias || least > -INFINITY || most < INFINITY;
    const float *pixels[MOST_TILES * SIDE * SIDE];
    static_assert(TILES_OF_PHASES * MOST_PIXELS * MOST_PIXELS <= MOST_TILES * SIDE * SIDE);
    corner corners[MOST_TILES], next = {};
    for (int block = 0, done = 0, count; block < blocks; block++, done += count) {
        count = smaller(round_up((tiles - done) / (blocks - block), 8), tiles - done);
        const ptrdiff_t unit = (ptrdiff_t)count * channels;
        const ptrdiff_t of_products = (ptrdiff_t)count * round_up(out_channels, SLAB);
        const tile_order order = order_tiles(down, across, w, g, count, &next, corners);
        const int *starts = order.starts;
        for (int t = 0; t < count; t++)
            find_pixels(down, across, w, x, channels, scratch, corners[t], pixels + t * pixels_of_tile);
        for (int t = 0; t < count; t += tiles_at_a_time)
            for (int k = 0; k < channels; k += GROUP)
                for (int u = t; u < smaller(t + tiles_at_a_time, count); u++) {
#define TRANSFORM(points_down, points_across)                                                      \
    transform_pixels(down, across, w, pixels + u * pixels_of_tile, k,                              \
                     rows + u * GROUP + (has_phases(across) ? 0 : k * count), unit, APART,         \
                     count * GROUP, has_phases(across) ? k * count : 0, points_down, points_across)
                    if (u >= starts[1] && u < starts[2])
                        TRANSFORM(points_of(down), points_of(across));
                    else
                        TRANSFORM(u < starts[2] ? points_of(down) : order.points_down,
                                  u < starts[1] || u >= starts[3] ? order.points_across : points_of(across));
                }
        EACH_WEIGHT(down, across, {
            const int is_whole_down = i >= order.points_down, is_whole_across = j >= order.points_across;
            multiply_channels(rows + matrix_place(down, across, i, j, unit, APART), weights + (i * SIDE + j) * matrix,
                              products + matrix_place(down, across, i, j, of_products, APART), some,
                              numbers * (is_whole_across ? starts[1] : 0),
                              numbers * (is_whole_down ? starts[2] : is_whole_across ? starts[3] : count), numbers * count,
                              out_channels, channels);
        })
        for (int t = 0; t < count; t++) {
            const corner c = corners[t];
            const ptrdiff_t line = (ptrdiff_t)c.image * result_rows + c.row;
            float *target = out + (line * result_columns + c.column) * out_channels;
            float *places[MOST_RESULTS * MOST_RESULTS];
            for (int i = 0; i < height; i++) {
                const int y = result_place(down, &w->height, i), columns = c.row + y < result_rows ? result_columns : 0;
                float *first = target + y * (ptrdiff_t)result_columns * out_channels;
                for (int j = 0; j < width; j++) {
                    const int z = result_place(across, &w->width, j);
                    places[width * i + j] = c.column + z < columns ? first + z * out_channels : some;
                }
            }
            const float *source = products + t * SLAB;
#define WRITE(is_limited)                                                                          \
    write_results(down, across, is_limited, source, count, places, bias, least, most, out_channels)
            if (is_limited ? WRITE(1) : WRITE(0)) continue;
            for (int i = 0; i < height * width; i++)
                if (places[i] != some)
                    convolve_pixel(w, down, across, pixels + t * pixels_of_tile, filter, is_gradient ? scratch : 0,
                                   bias, least, most, i / width, i % width, channels, out_channels, places[i]);
        }
    }
}

// A function for each scheme, of which wasmtime keeps more in registers than of a function with all.
#define TILED(down, across)                                                                        \
    ONCE static void convolve_##down##_##across(                                                   \
        const float *x, const float *filter, float *out, const window *w, const float *bias,       \
        float least, float most, int out_channels, int is_gradient, float *scratch) {              \
        convolve_in_tiles(down, across, x, filter, out, w, bias, least, most, w->channels,         \
                          out_channels, is_gradient, scratch);                                     \
    }
EACH_SCHEME(TILED)

KERNEL(convolution_winograd_float32)(const float *x, const float *filter, float *out,
                                     const window *w, const float *bias, float least, float most,
                                     int out_channels, int is_gradient, float *scratch) {
#define CONVOLVE(down, across)                                                                     \
    if (scheme_of(&w->height) == down && scheme_of(&w->width) == across)                           \
        convolve_##down##_##across(x, filter, out, w, bias, least, most, out_channels, is_gradient, scratch);
    EACH_SCHEME(CONVOLVE)
}

// The gradient of STRIDED with respect to the images; the filters are turned.
KERNEL(convolution_winograd_input_gradient_float32)(const float *dy, const float *filter, float *dx, const window *w,
                                                    int out_channels, float *scratch) {
    convolve_in_tiles(REVERSED, REVERSED, dy, filter, dx, w, NULL, -INFINITY, INFINITY, out_channels, w->channels, 1,
                      scratch);
}

static inline int64_t scratch_of(scheme down, scheme across, int channels, int out_channels) {
    const int tiles = tiles_in_block(across, channels + out_channels), slabs = round_up(out_channels, SLAB);
    const int most_rows = tiles * numbers_of(down, FACTORS) * numbers_of(across, FACTORS);
    return channels + weights_of(down) * weights_of(across) * ((int64_t)channels * out_channels + APART) +
           size_of_matrices(down, across, (ptrdiff_t)tiles * channels) +
           size_of_matrices(down, across, (ptrdiff_t)tiles * slabs) + most_rows * slabs;
}
EXPORTED(winograd_scratch) int64_t winograd_scratch(const window *w, int out_channels) {
    return scratch_of(scheme_of(&w->height), scheme_of(&w->width), w->channels, out_channels);
}
EXPORTED(winograd_input_gradient_scratch) int64_t winograd_input_gradient_scratch(const window *w, int out_channels) {
    return scratch_of(REVERSED, REVERSED, out_channels, w->channels);
}
