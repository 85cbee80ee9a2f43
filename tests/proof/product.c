/* Products: a factor for each element, and one for each channel. */
#include "lbnn_product.h"

/* Channels, elements of a channel in the output and in each factor. */
#define PRODUCT(c, plane, a, b)                                                                       \
    do {                                                                                              \
        float a_mean[(c) * (a)], a_var[(c) * (a)], b_mean[(c) * (b)], b_var[(c) * (b)];               \
        float out_mean[(c) * (plane)], out_var[(c) * (plane)];                                        \
        any_means(a_mean, (c) * (a));                                                                 \
        any_vars(a_var, (c) * (a));                                                                   \
        any_means(b_mean, (c) * (b));                                                                 \
        any_vars(b_var, (c) * (b));                                                                   \
        PRODUCT_KERNEL(a_mean, a_var, b_mean, b_var, out_mean, out_var, c, plane, a, b);              \
        check_means(out_mean, (c) * (plane));                                                         \
        PRODUCT_CHECK(out_var, (c) * (plane));                                                        \
    } while (0)

#define PRODUCTS()        \
    PRODUCT(1, 1, 1, 1);  \
    PRODUCT(9, 1, 1, 1);  \
    PRODUCT(3, 4, 4, 4);  \
    PRODUCT(3, 4, 1, 4);  \
    PRODUCT(3, 4, 4, 1)

#define PRODUCT_CHECK check_vars

void prove_lbnn_multiply(void)
{
#define PRODUCT_KERNEL lbnn_multiply
    PRODUCTS();
#undef PRODUCT_KERNEL
}

void prove_lbnn_multiply_known(void)
{
#define PRODUCT_KERNEL(am, av, bm, bv, om, ov, c, p, a, b) lbnn_multiply_known(am, av, bm, om, ov, c, p, a, b)
    PRODUCTS();
#undef PRODUCT_KERNEL
}

#undef PRODUCT_CHECK
#define PRODUCT_CHECK(var, n) ((void)(var))

void prove_lbnn_multiply_point(void)
{
#define PRODUCT_KERNEL(am, av, bm, bv, om, ov, c, p, a, b) lbnn_multiply_point(am, bm, om, c, p, a, b)
    PRODUCTS();
#undef PRODUCT_KERNEL
}
