#include "server/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool complain(const char *path, const char *why)
{
    fprintf(stderr, "magisd: %s: %s\n", path, why);
    return false;
}

static bool read_all(FILE *file, const char *path, size_t limit, char **data, size_t *size)
{
    size_t capacity = 1 << 16, used = 0;
    char *buffer = malloc(capacity);
    while (buffer) {
        used += fread(buffer + used, 1, capacity - 1 - used, file);
        if (used < capacity - 1 || used > limit)
            break;
        char *larger = realloc(buffer, capacity *= 2);
        if (!larger)
            free(buffer);
        buffer = larger;
    }
    if (!buffer || used > limit || ferror(file)) {
        const char *why = !buffer ? "out of memory" : used > limit ? "too large" : strerror(errno);
        free(buffer);
        return complain(path, why);
    }
    buffer[used] = '\0';
    *data = buffer;
    *size = used;
    return true;
}

bool mg_file_read(const char *path, size_t limit, char **data, size_t *size)
{
    if (strcmp(path, "-") == 0)
        return read_all(stdin, "standard input", limit, data, size);
    FILE *file = fopen(path, "rb");
    if (!file)
        return complain(path, strerror(errno));
    bool good = read_all(file, path, limit, data, size);
    fclose(file);
    return good;
}

bool mg_file_write(const char *path, const void *data, size_t size)
{
    if (strcmp(path, "-") == 0)
        return (fwrite(data, 1, size, stdout) == size && fflush(stdout) == 0) ||
               complain("standard output", strerror(errno));
    char beside[4096];
    if ((size_t)snprintf(beside, sizeof beside, "%s.tmp%ld", path, (long)getpid()) >= sizeof beside)
        return complain(path, "name too long");
    FILE *file = fopen(beside, "wb");
    if (!file)
        return complain(path, strerror(errno));
    bool good = fwrite(data, 1, size, file) == size;
    good = fclose(file) == 0 && good;
    if (good && rename(beside, path) == 0)
        return true;
    complain(path, strerror(errno));
    unlink(beside);
    return false;
}
