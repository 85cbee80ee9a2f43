/* Smooth activations: every function, with any numbers of some size in the table. */
#include "lbnn_smooth.h"

#define SMOOTH_COUNT 2

void prove_lbnn_smooth(void)
{
    static float table[LBNN_SMOOTH_LEN];
    for (int i = 0; i < LBNN_SMOOTH_LEN; i++) {
        table[i] = Frama_C_float_interval(-20.0f, 20.0f);
    }
    table[LBNN_SMOOTH_LIMIT] = Frama_C_float_interval(0.3f, 2.0f);
    table[LBNN_SMOOTH_END] = Frama_C_float_interval(1.0f, 20.0f);
    table[LBNN_SMOOTH_GROWTH] = Frama_C_float_interval(0.0f, 0.5f);
    for (int function = LBNN_SIGMOID; function <= LBNN_GELU_TANH; function++) {
        float mean[SMOOTH_COUNT], var[SMOOTH_COUNT];
        any_means(mean, SMOOTH_COUNT);
        any_vars(var, SMOOTH_COUNT);
        lbnn_smooth(mean, var, SMOOTH_COUNT, table, function, Frama_C_float_interval(0.1f, 10.0f));
        check_means(mean, SMOOTH_COUNT);
        check_means(var, SMOOTH_COUNT);
    }
}

void prove_lbnn_smooth_point(void)
{
    for (int function = LBNN_SIGMOID; function <= LBNN_GELU_TANH; function++) {
        float x[SMOOTH_COUNT];
        any_means(x, SMOOTH_COUNT);
        lbnn_smooth_point(x, SMOOTH_COUNT, function, Frama_C_float_interval(0.1f, 10.0f));
        check_means(x, SMOOTH_COUNT);
    }
}
