/* The independent checker (MODEL.md, The checker): a plan is accepted only if order, meaning and
 * figures follow from the graph and the plan alone. See check_walk.c for the argument by which one look
 * at a region's body stands for all of its parts, and check_time.c for the one about durations.
 *
 * Reasons: form graph device edit numerics | region nesting axis length parts connected impure combiner |
 * order freed version value scope residency load store storage bytes shape view layout in-place |
 * unwritten partial acc join slice output leak | price workspace | overlap align |
 * peak arena host latency original size. */
#include <stdio.h>
#include <string.h>

#include "plan/check_priv.h"

bool mg_check_refuse(struct mg_check *c, uint32_t step, const char *reason, const char *fmt, ...)
{
    struct mg_verdict *v = c->verdict;
    va_list args;
    v->accepted = false;
    v->step = step;
    snprintf(v->reason, sizeof v->reason, "%s", reason);
    va_start(args, fmt);
    vsnprintf(v->message, sizeof v->message, fmt, args);
    va_end(args);
    return false;
}

static bool figures_agree(struct mg_check *c)
{
    const struct mg_figures *mine = &c->verdict->figures, *stated = &c->plan->figures;
    MG_CHECK(mine->peak_bytes == stated->peak_bytes, c, MG_NONE, "peak", "peak %llu bytes, stated %llu",
             (unsigned long long)mine->peak_bytes, (unsigned long long)stated->peak_bytes);
    MG_CHECK(mine->arena_bytes == stated->arena_bytes, c, MG_NONE, "arena", "arena %llu bytes, stated %llu",
             (unsigned long long)mine->arena_bytes, (unsigned long long)stated->arena_bytes);
    MG_CHECK(mine->host_bytes == stated->host_bytes, c, MG_NONE, "host", "host %llu bytes, stated %llu",
             (unsigned long long)mine->host_bytes, (unsigned long long)stated->host_bytes);
    double difference = mine->latency_s - stated->latency_s;
    MG_CHECK(difference <= 1e-9 * mine->latency_s && -difference <= 1e-9 * mine->latency_s, c, MG_NONE, "latency",
             "latency %.12g s, stated %.12g s", mine->latency_s, stated->latency_s);
    return true;
}

static enum mg_code check(void *context, struct mg_error *err)
{
    struct mg_check *c = context;
    (void)err;
    c->verdict->accepted = mg_check_head(c) && mg_check_edits(c) && mg_check_form(c) && mg_check_regions(c) &&
                           mg_check_walk(c) && mg_check_listed(c) && mg_check_prices(c) && mg_check_memory(c) &&
                           mg_check_time(c) && figures_agree(c) && mg_check_original(c);
    return MG_OK;
}

const char *mg_verdict_place(const struct mg_verdict *verdict, char text[40])
{
    if (verdict->step == MG_NONE)
        return "the plan";
    snprintf(text, 40, "step %u of the plan", verdict->step);
    return text;
}

enum mg_code mg_plan_check_with(const struct mg_graph *g, const struct mg_plan *plan, struct mg_check_memo *memo,
                                struct mg_arena *arena, struct mg_verdict *out, struct mg_error *err)
{
    memset(out, 0, sizeof *out);
    out->step = MG_NONE;
    struct mg_check c = {.memo = memo, .original = g, .g = g, .plan = plan, .arena = arena, .verdict = out};
    struct mg_arena_mark mark = mg_arena_mark(arena);
    enum mg_code code = mg_arena_guard(arena, check, &c, err);
    mg_arena_rewind(arena, mark);
    if (code != MG_OK)
        out->accepted = false;
    return code;
}

enum mg_code mg_plan_check(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena,
                           struct mg_verdict *out, struct mg_error *err)
{
    return mg_plan_check_with(g, plan, NULL, arena, out, err);
}
