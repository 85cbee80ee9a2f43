/* lbnn_heads.h: what a network that classifies makes of its logits, k independent Gaussians.
 *
 *     lbnn_softmax(mean, var, probability, parts, scratch, k)        E softmax by a sweep; scratch: 10 k floats
 *     lbnn_softmax_fast(mean, var, probability, parts, scratch, k)   a rule of thumb; scratch: k floats
 *     lbnn_sigmoid(mean, var, probability, parts, scratch, k)        k labels, each of which may hold; scratch: 2 k
 *     lbnn_largest(x, k)                                             the index of the largest number
 *
 * parts[0] is the entropy of the classes in nats, parts[1] the mutual information between them and the logits, its
 * epistemic part. No two arrays may overlap. lbnn/ops/softmax.py and sigmoid.py derive the formulas.
 */
#ifndef LBNN_HEADS_H
#define LBNN_HEADS_H

#include "lbnn_math.h"

#define LBNN_LEAST 1e-30f /* of what has a logarithm */
#define LBNN_FAR 11.0f    /* beyond so many standard deviations nothing is left, 2e-28 */

/* log(x) for 1e-37 < x < 1e38: x = 2^n (1 + u), log(x) = n log(2) + log(1 + u) */
LBNN_INLINE lbnn_lanes lbnn_log(lbnn_lanes x)
{
    LBNN_ROUND_PRODUCTS
#ifdef LBNN_USE_LIBM
    return lbnn_lanes_apply(logf, x);
#else
#ifdef LBNN_SIMD
    const lbnn_integers n = LBNN_BITS_AS(lbnn_integers, LBNN_BITS_AS(lbnn_bits, x) >> 23) - 127;
#else
    const lbnn_integers n = LBNN_AS(int32_t, lbnn_float_bits(x) >> 23) - 127;
#endif
    return 0.69314718f * lbnn_lanes_float(n) + lbnn_log1p(lbnn_lanes_scale(x, n) - 1.0f);
#endif
}

/* The first lane. */
LBNN_INLINE float lbnn_lanes_first(lbnn_lanes x)
{
    float first;
    lbnn_lanes_store(&first, x, 1);
    return first;
}

LBNN_INLINE float lbnn_exp_of(float x)
{
    return lbnn_lanes_first(lbnn_exp(lbnn_lanes_fill(x)));
}

LBNN_INLINE float lbnn_log_of(float x)
{
    return lbnn_lanes_first(lbnn_log(lbnn_lanes_fill(x)));
}

LBNN_INLINE lbnn_lanes lbnn_head_var(const float *var, int n)
{
    return LBNN_VARIANCE ? lbnn_lanes_load(var, n) : lbnn_lanes_fill(0.0f);
}

/* p log(p), 0 for p = 0 */
LBNN_INLINE lbnn_lanes lbnn_plogp(lbnn_lanes p)
{
    return p * lbnn_log(lbnn_lanes_at_least(p, LBNN_LEAST));
}

/* Phi(d) and phi(d) of the standard normal, both times a weight. */
typedef struct {
    lbnn_lanes below, density;
} lbnn_normal;

/* P(Z > x) = phi M with Mills' ratio M = c1 t + ... + c5 t^5, t = 1 / (1 + c0 x), within 6e-8
 * (tools/derive/fit_gumbel.py).
 *
 * Tried and lost, for lbnn_softmax of ten wide classes on a Cortex-M4F with -std=c99: lbnn_tail, whose relative accuracy
 * no probability needs (10,000 instructions more); coefficients that are not pinned (4,000 more); even and odd powers
 * apart (1,300 more); no more than the weight where |d| > 6 (1,300 less for variances of 1/2, 900 more for those of 20);
 * four terms (1,900 less, 1e-6 off). */
typedef struct {
    float c0, c1, c2, c3, c4, c5;
} lbnn_mills;

/* To be kept in registers through a loop. */
LBNN_INLINE lbnn_mills lbnn_mills_prepare(void)
{
    lbnn_mills m = {0.33079956f, 0.30598791f, 0.51248346f, -0.22930478f, 0.94082789f, -0.27668049f};
    LBNN_PIN(m.c0);
    LBNN_PIN(m.c1);
    LBNN_PIN(m.c2);
    LBNN_PIN(m.c3);
    LBNN_PIN(m.c4);
    LBNN_PIN(m.c5);
    return m;
}

LBNN_INLINE lbnn_normal lbnn_normal_of(lbnn_lanes d, float weight, lbnn_mills m)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes x = lbnn_lanes_at_most(lbnn_lanes_abs(d), LBNN_FAR); /* further out products are denormal */
    const lbnn_lanes t = 1.0f / (1.0f + m.c0 * x);
    const lbnn_lanes ratio = (m.c1 + (m.c2 + (m.c3 + (m.c4 + m.c5 * t) * t) * t) * t) * t;
    lbnn_normal normal;
    normal.density = LBNN_TAIL_FACTOR * weight * lbnn_exp2(0.72134752f * (x * x)); /* e^(-x^2 / 2) */
    const lbnn_lanes q = normal.density * ratio;
    normal.below = lbnn_lanes_select(lbnn_lanes_less(d, lbnn_lanes_fill(0.0f)), q, weight - q);
    return normal;
}

/* Rounding makes no part of the entropy negative, and none larger than the whole. */
LBNN_INLINE void lbnn_part_entropy(float entropy, float aleatoric, float *parts)
{
    const float rest = entropy - (aleatoric > 0.0f ? aleatoric : 0.0f);
    parts[0] = entropy;
    parts[1] = rest > 0.0f ? rest : 0.0f;
}

/* The entropy of probabilities; `scratch` holds k floats. */
LBNN_INLINE float lbnn_entropy(const float *probability, float *scratch, int k)
{
    for (int i = 0; i < k; i += LBNN_LANES) {
        lbnn_lanes_store(scratch + i, lbnn_plogp(lbnn_lanes_load(probability + i, k - i)), k - i);
    }
    float entropy = 0.0f;
    for (int i = 0; i < k; i++) {
        entropy -= scratch[i];
    }
    return entropy > 0.0f ? entropy : 0.0f;
}

/* ---- the mean of the softmax ------------------------------------------------------------------- */

/* Softmax is argmax after Gumbel noise. With F the distribution of a logit plus noise, f its density and
 * h = E[(t - z) g(t - z)], g the density of the noise,
 *     E p_i = int f_i prod_{j != i} F_j dt,    aleatoric = sum_i int h_i prod_{j != i} F_j dt - gamma
 * at t = start + c (1 + sinh u), u uniform: fine where narrow classes are, ever wider behind. */
#define LBNN_SWEEP_KNOTS 16
#define LBNN_SWEEP_REACH 2.8f
#define LBNN_SWEEP_NOISE 0.71428571f /* of the noise beside a standard deviation */
#define LBNN_SWEEP_STEPS 2
#define LBNN_SWEEP_SHOULDER 1.0f
#define LBNN_SWEEP_FALLEN 3.8f
#define LBNN_SWEEP_BEYOND 4.0f
#define LBNN_SWEEP_BEHIND 11.0f
#define LBNN_SWEEP_UNIT 1.0f
#define LBNN_SWEEP_NEARBY 0.25f
#define LBNN_SWEEP_NARROW 0.5f /* the variance below which five points do */
#define LBNN_SWEEP_FARTHEST 1e15f
#define LBNN_SWEEP_WIDEST 1e24f /* larger variances count as this one */
#define LBNN_SWEEP_LIFT 7.0f /* keeps exponents below zero */

/* Where the sweep begins, its unit, and the ratio of e^-u from one knot to the next. */
typedef struct {
    float start, unit, ratio;
} lbnn_sweep;

LBNN_INLINE float lbnn_sweep_sigma(const float *var, int i)
{
    const float v = LBNN_VARIANCE ? var[i] : 0.0f;
    return lbnn_sqrtf(v < LBNN_SWEEP_WIDEST ? v : LBNN_SWEEP_WIDEST);
}

/* A step of Newton's towards the t at which the product of all F is e^(-FALLEN^2 / 2): log F is about -y^2 / 2 with
 * y = SHOULDER - (t - m) / width, or 0 where that is negative. */
LBNN_INLINE float lbnn_sweep_step(const float *mean, const float *var, int k, float start)
{
    LBNN_ROUND_PRODUCTS
    float squares = 0.0f;
    float slope = 0.0f;
    for (int i = 0; i < k; i++) {
        const float inverse = 1.0f / (lbnn_sweep_sigma(var, i) + LBNN_SWEEP_NOISE);
        const float above = LBNN_SWEEP_SHOULDER - (start - mean[i]) * inverse;
        const float bounded = above < LBNN_SWEEP_FALLEN ? above : LBNN_SWEEP_FALLEN;
        const float y = bounded > 0.0f ? bounded : 0.0f;
        squares += y * y;
        slope += y * inverse;
    }
    const float excess = squares - LBNN_SWEEP_FALLEN * LBNN_SWEEP_FALLEN;
    const float falling = 2.0f * slope;
    return excess > 0.0f ? excess / (falling > LBNN_LEAST ? falling : LBNN_LEAST) : 0.0f;
}

LBNN_INLINE lbnn_sweep lbnn_sweep_of(const float *mean, const float *var, int k)
{
    LBNN_ROUND_PRODUCTS
    lbnn_sweep sweep;
    float end = 0.0f;
    sweep.start = 0.0f;
    for (int i = 0; i < k; i++) {
        const float sigma = lbnn_sweep_sigma(var, i);
        const float low = mean[i] - LBNN_SWEEP_REACH * (sigma + LBNN_SWEEP_NOISE);
        const float high = mean[i] + LBNN_SWEEP_BEYOND * sigma;
        sweep.start = i > 0 && sweep.start > low ? sweep.start : low;
        end = i > 0 && end > high ? end : high;
    }
    for (int i = 0; i < LBNN_SWEEP_STEPS; i++) {
        sweep.start += lbnn_sweep_step(mean, var, k, sweep.start);
    }
    sweep.unit = 0.0f;
    for (int i = 0; i < k; i++) {
        const float sigma = lbnn_sweep_sigma(var, i);
        const float ahead = sweep.start - (mean[i] - LBNN_SWEEP_REACH * (sigma + LBNN_SWEEP_NOISE));
        const float unit = (LBNN_SWEEP_NEARBY * ahead + sigma) + LBNN_SWEEP_UNIT;
        sweep.unit = i > 0 && sweep.unit < unit ? sweep.unit : unit;
    }
    const float length = end - sweep.start + LBNN_SWEEP_BEHIND;
    const float ratio = length / sweep.unit - 1.0f;
    const float far = ratio < 1e9f ? ratio : 1e9f;
    const float span = lbnn_log_of(far + lbnn_sqrtf(far * far + 1.0f)) + 0.88137359f; /* arsinh(far) + arsinh(1) */
    sweep.ratio = span > 0.0f ? lbnn_exp_of(-span / LBNN_AS(float, LBNN_SWEEP_KNOTS - 1)) : 1.0f;
    return sweep;
}

/* The normals whose sum is the Gumbel density: weight, mean, variance. */
#define LBNN_GUMBEL_TERMS 4
static const float lbnn_gumbel_normals[LBNN_GUMBEL_TERMS][3] LBNN_UNUSED LBNN_FLASH = {
    {0.30064201f, -0.45347511f, 0.31118197f},
    {0.44789046f, 0.51106840f, 0.61783506f},
    {0.21308900f, 1.69491349f, 1.34786180f},
    {0.03837853f, 3.21738477f, 3.44944503f},
};

/* Of a class what does not change along the sweep, six floats: for a narrow one exp(z - start) at its five points and
 * sigma, for a wide one 1 / sqrt(v + variance) of each normal. */
LBNN_INLINE void lbnn_sweep_prepare(lbnn_lanes var, lbnn_lanes rest, float *constants, int k, int n)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_mask narrow = lbnn_lanes_less(var, lbnn_lanes_fill(LBNN_SWEEP_NARROW));
    const lbnn_lanes sigma = lbnn_lanes_sqrt(lbnn_lanes_at_most(var, LBNN_SWEEP_NARROW));
    const lbnn_lanes centre = lbnn_exp(-lbnn_lanes_at_least(rest + LBNN_SWEEP_LIFT, 0.0f));
    const lbnn_lanes inner = lbnn_exp(-1.3556262f * sigma);
    const lbnn_lanes outer = lbnn_exp(-2.8569700f * sigma);
    lbnn_lanes fixed[6];
    fixed[0] = centre * inner;
    fixed[1] = centre / inner;
    fixed[2] = centre * outer;
    fixed[3] = centre / outer;
    fixed[4] = centre;
    fixed[5] = sigma;
    for (int i = 0; i < LBNN_GUMBEL_TERMS; i++) {
        const lbnn_lanes inverse = 1.0f / lbnn_lanes_sqrt(var + LBNN_READ(lbnn_gumbel_normals[i][2]));
        fixed[i] = lbnn_lanes_select(narrow, fixed[i], inverse);
    }
    for (int i = 0; i < 6; i++) {
        lbnn_lanes_store(constants + i * k, fixed[i], n);
    }
}

/* F, f and h of a class at one t. */
typedef struct {
    lbnn_lanes below, density, surplus;
} lbnn_row;

/* Five points x: with a = exp(z - t), F = E exp(-a), f = E a exp(-a), h = (t - m) f - sigma E x a exp(-a). */
LBNN_INLINE lbnn_row lbnn_sweep_narrow(const float *constants, int k, int n, lbnn_lanes r, float damp)
{
    LBNN_ROUND_PRODUCTS
    lbnn_lanes a[5], e[5];
    for (int i = 0; i < 5; i++) {
        a[i] = damp * lbnn_lanes_load(constants + i * k, n);
        e[i] = lbnn_exp(-a[i]);
        a[i] *= e[i];
    }
    lbnn_row row;
    row.below = 0.53333333f * e[4] + (0.22207592f * (e[0] + e[1]) + 0.011257411f * (e[2] + e[3]));
    row.density = 0.53333333f * a[4] + (0.22207592f * (a[0] + a[1]) + 0.011257411f * (a[2] + a[3]));
    const lbnn_lanes skew = 0.30105193f * (a[1] - a[0]) + 0.032162087f * (a[3] - a[2]);
    row.surplus = r * row.density - lbnn_lanes_load(constants + 5 * k, n) * skew;
    return row;
}

/* Four normals: with d = (t - m - middle) / S, S^2 = v + variance, and phi the density at d over S,
 * F = sum weight Phi(d), f = sum weight phi, h = sum weight phi (middle + variance d / S). */
LBNN_INLINE lbnn_row lbnn_sweep_wide(const float *constants, int k, int n, lbnn_lanes r, lbnn_mills m)
{
    LBNN_ROUND_PRODUCTS
    lbnn_row row;
    row.below = lbnn_lanes_fill(0.0f);
    row.density = row.below;
    row.surplus = row.below;
    for (int i = 0; i < LBNN_GUMBEL_TERMS; i++) {
        const float middle = LBNN_READ(lbnn_gumbel_normals[i][1]);
        const lbnn_lanes inverse = lbnn_lanes_load(constants + i * k, n);
        const lbnn_lanes d = (r - middle) * inverse;
        const lbnn_normal normal = lbnn_normal_of(d, LBNN_READ(lbnn_gumbel_normals[i][0]), m);
        const lbnn_lanes density = normal.density * inverse;
        row.below += normal.below;
        row.density += density;
        row.surplus += density * (middle + LBNN_READ(lbnn_gumbel_normals[i][2]) * (d * inverse));
    }
    return row;
}

/* F, f and h of every class at one t, each an array of k floats. */
LBNN_INLINE void lbnn_sweep_rows(const float *var, const float *rest, const float *constants, float *rows, int k,
                                 float moved, float damp)
{
    const lbnn_mills m = lbnn_mills_prepare();
    for (int i = 0; i < k; i += LBNN_LANES) {
        const lbnn_lanes r = lbnn_lanes_load(rest + i, k - i) + moved;
        const lbnn_mask narrow = lbnn_lanes_less(lbnn_head_var(var + i, k - i), lbnn_lanes_fill(LBNN_SWEEP_NARROW));
        const lbnn_mask wide = lbnn_lanes_less(lbnn_lanes_select(narrow, lbnn_lanes_fill(1.0f), lbnn_lanes_fill(0.0f)),
                                               lbnn_lanes_fill(0.5f));
        lbnn_row row;
        row.below = lbnn_lanes_fill(0.0f);
        row.density = row.below;
        row.surplus = row.below;
        if (lbnn_lanes_worth(narrow)) {
            row = lbnn_sweep_narrow(constants + i, k, k - i, r, damp);
        }
        if (lbnn_lanes_worth(wide)) {
            const lbnn_row other = lbnn_sweep_wide(constants + i, k, k - i, r, m);
            row.below = lbnn_lanes_select(wide, other.below, row.below);
            row.density = lbnn_lanes_select(wide, other.density, row.density);
            row.surplus = lbnn_lanes_select(wide, other.surplus, row.surplus);
        }
        lbnn_lanes_store(rows + i, row.below, k - i);
        lbnn_lanes_store(rows + k + i, row.density, k - i);
        lbnn_lanes_store(rows + 2 * k + i, row.surplus, k - i);
    }
}

/* Adds weight f_i prod_{j != i} F_j to every share and gives the sum of weight h_i prod_{j != i} F_j: the product of
 * those before i on the way up, of those behind it on the way down. */
LBNN_INLINE float lbnn_sweep_collect(float *rows, float *share, int k, float weight)
{
    LBNN_ROUND_PRODUCTS
    const float *below = rows;
    float *density = rows + k;
    float *surplus = rows + 2 * k;
    float others = weight;
    for (int i = 0; i < k; i++) {
        density[i] *= others;
        surplus[i] *= others;
        others *= below[i];
    }
    others = 1.0f;
    float sum = 0.0f;
    for (int i = k - 1; i >= 0; i--) {
        share[i] += density[i] * others;
        sum += surplus[i] * others;
        others *= below[i];
    }
    return sum;
}

LBNN_KERNEL void lbnn_softmax(const float *LBNN_RESTRICT mean, const float *LBNN_RESTRICT var,
                              float *LBNN_RESTRICT probability, float *LBNN_RESTRICT parts,
                              float *LBNN_RESTRICT scratch, int k)
{
    LBNN_ROUND_PRODUCTS
    float *rest = scratch; /* start - m */
    float *constants = scratch + k;
    float *rows = scratch + 7 * k;
    const lbnn_sweep sweep = lbnn_sweep_of(mean, var, k);
    for (int i = 0; i < k; i += LBNN_LANES) {
        const lbnn_lanes gap = sweep.start - lbnn_lanes_load(mean + i, k - i);
        const lbnn_lanes from = lbnn_lanes_at_most(gap, LBNN_SWEEP_FARTHEST);
        lbnn_lanes_store(rest + i, from, k - i);
        lbnn_sweep_prepare(lbnn_lanes_at_most(lbnn_head_var(var + i, k - i), LBNN_SWEEP_WIDEST), from, constants + i, k,
                           k - i);
    }
    for (int i = 0; i < k; i++) {
        probability[i] = 0.0f;
    }
    float fall = 2.41421356f; /* e^-u of the first knot, arsinh(-1) */
    float surplus = 0.0f;
    for (int knot = 0; knot < LBNN_SWEEP_KNOTS; knot++) {
        const float rise = 1.0f / fall;
        const float moved = sweep.unit * (1.0f + 0.5f * (rise - fall));
        const float ahead = moved > 0.0f ? moved : 0.0f;
        lbnn_sweep_rows(var, rest, constants, rows, k, ahead, 1096.6332f * lbnn_exp_of(-ahead)); /* e^7 */
        surplus += lbnn_sweep_collect(rows, probability, k, rise + fall);
        fall *= sweep.ratio;
    }
    float total = 0.0f;
    for (int i = 0; i < k; i++) {
        total += probability[i];
    }
    const float inverse = 1.0f / total;
    for (int i = 0; i < k; i++) {
        probability[i] *= inverse;
    }
    lbnn_part_entropy(lbnn_entropy(probability, rest, k), surplus * inverse - 0.57721566f, parts);
}

/* ---- a rule of thumb ---------------------------------------------------------------------------- */

/* The softmax of x. */
LBNN_INLINE void lbnn_plain_softmax(float *x, int k)
{
    float most = x[0];
    for (int i = 1; i < k; i++) {
        most = x[i] > most ? x[i] : most;
    }
    for (int i = 0; i < k; i += LBNN_LANES) {
        const lbnn_lanes below = lbnn_lanes_at_most(lbnn_lanes_load(x + i, k - i) - most, 0.0f);
        lbnn_lanes_store(x + i, lbnn_exp(below), k - i);
    }
    float total = 0.0f;
    for (int i = 0; i < k; i++) {
        total += x[i];
    }
    const float inverse = 1.0f / total; /* not every soft-float division rounds denormals */
    for (int i = 0; i < k; i++) {
        x[i] *= inverse;
    }
}

/* softmax(m / sqrt(1 + pi v / 8)); the information is (1/2) sum log(1 + v p (1 - p)) with p = softmax(m). */
LBNN_KERNEL void lbnn_softmax_fast(const float *LBNN_RESTRICT mean, const float *LBNN_RESTRICT var,
                                   float *LBNN_RESTRICT probability, float *LBNN_RESTRICT parts,
                                   float *LBNN_RESTRICT scratch, int k)
{
    LBNN_ROUND_PRODUCTS
    for (int i = 0; i < k; i += LBNN_LANES) {
        const lbnn_lanes m = lbnn_lanes_load(mean + i, k - i);
        const lbnn_lanes v = lbnn_head_var(var + i, k - i);
        lbnn_lanes_store(probability + i, m * (1.0f / lbnn_lanes_sqrt(0.39269908f * v + 1.0f)), k - i);
        lbnn_lanes_store(scratch + i, m, k - i);
    }
    lbnn_plain_softmax(probability, k);
    lbnn_plain_softmax(scratch, k);
    for (int i = 0; i < k; i += LBNN_LANES) {
        const lbnn_lanes p = lbnn_lanes_load(scratch + i, k - i);
        const lbnn_lanes spread = lbnn_head_var(var + i, k - i) * (p - p * p);
        lbnn_lanes_store(scratch + i, lbnn_log(1.0f + lbnn_lanes_at_most(spread, LBNN_SWEEP_FARTHEST)), k - i);
    }
    float information = 0.0f;
    for (int i = 0; i < k; i++) {
        information += scratch[i];
    }
    const float entropy = lbnn_entropy(probability, scratch, k);
    lbnn_part_entropy(entropy, entropy - 0.5f * information, parts);
}

/* ---- labels ------------------------------------------------------------------------------------- */

/* The logistic function as a sum of normal distributions, weight and 1 / slope^2, and its entropy as a sum of bell
 * curves, height times width and width^2. */
static const float lbnn_logistic_normals[4][2] LBNN_UNUSED LBNN_FLASH = {
    {0.059878f, 9.7363332f}, {0.369839f, 4.4597311f}, {0.460526f, 2.0655461f}, {0.109757f, 0.96287477f},
};
static const float lbnn_entropy_bells[4][2] LBNN_UNUSED LBNN_FLASH = {
    {0.077362857f, 1.1065123f}, {0.46988302f, 2.4002746f}, {0.60448705f, 5.1112103f}, {0.16069161f, 10.794034f},
};

LBNN_KERNEL void lbnn_sigmoid(const float *LBNN_RESTRICT mean, const float *LBNN_RESTRICT var,
                              float *LBNN_RESTRICT probability, float *LBNN_RESTRICT parts,
                              float *LBNN_RESTRICT scratch, int k)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_mills mills = lbnn_mills_prepare();
    for (int i = 0; i < k; i += LBNN_LANES) {
        const lbnn_lanes m = lbnn_lanes_load(mean + i, k - i);
        const lbnn_lanes v = lbnn_head_var(var + i, k - i);
        lbnn_lanes p = lbnn_lanes_fill(0.0f);
        lbnn_lanes aleatoric = lbnn_lanes_fill(0.0f);
        for (int j = 0; j < 4; j++) {
            const lbnn_lanes d = m * (1.0f / lbnn_lanes_sqrt(v + LBNN_READ(lbnn_logistic_normals[j][1])));
            const lbnn_lanes inverse = 1.0f / lbnn_lanes_sqrt(v + LBNN_READ(lbnn_entropy_bells[j][1]));
            const lbnn_lanes e = lbnn_lanes_at_most(lbnn_lanes_abs(m) * inverse, LBNN_TAIL_MAX);
            p += lbnn_normal_of(d, LBNN_READ(lbnn_logistic_normals[j][0]), mills).below;
            aleatoric += LBNN_READ(lbnn_entropy_bells[j][0]) * inverse * lbnn_exp(-0.5f * (e * e));
        }
        lbnn_lanes_store(probability + i, p, k - i);
        lbnn_lanes_store(scratch + i, aleatoric, k - i);
        lbnn_lanes_store(scratch + k + i, lbnn_plogp(p) + lbnn_plogp(1.0f - p), k - i);
    }
    float entropy = 0.0f;
    float aleatoric = 0.0f;
    for (int i = 0; i < k; i++) {
        aleatoric += scratch[i];
        entropy -= scratch[k + i];
    }
    lbnn_part_entropy(entropy > 0.0f ? entropy : 0.0f, aleatoric, parts);
}

/* The index of the largest number, the first if there are several. */
LBNN_KERNEL int lbnn_largest(const float *x, int k)
{
    int largest = 0;
    for (int i = 1; i < k; i++) {
        largest = x[i] > x[largest] ? i : largest;
    }
    return largest;
}

#endif
