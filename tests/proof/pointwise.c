/* Operators on single elements, the head and the checks: lengths up to 64, where it can be at once. */
#include "lbnn_pointwise.h"

enum { MOST = 64 };

void prove_lbnn_affine(void)
{
    float mean[6], var[6], scale[3], shift[3];
    any_means(mean, 6);
    any_vars(var, 6);
    any_means(scale, 3);
    any_means(shift, 3);
    lbnn_affine(mean, var, scale, shift, 3, 2);
    check_means(mean, 6);
    check_vars(var, 6);
    lbnn_affine(mean + 5, var + 5, scale + 2, shift + 2, 1, 1);
    check_vars(var + 5, 1);
}

void prove_lbnn_affine_point(void)
{
    float x[6], scale[3], shift[3];
    any_means(x, 6);
    any_means(scale, 3);
    any_means(shift, 3);
    lbnn_affine_point(x, scale, shift, 3, 2);
    check_means(x, 6);
}

void prove_lbnn_add_points(void)
{
    float a[MOST], b[MOST], out[MOST];
    any_means(a, MOST);
    any_means(b, MOST);
    lbnn_add_points(a, b, out, MOST);
    check_means(out, MOST);
    lbnn_add_points(a, b, a, Frama_C_int_interval(1, MOST));
    lbnn_add_points(a, b, b, Frama_C_int_interval(1, MOST));
}

void prove_lbnn_add(void)
{
    float a_mean[MOST], a_var[MOST], b_mean[MOST], b_var[MOST], out_mean[MOST], out_var[MOST];
    any_means(a_mean, MOST);
    any_vars(a_var, MOST);
    any_means(b_mean, MOST);
    any_vars(b_var, MOST);
    lbnn_add(a_mean, a_var, b_mean, b_var, out_mean, out_var, MOST);
    check_means(out_mean, MOST);
    check_vars(out_var, MOST);
    lbnn_add(a_mean, a_var, b_mean, b_var, a_mean, a_var, Frama_C_int_interval(1, MOST));
    check_vars(a_var, MOST);
}

void prove_lbnn_shift(void)
{
    float a_mean[MOST], a_var[MOST], point[MOST], out_mean[MOST], out_var[MOST];
    any_means(a_mean, MOST);
    any_vars(a_var, MOST);
    any_means(point, MOST);
    lbnn_shift(a_mean, a_var, point, out_mean, out_var, MOST);
    check_means(out_mean, MOST);
    check_vars(out_var, MOST);
    lbnn_shift(a_mean, a_var, point, a_mean, a_var, Frama_C_int_interval(1, MOST));
    check_vars(a_var, MOST);
}

void prove_lbnn_copy(void)
{
    float in[MOST], out[MOST];
    any_means(in, MOST);
    lbnn_copy(in, out, MOST - 1); /* words by fours, and three that are left */
    check_means(out, MOST - 1);
    lbnn_copy(in, out, Frama_C_int_interval(1, MOST));
}

/* Two inputs side by side, along the second axis. */
void prove_lbnn_concat(void)
{
    float left[6], right[9], out[15];
    any_means(left, 6);
    any_means(right, 9);
    lbnn_concat(left, out, 3, 2, 5);
    lbnn_concat(right, out + 2, 3, 3, 5);
    check_means(out, 15);
}

void prove_lbnn_pad(void)
{
    float in[12], out[2 * 6 * 6], same[12];
    any_means(in, 12);
    lbnn_pad(in, out, 2, 3, 2, 2, 1, 1, 3);
    check_means(out, 2 * 6 * 6);
    lbnn_pad(in, same, 2, 3, 2, 0, 0, 0, 0);
    check_means(same, 12);
}

void prove_lbnn_lift(void)
{
    float var[MOST];
    lbnn_lift(var, MOST);
    check_vars(var, MOST);
}

#ifdef PROVE_ANY_BITS
#define HEAD_MEAN any_float()
#else
#define HEAD_MEAN Frama_C_float_interval(-HEAD_MOST, HEAD_MOST)
#endif

/* Intervals do not see that x + |x| is not negative, so of the variance only its size is checked.
 * lbnn_exp stops at -87, so that what it is given lies on one side of that or, with it, within the other. */
static float head_noise(int part)
{
    switch (part) {
        case 0: return Frama_C_float_interval(-87.0f, 87.0f);
        case 1: return Frama_C_float_interval(87.0f, HEAD_MOST);
        case 2: return Frama_C_float_interval(-HEAD_MOST, -87.0f);
#ifdef PROVE_ANY_BITS
        case 3: return 1.0f / 0.0f;
        case 4: return -1.0f / 0.0f;
        case 5: return 0.0f / 0.0f;
#endif
        default: return 0.0f;
    }
}

static void head_means(float *in, int k, int part)
{
    for (int i = 0; i < k; i++) {
        in[i] = HEAD_MEAN;
        in[k + i] = head_noise(part);
    }
}

static void check_head(const float *mean, const float *var, int k)
{
    for (int i = 0; i < k; i++) {
        //@ check written: \initialized(mean + i) && \initialized(var + i);
#ifndef PROVE_ANY_BITS
        //@ check mean: -HEAD_MOST <= mean[i] <= HEAD_MOST;
        //@ check var: -3 * HEAD_MOST <= var[i] <= 3 * HEAD_MOST;
#endif
    }
}

void prove_lbnn_variance_head(void)
{
    for (int part = 0; part < 6; part++) {
        for (int k = 1; k < 5; k++) {
            float means[8], vars[8], out_means[4], out_vars[4];
            float *mean = means + 8 - 2 * k, *var = vars + 8 - 2 * k;
            float *out_mean = out_means + 4 - k, *out_var = out_vars + 4 - k;
            head_means(mean, k, part);
            head_means(var, k, 0);
            lbnn_variance_head(mean, var, out_mean, out_var, k);
            check_head(out_mean, out_var, k);
            lbnn_variance_head(mean, var, mean, var, k);
            check_head(mean, var, k);
        }
    }
}

void prove_lbnn_variance_head_point(void)
{
    for (int part = 0; part < 6; part++) {
        for (int k = 1; k < 5; k++) {
            float in[8], out_means[4], out_vars[4];
            float *mean = in + 8 - 2 * k, *out_mean = out_means + 4 - k, *out_var = out_vars + 4 - k;
            head_means(mean, k, part);
            lbnn_variance_head_point(mean, out_mean, out_var, k);
            check_head(out_mean, out_var, k);
        }
    }
}

void prove_lbnn_is_finite(void)
{
    float x[MOST];
    any_means(x, MOST);
    const int finite = lbnn_is_finite(x, Frama_C_int_interval(1, MOST));
    //@ check boolean: finite == 0 || finite == 1;
}

void prove_lbnn_is_variance(void)
{
    float x[MOST];
    any_vars(x, MOST);
    const int right = lbnn_is_variance(x, Frama_C_int_interval(1, MOST));
    //@ check boolean: right == 0 || right == 1;
}

void prove_lbnn_emit(void)
{
    float in_mean[MOST], in_var[MOST], out_mean[MOST], out_var[MOST];
    any_means(in_mean, MOST);
    any_vars(in_var, MOST);
    if (lbnn_emit(in_mean, in_var, out_mean, out_var, MOST) == LBNN_OK) {
        check_means(out_mean, MOST);
        check_vars(out_var, MOST);
    }
}

void prove_lbnn_status_message(void)
{
    for (int status = -129; status < 2; status++) {
        const char *message = lbnn_status_message((lbnn_status)status);
        //@ check text: \valid_read(message) && message[0] != 0;
    }
}


void prove_lbnn_sqrtf_by_digits(void)
{
    const float root = lbnn_sqrtf_by_digits(ANY_VAR);
    check_means(&root, 1);
}
