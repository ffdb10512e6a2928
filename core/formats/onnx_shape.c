/* ONNX rules: what is known from shapes and attributes alone. */
#include <math.h>
#include <string.h>

#include "formats/onnx_rules.h"

enum { MAX_FOLDED = 1 << 16 };

void onnx_rule_shape(struct onnx_call *c, int which)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    int64_t start = mg_onnx_int(c, "start", 0), end = mg_onnx_int(c, "end", in->rank), rank = in->rank;
    (void)which;
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end > rank ? rank : end;
    mg_onnx_fold(c, 0, onnx_integers(c, in->dim + start, end > start ? (uint32_t)(end - start) : 0));
}

void onnx_rule_size(struct onnx_call *c, int which)
{
    int64_t size = mg_shape_elements(mg_onnx_shape(c, 0));
    struct mg_onnx_data *data = onnx_integers(c, &size, 1);
    (void)which;
    data->shape.rank = 0;
    mg_onnx_fold(c, 0, data);
}

/* ---- Constant ---- */

static void constant_of_tensor(struct onnx_call *c, const struct onnx_tensor *tensor)
{
    struct mg_onnx_data shape = {0};
    const struct mg_onnx_data *data = NULL;
    struct mg_error err;
    enum mg_code code = mg_onnx_decode(tensor, c->m->arena, "its tensor", &shape, &data, &err);
    if (code == MG_ERR_UNSUPPORTED) {
        mg_onnx_unsupported(c, "%s", err.message);
    } else if (code != MG_OK) {
        mg_onnx_invalid(c, "%s", err.message);
    } else if (data && !tensor->large) {
        mg_onnx_fold(c, 0, data);
    } else {
        /* too large to be looked at: its shape is enough */
        mg_onnx_fold(c, 0, &shape);
        c->out[0]->data = NULL;
        c->out[0]->stored = data;
        c->out[0]->constant = false;
        c->out[0]->origin = ONNX_INITIALIZER;
    }
}

void onnx_rule_constant(struct onnx_call *c, int which)
{
    const struct onnx_attribute *attribute;
    struct mg_onnx_data *data = MG_NEW(c->m->arena, struct mg_onnx_data);
    (void)which;
    *data = (struct mg_onnx_data){.dtype = MG_DTYPE_F32};
    if ((attribute = mg_onnx_attr(c, "value")) && attribute->tensor) {
        constant_of_tensor(c, attribute->tensor);
        return;
    }
    if ((attribute = mg_onnx_attr(c, "value_int")) || (attribute = mg_onnx_attr(c, "value_ints"))) {
        bool list = attribute->ints.count || strcmp(attribute->name, "value_ints") == 0;
        data = onnx_integers(c, list ? attribute->ints.items : &attribute->i.value, list ? attribute->ints.count : 1);
        data->shape.rank = list;
    } else if ((attribute = mg_onnx_attr(c, "value_float")) || (attribute = mg_onnx_attr(c, "value_floats"))) {
        bool list = attribute->floats.count || strcmp(attribute->name, "value_floats") == 0;
        uint32_t count = list ? attribute->floats.count : 1;
        double *real = MG_NEW_ARRAY(c->m->arena, double, count + 1);
        for (uint32_t i = 0; i < count; i++)
            real[i] = (double)(list ? *ONNX_AT(attribute->floats, float, i) : attribute->f);
        data->shape = (struct mg_shape){.rank = list, .dim = {count}};
        data->real = real;
    } else {
        mg_onnx_unsupported(c, "a sparse tensor, or texts");
    }
    mg_onnx_fold(c, 0, data);
}

void onnx_rule_constant_of_shape(struct onnx_call *c, int which)
{
    static const double zero[1];
    const struct onnx_attribute *attribute = mg_onnx_attr(c, "value");
    const struct mg_onnx_data *content = NULL;
    struct mg_onnx_data shape = {.dtype = MG_DTYPE_F32, .real = zero};
    struct mg_error err;
    uint32_t rank;
    const int64_t *dims = mg_onnx_known_ints(c, 0, &rank);
    (void)which;
    if (attribute && attribute->tensor &&
        mg_onnx_decode(attribute->tensor, c->m->arena, "its value", &shape, &content, &err) != MG_OK)
        mg_onnx_unsupported(c, "%s", err.message);
    struct mg_onnx_data *data = mg_arena_copy(c->m->arena, content ? content : &shape, sizeof shape);
    if (rank > MG_MAX_RANK)
        mg_onnx_unsupported(c, "%u dimensions", rank);
    if (c->code != MG_OK)
        return;
    data->uniform = true;
    data->shape = (struct mg_shape){.rank = rank};
    memcpy(data->shape.dim, dims, rank * sizeof *dims);
    if (!mg_shape_fits(&data->shape, data->dtype))
        mg_onnx_invalid(c, "the shape is negative or too large");
    mg_onnx_fold(c, 0, data);
}

static int64_t range_size(double start, double limit, double delta)
{
    double count = delta == 0 ? -1 : (limit - start) / delta;
    if (!(count < 1e15))
        return -1;
    int64_t whole = count > 0 ? (int64_t)count : 0;
    return whole + ((double)whole < count);
}

void onnx_rule_range(struct onnx_call *c, int which)
{
    double start = mg_onnx_known_scalar(c, 0, 0), limit = mg_onnx_known_scalar(c, 1, 0),
           delta = mg_onnx_known_scalar(c, 2, 1);
    enum mg_dtype dtype = mg_onnx_dtype_of(c, 0);
    int64_t size = range_size(start, limit, delta);
    (void)which;
    if (size < 0)
        mg_onnx_invalid(c, "the range has no end");
    bool exact = fabs(start) <= ONNX_EXACT && fabs(limit) <= ONNX_EXACT && fabs(delta) <= ONNX_EXACT;
    if (dtype >= MG_DTYPE_I64 && exact && size >= 0 && size <= 4096 && c->m->folded < MG_ONNX_FOLDED &&
        c->code == MG_OK) {
        int64_t *list = MG_NEW_ARRAY(c->m->arena, int64_t, size + 1);
        for (int64_t i = 0; i < size; i++)
            list[i] = (int64_t)start + i * (int64_t)delta;
        struct mg_onnx_data *data = onnx_integers(c, list, (uint32_t)size);
        data->dtype = dtype;
        mg_onnx_fold(c, 0, data);
        return;
    }
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_IOTA, NULL, 0,
                ATTRS(A_INT(SIZE, size), A_TEXT(TO, mg_dtype_name(dtype)), A_REAL(START, start), A_REAL(DELTA, delta)),
                1, NULL);
}

void onnx_rule_eye_like(struct onnx_call *c, int which)
{
    const struct mg_shape in = *mg_onnx_shape(c, 0);
    enum mg_dtype dtype = mg_onnx_dtype_of(c, 0);
    int64_t to = mg_onnx_int(c, "dtype", 0);
    (void)which;
    if (to && !mg_onnx_dtype(to, &dtype))
        mg_onnx_unsupported(c, "of %s", mg_onnx_dtype_text(to));
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_EYE, NULL, 0,
                ATTRS(A_INTS(SHAPE, in.dim, in.rank), A_TEXT(TO, mg_dtype_name(dtype)),
                      A_INT(DIAGONAL, mg_onnx_int(c, "k", 0))),
                1, NULL);
}

void onnx_rule_non_zero(struct onnx_call *c, int which)
{
    const struct mg_onnx_data *in = mg_onnx_known(c, 0);
    int64_t total = in ? mg_shape_elements(&in->shape) : 0, hits = 0;
    (void)which;
    if (total > MAX_FOLDED)
        mg_onnx_unsupported(c, "of %lld elements", (long long)total);
    if (c->code != MG_OK || !in)
        return;
    uint32_t rank = in->shape.rank ? in->shape.rank : 1;
    for (int64_t i = 0; i < total; i++)
        hits += mg_onnx_data_at(in, i) != 0;
    int64_t *list = MG_NEW_ARRAY(c->m->arena, int64_t, rank * hits + 1), at = 0;
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i;
        if (mg_onnx_data_at(in, i) == 0)
            continue;
        for (uint32_t d = rank; d-- > 0; rest /= in->shape.rank ? in->shape.dim[d] : 1)
            list[d * hits + at] = in->shape.rank ? rest % in->shape.dim[d] : 0;
        at++;
    }
    struct mg_onnx_data *data = onnx_integers(c, list, (uint32_t)(rank * hits));
    data->shape = (struct mg_shape){.rank = 2, .dim = {rank, hits}};
    mg_onnx_fold(c, 0, data);
}
