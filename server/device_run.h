/* Executes a plan on a measuring back end, some times over, and says what it took. */
#ifndef MG_SERVER_DEVICE_RUN_H
#define MG_SERVER_DEVICE_RUN_H

#include <stdio.h>

#include "measure/program.h"

struct mg_device_run {
    double seconds;     /* median of the runs */
    double predicted_s; /* from its operators, as mg_program_predict() does; NaN where one cannot be timed, or not in
                           time */
    struct mg_timing timing; /* of the runs */
    struct mg_program_facts facts;
};
/* What to look at while a plan is executed. */
struct mg_device_watch {
    bool (*stop)(void *context);    /* asked between actions: true gives up, MG_ERR_CANCELLED before the last run */
    void (*between)(void *context); /* called between runs, and between operators while they are timed */
    bool (*again)(void *context);   /* called after the runs, before operators are timed: true runs it as often again;
                                       NULL: it does not; may time operators itself, as a canary does */
    void *context;
    double operators_until; /* mg_measure_clock() after which operators are not timed any more */
};
/* results: by value of the graph, outputs and updated values; memory from `arena`, inside its guard. watch: NULL where
 * nobody has to stop it. */
enum mg_code mg_device_run(struct mg_engine *engine, const struct mg_graph *g, const struct mg_plan *plan,
                           uint64_t seed, const struct mg_device_watch *watch, double *const *given, double **results,
                           struct mg_arena *arena, struct mg_device_run *out, struct mg_error *err) MG_WARN_UNUSED;
/* What it took, beside what the plan says. */
void mg_device_run_print(FILE *out, const char *what, const struct mg_device_run *run, const struct mg_plan *plan);

#endif
