#include "server/pareto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_latency(const void *a, const void *b)
{
    const struct mg_front_point *p = a, *q = b;
    if (p->latency_s != q->latency_s)
        return p->latency_s < q->latency_s ? -1 : 1;
    if (p->peak_bytes != q->peak_bytes)
        return p->peak_bytes < q->peak_bytes ? -1 : 1;
    return strcmp(p->id, q->id);
}

size_t mg_pareto_reduce(struct mg_front_point *points, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(points, count, sizeof *points, by_latency);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || points[i].peak_bytes < points[kept - 1].peak_bytes)
            points[kept++] = points[i];
    return kept;
}

static bool has_limit(const struct mg_front_limits *limits)
{
    return limits->latency_s > 0 || limits->peak_bytes || limits->arena_bytes;
}

bool mg_pareto_meets(const struct mg_front_point *point, const struct mg_front_limits *limits)
{
    return (limits->latency_s <= 0 || point->latency_s <= limits->latency_s) &&
           (!limits->peak_bytes || point->peak_bytes <= limits->peak_bytes) &&
           (!limits->arena_bytes || point->arena_bytes <= limits->arena_bytes);
}

/* How far beyond the limits, as a sum of ratios; 0 when met. */
static double excess(const struct mg_front_point *point, const struct mg_front_limits *limits)
{
    double sum = 0;
    if (limits->latency_s > 0 && point->latency_s > limits->latency_s)
        sum += point->latency_s / limits->latency_s - 1;
    if (limits->peak_bytes && point->peak_bytes > limits->peak_bytes)
        sum += (double)point->peak_bytes / (double)limits->peak_bytes - 1;
    if (limits->arena_bytes && point->arena_bytes > limits->arena_bytes)
        sum += (double)point->arena_bytes / (double)limits->arena_bytes - 1;
    return sum;
}

/* Under a memory limit the fastest that fits, under a latency limit alone the smallest that does. */
static size_t best_for(const struct mg_front_point *points, size_t count, const struct mg_front_limits *limits)
{
    bool memory = limits->peak_bytes || limits->arena_bytes;
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        double a = excess(&points[i], limits), b = excess(&points[best], limits);
        if (a < b || (a == b && !memory)) /* the front descends in peak */
            best = i;
    }
    return best;
}

size_t mg_pareto_best(const struct mg_front_point *points, size_t count, const struct mg_front_limits *limits)
{
    if (has_limit(limits))
        return best_for(points, count, limits);
    struct mg_front_limits usual = {.latency_s = limits->original_latency_s * 1.10};
    return best_for(points, count, &usual);
}

static void mark_target(const struct mg_front_point *points, size_t count, const struct mg_front_limits *target,
                        bool *keep)
{
    size_t at = best_for(points, count, target);
    if (mg_pareto_meets(&points[at], target))
        keep[at] = true;
}

static void mark_always(const struct mg_front_point *points, size_t count, const struct mg_front_limits *limits,
                        bool *keep)
{
    static const double latency[] = {1.00, 1.02, 1.05, 1.10, 1.20, 1.50};
    static const double memory[] = {0.8, 0.6, 0.4, 0.3, 0.2, 0.1};
    keep[0] = keep[count - 1] = true;
    keep[mg_pareto_best(points, count, limits)] = true;
    for (size_t i = 0; i < sizeof latency / sizeof latency[0]; i++)
        mark_target(points, count, &(struct mg_front_limits){.latency_s = latency[i] * limits->original_latency_s},
                    keep);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        mark_target(points, count,
                    &(struct mg_front_limits){.peak_bytes = (uint64_t)(memory[i] * (double)limits->original_peak)},
                    keep);
}

/* The larger of the two relative distances. */
static double distance(const struct mg_front_point *a, const struct mg_front_point *b)
{
    double latency = fabs(a->latency_s - b->latency_s) / (b->latency_s > 0 ? b->latency_s : 1);
    double peak = fabs((double)a->peak_bytes - (double)b->peak_bytes) / (b->peak_bytes ? (double)b->peak_bytes : 1);
    return latency > peak ? latency : peak;
}

/* Greedy: a point stays if it is `gap` away from the last one that stays. */
static size_t thin_by(const struct mg_front_point *points, size_t count, double gap, const bool *always, bool *keep)
{
    size_t kept = 0, last = 0;
    for (size_t i = 0; i < count; i++) {
        keep[i] = always[i] || distance(&points[i], &points[last]) >= gap;
        if (keep[i]) {
            last = i;
            kept++;
        }
    }
    return kept;
}

size_t mg_pareto_thin(struct mg_front_point *points, size_t count, const struct mg_front_limits *limits, size_t most)
{
    if (count == 0)
        return 0;
    bool *always = calloc(count, 2 * sizeof *always);
    bool *keep = always ? always + count : NULL;
    if (!always)
        return count < most ? count : most;
    mark_always(points, count, limits, always);
    double gap = 0.005;
    while (thin_by(points, count, gap, always, keep) > most && gap < 1e6)
        gap *= 1.25;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (keep[i])
            points[kept++] = points[i];
    free(always);
    return kept;
}

size_t mg_pareto_replacement(const struct mg_front_point *points, size_t count, const struct mg_front_point *gone)
{
    size_t nearest = 0;
    for (size_t i = 0; i < count; i++) {
        if (points[i].latency_s <= gone->latency_s && points[i].peak_bytes <= gone->peak_bytes)
            return i;
        if (distance(&points[i], gone) < distance(&points[nearest], gone))
            nearest = i;
    }
    return nearest;
}
