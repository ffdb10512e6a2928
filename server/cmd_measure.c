/* Times on a device: the operators of a graph, of a plan or of a list, a plan as a whole, or all that a profile needs.
 * Rows are JSON objects, one a line, behind a line that says where they come from; they are measured in batches
 * (batch.h) of some seconds, each of which is written when it ends, to a file (measure_file.h) or to a daemon
 * (measure_post.h). */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure/calibrate.h"
#include "server/batch.h"
#include "server/clock.h"
#include "server/device_lock.h"
#include "server/device_run.h"
#include "server/file.h"
#include "server/fill.h"
#include "server/interrupt.h"
#include "server/measure_file.h"
#include "server/measure_post.h"
#include "server/source.h"
#include "server/version.h"

static const double SAY_S = 10, SAY_LIVE_S = 0.2, /* between two words on the progress */
    BATCH_S = 5;                                  /* what is lost where we are killed */

struct measure {
    const struct mg_options *options;
    struct mg_source source;
    struct mg_engine *engine;
    struct mg_writer profile, class;
    char host[128], agent[201];
    struct mg_canary canary;
    struct mg_batch batch;
    struct mg_measure_file out;
    struct mg_measure_post post;
    struct mg_file list, plan_file;
    struct mg_plan *plan;                /* NULL: the graph as it is */
    int lock;                            /* of the device; -1: not ours */
    uint64_t rows, failed, known, total; /* known: the file had them before */
    uint64_t doubtful;                   /* rows of batches that others disturbed */
    double start, until, said;           /* until: 0, no end */
    bool live;                           /* stderr is a terminal */
};

static const char *output_of(const struct measure *m)
{
    const char *output = m->options->value[MG_OPTION_OUTPUT];
    return output ? output : "-";
}

/* Of a plan alone the comparison may be all that is wanted. */
static bool to_file(const struct measure *m)
{
    return m->options->value[MG_OPTION_OUTPUT] || (!m->post.server && !m->plan);
}

static bool wants_rows(const struct measure *m)
{
    return to_file(m) || m->post.server;
}

static bool is_over(const struct measure *m)
{
    return mg_interrupted() || (m->until > 0 && mg_clock_seconds() >= m->until);
}

static bool must_stop(void *context)
{
    return is_over(context);
}

/* ---- what is written ---- */

static enum mg_code find_class(struct measure *m, struct mg_error *err)
{
    mg_writer_init(&m->class);
    mg_engine_write_class(&m->class, m->engine, &mg_time_policy_default);
    return mg_writer_finish(&m->class) ? MG_OK : mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
}

static struct mg_timing_batch head_of(const struct measure *m)
{
    return (struct mg_timing_batch){.agent = m->agent,
                                    .host = m->host,
                                    .version = MG_VERSION,
                                    .class = {.key = m->class.data},
                                    .at = (int64_t)time(NULL) * 1000};
}

/* Whether the daemon takes what comes. */
static enum mg_code ask_daemon(struct measure *m, struct mg_error *err)
{
    struct mg_timing_batch head = head_of(m);
    char name[40];
    struct mg_writer line;
    if (!m->post.server)
        return MG_OK;
    snprintf(name, sizeof name, "%lld-%ld", (long long)time(NULL), (long)getpid());
    head.batch = name;
    mg_writer_init(&line);
    mg_timing_write_batch(&line, &head);
    bool good = mg_writer_finish(&line) && mg_measure_post_ask(&m->post, line.data, line.size);
    mg_writer_release(&line);
    return good ? MG_OK : mg_fail(err, MG_ERR_INTERNAL, "", "nothing is measured");
}

static enum mg_code begin_batch(struct measure *m, struct mg_error *err)
{
    m->batch.head = head_of(m);
    return mg_batch_begin(&m->batch, &m->canary, m->engine)
               ? MG_OK
               : mg_fail(err, MG_ERR_INTERNAL, "", "the device fails, nothing more is measured");
}

/* `magisd timings import` takes the lines as they are. */
static bool write_batch(struct measure *m)
{
    struct mg_writer lines;
    mg_writer_init(&lines);
    mg_batch_write(&m->batch, &lines);
    bool good = mg_writer_finish(&lines) && (!to_file(m) || mg_measure_file_add(&m->out, lines.data, lines.size)) &&
                (!m->post.server || mg_measure_post_add(&m->post, lines.data, lines.size, m->batch.count));
    mg_writer_release(&lines);
    return good;
}

/* Where there is one. A batch that others disturbed says so: what is in it waits until somebody agrees. */
static enum mg_code end_batch(struct measure *m, struct mg_error *err)
{
    if (!m->batch.open)
        return MG_OK;
    bool good = mg_batch_end(&m->batch, &m->canary, m->engine);
    m->batch.head.busy = m->batch.head.busy || !good;
    m->doubtful += m->batch.head.busy || m->batch.slow ? m->batch.count : 0;
    good = (m->batch.count == 0 || write_batch(m)) && good;
    mg_batch_release(&m->batch);
    return good ? MG_OK : mg_fail(err, MG_ERR_INTERNAL, "", "nothing more is measured");
}

/* After the last row, or an error, which is told rather than another. */
static enum mg_code end_rows(struct measure *m, enum mg_code code, struct mg_error *err)
{
    struct mg_error other;
    enum mg_code ended = end_batch(m, code == MG_OK ? err : &other);
    return code == MG_OK ? ended : code;
}

/* ---- what is said meanwhile ---- */

static void say_progress(struct measure *m)
{
    double now = mg_clock_seconds(), spent = now - m->start;
    uint64_t left = m->total - m->known - m->rows;
    if (now - m->said < (m->live ? SAY_LIVE_S : SAY_S))
        return;
    m->said = now;
    fprintf(stderr, "%s%llu of %llu operators measured in %.0f s, about %.0f s to go%s", m->live ? "\r" : "",
            (unsigned long long)m->rows, (unsigned long long)(m->total - m->known), spent,
            m->rows ? spent / (double)m->rows * (double)left : 0, m->live ? "   " : "\n");
}

static void say_end(const struct measure *m)
{
    uint64_t left = m->total - m->known - m->rows;
    fprintf(stderr, "%s%llu operators measured on %s, %llu of them cannot be", m->live ? "\n" : "",
            (unsigned long long)m->rows, mg_engine_properties(m->engine)->device, (unsigned long long)m->failed);
    if (m->known)
        fprintf(stderr, "; %llu were measured before", (unsigned long long)m->known);
    if (left)
        fprintf(stderr, "; %llu are left%s", (unsigned long long)left,
                m->out.fd > STDERR_FILENO ? ", the same command goes on with them" : "");
    if (m->doubtful)
        fprintf(
            stderr,
            "; %llu were measured while others used the device or its clock changed, and wait until somebody agrees",
            (unsigned long long)m->doubtful);
    fprintf(stderr, "\n");
}

/* ---- measuring ---- */

/* What cannot be measured is a row too: nobody needs to ask again. */
static enum mg_code measure_one(struct measure *m, const char *op, const char *signature, struct mg_error *err)
{
    enum mg_timing_status status;
    if (is_over(m))
        return MG_OK;
    if (mg_measure_file_knows(&m->out, op, signature)) {
        m->known++;
        return MG_OK;
    }
    enum mg_code code = m->batch.open ? MG_OK : begin_batch(m, err);
    if (code != MG_OK)
        return code;
    if (!mg_batch_time(&m->batch, &m->canary, &m->engine, op, signature, &status))
        return mg_fail(err, MG_ERR_INTERNAL, "", "the device fails, nothing more is measured");
    m->rows++;
    m->failed += status != MG_TIMING_OK;
    say_progress(m);
    bool full = m->batch.count >= MG_BATCH_MAX || mg_measure_clock() - m->batch.begun_at >= BATCH_S;
    return full ? end_batch(m, err) : MG_OK;
}

/* The distinct operators of a graph. */
static enum mg_code measure_graph(struct measure *m, struct mg_error *err)
{
    struct mg_plan *plan;
    enum mg_code code = mg_plan_original(m->source.graph, &m->source.request.device, &m->source.arena, &plan, err);
    m->total = code == MG_OK ? plan->price_count : 0;
    for (size_t i = 0; code == MG_OK && i < plan->price_count; i++)
        code = measure_one(m, plan->prices[i].name, plan->prices[i].signature, err);
    return code;
}

/* ---- a plan ---- */

/* The distinct operators of its steps, whole and in parts; copies are no operators. */
static enum mg_code measure_steps(struct measure *m, struct mg_error *err)
{
    const struct mg_plan *plan = m->plan;
    bool *wanted = MG_NEW_ARRAY(&m->source.arena, bool, plan->price_count);
    enum mg_code code = MG_OK;
    for (size_t i = 0; i < plan->step_count; i++)
        for (uint32_t k = 0; plan->steps[i].kind == MG_STEP_COMPUTE && k < plan->steps[i].price_count; k++)
            wanted[plan->refs[plan->steps[i].price + k]] = true;
    for (size_t i = 0; i < plan->price_count; i++)
        m->total += wanted[i];
    for (size_t i = 0; code == MG_OK && i < plan->price_count; i++)
        if (wanted[i])
            code = measure_one(m, plan->prices[i].name, plan->prices[i].signature, err);
    return code;
}

static void go_on(void *context)
{
    (void)context;
}

/* As a whole: what it took, beside what was predicted. */
static enum mg_code execute(struct measure *m, struct mg_error *err)
{
    const struct mg_graph *g = m->source.graph;
    struct mg_arena *arena = &m->source.arena;
    const struct mg_device_watch watch = {
        .stop = must_stop, .between = go_on, .context = m, .operators_until = m->until > 0 ? m->until : INFINITY};
    double **given = mg_fill_values(g, &m->source.model, MG_FILL_SPREAD, 1, arena);
    double **results = MG_NEW_ARRAY(arena, double *, g->value_count);
    struct mg_device_run run;
    enum mg_code code = mg_device_run(m->engine, g, m->plan, 1, &watch, given, results, arena, &run, err);
    if (code == MG_OK)
        mg_device_run_print(m->out.fd == STDOUT_FILENO ? stderr : stdout, "plan", &run, m->plan);
    return code == MG_ERR_CANCELLED ? MG_OK : code;
}

static enum mg_code measure_plan(struct measure *m, struct mg_error *err)
{
    enum mg_code code = wants_rows(m) ? end_rows(m, measure_steps(m, err), err) : MG_OK;
    return code == MG_OK && !is_over(m) ? execute(m, err) : code;
}

/* ---- a list ---- */

/* {"op": ..., "signature": ..., anything else}: members that are not known are left alone. */
static enum mg_code measure_line(struct measure *m, const char *line, size_t size, struct mg_error *err)
{
    struct mg_json json;
    const char *key, *op = NULL, *signature = NULL;
    mg_json_init(&json, &m->source.arena, line, size);
    if (mg_json_enter_object(&json))
        while (mg_json_next_member(&json, &key)) {
            if (strcmp(key, "op") == 0)
                mg_json_string(&json, &op, NULL);
            else if (strcmp(key, "signature") == 0)
                mg_json_string(&json, &signature, NULL);
            else
                mg_json_skip(&json, NULL, NULL);
        }
    if (json.err.code || !mg_json_finish(&json))
        return mg_fail(err, json.err.code ? json.err.code : MG_ERR_SYNTAX, json.err.pointer, "%s", json.err.message);
    if (!op || !signature)
        return mg_fail(err, MG_ERR_INVALID, "", "a line needs op and signature");
    return measure_one(m, op, signature, err);
}

/* The next line of the list; false at its end. */
static bool next_line(const struct measure *m, const char **at, size_t *size)
{
    const char *end = m->list.data + m->list.size, *start = *at ? *at + *size + 1 : m->list.data;
    if (start >= end)
        return false;
    const char *stop = memchr(start, '\n', (size_t)(end - start));
    *at = start;
    *size = (size_t)((stop ? stop : end) - start);
    return true;
}

static enum mg_code measure_list(struct measure *m, struct mg_error *err)
{
    const char *line = NULL;
    size_t size = 0;
    unsigned number = 0;
    enum mg_code code = MG_OK;
    while (next_line(m, &line, &size))
        m->total += size > 0;
    line = NULL;
    while (code == MG_OK && next_line(m, &line, &size)) {
        number++;
        if (size > 0)
            code = measure_line(m, line, size, err);
    }
    if (code != MG_OK)
        fprintf(stderr, "magisd measure: line %u\n", number);
    return code;
}

static int complain_early(const struct measure *m, const char *why)
{
    if (mg_interrupted())
        return MG_EXIT_INTERRUPTED;
    fprintf(stderr, "magisd measure: nothing was measured on %s: %s, and the time is over\n",
            mg_engine_properties(m->engine)->device, why);
    return MG_EXIT_FAILED;
}

static int calibrate(struct measure *m)
{
    struct mg_device device;
    struct mg_error err;
    enum mg_code code = mg_engine_calibrate(m->engine, must_stop, m, &device, &err);
    if (code == MG_ERR_CANCELLED)
        return complain_early(m, "fitting a profile takes longer");
    if (code != MG_OK)
        return mg_source_complain("measure", &err);
    mg_device_write(&m->profile, &device);
    mg_write_text(&m->profile, "\n");
    bool good = mg_writer_finish(&m->profile) && mg_file_write(output_of(m), m->profile.data, m->profile.size);
    return good ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

static enum mg_code read_plan(struct measure *m, struct mg_error *err)
{
    return m->plan_file.data
               ? mg_plan_read(m->source.graph, m->plan_file.data, m->plan_file.size, &m->source.arena, &m->plan, err)
               : MG_OK;
}

static enum mg_code measure_what(struct measure *m, struct mg_error *err)
{
    enum mg_code code = ask_daemon(m, err);
    if (code != MG_OK)
        return code;
    return m->plan ? measure_plan(m, err)
                   : end_rows(m, m->list.data ? measure_list(m, err) : measure_graph(m, err), err);
}

static int measure(void *context)
{
    struct measure *m = context;
    struct mg_error err;
    if (read_plan(m, &err) != MG_OK)
        return mg_source_complain_plan(&m->source, m->options->value[MG_OPTION_PLAN], m->plan_file.data,
                                       m->plan_file.size, &err);
    if (mg_device_lock_wait("magisd measure", m->options->value[MG_OPTION_LOCK_DIR], mg_engine_properties(m->engine),
                            must_stop, m, &m->lock) == MG_LOCK_REFUSED)
        return MG_EXIT_FAILED;
    if (m->lock < 0)
        return complain_early(m, "another process measures there");
    if (mg_options_flag(m->options, MG_OPTION_CALIBRATE))
        return calibrate(m);
    enum mg_code code = find_class(m, &err);
    if (code == MG_OK && to_file(m) && !mg_measure_file_open(&m->out, output_of(m), m->class.data, &m->source.arena))
        return MG_EXIT_USAGE;
    if (code == MG_OK)
        code = measure_what(m, &err);
    bool taken = mg_measure_post_end(&m->post);
    if (code != MG_OK)
        return mg_source_complain("measure", &err);
    if (wants_rows(m))
        say_end(m);
    return mg_interrupted() ? MG_EXIT_INTERRUPTED : taken ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

/* ---- the command ---- */

/* One thing to measure: a source, perhaps with a plan of it, a list, or the device itself. */
static bool arguments_fit(const struct mg_options *options)
{
    const char *name = options->value[MG_OPTION_AGENT_NAME];
    bool calibrate = mg_options_flag(options, MG_OPTION_CALIBRATE), list = options->value[MG_OPTION_FROM] != NULL,
         plan = options->value[MG_OPTION_PLAN] != NULL,
         kept = options->value[MG_OPTION_DATA] || options->value[MG_OPTION_SERVER];
    if (options->argument_count + calibrate + list == 1 && options->value[MG_OPTION_DEVICE] &&
        (!plan || options->argument_count) && !(calibrate && kept) && (!name || mg_timing_is_name(name)))
        return true;
    if (name && !mg_timing_is_name(name))
        fprintf(stderr, "magisd measure: --name: %s\n", MG_TIMING_NAME_RULE);
    fprintf(stderr,
            "usage: magisd measure SOURCE [--plan FILE] | --from FILE  --device cpu|cuda:0 [--max-seconds S] [-o FILE] "
            "[--data DIR | --server URL] [--name NAME]\n"
            "       magisd measure --calibrate  --device cpu|cuda:0 [-o FILE]\n");
    return false;
}

static void begin(struct measure *m)
{
    double seconds = mg_options_number(m->options, MG_OPTION_AGENT_SECONDS, 0);
    mg_interrupt_catch(SIGINT, true);
    mg_interrupt_catch(SIGTERM, true);
    gethostname(m->host, sizeof m->host - 1);
    m->canary.device = m->options->value[MG_OPTION_DEVICE];
    if (m->options->value[MG_OPTION_AGENT_NAME])
        snprintf(m->agent, sizeof m->agent, "%s", m->options->value[MG_OPTION_AGENT_NAME]);
    else
        snprintf(m->agent, sizeof m->agent, "%s:measure", m->host);
    m->live = isatty(STDERR_FILENO) == 1;
    m->start = m->said = mg_clock_seconds();
    m->until = seconds > 0 ? m->start + seconds : 0;
}

static int measure_all(struct measure *m)
{
    const struct mg_options *options = m->options;
    const char *list = options->value[MG_OPTION_FROM], *plan = options->value[MG_OPTION_PLAN];
    struct mg_error err;
    if (!arguments_fit(options) || (list && !mg_file_open(&m->list, list)) ||
        (plan && !mg_file_open(&m->plan_file, plan)))
        return MG_EXIT_USAGE;
    int code = MG_EXIT_DONE;
    m->source.keep_contents = plan != NULL;
    begin(m);
    if (options->argument_count)
        code = mg_source_open(&m->source, options, options->argument[0]);
    else
        mg_arena_init(&m->source.arena, SIZE_MAX);
    if (code == MG_EXIT_DONE && mg_engine_open(options->value[MG_OPTION_DEVICE], &m->engine, &err) != MG_OK)
        code = mg_source_complain("measure", &err);
    if (code == MG_EXIT_DONE && !mg_measure_post_open(&m->post, options))
        code = MG_EXIT_USAGE;
    if (code == MG_EXIT_DONE)
        code = mg_source_guard(&m->source.arena, measure, m);
    return code;
}

int mg_cmd_measure(int argc, char **argv)
{
    struct mg_options options;
    struct measure m = {
        .options = &options, .out = {.fd = -1}, .lock = -1, .canary = {.who = "magisd measure: the device"}};
    int code;
    mg_writer_init(&m.profile);
    if (mg_options_parse(&options, MG_COMMAND_MEASURE, argc, argv, &code))
        code = measure_all(&m);
    mg_batch_release(&m.batch);
    mg_engine_close(m.engine);
    mg_measure_file_close(&m.out);
    mg_measure_post_release(&m.post);
    if (m.lock >= 0)
        close(m.lock);
    mg_writer_release(&m.profile);
    mg_writer_release(&m.class);
    mg_source_release(&m.source);
    mg_file_close(&m.list);
    mg_file_close(&m.plan_file);
    mg_options_release(&options);
    return code;
}
