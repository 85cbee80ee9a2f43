/* elu.h: lbnn_elu against the mathematics in float64: quadrature of differences, or for large sigma the closed form. */
#ifndef FUZZ_ELU_H
#define FUZZ_ELU_H

#include "fuzz.h"
#include "lbnn_elu.h"

typedef struct {
    float alpha, beta, scale;
} elu_numbers;

static elu_numbers any_elu(fuzz *f)
{
    const elu_numbers selu = {1.6732632f, 1.0f, 1.050701f};
    const elu_numbers usual[] = {{1.0f, 1.0f, 1.0f}, selu, {2.5f, 2.5f, 1.0f}, {0.0f, 1.0f, 1.0f}};
    const int choice = fuzz_size(f, 0, 7);
    elu_numbers out = usual[choice % 4];
    if (choice >= 4) {
        out.alpha = (float)fuzz_size(f, 0, 255) / 50.0f;
        out.beta = choice == 7 ? (float)fuzz_size(f, 1, 255) / 50.0f : 1.0f;
    }
    return out;
}

typedef struct {
    double mean, var;
} elu_moments;

/* f(e + d) - f(e) of the function in units of beta, which does not cancel for small d. */
static double elu_difference(double e, double d, double k)
{
    const double y = e + d;
    if (e <= 0.0 && y <= 0.0) {
        return k * exp(e) * expm1(d);
    }
    return e > 0.0 && y > 0.0 ? d : (y > 0.0 ? y : k * expm1(y)) - (e > 0.0 ? e : k * expm1(e));
}

/* By Simpson's rule on either side of zero, over 15 sigma: right for sigma up to 2. */
static elu_moments elu_quadrature(double e, double sigma, double k)
{
    enum { STEPS = 600 };
    const double kink = fmax(-15.0, fmin(15.0, -e / sigma)), ends[] = {-15.0, kink, 15.0};
    double mass = 0.0, first = 0.0, second = 0.0;
    for (int side = 0; side < 2; side++) {
        const double step = (ends[side + 1] - ends[side]) / STEPS;
        for (int i = 0; i <= STEPS; i++) {
            const double z = ends[side] + step * i, h = elu_difference(e, sigma * z, k);
            const double weight = step * (i == 0 || i == STEPS ? 1.0 : i % 2 ? 4.0 : 2.0) * exp(-0.5 * z * z);
            mass += weight;
            first += weight * h;
            second += weight * h * h;
        }
    }
    const double rise = first / mass;
    const elu_moments out = {(e > 0.0 ? e : k * expm1(e)) + rise, second / mass - rise * rise};
    return out;
}

/* Q / phi for z >= 0, by its continued fraction where erfc ends. */
static double elu_mills(double z)
{
    double tail = z;
    if (z < 6.0) {
        return 1.2533141373155003 * exp(0.5 * z * z) * erfc(z * 0.70710678118654752);
    }
    for (int i = 60; i > 0; i--) {
        tail = z + i / tail;
    }
    return 1.0 / tail;
}

/* E[e^(h x); x < 0] */
static double elu_part(double e, double v, double sigma, double h)
{
    const double x = e / sigma, z = x + h * sigma, phi = 0.3989422804014327 * exp(-0.5 * x * x);
    return z > 0.0 ? phi * elu_mills(z) : exp(h * e + 0.5 * h * h * v) - phi * elu_mills(-z);
}

/* Of sigma from 2 on, where sums of positive terms lose a few digits at most. */
static elu_moments elu_closed(double e, double v, double k)
{
    const double sigma = sqrt(v), x = fabs(e) / sigma;
    const double p1 = elu_part(e, v, sigma, 1.0), p2 = elu_part(e, v, sigma, 2.0);
    const tail_of tail = tail_at(x);
    elu_moments out = {e, v};
    if (e > 0.0 && x < 37.0) {
        const double d1 = tail.q - p1, d2 = d1 - p1 + p2, added = sigma * tail.i1 - k * d1;
        out.mean = e + added;
        out.var = v * (1.0 - 2.0 * tail.q + tail.j2) + 2.0 * k * e * d1 + k * k * d2 - added * added;
    }
    if (e <= 0.0) {
        const double first = k * (p1 + tail.q) + sigma * tail.i1;
        out.mean = first - k;
        out.var = k * k * (p2 + tail.q) + 2.0 * k * sigma * tail.i1 + v * tail.j2 - first * first;
    }
    return out;
}

static elu_moments elu_exact(double e, double v, double k)
{
    const elu_moments known = {e > 0.0 ? e : k * expm1(e), 0.0};
    return v > 0.0 ? (v < 4.0 ? elu_quadrature(e, sqrt(v), k) : elu_closed(e, v, k)) : known;
}

/* The exponential of E is off by |E| units and twice that squared; floats end below e^-87. */
static void elu_check(fuzz *f, float given, float variance, float mean, float var, elu_numbers a)
{
    const double k = (double)a.alpha / (double)a.beta, unit = (double)a.scale * (double)a.beta;
    const double e = (double)given / (double)a.beta, v = (double)variance / ((double)a.beta * (double)a.beta);
    const int known = is_finite(given) && is_finite(variance) && variance >= 0.0f;
    if (!known || fabs(e) > 1e37 || v > 1e37) {
        fuzz_mean(f, mean, real_unknown(!is_finite(given)));
        fuzz_variance(f, var, real_unknown(!is_finite(given) || !is_finite(variance)));
        return;
    }
    const elu_moments want = elu_exact(e, v, k);
    const double sigma = sqrt(v), x = v > 0.0 ? fabs(e) / sigma : 1e300, power = 4e-7 * fmin(fabs(e), 90.0);
    const double spread = fmax(want.var, 0.0), relative = tail_error(x > 13.0 ? 0.0 : x);
    const double cut = 1e-31 * (x > 10.0); /* of the tail beyond LBNN_TAIL_MAX */
    const double least = v < 1e-35 ? 1e-22 : REAL_LEAST; /* a denormal variance has few digits, and so has its root */
    const double of_mean = relative * (fabs(want.mean) + sqrt(spread)) + cut * sigma + 4.0 * (1.0 + k) * least;
    const double few = (16.0 + 16.0 * k * k) * REAL_LEAST + 3e-37 * k * k;
    const double of_var = (4.0 * relative + power) * spread + cut * (v + k * k) + few;
    const real near_mean = {unit * want.mean, unit * of_mean + 2.0 * REAL_LEAST, 0, 0};
    const real near_var = {unit * unit * spread, unit * unit * of_var + 2.0 * REAL_LEAST, 0, 0};
    fuzz_mean(f, mean, near_mean);
    fuzz_variance(f, var, near_var);
}

static void fuzz_elu(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const elu_numbers a = any_elu(f);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n);
    lbnn_elu(mean, var, n, a.alpha, a.beta, a.scale);
    for (int i = 0; i < n; i++) {
        elu_check(f, e[i], v[i], mean[i], var[i], a);
    }
}

static void fuzz_elu_point(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const elu_numbers a = any_elu(f);
    const float *x = fuzz_means(f, n);
    float *out = fuzz_copy(f, x, n);
    lbnn_elu_point(out, n, a.alpha, a.beta, a.scale);
    for (int i = 0; i < n; i++) {
        const double y = (double)x[i] / (double)a.beta, unit = (double)a.scale * (double)a.beta;
        const double want = unit * (y > 0.0 ? y : (double)a.alpha / (double)a.beta * expm1(y));
        const double least = (4.0 + 4.0 * unit + 4.0 * (double)a.alpha * (double)a.scale) * REAL_LEAST;
        const real near = {want, 16.0 * REAL_UNIT * fabs(want) + least, 0, 0};
        fuzz_mean(f, out[i], is_finite(x[i]) && fabs(y) < 1e37 ? near : real_unknown(!is_finite(x[i])));
    }
}

#endif
