/* lbnn_conv_transposed.h: transposed 2-D convolution on moments; a 1-D one is one of height 1.
 *
 *     static const lbnn_conv_shape shape = {in channels, height, width,  out channels, height, width,
 *                                           kernel h, w,  stride h, w,  padding h, w,
 *                                           dilation h, w,  groups};
 *     lbnn_conv_transposed(in_mean, in_var, w, out_mean, out_var, &shape)          any shape
 *     lbnn_conv_transposed_point(in, w, out_mean, out_var, &shape)                 input without variance
 *
 * Arrays are channels first (channel, row, column). Outputs must not overlap inputs.
 *
 * `w` is packed as lbnn_sums.h describes, group after group; the "inputs" of an output channel are its taps in the order
 * (kernel row, kernel column, input channel of the group), both axes of the kernel turned around.
 *
 * Nothing is scattered: each output gathers its own sum. With the kernel turned around, tap k reads element
 * (out + padding - (kernel - 1) dilation + k dilation) / stride of the input where that is a whole number. The outputs of
 * one phase, `stride` apart, have the same such taps, `apart` of each other, and read elements `step` apart, so that
 * only an edge of the input changes anything along a phase, and no division is inside of it:
 *
 *     apart = stride / gcd(stride, dilation),   step = dilation / gcd(stride, dilation)
 *
 * Taps are few in a phase and channels many: so channels stand together in the weights and are the inner loop.
 *
 * Instructions for each of the products E E[w] on Cortex-M4F (gcc 12, -O2 -std=gnu99; products inside counted), and bytes
 * with _predict, of 8 -> 8 channels, 8x8 pixels, kernel 4, stride 2, padding 1:
 *
 *     this kernel                                                                8.5    1,596
 *     the same, parts of sums stored inside of the loop over channels            8.6    2,028
 *     one of its four phases by lbnn_conv2d, without putting the phases together 9.2      996
 */
#ifndef LBNN_CONV_TRANSPOSED_H
#define LBNN_CONV_TRANSPOSED_H

#include "lbnn_conv_shape.h"
#include "lbnn_sums.h"

/* Along one axis: tap `tap` reads element `start`, the next one is `apart` behind it and reads `step` behind it; `count`
 * of them in all. */
typedef struct {
    int tap, start, count;
    int apart, step;
} lbnn_taps;

/* Those of output `phase`, whether they lie inside the input or not. */
LBNN_INLINE lbnn_taps lbnn_taps_of(int phase, int kernel, int stride, int padding, int dilation)
{
    int common = stride;
    for (int other = dilation; other != 0;) {
        const int rest = common % other;
        common = other;
        other = rest;
    }
    lbnn_taps taps;
    taps.apart = stride / common;
    taps.step = dilation / common;
    taps.tap = 0;
    int at = phase + padding - (kernel - 1) * dilation;
    while (taps.tap < kernel && at % stride != 0) {
        taps.tap++;
        at += dilation;
    }
    taps.start = at / stride;
    taps.count = (kernel - taps.tap + taps.apart - 1) / taps.apart;
    return taps;
}

/* Those of output `number` of the phase that lie inside. */
LBNN_INLINE lbnn_taps lbnn_taps_inside(lbnn_taps phase, int number, int size)
{
    const lbnn_span span = lbnn_span_of(phase.start + number, phase.count, phase.step, size);
    phase.tap += span.first * phase.apart;
    phase.start = span.start;
    phase.count = span.count;
    return phase;
}

/* How far the sum of a pixel has come: input channel `channel` of tap (row, column). */
typedef struct {
    int row, column, channel;
} lbnn_cursor;

/* The first of the packed rows, and the element of the input, that come next. */
LBNN_INLINE int lbnn_cursor_row(lbnn_cursor tap, const lbnn_conv_shape *s, int channels, lbnn_taps y, lbnn_taps x)
{
    const int line = (y.tap + tap.row * y.apart) * s->kernel_width;
    return (line + x.tap + tap.column * x.apart) * channels + tap.channel + 1;
}

LBNN_INLINE int lbnn_cursor_from(lbnn_cursor tap, const lbnn_conv_shape *s, lbnn_taps y, lbnn_taps x)
{
    const int line = tap.channel * s->in_height + y.start + tap.row * y.step;
    return line * s->in_width + x.start + tap.column * x.step;
}

/* `run` channels later. */
LBNN_INLINE lbnn_cursor lbnn_cursor_next(lbnn_cursor tap, int run, int channels, lbnn_taps x)
{
    tap.channel += run;
    if (tap.channel == channels) {
        tap.channel = 0;
        tap.column++;
    }
    if (tap.column == x.count) {
        tap.column = 0;
        tap.row++;
    }
    return tap;
}

/* Element `at` of a block of output channels; w is the block's first row, that of the bias. A part of a long sum ends
 * where lbnn_fold(kind) products have been added. */
LBNN_INLINE void lbnn_transposed_pixel(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                       int width, int outputs, float *out_mean, float *out_var, int at,
                                       const lbnn_conv_shape *s, int channels, lbnn_taps y, lbnn_taps x)
{
    const int plane = s->out_height * s->out_width;
    const int rows = x.count > 0 ? y.count : 0;
    lbnn_cursor tap = {0, 0, 0};
    for (int more = 0; more == 0 || tap.row < rows; more = 1) {
        lbnn_sums sums = lbnn_sums_bias(lbnn_sums_start(kind, w, more), width);
        for (int rest = lbnn_fold(kind); rest > 0 && tap.row < rows;) {
            const int run = channels - tap.channel < rest ? channels - tap.channel : rest;
            sums = lbnn_sums_run(sums, kind, in_mean, in_var, lbnn_cursor_from(tap, s, y, x), s->in_height * s->in_width,
                                 w + LBNN_ROW(width, lbnn_cursor_row(tap, s, channels, y, x)), width, run);
            tap = lbnn_cursor_next(tap, run, channels, x);
            rest -= run;
        }
        if (more) {
            sums = lbnn_sums_join(sums, out_mean, out_var, at, plane, outputs);
        }
        lbnn_sums_store(sums, out_mean, out_var, at, plane, outputs);
    }
}

/* The same of one output channel. */
LBNN_INLINE void lbnn_transposed_pixel_one(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                           int width, float *out_mean, float *out_var, int at,
                                           const lbnn_conv_shape *s, int channels, lbnn_taps y, lbnn_taps x)
{
    const int rows = x.count > 0 ? y.count : 0;
    lbnn_cursor tap = {0, 0, 0};
    for (int more = 0; more == 0 || tap.row < rows; more = 1) {
        lbnn_sum sum = lbnn_sum_bias(lbnn_sums_start(kind, w, more), width);
        for (int rest = lbnn_fold(kind); rest > 0 && tap.row < rows;) {
            const int run = channels - tap.channel < rest ? channels - tap.channel : rest;
            sum = lbnn_sum_run(sum, kind, in_mean, in_var, lbnn_cursor_from(tap, s, y, x), s->in_height * s->in_width,
                               w + LBNN_ROW(width, lbnn_cursor_row(tap, s, channels, y, x)), width, run);
            tap = lbnn_cursor_next(tap, run, channels, x);
            rest -= run;
        }
        if (more) {
            sum = lbnn_sum_join(sum, out_mean, out_var, at);
        }
        lbnn_sum_store(sum, out_mean, out_var, at);
    }
}

/* A pixel of a packed block of output channels. */
LBNN_INLINE void lbnn_transposed_block(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                       int width, float *out_mean, float *out_var, int at, const lbnn_conv_shape *s, int channels,
                                       lbnn_taps y, lbnn_taps x)
{
    const int plane = s->out_height * s->out_width;
    int o = 0;
    for (; LBNN_WHOLE_BLOCKS ? o < width : o + LBNN_BLOCK <= width; o += LBNN_BLOCK) {
        lbnn_transposed_pixel(kind, in_mean, in_var, w + o, width, width - o, out_mean, out_var, at + o * plane, s,
                              channels, y, x);
    }
    for (; o < width; o++) {
        lbnn_transposed_pixel_one(kind, in_mean, in_var, w + o, width, out_mean, out_var, at + o * plane, s, channels,
                                  y, x);
    }
}

/* All pixels of a packed block, phase after phase. */
LBNN_INLINE void lbnn_transposed_phases(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                        int width, float *out_mean, float *out_var, const lbnn_conv_shape *s, int channels)
{
    for (int top = 0; top < s->stride_height && top < s->out_height; top++) {
        const lbnn_taps rows =
            lbnn_taps_of(top, s->kernel_height, s->stride_height, s->padding_height, s->dilation_height);
        for (int left = 0; left < s->stride_width && left < s->out_width; left++) {
            const lbnn_taps columns =
                lbnn_taps_of(left, s->kernel_width, s->stride_width, s->padding_width, s->dilation_width);
            int down = 0;
            for (int row = top; row < s->out_height; row += s->stride_height) {
                const lbnn_taps y = lbnn_taps_inside(rows, down++, s->in_height);
                int right = 0;
                for (int column = left; column < s->out_width; column += s->stride_width) {
                    const lbnn_taps x = lbnn_taps_inside(columns, right++, s->in_width);
                    lbnn_transposed_block(kind, in_mean, in_var, w, width, out_mean, out_var,
                                          row * s->out_width + column, s, channels, y, x);
                }
            }
        }
    }
}

/* Group after group, block after block. */
LBNN_INLINE void lbnn_transposed_groups(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                        float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
    const int in_step = s->in_channels / s->groups;
    const int out_step = s->out_channels / s->groups;
    const int in_size = in_step * s->in_height * s->in_width;
    const int out_plane = s->out_height * s->out_width;
    const int rows = lbnn_conv_taps(s, in_step) + 1;
    for (int g = 0; g < s->groups; g++) {
        for (int o = 0; o < out_step; o += LBNN_PACK) {
            const int width = out_step - o < LBNN_PACK ? out_step - o : LBNN_PACK;
            lbnn_transposed_phases(kind, in_mean, in_var, w, width, out_mean, out_var, s, in_step);
            w += LBNN_ROW(width, rows);
            out_mean += width * out_plane;
            out_var += width * out_plane;
        }
        in_mean += in_size;
        in_var += in_size;
    }
}

/* E' = E[b] + E * E[w];  V' = V[b] + S * V[w] + V * E[w]^2,  S = V + E^2  (* is transposed convolution) */
LBNN_KERNEL void lbnn_conv_transposed(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                      const lbnn_weight *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                                      float *LBNN_RESTRICT out_var, const lbnn_conv_shape *shape)
{
    lbnn_transposed_groups(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, shape);
}

/* E' = E[b] + x * E[w];  V' = V[b] + x^2 * V[w] */
LBNN_KERNEL void lbnn_conv_transposed_point(const float *LBNN_RESTRICT in, const lbnn_weight *LBNN_RESTRICT w,
                                            float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var,
                                            const lbnn_conv_shape *shape)
{
    lbnn_transposed_groups(LBNN_POINT, in, in, w, out_mean, out_var, shape);
}

#endif
