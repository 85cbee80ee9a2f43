/* lbnn_int_pool.h: average pooling in integers.
 *
 *     lbnn_int_pool(shape, mean, sigma, from, out, out_sigma, to, work)        a map -> a map
 *
 *     E' = sum(E) / n,  V' = sum(V) / n^2, or (sum(sigma) / n)^2 where pixels rise and fall together
 */
#ifndef LBNN_INT_POOL_H
#define LBNN_INT_POOL_H

#include "lbnn_int_map.h"

/* A pool. 1/n = inverse[n - 1] 2^(-15 - bits of n - 1). */
typedef struct {
    const uint16_t *inverse;
    int32_t channels;
    int32_t height;
    int32_t width;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel_height;
    int32_t kernel_width;
    int32_t stride_height;
    int32_t stride_width;
    int32_t top;
    int32_t left;
    int32_t count_include_pad;
    int32_t correlated;
    int32_t mean_bits;
    int32_t sigma_bits;
} lbnn_int_pool_shape;

/* The pixels of one window: the place of the first mantissa, and how far the next column and the next row are, in
 * mantissas; `room` are the bits of their largest number less one. */
typedef struct {
    const int32_t *mean;
    const int32_t *sigma;
    const lbnn_int_scale *from;
    int place;
    int rows;
    int columns;
    int next;
    int down;
    int32_t room;
    int correlated;
} lbnn_int_taps;

/* Sums of one channel over a window: of means, and of ((sigma^2 - 1) >> even) or, correlated, of sigma - 1. */
typedef struct {
    int32_t mean;
    int32_t spread;
} lbnn_int_tap_sums;

LBNN_INLINE lbnn_int_tap_sums lbnn_int_sum_taps(const lbnn_int_taps *taps, int place, int32_t even, int correlated)
{
    const int32_t *const mean = taps->mean, *const sigma = taps->sigma;
    const int next = taps->next;
    lbnn_int_tap_sums sums = {0, 0};
    for (int y = taps->rows; y > 0; y--, place += taps->down) {
        int at = place, x = taps->columns;
        do {
            const int32_t s = lbnn_int_at(sigma, at);
            sums.mean += lbnn_int_at(mean, at);
            sums.spread += correlated ? s - 1 : (s * s - 1) >> even;
            at += next;
        } while (--x);
    }
    return sums;
}

/* The wide results of a window whose sums are times 1/n = m 2^(-15 - step). */
LBNN_KERNEL LBNN_FAST void lbnn_int_pool_window(const lbnn_int_taps *taps, int32_t m, int32_t step, int channels,
                                      int32_t *out, int32_t *var, lbnn_int_scale *to)
{
    const int32_t room = taps->room, even = room & ~1;
    const int correlated = LBNN_INT_HAS_CORRELATED && taps->correlated;
    int32_t largest = 0, widest = 0;
    for (int i = 0; i < channels; i++) {
        const lbnn_int_tap_sums sums = correlated ? lbnn_int_sum_taps(taps, taps->place + i, even, 1)
                                                  : lbnn_int_sum_taps(taps, taps->place + i, even, 0);
        int32_t spread = sums.spread + taps->rows * taps->columns;
        if (correlated) {
            spread = lbnn_int_up(spread, room);
            spread *= spread;
        }
        const int32_t e = lbnn_int_times(sums.mean * (1 << (15 - room)), LBNN_AS(uint32_t, m));
        const int32_t v = spread > 0 ? lbnn_int_share(lbnn_int_share(spread, m) + 1, m) + 1 : 0;
        out[i] = e;
        var[i] = v;
        largest = lbnn_int_larger(largest, lbnn_int_size(e));
        widest |= v;
    }
    to->largest = largest;
    to->widest = widest;
    to->mean = taps->from->mean - 14 + room - step;
    to->var = 2 * taps->from->var + (correlated ? 2 * room : even) + 2 - 2 * step;
}

/* Elements that a window counts along one axis: what lies inside, or also the declared padding. */
LBNN_INLINE int32_t lbnn_int_counted(int32_t start, int32_t kernel, int32_t size, int32_t padding)
{
    return lbnn_int_smaller(start + kernel, size + padding) - lbnn_int_larger(start, -padding);
}

/* `work` has 2 words a channel and one for each pixel of the result. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_pool(const lbnn_int_pool_shape *shape, const int32_t *mean, const int32_t *sigma,
                               const lbnn_int_scale *from, int32_t *out, int32_t *out_sigma, lbnn_int_scale *to,
                               int32_t *work)
{
    const int n = shape->channels, kernel = shape->kernel_height * shape->kernel_width;
    const int count = shape->out_height * shape->out_width;
    int32_t *const var = work + n, *const exponents = var + n;
    const int32_t top = shape->count_include_pad ? shape->top : 0, left = shape->count_include_pad ? shape->left : 0;
    lbnn_int_taps taps = {mean, sigma, from, 0, 0, 0, n, shape->width * n, lbnn_int_bits(LBNN_AS(uint32_t, kernel - 1)),
                          shape->correlated};
    for (int pixel = 0; pixel < count; pixel++) {
        const int32_t y = (pixel / shape->out_width) * shape->stride_height - shape->top;
        const int32_t x = (pixel % shape->out_width) * shape->stride_width - shape->left;
        const int32_t first = lbnn_int_larger(y, 0), column = lbnn_int_larger(x, 0);
        const int32_t counted = lbnn_int_counted(y, shape->kernel_height, shape->height, top)
                              * lbnn_int_counted(x, shape->kernel_width, shape->width, left);
        lbnn_int_scale wide;
        taps.place = (first * shape->width + column) * n;
        taps.rows = lbnn_int_smaller(y + shape->kernel_height, shape->height) - first;
        taps.columns = lbnn_int_smaller(x + shape->kernel_width, shape->width) - column;
        lbnn_int_pool_window(&taps, shape->inverse[counted - 1], lbnn_int_bits(LBNN_AS(uint32_t, counted - 1)), n,
                             work, var, &wide);
        exponents[pixel] = lbnn_int_settle(work, var, &wide, out, out_sigma, pixel * n, n, shape->mean_bits,
                                           shape->sigma_bits, 0);
    }
    lbnn_int_level(out, out_sigma, exponents, to, count, n, count * n);
}

#endif
