/* Firmware that runs a model's self-test; the exit status is its result, 0 = all golden vectors match.
 *
 * The model is named on the command line, as for run_samples.c. Where the core has a counter of cycles that runs, which no
 * emulator has, those of one prediction are printed too: of an input of 0.5 everywhere.
 */
#include "cycles.h"
#include "device_io.h"

#define LBNN_JOIN_(a, b) a##b
#define LBNN_JOIN(a, b)  LBNN_JOIN_(a, b)
#define SELFTEST         LBNN_JOIN(LBNN_MODEL, _selftest)
#define PREDICT          LBNN_JOIN(LBNN_MODEL, _predict)
#define INPUT_LEN        LBNN_JOIN(LBNN_MODEL_UPPER, _INPUT_LEN)
#define OUTPUT_LEN       LBNN_JOIN(LBNN_MODEL_UPPER, _OUTPUT_LEN)
#define WORK_LEN         LBNN_JOIN(LBNN_MODEL_UPPER, _WORK_LEN)

#ifdef LBNN_INPUT_VARIANCE
#define INPUT_ARGUMENTS input, input
#else
#define INPUT_ARGUMENTS input
#endif

int SELFTEST(LBNN_JOIN(LBNN_MODEL, _work) work[WORK_LEN]);

static LBNN_JOIN(LBNN_MODEL, _work) work[WORK_LEN > 0 ? WORK_LEN : 1];

#if defined(LBNN_CYCLES_REGISTER)
static void print_number(uint32_t number)
{
    char digits[11] = {0};
    int  first = 10;
    do {
        digits[--first] = (char)('0' + number % 10u);
        number /= 10u;
    } while (number > 0u);
    lbnn_print(digits + first);
}

static void print_cycles(void)
{
    static float input[INPUT_LEN], mean[OUTPUT_LEN], variance[OUTPUT_LEN];
    if (!lbnn_cycles_start()) {
        lbnn_print("cycles: the counter does not run here, as in an emulator\n");
        return;
    }
    for (int i = 0; i < INPUT_LEN; i++)
        input[i] = 0.5f;
    const uint32_t begin = lbnn_cycles();
    const int status = (int)PREDICT(INPUT_ARGUMENTS, mean, variance, work);
    const uint32_t used = lbnn_cycles() - begin;
    lbnn_print("cycles of one prediction: ");
    print_number(used);
    lbnn_print(status == 0 ? "\n" : " (it was refused)\n");
}
#else
static void print_cycles(void)
{
    lbnn_print("cycles: this core has no counter\n");
}
#endif

int main(void)
{
    const int status = SELFTEST(work);
    lbnn_print(status == 0 ? "self-test passed\n" : "self-test FAILED\n");
    print_cycles();
    return status != 0;
}
