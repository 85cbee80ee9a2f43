/* hardswish.h: lbnn_hardswish against quadrature in float64, included by kernels.c. */
#include "lbnn_hardswish.h"

/* f(e + step) - f(e), without cancellation: by the line or parabola of e's own piece, or from kink to kink. */
static double hardswish_step(double e, double step)
{
    const double low = -3.0 - e, high = 3.0 - e, rise = (2.0 * e + 3.0) / 6.0; /* the kinks, from e; f'(e) inside */
    const int own = e < -3.0 ? 0 : e < 3.0 ? 1 : 2, other = step < low ? 0 : step < high ? 1 : 2;
    if (own == other) {
        return own == 0 ? 0.0 : own == 1 ? step * (rise + step / 6.0) : step;
    }
    if (own == 1) {
        return other == 0 ? low * (rise + low / 6.0) : high * (rise + high / 6.0) + (step - high);
    }
    const double t = own == 0 ? step - low : step - high; /* from the nearer kink */
    if (other == 1) {
        return own == 0 ? t * (t - 3.0) / 6.0 : high + t * (1.5 + t / 6.0);
    }
    return own == 0 ? t - 3.0 : -e;
}

/* E[h] and E[h^2], h = f(X) - f(E), by Gauss-Legendre in panels of at most a quarter of sigma between the kinks. */
static void hardswish_sums(double e, double sigma, double *first, double *second)
{
    const double nodes[] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363};
    const double weights[] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763};
    const double low = fmin(fmax((-3.0 - e) / sigma, -14.0), 14.0), high = fmin(fmax((3.0 - e) / sigma, -14.0), 14.0);
    const double ends[] = {-14.0, low, high, 14.0};
    *first = *second = 0.0;
    for (int part = 0; part < 3; part++) {
        const double length = ends[part + 1] - ends[part];
        const int panels = (int)(4.0 * length) + 1;
        const double half = 0.5 * length / panels;
        for (int i = 0; i < 8 * panels && length > 0.0; i++) {
            const int node = i % 8 / 2;
            const double z = ends[part] + half * (2 * (i / 8) + 1 + (i % 2 ? nodes[node] : -nodes[node]));
            const double mass = half * weights[node] * exp(-0.5 * z * z) * 0.3989422804014327;
            const double h = hardswish_step(e, sigma * z);
            *first += mass * h;
            *second += mass * h * h;
        }
    }
}

/* Beyond LBNN_TAIL_MAX of the nearer kink the kernel leaves the tails out. The variance of a bounded part cancels at most
 * fifty times, of terms that are known to a few roundings. */
static moments hardswish_of(float e, float v)
{
    moments out = {real_unknown(!is_finite(e)), real_unknown(!is_finite(v))};
    if (is_finite(e) && is_finite(v) && v >= 0.0f) {
        const double at = (double)e, line = at < -3.0 ? 0.0 : at < 3.0 ? at * (at + 3.0) / 6.0 : at;
        const double sigma = sqrt((double)v), x = v > 0.0f ? fabs(fabs(at) - 3.0) / sigma : 1e300;
        double first = 0.0, second = 0.0;
        if (v > 0.0f) {
            hardswish_sums(at, sigma, &first, &second);
        }
        const double var = fmax(second - first * first, 0.0), relative = 4.0 * tail_error(fmin(x, fabs(at) / sigma));
        const int large = fabs(at) > 1e37 || v > 1e37f;
        const double around = fabs(line) + fabs(first) + sqrt(var);
        const real mean = {line + first, 10.0 * REAL_UNIT * around + relative * sqrt(var) + 1e-30 * sigma + 8.0 * REAL_LEAST,
                           large, 0};
        const real spread = {var, relative * var + 1e-30 * (double)v + 16.0 * REAL_LEAST, large, 0};
        out.mean = mean;
        out.var = spread;
    }
    return out;
}

static void fuzz_hardswish(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n);
    lbnn_hardswish(mean, var, n);
    for (int i = 0; i < n; i++) {
        const moments want = hardswish_of(e[i], v[i]);
        fuzz_mean(f, mean[i], want.mean);
        fuzz_variance(f, var[i], want.var);
    }
}

static void fuzz_hardswish_point(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const float *x = fuzz_means(f, n);
    float *out = fuzz_copy(f, x, n);
    lbnn_hardswish_point(out, n);
    for (int i = 0; i < n; i++) {
        fuzz_mean(f, out[i], hardswish_of(x[i], 0.0f).mean);
    }
}
