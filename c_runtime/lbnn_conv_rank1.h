/* lbnn_conv_rank1.h: 2-D convolution on moments, the variances of whose weights are products of factors.
 *
 *     lbnn_conv2d_rank1(in_mean, in_var, w, factors, out_mean, out_var, shared, &shape, step)      any shape
 *     lbnn_conv2d_rank1_point(in, w, factors, out_mean, out_var, shared, &shape, step)             input without variance
 *
 * and lbnn_conv2d_3x3_rank1, lbnn_conv2d_1x1_rank1 with their _point forms: kernel 3, stride 1, padding 1 and at least 4
 * columns; kernel 1, stride 1 and at least 4 pixels; both with an even number of output channels.
 *
 * V[w_ni] = row_n column_i, so that one convolution of S with the columns serves all outputs of a group: `shared` has
 * room for it, a float for each pixel of the output. `w` is packed as for lbnn_conv2d, 4 bytes a weight (lbnn_sums.h);
 * `factors` are the rows, one for each output channel, and the columns, one for each tap of a group, `step` floats from
 * one group's to the next's, 0 where all groups have the same; LBNN_PACK - 1 unused floats follow. Outputs must not
 * overlap inputs.
 */
#ifndef LBNN_CONV_RANK1_H
#define LBNN_CONV_RANK1_H

#include "lbnn_conv.h"
#include "lbnn_conv_four.h"

#ifndef LBNN_HALF_WEIGHTS /* which hold a sigma for each weight */

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
#elif defined(LBNN_HELIUM)
    lbnn_helium_conv(kind, LBNN_HELIUM_3X3, in_mean, in_var, w, out_mean, out_var, s, 1, s->in_channels, s->out_channels);
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
#elif defined(LBNN_HELIUM)
    lbnn_helium_conv(kind, LBNN_HELIUM_1X1, in_mean, in_var, w, out_mean, out_var, s, 1, s->in_channels, s->out_channels);
#else
    lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
#endif
}

/* var += row shared, pixel by pixel */
LBNN_INLINE void lbnn_rank1_plane(const float *shared, float row, float *var, int plane)
{
    LBNN_ROUND_PRODUCTS
    for (int i = 0; LBNN_VARIANCE && i < plane; i += LBNN_LANES) {
        const lbnn_lanes sum = lbnn_lanes_load(shared + i, plane - i);
        lbnn_lanes_store(var + i, lbnn_lanes_load(var + i, plane - i) + row * sum, plane - i);
    }
}

/* What a fast kernel is for; always a constant. */
enum { LBNN_ANY, LBNN_3X3, LBNN_1X1 };

/* The sums of S of one group; they have no mean, and what is stored for it is overwritten afterwards. */
LBNN_INLINE void lbnn_rank1_shared(int kind, int fast, const float *in_mean, const float *in_var, const float *column,
                                   float *out_mean, float *shared, const lbnn_conv_shape *s)
{
#ifdef LBNN_CONV_FOUR
    if (fast == LBNN_3X3) {
        lbnn_conv_four_channels(kind, 0, in_mean, in_var, column, 1, out_mean, shared, s, s->in_channels);
        return;
    }
#endif
    (void)fast;
    lbnn_conv_block(kind, in_mean, in_var, column, 1, out_mean, shared, s, s->in_channels);
}

LBNN_INLINE void lbnn_rank1_means(int kind, int fast, const float *in_mean, const float *in_var, const float *w,
                                  float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
    if (fast == LBNN_3X3) {
        lbnn_conv_3x3(kind, in_mean, in_var, w, out_mean, out_var, s);
    } else if (fast == LBNN_1X1) {
        lbnn_conv_1x1(kind, in_mean, in_var, w, out_mean, out_var, s);
    } else {
        lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
    }
}

/* Group after group; `kind` is that of the means, `squares` that of the shared sums. */
LBNN_INLINE void lbnn_conv_rank1(int kind, int squares, int fast, const float *in_mean, const float *in_var,
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
            lbnn_rank1_shared(squares, fast, in_mean, in_var, column, out_mean, shared, &s);
        }
        lbnn_rank1_means(kind, fast, in_mean, in_var, w, out_mean, out_var, &s);
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

/* E' = E[b] + E * E[w];  V' = (V[b] + V * E[w]^2) + row (S * column),  S = V + E^2  (* is convolution) */
LBNN_KERNEL void lbnn_conv2d_rank1(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                   const float *LBNN_RESTRICT w, const float *LBNN_RESTRICT factors,
                                   float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                   float *LBNN_RESTRICT shared, const lbnn_conv_shape *shape, int step)
{
    lbnn_conv_rank1(LBNN_MOMENTS_RANK1, LBNN_MOMENTS_SQUARES, LBNN_ANY, in_mean, in_var, w, factors, out_mean, out_var,
                    shared, shape, step);
}

/* E' = E[b] + x * E[w];  V' = V[b] + row (x^2 * column) */
LBNN_KERNEL void lbnn_conv2d_rank1_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                         const float *LBNN_RESTRICT factors, float *LBNN_RESTRICT out_mean,
                                         float *LBNN_RESTRICT out_var, float *LBNN_RESTRICT shared,
                                         const lbnn_conv_shape *shape, int step)
{
    lbnn_conv_rank1(LBNN_POINT_RANK1, LBNN_POINT_SQUARES, LBNN_ANY, in, in, w, factors, out_mean, out_var, shared,
                    shape, step);
}

/* The formulas of lbnn_conv2d_rank1 and lbnn_conv2d_rank1_point. */
LBNN_KERNEL void lbnn_conv2d_3x3_rank1(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                       const float *LBNN_RESTRICT w, const float *LBNN_RESTRICT factors,
                                       float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                       float *LBNN_RESTRICT shared, const lbnn_conv_shape *shape, int step)
{
    lbnn_conv_rank1(LBNN_MOMENTS_RANK1, LBNN_MOMENTS_SQUARES, LBNN_3X3, in_mean, in_var, w, factors, out_mean, out_var,
                    shared, shape, step);
}

LBNN_KERNEL void lbnn_conv2d_3x3_rank1_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                             const float *LBNN_RESTRICT factors, float *LBNN_RESTRICT out_mean,
                                             float *LBNN_RESTRICT out_var, float *LBNN_RESTRICT shared,
                                             const lbnn_conv_shape *shape, int step)
{
    lbnn_conv_rank1(LBNN_POINT_RANK1, LBNN_POINT_SQUARES, LBNN_3X3, in, in, w, factors, out_mean, out_var, shared,
                    shape, step);
}

LBNN_KERNEL void lbnn_conv2d_1x1_rank1(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                       const float *LBNN_RESTRICT w, const float *LBNN_RESTRICT factors,
                                       float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                       float *LBNN_RESTRICT shared, const lbnn_conv_shape *shape, int step)
{
    lbnn_conv_rank1(LBNN_MOMENTS_RANK1, LBNN_MOMENTS_SQUARES, LBNN_1X1, in_mean, in_var, w, factors, out_mean, out_var,
                    shared, shape, step);
}

LBNN_KERNEL void lbnn_conv2d_1x1_rank1_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                             const float *LBNN_RESTRICT factors, float *LBNN_RESTRICT out_mean,
                                             float *LBNN_RESTRICT out_var, float *LBNN_RESTRICT shared,
                                             const lbnn_conv_shape *shape, int step)
{
    lbnn_conv_rank1(LBNN_POINT_RANK1, LBNN_POINT_SQUARES, LBNN_1X1, in, in, w, factors, out_mean, out_var, shared,
                    shape, step);
}

#endif
#endif
