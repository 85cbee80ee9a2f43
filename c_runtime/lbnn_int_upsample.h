/* lbnn_int_upsample.h: nearest-neighbour upsampling of a feature map in integers.
 *
 *     lbnn_int_upsample(mean, sigma, from, out, out_sigma, to, channels, height, width, rows, columns)
 */
#ifndef LBNN_INT_UPSAMPLE_H
#define LBNN_INT_UPSAMPLE_H

#include "lbnn_int_map.h"

/* Each pixel `rows` times below and `columns` times beside itself; height and width are those of the input. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_upsample(const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *from,
                                              int32_t *out, int32_t *out_sigma, lbnn_int_scale *to, int channels,
                                              int height, int width, int rows, int columns)
{
    int at = 0;
    for (int y = 0; y < height * rows; y++) {
        for (int x = 0; x < width * columns; x++) {
            const int place = ((y / rows) * width + x / columns) * channels;
            for (int i = place; i < place + channels; i++, at++) {
                lbnn_int_set(out, at, lbnn_int_at(mean, i));
                lbnn_int_set(out_sigma, at, lbnn_int_at(sigma, i));
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
