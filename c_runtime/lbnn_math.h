/* lbnn_math.h: the few transcendental functions the kernels need, in float only.
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

#include "lbnn.h"

#include <math.h> /* sqrtf; with LBNN_USE_LIBM also expf, log1pf, erfcf */

LBNN_INLINE uint32_t lbnn_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LBNN_INLINE float lbnn_float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^t for -126 <= t <= 0: t = n + f with n its integer part and -1 < f <= 0; 2^f by a polynomial
 * (relative error 1e-7), 2^n added to the exponent field. */
LBNN_INLINE float lbnn_exp2(float t)
{
    const int32_t n = (int32_t)t;
    const float f = t - (float)n;
    float p = 9.4490324e-4f;
    p = p * f + 9.2057968e-3f;
    p = p * f + 5.5297356e-2f;
    p = p * f + 2.4018015e-1f;
    p = p * f + 6.9314373e-1f;
    p = p * f + 1.0f;
    return lbnn_float_from_bits(lbnn_float_bits(p) + ((uint32_t)n << 23));
}

/* e^x for x <= 0; below -87, where floats end, it stays at e^-87 = 1.6e-38. */
LBNN_INLINE float lbnn_exp(float x)
{
#ifdef LBNN_USE_LIBM
    return expf(x);
#else
    return lbnn_exp2(1.44269504f * (x > -87.0f ? x : -87.0f));
#endif
}

/* log(1 + u) for 0 <= u <= 1, relative error 2e-7: 2 artanh(w) with w = u / (2 + u) <= 1/3. */
LBNN_INLINE float lbnn_log1p(float u)
{
#ifdef LBNN_USE_LIBM
    return log1pf(u);
#else
    const float w = u / (2.0f + u);
    const float q = w * w;
    float p = 3.3983505e-1f;
    p = p * q + 3.9635977e-1f;
    p = p * q + 6.6673481e-1f;
    p = p * q + 2.0f;
    return p * w;
#endif
}

/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|) */
LBNN_INLINE float lbnn_softplus(float x)
{
    return (x > 0.0f ? x : 0.0f) + lbnn_log1p(lbnn_exp(x > 0.0f ? -x : x));
}

/* ---- the normal distribution beyond x --------------------------------------------------------- */

/* For Z ~ N(0, 1) and x >= 0, with phi the density at x:
 *     q  = P(Z > x)
 *     i1 = E[max(Z - x, 0)]    = phi - x q
 *     j2 = E[max(Z - x, 0)^2]  = (1 + x^2) q - x phi                                             */
typedef struct {
    float q, i1, j2;
} lbnn_tail_moments;

/* Beyond this everything is below 2e-32 and all products are still normal floats. */
#define LBNN_TAIL_MAX 12.0f

/* The differences above cancel as x grows (j2 ~ 2 phi / x^3), so none is taken. The identities
 * (1 + x^2) i1 + x j2 = phi and q = j2 + x i1 hold exactly if, for any polynomials N and P,
 *     T = P + x N,   D = N + x T,   i1 = phi N / D,   j2 = phi P / D,   q = phi T / D
 * and N, P of degree 4 and 3, all coefficients positive, give j2 to a relative 2e-7 for x < 5.5 and
 * 2e-6 up to LBNN_TAIL_MAX, i1 and q better: one exponential, one division, nothing subtracted.
 *
 * Tried and lost: the Mills ratio alone (variance off by 1.4e-5 at slope 0.01); j2 / phi as a
 * polynomial in 1 / (x + d) (degree 7, two divisions, 6e-7); a table of cubics for i1 and j2 (needs
 * 96 intervals, 3 KB, for the same accuracy). */
LBNN_INLINE lbnn_tail_moments lbnn_tail(float x)
{
    float n = x + 9.7431605f;
    n = n * x + 46.980959f;
    n = n * x + 125.99522f;
    n = n * x + 166.60709f;
    float p = 1.9977728f;
    p = p * x + 19.576412f;
    p = p * x + 86.404995f;
    p = p * x + 208.81098f;
    const float t = p + x * n;
    const float d = n + x * t;
    lbnn_tail_moments tail;
#ifdef LBNN_USE_LIBM
    const float phi_d = 0.39894228f * expf(-0.5f * x * x) / d;
    tail.q = 0.5f * erfcf(0.70710678f * x);
#else
    /* phi = 2^(-x^2 log2(e) / 2 - log2(sqrt(2 pi))) */
    const float phi_d = lbnn_exp2(-0.72134752f * x * x - 1.3257481f) / d;
    tail.q = phi_d * t;
#endif
    tail.i1 = phi_d * n;
    tail.j2 = phi_d * p;
    return tail;
}

#endif
