/* First phase of the checker: does every index point somewhere, has every step the operands, results and
 * prices that its kind wants, are device and figures of this world? A plan may come from a file, so
 * nothing is trusted here; the later phases trust what is established here. Linear in the plan. */
#include <string.h>

#include "plan/check_priv.h"

/* Times and bandwidths beyond these are no device's; they keep sums finite. */
static const double longest = 1e12;

static bool positive(double x)
{
    return x > 0 && x < 1e30;
}

static bool absent_or_positive(double x)
{
    return x >= 0 && x < 1e30;
}

static bool check_device(struct mg_check *c)
{
    const struct mg_device *d = &c->plan->device;
    bool fits = d->align && !(d->align & (d->align - 1)) && d->align <= UINT64_C(1) << 30 && d->copy_streams >= 0 &&
                d->copy_streams <= 2 && d->sm_count > 0 && positive(d->peak_flops_f32) && positive(d->mem_bw) &&
                positive(d->mem_eff) && positive(d->link_bw_d2h) && positive(d->link_bw_h2d) &&
                absent_or_positive(d->launch_s) && absent_or_positive(d->link_latency_s);
    const double peaks[] = {d->peak_flops_tf32, d->peak_flops_bf16, d->peak_flops_f16, d->peak_flops_f64,
                            d->peak_flops_f8};
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++)
        fits = fits && absent_or_positive(peaks[i]);
    fits = fits && memchr(d->name, 0, sizeof d->name);
    MG_CHECK(fits, c, MG_NONE, "device", "the device profile is impossible");
    return true;
}

bool mg_check_head(struct mg_check *c)
{
    const struct mg_plan *p = c->plan;
    const size_t counts[] = {p->region_count, p->storage_count, p->instance_count, p->price_count,
                             p->step_count,   p->ref_count,     p->edit_count};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        MG_CHECK(counts[i] < MG_NONE / 2, c, MG_NONE, "form", "the plan is too large");
    MG_CHECK(memchr(p->graph_digest, 0, sizeof p->graph_digest) && !strcmp(p->graph_digest, c->original->digest), c,
             MG_NONE, "graph", "the plan is for another graph");
    MG_CHECK(p->numerics == MG_NUMERICS_REASSOCIATE || p->numerics == MG_NUMERICS_EXACT, c, MG_NONE, "form",
             "unknown numerics");
    return check_device(c);
}

static bool check_storages(struct mg_check *c)
{
    const struct mg_plan *p = c->plan;
    for (size_t s = 0; s < p->storage_count; s++) {
        const struct mg_storage *storage = &p->storages[s];
        MG_CHECK(storage->bytes < UINT64_C(1) << 60 && storage->offset < UINT64_C(1) << 62, c, MG_NONE, "form",
                 "storage %zu is too large", s);
    }
    return true;
}

static bool check_prices(struct mg_check *c)
{
    for (size_t i = 0; i < c->plan->price_count; i++) {
        const struct mg_price *price = &c->plan->prices[i];
        MG_CHECK(price->seconds >= 0 && price->seconds < longest && price->workspace < UINT64_C(1) << 60 &&
                     memchr(price->name, 0, sizeof price->name) && price->signature &&
                     (price->source == MG_PRICE_MODEL || price->source == MG_PRICE_SCALED ||
                      price->source == MG_PRICE_NEAR || price->source == MG_PRICE_EXACT),
                 c, MG_NONE, "form", "price %zu is impossible", i);
    }
    return true;
}

static bool check_instance(struct mg_check *c, uint32_t i)
{
    const struct mg_plan *p = c->plan;
    const struct mg_instance *instance = &p->instances[i];
    MG_CHECK(instance->value < c->g->value_count, c, MG_NONE, "form", "instance %u: there is no such value", i);
    MG_CHECK(instance->storage < p->storage_count, c, MG_NONE, "form", "instance %u: there is no such storage", i);
    MG_CHECK(instance->made_by == MG_NONE || instance->made_by < p->step_count, c, MG_NONE, "form",
             "instance %u: there is no such step", i);
    MG_CHECK(instance->shape.rank == c->g->values[instance->value].shape.rank, c, MG_NONE, "form",
             "instance %u: the rank is not the value's", i);
    uint32_t base = instance->view_of;
    if (base == MG_NONE)
        return true;
    MG_CHECK(base < p->instance_count && p->instances[base].view_of == MG_NONE, c, MG_NONE, "view",
             "instance %u: a view is a view of an instance that is none", i);
    MG_CHECK(p->instances[base].storage == instance->storage && p->instances[base].made_by == instance->made_by, c,
             MG_NONE, "view", "instance %u: a view has the storage and the step of its base", i);
    c->instances[i].next_view = c->instances[base].first_view;
    c->instances[base].first_view = i;
    return true;
}

static bool check_instances(struct mg_check *c)
{
    size_t n = c->plan->instance_count;
    c->instances = MG_NEW_ARRAY(c->arena, struct mg_check_instance, n);
    for (size_t i = 0; i < n; i++)
        c->instances[i].first_view = c->instances[i].next_view = c->instances[i].reader = MG_NONE;
    for (uint32_t i = 0; i < n; i++)
        if (!check_instance(c, i))
            return false;
    return true;
}

static bool range_fits(const struct mg_check *c, uint32_t first, uint32_t count, size_t bound)
{
    size_t n = c->plan->ref_count;
    if (count > n || first > n - count)
        return count == 0;
    for (uint32_t i = 0; i < count; i++)
        if (c->plan->refs[first + i] >= bound)
            return false;
    return true;
}

static bool counts_fit(const struct mg_check *c, const struct mg_step *step)
{
    switch (step->kind) {
    case MG_STEP_COMPUTE:
        return step->op < c->g->op_count && !c->g->ops[step->op].is_view &&
               step->in_count == c->g->ops[step->op].in_count && step->out_count == c->g->ops[step->op].out_count &&
               step->price_count >= 1;
    case MG_STEP_STORE:
        return step->op == MG_NONE && step->in_count == 1 && step->out_count == 0 && step->price_count >= 1;
    case MG_STEP_LOAD:
        return step->op == MG_NONE && step->in_count <= 1 && step->out_count == 1 && step->price_count >= 1;
    case MG_STEP_FREE:
        return step->op == MG_NONE && step->in_count == 1 && step->out_count == 0 && step->price_count == 0;
    case MG_STEP_BEGIN:
        return step->op < c->plan->region_count && step->in_count == 0 && step->price_count == 0;
    case MG_STEP_END:
        return step->op < c->plan->region_count && step->in_count == 0 && step->out_count == 0 &&
               step->price_count == 0;
    case MG_STEP_SLICE:
        return step->op == MG_NONE && step->in_count == 1 && step->out_count == 1 && step->price_count >= 1;
    case MG_STEP_JOIN:
    case MG_STEP_ACC:
        return step->op == MG_NONE && step->in_count == 2 && step->out_count == 0 && step->price_count >= 1;
    }
    return false;
}

static bool check_steps(struct mg_check *c)
{
    const struct mg_plan *p = c->plan;
    for (uint32_t s = 0; s < p->step_count; s++) {
        const struct mg_step *step = &p->steps[s];
        MG_CHECK(counts_fit(c, step), c, s, "form", "the step has not the members that its kind wants");
        MG_CHECK(range_fits(c, step->in, step->in_count, p->instance_count) &&
                     range_fits(c, step->out, step->out_count, p->instance_count),
                 c, s, "form", "there is no such instance");
        MG_CHECK(range_fits(c, step->price, step->price_count, p->price_count), c, s, "form", "there is no such price");
    }
    return true;
}

static bool check_figures(struct mg_check *c)
{
    double latency = c->plan->figures.latency_s;
    MG_CHECK(latency >= 0 && latency < longest, c, MG_NONE, "latency", "the latency is impossible");
    return true;
}

bool mg_check_form(struct mg_check *c)
{
    return check_storages(c) && check_prices(c) && check_instances(c) && check_steps(c) && check_figures(c);
}
