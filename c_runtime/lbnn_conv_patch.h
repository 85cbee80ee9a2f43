/* lbnn_conv_patch.h: the windows of four pixels put into scratch once, then all output channels over them.
 *
 *     lbnn_conv_patches(kind, single, in_mean, in_var, w, factors, out_mean, out_var, shape, scratch)
 *
 * Any window, groups 1, any number of output channels; `single` (a constant) says that the window is one tap without
 * padding. `scratch` has room for LBNN_PATCH(kind, taps) floats: for each tap E of four pixels, then V, then S. `factors`
 * are those of lbnn_conv_rank1.h, read for its kinds alone: what the outputs of a block share is summed from its scratch.
 *
 * A block's inputs are all read before any of its outputs is written. So with a single tap and stride 1 the input may lie
 * in the output's own memory: output and input begin at the same place (at least as many input channels as output
 * channels), or they end at the same place (at least as many output channels). A last block is narrower, not moved to the
 * left, where pixels have been overwritten.
 *
 * Four pixels times three output channels, or two: a weight serves four pixels, an input three channels. 24 sums, four
 * inputs and a few weights fill the 32 registers of a Cortex-M4F. The sums are those of lbnn_conv_any.h in the same order.
 */
#ifndef LBNN_CONV_PATCH_H
#define LBNN_CONV_PATCH_H

#include "lbnn_conv_lanes.h"
#include "lbnn_conv_four.h"

/* ---- from the input to the scratch -------------------------------------------------------------- */

/* Floats for `taps` inputs of four pixels. */
#define LBNN_PATCH(kind, taps) ((lbnn_is_random(kind) ? 12 : 8) * (taps))

/* One input into a pixel's place of a tap. */
LBNN_INLINE void lbnn_patch_put(int kind, float *to, lbnn_input x)
{
    to[0] = x.e;
    if (lbnn_is_random(kind)) {
        to[4] = x.v;
        to[8] = x.s;
    } else {
        to[4] = x.s;
    }
}

/* One kernel row of the window of pixel `i`: `count` columns of the input from `at` on are inside, and `ahead` taps before
 * them are not. `to` is the place of the first pixel; gives that of the next row. */
LBNN_INLINE float *lbnn_patch_row(int kind, const float *mean, const float *var, const lbnn_conv_shape *s, int at,
                                  int ahead, int count, int i, float *to)
{
    const lbnn_input zero = {0.0f, 0.0f, 0.0f};
    int behind = s->kernel_width - ahead - count;
    for (; ahead > 0; ahead--) {
        lbnn_patch_put(kind, to + i, zero);
        to += LBNN_PATCH(kind, 1);
    }
    for (; count > 0; count--) {
        lbnn_patch_put(kind, to + i, lbnn_input_load(kind, mean, var, at));
        to += LBNN_PATCH(kind, 1);
        at += s->dilation_width;
    }
    for (; behind > 0; behind--) {
        lbnn_patch_put(kind, to + i, zero);
        to += LBNN_PATCH(kind, 1);
    }
    return to;
}

/* The window of the pixel at (row, column) of the output. */
LBNN_INLINE void lbnn_patch_window(int kind, const float *mean, const float *var, const lbnn_conv_shape *s, int row,
                                   int column, int i, float *to)
{
    const lbnn_span y = lbnn_conv_rows(s, row);
    const lbnn_span x = lbnn_conv_columns(s, column);
    for (int c = 0; c < s->in_channels; c++) {
        for (int k = 0; k < s->kernel_height; k++) {
            const int inside = k >= y.first && k < y.first + y.count;
            const int line = c * s->in_height + y.start + (k - y.first) * s->dilation_height;
            to = lbnn_patch_row(kind, mean, var, s, line * s->in_width + x.start, x.first, inside ? x.count : 0, i,
                                to);
        }
    }
}

/* One tap of each channel. */
LBNN_INLINE void lbnn_patch_point(int kind, const float *mean, const float *var, const lbnn_conv_shape *s, int at,
                                  int i, float *to)
{
    for (int c = s->in_channels; c > 0; c--) {
        lbnn_patch_put(kind, to + i, lbnn_input_load(kind, mean, var, at));
        to += LBNN_PATCH(kind, 1);
        at += s->in_height * s->in_width;
    }
}

/* One tap of four pixels, `step` apart in the input; V and S stand `gap` further on each. E and V are stored before S is made
 * where V was: a register for it would cost a move. */
LBNN_INLINE void lbnn_patch_four(int kind, int gap, const float *mean, const float *var, int step, float *to)
{
    LBNN_ROUND_PRODUCTS
    const float a = mean[0], b = mean[step], c = mean[2 * step], d = mean[3 * step];
    to[0] = a;
    to[1] = b;
    to[2] = c;
    to[3] = d;
    to += gap;
    if (!lbnn_is_random(kind)) {
        to[0] = a * a;
        to[1] = b * b;
        to[2] = c * c;
        to[3] = d * d;
        return;
    }
    const float va = var[0], vb = var[step], vc = var[2 * step], vd = var[3 * step];
    to[0] = va;
    to[1] = vb;
    to[2] = vc;
    to[3] = vd;
    to += gap;
    LBNN_FENCE();
    to[0] = va + a * a;
    to[1] = vb + b * b;
    to[2] = vc + c * c;
    to[3] = vd + d * d;
}

/* Four pixels of each channel, `step` apart, tap by tap: 29 instructions if they are neighbours, where pixel by pixel takes 48. */
LBNN_INLINE void lbnn_patch_channels(int kind, const float *mean, const float *var, int step, int plane, int channels,
                                     float *to)
{
    for (;;) {
        lbnn_patch_four(kind, 4, mean, var, step, to);
        if (--channels == 0) {
            break;
        }
        mean += plane;
        var += plane;
        to += LBNN_PATCH(kind, 1);
    }
}

LBNN_INLINE float *lbnn_patch_zeros(float *to, int n)
{
    for (; n > 0; n--) {
        *to++ = 0.0f;
        LBNN_HOLD(to); /* or gcc takes memset from the library */
    }
    return to;
}

/* The windows of four pixels of one row, all columns of which are inside; the first begins in column `left`. */
LBNN_INLINE void lbnn_patch_inside(int kind, const float *mean, const float *var, const lbnn_conv_shape *s, int row,
                                   int left, float *to)
{
    const lbnn_span y = lbnn_conv_rows(s, row);
    const int row_len = s->kernel_width * LBNN_PATCH(kind, 1);
    for (int c = 0; c < s->in_channels; c++) {
        int at = (c * s->in_height + y.start) * s->in_width + left;
        to = lbnn_patch_zeros(to, y.first * row_len);
        for (int k = y.count; k > 0; k--) {
            const float *m = mean + at;
            const float *v = var + at;
            for (int x = s->kernel_width;;) {
                lbnn_patch_four(kind, 4, m, v, s->stride_width, to);
                to += LBNN_PATCH(kind, 1);
                if (--x == 0) {
                    break;
                }
                m += s->dilation_width;
                v += s->dilation_width;
            }
            at += s->dilation_height * s->in_width;
        }
        to = lbnn_patch_zeros(to, (s->kernel_height - y.first - y.count) * row_len);
    }
}

/* The windows of `count` pixels from `pixel` on. */
LBNN_INLINE void lbnn_patch_fill(int kind, int single, const float *mean, const float *var, const lbnn_conv_shape *s,
                                 int pixel, int count, float *patch)
{
    const int channels = s->in_channels;
    const int plane = s->in_height * s->in_width;
    if (single && count == 4 && s->stride_height == 1 && s->stride_width == 1) {
        lbnn_patch_channels(kind, mean + pixel, var + pixel, 1, plane, channels, patch);
        return;
    }
    const int first_row = pixel / s->out_width;
    const int first_column = pixel - first_row * s->out_width;
    const int left = first_column * s->stride_width - s->padding_width;
    const int right = left + 3 * s->stride_width + (s->kernel_width - 1) * s->dilation_width;
    if (count == 4 && first_column + 4 <= s->out_width && left >= 0 && right < s->in_width) {
        if (single) {
            const int from = first_row * s->stride_height * s->in_width + left;
            lbnn_patch_channels(kind, mean + from, var + from, s->stride_width, plane, channels, patch);
        } else {
            lbnn_patch_inside(kind, mean, var, s, first_row, left, patch);
        }
        return;
    }
    for (int i = 0; i < count; i++) {
        const int at = pixel + i;
        const int row = at / s->out_width;
        const int column = at - row * s->out_width;
        if (single) {
            const int from = row * s->stride_height * s->in_width + column * s->stride_width;
            lbnn_patch_point(kind, mean, var, s, from, i, patch);
        } else {
            lbnn_patch_window(kind, mean, var, s, row, column, i, patch);
        }
    }
}

/* The output channels of a block of `count` pixels, pixel after pixel: all that there is with vector registers, and in
 * little code. */
LBNN_INLINE void lbnn_patch_pixels(int kind, const float *patch, int taps, const lbnn_weight *w, int channels,
                                    float *mean, float *var, int plane, int count)
{
    const int fold = lbnn_fold(kind);
    int to = 0;
    for (; channels > 0; channels -= LBNN_PACK) {
        const int width = channels < LBNN_PACK ? channels : LBNN_PACK;
        for (int o = 0; o < width; o += LBNN_BLOCK) {
            for (int i = 0; i < count; i++) {
                for (int first = 0; first < taps; first += fold) {
                    const int n = taps - first < fold ? taps - first : fold;
                    lbnn_sums sums = lbnn_sums_bias(lbnn_sums_start(kind, w + o, first > 0), width);
                    sums = lbnn_sums_run(sums, kind, patch, patch + 4, LBNN_PATCH(kind, first) + i, LBNN_PATCH(kind, 1),
                                         w + o + lbnn_row_at(kind, width, first), width, n);
                    if (first > 0) {
                        sums = lbnn_sums_join(sums, mean, var, to + o * plane + i, plane, width - o);
                    }
                    lbnn_sums_store(sums, mean, var, to + o * plane + i, plane, width - o);
                }
            }
        }
        w += lbnn_row_at(kind, width, taps);
        to += LBNN_PACK * plane;
    }
}

#ifdef LBNN_CONV_FOUR

/* One tap of four pixels of one output channel. */
typedef struct {
    float a, b, c, d;
} lbnn_numbers;

LBNN_INLINE lbnn_numbers lbnn_numbers_load(const float *from)
{
    const lbnn_numbers x = {from[0], from[1], from[2], from[3]};
    return x;
}

LBNN_INLINE lbnn_four lbnn_four_means_add(lbnn_four sums, lbnn_numbers x, float w)
{
    LBNN_ROUND_PRODUCTS
    sums.a.mean += x.a * w;
    sums.b.mean += x.b * w;
    sums.c.mean += x.c * w;
    sums.d.mean += x.d * w;
    return sums;
}

LBNN_INLINE lbnn_four lbnn_four_vars_add(lbnn_four sums, lbnn_numbers x, float w)
{
    LBNN_ROUND_PRODUCTS
    sums.a.var += x.a * w;
    sums.b.var += x.b * w;
    sums.c.var += x.c * w;
    sums.d.var += x.d * w;
    return sums;
}

/* Four pixels of three output channels, or of two. */
typedef struct {
    lbnn_four left, middle, right;
} lbnn_twelve;

/* One tap of four pixels of `outputs` output channels (a constant, 2 or 3): first the means, then what each of V and S
 * adds to the variances, so that four inputs and a weight for each channel are in registers at a time. */
LBNN_INLINE lbnn_twelve lbnn_patch_add(lbnn_twelve sums, int kind, int outputs, const float *x, const lbnn_weight *tap,
                                       int width)
{
    LBNN_ROUND_PRODUCTS
    float left = LBNN_MEAN(tap[0]);
    float middle = LBNN_MEAN(tap[1]);
    float right = outputs == 3 ? LBNN_MEAN(tap[2]) : 0.0f;
    lbnn_numbers in = lbnn_numbers_load(x);
    sums.left = lbnn_four_means_add(sums.left, in, left);
    sums.middle = lbnn_four_means_add(sums.middle, in, middle);
    if (outputs == 3) {
        sums.right = lbnn_four_means_add(sums.right, in, right);
    }
    if (lbnn_is_random(kind)) {
        LBNN_FENCE();
        in = lbnn_numbers_load(x + 4);
        sums.left = lbnn_four_vars_add(sums.left, in, left * left);
        sums.middle = lbnn_four_vars_add(sums.middle, in, middle * middle);
        if (outputs == 3) {
            sums.right = lbnn_four_vars_add(sums.right, in, right * right);
        }
    }
    if (lbnn_is_full(kind)) {
        LBNN_FENCE();
        if (outputs == 3) {
            LBNN_SPENT(sums.left.a.var, sums.middle.a.var, sums.right.a.var);
        }
        const lbnn_weight *v = tap + LBNN_VARS(width);
        in = lbnn_numbers_load(x + (lbnn_is_random(kind) ? 8 : 4));
        sums.left = lbnn_four_vars_add(sums.left, in, LBNN_VAR(v[0]));
        sums.middle = lbnn_four_vars_add(sums.middle, in, LBNN_VAR(v[1]));
        if (outputs == 3) {
            sums.right = lbnn_four_vars_add(sums.right, in, LBNN_VAR(v[2]));
        }
    }
    return sums;
}

/* `outputs` output channels of a block, `plane` apart, of which `exist` are stored. */
LBNN_INLINE void lbnn_patch_some(int kind, int outputs, int exist, const float *patch, int taps, const lbnn_weight *w,
                                 int width, float *mean, float *var, int plane)
{
    const int fold = lbnn_fold(kind);
    const lbnn_weight *tap = w + lbnn_row_at(kind, width, 0);
    for (int first = 0; first < taps; first += fold) {
        const lbnn_weight *start = lbnn_sums_start(kind, w, first > 0);
        lbnn_twelve sums;
        sums.left = lbnn_four_pixels_bias(start, width);
        sums.middle = lbnn_four_pixels_bias(start + 1, width);
        sums.right = lbnn_four_pixels_bias(start + 2, width);
        const float *end = patch + LBNN_PATCH(kind, taps - first < fold ? taps - first : fold);
        do {
            sums = lbnn_patch_add(sums, kind, outputs, patch, tap, width);
            patch += LBNN_PATCH(kind, 1);
            tap += lbnn_row_len(kind, width);
            LBNN_HOLD(tap);
        } while (patch != end);
        if (first > 0) {
            sums.left = lbnn_four_join(sums.left, mean, var, 0, 1, 4);
            sums.middle = lbnn_four_join(sums.middle, mean, var, plane, 1, exist > 1 ? 4 : 0);
            if (outputs == 3) {
                sums.right = lbnn_four_join(sums.right, mean, var, 2 * plane, 1, 4);
            }
        }
        lbnn_four_store(sums.left, mean, var, 0, 1, 4);
        lbnn_four_store(sums.middle, mean, var, plane, 1, exist > 1 ? 4 : 0);
        if (outputs == 3) {
            lbnn_four_store(sums.right, mean, var, 2 * plane, 1, 4);
        }
    }
}

/* All output channels of four pixels: 3 + 3 + 2 of a packed block of eight; two by two of a narrower one, behind the first
 * three if their number is odd. */
LBNN_INLINE void lbnn_patch_fours(int kind, const float *patch, int taps, const lbnn_weight *w, int channels,
                                  float *mean, float *var, int plane)
{
    int to = 0;
    for (; channels >= LBNN_PACK; channels -= LBNN_PACK) {
        for (int k = 0; k < 6; k += 3) {
            lbnn_patch_some(kind, 3, 3, patch, taps, w + k, LBNN_PACK, mean + to, var + to, plane);
            to += 3 * plane;
        }
        lbnn_patch_some(kind, 2, 2, patch, taps, w + 6, LBNN_PACK, mean + to, var + to, plane);
        to += 2 * plane;
        w += lbnn_row_at(kind, LBNN_PACK, taps);
    }
    const int three = channels > 1 && channels % 2 == 1;
    if (three) {
        lbnn_patch_some(kind, 3, 3, patch, taps, w, channels, mean + to, var + to, plane);
        to += 3 * plane;
    }
    for (int k = three ? 3 : 0; k < channels; k += 2) {
        lbnn_patch_some(kind, 2, channels - k, patch, taps, w + k, channels, mean + to, var + to, plane);
        to += 2 * plane;
    }
}

#endif

/* ---- what the outputs of a block share ------------------------------------------------------------ */

/* The sum of S column of one pixel, in parts as all sums. */
LBNN_INLINE float lbnn_patch_square(int kind, const float *patch, int taps, const float *column)
{
    LBNN_ROUND_PRODUCTS
    float total = 0.0f;
    for (int first = 0; first < taps; first += LBNN_FOLD) {
        const int last = taps - first < LBNN_FOLD ? taps : first + LBNN_FOLD;
        float sum = 0.0f;
        for (int i = first; i < last; i++) {
            sum += patch[LBNN_PATCH(kind, i + 1) - 4] * LBNN_READ(column[i]);
        }
        total += sum;
    }
    return total;
}

/* Those of four pixels. */
LBNN_INLINE void lbnn_patch_squares(int kind, const float *patch, int taps, const float *column, float *shared)
{
    LBNN_ROUND_PRODUCTS
    patch += LBNN_PATCH(kind, 1) - 4;
    for (int first = 0; first < taps; first += LBNN_FOLD) {
        float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
        const int last = taps - first < LBNN_FOLD ? taps : first + LBNN_FOLD;
        for (int i = first; i < last; i++) {
            const float factor = LBNN_READ(column[i]);
            const float *s = patch + LBNN_PATCH(kind, i);
            a += s[0] * factor;
            b += s[1] * factor;
            c += s[2] * factor;
            d += s[3] * factor;
        }
        shared[0] += a;
        shared[1] += b;
        shared[2] += c;
        shared[3] += d;
    }
}

LBNN_INLINE void lbnn_patch_shared(int kind, const float *patch, int taps, const float *column, int count, float *shared)
{
#ifndef LBNN_OPTIMIZE_SIZE
    if (count == 4) {
        lbnn_patch_squares(kind, patch, taps, column, shared);
        return;
    }
#endif
    for (int i = 0; i < count; i++) {
        shared[i] = lbnn_patch_square(kind, patch + i, taps, column);
    }
}

/* var += row shared, for `count` pixels of each output channel. */
LBNN_INLINE void lbnn_patch_share(const float *shared, const float *rows, float *var, int channels, int plane, int count)
{
    LBNN_ROUND_PRODUCTS
    int to = 0;
#ifndef LBNN_OPTIMIZE_SIZE
    if (count == 4) {
        const float a = shared[0], b = shared[1], c = shared[2], d = shared[3];
        for (int o = 0; o < channels; o++) {
            const float row = LBNN_READ(rows[o]);
            var[to] += row * a;
            var[to + 1] += row * b;
            var[to + 2] += row * c;
            var[to + 3] += row * d;
            to += plane;
        }
        return;
    }
#endif
    for (int o = 0; o < channels; o++) {
        const float row = LBNN_READ(rows[o]);
        for (int i = 0; i < count; i++) {
            var[to + i] += row * shared[i];
        }
        to += plane;
    }
}

/* All output channels of a block of `count` pixels. */
LBNN_INLINE void lbnn_patch_outputs(int kind, const float *patch, int taps, const lbnn_weight *w, int channels,
                                    float *mean, float *var, int plane, int count)
{
#ifdef LBNN_CONV_FOUR
    if (count == 4) {
        lbnn_patch_fours(kind, patch, taps, w, channels, mean, var, plane);
        return;
    }
#endif
    lbnn_patch_pixels(kind, patch, taps, w, channels, mean, var, plane, count);
}

/* All pixels, four at a time. */
LBNN_INLINE void lbnn_conv_patches(int kind, int single, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                   const float *factors, float *out_mean, float *out_var, const lbnn_conv_shape *s,
                                   float *patch)
{
    const int plane = s->out_height * s->out_width;
    const int taps = single ? s->in_channels : lbnn_conv_taps(s, s->in_channels);
    for (int pixel = 0; pixel < plane; pixel += 4) {
        const int left = plane - pixel;
        const int count = left < 4 ? left : 4;
        lbnn_patch_fill(kind, single, in_mean, in_var, s, pixel, count, patch);
        lbnn_patch_outputs(kind, patch, taps, w, s->out_channels, out_mean + pixel, out_var + pixel, plane, count);
        if (LBNN_VARIANCE && !lbnn_is_full(kind)) {
            float shared[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            lbnn_patch_shared(kind, patch, taps, factors + s->out_channels, count, shared);
            lbnn_patch_share(shared, factors, out_var + pixel, s->out_channels, plane, count);
        }
    }
}

#endif
