/* All invariants of a normalised graph, recomputed from its arrays. */
#include <string.h>

#include "graph/normalise_priv.h"

#define REQUIRE(condition, what, name)                                                                                 \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return mg_fail(why, MG_ERR_INTERNAL, "", "graph invariant broken at '%.100s': %s", name, what);            \
    } while (0)

static enum mg_code check_value(const struct mg_graph *g, mg_value v, struct mg_error *why)
{
    const struct mg_value_info *info = &g->values[v];
    REQUIRE(info->known && mg_shape_fits(&info->shape, info->dtype), "shape", info->name);
    REQUIRE((info->kind == MG_KIND_COMPUTED) == (info->producer != MG_NONE), "kind and producer", info->name);
    REQUIRE(info->bytes == (uint64_t)mg_shape_elements(&info->shape) * mg_dtype_size(info->dtype), "bytes", info->name);
    if (info->producer != MG_NONE) {
        REQUIRE(info->producer < g->op_count, "producer", info->name);
        const struct mg_op_info *op = &g->ops[info->producer];
        REQUIRE(info->slot < op->out_count && op->out[info->slot] == v, "slot", info->name);
        REQUIRE(op->is_view || info->base == v, "base of a computed value", info->name);
    } else {
        REQUIRE(info->base == v, "base of a given value", info->name);
    }
    for (uint32_t i = 0; i < info->reader_count; i++)
        REQUIRE(info->readers[i] < g->op_count && (i == 0 || info->readers[i - 1] < info->readers[i]), "readers",
                info->name);
    if (info->updated_by != MG_NONE)
        REQUIRE(info->updated_by < g->value_count && g->values[info->updated_by].update_of == v, "updated_by",
                info->name);
    return MG_OK;
}

/* A layout stays inside its base's storage. */
static enum mg_code check_layout(const struct mg_graph *g, mg_value v, struct mg_error *why)
{
    const struct mg_value_info *info = &g->values[v];
    REQUIRE(info->base < g->value_count && g->values[info->base].base == info->base, "base is a view", info->name);
    if (info->base == v)
        REQUIRE(info->offset == 0 && mg_layout_contiguous(&info->shape, info->stride), "layout", info->name);
    int64_t last = info->offset;
    for (uint32_t d = 0; d < info->shape.rank; d++)
        last += (info->shape.dim[d] - 1) * info->stride[d];
    if (info->bytes > 0)
        REQUIRE(info->offset >= 0 && last < mg_shape_elements(&g->values[info->base].shape), "view bounds", info->name);
    return MG_OK;
}

static bool is_reader(const struct mg_value_info *v, mg_op op)
{
    for (uint32_t i = 0; i < v->reader_count; i++) {
        if (v->readers[i] == op)
            return true;
    }
    return false;
}

/* Readers are ascending, so a binary search would do; lists are short except for shared constants. */
static enum mg_code check_operand(const struct mg_graph *g, mg_op op, uint32_t i, struct mg_error *why)
{
    const struct mg_op_info *info = &g->ops[op];
    REQUIRE(info->in[i] < g->value_count, "operand", info->name);
    const struct mg_value_info *v = &g->values[info->in[i]];
    REQUIRE(v->producer == MG_NONE || v->producer < op, "operands come first", info->name);
    REQUIRE(v->reader_count > 256 || is_reader(v, op), "reader list", info->name);
    REQUIRE(info->is_view || mg_op_accepts_layout(g, op, i, &v->shape, v->stride), "operand layout", info->name);
    return MG_OK;
}

static enum mg_code check_axes(const struct mg_graph *g, mg_op op, struct mg_error *why)
{
    const struct mg_op_info *info = &g->ops[op];
    for (uint32_t a = 0; a < info->axis_count; a++) {
        const struct mg_axis *axis = &info->axes[a];
        bool absent = false;
        for (uint32_t i = 0; i < info->in_count + info->out_count; i++) {
            bool operand = i < info->in_count;
            struct mg_axis_use use = operand ? axis->in[i] : axis->out[i - info->in_count];
            const struct mg_shape *shape = &g->values[operand ? info->in[i] : info->out[i - info->in_count]].shape;
            absent = absent || (!operand && use.dim < 0);
            if (use.dim >= 0 && !axis->window)
                REQUIRE(use.dim < (int)shape->rank && shape->dim[use.dim] == axis->length * use.unit, "axis extent",
                        info->name);
        }
        REQUIRE(!absent || axis->combiner != MG_COMBINE_NONE || info->type == MG_OP_OPAQUE, "combiner", info->name);
    }
    return MG_OK;
}

static enum mg_code check_op(const struct mg_graph *g, mg_op op, struct mg_error *why)
{
    const struct mg_op_info *info = &g->ops[op];
    REQUIRE(info->inferred && info->attr_count == mg_op_facts(info->type)->schema_count, "attributes", info->name);
    REQUIRE(!info->is_view || mg_op_cost(info->type) == MG_COST_VIEW, "view", info->name);
    for (uint32_t i = 0; i < info->in_count; i++)
        MG_TRY(check_operand(g, op, i, why));
    if (info->in_place >= 0) {
        REQUIRE((uint32_t)info->in_place < info->in_count, "in place", info->name);
        mg_value v = info->in[info->in_place];
        REQUIRE(g->values[v].bytes == g->values[info->out[0]].bytes, "size in place", info->name);
    }
    return check_axes(g, op, why);
}

/* Nobody reads a storage after the operator that overwrites it. */
static enum mg_code check_in_place(const struct mg_graph *g, struct mg_error *why)
{
    for (mg_value v = 0; v < g->value_count; v++) {
        mg_value base = g->values[v].base;
        const struct mg_value_info *info = &g->values[v];
        for (uint32_t i = 0; i < info->reader_count; i++) {
            const struct mg_op_info *op = &g->ops[info->readers[i]];
            if (op->in_place < 0 || g->values[op->in[op->in_place]].base != base)
                continue;
            REQUIRE(i + 1 == info->reader_count, "read after its overwriting", info->name);
        }
    }
    return MG_OK;
}

enum mg_code mg_graph_check(const struct mg_graph *g, struct mg_error *why)
{
    REQUIRE(g->normalised, "not normalised", g->name);
    for (mg_value v = 0; v < g->value_count; v++) {
        MG_TRY(check_value(g, v, why));
        MG_TRY(check_layout(g, v, why));
    }
    for (mg_op op = 0; op < g->op_count; op++)
        MG_TRY(check_op(g, op, why));
    for (size_t i = 0; i < g->output_count; i++)
        REQUIRE(g->outputs[i] < g->value_count && g->values[g->outputs[i]].is_output, "outputs", g->name);
    return check_in_place(g, why);
}
