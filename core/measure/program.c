#include "measure/program.h"

#include <stdlib.h>
#include <string.h>

#include "device/signature.h"
#include "measure/convert.h"
#include "measure/program_priv.h"

enum { GUARD = 4096, GUARD_BYTE = 0xa5, HOST_ALIGN = 64 };

/* ---- distinct operators ---- */

/* 1 + the operand whose storage the first result takes, 0: none. */
static uint32_t in_place_of(const struct mg_action *action)
{
    const struct mg_located *result = &action->out[0];
    for (uint32_t i = 0; i < action->op->in_count; i++) {
        const struct mg_located *operand = &action->in[i];
        if (operand->offset == result->offset && operand->dtype == result->dtype &&
            mg_shape_equal(&operand->shape, &result->shape) &&
            memcmp(operand->stride, result->stride, result->shape.rank * sizeof *result->stride) == 0)
            return i + 1;
    }
    return 0;
}

static struct mg_hash128 key_of(const struct mg_action *action, struct mg_arena *arena)
{
    const struct mg_op_desc *op = action->op;
    uint32_t values = op->in_count + op->out_count;
    char *text = mg_arena_alloc(arena, mg_signature_bound(op->attrs, op->attr_count, values));
    size_t size = mg_signature_print(op, text);
    struct mg_hash128 hash = mg_hash_bytes(text, size, op->type);
    const uint64_t with_place[3] = {hash.lo, hash.hi, in_place_of(action)};
    hash = mg_hash_words(with_place, 3);
    for (uint32_t i = 0; i < values; i++) {
        const struct mg_located *box = i < op->in_count ? &action->in[i] : &action->out[i - op->in_count];
        for (uint32_t d = 0; d < box->shape.rank; d++) {
            uint64_t words[3] = {hash.lo, hash.hi, box->shape.dim[d] > 1 ? (uint64_t)box->stride[d] : 0};
            hash = mg_hash_words(words, 3);
        }
    }
    return hash;
}

static void grow_slots(struct mg_program *p)
{
    p->slot_count = p->slot_count ? 2 * p->slot_count : 256;
    p->slots = MG_NEW_ARRAY(&p->arena, uint32_t, p->slot_count);
    memset(p->slots, 0xff, p->slot_count * sizeof *p->slots);
    for (uint32_t i = 0; i < p->op_count; i++) {
        size_t at = p->ops[i].key.lo & (p->slot_count - 1);
        while (p->slots[at] != MG_NONE)
            at = (at + 1) & (p->slot_count - 1);
        p->slots[at] = i;
    }
}

static void strides_of(const struct mg_located *boxes, uint32_t count, struct mg_strides *out)
{
    for (uint32_t i = 0; i < count; i++)
        memcpy(out[i].at, boxes[i].stride, sizeof out[i].at);
}

static const char *text_of(struct mg_program *p, const struct mg_op_desc *op)
{
    char *text = mg_arena_alloc(&p->arena, mg_signature_bound(op->attrs, op->attr_count, op->in_count + op->out_count));
    mg_signature_print(op, text);
    return text;
}

static uint64_t bytes_of(const struct mg_op_desc *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->in_count; i++)
        bytes += (uint64_t)mg_shape_elements(&op->in_shape[i]) * mg_dtype_size(op->in_dtype[i]);
    for (uint32_t i = 0; i < op->out_count; i++)
        bytes += (uint64_t)mg_shape_elements(&op->out_shape[i]) * mg_dtype_size(op->out_dtype[i]);
    return bytes;
}

static enum mg_code distinct_op(struct mg_program *p, const struct mg_action *action, uint32_t *out,
                                struct mg_error *err)
{
    struct mg_hash128 key = key_of(action, &p->scratch);
    if (p->slot_count < 2 * (p->op_count + 1))
        grow_slots(p);
    size_t at = key.lo & (p->slot_count - 1);
    for (; p->slots[at] != MG_NONE; at = (at + 1) & (p->slot_count - 1)) {
        *out = p->slots[at];
        if (p->ops[*out].key.lo == key.lo && p->ops[*out].key.hi == key.hi)
            return MG_OK;
    }
    struct mg_strides *in = MG_NEW_ARRAY(&p->scratch, struct mg_strides, action->op->in_count);
    struct mg_strides *results = MG_NEW_ARRAY(&p->scratch, struct mg_strides, action->op->out_count);
    strides_of(action->in, action->op->in_count, in);
    strides_of(action->out, action->op->out_count, results);
    struct mg_prepared *prepared;
    enum mg_code code = mg_engine_prepare(p->engine, action->op, in, results, &prepared, err);
    if (code)
        return code;
    *out = p->slots[at] = (uint32_t)p->op_count;
    struct distinct *made = MG_PUSH(&p->arena, p->ops, p->op_count, p->op_capacity);
    *made = (struct distinct){.key = key, .prepared = prepared};
    made->in_place = in_place_of(action);
    made->bytes = bytes_of(action->op);
    made->text = text_of(p, action->op);
    return MG_OK;
}

/* ---- recording ---- */

static uint32_t add_addresses(struct mg_program *p, const struct mg_located *boxes, uint32_t count)
{
    uint32_t first = (uint32_t)p->address_count;
    for (uint32_t i = 0; i < count; i++)
        *MG_PUSH(&p->arena, p->address, p->address_count, p->address_capacity) = boxes[i].offset;
    return first;
}

static enum mg_code record_run(struct mg_program *p, const struct mg_action *action, struct mg_error *err)
{
    uint32_t op;
    enum mg_code code = distinct_op(p, action, &op, err);
    if (code)
        return code;
    struct instruction *item = mg_program_add(p, KIND_RUN, action);
    item->op = op;
    p->ops[op].uses++;
    item->origin = action->origin;
    item->in = add_addresses(p, action->in, action->op->in_count);
    item->out = add_addresses(p, action->out, action->op->out_count);
    p->facts.actions++;
    return MG_OK;
}

/* Of the last instruction. */
static uint32_t distinct_copy(struct mg_program *p, enum kind kind, uint64_t bytes)
{
    const uint64_t words[2] = {kind, bytes};
    const struct mg_hash128 key = mg_hash_words(words, 2);
    for (size_t i = 0; i < p->copy_count; i++)
        if (p->copies[i].key.lo == key.lo && p->copies[i].key.hi == key.hi)
            return (uint32_t)i;
    struct distinct *made = MG_PUSH(&p->arena, p->copies, p->copy_count, p->copy_capacity);
    *made = (struct distinct){.key = key, .first = (uint32_t)p->count - 1};
    made->text = mg_arena_printf(&p->arena, "%llu bytes", (unsigned long long)bytes);
    return (uint32_t)p->copy_count - 1;
}

static void record_copy(struct mg_program *p, const struct mg_action *action)
{
    bool store = action->kind == MG_ACTION_STORE;
    struct instruction *item = mg_program_add(p, store ? KIND_STORE : KIND_LOAD, action);
    item->op = distinct_copy(p, item->kind, action->bytes);
    p->copies[item->op].uses++;
    item->copy = action->copy;
    item->at = store ? action->in[0].offset : action->out[0].offset;
    item->bytes = action->bytes;
    if (store && !p->host_bytes[action->copy])
        p->facts.host_bytes += action->bytes;
    if (store && action->bytes > p->host_bytes[action->copy])
        p->host_bytes[action->copy] = action->bytes;
    p->facts.actions++;
}

static struct storage *find_storage(const struct mg_program *p, const struct mg_action *action)
{
    for (size_t i = 0; i < p->alive_count; i++)
        if (p->alive[i].at == action->out->offset && p->alive[i].bytes == action->bytes)
            return &p->alive[i];
    return NULL;
}

/* A result that takes the storage of an operand allocates nothing. */
static void record_allocation(struct mg_program *p, const struct mg_action *action)
{
    uint64_t end = action->out->offset + action->bytes;
    if (find_storage(p, action))
        return;
    *MG_PUSH(&p->arena, p->alive, p->alive_count, p->alive_capacity) =
        (struct storage){action->out->offset, action->bytes};
    p->alive_bytes += action->bytes;
    p->facts.peak_bytes = p->alive_bytes > p->facts.peak_bytes ? p->alive_bytes : p->facts.peak_bytes;
    p->facts.arena_bytes = end > p->facts.arena_bytes ? end : p->facts.arena_bytes;
}

static void record_free(struct mg_program *p, const struct mg_action *action)
{
    struct storage *storage = find_storage(p, action);
    if (!storage)
        return;
    mg_program_order_free(p, storage);
    *storage = p->alive[--p->alive_count];
    p->alive_bytes -= action->bytes;
}

static struct mg_located dense_of(const struct mg_program *p, mg_value value)
{
    const struct mg_value_info *info = &p->original->values[value];
    struct mg_located place = {.dtype = info->dtype, .shape = info->shape};
    mg_shape_strides(&info->shape, place.stride);
    return place;
}

static void record_given(struct mg_program *p, const struct mg_action *action)
{
    struct given *given = MG_PUSH(&p->arena, p->given, p->given_count, p->given_capacity);
    *given = (struct given){.value = action->value, .copy = action->copy, .on_host = !action->out};
    if (action->out)
        given->place = *action->out;
    else {
        given->place = dense_of(p, action->value);
        p->host_bytes[action->copy] = action->bytes;
    }
}

static void record_result(struct mg_program *p, const struct mg_action *action)
{
    struct given *result = MG_PUSH(&p->arena, p->results, p->result_count, p->result_capacity);
    *result = (struct given){.value = action->value, .copy = action->copy, .on_host = !action->in};
    result->place = action->in ? *action->in : dense_of(p, action->value);
}

static enum mg_code record(void *context, const struct mg_action *action, struct mg_error *err)
{
    struct mg_program *p = context;
    switch (action->kind) {
    case MG_ACTION_GIVEN:
        record_given(p, action);
        return MG_OK;
    case MG_ACTION_ALLOCATE:
        record_allocation(p, action);
        return MG_OK;
    case MG_ACTION_COMPUTE:
        return record_run(p, action, err);
    case MG_ACTION_STORE:
    case MG_ACTION_LOAD:
        record_copy(p, action);
        return MG_OK;
    case MG_ACTION_FREE:
        record_free(p, action);
        return MG_OK;
    case MG_ACTION_RESULT:
        record_result(p, action);
        return MG_OK;
    }
    return mg_action_refuse(action, err, "an action that nobody knows");
}

/* ---- memory ---- */

static uint64_t host_room(uint64_t bytes)
{
    return (bytes + HOST_ALIGN - 1) / HOST_ALIGN * HOST_ALIGN;
}

static enum mg_code set_guards(struct mg_program *p, struct mg_error *err)
{
    char guard[GUARD];
    memset(guard, GUARD_BYTE, sizeof guard);
    enum mg_code code = mg_engine_copy(p->engine, MG_STREAM_LOAD, p->memory, guard, GUARD, err);
    if (!code)
        code = mg_engine_copy(p->engine, MG_STREAM_LOAD, p->memory + GUARD + p->arena_bytes, guard, GUARD, err);
    return code ? code : mg_engine_wait(p->engine, err);
}

enum mg_code mg_program_check_guards(struct mg_program *p, struct mg_error *err)
{
    unsigned char guard[2 * GUARD];
    enum mg_code code = mg_engine_copy(p->engine, MG_STREAM_STORE, guard, p->memory, GUARD, err);
    if (!code)
        code =
            mg_engine_copy(p->engine, MG_STREAM_STORE, guard + GUARD, p->memory + GUARD + p->arena_bytes, GUARD, err);
    if (!code)
        code = mg_engine_wait(p->engine, err);
    for (size_t i = 0; i < sizeof guard && !code; i++)
        if (guard[i] != GUARD_BYTE)
            return mg_fail(err, MG_ERR_REJECTED, "", "the plan writes outside of its arena");
    return code;
}

/* All copies on the host lie in one block. */
static enum mg_code place_host(struct mg_program *p, struct mg_error *err)
{
    uint64_t bytes = 0;
    for (size_t v = 0; v < p->host_count; v++)
        bytes += host_room(p->host_bytes[v]);
    enum mg_code code = bytes ? mg_engine_alloc(p->engine, MG_PLACE_HOST, bytes, &p->host_memory, err) : MG_OK;
    char *at = p->host_memory;
    for (size_t v = 0; v < p->host_count && !code; v++) {
        p->host[v] = p->host_bytes[v] ? at : NULL;
        at += host_room(p->host_bytes[v]);
    }
    return code;
}

static enum mg_code make_memory(struct mg_program *p, struct mg_error *err)
{
    enum mg_code code = mg_pool_hold(p->engine, p->arena_bytes + 2 * GUARD, err);
    p->holds_pool = code == MG_OK;
    return code ? code : place_host(p, err);
}

uint64_t mg_program_base(const struct mg_program *p)
{
    return p->memory ? (uint64_t)(uintptr_t)p->memory + GUARD : 0;
}

/* The arena's next place. What lay in the last one is lost. */
static enum mg_code move(struct mg_program *p, struct mg_error *err)
{
    void *memory;
    uint64_t before = mg_program_base(p);
    enum mg_code code = mg_pool_take(p->engine, p->arena_bytes + 2 * GUARD, &memory, err);
    if (code)
        return code;
    p->memory = memory;
    for (size_t i = 0; i < p->address_count; i++)
        p->address[i] += mg_program_base(p) - before;
    code = set_guards(p, err);
    if (!code)
        p->turn = p->engine->pool_turn;
    return code;
}

enum mg_code mg_program_be_placed(struct mg_program *p, struct mg_error *err)
{
    p->ran = false;
    return p->memory && p->turn == p->engine->pool_turn ? MG_OK : move(p, err);
}

struct building {
    struct mg_program *program;
    const struct mg_graph *original;
    const struct mg_plan *plan;
    uint64_t seed;
};

/* The walk rewinds its arena after each step. */
static enum mg_code walk(void *context, struct mg_error *err)
{
    struct building *b = context;
    struct mg_plan_visitor visitor = {b->program, record};
    return mg_exec_walk(b->original, b->plan, b->seed, &visitor, &b->program->scratch, err);
}

static enum mg_code build(void *context, struct mg_error *err)
{
    struct building *b = context;
    struct mg_program *p = b->program;
    struct mg_arena *arena = &p->arena;
    p->original = b->original;
    p->host_count = mg_plan_graph(b->original, b->plan)->value_count;
    p->host = MG_NEW_ARRAY(arena, void *, p->host_count);
    p->host_bytes = MG_NEW_ARRAY(arena, uint64_t, p->host_count);
    p->arena_bytes = b->plan->figures.arena_bytes;
    p->value_count = b->original->value_count;
    mg_program_begin_order(p);
    enum mg_code code = mg_arena_guard(&p->scratch, walk, b, err);
    mg_program_end_order(p);
    mg_arena_release(&p->scratch);
    p->original = NULL;
    p->facts.operators = (uint32_t)p->op_count;
    return code ? code : make_memory(p, err);
}

enum mg_code mg_program_build(struct mg_engine *engine, const struct mg_graph *original, const struct mg_plan *plan,
                              uint64_t seed, struct mg_program **out, struct mg_error *err)
{
    struct mg_program *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    p->engine = engine;
    mg_arena_init(&p->arena, SIZE_MAX);
    mg_arena_init(&p->scratch, SIZE_MAX);
    struct building b = {p, original, plan, seed};
    enum mg_code code = mg_arena_guard(&p->arena, build, &b, err);
    if (code) {
        mg_program_free(p);
        return code;
    }
    *out = p;
    return MG_OK;
}

void mg_program_free(struct mg_program *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->op_count; i++)
        mg_prepared_free(p->ops[i].prepared);
    mg_engine_free(p->engine, MG_PLACE_HOST, p->host_memory);
    if (p->holds_pool)
        mg_pool_let_go(p->engine);
    mg_arena_release(&p->scratch);
    mg_arena_release(&p->arena);
    free(p);
}

/* ---- numbers in and out ---- */

/* Both through a dense buffer on the host. */
static enum mg_code upload(struct mg_program *p, const struct given *given, const double *numbers, struct mg_error *err)
{
    int64_t count = mg_shape_elements(&given->place.shape);
    uint64_t bytes = (uint64_t)count * mg_dtype_size(given->place.dtype);
    void *buffer;
    enum mg_code code = mg_engine_alloc(p->engine, MG_PLACE_HOST, bytes, &buffer, err);
    if (code)
        return code;
    mg_convert_from_doubles(buffer, given->place.dtype, numbers, count);
    code = mg_engine_copy(p->engine, MG_STREAM_LOAD, p->memory + GUARD + given->place.offset, buffer, bytes, err);
    if (!code)
        code = mg_engine_wait(p->engine, err);
    mg_engine_free(p->engine, MG_PLACE_HOST, buffer);
    return code;
}

enum mg_code mg_program_load(struct mg_program *p, double *const *given, struct mg_error *err)
{
    p->ran = false;
    enum mg_code code = move(p, err);
    for (size_t i = 0; i < p->given_count && !code; i++) {
        const struct given *item = &p->given[i];
        if (item->on_host)
            mg_convert_from_doubles(p->host[item->copy], item->place.dtype, given[item->value],
                                    (int64_t)(p->host_bytes[item->copy] / mg_dtype_size(item->place.dtype)));
        else
            code = upload(p, item, given[item->value], err);
    }
    return code;
}

static enum mg_code download(struct mg_program *p, const struct given *result, double *numbers, struct mg_error *err)
{
    /* everything between the first and the last element of the box */
    const struct mg_located *place = &result->place;
    uint64_t last = 0, size = mg_dtype_size(place->dtype);
    for (uint32_t d = 0; d < place->shape.rank; d++)
        last += (uint64_t)((place->shape.dim[d] - 1) * place->stride[d]);
    void *buffer = result->on_host ? p->host[result->copy] : NULL;
    enum mg_code code = MG_OK;
    if (!result->on_host) {
        code = mg_engine_alloc(p->engine, MG_PLACE_HOST, (last + 1) * size, &buffer, err);
        if (!code)
            code = mg_engine_copy(p->engine, MG_STREAM_STORE, buffer, p->memory + GUARD + place->offset,
                                  (last + 1) * size, err);
        if (!code)
            code = mg_engine_wait(p->engine, err);
    }
    if (!code)
        mg_convert_to_doubles(numbers, buffer, place->dtype, &place->shape, place->stride);
    if (!result->on_host)
        mg_engine_free(p->engine, MG_PLACE_HOST, buffer);
    return code;
}

enum mg_code mg_program_results(struct mg_program *p, double **results, struct mg_arena *arena, struct mg_error *err)
{
    enum mg_code code = MG_OK;
    if (!p->ran || p->turn != p->engine->pool_turn)
        return mg_fail(err, MG_ERR_INVALID, "", "the plan was not executed, or others have used its memory since");
    for (size_t v = 0; v < p->value_count; v++)
        results[v] = NULL;
    for (size_t i = 0; i < p->result_count && !code; i++) {
        int64_t count = mg_shape_elements(&p->results[i].place.shape);
        double *numbers = MG_NEW_ARRAY(arena, double, count);
        results[p->results[i].value] = numbers;
        code = count ? download(p, &p->results[i], numbers, err) : MG_OK;
    }
    return code;
}

/* ---- running ---- */

void mg_program_stop_when(struct mg_program *p, bool (*stop)(void *context), void *context)
{
    p->stop = stop;
    p->stop_context = context;
}

enum mg_code mg_program_go_on(const struct mg_program *p, struct mg_error *err)
{
    bool stop = p->stop && p->stop(p->stop_context);
    return stop ? mg_fail(err, MG_ERR_CANCELLED, "", "stopped while the plan was executed") : MG_OK;
}

static enum mg_code begin_one(struct mg_program *p, const struct instruction *item, struct mg_error *err)
{
    void *at = p->memory + GUARD + item->at;
    switch (item->kind) {
    case KIND_RUN:
        return mg_prepared_run(p->ops[item->op].prepared, (const void *const *)(void *)(p->address + item->in),
                               (void *const *)(void *)(p->address + item->out), &item->origin, err);
    case KIND_STORE:
        return mg_engine_copy(p->engine, MG_STREAM_STORE, p->host[item->copy], at, item->bytes, err);
    case KIND_LOAD:
        return mg_engine_copy(p->engine, MG_STREAM_LOAD, at, p->host[item->copy], item->bytes, err);
    case KIND_WAIT:
        break;
    }
    return mg_engine_await(p->engine, item->stream, item->mark, err);
}

enum mg_code mg_program_run_one(struct mg_program *p, const struct instruction *item, struct mg_error *err)
{
    enum mg_code code = begin_one(p, item, err);
    if (item->kind == KIND_WAIT || item->mark == MG_NONE || code)
        return code;
    return mg_engine_mark(p->engine, item->stream, item->mark, err);
}

/* To ask whether to go on takes as long as a short operator: it is asked when so many bytes were touched, or after some
 * instructions. */
enum { LOOK_BYTES = 1 << 20, LOOK_INSTRUCTIONS = 64 };

static uint64_t weight_of(const struct mg_program *p, const struct instruction *item)
{
    return LOOK_BYTES / LOOK_INSTRUCTIONS + (item->kind == KIND_RUN ? p->ops[item->op].bytes : item->bytes);
}

enum mg_code mg_program_run(struct mg_program *p, double *seconds, struct mg_error *err)
{
    enum mg_code code = mg_program_be_placed(p, err);
    code = code ? code : mg_engine_wait(p->engine, err);
    uint64_t since_look = LOOK_BYTES;
    double begin = mg_engine_clock(p->engine);
    for (size_t i = 0; i < p->count && !code; i++) {
        if (since_look >= LOOK_BYTES) {
            code = mg_program_go_on(p, err);
            since_look = 0;
        }
        since_look += weight_of(p, &p->items[i]);
        if (!code)
            code = mg_program_run_one(p, &p->items[i], err);
    }
    struct mg_error ignored; /* what was begun is waited for in any case */
    enum mg_code end = mg_engine_wait(p->engine, code ? &ignored : err);
    code = code ? code : end;
    *seconds = mg_engine_clock(p->engine) - begin;
    code = code ? code : mg_program_check_guards(p, err);
    p->ran = code == MG_OK;
    return code;
}

void mg_program_facts(const struct mg_program *p, struct mg_program_facts *out)
{
    *out = p->facts;
}
