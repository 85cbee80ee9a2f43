/* Max pooling in integers: what holds of the largest of any Gaussians, with a bound for every rounding. */
#include "lbnn_int_maxpool.h"

static lbnn_int_max_shape any_max_shape(fuzz *f)
{
    lbnn_int_max_shape s = {fuzz_size(f, 1, 3), fuzz_size(f, 1, 6), fuzz_size(f, 1, 6), 0, 0, fuzz_size(f, 1, 5),
                            fuzz_size(f, 1, 5), fuzz_size(f, 1, 3), fuzz_size(f, 1, 3), 0, 0, 1, 1,
                            fuzz_size(f, 4, 15), fuzz_size(f, 1, 14)};
    s.kernel_height = least(s.kernel_height, s.height);
    s.kernel_width = least(s.kernel_width, s.width);
    s.top = fuzz_size(f, 0, s.kernel_height / 2);
    s.left = fuzz_size(f, 0, s.kernel_width / 2);
    if (fuzz_size(f, 0, 3) == 0 && 2 * (s.kernel_height - 1) < s.height && 2 * (s.kernel_width - 1) < s.width) {
        s.dilation_height = 2;
        s.dilation_width = 2;
    }
    s.out_height = (s.height + 2 * s.top - s.dilation_height * (s.kernel_height - 1) - 1) / s.stride_height + 1;
    s.out_width = (s.width + 2 * s.left - s.dilation_width * (s.kernel_width - 1) - 1) / s.stride_width + 1;
    return s;
}

/* Of one channel of a window: the largest mean and sigma, and whether every sigma is above zero. */
typedef struct {
    double mean, sigma;
    int all, seen;
} max_window;

static max_window window_of(const lbnn_int_max_shape *s, const int32_t *e, const int32_t *sigma, int pixel, int channel)
{
    max_window w = {-1e30, 0.0, 1, 0};
    for (int k = 0; k < s->kernel_height * s->kernel_width; k++) {
        const int y = pixel / s->out_width * s->stride_height - s->top + k / s->kernel_width * s->dilation_height;
        const int x = pixel % s->out_width * s->stride_width - s->left + k % s->kernel_width * s->dilation_width;
        if (y >= 0 && y < s->height && x >= 0 && x < s->width) {
            const int at = (y * s->width + x) * s->channels + channel;
            w.mean = fmax(w.mean, lbnn_int_at(e, at));
            w.sigma = fmax(w.sigma, lbnn_int_at(sigma, at));
            w.all = w.all && lbnn_int_at(sigma, at) > 0;
            w.seen++;
        }
    }
    return w;
}

/* The mean is at least the largest, and above it by at most 0.5642 of the largest sigma a match; sigma is at most the
 * largest, and is above zero where all are. `unit` is that of
 * the results, which are rounded to it, and that of means in the tournament. */
static void fuzz_int_max_pool(fuzz *f)
{
    const lbnn_int_max_shape s = any_max_shape(f);
    const int n = s.height * s.width * s.channels, pixels = s.out_height * s.out_width, out_n = pixels * s.channels;
    const int taps = s.kernel_height * s.kernel_width, words = 2 * s.channels + taps + pixels + s.channels + 1;
    const lbnn_int_scale from = {any_exponent(f), any_exponent(f), 0, 0};
    const int32_t *e = narrow_block(f, n, from.mean == LBNN_INT_NONE ? 0 : -32767, from.mean == LBNN_INT_NONE ? 0 : 32767);
    const int32_t *sigma = narrow_block(f, n, 0, from.var == LBNN_INT_NONE ? 0 : 16384);
    int32_t *out = int_block(f, (out_n + 1) / 2), *out_sigma = int_block(f, (out_n + 1) / 2), *work = int_block(f, words);
    lbnn_int_scale to;
    lbnn_int_max_pool(&s, e, sigma, &from, out, out_sigma, &to, work);
    for (int i = 0; i < out_n; i++) {
        const max_window w = window_of(&s, e, sigma, i / s.channels, i % s.channels);
        const double mean = ldexp(w.mean, from.mean), wide = ldexp(w.sigma, from.var);
        const double got = ldexp(lbnn_int_at(out, i), to.mean), got_wide = ldexp(lbnn_int_at(out_sigma, i), to.var);
        const int32_t top = lbnn_int_larger(from.mean, from.var);
        const double unit = ldexp(1.0, to.mean) + ldexp(1.0, top - 9), wide_unit = ldexp(1.0, to.var);
        fuzz_expect(w.seen > 0 && lbnn_int_abs(lbnn_int_at(out, i)) < 1 << s.mean_bits, "a mantissa leaves its bits");
        fuzz_expect(got >= mean - unit - 2e-3 * wide, "the largest mean is not reached");
        fuzz_expect(got <= mean + unit + 0.566 * (w.seen - 1) * wide, "the largest mean is passed by too much");
        fuzz_expect(got_wide <= 1.001 * wide + 2.0 * wide_unit, "sigma is above the largest");
        fuzz_expect(!w.all || lbnn_int_at(out_sigma, i) > 0, "a sigma becomes zero");
    }
}
