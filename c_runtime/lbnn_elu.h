/* lbnn_elu.h: scale x for x > 0 and scale alpha (e^(x / beta) - 1) below, on moments and on points, in place.
 *
 *     lbnn_elu(mean, var, n, alpha, beta, scale)            exact moments of a Gaussian input
 *     lbnn_elu_point(x, n, alpha, beta, scale)              input without variance
 *
 * ELU has beta = scale = 1, CELU beta = alpha, SELU alpha = 1.6732632 and scale = 1.050701. lbnn/ops/elu.py derives the
 * formulas; below, E and V are in units of beta and k = alpha / beta.
 */
#ifndef LBNN_ELU_H
#define LBNN_ELU_H

#include "lbnn_activation.h"

#define LBNN_ELU_NARROW 0.1225f /* V below which differences of tails cancel more than sums are cut off */

/* e^y and e^y - 1 */
typedef struct {
    lbnn_lanes size, rise;
} lbnn_elu_power;

/* For y <= 0.1; below -87, where floats end, as for -87, and so for NaN. 2^f - 1 = f q(f) keeps its digits near 0. */
LBNN_INLINE lbnn_elu_power lbnn_elu_exp(lbnn_lanes y)
{
    LBNN_ROUND_PRODUCTS
    lbnn_elu_power power;
    const lbnn_lanes within = lbnn_lanes_at_most(lbnn_lanes_at_least(y, -87.0f), 0.1f);
#ifdef LBNN_USE_LIBM
    power.size = lbnn_lanes_apply(expf, within);
    power.rise = lbnn_lanes_apply(expm1f, within);
#else
    const lbnn_lanes t = -1.44269504f * within;
    const lbnn_integers n = lbnn_lanes_integer(t);
    const lbnn_lanes f = lbnn_lanes_float(n) - t;
    const lbnn_lanes f2 = f * f;
    const lbnn_lanes q = ((1.3071706e-3f + 1.2097997e-4f * f) * f2 + (5.5504371e-2f + 9.611025e-3f * f)) * f2
                         + (6.9314718e-1f + 2.4022673e-1f * f);
    const lbnn_lanes rise = f * q;
    power.size = lbnn_lanes_scale(1.0f + rise, n);
    power.rise = lbnn_lanes_select(lbnn_lanes_less(t, lbnn_lanes_fill(1.0f)), rise, power.size - 1.0f);
#endif
    return power;
}

/* The tail beyond x = |E| / sigma, and its density there. */
typedef struct {
    lbnn_lanes x, q, i1, j2, phi;
} lbnn_elu_tail;

/* Nothing beyond LBNN_TAIL_MAX. */
LBNN_INLINE lbnn_elu_tail lbnn_elu_beyond(lbnn_lanes size, lbnn_lanes sigma, lbnn_mask inside, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_lanes within = lbnn_lanes_select(inside, size, zero); /* other lanes may hold a NaN */
    lbnn_elu_tail out;
    const lbnn_lanes ratio = within / lbnn_lanes_select(inside, sigma, lbnn_lanes_fill(1.0f));
    out.x = lbnn_lanes_at_most(lbnn_lanes_abs(ratio), LBNN_TAIL_MAX); /* whatever the bits are, for the exponent */
    const lbnn_tail_moments tail = lbnn_tail(out.x, c);
    const lbnn_lanes scale = lbnn_lanes_select(inside, lbnn_lanes_fill(LBNN_TAIL_FACTOR), zero) * tail.scale;
    out.q = scale * tail.q;
    out.i1 = scale * tail.i1;
    out.j2 = scale * tail.j2;
    out.phi = out.i1 + out.x * out.q;
    return out;
}

/* [Q, I1, J2] = [T, N, P] phi / D at z, from a little below zero on: T = P + z N, D = N + z T as in lbnn_tail, with
 * polynomials of which Q is good to 7e-8, I1 to 5e-8 and J2 to 5e-7 between -0.4 and 6. */
typedef struct {
    lbnn_lanes t, n, p, d;
} lbnn_elu_ratio;

LBNN_INLINE lbnn_elu_ratio lbnn_elu_scaled(lbnn_lanes z, lbnn_lanes near)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes square = near * near;
    lbnn_elu_ratio out;
    out.n = (60.214382f + 11.35184f * near + square) * square + (257.01647f + 175.10094f * near);
    out.p = (23.11914f + 1.9852188f * near) * square + (322.12236f + 109.14412f * near);
    out.t = out.p + z * out.n;
    out.d = out.n + z * out.t;
    return out;
}

/* Q / phi at z >= 0; beyond 40 the polynomials stay, and rho = P / N, which is next to nothing there. */
LBNN_INLINE lbnn_lanes lbnn_elu_mills(lbnn_lanes z)
{
    const lbnn_elu_ratio ratio = lbnn_elu_scaled(z, lbnn_lanes_at_most(z, 40.0f));
    return ratio.t / ratio.d;
}

/* D1 / (s phi) = I1 + V I3 / 24 + V^2 I5 / 1920 at z = x + s/2 */
LBNN_INLINE lbnn_lanes lbnn_elu_first(lbnn_lanes z, lbnn_lanes var)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_elu_ratio ratio = lbnn_elu_scaled(z, z);
    const lbnn_lanes i3 = 2.0f * ratio.n - z * ratio.p; /* times D, as all of them */
    const lbnn_lanes i4 = 3.0f * ratio.p - z * i3;
    const lbnn_lanes i5 = 4.0f * i3 - z * i4;
    return (ratio.n + var * (4.1666667e-2f * i3 + 5.2083333e-4f * (var * i5))) / ratio.d;
}

/* D2 / (V phi) = I2 + V I4 / 12 + V^2 I6 / 360 + V^3 I8 / 20160 at z = x + s, where I8 is about (7 - 2.4 z) I6 */
LBNN_INLINE lbnn_lanes lbnn_elu_second(lbnn_lanes z, lbnn_lanes var)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_elu_ratio ratio = lbnn_elu_scaled(z, z);
    const lbnn_lanes i3 = 2.0f * ratio.n - z * ratio.p;
    const lbnn_lanes i4 = 3.0f * ratio.p - z * i3;
    const lbnn_lanes i5 = 4.0f * i3 - z * i4;
    const lbnn_lanes i6 = 5.0f * i4 - z * i5;
    const lbnn_lanes last = 2.7777778e-3f + var * (3.4722222e-4f - 1.19e-4f * z);
    return (ratio.p + var * (8.3333333e-2f * i4 + var * (last * i6))) / ratio.d;
}

/* Small V; with s = sigma above zero and -sigma below, d1 = D1 / s, d2 = D2 / V, B = sigma (I1 - k d1), A = e^(E + V/2)
 *     E >= 0   E' = E + B                V' = V (1 - 2 Q + J2 + 2 k x d1 + k^2 d2) - B^2
 *     E < 0    E' = k (A - 1) + B        V' = V (J2 + k^2 (A^2 (e^V - 1) / V - d2)) + 2 k (1 - A) B - B^2 */
LBNN_INLINE lbnn_moments lbnn_elu_narrow(lbnn_moments in, lbnn_lanes sigma, lbnn_elu_tail tail, lbnn_mask inside,
                                         float k)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_mask negative = lbnn_lanes_less(in.mean, zero);
    lbnn_lanes added = zero, above = lbnn_lanes_fill(1.0f), below = zero;
    if (lbnn_lanes_worth(inside)) {
        const lbnn_lanes step = lbnn_lanes_select(negative, -sigma, sigma);
        const lbnn_lanes d1 = k * (tail.phi * lbnn_elu_first(tail.x + 0.5f * step, in.var));
        const lbnn_lanes d2 = k * (k * (tail.phi * lbnn_elu_second(tail.x + step, in.var)));
        const lbnn_lanes rise = tail.i1 - d1;
        const lbnn_lanes spread = tail.j2 - rise * rise;
        added = sigma * rise;
        above = (1.0f - 2.0f * tail.q) + 2.0f * tail.x * d1 + (spread + d2);
        below = spread - d2;
    }
    lbnn_moments out;
    out.mean = in.mean + added;
    out.var = in.var * above;
    if (lbnn_lanes_worth(negative)) {
        const lbnn_elu_power power = lbnn_elu_exp(in.mean + 0.5f * in.var);
        const lbnn_lanes v = in.var;
        const lbnn_lanes growth = 1.0f + v * (0.5f + v * (1.6666667e-1f + v * (4.1666667e-2f + v * 8.3333333e-3f)));
        const lbnn_lanes size = k * power.size, rise = k * power.rise;
        const lbnn_lanes var = v * (size * (size * growth) + below) - 2.0f * rise * added;
        out.mean = lbnn_lanes_select(negative, rise + added, out.mean);
        out.var = lbnn_lanes_select(negative, var, out.var);
    }
    return out;
}

/* E > 0 and large V, with m = Q / phi, p1 = phi m(x + sigma) and p2 = phi m(x + 2 sigma):
 *     D1 = Q - p1,  D2 = Q - 2 p1 + p2,  B = sigma I1 - k D1
 *     E' = E + B,   V' = V (1 - 2 Q + J2) + 2 k E D1 + k^2 D2 - B^2 */
LBNN_INLINE lbnn_moments lbnn_elu_above(lbnn_moments in, lbnn_lanes sigma, lbnn_elu_tail tail, lbnn_lanes p1,
                                        lbnn_lanes p2, float k)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes d1 = k * (tail.q - p1), d2 = k * (k * ((tail.q - 2.0f * p1) + p2));
    const lbnn_lanes added = sigma * tail.i1 - d1;
    lbnn_moments out;
    out.mean = in.mean + added;
    out.var = (in.var * ((1.0f - 2.0f * tail.q) + tail.j2) + 2.0f * (in.mean * d1)) + (d2 - added * added);
    return out;
}

/* E <= 0 and large V, with P1 = E[e^X; X < 0], P2 = E[e^2X; X < 0], p1 = phi m(|sigma - x|), p2 = phi m(|2 sigma - x|):
 *     E' + k = k (P1 + Q) + sigma I1,  V' = k^2 (P2 + Q) + 2 k sigma I1 + V J2 - (E' + k)^2
 *     P1 = p1, or for x > sigma e^(E + V/2) - p1;   P2 = p2, or for x > 2 sigma e^(2E + 2V) - p2
 * In the last case k e^(E + V/2) is `taken` out of E' + k and its square out of P2, which leaves a factor 1 - e^-V. */
LBNN_INLINE lbnn_moments lbnn_elu_below(lbnn_moments in, lbnn_lanes sigma, lbnn_elu_tail tail, lbnn_lanes p1,
                                        lbnn_lanes p2, float k)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f), both = in.mean + in.var;
    const lbnn_mask far = lbnn_lanes_less(both, zero), farther = lbnn_lanes_less(both + in.var, zero);
    lbnn_lanes near = p1, taken = zero, second = p2;
    if (lbnn_lanes_worth(far)) {
        const lbnn_lanes size = lbnn_elu_exp(in.mean + 0.5f * in.var).size;
        taken = lbnn_lanes_select(farther, k * size, zero);
        near = lbnn_lanes_select(far, lbnn_lanes_select(farther, zero, size) - p1, p1);
    }
    if (lbnn_lanes_worth(farther)) {
        const lbnn_lanes square = lbnn_elu_exp(2.0f * both).size * lbnn_elu_exp(-in.var).rise;
        second = lbnn_lanes_select(farther, -square - p2, p2);
    }
    const lbnn_lanes beyond = sigma * tail.i1;
    const lbnn_lanes first = k * (near + tail.q) + beyond;
    lbnn_moments out;
    out.mean = first + (taken - k);
    out.var = (k * (k * (second + tail.q) + 2.0f * beyond) + in.var * tail.j2) - first * (first + 2.0f * taken);
    return out;
}

/* Large V. */
LBNN_INLINE lbnn_moments lbnn_elu_wide(lbnn_moments in, lbnn_lanes sigma, lbnn_elu_tail tail, lbnn_mask inside, float k)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_mask above = lbnn_lanes_less(zero, in.mean), below = lbnn_lanes_not(above);
    lbnn_lanes p1 = zero, p2 = zero;
    if (lbnn_lanes_worth(inside)) {
        const lbnn_lanes once = sigma + lbnn_lanes_select(above, tail.x, -tail.x);
        p1 = tail.phi * lbnn_elu_mills(lbnn_lanes_abs(once));
        p2 = tail.phi * lbnn_elu_mills(lbnn_lanes_abs(once + sigma));
    }
    lbnn_moments out = in;
    if (lbnn_lanes_worth(above)) {
        out = lbnn_elu_above(in, sigma, tail, p1, p2, k);
    }
    if (lbnn_lanes_worth(below)) {
        const lbnn_moments part = lbnn_elu_below(in, sigma, tail, p1, p2, k);
        out.mean = lbnn_lanes_select(below, part.mean, out.mean);
        out.var = lbnn_lanes_select(below, part.var, out.var);
    }
    return out;
}

/* Each form where it counts. A mean that is not finite would be lost in the constant below; 0 times it is kept. */
LBNN_INLINE lbnn_moments lbnn_elu_of(lbnn_moments in, float k, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f), sigma = lbnn_lanes_sqrt(in.var), lost = zero * in.mean;
    const lbnn_mask inside = lbnn_lanes_less(lbnn_lanes_abs(in.mean), LBNN_TAIL_MAX * sigma);
    const lbnn_mask narrow = lbnn_lanes_less(in.var, lbnn_lanes_fill(LBNN_ELU_NARROW)), wide = lbnn_lanes_not(narrow);
    lbnn_elu_tail tail = {zero, zero, zero, zero, zero};
    if (lbnn_lanes_worth(inside)) {
        tail = lbnn_elu_beyond(lbnn_lanes_abs(in.mean), sigma, inside, c);
    }
    lbnn_moments out = in;
    if (lbnn_lanes_worth(narrow)) {
        out = lbnn_elu_narrow(in, sigma, tail, inside, k);
    }
    if (lbnn_lanes_worth(wide)) {
        const lbnn_moments part = lbnn_elu_wide(in, sigma, tail, inside, k);
        out.mean = lbnn_lanes_select(wide, part.mean, out.mean);
        out.var = lbnn_lanes_select(wide, part.var, out.var);
    }
    out.mean = out.mean + lost;
    out.var = lbnn_lanes_select(lbnn_lanes_less(out.var, zero), zero, out.var) + lost;
    return out;
}

/* The function. */
LBNN_KERNEL void lbnn_elu_point(float *x, int n, float alpha, float beta, float scale)
{
    LBNN_ROUND_PRODUCTS
    const float k = alpha / beta, inverse = 1.0f / beta, factor = scale * beta;
    for (int i = 0; i < n; i += LBNN_LANES) {
        const lbnn_lanes zero = lbnn_lanes_fill(0.0f), in = inverse * lbnn_lanes_load(x + i, n - i);
        const lbnn_mask negative = lbnn_lanes_less(in, zero);
        lbnn_lanes out = in;
        if (lbnn_lanes_worth(negative)) {
            out = lbnn_lanes_select(negative, k * lbnn_elu_exp(in).rise + zero * in, in);
        }
        lbnn_lanes_store(x + i, factor * out, n - i);
    }
}

/* The moments of the function of a ~ N(E, V). */
LBNN_KERNEL void lbnn_elu(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n, float alpha, float beta,
                          float scale)
{
    LBNN_ROUND_PRODUCTS
    if (!LBNN_VARIANCE) {
        lbnn_elu_point(mean, n, alpha, beta, scale);
        return;
    }
    const lbnn_tail_odd c = lbnn_tail_prepare();
    const float k = alpha / beta, inverse = 1.0f / beta, factor = scale * beta;
    for (int i = 0; i < n; i += LBNN_LANES) {
        lbnn_moments x;
        x.mean = inverse * lbnn_lanes_load(mean + i, n - i);
        x.var = inverse * inverse * lbnn_lanes_load(var + i, n - i);
        x = lbnn_elu_of(x, k, c);
        lbnn_lanes_store(mean + i, factor * x.mean, n - i);
        lbnn_lanes_store(var + i, factor * factor * x.var, n - i);
    }
}

#endif
