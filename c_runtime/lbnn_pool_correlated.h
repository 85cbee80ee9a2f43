/* lbnn_pool_correlated.h: average pooling of elements that rise and fall together.
 *
 *     lbnn_avg_pool_correlated(in_mean, in_var, out_mean, out_var, &shape)     shape as in lbnn_pool.h
 *
 * Outputs of a convolution share its weights; one random number that moves them all gives the standard deviation of their
 * mean as the mean of theirs. Geometry, ceil mode and in place as in lbnn_pool.h.
 */
#ifndef LBNN_POOL_CORRELATED_H
#define LBNN_POOL_CORRELATED_H

#include "lbnn_pool.h"

/* The sum of roots over a window, row after row, in parts of LBNN_FOLD elements. */
LBNN_INLINE float lbnn_window_sigmas(const float *in, int width, lbnn_window y, lbnn_window x)
{
    float sum = 0.0f;
    float part = 0.0f;
    int rest = LBNN_FOLD;
    for (int row = y.first; row < y.last; row++) {
        const float *from = in + row * width;
        for (int i = x.first; i < x.last; i++) {
            part += lbnn_sqrtf(from[i]);
            if (--rest == 0) {
                sum += part;
                part = 0.0f;
                rest = LBNN_FOLD;
            }
        }
    }
    return sum + part;
}

/* V' = (sum(sigma) / n)^2, n the divisor of that window */
LBNN_DEFAULT_KERNEL void lbnn_pool_sigmas(const float *in, float *out, const lbnn_pool_shape *s)
{
    for (int c = s->channels;;) {
        for (int row = 0; row < s->out_height; row++) {
            const lbnn_window y = lbnn_window_of(row, s->kernel_height, s->stride_height, s->padding_height,
                                                 s->in_height, s->count_include_pad);
            for (int column = 0; column < s->out_width; column++) {
                const lbnn_window x = lbnn_window_of(column, s->kernel_width, s->stride_width,
                                                     s->padding_width, s->in_width, s->count_include_pad);
                const int count = y.size * x.size;
                const float sigma = lbnn_window_sigmas(in, s->in_width, y, x) / LBNN_AS(float, count);
                *out++ = sigma * sigma;
            }
        }
        if (--c == 0) {
            break;
        }
        in += s->in_height * s->in_width;
        out += s->out_gap;
    }
}

/* E' = sum(E) / n;  V' = (sum(sigma) / n)^2, n the divisor of that window */
LBNN_KERNEL void lbnn_avg_pool_correlated(const float *in_mean, const float *in_var, float *out_mean, float *out_var,
                                          const lbnn_pool_shape *shape)
{
    lbnn_pool_planes(in_mean, out_mean, shape, 0);
    if (LBNN_VARIANCE) {
        lbnn_pool_sigmas(in_var, out_var, shape);
    }
}

#endif
