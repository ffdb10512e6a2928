#include "tests/bench/device/turns.h"

#include <math.h>
#include <stdlib.h>

enum { RESTLESS = 3, SUMMED_EVERY = 4, MOST_STEPS = RESTLESS * (TURNS_MOST_SUBJECTS + 1) * TURNS_RUNS };
#define SUMMING_SECONDS 24.0 /* more sums are made as long as it does not take longer altogether */

struct step {
    bool is_sum;
    uint32_t subject;                    /* of a run */
    double before, after;                /* canaries, s */
    double seconds[TURNS_MOST_SUBJECTS]; /* of a run the first */
};
struct course {
    const struct turns_work *work;
    struct step steps[MOST_STEPS];
    uint32_t count, limit;    /* limit: more of them are not taken */
    double reference, canary; /* canary: the last one */
    double summing_s;
    uint32_t sums_made;
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double turns_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return count ? values[count / 2] : NAN;
}

/* ---- what counts ---- */

static bool is_near(double canary, double reference)
{
    return fabs(canary / reference - 1) <= TURNS_RESOLUTION;
}

static bool step_counts(const struct step *step, double reference)
{
    return is_near(step->before, reference) && is_near(step->after, reference);
}

/* How many steps count by this reference: runs of each subject, at the end sums. */
static uint32_t count_by(const struct course *c, double reference, uint32_t counts[TURNS_MOST_SUBJECTS + 1])
{
    uint32_t all = 0;
    for (uint32_t i = 0; i <= TURNS_MOST_SUBJECTS; i++)
        counts[i] = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (step_counts(&c->steps[i], reference)) {
            counts[c->steps[i].is_sum ? TURNS_MOST_SUBJECTS : c->steps[i].subject]++;
            all++;
        }
    return all;
}

/* The canary by which most steps count, of those that there were. Results have no say in it. */
static void choose_reference(struct course *c)
{
    uint32_t ignored[TURNS_MOST_SUBJECTS + 1], most = count_by(c, c->reference, ignored);
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t counting = count_by(c, c->steps[i].after, ignored);
        if (counting > most) {
            most = counting;
            c->reference = c->steps[i].after;
        }
    }
}

struct progress {
    uint32_t runs[TURNS_MOST_SUBJECTS], least_runs, sums;
};

static struct progress progress_of(const struct course *c)
{
    struct progress p = {.least_runs = UINT32_MAX};
    uint32_t counts[TURNS_MOST_SUBJECTS + 1];
    count_by(c, c->reference, counts);
    p.sums = counts[TURNS_MOST_SUBJECTS];
    for (uint32_t i = 0; i < c->work->subjects; i++) {
        p.runs[i] = counts[i];
        p.least_runs = counts[i] < p.least_runs ? counts[i] : p.least_runs;
    }
    return p;
}

/* ---- steps ---- */

static enum mg_code take_step(struct course *c, bool is_sum, uint32_t subject, struct mg_error *err)
{
    struct step *step = &c->steps[c->count];
    double begin = c->work->now();
    *step = (struct step){.is_sum = is_sum, .subject = subject, .before = c->canary};
    enum mg_code code = is_sum ? c->work->sum(c->work->context, step->seconds, err)
                               : c->work->run(c->work->context, subject, step->seconds, err);
    c->summing_s += is_sum ? c->work->now() - begin : 0;
    c->sums_made += is_sum;
    code = code ? code : c->work->canary(c->work->context, &c->canary, err);
    step->after = c->canary;
    c->count += !code;
    choose_reference(c);
    return code;
}

/* Of each subject that has no more runs than another. The first run of all is for nothing after operators were timed:
 * it finds the caches as these left them. */
static enum mg_code take_runs(struct course *c, const struct progress *p, struct mg_error *err)
{
    enum mg_code code = MG_OK;
    double ignored;
    bool warm = c->count > 0 && !c->steps[c->count - 1].is_sum;
    for (uint32_t i = 0; i < c->work->subjects && c->count < c->limit && !code; i++) {
        if (p->runs[i] > p->least_runs || p->runs[i] >= TURNS_RUNS)
            continue;
        if (!warm)
            code = c->work->run(c->work->context, i, &ignored, err);
        warm = true;
        code = code ? code : take_step(c, false, i, err);
    }
    return code;
}

/* Operators are timed over the same span of time as the runs, not at its beginning. */
static bool is_sum_due(const struct course *c, const struct progress *p)
{
    double each = c->sums_made ? c->summing_s / c->sums_made : 0;
    bool lacks = p->sums < TURNS_SUMS && p->least_runs >= SUMMED_EVERY * p->sums;
    return lacks || c->summing_s + each <= SUMMING_SECONDS * (p->least_runs + 1) / TURNS_RUNS;
}

static bool is_done(const struct progress *p, uint32_t runs, uint32_t sums)
{
    return p->least_runs >= runs && p->sums >= sums;
}

static enum mg_code take_steps(struct course *c, struct mg_error *err)
{
    double ignored;
    enum mg_code code = MG_OK;
    for (uint32_t i = 0; i < c->work->subjects && !code; i++)
        code = c->work->run(c->work->context, i, &ignored, err);
    code = code ? code : c->work->canary(c->work->context, &c->canary, err);
    c->reference = c->canary;
    for (struct progress p = progress_of(c); !is_done(&p, TURNS_RUNS, TURNS_SUMS) && c->count < c->limit && !code;
         p = progress_of(c)) {
        bool due = is_sum_due(c, &p);
        code = take_runs(c, &p, err);
        if (!code && due && c->count < c->limit)
            code = take_step(c, true, 0, err);
    }
    return code;
}

static void tell(const struct course *c, struct turns *out)
{
    struct progress p = progress_of(c);
    double values[MOST_STEPS];
    *out = (struct turns){.steps = c->count, .reference = c->reference};
    for (uint32_t i = 0; i < c->count; i++)
        out->uncounted += !step_counts(&c->steps[i], c->reference);
    for (int sums = 0; sums <= 1; sums++)
        for (uint32_t s = 0; s < c->work->subjects; s++) {
            uint32_t n = 0;
            for (uint32_t i = 0; i < c->count; i++)
                if (c->steps[i].is_sum == sums && step_counts(&c->steps[i], c->reference) &&
                    (sums || c->steps[i].subject == s))
                    values[n++] = c->steps[i].seconds[sums ? s : 0];
            (sums ? out->predicted : out->measured)[s] = turns_median(values, n);
        }
    out->counts = is_done(&p, TURNS_RUNS, TURNS_SUMS);
}

enum mg_code turns_take(const struct turns_work *work, struct turns *out, struct mg_error *err)
{
    struct course *c = calloc(1, sizeof *c);
    if (!c)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    c->work = work;
    c->limit = RESTLESS * (work->subjects + 1) * TURNS_RUNS;
    enum mg_code code = take_steps(c, err);
    struct progress p = progress_of(c);
    tell(c, out);
    if (code == MG_ERR_CANCELLED && is_done(&p, 1, 1)) {
        out->counts = true;
        code = MG_OK;
    }
    free(c);
    return code;
}
