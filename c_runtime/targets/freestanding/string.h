/* The part of <string.h> that a compiler's own runtime library has; as builtins, copies of a word are one move. */
#ifndef LBNN_FREESTANDING_STRING_H
#define LBNN_FREESTANDING_STRING_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int   memcmp(const void *a, const void *b, size_t size);
#ifdef __cplusplus
}
#endif
#define memcpy(to, from, size)  __builtin_memcpy(to, from, size)
#define memmove(to, from, size) __builtin_memmove(to, from, size)
#define memset(to, value, size) __builtin_memset(to, value, size)
#define memcmp(a, b, size)      __builtin_memcmp(a, b, size)

#endif
