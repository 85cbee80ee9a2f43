/* Integer convolutions with all that is computed on the way, against float64: what a pixel may be is an interval, found of
 * what each step rounds, and goes through the activation and the pool by its ends. */

enum { KNOWN_WEIGHTS, FACTORS, FREE_SIGMAS };

typedef struct {
    int_layer l;
    lbnn_int_conv_shape shape;
    int form;
    double slope; /* 1 without an activation */
} int_conv;

/* From the least to the most that a mean and a sigma may be. */
typedef struct {
    double mean[2], sigma[2];
} int_range;

static int halves_of(int n)
{
    return (n + 1) / 2;
}

/* Weights of all groups, each as that of a linear layer of its own. */
static void int_conv_weights(fuzz *f, int_conv *c, int bits)
{
    const int n = c->l.layer.out_len * 2 * halves_of(c->l.layer.in_len);
    int8_t *w = (int8_t *)words_of(f, n * (bits == 8 ? 1 : 2));
    for (int i = 0; i < n; i++) {
        const int16_t x = (int16_t)(bits == 8 ? any_int(f, -127, 127) : any_int(f, -2047, 2047));
        if (bits == 8) {
            w[i] = (int8_t)x;
        } else {
            memcpy(w + 2 * i, &x, sizeof x);
        }
    }
    w = (int8_t *)(void *)fuzz_keep(f, (float *)(void *)w);
    c->l.layer.weight8 = bits == 8 ? w : 0;
    c->l.layer.weight16 = bits == 8 ? 0 : (const int16_t *)(const void *)w;
}

/* Factors of a group's inputs, filled up to an even number; or one for each channel, and sigmas as the weights stand. */
static void conv_variances(fuzz *f, int_conv *c)
{
    const int even = 2 * halves_of(c->l.layer.in_len), free = c->form == FREE_SIGMAS;
    const int n = free ? c->shape.channels : c->shape.groups * even, most = free ? 65535 : most_factor(c->l.layer.in_len);
    uint16_t *columns = (uint16_t *)words_of(f, 2 * n);
    for (int i = 0; i < n; i++) {
        columns[i] = (uint16_t)(free || i % even < c->l.layer.in_len ? any_int(f, 0, most) : 0);
    }
    c->l.layer.columns = (const uint16_t *)(const void *)fuzz_keep(f, (float *)(void *)columns);
    c->l.layer.spread_exponent = any_int(f, -60, 60);
    if (free) {
        uint8_t *sigmas = (uint8_t *)words_of(f, even * c->l.layer.out_len);
        for (int i = 0; i < even * c->l.layer.out_len; i++) {
            sigmas[i] = (uint8_t)any_int(f, 0, 255);
        }
        c->l.layer.free = (const uint8_t *)(const void *)fuzz_keep(f, (float *)(void *)sigmas);
    }
}

static int_conv any_int_conv(fuzz *f, int bits, uint16_t *table)
{
    int_conv c;
    memset(&c, 0, sizeof c);
    lbnn_int_conv_shape *s = &c.shape;
    s->groups = fuzz_size(f, 0, 2) ? 1 : fuzz_size(f, 2, 3);
    s->inputs = fuzz_size(f, 1, 4);
    s->outputs = fuzz_size(f, 1, 3);
    s->channels = s->groups * s->inputs;
    s->height = fuzz_size(f, 1, 5);
    s->width = fuzz_size(f, 1, 5);
    s->out_height = fuzz_size(f, 1, 3);
    s->out_width = fuzz_size(f, 1, 3);
    s->kernel_height = fuzz_size(f, 1, 3);
    s->kernel_width = fuzz_size(f, 1, 3);
    s->stride_height = fuzz_size(f, 1, 2);
    s->stride_width = fuzz_size(f, 1, 2);
    s->top = fuzz_size(f, 0, 3);
    s->left = fuzz_size(f, 0, 3);
    s->dilation_height = fuzz_size(f, 1, 2);
    s->dilation_width = fuzz_size(f, 1, 2);
    s->pool_height = fuzz_size(f, 0, 1) ? 1 : fuzz_size(f, 1, 2);
    s->pool_width = fuzz_size(f, 0, 1) ? 1 : fuzz_size(f, 1, 3);
    s->inverse = inverse_of(s->pool_height * s->pool_width);
    s->correlated = fuzz_size(f, 0, 1);
    int mean_bits, sigma_bits;
    any_bits(f, &mean_bits, &sigma_bits);
    s->mean_bits = mean_bits;
    s->sigma_bits = sigma_bits;
    c.slope = any_tail(f, table, 0);
    s->tail = c.slope < 1.0 ? table : 0;
    const int in = s->inputs * s->kernel_height * s->kernel_width, weight = bits == 8 ? 127 : 2047;
    c.form = fuzz_size(f, 0, 2);
    c.l.layer.in_len = in;
    c.l.layer.out_len = s->groups * s->outputs;
    c.l.layer.free_bits = most_bits(in, 255, 8, 14);
    c.l.layer.column_exponent = any_int(f, -40, 40);
    c.l.layer.scale_exponent = any_int(f, -60, 60);
    c.l.layer.spread_exponent = LBNN_INT_NONE;
    c.l.layer.bias_exponent = any_exponent(f);
    c.l.layer.noise_exponent = any_exponent(f);
    c.l.layer.rows = any_rows(f, c.l.layer.out_len);
    c.l.bits = bits;
    c.l.sigma_bits = most_bits(in, weight, bits, 14);
    for (c.l.mean_bits = 15; (int64_t)in * weight << c.l.mean_bits > 1 << 30; c.l.mean_bits--) {
    }
    int_conv_weights(f, &c, bits);
    if (c.form != KNOWN_WEIGHTS) {
        conv_variances(f, &c);
    }
    return c;
}

/* Where the weight of a group's row and input stands. */
static int conv_place(const int_conv *c, int row, int i, int pairs)
{
    const int even = 2 * halves_of(c->l.layer.in_len), own = row % c->shape.outputs, first = row - own;
    const int alone = !pairs || (own == c->shape.outputs - 1 && own % 2 == 0);
    return alone ? row * even + i : (first + (own & ~1)) * even + 2 * i + (own & 1);
}

/* Sums of a pixel over its window: e w, (s w)^2, and what the variances of weights are times of. */
typedef struct {
    double mean, square, shared, more;
} int_pixel;

static int_pixel conv_sums(const int_conv *c, const int_map *in, int row, int y, int x)
{
    const lbnn_int_conv_shape *s = &c->shape;
    const int group = row / s->outputs, even = 2 * halves_of(c->l.layer.in_len);
    const double unit = ldexp(fmax(2.0 * power(in->scale.mean), power(in->scale.var)), c->l.layer.column_exponent - 16);
    int_pixel sums = {0.0, 0.0, 0.0, 0.0};
    for (int i = 0; i < c->l.layer.in_len; i++) {
        const int channel = i % s->inputs, tap = i / s->inputs;
        const int down = y + tap / s->kernel_width * s->dilation_height, across = x + tap % s->kernel_width * s->dilation_width;
        if (down < 0 || down >= s->height || across < 0 || across >= s->width) {
            continue;
        }
        const int at = (down * s->width + across) * s->channels + group * s->inputs + channel;
        const double e = mean_of(in, at), v = sigma_of(in, at);
        const double w = c->l.bits == 8 ? c->l.layer.weight8[conv_place(c, row, i, 1)]
                                        : c->l.layer.weight16[conv_place(c, row, i, 0)];
        sums.mean += e * w;
        sums.square += v * v * w * w;
        if (c->form == FACTORS) {
            const double beta = ldexp(c->l.layer.columns[group * even + i], c->l.layer.column_exponent - 15);
            sums.shared += beta * beta * (e * e + v * v);
        } else if (c->form == FREE_SIGMAS) {
            const double u = c->l.layer.free[conv_place(c, row, i, 1)], p = c->l.layer.columns[group * s->inputs + channel];
            const double sigma = ldexp(u * p, c->l.layer.column_exponent - 16);
            sums.shared += sigma * sigma * (e * e + v * v);
            sums.more += 2.0 * u * u * p * p * unit * unit; /* E^2 and V are both rounded up */
        }
    }
    return sums;
}

/* A sum of n squares whose roots are off by `each`. */
static double less(double sum, double each, int n)
{
    const double root = fmax(sqrt(sum) - each * sqrt(n), 0.0);
    return root * root;
}

static double more(double sum, double each, int n)
{
    const double root = sqrt(sum) + each * sqrt(n);
    return root * root;
}

/* The unit of means of pixels. */
static double conv_unit(const int_conv *c, const int_map *in)
{
    return fmax(ldexp(power(in->scale.mean), c->l.layer.scale_exponent + 1), power(c->l.layer.bias_exponent));
}

/* What a pixel may be before its activation. `roots` is the exponent that lbnn_int_roots_map gave. */
static int_range conv_pixel(const int_conv *c, const int_map *in, int row, int y, int x, int32_t roots)
{
    const lbnn_int_layer *l = &c->l.layer;
    const uint16_t *r = l->rows + LBNN_INT_ROW * row;
    const int_pixel sums = conv_sums(c, in, row, y, x);
    const double mean = sums.mean * fabs(row_scale(l, r)) + row_bias(l, r);
    const double step = 3.0 * conv_unit(c, in);
    const double unit = ldexp(power(in->scale.var), c->l.bits), square = row_square(l, r);
    const int32_t top = lbnn_int_larger(in->scale.mean, in->scale.var);
    double each = 0.0, wide = power(l->noise_exponent), shared[2] = {0.0, 0.0};
    if (c->form == FACTORS && top != LBNN_INT_NONE) {
        each = ldexp(power(top), l->column_exponent + 1);
        shared[0] = less(sums.shared, 0.71 * each, l->in_len);
        shared[1] = more(sums.shared, 0.71 * each, l->in_len) + (l->in_len / 4.0 + 3.0) * each * each;
    } else if (c->form == FREE_SIGMAS && roots != LBNN_INT_NONE) {
        each = sqrt(power(roots));
        shared[0] = less(sums.shared * 0.999, 1.5 * each, l->in_len);
        shared[1] = more((sums.shared + sums.more) * 1.001, 1.5 * each, l->in_len) + each * each;
    }
    wide = fmax(wide, fmax(ldexp(unit * unit, 2 * l->scale_exponent), each * each * power(l->spread_exponent)));
    const double a = l->spread_exponent == LBNN_INT_NONE ? 0.0 : ldexp(r[2], l->spread_exponent - 16 - (r[4] >> 5 & 31));
    const double noise = r[3] * power(l->noise_exponent) * 4096.0 / ldexp(1.0, r[4] >> 10 & 31);
    const double low = less(sums.square, unit, l->in_len) * square + a * shared[0] + noise;
    const double high = (more(sums.square, unit, l->in_len) + unit * unit) * square + a * shared[1] + noise;
    const int_range range = {{mean - step, mean + step},
                             {sqrt(fmax(low - 4.0 * wide, 0.0)) * (1.0 - 3e-4), sqrt(high + 2.0 * wide) * (1.0 + 3e-4)}};
    return range;
}

/* All ends of a range through the activation: both results grow with both. */
static int_range activated_range(const int_range *in, double slope)
{
    int_range out = {{HUGE_VAL, -HUGE_VAL}, {HUGE_VAL, -HUGE_VAL}};
    for (int i = 0; i < 4; i++) {
        double mean = in->mean[i & 1], sigma = in->sigma[i >> 1];
        const double lost = slope < 1.0 ? 1.2e-3 * in->sigma[1] + 4e-5 * fabs(mean) : 0.0;
        activated(&mean, &sigma, slope);
        out.mean[0] = fmin(out.mean[0], mean - lost);
        out.mean[1] = fmax(out.mean[1], mean + lost);
        out.sigma[0] = fmin(out.sigma[0], slope < 1.0 ? 0.98 * sigma : sigma);
        out.sigma[1] = fmax(out.sigma[1], slope < 1.0 ? 1.02 * sigma + 6e-3 * in->sigma[1] : sigma);
    }
    return out;
}

/* The average over a window of the pool. Its pixels have 15 and 14 bits of the largest of all channels. */
static int_range conv_pooled(const int_conv *c, const int_map *in, int row, int pixel, int32_t roots)
{
    const lbnn_int_conv_shape *s = &c->shape;
    const int n = s->pool_height * s->pool_width;
    const int y = pixel / s->out_width * s->pool_height * s->stride_height - s->top;
    const int x = pixel % s->out_width * s->pool_width * s->stride_width - s->left;
    double largest = 0.0, widest = 0.0, squares[2] = {0.0, 0.0};
    int_range sum = {{0.0, 0.0}, {0.0, 0.0}};
    for (int k = 0; k < n * c->l.layer.out_len; k++) {
        const int tap = k / c->l.layer.out_len, own = k % c->l.layer.out_len;
        const int_range wide = conv_pixel(c, in, own, y + tap / s->pool_width * s->stride_height,
                                          x + tap % s->pool_width * s->stride_width, roots);
        const int_range range = activated_range(&wide, c->slope);
        largest = fmax(largest, fmax(fabs(wide.mean[0]), fabs(wide.mean[1])) + wide.sigma[1]);
        widest = fmax(widest, wide.sigma[1]);
        for (int end = 0; end < 2 && own == row; end++) {
            sum.mean[end] += range.mean[end];
            sum.sigma[end] += range.sigma[end];
            squares[end] += range.sigma[end] * range.sigma[end];
        }
    }
    for (int end = 0; end < 2; end++) {
        const double sign = end ? 1.0 : -1.0, lost = n > 1 ? ldexp(largest, -12) + 4.0 * conv_unit(c, in) : 0.0;
        sum.mean[end] = sum.mean[end] / n + sign * lost;
        sum.sigma[end] = (s->correlated ? sum.sigma[end] : sqrt(squares[end])) / n * (n > 1 ? 1.0 + sign * 1e-3 : 1.0);
    }
    sum.sigma[1] += n > 1 ? ldexp(widest, -9) : 0.0;
    return sum;
}

static void fuzz_int_conv(fuzz *f, int bits)
{
    uint16_t table[3 * LBNN_INT_TAIL + 2];
    const int_conv c = any_int_conv(f, bits, table);
    const lbnn_int_conv_shape *s = &c.shape;
    const int n = s->channels * s->height * s->width, channels = c.l.layer.out_len, words = halves_of(c.l.layer.in_len);
    const int pixels = s->out_height * s->out_width, taps = s->pool_height * s->pool_width;
    const int_map in = any_bounded_map(f, n, (1 << c.l.mean_bits) - 1, 1 << c.l.sigma_bits);
    lbnn_int_spread spread;
    lbnn_int_no_spread(&spread);
    if (c.form == FREE_SIGMAS) {
        lbnn_int_roots_map(&c.l.layer, s, in.mean, in.sigma, &in.scale, int_block(f, halves_of(n)), &spread);
    }
    const int32_t roots = spread.exponent;
    int32_t *mean = empty_map(f, channels * pixels), *sigma = empty_map(f, channels * pixels);
    int_map out = {mean, sigma, {0, 0, 0, 0}};
    const int each = c.form == FREE_SIGMAS || s->groups > 1 ? channels : 1;
    (bits == 8 ? lbnn_int8_conv : lbnn_int16_conv)(&c.l.layer, s, in.mean, in.sigma, &in.scale, &spread, mean, sigma,
                                                  &out.scale,
                                                  int_block(f, 2 * taps * channels + 2 * words + pixels + taps * each));
    for (int i = 0; i < channels * pixels; i++) {
        const int_range want = conv_pooled(&c, &in, i % channels, i / channels, roots);
        const double e = mean_of(&out, i), v = sigma_of(&out, i), unit = 2.0 * power(out.scale.mean);
        fuzz_expect(e >= want.mean[0] - unit && e <= want.mean[1] + unit, "a convolution's mean is not what float64 gives");
        fuzz_expect(v >= want.sigma[0] * (1.0 - 4e-4), "a convolution's sigma is smaller than it is");
        fuzz_expect(v <= want.sigma[1] * (1.0 + 4e-4) + 2.0 * power(out.scale.var), "a convolution's sigma is larger than it is");
        fuzz_expect(want.sigma[0] <= 0.0 || lbnn_int_at(sigma, i) > 0, "a convolution's sigma becomes zero");
    }
    check_mantissas(f, &out, channels * pixels, s->mean_bits, s->sigma_bits);
}

static void fuzz_int8_conv(fuzz *f) { fuzz_int_conv(f, 8); }
static void fuzz_int16_conv(fuzz *f) { fuzz_int_conv(f, 12); }

/* p = c sqrt(E^2 + V) with its bits, at least 1. */
static void fuzz_int_roots_map(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 5), pixels = fuzz_size(f, 1, 5), n = channels * pixels;
    uint16_t *columns = (uint16_t *)words_of(f, 2 * channels);
    for (int i = 0; i < channels; i++) {
        columns[i] = (uint16_t)any_int(f, 0, 65535);
    }
    lbnn_int_layer layer;
    lbnn_int_conv_shape shape;
    memset(&layer, 0, sizeof layer);
    memset(&shape, 0, sizeof shape);
    layer.columns = (const uint16_t *)(const void *)fuzz_keep(f, (float *)(void *)columns);
    layer.free_bits = fuzz_size(f, 1, 14);
    layer.column_exponent = any_int(f, -40, 40);
    shape.channels = channels;
    shape.height = 1;
    shape.width = pixels;
    const int_map in = any_map(f, n);
    int32_t *roots = int_block(f, halves_of(n));
    lbnn_int_spread spread;
    lbnn_int_roots_map(&layer, &shape, in.mean, in.sigma, &in.scale, roots, &spread);
    digest_words(f, roots, halves_of(n));
    const double unit = ldexp(1.0, spread.exponent / 2 - 8 - layer.column_exponent); /* of p, without its column's scale */
    const double least = fmax(2.0 * power(in.scale.mean), power(in.scale.var));
    for (int i = 0; i < n; i++) {
        const double e = mean_of(&in, i), s = sigma_of(&in, i), column = columns[i % channels] / 65536.0;
        const double low = sqrt(e * e + s * s) * column, high = sqrt(e * e + s * s + 2.0 * least * least) * column;
        const int32_t p = lbnn_int_at(roots, i);
        fuzz_expect(p >= 0 && p <= 1 << layer.free_bits && (p > 0) == (e * e + s * s > 0.0), "a root leaves its bits, or is none");
        fuzz_expect(p == 0 || p * unit >= low * (1.0 - 3e-4) - unit, "a root is smaller than it is");
        fuzz_expect(p <= 1 || p * unit <= high * (1.0 + 3e-4) + unit, "a root is larger than it is");
    }
}
