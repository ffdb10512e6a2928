/* Static memory allocation of `id,lower,upper,size` lines, each live in [lower, upper). The capacity
 * is --memory-bytes, or stands in the file's name: NAME.CAPACITY.csv. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "server/file.h"
#include "server/source.h"

struct place {
    const struct mg_options *options;
    char *text;
    struct mg_arena arena;
    const char **ids;
    struct mg_buffer *buffers;
    size_t count, capacity, id_capacity;
    uint64_t limit, arena_bytes;
};

static bool field(char **rest, uint64_t *out)
{
    char *text = strsep(rest, ","), *end;
    if (!text || !isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    while (isspace((unsigned char)*end))
        end++;
    return errno == 0 && *end == '\0';
}

static bool read_line(struct place *p, char *line)
{
    uint64_t lower, upper, size;
    char *id = strsep(&line, ",");
    if (!field(&line, &lower) || !field(&line, &upper) || !field(&line, &size) || lower >= upper || upper >= UINT32_MAX)
        return false;
    size_t at = p->count;
    *MG_PUSH(&p->arena, p->ids, at, p->id_capacity) = id;
    struct mg_buffer *buffer = MG_PUSH(&p->arena, p->buffers, p->count, p->capacity);
    *buffer = (struct mg_buffer){.bytes = size, .lower = (uint32_t)lower, .upper = (uint32_t)upper};
    return true;
}

static bool read_lines(struct place *p)
{
    char *rest = p->text, *line = strsep(&rest, "\n");
    if (!line || strncmp(line, "id,lower,upper,size", 19) != 0) {
        fprintf(stderr, "magisd place: the first line must be id,lower,upper,size\n");
        return false;
    }
    for (unsigned number = 2; (line = strsep(&rest, "\n")); number++) {
        line[strcspn(line, "\r")] = '\0';
        if (*line && !read_line(p, line)) {
            fprintf(stderr, "magisd place: line %u: expected id,lower,upper,size with lower < upper\n", number);
            return false;
        }
    }
    return true;
}

/* The number before ".csv", 0 if there is none. */
static uint64_t capacity_of_name(const char *path)
{
    const char *dot = strstr(path, ".csv");
    const char *at = dot;
    while (at && at > path && isdigit((unsigned char)at[-1]))
        at--;
    return at && at < dot && at > path && at[-1] == '.' ? strtoull(at, NULL, 10) : 0;
}

/* The most bytes alive at once: no packing needs less. */
static uint64_t lower_bound(const struct place *p)
{
    uint64_t most = 0;
    for (size_t i = 0; i < p->count; i++) {
        uint64_t alive = 0;
        for (size_t k = 0; k < p->count; k++)
            if (p->buffers[k].lower <= p->buffers[i].lower && p->buffers[i].lower < p->buffers[k].upper)
                alive += p->buffers[k].bytes;
        most = alive > most ? alive : most;
    }
    return most;
}

static void write_json(struct mg_writer *w, const struct place *p, uint64_t bound)
{
    mg_write_begin_object(w);
    mg_write_member_uint(w, "buffers", p->count);
    mg_write_member_uint(w, "arena_bytes", p->arena_bytes);
    mg_write_member_uint(w, "lower_bound_bytes", bound);
    mg_write_key(w, "capacity_bytes");
    if (p->limit)
        mg_write_uint(w, p->limit);
    else
        mg_write_null(w);
    mg_write_member_bool(w, "fits", p->limit == 0 || p->arena_bytes <= p->limit);
    mg_write_key(w, "offsets");
    mg_write_begin_object(w);
    for (size_t i = 0; i < p->count; i++)
        mg_write_member_uint(w, p->ids[i], p->buffers[i].offset);
    mg_write_end_object(w);
    mg_write_end_object(w);
    mg_write_text(w, "\n");
}

static void write_csv(struct mg_writer *w, const struct place *p)
{
    mg_write_text(w, "id,lower,upper,size,offset\n");
    for (size_t i = 0; i < p->count; i++)
        mg_write_text(w, "%s,%u,%u,%llu,%llu\n", p->ids[i], p->buffers[i].lower, p->buffers[i].upper,
                      (unsigned long long)p->buffers[i].bytes, (unsigned long long)p->buffers[i].offset);
}

static bool deliver(const struct place *p, const char *path, bool json, uint64_t bound)
{
    struct mg_writer w;
    mg_writer_init(&w);
    if (json)
        write_json(&w, p, bound);
    else
        write_csv(&w, p);
    bool good = mg_writer_finish(&w) && mg_file_write(path, w.data, w.size);
    mg_writer_release(&w);
    return good;
}

static int report(const struct place *p)
{
    const char *output = p->options->value[MG_OPTION_OUTPUT];
    bool json = mg_options_flag(p->options, MG_OPTION_JSON), good = true;
    uint64_t bound = lower_bound(p);
    if (json)
        good = deliver(p, "-", true, bound);
    else
        printf("%zu buffers in %llu bytes (at least %llu are alive at once)\n", p->count,
               (unsigned long long)p->arena_bytes, (unsigned long long)bound);
    if (output)
        good = deliver(p, output, false, bound) && good;
    if (!good)
        return MG_EXIT_FAILED;
    if (p->limit == 0 || p->arena_bytes <= p->limit)
        return MG_EXIT_DONE;
    fprintf(stderr, "magisd place: the limit of %llu bytes (%s) is missed by %llu bytes\n",
            (unsigned long long)p->limit,
            p->options->value[MG_OPTION_MEMORY_BYTES] ? "--memory-bytes" : "by the file's name",
            (unsigned long long)(p->arena_bytes - p->limit));
    return MG_EXIT_NOT_MET;
}

static int place(void *context)
{
    struct place *p = context;
    struct mg_error err;
    if (!read_lines(p))
        return MG_EXIT_USAGE;
    struct mg_arena scratch;
    mg_arena_init(&scratch, SIZE_MAX);
    enum mg_code code = mg_place(p->buffers, p->count, 1, &p->arena_bytes, &scratch, &err);
    mg_arena_release(&scratch);
    return code == MG_OK ? report(p) : mg_source_complain("place", &err);
}

static int place_file(const struct mg_options *options)
{
    struct place p = {.options = options};
    size_t size;
    if (!mg_file_read(options->argument[0], 1 << 28, &p.text, &size))
        return MG_EXIT_USAGE;
    p.limit = mg_options_uint(options, MG_OPTION_MEMORY_BYTES, capacity_of_name(options->argument[0]));
    mg_arena_init(&p.arena, SIZE_MAX);
    int code = mg_source_guard(&p.arena, place, &p);
    mg_arena_release(&p.arena);
    free(p.text);
    return code;
}

int mg_cmd_place(int argc, char **argv)
{
    struct mg_options options;
    int code;
    if (mg_options_parse(&options, MG_COMMAND_PLACE, argc, argv, &code))
        code = place_file(&options);
    mg_options_release(&options);
    return code;
}
