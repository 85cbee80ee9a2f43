/* The root by digits beside that of the host's libm: all mantissas for an odd and an even exponent, all denormals, and
 * for every other exponent and sign some of them. Prints the bits of the first that differs. */
#include "lbnn.h"

#include <math.h>
#include <stdio.h>

static int differs(uint32_t bits)
{
    const float x = lbnn_bits_float(bits), own = lbnn_sqrtf_by_digits(x), theirs = sqrtf(x);
    const int both_nan = own != own && theirs != theirs;
    if (both_nan || lbnn_float_bits(own) == lbnn_float_bits(theirs)) {
        return 0;
    }
    printf("%08lx\n", (unsigned long)bits);
    return 1;
}

int main(void)
{
    for (uint32_t top = 0; top < 512u; top++) {
        const uint32_t step = top == 0u || top == 126u || top == 127u ? 1u : 65521u;
        for (uint32_t rest = 0; rest < 0x800000u; rest += step) {
            if (differs(top << 23 | rest)) {
                return 1;
            }
        }
        if (differs(top << 23 | 0x7fffffu)) {
            return 1;
        }
    }
    return 0;
}
