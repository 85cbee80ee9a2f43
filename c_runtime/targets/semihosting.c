/* device_io.h through semihosting: the emulator or the debugger does the work on the host. */
#include "device_io.h"

#include <string.h>

enum {
    SYS_OPEN          = 0x01,
    SYS_CLOSE         = 0x02,
    SYS_WRITE0        = 0x04,
    SYS_WRITE         = 0x05,
    SYS_READ          = 0x06,
    SYS_EXIT_EXTENDED = 0x20,
    MODE_READ_BINARY  = 1,
    MODE_WRITE_BINARY = 5,
    APPLICATION_EXIT  = 0x20026
};

#if defined(__arm__)
static intptr_t host_call(intptr_t operation, const void *argument)
{
    register intptr_t    r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
#elif defined(__riscv)
/* The three instructions are the mark of a semihosting call: none may be compressed, nor the three split over a page.
 * Arguments and result are where the calling convention has them. */
__attribute__((naked, noinline, aligned(16), section(".text.host_call")))
static intptr_t host_call(intptr_t operation, const void *argument)
{
    (void)operation;
    (void)argument;
    __asm volatile(".option push\n .option norvc\n"
                   "slli x0, x0, 0x1f\n ebreak\n srai x0, x0, 7\n"
                   ".option pop\n ret" ::: "memory");
}
#else
#error "semihosting is known for Arm and RISC-V"
#endif

static int open_file(const char *name, intptr_t mode)
{
    const intptr_t block[3] = {(intptr_t)name, mode, (intptr_t)strlen(name)};
    return (int)host_call(SYS_OPEN, block);
}

int lbnn_open_read(const char *name)
{
    return open_file(name, MODE_READ_BINARY);
}

int lbnn_open_write(const char *name)
{
    return open_file(name, MODE_WRITE_BINARY);
}

/* Both operations return the number of bytes they did not transfer. */
int lbnn_read(int handle, void *bytes, size_t size)
{
    const intptr_t block[3] = {handle, (intptr_t)bytes, (intptr_t)size};
    return (int)host_call(SYS_READ, block);
}

int lbnn_write(int handle, const void *bytes, size_t size)
{
    const intptr_t block[3] = {handle, (intptr_t)bytes, (intptr_t)size};
    return (int)host_call(SYS_WRITE, block);
}

void lbnn_close(int handle)
{
    const intptr_t block[1] = {handle};
    host_call(SYS_CLOSE, block);
}

void lbnn_print(const char *text)
{
    host_call(SYS_WRITE0, text);
}

void lbnn_exit(int status)
{
    const intptr_t block[2] = {APPLICATION_EXIT, status};
    for (;;)
        host_call(SYS_EXIT_EXTENDED, block);
}
