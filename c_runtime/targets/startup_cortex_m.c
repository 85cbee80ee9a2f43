/* Start-up for Cortex-M: vector table, FPU, .data and .bss, then main; a fault exits with status 139. */
#include "device_io.h"

extern uint32_t lbnn_data_load[], lbnn_data_start[], lbnn_data_end[], lbnn_bss_start[], lbnn_bss_end[];
extern uint32_t lbnn_stack_top[];

int  main(void);
void lbnn_reset(void);

static void fault(void)
{
    lbnn_print("fault\n");
    lbnn_exit(139);
}

/* Apart from lbnn_reset, so that no floating-point or vector instruction moves above the enabling of the FPU. */
static __attribute__((noinline)) void run(void)
{
    const uint32_t *from = lbnn_data_load;
    for (uint32_t *to = lbnn_data_start; to < lbnn_data_end; ++to, ++from)
        *to = *from;
    for (uint32_t *to = lbnn_bss_start; to < lbnn_bss_end; ++to)
        *to = 0;
    lbnn_exit(main());
}

void lbnn_reset(void)
{
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: full access to coprocessors 10 and 11 */
    __asm volatile("dsb\n isb" ::: "memory");
#endif
    run();
}

typedef void (*vector)(void);

/* Stack pointer, reset, then the 14 system exceptions: nothing here is meant to raise one. */
__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    (vector)lbnn_stack_top, lbnn_reset, fault, fault, fault, fault, fault, fault,
    fault, fault, fault, fault, fault, fault, fault, fault};
