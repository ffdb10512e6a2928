#include "server/source.h"
#include "server/local_timings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/formats.h"
#include "server/answer.h"
#include "server/graph_file.h"
#include "server/pack.h"
#include "base/suggest.h"

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

/* As the capturing script writes steps to FILE.json.gz. */
static bool unpack(struct mg_file *file, const char *path)
{
    char *text;
    size_t size;
    if (mg_gunzip(file->data, file->size, MAX_DOCUMENT, GZIP_RATIO, &text, &size) != MG_GUNZIP_OK) {
        fprintf(stderr, "magisd: %s: the gzip data is damaged or too large\n", path);
        return false;
    }
    mg_file_close(file);
    *file = (struct mg_file){text, size, text};
    return true;
}

/* The network of that name, else one of a like name, else NULL. */
static const char *nearest_network(const char *name)
{
    struct mg_suggestion near = {.text = name};
    for (uint32_t i = 0; i < mg_zoo_count(); i++) {
        if (strcmp(mg_zoo_at(i)->name, name) == 0)
            return mg_zoo_at(i)->name;
        mg_suggestion_consider(&near, mg_zoo_at(i)->name);
    }
    return near.best;
}

/* False after having said that there is no such file, and which network was perhaps meant. */
static bool is_there(const char *path)
{
    const char *network = nearest_network(path);
    if (!network || access(path, F_OK) == 0)
        return true;
    fprintf(stderr, "magisd: %s: no such file; did you mean the built-in network zoo:%s?\n", path, network);
    return false;
}

/* Text is held for JSON, all else for a model. */
static bool write_graph_file(struct mg_source *source, const char *path)
{
    struct mg_file *file = &source->file;
    if (!is_there(path) || !mg_file_open(file, path))
        return false;
    if (file->size > 2 && memcmp(file->data, "\x1f\x8b", 2) == 0 && !unpack(file, path))
        return false;
    bool marked = file->size >= 3 && memcmp(file->data, "\xef\xbb\xbf", 3) == 0; /* as some editors begin UTF-8 */
    source->block = (struct mg_bytes_block){file->data + 3 * marked, file->size - 3 * marked};
    source->is_model = !mg_graph_file_is_text(source->block.data, source->block.size);
    return true;
}

static bool write_network(struct mg_writer *w, const struct mg_options *options, const char *name)
{
    const char *set = options->value[MG_OPTION_SET], *near = nearest_network(name);
    if (near && strcmp(near, name) != 0) {
        fprintf(stderr, "magisd: zoo:%s: there is no such network; did you mean zoo:%s? (`magisd zoo` lists all)\n",
                name, near);
        return false;
    }
    mg_write_key(w, "zoo");
    mg_write_begin_object(w);
    mg_write_member_string(w, "model", name);
    bool good = !set || mg_options_write_pairs(MG_OPTION_SET, set, w);
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
    const struct mg_request_rules rules = {.detached = source->file.data != NULL,
                                           .device_dir = *source->device_dir ? source->device_dir : NULL,
                                           .class_id = source->class_id,
                                           .class_model = source->class_model};
    enum mg_code code = mg_job_request_read(source->text.data, source->text.size, &rules, &source->arena, request, err);
    if (source->is_model) {
        source->bytes = mg_bytes_from_block(&source->block);
        request->onnx = &source->bytes;
    } else if (source->file.data) {
        request->graph = source->block.data;
        request->graph_size = source->block.size;
    }
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

/* ---- what is no graph, or no plan ---- */

struct look {
    const char *data;
    size_t size;
    struct mg_arena *arena;
    enum mg_held held;
    struct mg_error err; /* what is wrong with it as JSON */
};

static enum mg_code look_guarded(void *context, struct mg_error *err)
{
    struct look *look = context;
    (void)err;
    look->held = mg_graph_file_holds(look->data, look->size, look->arena, &look->err);
    return MG_OK;
}

static struct look look_at(struct mg_arena *arena, const char *data, size_t size)
{
    struct look look = {.data = data, .size = size, .arena = arena, .held = MG_HELD_BYTES};
    struct mg_error err;
    if (mg_arena_guard(arena, look_guarded, &look, &err) != MG_OK)
        look.held = MG_HELD_BYTES;
    return look;
}

static int complain_of_text(const char *path, const struct look *look, const struct mg_error *err)
{
    char pointer[sizeof err->pointer];
    bool tried = look->size && (*look->data == '{' || *look->data == '[');
    mg_answer_visible(err->pointer, pointer, sizeof pointer);
    size_t length = strlen(path);
    bool python = length > 3 && strcmp(path + length - 3, ".py") == 0;
    fprintf(stderr, "magisd: %s: this is %s: %s%s%s%s\n", path,
            tried ? "no valid JSON" : "neither JSON nor an ONNX model", pointer, *pointer ? ": " : "", err->message,
            python ? "; magis_capture.py writes down a training step of PyTorch: magis_capture.py FILE.py:FUNCTION"
                   : "");
    return MG_EXIT_USAGE;
}

/* The file that was named as the graph could not be read. */
static int complain_of_graph(const struct mg_options *options, const char *path, struct mg_source *source,
                             struct mg_error *err)
{
    static const char graph[] = "/graph";
    struct look look = {.held = MG_HELD_BYTES};
    if (strncmp(err->pointer, graph, strlen(graph)) == 0) /* the graph is the file */
        memmove(err->pointer, err->pointer + strlen(graph), strlen(err->pointer + strlen(graph)) + 1);
    if (!source->is_model) /* else the block is used up */
        look = look_at(&source->arena, source->block.data, source->block.size);
    if (look.held != MG_HELD_NOTHING && look.held != MG_HELD_BYTES && err->code == MG_ERR_SYNTAX)
        return complain_of_text(path, &look, err);
    bool swapped = options->argument_count == 2 && strcmp(options->argument[1], "original") != 0;
    switch (look.held) {
    case MG_HELD_NOTHING:
        fprintf(stderr, "magisd: %s: the file is empty; a graph as JSON or an ONNX model is wanted\n", path);
        return MG_EXIT_USAGE;
    case MG_HELD_TEXT:
        return complain_of_text(path, &look, &look.err);
    case MG_HELD_JSON:
        fprintf(stderr,
                "magisd: %s: this is JSON, but no graph: a graph is an object with \"format\": \"magis-graph/1\" or "
                "\"magis-aten/1\"\n",
                path);
        return MG_EXIT_USAGE;
    case MG_HELD_PLAN:
        fprintf(stderr, "magisd: %s: this is a plan, not a graph%s\n", path,
                swapped ? "; GRAPH and PLAN seem to be swapped" : "");
        return MG_EXIT_USAGE;
    default:
        return mg_source_complain(path, err);
    }
}

struct digest {
    struct mg_json json;
    const char *text; /* NULL: none, or not one */
};

static enum mg_code find_digest(void *context, struct mg_error *err)
{
    struct digest *d = context;
    const char *key;
    (void)err;
    if (!mg_json_enter_object(&d->json))
        return MG_OK;
    while (!d->text && mg_json_next_member(&d->json, &key)) {
        if (strcmp(key, "graph") != 0 || mg_json_peek(&d->json) != MG_JSON_STRING)
            mg_json_skip(&d->json, NULL, NULL);
        else if (!mg_json_string(&d->json, &d->text, NULL))
            return MG_OK;
    }
    if (d->text && strspn(d->text, "0123456789abcdef") != strlen(d->text))
        d->text = NULL;
    return MG_OK;
}

/* The graph that a plan is of. */
static const char *digest_in(struct mg_arena *arena, const char *data, size_t size)
{
    struct digest d = {.text = NULL};
    struct mg_error err;
    mg_json_init(&d.json, arena, data, size);
    return mg_arena_guard(arena, find_digest, &d, &err) == MG_OK ? d.text : NULL;
}

int mg_source_complain_plan(struct mg_source *source, const char *path, const char *data, size_t size,
                            const struct mg_error *err)
{
    struct look look = look_at(&source->arena, data, size);
    const char *digest = look.held == MG_HELD_PLAN ? digest_in(&source->arena, data, size) : NULL;
    if (look.held == MG_HELD_GRAPH)
        fprintf(stderr, "magisd: %s: this is a graph, not a plan; GRAPH comes first, then PLAN\n", path);
    else if (look.held == MG_HELD_NOTHING || look.held == MG_HELD_BYTES || look.held == MG_HELD_JSON ||
             (look.held == MG_HELD_TEXT && *data != '{'))
        fprintf(stderr, "magisd: %s: this is no plan: JSON was expected, as `magisd optimize -o` writes it\n", path);
    else if (digest && strcmp(digest, source->graph->digest) != 0)
        fprintf(stderr, "magisd: %s: this plan is of another graph (digest %.64s, not %s)\n", path, digest,
                source->graph->digest);
    else
        mg_source_complain(path, err);
    return MG_EXIT_USAGE;
}

int mg_source_open(struct mg_source *source, const struct mg_options *options, const char *text)
{
    struct mg_error err;
    *source = (struct mg_source){.keep_contents = source->keep_contents};
    mg_arena_init(&source->arena, SIZE_MAX);
    mg_writer_init(&source->text);
    if (!find_class(source, options) || !write_request(source, options, text))
        return MG_EXIT_USAGE;
    if (mg_arena_guard(&source->arena, read_request, source, &err) == MG_OK)
        return MG_EXIT_DONE;
    bool in_graph = source->file.data && (strncmp(err.pointer, "/graph", 6) == 0 || !*err.pointer);
    return in_graph ? complain_of_graph(options, text, source, &err) : mg_source_complain(text, &err);
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
