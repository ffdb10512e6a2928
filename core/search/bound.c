/* A proven lower bound on the peak: what no allowed technique can take away. */
#include "search/search.h"

static uint64_t storage(const struct mg_search_options *o, const struct mg_value_info *v)
{
    return mg_device_storage(o->device, v->bytes);
}

static bool resident(const struct mg_value_info *v)
{
    return v->kind == MG_KIND_WEIGHT || v->kind == MG_KIND_STATE || v->kind == MG_KIND_CONSTANT;
}

/* Bytes that must coexist while one whole operator runs: residents, its operands and its results. */
static uint64_t operator_bytes(const struct mg_graph *g, const struct mg_search_options *o, mg_op op, uint64_t always)
{
    const struct mg_op_info *info = &g->ops[op];
    uint64_t sum = always;
    for (uint32_t k = 0; k < info->in_count; k++) {
        mg_value base = g->values[info->in[k]].base;
        bool again = resident(&g->values[base]);
        for (uint32_t i = 0; i < k; i++)
            again |= g->values[info->in[i]].base == base;
        sum += again || g->values[base].update_of != MG_NONE ? 0 : storage(o, &g->values[base]);
    }
    for (uint32_t k = 0; k < info->out_count; k++)
        if (!(k == 0 && info->in_place >= 0))
            sum += storage(o, &g->values[info->out[k]]);
    return sum;
}

uint64_t mg_search_lower_bound(const struct mg_graph *g, const struct mg_search_options *o, const char **op)
{
    uint64_t always = 0, inputs = 0, outputs = 0;
    for (uint32_t v = 0; v < g->value_count; v++) {
        const struct mg_value_info *value = &g->values[v];
        if (value->base != v)
            continue;
        if (resident(value) && value->home == MG_HOME_DEVICE)
            always += storage(o, value);
        else if (value->kind == MG_KIND_INPUT && value->is_read)
            inputs += storage(o, value);
        else if (value->is_output && value->update_of == MG_NONE)
            outputs += storage(o, value);
    }
    uint64_t bound = always + (inputs > outputs ? inputs : outputs);
    *op = "";
    if (o->techniques & MG_TECHNIQUE_FISSION)
        return bound;
    for (uint32_t i = 0; i < g->op_count; i++) {
        uint64_t here = g->ops[i].is_view ? 0 : operator_bytes(g, o, i, always);
        if (here > bound) {
            bound = here;
            *op = g->ops[i].name;
        }
    }
    return bound;
}
