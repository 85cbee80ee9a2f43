/* lbnn_conv_lanes.h: rows of a convolution in vector registers (LBNN_SIMD).
 *
 *     lbnn_conv_row_four(...)     any stride, at least 4 columns: a vector is a block of output channels, and four
 *                                 neighbouring pixels share its weights
 *     lbnn_conv_row_one(...)      one output channel, stride 1: a vector is LBNN_LANES neighbouring pixels
 *
 * The sums are those of lbnn_conv_any.h in the same order; at an edge a tap outside is a known zero, which adds
 * nothing.
 */
#ifndef LBNN_CONV_LANES_H
#define LBNN_CONV_LANES_H

#include "lbnn_conv_any.h"

#ifdef LBNN_SIMD
/* Four neighbouring pixels of a block of output channels. */
typedef struct {
    lbnn_sums a, b, c, d;
} lbnn_pixels;

/* The input of a tap in the row that begins at element `row`; outside (looked for only at an `edge`, a constant) it is
 * a known zero. */
LBNN_INLINE lbnn_input lbnn_input_tap(int kind, int edge, const float *mean, const float *var, int row, int column,
                                      int columns)
{
    const lbnn_input zero = {0.0f, 0.0f, 0.0f};
    return edge && (column < 0 || column >= columns) ? zero : lbnn_input_load(kind, mean, var, row + column);
}

/* Four pixels share a weight, and four sums are on their way at a time instead of one. */
LBNN_INLINE lbnn_pixels lbnn_conv_pixels(int kind, int edge, const float *in_mean, const float *in_var,
                                         const float *w, int width, const lbnn_conv_shape *s, int channels,
                                         lbnn_span y, int column)
{
    const int columns = s->in_width;
    const int step = s->stride_width;
    const lbnn_sums bias = lbnn_sums_bias(w, width);
    lbnn_pixels sums = {bias, bias, bias, bias};
    for (int c = 0; c < channels; c++) {
        for (int k = 0; k < y.count; k++) {
            const int from = (c * s->in_height + y.start + k * s->dilation_height) * columns;
            const float *row = w + 2 * width * ((c * s->kernel_height + y.first + k) * s->kernel_width + 1);
            int x = column;
            for (int t = 0; t < s->kernel_width; t++) {
                const lbnn_input xa = lbnn_input_tap(kind, edge, in_mean, in_var, from, x, columns);
                const lbnn_input xb = lbnn_input_tap(kind, edge, in_mean, in_var, from, x + step, columns);
                const lbnn_input xc = lbnn_input_tap(kind, edge, in_mean, in_var, from, x + 2 * step, columns);
                const lbnn_input xd = lbnn_input_tap(kind, edge, in_mean, in_var, from, x + 3 * step, columns);
                sums.a = lbnn_sums_add(sums.a, kind, xa, row, width);
                sums.b = lbnn_sums_add(sums.b, kind, xb, row, width);
                sums.c = lbnn_sums_add(sums.c, kind, xc, row, width);
                sums.d = lbnn_sums_add(sums.d, kind, xd, row, width);
                row += 2 * width;
                x += s->dilation_width;
            }
        }
    }
    return sums;
}

/* One row of a block of output channels, which begins at element `to` of the outputs, four pixels at a time; the last
 * four may overlap those before. */
LBNN_INLINE void lbnn_conv_row_four(int kind, const float *in_mean, const float *in_var, const float *w, int width,
                                    int outputs, float *out_mean, float *out_var, int to, const lbnn_conv_shape *s,
                                    int channels, lbnn_span y)
{
    const int plane = s->out_height * s->out_width;
    const int reach = 3 * s->stride_width + (s->kernel_width - 1) * s->dilation_width;
    for (int column = 0; column < s->out_width; column += 4) {
        const int at = column + 4 <= s->out_width ? column : s->out_width - 4;
        const int from = at * s->stride_width - s->padding_width;
        lbnn_pixels sums;
        if (from >= 0 && from + reach < s->in_width) {
            sums = lbnn_conv_pixels(kind, 0, in_mean, in_var, w, width, s, channels, y, from);
        } else {
            sums = lbnn_conv_pixels(kind, 1, in_mean, in_var, w, width, s, channels, y, from);
        }
        lbnn_sums_store(sums.a, out_mean, out_var, to + at, plane, outputs);
        lbnn_sums_store(sums.b, out_mean, out_var, to + at + 1, plane, outputs);
        lbnn_sums_store(sums.c, out_mean, out_var, to + at + 2, plane, outputs);
        lbnn_sums_store(sums.d, out_mean, out_var, to + at + 3, plane, outputs);
    }
}

/* LBNN_LANES neighbouring pixels of one output channel, the first of which is element `to`, stride 1, all taps inside:
 * `column` is where the first tap of the first pixel is. */
LBNN_INLINE void lbnn_conv_lanes(int kind, const float *in_mean, const float *in_var, const float *w,
                                 float *out_mean, float *out_var, int to, const lbnn_conv_shape *s, int channels,
                                 lbnn_span y, int column)
{
    lbnn_lanes mean = lbnn_lanes_fill(w[0]);
    lbnn_lanes var = lbnn_lanes_fill(w[1]);
    for (int c = 0; c < channels; c++) {
        for (int k = 0; k < y.count; k++) {
            const int from = (c * s->in_height + y.start + k * s->dilation_height) * s->in_width + column;
            const float *row = w + 2 * ((c * s->kernel_height + y.first + k) * s->kernel_width + 1);
            for (int t = 0; t < s->kernel_width; t++) {
                const int at = from + t * s->dilation_width;
                const lbnn_lanes e = lbnn_lanes_load(in_mean + at, LBNN_LANES);
                lbnn_lanes second = e * e;
                mean += e * row[2 * t];
                if (kind == LBNN_MOMENTS) {
                    const lbnn_lanes v = lbnn_lanes_load(in_var + at, LBNN_LANES);
                    second = v + e * e;
                    var += v * (row[2 * t] * row[2 * t]);
                }
                var += second * row[2 * t + 1];
            }
        }
    }
    lbnn_lanes_store(out_mean + to, mean, LBNN_LANES);
    if (LBNN_VARIANCE) {
        lbnn_lanes_store(out_var + to, var, LBNN_LANES);
    }
}

/* One row of one output channel, stride 1: edges pixel by pixel, the inside in lanes, the last of which may
 * overlap those before. */
LBNN_INLINE void lbnn_conv_row_one(int kind, const float *in_mean, const float *in_var, const float *w,
                                   float *out_mean, float *out_var, int to, const lbnn_conv_shape *s, int channels,
                                   lbnn_span y)
{
    const int reach = (s->kernel_width - 1) * s->dilation_width;
    const int first = s->padding_width;
    const int last = s->in_width - reach + s->padding_width;
    for (int column = 0; column < s->out_width; column++) {
        if (column == first && last - first >= LBNN_LANES) {
            for (; column < last; column += LBNN_LANES) {
                const int at = column + LBNN_LANES <= last ? column : last - LBNN_LANES;
                lbnn_conv_lanes(kind, in_mean, in_var, w, out_mean, out_var, to + at, s, channels, y,
                                at - s->padding_width);
            }
            column = last;
            if (column >= s->out_width) {
                break;
            }
        }
        const lbnn_sum sum = lbnn_conv_pixel_one(kind, in_mean, in_var, w, 1, s, channels, y,
                                                 lbnn_conv_columns(s, column));
        lbnn_sum_store(sum, out_mean, out_var, to + column);
    }
}
#endif
#endif
