/* ELU: any numbers of the function within bounds. */
#include "lbnn_elu.h"

#define ELU_COUNT 2

void prove_lbnn_elu(void)
{
    float mean[ELU_COUNT], var[ELU_COUNT];
    any_means(mean, ELU_COUNT);
    any_vars(var, ELU_COUNT);
    lbnn_elu(mean, var, ELU_COUNT, Frama_C_float_interval(0.0f, 1e3f), Frama_C_float_interval(0.001f, 1e3f),
             Frama_C_float_interval(0.001f, 1e3f));
    check_means(mean, ELU_COUNT);
    check_means(var, ELU_COUNT);
}

void prove_lbnn_elu_point(void)
{
    float x[ELU_COUNT];
    any_means(x, ELU_COUNT);
    lbnn_elu_point(x, ELU_COUNT, Frama_C_float_interval(0.0f, 1e3f), Frama_C_float_interval(0.001f, 1e3f),
                   Frama_C_float_interval(0.001f, 1e3f));
    check_means(x, ELU_COUNT);
}
