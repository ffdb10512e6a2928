/* Posted timings: what reading them takes is little more than what they say. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/timing_parse.h"

enum { ROWS = 5000, ROOM = 160 };

struct posted {
    char *text;
    size_t size;
    struct mg_arena arena;
    struct mg_timing_batch *batches;
    size_t count;
};

static struct posted make_posted(void)
{
    struct posted p = {.text = malloc((ROWS + 1) * ROOM)};
    p.size = (size_t)sprintf(
        p.text, "{\"agent\":\"a\",\"batch\":\"b\",\"host\":\"h\",\"version\":\"1\",\"class\":{\"device\":\"d\"}}\n");
    for (int i = 0; i < ROWS; i++)
        p.size += (size_t)sprintf(p.text + p.size,
                                  "{\"row\":%d,\"op\":\"add\",\"signature\":\"f32;f32[%d],f32[%d]->f32[%d]\",\"n\":9,"
                                  "\"median_s\":1e-6,\"mad_s\":0,\"min_s\":1e-6}\n",
                                  i, i + 1, i + 1, i + 1);
    mg_arena_init(&p.arena, SIZE_MAX);
    return p;
}

static enum mg_code read_lines(void *context, struct mg_error *err)
{
    struct posted *p = context;
    return mg_timing_read(p->text, p->size, true, NULL, &p->arena, &p->batches, &p->count, err);
}

Test(timing_parse, lines_leave_only_what_they_say)
{
    struct posted p = make_posted();
    struct mg_error err;
    cr_assert_eq(mg_arena_guard(&p.arena, read_lines, &p, &err), MG_OK, "%s", err.message);
    cr_assert(p.count == 1 && p.batches[0].n_rows == ROWS);
    memset(p.text, '#', p.size);
    cr_expect(!strcmp(p.batches[0].agent, "a") && !strcmp(p.batches[0].class.model, "d") &&
              !strcmp(p.batches[0].host, "h"));
    for (int i = 0; i < ROWS; i++) {
        const struct mg_timing_row *row = &p.batches[0].rows[i];
        char signature[64];
        snprintf(signature, sizeof signature, "f32;f32[%d],f32[%d]->f32[%d]", i + 1, i + 1, i + 1);
        cr_assert(!strcmp(row->op, "add") && !strcmp(row->signature, signature) && row->row == (uint32_t)i);
    }
    cr_expect_lt(p.arena.peak, (size_t)ROWS * 1000, "%zu bytes for each row", p.arena.peak / ROWS);
    mg_arena_release(&p.arena);
    free(p.text);
}

Test(timing_parse, a_spread_above_its_median_is_refused)
{
    char text[400];
    for (int wide = 0; wide < 2; wide++) {
        struct posted p = {.text = text};
        struct mg_error err = {0};
        p.size = (size_t)sprintf(text,
                                 "{\"agent\":\"a\",\"batch\":\"b\",\"class\":{\"device\":\"d\"}}\n"
                                 "{\"row\":0,\"op\":\"add\",\"signature\":\"f32;f32[1],f32[1]->f32[1]\",\"n\":9,"
                                 "\"median_s\":1e-6,\"mad_s\":%s,\"min_s\":1e-6}\n",
                                 wide ? "1.1e-6" : "1e-6");
        mg_arena_init(&p.arena, SIZE_MAX);
        enum mg_code code = mg_arena_guard(&p.arena, read_lines, &p, &err);
        cr_expect_eq(code, wide ? MG_ERR_INVALID : MG_OK);
        cr_expect(!wide || strstr(err.message, "line 2: mad_s is above median_s"), "%s", err.message);
        mg_arena_release(&p.arena);
    }
}

Test(timing_parse, too_little_memory_is_an_error_and_leaves_nothing)
{
    struct posted p = make_posted();
    for (size_t limit = 1 << 10; limit < (size_t)1 << 22; limit *= 2) { /* under ASan nothing may be left */
        struct mg_error err = {0};
        mg_arena_init(&p.arena, limit);
        enum mg_code code = mg_arena_guard(&p.arena, read_lines, &p, &err);
        cr_expect(code == MG_ERR_NOMEM || code == MG_ERR_INVALID || (code == MG_OK && limit > 1 << 20), "%zu: %d %s",
                  limit, code, err.message);
        mg_arena_release(&p.arena);
    }
    free(p.text);
}

static enum mg_code read_text(void *context, struct mg_error *err)
{
    struct posted *p = context;
    return mg_timing_read(p->text, p->size, false, NULL, &p->arena, &p->batches, &p->count, err);
}

/* The clock that a row was measured at. */
static enum mg_code code_of_clock(const char *clock, struct mg_error *err)
{
    char text[512];
    snprintf(
        text, sizeof text,
        "{\"agent\":\"a\",\"batch\":\"b\",\"host\":\"h\",\"version\":\"1\",\"class\":{\"device\":\"d\"},\"rows\":[{"
        "\"row\":0,\"op\":\"add\",\"signature\":\"f32;f32[2],f32[2]->f32[2]\",\"n\":9,\"median_s\":1e-6,"
        "\"mad_s\":0,\"min_s\":1e-6,\"clock_mhz\":%s}]}",
        clock);
    struct posted p = {.text = text, .size = strlen(text)};
    mg_arena_init(&p.arena, SIZE_MAX);
    enum mg_code code = mg_arena_guard(&p.arena, read_text, &p, err);
    mg_arena_release(&p.arena);
    return code;
}

Test(timing_parse, a_clock_is_one)
{
    static const char *const good[] = {"0", "1980", "1597.5"}, *const bad[] = {"-1", "1e6", "1e308"};
    for (int i = 0; i < 3; i++) {
        struct mg_error err = {0};
        cr_expect_eq(code_of_clock(good[i], &err), MG_OK, "%s: %s", good[i], err.message);
        cr_expect_eq(code_of_clock(bad[i], &err), MG_ERR_INVALID, "%s", bad[i]);
        cr_expect(strstr(err.message, "MHz") && strstr(err.pointer, "/clock_mhz"), "%s: %s", err.pointer, err.message);
    }
}
