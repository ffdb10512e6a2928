/* Names of the enums, as JSON and the tables spell them. */
#include <string.h>

#include "store/store_priv.h"

#define COUNT(table) (int)(sizeof(table) / sizeof *(table))

static const char *const states[] = {"validating", "queued",    "waiting", "running",
                                     "cancelling", "succeeded", "failed",  "cancelled"};
static const char *const priorities[] = {"interactive", "normal", "batch"};
static const char *const outcomes[] = {NULL, "met", "not_met", "infeasible", "front"};
static const char *const stops[] = {NULL, "evaluations", "seconds", "exhausted", "cancelled", "deadline"};
static const char *const sorts[] = {"created", "peak", "saving", "duration"};
static const char *const kinds[] = {"original", "front", "baseline"};
static const char *const measured[] = {"wanted", "measuring", "done", "failed"};
static const char *const codes[] = {"ok", "not-found", "conflict", "stale",   "gone",    "invalid", "busy",    "full",
                                    "io", "corrupt",   "locked",   "version", "network", "closed",  "internal"};

static int find(const char *const *table, int n, const char *name)
{
    for (int i = 0; name && i < n; i++) {
        if (table[i] && strcmp(table[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *mg_job_state_name(enum mg_job_state state)
{
    return states[state];
}

int mg_job_state_parse(const char *name)
{
    return find(states, COUNT(states), name);
}

const char *mg_job_priority_name(enum mg_job_priority priority)
{
    return priorities[priority];
}

int mg_job_priority_parse(const char *name)
{
    return find(priorities, COUNT(priorities), name);
}

const char *mg_job_outcome_name(enum mg_job_outcome outcome)
{
    return outcomes[outcome];
}

int mg_job_outcome_parse(const char *name)
{
    return find(outcomes, COUNT(outcomes), name);
}

const char *mg_job_stop_name(enum mg_job_stop stop)
{
    return stops[stop];
}

int mg_job_stop_parse(const char *name)
{
    return find(stops, COUNT(stops), name);
}

int mg_job_sort_parse(const char *name)
{
    return find(sorts, COUNT(sorts), name);
}

const char *mg_point_kind_name(enum mg_point_kind kind)
{
    return kinds[kind];
}

int mg_point_kind_parse(const char *name)
{
    return find(kinds, COUNT(kinds), name);
}

const char *mg_store_code_name(enum mg_store_code code)
{
    return codes[code];
}

const char *mg_measured_state_name(enum mg_measured_state state)
{
    return measured[state];
}

int mg_measured_state_parse(const char *name)
{
    return find(measured, COUNT(measured), name);
}
