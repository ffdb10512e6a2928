/* Families of kernels: einsum, attention, recurrent layers and quantized products, whatever their layout: no library is
 * asked for these (those it is asked for have theirs in cuda_stand_ins.c). They make plans run; as on a device
 * libraries do this many times faster, they are not timed. */
#include "measure/cuda_family.h"

#include <stdio.h>
#include <string.h>

#include "graph/einsum.h"

/* ---- einsum ---- */

/* The letters that are summed over, as a shape; false: too many. */
static bool summed_letters(const struct mg_einsum *e, const int64_t *size, char *letters, struct mg_shape *shape)
{
    shape->rank = 0;
    for (char c = 'A'; c <= (char)'z'; c++) {
        if ((c > 'Z' && c < 'a') || size[mg_einsum_index(c)] == 0 || mg_einsum_at(MG_EINSUM_RESULT(e), c) >= 0)
            continue;
        if (shape->rank == MG_MAX_RANK)
            return false;
        letters[shape->rank] = c;
        shape->dim[shape->rank++] = size[mg_einsum_index(c)];
    }
    return true;
}

static void define_steps(struct family *f, const struct mg_einsum *e, uint32_t i, const char *letters,
                         const struct mg_shape *shape, const char *side)
{
    int64_t strides[MG_MAX_RANK];
    char name[24];
    for (uint32_t d = 0; d < shape->rank; d++)
        strides[d] = mg_einsum_stride(e->letters[i], &f->p->op.in_shape[i], letters[d]);
    snprintf(name, sizeof name, "%s_%u", side, i);
    mg_cuda_define_walk(f, name, shape, strides, (1u << shape->rank) - 1);
}

bool mg_cuda_write_einsum(struct family *f)
{
    const struct mg_op_desc *op = &f->p->op;
    const struct mg_attr *equation = mg_attr_find(op->attrs, op->attr_count, MG_ATTR_EQUATION);
    int64_t size[MG_EINSUM_LETTERS];
    char letters[MG_MAX_RANK];
    struct mg_shape summed;
    struct mg_einsum e;
    mg_einsum_parse(equation->string, &e);
    const char *result = MG_EINSUM_RESULT(&e);
    for (uint32_t d = 0; result[d]; d++)
        if (strchr(result + d + 1, result[d]))
            return false; /* a diagonal, the rest of which is zero */
    if (!mg_einsum_sizes(&e, op->in_shape, size) || !summed_letters(&e, size, letters, &summed))
        return false;
    define(f, "F_EINSUM", 1);
    define(f, "EXTENT", mg_shape_elements(&summed));
    for (uint32_t i = 0; i < e.operands; i++) {
        define_steps(f, &e, i, result, &op->out_shape[0], "out");
        define_steps(f, &e, i, letters, &summed, "sum");
    }
    mg_cuda_print(f->t, "#define TERM(o, r) (1");
    for (uint32_t i = 0; i < e.operands; i++)
        mg_cuda_print(f->t, " * IN%u(out_%u(o) + sum_%u(r))", i, i, i);
    mg_cuda_print(f->t, ")\n");
    mg_cuda_only_stand_in(f);
    return mg_cuda_everywhere(f, "F_EINSUM_RESULT");
}

/* ---- attention ---- */

/* Operands from `first` on are q, k, v; `mask` may be beyond the last. */
static int64_t define_attention(struct family *f, uint32_t first, uint32_t mask, int64_t *shared)
{
    const struct mg_shape *q = &f->p->op.in_shape[first], *k = q + 1, *v = q + 2;
    struct mg_shape scores = *q;
    uint32_t r = q->rank;
    int64_t heads = 1;
    for (uint32_t d = 0; d + 2 < r; d++)
        heads *= q->dim[d];
    *shared = q->dim[r - 3] / k->dim[r - 3];
    define(f, "F_ATTENTION", 1);
    define(f, "HEADS", heads);
    define(f, "SHARED", *shared);
    define(f, "QUERIES", q->dim[r - 2]);
    define(f, "KEYS", k->dim[r - 2]);
    define(f, "DIM", q->dim[r - 1]);
    define(f, "VALUE_DIM", v->dim[r - 1]);
    define(f, "CAUSAL", integer(f, MG_ATTR_CAUSAL));
    define_real(f, "SCALE", mg_prepared_float(f->p, MG_ATTR_SCALE));
    mg_cuda_print(f->t, "#define A_Q IN%u\n#define A_K IN%u\n#define A_V IN%u\n", first, first + 1, first + 2);
    scores.dim[r - 1] = k->dim[r - 2];
    if (mask < f->p->op.in_count) {
        mg_cuda_define_broadcast(f, "mask_of", mask, &scores);
        mg_cuda_print(f->t, "#define MASK(o) IN%u(mask_of(o))\n", mask);
    } else
        define_as(f, "MASK(o)", "0");
    mg_cuda_only_stand_in(f);
    return heads;
}

bool mg_cuda_write_attention(struct family *f)
{
    int64_t shared, heads = define_attention(f, 0, 3, &shared);
    define(f, "F_ATTENTION_FORWARD", 1);
    threads(f, heads * f->p->op.in_shape[0].dim[f->p->op.in_shape[0].rank - 2]);
    return true;
}

bool mg_cuda_write_attention_grad(struct family *f)
{
    int64_t shared;
    define_attention(f, 1, 6, &shared);
    define(f, "F_ATTENTION_BACKWARD", 1);
    for (uint32_t i = 0; i < 3; i++)
        threads(f, mg_shape_elements(&f->p->op.out_shape[i]));
    return true;
}

/* ---- recurrent layers ---- */

enum { MOST_UNITS = 2048 }; /* what a block shares holds three numbers for each */

static void define_optional(struct family *f, const char *name, uint32_t operand)
{
    if (operand < f->p->op.in_count)
        mg_cuda_print(f->t, "#define %s(i) IN%u(i)\n", name, operand);
    else
        mg_cuda_print(f->t, "#define %s(i) ((num)0)\n", name);
}

bool mg_cuda_write_recurrent(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    enum mg_op_type type = f->p->op.type;
    int64_t units = f->p->op.out_shape[1].dim[2];
    if (units > MOST_UNITS)
        return false;
    define(f, "F_RECURRENT", 1);
    define(f, type == MG_OP_LSTM ? "IS_LSTM" : type == MG_OP_GRU ? "IS_GRU" : "IS_RNN", 1);
    define(f, "STEPS", x->dim[0]);
    define(f, "SAMPLES", x->dim[1]);
    define(f, "INPUTS", x->dim[2]);
    define(f, "UNITS", units);
    define(f, "GATES", type == MG_OP_LSTM ? 4 : type == MG_OP_GRU ? 3 : 1);
    define(f, "REVERSE", integer(f, MG_ATTR_REVERSE));
    define(f, "RESETS_LAST", integer(f, MG_ATTR_LINEAR_BEFORE_RESET));
    define(f, "IS_RELU", type == MG_OP_RNN && mg_prepared_text_is(f->p, MG_ATTR_ACTIVATION, "relu"));
    define_optional(f, "BIAS", 3);
    define_optional(f, "START_STATE", 4);
    define_optional(f, "START_MEMORY", 5);
    define_optional(f, "HOLE", 6);
    rows(f, x->dim[1], CUDA_SHORT_ROW);
    mg_cuda_only_stand_in(f);
    return true;
}

/* ---- quantized products ---- */

static int64_t count_of(const struct family *f, uint32_t operand)
{
    return mg_shape_elements(&f->p->op.in_shape[operand]);
}

/* Whole numbers of an operand that is one for all, one for each index, or not there. */
static void define_points(struct family *f, const char *name, uint32_t operand, const char *access)
{
    if (operand >= f->p->op.in_count)
        mg_cuda_print(f->t, "#define %s(i) 0\n", name);
    else
        mg_cuda_print(f->t, "#define %s(i) %s%u(%s)\n", name, access, operand, count_of(f, operand) == 1 ? "0" : "i");
}

void mg_cuda_define_limits(struct family *f, enum mg_dtype dtype)
{
    static const struct {
        enum mg_dtype dtype;
        int64_t least, most;
    } limits[] = {{MG_DTYPE_U8, 0, 255},
                  {MG_DTYPE_I8, -128, 127},
                  {MG_DTYPE_I16, INT16_MIN, INT16_MAX},
                  {MG_DTYPE_I32, INT32_MIN, INT32_MAX}};
    define(f, "F_QUANTIZED", 1);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].dtype == dtype) {
            define(f, "LEAST", limits[i].least);
            define(f, "MOST", limits[i].most);
        }
}

/* Where operands stand: with scales of its own an operator has three for each tensor. */
static uint32_t define_tensors(struct family *f)
{
    bool rounds = f->p->op.type == MG_OP_QLINEAR_MATMUL || f->p->op.type == MG_OP_QLINEAR_CONV;
    mg_cuda_define_limits(f, f->p->op.out_dtype[0]);
    define(f, "F_QUANTIZED_PRODUCT", 1);
    mg_cuda_print(f->t, "#define Q_B IX%d\n", rounds ? 3 : 1);
    define_points(f, "ZERO_A", 2, "IX");
    define_points(f, "ZERO_B", rounds ? 5 : 3, "IX");
    if (rounds) {
        define(f, "ROUNDS", 1);
        define_points(f, "SCALE_A", 1, "IN");
        define_points(f, "SCALE_B", 4, "IN");
        define_points(f, "ADDED", 8, "IX");
    }
    mg_cuda_only_stand_in(f);
    return rounds ? 3 : 1;
}

bool mg_cuda_write_quantized_matmul(struct family *f)
{
    const struct mg_shape *a = &f->p->op.in_shape[0], *c = &f->p->op.out_shape[0];
    uint32_t b = define_tensors(f);
    struct mg_shape batch = *c;
    if (f->p->op.in_shape[b].rank < 2 || a->rank < 2)
        return false;
    batch.rank = c->rank - 2;
    mg_cuda_define_batch(f, "batch_a", 0, &batch);
    mg_cuda_define_batch(f, "batch_b", b, &batch);
    define(f, "M", c->dim[c->rank - 2]);
    define(f, "N", c->dim[c->rank - 1]);
    define(f, "K", a->dim[a->rank - 1]);
    return mg_cuda_everywhere(f, "F_QUANTIZED_MATMUL");
}

bool mg_cuda_write_quantized_conv(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0], *y = &f->p->op.out_shape[0];
    uint32_t b = define_tensors(f);
    int64_t group = integer(f, MG_ATTR_GROUP);
    if (!mg_cuda_define_windows(f, x, y))
        return false;
    mg_cuda_define_sizes(f, "W", &f->p->op.in_shape[b]);
    define(f, "SAMPLES", x->dim[0]);
    define(f, "GROUP", group);
    define(f, "PER_X", x->dim[1] / group);
    define(f, "PER_Y", y->dim[1] / group);
    return mg_cuda_everywhere(f, "F_QUANTIZED_CONV");
}
