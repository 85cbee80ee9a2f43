/* Average pooling: padding, ceil mode, windows that overlap, in place, and planes with a gap between them. */
#include "lbnn_pool.h"
#include "lbnn_pool_correlated.h"

/* Channels; in height, width; out height, width; kernel, stride, padding (height, width each); count_include_pad. */
#define GAP 2
#define PLANE(oh, ow) ((oh) * (ow) + GAP)
#define POOL(c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, with_pad)                                       \
    do {                                                                                              \
        const lbnn_pool_shape shape = {c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, with_pad, 0};         \
        const lbnn_pool_shape apart = {c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, with_pad, GAP};       \
        float in_mean[(c) * (h) * (w)], in_var[(c) * (h) * (w)];                                      \
        float out_mean[(c) * PLANE(oh, ow) - GAP], out_var[(c) * PLANE(oh, ow) - GAP];                \
        any_means(in_mean, (c) * (h) * (w));                                                          \
        any_vars(in_var, (c) * (h) * (w));                                                            \
        POOL_KERNEL(in_mean, in_var, out_mean, out_var, &apart);                                      \
        for (int i = 0; i < (c); i++) {                                                               \
            check_means(out_mean + i * PLANE(oh, ow), (oh) * (ow));                                   \
            POOL_CHECK(out_var + i * PLANE(oh, ow), (oh) * (ow));                                     \
        }                                                                                             \
        if ((ph) == 0 && (pw) == 0) {                                                                 \
            POOL_KERNEL(in_mean, in_var, in_mean, in_var, &shape);                                    \
            check_vars(in_var, (c) * (oh) * (ow));                                                    \
        }                                                                                             \
    } while (0)

#define ANY_POOLS()                                             \
    POOL(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1);                   \
    POOL(2, 4, 6, 2, 3, 2, 2, 2, 2, 0, 0, 1);                   \
    POOL(1, 5, 5, 3, 3, 2, 2, 2, 2, 0, 0, 1); /* ceil mode */   \
    POOL(2, 3, 4, 3, 4, 3, 3, 1, 1, 1, 1, 0);                   \
    POOL(1, 4, 3, 2, 2, 3, 2, 2, 2, 1, 1, 1);                   \
    POOL(1, 1, 9, 1, 4, 1, 3, 1, 2, 0, 0, 1);                   \
    POOL(1, 3, 50, 1, 2, 3, 49, 1, 1, 0, 0, 1) /* parts */

#define POOLS_2X2()                                             \
    POOL(1, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0, 1);                   \
    POOL(2, 4, 6, 2, 3, 2, 2, 2, 2, 0, 0, 1);                   \
    POOL(3, 5, 7, 2, 3, 2, 2, 2, 2, 0, 0, 1)

#define POOL_CHECK check_vars

void prove_lbnn_avg_pool(void)
{
#define POOL_KERNEL lbnn_avg_pool
    ANY_POOLS();
#undef POOL_KERNEL
}

void prove_lbnn_avg_pool_2x2(void)
{
#define POOL_KERNEL lbnn_avg_pool_2x2
    POOLS_2X2();
#undef POOL_KERNEL
}

void prove_lbnn_avg_pool_correlated(void)
{
#define POOL_KERNEL lbnn_avg_pool_correlated
    ANY_POOLS();
#undef POOL_KERNEL
}

#undef POOL_CHECK
#define POOL_CHECK(var, n) ((void)(var))

void prove_lbnn_avg_pool_point(void)
{
#define POOL_KERNEL(mean, var, out_mean, out_var, shape) lbnn_avg_pool_point(mean, out_mean, shape)
    ANY_POOLS();
#undef POOL_KERNEL
}

void prove_lbnn_avg_pool_2x2_point(void)
{
#define POOL_KERNEL(mean, var, out_mean, out_var, shape) lbnn_avg_pool_2x2_point(mean, out_mean, shape)
    POOLS_2X2();
#undef POOL_KERNEL
}
