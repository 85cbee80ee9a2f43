/* lbnn_tile.h: sums of many columns at once (LBNN_SIMD): samples of a batch, pixels of an image.
 *
 *     lbnn_tile_block(kind, mean, var, w, width, from, n, out_mean, out_var)      n inputs, a packed block of outputs
 *
 * A vector is one value of LBNN_TILE columns, and arrays hold such vectors: element i of column n is at
 * LBNN_TILE * i + n. So a weight is loaded once for all columns, and the sums of eight outputs stay in registers.
 *
 * `w` is packed as lbnn_sums.h describes, and sums are taken in the order of lbnn_sum_add, with the same products: a
 * column has the bits that it has alone.
 */
#ifndef LBNN_TILE_H
#define LBNN_TILE_H

#include "lbnn_sums.h"

#if defined(LBNN_SIMD) && !defined(LBNN_HALF_WEIGHTS)
#define LBNN_TILE_BATCH 1

/* Sums of outputs at work at a time: two registers each, of 32 or of 16. */
#ifdef __AVX512F__
enum { LBNN_TILE = 16, LBNN_TILE_OUTPUTS = 8 };
#else
enum { LBNN_TILE = LBNN_LANES, LBNN_TILE_OUTPUTS = 4 };
#endif

typedef float lbnn_column __attribute__((vector_size(4 * LBNN_TILE)));

/* One output of all samples. */
typedef struct {
    lbnn_column mean, var;
} lbnn_tile_sum;

/* One input of all samples: E, V and S = V + E^2. */
typedef struct {
    lbnn_column e, v, s;
} lbnn_tile_input;

LBNN_INLINE lbnn_column lbnn_tile_load(const float *from)
{
    lbnn_column x;
    LBNN_MEMCPY(&x, from, sizeof x);
    return x;
}

LBNN_INLINE lbnn_tile_input lbnn_tile_take(int kind, const float *mean, const float *var)
{
    LBNN_ROUND_PRODUCTS
    lbnn_tile_input x;
    x.e = lbnn_tile_load(mean);
    x.v = lbnn_tile_load(lbnn_is_random(kind) ? var : mean);
    x.s = lbnn_is_random(kind) ? x.v + x.e * x.e : x.e * x.e;
    return x;
}

LBNN_INLINE lbnn_tile_sum lbnn_tile_bias(const float *row, int width)
{
    const lbnn_column zero = {0.0f};
    lbnn_tile_sum sum;
    sum.mean = zero + row[0];
    sum.var = zero + row[width];
    return sum;
}

/* As lbnn_sum_add; `square` is E[w]^2. */
LBNN_INLINE lbnn_tile_sum lbnn_tile_add(lbnn_tile_sum sum, int kind, lbnn_tile_input x, const float *row,
                                        const float *square, int width)
{
    LBNN_ROUND_PRODUCTS
    sum.mean += x.e * row[0];
    if (lbnn_is_random(kind)) {
        sum.var += x.v * square[0];
    }
    sum.var += x.s * row[width];
    return sum;
}

/* With what the parts before have left there, if there are any. */
LBNN_INLINE void lbnn_tile_store(lbnn_tile_sum sum, float *mean, float *var, int more)
{
    if (more) {
        sum.mean = lbnn_tile_load(mean) + sum.mean;
        sum.var = lbnn_tile_load(var) + sum.var;
    }
    LBNN_MEMCPY(mean, &sum.mean, sizeof sum.mean);
    if (LBNN_VARIANCE) {
        LBNN_MEMCPY(var, &sum.var, sizeof sum.var);
    }
}

/* A part of the sums of `outputs` outputs (a constant: 8, 4 or 1) over n inputs. */
LBNN_INLINE void lbnn_tile_some(int kind, int outputs, const float *mean, const float *var, const float *start,
                                const float *row, const float *squares, int width, int n, float *out_mean,
                                float *out_var, int more)
{
    const int four = outputs > 1, eight = outputs > 4;
    lbnn_tile_sum a = lbnn_tile_bias(start, width);
    lbnn_tile_sum b = lbnn_tile_bias(start + four, width);
    lbnn_tile_sum c = lbnn_tile_bias(start + 2 * four, width);
    lbnn_tile_sum d = lbnn_tile_bias(start + 3 * four, width);
    lbnn_tile_sum e = lbnn_tile_bias(start + 4 * eight, width);
    lbnn_tile_sum f = lbnn_tile_bias(start + 5 * eight, width);
    lbnn_tile_sum g = lbnn_tile_bias(start + 6 * eight, width);
    lbnn_tile_sum h = lbnn_tile_bias(start + 7 * eight, width);
    for (; n > 0; n--) {
        const lbnn_tile_input x = lbnn_tile_take(kind, mean, var);
        a = lbnn_tile_add(a, kind, x, row, squares, width);
        if (four) {
            b = lbnn_tile_add(b, kind, x, row + 1, squares + 1, width);
            c = lbnn_tile_add(c, kind, x, row + 2, squares + 2, width);
            d = lbnn_tile_add(d, kind, x, row + 3, squares + 3, width);
        }
        if (eight) {
            e = lbnn_tile_add(e, kind, x, row + 4, squares + 4, width);
            f = lbnn_tile_add(f, kind, x, row + 5, squares + 5, width);
            g = lbnn_tile_add(g, kind, x, row + 6, squares + 6, width);
            h = lbnn_tile_add(h, kind, x, row + 7, squares + 7, width);
        }
        mean += LBNN_TILE;
        var += LBNN_TILE;
        row += LBNN_STEP(width);
        squares += LBNN_PACK;
    }
    lbnn_tile_store(a, out_mean, out_var, more);
    if (four) {
        lbnn_tile_store(b, out_mean + LBNN_TILE, out_var + LBNN_TILE, more);
        lbnn_tile_store(c, out_mean + 2 * LBNN_TILE, out_var + 2 * LBNN_TILE, more);
        lbnn_tile_store(d, out_mean + 3 * LBNN_TILE, out_var + 3 * LBNN_TILE, more);
    }
    if (eight) {
        lbnn_tile_store(e, out_mean + 4 * LBNN_TILE, out_var + 4 * LBNN_TILE, more);
        lbnn_tile_store(f, out_mean + 5 * LBNN_TILE, out_var + 5 * LBNN_TILE, more);
        lbnn_tile_store(g, out_mean + 6 * LBNN_TILE, out_var + 6 * LBNN_TILE, more);
        lbnn_tile_store(h, out_mean + 7 * LBNN_TILE, out_var + 7 * LBNN_TILE, more);
    }
}

/* A part of the sums of a packed block. */
LBNN_INLINE void lbnn_tile_block(int kind, const float *mean, const float *var, const float *w, int width, int from, int n,
                                 float *out_mean, float *out_var)
{
    const float *row = w + lbnn_row_at(kind, width, from);
    const float *start = lbnn_sums_start(kind, w, from > 0);
    float squares[LBNN_FOLD * LBNN_PACK];
    for (int i = 0; lbnn_is_random(kind) && i < n; i++) {
        for (int o = 0; o < width; o++) {
            const float weight = row[LBNN_STEP(width) * i + o];
            squares[LBNN_PACK * i + o] = weight * weight;
        }
    }
    int o = 0;
    for (; o + LBNN_TILE_OUTPUTS <= width; o += LBNN_TILE_OUTPUTS) {
        lbnn_tile_some(kind, LBNN_TILE_OUTPUTS, mean, var, start + o, row + o, squares + o, width, n,
                       out_mean + LBNN_TILE * o, out_var + LBNN_TILE * o, from > 0);
    }
    for (; o < width; o++) {
        lbnn_tile_some(kind, 1, mean, var, start + o, row + o, squares + o, width, n, out_mean + LBNN_TILE * o,
                       out_var + LBNN_TILE * o, from > 0);
    }
}

#endif
#endif
