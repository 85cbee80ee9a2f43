/* lbnn_piecewise.h: continuous piecewise-linear functions (ReLU6, hard-tanh, PReLU, ...), on moments and on points, in
 * place.
 *
 *     lbnn_piecewise(mean, var, n, pieces, kinks)           exact moments of a Gaussian input
 *     lbnn_piecewise_point(x, n, pieces, kinks)             input without variance
 *
 * `pieces` holds for each of the kinks + 1 pieces, from left to right, {start, slope, place, value}: from start on,
 * f(x) = value + slope (x - place). The first start is -FLT_MAX. Behind the last piece stand FLT_MAX and the length of
 * the shortest piece.
 */
#ifndef LBNN_PIECEWISE_H
#define LBNN_PIECEWISE_H

#include "lbnn_activation.h"

enum { LBNN_PIECE = 4 }; /* floats of a piece */

/* The normal tail at one end of a cell, x standard deviations from E. */
typedef struct {
    lbnn_lanes x, q, i1, j2;
} lbnn_cell_end;

/* What the cells of one side of E add to E[h] and E[h^2], h = f - f(E). */
typedef struct {
    lbnn_lanes first, second;
} lbnn_cell_sums;

/* The density at the end of a cell. */
LBNN_INLINE lbnn_lanes lbnn_cell_density(lbnn_cell_end end)
{
    LBNN_ROUND_PRODUCTS
    return end.i1 + end.x * end.q;
}

/* The tail beyond `ahead` >= 0; beyond LBNN_TAIL_MAX it is nothing, and so it is with sigma = 0. */
LBNN_INLINE lbnn_cell_end lbnn_cell_tail(lbnn_lanes ahead, lbnn_lanes sigma, lbnn_mask inside, lbnn_tail_odd c)
{
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f);
    lbnn_cell_end end = {zero, zero, zero, zero};
    if (lbnn_lanes_worth(inside)) {
        const lbnn_lanes within = lbnn_lanes_select(inside, ahead, zero);
        end.x = lbnn_tail_place(within, lbnn_lanes_select(inside, sigma, lbnn_lanes_fill(1.0f)));
        const lbnn_tail_moments tail = lbnn_tail(end.x, c);
        const lbnn_lanes scale = lbnn_lanes_select(inside, lbnn_lanes_fill(LBNN_TAIL_FACTOR), zero) * tail.scale;
        end.q = scale * tail.q;
        end.i1 = scale * tail.i1;
        end.j2 = scale * tail.j2;
    }
    return end;
}

/* B = int Q and M = int 2 (y - a) Q of a cell of length d that begins at a, w = d / sigma standard deviations wide:
 *     wide    B = sigma (I1_l - I1_r),   M = V (J2_l - J2_r) - 2 d sigma I1_r
 *     narrow  B = d [(Q_l + Q_r) / 2 + 3 w (phi_r - phi_l) / 28 + w^2 (l phi_l + r phi_r) / 84
 *                    + w^3 ((1 - l^2) phi_l - (1 - r^2) phi_r) / 1680]
 *             M = d^2 [(3 Q_l + 11 Q_r) / 14 + w (phi_r / 6 - phi_l / 21) + w^2 (3 l phi_l + 17 r phi_r) / 840
 *                      - w^3 (1 - r^2) phi_r / 840]
 * The differences cancel where w (1 + r) is small, and this rule, of order 8, is good to 1e-6 there. */
LBNN_INLINE lbnn_cell_sums lbnn_cell(lbnn_cell_end begin, lbnn_cell_end end, lbnn_lanes d, lbnn_lanes sigma,
                                     lbnn_lanes var)
{
    LBNN_ROUND_PRODUCTS
    lbnn_cell_sums cell;
    const lbnn_lanes beyond = sigma * end.i1;
    cell.first = sigma * (begin.i1 - end.i1);
    cell.second = var * (begin.j2 - end.j2) - 2.0f * d * beyond;
    const lbnn_mask narrow = lbnn_lanes_less(d + d * end.x, 1.4f * sigma);
    if (lbnn_lanes_worth(narrow)) {
        const lbnn_lanes w = d / lbnn_lanes_select(narrow, sigma, lbnn_lanes_fill(1.0f));
        const lbnn_lanes left = lbnn_cell_density(begin), right = lbnn_cell_density(end);
        const lbnn_lanes lean = begin.x * left, bend = end.x * right;
        const lbnn_lanes turn = right - end.x * bend; /* (1 - r^2) phi_r */
        const lbnn_lanes b3 = 5.952381e-4f * ((left - begin.x * lean) - turn);
        const lbnn_lanes b = 0.5f * (begin.q + end.q)
                             + w * (0.10714286f * (right - left) + w * (1.1904762e-2f * (lean + bend) + w * b3));
        const lbnn_lanes m2 = (3.5714286e-3f * lean + 2.0238095e-2f * bend) - w * (1.1904762e-3f * turn);
        const lbnn_lanes m = (0.21428571f * begin.q + 0.78571429f * end.q)
                             + w * ((0.16666667f * right - 4.7619048e-2f * left) + w * m2);
        cell.first = lbnn_lanes_select(narrow, d * b, cell.first);
        cell.second = lbnn_lanes_select(narrow, d * (d * m), cell.second);
    }
    return cell;
}

/* Whether all lanes are set; those of both masks; those of a alone. */
LBNN_INLINE int lbnn_lanes_every(lbnn_mask mask)
{
    return !lbnn_lanes_any(lbnn_lanes_not(mask));
}

LBNN_INLINE lbnn_mask lbnn_lanes_both(lbnn_mask a, lbnn_mask b)
{
    return LBNN_AS(lbnn_mask, a & b);
}

LBNN_INLINE lbnn_mask lbnn_lanes_without(lbnn_mask a, lbnn_mask b)
{
    return lbnn_lanes_both(a, lbnn_lanes_not(b));
}

/* E and V with sigma, and the piece that holds E; of a vector the first and the last piece that may hold any of it. */
typedef struct {
    lbnn_moments x;
    lbnn_lanes sigma;
    const float *first, *last;
} lbnn_piecewise_input;

/* A side of E: sign 1 the right, -1 the left of the mirrored function, from `piece` outwards. */
typedef struct {
    float sign;
    const float *piece, *outermost;
    int step, kink; /* to the next piece; from a piece to the kink that ends it */
} lbnn_piecewise_side;

LBNN_INLINE lbnn_piecewise_side lbnn_piecewise_begin(const lbnn_piecewise_input *in, const float *pieces, int kinks,
                                                     int left)
{
    const lbnn_piecewise_side right = {1.0f, in->first, pieces + LBNN_PIECE * kinks, LBNN_PIECE, LBNN_PIECE};
    const lbnn_piecewise_side mirrored = {-1.0f, in->last, pieces, -LBNN_PIECE, 0};
    return left ? mirrored : right;
}

/* The sums over all cells, whatever their width. A vector may begin with pieces on the other side of E, which have no
 * cell here. A variance that overflowed is not hidden by a function that is bounded. */
LBNN_DEFAULT_KERNEL void lbnn_piecewise_cells(const lbnn_piecewise_input *in, const float *pieces, int kinks,
                                              lbnn_cell_sums *out)
{
    LBNN_ROUND_PRODUCTS
    const lbnn_tail_odd c = lbnn_tail_prepare();
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f), sigma = in->sigma;
    const lbnn_lanes half = lbnn_lanes_fill(0.5f);
    const lbnn_cell_end at_mean = {zero, half, lbnn_lanes_fill(LBNN_TAIL_FACTOR), half};
    lbnn_cell_sums sums = {zero, zero};
    for (int left = 0; left < 2; left++) {
        lbnn_piecewise_side side = lbnn_piecewise_begin(in, pieces, kinks, left);
        lbnn_cell_end begin = at_mean;
        lbnn_lanes height = zero; /* twice f - f(E) where a cell begins */
        for (; side.piece != side.outermost; side.piece += side.step) {
            const lbnn_lanes apart = side.sign * (LBNN_READ(side.piece[side.kink]) - in->x.mean);
            const lbnn_mask active = lbnn_lanes_less(zero, apart);
            const float slope = side.sign * LBNN_READ(side.piece[1]);
            const float gap = LBNN_READ(side.piece[LBNN_PIECE]) - LBNN_READ(side.piece[0]);
            const lbnn_lanes whole = lbnn_lanes_fill(gap), ahead = lbnn_lanes_select(active, apart, zero);
            const lbnn_lanes d = lbnn_lanes_select(lbnn_lanes_less(ahead, whole), ahead, whole);
            const lbnn_cell_end end = lbnn_cell_tail(ahead, sigma, lbnn_lanes_less(ahead, LBNN_TAIL_MAX * sigma), c);
            const lbnn_cell_sums cell = lbnn_cell(begin, end, d, sigma, in->x.var);
            sums.first += slope * cell.first;
            sums.second += slope * (height * cell.first + slope * cell.second);
            height += 2.0f * slope * d;
            begin.x = lbnn_lanes_select(active, end.x, begin.x);
            begin.q = lbnn_lanes_select(active, end.q, begin.q);
            begin.i1 = lbnn_lanes_select(active, end.i1, begin.i1);
            begin.j2 = lbnn_lanes_select(active, end.j2, begin.j2);
        }
        const float slope = side.sign * LBNN_READ(side.piece[1]);
        const lbnn_lanes rest = sigma * begin.i1; /* the last cell has no end */
        sums.first += slope * rest;
        sums.second += slope * (height * rest + slope * (in->x.var * begin.j2));
    }
    out->first = sums.first;
    out->second = lbnn_lanes_select(lbnn_lanes_less(sigma, lbnn_lanes_fill(1e30f)), sums.second, in->x.var);
}

/* The same for one side where no piece is shorter than sigma, the differences of neighbouring cells summed by kinks
 * instead: beyond a kink, where the slope changes from b to b' at the height h, the sums change by
 *     (b' - b) sigma I1   and   2 h (b' - b) sigma I1 + (b'^2 - b^2) V J2
 * from those of the line through E, which are 0 and b^2 V. */
LBNN_INLINE lbnn_cell_sums lbnn_piecewise_kinks(const lbnn_piecewise_input *in, const float *piece,
                                                const float *outermost, float sign, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const int step = sign < 0.0f ? -LBNN_PIECE : LBNN_PIECE;
    const lbnn_lanes zero = lbnn_lanes_fill(0.0f), sigma = in->sigma, most = LBNN_TAIL_MAX * sigma;
    lbnn_lanes before = zero, height = zero; /* twice f - f(E) at the kink */
    lbnn_cell_sums sums = {zero, zero};
    for (; piece != outermost; piece += step) {
        const lbnn_lanes ahead =
            sign < 0.0f ? in->x.mean - LBNN_READ(piece[0]) : LBNN_READ(piece[LBNN_PIECE]) - in->x.mean;
        const lbnn_mask inside = lbnn_lanes_less(ahead, most);
        if (!lbnn_lanes_worth(inside)) {
            break; /* further kinks are further away */
        }
        /* One number has no kink behind it here; a vector has, of the pieces that hold its other lanes. A kink at E
         * itself belongs to the right. */
        const lbnn_mask counts = LBNN_LANES == 1 ? inside
                                 : sign < 0.0f   ? lbnn_lanes_both(inside, lbnn_lanes_less(zero, ahead))
                                                 : lbnn_lanes_without(inside, lbnn_lanes_less(ahead, zero));
        const lbnn_lanes place = lbnn_lanes_select(counts, ahead, zero);
        const lbnn_lanes at = lbnn_tail_place(place, lbnn_lanes_select(counts, sigma, lbnn_lanes_fill(1.0f)));
        const lbnn_tail_moments tail = lbnn_tail(at, c);
        const float slope = sign * LBNN_READ(piece[1]), next = sign * LBNN_READ(piece[step + 1]);
        const float bend = next - slope;
        const lbnn_lanes scale = (LBNN_TAIL_FACTOR * lbnn_lanes_select(counts, sigma, zero)) * tail.scale;
        const lbnn_lanes i1 = bend * (scale * tail.i1);
        height += (2.0f * slope) * (place - before);
        before = place;
        sums.first += i1;
        sums.second += height * i1 + (bend * (next + slope)) * (sigma * (scale * tail.j2));
    }
    return sums;
}

/* The line of a piece. */
LBNN_INLINE lbnn_lanes lbnn_piece_line(lbnn_lanes x, const float *piece)
{
    LBNN_ROUND_PRODUCTS
    return LBNN_READ(piece[3]) + LBNN_READ(piece[1]) * (x - LBNN_READ(piece[2]));
}

/* h = f - f(E); E[h] and E[h^2] by parts are integrals of f' and 2 h f' with the normal tail on each side of E, cell
 * after cell, a cell being what lies of a piece on one side:
 *     E' = f(E) + E[h],   V' = E[h^2] - E[h]^2
 * No terms cancel for an f that never falls, whatever sigma is beside the pieces. */
LBNN_INLINE lbnn_moments lbnn_piecewise_of(lbnn_moments x, const float *pieces, int kinks, lbnn_tail_odd c)
{
    LBNN_ROUND_PRODUCTS
    const float *end = pieces + LBNN_PIECE * (kinks + 1);
    lbnn_piecewise_input in;
    in.x = x;
    in.sigma = lbnn_lanes_sqrt(x.var);
    in.first = pieces;
    in.last = pieces;
    lbnn_lanes line = lbnn_piece_line(x.mean, pieces), slope = lbnn_lanes_fill(LBNN_READ(pieces[1]));
    const float *piece = pieces;
    for (int rest = kinks; rest > 0; rest--) {
        piece += LBNN_PIECE;
        const lbnn_mask reached = lbnn_lanes_less(lbnn_lanes_fill(LBNN_READ(piece[0])), x.mean);
        if (!lbnn_lanes_worth(reached)) {
            break;
        }
        line = lbnn_lanes_select(reached, lbnn_piece_line(x.mean, piece), line);
        slope = lbnn_lanes_select(reached, lbnn_lanes_fill(LBNN_READ(piece[1])), slope);
        in.last = piece;
    }
    if (LBNN_LANES == 1) {
        in.first = in.last;
    }
    const lbnn_mask narrow = lbnn_lanes_less(lbnn_lanes_fill(LBNN_READ(end[1])), in.sigma);
    lbnn_cell_sums sums = {lbnn_lanes_fill(0.0f), lbnn_lanes_fill(0.0f)};
    if (!lbnn_lanes_every(narrow)) {
        const lbnn_cell_sums right = lbnn_piecewise_kinks(&in, in.first, end - LBNN_PIECE, 1.0f, c);
        const lbnn_cell_sums left = lbnn_piecewise_kinks(&in, in.last, pieces, -1.0f, c);
        sums.first = right.first + left.first;
        sums.second = slope * slope * x.var + (right.second + left.second);
    }
    if (lbnn_lanes_any(narrow)) {
        lbnn_cell_sums cells;
        lbnn_piecewise_cells(&in, pieces, kinks, &cells);
        sums.first = lbnn_lanes_select(narrow, cells.first, sums.first);
        sums.second = lbnn_lanes_select(narrow, cells.second, sums.second);
    }
    const lbnn_lanes var = sums.second - sums.first * sums.first;
    lbnn_moments out;
    out.mean = line + sums.first;
    out.var = lbnn_lanes_select(lbnn_lanes_less(var, lbnn_lanes_fill(0.0f)), lbnn_lanes_fill(0.0f), var);
    return out;
}

/* f(x) */
LBNN_KERNEL void lbnn_piecewise_point(float *x, int n, const float *pieces, int kinks)
{
    LBNN_ROUND_PRODUCTS
    for (int i = 0; i < n; i++) {
        const float *piece = pieces;
        for (int k = 0; k < kinks && LBNN_READ(piece[LBNN_PIECE]) < x[i]; k++) {
            piece += LBNN_PIECE;
        }
        x[i] = LBNN_READ(piece[3]) + LBNN_READ(piece[1]) * (x[i] - LBNN_READ(piece[2]));
    }
}

/* The moments of f(a) for a ~ N(E, V). */
LBNN_KERNEL void lbnn_piecewise(float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n, const float *pieces,
                                int kinks)
{
    if (!LBNN_VARIANCE) {
        lbnn_piecewise_point(mean, n, pieces, kinks);
        return;
    }
    const lbnn_tail_odd c = lbnn_tail_prepare();
    for (int i = 0; i < n; i += LBNN_LANES) {
        lbnn_moments x;
        x.mean = lbnn_lanes_load(mean + i, n - i);
        x.var = lbnn_lanes_load(var + i, n - i);
        x = lbnn_piecewise_of(x, pieces, kinks, c);
        lbnn_lanes_store(mean + i, x.mean, n - i);
        lbnn_lanes_store(var + i, x.var, n - i);
    }
}

#endif
