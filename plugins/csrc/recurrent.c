// Cells of recurrent networks: the activations of the gates and the next state in one pass, and their gradients.
#include "common.h"

#define PART 256  // units whose gates stay in the cache

void sigmoid_float32(const float *x, float *out, int count);
void tanh_float32(const float *x, float *out, int count);

// What comes before a gradient is computed again: it takes less time than to store and to read it.
typedef struct {
    float i[PART], f[PART], g[PART], o[PART], c[PART];
} open_lstm;

// The gates of n <= PART units, and the next memory.
static void open_lstm_gates(const float *gates, const float *c, open_lstm *y, int n,
                            ptrdiff_t units) {
    sigmoid_float32(gates, y->i, n);
    sigmoid_float32(gates + units, y->f, n);
    tanh_float32(gates + 2 * units, y->g, n);
    sigmoid_float32(gates + 3 * units, y->o, n);
    for (int k = 0; k < n; k++) y->c[k] = y->f[k] * c[k] + y->i[k] * y->g[k];
}

KERNEL(lstm_cell_float32)(const float *gates, const float *c, float *restrict h,
                          float *restrict next_c, int rows, int units) {
    for (int row = 0; row < rows; row++, gates += 3 * (ptrdiff_t)units)
        for (int n, j = 0; j < units; j += n, gates += n, c += n, h += n, next_c += n) {
            open_lstm y;
            n = smaller(PART, units - j);
            open_lstm_gates(gates, c, &y, n, units);
            memcpy(next_c, y.c, n * sizeof *c);
            tanh_float32(y.c, y.g, n);
            for (int k = 0; k < n; k++) h[k] = y.o[k] * y.g[k];
        }
}

KERNEL(lstm_cell_gradient_float32)(const float *restrict dh, const float *restrict dc,
                                   const float *gates, const float *restrict c,
                                   float *restrict d_gates, float *restrict d_c, int rows,
                                   int units) {
    const ptrdiff_t w = units;
    for (int row = 0; row < rows; row++, gates += 3 * w, d_gates += 3 * w)
        for (int n, j = 0; j < units; j += n, gates += n, d_gates += n) {
            open_lstm y;
            n = smaller(PART, units - j);
            open_lstm_gates(gates, c, &y, n, w);
            tanh_float32(y.c, y.c, n);
            for (int k = 0; k < n; k++) {
                const float t = y.c[k], i = y.i[k], f = y.f[k], g = y.g[k], o = y.o[k];
                const float d = dc[k] + dh[k] * o * (1 - t * t);
                d_gates[k] = d * g * i * (1 - i);
                d_gates[w + k] = d * c[k] * f * (1 - f);
                d_gates[2 * w + k] = d * i * (1 - g * g);
                d_gates[3 * w + k] = dh[k] * t * o * (1 - o);
                d_c[k] = d * f;
            }
            c += n, dh += n, dc += n, d_c += n;
        }
}

typedef struct {
    float z[PART], r[PART], g[PART];
} open_gru;

static void open_gru_gates(const float *x, const float *s, open_gru *y, int n, ptrdiff_t units) {
    for (int k = 0; k < n; k++) {
        y->z[k] = x[k] + s[k];
        y->r[k] = x[units + k] + s[units + k];
    }
    sigmoid_float32(y->z, y->z, n);
    sigmoid_float32(y->r, y->r, n);
    for (int k = 0; k < n; k++) y->g[k] = x[2 * units + k] + y->r[k] * s[2 * units + k];
    tanh_float32(y->g, y->g, n);
}

KERNEL(gru_cell_float32)(const float *x, const float *s, const float *h, float *restrict next_h,
                         int rows, int units) {
    for (int row = 0; row < rows; row++, x += 2 * (ptrdiff_t)units, s += 2 * (ptrdiff_t)units)
        for (int n, j = 0; j < units; j += n, x += n, s += n, h += n, next_h += n) {
            open_gru y;
            n = smaller(PART, units - j);
            open_gru_gates(x, s, &y, n, units);
            for (int k = 0; k < n; k++) next_h[k] = y.z[k] * h[k] + (1 - y.z[k]) * y.g[k];
        }
}

KERNEL(gru_cell_gradient_float32)(const float *restrict dy, const float *x, const float *s,
                                  const float *restrict h, float *restrict d_x,
                                  float *restrict d_s, float *restrict d_h, int rows, int units) {
    const ptrdiff_t w = units;
    for (int row = 0; row < rows; row++, x += 2 * w, s += 2 * w, d_x += 2 * w, d_s += 2 * w)
        for (int n, j = 0; j < units; j += n, x += n, s += n, d_x += n, d_s += n) {
            open_gru y;
            n = smaller(PART, units - j);
            open_gru_gates(x, s, &y, n, w);
            for (int k = 0; k < n; k++) {
                const float z = y.z[k], r = y.r[k], g = y.g[k];
                const float dg = dy[k] * (1 - z) * (1 - g * g);
                d_x[k] = d_s[k] = (dy[k] * h[k] - dy[k] * g) * z * (1 - z);
                d_x[w + k] = d_s[w + k] = dg * s[2 * w + k] * r * (1 - r);
                d_x[2 * w + k] = dg;
                d_s[2 * w + k] = dg * r;
                d_h[k] = dy[k] * z;
            }
            h += n, dy += n, d_h += n;
        }
}
