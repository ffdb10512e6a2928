#include "server/pareto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/limits.h"

static int by_latency(const void *a, const void *b)
{
    const struct mg_front_point *p = a, *q = b;
    if (p->latency_s != q->latency_s)
        return p->latency_s < q->latency_s ? -1 : 1;
    if (p->peak_bytes != q->peak_bytes)
        return p->peak_bytes < q->peak_bytes ? -1 : 1;
    return strcmp(p->id, q->id);
}

static struct mg_figures figures_of(const struct mg_front_point *p)
{
    return (struct mg_figures){p->latency_s, p->peak_bytes, p->arena_bytes, p->host_bytes};
}

static struct mg_limits limits_of(const struct mg_front_limits *limits)
{
    return (struct mg_limits){limits->latency_s, limits->peak_bytes, limits->arena_bytes};
}

/* By one of those before it, of which the last has the smallest peak where no arena is limited. */
static bool is_reached(const struct mg_limits *limits, const struct mg_front_point *points, size_t count,
                       const struct mg_front_point *point)
{
    struct mg_figures figures = figures_of(point);
    for (size_t i = count; i-- > 0 && (limits->arena_bytes || i + 1 == count);) {
        struct mg_figures earlier = figures_of(&points[i]);
        if (mg_limits_reach(limits, &earlier, &figures))
            return true;
    }
    return false;
}

size_t mg_pareto_reduce(struct mg_front_point *points, size_t count, const struct mg_front_limits *limits)
{
    struct mg_limits asked = limits_of(limits);
    size_t kept = 0;
    if (count)
        qsort(points, count, sizeof *points, by_latency);
    for (size_t i = 0; i < count; i++)
        if (!is_reached(&asked, points, kept, &points[i]))
            points[kept++] = points[i];
    return kept;
}

static bool meets(const struct mg_front_point *point, const struct mg_limits *limits)
{
    struct mg_figures figures = figures_of(point);
    return mg_limits_met(limits, &figures);
}

bool mg_pareto_meets(const struct mg_front_point *point, const struct mg_front_limits *limits)
{
    struct mg_limits asked = limits_of(limits);
    return meets(point, &asked);
}

static size_t best_for(const struct mg_front_point *points, size_t count, const struct mg_limits *limits)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        struct mg_figures later = figures_of(&points[i]), earlier = figures_of(&points[best]);
        if (mg_limits_prefer(limits, &later, &earlier))
            best = i;
    }
    return best;
}

size_t mg_pareto_best(const struct mg_front_point *points, size_t count, const struct mg_front_limits *limits)
{
    struct mg_limits asked = limits_of(limits);
    if (asked.latency_s <= 0 && !asked.peak_bytes && !asked.arena_bytes)
        asked = mg_limits_usual(limits->original_latency_s);
    return best_for(points, count, &asked);
}

static void mark_always(const struct mg_front_point *points, size_t count, const struct mg_front_limits *limits,
                        bool *keep)
{
    struct mg_limits target[MG_LIMITS_TARGETS];
    keep[0] = keep[count - 1] = true;
    keep[mg_pareto_best(points, count, limits)] = true;
    mg_limits_targets(limits->original_latency_s, limits->original_peak, target);
    for (unsigned i = 0; i < MG_LIMITS_TARGETS; i++) {
        size_t at = best_for(points, count, &target[i]);
        keep[at] = keep[at] || meets(&points[at], &target[i]);
    }
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
