/* A finished plan under other prices: its steps are priced as they were when the plan was made, in their order, so that
 * parts which two operators share are scaled by the same whole. */
#include <string.h>

#include "device/signature.h"
#include "plan/plan_priv.h"

static enum mg_price_source source_of(const struct mg_plan *plan, const struct mg_step *step)
{
    enum mg_price_source weakest = MG_PRICE_EXACT;
    for (uint32_t k = 0; k < step->price_count; k++) {
        enum mg_price_source source = plan->prices[plan->refs[step->price + k]].source;
        weakest = source < weakest ? source : weakest;
    }
    return weakest;
}

uint64_t mg_plan_price_shares(const struct mg_plan *plan, double shares[MG_PRICE_SOURCES])
{
    uint64_t count[MG_PRICE_SOURCES] = {0}, all = 0;
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == MG_STEP_COMPUTE && plan->steps[i].price_count > 0) {
            count[source_of(plan, &plan->steps[i])]++;
            all++;
        }
    for (int source = 0; source < MG_PRICE_SOURCES; source++)
        shares[source] = all ? (double)count[source] / (double)all : source == MG_PRICE_MODEL;
    return all;
}

struct repricing {
    const struct mg_graph *g; /* the original */
    struct mg_plan *plan;
    struct mg_pricer *pricer;
    struct mg_arena *arena;
};

/* An operator whose signature nobody can measure keeps its price. */
static enum mg_code reprice_step(struct repricing *r, const struct mg_step *step, bool *done, struct mg_error *err)
{
    struct mg_plan *plan = r->plan;
    struct mg_arena_mark mark = mg_arena_mark(r->arena);
    struct mg_op_desc whole, desc;
    struct mg_error unknown;
    if (step->op == MG_NONE || step->op >= mg_plan_graph(r->g, plan)->op_count)
        return mg_fail(err, MG_ERR_INVALID, "", "a compute step has no operator");
    enum mg_code code = mg_op_describe(mg_plan_graph(r->g, plan), step->op, NULL, 0, r->arena, &whole, err);
    for (uint32_t k = 0; k < step->price_count && code == MG_OK; k++) {
        uint32_t index = plan->refs[step->price + k];
        struct mg_price *price = &plan->prices[index];
        if (done[index] || mg_signature_read(price->name, price->signature, r->arena, &desc, &unknown) != MG_OK)
            continue;
        struct mg_quote quote = mg_pricer_quote(r->pricer, &plan->device, &desc, &whole);
        price->seconds = quote.seconds;
        price->source = quote.source;
        done[index] = true;
    }
    mg_arena_rewind(r->arena, mark);
    return code;
}

static enum mg_code reprice(void *context, struct mg_error *err)
{
    struct repricing *r = context;
    struct mg_plan *plan = r->plan, *original;
    struct mg_simulation simulation;
    bool *done = MG_NEW_ARRAY(r->arena, bool, plan->price_count);
    enum mg_code code = MG_OK;
    for (size_t i = 0; i < plan->step_count && code == MG_OK; i++)
        if (plan->steps[i].kind == MG_STEP_COMPUTE)
            code = reprice_step(r, &plan->steps[i], done, err);
    if (code == MG_OK)
        code = mg_plan_simulate(r->g, plan, r->arena, &simulation, err);
    if (code == MG_OK)
        code = mg_plan_original_priced(r->g, &plan->device, r->pricer, r->arena, &original, err);
    if (code == MG_OK) {
        plan->figures.latency_s = simulation.latency_s;
        plan->original.latency_s = original->figures.latency_s;
    }
    return code;
}

enum mg_code mg_plan_reprice(const struct mg_graph *g, struct mg_plan *plan, struct mg_pricer *pricer,
                             struct mg_arena *arena, struct mg_error *err)
{
    struct repricing r = {g, plan, pricer, arena};
    return mg_arena_guard(arena, reprice, &r, err);
}
