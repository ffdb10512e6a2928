/* Opening devices and what all back ends share: copies of descriptions, dispatch, memory on the host. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "measure/measure_priv.h"

static const struct mg_backend *const backends[] = {&mg_backend_cpu, &mg_backend_cuda, &mg_backend_model};

/* ---- devices ---- */

static const char *rest_of(const char *name, const char *backend)
{
    size_t length = strlen(backend);
    if (strncmp(name, backend, length) != 0 || (name[length] != '\0' && name[length] != ':'))
        return NULL;
    return name[length] == ':' ? name + length + 1 : name + length;
}

static enum mg_code open_with(const struct mg_backend *backend, const char *rest, struct mg_engine **out,
                              struct mg_error *err)
{
    struct mg_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    engine->backend = backend;
    enum mg_code code = backend->open(engine, rest, err);
    if (code != MG_OK) {
        mg_engine_close(engine);
        return code;
    }
    *out = engine;
    return MG_OK;
}

enum mg_code mg_engine_open(const char *name, struct mg_engine **out, struct mg_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        const char *rest = rest_of(name, backends[i]->name);
        if (rest)
            return open_with(backends[i], rest, out, err);
    }
    return mg_fail(err, MG_ERR_INVALID, "/device",
                   "no device \"%.60s\" to measure on; there are cpu, cuda:0 and model:PROFILE", name);
}

void mg_engine_close(struct mg_engine *engine)
{
    if (!engine)
        return;
    mg_engine_free(engine, MG_PLACE_DEVICE, engine->pool);
    if (engine->backend->close)
        engine->backend->close(engine);
    free(engine->allocations);
    free(engine);
}

const struct mg_engine_properties *mg_engine_properties(const struct mg_engine *engine)
{
    return &engine->properties;
}

/* ---- operators ---- */

static struct mg_attr *copy_attrs(struct mg_arena *arena, const struct mg_op_desc *op)
{
    struct mg_attr *attrs = mg_arena_copy(arena, op->attrs, op->attr_count * sizeof *attrs);
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (attrs[i].type == MG_ATTR_TYPE_INTS)
            attrs[i].ints = mg_arena_copy(arena, attrs[i].ints, attrs[i].count * sizeof *attrs[i].ints);
        else if (attrs[i].type == MG_ATTR_TYPE_STRING)
            attrs[i].string = mg_arena_strdup(arena, attrs[i].string ? attrs[i].string : "");
    }
    return attrs;
}

static struct mg_strides *copy_strides(struct mg_arena *arena, const struct mg_strides *strides,
                                       const struct mg_shape *shapes, uint32_t count)
{
    struct mg_strides *copy = MG_NEW_ARRAY(arena, struct mg_strides, count);
    for (uint32_t i = 0; i < count; i++) {
        if (strides)
            copy[i] = strides[i];
        else
            mg_shape_strides(&shapes[i], copy[i].at);
    }
    return copy;
}

static void copy_description(struct mg_prepared *p, const struct mg_op_desc *op, const struct mg_strides *in,
                             const struct mg_strides *out)
{
    struct mg_arena *arena = &p->arena;
    p->op = *op;
    p->op.attrs = copy_attrs(arena, op);
    p->op.in_shape = mg_arena_copy(arena, op->in_shape, op->in_count * sizeof *op->in_shape);
    p->op.out_shape = mg_arena_copy(arena, op->out_shape, op->out_count * sizeof *op->out_shape);
    p->op.in_dtype = mg_arena_copy(arena, op->in_dtype, op->in_count * sizeof *op->in_dtype);
    p->op.out_dtype = mg_arena_copy(arena, op->out_dtype, op->out_count * sizeof *op->out_dtype);
    p->in = copy_strides(arena, in, p->op.in_shape, op->in_count);
    p->out = copy_strides(arena, out, p->op.out_shape, op->out_count);
}

struct preparation {
    struct mg_prepared *prepared;
    const struct mg_op_desc *op;
    const struct mg_strides *in, *out;
};

static enum mg_code prepare(void *context, struct mg_error *err)
{
    struct preparation *preparation = context;
    struct mg_prepared *p = preparation->prepared;
    copy_description(p, preparation->op, preparation->in, preparation->out);
    return p->engine->backend->prepare(p, err);
}

enum mg_code mg_engine_prepare(struct mg_engine *engine, const struct mg_op_desc *op, const struct mg_strides *in,
                               const struct mg_strides *out, struct mg_prepared **prepared, struct mg_error *err)
{
    struct mg_prepared *p = calloc(1, sizeof *p);
    *prepared = NULL;
    if (!p)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    p->engine = engine;
    mg_arena_init(&p->arena, SIZE_MAX);
    struct preparation preparation = {p, op, in, out};
    enum mg_code code = mg_arena_guard(&p->arena, prepare, &preparation, err);
    if (code != MG_OK) {
        mg_prepared_free(p);
        return code;
    }
    *prepared = p;
    return MG_OK;
}

void mg_prepared_free(struct mg_prepared *prepared)
{
    if (!prepared)
        return;
    if (prepared->engine->backend->release)
        prepared->engine->backend->release(prepared);
    mg_arena_release(&prepared->arena);
    free(prepared);
}

uint64_t mg_prepared_workspace(const struct mg_prepared *prepared)
{
    return prepared->workspace;
}

enum mg_code mg_prepared_run(struct mg_prepared *prepared, const void *const *in, void *const *out,
                             const struct mg_exec_origin *origin, struct mg_error *err)
{
    return prepared->engine->backend->run(prepared, in, out, origin, err);
}

int64_t mg_prepared_int(const struct mg_prepared *p, enum mg_attr_key key)
{
    const struct mg_attr *attr = mg_attr_find(p->op.attrs, p->op.attr_count, key);
    return attr ? attr->i : 0;
}

double mg_prepared_float(const struct mg_prepared *p, enum mg_attr_key key)
{
    const struct mg_attr *attr = mg_attr_find(p->op.attrs, p->op.attr_count, key);
    return attr ? attr->f : 0;
}

int64_t mg_prepared_ints(const struct mg_prepared *p, enum mg_attr_key key, uint32_t at, int64_t fallback)
{
    const struct mg_attr *attr = mg_attr_find(p->op.attrs, p->op.attr_count, key);
    return attr && at < attr->count ? attr->ints[at] : fallback;
}

bool mg_prepared_text_is(const struct mg_prepared *p, enum mg_attr_key key, const char *text)
{
    const struct mg_attr *attr = mg_attr_find(p->op.attrs, p->op.attr_count, key);
    return attr && strcmp(attr->string, text) == 0;
}

enum mg_code mg_prepared_refuse(const struct mg_prepared *p, struct mg_error *err, const char *why)
{
    return mg_fail(err, MG_ERR_UNSUPPORTED, "", "operator '%s' cannot be run on %s: %s", mg_op_type_name(p->op.type),
                   p->engine->backend->name, why);
}

/* ---- memory, copies, order ---- */

void mg_engine_limit_memory(struct mg_engine *engine, double share)
{
    uint64_t left = engine->backend->free_memory ? engine->backend->free_memory(engine) : 0;
    engine->most_bytes = left ? engine->used_bytes + (uint64_t)(share * (double)left) : 0;
}

bool mg_engine_is_busy(struct mg_engine *engine, double idle_s, char why[128])
{
    why[0] = '\0';
    return engine->backend->is_busy && engine->backend->is_busy(engine, idle_s, why, 128);
}

static bool has_place(struct mg_engine *engine)
{
    if (engine->allocation_count < engine->allocation_capacity)
        return true;
    size_t capacity = 2 * engine->allocation_capacity + 64;
    struct mg_allocation *larger = realloc(engine->allocations, capacity * sizeof *larger);
    if (!larger)
        return false;
    engine->allocations = larger;
    engine->allocation_capacity = capacity;
    return true;
}

static enum mg_code alloc_on_device(struct mg_engine *engine, uint64_t bytes, void **out, struct mg_error *err)
{
    uint64_t left = engine->most_bytes > engine->used_bytes ? engine->most_bytes - engine->used_bytes : 0;
    if (engine->most_bytes && bytes > left)
        return mg_fail(err, MG_ERR_NOMEM, "", "%llu bytes are more than the %llu that may still be used of the device",
                       (unsigned long long)bytes, (unsigned long long)left);
    if (!has_place(engine))
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    enum mg_code code = engine->backend->alloc(engine, MG_PLACE_DEVICE, bytes, out, err);
    if (code != MG_OK)
        return code;
    engine->allocations[engine->allocation_count++] = (struct mg_allocation){*out, bytes};
    engine->used_bytes += bytes;
    return MG_OK;
}

enum mg_code mg_engine_alloc(struct mg_engine *engine, enum mg_place place, uint64_t bytes, void **out,
                             struct mg_error *err)
{
    return place == MG_PLACE_DEVICE ? alloc_on_device(engine, bytes, out, err)
                                    : engine->backend->alloc(engine, place, bytes, out, err);
}

void mg_engine_free(struct mg_engine *engine, enum mg_place place, void *memory)
{
    size_t at = engine->allocation_count;
    if (!memory)
        return;
    while (place == MG_PLACE_DEVICE && at > 0 && engine->allocations[at - 1].memory != memory)
        at--;
    if (place == MG_PLACE_DEVICE && at > 0) {
        engine->used_bytes -= engine->allocations[at - 1].bytes;
        engine->allocations[at - 1] = engine->allocations[--engine->allocation_count];
    }
    engine->backend->free(engine, place, memory);
}

enum mg_code mg_engine_copy(struct mg_engine *engine, enum mg_stream stream, void *to, const void *from, uint64_t bytes,
                            struct mg_error *err)
{
    return bytes ? engine->backend->copy(engine, stream, to, from, bytes, err) : MG_OK;
}

bool mg_engine_knows_copy(const struct mg_engine *engine, enum mg_stream stream, uint64_t bytes, double *seconds)
{
    bool known = engine->backend->copy_seconds != NULL;
    *seconds = known ? engine->backend->copy_seconds(engine, stream, bytes) : 0;
    return known;
}

enum mg_code mg_engine_mark(struct mg_engine *engine, enum mg_stream stream, uint32_t mark, struct mg_error *err)
{
    return engine->backend->mark ? engine->backend->mark(engine, stream, mark, err) : MG_OK;
}

enum mg_code mg_engine_await(struct mg_engine *engine, enum mg_stream stream, uint32_t mark, struct mg_error *err)
{
    return engine->backend->await ? engine->backend->await(engine, stream, mark, err) : MG_OK;
}

enum mg_code mg_engine_wait(struct mg_engine *engine, struct mg_error *err)
{
    return engine->backend->wait ? engine->backend->wait(engine, err) : MG_OK;
}

/* Large memory in large pages where there are some: else the processor looks up addresses the longer the larger an
 * arena is, and an operator takes longer in a large plan than in a small one. */
enum mg_code mg_host_alloc(struct mg_engine *engine, enum mg_place place, uint64_t bytes, void **out,
                           struct mg_error *err)
{
    enum { LINE = 64, PAGE = 2 << 20 };
    uint64_t align = bytes < 2 * PAGE ? LINE : PAGE;
    (void)engine;
    (void)place;
    *out = bytes < SIZE_MAX / 2 ? aligned_alloc(align, (bytes + LINE + align - 1) / align * align) : NULL;
    if (*out && align == PAGE)
        (void)madvise(*out, bytes, MADV_HUGEPAGE); /* a wish */
    return *out ? MG_OK : mg_fail(err, MG_ERR_NOMEM, "", "no memory for %llu bytes", (unsigned long long)bytes);
}

void mg_host_free(struct mg_engine *engine, enum mg_place place, void *memory)
{
    (void)engine;
    (void)place;
    free(memory);
}

enum mg_code mg_host_copy(struct mg_engine *engine, enum mg_stream stream, void *to, const void *from, uint64_t bytes,
                          struct mg_error *err)
{
    (void)engine;
    (void)stream;
    (void)err;
    memcpy(to, from, bytes);
    return MG_OK;
}
