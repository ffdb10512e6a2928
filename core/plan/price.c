/* Prices of steps: each distinct (name, canonical signature) is listed once, in order of first use.
 * The signature says all that the price depends on: math, attributes in schema order, dtypes, shapes. */
#include <stdio.h>
#include <string.h>

#include "device/signature.h"
#include "plan/plan_priv.h"

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

static uint64_t hash_price(const char *name, const char *signature)
{
    return mg_signature_key(name, signature).lo;
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

static uint32_t intern(struct mg_price_table *table, const char *name, struct mg_quote quote, struct mg_arena *arena)
{
    uint32_t found = find_price(table, name);
    if (found != MG_NONE)
        return found;
    if (table->slot_count < 2 * (table->count + 1))
        grow_slots(table, arena);
    struct mg_price *price = MG_PUSH(arena, table->prices, table->count, table->capacity);
    *price = (struct mg_price){.seconds = quote.seconds, .workspace = quote.workspace, .source = quote.source};
    snprintf(price->name, sizeof price->name, "%s", name);
    price->signature = mg_arena_strdup(arena, table->text);
    insert_slot(table, (uint32_t)(table->count - 1));
    return (uint32_t)(table->count - 1);
}

static void shorten(struct mg_price_table *table)
{
    char hex[65];
    if (table->size <= MG_PRICE_SIGNATURE_MAX)
        return;
    mg_sha256_hex(table->text, table->size, hex);
    table->size = (size_t)snprintf(table->text, table->text_capacity, "sha256:%s", hex);
}

uint32_t mg_price_op(struct mg_price_table *table, const struct mg_pricing *pricing, mg_op op,
                     const struct mg_cut *cuts, uint32_t cut_count, struct mg_arena *arena, struct mg_error *err)
{
    const struct mg_op_info *info = &pricing->g->ops[op];
    begin_text(table, arena, mg_signature_bound(info->attrs, info->attr_count, info->in_count + info->out_count));
    struct mg_arena_mark mark = mg_arena_mark(arena);
    struct mg_op_desc desc, whole;
    bool part = cut_count > 0 && mg_pricer_measures(pricing->pricer);
    if (mg_op_describe(pricing->g, op, cuts, cut_count, arena, &desc, err) != MG_OK ||
        (part && mg_op_describe(pricing->g, op, NULL, 0, arena, &whole, err) != MG_OK))
        return MG_NONE;
    struct mg_quote quote = mg_pricer_quote(pricing->pricer, pricing->device, &desc, part ? &whole : NULL);
    table->size = mg_signature_print(&desc, table->text);
    shorten(table);
    mg_arena_rewind(arena, mark);
    return intern(table, mg_op_type_name(info->type), quote, arena);
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
    table->size = mg_signature_print_shape(dtype, shape, table->text);
    uint64_t elements = (uint64_t)mg_shape_elements(shape);
    struct mg_quote quote = {copy_seconds(device, name, elements, elements * mg_dtype_size(dtype)), 0, MG_PRICE_MODEL};
    return intern(table, name, quote, arena);
}
