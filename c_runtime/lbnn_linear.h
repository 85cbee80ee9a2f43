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
    for (; o + LBNN_BLOCK <= width; o += LBNN_BLOCK) {
        const lbnn_sums sums = lbnn_sums_run(lbnn_sums_bias(w + o, width), kind, in_mean, in_var, 1,
                                             rows + o, width, in_len);
        lbnn_sums_store(sums, out_mean + o, out_var + o, 1);
    }
    for (; o < width; o++) {
        const lbnn_sum sum = lbnn_sum_run(lbnn_sum_bias(w + o, width), kind, in_mean, in_var, 1, rows + o,
                                          width, in_len);
        out_mean[o] = sum.mean;
        out_var[o] = sum.var;
    }
}

LBNN_INLINE void lbnn_linear_blocks(int kind, const float *in_mean, const float *in_var, const float *w,
                                    float *out_mean, float *out_var, int in_len, int out_len)
{
    for (; out_len >= LBNN_PACK; out_len -= LBNN_PACK) {
        lbnn_linear_block(kind, in_mean, in_var, w, LBNN_PACK, out_mean, out_var, in_len);
        w += 2 * LBNN_PACK * (in_len + 1);
        out_mean += LBNN_PACK;
        out_var += LBNN_PACK;
    }
    lbnn_linear_block(kind, in_mean, in_var, w, out_len, out_mean, out_var, in_len);
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
