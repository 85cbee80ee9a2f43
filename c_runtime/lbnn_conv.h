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

#include "lbnn_sums.h"

typedef struct {
    int in_channels, in_height, in_width;
    int out_channels, out_height, out_width;
    int kernel_height, kernel_width;
    int stride_height, stride_width;
    int padding_height, padding_width;
    int dilation_height, dilation_width;
    int groups;
} lbnn_conv_shape;

/* The taps of a window along one axis that lie inside the input: `count` of them from tap `first`,
 * which reads position `start`. */
typedef struct {
    int first, start, count;
} lbnn_span;

LBNN_INLINE lbnn_span lbnn_span_of(int position, int kernel, int dilation, int size)
{
    lbnn_span span;
    span.first = 0;
    span.start = position;
    while (span.start < 0 && span.first < kernel) {
        span.start += dilation;
        span.first++;
    }
    span.count = kernel - span.first;
    while (span.count > 0 && span.start + (span.count - 1) * dilation >= size) {
        span.count--;
    }
    return span;
}

/* One pixel of a block of output channels; w is the block's first row, that of the bias. */
LBNN_INLINE lbnn_sums lbnn_conv_pixel(int kind, const float *in_mean, const float *in_var, const float *w,
                                      int width, const lbnn_conv_shape *s, int channels, lbnn_span y, lbnn_span x)
{
    const int line = s->dilation_height * s->in_width;
    const int taps = 2 * width * s->kernel_width;
    const int at = y.start * s->in_width + x.start;
    const float *row = w + 2 * width * (y.first * s->kernel_width + x.first + 1);
    lbnn_sums sums = lbnn_sums_bias(w, width);
    in_mean += at;
    in_var += at;
    for (int c = 0; c < channels; c++) {
        for (int k = 0; k < y.count; k++) {
            sums = lbnn_sums_run(sums, kind, in_mean + k * line, in_var + k * line, s->dilation_width,
                                 row + k * taps, width, x.count);
        }
        row += s->kernel_height * taps;
        in_mean += s->in_height * s->in_width;
        in_var += s->in_height * s->in_width;
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
    const int at = y.start * s->in_width + x.start;
    const float *row = w + 2 * width * (y.first * s->kernel_width + x.first + 1);
    lbnn_sum sum = lbnn_sum_bias(w, width);
    in_mean += at;
    in_var += at;
    for (int c = 0; c < channels; c++) {
        for (int k = 0; k < y.count; k++) {
            sum = lbnn_sum_run(sum, kind, in_mean + k * line, in_var + k * line, s->dilation_width,
                               row + k * taps, width, x.count);
        }
        row += s->kernel_height * taps;
        in_mean += s->in_height * s->in_width;
        in_var += s->in_height * s->in_width;
    }
    return sum;
}

#ifdef LBNN_SIMD
/* Four neighbouring pixels of a block of output channels. */
typedef struct {
    lbnn_sums a, b, c, d;
} lbnn_pixels;

/* The input of a tap; outside the row (looked for only at an `edge`, a constant) it is a known zero. */
LBNN_INLINE lbnn_input lbnn_input_tap(int kind, int edge, const float *mean, const float *var, int column,
                                      int columns)
{
    const lbnn_input zero = {0.0f, 0.0f, 0.0f};
    return edge && (column < 0 || column >= columns) ? zero : lbnn_input_load(kind, mean + column, var + column);
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
            const float *mean = in_mean + from;
            const float *var = in_var + from;
            const float *row = w + 2 * width * ((c * s->kernel_height + y.first + k) * s->kernel_width + 1);
            int x = column;
            for (int t = 0; t < s->kernel_width; t++) {
                const lbnn_input xa = lbnn_input_tap(kind, edge, mean, var, x, columns);
                const lbnn_input xb = lbnn_input_tap(kind, edge, mean, var, x + step, columns);
                const lbnn_input xc = lbnn_input_tap(kind, edge, mean, var, x + 2 * step, columns);
                const lbnn_input xd = lbnn_input_tap(kind, edge, mean, var, x + 3 * step, columns);
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

/* One row of a block of output channels, four pixels at a time; the last four may overlap those before. */
LBNN_INLINE void lbnn_conv_row(int kind, const float *in_mean, const float *in_var, const float *w, int width,
                               int outputs, float *out_mean, float *out_var, const lbnn_conv_shape *s, int channels,
                               lbnn_span y)
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
        lbnn_sums_store(sums.a, out_mean + at, out_var + at, plane, outputs);
        lbnn_sums_store(sums.b, out_mean + at + 1, out_var + at + 1, plane, outputs);
        lbnn_sums_store(sums.c, out_mean + at + 2, out_var + at + 2, plane, outputs);
        lbnn_sums_store(sums.d, out_mean + at + 3, out_var + at + 3, plane, outputs);
    }
}

/* LBNN_LANES neighbouring pixels of one output channel, stride 1, all taps inside: `column` is where the
 * first tap of the first pixel is. */
LBNN_INLINE void lbnn_conv_lanes(int kind, const float *in_mean, const float *in_var, const float *w,
                                 float *out_mean, float *out_var, const lbnn_conv_shape *s, int channels,
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
    lbnn_lanes_store(out_mean, mean, LBNN_LANES);
    if (LBNN_VARIANCE) {
        lbnn_lanes_store(out_var, var, LBNN_LANES);
    }
}

/* One row of one output channel, stride 1: edges pixel by pixel, the inside in lanes, the last of which may
 * overlap those before. */
LBNN_INLINE void lbnn_conv_row_one(int kind, const float *in_mean, const float *in_var, const float *w,
                                   float *out_mean, float *out_var, const lbnn_conv_shape *s, int channels,
                                   lbnn_span y)
{
    const int reach = (s->kernel_width - 1) * s->dilation_width;
    const int first = s->padding_width;
    const int last = s->in_width - reach + s->padding_width;
    for (int column = 0; column < s->out_width; column++) {
        if (column == first && last - first >= LBNN_LANES) {
            for (; column < last; column += LBNN_LANES) {
                const int at = column + LBNN_LANES <= last ? column : last - LBNN_LANES;
                lbnn_conv_lanes(kind, in_mean, in_var, w, out_mean + at, out_var + at, s, channels, y,
                                at - s->padding_width);
            }
            column = last;
            if (column >= s->out_width) {
                break;
            }
        }
        const lbnn_span x = lbnn_span_of(column - s->padding_width, s->kernel_width, s->dilation_width,
                                         s->in_width);
        const lbnn_sum sum = lbnn_conv_pixel_one(kind, in_mean, in_var, w, 1, s, channels, y, x);
        lbnn_sum_store(sum, out_mean + column, out_var + column);
    }
}
#endif

/* One packed block of output channels, all pixels. */
LBNN_INLINE void lbnn_conv_block(int kind, const float *in_mean, const float *in_var, const float *w, int width,
                                 float *out_mean, float *out_var, const lbnn_conv_shape *s, int channels)
{
    const int plane = s->out_height * s->out_width;
    for (int row = 0; row < s->out_height; row++) {
        const lbnn_span y = lbnn_span_of(row * s->stride_height - s->padding_height, s->kernel_height,
                                         s->dilation_height, s->in_height);
#ifdef LBNN_SIMD
        if (width == 1 && s->stride_width == 1) {
            lbnn_conv_row_one(kind, in_mean, in_var, w, out_mean + row * s->out_width,
                              out_var + row * s->out_width, s, channels, y);
            continue;
        }
        if (s->out_width >= 4) {
            for (int o = 0; o < width; o += LBNN_BLOCK) {
                lbnn_conv_row(kind, in_mean, in_var, w + o, width, width - o, out_mean + o * plane + row * s->out_width,
                              out_var + o * plane + row * s->out_width, s, channels, y);
            }
            continue;
        }
#endif
        for (int column = 0; column < s->out_width; column++) {
            const lbnn_span x = lbnn_span_of(column * s->stride_width - s->padding_width, s->kernel_width,
                                             s->dilation_width, s->in_width);
            float *mean = out_mean + row * s->out_width + column;
            float *var = out_var + row * s->out_width + column;
            int o = 0;
            for (; LBNN_WHOLE_BLOCKS ? o < width : o + LBNN_BLOCK <= width; o += LBNN_BLOCK) {
                const lbnn_sums sums = lbnn_conv_pixel(kind, in_mean, in_var, w + o, width, s, channels, y, x);
                lbnn_sums_store(sums, mean + o * plane, var + o * plane, plane, width - o);
            }
            for (; o < width; o++) {
                const lbnn_sum sum = lbnn_conv_pixel_one(kind, in_mean, in_var, w + o, width, s, channels, y, x);
                lbnn_sum_store(sum, mean + o * plane, var + o * plane);
            }
        }
    }
}

/* Any shape: group after group, block after block. */
LBNN_INLINE void lbnn_conv_groups(int kind, const float *in_mean, const float *in_var, const float *w, float *out_mean,
                                  float *out_var, const lbnn_conv_shape *s)
{
    const int in_step = s->in_channels / s->groups;
    const int out_step = s->out_channels / s->groups;
    const int in_plane = s->in_height * s->in_width;
    const int out_plane = s->out_height * s->out_width;
    const int rows = in_step * s->kernel_height * s->kernel_width + 1;
    for (int g = 0; g < s->groups; g++) {
        for (int o = 0; o < out_step; o += LBNN_PACK) {
            const int width = out_step - o < LBNN_PACK ? out_step - o : LBNN_PACK;
            lbnn_conv_block(kind, in_mean, in_var, w, width, out_mean, out_var, s, in_step);
            w += 2 * width * rows;
            out_mean += width * out_plane;
            out_var += width * out_plane;
        }
        in_mean += in_step * in_plane;
        in_var += in_step * in_plane;
    }
}

/* E' = E[b] + E * E[w];  V' = V[b] + S * V[w] + V * E[w]^2,  S = V + E^2  (* is convolution) */
LBNN_KERNEL void lbnn_conv2d(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                             const float *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                             float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape)
{
    lbnn_conv_groups(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape);
}

/* E' = E[b] + x * E[w];  V' = V[b] + x^2 * V[w] */
LBNN_KERNEL void lbnn_conv2d_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                   float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                   const lbnn_conv_shape *shape)
{
    lbnn_conv_groups(LBNN_POINT, in, in, w, out_mean, out_var, shape);
}

/* ---- fast paths for processors without vector registers ------------------------------------------
 *
 * Four pixels times two output channels: a weight serves four pixels, an input two channels. Sixteen
 * sums, twelve numbers of the four inputs and the weight at hand fill the 32 registers of a Cortex-M4F. */

#if !defined(LBNN_SIMD) && !defined(LBNN_OPTIMIZE_SIZE)
#define LBNN_CONV_FOUR 1

/* The input at an edge: outside there is a known zero. */
LBNN_INLINE lbnn_input lbnn_input_edge(int kind, const float *mean, const float *var, int inside)
{
    lbnn_input x = {0.0f, 0.0f, 0.0f};
    if (inside) {
        x = lbnn_input_load(kind, mean, var);
    }
    return x;
}

LBNN_INLINE lbnn_four lbnn_four_pixels_bias(const float *row, int width)
{
    const lbnn_sum bias = lbnn_sum_bias(row, width);
    const lbnn_four sums = {bias, bias, bias, bias};
    return sums;
}

/* One weight times the inputs of four pixels. */
LBNN_INLINE lbnn_four lbnn_four_pixels_add(lbnn_four sums, int kind, lbnn_input a, lbnn_input b, lbnn_input c,
                                           lbnn_input d, const float *row, int width)
{
    const float w = row[0];
    const float square = w * w;
    const float v = row[width];
    sums.a.mean += a.e * w;
    sums.b.mean += b.e * w;
    sums.c.mean += c.e * w;
    sums.d.mean += d.e * w;
    if (kind == LBNN_MOMENTS) {
        sums.a.var += a.v * square;
        sums.b.var += b.v * square;
        sums.c.var += c.v * square;
        sums.d.var += d.v * square;
    }
    sums.a.var += a.s * v;
    sums.b.var += b.s * v;
    sums.c.var += c.s * v;
    sums.d.var += d.s * v;
    return sums;
}

/* All pixels of one output channel, or of two (`pair`, a constant), which stand side by side in the
 * packed rows: 3x3, stride 1, padding 1. The three taps of a kernel row overlap, so that six inputs
 * serve twelve products. Rows outside the input are left out. A last block of columns that would be
 * incomplete is moved to the left and computes some pixels twice. */
LBNN_INLINE void lbnn_conv_3x3_channels(int kind, int pair, const float *in_mean, const float *in_var,
                                        const float *w, int width, float *out_mean, float *out_var,
                                        const lbnn_conv_shape *s, int channels)
{
    const int columns = s->in_width;
    const int plane = s->in_height * columns;
    const int step = 2 * width;
    for (int row = 0; row < s->in_height; row++) {
        const int first = row > 0 ? row - 1 : 0;
        const int last = row + 1 < s->in_height ? row + 2 : s->in_height;
        const int skip = 3 - (last - first);
        for (int column = 0; column < columns; column += 4) {
            if (column + 4 > columns) {
                column = columns - 4;
            }
            const int here = row * columns + column;
            const float *tap = w + step * (3 * (first - row) + 4);
            const float *mean = in_mean + first * columns + column;
            const float *var = in_var + first * columns + column;
            lbnn_four left = lbnn_four_pixels_bias(w, width);
            lbnn_four right = lbnn_four_pixels_bias(w + pair, width);
            for (int c = 0; c < channels; c++) {
                for (int y = first; y < last; y++) {
                    const lbnn_input p = lbnn_input_edge(kind, mean - 1, var - 1, column > 0);
                    const lbnn_input x0 = lbnn_input_load(kind, mean, var);
                    const lbnn_input x1 = lbnn_input_load(kind, mean + 1, var + 1);
                    const lbnn_input x2 = lbnn_input_load(kind, mean + 2, var + 2);
                    left = lbnn_four_pixels_add(left, kind, p, x0, x1, x2, tap, width);
                    if (pair) {
                        right = lbnn_four_pixels_add(right, kind, p, x0, x1, x2, tap + 1, width);
                    }
                    const lbnn_input x3 = lbnn_input_load(kind, mean + 3, var + 3);
                    left = lbnn_four_pixels_add(left, kind, x0, x1, x2, x3, tap + step, width);
                    if (pair) {
                        right = lbnn_four_pixels_add(right, kind, x0, x1, x2, x3, tap + step + 1, width);
                    }
                    const lbnn_input q = lbnn_input_edge(kind, mean + 4, var + 4, column + 4 < columns);
                    left = lbnn_four_pixels_add(left, kind, x1, x2, x3, q, tap + 2 * step, width);
                    if (pair) {
                        right = lbnn_four_pixels_add(right, kind, x1, x2, x3, q, tap + 2 * step + 1, width);
                    }
                    tap += 3 * step;
                    mean += columns;
                    var += columns;
                    LBNN_HOLD(tap);
                    LBNN_HOLD(mean);
                    LBNN_HOLD(var);
                }
                tap += 3 * step * skip;
                mean += plane - columns * (last - first);
                var += plane - columns * (last - first);
            }
            lbnn_four_store(left, out_mean + here, out_var + here, 1, 4);
            if (pair) {
                lbnn_four_store(right, out_mean + plane + here, out_var + plane + here, 1, 4);
            }
        }
    }
}

/* All pixels of two output channels of a 1x1 convolution. */
LBNN_INLINE void lbnn_conv_1x1_channels(int kind, const float *in_mean, const float *in_var, const float *w,
                                        int width, float *out_mean, float *out_var, int plane, int channels)
{
    for (int pixel = 0; pixel < plane; pixel += 4) {
        if (pixel + 4 > plane) {
            pixel = plane - 4;
        }
        const float *mean = in_mean + pixel;
        const float *var = in_var + pixel;
        const float *tap = w + 2 * width;
        lbnn_four left = lbnn_four_pixels_bias(w, width);
        lbnn_four right = lbnn_four_pixels_bias(w + 1, width);
        for (int c = 0; c < channels; c++) {
            const lbnn_input x0 = lbnn_input_load(kind, mean, var);
            const lbnn_input x1 = lbnn_input_load(kind, mean + 1, var + 1);
            const lbnn_input x2 = lbnn_input_load(kind, mean + 2, var + 2);
            const lbnn_input x3 = lbnn_input_load(kind, mean + 3, var + 3);
            left = lbnn_four_pixels_add(left, kind, x0, x1, x2, x3, tap, width);
            right = lbnn_four_pixels_add(right, kind, x0, x1, x2, x3, tap + 1, width);
            mean += plane;
            var += plane;
            tap += 2 * width;
            LBNN_HOLD(tap);
        }
        lbnn_four_store(left, out_mean + pixel, out_var + pixel, 1, 4);
        lbnn_four_store(right, out_mean + plane + pixel, out_var + plane + pixel, 1, 4);
    }
}
#endif

/* Pairs of output channels through the packed blocks. */
LBNN_INLINE void lbnn_conv_3x3(int kind, const float *in_mean, const float *in_var, const float *w,
                               float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
#ifdef LBNN_CONV_FOUR
    const int plane = s->in_height * s->in_width;
    const int rows = 9 * s->in_channels + 1;
    for (int o = 0; o < s->out_channels; o += LBNN_PACK) {
        const int width = s->out_channels - o < LBNN_PACK ? s->out_channels - o : LBNN_PACK;
        for (int k = 0; k < width; k += 2) {
            lbnn_conv_3x3_channels(kind, 1, in_mean, in_var, w + k, width, out_mean, out_var, s,
                                   s->in_channels);
            out_mean += 2 * plane;
            out_var += 2 * plane;
        }
        w += 2 * width * rows;
    }
#else
    lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
#endif
}

/* One channel after the other. */
LBNN_INLINE void lbnn_conv_depthwise(int kind, const float *in_mean, const float *in_var, const float *w,
                                     float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
#ifdef LBNN_CONV_FOUR
    const int plane = s->in_height * s->in_width;
    for (int c = 0; c < s->in_channels; c++) {
        lbnn_conv_3x3_channels(kind, 0, in_mean + c * plane, in_var + c * plane, w + 20 * c, 1,
                               out_mean + c * plane, out_var + c * plane, s, 1);
    }
#else
    lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
#endif
}

/* Pairs of output channels through the packed blocks. */
LBNN_INLINE void lbnn_conv_1x1(int kind, const float *in_mean, const float *in_var, const float *w,
                               float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
#ifdef LBNN_CONV_FOUR
    const int plane = s->in_height * s->in_width;
    for (int o = 0; o < s->out_channels; o += LBNN_PACK) {
        const int width = s->out_channels - o < LBNN_PACK ? s->out_channels - o : LBNN_PACK;
        for (int k = 0; k < width; k += 2) {
            lbnn_conv_1x1_channels(kind, in_mean, in_var, w + k, width, out_mean, out_var, plane,
                                   s->in_channels);
            out_mean += 2 * plane;
            out_var += 2 * plane;
        }
        w += 2 * width * (s->in_channels + 1);
    }
#else
    lbnn_conv_groups(kind, in_mean, in_var, w, out_mean, out_var, s);
#endif
}

/* The formulas of lbnn_conv2d and lbnn_conv2d_point. */
LBNN_KERNEL void lbnn_conv2d_3x3(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                 const float *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                                 float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape)
{
    lbnn_conv_3x3(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_conv2d_3x3_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                       float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                       const lbnn_conv_shape *shape)
{
    lbnn_conv_3x3(LBNN_POINT, in, in, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_depthwise_3x3(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                    const float *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                                    float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape)
{
    lbnn_conv_depthwise(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_depthwise_3x3_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                          float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                          const lbnn_conv_shape *shape)
{
    lbnn_conv_depthwise(LBNN_POINT, in, in, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_conv2d_1x1(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                 const float *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                                 float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape)
{
    lbnn_conv_1x1(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape);
}

LBNN_KERNEL void lbnn_conv2d_1x1_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                       float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                       const lbnn_conv_shape *shape)
{
    lbnn_conv_1x1(LBNN_POINT, in, in, w, out_mean, out_var, shape);
}

#endif
