// Random words by Philox 4x32-10 (Salmon and others, 2011), and pairs of normal numbers by the transformation of Box
// and Muller (1958). All begin at block `first` of a key and a counter: six words, lower ones first.
#include "common.h"

#pragma clang fp contract(off)  // all backends give the same bits

#define LONGS (LANES / 2)  // a vector of blocks has one of their words in each lane of 64 bits
#define VECTORS 4          // at a time, because a product takes longer than all else
#define BLOCKS (LONGS * VECTORS)
#define WORDS (4 * BLOCKS)
#define WORD_MASK 0xffffffffu

#if LANES == 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define LOW_LONGS 0, 2
#define HIGH_LONGS 1, 3
#define COUNTED 0, 1
#elif LANES == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_LONGS 0, 4, 1, 5
#define HIGH_LONGS 2, 6, 3, 7
#define COUNTED 0, 1, 2, 3
#else
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_LONGS 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_LONGS 4, 12, 5, 13, 6, 14, 7, 15
#define COUNTED 0, 1, 2, 3, 4, 5, 6, 7
#endif

typedef struct {
    uint32_t key[2];
    uint64_t low, high;  // the counter
} stream;

// The stream of a state, `first` numbers of its counter later.
static inline stream read_stream(const int32_t *state, int first) {
    stream s;
    memcpy(s.key, state, sizeof s.key);
    memcpy(&s.low, state + 2, sizeof s.low);
    memcpy(&s.high, state + 4, sizeof s.high);
    s.low += (uint64_t)first;
    s.high += s.low < (uint64_t)first;
    return s;
}

// Write the words of some blocks, and move the stream behind them.
static inline void write_blocks(stream *s, uint32_t *words) {
    unsigned_longs x[2][VECTORS], y[2][VECTORS];
    UNROLLED for (int v = 0; v < VECTORS; v++) {
        const unsigned_longs low = (unsigned_longs){COUNTED} + (s->low + (uint64_t)(v * LONGS));
        const unsigned_longs start = (unsigned_longs){} + s->low;
        const unsigned_longs high = s->high - (unsigned_longs)(low < start);  // a true mask is -1
        x[0][v] = low, y[0][v] = low >> 32, x[1][v] = high, y[1][v] = high >> 32;
    }
    uint32_t left = s->key[0], right = s->key[1];
    for (int round = 0; round < 10; round++) {
        // Only the lower halves of x and y count.
        UNROLLED for (int v = 0; v < VECTORS; v++) {
            const unsigned_longs first = (x[0][v] & WORD_MASK) * 0xd2511f53u;
            const unsigned_longs second = (x[1][v] & WORD_MASK) * 0xcd9e8d57u;
            x[0][v] = second >> 32 ^ y[0][v] ^ left;
            x[1][v] = first >> 32 ^ y[1][v] ^ right;
            y[0][v] = second, y[1][v] = first;
        }
        left += 0x9e3779b9u, right += 0xbb67ae85u;
    }
    UNROLLED for (int v = 0; v < VECTORS; v++) {
        const unsigned_longs a = (x[0][v] & WORD_MASK) | y[0][v] << 32;
        const unsigned_longs b = (x[1][v] & WORD_MASK) | y[1][v] << 32;
        const unsigned_longs low = __builtin_shufflevector(a, b, LOW_LONGS);
        const unsigned_longs high = __builtin_shufflevector(a, b, HIGH_LONGS);
        memcpy(words + 4 * LONGS * v, &low, sizeof low);
        memcpy(words + 4 * LONGS * v + LANES, &high, sizeof high);
    }
    s->low += BLOCKS;
    s->high += s->low < BLOCKS;
}

KERNEL(random_bits)(const int32_t *state, uint32_t *out, int count, int first) {
    stream s = read_stream(state, first);
    int n = 0;
    for (; n + WORDS <= count; n += WORDS) write_blocks(&s, out + n);
    if (n < count) {
        uint32_t words[WORDS];
        write_blocks(&s, words);
        memcpy(out + n, words, (count - n) * sizeof *words);
    }
}

// ---- normal numbers ----

// All sums and products are rounded one by one, as in NumPy, so that all backends give the same bits. The polynomials
// are those of Cephes (Moshier, single precision).

// sqrt(-2 log(u)) for a number u between 0 and 1 in 31 bits.
static inline floats radius_of_words(unsigned_ints word) {
    const int root_half = 0x3f3504f3;
    const ints bits = (ints)__builtin_convertvector((ints)(word >> 1 | 1), floats) - root_half;
    const floats exponent = __builtin_convertvector(bits >> 23, floats) - 31.f;
    const floats x = (floats)((bits & 0x7fffff) + root_half) - 1.f, square = x * x;
    floats y = x * 7.0376836292e-2f + -1.1514610310e-1f;
    y = y * x + 1.1676998740e-1f;
    y = y * x + -1.2420140846e-1f;
    y = y * x + 1.4249322787e-1f;
    y = y * x + -1.6668057665e-1f;
    y = y * x + 2.0000714765e-1f;
    y = y * x + -2.4999993993e-1f;
    y = y * x + 3.3333331174e-1f;
    y = y * x * square;
    y += exponent * -2.12194440e-4f;
    y -= square * 0.5f;
    y += x;
    y += exponent * 0.693359375f;
    return __builtin_elementwise_sqrt(y * -2.f);
}

// Write the normal numbers of pairs of words.
static inline void write_pairs(const uint32_t *words, float *out) {
    UNROLLED for (int n = 0; n < WORDS; n += 2 * LANES) {
        unsigned_ints low, high;
        memcpy(&low, words + n, sizeof low);
        memcpy(&high, words + n + LANES, sizeof high);
        const unsigned_ints a = __builtin_shufflevector(low, high, EVEN);
        const unsigned_ints b = __builtin_shufflevector(low, high, ODD);
        const floats radius = radius_of_words(a);
        const floats angle = __builtin_convertvector((ints)(b << 2), floats) * 0x1.921fb6p-32f;
        const floats square = angle * angle;
        floats sine = square * -1.9515295891e-4f + 8.3321608736e-3f;
        sine = (sine * square + -1.6666654611e-1f) * square * angle + angle;
        floats cosine = square * 2.443315711809948e-5f + -1.388731625493765e-3f;
        cosine = (cosine * square + 4.166664568298827e-2f) * square * square;
        cosine = cosine - square * 0.5f + 1.f;
        const floats with_sign = (floats)((unsigned_ints)cosine ^ (b & 0x80000000u));
        const ints is_swapped = (ints)(b << 1) < 0;
        const floats x = radius * choose(is_swapped, sine, with_sign);
        const floats y = radius * choose(is_swapped, with_sign, sine);
        store(out + n, __builtin_shufflevector(x, y, LOW));
        store(out + n + LANES, __builtin_shufflevector(x, y, HIGH));
    }
}

KERNEL(random_normal_float32)(const int32_t *state, float *out, int count, int first) {
    stream s = read_stream(state, first);
    uint32_t words[WORDS];
    int n = 0;
    for (; n + WORDS <= count; n += WORDS) {
        write_blocks(&s, words);
        write_pairs(words, out + n);
    }
    if (n < count) {
        float numbers[WORDS];
        write_blocks(&s, words);
        write_pairs(words, numbers);
        memcpy(out + n, numbers, (count - n) * sizeof *numbers);
    }
}

#ifndef __wasm__
// ---- dropout: x / kept where a word, with its sign, is at most `most`, else 0 ----

#define DROPOUT(dtype, type)                                                                       \
    static inline void drop_##dtype(const uint32_t *words, const type *restrict x,                 \
                                    type *restrict out, int count, int most, type kept) {          \
        for (int i = 0; i < count; i++) out[i] = (int32_t)words[i] <= most ? x[i] / kept : 0;      \
    }                                                                                              \
    KERNEL(dropout_##dtype)(const int32_t *state, const type *restrict x, type *restrict out,      \
                            int count, int first, int most, type kept) {                           \
        stream s = read_stream(state, first);                                                      \
        uint32_t words[WORDS];                                                                     \
        int n = 0;                                                                                 \
        for (; n + WORDS <= count; n += WORDS) {                                                   \
            write_blocks(&s, words);                                                               \
            drop_##dtype(words, x + n, out + n, WORDS, most, kept);                                \
        }                                                                                          \
        if (n == count) return;                                                                    \
        write_blocks(&s, words);                                                                   \
        drop_##dtype(words, x + n, out + n, count - n, most, kept);                                \
    }
DROPOUT(float32, float)
DROPOUT(float64, double)
#endif
