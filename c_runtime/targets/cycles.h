/* Cycles of the core itself, on real hardware: CYCCNT of the DWT, which Cortex-M3, M4, M7, M33 and M55 have.
 *
 *     if (lbnn_cycles_start()) { const uint32_t begin = lbnn_cycles(); ...; used = lbnn_cycles() - begin; }
 *
 * Cortex-M0 has none, and an emulator's stands still: lbnn_cycles_start() is 0 there. 32 bits wrap after 4,294,967,295
 * cycles, 25 s at 168 MHz. Include it in a firmware of your own, too; it needs nothing else.
 */
#ifndef LBNN_CYCLES_H
#define LBNN_CYCLES_H

#include <stdint.h>

#if !defined(LBNN_CYCLES_REGISTER) /* tests have registers of their own */
#if defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
#define LBNN_CYCLES_REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#endif
#endif

#if defined(LBNN_CYCLES_REGISTER)
static inline uint32_t lbnn_cycles(void)
{
    return LBNN_CYCLES_REGISTER(0xE0001004u); /* DWT_CYCCNT */
}

/* Not 0 if the counter runs now. */
static inline int lbnn_cycles_start(void)
{
    LBNN_CYCLES_REGISTER(0xE000EDFCu) |= 1u << 24;  /* DEMCR: trace on */
    LBNN_CYCLES_REGISTER(0xE0001FB0u) = 0xC5ACCE55u; /* DWT_LAR: a Cortex-M7 keeps it locked */
    LBNN_CYCLES_REGISTER(0xE0001000u) |= 1u;        /* DWT_CTRL: count */
    const uint32_t before = lbnn_cycles();
    for (volatile int i = 0; i < 8; i++) {
    }
    return lbnn_cycles() != before;
}
#else
static inline uint32_t lbnn_cycles(void)
{
    return 0u;
}

static inline int lbnn_cycles_start(void)
{
    return 0;
}
#endif

#endif
