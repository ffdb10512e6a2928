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

static enum mg_code take_results(void *context, struct mg_error *err)
{
    struct taking *t = context;
    return mg_program_results(t->program, t->results, t->arena, err);
}

enum mg_code mg_device_run(struct mg_engine *engine, const struct mg_graph *g, const struct mg_plan *plan,
                           uint64_t seed, const struct mg_device_watch *watch, double *const *given, double **results,
                           struct mg_arena *arena, struct mg_device_run *out, struct mg_error *err)
{
    struct mg_program *program;
    struct mg_error untimed;
    double until = watch ? watch->operators_until : INFINITY;
    *out = (struct mg_device_run){.predicted_s = NAN};
    enum mg_code code = mg_program_build(engine, g, plan, seed, &program, err);
    if (!code && watch)
        mg_program_stop_when(program, watch->stop, watch->context);
    if (!code)
        code = repeat(program, watch, given, out, err);
    if (!code) /* guarded: running out of memory must not leave program and engine behind */
        code = mg_arena_guard(arena, take_results, &(struct taking){program, results, arena}, err);
    if (!code && mg_program_predict(program, &mg_time_policy_default, until, &out->predicted_s, &untimed) != MG_OK)
        out->predicted_s = NAN;
    if (!code)
        mg_program_facts(program, &out->facts);
    mg_program_free(program);
    return code;
}

void mg_device_run_print(FILE *out, const char *what, const struct mg_device_run *run, const struct mg_plan *plan)
{
    const struct mg_figures *f = &plan->figures;
    fprintf(out, "%s: %.6f s (%u runs, +- %.6f), by its operators alone %.6f s; the plan says %.6f s on %s\n", what,
            run->seconds, run->timing.n, run->timing.mad_s, run->predicted_s, f->latency_s, plan->device.name);
    fprintf(out, "  peak %llu bytes (stated %llu), arena %llu (%llu), host %llu (%llu)\n",
            (unsigned long long)run->facts.peak_bytes, (unsigned long long)f->peak_bytes,
            (unsigned long long)run->facts.arena_bytes, (unsigned long long)f->arena_bytes,
            (unsigned long long)run->facts.host_bytes, (unsigned long long)f->host_bytes);
}
