/* What `magisd measure` writes: timings as lines that are there as soon as they are measured, so that nothing is lost
 * when it is ended. A file that holds some already is continued: another batch follows, and what its batches of this
 * class tell is known. Errors are said on stderr. */
#ifndef MG_SERVER_MEASURE_FILE_H
#define MG_SERVER_MEASURE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/digest.h"
#include "base/json.h"

struct mg_measure_file {
    int fd;
    struct mg_hash128 *known; /* sorted */
    size_t known_count, known_capacity;
};

/* path: "-" is standard output. class_key: of the device that measures now. Takes memory from `arena`, inside its
 * guard. A last line that was cut off is dropped. False: it cannot be written, or holds something else. */
bool mg_measure_file_open(struct mg_measure_file *file, const char *path, const char *class_key,
                          struct mg_arena *arena);
bool mg_measure_file_knows(const struct mg_measure_file *file, const char *op, const char *signature);
/* Whole lines. */
bool mg_measure_file_add(const struct mg_measure_file *file, const char *lines, size_t size);
void mg_measure_file_close(struct mg_measure_file *file);

#endif
