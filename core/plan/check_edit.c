/* The checker's view of a plan's edits. What remat and swap do stands in the steps and is proven there; the list names
 * each of them, in the steps' order, and nothing else. Rewrites of the graph carry their own proof: they are applied
 * once more, from the original graph and their bindings alone (once for all plans that have the same), every condition
 * checked, and all that follows is judged against the graph that comes of it. Each rule is an identity of real numbers
 * (tests/unit/test_rewrite.c), though not of rounded ones. */
#include <string.h>

#include "plan/check_priv.h"

static bool check_rule(struct mg_check *c, size_t e)
{
    const struct mg_edit *edit = &c->plan->edits[e];
    MG_CHECK(edit->rule && edit->binding && edit->removed && edit->added, c, MG_NONE, "form", "edit %zu is incomplete",
             e);
    if (!strcmp(edit->rule, "remat") || !strcmp(edit->rule, "swap"))
        return true;
    MG_CHECK(mg_rewrite_is_rule(edit->rule), c, MG_NONE, "edit", "edit %zu: rule '%.40s' is not known", e, edit->rule);
    MG_CHECK(c->plan->numerics != MG_NUMERICS_EXACT, c, MG_NONE, "edit",
             "edit %zu: '%.40s' may change roundings, the plan says exact", e, edit->rule);
    return true;
}

static bool same_edits(const struct mg_edit *a, const struct mg_edit *b, size_t count)
{
    for (size_t e = 0; e < count; e++)
        if (strcmp(a[e].rule, b[e].rule) != 0 || strcmp(a[e].binding, b[e].binding) != 0 ||
            strcmp(a[e].removed, b[e].removed) != 0 || strcmp(a[e].added, b[e].added) != 0)
            return false;
    return true;
}

/* The rewrites among the plan's edits. */
struct rewrites {
    const struct mg_check *c;
    struct mg_edit *edits;
    size_t count;
    struct mg_graph *edited;
};

static void find_rewrites(struct mg_check *c, struct rewrites *r)
{
    *r = (struct rewrites){.c = c, .edits = MG_NEW_ARRAY(c->arena, struct mg_edit, c->plan->edit_count)};
    for (size_t e = 0; e < c->plan->edit_count; e++)
        if (mg_rewrite_is_rule(c->plan->edits[e].rule))
            r->edits[r->count++] = c->plan->edits[e];
}

static bool recall(struct rewrites *r)
{
    const struct mg_check_memo *memo = r->c->memo;
    for (uint32_t i = 0; memo && i < memo->count; i++)
        if (memo->edit_count[i] == r->count && same_edits(memo->edits[i], r->edits, r->count))
            r->edited = memo->edited[i];
    return r->edited != NULL;
}

static enum mg_code remember(void *context, struct mg_error *err)
{
    struct rewrites *r = context;
    struct mg_check_memo *memo = r->c->memo;
    struct mg_edit *edits = MG_NEW_ARRAY(memo->arena, struct mg_edit, r->count);
    for (size_t e = 0; e < r->count; e++)
        edits[e] = (struct mg_edit){
            mg_arena_strdup(memo->arena, r->edits[e].rule), mg_arena_strdup(memo->arena, r->edits[e].binding),
            mg_arena_strdup(memo->arena, r->edits[e].removed), mg_arena_strdup(memo->arena, r->edits[e].added)};
    enum mg_code code = mg_rewrite_apply(r->c->original, edits, r->count, memo->arena, &r->edited, err);
    if (code != MG_OK)
        return code;
    memo->edits[memo->count] = edits;
    memo->edit_count[memo->count] = r->count;
    memo->edited[memo->count++] = r->edited;
    return MG_OK;
}

static enum mg_code apply_rewrites(struct rewrites *r, struct mg_error *why)
{
    const struct mg_check *c = r->c;
    if (recall(r))
        return MG_OK;
    if (c->memo && c->memo->count < MG_CHECK_MEMOS)
        return mg_arena_guard(c->memo->arena, remember, r, why);
    return mg_rewrite_apply(c->original, r->edits, r->count, c->arena, &r->edited, why);
}

bool mg_check_edits(struct mg_check *c)
{
    struct rewrites r;
    struct mg_error why = {0};
    for (size_t e = 0; e < c->plan->edit_count; e++)
        if (!check_rule(c, e))
            return false;
    find_rewrites(c, &r);
    if (r.count == 0)
        return true;
    enum mg_code code = apply_rewrites(&r, &why);
    MG_CHECK(code == MG_OK, c, MG_NONE, "edit", "%s", why.message);
    c->g = r.edited;
    return true;
}

/* ---- recomputations and swaps ---- */

struct listing {
    struct mg_check *c;
    size_t next;    /* edit */
    bool *computed; /* by operator */
};

static void pass_rewrites(struct listing *l)
{
    while (l->next < l->c->plan->edit_count && mg_rewrite_is_rule(l->c->plan->edits[l->next].rule))
        l->next++;
}

static bool binds(const struct mg_edit *edit, const char *member, const char *name)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, member, name);
    mg_write_end_object(&w);
    bool same = mg_writer_finish(&w) && !strcmp(w.data, edit->binding);
    mg_writer_release(&w);
    return same;
}

/* The step is one of `rule` on what `name` names: so says the next edit. */
static bool expect(struct listing *l, uint32_t step, const char *rule, const char *member, const char *name)
{
    pass_rewrites(l);
    const struct mg_plan *p = l->c->plan;
    MG_CHECK(l->next < p->edit_count, l->c, step, "edit", "no edit lists the %s of '%.60s'", rule, name);
    const struct mg_edit *edit = &p->edits[l->next];
    MG_CHECK(!strcmp(edit->rule, rule) && binds(edit, member, name), l->c, step, "edit",
             "edit %zu is not the %s of '%.60s'", l->next, rule, name);
    MG_CHECK(!strcmp(edit->removed, "[]") && !strcmp(edit->added, "[]"), l->c, step, "edit",
             "edit %zu: a %s removes and adds nothing in the graph", l->next, rule);
    l->next++;
    return true;
}

/* A new version of a value that is at home on the host is stored without a swap. */
static bool comes_home(const struct mg_graph *g, mg_value v)
{
    mg_value old = g->values[v].update_of;
    return old != MG_NONE && g->values[old].home == MG_HOME_HOST;
}

static bool check_step(struct listing *l, uint32_t s)
{
    const struct mg_graph *g = l->c->g;
    const struct mg_step *step = &l->c->plan->steps[s];
    if (step->kind == MG_STEP_COMPUTE) {
        bool again = l->computed[step->op];
        l->computed[step->op] = true;
        return !again || expect(l, s, "remat", "op", g->ops[step->op].name);
    }
    if (step->kind != MG_STEP_STORE)
        return true;
    mg_value stored = l->c->plan->instances[mg_check_in(l->c, step)[0]].value;
    return comes_home(g, stored) || expect(l, s, "swap", "value", g->values[stored].name);
}

bool mg_check_listed(struct mg_check *c)
{
    struct listing l = {.c = c, .computed = MG_NEW_ARRAY(c->arena, bool, c->g->op_count)};
    for (uint32_t s = 0; s < c->plan->step_count; s++)
        if (!check_step(&l, s))
            return false;
    pass_rewrites(&l);
    MG_CHECK(l.next == c->plan->edit_count, c, MG_NONE, "edit", "edit %zu: no step makes this %s", l.next,
             c->plan->edits[l.next].rule);
    return true;
}
