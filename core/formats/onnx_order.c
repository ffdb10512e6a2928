/* The order in which nodes are added: from the outputs backwards tells which are needed, then a depth-first walk from
 * each of them in the file's order adds what it reads before it, so an ordered file keeps its order. Both walks keep
 * stacks of their own. */
#include <string.h>

#include "formats/onnx_priv.h"

struct order {
    struct onnx_scope *s;
    const struct onnx_list *nodes;
    struct mg_names producers; /* of names made in this list: node index + 1 as a pointer */
    uint8_t *state;            /* of each node: what follows */
    uint32_t *stack;           /* nodes being visited, */
    uint32_t *at;              /* the next operand of each */
    size_t depth;
    struct onnx_free_names *operands; /* of each node that was looked at */
};
enum { UNWANTED, WANTED, OPEN, DONE };

static const struct onnx_node *node_at(const struct order *o, uint32_t i)
{
    return ONNX_AT(*o->nodes, struct onnx_node, i);
}

static uint32_t producer_of(const struct order *o, const char *name)
{
    return *name ? (uint32_t)(uintptr_t)mg_names_find(&o->producers, name) : 0;
}

void mg_onnx_collect_free(struct mg_arena *arena, const struct onnx_graph *graph, struct onnx_free_names *out,
                          unsigned depth)
{
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const struct onnx_node *node = ONNX_AT(graph->nodes, struct onnx_node, i);
        for (uint32_t k = 0; k < node->inputs.count; k++)
            *MG_PUSH(arena, out->name, out->count, out->capacity) = ONNX_NAME(node->inputs, k);
        for (uint32_t k = 0; k < node->attributes.count; k++) {
            const struct onnx_attribute *attribute = ONNX_AT(node->attributes, struct onnx_attribute, k);
            if (attribute->graph && depth < ONNX_MAX_NESTED)
                mg_onnx_collect_free(arena, attribute->graph, out, depth + 1);
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const struct onnx_value_info *info = ONNX_AT(graph->outputs, struct onnx_value_info, i);
        *MG_PUSH(arena, out->name, out->count, out->capacity) = info->name ? info->name : "";
    }
}

static struct onnx_free_names operands_of(const struct order *o, uint32_t i)
{
    const struct onnx_node *node = node_at(o, i);
    if (o->operands[i].name)
        return o->operands[i];
    struct onnx_free_names names = {(const char **)node->inputs.items, node->inputs.count, node->inputs.count};
    for (uint32_t k = 0; k < node->attributes.count; k++) {
        const struct onnx_attribute *attribute = ONNX_AT(node->attributes, struct onnx_attribute, k);
        if (attribute->graph)
            mg_onnx_collect_free(o->s->m->arena, attribute->graph, &names, 0);
    }
    o->operands[i] = names;
    return names;
}

static enum mg_code index_producers(struct order *o)
{
    for (uint32_t i = 0; i < o->nodes->count; i++) {
        const struct onnx_node *node = node_at(o, i);
        for (uint32_t k = 0; k < node->outputs.count; k++) {
            const char *name = ONNX_NAME(node->outputs, k);
            if (!*name)
                continue;
            void **slot = mg_names_at(&o->producers, o->s->m->arena, name);
            if (*slot)
                return mg_fail(o->s->m->err, MG_ERR_INVALID, "", "two nodes make '%.200s'", name);
            *slot = (void *)(uintptr_t)(i + 1);
        }
    }
    return MG_OK;
}

/* Marks what the wanted names need. */
static void mark(struct order *o, const char *const *wanted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t p = producer_of(o, wanted[i]);
        if (p && o->state[p - 1] == UNWANTED) {
            o->state[p - 1] = WANTED;
            o->stack[o->depth++] = p - 1;
        }
    }
    while (o->depth) {
        struct onnx_free_names names = operands_of(o, o->stack[--o->depth]);
        for (size_t i = 0; i < names.count; i++) {
            uint32_t p = producer_of(o, names.name[i]);
            if (!p || o->state[p - 1] != UNWANTED)
                continue;
            o->state[p - 1] = WANTED;
            o->stack[o->depth++] = p - 1;
        }
    }
}

/* Adds a node after all that it reads. */
static enum mg_code visit(struct order *o, uint32_t root)
{
    o->depth = 0;
    o->stack[o->depth] = root;
    o->at[o->depth++] = 0;
    o->state[root] = OPEN;
    while (o->depth) {
        uint32_t i = o->stack[o->depth - 1];
        struct onnx_free_names names = operands_of(o, i);
        uint32_t p = 0;
        while (o->at[o->depth - 1] < names.count && !p) {
            p = producer_of(o, names.name[o->at[o->depth - 1]++]);
            p = p && o->state[p - 1] != DONE ? p : 0;
        }
        if (p && o->state[p - 1] == OPEN)
            return mg_fail(o->s->m->err, MG_ERR_INVALID, "", "node '%.100s' (%.60s) needs its own result: a cycle",
                           node_at(o, p - 1)->name ? node_at(o, p - 1)->name : "", node_at(o, p - 1)->op_type);
        if (p) {
            o->state[p - 1] = OPEN;
            o->stack[o->depth] = p - 1;
            o->at[o->depth++] = 0;
            continue;
        }
        MG_TRY(mg_onnx_add_node(o->s, node_at(o, i), i));
        o->state[i] = DONE;
        o->depth--;
    }
    return MG_OK;
}

enum mg_code mg_onnx_add_nodes(struct onnx_scope *s, const struct onnx_list *nodes, const char *const *wanted,
                               uint32_t wanted_count)
{
    struct mg_arena *arena = s->m->arena;
    struct order o = {.s = s, .nodes = nodes};
    o.state = MG_NEW_ARRAY(arena, uint8_t, nodes->count + 1);
    o.stack = MG_NEW_ARRAY(arena, uint32_t, nodes->count + 1);
    o.at = MG_NEW_ARRAY(arena, uint32_t, nodes->count + 1);
    o.operands = MG_NEW_ARRAY(arena, struct onnx_free_names, nodes->count + 1);
    s->m->node_count += nodes->count;
    if (s->m->node_count > s->m->node_limit)
        return mg_fail(s->m->err, MG_ERR_LIMIT, "", "more than %llu nodes, counting those of functions at each call",
                       (unsigned long long)s->m->node_limit);
    MG_TRY(index_producers(&o));
    mark(&o, wanted, wanted_count);
    for (uint32_t i = 0; i < nodes->count; i++)
        if (o.state[i] == WANTED)
            MG_TRY(visit(&o, i));
    return MG_OK;
}
