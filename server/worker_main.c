/* magisd worker (internal): one search. Reads request and graph from descriptor 3, appends packed
 * plans to the spool at 4, says what happens in control lines on stdout (worker.h). After the start it
 * opens no file.
 *
 * The front that the search reports point by point is kept here; every two seconds its thinned form
 * is published: first the points that are new, then the list. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "formats/formats.h"
#include "search/limits.h"
#include "server/answer.h"
#include "server/child.h"
#include "server/clock.h"
#include "server/file.h"
#include "server/interrupt.h"
#include "server/options.h"
#include "server/pack.h"
#include "server/plan_blob.h"
#include "server/request.h"
#include "server/worker.h"

enum { MAX_GRAPH = 1 << 30, OUT_ROOM = 1 << 16 };
static const double batch_seconds = 2, progress_seconds = 0.5, alive_seconds = 3;

struct spooled {
    char id[17];
    bool sent; /* its point line is out */
    uint64_t offset, length, crc;
    double measured_share;
    bool measured; /* every operator, parts included */
};

struct run {
    struct mg_arena arena;
    struct mg_job_request request;
    struct mg_graph *graph;
    struct mg_search_options options;
    struct mg_timings timings;
    struct mg_front_limits limits;
    /* the front as reported, reduced */
    struct mg_front_point *front;
    size_t count, capacity;
    bool changed;
    struct spooled *spooled; /* plans in the spool: those of a point live only as long as its report */
    size_t spooled_count, spooled_capacity;
    uint64_t spool_at;
    double started, published_at, progress_at, said_at;
    /* control lines that the pipe did not take yet */
    char *out;
    size_t out_size, out_capacity;
    bool broken;     /* pipe or spool failed: stop */
    int spool_error; /* errno of a failed write to the spool */
    uint64_t evaluations, rejected;
};

static double now(void *context)
{
    (void)context;
    return mg_clock_seconds();
}

/* ---- control lines ---- */

static void flush_some(struct run *run)
{
    while (run->out_size && !run->broken) {
        ssize_t done = write(STDOUT_FILENO, run->out, run->out_size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno == EAGAIN)
            return;
        if (done <= 0) {
            run->broken = true;
            return;
        }
        run->out_size -= (size_t)done;
        memmove(run->out, run->out + done, run->out_size);
    }
}

static void flush_all(struct run *run)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    fcntl(STDOUT_FILENO, F_SETFL, flags & ~O_NONBLOCK);
    flush_some(run);
}

static void queue(struct run *run, const char *line, size_t size)
{
    if (run->out_size + size > run->out_capacity) {
        size_t capacity = (run->out_size + size) * 2 + OUT_ROOM;
        char *larger = realloc(run->out, capacity);
        if (!larger) {
            run->broken = true;
            return;
        }
        run->out = larger;
        run->out_capacity = capacity;
    }
    memcpy(run->out + run->out_size, line, size);
    run->out_size += size;
}

static void begin_line(struct mg_writer *w, const char *type)
{
    mg_writer_init(w);
    mg_write_begin_object(w);
    mg_write_member_string(w, "t", type);
}

static void end_line(struct run *run, struct mg_writer *w)
{
    mg_write_end_object(w);
    mg_write_text(w, "\n");
    if (!mg_writer_finish(w) || w->size > MG_WORKER_LINE)
        run->broken = true;
    else
        queue(run, w->data, w->size);
    run->said_at = now(NULL);
    mg_writer_release(w);
    flush_some(run);
}

/* At most `most` bytes of a text, cut at a character. */
static void write_cut(struct mg_writer *w, const char *key, const char *text, size_t most)
{
    char cut[800];
    size_t size = strlen(text) < most ? strlen(text) : most;
    while (size && size < strlen(text) && ((unsigned char)text[size] & 0xc0) == 0x80)
        size--;
    snprintf(cut, sizeof cut, "%.*s", (int)size, text);
    mg_write_member_string(w, key, cut);
}

/* ---- points ---- */

static double measured_share(const struct mg_plan *plan)
{
    double shares[MG_PRICE_SOURCES];
    mg_plan_price_shares(plan, shares);
    return shares[MG_PRICE_EXACT] + shares[MG_PRICE_NEAR];
}

/* Does every operator of the plan have a measured price? */
static bool is_measured(const struct mg_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        for (uint32_t k = 0; plan->steps[i].kind == MG_STEP_COMPUTE && k < plan->steps[i].price_count; k++)
            if (plan->prices[plan->refs[plan->steps[i].price + k]].source < MG_PRICE_NEAR)
                return false;
    return true;
}

/* The point's own plan may be gone: what is asked of it was kept when it was spooled. */
static struct mg_front_point as_front_point(const struct mg_point *point, const struct spooled *entry)
{
    struct mg_front_point out = {.latency_s = point->figures.latency_s,
                                 .peak_bytes = point->figures.peak_bytes,
                                 .arena_bytes = point->figures.arena_bytes,
                                 .host_bytes = point->figures.host_bytes,
                                 .techniques = point->techniques,
                                 .measured_share = entry->measured_share};
    memcpy(out.id, point->id, sizeof out.id);
    return out;
}

static struct spooled *find_spooled(const struct run *run, const char *id)
{
    for (size_t i = 0; i < run->spooled_count; i++)
        if (memcmp(run->spooled[i].id, id, 16) == 0)
            return &run->spooled[i];
    return NULL;
}

static struct spooled *new_spooled(struct run *run)
{
    if (run->spooled_count == run->spooled_capacity) {
        size_t capacity = run->spooled_capacity * 2 + 64;
        struct spooled *larger = realloc(run->spooled, capacity * sizeof *larger);
        if (!larger)
            return NULL;
        run->spooled = larger;
        run->spooled_capacity = capacity;
    }
    return &run->spooled[run->spooled_count++];
}

/* Appends the point's plan to the spool unless it is there. */
static struct spooled *spool(struct run *run, const struct mg_point *point)
{
    unsigned char *blob;
    size_t size;
    struct mg_error err;
    struct spooled *entry = find_spooled(run, point->id);
    if (entry || run->broken)
        return entry;
    if (mg_plan_pack(point->plan, &blob, &size, &err) != MG_OK) {
        run->broken = true;
        return NULL;
    }
    entry = new_spooled(run);
    if (entry && mg_write_all(MG_WORKER_SPOOL, blob, size)) {
        *entry = (struct spooled){.offset = run->spool_at,
                                  .length = size,
                                  .crc = crc32(0, blob, (uInt)size),
                                  .measured_share = measured_share(point->plan),
                                  .measured = is_measured(point->plan)};
        memcpy(entry->id, point->id, sizeof entry->id);
        run->spool_at += size;
    } else {
        run->spool_error = entry ? errno : 0;
        run->spooled_count -= entry != NULL;
        run->broken = true;
    }
    free(blob);
    return run->broken ? NULL : entry;
}

static void write_figures(struct mg_writer *w, const struct mg_front_point *point)
{
    char techniques[MG_TECHNIQUES_TEXT];
    mg_answer_techniques(point->techniques, techniques);
    mg_write_member_string(w, "plan", point->id);
    mg_write_member_double(w, "latency_s", point->latency_s);
    mg_write_member_uint(w, "peak_bytes", point->peak_bytes);
    mg_write_member_uint(w, "arena_bytes", point->arena_bytes);
    mg_write_member_uint(w, "host_bytes", point->host_bytes);
    mg_write_member_uint(w, "techniques", point->techniques);
    mg_write_member_double(w, "measured_share", point->measured_share);
}

static void send_point(struct run *run, const char *type, const char *series, const struct mg_front_point *point)
{
    struct mg_writer w;
    struct spooled *entry = find_spooled(run, point->id);
    if (!entry)
        return;
    begin_line(&w, type);
    if (series)
        mg_write_member_string(&w, "series", series);
    write_figures(&w, point);
    mg_write_member_uint(&w, "offset", entry->offset);
    mg_write_member_uint(&w, "length", entry->length);
    mg_write_member_uint(&w, "crc", entry->crc);
    end_line(run, &w);
    entry->sent |= !series;
}

static void publish(struct run *run, bool final)
{
    struct mg_front_point *points = malloc((run->count + 1) * sizeof *points);
    struct mg_writer w;
    if (!points) {
        run->broken = true;
        return;
    }
    if (run->count)
        memcpy(points, run->front, run->count * sizeof *points);
    size_t count = mg_pareto_thin(points, run->count, &run->limits, MG_FRONT_MAX);
    for (size_t i = 0; i < count; i++)
        if (find_spooled(run, points[i].id) && !find_spooled(run, points[i].id)->sent)
            send_point(run, "point", NULL, &points[i]);
    begin_line(&w, "front");
    mg_write_member_bool(&w, "final", final);
    mg_write_key(&w, "ids");
    mg_write_begin_array(&w);
    for (size_t i = 0; i < count; i++)
        mg_write_string(&w, points[i].id);
    mg_write_end_array(&w);
    end_line(run, &w);
    free(points);
    run->changed = false;
    run->published_at = now(NULL);
}

static void publish_if_due(struct run *run, double time)
{
    if (run->changed && run->out_size == 0 && time - run->published_at >= batch_seconds)
        publish(run, false);
}

static void add_to_front(struct run *run, const struct mg_point *point)
{
    const struct spooled *entry = find_spooled(run, point->id);
    if (run->request.require_measured && !(entry ? entry->measured : point->plan && is_measured(point->plan)))
        return; /* a plan that is gone and was not spooled was refused when it was reported */
    if (run->count == run->capacity) {
        size_t capacity = run->capacity * 2 + 64;
        struct mg_front_point *larger = realloc(run->front, capacity * sizeof *larger);
        if (!larger) {
            run->broken = true;
            return;
        }
        run->front = larger;
        run->capacity = capacity;
    }
    entry = spool(run, point);
    if (!entry)
        return;
    run->front[run->count++] = as_front_point(point, entry);
    run->count = mg_pareto_reduce(run->front, run->count);
    run->changed = true;
}

static void set_limits(struct run *run, const struct mg_figures *original)
{
    const struct mg_job_request *q = &run->request;
    run->limits = (struct mg_front_limits){
        .latency_s = q->latency_ratio > 0 ? q->latency_ratio * original->latency_s : q->latency_s,
        .peak_bytes = q->memory_ratio > 0 ? mg_limits_share(q->memory_ratio, original->peak_bytes) : 0,
        .arena_bytes = q->memory_bytes ? q->memory_bytes - q->reserve_bytes : 0,
        .original_latency_s = original->latency_s,
        .original_peak = original->peak_bytes};
}

/* ---- the observer ---- */

/* A search that has found nothing yet has no progress to tell of. */
static void say_alive(struct run *run)
{
    struct mg_writer w;
    begin_line(&w, "alive");
    end_line(run, &w);
}

static bool on_poll(void *context)
{
    struct run *run = context;
    double time = now(NULL);
    flush_some(run);
    publish_if_due(run, time);
    if (run->out_size == 0 && time - run->said_at >= alive_seconds)
        say_alive(run);
    return mg_interrupted() || run->broken;
}

/* The first point that the search reports is the original. */
static void on_plan(void *context, const struct mg_point *point)
{
    struct run *run = context;
    if (run->limits.original_peak == 0) {
        const struct spooled *entry = spool(run, point);
        set_limits(run, &point->figures);
        if (entry) {
            struct mg_front_point original = as_front_point(point, entry);
            send_point(run, "original", NULL, &original);
        }
    }
    add_to_front(run, point);
    publish_if_due(run, now(NULL));
}

static void on_baseline(void *context, const struct mg_baseline_result *baseline)
{
    struct run *run = context;
    struct mg_writer w;
    if (!mg_job_request_wants_baseline(&run->request, baseline->name))
        return;
    for (uint32_t i = 0; i < baseline->point_count; i++) {
        const struct spooled *entry = spool(run, &baseline->points[i]);
        if (!entry)
            continue;
        struct mg_front_point point = as_front_point(&baseline->points[i], entry);
        send_point(run, "point", baseline->name, &point);
    }
    begin_line(&w, "baseline");
    mg_write_member_string(&w, "name", baseline->name);
    mg_write_member_uint(&w, "points", baseline->point_count);
    if (baseline->not_applicable)
        write_cut(&w, "reason", baseline->not_applicable, 700);
    end_line(run, &w);
}

static void on_progress(void *context, const struct mg_progress *progress)
{
    struct run *run = context;
    struct mg_writer w;
    double time = now(NULL);
    run->evaluations = progress->evaluations;
    publish_if_due(run, time);
    flush_some(run);
    if (run->out_size || time - run->progress_at < progress_seconds)
        return; /* the pipe is full, or too soon: this one is dropped */
    run->progress_at = time;
    begin_line(&w, "progress");
    mg_write_member_uint(&w, "evaluations", progress->evaluations);
    mg_write_member_double(&w, "elapsed_s", progress->seconds);
    mg_write_member_double(&w, "fraction", progress->fraction);
    mg_write_member_double(&w, "latency_s", progress->best.latency_s);
    mg_write_member_uint(&w, "peak_bytes", progress->best.peak_bytes);
    end_line(run, &w);
}

static void on_rejected(void *context, const struct mg_plan *plan, const struct mg_verdict *verdict)
{
    struct run *run = context;
    struct mg_writer w;
    (void)plan;
    if (run->rejected++ >= 20)
        return; /* counted in the end line; the log need not repeat it for ever */
    begin_line(&w, "rejected");
    mg_write_member_string(&w, "code", verdict->reason);
    write_cut(&w, "message", verdict->message, 250);
    end_line(run, &w);
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

static void send_end(struct run *run, const struct mg_search_result *result)
{
    static const char *const outcomes[] = {"met", "not_met", "infeasible", "front"};
    static const char *const stops[] = {"evaluations", "seconds", "exhausted", "cancelled"};
    struct mg_writer w;
    begin_line(&w, "end");
    mg_write_member_string(&w, "outcome", outcomes[result->outcome]);
    mg_write_member_string(&w, "stopped_by", stops[result->stopped_by]);
    mg_write_member_uint(&w, "lower_bound_bytes", result->lower_bound_bytes);
    write_cut(&w, "lower_bound_operator", result->lower_bound_op, 200);
    mg_write_member_uint(&w, "evaluations", result->evaluations);
    mg_write_member_uint(&w, "accepted", result->accepted);
    mg_write_member_uint(&w, "rejected", result->rejected);
    mg_write_member_uint(&w, "restored", result->restored);
    mg_write_member_double(&w, "elapsed_s", result->seconds);
    write_prices(&w, result->original.plan);
    end_line(run, &w);
}

static void send_error(struct run *run, const char *code, const struct mg_error *err)
{
    struct mg_writer w;
    begin_line(&w, "error");
    mg_write_member_string(&w, "code", code);
    write_cut(&w, "pointer", err->pointer, 255);
    write_cut(&w, "message", err->message, 511);
    end_line(run, &w);
    flush_all(run);
}

/* Plans that cannot be written to the spool are lost: the job fails, and says of what. */
static void send_spool_error(struct run *run)
{
    struct mg_error err;
    (void)mg_fail(
        &err, MG_ERR_INTERNAL, "",
        "the plans that the search found could not be written to the data directory's spool: %s; free space on "
        "its disk, then retry the job; the plans shown so far are kept",
        strerror(run->spool_error));
    run->broken = false; /* the pipe is not */
    send_error(run, MG_WORKER_NO_SPOOL, &err);
    run->broken = true;
}

/* The result is the authority on the front: the points reported on the way only led to it. */
static void finish(struct run *run, const struct mg_search_result *result)
{
    run->count = 0;
    for (uint32_t i = 0; i < result->front_count; i++)
        add_to_front(run, &result->front[i]);
    if (run->broken)
        return;
    publish(run, true);
    send_end(run, result);
    flush_all(run);
}

/* ---- a job's life in the worker ---- */

/* Plans of an earlier attempt. One that cannot be read is left out: the job goes on without it. */
static void load_starts(struct run *run, const struct mg_worker_head *head, const char *at, const char *end)
{
    const struct mg_plan **starts = MG_NEW_ARRAY(&run->arena, const struct mg_plan *, MG_FRONT_MAX);
    for (uint64_t i = 0; i < head->start_count && i < MG_FRONT_MAX; i++) {
        uint64_t size;
        struct mg_plan *plan;
        struct mg_error ignored;
        if ((size_t)(end - at) < sizeof size)
            break;
        memcpy(&size, at, sizeof size);
        at += sizeof size;
        if (size > (uint64_t)(end - at))
            break;
        if (mg_plan_unpack(at, size, &run->arena, &plan, &ignored) == MG_OK)
            starts[run->options.start_count++] = plan;
        at += size;
    }
    run->options.starts = starts;
}

static enum mg_code load(struct run *run, struct mg_error *err)
{
    size_t size, graph_size;
    char *text;
    struct mg_file file; /* mapped for as long as the process lives */
    struct mg_worker_head head;
    if (!mg_file_map(&file, MG_WORKER_IN) || file.size < sizeof head)
        return mg_fail(err, MG_ERR_INTERNAL, "", "the worker was given no job");
    const char *input = file.data;
    size = file.size;
    memcpy(&head, input, sizeof head);
    if (memcmp(head.magic, "MGWORK1", 8) != 0 || sizeof head + head.request_size + head.graph_size > size)
        return mg_fail(err, MG_ERR_INTERNAL, "", "the worker was given a damaged job");
    const struct mg_request_rules rules = {.detached = true, .max_seconds = 0};
    const char *request = mg_arena_copy(&run->arena, input + sizeof head, head.request_size + 1);
    enum mg_code code = mg_job_request_read(request, head.request_size, &rules, &run->arena, &run->request, err);
    if (code != MG_OK)
        return code;
    if (!mg_unpack(input + sizeof head + head.request_size, head.graph_size, MAX_GRAPH, &text, &graph_size))
        return mg_fail(err, MG_ERR_INTERNAL, "", "the stored graph is damaged");
    /* Training is in the graph already, and the zoo has been asked. */
    run->request.model = NULL;
    run->request.has_training = false;
    run->request.graph = mg_arena_copy(&run->arena, text, graph_size + 1);
    run->request.graph_size = graph_size;
    free(text);
    code = mg_job_request_graph(&run->request, &run->arena, &run->graph, NULL, err);
    mg_job_request_search_options(&run->request, &run->options);
    if (head.seconds > 0)
        run->options.max_seconds = head.seconds;
    if (head.start_count)
        load_starts(run, &head, input + sizeof head + head.request_size + head.graph_size, input + size);
    return code;
}

/* The snapshot at descriptor 5, if there is one. */
static enum mg_code open_pricer(struct run *run, struct mg_error *err)
{
    struct mg_file file;
    const char *use = run->request.timings;
    if (!mg_file_map(&file, MG_WORKER_TIMINGS))
        return MG_OK;
    enum mg_code code = mg_timings_open(file.data, file.size, &run->timings, err);
    if (code != MG_OK)
        return code;
    run->options.pricer = mg_pricer_new(run->options.device, &run->timings,
                                        strcmp(use, "exact") == 0   ? MG_TIMINGS_EXACT
                                        : strcmp(use, "model") == 0 ? MG_TIMINGS_MODEL
                                                                    : MG_TIMINGS_NEAR);
    return run->options.pricer ? MG_OK : mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
}

static enum mg_code load_guarded(void *context, struct mg_error *err)
{
    enum mg_code code = load(context, err);
    return code == MG_OK ? open_pricer(context, err) : code;
}

static void work(struct run *run)
{
    struct mg_error err;
    struct mg_search_result result;
    const struct mg_observer observer = {.context = run,
                                         .now = now,
                                         .cancelled = on_poll,
                                         .progress = on_progress,
                                         .plan = on_plan,
                                         .baseline = on_baseline,
                                         .rejected = on_rejected};
    enum mg_code code = mg_arena_guard(&run->arena, load_guarded, run, &err);
    if (code == MG_OK)
        code = mg_search(run->graph, &run->options, &observer, &run->arena, &result, &err);
    if (code == MG_OK && !run->broken)
        finish(run, &result);
    if (run->spool_error)
        send_spool_error(run);
    else if (code != MG_OK)
        send_error(run, mg_code_name(err.code), &err);
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
    struct run run = {.started = now(NULL)};
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
