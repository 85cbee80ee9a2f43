/* lbnn_maxpool.h: max pooling on moments and on points.
 *
 *     static const lbnn_max_pool_shape shape = {channels, in height, width, out height, width, kernel h, w,
 *                                               stride h, w, padding h, w, dilation h, w};
 *     lbnn_max_pool(in_mean, in_var, out_mean, out_var, &shape)
 *     lbnn_max_pool_point(in, out, &shape)
 *     lbnn_max_pool_2x2(in_mean, in_var, out_mean, out_var, &shape)       kernel 2, stride 2, padding 0, dilation 1,
 *     lbnn_max_pool_2x2_point(in, out, &shape)                            not in ceil mode: faster
 *
 * The larger of two Gaussians is exact; a window of more is a tournament of pairs in one order everywhere: in each row
 * neighbours meet, then winners of neighbouring pairs, an odd one waiting for the next round; then the rows' winners in
 * the same way. Ceil mode only makes out height and width larger. In place (out == in, the same offset) is allowed when
 * padding is 0: an output is written at or before the first element of its own window, and no later window reads it.
 */
#ifndef LBNN_MAXPOOL_H
#define LBNN_MAXPOOL_H

#include "lbnn_activation.h" /* lbnn_moments */

typedef struct {
    int channels;
    int in_height, in_width;
    int out_height, out_width;
    int kernel_height, kernel_width;
    int stride_height, stride_width;
    int padding_height, padding_width;
    int dilation_height, dilation_width;
} lbnn_max_pool_shape;

/* The mean of padding, variance 0: it loses every match against a mean above -3e38. */
#define LBNN_LOWEST (-3.4028234e38f)

/* Values of a window that wait for their match: one for each bit of kernel height and width, whose product is below
 * 2^29. */
#define LBNN_WAITING 32

/* a = sqrt(V1 + V2); x = |E1 - E2| / a; Q, I1, J2 the tail beyond x; (M, V) those of the larger mean:
 *     E' = M + a I1
 *     V' = V (1 - 2 Q) + a^2 (J2 - I1^2)
 * Beyond LBNN_TAIL_MAX the tail is nothing. What is not finite must not vanish because it loses: 0 times both means and
 * 0 times the sum of the variances are zeros, or NaN; taken away, they make +0 of -0, as a sum with a tail does. */
LBNN_INLINE lbnn_moments lbnn_larger(lbnn_moments one, lbnn_moments other, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes gap = one.mean - other.mean;
    const lbnn_lanes square = one.var + other.var;
    const lbnn_lanes size = lbnn_lanes_abs(gap);
    const lbnn_lanes width = lbnn_lanes_sqrt(square);
    const lbnn_mask second = lbnn_lanes_less(gap, lbnn_lanes_fill(0.0f));
    const lbnn_mask inside = lbnn_lanes_less(size, LBNN_TAIL_MAX * width);
    const lbnn_lanes own = lbnn_lanes_select(second, other.var, one.var);
    lbnn_moments out;
    out.mean = lbnn_lanes_select(second, other.mean, one.mean) - 0.0f * one.mean - 0.0f * other.mean;
    out.var = own + 0.0f * square;
    if (lbnn_lanes_worth(inside)) {
        const lbnn_lanes nothing = lbnn_lanes_fill(0.0f); /* other lanes may hold a NaN */
        /* |x| and its bound change nothing inside: they show a proof that the exponential is within its range. */
        const lbnn_lanes x = lbnn_lanes_select(inside, size, nothing)
                             / lbnn_lanes_select(inside, width, lbnn_lanes_fill(1.0f));
        const lbnn_tail_moments tail = lbnn_tail(lbnn_lanes_at_most(lbnn_lanes_abs(x), LBNN_TAIL_MAX), c);
        const lbnn_lanes factor = lbnn_lanes_fill(LBNN_TAIL_FACTOR);
        const lbnn_lanes scale = lbnn_lanes_select(inside, factor, nothing) * tail.scale;
        const lbnn_lanes i1 = scale * tail.i1;
        out.mean += width * i1;
        out.var = out.var + square * (scale * tail.j2 - i1 * i1) - own * (2.0f * scale * tail.q);
    }
    return out;
}

/* Elements `step` apart, the first n of them. */
LBNN_INLINE lbnn_lanes lbnn_lanes_apart(const float *from, int step, int n)
{
#ifdef LBNN_SIMD
    float x[LBNN_LANES];
    for (int i = 0; i < LBNN_LANES; i++) {
        x[i] = i < n ? from[i * step] : 0.0f;
    }
    return lbnn_lanes_load(x, LBNN_LANES);
#else
    (void)step;
    return lbnn_lanes_load(from, n);
#endif
}

/* Of a row of the input the elements at `column` and `step` apart, the first n of them; `outside` beside the row. */
LBNN_INLINE lbnn_lanes lbnn_lanes_around(const float *row, int width, int column, int step, int n, float outside)
{
    float x[LBNN_LANES];
    for (int i = 0; i < LBNN_LANES; i++) {
        const int at = column + i * step;
        x[i] = i < n && at >= 0 && at < width ? row[at] : outside;
    }
    return lbnn_lanes_load(x, LBNN_LANES);
}

/* Matches of number n (from 1) of `all`: those of the rounds that it completes; of the last one all that wait. */
LBNN_INLINE int lbnn_matches(int n, int all, int waiting)
{
    int count = 0;
    if (n == all) {
        return waiting;
    }
    for (; (n & 1) == 0; n >>= 1) {
        count++;
    }
    return count;
}

/* The windows at one row and from `column` on, n of them side by side in lanes; `mean` and `var` are one plane. */
LBNN_INLINE lbnn_moments lbnn_window_largest(const float *mean, const float *var, const lbnn_max_pool_shape *s, int row,
                                             int column, int n, lbnn_tail_odd c)
{
    lbnn_moments waiting[LBNN_WAITING];
    waiting[0].mean = lbnn_lanes_fill(LBNN_LOWEST);
    waiting[0].var = lbnn_lanes_fill(0.0f);
    int count = 0;
    const int left = column * s->stride_width - s->padding_width;
    for (int i = 1; i <= s->kernel_height; i++) {
        const int rows = count;
        const int y = row * s->stride_height - s->padding_height + (i - 1) * s->dilation_height;
        const int width = y >= 0 && y < s->in_height ? s->in_width : 0;
        const float *row_mean = mean + y * width;
        const float *row_var = var + y * width;
        for (int j = 1; j <= s->kernel_width; j++) {
            const int x = left + (j - 1) * s->dilation_width;
            lbnn_moments value;
            value.mean = lbnn_lanes_around(row_mean, width, x, s->stride_width, n, LBNN_LOWEST);
            value.var = lbnn_lanes_around(row_var, width, x, s->stride_width, n, 0.0f);
            int due = lbnn_matches(j, s->kernel_width, count - rows);
            if (j == s->kernel_width) {
                due += lbnn_matches(i, s->kernel_height, rows);
            }
            for (; due > 0; due--) {
                value = lbnn_larger(waiting[--count], value, c);
            }
            waiting[count++] = value;
        }
    }
    return waiting[0];
}

/* x' = the largest under the window; 0 times each element keeps what is not finite from being hidden. */
LBNN_KERNEL void lbnn_max_pool_point(const float *in, float *out, const lbnn_max_pool_shape *s)
{
    LBNN_ROUND_PRODUCTS
    for (int c = 0; c < s->channels; c++) {
        for (int row = 0; row < s->out_height; row++) {
            const int top = row * s->stride_height - s->padding_height;
            for (int column = 0; column < s->out_width; column++) {
                const int left = column * s->stride_width - s->padding_width;
                float largest = LBNN_LOWEST;
                float nothing = 0.0f;
                for (int i = 0; i < s->kernel_height; i++) {
                    const int y = top + i * s->dilation_height;
                    for (int j = 0; y >= 0 && y < s->in_height && j < s->kernel_width; j++) {
                        const int x = left + j * s->dilation_width;
                        if (x >= 0 && x < s->in_width) {
                            const float value = in[y * s->in_width + x];
                            largest = value > largest ? value : largest;
                            nothing += 0.0f * value;
                        }
                    }
                }
                *out++ = largest + nothing;
            }
        }
        in += s->in_height * s->in_width;
    }
}

/* The moments that the tournament gives for each window. */
LBNN_KERNEL void lbnn_max_pool(const float *in_mean, const float *in_var, float *out_mean, float *out_var,
                               const lbnn_max_pool_shape *s)
{
    if (!LBNN_VARIANCE) {
        lbnn_max_pool_point(in_mean, out_mean, s);
        return;
    }
    const lbnn_tail_odd odd = lbnn_tail_prepare();
    const int plane = s->in_height * s->in_width;
    for (int c = 0; c < s->channels; c++) {
        for (int row = 0; row < s->out_height; row++) {
            for (int column = 0; column < s->out_width; column += LBNN_LANES) {
                const int n = s->out_width - column;
                const lbnn_moments won =
                    lbnn_window_largest(in_mean + c * plane, in_var + c * plane, s, row, column, n, odd);
                lbnn_lanes_store(out_mean + column, won.mean, n);
                lbnn_lanes_store(out_var + column, won.var, n);
            }
            out_mean += s->out_width;
            out_var += s->out_width;
        }
    }
}

/* The same for windows of 2x2 that do not overlap. */
LBNN_KERNEL void lbnn_max_pool_2x2_point(const float *in, float *out, const lbnn_max_pool_shape *s)
{
    LBNN_ROUND_PRODUCTS
    for (int c = 0; c < s->channels; c++) {
        for (int row = 0; row < s->out_height; row++) {
            const float *upper = in + 2 * row * s->in_width;
            const float *lower = upper + s->in_width;
            for (int column = 0; column < s->out_width; column++) {
                const float above = upper[0] > upper[1] ? upper[0] : upper[1];
                const float below = lower[0] > lower[1] ? lower[0] : lower[1];
                const float nothing = 0.0f * upper[0] + 0.0f * upper[1] + 0.0f * lower[0] + 0.0f * lower[1];
                *out++ = (above > below ? above : below) + nothing;
                upper += 2;
                lower += 2;
            }
        }
        in += s->in_height * s->in_width;
    }
}

/* Two elements beside each other, of `n` windows in lanes. */
LBNN_INLINE lbnn_moments lbnn_pair_largest(const float *mean, const float *var, int n, lbnn_tail_odd c)
{
    lbnn_moments one, other;
    one.mean = lbnn_lanes_apart(mean, 2, n);
    one.var = lbnn_lanes_apart(var, 2, n);
    other.mean = lbnn_lanes_apart(mean + 1, 2, n);
    other.var = lbnn_lanes_apart(var + 1, 2, n);
    return lbnn_larger(one, other, c);
}

LBNN_KERNEL void lbnn_max_pool_2x2(const float *in_mean, const float *in_var, float *out_mean, float *out_var,
                                   const lbnn_max_pool_shape *s)
{
    if (!LBNN_VARIANCE) {
        lbnn_max_pool_2x2_point(in_mean, out_mean, s);
        return;
    }
#ifdef LBNN_OPTIMIZE_SIZE /* one copy of the formula in place of three */
    lbnn_max_pool(in_mean, in_var, out_mean, out_var, s);
#else
    const lbnn_tail_odd odd = lbnn_tail_prepare();
    for (int c = 0; c < s->channels; c++) {
        for (int row = 0; row < s->out_height; row++) {
            const float *mean = in_mean + (c * s->in_height + 2 * row) * s->in_width;
            const float *var = in_var + (c * s->in_height + 2 * row) * s->in_width;
            for (int column = 0; column < s->out_width; column += LBNN_LANES) {
                const int n = s->out_width - column;
                const int lower = s->in_width + 2 * column;
                const lbnn_moments above = lbnn_pair_largest(mean + 2 * column, var + 2 * column, n, odd);
                const lbnn_moments below = lbnn_pair_largest(mean + lower, var + lower, n, odd);
                const lbnn_moments won = lbnn_larger(above, below, odd);
                lbnn_lanes_store(out_mean + column, won.mean, n);
                lbnn_lanes_store(out_var + column, won.var, n);
            }
            out_mean += s->out_width;
            out_var += s->out_width;
        }
    }
#endif
}

#endif
