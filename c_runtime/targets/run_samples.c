/* Runs a model over a file of samples: inputs.bin -> outputs.bin, both plain 32-bit words.
 *
 * The model is named on the command line: -include NAME.h -DLBNN_MODEL=NAME -DLBNN_MODEL_UPPER=NAME_IN_UPPER_CASE, and
 * -DLBNN_INPUT_VARIANCE where its predict takes one. -DLBNN_CLASSIFY runs its classify instead: probabilities in place
 * of means, and the four words of its decision in place of variances. -DLBNN_CALL=FUNCTION calls another function with the
 * same arguments, such as NAME_replay of a stream.
 *   inputs.bin:  for each sample the input, then the input variance if the model takes one
 *   outputs.bin: the timer ticks of an empty call; then for each sample status, ticks, bytes of stack, mean, variance
 */
#include "device_io.h"
#include "stack.h"
#include "timer.h"

#define LBNN_JOIN_(a, b) a##b
#define LBNN_JOIN(a, b)  LBNN_JOIN_(a, b)
#define INPUT_LEN        LBNN_JOIN(LBNN_MODEL_UPPER, _INPUT_LEN)
#define OUTPUT_LEN       LBNN_JOIN(LBNN_MODEL_UPPER, _OUTPUT_LEN)
#define WORK_LEN         LBNN_JOIN(LBNN_MODEL_UPPER, _WORK_LEN)

#ifdef LBNN_CLASSIFY
#define DEFAULT_CALL  LBNN_JOIN(LBNN_MODEL, _classify)
#define SECOND_RESULT LBNN_JOIN(LBNN_MODEL, _decision) second[1]
#else
#define DEFAULT_CALL  LBNN_JOIN(LBNN_MODEL, _predict)
#define SECOND_RESULT float second[OUTPUT_LEN]
#endif
#ifdef LBNN_CALL
#define PREDICT LBNN_CALL
#else
#define PREDICT DEFAULT_CALL
#endif

#ifdef LBNN_INPUT_VARIANCE
#define INPUTS          2
#define INPUT_ARGUMENTS sample[0], sample[1]
#else
#define INPUTS          1
#define INPUT_ARGUMENTS sample[0]
#endif

static float sample[INPUTS][INPUT_LEN];
static LBNN_JOIN(LBNN_MODEL, _work) work[WORK_LEN > 0 ? WORK_LEN : 1];

static struct {
    int32_t  status;
    uint32_t ticks;
    uint32_t stack;
    float    mean[OUTPUT_LEN];
    SECOND_RESULT;
} record;

/* Volatile, and called from one place, so that the empty call and the real one are made by the same instructions. */
typedef __typeof__(PREDICT) predict_function;
static predict_function *volatile function;

static __attribute__((noinline)) void timed_call(void)
{
    predict_function *const call = function;
    lbnn_paint_stack();
    const uint32_t start = lbnn_timer_ticks();
    record.status = (int32_t)call(INPUT_ARGUMENTS, record.mean, record.second, work);
    __asm volatile("" ::: "memory");
    record.ticks = lbnn_timer_ticks() - start;
    record.stack = lbnn_used_stack();
}

#if defined(__arm__) || defined(__riscv)
/* Two instructions at any optimisation level: what is added to them is the call's own cost. */
__attribute__((naked)) static void empty(void)
{
#if defined(__arm__)
    __asm volatile("movs r0, #0\n bx lr");
#else
    __asm volatile("li a0, 0\n ret");
#endif
}

static void time_empty_call(void)
{
    function = (predict_function *)(void (*)(void))empty;
    timed_call();
}
#else
static void time_empty_call(void) /* a host has no timer here, and checks the types of indirect calls */
{
}
#endif

int main(void)
{
    const int in = lbnn_open_read("inputs.bin");
    const int out = lbnn_open_write("outputs.bin");
    if (in < 0 || out < 0) {
        lbnn_print("cannot open inputs.bin and outputs.bin\n");
        return 2;
    }
    lbnn_timer_start();
    time_empty_call();
    int failed = lbnn_write(out, &record.ticks, sizeof record.ticks);
    function = PREDICT;
    while (lbnn_read(in, sample, sizeof sample) == 0) {
        timed_call();
        failed |= lbnn_write(out, &record, sizeof record);
    }
    lbnn_close(in);
    lbnn_close(out);
    return failed;
}
