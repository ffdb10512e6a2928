/* Our operators as ONNX nodes: movement, picking, and what is made from nothing. */
#include "export/onnx_emit.h"

void mg_emit_reshape_to(const struct mg_emit *e, const char *name)
{
    (void)name;
    mg_emit_reshape(e, e->out[0], e->in[0], &e->d->out_shape[0]);
}

void mg_emit_expand(const struct mg_emit *e, const char *name)
{
    const struct mg_shape *shape = &e->d->out_shape[0];
    mg_emit_binary(e, e->out[0], name, e->in[0], mg_emit_ints(e->s, shape->dim, shape->rank));
}

static const char *cut(const struct mg_emit *e, const char *out, const char *x, int64_t axis, int64_t begin,
                       int64_t end)
{
    const char *from = mg_emit_ints(e->s, &begin, 1), *to = mg_emit_ints(e->s, &end, 1);
    return mg_emit_one(e->s, out, "Slice", IN(x, from, to, mg_emit_ints(e->s, &axis, 1)), NULL);
}

void mg_emit_slice(const struct mg_emit *e, const char *name)
{
    static const enum mg_attr_key keys[] = {MG_ATTR_STARTS, MG_ATTR_ENDS, MG_ATTR_AXES, MG_ATTR_STEPS};
    const char *in[5] = {e->in[0]};
    for (int i = 0; i < 4; i++) {
        uint32_t count;
        const int64_t *list = mg_emit_list(e, keys[i], &count);
        in[i + 1] = mg_emit_ints(e->s, list, count);
    }
    mg_emit_one(e->s, e->out[0], name, in, 5, NULL);
}

void mg_emit_split(const struct mg_emit *e, const char *name)
{
    uint32_t count = e->d->out_count;
    int64_t axis = mg_emit_int(e, MG_ATTR_AXIS), *sizes = MG_NEW_ARRAY(e->s->arena, int64_t, count + 1);
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = e->d->out_shape[i].dim[axis];
    const char *by = mg_emit_ints(e->s, sizes, count);
    mg_emit_node(e->s, name, IN(e->in[0], by), mg_emit_all(e), count, FIELDS(F_INT("axis", axis)));
}

void mg_emit_pad(const struct mg_emit *e, const char *name)
{
    uint32_t count;
    const int64_t *pads = mg_emit_list(e, MG_ATTR_PADS, &count);
    const char *mode = mg_emit_text(e, MG_ATTR_MODE), *by = mg_emit_ints(e->s, pads, count), *value = "";
    if (strcmp(mode, "constant") == 0)
        value = mg_emit_number(e->s, mg_emit_dtype(e), mg_emit_real(e, MG_ATTR_VALUE));
    mg_emit_one(e->s, e->out[0], name, IN(e->in[0], by, value), FIELDS(F_TEXT("mode", mode)));
}

void mg_emit_tile(const struct mg_emit *e, const char *name)
{
    uint32_t count;
    const int64_t *repeats = mg_emit_list(e, MG_ATTR_REPEATS, &count);
    mg_emit_binary(e, e->out[0], name, e->in[0], mg_emit_ints(e->s, repeats, count));
}

/* ScatterElements and ScatterND. */
void mg_emit_scatter(const struct mg_emit *e, const char *name)
{
    const char *reduction = mg_emit_text(e, MG_ATTR_REDUCTION);
    bool elements = e->d->type == MG_OP_SCATTER_ELEMENTS;
    if (strcmp(reduction, "max") == 0 || strcmp(reduction, "min") == 0) {
        mg_emit_refuse(e, "with reduction %s, which opset %d has not", reduction, MG_ONNX_OPSET);
        return;
    }
    if (!elements && mg_emit_int(e, MG_ATTR_BATCH_DIMS)) {
        mg_emit_refuse(e, "with batch_dims");
        return;
    }
    struct mg_field fields[] = {
        F_TEXT("reduction", reduction), F_INT("axis", mg_emit_int(e, MG_ATTR_AXIS)), {.name = NULL}};
    if (!elements)
        fields[1].name = NULL;
    mg_emit_one(e->s, e->out[0], name, e->in, 3, fields);
}

void mg_emit_one_hot(const struct mg_emit *e, const char *name)
{
    const char *depth = mg_emit_number(e->s, MG_DTYPE_I64, (double)mg_emit_int(e, MG_ATTR_DEPTH));
    mg_emit_one(e->s, e->out[0], name, IN(e->in[0], depth, e->in[1]),
                FIELDS(F_INT("axis", mg_emit_int(e, MG_ATTR_AXIS))));
}

void mg_emit_top_k(const struct mg_emit *e, const char *name)
{
    int64_t k = mg_emit_int(e, MG_ATTR_K);
    mg_emit_node(e->s, name, IN(e->in[0], mg_emit_ints(e->s, &k, 1)), mg_emit_all(e), 2,
                 FIELDS(F_INT("axis", mg_emit_int(e, MG_ATTR_AXIS)), F_INT("largest", mg_emit_int(e, MG_ATTR_LARGEST)),
                        F_INT("sorted", mg_emit_int(e, MG_ATTR_SORTED))));
}

void mg_emit_trilu(const struct mg_emit *e, const char *name)
{
    const char *k = mg_emit_number(e->s, MG_DTYPE_I64, (double)mg_emit_int(e, MG_ATTR_DIAGONAL));
    mg_emit_one(e->s, e->out[0], name, IN(e->in[0], k), FIELDS(F_INT("upper", mg_emit_int(e, MG_ATTR_UPPER))));
}

void mg_emit_reverse(const struct mg_emit *e, const char *name)
{
    int64_t last[MG_MAX_RANK], least[MG_MAX_RANK];
    uint32_t count;
    const int64_t *axes = mg_emit_list(e, MG_ATTR_AXES, &count);
    (void)name;
    for (uint32_t i = 0; i < count; i++) {
        last[i] = -1;
        least[i] = INT64_MIN;
    }
    const char *from = mg_emit_ints(e->s, last, count), *to = mg_emit_ints(e->s, least, count);
    mg_emit_one(e->s, e->out[0], "Slice", IN(e->in[0], from, to, mg_emit_ints(e->s, axes, count), from), NULL);
}

void mg_emit_roll(const struct mg_emit *e, const char *name)
{
    uint32_t count, shift_count;
    const int64_t *axes = mg_emit_list(e, MG_ATTR_AXES, &count),
                  *shifts = mg_emit_list(e, MG_ATTR_SHIFTS, &shift_count);
    const char *x = e->in[0];
    (void)name;
    for (uint32_t i = 0; i < count && i < shift_count; i++) {
        int64_t size = e->d->in_shape[0].dim[axes[i]], by = size ? (shifts[i] % size + size) % size : 0;
        if (!by)
            continue;
        const char *tail = cut(e, NULL, x, axes[i], size - by, size), *head = cut(e, NULL, x, axes[i], 0, size - by);
        x = mg_emit_one(e->s, NULL, "Concat", IN(tail, head), FIELDS(F_INT("axis", axes[i])));
    }
    mg_emit_unary(e, e->out[0], "Identity", x);
}

/* Opset 17 has only the order that puts the block before the channel. */
void mg_emit_space_to_depth(const struct mg_emit *e, const char *name)
{
    static const int64_t perm[] = {0, 1, 3, 5, 2, 4};
    const struct mg_shape *x = &e->d->in_shape[0];
    int64_t b = mg_emit_int(e, MG_ATTR_BLOCKSIZE);
    if (strcmp(mg_emit_text(e, MG_ATTR_MODE), "DCR") == 0) {
        mg_emit_one(e->s, e->out[0], name, e->in, 1, FIELDS(F_INT("blocksize", b)));
        return;
    }
    const struct mg_shape blocks = {.rank = 6, .dim = {x->dim[0], x->dim[1], x->dim[2] / b, b, x->dim[3] / b, b}};
    const char *y = mg_emit_reshape(e, NULL, e->in[0], &blocks);
    y = mg_emit_one(e->s, NULL, "Transpose", IN(y), FIELDS(F_INTS("perm", perm, 6)));
    mg_emit_reshape(e, e->out[0], y, &e->d->out_shape[0]);
}

/* ---- without operands ---- */

void mg_emit_fill(const struct mg_emit *e, const char *name)
{
    (void)name;
    mg_emit_filled(e, e->out[0], &e->d->out_shape[0], e->d->out_dtype[0], mg_emit_real(e, MG_ATTR_VALUE));
}

/* Counted in whole numbers, so that the size is exact. */
void mg_emit_iota(const struct mg_emit *e, const char *name)
{
    double start = mg_emit_real(e, MG_ATTR_START), delta = mg_emit_real(e, MG_ATTR_DELTA);
    enum mg_dtype dtype = e->d->out_dtype[0];
    const char *zero = mg_emit_number(e->s, MG_DTYPE_I64, 0), *one = mg_emit_number(e->s, MG_DTYPE_I64, 1);
    const char *size = mg_emit_number(e->s, MG_DTYPE_I64, (double)e->d->out_shape[0].dim[0]);
    const char *x = mg_emit_one(e->s, NULL, name, IN(zero, size, one), NULL);
    if (dtype != MG_DTYPE_I64)
        x = mg_emit_one(e->s, NULL, "Cast", IN(x), FIELDS(F_INT("to", mg_onnx_elem_type(dtype))));
    if (delta != 1)
        x = mg_emit_by(e, NULL, "Mul", x, delta);
    mg_emit_by(e, e->out[0], "Add", x, start);
}

void mg_emit_eye(const struct mg_emit *e, const char *name)
{
    enum mg_dtype dtype = e->d->out_dtype[0];
    const char *like = mg_emit_filled(e, NULL, &e->d->out_shape[0], dtype, 0);
    mg_emit_one(e->s, e->out[0], name, IN(like),
                FIELDS(F_INT("k", mg_emit_int(e, MG_ATTR_DIAGONAL)), F_INT("dtype", mg_onnx_elem_type(dtype))));
}
