/* device_io.h on a host: two files at most, which is all the programs here need. */
#include "device_io.h"

#include <stdio.h>
#include <stdlib.h>

static FILE *files[2];

static int open_file(const char *name, const char *mode)
{
    const int handle = files[0] != NULL;
    files[handle] = fopen(name, mode);
    return files[handle] != NULL ? handle : -1;
}

int lbnn_open_read(const char *name)
{
    return open_file(name, "rb");
}

int lbnn_open_write(const char *name)
{
    return open_file(name, "wb");
}

int lbnn_read(int handle, void *bytes, size_t size)
{
    return fread(bytes, 1, size, files[handle]) != size;
}

int lbnn_write(int handle, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, files[handle]) != size;
}

void lbnn_close(int handle)
{
    fclose(files[handle]);
    files[handle] = NULL;
}

void lbnn_print(const char *text)
{
    fputs(text, stderr);
}

void lbnn_exit(int status)
{
    exit(status);
}
