/* Union-find over axis nodes and value dimensions: an axis that runs over dimension i of an operand
 * or result is joined to that dimension's node, which stands for all axes that run over it. */
#include "search/dimension.h"

#include <string.h>

static uint32_t find(uint32_t *parent, uint32_t x)
{
    while (parent[x] != x)
        x = parent[x] = parent[parent[x]];
    return x;
}

static void unite(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = find(parent, a);
    b = find(parent, b);
    if (a < b)
        parent[b] = a;
    else
        parent[a] = b;
}

static void number_nodes(struct mg_dimensions *d, const struct mg_graph *g, struct mg_arena *arena)
{
    uint32_t n = 0;
    d->axis_start = MG_NEW_ARRAY(arena, uint32_t, g->op_count + 1);
    d->value_start = MG_NEW_ARRAY(arena, uint32_t, g->value_count + 1);
    for (uint32_t o = 0; o < g->op_count; o++) {
        uint32_t axes;
        d->axis_start[o] = n;
        mg_op_axes(g, o, &axes);
        n += axes;
    }
    d->axis_start[g->op_count] = n;
    n = 0;
    for (uint32_t v = 0; v < g->value_count; v++) {
        d->value_start[v] = n;
        n += g->values[v].shape.rank;
    }
    d->value_start[g->value_count] = n;
}

struct joiner {
    const struct mg_dimensions *d;
    uint32_t *parent;
    uint32_t dims; /* first dimension node */
};

static void join_uses(const struct joiner *j, uint32_t axis_node, const struct mg_axis_use *use, const mg_value *value,
                      uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        if (use[k].dim >= 0)
            unite(j->parent, axis_node, j->dims + j->d->value_start[value[k]] + (uint8_t)use[k].dim);
    }
}

static void join_axes(const struct joiner *j, const struct mg_graph *g)
{
    for (uint32_t o = 0; o < g->op_count; o++) {
        const struct mg_op_info *op = &g->ops[o];
        uint32_t count;
        const struct mg_axis *axes = mg_op_axes(g, o, &count);
        for (uint32_t a = 0; a < count; a++) {
            if (axes[a].window)
                continue;
            join_uses(j, j->d->axis_start[o] + a, axes[a].in, op->in, op->in_count);
            join_uses(j, j->d->axis_start[o] + a, axes[a].out, op->out, op->out_count);
        }
    }
}

/* Operators by component, in two counting passes; an operator with several axes in one counts once. */
static void list_operators(struct mg_dimensions *d, const struct mg_graph *g, struct mg_arena *arena)
{
    uint32_t *last = MG_NEW_ARRAY(arena, uint32_t, d->count + 1);
    d->ops.start = MG_NEW_ARRAY(arena, uint32_t, d->count + 2);
    for (int fill = 0; fill < 2; fill++) {
        memset(last, 0, (d->count + 1) * sizeof *last);
        for (uint32_t o = 0; o < g->op_count; o++)
            for (uint32_t a = d->axis_start[o]; a < d->axis_start[o + 1]; a++) {
                uint32_t c = d->component[a];
                if (c == MG_NONE || last[c] == o + 1)
                    continue;
                last[c] = o + 1;
                if (fill)
                    d->ops.item[d->ops.start[c + 1]++] = o;
                else
                    d->ops.start[c + 2]++;
            }
        if (!fill) {
            for (uint32_t c = 0; c < d->count; c++)
                d->ops.start[c + 2] += d->ops.start[c + 1];
            d->ops.item = MG_NEW_ARRAY(arena, uint32_t, d->ops.start[d->count + 1]);
        }
    }
}

struct mg_dimensions *mg_dimensions_build(const struct mg_graph *g, struct mg_arena *arena)
{
    struct mg_dimensions *d = MG_NEW(arena, struct mg_dimensions);
    number_nodes(d, g, arena);
    uint32_t axes = d->axis_start[g->op_count], dims = d->value_start[g->value_count];
    uint32_t *parent = MG_NEW_ARRAY(arena, uint32_t, axes + dims);
    uint32_t *number = MG_NEW_ARRAY(arena, uint32_t, axes + dims);
    for (uint32_t i = 0; i < axes + dims; i++)
        parent[i] = i;
    join_axes(&(struct joiner){d, parent, axes}, g);
    d->component = MG_NEW_ARRAY(arena, uint32_t, axes);
    d->value_component = MG_NEW_ARRAY(arena, uint32_t, dims);
    for (uint32_t i = 0; i < axes + dims; i++) {
        uint32_t root = find(parent, i);
        if (number[root] == 0)
            number[root] = ++d->count;
        if (i < axes)
            d->component[i] = number[root] - 1;
        else
            d->value_component[i - axes] = number[root] - 1;
    }
    for (uint32_t o = 0; o < g->op_count; o++) {
        uint32_t count;
        const struct mg_axis *list = mg_op_axes(g, o, &count);
        for (uint32_t a = 0; a < count; a++)
            if (list[a].window)
                d->component[d->axis_start[o] + a] = MG_NONE;
    }
    list_operators(d, g, arena);
    return d;
}

uint32_t mg_dimensions_axis(const struct mg_dimensions *d, mg_op op, uint32_t component)
{
    uint32_t found = MG_NONE;
    for (uint32_t a = d->axis_start[op]; a < d->axis_start[op + 1]; a++)
        if (d->component[a] == component) {
            if (found != MG_NONE)
                return MG_NONE;
            found = a - d->axis_start[op];
        }
    return found;
}

uint32_t mg_connected_parts(const struct mg_graph *g, const mg_op *ops, uint32_t count, struct mg_arena *scratch,
                            uint32_t *part)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    uint32_t *index = MG_NEW_ARRAY(scratch, uint32_t, g->op_count); /* per operator: place in ops + 1 */
    uint32_t *parent = MG_NEW_ARRAY(scratch, uint32_t, count), *number = MG_NEW_ARRAY(scratch, uint32_t, count);
    uint32_t parts = 0;
    for (uint32_t i = 0; i < count; i++) {
        index[ops[i]] = i + 1;
        parent[i] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < g->ops[ops[i]].in_count; k++) {
            mg_op maker = g->values[g->ops[ops[i]].in[k]].producer;
            if (maker != MG_NONE && index[maker])
                unite(parent, i, index[maker] - 1);
        }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t root = find(parent, i);
        if (number[root] == 0)
            number[root] = ++parts;
        part[i] = number[root] - 1;
    }
    mg_arena_rewind(scratch, mark);
    return parts;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

bool mg_dimensions_region(const struct mg_dimensions *d, const struct mg_graph *g, uint32_t component, const mg_op *ops,
                          uint32_t count, struct mg_arena *arena, struct mg_region *out)
{
    struct mg_region_op *list = MG_NEW_ARRAY(arena, struct mg_region_op, count);
    int64_t length = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axes, axis = mg_dimensions_axis(d, ops[i], component);
        if (axis == MG_NONE)
            return false;
        list[i] = (struct mg_region_op){ops[i], axis, mg_op_axes(g, ops[i], &axes)[axis].length};
        length = common_divisor(length, list[i].scale);
    }
    if (length < 2)
        return false;
    for (uint32_t i = 0; i < count; i++)
        list[i].scale /= length;
    *out = (struct mg_region){MG_NONE, length, 2, list, count};
    return true;
}

uint32_t mg_dimensions_batch(const struct mg_dimensions *d, const struct mg_graph *g)
{
    uint32_t best = MG_NONE, most = 0;
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (g->values[v].kind != MG_KIND_INPUT || g->values[v].shape.rank == 0)
            continue;
        uint32_t c = d->value_component[d->value_start[v]], ops = d->ops.start[c + 1] - d->ops.start[c];
        if (ops > most) {
            most = ops;
            best = c;
        }
    }
    return best;
}
