/* Integer kernels, for mantissas and exponents as check_bounds of lbnn/graph/ints/quantise.py lets them be: no sum leaves
 * 32 bits, no shift is undefined, no access leaves its array. tools/check/prove.py gives prove_NAME to EVA one by one. */
#include "prove.h"

#include "lbnn_int_conv.h"
#include "lbnn_int_maxpool.h"
#include "lbnn_int_pad.h"
#include "lbnn_int_upsample.h"

/* Callers are proved with these contracts in place of bodies, which are proved in functions of their own: of no two
 * variables EVA keeps a relation, so that each is proved box by box. */
/*@ requires range: 0 < v < 0x40000000;
    assigns \result \from v;
    ensures inverse: 32767 <= \result.inverse <= 65535;
    ensures sigma: 0 < \result.sigma <= 32768;
    ensures half: 0 <= \result.half <= 14; */
LBNN_INLINE lbnn_int_root lbnn_int_sqrt(int32_t v);

/*@ requires range: -0x7fffffff <= x && -0x800000 <= exponent <= 0x800000;
    assigns \result \from x, exponent, upwards; */
LBNN_KERNEL uint32_t lbnn_int_float_of(int32_t x, int32_t exponent, int upwards);

/* x has no bit above those of the number whose lift, or room, k is. */
/*@ requires range: 0 <= x < 0x40000000 && 0 <= k <= 30;
    assigns \result \from x, k;
    ensures range: 0 <= \result < 0x40000000;
    ensures some: x > 0 ==> \result > 0; */
LBNN_INLINE int32_t lbnn_int_lifted(int32_t x, int32_t k);

/* `top` is the largest of some exponents, of which x is one. */
/*@ assigns \result \from top, x;
    ensures range: 0 <= \result <= 31; */
LBNN_INLINE int32_t lbnn_int_apart(int32_t top, int32_t x);

/*@ requires range: -0x8000 <= top <= 0x7fff && -0x8000 <= x <= 0x7fff;
    assigns \result \from top, x;
    ensures range: 0 <= \result <= 0xffff; */
LBNN_INLINE int32_t lbnn_int_behind(int32_t top, int32_t x);

/* `move` is what lbnn_int_drop found for the largest mean. */
/*@ requires range: 1 <= move <= 31;
    assigns \result \from mean, move;
    ensures range: -32768 <= \result <= 32768; */
LBNN_INLINE int32_t lbnn_int_dropped(int32_t mean, int32_t move);

/* What is between two numbers of 16 bits has 16 bits. */
/*@ requires readable: \valid_read(cell + (0 .. 1));
    requires range: 0 <= part <= 255;
    assigns \result \from cell[0 .. 1], part;
    ensures range: 0 <= \result <= 65535;
    ensures most: \result <= \max(cell[0], cell[1]); */
LBNN_INLINE int32_t lbnn_int_between(const uint16_t *cell, int32_t part);

/*@ assigns \result \from x;
    ensures range: 0 <= \result <= 16383; */
LBNN_INLINE int32_t lbnn_int_below_four(int32_t x);

/* As the rows are packed. */
/*@ assigns \result \from shifts;
    ensures range: 0 <= \result <= 15; */
LBNN_INLINE int32_t lbnn_int_scale_shift(int32_t shifts);

/*@ requires range: 0 <= x <= 32768;
    requires table: table == &lbnn_int_soft[0] || table == &lbnn_int_soft[33];
    assigns \result \from x, table[0 .. 32];
    ensures range: 16384 <= \result <= 32768; */
LBNN_INLINE int32_t lbnn_int_soft_at(const uint16_t *table, int32_t x);

static int32_t between(int32_t least, int32_t most)
{
    return Frama_C_interval(least, most);
}

/* A number of exactly so many bits. */
static int32_t of_bits(int n)
{
    return between(n ? 1 << (n - 1) : 0, n ? (1 << (n - 1)) - 1 + (1 << (n - 1)) : 0);
}

void prove_lbnn_int_sqrt(void)
{
    for (int n = 1; n <= 30; n++) {
        /* In each cell of the table apart. */
        const int32_t width = n > 7 ? 1 << (n - 7) : 1;
        for (int32_t v = 1 << (n - 1); v < 1 << (n - 1) || v - (1 << (n - 1)) < 1 << (n - 1); v += width) {
            const lbnn_int_root r = lbnn_int_sqrt(between(v, v + width - 1));
            //@ check inverse: 32767 <= r.inverse <= 65535;
            //@ check sigma: 0 < r.sigma <= 32768;
            //@ check half: 0 <= r.half <= 14;
        }
    }
}

void prove_lbnn_int_lifted(void)
{
    for (int n = 0; n <= 30; n++) {
        const int32_t k = lbnn_int_lift(of_bits(n));
        const int32_t lifted = lbnn_int_lifted(between(n ? 1 : 0, n ? (1 << (n - 1)) - 1 + (1 << (n - 1)) : 0), k);
        //@ check range: (n > 0 ==> 0 < lifted) && lifted < 0x40000000 && 0 <= k <= 30;
    }
}

/* Exponents in any order, and how far apart they stand from the largest. */
void prove_lbnn_int_apart(void)
{
    const int32_t a = between(-0x1fffffff, 0x1fffffff), behind = between(0, 0x1fffffff);
    const int32_t distance = lbnn_int_apart(a, a - behind);
    //@ check range: distance <= 31;
}

void prove_lbnn_int_behind(void)
{
    for (int32_t top = -0x8000; top <= 0x7fff; top += 0x100) {
        const int32_t distance = lbnn_int_behind(top, between(-0x8000, top));
        //@ check range: 0 <= distance <= 0xffff;
    }
}

/* The largest mean of so many bits, and the largest sigma's half at a place, or no sigma. */
static void drop_box(int n, int half, int mean_bits)
{
    const int32_t least = n ? 1 << (n - 1) : 0, largest = n ? least - 1 + least : 0;
    const int32_t drop = lbnn_int_drop(between(least, largest), half, mean_bits);
    const int32_t e = lbnn_int_dropped(between(-largest, largest), lbnn_int_smaller(drop, 31));
    //@ check range: drop >= 1 && -32768 <= e <= 32768;
}

void prove_lbnn_int_dropped(void)
{
    for (int n = 0; n <= 31; n++) {
        for (int half = -1; half <= 31; half += 4) {
            drop_box(n, half, 4);
            drop_box(n, half, 15);
        }
    }
}

/* Both numbers in boxes of 4096: the interval of what lies between is that much wider at each end. */
void prove_lbnn_int_between(void)
{
    for (int32_t a = 0; a < 65536; a += 4096) {
        for (int32_t b = 0; b < 65536; b += 4096) {
            for (int32_t part = 0; part < 256; part += 32) {
                const uint16_t cell[2] = {(uint16_t)between(a, a + 4095), (uint16_t)between(b, b + 4095)};
                const int32_t x = lbnn_int_between(cell, between(part, part + 31));
                //@ check range: -8192 <= x <= 65535 + 8192;
            }
        }
    }
}

/* Also of what is below zero, which is above all as an unsigned number. */
void prove_lbnn_int_below_four(void)
{
    const int32_t negative = lbnn_int_below_four(between(-0x7fffffff - 1, -1));
    const int32_t positive = lbnn_int_below_four(between(0, 0x7fffffff));
    //@ check range: 0 <= negative <= 16383 && 0 <= positive <= 16383;
}

void prove_lbnn_int_scale_shift(void)
{
    const int32_t shift = lbnn_int_scale_shift(between(0, 65535));
    //@ check range: 0 <= shift <= 31;
}

void prove_lbnn_int_soft_at(void)
{
    for (int32_t cell = 0; cell <= 32; cell++) {
        const int32_t x = between(cell << 10, cell < 32 ? (cell << 10) + 1023 : cell << 10);
        const int32_t first = lbnn_int_soft_at(lbnn_int_soft, x), second = lbnn_int_soft_at(lbnn_int_soft + 33, x);
        //@ check range: 16384 <= first <= 32768 && 16384 <= second <= 32768;
    }
}

/* ---- values ------------------------------------------------------------------------------------- */

/* Exponents that floats and layers of any number lead to. */
#define EXPONENT_MOST 4096

static int32_t any_exponent(void)
{
    return between(0, 1) ? LBNN_INT_NONE : between(-EXPONENT_MOST, EXPONENT_MOST);
}

static lbnn_int_scale any_wide_scale(void)
{
    lbnn_int_scale scale;
    scale.mean = any_exponent();
    scale.var = 2 * between(-EXPONENT_MOST, EXPONENT_MOST);
    scale.largest = between(0, 0x7fffffff);
    scale.widest = between(0, 0x3fffffff);
    return scale;
}

static void any_wide(int32_t *mean, int32_t *var, int n)
{
    for (int i = 0; i < n; i++) {
        mean[i] = between(-0x7fffffff, 0x7fffffff);
        var[i] = between(0, 0x3fffffff);
    }
}

static void any_narrow(int32_t *words, int n, int32_t least, int32_t most)
{
    for (int i = 0; i < n; i++) {
        lbnn_int_set(words, i, between(least, most));
    }
    if (n & 1) {
        lbnn_int_set(words, n, 0);
    }
}

static lbnn_int_scale any_narrow_scale(void)
{
    const lbnn_int_scale scale = {any_exponent(), any_exponent(), 0, 0};
    return scale;
}

static void check_words(const int32_t *x, int n)
{
    for (int i = 0; i < n; i++) {
        //@ check written: \initialized(x + i);
    }
}

static void check_scale(const lbnn_int_scale *scale)
{
    //@ check written: \initialized(&scale->mean) && \initialized(&scale->var);
}

/* ---- activation ----------------------------------------------------------------------------------- */

static void any_table(uint16_t *table)
{
    for (int i = 0; i < 65; i++) {
        table[i] = (uint16_t)between(0, 65535);
    }
    for (int i = 65; i < 195; i++) {
        table[i] = (uint16_t)between(1, 32768 + 255);
    }
    table[195] = (uint16_t)between(0, 32767);
    table[196] = (uint16_t)between(15, 30);
}

#define NARROW(n, mean_bits, sigma_bits, given)                                                       \
    do {                                                                                              \
        int32_t mean[n], var[n], out[((n) + 1) / 2], sigma[((n) + 1) / 2];                            \
        uint16_t table[197];                                                                          \
        lbnn_int_scale to;                                                                            \
        const lbnn_int_scale from = any_wide_scale();                                                 \
        any_wide(mean, var, n);                                                                       \
        any_table(table);                                                                             \
        for (int i = 0; i < ((n) + 1) / 2; i++) {                                                     \
            out[i] = 0;                                                                               \
            sigma[i] = 0;                                                                             \
        }                                                                                             \
        if (given) {                                                                                  \
            lbnn_int_activate(mean, var, &from, out, sigma, &to, n, mean_bits, sigma_bits, table);    \
        } else {                                                                                      \
            lbnn_int_narrow(mean, var, &from, out, sigma, &to, n, mean_bits, sigma_bits);             \
        }                                                                                             \
        check_words(out, ((n) + 1) / 2);                                                              \
        check_words(sigma, ((n) + 1) / 2);                                                            \
        check_scale(&to);                                                                             \
    } while (0)

void prove_lbnn_int_narrow(void)
{
    NARROW(1, 15, 14, 0);
    NARROW(2, 4, 1, 0);
    NARROW(3, 15, 12, 0);
}

void prove_lbnn_int_activate(void)
{
    NARROW(1, 15, 14, 1);
    NARROW(2, 4, 1, 1);
    NARROW(3, 15, 12, 1);
}

void prove_lbnn_int_narrowing_of(void)
{
    const lbnn_int_scale from = any_wide_scale();
    lbnn_int_scale to;
    for (int mean_bits = 4; mean_bits <= 15; mean_bits++) {
        const lbnn_int_narrowing by = lbnn_int_narrowing_of(&from, &to, mean_bits, 14, between(0, 1));
        //@ check range: 0 <= by.lift <= 30 && 1 <= by.drop;
        check_scale(&to);
    }
}

void prove_lbnn_int_widen(void)
{
    int32_t e[2], sigma[2], mean[3], var[3];
    const lbnn_int_scale from = any_narrow_scale();
    lbnn_int_scale to;
    any_narrow(e, 3, -32767, 32767);
    any_narrow(sigma, 3, 0, 16384);
    lbnn_int_widen(e, sigma, &from, mean, var, &to, 3);
    check_words(mean, 3);
    check_words(var, 3);
    check_scale(&to);
}

/* ---- floats ---------------------------------------------------------------------------------------- */

void prove_lbnn_int_float_of(void)
{
    for (int n = 0; n <= 31; n++) {
        const int32_t x = n < 31 ? of_bits(n) : between(0x40000000, 0x7fffffff);
        const int32_t exponent = between(-0x800000, 0x800000);
        (void)lbnn_int_float_of(between(0, 1) ? x : -x, exponent, between(0, 1));
    }
}

#define FLOATS 3

static void finite_floats(float *x, int n, int variances)
{
    for (int i = 0; i < n; i++) {
        const uint32_t bits = Frama_C_unsigned_int_interval(0u, 0x7f7fffffu);
        const uint32_t signed_bits = !variances && between(0, 1) ? bits | 0x80000000u : bits;
        memcpy(x + i, &signed_bits, sizeof signed_bits);
    }
}

static void any_mantissas(int32_t *x, int n, int32_t least)
{
    for (int i = 0; i < n; i++) {
        x[i] = between(least, 0x7fffffff);
    }
}

/* What a model does with all of its input: floats or mantissas, with variances and without. Between its two steps the
 * result may hold a word for each number. */
#define INPUT_FORM(of_floats, known, n, call)                                                                \
    do {                                                                                                     \
        float x[n], v[n], factors[2 * (n)];                                                                  \
        int32_t q[n], q_var[n], mean[n], sigma[n];                                                           \
        lbnn_int_scale to;                                                                                   \
        finite_floats(x, n, 0);                                                                              \
        finite_floats(v, n, 1);                                                                              \
        finite_floats(factors, 2 * (n), 0);                                                                  \
        any_mantissas(q, n, -0x7fffffff - 1);                                                                \
        any_mantissas(q_var, n, 0);                                                                          \
        const lbnn_int_source source = {(of_floats) ? x : 0, (of_floats) && !(known) ? v : 0,                \
                                        (of_floats) ? 0 : q, (of_floats) || (known) ? 0 : q_var,             \
                                        {between(-0x7fffffff - 1, 0x7fffffff), between(-0x7fffffff - 1, 0x7fffffff), 0, 0}}; \
        call;                                                                                                \
        check_scale(&to);                                                                                    \
        check_words(mean, ((n) + 1) / 2);                                                                    \
        if (!(known)) {                                                                                      \
            check_words(sigma, ((n) + 1) / 2);                                                               \
        }                                                                                                    \
    } while (0)

#define INPUT_FORMS(n, call)        \
    do {                            \
        INPUT_FORM(1, 0, n, call);  \
        INPUT_FORM(1, 1, n, call);  \
        INPUT_FORM(0, 0, n, call);  \
        INPUT_FORM(0, 1, n, call);  \
    } while (0)

static void accept(const lbnn_int_source *source, int32_t *mean, int32_t *sigma, lbnn_int_scale *to)
{
    const int accepted = lbnn_int_is_input(source, FLOATS);
    //@ check truth: accepted == 0 || accepted == 1;
    lbnn_int_pack(source, mean, sigma, to, FLOATS, 15, 14);
}

void prove_lbnn_int_largest_mean(void)
{
    float x[FLOATS];
    for (int i = 0; i < FLOATS; i++) {
        x[i] = any_float();
    }
    (void)lbnn_int_largest_mean(x, FLOATS);
}

void prove_lbnn_int_largest_var(void)
{
    float x[FLOATS];
    for (int i = 0; i < FLOATS; i++) {
        x[i] = any_float();
    }
    (void)lbnn_int_largest_var(x, FLOATS);
}

void prove_lbnn_int_largest_q(void)
{
    int32_t q[FLOATS];
    any_mantissas(q, FLOATS, -0x7fffffff - 1);
    (void)lbnn_int_largest_q(q, between(-0x7fffffff - 1, 0x7fffffff), between(0, 1), FLOATS);
}

#define OF_FLOATS(kernel, variances, ...)                  \
    do {                                                   \
        float x[FLOATS], factors[2 * FLOATS];              \
        int32_t out[OUT_LEN];                              \
        finite_floats(x, FLOATS, variances);               \
        finite_floats(factors, 2 * FLOATS, 0);             \
        for (int i = 0; i < OUT_LEN; i++) {                \
            out[i] = 0;                                    \
        }                                                  \
        (void)kernel(x, __VA_ARGS__);                      \
        check_words(out, OUT_LEN);                         \
    } while (0)

#define OF_MANTISSAS(kernel, least, ...)                                           \
    do {                                                                           \
        int32_t q[FLOATS], out[OUT_LEN];                                           \
        float factors[2 * FLOATS];                                                 \
        any_mantissas(q, FLOATS, least);                                           \
        finite_floats(factors, 2 * FLOATS, 0);                                     \
        for (int i = 0; i < OUT_LEN; i++) {                                        \
            out[i] = 0;                                                            \
        }                                                                          \
        (void)kernel(q, between(-0x7fffffff - 1, 0x7fffffff), __VA_ARGS__);        \
        check_words(out, OUT_LEN);                                                 \
    } while (0)

#define OUT_LEN ((FLOATS + 1) / 2)

void prove_lbnn_int_pack_means(void)
{
    OF_FLOATS(lbnn_int_pack_means, 0, out, FLOATS, 15);
    OF_FLOATS(lbnn_int_pack_means, 0, out, FLOATS, 3);
}

void prove_lbnn_int_pack_sigmas(void)
{
    OF_FLOATS(lbnn_int_pack_sigmas, 1, out, FLOATS, 14);
    OF_FLOATS(lbnn_int_pack_sigmas, 1, out, FLOATS, 1);
}

void prove_lbnn_int_pack_q(void)
{
    OF_MANTISSAS(lbnn_int_pack_q, -0x7fffffff - 1, out, FLOATS, 15);
    INPUT_FORMS(FLOATS, accept(&source, mean, sigma, &to));
}

void prove_lbnn_int_pack_q_var(void)
{
    OF_MANTISSAS(lbnn_int_pack_q_var, 0, out, FLOATS, 14);
}
#undef OUT_LEN

#define OUT_LEN FLOATS

void prove_lbnn_int_scale_means(void)
{
    OF_FLOATS(lbnn_int_scale_means, 0, factors, out, FLOATS);
}

void prove_lbnn_int_scale_vars(void)
{
    OF_FLOATS(lbnn_int_scale_vars, 1, factors, out, FLOATS);
}

void prove_lbnn_int_scale_q(void)
{
    OF_MANTISSAS(lbnn_int_scale_q, -0x7fffffff - 1, factors, out, FLOATS);
    INPUT_FORMS(FLOATS, lbnn_int_standardize(&source, factors, mean, sigma, &to, FLOATS, 15, 14));
}

void prove_lbnn_int_scale_q_var(void)
{
    OF_MANTISSAS(lbnn_int_scale_q_var, 0, factors, out, FLOATS);
}
#undef OUT_LEN

void prove_lbnn_int_emit(void)
{
    int32_t mean[3], var[3];
    float out[3], out_var[3];
    int16_t units[3];
    const lbnn_int_scale from = any_wide_scale();
    any_wide(mean, var, 3);
    for (int i = 0; i < 3; i++) {
        units[i] = (int16_t)between(-2048, 2048);
    }
    (void)lbnn_int_emit(mean, var, &from, between(0, 1) ? units : 0, out, out_var, 3);
    check_means(out, 3);
    check_means(out_var, 3);
}

void prove_lbnn_int_emit_q(void)
{
    int32_t mean[3], var[3], out[3], exponent[3], out_var[3], var_exponent[3];
    int16_t units[3];
    const lbnn_int_scale from = any_wide_scale();
    any_wide(mean, var, 3);
    for (int i = 0; i < 3; i++) {
        units[i] = (int16_t)between(-2048, 2048);
    }
    lbnn_int_emit_q(mean, var, &from, between(0, 1) ? units : 0, out, exponent, out_var, var_exponent, 3);
    check_words(out, 3);
    check_words(exponent, 3);
    check_words(out_var, 3);
    check_words(var_exponent, 3);
}

/* ---- layers ----------------------------------------------------------------------------------------- */

/* A layer of weights as large as its type allows, its rows, and columns up to a factor. */
#define LAYER(in, out, free_bits, with_free, factor)                                                                  \
    int8_t weight8[(out) * (((in) + 1) / 2 * 2)];                                                                     \
    int16_t weight16[(out) * (((in) + 1) / 2 * 2)];                                                                   \
    uint8_t sigmas[(out) * (((in) + 1) / 2 * 2)];                                                                     \
    uint16_t columns[((in) + 1) / 2 * 2], rows[LBNN_INT_ROW * (out)];                                                                 \
    for (int i = 0; i < (out) * (((in) + 1) / 2 * 2); i++) {                                                          \
        weight8[i] = (int8_t)between(-127, 127);                                                                      \
        weight16[i] = (int16_t)between(-2047, 2047);                                                                  \
    }                                                                                                                 \
    for (int i = 0; i < (out) * (((in) + 1) / 2 * 2); i++) {                                                          \
        sigmas[i] = (uint8_t)between(0, 255);                                                                         \
    }                                                                                                                 \
    for (int i = 0; i < ((in) + 1) / 2 * 2; i++) {                                                                    \
        columns[i] = (uint16_t)between(0, factor);                                                                     \
    }                                                                                                                 \
    any_rows(rows, out);                                                                                              \
    const lbnn_int_layer layer = {weight8, weight16, (with_free) ? sigmas : 0, (factor) ? columns : 0, rows,           \
                                  in, out, free_bits, between(-2048, 2048), between(-2048, 2048),                     \
                                  any_exponent(), any_exponent(), any_exponent()}

static void any_rows(uint16_t *rows, int n)
{
    for (int i = 0; i < n; i++, rows += LBNN_INT_ROW) {
        for (int k = 0; k < LBNN_INT_ROW; k++) {
            rows[k] = (uint16_t)between(0, 65535);
        }
        rows[0] = (uint16_t)between(0, 32767);
        rows[4] = (uint16_t)(between(0, 15) | between(0, 31) << 5 | between(0, 31) << 10 | between(0, 1) << 15);
    }
}

/* An input with so many bits, beside it the exponents. */
#define INPUT_OF(n, mean_bits, sigma_bits)                                   \
    int32_t mean[((n) + 1) / 2], sigma[((n) + 1) / 2];                       \
    const lbnn_int_scale from = any_narrow_scale();                          \
    any_narrow(mean, n, 1 - (1 << (mean_bits)), (1 << (mean_bits)) - 1);     \
    any_narrow(sigma, n, 0, 1 << (sigma_bits))

static void check_spread(const lbnn_int_spread *spread, int n)
{
    //@ check range: 0 <= spread->shared < 0x10000000;
    for (int i = 0; spread->sums && i < n; i++) {
        //@ check sums: 0 <= spread->sums[i] < 0x10000000;
    }
}

#define SHARED(n, mean_bits, sigma_bits, factor)              \
    do {                                                      \
        INPUT_OF(n, mean_bits, sigma_bits);                   \
        LAYER(n, 1, 0, 0, factor);                            \
        lbnn_int_spread spread;                               \
        lbnn_int_shared(&layer, mean, sigma, &from, &spread); \
        check_spread(&spread, 0);                             \
    } while (0)

void prove_lbnn_int_shared(void)
{
    SHARED(1, 15, 14, 29000);
    SHARED(3, 15, 14, 16000);
    SHARED(65, 15, 12, 4000);
}

void prove_lbnn_int_factored(void)
{
    SHARED(2, 15, 14, 20000);
    SHARED(7, 14, 13, 20000);
}

void prove_lbnn_int_no_spread(void)
{
    lbnn_int_spread spread;
    lbnn_int_no_spread(&spread);
    check_spread(&spread, 0);
}

#define MOMENTS(in, out, free_bits)                                 \
    do {                                                            \
        INPUT_OF(in, 15, 14);                                       \
        LAYER(in, out, free_bits, 1, 65535);                        \
        int32_t p[(in) + (out)];                                    \
        lbnn_int_spread spread;                                     \
        lbnn_int_moments(&layer, mean, sigma, &from, p, &spread);   \
        check_spread(&spread, out);                                 \
    } while (0)

void prove_lbnn_int_moments(void)
{
    MOMENTS(1, 1, 14);
    MOMENTS(3, 2, 13);
    MOMENTS(4, 5, 12);
    MOMENTS(33, 2, 11);
}

/* Sums of squares within the bound: three inputs at 14 bits, 64 at 11. */
#define LINEAR(kernel, in, out_len, mean_bits, sigma_bits, free)                        \
    do {                                                                                \
        INPUT_OF(in, mean_bits, sigma_bits);                                            \
        LAYER(in, out_len, 10, 1, 65535);                                               \
        int32_t out[out_len], var[out_len], sums[out_len];                              \
        lbnn_int_spread spread = {0, between(0, 0xfffffff), any_exponent(), free};       \
        lbnn_int_scale to;                                                              \
        for (int i = 0; i < (out_len); i++) {                                           \
            sums[i] = between(0, 0xfffffff);                                            \
        }                                                                               \
        spread.sums = (free) ? sums : 0;                                                \
        kernel(&layer, mean, sigma, &from, &spread, out, var, &to);                     \
        check_words(out, out_len);                                                      \
        for (int i = 0; i < (out_len); i++) {                                           \
            /*@ check range: 0 <= var[i] < 0x40000000; */                               \
        }                                                                               \
        check_scale(&to);                                                               \
    } while (0)

/* One row of 1 and of 63 inputs, with and without sigmas: `sums(w, mean, sigma, words, out)`. */
#define ROW(sums, in, step, mean_bits, sigma_bits, given)                                   \
    do {                                                                                    \
        INPUT_OF(in, mean_bits, sigma_bits);                                                \
        int8_t w[(step) * ((in) + 1)];                                                      \
        int32_t out;                                                                        \
        (void)from;                                                                         \
        for (int i = 0; i < (step) * ((in) + 1); i++) {                                     \
            w[i] = (int8_t)between(-127, 127);                                              \
        }                                                                                   \
        const int32_t spread = sums(w, mean, (given) ? sigma : 0, ((in) + 1) / 2, &out);    \
        /*@ check range: 0 <= spread < 0x10000000 && \initialized(&out); */                 \
    } while (0)

#define ALONE(w, mean, sigma, words, out) lbnn_int8_row(w, 1, mean, sigma, words, out)
#define OF_A_PAIR(w, mean, sigma, words, out) lbnn_int8_row((w) + 1, 2, mean, sigma, words, out)

void prove_lbnn_int8_row(void)
{
    ROW(ALONE, 1, 1, 15, 14, 1);
    ROW(ALONE, 63, 1, 15, 11, 1);
    ROW(ALONE, 3, 1, 15, 14, 0);
    ROW(OF_A_PAIR, 3, 2, 15, 14, 1);
}

void prove_lbnn_int8_half(void)
{
    ROW(lbnn_int8_half, 1, 2, 15, 14, 1);
    ROW(lbnn_int8_half, 63, 2, 15, 11, 1);
    ROW(lbnn_int8_half, 3, 2, 15, 14, 0);
}

#define FREE_SUMS(n, rows)                                                       \
    do {                                                                         \
        uint8_t u[(rows) * (((n) + 1) / 2 * 2)];                                 \
        int32_t p[((n) + 1) / 2], sums[rows];                                    \
        for (int i = 0; i < (rows) * (((n) + 1) / 2 * 2); i++) {                 \
            u[i] = (uint8_t)between(0, 255);                                     \
        }                                                                        \
        any_narrow(p, n, 0, 1 << 13);                                            \
        lbnn_int_free_sums(u, rows, ((n) + 1) / 2, 0, p, ((n) + 1) / 2, sums);   \
        for (int i = 0; i < (rows); i++) {                                       \
            /*@ check range: 0 < sums[i] < 0x10000000; */                        \
        }                                                                        \
    } while (0)

void prove_lbnn_int_free_sums(void)
{
    FREE_SUMS(1, 1);
    FREE_SUMS(3, 3);
    FREE_SUMS(2, 4);
}

void prove_lbnn_int_free_row(void)
{
    FREE_SUMS(5, 1);
    uint8_t u[8];
    int32_t p[2];
    for (int i = 0; i < 8; i++) {
        u[i] = (uint8_t)between(0, 255);
    }
    any_narrow(p, 3, 0, 1 << 13);
    const int32_t sum = lbnn_int_free_row(u + 1, 2, p, 2);
    /*@ check range: 0 < sum < 0x10000000; */
}

/* Several pixels; sums of each row of each, of each pixel, or one for all. */
#define RESULTS(n, pixels, sums_of, of_each, bits)                                                            \
    do {                                                                                                     \
        LAYER(1, n, 0, 0, 0);                                                                                \
        int32_t out[(n) * (pixels)], var[(n) * (pixels)], sums[(sums_of) + 1];                               \
        const lbnn_int_spread spread = {(sums_of) ? sums : 0, between(0, 0xfffffff), any_exponent(), of_each}; \
        const lbnn_int_scale from = any_narrow_scale();                                                      \
        lbnn_int_scale to;                                                                                   \
        for (int i = 0; i < (n) * (pixels); i++) {                                                           \
            out[i] = between(-(1 << 30), 1 << 30);                                                           \
            var[i] = between(0, 0xfffffff);                                                                  \
        }                                                                                                    \
        for (int i = 0; i < (sums_of); i++) {                                                                \
            sums[i] = between(0, 0xfffffff);                                                                 \
        }                                                                                                    \
        lbnn_int_results(&layer, &from, &spread, out, var, &to, bits, pixels);        \
        check_words(out, (n) * (pixels));                                                                    \
        for (int i = 0; i < (n) * (pixels); i++) {                                                           \
            /*@ check range: 0 <= var[i] < 0x40000000; */                                                    \
        }                                                                                                    \
        check_scale(&to);                                                                                    \
    } while (0)

void prove_lbnn_int_results(void)
{
    RESULTS(1, 1, 0, 0, 8);
    RESULTS(3, 1, 3, 1, 12);
    RESULTS(2, 3, 6, 1, 8);
    RESULTS(3, 2, 2, 0, 12);
}

void prove_lbnn_int8_linear(void)
{
    LINEAR(lbnn_int8_linear, 1, 1, 15, 14, 0);
    LINEAR(lbnn_int8_linear, 3, 2, 15, 14, 1);
    LINEAR(lbnn_int8_linear, 2, 5, 15, 14, 0);
    LINEAR(lbnn_int8_linear, 63, 3, 15, 11, 1);
}

void prove_lbnn_int16_linear(void)
{
    LINEAR(lbnn_int16_linear, 1, 1, 15, 14, 0);
    LINEAR(lbnn_int16_linear, 3, 2, 15, 13, 1);
    LINEAR(lbnn_int16_linear, 16, 3, 14, 12, 0);
}

void prove_lbnn_int_affine(void)
{
    int32_t mean[3], var[3], out[3], out_var[3];
    LAYER(3, 3, 0, 0, 0);
    const lbnn_int_scale from = any_wide_scale();
    lbnn_int_scale to;
    any_wide(mean, var, 3);
    lbnn_int_affine(&layer, mean, var, &from, out, out_var, &to);
    check_words(out, 3);
    check_words(out_var, 3);
    check_scale(&to);
}

void prove_lbnn_int_add(void)
{
    int32_t a[2], a_sigma[2], b[2], b_sigma[2], mean[3], var[3];
    const lbnn_int_scale first = any_narrow_scale(), second = any_narrow_scale();
    lbnn_int_scale to;
    any_narrow(a, 3, -32767, 32767);
    any_narrow(b, 3, -32767, 32767);
    any_narrow(a_sigma, 3, 0, 16384);
    any_narrow(b_sigma, 3, 0, 16384);
    lbnn_int_add(a, a_sigma, &first, b, between(0, 1) ? b_sigma : 0, &second, mean, var, &to, 3);
    check_words(mean, 3);
    check_words(var, 3);
    check_scale(&to);
}

void prove_lbnn_int_join_scale(void)
{
    const lbnn_int_scale first = any_narrow_scale(), second = any_narrow_scale();
    lbnn_int_scale to;
    lbnn_int_join_scale(&first, &to, 1);
    lbnn_int_join_scale(&second, &to, 0);
    check_scale(&to);
}

void prove_lbnn_int_join(void)
{
    int32_t mean[2], sigma[2], out[4] = {0, 0, 0, 0}, out_sigma[4] = {0, 0, 0, 0};
    const lbnn_int_scale from = {between(-64, 0), between(-64, 0), 0, 0}, to = {0, 0, 0, 0};
    any_narrow(mean, 4, -32767, 32767);
    any_narrow(sigma, 4, 0, 16384);
    lbnn_int_join(mean, sigma, &from, out, out_sigma, &to, 2, 2, 3, 1); /* 2 of each 3, behind the first */
    check_words(out, 3);
    check_words(out_sigma, 3);
}

/* Each exponent at which something changes, and far outside. */
#define SOFTPLUS(exponent)                                                                \
    do {                                                                                  \
        const int32_t softplus = lbnn_int_softplus(between(-0x7fffffff, 0x7fffffff), exponent, &own); \
        /*@ check range: 0 <= softplus; */                                                \
        /*@ check written: \initialized(&own); */                                         \
    } while (0)

void prove_lbnn_int_softplus(void)
{
    int32_t own;
    for (int32_t exponent = -64; exponent <= 32; exponent++) {
        SOFTPLUS(exponent);
    }
    SOFTPLUS(-EXPONENT_MOST);
    SOFTPLUS(EXPONENT_MOST);
    SOFTPLUS(LBNN_INT_NONE);
}

void prove_lbnn_int_variance_head(void)
{
    int32_t mean[4], var[4], out[2], out_var[2];
    lbnn_int_scale from = any_wide_scale(), to;
    from.mean = between(0, 1) ? -20 : 3;
    any_wide(mean, var, 4);
    lbnn_int_variance_head(mean, var, &from, out, out_var, &to, 2);
    check_words(out, 2);
    check_words(out_var, 2);
    check_scale(&to);
}

#include "integer_maps.c"
