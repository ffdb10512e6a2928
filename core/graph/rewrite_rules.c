/* The rules of rules.def, and the search for matches. O(operators x sum of readers squared), in practice linear. */
#include <string.h>

#include "base/digest.h"
#include "graph/ops_priv.h"
#include "graph/rewrite_priv.h"

/* ---- facts of the graph ---- */

static size_t slot_of(const struct mg_rewrite_source *s, const char *name)
{
    size_t at = (size_t)mg_hash_bytes(name, strlen(name), 0).lo & (s->slot_count - 1);
    while (s->op_slots[at] != MG_NONE && strcmp(s->g->ops[s->op_slots[at]].name, name) != 0)
        at = (at + 1) & (s->slot_count - 1);
    return at;
}

mg_op mg_rewrite_op_named(const struct mg_rewrite_source *s, const char *name)
{
    return s->op_slots[slot_of(s, name)];
}

void mg_rewrite_prepare(struct mg_rewrite_source *s)
{
    const struct mg_graph *g = s->g;
    for (s->slot_count = 16; s->slot_count < 2 * g->op_count;)
        s->slot_count *= 2;
    s->op_slots = MG_NEW_ARRAY(&s->scratch, mg_op, s->slot_count);
    memset(s->op_slots, 0xff, s->slot_count * sizeof *s->op_slots);
    s->overwritten = MG_NEW_ARRAY(&s->scratch, bool, g->value_count);
    s->taken = MG_NEW_ARRAY(&s->scratch, bool, g->op_count);
    for (mg_op op = 0; op < g->op_count; op++) {
        const struct mg_op_info *info = &g->ops[op];
        s->op_slots[slot_of(s, info->name)] = op;
        if (info->in_place >= 0)
            s->overwritten[g->values[info->in[info->in_place]].base] = true;
    }
}

const char *mg_rewrite_fresh(struct mg_rewrite_source *s, mg_op op, const char *suffix)
{
    const char *base = s->g->ops[op].name;
    const char *name = mg_arena_printf(s->arena, "%s.%s", base, suffix);
    for (unsigned n = 2; mg_rewrite_op_named(s, name) != MG_NONE || mg_graph_find_value(s->g, name) != MG_NONE; n++)
        name = mg_arena_printf(s->arena, "%s.%s%u", base, suffix, n);
    return name;
}

bool mg_rewrite_is_inner(const struct mg_rewrite_source *s, mg_value v)
{
    return !s->g->values[v].is_output && s->g->values[v].update_of == MG_NONE && !s->overwritten[v];
}

static const struct mg_rewrite_rule rules[] = {
#define MG_RULE(id, ...) {__VA_ARGS__},
#include "graph/rules.def"
#undef MG_RULE
};
enum { RULES = sizeof rules / sizeof rules[0] };

const struct mg_rewrite_rule *mg_rewrite_rule_named(const char *name)
{
    for (uint32_t r = 0; r < RULES; r++)
        if (strcmp(rules[r].name, name) == 0)
            return &rules[r];
    return NULL;
}

bool mg_rewrite_is_rule(const char *rule)
{
    return mg_rewrite_rule_named(rule) != NULL;
}

/* ---- matches ---- */

struct finder {
    struct mg_rewrite_source s;
    bool joins;
    struct mg_rewrite_match *matches;
    size_t count, capacity;
    struct mg_rewrite_match **out;
    uint32_t *out_count;
};

static bool is_free(const struct finder *f, const struct mg_rewrite_app *app)
{
    for (uint32_t i = 0; i < app->removed_count; i++)
        if (f->s.taken[app->removed[i]])
            return false;
    return true;
}

static enum mg_code match_at(struct finder *f, mg_op at, const struct mg_rewrite_rule *rule, struct mg_error *err)
{
    struct mg_rewrite_app app = {.rule = rule};
    if (!rule->find(&f->s, at, &app) || !rule->fits(&f->s, &app) || !is_free(f, &app))
        return MG_OK;
    for (uint32_t i = 0; i < app.removed_count; i++)
        f->s.taken[app.removed[i]] = true;
    struct mg_rewrite_match *match = MG_PUSH(f->s.arena, f->matches, f->count, f->capacity);
    match->ops = app.ops;
    match->op_count = app.op_count;
    match->joins = rule->joins;
    rule->name_added(&f->s, &app);
    return mg_rewrite_record(&f->s, &app, &match->edit, err);
}

static enum mg_code find(void *context, struct mg_error *err)
{
    struct finder *f = context;
    const struct mg_graph *g = f->s.g;
    mg_rewrite_prepare(&f->s);
    for (uint32_t r = 0; r < RULES; r++)
        for (mg_op op = 0; op < g->op_count; op++)
            if (!f->s.taken[op] && (f->joins || !rules[r].joins))
                MG_TRY(match_at(f, op, &rules[r], err));
    *f->out = f->matches;
    *f->out_count = (uint32_t)f->count;
    return MG_OK;
}

static enum mg_code find_with_scratch(void *context, struct mg_error *err)
{
    struct finder *f = context;
    return mg_arena_guard(&f->s.scratch, find, f, err);
}

enum mg_code mg_rewrite_find(const struct mg_graph *g, bool joins, struct mg_arena *arena,
                             struct mg_rewrite_match **out, uint32_t *count, struct mg_error *err)
{
    struct finder f = {.s = {.g = g, .arena = arena}, .joins = joins, .out = out, .out_count = count};
    mg_arena_init(&f.s.scratch, SIZE_MAX);
    enum mg_code code = mg_arena_guard(arena, find_with_scratch, &f, err);
    mg_arena_release(&f.s.scratch);
    return code;
}
