/* lbnn.h: what every other header of the runtime stands on: options, status codes, lanes.
 *
 * The runtime computes with moments: every value is a mean and a variance, held in two float arrays
 * of the same length, channels first. Kernels trust their caller (the generated code) and return
 * nothing; pointers and numbers are checked once, in the generated NAME_predict().
 *
 *     #define LBNN_EXPECT_ABI 1        // generated code says which runtime it was written for
 *     #include "lbnn.h"                // base
 *     #include "lbnn_linear.h"         // then only the kernels the model needs
 *
 * Options, to be given to the compiler (-DNAME) or defined before the first include:
 *
 *   LBNN_OPTIMIZE_SIZE   smallest code: narrow blocks and one general kernel instead of fast paths.
 *   LBNN_USE_LIBM        exp, log1p and the normal CDF from libm; without it sqrtf is all we take.
 *   LBNN_STRICT          the same bits on every machine: no fused multiply-add, one order of summation.
 *   LBNN_NO_SIMD         plain C even where the compiler could use vector registers.
 *   LBNN_BLOCK           outputs computed together, 4 or 8 (chosen below to suit the processor).
 *
 * C99 and C++11; no static state, no allocation, no double.
 */
#ifndef LBNN_H
#define LBNN_H

#include <stdint.h>
#include <string.h>

/* Raised whenever a kernel's signature or the packing of the weights changes. */
#define LBNN_ABI_VERSION 1

#if defined(LBNN_EXPECT_ABI) && LBNN_EXPECT_ABI != LBNN_ABI_VERSION
#error "this model was generated for another version of the lbnn runtime: export it again"
#endif

/* ---- status: one list feeds the enumeration and its messages --------------------------------- */

#define LBNN_STATUS_LIST(X)                                                                        \
    X(LBNN_OK, 0, "ok")                                                                            \
    X(LBNN_ERROR_NULL, -1, "a pointer argument is null")                                           \
    X(LBNN_ERROR_INPUT, -2, "an input is not finite, or an input variance is negative")            \
    X(LBNN_ERROR_OUTPUT, -3, "an output is not finite, or an output variance is negative")

typedef enum {
#define LBNN_STATUS_ENTRY(name, value, message) name = value,
    LBNN_STATUS_LIST(LBNN_STATUS_ENTRY)
#undef LBNN_STATUS_ENTRY
    LBNN_STATUS_UNKNOWN = -128 /* no kernel returns it; it keeps the list free of a last comma */
} lbnn_status;

/* ---- compiler --------------------------------------------------------------------------------- */

/* LBNN_INLINE: part of a kernel, never a call. LBNN_KERNEL: one function for all layers that use it, not
 * copied into each; give it as nothing (-DLBNN_KERNEL=) to build a library of all kernels. */
#if defined(__GNUC__) || defined(__clang__)
#define LBNN_INLINE static inline __attribute__((always_inline))
#define LBNN_DEFAULT_KERNEL static __attribute__((noinline, unused))
#define LBNN_RESTRICT __restrict
#elif defined(_MSC_VER)
#define LBNN_INLINE static __forceinline
#define LBNN_DEFAULT_KERNEL static inline
#define LBNN_RESTRICT __restrict
#else
#define LBNN_INLINE static inline
#define LBNN_DEFAULT_KERNEL static inline
#define LBNN_RESTRICT
#endif

#ifndef LBNN_KERNEL
#define LBNN_KERNEL LBNN_DEFAULT_KERNEL
#endif

LBNN_KERNEL const char *lbnn_status_message(lbnn_status status)
{
    switch (status) {
#define LBNN_STATUS_ENTRY(name, value, message) case name: return message;
        LBNN_STATUS_LIST(LBNN_STATUS_ENTRY)
#undef LBNN_STATUS_ENTRY
        case LBNN_STATUS_UNKNOWN: break;
    }
    return "unknown status";
}

/* Strict arithmetic: every product rounded before it is added. The order of summation needs no
 * option: each output is summed over its inputs in ascending order, whatever the block width. */
#ifdef LBNN_STRICT
#if defined(__FAST_MATH__)
#error "LBNN_STRICT needs IEEE arithmetic: compile without -ffast-math"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "LBNN_STRICT needs float arithmetic in float: compile with -msse2 -mfpmath=sse"
#endif
#if defined(__clang__) || !defined(__GNUC__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif
#endif

/* ---- lanes: LBNN_BLOCK floats that go through the same operations ------------------------------
 *
 * On a processor with vector registers they are one register, elsewhere LBNN_BLOCK named scalars,
 * which the compiler keeps in registers (an array would stay in memory at -O2). */

#if !defined(LBNN_NO_SIMD) && (defined(__GNUC__) || defined(__clang__))
#if defined(__SSE2__) || defined(__ARM_NEON) || defined(__VSX__) || defined(__wasm_simd128__)
#define LBNN_SIMD 1
#elif defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE >= 2
#define LBNN_SIMD 1
#endif
#endif

#ifndef LBNN_BLOCK
#if (defined(LBNN_SIMD) && !defined(__AVX__)) || defined(LBNN_OPTIMIZE_SIZE)
#define LBNN_BLOCK 4
#else
#define LBNN_BLOCK 8
#endif
#endif

#if LBNN_BLOCK != 4 && LBNN_BLOCK != 8
#error "LBNN_BLOCK must be 4 or 8"
#endif

/* Outputs that share one packed row of weights, whatever LBNN_BLOCK is (see lbnn_linear.h). */
#define LBNN_PACK 8

#ifdef LBNN_SIMD

typedef float lbnn_lanes __attribute__((vector_size(4 * LBNN_BLOCK)));

LBNN_INLINE lbnn_lanes lbnn_lanes_load(const float *from)
{
    lbnn_lanes x;
    memcpy(&x, from, sizeof x);
    return x;
}

LBNN_INLINE void lbnn_lanes_store(float *to, lbnn_lanes x)
{
    memcpy(to, &x, sizeof x);
}

/* Lane i goes to to[i * step]. */
LBNN_INLINE void lbnn_lanes_scatter(float *to, int step, lbnn_lanes x)
{
    for (int i = 0; i < LBNN_BLOCK; i++) {
        to[i * step] = x[i];
    }
}

LBNN_INLINE lbnn_lanes lbnn_lanes_square(lbnn_lanes x)
{
    return x * x;
}

/* sum + x * y, y the same in all lanes */
LBNN_INLINE lbnn_lanes lbnn_lanes_add_scaled(lbnn_lanes sum, lbnn_lanes x, float y)
{
    return sum + x * y;
}

#else

typedef struct {
    float a, b, c, d;
} lbnn_quad;

LBNN_INLINE lbnn_quad lbnn_quad_load(const float *from)
{
    lbnn_quad x;
    x.a = from[0];
    x.b = from[1];
    x.c = from[2];
    x.d = from[3];
    return x;
}

LBNN_INLINE void lbnn_quad_store(float *to, lbnn_quad x)
{
    to[0] = x.a;
    to[1] = x.b;
    to[2] = x.c;
    to[3] = x.d;
}

/* Lane i goes to to[i * step]. */
LBNN_INLINE void lbnn_quad_scatter(float *to, int step, lbnn_quad x)
{
    to[0] = x.a;
    to[step] = x.b;
    to[2 * step] = x.c;
    to[3 * step] = x.d;
}

LBNN_INLINE lbnn_quad lbnn_quad_square(lbnn_quad x)
{
    x.a *= x.a;
    x.b *= x.b;
    x.c *= x.c;
    x.d *= x.d;
    return x;
}

/* sum + x * y, y the same in all lanes */
LBNN_INLINE lbnn_quad lbnn_quad_add_scaled(lbnn_quad sum, lbnn_quad x, float y)
{
    sum.a += x.a * y;
    sum.b += x.b * y;
    sum.c += x.c * y;
    sum.d += x.d * y;
    return sum;
}

#if LBNN_BLOCK == 4

typedef lbnn_quad lbnn_lanes;
#define lbnn_lanes_load lbnn_quad_load
#define lbnn_lanes_store lbnn_quad_store
#define lbnn_lanes_scatter lbnn_quad_scatter
#define lbnn_lanes_square lbnn_quad_square
#define lbnn_lanes_add_scaled lbnn_quad_add_scaled

#else

typedef struct {
    lbnn_quad low, high;
} lbnn_lanes;

LBNN_INLINE lbnn_lanes lbnn_lanes_load(const float *from)
{
    lbnn_lanes x;
    x.low = lbnn_quad_load(from);
    x.high = lbnn_quad_load(from + 4);
    return x;
}

LBNN_INLINE void lbnn_lanes_store(float *to, lbnn_lanes x)
{
    lbnn_quad_store(to, x.low);
    lbnn_quad_store(to + 4, x.high);
}

LBNN_INLINE void lbnn_lanes_scatter(float *to, int step, lbnn_lanes x)
{
    lbnn_quad_scatter(to, step, x.low);
    lbnn_quad_scatter(to + 4 * step, step, x.high);
}

LBNN_INLINE lbnn_lanes lbnn_lanes_square(lbnn_lanes x)
{
    x.low = lbnn_quad_square(x.low);
    x.high = lbnn_quad_square(x.high);
    return x;
}

LBNN_INLINE lbnn_lanes lbnn_lanes_add_scaled(lbnn_lanes sum, lbnn_lanes x, float y)
{
    sum.low = lbnn_quad_add_scaled(sum.low, x.low, y);
    sum.high = lbnn_quad_add_scaled(sum.high, x.high, y);
    return sum;
}

#endif
#endif
#endif
