/* How fast a graph-like document of about 1 MB is skipped, visited and written. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/json.h"

enum { OPERATORS = 8000, ROUNDS = 20 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void write_operator(struct mg_writer *w, int i)
{
    char name[32];
    snprintf(name, sizeof name, "encoder.%d.dense", i);
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", name);
    mg_write_member_string(w, "op", "matmul");
    mg_write_key(w, "inputs");
    mg_write_begin_array(w);
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "value%d", i + k);
        mg_write_string(w, name);
    }
    mg_write_end_array(w);
    mg_write_key(w, "shape");
    mg_write_begin_array(w);
    mg_write_int(w, 32);
    mg_write_int(w, 512);
    mg_write_end_array(w);
    mg_write_member_double(w, "scale", 1.0 / (i + 1));
    mg_write_end_object(w);
}

static void write_document(struct mg_writer *w)
{
    mg_writer_init(w);
    mg_write_begin_array(w);
    for (int i = 0; i < OPERATORS; i++)
        write_operator(w, i);
    mg_write_end_array(w);
    if (!mg_writer_finish(w))
        exit(1);
}

static void visit(struct mg_json *json)
{
    const char *text;
    double number;
    switch (mg_json_peek(json)) {
    case MG_JSON_OBJECT:
        mg_json_enter_object(json);
        while (mg_json_next_member(json, &text))
            visit(json);
        break;
    case MG_JSON_ARRAY:
        mg_json_enter_array(json);
        while (mg_json_next_element(json))
            visit(json);
        break;
    case MG_JSON_STRING:
        mg_json_string(json, &text, NULL);
        break;
    default:
        mg_json_double(json, &number);
    }
}

struct job {
    struct mg_arena *arena;
    const struct mg_writer *w;
    bool visit;
};

static enum mg_code read_document(void *context, struct mg_error *err)
{
    struct job *job = context;
    struct mg_json json;
    mg_json_init(&json, job->arena, job->w->data, job->w->size);
    if (job->visit)
        visit(&json);
    else
        mg_json_skip(&json, NULL, NULL);
    mg_json_finish(&json);
    *err = json.err;
    return json.err.code;
}

static void measure(const struct mg_writer *w, bool visit_all, const char *what)
{
    double start = seconds();
    size_t peak = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct mg_arena arena;
        struct mg_error err;
        mg_arena_init(&arena, SIZE_MAX);
        struct job job = {&arena, w, visit_all};
        if (mg_arena_guard(&arena, read_document, &job, &err))
            exit(1);
        peak = arena.peak;
        mg_arena_release(&arena);
    }
    double each = (seconds() - start) / ROUNDS;
    printf("%-6s %6.2f ms, %4.0f MB/s, arena %.2f x the body\n", what, each * 1e3, (double)w->size / each / 1e6,
           (double)peak / (double)w->size);
}

int main(void)
{
    struct mg_writer w;
    double start = seconds();
    write_document(&w);
    printf("%.2f MB\nwrite  %6.2f ms\n", (double)w.size / 1e6, (seconds() - start) * 1e3);
    measure(&w, false, "skip");
    measure(&w, true, "visit");
    mg_writer_release(&w);
    return 0;
}
