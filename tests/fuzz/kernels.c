/* kernels.c: a target for every kernel: arguments that keep its contract, and its formula in float64. */
#include "fuzz.h"

#ifdef FUZZ_HALF /* of the kernels alone: models have weights of their own */
#define LBNN_HALF_WEIGHTS
#endif
#define LBNN_EXPECT_ABI 3
#include "lbnn_activation.h"
#include "lbnn_conv.h"
#include "lbnn_conv_small.h"
#include "lbnn_dropout.h"
#include "lbnn_heads.h"
#include "lbnn_conv_rank1.h"
#include "lbnn_linear.h"
#include "lbnn_rank1.h"
#include "lbnn_piecewise.h"
#include "lbnn_pointwise.h"
#include "lbnn_pool.h"
#include "lbnn_stream.h"
#include "lbnn_pool_correlated.h"
#include "lbnn_upsample.h"
#include "lbnn_int_conv.h"
#include "lbnn_int_pad.h"
#include "smooth.h"
#include "tabulated.h"

/* A kernel's results over its inputs, or beside them. */
static float *output_over(fuzz *f, const float *in, int n, int in_place)
{
    return in_place ? fuzz_copy(f, in, n) : fuzz_output(f, n);
}

/* ---- linear layers and convolutions ------------------------------------------------------------- */

static int least(int a, int b)
{
    return a < b ? a : b;
}

#ifdef LBNN_HALF_WEIGHTS
/* What the kernel under test reads: the words of the weights drawn last. */
static const uint32_t *words;
#define STORED(w) ((void)(w), words)

/* Any half float but infinity and NaN, of the upper bits of a float. */
static uint32_t any_half(float x, uint32_t mask)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = bits >> 16 & mask;
    return (bits & 0x7c00u) == 0x7c00u ? bits ^ 0x4000u : bits;
}

/* Makes floats what half floats hold, and the words of them. */
static void half_weights(fuzz *f, float *at, int groups, int outputs, int inputs, int pad)
{
    uint32_t *to = (uint32_t *)(void *)fuzz_block(f, groups * outputs * (inputs + 2) + pad);
    words = to;
    for (int g = 0; g < groups; g++) {
        for (int o = 0; o < outputs; o += LBNN_PACK) {
            const int width = least(outputs - o, LBNN_PACK);
            memcpy(to, at, 2 * (size_t)width * sizeof *to);
            to += 2 * width;
            at += 2 * width;
            for (int row = 0; row < inputs; row++) {
                for (int i = 0; i < width; i++) {
                    const uint32_t mean = any_half(at[i], 0xffffu), sigma = any_half(at[width + i], 0x7fffu);
                    const float spread = lbnn_half_plain(sigma);
                    to[i] = mean | sigma << 16;
                    at[i] = lbnn_half_plain(mean);
                    at[width + i] = spread * spread;
                }
                to += width;
                at += 2 * width;
            }
        }
    }
    memset(to, 0, (size_t)pad * sizeof *to);
}
#else
#define STORED(w) (w)
#endif

/* Finite weights of a layer in the packing of lbnn_sums.h, and `pad` zeros. */
static const float *packed_weights(fuzz *f, int groups, int outputs, int inputs, int pad)
{
    const int mean_style = fuzz_finite_style(f), var_style = fuzz_finite_style(f);
    float *w = fuzz_block(f, 2 * groups * outputs * (inputs + 1) + pad);
    float *at = w;
    for (int g = 0; g < groups; g++) {
        for (int o = 0; o < outputs; o += LBNN_PACK) {
            const int width = least(outputs - o, LBNN_PACK);
            for (int row = 0; row <= inputs; row++) {
                fuzz_fill(f, at, width, mean_style, 0);
                fuzz_fill(f, at + width, width, var_style, 1);
                at += 2 * width;
            }
        }
    }
    memset(at, 0, (size_t)pad * sizeof *at);
#ifdef LBNN_HALF_WEIGHTS
    half_weights(f, w, groups, outputs, inputs, pad);
#endif
    return fuzz_keep(f, w);
}

/* The mean of a weight; its variance is `width` behind. Row 0 is the bias; outputs and inputs are those of one group. */
typedef struct {
    const float *mean;
    int width;
} packed;

static packed packed_at(const float *w, int outputs, int inputs, int group, int output, int row)
{
    const int block = output - output % LBNN_PACK;
    const int width = least(outputs - block, LBNN_PACK);
    const int rows = inputs + 1;
    const packed at = {w + 2 * rows * (group * outputs + block) + 2 * width * row + output % LBNN_PACK, width};
    return at;
}

typedef struct {
    real mean, var;
} moments;

/* E' += E E[w];  V' += V E[w]^2 + S V[w] */
static moments add_product(moments sum, int kind, float e, float v, packed weight)
{
    const real mean = real_of(e), w = real_of(weight.mean[0]), spread = real_of(weight.mean[weight.width]);
    real second = real_mul(mean, mean);
    sum.mean = real_add(sum.mean, real_mul(mean, w));
    if (kind == LBNN_MOMENTS) {
        sum.var = real_add(sum.var, real_mul(real_of(v), real_mul(w, w)));
        second = real_add(real_of(v), second);
    }
    sum.var = real_add(sum.var, real_mul(second, spread));
    return sum;
}

/* One output of a convolution; taps outside of the input are zeros that are multiplied like the others. */
static moments conv_output(int kind, const float *e, const float *v, const float *w, const lbnn_conv_shape *s,
                           int channel, int row, int column)
{
    const int outputs = s->out_channels / s->groups, channels = s->in_channels / s->groups;
    const int group = channel / outputs, output = channel % outputs;
    const int inputs = channels * s->kernel_height * s->kernel_width;
    const packed bias = packed_at(w, outputs, inputs, group, output, 0);
    moments sum = {real_of(bias.mean[0]), real_of(bias.mean[bias.width])};
    for (int tap = 0; tap < inputs; tap++) {
        const int c = tap / (s->kernel_height * s->kernel_width);
        const int y = row * s->stride_height - s->padding_height
                      + tap / s->kernel_width % s->kernel_height * s->dilation_height;
        const int x = column * s->stride_width - s->padding_width + tap % s->kernel_width * s->dilation_width;
        const int inside = y >= 0 && y < s->in_height && x >= 0 && x < s->in_width;
        const int at = ((group * channels + c) * s->in_height + y) * s->in_width + x;
        sum = add_product(sum, kind, inside ? e[at] : 0.0f, inside && kind == LBNN_MOMENTS ? v[at] : 0.0f,
                          packed_at(w, outputs, inputs, group, output, tap + 1));
    }
    return sum;
}

static void check_conv(fuzz *f, int kind, const float *e, const float *v, const float *w, const float *mean,
                       const float *var, const lbnn_conv_shape *s)
{
    for (int channel = 0; channel < s->out_channels; channel++) {
        for (int row = 0; row < s->out_height; row++) {
            for (int column = 0; column < s->out_width; column++) {
                const moments want = conv_output(kind, e, v, w, s, channel, row, column);
                fuzz_mean(f, *mean++, want.mean);
                fuzz_variance(f, *var++, want.var);
            }
        }
    }
}

typedef void conv_kernel(const float *, const float *, const lbnn_weight *, float *, float *, const lbnn_conv_shape *);
typedef void conv_point_kernel(const float *, const lbnn_weight *, float *, float *, const lbnn_conv_shape *);

static int conv_inputs(const lbnn_conv_shape *s)
{
    return s->in_channels * s->in_height * s->in_width;
}

static int conv_outputs(const lbnn_conv_shape *s)
{
    return s->out_channels * s->out_height * s->out_width;
}

static const float *conv_weights(fuzz *f, const lbnn_conv_shape *s, int pad)
{
    return packed_weights(f, s->groups, s->out_channels / s->groups,
                          s->in_channels / s->groups * s->kernel_height * s->kernel_width, pad);
}

static void fuzz_conv(fuzz *f, conv_kernel kernel, lbnn_conv_shape s)
{
    const float *e = fuzz_means(f, conv_inputs(&s)), *v = fuzz_variances(f, conv_inputs(&s));
    const float *w = conv_weights(f, &s, LBNN_PACK - 1);
    float *mean = fuzz_output(f, conv_outputs(&s)), *var = fuzz_output(f, conv_outputs(&s));
    kernel(e, v, STORED(w), mean, var, &s);
    check_conv(f, LBNN_MOMENTS, e, v, w, mean, var, &s);
}

static void fuzz_conv_point(fuzz *f, conv_point_kernel kernel, lbnn_conv_shape s)
{
    const float *x = fuzz_means(f, conv_inputs(&s));
    const float *w = conv_weights(f, &s, LBNN_PACK - 1);
    float *mean = fuzz_output(f, conv_outputs(&s)), *var = fuzz_output(f, conv_outputs(&s));
    kernel(x, STORED(w), mean, var, &s);
    check_conv(f, LBNN_POINT, x, x, w, mean, var, &s);
}

typedef void fast_kernel(const float *, const float *, const lbnn_weight *, float *, float *, const lbnn_conv_shape *,
                         float *);
typedef void fast_point_kernel(const float *, const lbnn_weight *, float *, float *, const lbnn_conv_shape *, float *);

typedef struct {
    float *from, *to;
} overlap;

/* A copy of the input and an output in one array: they begin at one place, or if the output is larger end at one. */
static overlap one_over_the_other(fuzz *f, const float *in, const lbnn_conv_shape *s)
{
    const int inputs = conv_inputs(s), outputs = conv_outputs(s), size = inputs > outputs ? inputs : outputs;
    float *all = fuzz_output(f, size);
    const overlap over = {all + size - inputs, all};
    memcpy(over.from, in, (size_t)inputs * sizeof *in);
    return over;
}

/* The fast forms have scratch, which begins with any bits; outputs of some may lie `over` inputs, mean over mean and
 * variance over variance. */
static void fuzz_fast(fuzz *f, fast_kernel kernel, lbnn_conv_shape s, int floats, int over)
{
    const float *e = fuzz_means(f, conv_inputs(&s)), *v = fuzz_variances(f, conv_inputs(&s));
    const float *w = conv_weights(f, &s, LBNN_PACK - 1);
    float *mean = fuzz_output(f, conv_outputs(&s)), *var = fuzz_output(f, conv_outputs(&s));
    float *scratch = fuzz_output(f, floats);
    kernel(e, v, STORED(w), mean, var, &s, scratch);
    check_conv(f, LBNN_MOMENTS, e, v, w, mean, var, &s);
    if (over) {
        const overlap means = one_over_the_other(f, e, &s), vars = one_over_the_other(f, v, &s);
        kernel(means.from, vars.from, STORED(w), means.to, vars.to, &s, scratch);
        fuzz_same(f, means.to, mean, conv_outputs(&s));
        fuzz_same(f, vars.to, var, conv_outputs(&s));
    }
}

static void fuzz_fast_point(fuzz *f, fast_point_kernel kernel, lbnn_conv_shape s, int floats, int over)
{
    const float *x = fuzz_means(f, conv_inputs(&s));
    const float *w = conv_weights(f, &s, LBNN_PACK - 1);
    float *mean = fuzz_output(f, conv_outputs(&s)), *var = fuzz_output(f, conv_outputs(&s));
    float *scratch = fuzz_output(f, floats);
    kernel(x, STORED(w), mean, var, &s, scratch);
    check_conv(f, LBNN_POINT, x, x, w, mean, var, &s);
    if (over) {
        const overlap means = one_over_the_other(f, x, &s);
        float *other = fuzz_output(f, conv_outputs(&s));
        kernel(means.from, STORED(w), means.to, other, &s, scratch);
        fuzz_same(f, means.to, mean, conv_outputs(&s));
        fuzz_same(f, other, var, conv_outputs(&s));
    }
}

/* Any shape: the size follows from the number of outputs; `rest` columns or rows are left over by the stride. `pads` are
 * those before the input and behind it. */
static int axis_size(int out, int kernel, int stride, int pads, int dilation, int rest)
{
    const int size = (out - 1) * stride + (kernel - 1) * dilation + 1 + rest % stride - pads;
    return size > 0 ? size : 1;
}

static lbnn_conv_shape any_conv(fuzz *f)
{
    lbnn_conv_shape s;
    s.groups = fuzz_size(f, 1, 3);
    s.in_channels = s.groups * fuzz_size(f, 1, 2);
    s.out_channels = s.groups * fuzz_size(f, 1, s.groups == 1 ? 17 : 3);
    s.kernel_height = fuzz_size(f, 1, 3);
    s.kernel_width = fuzz_size(f, 1, 4);
    s.stride_height = fuzz_size(f, 1, 3);
    s.stride_width = fuzz_size(f, 1, 3);
    s.dilation_height = fuzz_size(f, 1, 2);
    s.dilation_width = fuzz_size(f, 1, 3);
    s.padding_height = fuzz_size(f, 0, s.kernel_height);
    s.padding_width = fuzz_size(f, 0, s.kernel_width);
    const int rows = s.padding_height + fuzz_size(f, 0, s.kernel_height); /* of padding */
    const int columns = s.padding_width + fuzz_size(f, 0, s.kernel_width);
    s.in_height = axis_size(fuzz_size(f, 1, 3), s.kernel_height, s.stride_height, rows, s.dilation_height,
                            fuzz_size(f, 0, 2));
    s.in_width = axis_size(fuzz_size(f, 1, 13), s.kernel_width, s.stride_width, columns, s.dilation_width,
                           fuzz_size(f, 0, 2));
    s.out_height = (s.in_height + rows - s.dilation_height * (s.kernel_height - 1) - 1) / s.stride_height + 1;
    s.out_width = (s.in_width + columns - s.dilation_width * (s.kernel_width - 1) - 1) / s.stride_width + 1;
    return s;
}

/* Some rows of the output alone: those above are padding that is negative. Kernels whose output may lie over the input
 * are never called so (BAND_KERNELS of bands.py). */
static lbnn_conv_shape some_rows(fuzz *f, lbnn_conv_shape s)
{
    const int first = fuzz_size(f, 0, s.out_height - 1);
    return lbnn_conv_band(&s, first, fuzz_size(f, 1, s.out_height - first));
}

/* Stride 1, the input's size. */
static lbnn_conv_shape same_conv(int channels, int height, int width, int outputs, int kernel, int groups)
{
    const lbnn_conv_shape s = {channels, height, width, outputs, height, width, kernel, kernel,
                               1, 1, kernel / 2, kernel / 2, 1, 1, groups};
    return s;
}


static lbnn_conv_shape conv_3x3(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 3), height = fuzz_size(f, 1, 4), width = fuzz_size(f, 4, 11);
    return some_rows(f, same_conv(channels, height, width, fuzz_size(f, 1, 10), 3, 1));
}

/* A row or none above the input and below it, a column or none left and right of it. */
static lbnn_conv_shape depthwise(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 4), stride = fuzz_size(f, 1, 2), above = fuzz_size(f, 0, 1);
    const int left = fuzz_size(f, 0, 1), rows = above + fuzz_size(f, 0, 1), columns = left + fuzz_size(f, 0, 1);
    const int height = axis_size(fuzz_size(f, 1, 5), 3, stride, rows, 1, fuzz_size(f, 0, 1));
    const int width = axis_size(fuzz_size(f, 3, 19), 3, stride, columns, 1, fuzz_size(f, 0, 1));
    const lbnn_conv_shape s = {channels, height, width, channels, (height + rows - 3) / stride + 1,
                               (width + columns - 3) / stride + 1, 3, 3, stride, stride, above, left, 1, 1, channels};
    return s;
}

static lbnn_conv_shape conv_1x1(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 4), height = fuzz_size(f, 1, 4), width = fuzz_size(f, 1, 9);
    lbnn_conv_shape s = same_conv(channels, height, width, fuzz_size(f, 1, 11), 1, 1);
    s.stride_height = fuzz_size(f, 1, 3);
    s.stride_width = fuzz_size(f, 1, 3);
    s.out_height = (height - 1) / s.stride_height + 1;
    s.out_width = (width - 1) / s.stride_width + 1;
    return s;
}

static lbnn_conv_shape one_group(fuzz *f)
{
    lbnn_conv_shape s = any_conv(f);
    s.in_channels /= s.groups;
    s.out_channels /= s.groups;
    s.groups = 1;
    return some_rows(f, s);
}

static int patch_len(int kind, const lbnn_conv_shape *s)
{
    return LBNN_PATCH(kind, lbnn_conv_taps(s, s->in_channels));
}

#define FUZZ_FAST(name, make, floats, over)                            \
    static void fuzz_##name(fuzz *f)                                    \
    {                                                                   \
        const int kind = LBNN_MOMENTS;                                  \
        const lbnn_conv_shape s = make(f);                              \
        fuzz_fast(f, lbnn_##name, s, floats, over);                     \
        (void)kind;                                                     \
    }                                                                   \
    static void fuzz_##name##_point(fuzz *f)                            \
    {                                                                   \
        const int kind = LBNN_POINT;                                    \
        const lbnn_conv_shape s = make(f);                              \
        fuzz_fast_point(f, lbnn_##name##_point, s, floats, over);       \
        (void)kind;                                                     \
    }

static lbnn_conv_shape rows_of_any(fuzz *f) { return some_rows(f, any_conv(f)); }
static void fuzz_conv2d(fuzz *f) { fuzz_conv(f, lbnn_conv2d, rows_of_any(f)); }
static void fuzz_conv2d_point(fuzz *f) { fuzz_conv_point(f, lbnn_conv2d_point, rows_of_any(f)); }
FUZZ_FAST(conv2d_3x3, conv_3x3, 18 * (kind == LBNN_MOMENTS ? 3 : 2) * s.in_channels, 0)
FUZZ_FAST(conv2d_1x1, conv_1x1, patch_len(kind, &s), s.stride_height == 1 && s.stride_width == 1)
FUZZ_FAST(conv2d_patch, one_group, patch_len(kind, &s), 0)
FUZZ_FAST(depthwise_3x3, depthwise, s.stride_width == 2 ? 1 : 3 * lbnn_column_len(kind) * (s.in_width + 2), 1)

static void conv_small(const float *e, const float *v, const lbnn_weight *w, float *mean, float *var,
                       const lbnn_conv_shape *s)
{
    const int members[] = {s->in_channels / s->groups, s->in_height, s->in_width, s->out_channels / s->groups,
                           s->out_height, s->out_width, s->kernel_height, s->kernel_width, s->stride_height,
                           s->stride_width, s->padding_height, s->padding_width, s->dilation_height,
                           s->dilation_width, s->groups};
    uint16_t small[15];
    lbnn_conv_small_shape shape;
    for (int i = 0; i < 15; i++) {
        small[i] = (uint16_t)members[i];
    }
    memcpy(&shape, small, sizeof shape);
    lbnn_conv2d_small(e, v, w, mean, var, &shape);
}

/* Its weights end with what the last block lacks, no more. */
static void fuzz_conv2d_small(fuzz *f)
{
    const lbnn_conv_shape s = any_conv(f);
    const int lacking = (LBNN_PACK - s.out_channels / s.groups % LBNN_PACK) % LBNN_PACK;
    const float *e = fuzz_means(f, conv_inputs(&s)), *v = fuzz_variances(f, conv_inputs(&s));
    const float *w = conv_weights(f, &s, lacking);
    float *mean = fuzz_output(f, conv_outputs(&s)), *var = fuzz_output(f, conv_outputs(&s));
    conv_small(e, v, STORED(w), mean, var, &s);
    check_conv(f, LBNN_MOMENTS, e, v, w, mean, var, &s);
}

/* A linear layer is a convolution of one row with a kernel as wide as the row. */
static lbnn_conv_shape linear_shape(fuzz *f)
{
    const int inputs = fuzz_size(f, 1, 9), outputs = fuzz_size(f, 1, 41);
    const lbnn_conv_shape s = {1, 1, inputs, outputs, 1, 1, 1, inputs, 1, 1, 0, 0, 1, 1, 1};
    return s;
}

static void linear(const float *e, const float *v, const lbnn_weight *w, float *mean, float *var, const lbnn_conv_shape *s)
{
    lbnn_linear(e, v, w, mean, var, s->in_width, s->out_channels);
}

static void linear_point(const float *x, const lbnn_weight *w, float *mean, float *var, const lbnn_conv_shape *s)
{
    lbnn_linear_point(x, w, mean, var, s->in_width, s->out_channels);
}

static void fuzz_linear(fuzz *f) { fuzz_conv(f, linear, linear_shape(f)); }
static void fuzz_linear_point(fuzz *f) { fuzz_conv_point(f, linear_point, linear_shape(f)); }

#include "rank1.h"
#include "integers.h"
#include "integer_maxpool.h"
#include "integer_maps.h"
#include "integer_convs.h"

/* ---- pooling --------------------------------------------------------------------------------------- */

/* The outputs of PyTorch along an axis, also in ceil mode: the last window starts inside or in the padding before. */
static int pool_outputs(int size, int kernel, int stride, int padding, int ceil_mode)
{
    const int span = size + 2 * padding - kernel;
    const int out = (span + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    return ceil_mode && (out - 1) * stride >= size + padding ? out - 1 : out;
}

static lbnn_pool_shape any_pool(fuzz *f)
{
    lbnn_pool_shape s;
    s.channels = fuzz_size(f, 1, 3);
    s.kernel_height = fuzz_size(f, 1, 4);
    s.kernel_width = fuzz_size(f, 1, 4);
    s.stride_height = fuzz_size(f, 1, 4);
    s.stride_width = fuzz_size(f, 1, 4);
    s.padding_height = fuzz_size(f, 0, s.kernel_height / 2);
    s.padding_width = fuzz_size(f, 0, s.kernel_width / 2);
    s.in_height = fuzz_size(f, s.kernel_height, 9);
    s.in_width = fuzz_size(f, s.kernel_width, 9);
    s.out_height = pool_outputs(s.in_height, s.kernel_height, s.stride_height, s.padding_height, fuzz_size(f, 0, 1));
    s.out_width = pool_outputs(s.in_width, s.kernel_width, s.stride_width, s.padding_width, fuzz_size(f, 0, 1));
    s.count_include_pad = fuzz_size(f, 0, 1);
    s.out_gap = fuzz_size(f, 0, 3);
    return s;
}

static lbnn_pool_shape pool_2x2(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 3), height = fuzz_size(f, 2, 9), width = fuzz_size(f, 2, 9);
    const lbnn_pool_shape s = {channels, height, width, height / 2, width / 2, 2, 2, 2, 2, 0, 0, 1, fuzz_size(f, 0, 3)};
    return s;
}

static int pool_input_count(const lbnn_pool_shape *s)
{
    return s->channels * s->in_height * s->in_width;
}

typedef enum { POOLED_MEAN, POOLED_VARIANCE, POOLED_TOGETHER } pooled;

/* A term of the sum; where elements rise and fall together the root of a variance. */
static real pool_term(float x, pooled what)
{
    if (what != POOLED_TOGETHER || !is_finite(x)) {
        return real_of(x);
    }
    return x >= 0.0f ? real_near(sqrt((double)x), REAL_UNIT) : real_unknown(0);
}

/* sum / n, with a second division sum / n^2, or (sum / n)^2; n as PyTorch counts */
static real pool_output(const float *in, const lbnn_pool_shape *s, int channel, int row, int column, pooled what)
{
    const int top = row * s->stride_height - s->padding_height, left = column * s->stride_width - s->padding_width;
    const int bottom = least(top + s->kernel_height, s->in_height + s->padding_height);
    const int right = least(left + s->kernel_width, s->in_width + s->padding_width);
    real sum = real_of(0.0f);
    int inside = 0;
    for (int y = top; y < bottom; y++) {
        for (int x = left; x < right; x++) {
            if (y >= 0 && y < s->in_height && x >= 0 && x < s->in_width) {
                sum = real_add(sum, pool_term(in[(channel * s->in_height + y) * s->in_width + x], what));
                inside++;
            }
        }
    }
    const int n = s->count_include_pad ? (bottom - top) * (right - left) : inside;
    const real scale = real_near(1.0 / n, REAL_UNIT);
    const real mean = real_mul(scale, sum);
    return what == POOLED_TOGETHER ? real_mul(mean, mean) : what == POOLED_VARIANCE ? real_mul(real_mul(scale, scale), sum) : mean;
}

static void check_pool(fuzz *f, const float *in, const float *out, const lbnn_pool_shape *s, pooled what)
{
    for (int channel = 0; channel < s->channels; channel++, out += channel < s->channels ? s->out_gap : 0) {
        for (int row = 0; row < s->out_height; row++) {
            for (int column = 0; column < s->out_width; column++) {
                const real want = pool_output(in, s, channel, row, column, what);
                (what == POOLED_MEAN ? fuzz_mean : fuzz_variance)(f, *out++, want);
            }
        }
    }
}

/* In place where there is neither padding nor a gap. */
static int pool_in_place(fuzz *f, const lbnn_pool_shape *s)
{
    return fuzz_size(f, 0, 1) && s->padding_height + s->padding_width + s->out_gap == 0;
}

/* Behind the last plane there is no gap. */
static float *pool_results(fuzz *f, const float *in, const lbnn_pool_shape *s, int in_place)
{
    const int count = s->channels * (s->out_height * s->out_width + s->out_gap) - s->out_gap;
    return in_place ? fuzz_copy(f, in, pool_input_count(s)) : fuzz_output(f, count);
}

typedef void pool_kernel(const float *, const float *, float *, float *, const lbnn_pool_shape *);
typedef void pool_point_kernel(const float *, float *, const lbnn_pool_shape *);

static void fuzz_pool(fuzz *f, pool_kernel kernel, lbnn_pool_shape s, pooled what)
{
    const int n = pool_input_count(&s), in_place = pool_in_place(f, &s);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = pool_results(f, e, &s, in_place), *var = pool_results(f, v, &s, in_place);
    kernel(in_place ? mean : e, in_place ? var : v, mean, var, &s);
    check_pool(f, e, mean, &s, POOLED_MEAN);
    check_pool(f, v, var, &s, what);
}

static void fuzz_pool_point(fuzz *f, pool_point_kernel kernel, lbnn_pool_shape s)
{
    const int n = pool_input_count(&s), in_place = pool_in_place(f, &s);
    const float *x = fuzz_means(f, n);
    float *out = pool_results(f, x, &s, in_place);
    kernel(in_place ? out : x, out, &s);
    check_pool(f, x, out, &s, POOLED_MEAN);
}

static void fuzz_avg_pool(fuzz *f) { fuzz_pool(f, lbnn_avg_pool, any_pool(f), POOLED_VARIANCE); }
static void fuzz_avg_pool_point(fuzz *f) { fuzz_pool_point(f, lbnn_avg_pool_point, any_pool(f)); }
static void fuzz_avg_pool_2x2(fuzz *f) { fuzz_pool(f, lbnn_avg_pool_2x2, pool_2x2(f), POOLED_VARIANCE); }
static void fuzz_avg_pool_correlated(fuzz *f) { fuzz_pool(f, lbnn_avg_pool_correlated, any_pool(f), POOLED_TOGETHER); }
static void fuzz_avg_pool_2x2_point(fuzz *f) { fuzz_pool_point(f, lbnn_avg_pool_2x2_point, pool_2x2(f)); }

/* ---- activations ----------------------------------------------------------------------------------- */

/* Q, I1, J2 of the standard normal beyond x >= 0 */
typedef struct {
    double q, i1, j2;
} tail_of;

static tail_of tail_at(double x)
{
    const double phi = exp(-0.5 * x * x) / sqrt(2.0 * 3.14159265358979323846);
    tail_of tail = {0.5 * erfc(x / sqrt(2.0)), 0.0, 0.0};
    if (x < 37.0) {
        tail.i1 = phi - x * tail.q;
        tail.j2 = (1.0 + x * x) * tail.q - x * phi;
    }
    return tail;
}

/* What rounding E / sigma does to the tail: relative, it grows with the square. */
static double tail_error(double x)
{
    return 5e-6 + 3e-7 * fmin(x * x, 150.0);
}

/* The moments of max(a, l a), a ~ N(E, V): never an overflow. Beyond LBNN_TAIL_MAX the kernel leaves the tail out. */
static moments leaky_relu(float e, float v, float slope)
{
    moments out = {real_unknown(!is_finite(e)), real_unknown(!is_finite(v))};
    if (is_finite(e) && is_finite(v) && v >= 0.0f) {
        const double sigma = sqrt((double)v), x = v > 0.0f ? fabs((double)e) / sigma : 1e300;
        const double a = 1.0 - (double)slope, m = e < 0.0f ? (double)slope : 1.0, s = e < 0.0f ? -1.0 : 1.0;
        const tail_of tail = tail_at(x);
        const double ratio = m * m - 2.0 * s * a * m * tail.q + a * a * (tail.j2 - tail.i1 * tail.i1);
        const double mean = m * (double)e + a * sigma * tail.i1, var = (double)v * ratio;
        const real near_mean = {mean, tail_error(x) * (fabs(mean) + sqrt(var)) + 1e-32 * sigma + REAL_LEAST, 0, 0};
        const real near_var = {var, tail_error(x) * 2.0 * var + 1e-32 * (double)v + REAL_LEAST, 0, 0};
        out.mean = near_mean;
        out.var = near_var;
    }
    return out;
}

/* The formulas of lbnn_leaky_relu_clamped_of, the tail and what is divided by it known to its error. A clamp beyond
 * LBNN_TAIL_MAX is one at it. */
static moments leaky_relu_clamped(float e, float v, float slope, float clamp)
{
    moments out = {real_unknown(!is_finite(e)), real_unknown(!is_finite(e) || !is_finite(v))};
    if (!is_finite(e) || !is_finite(v) || v < 0.0f) {
        return out;
    }
    const double root = sqrt((double)v), ratio = v > 0.0f ? fabs((double)e) / root : 1e300;
    const double at = fmin(ratio, fmin((double)clamp, (double)LBNN_TAIL_MAX)), relative = tail_error(at);
    const tail_of tail = tail_at(at);
    const double step_at = tail.i1 / tail.q, hazard_at = (tail.i1 + at * tail.q) / (1.0 - tail.q);
    const real size = real_of(fabsf(e)), sigma = real_near(root, REAL_UNIT), x = real_near(at, 4.0 * REAL_UNIT);
    const real q = real_near(tail.q, relative), p = real_near(1.0 - tail.q, 4.0 * REAL_UNIT + relative * tail.q);
    const real step = real_near(step_at, relative), hazard = real_near(hazard_at, relative);
    const real own = real_of(e < 0.0f ? slope : 1.0f), other = real_of(e < 0.0f ? 1.0f : slope);
    const real body = real_mul(own, real_add(size, real_mul(sigma, hazard)));
    const real beyond = real_mul(other, real_sub(size, real_mul(sigma, real_add(x, step))));
    const double body_at = (1.0 - tail.q) * (1.0 - hazard_at * (at + hazard_at));
    const real body_var = real_mul(real_mul(own, own), real_near(body_at, 4.0 * relative));
    const real tail_var = real_mul(real_mul(other, other), real_near(tail.j2 - tail.i1 * step_at, 4.0 * relative));
    const real gap = real_sub(body, beyond);
    out.mean = real_add(real_mul(p, body), real_mul(q, beyond));
    out.mean = e < 0.0f ? real_negative(out.mean) : out.mean;
    out.var = real_add(real_mul(real_of(v), real_add(body_var, tail_var)), real_mul(real_mul(p, q), real_mul(gap, gap)));
    return out;
}

static float any_slope(fuzz *f)
{
    const float slopes[] = {0.0f, 1.0f, 0.01f, 0.1f, 1e-30f, 0.99999994f};
    const int choice = fuzz_size(f, 0, 11);
    return choice < 6 ? slopes[choice] : (float)fuzz_size(f, 0, 255) / 255.0f;
}

static float any_clamp(fuzz *f)
{
    const float clamps[] = {3.0f, LBNN_TAIL_MAX, 1e-6f, FLT_MAX};
    const int choice = fuzz_size(f, 0, 7);
    return choice < 4 ? clamps[choice] : LBNN_TAIL_MAX * (float)fuzz_size(f, 1, 255) / 255.0f;
}

static void fuzz_leaky_relu(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const float slope = any_slope(f);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n);
    lbnn_leaky_relu(mean, var, n, slope);
    for (int i = 0; i < n; i++) {
        const moments want = leaky_relu(e[i], v[i], slope);
        fuzz_mean(f, mean[i], want.mean);
        fuzz_variance(f, var[i], want.var);
    }
}

static void fuzz_leaky_relu_clamped(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const float slope = any_slope(f), clamp = any_clamp(f);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n);
    lbnn_leaky_relu_clamped(mean, var, n, slope, clamp);
    for (int i = 0; i < n; i++) {
        const moments want = leaky_relu_clamped(e[i], v[i], slope, clamp);
        fuzz_mean(f, mean[i], want.mean);
        fuzz_variance(f, var[i], want.var);
    }
}

static void fuzz_leaky_relu_point(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const float slope = any_slope(f);
    const float *x = fuzz_means(f, n);
    float *out = fuzz_copy(f, x, n);
    lbnn_leaky_relu_point(out, n, slope);
    for (int i = 0; i < n; i++) {
        fuzz_mean(f, out[i], x[i] < 0.0f ? real_mul(real_of(slope), real_of(x[i])) : real_of(x[i]));
    }
}

static void fuzz_abs(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n);
    lbnn_abs(mean, var, n);
    for (int i = 0; i < n; i++) {
        const moments want = leaky_relu(e[i], v[i], -1.0f);
        fuzz_mean(f, mean[i], want.mean);
        fuzz_variance(f, var[i], want.var);
    }
}

static void fuzz_abs_point(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const float *x = fuzz_means(f, n);
    float *out = fuzz_copy(f, x, n);
    lbnn_abs_point(out, n);
    for (int i = 0; i < n; i++) {
        fuzz_mean(f, out[i], real_of(fabsf(x[i])));
    }
}

/* A piecewise-linear function of up to four kinks, among them usual ones, as pack_pieces writes it. */
enum { FUZZ_KINKS = 4 };

typedef struct {
    int kinks;
    float table[LBNN_PIECE * (FUZZ_KINKS + 1) + 2];
} fuzz_pieces;

static fuzz_pieces any_pieces(fuzz *f)
{
    const float slopes[] = {0.0f, 1.0f, -1.0f, 0.16666667f, 0.01f, 3.0f}, gaps[] = {6.0f, 2.0f, 0.5f, 1e-3f, 1e3f};
    fuzz_pieces p = {fuzz_size(f, 1, FUZZ_KINKS), {0.0f}};
    double value = (double)(fuzz_size(f, 0, 4) - 2);
    float kink = (float)(fuzz_size(f, 0, 8) - 4), least = FLT_MAX;
    for (int i = 0; i <= p.kinks; i++) {
        float *piece = p.table + LBNN_PIECE * i;
        piece[0] = i > 0 ? kink : -FLT_MAX;
        piece[1] = slopes[fuzz_size(f, 0, 5)];
        piece[2] = kink;
        piece[3] = (float)value;
        if (i > 0 && i < p.kinks) {
            const float next = kink + gaps[fuzz_size(f, 0, 4)];
            least = next - kink < least ? next - kink : least;
            value = (double)piece[3] + (double)piece[1] * ((double)next - (double)kink);
            kink = next;
        }
    }
    p.table[LBNN_PIECE * (p.kinks + 1)] = FLT_MAX;
    p.table[LBNN_PIECE * (p.kinks + 1) + 1] = least;
    return p;
}

/* B and M of a cell from l to r standard deviations, by Gauss-Legendre in panels of at most a quarter. */
static void cell_of(double l, double r, double *b, double *m)
{
    const double nodes[] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363};
    const double weights[] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763};
    const int panels = (int)(4.0 * (r - l)) + 1;
    const double half = 0.5 * (r - l) / panels;
    *b = *m = 0.0;
    for (int i = 0; i < 8 * panels; i++) {
        const int node = i % 8 / 2;
        const double z = half * (2 * (i / 8) + 1 + (i % 2 ? nodes[node] : -nodes[node])); /* from l on */
        const double mass = half * weights[node] * 0.5 * erfc((l + z) / sqrt(2.0));
        *b += mass;
        *m += 2.0 * z * mass;
    }
}

/* The sums of lbnn_piecewise_cells over the pieces of one side, in float64, and what float32 may be off. */
typedef struct {
    double first, first_error, second, second_error;
} side_of;

static side_of piecewise_side(double e, double sigma, const fuzz_pieces *p, int left)
{
    const double sign = left ? -1.0 : 1.0;
    side_of out = {0.0, 0.0, 0.0, 0.0};
    double height = 0.0, size = 0.0, at = 0.0;
    for (int i = 0; i <= p->kinks && at < 12.0; i++) {
        const float *piece = p->table + LBNN_PIECE * (left ? p->kinks - i : i);
        const double slope = sign * (double)piece[1], ahead = sign * ((double)piece[left ? 0 : LBNN_PIECE] - e);
        const double whole = (double)piece[LBNN_PIECE] - (double)piece[0];
        const double d = ahead > 0.0 ? fmin(ahead, whole) : 0.0, w = fmin(d / sigma, 12.0);
        double b, m;
        if (d <= 0.0) {
            continue;
        }
        cell_of(at, at + w, &b, &m);
        const double relative = 10.0 * tail_error(at + fmin(w, 1.0));
        out.first += slope * sigma * b;
        out.first_error += relative * fabs(slope) * sigma * b;
        out.second += slope * sigma * (2.0 * height * b + slope * sigma * m);
        out.second_error += relative * fabs(slope) * sigma * (2.0 * size * b + fabs(slope) * sigma * m);
        height += slope * d;
        size += fabs(slope) * d;
        at += d / sigma;
    }
    return out;
}

static moments piecewise_of(float e, float v, const fuzz_pieces *p)
{
    moments out = {real_unknown(!is_finite(e)), real_unknown(!is_finite(v))};
    if (is_finite(e) && is_finite(v) && v >= 0.0f) {
        int own = 0;
        while (own < p->kinks && p->table[LBNN_PIECE * (own + 1)] < e) {
            own++;
        }
        const float *piece = p->table + LBNN_PIECE * own;
        const double line = (double)piece[3] + (double)piece[1] * ((double)e - (double)piece[2]);
        const double rounding = 4.0 * REAL_UNIT * (fabs((double)piece[3]) + fabs(line));
        const side_of nothing = {0.0, 0.0, 0.0, 0.0};
        const double sigma = sqrt((double)v);
        const side_of right = v > 0.0f ? piecewise_side((double)e, sigma, p, 0) : nothing;
        const side_of left = v > 0.0f ? piecewise_side((double)e, sigma, p, 1) : nothing;
        const double first = right.first + left.first, moved = right.first_error + left.first_error;
        const double second = right.second + left.second, spread = right.second_error + left.second_error;
        const int large = fabs((double)e) > 1e37 || v > 1e37f; /* three times that is not far from where floats end */
        const real mean = {line + first, rounding + moved + 1e-30 * sigma + 4.0 * REAL_LEAST, large, 0};
        const real var = {fmax(second - first * first, 0.0),
                          spread + 2.0 * fabs(first) * moved + 1e-30 * (double)v + 16.0 * REAL_LEAST, large, 0};
        out.mean = mean;
        out.var = var;
    }
    return out;
}

static void fuzz_piecewise(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const fuzz_pieces p = any_pieces(f);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n);
    lbnn_piecewise(mean, var, n, p.table, p.kinks);
    for (int i = 0; i < n; i++) {
        const moments want = piecewise_of(e[i], v[i], &p);
        fuzz_mean(f, mean[i], want.mean);
        fuzz_variance(f, var[i], want.var);
    }
}

static void fuzz_piecewise_point(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const fuzz_pieces p = any_pieces(f);
    const float *x = fuzz_means(f, n);
    float *out = fuzz_copy(f, x, n);
    lbnn_piecewise_point(out, n, p.table, p.kinks);
    for (int i = 0; i < n; i++) {
        fuzz_mean(f, out[i], piecewise_of(x[i], 0.0f, &p).mean);
    }
}

/* ---- pointwise ------------------------------------------------------------------------------------- */

static void fuzz_affine(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 5), plane = fuzz_size(f, 1, 9), n = channels * plane;
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    const float *scale = fuzz_finite(f, channels), *shift = fuzz_finite(f, channels);
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n);
    lbnn_affine(mean, var, scale, shift, channels, plane);
    for (int i = 0; i < n; i++) {
        const real s = real_of(scale[i / plane]);
        fuzz_mean(f, mean[i], real_add(real_mul(s, real_of(e[i])), real_of(shift[i / plane])));
        fuzz_variance(f, var[i], real_mul(real_mul(s, s), real_of(v[i])));
    }
}

static void fuzz_affine_point(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 5), plane = fuzz_size(f, 1, 9), n = channels * plane;
    const float *x = fuzz_means(f, n), *scale = fuzz_finite(f, channels), *shift = fuzz_finite(f, channels);
    float *out = fuzz_copy(f, x, n);
    lbnn_affine_point(out, scale, shift, channels, plane);
    for (int i = 0; i < n; i++) {
        fuzz_mean(f, out[i], real_add(real_mul(real_of(scale[i / plane]), real_of(x[i])), real_of(shift[i / plane])));
    }
}

enum { BESIDE, OVER_A, OVER_B };

static void fuzz_add(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20), where = fuzz_size(f, BESIDE, OVER_B);
    const float *a = fuzz_means(f, n), *av = fuzz_variances(f, n), *b = fuzz_means(f, n), *bv = fuzz_variances(f, n);
    float *mean = output_over(f, where == OVER_A ? a : b, n, where), *var = output_over(f, where == OVER_A ? av : bv, n, where);
    lbnn_add(where == OVER_A ? mean : a, where == OVER_A ? var : av, where == OVER_B ? mean : b,
             where == OVER_B ? var : bv, mean, var, n);
    for (int i = 0; i < n; i++) {
        fuzz_mean(f, mean[i], real_add(real_of(a[i]), real_of(b[i])));
        fuzz_variance(f, var[i], real_add(real_of(av[i]), real_of(bv[i])));
    }
}

static void fuzz_add_points(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20), where = fuzz_size(f, BESIDE, OVER_B);
    const float *a = fuzz_means(f, n), *b = fuzz_means(f, n);
    float *out = output_over(f, where == OVER_A ? a : b, n, where);
    lbnn_add_points(where == OVER_A ? out : a, where == OVER_B ? out : b, out, n);
    for (int i = 0; i < n; i++) {
        fuzz_mean(f, out[i], real_add(real_of(a[i]), real_of(b[i])));
    }
}

static void fuzz_shift(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20), in_place = fuzz_size(f, 0, 1);
    const float *a = fuzz_means(f, n), *v = fuzz_variances(f, n), *point = fuzz_means(f, n);
    float *mean = output_over(f, a, n, in_place), *var = output_over(f, v, n, in_place);
    lbnn_shift(in_place ? mean : a, in_place ? var : v, point, mean, var, n);
    for (int i = 0; i < n; i++) {
        fuzz_mean(f, mean[i], real_add(real_of(a[i]), real_of(point[i])));
    }
    fuzz_same(f, var, v, n);
}

static void fuzz_copy_kernel(fuzz *f)
{
    const int n = fuzz_size(f, 0, 20);
    const float *in = fuzz_means(f, n);
    float *out = fuzz_output(f, n);
    lbnn_copy(in, out, n);
    fuzz_same(f, out, in, n);
}

static void fuzz_concat(fuzz *f)
{
    const int count = fuzz_size(f, 1, 4), length = fuzz_size(f, 1, 9), between = fuzz_size(f, 0, 5);
    const int step = length + between;
    const float *in = fuzz_means(f, count * length);
    float *out = fuzz_output(f, count * step - between);
    lbnn_concat(in, out, count, length, step);
    for (int i = 0; i < count; i++) {
        fuzz_same(f, out + i * step, in + i * length, length);
        fuzz_untouched(f, out + i * step + length, i + 1 < count ? between : 0);
    }
}

static void fuzz_pad(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 3), height = fuzz_size(f, 1, 4), width = fuzz_size(f, 1, 5);
    const int top = fuzz_size(f, 0, 2), bottom = fuzz_size(f, 0, 2), left = fuzz_size(f, 0, 3), right = fuzz_size(f, 0, 3);
    const float zeros[12] = {0};
    const int columns = left + width + right, rows = top + height + bottom;
    const float *in = fuzz_means(f, channels * height * width);
    float *out = fuzz_output(f, channels * rows * columns);
    lbnn_pad(in, out, channels, height, width, top, bottom, left, right);
    for (int i = 0; i < channels * rows; i++, out += columns) {
        const int row = i % rows - top;
        if (row < 0 || row >= height) {
            fuzz_same(f, out, zeros, columns);
            continue;
        }
        fuzz_same(f, out, zeros, left);
        fuzz_same(f, out + left, in + (i / rows * height + row) * width, width);
        fuzz_same(f, out + left + width, zeros, right);
    }
}

static void fuzz_upsample(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 3), height = fuzz_size(f, 1, 4), width = fuzz_size(f, 1, 5);
    const int rows = fuzz_size(f, 1, 3), columns = fuzz_size(f, 1, 3);
    const float *in = fuzz_means(f, channels * height * width);
    float *out = fuzz_output(f, channels * height * rows * width * columns);
    lbnn_upsample(in, out, channels, height, width, rows, columns);
    for (int i = 0; i < channels * height * rows; i++) {
        for (int x = 0; x < width * columns; x++) {
            fuzz_same(f, out++, in + i / rows * width + x / columns, 1);
        }
    }
}

static void fuzz_dropout(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    const float noise = *fuzz_finite(f, 1), kept = 1.0f + noise;
    float *mean = fuzz_copy(f, e, n), *var = fuzz_copy(f, v, n);
    lbnn_dropout(mean, var, n, kept, noise);
    fuzz_same(f, mean, e, n);
    for (int i = 0; i < n && noise >= 0.0f && noise < 1e6f; i++) {
        const real square = real_mul(real_of(e[i]), real_of(e[i]));
        fuzz_variance(f, var[i], real_add(real_mul(real_of(kept), real_of(v[i])), real_mul(real_of(noise), square)));
    }
}

static void fuzz_dropout_point(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20), in_place = fuzz_size(f, 0, 1);
    const float *x = fuzz_means(f, n);
    const float noise = *fuzz_finite(f, 1);
    float *mean = output_over(f, x, n, in_place), *var = fuzz_output(f, n);
    lbnn_dropout_point(in_place ? mean : x, mean, var, n, noise);
    fuzz_same(f, mean, x, n);
    for (int i = 0; i < n && noise >= 0.0f && noise < 1e6f; i++) {
        fuzz_variance(f, var[i], real_mul(real_of(noise), real_mul(real_of(x[i]), real_of(x[i]))));
    }
}

static void fuzz_lift(fuzz *f)
{
    const int n = fuzz_size(f, 0, 20);
    const float zeros[20] = {0};
    float *var = fuzz_output(f, n);
    lbnn_lift(var, n);
    fuzz_same(f, var, zeros, n);
}

/* log(1 + e^x); below -87 the kernel stays at e^-87 = 1.6e-38. */
static real softplus(float x)
{
    if (!is_finite(x)) {
        return real_unknown(1);
    }
    real near = real_near(fmax((double)x, 0.0) + log1p(exp(-fabs((double)x))), 1e-5);
    near.error += 2e-38;
    return near;
}

static void fuzz_variance_head(fuzz *f)
{
    const int k = fuzz_size(f, 1, 20), in_place = fuzz_size(f, 0, 1);
    const float *e = fuzz_means(f, 2 * k), *v = fuzz_variances(f, 2 * k);
    float *mean = in_place ? fuzz_copy(f, e, 2 * k) : fuzz_output(f, k);
    float *var = in_place ? fuzz_copy(f, v, 2 * k) : fuzz_output(f, k);
    lbnn_variance_head(in_place ? mean : e, in_place ? var : v, mean, var, k);
    fuzz_same(f, mean, e, k);
    for (int i = 0; i < k; i++) {
        fuzz_variance(f, var[i], real_add(real_of(v[i]), softplus(e[k + i])));
    }
}

static void fuzz_variance_head_point(fuzz *f)
{
    const int k = fuzz_size(f, 1, 20), in_place = fuzz_size(f, 0, 1);
    const float *x = fuzz_means(f, 2 * k);
    float *mean = in_place ? fuzz_copy(f, x, 2 * k) : fuzz_output(f, k), *var = fuzz_output(f, k);
    lbnn_variance_head_point(in_place ? mean : x, mean, var, k);
    fuzz_same(f, mean, x, k);
    for (int i = 0; i < k; i++) {
        fuzz_variance(f, var[i], softplus(x[k + i]));
    }
}

/* ---- checks ---------------------------------------------------------------------------------------- */

static int all_finite(const float *x, int n)
{
    int all = 1;
    for (int i = 0; i < n; i++) {
        all = all && x[i] - x[i] == 0.0f;
    }
    return all;
}

static int all_variances(const float *x, int n)
{
    int all = all_finite(x, n);
    for (int i = 0; i < n; i++) {
        all = all && x[i] >= 0.0f;
    }
    return all;
}

static void fuzz_is_finite(fuzz *f)
{
    const int n = fuzz_size(f, 0, 20);
    const float *x = fuzz_means(f, n);
    fuzz_expect(lbnn_is_finite(x, n) == all_finite(x, n), "lbnn_is_finite is wrong");
}

static void fuzz_is_variance(fuzz *f)
{
    const int n = fuzz_size(f, 0, 20);
    const float *x = fuzz_size(f, 0, 1) ? fuzz_variances(f, n) : fuzz_means(f, n);
    fuzz_expect(lbnn_is_variance(x, n) == all_variances(x, n), "lbnn_is_variance is wrong");
}

static void fuzz_emit(fuzz *f)
{
    const int n = fuzz_size(f, 1, 20);
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = fuzz_output(f, n), *var = fuzz_output(f, n);
    const lbnn_status status = lbnn_emit(e, v, mean, var, n);
    const int right = all_finite(e, n) && all_variances(v, n);
    fuzz_expect(status == (right ? LBNN_OK : LBNN_ERROR_OUTPUT), "lbnn_emit gives the wrong status");
    if (right) {
        fuzz_same(f, mean, e, n);
        fuzz_same(f, var, v, n);
    } else {
        fuzz_untouched(f, mean, n);
        fuzz_untouched(f, var, n);
    }
}

static void fuzz_status_message(fuzz *f)
{
    const int code = -fuzz_size(f, 0, 255);
    const char *message = lbnn_status_message((lbnn_status)code);
    const int known = code == LBNN_OK || code == LBNN_ERROR_NULL || code == LBNN_ERROR_INPUT || code == LBNN_ERROR_OUTPUT
                      || code == LBNN_ERROR_OVERLAP;
    fuzz_expect((strcmp(message, "unknown status") != 0) == known, "a status has no message, or an unknown one has");
}

/* ---- heads ----------------------------------------------------------------------------------------- */

typedef void head_kernel(const float *mean, const float *var, float *probability, float *parts, float *scratch, int k);

/* Of logits that float arithmetic can hold the squares of, every head makes numbers from 0 to 1 and parts of an entropy;
 * those of a softmax sum to 1. Of any others it makes something. */
static void fuzz_head(fuzz *f, head_kernel *kernel, int scratch, int fewest, int sums_to_one)
{
    const int k = fuzz_size(f, fewest, 12);
    const float *e = fuzz_means(f, k), *v = fuzz_variances(f, k);
    float *p = fuzz_output(f, k), *parts = fuzz_output(f, 2);
    kernel(e, v, p, parts, fuzz_output(f, scratch * k), k);
    int tame = 1;
    for (int i = 0; i < k; i++) {
        tame = tame && e[i] > -1e17f && e[i] < 1e17f && v[i] >= 0.0f && v[i] < 1e34f;
    }
    if (!tame) {
        return;
    }
    float sum = 0.0f;
    for (int i = 0; i < k; i++) {
        fuzz_expect(p[i] >= 0.0f && p[i] <= 1.00001f, "a probability from 0 to 1");
        sum += p[i];
    }
    fuzz_expect(!sums_to_one || (sum > 0.99999f && sum < 1.00001f), "probabilities that sum to 1");
    fuzz_expect(parts[1] >= 0.0f && parts[1] <= parts[0] && parts[0] <= 8.5f, "an entropy and a part of it");
}

static void fuzz_softmax(fuzz *f)
{
    fuzz_head(f, lbnn_softmax, 10, 2, 1);
}

static void fuzz_softmax_fast(fuzz *f)
{
    fuzz_head(f, lbnn_softmax_fast, 1, 2, 1);
}

static void fuzz_sigmoid(fuzz *f)
{
    fuzz_head(f, lbnn_sigmoid, 2, 1, 0);
}

static void fuzz_largest(fuzz *f)
{
    const int k = fuzz_size(f, 1, 20);
    const float *x = fuzz_means(f, k);
    const int found = lbnn_largest(x, k);
    fuzz_expect(found >= 0 && found < k, "an index");
    for (int i = 0; i < k && all_finite(x, k); i++) {
        fuzz_expect(x[i] < x[found] || (x[i] == x[found] && i >= found), "the first of the largest");
    }
}

/* ---- streams: a ring is any bits, its position too ------------------------------------------------ */

static float *fuzz_ring(fuzz *f, int floats, int slots, int *slot)
{
    float *ring = fuzz_copy(f, fuzz_means(f, 1 + floats), 1 + floats);
    if (fuzz_size(f, 0, 3) > 0) {
        const uint32_t position = (uint32_t)fuzz_size(f, 0, slots - 1);
        memcpy(ring, &position, sizeof position);
    }
    uint32_t position;
    memcpy(&position, ring, sizeof position);
    *slot = position < (uint32_t)slots ? (int)position : 0;
    return ring;
}

static void fuzz_due(fuzz *f)
{
    float count[1] = {0.0f};
    const int first = fuzz_size(f, 1, 9), every = fuzz_size(f, 1, 9);
    for (int sample = 1; sample <= 40; sample++) {
        const int wanted = sample >= first && (sample - first) % every == 0;
        fuzz_expect(lbnn_due(count, first, every) == wanted, "due with the first sample and each `every`-th behind it");
    }
}

static void fuzz_ring_take(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 4), taps = fuzz_size(f, 2, 5), dilation = fuzz_size(f, 1, 4);
    const int slots = dilation * (taps - 1);
    int slot;
    const float *ring = fuzz_ring(f, channels * slots, slots, &slot);
    const float *column = fuzz_means(f, channels);
    float *window = fuzz_output(f, channels * taps);
    lbnn_ring_take(ring, column, window, channels, taps, dilation);
    for (int c = 0; c < channels; c++) {
        for (int t = 0; t + 1 < taps; t++) {
            fuzz_same(f, window + c * taps + t, ring + 1 + c * slots + (slot + t * dilation) % slots, 1);
        }
        fuzz_same(f, window + c * taps + taps - 1, column + c, 1);
    }
}

static void fuzz_ring_read(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 4), slots = fuzz_size(f, 1, 6), columns = fuzz_size(f, 1, slots);
    int slot;
    const float *ring = fuzz_ring(f, channels * slots, slots, &slot);
    float *window = fuzz_output(f, channels * columns);
    lbnn_ring_read(ring, window, channels, slots, columns);
    for (int i = 0; i < channels * columns; i++) {
        fuzz_same(f, window + i, ring + 1 + i / columns * slots + (slot + i % columns) % slots, 1);
    }
}

static void fuzz_ring_put(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 4), slots = fuzz_size(f, 1, 6);
    int slot;
    float *ring = fuzz_ring(f, channels * slots, slots, &slot);
    const float *before = fuzz_copy(f, ring, 1 + channels * slots);
    const float *column = fuzz_means(f, channels);
    lbnn_ring_put(ring, column, channels, slots);
    for (int i = 0; i < channels * slots; i++) {
        fuzz_same(f, ring + 1 + i, i % slots == slot ? column + i / slots : before + 1 + i, 1);
    }
    const uint32_t next = (uint32_t)((slot + 1) % slots);
    fuzz_expect(memcmp(ring, &next, sizeof next) == 0, "the next slot");
}

/* A whole window of columns against its sum in float64, from a position that is none. */
static void ring_average(fuzz *f, int power)
{
    const int channels = fuzz_size(f, 1, 3), kernel = fuzz_size(f, 0, 7) ? fuzz_size(f, 1, 9) : fuzz_size(f, 145, 300);
    const int stride = kernel + fuzz_size(f, 0, 2), floats = channels * (kernel > LBNN_FOLD ? 2 : 1);
    float *ring = fuzz_copy(f, fuzz_means(f, 1 + floats), 1 + floats);
    const float *columns = power ? fuzz_variances(f, channels * kernel) : fuzz_means(f, channels * kernel);
    float *out = fuzz_output(f, channels);
    const uint32_t start = 0xffffffffu;
    memcpy(ring, &start, sizeof start);
    for (int i = 0; i < kernel; i++) {
        lbnn_ring_sum(ring, columns + i * channels, channels, kernel, stride, power == 2);
    }
    lbnn_ring_mean(ring, out, channels, kernel, power);
    const real scale = real_near(1.0 / kernel, REAL_UNIT);
    for (int c = 0; c < channels; c++) {
        real sum = real_of(0.0f);
        for (int from = 0; from < kernel; from += LBNN_FOLD) { /* a part may overflow where one long sum need not */
            real part = real_of(0.0f);
            for (int i = from; i < least(kernel, from + LBNN_FOLD); i++) {
                const float x = columns[i * channels + c];
                part = real_add(part, power == 2 && is_finite(x) ? real_near(sqrt((double)x), REAL_UNIT) : real_of(x));
            }
            sum = real_add(sum, part);
        }
        const real mean = real_mul(scale, sum);
        if (power == 2) {
            fuzz_variance(f, out[c], real_mul(mean, mean));
        } else if (power == 1) {
            fuzz_variance(f, out[c], real_mul(real_mul(scale, scale), sum));
        } else {
            fuzz_mean(f, out[c], mean);
        }
    }
}

static void fuzz_ring_sum(fuzz *f)
{
    ring_average(f, 0);
}

static void fuzz_ring_mean(fuzz *f)
{
    ring_average(f, fuzz_size(f, 1, 2));
}
#include "elu.h"
#include "maxpool.h"
#include "hardswish.h"
#include "product.h"
#include "transposed.h"

const fuzz_target fuzz_kernels[] = {
    {"lbnn_add", fuzz_add},
    {"lbnn_add_points", fuzz_add_points},
    {"lbnn_affine", fuzz_affine},
    {"lbnn_affine_point", fuzz_affine_point},
    {"lbnn_avg_pool", fuzz_avg_pool},
    {"lbnn_avg_pool_2x2", fuzz_avg_pool_2x2},
    {"lbnn_avg_pool_2x2_point", fuzz_avg_pool_2x2_point},
    {"lbnn_avg_pool_correlated", fuzz_avg_pool_correlated},
    {"lbnn_avg_pool_point", fuzz_avg_pool_point},
    {"lbnn_concat", fuzz_concat},
    {"lbnn_conv2d", fuzz_conv2d},
    {"lbnn_conv2d_1x1", fuzz_conv2d_1x1},
    {"lbnn_conv2d_1x1_point", fuzz_conv2d_1x1_point},
    {"lbnn_conv2d_3x3", fuzz_conv2d_3x3},
    {"lbnn_conv2d_3x3_point", fuzz_conv2d_3x3_point},
    {"lbnn_conv2d_patch", fuzz_conv2d_patch},
    {"lbnn_conv2d_patch_point", fuzz_conv2d_patch_point},
    {"lbnn_conv2d_point", fuzz_conv2d_point},
    {"lbnn_conv2d_small", fuzz_conv2d_small},
    {"lbnn_conv_transposed", fuzz_conv_transposed},
    {"lbnn_conv_transposed_point", fuzz_conv_transposed_point},
    {"lbnn_copy", fuzz_copy_kernel},
    {"lbnn_depthwise_3x3", fuzz_depthwise_3x3},
    {"lbnn_depthwise_3x3_point", fuzz_depthwise_3x3_point},
    {"lbnn_emit", fuzz_emit},
    {"lbnn_is_finite", fuzz_is_finite},
    {"lbnn_is_variance", fuzz_is_variance},
    {"lbnn_leaky_relu", fuzz_leaky_relu},
    {"lbnn_leaky_relu_clamped", fuzz_leaky_relu_clamped},
    {"lbnn_leaky_relu_point", fuzz_leaky_relu_point},
    {"lbnn_abs", fuzz_abs},
    {"lbnn_abs_point", fuzz_abs_point},
    {"lbnn_hardswish", fuzz_hardswish},
    {"lbnn_hardswish_point", fuzz_hardswish_point},
    {"lbnn_piecewise", fuzz_piecewise},
    {"lbnn_piecewise_point", fuzz_piecewise_point},
    {"lbnn_lift", fuzz_lift},
    {"lbnn_int8_conv", fuzz_int8_conv},
    {"lbnn_int8_linear", fuzz_int8_linear},
    {"lbnn_int16_conv", fuzz_int16_conv},
    {"lbnn_int16_linear", fuzz_int16_linear},
    {"lbnn_int_add", fuzz_int_add},
    {"lbnn_int_affine", fuzz_int_affine},
    {"lbnn_int_emit", fuzz_int_emit},
    {"lbnn_int_known", fuzz_int_known},
    {"lbnn_int_level", fuzz_int_level},
    {"lbnn_int_map_add", fuzz_int_map_add},
    {"lbnn_int_map_affine", fuzz_int_map_affine},
    {"lbnn_int_map_leaky", fuzz_int_map_leaky},
    {"lbnn_int_map_means", fuzz_int_map_means},
    {"lbnn_int_map_sigmas", fuzz_int_map_sigmas},
    {"lbnn_int_max_pool", fuzz_int_max_pool},
    {"lbnn_int_moments", fuzz_int_moments},
    {"lbnn_int_narrow", fuzz_int_narrow},
    {"lbnn_int_pack_means", fuzz_int_pack},
    {"lbnn_int_pack_sigmas", fuzz_int_pack_sigmas},
    {"lbnn_int_pad", fuzz_int_pad},
    {"lbnn_int_pool", fuzz_int_pool},
    {"lbnn_int_pool_window", fuzz_int_pool_window},
    {"lbnn_int_roots_map", fuzz_int_roots_map},
    {"lbnn_int_settle", fuzz_int_settle},
    {"lbnn_int_shared", fuzz_int_shared},
    {"lbnn_int_unfold", fuzz_int_unfold},
    {"lbnn_int_variance_head", fuzz_int_variance_head},
    {"lbnn_linear_rank1", fuzz_linear_rank1},
    {"lbnn_linear_rank1_point", fuzz_linear_rank1_point},
    {"lbnn_conv2d_rank1", fuzz_conv2d_rank1},
    {"lbnn_conv2d_rank1_point", fuzz_conv2d_rank1_point},
    {"lbnn_conv2d_3x3_rank1", fuzz_conv2d_3x3_rank1},
    {"lbnn_conv2d_3x3_rank1_point", fuzz_conv2d_3x3_rank1_point},
    {"lbnn_conv2d_1x1_rank1", fuzz_conv2d_1x1_rank1},
    {"lbnn_conv2d_1x1_rank1_point", fuzz_conv2d_1x1_rank1_point},
    {"lbnn_conv2d_patch_rank1", fuzz_conv2d_patch_rank1},
    {"lbnn_conv2d_patch_rank1_point", fuzz_conv2d_patch_rank1_point},
    {"lbnn_linear", fuzz_linear},
    {"lbnn_linear_point", fuzz_linear_point},
    {"lbnn_pad", fuzz_pad},
    {"lbnn_dropout", fuzz_dropout},
    {"lbnn_dropout_point", fuzz_dropout_point},
    {"lbnn_upsample", fuzz_upsample},
    {"lbnn_due", fuzz_due},
    {"lbnn_ring_mean", fuzz_ring_mean},
    {"lbnn_ring_put", fuzz_ring_put},
    {"lbnn_ring_read", fuzz_ring_read},
    {"lbnn_ring_sum", fuzz_ring_sum},
    {"lbnn_ring_take", fuzz_ring_take},
    {"lbnn_shift", fuzz_shift},
    {"lbnn_status_message", fuzz_status_message},
    {"lbnn_largest", fuzz_largest},
    {"lbnn_sigmoid", fuzz_sigmoid},
    {"lbnn_elu", fuzz_elu},
    {"lbnn_elu_point", fuzz_elu_point},
    {"lbnn_smooth", fuzz_smooth},
    {"lbnn_smooth_point", fuzz_smooth_point},
    {"lbnn_tabulated", fuzz_tabulated},
    {"lbnn_tabulated_point", fuzz_tabulated_point},
    {"lbnn_softmax", fuzz_softmax},
    {"lbnn_softmax_fast", fuzz_softmax_fast},
    {"lbnn_variance_head", fuzz_variance_head},
    {"lbnn_variance_head_point", fuzz_variance_head_point},
    {"lbnn_max_pool", fuzz_max_pool},
    {"lbnn_max_pool_2x2", fuzz_max_pool_2x2},
    {"lbnn_max_pool_2x2_point", fuzz_max_pool_2x2_point},
    {"lbnn_max_pool_point", fuzz_max_pool_point},
    {"lbnn_multiply", fuzz_multiply},
    {"lbnn_multiply_known", fuzz_multiply_known},
    {"lbnn_multiply_point", fuzz_multiply_point},
    {0, 0},
};
