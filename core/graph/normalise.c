/* Normalisation, step by step:
 *   1. every value has a producer or is given; updates become in-place operators;
 *   2. stable topological order (order.c), into a copy in which shapes are inferred where they were open;
 *   3. views: a view operator's result shares its operand's storage; where one of its readers does not accept the
 *      strides, a `copy` is inserted behind it, and all its readers read the copy;
 *   4. readers, axes, bytes, digest.
 * Everything later (prices, plans, the checker) relies on these decisions and takes none of its own. */
#include <stdio.h>
#include <string.h>

#include "graph/normalise_priv.h"

struct normalise {
    const struct mg_graph *source;
    struct mg_arena *arena;
    struct mg_graph **out;
    struct mg_arena scratch;
};

static enum mg_code fail_at(struct mg_error *err, mg_op op, const char *part, const char *name, const char *reason)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/ops/%u%.30s", op, part);
    return mg_fail(err, MG_ERR_INVALID, pointer, "operator '%.100s' %s", name, reason);
}

/* ---- 1: producers and updates ---- */

static enum mg_code check_operands(const struct mg_graph *g, struct mg_error *err)
{
    for (mg_op op = 0; op < g->op_count; op++) {
        for (uint32_t i = 0; i < g->ops[op].in_count; i++) {
            const struct mg_value_info *v = &g->values[g->ops[op].in[i]];
            if (v->kind != MG_KIND_COMPUTED || v->producer != MG_NONE)
                continue;
            char pointer[64];
            snprintf(pointer, sizeof pointer, "/ops/%u/inputs/%u", op, i);
            return mg_fail(err, MG_ERR_INVALID, pointer, "operator '%.100s' reads '%.100s', which nothing makes",
                           g->ops[op].name, v->name);
        }
    }
    for (mg_value v = 0; v < g->value_count; v++) {
        if (g->values[v].kind == MG_KIND_COMPUTED && g->values[v].producer == MG_NONE)
            return mg_fail(err, MG_ERR_INVALID, "/values", "value '%.100s' is neither given nor made by an operator",
                           g->values[v].name);
    }
    return MG_OK;
}

static enum mg_code check_update(const struct mg_graph *g, mg_value version, int32_t *in_place, struct mg_error *err)
{
    const struct mg_value_info *v = &g->values[version];
    const struct mg_value_info *w = &g->values[v->update_of];
    if (w->updated_by != version)
        return mg_fail(err, MG_ERR_INVALID, "/updates", "'%.100s' has two new versions", w->name);
    if (w->kind != MG_KIND_WEIGHT && w->kind != MG_KIND_STATE)
        return mg_fail(err, MG_ERR_INVALID, "/updates", "'%.100s' is neither a weight nor a state", w->name);
    if (v->producer == MG_NONE)
        return mg_fail(err, MG_ERR_INVALID, "/updates", "the new version '%.100s' is not made by an operator", v->name);
    const struct mg_op_info *op = &g->ops[v->producer];
    int32_t slot = op->in_place_given ? op->in_place : -1;
    for (uint32_t i = 0; i < op->in_count && slot < 0; i++)
        slot = op->in[i] == v->update_of ? (int32_t)i : -1;
    if (v->slot != 0 || slot < 0 || (uint32_t)slot >= op->in_count || op->in[slot] != v->update_of)
        return fail_at(err, v->producer, "", op->name, "updates a value in place that is not its operand");
    in_place[v->producer] = slot;
    return MG_OK;
}

/* May the operator overwrite operand v (S6)? NULL, or the reason why not. */
static const char *refuse_in_place(const struct mg_graph *g, const struct mg_op_info *op, int32_t slot,
                                   const bool *root_is_output)
{
    if (slot < 0 || (uint32_t)slot >= op->in_count || op->out_count == 0)
        return "has no such operand to be in place on";
    if (!mg_op_is_pointwise(op->type))
        return "cannot work in place: it is not elementwise";
    mg_value v = op->in[slot], root = mg_alias_root(g, v);
    for (uint32_t i = 0; i < op->in_count; i++) {
        if (op->in[i] != v && mg_alias_root(g, op->in[i]) == root)
            return "would overwrite a storage that it also reads through a view";
    }
    if (g->values[op->out[0]].update_of == v)
        return NULL;
    if (g->values[root].kind == MG_KIND_INPUT)
        return "would overwrite a graph input in place";
    if (g->values[root].kind != MG_KIND_COMPUTED)
        return "would overwrite a resident value in place without a declared update";
    if (root_is_output[root])
        return "would overwrite a graph output in place";
    return NULL;
}

/* What an update overwrites is not there at the end, itself or through views. */
static enum mg_code check_outputs(const struct mg_graph *g, struct mg_error *err)
{
    for (size_t i = 0; i < g->output_count; i++) {
        const struct mg_value_info *v = &g->values[g->outputs[i]], *root = &g->values[mg_alias_root(g, g->outputs[i])];
        if (root->updated_by == MG_NONE)
            continue;
        char pointer[64];
        snprintf(pointer, sizeof pointer, "/outputs/%zu", i);
        return mg_fail(err, MG_ERR_INVALID, pointer,
                       "'%.60s' is of the old version of '%.60s', which '%.60s' overwrites", v->name, root->name,
                       g->values[root->updated_by].name);
    }
    return MG_OK;
}

static enum mg_code decide_in_place(struct normalise *n, int32_t *in_place, struct mg_error *err)
{
    const struct mg_graph *g = n->source;
    bool *root_is_output = MG_NEW_ARRAY(&n->scratch, bool, g->value_count);
    for (size_t i = 0; i < g->output_count; i++)
        root_is_output[mg_alias_root(g, g->outputs[i])] = true;
    for (mg_op op = 0; op < g->op_count; op++)
        in_place[op] = g->ops[op].in_place;
    for (mg_value v = 0; v < g->value_count; v++) {
        if (g->values[v].update_of != MG_NONE)
            MG_TRY(check_update(g, v, in_place, err));
    }
    MG_TRY(check_outputs(g, err));
    for (mg_op op = 0; op < g->op_count; op++) {
        if (in_place[op] < 0)
            continue;
        const char *why = refuse_in_place(g, &g->ops[op], in_place[op], root_is_output);
        bool update = g->ops[op].out_count && g->values[g->ops[op].out[0]].update_of != MG_NONE;
        if (why && (g->ops[op].in_place_given || update))
            return fail_at(err, op, "/in_place", g->ops[op].name, why);
        if (why)
            in_place[op] = -1;
    }
    return MG_OK;
}

/* ---- 2: the ordered copy ---- */

static mg_value clone_value(struct mg_graph *to, const struct mg_value_info *v)
{
    mg_value copy = mg_graph_add_value(to, v->name, v->kind, v->dtype, v->known ? &v->shape : NULL);
    struct mg_value_info *info = &to->values[copy];
    info->home = v->home;
    info->label = v->label ? mg_arena_strdup(to->arena, v->label) : NULL;
    info->declared = v->declared;
    return copy;
}

/* Values that are given, in listed order. */
static mg_value *clone_given(struct mg_graph *to, const struct mg_graph *from, struct mg_arena *arena)
{
    mg_value *map = MG_NEW_ARRAY(arena, mg_value, from->value_count);
    for (mg_value v = 0; v < from->value_count; v++) {
        if (from->values[v].kind != MG_KIND_COMPUTED)
            map[v] = clone_value(to, &from->values[v]);
    }
    return map;
}

static mg_op clone_op(struct mg_graph *to, const struct mg_graph *from, mg_op op, mg_value *map)
{
    struct mg_op_info info = from->ops[op];
    mg_op copy = (mg_op)to->op_count;
    mg_value *in = MG_NEW_ARRAY(to->arena, mg_value, info.in_count);
    mg_value *out = MG_NEW_ARRAY(to->arena, mg_value, info.out_count);
    for (uint32_t i = 0; i < info.in_count; i++)
        in[i] = map[info.in[i]];
    for (uint32_t i = 0; i < info.out_count; i++) {
        out[i] = map[info.out[i]] = clone_value(to, &from->values[info.out[i]]);
        to->values[out[i]].producer = copy;
        to->values[out[i]].slot = i;
    }
    info.in = in;
    info.out = out;
    *MG_PUSH(to->arena, to->ops, to->op_count, to->op_capacity) = info;
    return copy;
}

/* Outputs and updates, by map. */
static void clone_ends(struct mg_graph *to, const struct mg_graph *from, const mg_value *map)
{
    for (size_t i = 0; i < from->output_count; i++)
        mg_graph_add_output(to, map[from->outputs[i]]);
    for (mg_value v = 0; v < from->value_count; v++) {
        if (from->values[v].update_of != MG_NONE)
            mg_graph_add_update(to, map[from->values[v].update_of], map[v]);
    }
}

static void renumber_forward(struct mg_graph *to, mg_op forward_ops, const mg_op *new_index)
{
    mg_op count = 0;
    for (mg_op op = 0; op < to->op_count; op++) {
        mg_op origin = to->ops[op].forward_of;
        to->ops[op].forward_of = origin == MG_NONE ? MG_NONE : new_index[origin];
    }
    if (forward_ops == MG_NONE) {
        to->forward_ops = (mg_op)to->op_count;
        return;
    }
    for (mg_op op = 0; op < forward_ops; op++)
        count = new_index[op] + 1 > count ? new_index[op] + 1 : count;
    to->forward_ops = count;
}

static struct mg_graph *like(const struct mg_graph *from, struct mg_arena *arena)
{
    struct mg_graph *to = mg_graph_new(arena, from->name);
    to->math = from->math;
    to->value_capacity = from->value_count;
    to->values = MG_NEW_ARRAY(arena, struct mg_value_info, to->value_capacity);
    to->op_capacity = from->op_count;
    to->ops = MG_NEW_ARRAY(arena, struct mg_op_info, to->op_capacity);
    to->source = from->source ? mg_arena_strdup(arena, from->source) : NULL;
    return to;
}

/* The ordered copy still has its names and attributes from the source; the last one has its own. */
static void copy_op_strings(struct mg_graph *to, mg_op op)
{
    struct mg_op_info *info = &to->ops[op];
    info->name = mg_arena_strdup(to->arena, info->name);
    info->module = mg_arena_strdup(to->arena, info->module);
    struct mg_attr *attrs = mg_arena_copy(to->arena, info->attrs, info->attr_count * sizeof *attrs);
    for (uint32_t i = 0; i < info->attr_count; i++) {
        if (attrs[i].type == MG_ATTR_TYPE_INTS)
            attrs[i].ints = mg_arena_copy(to->arena, attrs[i].ints, attrs[i].count * sizeof(int64_t));
        else if (attrs[i].type == MG_ATTR_TYPE_STRING)
            attrs[i].string = mg_arena_strdup(to->arena, attrs[i].string);
    }
    info->attrs = attrs;
}

/* A shape error found late carries the operator's place in the source. */
static enum mg_code infer_at(struct mg_graph *to, mg_op op, mg_op listed, struct mg_error *err)
{
    enum mg_code code = to->ops[op].inferred ? MG_OK : mg_graph_infer_op(to, op, err);
    if (code != MG_OK && err) {
        char rest[200], was[32];
        int skip = snprintf(was, sizeof was, "/ops/%u", op);
        snprintf(rest, sizeof rest, "%.199s", err->pointer + (strncmp(err->pointer, was, (size_t)skip) ? 0 : skip));
        snprintf(err->pointer, sizeof err->pointer, "/ops/%u%s", listed, rest);
    }
    return code;
}

static enum mg_code ordered_copy(struct normalise *n, struct mg_graph **out, struct mg_error *err)
{
    const struct mg_graph *g = n->source;
    mg_op *order = MG_NEW_ARRAY(&n->scratch, mg_op, g->op_count);
    mg_op *new_index = MG_NEW_ARRAY(&n->scratch, mg_op, g->op_count);
    int32_t *in_place = MG_NEW_ARRAY(&n->scratch, int32_t, g->op_count);
    MG_TRY(check_operands(g, err));
    MG_TRY(decide_in_place(n, in_place, err));
    MG_TRY(mg_order_ops(g, in_place, &n->scratch, order, err));
    struct mg_graph *to = like(g, &n->scratch);
    mg_value *map = clone_given(to, g, &n->scratch);
    for (size_t i = 0; i < g->op_count; i++) {
        mg_op op = clone_op(to, g, order[i], map);
        to->ops[op].in_place = in_place[order[i]];
        new_index[order[i]] = op;
        MG_TRY(infer_at(to, op, order[i], err));
        const struct mg_op_info *info = &to->ops[op];
        if (info->in_place >= 0) {
            const struct mg_value_info *a = &to->values[info->in[info->in_place]], *b = &to->values[info->out[0]];
            if (!mg_shape_equal(&a->shape, &b->shape) || a->dtype != b->dtype)
                return fail_at(err, order[i], "/in_place", info->name, "cannot work in place: shape or dtype differ");
        }
    }
    clone_ends(to, g, map);
    renumber_forward(to, g->forward_ops, new_index);
    mg_graph_fill_readers(to);
    *out = to;
    return MG_OK;
}

void mg_graph_fill_readers(struct mg_graph *g)
{
    for (mg_value v = 0; v < g->value_count; v++)
        g->values[v].reader_count = 0;
    mg_op *last = MG_NEW_ARRAY(g->arena, mg_op, g->value_count);
    mg_op **lists = MG_NEW_ARRAY(g->arena, mg_op *, g->value_count);
    for (int pass = 0; pass < 2; pass++) { /* count, then fill */
        memset(last, 0xff, g->value_count * sizeof *last);
        for (mg_op op = 0; op < g->op_count; op++) {
            for (uint32_t i = 0; i < g->ops[op].in_count; i++) {
                mg_value v = g->ops[op].in[i];
                if (last[v] == op)
                    continue;
                last[v] = op;
                if (pass)
                    lists[v][g->values[v].reader_count] = op;
                g->values[v].reader_count++;
            }
        }
        for (mg_value v = 0; v < g->value_count && !pass; v++) {
            g->values[v].readers = lists[v] = MG_NEW_ARRAY(g->arena, mg_op, g->values[v].reader_count);
            g->values[v].reader_count = 0;
        }
    }
}

/* ---- 3: views and copies ---- */

struct views {
    struct mg_graph *from, *to;
    mg_value *map;     /* what readers of a value read */
    mg_value *own_map; /* the value itself */
    mg_op *new_index;
};

static bool reader_accepts(const struct mg_graph *g, mg_op reader, mg_value v, const struct mg_layout_of *layout)
{
    const struct mg_op_info *op = &g->ops[reader];
    struct mg_layout_of ignored;
    if (mg_op_cost(op->type) == MG_COST_VIEW) {
        for (uint32_t i = 0; i < op->out_count; i++) {
            if (!mg_derive_layout(g, reader, i, layout, &ignored))
                return false;
        }
        return true;
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        if (op->in[i] == v && !mg_op_accepts_layout(g, reader, i, &g->values[v].shape, layout->stride))
            return false;
    }
    return true;
}

static bool all_accept(const struct mg_graph *g, mg_value v, const struct mg_layout_of *layout)
{
    for (uint32_t i = 0; i < g->values[v].reader_count; i++) {
        if (!reader_accepts(g, g->values[v].readers[i], v, layout))
            return false;
    }
    return true;
}

static const char *copy_name(struct mg_graph *g, const char *name)
{
    const char *copy = mg_arena_printf(g->arena, "%s.copy", name);
    for (unsigned n = 2; mg_graph_find_value(g, copy) != MG_NONE; n++)
        copy = mg_arena_printf(g->arena, "%s.copy%u", name, n);
    return copy;
}

static void set_layout(struct mg_graph *g, mg_value v, mg_value base, const struct mg_layout_of *layout)
{
    struct mg_value_info *info = &g->values[v];
    info->base = base;
    info->offset = layout->offset;
    memcpy(info->stride, layout->stride, sizeof info->stride);
}

static void set_dense(struct mg_graph *g, mg_value v)
{
    struct mg_layout_of layout = {0};
    mg_shape_strides(&g->values[v].shape, layout.stride);
    set_layout(g, v, v, &layout);
}

static enum mg_code insert_copy(struct views *w, mg_op of, mg_value old, struct mg_error *err)
{
    mg_value view = w->own_map[old];
    const char *name = copy_name(w->to, w->to->values[view].name);
    const char *op_name = mg_arena_printf(w->to->arena, "%s.copy", w->to->ops[of].name);
    mg_value copy;
    MG_TRY(mg_graph_add_op(w->to, MG_OP_COPY, op_name, &view, 1, NULL, 0, &name, 1, &copy, err));
    struct mg_op_info *info = &w->to->ops[w->to->op_count - 1];
    info->module = w->to->ops[of].module;
    info->forward_of = w->to->ops[of].forward_of;
    w->map[old] = copy;
    set_dense(w->to, copy);
    return MG_OK;
}

static enum mg_code place_view(struct views *w, mg_op old_op, mg_op op, struct mg_error *err)
{
    struct mg_graph *to = w->to;
    const struct mg_value_info *operand = &to->values[to->ops[op].in[0]];
    struct mg_layout_of in = {.offset = operand->offset}, out;
    mg_value base = operand->base;
    memcpy(in.stride, operand->stride, sizeof in.stride);
    to->ops[op].is_view = true;
    for (uint32_t i = 0; i < to->ops[op].out_count; i++) {
        mg_value old = w->from->ops[old_op].out[i];
        if (!mg_derive_layout(to, op, i, &in, &out))
            return mg_fail(err, MG_ERR_INTERNAL, "", "view '%.100s' has no layout", to->ops[op].name);
        set_layout(to, to->ops[op].out[i], base, &out);
        if (!all_accept(w->from, old, &out))
            MG_TRY(insert_copy(w, op, old, err));
    }
    return MG_OK;
}

/* In place on a view only where that is its base's whole storage in the same layout. */
static enum mg_code check_in_place_layout(struct views *w, mg_op op, mg_op listed, struct mg_error *err)
{
    struct mg_op_info *info = &w->to->ops[op];
    if (info->in_place < 0)
        return MG_OK;
    const struct mg_value_info *v = &w->to->values[info->in[info->in_place]], *base = &w->to->values[v->base];
    if (v->offset == 0 && mg_layout_contiguous(&v->shape, v->stride) &&
        mg_shape_elements(&v->shape) == mg_shape_elements(&base->shape))
        return MG_OK;
    if (info->in_place_given)
        return fail_at(err, listed, "/in_place", info->name, "cannot work in place on a part of a storage");
    info->in_place = -1;
    return MG_OK;
}

static enum mg_code with_views(struct normalise *n, struct mg_graph *from, struct mg_graph **out, struct mg_error *err)
{
    struct views w = {.from = from, .to = like(from, n->arena)};
    w.map = clone_given(w.to, from, &n->scratch);
    w.own_map = mg_arena_copy(&n->scratch, w.map, from->value_count * sizeof *w.map);
    w.new_index = MG_NEW_ARRAY(&n->scratch, mg_op, from->op_count);
    for (mg_value v = 0; v < w.to->value_count; v++)
        set_dense(w.to, v);
    for (mg_op old = 0; old < from->op_count; old++) {
        mg_op op = w.new_index[old] = clone_op(w.to, from, old, w.map);
        copy_op_strings(w.to, op);
        for (uint32_t i = 0; i < from->ops[old].out_count; i++) {
            w.own_map[from->ops[old].out[i]] = w.map[from->ops[old].out[i]];
            set_dense(w.to, w.map[from->ops[old].out[i]]);
        }
        if (mg_op_cost(w.to->ops[op].type) == MG_COST_VIEW)
            MG_TRY(place_view(&w, old, op, err));
        MG_TRY(check_in_place_layout(&w, op, old, err));
    }
    clone_ends(w.to, from, w.own_map);
    renumber_forward(w.to, from->forward_ops == from->op_count ? MG_NONE : from->forward_ops, w.new_index);
    *out = w.to;
    return MG_OK;
}

/* ---- 4: facts ---- */

/* A view is no step, so what only dead views read is read by nobody. */
static void find_read(struct mg_graph *g)
{
    for (mg_op op = 0; op < g->op_count; op++)
        for (uint32_t i = 0; i < g->ops[op].in_count && !g->ops[op].is_view; i++)
            g->values[g->values[g->ops[op].in[i]].base].is_read = true;
    for (size_t i = 0; i < g->output_count; i++)
        g->values[g->values[g->outputs[i]].base].is_read = true;
}

static enum mg_code finish(struct mg_graph *g, struct mg_error *err)
{
    uint64_t total = 0;
    mg_graph_fill_readers(g);
    find_read(g);
    for (mg_value v = 0; v < g->value_count; v++) {
        struct mg_value_info *info = &g->values[v];
        info->bytes = (uint64_t)mg_shape_elements(&info->shape) * mg_dtype_size(info->dtype);
        total += info->bytes;
        if (total > (UINT64_C(1) << 60))
            return mg_fail(err, MG_ERR_LIMIT, "/values", "the graph's values exceed 2^60 bytes");
    }
    for (mg_op op = 0; op < g->op_count; op++) {
        struct mg_op_room room;
        struct mg_op_desc desc;
        mg_op_whole_in(g, op, &room, g->arena, &desc);
        g->ops[op].axes = mg_axes_of(&desc, g->arena, &g->ops[op].axis_count);
    }
    MG_TRY(mg_graph_digest(g, g->digest, err));
    g->normalised = true;
    return mg_graph_check(g, err);
}

static enum mg_code run(void *context, struct mg_error *err)
{
    struct normalise *n = context;
    struct mg_graph *ordered = NULL, *final = NULL;
    MG_TRY(ordered_copy(n, &ordered, err));
    MG_TRY(with_views(n, ordered, &final, err));
    MG_TRY(finish(final, err));
    *n->out = final;
    return MG_OK;
}

static enum mg_code run_with_scratch(void *context, struct mg_error *err)
{
    struct normalise *n = context;
    return mg_arena_guard(&n->scratch, run, context, err);
}

enum mg_code mg_graph_normalise(const struct mg_graph *g, struct mg_arena *arena, struct mg_graph **out,
                                struct mg_error *err)
{
    struct normalise n = {.source = g, .arena = arena, .out = out};
    mg_arena_init_within(&n.scratch, arena);
    enum mg_code code = mg_arena_guard(arena, run_with_scratch, &n, err);
    mg_arena_release(&n.scratch);
    return code;
}
