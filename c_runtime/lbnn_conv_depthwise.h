/* lbnn_conv_depthwise.h: one input and one output channel in each group, kernel 3, in place if wanted.
 *
 *     lbnn_conv_depthwise(kind, in_mean, in_var, w, out_mean, out_var, shape, scratch)
 *
 * Stride 1 or 2 (the same along both axes), dilation 1, at most one row and column of padding before the input and one
 * behind it, at least 3 columns of output. `scratch` has room for LBNN_DEPTHWISE_ROWS(width) floats with stride 1; with
 * stride 2 none is used.
 *
 * Outputs may begin where inputs do: the planes of the output lie one after the other from the same address on, and no
 * output is written over an input that is still needed. With stride 1 the three rows at work are in scratch, between
 * columns of zeros, with S beside E and V: a row is taken there once and read three times, and inner loops look for no
 * edge. With stride 2 a row is read 1.5 times, and a copy would cost more than it saves (10.3 instead of 8.5
 * instructions a product): outputs are written row by row from the left, behind the inputs that are still to be read.
 *
 * A row is cut into blocks of 3, 4 and 5 pixels, which fit any width; a block that would be incomplete costs as much as
 * a whole one, and one that is moved to the left would read what has been overwritten. The sums are those of lbnn_conv_any.h
 * in the same order.
 */
#ifndef LBNN_CONV_DEPTHWISE_H
#define LBNN_CONV_DEPTHWISE_H

#include "lbnn_conv_shape.h"
#include "lbnn_sums.h"

/* Up to five neighbouring pixels. */
typedef struct {
    lbnn_sum a, b, c, d, e;
} lbnn_five;

/* The inputs of a kernel row: one for each pixel and two more, or two for each pixel and one more. */
typedef struct {
    lbnn_input a, b, c, d, e, f, g, h, i, j, k;
} lbnn_eleven;

/* One tap for `n` pixels (a constant). */
LBNN_INLINE lbnn_five lbnn_five_means_add(lbnn_five sums, int n, lbnn_input a, lbnn_input b, lbnn_input c, lbnn_input d,
                                          lbnn_input e, const lbnn_weight *tap)
{
    LBNN_ROUND_PRODUCTS
    const float w = LBNN_MEAN(tap[0]);
    sums.a.mean += a.e * w;
    sums.b.mean += b.e * w;
    sums.c.mean += c.e * w;
    if (n > 3) {
        sums.d.mean += d.e * w;
    }
    if (n > 4) {
        sums.e.mean += e.e * w;
    }
    return sums;
}

LBNN_INLINE lbnn_five lbnn_five_times(lbnn_five sums, int n, float a, float b, float c, float d, float e, float w)
{
    LBNN_ROUND_PRODUCTS
    sums.a.var += a * w;
    sums.b.var += b * w;
    sums.c.var += c * w;
    if (n > 3) {
        sums.d.var += d * w;
    }
    if (n > 4) {
        sums.e.var += e * w;
    }
    return sums;
}

LBNN_INLINE lbnn_five lbnn_five_vars_add(lbnn_five sums, int kind, int n, lbnn_input a, lbnn_input b, lbnn_input c,
                                         lbnn_input d, lbnn_input e, const lbnn_weight *tap)
{
    const float w = LBNN_MEAN(tap[0]);
    if (lbnn_is_random(kind)) {
        sums = lbnn_five_times(sums, n, a.v, b.v, c.v, d.v, e.v, w * w);
    }
    return lbnn_five_times(sums, n, a.s, b.s, c.s, d.s, e.s, LBNN_VAR(tap[LBNN_VARS(1)]));
}

/* Ends the use of E and V of an input in its pixel's sums: the square of E is not made before either, or gcc fuses nothing. */
LBNN_INLINE lbnn_sum lbnn_five_spend(lbnn_sum sum, lbnn_input *x)
{
    LBNN_SPENT(x->v, sum.mean, sum.var);
    LBNN_SPENT(x->e, sum.mean, sum.var);
    return sum;
}

/* The same for inputs that no other tap needs: S is made where V was, once V has been added. */
LBNN_INLINE lbnn_five lbnn_five_vars_once(lbnn_five sums, int kind, int n, lbnn_input a, lbnn_input b, lbnn_input c,
                                          lbnn_input d, lbnn_input e, const lbnn_weight *tap)
{
    LBNN_ROUND_PRODUCTS
    if (!lbnn_is_random(kind)) {
        return lbnn_five_vars_add(sums, kind, n, a, b, c, d, e, tap);
    }
    const float w = LBNN_MEAN(tap[0]);
    sums = lbnn_five_times(sums, n, a.v, b.v, c.v, d.v, e.v, w * w);
    sums.a = lbnn_five_spend(sums.a, &a);
    sums.b = lbnn_five_spend(sums.b, &b);
    sums.c = lbnn_five_spend(sums.c, &c);
    sums.d = n > 3 ? lbnn_five_spend(sums.d, &d) : sums.d;
    sums.e = n > 4 ? lbnn_five_spend(sums.e, &e) : sums.e;
    return lbnn_five_times(sums, n, a.v + a.e * a.e, b.v + b.e * b.e, c.v + c.e * c.e, d.v + d.e * d.e, e.v + e.e * e.e,
                           LBNN_VAR(tap[LBNN_VARS(1)]));
}

/* The three taps of a kernel row, which stand behind each other. */
LBNN_INLINE lbnn_five lbnn_five_row(lbnn_five sums, int kind, int n, int stride, lbnn_eleven x, const lbnn_weight *tap)
{
    const int step = lbnn_row_len(kind, 1);
    if (stride == 1) {
        sums = lbnn_five_means_add(sums, n, x.a, x.b, x.c, x.d, x.e, tap);
        sums = lbnn_five_means_add(sums, n, x.b, x.c, x.d, x.e, x.f, tap + step);
        sums = lbnn_five_means_add(sums, n, x.c, x.d, x.e, x.f, x.g, tap + 2 * step);
        sums = lbnn_five_vars_add(sums, kind, n, x.a, x.b, x.c, x.d, x.e, tap);
        sums = lbnn_five_vars_add(sums, kind, n, x.b, x.c, x.d, x.e, x.f, tap + step);
        sums = lbnn_five_vars_add(sums, kind, n, x.c, x.d, x.e, x.f, x.g, tap + 2 * step);
    } else {
        sums = lbnn_five_means_add(sums, n, x.a, x.c, x.e, x.g, x.i, tap);
        sums = lbnn_five_means_add(sums, n, x.b, x.d, x.f, x.h, x.j, tap + step);
        sums = lbnn_five_means_add(sums, n, x.c, x.e, x.g, x.i, x.k, tap + 2 * step);
        sums = lbnn_five_vars_add(sums, kind, n, x.a, x.c, x.e, x.g, x.i, tap);
        sums = lbnn_five_vars_once(sums, kind, n, x.b, x.d, x.f, x.h, x.j, tap + step);
        sums = lbnn_five_vars_add(sums, kind, n, x.c, x.e, x.g, x.i, x.k, tap + 2 * step);
    }
    return sums;
}

LBNN_INLINE lbnn_five lbnn_five_bias(const lbnn_weight *w)
{
    const lbnn_sum bias = lbnn_sum_bias(w, 1);
    const lbnn_five sums = {bias, bias, bias, bias, bias};
    return sums;
}

LBNN_INLINE void lbnn_five_store(lbnn_five sums, int n, float *mean, float *var)
{
    lbnn_sum_store(sums.a, mean, var, 0);
    lbnn_sum_store(sums.b, mean, var, 1);
    lbnn_sum_store(sums.c, mean, var, 2);
    if (n > 3) {
        lbnn_sum_store(sums.d, mean, var, 3);
    }
    if (n > 4) {
        lbnn_sum_store(sums.e, mean, var, 4);
    }
}

/* How many of the `left` pixels of a row the next block has, so that no others are left than can be cut likewise. */
LBNN_INLINE int lbnn_five_next(int left)
{
    const int over = left & 3;
    return over == 0 ? 4 : over == 1 || left > 9 ? 5 : 3;
}

/* ---- stride 1 ------------------------------------------------------------------------------------ */

/* Numbers of a column in scratch: E, V, S; of points E, S. */
LBNN_INLINE int lbnn_column_len(int kind)
{
    return lbnn_is_random(kind) ? 3 : 2;
}

/* Floats of scratch for rows of `width` columns. */
#define LBNN_DEPTHWISE_ROWS(width) (9 * ((width) + 2))

LBNN_INLINE lbnn_input lbnn_column_load(int kind, const float *from)
{
    lbnn_input x;
    x.e = from[0];
    x.v = lbnn_is_random(kind) ? from[1] : 0.0f;
    x.s = from[lbnn_is_random(kind) ? 2 : 1];
    return x;
}

/* A row of the input to its place in scratch. V is stored before S is made in its place. */
LBNN_INLINE void lbnn_row_fill(int kind, const float *mean, const float *var, int width, float *to)
{
    LBNN_ROUND_PRODUCTS
    const float *end = mean + width;
    do {
        const float e = *mean++;
        *to++ = e;
        float v = 0.0f;
        if (lbnn_is_random(kind)) {
            v = *var++;
            *to++ = v;
            LBNN_PIN(v);
        }
        *to++ = lbnn_is_random(kind) ? v + e * e : e * e;
    } while (mean != end);
}

/* A block of n pixels (a constant): `x` is its first column in the first of `rows` rows, `wrap` that in the last place of
 * the scratch, which the first follows; `tap` are the weights of the first row. */
LBNN_INLINE void lbnn_depthwise_block(int kind, int n, const float *x, const float *wrap, int row_len, int rows,
                                      const lbnn_weight *w, const lbnn_weight *tap, float *mean, float *var)
{
    const int step = lbnn_column_len(kind);
    lbnn_five sums = lbnn_five_bias(w);
    for (;;) {
        const lbnn_input zero = {0.0f, 0.0f, 0.0f};
        lbnn_eleven in = {zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero};
        in.a = lbnn_column_load(kind, x);
        in.b = lbnn_column_load(kind, x + step);
        in.c = lbnn_column_load(kind, x + 2 * step);
        in.d = lbnn_column_load(kind, x + 3 * step);
        in.e = lbnn_column_load(kind, x + 4 * step);
        if (n > 3) {
            in.f = lbnn_column_load(kind, x + 5 * step);
        }
        if (n > 4) {
            in.g = lbnn_column_load(kind, x + 6 * step);
        }
        sums = lbnn_five_row(sums, kind, n, 1, in, tap);
        if (--rows == 0) {
            break;
        }
        tap += 3 * lbnn_row_len(kind, 1);
        x = x == wrap ? x - 2 * row_len : x + row_len;
    }
    lbnn_five_store(sums, n, mean, var);
}

/* A row of pixels, block by block; `places` is the first place of the scratch. */
LBNN_INLINE void lbnn_depthwise_row(int kind, const float *top, const float *places, int row_len, int rows,
                                    const lbnn_weight *w, const lbnn_weight *tap, float *mean, float *var, int width)
{
    const float *wrap = places + 2 * row_len;
    for (;;) {
        const int n = lbnn_five_next(width);
        if (n == 4) {
            lbnn_depthwise_block(kind, 4, top, wrap, row_len, rows, w, tap, mean, var);
        } else if (n == 5) {
            lbnn_depthwise_block(kind, 5, top, wrap, row_len, rows, w, tap, mean, var);
        } else {
            lbnn_depthwise_block(kind, 3, top, wrap, row_len, rows, w, tap, mean, var);
        }
        width -= n;
        if (width == 0) {
            break;
        }
        top += lbnn_column_len(kind) * n;
        wrap += lbnn_column_len(kind) * n;
        mean += n;
        var += n;
    }
}

#ifdef LBNN_SIMD
/* With vector registers rows of scratch hold all E, then all V, then all S; LBNN_LANES neighbouring pixels at a time. */
LBNN_INLINE void lbnn_row_fill_lanes(int kind, const float *mean, const float *var, int width, float *to, int step)
{
    LBNN_ROUND_PRODUCTS
    for (int i = 0; i < width; i += LBNN_LANES) {
        const lbnn_lanes e = lbnn_lanes_load(mean + i, width - i);
        lbnn_lanes s = e * e;
        if (lbnn_is_random(kind)) {
            const lbnn_lanes v = lbnn_lanes_load(var + i, width - i);
            s = v + e * e;
            lbnn_lanes_store(to + step + i, v, width - i);
        }
        lbnn_lanes_store(to + i, e, width - i);
        lbnn_lanes_store(to + (lbnn_column_len(kind) - 1) * step + i, s, width - i);
    }
}

LBNN_INLINE void lbnn_depthwise_lanes(int kind, const float *x, const float *wrap, int row_len, int rows, int step,
                                      const lbnn_weight *w, const lbnn_weight *tap, float *out_mean, float *out_var)
{
    lbnn_lanes mean = lbnn_lanes_fill(LBNN_BIAS(w[0]));
    lbnn_lanes var = lbnn_lanes_fill(LBNN_BIAS(w[1]));
    for (; rows > 0; rows--) {
        for (int t = 0; t < 3; t++) {
            const float weight = LBNN_MEAN(tap[0]);
            const lbnn_lanes s = lbnn_lanes_load(x + (lbnn_column_len(kind) - 1) * step + t, LBNN_LANES);
            mean = lbnn_lanes_add_times(mean, lbnn_lanes_load(x + t, LBNN_LANES), weight);
            if (lbnn_is_random(kind)) {
                var = lbnn_lanes_add_times(var, lbnn_lanes_load(x + step + t, LBNN_LANES), weight * weight);
            }
            var = lbnn_lanes_add_times(var, s, LBNN_VAR(tap[LBNN_VARS(1)]));
            tap += lbnn_row_len(kind, 1);
        }
        x = x == wrap ? x - 2 * row_len : x + row_len;
    }
    lbnn_lanes_store(out_mean, mean, LBNN_LANES);
    if (LBNN_VARIANCE) {
        lbnn_lanes_store(out_var, var, LBNN_LANES);
    }
}

/* At least LBNN_LANES pixels; the last ones may overlap those before: all inputs are in scratch. */
LBNN_INLINE void lbnn_depthwise_row_lanes(int kind, const float *top, const float *places, int row_len, int rows,
                                          const lbnn_weight *w, const lbnn_weight *tap, float *mean, float *var, int width)
{
    const int step = row_len / lbnn_column_len(kind);
    for (int i = 0; i < width; i += LBNN_LANES) {
        const int at = i + LBNN_LANES <= width ? i : width - LBNN_LANES;
        lbnn_depthwise_lanes(kind, top + at, places + 2 * row_len + at, row_len, rows, step, w, tap, mean + at, var + at);
    }
}
#endif

/* The next row of the input to scratch. */
LBNN_INLINE void lbnn_depthwise_take(int kind, const float *mean, const float *var, int in_width, int out_width, int ahead,
                                     float *to)
{
#ifdef LBNN_SIMD
    if (out_width >= LBNN_LANES) {
        lbnn_row_fill_lanes(kind, mean, var, in_width, to + ahead, in_width + 2);
        return;
    }
#endif
    (void)out_width;
    lbnn_row_fill(kind, mean, var, in_width, to + lbnn_column_len(kind) * ahead);
}

/* One channel; row y of the input is in place y % 3 of the scratch. */
LBNN_INLINE void lbnn_depthwise_plane(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                      float *out_mean, float *out_var, const lbnn_conv_shape *s, float *scratch)
{
    const int in_width = s->in_width, out_width = s->out_width, in_height = s->in_height, ahead = s->padding_width;
    const int row_len = lbnn_column_len(kind) * (in_width + 2);
    const float *last_place = scratch + 2 * row_len;
    const float *end = out_mean + s->out_height * out_width;
    int filled = 0;             /* rows of the input that have been taken to scratch */
    float *next = scratch;      /* and the place of the next one */
    const float *top = scratch; /* the first row of the window */
    for (int last = 3 - s->padding_height;; last++) {
        const int inside = last < in_height ? last : in_height;
        for (; filled < inside; filled++) {
            lbnn_depthwise_take(kind, in_mean, in_var, in_width, out_width, ahead, next);
            next = next == last_place ? scratch : next + row_len;
            in_mean += in_width;
            in_var += in_width;
        }
        const int skipped = last < 3 ? 3 - last : 0;
        const int rows = inside - last + 3 - skipped;
        const lbnn_weight *tap = w + lbnn_row_at(kind, 1, 3 * skipped);
#ifdef LBNN_SIMD
        if (out_width >= LBNN_LANES) {
            lbnn_depthwise_row_lanes(kind, top, scratch, row_len, rows, w, tap, out_mean, out_var, out_width);
        } else
#endif
        {
            lbnn_depthwise_row(kind, top, scratch, row_len, rows, w, tap, out_mean, out_var, out_width);
        }
        out_mean += out_width;
        out_var += out_width;
        if (out_mean == end) {
            break;
        }
        if (last >= 3) {
            top = top == last_place ? scratch : top + row_len;
        }
    }
}

/* ---- stride 2 ------------------------------------------------------------------------------------ */

/* Pixels of one row from the input itself; the first column of the window, or the last, may lie outside. */
LBNN_INLINE void lbnn_depthwise_halves(int kind, int n, const float *in_mean, const float *in_var, int in_width,
                                       int rows, int left, int right, const lbnn_weight *w, const lbnn_weight *tap,
                                       float *mean, float *var)
{
    lbnn_five sums = lbnn_five_bias(w);
    for (;;) {
        const lbnn_input zero = {0.0f, 0.0f, 0.0f};
        lbnn_eleven in = {zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero};
        in.a = lbnn_input_edge(kind, in_mean, in_var, -1, left);
        in.b = lbnn_input_load(kind, in_mean, in_var, 0);
        in.c = lbnn_input_load(kind, in_mean, in_var, 1);
        in.d = lbnn_input_load(kind, in_mean, in_var, 2);
        in.e = lbnn_input_load(kind, in_mean, in_var, 3);
        in.f = lbnn_input_load(kind, in_mean, in_var, 4);
        const lbnn_input end = lbnn_input_edge(kind, in_mean, in_var, 2 * n - 1, right);
        if (n == 3) {
            in.g = end;
        } else {
            in.g = lbnn_input_load(kind, in_mean, in_var, 5);
            in.h = lbnn_input_load(kind, in_mean, in_var, 6);
        }
        if (n == 4) {
            in.i = end;
        }
        if (n == 5) {
            in.i = lbnn_input_load(kind, in_mean, in_var, 7);
            in.j = lbnn_input_load(kind, in_mean, in_var, 8);
            in.k = end;
        }
        sums = lbnn_five_row(sums, kind, n, 2, in, tap);
        if (--rows == 0) {
            break;
        }
        tap += 3 * lbnn_row_len(kind, 1);
        in_mean += in_width;
        in_var += in_width;
    }
    lbnn_five_store(sums, n, mean, var);
}

LBNN_INLINE void lbnn_depthwise_row_halves(int kind, const float *in_mean, const float *in_var, int at, int in_width, int rows,
                                           const lbnn_weight *w, const lbnn_weight *tap, float *mean, float *var, int width)
{
    for (;;) {
        const int n = lbnn_five_next(width);
        const int right = at + 2 * n - 1 < in_width;
        if (n == 4) {
            lbnn_depthwise_halves(kind, 4, in_mean, in_var, in_width, rows, at, right, w, tap, mean, var);
        } else if (n == 5) {
            lbnn_depthwise_halves(kind, 5, in_mean, in_var, in_width, rows, at, right, w, tap, mean, var);
        } else {
            lbnn_depthwise_halves(kind, 3, in_mean, in_var, in_width, rows, at, right, w, tap, mean, var);
        }
        width -= n;
        if (width == 0) {
            break;
        }
        in_mean += 2 * n;
        in_var += 2 * n;
        at += 2 * n;
        mean += n;
        var += n;
    }
}

LBNN_INLINE void lbnn_depthwise_plane_halves(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                             float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
    const int in_width = s->in_width, out_width = s->out_width, in_height = s->in_height;
    const int at = 1 - s->padding_width; /* where the middle tap of the first pixel is */
    in_mean += at;
    in_var += at;
    const float *end = out_mean + s->out_height * out_width;
    for (int last = 3 - s->padding_height;; last += 2) {
        const int skipped = last < 3 ? 3 - last : 0;
        const int rows = (last < in_height ? last : in_height) - last + 3 - skipped;
        const lbnn_weight *tap = w + lbnn_row_at(kind, 1, 3 * skipped);
        lbnn_depthwise_row_halves(kind, in_mean, in_var, at, in_width, rows, w, tap, out_mean, out_var, out_width);
        out_mean += out_width;
        out_var += out_width;
        if (out_mean == end) {
            break;
        }
        in_mean += (2 - skipped) * in_width;
        in_var += (2 - skipped) * in_width;
    }
}

/* ---- all channels -------------------------------------------------------------------------------- */

LBNN_INLINE void lbnn_conv_depthwise(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                     float *out_mean, float *out_var, const lbnn_conv_shape *s, float *scratch)
{
    const int in_plane = s->in_height * s->in_width;
    const int out_plane = s->out_height * s->out_width;
    const int halves = s->stride_width == 2;
    float *at = scratch;
    for (int i = halves ? 0 : 3 * lbnn_column_len(kind) * (s->in_width + 2); i > 0; i--) {
        *at++ = 0.0f;
        LBNN_HOLD(at); /* or gcc takes memset from the library */
    }
    for (int c = s->in_channels; c > 0; c--) {
        if (halves) {
            lbnn_depthwise_plane_halves(kind, in_mean, in_var, w, out_mean, out_var, s);
        } else {
            lbnn_depthwise_plane(kind, in_mean, in_var, w, out_mean, out_var, s, scratch);
        }
        in_mean += in_plane;
        in_var += in_plane;
        out_mean += out_plane;
        out_var += out_plane;
        w += lbnn_row_at(kind, 1, 9);
    }
}

#endif
