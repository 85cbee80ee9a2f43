/* Runs a model on an AVR over the samples of samples.h, and writes to the serial port in hexadecimal: first the result of
 * the self-test where there is one (-DLBNN_SELFTEST), the cycles of an empty call and those of a delay of 2^20; then for each
 * sample a line of status, cycles, bytes of stack, mean and variance. The model is named as for run_samples.c.
 *
 * samples.h has SAMPLES and `samples`, words of 32 bits in flash: of each sample the input, and its variance if the model
 * takes one. simavr shows a line when it ends, and itself ends where a core sleeps that nothing can wake. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/pgmspace.h>
#include <avr/sleep.h>
#include <stdint.h>
#include <string.h>

#include "samples.h"

#define LBNN_JOIN_(a, b) a##b
#define LBNN_JOIN(a, b)  LBNN_JOIN_(a, b)
#define INPUT_LEN        LBNN_JOIN(LBNN_MODEL_UPPER, _INPUT_LEN)
#define OUTPUT_LEN       LBNN_JOIN(LBNN_MODEL_UPPER, _OUTPUT_LEN)
#define WORK_LEN         LBNN_JOIN(LBNN_MODEL_UPPER, _WORK_LEN)

#ifdef LBNN_CLASSIFY
#define DEFAULT_CALL LBNN_JOIN(LBNN_MODEL, _classify)
static LBNN_JOIN(LBNN_MODEL, _decision) second[1];
#else
#define DEFAULT_CALL LBNN_JOIN(LBNN_MODEL, _predict)
static float second[OUTPUT_LEN];
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

static float sample[INPUTS][INPUT_LEN], mean[OUTPUT_LEN];
static LBNN_JOIN(LBNN_MODEL, _work) work[WORK_LEN > 0 ? WORK_LEN : 1];

/* ---- words to the serial port ------------------------------------------------------------------ */

static void put(char letter)
{
    while (!(UCSR0A & (1 << UDRE0))) {
    }
    UDR0 = (uint8_t)letter;
}

static void put_word(uint32_t word)
{
    for (int shift = 28; shift >= 0; shift -= 4) {
        const uint8_t digit = (word >> shift) & 15u;
        put((char)(digit < 10 ? '0' + digit : 'a' + digit - 10));
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

static void put_second(void)
{
#ifdef LBNN_CLASSIFY
    put_word((uint32_t)(int32_t)second->label);
    put_floats(&second->entropy, 1);
    put_floats(&second->mutual_information, 1);
    put_word((uint32_t)(int32_t)second->unsure);
#else
    put_floats(second, OUTPUT_LEN);
#endif
}

/* ---- cycles: timer 1, and how often it overflows ------------------------------------------------ */

static volatile uint16_t overflows;

ISR(TIMER1_OVF_vect)
{
    overflows++;
}

static void start_timer(void)
{
    overflows = 0;
    TCNT1 = 0;
    TIFR1 = 1 << TOV1; /* by writing 1 the flag is cleared */
    TIMSK1 = 1 << TOIE1;
    sei();
}

/* Without interrupts from here on: they take stack of their own. */
static uint32_t stop_timer(void)
{
    cli();
    const uint16_t low = TCNT1;
    uint16_t high = overflows;
    if ((TIFR1 & (1 << TOV1)) && low < 0x8000u) {
        high++;
    }
    TIMSK1 = 0;
    return ((uint32_t)high << 16) | low;
}

/* Volatile, and called from one place, so that the empty call and the real one are made by the same instructions. */
typedef __typeof__(PREDICT) predict_function;
static predict_function *volatile function;

__attribute__((naked)) static void empty(void)
{
    __asm__ volatile("ret");
}

__attribute__((naked)) static void delay(void)
{
    __builtin_avr_delay_cycles(1048576);
    __asm__ volatile("ret");
}

static __attribute__((noinline)) int call(void)
{
    predict_function *const chosen = function;
    return (int)chosen(INPUT_ARGUMENTS, mean, second, work);
}

static __attribute__((noinline)) uint32_t cycles(void (*chosen)(void))
{
    function = (predict_function *)chosen;
    start_timer();
    call();
    return stop_timer();
}

/* ---- stack: paint what is free, look what has changed ------------------------------------------- */

extern char __heap_start; /* behind all variables */

static __attribute__((noinline)) uint16_t stack(int *status)
{
    volatile uint8_t *const top = (volatile uint8_t *)SP;
    for (volatile uint8_t *at = (volatile uint8_t *)&__heap_start; at < top; at++) {
        *at = 0xa5;
    }
    function = PREDICT;
    *status = call();
    volatile uint8_t *at = (volatile uint8_t *)&__heap_start;
    while (at < top && *at == 0xa5) {
        at++;
    }
    return (uint16_t)(top - at);
}

int main(void)
{
    UCSR0A = 1 << U2X0;
    UCSR0B = 1 << TXEN0;
    TCCR1B = 1 << CS10;
#ifdef LBNN_SELFTEST
    put_word((uint32_t)(int32_t)LBNN_JOIN(LBNN_MODEL, _selftest)(work));
#else
    put_word(0);
#endif
    put_word(cycles(empty));
    put_word(cycles(delay));
    put('\n');
    for (int i = 0; i < SAMPLES; i++) {
        int status;
        memcpy_P(sample, samples[i], sizeof sample);
        const uint16_t used = stack(&status);
        memcpy_P(sample, samples[i], sizeof sample);
        const uint32_t taken = cycles((void (*)(void))PREDICT);
        put_word((uint32_t)(int32_t)status);
        put_word(taken);
        put_word(used);
        put_floats(mean, OUTPUT_LEN);
        put_second();
        put('\n');
    }
    cli();
    sleep_mode();
    return 0;
}
