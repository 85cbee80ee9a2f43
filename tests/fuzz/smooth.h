/* smooth.h: lbnn_smooth against the mathematics in float64: the functions, their tables, and quadrature. */
#ifndef FUZZ_SMOOTH_H
#define FUZZ_SMOOTH_H

#include "fuzz.h"
#include "lbnn_smooth.h"

/* exp and tanh of libm are good to an ulp in float64; log1p and erfc keep the small sides. */
static double smooth_value(double x, int function)
{
    switch (function) {
        case LBNN_SIGMOID: return x < 0.0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x));
        case LBNN_TANH: return tanh(x);
        case LBNN_SILU: return x * smooth_value(x, LBNN_SIGMOID);
        case LBNN_SOFTPLUS: return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
        case LBNN_GELU: return 0.5 * x * erfc(-x * 0.70710678118654752);
        default: return x * smooth_value(1.5957691216057308 * (x + 0.044715 * x * x * x), LBNN_SIGMOID);
    }
}

/* The slope by a difference: the table needs no more than float32. */
static double smooth_slope(double x, int function)
{
    const double h = 1e-5;
    return (smooth_value(x + h, function) - smooth_value(x - h, function)) / (2.0 * h);
}

static double smooth_unit(int function)
{
    return function == LBNN_TANH ? 0.5 : function == LBNN_GELU || function == LBNN_GELU_TANH ? 0.6 : 1.0;
}

/* What lbnn/ops/smooth_rule.py stores for C. */
static void smooth_table(float *table, int function)
{
    const double unit = smooth_unit(function), step = 1.1 * unit, first = -11.0 * step, end = 11.5 * step;
    const int rising = function > LBNN_TANH, exponential = function < LBNN_GELU;
    const double head[] = {1.21 * unit * unit, exponential ? 0.5 * unit : 0.0, 6.0 * unit, first, step, end};
    for (int i = 0; i < LBNN_SMOOTH_SIDES; i++) {
        table[i] = (float)head[i];
    }
    for (int side = 0; side < 2; side++) {
        const double sign = side == 0 ? 1.0 : -1.0, slope = rising && side == 1 ? -1.0 : 0.0;
        const double low = function == LBNN_TANH ? -1.0 : 0.0, high = rising ? 0.0 : 1.0;
        const double height = side == 0 ? low : high, other = side == 0 ? high : low;
        const double rate = rising ? 1.0 : 0.0, numbers[] = {slope, height, rate, rate * end + other - height};
        for (int i = 0; i < 4; i++) {
            table[LBNN_SMOOTH_SIDES + 4 * side + i] = (float)numbers[i];
        }
        for (int i = 0; i < LBNN_SMOOTH_POINTS; i++) {
            const double y = first + step * i;
            float *row = table + LBNN_SMOOTH_ROWS + 4 * i + 2 * side;
            row[0] = (float)(smooth_value(sign * y, function) - (slope * y + height));
            row[1] = (float)(sign * smooth_slope(sign * y, function) - slope);
        }
    }
}

typedef struct {
    double mean, var;
} smooth_moments;

/* By the trapezoidal rule over 8 sigma: right for sigma up to 20 units. */
static smooth_moments smooth_quadrature(double e, double v, int function)
{
    const int half = 400;
    const double sigma = sqrt(v), step = 8.0 / half, centre = smooth_value(e, function);
    double mass = 0.0, first = 0.0, second = 0.0;
    for (int i = -half; i <= half; i++) {
        const double z = step * i, weight = exp(-0.5 * z * z), g = smooth_value(e + sigma * z, function) - centre;
        mass += weight;
        first += weight * g;
        second += weight * g * g;
    }
    const smooth_moments out = {centre + first / mass, second / mass - first / mass * (first / mass)};
    return out;
}

/* No variance is larger than that of the steepest slope, 1.13: Poincare's inequality, which holds for every Gaussian. */
static void smooth_check(fuzz *f, float e, float v, float mean, float var, int function, int compare)
{
    const int known = is_finite(e) && is_finite(v) && v >= 0.0f;
    if (!known || fabsf(e) > 1e18f || v > 1e30f) {
        fuzz_mean(f, mean, real_unknown(!is_finite(e)));
        fuzz_variance(f, var, real_unknown(!is_finite(e) || !is_finite(v)));
        return;
    }
    fuzz_expect(var >= 0.0f && (double)var <= 1.3 * (double)v + 1e-30, "a variance from 0 to that of the steepest line");
    fuzz_expect(function > LBNN_TANH || (mean >= -1.000001f && mean <= 1.000001f), "a mean within the function's values");
    const double unit = smooth_unit(function);
    if (compare && fabsf(e) < 6.0f && (double)v < 400.0 * unit * unit && v > 1e-6f) {
        const smooth_moments want = smooth_quadrature((double)e, (double)v, function);
        const double sigma = sqrt(want.var);
        fuzz_expect(fabs((double)mean - want.mean) <= 3e-4 * sigma + 2e-6 * fabs(want.mean) + 1e-9, "the mean");
        fuzz_expect(fabs((double)var - want.var) <= 6e-3 * want.var + 3e-9 * (double)v, "the variance");
    }
}

static void fuzz_smooth(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20), function = fuzz_size(f, LBNN_SIGMOID, LBNN_GELU_TANH);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n), *table = fuzz_block(f, LBNN_SMOOTH_LEN);
    smooth_table(table, function);
    lbnn_smooth(mean, var, n, fuzz_keep(f, table), function, 1.0f);
    for (int i = 0; i < n; i++) {
        smooth_check(f, e[i], v[i], mean[i], var[i], function, i < 3);
    }
}

static void fuzz_smooth_point(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20), function = fuzz_size(f, LBNN_SIGMOID, LBNN_GELU_TANH);
    const float *x = fuzz_means(f, n);
    float *out = fuzz_copy(f, x, n);
    lbnn_smooth_point(out, n, function, 1.0f);
    for (int i = 0; i < n; i++) {
        if (!is_finite(x[i]) || fabsf(x[i]) > 1e18f) {
            fuzz_mean(f, out[i], real_unknown(!is_finite(x[i])));
            continue;
        }
        /* The small side is an exponential of x, of 2 x, of x^2 for GELU or of a cube for its other form. */
        const double want = smooth_value((double)x[i], function), size = fabs((double)x[i]);
        const double steep = function < LBNN_GELU ? fmin(size, 88.0) : fmin(2.0 * size * size, 250.0);
        const double cut = function < LBNN_GELU ? 1e-35 : 1e-26;
        const real near = {want, fabs(want) * (14.0 + 2.0 * steep) * REAL_UNIT + cut, 0, 0};
        fuzz_mean(f, out[i], near);
    }
}

#endif
