/* main.c: the fuzzer's entry points, and fuzz.h. The environment's LBNN_FUZZ_TARGET names the target; ? lists them. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const fuzz_target *chosen;

static const fuzz_target *find(const fuzz_target *targets, const char *name)
{
    for (; targets->name; targets++) {
        if (strcmp(name, "?") == 0) {
            puts(targets->name);
        }
        if (strcmp(name, targets->name) == 0) {
            return targets;
        }
    }
    return NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    const char *name = getenv("LBNN_FUZZ_TARGET");
    name = name ? name : "";
    chosen = find(fuzz_kernels, name);
    chosen = chosen ? chosen : find(fuzz_models, name);
    if (!chosen) {
        fprintf(stderr, "LBNN_FUZZ_TARGET names no target; with LBNN_FUZZ_TARGET=? they are listed\n");
        exit(strcmp(name, "?") == 0 ? 0 : 2);
    }
    return 0;
}

static void release(fuzz *f)
{
    for (int i = 0; i < f->count; i++) {
        const fuzz_array *array = &f->arrays[i];
        fuzz_expect(!array->before || memcmp(array->at, array->before, array->size) == 0, "an input was changed");
        free(array->at);
        free(array->before);
    }
}

static uint64_t run(const uint8_t *bytes, size_t size, int rubbish)
{
    fuzz f = {0};
    f.bytes = bytes;
    f.left = size;
    f.rubbish = rubbish;
    f.digest = f.generator = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) {
        f.generator = (f.generator ^ bytes[i]) * 0x100000001b3u;
    }
    chosen->run(&f);
    release(&f);
    return f.digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    /* Filled with NaN, then with zeros. */
    fuzz_expect(run(bytes, size, 0xff) == run(bytes, size, 0), "the same call gave two results");
    return 0;
}

/* ---- numbers --------------------------------------------------------------------------------------- */

static uint32_t byte(fuzz *f)
{
    if (f->left > 0) {
        f->left--;
        return *f->bytes++;
    }
    f->generator = f->generator * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(f->generator >> 56);
}

int fuzz_size(fuzz *f, int least, int most)
{
    return least + (int)byte(f) % (most - least + 1);
}

/* Where formulas change or floats end. The last ones are not finite. */
static const uint32_t corners[] = {
    0x00000000u, 0x80000000u, 0x00000001u, 0x807fffffu, 0x00800000u, 0x3f800000u, 0xbf800000u, 0x3f7fffffu,
    0x41400000u, 0xc1400000u, 0x42ae0000u, 0xc2ae0000u, 0x4b800000u, 0x1f800000u, 0x5f7fffffu, 0xdf800000u,
    0x7e800000u, 0xfe800000u, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u,
    0x7f800001u, 0xffffffffu,
};
enum { CORNERS = sizeof corners / sizeof *corners, NOT_FINITE = 6 };

/* Tame numbers are within 128 and have few digits; near ones are from 2^-7 to 4, wide ones from 2^-32 to 2^32, where no
 * square overflows; mixed is each number of another of the finite styles before. */
enum { TAME, NEAR, WIDE, ANY_FINITE, CORNER_FINITE, MIXED, ANY, CORNER };

static const int styles[] = {TAME, NEAR, WIDE, TAME, NEAR, WIDE, ANY_FINITE, CORNER_FINITE, MIXED, ANY, CORNER};
enum { STYLES = sizeof styles / sizeof *styles, FINITE_STYLES = STYLES - 2 };

int fuzz_finite_style(fuzz *f)
{
    return styles[fuzz_size(f, 0, FINITE_STYLES - 1)];
}

static float number(fuzz *f, int style)
{
    const uint32_t low = byte(f);
    if (style == MIXED) {
        return number(f, (int)low % MIXED);
    }
    if (style == CORNER || style == CORNER_FINITE) {
        return float_of(corners[low % (style == CORNER ? CORNERS : CORNERS - NOT_FINITE)]);
    }
    const uint32_t next = byte(f);
    if (style == TAME) {
        return (float)((int)(low | next << 8) - 32768) / 256.0f;
    }
    const uint32_t third = byte(f);
    uint32_t bits = low | next << 8 | third << 16 | byte(f) << 24;
    if (style == NEAR) {
        bits = (bits & 0x83ffffffu) | 0x3c000000u;
    }
    if (style == WIDE) {
        bits = (bits & 0x807fffffu) | (95u + (bits >> 23 & 63u)) << 23;
    }
    return style == ANY_FINITE && !is_finite(float_of(bits)) ? float_of(bits ^ 0x40000000u) : float_of(bits);
}

static float as_variance(float x)
{
    return bits_of(x) == 0x80000000u ? x : float_of(bits_of(x) & 0x7fffffffu); /* -0 is allowed */
}

/* ---- arrays ---------------------------------------------------------------------------------------- */

float *fuzz_block(fuzz *f, int n)
{
    fuzz_expect(f->count < (int)(sizeof f->arrays / sizeof *f->arrays), "the harness has too many arrays");
    fuzz_array *array = &f->arrays[f->count++];
    array->size = (size_t)n * sizeof(float);
    array->at = malloc(array->size);
    array->before = NULL;
    fuzz_expect(array->at || n == 0, "no memory");
    return array->at;
}

const float *fuzz_keep(fuzz *f, float *at)
{
    for (int i = 0; i < f->count; i++) {
        fuzz_array *array = &f->arrays[i];
        if (array->at == at) {
            array->before = malloc(array->size);
            fuzz_expect(array->before || array->size == 0, "no memory");
            memcpy(array->before, at, array->size);
        }
    }
    return at;
}

const float *fuzz_means(fuzz *f, int n)
{
    float *at = fuzz_block(f, n);
    const int style = styles[fuzz_size(f, 0, STYLES - 1)];
    for (int i = 0; i < n; i++) {
        at[i] = number(f, style);
    }
    return fuzz_keep(f, at);
}

const float *fuzz_variances(fuzz *f, int n)
{
    float *at = fuzz_block(f, n);
    const int style = styles[fuzz_size(f, 0, STYLES - 1)];
    const int any_sign = fuzz_size(f, 0, 15) == 15;
    for (int i = 0; i < n; i++) {
        const float x = number(f, style);
        at[i] = any_sign ? x : as_variance(x);
        f->wild = f->wild || at[i] < 0.0f;
    }
    return fuzz_keep(f, at);
}

void fuzz_fill(fuzz *f, float *to, int n, int style, int is_variance)
{
    for (int i = 0; i < n; i++) {
        const float x = number(f, style);
        to[i] = is_variance ? as_variance(x) : x;
    }
}

const float *fuzz_finite(fuzz *f, int n)
{
    float *at = fuzz_block(f, n);
    fuzz_fill(f, at, n, fuzz_finite_style(f), 0);
    return fuzz_keep(f, at);
}

float *fuzz_output(fuzz *f, int n)
{
    float *at = fuzz_block(f, n);
    if (!FUZZ_UNINITIALISED) {
        memset(at, f->rubbish, (size_t)n * sizeof *at);
    }
    return at;
}

float *fuzz_copy(fuzz *f, const float *from, int n)
{
    float *at = fuzz_block(f, n);
    memcpy(at, from, (size_t)n * sizeof *at);
    return at;
}

/* ---- checks ---------------------------------------------------------------------------------------- */

void fuzz_expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "FINDING: %s\n", what);
        abort();
    }
}

static void digest(fuzz *f, float x)
{
    const uint32_t bits = is_finite(x) || x == x ? bits_of(x) : 0x7fc00000u; /* every NaN is the same */
    f->digest = (f->digest ^ bits) * 0x100000001b3u;
}

void fuzz_mean(fuzz *f, float got, real want)
{
    digest(f, got);
    if (f->wild) {
        return;
    }
    if (want.bad) {
        fuzz_expect(!is_finite(got), "an input that is not finite is hidden by a finite result");
    } else if (!want.over) {
        fuzz_expect(is_finite(got), "float32 need not overflow, but the result is not finite");
        if (!(fabs((double)got - want.value) <= want.error)) {
            fprintf(stderr, "got %.9g, want %.17g within %.3g\n", (double)got, want.value, want.error);
            fuzz_expect(0, "the result is not what float64 gives");
        }
    }
}

void fuzz_variance(fuzz *f, float got, real want)
{
    fuzz_expect(f->wild || !(got < 0.0f), "a variance is negative");
    fuzz_mean(f, got, want);
}

void fuzz_same(fuzz *f, const float *got, const float *want, int n)
{
    for (int i = 0; i < n; i++) {
        digest(f, got[i]);
        fuzz_expect(bits_of(got[i]) == bits_of(want[i]), "a copy has other bits");
    }
}

void fuzz_untouched(const fuzz *f, const float *at, int n)
{
    uint8_t rubbish[sizeof *at];
    memset(rubbish, f->rubbish, sizeof rubbish);
    for (int i = 0; i < n && !FUZZ_UNINITIALISED; i++) {
        fuzz_expect(memcmp(at + i, rubbish, sizeof rubbish) == 0, "an element was written that should not be");
    }
}
