/* lbnn_conv_shape.h: the geometry of a convolution, which taps of a window lie inside the input, and the parts of a
 * long sum.
 *
 *     static const lbnn_conv_shape shape = {in channels, height, width,  out channels, height, width,
 *                                           kernel h, w,  stride h, w,  padding h, w,
 *                                           dilation h, w,  groups};
 *     y    = lbnn_span_of(position, kernel, dilation, size)         along one axis
 *     part = lbnn_part_of(shape, taps, first, fold)                 `fold` of an output's taps
 *     band = lbnn_conv_band(&shape, first, rows)                    some rows of the output alone
 */
#ifndef LBNN_CONV_SHAPE_H
#define LBNN_CONV_SHAPE_H

#include "lbnn.h"

typedef struct {
    int in_channels, in_height, in_width;
    int out_channels, out_height, out_width;
    int kernel_height, kernel_width;
    int stride_height, stride_width;
    int padding_height, padding_width;
    int dilation_height, dilation_width;
    int groups;
} lbnn_conv_shape;

/* The taps of a window along one axis that lie inside the input: `count` of them from tap `first`,
 * which reads position `start`. */
typedef struct {
    int first, start, count;
} lbnn_span;

LBNN_INLINE lbnn_span lbnn_span_of(int position, int kernel, int dilation, int size)
{
    lbnn_span span;
    span.first = 0;
    span.start = position;
    while (span.start < 0 && span.first < kernel) {
        span.start += dilation;
        span.first++;
    }
    span.count = kernel - span.first;
    while (span.count > 0 && span.start + (span.count - 1) * dilation >= size) {
        span.count--;
    }
    return span;
}

/* Those of output row or column `out`. */
LBNN_INLINE lbnn_span lbnn_conv_rows(const lbnn_conv_shape *s, int out)
{
    return lbnn_span_of(out * s->stride_height - s->padding_height, s->kernel_height, s->dilation_height,
                        s->in_height);
}

LBNN_INLINE lbnn_span lbnn_conv_columns(const lbnn_conv_shape *s, int out)
{
    return lbnn_span_of(out * s->stride_width - s->padding_width, s->kernel_width, s->dilation_width, s->in_width);
}

/* The shape of `rows` rows of the output, from row `first` on, as an output of its own: what lies above them of the
 * input is padding that is negative. */
LBNN_INLINE lbnn_conv_shape lbnn_conv_band(const lbnn_conv_shape *s, int first, int rows)
{
    const lbnn_conv_shape band = {
        s->in_channels,     s->in_height,      s->in_width,
        s->out_channels,    rows,              s->out_width,
        s->kernel_height,   s->kernel_width,   s->stride_height,
        s->stride_width,    s->padding_height - first * s->stride_height,
        s->padding_width,   s->dilation_height, s->dilation_width,
        s->groups};
    return band; /* member by member: a copy of the whole could become a call of memcpy */
}

/* How many taps an output has. */
LBNN_INLINE int lbnn_conv_taps(const lbnn_conv_shape *s, int channels)
{
    return channels * s->kernel_height * s->kernel_width;
}

/* A part of the sum of an output (lbnn_sums.h): taps [first, last) in the order (input channel, kernel row, kernel
 * column), which are in channels [channel, channels). */
typedef struct {
    int first, last;
    int channel, channels;
} lbnn_part;

LBNN_INLINE lbnn_part lbnn_part_of(const lbnn_conv_shape *s, int taps, int first, int fold)
{
    const int window = s->kernel_height * s->kernel_width;
    lbnn_part part;
    part.first = first;
    part.last = taps - first < fold ? taps : first + fold;
    part.channel = first / window;
    part.channels = (part.last + window - 1) / window;
    return part;
}

/* Those of the taps of a kernel row that lie in the part; `row` is the number of the kernel row's first tap. */
LBNN_INLINE lbnn_span lbnn_span_in(lbnn_span x, lbnn_part part, int row, int dilation)
{
    const int first = part.first - row > x.first ? part.first - row : x.first;
    const int last = part.last - row < x.first + x.count ? part.last - row : x.first + x.count;
    x.start += (first - x.first) * dilation;
    x.first = first;
    x.count = last - first;
    return x;
}

#endif
