/* real.h: a number in float64 that knows what float32 may make of it.
 *
 * A kernel's formula, written with these functions in the kernel's order of operations, gives for each result
 *
 *     value   what the formula is, to float64
 *     error   how far a float32 computation may be from it (running error analysis: every operation rounds by half
 *             a unit in the last place, or by half of the least denormal; fused operations round less)
 *     over    float32 may overflow on the way, so that nothing is promised but a result that is not hidden
 *     bad     an input that the result depends on is not finite, so the result must not be finite either
 */
#ifndef FUZZ_REAL_H
#define FUZZ_REAL_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    double value, error;
    int over, bad;
} real;

#define REAL_UNIT 5.9604650e-8 /* 2^-24 and a little, which covers the rounding of this arithmetic itself */
#define REAL_LEAST 1.4012985e-45

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline int is_finite(float x)
{
    return (bits_of(x) & 0x7f800000u) != 0x7f800000u;
}

static inline real real_unknown(int bad)
{
    const real x = {0.0, 0.0, 1, bad};
    return x;
}

static inline real real_of(float x)
{
    const real exact = {(double)x, 0.0, 0, 0};
    return is_finite(x) ? exact : real_unknown(1);
}

/* A number that is known, and computed in float32, to a relative error. */
static inline real real_near(double value, double relative)
{
    const real x = {value, relative * fabs(value) + REAL_LEAST, 0, 0};
    return fabs(value) + x.error < (double)FLT_MAX ? x : real_unknown(0);
}

/* The float32 nearest to a result that is off by `error` already. */
static inline real real_rounded(real x, real y, double value, double error)
{
    const double size = fabs(value) + error;
    const real rounded = {value, error + REAL_UNIT * size + REAL_LEAST, 0, 0};
    const int over = x.over || y.over || !(size + rounded.error < (double)FLT_MAX);
    return over ? real_unknown(x.bad || y.bad) : rounded;
}

static inline real real_add(real x, real y)
{
    return real_rounded(x, y, x.value + y.value, x.error + y.error);
}

static inline real real_mul(real x, real y)
{
    const double error = fabs(x.value) * y.error + fabs(y.value) * x.error + x.error * y.error;
    return real_rounded(x, y, x.value * y.value, error);
}

static inline real real_negative(real x)
{
    x.value = -x.value;
    return x;
}

static inline real real_sub(real x, real y)
{
    return real_add(x, real_negative(y));
}

#endif
