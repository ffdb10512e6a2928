/* GRAPH is a native JSON graph or zoo:NAME with --set and --training; a graph file that holds a
 * forward graph takes --training as well. */
#include <stdio.h>
#include <string.h>

#include "server/file.h"
#include "server/source.h"

struct check {
    struct mg_source source;
    const char *path; /* of the plan */
    struct mg_file plan;
};

static void write_verdict(struct mg_writer *w, const struct mg_verdict *verdict)
{
    mg_write_begin_object(w);
    mg_write_member_bool(w, "accepted", verdict->accepted);
    if (!verdict->accepted) {
        mg_write_key(w, "step");
        if (verdict->step == MG_NONE)
            mg_write_null(w);
        else
            mg_write_uint(w, verdict->step);
        mg_write_member_string(w, "reason", verdict->reason);
        mg_write_member_string(w, "message", verdict->message);
    }
    mg_write_member_double(w, "latency_s", verdict->figures.latency_s);
    mg_write_member_uint(w, "peak_bytes", verdict->figures.peak_bytes);
    mg_write_member_uint(w, "arena_bytes", verdict->figures.arena_bytes);
    mg_write_member_uint(w, "host_bytes", verdict->figures.host_bytes);
    mg_write_end_object(w);
}

static int print_verdict(const struct mg_verdict *verdict)
{
    struct mg_writer w;
    mg_writer_init(&w);
    write_verdict(&w, verdict);
    bool good = mg_writer_finish(&w) && puts(w.data) >= 0;
    mg_writer_release(&w);
    if (!good)
        return MG_EXIT_FAILED;
    return verdict->accepted ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

static int check(void *context)
{
    struct check *c = context;
    struct mg_plan *plan;
    struct mg_verdict verdict;
    struct mg_error err;
    struct mg_arena *arena = &c->source.arena;
    if (mg_plan_read(c->source.graph, c->plan.data, c->plan.size, arena, &plan, &err) != MG_OK)
        return mg_source_complain_plan(&c->source, c->path, c->plan.data, c->plan.size, &err);
    if (mg_plan_check(c->source.graph, plan, arena, &verdict, &err) != MG_OK)
        return mg_source_complain("check", &err);
    return print_verdict(&verdict);
}

static int check_files(const struct mg_options *options)
{
    struct check c = {.path = options->argument[1]};
    if (!mg_file_open(&c.plan, c.path))
        return MG_EXIT_USAGE;
    int code = mg_source_open(&c.source, options, options->argument[0]);
    if (code == MG_EXIT_DONE)
        code = mg_source_guard(&c.source.arena, check, &c);
    else
        code = MG_EXIT_USAGE; /* unreadable, whatever the cause */
    mg_source_release(&c.source);
    mg_file_close(&c.plan);
    return code;
}

int mg_cmd_check(int argc, char **argv)
{
    struct mg_options options;
    int code;
    if (mg_options_parse(&options, MG_COMMAND_CHECK, argc, argv, &code))
        code = check_files(&options);
    mg_options_release(&options);
    return code;
}
