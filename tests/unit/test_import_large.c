/* What the import of a large graph takes, for each of its operators: its text, all that is read and made on the way,
 * and the graph. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "server/request.h"

enum { NODES = 20000 };

struct import {
    struct mg_job_request request;
    struct mg_arena arena;
    struct mg_graph *graph;
};

static enum mg_code run(void *context, struct mg_error *err)
{
    struct import *i = context;
    return mg_job_request_graph(&i->request, &i->arena, &i->graph, NULL, err);
}

static void expect_frugal(struct import *i, const char *what, size_t bytes_each)
{
    struct mg_error err;
    mg_arena_init(&i->arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&i->arena, run, i, &err), MG_OK, "%s: %s %s", what, err.pointer, err.message);
    cr_expect_geq(i->graph->op_count, NODES - 1, "%s", what);
#if !defined(__SANITIZE_ADDRESS__)
    cr_expect_leq(i->arena.peak / NODES, bytes_each, "%s: %zu bytes for each operator", what, i->arena.peak / NODES);
#endif
    mg_arena_release(&i->arena);
}

static void read_text(const char *what, struct mg_writer *w, size_t bytes_each)
{
    cr_assert(mg_writer_finish(w));
    struct import i = {.request = {.graph = w->data, .graph_size = w->size}};
    expect_frugal(&i, what, bytes_each);
    mg_writer_release(w);
}

Test(import_large, native)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_text(&w,
                  "{\"format\":\"magis-graph/1\",\"values\":[{\"name\":\"layer.0.out\",\"shape\":[32,64],\"dtype\":"
                  "\"f32\",\"kind\":\"input\"}],\"outputs\":[\"layer.%d.out\"],\"ops\":[",
                  NODES);
    for (int n = 1; n <= NODES; n++)
        mg_write_text(&w,
                      "%s{\"name\":\"layer.%d\",\"op\":\"add\",\"inputs\":[\"layer.%d.out\",\"layer.0.out\"],"
                      "\"outputs\":[\"layer.%d.out\"],\"module\":\"encoder.layer.%d\"}",
                      n > 1 ? "," : "", n, n - 1, n, n);
    mg_write_text(&w, "]}");
    read_text("native", &w, 3200);
}

Test(import_large, captured)
{
    static const char out[] =
        "\"out\":{\"shape\":[32,64],\"strides\":[64,1],\"dtype\":\"f32\",\"offset\":0,\"storage\":";
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_text(&w,
                  "{\"format\":\"magis-aten/1\",\"digest\":\"%064d\",\"nodes\":[{\"name\":\"add_0\",\"op\":"
                  "\"placeholder\",\"kind\":\"input\",%s0}}",
                  0, out);
    for (int n = 1; n <= NODES; n++)
        mg_write_text(&w,
                      ",{\"name\":\"add_%d\",\"op\":\"aten.add.Tensor\",\"args\":[{\"node\":\"add_%d\"},{\"node\":"
                      "\"add_0\"}],\"module\":\"encoder.layer.%d\",%s%d}}",
                      n, n - 1, n, out, n);
    mg_write_text(&w, "],\"outputs\":[{\"node\":\"add_%d\"}]}", NODES);
    read_text("captured", &w, 5000);
}
