/* The original's figures, which ratios are taken of: operators in the graph's order, one after the other
 * (no copies, so the latency is the sum), each storage freed after its last reader, in place where the
 * graph says so and nowhere else.
 *
 * Where values are at home on the host, or prices are measured, the original cannot be priced from the
 * plan alone, and the figures are taken as stated. The arena depends on a placement that is not in the
 * plan: it is not proven, but lies between the peak and the bytes of all storages. */
#include <math.h>

#include "plan/check_priv.h"

struct original {
    const struct mg_check *c;
    const struct mg_graph *g;
    mg_op *last;     /* by storage: the last operator that reads it, or MG_NONE: nobody */
    mg_value *owner; /* by base value: the value whose storage it is in */
    bool *kept;      /* by storage: lives to the end */
    uint64_t live, peak;
    uint64_t total; /* of all storages */
};

static uint64_t rounded(const struct original *o, mg_value v)
{
    return mg_device_storage(&o->c->plan->device, o->g->values[v].bytes);
}

static bool is_resident(const struct mg_value_info *v)
{
    return v->kind == MG_KIND_WEIGHT || v->kind == MG_KIND_STATE || v->kind == MG_KIND_CONSTANT;
}

static bool decided_by_plan(const struct mg_check *c)
{
    for (size_t i = 0; i < c->plan->price_count; i++)
        if (c->plan->prices[i].source != MG_PRICE_MODEL)
            return false;
    for (mg_value v = 0; v < c->original->value_count; v++)
        if (is_resident(&c->original->values[v]) && c->original->values[v].home == MG_HOME_HOST)
            return false;
    return true;
}

static void find_lives(struct original *o)
{
    const struct mg_graph *g = o->g;
    for (mg_value v = 0; v < g->value_count; v++) {
        o->owner[v] = v;
        o->last[v] = MG_NONE;
    }
    for (mg_op op = 0; op < g->op_count; op++) {
        const struct mg_op_info *info = &g->ops[op];
        if (info->is_view)
            continue;
        for (uint32_t i = 0; i < info->in_count; i++)
            o->last[o->owner[g->values[info->in[i]].base]] = op;
        if (info->in_place >= 0)
            o->owner[info->out[0]] = o->owner[g->values[info->in[info->in_place]].base];
    }
    for (mg_value v = 0; v < g->value_count; v++)
        if (g->values[v].is_output || is_resident(&g->values[v]))
            o->kept[o->owner[g->values[v].base]] = true;
}

static void grow(struct original *o, mg_value v)
{
    o->live += rounded(o, v);
    o->total += rounded(o, v);
    o->peak = o->live > o->peak ? o->live : o->peak;
}

static void free_after(struct original *o, mg_op op)
{
    const struct mg_op_info *info = &o->g->ops[op];
    for (uint32_t i = 0; i < info->in_count; i++) {
        mg_value storage = o->owner[o->g->values[info->in[i]].base];
        if (o->last[storage] != op || o->kept[storage])
            continue;
        o->last[storage] = MG_NONE; /* an operand may be listed twice */
        o->kept[storage] = true;
        o->live -= rounded(o, storage);
    }
    for (uint32_t i = 0; i < info->out_count; i++)
        if (o->owner[info->out[i]] == info->out[i] && o->last[info->out[i]] == MG_NONE && !o->kept[info->out[i]])
            o->live -= rounded(o, info->out[i]);
}

static uint64_t peak_of(const struct mg_check *c, uint64_t *total)
{
    size_t n = c->original->value_count;
    struct original o = {.c = c, .g = c->original};
    o.last = MG_NEW_ARRAY(c->arena, mg_op, n);
    o.owner = MG_NEW_ARRAY(c->arena, mg_value, n);
    o.kept = MG_NEW_ARRAY(c->arena, bool, n);
    find_lives(&o);
    for (mg_value v = 0; v < n; v++) {
        const struct mg_value_info *info = &c->original->values[v];
        if (is_resident(info) || (info->kind == MG_KIND_INPUT && (o.last[v] != MG_NONE || o.kept[v])))
            grow(&o, v);
    }
    bool steps = false; /* memory is counted over the steps: where none computes, there is none to plan */
    for (mg_op op = 0; op < c->original->op_count; op++) {
        const struct mg_op_info *info = &c->original->ops[op];
        if (info->is_view)
            continue;
        steps = true;
        for (uint32_t i = 0; i < info->out_count; i++)
            if (o.owner[info->out[i]] == info->out[i])
                grow(&o, info->out[i]);
        free_after(&o, op);
    }
    *total = o.total;
    return steps ? o.peak : 0;
}

static double latency_of(const struct mg_check *c)
{
    double seconds = 0;
    for (mg_op op = 0; op < c->original->op_count; op++) {
        struct mg_op_desc desc;
        if (c->original->ops[op].is_view || mg_op_describe(c->original, op, NULL, 0, c->arena, &desc, NULL) != MG_OK)
            continue;
        seconds += mg_device_latency(&c->plan->device, &desc);
    }
    return seconds;
}

bool mg_check_original(struct mg_check *c)
{
    const struct mg_figures *stated = &c->plan->original;
    MG_CHECK(stated->latency_s >= 0 && stated->latency_s < 1e12, c, MG_NONE, "original",
             "the original's latency is impossible");
    MG_CHECK(stated->arena_bytes >= stated->peak_bytes, c, MG_NONE, "original",
             "the original's arena is smaller than its peak");
    if (!decided_by_plan(c))
        return true;
    uint64_t total, peak = peak_of(c, &total);
    double latency = latency_of(c);
    MG_CHECK(peak == stated->peak_bytes, c, MG_NONE, "original", "the original's peak is %llu bytes, stated %llu",
             (unsigned long long)peak, (unsigned long long)stated->peak_bytes);
    MG_CHECK(stated->arena_bytes <= total, c, MG_NONE, "original",
             "the original's arena is larger than all of its storages together");
    MG_CHECK(fabs(latency - stated->latency_s) <= 1e-9 * latency, c, MG_NONE, "original",
             "the original's latency is %.12g s, stated %.12g s", latency, stated->latency_s);
    return true;
}
