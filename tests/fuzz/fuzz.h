/* fuzz.h: what the targets are written with: numbers and arrays out of the fuzzer's bytes, and checks.
 *
 *     static void fuzz_lbnn_copy(fuzz *f)
 *     {
 *         const int n = fuzz_size(f, 1, 20);
 *         const float *in = fuzz_means(f, n);          // every array is a heap block of exactly its size
 *         float *out = fuzz_output(f, n);              // filled with rubbish; uninitialised for MemorySanitizer
 *         lbnn_copy(in, out, n);
 *         fuzz_same(f, out, in, n);                    // what must hold afterwards
 *     }
 *
 * A target runs twice on the same bytes, over different rubbish: inputs must be unchanged and results the same.
 * Bytes behind the end of the fuzzer's come from a generator that these seeded, so that short inputs fill large arrays.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "real.h"

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define FUZZ_UNINITIALISED 1
#endif
#endif
#ifndef FUZZ_UNINITIALISED
#define FUZZ_UNINITIALISED 0
#endif

typedef struct {
    float *at, *before; /* `before` is null for an array that may be written */
    size_t size;
} fuzz_array;

typedef struct {
    const uint8_t *bytes;
    size_t left;
    uint64_t generator;
    int rubbish;     /* the byte that outputs are filled with */
    int wild;        /* a variance that comes in is negative: then nothing is promised but defined behaviour */
    uint64_t digest; /* of all results */
    fuzz_array arrays[16];
    int count;
} fuzz;

typedef struct {
    const char *name;
    void (*run)(fuzz *f);
} fuzz_target;

/* The tables end with a null name. */
extern const fuzz_target fuzz_kernels[];
extern const fuzz_target fuzz_models[];

/* A number from `least` to `most`. */
int fuzz_size(fuzz *f, int least, int most);

/* Arrays that a kernel may only read. Means: any bits. Variances: not negative, infinite or NaN included; now and then
 * any bits, which is `wild`. Finite: for weights. */
const float *fuzz_means(fuzz *f, int n);
const float *fuzz_variances(fuzz *f, int n);
const float *fuzz_finite(fuzz *f, int n);
int fuzz_finite_style(fuzz *f); /* how numbers are made of bytes */
void fuzz_fill(fuzz *f, float *to, int n, int style, int is_variance);
float *fuzz_block(fuzz *f, int n);          /* to be filled, then kept: */
const float *fuzz_keep(fuzz *f, float *at); /* from now on it must not change */

/* Arrays that a kernel may write. */
float *fuzz_output(fuzz *f, int n);
float *fuzz_copy(fuzz *f, const float *from, int n);

/* What must hold. */
void fuzz_expect(int holds, const char *what);
void fuzz_mean(fuzz *f, float got, real want);
void fuzz_variance(fuzz *f, float got, real want);
void fuzz_same(fuzz *f, const float *got, const float *want, int n);
void fuzz_untouched(const fuzz *f, const float *at, int n);

#endif
