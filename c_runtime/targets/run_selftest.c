/* Firmware that runs a model's self-test; the exit status is its result, 0 = all golden vectors match.
 *
 * The model is named on the command line, as for run_samples.c.
 */
#include "device_io.h"

#define LBNN_JOIN_(a, b) a##b
#define LBNN_JOIN(a, b)  LBNN_JOIN_(a, b)
#define SELFTEST         LBNN_JOIN(LBNN_MODEL, _selftest)
#define WORK_LEN         LBNN_JOIN(LBNN_MODEL_UPPER, _WORK_LEN)

int SELFTEST(LBNN_JOIN(LBNN_MODEL, _work) work[WORK_LEN]);

int main(void)
{
    static LBNN_JOIN(LBNN_MODEL, _work) work[WORK_LEN > 0 ? WORK_LEN : 1];
    const int status = SELFTEST(work);
    lbnn_print(status == 0 ? "self-test passed\n" : "self-test FAILED\n");
    return status != 0;
}
