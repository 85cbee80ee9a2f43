/* The board's clock. Under -icount it advances by a fixed step for each instruction, so that it counts them. */
#ifndef LBNN_TIMER_H
#define LBNN_TIMER_H

#include <stdint.h>

#define LBNN_REGISTER(offset) (*(volatile uint32_t *)((uintptr_t)(LBNN_TIMER_BASE) + (offset)))

#if defined(LBNN_TIMER_CMSDK) /* counts down from RELOAD */
static inline void lbnn_timer_start(void)
{
    LBNN_REGISTER(8) = UINT32_MAX; /* RELOAD */
    LBNN_REGISTER(4) = UINT32_MAX; /* VALUE */
    LBNN_REGISTER(0) = 1u;         /* CTRL: enable */
}
static inline uint32_t lbnn_timer_ticks(void)
{
    return UINT32_MAX - LBNN_REGISTER(4);
}

#elif defined(LBNN_TIMER_FPGAIO) /* counts up from reset, once per clock with PRESCALE 0 */
static inline void lbnn_timer_start(void)
{
    LBNN_REGISTER(0x1C) = 0u; /* PRESCALE */
}
static inline uint32_t lbnn_timer_ticks(void)
{
    return LBNN_REGISTER(0x18); /* COUNTER */
}

#elif defined(LBNN_TIMER_NRF51) /* counts up; a task copies the count into a register */
static inline void lbnn_timer_start(void)
{
    LBNN_REGISTER(0x508) = 3u; /* BITMODE: 32 bits */
    LBNN_REGISTER(0x510) = 0u; /* PRESCALER: 16 MHz */
    LBNN_REGISTER(0x000) = 1u; /* TASKS_START */
}
static inline uint32_t lbnn_timer_ticks(void)
{
    LBNN_REGISTER(0x040) = 1u;    /* TASKS_CAPTURE[0] */
    return LBNN_REGISTER(0x540);  /* CC[0] */
}

#elif defined(LBNN_TIMER_MINSTRET) /* RISC-V counts its instructions itself */
static inline void lbnn_timer_start(void)
{
}
static inline uint32_t lbnn_timer_ticks(void)
{
    uint32_t count;
    __asm volatile(".option push\n .option arch, +zicsr\n csrr %0, minstret\n .option pop" : "=r"(count));
    return count;
}

#else /* no clock */
static inline void lbnn_timer_start(void)
{
}
static inline uint32_t lbnn_timer_ticks(void)
{
    return 0u;
}
#endif

#endif
