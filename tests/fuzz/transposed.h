/* transposed.h: targets for transposed convolutions, included by kernels.c. */
#include "lbnn_conv_transposed.h"

/* Where along one axis the input of tap k lies, or -1: k is that of the kernel, not yet turned around. */
static int transposed_place(int out, int k, int size, int stride, int padding, int dilation)
{
    const int place = out + padding - k * dilation;
    return place >= 0 && place % stride == 0 && place / stride < size ? place / stride : -1;
}

static moments joined(moments before, moments sum)
{
    sum.mean = real_add(before.mean, sum.mean);
    sum.var = real_add(before.var, sum.var);
    return sum;
}

/* One output: tap after tap from the kernel's last to its first, of each all channels, in parts of lbnn_fold. */
static moments transposed_output(int kind, const float *e, const float *v, const float *w, const lbnn_conv_shape *s,
                                 int channel, int row, int column)
{
    const int outputs = s->out_channels / s->groups, channels = s->in_channels / s->groups;
    const int taps = s->kernel_height * s->kernel_width, group = channel / outputs, output = channel % outputs;
    const packed bias = packed_at(w, outputs, taps * channels, group, output, 0);
    const moments zero = {real_of(0.0f), real_of(0.0f)};
    moments sum = {real_of(bias.mean[0]), real_of(bias.mean[bias.width])}, before = zero;
    int added = 0, parts = 0;
    for (int tap = 0; tap < taps; tap++) {
        const int y = transposed_place(row, s->kernel_height - 1 - tap / s->kernel_width, s->in_height,
                                       s->stride_height, s->padding_height, s->dilation_height);
        const int x = transposed_place(column, s->kernel_width - 1 - tap % s->kernel_width, s->in_width,
                                       s->stride_width, s->padding_width, s->dilation_width);
        for (int c = 0; y >= 0 && x >= 0 && c < channels; c++) {
            if (added == lbnn_fold(kind)) {
                before = parts++ > 0 ? joined(before, sum) : sum;
                sum = zero;
                added = 0;
            }
            const int at = ((group * channels + c) * s->in_height + y) * s->in_width + x;
            sum = add_product(sum, kind, e[at], kind == LBNN_MOMENTS ? v[at] : 0.0f,
                              packed_at(w, outputs, taps * channels, group, output, tap * channels + c + 1));
            added++;
        }
    }
    return parts > 0 ? joined(before, sum) : sum;
}

static void check_transposed(fuzz *f, int kind, const float *e, const float *v, const float *w, const float *mean,
                             const float *var, const lbnn_conv_shape *s)
{
    for (int channel = 0; channel < s->out_channels; channel++) {
        for (int row = 0; row < s->out_height; row++) {
            for (int column = 0; column < s->out_width; column++) {
                const moments want = transposed_output(kind, e, v, w, s, channel, row, column);
                fuzz_mean(f, *mean++, want.mean);
                fuzz_variance(f, *var++, want.var);
            }
        }
    }
}

static int transposed_axis(int size, int kernel, int stride, int padding, int dilation, int more)
{
    const int out = (size - 1) * stride - 2 * padding + (kernel - 1) * dilation + 1;
    return (out > 0 ? out : 1) + more % (stride > dilation ? stride : dilation);
}

/* Many channels now and then, so that a sum has parts. */
static lbnn_conv_shape any_transposed(fuzz *f)
{
    lbnn_conv_shape s;
    s.groups = fuzz_size(f, 1, 3);
    s.in_channels = s.groups * fuzz_size(f, 1, s.groups == 1 ? 40 : 2);
    s.out_channels = s.groups * fuzz_size(f, 1, s.in_channels < 5 ? 9 : 2);
    s.in_height = fuzz_size(f, 1, 3);
    s.in_width = fuzz_size(f, 1, 4);
    s.kernel_height = fuzz_size(f, 1, 3);
    s.kernel_width = fuzz_size(f, 1, 4);
    s.stride_height = fuzz_size(f, 1, 3);
    s.stride_width = fuzz_size(f, 1, 4);
    s.dilation_height = fuzz_size(f, 1, 2);
    s.dilation_width = fuzz_size(f, 1, 4);
    s.padding_height = fuzz_size(f, 0, 2);
    s.padding_width = fuzz_size(f, 0, 3);
    s.out_height = transposed_axis(s.in_height, s.kernel_height, s.stride_height, s.padding_height,
                                   s.dilation_height, fuzz_size(f, 0, 3));
    s.out_width = transposed_axis(s.in_width, s.kernel_width, s.stride_width, s.padding_width, s.dilation_width,
                                  fuzz_size(f, 0, 3));
    return s;
}

static void fuzz_conv_transposed(fuzz *f)
{
    const lbnn_conv_shape s = any_transposed(f);
    const float *e = fuzz_means(f, conv_inputs(&s)), *v = fuzz_variances(f, conv_inputs(&s));
    const float *w = conv_weights(f, &s, LBNN_PACK - 1);
    float *mean = fuzz_output(f, conv_outputs(&s)), *var = fuzz_output(f, conv_outputs(&s));
    lbnn_conv_transposed(e, v, STORED(w), mean, var, &s);
    check_transposed(f, LBNN_MOMENTS, e, v, w, mean, var, &s);
}

static void fuzz_conv_transposed_point(fuzz *f)
{
    const lbnn_conv_shape s = any_transposed(f);
    const float *x = fuzz_means(f, conv_inputs(&s));
    const float *w = conv_weights(f, &s, LBNN_PACK - 1);
    float *mean = fuzz_output(f, conv_outputs(&s)), *var = fuzz_output(f, conv_outputs(&s));
    lbnn_conv_transposed_point(x, STORED(w), mean, var, &s);
    check_transposed(f, LBNN_POINT, x, x, w, mean, var, &s);
}
