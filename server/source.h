/* SOURCE of the command line (zoo:NAME or a JSON graph) and its options as a request, then a graph. */
#ifndef MG_SERVER_SOURCE_H
#define MG_SERVER_SOURCE_H

#include "server/options.h"
#include "server/request.h"

struct mg_source {
    struct mg_arena arena;
    struct mg_writer text; /* the request as JSON */
    struct mg_job_request request;
    struct mg_graph *graph;
};

/* Says what is wrong on stderr and returns the exit code; MG_EXIT_DONE: all is filled. Release in
 * either case. */
int mg_source_open(struct mg_source *source, const struct mg_options *options, const char *text);
void mg_source_release(struct mg_source *source);
/* The exit code for an error of the core, after saying it. */
int mg_source_complain(const char *what, const struct mg_error *err);
/* mg_arena_printf and the like want a guard: the commands run inside this one. */
int mg_source_guard(struct mg_arena *arena, int (*run)(void *context), void *context);

#endif
