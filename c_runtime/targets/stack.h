/* How much stack a call takes: paint what is free before it, look what has changed after it.
 *
 * Both must be inlined into the function that makes the call, so that they see its stack pointer.
 */
#ifndef LBNN_STACK_H
#define LBNN_STACK_H

#include <stdint.h>

#if defined(__arm__) || defined(__riscv)

#define LBNN_PAINT       0xA5A5A5A5u
#define LBNN_PAINT_BYTES 8192u /* more is not measured */

extern uint32_t lbnn_bss_end[];

#define LBNN_ALWAYS_INLINE static inline __attribute__((always_inline))

LBNN_ALWAYS_INLINE uintptr_t lbnn_stack_pointer(void)
{
    uintptr_t pointer;
#if defined(__arm__)
    __asm volatile("mov %0, sp" : "=r"(pointer));
#else
    __asm volatile("mv %0, sp" : "=r"(pointer));
#endif
    return pointer;
}

/* The lowest address that is painted: variables end there, or the paint does. */
LBNN_ALWAYS_INLINE uintptr_t lbnn_stack_floor(uintptr_t top)
{
    const uintptr_t end = (uintptr_t)lbnn_bss_end;
    return top - end > LBNN_PAINT_BYTES ? top - LBNN_PAINT_BYTES : end;
}

/* Volatile, for a loop that stays a loop: a call of memset would paint over its own frame. */
LBNN_ALWAYS_INLINE void lbnn_paint_stack(void)
{
    const uintptr_t top = lbnn_stack_pointer();
    for (uintptr_t at = lbnn_stack_floor(top); at < top; at += 4)
        *(volatile uint32_t *)at = LBNN_PAINT;
}

LBNN_ALWAYS_INLINE uint32_t lbnn_used_stack(void)
{
    const uintptr_t top = lbnn_stack_pointer();
    uintptr_t at = lbnn_stack_floor(top);
    while (at < top && *(volatile uint32_t *)at == LBNN_PAINT)
        at += 4;
    return (uint32_t)(top - at);
}

#else /* a host looks after its stack itself */

static inline void lbnn_paint_stack(void)
{
}

static inline uint32_t lbnn_used_stack(void)
{
    return 0u;
}

#endif

#endif
