/* ONNX rules: operators that our table has with the same meaning. */
#include <string.h>

#include "formats/onnx_rules.h"

/* Our name of a mode that older versions call otherwise. */
static const char *mode_of(const char *given)
{
    if (strcmp(given, "bilinear") == 0)
        return "linear";
    return strcmp(given, "bicubic") == 0 ? "cubic" : given;
}

/* ---- activations with constants of their own ---- */

void onnx_rule_shaped(struct onnx_call *c, int which)
{
    mg_value x = mg_onnx_in(c, 0);
    bool selu = which == MG_OP_SELU;
    const struct mg_attr scaled[] = {A_REAL(ALPHA, mg_onnx_real(c, "alpha", selu ? 1.67326319217681884765625 : 1)),
                                     A_REAL(GAMMA, mg_onnx_real(c, "gamma", 1.05070102214813232421875))};
    const struct mg_attr shrunk[] = {A_REAL(BIAS, mg_onnx_real(c, "bias", 0)),
                                     A_REAL(LAMBD, mg_onnx_real(c, "lambd", 0.5))};
    mg_onnx_last(c);
    if (which == MG_OP_SHRINK)
        mg_onnx_add(c, MG_OP_SHRINK, OPERANDS(x), shrunk, 2, 1, NULL);
    else
        mg_onnx_add(c, (enum mg_op_type)which, OPERANDS(x), scaled, selu ? 2 : 1, 1, NULL);
}

void onnx_rule_bit_shift(struct onnx_call *c, int which)
{
    (void)which;
    mg_value x = mg_onnx_in(c, 0), by = mg_onnx_in(c, 1);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_BIT_SHIFT, OPERANDS(x, by), ATTRS(A_TEXT(DIRECTION, mg_onnx_text(c, "direction", "LEFT"))), 1,
                NULL);
}

/* ---- by index ---- */

void onnx_rule_indexed(struct onnx_call *c, int which)
{
    mg_value in[3] = {MG_NONE, MG_NONE, MG_NONE};
    bool by_tuples = which == MG_OP_GATHER_ND || which == MG_OP_SCATTER_ND;
    bool scatters = which == MG_OP_SCATTER_ELEMENTS || which == MG_OP_SCATTER_ND;
    struct mg_attr attrs[2];
    for (uint32_t i = 0; i < (scatters ? 3 : 2); i++)
        in[i] = mg_onnx_in(c, i);
    attrs[0] = by_tuples ? (struct mg_attr)A_INT(BATCH_DIMS, mg_onnx_int(c, "batch_dims", 0))
                         : (struct mg_attr)A_INT(AXIS, mg_onnx_int(c, "axis", 0));
    attrs[1] = (struct mg_attr)A_TEXT(REDUCTION, mg_onnx_text(c, "reduction", "none"));
    mg_onnx_last(c);
    mg_onnx_add(c, (enum mg_op_type)which, in, scatters ? 3 : 2, attrs, scatters ? 2 : 1, 1, NULL);
}

void onnx_rule_top_k(struct onnx_call *c, int which)
{
    (void)which;
    int64_t k = c->opset < 10 ? mg_onnx_int(c, "k", 0) : (int64_t)mg_onnx_known_scalar(c, 1, 0);
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_TOP_K, OPERANDS(x),
                ATTRS(A_INT(K, k), A_INT(AXIS, mg_onnx_int(c, "axis", -1)),
                      A_INT(LARGEST, mg_onnx_int(c, "largest", 1)), A_INT(SORTED, mg_onnx_int(c, "sorted", 1))),
                2, NULL);
}

/* ---- pooling and sampling ---- */

void onnx_rule_max_pool(struct onnx_call *c, int which)
{
    struct onnx_window w;
    (void)which;
    if (c->out_count < 2) {
        onnx_rule_pool(c, MG_OP_MAX_POOL);
        return;
    }
    mg_value x = mg_onnx_in(c, 0);
    onnx_window_of(c, mg_onnx_shape(c, 0), NULL, &w);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_MAX_POOL_INDICES, OPERANDS(x),
                ATTRS(A_INTS(KERNEL_SHAPE, w.kernel, w.rank), A_INTS(STRIDES, w.stride, w.rank),
                      A_INTS(PADS, w.pad, 2 * w.rank), A_INTS(DILATIONS, w.dilation, w.rank),
                      A_INT(CEIL_MODE, mg_onnx_int(c, "ceil_mode", 0)),
                      A_INT(STORAGE_ORDER, mg_onnx_int(c, "storage_order", 0))),
                2, NULL);
}

/* Back to the size from which windows come; a larger one that is asked for is filled up with zeros. */
void onnx_rule_max_unpool(struct onnx_call *c, int which)
{
    struct onnx_window w;
    const struct mg_shape in = *mg_onnx_shape(c, 0);
    int64_t size[MG_MAX_RANK], pads[2 * MG_MAX_RANK] = {0};
    bool grows = false;
    uint32_t count = 0;
    (void)which;
    onnx_window_of(c, &in, NULL, &w);
    const int64_t *want = mg_onnx_has(c, 2) ? mg_onnx_known_ints(c, 2, &count) : NULL;
    for (uint32_t d = 0; d < w.rank && c->code == MG_OK; d++) {
        size[d] = (in.dim[d + 2] - 1) * w.stride[d] + w.kernel[d] - w.pad[d] - w.pad[d + w.rank];
        pads[in.rank + 2 + d] = want && count == in.rank ? want[d + 2] - size[d] : 0;
        grows = grows || pads[in.rank + 2 + d] != 0;
    }
    if (c->code != MG_OK)
        return;
    mg_value x = mg_onnx_in(c, 0), indices = mg_onnx_in(c, 1);
    c->last = !grows;
    x = mg_onnx_add(c, MG_OP_MAX_UNPOOL, OPERANDS(x, indices), ATTRS(A_INTS(SPATIAL, size, w.rank)), 1, NULL);
    if (!grows)
        return;
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_PAD, OPERANDS(x), ATTRS(A_INTS(PADS, pads, 2 * in.rank)), 1, NULL);
}

void onnx_rule_grid_sample(struct onnx_call *c, int which)
{
    (void)which;
    mg_value x = mg_onnx_in(c, 0), grid = mg_onnx_in(c, 1);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_GRID_SAMPLE, OPERANDS(x, grid),
                ATTRS(A_TEXT(MODE, mode_of(mg_onnx_text(c, "mode", "linear"))),
                      A_TEXT(PADDING, mg_onnx_text(c, "padding_mode", "zeros")),
                      A_INT(ALIGN_CORNERS, mg_onnx_int(c, "align_corners", 0))),
                1, NULL);
}

void onnx_rule_roi_align(struct onnx_call *c, int which)
{
    (void)which;
    mg_value x = mg_onnx_in(c, 0), boxes = mg_onnx_in(c, 1), samples = mg_onnx_in(c, 2);
    const int64_t sizes[] = {mg_onnx_int(c, "output_height", 1), mg_onnx_int(c, "output_width", 1)};
    const char *usual = c->opset < 16 ? "output_half_pixel" : "half_pixel";
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_ROI_ALIGN, OPERANDS(x, boxes, samples),
                ATTRS(A_INTS(SPATIAL, sizes, 2), A_TEXT(MODE, mg_onnx_text(c, "mode", "avg")),
                      A_TEXT(COORDINATES, mg_onnx_text(c, "coordinate_transformation_mode", usual)),
                      A_INT(SAMPLING_RATIO, mg_onnx_int(c, "sampling_ratio", 0)),
                      A_REAL(SPATIAL_SCALE, mg_onnx_real(c, "spatial_scale", 1))),
                1, NULL);
}

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
