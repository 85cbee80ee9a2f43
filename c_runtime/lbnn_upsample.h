/* lbnn_upsample.h: nearest-neighbour upsampling of one array.
 *
 *     lbnn_upsample(in, out, channels, height, width, rows, columns)    height and width are those of the input
 */
#ifndef LBNN_UPSAMPLE_H
#define LBNN_UPSAMPLE_H

#include "lbnn.h"

/* Each element `rows` times below and `columns` times beside itself. */
LBNN_KERNEL void lbnn_upsample(const float *in, float *out, int channels, int height, int width, int rows,
                               int columns)
{
    for (int c = 0; c < channels; c++) {
        for (int y = 0; y < height; y++) {
            for (int row = 0; row < rows; row++) {
                for (int x = 0; x < width; x++) {
                    for (int column = 0; column < columns; column++) {
                        *out++ = in[x];
                    }
                }
            }
            in += width;
        }
    }
}

#endif
