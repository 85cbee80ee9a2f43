/* tabulated.h: lbnn_tabulated against its rule in float64, and that against quadrature where the function is smooth. */
#ifndef FUZZ_TABULATED_H
#define FUZZ_TABULATED_H

#include "fuzz.h"
#include "lbnn_tabulated.h"

#define TABULATED_MOST 48
#define TABULATED_LEN (LBNN_TABULATED_CELLS + 4 * TABULATED_MOST + 3 * LBNN_TABULATED_KNOTS(TABULATED_MOST))
#define TABULATED_STEEPEST 1.11 /* of tabulated_wave */
#define TABULATED_ROOT 2.5066282746310002 /* of 2 pi */

/* Rises and falls, and is curved at both ends of every table. */
static double tabulated_wave(double x)
{
    return sin(0.8 * x) + 0.3 * x + 0.5;
}

static double tabulated_wave_slope(double x)
{
    return 0.8 * cos(0.8 * x) + 0.3;
}

/* The stored function: cubics between even places, lines beyond; in cells. */
static double tabulated_value(const float *table, int cells, double place, double *slope)
{
    const double inside = place < 0.0 ? 0.0 : place > cells ? (double)cells : place;
    const int row = inside < cells - 1 ? (int)inside : cells - 1;
    const float *cell = table + LBNN_TABULATED_CELLS + 4 * row;
    const double t = inside - row, a = (double)cell[0], b = (double)cell[1], c = (double)cell[2], d = (double)cell[3];
    *slope = b + t * (2.0 * c + 3.0 * t * d);
    return a + t * (b + t * (c + t * d)) + *slope * (place - inside);
}

/* What lbnn/ops/stored_function.py stores for C, for cells of half a unit around zero. */
static void tabulated_make(float *table, int cells)
{
    const double step = 0.5, start = -0.25 * cells;
    const double ends[] = {start, start + step * cells};
    const double head[] = {start, step, 2.0, 4.0, step * tabulated_wave_slope(ends[0]), tabulated_wave(ends[0]),
                           step * tabulated_wave_slope(ends[1]), tabulated_wave(ends[1])};
    for (int i = 0; i < LBNN_TABULATED_CELLS; i++) {
        table[i] = (float)head[i];
    }
    for (int i = 0; i < cells; i++) {
        const double left = start + step * i, right = left + step;
        const double rise = tabulated_wave(right) - tabulated_wave(left);
        const double b = step * tabulated_wave_slope(left), e = step * tabulated_wave_slope(right);
        const double numbers[] = {tabulated_wave(left), b, 3.0 * rise - 2.0 * b - e, b + e - 2.0 * rise};
        for (int k = 0; k < 4; k++) {
            table[LBNN_TABULATED_CELLS + 4 * i + k] = (float)numbers[k];
        }
    }
    for (int j = 0; j < LBNN_TABULATED_KNOTS(cells); j++) {
        double mass = 0.0, level = 0.0, tilt = 0.0, spread = 0.0, slope = 0.0;
        for (int pass = 0; pass < 2; pass++) {
            mass = tilt = spread = 0.0;
            double sum = 0.0;
            for (int i = -60; i <= 60; i++) {
                const double z = 0.1 * i, weight = exp(-0.5 * z * z);
                const double value = tabulated_value(table, cells, j - LBNN_TABULATED_MARGIN + 0.6 * z, &slope);
                mass += weight;
                sum += weight * value;
                tilt += weight * slope;
                spread += weight * (value - level) * (value - level);
            }
            level = sum / mass;
        }
        float *knot = table + LBNN_TABULATED_CELLS + 4 * cells + 3 * j;
        knot[0] = (float)level;
        knot[1] = (float)(tilt / mass);
        knot[2] = (float)(spread / mass);
    }
}

/* A block of exactly the table's length; each table is made once. */
static float *tabulated_table(fuzz *f, int cells)
{
    static float made[TABULATED_MOST + 1][TABULATED_LEN];
    static int is_made[TABULATED_MOST + 1];
    if (!is_made[cells]) {
        tabulated_make(made[cells], cells);
        is_made[cells] = 1;
    }
    return fuzz_copy(f, made[cells], LBNN_TABULATED_CELLS + 4 * cells + 3 * LBNN_TABULATED_KNOTS(cells));
}

/* Sums over knots and lines: E g, E g^2 + E (S - m^2 b^2) and E g'. */
typedef struct {
    double first, second, bent;
} tabulated_sums;

typedef struct {
    double mean, var;
} tabulated_moments;

static double tabulated_limited(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

/* What lies `outside` beyond an end, `ahead` of E, adds for Y of standard deviation `sigma`. */
static void tabulated_beyond(tabulated_sums *sums, const float *line, double m, double ahead, double rise, double sigma,
                             double side)
{
    const double outside = 5.5, d = (ahead + outside) / sigma, density = exp(-0.5 * d * d) / TABULATED_ROOT;
    const double q = 0.5 * erfc(d / sqrt(2.0)), i1 = density - d * q, j2 = q - d * i1;
    const double t0 = q - density * d / (24.0 * sigma * sigma), t1 = sigma * i1 + density / (24.0 * sigma);
    const double rate = ((double)line[0] - m) * side, start = rise + rate * outside;
    const double noise = 0.36 * ((double)line[0] * (double)line[0] - m * m);
    sums->first += start * t0 + rate * t1;
    sums->second += (start * start + noise) * t0 + rate * (2.0 * start * t1 + rate * sigma * sigma * j2);
    sums->bent += rate * t0 * side;
}

/* The rule of lbnn/ops/tabulated.py in float64. */
static tabulated_moments tabulated_rule(const float *table, int cells, double e, double v)
{
    const double limit = 1.2, step = (double)table[1], place = (e - (double)table[0]) / step, var = v / (step * step);
    const double nearest = tabulated_limited(place, 0.0, cells), large = var > limit ? var : limit;
    const double w = large - 0.36, sigma = sqrt(w);
    double slope, up, down, unused;
    const double value = tabulated_value(table, cells, nearest, &slope);
    const double plain = tabulated_value(table, cells, place, &unused);
    const double m = place < 0.0 || place > cells ? slope : 0.0;
    tabulated_sums sums = {0.0, 0.0, 0.0};
    for (int j = 0; j < LBNN_TABULATED_KNOTS(cells); j++) {
        const float *knot = table + LBNN_TABULATED_CELLS + 4 * cells + 3 * j;
        const double y = j - LBNN_TABULATED_MARGIN, z = (y - place) / sigma;
        const double share = exp(-0.5 * z * z) / (sigma * TABULATED_ROOT);
        const double g = (double)knot[0] - value - m * (y - nearest);
        sums.first += share * g;
        sums.second += share * (g * g + (double)knot[2] - 0.36 * m * m);
        sums.bent += share * ((double)knot[1] - m);
    }
    if (place >= 0.0) { /* else E lies on that line, which is taken off */
        tabulated_beyond(&sums, table + 4, m, place, (double)table[5] - value + m * nearest, sigma, -1.0);
    }
    if (place <= cells) {
        const double rise = (double)table[7] - value - m * (cells - nearest);
        tabulated_beyond(&sums, table + 6, m, cells - place, rise, sigma, 1.0);
    }
    const double spread = sums.second - sums.first * sums.first + m * (m * large + 2.0 * sums.bent * w);
    tabulated_moments out = {plain + sums.first, spread > 0.0 ? spread : 0.0};
    if (var < limit) {
        tabulated_value(table, cells, place + 0.5, &up);
        tabulated_value(table, cells, place - 0.5, &down);
        const double r = var / limit, chord = sums.first / limit, half = 0.5 * (up - down);
        const double bend = half - 5.0 / 31.0 * (chord - half), whole = m + sums.bent;
        const double over = out.var - limit * whole * whole, rest = 2.0 / (limit * limit) * (over > 0.0 ? over : 0.0);
        const double steep = slope + r * (whole - slope), curved = 4.0 * bend * bend;
        out.mean = plain + var * (bend + r * (chord - bend));
        out.var = var * (steep * steep + 0.5 * var * (curved + r * (rest - curved)));
    }
    return out;
}

/* By the trapezoidal rule over 8 sigma. */
static tabulated_moments tabulated_truth(const float *table, int cells, double e, double v)
{
    double mass = 0.0, first = 0.0, second = 0.0, slope;
    const double centre = tabulated_value(table, cells, 2.0 * e + 0.5 * cells, &slope);
    for (int i = -400; i <= 400; i++) {
        const double z = 0.02 * i, weight = exp(-0.5 * z * z);
        const double g = tabulated_value(table, cells, 2.0 * (e + sqrt(v) * z) + 0.5 * cells, &slope) - centre;
        mass += weight;
        first += weight * g;
        second += weight * g * g;
    }
    const tabulated_moments out = {centre + first / mass, second / mass - first / mass * (first / mass)};
    return out;
}

/* The rule itself is some percent off where a Gaussian within a cell meets an end, at which the slope has a corner. */
static void tabulated_check(fuzz *f, const float *table, int cells, float e, float v, float mean, float var,
                            int compare)
{
    const int known = is_finite(e) && is_finite(v) && v >= 0.0f;
    if (!known || fabsf(e) > 1e18f || v > 1e30f) {
        fuzz_mean(f, mean, real_unknown(!is_finite(e)));
        fuzz_variance(f, var, real_unknown(!is_finite(e) || !is_finite(v)));
        return;
    }
    const double most = TABULATED_STEEPEST * TABULATED_STEEPEST;
    fuzz_expect(var >= 0.0f && (double)var <= 1.1 * most * (double)v + 1e-30, "a variance up to the steepest line's");
    if (compare && fabsf(e) < 20.0f && v < 100.0f) {
        const double sigma = sqrt((double)v), end = 0.25 * cells, near = 4.0 * sigma + 1.0;
        const tabulated_moments rule = tabulated_rule(table, cells, (double)e, (double)v);
        const double small = 1e-5 * (1.0 + fabs(rule.mean));
        fuzz_expect(fabs((double)mean - rule.mean) <= small + 1e-5 * sigma, "the mean of the rule");
        const double slack = 1e-5 * (rule.var + (double)v) + small * small;
        fuzz_expect(fabs((double)var - rule.var) <= slack, "the variance of the rule");
        if (v > 0.3f || fabs(fabs((double)e) - end) > near) {
            const tabulated_moments truth = tabulated_truth(table, cells, (double)e, (double)v);
            const double sd = sqrt(truth.var), tilt = 1e-2 * sigma;
            const double own = 3e-6 * (1.0 + fabs(truth.mean));
            fuzz_expect(fabs((double)mean - truth.mean) <= 0.05 * sd + tilt + own, "the mean");
            fuzz_expect(fabs(sqrt((double)var) - sd) <= 0.06 * sd + tilt + 1e-7, "the standard deviation");
        }
    }
}

static void fuzz_tabulated(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20), cells = fuzz_size(f, 8, TABULATED_MOST);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n), *table = tabulated_table(f, cells);
    lbnn_tabulated(mean, var, n, fuzz_keep(f, table), cells);
    for (int i = 0; i < n; i++) {
        tabulated_check(f, table, cells, e[i], v[i], mean[i], var[i], i < 3);
    }
}

static void fuzz_tabulated_point(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20), cells = fuzz_size(f, 8, TABULATED_MOST);
    const float *x = fuzz_means(f, n);
    float *out = fuzz_copy(f, x, n), *table = tabulated_table(f, cells);
    lbnn_tabulated_point(out, n, fuzz_keep(f, table), cells);
    for (int i = 0; i < n; i++) {
        if (!is_finite(x[i]) || fabsf(x[i]) > 1e18f) {
            fuzz_mean(f, out[i], real_unknown(!is_finite(x[i])));
            continue;
        }
        double slope;
        const double want = tabulated_value(table, cells, 2.0 * (double)x[i] + 0.5 * cells, &slope);
        const real near = {want, (20.0 + fabs(want) + fabs((double)x[i])) * 8.0 * REAL_UNIT, 0, 0};
        fuzz_mean(f, out[i], near);
    }
}

#endif
