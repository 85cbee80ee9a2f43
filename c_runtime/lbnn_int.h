/* lbnn_int.h: moments in integers: numbers with a common exponent, square roots, leaky-ReLU, and the way from floats
 * and back.
 *
 * A tensor has one exponent for its means and one for its variances, found as it is computed (docs/integers.md):
 *
 *     wide     int32_t mean[n], var[n]           E = mean 2^x,  V = var 2^y, y even   what a layer leaves
 *     narrow   int32_t mean[n/2], sigma[n/2]     two mantissas of 16 bits a word      what a layer takes
 *
 *     lbnn_int_is_input(source, n)                                                whether all numbers are finite
 *     lbnn_int_pack(source, mean, sigma, to, n, bits...)                          floats -> narrow
 *     lbnn_int_standardize(source, factors, mean, sigma, to, n, bits...)          (x + t) s of floats -> narrow
 *     lbnn_int_narrow(mean, var, from, out, sigma, to, n, bits...)                wide -> narrow
 *     lbnn_int_activate(mean, var, from, out, sigma, to, n, bits..., table)       wide -> narrow, its leaky-ReLU
 *     lbnn_int_widen(e, sigma, from, mean, var, to, n)                            narrow -> wide
 *     lbnn_int_emit(mean, var, from, units, out, out_var, n)                      wide -> floats
 *     lbnn_int_emit_q(mean, var, from, units, out, exponent, out_var, ..., n)     wide -> mantissas and exponents
 *
 * Variances, sigmas and shared sums are rounded up, so that nothing positive becomes zero. No sum leaves 32 bits:
 * the generator chooses bits of mantissas by the weights. Right shifts of negative numbers round down, as all
 * compilers do that we know of.
 */
#ifndef LBNN_INT_H
#define LBNN_INT_H

#include "lbnn.h"

/* Processors that saturate in one instruction. */
#if defined(__ARM_FEATURE_SAT) && (defined(__GNUC__) || defined(__clang__)) && !defined(LBNN_NO_SIMD)
#include <arm_acle.h>
#define LBNN_INT_SATURATES 1
#endif

/* Kernels compiled for size, since they run once for each value, and those that run for each weight. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__FRAMAC__)
#define LBNN_SMALL __attribute__((cold))
#define LBNN_FAST __attribute__((hot))
#else
#define LBNN_SMALL
#define LBNN_FAST
#endif

/* A network without maps is small, and so is its code to be. LBNN_PIXEL: what runs once for each output of a layer, which
 * are many where they are pixels. LBNN_INNER: a kernel of its own, or part of the only one that calls it then. LBNN_INT_STEP:
 * part of a kernel, or a function of its own where a product of 64 bits is many instructions. */
#ifdef LBNN_INT_NO_MAPS
#define LBNN_PIXEL LBNN_SMALL
#define LBNN_INNER LBNN_INLINE
#else
#define LBNN_PIXEL LBNN_FAST
#define LBNN_INNER LBNN_KERNEL
#endif
#if defined(LBNN_INT_NO_MAPS) && defined(__ARM_ARCH_6M__)
#define LBNN_INT_STEP LBNN_DEFAULT_KERNEL LBNN_SMALL
#define LBNN_INT_LOOPS 1 /* no function of the compiler that counts zeros */
#else
#define LBNN_INT_STEP LBNN_INLINE
#endif

/* A model says what it does not need, so that kernels leave it out. */
enum {
#ifdef LBNN_INT_NO_FREE
    LBNN_INT_HAS_FREE = 0, /* free variances of weights */
#else
    LBNN_INT_HAS_FREE = 1,
#endif
#ifdef LBNN_INT_NO_FACTORS
    LBNN_INT_HAS_FACTORS = 0, /* weights that are known, or whose variances are products of factors */
#else
    LBNN_INT_HAS_FACTORS = 1,
#endif
#ifdef LBNN_INT_NO_MAPS
    LBNN_INT_HAS_MAPS = 0, /* feature maps */
#else
    LBNN_INT_HAS_MAPS = 1,
#endif
#ifdef LBNN_INT_NO_ODD_ROWS
    LBNN_INT_HAS_ODD_ROWS = 0, /* layers, or groups of one, with an odd number of outputs */
#else
    LBNN_INT_HAS_ODD_ROWS = 1,
#endif
#ifdef LBNN_INT_NO_ODD_PIXELS
    LBNN_INT_HAS_ODD_PIXELS = 0, /* feature maps of an odd number of channels behind the first layer */
#else
    LBNN_INT_HAS_ODD_PIXELS = 1,
#endif
#ifdef LBNN_INT_NO_GROUPS
    LBNN_INT_HAS_GROUPS = 0,
#else
    LBNN_INT_HAS_GROUPS = 1,
#endif
#ifdef LBNN_INT_NO_DILATION
    LBNN_INT_HAS_DILATION = 0,
#else
    LBNN_INT_HAS_DILATION = 1,
#endif
#ifdef LBNN_INT_NO_CORRELATED
    LBNN_INT_HAS_CORRELATED = 0 /* average pools of pixels that rise and fall together */
#else
    LBNN_INT_HAS_CORRELATED = 1
#endif
};

/* The exponent of a tensor of zeros. */
#define LBNN_INT_NONE (-1048576)

/* The exponents of a tensor; those of a narrow one are of mean and sigma. Of a wide one also the largest |mean|, less 1
 * below zero, and the largest variance. */
typedef struct {
    int32_t mean;
    int32_t var;
    int32_t largest;
    int32_t widest;
} lbnn_int_scale;

/* Where an input is read from: floats, or mantissas if `q` is given; `var` and `q_var` where it has a variance. */
typedef struct {
    const float *mean;
    const float *var;
    const int32_t *q;
    const int32_t *q_var;
    lbnn_int_scale scale;
} lbnn_int_source;

/* 1/sqrt(x), x = 32/128 .. 128/128, in units of 2^-15. */
static const uint16_t lbnn_int_roots[97] LBNN_UNUSED = {
    65535, 64536, 63580, 62665, 61788, 60948, 60140, 59364, 58618, 57898, 57205, 56536,
    55890, 55265, 54661, 54077, 53510, 52962, 52429, 51913, 51411, 50924, 50450, 49989,
    49541, 49105, 48679, 48265, 47861, 47467, 47083, 46708, 46341, 45984, 45634, 45292,
    44958, 44631, 44311, 43998, 43691, 43391, 43097, 42808, 42526, 42249, 41977, 41711,
    41449, 41192, 40941, 40693, 40450, 40212, 39977, 39747, 39520, 39298, 39079, 38863,
    38652, 38443, 38238, 38036, 37838, 37642, 37450, 37260, 37073, 36889, 36708, 36529,
    36353, 36180, 36009, 35840, 35674, 35510, 35348, 35188, 35031, 34876, 34722, 34571,
    34422, 34274, 34129, 33985, 33843, 33703, 33565, 33428, 33293, 33159, 33028, 32897,
    32768
};

/* ---- steps ------------------------------------------------------------------------------------ */

LBNN_INLINE int32_t lbnn_int_larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

LBNN_INLINE int32_t lbnn_int_smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* x >= 0, at most 2^14 - 1. */
LBNN_INLINE int32_t lbnn_int_below_four(int32_t x)
{
#if defined(LBNN_INT_SATURATES)
    return LBNN_AS(int32_t, __usat(x, 14));
#else
    return LBNN_AS(uint32_t, x) < 16383u ? x : 16383;
#endif
}

/* x, at least 0 and at most 31. */
LBNN_INLINE int32_t lbnn_int_shift(int32_t x)
{
#if defined(LBNN_INT_SATURATES)
    return LBNN_AS(int32_t, __usat(x, 5));
#else
    return lbnn_int_smaller(lbnn_int_larger(x, 0), 31);
#endif
}

/* How far right what stands at exponent x moves to stand at top, which is not below. */
LBNN_INLINE int32_t lbnn_int_apart(int32_t top, int32_t x)
{
#if defined(LBNN_INT_SATURATES)
    return lbnn_int_shift(top - x);
#else
    return lbnn_int_smaller(top - x, 31);
#endif
}

/* x / 2^by rounded down, by = lbnn_int_by(k) for k up to 255: an Arm shifts by more than 31 as C does not. */
#if defined(__thumb__) && defined(__GNUC__) && !defined(LBNN_NO_SIMD)
LBNN_INLINE int32_t lbnn_int_by(int32_t k)
{
    return k;
}

LBNN_INLINE int32_t lbnn_int_far(int32_t x, int32_t by)
{
#if defined(__ARM_ARCH_6M__)
    __asm__(".syntax unified\n\tasrs %0, %0, %1" : "+l"(x) : "l"(by) : "cc");
#else
    __asm__("asr %0, %0, %1" : "+r"(x) : "r"(by));
#endif
    return x;
}
#else
LBNN_INLINE int32_t lbnn_int_by(int32_t k)
{
    return lbnn_int_smaller(k, 31);
}

LBNN_INLINE int32_t lbnn_int_far(int32_t x, int32_t by)
{
    return x >> by;
}
#endif

/* How far x is below top, the largest of some numbers, of which x is one. */
LBNN_INLINE int32_t lbnn_int_behind(int32_t top, int32_t x)
{
    return top - x;
}

/* x / 2^k rounded up, for x >= 0. */
LBNN_INLINE int32_t lbnn_int_up(int32_t x, int32_t k)
{
    return ((x - 1) >> k) + 1;
}

/* x / 2^j / 2^k rounded up. */
LBNN_INLINE int32_t lbnn_int_up_twice(int32_t x, int32_t j, int32_t k)
{
    return (((x - 1) >> j) >> k) + 1;
}

/* x / 2^k to nearest, for k >= 1. */
LBNN_INLINE int32_t lbnn_int_near(int32_t x, int32_t k)
{
    return ((x >> (k - 1)) + 1) >> 1;
}

/* x m / 2^16 rounded down, m < 2^16; where a product has 32 bits alone, the halves of x apart. */
LBNN_INT_STEP int32_t lbnn_int_times(int32_t x, uint32_t m)
{
#if defined(__ARM_ARCH_6M__)
    const uint32_t low = (LBNN_AS(uint32_t, x) & 0xffffu) * m;
    return (x >> 16) * LBNN_AS(int32_t, m) + LBNN_AS(int32_t, low >> 16);
#else
    return LBNN_AS(int32_t, (LBNN_AS(int64_t, x) * LBNN_AS(int64_t, m)) >> 16);
#endif
}

/* The same for m < 2^15. */
LBNN_INLINE int32_t lbnn_int_scaled(int32_t x, int32_t m)
{
#if defined(__ARM_ARCH_6M__)
    return lbnn_int_times(x, LBNN_AS(uint32_t, m));
#else
    return LBNN_AS(int32_t, (LBNN_AS(int64_t, x) * (m << 16)) >> 32);
#endif
}

/* x m / 2^16 rounded down, for x >= 0 and m < 2^16. */
LBNN_INLINE int32_t lbnn_int_share(int32_t x, int32_t m)
{
#if defined(__ARM_ARCH_6M__)
    return lbnn_int_times(x, LBNN_AS(uint32_t, m));
#else
    return LBNN_AS(int32_t, (LBNN_AS(uint64_t, LBNN_AS(uint32_t, x)) * (LBNN_AS(uint32_t, m) << 16)) >> 32);
#endif
}

/* x m / 2^16 rounded up, for x >= 0. */
LBNN_INLINE int32_t lbnn_int_times_up(int32_t x, uint32_t m)
{
    const uint32_t low = (LBNN_AS(uint32_t, x) & 0xffffu) * m + 0xffffu;
    return (x >> 16) * LBNN_AS(int32_t, m) + LBNN_AS(int32_t, low >> 16);
}

/* How many bits x has. */
LBNN_INT_STEP int32_t lbnn_int_bits(uint32_t x)
{
#if !defined(LBNN_INT_LOOPS) && (defined(__GNUC__) || defined(__clang__)) && !defined(__FRAMAC__)
    return x ? 32 - __builtin_clz(x) : 0;
#else
    int32_t n = 0;
    for (; x; x >>= 1) {
        n++;
    }
    return n;
#endif
}

/* The same for x > 0. */
LBNN_INLINE int32_t lbnn_int_length(uint32_t x)
{
#if !defined(LBNN_INT_LOOPS) && (defined(__GNUC__) || defined(__clang__)) && !defined(__FRAMAC__)
    return 32 - __builtin_clz(x);
#else
    return lbnn_int_bits(x);
#endif
}

/* |x|, or |x| - 1 for x < 0. */
LBNN_INLINE int32_t lbnn_int_size(int32_t x)
{
    return x ^ (x >> 31);
}

LBNN_INLINE int32_t lbnn_int_abs(int32_t x)
{
    return x < 0 ? -x : x;
}

/* The lower and the upper mantissa of a word, and a word of both. */
LBNN_INLINE int32_t lbnn_int_first(int32_t word)
{
    return LBNN_AS(int16_t, LBNN_AS(uint32_t, word) & 0xffffu);
}

LBNN_INLINE int32_t lbnn_int_second(int32_t word)
{
    return word >> 16;
}

LBNN_INLINE int32_t lbnn_int_word(int32_t first, int32_t second)
{
    return LBNN_AS(int32_t, (LBNN_AS(uint32_t, first) & 0xffffu) | (LBNN_AS(uint32_t, second) << 16));
}

/* Puts mantissa i, in ascending order, into its word; the upper half of a last one stays 0. */
LBNN_INLINE void lbnn_int_put(int32_t *words, int i, int32_t x)
{
    words[i >> 1] = i & 1 ? lbnn_int_word(words[i >> 1], x) : lbnn_int_word(x, 0);
}

/* The same in any order, beside what stands in the other half. */
#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
typedef int16_t __attribute__((may_alias)) lbnn_int_half; /* half of a word of memory */

LBNN_INLINE void lbnn_int_set(int32_t *words, int i, int32_t x)
{
    LBNN_AS(lbnn_int_half *, LBNN_AS(void *, words))[i] = LBNN_AS(int16_t, x);
}

LBNN_INLINE int32_t lbnn_int_at(const int32_t *words, int i)
{
    return LBNN_AS(const lbnn_int_half *, LBNN_AS(const void *, words))[i];
}
#else
LBNN_INLINE void lbnn_int_set(int32_t *words, int i, int32_t x)
{
    const int32_t word = words[i >> 1];
    words[i >> 1] = i & 1 ? lbnn_int_word(word, x) : lbnn_int_word(x, lbnn_int_second(word));
}

LBNN_INLINE int32_t lbnn_int_at(const int32_t *words, int i)
{
    return i & 1 ? lbnn_int_second(words[i >> 1]) : lbnn_int_first(words[i >> 1]);
}
#endif

/* The lower and the upper mantissa of a word in memory; a prover that sees bytes apart is shown those. */
LBNN_INLINE int32_t lbnn_int_lower(const int32_t *word)
{
#if defined(__FRAMAC__)
    return lbnn_int_at(word, 0);
#else
    return lbnn_int_first(*word);
#endif
}

LBNN_INLINE int32_t lbnn_int_upper(const int32_t *word)
{
#if defined(__FRAMAC__)
    return lbnn_int_at(word, 1);
#else
    return lbnn_int_second(*word);
#endif
}

/* 1/sqrt(v) = inverse 2^(half - 30), sqrt(v) = sigma 2^-half within 2.5e-4, 0 < sigma <= 2^15, for 0 < v < 2^30. */
typedef struct {
    int32_t inverse;
    int32_t sigma;
    int32_t half;
} lbnn_int_root;

LBNN_INLINE lbnn_int_root lbnn_int_root_by_table(int32_t v)
{
    lbnn_int_root r;
#if defined(__ARM_ARCH_6M__) /* which does not count zeros: most numbers are near the largest */
    int32_t full = v;
    for (r.half = 0; !(full >> 28); r.half++) {
        full <<= 2;
    }
#else
    r.half = (30 - lbnn_int_length(LBNN_AS(uint32_t, v))) >> 1;
    const int32_t full = v << (2 * r.half);
#endif
    const uint16_t *cell = &lbnn_int_roots[LBNN_AS(uint32_t, full >> 23) - 32u];
    const int32_t slope = LBNN_AS(int32_t, cell[0]) - LBNN_AS(int32_t, cell[1]);
    r.inverse = LBNN_AS(int32_t, cell[0]) - ((slope * ((full >> 7) & 0xffff)) >> 16);
    const uint32_t product = LBNN_AS(uint32_t, full >> 15) * LBNN_AS(uint32_t, r.inverse) + 32767u;
    r.sigma = LBNN_AS(int32_t, product >> 15);
    return r;
}

#if defined(LBNN_INT_NO_MAPS) && !defined(LBNN_INT_NO_FREE)
/* The same in two words, for a function that several kernels call. */
LBNN_DEFAULT_KERNEL LBNN_SMALL uint64_t lbnn_int_root_words(int32_t v)
{
    const lbnn_int_root r = lbnn_int_root_by_table(v);
    const uint32_t both = LBNN_AS(uint32_t, r.inverse) | LBNN_AS(uint32_t, r.sigma) << 16;
    return LBNN_AS(uint64_t, LBNN_AS(uint32_t, r.half)) << 32 | both;
}

LBNN_INLINE lbnn_int_root lbnn_int_sqrt(int32_t v)
{
    const uint64_t words = lbnn_int_root_words(v);
    const uint32_t both = LBNN_AS(uint32_t, words);
    const lbnn_int_root r = {LBNN_AS(int32_t, both & 0xffffu), LBNN_AS(int32_t, both >> 16), LBNN_AS(int32_t, words >> 32)};
    return r;
}
#else
LBNN_INLINE lbnn_int_root lbnn_int_sqrt(int32_t v)
{
    return lbnn_int_root_by_table(v);
}
#endif

/* How far left variances below 2^30, of which the largest is given, move to have 29 or 30 bits; it is even. */
LBNN_INLINE int32_t lbnn_int_lift(int32_t largest)
{
    return (30 - lbnn_int_bits(LBNN_AS(uint32_t, largest))) & ~1;
}

/* x 2^k of one of the variances whose lift k is, which has no bit above those of the largest. */
LBNN_INLINE int32_t lbnn_int_lifted(int32_t x, int32_t k)
{
    return x << k;
}

/* Begins to look for the largest numbers of a wide tensor, and looks at one more. */
LBNN_INLINE void lbnn_int_look(lbnn_int_scale *to)
{
    to->largest = 0;
    to->widest = 0;
}

LBNN_INLINE void lbnn_int_look_at(lbnn_int_scale *to, int32_t mean, int32_t var)
{
    to->largest = lbnn_int_larger(to->largest, lbnn_int_size(mean));
    to->widest = lbnn_int_larger(to->widest, var);
}

/* ---- wide -> narrow, and leaky-ReLU ------------------------------------------------------------ */

/* Beside a leaky-ReLU's tables of 65 numbers each (k I1, sqrt g for E >= 0, for E < 0) stand its slope and its shift. */
#define LBNN_INT_TAIL 65

/* The table between two of its numbers, part / 256 of the way. */
LBNN_INLINE int32_t lbnn_int_between(const uint16_t *cell, int32_t part)
{
    const int32_t step = LBNN_AS(int32_t, cell[1]) - LBNN_AS(int32_t, cell[0]);
    return LBNN_AS(int32_t, cell[0]) + ((step * part) >> 8);
}

/* z = p / 2^(right + 12) sigmas from the kink, in units of 2^-12, below 4; right <= 31. */
LBNN_INLINE int32_t lbnn_int_distance(int32_t p, int32_t right)
{
    if (right >= 0) {
        return lbnn_int_below_four(p >> right);
    }
    return lbnn_int_below_four(lbnn_int_below_four(p) << lbnn_int_smaller(-right, 15));
}

/* Bits of the means to drop, so that what remains is below 2^mean_bits with half of the largest sigma and both roundings
 * added, which a part of 2^(2 - mean_bits) makes room for; `half` is where that sigma's half ends, or negative. */
LBNN_INLINE int32_t lbnn_int_drop(int32_t largest, int32_t half, int32_t mean_bits)
{
    if (half > 30) {
        return half + 2 - mean_bits;
    }
    uint32_t top = LBNN_AS(uint32_t, largest) + (half >= 0 ? 1u << half : 0u);
    top += (top >> (mean_bits - 2)) + 1u;
    return lbnn_int_larger(lbnn_int_bits(top) - mean_bits, 1);
}

/* What remains of a mean then: at most 2^mean_bits. */
LBNN_INLINE int32_t lbnn_int_dropped(int32_t mean, int32_t move)
{
    return lbnn_int_near(mean, move);
}

/* How a wide tensor becomes narrow: sigmas are moved left by `lift` and then have the exponent `sigma`, `ahead` of that
 * of means, which drop bits. */
typedef struct {
    int32_t lift;
    int32_t ahead;
    int32_t drop;
} lbnn_int_narrowing;

LBNN_INNER LBNN_SMALL lbnn_int_narrowing lbnn_int_narrowing_of(const lbnn_int_scale *from, lbnn_int_scale *to,
                                                               int mean_bits, int sigma_bits, int activated)
{
    const int32_t lift = lbnn_int_lift(from->widest);
    const int32_t exponent = from->widest ? (from->var - lift) >> 1 : LBNN_INT_NONE, ahead = exponent - from->mean;
    const lbnn_int_narrowing by = {lift, ahead, lbnn_int_drop(from->largest, activated ? 14 + ahead : -1, mean_bits)};
    to->mean = from->mean + by.drop;
    to->var = from->widest ? exponent + 15 - sigma_bits : LBNN_INT_NONE;
    return by;
}

/* E' = m E + k sigma I1(z), sigma' = sigma sqrt(g(z)), z = |E| / sigma, by the tables of a leaky-ReLU. May work in
 * place. */
LBNN_KERNEL LBNN_PIXEL void lbnn_int_activate(const int32_t *mean, const int32_t *var, const lbnn_int_scale *from,
                                             int32_t *out, int32_t *sigma, lbnn_int_scale *to, int n,
                                             int mean_bits, int sigma_bits, const uint16_t *table)
{
    const lbnn_int_narrowing by = lbnn_int_narrowing_of(from, to, mean_bits, sigma_bits, 1);
    const int32_t drop = lbnn_int_shift(by.drop), lift = by.lift, sigma_drop = 30 - sigma_bits;
    const int32_t excess_drop = lbnn_int_shift(lbnn_int_larger(17 - by.ahead + by.drop, 17));
    /* Means that are far below the sigmas drop bits before their distance is found. */
    const int32_t near = lbnn_int_smaller(2 + by.ahead, 31);
    const int32_t coarse = lbnn_int_shift(by.ahead - 29);
    int i = 0;
    do {
        const int32_t m = mean[i], v = var[i];
        const uint16_t *side = table + LBNN_INT_TAIL;
        int32_t e = lbnn_int_dropped(m, drop), s = 0;
        if (m < 0) {
            e = lbnn_int_near(e * LBNN_AS(int32_t, table[3 * LBNN_INT_TAIL]), table[3 * LBNN_INT_TAIL + 1]);
            side += LBNN_INT_TAIL;
        }
        if (v > 0) {
            const lbnn_int_root r = lbnn_int_sqrt(lbnn_int_lifted(v, lift));
            const int32_t z = lbnn_int_distance(lbnn_int_share(lbnn_int_size(m) >> coarse, r.inverse), near - r.half);
            const int32_t cell = z >> 8, part = z & 255;
            e += lbnn_int_near((r.sigma * lbnn_int_between(table + cell, part)) >> r.half, excess_drop);
            s = lbnn_int_up_twice(r.sigma * lbnn_int_between(side + cell, part), sigma_drop, r.half);
        }
        lbnn_int_set(out, i, e);
        lbnn_int_set(sigma, i, s);
        i++;
    } while (i < n);
    if (n & 1) {
        lbnn_int_set(out, n, 0);
        lbnn_int_set(sigma, n, 0);
    }
}

/* E' = E, sigma' = sqrt(V). May work in place. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_narrow(const int32_t *mean, const int32_t *var, const lbnn_int_scale *from,
                                            int32_t *out, int32_t *sigma, lbnn_int_scale *to, int n,
                                            int mean_bits, int sigma_bits)
{
    const lbnn_int_narrowing by = lbnn_int_narrowing_of(from, to, mean_bits, sigma_bits, 0);
    const int32_t drop = lbnn_int_shift(by.drop);
    for (int i = 0; i < n; i++) {
        const int32_t e = lbnn_int_dropped(mean[i], drop), v = var[i];
        int32_t s = 0;
        if (v > 0) {
            const lbnn_int_root r = lbnn_int_sqrt(lbnn_int_lifted(v, by.lift));
            s = lbnn_int_up_twice(r.sigma, 15 - sigma_bits, r.half);
        }
        lbnn_int_set(out, i, e);
        lbnn_int_set(sigma, i, s);
    }
    if (n & 1) {
        lbnn_int_set(out, n, 0);
        lbnn_int_set(sigma, n, 0);
    }
}

/* E = e, V = sigma^2, exactly. May work in place: from the last to the first, no mantissa is overwritten unread. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_widen(const int32_t *e, const int32_t *sigma, const lbnn_int_scale *from,
                                           int32_t *mean, int32_t *var, lbnn_int_scale *to, int n)
{
    lbnn_int_scale found = {from->mean - 15, 2 * from->var, 0, 0};
    for (int i = n - 1; i >= 0; i--) {
        const int32_t s = lbnn_int_at(sigma, i);
        mean[i] = lbnn_int_at(e, i) * 32768;
        var[i] = s * s;
        lbnn_int_look_at(&found, mean[i], var[i]);
    }
    *to = found;
}

/* ---- floats as bit patterns --------------------------------------------------------------------- */

#define LBNN_INT_INFINITE 0x7f800000u

/* A float is mantissa 2^(field - 150). */
typedef struct {
    int32_t mantissa;
    int32_t field;
} lbnn_int_float;

LBNN_INLINE lbnn_int_float lbnn_int_unpack(uint32_t pattern)
{
    lbnn_int_float f;
    f.field = LBNN_AS(int32_t, (pattern >> 23) & 255u);
    f.mantissa = LBNN_AS(int32_t, pattern & 0x7fffffu);
    if (f.field) {
        f.mantissa |= 0x800000;
    } else {
        f.field = 1;
    }
    return f;
}

/* x 2^exponent as the pattern of a float, rounded to nearest or upwards; that of an infinity if it is beyond. */
LBNN_KERNEL LBNN_SMALL uint32_t lbnn_int_float_of(int32_t x, int32_t exponent, int upwards)
{
    const uint32_t sign = x < 0 ? 0x80000000u : 0u;
    int32_t size = lbnn_int_abs(x);
    if (size == 0) {
        return 0u;
    }
    const int32_t length = lbnn_int_bits(LBNN_AS(uint32_t, size));
    const int32_t field = exponent + length + 126;
    if (field >= 255) {
        return sign | LBNN_INT_INFINITE;
    }
    /* Of 31 bits 24 remain, and fewer where the exponent is that of the smallest; one more is dropped by the rounding. */
    const int32_t drop = lbnn_int_shift(lbnn_int_larger(7 - field, 6));
    size = ((((size << (31 - length)) - upwards) >> drop) + 1 + upwards) >> 1;
    const uint32_t whole = LBNN_AS(uint32_t, field > 1 ? field - 1 : 0) * 0x800000u + LBNN_AS(uint32_t, size);
    return sign | (whole < LBNN_INT_INFINITE ? whole : LBNN_INT_INFINITE);
}

LBNN_INLINE uint32_t lbnn_int_finite(uint32_t pattern)
{
    return (pattern & 0x7fffffffu) >= LBNN_INT_INFINITE ? (pattern & 0x80000000u) | 0x7f7fffffu : pattern;
}

/* Element i of an input as the pattern of a float: of floats, or of mantissas with an exponent. */
LBNN_INLINE uint32_t lbnn_int_pattern(const float *x, const int32_t *q, int32_t exponent, int upwards, int i)
{
    const int32_t near = lbnn_int_smaller(lbnn_int_larger(exponent, -1000), 1000); /* beyond, all is zero or infinite */
    return q ? lbnn_int_float_of(lbnn_int_larger(q[i], -0x7fffffff), near, upwards) : lbnn_float_bits(x[i]);
}

/* The largest |x|; minus zero is a variance, all else below zero is none and beyond every float. */
LBNN_INLINE uint32_t lbnn_int_largest(const float *x, const int32_t *q, int32_t exponent, int variances, int n)
{
    uint32_t most = 0u;
    for (int i = 0; i < n; i++) {
        uint32_t pattern = lbnn_int_pattern(x, q, exponent, variances, i);
        if (!variances || pattern == 0x80000000u) {
            pattern &= 0x7fffffffu;
        }
        most = pattern > most ? pattern : most;
    }
    return most;
}

LBNN_KERNEL LBNN_SMALL uint32_t lbnn_int_largest_mean(const float *x, int n)
{
    return lbnn_int_largest(x, 0, 0, 0, n);
}

LBNN_KERNEL LBNN_SMALL uint32_t lbnn_int_largest_var(const float *x, int n)
{
    return lbnn_int_largest(x, 0, 0, 1, n);
}

LBNN_KERNEL LBNN_SMALL uint32_t lbnn_int_largest_q(const int32_t *q, int32_t exponent, int variances, int n)
{
    return lbnn_int_largest(0, q, exponent, variances, n);
}

LBNN_INLINE uint32_t lbnn_int_most(const lbnn_int_source *source, int n)
{
    return source->q ? lbnn_int_largest_q(source->q, source->scale.mean, 0, n) : lbnn_int_largest_mean(source->mean, n);
}

LBNN_INLINE uint32_t lbnn_int_widest(const lbnn_int_source *source, int n)
{
    if (source->q_var) {
        return lbnn_int_largest_q(source->q_var, source->scale.var, 1, n);
    }
    return source->var ? lbnn_int_largest_var(source->var, n) : 0u;
}

/* Whether all n numbers are finite and no variance is negative. */
LBNN_INLINE int lbnn_int_is_input(const lbnn_int_source *source, int n)
{
    return lbnn_int_most(source, n) < LBNN_INT_INFINITE && lbnn_int_widest(source, n) < LBNN_INT_INFINITE;
}

/* Mantissas of means to nearest, the largest with all bits; returns their exponent. */
LBNN_INLINE int32_t lbnn_int_means(const float *x, const int32_t *q, int32_t exponent, uint32_t most,
                                   int32_t *mean, int n, int mean_bits)
{
    const int32_t top = lbnn_int_unpack(most).field;
    const int32_t limit = (1 << mean_bits) - 1;
    for (int i = 0; i < n; i++) {
        const uint32_t pattern = lbnn_int_pattern(x, q, exponent, 0, i);
        const lbnn_int_float f = lbnn_int_unpack(pattern);
        const int32_t drop = lbnn_int_apart(24 - mean_bits + top, f.field);
        const int32_t e = lbnn_int_smaller(lbnn_int_near(f.mantissa, drop), limit);
        lbnn_int_set(mean, i, pattern >> 31 ? -e : e);
    }
    if (n & 1) {
        lbnn_int_set(mean, n, 0);
    }
    return most ? top - 126 - mean_bits : LBNN_INT_NONE;
}

/* Mantissas of sigmas = sqrt(V) upwards; returns their exponent. */
LBNN_INLINE int32_t lbnn_int_sigmas(const float *x, const int32_t *q, int32_t exponent, uint32_t widest,
                                    int32_t *sigma, int n, int sigma_bits)
{
    const int32_t wide = (lbnn_int_unpack(widest).field + 1) >> 1;
    for (int i = 0; i < n; i++) {
        const lbnn_int_float v = lbnn_int_unpack(lbnn_int_pattern(x, q, exponent, 1, i) & 0x7fffffffu);
        int32_t s = 0;
        if (v.mantissa) {
            const lbnn_int_root r = lbnn_int_sqrt(v.mantissa << (6 - (v.field & 1)));
            const int32_t distance = lbnn_int_smaller(lbnn_int_larger(wide - ((v.field + 1) >> 1), 0) + r.half, 31);
            s = lbnn_int_up(lbnn_int_up(r.sigma, 15 - sigma_bits), distance);
        }
        lbnn_int_set(sigma, i, s);
    }
    if (n & 1) {
        lbnn_int_set(sigma, n, 0);
    }
    return widest ? wide - 63 - sigma_bits : LBNN_INT_NONE;
}

LBNN_KERNEL LBNN_SMALL int32_t lbnn_int_pack_means(const float *x, int32_t *mean, int n, int mean_bits)
{
    return lbnn_int_means(x, 0, 0, lbnn_int_largest_mean(x, n), mean, n, mean_bits);
}

LBNN_KERNEL LBNN_SMALL int32_t lbnn_int_pack_sigmas(const float *x, int32_t *sigma, int n, int sigma_bits)
{
    return lbnn_int_sigmas(x, 0, 0, lbnn_int_largest_var(x, n), sigma, n, sigma_bits);
}

LBNN_KERNEL LBNN_SMALL int32_t lbnn_int_pack_q(const int32_t *q, int32_t exponent, int32_t *mean, int n, int mean_bits)
{
    return lbnn_int_means(0, q, exponent, lbnn_int_largest_q(q, exponent, 0, n), mean, n, mean_bits);
}

LBNN_KERNEL LBNN_SMALL int32_t lbnn_int_pack_q_var(const int32_t *q, int32_t exponent,
                                                   int32_t *sigma, int n, int sigma_bits)
{
    return lbnn_int_sigmas(0, q, exponent, lbnn_int_largest_q(q, exponent, 1, n), sigma, n, sigma_bits);
}

/* Mantissas of an input. The source is known where this stands: no more is linked than it needs. */
LBNN_INLINE void lbnn_int_pack(const lbnn_int_source *source, int32_t *mean, int32_t *sigma, lbnn_int_scale *to, int n,
                               int mean_bits, int sigma_bits)
{
    to->mean = source->q ? lbnn_int_pack_q(source->q, source->scale.mean, mean, n, mean_bits)
                         : lbnn_int_pack_means(source->mean, mean, n, mean_bits);
    to->var = LBNN_INT_NONE;
    if (source->q_var) {
        to->var = lbnn_int_pack_q_var(source->q_var, source->scale.var, sigma, n, sigma_bits);
    } else if (source->var) {
        to->var = lbnn_int_pack_sigmas(source->var, sigma, n, sigma_bits);
    }
}

/* (E + t) s of means as patterns of floats; `factors` are n of t, then n of s. */
LBNN_INLINE void lbnn_int_scaled_means(const float *x, const int32_t *q, int32_t exponent, const float *factors,
                                       int32_t *out, int n)
{
    for (int i = 0; i < n; i++) {
        const uint32_t pattern = lbnn_int_pattern(x, q, exponent, 0, i), shift = lbnn_float_bits(factors[i]);
        const uint32_t factor = lbnn_float_bits(factors[n + i]);
        const lbnn_int_float f = lbnn_int_unpack(pattern), t = lbnn_int_unpack(shift), s = lbnn_int_unpack(factor);
        const int32_t top = lbnn_int_larger(f.field, t.field);
        const int32_t a = (pattern >> 31 ? -f.mantissa : f.mantissa) * 64;
        const int32_t b = (shift >> 31 ? -t.mantissa : t.mantissa) * 64;
        const int32_t sum = (a >> lbnn_int_apart(top, f.field)) + (b >> lbnn_int_apart(top, t.field));
        const int32_t product = lbnn_int_times(sum, LBNN_AS(uint32_t, s.mantissa) >> 8);
        const uint32_t result = lbnn_int_float_of(factor >> 31 ? -product : product, top + s.field - 282, 0);
        out[i] = LBNN_AS(int32_t, lbnn_int_finite(result));
    }
}

/* s^2 V. */
LBNN_INLINE void lbnn_int_scaled_vars(const float *x, const int32_t *q, int32_t exponent, const float *factors,
                                      int32_t *out, int n)
{
    for (int i = 0; i < n; i++) {
        const lbnn_int_float s = lbnn_int_unpack(lbnn_float_bits(factors[n + i]));
        const lbnn_int_float v = lbnn_int_unpack(lbnn_int_pattern(x, q, exponent, 1, i) & 0x7fffffffu);
        const uint32_t m = LBNN_AS(uint32_t, s.mantissa) >> 8;
        const int32_t spread = lbnn_int_times_up(lbnn_int_times_up(v.mantissa * 64, m), m);
        out[i] = LBNN_AS(int32_t, lbnn_int_finite(lbnn_int_float_of(spread, v.field + 2 * s.field - 408, 1)));
    }
}

LBNN_KERNEL LBNN_SMALL void lbnn_int_scale_means(const float *x, const float *factors, int32_t *out, int n)
{
    lbnn_int_scaled_means(x, 0, 0, factors, out, n);
}

LBNN_KERNEL LBNN_SMALL void lbnn_int_scale_vars(const float *x, const float *factors, int32_t *out, int n)
{
    lbnn_int_scaled_vars(x, 0, 0, factors, out, n);
}

LBNN_KERNEL LBNN_SMALL void lbnn_int_scale_q(const int32_t *q, int32_t exponent, const float *factors,
                                             int32_t *out, int n)
{
    lbnn_int_scaled_means(0, q, exponent, factors, out, n);
}

LBNN_KERNEL LBNN_SMALL void lbnn_int_scale_q_var(const int32_t *q, int32_t exponent, const float *factors,
                                                 int32_t *out, int n)
{
    lbnn_int_scaled_vars(0, q, exponent, factors, out, n);
}

/* E' = (E + t) s, V' = s^2 V of an input, packed. Between the two steps `mean` and `sigma` hold patterns of floats. */
LBNN_INLINE void lbnn_int_standardize(const lbnn_int_source *source, const float *factors, int32_t *mean, int32_t *sigma,
                                      lbnn_int_scale *to, int n, int mean_bits, int sigma_bits)
{
    if (source->q) {
        lbnn_int_scale_q(source->q, source->scale.mean, factors, mean, n);
    } else {
        lbnn_int_scale_means(source->mean, factors, mean, n);
    }
    to->mean = lbnn_int_pack_means(LBNN_AS(const float *, LBNN_AS(const void *, mean)), mean, n, mean_bits);
    to->var = LBNN_INT_NONE;
    if (source->q_var || source->var) {
        if (source->q_var) {
            lbnn_int_scale_q_var(source->q_var, source->scale.var, factors, sigma, n);
        } else {
            lbnn_int_scale_vars(source->var, factors, sigma, n);
        }
        to->var = lbnn_int_pack_sigmas(LBNN_AS(const float *, LBNN_AS(const void *, sigma)), sigma, n, sigma_bits);
    }
}

/* Results in units of 2^units, or of 1, as floats, means to nearest and variances upwards. Where one is beyond float the
 * largest float stands, also for the variance, and the status is LBNN_SATURATED. */
LBNN_KERNEL LBNN_SMALL lbnn_status lbnn_int_emit(const int32_t *mean, const int32_t *var, const lbnn_int_scale *from,
                                                 const int16_t *units, float *out, float *out_var, int n)
{
    lbnn_status status = LBNN_OK;
    for (int i = 0; i < n; i++) {
        const int32_t unit = units ? units[i] : 0;
        uint32_t m = lbnn_int_float_of(mean[i], from->mean + unit, 0);
        uint32_t v = lbnn_int_float_of(var[i], from->var + 2 * unit, 1);
        if ((m & 0x7fffffffu) == LBNN_INT_INFINITE || v == LBNN_INT_INFINITE) {
            m = lbnn_int_finite(m);
            v = LBNN_INT_INFINITE - 1u;
            status = LBNN_SATURATED;
        }
        out[i] = lbnn_bits_float(m);
        out_var[i] = lbnn_bits_float(v);
    }
    return status;
}

/* Results as they are, with their exponents. */
LBNN_KERNEL LBNN_SMALL void lbnn_int_emit_q(const int32_t *mean, const int32_t *var, const lbnn_int_scale *from,
                                            const int16_t *units, int32_t *out, int32_t *exponent, int32_t *out_var,
                                            int32_t *var_exponent, int n)
{
    for (int i = 0; i < n; i++) {
        const int32_t unit = units ? units[i] : 0;
        out[i] = mean[i];
        out_var[i] = var[i];
        exponent[i] = from->mean + unit;
        var_exponent[i] = from->var + 2 * unit;
    }
}

#endif
