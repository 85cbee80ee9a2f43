/* lbnn_product.h: products of two values that a network computes.
 *
 *     lbnn_multiply(a_mean, a_var, b_mean, b_var, out_mean, out_var, channels, plane, a_plane, b_plane)
 *     lbnn_multiply_known(a_mean, a_var, point, out_mean, out_var, channels, plane, a_plane, b_plane)
 *     lbnn_multiply_point(a, b, out, channels, plane, a_plane, b_plane)
 *
 * The output has `plane` elements a channel; a factor has as many, or 1, which then serves the whole channel.
 */
#ifndef LBNN_PRODUCT_H
#define LBNN_PRODUCT_H

#include "lbnn.h"

/* x' = a b */
LBNN_KERNEL void lbnn_multiply_point(const float *a, const float *b, float *out, int channels, int plane, int a_plane,
                                     int b_plane)
{
    for (int c = 0; c < channels; c++) {
        for (int i = 0; i < plane; i++) {
            *out++ = a[c * a_plane + (a_plane > 1 ? i : 0)] * b[c * b_plane + (b_plane > 1 ? i : 0)];
        }
    }
}

/* E' = E1 E2;  V' = V1 (V2 + E2^2) + V2 E1^2 (independent) */
LBNN_KERNEL void lbnn_multiply(const float *a_mean, const float *a_var, const float *b_mean, const float *b_var,
                               float *out_mean, float *out_var, int channels, int plane, int a_plane, int b_plane)
{
    LBNN_ROUND_PRODUCTS
    lbnn_multiply_point(a_mean, b_mean, out_mean, channels, plane, a_plane, b_plane);
    for (int c = 0; LBNN_VARIANCE && c < channels; c++) {
        for (int i = 0; i < plane; i++) {
            const int a = c * a_plane + (a_plane > 1 ? i : 0);
            const int b = c * b_plane + (b_plane > 1 ? i : 0);
            const float x = a_mean[a];
            const float y = b_mean[b];
            *out_var++ = a_var[a] * (b_var[b] + y * y) + b_var[b] * (x * x);
        }
    }
}

/* E' = E x;  V' = V x^2 */
LBNN_KERNEL void lbnn_multiply_known(const float *a_mean, const float *a_var, const float *point, float *out_mean,
                                     float *out_var, int channels, int plane, int a_plane, int b_plane)
{
    LBNN_ROUND_PRODUCTS
    lbnn_multiply_point(a_mean, point, out_mean, channels, plane, a_plane, b_plane);
    for (int c = 0; LBNN_VARIANCE && c < channels; c++) {
        for (int i = 0; i < plane; i++) {
            const float x = point[c * b_plane + (b_plane > 1 ? i : 0)];
            *out_var++ = a_var[c * a_plane + (a_plane > 1 ? i : 0)] * (x * x);
        }
    }
}

#endif
