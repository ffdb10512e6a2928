/* Stable topological order (Kahn, with a heap on list positions): O((V + E) log V). */
#include <stdio.h>
#include <string.h>

#include "graph/normalise_priv.h"

mg_value mg_alias_root(const struct mg_graph *g, mg_value v)
{
    /* Bounded: in a cycle of views the walk would not end. */
    for (size_t n = 0; n <= g->op_count; n++) {
        mg_op op = g->values[v].producer;
        if (op == MG_NONE || mg_op_cost(g->ops[op].type) != MG_COST_VIEW)
            return v;
        v = g->ops[op].in[0];
    }
    return v;
}

/* Successor lists in compressed form. */
struct edges {
    size_t *start; /* op_count + 1 */
    mg_op *to;
    uint32_t *waits; /* open predecessors of each operator */
};

struct edge {
    mg_op from, to;
};

struct edge_list {
    struct edge *edge;
    size_t count, capacity;
};

static void add_edge(struct mg_arena *arena, struct edge_list *list, mg_op from, mg_op to)
{
    *MG_PUSH(arena, list->edge, list->count, list->capacity) = (struct edge){from, to};
}

static void data_edges(const struct mg_graph *g, struct mg_arena *arena, struct edge_list *list)
{
    for (mg_op op = 0; op < g->op_count; op++) {
        for (uint32_t i = 0; i < g->ops[op].in_count; i++) {
            mg_op from = g->values[g->ops[op].in[i]].producer;
            if (from != MG_NONE)
                add_edge(arena, list, from, op);
        }
    }
}

/* Readers of a storage that is overwritten come first. */
static void in_place_edges(const struct mg_graph *g, const int32_t *in_place, struct mg_arena *arena,
                           struct edge_list *list)
{
    struct edge_list writer = {0}; /* of: alias root -> operator, as a list per root */
    mg_op *first = MG_NEW_ARRAY(arena, mg_op, g->value_count);
    mg_op *next = MG_NEW_ARRAY(arena, mg_op, g->op_count);
    memset(first, 0xff, g->value_count * sizeof *first);
    for (mg_op op = 0; op < g->op_count; op++) {
        if (in_place[op] < 0)
            continue;
        mg_value root = mg_alias_root(g, g->ops[op].in[in_place[op]]);
        next[op] = first[root];
        first[root] = op;
        writer.count++;
    }
    if (writer.count == 0)
        return;
    for (mg_op op = 0; op < g->op_count; op++) {
        for (uint32_t i = 0; i < g->ops[op].in_count; i++) {
            mg_value root = mg_alias_root(g, g->ops[op].in[i]);
            for (mg_op w = first[root]; w != MG_NONE; w = next[w]) {
                if (w != op)
                    add_edge(arena, list, op, w);
            }
        }
    }
}

static struct edges compress(size_t ops, const struct edge_list *list, struct mg_arena *arena)
{
    struct edges e = {.start = MG_NEW_ARRAY(arena, size_t, ops + 1),
                      .to = MG_NEW_ARRAY(arena, mg_op, list->count),
                      .waits = MG_NEW_ARRAY(arena, uint32_t, ops)};
    for (size_t i = 0; i < list->count; i++) {
        e.start[list->edge[i].from + 1]++;
        e.waits[list->edge[i].to]++;
    }
    for (size_t i = 0; i < ops; i++)
        e.start[i + 1] += e.start[i];
    size_t *at = mg_arena_copy(arena, e.start, ops * sizeof *at);
    for (size_t i = 0; i < list->count; i++)
        e.to[at[list->edge[i].from]++] = list->edge[i].to;
    return e;
}

/* ---- heap of ready operators, smallest on top ---- */

static void push(mg_op *heap, size_t *count, mg_op op)
{
    size_t at = (*count)++;
    while (at > 0 && heap[(at - 1) / 2] > op) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = op;
}

static mg_op pop(mg_op *heap, size_t *count)
{
    mg_op top = heap[0], last = heap[--*count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= *count)
            break;
        child += child + 1 < *count && heap[child + 1] < heap[child];
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* Some operator on a cycle: from any that still waits, walk backwards along waiting ones. */
static enum mg_code fail_cycle(const struct mg_graph *g, const struct edge_list *list, const uint32_t *waits,
                               struct mg_arena *arena, struct mg_error *err)
{
    mg_op *before = MG_NEW_ARRAY(arena, mg_op, g->op_count);
    bool *seen = MG_NEW_ARRAY(arena, bool, g->op_count);
    mg_op op = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (waits[list->edge[i].from] > 0)
            before[list->edge[i].to] = list->edge[i].from;
    }
    while (waits[op] == 0)
        op++;
    for (; !seen[op]; op = before[op])
        seen[op] = true;
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/ops/%u", op);
    if (before[op] == op)
        return mg_fail(err, MG_ERR_INVALID, pointer, "operator '%.100s' reads its own result", g->ops[op].name);
    return mg_fail(err, MG_ERR_INVALID, pointer,
                   "operators '%.100s' and '%.100s' are on a cycle (or read an old version after its update)",
                   g->ops[op].name, g->ops[before[op]].name);
}

enum mg_code mg_order_ops(const struct mg_graph *g, const int32_t *in_place, struct mg_arena *scratch, mg_op *order,
                          struct mg_error *err)
{
    struct edge_list list = {0};
    data_edges(g, scratch, &list);
    in_place_edges(g, in_place, scratch, &list);
    struct edges e = compress(g->op_count, &list, scratch);
    mg_op *heap = MG_NEW_ARRAY(scratch, mg_op, g->op_count);
    size_t ready = 0, done = 0;
    for (mg_op op = 0; op < g->op_count; op++) {
        if (e.waits[op] == 0)
            push(heap, &ready, op);
    }
    while (ready > 0) {
        mg_op op = pop(heap, &ready);
        order[done++] = op;
        for (size_t i = e.start[op]; i < e.start[op + 1]; i++) {
            if (--e.waits[e.to[i]] == 0)
                push(heap, &ready, e.to[i]);
        }
    }
    return done == g->op_count ? MG_OK : fail_cycle(g, &list, e.waits, scratch, err);
}
