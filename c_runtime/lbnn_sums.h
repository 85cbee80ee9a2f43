/* lbnn_sums.h: the arithmetic inside linear layers and convolutions: sums of products of moments.
 *
 *     x    = lbnn_input_load(kind, mean, var, at)        one input
 *     sum  = lbnn_sum_bias(row, width)                   one output
 *     sum  = lbnn_sum_add(sum, kind, x, row, width)
 *     sums = lbnn_sums_...                               LBNN_BLOCK outputs, the same input
 *
 * Weights are packed for these functions: outputs are taken in blocks of LBNN_PACK = 8 (the last block
 * may be narrower); a block of width B holds one row for the bias, then one row for each input in
 * ascending order, and a row is B means followed by B variances:
 *
 *     block 0:  E[b] x B, V[b] x B,  E[w_0] x B, V[w_0] x B,  E[w_1] x B, ...
 *     block 1:  ...
 *
 * That is 8 bytes a weight, read from the first to the last; lbnn_weights.h has the other form, of 4. Kernels whose
 * LBNN_BLOCK is 4 read each half of a row in turn, so one packing serves every width. LBNN_PACK - 1 unused floats at the end let a
 * kernel load a whole block where a narrower one is left (LBNN_WHOLE_BLOCKS): it computes a few outputs
 * that do not exist and does not store them.
 *
 * An output is always summed in the order bias, input 0, input 1, ..., and within an input in the order
 * of lbnn_sum_add, so that the block width never changes a result. Long sums are added up in parts of lbnn_fold(kind)
 * inputs: a part that is not the first begins with zeros instead of the bias (lbnn_sums_start), and what the parts
 * before it gave, which waits in the outputs, is added at its end (lbnn_sums_join):
 *
 *     E' = ((E[b] + E_0 E[w_0] + ... + E_71 E[w_71]) + (E_72 E[w_72] + ...)) + (...)
 *
 * Where variances of weights are products of factors (lbnn_rank1.h) only the row of the bias has variances: 4 bytes a
 * weight.
 */
#ifndef LBNN_SUMS_H
#define LBNN_SUMS_H

#include "lbnn_weights.h"

#define LBNN_PACK 8

/* What is left of a block: with vectors it costs no more than a whole one; without, output after output
 * costs less (13 instructions a weight on Cortex-M4F, where a block of eight takes 55). */
#if defined(LBNN_SIMD) || defined(LBNN_OPTIMIZE_SIZE)
#define LBNN_WHOLE_BLOCKS 1
#else
#define LBNN_WHOLE_BLOCKS 0
#endif

/* What a kernel's input is: moments, or a point, whose variance is never read. Always a constant, so that
 * each kernel is compiled for one of the two. _RANK1 leaves S V[w] out of the sums; _SQUARES are the sums of S alone,
 * with factors in place of weights. */
enum {
    LBNN_POINT,
    LBNN_MOMENTS,
    LBNN_POINT_RANK1,
    LBNN_MOMENTS_RANK1,
    LBNN_POINT_SQUARES,
    LBNN_MOMENTS_SQUARES
};

LBNN_INLINE int lbnn_is_random(int kind)
{
    return kind == LBNN_MOMENTS || kind == LBNN_MOMENTS_RANK1 || kind == LBNN_MOMENTS_SQUARES;
}

/* Whether the row of an input holds variances too. */
LBNN_INLINE int lbnn_is_full(int kind)
{
    return kind == LBNN_POINT || kind == LBNN_MOMENTS;
}

LBNN_INLINE int lbnn_is_squares(int kind)
{
    return kind == LBNN_POINT_SQUARES || kind == LBNN_MOMENTS_SQUARES;
}

/* The length of a row, and where in its block that of input i begins; behind the last input the block ends. */
LBNN_INLINE int lbnn_row_len(int kind, int width)
{
    return lbnn_is_full(kind) ? LBNN_STEP(width) : width;
}

LBNN_INLINE int lbnn_row_at(int kind, int width, int i)
{
    if (lbnn_is_full(kind)) {
        return LBNN_ROW(width, i + 1);
    }
    return lbnn_is_squares(kind) ? width * i : width * (i + 2);
}

/* Inputs in a part of a sum: with moments each adds two products to a variance. */
LBNN_INLINE int lbnn_fold(int kind)
{
    return kind == LBNN_MOMENTS ? LBNN_FOLD / 2 : LBNN_FOLD;
}

/* What the first part of a sum begins with, the row of the bias, or another part: a row of zeros. */
LBNN_UNUSED static const lbnn_weight lbnn_zeros[2 * LBNN_PACK] LBNN_FLASH = {0};

LBNN_INLINE const lbnn_weight *lbnn_sums_start(int kind, const lbnn_weight *bias, int more)
{
    return more || lbnn_is_squares(kind) ? lbnn_zeros : bias;
}

/* One input: E, V and S = V + E^2. */
typedef struct {
    float e, v, s;
} lbnn_input;

/* The sum of one output. */
typedef struct {
    float mean, var;
} lbnn_sum;

/* Element `at` of an input. Arrays go with an offset here and below: no pointer is computed for an element that
 * does not exist. */
LBNN_INLINE lbnn_input lbnn_input_load(int kind, const float *mean, const float *var, int at)
{
    LBNN_ROUND_PRODUCTS
    lbnn_input x;
    x.e = mean[at];
    x.v = lbnn_is_random(kind) ? var[at] : 0.0f;
    x.s = lbnn_is_random(kind) ? x.v + x.e * x.e : x.e * x.e;
    return x;
}

/* The input at an edge: outside there is a known zero. */
LBNN_INLINE lbnn_input lbnn_input_edge(int kind, const float *mean, const float *var, int at, int inside)
{
    lbnn_input x = {0.0f, 0.0f, 0.0f};
    if (inside) {
        x = lbnn_input_load(kind, mean, var, at);
    }
    return x;
}

LBNN_INLINE lbnn_sum lbnn_sum_bias(const lbnn_weight *row, int width)
{
    lbnn_sum sum;
    sum.mean = LBNN_BIAS(row[0]);
    sum.var = LBNN_BIAS(row[width]);
    return sum;
}

/* E' += E E[w];  V' += V E[w]^2 + S V[w]  (of a point: E^2 V[w]) */
LBNN_INLINE lbnn_sum lbnn_sum_add(lbnn_sum sum, int kind, lbnn_input x, const lbnn_weight *row, int width)
{
    LBNN_ROUND_PRODUCTS
    const float w = LBNN_MEAN(row[0]);
    if (lbnn_is_squares(kind)) {
        sum.var += x.s * w;
        return sum;
    }
    sum.mean += x.e * w;
    if (lbnn_is_random(kind)) {
        sum.var += x.v * (w * w);
    }
    if (lbnn_is_full(kind)) {
        sum.var += x.s * LBNN_VAR(row[LBNN_VARS(width)]);
    }
    return sum;
}

/* The sum and element `at`, where the parts before it are. */
LBNN_INLINE lbnn_sum lbnn_sum_join(lbnn_sum sum, const float *mean, const float *var, int at)
{
    sum.mean = mean[at] + sum.mean;
    if (LBNN_VARIANCE) {
        sum.var = var[at] + sum.var;
    }
    return sum;
}

LBNN_INLINE void lbnn_sum_store(lbnn_sum sum, float *mean, float *var, int at)
{
    mean[at] = sum.mean;
    if (LBNN_VARIANCE) {
        var[at] = sum.var;
    }
}

/* ---- a block of outputs --------------------------------------------------------------------------
 *
 * With vector registers the block is one of them; without, it is named scalars, which the compiler keeps
 * in registers. An array of accumulators would stay in memory at -O2 (1.7 times the instructions), and
 * operations on the whole block instead of output after output make gcc load all weights first and spill
 * (59 instead of 55 instructions for eight weights on Cortex-M4F). */

#ifdef LBNN_SIMD

typedef struct {
    lbnn_lanes mean, var;
} lbnn_sums;

LBNN_INLINE lbnn_sums lbnn_sums_bias(const lbnn_weight *row, int width)
{
    lbnn_sums sums;
    sums.mean = lbnn_biases_load(row);
    sums.var = lbnn_biases_load(row + width);
    return sums;
}

LBNN_INLINE lbnn_sums lbnn_sums_add(lbnn_sums sums, int kind, lbnn_input x, const lbnn_weight *row, int width)
{
    const lbnn_lanes w = lbnn_means_load(row);
    if (lbnn_is_squares(kind)) {
        sums.var = lbnn_lanes_add_times(sums.var, w, x.s);
        return sums;
    }
    sums.mean = lbnn_lanes_add_times(sums.mean, w, x.e);
    if (lbnn_is_random(kind)) {
        sums.var = lbnn_lanes_add_times(sums.var, w * w, x.v);
    }
    if (lbnn_is_full(kind)) {
        sums.var = lbnn_lanes_add_times(sums.var, lbnn_vars_load(row + LBNN_VARS(width)), x.s);
    }
    return sums;
}

/* Output i and element at + i * step, for the first n outputs or all if n is larger. */
LBNN_INLINE lbnn_sums lbnn_sums_join(lbnn_sums sums, const float *mean, const float *var, int at, int step, int n)
{
    if (step == 1) {
        sums.mean = lbnn_lanes_load(mean + at, n) + sums.mean;
        if (LBNN_VARIANCE) {
            sums.var = lbnn_lanes_load(var + at, n) + sums.var;
        }
        return sums;
    }
    for (int i = 0; i < LBNN_BLOCK && i < n; i++) {
        const lbnn_sum one = {sums.mean[i], sums.var[i]};
        const lbnn_sum sum = lbnn_sum_join(one, mean, var, at + i * step);
        sums.mean[i] = sum.mean;
        sums.var[i] = sum.var;
    }
    return sums;
}

/* Output i goes to element at + i * step, for the first n outputs or all if n is larger. */
LBNN_INLINE void lbnn_sums_store(lbnn_sums sums, float *mean, float *var, int at, int step, int n)
{
    if (step == 1) {
        lbnn_lanes_store(mean + at, sums.mean, n);
        if (LBNN_VARIANCE) {
            lbnn_lanes_store(var + at, sums.var, n);
        }
        return;
    }
    for (int i = 0; i < LBNN_BLOCK && i < n; i++) {
        const lbnn_sum sum = {sums.mean[i], sums.var[i]};
        lbnn_sum_store(sum, mean, var, at + i * step);
    }
}

#else

/* Four sums: of neighbouring outputs here, of neighbouring pixels in lbnn_conv_four.h. */
typedef struct {
    lbnn_sum a, b, c, d;
} lbnn_four;

/* Sum i and element at + i * step, for the first n or all if n is larger. */
LBNN_INLINE lbnn_four lbnn_four_join(lbnn_four sums, const float *mean, const float *var, int at, int step, int n)
{
    if (n > 0) {
        sums.a = lbnn_sum_join(sums.a, mean, var, at);
    }
    if (n > 1) {
        sums.b = lbnn_sum_join(sums.b, mean, var, at + step);
    }
    if (n > 2) {
        sums.c = lbnn_sum_join(sums.c, mean, var, at + 2 * step);
    }
    if (n > 3) {
        sums.d = lbnn_sum_join(sums.d, mean, var, at + 3 * step);
    }
    return sums;
}

/* Sum i goes to element at + i * step, for the first n or all if n is larger. */
LBNN_INLINE void lbnn_four_store(lbnn_four sums, float *mean, float *var, int at, int step, int n)
{
    if (n > 0) {
        lbnn_sum_store(sums.a, mean, var, at);
    }
    if (n > 1) {
        lbnn_sum_store(sums.b, mean, var, at + step);
    }
    if (n > 2) {
        lbnn_sum_store(sums.c, mean, var, at + 2 * step);
    }
    if (n > 3) {
        lbnn_sum_store(sums.d, mean, var, at + 3 * step);
    }
}

LBNN_INLINE lbnn_four lbnn_four_outputs_bias(const lbnn_weight *row, int width)
{
    lbnn_four sums;
    sums.a = lbnn_sum_bias(row, width);
    sums.b = lbnn_sum_bias(row + 1, width);
    sums.c = lbnn_sum_bias(row + 2, width);
    sums.d = lbnn_sum_bias(row + 3, width);
    return sums;
}

LBNN_INLINE lbnn_four lbnn_four_outputs_add(lbnn_four sums, int kind, lbnn_input x, const lbnn_weight *row, int width)
{
    sums.a = lbnn_sum_add(sums.a, kind, x, row, width);
    sums.b = lbnn_sum_add(sums.b, kind, x, row + 1, width);
    sums.c = lbnn_sum_add(sums.c, kind, x, row + 2, width);
    sums.d = lbnn_sum_add(sums.d, kind, x, row + 3, width);
    return sums;
}

typedef struct {
    lbnn_four low;
#if LBNN_BLOCK == 8
    lbnn_four high;
#endif
} lbnn_sums;

LBNN_INLINE lbnn_sums lbnn_sums_bias(const lbnn_weight *row, int width)
{
    lbnn_sums sums;
    sums.low = lbnn_four_outputs_bias(row, width);
#if LBNN_BLOCK == 8
    sums.high = lbnn_four_outputs_bias(row + 4, width);
#endif
    return sums;
}

LBNN_INLINE lbnn_sums lbnn_sums_add(lbnn_sums sums, int kind, lbnn_input x, const lbnn_weight *row, int width)
{
    sums.low = lbnn_four_outputs_add(sums.low, kind, x, row, width);
#if LBNN_BLOCK == 8
    sums.high = lbnn_four_outputs_add(sums.high, kind, x, row + 4, width);
#endif
    return sums;
}

/* Output i and element at + i * step, for the first n outputs or all if n is larger. */
LBNN_INLINE lbnn_sums lbnn_sums_join(lbnn_sums sums, const float *mean, const float *var, int at, int step, int n)
{
    sums.low = lbnn_four_join(sums.low, mean, var, at, step, n);
#if LBNN_BLOCK == 8
    sums.high = lbnn_four_join(sums.high, mean, var, at + 4 * step, step, n - 4);
#endif
    return sums;
}

/* Output i goes to element at + i * step, for the first n outputs or all if n is larger. */
LBNN_INLINE void lbnn_sums_store(lbnn_sums sums, float *mean, float *var, int at, int step, int n)
{
    lbnn_four_store(sums.low, mean, var, at, step, n);
#if LBNN_BLOCK == 8
    lbnn_four_store(sums.high, mean, var, at + 4 * step, step, n - 4);
#endif
}

#endif

/* ---- runs: n inputs from `at`, `step` apart, times n rows --------------------------------------- */

LBNN_INLINE lbnn_sums lbnn_sums_run(lbnn_sums sums, int kind, const float *mean, const float *var, int at, int step,
                                    const lbnn_weight *row, int width, int n)
{
    for (; n > 0; n--) {
        sums = lbnn_sums_add(sums, kind, lbnn_input_load(kind, mean, var, at), row, width);
        at += step;
        row += lbnn_row_len(kind, width);
    }
    return sums;
}

LBNN_INLINE lbnn_sum lbnn_sum_run(lbnn_sum sum, int kind, const float *mean, const float *var, int at, int step,
                                  const lbnn_weight *row, int width, int n)
{
    for (; n > 0; n--) {
        sum = lbnn_sum_add(sum, kind, lbnn_input_load(kind, mean, var, at), row, width);
        at += step;
        row += lbnn_row_len(kind, width);
    }
    return sum;
}

#endif
