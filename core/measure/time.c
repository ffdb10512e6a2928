/* Timing an operator: operands of random numbers, warm-up, repeats, robust statistics. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/digest.h"
#include "measure/measure_priv.h"

const struct mg_time_policy mg_time_policy_default = {.warm_up = 2, .repeats = 15, .seconds = 0.5, .cold = true};

enum { MOST_INNER = 64 };
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

struct trial {
    struct mg_prepared *prepared;
    const struct mg_time_policy *policy;
    struct mg_timing *timing;
    struct mg_arena arena;
    void **memory;         /* operands, then results */
    uint32_t count, inner; /* inner: runs for one sample */
    void *flush; /* policy->cold: memory of the device, twice its cache, half of which is copied between runs */
    uint64_t flush_bytes;
};

/* Elements from the first to the last, both included, of a strided box. */
static uint64_t extent(const struct mg_shape *shape, const struct mg_strides *strides)
{
    int64_t last = 0;
    for (uint32_t d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == 0)
            return 0;
        last += (shape->dim[d] - 1) * strides->at[d];
    }
    return (uint64_t)last + 1;
}

static void fill_random(void *memory, enum mg_dtype dtype, uint64_t count)
{
    struct mg_rng rng;
    mg_rng_init(&rng, count);
    if (dtype == MG_DTYPE_F32 || dtype == MG_DTYPE_F64) {
        for (uint64_t i = 0; i < count; i++) {
            double x = 0.5 + mg_rng_unit(&rng);
            if (dtype == MG_DTYPE_F32)
                ((float *)memory)[i] = (float)x;
            else
                ((double *)memory)[i] = x;
        }
    } else {
        /* whole numbers 0 and 1 (indices that are always in range), and tiny numbers of the narrow formats */
        uint32_t size = mg_dtype_size(dtype);
        memset(memory, 0, count * size);
        for (uint64_t i = 0; i < count; i++)
            ((uint8_t *)memory)[i * size] = (uint8_t)mg_rng_below(&rng, 2);
    }
}

static enum mg_code make_operand(struct trial *t, const struct mg_shape *shape, const struct mg_strides *strides,
                                 enum mg_dtype dtype, struct mg_error *err)
{
    struct mg_engine *engine = t->prepared->engine;
    uint64_t count = extent(shape, strides), bytes = count * mg_dtype_size(dtype);
    void *device, *host;
    enum mg_code code = mg_engine_alloc(engine, MG_PLACE_DEVICE, bytes, &device, err);
    if (code != MG_OK)
        return code;
    t->memory[t->count++] = device;
    code = mg_engine_alloc(engine, MG_PLACE_HOST, bytes, &host, err);
    if (code != MG_OK)
        return code;
    fill_random(host, dtype, count);
    code = mg_engine_copy(engine, MG_STREAM_LOAD, device, host, bytes, err);
    if (code == MG_OK)
        code = mg_engine_wait(engine, err);
    mg_engine_free(engine, MG_PLACE_HOST, host);
    return code;
}

static enum mg_code make_operands(struct trial *t, struct mg_error *err)
{
    const struct mg_prepared *p = t->prepared;
    enum mg_code code = MG_OK;
    t->memory = MG_NEW_ARRAY(&t->arena, void *, p->op.in_count + p->op.out_count);
    for (uint32_t i = 0; i < p->op.in_count && code == MG_OK; i++)
        code = make_operand(t, &p->op.in_shape[i], &p->in[i], p->op.in_dtype[i], err);
    for (uint32_t i = 0; i < p->op.out_count && code == MG_OK; i++)
        code = make_operand(t, &p->op.out_shape[i], &p->out[i], p->op.out_dtype[i], err);
    if (code == MG_OK && t->policy->cold && p->engine->properties.cache_bytes > 0) {
        t->flush_bytes = p->engine->properties.cache_bytes;
        code = mg_engine_alloc(p->engine, MG_PLACE_DEVICE, 2 * t->flush_bytes, &t->flush, err);
    }
    return code;
}

/* ---- runs ---- */

static enum mg_code flush_caches(const struct trial *t, struct mg_error *err)
{
    struct mg_engine *engine = t->prepared->engine;
    if (!t->flush)
        return MG_OK;
    enum mg_code code =
        mg_engine_copy(engine, MG_STREAM_COMPUTE, (char *)t->flush + t->flush_bytes, t->flush, t->flush_bytes, err);
    return code ? code : mg_engine_wait(engine, err);
}

static enum mg_code run_once(const struct trial *t, double *seconds, struct mg_error *err)
{
    struct mg_prepared *p = t->prepared;
    const void *const *in = (const void *const *)t->memory;
    void *const *out = t->memory + p->op.in_count;
    if (p->engine->backend->time_run)
        return p->engine->backend->time_run(p, in, out, seconds, err);
    enum mg_code code = MG_OK;
    double begin = mg_engine_clock(p->engine);
    for (uint32_t i = 0; i < t->inner && code == MG_OK; i++)
        code = mg_prepared_run(p, in, out, NULL, err);
    if (code == MG_OK)
        code = mg_engine_wait(p->engine, err);
    *seconds = (mg_engine_clock(p->engine) - begin) / t->inner;
    return code;
}

/* A short operator runs some times over for one sample, so that reading the clock does not count. */
static void choose_inner(struct trial *t, double seconds)
{
    double wanted = ceil(SHORTEST_SAMPLE / (seconds > 0 ? seconds : SHORTEST_SAMPLE / MOST_INNER));
    t->inner = t->flush || wanted < 1 ? 1 : wanted > MOST_INNER ? MOST_INNER : (uint32_t)wanted;
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
        choose_inner(t, samples[0]);
    while (n < wanted && code == MG_OK) {
        code = flush_caches(t, err);
        code = code ? code : run_once(t, &samples[n++], err);
        if (n >= 3 && policy->seconds > 0 && mg_measure_clock() - begin > policy->seconds)
            break;
    }
    if (code == MG_OK)
        mg_timing_of(samples, n, t->timing);
    t->timing->workspace_bytes = t->prepared->workspace;
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
    for (uint32_t i = 0; i < t.count; i++)
        mg_engine_free(prepared->engine, MG_PLACE_DEVICE, t.memory[i]);
    if (t.flush)
        mg_engine_free(prepared->engine, MG_PLACE_DEVICE, t.flush);
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
