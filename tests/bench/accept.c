/* Prints the tables of figures that the project promises (tests/unit/figures.def): for every network of
 * the paper variant one search without a limit, and what its front holds.
 *
 *   accept [--seconds S | --evaluations N] [NETWORK ...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/figures.h"

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

static bool print_rate(const struct figure_network *n, const struct mg_search_result *r, double seconds)
{
    double rate = (double)r->evaluations / seconds;
    printf("%-13s %.0f evaluations/s of processor time", n->name, rate);
    if (n->rate > 0)
        printf(" (floor %.0f) %s", n->rate, rate >= n->rate ? "ok" : "MISSED");
    printf("\n");
    return rate >= n->rate;
}

static bool run(const struct figure_network *n, double seconds, uint64_t evaluations)
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
    bool ok = false;
    mg_arena_init(&arena, SIZE_MAX);
    double start = now(NULL);
    if (figure_graph(n, &arena, &g, &err) != MG_OK ||
        mg_search(g, &options, &observer, &arena, &result, &err) != MG_OK) {
        printf("%s: %s %s\n", n->name, err.pointer, err.message);
    } else {
        ok = figures_print(n, &n->timed, &result);
        ok &= print_rate(n, &result, now(NULL) - start);
    }
    fflush(stdout);
    mg_arena_release(&arena);
    return ok;
}

int main(int argc, char **argv)
{
    double seconds = 20;
    uint64_t evaluations = 0;
    bool ok = true, named = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seconds") && i + 1 < argc) {
            seconds = atof(argv[++i]);
        } else if (!strcmp(argv[i], "--evaluations") && i + 1 < argc) {
            evaluations = strtoull(argv[++i], NULL, 10);
            seconds = 0;
        } else {
            const struct figure_network *n = figure_network_find(argv[i]);
            named = true;
            ok &= n && run(n, seconds, evaluations);
        }
    }
    for (uint32_t k = 0; !named && k < figure_network_count; k++)
        ok &= run(&figure_networks[k], seconds, evaluations);
    return !ok;
}
