/* check.h: counts and prints what a kernel test finds wrong. */
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <stdio.h>

static int check_failures = 0;

/* Passes if got is within a relative `tolerance` of expected. */
static inline void check_near(const char *what, float got, float expected, float tolerance)
{
    if (!(fabsf(got - expected) <= tolerance * fabsf(expected) + 1e-30f)) {
        printf("FAIL %s: got %.9g, expected %.9g\n", what, (double)got, (double)expected);
        check_failures++;
    }
}

static inline void check_true(const char *what, int condition)
{
    if (!condition) {
        printf("FAIL %s\n", what);
        check_failures++;
    }
}

/* The exit status of the test. */
static inline int check_result(void)
{
    printf("%s\n", check_failures ? "failed" : "ok");
    return check_failures != 0;
}

#endif
