/* Timing an operator: operands of random numbers, warm-up, repeats, robust statistics. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure/measure_priv.h"
#include "measure/operands.h"
#include "measure/rows.h"

const struct mg_time_policy mg_time_policy_default = {
    .warm_up = 2, .repeats = 15, .seconds = 0.5, .apart = MG_WHOLE_CACHE, .made = true};

enum { MOST_INNER = 64, MOST_FITS = 64, ALIGN = 512, STAGGER = 1536, BLOCK_BYTES = 1 << 18 };
static const double SHORTEST_SAMPLE = 2e-5;

double mg_measure_clock(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double mg_engine_clock(const struct mg_engine *engine)
{
    return engine->backend->now ? engine->backend->now() : mg_measure_clock();
}

/* ---- statistics ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(const double *sorted, uint32_t count)
{
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

void mg_timing_of(double *samples, uint32_t count, struct mg_timing *out)
{
    *out = (struct mg_timing){.n = count};
    if (count == 0)
        return;
    qsort(samples, count, sizeof *samples, ascending);
    out->median_s = middle(samples, count);
    out->min_s = samples[0];
    for (uint32_t i = 0; i < count; i++)
        samples[i] = fabs(samples[i] - out->median_s);
    qsort(samples, count, sizeof *samples, ascending);
    out->mad_s = middle(samples, count);
}

/* ---- operands ---- */

/* Several sets of the same operands take turns, so many that between two turns of a set as many bytes are touched as
 * the policy says. Boxes whose rows leave gaps lie in one another's, as many as fit: a group of sets has memory for
 * each operand as often as its boxes need it, and what is not strided is there once for each set. With those that fill
 * the device's last cache operands have left it when the set's turn comes, or at least its nearer levels, as in a plan
 * those have that were made long ago; code and scratch memory stay warm, as they do there. Where the first operand has
 * just been made, all sets share it. */
struct operand {
    struct mg_rows rows;
    uint64_t fits;            /* sets that have their boxes in one room */
    uint64_t at, bytes, room; /* from the begin of a group to its first room; of a room, and from one to the next */
    enum mg_dtype dtype;
    bool result;
};
struct trial {
    struct mg_prepared *prepared;
    const struct mg_time_policy *policy;
    struct mg_timing *timing;
    struct mg_arena arena;
    struct operand *operands; /* then results */
    uint32_t count;
    uint64_t held;               /* bytes of the lines that a set touches */
    uint64_t group, group_bytes; /* sets of a group */
    char *memory;                /* of all groups */
    void **address;              /* of the set whose turn it is */
    uint64_t sets, turn;         /* turn: the set that is next */
    uint32_t inner;              /* runs for one sample */
    double clock_s;              /* what reading the clock takes: short samples would hold it */
};

double mg_engine_clock_cost(const struct mg_engine *engine)
{
    double least = INFINITY;
    for (int i = 0; i < 16; i++) {
        double begin = mg_engine_clock(engine), cost = mg_engine_clock(engine) - begin;
        least = cost < least ? cost : least;
    }
    return least;
}

double mg_timing_sample(double taken, double clock_s, uint32_t runs)
{
    return (taken > 2 * clock_s ? taken - clock_s : taken / 2) / runs;
}

/* A short one runs some times over for one sample, so that reading the clock does not count: that takes longer than
 * many operators, and what they find in the cache of addresses (TLB) is lost with it. */
uint32_t mg_timing_runs(double seconds)
{
    double wanted = ceil(SHORTEST_SAMPLE / (seconds > 0 ? seconds : SHORTEST_SAMPLE / MOST_INNER));
    return wanted < 1 ? 1 : wanted > MOST_INNER ? MOST_INNER : (uint32_t)wanted;
}

static uint64_t room_for(uint64_t bytes)
{
    return (bytes + STAGGER + ALIGN - 1) / ALIGN * ALIGN;
}

/* At least its share of a room: of what is tiny there would be millions of sets, and where few boxes fit into the gaps
 * of one another memory for as many as fill a cache would be many times that. */
static uint64_t held_of(const struct operand *operand)
{
    uint64_t share = room_for(operand->rows.span) / operand->fits;
    return operand->rows.held > share ? operand->rows.held : share;
}

static void describe(struct trial *t, uint32_t i, const struct mg_shape *shape, const struct mg_strides *strides,
                     enum mg_dtype dtype, bool result)
{
    struct operand *operand = &t->operands[i];
    operand->rows = mg_rows_of(shape, strides->at, mg_dtype_size(dtype));
    operand->dtype = dtype;
    operand->result = result;
    operand->fits = result || mg_operand_is_anywhere(&t->prepared->op, i) ? mg_rows_fit(&operand->rows) : 1;
    operand->fits = operand->fits < MOST_FITS ? operand->fits : MOST_FITS;
    t->held += held_of(operand);
}

static void describe_all(struct trial *t)
{
    const struct mg_op_desc *op = &t->prepared->op;
    t->count = op->in_count + op->out_count;
    t->operands = MG_NEW_ARRAY(&t->arena, struct operand, t->count);
    for (uint32_t i = 0; i < op->in_count; i++)
        describe(t, i, &op->in_shape[i], &t->prepared->in[i], op->in_dtype[i], false);
    if (t->policy->in_place)
        t->operands[op->in_count] = (struct operand){.fits = 1, .result = true}; /* without bytes of its own */
    for (uint32_t i = t->policy->in_place ? 1 : 0; i < op->out_count; i++)
        describe(t, op->in_count + i, &op->out_shape[i], &t->prepared->out[i], op->out_dtype[i], true);
}

static uint64_t sets_wanted(const struct trial *t)
{
    uint64_t cache = t->prepared->engine->properties.cache_bytes, apart = t->policy->apart;
    apart = apart == MG_WHOLE_CACHE ? cache : apart;
    return apart && t->held ? (apart + t->held - 1) / t->held + t->policy->made : 1;
}

/* As many sets as have place in the gaps of the one that has most, or less, so that all groups have about as many. */
static uint64_t sets_of_group(const struct trial *t)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < t->count; i++)
        most = t->operands[i].fits > most ? t->operands[i].fits : most;
    uint64_t groups = (t->sets + most - 1) / most;
    return (t->sets + groups - 1) / groups;
}

static uint64_t rooms_of(const struct trial *t, const struct operand *operand)
{
    return (t->group + operand->fits - 1) / operand->fits;
}

/* One behind the other, but not all at the same place of their pages: processors take a load there for one of a store
 * just made, and wait. */
static void lay_out(struct trial *t)
{
    t->sets = sets_wanted(t);
    t->group = sets_of_group(t);
    for (uint32_t i = 0; i < t->count; i++) {
        struct operand *operand = &t->operands[i];
        uint64_t used = operand->fits < t->group ? operand->fits : t->group;
        operand->at = t->group_bytes;
        if (operand->rows.count == 0)
            continue;
        operand->bytes = operand->rows.span + (used - 1) * operand->rows.pitch;
        operand->room = room_for(operand->bytes);
        t->group_bytes += rooms_of(t, operand) * operand->room;
    }
}

/* A block from the host; on the device it is copied behind itself, twice as much each time: making random numbers would
 * take longer than what is timed. */
static enum mg_code fill_operand(const struct trial *t, uint32_t i, void *block, struct mg_error *err)
{
    const struct operand *operand = &t->operands[i];
    const struct mg_prepared *p = t->prepared;
    struct mg_engine *engine = p->engine;
    char *to = t->memory + operand->at;
    uint64_t done = operand->bytes < BLOCK_BYTES ? operand->bytes : BLOCK_BYTES, size = mg_dtype_size(operand->dtype);
    if (operand->result)
        memset(block, 0, done);
    else
        done = mg_operand_fill(&p->op, i, &p->in[i], block, done / size) * size;
    enum mg_code code = mg_engine_copy(engine, MG_STREAM_LOAD, to, block, done, err);
    code = code ? code : mg_engine_wait(engine, err);
    for (uint64_t more; done < operand->bytes && code == MG_OK; done += more) {
        more = done < operand->bytes - done ? done : operand->bytes - done;
        code = mg_engine_copy(engine, MG_STREAM_COMPUTE, to + done, to, more, err);
    }
    for (uint64_t k = 1; operand->room && k < rooms_of(t, operand) && code == MG_OK; k++)
        code = mg_engine_copy(engine, MG_STREAM_COMPUTE, to + k * operand->room, to, operand->bytes, err);
    return code ? code : mg_engine_wait(engine, err);
}

static enum mg_code fill_group(const struct trial *t, struct mg_error *err)
{
    struct mg_engine *engine = t->prepared->engine;
    void *block;
    enum mg_code code = mg_engine_alloc(engine, MG_PLACE_HOST, BLOCK_BYTES, &block, err);
    if (code != MG_OK)
        return code;
    for (uint32_t i = 0; i < t->count && code == MG_OK; i++)
        code = fill_operand(t, i, block, err);
    mg_engine_free(engine, MG_PLACE_HOST, block);
    return code;
}

static uint64_t groups_of(const struct trial *t)
{
    return (t->sets + t->group - 1) / t->group;
}

/* The first group, copied, then both, and so on: there may be thousands. Once a block is full all others are copies of
 * it, one after the other: so the first of these, whose turn is the first, was touched as long ago as any will be. Of a
 * single group it is the second set: the first one's rooms were read for all others. */
static enum mg_code fill_groups(struct trial *t, struct mg_error *err)
{
    struct mg_engine *engine = t->prepared->engine;
    uint64_t bytes = t->group_bytes, groups = groups_of(t),
             block = bytes && bytes < BLOCK_BYTES ? BLOCK_BYTES / bytes : 1;
    t->turn = block < groups ? block * t->group : t->sets > 1;
    if (engine->backend->only_times)
        return MG_OK;
    enum mg_code code = fill_group(t, err);
    for (uint64_t done = 1, more; done < groups && code == MG_OK; done += more) {
        more = done < block ? done : block;
        more = more < groups - done ? more : groups - done;
        code = mg_engine_copy(engine, MG_STREAM_COMPUTE, t->memory + done * bytes, t->memory, more * bytes, err);
    }
    return code ? code : mg_engine_wait(engine, err);
}

/* With fewer sets than are wanted the time would be another: too little memory for them is an error. */
static enum mg_code make_operands(struct trial *t, struct mg_error *err)
{
    describe_all(t);
    lay_out(t);
    t->address = MG_NEW_ARRAY(&t->arena, void *, t->count);
    void *memory;
    enum mg_code code = mg_pool_take(t->prepared->engine, groups_of(t) * t->group_bytes, &memory, err);
    if (code != MG_OK)
        return code;
    t->memory = memory;
    t->clock_s = mg_engine_clock_cost(t->prepared->engine);
    return fill_groups(t, err);
}

static char *place_of(const struct trial *t, const struct operand *operand, uint64_t set)
{
    uint64_t in_group = set % t->group;
    return t->memory + set / t->group * t->group_bytes + operand->at + in_group / operand->fits * operand->room +
           in_group % operand->fits * operand->rows.pitch;
}

static void next_set(struct trial *t)
{
    uint64_t set = t->turn++ % t->sets;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct operand *operand = &t->operands[i];
        t->address[i] = place_of(t, operand, i == 0 && t->policy->made && !operand->result ? 0 : set);
    }
    if (t->policy->in_place)
        t->address[t->prepared->op.in_count] = t->address[t->policy->in_place - 1];
}

/* ---- runs ---- */

static enum mg_code run_once(struct trial *t, double *seconds, struct mg_error *err)
{
    struct mg_prepared *p = t->prepared;
    const void *const *in = (const void *const *)t->address;
    void *const *out = t->address + p->op.in_count;
    enum mg_code code = MG_OK;
    next_set(t);
    if (p->engine->backend->time_run)
        return p->engine->backend->time_run(p, in, out, seconds, err);
    double begin = mg_engine_clock(p->engine);
    for (uint32_t i = 0; i < t->inner && code == MG_OK; i++) {
        if (i > 0 && t->sets > 1)
            next_set(t);
        code = mg_prepared_run(p, in, out, NULL, err);
    }
    if (code == MG_OK)
        code = mg_engine_wait(p->engine, err);
    double taken = mg_engine_clock(p->engine) - begin;
    *seconds = mg_timing_sample(taken, t->clock_s, t->inner);
    return code;
}

static enum mg_code repeat(struct trial *t, struct mg_error *err)
{
    const struct mg_time_policy *policy = t->policy;
    uint32_t wanted = policy->repeats ? policy->repeats : 1, n = 0;
    double *samples = MG_NEW_ARRAY(&t->arena, double, wanted), begin = mg_measure_clock();
    enum mg_code code = MG_OK;
    for (uint32_t i = 0; i < policy->warm_up && code == MG_OK; i++)
        code = run_once(t, &samples[0], err);
    if (policy->warm_up)
        t->inner = mg_timing_runs(samples[0]);
    while (n < wanted && code == MG_OK) {
        code = run_once(t, &samples[n++], err);
        if (n >= 3 && policy->seconds > 0 && mg_measure_clock() - begin > policy->seconds)
            break;
    }
    if (code == MG_OK)
        mg_timing_of(samples, n, t->timing);
    t->timing->workspace_bytes = t->prepared->workspace;
    struct mg_engine *engine = t->prepared->engine;
    if (code == MG_OK && engine->backend->state)
        engine->backend->state(engine, &t->timing->clock_mhz, &t->timing->throttled);
    return code;
}

static enum mg_code try_it(void *context, struct mg_error *err)
{
    struct trial *t = context;
    enum mg_code code = make_operands(t, err);
    return code == MG_OK ? repeat(t, err) : code;
}

enum mg_code mg_prepared_time(struct mg_prepared *prepared, const struct mg_time_policy *policy, struct mg_timing *out,
                              struct mg_error *err)
{
    struct trial t = {.prepared = prepared, .policy = policy, .timing = out, .inner = 1};
    *out = (struct mg_timing){0};
    if (prepared->unmeasurable)
        return mg_prepared_refuse(prepared, err, prepared->unmeasurable);
    mg_arena_init(&t.arena, SIZE_MAX);
    enum mg_code code = mg_arena_guard(&t.arena, try_it, &t, err);
    mg_pool_trim(prepared->engine);
    mg_arena_release(&t.arena);
    return code;
}

enum mg_code mg_engine_time_op(struct mg_engine *engine, const struct mg_op_desc *op, const struct mg_strides *in,
                               const struct mg_strides *out, const struct mg_time_policy *policy,
                               struct mg_timing *timing, struct mg_error *err)
{
    struct mg_prepared *prepared;
    enum mg_code code = mg_engine_prepare(engine, op, in, out, &prepared, err);
    if (code == MG_OK)
        code = mg_prepared_time(prepared, policy, timing, err);
    mg_prepared_free(prepared);
    return code;
}
