/* The part of <string.h> that a compiler's own runtime library has. */
#ifndef LBNN_FREESTANDING_STRING_H
#define LBNN_FREESTANDING_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int   memcmp(const void *a, const void *b, size_t size);

#endif
