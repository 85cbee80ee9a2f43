/* lbnn_int_linear.h: linear layers in integers, with means of 8 bits, or of 12 in int16_t.
 *
 *     lbnn_int_shared(layer, mean, sigma, from, spread)               what the variances of the weights are times of,
 *     lbnn_int_moments(layer, mean, sigma, from, scratch, spread)      where they are factors, and where they are free
 *     lbnn_int8_linear(layer, mean, sigma, from, spread, out, var, to)    narrow -> wide
 *     lbnn_int16_linear(layer, mean, sigma, from, spread, out, var, to)
 *
 *     E' = m sum(e w) + b,  V' = m^2 sum(((s w) >> bits)^2) + a B + c
 *
 * m, a, b, c belong to a row. B is sum(beta^2 S), S = E^2 + V, one for all rows, where the variances of the weights are
 * products of factors; where they are free it is sum(((u p + 128) >> 8)^2) with p = c sqrt(S).
 * Weights of 8 bits stand in pairs of rows: row 0 and 1 of input 0, row 0 and 1 of input 1, and so on; the last of an
 * odd number of rows alone. Inputs are filled up to an even number.
 */
#ifndef LBNN_INT_LINEAR_H
#define LBNN_INT_LINEAR_H

#include "lbnn_int.h"

#if defined(__ARM_FEATURE_SIMD32) && (defined(__GNUC__) || defined(__clang__)) && !defined(LBNN_NO_SIMD)
#if defined(__ARM_FEATURE_MVE)
#define LBNN_INT_HELIUM 1
#endif
#include <arm_acle.h>
#define LBNN_INT_DSP 1
#elif defined(__ARM_ARCH_ISA_THUMB) && __ARM_ARCH_ISA_THUMB == 2 && defined(__ARMEL__) && defined(__GNUC__) \
    && !defined(LBNN_NO_SIMD)
#define LBNN_INT_THUMB 1
#elif defined(__ARM_ARCH_6M__) && defined(__ARMEL__) && defined(__GNUC__) && !defined(__clang__) \
    && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__) && !defined(LBNN_NO_SIMD)
#define LBNN_INT_THUMB1 1
#endif
#if defined(LBNN_INT_THUMB1) && defined(LBNN_INT_NO_MAPS) && defined(LBNN_INT_NO_PAIRS)
#define LBNN_INT_BY_ROW 1 /* one row after the other: slower than pairs, and half of their code */
#define LBNN_INT_ROWS LBNN_SMALL
#else
#define LBNN_INT_ROWS LBNN_FAST
#endif
#if defined(LBNN_INT_THUMB1)
#define LBNN_INT_HOLD(x) (void)(x)
#else
#define LBNN_INT_HOLD(x) LBNN_HOLD(x) /* or gcc counts pairs of rows and computes anew what stands behind the last */
#endif

/* A layer. Numbers of a row are 7 words: m, m^2, a, c; shifts of m, a and c in 5 bits each, then the sign of m; then b,
 * the lower half first, whose 8 lowest bits are its shift. */
typedef struct {
    const int8_t *weight8;
    const int16_t *weight16;
    const uint8_t *free;     /* sigmas of the weights, or null */
    const uint16_t *columns; /* a factor for each input: an even number of them where variances are such products */
    const uint16_t *rows;
    int32_t in_len;
    int32_t out_len;
    uint16_t free_bits;
    int16_t column_exponent;
    int32_t scale_exponent;
    int32_t spread_exponent;
    int32_t bias_exponent;
    int32_t noise_exponent;
} lbnn_int_layer;

#define LBNN_INT_ROW 7

/* How far the parts of a layer's results move right to stand at its exponents. */
typedef struct {
    int32_t mean;
    int32_t bias;
    int32_t spread;
    int32_t shared;
    int32_t noise;
    int32_t some; /* 1 if the variance has any of its parts */
} lbnn_int_moves;

/* The exponents of a layer's results: the largest of those of their parts; that of variances, which have roots, even.
 * Those of nothing are sums of LBNN_INT_NONE and of others. */
LBNN_INLINE lbnn_int_moves lbnn_int_meet(int32_t mean, int32_t bias, int32_t spread, int32_t shared, int32_t noise,
                                         lbnn_int_scale *to)
{
    to->mean = lbnn_int_larger(mean, bias);
    to->var = (lbnn_int_larger(lbnn_int_larger(spread, shared), noise) + 1) & ~1;
    lbnn_int_moves d;
    d.mean = lbnn_int_apart(to->mean, mean);
    d.bias = lbnn_int_apart(to->mean, bias);
    d.spread = lbnn_int_apart(to->var, spread);
    d.shared = lbnn_int_apart(to->var, shared);
    d.noise = lbnn_int_apart(to->var, noise);
    d.some = lbnn_int_larger(lbnn_int_larger(spread, shared), noise) > LBNN_INT_NONE / 2;
    return d;
}

/* The shift of m in its row, at most 15. */
LBNN_INLINE int32_t lbnn_int_scale_shift(int32_t shifts)
{
    return shifts & 31;
}

/* A row, with its parts moved to the exponents of the layer's results: E' = m E + bias, V' = square V + a B + noise. */
typedef struct {
    int32_t m;
    int32_t square;
    int32_t a;
    int32_t by_mean;
    int32_t by_spread;
    int32_t by_shared;
    int32_t bias;
    int32_t noise;
} lbnn_int_row;

LBNN_INLINE lbnn_int_row lbnn_int_row_of(const uint16_t *row, const lbnn_int_moves *d)
{
    const int32_t shifts = row[4];
    const int32_t km = lbnn_int_scale_shift(shifts);
    const int32_t bias = LBNN_AS(int32_t, LBNN_AS(uint32_t, row[5]) | LBNN_AS(uint32_t, row[6]) << 16);
    lbnn_int_row r;
    r.m = row[0];
    r.square = row[1];
    r.a = row[2];
    r.by_mean = lbnn_int_by(km + d->mean);
    r.by_spread = lbnn_int_by(2 * km + d->spread);
    r.by_shared = lbnn_int_by(((shifts >> 5) & 31) + d->shared);
    r.bias = lbnn_int_far(bias >> 2, lbnn_int_by((bias & 31) + d->bias));
    r.noise = lbnn_int_far(LBNN_AS(int32_t, row[3]) << 12, lbnn_int_by(((shifts >> 10) & 31) + d->noise)) + d->some;
    return r;
}

LBNN_INLINE int32_t lbnn_int_row_mean(const lbnn_int_row *row, int32_t sum)
{
    return lbnn_int_far(lbnn_int_scaled(sum, row->m), row->by_mean) + row->bias;
}

/* Each part is rounded down, and `noise` has one more. */
LBNN_INLINE int32_t lbnn_int_row_var(const lbnn_int_row *row, int32_t spread, int32_t shared)
{
    return lbnn_int_far(lbnn_int_share(spread, row->square), row->by_spread)
         + lbnn_int_far(lbnn_int_share(shared, row->a), row->by_shared) + row->noise;
}

/* What the variances of the weights come to: B for all rows, or sums; their exponent is LBNN_INT_NONE where that is
 * nothing. */
typedef struct {
    const int32_t *sums; /* of each row of each pixel, or of each pixel; null where there is one sum, `shared` */
    int32_t shared;
    int32_t exponent;
    int each; /* whether a row has its own sum */
} lbnn_int_spread;

/* The same, where all layers of the model are so. */
LBNN_INLINE int lbnn_int_each(const lbnn_int_spread *spread)
{
    if (!LBNN_INT_HAS_FACTORS) {
        return 1;
    }
    return LBNN_INT_HAS_FREE + LBNN_INT_HAS_GROUPS > 0 ? spread->each : 0;
}

/* Weights that are known. */
LBNN_KERNEL LBNN_FAST void lbnn_int_no_spread(lbnn_int_spread *spread)
{
    const lbnn_int_spread none = {0, 0, LBNN_INT_NONE, 0};
    *spread = none;
}

#if defined(LBNN_INT_HELIUM)
/* A loop over words, four at a time, and of the last four those that there are: loads, products and sums of the others are
 * left out. Bytes and halfwords that stand beside words are loaded as such, since they need not lie at a word. */
#define LBNN_INT_WORDS "dlstp.32 lr, %[words]\n1:\n\t"
#define LBNN_INT_TAKEN "lr", "q0", "q1", "q2", "memory"
#elif defined(LBNN_INT_THUMB)
#define LBNN_INT_FACTOR                                                                            \
    "ldrsh %[e], [%[x]], #2\n\t"                                                                   \
    "ldrh %[b], [%[beta]], #2\n\t"                                                                 \
    "mla %[e], %[e], %[b], %[half]\n\t"                                                            \
    "asr %[e], %[e], #16\n\t"                                                                      \
    "mla %[sum], %[e], %[e], %[sum]\n\t"
#endif

/* sum(((x beta + 2^15) >> 16)^2), two inputs a word. */
LBNN_KERNEL LBNN_FAST int32_t lbnn_int_factored(const int32_t *x, const uint16_t *beta, int words)
{
    int32_t sum = 0;
#if defined(LBNN_INT_HELIUM)
    __asm__(LBNN_INT_WORDS "vldrw.32 q0, [%[x]], #16\n\t"
            "vldrh.16 q1, [%[beta]], #16\n\t"
            "vrmulh.s16 q0, q0, q1\n\t"
            "vmladava.s16 %[sum], q0, q0\n\t"
            "letp lr, 1b"
            : [x] "+r"(x), [beta] "+r"(beta), [sum] "+Te"(sum)
            : [words] "r"(words)
            : LBNN_INT_TAKEN);
#elif defined(LBNN_INT_DSP)
    int32_t b, e, t, half = 32768;
    const int32_t *const end = x + words;
    do {
        __asm__("ldr %[e], [%[x]], #4\n\t"
                "ldr %[b], [%[beta]], #4\n\t"
                "smlabb %[t], %[e], %[b], %[half]\n\t"
                "smlatt %[e], %[e], %[b], %[half]\n\t"
                "pkhtb %[e], %[e], %[t], asr #16\n\t"
                "smlad %[sum], %[e], %[e], %[sum]"
                : [x] "+r"(x), [beta] "+r"(beta), [sum] "+r"(sum), [e] "=&r"(e), [b] "=&r"(b), [t] "=&r"(t)
                : [half] "r"(half)
                : "memory");
    } while (x < end);
#elif defined(LBNN_INT_THUMB)
    int32_t b, e, half = 32768;
    const int32_t *const end = x + words;
    do {
        __asm__(LBNN_INT_FACTOR LBNN_INT_FACTOR
                : [x] "+r"(x), [beta] "+r"(beta), [sum] "+r"(sum), [e] "=&r"(e), [b] "=&r"(b)
                : [half] "r"(half)
                : "memory");
    } while (x < end);
#else
    int32_t half = 32768;
    const int32_t *const end = x + words;
    LBNN_HOLD(half);
    do {
        const int32_t first = (lbnn_int_lower(x) * beta[0] + half) >> 16;
        const int32_t second = (lbnn_int_upper(x) * beta[1] + half) >> 16;
        sum += first * first + second * second;
        x++;
        beta += 2;
    } while (x < end);
#endif
    return sum;
}

/* The larger of the exponents of means and sigmas, and how far squares of each move right to stand at its double. */
typedef struct {
    int32_t top;
    int32_t by_square;
    int32_t by_var;
} lbnn_int_squares;

LBNN_INLINE lbnn_int_squares lbnn_int_squares_of(const lbnn_int_scale *from)
{
    lbnn_int_squares s;
    s.top = lbnn_int_larger(from->mean, from->var);
    s.by_square = lbnn_int_apart(2 * s.top, 2 * from->mean);
    s.by_var = lbnn_int_apart(2 * s.top, 2 * from->var);
    return s;
}

/* B = sum(beta^2 (E^2 + V)) of `words` words, with a little more for what is rounded to nothing; `sigma` may be null. */
LBNN_INLINE int32_t lbnn_int_shared_sum(const lbnn_int_layer *layer, const lbnn_int_squares *by, const int32_t *mean,
                                        const int32_t *sigma, const uint16_t *beta, int words)
{
    const int32_t sum = lbnn_int_up(lbnn_int_factored(mean, beta, words), by->by_square) + (layer->in_len >> 2) + 1;
    return sigma ? sum + lbnn_int_up(lbnn_int_factored(sigma, beta, words), by->by_var) : sum;
}

LBNN_KERNEL LBNN_SMALL void lbnn_int_shared(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                            const lbnn_int_scale *from, lbnn_int_spread *spread)
{
    const lbnn_int_squares by = lbnn_int_squares_of(from);
    const int32_t *const given = from->var == LBNN_INT_NONE ? 0 : sigma;
    const int32_t sum = lbnn_int_shared_sum(layer, &by, mean, given, layer->columns, (layer->in_len + 1) >> 1);
    spread->sums = 0;
    spread->shared = by.top == LBNN_INT_NONE ? 0 : sum;
    spread->exponent = 2 * (by.top + layer->column_exponent + 1);
    spread->each = 0;
}

/* 1 + sum(((u p + 128) >> 8)^2) of a row: of the last of an odd number, `step` being 1, or of one of a pair. */
#if defined(LBNN_INT_BY_ROW)
LBNN_KERNEL LBNN_FAST int32_t lbnn_int_free_row(const uint8_t *u, int step, const int32_t *p, int words)
{
    int32_t sum = 1, i = -4 * words, at = 0, t, x;
    __asm__(".syntax unified\n1:\n\t"
            "ldrb %[x], [%[u], %[at]]\n\t"
            "ldrsh %[t], [%[p], %[i]]\n\t"
            "muls %[x], %[t], %[x]\n\t"
            "adds %[x], #128\n\t"
            "asrs %[x], %[x], #8\n\t"
            "muls %[x], %[x], %[x]\n\t"
            "adds %[sum], %[sum], %[x]\n\t"
            "add %[at], %[step]\n\t"
            "adds %[i], #2\n\t"
            "bne 1b"
            : [i] "+l"(i), [at] "+l"(at), [sum] "+l"(sum), [t] "=&l"(t), [x] "=&l"(x)
            : [u] "l"(u), [step] "h"(step), [p] "l"(p + words)
            : "cc", "memory");
    return sum;
}
#else
LBNN_KERNEL LBNN_SMALL int32_t lbnn_int_free_row(const uint8_t *u, int step, const int32_t *p, int words)
{
    int32_t sum = 1;
    for (int i = 0, at = 0; i < 2 * words; i++, at += step) {
        const int32_t t = (u[at] * lbnn_int_at(p, i) + 128) >> 8;
        sum += t * t;
    }
    return sum;
}
#endif

/* Row n of `rows`, of `whole` words each: how far apart its weights stand, and where the first is. */
LBNN_INLINE int lbnn_int_step_of(int n, int rows)
{
    return (n | 1) < rows ? 2 : 1;
}

LBNN_INLINE int lbnn_int_start_of(int n, int whole)
{
    return 2 * whole * (n & ~1) + (n & 1);
}

/* The same of a pair of rows. */
#if defined(LBNN_INT_DSP)
#define LBNN_INT_FREE                                                                              \
    "ldr %[t], [%[u]], #4\n\t"                                                                     \
    "ldr %[e], [%[p]], #4\n\t"                                                                     \
    "uxtb16 %[x], %[t]\n\t"                                                                        \
    "uxtb16 %[t], %[t], ror #8\n\t"                                                                \
    "smlabb %[y], %[e], %[x], %[half]\n\t"                                                         \
    "smlatt %[x], %[e], %[x], %[half]\n\t"                                                         \
    "asr %[y], %[y], #8\n\t"                                                                       \
    "pkhbt %[y], %[y], %[x], lsl #8\n\t"                                                           \
    "smlad %[even], %[y], %[y], %[even]\n\t"                                                       \
    "smlabb %[y], %[e], %[t], %[half]\n\t"                                                         \
    "smlatt %[x], %[e], %[t], %[half]\n\t"                                                         \
    "asr %[y], %[y], #8\n\t"                                                                       \
    "pkhbt %[y], %[y], %[x], lsl #8\n\t"                                                           \
    "smlad %[odd], %[y], %[y], %[odd]"
#elif defined(LBNN_INT_THUMB)
#define LBNN_INT_FREE_INPUT                                                                        \
    "ldrsh %[e], [%[p]], #2\n\t"                                                                   \
    "ldrb %[x], [%[u]], #1\n\t"                                                                    \
    "ldrb %[t], [%[u]], #1\n\t"                                                                    \
    "mla %[x], %[x], %[e], %[half]\n\t"                                                            \
    "mla %[t], %[t], %[e], %[half]\n\t"                                                            \
    "asr %[x], %[x], #8\n\t"                                                                       \
    "asr %[t], %[t], #8\n\t"                                                                       \
    "mla %[even], %[x], %[x], %[even]\n\t"                                                         \
    "mla %[odd], %[t], %[t], %[odd]\n\t"
#define LBNN_INT_FREE LBNN_INT_FREE_INPUT LBNN_INT_FREE_INPUT "# %[y]"
#endif

#if defined(LBNN_INT_HELIUM)
/* (u p + 128) >> 8 is the upper half of (u 2^8) p, to nearest. */
LBNN_INLINE void lbnn_int_free_pair(const uint8_t *u, const int32_t *p, int words, int32_t *sums)
{
    int32_t even = 1, odd = 1;
    __asm__(LBNN_INT_WORDS "vldrb.8 q0, [%[u]], #16\n\t"
            "vldrw.32 q1, [%[p]], #16\n\t"
            "vshl.i16 q2, q0, #8\n\t"
            "vbic.i16 q0, #255\n\t"
            "vrmulh.u16 q2, q2, q1\n\t"
            "vrmulh.u16 q0, q0, q1\n\t"
            "vmladava.s16 %[even], q2, q2\n\t"
            "vmladava.s16 %[odd], q0, q0\n\t"
            "letp lr, 1b"
            : [u] "+r"(u), [p] "+r"(p), [even] "+Te"(even), [odd] "+Te"(odd)
            : [words] "r"(words)
            : LBNN_INT_TAKEN);
    sums[0] = even;
    sums[1] = odd;
}
#elif defined(LBNN_INT_FREE)
LBNN_INLINE void lbnn_int_free_pair(const uint8_t *u, const int32_t *p, int words, int32_t *sums)
{
    int32_t even = 1, odd = 1, e, t, x, y;
    const int32_t half = 128, *const end = p + words;
    do {
        __asm__(LBNN_INT_FREE
                : [u] "+r"(u), [p] "+r"(p), [even] "+r"(even), [odd] "+r"(odd),
                  [e] "=&r"(e), [t] "=&r"(t), [x] "=&r"(x), [y] "=&r"(y)
                : [half] "r"(half)
                : "memory");
    } while (p < end);
    sums[0] = even;
    sums[1] = odd;
}
#elif defined(LBNN_INT_THUMB1)
#define LBNN_INT_FREE_PRODUCT(sum)                                                                 \
    "ldrb %[t], [%[u], %[i]]\n\t"                                                                  \
    "muls %[t], %[x], %[t]\n\t"                                                                    \
    "adds %[t], %[half]\n\t"                                                                       \
    "asrs %[t], %[t], #8\n\t"                                                                      \
    "muls %[t], %[t], %[t]\n\t"                                                                    \
    "add %[" sum "], %[t]\n\t"                                                                     \
    "adds %[i], #1\n\t"
#define LBNN_INT_FREE_INPUT                                                                        \
    "ldrsh %[x], [%[p], %[i]]\n\t" LBNN_INT_FREE_PRODUCT("even") LBNN_INT_FREE_PRODUCT("odd")

LBNN_INLINE void lbnn_int_free_pair(const uint8_t *u, const int32_t *p, int words, int32_t *sums)
{
    int32_t even = 1, odd = 1, i = -4 * words, t, x;
    const int32_t half = 128;
    p += words;
    u += 4 * words;
    __asm__(".syntax unified\n1:\n\t" LBNN_INT_FREE_INPUT LBNN_INT_FREE_INPUT "bne 1b"
            : [i] "+l"(i), [even] "+h"(even), [odd] "+h"(odd), [t] "=&l"(t), [x] "=&l"(x)
            : [u] "l"(u), [p] "l"(p), [half] "l"(half)
            : "cc", "memory");
    sums[0] = even;
    sums[1] = odd;
}
#else
LBNN_INLINE void lbnn_int_free_pair(const uint8_t *u, const int32_t *p, int words, int32_t *sums)
{
    int32_t even = 1, odd = 1;
    for (int i = 0; i < 2 * words; i++) {
        const int32_t x = lbnn_int_at(p, i), s = (u[2 * i] * x + 128) >> 8, t = (u[2 * i + 1] * x + 128) >> 8;
        even += s * s;
        odd += t * t;
    }
    sums[0] = even;
    sums[1] = odd;
}
#endif

/* The same of `rows` rows, whose sigmas stand as weights of 8 bits do; `words` words of two inputs meet them,
 * from word `first` on, of which a row has `whole`. */
LBNN_KERNEL LBNN_INT_ROWS void lbnn_int_free_sums(const uint8_t *u, int rows, int whole, int first, const int32_t *p,
                                              int words, int32_t *sums)
{
#if defined(LBNN_INT_BY_ROW)
    (void)first;
    for (int n = 0; n < rows; n++) {
        sums[n] = lbnn_int_free_row(u + lbnn_int_start_of(n, whole), lbnn_int_step_of(n, rows), p, words);
    }
#else
    int at = 4 * first; /* behind the last row no pointer would be one of the sigmas */
    for (; rows > 1; rows -= 2, sums += 2, at += 4 * whole) {
        LBNN_INT_HOLD(at);
        LBNN_INT_HOLD(sums);
        lbnn_int_free_pair(u + at, p, words, sums);
    }
    if (LBNN_INT_HAS_ODD_ROWS && rows) {
        *sums = lbnn_int_free_row(u + (at - 2 * first), 1, p, words);
    }
#endif
}

/* c sqrt(total), to nearest but at least 1, with 30 - drop bits; `lift` is that of the largest of all totals. */
LBNN_INLINE int32_t lbnn_int_root_of(int32_t total, int32_t lift, uint32_t factor, int32_t drop)
{
    if (!total) {
        return 0;
    }
    const lbnn_int_root r = lbnn_int_sqrt(lbnn_int_lifted(total, lift));
    const uint32_t product = LBNN_AS(uint32_t, r.sigma) * factor;
    return lbnn_int_larger((((LBNN_AS(int32_t, product) >> drop) >> r.half) + 1) >> 1, 1);
}

/* How E^2 and V meet at one exponent, which is even. */
typedef struct {
    int32_t top;
    int32_t by_square;
    int32_t by_var;
    int known;
} lbnn_int_totals;

LBNN_INLINE lbnn_int_totals lbnn_int_totals_of(const lbnn_int_scale *from)
{
    const int32_t square = 2 * from->mean + 2, var = 2 * from->var;
    lbnn_int_totals t;
    t.top = lbnn_int_larger(square, var);
    t.by_square = lbnn_int_by(2 + lbnn_int_apart(t.top, square));
    t.by_var = lbnn_int_apart(t.top, var);
    t.known = from->var == LBNN_INT_NONE;
    return t;
}

LBNN_INLINE int32_t lbnn_int_total(const lbnn_int_totals *by, const int32_t *mean, const int32_t *sigma, int i)
{
    const int32_t e = lbnn_int_at(mean, i), s = by->known ? 0 : lbnn_int_at(sigma, i);
    return lbnn_int_far(e * e - 1, by->by_square) + 1 + lbnn_int_up(s * s, by->by_var);
}

/* The exponent of ((u p) >> 8)^2. */
LBNN_INLINE int32_t lbnn_int_root_exponent(const lbnn_int_layer *layer, int32_t top, int32_t lift)
{
    return 2 * (((top - lift) >> 1) + layer->column_exponent + 15 - layer->free_bits) + 16;
}

/* p = c sqrt(E^2 + V) of n elements, in 16 bits, whose factors c repeat after `channels`; gives the exponent of
 * ((u p) >> 8)^2. Without maps `roots` has room for a word an element, and E^2 + V stands there between the loops. */
LBNN_INNER LBNN_SMALL int32_t lbnn_int_roots_of(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                               const lbnn_int_scale *from, int32_t *roots, int n, int channels)
{
    const lbnn_int_totals by = lbnn_int_totals_of(from);
    int32_t most = 0;
    int i = 0, channel = 0;
    do {
        const int32_t total = lbnn_int_total(&by, mean, sigma, i);
        most |= total;
        if (!LBNN_INT_HAS_MAPS) {
            roots[i] = total;
        }
    } while (++i < n);
    const int32_t lift = lbnn_int_lift(most), drop = 30 - layer->free_bits;
    const uint16_t *const columns = layer->columns;
    i = 0;
    do {
        const int32_t total = LBNN_INT_HAS_MAPS ? lbnn_int_total(&by, mean, sigma, i) : roots[i];
        lbnn_int_set(roots, i, lbnn_int_root_of(total, lift, columns[LBNN_INT_HAS_MAPS ? channel : i], drop));
        channel = channel + 1 < channels ? channel + 1 : 0;
    } while (++i < n);
    if (n & 1) {
        lbnn_int_set(roots, n, 0);
    }
    return most ? lbnn_int_root_exponent(layer, by.top, lift) : LBNN_INT_NONE;
}

/* For each input p = c sqrt(E^2 + V), then the sums. `p` has room for a word an input, and for the outputs behind. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_moments(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                             const lbnn_int_scale *from, int32_t *p, lbnn_int_spread *spread)
{
    const int n = layer->in_len, words = (n + 1) >> 1;
    const lbnn_int_spread own = {p + n, 0, lbnn_int_roots_of(layer, mean, sigma, from, p, n, n), 1};
    lbnn_int_free_sums(layer->free, layer->out_len, words, 0, p, words, p + n);
    *spread = own;
}

/* The results of `pixels` pixels of a layer, in place of their sums. */
LBNN_INNER LBNN_PIXEL void lbnn_int_results(const lbnn_int_layer *layer, const lbnn_int_scale *from,
                                            const lbnn_int_spread *spread, int32_t *out, int32_t *var,
                                            lbnn_int_scale *to, int bits, int pixels)
{
    const int n = layer->out_len, all = n * pixels;
    const int each = lbnn_int_each(spread), next = each ? n : 1;
    const int32_t *const shared = !LBNN_INT_HAS_FACTORS || spread->sums ? spread->sums : &spread->shared;
    const lbnn_int_moves moves = lbnn_int_meet(from->mean + layer->scale_exponent + 1, layer->bias_exponent,
                                               2 * (from->var + layer->scale_exponent + bits),
                                               spread->exponent + layer->spread_exponent,
                                               layer->noise_exponent, to);
    const uint16_t *numbers = layer->rows;
    int32_t largest = 0, widest = 0;
    int r = 0;
    do {
        const lbnn_int_row row = lbnn_int_row_of(numbers, &moves);
        int i = r, j = r * each;
        numbers += LBNN_INT_ROW;
        do {
            const int32_t e = lbnn_int_row_mean(&row, out[i]);
            const int32_t v = lbnn_int_row_var(&row, var[i], shared[j]);
            out[i] = e;
            var[i] = v;
            largest = lbnn_int_larger(largest, lbnn_int_size(e));
            widest |= v;
            i += n;
            j += next;
        } while (LBNN_INT_HAS_MAPS && i < all);
    } while (++r < n);
    to->largest = largest;
    to->widest = widest;
}

/* ---- means of 8 bits ----------------------------------------------------------------------------- */

/* sum(e w) and, where the input has sigmas, 1 + sum(((s w) >> 8)^2) of a row: of the last of an odd number, `step` being
 * 1, or of one of a pair. */
#if defined(LBNN_INT_BY_ROW)
LBNN_KERNEL LBNN_FAST int32_t lbnn_int8_row(const int8_t *w, int step, const int32_t *mean, const int32_t *sigma,
                                            int words, int32_t *out)
{
    int32_t sum = 0, spread = 1, i = -4 * words, at = 0, s, x;
    const int32_t *const given = sigma ? sigma : mean; /* what it comes to then is not used */
    __asm__(".syntax unified\n1:\n\t"
            "ldrsb %[x], [%[w], %[at]]\n\t"
            "ldrsh %[s], [%[sigma], %[i]]\n\t"
            "muls %[s], %[x], %[s]\n\t"
            "asrs %[s], %[s], #8\n\t"
            "muls %[s], %[s], %[s]\n\t"
            "add %[spread], %[s]\n\t"
            "ldrsh %[s], [%[mean], %[i]]\n\t"
            "muls %[s], %[x], %[s]\n\t"
            "add %[sum], %[s]\n\t"
            "add %[at], %[step]\n\t"
            "adds %[i], #2\n\t"
            "bne 1b"
            : [i] "+l"(i), [at] "+l"(at), [sum] "+h"(sum), [spread] "+h"(spread), [s] "=&l"(s), [x] "=&l"(x)
            : [w] "l"(w), [step] "h"(step), [mean] "l"(mean + words), [sigma] "l"(given + words)
            : "cc", "memory");
    *out = sum;
    return sigma ? spread : 0;
}
#else
LBNN_KERNEL LBNN_SMALL int32_t lbnn_int8_row(const int8_t *w, int step, const int32_t *mean, const int32_t *sigma,
                                             int words, int32_t *out)
{
    int32_t sum = 0, spread = sigma ? 1 : 0;
    for (int i = 0, at = 0; i < 2 * words; i++, at += step) {
        sum += lbnn_int_at(mean, i) * w[at];
        if (sigma) {
            const int32_t s = (lbnn_int_at(sigma, i) * w[at]) >> 8;
            spread += s * s;
        }
    }
    *out = sum;
    return spread;
}
#endif

/* The same of a pair of rows, of which four weights stand in a word. */
#if defined(LBNN_INT_HELIUM)
/* (s w) >> 8 is the upper half of s (w 2^8). */
#define LBNN_INT_MEANS                                                                             \
    "vldrb.8 q0, [%[w]], #16\n\t"                                                                  \
    "vldrw.32 q1, [%[mean]], #16\n\t"                                                              \
    "vmovlb.s8 q2, q0\n\t"                                                                         \
    "vmovlt.s8 q0, q0\n\t"                                                                         \
    "vmladava.s16 %[even], q2, q1\n\t"                                                             \
    "vmladava.s16 %[odd], q0, q1\n\t"
#define LBNN_INT_SPREADS                                                                           \
    "vldrw.32 q1, [%[sigma]], #16\n\t"                                                             \
    "vshl.i16 q2, q2, #8\n\t"                                                                      \
    "vshl.i16 q0, q0, #8\n\t"                                                                      \
    "vmulh.s16 q2, q1, q2\n\t"                                                                     \
    "vmulh.s16 q0, q1, q0\n\t"                                                                     \
    "vmladava.s16 %[even_spread], q2, q2\n\t"                                                      \
    "vmladava.s16 %[odd_spread], q0, q0\n\t"

LBNN_INLINE void lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0, even_spread = 0, odd_spread = 0;
    if (sigma) {
        even_spread = 1;
        odd_spread = 1;
        __asm__(LBNN_INT_WORDS LBNN_INT_MEANS LBNN_INT_SPREADS "letp lr, 1b"
                : [w] "+r"(w), [mean] "+r"(mean), [sigma] "+r"(sigma), [even] "+Te"(even), [odd] "+Te"(odd),
                  [even_spread] "+Te"(even_spread), [odd_spread] "+Te"(odd_spread)
                : [words] "r"(words)
                : LBNN_INT_TAKEN);
    } else {
        __asm__(LBNN_INT_WORDS LBNN_INT_MEANS "letp lr, 1b"
                : [w] "+r"(w), [mean] "+r"(mean), [even] "+Te"(even), [odd] "+Te"(odd)
                : [words] "r"(words)
                : LBNN_INT_TAKEN);
    }
    out[0] = even;
    out[1] = odd;
    var[0] = even_spread;
    var[1] = odd_spread;
}
#elif defined(LBNN_INT_DSP) || defined(LBNN_INT_THUMB)
/* Two inputs of one row, and of the other. */
#if defined(LBNN_INT_DSP)
#define LBNN_INT_MEANS                                                                             \
    "ldr %[x], [%[w]], #4\n\t"                                                                     \
    "ldr %[e], [%[mean]], #4\n\t"                                                                  \
    "sxtb16 %[s], %[x]\n\t"                                                                        \
    "sxtb16 %[x], %[x], ror #8\n\t"                                                                \
    "smlad %[even], %[s], %[e], %[even]\n\t"                                                       \
    "smlad %[odd], %[x], %[e], %[odd]"
/* The lower halves of s and of a row's weights give (s w) >> 8, the upper ones s w. */
#define LBNN_INT_MOMENTS                                                                           \
    "ldr %[t], [%[w]], #4\n\t"                                                                     \
    "ldr %[e], [%[mean]], #4\n\t"                                                                  \
    "ldr %[s], [%[sigma]], #4\n\t"                                                                 \
    "sxtb16 %[x], %[t]\n\t"                                                                        \
    "sxtb16 %[t], %[t], ror #8\n\t"                                                                \
    "smlad %[even], %[x], %[e], %[even]\n\t"                                                       \
    "smlad %[odd], %[t], %[e], %[odd]\n\t"                                                         \
    "smulbb %[e], %[s], %[x]\n\t"                                                                  \
    "smultt %[x], %[s], %[x]\n\t"                                                                  \
    "asr %[e], %[e], #8\n\t"                                                                       \
    "pkhbt %[e], %[e], %[x], lsl #8\n\t"                                                           \
    "smlad %[even_spread], %[e], %[e], %[even_spread]\n\t"                                         \
    "smulbb %[e], %[s], %[t]\n\t"                                                                  \
    "smultt %[x], %[s], %[t]\n\t"                                                                  \
    "asr %[e], %[e], #8\n\t"                                                                       \
    "pkhbt %[e], %[e], %[x], lsl #8\n\t"                                                           \
    "smlad %[odd_spread], %[e], %[e], %[odd_spread]"
#else
#define LBNN_INT_MEAN                                                                              \
    "ldrsh %[e], [%[mean]], #2\n\t"                                                                \
    "ldrsb %[x], [%[w]], #1\n\t"                                                                   \
    "ldrsb %[s], [%[w]], #1\n\t"                                                                   \
    "mla %[even], %[x], %[e], %[even]\n\t"                                                         \
    "mla %[odd], %[s], %[e], %[odd]\n\t"
#define LBNN_INT_MOMENT                                                                            \
    "ldrsh %[e], [%[mean]], #2\n\t"                                                                \
    "ldrsh %[s], [%[sigma]], #2\n\t"                                                               \
    "ldrsb %[x], [%[w]], #1\n\t"                                                                   \
    "ldrsb %[t], [%[w]], #1\n\t"                                                                   \
    "mla %[even], %[x], %[e], %[even]\n\t"                                                         \
    "mla %[odd], %[t], %[e], %[odd]\n\t"                                                           \
    "mul %[x], %[x], %[s]\n\t"                                                                     \
    "mul %[t], %[t], %[s]\n\t"                                                                     \
    "asr %[x], %[x], #8\n\t"                                                                       \
    "asr %[t], %[t], #8\n\t"                                                                       \
    "mla %[even_spread], %[x], %[x], %[even_spread]\n\t"                                           \
    "mla %[odd_spread], %[t], %[t], %[odd_spread]\n\t"
#if defined(LBNN_INT_NO_MAPS) && defined(LBNN_INT_NO_PAIRS)
#define LBNN_INT_MEANS LBNN_INT_MEAN
#else
#define LBNN_INT_MEANS LBNN_INT_MEAN LBNN_INT_MEAN
#endif
#define LBNN_INT_MOMENTS LBNN_INT_MOMENT LBNN_INT_MOMENT
#endif

LBNN_INLINE void lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0, even_spread = 0, odd_spread = 0;
    int32_t e, s, t, x;
    const int32_t *const end = mean + words;
    if (sigma) {
        even_spread = 1;
        odd_spread = 1;
        do {
            __asm__(LBNN_INT_MOMENTS
                    : [w] "+r"(w), [mean] "+r"(mean), [sigma] "+r"(sigma), [even] "+r"(even), [odd] "+r"(odd),
                      [even_spread] "+r"(even_spread), [odd_spread] "+r"(odd_spread),
                      [e] "=&r"(e), [s] "=&r"(s), [t] "=&r"(t), [x] "=&r"(x)
                    :
                    : "memory");
        } while (mean < end);
    } else {
        do {
            __asm__(LBNN_INT_MEANS
                    : [w] "+r"(w), [mean] "+r"(mean), [even] "+r"(even), [odd] "+r"(odd),
                      [e] "=&r"(e), [s] "=&r"(s), [x] "=&r"(x)
                    :
                    : "memory");
        } while (mean < end);
    }
    out[0] = even;
    out[1] = odd;
    var[0] = even_spread;
    var[1] = odd_spread;
}
#elif defined(LBNN_INT_THUMB1)
/* An input and the weights of both rows stand at the same distance from their ends: one negative index is enough for
 * three arrays. Sums are in high registers, which can be added to; so is e, for the second row. */
#define LBNN_INT_PRODUCTS(sum, spread)                                                             \
    "ldrsb %[x], [%[w], %[i]]\n\t"                                                                 \
    "muls %[t], %[x], %[t]\n\t"                                                                   \
    "add %[" sum "], %[t]\n\t"                                                                    \
    "muls %[x], %[s], %[x]\n\t"                                                                   \
    "asrs %[x], %[x], #8\n\t"                                                                     \
    "muls %[x], %[x], %[x]\n\t"                                                                   \
    "add %[" spread "], %[x]\n\t"                                                                 \
    "adds %[i], #1\n\t"
#define LBNN_INT_MOMENT                                                                            \
    "ldrsh %[t], [%[mean], %[i]]\n\t"                                                              \
    "mov %[e], %[t]\n\t"                                                                           \
    "ldrsh %[s], [%[sigma], %[i]]\n\t"                                                             \
    LBNN_INT_PRODUCTS("even", "even_spread")                                                       \
    "mov %[t], %[e]\n\t"                                                                           \
    LBNN_INT_PRODUCTS("odd", "odd_spread")
#define LBNN_INT_PRODUCT(sum)                                                                      \
    "ldrsb %[x], [%[w], %[i]]\n\t"                                                                 \
    "muls %[x], %[t], %[x]\n\t"                                                                    \
    "add %[" sum "], %[x]\n\t"                                                                     \
    "adds %[i], #1\n\t"
#define LBNN_INT_MEAN "ldrsh %[t], [%[mean], %[i]]\n\t" LBNN_INT_PRODUCT("even") LBNN_INT_PRODUCT("odd")

LBNN_INLINE void lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0, even_spread = 0, odd_spread = 0;
    int32_t i = -4 * words, e, s, t, x;
    mean += words;
    w += 4 * words;
    if (sigma) {
        even_spread = 1;
        odd_spread = 1;
        sigma += words;
        __asm__(".syntax unified\n1:\n\t" LBNN_INT_MOMENT LBNN_INT_MOMENT "bne 1b"
                : [i] "+l"(i), [even] "+h"(even), [odd] "+h"(odd), [even_spread] "+h"(even_spread),
                  [odd_spread] "+h"(odd_spread), [e] "=&h"(e), [s] "=&l"(s), [t] "=&l"(t), [x] "=&l"(x)
                : [w] "l"(w), [mean] "l"(mean), [sigma] "l"(sigma)
                : "cc", "memory");
    } else {
        __asm__(".syntax unified\n1:\n\t" LBNN_INT_MEAN LBNN_INT_MEAN "bne 1b"
                : [i] "+l"(i), [even] "+r"(even), [odd] "+r"(odd), [t] "=&l"(t), [x] "=&l"(x)
                : [w] "l"(w), [mean] "l"(mean)
                : "cc", "memory");
    }
    out[0] = even;
    out[1] = odd;
    var[0] = even_spread;
    var[1] = odd_spread;
}
#else
/* One row of the pair. */
LBNN_KERNEL LBNN_FAST int32_t lbnn_int8_half(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                             int32_t *out)
{
    int32_t sum = 0, spread = 0;
    if (sigma) {
        spread = 1;
        for (int k = 0; k < words; k++) {
            sum += lbnn_int_lower(mean + k) * w[4 * k] + lbnn_int_upper(mean + k) * w[4 * k + 2];
            const int32_t s = (lbnn_int_lower(sigma + k) * w[4 * k]) >> 8;
            const int32_t t = (lbnn_int_upper(sigma + k) * w[4 * k + 2]) >> 8;
            spread += s * s + t * t;
        }
    } else {
        for (int k = 0; k < words; k++) {
            sum += lbnn_int_lower(mean + k) * w[4 * k] + lbnn_int_upper(mean + k) * w[4 * k + 2];
        }
    }
    *out = sum;
    return spread;
}

LBNN_INLINE void lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                int32_t *out, int32_t *var)
{
    var[0] = lbnn_int8_half(w, mean, sigma, words, out);
    var[1] = lbnn_int8_half(w + 1, mean, sigma, words, out + 1);
}
#endif

/* sum(e w) and, where there are sigmas, 1 + sum(((s w) >> 8)^2) of `rows` rows; `words` words of two inputs meet the
 * weights from word `first` on, of which a row has `whole`. */
LBNN_INNER LBNN_INT_ROWS void lbnn_int8_sums(const int8_t *w, int rows, int whole, int first, const int32_t *mean,
                                          const int32_t *sigma, int words, int32_t *sum, int32_t *square)
{
#if defined(LBNN_INT_BY_ROW)
    (void)first;
    for (int n = 0; n < rows; n++) {
        square[n] = lbnn_int8_row(w + lbnn_int_start_of(n, whole), lbnn_int_step_of(n, rows), mean, sigma, words, sum + n);
    }
#else
    int at = 4 * first;
    if (!LBNN_INT_HAS_MAPS || sigma) {
        for (; rows > 1; rows -= 2, sum += 2, square += 2, at += 4 * whole) {
            LBNN_INT_HOLD(at);
            LBNN_INT_HOLD(sum);
            LBNN_INT_HOLD(square);
            lbnn_int8_pair(w + at, mean, sigma, words, sum, square);
        }
    } else { /* a loop of its own: rows of a map's pixels are short */
        for (; rows > 1; rows -= 2, sum += 2, square += 2, at += 4 * whole) {
            lbnn_int8_pair(w + at, mean, 0, words, sum, square);
        }
    }
    if (LBNN_INT_HAS_ODD_ROWS && rows) {
        *square = lbnn_int8_row(w + (at - 2 * first), 1, mean, sigma, words, sum);
    }
#endif
}

LBNN_KERNEL LBNN_INT_ROWS void lbnn_int8_linear(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                             const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                             int32_t *out, int32_t *var, lbnn_int_scale *to)
{
    const int words = (layer->in_len + 1) >> 1;
    const int32_t *const given = from->var == LBNN_INT_NONE ? 0 : sigma;
    lbnn_int8_sums(layer->weight8, layer->out_len, words, 0, mean, given, words, out, var);
    lbnn_int_results(layer, from, spread, out, var, to, 8, 1);
}

/* ---- means of 12 bits ---------------------------------------------------------------------------- */

/* sum(e w) and, where the input has sigmas, 1 + sum(((s w) >> 12)^2) of a row. */
#if defined(LBNN_INT_HELIUM)
/* (s w) >> 12 is the upper half of s (w 2^4). */
#define LBNN_INT_MEANS16                                                                           \
    "vldrh.16 q0, [%[w]], #16\n\t"                                                                 \
    "vldrw.32 q1, [%[mean]], #16\n\t"                                                              \
    "vmladava.s16 %[sum], q0, q1\n\t"
#define LBNN_INT_SPREADS16                                                                         \
    "vldrw.32 q1, [%[sigma]], #16\n\t"                                                             \
    "vshl.i16 q0, q0, #4\n\t"                                                                      \
    "vmulh.s16 q0, q1, q0\n\t"                                                                     \
    "vmladava.s16 %[spread], q0, q0\n\t"

LBNN_INLINE int32_t lbnn_int16_row(const int16_t *w, const int32_t *mean, const int32_t *sigma, int words, int32_t *out)
{
    int32_t sum = 0, spread = 0;
    if (sigma) {
        spread = 1;
        __asm__(LBNN_INT_WORDS LBNN_INT_MEANS16 LBNN_INT_SPREADS16 "letp lr, 1b"
                : [w] "+r"(w), [mean] "+r"(mean), [sigma] "+r"(sigma), [sum] "+Te"(sum), [spread] "+Te"(spread)
                : [words] "r"(words)
                : LBNN_INT_TAKEN);
    } else {
        __asm__(LBNN_INT_WORDS LBNN_INT_MEANS16 "letp lr, 1b"
                : [w] "+r"(w), [mean] "+r"(mean), [sum] "+Te"(sum)
                : [words] "r"(words)
                : LBNN_INT_TAKEN);
    }
    *out = sum;
    return spread;
}
#else
LBNN_INLINE int32_t lbnn_int16_row(const int16_t *w, const int32_t *mean, const int32_t *sigma, int words, int32_t *out)
{
    int32_t sum = 0, spread = sigma ? 1 : 0;
    for (int k = 0; k < words; k++, w += 2) {
        sum += lbnn_int_lower(mean + k) * w[0] + lbnn_int_upper(mean + k) * w[1];
        if (sigma) {
            const int32_t s = (lbnn_int_lower(sigma + k) * w[0]) >> 12;
            const int32_t t = (lbnn_int_upper(sigma + k) * w[1]) >> 12;
            spread += s * s + t * t;
        }
    }
    *out = sum;
    return spread;
}
#endif

/* The same as lbnn_int8_sums. */
LBNN_KERNEL LBNN_FAST void lbnn_int16_sums(const int16_t *w, int rows, int whole, int first, const int32_t *mean,
                                           const int32_t *sigma, int words, int32_t *sum, int32_t *square)
{
    for (int n = 0, at = 2 * first; n < rows; n++, at += 2 * whole) {
        square[n] = sigma ? lbnn_int16_row(w + at, mean, sigma, words, sum + n)
                          : lbnn_int16_row(w + at, mean, 0, words, sum + n);
    }
}

LBNN_KERNEL LBNN_SMALL void lbnn_int16_linear(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                              const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                              int32_t *out, int32_t *var, lbnn_int_scale *to)
{
    const int words = (layer->in_len + 1) >> 1;
    const int32_t *const given = from->var == LBNN_INT_NONE ? 0 : sigma;
    lbnn_int16_sums(layer->weight16, layer->out_len, words, 0, mean, given, words, out, var);
    lbnn_int_results(layer, from, spread, out, var, to, 12, 1);
}

#endif
