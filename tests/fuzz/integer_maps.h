/* Integer kernels of feature maps: any mantissas with their exponents, against float64. A mean may be off by units of the
 * result and by what its formula says; a sigma is never less than it is but for the table of roots, 3e-4. */

/* A map: n mantissas and their exponents; where an exponent is none all are zero. */
typedef struct {
    const int32_t *mean, *sigma;
    lbnn_int_scale scale;
} int_map;

static int_map any_bounded_map(fuzz *f, int n, int32_t most_mean, int32_t most_sigma)
{
    const lbnn_int_scale scale = {any_exponent(f), any_exponent(f), 0, 0};
    const int32_t mean = scale.mean == LBNN_INT_NONE ? 0 : any_int(f, 0, most_mean);
    const int32_t sigma = scale.var == LBNN_INT_NONE ? 0 : any_int(f, 0, most_sigma);
    const int_map map = {narrow_block(f, n, -mean, mean), narrow_block(f, n, 0, sigma), scale};
    return map;
}

static int_map any_map(fuzz *f, int n)
{
    return any_bounded_map(f, n, 32767, 16384);
}

static int32_t *empty_map(fuzz *f, int n)
{
    return int_block(f, (n + 1) / 2);
}

static double power(int32_t exponent)
{
    return exponent <= -32768 ? 0.0 : ldexp(1.0, exponent);
}

static double mean_of(const int_map *map, int i)
{
    return lbnn_int_at(map->mean, i) * power(map->scale.mean);
}

static double sigma_of(const int_map *map, int i)
{
    return lbnn_int_at(map->sigma, i) * power(map->scale.var);
}

/* What was written last must not depend on what stood there before. */
static void digest_words(fuzz *f, const int32_t *words, int n)
{
    for (int i = 0; i < n; i++) {
        f->digest = (f->digest ^ (uint32_t)words[i]) * 0x100000001b3u;
    }
}

/* Every mantissa of a result stands within its bits, and the last word is filled up with nothing. */
static void check_mantissas(fuzz *f, const int_map *out, int n, int mean_bits, int sigma_bits)
{
    for (int i = 0; i < n; i++) {
        fuzz_expect(lbnn_int_abs(lbnn_int_at(out->mean, i)) < 1 << mean_bits, "a mantissa leaves its bits");
        fuzz_expect(lbnn_int_at(out->sigma, i) <= 1 << sigma_bits, "a sigma leaves its bits");
    }
    fuzz_expect(!(n & 1) || !(lbnn_int_at(out->mean, n) | lbnn_int_at(out->sigma, n)), "the last word is not filled up");
    digest_words(f, out->mean, (n + 1) / 2);
    digest_words(f, out->sigma, (n + 1) / 2);
}

/* A mean within `units` of the result and `more`; a sigma at least what it is and at most `most`, up to two units. */
static void check_element(const int_map *out, int i, double mean, double units, double more, double least, double most)
{
    const double s = sigma_of(out, i), unit = power(out->scale.var);
    fuzz_expect(fabs(mean_of(out, i) - mean) <= units * power(out->scale.mean) + more, "a mean is not what float64 gives");
    fuzz_expect(s >= least * (1.0 - 4e-4), "a sigma is smaller than it is");
    fuzz_expect(s <= most * (1.0 + 4e-4) + 2.0 * unit, "a sigma is larger than it is");
    fuzz_expect((least > 0.0) == (lbnn_int_at(out->sigma, i) > 0), "a sigma is zero, or there is none");
}

/* ---- exponents of pixels --------------------------------------------------------------------------- */

static void fuzz_int_level(fuzz *f)
{
    const int count = fuzz_size(f, 1, 5), length = fuzz_size(f, 1, 5), n = count * length - fuzz_size(f, 0, length - 1);
    int32_t *mean = int_block(f, (n + 1) / 2), *sigma = int_block(f, (n + 1) / 2), *exponents = int_block(f, count);
    int32_t e[25], s[25], x[5], y[5], top = -32768, wide = -32768;
    lbnn_int_scale to;
    for (int i = 0; i < count; i++) {
        x[i] = any_int(f, -32768, fuzz_size(f, 0, 1) ? 32767 : -32700);
        y[i] = any_int(f, -32768, fuzz_size(f, 0, 1) ? 32767 : -32700);
        exponents[i] = lbnn_int_word(x[i], y[i]);
        top = lbnn_int_larger(top, x[i]);
        wide = lbnn_int_larger(wide, y[i]);
    }
    for (int i = 0; i < n; i++) {
        e[i] = any_int(f, -32767, 32767);
        s[i] = any_int(f, 0, 16384);
        lbnn_int_set(mean, i, e[i]);
        lbnn_int_set(sigma, i, s[i]);
    }
    lbnn_int_level(mean, sigma, exponents, &to, count, length, n);
    fuzz_expect(to.mean == (top == -32768 ? LBNN_INT_NONE : top), "the exponent of means is not the largest");
    fuzz_expect(to.var == (wide == -32768 ? LBNN_INT_NONE : wide), "the exponent of sigmas is not the largest");
    const int_map out = {mean, sigma, {0, 0, 0, 0}};
    for (int i = 0; i < n; i++) {
        const double want = ldexp(e[i], x[i / length] - top), root = ldexp(s[i], y[i / length] - wide);
        fuzz_expect(fabs(lbnn_int_at(mean, i) - want) <= 0.5, "a mean is not rounded to nearest");
        fuzz_expect(lbnn_int_at(sigma, i) == (s[i] ? fmax(ceil(root), 1.0) : 0.0), "a sigma is not rounded up");
    }
    check_mantissas(f, &out, n, 15, 14);
}

/* The same as lbnn_int_narrow, at a place of the map, and nowhere else. */
static void fuzz_int_settle(fuzz *f)
{
    const int n = fuzz_size(f, 1, 5), at = fuzz_size(f, 0, 5), all = at + n + fuzz_size(f, 0, 3);
    const int_map before = any_map(f, all);
    int32_t *mean = int_block(f, n), *var = int_block(f, n);
    int32_t *e = (int32_t *)(void *)fuzz_copy(f, (const float *)(const void *)before.mean, (all + 1) / 2);
    int32_t *s = (int32_t *)(void *)fuzz_copy(f, (const float *)(const void *)before.sigma, (all + 1) / 2);
    int32_t own[3], own_sigma[3];
    lbnn_int_scale wide = {any_exponent(f), 2 * (fuzz_size(f, 0, 200) - 100), 0, 0}, to;
    for (int i = 0; i < n; i++) {
        mean[i] = any_int(f, -0x7fffffff, 0x7fffffff);
        var[i] = any_int(f, 0, 0x3fffffff);
        lbnn_int_look_at(&wide, mean[i], var[i]);
    }
    int32_t copy[5], copy_var[5];
    memcpy(copy, mean, (size_t)n * sizeof *copy);
    memcpy(copy_var, var, (size_t)n * sizeof *copy_var);
    const int32_t exponents = lbnn_int_settle(mean, var, &wide, e, s, at, n, 15, 14, 0);
    lbnn_int_narrow(copy, copy_var, &wide, own, own_sigma, &to, n, 15, 14);
    for (int i = 0; i < all; i++) {
        const int inside = i >= at && i < at + n;
        const int32_t want = inside ? lbnn_int_at(own, i - at) : lbnn_int_at(before.mean, i);
        const int32_t root = inside ? lbnn_int_at(own_sigma, i - at) : lbnn_int_at(before.sigma, i);
        fuzz_expect(lbnn_int_at(e, i) == want && lbnn_int_at(s, i) == root, "a pixel is not at its place");
    }
    fuzz_expect(lbnn_int_first(exponents) == (to.mean < -32768 ? -32768 : to.mean), "a pixel has other exponents");
    fuzz_expect(lbnn_int_second(exponents) == (to.var < -32768 ? -32768 : to.var), "a pixel has other exponents");
}

/* ---- there and back ---------------------------------------------------------------------------------- */

/* Floats of an input, or mantissas of it with an exponent; t and s of its standardisation, s a normal number. */
typedef struct {
    lbnn_int_reader from;
    int channels, pixels;
} int_input;

static int_input any_input(fuzz *f, int variances)
{
    int_input in = {{0, 0, 0, 0, 1, 1}, fuzz_size(f, 1, 4), fuzz_size(f, 1, 4)};
    const int n = in.channels * in.pixels;
    if (fuzz_size(f, 0, 1)) {
        int32_t *q = int_block(f, n);
        in.from.exponent = any_int(f, -160, 96);
        for (int i = 0; i < n; i++) {
            q[i] = any_int(f, variances ? 0 : -0x7fffffff, 0x7fffffff);
        }
        in.from.q = q;
    } else {
        float *x = fuzz_block(f, n);
        fuzz_fill(f, x, n, fuzz_finite_style(f), variances);
        in.from.x = fuzz_keep(f, x);
    }
    in.from.count = fuzz_size(f, 0, 1) ? in.channels : 1;
    in.from.run = n / in.from.count;
    if (fuzz_size(f, 0, 1)) {
        float *factors = fuzz_block(f, 2 * in.from.count);
        fuzz_fill(f, factors, 2 * in.from.count, fuzz_finite_style(f), 0);
        for (int i = in.from.count; i < 2 * in.from.count; i++) {
            factors[i] = fabsf(factors[i]) < 1.2e-38f ? 1.0f : factors[i];
        }
        in.from.factors = fuzz_keep(f, factors);
    }
    return in;
}

static double input_at(const int_input *in, int i)
{
    return in->from.q ? ldexp(in->from.q[i], in->from.exponent) : (double)in->from.x[i];
}

#define FLOAT_MOST 3.4028234663852886e38

static double held(double x)
{
    return x > FLOAT_MOST ? FLOAT_MOST : x < -FLOAT_MOST ? -FLOAT_MOST : x;
}

/* (E + t) s, of which the last bits of s, of a sum far below its parts, and those that no float has are lost. */
static void fuzz_int_map_means(fuzz *f)
{
    const int_input in = any_input(f, 0);
    const int n = in.channels * in.pixels, bits = fuzz_size(f, 4, 15);
    for (int i = 0; i < n; i++) {
        if (fabs(input_at(&in, i)) > FLOAT_MOST) {
            return;
        }
    }
    int32_t *mean = empty_map(f, n);
    const int32_t exponent = lbnn_int_map_means(&in.from, mean, in.channels, in.pixels, bits);
    digest_words(f, mean, (n + 1) / 2);
    for (int i = 0; i < n; i++) {
        double want = input_at(&in, i), lost = fabs(want) * 6e-8 + 1.5e-45;
        if (in.from.factors) {
            const double t = (double)in.from.factors[i / in.from.run];
            const double s = (double)in.from.factors[i / in.from.run + in.from.count];
            lost = fabs(s) * ((fabs(want) + fabs(t)) * 1e-7 + fabs(want + t) * 3.1e-5 + 3e-45) + 1.5e-45;
            want = held((want + t) * s);
        }
        const int32_t e = lbnn_int_at(mean, i % in.pixels * in.channels + i / in.pixels);
        fuzz_expect(fabs(ldexp(e, exponent) - want) <= ldexp(1.0, exponent) + lost, "a packed mean is not the input's");
        fuzz_expect(lbnn_int_abs(e) < 1 << bits, "a packed mean leaves its bits");
    }
}

/* |s| sqrt(V), which is nothing only where V is. */
static void fuzz_int_map_sigmas(fuzz *f)
{
    const int_input in = any_input(f, 1);
    const int n = in.channels * in.pixels, bits = fuzz_size(f, 1, 14);
    for (int i = 0; i < n; i++) {
        if (fabs(input_at(&in, i)) > FLOAT_MOST) {
            return;
        }
    }
    int32_t *sigma = empty_map(f, n);
    const int32_t exponent = lbnn_int_map_sigmas(&in.from, sigma, in.channels, in.pixels, bits);
    digest_words(f, sigma, (n + 1) / 2);
    for (int i = 0; i < n; i++) {
        double want = fabs(input_at(&in, i)), most = want + 1.5e-45;
        if (in.from.factors) {
            const double s = (double)in.from.factors[i / in.from.run + in.from.count];
            want = held(want * s * s);
            most = held(most * s * s) + 1.5e-45;
        }
        const int32_t s = lbnn_int_at(sigma, i % in.pixels * in.channels + i / in.pixels);
        const double got = ldexp(s, exponent), unit = ldexp(1.0, exponent);
        fuzz_expect(got >= sqrt(want) * (1.0 - 4e-4) && got <= sqrt(most) * (1.0 + 4e-4) + 2.0 * unit,
                    "a packed sigma is not the input's");
        fuzz_expect(s <= 1 << bits && (s > 0) == (input_at(&in, i) > 0.0), "a packed sigma leaves its bits, or is none");
    }
}

static void fuzz_int_unfold(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 5), pixels = fuzz_size(f, 1, 5), n = channels * pixels;
    const int_map map = any_map(f, n);
    int32_t *mean = int_block(f, n), *var = int_block(f, n);
    lbnn_int_scale to;
    lbnn_int_unfold(map.mean, map.sigma, &map.scale, mean, var, &to, channels, pixels);
    for (int i = 0; i < n; i++) {
        const int at = i % pixels * channels + i / pixels;
        fuzz_expect(mean[i] * power(to.mean) == mean_of(&map, at), "an unfolded mean is another");
        fuzz_expect(var[i] * power(to.var) == sigma_of(&map, at) * sigma_of(&map, at), "an unfolded variance is another");
    }
}

static void fuzz_int_pad(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 4), height = fuzz_size(f, 1, 4), width = fuzz_size(f, 1, 4);
    const int top = fuzz_size(f, 0, 2), left = fuzz_size(f, 0, 2);
    const int rows = height + top + fuzz_size(f, 0, 2), columns = width + left + fuzz_size(f, 0, 2);
    const int n = channels * rows * columns;
    const int_map in = any_map(f, channels * height * width);
    int32_t *mean = empty_map(f, n), *sigma = empty_map(f, n);
    int_map out = {mean, sigma, {0, 0, 0, 0}};
    lbnn_int_pad(in.mean, in.sigma, &in.scale, mean, sigma, &out.scale, channels, height, width, top, left, rows, columns);
    for (int i = 0; i < n; i++) {
        const int y = i / channels / columns - top, x = i / channels % columns - left;
        const int inside = y >= 0 && y < height && x >= 0 && x < width, at = (y * width + x) * channels + i % channels;
        fuzz_expect(mean_of(&out, i) == (inside ? mean_of(&in, at) : 0.0), "a padded mean is another");
        fuzz_expect(sigma_of(&out, i) == (inside ? sigma_of(&in, at) : 0.0), "a padded sigma is another");
    }
}

static void fuzz_int_known(fuzz *f)
{
    const int n = fuzz_size(f, 1, 9);
    const int_map in = any_map(f, n);
    int32_t *sigma = empty_map(f, n);
    lbnn_int_scale to;
    lbnn_int_known(&in.scale, sigma, &to, (n + 1) / 2);
    fuzz_expect(to.mean == in.scale.mean && to.var == LBNN_INT_NONE, "the exponents of known values are others");
    for (int i = 0; i < n; i++) {
        fuzz_expect(lbnn_int_at(sigma, i) == 0, "a known value has a sigma");
    }
}

/* ---- operators on each element ------------------------------------------------------------------------- */

static int chunks_of(int n)
{
    return (n + LBNN_INT_CHUNK - 1) / LBNN_INT_CHUNK;
}

/* Bits that a layer behind it takes. */
static void any_bits(fuzz *f, int *mean_bits, int *sigma_bits)
{
    const int most = fuzz_size(f, 0, 1);
    *mean_bits = most ? 15 : fuzz_size(f, 4, 15);
    *sigma_bits = most ? 14 : fuzz_size(f, 1, 14);
}

/* Results over an input, or beside it. */
static int32_t *map_over(fuzz *f, const int32_t *in, int n, int in_place)
{
    return in_place ? (int32_t *)(void *)fuzz_copy(f, (const float *)(const void *)in, (n + 1) / 2) : empty_map(f, n);
}

/* Of x ~ N(z, 1), z >= 0: P(x < 0), E[max(-x, 0)] and E[max(-x, 0)^2]. */
static void tail_moments(double z, double *q, double *first, double *second)
{
    const double density = exp(-0.5 * z * z) / sqrt(2.0 * 3.141592653589793);
    *q = 0.5 * erfc(z / sqrt(2.0));
    *first = density - z * *q;
    *second = (1.0 + z * z) * *q - z * density;
}

/* Variance of max(x, slope x), x ~ N(z, 1) or N(-z, 1). */
static double gain_of(double z, double slope, int below)
{
    const double k = 1.0 - slope;
    double q, first, second;
    tail_moments(z, &q, &first, &second);
    const double rest = k * k * (second - first * first);
    return below ? slope * slope + 2.0 * k * slope * q + rest : 1.0 - 2.0 * k * q + rest;
}

/* The tables of lbnn/graph/ints/tables.py. */
static void tail_table(uint16_t *table, double slope)
{
    for (int i = 0; i < LBNN_INT_TAIL; i++) {
        double q, first, second;
        tail_moments(i / 16.0, &q, &first, &second);
        table[i] = (uint16_t)floor(131072.0 * (1.0 - slope) * first + 0.5);
        table[LBNN_INT_TAIL + i] = (uint16_t)(i == 64 ? 32768.0 : ceil(32768.0 * sqrt(gain_of(i / 16.0, slope, 0))));
        table[2 * LBNN_INT_TAIL + i] = (uint16_t)ceil(32768.0 * sqrt(gain_of(i / 16.0, slope, 1)));
    }
    const int shift = slope > 0.0 ? 15 - ilogb(slope) - 1 : 15;
    table[3 * LBNN_INT_TAIL] = (uint16_t)fmin(floor(slope * ldexp(1.0, shift) + 0.5), 32767.0);
    table[3 * LBNN_INT_TAIL + 1] = (uint16_t)shift;
}

/* A table, or none; gives its slope, which is 1 then. */
static double any_tail(fuzz *f, uint16_t *table, int always)
{
    static const double slopes[] = {0.0, 0.01, 0.1, 0.25, 0.5};
    if (!always && fuzz_size(f, 0, 1)) {
        return 1.0;
    }
    const double slope = slopes[fuzz_size(f, 0, 4)];
    tail_table(table, slope);
    return slope;
}

/* Mean and sigma behind a leaky-ReLU; without a slope of its own they stay. */
static void activated(double *mean, double *sigma, double slope)
{
    const int below = *mean < 0.0;
    if (slope == 1.0 || *sigma <= 0.0) {
        *mean *= below ? slope : 1.0;
        *sigma *= 1.0;
        return;
    }
    const double z = fmin(fabs(*mean) / *sigma, 30.0);
    double q, first, second;
    tail_moments(z, &q, &first, &second);
    *mean = *mean * (below ? slope : 1.0) + (1.0 - slope) * *sigma * first;
    *sigma *= sqrt(fmax(gain_of(z, slope, below), 0.0));
}

/* E' = m E + k sigma I1(z), sigma' = sigma sqrt(g(z)) within what tables of 16 cells a sigma lose. */
static void fuzz_int_map_leaky(fuzz *f)
{
    const int n = fuzz_size(f, 1, 70), in_place = fuzz_size(f, 0, 1);
    int mean_bits, sigma_bits;
    any_bits(f, &mean_bits, &sigma_bits);
    uint16_t table[3 * LBNN_INT_TAIL + 2];
    const double slope = any_tail(f, table, 1);
    const int_map in = any_map(f, n);
    int32_t *mean = map_over(f, in.mean, n, in_place), *sigma = map_over(f, in.sigma, n, in_place);
    int_map out = {mean, sigma, {0, 0, 0, 0}};
    lbnn_int_map_leaky(in_place ? mean : in.mean, in_place ? sigma : in.sigma, &in.scale, mean, sigma, &out.scale, n,
                       mean_bits, sigma_bits, table, int_block(f, 2 * LBNN_INT_CHUNK + chunks_of(n)));
    for (int i = 0; i < n; i++) {
        double want = mean_of(&in, i), spread = sigma_of(&in, i);
        const double before = spread, size = fabs(want);
        activated(&want, &spread, slope);
        check_element(&out, i, want, 2.0, 1.2e-3 * before + 4e-5 * size, before > 0.0 ? 0.98 * spread + 1e-300 : 0.0,
                      1.02 * spread + 6e-3 * before);
    }
    check_mantissas(f, &out, n, mean_bits, sigma_bits);
}

/* Known values have no sigmas. */
static void fuzz_int_map_add(fuzz *f)
{
    const int n = fuzz_size(f, 1, 70), known = fuzz_size(f, 0, 2), over = fuzz_size(f, 0, 2);
    int mean_bits, sigma_bits;
    any_bits(f, &mean_bits, &sigma_bits);
    int_map a = any_map(f, n), b = any_map(f, n);
    const int_map none = {a.mean, 0, {0, LBNN_INT_NONE, 0, 0}};
    a.sigma = known == 1 ? none.sigma : a.sigma;
    b.sigma = known == 2 ? none.sigma : b.sigma;
    a.scale.var = known == 1 ? LBNN_INT_NONE : a.scale.var;
    b.scale.var = known == 2 ? LBNN_INT_NONE : b.scale.var;
    const int first = over == 1 && known != 1, second = over == 2 && known != 2;
    int32_t *mean = map_over(f, second ? b.mean : a.mean, n, first || second);
    int32_t *sigma = second || first ? map_over(f, second ? b.sigma : a.sigma, n, 1) : empty_map(f, n);
    int_map out = {mean, sigma, {0, 0, 0, 0}};
    lbnn_int_map_add(first ? mean : a.mean, first ? sigma : a.sigma, &a.scale, second ? mean : b.mean,
                     second ? sigma : b.sigma, &b.scale, mean, sigma, &out.scale, n, mean_bits, sigma_bits,
                     int_block(f, 2 * LBNN_INT_CHUNK + chunks_of(n)));
    const double unit = power(lbnn_int_larger(a.scale.var, b.scale.var));
    for (int i = 0; i < n; i++) {
        const double x = a.sigma ? sigma_of(&a, i) : 0.0, y = b.sigma ? sigma_of(&b, i) : 0.0, want = sqrt(x * x + y * y);
        const double low = ldexp(power(lbnn_int_larger(a.scale.mean, b.scale.mean)), -13); /* of two that are rounded down */
        check_element(&out, i, mean_of(&a, i) + mean_of(&b, i), 1.0, low, want, sqrt(x * x + y * y + 2.0 * unit * unit));
    }
    check_mantissas(f, &out, n, mean_bits, sigma_bits);
}

/* s and t of a row; s^2 is stored apart. */
static double row_scale(const lbnn_int_layer *layer, const uint16_t *row)
{
    const double size = ldexp(row[0], layer->scale_exponent - 15 - (row[4] & 31));
    return row[4] >> 15 ? -size : size;
}

static double row_square(const lbnn_int_layer *layer, const uint16_t *row)
{
    return ldexp(row[1], 2 * (layer->scale_exponent - (row[4] & 31)) - 16);
}

static double row_bias(const lbnn_int_layer *layer, const uint16_t *row)
{
    const int32_t bias = (int32_t)((uint32_t)row[5] | (uint32_t)row[6] << 16);
    return bias * power(layer->bias_exponent) / ldexp(4.0, bias & 31);
}

/* Rows that are known: no variance of their own. */
static const uint16_t *known_rows(fuzz *f, int n)
{
    const uint16_t *from = any_rows(f, n);
    uint16_t *rows = (uint16_t *)words_of(f, 2 * LBNN_INT_ROW * n);
    for (int i = 0; i < LBNN_INT_ROW * n; i++) {
        const int k = i % LBNN_INT_ROW;
        rows[i] = (uint16_t)(k == 2 || k == 3 ? 0 : k == 1 && !from[i] ? 1 : from[i]);
    }
    return (const uint16_t *)(const void *)fuzz_keep(f, (float *)(void *)rows);
}

static void fuzz_int_map_affine(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 5), pixels = fuzz_size(f, 1, 4), n = channels * pixels;
    int mean_bits, sigma_bits;
    any_bits(f, &mean_bits, &sigma_bits);
    const lbnn_int_layer layer = {0, 0, 0, 0, known_rows(f, channels), channels, channels, 0, 0, any_int(f, -60, 60),
                                  LBNN_INT_NONE, any_exponent(f), LBNN_INT_NONE};
    const int_map in = any_map(f, n);
    const int in_place = fuzz_size(f, 0, 1);
    int32_t *mean = map_over(f, in.mean, n, in_place), *sigma = map_over(f, in.sigma, n, in_place);
    int_map out = {mean, sigma, {0, 0, 0, 0}};
    lbnn_int_map_affine(&layer, in_place ? mean : in.mean, in_place ? sigma : in.sigma, &in.scale, mean, sigma, &out.scale,
                        pixels, mean_bits, sigma_bits,
                        int_block(f, 2 * channels + pixels));
    const double top = fmax(ldexp(power(in.scale.mean), layer.scale_exponent - 14), power(layer.bias_exponent));
    const double unit = ldexp(power(in.scale.var), layer.scale_exponent + 1);
    for (int i = 0; i < n; i++) {
        const uint16_t *row = layer.rows + LBNN_INT_ROW * (i % channels);
        const double want = mean_of(&in, i) * row_scale(&layer, row) + row_bias(&layer, row);
        const double s = sigma_of(&in, i), square = s * s * row_square(&layer, row);
        check_element(&out, i, want, 1.0, 4.0 * top, sqrt(square), sqrt(square + 6.0 * unit * unit));
    }
    check_mantissas(f, &out, n, mean_bits, sigma_bits);
}

/* ---- pools --------------------------------------------------------------------------------------------- */

/* 1/n = m 2^(-15 - step), rounded up. */
static int32_t step_of(int n)
{
    int32_t step = 0;
    for (; 1 << step < n; step++) {
    }
    return step;
}

static uint16_t inverse_of(int n)
{
    return (uint16_t)ceil(ldexp(1.0, 15 + step_of(n)) / n);
}

/* Sums of `count` taps over n, each with exponents of its own; `unit` and `var_unit` are those of the largest. */
typedef struct {
    double mean, sigma, square;
} int_sums;

static double least_sigma(const int_sums *sums, int correlated, int n)
{
    return (correlated ? sums->sigma : sqrt(sums->square)) / n;
}

/* What is rounded up: each tap to a unit, or its variance to 2^room of them; what comes of both products to one each. */
static double most_sigma(const int_sums *sums, int correlated, int count, int n, int room, double unit)
{
    const double spare = ldexp(unit * unit, correlated ? 2 * room : room & ~1), ends = 3.0 * ldexp(spare, 2 - 2 * step_of(n));
    if (correlated) {
        const double mean = (sums->sigma + count * unit + ldexp(unit, room)) / n;
        return sqrt(mean * mean + ends);
    }
    return sqrt(sums->square / n / n + count * spare / n / n + ends);
}

static void fuzz_int_pool_window(fuzz *f)
{
    const int rows = fuzz_size(f, 1, 4), columns = fuzz_size(f, 1, 4), channels = fuzz_size(f, 1, 3);
    const int correlated = fuzz_size(f, 0, 1), count = rows * columns, n = count + fuzz_size(f, 0, 3), place = fuzz_size(f, 0, 3);
    const int next = channels + fuzz_size(f, 0, 2), down = columns * next + fuzz_size(f, 0, 3), room = step_of(n);
    const int_map in = any_map(f, place + rows * down + columns * next);
    int32_t *out = int_block(f, channels), *var = int_block(f, channels);
    lbnn_int_scale to;
    const lbnn_int_taps taps = {in.mean, in.sigma, &in.scale, place, rows, columns, next, down, room, correlated};
    lbnn_int_pool_window(&taps, inverse_of(n), step_of(n), channels, out, var, &to);
    int32_t largest = 0, widest = 0;
    for (int i = 0; i < channels; i++) {
        int_sums sums = {0.0, 0.0, 0.0};
        for (int k = 0; k < count; k++) {
            const int at = place + i + k / columns * down + k % columns * next;
            sums.mean += mean_of(&in, at);
            sums.sigma += sigma_of(&in, at);
            sums.square += sigma_of(&in, at) * sigma_of(&in, at);
        }
        const double got = sqrt(var[i] * power(to.var)), least = least_sigma(&sums, correlated, n);
        const double most = most_sigma(&sums, correlated, count, n, room, power(in.scale.var));
        const double lost = 3.1e-5 * fabs(sums.mean) / n + power(to.mean);
        fuzz_expect(fabs(out[i] * power(to.mean) - sums.mean / n) <= lost, "a pool's mean is not what float64 gives");
        fuzz_expect(var[i] >= 0 && var[i] < 1 << 30, "a pool's variance leaves its bits");
        fuzz_expect(got >= least * (1.0 - 1e-12), "a pool's sigma is smaller than it is");
        fuzz_expect(got <= most * (1.0 + 7e-5), "a pool's sigma is larger than it is");
        fuzz_expect((least > 0.0) == (var[i] > 0), "a pool's variance is zero, or there is none");
        largest = lbnn_int_larger(largest, lbnn_int_size(out[i]));
        widest |= var[i];
    }
    fuzz_expect(to.largest == largest && to.widest == widest, "a largest number is not");
}

/* A pool as torch has it: windows begin inside or in the padding on the left. */
static lbnn_int_pool_shape any_int_pool(fuzz *f)
{
    lbnn_int_pool_shape s = {0, fuzz_size(f, 1, 3), fuzz_size(f, 1, 6), fuzz_size(f, 1, 6), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    s.top = fuzz_size(f, 0, 2);
    s.left = fuzz_size(f, 0, 2);
    s.kernel_height = lbnn_int_smaller(fuzz_size(f, 1, 5), s.height + s.top);
    s.kernel_width = lbnn_int_smaller(fuzz_size(f, 1, 5), s.width + s.left);
    s.top = lbnn_int_smaller(s.top, s.kernel_height / 2);
    s.left = lbnn_int_smaller(s.left, s.kernel_width / 2);
    s.stride_height = fuzz_size(f, 1, 3);
    s.stride_width = fuzz_size(f, 1, 3);
    const int more = fuzz_size(f, 0, 1); /* ceil_mode */
    const int down = s.height + 2 * s.top - s.kernel_height, across = s.width + 2 * s.left - s.kernel_width;
    s.out_height = lbnn_int_larger(down, 0) / s.stride_height + 1;
    s.out_width = lbnn_int_larger(across, 0) / s.stride_width + 1;
    s.out_height += more && s.out_height * s.stride_height < s.height + s.top;
    s.out_width += more && s.out_width * s.stride_width < s.width + s.left;
    s.count_include_pad = fuzz_size(f, 0, 1);
    s.correlated = fuzz_size(f, 0, 1);
    int mean_bits, sigma_bits;
    any_bits(f, &mean_bits, &sigma_bits);
    s.mean_bits = mean_bits;
    s.sigma_bits = sigma_bits;
    return s;
}

/* One window, place by place: sums, taps inside, and places that count. */
static int_sums sums_of_window(const lbnn_int_pool_shape *s, const int_map *in, int pixel, int channel, int *count, int *n)
{
    const int y = pixel / s->out_width * s->stride_height - s->top, x = pixel % s->out_width * s->stride_width - s->left;
    int_sums sums = {0.0, 0.0, 0.0};
    *count = *n = 0;
    for (int k = 0; k < s->kernel_height * s->kernel_width; k++) {
        const int row = y + k / s->kernel_width, column = x + k % s->kernel_width;
        const int inside = row >= 0 && row < s->height && column >= 0 && column < s->width;
        *n += inside || (s->count_include_pad && row < s->height + s->top && column < s->width + s->left);
        *count += inside;
        if (inside) {
            const int at = (row * s->width + column) * s->channels + channel;
            sums.mean += mean_of(in, at);
            sums.sigma += sigma_of(in, at);
            sums.square += sigma_of(in, at) * sigma_of(in, at);
        }
    }
    return sums;
}

static void fuzz_int_pool(fuzz *f)
{
    lbnn_int_pool_shape s = any_int_pool(f);
    const int c = s.channels, taps = s.kernel_height * s.kernel_width, pixels = s.out_height * s.out_width;
    const int_map in = any_map(f, c * s.height * s.width);
    uint16_t *inverse = (uint16_t *)words_of(f, 2 * taps);
    for (int i = 0; i < taps; i++) {
        inverse[i] = inverse_of(i + 1);
    }
    s.inverse = (const uint16_t *)(const void *)fuzz_keep(f, (float *)(void *)inverse);
    int32_t *mean = empty_map(f, c * pixels), *sigma = empty_map(f, c * pixels);
    int_map out = {mean, sigma, {0, 0, 0, 0}};
    lbnn_int_pool(&s, in.mean, in.sigma, &in.scale, mean, sigma, &out.scale,
                  int_block(f, 2 * c + pixels));
    const int room = step_of(taps);
    for (int i = 0; i < c * pixels; i++) {
        int count, n;
        const int_sums sums = sums_of_window(&s, &in, i / c, i % c, &count, &n);
        const double lost = 3.1e-5 * fabs(sums.mean) / n + ldexp(power(in.scale.mean), room - 14 - step_of(n));
        check_element(&out, i, sums.mean / n, 1.0, lost, least_sigma(&sums, s.correlated, n),
                      most_sigma(&sums, s.correlated, count, n, room, power(in.scale.var)));
    }
    check_mantissas(f, &out, c * pixels, s.mean_bits, s.sigma_bits);
}
