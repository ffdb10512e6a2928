/* Times on a device: the operators of a graph or of a list, or all that a profile needs. Rows are JSON objects, one a
 * line, behind a line that says where they come from; each is written as soon as it is measured. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure/calibrate.h"
#include "server/clock.h"
#include "server/file.h"
#include "server/interrupt.h"
#include "server/measure_file.h"
#include "server/source.h"
#include "server/timing_parse.h"
#include "server/version.h"

static const double SAY_S = 10, SAY_LIVE_S = 0.2; /* between two words on the progress */

struct measure {
    const struct mg_options *options;
    struct mg_source source;
    struct mg_engine *engine;
    struct mg_writer profile, class;
    struct mg_measure_file out;
    struct mg_file list;
    uint64_t rows, failed, known, total; /* known: the file had them before */
    double start, until, said;           /* until: 0, no end */
    bool live;                           /* stderr is a terminal */
};

static const char *output_of(const struct measure *m)
{
    const char *output = m->options->value[MG_OPTION_OUTPUT];
    return output ? output : "-";
}

static bool is_over(const struct measure *m)
{
    return mg_interrupted() || (m->until > 0 && mg_clock_seconds() >= m->until);
}

/* ---- what is written ---- */

static enum mg_code find_class(struct measure *m, struct mg_error *err)
{
    mg_writer_init(&m->class);
    mg_engine_write_class(&m->class, m->engine, &mg_time_policy_default);
    return mg_writer_finish(&m->class) ? MG_OK : mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
}

static enum mg_code add_lines(struct measure *m, struct mg_writer *lines, struct mg_error *err)
{
    return mg_measure_file_add(&m->out, lines) ? MG_OK : mg_fail(err, MG_ERR_INTERNAL, "", "nothing more is measured");
}

/* The first line: who measured, on what. `magisd timings import` takes the file as it is. */
static enum mg_code write_batch(struct measure *m, struct mg_error *err)
{
    char host[128] = "", agent[200], batch[40];
    struct mg_writer line;
    double canary = 0;
    enum mg_code code = mg_engine_canary(m->engine, &canary, err);
    if (code != MG_OK && code != MG_ERR_UNSUPPORTED)
        return code;
    gethostname(host, sizeof host - 1);
    snprintf(agent, sizeof agent, "%s:measure", host);
    snprintf(batch, sizeof batch, "%lld-%ld", (long long)time(NULL), (long)getpid());
    mg_writer_init(&line);
    mg_timing_write_batch(&line, &(struct mg_timing_batch){.agent = agent,
                                                           .host = host,
                                                           .version = MG_VERSION,
                                                           .batch = batch,
                                                           .class = {.key = m->class.data},
                                                           .at = (int64_t)time(NULL) * 1000,
                                                           .canary_before_s = canary,
                                                           .canary_after_s = canary,
                                                           .canary_best_s = canary});
    return add_lines(m, &line, err);
}

static enum mg_code write_row(struct measure *m, const char *op, const char *signature, enum mg_timing_status status,
                              const struct mg_timing *timing, struct mg_error *err)
{
    struct mg_writer line;
    mg_writer_init(&line);
    mg_timing_write_row(&line, &(struct mg_timing_row){.row = (uint32_t)m->rows,
                                                       .op = op,
                                                       .signature = signature,
                                                       .status = status,
                                                       .n = timing->n,
                                                       .median_s = timing->median_s,
                                                       .mad_s = timing->mad_s,
                                                       .min_s = timing->min_s,
                                                       .workspace = timing->workspace_bytes,
                                                       .clock_mhz = timing->clock_mhz,
                                                       .throttled = timing->throttled});
    return add_lines(m, &line, err);
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
    fprintf(stderr, "\n");
}

/* ---- measuring ---- */

/* What cannot be measured is a row too: nobody needs to ask again. */
static enum mg_code measure_one(struct measure *m, const char *op, const char *signature, struct mg_error *err)
{
    struct mg_timing timing = {0};
    if (is_over(m))
        return MG_OK;
    if (mg_measure_file_knows(&m->out, op, signature)) {
        m->known++;
        return MG_OK;
    }
    enum mg_code code = mg_engine_time_signature(m->engine, op, signature, &mg_time_policy_default, &timing, err);
    enum mg_timing_status status;
    if (!mg_timing_status_of(code, &status))
        return code;
    bool failed = code != MG_OK;
    code = write_row(m, op, signature, status, &timing, err);
    m->rows++;
    m->failed += failed;
    say_progress(m);
    return code;
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

static int calibrate(struct measure *m)
{
    struct mg_device device;
    struct mg_error err;
    if (mg_engine_calibrate(m->engine, &device, &err) != MG_OK)
        return mg_source_complain("measure", &err);
    mg_device_write(&m->profile, &device);
    mg_write_text(&m->profile, "\n");
    bool good = mg_writer_finish(&m->profile) && mg_file_write(output_of(m), m->profile.data, m->profile.size);
    return good ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

static int measure(void *context)
{
    struct measure *m = context;
    struct mg_error err;
    if (mg_options_flag(m->options, MG_OPTION_CALIBRATE))
        return calibrate(m);
    enum mg_code code = find_class(m, &err);
    if (code == MG_OK && !mg_measure_file_open(&m->out, output_of(m), m->class.data, &m->source.arena))
        return MG_EXIT_USAGE;
    if (code == MG_OK)
        code = write_batch(m, &err);
    if (code == MG_OK)
        code = m->list.data ? measure_list(m, &err) : measure_graph(m, &err);
    if (code != MG_OK)
        return mg_source_complain("measure", &err);
    say_end(m);
    return mg_interrupted() ? MG_EXIT_INTERRUPTED : MG_EXIT_DONE;
}

/* ---- the command ---- */

/* One thing to measure: a source, a list, or the device itself. */
static bool arguments_fit(const struct mg_options *options)
{
    bool calibrate = mg_options_flag(options, MG_OPTION_CALIBRATE), list = options->value[MG_OPTION_FROM] != NULL;
    if (options->argument_count + calibrate + list == 1 && options->value[MG_OPTION_DEVICE])
        return true;
    fprintf(stderr, "usage: magisd measure SOURCE | --from FILE | --calibrate  --device cpu|cuda:0 [-o FILE]\n");
    return false;
}

static void begin(struct measure *m)
{
    double seconds = mg_options_number(m->options, MG_OPTION_AGENT_SECONDS, 0);
    mg_interrupt_catch(SIGINT, true);
    mg_interrupt_catch(SIGTERM, true);
    m->live = isatty(STDERR_FILENO) == 1;
    m->start = m->said = mg_clock_seconds();
    m->until = seconds > 0 ? m->start + seconds : 0;
}

static int measure_all(struct measure *m)
{
    const struct mg_options *options = m->options;
    const char *list = options->value[MG_OPTION_FROM];
    struct mg_error err;
    if (!arguments_fit(options) || (list && !mg_file_open(&m->list, list)))
        return MG_EXIT_USAGE;
    int code = MG_EXIT_DONE;
    begin(m);
    if (options->argument_count)
        code = mg_source_open(&m->source, options, options->argument[0]);
    else
        mg_arena_init(&m->source.arena, SIZE_MAX);
    if (code == MG_EXIT_DONE && mg_engine_open(options->value[MG_OPTION_DEVICE], &m->engine, &err) != MG_OK)
        code = mg_source_complain("measure", &err);
    if (code == MG_EXIT_DONE)
        code = mg_source_guard(&m->source.arena, measure, m);
    return code;
}

int mg_cmd_measure(int argc, char **argv)
{
    struct mg_options options;
    struct measure m = {.options = &options, .out = {.fd = -1}};
    int code;
    mg_writer_init(&m.profile);
    if (mg_options_parse(&options, MG_COMMAND_MEASURE, argc, argv, &code))
        code = measure_all(&m);
    mg_engine_close(m.engine);
    mg_measure_file_close(&m.out);
    mg_writer_release(&m.profile);
    mg_writer_release(&m.class);
    mg_source_release(&m.source);
    mg_file_close(&m.list);
    mg_options_release(&options);
    return code;
}
