/* Whole runs and the timing of their operators in turns, and which of them count: each is a step between two takes of a
 * fixed piece of work (the canary). A step counts where both took, within 3 %, what the canary took beside most others:
 * the machine was the same then. Steps are taken until enough count, or the machine proves to be too restless. */
#ifndef MG_BENCH_TURNS_H
#define MG_BENCH_TURNS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define TURNS_RESOLUTION 0.03
enum { TURNS_RUNS = 9, TURNS_SUMS = 3, TURNS_MOST_SUBJECTS = 8 };

/* What is done; seconds go to *seconds, for sum() one for each subject: of all its operators, each timed alone. */
struct turns_work {
    void *context;
    uint32_t subjects;
    enum mg_code (*canary)(void *context, double *seconds, struct mg_error *err);
    enum mg_code (*run)(void *context, uint32_t subject, double *seconds, struct mg_error *err);
    enum mg_code (*sum)(void *context, double *seconds, struct mg_error *err);
    double (*now)(void);
};
struct turns {
    bool counts;               /* nine runs of each subject and three sums do, or what there was time for */
    uint32_t steps, uncounted; /* all of them, and those during which the machine was another */
    double reference;          /* the canary's seconds that the others' are within 3 % of */
    double predicted[TURNS_MOST_SUBJECTS], measured[TURNS_MOST_SUBJECTS]; /* medians, s: of sums, of runs */
};

/* A failed step ends it. Where it is MG_ERR_CANCELLED, for want of time, one run of each and one sum are enough. */
enum mg_code turns_take(const struct turns_work *work, struct turns *out, struct mg_error *err) MG_WARN_UNUSED;
/* The middle one, or the higher of two; NAN of none. Sorts them. */
double turns_median(double *values, uint32_t count);

#endif
