/* What one exact re-evaluation costs: latency and peak of a changed step list of bert-base. Lists are
 * edited at random (recomputation, swaps), a different one is evaluated each time. Target: 10 us. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "search/microbatch.h"
#include "tests/unit/figures.h"

enum { LISTS = 64, ROUNDS = 20, EDITS = 6 };

struct bench {
    struct mg_arena arena, scratch;
    struct mg_graph *g;
    struct mg_searcher s;
    struct mg_list list[LISTS];
};

static double no_clock(void *context)
{
    (void)context;
    return 0;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* One recomputation or swap at a random step, as the search makes them. */
static void edit(struct mg_searcher *s, const struct mg_scheme *scheme, struct mg_list *list, struct mg_list *spare)
{
    struct mg_chain chain;
    mg_spans_build(&s->spans, s->p, scheme, list);
    uint32_t at = (uint32_t)mg_rng_below(&s->rng, list->count);
    uint32_t gaps = mg_gaps_at(&s->spans, s->p, scheme, list, at, s->scratch, s->gaps);
    if (gaps == 0)
        return;
    const struct mg_gap *gap = &s->gaps[mg_rng_below(&s->rng, gaps)];
    bool swap = mg_rng_below(&s->rng, 2) == 0;
    bool done = swap ? mg_may_swap(s, scheme, gap->root) && mg_edit_swap(&s->spans, list, gap, false, spare)
                     : mg_chain_find(&s->spans, s->p, scheme, gap, &chain) && mg_edit_remat(list, gap, &chain, spare);
    if (!done)
        return;
    mg_edit_place_copies(&s->evaluator, scheme, spare, s->scratch);
    mg_list_copy(list, spare);
}

static bool make_lists(struct bench *b, const struct mg_scheme *scheme, struct mg_error *err)
{
    struct mg_searcher *s = &b->s;
    struct mg_list spare = mg_list_new(s->arena, s->pool.capacity);
    for (uint32_t i = 0; i < LISTS; i++) {
        b->list[i] = mg_list_new(s->arena, s->pool.capacity);
        if (i > 0)
            mg_list_copy(&b->list[i], &b->list[i - 1]);
        else if (mg_list_from_scheme(s->p, scheme, NULL, s->scratch, &b->list[0], err) != MG_OK)
            return false;
        for (uint32_t k = 0; i > 0 && k < EDITS; k++)
            edit(s, scheme, &b->list[i], &spare);
    }
    return true;
}

/* The least of several rounds: what it costs where nobody disturbs. */
static void measure(struct bench *b, const struct mg_scheme *scheme, const char *what)
{
    struct mg_searcher *s = &b->s;
    double best = 1e300;
    uint64_t peaks = 0;
    uint32_t steps = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        double start = seconds();
        for (uint32_t i = 0; i < LISTS; i++)
            peaks += mg_evaluate(&s->evaluator, scheme, &b->list[i]).peak;
        double took = (seconds() - start) / LISTS;
        best = took < best ? took : best;
    }
    for (uint32_t i = 0; i < LISTS; i++)
        steps += b->list[i].count / LISTS;
    printf("mg_evaluate, bert-base, %s: %.2f us a list of %u steps (target 10) %s [%llx]\n", what, best * 1e6, steps,
           best <= 10e-6 ? "ok" : "MISSED", (unsigned long long)peaks);
}

static enum mg_code run(void *context, struct mg_error *err)
{
    struct bench *b = context;
    struct mg_searcher *s = &b->s;
    struct mg_region region;
    enum mg_code code = figure_graph(figure_network_find("bert-base"), &b->arena, &b->g, err);
    if (code == MG_OK)
        code = mg_searcher_init(s, b->g, err);
    if (code != MG_OK)
        return code;
    const struct mg_scheme *whole = mg_searcher_scheme(s, NULL, 0, err);
    if (whole && make_lists(b, whole, err))
        measure(b, whole, "no regions");
    const struct mg_scheme *parts = NULL;
    if (mg_microbatch_region(s, &region, err)) {
        region.parts = 6;
        parts = mg_searcher_scheme(s, &region, 1, err);
    }
    if (parts && make_lists(b, parts, err))
        measure(b, parts, "6 parts");
    mg_searcher_release(s);
    return whole && parts ? MG_OK : err->code;
}

static enum mg_code run_guarded(void *context, struct mg_error *err)
{
    struct bench *b = context;
    return mg_arena_guard(&b->scratch, run, b, err);
}

int main(void)
{
    struct bench b = {0};
    struct mg_error err = {0};
    const struct mg_search_options options = {
        .device = mg_device_builtin("rtx3090"), .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    const struct mg_observer observer = {.now = no_clock};
    mg_arena_init(&b.arena, SIZE_MAX);
    mg_arena_init(&b.scratch, SIZE_MAX);
    b.s = (struct mg_searcher){.options = &options, .observer = &observer, .arena = &b.arena, .scratch = &b.scratch};
    enum mg_code code = mg_arena_guard(&b.arena, run_guarded, &b, &err);
    if (code != MG_OK)
        fprintf(stderr, "%s\n", err.message);
    mg_arena_release(&b.scratch);
    mg_arena_release(&b.arena);
    return code != MG_OK;
}
