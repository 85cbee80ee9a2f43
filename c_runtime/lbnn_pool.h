/* lbnn_pool.h: average pooling on moments and on points.
 *
 *     static const lbnn_pool_shape shape = {channels, in height, width, out height, width,
 *                                           kernel h, w, stride h, w, padding h, w, count_include_pad, out_gap};
 *     lbnn_avg_pool(in_mean, in_var, out_mean, out_var, &shape)
 *     lbnn_avg_pool_point(in, out, &shape)
 *     lbnn_avg_pool_2x2(in_mean, in_var, out_mean, out_var, &shape)       kernel 2, stride 2, padding 0,
 *     lbnn_avg_pool_2x2_point(in, out, &shape)                            not in ceil mode: faster
 *
 * Ceil mode needs no flag: it only makes out height and width larger. In place (out == in, the same
 * offset) is allowed when padding is 0: an output is written at or before the first element of its
 * own window, and no later window reads it. With a gap between the planes of the output, those are rows of a
 * larger map, and the input lies elsewhere.
 */
#ifndef LBNN_POOL_H
#define LBNN_POOL_H

#include "lbnn.h"

typedef struct {
    int channels;
    int in_height, in_width;
    int out_height, out_width;
    int kernel_height, kernel_width;
    int stride_height, stride_width;
    int padding_height, padding_width;
    int count_include_pad; /* 1: padded positions count in the divisor, as in PyTorch's default */
    int out_gap;           /* floats from the end of an output plane to the next one: 0 if it holds all rows */
} lbnn_pool_shape;

/* A window along one axis: positions [first, last) of the input, `size` of them in the divisor. */
typedef struct {
    int first, last, size;
} lbnn_window;

LBNN_INLINE lbnn_window lbnn_window_of(int out, int kernel, int stride, int padding, int in_size, int with_pad)
{
    const int first = out * stride - padding;
    const int last = first + kernel < in_size + padding ? first + kernel : in_size + padding;
    lbnn_window window;
    window.first = first > 0 ? first : 0;
    window.last = last < in_size ? last : in_size;
    window.size = with_pad ? last - first : window.last - window.first;
    return window;
}

/* The sum over a window, row after row, in parts of LBNN_FOLD elements. Whole rows stand behind each other: they are as
 * one. */
LBNN_INLINE float lbnn_window_sum(const float *in, int width, lbnn_window y, lbnn_window x)
{
    if (x.last - x.first == width) {
        in += y.first * width;
        x.last = (y.last - y.first) * width;
        y.first = 0;
        y.last = 1;
    }
    float sum = 0.0f;
    float part = 0.0f;
    int rest = LBNN_FOLD;
    for (int row = y.first; row < y.last; row++) {
        const float *from = in + row * width;
        for (int i = x.first; i < x.last;) {
            const int end = x.last - i < rest ? x.last : i + rest;
            rest -= end - i;
            for (; i < end; i++) {
                part += from[i];
            }
            if (rest == 0) {
                sum += part;
                part = 0.0f;
                rest = LBNN_FOLD;
            }
        }
    }
    return sum + part;
}

/* x' = scale * sum over the window, for all windows of all planes; scale is 1 / n or, if `squared`, 1 / n^2.
 * Means and variances are one call each, so that the code is there once. */
LBNN_DEFAULT_KERNEL void lbnn_pool_planes(const float *in, float *out, const lbnn_pool_shape *s, int squared)
{
    for (int c = s->channels;;) {
        for (int row = 0; row < s->out_height; row++) {
            const lbnn_window y = lbnn_window_of(row, s->kernel_height, s->stride_height, s->padding_height,
                                                 s->in_height, s->count_include_pad);
            for (int column = 0; column < s->out_width; column++) {
                const lbnn_window x = lbnn_window_of(column, s->kernel_width, s->stride_width,
                                                     s->padding_width, s->in_width, s->count_include_pad);
                const int count = y.size * x.size;
                const float scale = 1.0f / LBNN_AS(float, count);
                const float sum = lbnn_window_sum(in, s->in_width, y, x);
                *out++ = squared ? scale * scale * sum : scale * sum;
            }
        }
        if (--c == 0) {
            break;
        }
        in += s->in_height * s->in_width;
        out += s->out_gap;
    }
}

/* The same for windows of 2x2 that do not overlap. */
LBNN_DEFAULT_KERNEL void lbnn_pool_planes_2x2(const float *in, float *out, const lbnn_pool_shape *s, float scale)
{
    for (int c = s->channels;;) {
        for (int row = 0; row < s->out_height; row++) {
            const float *upper = in + 2 * row * s->in_width;
            const float *lower = upper + s->in_width;
            for (const float *const end = out + s->out_width; out != end; upper += 2, lower += 2) {
                *out++ = scale * (upper[0] + upper[1] + lower[0] + lower[1]);
            }
        }
        if (--c == 0) {
            break;
        }
        in += s->in_height * s->in_width;
        out += s->out_gap;
    }
}

/* E' = sum(E) / n;  V' = sum(V) / n^2, n the divisor of that window */
LBNN_KERNEL void lbnn_avg_pool(const float *in_mean, const float *in_var, float *out_mean, float *out_var,
                               const lbnn_pool_shape *shape)
{
    lbnn_pool_planes(in_mean, out_mean, shape, 0);
    if (LBNN_VARIANCE) {
        lbnn_pool_planes(in_var, out_var, shape, 1);
    }
}

/* x' = sum(x) / n */
LBNN_KERNEL void lbnn_avg_pool_point(const float *in, float *out, const lbnn_pool_shape *shape)
{
    lbnn_pool_planes(in, out, shape, 0);
}

/* E' = sum(E) / 4;  V' = sum(V) / 16 */
LBNN_KERNEL void lbnn_avg_pool_2x2(const float *in_mean, const float *in_var, float *out_mean, float *out_var,
                                   const lbnn_pool_shape *shape)
{
    lbnn_pool_planes_2x2(in_mean, out_mean, shape, 0.25f);
    if (LBNN_VARIANCE) {
        lbnn_pool_planes_2x2(in_var, out_var, shape, 0.0625f);
    }
}

/* x' = sum(x) / 4 */
LBNN_KERNEL void lbnn_avg_pool_2x2_point(const float *in, float *out, const lbnn_pool_shape *shape)
{
    lbnn_pool_planes_2x2(in, out, shape, 0.25f);
}

#endif
