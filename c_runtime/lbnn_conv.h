/* lbnn_conv.h: 2-D convolution on moments; a 1-D convolution is one of height 1.
 *
 *     static const lbnn_conv_shape shape = {in channels, height, width,  out channels, height, width,
 *                                           kernel h, w,  stride h, w,  padding h, w,
 *                                           dilation h, w,  groups};
 *     lbnn_conv2d(in_mean, in_var, w, out_mean, out_var, &shape)          any shape
 *     lbnn_conv2d_point(in, w, out_mean, out_var, &shape)                 input without variance
 *
 * and faster ones with the same arguments and `float *scratch` behind them, each with its _point form, for
 *
 *     lbnn_conv2d_1x1       kernel 1, no padding, groups 1                                              in place, see below
 *     lbnn_depthwise_3x3    kernel 3, stride 1 or 2, a channel for each group, at most one row and column of padding
 *                           at each end, at least 3 columns of output                                   in place
 *     lbnn_conv2d_3x3       kernel 3, stride 1, padding 1, groups 1, at least 4 columns
 *     lbnn_conv2d_patch     any window, groups 1
 *
 * conv_kernel and conv_scratch of lbnn/exporters/c/shapes.py choose among them and say how many floats of scratch they
 * take. The padding of a shape is that before the input; how much is behind it, the size of the output tells.
 *
 * This is the header to include; it stands on lbnn_conv_any.h (any shape), lbnn_conv_lanes.h (vector registers),
 * lbnn_conv_patch.h, lbnn_conv_depthwise.h, lbnn_conv_3x3.h (fast forms), lbnn_conv_four.h (what these share),
 * lbnn_conv_helium.h and lbnn_conv_wide.h (vector registers of Helium and AVX-512).
 *
 * Arrays are channels first (channel, row, column). Outputs must not overlap inputs, but: means over means and variances over
 * variances, the output of lbnn_depthwise_3x3 may begin where its input does, with smaller planes too; and that of
 * lbnn_conv2d_1x1 with stride 1 may begin where its input does, if it has no more channels, or end where it ends, if it has no
 * fewer. Both read all that an output needs, and a later one will need, before they write it.
 *
 * `w` is packed as lbnn_sums.h describes, group after group; the "inputs" of an output channel are
 * its taps in the order (input channel of the group, kernel row, kernel column).
 *
 * What it costs (instructions for each of the products E E[w], which are three multiply-adds, on
 * Cortex-M4F; gcc 12, -O2 -std=gnu99; all taps counted, also those outside):
 *
 *     any shape, 8 output channels of one pixel at a time                    6.3 (3x3, 8 -> 16, 8x8)
 *     3x3, 4 pixels x 2 output channels, inputs in scratch, E then V then S  4.7 (same layer; 4.5 with 64 -> 64)
 *     the same, 4 x 3 and 4 x 2 output channels                              4.8, and 1,000 bytes more
 *     the same from the input, edges looked for in the loop                  5.0 for one shape, 6.1 for several
 *     1x1, 4 pixels x 3 and x 2 output channels, inputs in scratch           5.5 (64 -> 64, 25x5)
 *     the same, 4 x 2 alone, S made where V stood                            6.1
 *     the same from the input                                                6.9 for one shape, 7.8 for several
 *     1x1 with stride 2, 3x3 with stride 2 as such patches                   5.8, 5.7 (32 -> 64, 16x16; before 15, 8.7)
 *     depthwise, blocks of 3, 4, 5 pixels, three rows in scratch             7.7 (24x24), 9.2 (6x6), 9.9 (3x3)
 *     the same without padding, from the input (from scratch 8.1, 10.9, 14)  6.8 (22x22), 8.6 (6x6), 9.5 (3x3)
 *     depthwise with stride 2                                                7.8 (24x24), 8.5 (6x6), 8.4 (3x3); any shape: 41
 *     the same without padding                                               8.0 (24x24), 9.2 (6x6), 9.9 (3x3)
 *
 * Kernels are never inlined into NAME_predict: with all of it in one function M2 takes 27,000 more.
 */
#ifndef LBNN_CONV_H
#define LBNN_CONV_H

#include "lbnn_conv_3x3.h"
#include "lbnn_conv_any.h"
#include "lbnn_conv_four.h"
#include "lbnn_conv_helium.h"
#include "lbnn_conv_lanes.h"
#include "lbnn_conv_depthwise.h"
#include "lbnn_conv_patch.h"
#include "lbnn_conv_wide.h"

/* One packed block of output channels, all pixels. */
LBNN_INLINE void lbnn_conv_block(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, int width,
                                 float *out_mean, float *out_var, const lbnn_conv_shape *s, int channels)
{
#ifdef LBNN_HELIUM
    if (s->kernel_height * s->kernel_width <= LBNN_HELIUM_TAPS) {
        lbnn_helium_conv(kind, LBNN_HELIUM_ANY, in_mean, in_var, w, out_mean, out_var, s, 1, channels, width);
        return;
    }
#endif
    for (int row = 0; row < s->out_height; row++) {
        const lbnn_span y = lbnn_conv_rows(s, row);
        const int to = row * s->out_width;
#if defined(LBNN_SIMD) && !defined(LBNN_HELIUM)
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
#ifdef LBNN_HELIUM
    if (s->kernel_height * s->kernel_width <= LBNN_HELIUM_TAPS) {
        lbnn_helium_conv(kind, LBNN_HELIUM_ANY, in_mean, in_var, w, out_mean, out_var, s, s->groups, in_step, out_step);
        return;
    }
#endif
#ifdef LBNN_WIDE
    if (lbnn_wide_done(kind, in_mean, in_var, w, out_mean, out_var, s)) {
        return;
    }
#endif
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

/* Kernel 3, stride 1, padding 1. */
LBNN_INLINE void lbnn_conv_three(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                 float *out_mean, float *out_var, const lbnn_conv_shape *s, float *scratch)
{
#ifdef LBNN_CONV_STRIPS
    lbnn_conv_strips(kind, in_mean, in_var, w, 0, out_mean, out_var, s, scratch);
#elif defined(LBNN_HELIUM)
    (void)scratch;
    lbnn_helium_conv(kind, LBNN_HELIUM_3X3, in_mean, in_var, w, out_mean, out_var, s, 1, s->in_channels, s->out_channels);
#else
    (void)scratch;
    lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
#endif
}

/* The formulas of lbnn_conv2d and lbnn_conv2d_point. The shape is copied because that of a band (lbnn_conv_band) lies on the
 * stack, where gcc can't know that nothing between two loads changes it: M2 had 3,100 bytes more code. */
LBNN_KERNEL void lbnn_conv2d_3x3(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                 const lbnn_weight *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                                 float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape, float *LBNN_RESTRICT scratch)
{
    const lbnn_conv_shape own = *shape;
    lbnn_conv_three(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, &own, scratch);
}

LBNN_KERNEL void lbnn_conv2d_3x3_point(const float *LBNN_RESTRICT in, const lbnn_weight *LBNN_RESTRICT w,
                                       float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                       const lbnn_conv_shape *shape, float *LBNN_RESTRICT scratch)
{
    const lbnn_conv_shape own = *shape;
    lbnn_conv_three(LBNN_POINT, in, in, w, out_mean, out_var, &own, scratch);
}

/* Whatever suits the processor; the output may begin where the input does, or the input lie where it is written. */
LBNN_INLINE void lbnn_conv_apart(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                 float *out_mean, float *out_var, const lbnn_conv_shape *s, float *scratch)
{
#ifdef LBNN_WIDE
    if (s->in_height * s->in_width <= LBNN_WIDE_PLANE) {
        lbnn_wide_depthwise(kind, in_mean, in_var, w, out_mean, out_var, s);
        return;
    }
#endif
    lbnn_conv_depthwise(kind, in_mean, in_var, w, out_mean, out_var, s, scratch);
}

LBNN_INLINE void lbnn_conv_single(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                  float *out_mean, float *out_var, const lbnn_conv_shape *s, float *scratch)
{
#ifdef LBNN_WIDE
    if (s->in_channels <= LBNN_WIDE_TAPS) {
        lbnn_wide_conv(kind, in_mean, in_var, w, out_mean, out_var, s);
        return;
    }
#endif
#ifdef LBNN_HELIUM
    lbnn_helium_patches(kind, in_mean, in_var, w, 0, out_mean, out_var, s, scratch);
#else
    lbnn_conv_patches(kind, 1, in_mean, in_var, w, 0, out_mean, out_var, s, scratch);
#endif
}

/* The output may begin where the input does (lbnn_conv_depthwise.h). */
LBNN_KERNEL void lbnn_depthwise_3x3(const float *in_mean, const float *in_var, const lbnn_weight *w, float *out_mean,
                                    float *out_var, const lbnn_conv_shape *shape, float *scratch)
{
    lbnn_conv_apart(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape, scratch);
}

LBNN_KERNEL void lbnn_depthwise_3x3_point(const float *in, const lbnn_weight *w, float *out_mean, float *out_var,
                                          const lbnn_conv_shape *shape, float *scratch)
{
    lbnn_conv_apart(LBNN_POINT, in, in, w, out_mean, out_var, shape, scratch);
}

/* The input may lie where the output is written (lbnn_conv_patch.h). */
LBNN_KERNEL void lbnn_conv2d_1x1(const float *in_mean, const float *in_var, const lbnn_weight *w, float *out_mean,
                                 float *out_var, const lbnn_conv_shape *shape, float *scratch)
{
    lbnn_conv_single(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape, scratch);
}

LBNN_KERNEL void lbnn_conv2d_1x1_point(const float *in, const lbnn_weight *w, float *out_mean, float *out_var,
                                       const lbnn_conv_shape *shape, float *scratch)
{
    lbnn_conv_single(LBNN_POINT, in, in, w, out_mean, out_var, shape, scratch);
}

/* Any window, from patches without vector registers. */
LBNN_INLINE void lbnn_conv_windows(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                   float *out_mean, float *out_var, const lbnn_conv_shape *s, float *scratch)
{
#ifdef LBNN_CONV_FOUR
    lbnn_conv_patches(kind, 0, in_mean, in_var, w, 0, out_mean, out_var, s, scratch);
#else
    (void)scratch;
    lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
#endif
}

LBNN_KERNEL void lbnn_conv2d_patch(const float *in_mean, const float *in_var, const lbnn_weight *w, float *out_mean,
                                   float *out_var, const lbnn_conv_shape *shape, float *scratch)
{
    lbnn_conv_windows(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape, scratch);
}

LBNN_KERNEL void lbnn_conv2d_patch_point(const float *in, const lbnn_weight *w, float *out_mean, float *out_var,
                                         const lbnn_conv_shape *shape, float *scratch)
{
    lbnn_conv_windows(LBNN_POINT, in, in, w, out_mean, out_var, shape, scratch);
}

#endif
