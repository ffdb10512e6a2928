/* Views: what an instance of a view value must look like, given the instance it is a view of.
 *
 * Outside regions normalisation has decided offset and strides, relative to the value's base, for whole
 * values. For the part-local instances of a body (and for dense slices of view values) the view
 * operators between the base instance's value and the view's are applied again, one after the other, to
 * the part's shapes. The path is at most the depth of the graph's chain of views. */
#include <string.h>

#include "plan/check_priv.h"

enum { MAX_PATH = 64 };

struct layout {
    struct mg_shape shape;
    int64_t offset;
    int64_t stride[MG_MAX_RANK];
};

/* ---- one view operator ---- */

/* Row-major order is kept: a run of old dimensions that step over one another exactly is one long
 * dimension, which may be cut anew. Runs of old and new shape are matched from the innermost on. */
static bool reshape(const struct layout *in, struct layout *out)
{
    int32_t i = (int32_t)in->shape.rank - 1, k = (int32_t)out->shape.rank - 1;
    while (k >= 0 || i >= 0) {
        while (i >= 0 && in->shape.dim[i] == 1)
            i--;
        if (k >= 0 && out->shape.dim[k] == 1) {
            out->stride[k--] = 1;
            continue;
        }
        if (k < 0 || i < 0)
            return k < 0 && i < 0;
        int64_t old = in->shape.dim[i], new = out->shape.dim[k], step = in->stride[i];
        out->stride[k] = step;
        while (old != new) {
            if (old < new) {
                do
                    i--;
                while (i >= 0 && in->shape.dim[i] == 1);
                if (i < 0 || in->stride[i] != step * old)
                    return false;
                old *= in->shape.dim[i];
            } else {
                do
                    k--;
                while (k >= 0 && out->shape.dim[k] == 1 && (out->stride[k] = 1));
                if (k < 0)
                    return false;
                out->stride[k] = step * new;
                new *= out->shape.dim[k];
            }
        }
        i--;
        k--;
    }
    return true;
}

static void expand(const struct layout *in, struct layout *out)
{
    uint32_t lead = out->shape.rank - in->shape.rank;
    for (uint32_t d = 0; d < out->shape.rank; d++) {
        bool kept = d >= lead && in->shape.dim[d - lead] == out->shape.dim[d];
        out->stride[d] = kept ? in->stride[d - lead] : 0;
    }
}

/* A dimension that is cut is taken whole by the operator: it starts at 0 and steps by 1. */
static void slice(const struct mg_op_info *op, const struct layout *in, struct layout *out)
{
    const int64_t *starts = mg_op_attr(op, MG_ATTR_STARTS)->ints, *steps = mg_op_attr(op, MG_ATTR_STEPS)->ints;
    for (uint32_t d = 0; d < out->shape.rank; d++) {
        out->offset += starts[d] * in->stride[d];
        out->stride[d] = steps[d] * in->stride[d];
    }
}

static void split(const struct mg_op_info *op, uint32_t slot, const struct layout *in, struct layout *out)
{
    const int64_t *sizes = mg_op_attr(op, MG_ATTR_SPLIT)->ints;
    int64_t axis = mg_op_attr_int(op, MG_ATTR_AXIS);
    memcpy(out->stride, in->stride, sizeof out->stride);
    for (uint32_t i = 0; i < slot; i++)
        out->offset += sizes[i] * in->stride[axis];
}

/* `out` has its shape; offset and strides are found. */
static bool apply(const struct mg_op_info *op, uint32_t slot, const struct layout *in, struct layout *out)
{
    out->offset = in->offset;
    switch (op->type) {
    case MG_OP_TRANSPOSE:
        for (uint32_t d = 0; d < out->shape.rank; d++)
            out->stride[d] = in->stride[mg_op_attr(op, MG_ATTR_PERM)->ints[d]];
        return true;
    case MG_OP_EXPAND:
        expand(in, out);
        return true;
    case MG_OP_SLICE:
        slice(op, in, out);
        return true;
    case MG_OP_SPLIT:
        split(op, slot, in, out);
        return true;
    case MG_OP_RESHAPE:
    case MG_OP_SQUEEZE:
    case MG_OP_UNSQUEEZE:
    case MG_OP_FLATTEN:
        return reshape(in, out);
    default:
        return false;
    }
}

/* ---- paths of view operators ---- */

/* Values from `value` back to (not including) `root`; 0 if it is no view of it, or by too long a path. */
static uint32_t path_to(const struct mg_check *c, mg_value value, mg_value root, mg_value path[MAX_PATH])
{
    uint32_t n = 0;
    while (value != root) {
        mg_op op = c->g->values[value].producer;
        if (op == MG_NONE || !c->g->ops[op].is_view || n == MAX_PATH)
            return 0;
        path[n++] = value;
        value = c->g->ops[op].in[0];
    }
    return n;
}

bool mg_check_use_of_base(const struct mg_check *c, uint32_t place, mg_value value, mg_value root,
                          struct mg_check_use *use)
{
    while (value != root) {
        const struct mg_value_info *v = &c->g->values[value];
        if (v->producer == MG_NONE || !c->g->ops[v->producer].is_view)
            return false;
        struct mg_check_use out = mg_check_result_use(c, place, v->producer, v->slot);
        if (out.dim != use->dim || out.mult != use->mult)
            return false;
        *use = mg_check_operand_use(c, place, v->producer, 0);
        value = c->g->ops[v->producer].in[0];
    }
    return true;
}

/* The box of the result from that of the operand, in the regions around `home`. */
static bool step_box(const struct mg_check *c, uint32_t home, mg_value value, struct mg_check_use *box)
{
    const struct mg_check_place *p = &c->places[home];
    const struct mg_value_info *v = &c->g->values[value];
    for (uint32_t j = 0; j < p->depth; j++) {
        bool listed = mg_check_entry(c, p->chain[j], v->producer) != NULL;
        struct mg_check_use in = mg_check_operand_use(c, p->chain[j], v->producer, 0);
        if (in.dim != box[j].dim || in.mult != box[j].mult)
            return false;
        if (listed)
            box[j] = mg_check_result_use(c, p->chain[j], v->producer, v->slot);
    }
    return true;
}

static bool same_layout(const struct mg_instance *stated, const struct layout *mine)
{
    if (!mg_shape_equal(&stated->shape, &mine->shape))
        return false;
    if (mg_shape_elements(&mine->shape) == 0)
        return true;
    for (uint32_t d = 0; d < mine->shape.rank; d++)
        if (mine->shape.dim[d] > 1 && stated->stride[d] != mine->stride[d])
            return false;
    return stated->offset == mine->offset;
}

static bool check_whole(struct mg_check *c, uint32_t step, uint32_t view)
{
    const struct mg_instance *w = &c->plan->instances[view];
    const struct mg_value_info *v = &c->g->values[w->value];
    struct layout mine = {.shape = v->shape, .offset = v->offset};
    memcpy(mine.stride, v->stride, sizeof mine.stride);
    MG_CHECK(same_layout(w, &mine), c, step, "view", "instance %u: offset, strides or shape are not those of '%.60s'",
             view, v->name);
    return true;
}

bool mg_check_view(struct mg_check *c, uint32_t step, uint32_t view)
{
    const struct mg_instance *w = &c->plan->instances[view], *b = &c->plan->instances[w->view_of];
    const struct mg_check_instance *base = &c->instances[w->view_of];
    const struct mg_check_place *p = &c->places[base->home];
    mg_value path[MAX_PATH];
    const char *name = c->g->values[w->value].name;
    if (p->depth == 0 && c->g->values[w->value].base == b->value && w->value != b->value)
        return check_whole(c, step, view);
    uint32_t n = path_to(c, w->value, b->value, path);
    MG_CHECK(n, c, step, "view", "instance %u: '%.60s' is no view of '%.60s'", view, name, c->g->values[b->value].name);
    struct layout now = {.shape = b->shape}, next;
    struct mg_check_use *box = MG_NEW_ARRAY(c->arena, struct mg_check_use, p->depth);
    mg_shape_strides(&b->shape, now.stride);
    memcpy(box, base->box, p->depth * sizeof *box);
    while (n-- > 0) {
        const struct mg_value_info *v = &c->g->values[path[n]];
        MG_CHECK(step_box(c, base->home, path[n], box), c, step, "view",
                 "instance %u: '%.60s' does not carry the region's axis", view, v->name);
        next = (struct layout){.shape = mg_check_cut(&v->shape, box, p->depth, &p->tuples[0])};
        MG_CHECK(apply(&c->g->ops[v->producer], v->slot, &now, &next), c, step, "view",
                 "instance %u: '%.60s' cannot be a view of a part", view, v->name);
        now = next;
    }
    MG_CHECK(same_layout(w, &now), c, step, "view", "instance %u: offset, strides or shape are not those of '%.60s'",
             view, name);
    c->instances[view].box = box;
    return true;
}
