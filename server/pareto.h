/* The published front of a job: dominance, thinning to 64 points, the best point for the limit.
 *
 * Pure functions over arrays; used by worker and daemon alike. */
#ifndef MG_SERVER_PARETO_H
#define MG_SERVER_PARETO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MG_FRONT_MAX = 64 };

struct mg_front_point {
    char id[17];
    double latency_s;
    uint64_t peak_bytes, arena_bytes, host_bytes;
    uint32_t techniques;
    double measured_share; /* of its operators: those whose price is measured */
};
struct mg_front_limits {
    double latency_s;     /* 0 = none */
    uint64_t peak_bytes;  /* 0 = none; of a memory ratio */
    uint64_t arena_bytes; /* 0 = none; of memory_bytes less the reserve */
    double original_latency_s;
    uint64_t original_peak;
};

/* Sorts by latency and keeps what nothing else dominates (mg_limits_reach; equal figures: the smallest id). Returns
 * the new count. */
size_t mg_pareto_reduce(struct mg_front_point *points, size_t count, const struct mg_front_limits *limits);
/* Of a reduced front at most `most` points, no two nearer than 0.5 % in both directions unless they
 * are the extremes, the point for the limit, or the best for one of the targets that a search without a limit has. */
size_t mg_pareto_thin(struct mg_front_point *points, size_t count, const struct mg_front_limits *limits, size_t most);
bool mg_pareto_meets(const struct mg_front_point *point, const struct mg_front_limits *limits);
/* Index of the point for the limit; not met: the nearest; no limit: the smallest peak within 1.10
 * times the original's latency. `count` > 0, the front reduced. */
size_t mg_pareto_best(const struct mg_front_point *points, size_t count, const struct mg_front_limits *limits);
/* Who stands for a point that left: one that dominates it, else the nearest. count > 0. */
size_t mg_pareto_replacement(const struct mg_front_point *points, size_t count, const struct mg_front_point *gone);

#endif
