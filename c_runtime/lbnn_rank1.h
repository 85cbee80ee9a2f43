/* lbnn_rank1.h: linear layers and convolutions on moments, the variances of whose weights are products of factors.
 *
 *     lbnn_linear_rank1(in_mean, in_var, w, factors, out_mean, out_var, in_len, out_len)
 *     lbnn_linear_rank1_point(in, w, factors, out_mean, out_var, in_len, out_len)      input without variance
 *
 * V[w_ni] = row_n column_i, so that the sum of S_i column_i is one number for all outputs, and a weight costs one load
 * in place of two, a multiply-add less and 4 bytes. `w` is packed as lbnn_sums.h describes; `factors` are the rows, one
 * for each output, and then the columns, one for each input. Outputs must not overlap inputs.
 *
 * On Cortex-M4F (gcc 12, -O2) a weight costs a load, two multiply-adds and a square, where lbnn_linear.h needs 6
 * instructions.
 */
#ifndef LBNN_RANK1_H
#define LBNN_RANK1_H

#include "lbnn_linear.h"

#ifndef LBNN_HALF_WEIGHTS /* which hold a sigma for each weight */

/* The sum of S_i column_i, in parts as all sums. */
LBNN_INLINE float lbnn_rank1_sum(int kind, const float *in_mean, const float *in_var, const float *column, int in_len)
{
    const int fold = lbnn_fold(kind);
    float total = 0.0f;
    for (int from = 0; from < in_len; from += fold) {
        const int n = in_len - from < fold ? in_len - from : fold;
        lbnn_sum sum = {0.0f, 0.0f};
        sum = lbnn_sum_run(sum, kind, in_mean + from, in_var + from, 0, 1, column + from, 1, n);
        total = from > 0 ? total + sum.var : sum.var;
    }
    return total;
}

/* var_n += row_n shared */
LBNN_INLINE void lbnn_rank1_add(float shared, const float *row, float *var, int n)
{
    LBNN_ROUND_PRODUCTS
    for (int i = 0; LBNN_VARIANCE && i < n; i++) {
        var[i] += LBNN_READ(row[i]) * shared;
    }
}

/* E' = E[b] + E E[w];  V' = (V[b] + V E[w]^2) + row (S column),  S = V + E^2 */
LBNN_KERNEL void lbnn_linear_rank1(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                   const float *LBNN_RESTRICT w, const float *LBNN_RESTRICT factors,
                                   float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var, int in_len, int out_len)
{
    const float shared = lbnn_rank1_sum(LBNN_MOMENTS_SQUARES, in_mean, in_var, factors + out_len, in_len);
    lbnn_linear_blocks(LBNN_MOMENTS_RANK1, in_mean, in_var, w, out_mean, out_var, in_len, out_len);
    lbnn_rank1_add(shared, factors, out_var, out_len);
}

/* E' = E[b] + x E[w];  V' = V[b] + row (x^2 column) */
LBNN_KERNEL void lbnn_linear_rank1_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                         const float *LBNN_RESTRICT factors, float *LBNN_RESTRICT out_mean,
                                         float *LBNN_RESTRICT out_var, int in_len, int out_len)
{
    const float shared = lbnn_rank1_sum(LBNN_POINT_SQUARES, in, in, factors + out_len, in_len);
    lbnn_linear_blocks(LBNN_POINT_RANK1, in, in, w, out_mean, out_var, in_len, out_len);
    lbnn_rank1_add(shared, factors, out_var, out_len);
}

#endif
#endif
