/* Whole files for the command line; errors are said on stderr. */
#ifndef MG_SERVER_FILE_H
#define MG_SERVER_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* *data is malloc'ed and NUL-terminated. "-" is standard input. */
bool mg_file_read(const char *path, size_t limit, char **data, size_t *size);
/* Writes beside the target and renames: readers see the old or the new file. "-" is standard output. */
bool mg_file_write(const char *path, const void *data, size_t size);

#endif
