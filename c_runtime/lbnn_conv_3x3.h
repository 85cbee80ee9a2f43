/* lbnn_conv_3x3.h: kernel 3, stride 1, padding 1, groups 1 without vector registers.
 *
 *     lbnn_conv_strips(kind, in_mean, in_var, w, factors, out_mean, out_var, shape, scratch)
 *
 * At least 4 columns. `scratch` has room for the inputs of a block of four pixels, six of each row of each channel, E, V and
 * S, zeros for columns outside; rows outside are left out. It is filled once for all output channels. `factors` are as in
 * lbnn_conv_patch.h.
 *
 * Four pixels times two output channels: the three taps of a kernel row overlap, so that six inputs serve 24 products. The
 * sums of a kernel row are taken in the order E, V, S with all three taps each: so 16 sums, six inputs and six weights fill
 * the 32 registers of a Cortex-M4F. That is another order than that of lbnn_conv_any.h, and LBNN_STRICT has none of it.
 */
#ifndef LBNN_CONV_3X3_H
#define LBNN_CONV_3X3_H

#include "lbnn_conv_patch.h"

#if defined(LBNN_CONV_FOUR) && !defined(LBNN_STRICT)
#define LBNN_CONV_STRIPS 1

/* Six neighbouring numbers of a row. */
typedef struct {
    float a, b, c, d, e, f;
} lbnn_strip;

/* Numbers of one row of one channel in scratch. */
LBNN_INLINE int lbnn_strip_len(int kind)
{
    return lbnn_is_random(kind) ? 18 : 12;
}

LBNN_INLINE lbnn_strip lbnn_strip_load(const float *x)
{
    const lbnn_strip strip = {x[0], x[1], x[2], x[3], x[4], x[5]};
    return strip;
}

/* What each tap of a kernel row has of four pixels. */
LBNN_INLINE lbnn_numbers lbnn_strip_first(lbnn_strip x)
{
    const lbnn_numbers four = {x.a, x.b, x.c, x.d};
    return four;
}

LBNN_INLINE lbnn_numbers lbnn_strip_second(lbnn_strip x)
{
    const lbnn_numbers four = {x.b, x.c, x.d, x.e};
    return four;
}

LBNN_INLINE lbnn_numbers lbnn_strip_third(lbnn_strip x)
{
    const lbnn_numbers four = {x.c, x.d, x.e, x.f};
    return four;
}

LBNN_INLINE void lbnn_strip_put(int kind, float *to, lbnn_input x)
{
    to[0] = x.e;
    if (lbnn_is_random(kind)) {
        to[6] = x.v;
    }
    to[lbnn_strip_len(kind) - 6] = x.s;
}

/* The inputs around four pixels, rows [first, first + rows), of all channels; `at` is where the first pixel is in row `first`. */
LBNN_INLINE void lbnn_strips_fill(int kind, const float *mean, const float *var, const lbnn_conv_shape *s, int at,
                                  int rows, int left, int right, float *to)
{
    const int plane = s->in_height * s->in_width;
    for (int c = s->in_channels; c > 0; c--) {
        int from = at;
        for (int k = rows; k > 0; k--) {
            lbnn_strip_put(kind, to, lbnn_input_edge(kind, mean, var, from - 1, left));
            lbnn_patch_four(kind, 6, mean + from, var + from, 1, to + 1);
            lbnn_strip_put(kind, to + 5, lbnn_input_edge(kind, mean, var, from + 4, right));
            to += lbnn_strip_len(kind);
            from += s->in_width;
        }
        at += plane;
    }
}

/* The weights of a kernel row of one output channel. */
typedef struct {
    float a, b, c;
} lbnn_three;

/* A kernel row of one output channel: for the means, and with other weights for the variances. */
LBNN_INLINE lbnn_four lbnn_strip_means(lbnn_four sums, lbnn_strip x, lbnn_three w)
{
    sums = lbnn_four_means_add(sums, lbnn_strip_first(x), w.a);
    sums = lbnn_four_means_add(sums, lbnn_strip_second(x), w.b);
    return lbnn_four_means_add(sums, lbnn_strip_third(x), w.c);
}

LBNN_INLINE lbnn_four lbnn_strip_vars(lbnn_four sums, lbnn_strip x, lbnn_three w)
{
    sums = lbnn_four_vars_add(sums, lbnn_strip_first(x), w.a);
    sums = lbnn_four_vars_add(sums, lbnn_strip_second(x), w.b);
    return lbnn_four_vars_add(sums, lbnn_strip_third(x), w.c);
}

/* Those of two neighbouring ones. */
typedef struct {
    lbnn_three left, right;
} lbnn_threes;

/* The next row of weights; unless the width of their block is known, a pointer costs less than what gcc carries for it. */
LBNN_INLINE const lbnn_weight *lbnn_threes_next(const lbnn_weight *tap, int width, int step)
{
    tap += step;
    if (width != LBNN_PACK) {
        LBNN_HOLD(tap);
    }
    return tap;
}

LBNN_INLINE lbnn_threes lbnn_threes_means(const lbnn_weight *tap, int width, int step)
{
    lbnn_threes w;
    w.left.a = LBNN_MEAN(tap[0]);
    w.right.a = LBNN_MEAN(tap[1]);
    tap = lbnn_threes_next(tap, width, step);
    w.left.b = LBNN_MEAN(tap[0]);
    w.right.b = LBNN_MEAN(tap[1]);
    tap = lbnn_threes_next(tap, width, step);
    w.left.c = LBNN_MEAN(tap[0]);
    w.right.c = LBNN_MEAN(tap[1]);
    return w;
}

LBNN_INLINE lbnn_three lbnn_three_squares(lbnn_three w)
{
    const lbnn_three squares = {w.a * w.a, w.b * w.b, w.c * w.c};
    return squares;
}

LBNN_INLINE lbnn_threes lbnn_threes_vars(const lbnn_weight *tap, int width, int step)
{
    lbnn_threes w;
    w.left.a = LBNN_VAR(tap[0]);
    w.right.a = LBNN_VAR(tap[1]);
    tap = lbnn_threes_next(tap, width, step);
    w.left.b = LBNN_VAR(tap[0]);
    w.right.b = LBNN_VAR(tap[1]);
    tap = lbnn_threes_next(tap, width, step);
    w.left.c = LBNN_VAR(tap[0]);
    w.right.c = LBNN_VAR(tap[1]);
    return w;
}

/* One kernel row of two output channels. */
LBNN_INLINE lbnn_eight lbnn_strip_add(lbnn_eight sums, int kind, const float *x, const lbnn_weight *tap, int width)
{
    const int step = lbnn_row_len(kind, width);
    lbnn_threes w = lbnn_threes_means(tap, width, step);
    lbnn_strip in = lbnn_strip_load(x);
    sums.left = lbnn_strip_means(sums.left, in, w.left);
    sums.right = lbnn_strip_means(sums.right, in, w.right);
    if (lbnn_is_random(kind)) {
        LBNN_FENCE();
        in = lbnn_strip_load(x + 6);
        sums.left = lbnn_strip_vars(sums.left, in, lbnn_three_squares(w.left));
        sums.right = lbnn_strip_vars(sums.right, in, lbnn_three_squares(w.right));
    }
    if (!lbnn_is_full(kind)) {
        return sums;
    }
    LBNN_FENCE();
    in = lbnn_strip_load(x + lbnn_strip_len(kind) - 6);
    w = lbnn_threes_vars(tap + LBNN_VARS(width), width, step);
    sums.left = lbnn_strip_vars(sums.left, in, w.left);
    sums.right = lbnn_strip_vars(sums.right, in, w.right);
    return sums;
}

/* Two output channels of four pixels, or one if `pair` is 0: the second then reads what stands behind the weights of the
 * first, and is not stored. The first `above` kernel rows lie outside, and of the others all but `rows`. */
LBNN_INLINE void lbnn_strips_pair(int kind, int pair, const float *x, int channels, int rows, int above,
                                  const lbnn_weight *w, int width, float *mean, float *var, int plane)
{
    const int step = 3 * lbnn_row_len(kind, width);
    const int fold = lbnn_fold(kind) / 9;
    for (int first = 0; first < channels; first += fold) {
        const lbnn_weight *start = lbnn_sums_start(kind, w, first > 0);
        const lbnn_weight *tap = w + lbnn_row_at(kind, width, 9 * first) + above * step;
        lbnn_eight sums;
        sums.left = lbnn_four_pixels_bias(start, width);
        sums.right = lbnn_four_pixels_bias(start + 1, width);
        const int count = channels - first < fold ? channels - first : fold;
        const int run = rows == 3 ? 3 * count : rows; /* kernel rows that stand one behind the other */
        for (int left = rows * count;;) {
            const float *end = x + run * lbnn_strip_len(kind);
            do {
                sums = lbnn_strip_add(sums, kind, x, tap, width);
                x += lbnn_strip_len(kind);
                tap += step;
                LBNN_HOLD(tap);
            } while (x != end);
            left -= run;
            if (left == 0) {
                break;
            }
            tap += (3 - rows) * step;
        }
        if (first > 0) {
            sums.left = lbnn_four_join(sums.left, mean, var, 0, 1, 4);
            sums.right = lbnn_four_join(sums.right, mean, var, plane, 1, pair ? 4 : 0);
        }
        lbnn_four_store(sums.left, mean, var, 0, 1, 4);
        lbnn_four_store(sums.right, mean, var, plane, 1, pair ? 4 : 0);
    }
}

/* All output channels of four pixels; in a packed block of eight the places of weights are known. */
LBNN_INLINE void lbnn_strips_outputs(int kind, const float *x, const lbnn_conv_shape *s, int rows, int above,
                                     const lbnn_weight *w, float *mean, float *var)
{
    const int plane = s->out_height * s->out_width;
    const int channels = s->in_channels;
    int left = s->out_channels;
    int to = 0;
    for (; left >= LBNN_PACK; left -= LBNN_PACK) {
        for (int k = 0; k < LBNN_PACK; k += 2) {
            lbnn_strips_pair(kind, 1, x, channels, rows, above, w + k, LBNN_PACK, mean + to, var + to, plane);
            to += 2 * plane;
        }
        w += lbnn_row_at(kind, LBNN_PACK, 9 * channels);
    }
    for (int k = 0; k < left; k += 2) {
        lbnn_strips_pair(kind, k + 1 < left, x, channels, rows, above, w + k, left, mean + to, var + to, plane);
        to += 2 * plane;
    }
}

/* What the outputs share of four pixels: the sums of S column. */
LBNN_INLINE void lbnn_strips_shared(int kind, const float *x, int channels, int rows, int above, const float *column,
                                    float *shared)
{
    const int fold = LBNN_FOLD / 9;
    const lbnn_sum none = {0.0f, 0.0f};
    const lbnn_four zero = {none, none, none, none};
    int tap = 3 * above;
    for (int first = 0; first < channels; first += fold) {
        const int last = channels - first < fold ? channels : first + fold;
        lbnn_four sums = zero;
        for (int c = first; c < last; c++) {
            for (int k = 0; k < rows; k++) {
                const lbnn_three factor = {LBNN_READ(column[tap]), LBNN_READ(column[tap + 1]), LBNN_READ(column[tap + 2])};
                sums = lbnn_strip_vars(sums, lbnn_strip_load(x + lbnn_strip_len(kind) - 6), factor);
                x += lbnn_strip_len(kind);
                tap += 3;
            }
            tap += 9 - 3 * rows;
        }
        shared[0] += sums.a.var;
        shared[1] += sums.b.var;
        shared[2] += sums.c.var;
        shared[3] += sums.d.var;
    }
}

/* Row after row, four pixels at a time; the last four may overlap those before. */
LBNN_INLINE void lbnn_conv_strips(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                  const float *factors, float *out_mean, float *out_var, const lbnn_conv_shape *s,
                                  float *scratch)
{
    const int columns = s->in_width;
    for (int row = 0; row < s->out_height; row++) {
        const lbnn_span y = lbnn_conv_rows(s, row);
        for (int column = 0; column < columns; column += 4) {
            const int here = column + 4 <= columns ? column : columns - 4;
            const int at = row * columns + here;
            lbnn_strips_fill(kind, in_mean, in_var, s, y.start * columns + here, y.count, here > 0, here + 4 < columns,
                             scratch);
            lbnn_strips_outputs(kind, scratch, s, y.count, y.first, w, out_mean + at, out_var + at);
            if (LBNN_VARIANCE && !lbnn_is_full(kind)) {
                float shared[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                lbnn_strips_shared(kind, scratch, s->in_channels, y.count, y.first, factors + s->out_channels, shared);
                lbnn_patch_share(shared, factors, out_var + at, s->out_channels, s->out_height * s->out_width, 4);
            }
        }
    }
}

#endif
#endif
