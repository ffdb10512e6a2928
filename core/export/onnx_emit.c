/* Messages of ONNX by hand: nodes, tensors, constants, names. */
#include <stdarg.h>
#include <stdio.h>

#include "export/onnx_emit.h"

/* ---- the wire format ---- */

static void put_varint(struct mg_writer *w, uint64_t value)
{
    unsigned char bytes[10];
    size_t size = 0;
    do {
        bytes[size] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
        size++;
    } while (value);
    mg_write_bytes(w, bytes, size);
}

void mg_wire_put_int(struct mg_writer *w, uint32_t field, int64_t value)
{
    put_varint(w, (uint64_t)field << 3);
    put_varint(w, (uint64_t)value);
}

/* Least significant byte first. */
static void put_little(struct mg_writer *w, uint64_t bits, size_t size)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(bits >> (8 * i));
    mg_write_bytes(w, bytes, size);
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void mg_wire_put_float(struct mg_writer *w, uint32_t field, float value)
{
    put_varint(w, (uint64_t)field << 3 | 5);
    put_little(w, float_bits(value), 4);
}

void mg_wire_put_bytes(struct mg_writer *w, uint32_t field, const void *data, size_t size)
{
    put_varint(w, (uint64_t)field << 3 | 2);
    put_varint(w, size);
    mg_write_bytes(w, data, size);
}

void mg_wire_put_text(struct mg_writer *w, uint32_t field, const char *text)
{
    mg_wire_put_bytes(w, field, text, strlen(text));
}

void mg_wire_put_message(struct mg_writer *w, uint32_t field, struct mg_writer *inner)
{
    mg_wire_put_bytes(w, field, inner->data, inner->size);
    w->failed = w->failed || inner->failed;
    inner->size = 0;
}

/* ---- elements ---- */

int64_t mg_onnx_elem_type(enum mg_dtype dtype)
{
    static const int64_t types[MG_DTYPE_COUNT] = {
        [MG_DTYPE_F64] = 11, [MG_DTYPE_F32] = 1,  [MG_DTYPE_F16] = 10, [MG_DTYPE_BF16] = 16, [MG_DTYPE_I64] = 7,
        [MG_DTYPE_I32] = 6,  [MG_DTYPE_I16] = 5,  [MG_DTYPE_I8] = 3,   [MG_DTYPE_U8] = 2,    [MG_DTYPE_U16] = 4,
        [MG_DTYPE_U32] = 12, [MG_DTYPE_U64] = 13, [MG_DTYPE_BOOL] = 9};
    return types[dtype];
}

/* The nearest number of half precision, ties to even. */
static uint16_t half_bits(float value)
{
    uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x33000000)
        return (uint16_t)sign;
    uint32_t shift = rest >= 0x38800000 ? 13 : 126 - (rest >> 23);
    uint32_t whole = rest >= 0x38800000 ? rest - 0x38000000 : (rest & 0x7fffff) | 0x800000;
    uint32_t kept = whole >> shift, cut = whole & ((1u << shift) - 1), middle = 1u << (shift - 1);
    return (uint16_t)(sign | (kept + (cut > middle || (cut == middle && (kept & 1)))));
}

static uint16_t bfloat_bits(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static int64_t whole_number(double number)
{
    return !(number > -9.2e18) ? INT64_MIN : number < 9.2e18 ? (int64_t)number : INT64_MAX;
}

static uint64_t element_bits(enum mg_dtype dtype, double number)
{
    uint64_t bits;
    switch (dtype) {
    case MG_DTYPE_F64:
        memcpy(&bits, &number, sizeof bits);
        return bits;
    case MG_DTYPE_F32:
        return float_bits((float)number);
    case MG_DTYPE_F16:
        return half_bits((float)number);
    case MG_DTYPE_BF16:
        return bfloat_bits((float)number);
    case MG_DTYPE_U64:
        return number >= 0x1p63 ? (uint64_t)whole_number(number - 0x1p63) + ((uint64_t)1 << 63)
                                : (uint64_t)whole_number(number);
    default:
        return (uint64_t)whole_number(number);
    }
}

const void *mg_onnx_encode(enum mg_dtype dtype, const double *numbers, int64_t count, struct mg_arena *arena)
{
    uint32_t size = mg_dtype_size(dtype);
    unsigned char *raw = mg_arena_calloc(arena, (size_t)count + 1, size);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = element_bits(dtype, numbers[i]);
        for (uint32_t k = 0; k < size; k++)
            raw[i * size + k] = (unsigned char)(bits >> (8 * k));
    }
    return raw;
}

/* ---- the sink ---- */

void mg_sink_init(struct mg_onnx_sink *s, const struct mg_graph *g, struct mg_arena *arena)
{
    *s = (struct mg_onnx_sink){.arena = arena, .g = g};
    mg_writer_init(&s->nodes);
    mg_writer_init(&s->initializers);
    for (int i = 0; i < 3; i++)
        mg_writer_init(&s->inner[i]);
}

void mg_sink_release(struct mg_onnx_sink *s)
{
    mg_writer_release(&s->nodes);
    mg_writer_release(&s->initializers);
    for (int i = 0; i < 3; i++)
        mg_writer_release(&s->inner[i]);
}

/* The number is never given twice, so only names of the graph can be in the way. */
const char *mg_emit_fresh(struct mg_onnx_sink *s, const char *base)
{
    const char *name;
    do
        name = mg_arena_printf(s->arena, "%s.%llu", base, (unsigned long long)++s->fresh);
    while (mg_graph_find_value(s->g, name) != MG_NONE);
    return name;
}

void mg_emit_reason(struct mg_onnx_sink *s, const char *text)
{
    void **number = mg_names_at(&s->reason_index, s->arena, text);
    if (!*number) {
        *MG_PUSH(s->arena, s->reasons, s->reason_count, s->reason_capacity) = (struct mg_emit_reason){text, 0};
        *number = (void *)(uintptr_t)s->reason_count;
    }
    s->reasons[(uintptr_t)*number - 1].count++;
}

static void put_tensor(struct mg_writer *w, const char *name, enum mg_dtype dtype, const struct mg_shape *shape,
                       const void *raw)
{
    for (uint32_t d = 0; d < shape->rank; d++)
        mg_wire_put_int(w, 1, shape->dim[d]);
    mg_wire_put_int(w, 2, mg_onnx_elem_type(dtype));
    if (name)
        mg_wire_put_text(w, 8, name);
    mg_wire_put_bytes(w, 9, raw, (size_t)mg_shape_elements(shape) * mg_dtype_size(dtype));
}

void mg_emit_initializer(struct mg_onnx_sink *s, const char *name, enum mg_dtype dtype, const struct mg_shape *shape,
                         const void *raw)
{
    put_tensor(&s->inner[0], name, dtype, shape, raw);
    mg_wire_put_message(&s->initializers, 5, &s->inner[0]);
}

/* ---- nodes ---- */

static void put_field(struct mg_onnx_sink *s, const struct mg_field *field)
{
    static const int64_t types[] = {[MG_FIELD_INT] = 2,  [MG_FIELD_REAL] = 1,   [MG_FIELD_TEXT] = 3,
                                    [MG_FIELD_INTS] = 7, [MG_FIELD_TENSOR] = 4, [MG_FIELD_TEXTS] = 8};
    const struct mg_shape one = {.rank = 1, .dim = {1}};
    struct mg_writer *w = &s->inner[1];
    mg_wire_put_text(w, 1, field->name);
    mg_wire_put_int(w, 20, types[field->kind]);
    switch (field->kind) {
    case MG_FIELD_INT:
        mg_wire_put_int(w, 3, field->i);
        break;
    case MG_FIELD_REAL:
        mg_wire_put_float(w, 2, (float)field->f);
        break;
    case MG_FIELD_TEXT:
        mg_wire_put_text(w, 4, field->text);
        break;
    case MG_FIELD_TEXTS:
        mg_wire_put_text(w, 9, field->text);
        break;
    case MG_FIELD_INTS:
        for (uint32_t i = 0; i < field->count; i++)
            mg_wire_put_int(w, 8, field->ints[i]);
        break;
    case MG_FIELD_TENSOR:
        put_tensor(&s->inner[2], NULL, field->dtype, &one, mg_onnx_encode(field->dtype, &field->f, 1, s->arena));
        mg_wire_put_message(w, 5, &s->inner[2]);
    }
    mg_wire_put_message(&s->inner[0], 5, w);
}

/* Trailing names that are left out are not written. */
static void put_names(struct mg_writer *w, uint32_t number, const char *const *names, uint32_t count)
{
    while (count && (!names[count - 1] || !*names[count - 1]))
        count--;
    for (uint32_t i = 0; i < count; i++)
        mg_wire_put_text(w, number, names[i] ? names[i] : "");
}

void mg_emit_node(struct mg_onnx_sink *s, const char *type, const char *const *in, uint32_t in_count,
                  const char *const *out, uint32_t out_count, const struct mg_field *fields)
{
    struct mg_writer *w = &s->inner[0];
    put_names(w, 1, in, in_count);
    put_names(w, 2, out, out_count);
    mg_wire_put_text(w, 3, mg_arena_printf(s->arena, "n%llu", (unsigned long long)s->node_count++));
    mg_wire_put_text(w, 4, type);
    for (const struct mg_field *field = fields; field && field->name; field++)
        put_field(s, field);
    mg_wire_put_message(&s->nodes, 1, w);
}

const char *mg_emit_one(struct mg_onnx_sink *s, const char *out, const char *type, const char *const *in,
                        uint32_t in_count, const struct mg_field *fields)
{
    out = out ? out : mg_emit_fresh(s, "t");
    mg_emit_node(s, type, in, in_count, &out, 1, fields);
    return out;
}

/* ---- constants ---- */

static const char *constant(struct mg_onnx_sink *s, const char *key, enum mg_dtype dtype, const struct mg_shape *shape,
                            const void *raw)
{
    void **slot = mg_names_at(&s->constants, s->arena, key);
    if (!*slot) {
        const char **name = MG_NEW(s->arena, const char *);
        *slot = name;
        *name = mg_emit_fresh(s, "c");
        mg_emit_initializer(s, *name, dtype, shape, raw);
    }
    return *(const char **)*slot;
}

const char *mg_emit_ints(struct mg_onnx_sink *s, const int64_t *list, uint32_t count)
{
    enum { NUMBER = 21 }; /* a comma, a sign, 19 digits */
    const struct mg_shape shape = {.rank = 1, .dim = {count}};
    char *key = mg_arena_alloc(s->arena, NUMBER * (size_t)count + 1), *end = key;
    unsigned char *raw = mg_arena_alloc(s->arena, 8 * (size_t)count + 1);
    *end = 0;
    for (uint32_t i = 0; i < count; i++) {
        end += snprintf(end, NUMBER + 1, ",%lld", (long long)list[i]);
        for (int k = 0; k < 8; k++)
            raw[8 * i + (uint32_t)k] = (unsigned char)((uint64_t)list[i] >> (8 * k));
    }
    return constant(s, key, MG_DTYPE_I64, &shape, raw);
}

const char *mg_emit_number(struct mg_onnx_sink *s, enum mg_dtype dtype, double value)
{
    const struct mg_shape scalar = {.rank = 0};
    const char *key = mg_arena_printf(s->arena, "%s %a", mg_dtype_name(dtype), value);
    return constant(s, key, dtype, &scalar, mg_onnx_encode(dtype, &value, 1, s->arena));
}
