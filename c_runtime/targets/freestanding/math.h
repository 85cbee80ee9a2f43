/* The part of <math.h> that a compiler without a C library can give: what it knows as builtins. */
#ifndef LBNN_FREESTANDING_MATH_H
#define LBNN_FREESTANDING_MATH_H

#define INFINITY __builtin_inff()
#define NAN      __builtin_nanf("")
#define isfinite(x) __builtin_isfinite(x)
#define isnan(x)    __builtin_isnan(x)

/* Macros, not inline functions: where the core has no square root the builtin is itself a call of sqrtf. */
#ifdef __cplusplus
extern "C" {
#endif
float fabsf(float x);
float sqrtf(float x);
#ifdef __cplusplus
}
#endif
#define fabsf(x) __builtin_fabsf(x)
#define sqrtf(x) __builtin_sqrtf(x)

#endif
