/* lbnn_weights.h: how the Gaussian weights of a layer are stored, and how one is read.
 *
 *     w + LBNN_ROW(width, n)          row n of a block, the row of biases being row 0; a block ends where row n + 1 would be
 *     row + LBNN_STEP(width)          the next row
 *     row + LBNN_VARS(width)          the variances that belong to the means at `row`
 *     LBNN_MEAN(x), LBNN_VAR(x)       E[w] and V[w] of a stored number, from either of those places
 *     LBNN_BIAS(x)                    a stored number of the row of biases: means, then variances
 *     lbnn_biases_load, lbnn_means_load, lbnn_vars_load       LBNN_LANES of them, with vector registers
 *
 * Macros, so that reading a float is no more than reading it, also in the order in which a compiler sees it.
 *
 * A block of `width` outputs is a row of biases, their means and then their variances, and a row for each input:
 *
 *     float                 width means, width variances: 8 bytes a weight
 *     LBNN_HALF_WEIGHTS     width words of 32 bits, 4 bytes a weight: the mean is the lower half of a word and sigma the
 *                           upper, each an IEEE half float; V[w] = sigma^2. Biases are floats, as their bits.
 *
 * Squares of half floats are exact in float: nothing is rounded between a stored weight and its products. Infinity and
 * NaN are never stored; any other half is decoded to the same bits by the processor's instruction and by the plain C.
 */
#ifndef LBNN_WEIGHTS_H
#define LBNN_WEIGHTS_H

#include "lbnn_lanes.h"

#ifdef LBNN_HALF_WEIGHTS

typedef uint32_t lbnn_weight;

#define LBNN_STEP(width) (width)
#define LBNN_ROW(width, n) ((width) * ((n) + 1))
#define LBNN_VARS(width) (0 * (width)) /* in the same word */
#define LBNN_BIAS(stored) lbnn_bits_float(LBNN_READ_WORD(stored))
#define LBNN_MEAN(stored) lbnn_half_low(LBNN_READ_WORD(stored))
#define LBNN_VAR(stored) lbnn_half_variance(LBNN_READ_WORD(stored))

/* A half float, the lower 16 bits of `half`. Its exponent field counts from 112 below that of a float; where it is 0
 * there is no leading 1: x = 2^-14 + m - 2^-14. No number on the way is a denormal float, which a processor may take
 * for zero. */
LBNN_INLINE float lbnn_half_plain(uint32_t half)
{
    const uint32_t size = (half & 0x7fffu) << 13;
    const uint32_t sign = (half & 0x8000u) << 16;
    uint32_t bits = size + 0x38000000u;
    if (size < 0x800000u) {
        bits = lbnn_float_bits(lbnn_bits_float(size + 0x38800000u) - 6.103515625e-5f);
    }
    return lbnn_bits_float(sign | bits);
}

#if defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP) && (defined(__ARM_FEATURE_FMA) || (__ARM_FP & 2))
/* Cores with conversions of half floats, which all that fuse have, from Cortex-M4F on: one instruction for each half of
 * a register. Not __fp16, which gcc knows with -mfp16-format=ieee alone. */
LBNN_INLINE float lbnn_half_low(uint32_t word)
{
    const float bits = lbnn_bits_float(word);
    float x;
    __asm__("vcvtb.f32.f16 %0, %1" : "=t"(x) : "t"(bits));
    return x;
}

LBNN_INLINE float lbnn_half_high(uint32_t word)
{
    const float bits = lbnn_bits_float(word);
    float x;
    __asm__("vcvtt.f32.f16 %0, %1" : "=t"(x) : "t"(bits));
    return x;
}
#else
LBNN_INLINE float lbnn_half_low(uint32_t word)
{
    return lbnn_half_plain(word);
}

LBNN_INLINE float lbnn_half_high(uint32_t word)
{
    return lbnn_half_plain(word >> 16);
}
#endif

LBNN_INLINE float lbnn_half_variance(uint32_t word)
{
    const float sigma = lbnn_half_high(word);
    return sigma * sigma;
}

#else

typedef float lbnn_weight;

#define LBNN_STEP(width) (2 * (width))
#define LBNN_ROW(width, n) (2 * (width) * (n))
#define LBNN_VARS(width) (width)
#define LBNN_BIAS(stored) LBNN_READ(stored)
#define LBNN_MEAN(stored) LBNN_READ(stored)
#define LBNN_VAR(stored) LBNN_READ(stored)

#endif

#ifdef LBNN_SIMD

#ifdef LBNN_HALF_WEIGHTS

LBNN_INLINE lbnn_bits lbnn_words_load(const lbnn_weight *from)
{
    lbnn_bits words;
    LBNN_MEMCPY(&words, from, sizeof words);
    return words;
}

LBNN_INLINE lbnn_lanes lbnn_biases_load(const lbnn_weight *from)
{
    return LBNN_BITS_AS(lbnn_lanes, lbnn_words_load(from));
}

/* As lbnn_half_plain. */
LBNN_INLINE lbnn_lanes lbnn_halves_plain(lbnn_bits half)
{
    const lbnn_bits size = (half & 0x7fffu) << 13;
    const lbnn_bits sign = (half & 0x8000u) << 16;
    const lbnn_bits small = LBNN_BITS_AS(lbnn_bits, size < (1u << 23));
    const lbnn_bits bits = size + (112u << 23) + (small & (1u << 23));
    const lbnn_lanes least = LBNN_BITS_AS(lbnn_lanes, small & (113u << 23));
    const lbnn_lanes x = LBNN_BITS_AS(lbnn_lanes, bits) - least;
    return LBNN_BITS_AS(lbnn_lanes, LBNN_BITS_AS(lbnn_bits, x) | sign);
}

#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE >= 2
/* vcvtb.f32.f16 and vcvtt.f32.f16 of Helium by their bits: the GNU assembler 2.40 doubles the numbers of their registers. */
#define LBNN_HALVES(bits)                                                                         \
    ".set lbnn_q0, 0\n\t.set lbnn_q1, 1\n\t.set lbnn_q2, 2\n\t.set lbnn_q3, 3\n\t"                \
    ".set lbnn_q4, 4\n\t.set lbnn_q5, 5\n\t.set lbnn_q6, 6\n\t.set lbnn_q7, 7\n\t"                \
    ".inst.w " bits " + (lbnn_%q0 << 13) + (lbnn_%q1 << 1)"

LBNN_INLINE lbnn_lanes lbnn_halves_low(lbnn_bits words)
{
    lbnn_lanes x;
    __asm__(LBNN_HALVES("0xfe3f0e01") : "=w"(x) : "w"(words));
    return x;
}

LBNN_INLINE lbnn_lanes lbnn_halves_high(lbnn_bits words)
{
    lbnn_lanes x;
    __asm__(LBNN_HALVES("0xfe3f1e01") : "=w"(x) : "w"(words));
    return x;
}
#else
LBNN_INLINE lbnn_lanes lbnn_halves_low(lbnn_bits words)
{
    return lbnn_halves_plain(words);
}

LBNN_INLINE lbnn_lanes lbnn_halves_high(lbnn_bits words)
{
    return lbnn_halves_plain(words >> 16);
}
#endif

LBNN_INLINE lbnn_lanes lbnn_means_load(const lbnn_weight *row)
{
    return lbnn_halves_low(lbnn_words_load(row));
}

LBNN_INLINE lbnn_lanes lbnn_vars_load(const lbnn_weight *row)
{
    const lbnn_lanes sigma = lbnn_halves_high(lbnn_words_load(row));
    return sigma * sigma;
}

#else

LBNN_INLINE lbnn_lanes lbnn_biases_load(const lbnn_weight *from)
{
    return lbnn_lanes_load(from, LBNN_LANES);
}

LBNN_INLINE lbnn_lanes lbnn_means_load(const lbnn_weight *row)
{
    return lbnn_lanes_load(row, LBNN_LANES);
}

LBNN_INLINE lbnn_lanes lbnn_vars_load(const lbnn_weight *row)
{
    return lbnn_lanes_load(row, LBNN_LANES);
}

#endif
#endif
#endif
