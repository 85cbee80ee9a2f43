/* checked_lanes.h: given to the compiler before everything else (-include).
 *
 * A float that fits no integer makes a conversion undefined. The sanitizer looks for that in scalars alone, so the
 * conversion of a vector is done here lane by lane. */
#define __builtin_convertvector(x, type)                                                                               \
    __extension__({                                                                                                    \
        const __typeof__(x) from_ = (x);                                                                               \
        type to_ = {0};                                                                                                \
        for (int lane_ = 0; lane_ < LBNN_LANES; lane_++) {                                                             \
            to_[lane_] = (__typeof__(to_[0]))from_[lane_];                                                             \
        }                                                                                                              \
        to_;                                                                                                           \
    })
