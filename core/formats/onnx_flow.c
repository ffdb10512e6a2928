/* ONNX rules: control flow that is known while the file is read. A branch whose condition is known takes the node's
 * place; a loop whose rounds are known is written out. */
#include <string.h>

#include "formats/onnx_rules.h"

enum { MAX_ROUNDS = 1024 };

static const struct onnx_graph *body_of(struct onnx_call *c, const char *name)
{
    const struct onnx_attribute *attribute = mg_onnx_attr(c, name);
    if (attribute && attribute->graph)
        return attribute->graph;
    mg_onnx_invalid(c, "attribute '%s' is missing", name);
    return NULL;
}

static const char *output_name(const struct onnx_graph *graph, uint32_t i)
{
    const char *name = ONNX_AT(graph->outputs, struct onnx_value_info, i)->name;
    return name ? name : "";
}

/* Adds a subgraph's nodes, `in` standing for its inputs; `out` receives what its outputs are. */
static void add_body(struct onnx_call *c, const struct onnx_graph *graph, const char *prefix, struct onnx_value **in,
                     uint32_t in_count, struct onnx_value **out)
{
    struct mg_arena *arena = c->m->arena;
    struct onnx_scope *s = MG_NEW(arena, struct onnx_scope);
    const char **wanted = MG_NEW_ARRAY(arena, const char *, graph->outputs.count + 1);
    *s = (struct onnx_scope){.m = c->m, .outer = c->s, .opset = c->s->opset, .depth = c->s->depth + 1};
    s->prefix = prefix;
    if (s->depth > ONNX_MAX_NESTED || in_count != graph->inputs.count)
        mg_onnx_invalid(c, "its body takes %u values, is given %u, or is nested too deep", graph->inputs.count,
                        in_count);
    for (uint32_t i = 0; i < in_count && c->code == MG_OK; i++) {
        const char *name = ONNX_AT(graph->inputs, struct onnx_value_info, i)->name;
        mg_onnx_define(s, name ? name : "", in[i]);
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        wanted[i] = output_name(graph, i);
    if (c->code == MG_OK)
        c->code = mg_onnx_add_initializers(s, graph);
    if (c->code == MG_OK)
        c->code = mg_onnx_add_nodes(s, &graph->nodes, wanted, graph->outputs.count);
    for (uint32_t i = 0; i < graph->outputs.count && c->code == MG_OK; i++) {
        out[i] = mg_onnx_lookup(s, wanted[i]);
        if (!out[i])
            mg_onnx_invalid(c, "the body's output '%.100s' is made by nothing", wanted[i]);
        else if (out[i]->lost)
            c->code = MG_ERR_UNSUPPORTED; /* the reason is listed already */
    }
}

void onnx_rule_if(struct onnx_call *c, int which)
{
    bool yes = mg_onnx_known_scalar(c, 0, 0) != 0;
    const struct onnx_graph *graph = c->code == MG_OK ? body_of(c, yes ? "then_branch" : "else_branch") : NULL;
    (void)which;
    if (!graph)
        return;
    struct onnx_value **out = MG_NEW_ARRAY(c->m->arena, struct onnx_value *, graph->outputs.count + 1);
    add_body(c, graph, mg_arena_printf(c->m->arena, "%s/", c->name), NULL, 0, out);
    for (uint32_t i = 0; i < graph->outputs.count && c->code == MG_OK; i++)
        mg_onnx_alias(c, i, out[i]);
}

/* ---- loops ---- */

struct loop {
    const struct onnx_graph *graph;
    struct onnx_value **in, **out; /* of one round */
    uint32_t states, before;       /* values that go round; outputs before them */
    int64_t rounds, done;
    mg_value *rows;                   /* of each output that is collected, one for each round */
    const int64_t *axes, *directions; /* of collected outputs, or NULL: the first, forwards */
    uint32_t axis_count, direction_count;
};

static struct onnx_value *constant(struct onnx_call *c, int64_t number, enum mg_dtype dtype)
{
    struct onnx_value *value = MG_NEW(c->m->arena, struct onnx_value);
    struct mg_onnx_data *data = onnx_integers(c, &number, 1);
    data->dtype = dtype;
    data->shape.rank = 0;
    *value = (struct onnx_value){
        .name = c->name, .dtype = dtype, .origin = ONNX_FOLDED, .value = MG_NONE, .data = data, .constant = true};
    return value;
}

static void open_loop(struct onnx_call *c, struct loop *l)
{
    uint32_t in = l->graph->inputs.count, out = l->graph->outputs.count;
    if (l->rounds < 0)
        l->rounds = 0;
    if (l->rounds > MAX_ROUNDS)
        mg_onnx_unsupported(c, "of %lld rounds", (long long)l->rounds);
    if (l->before + l->states > out || c->out_count > out - l->before)
        mg_onnx_invalid(c, "its body has %u outputs", out);
    if (c->code != MG_OK)
        return;
    l->in = MG_NEW_ARRAY(c->m->arena, struct onnx_value *, in + l->states + 2);
    l->out = MG_NEW_ARRAY(c->m->arena, struct onnx_value *, out + 1);
    l->rows = MG_NEW_ARRAY(c->m->arena, mg_value, (uint64_t)(out + 1) * (uint64_t)(l->rounds + 1));
}

/* Entry i of a list that may be absent, or shorter. */
static int64_t entry(const int64_t *list, uint32_t count, uint32_t i)
{
    return list && i < count ? list[i] : 0;
}

/* Where collected output i gets its new dimension. */
static uint32_t collecting_axis(struct onnx_call *c, const struct loop *l, uint32_t i, uint32_t rank)
{
    return mg_onnx_axis(c, entry(l->axes, l->axis_count, i - l->before - l->states), rank);
}

/* One round: values that go round are taken over, collected ones become rows of a new dimension. */
static void add_round(struct onnx_call *c, struct loop *l, uint32_t first_state)
{
    const char *prefix = mg_arena_printf(c->m->arena, "%s/%lld/", c->name, (long long)l->done);
    add_body(c, l->graph, prefix, l->in, l->graph->inputs.count, l->out);
    for (uint32_t i = 0; i < l->states && c->code == MG_OK; i++)
        l->in[first_state + i] = l->out[l->before + i];
    for (uint32_t i = l->before + l->states; i < l->graph->outputs.count && c->code == MG_OK; i++) {
        mg_value row = mg_onnx_materialise(c->m, l->out[i], MG_KIND_CONSTANT);
        const struct mg_shape *own = &l->out[i]->shape;
        struct mg_shape shape = {.rank = own->rank + 1};
        if (shape.rank > MG_MAX_RANK) {
            mg_onnx_unsupported(c, "to %u dimensions", shape.rank);
            return;
        }
        uint32_t axis = collecting_axis(c, l, i, shape.rank);
        for (uint32_t d = 0; d < shape.rank; d++)
            shape.dim[d] = d == axis ? 1 : own->dim[d - (d > axis)];
        bool backwards = entry(l->directions, l->direction_count, i - l->before - l->states) != 0;
        int64_t place = backwards ? l->rounds - 1 - l->done : l->done;
        l->rows[i * (uint64_t)l->rounds + (uint64_t)place] = mg_onnx_reshape(c, row, &shape);
    }
    l->done++;
}

static void close_loop(struct onnx_call *c, const struct loop *l, uint32_t first_state)
{
    for (uint32_t i = 0; i < l->states && c->code == MG_OK; i++)
        mg_onnx_alias(c, i, l->in[first_state + i]);
    for (uint32_t i = l->states; i < c->out_count && c->code == MG_OK; i++) {
        const mg_value *rows = l->rows + (l->before + i) * (uint64_t)l->rounds;
        if (l->done == 0) {
            mg_onnx_unsupported(c, "of no round");
            return;
        }
        uint32_t axis = collecting_axis(c, l, l->before + i, mg_onnx_info(c, rows[0])->shape.rank);
        mg_onnx_result(c, i, mg_onnx_add(c, MG_OP_CONCAT, rows, (uint32_t)l->done, ATTRS(A_INT(AXIS, axis)), 1, NULL));
    }
}

/* (rounds, condition, states...); body: (round, condition, states...) -> condition, states, collected. */
void onnx_rule_loop(struct onnx_call *c, int which)
{
    struct loop l = {.graph = body_of(c, "body"), .before = 1, .states = c->in_count > 2 ? c->in_count - 2 : 0};
    bool goes_on = !mg_onnx_has(c, 1) || mg_onnx_known_scalar(c, 1, 1) != 0;
    (void)which;
    if (!mg_onnx_has(c, 0))
        mg_onnx_unsupported(c, "without a number of rounds");
    else
        l.rounds = mg_onnx_known_integer(c, 0, 0);
    if (c->code != MG_OK || !l.graph)
        return;
    open_loop(c, &l);
    for (uint32_t i = 0; i < l.states && c->code == MG_OK; i++)
        l.in[2 + i] = c->in[2 + i];
    while (l.done < l.rounds && goes_on && c->code == MG_OK) {
        l.in[0] = constant(c, l.done, MG_DTYPE_I64);
        l.in[1] = constant(c, 1, MG_DTYPE_BOOL);
        add_round(c, &l, 2);
        if (c->code == MG_OK && !l.out[0]->data)
            mg_onnx_unsupported(c, "its condition is known only at run time");
        goes_on = c->code == MG_OK && mg_onnx_data_at(l.out[0]->data, 0) != 0;
    }
    close_loop(c, &l, 2);
}

/* Entry t of a sequence along one of its dimensions, which goes. */
static struct onnx_value *row_of(struct onnx_call *c, uint32_t operand, uint32_t along, int64_t t)
{
    const struct mg_shape *whole = mg_onnx_shape(c, operand);
    const int64_t axis = along, end = t + 1;
    struct mg_shape shape = {.rank = 0};
    for (uint32_t d = 0; d < whole->rank; d++)
        if (d != along)
            shape.dim[shape.rank++] = whole->dim[d];
    mg_value row = mg_onnx_add(c, MG_OP_SLICE, OPERANDS(mg_onnx_in(c, operand)),
                               ATTRS(A_INTS(STARTS, &t, 1), A_INTS(ENDS, &end, 1), A_INTS(AXES, &axis, 1)), 1, NULL);
    row = mg_onnx_reshape(c, row, &shape);
    struct onnx_value *value = MG_NEW(c->m->arena, struct onnx_value);
    const struct mg_value_info *info = mg_onnx_info(c, row);
    *value = (struct onnx_value){.name = info->name, .dtype = info->dtype, .shape = info->shape, .value = row};
    return value;
}

/* The rounds of a scan: as many as each sequence is long. */
static int64_t sequence_length(struct onnx_call *c, const struct loop *l, const int64_t *axes, uint32_t axis_count)
{
    int64_t length = 0;
    for (uint32_t i = l->states; i < c->in_count && c->code == MG_OK; i++) {
        const struct mg_shape *shape = mg_onnx_shape(c, i);
        uint32_t axis = mg_onnx_axis(c, entry(axes, axis_count, i - l->states), shape->rank);
        if (c->code != MG_OK)
            return 0;
        if (i > l->states && shape->dim[axis] != length)
            mg_onnx_invalid(c, "its sequences have lengths %lld and %lld", (long long)length,
                            (long long)shape->dim[axis]);
        length = shape->dim[axis];
    }
    return length;
}

/* (states..., sequences...); body: (states..., rows...) -> states, collected. */
static void scan(struct onnx_call *c, const char *input_directions)
{
    int64_t sequences = mg_onnx_int(c, "num_scan_inputs", 0);
    uint32_t axis_count, direction_count;
    const int64_t *axes = mg_onnx_ints(c, "scan_input_axes", &axis_count);
    const int64_t *directions = mg_onnx_ints(c, input_directions, &direction_count);
    struct loop l = {.graph = body_of(c, "body")};
    l.axes = mg_onnx_ints(c, "scan_output_axes", &l.axis_count);
    l.directions = mg_onnx_ints(c, "scan_output_directions", &l.direction_count);
    if (sequences < 1 || sequences > c->in_count)
        mg_onnx_invalid(c, "num_scan_inputs is %lld", (long long)sequences);
    if (c->code != MG_OK || !l.graph)
        return;
    l.states = c->in_count - (uint32_t)sequences;
    l.rounds = sequence_length(c, &l, axes, axis_count);
    open_loop(c, &l);
    for (uint32_t i = 0; i < l.states && c->code == MG_OK; i++)
        l.in[i] = c->in[i];
    while (l.done < l.rounds && c->code == MG_OK) {
        for (uint32_t i = l.states; i < c->in_count && i < l.graph->inputs.count; i++) {
            uint32_t nth = i - l.states,
                     axis = mg_onnx_axis(c, entry(axes, axis_count, nth), mg_onnx_shape(c, i)->rank);
            bool backwards = entry(directions, direction_count, nth) != 0;
            l.in[i] = row_of(c, i, axis, backwards ? l.rounds - 1 - l.done : l.done);
        }
        add_round(c, &l, 0);
    }
    close_loop(c, &l, 0);
}

/* The scan of sample `n` alone; parts[k] receives its result k as a batch of one. */
static void scan_sample(struct onnx_call *c, int64_t n, mg_value *parts)
{
    struct onnx_call one = *c;
    one.in_count = c->in_count - 1;
    one.in = MG_NEW_ARRAY(c->m->arena, struct onnx_value *, one.in_count + 1);
    one.out = MG_NEW_ARRAY(c->m->arena, struct onnx_value *, c->out_count + 1);
    one.name = mg_arena_printf(c->m->arena, "%s/sample%lld", c->name, (long long)n);
    for (uint32_t i = 0; i < one.in_count && c->code == MG_OK; i++)
        one.in[i] = row_of(c, i + 1, 0, n);
    one.code = c->code;
    scan(&one, "directions");
    c->code = one.code;
    for (uint32_t k = 0; k < c->out_count && c->code == MG_OK; k++) {
        struct mg_shape shape = {.rank = one.out[k]->shape.rank + 1, .dim = {1}};
        if (shape.rank > MG_MAX_RANK) {
            mg_onnx_unsupported(c, "to %u dimensions", shape.rank);
            return;
        }
        memcpy(shape.dim + 1, one.out[k]->shape.dim, one.out[k]->shape.rank * sizeof shape.dim[0]);
        parts[k] = mg_onnx_reshape(c, mg_onnx_materialise(c->m, one.out[k], MG_KIND_CONSTANT), &shape);
    }
}

/* Opset 8: (lengths, states..., sequences...), each a batch whose samples are scanned one by one. */
static void scan_batch(struct onnx_call *c)
{
    const struct mg_shape *first = mg_onnx_shape(c, 1);
    int64_t batch = first->rank ? first->dim[0] : 0;
    if (mg_onnx_has(c, 0))
        mg_onnx_unsupported(c, "sequences of different lengths");
    for (uint32_t i = 1; i < c->in_count && c->code == MG_OK; i++)
        if (mg_onnx_shape(c, i)->rank == 0 || mg_onnx_shape(c, i)->dim[0] != batch)
            mg_onnx_invalid(c, "operand %u is not a batch of %lld", i, (long long)batch);
    const struct mg_shape *last = mg_onnx_shape(c, c->in_count ? c->in_count - 1 : 0);
    int64_t rounds = last->rank > 1 ? last->dim[1] : 0;
    if (batch < 1 || batch > MAX_ROUNDS || rounds > MAX_ROUNDS / batch)
        mg_onnx_unsupported(c, "of %lld samples of %lld rounds", (long long)batch, (long long)rounds);
    if (c->code != MG_OK)
        return;
    mg_value *parts = MG_NEW_ARRAY(c->m->arena, mg_value, c->out_count * (uint64_t)batch + 1);
    mg_value *sample = MG_NEW_ARRAY(c->m->arena, mg_value, c->out_count + 1);
    for (int64_t n = 0; n < batch && c->code == MG_OK; n++) {
        scan_sample(c, n, sample);
        for (uint32_t k = 0; k < c->out_count; k++)
            parts[k * batch + n] = sample[k];
    }
    for (uint32_t k = 0; k < c->out_count && c->code == MG_OK; k++)
        mg_onnx_result(
            c, k, mg_onnx_add(c, MG_OP_CONCAT, parts + k * batch, (uint32_t)batch, ATTRS(A_INT(AXIS, 0)), 1, NULL));
}

void onnx_rule_scan(struct onnx_call *c, int which)
{
    (void)which;
    if (c->opset < 9)
        scan_batch(c);
    else
        scan(c, "scan_input_directions");
}
