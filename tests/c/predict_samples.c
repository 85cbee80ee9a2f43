/* Predicts samples of two models: raw floats from stdin to stdout; the exit status is that of their self-tests.
 *
 * An argument sets how the processor computes meanwhile: up, down, zero (rounding), or flush (denormals are zero).
 * With -DFREESTANDING32 it needs no C library: system calls of 32-bit Linux, for machines that have no 32-bit one.
 */
#include "gas_sensor.h"
#include "zoo.h"

#ifdef FREESTANDING32
static int host_call(int number, int handle, void *bytes, int size)
{
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(handle), "c"(bytes), "d"(size) : "memory");
    return result;
}

static int get(void *bytes, int size)
{
    char *to = LBNN_AS(char *, bytes);
    while (size > 0) {
        const int done = host_call(3, 0, to, size);
        if (done <= 0) {
            return 0;
        }
        to += done;
        size -= done;
    }
    return 1;
}

static void put(void *bytes, int size)
{
    (void)host_call(4, 1, bytes, size);
}

/* What compilers call on their own, in instructions that they cannot turn into calls again. */
#undef memcpy
#undef memset
#ifdef __cplusplus
extern "C" {
#endif
void *memcpy(void *to, const void *from, unsigned size);
void *memset(void *to, int value, unsigned size);
void _start(void);
#ifdef __cplusplus
}
#endif

void *memcpy(void *to, const void *from, unsigned size)
{
    void *end = to;
    __asm__ volatile("rep movsb" : "+D"(end), "+S"(from), "+c"(size) : : "memory");
    return to;
}

void *memset(void *to, int value, unsigned size)
{
    void *end = to;
    __asm__ volatile("rep stosb" : "+D"(end), "+c"(size) : "a"(value) : "memory");
    return to;
}
#else
#include <fenv.h>
#include <stdio.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* 0 if this machine can compute so. */
static int set_mode(const char *mode)
{
    if (strcmp(mode, "up") == 0) {
        return fesetround(FE_UPWARD);
    }
    if (strcmp(mode, "down") == 0) {
        return fesetround(FE_DOWNWARD);
    }
    if (strcmp(mode, "zero") == 0) {
        return fesetround(FE_TOWARDZERO);
    }
#ifdef __SSE__
    if (strcmp(mode, "flush") == 0) {
        _mm_setcsr(_mm_getcsr() | 0x8040u); /* results and operands */
        return 0;
    }
#endif
    return 1;
}

static int get(void *bytes, int size)
{
    return fread(bytes, LBNN_AS(size_t, size), 1, stdin) == 1;
}

static void put(void *bytes, int size)
{
    (void)fwrite(bytes, LBNN_AS(size_t, size), 1, stdout);
}
#endif

enum { SAMPLES = 28 };

#define PREDICT(name, NAME)                                                                                            \
    static int predict_##name(void)                                                                                    \
    {                                                                                                                  \
        static float input[NAME##_INPUT_LEN], mean[NAME##_OUTPUT_LEN], variance[NAME##_OUTPUT_LEN];                    \
        static float work[NAME##_WORK_LEN];                                                                            \
        for (int i = 0; i < SAMPLES; i++) {                                                                            \
            if (!get(input, LBNN_AS(int, sizeof input)) || name##_predict(input, mean, variance, work) != LBNN_OK) {   \
                return 100;                                                                                            \
            }                                                                                                          \
            put(mean, LBNN_AS(int, sizeof mean));                                                                      \
            put(variance, LBNN_AS(int, sizeof variance));                                                              \
        }                                                                                                              \
        return name##_selftest(work);                                                                                  \
    }

PREDICT(gas_sensor, GAS_SENSOR)
PREDICT(zoo, ZOO)

static int predict_both(void)
{
    const int first = predict_gas_sensor();
    return first ? first : predict_zoo();
}

#ifdef FREESTANDING32
__attribute__((force_align_arg_pointer)) void _start(void)
{
    (void)host_call(1, predict_both(), 0, 0);
    for (;;) {
    }
}
#else
/* The status of a prediction whose first input has these bits. */
static lbnn_status status_of(uint32_t bits, float *mean, float *variance)
{
    static float input[GAS_SENSOR_INPUT_LEN], work[GAS_SENSOR_WORK_LEN];
    memcpy(input, &bits, sizeof bits);
    return gas_sensor_predict(input, mean, variance, work);
}

/* 1 if every status is what it should be, whatever the mode. */
static int statuses_are_right(void)
{
    float mean[GAS_SENSOR_OUTPUT_LEN], variance[GAS_SENSOR_OUTPUT_LEN];
    return status_of(0x7fc00000u, mean, variance) == LBNN_ERROR_INPUT
           && status_of(0xff800000u, mean, variance) == LBNN_ERROR_INPUT
           && status_of(0x00000001u, mean, variance) == LBNN_OK && status_of(0x80000001u, mean, variance) == LBNN_OK
           && status_of(0u, 0, variance) == LBNN_ERROR_NULL && status_of(0u, mean, mean) == LBNN_ERROR_OVERLAP;
}

int main(int count, char **arguments)
{
    if (count > 1 && set_mode(arguments[1]) != 0) {
        return 101;
    }
    return statuses_are_right() ? predict_both() : 102;
}
#endif
