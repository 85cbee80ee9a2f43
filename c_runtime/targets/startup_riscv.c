/* Start-up for RISC-V in machine mode: stack, FPU, .data and .bss, then main; a trap exits with status 139. */
#include "device_io.h"

extern uint32_t lbnn_data_load[], lbnn_data_start[], lbnn_data_end[], lbnn_bss_start[], lbnn_bss_end[];

int  main(void);
void lbnn_reset(void);
void lbnn_run(void);
void lbnn_trap(void);

__attribute__((aligned(4), used)) void lbnn_trap(void)
{
    lbnn_print("fault\n");
    lbnn_exit(139);
}

__attribute__((used)) void lbnn_run(void)
{
    const uint32_t *from = lbnn_data_load;
    for (uint32_t *to = lbnn_data_start; to < lbnn_data_end; ++to, ++from)
        *to = *from;
    for (uint32_t *to = lbnn_bss_start; to < lbnn_bss_end; ++to)
        *to = 0;
    lbnn_exit(main());
}

__attribute__((naked, section(".vectors"), used)) void lbnn_reset(void)
{
    __asm volatile(".option push\n .option norelax\n la gp, __global_pointer$\n .option pop\n"
                   ".option push\n .option arch, +zicsr\n"
                   "la sp, lbnn_stack_top\n"
                   "la t0, lbnn_trap\n"
                   "csrw mtvec, t0\n"
#ifdef __riscv_flen
                   "li t0, 0x6000\n" /* mstatus.FS = dirty: the FPU is on */
                   "csrs mstatus, t0\n"
#endif
                   ".option pop\n"
                   "j lbnn_run\n");
}
