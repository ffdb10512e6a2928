#include "server/fill.h"

#include <math.h>
#include <string.h>

#include "base/digest.h"
#include "measure/operands.h"

enum { CLASSES = 2 };

int mg_fill_parse(const char *name)
{
    static const char *const words[] = {"normal", "lcg", "zeros", "spread"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, words[i]) == 0)
            return i;
    return -1;
}

/* By Box and Muller. */
static double normal(struct mg_rng *rng)
{
    double u = 1 - mg_rng_unit(rng), v = mg_rng_unit(rng);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static bool is_real(enum mg_dtype dtype)
{
    return dtype < MG_DTYPE_I64;
}

/* Element i of an input by the formula of the reference figures. */
static double lcg(const struct mg_value_info *value, int64_t i)
{
    if (strcmp(value->name, "sr") == 0)
        return 16000;
    if (is_real(value->dtype))
        return (double)(((uint64_t)i * 1103515245 + 12345) & 0x7fffffff) / 2147483648.0 - 0.5;
    if (value->dtype == MG_DTYPE_BOOL)
        return (double)(i % 2);
    return (double)(value->dtype == MG_DTYPE_U8 ? 7 * i % 256 : i % 3);
}

static double number(enum mg_fill fill, const struct mg_value_info *value, struct mg_rng *rng, int64_t i)
{
    bool input = value->kind == MG_KIND_INPUT;
    if (fill == MG_FILL_ZEROS)
        return 0;
    if (fill == MG_FILL_LCG && input)
        return lcg(value, i);
    if (!is_real(value->dtype))
        return (double)mg_rng_below(rng, CLASSES);
    double x = normal(rng);
    return value->kind == MG_KIND_STATE ? fabs(x) : x;
}

static const struct mg_onnx_data *contents_of(const struct mg_onnx_model *model, const char *name)
{
    for (size_t i = 0; model && i < model->content_count; i++)
        if (strcmp(model->contents[i].value, name) == 0)
            return model->contents[i].data;
    return NULL;
}

double **mg_fill_values(const struct mg_graph *g, const struct mg_onnx_model *model, enum mg_fill fill, uint64_t seed,
                        struct mg_arena *arena)
{
    struct mg_rng rng;
    mg_rng_init(&rng, seed);
    double **values = MG_NEW_ARRAY(arena, double *, g->value_count);
    for (size_t v = 0; v < g->value_count; v++) {
        const struct mg_value_info *value = &g->values[v];
        if (value->kind == MG_KIND_COMPUTED)
            continue;
        const struct mg_onnx_data *data = value->kind == MG_KIND_INPUT ? NULL : contents_of(model, value->name);
        int64_t count = mg_shape_elements(&value->shape);
        values[v] = MG_NEW_ARRAY(arena, double, count + 1);
        for (int64_t i = 0; i < count; i++)
            values[v][i] = data ? mg_onnx_data_at(data, i) : number(fill, value, &rng, i);
    }
    if (fill == MG_FILL_SPREAD)
        mg_operand_spread(g, values, seed, arena);
    return values;
}
