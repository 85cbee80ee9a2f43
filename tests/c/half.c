/* The decoders of half floats: the one that kernels use, the plain one, and vectors of them. */
#define LBNN_HALF_WEIGHTS
#include "lbnn_weights.h"

LBNN_KERNEL void decode_used(const uint32_t *words, float *low, float *high, int n)
{
    for (int i = 0; i < n; i++) {
        low[i] = LBNN_MEAN(words[i]);
        high[i] = lbnn_half_high(words[i]);
    }
}

LBNN_KERNEL void decode_plain(const uint32_t *words, float *low, float *high, int n)
{
    for (int i = 0; i < n; i++) {
        low[i] = lbnn_half_plain(words[i]);
        high[i] = lbnn_half_plain(words[i] >> 16);
    }
}

/* The same, and squares, by vectors where there are any; n is a multiple of 8. */
LBNN_KERNEL void decode_lanes(const uint32_t *words, float *low, float *squares, int n)
{
#ifdef LBNN_SIMD
    for (int i = 0; i < n; i += LBNN_LANES) {
        lbnn_lanes_store(low + i, lbnn_means_load(words + i), LBNN_LANES);
        lbnn_lanes_store(squares + i, lbnn_vars_load(words + i), LBNN_LANES);
    }
#else
    for (int i = 0; i < n; i++) {
        low[i] = LBNN_MEAN(words[i]);
        squares[i] = LBNN_VAR(words[i]);
    }
#endif
}
