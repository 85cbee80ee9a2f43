/* product.h: targets for products, included by kernels.c. */
#include "lbnn_product.h"

/* Channels, plane, and how much of a plane each factor has. */
typedef struct {
    int channels, plane, a, b;
} product_sizes;

static product_sizes any_product(fuzz *f)
{
    product_sizes s;
    s.channels = fuzz_size(f, 1, 5);
    s.plane = fuzz_size(f, 1, 6);
    const int single = fuzz_size(f, 0, 2);
    s.a = single == 1 ? 1 : s.plane;
    s.b = single == 2 ? 1 : s.plane;
    return s;
}

static void fuzz_multiply(fuzz *f)
{
    const product_sizes s = any_product(f);
    const int n = s.channels * s.a, m = s.channels * s.b, count = s.channels * s.plane;
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n), *d = fuzz_means(f, m), *w = fuzz_variances(f, m);
    float *mean = fuzz_output(f, count), *var = fuzz_output(f, count);
    lbnn_multiply(e, v, d, w, mean, var, s.channels, s.plane, s.a, s.b);
    for (int k = 0; k < count; k++) {
        const int c = k / s.plane, i = k % s.plane, a = c * s.a + (s.a > 1 ? i : 0), b = c * s.b + (s.b > 1 ? i : 0);
        const real x = real_of(e[a]), y = real_of(d[b]), p = real_of(v[a]), q = real_of(w[b]);
        fuzz_mean(f, mean[k], real_mul(x, y));
        fuzz_variance(f, var[k], real_add(real_mul(p, real_add(q, real_mul(y, y))), real_mul(q, real_mul(x, x))));
    }
}

static void fuzz_multiply_known(fuzz *f)
{
    const product_sizes s = any_product(f);
    const int n = s.channels * s.a, m = s.channels * s.b, count = s.channels * s.plane;
    const float *e = fuzz_means(f, n), *v = fuzz_variances(f, n), *point = fuzz_means(f, m);
    float *mean = fuzz_output(f, count), *var = fuzz_output(f, count);
    lbnn_multiply_known(e, v, point, mean, var, s.channels, s.plane, s.a, s.b);
    for (int k = 0; k < count; k++) {
        const int c = k / s.plane, i = k % s.plane, a = c * s.a + (s.a > 1 ? i : 0), b = c * s.b + (s.b > 1 ? i : 0);
        const real y = real_of(point[b]);
        fuzz_mean(f, mean[k], real_mul(real_of(e[a]), y));
        fuzz_variance(f, var[k], real_mul(real_of(v[a]), real_mul(y, y)));
    }
}

static void fuzz_multiply_point(fuzz *f)
{
    const product_sizes s = any_product(f);
    const float *x = fuzz_means(f, s.channels * s.a), *y = fuzz_means(f, s.channels * s.b);
    float *out = fuzz_output(f, s.channels * s.plane);
    lbnn_multiply_point(x, y, out, s.channels, s.plane, s.a, s.b);
    for (int k = 0; k < s.channels * s.plane; k++) {
        const int c = k / s.plane, i = k % s.plane;
        const real one = real_of(x[c * s.a + (s.a > 1 ? i : 0)]), other = real_of(y[c * s.b + (s.b > 1 ? i : 0)]);
        fuzz_mean(f, out[k], real_mul(one, other));
    }
}
