#include "device/pricer.h"

#include <stdlib.h>
#include <string.h>

#include "device/signature.h"

enum { FEWEST_RATIOS = 3 };

struct known {
    struct mg_hash128 key;
    struct mg_quote quote;
    bool used;
};
struct mg_pricer {
    const struct mg_device *device;
    const struct mg_timings *timings;
    enum mg_timings_use use;
    struct mg_arena arena; /* of its own: callers rewind theirs */
    struct known *known;   /* open addressing */
    size_t known_count, known_capacity;
    char *text;
    size_t text_capacity;
    double ratio[MG_OP_COUNT]; /* 0: not asked for yet; < 0: too few samples */
};

struct mg_pricer *mg_pricer_new(const struct mg_device *device, const struct mg_timings *timings,
                                enum mg_timings_use use)
{
    struct mg_pricer *p = calloc(1, sizeof *p);
    if (p) {
        *p = (struct mg_pricer){.device = device, .timings = timings, .use = use};
        mg_arena_init(&p->arena, SIZE_MAX);
    }
    return p;
}

void mg_pricer_free(struct mg_pricer *p)
{
    if (p)
        mg_arena_release(&p->arena);
    free(p);
}

bool mg_pricer_measures(const struct mg_pricer *p)
{
    return p && p->timings && p->use != MG_TIMINGS_MODEL;
}

/* ---- what has been asked ---- */

static struct known *slot_of(struct known *known, size_t capacity, struct mg_hash128 key)
{
    size_t at = (size_t)key.lo & (capacity - 1);
    while (known[at].used && (known[at].key.lo != key.lo || known[at].key.hi != key.hi))
        at = (at + 1) & (capacity - 1);
    return &known[at];
}

static void make_room(struct mg_pricer *p)
{
    if (2 * (p->known_count + 1) <= p->known_capacity)
        return;
    size_t capacity = p->known_capacity ? 2 * p->known_capacity : 256;
    struct known *larger = MG_NEW_ARRAY(&p->arena, struct known, capacity);
    for (size_t i = 0; i < p->known_capacity; i++)
        if (p->known[i].used)
            *slot_of(larger, capacity, p->known[i].key) = p->known[i];
    p->known = larger;
    p->known_capacity = capacity;
}

static struct mg_hash128 key_of(struct mg_pricer *p, const struct mg_op_desc *desc)
{
    size_t bound = mg_signature_bound(desc->attrs, desc->attr_count, desc->in_count + desc->out_count);
    if (p->text_capacity < bound) {
        p->text_capacity = 2 * bound;
        p->text = mg_arena_alloc(&p->arena, p->text_capacity);
    }
    mg_signature_print(desc, p->text);
    return mg_signature_key(mg_op_type_name(desc->type), p->text);
}

/* ---- what was measured ---- */

static bool measured(const struct mg_pricer *p, struct mg_hash128 key, struct mg_quote *out)
{
    struct mg_timing_entry entry;
    if (!mg_timings_find(p->timings, key, &entry) || (p->use == MG_TIMINGS_EXACT && entry.source != MG_PRICE_EXACT))
        return false;
    *out = (struct mg_quote){entry.seconds, entry.workspace, entry.source};
    return true;
}

struct ratios {
    struct mg_pricer *p;
    const char *kind;
    double *list;
    size_t count, capacity;
    struct mg_arena *scratch;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum mg_code collect(void *context, struct mg_error *err)
{
    struct ratios *r = context;
    for (size_t i = 0; i < r->p->timings->sample_count; i++) {
        struct mg_timing_sample sample;
        struct mg_op_desc desc;
        if (!mg_timings_sample(r->p->timings, i, &sample) || strcmp(sample.name, r->kind) != 0 ||
            (r->p->use == MG_TIMINGS_EXACT && sample.source != MG_PRICE_EXACT) ||
            mg_signature_read(sample.name, sample.signature, r->scratch, &desc, err) != MG_OK)
            continue;
        double model = mg_device_latency(r->p->device, &desc);
        if (model > 0)
            *MG_PUSH(r->scratch, r->list, r->count, r->capacity) = sample.seconds / model;
    }
    return MG_OK;
}

/* The lower median of measured / model of this kind of operator; -1: too few are known. */
static double ratio_of(struct mg_pricer *p, enum mg_op_type type)
{
    struct mg_arena scratch;
    struct ratios r = {.p = p, .kind = mg_op_type_name(type), .scratch = &scratch};
    if (p->ratio[type] != 0)
        return p->ratio[type];
    p->ratio[type] = -1;
    mg_arena_init(&scratch, SIZE_MAX);
    if (mg_arena_guard(&scratch, collect, &r, NULL) == MG_OK && r.count >= FEWEST_RATIOS) {
        qsort(r.list, r.count, sizeof *r.list, by_value);
        p->ratio[type] = r.list[(r.count - 1) / 2];
    }
    mg_arena_release(&scratch);
    return p->ratio[type];
}

/* ---- the price ---- */

static struct mg_quote decide(struct mg_pricer *p, struct mg_hash128 key, const struct mg_op_desc *desc,
                              const struct mg_op_desc *whole)
{
    struct mg_quote quote, of_whole;
    if (measured(p, key, &quote))
        return quote;
    quote = (struct mg_quote){mg_device_latency(p->device, desc), 0, MG_PRICE_MODEL};
    if (whole) {
        double model = mg_device_latency(p->device, whole);
        if (model > 0 && measured(p, key_of(p, whole), &of_whole))
            /* its workspace may be as large as the whole's */
            return (struct mg_quote){quote.seconds * (of_whole.seconds / model), of_whole.workspace, MG_PRICE_SCALED};
    }
    double ratio = quote.seconds > 0 ? ratio_of(p, desc->type) : 0;
    return ratio > 0 ? (struct mg_quote){quote.seconds * ratio, 0, MG_PRICE_SCALED} : quote;
}

struct question {
    struct mg_pricer *p;
    const struct mg_op_desc *desc, *whole;
    struct mg_quote quote;
};

static enum mg_code answer(void *context, struct mg_error *err)
{
    struct question *q = context;
    struct mg_pricer *p = q->p;
    struct mg_hash128 key = key_of(p, q->desc);
    (void)err;
    make_room(p);
    struct known *known = slot_of(p->known, p->known_capacity, key);
    if (!known->used) {
        struct mg_quote quote = decide(p, key, q->desc, q->whole);
        *known = (struct known){key, quote, true};
        p->known_count++;
    }
    q->quote = known->quote;
    return MG_OK;
}

struct mg_quote mg_pricer_quote(struct mg_pricer *p, const struct mg_device *device, const struct mg_op_desc *desc,
                                const struct mg_op_desc *whole)
{
    struct question q = {.p = p, .desc = desc, .whole = whole};
    if (mg_pricer_measures(p) && mg_op_cost(desc->type) != MG_COST_VIEW && desc->type != MG_OP_OPAQUE &&
        mg_arena_guard(&p->arena, answer, &q, NULL) == MG_OK)
        return q.quote;
    return (struct mg_quote){mg_device_latency(device, desc), 0, MG_PRICE_MODEL};
}
