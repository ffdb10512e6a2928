/* The published front: dominance, thinning, the best point, who replaces whom. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "server/pareto.h"

static const struct mg_front_limits no_limit;

static struct mg_front_point point(const char *id, double latency, uint64_t peak)
{
    struct mg_front_point p = {.latency_s = latency, .peak_bytes = peak, .arena_bytes = peak};
    snprintf(p.id, sizeof p.id, "%s", id);
    return p;
}

Test(pareto, reduce_keeps_what_nothing_dominates)
{
    struct mg_front_point points[] = {point("d", 4, 10), point("a", 1, 100), point("c", 2, 50),
                                      point("b", 2, 60), point("e", 5, 10),  point("f", 1, 100)};
    size_t count = mg_pareto_reduce(points, 6, &no_limit);
    cr_assert_eq(count, 3);
    cr_assert_str_eq(points[0].id, "a", "of equal ones the smallest id");
    cr_assert_str_eq(points[1].id, "c");
    cr_assert_str_eq(points[2].id, "d");
    cr_assert_eq(mg_pareto_reduce(points, 0, &no_limit), 0);
}

/* Fragmentation: the smaller peak has the larger arena. */
Test(pareto, what_fits_is_not_dropped_for_what_does_not)
{
    struct mg_front_limits limits = {.arena_bytes = 100};
    struct mg_front_point points[] = {point("tight", 2, 97), point("loose", 1, 95), point("slow", 3, 99)};
    points[0].arena_bytes = 98;
    points[1].arena_bytes = 110;
    cr_assert_eq(mg_pareto_reduce(points, 3, &limits), 2);
    cr_assert_str_eq(points[0].id, "loose");
    cr_assert_str_eq(points[1].id, "tight");
    cr_assert_eq(mg_pareto_best(points, 2, &limits), 1);
    cr_assert_eq(mg_pareto_reduce(points, 2, &no_limit), 1);
}

/* Against the definition, on random points. */
Test(pareto, reduce_agrees_with_the_definition)
{
    struct mg_rng rng;
    mg_rng_init(&rng, 7);
    for (unsigned round = 0; round < 200; round++) {
        struct mg_front_point all[24], points[24];
        size_t n = 1 + mg_rng_below(&rng, 24), expected = 0;
        for (size_t i = 0; i < n; i++) {
            char id[17];
            snprintf(id, sizeof id, "%016zx", i);
            all[i] = point(id, (double)mg_rng_below(&rng, 12), mg_rng_below(&rng, 12));
        }
        for (size_t i = 0; i < n; i++) {
            bool covered = false;
            for (size_t k = 0; k < n; k++)
                covered |= k != i && all[k].latency_s <= all[i].latency_s && all[k].peak_bytes <= all[i].peak_bytes &&
                           (all[k].latency_s < all[i].latency_s || all[k].peak_bytes < all[i].peak_bytes || k < i);
            expected += !covered;
        }
        memcpy(points, all, sizeof all);
        cr_assert_eq(mg_pareto_reduce(points, n, &no_limit), expected);
    }
}

static size_t many(struct mg_front_point *points, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char id[17];
        snprintf(id, sizeof id, "%016zx", i);
        points[i] = point(id, 1 + (double)i * 1e-4, 1000000000 - i * 100000);
    }
    return mg_pareto_reduce(points, n, &no_limit);
}

Test(pareto, thin_keeps_extremes_and_targets)
{
    static struct mg_front_point points[6000];
    size_t count = many(points, 6000);
    struct mg_front_limits limits = {.original_latency_s = 1, .original_peak = 1000000000};
    double last = points[count - 1].latency_s;
    cr_assert_eq(count, 6000);
    count = mg_pareto_thin(points, count, &limits, MG_FRONT_MAX);
    cr_assert_leq(count, MG_FRONT_MAX);
    cr_assert_gt(count, 20);
    cr_assert_eq(points[0].latency_s, 1.0);
    cr_assert_eq(points[count - 1].latency_s, last);
    static const double targets[] = {1.02, 1.05, 1.10, 1.20, 1.50};
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
        bool found = false;
        for (size_t i = 0; i < count; i++)
            found |= points[i].latency_s <= targets[t] && points[i].latency_s > targets[t] - 1.5e-4;
        cr_assert(found, "the best point within %g", targets[t]);
    }
}

Test(pareto, thin_keeps_the_point_for_the_limit)
{
    static struct mg_front_point points[6000];
    size_t count = many(points, 6000);
    struct mg_front_limits limits = {
        .original_latency_s = 1, .original_peak = 1000000000, .arena_bytes = 1000000000 - 2345 * 100000ull};
    struct mg_front_point best = points[mg_pareto_best(points, count, &limits)];
    cr_assert_eq(best.peak_bytes, 1000000000 - 2345 * 100000ull, "the fastest that fits");
    count = mg_pareto_thin(points, count, &limits, MG_FRONT_MAX);
    cr_assert_str_eq(points[mg_pareto_best(points, count, &limits)].id, best.id);
}

Test(pareto, best)
{
    struct mg_front_point points[] = {point("a", 1.00, 100), point("b", 1.08, 60), point("c", 1.11, 50),
                                      point("d", 2.00, 10)};
    struct mg_front_limits none = {.original_latency_s = 1, .original_peak = 100};
    struct mg_front_limits latency = none, memory = none, both = none, never = none;
    cr_assert_str_eq(points[mg_pareto_best(points, 4, &none)].id, "b", "no limit: smallest within 1.10");
    latency.latency_s = 1.5;
    cr_assert_str_eq(points[mg_pareto_best(points, 4, &latency)].id, "c");
    memory.peak_bytes = 55;
    cr_assert_str_eq(points[mg_pareto_best(points, 4, &memory)].id, "c");
    both.peak_bytes = 60;
    both.latency_s = 1.09;
    cr_assert_str_eq(points[mg_pareto_best(points, 4, &both)].id, "b");
    cr_assert(mg_pareto_meets(&points[1], &both));
    never.peak_bytes = 5;
    cr_assert_str_eq(points[mg_pareto_best(points, 4, &never)].id, "d", "not met: the nearest");
    cr_assert_not(mg_pareto_meets(&points[3], &never));
}

Test(pareto, replacement)
{
    struct mg_front_point points[] = {point("a", 1.00, 100), point("b", 1.10, 60), point("c", 2.00, 10)};
    struct mg_front_point covered = point("x", 1.20, 65), beside = point("y", 1.95, 11);
    cr_assert_str_eq(points[mg_pareto_replacement(points, 3, &covered)].id, "b");
    cr_assert_str_eq(points[mg_pareto_replacement(points, 3, &beside)].id, "c");
}
