/* Transposed convolutions: shapes at every border that the loops distinguish. */
#include "lbnn_conv_transposed.h"

#define SPREAD(size, kernel, stride, padding, more, dilation) \
    (((size) - 1) * (stride) - 2 * (padding) + (dilation) * ((kernel) - 1) + (more) + 1)

/* Channels in, height, width; channels out; kernel, stride, padding, output padding, dilation (height, width each);
 * groups. */
#define TRANSPOSED(ci, h, w, co, kh, kw, sh, sw, ph, pw, mh, mw, dh, dw, g)                                          \
    do {                                                                                                            \
        enum { OH = SPREAD(h, kh, sh, ph, mh, dh), OW = SPREAD(w, kw, sw, pw, mw, dw), TAPS = (ci) / (g) * (kh) * (kw) }; \
        const lbnn_conv_shape shape = {ci, h, w, co, OH, OW, kh, kw, sh, sw, ph, pw, dh, dw, g};                    \
        float in_mean[(ci) * (h) * (w)], in_var[(ci) * (h) * (w)], out_mean[(co) * OH * OW], out_var[(co) * OH * OW]; \
        lbnn_weight weights[WEIGHTS_LEN(TAPS, co) + 7];                                                             \
        any_means(in_mean, (ci) * (h) * (w));                                                                       \
        any_vars(in_var, (ci) * (h) * (w));                                                                         \
        any_weights(weights, TAPS, co, g, 7);                                                                       \
        TRANSPOSED_KERNEL(in_mean, in_var, weights, out_mean, out_var, &shape);                                     \
        check_means(out_mean, (co) * OH * OW);                                                                      \
        check_vars(out_var, (co) * OH * OW);                                                                        \
    } while (0)

#define ANY_TRANSPOSED()                                                            \
    TRANSPOSED(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1); /* one pixel */         \
    TRANSPOSED(1, 1, 1, 2, 1, 1, 3, 4, 0, 0, 0, 0, 1, 1, 1); /* fewer outputs than phases */ \
    TRANSPOSED(2, 2, 3, 3, 4, 4, 2, 2, 1, 1, 0, 0, 1, 1, 1); /* the usual one */     \
    TRANSPOSED(1, 2, 2, 9, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1); /* two blocks */        \
    TRANSPOSED(1, 2, 3, 2, 2, 1, 3, 4, 0, 0, 2, 0, 1, 1, 1); /* outputs without taps */ \
    TRANSPOSED(4, 2, 2, 6, 2, 3, 2, 1, 0, 1, 0, 0, 1, 1, 2); /* groups */            \
    TRANSPOSED(2, 3, 4, 2, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 2); /* cut on both sides */ \
    TRANSPOSED(1, 1, 4, 4, 1, 3, 1, 2, 0, 4, 0, 3, 1, 4, 1); /* 1-D, a common divisor */ \
    TRANSPOSED(1, 2, 3, 1, 3, 2, 2, 3, 2, 1, 2, 1, 3, 2, 1); /* none */              \
    TRANSPOSED(LBNN_FOLD + 1, 1, 2, 2, 1, 2, 1, 2, 0, 0, 0, 0, 1, 1, 1) /* parts */

void prove_lbnn_conv_transposed(void)
{
#define TRANSPOSED_KERNEL lbnn_conv_transposed
    ANY_TRANSPOSED();
#undef TRANSPOSED_KERNEL
}

void prove_lbnn_conv_transposed_point(void)
{
#define TRANSPOSED_KERNEL(mean, var, w, out_mean, out_var, shape) \
    lbnn_conv_transposed_point(mean, w, out_mean, out_var, shape)
    ANY_TRANSPOSED();
#undef TRANSPOSED_KERNEL
}
