/* The rules of rules.def, and the search for matches: for every operator the later readers of its first
 * operand that the rule lets join it. O(sum of readers squared), in practice linear. */
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
    for (mg_op op = 0; op < g->op_count; op++) {
        const struct mg_op_info *info = &g->ops[op];
        s->op_slots[slot_of(s, info->name)] = op;
        if (info->in_place >= 0)
            s->overwritten[g->values[info->in[info->in_place]].base] = true;
    }
}

/* ---- conditions ---- */

static bool same_attr(const struct mg_attr *a, const struct mg_attr *b)
{
    if (a->key != b->key || a->type != b->type)
        return false;
    switch (a->type) {
    case MG_ATTR_TYPE_INT:
        return a->i == b->i;
    case MG_ATTR_TYPE_FLOAT:
        return a->f == b->f;
    case MG_ATTR_TYPE_INTS:
        return a->count == b->count && memcmp(a->ints, b->ints, a->count * sizeof *a->ints) == 0;
    default:
        return strcmp(a->string, b->string) == 0;
    }
}

static bool same_call(const struct mg_op_info *a, const struct mg_op_info *b)
{
    if (a->type != b->type || a->in_count != b->in_count || a->in[0] != b->in[0] || a->attr_count != b->attr_count)
        return false;
    for (uint32_t i = 0; i < a->attr_count; i++)
        if (!same_attr(&a->attrs[i], &b->attrs[i]))
            return false;
    return true;
}

/* Equal dtype and, but for one dimension, equal shapes. */
static bool alike(const struct mg_graph *g, mg_value a, mg_value b, uint32_t axis)
{
    const struct mg_value_info *x = &g->values[a], *y = &g->values[b];
    if (x->dtype != y->dtype || x->shape.rank != y->shape.rank || axis >= x->shape.rank)
        return false;
    for (uint32_t d = 0; d < x->shape.rank; d++)
        if (d != axis && x->shape.dim[d] != y->shape.dim[d])
            return false;
    return true;
}

/* May the value become a part of a wider one? */
static bool may_be_part(const struct mg_rewrite_source *s, mg_value v)
{
    return !s->g->values[v].is_output && s->g->values[v].update_of == MG_NONE && !s->overwritten[v];
}

static struct mg_rewrite_axes axes_of_matmul(const struct mg_graph *g, mg_op op)
{
    const struct mg_op_info *info = &g->ops[op];
    uint32_t rank = g->values[info->in[1]].shape.rank;
    bool transposed = mg_op_attr_int(info, MG_ATTR_TRANS_B) != 0;
    return (struct mg_rewrite_axes){rank - (transposed ? 2 : 1), g->values[info->out[0]].shape.rank - 1};
}

static struct mg_rewrite_axes axes_of_conv(const struct mg_graph *g, mg_op op)
{
    (void)g;
    (void)op;
    return (struct mg_rewrite_axes){0, 1};
}

static bool operands_alike(const struct mg_graph *g, mg_op first, mg_op other, struct mg_rewrite_axes axes)
{
    const struct mg_op_info *a = &g->ops[first], *b = &g->ops[other];
    return same_call(a, b) && alike(g, a->in[1], b->in[1], axes.operand) && alike(g, a->out[0], b->out[0], axes.result);
}

static bool is_matrix_product(const struct mg_graph *g, mg_op op)
{
    const struct mg_op_info *info = &g->ops[op];
    return info->type == MG_OP_MATMUL && g->values[info->in[0]].shape.rank >= 2 &&
           g->values[info->in[1]].shape.rank >= 2;
}

static bool fits_matmul(const struct mg_rewrite_source *s, mg_op first, mg_op other)
{
    const struct mg_graph *g = s->g;
    return is_matrix_product(g, first) && is_matrix_product(g, other) &&
           operands_alike(g, first, other, axes_of_matmul(g, first)) && may_be_part(s, g->ops[first].out[0]) &&
           may_be_part(s, g->ops[other].out[0]);
}

mg_op mg_rewrite_bias_add(const struct mg_graph *g, mg_op op)
{
    mg_value product = g->ops[op].out[0];
    const struct mg_value_info *info = &g->values[product];
    if (info->reader_count != 1 || info->is_output)
        return MG_NONE;
    const struct mg_op_info *add = &g->ops[info->readers[0]];
    if (add->type != MG_OP_ADD || add->in[0] != product || add->in[1] == product)
        return MG_NONE;
    const struct mg_value_info *bias = &g->values[add->in[1]];
    bool vector = bias->shape.rank == 1 && bias->shape.dim[0] == info->shape.dim[info->shape.rank - 1] &&
                  bias->dtype == info->dtype;
    return vector ? info->readers[0] : MG_NONE;
}

static bool ends_in_bias(const struct mg_rewrite_source *s, mg_op op)
{
    mg_op add = mg_rewrite_bias_add(s->g, op);
    return add != MG_NONE && s->g->ops[add].in_place < 0 && may_be_part(s, s->g->ops[add].out[0]);
}

static bool fits_linear(const struct mg_rewrite_source *s, mg_op first, mg_op other)
{
    return fits_matmul(s, first, other) && ends_in_bias(s, first) && ends_in_bias(s, other) &&
           s->g->values[s->g->ops[mg_rewrite_bias_add(s->g, first)].in[1]].dtype ==
               s->g->values[s->g->ops[mg_rewrite_bias_add(s->g, other)].in[1]].dtype;
}

static bool fits_conv(const struct mg_rewrite_source *s, mg_op first, mg_op other)
{
    const struct mg_graph *g = s->g;
    const struct mg_op_info *a = &g->ops[first], *b = &g->ops[other];
    return a->type == MG_OP_CONV && b->type == MG_OP_CONV && mg_op_attr_int(a, MG_ATTR_GROUP) == 1 &&
           operands_alike(g, first, other, axes_of_conv(g, first)) &&
           (a->in_count < 3 || alike(g, a->in[2], b->in[2], 0)) && may_be_part(s, a->out[0]) &&
           may_be_part(s, b->out[0]);
}

static const struct mg_rewrite_rule rules[] = {
#define MG_RULE(id, name, fits, axes, biased) [MG_RULE_##id] = {name, fits, axes, biased},
#include "graph/rules.def"
#undef MG_RULE
};

const struct mg_rewrite_rule *mg_rewrite_rule(enum mg_rewrite_rule_id id)
{
    return &rules[id];
}

const struct mg_rewrite_rule *mg_rewrite_rule_named(const char *name)
{
    for (uint32_t r = 0; r < MG_RULE_COUNT; r++)
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
    bool *taken; /* by operator */
    struct mg_rewrite_match *matches;
    size_t count, capacity;
    struct mg_rewrite_match **out;
    uint32_t *out_count;
};

static bool is_given(const struct mg_graph *g, mg_op op, const struct mg_rewrite_rule *rule)
{
    const struct mg_op_info *info = &g->ops[op];
    for (uint32_t i = 1; i < info->in_count; i++)
        if (g->values[info->in[i]].kind == MG_KIND_COMPUTED)
            return false;
    return !rule->biased || g->values[g->ops[mg_rewrite_bias_add(g, op)].in[1]].kind != MG_KIND_COMPUTED;
}

static enum mg_code match_at(struct finder *f, mg_op first, const struct mg_rewrite_rule *rule, struct mg_error *err)
{
    const struct mg_graph *g = f->s.g;
    if (!rule->fits(&f->s, first, first) || !is_given(g, first, rule))
        return MG_OK;
    const struct mg_value_info *shared = &g->values[g->ops[first].in[0]];
    mg_op *ops = MG_NEW_ARRAY(f->s.arena, mg_op, shared->reader_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < shared->reader_count; i++) {
        mg_op other = shared->readers[i];
        if (other >= first && !f->taken[other] && rule->fits(&f->s, first, other) && is_given(g, other, rule))
            ops[count++] = other;
    }
    if (count < 2)
        return MG_OK;
    for (uint32_t i = 0; i < count; i++)
        f->taken[ops[i]] = true;
    struct mg_rewrite_app app = {.rule = rule, .ops = ops, .op_count = count};
    struct mg_rewrite_match *match = MG_PUSH(f->s.arena, f->matches, f->count, f->capacity);
    match->ops = ops;
    match->op_count = count;
    mg_rewrite_name(&f->s, &app);
    return mg_rewrite_record(&f->s, &app, &match->edit, err);
}

static enum mg_code find(void *context, struct mg_error *err)
{
    struct finder *f = context;
    const struct mg_graph *g = f->s.g;
    mg_rewrite_prepare(&f->s);
    f->taken = MG_NEW_ARRAY(&f->s.scratch, bool, g->op_count);
    for (mg_op op = 0; op < g->op_count; op++)
        for (uint32_t r = 0; r < MG_RULE_COUNT && !f->taken[op]; r++)
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

enum mg_code mg_rewrite_find(const struct mg_graph *g, struct mg_arena *arena, struct mg_rewrite_match **out,
                             uint32_t *count, struct mg_error *err)
{
    struct finder f = {.s = {.g = g, .arena = arena}, .out = out, .out_count = count};
    mg_arena_init(&f.s.scratch, SIZE_MAX);
    enum mg_code code = mg_arena_guard(arena, find_with_scratch, &f, err);
    mg_arena_release(&f.s.scratch);
    return code;
}
