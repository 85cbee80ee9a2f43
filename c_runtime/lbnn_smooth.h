/* lbnn_smooth.h: smooth activations f(scale x) / scale, on moments and on points, in place.
 *
 *     lbnn_smooth(mean, var, n, table, function, scale)     moments of a Gaussian input
 *     lbnn_smooth_point(x, n, function, scale)              input without variance
 *
 * `function` is one of LBNN_SIGMOID ... LBNN_GELU_TANH, `table` the LBNN_SMOOTH_LEN numbers of its wide rule.
 * lbnn/ops/smooth_rule.py derives the rule, tools/derive/smooth_constants.py the constants. A compiler that sees one
 * function in all calls leaves the code of the others out.
 */
#ifndef LBNN_SMOOTH_H
#define LBNN_SMOOTH_H

#include "lbnn_math.h"

#define LBNN_SIGMOID 0
#define LBNN_TANH 1
#define LBNN_SILU 2
#define LBNN_SOFTPLUS 3
#define LBNN_GELU 4
#define LBNN_GELU_TANH 5

/* The table: numbers of the function, its line on the left and on the right, then a row for each fixed point. */
#define LBNN_SMOOTH_LIMIT 0  /* of the variance, for the narrow rule alone */
#define LBNN_SMOOTH_GROWTH 1 /* what it gains with |E|, */
#define LBNN_SMOOTH_NEAR 2   /* from here on */
#define LBNN_SMOOTH_FIRST 3  /* the first fixed point */
#define LBNN_SMOOTH_STEP 4   /* to the next one */
#define LBNN_SMOOTH_END 5    /* half a step behind the last one */
#define LBNN_SMOOTH_SIDES 6  /* slope and height of a line, slope and start of g beyond the end; twice */
#define LBNN_SMOOTH_ROWS 14  /* g and its slope, seen from the left and from the right */
#define LBNN_SMOOTH_POINTS 23
#define LBNN_SMOOTH_LEN (LBNN_SMOOTH_ROWS + 4 * LBNN_SMOOTH_POINTS)

#define LBNN_SMOOTH_MIXED 1.5f /* times the limit: from here on the wide rule alone */
#define LBNN_SMOOTH_FAR 11.0f  /* of the normal tail, 2e-28: further out quotients are denormal */

/* A function at a point. */
typedef struct {
    lbnn_lanes value, slope;
} lbnn_curve;

/* e^-x for x >= 0, and 0 where floats end */
LBNN_INLINE lbnn_lanes lbnn_smooth_exp(lbnn_lanes x)
{
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_mask inside = lbnn_lanes_less(x, lbnn_lanes_fill(87.0f));
    const lbnn_lanes within = lbnn_lanes_at_most(x, 87.0f);
#ifdef LBNN_USE_LIBM
    return lbnn_lanes_select(inside, lbnn_exp(-within), zero);
#else
    return lbnn_lanes_select(inside, lbnn_exp2(1.44269504f * within), zero);
#endif
}

/* tanh(x) of x >= 0 from q = 1 / (1 + e^2x), or by an odd polynomial where 1 - 2q cancels. */
LBNN_INLINE lbnn_lanes lbnn_smooth_tanh(lbnn_lanes x, lbnn_lanes q)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_mask small = lbnn_lanes_less(x, lbnn_lanes_fill(0.6f));
    lbnn_lanes t = 1.0f - 2.0f * q;
    if (lbnn_lanes_worth(small)) {
        const lbnn_lanes x2 = x * x;
        const lbnn_lanes p = ((0.021110959f + -0.00626911972f * x2) * x2 + -0.0538739488f) * x2;
        t = lbnn_lanes_select(small, x + x * x2 * ((p + 0.133329154f) * x2 + -0.333333303f), t);
    }
    return t;
}

/* x Phi(x) and Phi + x phi, with Q of the normal tail beyond |x| and phi = I1 + |x| Q */
LBNN_INLINE lbnn_curve lbnn_smooth_gelu(lbnn_lanes x, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_lanes size = lbnn_lanes_abs(x);
    const lbnn_mask inside = lbnn_lanes_less(size, lbnn_lanes_fill(LBNN_SMOOTH_FAR));
    const lbnn_lanes within = lbnn_lanes_at_most(size, LBNN_SMOOTH_FAR);
    const lbnn_tail_moments tail = lbnn_tail(within, c);
    const lbnn_lanes scale = lbnn_lanes_select(inside, lbnn_lanes_fill(LBNN_TAIL_FACTOR), zero) * tail.scale;
    const lbnn_lanes q = scale * tail.q;
    const lbnn_lanes density = scale * tail.i1 + within * q;
    const lbnn_lanes below = lbnn_lanes_select(lbnn_lanes_less(x, zero), q, 1.0f - q);
    lbnn_curve curve;
    curve.value = x * below;
    curve.slope = below + x * density;
    return curve;
}

/* x sigmoid(w) with w = x (A + B x^2), which is the argument of the logistic function; w' = A + 3 B x^2 */
#define LBNN_GELU_A 1.5957691f
#define LBNN_GELU_B 0.071354816f

/* Everything but GELU is made of q = e^-|w| / (1 + e^-|w|), w = x, 2 x or GELU's polynomial: the small side of the
 * logistic function, whose slope is q (1 - q). */
LBNN_INLINE lbnn_curve lbnn_smooth_curve(lbnn_lanes x, int function, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    if (function == LBNN_GELU) {
        return lbnn_smooth_gelu(x, c);
    }
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_mask negative = lbnn_lanes_less(x, zero);
    const lbnn_lanes size = lbnn_lanes_abs(x);
    lbnn_lanes w = function == LBNN_TANH ? 2.0f * size : size;
    lbnn_lanes rate = zero;
    if (function == LBNN_GELU_TANH) {
        const lbnn_lanes near = lbnn_lanes_at_most(size, LBNN_SMOOTH_FAR);
        const lbnn_lanes square = near * near;
        w = near * (LBNN_GELU_A + LBNN_GELU_B * square);
        rate = LBNN_GELU_A + 3.0f * LBNN_GELU_B * square;
    }
    const lbnn_lanes e = lbnn_smooth_exp(w);
    const lbnn_lanes q = e / (1.0f + e);
    const lbnn_lanes s = lbnn_lanes_select(negative, q, 1.0f - q);
    lbnn_curve curve;
    curve.value = s;
    curve.slope = q * (1.0f - q);
    if (function == LBNN_TANH) {
        const lbnn_lanes t = lbnn_smooth_tanh(size, q);
        curve.value = lbnn_lanes_select(negative, -t, t);
        curve.slope = 4.0f * curve.slope;
    } else if (function == LBNN_SILU) {
        curve.value = x * s;
        curve.slope = s + x * curve.slope;
    } else if (function == LBNN_SOFTPLUS) {
        curve.value = lbnn_lanes_select(negative, zero, x) + lbnn_log1p(e);
        curve.slope = s;
    } else if (function == LBNN_GELU_TANH) {
        curve.value = x * s;
        curve.slope = s + x * (curve.slope * rate);
    } else {
        /* the sigmoid, as it is */
    }
    return curve;
}

/* Moments on their way through. */
typedef struct {
    lbnn_lanes mean, var;
} lbnn_smooth_moments;

/* The points and weights of the Gauss-Hermite rule, from the middle outwards; the middle has no weight in a difference
 * from it. */
#define LBNN_SMOOTH_NODES 11
static const float lbnn_smooth_z[LBNN_SMOOTH_NODES] LBNN_UNUSED LBNN_FLASH = {
    0.0f,
    0.928868997f, -0.928868997f,
    1.87603502f, -1.87603502f,
    2.86512316f, -2.86512316f,
    3.93616661f, -3.93616661f,
    5.18800122f, -5.18800122f,
};
static const float lbnn_smooth_w[LBNN_SMOOTH_NODES] LBNN_UNUSED LBNN_FLASH = {
    0.0f,
    0.2422403f, 0.2422403f,
    0.0661387461f, 0.0661387461f,
    0.00672028524f, 0.00672028524f,
    0.00019567193f, 0.00019567193f,
    8.12184979e-07f, 8.12184979e-07f,
};

/* Of the slopes at these points V' / V: the squares of two triangles, of their sums above and below the middle and of
 * their differences. */
LBNN_INLINE lbnn_lanes lbnn_smooth_variance(const lbnn_lanes *f, lbnn_lanes sigma)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes s1 = f[1] + f[2], s2 = f[3] + f[4], s3 = f[5] + f[6], s4 = f[7] + f[8], s5 = f[9] + f[10];
    const lbnn_lanes d1 = f[1] - f[2], d2 = f[3] - f[4], d3 = f[5] - f[6], d4 = f[7] - f[8], d5 = f[9] - f[10];
    const lbnn_lanes a0 = 0.42747167f * f[0] + 0.185380443f * s1 + 0.0304495495f * s2 + 0.00248465463f * s3
                          + 3.39172634e-05f * s4 + 8.07502322e-07f * s5;
    const lbnn_lanes a1 = 0.178420174f * s1 + 0.0488267017f * s2 + 0.00253539131f * s3
                          + 0.000126300205f * s4 - 1.81470096e-06f * s5;
    const lbnn_lanes a2 = 0.0880200217f * s2 + 0.010561606f * s3 + 0.000108140535f * s4 + 3.51255379e-06f * s5;
    const lbnn_lanes a3 = 0.0251734391f * s3 + 0.00109835379f * s4 - 2.16129406e-06f * s5;
    const lbnn_lanes a4 = 0.00380528559f * s4 + 3.60695997e-05f * s5;
    const lbnn_lanes a5 = 0.00021435831f * s5;
    const lbnn_lanes b1 = 0.199465857f * d1 + 0.0468012359f * d2 + 0.0030011566f * d3
                          + 8.61148535e-05f * d4 - 1.90864016e-07f * d5;
    const lbnn_lanes b2 = 0.0898676683f * d2 + 0.0101700433f * d3 + 0.000141909062f * d4 + 2.07405976e-06f * d5;
    const lbnn_lanes b3 = 0.0253701476f * d3 + 0.00106651538f * d4 - 9.92607837e-07f * d5;
    const lbnn_lanes b4 = 0.00381984741f * d4 + 3.50168918e-05f * d5;
    const lbnn_lanes b5 = 0.000214810309f * d5;
    const lbnn_lanes rows[LBNN_SMOOTH_NODES] = {a0, a1, a2, a3, a4, a5, b1, b2, b3, b4, b5};
    lbnn_lanes total = lbnn_lanes_fill(0.0f);
    for (int i = 0; i < LBNN_SMOOTH_NODES; i++) {
        const lbnn_lanes row = sigma * rows[i]; /* before it is squared, where it may be too small */
        total = total + row * row;
    }
    return total;
}

/* E' = f(E) + sum w (f(E + sigma z) - f(E)),  V' = V sum (triangles * slopes)^2 */
LBNN_INLINE lbnn_smooth_moments lbnn_smooth_narrow(lbnn_lanes mean, lbnn_lanes var, int function, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes sigma = lbnn_lanes_sqrt(var);
    lbnn_lanes centre = lbnn_lanes_fill(0.0f);
    lbnn_lanes rise = lbnn_lanes_fill(0.0f);
    lbnn_lanes slopes[LBNN_SMOOTH_NODES];
    for (int i = 0; i < LBNN_SMOOTH_NODES; i++) {
        const lbnn_curve here = lbnn_smooth_curve(mean + LBNN_READ(lbnn_smooth_z[i]) * sigma, function, c);
        centre = i == 0 ? here.value : centre;
        rise = rise + LBNN_READ(lbnn_smooth_w[i]) * (here.value - centre);
        slopes[i] = here.slope;
    }
    lbnn_smooth_moments out;
    out.mean = centre + rise;
    out.var = lbnn_smooth_variance(slopes, sigma);
    return out;
}

/* E g, E g^2 and E g' of what is left when the line on E's side is taken off. */
typedef struct {
    lbnn_lanes first, second, bent;
} lbnn_smooth_rest;

/* The number that belongs to the side of E. */
LBNN_INLINE lbnn_lanes lbnn_smooth_seen(const float *row, lbnn_mask left)
{
#ifdef LBNN_SIMD
    return lbnn_lanes_select(left, lbnn_lanes_fill(LBNN_READ(row[0])), lbnn_lanes_fill(LBNN_READ(row[2])));
#else
    return LBNN_READ(row[left ? 0 : 2]);
#endif
}

/* Over the fixed points y: the sums of g, g^2 and g' times phi((y + |E|) / sigma) step / sigma. */
LBNN_INLINE lbnn_smooth_rest lbnn_smooth_points(lbnn_lanes away, lbnn_lanes sigma, lbnn_mask left, const float *table)
{
    LBNN_ROUND_PRODUCTS
    lbnn_smooth_rest rest = {lbnn_lanes_fill(0.0f), lbnn_lanes_fill(0.0f), lbnn_lanes_fill(0.0f)};
    const lbnn_lanes inverse = lbnn_lanes_fill(0.84932180f) / sigma; /* e^(-t^2 / 2) = 2^-(0.849 t)^2 */
    const lbnn_lanes share = 0.46971864f * LBNN_READ(table[LBNN_SMOOTH_STEP]) * inverse;
    const float *row = table + LBNN_SMOOTH_ROWS;
    float y = LBNN_READ(table[LBNN_SMOOTH_FIRST]);
    for (int i = 0; i < LBNN_SMOOTH_POINTS; i++, row += 4) {
        const lbnn_lanes t = (away + y) * inverse;
        const lbnn_lanes power = t * t;
        const lbnn_mask inside = lbnn_lanes_less(power, lbnn_lanes_fill(115.0f));
        y += LBNN_READ(table[LBNN_SMOOTH_STEP]);
        if (lbnn_lanes_worth(inside)) {
            const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
            const lbnn_lanes density = lbnn_exp2(lbnn_lanes_at_most(power, 115.0f));
            const lbnn_lanes here = lbnn_lanes_select(inside, share, zero) * density;
            const lbnn_lanes part = lbnn_smooth_seen(row, left) * here;
            rest.first = rest.first + part;
            rest.second = rest.second + lbnn_smooth_seen(row, left) * part;
            rest.bent = rest.bent + lbnn_smooth_seen(row + 1, left) * here;
        }
    }
    return rest;
}

/* Beyond the points g is start + rate (y - end): with d = (|E| + end) / sigma and the tail beyond it,
 *     T0 = Q - step^2 phi d / (24 V),  T1 = sigma I1 + step^2 phi / (24 sigma),  T2 = V J2 */
LBNN_INLINE lbnn_smooth_rest lbnn_smooth_beyond(lbnn_lanes away, lbnn_lanes sigma, lbnn_lanes rate, lbnn_lanes start,
                                                const float *table, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_lanes d = (away + LBNN_READ(table[LBNN_SMOOTH_END])) / sigma;
    const lbnn_mask inside = lbnn_lanes_less(d, lbnn_lanes_fill(LBNN_SMOOTH_FAR));
    const lbnn_lanes within = lbnn_lanes_at_least(lbnn_lanes_at_most(d, LBNN_SMOOTH_FAR), 0.0f);
    const lbnn_tail_moments tail = lbnn_tail(within, c);
    const lbnn_lanes scale = lbnn_lanes_select(inside, lbnn_lanes_fill(LBNN_TAIL_FACTOR), zero) * tail.scale;
    const lbnn_lanes q = scale * tail.q;
    const lbnn_lanes i1 = scale * tail.i1;
    const float step = LBNN_READ(table[LBNN_SMOOTH_STEP]);
    const float added = step * step * 0.041666667f;
    const lbnn_lanes bump = added * (i1 + within * q) / sigma;
    const lbnn_lanes t0 = q - bump * within / sigma;
    const lbnn_lanes t1 = sigma * i1 + bump;
    const lbnn_lanes t2 = sigma * sigma * (scale * tail.j2);
    lbnn_smooth_rest rest;
    rest.first = start * t0 + rate * t1;
    rest.second = start * start * t0 + rate * (2.0f * start * t1 + rate * t2);
    rest.bent = rate * t0;
    return rest;
}

/* E' = line(E) + E g,  V' = slope^2 V + 2 slope V E g' + E g^2 - (E g)^2 */
LBNN_INLINE lbnn_smooth_moments lbnn_smooth_wide(lbnn_lanes mean, lbnn_lanes var, const float *table, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes away = lbnn_lanes_abs(mean);
    const lbnn_lanes sigma = lbnn_lanes_sqrt(var);
    const lbnn_mask left = lbnn_lanes_less(mean, lbnn_lanes_fill(0.0f));
    lbnn_lanes side[4];
    for (int i = 0; i < 4; i++) {
        side[i] = lbnn_lanes_select(left, lbnn_lanes_fill(LBNN_READ(table[LBNN_SMOOTH_SIDES + i])),
                                    lbnn_lanes_fill(LBNN_READ(table[LBNN_SMOOTH_SIDES + 4 + i])));
    }
    const lbnn_smooth_rest points = lbnn_smooth_points(away, sigma, left, table);
    const lbnn_smooth_rest beyond = lbnn_smooth_beyond(away, sigma, side[2], side[3], table, c);
    const lbnn_lanes first = points.first + beyond.first;
    const lbnn_lanes second = points.second + beyond.second;
    lbnn_smooth_moments out;
    out.mean = (side[1] - side[0] * away) + first;
    out.var = (second - first * first) + var * (side[0] * (side[0] + 2.0f * (points.bent + beyond.bent)));
    return out;
}

/* Both rules, each only where it counts. What is not finite, and would be lost in a function that ends in a constant,
 * is kept by adding 0 times it. */
LBNN_INLINE lbnn_smooth_moments lbnn_smooth_of(lbnn_smooth_moments in, const float *table, int function,
                                               lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_lanes one = lbnn_lanes_fill(1.0f);
    const lbnn_lanes over = lbnn_lanes_abs(in.mean) - LBNN_READ(table[LBNN_SMOOTH_NEAR]);
    const lbnn_lanes beyond = lbnn_lanes_select(lbnn_lanes_less(zero, over), over, zero);
    const lbnn_lanes limit = LBNN_READ(table[LBNN_SMOOTH_LIMIT]) + LBNN_READ(table[LBNN_SMOOTH_GROWTH]) * beyond;
    const lbnn_lanes ratio = in.var / limit;
    const lbnn_mask narrow = lbnn_lanes_less(ratio, lbnn_lanes_fill(LBNN_SMOOTH_MIXED));
    const lbnn_mask wide = lbnn_lanes_less(one, ratio);
    const lbnn_lanes mix = (ratio - 1.0f) * (1.0f / (LBNN_SMOOTH_MIXED - 1.0f));
    const lbnn_lanes share = lbnn_lanes_select(wide, lbnn_lanes_select(narrow, mix, one), zero);
    lbnn_smooth_moments out = {zero, zero};
    if (lbnn_lanes_worth(narrow)) {
        const lbnn_lanes var = lbnn_lanes_select(narrow, in.var, LBNN_SMOOTH_MIXED * limit);
        const lbnn_smooth_moments part = lbnn_smooth_narrow(in.mean, var, function, c);
        out.mean = (one - share) * part.mean;
        out.var = (one - share) * part.var;
    }
    if (lbnn_lanes_worth(wide)) {
        const lbnn_lanes var = lbnn_lanes_select(wide, in.var, limit);
        const lbnn_smooth_moments part = lbnn_smooth_wide(in.mean, var, table, c);
        out.mean = out.mean + share * part.mean;
        out.var = out.var + share * part.var;
    }
    out.mean = out.mean + zero * in.mean;
    out.var = out.var + zero * (in.mean + in.var);
    return out;
}

/* f(scale x) / scale */
LBNN_KERNEL void lbnn_smooth_point(float *x, int n, int function, float scale)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_tail_odd c = lbnn_tail_prepare();
    const float inverse = 1.0f / scale;
    for (int i = 0; i < n; i += LBNN_LANES) {
        const lbnn_lanes in = scale * lbnn_lanes_load(x + i, n - i);
        const lbnn_lanes value = lbnn_smooth_curve(in, function, c).value;
        lbnn_lanes_store(x + i, inverse * (value + lbnn_lanes_fill(0.0f) * in), n - i);
    }
}

/* The moments of f(scale a) / scale for a ~ N(E, V). */
LBNN_KERNEL void lbnn_smooth(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n, const float *table,
                             int function, float scale)
{
    LBNN_ROUND_PRODUCTS
    if (!LBNN_VARIANCE) {
        lbnn_smooth_point(mean, n, function, scale);
        return;
    }
    const lbnn_tail_odd c = lbnn_tail_prepare();
    const float inverse = 1.0f / scale;
    for (int i = 0; i < n; i += LBNN_LANES) {
        lbnn_smooth_moments x;
        x.mean = scale * lbnn_lanes_load(mean + i, n - i);
        x.var = scale * scale * lbnn_lanes_load(var + i, n - i);
        x = lbnn_smooth_of(x, table, function, c);
        lbnn_lanes_store(mean + i, inverse * x.mean, n - i);
        lbnn_lanes_store(var + i, inverse * inverse * x.var, n - i);
    }
}

#endif
