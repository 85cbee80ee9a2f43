/* lbnn_dropout.h: dropout that stays on, by its moments.
 *
 *     lbnn_dropout(mean, var, n, kept, noise)                kept = 1 / (1 - p), noise = p / (1 - p); in place
 *     lbnn_dropout_point(in, out_mean, out_var, n, noise)    out_mean may be in
 */
#ifndef LBNN_DROPOUT_H
#define LBNN_DROPOUT_H

#include "lbnn.h"

/* E' = E;  V' = (V + p E^2) / (1 - p) */
LBNN_KERNEL void lbnn_dropout(const float *LBNN_RESTRICT mean, float *LBNN_RESTRICT var, int n, float kept, float noise)
{
    LBNN_ROUND_PRODUCTS
    for (int i = 0; i < n; i++) {
        const float x = mean[i];
        if (LBNN_VARIANCE) {
            var[i] = kept * var[i] + noise * (x * x);
        }
    }
}

/* E' = x;  V' = p / (1 - p) x^2 */
LBNN_KERNEL void lbnn_dropout_point(const float *in, float *out_mean, float *out_var, int n, float noise)
{
    for (int i = 0; i < n; i++) {
        const float x = in[i];
        out_mean[i] = x;
        if (LBNN_VARIANCE) {
            out_var[i] = noise * (x * x);
        }
    }
}

#endif
