/* lbnn_int_maxpool.h: max pooling in integers.
 *
 *     lbnn_int_max_pool(shape, mean, sigma, from, out, out_sigma, to, work)        a map -> a map
 *
 * A window is a tournament of pairs, in the order of lbnn_maxpool.h: in each row neighbours meet, then winners of
 * neighbouring pairs, an odd one waiting for the next round; then the rows' winners. A match, with a = sqrt(V + W),
 * x = |gap of the means| / a, V of the larger mean M and W of the other:
 *
 *     E' = M + a I1(x)        V' = V (1 - 2 Q + J2 - I1^2)(x) + W (J2 - I1^2)(x), at most the larger of V and W
 */
#ifndef LBNN_INT_MAXPOOL_H
#define LBNN_INT_MAXPOOL_H

#include "lbnn_int_map.h"

typedef struct {
    int32_t channels;
    int32_t height;
    int32_t width;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel_height;
    int32_t kernel_width;
    int32_t stride_height;
    int32_t stride_width;
    int32_t top;
    int32_t left;
    int32_t dilation_height;
    int32_t dilation_width;
    int32_t mean_bits;
    int32_t sigma_bits;
} lbnn_int_max_shape;

/* A value of a tournament: its mean has LBNN_INT_FINER bits behind those of a mantissa, its variance is that of sigmas'
 * mantissas, below 2^28 or equal. A variance below zero: there is nothing. */
typedef struct {
    int32_t mean;
    int32_t var;
} lbnn_int_rival;

#define LBNN_INT_FINER 10

/* Units of the means' mantissas: where a is below and the gap is below five times as many, they do not say by how many a
 * two values differ, and the larger variance, which is a bound, stands for that of the winner. */
#define LBNN_INT_COARSE 8

/* Values of a window that wait for their match: one for each bit of kernel height and width. */
#define LBNN_INT_WAITING 32

/* At x = 0, 1/16, .. 4: I1 in units of 2^-17, 1 - 2 Q + J2 - I1^2 of 2^-15, sqrt(J2 - I1^2) of 2^-16. */
static const uint16_t lbnn_int_matches[195] LBNN_UNUSED = {
    52290, 48296, 44506, 40919, 37532, 34343, 31348, 28544, 25926, 23487, 21223, 19127, 17192,
    15412, 13778, 12283, 10920, 9681, 8558, 7544, 6631, 5811, 5077, 4423, 3841, 3326,
    2871, 2471, 2120, 1813, 1546, 1314, 1113, 940, 791, 664, 555, 463, 384,
    318, 263, 216, 177, 145, 118, 96, 77, 62, 50, 40, 32, 25,
    20, 16, 13, 10, 8, 6, 5, 4, 3, 2, 2, 1, 1,
    11169, 11997, 12845, 13710, 14586, 15472, 16361, 17250, 18136, 19013, 19877, 20726, 21555,
    22361, 23141, 23892, 24612, 25299, 25952, 26570, 27151, 27695, 28203, 28675, 29111, 29512,
    29880, 30215, 30520, 30795, 31043, 31266, 31464, 31641, 31797, 31934, 32055, 32161, 32252,
    32332, 32401, 32460, 32510, 32553, 32590, 32621, 32647, 32668, 32687, 32702, 32714, 32725,
    32733, 32740, 32746, 32750, 32754, 32757, 32760, 32761, 32763, 32764, 32765, 32766, 32769,
    38262, 36857, 35446, 34031, 32618, 31211, 29813, 28429, 27063, 25717, 24396, 23103, 21840,
    20610, 19415, 18258, 17140, 16063, 15027, 14034, 13084, 12178, 11315, 10495, 9718, 8984,
    8291, 7639, 7026, 6452, 5915, 5414, 4947, 4513, 4110, 3737, 3392, 3074, 2782,
    2513, 2266, 2041, 1834, 1646, 1475, 1319, 1178, 1050, 935, 831, 737, 653,
    577, 509, 449, 395, 347, 304, 266, 233, 203, 177, 154, 134, 116
};

/* The moments of the larger; `ahead` is how far the exponent of means' mantissas is above that of sigmas', at least 0. */
LBNN_KERNEL LBNN_FAST lbnn_int_rival lbnn_int_match(lbnn_int_rival one, lbnn_int_rival other, int32_t ahead)
{
    if (one.var < 0 || other.var < 0) {
        return one.var < 0 ? other : one;
    }
    const int second = one.mean < other.mean;
    const lbnn_int_rival winner = second ? other : one, loser = second ? one : other;
    const int32_t total = one.var + other.var, gap = winner.mean - loser.mean;
    if (total == 0) {
        return winner;
    }
    const lbnn_int_root r = lbnn_int_sqrt(total);
    const int32_t z = lbnn_int_distance(lbnn_int_share(gap, r.inverse), 12 - ahead - r.half);
    const uint16_t *const cell = lbnn_int_matches + (z >> 8);
    lbnn_int_rival out;
    out.mean = winner.mean
               + lbnn_int_near((r.sigma * lbnn_int_between(cell, z & 255)) >> r.half, lbnn_int_smaller(7 + ahead, 31));
    out.var = lbnn_int_larger(winner.var, loser.var);
    const int32_t width = r.sigma >> lbnn_int_smaller(r.half + ahead, 31);
    if (width >= LBNN_INT_COARSE || gap >= (5 * LBNN_INT_COARSE) << LBNN_INT_FINER) {
        const uint32_t kept = LBNN_AS(uint32_t, lbnn_int_between(cell + LBNN_INT_TAIL, z & 255));
        const uint32_t gained = LBNN_AS(uint32_t, lbnn_int_between(cell + 2 * LBNN_INT_TAIL, z & 255));
        const int32_t spread = lbnn_int_times_up(2 * winner.var, kept)
                               + lbnn_int_times_up(lbnn_int_times_up(loser.var, gained), gained);
        out.var = lbnn_int_smaller(out.var, spread);
    }
    return out;
}

/* Matches of number n (from 1) of `all`: those of the rounds that it completes; of the last one all that wait. */
LBNN_INLINE int lbnn_int_due(int n, int all, int waiting)
{
    int count = 0;
    if (n == all) {
        return waiting;
    }
    for (; (n & 1) == 0; n >>= 1) {
        count++;
    }
    return count;
}

/* One channel of a window; `places` are where the mantissas of its pixels begin, row after row, or below zero outside of
 * the map, and `by` is how far its means move right. */
LBNN_INLINE lbnn_int_rival lbnn_int_largest_of(const int32_t *mean, const int32_t *sigma, const int32_t *places,
                                               int channel, int rows, int columns, int32_t by, int32_t ahead)
{
    lbnn_int_rival waiting[LBNN_INT_WAITING];
    waiting[0].mean = 0;
    waiting[0].var = 0;
    int count = 0;
    for (int i = 1; i <= rows; i++) {
        const int above = count;
        for (int j = 1; j <= columns; j++) {
            const int32_t place = *places++;
            lbnn_int_rival value = {0, -1};
            if (place >= 0) {
                const int32_t s = lbnn_int_at(sigma, place + channel);
                value.mean = (lbnn_int_at(mean, place + channel) * (1 << LBNN_INT_FINER)) >> by;
                value.var = s * s;
            }
            int due = lbnn_int_due(j, columns, count - above);
            if (j == columns) {
                due += lbnn_int_due(i, rows, above);
            }
            for (; due > 0; due--) {
                value = lbnn_int_match(waiting[--count], value, ahead);
            }
            waiting[count++] = value;
        }
    }
    return waiting[0];
}

/* `work` has 2 words a channel, and a word for each tap and each pixel of the result. May work in place where padding
 * is 0: a pixel is written at or before the first of its own window. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_max_pool(const lbnn_int_max_shape *shape, const int32_t *mean, const int32_t *sigma,
                                              const lbnn_int_scale *from, int32_t *out, int32_t *out_sigma,
                                              lbnn_int_scale *to, int32_t *work)
{
    const int n = shape->channels, rows = shape->kernel_height, columns = shape->kernel_width;
    const int count = shape->out_height * shape->out_width;
    int32_t *const var = work + n, *const places = var + n, *const exponents = places + rows * columns;
    const int32_t top = lbnn_int_larger(from->mean, from->var);
    const int32_t by = lbnn_int_apart(top, from->mean), ahead = top - from->var;
    const int32_t var_exponent = 2 * from->var;
    for (int pixel = 0; pixel < count; pixel++) {
        const int32_t y = (pixel / shape->out_width) * shape->stride_height - shape->top;
        const int32_t x = (pixel % shape->out_width) * shape->stride_width - shape->left;
        for (int k = 0; k < rows * columns; k++) {
            const int32_t row = y + (k / columns) * shape->dilation_height;
            const int32_t column = x + (k % columns) * shape->dilation_width;
            const int inside = row >= 0 && row < shape->height && column >= 0 && column < shape->width;
            places[k] = inside ? (row * shape->width + column) * n : -1;
        }
        lbnn_int_scale wide = {top - LBNN_INT_FINER, var_exponent, 0, 0};
        for (int i = 0; i < n; i++) {
            const lbnn_int_rival won = lbnn_int_largest_of(mean, sigma, places, i, rows, columns, by, ahead);
            work[i] = won.mean;
            var[i] = won.var;
            lbnn_int_look_at(&wide, won.mean, won.var);
        }
        exponents[pixel] = lbnn_int_settle(work, var, &wide, out, out_sigma, pixel * n, n, shape->mean_bits,
                                           shape->sigma_bits, 0);
    }
    lbnn_int_level(out, out_sigma, exponents, to, count, n, count * n);
}

#endif
