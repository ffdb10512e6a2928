/* Well-formed UTF-8. */
#ifndef MG_BASE_UTF8_H
#define MG_BASE_UTF8_H

#include <stddef.h>

/* The length (1-4) of the well-formed UTF-8 sequence at `at`, which has `left` bytes; 0 if there is
 * none (truncated, overlong, a surrogate, beyond U+10FFFF). */
size_t mg_utf8_length(const char *at, size_t left);

#endif
