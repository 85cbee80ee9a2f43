/* Upsampling and dropout. */
#include "lbnn_dropout.h"
#include "lbnn_upsample.h"

void prove_lbnn_upsample(void)
{
    float in[12], out[2 * 6 * 6], same[12];
    any_means(in, 12);
    lbnn_upsample(in, out, 2, 3, 2, 2, 3);
    check_means(out, 2 * 6 * 6);
    lbnn_upsample(in, same, 2, 3, 2, 1, 1);
    check_means(same, 12);
}

void prove_lbnn_dropout(void)
{
    float mean[20], var[20];
    any_means(mean, 20);
    any_vars(var, 20);
    lbnn_dropout(mean, var, 20, 1000.0f, 999.0f);
    check_means(mean, 20);
    check_vars(var, 20);
    lbnn_dropout(mean, var, Frama_C_int_interval(1, 20), 1.25f, 0.25f);
    check_vars(var, 20);
}

void prove_lbnn_dropout_point(void)
{
    float in[20], mean[20], var[20], over[20];
    any_means(in, 20);
    lbnn_dropout_point(in, mean, var, 20, 999.0f);
    check_means(mean, 20);
    check_vars(var, 20);
    lbnn_dropout_point(in, in, over, 20, 0.25f);
    check_vars(over, 20);
}
