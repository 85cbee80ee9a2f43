/* Integer kernels of feature maps; a part of integers.c. Sizes are small and of every kind: odd and even channels, windows
 * that stick out on every side, steps, groups, values that are known. Memory is exactly what the generator gives. */

#define WORDS(n) (((n) + 1) / 2)

static void zero_words(int32_t *x, int n)
{
    for (int i = 0; i < n; i++) {
        x[i] = 0;
    }
}

/* What a layer takes: mantissas of 15 and 14 bits and a sign. */
static void any_map(int32_t *mean, int32_t *sigma, int n)
{
    any_narrow(mean, n, -32767, 32767);
    any_narrow(sigma, n, 0, 16384);
}

static int32_t any_exponents(void)
{
    return lbnn_int_word(between(-32768, 32767), between(-32768, 32767));
}

/* Sizes of `n` mantissas that were written, and exponents. */
static void check_map(const int32_t *mean, const int32_t *sigma, const lbnn_int_scale *scale, int n)
{
    check_words(mean, WORDS(n));
    check_words(sigma, WORDS(n));
    check_scale(scale);
    for (int i = 0; i < n; i++) {
        const int32_t s = lbnn_int_at(sigma, i);
        //@ check range: 0 <= s <= 16384 + 128;
    }
}

/* Any exponents at once, where following none and some apart would take too many paths. */
static lbnn_int_scale joined_scale(void)
{
    const lbnn_int_scale scale = {between(LBNN_INT_NONE, EXPONENT_MOST), between(LBNN_INT_NONE, EXPONENT_MOST), 0, 0};
    return scale;
}

/* ---- exponents of pixels ---------------------------------------------------------------------------- */

#define LEVEL(count, length, n)                                          \
    do {                                                                 \
        int32_t mean[WORDS(n)], sigma[WORDS(n)], exponents[count];       \
        lbnn_int_scale to;                                               \
        any_map(mean, sigma, n);                                         \
        for (int i = 0; i < (count); i++) {                              \
            exponents[i] = any_exponents();                              \
        }                                                                \
        lbnn_int_level(mean, sigma, exponents, &to, count, length, n);   \
        check_map(mean, sigma, &to, n);                                  \
    } while (0)

void prove_lbnn_int_level(void)
{
    LEVEL(1, 1, 1);
    LEVEL(3, 3, 9);
    LEVEL(2, 4, 8);
    LEVEL(2, LBNN_INT_CHUNK, LBNN_INT_CHUNK + 1); /* the last one is not whole */
}

/* The second pixel of two. */
#define SETTLE(n, at, mean_bits, sigma_bits, given)                                                            \
    do {                                                                                                       \
        int32_t mean[n], var[n], out[WORDS((at) + (n))], sigma[WORDS((at) + (n))];                             \
        uint16_t table[197];                                                                                   \
        const lbnn_int_scale from = any_wide_scale();                                                          \
        any_wide(mean, var, n);                                                                                \
        any_table(table);                                                                                      \
        zero_words(out, WORDS((at) + (n)));                                                                    \
        zero_words(sigma, WORDS((at) + (n)));                                                                  \
        (void)lbnn_int_settle(mean, var, &from, out, sigma, at, n, mean_bits, sigma_bits, (given) ? table : 0); \
        check_map(out, sigma, &from, (at) + (n));                                                              \
    } while (0)

void prove_lbnn_int_settle(void)
{
    SETTLE(1, 1, 15, 14, 1);
    SETTLE(2, 2, 15, 14, 0);
    SETTLE(3, 3, 4, 1, 1);
    SETTLE(2, 3, 15, 14, 1);
    SETTLE(3, 0, 15, 14, 0);
}

/* ---- there and back ------------------------------------------------------------------------------------ */

/* `count` factors, or none; floats, or mantissas with any exponent. */
#define READ(kernel, variances, channels, pixels, count, bits)                                               \
    do {                                                                                                     \
        float x[(channels) * (pixels)], factors[2 * (count) + 1];                                            \
        int32_t q[(channels) * (pixels)], out[WORDS((channels) * (pixels))];                                 \
        finite_floats(x, (channels) * (pixels), variances);                                                  \
        finite_floats(factors, 2 * (count) + 1, 0);                                                          \
        any_mantissas(q, (channels) * (pixels), (variances) ? 0 : -0x7fffffff - 1);                          \
        const int run = (count) ? (channels) * (pixels) / ((count) + !(count)) : 1;                          \
        const lbnn_int_reader floats = {x, 0, 0, (count) ? factors : 0, count, run};                         \
        const lbnn_int_reader wholes = {0, q, between(-0x7fffffff - 1, 0x7fffffff), (count) ? factors : 0, count, run}; \
        const int32_t exponent = kernel(between(0, 1) ? &floats : &wholes, out, channels, pixels, bits);     \
        /*@ check exponent: exponent == LBNN_INT_NONE || -1024 <= exponent <= 1024; */                       \
        check_words(out, WORDS((channels) * (pixels)));                                                      \
    } while (0)

void prove_lbnn_int_map_means(void)
{
    READ(lbnn_int_map_means, 0, 1, 1, 0, 15);
    READ(lbnn_int_map_means, 0, 3, 3, 3, 15);
    READ(lbnn_int_map_means, 0, 2, 3, 1, 4);
    INPUT_FORMS(2, lbnn_int_pack_map(&source, factors, 2, mean, sigma, &to, 2, 1, 15, 14));
    INPUT_FORMS(3, lbnn_int_pack_map(&source, 0, 1, mean, sigma, &to, 1, 3, 15, 14));
}

void prove_lbnn_int_map_sigmas(void)
{
    READ(lbnn_int_map_sigmas, 1, 1, 1, 0, 14);
    READ(lbnn_int_map_sigmas, 1, 3, 3, 3, 14);
    READ(lbnn_int_map_sigmas, 1, 2, 3, 1, 1);
}

#define UNFOLD(channels, pixels)                                                                             \
    do {                                                                                                     \
        int32_t e[WORDS((channels) * (pixels))], sigma[WORDS((channels) * (pixels))];                        \
        int32_t mean[(channels) * (pixels)], var[(channels) * (pixels)];                                     \
        const lbnn_int_scale from = any_narrow_scale();                                                      \
        lbnn_int_scale to;                                                                                   \
        any_map(e, sigma, (channels) * (pixels));                                                            \
        lbnn_int_unfold(e, sigma, &from, mean, var, &to, channels, pixels);                                  \
        check_words(mean, (channels) * (pixels));                                                            \
        check_words(var, (channels) * (pixels));                                                             \
        check_scale(&to);                                                                                    \
    } while (0)

void prove_lbnn_int_unfold(void)
{
    UNFOLD(1, 1);
    UNFOLD(3, 3);
    UNFOLD(2, 5);
}

/* ---- operators on each element --------------------------------------------------------------------------- */

#define CHUNKS(n) (((n) + LBNN_INT_CHUNK - 1) / LBNN_INT_CHUNK)

/* In place, and not. */
#define LEAKY(n, mean_bits, sigma_bits, in_place)                                                            \
    do {                                                                                                     \
        int32_t mean[WORDS(n)], sigma[WORDS(n)], out[WORDS(n)], out_sigma[WORDS(n)];                         \
        int32_t work[2 * LBNN_INT_CHUNK + CHUNKS(n)];                                                        \
        uint16_t table[197];                                                                                 \
        const lbnn_int_scale from = any_narrow_scale();                                                      \
        lbnn_int_scale to;                                                                                   \
        any_map(mean, sigma, n);                                                                             \
        any_table(table);                                                                                    \
        int32_t *const e = (in_place) ? mean : out, *const s = (in_place) ? sigma : out_sigma;               \
        lbnn_int_map_leaky(mean, sigma, &from, e, s, &to, n, mean_bits, sigma_bits, table, work);            \
        check_map(e, s, &to, n);                                                                             \
    } while (0)

void prove_lbnn_int_map_leaky(void)
{
    LEAKY(1, 15, 14, 0);
    LEAKY(LBNN_INT_CHUNK + 1, 15, 14, 1);
    LEAKY(LBNN_INT_CHUNK, 4, 1, 0);
}

#define MAP_ADD(n, mean_bits, sigma_bits, first_known, second_known)                                         \
    do {                                                                                                     \
        int32_t a[WORDS(n)], a_sigma[WORDS(n)], b[WORDS(n)], b_sigma[WORDS(n)];                              \
        int32_t work[2 * LBNN_INT_CHUNK + CHUNKS(n)];                                                        \
        const lbnn_int_scale first = joined_scale(), second = joined_scale();                                \
        lbnn_int_scale to;                                                                                   \
        any_map(a, a_sigma, n);                                                                              \
        any_map(b, b_sigma, n);                                                                              \
        lbnn_int_map_add(a, (first_known) ? 0 : a_sigma, &first, b, (second_known) ? 0 : b_sigma, &second, b, b_sigma, \
                         &to, n, mean_bits, sigma_bits, work);                                               \
        check_map(b, b_sigma, &to, n);                                                                       \
    } while (0)

void prove_lbnn_int_map_add(void)
{
    MAP_ADD(1, 15, 14, 0, 0);
    MAP_ADD(LBNN_INT_CHUNK + 1, 15, 14, 0, 1);
    MAP_ADD(LBNN_INT_CHUNK, 4, 1, 1, 0);
}

#define MAP_AFFINE(channels, pixels, mean_bits, sigma_bits)                                                  \
    do {                                                                                                     \
        int32_t mean[WORDS((channels) * (pixels))], sigma[WORDS((channels) * (pixels))];                     \
        int32_t work[2 * (channels) + (pixels)];                                                             \
        LAYER(channels, channels, 0, 0, 0);                                                                  \
        const lbnn_int_scale from = any_narrow_scale();                                                      \
        lbnn_int_scale to;                                                                                   \
        any_map(mean, sigma, (channels) * (pixels));                                                         \
        lbnn_int_map_affine(&layer, mean, sigma, &from, mean, sigma, &to, pixels, mean_bits, sigma_bits, work); \
        check_map(mean, sigma, &to, (channels) * (pixels));                                                  \
    } while (0)

void prove_lbnn_int_map_affine(void)
{
    MAP_AFFINE(1, 1, 15, 14);
    MAP_AFFINE(3, 3, 15, 14);
    MAP_AFFINE(2, 3, 4, 1);
}

/* ---- pools --------------------------------------------------------------------------------------------- */

/* A window of so many rows and columns, all of whose pixels stand at one place. */
#define POOL_WINDOW(rows, columns, channels, correlated)                                                     \
    do {                                                                                                     \
        int32_t mean[WORDS(channels)], sigma[WORDS(channels)], out[channels], var[channels];                 \
        const lbnn_int_scale from = any_narrow_scale();                                                      \
        lbnn_int_scale to;                                                                                   \
        any_map(mean, sigma, channels);                                                                      \
        const int32_t room = lbnn_int_bits((rows) * (columns) - 1u);                                         \
        const lbnn_int_taps taps = {mean, sigma, &from, 0, rows, columns, 0, 0, room, correlated};           \
        lbnn_int_pool_window(&taps, between(0, 65535), between(0, room), channels, out, var, &to);           \
        check_words(out, channels);                                                                          \
        check_scale(&to);                                                                                    \
        for (int i = 0; i < (channels); i++) {                                                               \
            /*@ check range: 0 <= var[i] < 0x40000000; */                                                    \
        }                                                                                                    \
    } while (0)

void prove_lbnn_int_pool_window(void)
{
    POOL_WINDOW(1, 1, 1, 0);
    POOL_WINDOW(1, 1, 1, 1);
    POOL_WINDOW(1, 4, 3, 0);
    POOL_WINDOW(3, 3, 2, 1);
    POOL_WINDOW(16, 8, 1, 0);
    POOL_WINDOW(32, 32, 1, 0);
    POOL_WINDOW(32, 32, 1, 1);
}

/* Windows of 2 by 3 that begin `top` above and `left` of the map. */
#define POOL(channels, rows, columns, out_rows, out_columns, down, across, above, before, counts, correlated) \
    do {                                                                                                     \
        int32_t mean[WORDS((channels) * (rows) * (columns))], sigma[WORDS((channels) * (rows) * (columns))];  \
        int32_t out[WORDS((channels) * (out_rows) * (out_columns))];                                         \
        int32_t out_sigma[WORDS((channels) * (out_rows) * (out_columns))];                                   \
        int32_t work[2 * (channels) + (out_rows) * (out_columns)];                                           \
        uint16_t inverse[2 * 3];                                                                             \
        const lbnn_int_scale from = any_narrow_scale();                                                      \
        lbnn_int_scale to;                                                                                   \
        any_map(mean, sigma, (channels) * (rows) * (columns));                                               \
        zero_words(out, WORDS((channels) * (out_rows) * (out_columns)));                                     \
        zero_words(out_sigma, WORDS((channels) * (out_rows) * (out_columns)));                               \
        for (int i = 0; i < 2 * 3; i++) {                                                                    \
            inverse[i] = (uint16_t)between(0, 65535);                                                        \
        }                                                                                                    \
        const lbnn_int_pool_shape shape = {inverse, channels, rows, columns, out_rows, out_columns, 2, 3, down, across, \
                                           above, before, counts, correlated, 15, 14};                       \
        lbnn_int_pool(&shape, mean, sigma, &from, out, out_sigma, &to, work);                                \
        check_map(out, out_sigma, &to, (channels) * (out_rows) * (out_columns));                             \
    } while (0)

void prove_lbnn_int_pool(void)
{
    POOL(1, 2, 3, 1, 1, 2, 3, 0, 0, 0, 0);
    POOL(3, 3, 4, 2, 3, 2, 2, 1, 1, 0, 0); /* padded on all sides, what is outside not counted */
    POOL(2, 3, 4, 2, 3, 2, 2, 1, 1, 1, 1); /* and counted */
    POOL(3, 3, 4, 2, 2, 2, 3, 0, 0, 0, 1); /* the last windows stick out, and are counted as they are */
}

/* Variances of mantissas of 14 bits, or nothing; means of 15 bits and finer ones, to which each of 32 rounds adds. */
#define FINEST (1 << (15 + LBNN_INT_FINER))
#define ROUND (1 << 24)

static lbnn_int_rival any_rival(int32_t least, int32_t most)
{
    const lbnn_int_rival rival = {between(-FINEST, FINEST + 31 * ROUND), between(least, most)};
    return rival;
}

static void match_box(int32_t least, int32_t most, int32_t other_least, int32_t other_most, int32_t ahead)
{
    const lbnn_int_rival won = lbnn_int_match(any_rival(least, most), any_rival(other_least, other_most), ahead);
    //@ check mean: -FINEST <= won.mean <= FINEST + 32 * ROUND;
    //@ check var: (least < 0 && other_least < 0) || 0 <= won.var;
    //@ check most: won.var <= 1 << 28;
}

/* Two values, one that has no variance, one that is nothing, or both; any distance of exponents. */
void prove_lbnn_int_match(void)
{
    const int32_t far = 2 * EXPONENT_MOST - LBNN_INT_NONE, most = 1 << 28;
    for (int32_t ahead = 0; ahead <= 32; ahead++) {
        match_box(0, most, 0, most, ahead);
    }
    match_box(0, most, 0, most, between(33, far));
    match_box(0, 0, 0, 0, between(0, far));
    match_box(0, most, -1, -1, between(0, far));
    match_box(-1, -1, 0, most, between(0, far));
    match_box(-1, -1, -1, -1, between(0, far));
}

/* The exponent of means beside one of sigmas that is known: of no two variables EVA keeps which is the larger. */
#define MAX_POOL_AT(exponent, channels, rows, columns, out_rows, out_columns, kh, kw, sh, sw, above, before, dh, dw, in_place) \
    do {                                                                                                     \
        int32_t mean[WORDS((channels) * (rows) * (columns))], sigma[WORDS((channels) * (rows) * (columns))];  \
        int32_t beside[WORDS((channels) * (out_rows) * (out_columns))];                                      \
        int32_t beside_sigma[WORDS((channels) * (out_rows) * (out_columns))];                                \
        int32_t work[2 * (channels) + (kh) * (kw) + (out_rows) * (out_columns)];                             \
        const lbnn_int_scale from = {between(0, 1) ? between(exponent, EXPONENT_MOST) : between(LBNN_INT_NONE, exponent), \
                                     exponent, 0, 0};                                                        \
        lbnn_int_scale to;                                                                                   \
        any_map(mean, sigma, (channels) * (rows) * (columns));                                               \
        zero_words(beside, WORDS((channels) * (out_rows) * (out_columns)));                                  \
        zero_words(beside_sigma, WORDS((channels) * (out_rows) * (out_columns)));                            \
        int32_t *const out = (in_place) ? mean : beside, *const out_sigma = (in_place) ? sigma : beside_sigma; \
        const lbnn_int_max_shape shape = {channels, rows, columns, out_rows, out_columns, kh, kw, sh, sw, above, before, \
                                          dh, dw, 15, 14};                                                   \
        lbnn_int_max_pool(&shape, mean, sigma, &from, out, out_sigma, &to, work);                            \
        check_map(out, out_sigma, &to, (channels) * (out_rows) * (out_columns));                             \
    } while (0)

#define MAX_POOL(...)                                                                                \
    do {                                                                                             \
        MAX_POOL_AT(LBNN_INT_NONE, __VA_ARGS__);                                                     \
        MAX_POOL_AT(-EXPONENT_MOST, __VA_ARGS__);                                                    \
        MAX_POOL_AT(0, __VA_ARGS__);                                                                 \
        MAX_POOL_AT(EXPONENT_MOST, __VA_ARGS__);                                                     \
    } while (0)

void prove_lbnn_int_max_pool(void)
{
    MAX_POOL(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0);
    MAX_POOL(2, 4, 4, 2, 2, 2, 2, 2, 2, 0, 0, 1, 1, 1);
    MAX_POOL(3, 3, 4, 2, 3, 3, 2, 2, 2, 1, 1, 1, 1, 0); /* padded on all sides, an odd number of rivals */
    MAX_POOL(2, 5, 3, 2, 3, 2, 3, 2, 1, 0, 1, 2, 1, 0); /* windows with gaps */
    MAX_POOL(1, 4, 1, 1, 1, 2, 1, 1, 1, 1, 0, 5, 1, 0); /* a window all of whose taps are outside */
    MAX_POOL(1, 1, 9, 1, 1, 1, 9, 1, 1, 0, 0, 1, 1, 1);
}

/* ---- upsampling ---------------------------------------------------------------------------------------- */

#define UPSAMPLE(channels, height, width, rows, columns)                                                     \
    do {                                                                                                     \
        enum { IN = (channels) * (height) * (width), OUT = IN * (rows) * (columns) };                        \
        int32_t mean[WORDS(IN)], sigma[WORDS(IN)], out[WORDS(OUT)], out_sigma[WORDS(OUT)];                   \
        const lbnn_int_scale from = any_narrow_scale();                                                      \
        lbnn_int_scale to;                                                                                   \
        any_map(mean, sigma, IN);                                                                            \
        lbnn_int_upsample(mean, sigma, &from, out, out_sigma, &to, channels, height, width, rows, columns);  \
        check_map(out, out_sigma, &to, OUT);                                                                 \
    } while (0)

void prove_lbnn_int_upsample(void)
{
    UPSAMPLE(1, 1, 1, 1, 1);
    UPSAMPLE(3, 1, 3, 1, 3);
    UPSAMPLE(2, 3, 2, 2, 1);
    UPSAMPLE(1, 3, 3, 3, 2);
}

#define PAD(channels, height, width, top, left, below, right)                                                \
    do {                                                                                                     \
        enum { ROWS = (height) + (top) + (below), COLUMNS = (width) + (left) + (right) };                    \
        enum { IN = (channels) * (height) * (width), OUT = (channels) * ROWS * COLUMNS };                    \
        int32_t mean[WORDS(IN)], sigma[WORDS(IN)], out[WORDS(OUT)], out_sigma[WORDS(OUT)];                   \
        const lbnn_int_scale from = any_narrow_scale();                                                      \
        lbnn_int_scale to;                                                                                   \
        any_map(mean, sigma, IN);                                                                            \
        lbnn_int_pad(mean, sigma, &from, out, out_sigma, &to, channels, height, width, top, left, ROWS, COLUMNS); \
        check_map(out, out_sigma, &to, OUT);                                                                 \
    } while (0)

void prove_lbnn_int_pad(void)
{
    PAD(1, 1, 1, 0, 0, 0, 0);
    PAD(3, 1, 2, 1, 0, 0, 2);
    PAD(2, 2, 3, 0, 2, 1, 1);
}

void prove_lbnn_int_known(void)
{
    int32_t sigma[3];
    const lbnn_int_scale from = any_narrow_scale();
    lbnn_int_scale to;
    lbnn_int_known(&from, sigma, &to, 3);
    check_words(sigma, 3);
}

/* ---- convolutions ---------------------------------------------------------------------------------------- */

/* A window of a map, or of a linear layer: so many inputs, and bits that keep sums inside: of means, sigmas and roots,
 * and the largest factor of variances. */
#define BITS_OF(in) ((in) <= 4 ? 14 : (in) <= 16 ? 13 : 12)
#define MEAN_BITS_OF(in) ((in) <= 16 ? 15 : 14)
#define FREE_BITS_OF(in) ((in) <= 4 ? 13 : (in) <= 16 ? 12 : 11)
#define FACTOR_OF(in) ((in) <= 1 ? 29000 : (in) <= 4 ? 14000 : (in) <= 16 ? 7500 : 10000)

enum { KNOWN, FACTORS, FREE };

static const lbnn_int_spread no_spread = {0, 0, LBNN_INT_NONE, 0};

/* channels, height, width; result; outputs; kernel; stride; start; dilation; groups; pool; then the form of variances,
 * whether there are sigmas, and an activation. */
#define CONV(kernel, channels, rows_, columns_, out_rows, out_columns, outputs, kh, kw, sh, sw, top, left, dh, dw, groups, \
             ph, pw, correlated, form, random, active)                                                       \
    do {                                                                                                     \
        enum { N = (channels) * (rows_) * (columns_), IN = (channels) / (groups) * (kh) * (kw), TAPS = (ph) * (pw), \
               PIXELS = (out_rows) * (out_columns), OUT = (outputs) * PIXELS,                                \
               EACH = (form) == FREE || (groups) > 1 ? (outputs) : 1 };                                      \
        int8_t weight8[(outputs) * WORDS(IN) * 2];                                                           \
        int16_t weight16[(outputs) * WORDS(IN) * 2];                                                         \
        uint8_t sigmas[(outputs) * WORDS(IN) * 2];                                                           \
        uint16_t factors[(form) == FREE ? (channels) : (groups) * WORDS(IN) * 2], stored[LBNN_INT_ROW * (outputs)]; \
        uint16_t table[197];                                                                                 \
        int32_t mean[WORDS(N)], sigma[WORDS(N)], roots[WORDS(N)], out[WORDS(OUT)], out_sigma[WORDS(OUT)];    \
        int32_t work[2 * TAPS * (outputs) + 2 * WORDS(IN) + PIXELS + TAPS * EACH];                           \
        for (int i = 0; i < (outputs) * WORDS(IN) * 2; i++) {                                                \
            weight8[i] = (int8_t)between(-127, 127);                                                         \
            weight16[i] = (int16_t)between(-2047, 2047);                                                     \
        }                                                                                                    \
        for (int i = 0; i < (outputs) * WORDS(IN) * 2; i++) {                                                \
            sigmas[i] = (uint8_t)between(0, 255);                                                            \
        }                                                                                                    \
        for (int i = 0; i < ((form) == FREE ? (channels) : (groups) * WORDS(IN) * 2); i++) {                 \
            factors[i] = (uint16_t)between(0, (form) == FREE ? 65535 : FACTOR_OF(IN));                       \
        }                                                                                                    \
        any_rows(stored, outputs);                                                                           \
        any_table(table);                                                                                    \
        any_narrow(mean, N, 1 - (1 << MEAN_BITS_OF(IN)), (1 << MEAN_BITS_OF(IN)) - 1);                       \
        any_narrow(sigma, N, 0, 1 << BITS_OF(IN));                                                           \
        zero_words(out, WORDS(OUT));                                                                         \
        zero_words(out_sigma, WORDS(OUT));                                                                   \
        const lbnn_int_layer layer = {weight8, weight16, (form) == FREE ? sigmas : 0, (form) == KNOWN ? 0 : factors, stored, \
                                      IN, outputs, FREE_BITS_OF(IN), between(-2048, 2048), between(-2048, 2048), \
                                      (form) == KNOWN ? LBNN_INT_NONE : between(-2048, 2048), any_exponent(), \
                                      any_exponent()};                                                       \
        const lbnn_int_conv_shape shape = CONV_SHAPE((active) ? table : 0, channels, rows_, columns_, out_rows, out_columns, \
                                                     kh, kw, sh, sw, top, left, dh, dw, groups, outputs, ph, pw, correlated); \
        const lbnn_int_scale from = {between(-EXPONENT_MOST, EXPONENT_MOST),                                 \
                                     (random) ? between(-EXPONENT_MOST, EXPONENT_MOST) : LBNN_INT_NONE, 0, 0}; \
        lbnn_int_spread spread = no_spread;                                                                  \
        lbnn_int_scale to;                                                                                   \
        if ((form) == FREE) {                                                                                \
            lbnn_int_roots_map(&layer, &shape, mean, sigma, &from, roots, &spread);                          \
            check_words(roots, WORDS(N));                                                                    \
            if (spread.exponent == LBNN_INT_NONE) { /* followed apart from here on */                        \
                spread.shared = 0;                                                                           \
            }                                                                                                \
        }                                                                                                    \
        kernel(&layer, &shape, mean, sigma, &from, &spread, out, out_sigma, &to, work);                      \
        check_map(out, out_sigma, &to, OUT);                                                                 \
    } while (0)

#define CONV_SHAPE(table, channels, height, width, out_height, out_width, kh, kw, sh, sw, top, left, dh, dw, groups, outputs, \
                   ph, pw, correlated)                                                                       \
    {table, channels, height, width, out_height, out_width, kh, kw, sh, sw, top, left, dh, dw, groups,       \
     (channels) / (groups), (outputs) / (groups), ph, pw, between(0, 65535), correlated, 15, 14}

/* Every kind of window: one pixel; odd channels, padding on all sides and steps; groups; dilation; nothing of the map at
 * all; an activation, and pools of both kinds behind it. */
#define CONVS(kernel)                                                                                \
    do {                                                                                             \
        CONV(kernel, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, FACTORS, 1, 0);           \
        CONV(kernel, 3, 2, 3, 2, 2, 3, 3, 2, 1, 2, 1, 1, 1, 1, 1, 1, 1, 0, FACTORS, 1, 1);           \
        CONV(kernel, 2, 3, 2, 3, 2, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, FREE, 0, 0);              \
        CONV(kernel, 4, 3, 3, 1, 1, 4, 2, 2, 1, 1, 0, 0, 2, 2, 2, 1, 1, 0, FACTORS, 1, 0);           \
        CONV(kernel, 3, 2, 2, 2, 2, 3, 1, 1, 1, 1, 0, 0, 1, 1, 3, 1, 1, 0, FREE, 1, 1);              \
        CONV(kernel, 2, 1, 1, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, FREE, 1, 0);              \
        CONV(kernel, 1, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, FACTORS, 1, 0);           \
        CONV(kernel, 2, 1, 1, 5, 5, 2, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 0, FACTORS, 1, 0);           \
        CONV(kernel, 1, 1, 2, 5, 6, 2, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 0, FREE, 1, 0);              \
        CONV(kernel, 2, 4, 4, 2, 1, 3, 2, 1, 1, 1, 1, 0, 1, 1, 1, 2, 2, 0, KNOWN, 1, 1);             \
        CONV(kernel, 2, 2, 4, 1, 2, 2, 1, 1, 1, 1, 0, 0, 1, 1, 2, 2, 2, 1, FACTORS, 0, 1);           \
    } while (0)

/* The parts of convolutions, in one that has all of each. */
void prove_lbnn_int_roots_map(void)
{
    CONV(lbnn_int8_conv, 3, 1, 3, 1, 3, 2, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, FREE, 1, 0);
    CONV(lbnn_int8_conv, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, FREE, 0, 0);
}

void prove_lbnn_int_roots_of(void)
{
    CONV(lbnn_int8_conv, 3, 2, 1, 2, 1, 2, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, FREE, 1, 0);
}

void prove_lbnn_int_window(void)
{
    CONV(lbnn_int8_conv, 2, 3, 3, 5, 5, 2, 3, 3, 1, 1, 2, 2, 1, 1, 1, 1, 1, 0, KNOWN, 1, 0);
    CONV(lbnn_int8_conv, 3, 3, 3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 2, 2, 1, 1, 1, 0, KNOWN, 1, 0);
}

void prove_lbnn_int8_sums(void)
{
    CONV(lbnn_int8_conv, 2, 2, 2, 2, 2, 5, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, KNOWN, 1, 0);
    CONV(lbnn_int8_conv, 4, 2, 2, 2, 2, 4, 2, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 0, KNOWN, 0, 0);
}

void prove_lbnn_int16_sums(void)
{
    CONV(lbnn_int16_conv, 2, 2, 2, 2, 2, 5, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, KNOWN, 1, 0);
    CONV(lbnn_int16_conv, 4, 2, 2, 2, 2, 4, 2, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 0, KNOWN, 0, 0);
}

void prove_lbnn_int8_conv(void)
{
    CONVS(lbnn_int8_conv);
}

void prove_lbnn_int16_conv(void)
{
    CONVS(lbnn_int16_conv);
}
