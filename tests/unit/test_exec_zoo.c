/* Every network of the zoo, in a tiny size and in both variants, as a training step: plans upon which every kind of
 * move is forced (regions, recomputation, swaps, other orders, storage taken over, rewrites) are accepted by the
 * checker, executed literally in one arena, and give the numbers of the graph. Forward graphs with the moves that ONNX
 * can say go into ONNX models and back too. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "graph/rewrite.h"
#include "onnx_util.h"
#include "search/fission.h"
#include "search/publish.h"
#include "temp_util.h"
#include "zoo/zoo.h"

enum { SHARDS = 4, EDITS = 6, TRIES = 300, REUSE = 1 << 8 };
enum {
    EXPECTED = MG_TECHNIQUE_FISSION | MG_TECHNIQUE_REMAT | MG_TECHNIQUE_SWAP | MG_TECHNIQUE_REORDER | REUSE,
};

/* ---- tiny sizes ---- */

static const struct mg_zoo_option tiny[] = {
    {"batch", "4"},      {"image", "32"}, {"seq_len", "4"}, {"layers", "2"}, {"hidden", "8"},     {"heads", "2"},
    {"kv_heads", "1"},   {"ffn", "6"},    {"patch", "4"},   {"in", "5"},     {"vocabulary", "7"}, {"classes", "3"},
    {"filters", "2"},    {"cells", "1"},  {"length", "6"},  {"rows", "4"},   {"columns", "6"},    {"size", "24"},
    {"neighbours", "2"}, {"nodes", "6"},  {"experts", "2"}, {"every", "1"},  {"width", "0.03"},   {"dropout", "0.1"},
};
static const struct {
    const char *network;
    struct mg_zoo_option option;
} special[] = {
    {"resnet-deep", {"layers", "26"}}, {"mlp", {"layers", "3"}},        {"unet", {"image", "16"}},
    {"unet++", {"image", "16"}},       {"unet3+", {"image", "16"}},     {"nasnet-like", {"image", "8"}},
    {"lstm", {"cells", "unrolled"}},   {"vit-huge-14", {"image", "8"}}, {"vit-tiny-16", {"image", "8"}},
    {"vit-small-16", {"image", "8"}},  {"vit-base-16", {"image", "8"}}, {"vit-base-32", {"image", "8"}},
    {"vit-large-16", {"image", "8"}},
};

static const char *tiny_value(const char *network, const char *name)
{
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        if (strcmp(special[i].network, network) == 0 && strcmp(special[i].option.name, name) == 0)
            return special[i].option.value;
    for (size_t i = 0; i < sizeof tiny / sizeof tiny[0]; i++)
        if (strcmp(tiny[i].name, name) == 0)
            return tiny[i].value;
    return NULL;
}

static uint32_t tiny_options(const struct mg_zoo_entry *entry, const char *variant, bool forward,
                             struct mg_zoo_option *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < entry->parameter_count; i++) {
        const char *name = entry->parameters[i].name, *value = tiny_value(entry->name, name);
        value = strcmp(name, "variant") == 0 ? variant : value;
        if (forward && strcmp(name, "dropout") == 0)
            value = "0";
        if (value)
            out[count++] = (struct mg_zoo_option){name, value};
    }
    return count;
}

/* A device on which small tensors differ in size, and every launch that is saved pays. */
static struct mg_device small_device(void)
{
    struct mg_device device = *mg_device_builtin("rtx3090");
    device.align = 8;
    device.reserve_bytes = 0;
    device.mem_bw = 1e9;
    device.link_bw_d2h = device.link_bw_h2d = 1e9;
    device.launch_s = 1e-3;
    return device;
}

static double no_clock(void *context)
{
    (void)context;
    return 0;
}

/* ---- one network ---- */

struct bench {
    const char *name, *variant;
    struct mg_arena arena, scratch;
    struct mg_device device;
    struct mg_search_options options;
    struct mg_observer observer;
    struct mg_graph *g;
    struct mg_searcher s;
    double **given, **values; /* before and after the graph was run */
    uint32_t moves;           /* mask of mg_technique, and REUSE */
    uint32_t plans;
    bool forward; /* no training, no swaps; into ONNX too */
};

static bool has_weights(const struct mg_graph *g)
{
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].kind == MG_KIND_WEIGHT)
            return true;
    return false;
}

static void build(struct bench *b, const struct mg_zoo_entry *entry)
{
    struct mg_zoo_option options[24];
    struct mg_graph *g;
    struct mg_error err = {0};
    struct mg_training training = {.loss = MG_LOSS_SQUARED, .optimizer = MG_OPTIMIZER_SGD};
    uint32_t count = tiny_options(entry, b->variant, b->forward, options);
    enum mg_code code = mg_zoo_build(entry->name, options, count, &b->arena, &g, &err);
    if (code == MG_OK && has_weights(g) && !b->forward)
        code = mg_graph_differentiate(g, &training, &b->arena, &g, &err);
    if (code == MG_OK)
        code = mg_graph_normalise(g, &b->arena, &b->g, &err);
    cr_assert_eq(code, MG_OK, "%s: %s %s", b->name, err.pointer, err.message);
}

/* Weights are made small enough for numbers to keep their size through many layers. */
static void run_original(struct bench *b)
{
    struct mg_error err = {0};
    b->values = mg_exec_random_values(b->g, 7, 2, &b->arena);
    for (mg_value v = 0; v < b->g->value_count; v++) {
        const struct mg_value_info *info = &b->g->values[v];
        int64_t count = mg_shape_elements(&info->shape);
        for (int64_t i = 0; info->kind == MG_KIND_WEIGHT && info->shape.rank > 1 && i < count; i++)
            b->values[v][i] /= sqrt((double)(count / info->shape.dim[0]));
    }
    b->given = mg_arena_copy(&b->arena, b->values, b->g->value_count * sizeof *b->values);
    cr_assert_eq(mg_exec_graph(b->g, 7, b->values, &b->arena, &err), MG_OK, "%s: %s", b->name, err.message);
}

/* ---- moves ---- */

static bool is_reuse(const struct bench *b, const struct mg_plan *plan, const struct mg_step *step)
{
    const struct mg_graph *g = mg_plan_graph(b->g, plan);
    if (step->kind != MG_STEP_COMPUTE || g->ops[step->op].in_place >= 0 || step->out_count == 0)
        return false;
    uint32_t storage = plan->instances[plan->refs[step->out]].storage;
    for (uint32_t i = 0; i < step->in_count; i++)
        if (plan->instances[plan->refs[step->in + i]].storage == storage)
            return true;
    return false;
}

static void execute(struct bench *b, const struct mg_plan *plan)
{
    struct mg_error err = {0};
    struct mg_verdict verdict;
    double **results = MG_NEW_ARRAY(b->s.arena, double *, b->g->value_count);
    cr_assert_eq(mg_plan_check(b->g, plan, b->s.arena, &verdict, &err), MG_OK, "%s: %s", b->name, err.message);
    cr_assert(verdict.accepted, "%s, step %u: %s: %s", b->name, verdict.step, verdict.reason, verdict.message);
    enum mg_code code = mg_exec_plan(b->g, plan, 7, b->given, results, b->s.arena, &err);
    cr_assert_eq(code, MG_OK, "%s (%s): %s %s", b->name, b->variant, err.pointer, err.message);
    for (mg_value v = 0; v < b->g->value_count; v++) {
        int64_t count = mg_shape_elements(&b->g->values[v].shape);
        double largest = 0, worst = 0;
        for (int64_t i = 0; results[v] && i < count; i++) {
            largest = fmax(largest, fabs(b->values[v][i]));
            worst = fmax(worst, fabs(results[v][i] - b->values[v][i]));
        }
        cr_assert(isfinite(largest), "%s (%s): '%s' overflows", b->name, b->variant, b->g->values[v].name);
        cr_assert(worst <= 1e-8 * largest, "%s (%s): '%s' differs by %g of %g", b->name, b->variant,
                  b->g->values[v].name, worst, largest);
    }
    if (b->forward) {
        code = onnx_round_trip(b->g, plan, b->values, b->name, b->s.arena, &err);
        cr_assert_eq(code, MG_OK, "%s (%s): %s %s", b->name, b->variant, err.pointer, err.message);
    }
    for (size_t i = 0; i < plan->step_count; i++)
        b->moves |= is_reuse(b, plan, &plan->steps[i]) ? REUSE : 0;
    b->plans++;
}

/* Publishes, checks and executes a list. */
static void prove(struct bench *b, const struct mg_scheme *scheme, const struct mg_list *list)
{
    struct mg_searcher *s = &b->s;
    struct mg_arena_mark mark = mg_arena_mark(s->arena);
    struct mg_plan *plan;
    struct mg_error err = {0};
    struct mg_figures original = {s->original.latency, s->original.peak, s->original_arena, 0};
    enum mg_code code =
        mg_publish(s->p, scheme, list, MG_NUMERICS_REASSOCIATE, false, &original, s->arena, &plan, &err);
    cr_assert_eq(code, MG_OK, "%s: %s", b->name, err.message);
    b->moves |= mg_list_techniques(s->p, scheme, list, s->scratch);
    execute(b, plan);
    mg_arena_rewind(s->arena, mark);
}

/* Recomputations and swaps over random gaps, in turn. */
static void edit(struct bench *b, const struct mg_scheme *scheme, struct mg_list *list)
{
    struct mg_searcher *s = &b->s;
    struct mg_list spare = mg_list_new(s->arena, s->pool.capacity);
    uint32_t done = 0;
    for (uint32_t tries = 0; tries < TRIES && done < EDITS; tries++) {
        mg_spans_build(&s->spans, s->p, scheme, list);
        uint32_t at = (uint32_t)mg_rng_below(&s->rng, list->count);
        uint32_t gaps = mg_gaps_at(&s->spans, s->p, scheme, list, at, s->scratch, s->gaps);
        if (gaps == 0)
            continue;
        const struct mg_gap *gap = &s->gaps[mg_rng_below(&s->rng, gaps)];
        struct mg_chain chain;
        bool fits =
            done % 2 && !b->forward
                ? mg_may_swap(s, scheme, gap->root) &&
                      mg_edit_swap(&s->spans, list, gap, mg_rng_below(&s->rng, 2) == 0, &spare)
                : mg_chain_find(&s->spans, s->p, scheme, gap, &chain) && mg_edit_remat(list, gap, &chain, &spare);
        if (!fits)
            continue;
        mg_list_copy(list, &spare);
        mg_edit_place_copies(&s->evaluator, scheme, list, s->scratch);
        done++;
    }
}

static void shuffled(struct bench *b, const struct mg_scheme *scheme, bool other_order)
{
    struct mg_searcher *s = &b->s;
    struct mg_arena_mark mark = mg_arena_mark(s->arena);
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity);
    struct mg_error why = {0};
    uint32_t *rank = MG_NEW_ARRAY(s->arena, uint32_t, s->p->op_count);
    for (uint32_t op = 0; op < s->p->op_count; op++)
        rank[op] = (uint32_t)mg_rng_below(&s->rng, 1 << 20);
    cr_assert_eq(mg_list_from_scheme(s->p, scheme, other_order ? rank : NULL, s->scratch, &list, &why), MG_OK, "%s: %s",
                 b->name, why.message);
    edit(b, scheme, &list);
    prove(b, scheme, &list);
    mg_arena_rewind(s->arena, mark);
}

/* The scheme of a region in a random number of parts, if it is legal and leaves an order. */
static const struct mg_scheme *scheme_of(struct bench *b, struct mg_region region, struct mg_list *list)
{
    struct mg_searcher *s = &b->s;
    struct mg_error why = {0};
    uint32_t parts[MG_PARTS_MAX];
    region.parts = parts[mg_rng_below(&s->rng, mg_part_counts(region.length, parts))];
    const struct mg_scheme *scheme = mg_searcher_scheme(s, &region, 1, &why);
    return scheme && mg_list_from_scheme(s->p, scheme, NULL, s->scratch, list, &why) == MG_OK ? scheme : NULL;
}

/* One of the regions that the search would propose, else one of a single operator. */
static const struct mg_scheme *split(struct bench *b, const struct mg_scheme *none)
{
    struct mg_searcher *s = &b->s;
    struct mg_region candidates[MG_FISSION_MAX];
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity);
    struct mg_error why = {0};
    const struct mg_scheme *scheme = NULL;
    cr_assert_eq(mg_list_from_scheme(s->p, none, NULL, s->scratch, &list, &why), MG_OK, "%s", why.message);
    mg_evaluate(&s->evaluator, none, &list);
    uint32_t count = mg_fission_candidates(s, none, &list, s->evaluator.live_at, candidates);
    for (uint32_t tries = 0; tries < 12 && count && !scheme; tries++)
        scheme = scheme_of(b, candidates[mg_rng_below(&s->rng, count)], &list);
    for (uint32_t tries = 0; tries < TRIES && !scheme; tries++) {
        mg_op op = s->p->order[mg_rng_below(&s->rng, s->p->order_count)];
        const uint32_t *first = &s->dimensions->axis_start[op];
        if (first[1] == first[0])
            continue;
        uint32_t c = s->dimensions->component[first[0] + mg_rng_below(&s->rng, first[1] - first[0])];
        if (c != MG_NONE && mg_dimensions_region(s->dimensions, s->p->g, c, &op, 1, s->arena, candidates))
            scheme = scheme_of(b, candidates[0], &list);
    }
    return scheme;
}

/* Does each step need the one before it? */
static bool has_one_order(const struct mg_problem *p)
{
    for (uint32_t i = 1; i < p->order_count; i++) {
        bool follows = false;
        for (uint32_t k = p->pred.start[p->order[i]]; k < p->pred.start[p->order[i] + 1]; k++)
            follows = follows || p->pred.item[k] == p->order[i - 1];
        if (!follows)
            return false;
    }
    return true;
}

static void price_original(struct bench *b, const struct mg_scheme *none)
{
    struct mg_searcher *s = &b->s;
    struct mg_plan *plan;
    struct mg_error err = {0};
    struct mg_list list = mg_list_new(s->arena, s->pool.capacity);
    cr_assert_eq(mg_plan_original(b->g, &b->device, s->arena, &plan, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_list_from_scheme(s->p, none, NULL, s->scratch, &list, &err), MG_OK, "%s", err.message);
    s->evaluator.keep_apart = true;
    s->original = mg_evaluate(&s->evaluator, none, &list);
    s->evaluator.keep_apart = false;
    s->original_arena = plan->figures.arena_bytes;
    execute(b, plan);
}

static enum mg_code force_moves(void *context, struct mg_error *err)
{
    struct bench *b = context;
    struct mg_searcher *s = &b->s;
    struct mg_rewrite_match *matches;
    uint32_t match_count;
    cr_assert_eq(mg_searcher_init(s, b->g, err), MG_OK, "%s: %s", b->name, err->message);
    mg_rng_init(&s->rng, 3);
    const struct mg_scheme *none = mg_searcher_scheme(s, NULL, 0, err);
    price_original(b, none);
    shuffled(b, none, true);
    for (int i = s->p->op_count > 1000; i < 2; i++) { /* once where graphs are large */
        const struct mg_scheme *parts = split(b, none);
        cr_expect(parts, "%s (%s): nothing can be split", b->name, b->variant);
        if (parts)
            shuffled(b, parts, i == 1);
    }
    if (has_one_order(s->p))
        b->moves |= MG_TECHNIQUE_REORDER;
    for (uint32_t v = 1; v < s->variant_count; v++) {
        mg_searcher_enter(s, s->variants[v].p);
        shuffled(b, mg_searcher_scheme(s, NULL, 0, err), true);
    }
    cr_assert_eq(mg_rewrite_find(b->g, false, s->arena, &matches, &match_count, err), MG_OK, "%s", err->message);
    cr_expect(match_count == 0 || b->moves & MG_TECHNIQUE_REWRITE, "%s (%s): no rewrite was used", b->name, b->variant);
    uint32_t expected = b->forward ? MG_TECHNIQUE_FISSION : EXPECTED;
    cr_expect_eq(b->moves & expected, expected, "%s (%s): only moves %x", b->name, b->variant, b->moves);
    mg_searcher_release(s);
    return MG_OK;
}

static enum mg_code run_network(void *context, struct mg_error *err)
{
    struct bench *b = context;
    return mg_arena_guard(&b->scratch, force_moves, b, err);
}

static struct bench prove_network(const struct mg_zoo_entry *entry, const char *variant, bool forward)
{
    struct bench b = {.name = entry->name, .variant = variant, .device = small_device(), .forward = forward};
    struct mg_error err = {0};
    b.observer.now = no_clock;
    b.options = (struct mg_search_options){.device = &b.device, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    mg_arena_init(&b.arena, SIZE_MAX);
    mg_arena_init(&b.scratch, SIZE_MAX);
    b.s =
        (struct mg_searcher){.options = &b.options, .observer = &b.observer, .arena = &b.arena, .scratch = &b.scratch};
    build(&b, entry);
    run_original(&b);
    cr_assert_eq(mg_arena_guard(&b.arena, run_network, &b, &err), MG_OK, "%s: %s", b.name, err.message);
    mg_arena_release(&b.arena);
    mg_arena_release(&b.scratch);
    return b;
}

static bool has_variants(const struct mg_zoo_entry *entry)
{
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        if (strcmp(entry->parameters[i].name, "variant") == 0)
            return true;
    return false;
}

/* Every SHARDS-th network, from `first` on: the tests run side by side. */
static void prove_shard(uint32_t first)
{
    uint32_t plans = 0, networks = 0;
    for (uint32_t i = first; i < mg_zoo_count(); i += SHARDS, networks++) {
        plans += prove_network(mg_zoo_at(i), "real", false).plans;
        if (has_variants(mg_zoo_at(i)))
            plans += prove_network(mg_zoo_at(i), "paper", false).plans;
    }
    cr_expect_gt(networks, 10);
    cr_expect_geq(plans, 4 * networks, "%u plans of %u networks", plans, networks);
}

Test(exec_zoo, plans_of_every_network_first_quarter)
{
    prove_shard(0);
}

Test(exec_zoo, plans_of_every_network_second_quarter)
{
    prove_shard(1);
}

Test(exec_zoo, plans_of_every_network_third_quarter)
{
    prove_shard(2);
}

Test(exec_zoo, plans_of_every_network_last_quarter)
{
    prove_shard(3);
}

Test(exec_zoo, forward_plans_as_onnx_models)
{
    char path[200], command[300];
    uint32_t plans = 0, moves = 0;
    temp_name(path, sizeof path, "onnx");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    onnx_models = fdopen(fd, "wb");
    for (uint32_t i = 0; i < mg_zoo_count(); i++) {
        if (strcmp(mg_zoo_at(i)->name, "figure6") == 0)
            continue; /* part of a training step */
        /* the other variants update statistics, or draw random numbers */
        struct bench b = prove_network(mg_zoo_at(i), "paper", true);
        plans += b.plans;
        moves |= b.moves;
    }
    cr_expect_eq(moves & (EXPECTED & ~(uint32_t)MG_TECHNIQUE_SWAP), EXPECTED & ~(uint32_t)MG_TECHNIQUE_SWAP);
    cr_expect_geq(plans, 4 * mg_zoo_count());
    cr_assert_eq(fclose(onnx_models), 0);
    snprintf(command, sizeof command, "/usr/bin/python3 tests/e2e/libcheckonnx.py %s %u", path, plans);
    int status = system(command);
    unlink(path);
    cr_expect_eq(status, 0, "%s: status %d", command, status);
}
