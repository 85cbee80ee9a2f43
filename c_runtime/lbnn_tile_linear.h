/* lbnn_tile_linear.h: linear layers on many samples at once, for predictions of batches on a host.
 *
 *     lbnn_tile_linear(in_mean, in_var, w, out_mean, out_var, in_len, out_len)
 *     lbnn_tile_linear_point(in, w, out_mean, out_var, in_len, out_len)      input without variance
 *
 * Arrays hold columns (lbnn_tile.h), one for each of LBNN_TILE samples. A kernel that works element by element is called
 * with a length LBNN_TILE times as large. The sums are those of lbnn_linear.h in the same order and parts: a batch has the
 * bits of its samples alone.
 */
#ifndef LBNN_TILE_LINEAR_H
#define LBNN_TILE_LINEAR_H

#include "lbnn_tile.h"

#ifdef LBNN_TILE_BATCH

LBNN_INLINE void lbnn_tile_blocks(int kind, const float *in_mean, const float *in_var, const float *w, float *out_mean,
                                  float *out_var, int in_len, int out_len)
{
    const int fold = lbnn_fold(kind);
    for (; out_len > 0; out_len -= LBNN_PACK) {
        const int width = out_len < LBNN_PACK ? out_len : LBNN_PACK;
        for (int from = 0; from < in_len; from += fold) {
            const int n = in_len - from < fold ? in_len - from : fold;
            lbnn_tile_block(kind, in_mean + LBNN_TILE * from, in_var + LBNN_TILE * from, w, width, from, n, out_mean,
                            out_var);
        }
        w += lbnn_row_at(kind, width, in_len);
        out_mean += LBNN_TILE * LBNN_PACK;
        out_var += LBNN_TILE * LBNN_PACK;
    }
}

/* The formula of lbnn_linear. */
LBNN_KERNEL void lbnn_tile_linear(const float *LBNN_RESTRICT in_mean, const float *LBNN_RESTRICT in_var,
                                  const float *LBNN_RESTRICT w, float *LBNN_RESTRICT out_mean,
                                  float *LBNN_RESTRICT out_var, int in_len, int out_len)
{
    lbnn_tile_blocks(LBNN_MOMENTS, in_mean, in_var, w, out_mean, out_var, in_len, out_len);
}

/* The formula of lbnn_linear_point. */
LBNN_KERNEL void lbnn_tile_linear_point(const float *LBNN_RESTRICT in, const float *LBNN_RESTRICT w,
                                        float *LBNN_RESTRICT out_mean, float *LBNN_RESTRICT out_var, int in_len,
                                        int out_len)
{
    lbnn_tile_blocks(LBNN_POINT, in, in, w, out_mean, out_var, in_len, out_len);
}

/* From samples one behind the other to columns, and back. */
LBNN_INLINE void lbnn_tile_in(const float *from, float *to, int n)
{
    for (int i = 0; i < n; i++) {
        for (int s = 0; s < LBNN_TILE; s++) {
            to[LBNN_TILE * i + s] = from[n * s + i];
        }
    }
}

LBNN_INLINE void lbnn_tile_out(const float *from, float *to, int n)
{
    for (int s = 0; s < LBNN_TILE; s++) {
        for (int i = 0; i < n; i++) {
            to[n * s + i] = from[LBNN_TILE * i + s];
        }
    }
}

#endif
#endif
