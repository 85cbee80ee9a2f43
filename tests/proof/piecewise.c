/* Piecewise-linear functions of one kink, of two, and of five: every access, for every mean and variance. */
#include "lbnn_piecewise.h"

static void any_pieces(float *table, int kinks)
{
    for (int i = 0; i <= kinks; i++) {
        table[LBNN_PIECE * i] = i > 0 ? 2.0f * (float)i - 4.0f : -FLOAT_MOST;
        table[LBNN_PIECE * i + 1] = Frama_C_float_interval(-8.0f, 8.0f);
        table[LBNN_PIECE * i + 2] = Frama_C_float_interval(-8.0f, 8.0f);
        table[LBNN_PIECE * i + 3] = Frama_C_float_interval(-8.0f, 8.0f);
    }
    table[LBNN_PIECE * (kinks + 1)] = FLOAT_MOST;
    table[LBNN_PIECE * (kinks + 1) + 1] = kinks > 1 ? 2.0f : FLOAT_MOST;
}

static void piecewise(const float *table, int kinks)
{
    for (int n = 1; n < 4; n++) {
        float mean[3], var[3];
        any_means(mean, 3);
        any_vars(var, 3);
        lbnn_piecewise(mean + 3 - n, var + 3 - n, n, table, kinks);
    }
}

void prove_lbnn_piecewise(void)
{
    float one[2 * LBNN_PIECE + 2], two[3 * LBNN_PIECE + 2], five[6 * LBNN_PIECE + 2];
    any_pieces(one, 1);
    any_pieces(two, 2);
    any_pieces(five, 5);
    piecewise(one, 1);
    piecewise(two, 2);
    piecewise(five, 5);
}

void prove_lbnn_piecewise_point(void)
{
    float x[8], table[4 * LBNN_PIECE + 2];
    any_pieces(table, 3);
    any_means(x, 8);
    lbnn_piecewise_point(x, Frama_C_int_interval(1, 8), table, 3);
    check_means(x, 8);
}
