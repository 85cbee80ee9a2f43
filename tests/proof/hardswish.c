/* Hard-swish: every access, for every mean and variance. */
#include "lbnn_hardswish.h"

void prove_lbnn_hardswish(void)
{
    for (int n = 1; n < 4; n++) {
        float mean[3], var[3];
        any_means(mean, 3);
        any_vars(var, 3);
        lbnn_hardswish(mean + 3 - n, var + 3 - n, n);
    }
}

void prove_lbnn_hardswish_point(void)
{
    float x[8];
    any_means(x, 8);
    lbnn_hardswish_point(x, Frama_C_int_interval(1, 8));
    check_means(x, 8);
}
