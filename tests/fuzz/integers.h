/* Integer kernels: mantissas as check_bounds of lbnn/graph/ints/quantise.py lets them be, against float64. Of what they
 * lose there is a bound: means in sigmas of what comes in, variances never much smaller than they are. */
#include <math.h>

static int32_t *int_block(fuzz *f, int n)
{
    return (int32_t *)(void *)fuzz_output(f, n);
}

/* Words to be filled with smaller numbers, and then kept: what these leave of the last one is zero. */
static void *words_of(fuzz *f, int bytes)
{
    const int n = (bytes + 3) / 4;
    int32_t *words = (int32_t *)(void *)fuzz_block(f, n);
    words[n - 1] = 0;
    return words;
}

/* A whole number of any size within the limits, the limits themselves often. */
static int32_t any_int(fuzz *f, int32_t least, int32_t most)
{
    const int style = fuzz_size(f, 0, 7);
    if (style < 2) {
        return style ? most : least;
    }
    int64_t x = 0;
    for (int i = 0; i < 4; i++) {
        x = x << 8 | fuzz_size(f, 0, 255);
    }
    x >>= style < 5 ? 0 : fuzz_size(f, 0, 31);
    return (int32_t)(least + x % ((int64_t)most - least + 1));
}

static int32_t *narrow_block(fuzz *f, int n, int32_t least, int32_t most)
{
    int32_t *words = int_block(f, (n + 1) / 2);
    memset(words, 0, (size_t)((n + 1) / 2) * sizeof *words);
    for (int i = 0; i < n; i++) {
        lbnn_int_set(words, i, any_int(f, least, most));
    }
    return words;
}

static int32_t any_exponent(fuzz *f)
{
    return fuzz_size(f, 0, 9) ? fuzz_size(f, 0, 200) - 100 : LBNN_INT_NONE;
}

/* ---- layers ------------------------------------------------------------------------------------ */

typedef struct {
    lbnn_int_layer layer;
    int mean_bits, sigma_bits, bits;
} int_layer;

static const uint16_t *any_rows(fuzz *f, int n)
{
    uint16_t *rows = (uint16_t *)words_of(f, 2 * LBNN_INT_ROW * n);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < LBNN_INT_ROW; k++) {
            rows[LBNN_INT_ROW * i + k] = (uint16_t)any_int(f, 0, 65535);
        }
        rows[LBNN_INT_ROW * i] = (uint16_t)any_int(f, 0, 32767);
        const int shifts = fuzz_size(f, 0, 15) | fuzz_size(f, 0, 31) << 5 | fuzz_size(f, 0, 31) << 10;
        rows[LBNN_INT_ROW * i + 4] = (uint16_t)(shifts | fuzz_size(f, 0, 1) << 15);
    }
    return (const uint16_t *)(const void *)fuzz_keep(f, (float *)(void *)rows);
}

/* The most bits that weights as large as they may be leave to n inputs. */
static int most_bits(int n, int weight, int shift, int most)
{
    for (; most > 1; most--) {
        const int64_t each = ((int64_t)weight << most >> shift) + 1;
        if (n * each * each < 1 << 28) {
            break;
        }
    }
    return most;
}

/* The largest factor of variances that keeps sums of squares of n inputs of 15 and 14 bits inside. */
static int most_factor(int n)
{
    int most = 32767;
    for (; (int64_t)n * (most + 1) * (most + 1) / 4 * 5 / 4 + n + 2 >= 1 << 28; most = most / 2) {
    }
    return most;
}

static int_layer any_layer(fuzz *f, int bits, int free)
{
    const int in = fuzz_size(f, 1, 40), out = fuzz_size(f, 1, 9), even = (in + 1) & ~1;
    const int weight = bits == 8 ? 127 : 2047;
    int_layer made = {{0, 0, 0, 0, 0, in, out, most_bits(in, 255, 8, 14), any_int(f, -40, 40), any_int(f, -60, 60),
                       any_int(f, -60, 60), any_exponent(f), any_exponent(f)},
                      15, most_bits(in, weight, bits, 14), bits};
    while ((int64_t)in * weight << made.mean_bits > 1 << 30) {
        made.mean_bits--;
    }
    const int bytes = out * even * (bits == 8 ? 1 : 2);
    int8_t *w = (int8_t *)words_of(f, bytes);
    for (int i = 0; i < out * even; i++) {
        if (bits == 8) {
            w[i] = (int8_t)any_int(f, -127, 127);
        } else {
            const int16_t x = (int16_t)any_int(f, -2047, 2047);
            memcpy(w + 2 * i, &x, sizeof x);
        }
    }
    w = (int8_t *)(void *)fuzz_keep(f, (float *)(void *)w);
    made.layer.weight8 = bits == 8 ? w : 0;
    made.layer.weight16 = bits == 8 ? 0 : (const int16_t *)(const void *)w;
    made.layer.rows = any_rows(f, out);
    if (free || fuzz_size(f, 0, 1)) {
        const int most = free ? 65535 : most_factor(in);
        uint16_t *columns = (uint16_t *)words_of(f, 2 * even);
        for (int i = 0; i < even; i++) {
            columns[i] = (uint16_t)(i < in ? any_int(f, 0, most) : 0);
        }
        made.layer.columns = (const uint16_t *)(const void *)fuzz_keep(f, (float *)(void *)columns);
    }
    if (free) {
        uint8_t *sigmas = (uint8_t *)words_of(f, even * out);
        for (int i = 0; i < even * out; i++) {
            sigmas[i] = (uint8_t)any_int(f, 0, 255);
        }
        made.layer.free = (const uint8_t *)(const void *)fuzz_keep(f, (float *)(void *)sigmas);
    }
    return made;
}

/* Where the weight of a row and an input stands: in pairs of rows. */
static int place_of(const int_layer *l, int row, int i)
{
    const int even = (l->layer.in_len + 1) & ~1, alone = row == l->layer.out_len - 1 && row % 2 == 0;
    return alone ? row * even + i : (row & ~1) * even + 2 * i + (row & 1);
}

static double weight_at(const int_layer *l, int row, int i)
{
    const int even = (l->layer.in_len + 1) & ~1;
    return l->bits == 12 ? l->layer.weight16[row * even + i] : l->layer.weight8[place_of(l, row, i)];
}

/* E' = m sum(e w) + b and V' = m^2 sum(s^2 w^2) + a B + c in float64; the kernel's sums stand in its results' places. */
static void check_linear(const int_layer *l, const int32_t *e, const int32_t *s, const lbnn_int_scale *from,
                         const lbnn_int_spread *spread, const int32_t *mean, const int32_t *var,
                         const lbnn_int_scale *to)
{
    for (int n = 0; n < l->layer.out_len; n++) {
        const uint16_t *row = l->layer.rows + LBNN_INT_ROW * n;
        double sum = 0.0, square = 0.0;
        for (int i = 0; i < l->layer.in_len; i++) {
            const double w = weight_at(l, n, i), x = lbnn_int_at(s, i) * w;
            sum += lbnn_int_at(e, i) * w;
            square += x * x;
        }
        const int km = row[4] & 31, ka = row[4] >> 5 & 31, kc = row[4] >> 10 & 31;
        const int32_t bias = (int32_t)((uint32_t)row[5] | (uint32_t)row[6] << 16);
        const double shared = spread->sums ? spread->sums[n] : spread->shared;
        const double known = from->var == LBNN_INT_NONE ? 0.0 : 1.0;
        double want = ldexp(sum * row[0], from->mean + l->layer.scale_exponent - 15 - km - to->mean);
        want += ldexp(bias, l->layer.bias_exponent - 2 - (bias & 31) - to->mean);
        double least = known * ldexp(square * row[1], 2 * (from->var + l->layer.scale_exponent - km) - 16 - to->var);
        least += spread->exponent == LBNN_INT_NONE ? 0.0 : ldexp(shared * row[2], spread->exponent + l->layer.spread_exponent - 16 - ka - to->var);
        least += l->layer.noise_exponent == LBNN_INT_NONE ? 0.0 : ldexp(row[3], l->layer.noise_exponent + 12 - kc - to->var);
        fuzz_expect(fabs(mean[n] - want) <= 4.0, "a mean is not what float64 gives");
        fuzz_expect(var[n] >= 0 && var[n] < 1 << 30, "a variance leaves its bits");
        fuzz_expect(least <= 0.0 || var[n] > 0, "a variance becomes zero");
        fuzz_expect(lbnn_int_size(mean[n]) <= to->largest && (var[n] & ~to->widest) == 0, "a largest number is not");
    }
}

static void fuzz_int_linear(fuzz *f, int bits)
{
    const int_layer l = any_layer(f, bits, 0);
    const int in = l.layer.in_len, out = l.layer.out_len;
    const lbnn_int_scale from = {any_exponent(f), any_exponent(f), 0, 0};
    const int32_t *e = narrow_block(f, in, 1 - (1 << l.mean_bits), (1 << l.mean_bits) - 1);
    const int32_t *s = narrow_block(f, in, 0, 1 << l.sigma_bits);
    lbnn_int_spread spread = {0, any_int(f, 0, 0xfffffff), any_exponent(f), 0};
    int32_t *sums = int_block(f, out), *mean = int_block(f, out), *var = int_block(f, out);
    lbnn_int_scale to;
    for (int i = 0; i < out; i++) {
        sums[i] = any_int(f, 0, 0xfffffff);
    }
    spread.sums = fuzz_size(f, 0, 1) ? sums : 0;
    spread.each = spread.sums ? 1 : 0;
    (bits == 8 ? lbnn_int8_linear : lbnn_int16_linear)(&l.layer, e, s, &from, &spread, mean, var, &to);
    check_linear(&l, e, s, &from, &spread, mean, var, &to);
}

static void fuzz_int8_linear(fuzz *f) { fuzz_int_linear(f, 8); }
static void fuzz_int16_linear(fuzz *f) { fuzz_int_linear(f, 12); }

/* B = sum(beta^2 (E^2 + V)), whose terms are rounded to nearest: of each part a half for each input. */
static void fuzz_int_shared(fuzz *f)
{
    int_layer l = any_layer(f, 8, 0);
    if (!l.layer.columns) {
        return;
    }
    const int in = l.layer.in_len;
    const lbnn_int_scale from = {any_exponent(f), any_exponent(f), 0, 0};
    const int32_t *e = narrow_block(f, in, 1 - (1 << 15), (1 << 15) - 1), *s = narrow_block(f, in, 0, 1 << 14);
    lbnn_int_spread spread;
    double want = 0.0;
    lbnn_int_shared(&l.layer, e, s, &from, &spread);
    for (int i = 0; i < in; i++) {
        const double beta = l.layer.columns[i] / 65536.0, x = lbnn_int_at(e, i) * beta, y = lbnn_int_at(s, i) * beta;
        want += from.mean == LBNN_INT_NONE ? 0.0 : ldexp(x * x, 2 * from.mean);
        want += from.var == LBNN_INT_NONE ? 0.0 : ldexp(y * y, 2 * from.var);
    }
    const int32_t top = lbnn_int_larger(from.mean, from.var);
    const double got = ldexp(spread.shared, spread.exponent - 2 * l.layer.column_exponent - 2);
    const double each = ldexp(sqrt(2.0 * in) / 2.0, top), more = ldexp(in / 4.0 + 3.0, 2 * top);
    fuzz_expect(spread.shared >= 0 && spread.shared < 1 << 28, "a shared sum leaves its bits");
    fuzz_expect((spread.shared > 0) == (top != LBNN_INT_NONE), "a shared sum is nothing");
    fuzz_expect(sqrt(got) >= sqrt(want) - each, "a shared sum is less than B");
    fuzz_expect(got <= (sqrt(want) + each) * (sqrt(want) + each) + more, "a shared sum is more than B");
}

/* sum((u c)^2 S) of each row. */
static void fuzz_int_moments(fuzz *f)
{
    const int_layer l = any_layer(f, 8, 1);
    const int in = l.layer.in_len, out = l.layer.out_len;
    const lbnn_int_scale from = {any_exponent(f), any_exponent(f), 0, 0};
    const int32_t *e = narrow_block(f, in, 1 - (1 << 15), (1 << 15) - 1), *s = narrow_block(f, in, 0, 1 << 14);
    lbnn_int_spread spread;
    lbnn_int_moments(&l.layer, e, s, &from, int_block(f, in + out), &spread);
    for (int n = 0; n < out && spread.sums; n++) {
        double want = 0.0;
        for (int i = 0; i < in; i++) {
            const double u = l.layer.free[place_of(&l, n, i)] * (l.layer.columns[i] / 65536.0);
            const double x = lbnn_int_at(e, i) * u, y = lbnn_int_at(s, i) * u;
            want += from.mean == LBNN_INT_NONE ? 0.0 : ldexp(x * x, 2 * from.mean);
            want += from.var == LBNN_INT_NONE ? 0.0 : ldexp(y * y, 2 * from.var);
        }
        fuzz_expect(spread.sums[n] > 0 && spread.sums[n] < 1 << 28, "a sum of moments leaves its bits");
        const double got = sqrt(ldexp(spread.sums[n], spread.exponent - 2 * l.layer.column_exponent));
        const double unit = ldexp(sqrt(in), spread.exponent / 2 - l.layer.column_exponent + 12);
        fuzz_expect(got >= 0.99 * sqrt(want) - 2.0 * unit, "a sum of moments is too small");
    }
}

/* ---- activation ---------------------------------------------------------------------------------- */

/* The mantissas stay in their bits, sigmas are zero where variances are, and without a table they are roots. */
static void fuzz_int_narrow(fuzz *f)
{
    const int n = fuzz_size(f, 1, 9), mean_bits = fuzz_size(f, 4, 15), sigma_bits = fuzz_size(f, 1, 14);
    const int32_t most_mean = any_int(f, 0, 0x7fffffff), most_var = any_int(f, 0, 0x3fffffff);
    int32_t *mean = int_block(f, n), *var = int_block(f, n);
    lbnn_int_scale from = {any_exponent(f), 2 * (fuzz_size(f, 0, 200) - 100), 0, 0}, to;
    for (int i = 0; i < n; i++) {
        mean[i] = any_int(f, -most_mean, most_mean);
        var[i] = any_int(f, 0, most_var);
        lbnn_int_look_at(&from, mean[i], var[i]);
    }
    uint16_t table[3 * LBNN_INT_TAIL + 2];
    for (int i = 0; i < 3 * LBNN_INT_TAIL; i++) {
        table[i] = (uint16_t)(i < LBNN_INT_TAIL ? any_int(f, 0, 52290) : any_int(f, 1, 32768));
    }
    table[3 * LBNN_INT_TAIL] = (uint16_t)any_int(f, 0, 32767);
    table[3 * LBNN_INT_TAIL + 1] = 15;
    const int given = fuzz_size(f, 0, 1);
    int32_t *out = int_block(f, (n + 1) / 2), *sigma = int_block(f, (n + 1) / 2);
    if (given) {
        lbnn_int_activate(mean, var, &from, out, sigma, &to, n, mean_bits, sigma_bits, table);
    } else {
        lbnn_int_narrow(mean, var, &from, out, sigma, &to, n, mean_bits, sigma_bits);
    }
    for (int i = 0; i < n; i++) {
        const int32_t e = lbnn_int_at(out, i), s = lbnn_int_at(sigma, i);
        fuzz_expect(lbnn_int_abs(e) < 1 << mean_bits, "a mantissa leaves its bits");
        fuzz_expect(s <= (1 << sigma_bits) + 1 && (s > 0) == (var[i] > 0), "a sigma is none");
        if (!given && var[i] > 0) {
            const double want = ldexp(sqrt(var[i]), from.var / 2 - to.var);
            fuzz_expect(s >= want * (1.0 - 3e-4) && s <= want * (1.0 + 3e-4) + 1.0, "a sigma is not a root");
        }
        if (!given) {
            fuzz_expect(fabs(e - ldexp(mean[i], from.mean - to.mean)) <= 0.5, "a mean is not rounded to nearest");
        }
    }
    fuzz_expect(!(n & 1) || (lbnn_int_at(out, n) == 0 && lbnn_int_at(sigma, n) == 0), "the last word is not filled up");
}

/* ---- floats ---------------------------------------------------------------------------------------- */

static void fuzz_int_pack(fuzz *f)
{
    const int n = fuzz_size(f, 1, 9), bits = fuzz_size(f, 3, 15);
    const float *x = fuzz_means(f, n);
    if (lbnn_int_largest_mean(x, n) >= LBNN_INT_INFINITE) {
        return;
    }
    int32_t *mean = int_block(f, (n + 1) / 2);
    const int32_t exponent = lbnn_int_pack_means(x, mean, n, bits);
    for (int i = 0; i < n; i++) {
        const double want = exponent == LBNN_INT_NONE ? 0.0 : ldexp((double)x[i], -exponent);
        fuzz_expect(fabs(lbnn_int_at(mean, i) - want) <= 1.0, "a packed mean is not the float");
        fuzz_expect(lbnn_int_abs(lbnn_int_at(mean, i)) < 1 << bits, "a packed mean leaves its bits");
    }
}

static void fuzz_int_pack_sigmas(fuzz *f)
{
    const int n = fuzz_size(f, 1, 9), bits = fuzz_size(f, 1, 14);
    const float *x = fuzz_variances(f, n);
    if (lbnn_int_largest_var(x, n) >= LBNN_INT_INFINITE) {
        return;
    }
    int32_t *sigma = int_block(f, (n + 1) / 2);
    const int32_t exponent = lbnn_int_pack_sigmas(x, sigma, n, bits);
    for (int i = 0; i < n; i++) {
        const double want = exponent == LBNN_INT_NONE ? 0.0 : ldexp(sqrt((double)x[i]), -exponent);
        const int32_t s = lbnn_int_at(sigma, i);
        fuzz_expect(s >= want * (1.0 - 3e-4) && s <= want * (1.0 + 3e-4) + 2.0, "a packed sigma is not a root");
        fuzz_expect(s <= 1 << bits && (s > 0) == (x[i] > 0.0f), "a packed sigma leaves its bits");
    }
}

/* There and back. */
static void fuzz_int_emit(fuzz *f)
{
    const int n = fuzz_size(f, 1, 5);
    int32_t *mean = int_block(f, n), *var = int_block(f, n);
    const lbnn_int_scale from = {any_exponent(f), any_exponent(f), 0, 0};
    float *out = fuzz_output(f, n), *out_var = fuzz_output(f, n);
    for (int i = 0; i < n; i++) {
        mean[i] = any_int(f, -0x7fffffff, 0x7fffffff);
        var[i] = any_int(f, 0, 0x3fffffff);
    }
    const lbnn_status status = lbnn_int_emit(mean, var, &from, 0, out, out_var, n);
    for (int i = 0; i < n && status == LBNN_OK; i++) {
        const double want = ldexp(mean[i], from.mean), spread = ldexp(var[i], from.var);
        fuzz_expect(fabs((double)out[i] - want) <= fabs(want) * 1.2e-7 + 1.5e-45, "a mean is not that of the integers");
        fuzz_expect((double)out_var[i] >= spread, "a variance is rounded down");
        fuzz_expect((double)out_var[i] <= spread * (1.0 + 2.4e-7) + 1.5e-45, "a variance is not that of the integers");
    }
}

/* ---- others ------------------------------------------------------------------------------------------ */

static void fuzz_int_add(fuzz *f)
{
    const int n = fuzz_size(f, 1, 9);
    const lbnn_int_scale a = {any_exponent(f), any_exponent(f), 0, 0}, b = {any_exponent(f), any_exponent(f), 0, 0};
    const int32_t *e = narrow_block(f, n, -32767, 32767), *g = narrow_block(f, n, -32767, 32767);
    const int32_t *s = narrow_block(f, n, 0, 16384), *t = narrow_block(f, n, 0, 16384);
    int32_t *mean = int_block(f, n), *var = int_block(f, n);
    lbnn_int_scale to;
    lbnn_int_add(e, s, &a, g, t, &b, mean, var, &to, n);
    for (int i = 0; i < n; i++) {
        const double x = lbnn_int_at(s, i), y = lbnn_int_at(t, i);
        const double want = ldexp(lbnn_int_at(e, i), a.mean - to.mean) + ldexp(lbnn_int_at(g, i), b.mean - to.mean);
        const double spread = ldexp(x * x, 2 * a.var - to.var) + ldexp(y * y, 2 * b.var - to.var);
        fuzz_expect(fabs(mean[i] - want) <= 2.0, "a sum of means is not");
        fuzz_expect(var[i] >= spread && var[i] <= spread + 2.0, "a sum of variances is not");
    }
}

static void fuzz_int_affine(fuzz *f)
{
    const int n = fuzz_size(f, 1, 9);
    const lbnn_int_layer layer = {0, 0, 0, 0, any_rows(f, n), n, n, 0, 0, any_int(f, -60, 60), LBNN_INT_NONE,
                                  any_exponent(f), LBNN_INT_NONE};
    const lbnn_int_scale from = {any_exponent(f), 2 * (fuzz_size(f, 0, 200) - 100), 0, 0};
    int32_t *mean = int_block(f, n), *var = int_block(f, n);
    lbnn_int_scale to;
    for (int i = 0; i < n; i++) {
        mean[i] = any_int(f, -0x7fffffff, 0x7fffffff);
        var[i] = any_int(f, 0, 0x3fffffff);
    }
    lbnn_int_affine(&layer, mean, var, &from, mean, var, &to);
    for (int i = 0; i < n; i++) {
        fuzz_expect(var[i] >= 0 && var[i] < 1 << 30, "a scaled variance leaves its bits");
    }
}

static void fuzz_int_variance_head(fuzz *f)
{
    const int n = fuzz_size(f, 1, 4);
    const lbnn_int_scale from = {any_exponent(f), 2 * (fuzz_size(f, 0, 200) - 100), 0, 0};
    int32_t *mean = int_block(f, 2 * n), *var = int_block(f, 2 * n), *out = int_block(f, n), *spread = int_block(f, n);
    lbnn_int_scale to;
    for (int i = 0; i < 2 * n; i++) {
        mean[i] = any_int(f, -0x7fffffff, 0x7fffffff);
        var[i] = any_int(f, 0, 0x3fffffff);
    }
    lbnn_int_variance_head(mean, var, &from, out, spread, &to, n);
    for (int i = 0; i < n; i++) {
        const double x = ldexp(mean[n + i], from.mean), softplus = x > 30.0 ? x : x < -700.0 ? 0.0 : log1p(exp(x));
        const double want = ldexp(var[i], from.var - to.var) + ldexp(softplus, -to.var);
        fuzz_expect(spread[i] > 0 && spread[i] < 1 << 30, "a head's variance leaves its bits");
        fuzz_expect(spread[i] >= want * (1.0 - 2e-3) - 2.0 && spread[i] <= want * (1.0 + 2e-3) + 4.0, "a head is none");
    }
}
