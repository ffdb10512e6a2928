/* magis-aten/1 into a document: one streaming pass. Names become indices as they are read, so that a reference to a
 * later node, or to none, is refused where it stands. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/digest.h"
#include "formats/aten_priv.h"
#include "formats/members.h"

struct parse {
    struct aten_document *document;
    struct aten_node *node;
    uint32_t *slot; /* hash table: node by name */
    size_t slots;
    struct aten_arg *open; /* of lists that are being read, a stack: each is kept as it ends */
    size_t open_count, open_capacity;
    uint32_t arguments; /* of the node so far, nested ones too */
};

/* ---- nodes by name ---- */

static uint32_t *find_slot(const struct parse *p, const char *name)
{
    size_t at = (size_t)mg_hash_bytes(name, strlen(name), 0).lo & (p->slots - 1);
    while (p->slot[at] != MG_NONE && strcmp(p->document->nodes[p->slot[at]].name, name) != 0)
        at = (at + 1) & (p->slots - 1);
    return &p->slot[at];
}

static void reserve_slots(struct mg_json *json, struct parse *p)
{
    if (p->document->node_count * 2 < p->slots)
        return;
    p->slots = p->slots ? 2 * p->slots : 256;
    p->slot = MG_NEW_ARRAY(json->arena, uint32_t, p->slots);
    memset(p->slot, 0xff, p->slots * sizeof *p->slot);
    for (uint32_t i = 0; i + 1 < p->document->node_count; i++)
        *find_slot(p, p->document->nodes[i].name) = i;
}

static bool parse_reference(struct mg_json *json, struct parse *p, uint32_t *out)
{
    const char *name;
    if (!mg_json_string(json, &name, NULL))
        return false;
    *out = p->slots ? *find_slot(p, name) : MG_NONE;
    return *out != MG_NONE || mg_json_fail(json, MG_ERR_INVALID, "no node before this one is called \"%.100s\"", name);
}

/* ---- arguments ---- */

/* {"node": name}, {"dtype": name}, {"float": "inf"}, {"other": text} */
static bool parse_tagged(struct mg_json *json, struct parse *p, struct aten_arg *out)
{
    const char *key, *text;
    unsigned members = 0;
    if (!mg_json_enter_object(json))
        return false;
    for (; mg_json_next_member(json, &key); members++) {
        if (strcmp(key, "node") == 0) {
            out->kind = ATEN_NODE;
            if (!parse_reference(json, p, &out->node))
                return false;
            continue;
        }
        if (!mg_json_string(json, &text, NULL))
            return false;
        out->kind = ATEN_TEXT;
        out->text = text;
        if (strcmp(key, "dtype") == 0) {
            out->dtype = mg_dtype_from_name(text);
            out->kind = out->dtype == MG_DTYPE_COUNT ? ATEN_TEXT : ATEN_DTYPE;
        } else if (strcmp(key, "float") == 0) {
            out->kind = ATEN_FLOAT;
            out->f = strcmp(text, "nan") == 0 ? (double)NAN : *text == '-' ? -DBL_MAX : DBL_MAX;
        }
    }
    return json->err.code == MG_OK &&
           (members == 1 || mg_json_fail(json, MG_ERR_INVALID, "an argument's object has one member"));
}

static bool parse_number(struct mg_json *json, struct aten_arg *out)
{
    if (!mg_json_double(json, &out->f))
        return false;
    const char *text = json->at; /* its end */
    while (text > json->start && strchr("0123456789+-.eE", text[-1])) {
        text--;
        out->real = out->real || strchr(".eE", *text);
    }
    bool exact = fabs(out->f) < 0x1p53;
    out->kind = exact && floor(out->f) == out->f ? ATEN_INT : ATEN_FLOAT;
    out->i = out->kind == ATEN_INT ? (int64_t)out->f : 0;
    for (const char *digit = text; !out->real && !exact && fabs(out->f) < 0x1p63 && digit < json->at; digit++)
        if (*digit != '-')
            out->large = 10 * out->large + (out->f < 0 ? '0' - *digit : *digit - '0');
    return true;
}

static bool parse_argument(struct mg_json *json, struct parse *p, struct aten_arg *out);

static bool push_argument(struct mg_json *json, struct parse *p, const char *key)
{
    struct aten_arg arg;
    if (p->arguments++ == MG_MAX_OPERANDS)
        return mg_json_fail(json, MG_ERR_LIMIT, "a node has at most %d arguments", MG_MAX_OPERANDS);
    if (!parse_argument(json, p, &arg))
        return false;
    arg.key = key;
    *MG_PUSH(json->arena, p->open, p->open_count, p->open_capacity) = arg;
    return true;
}

/* The arguments from `first` on become a list. */
static void close_list(struct mg_json *json, struct parse *p, size_t first, struct aten_arg *out)
{
    size_t count = p->open_count - first;
    *out = (struct aten_arg){.kind = ATEN_LIST, .count = (uint32_t)count};
    if (count)
        out->item = mg_arena_copy(json->arena, p->open + first, count * sizeof *p->open);
    p->open_count = first;
}

static bool parse_list(struct mg_json *json, struct parse *p, struct aten_arg *out)
{
    size_t first = p->open_count;
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json))
        if (!push_argument(json, p, NULL))
            return false;
    close_list(json, p, first, out);
    return json->err.code == MG_OK;
}

/* Nested as deep as the reader allows. */
static bool parse_argument(struct mg_json *json, struct parse *p, struct aten_arg *out)
{
    bool flag;
    *out = (struct aten_arg){.kind = ATEN_NULL};
    switch (mg_json_peek(json)) {
    case MG_JSON_NULL:
        return mg_json_null(json);
    case MG_JSON_BOOL:
        if (!mg_json_bool(json, &flag))
            return false;
        *out = (struct aten_arg){.kind = ATEN_BOOL, .i = flag, .f = flag};
        return true;
    case MG_JSON_NUMBER:
        return parse_number(json, out);
    case MG_JSON_STRING:
        out->kind = ATEN_TEXT;
        return mg_json_string(json, &out->text, NULL);
    case MG_JSON_ARRAY:
        return parse_list(json, p, out);
    default:
        return parse_tagged(json, p, out);
    }
}

/* ---- a node ---- */

static bool node_text(struct mg_json *json, const char **out)
{
    return mg_json_string(json, out, NULL);
}
static bool node_name(struct mg_json *json, void *into)
{
    struct parse *p = into;
    if (!node_text(json, &p->node->name))
        return false;
    uint32_t *slot = find_slot(p, p->node->name);
    if (*slot != MG_NONE)
        return mg_json_fail(json, MG_ERR_INVALID, "two nodes are called \"%.100s\"", p->node->name);
    return true;
}

static bool node_op(struct mg_json *json, void *into)
{
    struct aten_node *node = ((struct parse *)into)->node;
    if (!node_text(json, &node->op))
        return false;
    node->kind = strcmp(node->op, "placeholder") == 0 ? ATEN_PLACEHOLDER
                 : strcmp(node->op, "constant") == 0  ? ATEN_CONSTANT
                 : strcmp(node->op, "getitem") == 0   ? ATEN_GETITEM
                                                      : ATEN_CALL;
    return true;
}

static bool node_module(struct mg_json *json, void *into)
{
    return node_text(json, &((struct parse *)into)->node->module);
}

static bool node_path(struct mg_json *json, void *into)
{
    return node_text(json, &((struct parse *)into)->node->path);
}

static bool node_kind(struct mg_json *json, void *into)
{
    size_t kind;
    static const enum mg_kind kinds[] = {MG_KIND_INPUT, MG_KIND_WEIGHT, MG_KIND_STATE, MG_KIND_STATE};
    if (!MG_PARSE_WORD(json, "kind", &kind, "input", "weight", "buffer", "state"))
        return false;
    ((struct parse *)into)->node->value_kind = kinds[kind];
    return true;
}

static bool node_args(struct mg_json *json, void *into)
{
    struct parse *p = into;
    return parse_list(json, p, &p->node->args);
}

static bool node_kwargs(struct mg_json *json, void *into)
{
    struct parse *p = into;
    size_t first = p->open_count;
    const char *key;
    if (!mg_json_enter_object(json))
        return false;
    while (mg_json_next_member(json, &key))
        if (!push_argument(json, p, key))
            return false;
    close_list(json, p, first, &p->node->kwargs);
    return json->err.code == MG_OK;
}

static bool node_writes(struct mg_json *json, void *into)
{
    struct aten_node *node = ((struct parse *)into)->node;
    int64_t *writes = NULL;
    size_t count = 0, capacity = 0;
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json)) {
        if (count == MG_MAX_OPERANDS)
            return mg_json_fail(json, MG_ERR_LIMIT, "a call writes to at most %d arguments", MG_MAX_OPERANDS);
        if (!mg_json_int(json, MG_PUSH(json->arena, writes, count, capacity)))
            return false;
    }
    node->writes = writes;
    node->write_count = (uint32_t)count;
    return json->err.code == MG_OK;
}

static bool node_backward(struct mg_json *json, void *into)
{
    return mg_json_bool(json, &((struct parse *)into)->node->backward);
}

static bool node_value(struct mg_json *json, void *into)
{
    struct aten_node *node = ((struct parse *)into)->node;
    if (mg_json_peek(json) != MG_JSON_NUMBER)
        return mg_json_skip(json, NULL, NULL); /* the elements of a tensor, which are not looked at */
    node->has_value = true;
    return mg_json_double(json, &node->value);
}

static bool out_shape(struct mg_json *json, void *into)
{
    return mg_parse_shape(json, &((struct parse *)into)->node->shape);
}

static bool out_dtype(struct mg_json *json, void *into)
{
    return mg_parse_dtype(json, &((struct parse *)into)->node->dtype);
}

static bool out_strides(struct mg_json *json, void *into)
{
    return mg_parse_shape(json, &((struct parse *)into)->node->strides);
}

static bool out_storage(struct mg_json *json, void *into)
{
    return mg_json_uint(json, &((struct parse *)into)->node->storage);
}

static bool out_offset(struct mg_json *json, void *into)
{
    return mg_json_int(json, &((struct parse *)into)->node->offset);
}

static bool node_out(struct mg_json *json, void *into)
{
    static const struct mg_member members[] = {{"shape", out_shape, true},
                                               {"dtype", out_dtype, true},
                                               {"storage", out_storage, true},
                                               {"strides", out_strides, false},
                                               {"offset", out_offset, false}};
    struct aten_node *node = ((struct parse *)into)->node;
    node->has_out = true;
    if (!MG_PARSE_MEMBERS(json, "a result", members, into))
        return false;
    return mg_shape_fits(&node->shape, node->dtype) || mg_json_fail(json, MG_ERR_LIMIT, "the result is too large");
}

static bool parse_node(struct mg_json *json, struct parse *p)
{
    static const struct mg_member members[] = {
        {"name", node_name, true},          {"op", node_op, true},
        {"args", node_args, false},         {"kwargs", node_kwargs, false},
        {"out", node_out, false},           {"module", node_module, false},
        {"path", node_path, false},         {"kind", node_kind, false},
        {"writes", node_writes, false},     {"value", node_value, false},
        {"backward", node_backward, false},
    };
    struct aten_document *d = p->document;
    p->arguments = 0;
    p->node = MG_PUSH(json->arena, d->nodes, d->node_count, d->node_capacity);
    *p->node = (struct aten_node){.args.kind = ATEN_LIST, .kwargs.kind = ATEN_LIST, .value_kind = MG_KIND_INPUT};
    reserve_slots(json, p);
    if (!MG_PARSE_MEMBERS(json, "a node", members, p))
        return false;
    const struct aten_node *node = p->node;
    if (!node->has_out && (node->kind == ATEN_PLACEHOLDER || node->kind == ATEN_CONSTANT))
        return mg_json_fail(json, MG_ERR_INVALID, "\"%.100s\" lacks the member \"out\"", node->name);
    bool item = node->args.count == 2 && node->args.item[0].kind == ATEN_NODE && node->args.item[1].kind == ATEN_INT;
    if (node->kind == ATEN_GETITEM && !item)
        return mg_json_fail(json, MG_ERR_INVALID, "getitem takes a node and an index");
    *find_slot(p, node->name) = (uint32_t)(d->node_count - 1);
    return true;
}

/* ---- the document ---- */

static bool document_format(struct mg_json *json, void *into)
{
    const char *text;
    (void)into;
    return mg_json_string(json, &text, NULL) &&
           (strcmp(text, "magis-aten/1") == 0 ||
            mg_json_fail(json, MG_ERR_UNSUPPORTED, "the format must be \"magis-aten/1\", not \"%.60s\"", text));
}

static bool document_name(struct mg_json *json, void *into)
{
    return node_text(json, &((struct parse *)into)->document->name);
}

static bool document_digest(struct mg_json *json, void *into)
{
    const char **digest = &((struct parse *)into)->document->digest;
    return node_text(json, digest) &&
           (mg_is_digest(*digest) || mg_json_fail(json, MG_ERR_INVALID, "a digest is 64 hexadecimal digits"));
}

static bool document_math(struct mg_json *json, void *into)
{
    size_t math;
    if (!MG_PARSE_WORD(json, "arithmetic", &math, "f32", "tf32"))
        return false;
    ((struct parse *)into)->document->math = math ? MG_MATH_TF32 : MG_MATH_F32;
    return true;
}

static bool document_nodes(struct mg_json *json, void *into)
{
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json)) {
        mg_json_begin_element(json);
        if (!parse_node(json, into))
            return false;
    }
    mg_json_end_elements(json);
    return json->err.code == MG_OK;
}

static bool output_node(struct mg_json *json, void *into)
{
    struct parse *p = into;
    return parse_reference(json, p, &p->document->outputs[p->document->output_count - 1].node);
}

static bool output_of(struct mg_json *json, void *into)
{
    struct aten_document *d = ((struct parse *)into)->document;
    return mg_json_string(json, &d->outputs[d->output_count - 1].of, NULL);
}

static bool document_outputs(struct mg_json *json, void *into)
{
    static const struct mg_member members[] = {
        {"node", output_node, true}, {"role", mg_parse_ignored, false}, {"of", output_of, false}};
    struct parse *p = into;
    struct aten_document *d = p->document;
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json)) {
        mg_json_begin_element(json);
        (void)MG_PUSH(json->arena, d->outputs, d->output_count, d->output_capacity);
        if (!MG_PARSE_MEMBERS(json, "an output", members, into))
            return false;
    }
    mg_json_end_elements(json);
    return json->err.code == MG_OK;
}

bool mg_aten_parse(struct mg_json *json, struct aten_document *out)
{
    static const struct mg_member members[] = {
        {"format", document_format, true},  {"name", document_name, false},  {"digest", document_digest, true},
        {"math", document_math, false},     {"nodes", document_nodes, true}, {"outputs", document_outputs, true},
        {"torch", mg_parse_ignored, false},
    };
    *out = (struct aten_document){.name = "step", .math = MG_MATH_F32};
    struct parse p = {.document = out};
    return MG_PARSE_MEMBERS(json, "a captured step", members, &p) && mg_json_finish(json);
}
