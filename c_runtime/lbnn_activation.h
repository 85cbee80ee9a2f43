/* lbnn_activation.h: leaky-ReLU, max(x, l x) for 0 <= l <= 1, and |x|, on moments and on points, in place.
 *
 *     lbnn_leaky_relu(mean, var, n, slope)                  exact moments of a Gaussian input
 *     lbnn_leaky_relu_clamped(mean, var, n, slope, clamp)   with E / sigma clamped to +-clamp
 *     lbnn_leaky_relu_point(x, n, slope)                    input without variance
 *     lbnn_abs(mean, var, n), lbnn_abs_point(x, n)          the absolute value
 *
 * ReLU is slope 0.
 */
#ifndef LBNN_ACTIVATION_H
#define LBNN_ACTIVATION_H

#include "lbnn_math.h"

/* Moments on their way through an activation. */
typedef struct {
    lbnn_lanes mean, var;
} lbnn_moments;

/* x = |E| / sigma; Q, I1, J2 the tail beyond x; a = 1 - l; k = 1 if E >= 0 else -l:
 *     E' = k |E| + sigma a I1
 *     V' = V (k^2 + a (a J2 - 2 k Q) - (a I1)^2)
 * Beyond LBNN_TAIL_MAX the tail is nothing, and so it is with V = 0: then this is the plain leaky-ReLU. */
LBNN_INLINE lbnn_moments lbnn_leaky_relu_of(lbnn_moments in, float slope, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const float a = 1.0f - slope;
    const lbnn_lanes size = lbnn_lanes_abs(in.mean);
    const lbnn_lanes sigma = lbnn_lanes_sqrt(in.var);
    const lbnn_mask negative = lbnn_lanes_less(in.mean, lbnn_lanes_fill(0.0f));
    const lbnn_mask inside = lbnn_lanes_less(size, LBNN_TAIL_MAX * sigma);
    const lbnn_lanes k = lbnn_lanes_select(negative, lbnn_lanes_fill(-slope), lbnn_lanes_fill(1.0f));
    lbnn_lanes mean = lbnn_lanes_select(negative, slope * in.mean, in.mean);
    lbnn_lanes ratio = k * k;
    if (lbnn_lanes_worth(inside)) {
        const lbnn_lanes within = lbnn_lanes_select(inside, size, lbnn_lanes_fill(0.0f)); /* other lanes may hold a NaN */
        const lbnn_tail_moments tail = lbnn_tail(lbnn_tail_place(within, lbnn_lanes_select(inside, sigma, lbnn_lanes_fill(1.0f))), c);
        const lbnn_lanes factor = lbnn_lanes_fill(a * LBNN_TAIL_FACTOR);
        const lbnn_lanes nothing = -lbnn_lanes_fill(0.0f); /* added to -0 it leaves -0, as skipping this block does */
        const lbnn_lanes scale = lbnn_lanes_select(inside, factor, nothing) * tail.scale;
        const lbnn_lanes i1 = scale * tail.i1;
        mean += sigma * i1;
        ratio = ratio + scale * (a * tail.j2 - 2.0f * k * tail.q) - i1 * i1;
    }
    lbnn_moments out;
    out.mean = mean;
    out.var = in.var * ratio;
    return out;
}

/* The law of total expectation and variance over the halves a < 0 and a >= 0, with
 * alpha = -E / sigma clamped to |alpha| <= clamp while E and V are not. With p = Phi(alpha) and
 * phi the density at alpha, the halves have (truncated normal)
 *     m0 = E - sigma phi / p          v0 = V (1 - alpha phi / p - (phi / p)^2)
 *     m1 = E + sigma phi / (1 - p)    v1 = V (1 + alpha phi / (1 - p) - (phi / (1 - p))^2)
 *     E' = p l m0 + (1 - p) m1
 *     V' = p l^2 v0 + (1 - p) v1 + p (1 - p) (m1 - l m0)^2
 * written below for |E|: the half that holds it (probability p, slope `own`) and the tail beyond zero
 * (probability q, slope `other`). */
LBNN_INLINE lbnn_moments lbnn_leaky_relu_clamped_of(lbnn_moments in, float slope, float clamp, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes one = lbnn_lanes_fill(1.0f);
    const lbnn_lanes l = lbnn_lanes_fill(slope);
    const lbnn_lanes size = lbnn_lanes_abs(in.mean);
    const lbnn_lanes sigma = lbnn_lanes_sqrt(in.var);
    const lbnn_mask negative = lbnn_lanes_less(in.mean, lbnn_lanes_fill(0.0f));
    const lbnn_mask inside = lbnn_lanes_less(size, clamp * sigma);
    const lbnn_lanes x = lbnn_lanes_select(inside, size, lbnn_lanes_fill(clamp))
                         / lbnn_lanes_select(inside, sigma, one);
    const lbnn_tail_moments tail = lbnn_tail(x, c);
    const lbnn_lanes scale = LBNN_TAIL_FACTOR * tail.scale;
    const lbnn_lanes q = scale * tail.q;
    const lbnn_lanes p = one - q;
    const lbnn_lanes i1 = scale * tail.i1;
    const lbnn_lanes step = i1 / q;             /* phi / q - x, the tail's mean beyond zero over sigma */
    const lbnn_lanes hazard = (i1 + x * q) / p; /* phi / p */
    const lbnn_lanes own = lbnn_lanes_select(negative, l, one);
    const lbnn_lanes other = lbnn_lanes_select(negative, one, l);
    const lbnn_lanes body_mean = own * (size + sigma * hazard);
    const lbnn_lanes tail_mean = other * (size - sigma * (x + step));
    const lbnn_lanes body_var = own * own * (p * (1.0f - hazard * (x + hazard)));
    const lbnn_lanes tail_var = other * other * (scale * tail.j2 - i1 * step);
    const lbnn_lanes gap = body_mean - tail_mean;
    const lbnn_lanes mean = p * body_mean + q * tail_mean;
    lbnn_moments out;
    out.mean = lbnn_lanes_select(negative, -mean, mean);
    out.var = in.var * (body_var + tail_var) + p * q * (gap * gap);
    return out;
}

/* max(x, l x) */
LBNN_KERNEL void lbnn_leaky_relu_point(float *x, int n, float slope)
{
    for (int i = 0; i < n; i++) {
        x[i] = x[i] < 0.0f ? slope * x[i] : x[i];
    }
}

#ifdef LBNN_DENSITY_STEPS

/* Where the tail is left out on the side of the slope 1 and on the other: it is then less than 6e-7 of the variance, on
 * the other side less than 7e-7 if the slope is 0.01 or more (J2 / l^2); with a smaller one all of it may be tail. */
#define LBNN_TAIL_ABOVE 5.0f
#define LBNN_TAIL_BELOW 6.0f

/* N and P of lbnn_tail, divided by the first coefficient of P so that it is 1 (only their ratio counts), and what the
 * square of x is in the units of the density's table; all of them stay in registers through a loop. */
typedef struct {
    float n0, n1, n2, n3, n4, p0, p1, p2, square;
} lbnn_unit_tail;

LBNN_INLINE lbnn_unit_tail lbnn_unit_tail_prepare(void)
{
    lbnn_unit_tail c = {83.396415f, 63.067842f, 23.516668f, 4.8770113f,  0.50055742f,
                        104.52189f, 43.250661f, 9.7991183f, 0.72134752f * 32.0f};
    LBNN_PIN(c.n0);
    LBNN_PIN(c.n1);
    LBNN_PIN(c.n2);
    LBNN_PIN(c.n3);
    LBNN_PIN(c.n4);
    LBNN_PIN(c.p0);
    LBNN_PIN(c.p1);
    LBNN_PIN(c.p2);
    LBNN_PIN(c.square);
    return c;
}

/* All elements one by one. An element that is far from the kink takes 20 instructions on a Cortex-M4F, another 55, where
 * one formula for both takes 35 and 69. */
LBNN_INLINE void lbnn_leaky_relu_run(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n, float slope)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_unit_tail c = lbnn_unit_tail_prepare();
    const lbnn_density_curve curve = lbnn_density_prepare();
    const float *end = mean + n;
    const float a = 1.0f - slope;
    const float size_below = lbnn_fabsf(slope);
    const float reach_above = LBNN_TAIL_ABOVE;
    const float reach_below = size_below < 0.01f ? LBNN_TAIL_MAX : LBNN_TAIL_BELOW;
    float one = 1.0f;
    LBNN_PIN(one);
    for (; mean != end; mean++) {
        const float e = *mean;
        const float v = *var;
        const float sigma = lbnn_sqrtf(v);
        const float size = lbnn_fabsf(e);
        float twice = 2.0f;
        float ratio = one;
        float reach = reach_above * sigma;
        float m = e;
        if (e < 0.0f) {
            twice = -2.0f * slope;
            ratio = slope * slope;
            reach = reach_below * sigma;
            m = slope * e;
        }
        if (size < reach) {
            const float x = size / sigma;
            const float x2 = x * x;
            const float i1 = (c.n2 + c.n3 * x + c.n4 * x2) * x2 + (c.n0 + c.n1 * x);
            const float j2 = (c.p2 + x) * x2 + (c.p0 + c.p1 * x);
            const float q = j2 + x * i1;
            const float scale = a * (lbnn_density_by_steps(c.square * x2, curve) / (i1 + x * q));
            const float first = scale * i1;
            m += sigma * first;
            ratio = ratio + scale * (a * j2 - twice * q) - first * first;
        }
        *mean = m;
        *var++ = v * ratio;
    }
}

#else

/* All elements, one vector after another. */
LBNN_INLINE void lbnn_leaky_relu_run(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n, float slope)
{
    const lbnn_tail_odd c = lbnn_tail_prepare();
    for (int i = 0; i < n; i += LBNN_LANES) {
        lbnn_moments x;
        x.mean = lbnn_lanes_load(mean + i, n - i);
        x.var = lbnn_lanes_load(var + i, n - i);
        x = lbnn_leaky_relu_of(x, slope, c);
        lbnn_lanes_store(mean + i, x.mean, n - i);
        lbnn_lanes_store(var + i, x.var, n - i);
    }
}

#endif

/* The moments of max(a, l a) for a ~ N(E, V). */
LBNN_KERNEL void lbnn_leaky_relu(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n, float slope)
{
    if (LBNN_VARIANCE) {
        lbnn_leaky_relu_run(mean, var, n, slope);
    } else {
        lbnn_leaky_relu_point(mean, n, slope);
    }
}

/* |x| */
LBNN_KERNEL void lbnn_abs_point(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        x[i] = x[i] < 0.0f ? -x[i] : x[i];
    }
}

/* The moments of |a| for a ~ N(E, V): those of the leaky-ReLU with the slope -1, where k = 1 on both sides. */
LBNN_KERNEL void lbnn_abs(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n)
{
    if (LBNN_VARIANCE) {
        lbnn_leaky_relu_run(mean, var, n, -1.0f);
    } else {
        lbnn_abs_point(mean, n);
    }
}

/* The leaky-ReLU in the clamped form. */
LBNN_KERNEL void lbnn_leaky_relu_clamped(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n,
                                         float slope, float clamp)
{
    if (!LBNN_VARIANCE) {
        lbnn_leaky_relu_point(mean, n, slope);
        return;
    }
    const lbnn_tail_odd c = lbnn_tail_prepare();
    const float most = clamp < LBNN_TAIL_MAX ? clamp : LBNN_TAIL_MAX; /* beyond it nothing is left to clamp */
    for (int i = 0; i < n; i += LBNN_LANES) {
        lbnn_moments x;
        x.mean = lbnn_lanes_load(mean + i, n - i);
        x.var = lbnn_lanes_load(var + i, n - i);
        x = lbnn_leaky_relu_clamped_of(x, slope, most, c);
        lbnn_lanes_store(mean + i, x.mean, n - i);
        lbnn_lanes_store(var + i, x.var, n - i);
    }
}

#endif
