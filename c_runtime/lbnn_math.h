/* lbnn_math.h: the few transcendental functions the kernels need, in float only, each on lbnn_lanes.
 *
 *     lbnn_exp(x)          e^x for x <= 0
 *     lbnn_softplus(x)     log(1 + e^x)
 *     lbnn_tail(x)         Q, I1, J2 of the standard normal beyond x, for 0 <= x <= LBNN_TAIL_MAX
 *
 * Nothing here relies on rounding tricks that -ffast-math may remove, on signed overflow or on
 * type punning through pointers.
 */
#ifndef LBNN_MATH_H
#define LBNN_MATH_H

#include "lbnn_lanes.h"

#ifdef LBNN_USE_LIBM
/* A function of libm on each lane. */
LBNN_INLINE lbnn_lanes lbnn_lanes_apply(float (*function)(float), lbnn_lanes x)
{
    float y[LBNN_LANES];
    lbnn_lanes_store(y, x, LBNN_LANES);
    for (int i = 0; i < LBNN_LANES; i++) {
        y[i] = function(y[i]);
    }
    return lbnn_lanes_load(y, LBNN_LANES);
}
#endif

/* 2^-t for 0 <= t < 126: t = n - f with n its integer part and -1 < f <= 0; 2^f by a polynomial
 * (relative error 1e-7), n taken from the exponent field. */
LBNN_INLINE lbnn_lanes lbnn_exp2(lbnn_lanes t)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_integers n = lbnn_lanes_integer(t);
    const lbnn_lanes f = lbnn_lanes_float(n) - t;
#ifdef LBNN_HELIUM /* fused, each constant in a register of the core */
    lbnn_lanes p = vfmasq_n_f32(lbnn_lanes_fill(9.4490324e-4f), f, 9.2057968e-3f);
    p = vfmasq_n_f32(p, f, 5.5297356e-2f);
    p = vfmasq_n_f32(p, f, 2.4018015e-1f);
    p = vfmasq_n_f32(p, f, 6.9314373e-1f);
    p = vfmasq_n_f32(p, f, 1.0f);
#else
    const lbnn_lanes f2 = f * f;
    const lbnn_lanes p = ((9.2057968e-3f + 9.4490324e-4f * f) * f2 + (2.4018015e-1f + 5.5297356e-2f * f)) * f2
                         + (1.0f + 6.9314373e-1f * f);
#endif
    return lbnn_lanes_scale(p, n);
}

/* The normal density, 2^-t / sqrt(2 pi), with a table instead of half of the polynomial, for 0 <= t < 124 in units of 1 / 32:
 * 9 instructions less on a Cortex-M4F, and 128 bytes. Not with vector registers, which would gather, nor where all machines
 * give the same bits. Relative error 1.2e-7: a parabola through the zeros of the Chebyshev polynomial is off by 5.4e-8, the
 * rest is rounding. */
#if !defined(LBNN_SIMD) && !defined(LBNN_STRICT) && !defined(LBNN_USE_LIBM) && !defined(LBNN_OPTIMIZE_SIZE)
#define LBNN_DENSITY_STEPS 1

/* The bits of 2^(-i / 32) / sqrt(2 pi) with i << 18 added, which taking n << 18 from them takes away again for n = i, i + 32,
 * ... */
static const uint32_t lbnn_density_steps[32] LBNN_UNUSED LBNN_FLASH = {
    0x3ecc4229, 0x3ecbe1b1, 0x3ecb993b, 0x3ecb6843, 0x3ecb4e4a, 0x3ecb4ad0, 0x3ecb5d5a, 0x3ecb8570,
    0x3ecbc29c, 0x3ecc1469, 0x3ecc7a66, 0x3eccf425, 0x3ecd813a, 0x3ece2139, 0x3eced3bd, 0x3ecf985e,
    0x3ed06eba, 0x3ed1566f, 0x3ed24f1f, 0x3ed3586b, 0x3ed471f9, 0x3ed59b70, 0x3ed5a8f2, 0x3ed4397b,
    0x3ed2e7d5, 0x3ed1b35c, 0x3ed09b71, 0x3ecf9f76, 0x3ecebed3, 0x3ecdf8f1, 0x3ecd4d3e, 0x3eccbb2a,
};

/* The coefficients of the parabola and the table's address, to be kept in registers through a loop. */
typedef struct {
    float first, second;
    const uint32_t *steps;
} lbnn_density_curve;

LBNN_INLINE lbnn_density_curve lbnn_density_prepare(void)
{
    lbnn_density_curve c = {-0.0216599052f, 0.000232070845f, lbnn_density_steps};
    LBNN_PIN(c.first);
    LBNN_PIN(c.second);
    LBNN_HOLD(c.steps);
    return c;
}

LBNN_INLINE float lbnn_density_by_steps(float t, lbnn_density_curve c)
{
#ifdef LBNN_CONVERT_ASM
    float whole;
    LBNN_CONVERT_ASM("s32.f32", whole, t);
    const int32_t n = (int32_t)lbnn_float_bits(whole);
    LBNN_CONVERT_ASM("f32.s32", whole, whole);
#else
    const int32_t n = LBNN_AS(int32_t, t);
    const float whole = LBNN_AS(float, n);
#endif
    const float rest = t - whole;
    const float step = lbnn_bits_float(LBNN_READ_WORD(c.steps[n & 31]) - (LBNN_AS(uint32_t, n) << 18));
    return step + step * (rest * (c.first + c.second * rest));
}
#endif

/* e^x for x <= 0; below -87, where floats end, it stays at e^-87 = 1.6e-38, and so it is for NaN, which has no
 * integer part. */
LBNN_INLINE lbnn_lanes lbnn_exp(lbnn_lanes x)
{
#ifdef LBNN_USE_LIBM
    return lbnn_lanes_apply(expf, x);
#else
    return lbnn_exp2(-1.44269504f * lbnn_lanes_at_least(x, -87.0f));
#endif
}

/* log(1 + u) for 0 <= u <= 1, relative error 2e-7: 2 artanh(w / 2) with w = u / (1 + u / 2) <= 2/3.
 * w / 2 itself would be a denormal at the end of lbnn_exp, and not every soft-float division rounds those. */
LBNN_INLINE lbnn_lanes lbnn_log1p(lbnn_lanes u)
{
    LBNN_ROUND_PRODUCTS
#ifdef LBNN_USE_LIBM
    return lbnn_lanes_apply(log1pf, u);
#else
    const lbnn_lanes w = lbnn_lanes_over(u, 1.0f + 0.5f * u);
    const lbnn_lanes q = w * w;
    return w * ((1.2386243e-2f + 2.6549613e-3f * q) * (q * q) + (1.0f + 8.334185e-2f * q));
#endif
}

/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|). The maximum is x / 2 + |x| / 2, the same bits as a comparison gives but
 * for -infinity: that is a sum that overflowed on its way, perhaps not a negative one, so the result is NaN. */
LBNN_INLINE lbnn_lanes lbnn_softplus(lbnn_lanes x)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes size = lbnn_lanes_abs(x);
    return (0.5f * x + 0.5f * size) + lbnn_log1p(lbnn_exp(-size));
}

/* ---- the normal distribution beyond x --------------------------------------------------------- */

/* For Z ~ N(0, 1) and x >= 0, with phi the density at x:
 *     Q  = P(Z > x)                                 = LBNN_TAIL_FACTOR * scale * q
 *     I1 = E[max(Z - x, 0)]   = phi - x Q           = LBNN_TAIL_FACTOR * scale * i1
 *     J2 = E[max(Z - x, 0)^2] = (1 + x^2) Q - x phi = LBNN_TAIL_FACTOR * scale * j2
 * The common factors are left out because callers have a product of their own to fold them into. */
typedef struct {
    lbnn_lanes scale, q, i1, j2;
} lbnn_tail_moments;

#define LBNN_TAIL_FACTOR 0.39894228f /* 1 / sqrt(2 pi) */

/* Beyond this everything is below 1e-32. */
#define LBNN_TAIL_MAX 12.0f

/* Where a tail begins, for 0 <= ahead < LBNN_TAIL_MAX sigma, which the caller has compared: that keeps the exponent of
 * the tail in its range. */
LBNN_INLINE lbnn_lanes lbnn_tail_place(lbnn_lanes ahead, lbnn_lanes sigma)
{
    return lbnn_lanes_over(ahead, sigma);
}

/* The differences above cancel as x grows (J2 ~ 2 phi / x^3), so none is taken. The identities
 * (1 + x^2) I1 + x J2 = phi and Q = J2 + x I1 hold exactly if, for any polynomials N and P,
 *     T = P + x N,   D = N + x T,   I1 = phi N / D,   J2 = phi P / D,   Q = phi T / D
 * and N, P of degree 4 and 3, all coefficients positive, give J2 to a relative 2e-7 for x < 5.5 and
 * 2e-6 up to LBNN_TAIL_MAX, I1 and Q better: one exponential, one division, nothing subtracted.
 * Even and odd powers are summed apart: a fused multiply-add into a constant costs a move first, one
 * into a sum does not.
 *
 * Tried and lost: the Mills ratio alone (variance off by 1.4e-5 at slope 0.01); J2 / phi as a
 * polynomial in 1 / (x + d) (degree 7, two divisions, 6e-7); a table of cubics for I1 and J2 (needs
 * 96 intervals, 3 KB, for the same accuracy). */
typedef struct {
    float n1, n3, p1, p3;
} lbnn_tail_odd;

/* The coefficients of N and P that multiply x, to be kept in registers through a loop. */
LBNN_INLINE lbnn_tail_odd lbnn_tail_prepare(void)
{
    lbnn_tail_odd c = {125.99522f, 9.7431605f, 86.404995f, 1.9977728f};
    LBNN_PIN(c.n1);
    LBNN_PIN(c.n3);
    LBNN_PIN(c.p1);
    LBNN_PIN(c.p3);
    return c;
}

LBNN_INLINE lbnn_tail_moments lbnn_tail(lbnn_lanes x, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes x2 = x * x;
#ifdef LBNN_HELIUM
    const lbnn_lanes n2 = vfmasq_n_f32(x + c.n3, x, 46.980959f);
    const lbnn_lanes n = vfmasq_n_f32(vfmasq_n_f32(n2, x, c.n1), x, 166.60709f);
    const lbnn_lanes p2 = vfmasq_n_f32(lbnn_lanes_fill(c.p3), x, 19.576412f);
    const lbnn_lanes p = vfmasq_n_f32(vfmasq_n_f32(p2, x, c.p1), x, 208.81098f);
    const lbnn_lanes t = lbnn_lanes_add(p, x, n);
    const lbnn_lanes d = lbnn_lanes_add(n, x, t);
#else
    const lbnn_lanes n = (46.980959f + c.n3 * x + x2) * x2 + (166.60709f + c.n1 * x);
    const lbnn_lanes p = (19.576412f + c.p3 * x) * x2 + (208.81098f + c.p1 * x);
    const lbnn_lanes t = p + x * n;
    const lbnn_lanes d = n + x * t;
#endif
    lbnn_tail_moments tail;
#ifdef LBNN_USE_LIBM
    tail.scale = lbnn_lanes_apply(expf, -0.5f * x2) / d;
    tail.q = 0.5f / LBNN_TAIL_FACTOR * lbnn_lanes_apply(erfcf, 0.70710678f * x) / tail.scale;
#else
    tail.scale = lbnn_lanes_over(lbnn_exp2(0.72134752f * x2), d); /* e^(-x^2 / 2) / d */
    tail.q = t;
#endif
    tail.i1 = n;
    tail.j2 = p;
    return tail;
}

#endif
