/* Prints the tables of figures that the project promises (README, "Figures"): for every network of
 * the paper variant one search without a limit, and what its front holds.
 *
 *   accept [--seconds S | --evaluations N] [NETWORK ...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search/search.h"
#include "zoo/zoo.h"

struct network {
    const char *name;
    struct mg_zoo_option option[4];
    uint32_t options;
    double peak_110, peak_105; /* floors, GB = 1e9 bytes */
    double at_ratio, at_peak;  /* "latency ratio at a peak of" */
    double rate;               /* floor: evaluations per second of processor time, 0: none */
};

#define PAPER                                                                                                          \
    {                                                                                                                  \
        "variant", "paper"                                                                                             \
    }
static const struct network networks[] = {
    {"resnet50", {PAPER, {"batch", "64"}}, 2, 1.00, 2.30, 1.10, 1.08, 0},
    {"bert-base", {PAPER, {"batch", "32"}, {"seq_len", "512"}}, 3, 2.85, 4.60, 1.03, 5.17, 5000},
    {"vit-base-16", {PAPER, {"batch", "64"}}, 2, 1.95, 3.07, 1.05, 3.07, 0},
    {"unet", {PAPER, {"batch", "32"}}, 2, 0.96, 1.44, 1.02, 3.43, 15000},
    {"unet++", {PAPER, {"batch", "16"}}, 2, 1.39, 2.00, 1.02, 4.40, 0},
    {"gpt-neo-1.3b", {PAPER, {"batch", "32"}, {"seq_len", "512"}}, 3, 8.5, 11.5, 1.04, 11.5, 0},
    {"btlm-3b", {PAPER, {"batch", "32"}, {"seq_len", "512"}}, 3, 13.5, 14.9, 1.02, 22.1, 1500},
};

static double now(void *context)
{
    struct timespec t;
    (void)context;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void rejected(void *context, const struct mg_plan *plan, const struct mg_verdict *verdict)
{
    (void)context;
    (void)plan;
    printf("  REJECTED at step %u: %s: %s\n", verdict->step, verdict->reason, verdict->message);
}

static double peak_within(const struct mg_point *points, uint32_t count, double latency)
{
    double best = 1e300;
    for (uint32_t i = 0; i < count; i++)
        if (points[i].figures.latency_s <= latency && (double)points[i].figures.peak_bytes < best)
            best = (double)points[i].figures.peak_bytes;
    return best;
}

static double latency_under(const struct mg_point *points, uint32_t count, double peak)
{
    double best = 1e300;
    for (uint32_t i = 0; i < count; i++)
        if ((double)points[i].figures.peak_bytes <= peak && points[i].figures.latency_s < best)
            best = points[i].figures.latency_s;
    return best;
}

/* Every limit: the front's peak at each micro-batching point's latency, relative to that point. */
static double worst_against_microbatch(const struct mg_search_result *r, double *where)
{
    double worst = 0;
    for (uint32_t b = 0; b < r->baseline_count; b++) {
        if (strcmp(r->baselines[b].name, "microbatch") != 0)
            continue;
        for (uint32_t i = 0; i < r->baselines[b].point_count; i++) {
            double latency = r->baselines[b].points[i].figures.latency_s;
            double by_hand = peak_within(r->baselines[b].points, r->baselines[b].point_count, latency);
            double ratio = peak_within(r->front, r->front_count, latency * (1 + 1e-6)) / by_hand;
            if (ratio > worst)
                *where = latency / r->original.figures.latency_s;
            worst = ratio > worst ? ratio : worst;
        }
    }
    return worst;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static const char *mark(bool ok)
{
    return ok ? "ok" : "MISSED";
}

static int print_row(const struct network *n, const struct mg_search_result *r, double seconds)
{
    double latency = r->original.figures.latency_s;
    double a = peak_within(r->front, r->front_count, 1.10 * latency) / 1e9;
    double b = peak_within(r->front, r->front_count, 1.05 * latency) / 1e9;
    double c = latency_under(r->front, r->front_count, n->at_peak * 1e9) / latency;
    double hand_a = (double)r->original.figures.peak_bytes / 1e9, hand_b = hand_a;
    for (uint32_t i = 0; i < r->baseline_count; i++)
        if (!strcmp(r->baselines[i].name, "microbatch")) {
            hand_a =
                smaller(hand_a, peak_within(r->baselines[i].points, r->baselines[i].point_count, 1.10 * latency) / 1e9);
            hand_b =
                smaller(hand_b, peak_within(r->baselines[i].points, r->baselines[i].point_count, 1.05 * latency) / 1e9);
        }
    double rate = (double)r->evaluations / seconds, where = 0, worst = worst_against_microbatch(r, &where);
    printf("%-13s %6.2f GB %.4f s | <=1.10: %6.3f GB (floor %.2f, by hand %.2f) %s | <=1.05: %6.3f GB (floor %.2f, by "
           "hand "
           "%.2f) %s | ratio at %.2f GB: %.3f (floor %.2f) %s | worst/by hand %.3f at %.3f %s | %.0f evaluations, "
           "%.0f/s %s | "
           "%u points, checker %llu accepted %llu rejected\n",
           n->name, (double)r->original.figures.peak_bytes / 1e9, latency, a, n->peak_110, hand_a,
           mark(a <= n->peak_110), b, n->peak_105, hand_b, mark(b <= n->peak_105), n->at_peak, c, n->at_ratio,
           mark(c <= n->at_ratio), worst, where, mark(worst <= 0.90), (double)r->evaluations, rate,
           n->rate > 0 ? mark(rate >= n->rate) : "", r->front_count, (unsigned long long)r->accepted,
           (unsigned long long)r->rejected);
    return !(a <= n->peak_110 && b <= n->peak_105 && c <= n->at_ratio && worst <= 0.90 && r->rejected == 0);
}

static enum mg_code build(const struct network *n, struct mg_arena *arena, struct mg_graph **out, struct mg_error *err)
{
    struct mg_graph *forward, *step;
    struct mg_training training = {MG_LOSS_SQUARED, MG_OPTIMIZER_SGD, NULL, 0};
    enum mg_code code = mg_zoo_build(n->name, n->option, n->options, arena, &forward, err);
    if (code == MG_OK)
        code = mg_graph_differentiate(forward, &training, arena, &step, err);
    return code == MG_OK ? mg_graph_normalise(step, arena, out, err) : code;
}

static int run(const struct network *n, double seconds, uint64_t evaluations)
{
    struct mg_arena arena;
    struct mg_graph *g;
    struct mg_error err = {0};
    struct mg_search_result result;
    struct mg_search_options options = {.device = mg_device_builtin("rtx3090"),
                                        .max_seconds = seconds,
                                        .max_evaluations = evaluations,
                                        .seed = 1,
                                        .techniques = MG_TECHNIQUE_ALL};
    struct mg_observer observer = {.now = now, .rejected = rejected};
    int failed = 1;
    mg_arena_init(&arena, SIZE_MAX);
    double start = now(NULL);
    if (build(n, &arena, &g, &err) != MG_OK || mg_search(g, &options, &observer, &arena, &result, &err) != MG_OK)
        printf("%s: %s %s\n", n->name, err.pointer, err.message);
    else
        failed = print_row(n, &result, now(NULL) - start);
    fflush(stdout);
    mg_arena_release(&arena);
    return failed;
}

int main(int argc, char **argv)
{
    double seconds = 20;
    uint64_t evaluations = 0;
    int failed = 0, named = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seconds") && i + 1 < argc) {
            seconds = atof(argv[++i]);
        } else if (!strcmp(argv[i], "--evaluations") && i + 1 < argc) {
            evaluations = strtoull(argv[++i], NULL, 10);
            seconds = 0;
        } else {
            named++;
            for (size_t k = 0; k < sizeof networks / sizeof *networks; k++)
                if (!strcmp(networks[k].name, argv[i]))
                    failed += run(&networks[k], seconds, evaluations);
        }
    }
    for (size_t k = 0; !named && k < sizeof networks / sizeof *networks; k++)
        failed += run(&networks[k], seconds, evaluations);
    return failed != 0;
}
