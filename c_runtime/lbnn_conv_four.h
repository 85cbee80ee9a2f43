/* lbnn_conv_four.h: the sums of four pixels, for processors without vector registers (LBNN_CONV_FOUR).
 *
 *     sums = lbnn_four_pixels_bias(row, width)          of one output channel
 *
 * A weight serves four pixels, an input several channels: so sums, inputs and weights fill the 32 registers of a Cortex-M4F
 * (lbnn_conv_patch.h, lbnn_conv_3x3.h).
 */
#ifndef LBNN_CONV_FOUR_H
#define LBNN_CONV_FOUR_H

#include "lbnn_conv_shape.h"
#include "lbnn_sums.h"

#if !defined(LBNN_SIMD) && !defined(LBNN_OPTIMIZE_SIZE)
#define LBNN_CONV_FOUR 1

LBNN_INLINE lbnn_four lbnn_four_pixels_bias(const lbnn_weight *row, int width)
{
    const lbnn_sum bias = lbnn_sum_bias(row, width);
    const lbnn_four sums = {bias, bias, bias, bias};
    return sums;
}

/* Four pixels of two output channels. */
typedef struct {
    lbnn_four left, right;
} lbnn_eight;

#endif
#endif
