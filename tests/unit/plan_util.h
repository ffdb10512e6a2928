/* Graphs and plans for the plan tests: the skip graph of the paper's Figure 2, small training steps,
 * and an assembler that turns (graph, nested regions as ranges of operators, random swaps) into a plan. */
#ifndef MG_TESTS_PLAN_UTIL_H
#define MG_TESTS_PLAN_UTIL_H

#include <criterion/criterion.h>

#include "base/digest.h"
#include "plan/builder.h"
#include "plan/plan_priv.h"
#include "tests/unit/graph_util.h"

/* Runs fn(context) inside a guard on the arena; fails the test on an error. */
static inline void guarded(struct mg_arena *arena, enum mg_code (*fn)(void *context, struct mg_error *err),
                           void *context)
{
    struct mg_error err = {0};
    enum mg_code code = mg_arena_guard(arena, fn, context, &err);
    cr_assert_eq(code, MG_OK, "%s: %s", mg_code_name(code), err.message);
}

/* x_i = relu(x_(i-1)), y_n-1 = x_n + x_(n-1), y_i = y_(i+1) + x_i (MAGIS, Figure 2). */
static inline void figure2(struct bench *b, int n, int64_t rows, int64_t columns)
{
    mg_value x[64], y;
    x[0] = input(b, "x0", SHAPE(rows, columns));
    for (int i = 1; i <= n; i++)
        x[i] = op1(b, MG_OP_RELU, NULL, VALUES(x[i - 1]), NO_ATTRS);
    y = x[n];
    for (int i = n - 1; i >= 1; i--)
        y = op1(b, MG_OP_ADD, NULL, VALUES(y, x[i]), NO_ATTRS);
    mg_graph_add_output(b->g, y);
    cr_assert(normalise(b), "%s", b->err.message);
}

/* A training step: layers of matmul and relu, the loss's gradient from outside, weight gradients, updates. */
static inline void training_step(struct bench *b, int layers, int64_t batch, int64_t width)
{
    mg_value h[16], w[16], dy = input(b, "dy", SHAPE(batch, width));
    char name[16];
    h[0] = input(b, "x", SHAPE(batch, width));
    for (int i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "w%d", i);
        w[i] = value_of(b, MG_KIND_WEIGHT, name, SHAPE(width, width));
        mg_value a = op1(b, MG_OP_MATMUL, NULL, VALUES(h[i], w[i]), NO_ATTRS);
        h[i + 1] = op1(b, MG_OP_RELU, NULL, VALUES(a), NO_ATTRS);
    }
    mg_graph_add_output(b->g, h[layers]);
    mg_value dw[16];
    for (int i = layers - 1; i >= 0; i--) {
        mg_value da = op1(b, MG_OP_RELU_GRAD, NULL, VALUES(dy, h[i + 1]), NO_ATTRS);
        dw[i] = op1(b, MG_OP_MATMUL, NULL, VALUES(h[i], da), ATTRS(INT_OF(TRANS_A, 1)));
        if (i > 0)
            dy = op1(b, MG_OP_MATMUL, NULL, VALUES(da, w[i]), ATTRS(INT_OF(TRANS_B, 1)));
    }
    for (int i = layers - 1; i >= 0; i--)
        mg_graph_add_update(b->g, w[i], op1(b, MG_OP_SGD, NULL, VALUES(w[i], dw[i]), ATTRS(REAL_OF(LR, 0.1))));
    cr_assert(normalise(b), "%s", b->err.message);
}

/* Elementwise operators and transposes of a [rows, columns] input, at random, with a few outputs. */
static inline void random_graph(struct bench *b, struct mg_rng *rng, int ops, int64_t rows, int64_t columns)
{
    mg_value pool[64], one = input(b, "x", SHAPE(rows, columns));
    mg_value w = value_of(b, MG_KIND_WEIGHT, "w", SHAPE(columns, columns));
    int count = 0;
    pool[count++] = one;
    while (count < ops) {
        mg_value a = pool[mg_rng_below(rng, (uint64_t)count)], c = pool[count - 1];
        switch (mg_rng_below(rng, 5)) {
        case 0:
            pool[count++] = op1(b, MG_OP_MATMUL, NULL, VALUES(a, w), NO_ATTRS);
            break;
        case 1:
        case 2:
            pool[count++] = op1(b, MG_OP_ADD, NULL, VALUES(a, c), NO_ATTRS);
            break;
        default:
            pool[count++] = op1(b, MG_OP_TANH, NULL, VALUES(c), NO_ATTRS);
        }
    }
    mg_graph_add_output(b->g, pool[count - 1]);
    mg_graph_add_output(b->g, pool[count / 2]);
    mg_value sum = op1(b, MG_OP_MATMUL, NULL, VALUES(pool[count / 3], pool[count - 2]), ATTRS(INT_OF(TRANS_A, 1)));
    mg_graph_add_output(b->g, sum);
    cr_assert(normalise(b), "%s", b->err.message);
}

/* ---- assembling plans ---- */
/* A region over the operators [from, to): each on the axis that runs over dimension `dim` of its operand 0
 * (of the given operand for operators without). Nested regions follow the outer ones. */
struct span {
    uint32_t from, to, parts, parent;
    int64_t length;
    uint32_t id;
    const struct mg_region_op *ops; /* NULL: the axis over dimension 0 of operand 0, for all */
};
struct assembly {
    const struct mg_graph *g;
    const struct mg_device *device;
    struct mg_arena *arena;
    struct span *spans;
    uint32_t span_count;
    uint32_t swap_percent;
    struct mg_rng rng;
    struct mg_plan *plan;
    /* running */
    struct mg_plan_builder *b;
    uint32_t *current; /* by base value: instance to read here, MG_NONE if gone (or stored) */
    uint32_t *stored;  /* by base value: stored instance, MG_NONE if none */
    uint32_t *level;   /* by base value: span (+1) in whose body its instance lives */
    uint32_t *whole;   /* by base value: region output that replaces the local one after the region */
    uint32_t *last;    /* by base value: last operator that reads it */
    bool *kept;
};

static inline uint32_t axis_of_dim0(const struct mg_graph *g, mg_op op, int dim)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(g, op, &count);
    for (uint32_t a = 0; a < count; a++)
        if (axes[a].in[0].dim == dim)
            return a;
    return MG_NONE;
}

static inline void declare_spans(struct assembly *s)
{
    for (uint32_t i = 0; i < s->span_count; i++) {
        struct span *span = &s->spans[i];
        struct mg_region_op ops[256];
        uint32_t count = span->to - span->from;
        for (uint32_t k = 0; k < count; k++)
            ops[k] = span->ops ? span->ops[k]
                               : (struct mg_region_op){span->from + k, axis_of_dim0(s->g, span->from + k, 0), 1};
        uint32_t parent = span->parent == MG_NONE ? MG_NONE : s->spans[span->parent].id;
        span->id = mg_plan_builder_region(s->b, parent, span->length, span->parts, ops, count);
    }
}

static inline bool reads(const struct mg_graph *g, mg_op from, mg_op to, mg_value base)
{
    for (mg_op op = from; op < to; op++)
        for (uint32_t i = 0; i < g->ops[op].in_count; i++)
            if (!g->ops[op].is_view && g->values[g->ops[op].in[i]].base == base)
                return true;
    return false;
}

static inline void load_back(struct assembly *s, mg_op from, mg_op to, uint32_t level)
{
    for (mg_value v = 0; v < s->g->value_count; v++)
        if (s->stored[v] != MG_NONE && s->current[v] == MG_NONE && s->level[v] == level && reads(s->g, from, to, v))
            s->current[v] = mg_plan_builder_load(s->b, s->stored[v]);
}

/* After an item of this level: frees what is dead, sends out some of the rest. */
static inline void settle(struct assembly *s, mg_op to, uint32_t level)
{
    for (mg_value v = 0; v < s->g->value_count; v++) {
        if (s->current[v] == MG_NONE || s->level[v] != level || s->kept[v])
            continue;
        if (s->last[v] == MG_NONE || s->last[v] < to) {
            mg_plan_builder_free(s->b, s->current[v]);
            s->current[v] = MG_NONE;
        } else if (s->swap_percent && (!level || s->whole[v] == MG_NONE) &&
                   mg_rng_below(&s->rng, 100) < s->swap_percent) {
            if (s->stored[v] == MG_NONE)
                mg_plan_builder_store(s->b, s->current[v]);
            s->stored[v] = s->stored[v] == MG_NONE ? s->current[v] : s->stored[v];
            if (mg_rng_below(&s->rng, 3)) {
                mg_plan_builder_free(s->b, s->current[v]);
                s->current[v] = MG_NONE;
            }
        }
    }
}

static inline void emit_op(struct assembly *s, mg_op op, uint32_t level, uint32_t *slices, uint32_t *slice_count)
{
    const struct mg_op_info *info = &s->g->ops[op];
    uint32_t in[64], out[64];
    cr_assert(info->in_count <= 64 && info->out_count <= 64);
    for (uint32_t i = 0; i < info->in_count; i++) {
        uint32_t have = s->current[s->g->values[info->in[i]].base];
        in[i] = mg_plan_builder_operand(s->b, op, i, have);
        bool listed = in[i] == have || !mg_plan_builder_is_local(s->b, in[i]) ||
                      s->level[s->g->values[info->in[i]].base] == level;
        for (uint32_t k = 0; k < *slice_count; k++)
            listed |= slices[k] == in[i];
        if (!listed)
            slices[(*slice_count)++] = in[i];
    }
    mg_plan_builder_run(s->b, op, in, out);
    for (uint32_t i = 0; i < info->out_count; i++) {
        mg_value v = info->out[i], old = s->g->values[v].update_of;
        s->current[v] = out[i];
        s->level[v] = mg_plan_builder_is_local(s->b, out[i]) ? level : MG_NONE; /* not ours to free here */
        if (old != MG_NONE) {
            s->current[old] = MG_NONE;
            s->level[v] = s->level[old];
        }
    }
    if (level == 0)
        for (uint32_t i = 0; i < info->out_count; i++)
            s->level[info->out[i]] = 0;
}

static inline void emit_range(struct assembly *s, mg_op from, mg_op to, uint32_t level);

static inline void emit_span(struct assembly *s, uint32_t index, uint32_t level)
{
    struct span *span = &s->spans[index];
    const mg_value *values;
    uint32_t outs[64], count = mg_plan_builder_region_outputs(s->b, span->id, &values);
    mg_plan_builder_begin(s->b, span->id, values, count, outs);
    for (uint32_t i = 0; i < count; i++)
        s->whole[values[i]] = outs[i];
    emit_range(s, span->from, span->to, index + 1);
    mg_plan_builder_end(s->b, span->id);
    for (uint32_t i = 0; i < count; i++) {
        s->current[values[i]] = outs[i];
        s->level[values[i]] = level;
        s->stored[values[i]] = MG_NONE;
    }
}

static inline void emit_range(struct assembly *s, mg_op from, mg_op to, uint32_t level)
{
    uint32_t slices[64], slice_count = 0;
    for (mg_op op = from; op < to;) {
        uint32_t inner = MG_NONE;
        for (uint32_t i = 0; i < s->span_count; i++)
            if (s->spans[i].from == op && i + 1 != level &&
                (s->spans[i].parent == MG_NONE ? 0 : s->spans[i].parent + 1) == level)
                inner = i;
        mg_op next = inner == MG_NONE ? op + 1 : s->spans[inner].to;
        load_back(s, op, next, level);
        if (inner != MG_NONE)
            emit_span(s, inner, level);
        else if (!s->g->ops[op].is_view)
            emit_op(s, op, level, slices, &slice_count);
        settle(s, next, level);
        op = next;
    }
    for (uint32_t k = 0; k < slice_count; k++)
        mg_plan_builder_free(s->b, slices[k]);
    for (mg_value v = 0; level && v < s->g->value_count; v++)
        if (s->level[v] == level && s->whole[v] != MG_NONE) { /* joined: from here on read from the whole */
            if (s->current[v] != MG_NONE)
                mg_plan_builder_free(s->b, s->current[v]);
            s->current[v] = s->whole[v];
            s->level[v] = MG_NONE;
        }
}

/* ---- growing regions over any axis ---- */
/* The axis of `op` that continues the region of operators [from, op): by all operands made there; MG_NONE
 * if they disagree, are reduced or too much is read. *connected: is there such an operand? */
static inline uint32_t continued_axis(const struct mg_graph *g, mg_op from, mg_op op, const struct mg_region_op *ops,
                                      int64_t *scale, bool *connected)
{
    uint32_t count, producer_count, axis = MG_NONE;
    const struct mg_axis *axes = mg_op_axes(g, op, &count);
    *connected = false;
    for (uint32_t i = 0; i < g->ops[op].in_count; i++) {
        const struct mg_value_info *v = &g->values[g->ops[op].in[i]];
        if (v->producer == MG_NONE || v->producer < from)
            continue;
        const struct mg_region_op *entry = &ops[v->producer - from];
        const struct mg_axis_use *made = &mg_op_axes(g, v->producer, &producer_count)[entry->axis].out[v->slot];
        uint32_t a = 0;
        while (a < count && (made->dim < 0 || axes[a].in[i].dim != made->dim))
            a++;
        if (a == count || (*connected && a != axis) || entry->scale * made->unit % axes[a].in[i].unit)
            return MG_NONE;
        axis = a;
        *scale = entry->scale * made->unit / axes[a].in[i].unit;
        *connected = true;
    }
    return axis;
}

static inline bool splits_well(const struct mg_graph *g, mg_op op, uint32_t a)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(g, op, &count);
    if (a >= count || axes[a].window || mg_op_purity(g, op) == MG_IMPURE || g->ops[op].in_place >= 0)
        return false;
    for (uint32_t o = 0; o < g->ops[op].out_count; o++)
        if (axes[a].out[o].dim < 0 && axes[a].combiner != MG_COMBINE_SUM)
            return false;
    return true;
}

/* The longest connected region from operator `from` on, over its axis `axis`, within [from, limit): the entries,
 * one for each operator, and their number. Every operand occurrence is checked; weights are read as the axis says. */
static inline uint32_t grow_region(const struct mg_graph *g, mg_op from, uint32_t axis, mg_op limit,
                                   struct mg_region_op *ops, int64_t *length)
{
    uint32_t count;
    if (axis >= (mg_op_axes(g, from, &count), count) || !splits_well(g, from, axis))
        return 0;
    *length = mg_op_axes(g, from, &count)[axis].length;
    ops[0] = (struct mg_region_op){from, axis, 1};
    for (mg_op op = from + 1; op < limit; op++) {
        int64_t scale = 1;
        bool connected;
        uint32_t a = continued_axis(g, from, op, ops, &scale, &connected);
        if (a == MG_NONE || !connected || !splits_well(g, op, a) ||
            mg_op_axes(g, op, &count)[a].length != scale * *length)
            return op - from;
        ops[op - from] = (struct mg_region_op){op, a, scale};
    }
    return limit - from;
}

static inline void init_assembly(struct assembly *s)
{
    size_t n = s->g->value_count;
    s->b = mg_plan_builder_new(s->g, s->device, s->arena);
    uint32_t **arrays[] = {&s->current, &s->stored, &s->level, &s->whole, &s->last};
    for (int i = 0; i < 5; i++) {
        *arrays[i] = MG_NEW_ARRAY(s->arena, uint32_t, n);
        memset(*arrays[i], 0xff, n * sizeof(uint32_t));
    }
    s->kept = MG_NEW_ARRAY(s->arena, bool, n);
    for (mg_value v = 0; v < n; v++) {
        const struct mg_value_info *info = &s->g->values[v];
        s->current[v] = mg_plan_builder_initial(s->b, v);
        s->level[v] = 0;
        bool resident = info->kind != MG_KIND_COMPUTED && info->kind != MG_KIND_INPUT;
        s->kept[info->base] |= resident || info->is_output || info->update_of != MG_NONE;
    }
    for (mg_op op = 0; op < s->g->op_count; op++)
        for (uint32_t i = 0; i < s->g->ops[op].in_count; i++)
            if (!s->g->ops[op].is_view)
                s->last[s->g->values[s->g->ops[op].in[i]].base] = op;
}

static inline enum mg_code assemble(void *context, struct mg_error *err)
{
    struct assembly *s = context;
    init_assembly(s);
    declare_spans(s);
    emit_range(s, 0, (uint32_t)s->g->op_count, 0);
    return mg_plan_builder_finish(s->b, NULL, &s->plan, err);
}

#endif
