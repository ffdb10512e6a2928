/* Completing an operator: arity, attributes by schema, then its shape rule. */
#include <stdio.h>
#include <string.h>

#include "graph/ops_priv.h"

enum mg_code mg_infer_fail(struct mg_infer *t, const char *part, const char *fmt, ...)
{
    char reason[320], pointer[sizeof t->err->pointer];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    snprintf(pointer, sizeof pointer, "/ops/%u%.40s", t->op, part);
    return mg_fail(t->err, MG_ERR_INVALID, pointer, "operator '%.100s' (%s): %s", t->name, mg_op_type_name(t->type),
                   reason);
}

const char *mg_shape_text(struct mg_arena *arena, const struct mg_shape *shape)
{
    const char *text = "[";
    for (uint32_t d = 0; d < shape->rank; d++)
        text = mg_arena_printf(arena, "%s%s%lld", text, d ? ", " : "", (long long)shape->dim[d]);
    return mg_arena_printf(arena, "%s]", text);
}

struct mg_attr *mg_infer_attr(struct mg_infer *t, enum mg_attr_key key)
{
    for (uint32_t i = 0; i < t->attr_count; i++) {
        if (t->attrs[i].key == key)
            return &t->attrs[i];
    }
    return NULL;
}

int64_t mg_infer_int(struct mg_infer *t, enum mg_attr_key key)
{
    const struct mg_attr *attr = mg_infer_attr(t, key);
    return attr ? attr->i : 0;
}

const int64_t *mg_infer_ints(struct mg_infer *t, enum mg_attr_key key, uint32_t *count)
{
    const struct mg_attr *attr = mg_infer_attr(t, key);
    if (count)
        *count = attr ? attr->count : 0;
    return attr ? attr->ints : NULL;
}

void mg_infer_set_ints(struct mg_infer *t, enum mg_attr_key key, const int64_t *ints, uint32_t count)
{
    struct mg_attr *attr = mg_infer_attr(t, key);
    attr->ints = mg_arena_copy(t->arena, ints, count * sizeof *ints);
    attr->count = count;
}

static enum mg_code fail_attr(struct mg_infer *t, enum mg_attr_key key, const char *reason)
{
    char part[64];
    snprintf(part, sizeof part, "/attrs/%s", mg_attr_name(key));
    return mg_infer_fail(t, part, "attribute '%s' %s", mg_attr_name(key), reason);
}

enum mg_code mg_infer_axis(struct mg_infer *t, enum mg_attr_key key, uint32_t rank, uint32_t *axis)
{
    struct mg_attr *attr = mg_infer_attr(t, key);
    int64_t value = attr->i < 0 ? attr->i + rank : attr->i;
    if (value < 0 || value >= rank)
        return fail_attr(t, key, mg_arena_printf(t->arena, "is %lld, outside rank %u", (long long)attr->i, rank));
    attr->i = value;
    *axis = (uint32_t)value;
    return MG_OK;
}

enum mg_code mg_infer_list_size(struct mg_infer *t, enum mg_attr_key key, uint32_t want)
{
    const struct mg_attr *attr = mg_infer_attr(t, key);
    if (attr->count == want)
        return MG_OK;
    return fail_attr(t, key, mg_arena_printf(t->arena, "has %u entries, must have %u", attr->count, want));
}

enum mg_code mg_infer_rank(struct mg_infer *t, uint32_t operand, uint32_t least, uint32_t most)
{
    uint32_t rank = t->in[operand].rank;
    if (rank >= least && rank <= most)
        return MG_OK;
    char part[32];
    snprintf(part, sizeof part, "/inputs/%u", operand);
    return mg_infer_fail(t, part, "operand %u has shape %s, its rank must be %u to %u", operand,
                         mg_shape_text(t->arena, &t->in[operand]), least, most);
}

enum mg_code mg_infer_same_dtype(struct mg_infer *t)
{
    for (uint32_t i = 1; i < t->in_count; i++) {
        if (t->in_dtype[i] != t->in_dtype[0]) {
            char part[32];
            snprintf(part, sizeof part, "/inputs/%u", i);
            return mg_infer_fail(t, part, "operand %u is %s where operand 0 is %s", i, mg_dtype_name(t->in_dtype[i]),
                                 mg_dtype_name(t->in_dtype[0]));
        }
    }
    return MG_OK;
}

enum mg_code mg_infer_choice(struct mg_infer *t, enum mg_attr_key key, const char *const *choices)
{
    const char *given = mg_infer_attr(t, key)->string, *list = "";
    for (uint32_t i = 0; choices[i]; i++) {
        if (strcmp(given, choices[i]) == 0)
            return MG_OK;
        list = mg_arena_printf(t->arena, "%s%s%s", list, i ? ", " : "", choices[i]);
    }
    return fail_attr(t, key, mg_arena_printf(t->arena, "is '%.40s', not one of %s", given, list));
}

/* ---- schema ---- */

static const char *type_text(enum mg_attr_type type)
{
    static const char *const text[] = {"must be an integer", "must be a number", "must be a list of integers",
                                       "must be a string"};
    return text[type];
}

static enum mg_code take_given(struct mg_infer *t, const struct mg_attr_rule *rule, const struct mg_attr *given,
                               struct mg_attr *out)
{
    *out = *given;
    if (given->type == rule->type) {
        if (given->type == MG_ATTR_TYPE_INTS)
            out->ints = mg_arena_copy(t->arena, given->ints, given->count * sizeof(int64_t));
        else if (given->type == MG_ATTR_TYPE_STRING)
            out->string = mg_arena_strdup(t->arena, given->string);
        else if (rule->presence == MG_ATTR_FLAG && given->i != 0 && given->i != 1)
            return fail_attr(t, rule->key, mg_arena_printf(t->arena, "is %lld, must be 0 or 1", (long long)given->i));
        return MG_OK;
    }
    if (rule->type != MG_ATTR_TYPE_FLOAT || given->type != MG_ATTR_TYPE_INT)
        return fail_attr(t, rule->key, type_text(rule->type));
    out->type = MG_ATTR_TYPE_FLOAT;
    out->f = (double)given->i;
    return MG_OK;
}

static void take_default(struct mg_infer *t, const struct mg_attr_rule *rule, struct mg_attr *out)
{
    *out = (struct mg_attr){.key = rule->key, .type = rule->type};
    uint32_t rank = t->in_count ? t->in[0].rank : 0, spatial = rank > 2 ? rank - 2 : 0;
    switch (rule->type) {
    case MG_ATTR_TYPE_INT:
        out->i = rule->i;
        break;
    case MG_ATTR_TYPE_FLOAT:
        out->f = rule->f;
        break;
    case MG_ATTR_TYPE_STRING:
        out->string = rule->text;
        break;
    case MG_ATTR_TYPE_INTS:
        out->count = rule->presence == MG_ATTR_LISTED ? 0 : rule->presence == MG_ATTR_PER_SIDE ? 2 * spatial : spatial;
        int64_t *list = MG_NEW_ARRAY(t->arena, int64_t, out->count);
        for (uint32_t i = 0; i < out->count; i++)
            list[i] = rule->i;
        out->ints = list;
    }
}

static enum mg_code complete_schema(struct mg_infer *t, const struct mg_attr *given, uint32_t given_count)
{
    const struct mg_op_facts *facts = mg_op_facts(t->type);
    t->attr_count = facts->schema_count;
    t->attrs = MG_NEW_ARRAY(t->arena, struct mg_attr, t->attr_count);
    for (uint32_t i = 0; i < t->attr_count; i++) {
        const struct mg_attr_rule *rule = &facts->schema[i];
        const struct mg_attr *own = mg_attr_find(given, given_count, rule->key);
        if (own)
            MG_TRY(take_given(t, rule, own, &t->attrs[i]));
        else if (rule->presence == MG_ATTR_NEEDED)
            return fail_attr(t, rule->key, "is missing");
        else
            take_default(t, rule, &t->attrs[i]);
        uint32_t rank = t->in_count ? t->in[0].rank : 0;
        if (rule->presence == MG_ATTR_PER_SPATIAL || rule->presence == MG_ATTR_PER_SIDE)
            MG_TRY(mg_infer_list_size(t, rule->key,
                                      (rank > 2 ? rank - 2 : 0) * (rule->presence == MG_ATTR_PER_SIDE ? 2 : 1)));
    }
    return MG_OK;
}

static enum mg_code check_given(struct mg_infer *t, const struct mg_attr *given, uint32_t count)
{
    enum mg_attr_type type;
    for (uint32_t i = 0; i < count; i++) {
        if (!mg_op_attr_type(t->type, given[i].key, &type))
            return fail_attr(t, given[i].key, "is not one of this operator's");
        if (mg_attr_find(given, i, given[i].key))
            return fail_attr(t, given[i].key, "is given twice");
        if (given[i].type == MG_ATTR_TYPE_FLOAT && !(given[i].f - given[i].f == 0))
            return fail_attr(t, given[i].key, "must be finite");
    }
    return MG_OK;
}

static enum mg_code check_arity(struct mg_infer *t)
{
    const struct mg_op_facts *facts = mg_op_facts(t->type);
    if (t->in_count < facts->min_in)
        return mg_infer_fail(t, "/inputs", "has %u operands, needs at least %u", t->in_count, facts->min_in);
    if (facts->max_in != MG_ANY && t->in_count > facts->max_in)
        return mg_infer_fail(t, "/inputs", "has %u operands, takes at most %u", t->in_count, facts->max_in);
    if (facts->n_out != MG_ANY && t->out_count != facts->n_out)
        return mg_infer_fail(t, "/outputs", "has %u results, makes %u", t->out_count, facts->n_out);
    return MG_OK;
}

enum mg_code mg_infer_run(struct mg_infer *t, const struct mg_attr *given, uint32_t given_count)
{
    MG_TRY(check_arity(t));
    MG_TRY(check_given(t, given, given_count));
    MG_TRY(complete_schema(t, given, given_count));
    MG_TRY(mg_op_facts(t->type)->shape(t));
    for (uint32_t i = 0; i < t->out_count; i++) {
        if (!mg_shape_fits(&t->out[i], t->out_dtype[i])) {
            char part[32];
            snprintf(part, sizeof part, "/outputs/%u", i);
            return mg_infer_fail(t, part, "result %u would have a negative or overflowing size", i);
        }
    }
    return MG_OK;
}
