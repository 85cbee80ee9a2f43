/* Heads. */
#include "lbnn_heads.h"

#define HEAD_CLASSES 2

#define CALL_HEAD(kernel, per_class)                                                                   \
    float mean[HEAD_CLASSES], var[HEAD_CLASSES], probability[HEAD_CLASSES], parts[2];                  \
    float scratch[(per_class) * HEAD_CLASSES];                                                         \
    any_means(mean, HEAD_CLASSES);                                                                     \
    any_vars(var, HEAD_CLASSES);                                                                       \
    kernel(mean, var, probability, parts, scratch, HEAD_CLASSES);                                      \
    check_means(probability, HEAD_CLASSES);                                                            \
    check_means(parts, 2)

void prove_lbnn_softmax(void)
{
    CALL_HEAD(lbnn_softmax, 10);
}

void prove_lbnn_softmax_fast(void)
{
    CALL_HEAD(lbnn_softmax_fast, 1);
}

void prove_lbnn_sigmoid(void)
{
    CALL_HEAD(lbnn_sigmoid, 2);
}

void prove_lbnn_largest(void)
{
    float x[20];
    any_means(x, 20);
    for (int k = 1; k <= 20; k++) {
        const int largest = lbnn_largest(x + 20 - k, k);
        //@ check index: 0 <= largest < k;
    }
}
