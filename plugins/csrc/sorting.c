// The order of rows: a stable radix sort of keys that are ordered like the elements; and searches.
//
// An entry has a word of the key in its upper half and the position in its lower half. Wide elements
// have several words and are sorted by the lowest one first.
#include "common.h"

#define DIGITS 4  // of a word, 8 bits each
#define FEW 32    // so many are sorted by insertion
#define SIGN 0x80000000u

static inline uint64_t entry(uint32_t key, int position) {
    return (uint64_t)key << 32 | (uint32_t)position;
}

static void insertion_sort(uint64_t *entries, int count) {
    for (int i = 1; i < count; i++) {
        const uint64_t moved = entries[i];
        int j = i;
        for (; j > 0 && entries[j - 1] >> 32 > moved >> 32; j--) entries[j] = entries[j - 1];
        entries[j] = moved;
    }
}

// Sort by the upper halves; return where the result is, which is one of the two arrays.
static uint64_t *sort_entries(uint64_t *entries, uint64_t *spare, int count) {
    if (count <= FEW) {
        insertion_sort(entries, count);
        return entries;
    }
    int counts[DIGITS][256] = {};
    for (int i = 0; i < count; i++)
        for (int digit = 0; digit < DIGITS; digit++)
            counts[digit][entries[i] >> (32 + 8 * digit) & 255]++;
    for (int digit = 0; digit < DIGITS; digit++) {
        const int shift = 32 + 8 * digit;
        int *places = counts[digit];
        if (places[entries[0] >> shift & 255] == count) continue;  // all have the same digit
        for (int i = 0, next = 0; i < 256; i++) {
            const int first = next;
            next += places[i];
            places[i] = first;
        }
        for (int i = 0; i < count; i++) spare[places[entries[i] >> shift & 255]++] = entries[i];
        uint64_t *const sorted = spare;
        spare = entries;
        entries = sorted;
    }
    return entries;
}

// Keep the entries that can be among the first `kept`, by the first bits of their keys; return how
// many there are. Sorting all would take ten times as long.
#define LEADING 11

static int select_entries(uint64_t *entries, int count, int kept) {
    int counts[1 << LEADING] = {};
    for (int i = 0; i < count; i++) counts[entries[i] >> (64 - LEADING)]++;
    uint64_t last = 0;
    for (int found = counts[0]; found < kept; found += counts[last]) last++;
    int selected = 0;
    for (int i = 0; i < count; i++) {
        entries[selected] = entries[i];
        selected += entries[i] >> (64 - LEADING) <= last;
    }
    return selected;
}

// ---- keys: one word of the element at a place; NaN is the largest, and -0 equals 0 ----

static inline uint32_t key_of_float(uint32_t bits) {
    if ((bits & ~SIGN) > 0x7f800000) return UINT32_MAX;
    return bits == SIGN ? SIGN : bits & SIGN ? ~bits : bits | SIGN;
}

static inline uint64_t key_of_double(uint64_t bits) {
    const uint64_t sign = 1ull << 63;
    if ((bits & ~sign) > 0x7ff0000000000000) return UINT64_MAX;
    return bits == sign ? sign : bits & sign ? ~bits : bits | sign;
}

static inline uint32_t key_of_half(uint32_t bits) {
    if ((bits & 0x7fff) > 0x7c00) return UINT16_MAX;
    return bits == 0x8000 ? 0x8000 : bits & 0x8000 ? bits ^ 0xffff : bits | 0x8000;
}

// `flip` inverts the order.
typedef void (*keys)(const void *row, uint64_t *entries, int count, int word, uint32_t flip);

// Natively, a sample of a long row gives a bound that few elements exceed, but more than are asked
// for, as a rule; a scan in vectors finds them. `above` returns how many it found.
typedef int (*above)(const void *row, uint64_t *entries, int count, int kept);
#ifdef __wasm__
#define ABOVE(dtype, type, words)
#define ABOVE_OF(dtype) 0
#else
#define LEAST_COUNT 512
#define SAMPLE 512
#define LEAST_OF_SAMPLE 8  // elements of the sample that the bound lets through, or more
#define MOST_OF_SAMPLE 32
#define AT_ONCE 32
#define ABOVE_OF(dtype) above_##dtype
#define ABOVE(dtype, type, words)                                                                  \
    static inline uint64_t whole_key_##dtype(type x) {                                             \
        return words == 1 ? key_##dtype(x, 0)                                                      \
                          : (uint64_t)key_##dtype(x, 1) << 32 | key_##dtype(x, 0);                 \
    }                                                                                              \
    static int above_##dtype(const void *values, uint64_t *entries, int count, int kept) {         \
        typedef typeof((words) == 1 ? (uint32_t)0 : (uint64_t)0) whole;                            \
        const type *row = values;                                                                  \
        const ptrdiff_t size = smaller(SAMPLE, count / 8);                                         \
        const ptrdiff_t passed = size * kept * 3 / 2 / count + LEAST_OF_SAMPLE;                    \
        if (words > 2 || count < LEAST_COUNT || passed > MOST_OF_SAMPLE) return 0;        \
        uint64_t top[MOST_OF_SAMPLE] = {}; /* the largest of the sample, in order */               \
        for (int i = 0; i < size; i++) {                                                           \
            const uint64_t key = whole_key_##dtype(row[i * count / size]);                         \
            int place = passed - 1;                                                                \
            if (key <= top[place]) continue;                                                       \
            for (; place > 0 && top[place - 1] < key; place--) top[place] = top[place - 1];        \
            top[place] = key;                                                                      \
        }                                                                                          \
        const whole bound = top[passed - 1];                                                       \
        int found = 0, i = 0;                                                                      \
        for (; i + AT_ONCE <= count; i += AT_ONCE) {                                               \
            int is_any = 0;                                                                        \
            for (int j = 0; j < AT_ONCE; j++)                                                      \
                is_any |= (whole)whole_key_##dtype(row[i + j]) > bound;                            \
            for (int j = 0; is_any && j < AT_ONCE; j++) {                                          \
                entries[found] = i + j;                                                            \
                found += (whole)whole_key_##dtype(row[i + j]) > bound;                             \
            }                                                                                      \
        }                                                                                          \
        for (; i < count; i++)                                                                     \
            if ((whole)whole_key_##dtype(row[i]) > bound) entries[found++] = i;                    \
        return found;                                                                              \
    }
#endif

#define KEYS(dtype, type, key)                                                                     \
    static inline uint32_t key_##dtype(type x, [[maybe_unused]] int word) { return key; }          \
    static void keys_##dtype(const void *row, uint64_t *entries, int count, int word,              \
                             uint32_t flip) {                                                      \
        for (int i = 0; i < count; i++) {                                                          \
            const int place = (int)entries[i];                                                     \
            entries[i] = entry(key_##dtype(((const type *)row)[place], word) ^ flip, place);       \
        }                                                                                          \
    }

// For each value, the number of elements of the sorted row that are smaller, or also equal.
#define SEARCH(dtype, type, words)                                                                 \
    static inline int is_before_##dtype(type a, type b, int or_equal) {                            \
        for (int word = words - 1; word >= 0; word--) {                                            \
            const uint32_t left = key_##dtype(a, word), right = key_##dtype(b, word);              \
            if (left != right) return left < right;                                                \
        }                                                                                          \
        return or_equal;                                                                           \
    }                                                                                              \
    KERNEL(search_sorted_##dtype)(const type *sorted, const type *values, int32_t *out, int rows,  \
                                  int length, int count, int or_equal) {                           \
        for (; rows > 0; rows--, sorted += length)                                                 \
            for (int i = 0; i < count; i++, values++) {                                            \
                int first = 0;                                                                     \
                for (int size = length; size > 0;) {                                               \
                    const int half = size / 2;                                                     \
                    const int after = is_before_##dtype(sorted[first + half], *values, or_equal);  \
                    first = after ? first + half + 1 : first;                                      \
                    size = after ? size - half - 1 : half;                                         \
                }                                                                                  \
                *out++ = first;                                                                    \
            }                                                                                      \
    }

// The positions of the first `kept` elements in order, or in the order of x if not `is_sorted`.
// scratch has two entries for each element of a row.
static void argsort(keys find, above find_above, const char *x, int32_t *out, uint64_t *scratch,
                    int rows, int count, int kept, int descending, int is_sorted, int item_size,
                    int words) {
    for (; rows > 0; rows--, x += (ptrdiff_t)count * item_size, out += kept) {
        const uint32_t flip = descending ? UINT32_MAX : 0;
        uint64_t *entries = scratch;
        int selected = descending && find_above ? find_above(x, entries, count, kept) : 0;
        if (selected < kept) {
            for (int i = 0; i < count; i++) entries[i] = i;
            selected = count;
        }
        if (kept < count && selected == count) {
            find(x, entries, count, words - 1, flip);
            selected = select_entries(entries, count, kept);
        }
        for (int word = 0; word < words; word++) {
            find(x, entries, selected, word, flip);
            uint64_t *const spare = entries == scratch ? scratch + count : scratch;
            entries = sort_entries(entries, spare, selected);
        }
        if (!is_sorted) {
            for (int i = 0; i < kept; i++) entries[i] = entry(entries[i], (int)entries[i]);
            uint64_t *const spare = entries == scratch ? scratch + count : scratch;
            entries = sort_entries(entries, spare, kept);
        }
        for (int i = 0; i < kept; i++) out[i] = (int32_t)entries[i];
    }
}

#define ARGSORT(dtype, type, words, key)                                                           \
    KEYS(dtype, type, key)                                                                         \
    SEARCH(dtype, type, words)                                                                     \
    ABOVE(dtype, type, words)                                                                      \
    KERNEL(argsort_##dtype)(const char *x, int32_t *out, int rows, int count, int kept,            \
                            int descending, int is_sorted, uint64_t *scratch) {                    \
        argsort(keys_##dtype, ABOVE_OF(dtype), x, out, scratch, rows, count, kept, descending,     \
                is_sorted, sizeof(type), words);                                                   \
    }

ARGSORT(float16, uint16_t, 1, key_of_half(x))
ARGSORT(float32, uint32_t, 1, key_of_float(x))
ARGSORT(float64, uint64_t, 2, key_of_double(x) >> 32 * word)
ARGSORT(int8, int8_t, 1, (uint32_t)x ^ SIGN)
ARGSORT(int16, int16_t, 1, (uint32_t)x ^ SIGN)
ARGSORT(int32, int32_t, 1, (uint32_t)x ^ SIGN)
ARGSORT(int64, int64_t, 2, ((uint64_t)x ^ 1ull << 63) >> 32 * word)
ARGSORT(uint8, uint8_t, 1, x)
ARGSORT(uint16, uint16_t, 1, x)
ARGSORT(uint32, uint32_t, 1, x)
ARGSORT(uint64, uint64_t, 2, x >> 32 * word)

// Complex numbers with NaN in the imaginary part follow those without, and then come those with NaN
// in the real part; the real part is the lower half in memory.
static inline uint32_t key_of_complex(uint64_t x, int word) {
    const uint32_t real = key_of_float((uint32_t)x), imaginary = key_of_float((uint32_t)(x >> 32));
    if (word < 2) return word == 0 ? imaginary : real;
    return (real == UINT32_MAX) << 1 | (imaginary == UINT32_MAX);
}
ARGSORT(complex64, uint64_t, 3, key_of_complex(x, word))

#ifdef __wasm__
// The same of doubles, whose keys have two words.
static inline uint32_t key_of_wide_complex(uint128 x, int word) {
    const uint64_t real = key_of_double((uint64_t)x), imaginary = key_of_double((uint64_t)(x >> 64));
    if (word < 4) return (word < 2 ? imaginary : real) >> 32 * (word % 2);
    return (real == UINT64_MAX) << 1 | (imaginary == UINT64_MAX);
}
ARGSORT(complex128, uint128, 5, key_of_wide_complex(x, word))
#endif
