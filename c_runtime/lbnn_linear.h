/* lbnn_linear.h: the linear layer on moments.
 *
 *     lbnn_linear(in_mean, in_var, w, out_mean, out_var, in_len, out_len)
 *     lbnn_linear_point(in, w, out_mean, out_var, in_len, out_len)      input without variance
 *
 * Outputs must not overlap inputs.
 *
 * `w` is packed as lbnn_sums.h describes.
 *
 * Each weight is needed once, so nothing can be saved on loading it; what a block of outputs saves is loading
 * and squaring the input. On Cortex-M4F a weight costs two loads, three multiply-adds and a square, 6
 * instructions; blocks of 8 outputs need 6.6 (6.9 with one input at a time), blocks of 4 7.6, one output 13.
 */
#ifndef LBNN_LINEAR_H
#define LBNN_LINEAR_H

#include "lbnn_sums.h"

#if !defined(LBNN_SIMD) && !defined(LBNN_OPTIMIZE_SIZE) && LBNN_BLOCK == 8
#define LBNN_LINEAR_PAIRS 1

/* What one input adds to an output, and to four, before S is made where V stands, and what S adds. */
LBNN_INLINE lbnn_sum lbnn_sum_body(lbnn_sum sum, int kind, lbnn_input x, const lbnn_weight *row)
{
    LBNN_ROUND_PRODUCTS
    const float w = LBNN_MEAN(row[0]);
    sum.mean += x.e * w;
    if (lbnn_is_random(kind)) {
        sum.var += x.v * (w * w);
    }
    return sum;
}

LBNN_INLINE lbnn_four lbnn_four_body(lbnn_four sums, int kind, lbnn_input x, const lbnn_weight *row)
{
    sums.a = lbnn_sum_body(sums.a, kind, x, row);
    sums.b = lbnn_sum_body(sums.b, kind, x, row + 1);
    sums.c = lbnn_sum_body(sums.c, kind, x, row + 2);
    sums.d = lbnn_sum_body(sums.d, kind, x, row + 3);
    return sums;
}

LBNN_INLINE lbnn_four lbnn_four_spread(lbnn_four sums, float s, const lbnn_weight *row)
{
    LBNN_ROUND_PRODUCTS
    sums.a.var += s * LBNN_VAR(row[0]);
    sums.b.var += s * LBNN_VAR(row[1]);
    sums.c.var += s * LBNN_VAR(row[2]);
    sums.d.var += s * LBNN_VAR(row[3]);
    return sums;
}

/* One input and a row of eight: 51 instructions on a Cortex-M4F, 53 where S has a register of its own. */
LBNN_INLINE lbnn_sums lbnn_linear_add(lbnn_sums sums, int kind, float e, float v, const lbnn_weight *row, int width)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_input x = {e, v, 0.0f};
    sums.low = lbnn_four_body(sums.low, kind, x, row);
    LBNN_FENCE();
    sums.high = lbnn_four_body(sums.high, kind, x, row + 4);
    LBNN_FENCE();
    float s = v;
    if (lbnn_is_random(kind)) {
        LBNN_SPENT(s, sums.low.c.var, sums.low.d.var);
        LBNN_SPENT(s, sums.high.a.var, sums.high.b.var);
        LBNN_SPENT(s, sums.high.c.var, sums.high.d.var);
    }
    s = lbnn_is_random(kind) ? s + e * e : e * e;
    sums.low = lbnn_four_spread(sums.low, s, row + LBNN_VARS(width));
    LBNN_FENCE();
    sums.high = lbnn_four_spread(sums.high, s, row + LBNN_VARS(width) + 4);
    return sums;
}

/* The next input, whose load moves its pointer on. */
LBNN_INLINE float lbnn_next(const float **at)
{
    const float x = *(*at)++;
    LBNN_HOLD(*at);
    return x;
}

/* The sums of lbnn_sums_run in the same order, two inputs at a time. On Cortex-M4F a row of eight takes 52.5 instructions,
 * one at a time 55; with three at a time it takes 52.7 and 200 bytes more, with four 53 and 700 more. */
LBNN_INLINE lbnn_sums lbnn_linear_run(lbnn_sums sums, int kind, const float *mean, const float *var,
                                      const lbnn_weight *row, int width, int n)
{
    const int step = lbnn_row_len(kind, width);
    if (!lbnn_is_full(kind)) {
        return lbnn_sums_run(sums, kind, mean, var, 0, 1, row, width, n);
    }
    if (n & 1) {
        sums = lbnn_sums_add(sums, kind, lbnn_input_load(kind, mean, var, 0), row, width);
        row += step;
        mean++;
        var++;
    }
    for (n >>= 1; n > 0; n--) {
        float e = lbnn_next(&mean);
        sums = lbnn_linear_add(sums, kind, e, lbnn_is_random(kind) ? lbnn_next(&var) : e, row, width);
        LBNN_FENCE();
        e = lbnn_next(&mean);
        sums = lbnn_linear_add(sums, kind, e, lbnn_is_random(kind) ? lbnn_next(&var) : e, row + step, width);
        row += 2 * step;
    }
    return sums;
}
#endif

/* LBNN_BLOCK outputs from `o` of a packed block of `width`, all inputs; the inputs of a part are taken in turn. */
LBNN_INLINE void lbnn_linear_some(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, int width,
                                  int o, float *out_mean, float *out_var, int in_len)
{
    const int fold = lbnn_fold(kind);
    for (int from = 0; from < in_len; from += fold) {
        const int n = in_len - from < fold ? in_len - from : fold;
        lbnn_sums sums = lbnn_sums_bias(lbnn_sums_start(kind, w + o, from > 0), width);
#ifdef LBNN_LINEAR_PAIRS
        sums = lbnn_linear_run(sums, kind, in_mean + from, in_var + from, w + lbnn_row_at(kind, width, from) + o, width, n);
#else
        sums = lbnn_sums_run(sums, kind, in_mean + from, in_var + from, 0, 1, w + lbnn_row_at(kind, width, from) + o, width, n);
#endif
        if (from > 0) {
            sums = lbnn_sums_join(sums, out_mean, out_var, o, 1, width - o);
        }
        LBNN_HOLD(out_mean);
        LBNN_HOLD(out_var);
        lbnn_sums_store(sums, out_mean, out_var, o, 1, width - o);
    }
}

/* The same for output `o` alone. */
LBNN_INLINE void lbnn_linear_one(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, int width, int o,
                                 float *out_mean, float *out_var, int in_len)
{
    const int fold = lbnn_fold(kind);
    for (int from = 0; from < in_len; from += fold) {
        const int n = in_len - from < fold ? in_len - from : fold;
        lbnn_sum sum = lbnn_sum_bias(lbnn_sums_start(kind, w + o, from > 0), width);
        sum = lbnn_sum_run(sum, kind, in_mean + from, in_var + from, 0, 1, w + lbnn_row_at(kind, width, from) + o, width, n);
        if (from > 0) {
            sum = lbnn_sum_join(sum, out_mean, out_var, o);
        }
        lbnn_sum_store(sum, out_mean, out_var, o);
    }
}

#ifdef LBNN_HELIUM
/* Both halves of a packed block of 5 to 8 outputs at once: an input is brought to the registers of the core once for
 * both. More sums than these four would leave no register for the weights. */
LBNN_INLINE void lbnn_linear_halves(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, int width,
                                    float *out_mean, float *out_var, int in_len)
{
    const int fold = lbnn_fold(kind);
    for (int from = 0; from < in_len; from += fold) {
        const int end = in_len - from < fold ? in_len : from + fold;
        const lbnn_weight *start = lbnn_sums_start(kind, w, from > 0);
        const lbnn_weight *row = w + lbnn_row_at(kind, width, from);
        lbnn_sums low = lbnn_sums_bias(start, width);
        lbnn_sums high = lbnn_sums_bias(start + LBNN_BLOCK, width);
        for (int i = from; i < end; i++) {
            const lbnn_input x = lbnn_input_load(kind, in_mean, in_var, i);
            low = lbnn_sums_add(low, kind, x, row, width);
            high = lbnn_sums_add(high, kind, x, row + LBNN_BLOCK, width);
            row += lbnn_row_len(kind, width);
        }
        if (from > 0) {
            low = lbnn_sums_join(low, out_mean, out_var, 0, 1, LBNN_BLOCK);
            high = lbnn_sums_join(high, out_mean, out_var, LBNN_BLOCK, 1, width - LBNN_BLOCK);
        }
        lbnn_sums_store(low, out_mean, out_var, 0, 1, LBNN_BLOCK);
        lbnn_sums_store(high, out_mean, out_var, LBNN_BLOCK, 1, width - LBNN_BLOCK);
    }
}
#elif defined(LBNN_SIMD)
/* Four packed blocks at once: a sum has to wait for the one before it, so four are kept going. */
LBNN_INLINE void lbnn_linear_four(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                  float *out_mean, float *out_var, int in_len)
{
    const int block = lbnn_row_at(kind, LBNN_PACK, in_len);
    const int fold = lbnn_fold(kind);
    for (int o = 0; o < LBNN_PACK; o += LBNN_BLOCK) {
        for (int from = 0; from < in_len; from += fold) {
            const int end = in_len - from < fold ? in_len : from + fold;
            lbnn_sums a = lbnn_sums_bias(lbnn_sums_start(kind, w + o, from > 0), LBNN_PACK);
            lbnn_sums b = lbnn_sums_bias(lbnn_sums_start(kind, w + o + block, from > 0), LBNN_PACK);
            lbnn_sums c = lbnn_sums_bias(lbnn_sums_start(kind, w + o + 2 * block, from > 0), LBNN_PACK);
            lbnn_sums d = lbnn_sums_bias(lbnn_sums_start(kind, w + o + 3 * block, from > 0), LBNN_PACK);
            const lbnn_weight *row = w + lbnn_row_at(kind, LBNN_PACK, from) + o;
            for (int i = from; i < end; i++) {
                const lbnn_input x = lbnn_input_load(kind, in_mean, in_var, i);
                a = lbnn_sums_add(a, kind, x, row, LBNN_PACK);
                b = lbnn_sums_add(b, kind, x, row + block, LBNN_PACK);
                c = lbnn_sums_add(c, kind, x, row + 2 * block, LBNN_PACK);
                d = lbnn_sums_add(d, kind, x, row + 3 * block, LBNN_PACK);
                row += lbnn_row_len(kind, LBNN_PACK);
            }
            if (from > 0) {
                a = lbnn_sums_join(a, out_mean, out_var, o, 1, LBNN_BLOCK);
                b = lbnn_sums_join(b, out_mean, out_var, o + LBNN_PACK, 1, LBNN_BLOCK);
                c = lbnn_sums_join(c, out_mean, out_var, o + 2 * LBNN_PACK, 1, LBNN_BLOCK);
                d = lbnn_sums_join(d, out_mean, out_var, o + 3 * LBNN_PACK, 1, LBNN_BLOCK);
            }
            lbnn_sums_store(a, out_mean, out_var, o, 1, LBNN_BLOCK);
            lbnn_sums_store(b, out_mean, out_var, o + LBNN_PACK, 1, LBNN_BLOCK);
            lbnn_sums_store(c, out_mean, out_var, o + 2 * LBNN_PACK, 1, LBNN_BLOCK);
            lbnn_sums_store(d, out_mean, out_var, o + 3 * LBNN_PACK, 1, LBNN_BLOCK);
        }
    }
}
#endif

/* One packed block: `width` outputs. */
LBNN_INLINE void lbnn_linear_block(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                   int width, float *out_mean, float *out_var, int in_len)
{
    int o = 0;
#ifdef LBNN_HELIUM
    if (width > LBNN_BLOCK) {
        lbnn_linear_halves(kind, in_mean, in_var, w, width, out_mean, out_var, in_len);
        return;
    }
#endif
    for (; LBNN_WHOLE_BLOCKS ? o < width : o + LBNN_BLOCK <= width; o += LBNN_BLOCK) {
        lbnn_linear_some(kind, in_mean, in_var, w, width, o, out_mean, out_var, in_len);
    }
    for (; o < width; o++) {
        lbnn_linear_one(kind, in_mean, in_var, w, width, o, out_mean, out_var, in_len);
    }
}

LBNN_INLINE void lbnn_linear_blocks(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                    float *out_mean, float *out_var, int in_len, int out_len)
{
#if defined(LBNN_SIMD) && !defined(LBNN_HELIUM)
    for (; out_len >= 4 * LBNN_PACK; out_len -= 4 * LBNN_PACK) {
        lbnn_linear_four(kind, in_mean, in_var, w, out_mean, out_var, in_len);
        w += 4 * lbnn_row_at(kind, LBNN_PACK, in_len);
        out_mean += 4 * LBNN_PACK;
        out_var += 4 * LBNN_PACK;
    }
#endif
#ifdef LBNN_OPTIMIZE_SIZE
    while (out_len > 0) {
        const int width = out_len < LBNN_PACK ? out_len : LBNN_PACK;
        lbnn_linear_block(kind, in_mean, in_var, w, width, out_mean, out_var, in_len);
        w += lbnn_row_at(kind, width, in_len);
        out_mean += width;
        out_var += width;
        out_len -= width;
    }
#else /* whole blocks apart, compiled for their constant width */
    for (; out_len >= LBNN_PACK; out_len -= LBNN_PACK) {
        lbnn_linear_block(kind, in_mean, in_var, w, LBNN_PACK, out_mean, out_var, in_len);
        w += lbnn_row_at(kind, LBNN_PACK, in_len);
        out_mean += LBNN_PACK;
        out_var += LBNN_PACK;
    }
    if (out_len > 0) {
        lbnn_linear_block(kind, in_mean, in_var, w, out_len, out_mean, out_var, in_len);
    }
#endif
}

/* E' = E[b] + E E[w];  V' = V[b] + S V[w] + V E[w]^2,  S = V + E^2 */
LBNN_KERNEL void lbnn_linear(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                             const lbnn_weight *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                             float *LBNN_RESTRICT out_var, int in_len, int out_len)
{
    lbnn_linear_blocks(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, in_len, out_len);
}

/* E' = E[b] + x E[w];  V' = V[b] + x^2 V[w] */
LBNN_KERNEL void lbnn_linear_point(const float *LBNN_RESTRICT in, const lbnn_weight *LBNN_RESTRICT w,
                                   float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                   int in_len, int out_len)
{
    lbnn_linear_blocks(LBNN_POINT, in, in, w, out_mean, out_var, in_len, out_len);
}

#endif
