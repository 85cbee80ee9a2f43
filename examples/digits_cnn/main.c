/* Classifies the digits of samples.h with the exported network, and abstains where its score is below the limit. */
#include "digits.h"
#include "samples.h"

#include <math.h>
#include <stdio.h>

enum { COUNT = sizeof samples / sizeof samples[0] };

static float work[DIGITS_WORK_LEN];

static int largest(const float mean[DIGITS_OUTPUT_LEN])
{
    int best = 0;
    for (int k = 1; k < DIGITS_OUTPUT_LEN; ++k)
        if (mean[k] > mean[best])
            best = k;
    return best;
}

/* Log-likelihood of the one-hot vector of `label`: -sum_k [log(2 pi v_k) + (e_k - m_k)^2 / v_k] / 2. */
static float score(const float mean[DIGITS_OUTPUT_LEN], const float variance[DIGITS_OUTPUT_LEN], int label)
{
    float sum = 0.0f;
    for (int k = 0; k < DIGITS_OUTPUT_LEN; ++k) {
        const float misfit = (k == label ? 1.0f : 0.0f) - mean[k];
        sum += logf(6.28318531f * variance[k]) + misfit * misfit / variance[k];
    }
    return -0.5f * sum;
}

int main(void)
{
    for (int i = 0; i < COUNT; ++i) {
        float input[DIGITS_INPUT_LEN], mean[DIGITS_OUTPUT_LEN], variance[DIGITS_OUTPUT_LEN];
        for (int p = 0; p < DIGITS_INPUT_LEN; ++p)
            input[p] = (float)samples[i].pixels[p];
        const lbnn_status status = digits_predict(input, mean, variance, work);
        if (status != LBNN_OK) {
            puts(lbnn_status_message(status));
            return 1;
        }
        const int   best  = largest(mean);
        const float value = score(mean, variance, best);
        printf("%-9s ", samples[i].kind);
        if (samples[i].label >= 0)
            printf("of a %d: ", samples[i].label);
        else
            printf("       : ");
        if (value >= SCORE_LIMIT)
            printf("%d       (score %6.1f)\n", best, (double)value);
        else
            printf("unsure  (score %6.1f)\n", (double)value);
    }
    return 0;
}
