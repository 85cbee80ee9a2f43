/* lbnn_conv_depthwise.h: one input and one output channel in each group, kernel 3, in place if wanted.
 *
 *     lbnn_conv_depthwise(kind, in_mean, in_var, w, out_mean, out_var, shape, scratch)
 *
 * Stride 1 or 2 (the same along both axes), dilation 1, at most one row and column of padding before the input and one
 * behind it, at least 3 columns of output. `scratch` has room for LBNN_DEPTHWISE_ROWS(width) floats with stride 1; with
 * stride 2 none is used.
 *
 * Outputs may begin where inputs do: the planes of the output lie one after the other from the same address on, and no
 * output is written over an input that is still needed. With stride 1 and padding the three rows at work are in scratch,
 * between columns of zeros: a row is taken there once and read three times, and inner loops look for no edge. Windows that
 * lie inside the input, and those of stride 2, which read a row 1.5 times, are read where they are: a copy would cost more
 * than it saves, and outputs are written row by row from the left, behind the inputs that are still to be read.
 *
 * A row is cut into blocks of 3, 4 and 5 pixels, which fit any width; a block that would be incomplete costs as much as
 * a whole one, and one that is moved to the left would read what has been overwritten. An input goes to all of its pixels
 * before the next is read: the weights of a kernel row stay in nine registers, and S takes the place of V. The sums are
 * those of lbnn_conv_any.h in the same order.
 */
#ifndef LBNN_CONV_DEPTHWISE_H
#define LBNN_CONV_DEPTHWISE_H

#include "lbnn_conv_shape.h"
#include "lbnn_sums.h"

/* The weight of a tap: E, E^2 and V. */
typedef struct {
    float e, square, v;
} lbnn_weight_tap;

/* Those of a kernel row. */
typedef struct {
    lbnn_weight_tap a, b, c;
} lbnn_three_taps;

LBNN_INLINE lbnn_weight_tap lbnn_tap_load(int kind, const lbnn_weight *at)
{
    lbnn_weight_tap tap;
    tap.e = LBNN_MEAN(at[0]);
    tap.square = lbnn_is_random(kind) ? tap.e * tap.e : 0.0f;
    tap.v = LBNN_VAR(at[LBNN_VARS(1)]);
    return tap;
}

/* x times each of the weights, for the sums that exist. */
LBNN_INLINE void lbnn_spread(float *a, float *b, float *c, float x, float u, float v, float w)
{
    LBNN_ROUND_PRODUCTS
    if (a) {
        *a += x * u;
    }
    if (b) {
        *b += x * v;
    }
    if (c) {
        *c += x * w;
    }
}

/* Ends the use of E in up to three sums, with which that of V has ended too, so that S takes the register of either. */
LBNN_INLINE float lbnn_spent(float e, const lbnn_sum *a, const lbnn_sum *b, const lbnn_sum *c)
{
    if (a && b && c) {
        LBNN_SPENT_IN(e, LBNN_BOTH(a), LBNN_BOTH(b), LBNN_BOTH(c));
    } else if (a && b) {
        LBNN_SPENT_IN(e, LBNN_BOTH(a), LBNN_BOTH(b));
    } else if (a && c) {
        LBNN_SPENT_IN(e, LBNN_BOTH(a), LBNN_BOTH(c));
    } else if (b && c) {
        LBNN_SPENT_IN(e, LBNN_BOTH(b), LBNN_BOTH(c));
    } else {
        const lbnn_sum *one = a ? a : b ? b : c;
        LBNN_SPENT_IN(e, LBNN_BOTH(one));
        (void)one;
    }
    return e;
}

/* One input to the pixels over whose first, second and third tap it lies: which of them exist is a constant. A sum gets
 * its products in the order of lbnn_sum_add. */
LBNN_INLINE void lbnn_input_spread(int kind, lbnn_sum *a, lbnn_sum *b, lbnn_sum *c, const float *mean, const float *var,
                                   int at, lbnn_three_taps w)
{
    LBNN_ROUND_PRODUCTS
    float e = mean[at];
    float s = 0.0f;
    lbnn_spread(a ? &a->mean : 0, b ? &b->mean : 0, c ? &c->mean : 0, e, w.a.e, w.b.e, w.c.e);
    if (lbnn_is_random(kind)) {
        s = var[at];
        lbnn_spread(a ? &a->var : 0, b ? &b->var : 0, c ? &c->var : 0, s, w.a.square, w.b.square, w.c.square);
        e = lbnn_spent(e, a, b, c);
    }
    s = lbnn_is_random(kind) ? s + e * e : e * e;
    lbnn_spread(a ? &a->var : 0, b ? &b->var : 0, c ? &c->var : 0, s, w.a.v, w.b.v, w.c.v);
}

/* Up to five neighbouring pixels. */
typedef struct {
    lbnn_sum a, b, c, d, e;
} lbnn_five;

/* A kernel row of `n` pixels (a constant) side by side, whose window begins at `mean` and `var`. */
LBNN_INLINE void lbnn_five_row(lbnn_five *to, int kind, int n, const float *mean, const float *var, lbnn_three_taps w)
{
    lbnn_sum *d = n > 3 ? &to->d : 0, *e = n > 4 ? &to->e : 0;
    lbnn_input_spread(kind, &to->a, 0, 0, mean, var, 0, w);
    lbnn_input_spread(kind, &to->b, &to->a, 0, mean, var, 1, w);
    lbnn_input_spread(kind, &to->c, &to->b, &to->a, mean, var, 2, w);
    lbnn_input_spread(kind, d, &to->c, &to->b, mean, var, 3, w);
    lbnn_input_spread(kind, e, d, &to->c, mean, var, 4, w);
    if (n > 3) {
        lbnn_input_spread(kind, 0, e, d, mean, var, 5, w);
    }
    if (n > 4) {
        lbnn_input_spread(kind, 0, 0, e, mean, var, 6, w);
    }
}

/* The same two columns apart: `mean` and `var` are at the second column of the window, the first is inside with `left`, the
 * last with `right`. */
LBNN_INLINE void lbnn_five_row_halves(lbnn_five *to, int kind, int n, const float *mean, const float *var, lbnn_three_taps w,
                                      int left, int right)
{
    lbnn_sum *d = n > 3 ? &to->d : 0, *e = n > 4 ? &to->e : 0;
    if (left) {
        lbnn_input_spread(kind, &to->a, 0, 0, mean, var, -1, w);
    }
    lbnn_input_spread(kind, 0, &to->a, 0, mean, var, 0, w);
    lbnn_input_spread(kind, &to->b, 0, &to->a, mean, var, 1, w);
    lbnn_input_spread(kind, 0, &to->b, 0, mean, var, 2, w);
    lbnn_input_spread(kind, &to->c, 0, &to->b, mean, var, 3, w);
    lbnn_input_spread(kind, 0, &to->c, 0, mean, var, 4, w);
    if (n > 3) {
        lbnn_input_spread(kind, d, 0, &to->c, mean, var, 5, w);
        lbnn_input_spread(kind, 0, d, 0, mean, var, 6, w);
    }
    if (n > 4) {
        lbnn_input_spread(kind, e, 0, d, mean, var, 7, w);
        lbnn_input_spread(kind, 0, e, 0, mean, var, 8, w);
    }
    if (right) {
        lbnn_input_spread(kind, 0, 0, n > 4 ? e : n > 3 ? d : &to->c, mean, var, 2 * n - 1, w);
    }
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

/* Rows of inputs, `row_len` apart. In a ring behind the row at `wrap` follows that two rows before it. */
typedef struct {
    const float *mean, *var, *wrap;
    int row_len;
} lbnn_rows;

/* A block of n pixels (a constant) from `count` rows, whose taps begin at `tap`; with stride 2 `left` and `right` tell
 * whether the first and the last column of the window are inside. */
LBNN_INLINE void lbnn_depthwise_block(int kind, int stride, int n, lbnn_rows x, int count, int left, int right,
                                      const lbnn_weight *w, const lbnn_weight *tap, float *mean, float *var)
{
    const int step = lbnn_row_len(kind, 1);
    lbnn_five sums = lbnn_five_bias(w);
    for (;;) {
        lbnn_three_taps taps;
        taps.a = lbnn_tap_load(kind, tap);
        taps.b = lbnn_tap_load(kind, tap + step);
        taps.c = lbnn_tap_load(kind, tap + 2 * step);
        if (stride == 1) {
            lbnn_five_row(&sums, kind, n, x.mean, x.var, taps);
        } else {
            lbnn_five_row_halves(&sums, kind, n, x.mean, x.var, taps, left, right);
        }
        if (--count == 0) {
            break;
        }
        tap += 3 * step;
        const int next = stride == 1 && x.mean == x.wrap ? -2 * x.row_len : x.row_len;
        x.mean += next;
        x.var += next;
    }
    lbnn_five_store(sums, n, mean, var);
}

LBNN_INLINE void lbnn_depthwise_some(int kind, int stride, int n, lbnn_rows x, int count, int left, int right,
                                     const lbnn_weight *w, const lbnn_weight *tap, float *mean, float *var)
{
    if (n == 4) {
        lbnn_depthwise_block(kind, stride, 4, x, count, left, right, w, tap, mean, var);
    } else if (n == 5) {
        lbnn_depthwise_block(kind, stride, 5, x, count, left, right, w, tap, mean, var);
    } else {
        lbnn_depthwise_block(kind, stride, 3, x, count, left, right, w, tap, mean, var);
    }
}

/* ---- stride 1 ------------------------------------------------------------------------------------ */

/* Numbers of a column in scratch: E, V, and S with vector registers; of points no V. */
LBNN_INLINE int lbnn_column_len(int kind)
{
    return lbnn_is_random(kind) ? 3 : 2;
}

/* Floats of scratch for rows of `width` columns. */
#define LBNN_DEPTHWISE_ROWS(width) (9 * ((width) + 2))

/* A row of the input to its place in scratch: all E, then all V `step` further on. */
LBNN_INLINE void lbnn_row_fill(int kind, const float *mean, const float *var, int width, float *to, int step)
{
    const float *end = mean + width;
    do {
        if (lbnn_is_random(kind)) {
            to[step] = *var++;
        }
        *to++ = *mean++;
    } while (mean != end);
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
LBNN_INLINE void lbnn_depthwise_take(int kind, const float *mean, const float *var, int in_width, int out_width,
                                     float *to)
{
#ifdef LBNN_SIMD
    if (out_width >= LBNN_LANES) {
        lbnn_row_fill_lanes(kind, mean, var, in_width, to, in_width + 2);
        return;
    }
#endif
    (void)out_width;
    lbnn_row_fill(kind, mean, var, in_width, to, in_width + 2);
}

/* A row of pixels; the places of their outputs go on behind it. */
LBNN_INLINE void lbnn_depthwise_row(int kind, lbnn_rows x, int rows, const lbnn_weight *w, const lbnn_weight *tap,
                                    float **mean, float **var, int width)
{
    for (;;) {
        const int n = lbnn_five_next(width);
        lbnn_depthwise_some(kind, 1, n, x, rows, 1, 1, w, tap, *mean, *var);
        *mean += n;
        *var += n;
        width -= n;
        if (width == 0) {
            break;
        }
        x.mean += n;
        x.var += n;
        x.wrap += n;
    }
}

/* Whether windows lie inside the input, and may be read there. */
LBNN_INLINE int lbnn_depthwise_inside(const lbnn_conv_shape *s)
{
#ifdef LBNN_SIMD
    if (s->out_width >= LBNN_LANES) {
        return 0;
    }
#endif
    return s->padding_height == 0 && s->padding_width == 0 && s->out_height + 2 <= s->in_height &&
           s->out_width + 2 <= s->in_width;
}

/* One channel, whose outputs begin at *out_mean and *out_var, which go on to the next. Row y of the input is in place
 * y % 3 of the scratch, or stays where it is. */
LBNN_INLINE void lbnn_depthwise_plane(int kind, int inside, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                      float **out_mean, float **out_var, const lbnn_conv_shape *s, float *scratch)
{
    float *mean = *out_mean, *var = *out_var;
    const int in_width = s->in_width, out_width = s->out_width, step = in_width + 2;
    const int row_len = inside ? in_width : lbnn_column_len(kind) * step;
    const float *end = mean + s->out_height * out_width;
    const lbnn_weight *tap = w + lbnn_row_at(kind, 1, 3 * s->padding_height);
    int wanted = 3 - s->padding_height; /* rows of the kernel that are not above the input */
    int rows = inside ? 3 : 0;          /* of the input that are there for them */
    const float *places = scratch + 1 - s->padding_width; /* where windows begin: the input is from the second column on */
    lbnn_rows x = {inside ? in_mean : places, inside ? in_var : places + step, 0, row_len};
    x.wrap = x.mean + 2 * row_len; /* of windows inside this is the last row, behind which nothing is read */
    float *next = scratch + 1;
    const float *below = in_mean + s->in_height * in_width;
    for (;;) {
        for (; rows < wanted && in_mean != below; rows++) {
            lbnn_depthwise_take(kind, in_mean, in_var, in_width, out_width, next);
            next = next == scratch + 1 + 2 * row_len ? scratch + 1 : next + row_len;
            in_mean += in_width;
            in_var += in_width;
        }
#ifdef LBNN_SIMD
        if (out_width >= LBNN_LANES) {
            lbnn_depthwise_row_lanes(kind, x.mean, places, row_len, rows, w, tap, mean, var, out_width);
            mean += out_width;
            var += out_width;
        } else
#endif
        {
            lbnn_depthwise_row(kind, x, rows, w, tap, &mean, &var, out_width);
        }
        if (mean == end) {
            break;
        }
        if (inside) {
            x.mean += in_width;
            x.var += in_width;
            x.wrap += in_width;
            continue;
        }
        if (wanted == 3) {
            const int down = x.mean == x.wrap ? -2 * row_len : row_len;
            x.mean += down;
            x.var += down;
            rows--;
        }
        wanted = 3;
        tap = w + lbnn_row_at(kind, 1, 0);
    }
    *out_mean = mean;
    *out_var = var;
}

/* ---- stride 2 ------------------------------------------------------------------------------------ */

/* One channel. Outputs are written row by row from the left, behind the inputs that are still to be read. */
LBNN_INLINE void lbnn_depthwise_plane_halves(int kind, const float *in_mean, const float *in_var,
                                       const lbnn_weight *w, float **out_mean, float **out_var, const lbnn_conv_shape *s)
{
    float *mean = *out_mean, *var = *out_var;
    const int width = s->in_width, out_width = s->out_width;
    const int first = 1 - s->padding_width; /* the column that a row of pixels is read from */
    const float *end = mean + s->out_height * out_width;
    const lbnn_weight *tap = w + lbnn_row_at(kind, 1, 3 * s->padding_height);
    lbnn_rows x = {in_mean + first, in_var + first, 0, width};
    int wanted = 3 - s->padding_height; /* rows of the kernel that are not above the input */
    int below = s->in_height;           /* rows of the input from the first of them on */
    int at = first, left = out_width;
    for (;;) {
        const int n = lbnn_five_next(left);
        lbnn_depthwise_some(kind, 2, n, x, wanted < below ? wanted : below, at, at + 2 * n - 1 < width, w, tap, mean,
                            var);
        int step = 2 * n;
        mean += n;
        var += n;
        at += step;
        left -= n;
        if (left == 0) {
            if (mean == end) {
                break;
            }
            const int down = wanted - 1;
            step += down * width - 2 * out_width;
            below -= down;
            wanted = 3;
            tap = w + lbnn_row_at(kind, 1, 0);
            at = first;
            left = out_width;
        }
        x.mean += step;
        x.var += step;
    }
    *out_mean = mean;
    *out_var = var;
}

/* ---- all channels -------------------------------------------------------------------------------- */

LBNN_INLINE void lbnn_conv_depthwise(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                     float *out_mean, float *out_var, const lbnn_conv_shape *s, float *scratch)
{
    const int in_plane = s->in_height * s->in_width;
    const int halves = s->stride_width == 2;
    const int inside = !halves && lbnn_depthwise_inside(s);
    float *at = scratch;
    for (int i = halves || inside ? 0 : 3 * lbnn_column_len(kind) * (s->in_width + 2); i > 0; i--) {
        *at++ = 0.0f;
        LBNN_HOLD(at); /* or gcc takes memset from the library */
    }
    for (int c = s->in_channels; c > 0; c--) {
        if (halves) {
            lbnn_depthwise_plane_halves(kind, in_mean, in_var, w, &out_mean, &out_var, s);
        } else {
            lbnn_depthwise_plane(kind, inside, in_mean, in_var, w, &out_mean, &out_var, s, scratch);
        }
        in_mean += in_plane;
        in_var += in_plane;
        w += lbnn_row_at(kind, 1, 9);
    }
}

#endif
