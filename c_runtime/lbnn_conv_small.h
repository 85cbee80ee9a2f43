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
 * Code and instructions of M2 (README.md) on Cortex-M4F, gcc 12, -Os; at -O2 the fast kernels take 717,000:
 *
 *     kernels for points, for moments and for linear layers, 4 outputs at a time         2,400 bytes  1,087,000
 *     windows copied and given to lbnn_linear, 4 outputs                                 2,152        1,422,000
 *     the same with 8 outputs, those that are left one at a time                         2,328        1,146,000
 *     this kernel with gcc left to find the rows of variances, memset of the library     2,288        1,172,000
 *     the same, rows of means and of variances by a pointer each, zeros by a loop        2,072        1,072,000
 *     the same, sums stored by a loop, no more padding of weights than is read           1,968        1,103,000
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
    sum.mean += x.e * w;
    sum.var += x.v * (w * w);
    sum.var += x.s * v;
    return sum;
}

/* One pixel of a packed block of `width` output channels, its first tap at (top, left); the first channel's is element
 * `to` of the outputs. Gives the block's end. A block is always read as one of 8; outputs that do not exist are computed
 * and not stored. */
LBNN_DEFAULT_KERNEL const float *lbnn_small_pixel(const float *in_mean, const float *in_var, const float *w, int width,
                                                  float *out_mean, float *out_var, int to,
                                                  const lbnn_conv_small_shape *s, int top, int left)
{
    const int bottom = top + s->kernel_height * s->dilation_height;
    const int right = left + s->kernel_width * s->dilation_width;
    const float *v = w + width;
    LBNN_HOLD(v);
    lbnn_sum a = {w[0], v[0]}, b = {w[1], v[1]}, c = {w[2], v[2]}, d = {w[3], v[3]};
    lbnn_sum e = {w[4], v[4]}, f = {w[5], v[5]}, g = {w[6], v[6]}, h = {w[7], v[7]};
    for (int channel = s->in_channels; channel > 0; channel--) {
        for (int y = top; y < bottom; y += s->dilation_height) {
            const int columns = y >= 0 && y < s->in_height ? s->in_width : 0; /* none in a row outside */
            int at = y * s->in_width + left;
            int x = left;
            do {
                w += 2 * width;
                if (x >= 0 && x < columns) {
                    const lbnn_input input = lbnn_input_load(LBNN_MOMENTS, in_mean, in_var, at);
                    v = w + width;
                    LBNN_HOLD(v);
                    a = lbnn_small_add(a, input, w[0], v[0]);
                    b = lbnn_small_add(b, input, w[1], v[1]);
                    c = lbnn_small_add(c, input, w[2], v[2]);
                    d = lbnn_small_add(d, input, w[3], v[3]);
                    e = lbnn_small_add(e, input, w[4], v[4]);
                    f = lbnn_small_add(f, input, w[5], v[5]);
                    g = lbnn_small_add(g, input, w[6], v[6]);
                    h = lbnn_small_add(h, input, w[7], v[7]);
                }
                at += s->dilation_width;
                x += s->dilation_width;
            } while (x < right);
        }
        in_mean += s->in_height * s->in_width;
        in_var += s->in_height * s->in_width;
    }
    const lbnn_sum sums[LBNN_PACK] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < width; i++) {
        lbnn_sum_store(sums[i], out_mean, out_var, to);
        to += s->out_height * s->out_width;
    }
    return w + 2 * width;
}

/* E' = E[b] + E * E[w];  V' = V[b] + S * V[w] + V * E[w]^2,  S = V + E^2  (* is convolution) */
LBNN_KERNEL void lbnn_conv2d_small(const float *in_mean, const float *in_var, const float *w, float *out_mean,
                                   float *out_var, const lbnn_conv_small_shape *shape)
{
    const lbnn_conv_small_shape *s = shape;
    const int in_step = s->in_channels * s->in_height * s->in_width;
    const int plane = s->out_height * s->out_width;
    for (int g = s->groups; g > 0; g--) {
        for (int rest = s->out_channels; rest > 0; rest -= LBNN_PACK) {
            const int width = rest < LBNN_PACK ? rest : LBNN_PACK;
            const float *next = w;
            for (int at = 0; at < plane; at++) {
                next = lbnn_small_pixel(in_mean, in_var, w, width, out_mean, out_var, at, s,
                                        at / s->out_width * s->stride_height - s->padding_height,
                                        at % s->out_width * s->stride_width - s->padding_width);
            }
            w = next;
            out_mean += width * plane;
            out_var += width * plane;
        }
        in_mean += in_step;
        in_var += in_step;
    }
}

#endif
