/* lbnn_conv.h: 2-D convolution on moments; a 1-D convolution is one of height 1.
 *
 *     static const lbnn_conv_shape shape = {in channels, height, width,  out channels, height, width,
 *                                           kernel h, w,  stride h, w,  padding h, w,
 *                                           dilation h, w,  groups};
 *     lbnn_conv2d(in_mean, in_var, w, out_mean, out_var, &shape)          any shape
 *     lbnn_conv2d_point(in, w, out_mean, out_var, &shape)                 input without variance
 *
 * and faster ones with the same arguments, each with its _point form, for
 *
 *     lbnn_conv2d_3x3       kernel 3, stride 1, padding 1, dilation 1, groups 1, even number of output
 *                           channels, at least 4 columns
 *     lbnn_depthwise_3x3    the same with one input and one output channel in each group
 *     lbnn_conv2d_1x1       kernel 1, stride 1, padding 0, groups 1, even number of output channels, at
 *                           least 4 pixels
 *
 * This is the header to include; it stands on lbnn_conv_any.h (any shape), lbnn_conv_lanes.h (vector registers) and
 * lbnn_conv_four.h (fast forms without them), and chooses among them.
 *
 * Arrays are channels first (channel, row, column). Outputs must not overlap inputs.
 *
 * `w` is packed as lbnn_sums.h describes, group after group; the "inputs" of an output channel are
 * its taps in the order (input channel of the group, kernel row, kernel column).
 *
 * What it costs (instructions for each of the products E E[w], which are three multiply-adds, on
 * Cortex-M4F; gcc 12, -O2 -std=gnu99; all taps counted, also those outside):
 *
 *     any shape, 8 output channels of one pixel at a time                    6.3 (3x3, 8 -> 16, 8x8)
 *     4 pixels x 2 output channels, rows of 3 taps share their inputs        5.1 (same layer; the floor is 4.75)
 *     the same with pointers left to gcc, which then carries three           5.5
 *     the same, pixel after pixel instead of operation after operation       5.6
 *     1x1, 4 pixels x 2 output channels                                      6.6 (16 -> 16, 14x14)
 *     depthwise, 4 pixels                                                    9.1 (16 channels, 14x14)
 *     the last two with the kernel for any shape                            19.5 together
 *     testing each tap for being inside instead of peeling edges            15   (blocks of 4 channels)
 *
 * Kernels are never inlined into NAME_predict: with all of it in one function M2 takes 27,000 more.
 */
#ifndef LBNN_CONV_H
#define LBNN_CONV_H

#include "lbnn_conv_any.h"
#include "lbnn_conv_four.h"
#include "lbnn_conv_lanes.h"

/* One packed block of output channels, all pixels. */
LBNN_INLINE void lbnn_conv_block(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, int width,
                                 float *out_mean, float *out_var, const lbnn_conv_shape *s, int channels)
{
    for (int row = 0; row < s->out_height; row++) {
        const lbnn_span y = lbnn_conv_rows(s, row);
        const int to = row * s->out_width;
#ifdef LBNN_SIMD
        if (width == 1 && s->stride_width == 1) {
            lbnn_conv_row_one(kind, in_mean, in_var, w, out_mean, out_var, to, s, channels, y);
            continue;
        }
        if (s->out_width >= 4) {
            const int plane = s->out_height * s->out_width;
            for (int o = 0; o < width; o += LBNN_BLOCK) {
                lbnn_conv_row_four(kind, in_mean, in_var, w + o, width, width - o, out_mean, out_var, to + o * plane, s,
                                   channels, y);
            }
            continue;
        }
#endif
        lbnn_conv_row_any(kind, in_mean, in_var, w, width, out_mean, out_var, to, s, channels, y);
    }
}

/* Any shape: group after group, block after block. */
LBNN_INLINE void lbnn_conv_groups(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, float *out_mean,
                                  float *out_var, const lbnn_conv_shape *s)
{
    const int in_step = s->in_channels / s->groups;
    const int out_step = s->out_channels / s->groups;
    const int in_plane = s->in_height * s->in_width;
    const int out_plane = s->out_height * s->out_width;
    const int taps = in_step * s->kernel_height * s->kernel_width;
    for (int g = 0; g < s->groups; g++) {
        for (int o = 0; o < out_step; o += LBNN_PACK) {
            const int width = out_step - o < LBNN_PACK ? out_step - o : LBNN_PACK;
            lbnn_conv_block(kind, in_mean, in_var, w, width, out_mean, out_var, s, in_step);
            w += lbnn_row_at(kind, width, taps);
            out_mean += width * out_plane;
            out_var += width * out_plane;
        }
        in_mean += in_step * in_plane;
        in_var += in_step * in_plane;
    }
}

/* E' = E[b] + E * E[w];  V' = V[b] + S * V[w] + V * E[w]^2,  S = V + E^2  (* is convolution) */
LBNN_KERNEL void lbnn_conv2d(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                             const lbnn_weight *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                             float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape)
{
    lbnn_conv_groups(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape);
}

/* E' = E[b] + x * E[w];  V' = V[b] + x^2 * V[w] */
LBNN_KERNEL void lbnn_conv2d_point(const float *LBNN_RESTRICT in, const lbnn_weight *LBNN_RESTRICT w,
                                   float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                   const lbnn_conv_shape *shape)
{
    lbnn_conv_groups(LBNN_POINT, in, in, w, out_mean, out_var, shape);
}

/* Pairs of output channels through the packed blocks. */
LBNN_INLINE void lbnn_conv_3x3(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                               float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
#ifdef LBNN_CONV_FOUR
    const int plane = s->in_height * s->in_width;
    for (int o = 0; o < s->out_channels; o += LBNN_PACK) {
        const int width = s->out_channels - o < LBNN_PACK ? s->out_channels - o : LBNN_PACK;
        for (int k = 0; k < width; k += 2) {
            lbnn_conv_four_3x3(kind, in_mean, in_var, w + k, width, out_mean, out_var, s);
            out_mean += 2 * plane;
            out_var += 2 * plane;
        }
        w += lbnn_row_at(kind, width, 9 * s->in_channels);
    }
#else
    lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
#endif
}

/* One channel after the other. */
LBNN_INLINE void lbnn_conv_depthwise(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                     float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
#ifdef LBNN_CONV_FOUR
    const int plane = s->in_height * s->in_width;
    for (int c = 0; c < s->in_channels; c++) {
        lbnn_conv_four_depthwise(kind, in_mean + c * plane, in_var + c * plane, w + lbnn_row_at(kind, 1, 9) * c,
                                 out_mean + c * plane, out_var + c * plane, s);
    }
#else
    lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
#endif
}

/* Pairs of output channels through the packed blocks. */
LBNN_INLINE void lbnn_conv_1x1(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                               float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
#ifdef LBNN_CONV_FOUR
    const int plane = s->in_height * s->in_width;
    for (int o = 0; o < s->out_channels; o += LBNN_PACK) {
        const int width = s->out_channels - o < LBNN_PACK ? s->out_channels - o : LBNN_PACK;
        for (int k = 0; k < width; k += 2) {
            lbnn_conv_four_1x1(kind, in_mean, in_var, w + k, width, out_mean, out_var, s);
            out_mean += 2 * plane;
            out_var += 2 * plane;
        }
        w += lbnn_row_at(kind, width, s->in_channels);
    }
#else
    lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
#endif
}

/* The formulas of lbnn_conv2d and lbnn_conv2d_point. */
LBNN_KERNEL void lbnn_conv2d_3x3(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                 const lbnn_weight *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                                 float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape)
{
    lbnn_conv_3x3(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_conv2d_3x3_point(const float *LBNN_RESTRICT in, const lbnn_weight *LBNN_RESTRICT w,
                                       float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                       const lbnn_conv_shape *shape)
{
    lbnn_conv_3x3(LBNN_POINT, in, in, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_depthwise_3x3(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                    const lbnn_weight *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                                    float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape)
{
    lbnn_conv_depthwise(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_depthwise_3x3_point(const float *LBNN_RESTRICT in, const lbnn_weight *LBNN_RESTRICT w,
                                          float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                          const lbnn_conv_shape *shape)
{
    lbnn_conv_depthwise(LBNN_POINT, in, in, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_conv2d_1x1(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                 const lbnn_weight *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                                 float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape)
{
    lbnn_conv_1x1(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_conv2d_1x1_point(const float *LBNN_RESTRICT in, const lbnn_weight *LBNN_RESTRICT w,
                                       float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                       const lbnn_conv_shape *shape)
{
    lbnn_conv_1x1(LBNN_POINT, in, in, w, out_mean, out_var, shape);
}

#endif
