/* Times on a device: the operators of a graph or of a list, or all that a profile needs. Rows are JSON objects, one a
 * line, behind a line that says where they come from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure/calibrate.h"
#include "server/file.h"
#include "server/source.h"
#include "server/timing_parse.h"
#include "server/version.h"

struct measure {
    const struct mg_options *options;
    struct mg_source source;
    struct mg_engine *engine;
    struct mg_writer out, class;
    struct mg_file list;
    uint64_t rows, failed;
};

/* The first line: who measured, on what. `magisd timings import` takes the file as it is. */
static enum mg_code write_batch(struct measure *m, struct mg_error *err)
{
    char host[128] = "", agent[200], batch[40];
    double canary = 0;
    mg_writer_init(&m->class);
    mg_engine_write_class(&m->class, m->engine, &mg_time_policy_default);
    enum mg_code code = mg_engine_canary(m->engine, &canary, err);
    if (code != MG_OK && code != MG_ERR_UNSUPPORTED)
        return code;
    if (!mg_writer_finish(&m->class))
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    gethostname(host, sizeof host - 1);
    snprintf(agent, sizeof agent, "%s:measure", host);
    snprintf(batch, sizeof batch, "%lld-%ld", (long long)time(NULL), (long)getpid());
    const struct mg_timing_batch line = {.agent = agent,
                                         .host = host,
                                         .version = MG_VERSION,
                                         .batch = batch,
                                         .class = {.key = m->class.data},
                                         .at = (int64_t)time(NULL) * 1000,
                                         .canary_before_s = canary,
                                         .canary_after_s = canary,
                                         .canary_best_s = canary};
    mg_timing_write_batch(&m->out, &line);
    return MG_OK;
}

static void write_row(struct measure *m, const char *op, const char *signature, enum mg_code code,
                      const struct mg_timing *timing)
{
    const struct mg_timing_row row = {.row = (uint32_t)m->rows,
                                      .op = op,
                                      .signature = signature,
                                      .status = code == MG_OK          ? MG_TIMING_OK
                                                : code == MG_ERR_NOMEM ? MG_TIMING_NOMEM
                                                                       : MG_TIMING_UNSUPPORTED,
                                      .n = timing->n,
                                      .median_s = timing->median_s,
                                      .mad_s = timing->mad_s,
                                      .min_s = timing->min_s,
                                      .workspace = timing->workspace_bytes};
    mg_timing_write_row(&m->out, &row);
}

/* What cannot be measured is a row too: nobody needs to ask again. */
static enum mg_code measure_one(struct measure *m, const char *op, const char *signature, struct mg_error *err)
{
    struct mg_timing timing = {0};
    enum mg_code code = mg_engine_time_signature(m->engine, op, signature, &mg_time_policy_default, &timing, err);
    if (code != MG_OK && code != MG_ERR_UNSUPPORTED && code != MG_ERR_NOMEM)
        return code;
    write_row(m, op, signature, code, &timing);
    m->rows++;
    m->failed += code != MG_OK;
    return MG_OK;
}

/* The distinct operators of a graph. */
static enum mg_code measure_graph(struct measure *m, struct mg_error *err)
{
    struct mg_plan *plan;
    enum mg_code code = mg_plan_original(m->source.graph, &m->source.request.device, &m->source.arena, &plan, err);
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

static enum mg_code measure_list(struct measure *m, struct mg_error *err)
{
    const char *at = m->list.data, *end = at + m->list.size;
    unsigned number = 1;
    enum mg_code code = MG_OK;
    for (; at < end && code == MG_OK; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        if (size > 0)
            code = measure_line(m, at, size, err);
        at += size + 1;
    }
    if (code != MG_OK)
        fprintf(stderr, "magisd measure: line %u\n", number - 1);
    return code;
}

static enum mg_code calibrate(struct measure *m, struct mg_error *err)
{
    struct mg_device device;
    enum mg_code code = mg_engine_calibrate(m->engine, &device, err);
    if (code == MG_OK) {
        mg_device_write(&m->out, &device);
        mg_write_text(&m->out, "\n");
    }
    return code;
}

static int measure(void *context)
{
    struct measure *m = context;
    struct mg_error err;
    bool profile = mg_options_flag(m->options, MG_OPTION_CALIBRATE);
    const char *output = m->options->value[MG_OPTION_OUTPUT];
    enum mg_code code = profile ? calibrate(m, &err) : write_batch(m, &err);
    if (code == MG_OK && !profile)
        code = m->list.data ? measure_list(m, &err) : measure_graph(m, &err);
    if (code != MG_OK)
        return mg_source_complain("measure", &err);
    if (!mg_writer_finish(&m->out) || !mg_file_write(output ? output : "-", m->out.data, m->out.size))
        return MG_EXIT_FAILED;
    if (!profile)
        fprintf(stderr, "%llu operators measured on %s, %llu of them cannot be\n", (unsigned long long)m->rows,
                mg_engine_properties(m->engine)->device, (unsigned long long)m->failed);
    return MG_EXIT_DONE;
}

/* One thing to measure: a source, a list, or the device itself. */
static bool arguments_fit(const struct mg_options *options)
{
    bool calibrate = mg_options_flag(options, MG_OPTION_CALIBRATE), list = options->value[MG_OPTION_FROM] != NULL;
    if (options->argument_count + calibrate + list == 1 && options->value[MG_OPTION_DEVICE])
        return true;
    fprintf(stderr, "usage: magisd measure SOURCE | --from FILE | --calibrate  --device cpu|cuda:0 [-o FILE]\n");
    return false;
}

static int measure_all(struct measure *m)
{
    const struct mg_options *options = m->options;
    const char *list = options->value[MG_OPTION_FROM];
    struct mg_error err;
    if (!arguments_fit(options) || (list && !mg_file_open(&m->list, list)))
        return MG_EXIT_USAGE;
    int code = MG_EXIT_DONE;
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
    struct measure m = {.options = &options};
    int code;
    mg_writer_init(&m.out);
    if (mg_options_parse(&options, MG_COMMAND_MEASURE, argc, argv, &code))
        code = measure_all(&m);
    mg_engine_close(m.engine);
    mg_writer_release(&m.out);
    mg_writer_release(&m.class);
    mg_source_release(&m.source);
    mg_file_close(&m.list);
    mg_options_release(&options);
    return code;
}
