/* Native JSON into a document: one streaming pass, members in any order. Everything that can be judged
 * without looking elsewhere is refused here, where the reader still knows the place. */
#include <string.h>

#include "base/suggest.h"
#include "formats/members.h"
#include "formats/native_priv.h"

/* Those of one operator, or a `long_list` as of the whole graph. */
static bool parse_names(struct mg_json *json, struct native_names *names, bool long_list)
{
    if (!mg_json_enter_array(json))
        return false;
    *names = (struct native_names){.name = MG_NEW_ARRAY(json->arena, const char *, 2), .capacity = 2};
    while (mg_json_next_element(json)) {
        const char *name;
        if (long_list)
            mg_json_begin_element(json);
        else if (names->count == MG_MAX_OPERANDS)
            return mg_json_fail(json, MG_ERR_LIMIT, "more than %d names", MG_MAX_OPERANDS);
        if (!mg_json_string(json, &name, NULL))
            return false;
        *MG_PUSH(json->arena, names->name, names->count, names->capacity) = name;
    }
    if (long_list)
        mg_json_end_elements(json);
    return json->err.code == MG_OK;
}

/* A list of objects, each announced. */
static bool parse_elements(struct mg_json *json, bool (*parse)(struct mg_json *json, struct native_document *d),
                           struct native_document *d)
{
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json)) {
        mg_json_begin_element(json);
        if (!parse(json, d))
            return false;
    }
    mg_json_end_elements(json);
    return json->err.code == MG_OK;
}

/* ---- values ---- */

static bool value_name(struct mg_json *json, void *into)
{
    return mg_json_string(json, &((struct native_value *)into)->name, NULL);
}

static bool value_shape(struct mg_json *json, void *into)
{
    struct native_value *value = into;
    value->has_shape = true;
    return mg_parse_shape(json, &value->shape);
}

static bool value_dtype(struct mg_json *json, void *into)
{
    struct native_value *value = into;
    value->has_dtype = true;
    return mg_parse_dtype(json, &value->dtype);
}

static bool value_kind(struct mg_json *json, void *into)
{
    size_t kind;
    if (!MG_PARSE_WORD(json, "kind", &kind, "input", "weight", "state", "constant"))
        return false;
    ((struct native_value *)into)->kind = (enum mg_kind)(MG_KIND_INPUT + kind);
    return true;
}

static bool value_home(struct mg_json *json, void *into)
{
    size_t home;
    if (!MG_PARSE_WORD(json, "home", &home, "device", "host"))
        return false;
    ((struct native_value *)into)->home = home ? MG_HOME_HOST : MG_HOME_DEVICE;
    return true;
}

static bool parse_value(struct mg_json *json, struct native_value *value)
{
    static const struct mg_member members[] = {
        {"name", value_name, true},  {"shape", value_shape, true}, {"dtype", value_dtype, true},
        {"kind", value_kind, false}, {"home", value_home, false},
    };
    *value = (struct native_value){.kind = MG_KIND_COMPUTED};
    if (!MG_PARSE_MEMBERS(json, "a value", members, value))
        return false;
    bool resident = value->kind != MG_KIND_COMPUTED && value->kind != MG_KIND_INPUT;
    if (value->home == MG_HOME_HOST && !resident)
        return mg_json_fail(json, MG_ERR_INVALID, "only weights, states and constants have a home");
    if (!mg_shape_fits(&value->shape, value->dtype))
        return mg_json_fail(json, MG_ERR_LIMIT, "the value \"%.100s\" is too large", value->name);
    return true;
}

/* ---- operators ---- */

static bool op_name(struct mg_json *json, void *into)
{
    return mg_json_string(json, &((struct native_op *)into)->name, NULL);
}

static bool op_module(struct mg_json *json, void *into)
{
    return mg_json_string(json, &((struct native_op *)into)->module, NULL);
}

static bool op_gradient_of(struct mg_json *json, void *into)
{
    return mg_json_string(json, &((struct native_op *)into)->gradient_of, NULL);
}

/* Names are in lower case: "Relu" is relu. */
static bool fail_op_name(struct mg_json *json, const char *text)
{
    char lower[64] = "";
    for (size_t i = 0; i < sizeof lower - 1 && text[i]; i++)
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] - 'A' + 'a' : text[i]);
    struct mg_suggestion near = {.text = lower};
    for (unsigned type = 0; type < MG_OP_COUNT; type++)
        mg_suggestion_consider(&near, mg_op_type_name((enum mg_op_type)type));
    return mg_json_fail(
        json, MG_ERR_UNSUPPORTED,
        "there is no operator \"%.60s\"%s%s%s (core/formats/FORMAT.md lists all); what is not known can "
        "be given as \"opaque\"",
        text, near.best ? "; did you mean \"" : "", near.best ? near.best : "", near.best ? "\"?" : "");
}

static bool op_type(struct mg_json *json, void *into)
{
    struct native_op *op = into;
    const char *text;
    if (!mg_json_string(json, &text, NULL))
        return false;
    op->type = mg_op_type_from_name(text);
    return op->type < MG_OP_COUNT || fail_op_name(json, text);
}

static bool op_inputs(struct mg_json *json, void *into)
{
    return parse_names(json, &((struct native_op *)into)->inputs, false);
}

static bool op_outputs(struct mg_json *json, void *into)
{
    return parse_names(json, &((struct native_op *)into)->outputs, false);
}

static bool op_attrs(struct mg_json *json, void *into)
{
    struct native_op *op = into;
    const char *key;
    if (!mg_json_enter_object(json))
        return false;
    while (mg_json_next_member(json, &key)) {
        enum mg_attr_key attr = mg_attr_from_name(key);
        if (attr == MG_ATTR_COUNT)
            return mg_json_fail(json, MG_ERR_INVALID, "there is no attribute \"%.100s\"", key);
        struct mg_attr *out = MG_PUSH(json->arena, op->attrs, op->attr_count, op->attr_capacity);
        if (!mg_native_parse_attr(json, attr, op, out))
            return false;
    }
    return json->err.code == MG_OK;
}

static bool op_in_place(struct mg_json *json, void *into)
{
    int64_t operand;
    if (!mg_json_int(json, &operand))
        return false;
    if (operand < 0 || operand > INT16_MAX)
        return mg_json_fail(json, MG_ERR_INVALID, "in_place is the index of an operand, not %lld", (long long)operand);
    ((struct native_op *)into)->in_place = (int32_t)operand;
    return true;
}

static bool parse_op(struct mg_json *json, struct native_op *op)
{
    static const struct mg_member members[] = {
        {"name", op_name, false},         {"op", op_type, true},
        {"inputs", op_inputs, true},      {"outputs", op_outputs, true},
        {"attrs", op_attrs, false},       {"module", op_module, false},
        {"in_place", op_in_place, false}, {"gradient_of", op_gradient_of, false},
    };
    *op = (struct native_op){.in_place = -1};
    return MG_PARSE_MEMBERS(json, "an operator", members, op);
}

/* ---- the document ---- */

static bool document_format(struct mg_json *json, void *into)
{
    const char *text;
    (void)into;
    if (!mg_json_string(json, &text, NULL))
        return false;
    if (strcmp(text, "magis-graph/1") != 0)
        return mg_json_fail(json, MG_ERR_UNSUPPORTED, "the format must be \"magis-graph/1\", not \"%.60s\"", text);
    return true;
}

static bool document_name(struct mg_json *json, void *into)
{
    return mg_json_string(json, &((struct native_document *)into)->name, NULL);
}

static bool document_source(struct mg_json *json, void *into)
{
    const char **source = &((struct native_document *)into)->source;
    return mg_json_string(json, source, NULL) &&
           (mg_is_digest(*source) || mg_json_fail(json, MG_ERR_INVALID, "a digest is 64 hexadecimal digits"));
}

static bool document_math(struct mg_json *json, void *into)
{
    size_t math;
    if (!MG_PARSE_WORD(json, "arithmetic", &math, "f32", "tf32"))
        return false;
    ((struct native_document *)into)->math = math ? MG_MATH_TF32 : MG_MATH_F32;
    return true;
}

static bool document_forward_ops(struct mg_json *json, void *into)
{
    struct native_document *d = into;
    if (!mg_json_int(json, &d->forward_ops))
        return false;
    if (d->forward_ops < 0)
        return mg_json_fail(json, MG_ERR_INVALID, "a number of operators cannot be negative");
    return true;
}

static bool document_value(struct mg_json *json, struct native_document *d)
{
    return parse_value(json, MG_PUSH(json->arena, d->values, d->value_count, d->value_capacity));
}

static bool document_values(struct mg_json *json, void *into)
{
    return parse_elements(json, document_value, into);
}

static bool document_op(struct mg_json *json, struct native_document *d)
{
    return parse_op(json, MG_PUSH(json->arena, d->ops, d->op_count, d->op_capacity));
}

static bool document_ops(struct mg_json *json, void *into)
{
    return parse_elements(json, document_op, into);
}

static bool document_outputs(struct mg_json *json, void *into)
{
    return parse_names(json, &((struct native_document *)into)->outputs, true);
}

static bool update_weight(struct mg_json *json, void *into)
{
    return mg_json_string(json, &((struct native_update *)into)->weight, NULL);
}

static bool update_value(struct mg_json *json, void *into)
{
    return mg_json_string(json, &((struct native_update *)into)->value, NULL);
}

static bool document_update(struct mg_json *json, struct native_document *d)
{
    static const struct mg_member members[] = {{"weight", update_weight, true}, {"value", update_value, true}};
    return MG_PARSE_MEMBERS(json, "an update", members,
                            MG_PUSH(json->arena, d->updates, d->update_count, d->update_capacity));
}

static bool document_updates(struct mg_json *json, void *into)
{
    return parse_elements(json, document_update, into);
}

static bool label_value(struct mg_json *json, void *into)
{
    return mg_json_string(json, &((struct native_label *)into)->value, NULL);
}

static bool label_label(struct mg_json *json, void *into)
{
    return mg_json_string(json, &((struct native_label *)into)->label, NULL);
}

static bool document_label(struct mg_json *json, struct native_document *d)
{
    static const struct mg_member members[] = {{"value", label_value, true}, {"label", label_label, true}};
    return MG_PARSE_MEMBERS(json, "a label", members,
                            MG_PUSH(json->arena, d->labels, d->label_count, d->label_capacity));
}

static bool document_labels(struct mg_json *json, void *into)
{
    return parse_elements(json, document_label, into);
}

static bool training_loss(struct mg_json *json, void *into)
{
    size_t loss;
    if (!MG_PARSE_WORD(json, "loss", &loss, "squared", "mse", "cross_entropy", "sum", "output"))
        return false;
    ((struct native_document *)into)->training.loss = (enum mg_loss)loss;
    return true;
}

static bool training_optimizer(struct mg_json *json, void *into)
{
    size_t optimizer;
    if (!MG_PARSE_WORD(json, "optimizer", &optimizer, "none", "sgd", "momentum", "adam", "adamw"))
        return false;
    ((struct native_document *)into)->training.optimizer = (enum mg_optimizer)optimizer;
    return true;
}

/* A list of names, or "all". */
static bool training_trainable(struct mg_json *json, void *into)
{
    struct native_document *d = into;
    size_t all;
    if (mg_json_peek(json) == MG_JSON_STRING)
        return MG_PARSE_WORD(json, "choice of weights", &all, "all");
    if (!parse_names(json, &d->trainable, true))
        return false;
    /* An empty list is not NULL, which would mean all. */
    d->training.trainable = d->trainable.count ? d->trainable.name : mg_arena_alloc(json->arena, sizeof(char *));
    d->training.trainable_count = (uint32_t)d->trainable.count;
    return true;
}

static bool document_training(struct mg_json *json, void *into)
{
    static const struct mg_member members[] = {{"loss", training_loss, true},
                                               {"optimizer", training_optimizer, true},
                                               {"trainable", training_trainable, false}};
    ((struct native_document *)into)->has_training = true;
    return MG_PARSE_MEMBERS(json, "training", members, into);
}

bool mg_native_parse(struct mg_json *json, struct native_document *out)
{
    static const struct mg_member members[] = {
        {"format", document_format, true},      {"name", document_name, false},
        {"source", document_source, false},     {"math", document_math, false},
        {"values", document_values, true},      {"ops", document_ops, true},
        {"outputs", document_outputs, true},    {"updates", document_updates, false},
        {"training", document_training, false}, {"forward_ops", document_forward_ops, false},
        {"labels", document_labels, false},
    };
    *out = (struct native_document){.name = "graph", .math = MG_MATH_F32, .forward_ops = -1};
    return MG_PARSE_MEMBERS(json, "a graph", members, out) && mg_json_finish(json);
}
