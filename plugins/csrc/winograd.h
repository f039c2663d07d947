// Tiles of convolutions with fewer products, in WebAssembly: what the results and the gradients of filters share. Lavin
// and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
//
// The pixels that the results of a tile depend on, and the filter, become numbers whose products give the results. Over
// all channels, they are a matrix product for each number of a filter. The transforms subtract pixels from each other,
// so rounding errors are relative to the largest pixel of the neighbourhood, and an infinite pixel spoils the results
// next to it: tiles with a result that is not finite are computed again, by the definition.
//
// Results, cells and pixels are the coefficients of polynomials; the numbers are values of these at some points and at
// infinity.
#pragma once

#include <math.h>

#include "gemm.h"
#include "window.h"

// What the numbers of a tile are, along an axis.
typedef enum {
    ONE_ROW,  // of a filter with a single row: no transform
    THREE,    // cells in steps of one pixel, F(4, 3): 6 pixels, 4 results. Where cells are `dilation` pixels apart, so are
              // the results of a tile and the pixels that they depend on
    FIVE,     // F(2, 5): 6 pixels, 2 results
    STRIDED,  // three cells in steps of two pixels: 9 pixels, 4 results. Even pixels meet the outer cells, F(4, 2),
              // and odd pixels the middle cell, without a transform
    REVERSED  // the gradient of STRIDED with respect to the images: 5 of the given gradients, 8 results, four of which
              // meet the outer cells
} scheme;

#define MOST_PIXELS 9   // of a tile along an axis
#define MOST_POINTS 9
#define MOST_CELLS 5    // of a filter
#define MOST_RESULTS 8  // of a tile
#define SIDE 6          // numbers of a filter
#define FACTORS 5       // the first numbers of STRIDED and REVERSED; the last number of a filter is for all others
#define LEAST_TILES 32  // of a block, whose transforms stay in the cache
#define MOST_TILES 64
#define TILES_OF_PHASES 16
#define CHANNELS_OF_BLOCK 4096
#define APART 16        // numbers between matrices, which would compete for the same lines of the cache
#define ONE_AT_A_TIME _Pragma("nounroll")  // so that what is in between is in memory, and constants in registers
#define INLINE static inline __attribute__((always_inline))

// The points: with these, rounding errors are two to three times those of the definition, where 1 and 2, which
// are usual, have five times; without the point 0, which F(4, 2) needs not, half as much again.
#define A 0.75f
#define B 1.5f
#define C 0.375f
#define D 1.125f

INLINE int has_phases(scheme s) { return s == STRIDED || s == REVERSED; }
INLINE int cells_of(scheme s) { return s == ONE_ROW ? 1 : s == FIVE ? 5 : 3; }
INLINE int pixels_of(scheme s) { return s == ONE_ROW ? 1 : s == STRIDED ? 9 : s == REVERSED ? 5 : 6; }
INLINE int results_of(scheme s) { return s == ONE_ROW ? 1 : s == FIVE ? 2 : s == REVERSED ? 8 : 4; }
INLINE int points_of(scheme s) { return s == ONE_ROW ? 1 : has_phases(s) ? 9 : 6; }
INLINE int weights_of(scheme s) { return s == ONE_ROW ? 1 : SIDE; }

static inline scheme scheme_of(const axis *a) {
    return a->filter == 1 ? ONE_ROW : a->filter == 5 ? FIVE : a->stride == 2 ? STRIDED : THREE;
}

// The tiles of a block, whose rows have so many channels on both sides.
static inline int tiles_in_block(scheme s, int channels) {
    const int tiles = smaller(CHANNELS_OF_BLOCK / channels / 8 * 8, MOST_TILES);
    return has_phases(s) ? TILES_OF_PHASES : tiles < LEAST_TILES ? LEAST_TILES : tiles;
}

// ---- transforms along an axis ----

// x - factor * y
INLINE quad minus_product(quad x, float factor, quad y) {
#ifdef __wasm_relaxed_simd__  // LLVM would keep the negative constant in another register
    return __builtin_wasm_relaxed_nmadd_f32x4(splat(factor), y, x);
#else
    return x - splat(factor) * y;
#endif
}

// The numbers of six pixels, with few constants, because there are few registers.
INLINE void combine_six(const quad *d, quad *out, int out_step) {
    const quad even = minus_product(d[4], B * B, d[2]), odd = minus_product(d[3], B * B, d[1]);
    out[0] = minus_product(even, A * A, minus_product(d[2], B * B, d[0]));
    out[out_step] = multiply_add(splat(A), odd, even);
    out[2 * out_step] = minus_product(even, A, odd);
    out[5 * out_step] = minus_product(minus_product(d[5], B * B, d[3]), A * A, odd);
    const quad even_b = minus_product(d[4], A * A, d[2]), odd_b = minus_product(d[3], A * A, d[1]);
    out[3 * out_step] = multiply_add(splat(B), odd_b, even_b);
    out[4 * out_step] = minus_product(even_b, B, odd_b);
}

// Six pixels of a tile at the end of an image, which has fewer results than others and so needs no numbers from `points`
// on. Pixels that no result depends on may be any, and are chosen such that number 4 is 0; number 5 would be with the last one.
INLINE void complete_six(quad *d, int points) {
    if (points > 4) return;
    if (points == 3) d[3] = d[1] * (A * A);
    d[4] = multiply_add(splat(B), minus_product(d[3], A * A, d[1]), d[2] * (A * A));
}

// The FACTORS numbers of five pixels.
INLINE void combine_five(const quad *d, quad *out, int out_step) {
    const quad even = minus_product(d[2], D * D, d[0]), odd = minus_product(d[3], D * D, d[1]);
    out[0] = multiply_add(splat(C), even, odd);
    out[out_step] = minus_product(odd, C, even);
    out[4 * out_step] = minus_product(minus_product(d[4], D * D, d[2]), C * C, even);
    const quad even_d = minus_product(d[2], C * C, d[0]), odd_d = minus_product(d[3], C * C, d[1]);
    out[2 * out_step] = multiply_add(splat(D), even_d, odd_d);
    out[3 * out_step] = minus_product(odd_d, D, even_d);
}

// The values of a polynomial of `count` coefficients, from 2 to 5, at the points. The point 0 is that of SIDE numbers.
INLINE void evaluate(int has_zero, const quad *c, int count, int step, quad *out, int out_step) {
    if (has_zero) out[0] = c[0], out += out_step;
    for (int i = 0; i < 2; i++) {
        const float point = has_zero ? (i ? B : A) : i ? D : C;
        const int last = count - 1, even = last / 2 * 2, odd = last - 1 + last % 2;
        quad y = c[even * step], z = c[odd * step];
        for (int k = even - 2; k >= 0; k -= 2) y = multiply_add(y, splat(point * point), c[k * step]);
        for (int k = odd - 2; k >= 0; k -= 2) z = multiply_add(z, splat(point * point), c[k * step]);
        out[2 * i * out_step] = multiply_add(z, splat(point), y);
        out[(1 + 2 * i) * out_step] = minus_product(y, point, z);
    }
    out[4 * out_step] = c[(count - 1) * step];
}

// The transpose of it: `count` sums of the numbers at the points, each times a power of its point.
INLINE void gather_powers(int has_zero, const quad *m, int step, int count, quad *out, int out_step) {
    const quad first = m[0];
    if (has_zero) m += step;
    quad sums[2] = {m[0] + m[step], m[0] - m[step]};
    quad far[2] = {m[2 * step] + m[3 * step], m[2 * step] - m[3 * step]};
    float near_power = 1, far_power = 1;
    for (int i = 0; i < count; i++, near_power *= has_zero ? A : C, far_power *= has_zero ? B : D) {
        quad y = i ? multiply_add(far[i % 2], splat(far_power), sums[i % 2] * splat(near_power))
                   : sums[0] + far[0];
        if (i == 0 && has_zero) y += first;
        if (i == count - 1) y += m[4 * step];
        out[i * out_step] = y;
    }
}

// The numbers of the cells of a filter, but for a factor.
INLINE void transform_cells(scheme s, const quad *c, int step, quad *out, int out_step) {
    if (!has_phases(s)) {
        evaluate(1, c, cells_of(s), step, out, out_step);
        return;
    }
    evaluate(0, c, 2, 2 * step, out, out_step);
    out[FACTORS * out_step] = c[step];
}

// The cells, of which the sums of the products with pixels, times those factors, are the gradient.
INLINE void gather_cells(scheme s, const quad *m, int step, quad *out, int out_step) {
    if (!has_phases(s)) {
        gather_powers(1, m, step, cells_of(s), out, out_step);
        return;
    }
    gather_powers(0, m, step, 2, out, 2 * out_step);
    out[out_step] = m[FACTORS * step];
}

// What the values of filters are divided by: the product of the differences of a point and all others.
static inline float divisor_of(scheme s, int i) {
    const float a = A * A, b = B * B, c = C * C, d = D * D;
    if (!has_phases(s)) return i == 0 ? a * b : i < 3 ? 2 * a * (a - b) : i < 5 ? 2 * b * (b - a) : 1;
    return i >= 4 ? 1 : (i % 2 ? -2 : 2) * (i < 2 ? C * (c - d) : D * (d - c));
}

static inline quad inverse_divisor(scheme down, scheme across, int i) {
    return splat(1 / ((down == ONE_ROW ? 1 : divisor_of(down, i / SIDE)) * divisor_of(across, i % SIDE)));
}

// The pixel that number FACTORS + i is. Whether the first result of REVERSED meets the middle cell depends on the padding.
INLINE int plain_pixel(scheme s, const axis *a, int i) {
    return s == STRIDED ? 2 * i + 1 : i + !(a->before & 1);
}

// How far a result is behind the first one of its tile.
INLINE int result_place(scheme s, const axis *a, int i) {
    if (s != REVERSED) return i * (s == STRIDED ? 1 : a->dilation);
    return i < 4 ? 2 * i + (a->before & 1) : 2 * (i - 4) + !(a->before & 1);
}

// The pixel that meets a cell in a result, or -1.
static inline int pixel_in_cell(scheme s, const axis *a, int result, int cell) {
    if (s == STRIDED) return 2 * result + cell;
    if (s != REVERSED) return result + cell;
    if (result < 4) return cell == 1 ? -1 : result + cell / 2;
    return cell == 1 ? plain_pixel(s, a, result - 4) : -1;
}

// ---- where the numbers of tiles are: all that meet the same number of a filter are side by side, as one matrix ----

// How many numbers of a tile meet number i of a filter, along an axis.
INLINE int numbers_of(scheme s, int i) { return has_phases(s) && i == FACTORS ? 4 : 1; }

// Where the matrix for number i, j of a filter begins, if each number of a tile takes `unit` floats.
INLINE ptrdiff_t matrix_place(scheme down, scheme across, int i, int j, ptrdiff_t unit, int apart) {
    return i * (points_of(across) * unit + SIDE * apart) + j * (numbers_of(down, i) * unit + apart);
}

static inline ptrdiff_t size_of_matrices(scheme down, scheme across, ptrdiff_t unit) {
    return points_of(down) * points_of(across) * unit + weights_of(down) * weights_of(across) * APART;
}

// Where the numbers of one row of a tile are: the first FACTORS, or SIDE, in a matrix each, the others in one, and how far
// they are apart.
typedef struct {
    ptrdiff_t regular, step, plain, plain_step;
} line;

// `number` is how far apart numbers in a matrix are, and `behind` what is before them there, for each number.
INLINE line line_at(scheme down, scheme across, int row, ptrdiff_t unit, int apart, ptrdiff_t number,
                    ptrdiff_t behind) {
    const int is_plain = has_phases(down) && row >= FACTORS, i = is_plain ? FACTORS : row;
    const int numbers = is_plain ? 4 : 1;
    return (line){
        matrix_place(down, across, i, 0, unit, apart) + numbers * behind + (row - i) * number,
        numbers * unit + apart,
        matrix_place(down, across, i, FACTORS, unit, apart) + 4 * numbers * behind + (row - i) * number,
        numbers * number,
    };
}

// Visit the numbers of a filter, each of which meets `numbers` of a tile.
#define EACH_WEIGHT(down, across, ...)                                                             \
    for (int i = 0; i < weights_of(down); i++)                                                     \
        for (int j = 0; j < weights_of(across); j++) {                                             \
            const int numbers = numbers_of(down, i) * numbers_of(across, j);                       \
            __VA_ARGS__                                                                            \
        }

// ---- where tiles are ----

typedef struct {
    int rows, columns;  // of tiles
} grid;

// Where a tile is: its image, its first result there, and how many tiles are above it and to its left.
typedef struct {
    int image, row, column;
    grid before;
} corner;

INLINE int pixel_count(scheme s, const axis *a) { return s == REVERSED ? a->out : a->size; }
INLINE int result_count(scheme s, const axis *a) { return s == REVERSED ? a->size : a->out; }

// As many tiles follow each other as there are pixels between two results of one.
static inline int count_tiles(scheme s, const axis *a) {
    const int length = results_of(s) * a->dilation;
    return (result_count(s, a) + length - 1) / length * a->dilation;
}

static inline grid grid_of(scheme down, scheme across, const window *w) {
    return (grid){count_tiles(down, &w->height), count_tiles(across, &w->width)};
}

static inline int first_result(scheme s, const axis *a, int tile) {
    return tile / a->dilation * results_of(s) * a->dilation + tile % a->dilation;
}

static inline int first_pixel(scheme s, const axis *a, int result) {
    if (s == REVERSED) return ((result + a->before + 1) >> 1) - 1;
    return result * (s == STRIDED ? 2 : 1) - a->before;
}

// How many points the tile with a first result needs: a number for each of its results and cells, but one.
INLINE int points_at(scheme s, const axis *a, int first) {
    if (a->dilation > 1 || has_phases(s)) return points_of(s);
    return smaller(result_count(s, a) - first, results_of(s)) + cells_of(s) - 1;
}

// The last pixel that counts: gradients behind it reach only the padding, and parts of the images do not have them.
INLINE int last_pixel(scheme s, const axis *a) {
    return s == REVERSED ? smaller(a->out - 1, (a->size - 1 + a->before) >> 1) : a->size - 1;
}

// The next tile. Divisions for each tile would take as long as its transforms.
INLINE corner next_corner(scheme down, scheme across, const window *w, grid g, corner c) {
    if (++c.before.columns < g.columns) {
        c.column += w->width.dilation == 1 ? results_of(across)
                                           : first_result(across, &w->width, c.before.columns) - c.column;
        return c;
    }
    c.before.columns = c.column = 0;
    if (++c.before.rows < g.rows) {
        c.row += w->height.dilation == 1 ? results_of(down)
                                         : first_result(down, &w->height, c.before.rows) - c.row;
        return c;
    }
    return (corner){c.image + 1, 0, 0, {0, 0}};
}

// The places of the pixels of a tile; `zeros` stands for those in the padding, and behind the last image. Addresses
// of a row are vectors, of which the last may overlap the one before.
INLINE void find_pixels(scheme down, scheme across, const window *w, const float *x, int channels,
                        const float *zeros, corner c, const float **pixels) {
    static_assert(sizeof(int_quad) == GROUP * sizeof *pixels);
    const int count = pixels_of(across), size = pixel_count(across, &w->width), height = pixel_count(down, &w->height);
    const int last_row = last_pixel(down, &w->height), last_column = last_pixel(across, &w->width);
    const int pixel = channels * (int)sizeof *x;
    const int_quad nowhere = (int)(intptr_t)zeros - (int_quad){};
    const int left = first_pixel(across, &w->width, c.column);
    int_quad columns[MOST_PIXELS / GROUP + 1], has_column[MOST_PIXELS / GROUP + 1];
    UNROLLED for (int j = 0; j < count; j += GROUP) {
        const int_quad at = left + (smaller(j, count - GROUP) + (int_quad){0, 1, 2, 3}) * w->width.dilation;
        has_column[j / GROUP] = (at >= 0) & (at <= last_column);
        columns[j / GROUP] = at * pixel;
    }
    for (int i = 0, y = first_pixel(down, &w->height, c.row); i < pixels_of(down); i++, y += w->height.dilation) {
        const int_quad found = -(c.image < w->batch && y >= 0 && y <= last_row) - (int_quad){};
        const int line = (int)(intptr_t)x + (c.image * height + y) * size * pixel;
        UNROLLED for (int j = 0; j < count; j += GROUP) {
            const int_quad is_pixel = found & has_column[j / GROUP];
            const int_quad places = (is_pixel & (line + columns[j / GROUP])) | (~is_pixel & nowhere);
            memcpy(pixels + count * i + smaller(j, count - GROUP), &places, sizeof places);
        }
    }
}

// The same place in a matrix that is `step` numbers behind. One address at a time takes one register; the compiler would
// keep all distances.
static inline float *next_matrix(const float *place, ptrdiff_t step) {
    place += step;
    __asm__("" : "+r"(place));
    return (float *)place;
}

// Transform a group of channels of the pixels of a tile, which needs only the first points. For the places of the
// results, see line_at.
INLINE void transform_pixels(scheme down, scheme across, const window *w, const float *const *pixels, int k,
                             float *out, ptrdiff_t unit, int apart, ptrdiff_t number, ptrdiff_t behind,
                             int points_down, int points_across) {
    const int width = pixels_of(across), regular = has_phases(across) ? FACTORS : SIDE;
    quad lines[MOST_POINTS * MOST_PIXELS];
    ONE_AT_A_TIME for (int j = 0; j < width; j++) {
        const float *const *column = pixels + j;
        quad d[SIDE];
        if (down == ONE_ROW) {
            lines[j] = load_quad(column[0] + k);
        } else if (!has_phases(down)) {
            UNROLLED for (int i = 0; i < SIDE; i++) d[i] = load_quad(column[width * i] + k);
            complete_six(d, points_down);
            combine_six(d, lines + j, width);
        } else {
            const int distance = down == STRIDED ? 2 : 1;
            UNROLLED for (int i = 0; i < FACTORS; i++) d[i] = load_quad(column[width * i * distance] + k);
            combine_five(d, lines + j, width);
            UNROLLED for (int i = 0; i < 4; i++)
                lines[(FACTORS + i) * width + j] =
                    load_quad(column[width * plain_pixel(down, &w->height, i)] + k);
        }
    }
    float *place = out;
    ONE_AT_A_TIME for (int i = 0; i < points_down; i++) {
        quad *source = lines + width * i;
        const line at = line_at(down, across, i, unit, apart, number, behind);
        quad points[SIDE], d[FACTORS];
        if (!has_phases(across)) {
            complete_six(source, points_across);
            combine_six(source, points, 1);
        } else {
            UNROLLED for (int j = 0; j < FACTORS; j++) d[j] = source[across == STRIDED ? 2 * j : j];
            combine_five(d, points, 1);
            place = out + at.regular;
        }
        UNROLLED for (int j = 0; j < regular; j++, place = next_matrix(place, at.step)) store_quad(place, points[j]);
        if (!has_phases(across)) continue;
        place = out + at.plain;
        UNROLLED for (int j = 0; j < 4; j++, place = next_matrix(place, at.plain_step))
            store_quad(place, source[plain_pixel(across, &w->width, j)]);
    }
}

static inline void add_numbers(float *sums, const float *numbers, int count) {
    for (int j = 0; j < count; j += 4)
        store_quad(sums + j, load_quad(sums + j) + load_quad(numbers + j));
}

// The schemes of filters that have tiles, down and across.
#define EACH_SCHEME(X)                                                                             \
    X(THREE, THREE) X(FIVE, FIVE) X(ONE_ROW, THREE) X(ONE_ROW, FIVE) X(STRIDED, STRIDED)
