/* Reads the samples of an accelerometer, one a line, and says how damaged the bearing is: "0.45 +- 0.03" or "unsure".
 *
 * The network sees one sample at a time and keeps what it needs of the past in `state`. Firmware would call on_sample from
 * the sensor's interrupt or queue.
 */
#include "limit.h"
#include "monitor.h"

#include <math.h>
#include <stdio.h>

static float state[MONITOR_STATE_LEN];
static float work[MONITOR_PUSH_WORK_LEN];

/* 0, or 1 if the sample was refused. */
static int on_sample(long number, float value)
{
    float             mean[MONITOR_RESULT_LEN], variance[MONITOR_RESULT_LEN];
    const lbnn_status status = monitor_push(state, &value, mean, variance, work);
    if (status == LBNN_MORE) {
        return 0;
    }
    if (status != LBNN_OK) {
        printf("sample %ld: %s\n", number, lbnn_status_message(status));
        return 1;
    }
    const float sigma = sqrtf(variance[0]);
    if (sigma <= SIGMA_LIMIT) {
        printf("sample %4ld: damage %.2f +- %.2f\n", number, (double)mean[0], (double)sigma);
    } else {
        printf("sample %4ld: unsure (sigma %.2f)\n", number, (double)sigma);
    }
    return 0;
}

int main(void)
{
    int   failed = monitor_reset(state) != LBNN_OK;
    float value;
    for (long number = 1; scanf("%f", &value) == 1; number++) {
        failed |= on_sample(number, value);
    }
    return failed;
}
