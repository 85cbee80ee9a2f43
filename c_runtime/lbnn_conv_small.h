/* lbnn_conv_small.h: convolutions and linear layers in one small kernel, for models optimized for size.
 *
 *     static const lbnn_conv_small_shape shape = {in channels, height, width,  out channels, height, width,
 *                                                 kernel h, w,  stride h, w,  padding h, w,
 *                                                 dilation h, w,  groups};          (channels: of one group)
 *     lbnn_conv2d_small(in_mean, in_var, w, out_mean, out_var, &shape)
 *
 * Any shape. Outputs must not overlap inputs. `w` is packed as for lbnn_conv2d. A linear layer is a convolution of one
 * row with a kernel as wide as the row; an input without variance comes with an array of zeros. So a model that has
 * convolutions needs no other sums, and no other code for them.
 *
 * Code and instructions of M2 (README.md) on Cortex-M4F, gcc 12, -Os; at -O2 the fast kernels take 649,000:
 *
 *     kernels for points, for moments and for linear layers, 4 outputs at a time         2,400 bytes  1,087,000
 *     windows copied and given to lbnn_linear, 4 outputs                                 2,152        1,422,000
 *     the same with 8 outputs, those that are left one at a time                         2,328        1,146,000
 *     this kernel with gcc left to find the rows of variances, memset of the library     2,288        1,172,000
 *     the same, rows of means and of variances by a pointer each, zeros by a loop        2,072        1,072,000
 *     the same, sums stored by a loop, no more padding of weights than is read           1,968        1,103,000
 *     the same, long sums in parts                                                       2,040        1,144,000
 */
#ifndef LBNN_CONV_SMALL_H
#define LBNN_CONV_SMALL_H

#include "lbnn_sums.h"

typedef struct {
    uint16_t in_channels, in_height, in_width;
    uint16_t out_channels, out_height, out_width;
    uint16_t kernel_height, kernel_width;
    uint16_t stride_height, stride_width;
    uint16_t padding_height, padding_width;
    uint16_t dilation_height, dilation_width;
    uint16_t groups;
} lbnn_conv_small_shape;

/* E' += E E[w];  V' += V E[w]^2 + S V[w] */
LBNN_INLINE lbnn_sum lbnn_small_add(lbnn_sum sum, lbnn_input x, float w, float v)
{
    LBNN_ROUND_PRODUCTS
    sum.mean += x.e * w;
    sum.var += x.v * (w * w);
    sum.var += x.s * v;
    return sum;
}

/* A mean and the variance `step` floats behind it. */
LBNN_INLINE lbnn_sum lbnn_sum_at(const float *mean, int step)
{
    lbnn_sum sum;
    sum.mean = mean[0];
    sum.var = mean[step];
    return sum;
}

/* One pixel of a packed block of `width` output channels: element `to` of the first channel. Gives the block's end. A
 * block is always read as one of 8; outputs that do not exist are computed and not stored. Sums are added up in parts as
 * in lbnn_sums.h, and wait in the outputs. */
LBNN_DEFAULT_KERNEL const lbnn_weight *lbnn_small_pixel(const float *in_mean, const float *in_var,
                                                        const lbnn_weight *w, int width, float *out_mean,
                                                        float *out_var, int to, const lbnn_conv_small_shape *s)
{
    const int top = to / s->out_width * s->stride_height - s->padding_height;
    const int left = to % s->out_width * s->stride_width - s->padding_width;
    const int bottom = top + s->kernel_height * s->dilation_height;
    const int right = left + s->kernel_width * s->dilation_width;
    float sums[2 * LBNN_PACK];
    const lbnn_weight *start = w;
    const lbnn_weight *v = w + width;
    w += LBNN_ROW(width, 0);
    int taps = s->in_channels * s->kernel_height * s->kernel_width;
    int y = top;
    int x = left;
    int line = 0; /* the first row of the input channel */
    for (int more = 0;; more = 1) {
        int rest = taps < LBNN_FOLD / 2 ? taps : LBNN_FOLD / 2;
        taps -= rest;
        lbnn_sum a = {LBNN_BIAS(start[0]), LBNN_BIAS(v[0])}, b = {LBNN_BIAS(start[1]), LBNN_BIAS(v[1])};
        lbnn_sum c = {LBNN_BIAS(start[2]), LBNN_BIAS(v[2])}, d = {LBNN_BIAS(start[3]), LBNN_BIAS(v[3])};
        lbnn_sum e = {LBNN_BIAS(start[4]), LBNN_BIAS(v[4])}, f = {LBNN_BIAS(start[5]), LBNN_BIAS(v[5])};
        lbnn_sum g = {LBNN_BIAS(start[6]), LBNN_BIAS(v[6])}, h = {LBNN_BIAS(start[7]), LBNN_BIAS(v[7])};
        do {
            const int columns = LBNN_AS(unsigned, y) < s->in_height ? s->in_width : 0; /* none in a row outside */
            const int from = (line + y) * s->in_width;
            do {
                w += LBNN_STEP(width);
                if (x >= 0 && x < columns) {
                    const lbnn_input input = lbnn_input_load(LBNN_MOMENTS, in_mean, in_var, from + x);
                    v = w + LBNN_VARS(width);
                    LBNN_HOLD(v);
                    a = lbnn_small_add(a, input, LBNN_MEAN(w[0]), LBNN_VAR(v[0]));
                    b = lbnn_small_add(b, input, LBNN_MEAN(w[1]), LBNN_VAR(v[1]));
                    c = lbnn_small_add(c, input, LBNN_MEAN(w[2]), LBNN_VAR(v[2]));
                    d = lbnn_small_add(d, input, LBNN_MEAN(w[3]), LBNN_VAR(v[3]));
                    e = lbnn_small_add(e, input, LBNN_MEAN(w[4]), LBNN_VAR(v[4]));
                    f = lbnn_small_add(f, input, LBNN_MEAN(w[5]), LBNN_VAR(v[5]));
                    g = lbnn_small_add(g, input, LBNN_MEAN(w[6]), LBNN_VAR(v[6]));
                    h = lbnn_small_add(h, input, LBNN_MEAN(w[7]), LBNN_VAR(v[7]));
                }
                x += s->dilation_width;
                rest--;
            } while (x < right && rest > 0);
            if (x >= right) {
                x = left;
                y += s->dilation_height;
                if (y >= bottom) {
                    y = top;
                    line += s->in_height;
                }
            }
        } while (rest > 0);
        sums[0] = a.mean, sums[1] = b.mean, sums[2] = c.mean, sums[3] = d.mean;
        sums[4] = e.mean, sums[5] = f.mean, sums[6] = g.mean, sums[7] = h.mean;
        sums[8] = a.var, sums[9] = b.var, sums[10] = c.var, sums[11] = d.var;
        sums[12] = e.var, sums[13] = f.var, sums[14] = g.var, sums[15] = h.var;
        int at = to;
        for (int i = 0; i < width; i++) {
            lbnn_sum sum = lbnn_sum_at(sums + i, LBNN_PACK);
            if (more) {
                sum = lbnn_sum_join(sum, out_mean, out_var, at);
            }
            lbnn_sum_store(sum, out_mean, out_var, at);
            at += s->out_height * s->out_width;
        }
        if (taps == 0) {
            return w + LBNN_STEP(width);
        }
#if defined(LBNN_HALF_WEIGHTS) || defined(LBNN_FLASH_APART)
        start = lbnn_zeros;
        v = lbnn_zeros + LBNN_PACK;
#else /* zeros of its own take no flash */
        start = sums;
        v = sums + LBNN_PACK;
        for (int i = 2 * LBNN_PACK - 1; i >= 0; i--) {
            sums[i] = 0.0f;
            LBNN_HOLD(i);
        }
#endif
    }
}

/* E' = E[b] + E * E[w];  V' = V[b] + S * V[w] + V * E[w]^2,  S = V + E^2  (* is convolution) */
LBNN_KERNEL void lbnn_conv2d_small(const float *in_mean, const float *in_var, const lbnn_weight *w, float *out_mean,
                                   float *out_var, const lbnn_conv_small_shape *shape)
{
    const lbnn_conv_small_shape *s = shape;
    const int plane = s->out_height * s->out_width;
    for (int g = s->groups; g > 0; g--) {
        for (int rest = s->out_channels; rest > 0; rest -= LBNN_PACK) {
            const int width = rest < LBNN_PACK ? rest : LBNN_PACK;
            const lbnn_weight *next = w;
            for (int at = 0; at < plane; at++) {
                next = lbnn_small_pixel(in_mean, in_var, w, width, out_mean, out_var, at, s);
            }
            w = next;
            out_mean += width * plane;
            out_var += width * plane;
        }
        in_mean += s->in_channels * s->in_height * s->in_width;
        in_var += s->in_channels * s->in_height * s->in_width;
    }
}

#endif
