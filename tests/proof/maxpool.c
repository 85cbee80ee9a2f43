/* Max pooling: padding, ceil mode, dilation, windows that overlap, odd ones that wait, and in place. */
#include "lbnn_maxpool.h"

/* Channels; in height, width; out height, width; kernel, stride, padding, dilation (height, width each). */
#define MAX_POOL(c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw)                                     \
    do {                                                                                              \
        const lbnn_max_pool_shape shape = {c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw};          \
        float in_mean[(c) * (h) * (w)], in_var[(c) * (h) * (w)];                                      \
        float out_mean[(c) * (oh) * (ow)], out_var[(c) * (oh) * (ow)];                                \
        any_means(in_mean, (c) * (h) * (w));                                                          \
        any_vars(in_var, (c) * (h) * (w));                                                            \
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

#define MAX_POOL_CHECK check_vars

void prove_lbnn_max_pool(void)
{
#define MAX_POOL_KERNEL lbnn_max_pool
    ANY_MAX_POOLS();
#undef MAX_POOL_KERNEL
}

void prove_lbnn_max_pool_2x2(void)
{
#define MAX_POOL_KERNEL lbnn_max_pool_2x2
    MAX_POOLS_2X2();
#undef MAX_POOL_KERNEL
}

#undef MAX_POOL_CHECK
#define MAX_POOL_CHECK(var, n) ((void)(var))

void prove_lbnn_max_pool_point(void)
{
#define MAX_POOL_KERNEL(mean, var, out_mean, out_var, shape) lbnn_max_pool_point(mean, out_mean, shape)
    ANY_MAX_POOLS();
#undef MAX_POOL_KERNEL
}

void prove_lbnn_max_pool_2x2_point(void)
{
#define MAX_POOL_KERNEL(mean, var, out_mean, out_var, shape) lbnn_max_pool_2x2_point(mean, out_mean, shape)
    MAX_POOLS_2X2();
#undef MAX_POOL_KERNEL
}
