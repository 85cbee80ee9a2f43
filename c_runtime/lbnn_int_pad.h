/* lbnn_int_pad.h: zeros around a feature map in integers.
 *
 *     lbnn_int_pad(mean, sigma, from, out, out_sigma, to, channels, height, width, top, left, rows, columns)
 *
 * Convolutions look beyond the edge of a map themselves: this is for padding in front of anything else.
 */
#ifndef LBNN_INT_PAD_H
#define LBNN_INT_PAD_H

#include "lbnn_int_map.h"

/* A map of height and width, `top` rows below and `left` columns beside the first pixel of one of rows and columns. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_pad(const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *from,
                                         int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int channels,
                                         int height, int width, int top, int left, int rows, int columns)
{
    int at = 0;
    for (int y = -top; y < rows - top; y++) {
        for (int x = -left; x < columns - left; x++) {
            const int inside = y >= 0 && y < height && x >= 0 && x < width;
            const int place = inside ? (y * width + x) * channels : 0;
            for (int i = place; i < place + channels; i++, at++) {
                lbnn_int_set(out, at, inside ? lbnn_int_at(mean, i) : 0);
                lbnn_int_set(out_sigma, at, inside ? lbnn_int_at(sigma, i) : 0);
            }
        }
    }
    if (at & 1) { /* the rest of the last word */
        lbnn_int_set(out, at, 0);
        lbnn_int_set(out_sigma, at, 0);
    }
    to->mean = from->mean;
    to->var = from->var;
}

#endif
