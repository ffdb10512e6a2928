/* What a program takes: by its operators and copies, each timed alone, and in its course. */
#include <math.h>
#include <stdlib.h>

#include "measure/program_priv.h"

/* ---- prices: open addressing by key, one for each distance of reuse ---- */

enum { MOST_TIMES = 31 };
struct price {
    struct mg_hash128 key;
    double seconds[MOST_TIMES], median; /* seconds: sorted */
    uint32_t times;
    bool used;
};
struct mg_program_prices {
    struct mg_arena arena;
    struct price *slots;
    size_t count, capacity;
    struct mg_engine *engine;
    char *flush; /* device memory, twice what its cache holds: copies leave through it; NULL until it is needed */
};

struct mg_program_prices *mg_program_prices_new(struct mg_engine *engine)
{
    struct mg_program_prices *prices = calloc(1, sizeof *prices);
    if (!prices)
        return NULL;
    prices->engine = engine;
    mg_arena_init(&prices->arena, SIZE_MAX);
    return prices;
}

void mg_program_prices_free(struct mg_program_prices *prices)
{
    if (!prices)
        return;
    mg_engine_free(prices->engine, MG_PLACE_DEVICE, prices->flush);
    mg_arena_release(&prices->arena);
    free(prices);
}

/* The place of the key, taken or free. */
static struct price *slot_of(struct price *slots, size_t capacity, struct mg_hash128 key)
{
    size_t at = (size_t)key.lo & (capacity - 1);
    while (slots[at].used && (slots[at].key.lo != key.lo || slots[at].key.hi != key.hi))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static struct mg_hash128 key_at(const struct distinct *part, enum reuse reuse)
{
    uint64_t words[3] = {part->key.lo, part->key.hi, (uint64_t)reuse};
    return reuse == REUSE_OWN ? part->key : mg_hash_words(words, 3);
}

/* Each byte that it moves takes its share of the time that all would take from as far back; where a time is missing,
 * as those whose times are there. */
static double price_of(const struct mg_program_prices *prices, const struct mg_program *p,
                       const struct instruction *item)
{
    const struct distinct *part = item->kind == KIND_RUN ? &p->ops[item->op] : &p->copies[item->op];
    double seconds = 0, priced = 0;
    for (int r = 0; r < REUSES && prices->capacity; r++) {
        const struct price *price = slot_of(prices->slots, prices->capacity, key_at(part, (enum reuse)r));
        if (!price->used || !price->times)
            continue;
        seconds += (double)item->reuse[r] * price->median;
        priced += (double)item->reuse[r];
    }
    return priced > 0 ? seconds / priced : 0;
}

static struct price *make_price(struct mg_program_prices *prices, struct mg_hash128 key)
{
    if (2 * (prices->count + 1) > prices->capacity) {
        size_t capacity = prices->capacity ? 2 * prices->capacity : 256;
        struct price *larger = MG_NEW_ARRAY(&prices->arena, struct price, capacity);
        for (size_t i = 0; i < prices->capacity; i++)
            if (prices->slots[i].used)
                *slot_of(larger, capacity, prices->slots[i].key) = prices->slots[i];
        prices->slots = larger;
        prices->capacity = capacity;
    }
    struct price *price = slot_of(prices->slots, prices->capacity, key);
    prices->count += !price->used;
    price->used = true;
    price->key = key;
    return price;
}

static void add_time(struct price *price, double seconds)
{
    uint32_t at = price->times++;
    for (; at > 0 && price->seconds[at - 1] > seconds; at--)
        price->seconds[at] = price->seconds[at - 1];
    price->seconds[at] = seconds;
    uint32_t n = price->times;
    price->median = n % 2 ? price->seconds[n / 2] : (price->seconds[n / 2 - 1] + price->seconds[n / 2]) / 2;
}

/* ---- timing alone ---- */

struct pricing {
    struct mg_program *program;
    struct mg_program_prices *prices;
    uint32_t times;
    const struct mg_time_policy *policy;
    double until;
};

/* So many bytes of the flushing memory are touched, by copying one half of it onto the other. */
static enum mg_code touch_others(struct mg_program_prices *prices, uint64_t bytes, struct mg_error *err)
{
    struct mg_engine *engine = prices->engine;
    uint64_t half = engine->properties.cache_bytes;
    enum mg_code code = MG_OK;
    void *memory = prices->flush;
    if (!memory && half)
        code = mg_engine_alloc(engine, MG_PLACE_DEVICE, 2 * half, &memory, err);
    if (code != MG_OK || !memory)
        return code;
    prices->flush = memory;
    code = mg_engine_copy(engine, MG_STREAM_COMPUTE, prices->flush + half, prices->flush, bytes / 2, err);
    return code ? code : mg_engine_wait(engine, err);
}

static enum mg_code sample_copy(struct mg_program *p, const struct instruction *item, uint32_t runs, double clock_s,
                                double *seconds, struct mg_error *err)
{
    enum mg_code code = MG_OK;
    double begin = mg_engine_clock(p->engine);
    for (uint32_t i = 0; i < runs && !code; i++)
        code = mg_program_run_one(p, item, err);
    code = code ? code : mg_engine_wait(p->engine, err);
    *seconds = mg_timing_sample(mg_engine_clock(p->engine) - begin, clock_s, runs);
    return code;
}

/* By making the same copy, at first once for nothing: what it touches was touched just before, and a short one is made
 * some times over. With streams of their own all of the cache is touched between copies, whatever they are. */
static enum mg_code time_copy(const struct pricing *job, const struct instruction *item, uint64_t apart,
                              double *seconds, struct mg_error *err)
{
    enum { MOST = 15 };
    struct mg_program *p = job->program;
    double samples[MOST] = {0}, clock_s = mg_engine_clock_cost(p->engine);
    struct mg_timing timing;
    uint32_t repeats = job->policy->repeats < MOST ? job->policy->repeats : MOST;
    uint64_t own = p->engine->properties.copy_streams > 0 ? 0 : 2 * item->bytes;
    bool near = apart <= own;
    enum mg_code code = MG_OK;
    if (mg_engine_knows_copy(p->engine, item->stream, item->bytes, seconds))
        return MG_OK;
    code = mg_program_be_placed(p, err);
    code = code ? code : sample_copy(p, item, 1, clock_s, &samples[0], err);
    uint32_t runs = near ? mg_timing_runs(samples[0]) : 1;
    for (uint32_t i = 0; i < repeats && !code; i++) {
        code = near ? MG_OK : touch_others(job->prices, apart - own, err);
        code = code ? code : sample_copy(p, item, runs, clock_s, &samples[i], err);
    }
    mg_timing_of(samples, code ? 0 : repeats, &timing);
    *seconds = timing.median_s;
    return code;
}

/* Only where memory is further than a core's own cache, which does not care where a result goes: what is as short as
 * there runs many times for one sample, in place each time on the last one's result, and ends in zeros or infinities.
 */
static bool may_be_in_place(const struct mg_program *p, const struct distinct *part, uint64_t apart)
{
    enum { CORES_SHARE = 64 }; /* of the last cache */
    return apart > 0 || part->bytes > p->engine->properties.cache_bytes / CORES_SHARE;
}

static enum mg_code time_alone(const struct pricing *job, const struct distinct *part, enum reuse reuse,
                               double *seconds, struct mg_error *err)
{
    struct mg_timing timing = {0};
    struct mg_time_policy policy = *job->policy;
    policy.apart = mg_program_apart(job->program, reuse);
    policy.made = false;
    policy.in_place = may_be_in_place(job->program, part, policy.apart) ? part->in_place : 0;
    if (!part->prepared)
        return time_copy(job, &job->program->items[part->first], policy.apart, seconds, err);
    enum mg_code code = mg_prepared_time(part->prepared, &policy, &timing, err);
    *seconds = timing.median_s;
    return code;
}

static enum mg_code price_at(const struct pricing *job, const struct distinct *part, enum reuse reuse,
                             struct mg_error *err)
{
    struct price *price = make_price(job->prices, key_at(part, reuse));
    uint32_t wanted = job->times < MOST_TIMES ? job->times : MOST_TIMES;
    enum mg_code code = MG_OK;
    while (price->times < wanted && !code) {
        double seconds;
        if (mg_measure_clock() >= job->until)
            return mg_fail(err, MG_ERR_CANCELLED, "", "no time is left to time the operators");
        code = mg_program_go_on(job->program, err);
        if (!code)
            code = time_alone(job, part, reuse, &seconds, err);
        if (!code)
            add_time(price, seconds);
    }
    return code;
}

static enum mg_code price_part(const struct pricing *job, const struct distinct *part, struct mg_error *err)
{
    enum mg_code code = MG_OK;
    for (int r = 0; r < REUSES && !code; r++)
        if (part->wanted[r])
            code = price_at(job, part, (enum reuse)r, err);
    return code;
}

static enum mg_code price_all(void *context, struct mg_error *err)
{
    struct pricing *job = context;
    struct mg_program *p = job->program;
    enum mg_code code = mg_program_follow_reuse(p, err);
    for (size_t i = 0; i < p->op_count && !code; i++)
        code = price_part(job, &p->ops[i], err);
    for (size_t i = 0; i < p->copy_count && !code; i++)
        code = price_part(job, &p->copies[i], err);
    return code;
}

enum mg_code mg_program_price(struct mg_program *p, struct mg_program_prices *prices, uint32_t times,
                              const struct mg_time_policy *policy, double until, struct mg_error *err)
{
    struct pricing job = {p, prices, times, policy, until};
    return mg_arena_guard(&prices->arena, price_all, &job, err);
}

/* Streams as S4 has them. */
static enum mg_stream stream_of(const struct mg_program *p, const struct instruction *item)
{
    switch (p->engine->properties.copy_streams) {
    case 0:
        return MG_STREAM_COMPUTE;
    case 1:
        return item->stream == MG_STREAM_LOAD ? MG_STREAM_STORE : item->stream;
    default:
        return item->stream;
    }
}

double mg_program_latency(const struct mg_program *p, const struct mg_program_prices *prices)
{
    double end[3] = {0, 0, 0};
    for (size_t i = 0; i < p->count; i++) {
        const struct instruction *item = &p->items[i];
        double *at = &end[stream_of(p, item)];
        if (item->kind == KIND_WAIT) {
            *at = fmax(*at, p->mark_at[item->mark]);
            continue;
        }
        *at += price_of(prices, p, item);
        if (item->mark != MG_NONE)
            p->mark_at[item->mark] = *at;
    }
    return fmax(end[MG_STREAM_COMPUTE], fmax(end[MG_STREAM_STORE], end[MG_STREAM_LOAD]));
}

enum mg_code mg_program_predict(struct mg_program *p, const struct mg_time_policy *policy, double until,
                                double *seconds, struct mg_error *err)
{
    struct mg_program_prices *prices = mg_program_prices_new(p->engine);
    if (!prices)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    enum mg_code code = mg_program_price(p, prices, 1, policy, until, err);
    *seconds = code ? 0 : mg_program_latency(p, prices);
    mg_program_prices_free(prices);
    return code;
}

/* ---- where the time goes ---- */

enum mg_code mg_program_profile(struct mg_program *p, struct mg_error *err)
{
    enum mg_code code = mg_program_be_placed(p, err);
    code = code ? code : mg_engine_wait(p->engine, err);
    for (size_t i = 0; i < p->count && !code; i++) {
        const struct instruction *item = &p->items[i];
        double begin = mg_engine_clock(p->engine);
        code = mg_program_run_one(p, item, err);
        if (code || item->kind == KIND_WAIT)
            continue;
        code = mg_engine_wait(p->engine, err);
        struct distinct *part = item->kind == KIND_RUN ? &p->ops[item->op] : &p->copies[item->op];
        part->within += mg_engine_clock(p->engine) - begin;
    }
    p->profiles++;
    return code ? code : mg_program_check_guards(p, err);
}

static struct mg_program_part part_of(const struct mg_program *p, const struct distinct *part, const char *name)
{
    return (struct mg_program_part){.name = name,
                                    .text = part->text,
                                    .uses = part->uses,
                                    .within_s = part->within / (p->profiles ? p->profiles : 1)};
}

size_t mg_program_parts(const struct mg_program *p, const struct mg_program_prices *prices,
                        struct mg_program_part **out, struct mg_arena *arena)
{
    size_t count = p->op_count + p->copy_count;
    struct mg_program_part *parts = *out = MG_NEW_ARRAY(arena, struct mg_program_part, count);
    for (size_t i = 0; i < p->op_count; i++)
        parts[i] = part_of(p, &p->ops[i], mg_op_type_name(p->ops[i].prepared->op.type));
    for (size_t i = 0; i < p->copy_count; i++)
        parts[p->op_count + i] =
            part_of(p, &p->copies[i], p->items[p->copies[i].first].kind == KIND_STORE ? "store" : "load");
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].kind != KIND_WAIT)
            parts[p->items[i].op + (p->items[i].kind == KIND_RUN ? 0 : p->op_count)].alone_s +=
                price_of(prices, p, &p->items[i]);
    return count;
}
