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
#include <arm_mve.h>
#define LBNN_INT_HELIUM 1
#endif
#include <arm_acle.h>
#define LBNN_INT_DSP 1
#elif defined(__ARM_ARCH_ISA_THUMB) && __ARM_ARCH_ISA_THUMB == 2 && defined(__ARMEL__) && defined(__GNUC__) \
    && !defined(LBNN_NO_SIMD)
#define LBNN_INT_THUMB 1
#endif

/* A layer. Numbers of a row are 7 words: m, m^2, a, c; shifts of m, a and c in 5 bits each, then the sign of m; then b,
 * the lower half first, whose 8 lowest bits are its shift. */
typedef struct {
    const int8_t *weight8;
    const int16_t *weight16;
    const uint8_t *free;     /* sigmas of the weights, or null */
    const uint16_t *columns; /* a factor for each input, or null where all are 1 */
    const uint16_t *rows;
    int32_t in_len;
    int32_t out_len;
    int32_t fold;
    int32_t free_bits;
    int32_t column_exponent;
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
} lbnn_int_moves;

/* The exponents of a layer's results: the largest of those of their parts; that of variances, which have roots, even. */
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
    return d;
}

typedef struct {
    int32_t mean;
    int32_t var;
} lbnn_int_result;

/* The shift of m in its row, at most 15. */
LBNN_INLINE int32_t lbnn_int_scale_shift(int32_t shifts)
{
    return shifts & 31;
}

/* One output of its sums. */
LBNN_INLINE lbnn_int_result lbnn_int_finish(const uint16_t *row, const lbnn_int_moves *d, int32_t sum, int32_t spread,
                                            int32_t shared)
{
    const int32_t shifts = row[4];
    const int32_t km = lbnn_int_scale_shift(shifts);
    const int32_t bias = LBNN_AS(int32_t, LBNN_AS(uint32_t, row[5]) | LBNN_AS(uint32_t, row[6]) << 16);
    const int32_t e = lbnn_int_times(sum, row[0]);
    const int32_t v = lbnn_int_times_under(spread, row[1]);
    const int32_t w = lbnn_int_times_under(shared, row[2]);
    const int32_t c = (LBNN_AS(int32_t, row[3]) << 12) - 1;
    lbnn_int_result r;
    r.mean = ((e >> km) >> d->mean) + (((bias >> 2) >> (bias & 31)) >> d->bias);
    r.var = ((v >> (2 * km)) >> d->spread) + ((w >> ((shifts >> 5) & 31)) >> d->shared)
          + ((c >> ((shifts >> 10) & 31)) >> d->noise) + 3;
    return r;
}

/* What the variances of the weights come to: B for all rows, or a sum for each, the largest with 28 bits; its exponent is
 * LBNN_INT_NONE where that is nothing. */
typedef struct {
    const int32_t *sums; /* of each row, or null */
    int32_t shared;
    int32_t exponent;
} lbnn_int_spread;

/* Weights that are known. */
LBNN_KERNEL LBNN_FAST void lbnn_int_no_spread(lbnn_int_spread *spread)
{
    spread->sums = 0;
    spread->shared = 0;
    spread->exponent = LBNN_INT_NONE;
}

/* How far left sums can move, so that the largest has 28 bits; `any` has the bits of all of them. */
LBNN_INLINE int32_t lbnn_int_room(int32_t any)
{
    return lbnn_int_larger(28 - lbnn_int_bits(LBNN_AS(uint32_t, any)), 0);
}

/* x 2^k of one of the sums whose room k is. */
LBNN_INLINE int32_t lbnn_int_filled(int32_t x, int32_t k)
{
    return x << k;
}

/* B = sum(beta^2 (E^2 + V)), each product moved right by `fold`; 2 more for each, to make up for what is rounded down.
 * Without a variance the sigmas are whatever there is, moved right until nothing is left. */
LBNN_KERNEL LBNN_FAST void lbnn_int_shared(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                           const lbnn_int_scale *from, lbnn_int_spread *spread)
{
    const uint16_t *const beta = layer->columns;
    const int32_t top = lbnn_int_larger(from->mean, from->var);
    const int32_t by_square = lbnn_int_apart(2 * top, 2 * from->mean);
    const int32_t by_var = lbnn_int_apart(2 * top, 2 * from->var);
    const int n = layer->in_len;
    int32_t sum = 2 * n;
    for (int i = 0; i < n; i++) {
        const int32_t e = lbnn_int_at(mean, i), s = lbnn_int_at(sigma, i);
        int32_t square = ((e * e) >> by_square) + ((s * s) >> by_var);
        if (beta) {
            square = lbnn_int_share(lbnn_int_share(square, beta[i]), beta[i]);
        }
        sum += square >> layer->fold;
    }
    const int32_t lift = lbnn_int_room(sum);
    spread->sums = 0;
    spread->shared = top == LBNN_INT_NONE ? 0 : lbnn_int_filled(sum, lift);
    spread->exponent = 2 * (top + layer->column_exponent) + layer->fold - lift;
}

/* 1 + sum(((u p + 128) >> 8)^2) of every row, two at a time; returns the bits of all sums. */
LBNN_KERNEL LBNN_FAST int32_t lbnn_int_free_sums(const lbnn_int_layer *layer, const int32_t *p, int32_t *sums)
{
    const int n = layer->in_len;
    const uint8_t *u = layer->free;
    const int32_t *const end = p + n;
    int32_t any = 0;
    for (int rows = layer->out_len; rows > 0; rows -= 2) {
        const uint8_t *next = rows > 1 ? u + n : u; /* the last row alone is added up twice */
        int32_t even = 1, odd = 1, half = 128;
        LBNN_HOLD(half);
        const int32_t *q = p;
        do {
            int32_t t = (*u++ * *q + half) >> 8;
            even += t * t;
            t = (*next++ * *q++ + half) >> 8;
            odd += t * t;
        } while (q < end);
        any |= even | odd;
        *sums++ = even;
        if (rows > 1) {
            *sums++ = odd;
        }
        u = next;
    }
    return any;
}

/* For each input p = c sqrt(E^2 + V), to nearest but at least 1, then the sums; the exponent is that of ((u p) >> 8)^2. `p` has room for
 * the inputs, and for the outputs behind them. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_moments(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                             const lbnn_int_scale *from, int32_t *p, lbnn_int_spread *spread)
{
    const int32_t square = 2 * from->mean + 2;
    const int32_t var = 2 * from->var;
    const int32_t top = lbnn_int_larger(square, var);
    const int32_t by_square = lbnn_int_apart(top, square);
    const int32_t by_var = lbnn_int_apart(top, var);
    const int known = from->var == LBNN_INT_NONE;
    const int n = layer->in_len;
    int32_t most = 0;
    for (int i = 0; i < n; i++) {
        const int32_t e = lbnn_int_at(mean, i);
        const int32_t s = lbnn_int_at(sigma, i);
        p[i] = lbnn_int_up_twice(e * e, 2, by_square) + (known ? 0 : lbnn_int_up(s * s, by_var));
        most |= p[i];
    }
    const int32_t lift = lbnn_int_lift(most);
    for (int i = 0; i < n; i++) {
        if (p[i]) {
            const lbnn_int_root r = lbnn_int_sqrt(lbnn_int_lifted(p[i], lift));
            const uint32_t product = LBNN_AS(uint32_t, r.sigma) * layer->columns[i];
            p[i] = lbnn_int_larger((((LBNN_AS(int32_t, product) >> (30 - layer->free_bits)) >> r.half) + 1) >> 1, 1);
        }
    }
    int32_t *const sums = p + n;
    const int32_t left = lbnn_int_room(lbnn_int_free_sums(layer, p, sums));
    for (int row = 0; row < layer->out_len; row++) {
        sums[row] = lbnn_int_filled(sums[row], left);
    }
    const int32_t root = ((top - lift) >> 1) + layer->column_exponent + 15 - layer->free_bits;
    spread->sums = most ? sums : 0;
    spread->shared = 0;
    spread->exponent = most ? 2 * root + 16 - left : LBNN_INT_NONE;
}

/* The results of a layer, in place of its sums, of whose squares `any` has the bits. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_results(const lbnn_int_layer *layer, const lbnn_int_scale *from,
                                             const lbnn_int_spread *spread, int32_t *out, int32_t *var,
                                             lbnn_int_scale *to, int bits, int32_t any)
{
    const int step = spread->sums ? 1 : 0;
    const int32_t *shared = spread->sums ? spread->sums : &spread->shared;
    const int32_t lift = lbnn_int_room(any);
    const lbnn_int_moves moves = lbnn_int_meet(from->mean + layer->scale_exponent, layer->bias_exponent,
                                               2 * (from->var + layer->scale_exponent + bits) - lift,
                                               spread->exponent + layer->spread_exponent, layer->noise_exponent, to);
    const uint16_t *row = layer->rows;
    const int32_t *const end = out + layer->out_len;
    int32_t largest = 0, widest = 0;
    for (; out < end; out++, var++, row += LBNN_INT_ROW, shared += step) {
        const lbnn_int_result r = lbnn_int_finish(row, &moves, *out, lbnn_int_filled(*var, lift), *shared);
        *out = r.mean;
        *var = r.var;
        largest = lbnn_int_larger(largest, lbnn_int_size(r.mean));
        widest |= r.var;
    }
    to->largest = largest;
    to->widest = widest;
}

/* ---- means of 8 bits ----------------------------------------------------------------------------- */

/* sum(e w) and, where the input has sigmas, 1 + sum(((s w) >> 8)^2) of the last of an odd number of rows. */
LBNN_KERNEL LBNN_SMALL int32_t lbnn_int8_row(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                             int32_t *out)
{
    int32_t sum = 0, spread = sigma ? 1 : 0;
    for (int k = 0; k < words; k++) {
        const int32_t first = *w++, second = *w++;
        sum += lbnn_int_lower(mean + k) * first + lbnn_int_upper(mean + k) * second;
        if (sigma) {
            const int32_t s = (lbnn_int_lower(sigma + k) * first) >> 8, t = (lbnn_int_upper(sigma + k) * second) >> 8;
            spread += s * s + t * t;
        }
    }
    *out = sum;
    return spread;
}

/* The same of a pair of rows, of which four weights stand in a word; returns the bits of both sums of squares. */
#if defined(LBNN_INT_HELIUM)
/* (s w) >> 8 is the upper half of s (w 2^8). */
LBNN_INLINE int32_t lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                   int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0, even_spread = 0, odd_spread = 0;
    if (sigma) {
        even_spread = 1;
        odd_spread = 1;
        for (int left = words; left > 0; left -= 4, w += 16, mean += 4, sigma += 4) {
            const mve_pred16_t some = vctp32q(LBNN_AS(uint32_t, left));
            const int8x16_t both = vldrbq_z_s8(w, vctp8q(LBNN_AS(uint32_t, 4 * left)));
            const int16x8_t x = vmovlbq_s8(both), y = vmovltq_s8(both);
            const int16x8_t e = vreinterpretq_s16_s32(vldrwq_z_s32(mean, some));
            const int16x8_t s = vreinterpretq_s16_s32(vldrwq_z_s32(sigma, some));
            const int16x8_t t = vmulhq_s16(s, vshlq_n_s16(x, 8)), u = vmulhq_s16(s, vshlq_n_s16(y, 8));
            even = vmladavaq_s16(even, x, e);
            odd = vmladavaq_s16(odd, y, e);
            even_spread = vmladavaq_s16(even_spread, t, t);
            odd_spread = vmladavaq_s16(odd_spread, u, u);
        }
    } else {
        for (int left = words; left > 0; left -= 4, w += 16, mean += 4) {
            const int8x16_t both = vldrbq_z_s8(w, vctp8q(LBNN_AS(uint32_t, 4 * left)));
            const int16x8_t e = vreinterpretq_s16_s32(vldrwq_z_s32(mean, vctp32q(LBNN_AS(uint32_t, left))));
            even = vmladavaq_s16(even, vmovlbq_s8(both), e);
            odd = vmladavaq_s16(odd, vmovltq_s8(both), e);
        }
    }
    out[0] = even;
    out[1] = odd;
    var[0] = even_spread;
    var[1] = odd_spread;
    return even_spread | odd_spread;
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
#define LBNN_INT_MEANS LBNN_INT_MEAN LBNN_INT_MEAN
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
#define LBNN_INT_MOMENTS LBNN_INT_MOMENT LBNN_INT_MOMENT
#endif

LBNN_INLINE int32_t lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
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
    return even_spread | odd_spread;
}
#elif defined(__ARM_ARCH_6M__) && defined(__ARMEL__) && defined(__GNUC__) && !defined(__clang__) \
    && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__) && !defined(LBNN_NO_SIMD)
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

LBNN_INLINE int32_t lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
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
        __asm__(".syntax unified\n1:\n\t"
                "ldrsh %[t], [%[mean], %[i]]\n\t"
                "mov %[e], %[t]\n\t"
                "ldrsh %[s], [%[sigma], %[i]]\n\t"
                LBNN_INT_PRODUCTS("even", "even_spread")
                "mov %[t], %[e]\n\t"
                LBNN_INT_PRODUCTS("odd", "odd_spread")
                "bne 1b"
                : [i] "+l"(i), [even] "+h"(even), [odd] "+h"(odd), [even_spread] "+h"(even_spread),
                  [odd_spread] "+h"(odd_spread), [e] "=&h"(e), [s] "=&l"(s), [t] "=&l"(t), [x] "=&l"(x)
                : [w] "l"(w), [mean] "l"(mean), [sigma] "l"(sigma)
                : "cc", "memory");
    } else {
        __asm__(".syntax unified\n1:\n\t"
                "ldrsh %[t], [%[mean], %[i]]\n\t"
                "ldrsb %[x], [%[w], %[i]]\n\t"
                "muls %[x], %[t], %[x]\n\t"
                "add %[even], %[x]\n\t"
                "adds %[i], #1\n\t"
                "ldrsb %[x], [%[w], %[i]]\n\t"
                "muls %[x], %[t], %[x]\n\t"
                "add %[odd], %[x]\n\t"
                "adds %[i], #1\n\t"
                "bne 1b"
                : [i] "+l"(i), [even] "+r"(even), [odd] "+r"(odd), [t] "=&l"(t), [x] "=&l"(x)
                : [w] "l"(w), [mean] "l"(mean)
                : "cc", "memory");
    }
    out[0] = even;
    out[1] = odd;
    var[0] = even_spread;
    var[1] = odd_spread;
    return even_spread | odd_spread;
}
#undef LBNN_INT_PRODUCTS
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

LBNN_INLINE int32_t lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                   int32_t *out, int32_t *var)
{
    var[0] = lbnn_int8_half(w, mean, sigma, words, out);
    var[1] = lbnn_int8_half(w + 1, mean, sigma, words, out + 1);
    return var[0] | var[1];
}
#endif

LBNN_KERNEL LBNN_FAST void lbnn_int8_linear(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                            const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                            int32_t *out, int32_t *var, lbnn_int_scale *to)
{
    const int words = (layer->in_len + 1) >> 1;
    const int rows = layer->out_len;
    const int32_t *const given = from->var == LBNN_INT_NONE ? 0 : sigma;
    const int8_t *w = layer->weight8;
    int32_t any = 0;
    int n = 0;
    for (; n + 1 < rows; n += 2) {
        any |= lbnn_int8_pair(w, mean, given, words, out + n, var + n);
        w += 4 * words;
        LBNN_HOLD(w);
    }
    if (n < rows) {
        var[n] = lbnn_int8_row(w, mean, given, words, out + n);
        any |= var[n];
    }
    lbnn_int_results(layer, from, spread, out, var, to, 8, any);
}

/* ---- means of 12 bits ---------------------------------------------------------------------------- */

/* sum(e w) and, where the input has sigmas, 1 + sum(((s w) >> 12)^2) of a row. */
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

LBNN_KERNEL LBNN_FAST void lbnn_int16_linear(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                             const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                             int32_t *out, int32_t *var, lbnn_int_scale *to)
{
    const int words = (layer->in_len + 1) >> 1;
    const int known = from->var == LBNN_INT_NONE;
    const int16_t *w = layer->weight16;
    int32_t any = 0;
    for (int n = 0; n < layer->out_len; n++, w += 2 * words) {
        var[n] = known ? lbnn_int16_row(w, mean, 0, words, out + n) : lbnn_int16_row(w, mean, sigma, words, out + n);
        any |= var[n];
    }
    lbnn_int_results(layer, from, spread, out, var, to, 12, any);
}

#endif
