/* Layers whose variances are products of factors: against the same sums with their products. */

/* The row of a block, which for biases has variances too. */
static packed rank1_at(const float *w, int outputs, int inputs, int group, int output, int row)
{
    const int block = output - output % LBNN_PACK;
    const int width = least(outputs - block, LBNN_PACK);
    const float *first = w + (inputs + 2) * (group * outputs + block);
    const packed at = {first + (row > 0 ? (row + 1) * width : 0) + output % LBNN_PACK, width};
    return at;
}

/* One output: E' = E[b] + E E[w];  V' = V[b] + V E[w]^2 + row (S column) */
static moments rank1_output(int kind, const float *e, const float *v, const float *w, const float *row,
                            const float *column, const lbnn_conv_shape *s, int channel, int at_row, int at_column)
{
    const int outputs = s->out_channels / s->groups, channels = s->in_channels / s->groups;
    const int group = channel / outputs, output = channel % outputs;
    const int inputs = channels * s->kernel_height * s->kernel_width;
    const packed bias = rank1_at(w, outputs, inputs, group, output, 0);
    moments sum = {real_of(bias.mean[0]), real_of(bias.mean[bias.width])};
    real shared = real_of(0.0f);
    for (int tap = 0; tap < inputs; tap++) {
        const int c = tap / (s->kernel_height * s->kernel_width);
        const int y = at_row * s->stride_height - s->padding_height
                      + tap / s->kernel_width % s->kernel_height * s->dilation_height;
        const int x = at_column * s->stride_width - s->padding_width + tap % s->kernel_width * s->dilation_width;
        const int inside = y >= 0 && y < s->in_height && x >= 0 && x < s->in_width;
        const int at = ((group * channels + c) * s->in_height + y) * s->in_width + x;
        const real mean = real_of(inside ? e[at] : 0.0f), var = real_of(inside && kind == LBNN_MOMENTS ? v[at] : 0.0f);
        const real weight = real_of(rank1_at(w, outputs, inputs, group, output, tap + 1).mean[0]);
        sum.mean = real_add(sum.mean, real_mul(mean, weight));
        sum.var = real_add(sum.var, real_mul(var, real_mul(weight, weight)));
        shared = real_add(shared, real_mul(real_add(var, real_mul(mean, mean)), real_of(column[tap])));
    }
    sum.var = real_add(sum.var, real_mul(real_of(row[channel]), shared));
    return sum;
}

static void check_rank1(fuzz *f, int kind, const float *e, const float *v, const float *w, const float *factors,
                        int step, const float *mean, const float *var, const lbnn_conv_shape *s)
{
    for (int channel = 0; channel < s->out_channels; channel++) {
        const int group = channel / (s->out_channels / s->groups);
        for (int row = 0; row < s->out_height; row++) {
            for (int column = 0; column < s->out_width; column++) {
                const moments want = rank1_output(kind, e, v, w, factors, factors + s->out_channels + group * step, s,
                                                  channel, row, column);
                fuzz_mean(f, *mean++, want.mean);
                fuzz_variance(f, *var++, want.var);
            }
        }
    }
}

/* Finite means, biases with their variances, and zeros at the end. */
static const float *rank1_weights(fuzz *f, const lbnn_conv_shape *s, int taps)
{
    const int mean_style = fuzz_finite_style(f), var_style = fuzz_finite_style(f);
    const int outputs = s->out_channels / s->groups;
    float *w = fuzz_block(f, s->out_channels * (taps + 2) + LBNN_PACK - 1);
    float *at = w;
    for (int g = 0; g < s->groups; g++) {
        for (int o = 0; o < outputs; o += LBNN_PACK) {
            const int width = least(outputs - o, LBNN_PACK);
            fuzz_fill(f, at, width, mean_style, 0);
            fuzz_fill(f, at + width, width, var_style, 1);
            fuzz_fill(f, at + 2 * width, width * taps, mean_style, 0);
            at += width * (taps + 2);
        }
    }
    memset(at, 0, (LBNN_PACK - 1) * sizeof *at);
    return fuzz_keep(f, w);
}

static const float *rank1_factors(fuzz *f, int n)
{
    float *factors = fuzz_block(f, n + LBNN_PACK - 1);
    fuzz_fill(f, factors, n, fuzz_finite_style(f), 1);
    memset(factors + n, 0, (LBNN_PACK - 1) * sizeof *factors);
    return fuzz_keep(f, factors);
}

typedef void rank1_kernel(const float *, const float *, const float *, const float *, float *, float *, float *,
                          const lbnn_conv_shape *, int);

/* `floats` of scratch; outputs of some may lie `over` inputs. */
static void fuzz_rank1(fuzz *f, int kind, rank1_kernel kernel, lbnn_conv_shape s, int floats, int over)
{
    const int taps = s.in_channels / s.groups * s.kernel_height * s.kernel_width;
    const int step = s.groups > 1 && fuzz_size(f, 0, 1) ? taps : 0;
    const float *e = fuzz_means(f, conv_inputs(&s));
    const float *v = kind == LBNN_MOMENTS ? fuzz_variances(f, conv_inputs(&s)) : e;
    const float *w = rank1_weights(f, &s, taps);
    const float *factors = rank1_factors(f, s.out_channels + (step ? s.groups : 1) * taps);
    float *mean = fuzz_output(f, conv_outputs(&s)), *var = fuzz_output(f, conv_outputs(&s));
    float *scratch = fuzz_output(f, floats);
    kernel(e, v, w, factors, mean, var, scratch, &s, step);
    check_rank1(f, kind, e, v, w, factors, step, mean, var, &s);
    if (over) {
        const overlap means = one_over_the_other(f, e, &s), vars = one_over_the_other(f, v, &s);
        kernel(means.from, vars.from, w, factors, means.to, vars.to, scratch, &s, step);
        fuzz_same(f, means.to, mean, conv_outputs(&s));
        fuzz_same(f, vars.to, var, conv_outputs(&s));
    }
}

/* What kernels take (factored_scratch of shapes.py): a plane of sums, or inputs if they need more. */
static int shared_len(const lbnn_conv_shape *s, int inputs)
{
    const int plane = s->out_height * s->out_width;
    return inputs > plane ? inputs : plane;
}

static void linear_rank1(const float *e, const float *v, const float *w, const float *factors, float *mean, float *var,
                         float *shared, const lbnn_conv_shape *s, int step)
{
    (void)shared, (void)step;
    lbnn_linear_rank1(e, v, w, factors, mean, var, s->in_width, s->out_channels);
}

static void linear_rank1_point(const float *e, const float *v, const float *w, const float *factors, float *mean,
                               float *var, float *shared, const lbnn_conv_shape *s, int step)
{
    (void)v, (void)shared, (void)step;
    lbnn_linear_rank1_point(e, w, factors, mean, var, s->in_width, s->out_channels);
}

static void fuzz_linear_rank1(fuzz *f) { fuzz_rank1(f, LBNN_MOMENTS, linear_rank1, linear_shape(f), 1, 0); }
static void fuzz_linear_rank1_point(fuzz *f)
{
    fuzz_rank1(f, LBNN_POINT, linear_rank1_point, linear_shape(f), 1, 0);
}

#define FUZZ_RANK1(name, make, floats, over)                                                                         \
    static void name##_point_of_moments(const float *e, const float *v, const float *w, const float *factors,        \
                                        float *mean, float *var, float *scratch, const lbnn_conv_shape *s, int step) \
    {                                                                                                                \
        (void)v;                                                                                                     \
        lbnn_##name##_point(e, w, factors, mean, var, scratch, s, step);                                             \
    }                                                                                                                \
    static void fuzz_##name(fuzz *f)                                                                                 \
    {                                                                                                                \
        const int kind = LBNN_MOMENTS;                                                                               \
        const lbnn_conv_shape s = make(f);                                                                           \
        fuzz_rank1(f, kind, lbnn_##name, s, floats, over);                                                           \
    }                                                                                                                \
    static void fuzz_##name##_point(fuzz *f)                                                                         \
    {                                                                                                                \
        const int kind = LBNN_POINT;                                                                                 \
        const lbnn_conv_shape s = make(f);                                                                           \
        fuzz_rank1(f, kind, name##_point_of_moments, s, floats, over);                                               \
    }

FUZZ_RANK1(conv2d_rank1, rows_of_any, s.out_height * s.out_width, 0)
FUZZ_RANK1(conv2d_3x3_rank1, conv_3x3, shared_len(&s, 18 * (kind == LBNN_MOMENTS ? 3 : 2) * s.in_channels), 0)
FUZZ_RANK1(conv2d_1x1_rank1, conv_1x1, patch_len(kind, &s), s.stride_height == 1 && s.stride_width == 1)
FUZZ_RANK1(conv2d_patch_rank1, one_group, shared_len(&s, patch_len(kind, &s)), 0)
