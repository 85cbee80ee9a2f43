/* Max pooling. Which elements are touched depends on the shape alone, so shapes are proved with one set of numbers; the
 * arithmetic of a match, which depends on the difference of the means and the sum of the variances alone, is proved over
 * the boxes of activation.c against a value that is 0 for sure. */
#include "lbnn_maxpool.h"

/* Channels; in height, width; out height, width; kernel, stride, padding, dilation (height, width each). */
#define MAX_POOL(c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw)                                     \
    do {                                                                                              \
        const lbnn_max_pool_shape shape = {c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw};          \
        float in_mean[(c) * (h) * (w)], in_var[(c) * (h) * (w)];                                      \
        float out_mean[(c) * (oh) * (ow)], out_var[(c) * (oh) * (ow)];                                \
        for (int i = 0; i < (c) * (h) * (w); i++) {                                                   \
            in_mean[i] = 0.5f * (float)(i % 7) - 2.0f;                                                \
            in_var[i] = (float)(i % 3);                                                               \
        }                                                                                             \
        MAX_POOL_KERNEL(in_mean, in_var, out_mean, out_var, &shape);                                  \
        check_means(out_mean, (c) * (oh) * (ow));                                                     \
        MAX_POOL_CHECK(out_var, (c) * (oh) * (ow));                                                   \
        if ((ph) == 0 && (pw) == 0) {                                                                 \
            MAX_POOL_KERNEL(in_mean, in_var, in_mean, in_var, &shape);                                \
        }                                                                                             \
    } while (0)

#define ANY_MAX_POOLS()                                                      \
    MAX_POOL(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1);                         \
    MAX_POOL(2, 4, 6, 2, 3, 2, 2, 2, 2, 0, 0, 1, 1);                         \
    MAX_POOL(1, 5, 5, 3, 3, 2, 2, 2, 2, 0, 0, 1, 1); /* ceil mode */         \
    MAX_POOL(2, 3, 4, 3, 4, 3, 3, 1, 1, 1, 1, 1, 1);                         \
    MAX_POOL(1, 4, 9, 2, 4, 3, 4, 2, 2, 1, 2, 1, 2);                         \
    MAX_POOL(1, 1, 9, 1, 2, 1, 7, 1, 2, 0, 0, 1, 1)

#define MAX_POOLS_2X2()                                                      \
    MAX_POOL(1, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0, 1, 1);                         \
    MAX_POOL(2, 4, 6, 2, 3, 2, 2, 2, 2, 0, 0, 1, 1);                         \
    MAX_POOL(3, 5, 7, 2, 3, 2, 2, 2, 2, 0, 0, 1, 1)

typedef void max_pool_kernel(const float *, const float *, float *, float *, const lbnn_max_pool_shape *);

/* A value against 0, once in each match of a window of 2x2: the others are lost to what is far below. */
static void match_box(max_pool_kernel kernel, float mean, float var)
{
    const lbnn_max_pool_shape shape = {1, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0, 1, 1};
    for (int other = 1; other < 4; other++) {
        float in_mean[4] = {mean, -1e30f, -1e30f, -1e30f}, in_var[4] = {var, 0.0f, 0.0f, 0.0f}, out_mean, out_var;
        in_mean[other] = 0.0f;
        kernel(in_mean, in_var, &out_mean, &out_var, &shape);
    }
}

static void match_range(max_pool_kernel kernel, float least_mean, float most_mean, float least_var, float most_var)
{
    match_box(kernel, Frama_C_float_interval(least_mean, most_mean), Frama_C_float_interval(least_var, most_var));
}

static void match_boxes(max_pool_kernel kernel)
{
    match_range(kernel, -MEAN_MOST, MEAN_MOST, 0.0f, 0.0f);
    //@ loop unroll 2000;
    for (float v = BOX_VAR_FIRST; v < least(BOX_VAR_LAST, VAR_MOST); v = NEXT_VAR(v) + 1e-45f) {
        const float next = least(NEXT_VAR(v), VAR_MOST);
        const float inner = least(0.999f * LBNN_TAIL_MAX * sqrtf(v), MEAN_MOST);
        const float outer = least(1.001f * LBNN_TAIL_MAX * sqrtf(next), MEAN_MOST);
        match_range(kernel, -inner, inner, v, next);
        match_range(kernel, -outer, -inner, v, next);
        match_range(kernel, inner, outer, v, next);
        match_range(kernel, -MEAN_MOST, -outer, v, next);
        match_range(kernel, outer, MEAN_MOST, v, next);
    }
}

#define MAX_POOL_CHECK check_vars

void prove_lbnn_max_pool(void)
{
#define MAX_POOL_KERNEL lbnn_max_pool
    ANY_MAX_POOLS();
    match_boxes(lbnn_max_pool);
#undef MAX_POOL_KERNEL
}

void prove_lbnn_max_pool_2x2(void)
{
#define MAX_POOL_KERNEL lbnn_max_pool_2x2
    MAX_POOLS_2X2();
    match_boxes(lbnn_max_pool_2x2);
#undef MAX_POOL_KERNEL
}

#undef MAX_POOL_CHECK
#define MAX_POOL_CHECK(var, n) ((void)(var))

void prove_lbnn_max_pool_point(void)
{
#define MAX_POOL_KERNEL(mean, var, out_mean, out_var, shape) lbnn_max_pool_point(mean, out_mean, shape)
    ANY_MAX_POOLS();
#undef MAX_POOL_KERNEL
    const lbnn_max_pool_shape shape = {2, 4, 3, 2, 2, 3, 2, 2, 2, 1, 1, 1, 1};
    float in[24], out[8];
    any_means(in, 24);
    lbnn_max_pool_point(in, out, &shape);
    check_means(out, 8);
}

void prove_lbnn_max_pool_2x2_point(void)
{
#define MAX_POOL_KERNEL(mean, var, out_mean, out_var, shape) lbnn_max_pool_2x2_point(mean, out_mean, shape)
    MAX_POOLS_2X2();
#undef MAX_POOL_KERNEL
    const lbnn_max_pool_shape shape = {2, 4, 3, 2, 1, 2, 2, 2, 2, 0, 0, 1, 1};
    float in[24], out[4];
    any_means(in, 24);
    lbnn_max_pool_2x2_point(in, out, &shape);
    check_means(out, 4);
}
