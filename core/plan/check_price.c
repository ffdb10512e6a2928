/* Prices, recomputed from the profile for every distinct tuple of extents of every step. Measured prices
 * (source not "model") cannot be recomputed and are taken as stated. */
#include <math.h>
#include <string.h>

#include "plan/check_priv.h"

struct pricing {
    struct mg_check *c;
    uint32_t at;
    const struct mg_step *step;
    const struct mg_check_place *place;
};

/* One cut for each axis, absolute: what matters to a price is its extent. */
static uint32_t cuts_of(const struct pricing *p, const struct mg_check_tuple *tuple, struct mg_cut *cuts)
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < p->place->depth; j++) {
        const struct mg_region_op *entry = mg_check_entry(p->c, p->place->chain[j], p->step->op);
        uint32_t i = 0;
        while (i < n && cuts[i].axis != entry->axis)
            i++;
        n += i == n;
        cuts[i] = (struct mg_cut){entry->axis, 0, tuple->extent[j] * entry->scale};
    }
    return n;
}

static bool close_to(double stated, double mine)
{
    return fabs(stated - mine) <= 1e-9 * mine;
}

static bool check_stated(struct pricing *p, uint32_t index, const char *name, double seconds)
{
    const struct mg_price *price = &p->c->plan->prices[index];
    MG_CHECK(strcmp(price->name, name) == 0, p->c, p->at, "price", "price %u is of '%s', not of '%s'", index,
             price->name, name);
    if (price->source != MG_PRICE_MODEL)
        return true;
    MG_CHECK(price->workspace == 0, p->c, p->at, "price", "price %u: modelled operators need no workspace", index);
    MG_CHECK(close_to(price->seconds, seconds), p->c, p->at, "price", "price %u is %.12g s, not %.12g s", index,
             price->seconds, seconds);
    return true;
}

static bool price_compute(struct pricing *p, uint32_t index, const struct mg_check_tuple *tuple)
{
    struct mg_check *c = p->c;
    struct mg_cut cuts[MG_CHECK_DEPTH];
    struct mg_op_desc desc;
    struct mg_error err = {0};
    struct mg_arena_mark mark = mg_arena_mark(c->arena);
    enum mg_code code = mg_op_describe(c->g, p->step->op, cuts, cuts_of(p, tuple, cuts), c->arena, &desc, &err);
    MG_CHECK(code == MG_OK, c, p->at, "axis", "%.200s", err.message);
    bool ok = check_stated(p, index, mg_op_type_name(desc.type), mg_device_latency(&c->plan->device, &desc));
    mg_arena_rewind(c->arena, mark);
    return ok;
}

/* `moved`: the instance whose box is copied. */
static bool price_copy(struct pricing *p, uint32_t index, const struct mg_check_tuple *tuple, uint32_t moved,
                       enum mg_step_kind as)
{
    const struct mg_check *c = p->c;
    const struct mg_device *device = &c->plan->device;
    const struct mg_value_info *v = &c->g->values[c->plan->instances[moved].value];
    struct mg_shape shape = mg_check_cut(&v->shape, c->instances[moved].box, p->place->depth, tuple);
    uint64_t elements = (uint64_t)mg_shape_elements(&shape), bytes = elements * mg_dtype_size(v->dtype);
    switch (as) {
    case MG_STEP_STORE:
        return check_stated(p, index, "store", mg_device_store_latency(device, bytes));
    case MG_STEP_LOAD:
        return check_stated(p, index, "load", mg_device_load_latency(device, bytes));
    case MG_STEP_SLICE:
        return check_stated(p, index, "slice", mg_device_copy_latency(device, elements, bytes));
    case MG_STEP_JOIN:
        return check_stated(p, index, "join", mg_device_copy_latency(device, elements, bytes));
    default:
        return check_stated(p, index, "acc", mg_device_acc_latency(device, elements, bytes));
    }
}

static bool price_one(struct pricing *p, uint32_t i)
{
    const struct mg_check *c = p->c;
    uint32_t tuples = p->place->tuple_count, index = c->plan->refs[p->step->price + i];
    const struct mg_check_tuple *tuple = &p->place->tuples[i % tuples];
    switch (p->step->kind) {
    case MG_STEP_COMPUTE:
        return price_compute(p, index, tuple);
    case MG_STEP_LOAD:
    case MG_STEP_SLICE:
        return price_copy(p, index, tuple, mg_check_out(c, p->step)[0], p->step->kind);
    default:
        return price_copy(p, index, tuple, mg_check_in(c, p->step)[0], i < tuples ? p->step->kind : MG_STEP_JOIN);
    }
}

static bool check_count(struct pricing *p)
{
    const struct mg_check *c = p->c;
    uint32_t wanted = p->place->tuple_count;
    if (p->step->kind == MG_STEP_ACC && !mg_check_box_contiguous(c, mg_check_in(c, p->step)[1]))
        wanted *= 2;
    MG_CHECK(p->step->price_count == wanted, p->c, p->at, "price", "%u prices for %u tuples of extents",
             p->step->price_count, wanted);
    return true;
}

bool mg_check_prices(struct mg_check *c)
{
    for (uint32_t s = 0; s < c->plan->step_count; s++) {
        struct pricing p = {c, s, &c->plan->steps[s], &c->places[c->home[s]]};
        if (p.step->kind == MG_STEP_FREE || p.step->kind == MG_STEP_BEGIN || p.step->kind == MG_STEP_END)
            continue;
        if (!check_count(&p))
            return false;
        for (uint32_t i = 0; i < p.step->price_count; i++)
            if (!price_one(&p, i))
                return false;
    }
    return true;
}
