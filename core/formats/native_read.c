/* A native document into a graph: names are resolved by the graph's own table, so operators may come in
 * any order; shapes that depend on later operators are inferred by normalisation. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "formats/aten_priv.h"
#include "formats/members.h"
#include "formats/native_priv.h"

struct building {
    const struct native_document *document;
    struct mg_graph *g;
    struct mg_arena *scratch;
    struct mg_error *err;
    mg_op *op_slots; /* hash table of operators by name */
    size_t op_mask;
    mg_value *operands; /* of one operator */
};

static enum mg_code fail_name(struct building *b, const char *name, const char *reason, const char *fmt, ...)
    MG_PRINTF(4, 5);
static enum mg_code fail_name(struct building *b, const char *name, const char *reason, const char *fmt, ...)
{
    char pointer[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(pointer, sizeof pointer, fmt, args);
    va_end(args);
    return mg_fail(b->err, MG_ERR_INVALID, pointer, "\"%.200s\" %s", name, reason);
}

static enum mg_code add_values(struct building *b)
{
    for (size_t i = 0; i < b->document->value_count; i++) {
        const struct native_value *value = &b->document->values[i];
        if (mg_graph_find_value(b->g, value->name) != MG_NONE)
            return fail_name(b, value->name, "is listed twice", "/values/%zu/name", i);
        mg_value made = mg_graph_add_value(b->g, value->name, value->kind, value->dtype, &value->shape);
        if (made == MG_NONE)
            return fail_name(b, value->name, "does not fit", "/values/%zu/shape", i);
        b->g->values[made].home = value->home;
    }
    return MG_OK;
}

/* Results that are not declared get a value without shape, so that operators can read them in any order. */
static enum mg_code add_results(struct building *b)
{
    for (size_t i = 0; i < b->document->op_count; i++) {
        const struct native_names *names = &b->document->ops[i].outputs;
        for (size_t j = 0; j < names->count; j++)
            if (mg_graph_find_value(b->g, names->name[j]) == MG_NONE &&
                mg_graph_add_value(b->g, names->name[j], MG_KIND_COMPUTED, MG_DTYPE_F32, NULL) == MG_NONE)
                return fail_name(b, names->name[j], "is one value too many", "/ops/%zu/outputs/%zu", i, j);
    }
    return MG_OK;
}

static enum mg_code find_operands(struct building *b, size_t op, mg_value *in)
{
    const struct native_names *names = &b->document->ops[op].inputs;
    for (size_t i = 0; i < names->count; i++) {
        in[i] = mg_graph_find_value(b->g, names->name[i]);
        if (in[i] == MG_NONE)
            return fail_name(b, names->name[i], "is no value: nothing declares or makes it", "/ops/%zu/inputs/%zu", op,
                             i);
    }
    return MG_OK;
}

/* Whether each result is free to be made by this operator. */
static enum mg_code check_results(struct building *b, size_t op)
{
    const struct native_names *names = &b->document->ops[op].outputs;
    for (size_t i = 0; i < names->count; i++) {
        const struct mg_value_info *value = &b->g->values[mg_graph_find_value(b->g, names->name[i])];
        if (value->kind != MG_KIND_COMPUTED)
            return fail_name(b, value->name, "is declared with a kind, so no operator can make it",
                             "/ops/%zu/outputs/%zu", op, i);
        bool twice = value->producer != MG_NONE;
        for (size_t j = 0; j < i; j++)
            twice = twice || strcmp(names->name[i], names->name[j]) == 0;
        if (twice)
            return fail_name(b, value->name, "is made twice", "/ops/%zu/outputs/%zu", op, i);
    }
    return MG_OK;
}

static enum mg_code check_axes(struct building *b, size_t at)
{
    const struct native_op *op = &b->document->ops[at];
    const char *name = op->name ? op->name : mg_op_type_name(op->type);
    bool opaque = op->type == MG_OP_OPAQUE;
    if (op->has_axes && !opaque)
        return fail_name(b, name, "is not opaque: its axes are known", "/ops/%zu/attrs/axes", at);
    if (op->has_axes && (op->axis_in != op->inputs.count || op->axis_out != op->outputs.count))
        return fail_name(b, name, "has axes that do not list each operand and each result", "/ops/%zu/attrs/axes", at);
    for (size_t i = 0; opaque && !op->has_axes && i < op->attr_count; i++)
        if (op->attrs[i].key == MG_ATTR_AXES && op->attrs[i].count > 0)
            return fail_name(b, name, "has axes that are no objects", "/ops/%zu/attrs/axes", at);
    return MG_OK;
}

static enum mg_code add_op(struct building *b, size_t at)
{
    const struct native_op *op = &b->document->ops[at];
    mg_value *in = b->operands;
    MG_TRY(find_operands(b, at, in));
    MG_TRY(check_results(b, at));
    MG_TRY(check_axes(b, at));
    MG_TRY(mg_graph_add_op(b->g, op->type, op->name, in, (uint32_t)op->inputs.count, op->attrs,
                           (uint32_t)op->attr_count, op->outputs.name, (uint32_t)op->outputs.count, NULL, b->err));
    if (op->module)
        mg_graph_set_module(b->g, (mg_op)at, op->module);
    if (op->in_place >= (int32_t)op->inputs.count)
        return fail_name(b, b->g->ops[at].name, "has no such operand", "/ops/%zu/in_place", at);
    if (op->in_place >= 0)
        mg_graph_set_in_place(b->g, (mg_op)at, op->in_place);
    return MG_OK;
}

/* ---- operators by name ---- */

static mg_op *op_slot(struct building *b, const char *name)
{
    size_t at = (size_t)mg_hash_bytes(name, strlen(name), 0).lo & b->op_mask;
    while (b->op_slots[at] != MG_NONE && strcmp(b->g->ops[b->op_slots[at]].name, name) != 0)
        at = (at + 1) & b->op_mask;
    return &b->op_slots[at];
}

/* Plans name operators, so their names must differ too. */
static enum mg_code index_ops(struct building *b)
{
    size_t capacity = 64;
    while (capacity < 2 * b->g->op_count)
        capacity *= 2;
    b->op_mask = capacity - 1;
    b->op_slots = MG_NEW_ARRAY(b->scratch, mg_op, capacity);
    memset(b->op_slots, 0xff, capacity * sizeof *b->op_slots);
    for (mg_op op = 0; op < b->g->op_count; op++) {
        mg_op *slot = op_slot(b, b->g->ops[op].name);
        if (*slot != MG_NONE)
            return fail_name(b, b->g->ops[op].name, "is the name of two operators", "/ops/%u/name", op);
        *slot = op;
    }
    return MG_OK;
}

/* Which operators a training step's gradients belong to, and how many of the listed ones go forward. */
static enum mg_code link_gradients(struct building *b)
{
    for (mg_op op = 0; op < b->g->op_count; op++) {
        const char *name = b->document->ops[op].gradient_of;
        if (name && (b->g->ops[op].forward_of = *op_slot(b, name)) == MG_NONE)
            return fail_name(b, name, "is no operator", "/ops/%u/gradient_of", op);
    }
    if (b->document->forward_ops > (int64_t)b->g->op_count)
        return mg_fail(b->err, MG_ERR_INVALID, "/forward_ops", "there are only %zu operators", b->g->op_count);
    if (b->document->forward_ops >= 0)
        b->g->forward_ops = (mg_op)b->document->forward_ops;
    return MG_OK;
}

/* A declared value without kind that no operator makes. */
static enum mg_code check_producers(struct building *b)
{
    for (size_t i = 0; i < b->document->value_count; i++) {
        const struct mg_value_info *value = &b->g->values[i];
        if (value->kind == MG_KIND_COMPUTED && value->producer == MG_NONE)
            return fail_name(b, value->name, "has no kind, and no operator makes it", "/values/%zu", i);
    }
    return MG_OK;
}

static enum mg_code add_outputs(struct building *b)
{
    const struct native_names *names = &b->document->outputs;
    for (size_t i = 0; i < names->count; i++) {
        mg_value value = mg_graph_find_value(b->g, names->name[i]);
        if (value == MG_NONE)
            return fail_name(b, names->name[i], "is no value", "/outputs/%zu", i);
        if (b->g->values[value].is_output)
            return fail_name(b, names->name[i], "is listed twice", "/outputs/%zu", i);
        mg_graph_add_output(b->g, value);
    }
    return MG_OK;
}

static enum mg_code add_updates(struct building *b)
{
    for (size_t i = 0; i < b->document->update_count; i++) {
        const struct native_update *update = &b->document->updates[i];
        mg_value weight = mg_graph_find_value(b->g, update->weight);
        mg_value value = mg_graph_find_value(b->g, update->value);
        if (weight == MG_NONE ||
            (b->g->values[weight].kind != MG_KIND_WEIGHT && b->g->values[weight].kind != MG_KIND_STATE))
            return fail_name(b, update->weight, "is no weight and no state", "/updates/%zu/weight", i);
        if (b->g->values[weight].updated_by != MG_NONE)
            return fail_name(b, update->weight, "is updated twice", "/updates/%zu/weight", i);
        if (value == MG_NONE || b->g->values[value].producer == MG_NONE)
            return fail_name(b, update->value, "is made by no operator", "/updates/%zu/value", i);
        if (b->g->values[value].update_of != MG_NONE)
            return fail_name(b, update->value, "is the new version of two values", "/updates/%zu/value", i);
        mg_graph_add_update(b->g, weight, value);
    }
    return MG_OK;
}

static enum mg_code add_labels(struct building *b)
{
    for (size_t i = 0; i < b->document->label_count; i++) {
        const struct native_label *label = &b->document->labels[i];
        mg_value value = mg_graph_find_value(b->g, label->value);
        if (value == MG_NONE)
            return fail_name(b, label->value, "is no value", "/labels/%zu/value", i);
        b->g->values[value].label = mg_arena_strdup(b->g->arena, label->label);
    }
    return MG_OK;
}

static enum mg_code check_training(struct building *b)
{
    const struct mg_training *training = &b->document->training;
    for (uint32_t i = 0; i < training->trainable_count; i++) {
        mg_value value = mg_graph_find_value(b->g, training->trainable[i]);
        if (value == MG_NONE || b->g->values[value].kind != MG_KIND_WEIGHT)
            return fail_name(b, training->trainable[i], "is no weight", "/training/trainable/%u", i);
    }
    return MG_OK;
}

/* Declared values, and results that are not declared. */
static size_t count_values(const struct native_document *d)
{
    size_t given = 0, made = 0;
    for (size_t i = 0; i < d->value_count; i++)
        given += d->values[i].kind != MG_KIND_COMPUTED;
    for (size_t i = 0; i < d->op_count; i++)
        made += d->ops[i].outputs.count;
    return given + made > d->value_count ? given + made : d->value_count;
}

enum mg_code mg_native_build(const struct native_document *document, struct mg_arena *scratch, struct mg_arena *arena,
                             struct mg_graph **out, struct mg_error *err)
{
    struct mg_error ignored = {0};
    struct building b = {.document = document,
                         .g = mg_graph_new(arena, document->name),
                         .scratch = scratch,
                         .err = err ? err : &ignored,
                         .operands = MG_NEW_ARRAY(scratch, mg_value, MG_MAX_OPERANDS)};
    mg_graph_reserve(b.g, document->op_count, count_values(document));
    b.g->math = document->math;
    b.g->source = document->source ? mg_arena_strdup(arena, document->source) : NULL;
    MG_TRY(add_values(&b));
    MG_TRY(add_results(&b));
    for (size_t i = 0; i < document->op_count; i++)
        MG_TRY(add_op(&b, i));
    MG_TRY(index_ops(&b));
    MG_TRY(link_gradients(&b));
    MG_TRY(check_producers(&b));
    MG_TRY(add_outputs(&b));
    MG_TRY(add_updates(&b));
    MG_TRY(add_labels(&b));
    MG_TRY(check_training(&b));
    *out = b.g;
    return MG_OK;
}

struct request {
    const char *text;
    size_t size;
    struct mg_arena reading; /* of all that the graph does not need */
    struct mg_arena *arena;
    struct mg_graph **out;
    struct mg_training *training;
    bool *has_training;
};

/* What the document says of training, in the graph's arena. */
static void keep_training(const struct request *request, const struct native_document *document)
{
    struct mg_training *training = request->training;
    *request->has_training = document->has_training;
    if (!document->has_training)
        return;
    *training = document->training;
    if (!training->trainable)
        return;
    const char **names = MG_NEW_ARRAY(request->arena, const char *, training->trainable_count);
    for (uint32_t i = 0; i < training->trainable_count; i++)
        names[i] = mg_arena_strdup(request->arena, training->trainable[i]);
    training->trainable = names;
}

static enum mg_code read_native(struct request *request, struct mg_error *err)
{
    struct mg_json json;
    struct native_document document;
    mg_json_init(&json, &request->reading, request->text, request->size);
    bool good = mg_native_parse(&json, &document);
    mg_json_end_elements(&json);
    if (!good)
        return mg_fail(err, json.err.code, json.err.pointer, "%s", json.err.message);
    MG_TRY(mg_native_build(&document, &request->reading, request->arena, request->out, err));
    keep_training(request, &document);
    return MG_OK;
}

static enum mg_code read_graph(void *context, struct mg_error *err)
{
    struct request *request = context;
    *request->has_training = false;
    if (strcmp(mg_document_format(request->text, request->size, &request->reading), "magis-aten/1") == 0)
        return mg_aten_read(request->text, request->size, &request->reading, request->arena, request->out, err);
    return read_native(request, err);
}

static enum mg_code read_guarded(void *context, struct mg_error *err)
{
    struct request *request = context;
    enum mg_code code = mg_arena_guard(&request->reading, read_graph, request, err);
    if (code == MG_ERR_NOMEM &&
        request->reading.limit - request->reading.used < request->arena->limit - request->arena->used)
        return mg_fail(err, MG_ERR_LIMIT, "", MG_JSON_TOO_MANY);
    return code;
}

enum mg_code mg_graph_read(const char *json, size_t size, struct mg_arena *arena, struct mg_graph **out,
                           struct mg_training *training, bool *has_training, struct mg_error *err)
{
    struct request request = {
        .text = json, .size = size, .arena = arena, .out = out, .training = training, .has_training = has_training};
    mg_arena_init_within(&request.reading, arena);
    enum mg_code code = mg_arena_guard(arena, read_guarded, &request, err);
    mg_arena_release(&request.reading);
    return code;
}
