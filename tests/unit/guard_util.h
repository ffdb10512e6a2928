/* A test body inside an arena's guard: guards need a frame of their own. */
#ifndef MG_TESTS_GUARD_UTIL_H
#define MG_TESTS_GUARD_UTIL_H

#include <criterion/criterion.h>

#include "base/arena.h"

struct guarded_body {
    void (*run)(struct mg_arena *arena);
    struct mg_arena *arena;
};

static inline enum mg_code run_guarded_body(void *context, struct mg_error *err)
{
    struct guarded_body *body = context;
    (void)err;
    body->run(body->arena);
    return MG_OK;
}

/* Fails the test where the body needs more than 2 GiB. */
static inline void guarded(void (*run)(struct mg_arena *arena))
{
    struct mg_arena arena;
    struct mg_error err;
    mg_arena_init(&arena, (size_t)2 << 30);
    struct guarded_body body = {run, &arena};
    cr_assert_eq(mg_arena_guard(&arena, run_guarded_body, &body, &err), MG_OK);
    mg_arena_release(&arena);
}

#endif
