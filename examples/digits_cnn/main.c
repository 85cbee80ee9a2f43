/* Classifies the digits of samples.h with the exported network, and abstains where their entropy is above its limit. */
#include "digits.h"
#include "samples.h"

#include <stdio.h>

enum { COUNT = sizeof samples / sizeof samples[0] };

static float work[DIGITS_WORK_LEN];

int main(void)
{
    for (int i = 0; i < COUNT; ++i) {
        float           input[DIGITS_INPUT_LEN], probability[DIGITS_OUTPUT_LEN];
        digits_decision decision;
        for (int p = 0; p < DIGITS_INPUT_LEN; ++p)
            input[p] = (float)samples[i].pixels[p];
        const lbnn_status status = digits_classify(input, probability, &decision, work);
        if (status != LBNN_OK) {
            puts(lbnn_status_message(status));
            return 1;
        }
        printf("%-9s ", samples[i].kind);
        if (samples[i].label >= 0)
            printf("of a %d: ", samples[i].label);
        else
            printf("       : ");
        if (decision.unsure)
            printf("unsure");
        else
            printf("%d, %.0f %%", decision.label, (double)(100.0f * probability[decision.label]));
        printf(" (entropy %.2f)\n", (double)decision.entropy);
    }
    return 0;
}
