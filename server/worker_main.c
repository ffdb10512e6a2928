/* magisd worker (internal): one search. Reads request and graph from descriptor 3, appends packed
 * plans to the spool at 4, says what happens in control lines on stdout (worker.h). After the start it
 * opens no file. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/answer.h"
#include "server/child.h"
#include "server/clock.h"
#include "server/interrupt.h"
#include "server/options.h"
#include "server/worker.h"
#include "server/worker_priv.h"

static const double progress_seconds = 0.5, alive_seconds = 3;

static double now(void *context)
{
    (void)context;
    return mg_clock_seconds();
}

/* ---- the observer ---- */

/* A search that has found nothing yet has no progress to tell of. */
static void say_alive(struct mg_worker_run *run)
{
    struct mg_writer w;
    mg_worker_begin_line(&w, "alive");
    mg_worker_end_line(run, &w);
}

static bool on_poll(void *context)
{
    struct mg_worker_run *run = context;
    double time = mg_clock_seconds();
    mg_worker_flush_some(run);
    mg_worker_publish_if_due(run, time);
    if (run->out_size == 0 && time - run->said_at >= alive_seconds)
        say_alive(run);
    return mg_interrupted() || run->broken;
}

/* The first point that the search reports is the original. */
static void on_plan(void *context, const struct mg_point *point)
{
    struct mg_worker_run *run = context;
    if (run->limits.original_peak == 0) {
        const struct mg_worker_spooled *entry = mg_worker_spool(run, point);
        mg_worker_set_limits(run, &point->figures);
        if (entry) {
            struct mg_front_point original = mg_worker_front_point(point, entry);
            mg_worker_send_point(run, "original", NULL, &original);
        }
    }
    mg_worker_add_to_front(run, point);
    mg_worker_publish_if_due(run, mg_clock_seconds());
}

static void on_baseline_point(void *context, const struct mg_point *point)
{
    struct mg_worker_run *run = context;
    (void)!mg_worker_spool(run, point);
}

static void on_baseline(void *context, const struct mg_baseline_result *baseline)
{
    struct mg_worker_run *run = context;
    struct mg_writer w;
    if (!mg_job_request_wants_baseline(&run->request, baseline->name))
        return;
    for (uint32_t i = 0; i < baseline->point_count; i++) {
        const struct mg_worker_spooled *entry = mg_worker_spool(run, &baseline->points[i]);
        if (!entry)
            continue;
        struct mg_front_point point = mg_worker_front_point(&baseline->points[i], entry);
        mg_worker_send_point(run, "point", baseline->name, &point);
    }
    mg_worker_begin_line(&w, "baseline");
    mg_write_member_string(&w, "name", baseline->name);
    mg_write_member_uint(&w, "points", baseline->point_count);
    if (baseline->not_applicable)
        mg_worker_write_cut(&w, "reason", baseline->not_applicable, 700);
    mg_worker_end_line(run, &w);
}

static void on_progress(void *context, const struct mg_progress *progress)
{
    struct mg_worker_run *run = context;
    struct mg_writer w;
    double time = mg_clock_seconds();
    run->evaluations = progress->evaluations;
    mg_worker_publish_if_due(run, time);
    mg_worker_flush_some(run);
    if (run->out_size || time - run->progress_at < progress_seconds)
        return; /* the pipe is full, or too soon: this one is dropped */
    run->progress_at = time;
    mg_worker_begin_line(&w, "progress");
    mg_write_member_uint(&w, "evaluations", progress->evaluations);
    mg_write_member_double(&w, "elapsed_s", progress->seconds);
    mg_write_member_double(&w, "fraction", progress->fraction);
    mg_write_member_double(&w, "latency_s", progress->best.latency_s);
    mg_write_member_uint(&w, "peak_bytes", progress->best.peak_bytes);
    mg_worker_end_line(run, &w);
}

static void on_rejected(void *context, const struct mg_plan *plan, const struct mg_verdict *verdict)
{
    struct mg_worker_run *run = context;
    struct mg_writer w;
    (void)plan;
    if (run->rejected++ >= 20)
        return; /* counted in the end line; the log need not repeat it for ever */
    mg_worker_begin_line(&w, "rejected");
    mg_write_member_string(&w, "code", verdict->reason);
    mg_worker_write_cut(&w, "message", verdict->message, 250);
    mg_worker_end_line(run, &w);
}

/* ---- the end ---- */

static void write_prices(struct mg_writer *w, const struct mg_plan *plan)
{
    double shares[MG_PRICE_SOURCES];
    uint64_t all = mg_plan_price_shares(plan, shares);
    mg_write_key(w, "prices");
    mg_write_begin_array(w);
    for (int source = MG_PRICE_SOURCES; source-- > 0;)
        mg_write_double(w, shares[source]);
    mg_write_end_array(w);
    mg_write_member_uint(w, "operators", all);
}

static void send_end(struct mg_worker_run *run, const struct mg_search_result *result)
{
    static const char *const outcomes[] = {"met", "not_met", "infeasible", "front"};
    static const char *const stops[] = {"evaluations", "seconds", "exhausted", "cancelled"};
    struct mg_writer w;
    mg_worker_begin_line(&w, "end");
    mg_write_member_string(&w, "outcome", outcomes[result->outcome]);
    mg_write_member_string(&w, "stopped_by", stops[result->stopped_by]);
    mg_write_member_uint(&w, "lower_bound_bytes", result->lower_bound_bytes);
    mg_worker_write_cut(&w, "lower_bound_operator", result->lower_bound_op, 200);
    mg_write_member_uint(&w, "evaluations", result->evaluations);
    mg_write_member_uint(&w, "accepted", result->accepted);
    mg_write_member_uint(&w, "rejected", result->rejected);
    mg_write_member_uint(&w, "restored", result->restored);
    mg_write_member_double(&w, "elapsed_s", result->seconds);
    write_prices(&w, result->original.plan);
    mg_worker_end_line(run, &w);
}

/* The result is the authority on the front: the points reported on the way only led to it. */
static void finish(struct mg_worker_run *run, const struct mg_search_result *result)
{
    run->count = 0;
    for (uint32_t i = 0; i < result->front_count; i++)
        mg_worker_add_to_front(run, &result->front[i]);
    if (!run->broken)
        mg_worker_publish(run, true);
    if (run->broken)
        return;
    send_end(run, result);
    mg_worker_flush(run);
}

/* ---- a job's life ---- */

static void work(struct mg_worker_run *run)
{
    struct mg_error err;
    struct mg_search_result result;
    const struct mg_observer observer = {.context = run,
                                         .now = now,
                                         .cancelled = on_poll,
                                         .progress = on_progress,
                                         .plan = on_plan,
                                         .baseline_point = on_baseline_point,
                                         .baseline = on_baseline,
                                         .rejected = on_rejected};
    enum mg_code code = mg_worker_load(run, &err);
    if (code == MG_OK)
        code = mg_search(run->graph, &run->options, &observer, &run->arena, &result, &err);
    if (code == MG_OK && !run->broken)
        finish(run, &result);
    if (run->why_code)
        mg_worker_send_why(run);
    else if (code != MG_OK)
        mg_worker_send_error(run, mg_code_name(err.code), &err);
}

/* argv: worker PARENT MEMORY_BYTES SPOOL_BYTES */
int mg_cmd_worker(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "magisd worker is started by magisd serve\n");
        return MG_EXIT_USAGE;
    }
    const struct mg_child_limits limits = {.memory_bytes = strtoull(argv[2], NULL, 10),
                                           .file_bytes = strtoull(argv[3], NULL, 10),
                                           .background = true,
                                           .oom_score = 800};
    mg_interrupt_catch(SIGTERM, false);
    if (!mg_child_settle(&limits, strtol(argv[1], NULL, 10)))
        return MG_EXIT_FAILED;
    fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
    struct mg_worker_run run = {.started = mg_clock_seconds()};
    run.published_at = run.progress_at = run.said_at = run.started - progress_seconds;
    mg_arena_init(&run.arena, SIZE_MAX);
    work(&run);
    bool good = !run.broken;
    mg_pricer_free(run.options.pricer);
    mg_arena_release(&run.arena);
    free(run.front);
    free(run.spooled);
    free(run.out);
    return good ? MG_EXIT_DONE : MG_EXIT_FAILED;
}
