/* A graph, and a plan of it, on real numbers: in the reference executor, or on a device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "exec/exec.h"
#include "server/answer.h"
#include "server/clock.h"
#include "server/device_lock.h"
#include "server/device_run.h"
#include "server/fill.h"
#include "server/source.h"

enum { HEAD = 8 };

struct run {
    const struct mg_options *options;
    struct mg_source source;
    struct mg_file plan_file;
    struct mg_plan *plan; /* NULL: the graph alone */
    enum mg_fill fill;
    uint64_t seed;
    double **values, **results; /* by value: of the graph, of the plan */
    double seconds, plan_seconds;
    const char *device; /* NULL: the reference executor */
    int lock;           /* of the device; -1: none */
    struct mg_device_run measured, plan_measured;
};

/* ---- results ---- */

struct summary {
    double sum, l2, min, max;
    int64_t nan, count;
};

static struct summary summarize(const double *data, int64_t count)
{
    struct summary s = {.min = INFINITY, .max = -INFINITY, .count = count};
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(data[i])) {
            s.nan++;
            continue;
        }
        s.sum += data[i];
        squares += data[i] * data[i];
        s.min = data[i] < s.min ? data[i] : s.min;
        s.max = data[i] > s.max ? data[i] : s.max;
    }
    s.l2 = sqrt(squares);
    return s;
}

/* The largest |a - b| / max(1, |a|); not a number on one side only: infinite. */
static double error_of(const double *a, const double *b, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs(a[i] - b[i]) / (fabs(a[i]) > 1 ? fabs(a[i]) : 1);
        if (isnan(a[i]) && isnan(b[i]))
            continue;
        if (a[i] == b[i])
            continue;
        worst = difference > worst || isnan(difference) ? (isnan(difference) ? INFINITY : difference) : worst;
    }
    return worst;
}

static bool is_result(const struct mg_value_info *value)
{
    return value->is_output || value->update_of != MG_NONE;
}

/* Where the plan's value of a result lies: updates end in the weight that they renew. */
static const double *plan_result(const struct run *r, size_t v)
{
    const struct mg_value_info *value = &r->source.graph->values[v];
    if (r->results[v])
        return r->results[v];
    return value->update_of != MG_NONE ? r->results[value->update_of] : NULL;
}

static double worst_error(const struct run *r, size_t v)
{
    const double *planned = plan_result(r, v);
    int64_t count = mg_shape_elements(&r->source.graph->values[v].shape);
    return planned ? error_of(r->values[v], planned, count) : INFINITY;
}

static void write_output(struct mg_writer *w, const struct run *r, size_t v)
{
    const struct mg_value_info *value = &r->source.graph->values[v];
    struct summary s = summarize(r->values[v], mg_shape_elements(&value->shape));
    mg_write_key(w, value->name);
    mg_write_begin_object(w);
    mg_write_key(w, "dims");
    mg_write_begin_array(w);
    for (uint32_t d = 0; d < value->shape.rank; d++)
        mg_write_int(w, value->shape.dim[d]);
    mg_write_end_array(w);
    mg_write_member_double(w, "sum", s.sum);
    mg_write_member_double(w, "l2", s.l2);
    mg_write_member_double(w, "min", s.min);
    mg_write_member_double(w, "max", s.max);
    mg_write_member_int(w, "nan", s.nan);
    mg_write_key(w, "head");
    mg_write_begin_array(w);
    for (int64_t i = 0; i < s.count && i < HEAD; i++)
        mg_write_double(w, r->values[v][i]);
    mg_write_end_array(w);
    if (r->plan)
        mg_write_member_double(w, "error", worst_error(r, v));
    mg_write_end_object(w);
}

/* What was measured on a device beside what the plan states. */
static void write_measured(struct mg_writer *w, const struct mg_device_run *run)
{
    mg_write_member_uint(w, "runs", run->timing.n);
    mg_write_member_double(w, "mad_s", run->timing.mad_s);
    mg_write_member_uint(w, "arena_bytes", run->facts.arena_bytes);
    mg_write_member_uint(w, "host_bytes", run->facts.host_bytes);
    mg_write_member_double(w, "sum_of_operators_s", run->predicted_s);
}

static void write_figures(struct mg_writer *w, const char *key, double seconds, const struct mg_plan *plan,
                          const struct mg_device_run *measured)
{
    mg_write_key(w, key);
    mg_write_begin_object(w);
    mg_write_member_double(w, "latency_s", seconds);
    mg_write_member_uint(w, "peak_bytes", measured ? measured->facts.peak_bytes : plan->figures.arena_bytes);
    if (measured)
        write_measured(w, measured);
    mg_write_key(w, "predicted");
    mg_write_begin_object(w);
    mg_write_member_double(w, "latency_s", plan->figures.latency_s);
    mg_write_member_uint(w, "peak_bytes", plan->figures.peak_bytes);
    mg_write_member_uint(w, "arena_bytes", plan->figures.arena_bytes);
    mg_write_end_object(w);
    mg_write_end_object(w);
}

static int print_json(const struct run *r, const struct mg_plan *original)
{
    const struct mg_graph *g = r->source.graph;
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, "graph", g->name);
    mg_write_member_string(&w, "digest", g->digest);
    mg_write_member_string(&w, "device", r->device ? r->device : "reference");
    write_figures(&w, "original", r->seconds, original, r->device ? &r->measured : NULL);
    if (r->plan)
        write_figures(&w, "plan", r->plan_seconds, r->plan, r->device ? &r->plan_measured : NULL);
    mg_write_key(&w, "outputs");
    mg_write_begin_object(&w);
    for (size_t v = 0; v < g->value_count; v++)
        if (is_result(&g->values[v]))
            write_output(&w, r, v);
    mg_write_end_object(&w);
    mg_write_end_object(&w);
    bool good = mg_writer_finish(&w) && puts(w.data) >= 0;
    mg_writer_release(&w);
    return good ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

static void print_times(const struct run *r, const struct mg_plan *original)
{
    char name[256];
    mg_answer_visible(r->source.graph->name, name, sizeof name);
    if (r->device) {
        printf("%s on %s\n", name, r->device);
        mg_device_run_print(stdout, "original", &r->measured, original);
        if (r->plan)
            mg_device_run_print(stdout, "plan", &r->plan_measured, r->plan);
        return;
    }
    printf("%s: %.3f s in the reference executor, arena %llu bytes\n", name, r->seconds,
           (unsigned long long)original->figures.arena_bytes);
    if (r->plan)
        printf("plan: %.3f s, arena %llu bytes; predicted %.6f s and %llu bytes on %s\n", r->plan_seconds,
               (unsigned long long)r->plan->figures.arena_bytes, r->plan->figures.latency_s,
               (unsigned long long)r->plan->figures.peak_bytes, r->plan->device.name);
}

static void print_table(const struct run *r, const struct mg_plan *original)
{
    const struct mg_graph *g = r->source.graph;
    print_times(r, original);
    for (size_t v = 0; v < g->value_count; v++) {
        if (!is_result(&g->values[v]))
            continue;
        struct summary s = summarize(r->values[v], mg_shape_elements(&g->values[v].shape));
        printf("%s: %lld elements, sum %.9g, l2 %.9g, min %.9g, max %.9g, %lld NaN", g->values[v].name,
               (long long)s.count, s.sum, s.l2, s.min, s.max, (long long)s.nan);
        if (r->plan)
            printf(", largest error of the plan %.3g", worst_error(r, v));
        putchar('\n');
    }
}

/* ---- the command ---- */

static enum mg_code execute(struct run *r, struct mg_error *err)
{
    const struct mg_graph *g = r->source.graph;
    struct mg_arena *arena = &r->source.arena;
    r->values = mg_fill_values(g, &r->source.model, r->fill, r->seed, arena);
    double begin = mg_clock_seconds();
    enum mg_code code = MG_OK;
    if (r->plan) {
        /* before the graph: its updates write into arrays of their own, the given ones stay as they are */
        r->results = MG_NEW_ARRAY(arena, double *, g->value_count);
        code = mg_exec_plan(g, r->plan, r->seed, r->values, r->results, arena, err);
        r->plan_seconds = mg_clock_seconds() - begin;
        begin = mg_clock_seconds();
    }
    if (code == MG_OK)
        code = mg_exec_graph(g, r->seed, r->values, arena, err);
    r->seconds = mg_clock_seconds() - begin;
    return code;
}

/* The same on a device; of the graph's values only the results are known then. */
static enum mg_code execute_on_device(struct run *r, const struct mg_plan *original, struct mg_error *err)
{
    const struct mg_graph *g = r->source.graph;
    struct mg_arena *arena = &r->source.arena;
    struct mg_engine *engine;
    enum mg_code code = mg_engine_open(r->device, &engine, err);
    if (code != MG_OK)
        return code;
    if (mg_device_lock_wait("magisd run", r->options->value[MG_OPTION_LOCK_DIR], mg_engine_properties(engine), NULL,
                            NULL, &r->lock) != MG_LOCK_OURS) {
        mg_engine_close(engine);
        return mg_fail(err, MG_ERR_INTERNAL, "", "nothing is executed");
    }
    double **given = mg_fill_values(g, &r->source.model, r->fill, r->seed, arena);
    r->values = MG_NEW_ARRAY(arena, double *, g->value_count);
    code = mg_device_run(engine, g, original, r->seed, NULL, given, r->values, arena, &r->measured, err);
    r->seconds = r->measured.seconds;
    if (code == MG_OK && r->plan) {
        r->results = MG_NEW_ARRAY(arena, double *, g->value_count);
        code = mg_device_run(engine, g, r->plan, r->seed, NULL, given, r->results, arena, &r->plan_measured, err);
        r->plan_seconds = r->plan_measured.seconds;
    }
    mg_engine_close(engine);
    return code;
}

/* With a plan, on the device and by the prices that this one is for: they stand side by side. */
static enum mg_code make_original(struct run *r, struct mg_plan **original, struct mg_error *err)
{
    const struct mg_device *device = r->plan ? &r->plan->device : &r->source.request.device;
    enum mg_code code = mg_plan_original(r->source.graph, device, &r->source.arena, original, err);
    if (code == MG_OK && r->plan)
        (*original)->figures.latency_s = r->plan->original.latency_s;
    return code;
}

static int run(void *context)
{
    struct run *r = context;
    struct mg_arena *arena = &r->source.arena;
    struct mg_plan *original;
    struct mg_error err;
    if (r->plan_file.data &&
        mg_plan_read(r->source.graph, r->plan_file.data, r->plan_file.size, arena, &r->plan, &err) != MG_OK)
        return mg_source_complain_plan(&r->source, r->options->argument[1], r->plan_file.data, r->plan_file.size, &err);
    enum mg_code code = make_original(r, &original, &err);
    if (code == MG_OK)
        code = r->device ? execute_on_device(r, original, &err) : execute(r, &err);
    if (code != MG_OK)
        return mg_source_complain("run", &err);
    if (mg_options_flag(r->options, MG_OPTION_JSON))
        return print_json(r, original);
    print_table(r, original);
    return MG_EXIT_DONE;
}

/* What is timed reads by index as it will in truth. */
static bool read_fill(const char *text, bool timed, enum mg_fill *fill)
{
    int parsed = text ? mg_fill_parse(text) : timed ? MG_FILL_SPREAD : MG_FILL_NORMAL;
    if (parsed >= 0)
        *fill = (enum mg_fill)parsed;
    return parsed >= 0 || fprintf(stderr, "magisd run: --fill is normal, spread, lcg or zeros\n") < 0;
}

static int run_files(struct run *r)
{
    const struct mg_options *options = r->options;
    if (!read_fill(options->value[MG_OPTION_FILL], options->value[MG_OPTION_DEVICE] != NULL, &r->fill) ||
        (options->argument_count == 2 && !mg_file_open(&r->plan_file, options->argument[1])))
        return MG_EXIT_USAGE;
    r->device = options->value[MG_OPTION_DEVICE];
    r->seed = mg_options_uint(options, MG_OPTION_SEED, 1);
    int code = mg_source_open(&r->source, options, options->argument[0]);
    if (code == MG_EXIT_DONE)
        code = mg_source_guard(&r->source.arena, run, r);
    mg_source_release(&r->source);
    mg_file_close(&r->plan_file);
    return code;
}

int mg_cmd_run(int argc, char **argv)
{
    struct mg_options options;
    struct run r = {.options = &options, .source = {.keep_contents = true}, .lock = -1};
    int code;
    if (mg_options_parse(&options, MG_COMMAND_RUN, argc, argv, &code))
        code = run_files(&r);
    if (r.lock >= 0)
        close(r.lock);
    mg_options_release(&options);
    return code;
}
