/* lbnn_conv_any.h: a convolution of any shape, pixel after pixel; the measure for all faster forms.
 *
 *     sums = lbnn_conv_pixel(kind, in_mean, in_var, w, width, shape, channels, y, x)    LBNN_BLOCK outputs
 *     sum  = lbnn_conv_pixel_one(...)                                                   one output
 *     lbnn_conv_row_any(...)                                                            a row of a packed block
 *
 * A window is peeled at the edges: its spans (lbnn_conv_shape.h) leave out the taps that lie outside, so that the
 * inner loop tests nothing.
 */
#ifndef LBNN_CONV_ANY_H
#define LBNN_CONV_ANY_H

#include "lbnn_conv_shape.h"
#include "lbnn_sums.h"

/* One pixel of a block of output channels; w is the block's first row, that of the bias. */
LBNN_INLINE lbnn_sums lbnn_conv_pixel(int kind, const float *in_mean, const float *in_var, const float *w,
                                      int width, const lbnn_conv_shape *s, int channels, lbnn_span y, lbnn_span x)
{
    const int line = s->dilation_height * s->in_width;
    const int taps = 2 * width * s->kernel_width;
    int at = y.start * s->in_width + x.start;
    int row = 2 * width * (y.first * s->kernel_width + x.first + 1);
    lbnn_sums sums = lbnn_sums_bias(w, width);
    for (int c = 0; c < channels; c++) {
        for (int k = 0; k < y.count; k++) {
            sums = lbnn_sums_run(sums, kind, in_mean, in_var, at + k * line, s->dilation_width,
                                 w + (row + k * taps), width, x.count);
        }
        row += s->kernel_height * taps;
        at += s->in_height * s->in_width;
    }
    return sums;
}

/* The same for one output channel. */
LBNN_INLINE lbnn_sum lbnn_conv_pixel_one(int kind, const float *in_mean, const float *in_var, const float *w,
                                         int width, const lbnn_conv_shape *s, int channels, lbnn_span y,
                                         lbnn_span x)
{
    const int line = s->dilation_height * s->in_width;
    const int taps = 2 * width * s->kernel_width;
    int at = y.start * s->in_width + x.start;
    int row = 2 * width * (y.first * s->kernel_width + x.first + 1);
    lbnn_sum sum = lbnn_sum_bias(w, width);
    for (int c = 0; c < channels; c++) {
        for (int k = 0; k < y.count; k++) {
            sum = lbnn_sum_run(sum, kind, in_mean, in_var, at + k * line, s->dilation_width,
                               w + (row + k * taps), width, x.count);
        }
        row += s->kernel_height * taps;
        at += s->in_height * s->in_width;
    }
    return sum;
}

/* One row of a packed block of output channels, which begins at element `to` of the outputs. */
LBNN_INLINE void lbnn_conv_row_any(int kind, const float *in_mean, const float *in_var, const float *w, int width,
                                   float *out_mean, float *out_var, int to, const lbnn_conv_shape *s, int channels,
                                   lbnn_span y)
{
    const int plane = s->out_height * s->out_width;
    for (int column = 0; column < s->out_width; column++) {
        const lbnn_span x = lbnn_conv_columns(s, column);
        int o = 0;
        for (; LBNN_WHOLE_BLOCKS ? o < width : o + LBNN_BLOCK <= width; o += LBNN_BLOCK) {
            const lbnn_sums sums = lbnn_conv_pixel(kind, in_mean, in_var, w + o, width, s, channels, y, x);
            lbnn_sums_store(sums, out_mean, out_var, to + column + o * plane, plane, width - o);
        }
        for (; o < width; o++) {
            const lbnn_sum sum = lbnn_conv_pixel_one(kind, in_mean, in_var, w + o, width, s, channels, y, x);
            lbnn_sum_store(sum, out_mean, out_var, to + column + o * plane);
        }
    }
}

#endif
