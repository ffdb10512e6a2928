/* Building a graph: values, operators, names.
 *
 * Names live in an open-addressing table of value indices (linear probing, at most half full). */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "graph/ops_priv.h"

struct names {
    mg_value *slot; /* MG_NONE: free */
    uint32_t *hash; /* of the name in the slot */
    size_t capacity, used;
};

static uint32_t hash_of(const char *name)
{
    return (uint32_t)mg_hash_bytes(name, strlen(name), 0).lo;
}

static size_t probe(const struct mg_graph *g, const struct names *names, const char *name, uint32_t hash)
{
    size_t at = hash & (names->capacity - 1);
    while (names->slot[at] != MG_NONE &&
           (names->hash[at] != hash || strcmp(g->values[names->slot[at]].name, name) != 0))
        at = (at + 1) & (names->capacity - 1);
    return at;
}

static void grow_names(struct mg_graph *g, size_t capacity)
{
    struct names *names = g->name_index, old = *names;
    names->capacity = capacity;
    names->slot = MG_NEW_ARRAY(g->arena, mg_value, capacity);
    names->hash = MG_NEW_ARRAY(g->arena, uint32_t, capacity);
    memset(names->slot, 0xff, capacity * sizeof *names->slot);
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.slot[i] == MG_NONE)
            continue;
        size_t at = probe(g, names, g->values[old.slot[i]].name, old.hash[i]);
        names->slot[at] = old.slot[i];
        names->hash[at] = old.hash[i];
    }
}

static void reserve_names(struct mg_graph *g)
{
    const struct names *names = g->name_index;
    if (names->used * 2 >= names->capacity)
        grow_names(g, names->capacity ? names->capacity * 2 : 64);
}

struct mg_graph *mg_graph_new(struct mg_arena *arena, const char *name)
{
    struct mg_graph *g = MG_NEW(arena, struct mg_graph);
    g->arena = arena;
    g->name = mg_arena_strdup(arena, name ? name : "");
    g->name_index = MG_NEW(arena, struct names);
    g->forward_ops = MG_NONE;
    reserve_names(g);
    return g;
}

void mg_graph_reserve(struct mg_graph *g, size_t ops, size_t values)
{
    size_t capacity = 64;
    while (capacity < 2 * values)
        capacity *= 2;
    if (g->op_count || g->value_count)
        return;
    g->values = MG_NEW_ARRAY(g->arena, struct mg_value_info, values);
    g->value_capacity = values;
    g->ops = MG_NEW_ARRAY(g->arena, struct mg_op_info, ops);
    g->op_capacity = ops;
    grow_names(g, capacity);
}

mg_value mg_graph_find_value(const struct mg_graph *g, const char *name)
{
    const struct names *names = g->name_index;
    return names->slot[probe(g, names, name, hash_of(name))];
}

static const char *fresh_name(struct mg_graph *g)
{
    char name[32];
    for (size_t n = g->value_count;; n++) {
        snprintf(name, sizeof name, "v%zu", n);
        if (mg_graph_find_value(g, name) == MG_NONE)
            return mg_arena_strdup(g->arena, name);
    }
}

mg_value mg_graph_add_value(struct mg_graph *g, const char *name, enum mg_kind kind, enum mg_dtype dtype,
                            const struct mg_shape *shape)
{
    if (shape ? !mg_shape_fits(shape, dtype) : kind != MG_KIND_COMPUTED)
        return MG_NONE;
    reserve_names(g);
    name = name ? mg_arena_strdup(g->arena, name) : fresh_name(g);
    struct names *names = g->name_index;
    uint32_t hash = hash_of(name);
    size_t at = probe(g, names, name, hash);
    if (names->slot[at] != MG_NONE || g->value_count >= MG_NONE - 1)
        return MG_NONE;
    mg_value v = (mg_value)g->value_count;
    struct mg_value_info *info = MG_PUSH(g->arena, g->values, g->value_count, g->value_capacity);
    *info = (struct mg_value_info){.name = name, .dtype = dtype, .kind = kind, .producer = MG_NONE};
    info->update_of = info->updated_by = MG_NONE;
    info->base = v;
    if (shape) {
        info->shape = *shape;
        info->declared = info->known = true;
    }
    names->slot[at] = v;
    names->hash[at] = hash;
    names->used++;
    return v;
}

/* Those behind it in the table may have been pushed on by it: they are put in again. */
static void forget_name(struct mg_graph *g, size_t at)
{
    struct names *names = g->name_index;
    names->slot[at] = MG_NONE;
    names->used--;
    for (at = (at + 1) & (names->capacity - 1); names->slot[at] != MG_NONE; at = (at + 1) & (names->capacity - 1)) {
        mg_value v = names->slot[at];
        uint32_t hash = names->hash[at];
        names->slot[at] = MG_NONE;
        size_t to = probe(g, names, g->values[v].name, hash);
        names->slot[to] = v;
        names->hash[to] = hash;
    }
}

void mg_graph_truncate(struct mg_graph *g, size_t ops, size_t values)
{
    for (; g->value_count > values; g->value_count--) {
        const char *name = g->values[g->value_count - 1].name;
        forget_name(g, probe(g, g->name_index, name, hash_of(name)));
    }
    g->op_count = ops;
}

void mg_graph_add_output(struct mg_graph *g, mg_value value)
{
    if (g->values[value].is_output)
        return;
    g->values[value].is_output = true;
    *MG_PUSH(g->arena, g->outputs, g->output_count, g->output_capacity) = value;
}

void mg_graph_add_update(struct mg_graph *g, mg_value weight, mg_value new_version)
{
    g->values[weight].updated_by = new_version;
    g->values[new_version].update_of = weight;
}

void mg_graph_set_in_place(struct mg_graph *g, mg_op op, int32_t operand)
{
    g->ops[op].in_place = operand;
    g->ops[op].in_place_given = true;
}

void mg_graph_set_module(struct mg_graph *g, mg_op op, const char *module)
{
    g->ops[op].module = mg_arena_strdup(g->arena, module);
}

/* ---- operators ---- */

/* Runs the operator's rules on known operand shapes, checks declared results, stores everything. */
enum mg_code mg_graph_infer_op(struct mg_graph *g, mg_op op, struct mg_error *err)
{
    struct mg_op_info *info = &g->ops[op];
    struct mg_op_room room;
    struct mg_op_desc desc;
    struct mg_error ignored = {0};
    mg_op_whole_in(g, op, &room, g->arena, &desc);
    struct mg_infer t = {.arena = g->arena,
                         .type = info->type,
                         .name = info->name,
                         .op = op,
                         .in_count = info->in_count,
                         .out_count = info->out_count,
                         .in = desc.in_shape,
                         .in_dtype = desc.in_dtype,
                         .out = room.shape + info->in_count,
                         .out_dtype = room.dtype + info->in_count,
                         .err = err ? err : &ignored};
    for (uint32_t i = 0; i < info->out_count; i++) {
        if (info->type == MG_OP_OPAQUE && !g->values[info->out[i]].declared)
            return mg_infer_fail(&t, "/outputs", "result '%.100s' must be declared", g->values[info->out[i]].name);
    }
    MG_TRY(mg_infer_run(&t, info->attrs, info->attr_count));
    for (uint32_t i = 0; i < info->out_count; i++) {
        struct mg_value_info *v = &g->values[info->out[i]];
        if (v->declared && (!mg_shape_equal(&v->shape, &t.out[i]) || v->dtype != t.out_dtype[i]))
            return mg_infer_fail(&t, "/outputs", "result '%.60s' is declared as %s %s, but is %s %s", v->name,
                                 mg_dtype_name(v->dtype), mg_shape_text(g->arena, &v->shape),
                                 mg_dtype_name(t.out_dtype[i]), mg_shape_text(g->arena, &t.out[i]));
        v->shape = t.out[i];
        v->dtype = t.out_dtype[i];
        v->known = true;
    }
    info->attrs = t.attrs;
    info->attr_count = t.attr_count;
    info->inferred = true;
    return MG_OK;
}

static enum mg_code fail_op(const struct mg_graph *g, struct mg_error *err, enum mg_op_type type, const char *name,
                            const char *part, const char *reason, const char *what)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/ops/%zu%.20s", g->op_count, part);
    return mg_fail(err, MG_ERR_INVALID, pointer, "operator '%.100s' (%s): %s%.100s", name ? name : "",
                   mg_op_type_name(type), reason, what);
}

/* Result i: an existing value without producer, or a new one. MG_NONE if the name is taken. */
static mg_value result_value(struct mg_graph *g, const char *const *names, uint32_t i)
{
    const char *name = names ? names[i] : NULL;
    mg_value v = name ? mg_graph_find_value(g, name) : MG_NONE;
    if (v == MG_NONE)
        return mg_graph_add_value(g, name, MG_KIND_COMPUTED, MG_DTYPE_F32, NULL);
    bool free = g->values[v].kind == MG_KIND_COMPUTED && g->values[v].producer == MG_NONE;
    return free ? v : MG_NONE;
}

static struct mg_attr *copy_attrs(struct mg_arena *arena, const struct mg_attr *attrs, uint32_t count)
{
    struct mg_attr *copy = mg_arena_copy(arena, attrs, count * sizeof *attrs);
    for (uint32_t i = 0; i < count; i++) {
        if (copy[i].type == MG_ATTR_TYPE_INTS)
            copy[i].ints = mg_arena_copy(arena, copy[i].ints, copy[i].count * sizeof(int64_t));
        else if (copy[i].type == MG_ATTR_TYPE_STRING)
            copy[i].string = mg_arena_strdup(arena, copy[i].string);
    }
    return copy;
}

/* NOLINTNEXTLINE(readability-function-size): the number of parameters is the interface's */
enum mg_code mg_graph_add_op(struct mg_graph *g, enum mg_op_type type, const char *name, const mg_value *in,
                             uint32_t in_count, const struct mg_attr *attrs, uint32_t attr_count,
                             const char *const *out_names, uint32_t out_count, mg_value *out, struct mg_error *err)
{
    if (type >= MG_OP_COUNT)
        return fail_op(g, err, type, name, "/op", "unknown operator", "");
    if (g->op_count >= MG_NONE - 1 || in_count > UINT16_MAX || out_count > UINT16_MAX)
        return mg_fail(err, MG_ERR_LIMIT, "/ops", "too many operators, operands or results");
    bool known = true;
    for (uint32_t i = 0; i < in_count; i++) {
        if (in[i] >= g->value_count)
            return fail_op(g, err, type, name, "/inputs", "an operand does not exist", "");
        known = known && g->values[in[i]].known;
    }
    mg_op op = (mg_op)g->op_count;
    mg_value *results = MG_NEW_ARRAY(g->arena, mg_value, out_count);
    for (uint32_t i = 0; i < out_count; i++) {
        results[i] = result_value(g, out_names, i);
        if (results[i] == MG_NONE)
            return fail_op(g, err, type, name, "/outputs", "there is already a value called ", out_names[i]);
        g->values[results[i]].producer = op;
        g->values[results[i]].slot = i;
    }
    struct mg_op_info *info = MG_PUSH(g->arena, g->ops, g->op_count, g->op_capacity);
    *info = (struct mg_op_info){.type = type, .module = "", .in_count = in_count, .out_count = out_count};
    info->name = name ? mg_arena_strdup(g->arena, name) : mg_arena_printf(g->arena, "%s_%u", mg_op_type_name(type), op);
    info->in = mg_arena_copy(g->arena, in, in_count * sizeof *in);
    info->out = results;
    info->attrs = copy_attrs(g->arena, attrs, attr_count);
    info->attr_count = attr_count;
    info->in_place = mg_op_facts(type)->in_place;
    info->forward_of = MG_NONE;
    if (out)
        memcpy(out, results, out_count * sizeof *out);
    return known ? mg_graph_infer_op(g, op, err) : MG_OK;
}
