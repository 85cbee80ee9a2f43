/* lbnn_conv_any.h: a convolution of any shape, pixel after pixel; the measure for all faster forms.
 *
 *     sums = lbnn_conv_pixel(kind, in_mean, in_var, w, width, shape, part, y, x)    LBNN_BLOCK outputs
 *     sum  = lbnn_conv_pixel_one(...)                                               one output
 *     lbnn_conv_row_any(...)                                                        a row of a packed block
 *
 * A window is peeled at the edges: its spans (lbnn_conv_shape.h) leave out the taps that lie outside, so that the
 * inner loop tests nothing.
 */
#ifndef LBNN_CONV_ANY_H
#define LBNN_CONV_ANY_H

#include "lbnn_conv_shape.h"
#include "lbnn_sums.h"

/* One part of the sums of one pixel, of a block of output channels; w is the block's first row, that of the bias. */
LBNN_INLINE lbnn_sums lbnn_conv_pixel(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                      int width, const lbnn_conv_shape *s, lbnn_part part, lbnn_span y, lbnn_span x)
{
    lbnn_sums sums = lbnn_sums_bias(lbnn_sums_start(kind, w, part.first > 0), width);
    for (int c = part.channel; c < part.channels; c++) {
        for (int k = 0; k < y.count; k++) {
            const int line = c * s->in_height + y.start + k * s->dilation_height;
            const int row = (c * s->kernel_height + y.first + k) * s->kernel_width;
            const lbnn_span run = lbnn_span_in(x, part, row, s->dilation_width);
            sums = lbnn_sums_run(sums, kind, in_mean, in_var, line * s->in_width + run.start, s->dilation_width,
                                 w + lbnn_row_at(kind, width, row + run.first), width, run.count);
        }
    }
    return sums;
}

/* The same for one output channel. */
LBNN_INLINE lbnn_sum lbnn_conv_pixel_one(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                         int width, const lbnn_conv_shape *s, lbnn_part part, lbnn_span y,
                                         lbnn_span x)
{
    lbnn_sum sum = lbnn_sum_bias(lbnn_sums_start(kind, w, part.first > 0), width);
    for (int c = part.channel; c < part.channels; c++) {
        for (int k = 0; k < y.count; k++) {
            const int line = c * s->in_height + y.start + k * s->dilation_height;
            const int row = (c * s->kernel_height + y.first + k) * s->kernel_width;
            const lbnn_span run = lbnn_span_in(x, part, row, s->dilation_width);
            sum = lbnn_sum_run(sum, kind, in_mean, in_var, line * s->in_width + run.start, s->dilation_width,
                               w + lbnn_row_at(kind, width, row + run.first), width, run.count);
        }
    }
    return sum;
}

/* One row of a packed block of output channels, which begins at element `to` of the outputs, part after part. */
LBNN_INLINE void lbnn_conv_row_any(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, int width,
                                   float *out_mean, float *out_var, int to, const lbnn_conv_shape *s, int channels,
                                   lbnn_span y)
{
    const int plane = s->out_height * s->out_width;
    const int taps = lbnn_conv_taps(s, channels);
    for (int first = 0; first < taps; first += lbnn_fold(kind)) {
        const lbnn_part part = lbnn_part_of(s, taps, first, lbnn_fold(kind));
        for (int column = 0; column < s->out_width; column++) {
            const lbnn_span x = lbnn_conv_columns(s, column);
            int at = to + column;
            int o = 0;
            for (; LBNN_WHOLE_BLOCKS ? o < width : o + LBNN_BLOCK <= width; o += LBNN_BLOCK) {
                lbnn_sums sums = lbnn_conv_pixel(kind, in_mean, in_var, w + o, width, s, part, y, x);
                if (first > 0) {
                    sums = lbnn_sums_join(sums, out_mean, out_var, at, plane, width - o);
                }
                lbnn_sums_store(sums, out_mean, out_var, at, plane, width - o);
                at += LBNN_BLOCK * plane;
            }
            for (; o < width; o++) {
                lbnn_sum sum = lbnn_conv_pixel_one(kind, in_mean, in_var, w + o, width, s, part, y, x);
                if (first > 0) {
                    sum = lbnn_sum_join(sum, out_mean, out_var, at);
                }
                lbnn_sum_store(sum, out_mean, out_var, at);
                at += plane;
            }
        }
    }
}

#endif
