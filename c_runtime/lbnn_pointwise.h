/* lbnn_pointwise.h: operators that treat each element alone, the head, and the checks of _predict.
 *
 *     lbnn_affine(mean, var, scale, shift, channels, plane)      per-channel scale and shift, in place
 *     lbnn_affine_point(x, scale, shift, channels, plane)
 *     lbnn_add(a_mean, a_var, b_mean, b_var, out_mean, out_var, n)   out may be a or b
 *     lbnn_shift(a_mean, a_var, point, out_mean, out_var, n)         moments + point; out may be a
 *     lbnn_add_points(a, b, out, n)                                  out may be a or b
 *     lbnn_copy(in, out, n)
 *     lbnn_concat(in, out, count, length, step)                      one input of a concatenation
 *     lbnn_pad(in, out, channels, height, width, top, bottom, left, right)    zeros around each plane
 *     lbnn_lift(var, n)                                              a point becomes moments: variance 0
 *     lbnn_variance_head(in_mean, in_var, out_mean, out_var, k)      out may be in
 *     lbnn_variance_head_point(in, out_mean, out_var, k)
 *     lbnn_is_finite(x, n), lbnn_is_variance(x, n)                   1 or 0
 *     lbnn_emit(in_mean, in_var, out_mean, out_var, n)               checks, then copies: a status
 */
#ifndef LBNN_POINTWISE_H
#define LBNN_POINTWISE_H

#include "lbnn_math.h"

/* E' = s E + t;  V' = s^2 V */
LBNN_KERNEL void lbnn_affine(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var,
                               const float *LBNN_RESTRICT scale, const float *LBNN_RESTRICT shift,
                               int channels, int plane)
{
    LBNN_ROUND_PRODUCTS
    for (int c = 0; c < channels; c++) {
        const float s = LBNN_READ(scale[c]);
        const float t = LBNN_READ(shift[c]);
        const float s2 = s * s;
        for (int i = 0; i < plane; i++) {
            *mean = s * *mean + t;
            if (LBNN_VARIANCE) {
                *var = s2 * *var;
            }
            mean++;
            var++;
        }
    }
}

/* x' = s x + t */
LBNN_KERNEL void lbnn_affine_point(float *LBNN_RESTRICT x, const float *LBNN_RESTRICT scale,
                                     const float *LBNN_RESTRICT shift, int channels, int plane)
{
    LBNN_ROUND_PRODUCTS
    for (int c = 0; c < channels; c++) {
        for (int i = 0; i < plane; i++) {
            *x = LBNN_READ(scale[c]) * *x + LBNN_READ(shift[c]);
            x++;
        }
    }
}

/* x' = a + b */
LBNN_KERNEL void lbnn_add_points(const float *a, const float *b, float *out, int n)
{
    for (; LBNN_BY_FOUR && n > 3; n -= 4) {
        out[0] = a[0] + b[0];
        out[1] = a[1] + b[1];
        out[2] = a[2] + b[2];
        out[3] = a[3] + b[3];
        a += 4;
        b += 4;
        out += 4;
    }
    for (; n > 0; n--) {
        *out++ = *a++ + *b++;
    }
}

/* x' = x */
LBNN_KERNEL void lbnn_copy(const float *in, float *out, int n)
{
    for (; LBNN_BY_FOUR && n > 3; n -= 4) {
        out[0] = in[0];
        out[1] = in[1];
        out[2] = in[2];
        out[3] = in[3];
        in += 4;
        out += 4;
    }
    for (; n > 0; n--) {
        *out++ = *in++;
    }
}

/* `count` runs of `length` elements, `step` apart in the output: one array of one input of a concatenation
 * along an axis, where `length` and `step` are the sizes of that axis and those behind it, in the input and
 * in the output. Along the first axis count is 1. */
LBNN_KERNEL void lbnn_concat(const float *in, float *out, int count, int length, int step)
{
    for (int i = 0; i < count; i++) {
        lbnn_copy(in + i * length, out + i * step, length);
    }
}

/* Known zeros around each plane of one array; height and width are those of the input. */
LBNN_KERNEL void lbnn_pad(const float *in, float *out, int channels, int height, int width, int top,
                          int bottom, int left, int right)
{
    for (int c = 0; c < channels; c++) {
        for (int row = -top; row < height + bottom; row++) {
            for (int column = -left; column < width + right; column++) {
                const int inside = row >= 0 && row < height && column >= 0 && column < width;
                *out++ = inside ? *in++ : 0.0f;
            }
        }
    }
}

/* E' = E1 + E2;  V' = V1 + V2 (independent) */
LBNN_KERNEL void lbnn_add(const float *a_mean, const float *a_var, const float *b_mean, const float *b_var,
                            float *out_mean, float *out_var, int n)
{
    lbnn_add_points(a_mean, b_mean, out_mean, n);
    if (LBNN_VARIANCE) {
        lbnn_add_points(a_var, b_var, out_var, n);
    }
}

/* E' = E + x;  V' = V */
LBNN_KERNEL void lbnn_shift(const float *a_mean, const float *a_var, const float *point, float *out_mean,
                              float *out_var, int n)
{
    lbnn_add_points(a_mean, point, out_mean, n);
    if (LBNN_VARIANCE && out_var != a_var) {
        lbnn_copy(a_var, out_var, n);
    }
}

/* V' = 0 */
LBNN_KERNEL void lbnn_lift(float *var, int n)
{
    for (; LBNN_VARIANCE && n > 0; n--) {
        *var++ = 0.0f;
#ifdef LBNN_OPTIMIZE_SIZE /* or the compiler takes memset from the library */
        LBNN_HOLD(var);
#endif
    }
}

/* Features mu_0..mu_{k-1}, s_0..s_{k-1}:  E' = E[mu];  V' = V[mu] + softplus(E[s]) */
LBNN_KERNEL void lbnn_variance_head(const float *in_mean, const float *in_var, float *out_mean,
                                    float *out_var, int k)
{
    for (int i = 0; i < k; i += LBNN_LANES) {
        const lbnn_lanes mu = lbnn_lanes_load(in_mean + i, k - i);
        const lbnn_lanes noise = lbnn_softplus(lbnn_lanes_load(in_mean + k + i, k - i));
        if (LBNN_VARIANCE) {
            lbnn_lanes_store(out_var + i, lbnn_lanes_load(in_var + i, k - i) + noise, k - i);
        }
        lbnn_lanes_store(out_mean + i, mu, k - i);
    }
}

/* The same without variance in mu:  E' = mu;  V' = softplus(s) */
LBNN_KERNEL void lbnn_variance_head_point(const float *in, float *out_mean, float *out_var, int k)
{
    for (int i = 0; i < k; i += LBNN_LANES) {
        const lbnn_lanes mu = lbnn_lanes_load(in + i, k - i);
        const lbnn_lanes noise = lbnn_softplus(lbnn_lanes_load(in + k + i, k - i));
        if (LBNN_VARIANCE) {
            lbnn_lanes_store(out_var + i, noise, k - i);
        }
        lbnn_lanes_store(out_mean + i, mu, k - i);
    }
}

/* ---- checks: on the bits, because -ffast-math lets compilers assume that no NaN exists ---------- */

/* Without its sign, a finite float is below 0x7f800000; `limit` is that without the place of the sign, in a register. */
LBNN_INLINE int lbnn_not_finite(float x, uint32_t limit)
{
    return (lbnn_float_bits(x) << 1) >= limit;
}

/* Nor negative; -0 is a variance. */
LBNN_INLINE int lbnn_no_variance(float x)
{
    const uint32_t bits = lbnn_float_bits(x);
    return bits >= 0x7f800000u && bits != 0x80000000u;
}

/* 1 if no element is infinite or NaN. */
LBNN_KERNEL int lbnn_is_finite(const float *x, int n)
{
    uint32_t limit = 0xff000000u;
    LBNN_HOLD(limit);
    for (; LBNN_BY_FOUR && n > 3; n -= 4) {
        if (lbnn_not_finite(x[0], limit) || lbnn_not_finite(x[1], limit) || lbnn_not_finite(x[2], limit)
            || lbnn_not_finite(x[3], limit)) {
            return 0;
        }
        x += 4;
    }
    for (; n > 0; n--) {
        if (lbnn_not_finite(*x++, limit)) {
            return 0;
        }
    }
    return 1;
}

/* 1 if every element is finite and not negative (-0 is allowed). */
LBNN_KERNEL int lbnn_is_variance(const float *x, int n)
{
    for (; LBNN_BY_FOUR && n > 3; n -= 4) {
        if (lbnn_no_variance(x[0]) || lbnn_no_variance(x[1]) || lbnn_no_variance(x[2]) || lbnn_no_variance(x[3])) {
            return 0;
        }
        x += 4;
    }
    for (; n > 0; n--) {
        if (lbnn_no_variance(*x++)) {
            return 0;
        }
    }
    return 1;
}

/* The last step of a prediction: outputs are written only if all of them are right. */
LBNN_KERNEL lbnn_status lbnn_emit(const float *in_mean, const float *in_var, float *out_mean, float *out_var,
                                    int n)
{
    if (!lbnn_is_finite(in_mean, n) || (LBNN_VARIANCE && !lbnn_is_variance(in_var, n))) {
        return LBNN_ERROR_OUTPUT;
    }
    lbnn_copy(in_mean, out_mean, n);
    if (LBNN_VARIANCE) {
        lbnn_copy(in_var, out_var, n);
    }
    return LBNN_OK;
}

#endif
