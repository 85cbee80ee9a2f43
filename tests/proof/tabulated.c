/* Tables of functions: any numbers in a table of any size up to a few cells, so that every index is seen to stay inside. */
#include "lbnn_tabulated.h"

#define TABULATED_COUNT 1
#define TABULATED_CELLS_MOST 9
#define TABULATED_NUMBERS \
    (LBNN_TABULATED_CELLS + 4 * TABULATED_CELLS_MOST + 3 * LBNN_TABULATED_KNOTS(TABULATED_CELLS_MOST))

static float tabulated_numbers[TABULATED_NUMBERS];

static void any_table(void)
{
    for (int i = 0; i < TABULATED_NUMBERS; i++) {
        tabulated_numbers[i] = Frama_C_float_interval(-20.0f, 20.0f);
    }
    tabulated_numbers[LBNN_TABULATED_STEP] = Frama_C_float_interval(0.1f, 10.0f);
    tabulated_numbers[LBNN_TABULATED_INVERSE] = Frama_C_float_interval(0.1f, 10.0f);
    tabulated_numbers[LBNN_TABULATED_SQUARE] = Frama_C_float_interval(0.01f, 100.0f);
}

void prove_lbnn_tabulated(void)
{
    float mean[TABULATED_COUNT], var[TABULATED_COUNT];
    any_table();
    any_means(mean, TABULATED_COUNT);
    any_vars(var, TABULATED_COUNT);
    lbnn_tabulated(mean, var, TABULATED_COUNT, tabulated_numbers, TABULATED_CELLS_MOST);
    check_means(mean, TABULATED_COUNT);
    check_means(var, TABULATED_COUNT);
}

void prove_lbnn_tabulated_point(void)
{
    float x[TABULATED_COUNT];
    any_table();
    any_means(x, TABULATED_COUNT);
    lbnn_tabulated_point(x, TABULATED_COUNT, tabulated_numbers, TABULATED_CELLS_MOST);
    check_means(x, TABULATED_COUNT);
}
