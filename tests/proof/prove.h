/* prove.h: inputs for Frama-C's EVA, which follows all values of an interval at once.
 *
 * Arrays have exactly the length a kernel may touch, so that a step beyond either end is an alarm. What a kernel has to
 * write starts out uninitialised, and `check` is an obligation, never an assumption.
 */
#ifndef PROVE_H
#define PROVE_H

#include "__fc_builtin.h"
#include "lbnn_weights.h"

#define MEAN_MOST 1e6f
#define VAR_MOST 1e12f

/* What lbnn_leaky_relu is proved to give for inputs within the limits above, and lbnn_variance_head for its own; used
 * in their place in models.c. No interval arithmetic sees that a variance behind an activation is not negative. */
#define RELU_MEAN_MOST 1e8f
#define RELU_VAR_MOST 1e16f
#define HEAD_MOST 1e30f
#define FLOAT_MOST 3.4028234e38f

/* Callers are proved with this contract in place of the body, the body is proved in prove_lbnn_exp2. */
/*@ requires range: 0 <= t <= 125.75;
    assigns \result \from t;
    ensures finite: \is_finite(\result);
    ensures range: 1e-39 <= \result <= 2; */
LBNN_INLINE lbnn_lanes lbnn_exp2(lbnn_lanes t);

/* The same value as a branch, at which EVA follows both cases apart (-eva-split-return-function), in each with what it
 * says of x. */
static lbnn_mask split_less(lbnn_lanes x, lbnn_lanes y)
{
    const lbnn_mask less = lbnn_lanes_less(x, y);
    if (x < y) {
        //@ admit same: less == 1;
        return less;
    }
    //@ admit same: less == 0;
    return less;
}
#define lbnn_lanes_less split_less

/* No NaN passes a comparison, which EVA does not conclude. */
static lbnn_lanes number_at_most(lbnn_lanes x, float most)
{
    const lbnn_lanes smaller = lbnn_lanes_at_most(x, most);
    //@ admit number: !\is_NaN(smaller);
    return smaller;
}
#define lbnn_lanes_at_most number_at_most

static lbnn_lanes number_at_least(lbnn_lanes x, float least)
{
    const lbnn_lanes larger = lbnn_lanes_at_least(x, least);
    //@ admit number: !\is_NaN(larger);
    return larger;
}
#define lbnn_lanes_at_least number_at_least

/* `ahead` has been found below 12 sigma, a relation between two values, of which EVA keeps none; the quotient of two
 * floats of whatever size is then at most 12 (1 + 2^-23): any number up to that in its place. */
#include "lbnn_math.h"
static lbnn_lanes near_place(lbnn_lanes ahead, lbnn_lanes sigma)
{
    (void)lbnn_tail_place(ahead, sigma);
    return Frama_C_float_interval(0.0f, 12.00001f);
}
#define lbnn_tail_place near_place

#ifdef PROVE_ANY_BITS
#define ANY_MEAN any_float()
#define ANY_VAR any_float()
#else
#define ANY_MEAN Frama_C_float_interval(-MEAN_MOST, MEAN_MOST)
#define ANY_VAR Frama_C_float_interval(0.0f, VAR_MOST)
#endif

/* Every bit pattern: infinities and all NaN too. */
static float any_float(void)
{
    const unsigned bits = Frama_C_unsigned_int_interval(0u, 0xffffffffu);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void any_means(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        x[i] = ANY_MEAN;
    }
}

static void any_vars(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        x[i] = ANY_VAR;
    }
}

/* One layer as lbnn_sums.h packs it: `inputs` of one output, outputs of one group in blocks of 8, zeros at the end. */
#ifdef LBNN_HALF_WEIGHTS
#define WEIGHTS_LEN(inputs, outputs) ((outputs) * ((inputs) + 2))

static void any_weights(lbnn_weight *w, int inputs, int outputs, int groups, int pad)
{
    (void)groups;
    for (int i = 0; i < WEIGHTS_LEN(inputs, outputs); i++) {
        w[i] = Frama_C_unsigned_int_interval(0u, 0xffffffffu);
    }
    for (int i = 0; i < pad; i++) {
        w[WEIGHTS_LEN(inputs, outputs) + i] = 0u;
    }
}
#else
#define WEIGHTS_LEN(inputs, outputs) (2 * (outputs) * ((inputs) + 1))

static void any_weights(float *w, int inputs, int outputs, int groups, int pad)
{
    for (int g = 0; g < groups; g++) {
        for (int rest = outputs / groups; rest > 0; rest -= 8) {
            const int width = rest < 8 ? rest : 8;
            for (int row = 0; row <= inputs; row++) {
                any_means(w, width);
                any_vars(w + width, width);
                w += 2 * width;
            }
        }
    }
    for (int i = 0; i < pad; i++) {
        w[i] = 0.0f;
    }
}
#endif

static void check_means(const float *x, int n)
{
    for (int i = 0; i < n; i++) {
        //@ check written: \initialized(x + i);
    }
}

static void check_vars(const float *x, int n)
{
    for (int i = 0; i < n; i++) {
        //@ check written: \initialized(x + i);
#ifndef PROVE_ANY_BITS
        //@ check not_negative: x[i] >= 0;
#endif
    }
}

#endif
