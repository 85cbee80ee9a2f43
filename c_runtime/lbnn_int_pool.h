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

/* Pixels of one window: where the mantissas of each begin, in elements, and its exponents; `room` are the bits of their
 * largest number less one. */
typedef struct {
    const int32_t *mean;
    const int32_t *sigma;
    const int32_t *places;
    const int32_t *exponents;
    int exponent_step;
    int count;
    int32_t room;
    int correlated;
} lbnn_int_taps;

/* Adds the pixel at `place` to sums: its means, and its sigmas or variances, moved right; sigmas and variances less one,
 * for the sums begin with their number. */
LBNN_INLINE void lbnn_int_pool_tap(const lbnn_int_taps *taps, int place, int32_t by, int32_t widely, int n,
                                   int32_t *sum, int32_t *spread)
{
    const int32_t *const mean = taps->mean, *const sigma = taps->sigma;
    const uint32_t one = 1u << (15 - taps->room);
    const int correlated = taps->correlated;
    const int32_t move = lbnn_int_smaller(correlated ? widely : (taps->room & ~1) + lbnn_int_smaller(2 * widely, 31), 31);
    for (const int end = place + n; place < end; place++) {
        const int32_t s = lbnn_int_at(sigma, place);
        *sum++ += LBNN_AS(int32_t, LBNN_AS(uint32_t, lbnn_int_at(mean, place)) * one) >> by;
        *spread++ += ((correlated ? s : s * s) - 1) >> move;
    }
}

/* The wide results of a window whose sums are times 1/n = m 2^(-15 - step). */
LBNN_KERNEL LBNN_FAST void lbnn_int_pool_window(const lbnn_int_taps *taps, uint32_t m, int32_t step, int channels,
                                      int32_t *out, int32_t *var, lbnn_int_scale *to)
{
    int32_t top = -32768, wide = -32768;
    for (int k = 0; k < taps->count; k++) {
        const int32_t own = taps->exponents[k * taps->exponent_step];
        top = lbnn_int_larger(top, lbnn_int_first(own));
        wide = lbnn_int_larger(wide, lbnn_int_second(own));
    }
    for (int i = 0; i < channels; i++) {
        out[i] = 0;
        var[i] = taps->count;
    }
    for (int k = 0; k < taps->count; k++) {
        const int32_t own = taps->exponents[k * taps->exponent_step];
        lbnn_int_pool_tap(taps, taps->places[k], lbnn_int_apart(top, lbnn_int_first(own)), wide - lbnn_int_second(own),
                          channels, out, var);
    }
    const int32_t room = taps->room;
    to->mean = top - 14 + room - step;
    to->var = 2 * wide + (taps->correlated ? 2 * room : room & ~1) + 2 - 2 * step;
    lbnn_int_look(to);
    for (int i = 0; i < channels; i++) {
        int32_t spread = var[i];
        if (taps->correlated) {
            spread = lbnn_int_up(spread, room);
            spread *= spread;
        }
        out[i] = lbnn_int_times(out[i], m);
        var[i] = lbnn_int_times_up(lbnn_int_times_up(spread, m), m);
        lbnn_int_look_at(to, out[i], var[i]);
    }
}

/* Elements that a window counts along one axis: what lies inside, or also the declared padding. */
LBNN_INLINE int32_t lbnn_int_counted(int32_t start, int32_t kernel, int32_t size, int32_t padding)
{
    return lbnn_int_smaller(start + kernel, size + padding) - lbnn_int_larger(start, -padding);
}

/* `work` has 2 words a channel, a word for each tap and each pixel of the result, and 2 half words a channel behind. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_pool(const lbnn_int_pool_shape *shape, const int32_t *mean, const int32_t *sigma,
                               const lbnn_int_scale *from, int32_t *out, int32_t *out_sigma, lbnn_int_scale *to,
                               int32_t *work)
{
    const int n = shape->channels, taps = shape->kernel_height * shape->kernel_width;
    const int count = shape->out_height * shape->out_width;
    int32_t *const var = work + n, *const places = var + n, *const exponents = places + taps;
    const int32_t common = lbnn_int_exponents(from);
    const int32_t top = shape->count_include_pad ? shape->top : 0, left = shape->count_include_pad ? shape->left : 0;
    const int32_t room = lbnn_int_bits(LBNN_AS(uint32_t, taps - 1));
    for (int pixel = 0; pixel < count; pixel++) {
        const int32_t y = (pixel / shape->out_width) * shape->stride_height - shape->top;
        const int32_t x = (pixel % shape->out_width) * shape->stride_width - shape->left;
        int inside = 0;
        for (int k = 0; k < taps; k++) {
            const int32_t row = y + k / shape->kernel_width, column = x + k % shape->kernel_width;
            if (row >= 0 && row < shape->height && column >= 0 && column < shape->width) {
                places[inside] = (row * shape->width + column) * n;
                inside++;
            }
        }
        const lbnn_int_taps window = {mean, sigma, places, &common, 0, inside, room, shape->correlated};
        const int32_t counted = lbnn_int_counted(y, shape->kernel_height, shape->height, top)
                              * lbnn_int_counted(x, shape->kernel_width, shape->width, left);
        lbnn_int_scale wide;
        lbnn_int_pool_window(&window, shape->inverse[counted - 1], lbnn_int_bits(LBNN_AS(uint32_t, counted - 1)), n,
                             work, var, &wide);
        exponents[pixel] = lbnn_int_settle(work, var, &wide, out, out_sigma, pixel * n, n, shape->mean_bits,
                                           shape->sigma_bits, 0, exponents + count);
    }
    lbnn_int_level(out, out_sigma, exponents, to, count, n, count * n);
}

#endif
