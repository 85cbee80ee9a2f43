/* lbnn_hardswish.h: hard-swish, 0 below -3, x (x + 3) / 6 between, x above 3, on moments and on points, in place.
 *
 *     lbnn_hardswish(mean, var, n)              exact moments of a Gaussian input
 *     lbnn_hardswish_point(x, n)                input without variance
 *
 * lbnn/ops/hardswish.py derives the formulas.
 */
#ifndef LBNN_HARDSWISH_H
#define LBNN_HARDSWISH_H

#include "lbnn_piecewise.h"

/* e^-t for 0 <= t <= 80 */
LBNN_INLINE lbnn_lanes lbnn_bell(lbnn_lanes t)
{
#ifdef LBNN_USE_LIBM
    return lbnn_lanes_apply(expf, -t);
#else
    return lbnn_exp2(1.44269504f * t);
#endif
}

/* The tail beyond x, where the density is `bell` / sqrt(2 pi), up to its fourth moment:
 *     Q = scale q,  I1 = scale i1,  J2 = 2 scale j2,  J3 = 6 scale j3,  J4 = 6 scale j4 */
typedef struct {
    lbnn_lanes scale, q, i1, j2, j3, j4;
} lbnn_long_tail;

/* From J4 / J3 = N / D downwards, k J(k-1) = x J(k) + J(k+1): nothing is subtracted. The ratio is good to 4e-7.
 * Its terms are divided by 2^20, or the scale would be a denormal 12 standard deviations away, and not every soft float
 * rounds those. */
LBNN_INLINE lbnn_long_tail lbnn_long_tail_of(lbnn_lanes x, lbnn_lanes bell)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes x2 = x * x;
    lbnn_long_tail tail;
    tail.j4 = (4.56796224e-5f + 3.80603342e-6f * x) * x2 + (8.17344466e-4f + 2.48990691e-4f * x);
    tail.j3 = (6.88920627e-5f + 1.13232818e-5f * x + 9.53674316e-7f * x2) * x2
              + (4.34764428e-4f + 2.40141206e-4f * x);
    tail.j2 = tail.j4 + x * tail.j3;
    tail.i1 = 3.0f * tail.j3 + x * tail.j2;
    tail.q = 2.0f * tail.j2 + x * tail.i1;
    tail.scale = LBNN_TAIL_FACTOR * bell / (tail.i1 + x * tail.q);
    return tail;
}

/* E and V with sigma and |E|; the tails beyond the kink that is nearer to E, x standard deviations away, and beyond the
 * other one, and `root`, sigma for their terms: 0 where there is none, because 0 times what overflows is NaN. */
typedef struct {
    lbnn_moments in;
    lbnn_lanes sigma, size, x, root;
    lbnn_mask negative;
    lbnn_long_tail nearer, further;
} lbnn_hardswish_input;

/* Both tails, or none where they are nothing. Their exponentials differ by e^(-6 |E| / V), so that an error of the first
 * one is common to all that follows. */
LBNN_INLINE void lbnn_hardswish_tails(lbnn_hardswish_input *a)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f), one = lbnn_lanes_fill(1.0f);
    const lbnn_lanes most = LBNN_TAIL_MAX * a->sigma;
    const lbnn_lanes close = lbnn_lanes_abs(a->size - 3.0f), distant = a->size + 3.0f;
    const lbnn_mask inside = lbnn_lanes_less(close, most), both = lbnn_lanes_less(distant, most);
    if (lbnn_lanes_worth(inside)) {
        a->x = lbnn_tail_place(lbnn_lanes_select(inside, close, zero), lbnn_lanes_select(inside, a->sigma, one));
        a->root = lbnn_lanes_select(inside, a->sigma, zero);
        const lbnn_lanes bell = lbnn_bell(0.5f * (a->x * a->x));
        a->nearer = lbnn_long_tail_of(a->x, lbnn_lanes_select(inside, bell, zero));
        if (lbnn_lanes_worth(both)) {
            const lbnn_lanes x = lbnn_tail_place(lbnn_lanes_select(both, distant, zero),
                                                 lbnn_lanes_select(both, a->sigma, one));
            const lbnn_lanes var = lbnn_lanes_select(both, a->in.var, one);
            /* At most 72 here; bounded, so that the exponent stays in its range whatever the bits are. */
            const lbnn_lanes apart = lbnn_bell(lbnn_lanes_at_most(lbnn_lanes_abs(6.0f * a->size / var), 80.0f));
            a->further = lbnn_long_tail_of(x, lbnn_lanes_select(both, bell * apart, zero));
        }
    }
}

/* x (x + 3) / 6, the constant last: multiplied into the sum by -ffast-math it would cancel near -3. */
LBNN_INLINE lbnn_lanes lbnn_hardswish_middle(lbnn_lanes x)
{
    return x * (x + 3.0f) * 0.16666667f;
}

/* The share of a tail in V' inside, alpha T1 + beta T2, with T1 = sigma I1 and T2 = V J2. */
LBNN_INLINE lbnn_lanes lbnn_hardswish_share(lbnn_lanes d, lbnn_lanes sign, lbnn_lanes u, lbnn_lanes var, lbnn_lanes t1,
                                            lbnn_lanes t2)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes k = 0.33333333f - 0.027777778f * d;
    const lbnn_lanes alpha = (u - 2.0f * var * k) - sign * (0.5f * d + 0.33333333f * var);
    const lbnn_lanes beta = (0.33333333f * u - 0.75f) + (d * k - 0.083333333f * var) - 0.5f * sign;
    return alpha * t1 + beta * t2;
}

/* |E| < 3, W = (T1 + T2 / 3) / 2 of both tails, u = V / 6 - (9 - E^2) / 6:
 *     E' = E (E + 3) / 6 + V / 6 - W
 *     V' = f'(E)^2 V + V^2 / 18 - W^2 + the shares of the tails */
LBNN_INLINE lbnn_moments lbnn_hardswish_inside(const lbnn_hardswish_input *a)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes mean = a->in.mean, var = a->in.var;
    const lbnn_lanes sixth = 0.16666667f * var, rise = mean + 1.5f; /* f' = rise / 3 */
    lbnn_moments out;
    out.mean = lbnn_hardswish_middle(mean);
    lbnn_lanes moved = sixth, spread = rise * rise * var * 0.11111111f + 0.33333333f * (sixth * var);
    if (lbnn_lanes_any(lbnn_lanes_less(lbnn_lanes_fill(0.0f), a->nearer.scale))) {
        const lbnn_lanes sign = lbnn_lanes_select(a->negative, lbnn_lanes_fill(-1.0f), lbnn_lanes_fill(1.0f));
        const lbnn_lanes close = 3.0f - a->size, distant = 3.0f + a->size;
        const lbnn_lanes u = sixth - 0.16666667f * (close * distant);
        const lbnn_lanes n1 = (a->sigma * a->nearer.scale) * a->nearer.i1, f1 = (a->sigma * a->further.scale) * a->further.i1;
        const lbnn_lanes twice = 2.0f * var;
        const lbnn_lanes n2 = (twice * a->nearer.scale) * a->nearer.j2, f2 = (twice * a->further.scale) * a->further.j2;
        const lbnn_lanes lost = 0.5f * (n1 + f1) + 0.16666667f * (n2 + f2);
        const lbnn_lanes beyond = lbnn_hardswish_share(close, sign, u, var, n1, n2)
                                  + lbnn_hardswish_share(distant, -sign, u, var, f1, f2);
        moved -= lost;
        spread += beyond - lost * lost;
    }
    out.mean += moved;
    out.var = spread;
    return out;
}

/* |E| >= 3, g = f for E < 0 and f - x for E > 0:
 *     E[g]   = T2 / 6 - T1 / 2 (near) - [T1 / 2 + T2 / 6] (far)
 *     E[g^2] = T2 / 4 - T3 / 6 + T4 / 36 (near) - [3 T1 + 9 T2 / 4 + T3 / 2 + T4 / 36] (far)
 *     E' = f(E) + E[g],   V' = E[g^2] - E[g]^2, and for E > 0: + V (1 + Q + Q - 2 (T1 - T1) / 3)
 * T1 to T4 of a tail have the common factor sigma scale, and T2 of the near one is V (J4 + x J3) / 3. */
LBNN_INLINE lbnn_moments lbnn_hardswish_outside(const lbnn_hardswish_input *a)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f), sigma = a->root, var = a->in.var;
    const lbnn_lanes line = lbnn_lanes_select(a->negative, zero, lbnn_lanes_fill(1.0f));
    lbnn_moments out;
    out.mean = line * a->in.mean;
    out.var = line * a->in.var;
    if (lbnn_lanes_any(lbnn_lanes_less(zero, a->nearer.scale))) {
        const lbnn_long_tail *one = &a->nearer, *other = &a->further;
        const lbnn_lanes n = sigma * one->scale, f = sigma * other->scale, third = 0.33333333f * sigma;
        const lbnn_lanes n1 = n * one->i1, f1 = f * other->i1;
        const lbnn_lanes first = n * (third * one->j2 - 0.5f * one->i1) - f * (third * other->j2 + 0.5f * other->i1);
        const lbnn_lanes square = sigma * (one->j4 * (0.16666667f * var + 0.5f) + one->j3 * (0.5f * a->x - sigma));
        const lbnn_lanes rest = 3.0f * other->i1 + 4.5f * sigma * other->j2
                                + var * (3.0f * other->j3 + 0.16666667f * sigma * other->j4);
        const lbnn_lanes more = one->scale * one->q + other->scale * other->q - 0.66666667f * (n1 - f1);
        out.mean += first;
        out.var += line * (var * more) + ((n * square - f * rest) - first * first);
    }
    return out;
}

/* Beside a sigma that is large beside the kinks, f = max(x, 0) - b, where b = |x| (3 - |x|) / 6 within 3 of zero and the
 * density at 3 v is phi(|E| / sigma) / sigma sum c_n v^n:
 *     E' = E[max] - B,   V' = V[max] + 2 B E[max] - B^2 - C
 * with B and C the means of b and of 2 b max(x, 0) - b^2, sums of c_n with fractions. */
LBNN_INLINE lbnn_moments lbnn_hardswish_bump(const lbnn_hardswish_input *a, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f), one = lbnn_lanes_fill(1.0f), var = a->in.var;
    const lbnn_mask inside = lbnn_lanes_less(a->size, LBNN_TAIL_MAX * a->sigma);
    const lbnn_lanes sigma = lbnn_lanes_select(inside, a->sigma, one);
    const lbnn_lanes x = lbnn_tail_place(lbnn_lanes_select(inside, a->size, zero), sigma);
    const lbnn_tail_moments tail = lbnn_tail(x, c);
    const lbnn_lanes scale = lbnn_lanes_select(inside, lbnn_lanes_fill(LBNN_TAIL_FACTOR), zero) * tail.scale;
    const lbnn_lanes i1 = scale * tail.i1, line = lbnn_lanes_select(a->negative, zero, one);
    const lbnn_lanes mean = line * a->in.mean + a->sigma * i1;
    const lbnn_lanes ratio = line + scale * (tail.j2 - 2.0f * line * tail.q) - i1 * i1;
    const lbnn_lanes w = 3.0f / sigma, s = w * w, t = lbnn_lanes_select(a->negative, -w, w) * x;
    const lbnn_lanes c2 = 0.5f * (t * t - s);
    const lbnn_lanes c3 = 0.33333333f * (t * c2 - s * t);
    const lbnn_lanes c4 = 0.25f * (t * c3 - s * c2);
    const lbnn_lanes c5 = 0.2f * (t * c4 - s * c3);
    const lbnn_lanes c6 = 0.16666667f * (t * c5 - s * c4);
    const lbnn_lanes c7 = 0.14285714f * (t * c6 - s * c5);
    const lbnn_lanes c8 = 0.125f * (t * c7 - s * c6);
    const lbnn_lanes density = (0.33333333f * w) * (scale * (tail.i1 + x * tail.q));
    const lbnn_lanes bump = density * (1.5f + 0.45f * c2 + 0.21428571f * c4 + (0.125f * c6 + 0.081818182f * c8));
    const lbnn_lanes more = 0.42857143f * c4 + 0.375f * c5 + (0.27272727f * c6 + 0.24545455f * c7 + 0.18881119f * c8);
    const lbnn_lanes cross = density * (1.8f + 1.35f * t + (0.77142857f * c2 + 0.64285714f * c3 + more));
    lbnn_moments out;
    out.mean = mean - bump;
    out.var = var * ratio + ((mean * (2.0f * bump) - bump * bump) - cross);
    return out;
}

/* The moments of f(a): by the series where 6 (|E| + sigma) < 1.4 V, elsewhere from E's own piece outwards. */
LBNN_INLINE lbnn_moments lbnn_hardswish_of(lbnn_moments in, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_long_tail nothing = {zero, zero, zero, zero, zero, zero};
    lbnn_hardswish_input a;
    a.in = in;
    a.sigma = lbnn_lanes_sqrt(in.var);
    a.size = lbnn_lanes_abs(in.mean);
    a.x = zero;
    a.root = zero;
    a.negative = lbnn_lanes_less(in.mean, zero);
    a.nearer = nothing;
    a.further = nothing;
    const lbnn_mask wide = lbnn_lanes_less(4.2857143f * (a.size + a.sigma), in.var);
    lbnn_moments out = in;
    if (!lbnn_lanes_every(wide)) {
        const lbnn_mask between = lbnn_lanes_less(a.size, lbnn_lanes_fill(3.0f));
        lbnn_hardswish_tails(&a);
        if (!lbnn_lanes_every(between)) {
            out = lbnn_hardswish_outside(&a);
        }
        if (lbnn_lanes_any(between)) {
            const lbnn_moments inner = lbnn_hardswish_inside(&a);
            out.mean = lbnn_lanes_select(between, inner.mean, out.mean);
            out.var = lbnn_lanes_select(between, inner.var, out.var);
        }
    }
    if (lbnn_lanes_any(wide)) {
        const lbnn_moments bump = lbnn_hardswish_bump(&a, c);
        out.mean = lbnn_lanes_select(wide, bump.mean, out.mean);
        out.var = lbnn_lanes_select(wide, bump.var, out.var);
    }
    out.var = lbnn_lanes_select(lbnn_lanes_less(out.var, zero), zero, out.var);
    return out;
}

/* f(x) */
LBNN_KERNEL void lbnn_hardswish_point(float *x, int n)
{
    for (int i = 0; i < n; i += LBNN_LANES) {
        const lbnn_lanes at = lbnn_lanes_load(x + i, n - i);
        const lbnn_mask negative = lbnn_lanes_less(at, lbnn_lanes_fill(0.0f));
        const lbnn_lanes line = at * lbnn_lanes_select(negative, lbnn_lanes_fill(0.0f), lbnn_lanes_fill(1.0f));
        const lbnn_mask between = lbnn_lanes_less(lbnn_lanes_abs(at), lbnn_lanes_fill(3.0f));
        lbnn_lanes_store(x + i, lbnn_lanes_select(between, lbnn_hardswish_middle(at), line), n - i);
    }
}

/* The moments of f(a) for a ~ N(E, V). */
LBNN_KERNEL void lbnn_hardswish(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n)
{
    if (!LBNN_VARIANCE) {
        lbnn_hardswish_point(mean, n);
        return;
    }
    const lbnn_tail_odd c = lbnn_tail_prepare();
    for (int i = 0; i < n; i += LBNN_LANES) {
        lbnn_moments x;
        x.mean = lbnn_lanes_load(mean + i, n - i);
        x.var = lbnn_lanes_load(var + i, n - i);
        x = lbnn_hardswish_of(x, c);
        lbnn_lanes_store(mean + i, x.mean, n - i);
        lbnn_lanes_store(var + i, x.var, n - i);
    }
}

#endif
