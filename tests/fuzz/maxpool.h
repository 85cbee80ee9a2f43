/* maxpool.h: targets for max pooling, included by kernels.c: the tournament in float64, its errors beside it. */
#include "lbnn_maxpool.h"

static lbnn_max_pool_shape any_max_pool(fuzz *f)
{
    lbnn_max_pool_shape s;
    s.channels = fuzz_size(f, 1, 3);
    s.kernel_height = fuzz_size(f, 1, 4);
    s.kernel_width = fuzz_size(f, 1, 7);
    s.stride_height = fuzz_size(f, 1, 4);
    s.stride_width = fuzz_size(f, 1, 4);
    s.padding_height = fuzz_size(f, 0, s.kernel_height / 2);
    s.padding_width = fuzz_size(f, 0, s.kernel_width / 2);
    s.dilation_height = fuzz_size(f, 1, 2);
    s.dilation_width = fuzz_size(f, 1, 2);
    const int tall = s.dilation_height * (s.kernel_height - 1) + 1, wide = s.dilation_width * (s.kernel_width - 1) + 1;
    s.in_height = fuzz_size(f, tall, 9);
    s.in_width = fuzz_size(f, wide, 15);
    s.out_height = pool_outputs(s.in_height, tall, s.stride_height, s.padding_height, fuzz_size(f, 0, 1));
    s.out_width = pool_outputs(s.in_width, wide, s.stride_width, s.padding_width, fuzz_size(f, 0, 1));
    return s;
}

static lbnn_max_pool_shape max_pool_2x2(fuzz *f)
{
    const int channels = fuzz_size(f, 1, 3), height = fuzz_size(f, 2, 9), width = fuzz_size(f, 2, 15);
    const lbnn_max_pool_shape s = {channels, height, width, height / 2, width / 2, 2, 2, 2, 2, 0, 0, 1, 1};
    return s;
}

/* A value of a window; `here` is 0 for padding. */
typedef struct {
    moments at;
    int here;
} entrant;

/* The moments of max(x, y) by the tail; how errors of the four inputs move them, and what float32 adds. The mean moves
 * by at most the larger error of a mean and phi(0) times that of a; the variance by those of the variances, and by
 * 2 phi a times those of the means. */
static moments larger_of(moments one, moments other)
{
    moments out = {real_unknown(one.mean.bad || other.mean.bad), real_unknown(one.var.bad || other.var.bad)};
    const real sum = real_add(one.var, other.var);
    if (one.mean.over || other.mean.over || sum.over || 3.0 * sum.value > (double)FLT_MAX) {
        return out;
    }
    const double gap = one.mean.value - other.mean.value, square = one.var.value + other.var.value;
    const double moved = one.mean.error + other.mean.error, spread = one.var.error + other.var.error;
    const double a = sqrt(square), widest = sqrt(square + spread), x = square > 0.0 ? fabs(gap) / a : 1e300;
    const double nearest = widest > 0.0 ? fmax(fabs(gap) - moved, 0.0) / widest : 1e300;
    const double phi = exp(-0.5 * nearest * nearest) * 0.39894228040143268;
    const tail_of tail = tail_at(x);
    const double own = gap < 0.0 ? other.var.value : one.var.value;
    const double largest = gap < 0.0 ? other.mean.value : one.mean.value;
    const double mean = largest + a * tail.i1, beyond = 2.0 * own * tail.q + square * (tail.j2 + tail.i1 * tail.i1);
    const double var = own * (1.0 - 2.0 * tail.q) + square * (tail.j2 - tail.i1 * tail.i1);
    const double relative = tail_error(x) + 8.0 * REAL_UNIT;
    const real near_mean = {mean, fmax(one.mean.error, other.mean.error) + 0.4 * (widest - a) + relative * a * tail.i1
                                      + REAL_UNIT * fabs(mean) + 1e-32 * a + 2.0 * REAL_LEAST, 0, 0};
    const real near_var = {var, spread + 2.0 * phi * widest * moved + relative * beyond + 4.0 * REAL_UNIT * (own + var)
                                    + 1e-32 * square + 4.0 * REAL_LEAST, 0, 0};
    out.mean = near_mean;
    out.var = near_var;
    return out;
}

static entrant match_of(entrant one, entrant other)
{
    if (!one.here || !other.here) {
        entrant alone = one.here ? one : other;
        if (alone.at.mean.over || alone.at.var.over || alone.at.mean.value < -3e38) { /* no better than padding */
            alone.at.mean = real_unknown(alone.at.mean.bad);
            alone.at.var = real_unknown(alone.at.var.bad);
        }
        return alone;
    }
    one.at = larger_of(one.at, other.at);
    return one;
}

/* The largest power of two of them against the rest. */
static entrant bracket_of(const entrant *entrants, int n)
{
    int half = 1;
    if (n == 1) {
        return entrants[0];
    }
    while (2 * half < n) {
        half *= 2;
    }
    return match_of(bracket_of(entrants, half), bracket_of(entrants + half, n - half));
}

static moments largest_under(const float *e, const float *v, const lbnn_max_pool_shape *s, int channel, int row, int column)
{
    entrant rows[4], places[7];
    for (int i = 0; i < s->kernel_height; i++) {
        for (int j = 0; j < s->kernel_width; j++) {
            const int y = row * s->stride_height - s->padding_height + i * s->dilation_height;
            const int x = column * s->stride_width - s->padding_width + j * s->dilation_width;
            places[j].here = y >= 0 && y < s->in_height && x >= 0 && x < s->in_width;
            const int at = places[j].here ? (channel * s->in_height + y) * s->in_width + x : 0;
            places[j].at.mean = real_of(e[at]);
            places[j].at.var = v ? real_of(v[at]) : real_of(0.0f);
        }
        rows[i] = bracket_of(places, s->kernel_width);
    }
    return bracket_of(rows, s->kernel_height).at;
}

static void check_max_pool(fuzz *f, const float *e, const float *v, const float *mean, const float *var,
                           const lbnn_max_pool_shape *s)
{
    for (int channel = 0; channel < s->channels; channel++) {
        for (int row = 0; row < s->out_height; row++) {
            for (int column = 0; column < s->out_width; column++) {
                const moments want = largest_under(e, v, s, channel, row, column);
                fuzz_mean(f, *mean++, want.mean);
                if (v) {
                    fuzz_variance(f, *var++, want.var);
                }
            }
        }
    }
}

static float *max_pool_results(fuzz *f, const float *in, const lbnn_max_pool_shape *s, int in_place)
{
    const int count = s->channels * s->in_height * s->in_width;
    return in_place ? fuzz_copy(f, in, count) : fuzz_output(f, s->channels * s->out_height * s->out_width);
}

typedef void max_pool_kernel(const float *, const float *, float *, float *, const lbnn_max_pool_shape *);
typedef void max_pool_point_kernel(const float *, float *, const lbnn_max_pool_shape *);

static void fuzz_max_pool_with(fuzz *f, max_pool_kernel kernel, lbnn_max_pool_shape s)
{
    const int n = s.channels * s.in_height * s.in_width;
    const int in_place = fuzz_size(f, 0, 1) && s.padding_height + s.padding_width == 0;
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n);
    float *mean = max_pool_results(f, e, &s, in_place), *var = max_pool_results(f, v, &s, in_place);
    kernel(in_place ? mean : e, in_place ? var : v, mean, var, &s);
    check_max_pool(f, e, v, mean, var, &s);
}

static void fuzz_max_pool_point_with(fuzz *f, max_pool_point_kernel kernel, lbnn_max_pool_shape s)
{
    const int n = s.channels * s.in_height * s.in_width;
    const int in_place = fuzz_size(f, 0, 1) && s.padding_height + s.padding_width == 0;
    const float *x = fuzz_means(f, n);
    float *out = max_pool_results(f, x, &s, in_place);
    kernel(in_place ? out : x, out, &s);
    check_max_pool(f, x, 0, out, 0, &s);
}

static void fuzz_max_pool(fuzz *f) { fuzz_max_pool_with(f, lbnn_max_pool, any_max_pool(f)); }
static void fuzz_max_pool_point(fuzz *f) { fuzz_max_pool_point_with(f, lbnn_max_pool_point, any_max_pool(f)); }
static void fuzz_max_pool_2x2(fuzz *f) { fuzz_max_pool_with(f, lbnn_max_pool_2x2, max_pool_2x2(f)); }
static void fuzz_max_pool_2x2_point(fuzz *f) { fuzz_max_pool_point_with(f, lbnn_max_pool_2x2_point, max_pool_2x2(f)); }
