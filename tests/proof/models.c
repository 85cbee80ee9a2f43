/* Whole models, of which the two functions that only boxes can prove are replaced by what is proved of them: the
 * replacements check that their inputs are within its limits. In the mode of all bit patterns they may give any. */
#include "prove.h"

#include "lbnn_activation.h"
#include "lbnn_pointwise.h"

#ifdef PROVE_ANY_BITS
#define WITHIN(most) any_float()
#else
#define WITHIN(most) Frama_C_float_interval(-(most), most)
#endif

static void promised_leaky_relu(float *mean, float *var, int n, float slope)
{
    //@ check slope: 0 <= slope <= 1;
    for (int i = 0; i < n; i++) {
#ifndef PROVE_ANY_BITS
        //@ check mean: -MEAN_MOST <= mean[i] <= MEAN_MOST;
        //@ check var: 0 <= var[i] <= VAR_MOST;
#endif
        //@ check written: \initialized(mean + i) && \initialized(var + i);
        mean[i] = WITHIN(RELU_MEAN_MOST);
        var[i] = WITHIN(RELU_VAR_MOST);
    }
}

static void promised_variance_head(const float *in_mean, const float *in_var, float *out_mean, float *out_var, int k)
{
    for (int i = 0; i < k; i++) {
#ifndef PROVE_ANY_BITS
        //@ check mean: -HEAD_MOST <= in_mean[i] <= HEAD_MOST && -HEAD_MOST <= in_mean[k + i] <= HEAD_MOST;
        //@ check var: -HEAD_MOST <= in_var[i] <= HEAD_MOST;
#endif
        out_mean[i] = in_mean[i];
        out_var[i] = WITHIN(3 * HEAD_MOST);
    }
}

#define lbnn_leaky_relu promised_leaky_relu
#define lbnn_variance_head promised_variance_head
#include "cnn/cnn.c"
#include "mlp/mlp.c"

#define PROVE_MODEL(NAME, name)                                                                        \
    void prove_##name##_predict(void)                                                                  \
    {                                                                                                  \
        float input[NAME##_INPUT_LEN], mean[NAME##_OUTPUT_LEN], variance[NAME##_OUTPUT_LEN];           \
        float work[NAME##_WORK_LEN];                                                                   \
        for (int i = 0; i < NAME##_INPUT_LEN; i++) {                                                   \
            input[i] = WITHIN(1e4f);                                                                   \
        }                                                                                              \
        if (name##_predict(input, mean, variance, work) == LBNN_OK) {                                  \
            check_means(mean, NAME##_OUTPUT_LEN);                                                      \
            check_means(variance, NAME##_OUTPUT_LEN);                                                  \
        }                                                                                              \
        (void)name##_predict(0, mean, variance, work);                                                 \
    }

PROVE_MODEL(CNN, cnn)
PROVE_MODEL(MLP, mlp)
