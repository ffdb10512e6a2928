#include "server/device_run.h"

#include <math.h>

enum { RUNS = 9 };
static const double patience = 3; /* seconds after which three runs are enough */

static void pause_between(const struct mg_device_watch *watch)
{
    if (watch)
        watch->between(watch->context);
}

static enum mg_code repeat(struct mg_program *program, const struct mg_device_watch *watch, double *const *given,
                           struct mg_device_run *out, struct mg_error *err)
{
    double samples[RUNS], spent = 0;
    uint32_t count = 0;
    enum mg_code code = MG_OK;
    while (count < RUNS && !code && (count < 3 || spent < patience)) {
        code = mg_program_load(program, given, err);
        if (!code)
            code = mg_program_run(program, &samples[count], err);
        spent += code ? 0 : samples[count++];
        pause_between(watch);
    }
    if (!code)
        mg_timing_of(samples, count, &out->timing);
    out->seconds = out->timing.median_s;
    return code;
}

struct taking {
    struct mg_program *program;
    double **results;
    struct mg_arena *arena;
};

static enum mg_code take(void *context, struct mg_error *err)
{
    struct taking *t = context;
    return mg_program_results(t->program, t->results, t->arena, err);
}

/* Guarded: running out of memory must not leave program and engine behind. */
static enum mg_code take_results(struct taking *t, struct mg_error *err)
{
    return mg_arena_guard(t->arena, take, t, err);
}

/* Results are taken before anything else is asked: who looks at the device may time operators, where they lie. */
static enum mg_code repeat_until_good(struct taking *t, const struct mg_device_watch *watch, double *const *given,
                                      struct mg_device_run *out, struct mg_error *err)
{
    struct mg_arena_mark mark = mg_arena_mark(t->arena);
    enum mg_code code;
    do {
        mg_arena_rewind(t->arena, mark);
        code = repeat(t->program, watch, given, out, err);
        code = code ? code : take_results(t, err);
    } while (!code && watch && watch->again && watch->again(watch->context));
    return code;
}

/* Once it is known what the runs took, nothing is disturbed by telling that we live. */
static bool pause_or_stop(void *context)
{
    const struct mg_device_watch *watch = context;
    watch->between(watch->context);
    return watch->stop(watch->context);
}

static double predict(struct mg_program *program, const struct mg_device_watch *watch)
{
    struct mg_error untimed;
    double seconds;
    if (watch)
        mg_program_stop_when(program, pause_or_stop, (void *)(uintptr_t)watch);
    enum mg_code code = mg_program_predict(program, &mg_time_policy_default, watch ? watch->operators_until : INFINITY,
                                           &seconds, &untimed);
    return code == MG_OK ? seconds : NAN;
}

enum mg_code mg_device_run(struct mg_engine *engine, const struct mg_graph *g, const struct mg_plan *plan,
                           uint64_t seed, const struct mg_device_watch *watch, double *const *given, double **results,
                           struct mg_arena *arena, struct mg_device_run *out, struct mg_error *err)
{
    struct mg_program *program;
    *out = (struct mg_device_run){.predicted_s = NAN};
    enum mg_code code = mg_program_build(engine, g, plan, seed, &program, err);
    if (!code && watch)
        mg_program_stop_when(program, watch->stop, watch->context);
    if (!code)
        code = repeat_until_good(&(struct taking){program, results, arena}, watch, given, out, err);
    if (!code) {
        mg_program_facts(program, &out->facts);
        out->predicted_s = predict(program, watch);
    }
    mg_program_free(program);
    return code;
}

void mg_device_run_print(FILE *out, const char *what, const struct mg_device_run *run, const struct mg_plan *plan)
{
    const struct mg_figures *f = &plan->figures;
    fprintf(out, "%s: %.6f s (%u runs, +- %.6f), predicted from its operators %.6f s; the plan says %.6f s on %s\n",
            what, run->seconds, run->timing.n, run->timing.mad_s, run->predicted_s, f->latency_s, plan->device.name);
    fprintf(out, "  peak %llu bytes (stated %llu), arena %llu (%llu), host %llu (%llu)\n",
            (unsigned long long)run->facts.peak_bytes, (unsigned long long)f->peak_bytes,
            (unsigned long long)run->facts.arena_bytes, (unsigned long long)f->arena_bytes,
            (unsigned long long)run->facts.host_bytes, (unsigned long long)f->host_bytes);
}
