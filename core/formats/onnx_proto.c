/* One generic reader and a table of fields for each message. Open messages lie on a stack of their own, at most
 * MAX_DEPTH of them, so no file can exhaust the program's. */
#include "formats/onnx_proto.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum {
    MAX_DEPTH = 64,
    MAX_NAME = 4096,
    MAX_TEXT = 1 << 16,
    KEEP_BYTES = 8192,
    MAX_NODES = 200000,
    MAX_LIST = UINT16_MAX
};

/* What is allocated: so much at first, and so many bytes for each byte read beyond the first MiB. */
enum { FIRST_BYTES = 15 << 20, FACTOR = 16, FREE_BYTES = 1 << 20 };

enum kind {
    NUMBER, /* varint, into onnx_number */
    NUMBERS,
    REAL, /* 32 bits, into float */
    REALS,
    DOUBLES,
    NAME,  /* strict text into const char * */
    NAMES, /* ... into a list */
    TEXT,  /* NULL if it is no readable text */
    TEXTS,
    ONE, /* message, into a pointer; the last one counts */
    MANY,
    DATA_NUMBERS, /* typed data of tensors: kept where it is small */
    DATA_REALS,
    DATA_DOUBLES,
    DATA_RAW,
    COUNTED, /* texts as blobs without data */
};

struct field {
    uint32_t number;
    enum kind kind;
    size_t offset;
    const struct message *type;
};
struct message {
    const char *name;
    size_t size;
    const struct field *fields;
    size_t count;
    const char *(*check)(const void *object); /* what is wrong, or NULL */
};

#define MESSAGE(id, c_type, checked, ...)                                                                              \
    static const struct field id##_fields[] = {__VA_ARGS__};                                                           \
    static const struct message id##_message = {#id, sizeof(c_type), id##_fields,                                      \
                                                sizeof id##_fields / sizeof id##_fields[0], checked}
#define FIELD(n, kind, c_type, member)                                                                                 \
    {                                                                                                                  \
        n, kind, offsetof(c_type, member), NULL                                                                        \
    }
#define NESTED(n, kind, c_type, member, message)                                                                       \
    {                                                                                                                  \
        n, kind, offsetof(c_type, member), &message##_message                                                          \
    }

static const char *check_node(const void *object)
{
    const struct onnx_node *node = object;
    return node->op_type ? NULL : "a node without op_type";
}

static const char *check_tensor(const void *object)
{
    const struct onnx_tensor *tensor = object;
    return tensor->dims.count > 64 ? "a tensor with more than 64 dimensions" : NULL;
}

static const char *check_graph(const void *object)
{
    const struct onnx_graph *graph = object;
    return graph->nodes.count > MAX_NODES ? "a graph with more than 200000 nodes" : NULL;
}

static const struct message graph_message;

MESSAGE(tensor, struct onnx_tensor, check_tensor, FIELD(1, NUMBERS, struct onnx_tensor, dims),
        FIELD(2, NUMBER, struct onnx_tensor, data_type), FIELD(4, DATA_REALS, struct onnx_tensor, floats),
        FIELD(5, DATA_NUMBERS, struct onnx_tensor, ints), FIELD(6, COUNTED, struct onnx_tensor, strings),
        FIELD(7, DATA_NUMBERS, struct onnx_tensor, ints), FIELD(8, NAME, struct onnx_tensor, name),
        FIELD(9, DATA_RAW, struct onnx_tensor, raw), FIELD(10, DATA_DOUBLES, struct onnx_tensor, doubles),
        FIELD(11, DATA_NUMBERS, struct onnx_tensor, ints), FIELD(14, NUMBER, struct onnx_tensor, location));
MESSAGE(attribute, struct onnx_attribute, NULL, FIELD(1, NAME, struct onnx_attribute, name),
        FIELD(2, REAL, struct onnx_attribute, f), FIELD(3, NUMBER, struct onnx_attribute, i),
        FIELD(4, TEXT, struct onnx_attribute, text), NESTED(5, ONE, struct onnx_attribute, tensor, tensor),
        NESTED(6, ONE, struct onnx_attribute, graph, graph), FIELD(7, REALS, struct onnx_attribute, floats),
        FIELD(8, NUMBERS, struct onnx_attribute, ints), FIELD(9, TEXTS, struct onnx_attribute, texts),
        FIELD(20, NUMBER, struct onnx_attribute, type), FIELD(21, NAME, struct onnx_attribute, reference));
MESSAGE(node, struct onnx_node, check_node, FIELD(1, NAMES, struct onnx_node, inputs),
        FIELD(2, NAMES, struct onnx_node, outputs), FIELD(3, NAME, struct onnx_node, name),
        FIELD(4, NAME, struct onnx_node, op_type), NESTED(5, MANY, struct onnx_node, attributes, attribute),
        FIELD(7, NAME, struct onnx_node, domain));
MESSAGE(dimension, struct onnx_dimension, NULL, FIELD(1, NUMBER, struct onnx_dimension, size),
        FIELD(2, NAME, struct onnx_dimension, symbol));
MESSAGE(shape, struct onnx_shape, NULL, NESTED(1, MANY, struct onnx_shape, dims, dimension));
MESSAGE(tensor_type, struct onnx_tensor_type, NULL, FIELD(1, NUMBER, struct onnx_tensor_type, elem_type),
        NESTED(2, ONE, struct onnx_tensor_type, shape, shape));
static const struct message type_message;
MESSAGE(element, struct onnx_type, NULL, NESTED(1, ONE, struct onnx_type, other, type));
static const struct field type_fields[] = {
    NESTED(1, ONE, struct onnx_type, tensor, tensor_type), NESTED(4, ONE, struct onnx_type, other, element),
    NESTED(5, ONE, struct onnx_type, other, element), NESTED(9, ONE, struct onnx_type, other, element)};
static const struct message type_message = {"type", sizeof(struct onnx_type), type_fields, 4, NULL};
MESSAGE(value_info, struct onnx_value_info, NULL, FIELD(1, NAME, struct onnx_value_info, name),
        NESTED(2, ONE, struct onnx_value_info, type, type));
static const struct field graph_fields[] = {NESTED(1, MANY, struct onnx_graph, nodes, node),
                                            FIELD(2, TEXT, struct onnx_graph, name),
                                            NESTED(5, MANY, struct onnx_graph, initializers, tensor),
                                            NESTED(11, MANY, struct onnx_graph, inputs, value_info),
                                            NESTED(12, MANY, struct onnx_graph, outputs, value_info),
                                            NESTED(13, MANY, struct onnx_graph, value_infos, value_info),
                                            FIELD(15, COUNTED, struct onnx_graph, sparse)};
static const struct message graph_message = {"graph", sizeof(struct onnx_graph), graph_fields,
                                             sizeof graph_fields / sizeof graph_fields[0], check_graph};
MESSAGE(opset, struct onnx_opset, NULL, FIELD(1, NAME, struct onnx_opset, domain),
        FIELD(2, NUMBER, struct onnx_opset, version));
MESSAGE(function, struct onnx_function, NULL, FIELD(1, NAME, struct onnx_function, name),
        FIELD(4, NAMES, struct onnx_function, inputs), FIELD(5, NAMES, struct onnx_function, outputs),
        FIELD(6, NAMES, struct onnx_function, attributes), NESTED(7, MANY, struct onnx_function, nodes, node),
        NESTED(9, MANY, struct onnx_function, opsets, opset), FIELD(10, NAME, struct onnx_function, domain),
        NESTED(11, MANY, struct onnx_function, defaults, attribute));
MESSAGE(model, struct onnx_model, NULL, FIELD(1, NUMBER, struct onnx_model, ir_version),
        NESTED(7, ONE, struct onnx_model, graph, graph), NESTED(8, MANY, struct onnx_model, opsets, opset),
        NESTED(25, MANY, struct onnx_model, functions, function));

struct level {
    const struct message *type;
    void *object;
    uint64_t end;
};
struct reader {
    struct onnx_wire wire;
    struct onnx_parse *how;
    size_t arena_base, arena_limit;
    struct level level[MAX_DEPTH];
    unsigned depth;
};

static enum mg_code fail(struct reader *r, enum mg_code code, const char *what)
{
    const struct message *type = r->depth ? r->level[r->depth - 1].type : NULL;
    return mg_fail(r->how->err, code, "", "byte %llu%s%s: %s", (unsigned long long)mg_wire_position(&r->wire),
                   type ? ", in a message of kind " : "", type ? type->name : "", what);
}

static enum mg_code truncated(struct reader *r)
{
    return fail(r, MG_ERR_SYNTAX,
                r->wire.broken ? "the body is damaged or too large" : "this is no ONNX file, or it is cut off");
}

/* What may be allocated grows with what was read. */
static void set_budget(struct reader *r)
{
    uint64_t read = mg_wire_position(&r->wire) - r->wire.skipped;
    uint64_t more = read > FREE_BYTES ? (read - FREE_BYTES) * FACTOR : 0;
    size_t limit = r->arena_base + FIRST_BYTES + more;
    r->how->arena->limit = !r->how->keep_data && limit < r->arena_limit ? limit : r->arena_limit;
}

static void *push(struct reader *r, struct onnx_list *list, size_t size)
{
    if (list->count == list->capacity) {
        /* most lists of a model hold one or two elements */
        size_t capacity = list->capacity;
        if (!capacity) {
            list->items = mg_arena_alloc(r->how->arena, size);
            list->capacity = list->count = 1;
            return list->items;
        }
        list->items = mg_arena_grow(r->how->arena, list->items, list->count, &capacity, list->count + 1, size);
        list->capacity = (uint32_t)capacity;
    }
    return (char *)list->items + size * list->count++;
}

/* Of names, texts and numbers no message needs so many. */
static enum mg_code check_length(struct reader *r, const struct onnx_list *list)
{
    return list->count < MAX_LIST ? MG_OK : fail(r, MG_ERR_LIMIT, "a list of more than 65535 names or numbers");
}

/* ---- texts ---- */

static bool is_text(const char *text, size_t size)
{
    for (size_t at = 0, length; at < size; at += length) {
        length = text[at] ? mg_utf8_length(text + at, size - at) : 0;
        if (!length)
            return false;
    }
    return true;
}

static enum mg_code read_text(struct reader *r, uint64_t size, uint64_t most, const char **out)
{
    *out = NULL;
    if (size > most)
        return mg_wire_skip(&r->wire, size) ? MG_OK : truncated(r);
    char *text = size ? mg_arena_alloc(r->how->arena, size + 1) : (char *)(uintptr_t) "";
    if (!mg_wire_take(&r->wire, text, size))
        return truncated(r);
    *out = is_text(text, size) ? text : NULL;
    return MG_OK;
}

static enum mg_code read_name(struct reader *r, uint64_t size, const char **out)
{
    if (size > MAX_NAME)
        return fail(r, MG_ERR_LIMIT, "a name of more than 4096 bytes");
    MG_TRY(read_text(r, size, MAX_NAME, out));
    return *out ? MG_OK : fail(r, MG_ERR_INVALID, "a name that is no UTF-8 text, or holds a NUL");
}

/* ---- repeated numbers, packed or one by one ---- */

static size_t element_size(enum kind kind)
{
    return kind == REALS || kind == DATA_REALS ? sizeof(float) : 8;
}

static enum mg_code read_element(struct reader *r, enum kind kind, void *out)
{
    bool good;
    if (kind == NUMBERS || kind == DATA_NUMBERS)
        good = mg_wire_varint(&r->wire, out);
    else
        good = mg_wire_take(&r->wire, out, element_size(kind));
    return good ? MG_OK : truncated(r);
}

static bool is_data(enum kind kind)
{
    return kind == DATA_NUMBERS || kind == DATA_REALS || kind == DATA_DOUBLES;
}

static enum mg_code read_kept(struct reader *r, enum kind kind, struct onnx_list *list)
{
    if (!is_data(kind))
        MG_TRY(check_length(r, list));
    return read_element(r, kind, push(r, list, element_size(kind)));
}

static enum mg_code read_packed(struct reader *r, enum kind kind, uint64_t size, void *object, struct onnx_list *list)
{
    uint64_t end = mg_wire_position(&r->wire) + size;
    if (is_data(kind) && size > KEEP_BYTES) {
        ((struct onnx_tensor *)object)->large = true;
        ((struct onnx_tensor *)object)->dropped = !r->how->keep_data;
        if (!r->how->keep_data)
            return mg_wire_skip(&r->wire, size) ? MG_OK : truncated(r);
    }
    while (mg_wire_position(&r->wire) < end) {
        MG_TRY(read_kept(r, kind, list));
        set_budget(r);
    }
    return mg_wire_position(&r->wire) == end ? MG_OK : fail(r, MG_ERR_SYNTAX, "a list that ends inside an element");
}

static enum mg_code read_single(struct reader *r, enum kind kind, void *object, struct onnx_list *list)
{
    uint64_t ignored;
    if (is_data(kind) && list->count >= KEEP_BYTES / 8) {
        ((struct onnx_tensor *)object)->large = true;
        ((struct onnx_tensor *)object)->dropped = !r->how->keep_data;
        if (!r->how->keep_data)
            return read_element(r, kind, &ignored);
    }
    return read_kept(r, kind, list);
}

/* ---- one field ---- */

static enum mg_code read_raw(struct reader *r, uint64_t size, struct onnx_tensor *tensor, struct onnx_blob *blob)
{
    *blob = (struct onnx_blob){.size = size};
    tensor->large = tensor->large || size > KEEP_BYTES;
    if (size > KEEP_BYTES && !r->how->keep_data)
        return mg_wire_skip(&r->wire, size) ? MG_OK : truncated(r);
    uint8_t *data = NULL;
    if (size <= KEEP_BYTES) {
        data = mg_arena_alloc(r->how->arena, size + 1);
        if (!mg_wire_take(&r->wire, data, size))
            return truncated(r);
    } else {
        /* grows as it arrives: an announced size costs nothing */
        size_t capacity = 0, have = 0;
        while (have < size) {
            size_t step = size - have < (1 << 20) ? (size_t)(size - have) : 1 << 20;
            data = mg_arena_grow(r->how->arena, data, have, &capacity, have + step, 1);
            if (!mg_wire_take(&r->wire, data + have, step))
                return truncated(r);
            have += step;
        }
    }
    blob->data = data;
    return MG_OK;
}

static enum mg_code open_message(struct reader *r, const struct field *field, uint64_t size, void *into)
{
    if (r->depth == MAX_DEPTH)
        return fail(r, MG_ERR_LIMIT, "messages nested more than 64 deep");
    struct level *level = &r->level[r->depth];
    level->type = field->type;
    level->end = mg_wire_position(&r->wire) + size;
    if (field->kind == ONE) {
        level->object = mg_arena_alloc(r->how->arena, field->type->size);
        *(void **)into = level->object;
    } else {
        struct onnx_list *list = into;
        if (list->count >= MAX_NODES * 5)
            return fail(r, MG_ERR_LIMIT, "too many elements");
        level->object = push(r, list, field->type->size);
        memset(level->object, 0, field->type->size);
    }
    r->depth++;
    return MG_OK;
}

static enum mg_code read_delimited(struct reader *r, const struct field *field, uint64_t size)
{
    char *object = r->level[r->depth - 1].object, *into = object + field->offset;
    switch (field->kind) {
    case NAME:
        return read_name(r, size, (const char **)into);
    case NAMES:
        MG_TRY(check_length(r, (struct onnx_list *)into));
        return read_name(r, size, push(r, (struct onnx_list *)into, sizeof(const char *)));
    case TEXT:
        return read_text(r, size, MAX_TEXT, (const char **)into);
    case TEXTS:
        MG_TRY(check_length(r, (struct onnx_list *)into));
        return read_text(r, size, MAX_TEXT, push(r, (struct onnx_list *)into, sizeof(const char *)));
    case ONE:
    case MANY:
        return open_message(r, field, size, into);
    case DATA_RAW:
        return read_raw(r, size, (struct onnx_tensor *)object, (struct onnx_blob *)into);
    case COUNTED:
        ((struct onnx_list *)into)->count += 1;
        return mg_wire_skip(&r->wire, size) ? MG_OK : truncated(r);
    default:
        return read_packed(r, field->kind, size, object, (struct onnx_list *)into);
    }
}

static enum mg_code read_varint(struct reader *r, const struct field *field)
{
    char *object = r->level[r->depth - 1].object, *into = object + field->offset;
    if (field->kind != NUMBER)
        return read_single(r, field->kind, object, (struct onnx_list *)into);
    struct onnx_number *number = (struct onnx_number *)into;
    uint64_t value;
    if (!mg_wire_varint(&r->wire, &value))
        return truncated(r);
    *number = (struct onnx_number){(int64_t)value, true};
    return MG_OK;
}

static enum mg_code read_fixed(struct reader *r, const struct field *field)
{
    char *object = r->level[r->depth - 1].object, *into = object + field->offset;
    if (field->kind != REAL)
        return read_single(r, field->kind, object, (struct onnx_list *)into);
    return mg_wire_take(&r->wire, into, sizeof(float)) ? MG_OK : truncated(r);
}

/* The wire type that a lone value of this kind has; 2 is admitted for lists beside it. */
static unsigned wire_type(enum kind kind)
{
    switch (kind) {
    case NUMBER:
    case NUMBERS:
    case DATA_NUMBERS:
        return 0;
    case REAL:
    case REALS:
    case DATA_REALS:
        return 5;
    case DOUBLES:
    case DATA_DOUBLES:
        return 1;
    default:
        return 2;
    }
}

static const struct field *find_field(const struct message *type, uint64_t number, unsigned wire)
{
    for (size_t i = 0; i < type->count; i++) {
        const struct field *field = &type->fields[i];
        if (field->number != number)
            continue;
        bool list = field->kind == NUMBERS || field->kind == REALS || field->kind == DOUBLES || is_data(field->kind);
        return wire == wire_type(field->kind) || (wire == 2 && list) ? field : NULL;
    }
    return NULL;
}

static enum mg_code skip_field(struct reader *r, unsigned wire, uint64_t size)
{
    static const uint64_t fixed[] = {0, 8, 0, 0, 0, 4};
    uint64_t ignored;
    if (wire == 0)
        return mg_wire_varint(&r->wire, &ignored) ? MG_OK : truncated(r);
    return mg_wire_skip(&r->wire, wire == 2 ? size : fixed[wire]) ? MG_OK : truncated(r);
}

static enum mg_code read_field(struct reader *r)
{
    const struct level *level = &r->level[r->depth - 1];
    uint64_t key, size = 0;
    if (!mg_wire_varint(&r->wire, &key))
        return truncated(r);
    unsigned wire = key & 7;
    if (key >> 3 == 0 || key > UINT32_MAX || wire > 5 || wire == 3 || wire == 4)
        return fail(r, MG_ERR_SYNTAX, "this is no ONNX file: a field that cannot be");
    if (wire == 2) {
        if (!mg_wire_varint(&r->wire, &size))
            return truncated(r);
        if (size > level->end - mg_wire_position(&r->wire))
            return fail(r, MG_ERR_SYNTAX, "a field that is longer than what holds it");
    }
    const struct field *field = find_field(level->type, key >> 3, wire);
    if (!field)
        return skip_field(r, wire, size);
    if (wire == 2)
        return read_delimited(r, field, size);
    return wire == 0 ? read_varint(r, field) : read_fixed(r, field);
}

static enum mg_code close_messages(struct reader *r)
{
    while (r->depth > 1 && mg_wire_position(&r->wire) >= r->level[r->depth - 1].end) {
        const struct level *level = &r->level[r->depth - 1];
        if (mg_wire_position(&r->wire) > level->end)
            return fail(r, MG_ERR_SYNTAX, "a message that ends inside a field");
        const char *wrong = level->type->check ? level->type->check(level->object) : NULL;
        if (wrong)
            return fail(r, MG_ERR_INVALID, wrong);
        r->depth--;
    }
    return MG_OK;
}

static enum mg_code read_all(void *context, struct mg_error *err)
{
    struct reader *r = context;
    (void)err;
    while (r->depth > 1 || !mg_wire_at_end(&r->wire)) {
        set_budget(r);
        MG_TRY(read_field(r));
        MG_TRY(close_messages(r));
    }
    return r->wire.broken ? truncated(r) : MG_OK;
}

static enum mg_code parse(const struct mg_bytes *source, struct onnx_parse *how, const struct message *type, void *out)
{
    struct reader *r = mg_arena_alloc(how->arena, sizeof *r);
    r->how = how;
    r->arena_base = how->arena->used;
    r->arena_limit = how->arena->limit;
    r->level[r->depth++] = (struct level){type, out, UINT64_MAX};
    memset(out, 0, type->size);
    mg_wire_open(&r->wire, source);
    enum mg_code code = mg_arena_guard(how->arena, read_all, r, how->err);
    bool over = how->arena->limit < r->arena_limit;
    how->arena->limit = r->arena_limit;
    how->bytes_read = mg_wire_position(&r->wire) - r->wire.skipped;
    if (code == MG_ERR_NOMEM && over)
        code = fail(r, MG_ERR_LIMIT, "the file's parts are so small and so many that they need too much memory");
    return code;
}

enum mg_code mg_onnx_parse_model(const struct mg_bytes *source, struct onnx_parse *how, struct onnx_model *out)
{
    return parse(source, how, &model_message, out);
}

enum mg_code mg_onnx_parse_tensor(const struct mg_bytes *source, struct onnx_parse *how, struct onnx_tensor *out)
{
    MG_TRY(parse(source, how, &tensor_message, out));
    return check_tensor(out) ? mg_fail(how->err, MG_ERR_INVALID, "", "%s", check_tensor(out)) : MG_OK;
}
