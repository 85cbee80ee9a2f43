/* lbnn_conv_helium.h: convolutions in the vector registers of Helium (LBNN_HELIUM).
 *
 *     lbnn_helium_conv(kind, form, in_mean, in_var, w, out_mean, out_var, shape, groups, inputs, outputs)
 *
 * A vector is four output pixels, one behind the other, also from row to row; a weight is a number for all four, and two
 * output channels share the inputs: four vectors of sums, three of inputs and one on its way fill the eight registers.
 * Taps outside are lanes that a predicate leaves out, which are zeros and read nothing. Four pixels go through all
 * output channels, so that their predicates are found once.
 *
 * An output is summed in the order of lbnn_conv_any.h and in the same parts, but V E[w]^2 is (V E[w]) E[w]: a weight is in
 * a register of the core, which cannot square it. LBNN_STRICT uses no Helium.
 *
 * A vector of output channels with four pixels at a time, which suits processors with 16 registers, spills its sums;
 * docs/performance.md has what both cost.
 */
#ifndef LBNN_CONV_HELIUM_H
#define LBNN_CONV_HELIUM_H

#include "lbnn_conv_shape.h"
#include "lbnn_sums.h"

#ifdef LBNN_HELIUM

/* How inputs are found, always a constant: anywhere; four neighbours around those of the output, with a kernel of 3x3;
 * four neighbours at the place of the output. */
enum { LBNN_HELIUM_ANY, LBNN_HELIUM_3X3, LBNN_HELIUM_1X1 };

/* Taps of the largest window whose predicates are kept. */
enum { LBNN_HELIUM_TAPS = 64 };

/* Four output pixels: which exist, where in a channel the windows begin, and of which pixels a tap lies inside. */
typedef struct {
    lbnn_mask pixels;
    int32_t first[LBNN_LANES];
    lbnn_mask inside[LBNN_HELIUM_TAPS];
} lbnn_helium_window;

/* The inputs of a tap. */
typedef struct {
    lbnn_lanes e, v, s;
} lbnn_helium_inputs;

/* The sums of four pixels of two output channels. */
typedef struct {
    lbnn_sums left, right;
} lbnn_helium_pair;

/* Taps of a window: constants where they can be. */
LBNN_INLINE int lbnn_helium_height(int form, const lbnn_conv_shape *s)
{
    return form == LBNN_HELIUM_3X3 ? 3 : s->kernel_height;
}

LBNN_INLINE int lbnn_helium_width(int form, const lbnn_conv_shape *s)
{
    return form == LBNN_HELIUM_3X3 ? 3 : s->kernel_width;
}

LBNN_INLINE int lbnn_helium_size(int form, const lbnn_conv_shape *s)
{
    return form == LBNN_HELIUM_1X1 ? 1 : lbnn_helium_height(form, s) * lbnn_helium_width(form, s);
}

LBNN_INLINE void lbnn_helium_look(lbnn_helium_window *window, int form, const lbnn_conv_shape *s, int pixel)
{
    const lbnn_mask pixels = vctp32q(LBNN_AS(uint32_t, s->out_height * s->out_width - pixel));
    window->pixels = pixels;
    if (form == LBNN_HELIUM_1X1) {
        return;
    }
    int32_t rows[LBNN_LANES], columns[LBNN_LANES];
    int y = pixel / s->out_width, x = pixel % s->out_width;
    for (int i = 0; i < LBNN_LANES; i++) {
        rows[i] = y * s->stride_height - s->padding_height;
        columns[i] = x * s->stride_width - s->padding_width;
        window->first[i] = rows[i] * s->in_width + columns[i];
        x++;
        if (x == s->out_width) {
            x = 0;
            y++;
        }
    }
    const uint32x4_t row = vreinterpretq_u32_s32(vldrwq_s32(rows));
    const uint32x4_t column = vreinterpretq_u32_s32(vldrwq_s32(columns));
    lbnn_mask *inside = window->inside;
    for (int k = 0; k < lbnn_helium_height(form, s); k++) {
        const uint32x4_t at = vaddq_n_u32(row, LBNN_AS(uint32_t, k * s->dilation_height));
        const lbnn_mask beside = vcmpcsq_n_u32(at, LBNN_AS(uint32_t, s->in_height));
        for (int t = 0; t < lbnn_helium_width(form, s); t++) {
            const uint32x4_t tap = vaddq_n_u32(column, LBNN_AS(uint32_t, t * s->dilation_width));
            const lbnn_mask outside = vcmpcsq_n_u32(tap, LBNN_AS(uint32_t, s->in_width));
            *inside++ = LBNN_AS(lbnn_mask, pixels & ~(beside | outside));
        }
    }
}

/* Inputs are at `mean` and `var`, or at `offsets` from there (LBNN_HELIUM_ANY); what a predicate leaves out may lie outside. */
LBNN_INLINE lbnn_helium_inputs lbnn_helium_take(int kind, int form, const float *mean, const float *var,
                                                uint32x4_t offsets, lbnn_mask mask)
{
    lbnn_helium_inputs x;
    x.e = form == LBNN_HELIUM_ANY ? vldrwq_gather_shifted_offset_z_f32(mean, offsets, mask) : vldrwq_z_f32(mean, mask);
    if (lbnn_is_random(kind)) {
        x.v = form == LBNN_HELIUM_ANY ? vldrwq_gather_shifted_offset_z_f32(var, offsets, mask) : vldrwq_z_f32(var, mask);
        x.s = lbnn_lanes_add(x.v, x.e, x.e);
    } else {
        x.v = x.e; /* never looked at */
        x.s = x.e * x.e;
    }
    return x;
}

/* A weight times the inputs of a tap. */
LBNN_INLINE lbnn_sums lbnn_helium_add(lbnn_sums sums, int kind, lbnn_helium_inputs x, const lbnn_weight *row, int width)
{
    const float w = LBNN_MEAN(row[0]);
    if (lbnn_is_squares(kind)) {
        sums.var = lbnn_lanes_add_times(sums.var, x.s, w);
        return sums;
    }
    sums.mean = lbnn_lanes_add_times(sums.mean, x.e, w);
    if (lbnn_is_random(kind)) {
        sums.var = lbnn_lanes_add_times(sums.var, vmulq_n_f32(x.v, w), w);
    }
    if (lbnn_is_full(kind)) {
        sums.var = lbnn_lanes_add_times(sums.var, x.s, LBNN_VAR(row[LBNN_VARS(width)]));
    }
    return sums;
}

/* The same for one output channel, or for two (`pair`, a constant). */
LBNN_INLINE lbnn_helium_pair lbnn_helium_both(lbnn_helium_pair sums, int kind, int pair, lbnn_helium_inputs x,
                                              const lbnn_weight *row, int width)
{
    sums.left = lbnn_helium_add(sums.left, kind, x, row, width);
    if (pair) {
        sums.right = lbnn_helium_add(sums.right, kind, x, row + 1, width);
    }
    return sums;
}

LBNN_INLINE lbnn_sums lbnn_helium_bias(const lbnn_weight *row, int width)
{
    lbnn_sums sums;
    sums.mean = lbnn_lanes_fill(LBNN_BIAS(row[0]));
    sums.var = lbnn_lanes_fill(LBNN_BIAS(row[width]));
    return sums;
}

/* The sums go to element `to`; with what the parts before have left there, if there are any. */
LBNN_INLINE void lbnn_helium_store(lbnn_sums sums, float *mean, float *var, int to, lbnn_mask pixels, int more)
{
    if (more) {
        sums.mean = vldrwq_z_f32(mean + to, pixels) + sums.mean;
        if (LBNN_VARIANCE) {
            sums.var = vldrwq_z_f32(var + to, pixels) + sums.var;
        }
    }
    vstrwq_p_f32(mean + to, sums.mean, pixels);
    if (LBNN_VARIANCE) {
        vstrwq_p_f32(var + to, sums.var, pixels);
    }
}

/* A part of the sums with taps anywhere. */
LBNN_INLINE lbnn_helium_pair lbnn_helium_any(lbnn_helium_pair sums, int kind, int pair, const float *mean,
                                             const float *var, const lbnn_weight *w, int width, const lbnn_conv_shape *s,
                                             lbnn_part part, const lbnn_helium_window *window)
{
    const lbnn_span whole = {0, 0, s->kernel_width};
    const uint32x4_t first = vreinterpretq_u32_s32(vldrwq_s32(window->first));
    for (int c = part.channel; c < part.channels; c++) {
        for (int k = 0; k < s->kernel_height; k++) {
            const int number = (c * s->kernel_height + k) * s->kernel_width;
            const lbnn_span taps = lbnn_span_in(whole, part, number, s->dilation_width);
            const lbnn_mask *inside = window->inside + k * s->kernel_width + taps.first;
            const lbnn_weight *row = w + lbnn_row_at(kind, width, number + taps.first);
            int at = (c * s->in_height + k * s->dilation_height) * s->in_width + taps.start;
            for (int t = 0; t < taps.count; t++) {
                const uint32x4_t places = vaddq_n_u32(first, LBNN_AS(uint32_t, at));
                const lbnn_helium_inputs x = lbnn_helium_take(kind, LBNN_HELIUM_ANY, mean, var, places, inside[t]);
                sums = lbnn_helium_both(sums, kind, pair, x, row, width);
                row += lbnn_row_len(kind, width);
                at += s->dilation_width;
            }
        }
    }
    return sums;
}

/* The next tap is not begun before this one is done: gcc would load the inputs and weights of several, for which there
 * are no registers. */
#define LBNN_HELIUM_NEXT(sums, pair, row, inside)                                                                     \
    do {                                                                                                              \
        __asm__ volatile("" : "+w"((sums).left.mean), "+w"((sums).left.var), "+r"(row), "+r"(inside));                \
        if (pair) {                                                                                                   \
            __asm__ volatile("" : "+w"((sums).right.mean), "+w"((sums).right.var), "+r"(row));                        \
        }                                                                                                             \
    } while (0)

/* The place of an element that may not exist. */
LBNN_INLINE const float *lbnn_helium_place(const float *array, int at)
{
    return LBNN_BITS_AS(const float *, LBNN_BITS_AS(uintptr_t, array) + LBNN_AS(uintptr_t, at) * sizeof *array);
}

/* A part of the sums with a kernel of 3x3 around four neighbours; parts are whole windows. */
LBNN_INLINE lbnn_helium_pair lbnn_helium_3x3(lbnn_helium_pair sums, int kind, int pair, const float *in_mean,
                                             const float *in_var, const lbnn_weight *w, int width,
                                             const lbnn_conv_shape *s, lbnn_part part, const lbnn_helium_window *window)
{
    const int len = lbnn_row_len(kind, width);
    const int begin = part.channel * s->in_height * s->in_width + window->first[0];
    const uint32x4_t none = vdupq_n_u32(0u);
    const lbnn_weight *row = w + lbnn_row_at(kind, width, part.first);
    const float *mean = lbnn_helium_place(in_mean, begin);
    const float *var = lbnn_helium_place(in_var, begin);
    for (int c = part.channel; c < part.channels; c++) {
        const lbnn_mask *inside = window->inside;
        for (int k = 0; k < 3; k++) {
            const lbnn_helium_inputs a = lbnn_helium_take(kind, LBNN_HELIUM_3X3, mean, var, none, inside[0]);
            sums = lbnn_helium_both(sums, kind, pair, a, row, width);
            LBNN_HELIUM_NEXT(sums, pair, row, inside);
            const lbnn_helium_inputs b = lbnn_helium_take(kind, LBNN_HELIUM_3X3, mean + 1, var + 1, none, inside[1]);
            sums = lbnn_helium_both(sums, kind, pair, b, row + len, width);
            LBNN_HELIUM_NEXT(sums, pair, row, inside);
            const lbnn_helium_inputs d = lbnn_helium_take(kind, LBNN_HELIUM_3X3, mean + 2, var + 2, none, inside[2]);
            sums = lbnn_helium_both(sums, kind, pair, d, row + 2 * len, width);
            LBNN_HELIUM_NEXT(sums, pair, row, inside);
            row += 3 * len;
            inside += 3;
            mean = lbnn_helium_place(mean, s->in_width);
            var = lbnn_helium_place(var, s->in_width);
        }
        mean = lbnn_helium_place(mean, (s->in_height - 3) * s->in_width);
        var = lbnn_helium_place(var, (s->in_height - 3) * s->in_width);
    }
    return sums;
}

/* A part of the sums with a kernel of 1x1 at four neighbours. */
LBNN_INLINE lbnn_helium_pair lbnn_helium_1x1(lbnn_helium_pair sums, int kind, int pair, const float *mean,
                                             const float *var, const lbnn_weight *w, int width, const lbnn_conv_shape *s,
                                             lbnn_part part, int pixel, lbnn_mask pixels)
{
    const int plane = s->in_height * s->in_width;
    const uint32x4_t none = vdupq_n_u32(0u);
    const lbnn_weight *row = w + lbnn_row_at(kind, width, part.first);
    int at = part.first * plane + pixel;
    for (int c = part.first; c < part.last; c++) {
        const lbnn_helium_inputs x = lbnn_helium_take(kind, LBNN_HELIUM_1X1, mean + at, var + at, none, pixels);
        sums = lbnn_helium_both(sums, kind, pair, x, row, width);
        row += lbnn_row_len(kind, width);
        at += plane;
    }
    return sums;
}

/* Four pixels of one output channel or of two, which go to element `to`, part after part. */
LBNN_INLINE void lbnn_helium_channels(int kind, int form, int pair, const float *in_mean, const float *in_var,
                                      const lbnn_weight *w, int width, float *out_mean, float *out_var, int to,
                                      const lbnn_conv_shape *s, int inputs, int pixel, const lbnn_helium_window *window)
{
    const int size = lbnn_helium_size(form, s);
    const int taps = inputs * size;
    const int fold = lbnn_fold(kind);
    for (int first = 0; first < taps; first += fold) {
        const int last = taps - first < fold ? taps : first + fold;
        const lbnn_part part = {first, last, first / size, (last + size - 1) / size};
        const lbnn_weight *start = lbnn_sums_start(kind, w, first > 0);
        lbnn_helium_pair sums;
        sums.left = lbnn_helium_bias(start, width);
        sums.right = lbnn_helium_bias(start + pair, width);
        if (form == LBNN_HELIUM_3X3) {
            sums = lbnn_helium_3x3(sums, kind, pair, in_mean, in_var, w, width, s, part, window);
        } else if (form == LBNN_HELIUM_1X1) {
            sums = lbnn_helium_1x1(sums, kind, pair, in_mean, in_var, w, width, s, part, pixel, window->pixels);
        } else {
            sums = lbnn_helium_any(sums, kind, pair, in_mean, in_var, w, width, s, part, window);
        }
        lbnn_helium_store(sums.left, out_mean, out_var, to, window->pixels, first > 0);
        if (pair) {
            lbnn_helium_store(sums.right, out_mean, out_var, to + s->out_height * s->out_width, window->pixels, first > 0);
        }
    }
}

/* Four pixels of a packed block of output channels. */
LBNN_INLINE void lbnn_helium_block(int kind, int form, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                   int width, float *out_mean, float *out_var, int to, const lbnn_conv_shape *s,
                                   int inputs, int pixel, const lbnn_helium_window *window)
{
    const int plane = s->out_height * s->out_width;
    int k = 0;
    for (; k + 2 <= width; k += 2) {
        lbnn_helium_channels(kind, form, 1, in_mean, in_var, w + k, width, out_mean, out_var, to + k * plane, s, inputs,
                             pixel, window);
    }
    if (k < width) {
        lbnn_helium_channels(kind, form, 0, in_mean, in_var, w + k, width, out_mean, out_var, to + k * plane, s, inputs,
                             pixel, window);
    }
}

/* All pixels of `groups` groups, each of `inputs` and `outputs` channels; whole blocks apart, compiled for their constant
 * width. */
LBNN_INLINE void lbnn_helium_conv(int kind, int form, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                  float *out_mean, float *out_var, const lbnn_conv_shape *s, int groups, int inputs,
                                  int outputs)
{
    const int in_plane = s->in_height * s->in_width;
    const int out_plane = s->out_height * s->out_width;
    const int taps = inputs * lbnn_helium_size(form, s);
    for (int pixel = 0; pixel < out_plane; pixel += LBNN_LANES) {
        lbnn_helium_window window;
        lbnn_helium_look(&window, form, s, pixel);
        const lbnn_weight *block = w;
        int from = 0, to = pixel;
        for (int g = 0; g < groups; g++) {
            int left = outputs;
            for (; left >= LBNN_PACK; left -= LBNN_PACK) {
                lbnn_helium_block(kind, form, in_mean + from, in_var + from, block, LBNN_PACK, out_mean, out_var, to, s,
                                  inputs, pixel, &window);
                block += lbnn_row_at(kind, LBNN_PACK, taps);
                to += LBNN_PACK * out_plane;
            }
            if (left > 0) {
                lbnn_helium_block(kind, form, in_mean + from, in_var + from, block, left, out_mean, out_var, to, s, inputs,
                                  pixel, &window);
                block += lbnn_row_at(kind, left, taps);
                to += left * out_plane;
            }
            from += inputs * in_plane;
        }
    }
}

/* ---- one tap without padding, the inputs of four pixels in scratch: where outputs may be written over them ------------ */

/* Floats of a tap: E, V and S of four pixels; of points E and S. */
LBNN_INLINE int lbnn_helium_step(int kind)
{
    return (lbnn_is_random(kind) ? 3 : 2) * LBNN_LANES;
}

/* Four pixels of all channels into scratch; they are one behind the other where the stride is 1. */
LBNN_INLINE void lbnn_helium_fill(int kind, const float *mean, const float *var, const lbnn_conv_shape *s, int pixel,
                                  const lbnn_helium_window *window, float *patch)
{
    const int plane = s->in_height * s->in_width;
    const int together = s->stride_height == 1 && s->stride_width == 1;
    const uint32x4_t first = vreinterpretq_u32_s32(vldrwq_s32(window->first));
    for (int c = s->in_channels; c > 0; c--) {
        lbnn_helium_inputs x;
        if (together) {
            x = lbnn_helium_take(kind, LBNN_HELIUM_1X1, mean + pixel, var + pixel, first, window->pixels);
        } else {
            x = lbnn_helium_take(kind, LBNN_HELIUM_ANY, mean, var, first, window->pixels);
        }
        vstrwq_f32(patch, x.e);
        if (lbnn_is_random(kind)) {
            vstrwq_f32(patch + LBNN_LANES, x.v);
        }
        patch += lbnn_helium_step(kind);
        vstrwq_f32(patch - LBNN_LANES, x.s);
        mean += plane;
        var += plane;
    }
}

/* One output channel or two over the scratch, part after part. */
LBNN_INLINE void lbnn_helium_over(int kind, int pair, const float *patch, const lbnn_weight *w, int width, float *mean,
                                  float *var, int plane, int taps, lbnn_mask pixels)
{
    const int fold = lbnn_fold(kind), step = lbnn_helium_step(kind);
    const lbnn_weight *row = w + lbnn_row_at(kind, width, 0);
    for (int first = 0; first < taps; first += fold) {
        const lbnn_weight *start = lbnn_sums_start(kind, w, first > 0);
        lbnn_helium_pair sums;
        sums.left = lbnn_helium_bias(start, width);
        sums.right = lbnn_helium_bias(start + pair, width);
        for (int rest = taps - first < fold ? taps - first : fold; rest > 0; rest--) {
            lbnn_helium_inputs x;
            x.e = vldrwq_f32(patch);
            x.v = vldrwq_f32(patch + LBNN_LANES);
            patch += step;
            x.s = vldrwq_f32(patch - LBNN_LANES);
            sums = lbnn_helium_both(sums, kind, pair, x, row, width);
            row += lbnn_row_len(kind, width);
            LBNN_HELIUM_NEXT(sums, pair, row, patch);
        }
        lbnn_helium_store(sums.left, mean, var, 0, pixels, first > 0);
        if (pair) {
            lbnn_helium_store(sums.right, mean, var, plane, pixels, first > 0);
        }
    }
}

/* What the outputs share of four pixels (lbnn_conv_rank1.h): var += row (S column), the sum in parts as all sums. */
LBNN_INLINE void lbnn_helium_share(int kind, const float *patch, const float *factors, float *var,
                                   const lbnn_conv_shape *s, lbnn_mask pixels)
{
    const float *column = factors + s->out_channels;
    const int plane = s->out_height * s->out_width;
    lbnn_lanes shared = lbnn_lanes_fill(0.0f);
    for (int first = 0; first < s->in_channels; first += LBNN_FOLD) {
        const int last = s->in_channels - first < LBNN_FOLD ? s->in_channels : first + LBNN_FOLD;
        lbnn_lanes sum = lbnn_lanes_fill(0.0f);
        for (int i = first; i < last; i++) {
            patch += lbnn_helium_step(kind);
            sum = lbnn_lanes_add_times(sum, vldrwq_f32(patch - LBNN_LANES), column[i]);
        }
        shared = shared + sum;
    }
    int to = 0;
    for (int o = 0; o < s->out_channels; o++) {
        vstrwq_p_f32(var + to, lbnn_lanes_add_times(vldrwq_z_f32(var + to, pixels), shared, factors[o]), pixels);
        to += plane;
    }
}

/* A kernel of one tap without padding, any stride; `patch` has room for the inputs of four pixels. `factors` are as in
 * lbnn_conv_patch.h. */
LBNN_INLINE void lbnn_helium_patches(int kind, const float *in_mean, const float *in_var, const lbnn_weight *w,
                                     const float *factors, float *out_mean, float *out_var, const lbnn_conv_shape *s,
                                     float *patch)
{
    const int plane = s->out_height * s->out_width;
    const int taps = s->in_channels;
    for (int pixel = 0; pixel < plane; pixel += LBNN_LANES) {
        const lbnn_weight *block = w;
        lbnn_helium_window window;
        int to = pixel, left = s->out_channels;
        lbnn_helium_look(&window, LBNN_HELIUM_ANY, s, pixel);
        lbnn_helium_fill(kind, in_mean, in_var, s, pixel, &window, patch);
        for (; left >= LBNN_PACK; left -= LBNN_PACK) {
            for (int k = 0; k < LBNN_PACK; k += 2) {
                lbnn_helium_over(kind, 1, patch, block + k, LBNN_PACK, out_mean + to, out_var + to, plane, taps,
                                 window.pixels);
                to += 2 * plane;
            }
            block += lbnn_row_at(kind, LBNN_PACK, taps);
        }
        for (int k = 0; k < left; k++) {
            lbnn_helium_over(kind, 0, patch, block + k, left, out_mean + to, out_var + to, plane, taps, window.pixels);
            to += plane;
        }
        if (LBNN_VARIANCE && !lbnn_is_full(kind)) {
            lbnn_helium_share(kind, patch, factors, out_var + pixel, s, window.pixels);
        }
    }
}

#endif
#endif
