/* lbnn_int_map.h: feature maps in integers.
 *
 * A map is narrow (lbnn_int.h), and the channels of a pixel stand beside each other, whatever PyTorch's order is. Pixels
 * are computed one after the other, each with exponents of its own; in the end all are brought to the largest:
 *
 *     lbnn_int_pack_map(source, factors, step, mean, sigma, to, channels, pixels, bits...)     floats -> a map
 *     lbnn_int_level(out, sigma, exponents, to, count, length, n)                       common exponents
 *     lbnn_int_map_leaky(mean, sigma, from, out, out_sigma, to, n, bits..., table, work)
 *     lbnn_int_map_add(a, a_sigma, a_scale, b, b_sigma, b_scale, out, sigma, to, n, bits..., work)
 *     lbnn_int_map_affine(layer, mean, sigma, from, out, out_sigma, to, pixels, bits..., work)
 *     lbnn_int_unfold(mean, sigma, from, out, var, to, channels, pixels)                a map -> wide, PyTorch's order
 *
 * `work` is memory that the generator gives: wide results of one pixel, and a word of exponents for each.
 */
#ifndef LBNN_INT_MAP_H
#define LBNN_INT_MAP_H

#include "lbnn_int_more.h"

/* Elements that are taken at once where each is for itself. */
#define LBNN_INT_CHUNK 32

/* ---- exponents of pixels ------------------------------------------------------------------------- */

/* Exponents in a word; what is below 16 bits stands for nothing at all, and they do not go beyond. */
LBNN_INLINE int32_t lbnn_int_exponents(const lbnn_int_scale *scale)
{
    return lbnn_int_word(lbnn_int_smaller(lbnn_int_larger(scale->mean, -32768), 32767),
                         lbnn_int_smaller(lbnn_int_larger(scale->var, -32768), 32767));
}

/* Mantissas at + 0 .. at + n - 1, moved right: means to nearest, sigmas upwards. */
LBNN_INLINE void lbnn_int_lower_means(int32_t *words, int at, int n, int32_t by)
{
    for (int i = at; i < at + n; i++) {
        lbnn_int_set(words, i, lbnn_int_near(lbnn_int_at(words, i), by));
    }
}

LBNN_INLINE void lbnn_int_lower_sigmas(int32_t *words, int at, int n, int32_t by)
{
    for (int i = at; i < at + n; i++) {
        lbnn_int_set(words, i, lbnn_int_up(lbnn_int_at(words, i), by));
    }
}

/* `count` pixels of `length` mantissas, n in all, each with its exponents, at the largest of them. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_level(int32_t *mean, int32_t *sigma, const int32_t *exponents, lbnn_int_scale *to,
                                int count, int length, int n)
{
    int32_t top = -32768, wide = -32768;
    for (int i = 0; i < count; i++) {
        top = lbnn_int_larger(top, lbnn_int_first(exponents[i]));
        wide = lbnn_int_larger(wide, lbnn_int_second(exponents[i]));
    }
    for (int i = 0, at = 0; i < count; i++, at += length) {
        const int32_t by = lbnn_int_apart(top, lbnn_int_first(exponents[i]));
        const int32_t widely = lbnn_int_apart(wide, lbnn_int_second(exponents[i]));
        const int own = lbnn_int_smaller(length, n - at);
        if (by > 0) {
            lbnn_int_lower_means(mean, at, own, by);
        }
        if (widely > 0) {
            lbnn_int_lower_sigmas(sigma, at, own, widely);
        }
    }
    if (LBNN_INT_HAS_ODD_PIXELS && (n & 1)) { /* the rest of the last word */
        lbnn_int_set(mean, n, 0);
        lbnn_int_set(sigma, n, 0);
    }
    to->mean = top == -32768 ? LBNN_INT_NONE : top;
    to->var = wide == -32768 ? LBNN_INT_NONE : wide;
}

/* Mantissas into their places at + 0 .. at + n - 1 of a map. */
LBNN_INLINE void lbnn_int_place(const int32_t *words, int32_t *map, int at, int n)
{
    for (int i = 0; i < n; i++) {
        lbnn_int_set(map, at + i, lbnn_int_at(words, i));
    }
}

/* Wide results of a pixel become its mantissas, at + 0 .. at + n - 1 of a map; gives its exponents. A pixel whose first
 * mantissa is not that of a word is made where it lies. */
LBNN_KERNEL LBNN_SMALL int32_t lbnn_int_settle(int32_t *mean, int32_t *var, const lbnn_int_scale *wide,
                                    int32_t *out, int32_t *sigma, int at, int n, int mean_bits, int sigma_bits,
                                    const uint16_t *table)
{
    const int apart = LBNN_INT_HAS_ODD_PIXELS && ((at | n) & 1);
    lbnn_int_scale own;
    int32_t *const to = apart ? mean : out + (at >> 1), *const to_sigma = apart ? var : sigma + (at >> 1);
    if (table) {
        lbnn_int_activate(mean, var, wide, to, to_sigma, &own, n, mean_bits, sigma_bits, table);
    } else {
        lbnn_int_narrow(mean, var, wide, to, to_sigma, &own, n, mean_bits, sigma_bits);
    }
    if (apart) {
        lbnn_int_place(mean, out, at, n);
        lbnn_int_place(var, sigma, at, n);
    }
    return lbnn_int_exponents(&own);
}

/* ---- there and back ------------------------------------------------------------------------------ */

/* (E + t) s and s^2 V of patterns of floats; `factors` are t, then s, `step` apart. */
LBNN_INLINE uint32_t lbnn_int_moved(uint32_t pattern, const float *factors, int step)
{
    const uint32_t shift = lbnn_float_bits(factors[0]), factor = lbnn_float_bits(factors[step]);
    const lbnn_int_float x = lbnn_int_unpack(pattern), t = lbnn_int_unpack(shift), s = lbnn_int_unpack(factor);
    const int32_t top = lbnn_int_larger(x.field, t.field);
    const int32_t a = (pattern >> 31 ? -x.mantissa : x.mantissa) * 64;
    const int32_t b = (shift >> 31 ? -t.mantissa : t.mantissa) * 64;
    const int32_t sum = (a >> lbnn_int_apart(top, x.field)) + (b >> lbnn_int_apart(top, t.field));
    const int32_t product = lbnn_int_times(sum, LBNN_AS(uint32_t, s.mantissa) >> 8);
    return lbnn_int_finite(lbnn_int_float_of(factor >> 31 ? -product : product, top + s.field - 282, 0));
}

LBNN_INLINE uint32_t lbnn_int_moved_variance(uint32_t pattern, const float *factors, int step)
{
    const lbnn_int_float v = lbnn_int_unpack(pattern), s = lbnn_int_unpack(lbnn_float_bits(factors[step]));
    const uint32_t m = LBNN_AS(uint32_t, s.mantissa) >> 8;
    const int32_t spread = lbnn_int_times_up(lbnn_int_times_up(v.mantissa * 64, m), m);
    return lbnn_int_finite(lbnn_int_float_of(spread, v.field + 2 * s.field - 408, 1));
}

/* An input: floats, or mantissas with an exponent. `factors`, where given, are `count` of t and then of s, each for
 * `run` elements. */
typedef struct {
    const float *x;
    const int32_t *q;
    int32_t exponent;
    const float *factors;
    int count;
    int run;
} lbnn_int_reader;

LBNN_INLINE uint32_t lbnn_int_read_mean(const lbnn_int_reader *from, int i)
{
    const uint32_t pattern = lbnn_int_pattern(from->x, from->q, from->exponent, 0, i);
    return from->factors ? lbnn_int_moved(pattern, from->factors + i / from->run, from->count) : pattern;
}

LBNN_INLINE uint32_t lbnn_int_read_var(const lbnn_int_reader *from, int i)
{
    const uint32_t pattern = lbnn_int_pattern(from->x, from->q, from->exponent, 1, i) & 0x7fffffffu;
    return from->factors ? lbnn_int_moved_variance(pattern, from->factors + i / from->run, from->count) : pattern;
}

/* Mantissas of means to nearest, the largest with all bits; returns their exponent. */
LBNN_KERNEL LBNN_SMALL int32_t lbnn_int_map_means(const lbnn_int_reader *from, int32_t *mean, int channels, int pixels, int mean_bits)
{
    uint32_t most = 0u;
    for (int i = 0; i < channels * pixels; i++) {
        const uint32_t pattern = lbnn_int_read_mean(from, i) & 0x7fffffffu;
        most = pattern > most ? pattern : most;
    }
    const int32_t top = lbnn_int_unpack(most).field, limit = (1 << mean_bits) - 1;
    int at = 0;
    for (int pixel = 0; pixel < pixels; pixel++) {
        for (int channel = 0; channel < channels; channel++, at++) {
            const uint32_t pattern = lbnn_int_read_mean(from, channel * pixels + pixel);
            const lbnn_int_float f = lbnn_int_unpack(pattern);
            const int32_t drop = lbnn_int_smaller(24 - mean_bits + lbnn_int_behind(top, f.field), 31);
            const int32_t e = lbnn_int_smaller(lbnn_int_near(f.mantissa, drop), limit);
            lbnn_int_put(mean, at, pattern >> 31 ? -e : e);
        }
    }
    return most ? top - 126 - mean_bits : LBNN_INT_NONE;
}

/* Mantissas of sigmas = sqrt(V) upwards; returns their exponent. */
LBNN_KERNEL LBNN_SMALL int32_t lbnn_int_map_sigmas(const lbnn_int_reader *from, int32_t *sigma, int channels, int pixels,
                                        int sigma_bits)
{
    uint32_t widest = 0u;
    for (int i = 0; i < channels * pixels; i++) {
        const uint32_t pattern = lbnn_int_read_var(from, i);
        widest = pattern > widest ? pattern : widest;
    }
    const int32_t wide = (lbnn_int_unpack(widest).field + 1) >> 1;
    int at = 0;
    for (int pixel = 0; pixel < pixels; pixel++) {
        for (int channel = 0; channel < channels; channel++, at++) {
            const lbnn_int_float v = lbnn_int_unpack(lbnn_int_read_var(from, channel * pixels + pixel));
            int32_t s = 0;
            if (v.mantissa) {
                const lbnn_int_root r = lbnn_int_sqrt(v.mantissa << (6 - (v.field & 1)));
                const int32_t distance = lbnn_int_smaller(lbnn_int_behind(wide, (v.field + 1) >> 1) + r.half, 31);
                s = lbnn_int_up(lbnn_int_up(r.sigma, 15 - sigma_bits), distance);
            }
            lbnn_int_put(sigma, at, s);
        }
    }
    return widest ? wide - 63 - sigma_bits : LBNN_INT_NONE;
}

/* An input as a map; `factors` of its standardisation, `count` of t and of s, or null. The mathematics is that of
 * lbnn_int_pack and lbnn_int_standardize. */
LBNN_INLINE void lbnn_int_pack_map(const lbnn_int_source *source, const float *factors, int count, int32_t *mean,
                                   int32_t *sigma, lbnn_int_scale *to, int channels, int pixels,
                                   int mean_bits, int sigma_bits)
{
    const int run = channels * pixels / count;
    const lbnn_int_reader means = {source->mean, source->q, source->scale.mean, factors, count, run};
    to->mean = lbnn_int_map_means(&means, mean, channels, pixels, mean_bits);
    to->var = LBNN_INT_NONE;
    if (source->q_var || source->var) {
        const lbnn_int_reader vars = {source->var, source->q_var, source->scale.var, factors, count, run};
        to->var = lbnn_int_map_sigmas(&vars, sigma, channels, pixels, sigma_bits);
    }
}

/* E = e, V = sigma^2 in PyTorch's order; not in place. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_unfold(const int32_t *e, const int32_t *sigma, const lbnn_int_scale *from,
                                 int32_t *mean, int32_t *var, lbnn_int_scale *to, int channels, int pixels)
{
    for (int pixel = 0, i = 0; pixel < pixels; pixel++) {
        for (int channel = 0; channel < channels; channel++, i++) {
            const int32_t s = lbnn_int_at(sigma, i);
            mean[channel * pixels + pixel] = lbnn_int_at(e, i) * 32768;
            var[channel * pixels + pixel] = s * s;
        }
    }
    to->mean = from->mean - 15;
    to->var = 2 * from->var;
}

/* ---- operators on each element ------------------------------------------------------------------- */

/* The leaky-ReLU of a map; `work` has 2 LBNN_INT_CHUNK words and one for each chunk. May work in place. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_map_leaky(const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *from,
                                    int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int n,
                                    int mean_bits, int sigma_bits, const uint16_t *table, int32_t *work)
{
    int32_t *const var = work + LBNN_INT_CHUNK, *const exponents = var + LBNN_INT_CHUNK;
    int count = 0;
    for (int at = 0; at < n; at += LBNN_INT_CHUNK) {
        const int own = lbnn_int_smaller(LBNN_INT_CHUNK, n - at), word = at >> 1;
        lbnn_int_scale wide;
        lbnn_int_widen(mean + word, sigma + word, from, work, var, &wide, own);
        lbnn_int_activate(work, var, &wide, out + word, out_sigma + word, &wide, own, mean_bits, sigma_bits, table);
        exponents[count] = lbnn_int_exponents(&wide);
        count++;
    }
    lbnn_int_level(out, out_sigma, exponents, to, count, LBNN_INT_CHUNK, n);
}

/* The sum of two maps; `work` as above. May work in place of either. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_map_add(const int32_t *a, const int32_t *a_sigma, const lbnn_int_scale *a_scale,
                                  const int32_t *b, const int32_t *b_sigma, const lbnn_int_scale *b_scale,
                                  int32_t *out, int32_t *sigma, lbnn_int_scale *to, int n,
                                  int mean_bits, int sigma_bits, int32_t *work)
{
    int32_t *const var = work + LBNN_INT_CHUNK, *const exponents = var + LBNN_INT_CHUNK;
    int count = 0;
    for (int at = 0; at < n; at += LBNN_INT_CHUNK) {
        const int own = lbnn_int_smaller(LBNN_INT_CHUNK, n - at), word = at >> 1;
        lbnn_int_scale wide;
        lbnn_int_add(a + word, a_sigma ? a_sigma + word : a_sigma, a_scale, b + word, b_sigma ? b_sigma + word : b_sigma,
                     b_scale, work, var, &wide, own);
        lbnn_int_narrow(work, var, &wide, out + word, sigma + word, &wide, own, mean_bits, sigma_bits);
        exponents[count] = lbnn_int_exponents(&wide);
        count++;
    }
    lbnn_int_level(out, sigma, exponents, to, count, LBNN_INT_CHUNK, n);
}

/* E' = s E + t, V' = s^2 V with s and t of a channel, the rows of a layer; `work` has 2 words a channel and one a pixel.
 * May work in place. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_map_affine(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                     const lbnn_int_scale *from, int32_t *out, int32_t *out_sigma, lbnn_int_scale *to,
                                     int pixels, int mean_bits, int sigma_bits, int32_t *work)
{
    const int n = layer->out_len;
    int32_t *const var = work + n, *const exponents = var + n;
    for (int pixel = 0, at = 0; pixel < pixels; pixel++, at += n) {
        lbnn_int_scale wide = {from->mean - 15, 2 * from->var, 0, 0};
        for (int i = 0; i < n; i++) {
            const int32_t s = lbnn_int_at(sigma, at + i);
            work[i] = lbnn_int_at(mean, at + i) * 32768;
            var[i] = s * s;
        }
        lbnn_int_affine(layer, work, var, &wide, work, var, &wide);
        exponents[pixel] = lbnn_int_settle(work, var, &wide, out, out_sigma, at, n, mean_bits, sigma_bits, 0);
    }
    lbnn_int_level(out, out_sigma, exponents, to, pixels, n, pixels * n);
}

#endif
