/* Files, messages and exit status of a program on a device: semihosting there, stdio on the host. */
#ifndef LBNN_DEVICE_IO_H
#define LBNN_DEVICE_IO_H

#include <stddef.h>
#include <stdint.h>

int  lbnn_open_read(const char *name);  /* a handle, or -1 */
int  lbnn_open_write(const char *name); /* a handle, or -1 */
int  lbnn_read(int handle, void *bytes, size_t size);        /* 0 = all of it was read */
int  lbnn_write(int handle, const void *bytes, size_t size); /* 0 = all of it was written */
void lbnn_close(int handle);
void lbnn_print(const char *text); /* to stderr */
void lbnn_exit(int status);

#endif
