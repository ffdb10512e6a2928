/* Families of kernels: elements by index and by place, random numbers. */
#include "measure/cuda_family.h"

/* ---- by index, by place ---- */

bool mg_cuda_write_gather(struct family *f)
{
    bool spreads = f->p->op.type == MG_OP_SCATTER_ADD;
    const struct mg_shape *data = spreads ? &f->p->op.out_shape[0] : &f->p->op.in_shape[0];
    int64_t axis = integer(f, MG_ATTR_AXIS), before = 1, after = 1, picked = mg_shape_elements(&f->p->op.in_shape[1]);
    if (spreads && f->p->op.out_dtype[0] != MG_DTYPE_F32)
        return false;
    for (uint32_t d = 0; d < data->rank; d++) {
        before *= d < axis ? data->dim[d] : 1;
        after *= d > axis ? data->dim[d] : 1;
    }
    define(f, "F_GATHER", 1);
    define(f, "BEFORE", before);
    define(f, "EXTENT", data->dim[axis]);
    define(f, "AFTER", after);
    define(f, "PICKED", picked);
    if (spreads)
        define(f, "SPREADS", 1);
    if (spreads)
        threads(f, mg_shape_elements(data));
    threads(f, before * picked * after);
    return true;
}

bool mg_cuda_write_gather_elements(struct family *f)
{
    const struct mg_shape *data = &f->p->op.in_shape[0], *index = &f->p->op.in_shape[1];
    int64_t axis = integer(f, MG_ATTR_AXIS), strides[MG_MAX_RANK];
    mg_shape_strides(data, strides);
    define(f, "F_GATHER_ELEMENTS", 1);
    define(f, "COUNT", mg_shape_elements(index));
    define(f, "EXTENT", data->dim[axis]);
    define(f, "INNER", strides[axis]);
    strides[axis] = 0;
    mg_cuda_define_walk(f, "there_of", index, strides, (1u << index->rank) - 1);
    threads(f, mg_shape_elements(index));
    return true;
}

bool mg_cuda_write_one_hot(struct family *f)
{
    const struct mg_shape *out = &f->p->op.out_shape[0];
    int64_t axis = integer(f, MG_ATTR_AXIS), inner = 1;
    for (int64_t d = axis + 1; d < out->rank; d++)
        inner *= out->dim[d];
    define(f, "F_ONE_HOT", 1);
    define(f, "COUNT", mg_shape_elements(out));
    define(f, "EXTENT", out->dim[axis]);
    define(f, "INNER", inner);
    threads(f, mg_shape_elements(out));
    return true;
}

bool mg_cuda_write_flat(struct family *f)
{
    return mg_cuda_everywhere(f, "F_FLAT");
}

bool mg_cuda_write_triangle(struct family *f)
{
    const struct mg_shape *out = &f->p->op.out_shape[0];
    define(f, "ROWS", out->dim[out->rank - 2]);
    define(f, "COLUMNS", out->dim[out->rank - 1]);
    define(f, "DIAGONAL", integer(f, MG_ATTR_DIAGONAL));
    define(f, "UPPER", integer(f, MG_ATTR_UPPER));
    if (f->p->op.type == MG_OP_EYE)
        define(f, "IS_EYE", 1);
    return mg_cuda_everywhere(f, "F_TRIANGLE");
}

bool mg_cuda_write_iota(struct family *f)
{
    define_real(f, "START", mg_prepared_float(f->p, MG_ATTR_START));
    define_real(f, "DELTA", mg_prepared_float(f->p, MG_ATTR_DELTA));
    return mg_cuda_everywhere(f, "F_IOTA");
}

/* source_of() dimension by dimension: `index` is the result's, `at` becomes the operand's. */
static void open_source(struct family *f)
{
    mg_cuda_print(f->t, "__device__ long long source_of(long long i) { long long at = 0, index;");
}

bool mg_cuda_write_roll(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    int64_t strides[MG_MAX_RANK], shift[MG_MAX_RANK] = {0}, axis;
    mg_shape_strides(x, strides);
    for (uint32_t a = 0; (axis = mg_prepared_ints(f->p, MG_ATTR_AXES, a, -1)) >= 0; a++)
        shift[axis] = mg_prepared_ints(f->p, MG_ATTR_SHIFTS, a, 0) % x->dim[axis];
    open_source(f);
    for (uint32_t d = x->rank; d-- > 0;)
        mg_cuda_print(f->t,
                      " index = (i %% %" PRId64 "LL + %" PRId64 "LL) %% %" PRId64 "LL; i /= %" PRId64
                      "LL; at += index * %" PRId64 "LL;",
                      x->dim[d], x->dim[d] - shift[d], x->dim[d], x->dim[d], strides[d]);
    mg_cuda_print(f->t, " return at; }\n");
    return mg_cuda_everywhere(f, "F_SOURCE");
}

/* Modes reflect and edge; constant ones are moves. */
bool mg_cuda_write_pad(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0], *y = &f->p->op.out_shape[0];
    bool edge = mg_prepared_text_is(f->p, MG_ATTR_MODE, "edge");
    int64_t strides[MG_MAX_RANK];
    if (!edge && !mg_prepared_text_is(f->p, MG_ATTR_MODE, "reflect"))
        return false;
    mg_shape_strides(x, strides);
    open_source(f);
    for (uint32_t d = x->rank; d-- > 0;) {
        int64_t last = x->dim[d] - 1;
        mg_cuda_print(f->t, " index = i %% %" PRId64 "LL - %" PRId64 "LL; i /= %" PRId64 "LL;", y->dim[d],
                      mg_prepared_ints(f->p, MG_ATTR_PADS, d, 0), y->dim[d]);
        if (edge)
            mg_cuda_print(f->t, " index = index < 0 ? 0 : index > %" PRId64 "LL ? %" PRId64 "LL : index;", last, last);
        else
            mg_cuda_print(f->t, " index = index < 0 ? -index : index > %" PRId64 "LL ? %" PRId64 "LL - index : index;",
                          last, 2 * last);
        mg_cuda_print(f->t, " at += index * %" PRId64 "LL;", strides[d]);
    }
    mg_cuda_print(f->t, " return at; }\n");
    return mg_cuda_everywhere(f, "F_SOURCE");
}

bool mg_cuda_write_bits(struct family *f)
{
    const struct mg_shape *out = &f->p->op.out_shape[0];
    bool left = mg_prepared_text_is(f->p, MG_ATTR_DIRECTION, "LEFT"), unary = f->p->op.in_count == 1;
    const char *text = "x ^ y";
    if (f->p->op.type == MG_OP_BITWISE_AND)
        text = "x & y";
    else if (f->p->op.type == MG_OP_BITWISE_OR)
        text = "x | y";
    else if (f->p->op.type == MG_OP_BITWISE_NOT)
        text = "-1 - x";
    else if (f->p->op.type == MG_OP_BIT_SHIFT)
        text = left ? "y < 0 || y > 63 ? 0LL : (long long)((unsigned long long)x << y)"
                    : "y < 0 || y > 63 ? 0LL : (long long)((unsigned long long)x >> y)";
    define_as(f, "BITS", text);
    define(f, "IS_NOT_BOOL", unary && f->p->op.in_dtype[0] == MG_DTYPE_BOOL);
    mg_cuda_define_broadcast(f, "left_of", 0, out);
    define_as(f, "LEFT(o)", "IX0(left_of(o))");
    if (!unary)
        mg_cuda_define_broadcast(f, "right_of", 1, out);
    define_as(f, "RIGHT(o)", unary ? "0" : "IX1(right_of(o))");
    return mg_cuda_everywhere(f, "F_BITS");
}

/* ---- random numbers ---- */

bool mg_cuda_is_random(enum mg_op_type type)
{
    return type == MG_OP_DROPOUT || type == MG_OP_RANDOM_NORMAL || type == MG_OP_RANDOM_UNIFORM ||
           type == MG_OP_BERNOULLI || type == MG_OP_MULTINOMIAL;
}

/* The place in the whole result: sizes and corner come with each launch. */
static void define_place(struct family *f)
{
    const struct mg_shape *shape = &f->p->op.out_shape[0];
    mg_cuda_print(f->t, "__device__ long long place_of(");
    for (uint32_t d = 0; d < shape->rank; d++)
        mg_cuda_print(f->t, "long long lo%u, long long whole%u, ", d, d);
    mg_cuda_print(f->t, "long long i) { long long at = 0, step = 1;");
    for (uint32_t d = shape->rank; d-- > 0;)
        mg_cuda_print(f->t, " at += (i %% %" PRId64 "LL + lo%u) * step; i /= %" PRId64 "LL; step *= whole%u;",
                      shape->dim[d] ? shape->dim[d] : 1, d, shape->dim[d] ? shape->dim[d] : 1, d);
    mg_cuda_print(f->t, " return at; }\n#define ORIGIN_ARGUMENTS ");
    for (uint32_t d = 0; d < shape->rank; d++)
        mg_cuda_print(f->t, "%slo%u, whole%u", d ? ", " : "", d, d);
    mg_cuda_print(f->t, "\n");
}

static const char *draw_name(enum mg_op_type type)
{
    switch (type) {
    case MG_OP_DROPOUT:
        return "IS_DROPOUT";
    case MG_OP_RANDOM_NORMAL:
        return "IS_NORMAL";
    case MG_OP_RANDOM_UNIFORM:
        return "IS_UNIFORM";
    case MG_OP_MULTINOMIAL:
        return "IS_MULTINOMIAL";
    default:
        return "IS_BERNOULLI";
    }
}

bool mg_cuda_write_random_numbers(struct family *f)
{
    enum mg_op_type type = f->p->op.type;
    if (f->p->op.out_shape[0].rank == 0)
        return false;
    define(f, draw_name(type), 1);
    if (type == MG_OP_MULTINOMIAL)
        define(f, "CLASSES", f->p->op.in_shape[0].dim[1]);
    define(f, "DRAWS", f->p->op.out_shape[0].dim[f->p->op.out_shape[0].rank - 1]);
    define(f, "OWN_SEED", integer(f, MG_ATTR_SEED));
    define_real(f, "RATIO", mg_prepared_float(f->p, MG_ATTR_RATIO));
    define_real(f, "LOW", mg_prepared_float(f->p, MG_ATTR_LOW));
    define_real(f, "HIGH", mg_prepared_float(f->p, MG_ATTR_HIGH));
    define_real(f, "MEAN_VALUE", mg_prepared_float(f->p, MG_ATTR_MEAN));
    define_real(f, "DEVIATION", mg_prepared_float(f->p, MG_ATTR_SCALE));
    define_place(f);
    return mg_cuda_everywhere(f, "F_RANDOM");
}
