/* Which rewrites pay: each kind of match (rule and shapes) is tried once, alone, on the whole graph, so that
 * joins and the copies that parts need are in the balance. What it must save is modelled time; what it may
 * hold is at most the size of the operand that is shared. */
#include "search/variant.h"

#include <string.h>

struct kind {
    struct mg_hash128 hash;
    bool pays;
};

/* Of the seconds of a search, for trying; as much again for building what pays. */
static const double TRY_SHARE = 1.0 / 10;
/* For each operator of the graph; until one has been tried. */
static const double TRY_S = 1e-5;

struct chooser {
    struct mg_searcher *s;
    const struct mg_problem *p; /* the original */
    struct mg_arena *arena;
    struct kind *kinds;
    size_t kind_count, kind_capacity;
    double latency; /* of the original */
    double try_seconds;
    bool late; /* nothing more is tried */
};

static double latency_of(const struct chooser *c, const struct mg_graph *g, struct mg_arena *scratch)
{
    double seconds = 0;
    for (mg_op op = 0; op < g->op_count; op++) {
        struct mg_op_desc desc;
        struct mg_error ignored;
        if (!g->ops[op].is_view && mg_op_describe(g, op, NULL, 0, scratch, &desc, &ignored) == MG_OK)
            seconds += mg_pricer_quote(c->p->pricer, c->p->device, &desc, NULL).seconds;
    }
    return seconds;
}

static struct mg_hash128 hash_of(const struct mg_graph *g, const struct mg_rewrite_match *match)
{
    struct mg_hash128 h = mg_hash_bytes(match->edit.rule, strlen(match->edit.rule), 0);
    for (uint32_t i = 0; i < match->op_count; i++) {
        const struct mg_op_info *op = &g->ops[match->ops[i]];
        for (uint32_t k = 0; k < op->in_count; k++) {
            const struct mg_value_info *v = &g->values[op->in[k]];
            h = mg_hash_bytes(&h, sizeof h, h.lo);
            h = mg_hash_add(h, mg_hash_bytes(v->shape.dim, v->shape.rank * sizeof *v->shape.dim, i));
        }
    }
    return h;
}

static bool allowed(const struct chooser *c, const struct mg_rewrite_match *match)
{
    const struct mg_graph *g = c->p->g;
    uint64_t joined = 0;
    for (uint32_t i = 0; i < match->op_count; i++) {
        joined += match->joins ? g->values[g->ops[match->ops[i]].in[1]].bytes : 0;
        if (c->p->forbidden[match->ops[i]])
            return false; /* constraints name operators that would no longer be there */
    }
    return !match->joins || joined <= g->values[g->ops[match->ops[0]].in[0]].bytes;
}

static enum mg_code tried_pays(struct chooser *c, const struct mg_rewrite_match *match, bool *pays,
                               struct mg_error *err)
{
    const struct mg_observer *o = c->s->observer;
    struct mg_graph *edited;
    struct mg_arena_mark mark = mg_arena_mark(c->arena);
    double before = o->now(o->context);
    enum mg_code code = mg_rewrite_apply(c->p->g, &match->edit, 1, c->arena, &edited, err);
    *pays = code == MG_OK && latency_of(c, edited, c->arena) < c->latency;
    mg_arena_rewind(c->arena, mark);
    c->try_seconds = o->now(o->context) - before;
    return code;
}

static enum mg_code match_pays(struct chooser *c, const struct mg_rewrite_match *match, bool *pays,
                               struct mg_error *err)
{
    struct mg_hash128 hash = hash_of(c->p->g, match);
    *pays = false;
    if (!allowed(c, match))
        return MG_OK;
    for (size_t k = 0; k < c->kind_count; k++)
        if (c->kinds[k].hash.lo == hash.lo && c->kinds[k].hash.hi == hash.hi) {
            *pays = c->kinds[k].pays;
            return MG_OK;
        }
    c->late = c->late || !mg_searcher_fits(c->s, TRY_SHARE, c->try_seconds);
    if (c->late)
        return MG_OK;
    enum mg_code code = tried_pays(c, match, pays, err);
    *MG_PUSH(c->arena, c->kinds, c->kind_count, c->kind_capacity) = (struct kind){hash, *pays};
    return code;
}

static enum mg_code build_edited(const struct chooser *c, const struct mg_edit *edits, uint32_t count, bool joins,
                                 struct mg_problem **out, struct mg_error *err)
{
    struct mg_graph *edited;
    enum mg_code code = mg_rewrite_apply(c->p->g, edits, count, c->arena, &edited, err);
    if (code == MG_OK)
        code = mg_problem_build(edited, c->s->options, c->arena, c->s->scratch, out, err);
    if (code != MG_OK)
        return code;
    (*out)->original = c->p->g;
    (*out)->edits = edits;
    (*out)->edit_count = count;
    (*out)->variant = joins ? 2 : 1;
    return MG_OK;
}

/* One variant; *out stays NULL where there is nothing to gain. */
static enum mg_code build_variant(struct chooser *c, bool joins, struct mg_problem **out, struct mg_error *err)
{
    struct mg_searcher *s = c->s;
    struct mg_rewrite_match *matches;
    uint32_t count, kept = 0, joining = 0;
    enum mg_code code = mg_rewrite_find(c->p->g, joins, s->arena, &matches, &count, err);
    if (code != MG_OK || count == 0)
        return code;
    struct mg_edit *edits = MG_NEW_ARRAY(s->arena, struct mg_edit, count);
    for (uint32_t i = 0; i < count && code == MG_OK; i++) {
        bool pays;
        code = match_pays(c, &matches[i], &pays, err);
        if (code == MG_OK && pays) {
            edits[kept++] = matches[i].edit;
            joining += matches[i].joins;
        }
    }
    if (code != MG_OK || kept == 0 || (joins && joining == 0) ||
        !mg_searcher_fits(s, 2 * TRY_SHARE, 2 * c->try_seconds))
        return code;
    return build_edited(c, edits, kept, joins, out, err);
}

/* ---- of a search that goes on ---- */

static bool same_edit(const struct mg_edit *a, const struct mg_edit *b)
{
    return !strcmp(a->rule, b->rule) && !strcmp(a->binding, b->binding) && !strcmp(a->removed, b->removed) &&
           !strcmp(a->added, b->added);
}

bool mg_variant_has(const struct mg_problem *p, const struct mg_plan *plan)
{
    uint32_t at = 0;
    for (size_t e = 0; e < plan->edit_count; e++) {
        if (!mg_rewrite_is_rule(plan->edits[e].rule))
            continue;
        if (at == p->edit_count || !same_edit(&plan->edits[e], &p->edits[at]))
            return false;
        at++;
    }
    return at == p->edit_count;
}

static bool is_known(const struct mg_searcher *s, const struct mg_plan *plan)
{
    for (uint32_t v = 0; v < s->variant_count; v++)
        if (mg_variant_has(s->variants[v].p, plan))
            return true;
    return false;
}

/* A plan whose rewrites this graph does not take is another graph's, and passed over. */
static enum mg_code build_started(const struct chooser *c, const struct mg_plan *plan, struct mg_problem **out,
                                  struct mg_error *err)
{
    struct mg_edit *edits = MG_NEW_ARRAY(c->arena, struct mg_edit, plan->edit_count);
    uint32_t count = 0;
    for (size_t e = 0; e < plan->edit_count; e++)
        if (mg_rewrite_is_rule(plan->edits[e].rule))
            edits[count++] = plan->edits[e];
    enum mg_code code = build_edited(c, edits, count, c->s->variant_count > 1, out, err);
    return code == MG_ERR_INVALID ? MG_OK : code;
}

static enum mg_code take_from_starts(const struct chooser *c, struct mg_error *err)
{
    struct mg_searcher *s = c->s;
    enum mg_code code = MG_OK;
    for (uint32_t i = 0; i < s->options->start_count && s->variant_count < MG_VARIANTS_MAX && code == MG_OK; i++) {
        const struct mg_plan *plan = s->options->starts[i];
        struct mg_problem **out = &s->variants[s->variant_count].p;
        if (strcmp(plan->graph_digest, s->g->digest) != 0 || is_known(s, plan))
            continue;
        code = build_started(c, plan, out, err);
        s->variant_count += *out != NULL;
    }
    return code;
}

enum mg_code mg_variants_build(struct mg_searcher *s, struct mg_error *err)
{
    const struct mg_graph *g = s->g;
    struct chooser c = {.s = s, .p = s->variants[0].p, .arena = s->arena, .try_seconds = TRY_S * (double)g->op_count};
    enum mg_code code = MG_OK;
    if (!(s->options->techniques & MG_TECHNIQUE_REWRITE) || s->options->numerics == MG_NUMERICS_EXACT)
        return MG_OK;
    code = take_from_starts(&c, err);
    if (code != MG_OK || s->variant_count > 1)
        return code;
    struct mg_arena_mark mark = mg_arena_mark(s->arena);
    c.latency = latency_of(&c, g, s->arena);
    mg_arena_rewind(s->arena, mark);
    for (uint32_t joins = 0; joins < 2 && code == MG_OK && mg_searcher_fits(s, TRY_SHARE, c.try_seconds); joins++) {
        struct mg_problem **out = &s->variants[s->variant_count].p;
        code = build_variant(&c, joins, out, err);
        s->variant_count += *out != NULL;
    }
    return code;
}
