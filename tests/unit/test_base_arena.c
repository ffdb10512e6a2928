#include <criterion/criterion.h>
#include <string.h>

#include "base/arena.h"

static void expect_error(const struct mg_error *err, enum mg_code code, const char *part)
{
    cr_assert_eq(err->code, code, "code is %s", mg_code_name(err->code));
    cr_assert(strstr(err->message, part), "message is '%s'", err->message);
}

Test(error, fills_and_truncates)
{
    struct mg_error err;
    char pointer[400];
    memset(pointer, 'p', sizeof pointer - 1);
    pointer[sizeof pointer - 1] = 0;
    cr_assert_eq(mg_fail(&err, MG_ERR_LIMIT, pointer, "%d of %s", 7, "nine"), MG_ERR_LIMIT);
    expect_error(&err, MG_ERR_LIMIT, "7 of nine");
    cr_assert_eq(strlen(err.pointer), sizeof err.pointer - 1);
    cr_assert_eq(mg_fail(NULL, MG_ERR_INVALID, "", "unheard"), MG_ERR_INVALID);
}

Test(error, wraps_its_own_message)
{
    struct mg_error err;
    enum mg_code code = mg_fail(&err, MG_ERR_INVALID, "/ops/1", "inner");
    code = mg_fail(&err, code, err.pointer, "outer: %s", err.message);
    cr_assert_eq(code, MG_ERR_INVALID);
    cr_assert_str_eq(err.message, "outer: inner");
    cr_assert_str_eq(err.pointer, "/ops/1");
}

Test(error, names_every_code_once)
{
    for (int a = MG_OK; a <= MG_ERR_INTERNAL; a++) {
        cr_assert_str_neq(mg_code_name((enum mg_code)a), "unknown");
        for (int b = MG_OK; b < a; b++)
            cr_assert_str_neq(mg_code_name((enum mg_code)a), mg_code_name((enum mg_code)b));
    }
}

static enum mg_code use_arena(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    (void)err;
    for (size_t size = 0; size < 5000; size += 37) {
        unsigned char *at = mg_arena_alloc(arena, size);
        cr_assert_eq((uintptr_t)at % 16, 0);
        for (size_t i = 0; i < size; i++)
            cr_assert_eq(at[i], 0);
        memset(at, 0xee, size);
    }
    return MG_OK;
}

Test(arena, gives_zeroed_aligned_memory_again_after_rewind)
{
    struct mg_arena arena;
    struct mg_error err;
    mg_arena_init(&arena, SIZE_MAX);
    for (int round = 0; round < 3; round++) {
        struct mg_arena_mark mark = mg_arena_mark(&arena);
        cr_assert_eq(mg_arena_guard(&arena, use_arena, &arena, &err), MG_OK);
        cr_assert_gt(arena.used, 300000);
        mg_arena_rewind(&arena, mark);
        cr_assert_eq(arena.used, 0);
    }
    cr_assert_gt(arena.peak, 300000);
    mg_arena_release(&arena);
}

static enum mg_code use_text(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    (void)err;
    char *one = mg_arena_strdup(arena, "one");
    char *two = mg_arena_printf(arena, "%s-%d", one, 2);
    char *wide = mg_arena_printf(arena, "%*d", 3000, 5);
    int *copy = mg_arena_copy(arena, (int[]){1, 2, 3}, 3 * sizeof(int));
    cr_assert_str_eq(one, "one");
    cr_assert_str_eq(two, "one-2");
    cr_assert_eq(strlen(wide), 3000);
    cr_assert_eq(wide[2999], '5');
    cr_assert_eq(copy[2], 3);
    return MG_OK;
}

Test(arena, copies_and_formats)
{
    struct mg_arena arena;
    struct mg_error err;
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&arena, use_text, &arena, &err), MG_OK);
    mg_arena_release(&arena);
    cr_assert_eq(arena.used, 0);
}

/* Two arrays growing in turn cannot be widened in place, one alone can. */
static enum mg_code grow_arrays(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    (void)err;
    int *a = NULL, *b = NULL;
    size_t a_count = 0, a_capacity = 0, b_count = 0, b_capacity = 0;
    for (int i = 0; i < 1000; i++) {
        *MG_PUSH(arena, a, a_count, a_capacity) = i;
        if (i < 500)
            *MG_PUSH(arena, b, b_count, b_capacity) = -i;
    }
    cr_assert_eq(a_count, 1000);
    cr_assert_geq(a_capacity, 1000);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(a[i], i);
    for (int i = 0; i < 500; i++)
        cr_assert_eq(b[i], -i);
    for (size_t i = a_count; i < a_capacity; i++)
        cr_assert_eq(a[i], 0);
    return MG_OK;
}

Test(arena, grows_arrays)
{
    struct mg_arena arena;
    struct mg_error err;
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&arena, grow_arrays, &arena, &err), MG_OK);
    mg_arena_release(&arena);
}

static enum mg_code exhaust(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    (void)err;
    for (int i = 0; i < 1000000; i++)
        mg_arena_alloc(arena, 100);
    return MG_OK;
}

Test(arena, stays_within_its_budget)
{
    size_t limits[] = {0, 50, 200, 4096, 5000, 100000, 3000000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct mg_arena arena;
        struct mg_error err = {0};
        mg_arena_init(&arena, limits[i]);
        cr_assert_eq(mg_arena_guard(&arena, exhaust, &arena, &err), MG_ERR_NOMEM);
        expect_error(&err, MG_ERR_NOMEM, "out of memory");
        cr_assert_leq(arena.peak, limits[i]);
        cr_assert_null(arena.guard);
        mg_arena_release(&arena);
        cr_assert_eq(arena.used, 0);
    }
}

static enum mg_code alternate(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    (void)err;
    for (int i = 0; i < 100000; i++) {
        mg_arena_alloc(arena, 100);
        mg_arena_alloc(arena->payer, 100);
    }
    return MG_OK;
}

static enum mg_code guard_payer(void *context, struct mg_error *err)
{
    struct mg_arena *arena = context;
    return mg_arena_guard(arena->payer, alternate, arena, err);
}

Test(arena, shares_the_budget_of_its_payer)
{
    struct mg_arena payer, arena;
    struct mg_error err = {0};
    mg_arena_init(&payer, 300000);
    mg_arena_init_within(&arena, &payer);
    cr_assert_eq(mg_arena_guard(&arena, guard_payer, &arena, &err), MG_ERR_NOMEM);
    expect_error(&err, MG_ERR_NOMEM, "budget 300000");
    cr_assert(arena.used > 100000 && payer.used > arena.used + 100000);
    cr_assert_leq(payer.peak, 300000);
    size_t both = payer.used, own = arena.used;
    mg_arena_release(&arena);
    cr_assert(arena.used == 0 && payer.used == both - own);
    mg_arena_release(&payer);
    cr_assert_eq(payer.used, 0);
}

static enum mg_code overflow_product(void *context, struct mg_error *err)
{
    (void)err;
    mg_arena_calloc(context, SIZE_MAX / 2, 3);
    return MG_OK;
}

static enum mg_code overflow_size(void *context, struct mg_error *err)
{
    (void)err;
    mg_arena_alloc(context, SIZE_MAX - 3);
    return MG_OK;
}

struct nest {
    struct mg_arena *arena;
    enum mg_code inner;
};

static enum mg_code nest_guards(void *context, struct mg_error *err)
{
    struct nest *nest = context;
    nest->inner = mg_arena_guard(nest->arena, overflow_product, nest->arena, err);
    mg_arena_alloc(nest->arena, 10);
    return mg_fail(err, MG_ERR_CANCELLED, "", "outer");
}

Test(arena, refuses_overflow_and_nests_guards)
{
    struct mg_arena arena;
    struct mg_error err = {0};
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&arena, overflow_size, &arena, &err), MG_ERR_NOMEM);
    struct nest nest = {&arena, MG_OK};
    cr_assert_eq(mg_arena_guard(&arena, nest_guards, &nest, &err), MG_ERR_CANCELLED);
    cr_assert_eq(nest.inner, MG_ERR_NOMEM);
    expect_error(&err, MG_ERR_CANCELLED, "outer");
    mg_arena_release(&arena);
}
