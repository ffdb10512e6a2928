/* Placement: the public instances of google/minimalloc, brute force on tiny ones, very many, plans. */
#include <stdio.h>
#include <stdlib.h>

#include "plan/place_priv.h"
#include "tests/unit/plan_util.h"

static struct mg_buffer *read_csv(const char *path, size_t *count, struct mg_arena *arena)
{
    char line[256];
    struct mg_buffer *buffers = MG_NEW_ARRAY(arena, struct mg_buffer, 1000);
    FILE *file = fopen(path, "r");
    *count = 0;
    cr_assert_not_null(file, "%s", path);
    cr_assert_not_null(fgets(line, sizeof line, file));
    while (fgets(line, sizeof line, file)) {
        unsigned lower, upper;
        unsigned long size;
        char *rest = strchr(line, ',');
        cr_assert(rest && sscanf(rest, ",%u,%u,%lu", &lower, &upper, &size) == 3, "%s", line);
        buffers[(*count)++] = (struct mg_buffer){size, lower, upper, 0};
    }
    fclose(file);
    return buffers;
}

static uint64_t max_live(const struct mg_buffer *b, size_t count)
{
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t live = 0;
        for (size_t k = 0; k < count; k++)
            live += b[k].lower <= b[i].lower && b[i].lower < b[k].upper ? b[k].bytes : 0;
        most = live > most ? live : most;
    }
    return most;
}

static void expect_valid(const struct mg_buffer *b, size_t count, uint64_t align, uint64_t arena)
{
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(b[i].offset % align, 0);
        cr_assert_leq(b[i].offset + b[i].bytes, arena);
        for (size_t k = 0; k < i; k++) {
            bool meet = b[i].lower < b[k].upper && b[k].lower < b[i].upper && b[i].lower < b[i].upper &&
                        b[k].lower < b[k].upper && b[i].bytes && b[k].bytes;
            bool apart = b[i].offset + b[i].bytes <= b[k].offset || b[k].offset + b[k].bytes <= b[i].offset;
            cr_assert(!meet || apart, "%zu and %zu overlap", k, i);
        }
    }
}

static uint64_t place_file(const char *name, uint64_t effort)
{
    struct mg_arena arena;
    struct mg_error err;
    char path[100];
    size_t count;
    uint64_t height = 0;
    mg_arena_init(&arena, SIZE_MAX);
    snprintf(path, sizeof path, "tests/data/placement/%s", name);
    struct mg_buffer *buffers = NULL;
    buffers = read_csv(path, &count, &arena);
    cr_assert_eq(mg_place_with(buffers, count, 1, effort, &height, &arena, &err), MG_OK);
    expect_valid(buffers, count, 1, height);
    mg_arena_release(&arena);
    return height;
}

/* All reach what is known to be possible (expected.tsv). */
Test(plan_place, public_instances)
{
    cr_expect_eq(place_file("A.1048576.csv", MG_PLACE_EFFORT), 1048576);
    cr_expect_eq(place_file("B.1048576.csv", MG_PLACE_HARD), 1048576);
    cr_expect_eq(place_file("C.1048576.csv", MG_PLACE_EFFORT), 1039360);
    cr_expect_eq(place_file("E.1048576.csv", MG_PLACE_HARD), 1048576);
    cr_expect_eq(place_file("F.1048576.csv", MG_PLACE_EFFORT), 1048576);
    cr_expect_eq(place_file("input.12.csv", MG_PLACE_EFFORT), 12);
}

Test(plan_place, same_answer_every_time)
{
    cr_expect_eq(place_file("B.1048576.csv", 3000000), place_file("B.1048576.csv", 3000000));
    cr_expect_leq(place_file("B.1048576.csv", MG_PLACE_EFFORT), 1048576 * 5 / 4);
    cr_expect_leq(place_file("E.1048576.csv", MG_PLACE_EFFORT), 1048576 * 5 / 4);
    cr_expect_leq(place_file("E.1048576.csv", 0), 1048576 * 3 / 2);
}

/* ---- brute force: every packing that is pushed down comes from first fit in some order ---- */
static uint64_t first_fit(struct mg_buffer *b, const uint32_t *order, size_t count)
{
    uint64_t height = 0;
    for (size_t i = 0; i < count; i++) {
        struct mg_buffer *item = &b[order[i]];
        item->offset = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (size_t k = 0; k < i; k++) {
                const struct mg_buffer *o = &b[order[k]];
                if (item->lower < o->upper && o->lower < item->upper && item->offset < o->offset + o->bytes &&
                    o->offset < item->offset + item->bytes) {
                    item->offset = o->offset + o->bytes;
                    moved = true;
                }
            }
        }
        height = item->offset + item->bytes > height ? item->offset + item->bytes : height;
    }
    return height;
}

static uint64_t brute_force(struct mg_buffer *b, uint32_t *order, size_t at, size_t count)
{
    if (at == count)
        return first_fit(b, order, count);
    uint64_t best = UINT64_MAX;
    for (size_t i = at; i < count; i++) {
        uint32_t swap = order[at];
        order[at] = order[i];
        order[i] = swap;
        uint64_t height = brute_force(b, order, at + 1, count);
        best = height < best ? height : best;
        order[i] = order[at];
        order[at] = swap;
    }
    return best;
}

Test(plan_place, small_ones_are_optimal)
{
    struct mg_rng rng;
    struct mg_arena arena;
    struct mg_error err;
    mg_arena_init(&arena, SIZE_MAX);
    mg_rng_init(&rng, 3);
    for (int i = 0; i < 1500; i++) {
        struct mg_arena_mark mark = mg_arena_mark(&arena);
        struct mg_buffer b[7], copy[7];
        uint32_t order[7] = {0, 1, 2, 3, 4, 5, 6};
        uint64_t height;
        size_t count = 3 + mg_rng_below(&rng, 5);
        for (size_t k = 0; k < count; k++) {
            uint32_t lower = (uint32_t)mg_rng_below(&rng, 7);
            b[k] = (struct mg_buffer){1 + mg_rng_below(&rng, 4), lower, lower + 1 + (uint32_t)mg_rng_below(&rng, 4), 0};
        }
        memcpy(copy, b, sizeof copy);
        cr_assert_eq(mg_place(b, count, 1, &height, &arena, &err), MG_OK);
        expect_valid(b, count, 1, height);
        uint64_t best = brute_force(copy, order, 0, count);
        cr_assert_eq(height, best, "case %d: %lu, possible %lu", i, height, best);
        mg_arena_rewind(&arena, mark);
    }
    mg_arena_release(&arena);
}

/* Rare ones that cannot be packed at the lower bound. */
Test(plan_place, some_exceed_the_bound)
{
    struct mg_buffer cases[][8] = {
        {{4, 0, 3, 0},
         {2, 1, 4, 0},
         {3, 0, 1, 0},
         {4, 7, 8, 0},
         {4, 4, 8, 0},
         {1, 2, 5, 0},
         {1, 1, 5, 0},
         {2, 3, 5, 0}},
        {{2, 1, 4, 0},
         {3, 7, 8, 0},
         {3, 0, 3, 0},
         {1, 4, 6, 0},
         {2, 3, 6, 0},
         {2, 1, 5, 0},
         {2, 3, 5, 0},
         {5, 5, 8, 0}},
        {{1, 4, 6, 0},
         {3, 3, 4, 0},
         {3, 7, 8, 0},
         {5, 1, 3, 0},
         {3, 1, 5, 0},
         {2, 1, 6, 0},
         {4, 3, 8, 0},
         {5, 5, 8, 0}},
    };
    struct mg_arena arena;
    struct mg_error err;
    mg_arena_init(&arena, SIZE_MAX);
    for (int i = 0; i < 3; i++) {
        struct mg_buffer copy[8];
        uint32_t order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        uint64_t height;
        memcpy(copy, cases[i], sizeof copy);
        cr_assert_eq(mg_place(cases[i], 8, 1, &height, &arena, &err), MG_OK);
        expect_valid(cases[i], 8, 1, height);
        cr_expect_eq(height, max_live(copy, 8) + 1);
        cr_expect_eq(height, brute_force(copy, order, 0, 8));
    }
    mg_arena_release(&arena);
}

Test(plan_place, odd_buffers)
{
    struct mg_arena arena;
    struct mg_error err;
    uint64_t height;
    mg_arena_init(&arena, SIZE_MAX);
    struct mg_buffer b[] = {{0, 0, 10, 7}, {100, 5, 5, 7}, {1, 0, 10, 0}, {513, 2, 3, 0}, {512, 4, 9, 0}};
    cr_assert_eq(mg_place(b, 5, 512, &height, &arena, &err), MG_OK);
    expect_valid(b, 5, 512, height);
    cr_expect_eq(height, 512 + 1024);
    cr_expect_eq(b[0].offset, 0);
    cr_expect_eq(b[1].offset, 0);
    cr_assert_eq(mg_place(NULL, 0, 512, &height, &arena, &err), MG_OK);
    cr_expect_eq(height, 0);
    struct mg_buffer huge[] = {{UINT64_MAX / 2, 0, 1, 0}, {UINT64_MAX / 2, 0, 1, 0}};
    cr_expect_eq(mg_place(huge, 2, 512, &height, &arena, &err), MG_ERR_LIMIT);
    mg_arena_release(&arena);
}

/* Nested lifetimes as in a training step, 5,000 buffers, a third of them resident. */
Test(plan_place, many_buffers)
{
    enum { COUNT = 5000 };
    struct mg_arena arena;
    struct mg_error err;
    struct mg_rng rng;
    uint64_t height;
    mg_arena_init(&arena, SIZE_MAX);
    mg_rng_init(&rng, 9);
    struct mg_buffer *b = MG_NEW_ARRAY(&arena, struct mg_buffer, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t bytes = 512 * (1 + mg_rng_below(&rng, 20)) * (mg_rng_below(&rng, 4) ? 1 : 100);
        uint32_t life = mg_rng_below(&rng, 2) ? 2 * (COUNT - i) : 1 + (uint32_t)mg_rng_below(&rng, 8);
        b[i] = i % 3 == 0 ? (struct mg_buffer){bytes, 0, 2 * COUNT, 0} : (struct mg_buffer){bytes, i, i + life, 0};
        b[i].upper = b[i].upper > 2 * COUNT ? 2 * COUNT : b[i].upper;
    }
    cr_assert_eq(mg_place(b, COUNT, 512, &height, &arena, &err), MG_OK);
    expect_valid(b, COUNT, 512, height);
    cr_expect_leq(height, max_live(b, COUNT) + max_live(b, COUNT) / 100);
    mg_arena_release(&arena);
}

/* A workspace is a storage of its step and overlaps nothing that lives then. */
Test(plan_place, workspaces_are_placed)
{
    struct bench b;
    struct mg_plan *plan = NULL;
    bench_open(&b);
    figure2(&b, 4, 32, 1024);
    cr_assert_eq(mg_plan_original(b.n, mg_device_builtin("h200"), &b.arena, &plan, &b.err), MG_OK);
    size_t count = plan->storage_count;
    uint64_t peak = plan->figures.peak_bytes;
    struct mg_storage *more = MG_NEW_ARRAY(&b.arena, struct mg_storage, count + 7);
    memcpy(more, plan->storages, count * sizeof *more);
    plan->storages = more;
    for (size_t p = 0; p < plan->price_count; p++)
        plan->prices[p].workspace = 1000;
    for (size_t s = 0; s < plan->step_count; s++)
        if (plan->steps[s].kind == MG_STEP_COMPUTE)
            more[plan->storage_count++] = (struct mg_storage){.bytes = 1024};
    struct mg_simulation sim;
    cr_assert_eq(mg_plan_simulate(b.n, plan, &b.arena, &sim, &b.err), MG_OK);
    cr_expect_eq(sim.peak_bytes, peak + 1024); /* a storage, so rounded up */
    cr_assert_eq(mg_plan_place(plan, &b.arena, &b.err), MG_OK);
    cr_expect_eq(plan->figures.arena_bytes, peak + 1024);
    bench_close(&b);
}

/* The rule of place_online.c by looking at everything: the smallest gap among what is alive, else above all. */
static uint64_t naive_fit(const struct mg_placement *p, const uint32_t *order, size_t at)
{
    const struct mg_place_item *item = &p->items[order[at]];
    uint64_t top = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    for (;;) { /* top: the end of what was passed; next: the lowest that reaches above it */
        const struct mg_place_item *next = NULL;
        for (size_t k = 0; k < at; k++) {
            const struct mg_place_item *other = &p->items[order[k]];
            if (other->upper > item->lower && other->offset >= top && (!next || other->offset < next->offset))
                next = other;
        }
        if (!next)
            return best == UINT64_MAX ? top : best;
        uint64_t gap = next->offset - top;
        if (gap >= item->size && gap < best_gap) {
            best = top;
            best_gap = gap;
        }
        top = next->offset + next->size;
    }
}

static int by_begin(const void *a, const void *b, void *items)
{
    const struct mg_place_item *x = (struct mg_place_item *)items + *(const uint32_t *)a;
    const struct mg_place_item *y = (struct mg_place_item *)items + *(const uint32_t *)b;
    return x->lower != y->lower ? (x->lower > y->lower) - (x->lower < y->lower) : (x > y) - (x < y);
}

Test(plan_place, online_is_best_fit_among_what_is_alive)
{
    enum { COUNT = 300 };
    struct mg_arena arena;
    struct mg_rng rng;
    mg_arena_init(&arena, SIZE_MAX);
    for (int round = 0; round < 200; round++) {
        struct mg_place_item items[COUNT];
        uint64_t trial[COUNT], height = 0;
        uint32_t order[COUNT];
        struct mg_placement p = {.items = items, .count = COUNT, .trial = trial};
        mg_rng_init(&rng, (uint64_t)round);
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t lower = (uint32_t)mg_rng_below(&rng, 200),
                     life = 1 + (uint32_t)mg_rng_below(&rng, round % 2 ? 10 : 100);
            items[i] =
                (struct mg_place_item){.size = 1 + mg_rng_below(&rng, 50), .lower = lower, .upper = lower + life};
            order[i] = i;
        }
        qsort_r(order, COUNT, sizeof *order, by_begin, items);
        uint64_t found = mg_place_online(&p, order, &arena);
        for (size_t i = 0; i < COUNT; i++) {
            items[order[i]].offset = naive_fit(&p, order, i);
            cr_assert_eq(trial[order[i]], items[order[i]].offset, "round %d, item %zu", round, i);
            uint64_t end = items[order[i]].offset + items[order[i]].size;
            height = end > height ? end : height;
        }
        cr_assert_eq(found, height);
    }
    mg_arena_release(&arena);
}

Test(plan_place, very_many_buffers)
{
    enum { COUNT = 8000 };
    struct mg_arena arena;
    struct mg_error err;
    struct mg_rng rng;
    uint64_t bytes;
    mg_arena_init(&arena, SIZE_MAX);
    mg_rng_init(&rng, 5);
    struct mg_buffer *b = MG_NEW_ARRAY(&arena, struct mg_buffer, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) { /* a training step: activations nested, gradients short */
        bool kept = i < COUNT / 2;
        uint32_t lower = kept ? i : COUNT / 2 + (uint32_t)mg_rng_below(&rng, COUNT / 2);
        b[i] = (struct mg_buffer){1000 + mg_rng_below(&rng, 9000), lower, kept ? COUNT - i : lower + 3, 0};
    }
    cr_assert_eq(mg_place(b, COUNT, 256, &bytes, &arena, &err), MG_OK);
    expect_valid(b, COUNT, 256, bytes);
    uint64_t bound = max_live(b, COUNT);
    cr_assert(bytes >= bound && bytes < bound + bound / 10, "%lu for %lu", bytes, bound);
    mg_arena_release(&arena);
}
