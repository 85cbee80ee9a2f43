/* lbnn.h: what every other header of the runtime stands on: options and status codes.
 *
 * The runtime computes with moments: every value is a mean and a variance, held in two float arrays
 * of the same length, channels first. Kernels trust their caller (the generated code) and return
 * nothing; pointers and numbers are checked once, in the generated NAME_predict().
 *
 *     #define LBNN_EXPECT_ABI 3        // generated code says which runtime it was written for
 *     #include "lbnn.h"                // base
 *     #include "lbnn_linear.h"         // then only the kernels the model needs
 *
 * Options, to be given to the compiler (-DNAME) or defined before the first include:
 *
 *   LBNN_OPTIMIZE_SIZE   smallest code: narrow blocks and one general kernel instead of fast paths.
 *   LBNN_USE_LIBM        exp, log1p, the normal CDF and sqrt from libm; without it we take nothing from a library.
 *   LBNN_STRICT          the same bits on every machine: no fused multiply-add, one order of summation.
 *   LBNN_NO_CONTRACTION  tells LBNN_STRICT that -ffp-contract=off is given; only gcc without -std=c99 needs it.
 *   LBNN_NO_SIMD         plain C even where the compiler could use vector registers.
 *   LBNN_MEAN_ONLY       the plain network of the means, to see what the variances cost: none is stored.
 *   LBNN_HALF_WEIGHTS    weights are words of two half floats (lbnn_weights.h); generated code defines it.
 *   LBNN_BLOCK           outputs computed together, 4 or 8 (chosen below to suit the processor).
 *
 * C99 and C++11; no static state, no allocation, no double.
 */
#ifndef LBNN_H
#define LBNN_H

#include <stddef.h>
#include <stdint.h>
#if defined(LBNN_USE_LIBM) || defined(__FRAMAC__)
#include <math.h>
#endif
#if !defined(__GNUC__) || defined(__FRAMAC__)
#include <string.h>
#endif

/* Raised whenever a kernel's signature or the packing of the weights changes. */
#define LBNN_ABI_VERSION 3

#if defined(LBNN_EXPECT_ABI) && LBNN_EXPECT_ABI != LBNN_ABI_VERSION
#error "this model was generated for another version of the lbnn runtime: export it again"
#endif

/* ---- status: one list feeds the enumeration and its messages --------------------------------- */

#define LBNN_STATUS_LIST(X)                                                                        \
    X(LBNN_OK, 0, "ok")                                                                            \
    X(LBNN_MORE, 1, "more samples are needed for a result")                                        \
    X(LBNN_SATURATED, 2, "a result is beyond float: the largest float stands for it")              \
    X(LBNN_ERROR_NULL, -1, "a pointer argument is null")                                           \
    X(LBNN_ERROR_INPUT, -2, "an input is not finite, or an input variance is negative")            \
    X(LBNN_ERROR_OUTPUT, -3, "an output is not finite, or an output variance is negative")         \
    X(LBNN_ERROR_OVERLAP, -4, "mean and variance are one array")

typedef enum {
#define LBNN_STATUS_ENTRY(name, value, message) name = (value),
    LBNN_STATUS_LIST(LBNN_STATUS_ENTRY)
#undef LBNN_STATUS_ENTRY
    LBNN_STATUS_UNKNOWN = -128 /* no kernel returns it; it keeps the list free of a last comma */
} lbnn_status;

/* ---- compiler --------------------------------------------------------------------------------- */

/* LBNN_INLINE: part of a kernel, never a call. LBNN_KERNEL: one function for all layers that use it, not
 * copied into each; give it as nothing (-DLBNN_KERNEL=) to build a library of all kernels. LBNN_UNUSED: no warning where
 * a model does not need it: headers that stand inside of a .c file (--single-file) are no headers to a compiler. */
#if defined(__GNUC__) || defined(__clang__)
#define LBNN_UNUSED __attribute__((unused))
#define LBNN_INLINE static inline __attribute__((always_inline, unused))
#define LBNN_DEFAULT_KERNEL static __attribute__((noinline, unused))
#define LBNN_RESTRICT __restrict
#elif defined(_MSC_VER)
#define LBNN_UNUSED
#define LBNN_INLINE static __forceinline
#define LBNN_DEFAULT_KERNEL static inline
#define LBNN_RESTRICT __restrict
#else
#define LBNN_UNUSED
#define LBNN_INLINE static inline
#define LBNN_DEFAULT_KERNEL static inline
#define LBNN_RESTRICT
#endif

#ifndef LBNN_KERNEL
#define LBNN_KERNEL LBNN_DEFAULT_KERNEL
#endif

/* A conversion as each language likes to see it (-Wold-style-cast). */
#ifdef __cplusplus
#define LBNN_AS(type, x) static_cast<type>(x)
#else
#define LBNN_AS(type, x) ((type)(x))
#endif

LBNN_KERNEL const char *lbnn_status_message(lbnn_status status)
{
    switch (status) {
#define LBNN_STATUS_ENTRY(name, value, message) case name: return message;
        LBNN_STATUS_LIST(LBNN_STATUS_ENTRY)
#undef LBNN_STATUS_ENTRY
        case LBNN_STATUS_UNKNOWN:
        default: break;
    }
    return "unknown status";
}

/* Hints for gcc on processors without vector registers; they generate no instruction. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__ARM_FP)
/* Keeps a constant in a register through a loop, where gcc would load it again for each element. */
#define LBNN_PIN(x) __asm__("" : "+t"(x))
/* Ends the use of x in sums y and z, so that what is made of x next takes its register, where gcc would copy it. */
#define LBNN_SPENT(x, y, z) __asm__("" : "+t"(x), "+t"(y), "+t"(z))
/* The same for sums that are only read: LBNN_SPENT_IN(x, LBNN_BOTH(sum), LBNN_BOTH(other)). */
#define LBNN_SPENT_IN(x, ...) __asm__("" : "+t"(x) : __VA_ARGS__)
#define LBNN_BOTH(sum) "t"((sum)->mean), "t"((sum)->var)
/* A conversion whose integer stays in a register for floats, where gcc would take it back from the core's. */
#define LBNN_CONVERT_ASM(types, to, from) __asm__("vcvt." types " %0, %1" : "=t"(to) : "t"(from))
#else
#define LBNN_PIN(x) (void)(x)
#define LBNN_SPENT(x, y, z) (void)(x)
#define LBNN_SPENT_IN(x, ...) (void)(x)
#endif
#if defined(__GNUC__) && !defined(__clang__) && defined(__arm__)
/* Keeps a pointer as the one the others are computed from, where gcc would carry three, and what it points to in
 * memory, where gcc would carry it through a loop. */
#define LBNN_HOLD(p) __asm__("" : "+r"(p))
/* Keeps what is read behind it from being read before, where registers would not suffice. */
#define LBNN_FENCE() __asm__ volatile("" : : : "memory")
#else
#define LBNN_FENCE() (void)0
#define LBNN_HOLD(p) (void)(p)
#endif

/* Whether loops over single words take four at a time: with one, half of the instructions are the loop's. */
#ifdef LBNN_OPTIMIZE_SIZE
#define LBNN_BY_FOUR 0
#else
#define LBNN_BY_FOUR 1
#endif

/* A sum is added up in parts of at most so many products, each part from zero, and the parts one after the other: one
 * long chain of n equal terms may be off by n / 2^25 of itself, since every addition can round the same way; parts
 * of 144 keep 4096 inputs within 6e-6. */
#define LBNN_FOLD 144

/* Strict arithmetic: every product rounded before it is added, and one order of summation: each output is summed over its
 * inputs in ascending order, in parts of LBNN_FOLD, whatever the block width. Without it lbnn_conv2d_3x3 may take the taps of
 * a kernel row together, first those of V, then those of S, and a leaky-ReLU far from its kink may leave out its tail. */
#ifdef LBNN_STRICT
#if defined(__FAST_MATH__)
#error "LBNN_STRICT needs IEEE arithmetic: compile without -ffast-math"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16 /* 16: half floats too */
#error "LBNN_STRICT needs float arithmetic in float: compile with -msse2 -mfpmath=sse, on s390 -fexcess-precision=fast"
#endif
/* gcc has no pragma for it that stays inside of a function, and no macro that says what -ffp-contract is. It can't fuse
 * where the processor can't, and does not unless asked to in ISO C (-std=c99), which C++ is not. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(LBNN_NO_CONTRACTION)
#if defined(__FP_FAST_FMAF) && (!defined(__STRICT_ANSI__) || defined(__cplusplus))
#error "LBNN_STRICT needs multiply and add apart: compile with -std=c99, or with -ffp-contract=off -DLBNN_NO_CONTRACTION"
#endif
#endif
#endif

/* The first line of every function that adds products, for compilers that heed the pragma of the C standard; it ends
 * with the function, so that code behind the headers is compiled as its author wants it. */
#if defined(LBNN_STRICT) && (defined(__clang__) || !defined(__GNUC__))
#define LBNN_ROUND_PRODUCTS _Pragma("STDC FP_CONTRACT OFF")
#else
#define LBNN_ROUND_PRODUCTS
#endif

/* With LBNN_MEAN_ONLY no kernel stores a variance, and the compiler leaves out whatever led to one. */
#ifdef LBNN_MEAN_ONLY
enum { LBNN_VARIANCE = 0 };
#else
enum { LBNN_VARIANCE = 1 };
#endif

/* ---- instead of a C library -------------------------------------------------------------------- */

/* Compilers know some functions of the library as instructions, by these names even with -ffreestanding. What they do
 * not expand calls memcpy, memset or memcmp, which they want of every environment. */
#if defined(__GNUC__) && !defined(__FRAMAC__)
#define LBNN_MEMCPY __builtin_memcpy
#define LBNN_MEMCMP __builtin_memcmp
#else
#define LBNN_MEMCPY memcpy
#define LBNN_MEMCMP memcmp
#endif

LBNN_INLINE uint32_t lbnn_float_bits(float x)
{
    uint32_t bits;
    LBNN_MEMCPY(&bits, &x, sizeof bits);
    return bits;
}

LBNN_INLINE float lbnn_bits_float(uint32_t bits)
{
    float x;
    LBNN_MEMCPY(&x, &bits, sizeof x);
    return x;
}

/* ---- constants in flash ------------------------------------------------------------------------ */

/* Constants of a model are declared with LBNN_FLASH and read by name: LBNN_READ(row[i]) a float, LBNN_READ_WORD(row[i]) a
 * word of 32 bits. On most processors that is reading it. An AVR has flash in an address space of its own, and a compiler
 * for it copies constants into RAM unless it is told not to; LBNN_FLASH_APART says that an address of such a constant is
 * no pointer to data. Its pointers have 16 bits and reach the first 64 KB, where linkers put these constants. */
#ifdef __AVR__
#define LBNN_FLASH_APART 1
#define LBNN_FLASH __attribute__((__progmem__))
#define LBNN_READ_WORD(x) lbnn_flash_word(&(x))
#define LBNN_READ(x) lbnn_bits_float(LBNN_READ_WORD(x))

LBNN_INLINE uint32_t lbnn_flash_word(const void *at)
{
    uint32_t word;
    __asm__("lpm %A0, Z+\n\tlpm %B0, Z+\n\tlpm %C0, Z+\n\tlpm %D0, Z" : "=&r"(word), "+z"(at));
    return word;
}

LBNN_INLINE void lbnn_flash_copy(const float *from, float *to, int n)
{
    for (int i = 0; i < n; i++) {
        to[i] = LBNN_READ(from[i]);
    }
}
#else
#define LBNN_FLASH
#define LBNN_READ_WORD(x) (x)
#define LBNN_READ(x) (x)
#endif

LBNN_INLINE float lbnn_fabsf(float x)
{
#ifdef __FRAMAC__
    return fabsf(x);
#elif defined(__GNUC__)
    return __builtin_fabsf(x);
#else
    return lbnn_bits_float(lbnn_float_bits(x) & 0x7fffffffu);
#endif
}

/* The root, rounded to nearest, by integers alone. x is scaled by 4^k to 24 digits before the point and as many behind
 * it or one more; then the 25 digits of the root are found one by one, `rest` being what the square of those found
 * leaves, in units of `digit`. The last digit is there to round by: never a tie, for the square of a number whose 25th
 * digit is 1 has more than 24 digits. */
LBNN_DEFAULT_KERNEL float lbnn_sqrtf_by_digits(float x)
{
    const uint32_t bits = lbnn_float_bits(x), infinity = 0x7f800000u;
    if (bits - 1u >= infinity - 1u) { /* zero, infinite, NaN, or negative */
        return (bits & 0x7fffffffu) == 0u || bits == infinity ? x : lbnn_bits_float(0x7fc00000u);
    }
    /* A denormal is multiplied by 2^24; the exponents of all others are raised by as much. */
    const int denormal = bits < 0x800000u;
    const uint32_t scaled = denormal ? lbnn_float_bits(16777216.0f * x) : bits;
    const uint32_t exponent = (scaled >> 23) + (denormal ? 0u : 24u);
    uint32_t rest = (scaled & 0x7fffffu) | 0x800000u;
    rest <<= 2u - (exponent & 1u);
    uint32_t root = 0u;
    for (uint32_t digit = 0x1000000u; digit != 0u; digit >>= 1) {
        const uint32_t step = 2u * root + digit;
        if (rest >= step) {
            rest -= step;
            root += digit;
        }
        rest <<= 1;
    }
    return lbnn_bits_float((((exponent + 101u) >> 1) << 23) + ((root + 1u) >> 1));
}

/* The root as IEEE 754 has it: the processor's instruction. Compilers give it for sqrtf too, and schedule it better, but
 * with a call of the library for negative numbers, unless -fno-math-errno forbids that. */
#if defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
#define LBNN_SQRT_ASM(root, x) __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x))
#elif defined(__GNUC__) && defined(__aarch64__)
#define LBNN_SQRT_ASM(root, x) __asm__("fsqrt %s0, %s1" : "=w"(root) : "w"(x))
#elif defined(__GNUC__) && defined(__riscv_flen)
#define LBNN_SQRT_ASM(root, x) __asm__("fsqrt.s %0, %1" : "=f"(root) : "f"(x))
#elif defined(__GNUC__) && defined(__SSE__)
#define LBNN_SQRT_ASM(root, x) __asm__("sqrtss %1, %0" : "=x"(root) : "x"(x))
#endif

LBNN_INLINE float lbnn_sqrtf(float x)
{
#if defined(LBNN_USE_LIBM) || defined(__FRAMAC__)
    return sqrtf(x);
#elif defined(__wasm__) || (defined(LBNN_SQRT_ASM) && defined(__NO_MATH_ERRNO__) && defined(__OPTIMIZE__))
    return __builtin_sqrtf(x);
#elif defined(LBNN_SQRT_ASM)
    float root;
    LBNN_SQRT_ASM(root, x);
    return root;
#else
    return lbnn_sqrtf_by_digits(x);
#endif
}

/* ---- block width ------------------------------------------------------------------------------- */

#if !defined(LBNN_NO_SIMD) && (defined(__GNUC__) || defined(__clang__))
#if defined(__SSE2__) || defined(__ARM_NEON) || defined(__VSX__) || defined(__wasm_simd128__)
#define LBNN_SIMD 1
#elif defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE >= 2 && !defined(LBNN_STRICT)
/* Helium takes denormals for zero, which no other machine does, so that strict arithmetic leaves it alone. */
#define LBNN_SIMD 1
#define LBNN_HELIUM 1
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

#endif
