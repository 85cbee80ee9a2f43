/* lbnn_activation.h: leaky-ReLU, max(x, l x) for 0 <= l <= 1, on moments and on points, in place.
 *
 *     lbnn_leaky_relu(mean, var, n, slope)                  exact moments of a Gaussian input
 *     lbnn_leaky_relu_clamped(mean, var, n, slope, clamp)   with E / sigma clamped to +-clamp
 *     lbnn_leaky_relu_point(x, n, slope)                    input without variance
 *
 * ReLU is slope 0. The loops have no branches, so that compilers vectorise them (gcc and clang at
 * -O3; gcc needs -fno-math-errno for sqrtf).
 */
#ifndef LBNN_ACTIVATION_H
#define LBNN_ACTIVATION_H

#include "lbnn_math.h"

/* |mean| / sigma, at most `most`; a denominator of zero never happens, 0 / 0 is 0. */
LBNN_INLINE float lbnn_distance(float size, float sigma, float most)
{
    const float least = size * (1.0f / most);
    return size / ((sigma > least ? sigma : least) + 1e-37f);
}

/* x = |E| / sigma; Q, I1, J2 the tail beyond x; a = 1 - l; k = 1 if E >= 0 else -l:
 *     E' = k |E| + sigma a I1
 *     V' = V (k (k - 2 a Q) + a^2 J2 - (a I1)^2)
 * Far from zero this is l E and l^2 V (or E and V); with V = 0 it is the plain leaky-ReLU. */
LBNN_KERNEL void lbnn_leaky_relu(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n,
                                   float slope)
{
    const float a = 1.0f - slope;
    const float a2 = a * a;
    const float twice_a = 2.0f * a;
    for (int i = 0; i < n; i++) {
        const float e = mean[i];
        const float v = var[i];
        const float size = fabsf(e);
        const float sigma = sqrtf(v);
        const float k = e < 0.0f ? -slope : 1.0f;
        const lbnn_tail_moments tail = lbnn_tail(lbnn_distance(size, sigma, LBNN_TAIL_MAX));
        const float i1 = a * tail.i1;
        mean[i] = k * size + sigma * i1;
        var[i] = v * (a2 * tail.j2 - i1 * i1 + k * (k - twice_a * tail.q));
    }
}

/* The law of total expectation and variance over the halves a < 0 and a >= 0, with
 * alpha = -E / sigma clamped to |alpha| <= clamp while E and V are not. With p = Phi(alpha) and
 * phi the density at alpha, the halves have (truncated normal)
 *     m0 = E - sigma phi / p          v0 = V (1 - alpha phi / p - (phi / p)^2)
 *     m1 = E + sigma phi / (1 - p)    v1 = V (1 + alpha phi / (1 - p) - (phi / (1 - p))^2)
 *     E' = p l m0 + (1 - p) m1
 *     V' = p l^2 v0 + (1 - p) v1 + p (1 - p) (m1 - l m0)^2
 * Multiplied out, each half needs no division by its probability but one. */
LBNN_KERNEL void lbnn_leaky_relu_clamped(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n,
                                           float slope, float clamp)
{
    for (int i = 0; i < n; i++) {
        const float e = mean[i];
        const float v = var[i];
        const float sigma = sqrtf(v);
        const float x = lbnn_distance(fabsf(e), sigma, clamp);
        const lbnn_tail_moments tail = lbnn_tail(x);
        const float phi = tail.i1 + x * tail.q;
        const float beyond = phi / tail.q;           /* of the half beyond zero, seen from the mean */
        const float within = phi / (1.0f - tail.q); /* of the half that holds the mean */
        /* beyond half: 1 + x beyond - beyond^2 = (j2 q - i1^2) / q^2 ; within half: 1 - x within - within^2 */
        const float beyond_var = v * (tail.j2 - tail.i1 * (tail.i1 / tail.q));
        const float within_var = v * (1.0f - tail.q) * (1.0f - within * (x + within));
        const float slope_beyond = e < 0.0f ? 1.0f : slope;
        const float slope_within = e < 0.0f ? slope : 1.0f;
        const float sign = e < 0.0f ? -1.0f : 1.0f;
        const float beyond_mean = slope_beyond * (e - sign * (sigma * beyond));
        const float within_mean = slope_within * (e + sign * (sigma * within));
        const float gap = within_mean - beyond_mean;
        mean[i] = tail.q * beyond_mean + (1.0f - tail.q) * within_mean;
        var[i] = slope_beyond * slope_beyond * beyond_var + slope_within * slope_within * within_var
                 + tail.q * (1.0f - tail.q) * (gap * gap);
    }
}

/* max(x, l x) */
LBNN_KERNEL void lbnn_leaky_relu_point(float *x, int n, float slope)
{
    for (int i = 0; i < n; i++) {
        x[i] = x[i] < 0.0f ? slope * x[i] : x[i];
    }
}

#endif
