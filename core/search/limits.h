/* What plans are held against, and which point of a front stands for it. The search and whoever keeps its front judge
 * by the same functions. */
#ifndef MG_SEARCH_LIMITS_H
#define MG_SEARCH_LIMITS_H

#include "plan/plan.h"

struct mg_limits { /* 0: none */
    double latency_s;
    uint64_t peak_bytes;
    uint64_t arena_bytes;
};

/* A share of an original's peak as a limit: never 0, which would be none. */
uint64_t mg_limits_share(double ratio, uint64_t original_peak);
bool mg_limits_met(const struct mg_limits *limits, const struct mg_figures *figures);
/* Is `a` nowhere worse than `b`? Where bytes of the arena are limited, a smaller peak that does not fit is no match for
 * a plan that does. */
bool mg_limits_reach(const struct mg_limits *limits, const struct mg_figures *a, const struct mg_figures *b);
/* Along a front, from the fastest point to the smallest: does `later` stand for the limits rather than `earlier`? Under
 * a memory limit the fastest that fits does, under a latency limit alone the smallest that fits; where none fits, the
 * one that goes least beyond, by the sum of the ratios. */
bool mg_limits_prefer(const struct mg_limits *limits, const struct mg_figures *later, const struct mg_figures *earlier);

/* What stands for a front of which nothing was asked: the smallest peak within 1.10 times the original's latency. */
struct mg_limits mg_limits_usual(double original_latency_s);
/* What else such a front should hold the best points for, by shares of the original's figures. */
enum { MG_LIMITS_TARGETS = 12 };
void mg_limits_targets(double original_latency_s, uint64_t original_peak, struct mg_limits out[MG_LIMITS_TARGETS]);

#endif
