/* The memory that programs and timed operators take turns in. */
#include <stdlib.h>

#include "measure/measure_priv.h"

#include <criterion/criterion.h>

enum { MIB = 1 << 20, PAGE = 2 * MIB };

static const struct mg_backend host = {.name = "host", .alloc = mg_host_alloc, .free = mg_host_free};

static struct mg_engine engine;

static void open_engine(void)
{
    engine = (struct mg_engine){.backend = &host, .properties = {.cache_bytes = MIB}};
}

static void close_engine(void)
{
    mg_engine_free(&engine, MG_PLACE_DEVICE, engine.pool);
    free(engine.allocations);
}

TestSuite(pool, .init = open_engine, .fini = close_engine);

static uint64_t take(uint64_t bytes)
{
    struct mg_error err = {0};
    void *memory;
    uint64_t turn = engine.pool_turn;
    cr_assert_eq(mg_pool_take(&engine, bytes, &memory, &err), MG_OK, "%s", err.message);
    cr_assert_neq(engine.pool_turn, turn);
    uint64_t at = (uint64_t)((char *)memory - (char *)engine.pool);
    cr_assert(at % PAGE == 0 && at + bytes <= engine.pool_bytes, "%llu", (unsigned long long)at);
    return at;
}

Test(pool, what_takes_all_begins_at_the_begin)
{
    for (int i = 0; i < 20; i++)
        cr_expect_eq(take(3 * MIB), 0u);
    cr_expect_eq(engine.pool_bytes, 3u * MIB);
}

Test(pool, what_has_room_moves)
{
    bool seen[11] = {false};
    uint32_t places = 0;
    take(20 * MIB);
    for (int i = 0; i < 40; i++)
        seen[take(1) / PAGE] = true;
    for (int i = 0; i < 11; i++)
        places += seen[i];
    cr_expect(places == 10 && !seen[10], "%u of 10 places", places);
}

/* A cache of 1 MiB: 4 of the pool are kept in any case, and what is held. */
Test(pool, more_than_anybody_holds_is_given_back)
{
    struct mg_error err;
    take(4 * MIB);
    mg_pool_trim(&engine);
    cr_expect_eq(engine.pool_bytes, 4u * MIB);
    cr_assert_eq(mg_pool_hold(&engine, 10 * MIB, &err), MG_OK);
    cr_assert_eq(mg_pool_hold(&engine, 6 * MIB, &err), MG_OK);
    mg_pool_trim(&engine);
    cr_expect_eq(engine.pool_bytes, 10u * MIB);
    take(12 * MIB);
    mg_pool_trim(&engine);
    cr_expect_eq(engine.pool_bytes, 0u, "12 MiB are more than are held");
    take(10 * MIB);
    mg_pool_let_go(&engine);
    cr_expect_eq(engine.pool_bytes, 10u * MIB);
    mg_pool_let_go(&engine);
    cr_expect(engine.pool_bytes == 0 && !engine.pool && engine.pool_holders == 0);
}

/* 8 MiB are allowed: what asks for more gets nothing, and neither holds nor leaves anything. */
Test(pool, too_much_is_refused)
{
    struct mg_error err;
    void *memory;
    engine.most_bytes = 8 * MIB;
    take(5 * MIB);
    uint64_t turn = engine.pool_turn;
    cr_expect_eq(mg_pool_take(&engine, 9 * MIB, &memory, &err), MG_ERR_NOMEM);
    cr_expect(!memory && engine.pool_turn != turn && engine.pool_bytes == 0);
    cr_expect_eq(mg_pool_hold(&engine, 9 * MIB, &err), MG_ERR_NOMEM);
    cr_expect_eq(engine.pool_holders, 0u);
    take(8 * MIB);
}
