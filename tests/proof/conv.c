/* Convolutions: shapes at every border that the loops distinguish. */
#include "lbnn_conv.h"
#include "lbnn_conv_small.h"

#define OUT(size, kernel, stride, padding, dilation) \
    (((size) + 2 * (padding) - (dilation) * ((kernel) - 1) - 1) / (stride) + 1)

/* Channels in, height, width; channels out; kernel, stride, padding, dilation (height, width each); groups. */
#define CONV(ci, h, w, co, kh, kw, sh, sw, ph, pw, dh, dw, g)                                                       \
    do {                                                                                                            \
        enum { OH = OUT(h, kh, sh, ph, dh), OW = OUT(w, kw, sw, pw, dw), TAPS = (ci) / (g) * (kh) * (kw) };          \
        const CONV_SHAPE shape = {(ci) / CONV_GROUPS(g), h, w, (co) / CONV_GROUPS(g), OH, OW, kh, kw, sh, sw, ph, pw, \
                                  dh, dw, g};                                                                       \
        float in_mean[(ci) * (h) * (w)], in_var[(ci) * (h) * (w)], out_mean[(co) * OH * OW], out_var[(co) * OH * OW]; \
        lbnn_weight weights[WEIGHTS_LEN(TAPS, co) + CONV_PAD((co) / (g))];                                          \
        any_means(in_mean, (ci) * (h) * (w));                                                                       \
        any_vars(in_var, (ci) * (h) * (w));                                                                         \
        any_weights(weights, TAPS, co, g, CONV_PAD((co) / (g)));                                                    \
        CONV_KERNEL(in_mean, in_var, weights, out_mean, out_var, &shape);                                           \
        check_means(out_mean, (co) * OH * OW);                                                                      \
        check_vars(out_var, (co) * OH * OW);                                                                        \
    } while (0)

#define ANY_CONVS()                                                  \
    CONV(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1); /* one pixel */      \
    CONV(2, 3, 4, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1); /* padded */         \
    CONV(1, 5, 4, 9, 2, 3, 2, 1, 0, 1, 1, 1, 1); /* two blocks */     \
    CONV(4, 3, 3, 6, 2, 2, 1, 2, 1, 0, 1, 1, 2); /* groups */         \
    CONV(3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 3); /* depthwise */      \
    CONV(1, 1, 9, 4, 1, 3, 1, 2, 0, 2, 1, 2, 1); /* 1-D, dilated */   \
    CONV(1, 2, 2, 1, 3, 3, 1, 1, 2, 2, 1, 1, 1); /* more kernel than input */ \
    CONV(1, 6, 5, 2, 2, 2, 1, 1, 3, 3, 2, 3, 1); /* taps all outside */ \
    CONV(1, 2, 2, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1); /* and before the input */ \
    CONV(7, 2, 2, 2, 5, 5, 1, 1, 2, 2, 1, 1, 1); /* parts that begin in a row */ \
    CONV(1, 1, 150, 9, 1, 146, 1, 2, 0, 0, 1, 1, 1) /* rows of more than one part */

#define PAIR_CONVS()                                  \
    CONV(1, 1, 4, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1);      \
    CONV(2, 2, 5, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1);      \
    CONV(1, 3, 8, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1);      \
    CONV(2, 3, 7, 10, 3, 3, 1, 1, 1, 1, 1, 1, 1);     \
    CONV(17, 2, 5, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1) /* parts */

#define DEPTHWISE_CONVS()                             \
    CONV(1, 1, 4, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1);      \
    CONV(3, 4, 5, 3, 3, 3, 1, 1, 1, 1, 1, 1, 3);      \
    CONV(2, 2, 8, 2, 3, 3, 1, 1, 1, 1, 1, 1, 2);      \
    CONV(1, 3, 7, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1);      \
    CONV(2, 4, 8, 2, 3, 3, 1, 1, 0, 0, 1, 1, 2);      \
    CONV(2, 5, 6, 2, 3, 3, 2, 2, 1, 1, 1, 1, 2);      \
    CONV(2, 4, 8, 2, 3, 3, 2, 2, 1, 1, 1, 1, 2);      \
    CONV(1, 3, 11, 1, 3, 3, 2, 2, 0, 0, 1, 1, 1)

#define POINTWISE_CONVS()                             \
    CONV(1, 1, 4, 2, 1, 1, 1, 1, 0, 0, 1, 1, 1);      \
    CONV(3, 1, 5, 2, 1, 1, 1, 1, 0, 0, 1, 1, 1);      \
    CONV(2, 3, 3, 4, 1, 1, 1, 1, 0, 0, 1, 1, 1);      \
    CONV(3, 2, 4, 10, 1, 1, 1, 1, 0, 0, 1, 1, 1);     \
    CONV(2, 5, 4, 3, 1, 1, 2, 2, 0, 0, 1, 1, 1);      \
    CONV(LBNN_FOLD + 1, 1, 5, 2, 1, 1, 1, 1, 0, 0, 1, 1, 1) /* parts */

#define PATCH_CONVS()                                                \
    CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1); /* one pixel */      \
    CONV(2, 3, 4, 3, 3, 3, 2, 2, 1, 1, 1, 1, 1); /* stride */         \
    CONV(1, 5, 4, 9, 2, 3, 2, 1, 0, 1, 1, 1, 1); /* two blocks */     \
    CONV(1, 1, 9, 4, 1, 3, 1, 2, 0, 2, 1, 2, 1); /* 1-D, dilated */   \
    CONV(1, 2, 2, 1, 3, 3, 1, 1, 2, 2, 1, 1, 1); /* more kernel than input */ \
    CONV(7, 2, 2, 9, 5, 5, 1, 1, 2, 2, 1, 1, 1); /* parts */            \
    BAND_CONV()

/* A row in the middle of the output alone (lbnn_conv_band): padding that is negative. */
#define BAND_CONV() CONV(2, 5, 5, 3, 3, 3, 1, 1, -1, 1, 1, 1, 1)

#define CONV_SHAPE lbnn_conv_shape
#define CONV_GROUPS(g) 1
#define CONV_PAD(outputs) 7

void prove_lbnn_conv2d(void)
{
#define CONV_KERNEL lbnn_conv2d
    ANY_CONVS();
    BAND_CONV();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_point(void)
{
#define CONV_KERNEL(mean, var, w, out_mean, out_var, shape) lbnn_conv2d_point(mean, w, out_mean, out_var, shape)
    ANY_CONVS();
    BAND_CONV();
#undef CONV_KERNEL
}

/* The fast forms with as much scratch as the exporter gives them (shapes.py). */
#define FAST(kernel, floats)                                                                                        \
    static void kernel##_here(const float *mean, const float *var, const lbnn_weight *w, float *out_mean, float *out_var, \
                              const lbnn_conv_shape *s)                                                              \
    {                                                                                                                \
        enum { PARTS = 3 };                                                                                          \
        float scratch[floats];                                                                                       \
        kernel(mean, var, w, out_mean, out_var, s, scratch);                                                         \
    }                                                                                                                \
    static void kernel##_point_here(const float *mean, const lbnn_weight *w, float *out_mean, float *out_var,        \
                                    const lbnn_conv_shape *s)                                                        \
    {                                                                                                                \
        enum { PARTS = 2 };                                                                                          \
        float scratch[floats];                                                                                       \
        kernel##_point(mean, w, out_mean, out_var, s, scratch);                                                      \
    }

#define TAPS(s) ((s)->in_channels * (s)->kernel_height * (s)->kernel_width)

FAST(lbnn_conv2d_3x3, 18 * PARTS * s->in_channels)
FAST(lbnn_conv2d_1x1, 4 * PARTS * TAPS(s))
FAST(lbnn_conv2d_patch, 4 * PARTS * TAPS(s))
FAST(lbnn_depthwise_3x3, s->stride_width == 2 ? 1 : 3 * PARTS * (s->in_width + 2))

void prove_lbnn_conv2d_3x3(void)
{
#define CONV_KERNEL lbnn_conv2d_3x3_here
    PAIR_CONVS();
    CONV(1, 3, 4, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1); /* an odd number of channels */
    BAND_CONV();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_3x3_point(void)
{
#define CONV_KERNEL(mean, var, w, out_mean, out_var, shape) lbnn_conv2d_3x3_point_here(mean, w, out_mean, out_var, shape)
    PAIR_CONVS();
    CONV(1, 3, 4, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1);
    BAND_CONV();
#undef CONV_KERNEL
}

void prove_lbnn_depthwise_3x3(void)
{
#define CONV_KERNEL lbnn_depthwise_3x3_here
    DEPTHWISE_CONVS();
#undef CONV_KERNEL
}

void prove_lbnn_depthwise_3x3_point(void)
{
#define CONV_KERNEL(mean, var, w, out_mean, out_var, shape) lbnn_depthwise_3x3_point_here(mean, w, out_mean, out_var, shape)
    DEPTHWISE_CONVS();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_1x1(void)
{
#define CONV_KERNEL lbnn_conv2d_1x1_here
    POINTWISE_CONVS();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_1x1_point(void)
{
#define CONV_KERNEL(mean, var, w, out_mean, out_var, shape) lbnn_conv2d_1x1_point_here(mean, w, out_mean, out_var, shape)
    POINTWISE_CONVS();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_patch(void)
{
#define CONV_KERNEL lbnn_conv2d_patch_here
    PATCH_CONVS();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_patch_point(void)
{
#define CONV_KERNEL(mean, var, w, out_mean, out_var, shape) lbnn_conv2d_patch_point_here(mean, w, out_mean, out_var, shape)
    PATCH_CONVS();
#undef CONV_KERNEL
}

#undef CONV_SHAPE
#undef CONV_GROUPS
#undef CONV_PAD
#define CONV_SHAPE lbnn_conv_small_shape
#define CONV_GROUPS(g) (g)
#define CONV_PAD(outputs) ((8 - (outputs) % 8) % 8)

/* Its shape gives the channels of one group, its weights end where the last block would. */
void prove_lbnn_conv2d_small(void)
{
#define CONV_KERNEL lbnn_conv2d_small
    ANY_CONVS();
    PAIR_CONVS();
#undef CONV_KERNEL
}
