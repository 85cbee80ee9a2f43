/* lbnn_int_conv.h: convolutions in integers, with means of 8 bits, or of 12 in int16_t; a leaky-ReLU and average pooling
 * behind them are computed on the way.
 *
 *     lbnn_int_roots_map(layer, shape, mean, sigma, from, roots, spread)          where variances are free
 *     lbnn_int8_conv(layer, shape, mean, sigma, from, spread, out, out_sigma, to, work)      a map -> a map
 *     lbnn_int16_conv(layer, shape, mean, sigma, from, spread, out, out_sigma, to, work)
 *
 * A pixel is a linear layer (lbnn_int_linear.h) whose inputs are its window: rows of the kernel, its columns, channels.
 * Where variances are free p = c sqrt(S), with c of a channel, is found once for the whole map.
 */
#ifndef LBNN_INT_CONV_H
#define LBNN_INT_CONV_H

#include "lbnn_int_pool.h"

/* Sizes of the map and of the result, behind pooling if there is any; where windows lie. Layers have in_len numbers of
 * a group's window, and out_len channels. */
typedef struct {
    const uint16_t *tail; /* tables of a leaky-ReLU, or null */
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
    int32_t dilation_height;
    int32_t dilation_width;
    int32_t groups;
    int32_t pool_height;
    int32_t pool_width;
    int32_t inverse; /* 1/n of the pool, as in lbnn_int_pool.h */
    int32_t correlated;
    int32_t mean_bits;
    int32_t sigma_bits;
} lbnn_int_conv_shape;

/* The memory of a convolution: sums of a pixel, and of each row for the variances of its weights; its window. */
typedef struct {
    int32_t *sum;
    int32_t *var;
    int32_t *rows;
    int32_t *mean;
    int32_t *sigma;
    int32_t *roots;
} lbnn_int_pixel;

/* What a convolution reads. The variances of its weights are times of sums over `roots`, where those are free, or of
 * beta^2 (E^2 + V); `exponent` is that of such sums. */
typedef struct {
    const int32_t *mean;
    const int32_t *sigma; /* null where there is no variance */
    const int32_t *roots; /* null where variances are not free */
    const lbnn_int_scale *from;
    int shares;
    int32_t by_square;
    int32_t by_var;
    int32_t exponent;
} lbnn_int_given;

/* The bits of all sums of a pixel: of squares, of rows for the variances of weights; and the last of these. */
typedef struct {
    int32_t squares;
    int32_t rows;
    int32_t shared;
} lbnn_int_bits_of;

/* p = c sqrt(E^2 + V) of every element, rounded up, in 16 bits; the exponent is that of ((u p) >> 8)^2. */
LBNN_KERNEL void lbnn_int_roots_map(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape, const int32_t *mean,
                                    const int32_t *sigma, const lbnn_int_scale *from, int32_t *roots,
                                    lbnn_int_spread *spread)
{
    const int n = shape->channels * shape->height * shape->width;
    const int32_t square = 2 * from->mean + 2, var = 2 * from->var, top = lbnn_int_larger(square, var);
    const int32_t by_square = lbnn_int_apart(top, square), by_var = lbnn_int_apart(top, var);
    const int known = from->var == LBNN_INT_NONE;
    int32_t most = 0, lift = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0, channel = 0; i < n; i++) {
            const int32_t e = lbnn_int_get(mean, i), s = known ? 0 : lbnn_int_get(sigma, i);
            const int32_t total = lbnn_int_up_twice(e * e, 2, by_square) + lbnn_int_up(s * s, by_var);
            most = lbnn_int_larger(most, total);
            if (pass) {
                int32_t p = 0;
                if (total) {
                    const lbnn_int_root r = lbnn_int_sqrt(total << lift);
                    const uint32_t product = LBNN_AS(uint32_t, r.sigma) * layer->columns[channel];
                    p = lbnn_int_up(lbnn_int_up(LBNN_AS(int32_t, product), 31 - layer->free_bits), r.half);
                }
                lbnn_int_put(roots, i, p);
            }
            channel = channel + 1 < shape->channels ? channel + 1 : 0;
        }
        lift = lbnn_int_lift(most);
    }
    const int32_t root = ((top - lift) >> 1) + layer->column_exponent + 15 - layer->free_bits;
    spread->sums = roots;
    spread->shared = 0;
    spread->exponent = most ? 2 * root + 16 : LBNN_INT_NONE;
}

/* `count` channels from `first` on of the window at (y, x), beside each other; zeros where it is outside of the map. */
LBNN_KERNEL void lbnn_int_window(const lbnn_int_conv_shape *shape, const int32_t *map, int y, int x, int first, int count,
                                 int32_t *window)
{
    const int whole = !((shape->channels | first | count) & 1);
    int at = 0;
    for (int i = 0; i < shape->kernel_height; i++, y += shape->dilation_height) {
        int column = x;
        for (int j = 0; j < shape->kernel_width; j++, column += shape->dilation_width, at += count) {
            const int inside = y >= 0 && y < shape->height && column >= 0 && column < shape->width;
            const int place = inside ? (y * shape->width + column) * shape->channels + first : 0;
            if (whole) {
                const int32_t *from = map + (place >> 1);
                int32_t *to = window + (at >> 1);
                for (const int32_t *const end = to + (count >> 1); to < end; to++, from++) {
                    *to = inside ? *from : 0;
                }
            } else {
                for (int k = 0; k < count; k++) {
                    lbnn_int_put(window, at + k, inside ? lbnn_int_get(map, place + k) : 0);
                }
            }
        }
    }
}

/* 1 + sum(((u p + 128) >> 8)^2) of `rows` rows of n weights; gives the bits of all. */
LBNN_KERNEL int32_t lbnn_int_free_rows(const uint8_t *u, const int32_t *p, int n, int rows, int32_t *sums)
{
    int32_t any = 0;
    for (int row = 0; row < rows; row++) {
        int32_t sum = 1;
        for (int i = 0; i < n; i++, u++) {
            const int32_t t = (*u * lbnn_int_at(p, i) + 128) >> 8;
            sum += t * t;
        }
        sums[row] = sum;
        any |= sum;
    }
    return any;
}

/* B of a window, as lbnn_int_shared gives it. */
LBNN_KERNEL int32_t lbnn_int_window_shared(const int32_t *mean, const int32_t *sigma, const uint16_t *beta, int n,
                                           int32_t by_square, int32_t by_var, int32_t fold)
{
    int32_t sum = 2 * n;
    for (int i = 0; i < n; i++) {
        const int32_t e = lbnn_int_at(mean, i), s = lbnn_int_at(sigma, i);
        int32_t square = ((e * e) >> by_square) + ((s * s) >> by_var);
        if (beta) {
            square = lbnn_int_share(lbnn_int_share(square, beta[i]), beta[i]);
        }
        sum += square >> fold;
    }
    return sum;
}

/* The sums of one group of a pixel; the bits of squares, and of the sums for the variances of weights. */
LBNN_INLINE void lbnn_int_conv_group(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                     const lbnn_int_given *given, const lbnn_int_pixel *pixel, int y, int x, int group,
                                     lbnn_int_bits_of *any, int bits)
{
    const int inputs = shape->channels / shape->groups, outputs = layer->out_len / shape->groups;
    const int words = (layer->in_len + 1) >> 1, first = group * outputs;
    lbnn_int_window(shape, given->mean, y, x, group * inputs, inputs, pixel->mean);
    if (given->sigma) {
        lbnn_int_window(shape, given->sigma, y, x, group * inputs, inputs, pixel->sigma);
    }
    const int32_t *const sigma = given->sigma ? pixel->sigma : given->sigma;
    if (bits == 8) {
        any->squares |= lbnn_int8_sums(layer->weight8 + 2 * words * first, outputs, words, 0, words, pixel->mean, sigma,
                                       pixel->sum + first, pixel->var + first);
    } else {
        any->squares |= lbnn_int16_sums(layer->weight16 + 2 * words * first, outputs, words, 0, words, pixel->mean, sigma,
                                        pixel->sum + first, pixel->var + first);
    }
    if (given->roots) {
        lbnn_int_window(shape, given->roots, y, x, group * inputs, inputs, pixel->roots);
        any->rows |= lbnn_int_free_rows(layer->free + layer->in_len * first, pixel->roots, layer->in_len, outputs,
                                        pixel->rows + first);
    } else if (given->shares) {
        const uint16_t *beta = layer->columns ? layer->columns + group * layer->in_len : layer->columns;
        const int32_t sum = lbnn_int_window_shared(pixel->mean, sigma ? sigma : pixel->mean, beta, layer->in_len,
                                                   given->by_square, given->by_var, layer->fold);
        any->rows |= sum;
        any->shared = sum;
        for (int i = 0; i < outputs && shape->groups > 1; i++) {
            pixel->rows[first + i] = sum;
        }
    }
}

/* The wide results of the pixel whose window begins at (y, x). */
LBNN_INLINE void lbnn_int_conv_pixel(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                     const lbnn_int_given *given, const lbnn_int_pixel *pixel, int y, int x,
                                     lbnn_int_scale *wide, int bits)
{
    lbnn_int_bits_of any = {0, 0, 0};
    for (int group = 0; group < shape->groups; group++) {
        lbnn_int_conv_group(layer, shape, given, pixel, y, x, group, &any, bits);
    }
    lbnn_int_spread spread = {0, 0, given->exponent};
    if (given->roots || given->shares) {
        const int32_t lift = lbnn_int_room(any.rows);
        spread.exponent -= lift;
        spread.shared = any.shared << lift;
        if (given->roots || shape->groups > 1) {
            spread.sums = pixel->rows;
            for (int i = 0; i < layer->out_len; i++) {
                pixel->rows[i] <<= lift;
            }
        }
    }
    lbnn_int_results(layer, given->from, &spread, pixel->sum, pixel->var, wide, bits, any.squares);
}

/* What a convolution reads, and how the variances of its weights are found. */
LBNN_INLINE lbnn_int_given lbnn_int_given_of(const lbnn_int_layer *layer, const int32_t *mean, const int32_t *sigma,
                                             const lbnn_int_scale *from, const lbnn_int_spread *spread)
{
    const int32_t top = lbnn_int_larger(from->mean, from->var);
    lbnn_int_given given = {mean, from->var == LBNN_INT_NONE ? 0 : sigma, 0, from, 0, 0, 0, spread->exponent};
    if (layer->free) {
        given.roots = spread->exponent == LBNN_INT_NONE ? 0 : spread->sums;
    } else if (layer->spread_exponent != LBNN_INT_NONE && top != LBNN_INT_NONE) {
        given.shares = 1;
        given.by_square = lbnn_int_apart(2 * top, 2 * from->mean);
        given.by_var = lbnn_int_apart(2 * top, 2 * from->var);
        given.exponent = 2 * (top + layer->column_exponent) + layer->fold;
    }
    return given;
}

/* All pixels. `work` is what lbnn/exporters/c/int_conv.py says: sums, windows, exponents, and pixels of a pool. */
LBNN_INLINE void lbnn_int_conv(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape, const int32_t *mean,
                               const int32_t *sigma, const lbnn_int_scale *from, const lbnn_int_spread *spread,
                               int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int32_t *work, int bits)
{
    const int n = layer->out_len, words = (layer->in_len + 1) >> 1, half = (n + 1) >> 1;
    const int count = shape->out_height * shape->out_width, taps = shape->pool_height * shape->pool_width;
    const lbnn_int_given given = lbnn_int_given_of(layer, mean, sigma, from, spread);
    int32_t *const window = work + 2 * n, *const exponents = window + 2 * words;
    int32_t *const spare = exponents + count, *const tap_sigma = spare + taps * half;
    int32_t *const tap_exponents = tap_sigma + taps * half, *const places = tap_exponents + taps;
    int32_t *const roots = taps > 1 ? places + taps : tap_exponents;
    const lbnn_int_pixel pixel = {work, work + n, roots + words, window, window + words, roots};
    lbnn_int_scale wide;
    for (int i = 0; i < count; i++) {
        const int row = i / shape->out_width, column = i % shape->out_width;
        for (int k = 0; k < taps; k++) {
            const int y = row * shape->pool_height + k / shape->pool_width;
            const int x = column * shape->pool_width + k % shape->pool_width;
            lbnn_int_conv_pixel(layer, shape, &given, &pixel, y * shape->stride_height - shape->top,
                                x * shape->stride_width - shape->left, &wide, bits);
            if (taps > 1) {
                lbnn_int_scale own;
                lbnn_int_narrow(pixel.sum, pixel.var, &wide, spare + k * half, tap_sigma + k * half, &own, n, 15, 14,
                                shape->tail);
                tap_exponents[k] = lbnn_int_exponents(&own);
                places[k] = 2 * k * half;
            }
        }
        if (taps > 1) {
            const int32_t room = lbnn_int_bits(LBNN_AS(uint32_t, taps - 1));
            const lbnn_int_taps all = {spare, tap_sigma, places, tap_exponents, 1, taps, room, shape->correlated};
            lbnn_int_pool_window(&all, LBNN_AS(uint32_t, shape->inverse), room, n, pixel.sum, pixel.var, &wide);
        }
        exponents[i] = lbnn_int_settle(pixel.sum, pixel.var, &wide, out, out_sigma, i * n, n, shape->mean_bits,
                                       shape->sigma_bits, taps > 1 ? 0 : shape->tail, spare);
    }
    lbnn_int_level(out, out_sigma, exponents, to, count, n, count * n);
}

LBNN_KERNEL void lbnn_int8_conv(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape, const int32_t *mean,
                                const int32_t *sigma, const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int32_t *work)
{
    lbnn_int_conv(layer, shape, mean, sigma, from, spread, out, out_sigma, to, work, 8);
}

LBNN_KERNEL void lbnn_int16_conv(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape, const int32_t *mean,
                                 const int32_t *sigma, const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                 int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int32_t *work)
{
    lbnn_int_conv(layer, shape, mean, sigma, from, spread, out, out_sigma, to, work, 12);
}

#endif
