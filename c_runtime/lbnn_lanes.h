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
#ifdef LBNN_HELIUM
#include <arm_mve.h>
#endif

#ifdef LBNN_SIMD

#define LBNN_LANES LBNN_BLOCK
typedef float lbnn_lanes __attribute__((vector_size(4 * LBNN_LANES)));
typedef int32_t lbnn_integers __attribute__((vector_size(4 * LBNN_LANES)));
typedef uint32_t lbnn_bits __attribute__((vector_size(4 * LBNN_LANES)));
/* The same bits as a vector of another kind. */
#ifdef __cplusplus
#define LBNN_BITS_AS(type, x) reinterpret_cast<type>(x)
#else
#define LBNN_BITS_AS(type, x) ((type)(x))
#endif

#ifdef LBNN_HELIUM
/* ---- Helium: eight registers, predicates instead of masks, fused only where asked to, no root and no quotient -------- */

typedef mve_pred16_t lbnn_mask; /* of each lane four bits or none */

/* The first n lanes, or all if n is larger; the others are zero. */
LBNN_INLINE lbnn_lanes lbnn_lanes_load(const float *from, int n)
{
    if (n >= LBNN_LANES) {
        return vldrwq_f32(from);
    }
    return vldrwq_z_f32(from, vctp32q(LBNN_AS(uint32_t, n)));
}

LBNN_INLINE void lbnn_lanes_store(float *to, lbnn_lanes x, int n)
{
    if (n >= LBNN_LANES) {
        vstrwq_f32(to, x);
    } else {
        vstrwq_p_f32(to, x, vctp32q(LBNN_AS(uint32_t, n)));
    }
}

LBNN_INLINE lbnn_lanes lbnn_lanes_fill(float x)
{
    return vdupq_n_f32(x);
}

LBNN_INLINE lbnn_mask lbnn_lanes_less(lbnn_lanes x, lbnn_lanes y)
{
    return vcmpltq_f32(x, y);
}

/* x where the mask is set, otherwise y */
LBNN_INLINE lbnn_lanes lbnn_lanes_select(lbnn_mask mask, lbnn_lanes x, lbnn_lanes y)
{
    return vpselq_f32(x, y, mask);
}

LBNN_INLINE lbnn_mask lbnn_lanes_not(lbnn_mask mask)
{
    return LBNN_AS(lbnn_mask, ~mask);
}

LBNN_INLINE int lbnn_lanes_any(lbnn_mask mask)
{
    return mask != 0u;
}

/* Whether to compute what only the masked lanes need. */
LBNN_INLINE int lbnn_lanes_worth(lbnn_mask mask)
{
    return lbnn_lanes_any(mask);
}

/* sum + x y, and the same with one number for all lanes */
LBNN_INLINE lbnn_lanes lbnn_lanes_add(lbnn_lanes sum, lbnn_lanes x, lbnn_lanes y)
{
    return vfmaq_f32(sum, x, y);
}

LBNN_INLINE lbnn_lanes lbnn_lanes_add_times(lbnn_lanes sum, lbnn_lanes x, float y)
{
    return vfmaq_n_f32(sum, x, y);
}

/* Lane i of register q is the scalar register 4 q + i, whose number stands in an instruction as 2 q + i / 2 and i % 2; a
 * compiler would move each lane through a register of the core. No compiler names these by an operand, hence the bits. */
#define LBNN_LANE_NUMBERS                                                                         \
    ".set lbnn_q0, 0\n\t.set lbnn_q1, 2\n\t.set lbnn_q2, 4\n\t.set lbnn_q3, 6\n\t"                \
    ".set lbnn_q4, 8\n\t.set lbnn_q5, 10\n\t.set lbnn_q6, 12\n\t.set lbnn_q7, 14\n\t"
#define LBNN_LANE_SQRT(bits) ".inst.w " bits " + (lbnn_%q0 << 12) + lbnn_%q1\n\t"
#define LBNN_LANE_DIVIDE(bits) ".inst.w " bits " + (lbnn_%q0 << 12) + (lbnn_%q1 << 16) + lbnn_%q2\n\t"

LBNN_INLINE lbnn_lanes lbnn_lanes_sqrt(lbnn_lanes x)
{
    lbnn_lanes root;
    __asm__(LBNN_LANE_NUMBERS LBNN_LANE_SQRT("0xeeb10ac0") LBNN_LANE_SQRT("0xeef10ae0") LBNN_LANE_SQRT("0xeeb11ac1")
                LBNN_LANE_SQRT("0xeef11ae1")
            : "=w"(root)
            : "w"(x));
    return root;
}

/* x / y */
LBNN_INLINE lbnn_lanes lbnn_lanes_over(lbnn_lanes x, lbnn_lanes y)
{
    lbnn_lanes quotient;
    __asm__(LBNN_LANE_NUMBERS LBNN_LANE_DIVIDE("0xee800a00") LBNN_LANE_DIVIDE("0xeec00aa0")
                LBNN_LANE_DIVIDE("0xee811a01") LBNN_LANE_DIVIDE("0xeec11aa1")
            : "=w"(quotient)
            : "w"(x), "w"(y));
    return quotient;
}

/* Towards zero. */
LBNN_INLINE lbnn_integers lbnn_lanes_integer(lbnn_lanes x)
{
    return LBNN_BITS_AS(lbnn_integers, vcvtq_s32_f32(x));
}

LBNN_INLINE lbnn_lanes lbnn_lanes_float(lbnn_integers n)
{
    return vcvtq_f32_s32(LBNN_BITS_AS(int32x4_t, n));
}

#else

typedef lbnn_bits lbnn_mask; /* of each lane all bits or none */

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

LBNN_INLINE lbnn_mask lbnn_lanes_not(lbnn_mask mask)
{
    return ~mask;
}

/* Whether a lane is set. */
LBNN_INLINE int lbnn_lanes_any(lbnn_mask mask)
{
    uint32_t some = 0;
    for (int i = 0; i < LBNN_LANES; i++) {
        some |= mask[i];
    }
    return some != 0;
}

/* Whether to compute what only the masked lanes need: always, a vector has no branches. */
LBNN_INLINE int lbnn_lanes_worth(lbnn_mask mask)
{
    (void)mask;
    return 1;
}

/* sum + x y, and the same with one number for all lanes */
LBNN_INLINE lbnn_lanes lbnn_lanes_add(lbnn_lanes sum, lbnn_lanes x, lbnn_lanes y)
{
    LBNN_ROUND_PRODUCTS
    return sum + x * y;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_add_times(lbnn_lanes sum, lbnn_lanes x, float y)
{
    LBNN_ROUND_PRODUCTS
    return sum + x * y;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_sqrt(lbnn_lanes x)
{
    float root[LBNN_LANES];
    for (int i = 0; i < LBNN_LANES; i++) {
        root[i] = lbnn_sqrtf(x[i]);
    }
    return lbnn_lanes_load(root, LBNN_LANES);
}

/* x / y */
LBNN_INLINE lbnn_lanes lbnn_lanes_over(lbnn_lanes x, lbnn_lanes y)
{
    return x / y;
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

#endif

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

LBNN_INLINE lbnn_lanes lbnn_lanes_abs(lbnn_lanes x)
{
    return LBNN_BITS_AS(lbnn_lanes, LBNN_BITS_AS(lbnn_bits, x) & 0x7fffffffu);
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

LBNN_INLINE lbnn_mask lbnn_lanes_not(lbnn_mask mask)
{
    return !mask;
}

LBNN_INLINE int lbnn_lanes_any(lbnn_mask mask)
{
    return mask;
}

LBNN_INLINE int lbnn_lanes_worth(lbnn_mask mask)
{
    return mask;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_over(lbnn_lanes x, lbnn_lanes y)
{
    return x / y;
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
