/* Pushes and resets three streams in random order, each array a block of its own that a sanitizer watches; prints how many
 * results each gave. Now and then a state is overwritten with random bits, as memory is that was never reset. The headers of
 * the three models stand above. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static float *numbers(size_t count)
{
    float *block = malloc(count * sizeof *block);
    for (size_t i = 0; block && i < count; i++) {
        block[i] = (float)draw(4000) / 1000.0f - 2.0f;
    }
    return block;
}

static void spoil(float *state, int length)
{
    unsigned char *byte = (unsigned char *)state;
    for (size_t i = 0; i < (size_t)length * sizeof *state; i++) {
        byte[i] = (unsigned char)draw(256);
    }
}

#define RUN(name, upper)                                                                                \
    static int run_##name(void)                                                                         \
    {                                                                                                   \
        float *state = numbers(upper##_STATE_LEN);                                                      \
        float *mean = numbers(upper##_RESULT_LEN), *variance = numbers(upper##_RESULT_LEN);             \
        float *work = numbers(upper##_PUSH_WORK_LEN);                                                   \
        int results = 0;                                                                                \
        name##_reset(state);                                                                            \
        for (int i = 0; i < 4000; i++) {                                                                \
            if (draw(150) == 0) {                                                                       \
                spoil(state, upper##_STATE_LEN);                                                        \
            }                                                                                           \
            if (draw(60) == 0) {                                                                        \
                name##_reset(state);                                                                    \
            }                                                                                           \
            float *sample = numbers(upper##_SAMPLE_LEN);                                                \
            results += name##_push(state, sample, mean, variance, work) == LBNN_OK;                     \
            free(sample);                                                                               \
        }                                                                                               \
        free(state);                                                                                    \
        free(mean);                                                                                     \
        free(variance);                                                                                 \
        free(work);                                                                                     \
        return results;                                                                                 \
    }

RUN(residual, RESIDUAL)
RUN(sliding_2, SLIDING_2)
RUN(tumbling, TUMBLING)

int main(void)
{
    printf("%d %d %d\n", run_residual(), run_sliding_2(), run_tumbling());
    return 0;
}
