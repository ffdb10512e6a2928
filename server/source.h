/* SOURCE of the command line (zoo:NAME, a JSON graph or an ONNX model) and its options as a request, then a graph. */
#ifndef MG_SERVER_SOURCE_H
#define MG_SERVER_SOURCE_H

#include "server/file.h"
#include "server/options.h"
#include "server/request.h"

struct mg_source {
    struct mg_arena arena;
    struct mg_writer text; /* the request as JSON */
    struct mg_job_request request;
    struct mg_graph *graph;
    struct mg_file file;         /* the graph or model, */
    struct mg_bytes_block block; /* its bytes, */
    bool is_model;               /* whether they are an ONNX model's, */
    struct mg_bytes bytes;       /* then the same to read from; */
    struct mg_onnx_model model;  /* and what is known beside the graph; empty for other sources */
    char device_dir[4096];       /* of --data: profiles of users */
    const char *class_id;        /* of --device class:ID, */
    char class_model[208];       /* and its device's name */
    bool keep_contents;          /* set before opening: with the data of initialisers */
};

/* Begins with {.keep_contents = ...} or zeros. Says what is wrong on stderr and returns the exit code; MG_EXIT_DONE:
 * all is filled. Release in either case. */
int mg_source_open(struct mg_source *source, const struct mg_options *options, const char *text);
void mg_source_release(struct mg_source *source);
/* Writes the graph to --output as --format says; else a summary on a terminal, or JSON on standard output. */
int mg_source_write_graph(const struct mg_options *options, const struct mg_graph *g);
/* The exit code for an error of the core, after saying it. */
int mg_source_complain(const char *what, const struct mg_error *err);
/* The same where the plan in the file `path` could not be read: MG_EXIT_USAGE. */
int mg_source_complain_plan(struct mg_source *source, const char *path, const char *data, size_t size,
                            const struct mg_error *err);
/* mg_arena_printf and the like want a guard: the commands run inside this one. */
int mg_source_guard(struct mg_arena *arena, int (*run)(void *context), void *context);

#endif
