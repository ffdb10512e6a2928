/* Prices of steps: each distinct (name, canonical signature) is listed once, in order of first use.
 * The signature says all that the price depends on: math, attributes in schema order, dtypes, shapes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "plan/plan_priv.h"

static MG_PRINTF(2, 3) void append(struct mg_price_table *table, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(table->text + table->size, table->text_capacity - table->size, fmt, args);
    va_end(args);
    table->size += (size_t)n;
}

/* Room for the signature, taken before anything that is rewound later. */
static void begin_text(struct mg_price_table *table, struct mg_arena *arena, size_t bound)
{
    if (table->text_capacity < bound) {
        table->text_capacity = 2 * bound;
        table->text = mg_arena_alloc(arena, table->text_capacity);
    }
    table->size = 0;
    table->text[0] = '\0';
}

static size_t signature_bound(const struct mg_op_info *op)
{
    size_t bound = 64 + ((size_t)op->in_count + op->out_count) * (MG_MAX_RANK * 22 + 16);
    for (uint32_t a = 0; a < op->attr_count; a++) {
        bound += 64 + 22 * (size_t)op->attrs[a].count;
        if (op->attrs[a].type == MG_ATTR_TYPE_STRING && op->attrs[a].string)
            bound += strlen(op->attrs[a].string);
    }
    return bound;
}

static void append_attr(struct mg_price_table *table, const struct mg_attr *attr)
{
    append(table, "%s=", mg_attr_name(attr->key));
    switch (attr->type) {
    case MG_ATTR_TYPE_INT:
        append(table, "%" PRId64, attr->i);
        break;
    case MG_ATTR_TYPE_FLOAT:
        append(table, "%.17g", attr->f);
        break;
    case MG_ATTR_TYPE_INTS:
        for (uint32_t i = 0; i < attr->count; i++)
            append(table, "%s%" PRId64, i ? "," : "", attr->ints[i]);
        break;
    case MG_ATTR_TYPE_STRING:
        append(table, "%s", attr->string ? attr->string : "");
        break;
    }
    append(table, ";");
}

static void append_shape(struct mg_price_table *table, enum mg_dtype dtype, const struct mg_shape *shape)
{
    append(table, "%s[", mg_dtype_name(dtype));
    for (uint32_t d = 0; d < shape->rank; d++)
        append(table, "%s%" PRId64, d ? "," : "", shape->dim[d]);
    append(table, "]");
}

static void append_desc(struct mg_price_table *table, const struct mg_op_desc *desc)
{
    append(table, "%s;", desc->math == MG_MATH_TF32 ? "tf32" : "f32");
    for (uint32_t a = 0; a < desc->attr_count; a++)
        append_attr(table, &desc->attrs[a]);
    for (uint32_t i = 0; i < desc->in_count; i++) {
        append(table, "%s", i ? "," : "");
        append_shape(table, desc->in_dtype[i], &desc->in_shape[i]);
    }
    append(table, "->");
    for (uint32_t i = 0; i < desc->out_count; i++) {
        append(table, "%s", i ? "," : "");
        append_shape(table, desc->out_dtype[i], &desc->out_shape[i]);
    }
}

static uint64_t hash_price(const char *name, const char *signature)
{
    return mg_hash_bytes(signature, strlen(signature), mg_hash_bytes(name, strlen(name), 0).lo).lo;
}

static void insert_slot(struct mg_price_table *table, uint32_t index)
{
    size_t mask = table->slot_count - 1;
    size_t at = (size_t)hash_price(table->prices[index].name, table->prices[index].signature) & mask;
    while (table->slots[at] != MG_NONE)
        at = (at + 1) & mask;
    table->slots[at] = index;
}

static void grow_slots(struct mg_price_table *table, struct mg_arena *arena)
{
    table->slot_count = table->slot_count ? 2 * table->slot_count : 64;
    table->slots = MG_NEW_ARRAY(arena, uint32_t, table->slot_count);
    memset(table->slots, 0xff, table->slot_count * sizeof *table->slots);
    for (uint32_t i = 0; i < table->count; i++)
        insert_slot(table, i);
}

static uint32_t find_price(const struct mg_price_table *table, const char *name)
{
    if (!table->slot_count)
        return MG_NONE;
    size_t mask = table->slot_count - 1;
    for (size_t at = (size_t)hash_price(name, table->text) & mask; table->slots[at] != MG_NONE; at = (at + 1) & mask) {
        const struct mg_price *price = &table->prices[table->slots[at]];
        if (!strcmp(price->name, name) && !strcmp(price->signature, table->text))
            return table->slots[at];
    }
    return MG_NONE;
}

static uint32_t intern(struct mg_price_table *table, const char *name, double seconds, struct mg_arena *arena)
{
    uint32_t found = find_price(table, name);
    if (found != MG_NONE)
        return found;
    if (table->slot_count < 2 * (table->count + 1))
        grow_slots(table, arena);
    struct mg_price *price = MG_PUSH(arena, table->prices, table->count, table->capacity);
    *price = (struct mg_price){.seconds = seconds, .source = MG_PRICE_MODEL};
    snprintf(price->name, sizeof price->name, "%s", name);
    price->signature = mg_arena_strdup(arena, table->text);
    insert_slot(table, (uint32_t)(table->count - 1));
    return (uint32_t)(table->count - 1);
}

uint32_t mg_price_op(struct mg_price_table *table, const struct mg_graph *g, const struct mg_device *device, mg_op op,
                     const struct mg_cut *cuts, uint32_t cut_count, struct mg_arena *arena, struct mg_error *err)
{
    begin_text(table, arena, signature_bound(&g->ops[op]));
    struct mg_arena_mark mark = mg_arena_mark(arena);
    struct mg_op_desc desc;
    if (mg_op_describe(g, op, cuts, cut_count, arena, &desc, err) != MG_OK)
        return MG_NONE;
    double seconds = mg_device_latency(device, &desc);
    append_desc(table, &desc);
    mg_arena_rewind(arena, mark);
    return intern(table, mg_op_type_name(g->ops[op].type), seconds, arena);
}

static double copy_seconds(const struct mg_device *device, const char *name, uint64_t elements, uint64_t bytes)
{
    if (!strcmp(name, "store"))
        return mg_device_store_latency(device, bytes);
    if (!strcmp(name, "load"))
        return mg_device_load_latency(device, bytes);
    if (!strcmp(name, "acc"))
        return mg_device_acc_latency(device, elements, bytes);
    return mg_device_copy_latency(device, elements, bytes);
}

uint32_t mg_price_copy(struct mg_price_table *table, const struct mg_device *device, const char *name,
                       enum mg_dtype dtype, const struct mg_shape *shape, struct mg_arena *arena)
{
    begin_text(table, arena, 64 + MG_MAX_RANK * 22);
    append_shape(table, dtype, shape);
    uint64_t elements = (uint64_t)mg_shape_elements(shape);
    return intern(table, name, copy_seconds(device, name, elements, elements * mg_dtype_size(dtype)), arena);
}
