#include "server/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/file.h"

enum { MAX_FILE = 1 << 30 };

int mg_source_complain(const char *what, const struct mg_error *err)
{
    fprintf(stderr, "magisd: %s: %s%s%s\n", what, err->pointer, *err->pointer ? ": " : "", err->message);
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
    if (!mg_file_read(path, MAX_FILE, &data, &size))
        return false;
    if (size > 8 && data[0] == '\x08') {
        fprintf(stderr, "magisd: %s: ONNX files are not supported by this version\n", path);
        free(data);
        return false;
    }
    mg_write_key(w, key);
    mg_write_raw(w, data, size);
    free(data);
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
    if (strchr(device, '/') || strstr(device, ".json"))
        return write_file_member(w, "device", device);
    mg_write_member_string(w, "device", device);
    return true;
}

static bool write_request(struct mg_writer *w, const struct mg_options *options, const char *text)
{
    mg_write_begin_object(w);
    mg_options_write_members(options, w);
    bool good = write_device(w, options->value[MG_OPTION_DEVICE]);
    if (good && strncmp(text, "zoo:", 4) == 0)
        good = write_network(w, options, text + 4);
    else if (good && options->value[MG_OPTION_SET])
        good = fprintf(stderr, "magisd: --set is for networks of the zoo\n") < 0;
    else if (good)
        good = write_file_member(w, "graph", text);
    mg_write_end_object(w);
    return mg_writer_finish(w) && good;
}

static enum mg_code read_request(void *context, struct mg_error *err)
{
    struct mg_source *source = context;
    const struct mg_request_rules rules = {.detached = false, .max_seconds = 0};
    enum mg_code code =
        mg_job_request_read(source->text.data, source->text.size, &rules, &source->arena, &source->request, err);
    return code == MG_OK ? mg_job_request_graph(&source->request, &source->arena, &source->graph, err) : code;
}

int mg_source_open(struct mg_source *source, const struct mg_options *options, const char *text)
{
    struct mg_error err;
    memset(source, 0, sizeof *source);
    mg_arena_init(&source->arena, SIZE_MAX);
    mg_writer_init(&source->text);
    if (!write_request(&source->text, options, text))
        return MG_EXIT_USAGE;
    if (mg_arena_guard(&source->arena, read_request, source, &err) != MG_OK)
        return mg_source_complain(text, &err);
    return MG_EXIT_DONE;
}

void mg_source_release(struct mg_source *source)
{
    mg_writer_release(&source->text);
    mg_arena_release(&source->arena);
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
