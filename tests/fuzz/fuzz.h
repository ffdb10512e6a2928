/* What fuzz targets share: the entry point, and promises that abort where they are broken. */
#ifndef MG_TESTS_FUZZ_H
#define MG_TESTS_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* `err`: the reason to print, or NULL. */
static inline void require(bool truth, const char *what, const struct mg_error *err)
{
    if (truth)
        return;
    fprintf(stderr, "violated: %s: %s %s\n", what, err ? err->pointer : "", err ? err->message : "");
    abort();
}

/* What reading may allocate: for small inputs what is promised of hostile ones, for large ones in proportion (a graph's
 * operators, with their shapes and axes, take some fifty times their shortest text). */
static inline size_t frugal(size_t input)
{
    return ((size_t)16 << 20) + 64 * input;
}

#endif
