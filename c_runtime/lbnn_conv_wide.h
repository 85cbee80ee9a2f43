/* lbnn_conv_wide.h: convolutions in the vector registers of AVX-512 (LBNN_WIDE).
 *
 *     lbnn_wide_conv(kind, in_mean, in_var, w, out_mean, out_var, shape)       groups 1
 *     lbnn_wide_depthwise(...)                                                 one channel in each group
 *
 * Sixteen output pixels, one behind the other, also from row to row, are the columns of lbnn_tile.h: their inputs are put
 * into a tile on the stack once, zeros where a window reaches outside, and all output channels run over it. The
 * sums are those of lbnn_conv_any.h in the same order.
 *
 * The inputs of a tile are read before its outputs are written, and those of a channel before its outputs, as far as
 * LBNN_WIDE_TAPS and LBNN_WIDE_PLANE reach: outputs may lie where inputs do, as lbnn_conv.h says.
 *
 * What it costs beside a vector of eight output channels with four pixels at a time (lbnn_conv_lanes.h): less than
 * half of the time for ResNet-8 on a processor with two units of 512 bits.
 */
#ifndef LBNN_CONV_WIDE_H
#define LBNN_CONV_WIDE_H

#include "lbnn_conv_shape.h"
#include "lbnn_tile.h"

#if defined(LBNN_TILE_BATCH) && defined(__AVX512F__) && !defined(LBNN_OPTIMIZE_SIZE)
#define LBNN_WIDE 1
#include <immintrin.h>

/* Taps of a tile, taps of a window, numbers of a plane that have room on the stack, and planes whose windows have. */
enum { LBNN_WIDE_TAPS = 256, LBNN_WIDE_WINDOW = 64, LBNN_WIDE_PLANE = 4096, LBNN_WIDE_TILES = 16 };

/* LBNN_TILE output pixels: where in a channel their windows begin, whether one behind the other, and of which a tap lies
 * inside. */
typedef struct {
    int32_t first[LBNN_TILE];
    int neighbours;
    uint16_t pixels, inside[LBNN_WIDE_WINDOW];
} lbnn_wide_window;

LBNN_INLINE int lbnn_wide_fits(const lbnn_conv_shape *s)
{
    return s->kernel_height * s->kernel_width <= LBNN_WIDE_WINDOW;
}

LBNN_INLINE void lbnn_wide_look(lbnn_wide_window *window, const lbnn_conv_shape *s, int pixel)
{
    const int rest = s->out_height * s->out_width - pixel;
    int32_t rows[LBNN_TILE], columns[LBNN_TILE];
    int y = pixel / s->out_width, x = pixel % s->out_width;
    window->neighbours = 1;
    for (int i = 0; i < LBNN_TILE; i++) {
        rows[i] = y * s->stride_height - s->padding_height;
        columns[i] = x * s->stride_width - s->padding_width;
        window->first[i] = rows[i] * s->in_width + columns[i];
        window->neighbours &= i >= rest || window->first[i] == window->first[0] + i;
        x++;
        if (x == s->out_width) {
            x = 0;
            y++;
        }
    }
    const unsigned pixels = rest < LBNN_TILE ? (1u << rest) - 1u : 0xffffu;
    const __m512i row = _mm512_loadu_si512(rows), column = _mm512_loadu_si512(columns);
    const __m512i height = _mm512_set1_epi32(s->in_height), width = _mm512_set1_epi32(s->in_width);
    uint16_t *inside = window->inside;
    window->pixels = LBNN_AS(uint16_t, pixels);
    for (int k = 0; k < s->kernel_height; k++) {
        const __m512i at = _mm512_add_epi32(row, _mm512_set1_epi32(k * s->dilation_height));
        const unsigned here = pixels & _mm512_cmplt_epu32_mask(at, height);
        for (int t = 0; t < s->kernel_width; t++) {
            const __m512i tap = _mm512_add_epi32(column, _mm512_set1_epi32(t * s->dilation_width));
            *inside++ = LBNN_AS(uint16_t, here & _mm512_cmplt_epu32_mask(tap, width));
        }
    }
}

/* A tap of all pixels; `at` is that of the first tap of a window that begins at element 0. */
LBNN_INLINE lbnn_column lbnn_wide_take(const float *from, int at, const lbnn_wide_window *window, uint16_t inside)
{
    if (window->neighbours) {
        const uintptr_t place = LBNN_BITS_AS(uintptr_t, from) + LBNN_AS(uintptr_t, at + window->first[0]) * sizeof *from;
        return LBNN_BITS_AS(lbnn_column, _mm512_maskz_loadu_ps(inside, LBNN_BITS_AS(const float *, place)));
    }
    const __m512i places = _mm512_add_epi32(_mm512_loadu_si512(window->first), _mm512_set1_epi32(at));
    return LBNN_BITS_AS(lbnn_column, _mm512_mask_i32gather_ps(_mm512_setzero_ps(), inside, places, from, 4));
}

/* Taps [first, last) of all input channels into a tile. */
LBNN_INLINE void lbnn_wide_fill(int kind, const float *in_mean, const float *in_var, const lbnn_conv_shape *s,
                                const lbnn_wide_window *window, int first, int last, float *mean, float *var)
{
    const int size = s->kernel_height * s->kernel_width;
    int c = first / size, k = first % size / s->kernel_width, t = first % s->kernel_width;
    for (; first < last; first++) {
        const int at = (c * s->in_height + k * s->dilation_height) * s->in_width + t * s->dilation_width;
        const uint16_t inside = window->inside[k * s->kernel_width + t];
        const lbnn_column e = lbnn_wide_take(in_mean, at, window, inside);
        LBNN_MEMCPY(mean, &e, sizeof e);
        mean += LBNN_TILE;
        if (lbnn_is_random(kind)) {
            const lbnn_column v = lbnn_wide_take(in_var, at, window, inside);
            LBNN_MEMCPY(var, &v, sizeof v);
            var += LBNN_TILE;
        }
        t++;
        if (t == s->kernel_width) {
            t = 0;
            k++;
        }
        if (k == s->kernel_height) {
            k = 0;
            c++;
        }
    }
}

/* Outputs of a packed block between the planes and a tile of their own. */
LBNN_INLINE void lbnn_wide_load(const float *from, float *tile, int width, int plane, uint16_t pixels)
{
    for (int o = 0; o < width; o++) {
        _mm512_storeu_ps(tile + LBNN_TILE * o, _mm512_maskz_loadu_ps(pixels, from + o * plane));
    }
}

LBNN_INLINE void lbnn_wide_store(float *to, const float *tile, int width, int plane, uint16_t pixels)
{
    for (int o = 0; o < width; o++) {
        _mm512_mask_storeu_ps(to + o * plane, pixels, _mm512_loadu_ps(tile + LBNN_TILE * o));
    }
}

/* One part of the sums of a tile: all output channels over the inputs in `mean` and `var`. */
LBNN_INLINE void lbnn_wide_part(int kind, const float *mean, const float *var, const lbnn_weight *w, int first, int last,
                                int taps, float *out_mean, float *out_var, int outputs, int plane, uint16_t pixels)
{
    float means[LBNN_PACK * LBNN_TILE], vars[LBNN_PACK * LBNN_TILE];
    for (; outputs > 0; outputs -= LBNN_PACK) {
        const int width = outputs < LBNN_PACK ? outputs : LBNN_PACK;
        if (first > 0) {
            lbnn_wide_load(out_mean, means, width, plane, pixels);
            lbnn_wide_load(out_var, vars, width, plane, pixels);
        }
        lbnn_tile_block(kind, mean, var, w, width, first, last - first, means, vars);
        lbnn_wide_store(out_mean, means, width, plane, pixels);
        if (LBNN_VARIANCE) {
            lbnn_wide_store(out_var, vars, width, plane, pixels);
        }
        w += lbnn_row_at(kind, width, taps);
        out_mean += LBNN_PACK * plane;
        out_var += LBNN_PACK * plane;
    }
}

LBNN_INLINE void lbnn_wide_conv(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
    const int plane = s->out_height * s->out_width;
    const int taps = lbnn_conv_taps(s, s->in_channels);
    const int fold = lbnn_fold(kind);
    const int filled = taps <= LBNN_WIDE_TAPS ? taps : fold; /* at a time */
    float mean[LBNN_WIDE_TAPS * LBNN_TILE], var[LBNN_WIDE_TAPS * LBNN_TILE];
    for (int pixel = 0; pixel < plane; pixel += LBNN_TILE) {
        lbnn_wide_window window;
        lbnn_wide_look(&window, s, pixel);
        for (int from = 0; from < taps; from += filled) {
            const int end = taps - from < filled ? taps : from + filled;
            lbnn_wide_fill(kind, in_mean, in_var, s, &window, from, end, mean, var);
            for (int first = from; first < end; first += fold) {
                const int last = end - first < fold ? end : first + fold;
                const int place = LBNN_TILE * (first - from);
                lbnn_wide_part(kind, mean + place, var + place, w, first, last, taps, out_mean + pixel, out_var + pixel,
                               s->out_channels, plane, window.pixels);
            }
        }
    }
}

/* One tile of one channel with a weight for each tap. */
LBNN_INLINE void lbnn_wide_single(int kind, const float *mean, const float *var, const lbnn_weight *w, float *out_mean,
                                  float *out_var, const lbnn_conv_shape *s, const lbnn_wide_window *window)
{
    LBNN_ROUND_PRODUCTS
    const uint16_t *inside = window->inside;
    lbnn_tile_sum sum = lbnn_tile_bias(w, 1);
    for (int k = 0; k < s->kernel_height; k++) {
        for (int t = 0; t < s->kernel_width; t++) {
            const int at = k * s->dilation_height * s->in_width + t * s->dilation_width;
            lbnn_tile_input x;
            w += LBNN_STEP(1);
            x.e = lbnn_wide_take(mean, at, window, *inside);
            x.v = lbnn_is_random(kind) ? lbnn_wide_take(var, at, window, *inside) : x.e;
            x.s = lbnn_is_random(kind) ? x.v + x.e * x.e : x.e * x.e;
            const float square = w[0] * w[0];
            sum = lbnn_tile_add(sum, kind, x, w, &square, 1);
            inside++;
        }
    }
    _mm512_mask_storeu_ps(out_mean, window->pixels, LBNN_BITS_AS(__m512, sum.mean));
    if (LBNN_VARIANCE) {
        _mm512_mask_storeu_ps(out_var, window->pixels, LBNN_BITS_AS(__m512, sum.var));
    }
}

LBNN_INLINE void lbnn_wide_depthwise(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                     float *out_mean, float *out_var, const lbnn_conv_shape *s)
{
    const int in_plane = s->in_height * s->in_width, plane = s->out_height * s->out_width;
    const int few = plane <= LBNN_TILE * LBNN_WIDE_TILES;
    lbnn_wide_window windows[LBNN_WIDE_TILES];
    float mean[LBNN_WIDE_PLANE], var[LBNN_WIDE_PLANE];
    for (int c = 0; c < s->in_channels; c++) {
        LBNN_MEMCPY(mean, in_mean + c * in_plane, LBNN_AS(size_t, in_plane) * sizeof *mean);
        if (lbnn_is_random(kind)) {
            LBNN_MEMCPY(var, in_var + c * in_plane, LBNN_AS(size_t, in_plane) * sizeof *var);
        }
        for (int pixel = 0; pixel < plane; pixel += LBNN_TILE) {
            lbnn_wide_window *window = windows + (few ? pixel / LBNN_TILE : 0);
            if (c == 0 || !few) {
                lbnn_wide_look(window, s, pixel);
            }
            const int to = c * plane + pixel;
            lbnn_wide_single(kind, mean, var, w, out_mean + to, out_var + to, s, window);
        }
        w += lbnn_row_at(kind, 1, lbnn_conv_taps(s, 1));
    }
}

/* Whether one of the two was right for a shape, and has done it. */
LBNN_INLINE int lbnn_wide_done(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w, float *out_mean,
                               float *out_var, const lbnn_conv_shape *s)
{
    if (!lbnn_is_full(kind) || !lbnn_wide_fits(s)) {
        return 0;
    }
    if (s->groups == 1) {
        lbnn_wide_conv(kind, in_mean, in_var, w, out_mean, out_var, s);
        return 1;
    }
    if (s->groups == s->in_channels && s->groups == s->out_channels && s->in_height * s->in_width <= LBNN_WIDE_PLANE) {
        lbnn_wide_depthwise(kind, in_mean, in_var, w, out_mean, out_var, s);
        return 1;
    }
    return 0;
}

#endif
#endif
