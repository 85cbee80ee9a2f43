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
    int32_t inputs;  /* channels that a group takes */
    int32_t outputs; /* and gives */
    int32_t pool_height;
    int32_t pool_width;
    int32_t inverse; /* 1/n of the pool, as in lbnn_int_pool.h */
    int32_t correlated;
    int32_t mean_bits;
    int32_t sigma_bits;
} lbnn_int_conv_shape;

/* What a convolution reads, and where it works. The variances of its weights are times of sums over `roots`, where those
 * are free, or of beta^2 (E^2 + V). */
typedef struct {
    const int32_t *mean;
    const int32_t *sigma; /* null where there is no variance */
    const int32_t *roots; /* null where variances are not free */
    int32_t *window;
    int32_t *sigmas;
    int shares;
    lbnn_int_squares by;
    int whole; /* whether mantissas of a pixel can be moved by words */
    int each;  /* whether a row has its own sum for the variances of weights */
} lbnn_int_given;

/* p = c sqrt(E^2 + V) of every element of a map. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_roots_map(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                               const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *from,
                                               int32_t *roots, lbnn_int_spread *spread)
{
    const int n = shape->channels * shape->height * shape->width;
    spread->exponent = lbnn_int_roots_of(layer, mean, sigma, from, roots, n, shape->channels);
    spread->sums = roots;
    spread->shared = 0;
}

LBNN_INLINE int lbnn_int_down(const lbnn_int_conv_shape *shape)
{
    return LBNN_INT_HAS_DILATION ? shape->dilation_height : 1;
}

LBNN_INLINE int lbnn_int_across(const lbnn_int_conv_shape *shape)
{
    return LBNN_INT_HAS_DILATION ? shape->dilation_width : 1;
}

/* Places of a window along one axis: where the first is in the map; those from `first` to `end` are inside. */
typedef struct {
    int at;
    int first;
    int end;
} lbnn_int_span;

LBNN_INLINE lbnn_int_span lbnn_int_span_at(int at, int size, int step, int places)
{
    lbnn_int_span span = {at, 0, places};
    for (; at < 0 && span.first < places; at += step) {
        span.first++;
    }
    for (at = span.at + (places - 1) * step; at >= size && span.end > span.first; at -= step) {
        span.end--;
    }
    return span;
}

/* Whether windows of an even number of channels are copied in words: the code for halves of words would do for all, and
 * that of models with free variances is long enough. */
#if defined(__ARM_ARCH_6M__) && defined(LBNN_INT_NO_WORDS)
#define LBNN_INT_WORDS 0
#else
#define LBNN_INT_WORDS 1
#endif

/* A word; a prover that sees bytes apart is shown those. */
LBNN_INLINE void lbnn_int_move(int32_t *to, const int32_t *from)
{
#if defined(__FRAMAC__)
    lbnn_int_set(to, 0, lbnn_int_at(from, 0));
    lbnn_int_set(to, 1, lbnn_int_at(from, 1));
#else
    *to = *from;
#endif
}

/* n words, or halves of words, from place `from` of a map to place `to` of a window; gives the place behind them. */
LBNN_INLINE int lbnn_int_copy(int32_t *window, int to, const int32_t *map, int from, int n, int whole)
{
    const int end = to + n;
    if (whole) {
        window += to;
        map += from;
        for (; n > 0; n--) {
            lbnn_int_move(window++, map++);
        }
        return end;
    }
    for (; to < end; to++, from++) {
        lbnn_int_set(window, to, lbnn_int_at(map, from));
    }
    return to;
}

/* The same with zeros. */
LBNN_INLINE int lbnn_int_clear(int32_t *window, int to, int n, int whole)
{
    for (const int end = to + n; to < end; to++) {
        LBNN_HOLD(to); /* or the loop becomes a call of memset */
        if (whole) {
            window[to] = 0;
        } else {
            lbnn_int_set(window, to, 0);
        }
    }
    return to;
}

/* The channels of a group, from `first` on, of a window's rows inside of the map, beside each other; zeros where it is
 * outside. All of it in words, or in halves of words. */
LBNN_INLINE void lbnn_int_window_of(const lbnn_int_conv_shape *shape, const lbnn_int_span *rows,
                                    const lbnn_int_span *columns, const int32_t *map, int first, int whole,
                                    int32_t *window)
{
    const int channels = shape->channels >> whole, wide = LBNN_INT_HAS_GROUPS ? shape->inputs >> whole : channels;
    const int step = lbnn_int_across(shape) * channels, inside = columns->end - columns->first;
    const int joined = LBNN_INT_HAS_GROUPS + LBNN_INT_HAS_DILATION == 0 || step == wide;
    const int run = joined ? 1 : inside, length = joined ? inside * wide : wide, line = shape->width * channels;
    const int left = columns->first * wide, right = (shape->kernel_width - columns->end) * wide;
    int y = rows->at + rows->first * lbnn_int_down(shape), to = 0;
    int begin = y * line + (columns->at + columns->first * lbnn_int_across(shape)) * channels + (first >> whole);
    window[0] = 0;
    for (int i = rows->first; i < rows->end; i++, y += lbnn_int_down(shape), begin += lbnn_int_down(shape) * line) {
        if (y < 0) {
            to = lbnn_int_clear(window, to, shape->kernel_width * wide, whole);
            continue;
        }
        to = lbnn_int_clear(window, to, left, whole);
        for (int j = 0, place = begin; j < run; j++, place += step) {
            to = lbnn_int_copy(window, to, map, place, length, whole);
        }
        to = lbnn_int_clear(window, to, right, whole);
    }
    if (!whole && (to & 1)) {
        lbnn_int_set(window, to, 0);
    }
}

LBNN_KERNEL LBNN_FAST void lbnn_int_window(const lbnn_int_conv_shape *shape, const lbnn_int_span *rows,
                                           const lbnn_int_span *columns, const int32_t *map, int first, int whole,
                                           int32_t *window)
{
    if (LBNN_INT_WORDS && whole) {
        lbnn_int_window_of(shape, rows, columns, map, first, 1, window);
    } else {
        lbnn_int_window_of(shape, rows, columns, map, first, 0, window);
    }
}

/* The sums of one group of a pixel. Weights of rows outside of the map are left out, if those that are inside begin with
 * a word. */
LBNN_INLINE void lbnn_int_conv_group(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                     const lbnn_int_given *given, const lbnn_int_span *rows,
                                     const lbnn_int_span *columns, int group, int32_t *sum, int32_t *square,
                                     int32_t *spread, int bits)
{
    const int outputs = LBNN_INT_HAS_GROUPS ? shape->outputs : layer->out_len;
    const int row = shape->kernel_width * shape->inputs;
    const int length = (rows->end - rows->first) * row, ahead = rows->first * row;
    const int whole = (layer->in_len + 1) >> 1, words = length ? (length + 1) >> 1 : 1;
    const int first = group * shape->inputs, from = group * outputs;
    const int32_t *const sigma = given->sigma ? given->sigmas : 0;
    lbnn_int_window(shape, rows, columns, given->mean, first, given->whole, given->window);
    if (sigma) {
        lbnn_int_window(shape, rows, columns, given->sigma, first, given->whole, given->sigmas);
    }
    if (bits == 8) {
        lbnn_int8_sums(layer->weight8 + 2 * whole * from, outputs, whole, ahead >> 1, given->window, sigma, words,
                       sum + from, square + from);
    } else {
        lbnn_int16_sums(layer->weight16 + 2 * whole * from, outputs, whole, ahead >> 1, given->window, sigma, words,
                        sum + from, square + from);
    }
    if (LBNN_INT_HAS_FREE && given->roots) {
        lbnn_int_window(shape, rows, columns, given->roots, first, given->whole, given->window);
        lbnn_int_free_sums(layer->free + 2 * whole * from, outputs, whole, ahead >> 1, given->window, words,
                           spread + from);
    } else if (LBNN_INT_HAS_FACTORS && given->shares) {
        const uint16_t *const beta = layer->columns + 2 * whole * group + ahead;
        const int32_t shared = lbnn_int_shared_sum(layer, &given->by, given->window, sigma, beta, words);
        spread[given->each * from] = shared;
        for (int i = 1; LBNN_INT_HAS_GROUPS && given->each && i < outputs; i++) {
            spread[from + i] = shared;
        }
    }
}

/* The sums of the pixel whose window begins at (y, x). Rows above the map are taken too, in zeros, where those inside
 * would not begin with a word; none of a window that is outside. */
LBNN_INLINE void lbnn_int_conv_pixel(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                     const lbnn_int_given *given, int y, int x, int32_t *sum, int32_t *square,
                                     int32_t *spread, int bits)
{
    const lbnn_int_span columns = lbnn_int_span_at(x, shape->width, lbnn_int_across(shape), shape->kernel_width);
    lbnn_int_span rows = lbnn_int_span_at(y, shape->height, lbnn_int_down(shape), shape->kernel_height);
    if (rows.first & shape->kernel_width & shape->inputs & 1) {
        rows.first = 0;
    }
    if (rows.first >= rows.end || columns.first >= columns.end) {
        rows.first = 0;
        rows.end = 0;
    }
    if (!LBNN_INT_HAS_GROUPS) {
        lbnn_int_conv_group(layer, shape, given, &rows, &columns, 0, sum, square, spread, bits);
        return;
    }
    for (int group = 0; group < shape->groups; group++) {
        lbnn_int_conv_group(layer, shape, given, &rows, &columns, group, sum, square, spread, bits);
    }
}

/* What a convolution reads, and how the variances of its weights are found; their exponent. */
LBNN_INLINE lbnn_int_given lbnn_int_given_of(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                             const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *from,
                                             lbnn_int_spread *spread)
{
    lbnn_int_given given = {mean, from->var == LBNN_INT_NONE ? 0 : sigma, 0, 0, 0, 0, lbnn_int_squares_of(from),
                            LBNN_INT_WORDS && !((shape->channels | shape->inputs) & 1), 0};
    if (LBNN_INT_HAS_FREE && layer->free) {
        given.roots = spread->exponent == LBNN_INT_NONE ? 0 : spread->sums;
    } else if (LBNN_INT_HAS_FACTORS && layer->spread_exponent != LBNN_INT_NONE && given.by.top != LBNN_INT_NONE) {
        given.shares = 1;
        spread->exponent = 2 * (given.by.top + layer->column_exponent + 1);
    }
    given.each = !LBNN_INT_HAS_FACTORS || (LBNN_INT_HAS_FREE && given.roots) || (LBNN_INT_HAS_GROUPS && shape->groups > 1);
    return given;
}

/* All pixels, those of a window of the pool together. `work` is what lbnn/exporters/c/int_memory.py says: sums of pixels,
 * of which the pool's results take the second half, a window, exponents, and sums for the variances of weights. */
LBNN_INLINE void lbnn_int_conv(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape, const int32_t *mean,
                               const int32_t *sigma, const lbnn_int_scale *from, const lbnn_int_spread *roots,
                               int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int32_t *work, int bits)
{
    const int n = layer->out_len, words = (layer->in_len + 1) >> 1;
    const int count = shape->out_height * shape->out_width, taps = shape->pool_height * shape->pool_width;
    const int all = taps * n, pooled = taps > 1 ? (all + 1) >> 1 : 0;
    const int step = shape->stride_height * shape->pool_height, next = shape->stride_width * shape->pool_width;
    const int right = next * shape->out_width - shape->left;
    const int32_t room = lbnn_int_bits(LBNN_AS(uint32_t, taps - 1));
    int32_t *const var = work + all, *const exponents = var + all + 2 * words, *const sums = exponents + count;
    lbnn_int_scale wide;
    lbnn_int_spread spread = *roots;
    lbnn_int_given given = lbnn_int_given_of(layer, shape, mean, sigma, from, &spread);
    const lbnn_int_taps window = {work, var, &wide, 0, 1, taps, n, 0, room, shape->correlated};
    given.window = var + all;
    given.sigmas = given.window + words;
    spread.sums = sums;
    spread.each = given.each;
    const int each = given.each ? n : 1;
    for (int i = 0; i < taps * each && !given.shares && !given.roots; i++) {
        sums[i] = 0;
    }
    for (int i = 0, y = -shape->top, x = -shape->left; i < count; i++, x += next) {
        if (x >= right) {
            x = -shape->left;
            y += step;
        }
        for (int k = 0, own = 0, down = y, across = x; k < all; k += n, own += each, across += shape->stride_width) {
            if (across == x + next) {
                across = x;
                down += shape->stride_height;
            }
            lbnn_int_conv_pixel(layer, shape, &given, down, across, work + k, var + k, sums + own, bits);
        }
        lbnn_int_results(layer, from, &spread, work, var, &wide, bits, taps);
        if (pooled) {
            if (shape->tail) {
                lbnn_int_activate(work, var, &wide, work, var, &wide, all, 15, 14, shape->tail);
            } else {
                lbnn_int_narrow(work, var, &wide, work, var, &wide, all, 15, 14);
            }
            lbnn_int_pool_window(&window, shape->inverse, room, n, work + pooled, var + pooled, &wide);
        }
        exponents[i] = lbnn_int_settle(work + pooled, var + pooled, &wide, out, out_sigma, i * n, n, shape->mean_bits,
                                       shape->sigma_bits, pooled ? 0 : shape->tail);
    }
    lbnn_int_level(out, out_sigma, exponents, to, count, n, count * n);
}

LBNN_KERNEL LBNN_SMALL void lbnn_int8_conv(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                           const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *from,
                                           const lbnn_int_spread *spread, int32_t *out, int32_t *out_sigma,
                                           lbnn_int_scale *to, int32_t *work)
{
    lbnn_int_conv(layer, shape, mean, sigma, from, spread, out, out_sigma, to, work, 8);
}

LBNN_KERNEL LBNN_SMALL void lbnn_int16_conv(const lbnn_int_layer *layer, const lbnn_int_conv_shape *shape,
                                            const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *from,
                                            const lbnn_int_spread *spread, int32_t *out, int32_t *out_sigma,
                                            lbnn_int_scale *to, int32_t *work)
{
    lbnn_int_conv(layer, shape, mean, sigma, from, spread, out, out_sigma, to, work, 12);
}

#endif
