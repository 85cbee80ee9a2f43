/* Heads: defined behaviour for every bit pattern. That probabilities are finite needs relations between the classes,
 * which no interval holds; the fuzzer and the tests look for it. */
#include "lbnn_heads.h"

#define HEAD_CLASSES 2

#define PROVE_HEAD(kernel, per_class)                                                                  \
    void prove_##kernel(void)                                                                          \
    {                                                                                                  \
        float mean[HEAD_CLASSES], var[HEAD_CLASSES], probability[HEAD_CLASSES], parts[2];              \
        float scratch[(per_class) * HEAD_CLASSES];                                                     \
        any_means(mean, HEAD_CLASSES);                                                                 \
        any_vars(var, HEAD_CLASSES);                                                                   \
        kernel(mean, var, probability, parts, scratch, HEAD_CLASSES);                                  \
        check_means(probability, HEAD_CLASSES);                                                        \
        check_means(parts, 2);                                                                         \
    }

PROVE_HEAD(lbnn_softmax, 10)
PROVE_HEAD(lbnn_softmax_fast, 1)
PROVE_HEAD(lbnn_sigmoid, 2)

void prove_lbnn_largest(void)
{
    float x[20];
    any_means(x, 20);
    const int k = Frama_C_int_interval(1, 20);
    const int largest = lbnn_largest(x, k);
    //@ check index: 0 <= largest < k;
}
