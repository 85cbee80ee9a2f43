/* lbnn_lanes.h: one float, or as many as a vector register holds, under one name.
 *
 * Formulas are written once for lbnn_lanes, with the ordinary operators; this header adds what operators
 * cannot say. With vector registers lbnn_lanes is LBNN_LANES = LBNN_BLOCK floats (the vector extension of
 * gcc and clang), elsewhere LBNN_LANES is 1 and lbnn_lanes a float.
 *
 * Why not leave it to the vectoriser: gcc moves products into the branches of a selection, takes them for
 * operations that may trap and then calls the loop not vectorisable.
 */
#ifndef LBNN_LANES_H
#define LBNN_LANES_H

#include "lbnn.h"

#ifdef LBNN_SIMD

#define LBNN_LANES LBNN_BLOCK
typedef float lbnn_lanes __attribute__((vector_size(4 * LBNN_LANES)));
typedef int32_t lbnn_integers __attribute__((vector_size(4 * LBNN_LANES)));
typedef uint32_t lbnn_bits __attribute__((vector_size(4 * LBNN_LANES)));
typedef lbnn_bits lbnn_mask; /* of each lane all bits or none */

/* The same bits as a vector of another kind. */
#ifdef __cplusplus
#define LBNN_BITS_AS(type, x) reinterpret_cast<type>(x)
#else
#define LBNN_BITS_AS(type, x) ((type)(x))
#endif

/* The first n lanes, or all if n is larger; the others are zero. */
LBNN_INLINE lbnn_lanes lbnn_lanes_load(const float *from, int n)
{
    lbnn_lanes x = {0.0f};
    if (n >= LBNN_LANES) {
        LBNN_MEMCPY(&x, from, sizeof x);
    } else {
        LBNN_MEMCPY(&x, from, LBNN_AS(size_t, n) * sizeof *from);
    }
    return x;
}

LBNN_INLINE void lbnn_lanes_store(float *to, lbnn_lanes x, int n)
{
    if (n >= LBNN_LANES) {
        LBNN_MEMCPY(to, &x, sizeof x);
    } else {
        LBNN_MEMCPY(to, &x, LBNN_AS(size_t, n) * sizeof *to);
    }
}

LBNN_INLINE lbnn_lanes lbnn_lanes_fill(float x)
{
    const lbnn_lanes zero = {0.0f};
    return zero + x;
}

LBNN_INLINE lbnn_mask lbnn_lanes_less(lbnn_lanes x, lbnn_lanes y)
{
    return LBNN_BITS_AS(lbnn_mask, x < y);
}

/* x where the mask is set, otherwise y */
LBNN_INLINE lbnn_lanes lbnn_lanes_select(lbnn_mask mask, lbnn_lanes x, lbnn_lanes y)
{
    return LBNN_BITS_AS(lbnn_lanes, (LBNN_BITS_AS(lbnn_bits, x) & mask) | (LBNN_BITS_AS(lbnn_bits, y) & ~mask));
}

/* The smaller of x and a number, which takes the place of NaN. */
LBNN_INLINE lbnn_lanes lbnn_lanes_at_most(lbnn_lanes x, float most)
{
    const lbnn_lanes bound = lbnn_lanes_fill(most);
    return lbnn_lanes_select(lbnn_lanes_less(x, bound), x, bound);
}

/* The larger of x and a number, which takes the place of NaN. */
LBNN_INLINE lbnn_lanes lbnn_lanes_at_least(lbnn_lanes x, float least)
{
    const lbnn_lanes bound = lbnn_lanes_fill(least);
    return lbnn_lanes_select(lbnn_lanes_less(bound, x), x, bound);
}

/* Whether to compute what only the masked lanes need: always, a vector has no branches. */
LBNN_INLINE int lbnn_lanes_worth(lbnn_mask mask)
{
    (void)mask;
    return 1;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_abs(lbnn_lanes x)
{
    return LBNN_BITS_AS(lbnn_lanes, LBNN_BITS_AS(lbnn_bits, x) & 0x7fffffffu);
}

LBNN_INLINE lbnn_lanes lbnn_lanes_sqrt(lbnn_lanes x)
{
    float root[LBNN_LANES];
    for (int i = 0; i < LBNN_LANES; i++) {
        root[i] = lbnn_sqrtf(x[i]);
    }
    return lbnn_lanes_load(root, LBNN_LANES);
}

/* Towards zero. */
LBNN_INLINE lbnn_integers lbnn_lanes_integer(lbnn_lanes x)
{
    return __builtin_convertvector(x, lbnn_integers);
}

LBNN_INLINE lbnn_lanes lbnn_lanes_float(lbnn_integers n)
{
    return __builtin_convertvector(n, lbnn_lanes);
}

/* x 2^-n by taking n >= 0 from the exponent field */
LBNN_INLINE lbnn_lanes lbnn_lanes_scale(lbnn_lanes x, lbnn_integers n)
{
    return LBNN_BITS_AS(lbnn_lanes, LBNN_BITS_AS(lbnn_bits, x) - (LBNN_BITS_AS(lbnn_bits, n) << 23));
}

#else

#define LBNN_LANES 1
typedef float lbnn_lanes;
typedef int32_t lbnn_integers;
typedef int lbnn_mask;

LBNN_INLINE lbnn_lanes lbnn_lanes_load(const float *from, int n)
{
    (void)n;
    return *from;
}

LBNN_INLINE void lbnn_lanes_store(float *to, lbnn_lanes x, int n)
{
    (void)n;
    *to = x;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_fill(float x)
{
    return x;
}

LBNN_INLINE lbnn_mask lbnn_lanes_less(lbnn_lanes x, lbnn_lanes y)
{
    return x < y;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_select(lbnn_mask mask, lbnn_lanes x, lbnn_lanes y)
{
    return mask ? x : y;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_at_most(lbnn_lanes x, float most)
{
    return x < most ? x : most;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_at_least(lbnn_lanes x, float least)
{
    return x > least ? x : least;
}

LBNN_INLINE int lbnn_lanes_worth(lbnn_mask mask)
{
    return mask;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_abs(lbnn_lanes x)
{
    return lbnn_fabsf(x);
}

LBNN_INLINE lbnn_lanes lbnn_lanes_sqrt(lbnn_lanes x)
{
    return lbnn_sqrtf(x);
}

LBNN_INLINE lbnn_integers lbnn_lanes_integer(lbnn_lanes x)
{
    return LBNN_AS(int32_t, x);
}

LBNN_INLINE lbnn_lanes lbnn_lanes_float(lbnn_integers n)
{
    return LBNN_AS(float, n);
}

/* x 2^-n by taking n >= 0 from the exponent field */
LBNN_INLINE lbnn_lanes lbnn_lanes_scale(lbnn_lanes x, lbnn_integers n)
{
    return lbnn_bits_float(lbnn_float_bits(x) - (LBNN_AS(uint32_t, n) << 23));
}

#endif
#endif
