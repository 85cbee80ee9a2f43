/* lbnn_conv_lanes.h: rows of a convolution in vector registers (LBNN_SIMD), except Helium's.
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

#if defined(LBNN_SIMD) && !defined(LBNN_HELIUM)
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

/* One part of the sums of four pixels: they share a weight, and four sums are on their way at a time instead of one. */
LBNN_INLINE lbnn_pixels lbnn_conv_pixels(int kind, int edge, const float *in_mean, const float *in_var,
                                         const lbnn_weight *w, int width, const lbnn_conv_shape *s, lbnn_part part,
                                         lbnn_span y, int column)
{
    const int columns = s->in_width;
    const int step = s->stride_width;
    const lbnn_span whole = {0, 0, s->kernel_width};
    const lbnn_sums start = lbnn_sums_bias(lbnn_sums_start(kind, w, part.first > 0), width);
    lbnn_pixels sums = {start, start, start, start};
    for (int c = part.channel; c < part.channels; c++) {
        for (int k = 0; k < y.count; k++) {
            const int from = (c * s->in_height + y.start + k * s->dilation_height) * columns;
            const int number = (c * s->kernel_height + y.first + k) * s->kernel_width;
            const lbnn_span taps = lbnn_span_in(whole, part, number, s->dilation_width);
            const lbnn_weight *row = w + lbnn_row_at(kind, width, number + taps.first);
            int x = column + taps.start;
            for (int t = 0; t < taps.count; t++) {
                const lbnn_input xa = lbnn_input_tap(kind, edge, in_mean, in_var, from, x, columns);
                const lbnn_input xb = lbnn_input_tap(kind, edge, in_mean, in_var, from, x + step, columns);
                const lbnn_input xc = lbnn_input_tap(kind, edge, in_mean, in_var, from, x + 2 * step, columns);
                const lbnn_input xd = lbnn_input_tap(kind, edge, in_mean, in_var, from, x + 3 * step, columns);
                sums.a = lbnn_sums_add(sums.a, kind, xa, row, width);
                sums.b = lbnn_sums_add(sums.b, kind, xb, row, width);
                sums.c = lbnn_sums_add(sums.c, kind, xc, row, width);
                sums.d = lbnn_sums_add(sums.d, kind, xd, row, width);
                row += lbnn_row_len(kind, width);
                x += s->dilation_width;
            }
        }
    }
    return sums;
}

/* One row of a block of output channels, which begins at element `to` of the outputs, four pixels at a time and part
 * after part; the last four may overlap those before. */
LBNN_INLINE void lbnn_conv_row_four(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, int width,
                                    int outputs, float *out_mean, float *out_var, int to, const lbnn_conv_shape *s,
                                    int channels, lbnn_span y)
{
    const int plane = s->out_height * s->out_width;
    const int reach = 3 * s->stride_width + (s->kernel_width - 1) * s->dilation_width;
    const int taps = lbnn_conv_taps(s, channels);
    for (int column = 0; column < s->out_width; column += 4) {
        const int here = column + 4 <= s->out_width ? column : s->out_width - 4;
        const int at = to + here;
        const int from = here * s->stride_width - s->padding_width;
        for (int first = 0; first < taps; first += lbnn_fold(kind)) {
            const lbnn_part part = lbnn_part_of(s, taps, first, lbnn_fold(kind));
            lbnn_pixels sums;
            if (from >= 0 && from + reach < s->in_width) {
                sums = lbnn_conv_pixels(kind, 0, in_mean, in_var, w, width, s, part, y, from);
            } else {
                sums = lbnn_conv_pixels(kind, 1, in_mean, in_var, w, width, s, part, y, from);
            }
            if (first > 0) {
                sums.a = lbnn_sums_join(sums.a, out_mean, out_var, at, plane, outputs);
                sums.b = lbnn_sums_join(sums.b, out_mean, out_var, at + 1, plane, outputs);
                sums.c = lbnn_sums_join(sums.c, out_mean, out_var, at + 2, plane, outputs);
                sums.d = lbnn_sums_join(sums.d, out_mean, out_var, at + 3, plane, outputs);
            }
            lbnn_sums_store(sums.a, out_mean, out_var, at, plane, outputs);
            lbnn_sums_store(sums.b, out_mean, out_var, at + 1, plane, outputs);
            lbnn_sums_store(sums.c, out_mean, out_var, at + 2, plane, outputs);
            lbnn_sums_store(sums.d, out_mean, out_var, at + 3, plane, outputs);
        }
    }
}

/* One part of the sums of LBNN_LANES neighbouring pixels of one output channel, the first of which is element `to`, stride 1, all taps inside:
 * `column` is where the first tap of the first pixel is. */
LBNN_INLINE void lbnn_conv_lanes(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                 float *out_mean, float *out_var, int to, const lbnn_conv_shape *s, lbnn_part part,
                                 lbnn_span y, int column)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_span whole = {0, 0, s->kernel_width};
    const lbnn_weight *start = lbnn_sums_start(kind, w, part.first > 0);
    lbnn_lanes mean = lbnn_lanes_fill(LBNN_BIAS(start[0]));
    lbnn_lanes var = lbnn_lanes_fill(LBNN_BIAS(start[1]));
    for (int c = part.channel; c < part.channels; c++) {
        for (int k = 0; k < y.count; k++) {
            const int line = c * s->in_height + y.start + k * s->dilation_height;
            const int number = (c * s->kernel_height + y.first + k) * s->kernel_width;
            const lbnn_span taps = lbnn_span_in(whole, part, number, s->dilation_width);
            const lbnn_weight *row = w + lbnn_row_at(kind, 1, number + taps.first);
            for (int t = 0; t < taps.count; t++) {
                const int at = line * s->in_width + column + taps.start + t * s->dilation_width;
                const lbnn_lanes e = lbnn_lanes_load(in_mean + at, LBNN_LANES);
                const lbnn_weight *tap = row + lbnn_row_len(kind, 1) * t;
                const float weight = LBNN_MEAN(tap[0]);
                lbnn_lanes second = e * e;
                if (!lbnn_is_squares(kind)) {
                    mean += e * weight;
                }
                if (lbnn_is_random(kind)) {
                    const lbnn_lanes v = lbnn_lanes_load(in_var + at, LBNN_LANES);
                    second = v + e * e;
                    if (!lbnn_is_squares(kind)) {
                        var += v * (weight * weight);
                    }
                }
                if (lbnn_is_squares(kind)) {
                    var += second * weight;
                }
                if (lbnn_is_full(kind)) {
                    var += second * LBNN_VAR(tap[LBNN_VARS(1)]);
                }
            }
        }
    }
    if (part.first > 0) {
        mean = lbnn_lanes_load(out_mean + to, LBNN_LANES) + mean;
        if (LBNN_VARIANCE) {
            var = lbnn_lanes_load(out_var + to, LBNN_LANES) + var;
        }
    }
    lbnn_lanes_store(out_mean + to, mean, LBNN_LANES);
    if (LBNN_VARIANCE) {
        lbnn_lanes_store(out_var + to, var, LBNN_LANES);
    }
}

/* One row of one output channel, stride 1: edges pixel by pixel, the inside in lanes, the last of which may
 * overlap those before. */
LBNN_INLINE void lbnn_conv_row_one(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                   float *out_mean, float *out_var, int to, const lbnn_conv_shape *s, int channels,
                                   lbnn_span y)
{
    const int reach = (s->kernel_width - 1) * s->dilation_width;
    const int left = s->padding_width;
    const int right = s->in_width - reach + s->padding_width;
    const int taps = lbnn_conv_taps(s, channels);
    const int fold = lbnn_fold(kind);
    for (int column = 0; column < s->out_width; column++) {
        if (column == left && right - left >= LBNN_LANES) {
            for (; column < right; column += LBNN_LANES) {
                const int at = column + LBNN_LANES <= right ? column : right - LBNN_LANES;
                for (int first = 0; first < taps; first += fold) {
                    lbnn_conv_lanes(kind, in_mean, in_var, w, out_mean, out_var, to + at, s,
                                    lbnn_part_of(s, taps, first, fold), y, at - s->padding_width);
                }
            }
            column = right;
            if (column >= s->out_width) {
                break;
            }
        }
        const lbnn_span x = lbnn_conv_columns(s, column);
        for (int first = 0; first < taps; first += fold) {
            lbnn_sum sum = lbnn_conv_pixel_one(kind, in_mean, in_var, w, 1, s, lbnn_part_of(s, taps, first, fold), y, x);
            if (first > 0) {
                sum = lbnn_sum_join(sum, out_mean, out_var, to + column);
            }
            lbnn_sum_store(sum, out_mean, out_var, to + column);
        }
    }
}
#endif
#endif
