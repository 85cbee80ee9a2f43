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
    int inputs;  /* channels that a group takes */
    int outputs; /* and gives */
    int whole;   /* whether mantissas of a pixel can be moved by words */
} lbnn_int_given;

/* The bits of all sums of a pixel: of squares, of rows for the variances of weights; and the last of these. */
typedef struct {
    int32_t squares;
    int32_t rows;
    int32_t shared;
} lbnn_int_bits_of;

/* p = c sqrt(E^2 + V) of every element, to nearest but at least 1, in 16 bits; the exponent is that of ((u p) >> 8)^2. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_roots_map(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape, const int32_t *mean,
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
            const int32_t e = lbnn_int_at(mean, i), s = known ? 0 : lbnn_int_at(sigma, i);
            const int32_t total = lbnn_int_up_twice(e * e, 2, by_square) + lbnn_int_up(s * s, by_var);
            most = lbnn_int_larger(most, total);
            if (pass) {
                int32_t p = 0;
                if (total) {
                    const lbnn_int_root r = lbnn_int_sqrt(total << lift);
                    const uint32_t product = LBNN_AS(uint32_t, r.sigma) * layer->columns[channel];
                    p = lbnn_int_larger((((LBNN_AS(int32_t, product) >> (30 - layer->free_bits)) >> r.half) + 1) >> 1, 1);
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

/* Where a window lies: its corner; the rows and columns of the kernel that are inside of the map. */
typedef struct {
    int y;
    int x;
    int top;
    int bottom;
    int left;
    int right;
} lbnn_int_corner;

/* How many of `most` places, `step` apart from `at` on, lie before `end`. */
LBNN_INLINE int lbnn_int_before(int at, int end, int step, int most)
{
    if (at >= end) {
        return 0;
    }
    return lbnn_int_smaller(step == 1 ? end - at : (end - at + step - 1) / step, most);
}

/* n words, or zeros, an even number at once. */
LBNN_INLINE int32_t *lbnn_int_copy(int32_t *to, const int32_t *from, int n)
{
    if (n & 1) {
        *to++ = *from++;
    }
    for (int32_t *const end = to + (n & ~1); to < end; to += 2, from += 2) {
        const int32_t first = from[0], second = from[1];
        to[0] = first;
        to[1] = second;
    }
    return to;
}

LBNN_INLINE int32_t *lbnn_int_clear(int32_t *to, int n)
{
    for (; n > 0; n--) {
        LBNN_HOLD(to);
        *to++ = 0;
    }
    return to;
}

/* Rows of a window by words, `count` of them a pixel: what is left of the map, inside, and right of it. */
LBNN_INLINE void lbnn_int_rows_of_words(const lbnn_int_conv_shape *shape, const lbnn_int_corner *corner,
                                        const int32_t *from, int count, int32_t *to)
{
    const int step = shape->dilation_width, wide = shape->channels >> 1, inside = corner->right - corner->left;
    const int left = corner->left * count, right = (shape->kernel_width - corner->right) * count;
    const int down = shape->dilation_height * shape->width * wide;
    from += (corner->x + corner->left * step) * wide;
    for (int i = corner->top; i < corner->bottom; i++, from += down) {
        to = lbnn_int_clear(to, left);
        if (step == 1 && wide == count) {
            to = lbnn_int_copy(to, from, inside * count);
        } else {
            for (int j = 0; j < inside; j++) {
                to = lbnn_int_copy(to, from + j * step * wide, count);
            }
        }
        to = lbnn_int_clear(to, right);
    }
}

/* n mantissas from place `from` of a map to place `at` of a window, or zeros there. */
LBNN_INLINE int lbnn_int_copy_halves(int32_t *window, int at, const int32_t *map, int from, int n)
{
    for (const int end = at + n; at < end; at++, from++) {
        lbnn_int_set(window, at, lbnn_int_at(map, from));
    }
    return at;
}

LBNN_INLINE int lbnn_int_clear_halves(int32_t *window, int at, int n)
{
    for (; n > 0; n--, at++) {
        lbnn_int_set(window, at, 0);
    }
    return at;
}

/* Rows of a window by halves of words; rows above the map are zeros. */
LBNN_INLINE int lbnn_int_rows_of_halves(const lbnn_int_conv_shape *shape, const lbnn_int_corner *corner,
                                        const int32_t *map, int place, int count, int32_t *window)
{
    const int step = shape->dilation_width * shape->channels, inside = corner->right - corner->left;
    const int left = corner->left * count, right = (shape->kernel_width - corner->right) * count;
    const int down = shape->dilation_height * shape->width * shape->channels;
    int at = 0, y = corner->y + corner->top * shape->dilation_height;
    place += (corner->x + corner->left * shape->dilation_width) * shape->channels;
    for (int i = corner->top; i < corner->bottom; i++, place += down, y += shape->dilation_height) {
        if (y < 0) {
            at = lbnn_int_clear_halves(window, at, shape->kernel_width * count);
            continue;
        }
        at = lbnn_int_clear_halves(window, at, left);
        if (step == count) {
            at = lbnn_int_copy_halves(window, at, map, place, inside * count);
        } else {
            for (int j = 0; j < inside; j++) {
                at = lbnn_int_copy_halves(window, at, map, place + j * step, count);
            }
        }
        at = lbnn_int_clear_halves(window, at, right);
    }
    return at;
}

/* `count` channels from `first` on of the window's rows from the first that is inside to the last, beside each other;
 * zeros where it is outside of the map. */
LBNN_KERNEL LBNN_FAST void lbnn_int_window(const lbnn_int_conv_shape *shape, const lbnn_int_corner *corner, const int32_t *map,
                                   int first, int count, int whole, int32_t *window)
{
    const int y = corner->y + corner->top * shape->dilation_height;
    const int place = y * shape->width * shape->channels + first;
    window[0] = 0;
    if (whole) {
        lbnn_int_rows_of_words(shape, corner, map + (place >> 1), count >> 1, window);
    } else {
        const int at = lbnn_int_rows_of_halves(shape, corner, map, place, count, window);
        if (at & 1) {
            lbnn_int_set(window, at, 0);
        }
    }
}

/* 1 + sum(((u p + 128) >> 8)^2) of `rows` rows, the first n of `whole` weights, two rows at a time; gives the bits of
 * all. */
LBNN_KERNEL LBNN_FAST int32_t lbnn_int_free_rows(const uint8_t *u, const int32_t *p, int whole, int n, int rows, int32_t *sums)
{
    int32_t any = 0;
    for (; rows > 0; rows -= 2, u += 2 * whole) {
        const uint8_t *even = u, *odd = rows > 1 ? u + whole : u; /* the last row alone is added up twice */
        int32_t sum = 1, other = 1, half = 128;
        LBNN_HOLD(half);
        for (int i = 0; i < n; i++) {
            const int32_t x = lbnn_int_at(p, i);
            int32_t t = (*even++ * x + half) >> 8;
            sum += t * t;
            t = (*odd++ * x + half) >> 8;
            other += t * t;
        }
        any |= sum | other;
        *sums++ = sum;
        if (rows > 1) {
            *sums++ = other;
        }
    }
    return any;
}

/* sum(beta^2 (E^2 + V)) of a window, each product moved right by `fold`; without what is added for each input. `beta` are
 * squares, or null where all are 1. */
LBNN_KERNEL LBNN_FAST int32_t lbnn_int_window_shared(const int32_t *mean, const int32_t *sigma, const uint16_t *beta, int n,
                                             int32_t by_square, int32_t by_var, int32_t fold)
{
    int32_t sum = 0;
    if (!beta) {
        for (int i = 0; i < n; i++) {
            const int32_t e = lbnn_int_at(mean, i), s = lbnn_int_at(sigma, i);
            sum += (((e * e) >> by_square) + ((s * s) >> by_var)) >> fold;
        }
        return sum;
    }
    for (int i = 0; i < n; i++) {
        const int32_t e = lbnn_int_at(mean, i), s = lbnn_int_at(sigma, i), b = beta[i];
        const int32_t square = ((e * e) >> by_square) + ((s * s) >> by_var);
        sum += lbnn_int_share(square, b) >> fold;
    }
    return sum;
}

/* sum(e w) and, where there are sigmas, 1 + sum(((s w) >> bits)^2) of all rows, of which weights `first` to
 * `first + words` meet the window, in words of two; a row has `whole`. Gives the bits of all squares. */
LBNN_KERNEL LBNN_FAST int32_t lbnn_int8_sums(const int8_t *w, int rows, int whole, int first, int words, const int32_t *mean,
                                     const int32_t *sigma, int32_t *sum, int32_t *square)
{
    int32_t any = 0;
    for (; rows > 1; rows -= 2, sum += 2, square += 2, w += 4 * whole) {
        any |= lbnn_int8_pair(w + 4 * first, mean, sigma, words, sum, square);
    }
    if (rows) {
        *square = lbnn_int8_row(w + 2 * first, mean, sigma, words, sum);
        any |= *square;
    }
    return any;
}

LBNN_KERNEL LBNN_FAST int32_t lbnn_int16_sums(const int16_t *w, int rows, int whole, int first, int words, const int32_t *mean,
                                      const int32_t *sigma, int32_t *sum, int32_t *square)
{
    int32_t any = 0;
    w += 2 * first;
    for (int n = 0; n < rows; n++, w += 2 * whole) {
        square[n] = sigma ? lbnn_int16_row(w, mean, sigma, words, sum + n) : lbnn_int16_row(w, mean, 0, words, sum + n);
        any |= square[n];
    }
    return any;
}

/* The sums of one group of a pixel; the bits of squares, and of the sums for the variances of weights. Weights of rows
 * that are outside are left out, if those that are inside begin with a word. */
LBNN_INLINE void lbnn_int_conv_group(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                     const lbnn_int_given *given, const lbnn_int_pixel *pixel,
                                     const lbnn_int_corner *corner, int group, lbnn_int_bits_of *any, int bits)
{
    const int inputs = given->inputs, outputs = given->outputs;
    const int row = shape->kernel_width * inputs, length = (corner->bottom - corner->top) * row;
    const int ahead = corner->top * row;
    const int whole = (layer->in_len + 1) >> 1, words = length ? (length + 1) >> 1 : 1, from = group * outputs;
    lbnn_int_window(shape, corner, given->mean, group * inputs, inputs, given->whole, pixel->mean);
    if (given->sigma) {
        lbnn_int_window(shape, corner, given->sigma, group * inputs, inputs, given->whole, pixel->sigma);
    }
    const int32_t *const sigma = given->sigma ? pixel->sigma : given->sigma;
    if (bits == 8) {
        any->squares |= lbnn_int8_sums(layer->weight8 + 2 * whole * from, outputs, whole, ahead >> 1, words, pixel->mean,
                                       sigma, pixel->sum + from, pixel->var + from);
    } else {
        any->squares |= lbnn_int16_sums(layer->weight16 + 2 * whole * from, outputs, whole, ahead >> 1, words, pixel->mean,
                                        sigma, pixel->sum + from, pixel->var + from);
    }
    if (given->roots) {
        lbnn_int_window(shape, corner, given->roots, group * inputs, inputs, given->whole, pixel->roots);
        any->rows |= lbnn_int_free_rows(layer->free + layer->in_len * from + ahead, pixel->roots, layer->in_len, length,
                                        outputs, pixel->rows + from);
    } else if (given->shares) {
        const uint16_t *beta = layer->columns ? layer->columns + group * layer->in_len + ahead : layer->columns;
        const int32_t sum = lbnn_int_window_shared(pixel->mean, sigma ? sigma : pixel->mean, beta, length,
                                                   given->by_square, given->by_var, layer->fold) + 2 * layer->in_len;
        any->rows |= sum;
        any->shared = sum;
        for (int i = 0; i < outputs && shape->groups > 1; i++) {
            pixel->rows[from + i] = sum;
        }
    }
}

/* The corner of a window. Rows above the map are taken too, in zeros, where those inside would not begin with a word. */
LBNN_INLINE lbnn_int_corner lbnn_int_corner_at(const lbnn_int_conv_shape *shape, int y, int x, int count)
{
    lbnn_int_corner corner = {y, x, 0, 0, 0, 0};
    corner.top = lbnn_int_before(y, 0, shape->dilation_height, shape->kernel_height);
    corner.bottom = lbnn_int_before(y, shape->height, shape->dilation_height, shape->kernel_height);
    corner.left = lbnn_int_before(x, 0, shape->dilation_width, shape->kernel_width);
    corner.right = lbnn_int_before(x, shape->width, shape->dilation_width, shape->kernel_width);
    if ((corner.top * shape->kernel_width * count) & 1) {
        corner.top = 0;
    }
    return corner;
}

/* The wide results of the pixel whose window begins at (y, x). */
LBNN_INLINE void lbnn_int_conv_pixel(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                     const lbnn_int_given *given, const lbnn_int_pixel *pixel, int y, int x,
                                     lbnn_int_scale *wide, int bits)
{
    const lbnn_int_corner corner = lbnn_int_corner_at(shape, y, x, given->inputs);
    lbnn_int_bits_of any = {0, 0, 0};
    for (int group = 0; group < shape->groups; group++) {
        lbnn_int_conv_group(layer, shape, given, pixel, &corner, group, &any, bits);
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
LBNN_INLINE lbnn_int_given lbnn_int_given_of(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                             const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *from,
                                             const lbnn_int_spread *spread)
{
    const int inputs = shape->channels / shape->groups;
    const int32_t top = lbnn_int_larger(from->mean, from->var);
    lbnn_int_given given = {mean, from->var == LBNN_INT_NONE ? 0 : sigma, 0, from, 0, 0, 0, spread->exponent,
                            inputs, layer->out_len / shape->groups, !((shape->channels | inputs) & 1)};
    if (layer->free) {
        given.roots = spread->exponent == LBNN_INT_NONE ? 0 : spread->sums;
    } else if (layer->spread_exponent != LBNN_INT_NONE && top != LBNN_INT_NONE) {
        given.shares = 1;
        given.by_square = lbnn_int_apart(2 * top, 2 * from->mean);
        given.by_var = lbnn_int_apart(2 * top, 2 * from->var);
        given.exponent = 2 * top + layer->column_exponent + layer->fold;
    }
    return given;
}

/* All pixels. `work` is what lbnn/exporters/c/int_memory.py says: sums, windows, exponents, and pixels of a pool. */
LBNN_INLINE void lbnn_int_conv(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape, const int32_t *mean,
                               const int32_t *sigma, const lbnn_int_scale *from, const lbnn_int_spread *spread,
                               int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int32_t *work, int bits)
{
    const int n = layer->out_len, words = (layer->in_len + 1) >> 1, half = (n + 1) >> 1;
    const int count = shape->out_height * shape->out_width, taps = shape->pool_height * shape->pool_width;
    const lbnn_int_given given = lbnn_int_given_of(layer, shape, mean, sigma, from, spread);
    int32_t *const window = work + 2 * n, *const exponents = window + 2 * words;
    int32_t *const spare = exponents + count, *const tap_sigma = spare + taps * half;
    int32_t *const tap_exponents = tap_sigma + taps * half, *const places = tap_exponents + taps;
    int32_t *const roots = taps > 1 ? places + taps : tap_exponents;
    const lbnn_int_pixel pixel = {work, work + n, roots + words, window, window + words, roots};
    const int step = shape->stride_height * shape->pool_height, next = shape->stride_width * shape->pool_width;
    const int right = next * shape->out_width - shape->left;
    lbnn_int_scale wide;
    for (int i = 0, y = -shape->top, x = -shape->left; i < count; i++, x += next) {
        if (x >= right) {
            x = -shape->left;
            y += step;
        }
        for (int k = 0, down = 0, across = 0; k < taps; k++, across++) {
            if (across == shape->pool_width) {
                across = 0;
                down++;
            }
            lbnn_int_conv_pixel(layer, shape, &given, &pixel, y + down * shape->stride_height,
                                x + across * shape->stride_width, &wide, bits);
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

LBNN_KERNEL LBNN_SMALL void lbnn_int8_conv(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape, const int32_t *mean,
                                const int32_t *sigma, const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int32_t *work)
{
    lbnn_int_conv(layer, shape, mean, sigma, from, spread, out, out_sigma, to, work, 8);
}

LBNN_KERNEL LBNN_SMALL void lbnn_int16_conv(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape, const int32_t *mean,
                                 const int32_t *sigma, const lbnn_int_scale *from, const lbnn_int_spread *spread,
                                 int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int32_t *work)
{
    lbnn_int_conv(layer, shape, mean, sigma, from, spread, out, out_sigma, to, work, 12);
}

#endif
