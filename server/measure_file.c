#include "server/measure_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/signature.h"
#include "server/file.h"

static bool complain(const char *path, const char *why)
{
    fprintf(stderr, "magisd measure: %s: %s\n", path, why);
    return false;
}

/* ---- what is there already ---- */

struct line {
    const char *op, *signature, *class;
    size_t class_size;
};

static bool read_line(const char *text, size_t size, struct mg_arena *arena, struct line *line)
{
    struct mg_json json;
    const char *key;
    *line = (struct line){NULL, NULL, NULL, 0};
    mg_json_init(&json, arena, text, size);
    if (mg_json_enter_object(&json))
        while (mg_json_next_member(&json, &key)) {
            if (strcmp(key, "op") == 0)
                mg_json_string(&json, &line->op, NULL);
            else if (strcmp(key, "signature") == 0)
                mg_json_string(&json, &line->signature, NULL);
            else if (strcmp(key, "class") == 0)
                mg_json_skip(&json, &line->class, &line->class_size);
            else
                mg_json_skip(&json, NULL, NULL);
        }
    return !json.err.code && mg_json_finish(&json);
}

static int by_key(const void *a, const void *b)
{
    const struct mg_hash128 *x = a, *y = b;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    return x->hi < y->hi ? -1 : x->hi > y->hi;
}

/* False: there is a line that is none of ours. */
static bool take_known(struct mg_measure_file *file, const char *text, size_t size, const char *class_key,
                       struct mg_arena *arena)
{
    bool ours = false;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        struct line line;
        if (length && !read_line(at, length, arena, &line))
            return false;
        if (length && line.class)
            ours = line.class_size == strlen(class_key) && memcmp(line.class, class_key, line.class_size) == 0;
        else if (length && (!line.op || !line.signature))
            return false;
        else if (length && ours)
            *MG_PUSH(arena, file->known, file->known_count, file->known_capacity) =
                mg_signature_key(line.op, line.signature);
        at += length + 1;
    }
    if (file->known_count)
        qsort(file->known, file->known_count, sizeof *file->known, by_key);
    return true;
}

/* Of a file that ended within its first line: it was a line of ours. */
static bool begins_a_batch(const char *text, size_t size)
{
    static const char head[] = "{\"agent\":";
    return size >= strlen(head) && memcmp(text, head, strlen(head)) == 0;
}

static bool take_over(struct mg_measure_file *file, const char *path, const char *class_key, struct mg_arena *arena)
{
    struct mg_file before;
    if (!mg_file_open(&before, path))
        return false;
    size_t size = before.size;
    while (size && before.data[size - 1] != '\n')
        size--;
    bool good =
        take_known(file, before.data, size, class_key, arena) && (size || begins_a_batch(before.data, before.size));
    bool cut = size < before.size;
    mg_file_close(&before);
    if (!good)
        return complain(path, "holds something else than timings; name another file");
    return !cut || ftruncate(file->fd, (off_t)size) == 0 || complain(path, strerror(errno));
}

/* ---- the file ---- */

bool mg_measure_file_open(struct mg_measure_file *file, const char *path, const char *class_key, struct mg_arena *arena)
{
    struct stat info;
    *file = (struct mg_measure_file){.fd = STDOUT_FILENO};
    if (strcmp(path, "-") == 0)
        return true;
    file->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file->fd < 0 || fstat(file->fd, &info) != 0)
        return complain(path, strerror(errno));
    return !S_ISREG(info.st_mode) || !info.st_size || take_over(file, path, class_key, arena);
}

bool mg_measure_file_knows(const struct mg_measure_file *file, const char *op, const char *signature)
{
    struct mg_hash128 key = mg_signature_key(op, signature);
    return file->known_count && bsearch(&key, file->known, file->known_count, sizeof key, by_key);
}

bool mg_measure_file_add(const struct mg_measure_file *file, const char *lines, size_t size)
{
    return mg_write_all(file->fd, lines, size) || complain("what was measured cannot be written", strerror(errno));
}

void mg_measure_file_close(struct mg_measure_file *file)
{
    if (file->fd > STDERR_FILENO)
        close(file->fd);
    file->fd = -1;
}
