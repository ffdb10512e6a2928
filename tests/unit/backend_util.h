/* A back end against the reference executor: an operator sample with dense, unaligned and strided operands. */
#ifndef MG_TESTS_BACKEND_UTIL_H
#define MG_TESTS_BACKEND_UTIL_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "exec/exec_priv.h"
#include "measure/measure.h"
#include "op_samples.h"

/* ---- operands in the device's memory ---- */

struct box {
    struct mg_shape shape;
    enum mg_dtype dtype;
    struct mg_strides strides;
    void *base; /* owned */
    char *data; /* first element */
    size_t bytes;
};

/* By the compiler's own type. */
static double half_of(uint16_t bits)
{
    _Float16 x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}
static uint16_t half_bits(double x)
{
    _Float16 half = (_Float16)(float)x;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static double load(const struct box *b, int64_t at)
{
    const void *p = b->data + at * (int64_t)mg_dtype_size(b->dtype);
    switch (b->dtype) {
    case MG_DTYPE_F64:
        return *(const double *)p;
    case MG_DTYPE_F32:
        return *(const float *)p;
    case MG_DTYPE_I64:
        return (double)*(const int64_t *)p;
    case MG_DTYPE_I32:
        return *(const int32_t *)p;
    case MG_DTYPE_I8:
        return *(const int8_t *)p;
    case MG_DTYPE_BF16: {
        uint32_t bits = (uint32_t)(*(const uint16_t *)p) << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    case MG_DTYPE_F16:
        return half_of(*(const uint16_t *)p);
    default:
        return *(const uint8_t *)p;
    }
}

static void save(struct box *b, int64_t at, double x)
{
    void *p = b->data + at * (int64_t)mg_dtype_size(b->dtype);
    float narrow = (float)x;
    switch (b->dtype) {
    case MG_DTYPE_F64:
        *(double *)p = x;
        break;
    case MG_DTYPE_F32:
        *(float *)p = narrow;
        break;
    case MG_DTYPE_I64:
        *(int64_t *)p = (int64_t)x;
        break;
    case MG_DTYPE_I32:
        *(int32_t *)p = (int32_t)x;
        break;
    case MG_DTYPE_BF16: {
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        *(uint16_t *)p = (uint16_t)(bits >> 16);
        break;
    }
    case MG_DTYPE_F16:
        *(uint16_t *)p = half_bits(x);
        break;
    default:
        *(uint8_t *)p = (uint8_t)x;
    }
}

enum layout { DENSE, UNALIGNED, PADDED, PERMUTED, LAYOUTS };

/* Strides: rows with gaps, or dimensions in another order in memory. */
static struct box make_box(const struct mg_shape *shape, enum mg_dtype dtype, enum layout layout, struct mg_rng *rng)
{
    struct box b = {.shape = *shape, .dtype = dtype};
    uint32_t order[MG_MAX_RANK], offset = layout == UNALIGNED ? 1 : layout == DENSE ? 0 : 3;
    int64_t step = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        order[d] = d;
    for (uint32_t d = 0; layout == PERMUTED && d < shape->rank; d++) {
        uint32_t other = d + (uint32_t)mg_rng_below(rng, shape->rank - d), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    for (uint32_t d = shape->rank; d-- > 0;) {
        b.strides.at[order[d]] = step;
        step *= shape->dim[order[d]] + (layout == PADDED ? (int64_t)mg_rng_below(rng, 3) : 0);
    }
    b.bytes = ((size_t)step + offset + 64) * mg_dtype_size(dtype);
    b.base = calloc(1, b.bytes);
    memset(b.base, 0x7f, b.bytes);
    b.data = (char *)b.base + offset * mg_dtype_size(dtype);
    return b;
}

static void fill_box(struct box *b, const double *values)
{
    int64_t index[MG_MAX_RANK] = {0};
    for (int64_t i = 0; i < mg_shape_elements(&b->shape); i++, mg_walk_next(&b->shape, index))
        save(b, mg_walk_at(index, b->strides.at, b->shape.rank), values[i]);
}

/* To the device's memory, or back. */
static char *to_device(struct mg_engine *on, const struct box *b, void **memory)
{
    struct mg_error err = {0};
    enum mg_code code = mg_engine_alloc(on, MG_PLACE_DEVICE, b->bytes, memory, &err);
    code = code ? code : mg_engine_copy(on, MG_STREAM_LOAD, *memory, b->base, b->bytes, &err);
    code = code ? code : mg_engine_wait(on, &err);
    cr_assert_eq(code, MG_OK, "%s", err.message);
    return (char *)*memory + (b->data - (char *)b->base);
}

static void from_device(struct mg_engine *on, struct box *b, void *memory)
{
    struct mg_error err = {0};
    enum mg_code code = mg_engine_copy(on, MG_STREAM_STORE, b->base, memory, b->bytes, &err);
    code = code ? code : mg_engine_wait(on, &err);
    cr_assert_eq(code, MG_OK, "%s", err.message);
    mg_engine_free(on, MG_PLACE_DEVICE, memory);
}

static double worst_of(const struct box *b, const double *values)
{
    int64_t index[MG_MAX_RANK] = {0};
    double worst = 0;
    for (int64_t i = 0; i < mg_shape_elements(&b->shape); i++, mg_walk_next(&b->shape, index)) {
        double x = load(b, mg_walk_at(index, b->strides.at, b->shape.rank)), y = values[i];
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        double error = fabs(x - y) / fmax(1, fabs(y));
        worst = error <= worst ? worst : error; /* NaN is the worst */
    }
    return worst;
}

/* ---- one operator ---- */

struct subject {
    struct bench *b;
    const char *text;
    struct mg_op_desc op;
    double **in, **out; /* reference numbers */
};
static struct mg_engine *engine;
static int layouts = LAYOUTS;
static int each_layout = 3; /* how many of those that are random */
static bool collecting;     /* prepared only, not run */
static int narrow_samples;  /* built */
static char lacking[4096];  /* operators that are not timed */
static char refused[4096];  /* of those, what does not run either */

static bool on_cpu(void)
{
    return strcmp(mg_engine_properties(engine)->backend, "cpu") == 0;
}

static void note_lacking(const struct mg_op_desc *op, const char *message)
{
    const char *name = mg_op_type_name(op->type);
    char entry[64];
    snprintf(entry, sizeof entry, " %s ", name);
    cr_expect(strstr(message, name), "\"%s\" does not name %s", message, name);
    if (!strstr(lacking, entry))
        snprintf(lacking + strlen(lacking), sizeof lacking - strlen(lacking), "%s", entry);
}

/* Operators without a kernel of the back end's own run, and say that they are not timed. */
static void try_timing(struct mg_prepared *prepared, const struct mg_op_desc *op, const char *text)
{
    struct mg_time_policy once = {.repeats = 1};
    struct mg_timing timing;
    struct mg_error err;
    enum mg_code code = mg_prepared_time(prepared, &once, &timing, &err);
    if (code == MG_OK) {
        cr_expect(timing.n == 1 && timing.median_s > 0, "%s", text);
        return;
    }
    cr_expect_eq(code, MG_ERR_UNSUPPORTED, "%s: %s", text, err.message);
    note_lacking(op, err.message);
}

/* What an operand of the dtype can hold. */
static double rounded(double x, enum mg_dtype dtype)
{
    double room;
    struct box b = {.dtype = dtype, .data = (char *)&room};
    save(&b, 0, x);
    return load(&b, 0);
}

/* Of a result beside the reference's, relative above 1: some units in the last place of its dtype and its operands'. */
static double tolerance_of(const struct mg_op_desc *op, uint32_t result)
{
    double most = 5e-5;
    for (uint32_t i = 0; i <= op->in_count; i++) {
        enum mg_dtype dtype = i < op->in_count ? op->in_dtype[i] : op->out_dtype[result];
        most = fmax(most, dtype == MG_DTYPE_BF16 ? 0x1p-6 : dtype == MG_DTYPE_F16 ? 0x1p-9 : 0);
    }
    return most;
}

static enum mg_code refer(void *context, struct mg_error *err)
{
    struct subject *s = context;
    struct mg_arena *arena = &s->b->arena;
    struct mg_tensor in[16], out[16];
    struct mg_op_desc *op = &s->op;
    mg_op index = op_named(s->b->n, "sample");
    enum mg_code code = mg_op_describe(s->b->n, index, NULL, 0, arena, op, err);
    double **values = mg_exec_random_values(s->b->n, 5, 3, arena);
    s->in = MG_NEW_ARRAY(arena, double *, op->in_count);
    s->out = MG_NEW_ARRAY(arena, double *, op->out_count);
    for (uint32_t i = 0; i < op->in_count && !code; i++) {
        mg_value v = s->b->n->ops[index].in[i];
        s->in[i] = values[v];
        for (int64_t k = 0; k < mg_shape_elements(&op->in_shape[i]); k++)
            s->in[i][k] = rounded(s->in[i][k], op->in_dtype[i]);
        in[i] = mg_tensor_dense(s->in[i], &op->in_shape[i]);
    }
    for (uint32_t i = 0; i < op->out_count; i++) {
        s->out[i] = MG_NEW_ARRAY(arena, double, mg_shape_elements(&op->out_shape[i]));
        out[i] = mg_tensor_dense(s->out[i], &op->out_shape[i]);
    }
    struct mg_exec_origin origin = {.seed = 9, .op = 4, .whole = op->out_shape[0]};
    return code ? code : mg_exec_op(op, in, out, &origin, arena, err);
}

static void run_layout(struct subject *s, enum layout layout, struct mg_rng *rng)
{
    struct box in[16], out[16];
    struct mg_strides in_strides[16], out_strides[16];
    const void *in_data[16];
    void *out_data[16], *in_memory[16], *out_memory[16];
    struct mg_error err = {0};
    struct mg_prepared *prepared;
    const struct mg_op_desc *op = &s->op;
    for (uint32_t i = 0; i < op->in_count; i++) {
        in[i] = make_box(&op->in_shape[i], op->in_dtype[i], layout, rng);
        fill_box(&in[i], s->in[i]);
        in_strides[i] = in[i].strides;
        in_data[i] = to_device(engine, &in[i], &in_memory[i]);
    }
    for (uint32_t i = 0; i < op->out_count; i++) {
        out[i] = make_box(&op->out_shape[i], op->out_dtype[i], layout, rng);
        out_strides[i] = out[i].strides;
        out_data[i] = to_device(engine, &out[i], &out_memory[i]);
    }
    enum mg_code code = mg_engine_prepare(engine, op, in_strides, out_strides, &prepared, &err);
    struct mg_exec_origin origin = {.seed = 9, .op = 4, .whole = op->out_shape[0]};
    bool cannot = code == MG_ERR_UNSUPPORTED && !on_cpu();
    if (cannot) {
        note_lacking(op, err.message);
        if (!strstr(refused, mg_op_type_name(op->type)))
            snprintf(refused + strlen(refused), sizeof refused - strlen(refused), " %s ", mg_op_type_name(op->type));
    }
    if (!collecting) {
        code = code ? code : mg_prepared_run(prepared, in_data, out_data, &origin, &err);
        code = code ? code : mg_engine_wait(engine, &err);
    }
    cr_expect(code == MG_OK || cannot, "%s: %s", s->text, err.message);
    for (uint32_t i = 0; i < op->in_count; i++)
        mg_engine_free(engine, MG_PLACE_DEVICE, in_memory[i]);
    for (uint32_t i = 0; i < op->out_count; i++)
        from_device(engine, &out[i], out_memory[i]);
    for (uint32_t i = 0; i < op->out_count && !code && !collecting; i++) {
        double worst = worst_of(&out[i], s->out[i]);
        cr_expect(worst < tolerance_of(op, i), "%s %s: result %u, layout %d: %g", mg_dtype_name(sample_dtype), s->text,
                  i, layout, worst);
    }
    if (!code && !collecting && layout == DENSE)
        try_timing(prepared, op, s->text);
    mg_prepared_free(prepared);
    for (uint32_t i = 0; i < op->in_count; i++)
        free(in[i].base);
    for (uint32_t i = 0; i < op->out_count; i++)
        free(out[i].base);
}

static void try_sample(const char *text, struct mg_rng *rng)
{
    struct bench b;
    struct subject s = {.b = &b, .text = text};
    bool built = sample_build(&b, text);
    cr_assert(built || sample_dtype != MG_DTYPE_F32, "%s: %s", text, b.err.message);
    if (!built) { /* an operator of other dtypes only */
        bench_close(&b);
        return;
    }
    narrow_samples += sample_dtype != MG_DTYPE_F32;
    for (size_t v = 0; v < b.g->value_count; v++)
        if (b.g->values[v].kind == MG_KIND_COMPUTED)
            mg_graph_add_output(b.g, (mg_value)v);
    cr_assert(normalise(&b), "%s: %s", text, b.err.message);
    enum mg_code code = mg_arena_guard(&b.arena, refer, &s, &b.err);
    if (code != MG_ERR_UNSUPPORTED) /* opaque operators have no reference */
        cr_assert_eq(code, MG_OK, "%s: %s", text, b.err.message);
    for (int layout = 0; layout < layouts && !code; layout++)
        for (int i = 0; i < (layout < PADDED ? 1 : each_layout); i++)
            run_layout(&s, (enum layout)layout, rng);
    bench_close(&b);
}

#endif
