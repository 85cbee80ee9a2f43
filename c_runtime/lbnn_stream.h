/* lbnn_stream.h: what a stream remembers between two samples, for the generated NAME_push().
 *
 *     lbnn_due(count, first, every)                                       1 with sample `first` and each `every`-th after it
 *     lbnn_ring_take(ring, column, window, channels, taps, dilation)      the past and the column that arrives
 *     lbnn_ring_read(ring, window, channels, slots, columns)              the oldest columns alone
 *     lbnn_ring_put(ring, column, channels, slots)                        the column takes the place of the oldest
 *     lbnn_ring_sum(ring, column, channels, kernel, stride, roots)        a running sum of `kernel` of each `stride` columns
 *     lbnn_ring_mean(ring, out, channels, kernel, power)                  its average
 *
 * A ring is one float that holds a position, and behind it `slots` numbers of each channel, channel after channel; that of
 * a sum holds one number a channel, or two if a sum is added up in parts (kernel > LBNN_FOLD). All zeros is its beginning,
 * zeros before the first column. Memory that was never set to zero gives wrong numbers but no access outside of it: a
 * position that is none is taken for the first.
 *
 * Windows are channels first, as the kernels of layers take them: one column of a layer is computed by the very kernel that
 * computes them all, from the same numbers in the same order. A running sum adds what lbnn_avg_pool adds, or
 * lbnn_avg_pool_correlated, in its order and in its parts.
 */
#ifndef LBNN_STREAM_H
#define LBNN_STREAM_H

#include "lbnn.h"

LBNN_INLINE uint32_t lbnn_count_load(const float *count)
{
    uint32_t number;
    LBNN_MEMCPY(&number, count, sizeof number);
    return number;
}

LBNN_INLINE void lbnn_count_store(float *count, uint32_t number)
{
    LBNN_MEMCPY(count, &number, sizeof number);
}

/* Where the oldest column is, and the next one goes. */
LBNN_INLINE int lbnn_ring_slot(const float *ring, int slots)
{
    const uint32_t slot = lbnn_count_load(ring);
    return slot < LBNN_AS(uint32_t, slots) ? LBNN_AS(int, slot) : 0;
}

LBNN_INLINE void lbnn_ring_advance(float *ring, int slot, int slots)
{
    lbnn_count_store(ring, LBNN_AS(uint32_t, slot + 1 < slots ? slot + 1 : 0));
}

/* Counts a sample. The count goes back by `every` when it is due, so it never grows. */
LBNN_KERNEL int lbnn_due(float *count, int first, int every)
{
    const uint32_t number = lbnn_count_load(count) + 1u;
    const int due = number == LBNN_AS(uint32_t, first);
    lbnn_count_store(count, due ? number - LBNN_AS(uint32_t, every) : number);
    return due;
}

/* window[c][t] = the column (taps - 1 - t) * dilation before the one that arrives, which is the last; the ring has
 * dilation * (taps - 1) slots. */
LBNN_KERNEL void lbnn_ring_take(const float *ring, const float *column, float *window, int channels, int taps, int dilation)
{
    const int slots = dilation * (taps - 1);
    int slot = lbnn_ring_slot(ring, slots);
    for (int t = 0; t < taps - 1; t++) {
        for (int c = 0; c < channels; c++) {
            window[c * taps + t] = ring[1 + c * slots + slot];
        }
        slot = slots - slot > dilation ? slot + dilation : slot + dilation - slots;
    }
    for (int c = 0; c < channels; c++) {
        window[c * taps + taps - 1] = column[c];
    }
}

/* window[c][t] = column t of the ring, the oldest first */
LBNN_KERNEL void lbnn_ring_read(const float *ring, float *window, int channels, int slots, int columns)
{
    int slot = lbnn_ring_slot(ring, slots);
    for (int t = 0; t < columns; t++) {
        for (int c = 0; c < channels; c++) {
            window[c * columns + t] = ring[1 + c * slots + slot];
        }
        slot = slot + 1 < slots ? slot + 1 : 0;
    }
}

LBNN_KERNEL void lbnn_ring_put(float *ring, const float *column, int channels, int slots)
{
    const int slot = lbnn_ring_slot(ring, slots);
    for (int c = 0; c < channels; c++) {
        ring[1 + c * slots + slot] = column[c];
    }
    lbnn_ring_advance(ring, slot, slots);
}

/* The sum of the first `kernel` of each `stride` columns, or of their roots, in parts of LBNN_FOLD as lbnn_window_sum of
 * lbnn_pool.h: the part at hand, and behind all of these the parts before it. */
LBNN_KERNEL void lbnn_ring_sum(float *ring, const float *column, int channels, int kernel, int stride, int roots)
{
    const int at = lbnn_ring_slot(ring, stride);
    for (int c = 0; at < kernel && c < channels; c++) {
        float *part = ring + 1 + c;
        if (at % LBNN_FOLD == 0) {
            if (kernel > LBNN_FOLD) {
                part[channels] = at > 0 ? part[channels] + *part : 0.0f;
            }
            *part = 0.0f;
        }
        *part += roots ? lbnn_sqrtf(column[c]) : column[c];
    }
    lbnn_ring_advance(ring, at, stride);
}

/* By `power`: 0 a mean, sum / kernel; 1 a variance, sum / kernel^2; 2 a variance from roots, (sum / kernel)^2 */
LBNN_KERNEL void lbnn_ring_mean(const float *ring, float *out, int channels, int kernel, int power)
{
    const float scale = 1.0f / LBNN_AS(float, kernel);
    for (int c = 0; c < channels; c++) {
        const float *part = ring + 1 + c;
        const float sum = kernel > LBNN_FOLD ? part[channels] + *part : *part;
        if (power == 2) {
            const float sigma = sum / LBNN_AS(float, kernel);
            out[c] = sigma * sigma;
        } else {
            out[c] = power ? scale * scale * sum : scale * sum;
        }
    }
}

#endif
