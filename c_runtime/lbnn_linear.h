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
 * instructions; blocks of 8 outputs need 6.9, blocks of 4 7.6, one output 13.
 */
#ifndef LBNN_LINEAR_H
#define LBNN_LINEAR_H

#include "lbnn_sums.h"

/* One packed block: `width` outputs, all inputs. */
LBNN_INLINE void lbnn_linear_block(int kind, const float *in_mean, const float *in_var, const float *w,
                                   int width, float *out_mean, float *out_var, int in_len)
{
    const float *rows = w + 2 * width;
    int o = 0;
    for (; LBNN_WHOLE_BLOCKS ? o < width : o + LBNN_BLOCK <= width; o += LBNN_BLOCK) {
        const lbnn_sums sums = lbnn_sums_run(lbnn_sums_bias(w + o, width), kind, in_mean, in_var, 0, 1,
                                             rows + o, width, in_len);
        lbnn_sums_store(sums, out_mean, out_var, o, 1, width - o);
    }
    for (; o < width; o++) {
        const lbnn_sum sum = lbnn_sum_run(lbnn_sum_bias(w + o, width), kind, in_mean, in_var, 0, 1,
                                          rows + o, width, in_len);
        lbnn_sum_store(sum, out_mean, out_var, o);
    }
}

#ifdef LBNN_SIMD
/* Four packed blocks at once: a sum has to wait for the one before it, so four are kept going. */
LBNN_INLINE void lbnn_linear_four(int kind, const float *in_mean, const float *in_var, const float *w,
                                  float *out_mean, float *out_var, int in_len)
{
    const int block = 2 * LBNN_PACK * (in_len + 1);
    for (int o = 0; o < LBNN_PACK; o += LBNN_BLOCK) {
        const float *row = w + o;
        lbnn_sums a = lbnn_sums_bias(row, LBNN_PACK);
        lbnn_sums b = lbnn_sums_bias(row + block, LBNN_PACK);
        lbnn_sums c = lbnn_sums_bias(row + 2 * block, LBNN_PACK);
        lbnn_sums d = lbnn_sums_bias(row + 3 * block, LBNN_PACK);
        for (int i = 0; i < in_len; i++) {
            const lbnn_input x = lbnn_input_load(kind, in_mean, in_var, i);
            row += 2 * LBNN_PACK;
            a = lbnn_sums_add(a, kind, x, row, LBNN_PACK);
            b = lbnn_sums_add(b, kind, x, row + block, LBNN_PACK);
            c = lbnn_sums_add(c, kind, x, row + 2 * block, LBNN_PACK);
            d = lbnn_sums_add(d, kind, x, row + 3 * block, LBNN_PACK);
        }
        lbnn_sums_store(a, out_mean, out_var, o, 1, LBNN_BLOCK);
        lbnn_sums_store(b, out_mean, out_var, o + LBNN_PACK, 1, LBNN_BLOCK);
        lbnn_sums_store(c, out_mean, out_var, o + 2 * LBNN_PACK, 1, LBNN_BLOCK);
        lbnn_sums_store(d, out_mean, out_var, o + 3 * LBNN_PACK, 1, LBNN_BLOCK);
    }
}
#endif

LBNN_INLINE void lbnn_linear_blocks(int kind, const float *in_mean, const float *in_var, const float *w,
                                    float *out_mean, float *out_var, int in_len, int out_len)
{
#ifdef LBNN_SIMD
    for (; out_len >= 4 * LBNN_PACK; out_len -= 4 * LBNN_PACK) {
        lbnn_linear_four(kind, in_mean, in_var, w, out_mean, out_var, in_len);
        w += 4 * 2 * LBNN_PACK * (in_len + 1);
        out_mean += 4 * LBNN_PACK;
        out_var += 4 * LBNN_PACK;
    }
#endif
#ifndef LBNN_OPTIMIZE_SIZE /* whole blocks apart, compiled for their constant width */
    for (; out_len >= LBNN_PACK; out_len -= LBNN_PACK) {
        lbnn_linear_block(kind, in_mean, in_var, w, LBNN_PACK, out_mean, out_var, in_len);
        w += 2 * LBNN_PACK * (in_len + 1);
        out_mean += LBNN_PACK;
        out_var += LBNN_PACK;
    }
#endif
    while (out_len > 0) {
        const int width = out_len < LBNN_PACK ? out_len : LBNN_PACK;
        lbnn_linear_block(kind, in_mean, in_var, w, width, out_mean, out_var, in_len);
        w += 2 * width * (in_len + 1);
        out_mean += width;
        out_var += width;
        out_len -= width;
    }
}

/* E' = E[b] + E E[w];  V' = V[b] + S V[w] + V E[w]^2,  S = V + E^2 */
LBNN_KERNEL void lbnn_linear(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                             const float *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                             float *LBNN_RESTRICT out_var, int in_len, int out_len)
{
    lbnn_linear_blocks(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, in_len, out_len);
}

/* E' = E[b] + x E[w];  V' = V[b] + x^2 V[w] */
LBNN_KERNEL void lbnn_linear_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                   float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                   int in_len, int out_len)
{
    lbnn_linear_blocks(LBNN_POINT, in, in, w, out_mean, out_var, in_len, out_len);
}

#endif
