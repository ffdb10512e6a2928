#include "server/reprice.h"

#include <stdlib.h>
#include <string.h>

#include "device/pricer.h"
#include "plan/plan.h"
#include "server/plan_blob.h"

/* ---- putting together ---- */

static bool append(struct mg_reprice_pack *pack, const void *data, size_t size)
{
    if (pack->size + size > pack->capacity) {
        size_t capacity = 2 * pack->capacity + size + 4096;
        unsigned char *larger = realloc(pack->data, capacity);
        if (!larger)
            return false;
        pack->data = larger;
        pack->capacity = capacity;
    }
    if (size)
        memcpy(pack->data + pack->size, data, size);
    pack->size += size;
    return true;
}

bool mg_reprice_begin(struct mg_reprice_pack *pack, const void *snapshot, size_t size)
{
    const uint64_t head = size;
    *pack = (struct mg_reprice_pack){0};
    return append(pack, &head, sizeof head) && append(pack, snapshot, size);
}

bool mg_reprice_add(struct mg_reprice_pack *pack, const char id[17], const void *blob, size_t size)
{
    const uint64_t head = size;
    return append(pack, id, 17) && append(pack, &head, sizeof head) && append(pack, blob, size);
}

void mg_reprice_release(struct mg_reprice_pack *pack)
{
    free(pack->data);
    *pack = (struct mg_reprice_pack){0};
}

/* ---- pricing ---- */

struct priced {
    char id[17];
    struct mg_figures figures;
    double was_s, shares[MG_PRICE_SOURCES];
    bool stands;
};
struct reader {
    const unsigned char *at, *end;
};

static const void *take(struct reader *r, uint64_t size)
{
    const void *here = r->at;
    if (size > (uint64_t)(r->end - r->at))
        return NULL;
    r->at += size;
    return here;
}

static bool take_size(struct reader *r, uint64_t *size)
{
    const void *here = take(r, sizeof *size);
    if (here)
        memcpy(size, here, sizeof *size);
    return here != NULL;
}

static enum mg_code damaged(struct mg_error *err)
{
    return mg_fail(err, MG_ERR_INTERNAL, "", "what is to be priced anew is damaged");
}

static enum mg_code price_plan(struct reader *r, const struct mg_graph *g, struct mg_pricer *pricer, struct priced *out,
                               struct mg_arena *arena, struct mg_error *err)
{
    uint64_t size;
    struct mg_plan *plan;
    const char *id = take(r, 17);
    if (!id || id[16] || !take_size(r, &size))
        return damaged(err);
    memcpy(out->id, id, 17);
    const void *blob = take(r, size);
    if (!blob)
        return damaged(err);
    enum mg_code code = mg_plan_unpack(blob, size, arena, &plan, err);
    if (code == MG_OK)
        code = mg_plan_derive(g, plan, arena, err);
    if (code != MG_OK)
        return code;
    out->was_s = plan->figures.latency_s;
    code = mg_plan_reprice(g, plan, pricer, arena, err);
    if (code != MG_OK)
        return code;
    out->figures = plan->figures;
    mg_plan_price_shares(plan, out->shares);
    return MG_OK;
}

/* Of equal ones the first stands. */
static void find_standing(struct priced *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        list[i].stands = true;
        for (size_t k = 0; k < count && list[i].stands; k++) {
            const struct mg_figures *a = &list[i].figures, *b = &list[k].figures;
            bool as_good = b->latency_s <= a->latency_s && b->peak_bytes <= a->peak_bytes;
            bool better = b->latency_s < a->latency_s || b->peak_bytes < a->peak_bytes || k < i;
            list[i].stands = k == i || !as_good || !better;
        }
    }
}

/* ---- the answer ---- */

static void write_plan(struct mg_writer *w, const struct priced *plan, const struct priced *original)
{
    static const char *const names[MG_PRICE_SOURCES] = {"modelled", "scaled", "near", "exact"};
    double measured = plan->shares[MG_PRICE_EXACT] + plan->shares[MG_PRICE_NEAR];
    mg_write_begin_object(w);
    mg_write_member_string(w, "plan", plan->id);
    mg_write_member_double(w, "latency_s", plan->figures.latency_s);
    mg_write_member_double(w, "latency_before_s", plan->was_s);
    mg_write_member_double(w, "latency_ratio",
                           original->figures.latency_s > 0 ? plan->figures.latency_s / original->figures.latency_s : 1);
    mg_write_member_uint(w, "peak_bytes", plan->figures.peak_bytes);
    mg_write_member_string(w, "basis", measured > 0 ? "operators" : "model");
    mg_write_member_double(w, "measured_share", measured);
    mg_write_key(w, "prices");
    mg_write_begin_object(w);
    for (int source = MG_PRICE_SOURCES; source-- > 0;)
        mg_write_member_double(w, names[source], plan->shares[source]);
    mg_write_end_object(w);
    if (plan != original)
        mg_write_member_bool(w, "stands", plan->stands);
    mg_write_end_object(w);
}

static void write_answer(struct mg_writer *w, const struct mg_reprice_head *head, const struct priced *list,
                         size_t count)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "class", head->device_class);
    mg_write_member_int(w, "generation", head->generation);
    mg_write_key(w, "priced_class");
    if (*head->priced_class)
        mg_write_string(w, head->priced_class);
    else
        mg_write_null(w);
    mg_write_member_int(w, "priced_generation", head->priced_generation);
    mg_write_key(w, "original");
    write_plan(w, &list[0], &list[0]);
    mg_write_key(w, "pareto");
    mg_write_begin_array(w);
    for (size_t i = 1; i < count; i++)
        write_plan(w, &list[i], &list[0]);
    mg_write_end_array(w);
    mg_write_end_object(w);
}

static enum mg_timings_use use_of(const char *name)
{
    return strcmp(name, "exact") == 0   ? MG_TIMINGS_EXACT
           : strcmp(name, "model") == 0 ? MG_TIMINGS_MODEL
                                        : MG_TIMINGS_NEAR;
}

static enum mg_code price_all(struct reader *r, const struct mg_graph *g, struct mg_pricer *pricer, struct priced **out,
                              size_t *count, struct mg_arena *arena, struct mg_error *err)
{
    struct priced *list = NULL;
    size_t capacity = 0;
    enum mg_code code = MG_OK;
    *count = 0;
    while (r->at < r->end && code == MG_OK) {
        struct priced *plan = MG_PUSH(arena, list, *count, capacity);
        struct mg_arena_mark mark = mg_arena_mark(arena);
        struct priced priced;
        code = price_plan(r, g, pricer, &priced, arena, err);
        mg_arena_rewind(arena, mark);
        *plan = priced;
    }
    *out = list;
    return code == MG_OK && !list ? damaged(err) : code;
}

enum mg_code mg_reprice_write(struct mg_writer *w, const struct mg_graph *g, const struct mg_job_request *request,
                              const void *pack, size_t size, const struct mg_reprice_head *head, struct mg_arena *arena,
                              struct mg_error *err)
{
    struct reader r = {pack, (const unsigned char *)pack + size};
    struct mg_timings timings;
    struct priced *list;
    uint64_t snapshot_size;
    size_t count;
    const void *snapshot = take_size(&r, &snapshot_size) ? take(&r, snapshot_size) : NULL;
    if (!snapshot)
        return damaged(err);
    /* a copy, for its alignment */
    enum mg_code code = mg_timings_open(mg_arena_copy(arena, snapshot, snapshot_size), snapshot_size, &timings, err);
    if (code != MG_OK)
        return code;
    struct mg_pricer *pricer = mg_pricer_new(&request->device, &timings, use_of(request->timings));
    if (!pricer)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    code = price_all(&r, g, pricer, &list, &count, arena, err);
    mg_pricer_free(pricer);
    if (code == MG_OK && list) {
        find_standing(list + 1, count - 1);
        write_answer(w, head, list, count);
    }
    return code;
}
