/* Predicts the samples of samples.h on an AVR and writes to its serial port, in hexadecimal: the result of the self-test,
 * then for each sample a line of the status and the bits of means and variances. The model is named as for
 * c_runtime/targets/run_samples.c. */
#include <avr/io.h>
#include <avr/sleep.h>
#include <stdint.h>
#include <string.h>

#include "samples.h" /* SAMPLES, and their bits */

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define PREDICT JOIN(LBNN_MODEL, _predict)
#define SELFTEST JOIN(LBNN_MODEL, _selftest)
#define OUTPUT_LEN JOIN(LBNN_MODEL_UPPER, _OUTPUT_LEN)
#define WORK_LEN JOIN(LBNN_MODEL_UPPER, _WORK_LEN)
#define INPUT_LEN JOIN(LBNN_MODEL_UPPER, _INPUT_LEN)

static void put(char letter)
{
    while (!(UCSR0A & (1 << UDRE0))) {
    }
    UDR0 = (uint8_t)letter;
}

static void put_word(uint32_t word)
{
    for (int shift = 28; shift >= 0; shift -= 4) {
        put("0123456789abcdef"[(word >> shift) & 15u]);
    }
}

static void put_floats(const float *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, numbers + i, sizeof word);
        put_word(word);
    }
}

static JOIN(LBNN_MODEL, _work) work[WORK_LEN];
static float input[INPUT_LEN], mean[OUTPUT_LEN], variance[OUTPUT_LEN];

int main(void)
{
    UCSR0B = 1 << TXEN0;
    put_word((uint32_t)SELFTEST(work));
    put('\n');
    for (int i = 0; i < SAMPLES; i++) {
        memcpy(input, samples[i], sizeof input);
        put_word((uint32_t)PREDICT(input, mean, variance, work));
        put_floats(mean, OUTPUT_LEN);
        put_floats(variance, OUTPUT_LEN);
        put('\n');
    }
    __asm__ volatile("cli");
    sleep_mode(); /* without interrupts: simavr ends */
    return 0;
}
