#include "server/plan_blob.h"

#include <stdlib.h>
#include <string.h>

#include "server/pack.h"

struct out {
    unsigned char *data;
    size_t size, capacity;
    bool failed;
};

static void put_bytes(struct out *o, const void *data, size_t size)
{
    if (o->failed)
        return;
    if (o->size + size > o->capacity) {
        size_t capacity = (o->size + size) * 2 + 256;
        unsigned char *larger = realloc(o->data, capacity);
        if (!larger) {
            o->failed = true;
            return;
        }
        o->data = larger;
        o->capacity = capacity;
    }
    if (size)
        memcpy(o->data + o->size, data, size);
    o->size += size;
}

static void put_uint(struct out *o, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    do {
        bytes[n] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        n++;
        value >>= 7;
    } while (value);
    put_bytes(o, bytes, n);
}

static void put_int(struct out *o, int64_t value)
{
    put_uint(o, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

/* MG_NONE becomes 0. */
static void put_index(struct out *o, uint32_t index)
{
    put_uint(o, index == MG_NONE ? 0 : (uint64_t)index + 1);
}

static void put_double(struct out *o, double value)
{
    uint64_t bits;
    unsigned char bytes[8];
    memcpy(&bits, &value, sizeof bits);
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(bits >> (8 * i));
    put_bytes(o, bytes, sizeof bytes);
}

static void put_text(struct out *o, const char *text)
{
    size_t size = strlen(text ? text : "");
    put_uint(o, size);
    put_bytes(o, text, size);
}

static void put_device(struct out *o, const struct mg_device *device)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_device_write(&w, device);
    if (mg_writer_finish(&w))
        put_text(o, w.data);
    else
        o->failed = true;
    mg_writer_release(&w);
}

static void put_figures(struct out *o, const struct mg_figures *figures)
{
    put_double(o, figures->latency_s);
    put_uint(o, figures->peak_bytes);
    put_uint(o, figures->arena_bytes);
    put_uint(o, figures->host_bytes);
}

static void put_edits(struct out *o, const struct mg_plan *plan)
{
    put_uint(o, plan->edit_count);
    for (size_t i = 0; i < plan->edit_count; i++) {
        put_text(o, plan->edits[i].rule);
        put_text(o, plan->edits[i].binding);
        put_text(o, plan->edits[i].removed);
        put_text(o, plan->edits[i].added);
    }
}

static void put_regions(struct out *o, const struct mg_plan *plan)
{
    put_uint(o, plan->region_count);
    for (size_t i = 0; i < plan->region_count; i++) {
        const struct mg_region *region = &plan->regions[i];
        put_index(o, region->parent);
        put_int(o, region->length);
        put_uint(o, region->parts);
        put_uint(o, region->op_count);
        for (uint32_t k = 0; k < region->op_count; k++) {
            put_uint(o, region->ops[k].op);
            put_uint(o, region->ops[k].axis);
            put_int(o, region->ops[k].scale);
        }
    }
}

static void put_shape(struct out *o, const struct mg_shape *shape)
{
    put_uint(o, shape->rank);
    for (uint32_t d = 0; d < shape->rank; d++)
        put_int(o, shape->dim[d]);
}

static void put_instances(struct out *o, const struct mg_plan *plan)
{
    put_uint(o, plan->instance_count);
    for (size_t i = 0; i < plan->instance_count; i++) {
        const struct mg_instance *instance = &plan->instances[i];
        put_uint(o, instance->value);
        put_index(o, instance->storage);
        put_index(o, instance->made_by);
        put_index(o, instance->view_of);
        put_shape(o, &instance->shape);
        put_int(o, instance->offset);
        for (uint32_t d = 0; d < instance->shape.rank; d++)
            put_int(o, instance->stride[d]);
    }
}

static void put_storages(struct out *o, const struct mg_plan *plan)
{
    put_uint(o, plan->storage_count);
    for (size_t i = 0; i < plan->storage_count; i++) {
        put_uint(o, plan->storages[i].bytes);
        put_uint(o, plan->storages[i].offset);
    }
}

static void put_prices(struct out *o, const struct mg_plan *plan)
{
    put_uint(o, plan->price_count);
    for (size_t i = 0; i < plan->price_count; i++) {
        const struct mg_price *price = &plan->prices[i];
        put_text(o, price->name);
        put_text(o, price->signature);
        put_double(o, price->seconds);
        put_uint(o, price->workspace);
        put_uint(o, price->source);
    }
}

static void put_range(struct out *o, uint32_t start, uint32_t count, uint32_t *expected)
{
    put_uint(o, count);
    if (count) {
        put_int(o, (int64_t)start - (int64_t)*expected);
        *expected = start + count;
    }
}

static void put_steps(struct out *o, const struct mg_plan *plan)
{
    uint32_t expected = 0;
    put_uint(o, plan->step_count);
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct mg_step *step = &plan->steps[i];
        put_uint(o, step->kind);
        put_index(o, step->op);
        put_range(o, step->in, step->in_count, &expected);
        put_range(o, step->out, step->out_count, &expected);
        put_range(o, step->price, step->price_count, &expected);
    }
    put_uint(o, plan->ref_count);
    for (size_t i = 0; i < plan->ref_count; i++)
        put_uint(o, plan->refs[i]);
}

enum mg_code mg_plan_pack(const struct mg_plan *plan, unsigned char **out, size_t *size, struct mg_error *err)
{
    struct out o = {NULL, 0, 0, false};
    const unsigned char head[4] = {'M', 'G', 'P', MG_PLAN_BLOB_VERSION};
    put_bytes(&o, head, sizeof head);
    put_text(&o, plan->graph_digest);
    put_device(&o, &plan->device);
    put_uint(&o, plan->numerics);
    put_edits(&o, plan);
    put_regions(&o, plan);
    put_storages(&o, plan);
    put_instances(&o, plan);
    put_prices(&o, plan);
    put_steps(&o, plan);
    put_figures(&o, &plan->figures);
    put_figures(&o, &plan->original);
    bool good = !o.failed && mg_pack(o.data, o.size, out, size);
    free(o.data);
    return good ? MG_OK : mg_fail(err, MG_ERR_NOMEM, "", "out of memory while packing a plan");
}
