// What the windows of a band of neighbouring pixels meet, where it is, or in a frame with zeros for the padding.
// A source that includes this defines ITEM, the type of what images hold.
#pragma once

#include "window.h"

#define BAND 256           // pixels whose results are computed at a time
#define LEAST_BAND 64      // also if their frame does not stay in the cache
#define FRAME_ITEMS 49152  // of a frame that does

// A window is `runs` runs of `length` numbers, `run_step` apart. Lines are the rows of all results.
typedef struct {
    const window *w;
    int runs, length;
    int lines, columns;  // of a full band
    int is_frame, blocks, block_columns;
    ptrdiff_t run_step, line_step;
} plan;

typedef struct {
    const ITEM *data;
    int pixels;
    int offsets[BAND];  // where the window of each pixel begins
} band;

// Whether the windows of an axis stay inside the image.
static int is_covered(const axis *a) {
    return a->before <= 0 &&
           start_of(a, a->out - 1) + (a->filter - 1) * a->dilation < a->size;
}

static plan plan_of(const window *w, int most) {
    const axis *width = &w->width;
    plan p = {.w = w};
    const int has_runs = width->filter == 1 || width->dilation == 1;
    p.is_frame = !(is_covered(&w->depth) && is_covered(&w->height) && is_covered(width) &&
                   w->depth.filter == 1 && has_runs);
    p.length = (has_runs ? width->filter : 1) * w->channels;
    p.runs = p.blocks = w->depth.filter * w->height.filter * (has_runs ? 1 : width->filter);
    if (p.is_frame) {
        const int64_t pixel = (int64_t)p.blocks * width->stride * w->channels;
        const int few = pixel > FRAME_ITEMS / LEAST_BAND ? LEAST_BAND : FRAME_ITEMS / pixel;
        most = smaller(most, few);
    }
    const int lines = w->batch * w->depth.out * w->height.out;
    p.columns = width->out;
    if (p.columns > most) {
        const int parts = ceil_divide(p.columns, most);
        p.columns = ceil_divide(p.columns, parts);
    }
    p.lines = smaller(lines, most / p.columns);
    p.line_step = (ptrdiff_t)(width->size) * w->channels;
    p.run_step = p.line_step * w->height.dilation;
    if (p.is_frame) {
        p.block_columns = (p.columns - 1) * width->stride + (has_runs ? width->filter : 1);
        p.line_step = (ptrdiff_t)p.block_columns * w->channels;
        p.run_step = p.line_step * p.lines;
    }
    return p;
}

// The row of the images that meets layer l and row i of the filter in a line; -1 if that is padding.
static inline ptrdiff_t row_of(const window *w, int line, int l, int i) {
    const int out_row = line % w->height.out, layers = line / w->height.out;
    const int layer = start_of(&w->depth, layers % w->depth.out) + l * w->depth.dilation;
    const int row = start_of(&w->height, out_row) + i * w->height.dilation;
    if (!is_inside(&w->depth, layer) || !is_inside(&w->height, row)) return -1;
    return ((ptrdiff_t)(layers / w->depth.out) * w->depth.size + layer) * w->height.size + row;
}

// Copy `count` cells of a row from `start` on, or zeros for those outside; `row` is NULL in the padding.
static void copy_cells(const window *w, const ITEM *row, int start, int count, ITEM *target) {
    const int size = w->width.size, channels = w->channels;
    const int first = !row || start >= size ? count : start < 0 ? smaller(-start, count) : 0;
    const int last = smaller(count, size - start) < first ? first : smaller(count, size - start);
    memset(target, 0, sizeof(ITEM) * first * channels);
    if (last > first)
        memcpy(target + (ptrdiff_t)first * channels, row + (ptrdiff_t)(start + first) * channels,
               sizeof(ITEM) * (last - first) * channels);
    memset(target + (ptrdiff_t)last * channels, 0, sizeof(ITEM) * (count - last) * channels);
}

// Find the windows of `columns` columns of `lines` lines.
static void find_band(const plan *p, const ITEM *x, int line, int lines, int column, int columns,
                      ITEM *frame, band *found) {
    const window *w = p->w;
    const axis *width = &w->width;
    const int step = width->stride * w->channels, start = start_of(width, column);
    found->data = p->is_frame ? frame : x;
    found->pixels = lines * columns;
    for (int i = 0; i < lines; i++) {
        ptrdiff_t offset = i * p->line_step;
        if (!p->is_frame)
            offset = row_of(w, line + i, 0, 0) * p->line_step + (ptrdiff_t)start * w->channels;
        for (int j = 0; j < columns; j++) found->offsets[i * columns + j] = offset + j * step;
    }
    if (!p->is_frame) return;
    const int cells = (columns - 1) * width->stride + p->length / w->channels;
    const int across = p->runs / (w->depth.filter * w->height.filter);  // runs in a row
    for (int run = 0; run < p->runs; run++)
        for (int i = 0; i < lines; i++) {
            const int row = run / across;
            const ptrdiff_t place =
                row_of(w, line + i, row / w->height.filter, row % w->height.filter);
            const ITEM *source = place < 0 ? NULL : x + place * width->size * w->channels;
            copy_cells(w, source, start + run % across * width->dilation, cells,
                       frame + run * p->run_step + i * p->line_step);
        }
}

#define EACH_BAND(p, x, frame)                                                                     \
    for (int line = 0, lines; line < line_count(p.w); line += lines)                               \
        for (int column = 0, columns; column < p.w->width.out; column += columns) {                \
            band cells;                                                                            \
            lines = smaller(p.lines, line_count(p.w) - line);                                      \
            columns = smaller(p.columns, p.w->width.out - column);                                 \
            find_band(&p, x, line, lines, column, columns, frame, &cells);                         \
            const ptrdiff_t first = (ptrdiff_t)line * p.w->width.out + column;

static inline int line_count(const window *w) { return w->batch * w->depth.out * w->height.out; }

static inline int64_t frame_size(const plan *p) {
    return p->is_frame ? (int64_t)p->run_step * p->runs : 0;
}
