/* ONNX rules: columns to images, and random numbers. */
#include <string.h>

#include "formats/onnx_rules.h"

void onnx_rule_col2im(struct onnx_call *c, int which)
{
    uint32_t rank, kernel_rank, stride_count, pad_count, dilation_count;
    (void)which;
    const int64_t *sizes = mg_onnx_known_ints(c, 1, &rank), *kernel = mg_onnx_known_ints(c, 2, &kernel_rank);
    const int64_t *strides = mg_onnx_ints(c, "strides", &stride_count), *pads = mg_onnx_ints(c, "pads", &pad_count);
    const int64_t *dilations = mg_onnx_ints(c, "dilations", &dilation_count);
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_COL2IM, OPERANDS(x),
                ATTRS(A_INTS(SPATIAL, sizes, rank), A_INTS(KERNEL_SHAPE, kernel, kernel_rank),
                      A_INTS(STRIDES, strides, strides ? stride_count : 0), A_INTS(PADS, pads, pads ? pad_count : 0),
                      A_INTS(DILATIONS, dilations, dilations ? dilation_count : 0)),
                1, NULL);
}

/* ---- random numbers ---- */

/* The attribute `dtype`, or what it is without. */
static const char *asked_dtype(struct onnx_call *c, enum mg_dtype usual)
{
    int64_t given = mg_onnx_int(c, "dtype", 0);
    if (given && !mg_onnx_dtype(given, &usual))
        mg_onnx_unsupported(c, "of %s", mg_onnx_dtype_text(given));
    return mg_dtype_name(usual);
}

static int64_t seed_of(struct onnx_call *c)
{
    double seed = mg_onnx_real(c, "seed", 0);
    return seed > -1e9 && seed < 1e9 ? (int64_t)seed : 0;
}

/* Of a stated shape, or of an operand's. */
void onnx_rule_random(struct onnx_call *c, int which)
{
    bool like = c->in_count > 0;
    uint32_t rank = 0;
    const int64_t *dims = like ? mg_onnx_shape(c, 0)->dim : mg_onnx_ints(c, "shape", &rank);
    rank = like ? mg_onnx_shape(c, 0)->rank : rank;
    bool normal = which == MG_OP_RANDOM_NORMAL;
    const char *to = asked_dtype(c, like ? mg_onnx_dtype_of(c, 0) : MG_DTYPE_F32);
    const struct mg_attr attrs[] = {A_INTS(SHAPE, dims, rank), A_TEXT(TO, to), A_INT(SEED, seed_of(c)),
                                    normal ? (struct mg_attr)A_REAL(MEAN, mg_onnx_real(c, "mean", 0))
                                           : (struct mg_attr)A_REAL(LOW, mg_onnx_real(c, "low", 0)),
                                    normal ? (struct mg_attr)A_REAL(SCALE, mg_onnx_real(c, "scale", 1))
                                           : (struct mg_attr)A_REAL(HIGH, mg_onnx_real(c, "high", 1))};
    mg_onnx_last(c);
    mg_onnx_add(c, (enum mg_op_type)which, NULL, 0, attrs, 5, 1, NULL);
}

/* From probabilities. */
void onnx_rule_drawn(struct onnx_call *c, int which)
{
    bool one = which == MG_OP_BERNOULLI;
    mg_value x = mg_onnx_in(c, 0);
    const struct mg_attr attrs[] = {A_TEXT(TO, asked_dtype(c, one ? mg_onnx_dtype_of(c, 0) : MG_DTYPE_I32)),
                                    A_INT(SEED, seed_of(c)), A_INT(SAMPLE_SIZE, mg_onnx_int(c, "sample_size", 1))};
    mg_onnx_last(c);
    mg_onnx_add(c, (enum mg_op_type)which, OPERANDS(x), attrs, one ? 2 : 3, 1, NULL);
}
