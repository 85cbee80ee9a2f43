/* lbnn_conv_four.h: fast convolutions with factors (lbnn_conv_rank1.h) for processors without vector registers, and four
 * sums at a time for all (LBNN_CONV_FOUR).
 *
 *     lbnn_conv_four_3x3(...)           two output channels, kernel 3, stride 1, padding 1
 *     lbnn_conv_four_1x1(...)           two output channels, kernel 1, stride 1, no padding
 *
 * Four pixels times two output channels: a weight serves four pixels, an input two channels. Sixteen
 * sums, twelve numbers of the four inputs and the weight at hand fill the 32 registers of a Cortex-M4F.
 * The sums are those of lbnn_conv_any.h in the same order.
 *
 * Offsets count on from row to row and from channel to channel; a pointer is computed from them where there is an
 * element, and held (LBNN_HOLD) while its neighbours are loaded.
 */
#ifndef LBNN_CONV_FOUR_H
#define LBNN_CONV_FOUR_H

#include "lbnn_conv_shape.h"
#include "lbnn_sums.h"

#if !defined(LBNN_SIMD) && !defined(LBNN_OPTIMIZE_SIZE)
#define LBNN_CONV_FOUR 1

LBNN_INLINE lbnn_four lbnn_four_pixels_bias(const lbnn_weight *row, int width)
{
    const lbnn_sum bias = lbnn_sum_bias(row, width);
    const lbnn_four sums = {bias, bias, bias, bias};
    return sums;
}

/* One weight times the inputs of four pixels. */
LBNN_INLINE lbnn_four lbnn_four_pixels_add(lbnn_four sums, int kind, lbnn_input a, lbnn_input b, lbnn_input c,
                                           lbnn_input d, const lbnn_weight *row, int width)
{
    LBNN_ROUND_PRODUCTS
    const float w = LBNN_MEAN(row[0]);
    const float square = w * w;
    const float v = lbnn_is_full(kind) ? LBNN_VAR(row[LBNN_VARS(width)]) : w;
    if (lbnn_is_squares(kind)) {
        sums.a.var += a.s * v;
        sums.b.var += b.s * v;
        sums.c.var += c.s * v;
        sums.d.var += d.s * v;
        return sums;
    }
    sums.a.mean += a.e * w;
    sums.b.mean += b.e * w;
    sums.c.mean += c.e * w;
    sums.d.mean += d.e * w;
    if (lbnn_is_random(kind)) {
        sums.a.var += a.v * square;
        sums.b.var += b.v * square;
        sums.c.var += c.v * square;
        sums.d.var += d.v * square;
    }
    if (lbnn_is_full(kind)) {
        sums.a.var += a.s * v;
        sums.b.var += b.s * v;
        sums.c.var += c.s * v;
        sums.d.var += d.s * v;
    }
    return sums;
}

/* A part of the sums of four pixels of one output channel, or of two (`pair`, a constant), which stand side by side in
 * the packed rows: 3x3, stride 1, padding 1, rows [first, last) of the input around `row`. It begins with `start`
 * (lbnn_sums_start); the taps of its first channel stand behind `w`. The three taps of a kernel row overlap, so that six
 * inputs serve twelve products. `mean` and `var` are at the first pixel in row `first`; left and right of the four
 * there may be none. */
typedef struct {
    lbnn_four left, right;
} lbnn_eight;

LBNN_INLINE lbnn_eight lbnn_conv_four_pixels(int kind, int pair, const float *mean, const float *var, const lbnn_weight *start,
                                             const lbnn_weight *w, int width, int row, int first, int last, int columns,
                                             int column, int plane, int channels)
{
    const int step = lbnn_row_len(kind, width);
    const int skip = 3 - (last - first);
    const lbnn_weight *tap = w + lbnn_row_at(kind, width, 3 * (first - row) + 3);
    lbnn_eight sums;
    sums.left = lbnn_four_pixels_bias(start, width);
    sums.right = lbnn_four_pixels_bias(start + pair, width);
    for (int c = channels;;) {
        for (int y = first;;) {
            const lbnn_input p = lbnn_input_edge(kind, mean, var, -1, column > 0);
            const lbnn_input x0 = lbnn_input_load(kind, mean, var, 0);
            const lbnn_input x1 = lbnn_input_load(kind, mean, var, 1);
            const lbnn_input x2 = lbnn_input_load(kind, mean, var, 2);
            sums.left = lbnn_four_pixels_add(sums.left, kind, p, x0, x1, x2, tap, width);
            if (pair) {
                sums.right = lbnn_four_pixels_add(sums.right, kind, p, x0, x1, x2, tap + 1, width);
            }
            const lbnn_input x3 = lbnn_input_load(kind, mean, var, 3);
            sums.left = lbnn_four_pixels_add(sums.left, kind, x0, x1, x2, x3, tap + step, width);
            if (pair) {
                sums.right = lbnn_four_pixels_add(sums.right, kind, x0, x1, x2, x3, tap + step + 1, width);
            }
            const lbnn_input q = lbnn_input_edge(kind, mean, var, 4, column + 4 < columns);
            sums.left = lbnn_four_pixels_add(sums.left, kind, x1, x2, x3, q, tap + 2 * step, width);
            if (pair) {
                sums.right = lbnn_four_pixels_add(sums.right, kind, x1, x2, x3, q, tap + 2 * step + 1, width);
            }
            tap += 3 * step;
            LBNN_HOLD(tap);
            if (++y == last) {
                break;
            }
            mean += columns;
            var += columns;
            LBNN_HOLD(mean);
            LBNN_HOLD(var);
        }
        if (--c == 0) {
            break;
        }
        tap += 3 * step * skip;
        mean += plane - columns * (last - first - 1);
        var += plane - columns * (last - first - 1);
    }
    return sums;
}

/* All pixels of one output channel, or of two. Rows outside the input are left out. A last block of columns that would
 * be incomplete is moved to the left and computes some pixels twice. */
LBNN_INLINE void lbnn_conv_four_channels(int kind, int pair, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                         int width, float *out_mean, float *out_var, const lbnn_conv_shape *s,
                                         int in_channels)
{
    const int columns = s->in_width;
    const int plane = s->in_height * columns;
    const int fold = lbnn_fold(kind) / 9;
    for (int row = 0; row < s->in_height; row++) {
        const int first = row > 0 ? row - 1 : 0;
        const int last = row + 1 < s->in_height ? row + 2 : s->in_height;
        for (int column = 0; column < columns; column += 4) {
            if (column + 4 > columns) {
                column = columns - 4;
            }
            float *mean = out_mean + row * columns + column;
            float *var = out_var + row * columns + column;
            for (int c = 0; c < in_channels; c += fold) {
                const int channels = in_channels - c < fold ? in_channels - c : fold;
                const int from = c * plane + first * columns + column;
                lbnn_eight sums = lbnn_conv_four_pixels(kind, pair, in_mean + from, in_var + from,
                                                        lbnn_sums_start(kind, w, c > 0),
                                                        w + 9 * lbnn_row_len(kind, width) * c, width, row, first, last,
                                                        columns, column, plane, channels);
                if (c > 0) {
                    sums.left = lbnn_four_join(sums.left, mean, var, 0, 1, 4);
                }
                lbnn_four_store(sums.left, mean, var, 0, 1, 4);
                if (pair && c > 0) {
                    sums.right = lbnn_four_join(sums.right, mean + plane, var + plane, 0, 1, 4);
                }
                if (pair) {
                    lbnn_four_store(sums.right, mean + plane, var + plane, 0, 1, 4);
                }
            }
        }
    }
}

LBNN_INLINE void lbnn_conv_four_3x3(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, int width,
                                    float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
    lbnn_conv_four_channels(kind, 1, in_mean, in_var, w, width, out_mean, out_var, s, s->in_channels);
}

/* A part of the sums of four pixels of two output channels of a 1x1 convolution. */
LBNN_INLINE lbnn_eight lbnn_conv_four_points(int kind, const float *mean, const float *var, const lbnn_weight *start,
                                             const lbnn_weight *w, int width, int plane, int channels)
{
    const lbnn_weight *tap = w + lbnn_row_at(kind, width, 0);
    lbnn_eight sums;
    sums.left = lbnn_four_pixels_bias(start, width);
    sums.right = lbnn_four_pixels_bias(start + 1, width);
    for (int c = channels;;) {
        const lbnn_input x0 = lbnn_input_load(kind, mean, var, 0);
        const lbnn_input x1 = lbnn_input_load(kind, mean, var, 1);
        const lbnn_input x2 = lbnn_input_load(kind, mean, var, 2);
        const lbnn_input x3 = lbnn_input_load(kind, mean, var, 3);
        sums.left = lbnn_four_pixels_add(sums.left, kind, x0, x1, x2, x3, tap, width);
        sums.right = lbnn_four_pixels_add(sums.right, kind, x0, x1, x2, x3, tap + 1, width);
        tap += lbnn_row_len(kind, width);
        LBNN_HOLD(tap);
        if (--c == 0) {
            break;
        }
        mean += plane;
        var += plane;
    }
    return sums;
}

LBNN_INLINE void lbnn_conv_four_1x1(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, int width,
                                    float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
    const int plane = s->in_height * s->in_width;
    const int in_channels = s->in_channels;
    const int fold = lbnn_fold(kind);
    for (int pixel = 0; pixel < plane; pixel += 4) {
        if (pixel + 4 > plane) {
            pixel = plane - 4;
        }
        float *mean = out_mean + pixel;
        float *var = out_var + pixel;
        for (int c = 0; c < in_channels; c += fold) {
            const int channels = in_channels - c < fold ? in_channels - c : fold;
            lbnn_eight sums = lbnn_conv_four_points(kind, in_mean + c * plane + pixel, in_var + c * plane + pixel,
                                                    lbnn_sums_start(kind, w, c > 0),
                                                    w + lbnn_row_len(kind, width) * c, width, plane, channels);
            if (c > 0) {
                sums.left = lbnn_four_join(sums.left, mean, var, 0, 1, 4);
                sums.right = lbnn_four_join(sums.right, mean + plane, var + plane, 0, 1, 4);
            }
            lbnn_four_store(sums.left, mean, var, 0, 1, 4);
            lbnn_four_store(sums.right, mean + plane, var + plane, 0, 1, 4);
        }
    }
}
#endif
#endif
