/* Linear layers: 1 to 3 inputs, 1 to 10 outputs, 33 outputs for the widest blocks, and sums of more than one part
 * (lbnn_fold) with a part of one input at the end. */
#include "lbnn_linear.h"

#define LINEAR(in_len, out_len)                                                     \
    do {                                                                            \
        float in_mean[in_len], in_var[in_len], out_mean[out_len], out_var[out_len]; \
        lbnn_weight w[WEIGHTS_LEN(in_len, out_len) + 7];                            \
        any_means(in_mean, in_len);                                                 \
        any_vars(in_var, in_len);                                                   \
        any_weights(w, in_len, out_len, 1, 7);                                      \
        LINEAR_KERNEL(in_mean, in_var, w, out_mean, out_var, in_len, out_len);      \
        check_means(out_mean, out_len);                                             \
        check_vars(out_var, out_len);                                               \
    } while (0)

#define LINEARS()                                                                              \
    LINEAR(1, 1);                                                                              \
    LINEAR(3, 2);                                                                              \
    LINEAR(2, 3);                                                                              \
    LINEAR(3, 4);                                                                              \
    LINEAR(2, 5);                                                                              \
    LINEAR(3, 7);                                                                              \
    LINEAR(3, 8);                                                                              \
    LINEAR(2, 9);                                                                              \
    LINEAR(1, 10);                                                                             \
    LINEAR(2, 33);                                                                             \
    LINEAR(LBNN_FOLD / 2 + 1, 9);                                                              \
    LINEAR(LBNN_FOLD + 1, 5)

void prove_lbnn_linear(void)
{
#define LINEAR_KERNEL lbnn_linear
    LINEARS();
#undef LINEAR_KERNEL
}

void prove_lbnn_linear_point(void)
{
#define LINEAR_KERNEL(mean, var, w, out_mean, out_var, in, out) lbnn_linear_point(mean, w, out_mean, out_var, in, out)
    LINEARS();
#undef LINEAR_KERNEL
}
