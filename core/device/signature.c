/* Writing is one pass; reading takes the same grammar apart and then writes what it read: a text that does not come
 * out the same is refused, so that no two texts mean one operator. */
#include "device/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

size_t mg_signature_bound(const struct mg_attr *attrs, uint32_t attr_count, uint32_t values)
{
    size_t bound = 64 + (size_t)values * (MG_MAX_RANK * 22 + 16);
    for (uint32_t a = 0; a < attr_count; a++) {
        bound += 64 + 22 * (size_t)attrs[a].count;
        if (attrs[a].type == MG_ATTR_TYPE_STRING && attrs[a].string)
            bound += strlen(attrs[a].string);
    }
    return bound;
}

static char *print_text(char *at, const char *text)
{
    size_t size = strlen(text);
    memcpy(at, text, size + 1);
    return at + size;
}

static char *print_int(char *at, int64_t value)
{
    return at + snprintf(at, 22, "%" PRId64, value);
}

static char *print_attr(char *at, const struct mg_attr *attr)
{
    at = print_text(print_text(at, mg_attr_name(attr->key)), "=");
    switch (attr->type) {
    case MG_ATTR_TYPE_INT:
        at = print_int(at, attr->i);
        break;
    case MG_ATTR_TYPE_FLOAT:
        at += snprintf(at, 32, "%.17g", attr->f);
        break;
    case MG_ATTR_TYPE_INTS:
        for (uint32_t i = 0; i < attr->count; i++)
            at = print_int(i ? print_text(at, ",") : at, attr->ints[i]);
        break;
    case MG_ATTR_TYPE_STRING:
        at = print_text(at, attr->string ? attr->string : "");
        break;
    }
    return print_text(at, ";");
}

size_t mg_signature_print_shape(enum mg_dtype dtype, const struct mg_shape *shape, char *text)
{
    char *at = print_text(print_text(text, mg_dtype_name(dtype)), "[");
    for (uint32_t d = 0; d < shape->rank; d++)
        at = print_int(d ? print_text(at, ",") : at, shape->dim[d]);
    return (size_t)(print_text(at, "]") - text);
}

static char *print_shapes(char *at, uint32_t count, const enum mg_dtype *dtypes, const struct mg_shape *shapes)
{
    for (uint32_t i = 0; i < count; i++) {
        at = i ? print_text(at, ",") : at;
        at += mg_signature_print_shape(dtypes[i], &shapes[i], at);
    }
    return at;
}

size_t mg_signature_print(const struct mg_op_desc *desc, char *text)
{
    char *at = print_text(text, desc->math == MG_MATH_TF32 ? "tf32;" : "f32;");
    for (uint32_t a = 0; a < desc->attr_count; a++)
        at = print_attr(at, &desc->attrs[a]);
    at = print_shapes(at, desc->in_count, desc->in_dtype, desc->in_shape);
    at = print_shapes(print_text(at, "->"), desc->out_count, desc->out_dtype, desc->out_shape);
    return (size_t)(at - text);
}

struct mg_hash128 mg_signature_key(const char *name, const char *text)
{
    return mg_hash_bytes(text, strlen(text), mg_hash_bytes(name, strlen(name), 0).lo);
}

/* ---- reading ---- */

struct reader {
    const char *at;
    struct mg_arena *arena;
    enum mg_op_type type;
    struct mg_attr *attrs;
    size_t attr_count, attr_capacity;
};
struct value_list {
    struct mg_shape *shapes;
    enum mg_dtype *dtypes;
    size_t count, capacity, dtype_count, dtype_capacity;
};

static bool take(struct reader *r, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(r->at, word, size) != 0)
        return false;
    r->at += size;
    return true;
}

static bool take_int(struct reader *r, int64_t *out)
{
    char *end;
    *out = strtoll(r->at, &end, 10);
    bool found = end != r->at;
    r->at = end;
    return found;
}

static bool take_ints(struct reader *r, struct mg_attr *attr)
{
    int64_t *ints = NULL;
    size_t count = 0, capacity = 0;
    while (*r->at != ';')
        if ((count && !take(r, ",")) || !take_int(r, MG_PUSH(r->arena, ints, count, capacity)))
            return false;
    attr->ints = ints;
    attr->count = (uint32_t)count;
    return true;
}

static bool take_attr_value(struct reader *r, struct mg_attr *attr)
{
    char *end;
    size_t size = strcspn(r->at, ";");
    if (r->at[size] != ';')
        return false;
    switch (attr->type) {
    case MG_ATTR_TYPE_INT:
        return take_int(r, &attr->i) && take(r, ";");
    case MG_ATTR_TYPE_INTS:
        return take_ints(r, attr) && take(r, ";");
    case MG_ATTR_TYPE_FLOAT:
        attr->f = strtod(r->at, &end);
        r->at = end;
        return take(r, ";");
    default:
        attr->string = mg_arena_printf(r->arena, "%.*s", (int)size, r->at);
        r->at += size + 1;
        return true;
    }
}

static bool take_attrs(struct reader *r)
{
    for (;;) {
        size_t size = strcspn(r->at, "=[;");
        char name[40];
        if (r->at[size] != '=')
            return true;
        if (size >= sizeof name)
            return false;
        memcpy(name, r->at, size);
        name[size] = '\0';
        struct mg_attr *attr = MG_PUSH(r->arena, r->attrs, r->attr_count, r->attr_capacity);
        attr->key = mg_attr_from_name(name);
        if (attr->key == MG_ATTR_COUNT || !mg_op_attr_type(r->type, attr->key, &attr->type))
            return false;
        r->at += size + 1;
        if (!take_attr_value(r, attr))
            return false;
    }
}

static bool take_shape(struct reader *r, struct value_list *list)
{
    char name[16];
    size_t size = strcspn(r->at, "[");
    struct mg_shape *shape = MG_PUSH(r->arena, list->shapes, list->count, list->capacity);
    enum mg_dtype *dtype = MG_PUSH(r->arena, list->dtypes, list->dtype_count, list->dtype_capacity);
    if (size >= sizeof name || r->at[size] != '[')
        return false;
    memcpy(name, r->at, size);
    name[size] = '\0';
    r->at += size + 1;
    *dtype = mg_dtype_from_name(name);
    while (*dtype != MG_DTYPE_COUNT && *r->at != ']')
        if (shape->rank == MG_MAX_RANK || (shape->rank && !take(r, ",")) || !take_int(r, &shape->dim[shape->rank++]))
            return false;
    return *dtype != MG_DTYPE_COUNT && take(r, "]") && mg_shape_fits(shape, *dtype);
}

static bool take_values(struct reader *r, struct value_list *list)
{
    while (*r->at && strncmp(r->at, "->", 2) != 0)
        if ((list->count && !take(r, ",")) || !take_shape(r, list))
            return false;
    return true;
}

static bool read_desc(struct reader *r, struct mg_op_desc *out)
{
    struct value_list in = {0}, results = {0};
    out->type = r->type;
    out->math = take(r, "tf32;") ? MG_MATH_TF32 : MG_MATH_F32;
    if (out->math == MG_MATH_F32 && !take(r, "f32;"))
        return false;
    if (!take_attrs(r) || !take_values(r, &in) || !take(r, "->") || !take_values(r, &results) || *r->at)
        return false;
    out->attrs = r->attrs;
    out->attr_count = (uint32_t)r->attr_count;
    out->in_count = (uint32_t)in.count;
    out->in_shape = in.shapes;
    out->in_dtype = in.dtypes;
    out->out_count = (uint32_t)results.count;
    out->out_shape = results.shapes;
    out->out_dtype = results.dtypes;
    return true;
}

static bool comes_out_equal(const struct mg_op_desc *desc, const char *text, struct mg_arena *arena)
{
    size_t bound = mg_signature_bound(desc->attrs, desc->attr_count, desc->in_count + desc->out_count);
    char *again = mg_arena_alloc(arena, bound);
    return mg_signature_print(desc, again) == strlen(text) && strcmp(again, text) == 0;
}

/* Would this operator, given these operands and attributes, have these results? Its attributes are then complete and
 * as a graph has them (no negative axis), which back ends rely on. */
static bool is_possible(struct mg_op_desc *desc, struct mg_arena *arena)
{
    struct mg_graph *g = mg_graph_new(arena, "signature");
    mg_value *in = MG_NEW_ARRAY(arena, mg_value, desc->in_count), *out = MG_NEW_ARRAY(arena, mg_value, desc->out_count);
    struct mg_error ignored;
    for (uint32_t i = 0; i < desc->in_count; i++) {
        in[i] = mg_graph_add_value(g, NULL, MG_KIND_INPUT, desc->in_dtype[i], &desc->in_shape[i]);
        if (in[i] == MG_NONE)
            return false;
    }
    if (mg_graph_add_op(g, desc->type, "op", in, desc->in_count, desc->attrs, desc->attr_count, NULL, desc->out_count,
                        out, &ignored) != MG_OK)
        return false;
    for (uint32_t i = 0; i < desc->out_count; i++) {
        const struct mg_value_info *v = &g->values[out[i]];
        if (v->dtype != desc->out_dtype[i] || !mg_shape_equal(&v->shape, &desc->out_shape[i]))
            return false;
    }
    desc->attrs = g->ops[0].attrs;
    desc->attr_count = g->ops[0].attr_count;
    return true;
}

enum mg_code mg_signature_read(const char *name, const char *text, struct mg_arena *arena, struct mg_op_desc *out,
                               struct mg_error *err)
{
    struct reader r = {.at = text, .arena = arena, .type = mg_op_type_from_name(name)};
    memset(out, 0, sizeof *out);
    if (r.type == MG_OP_COUNT)
        return mg_fail(err, MG_ERR_INVALID, "", "there is no operator \"%.60s\"", name);
    if (r.type == MG_OP_OPAQUE)
        return mg_fail(err, MG_ERR_UNSUPPORTED, "", "opaque operators say themselves what they cost");
    if (strlen(text) >= MG_SIGNATURE_MAX || !read_desc(&r, out))
        return mg_fail(err, MG_ERR_INVALID, "", "\"%.120s\" is no signature of %.60s", text, name);
    if (!is_possible(out, arena))
        return mg_fail(err, MG_ERR_INVALID, "", "%.60s cannot have the operands and results of \"%.120s\"", name, text);
    if (!comes_out_equal(out, text, arena))
        return mg_fail(err, MG_ERR_INVALID, "", "\"%.120s\" is no signature of %.60s as magisd writes them", text,
                       name);
    return MG_OK;
}
