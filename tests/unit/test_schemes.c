/* Memory of a search: what schemes give back, and that they come again as they were; what a published plan takes. */
#include <criterion/criterion.h>
#include <string.h>

#include "search/front.h"
#include "search/microbatch.h"
#include "search/searcher.h"
#include "zoo/zoo.h"

static double clock_of(void *context)
{
    (void)context;
    return 0;
}
static const struct mg_observer quiet = {.now = clock_of};

struct bench {
    struct mg_arena arena, scratch;
    struct mg_graph *g;
    struct mg_search_options options;
    struct mg_searcher s;
    struct mg_region region; /* the whole step, in parts */
};

static void open_bench(struct bench *b)
{
    static const struct mg_zoo_option options[] = {{"variant", "paper"}, {"batch", "12"}, {"seq_len", "16"}};
    struct mg_training training = {MG_LOSS_SQUARED, MG_OPTIMIZER_SGD, NULL, 0};
    struct mg_graph *forward;
    struct mg_error err;
    memset(b, 0, sizeof *b);
    mg_arena_init(&b->arena, SIZE_MAX);
    mg_arena_init(&b->scratch, SIZE_MAX);
    cr_assert_eq(mg_zoo_build("bert-tiny", options, 3, &b->arena, &forward, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_differentiate(forward, &training, &b->arena, &forward, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_graph_normalise(forward, &b->arena, &b->g, &err), MG_OK, "%s", err.message);
    b->options = (struct mg_search_options){
        .device = mg_device_builtin("rtx3090"), .max_evaluations = 100, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    b->s = (struct mg_searcher){.options = &b->options, .observer = &quiet, .arena = &b->arena, .scratch = &b->scratch};
}

static void close_bench(struct bench *b)
{
    mg_searcher_release(&b->s);
    mg_arena_release(&b->scratch);
    mg_arena_release(&b->arena);
}

static const struct mg_scheme *in_parts(struct bench *b, uint32_t parts)
{
    struct mg_error err = {0};
    b->region.parts = parts;
    const struct mg_scheme *scheme = mg_searcher_scheme(&b->s, &b->region, 1, &err);
    cr_assert_not_null(scheme, "%s", err.message);
    return scheme;
}

static double seconds_of(const struct bench *b, const struct mg_scheme *scheme)
{
    double sum = 0;
    for (uint32_t op = 0; op < b->s.p->op_count; op++)
        sum += scheme->seconds[0][op] + 3 * scheme->seconds[1][op];
    return sum;
}

static enum mg_code give_back(void *context, struct mg_error *err)
{
    struct bench *b = context;
    struct mg_schemes *all = &b->s.schemes;
    cr_assert_eq(mg_searcher_init(&b->s, b->g, err), MG_OK);
    cr_assert(mg_microbatch_region(&b->s, &b->region, err), "%s", err->message);
    const struct mg_scheme *none = mg_searcher_scheme(&b->s, NULL, 0, err);
    const struct mg_scheme *two = in_parts(b, 2), *three = in_parts(b, 3), *four = in_parts(b, 4);
    double seconds = seconds_of(b, two);
    struct mg_hash128 hash = three->hash;
    cr_assert(in_parts(b, 2) == two && in_parts(b, 4) == four && all->count == 4);

    struct mg_list list = mg_list_new(b->s.arena, b->s.pool.capacity);
    struct mg_state *state = mg_pool_copy(&b->s.pool, three, &list, (struct mg_cost){0});
    mg_schemes_sweep(all, &b->s.pool);
    cr_assert_eq(all->count, 4, "there is room");
    all->room = 0;
    size_t before = b->arena.used;
    mg_schemes_sweep(all, &b->s.pool);
    cr_assert_eq(all->count, 2);
    cr_assert_lt(b->arena.used, before, "memory is given back");
    cr_assert(mg_searcher_scheme(&b->s, NULL, 0, err) == none && in_parts(b, 3) == three && all->count == 2);
    cr_assert(three->hash.lo == hash.lo && three->hash.hi == hash.hi);
    cr_assert_eq(seconds_of(b, in_parts(b, 2)), seconds, "built again as it was");

    mg_pool_drop(&b->s.pool, state);
    all->room = 0;
    mg_schemes_sweep(all, &b->s.pool);
    cr_assert_eq(all->count, 1);
    return MG_OK;
}

static enum mg_code give_back_within(void *context, struct mg_error *err)
{
    struct bench *b = context;
    return mg_arena_guard(&b->scratch, give_back, b, err);
}

Test(schemes, what_no_state_goes_by_is_given_back)
{
    struct bench b;
    struct mg_error err;
    open_bench(&b);
    cr_assert_eq(mg_arena_guard(&b.arena, give_back_within, &b, &err), MG_OK, "%s", err.message);
    close_bench(&b);
}

static enum mg_code build_without_room(void *context, struct mg_error *err)
{
    struct bench *b = context;
    cr_assert_eq(mg_searcher_init(&b->s, b->g, err), MG_OK);
    cr_assert(mg_microbatch_region(&b->s, &b->region, err), "%s", err->message);
    in_parts(b, 2);
    b->arena.limit = b->arena.used + 1000;
    in_parts(b, 3);
    return MG_OK;
}

static enum mg_code build_without_room_within(void *context, struct mg_error *err)
{
    struct bench *b = context;
    return mg_arena_guard(&b->scratch, build_without_room, b, err);
}

Test(schemes, memory_that_runs_out_ends_the_search)
{
    struct bench b;
    struct mg_error err;
    open_bench(&b);
    cr_assert_eq(mg_arena_guard(&b.arena, build_without_room_within, &b, &err), MG_ERR_NOMEM);
    close_bench(&b);
}

static size_t size_of(const struct mg_plan *plan)
{
    size_t size = plan->instance_count * sizeof *plan->instances + plan->step_count * sizeof *plan->steps;
    size += plan->storage_count * sizeof *plan->storages + plan->ref_count * sizeof *plan->refs;
    for (size_t i = 0; i < plan->price_count; i++)
        size += sizeof *plan->prices + strlen(plan->prices[i].signature) + 32;
    return size;
}

static enum mg_code publish(void *context, struct mg_error *err)
{
    enum { PLANS = 64 };
    struct bench *b = context;
    struct mg_plan *original;
    struct mg_point point;
    size_t before = 0;
    cr_assert_eq(mg_searcher_init(&b->s, b->g, err), MG_OK);
    cr_assert_eq(mg_plan_original(b->g, b->options.device, &b->arena, &original, err), MG_OK);
    b->s.memo.arena = &b->arena;
    b->s.original = (struct mg_cost){.latency = original->figures.latency_s, .peak = original->figures.peak_bytes};
    b->s.original_arena = original->figures.arena_bytes;
    struct mg_list list = mg_list_new(b->s.arena, b->s.pool.capacity);
    struct mg_state state = {.scheme = mg_searcher_scheme(&b->s, NULL, 0, err)};
    cr_assert_eq(mg_list_from_scheme(b->s.p, state.scheme, NULL, &b->scratch, &list, err), MG_OK);
    state.list = list;
    state.cost = mg_evaluate(&b->s.evaluator, state.scheme, &list);
    for (int i = 0; i <= PLANS; i++) {
        cr_assert_eq(mg_front_publish(&b->s, &state, false, &point, err), MG_OK, "%s", err->message);
        before = i ? before : b->arena.used; /* the first one fills what the checker remembers */
    }
    size_t took = b->arena.used - before, least = PLANS * size_of(point.plan);
    cr_expect_lt(took, least + least / 4 + (1 << 20), "%zu bytes, %zu at least", took, least);
    return MG_OK;
}

static enum mg_code publish_within(void *context, struct mg_error *err)
{
    struct bench *b = context;
    return mg_arena_guard(&b->scratch, publish, b, err);
}

Test(schemes, a_published_plan_takes_its_own_size)
{
    struct bench b;
    struct mg_error err;
    open_bench(&b);
    cr_assert_eq(mg_arena_guard(&b.arena, publish_within, &b, &err), MG_OK, "%s", err.message);
    close_bench(&b);
}
