/* lbnn_linear.h: the linear layer on moments.
 *
 *     lbnn_linear(in_mean, in_var, w, out_mean, out_var, in_len, out_len)
 *     lbnn_linear_point(in, w, out_mean, out_var, in_len, out_len)      input without variance
 *
 * Outputs must not overlap inputs.
 *
 * Weights `w`, for these kernels and for convolution: outputs are taken in blocks of LBNN_PACK = 8
 * (the last block may be narrower); a block of width B holds one row for the bias, then one row for
 * each input in ascending order, and a row is B means followed by B variances:
 *
 *     block 0:  E[b] x B, V[b] x B,  E[w_0] x B, V[w_0] x B,  E[w_1] x B, ...
 *     block 1:  ...
 *
 * That is 8 bytes a weight, read once from the first to the last; a kernel of LBNN_BLOCK = 4 reads
 * each half of a row in turn, so one packing serves every width.
 */
#ifndef LBNN_LINEAR_H
#define LBNN_LINEAR_H

#include "lbnn.h"

/* Sums of a block of outputs. */
typedef struct {
    lbnn_lanes mean, var;
} lbnn_sums;

/* The sum of a single output. */
typedef struct {
    float mean, var;
} lbnn_sum;

LBNN_INLINE lbnn_sums lbnn_sums_bias(const float *row, int width)
{
    lbnn_sums sums;
    sums.mean = lbnn_lanes_load(row);
    sums.var = lbnn_lanes_load(row + width);
    return sums;
}

LBNN_INLINE lbnn_sum lbnn_sum_bias(const float *row, int width)
{
    lbnn_sum sum;
    sum.mean = row[0];
    sum.var = row[width];
    return sum;
}

/* What a kernel's input is: moments, or a point, whose variance is never read. Always a constant, so that
 * each kernel is compiled for one of the two. */
enum { LBNN_POINT, LBNN_MOMENTS };

/* Adds n inputs, `step` apart, times n rows of weights:
 *     E' += E E[w]
 *     V' += S V[w] + V E[w]^2,  S = V + E^2
 * or, where the input is a point, V' += E^2 V[w]. */
LBNN_INLINE lbnn_sums lbnn_sums_add(lbnn_sums sums, int kind, const float *in_mean, const float *in_var,
                                    int step, const float *row, int width, int n)
{
    for (; n > 0; n--) {
        const lbnn_lanes weight_mean = lbnn_lanes_load(row);
        const lbnn_lanes weight_var = lbnn_lanes_load(row + width);
        const float e = *in_mean;
        float s = e * e;
        sums.mean = lbnn_lanes_add_scaled(sums.mean, weight_mean, e);
        if (kind == LBNN_MOMENTS) {
            const float v = *in_var;
            s += v;
            sums.var = lbnn_lanes_add_scaled(sums.var, lbnn_lanes_square(weight_mean), v);
            in_var += step;
        }
        sums.var = lbnn_lanes_add_scaled(sums.var, weight_var, s);
        in_mean += step;
        row += 2 * width;
    }
    return sums;
}

/* The same for one output. */
LBNN_INLINE lbnn_sum lbnn_sum_add(lbnn_sum sum, int kind, const float *in_mean, const float *in_var,
                                  int step, const float *row, int width, int n)
{
    for (; n > 0; n--) {
        const float weight_mean = row[0];
        const float e = *in_mean;
        float s = e * e;
        sum.mean += weight_mean * e;
        if (kind == LBNN_MOMENTS) {
            const float v = *in_var;
            s += v;
            sum.var += weight_mean * weight_mean * v;
            in_var += step;
        }
        sum.var += row[width] * s;
        in_mean += step;
        row += 2 * width;
    }
    return sum;
}

/* One packed block: all inputs, `width` outputs. */
LBNN_INLINE void lbnn_linear_block(int kind, const float *in_mean, const float *in_var, const float *w,
                                   int width, float *out_mean, float *out_var, int in_len)
{
    int o = 0;
    for (; o + LBNN_BLOCK <= width; o += LBNN_BLOCK) {
        const lbnn_sums sums = lbnn_sums_add(lbnn_sums_bias(w + o, width), kind, in_mean, in_var, 1,
                                             w + o + 2 * width, width, in_len);
        lbnn_lanes_store(out_mean + o, sums.mean);
        lbnn_lanes_store(out_var + o, sums.var);
    }
    for (; o < width; o++) {
        const lbnn_sum sum = lbnn_sum_add(lbnn_sum_bias(w + o, width), kind, in_mean, in_var, 1,
                                          w + o + 2 * width, width, in_len);
        out_mean[o] = sum.mean;
        out_var[o] = sum.var;
    }
}

LBNN_INLINE void lbnn_linear_blocks(int kind, const float *in_mean, const float *in_var, const float *w,
                                    float *out_mean, float *out_var, int in_len, int out_len)
{
    int o = 0;
    for (; o + LBNN_PACK <= out_len; o += LBNN_PACK) {
        lbnn_linear_block(kind, in_mean, in_var, w, LBNN_PACK, out_mean + o, out_var + o, in_len);
        w += 2 * LBNN_PACK * (in_len + 1);
    }
    lbnn_linear_block(kind, in_mean, in_var, w, out_len - o, out_mean + o, out_var + o, in_len);
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
