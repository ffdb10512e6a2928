/* Runs a graph operator by operator, and makes random numbers for what it reads. */
#include <math.h>

#include "base/digest.h"
#include "exec/exec_priv.h"

static struct mg_tensor tensor_of(const struct mg_graph *g, mg_value value, double **values)
{
    return mg_tensor_dense(values[value], &g->values[value].shape);
}

static enum mg_code run_op(const struct mg_graph *g, mg_op op, uint64_t seed, double **values, struct mg_arena *arena,
                           struct mg_error *err)
{
    const struct mg_op_info *info = &g->ops[op];
    for (uint32_t i = 0; i < info->out_count; i++)
        values[info->out[i]] = MG_NEW_ARRAY(arena, double, mg_shape_elements(&g->values[info->out[i]].shape));
    struct mg_arena_mark mark = mg_arena_mark(arena);
    struct mg_op_desc desc;
    struct mg_tensor *in = MG_NEW_ARRAY(arena, struct mg_tensor, info->in_count);
    struct mg_tensor *out = MG_NEW_ARRAY(arena, struct mg_tensor, info->out_count);
    for (uint32_t i = 0; i < info->in_count; i++)
        in[i] = tensor_of(g, info->in[i], values);
    for (uint32_t i = 0; i < info->out_count; i++)
        out[i] = tensor_of(g, info->out[i], values);
    struct mg_exec_origin origin = {.seed = seed, .op = op};
    if (info->out_count)
        origin.whole = g->values[info->out[0]].shape;
    enum mg_code code = mg_op_describe(g, op, NULL, 0, arena, &desc, err);
    if (!code)
        code = mg_exec_op(&desc, in, out, &origin, arena, err);
    mg_arena_rewind(arena, mark);
    return code;
}

enum mg_code mg_exec_graph(const struct mg_graph *g, uint64_t seed, double **values, struct mg_arena *arena,
                           struct mg_error *err)
{
    for (mg_op op = 0; op < g->op_count; op++) {
        enum mg_code code = run_op(g, op, seed, values, arena, err);
        if (code)
            return code;
    }
    return MG_OK;
}

static double random_number(struct mg_rng *rng, const struct mg_value_info *value, int64_t classes)
{
    if (value->dtype == MG_DTYPE_BOOL)
        return (double)mg_rng_below(rng, 2);
    if (value->dtype >= MG_DTYPE_I64)
        return (double)mg_rng_below(rng, (uint64_t)classes);
    double x = 0.5 + mg_rng_unit(rng);
    bool negative = mg_rng_below(rng, 2);
    return negative && value->kind != MG_KIND_STATE ? -x : x;
}

double **mg_exec_random_values(const struct mg_graph *g, uint64_t seed, int64_t classes, struct mg_arena *arena)
{
    struct mg_rng rng;
    double **values = MG_NEW_ARRAY(arena, double *, g->value_count);
    mg_rng_init(&rng, seed);
    for (size_t v = 0; v < g->value_count; v++) {
        const struct mg_value_info *value = &g->values[v];
        if (value->kind == MG_KIND_COMPUTED)
            continue;
        int64_t count = mg_shape_elements(&value->shape);
        values[v] = MG_NEW_ARRAY(arena, double, count);
        for (int64_t i = 0; i < count; i++)
            values[v][i] = random_number(&rng, value, classes);
    }
    return values;
}
