/* An operator restricted by cuts: shapes follow from the axes' uses, attributes from its split rule.
 *
 * The restricted operator passes its own shape rule: the tests run it on every axis of every
 * operator, so that table, axes and split rule cannot disagree unnoticed. */
#include <string.h>

#include "base/json.h"
#include "graph/ops_priv.h"

static struct mg_attr *find(struct mg_split *t, enum mg_attr_key key)
{
    for (uint32_t i = 0; i < t->attr_count; i++) {
        if (t->attrs[i].key == key)
            return &t->attrs[i];
    }
    return NULL;
}

static int64_t *own_list(struct mg_split *t, struct mg_attr *attr)
{
    int64_t *list = mg_arena_copy(t->arena, attr->ints, attr->count * sizeof *list);
    attr->ints = list;
    return list;
}

/* ---- rules ---- */

void mg_split_none(struct mg_split *t)
{
    (void)t;
}

/* The cut of the axis called `name`, or NULL. */
static const struct mg_cut *cut_of(const struct mg_split *t, const char *name)
{
    for (uint32_t i = 0; i < t->cut_count; i++) {
        if (strcmp(t->axes[t->cuts[i].axis].name, name) == 0)
            return &t->cuts[i];
    }
    return NULL;
}

/* Convolutions: fewer groups; spatial sizes of the result, where they are an attribute. */
void mg_split_group(struct mg_split *t)
{
    const struct mg_cut *g = cut_of(t, "g");
    if (g)
        find(t, MG_ATTR_GROUP)->i = g->hi - g->lo;
    struct mg_attr *spatial = find(t, MG_ATTR_SPATIAL);
    if (spatial)
        memcpy(own_list(t, spatial), t->out_shape[0].dim + 2, spatial->count * sizeof(int64_t));
}

void mg_split_groups(struct mg_split *t)
{
    const struct mg_cut *g = cut_of(t, "g");
    if (g)
        find(t, MG_ATTR_NUM_GROUPS)->i = g->hi - g->lo;
}

void mg_split_shape(struct mg_split *t)
{
    struct mg_attr *shape = find(t, MG_ATTR_SHAPE);
    memcpy(own_list(t, shape), t->out_shape[0].dim, shape->count * sizeof(int64_t));
}

/* slice, slice_grad: only whole dimensions are cut, so their ends are the new sizes. */
void mg_split_slice(struct mg_split *t)
{
    const struct mg_shape *now = t->whole->type == MG_OP_SLICE ? &t->in_shape[0] : &t->out_shape[0];
    const struct mg_shape *was = t->whole->type == MG_OP_SLICE ? &t->whole->in_shape[0] : &t->whole->out_shape[0];
    int64_t *ends = own_list(t, find(t, MG_ATTR_ENDS));
    for (uint32_t d = 0; d < now->rank; d++) {
        if (now->dim[d] != was->dim[d])
            ends[d] = now->dim[d];
    }
    if (t->whole->type == MG_OP_SLICE_GRAD)
        mg_split_shape(t);
}

void mg_split_iota(struct mg_split *t)
{
    if (t->cut_count == 0)
        return;
    find(t, MG_ATTR_SIZE)->i = t->cuts[0].hi - t->cuts[0].lo;
    find(t, MG_ATTR_START)->f += (double)t->cuts[0].lo * find(t, MG_ATTR_DELTA)->f;
}

/* {"device": seconds, ...} with every number scaled; the text itself if it is no such object. */
static const char *scaled_latency(struct mg_arena *arena, const char *text, double share)
{
    struct mg_json json;
    const char *key, *out = "{", *comma = "";
    double seconds;
    mg_json_init(&json, arena, text, strlen(text));
    if (mg_json_enter_object(&json)) {
        while (mg_json_next_member(&json, &key) && mg_json_double(&json, &seconds)) {
            struct mg_writer w;
            mg_writer_init(&w);
            mg_write_begin_object(&w);
            mg_write_member_double(&w, key, seconds * share);
            mg_write_end_object(&w);
            if (mg_writer_finish(&w)) /* without its braces */
                out = mg_arena_printf(arena, "%s%s%.*s", out, comma, (int)w.size - 2, w.data + 1);
            mg_writer_release(&w);
            comma = ",";
        }
    }
    return json.err.code == MG_OK ? mg_arena_printf(arena, "%s}", out) : text;
}

void mg_split_opaque(struct mg_split *t)
{
    double share = 1;
    for (uint32_t i = 0; i < t->cut_count; i++)
        share *= (double)(t->cuts[i].hi - t->cuts[i].lo) / (double)t->axes[t->cuts[i].axis].length;
    find(t, MG_ATTR_FLOPS)->f *= share;
    find(t, MG_ATTR_BYTES)->f *= share;
    struct mg_attr *latency = find(t, MG_ATTR_LATENCY);
    if (latency->string[0])
        latency->string = scaled_latency(t->arena, latency->string, share);
}

/* ---- describe ---- */

static void fill_whole(const struct mg_graph *g, mg_op op, struct mg_shape *shape, enum mg_dtype *dtype,
                       struct mg_op_desc *out)
{
    const struct mg_op_info *info = &g->ops[op];
    for (uint32_t i = 0; i < info->in_count + info->out_count; i++) {
        mg_value v = i < info->in_count ? info->in[i] : info->out[i - info->in_count];
        shape[i] = g->values[v].shape;
        dtype[i] = g->values[v].dtype;
    }
    *out = (struct mg_op_desc){.type = info->type,
                               .math = g->math,
                               .attrs = info->attrs,
                               .attr_count = info->attr_count,
                               .in_count = info->in_count,
                               .out_count = info->out_count,
                               .in_shape = shape,
                               .out_shape = shape + info->in_count,
                               .in_dtype = dtype,
                               .out_dtype = dtype + info->in_count};
}

static uint32_t operand_count(const struct mg_graph *g, mg_op op)
{
    return g->ops[op].in_count + g->ops[op].out_count;
}

void mg_op_whole(const struct mg_graph *g, mg_op op, struct mg_arena *arena, struct mg_op_desc *out)
{
    struct mg_shape *shape = MG_NEW_ARRAY(arena, struct mg_shape, operand_count(g, op));
    fill_whole(g, op, shape, MG_NEW_ARRAY(arena, enum mg_dtype, operand_count(g, op)), out);
}

void mg_op_whole_in(const struct mg_graph *g, mg_op op, struct mg_op_room *room, struct mg_arena *arena,
                    struct mg_op_desc *out)
{
    uint32_t count = operand_count(g, op);
    bool fits = count <= MG_OP_ROOM;
    room->shape = fits ? room->own_shape : MG_NEW_ARRAY(arena, struct mg_shape, count);
    room->dtype = fits ? room->own_dtype : MG_NEW_ARRAY(arena, enum mg_dtype, count);
    fill_whole(g, op, room->shape, room->dtype, out);
}

struct describe {
    const struct mg_graph *g;
    mg_op op;
    const struct mg_cut *cuts;
    uint32_t cut_count;
    struct mg_arena *arena;
    struct mg_op_desc *out;
};

static enum mg_code check_cut(const struct describe *d, uint32_t i, struct mg_error *err)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(d->g, d->op, &count);
    const struct mg_cut *cut = &d->cuts[i];
    const char *name = d->g->ops[d->op].name;
    if (cut->axis >= count)
        return mg_fail(err, MG_ERR_INVALID, "", "operator '%.100s' has no axis %u", name, cut->axis);
    const struct mg_axis *axis = &axes[cut->axis];
    if (axis->window)
        return mg_fail(err, MG_ERR_UNSUPPORTED, "", "axis %s of operator '%.100s' is a sliding window", axis->name,
                       name);
    if (cut->lo < 0 || cut->lo >= cut->hi || cut->hi > axis->length)
        return mg_fail(err, MG_ERR_INVALID, "", "[%lld, %lld) is no part of axis %s of operator '%.100s'",
                       (long long)cut->lo, (long long)cut->hi, axis->name, name);
    for (uint32_t k = 0; k < i; k++) {
        if (d->cuts[k].axis == cut->axis)
            return mg_fail(err, MG_ERR_INVALID, "", "axis %s of operator '%.100s' is cut twice", axis->name, name);
    }
    return MG_OK;
}

static void restrict_shapes(struct mg_shape *shapes, const struct mg_axis_use *uses, uint32_t count, int64_t extent)
{
    for (uint32_t i = 0; i < count; i++) {
        if (uses[i].dim >= 0)
            shapes[i].dim[uses[i].dim] = extent * uses[i].unit;
    }
}

static enum mg_code describe(void *context, struct mg_error *err)
{
    struct describe *d = context;
    uint32_t axis_count;
    const struct mg_axis *axes = mg_op_axes(d->g, d->op, &axis_count);
    struct mg_op_desc whole;
    mg_op_whole(d->g, d->op, d->arena, &whole);
    *d->out = whole;
    if (d->cut_count == 0)
        return MG_OK;
    uint32_t total = whole.in_count + whole.out_count;
    struct mg_shape *shapes = mg_arena_copy(d->arena, whole.in_shape, total * sizeof *shapes);
    for (uint32_t i = 0; i < d->cut_count; i++) {
        MG_TRY(check_cut(d, i, err));
        const struct mg_axis *axis = &axes[d->cuts[i].axis];
        int64_t extent = d->cuts[i].hi - d->cuts[i].lo;
        restrict_shapes(shapes, axis->in, whole.in_count, extent);
        restrict_shapes(shapes + whole.in_count, axis->out, whole.out_count, extent);
    }
    struct mg_split t = {.arena = d->arena, .whole = &whole, .axes = axes, .cuts = d->cuts, .cut_count = d->cut_count};
    t.in_shape = shapes;
    t.out_shape = shapes + whole.in_count;
    t.attrs = mg_arena_copy(d->arena, whole.attrs, whole.attr_count * sizeof *t.attrs);
    t.attr_count = whole.attr_count;
    mg_op_facts(whole.type)->split(&t);
    d->out->attrs = t.attrs;
    d->out->in_shape = t.in_shape;
    d->out->out_shape = t.out_shape;
    return MG_OK;
}

enum mg_code mg_op_describe(const struct mg_graph *g, mg_op op, const struct mg_cut *cuts, uint32_t cut_count,
                            struct mg_arena *arena, struct mg_op_desc *out, struct mg_error *err)
{
    struct describe d = {g, op, cuts, cut_count, arena, out};
    return mg_arena_guard(arena, describe, &d, err);
}

const struct mg_axis *mg_op_axes(const struct mg_graph *g, mg_op op, uint32_t *count)
{
    *count = g->ops[op].axis_count;
    return g->ops[op].axes;
}
