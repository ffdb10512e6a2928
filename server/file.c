#include "server/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_READ = 1 << 30 };

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

bool mg_file_map(struct mg_file *file, int fd)
{
    struct stat info;
    *file = (struct mg_file){NULL, 0, NULL};
    bool regular = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    void *mapped = regular ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (mapped == MAP_FAILED)
        return false;
    file->data = mapped;
    file->size = (size_t)info.st_size;
    return true;
}

bool mg_file_open(struct mg_file *file, const char *path)
{
    *file = (struct mg_file){NULL, 0, NULL};
    int fd = strcmp(path, "-") == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && strcmp(path, "-") != 0)
        return complain(path, strerror(errno));
    bool good = mg_file_map(file, fd);
    if (fd >= 0)
        close(fd);
    if (!good) {
        good = mg_file_read(path, MAX_READ, &file->copy, &file->size);
        file->data = good ? file->copy : NULL;
    }
    return good;
}

void mg_file_close(struct mg_file *file)
{
    if (file->data && !file->copy)
        munmap((void *)(uintptr_t)file->data, file->size);
    free(file->copy);
    *file = (struct mg_file){NULL, 0, NULL};
}

static bool write_open(FILE *file, const char *path, const void *data, size_t size)
{
    if (!file)
        return complain(path, strerror(errno));
    bool good = fwrite(data, 1, size, file) == size;
    good = fclose(file) == 0 && good;
    return good || complain(path, strerror(errno));
}

/* What a rename would destroy: pipes, sockets and devices. */
static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

static bool write_beside(const char *path, const void *data, size_t size)
{
    char beside[PATH_MAX];
    if ((size_t)snprintf(beside, sizeof beside, "%s.tmp%ld", path, (long)getpid()) >= sizeof beside)
        return complain(path, "name too long");
    bool good = write_open(fopen(beside, "wb"), path, data, size);
    if (good && rename(beside, path) != 0)
        good = complain(path, strerror(errno));
    if (!good)
        unlink(beside);
    return good;
}

bool mg_file_write(const char *path, const void *data, size_t size)
{
    if (strcmp(path, "-") == 0)
        return (fwrite(data, 1, size, stdout) == size && fflush(stdout) == 0) ||
               complain("standard output", strerror(errno));
    if (is_special(path))
        return write_open(fopen(path, "wb"), path, data, size);
    char target[PATH_MAX];
    return write_beside(realpath(path, target) ? target : path, data, size);
}

bool mg_file_writable(const char *path)
{
    struct stat info;
    if (strcmp(path, "-") == 0 || is_special(path))
        return true;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return complain(path, "is a directory; name a file in it");
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t size = slash == path ? 1 : slash ? (size_t)(slash - path) : 1;
    if (size >= sizeof parent)
        return complain(path, "name too long");
    memcpy(parent, slash ? path : ".", size);
    parent[size] = '\0';
    return access(parent, W_OK | X_OK) == 0 || complain(path, strerror(errno));
}

bool mg_write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size) {
        ssize_t done = write(fd, at, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        size -= (size_t)done;
    }
    return true;
}
