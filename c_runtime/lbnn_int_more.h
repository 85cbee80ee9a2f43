/* lbnn_int_more.h: sums, joins, known scales and the variance head in integers.
 *
 *     lbnn_int_affine(rows, exponents..., mean, var, from, out, out_var, to, n)     wide -> wide
 *     lbnn_int_add(a, a_sigma, a_scale, b, b_sigma, b_scale, mean, var, to, n)      narrow, narrow -> wide
 *     lbnn_int_join_scale(to, from), lbnn_int_join(...)                            narrow parts -> narrow
 *     lbnn_int_known(from, sigma, to, words)                                        known, narrow -> narrow
 *     lbnn_int_variance_head(mean, var, from, out, out_var, to, n)                  wide -> wide
 */
#ifndef LBNN_INT_MORE_H
#define LBNN_INT_MORE_H

#include "lbnn_int_linear.h"

/* Sigmas of known values, whose means stay where they are: zeros in `words` words. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_known(const lbnn_int_scale *from, int32_t *sigma, lbnn_int_scale *to, int words)
{
    for (int i = 0; i < words; i++) {
        LBNN_HOLD(sigma); /* or the loop becomes a call of memset */
        sigma[i] = 0;
    }
    to->mean = from->mean;
    to->var = LBNN_INT_NONE;
}

/* E' = s E + t, V' = s^2 V; the rows are those of a layer. May work in place. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_affine(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *var,
                                         const lbnn_int_scale *from, int32_t *out, int32_t *out_var, lbnn_int_scale *to)
{
    const int32_t scale = layer->scale_exponent;
    const lbnn_int_moves moves = lbnn_int_meet(from->mean + 1 + scale, layer->bias_exponent, from->var + 2 + 2 * scale,
                                               2 * LBNN_INT_NONE, LBNN_INT_NONE, to);
    lbnn_int_look(to);
    for (int i = 0; i < layer->out_len; i++) {
        const uint16_t *const stored = layer->rows + LBNN_INT_ROW * i;
        const lbnn_int_row row = lbnn_int_row_of(stored, &moves);
        out[i] = lbnn_int_row_mean(&row, stored[4] >> 15 ? -mean[i] : mean[i]);
        out_var[i] = var[i] ? lbnn_int_row_var(&row, lbnn_int_up(var[i], 2), 0) : 0;
        lbnn_int_look_at(to, out[i], out_var[i]);
    }
}

/* Means and variances add; a known value has sigma null. May work in place of either: from the last to the first. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_add(const int32_t *a, const int32_t *a_sigma, const lbnn_int_scale *a_scale,
                                      const int32_t *b, const int32_t *b_sigma, const lbnn_int_scale *b_scale,
                                      int32_t *mean, int32_t *var, lbnn_int_scale *to, int n)
{
    const int32_t top = lbnn_int_larger(a_scale->mean, b_scale->mean);
    const int32_t wide = 2 * lbnn_int_larger(a_scale->var, b_scale->var);
    const int32_t by_a = lbnn_int_apart(top, a_scale->mean), by_b = lbnn_int_apart(top, b_scale->mean);
    const int32_t var_a = lbnn_int_apart(wide, 2 * a_scale->var), var_b = lbnn_int_apart(wide, 2 * b_scale->var);
    lbnn_int_look(to);
    for (int i = n - 1; i >= 0; i--) {
        const int32_t s = a_sigma ? lbnn_int_at(a_sigma, i) : 0;
        const int32_t t = b_sigma ? lbnn_int_at(b_sigma, i) : 0;
        mean[i] = ((lbnn_int_at(a, i) * 16384) >> by_a) + ((lbnn_int_at(b, i) * 16384) >> by_b);
        var[i] = lbnn_int_up(s * s, var_a) + lbnn_int_up(t * t, var_b);
        lbnn_int_look_at(to, mean[i], var[i]);
    }
    to->mean = top - 14;
    to->var = wide;
}

/* The larger exponents, of a value that is joined of parts; `first` begins anew. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_join_scale(const lbnn_int_scale *from, lbnn_int_scale *to, int first)
{
    to->mean = first ? from->mean : lbnn_int_larger(to->mean, from->mean);
    to->var = first ? from->var : lbnn_int_larger(to->var, from->var);
}

/* Puts mantissa i of n into its word, in any order; the upper half of a last word is 0. */
LBNN_INLINE void lbnn_int_replace(int32_t *words, int i, int n, int32_t x)
{
    const int32_t word = words[i >> 1];
    words[i >> 1] = i & 1 ? lbnn_int_word(word, x) : lbnn_int_word(x, i + 1 < n ? lbnn_int_second(word) : 0);
}

/* A part into its place of a joined value, whose exponents are known: `count` runs of `length`, `step` apart. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_join(const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *from,
                                       int32_t *out, int32_t *out_sigma, const lbnn_int_scale *to,
                                       int count, int length, int step, int ahead)
{
    const int32_t drop = lbnn_int_apart(to->mean, from->mean);
    const int32_t move = lbnn_int_apart(to->var, from->var);
    for (int i = 0; i < count * length; i++) {
        const int place = (i / length) * step + i % length + ahead;
        const int32_t e = lbnn_int_at(mean, i);
        const int32_t x = drop ? lbnn_int_near(e, drop) : e;
        const int32_t s = lbnn_int_up(lbnn_int_at(sigma, i), move);
        lbnn_int_replace(out, place, count * step, x);
        lbnn_int_replace(out_sigma, place, count * step, s);
    }
}

/* 2^-f, then log(1+u)/u, over [0, 1] in 32 cells, in units of 2^-15. */
static const uint16_t lbnn_int_soft[66] LBNN_UNUSED = {
    32768, 32066, 31379, 30707, 30049, 29405, 28775, 28158, 27555, 26965, 26387, 25821,
    25268, 24727, 24197, 23678, 23171, 22674, 22189, 21713, 21248, 20793, 20347, 19911,
    19484, 19067, 18658, 18259, 17867, 17485, 17110, 16743, 16384, 32768, 32267, 31785,
    31322, 30877, 30447, 30034, 29634, 29248, 28876, 28515, 28166, 27827, 27500, 27181,
    26873, 26573, 26282, 25999, 25723, 25455, 25194, 24940, 24692, 24450, 24215, 23985,
    23761, 23541, 23327, 23118, 22914, 22714
};

LBNN_INLINE int32_t lbnn_int_soft_at(const uint16_t *table, int32_t x)
{
    const int32_t cell = lbnn_int_smaller(x >> 10, 31);
    const int32_t step = LBNN_AS(int32_t, table[cell + 1]) - LBNN_AS(int32_t, table[cell]);
    return LBNN_AS(int32_t, table[cell]) + ((step * (x - (cell << 10))) >> 10);
}

/* log(1 + e^x) of x = mean 2^exponent as a mantissa of 29 bits; *own is its exponent.
 * log(1 + e^x) = max(x, 0) + u R(u), u = e^-|x| = 2^-q 2^-f, R(u) = log(1+u)/u. */
LBNN_KERNEL LBNN_SMALL int32_t lbnn_int_softplus(int32_t mean, int32_t exponent, int32_t *own)
{
    const int32_t most = 0x3fffffff;
    const int32_t size = lbnn_int_abs(mean);
    const int32_t left = exponent + 15 > 0 ? lbnn_int_smaller(exponent + 15, 30) : 0;
    const int32_t whole = size >> (exponent + 15 < 0 ? lbnn_int_smaller(-(exponent + 15), 31) : 0);
    const int held = whole <= most >> left;
    int32_t a = most;
    if (whole <= most >> left) {
        a = whole << left;
    }
    const int32_t power = a + lbnn_int_times(a, 29013u); /* log2(e) - 1 in units of 2^-16 */
    const int32_t q = lbnn_int_smaller(power >> 15, 31);
    const int32_t p = lbnn_int_soft_at(lbnn_int_soft, power & 32767);
    int32_t mantissa = lbnn_int_up(p * lbnn_int_soft_at(lbnn_int_soft + 33, p >> q), 15);
    *own = -15 - (power >> 15);
    if (mean >= 0) {
        mantissa = held ? a + lbnn_int_up(mantissa, q) : size;
        *own = held ? -15 : exponent;
    }
    if (mantissa < 0x10000000) {
        const int32_t spare = 29 - lbnn_int_bits(LBNN_AS(uint32_t, mantissa));
        mantissa = lbnn_int_lifted(mantissa, spare);
        *own -= spare;
    }
    return mantissa;
}

/* E' = E of the first n, V' = their V + softplus(E of the n behind them). May work in place. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_variance_head(const int32_t *mean, const int32_t *var, const lbnn_int_scale *from,
                                                int32_t *out, int32_t *out_var, lbnn_int_scale *to, int n)
{
    const int32_t exponent = from->mean;
    int32_t own, top = from->var;
    for (int i = 0; i < n; i++) {
        lbnn_int_softplus(mean[n + i], exponent, &own);
        top = lbnn_int_larger(top, own);
    }
    top = (top + 1) & ~1;
    const int32_t move = lbnn_int_apart(top, from->var);
    lbnn_int_look(to);
    for (int i = 0; i < n; i++) {
        const int32_t noise = lbnn_int_softplus(mean[n + i], exponent, &own);
        out[i] = mean[i];
        out_var[i] = lbnn_int_up_twice(var[i], 2, move) + lbnn_int_up_twice(noise, 2, lbnn_int_apart(top, own));
        lbnn_int_look_at(to, out[i], out_var[i]);
    }
    to->mean = exponent;
    to->var = top + 2;
}

#endif
