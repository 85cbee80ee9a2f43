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

/* One output of its sums. */
LBNN_INLINE lbnn_int_result lbnn_int_finish(const uint16_t *row, const lbnn_int_moves *d, int32_t sum, int32_t spread,
                                            int32_t shared)
{
    const int32_t shifts = row[4];
    const int32_t km = shifts & 31;
    const int32_t bias = LBNN_AS(int32_t, LBNN_AS(uint32_t, row[5]) | LBNN_AS(uint32_t, row[6]) << 16);
    const int32_t e = lbnn_int_times(sum, row[0]);
    const int32_t v = lbnn_int_times_up(spread, row[1]);
    const int32_t w = lbnn_int_times_up(shared, row[2]);
    const int32_t c = LBNN_AS(int32_t, row[3]) << 12;
    lbnn_int_result r;
    r.mean = ((e >> km) >> d->mean) + (((bias >> 2) >> (bias & 31)) >> d->bias);
    r.var = lbnn_int_up_twice(v, 2 * km, d->spread) + lbnn_int_up_twice(w, (shifts >> 5) & 31, d->shared)
          + lbnn_int_up_twice(c, (shifts >> 10) & 31, d->noise);
    return r;
}

/* What the variances of the weights come to: B for all rows, or a sum for each; its exponent is LBNN_INT_NONE where that
 * is nothing. */
typedef struct {
    const int32_t *sums; /* of each row, or null */
    int32_t shared;
    int32_t exponent;
} lbnn_int_spread;

/* Weights that are known. */
LBNN_KERNEL void lbnn_int_no_spread(lbnn_int_spread *spread)
{
    spread->sums = 0;
    spread->shared = 0;
    spread->exponent = LBNN_INT_NONE;
}

/* beta^2 x^2 of a mantissa, moved right by `fold`. */
LBNN_INLINE int32_t lbnn_int_square(int32_t x, uint32_t beta, int32_t fold)
{
    const uint32_t size = (LBNN_AS(uint32_t, lbnn_int_abs(x)) * beta + 0xffffu) >> 16;
    return LBNN_AS(int32_t, (size * size) >> fold);
}

/* The sum of beta^2 x^2 over all mantissas x, one more for each; without beta, of x^2. */
LBNN_INLINE int32_t lbnn_int_squares(const lbnn_int_layer *layer, const int32_t *words)
{
    const uint16_t *beta = layer->columns;
    const int32_t fold = layer->fold;
    const int n = layer->in_len;
    int32_t sum = n;
    if (!beta) {
        for (int i = 0; i < n; i++) {
            const int32_t x = lbnn_int_get(words, i);
            sum += (x * x) >> fold;
        }
        return sum;
    }
    const uint16_t *const end = beta + (n & ~1);
    for (; beta < end; beta += 2) {
        const int32_t word = *words++;
        sum += lbnn_int_square(lbnn_int_first(word), beta[0], fold);
        sum += lbnn_int_square(lbnn_int_second(word), beta[1], fold);
    }
    return n & 1 ? sum + lbnn_int_square(lbnn_int_first(*words), *beta, fold) : sum;
}

/* B = sum(beta^2 E^2) + sum(beta^2 V), each part at the larger exponent. */
LBNN_KERNEL void lbnn_int_shared(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                 const lbnn_int_scale *from, lbnn_int_spread *spread)
{
    const int32_t exponents[2] = {from->mean, from->var};
    const int32_t top = lbnn_int_larger(from->mean, from->var);
    spread->sums = 0;
    spread->shared = 0;
    spread->exponent = 2 * (top + layer->column_exponent) + layer->fold;
    for (int part = 0; part < 2; part++) {
        if (exponents[part] != LBNN_INT_NONE) {
            const int32_t sum = lbnn_int_squares(layer, part ? sigma : mean);
            spread->shared += lbnn_int_up(sum, lbnn_int_apart(2 * top, 2 * exponents[part]));
        }
    }
}

/* sum(((u p + 128) >> 8)^2) of every row, two at a time. */
LBNN_INLINE void lbnn_int_free_sums(const lbnn_int_layer *layer, const int32_t *p, int32_t *sums)
{
    const int n = layer->in_len;
    const uint8_t *u = layer->free;
    const int32_t *const end = p + n;
    for (int row = 0; row < layer->out_len; row += 2, u += n) {
        const uint8_t *next = row + 1 < layer->out_len ? u + n : u; /* the last row alone is added up twice */
        int32_t even = 1, odd = 1;
        for (const int32_t *q = p; q < end; q++) {
            int32_t t = (*u++ * *q + 128) >> 8;
            even += t * t;
            t = (*next++ * *q + 128) >> 8;
            odd += t * t;
        }
        sums[row] = even;
        if (row + 1 < layer->out_len) {
            sums[row + 1] = odd;
        }
    }
}

/* For each input p = c sqrt(E^2 + V), rounded up, then the sums; the exponent is that of ((u p) >> 8)^2. `p` has room for
 * the inputs, and for the outputs behind them. */
LBNN_KERNEL void lbnn_int_moments(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                  const lbnn_int_scale *from, int32_t *p, lbnn_int_spread *spread)
{
    const int32_t square = 2 * from->mean + 2;
    const int32_t var = 2 * from->var;
    const int32_t top = lbnn_int_larger(square, var);
    const int32_t by_square = lbnn_int_apart(top, square);
    const int32_t by_var = lbnn_int_apart(top, var);
    const int known = from->var == LBNN_INT_NONE;
    int32_t most = 0;
    for (int i = 0; i < layer->in_len; i++) {
        const int32_t e = lbnn_int_get(mean, i);
        const int32_t s = known ? 0 : lbnn_int_get(sigma, i);
        p[i] = lbnn_int_up_twice(e * e, 2, by_square) + lbnn_int_up(s * s, by_var);
        most = lbnn_int_larger(most, p[i]);
    }
    const int32_t lift = lbnn_int_lift(most);
    for (int i = 0; i < layer->in_len; i++) {
        if (p[i]) {
            const lbnn_int_root r = lbnn_int_sqrt(p[i] << lift);
            const uint32_t product = LBNN_AS(uint32_t, r.sigma) * layer->columns[i];
            p[i] = lbnn_int_up(lbnn_int_up(LBNN_AS(int32_t, product), 31 - layer->free_bits), r.half);
        }
    }
    const int32_t root = ((top - lift) >> 1) + layer->column_exponent + 15 - layer->free_bits;
    spread->sums = most ? p + layer->in_len : 0;
    spread->shared = 0;
    spread->exponent = most ? 2 * root + 16 : LBNN_INT_NONE;
    lbnn_int_free_sums(layer, p, p + layer->in_len);
}

/* How far left n sums can move, so that the largest has 28 bits. */
LBNN_INLINE int32_t lbnn_int_room(const int32_t *sums, int n, int32_t more)
{
    int32_t any = 0;
    for (int i = 0; i < n; i++) {
        any |= sums[i] + more;
    }
    return lbnn_int_larger(28 - lbnn_int_bits(LBNN_AS(uint32_t, any)), 0);
}

/* The results of a layer, in place of its sums. */
LBNN_KERNEL void lbnn_int_results(const lbnn_int_layer *layer, const lbnn_int_scale *from,
                                  const lbnn_int_spread *spread, int32_t *out, int32_t *var, lbnn_int_scale *to, int bits)
{
    const int32_t some = from->var != LBNN_INT_NONE;
    const int32_t *shared = spread->sums ? spread->sums : &spread->shared;
    const int step = spread->sums ? 1 : 0;
    const int32_t lift = lbnn_int_room(var, layer->out_len, some);
    const int32_t shared_lift = lbnn_int_room(shared, step ? layer->out_len : 1, 0);
    const lbnn_int_moves moves = lbnn_int_meet(from->mean + layer->scale_exponent, layer->bias_exponent,
                                               2 * (from->var + layer->scale_exponent + bits) - lift,
                                               spread->exponent + layer->spread_exponent - shared_lift,
                                               layer->noise_exponent, to);
    const uint16_t *row = layer->rows;
    int32_t largest = 0, widest = 0;
    for (int n = 0; n < layer->out_len; n++, row += LBNN_INT_ROW) {
        const lbnn_int_result r = lbnn_int_finish(row, &moves, out[n], (var[n] + some) << lift,
                                                  *shared << shared_lift);
        shared += step;
        out[n] = r.mean;
        var[n] = r.var;
        largest = lbnn_int_larger(largest, lbnn_int_size(r.mean));
        widest = lbnn_int_larger(widest, r.var);
    }
    to->largest = largest;
    to->widest = widest;
}

/* ---- means of 8 bits ----------------------------------------------------------------------------- */

/* A row whose weights stand `step` apart. */
LBNN_INLINE void lbnn_int8_row(const int8_t *w, int step, const int32_t *mean, const int32_t *sigma, int words,
                               int32_t *out, int32_t *var)
{
    int32_t sum = 0, spread = 0;
    for (int k = 0; k < words; k++, w += 2 * step) {
        const int32_t first = w[0], second = w[step];
        sum += lbnn_int_first(mean[k]) * first + lbnn_int_second(mean[k]) * second;
        if (sigma) {
            const int32_t s = (lbnn_int_first(sigma[k]) * first) >> 8;
            const int32_t t = (lbnn_int_second(sigma[k]) * second) >> 8;
            spread += s * s + t * t;
        }
    }
    *out = sum;
    *var = spread;
}

/* Two rows, of which four weights stand in a word. */
#if defined(LBNN_INT_HELIUM)
LBNN_INLINE void lbnn_int8_mean_pair(const int8_t *w, const int32_t *mean, int words, int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0;
    for (int left = words; left > 0; left -= 4, w += 16, mean += 4) {
        const int8x16_t both = vldrbq_z_s8(w, vctp8q(LBNN_AS(uint32_t, 4 * left)));
        const int16x8_t e = vreinterpretq_s16_s32(vldrwq_z_s32(mean, vctp32q(LBNN_AS(uint32_t, left))));
        even = vmladavaq_s16(even, vmovlbq_s8(both), e);
        odd = vmladavaq_s16(odd, vmovltq_s8(both), e);
    }
    out[0] = even;
    out[1] = odd;
    var[0] = var[1] = 0;
}

/* (s w) >> 8 is the upper half of s (w 2^8). */
LBNN_INLINE void lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0, even_spread = 0, odd_spread = 0;
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
    out[0] = even;
    out[1] = odd;
    var[0] = even_spread;
    var[1] = odd_spread;
}
#elif defined(LBNN_INT_DSP)
/* Weights of the even and of the odd row, and the squares of (s w) >> 8 of both inputs. */
LBNN_INLINE uint32_t lbnn_int8_four(const int8_t *w)
{
    uint32_t four;
    LBNN_MEMCPY(&four, w, sizeof four);
    return four;
}

LBNN_INLINE int32_t lbnn_int8_odd(uint32_t four)
{
    int32_t odd;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(four));
    return odd;
}

LBNN_INLINE void lbnn_int8_mean_pair(const int8_t *w, const int32_t *mean, int words, int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0;
    for (const int32_t *const end = mean + words; mean < end; mean++, w += 4) {
        const uint32_t four = lbnn_int8_four(w);
        even = __smlad(__sxtb16(four), *mean, even);
        odd = __smlad(lbnn_int8_odd(four), *mean, odd);
    }
    out[0] = even;
    out[1] = odd;
    var[0] = var[1] = 0;
}

LBNN_INLINE void lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0, even_spread = 0, odd_spread = 0;
/* In t the lower halves of s and of a row's weights give (s w) >> 8, in four the upper ones s w. */
#define LBNN_INT_STEP                                                                              \
    __asm__("ldr %[four], [%[w]], #4\n\t"                                                          \
            "ldr %[e], [%[mean]], #4\n\t"                                                          \
            "ldr %[s], [%[sigma]], #4\n\t"                                                         \
            "sxtb16 %[x], %[four]\n\t"                                                             \
            "sxtb16 %[four], %[four], ror #8\n\t"                                                  \
            "smlad %[even], %[x], %[e], %[even]\n\t"                                               \
            "smlad %[odd], %[four], %[e], %[odd]\n\t"                                              \
            "smulbb %[e], %[s], %[x]\n\t"                                                          \
            "smultt %[x], %[s], %[x]\n\t"                                                          \
            "asr %[e], %[e], #8\n\t"                                                               \
            "pkhbt %[e], %[e], %[x], lsl #8\n\t"                                                   \
            "smlad %[even_spread], %[e], %[e], %[even_spread]\n\t"                                 \
            "smulbb %[e], %[s], %[four]\n\t"                                                       \
            "smultt %[x], %[s], %[four]\n\t"                                                       \
            "asr %[e], %[e], #8\n\t"                                                               \
            "pkhbt %[e], %[e], %[x], lsl #8\n\t"                                                   \
            "smlad %[odd_spread], %[e], %[e], %[odd_spread]"                                       \
            : [w] "+r"(w), [mean] "+r"(mean), [sigma] "+r"(sigma), [even] "+r"(even),              \
              [odd] "+r"(odd), [even_spread] "+r"(even_spread), [odd_spread] "+r"(odd_spread),     \
              [four] "=&r"(four), [e] "=&r"(e), [s] "=&r"(s), [x] "=&r"(x)                         \
            :                                                                                      \
            : "memory")
    int32_t four, e, s, x;
    const int32_t *const end = mean + (words & ~1);
    while (mean < end) {
        LBNN_INT_STEP;
        LBNN_INT_STEP;
    }
    if (words & 1) {
        LBNN_INT_STEP;
    }
#undef LBNN_INT_STEP
    out[0] = even;
    out[1] = odd;
    var[0] = even_spread;
    var[1] = odd_spread;
}
#elif !defined(__ARM_ARCH_6M__) && !defined(LBNN_OPTIMIZE_SIZE)
LBNN_INLINE void lbnn_int8_mean_pair(const int8_t *w, const int32_t *mean, int words, int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0;
    for (int k = 0; k < words; k++, w += 4) {
        const int32_t e = lbnn_int_first(mean[k]), f = lbnn_int_second(mean[k]);
        even += e * w[0] + f * w[2];
        odd += e * w[1] + f * w[3];
    }
    out[0] = even;
    out[1] = odd;
    var[0] = var[1] = 0;
}

LBNN_INLINE void lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                int32_t *out, int32_t *var)
{
    int32_t even = 0, odd = 0, even_spread = 0, odd_spread = 0;
#define LBNN_INT_TERM(sum, spread, e, s, weight)                                                   \
    do {                                                                                           \
        int32_t x = (weight);                                                                      \
        sum += (e) * x;                                                                            \
        x = ((s) * x) >> 8;                                                                        \
        spread += x * x;                                                                           \
    } while (0)
    const int32_t *const end = mean + words;
    while (mean < end) {
        const int32_t e = *mean++, s = *sigma++;
        const int32_t f = lbnn_int_first(e), r = lbnn_int_first(s);
        LBNN_INT_TERM(even, even_spread, f, r, w[0]);
        LBNN_INT_TERM(odd, odd_spread, f, r, w[1]);
        LBNN_HOLD(w);
        const int32_t g = lbnn_int_second(e), t = lbnn_int_second(s);
        LBNN_INT_TERM(even, even_spread, g, t, w[2]);
        LBNN_INT_TERM(odd, odd_spread, g, t, w[3]);
        w += 4;
    }
#undef LBNN_INT_TERM
    out[0] = even;
    out[1] = odd;
    var[0] = even_spread;
    var[1] = odd_spread;
}
#else
LBNN_INLINE void lbnn_int8_mean_pair(const int8_t *w, const int32_t *mean, int words, int32_t *out, int32_t *var)
{
    for (int r = 0; r < 2; r++) {
        lbnn_int8_row(w + r, 2, mean, 0, words, out + r, var + r);
    }
}

LBNN_INLINE void lbnn_int8_pair(const int8_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                int32_t *out, int32_t *var)
{
    for (int r = 0; r < 2; r++) {
        lbnn_int8_row(w + r, 2, mean, sigma, words, out + r, var + r);
    }
}
#endif

/* sum(e w) and sum(((s w) >> 8)^2) of every row; sigma is null where there is none. */
LBNN_KERNEL void lbnn_int8_sums(const int8_t *w, int rows, int words, const int32_t *mean, const int32_t *sigma,
                                int32_t *sum, int32_t *square)
{
    const int32_t *const end = sum + (rows & ~1);
    if (sigma) {
        for (; sum < end; sum += 2, square += 2, w += 4 * words) {
            lbnn_int8_pair(w, mean, sigma, words, sum, square);
        }
    } else {
        for (; sum < end; sum += 2, square += 2, w += 4 * words) {
            lbnn_int8_mean_pair(w, mean, words, sum, square);
        }
    }
    if (rows & 1) {
        lbnn_int8_row(w, 1, mean, sigma, words, sum, square);
    }
}

LBNN_KERNEL void lbnn_int8_linear(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                  const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                  int32_t *out, int32_t *var, lbnn_int_scale *to)
{
    const int words = (layer->in_len + 1) >> 1;
    const int32_t *const given = from->var == LBNN_INT_NONE ? 0 : sigma;
    lbnn_int8_sums(layer->weight8, layer->out_len, words, mean, given, out, var);
    lbnn_int_results(layer, from, spread, out, var, to, 8);
}

/* ---- means of 12 bits ---------------------------------------------------------------------------- */

LBNN_INLINE void lbnn_int16_row(const int16_t *w, const int32_t *mean, const int32_t *sigma, int words,
                                int32_t *out, int32_t *var)
{
    int32_t sum = 0, spread = 0;
    for (int k = 0; k < words; k++, w += 2) {
        sum += lbnn_int_first(mean[k]) * w[0] + lbnn_int_second(mean[k]) * w[1];
        if (sigma) {
            const int32_t s = (lbnn_int_first(sigma[k]) * w[0]) >> 12;
            const int32_t t = (lbnn_int_second(sigma[k]) * w[1]) >> 12;
            spread += s * s + t * t;
        }
    }
    *out = sum;
    *var = spread;
}

LBNN_KERNEL void lbnn_int16_sums(const int16_t *w, int rows, int words, const int32_t *mean, const int32_t *sigma,
                                 int32_t *sum, int32_t *square)
{
    for (int n = 0; n < rows; n++, w += 2 * words) {
        if (sigma) {
            lbnn_int16_row(w, mean, sigma, words, sum + n, square + n);
        } else {
            lbnn_int16_row(w, mean, 0, words, sum + n, square + n);
        }
    }
}

LBNN_KERNEL void lbnn_int16_linear(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                   const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                   int32_t *out, int32_t *var, lbnn_int_scale *to)
{
    const int words = (layer->in_len + 1) >> 1;
    const int32_t *const given = from->var == LBNN_INT_NONE ? 0 : sigma;
    lbnn_int16_sums(layer->weight16, layer->out_len, words, mean, given, out, var);
    lbnn_int_results(layer, from, spread, out, var, to, 12);
}

#endif
