/* Bare-metal thermometer: converter counts in, "24.9 +- 0.1 C" or "unsure" out.
 *
 * Runs the model's self-test first. No heap, no printf; the exit status is 0 if the self-test and all calls succeed.
 */
#include "device_io.h"
#include "readings.h"
#include "thermometer.h"

#include <math.h>

enum { COUNT = sizeof readings / sizeof readings[0] };

static float work[THERMOMETER_WORK_LEN];

static void print_integer(int32_t value)
{
    char  digits[12];
    char *text = digits + sizeof digits - 1;
    *text = '\0';
    do {
        *--text = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    lbnn_print(text);
}

/* One decimal, rounded; right for |value| up to 10^8. */
static void print_tenths(float value)
{
    const int32_t tenths = (int32_t)(fabsf(value) * 10.0f + 0.5f);
    if (value < 0.0f && tenths > 0)
        lbnn_print("-");
    print_integer(tenths / 10);
    lbnn_print(".");
    print_integer(tenths % 10);
}

static void report(const char *place, int counts, float mean, float sigma)
{
    lbnn_print(place);
    lbnn_print(", ");
    print_integer(counts);
    lbnn_print(" counts: ");
    if (sigma <= SIGMA_LIMIT) {
        print_tenths(mean);
        lbnn_print(" +- ");
        print_tenths(sigma);
        lbnn_print(" C\n");
    } else {
        lbnn_print("unsure (sigma ");
        print_tenths(sigma);
        lbnn_print(" C)\n");
    }
}

int main(void)
{
    if (thermometer_selftest(work) != 0) {
        lbnn_print("self-test FAILED\n");
        return 1;
    }
    for (int i = 0; i < COUNT; ++i) {
        const float       input[THERMOMETER_INPUT_LEN] = {(float)readings[i].counts};
        float             mean[THERMOMETER_OUTPUT_LEN], variance[THERMOMETER_OUTPUT_LEN];
        const lbnn_status status = thermometer_predict(input, mean, variance, work);
        if (status != LBNN_OK) {
            lbnn_print(lbnn_status_message(status));
            return 1;
        }
        report(readings[i].place, readings[i].counts, mean[0], sqrtf(variance[0]));
    }
    return 0;
}
