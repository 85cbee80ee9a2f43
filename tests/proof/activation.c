/* Activations. |E| / sigma must stay below 13.1, where lbnn_density_by_steps ends (lbnn_exp2 at 13.2); intervals hold no relation between E and sigma,
 * so the plane is cut into boxes: the variance into steps of a factor below 1.2, and for each of them the mean into
 * five parts: well inside the tail, well outside on both sides, and the two slivers between. */
#include "lbnn_activation.h"

#ifdef LBNN_DENSITY_STEPS
/* Like that of lbnn_exp2, in units of 1 / 32. It is not said to come from the address of the table: what comes from an
 * address is no number to EVA. */
/*@ requires range: 0 <= t <= 3968;
    assigns \result \from t, c.first, c.second;
    ensures finite: \is_finite(\result);
    ensures range: 1e-39 <= \result <= 2; */
LBNN_INLINE float lbnn_density_by_steps(float t, lbnn_density_curve c);

/* The body behind the contract: n is one of two integers in each step, so that the bits of the table are known. */
void prove_lbnn_density_by_steps(void)
{
    for (int k = 0; k < 3968; k++) {
        (void)lbnn_density_by_steps(Frama_C_float_interval((float)k, (float)(k + 1)), lbnn_density_prepare());
    }
}
#endif

/* The smallest denormals are steps of their own. */
#define NEXT_VAR(v) ((v) * ((v) < 1e-40f ? 1.12f : 1.19f))

#ifdef PROVE_ANY_BITS
#define BOX_MEAN_MOST FLOAT_MOST
#define BOX_VAR_MOST FLOAT_MOST
#else
#define BOX_MEAN_MOST MEAN_MOST
#define BOX_VAR_MOST VAR_MOST
#endif

#ifdef PROVE_SHORT
#define BOX_VAR_FIRST 1e-1f
#define BOX_VAR_LAST 1e1f
#else
#define BOX_VAR_FIRST 1e-45f
#define BOX_VAR_LAST BOX_VAR_MOST
#endif

/* Of no clamp, and of the absolute value. */
#define UNCLAMPED 0.0f
#define ABSOLUTE (-1.0f)

static float least(float x, float y)
{
    return x < y ? x : y;
}

static void relu(float mean, float var, float slope, float clamp)
{
    if (clamp == UNCLAMPED) {
        lbnn_leaky_relu(&mean, &var, 1, slope);
    } else if (clamp == ABSOLUTE) {
        lbnn_abs(&mean, &var, 1);
    } else {
        lbnn_leaky_relu_clamped(&mean, &var, 1, slope, clamp);
    }
#ifndef PROVE_ANY_BITS
    //@ check mean: -RELU_MEAN_MOST <= mean <= RELU_MEAN_MOST;
    //@ check var: -RELU_VAR_MOST <= var <= RELU_VAR_MOST;
#endif
}

static void relu_box(float least_mean, float most_mean, float least_var, float most_var, float slope, float clamp)
{
    relu(Frama_C_float_interval(least_mean, most_mean), Frama_C_float_interval(least_var, most_var), slope, clamp);
}

/* All finite means and variances up to the limits; the tail ends where |E| is `tail` times sigma. */
static void relu_boxes(float tail, float slope, float clamp)
{
    relu_box(-BOX_MEAN_MOST, BOX_MEAN_MOST, 0.0f, 0.0f, slope, clamp);
    //@ loop unroll 2000;
    for (float v = BOX_VAR_FIRST; v < BOX_VAR_LAST; v = NEXT_VAR(v) + 1e-45f) {
        const float next = least(NEXT_VAR(v), BOX_VAR_LAST);
        const float inner = least(0.999f * tail * sqrtf(v), BOX_MEAN_MOST);
        const float outer = least(1.001f * tail * sqrtf(next), BOX_MEAN_MOST);
        relu_box(-inner, inner, v, next, slope, clamp);
        relu_box(-outer, -inner, v, next, slope, clamp);
        relu_box(inner, outer, v, next, slope, clamp);
        relu_box(-BOX_MEAN_MOST, -outer, v, next, slope, clamp);
        relu_box(outer, BOX_MEAN_MOST, v, next, slope, clamp);
    }
}

/* What no box holds: variances that are negative, infinite or NaN, and means that are infinite or NaN. */
static void relu_rest(float slope, float clamp)
{
#ifdef PROVE_ANY_BITS
    const float infinite = 1.0f / 0.0f;
    const float means[] = {infinite, -infinite, infinite - infinite};
    const float vars[] = {infinite, -infinite, infinite - infinite};
    for (int i = 0; i < 3; i++) {
        relu(Frama_C_float_interval(-FLOAT_MOST, FLOAT_MOST), vars[i], slope, clamp);
        relu(means[i], Frama_C_float_interval(-FLOAT_MOST, FLOAT_MOST), slope, clamp);
        for (int k = 0; k < 3; k++) {
            relu(means[i], vars[k], slope, clamp);
        }
    }
    relu_box(-FLOAT_MOST, FLOAT_MOST, -FLOAT_MOST, -1e-45f, slope, clamp);
#endif
}

/* Which elements are touched depends on the length alone: arrays that end with the n-th element. */
static void relu_lengths(float slope, float clamp)
{
    for (int n = 1; n < 10; n++) {
        float mean[9], var[9];
        for (int i = 0; i < 9; i++) {
            mean[i] = 0.5f * (float)i - 2.0f;
            var[i] = (float)(i % 3);
        }
        if (clamp == UNCLAMPED) {
            lbnn_leaky_relu(mean + 9 - n, var + 9 - n, n, slope);
        } else if (clamp == ABSOLUTE) {
            lbnn_abs(mean + 9 - n, var + 9 - n, n);
        } else {
            lbnn_leaky_relu_clamped(mean + 9 - n, var + 9 - n, n, slope, clamp);
        }
    }
}

void prove_lbnn_leaky_relu(void)
{
    const float slope = Frama_C_float_interval(0.0f, 1.0f);
    relu_lengths(slope, UNCLAMPED);
    relu_boxes(LBNN_TAIL_MAX, slope, UNCLAMPED);
    relu_rest(slope, UNCLAMPED);
}

/* A clamp within the tail and one beyond its end. */
void prove_lbnn_leaky_relu_clamped(void)
{
    const float slope = Frama_C_float_interval(0.0f, 1.0f);
    relu_lengths(slope, 3.0f);
    relu_boxes(3.0f, slope, 3.0f);
    relu_rest(slope, 3.0f);
    relu_boxes(LBNN_TAIL_MAX, slope, 1e30f);
    relu_rest(slope, 1e30f);
}

void prove_lbnn_leaky_relu_point(void)
{
    float x[64];
    const float slope = Frama_C_float_interval(0.0f, 1.0f);
    any_means(x, 64);
    lbnn_leaky_relu_point(x, Frama_C_int_interval(1, 64), slope);
    check_means(x, 64);
}

void prove_lbnn_abs(void)
{
    relu_lengths(-1.0f, ABSOLUTE);
    relu_boxes(LBNN_TAIL_MAX, -1.0f, ABSOLUTE);
    relu_rest(-1.0f, ABSOLUTE);
}

void prove_lbnn_abs_point(void)
{
    float x[64];
    any_means(x, 64);
    lbnn_abs_point(x, Frama_C_int_interval(1, 64));
    check_means(x, 64);
}

/* The body behind the contract: n is one of two integers in each step. */
void prove_lbnn_exp2(void)
{
    for (int k = 0; k < 503; k++) {
        (void)lbnn_exp2(Frama_C_float_interval(0.25f * (float)k, 0.25f * (float)(k + 1)));
    }
}
