/* Files whole. What takes a path is for the command line: errors are said on stderr. */
#ifndef MG_SERVER_FILE_H
#define MG_SERVER_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* *data is malloc'ed and NUL-terminated. "-" is standard input. */
bool mg_file_read(const char *path, size_t limit, char **data, size_t *size);
/* A file mapped into memory, so that what nobody reads is never loaded; "-" and pipes are read whole. */
struct mg_file {
    const char *data;
    size_t size;
    char *copy; /* instead of a mapping */
};
bool mg_file_open(struct mg_file *file, const char *path);
/* The same of a descriptor, which stays the caller's. False, with nothing said: it is no file, or empty. */
bool mg_file_map(struct mg_file *file, int fd);
void mg_file_close(struct mg_file *file); /* also one that was never opened, if all is zero */
/* Writes beside the target and renames: readers see the old or the new file. A link is followed; a pipe or a device is
 * written as it is, never replaced. "-" is standard output. */
bool mg_file_write(const char *path, const void *data, size_t size);
/* Whether mg_file_write would find a place for `path`; says on stderr why not. To be asked before long work. */
bool mg_file_writable(const char *path);

/* All of it to a descriptor. False: errno says why. */
bool mg_write_all(int fd, const void *data, size_t size);

#endif
