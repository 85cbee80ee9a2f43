/* Layers whose variances are products of factors: the shapes of linear.c and conv.c, with as many factors as there are
 * outputs and taps, those of groups apart and shared, and as much scratch as the exporter gives them. */
#include "lbnn_conv_rank1.h"
#include "lbnn_rank1.h"

/* As lbnn_sums.h packs means: of each block the row of biases with their variances, then rows of means. */
static void any_rank1_weights(float *w, int inputs, int outputs, int groups)
{
    for (int g = 0; g < groups; g++) {
        for (int rest = outputs / groups; rest > 0; rest -= 8) {
            const int width = rest < 8 ? rest : 8;
            any_means(w, width);
            any_vars(w + width, width);
            any_means(w + 2 * width, width * inputs);
            w += width * (inputs + 2);
        }
    }
    for (int i = 0; i < 7; i++) {
        w[i] = 0.0f;
    }
}

#define LINEAR_RANK1(in_len, out_len)                                                  \
    do {                                                                               \
        float in_mean[in_len], in_var[in_len], out_mean[out_len], out_var[out_len];    \
        float w[(out_len) * ((in_len) + 2) + 7], factors[(out_len) + (in_len)];        \
        any_means(in_mean, in_len);                                                    \
        any_vars(in_var, in_len);                                                      \
        any_vars(factors, (out_len) + (in_len));                                       \
        any_rank1_weights(w, in_len, out_len, 1);                                      \
        LINEAR_KERNEL(in_mean, in_var, w, factors, out_mean, out_var, in_len, out_len); \
        check_means(out_mean, out_len);                                                \
        check_vars(out_var, out_len);                                                  \
    } while (0)

#define LINEARS_RANK1()              \
    LINEAR_RANK1(1, 1);              \
    LINEAR_RANK1(2, 5);              \
    LINEAR_RANK1(3, 8);              \
    LINEAR_RANK1(1, 10);             \
    LINEAR_RANK1(2, 33);             \
    LINEAR_RANK1(LBNN_FOLD + 1, 9)

void prove_lbnn_linear_rank1(void)
{
#define LINEAR_KERNEL lbnn_linear_rank1
    LINEARS_RANK1();
#undef LINEAR_KERNEL
}

void prove_lbnn_linear_rank1_point(void)
{
#define LINEAR_KERNEL(mean, var, w, f, out_mean, out_var, in, out) \
    lbnn_linear_rank1_point(mean, w, f, out_mean, out_var, in, out)
    LINEARS_RANK1();
#undef LINEAR_KERNEL
}

#define LARGER(a, b) ((a) > (b) ? (a) : (b))

/* As CONV of conv.c; `alike` groups share the factors of their taps. SCRATCH is what the kernel takes. */
#define CONV_RANK1(ci, h, w, co, kh, kw, sh, sw, ph, pw, dh, dw, g, alike)                                           \
    do {                                                                                                             \
        enum { OH = OUT(h, kh, sh, ph, dh), OW = OUT(w, kw, sw, pw, dw), TAPS = (ci) / (g) * (kh) * (kw) };           \
        const lbnn_conv_shape shape = {ci, h, w, co, OH, OW, kh, kw, sh, sw, ph, pw, dh, dw, g};                     \
        float in_mean[(ci) * (h) * (w)], in_var[(ci) * (h) * (w)], out_mean[(co) * OH * OW], out_var[(co) * OH * OW]; \
        float weights[(co) * (TAPS + 2) + 7], factors[(co) + ((alike) ? 1 : (g)) * TAPS + 7], scratch[SCRATCH(ci)];  \
        any_means(in_mean, (ci) * (h) * (w));                                                                        \
        any_vars(in_var, (ci) * (h) * (w));                                                                          \
        any_vars(factors, (co) + ((alike) ? 1 : (g)) * TAPS + 7);                                                    \
        any_rank1_weights(weights, TAPS, co, g);                                                                     \
        CONV_KERNEL(in_mean, in_var, weights, factors, out_mean, out_var, scratch, &shape, (alike) ? 0 : TAPS);      \
        check_means(out_mean, (co) * OH * OW);                                                                       \
        check_vars(out_var, (co) * OH * OW);                                                                         \
    } while (0)

#define ANY_RANK1()                                                           \
    CONV_RANK1(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1); /* one pixel */      \
    CONV_RANK1(2, 3, 4, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1); /* padded */         \
    CONV_RANK1(1, 5, 4, 9, 2, 3, 2, 1, 0, 1, 1, 1, 1, 1); /* two blocks */     \
    CONV_RANK1(4, 3, 3, 6, 2, 2, 1, 2, 1, 0, 1, 1, 2, 0); /* groups */         \
    CONV_RANK1(4, 3, 3, 6, 2, 2, 1, 1, 1, 1, 1, 1, 2, 1); /* that share */     \
    CONV_RANK1(1, 1, 9, 4, 1, 3, 1, 2, 0, 2, 1, 2, 1, 1); /* 1-D, dilated */   \
    CONV_RANK1(1, 2, 2, 2, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1); /* taps outside */   \
    BAND_RANK1();                                                             \
    CONV_RANK1(1, 1, 150, 9, 1, 146, 1, 2, 0, 0, 1, 1, 1, 1) /* rows of more than one part */

/* A row in the middle of the output alone (lbnn_conv_band): padding that is negative. */
#define BAND_RANK1() CONV_RANK1(2, 5, 5, 3, 3, 3, 1, 1, -1, 1, 1, 1, 1, 1)

#define SAME_RANK1()                                       \
    CONV_RANK1(1, 1, 4, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1);  \
    CONV_RANK1(2, 3, 7, 10, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1); \
    CONV_RANK1(1, 3, 4, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1);  \
    BAND_RANK1();                                          \
    CONV_RANK1(17, 2, 5, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1) /* parts */

#define POINTWISE_RANK1()                                  \
    CONV_RANK1(1, 1, 4, 2, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1);  \
    CONV_RANK1(3, 2, 4, 10, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1); \
    CONV_RANK1(2, 5, 4, 3, 1, 1, 2, 2, 0, 0, 1, 1, 1, 1);  \
    CONV_RANK1(LBNN_FOLD + 1, 1, 5, 2, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1) /* parts */

#define PATCH_RANK1()                                                         \
    CONV_RANK1(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1); /* one pixel */      \
    CONV_RANK1(2, 3, 4, 3, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1); /* stride */         \
    CONV_RANK1(1, 5, 4, 9, 2, 3, 2, 1, 0, 1, 1, 1, 1, 1); /* two blocks */     \
    CONV_RANK1(1, 1, 9, 4, 1, 3, 1, 2, 0, 2, 1, 2, 1, 1); /* 1-D, dilated */   \
    CONV_RANK1(7, 2, 2, 9, 5, 5, 1, 1, 2, 2, 1, 1, 1, 1); /* parts */          \
    BAND_RANK1()

#define SCRATCH(ci) (OH * OW)

void prove_lbnn_conv2d_rank1(void)
{
#define CONV_KERNEL lbnn_conv2d_rank1
    ANY_RANK1();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_rank1_point(void)
{
#define CONV_KERNEL(mean, var, w, f, out_mean, out_var, scratch, shape, step) \
    lbnn_conv2d_rank1_point(mean, w, f, out_mean, out_var, scratch, shape, step)
    ANY_RANK1();
#undef CONV_KERNEL
}

#undef SCRATCH

#define SCRATCH(ci) LARGER(18 * PARTS * (ci), OH * OW)

void prove_lbnn_conv2d_3x3_rank1(void)
{
    enum { PARTS = 3 };
#define CONV_KERNEL lbnn_conv2d_3x3_rank1
    SAME_RANK1();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_3x3_rank1_point(void)
{
    enum { PARTS = 2 };
#define CONV_KERNEL(mean, var, w, f, out_mean, out_var, scratch, shape, step) \
    lbnn_conv2d_3x3_rank1_point(mean, w, f, out_mean, out_var, scratch, shape, step)
    SAME_RANK1();
#undef CONV_KERNEL
}

#undef SCRATCH

#define SCRATCH(ci) (4 * PARTS * TAPS)

void prove_lbnn_conv2d_1x1_rank1(void)
{
    enum { PARTS = 3 };
#define CONV_KERNEL lbnn_conv2d_1x1_rank1
    POINTWISE_RANK1();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_1x1_rank1_point(void)
{
    enum { PARTS = 2 };
#define CONV_KERNEL(mean, var, w, f, out_mean, out_var, scratch, shape, step) \
    lbnn_conv2d_1x1_rank1_point(mean, w, f, out_mean, out_var, scratch, shape, step)
    POINTWISE_RANK1();
#undef CONV_KERNEL
}

#undef SCRATCH

#define SCRATCH(ci) LARGER(4 * PARTS * TAPS, OH * OW)

void prove_lbnn_conv2d_patch_rank1(void)
{
    enum { PARTS = 3 };
#define CONV_KERNEL lbnn_conv2d_patch_rank1
    PATCH_RANK1();
#undef CONV_KERNEL
}

void prove_lbnn_conv2d_patch_rank1_point(void)
{
    enum { PARTS = 2 };
#define CONV_KERNEL(mean, var, w, f, out_mean, out_var, scratch, shape, step) \
    lbnn_conv2d_patch_rank1_point(mean, w, f, out_mean, out_var, scratch, shape, step)
    PATCH_RANK1();
#undef CONV_KERNEL
}

#undef SCRATCH
