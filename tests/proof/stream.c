/* Memory of streams: rings at a position of any bits, which need not be one. */
#include "lbnn_stream.h"

static void any_position(float *ring)
{
    const unsigned bits = Frama_C_unsigned_int_interval(0u, 0xffffffffu);
    memcpy(ring, &bits, sizeof bits);
}

#define RING(channels, slots)                                   \
    float ring[1 + (channels) * (slots)];                       \
    any_means(ring, 1 + (channels) * (slots));                  \
    any_position(ring)

void prove_lbnn_due(void)
{
    float count;
    any_position(&count);
    const int due = lbnn_due(&count, Frama_C_int_interval(1, 1000000), Frama_C_int_interval(1, 1000000));
    /*@ check due == 0 || due == 1; */
}

#define TAKE(channels, taps, dilation)                          \
    do {                                                        \
        RING(channels, (dilation) * ((taps) - 1));              \
        float column[channels], window[(channels) * (taps)];    \
        any_means(column, channels);                            \
        lbnn_ring_take(ring, column, window, channels, taps, dilation); \
    } while (0)

void prove_lbnn_ring_take(void)
{
    TAKE(1, 2, 1);
    TAKE(3, 4, 1);
    TAKE(2, 3, 4);
    TAKE(2, 2, 5);
}

#define READ(channels, slots, columns)                          \
    do {                                                        \
        RING(channels, slots);                                  \
        float window[(channels) * (columns)];                   \
        lbnn_ring_read(ring, window, channels, slots, columns); \
    } while (0)

void prove_lbnn_ring_read(void)
{
    READ(1, 1, 1);
    READ(3, 5, 5);
    READ(2, 4, 1);
}

#define PUT(channels, slots)                                    \
    do {                                                        \
        RING(channels, slots);                                  \
        float column[channels];                                 \
        any_means(column, channels);                            \
        lbnn_ring_put(ring, column, channels, slots);           \
        lbnn_ring_put(ring, column, channels, slots);           \
    } while (0)

void prove_lbnn_ring_put(void)
{
    PUT(1, 1);
    PUT(3, 5);
}

#define SUM(channels, kernel, stride, parts)                            \
    do {                                                                \
        RING(channels, parts);                                          \
        float column[channels];                                         \
        any_means(column, channels);                                    \
        lbnn_ring_sum(ring, column, channels, kernel, stride, 0);       \
    } while (0)

void prove_lbnn_ring_sum(void)
{
    SUM(1, 1, 1, 1);
    SUM(3, 4, 6, 1);
    SUM(2, 145, 145, 2);
    float ring[3], column[2];
    any_means(ring, 3);
    any_position(ring);
    any_vars(column, 2);
    lbnn_ring_sum(ring, column, 2, 3, 3, 1);
}

#define MEAN(channels, kernel, power, parts)                            \
    do {                                                                \
        float ring[1 + (channels) * (parts)], out[channels];            \
        any_vars(ring, 1 + (channels) * (parts));                       \
        lbnn_ring_mean(ring, out, channels, kernel, power);             \
        check_vars(out, channels);                                      \
    } while (0)

void prove_lbnn_ring_mean(void)
{
    MEAN(1, 1, 0, 1);
    MEAN(3, 4, 1, 1);
    MEAN(2, 145, 2, 2);
}
