/* Which operators cost the same. Networks repeat their layers: on a deep one few operators differ in more than names
 * and operands, and a price of each would be most of what a search holds. O(operators). */
#include <string.h>

#include "search/problem.h"

static bool same_value(const struct mg_graph *g, mg_value a, mg_value b)
{
    return g->values[a].dtype == g->values[b].dtype && mg_shape_equal(&g->values[a].shape, &g->values[b].shape);
}

static bool same_values(const struct mg_graph *g, const mg_value *a, const mg_value *b, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && same_value(g, a[i], b[i]))
        i++;
    return i == count;
}

static bool same_uses(const struct mg_axis_use *a, const struct mg_axis_use *b, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && a[i].dim == b[i].dim && a[i].unit == b[i].unit)
        i++;
    return i == count;
}

static bool same_axes(const struct mg_op_info *a, const struct mg_op_info *b)
{
    for (uint32_t i = 0; i < a->axis_count; i++) {
        const struct mg_axis *x = &a->axes[i], *y = &b->axes[i];
        if (strcmp(x->name, y->name) != 0 || x->length != y->length || x->window != y->window ||
            !same_uses(x->in, y->in, a->in_count) || !same_uses(x->out, y->out, a->out_count))
            return false;
    }
    return true;
}

/* All that mg_op_describe reads. */
static bool is_like(const struct mg_graph *g, mg_op x, mg_op y)
{
    const struct mg_op_info *a = &g->ops[x], *b = &g->ops[y];
    if (a->type != b->type || a->attr_count != b->attr_count || a->in_count != b->in_count ||
        a->out_count != b->out_count || a->axis_count != b->axis_count)
        return false;
    for (uint32_t i = 0; i < a->attr_count; i++)
        if (!mg_attr_equal(&a->attrs[i], &b->attrs[i]))
            return false;
    return same_values(g, a->in, b->in, a->in_count) && same_values(g, a->out, b->out, a->out_count) && same_axes(a, b);
}

static struct mg_hash128 hash_op(const struct mg_graph *g, mg_op op)
{
    const struct mg_op_info *info = &g->ops[op];
    struct mg_hash128 h = mg_hash_bytes(&info->type, sizeof info->type, info->in_count);
    for (uint32_t i = 0; i < info->in_count; i++) {
        const struct mg_shape *shape = &g->values[info->in[i]].shape;
        h = mg_hash_bytes(shape->dim, shape->rank * sizeof *shape->dim, h.lo);
    }
    for (uint32_t i = 0; i < info->attr_count; i++)
        if (info->attrs[i].type == MG_ATTR_TYPE_INT) /* seeds, above all */
            h = mg_hash_bytes(&info->attrs[i].i, sizeof info->attrs[i].i, h.lo);
    return h;
}

void mg_problem_find_likes(struct mg_problem *p, struct mg_arena *scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    size_t slots = 16;
    while (slots < 2 * (size_t)p->op_count)
        slots *= 2;
    uint32_t *first = MG_NEW_ARRAY(scratch, uint32_t, slots); /* operator + 1, open addressing */
    for (uint32_t o = 0; o < p->op_count; o++) {
        size_t at = hash_op(p->g, o).lo & (slots - 1);
        while (first[at] && !is_like(p->g, first[at] - 1, o))
            at = (at + 1) & (slots - 1);
        first[at] = first[at] ? first[at] : o + 1;
        p->like[o] = first[at] - 1;
    }
    mg_arena_rewind(scratch, mark);
}
