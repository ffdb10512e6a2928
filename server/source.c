#include "server/source.h"
#include "server/local_timings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/formats.h"
#include "server/answer.h"
#include "server/pack.h"

enum { MAX_PROFILE = 1 << 20, MAX_DOCUMENT = 1 << 30, GZIP_RATIO = 200 };

int mg_source_complain(const char *what, const struct mg_error *err)
{
    char pointer[sizeof err->pointer], message[sizeof err->message];
    mg_answer_visible(err->pointer, pointer, sizeof pointer);
    mg_answer_visible(err->message, message, sizeof message);
    bool symbols = strncmp(pointer, "/symbols", 8) == 0;
    fprintf(stderr, "magisd: %s: %s%s%s%s\n", what, pointer, *pointer ? ": " : "", message,
            symbols ? " (--symbols NAME=SIZE,..., such as --symbols batch=16)" : "");
    switch (err->code) {
    case MG_ERR_UNSUPPORTED:
        return MG_EXIT_UNSUPPORTED;
    case MG_ERR_SYNTAX:
    case MG_ERR_INVALID:
    case MG_ERR_LIMIT:
        return MG_EXIT_USAGE;
    default:
        return MG_EXIT_FAILED;
    }
}

static bool write_file_member(struct mg_writer *w, const char *key, const char *path)
{
    char *data;
    size_t size;
    if (!mg_file_read(path, MAX_PROFILE, &data, &size))
        return false;
    mg_write_key(w, key);
    mg_write_raw(w, data, size);
    free(data);
    return true;
}

/* A JSON document begins with a brace; all else is held for a model. */
static bool is_json(const struct mg_file *file)
{
    size_t at = 0;
    while (at < file->size && at < 64 && strchr(" \t\r\n\xef\xbb\xbf", file->data[at]) && file->data[at])
        at++;
    return at == file->size || file->data[at] == '{';
}

/* As the capturing script writes steps to FILE.json.gz. */
static bool write_gzipped(struct mg_source *source, const char *path)
{
    char *text;
    size_t size;
    if (mg_gunzip(source->file.data, source->file.size, MAX_DOCUMENT, GZIP_RATIO, &text, &size) != MG_GUNZIP_OK) {
        fprintf(stderr, "magisd: %s: the gzip data is damaged or too large\n", path);
        return false;
    }
    mg_write_key(&source->text, "graph");
    mg_write_raw(&source->text, text, size);
    free(text);
    return true;
}

static bool write_graph_file(struct mg_source *source, const char *path)
{
    if (!mg_file_open(&source->file, path))
        return false;
    if (source->file.size > 2 && memcmp(source->file.data, "\x1f\x8b", 2) == 0)
        return write_gzipped(source, path);
    if (is_json(&source->file)) {
        mg_write_key(&source->text, "graph");
        mg_write_raw(&source->text, source->file.data, source->file.size);
        return true;
    }
    source->block = (struct mg_bytes_block){source->file.data, source->file.size};
    source->bytes = mg_bytes_from_block(&source->block);
    return true;
}

static bool write_network(struct mg_writer *w, const struct mg_options *options, const char *name)
{
    const char *set = options->value[MG_OPTION_SET];
    mg_write_key(w, "zoo");
    mg_write_begin_object(w);
    mg_write_member_string(w, "model", name);
    bool good = !set || mg_options_write_pairs(set, w);
    mg_write_end_object(w);
    return good;
}

static bool write_device(struct mg_writer *w, const char *device)
{
    if (!device)
        return true;
    if (strncmp(device, "class:", 6) != 0 && (strchr(device, '/') || strstr(device, ".json")))
        return write_file_member(w, "device", device);
    mg_write_member_string(w, "device", device);
    return true;
}

static bool write_request(struct mg_source *source, const struct mg_options *options, const char *text)
{
    struct mg_writer *w = &source->text;
    mg_write_begin_object(w);
    mg_options_write_members(options, w);
    bool profile = options->command != MG_COMMAND_RUN && options->command != MG_COMMAND_MEASURE;
    bool good = !profile || write_device(w, options->value[MG_OPTION_DEVICE]);
    if (good && strncmp(text, "zoo:", 4) == 0)
        good = write_network(w, options, text + 4);
    else if (good && options->value[MG_OPTION_SET])
        good = fprintf(stderr, "magisd: --set is for networks of the zoo\n") < 0;
    else if (good)
        good = write_graph_file(source, text);
    mg_write_end_object(w);
    return mg_writer_finish(w) && good;
}

static enum mg_code read_request(void *context, struct mg_error *err)
{
    struct mg_source *source = context;
    struct mg_job_request *request = &source->request;
    const struct mg_request_rules rules = {.detached = source->bytes.next != NULL,
                                           .device_dir = *source->device_dir ? source->device_dir : NULL,
                                           .class_id = source->class_id,
                                           .class_model = source->class_model};
    enum mg_code code = mg_job_request_read(source->text.data, source->text.size, &rules, &source->arena, request, err);
    request->onnx = source->bytes.next ? &source->bytes : NULL;
    request->keep_contents = source->keep_contents;
    return code == MG_OK ? mg_job_request_graph(request, &source->arena, &source->graph, &source->model, err) : code;
}

/* A device class is told by what was measured in --data. */
static bool find_class(struct mg_source *source, const struct mg_options *options)
{
    const char *device = options->value[MG_OPTION_DEVICE], *dir = options->value[MG_OPTION_DATA];
    if (dir && options->command == MG_COMMAND_OPTIMIZE)
        snprintf(source->device_dir, sizeof source->device_dir, "%s/devices", dir);
    if (!device || strncmp(device, "class:", 6) != 0 || strlen(device) != 22)
        return true;
    if (!dir || options->command != MG_COMMAND_OPTIMIZE)
        return fprintf(stderr,
                       "magisd: --device %s: only optimize takes a device class, with --data DIR in which it was "
                       "measured\n",
                       device) < 0;
    source->class_id = device + 6;
    return mg_local_timings_class(dir, source->class_id, source->class_model, sizeof source->class_model);
}

int mg_source_open(struct mg_source *source, const struct mg_options *options, const char *text)
{
    struct mg_error err;
    *source = (struct mg_source){.keep_contents = source->keep_contents};
    mg_arena_init(&source->arena, SIZE_MAX);
    mg_writer_init(&source->text);
    if (!find_class(source, options) || !write_request(source, options, text))
        return MG_EXIT_USAGE;
    if (mg_arena_guard(&source->arena, read_request, source, &err) != MG_OK)
        return mg_source_complain(text, &err);
    return MG_EXIT_DONE;
}

void mg_source_release(struct mg_source *source)
{
    mg_writer_release(&source->text);
    mg_arena_release(&source->arena);
    mg_file_close(&source->file);
}

static void print_summary(const struct mg_graph *g)
{
    struct mg_graph_stats stats;
    mg_graph_stats(g, &stats);
    printf("%s: %zu operators, %zu values, %llu parameters, %llu contractions with %.6e operations\ndigest %s\n",
           g->name, g->op_count, g->value_count, (unsigned long long)stats.parameters,
           (unsigned long long)stats.contractions, stats.contraction_flops, g->digest);
}

int mg_source_write_graph(const struct mg_options *options, const struct mg_graph *g)
{
    const char *path = options->value[MG_OPTION_OUTPUT], *format = options->value[MG_OPTION_FORMAT];
    struct mg_writer w;
    bool dot = format && strcmp(format, "dot") == 0;
    if (format && !dot && strcmp(format, "json") != 0) {
        fprintf(stderr, "magisd: --format is json or dot\n");
        return MG_EXIT_USAGE;
    }
    if (!path && !format && isatty(STDOUT_FILENO) == 1 && !mg_options_flag(options, MG_OPTION_JSON)) {
        print_summary(g);
        return MG_EXIT_DONE;
    }
    mg_writer_init(&w);
    if (dot)
        mg_graph_write_dot(&w, g);
    else
        mg_graph_write(&w, g);
    bool good = mg_writer_finish(&w) && mg_file_write(path ? path : "-", w.data, w.size);
    mg_writer_release(&w);
    return good ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

struct guard_call {
    int (*run)(void *context);
    void *context;
    int code;
};

static enum mg_code run_guarded(void *context, struct mg_error *err)
{
    struct guard_call *call = context;
    (void)err;
    call->code = call->run(call->context);
    return MG_OK;
}

int mg_source_guard(struct mg_arena *arena, int (*run)(void *context), void *context)
{
    struct guard_call call = {run, context, MG_EXIT_FAILED};
    struct mg_error err;
    if (mg_arena_guard(arena, run_guarded, &call, &err) != MG_OK)
        return mg_source_complain("failed", &err);
    return call.code;
}
