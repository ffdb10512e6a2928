/* Where tests keep files: in MAGIS_TMP, which tests/run.sh empties, or in /tmp. */
#ifndef MG_TESTS_TEMP_UTIL_H
#define MG_TESTS_TEMP_UTIL_H

#include <stdio.h>
#include <stdlib.h>

/* A name for mkstemp or mkdtemp. */
static inline void temp_name(char *path, size_t size, const char *what)
{
    const char *folder = getenv("MAGIS_TMP");
    snprintf(path, size, "%s/magis-%s-XXXXXX", folder ? folder : "/tmp", what);
}

#endif
