/* lbnn_tabulated.h: any function that a table holds, on moments and on points, in place.
 *
 *     lbnn_tabulated(mean, var, n, table, cells)     moments of a Gaussian input
 *     lbnn_tabulated_point(x, n, table, cells)       input without variance
 *
 * F is a cubic in each of `cells` cells of one width and a line beyond them. `table` has LBNN_TABULATED_CELLS numbers, four
 * coefficients a cell, then {level, tilt, spread} of LBNN_TABULATED_KNOTS(cells) knots: mean of F, mean of its slope and
 * variance of F over a Gaussian of 0.6 cells around each. lbnn/ops/tabulated.py derives the rule; all in cells.
 */
#ifndef LBNN_TABULATED_H
#define LBNN_TABULATED_H

#include "lbnn_math.h"

#define LBNN_TABULATED_START 0   /* where the first cell begins */
#define LBNN_TABULATED_STEP 1    /* the width of a cell, */
#define LBNN_TABULATED_INVERSE 2 /* one over it */
#define LBNN_TABULATED_SQUARE 3  /* and over its square */
#define LBNN_TABULATED_LEFT 4    /* slope and value at the left end, and at the right one */
#define LBNN_TABULATED_CELLS 8   /* a, b, c, d of a + b t + c t^2 + d t^3 */
#define LBNN_TABULATED_MARGIN 5  /* knots beyond either end */
#define LBNN_TABULATED_KNOTS(cells) ((cells) + 2 * LBNN_TABULATED_MARGIN + 1)

#define LBNN_TABULATED_NARROW 1.2f          /* the variance from which on the sums are right */
#define LBNN_TABULATED_BLUR 0.36f           /* the variance that the knots' averages have taken */
#define LBNN_TABULATED_FOURTH 0.161290323f  /* of F's fourth derivative: 5/31 */
#define LBNN_TABULATED_OUTSIDE 5.5f         /* half a cell behind the last knot, where the lines alone begin */
#define LBNN_TABULATED_FAR 11.0f            /* of the normal tail, 2e-28: further out quotients are denormal */
#define LBNN_TABULATED_SMALL 40.0f          /* a knot with a share below 2^-40, beyond 7.45 sigma, is left out */

/* F in one cell. */
typedef struct {
    lbnn_lanes row, a, b, c, d;
} lbnn_tabulated_cell;

/* The cell at a place, or the nearest one: NaN has the last. */
LBNN_INLINE lbnn_tabulated_cell lbnn_tabulated_find(lbnn_lanes place, const float *table, int cells)
{
    float at[LBNN_LANES], part[4][LBNN_LANES];
    const lbnn_lanes within = lbnn_lanes_at_least(lbnn_lanes_at_most(place, LBNN_AS(float, cells - 1)), 0.0f);
    lbnn_lanes_store(at, within, LBNN_LANES);
    for (int i = 0; i < LBNN_LANES; i++) {
        const float *cell = table + LBNN_TABULATED_CELLS + 4 * LBNN_AS(int, at[i]);
        for (int k = 0; k < 4; k++) {
            part[k][i] = LBNN_READ(cell[k]);
        }
    }
    lbnn_tabulated_cell found;
    found.row = lbnn_lanes_float(lbnn_lanes_integer(within));
    found.a = lbnn_lanes_load(part[0], LBNN_LANES);
    found.b = lbnn_lanes_load(part[1], LBNN_LANES);
    found.c = lbnn_lanes_load(part[2], LBNN_LANES);
    found.d = lbnn_lanes_load(part[3], LBNN_LANES);
    return found;
}

/* b + 2 c t + 3 d t^2 */
LBNN_INLINE lbnn_lanes lbnn_tabulated_slope(lbnn_tabulated_cell cell, lbnn_lanes t)
{
    LBNN_ROUND_PRODUCTS
    return cell.b + t * (2.0f * cell.c + 3.0f * (t * cell.d));
}

/* F at E: `t` behind the beginning of cell `row`, at `place`; `inside` is the nearest place of the cell, with value and
 * slope; `m` is the slope of the line outside, 0 inside. */
typedef struct {
    lbnn_lanes place, row, t, inside, value, slope, m;
} lbnn_tabulated_here;

LBNN_INLINE lbnn_tabulated_here lbnn_tabulated_at(lbnn_lanes x, const float *table, int cells)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_lanes end = lbnn_lanes_fill(LBNN_AS(float, cells));
    lbnn_tabulated_here here;
    here.place = (x - LBNN_READ(table[LBNN_TABULATED_START])) * LBNN_READ(table[LBNN_TABULATED_INVERSE]);
    const lbnn_tabulated_cell cell = lbnn_tabulated_find(here.place, table, cells);
    here.row = cell.row;
    const lbnn_lanes begin = cell.row * LBNN_READ(table[LBNN_TABULATED_STEP]) + LBNN_READ(table[LBNN_TABULATED_START]);
    here.t = (x - begin) * LBNN_READ(table[LBNN_TABULATED_INVERSE]);
    here.inside = lbnn_lanes_at_least(lbnn_lanes_at_most(here.t, 1.0f), 0.0f);
    here.value = cell.a + here.inside * (cell.b + here.inside * (cell.c + here.inside * cell.d));
    here.slope = lbnn_tabulated_slope(cell, here.inside);
    const lbnn_lanes right = lbnn_lanes_select(lbnn_lanes_less(end, here.place), here.slope, zero);
    here.m = lbnn_lanes_select(lbnn_lanes_less(here.place, zero), here.slope, right);
    return here;
}

LBNN_INLINE lbnn_lanes lbnn_tabulated_plain(lbnn_tabulated_here here)
{
    LBNN_ROUND_PRODUCTS
    return here.value + here.slope * (here.t - here.inside);
}

/* E g, E g^2 + E (S - m^2 b^2) and E g' of what is left when value + m (y - place) is taken off. */
typedef struct {
    lbnn_lanes first, second, bent;
} lbnn_tabulated_rest;

/* The knots from `first` to before `last`, which hold all within 7.5 sigma of any lane. */
LBNN_INLINE lbnn_tabulated_rest lbnn_tabulated_knots(lbnn_tabulated_here here, lbnn_lanes sigma, const float *table,
                                                     int cells)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_lanes inverse = 0.84932180f / sigma; /* e^(-t^2 / 2) = 2^-(0.849 t)^2 */
    const lbnn_lanes share = 0.46971864f * inverse;
    lbnn_lanes whole = zero, tilt = zero, spread = zero;
    lbnn_tabulated_rest rest = {zero, zero, zero};
    int first = 0, last = LBNN_TABULATED_KNOTS(cells);
#ifndef LBNN_SIMD
    const float most = LBNN_AS(float, last);
    const float low = here.place + (LBNN_AS(float, LBNN_TABULATED_MARGIN) - 7.6f * sigma);
    const float high = here.place + (LBNN_AS(float, LBNN_TABULATED_MARGIN + 2) + 7.6f * sigma);
    first = LBNN_AS(int, lbnn_lanes_at_least(lbnn_lanes_at_most(low, most), 0.0f));
    last = LBNN_AS(int, lbnn_lanes_at_least(lbnn_lanes_at_most(high, most), 0.0f));
#endif
    const float *knots = table + LBNN_TABULATED_CELLS + 4 * cells;
    for (int j = first; j < last; j++) {
        const float *knot = knots + 3 * j;
        const lbnn_lanes ahead = LBNN_AS(float, j - LBNN_TABULATED_MARGIN) - here.row;
        const lbnn_lanes t = (ahead - here.t) * inverse;
        const lbnn_lanes power = t * t;
        const lbnn_mask inside = lbnn_lanes_less(power, lbnn_lanes_fill(LBNN_TABULATED_SMALL));
        if (lbnn_lanes_worth(inside)) {
            const lbnn_lanes density = lbnn_exp2(lbnn_lanes_at_most(power, LBNN_TABULATED_SMALL));
            const lbnn_lanes part = lbnn_lanes_select(inside, share, zero) * density;
            const lbnn_lanes g = (LBNN_READ(knot[0]) - here.value) - (ahead - here.inside) * here.m;
            const lbnn_lanes rise = part * g;
            rest.first = rest.first + rise;
            rest.second = rest.second + rise * g;
            whole = whole + part;
            tilt = tilt + part * LBNN_READ(knot[1]);
            spread = spread + part * LBNN_READ(knot[2]);
        }
    }
    rest.second = rest.second + (spread - LBNN_TABULATED_BLUR * (here.m * here.m) * whole);
    rest.bent = tilt - here.m * whole;
    return rest;
}

/* Adds the line beyond one end, if E does not lie on it: with d the distance of its beginning in sigma,
 *     T0 = Q - phi d / (24 W),  T1 = sigma I1 + phi / (24 sigma),  T2 = W J2 */
LBNN_INLINE lbnn_tabulated_rest lbnn_tabulated_beyond(lbnn_tabulated_rest rest, lbnn_tabulated_here here,
                                                      lbnn_lanes sigma, const float *line, float end, float side,
                                                      lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    const lbnn_lanes ahead = (end - here.place) * side;
    const lbnn_lanes d = (ahead + LBNN_TABULATED_OUTSIDE) / sigma;
    const lbnn_mask own = lbnn_lanes_less(ahead, zero);
    const lbnn_lanes distance = lbnn_lanes_select(own, lbnn_lanes_fill(2.0f * LBNN_TABULATED_FAR), d);
    const lbnn_mask inside = lbnn_lanes_less(distance, lbnn_lanes_fill(LBNN_TABULATED_FAR));
    if (lbnn_lanes_worth(inside)) {
        const lbnn_lanes within = lbnn_lanes_at_least(lbnn_lanes_at_most(distance, LBNN_TABULATED_FAR), 0.0f);
        const lbnn_tail_moments tail = lbnn_tail(within, c);
        const lbnn_lanes scale = lbnn_lanes_select(inside, lbnn_lanes_fill(LBNN_TAIL_FACTOR), zero) * tail.scale;
        const lbnn_lanes q = scale * tail.q;
        const lbnn_lanes i1 = scale * tail.i1;
        const lbnn_lanes bump = 0.041666667f * (i1 + within * q) / sigma;
        const lbnn_lanes t0 = q - bump * within / sigma;
        const lbnn_lanes t1 = sigma * i1 + bump;
        const lbnn_lanes t2 = sigma * sigma * (scale * tail.j2);
        const float slope = LBNN_READ(line[0]);
        const lbnn_lanes rate = (slope - here.m) * side;
        const float begin = LBNN_READ(line[1]) + slope * side * LBNN_TABULATED_OUTSIDE;
        const lbnn_lanes apart = (end - (here.row + here.inside)) + side * LBNN_TABULATED_OUTSIDE;
        const lbnn_lanes start = (begin - here.value) - here.m * apart;
        const lbnn_lanes noise = LBNN_TABULATED_BLUR * (slope * slope - here.m * here.m);
        rest.first = rest.first + (start * t0 + rate * t1);
        rest.second = rest.second + ((start * start + noise) * t0 + rate * (2.0f * start * t1 + rate * t2));
        rest.bent = rest.bent + rate * t0 * side;
    }
    return rest;
}

/* E g, V' and E F'. */
typedef struct {
    lbnn_lanes first, var, slope;
} lbnn_tabulated_sums;

/* V' = m^2 V + 2 m W E g' + E g^2 - (E g)^2 + E (S - m^2 b^2) for V >= LBNN_TABULATED_NARROW, W = V - b^2 */
LBNN_INLINE lbnn_tabulated_sums lbnn_tabulated_wide(lbnn_tabulated_here here, lbnn_lanes var, const float *table,
                                                    int cells, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const float *line = table + LBNN_TABULATED_LEFT;
    const lbnn_lanes w = var - LBNN_TABULATED_BLUR;
    const lbnn_lanes sigma = lbnn_lanes_sqrt(w);
    lbnn_tabulated_rest rest = lbnn_tabulated_knots(here, sigma, table, cells);
    rest = lbnn_tabulated_beyond(rest, here, sigma, line, 0.0f, -1.0f, c);
    rest = lbnn_tabulated_beyond(rest, here, sigma, line + 2, LBNN_AS(float, cells), 1.0f, c);
    const lbnn_lanes noise = here.m * (here.m * var + 2.0f * (rest.bent * w));
    lbnn_tabulated_sums sums;
    sums.first = rest.first;
    sums.var = lbnn_lanes_at_least((rest.second - rest.first * rest.first) + noise, 0.0f);
    sums.slope = here.m + rest.bent;
    return sums;
}

/* Moments on their way through. */
typedef struct {
    lbnn_lanes mean, var;
} lbnn_tabulated_moments;

/* With K = LBNN_TABULATED_NARROW, r = V / K, f = F'' / 2 and the sums at K:
 *     E' = F + V (f + r (E g / K - f)),   V' = V (F' + r (E F' - F'))^2 + V^2 (4 f^2 + r (f_1 - 4 f^2)) / 2 */
LBNN_INLINE lbnn_tabulated_moments lbnn_tabulated_narrow(lbnn_tabulated_here here, lbnn_lanes var,
                                                         lbnn_tabulated_sums sums, const float *table, int cells)
{
    LBNN_ROUND_PRODUCTS
    const float share = 1.0f / LBNN_TABULATED_NARROW;
    const lbnn_tabulated_cell right = lbnn_tabulated_find(here.place + 0.5f, table, cells);
    const lbnn_tabulated_cell left = lbnn_tabulated_find(here.place - 0.5f, table, cells);
    const lbnn_lanes above = (here.row - right.row) + (here.t + 0.5f);
    const lbnn_lanes below = (here.row - left.row) + (here.t - 0.5f);
    const lbnn_lanes up = lbnn_tabulated_slope(right, lbnn_lanes_at_least(lbnn_lanes_at_most(above, 1.0f), 0.0f));
    const lbnn_lanes down = lbnn_tabulated_slope(left, lbnn_lanes_at_least(lbnn_lanes_at_most(below, 1.0f), 0.0f));
    const lbnn_lanes r = share * var;
    const lbnn_lanes chord = share * sums.first;
    const lbnn_lanes half = 0.5f * (up - down);
    const lbnn_lanes bend = half - LBNN_TABULATED_FOURTH * (chord - half);
    const lbnn_lanes over = sums.var - LBNN_TABULATED_NARROW * (sums.slope * sums.slope);
    const lbnn_lanes rest = 2.0f * share * share * lbnn_lanes_at_least(over, 0.0f);
    const lbnn_lanes steep = here.slope + r * (sums.slope - here.slope);
    const lbnn_lanes curved = 4.0f * (bend * bend);
    lbnn_tabulated_moments out;
    out.mean = lbnn_tabulated_plain(here) + var * (bend + r * (chord - bend));
    out.var = var * (steep * steep + 0.5f * (var * (curved + r * (rest - curved))));
    return out;
}

/* The narrow rule or the sums. What is not finite, and would be lost in a function that ends in a constant, is kept by
 * adding 0 times it. */
LBNN_INLINE lbnn_tabulated_moments lbnn_tabulated_of(lbnn_tabulated_moments in, const float *table, int cells,
                                                     lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_lanes limit = lbnn_lanes_fill(LBNN_TABULATED_NARROW);
    const lbnn_tabulated_here here = lbnn_tabulated_at(in.mean, table, cells);
    const lbnn_lanes var = LBNN_READ(table[LBNN_TABULATED_SQUARE]) * in.var;
    const lbnn_lanes large = lbnn_lanes_at_least(var, LBNN_TABULATED_NARROW);
    const lbnn_tabulated_sums sums = lbnn_tabulated_wide(here, large, table, cells, c);
    const lbnn_mask is_narrow = lbnn_lanes_less(var, limit);
    lbnn_tabulated_moments out;
    out.mean = lbnn_tabulated_plain(here) + sums.first;
    out.var = sums.var;
    if (lbnn_lanes_worth(is_narrow)) {
        const lbnn_lanes small = lbnn_lanes_at_most(var, LBNN_TABULATED_NARROW);
        const lbnn_tabulated_moments part = lbnn_tabulated_narrow(here, small, sums, table, cells);
        out.mean = lbnn_lanes_select(is_narrow, part.mean, out.mean);
        out.var = lbnn_lanes_select(is_narrow, part.var, out.var);
    }
    out.mean = out.mean + 0.0f * in.mean;
    out.var = out.var + 0.0f * (in.mean + in.var);
    return out;
}

/* F of a known value */
LBNN_KERNEL void lbnn_tabulated_point(float *x, int n, const float *table, int cells)
{
    for (int i = 0; i < n; i += LBNN_LANES) {
        const lbnn_lanes in = lbnn_lanes_load(x + i, n - i);
        const lbnn_lanes out = lbnn_tabulated_plain(lbnn_tabulated_at(in, table, cells));
        lbnn_lanes_store(x + i, out + 0.0f * in, n - i);
    }
}

/* The moments of F(a) for a ~ N(E, V) */
LBNN_KERNEL void lbnn_tabulated(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n, const float *table,
                                int cells)
{
    if (!LBNN_VARIANCE) {
        lbnn_tabulated_point(mean, n, table, cells);
        return;
    }
    const lbnn_tail_odd c = lbnn_tail_prepare();
    for (int i = 0; i < n; i += LBNN_LANES) {
        lbnn_tabulated_moments x;
        x.mean = lbnn_lanes_load(mean + i, n - i);
        x.var = lbnn_lanes_load(var + i, n - i);
        x = lbnn_tabulated_of(x, table, cells, c);
        lbnn_lanes_store(mean + i, x.mean, n - i);
        lbnn_lanes_store(var + i, x.var, n - i);
    }
}

#endif
