/* lbnn_conv_rank1.h: 2-D convolution on moments, the variances of whose weights are products of factors.
 *
 *     lbnn_conv2d_rank1(in_mean, in_var, w, factors, out_mean, out_var, scratch, &shape, step)     any shape
 *     lbnn_conv2d_rank1_point(in, w, factors, out_mean, out_var, scratch, &shape, step)            input without variance
 *
 * and lbnn_conv2d_1x1_rank1, lbnn_conv2d_3x3_rank1, lbnn_conv2d_patch_rank1 with their _point forms, for the shapes of
 * lbnn_conv2d_1x1 and so on (lbnn_conv.h), groups 1.
 *
 * V[w_ni] = row_n column_i, so that one convolution of S with the columns serves all outputs of a group. `w` is packed
 * as for lbnn_conv2d, 4 bytes a weight (lbnn_sums.h); `factors` are the rows, one for each output channel, and the
 * columns, one for each tap of a group, `step` floats from one group's to the next's, 0 where all groups have the same;
 * LBNN_PACK - 1 unused floats follow.
 *
 * Where the inputs of four pixels stand in scratch the sums that outputs share are taken from there; elsewhere they are a
 * plane of their own. So `scratch` has room for a float for each pixel of the output, or for what the kernel without
 * _rank1 needs, if that is more; that of lbnn_conv2d_1x1_rank1 is the latter on all processors. factored_scratch of
 * lbnn/exporters/c/shapes.py counts it. Outputs must not overlap inputs, but those of lbnn_conv2d_1x1_rank1 may as those of
 * lbnn_conv2d_1x1 do.
 *
 * On Cortex-M4F (gcc 12, -O2 -std=gnu99) ResNet-8 takes 49.2 M instructions so, and 66.9 M with free variances.
 */
#ifndef LBNN_CONV_RANK1_H
#define LBNN_CONV_RANK1_H

#include "lbnn_conv.h"

#ifndef LBNN_HALF_WEIGHTS /* which hold a sigma for each weight */

/* var += row shared, pixel by pixel */
LBNN_INLINE void lbnn_rank1_plane(const float *shared, float row, float *var, int plane)
{
    LBNN_ROUND_PRODUCTS
    for (int i = 0; LBNN_VARIANCE && i < plane; i += LBNN_LANES) {
        const lbnn_lanes sum = lbnn_lanes_load(shared + i, plane - i);
        lbnn_lanes_store(var + i, lbnn_lanes_load(var + i, plane - i) + row * sum, plane - i);
    }
}

/* Group after group, with a plane of shared sums; `kind` is that of the means, `squares` that of the shared sums, and
 * `three` (a constant) is for kernel 3, stride 1, padding 1, groups 1. The sums of S have no mean, and what is stored for it
 * is overwritten afterwards. */
LBNN_INLINE void lbnn_rank1_planes(int kind, int squares, int three, const float *in_mean, const float *in_var,
                                   const float *w, const float *factors, float *out_mean, float *out_var, float *shared,
                                   const lbnn_conv_shape *shape, int step)
{
    lbnn_conv_shape s = *shape; /* of one group */
    s.groups = 1;
    s.in_channels = shape->in_channels / shape->groups;
    s.out_channels = shape->out_channels / shape->groups;
    const int taps = lbnn_conv_taps(&s, s.in_channels);
    const int in_len = s.in_channels * s.in_height * s.in_width;
    const int plane = s.out_height * s.out_width;
    const float *column = factors + shape->out_channels;
    for (int g = 0; g < shape->groups; g++) {
        if (LBNN_VARIANCE) {
            lbnn_conv_block(squares, in_mean, in_var, column, 1, out_mean, shared, &s, s.in_channels);
        }
        if (three) {
            lbnn_conv_three(kind, in_mean, in_var, w, out_mean, out_var, &s, shared);
        } else {
            lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, &s);
        }
        for (int o = 0; o < s.out_channels; o++) {
            lbnn_rank1_plane(shared, LBNN_READ(factors[o]), out_var + o * plane, plane);
        }
        in_mean += in_len;
        in_var += in_len;
        w += s.out_channels * (taps + 2);
        factors += s.out_channels;
        column += step;
        out_mean += s.out_channels * plane;
        out_var += s.out_channels * plane;
    }
}

LBNN_INLINE void lbnn_rank1_3x3(int kind, int squares, const float *in_mean, const float *in_var, const float *w,
                                const float *factors, float *out_mean, float *out_var, float *scratch,
                                const lbnn_conv_shape *s, int step)
{
#ifdef LBNN_CONV_STRIPS
    (void)squares, (void)step;
    lbnn_conv_strips(kind, in_mean, in_var, w, factors, out_mean, out_var, s, scratch);
#else
    lbnn_rank1_planes(kind, squares, 1, in_mean, in_var, w, factors, out_mean, out_var, scratch, s, step);
#endif
}

LBNN_INLINE void lbnn_rank1_windows(int kind, int squares, const float *in_mean, const float *in_var, const float *w,
                                    const float *factors, float *out_mean, float *out_var, float *scratch,
                                    const lbnn_conv_shape *s, int step)
{
#ifdef LBNN_CONV_FOUR
    (void)squares, (void)step;
    lbnn_conv_patches(kind, 0, in_mean, in_var, w, factors, out_mean, out_var, s, scratch);
#else
    lbnn_rank1_planes(kind, squares, 0, in_mean, in_var, w, factors, out_mean, out_var, scratch, s, step);
#endif
}

/* The input may lie where the output is written (lbnn_conv_patch.h). */
LBNN_INLINE void lbnn_rank1_single(int kind, const float *in_mean, const float *in_var, const float *w,
                                   const float *factors, float *out_mean, float *out_var, float *scratch,
                                   const lbnn_conv_shape *s)
{
#ifdef LBNN_HELIUM
    lbnn_helium_patches(kind, in_mean, in_var, w, factors, out_mean, out_var, s, scratch);
#else
    lbnn_conv_patches(kind, 1, in_mean, in_var, w, factors, out_mean, out_var, s, scratch);
#endif
}

/* E' = E[b] + E * E[w];  V' = (V[b] + V * E[w]^2) + row (S * column),  S = V + E^2  (* is convolution) */
LBNN_KERNEL void lbnn_conv2d_rank1(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                   const float *LBNN_RESTRICT w, const float *LBNN_RESTRICT factors,
                                   float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                   float *LBNN_RESTRICT scratch, const lbnn_conv_shape *shape, int step)
{
    lbnn_rank1_planes(LBNN_MOMENTS_RANK1, LBNN_MOMENTS_SQUARES, 0, in_mean, in_var, w, factors, out_mean, out_var,
                      scratch, shape, step);
}

/* E' = E[b] + x * E[w];  V' = V[b] + row (x^2 * column) */
LBNN_KERNEL void lbnn_conv2d_rank1_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                         const float *LBNN_RESTRICT factors, float *LBNN_RESTRICT out_mean,
                                         float *LBNN_RESTRICT out_var, float *LBNN_RESTRICT scratch,
                                         const lbnn_conv_shape *shape, int step)
{
    lbnn_rank1_planes(LBNN_POINT_RANK1, LBNN_POINT_SQUARES, 0, in, in, w, factors, out_mean, out_var, scratch, shape,
                      step);
}

/* The formulas of lbnn_conv2d_rank1 and lbnn_conv2d_rank1_point; the shape is copied as in lbnn_conv2d_3x3. */
LBNN_KERNEL void lbnn_conv2d_3x3_rank1(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                       const float *LBNN_RESTRICT w, const float *LBNN_RESTRICT factors,
                                       float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                       float *LBNN_RESTRICT scratch, const lbnn_conv_shape *shape, int step)
{
    const lbnn_conv_shape own = *shape;
    lbnn_rank1_3x3(LBNN_MOMENTS_RANK1, LBNN_MOMENTS_SQUARES, in_mean, in_var, w, factors, out_mean, out_var, scratch,
                   &own, step);
}

LBNN_KERNEL void lbnn_conv2d_3x3_rank1_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                             const float *LBNN_RESTRICT factors, float *LBNN_RESTRICT out_mean,
                                             float *LBNN_RESTRICT out_var, float *LBNN_RESTRICT scratch,
                                             const lbnn_conv_shape *shape, int step)
{
    const lbnn_conv_shape own = *shape;
    lbnn_rank1_3x3(LBNN_POINT_RANK1, LBNN_POINT_SQUARES, in, in, w, factors, out_mean, out_var, scratch, &own, step);
}

LBNN_KERNEL void lbnn_conv2d_patch_rank1(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                         const float *LBNN_RESTRICT w, const float *LBNN_RESTRICT factors,
                                         float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                         float *LBNN_RESTRICT scratch, const lbnn_conv_shape *shape, int step)
{
    lbnn_rank1_windows(LBNN_MOMENTS_RANK1, LBNN_MOMENTS_SQUARES, in_mean, in_var, w, factors, out_mean, out_var,
                       scratch, shape, step);
}

LBNN_KERNEL void lbnn_conv2d_patch_rank1_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                               const float *LBNN_RESTRICT factors, float *LBNN_RESTRICT out_mean,
                                               float *LBNN_RESTRICT out_var, float *LBNN_RESTRICT scratch,
                                               const lbnn_conv_shape *shape, int step)
{
    lbnn_rank1_windows(LBNN_POINT_RANK1, LBNN_POINT_SQUARES, in, in, w, factors, out_mean, out_var, scratch, shape,
                       step);
}

LBNN_KERNEL void lbnn_conv2d_1x1_rank1(const float *in_mean, const float *in_var, const float *w, const float *factors,
                                       float *out_mean, float *out_var, float *scratch, const lbnn_conv_shape *shape,
                                       int step)
{
    (void)step;
    lbnn_rank1_single(LBNN_MOMENTS_RANK1, in_mean, in_var, w, factors, out_mean, out_var, scratch, shape);
}

LBNN_KERNEL void lbnn_conv2d_1x1_rank1_point(const float *in, const float *w, const float *factors, float *out_mean,
                                             float *out_var, float *scratch, const lbnn_conv_shape *shape, int step)
{
    (void)step;
    lbnn_rank1_single(LBNN_POINT_RANK1, in, in, w, factors, out_mean, out_var, scratch, shape);
}

#endif
#endif
