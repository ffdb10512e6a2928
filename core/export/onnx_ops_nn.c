/* Our operators as ONNX nodes: contractions, normalisation, pooling, attention, recurrent layers, quantized numbers. */
#include <math.h>

#include "export/onnx_emit.h"

/* ---- contractions ---- */

static const char *turned(const struct mg_emit *e, const char *x, uint32_t rank)
{
    int64_t perm[MG_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
        perm[d] = d + 2 == rank ? rank - 1 : d + 1 == rank ? rank - 2 : d;
    return mg_emit_one(e->s, NULL, "Transpose", IN(x), FIELDS(F_INTS("perm", perm, rank)));
}

static void gemm(const struct mg_emit *e, double alpha, double beta)
{
    mg_emit_one(e->s, e->out[0], "Gemm", e->in, e->d->in_count,
                FIELDS(F_REAL("alpha", alpha), F_REAL("beta", beta), F_INT("transA", mg_emit_int(e, MG_ATTR_TRANS_A)),
                       F_INT("transB", mg_emit_int(e, MG_ATTR_TRANS_B))));
}

void mg_emit_gemm(const struct mg_emit *e, const char *name)
{
    (void)name;
    gemm(e, mg_emit_real(e, MG_ATTR_ALPHA), mg_emit_real(e, MG_ATTR_BETA));
}

/* alpha a b + c. Of matrices it is a Gemm. */
void mg_emit_matmul(const struct mg_emit *e, const char *name)
{
    const struct mg_op_desc *d = e->d;
    bool trans_a = mg_emit_int(e, MG_ATTR_TRANS_A), trans_b = mg_emit_int(e, MG_ATTR_TRANS_B), sum = d->in_count > 2;
    double alpha = mg_emit_real(e, MG_ATTR_ALPHA);
    const char *a = e->in[0], *b = e->in[1];
    bool plain = !trans_a && !trans_b && alpha == 1 && !sum;
    if (!plain && d->in_shape[0].rank == 2 && d->in_shape[1].rank == 2) {
        gemm(e, alpha, 1);
        return;
    }
    a = trans_a ? turned(e, a, d->in_shape[0].rank) : a;
    b = trans_b ? turned(e, b, d->in_shape[1].rank) : b;
    const char *y = mg_emit_binary(e, alpha == 1 && !sum ? e->out[0] : NULL, name, a, b);
    if (alpha != 1)
        y = mg_emit_by(e, sum ? NULL : e->out[0], "Mul", y, alpha);
    if (sum)
        mg_emit_binary(e, e->out[0], "Add", y, e->in[2]);
}

static void window_fields(const struct mg_emit *e, struct mg_field *fields)
{
    static const enum mg_attr_key keys[] = {MG_ATTR_STRIDES, MG_ATTR_PADS, MG_ATTR_DILATIONS};
    for (int i = 0; i < 3; i++) {
        fields[i] = (struct mg_field){.name = mg_attr_name(keys[i]), .kind = MG_FIELD_INTS};
        fields[i].ints = mg_emit_list(e, keys[i], &fields[i].count);
    }
}

/* Operands after the weight: a bias of rank 1, and what is added to the result. */
void mg_emit_conv(const struct mg_emit *e, const char *name)
{
    struct mg_field fields[5] = {F_INT("group", mg_emit_int(e, MG_ATTR_GROUP))};
    uint32_t count = e->d->in_count, plain = count > 2 && e->d->in_shape[2].rank == 1 ? 3 : 2;
    window_fields(e, fields + 1);
    const char *y = mg_emit_one(e->s, plain == count ? e->out[0] : NULL, name, e->in, plain, fields);
    if (plain < count)
        mg_emit_binary(e, e->out[0], "Add", y, e->in[plain]);
}

/* ---- quantized numbers ---- */

/* Scales are f32. A product has three: after each of its operands, and the result's. */
static bool has_plain_scales(const struct mg_emit *e, bool product)
{
    const uint32_t at[] = {1, 4, 6};
    for (uint32_t i = 0; i < (product ? 3 : 1); i++) {
        enum mg_dtype dtype = e->d->in_dtype[at[i]];
        if (dtype == MG_DTYPE_F32)
            continue;
        mg_emit_refuse(e, "with scales of %s, which opset %d does not admit", mg_dtype_name(dtype), MG_ONNX_OPSET);
        return false;
    }
    return true;
}

void mg_emit_qlinear(const struct mg_emit *e, const char *name)
{
    if (has_plain_scales(e, true))
        mg_emit_direct(e, name);
}

void mg_emit_dynamic_quantize(const struct mg_emit *e, const char *name)
{
    mg_emit_node(e->s, name, e->in, 1, mg_emit_all(e), 3, NULL);
}

void mg_emit_quantize(const struct mg_emit *e, const char *name)
{
    enum mg_dtype to = e->d->out_dtype[0];
    const char *zero = e->d->in_count > 2 ? e->in[2] : "";
    if (!has_plain_scales(e, false))
        return;
    if (to != MG_DTYPE_U8 && to != MG_DTYPE_I8) {
        mg_emit_refuse(e, "to %s", mg_dtype_name(to));
        return;
    }
    if (e->d->in_count == 2 && to != MG_DTYPE_U8)
        zero = mg_emit_filled(e, NULL, &e->d->in_shape[1], to, 0);
    mg_emit_one(e->s, e->out[0], name, IN(e->in[0], e->in[1], zero),
                FIELDS(F_INT("axis", mg_emit_int(e, MG_ATTR_AXIS))));
}

void mg_emit_dequantize(const struct mg_emit *e, const char *name)
{
    enum mg_dtype from = e->d->in_dtype[0];
    if (from != MG_DTYPE_U8 && from != MG_DTYPE_I8 && from != MG_DTYPE_I32)
        mg_emit_refuse(e, "of %s", mg_dtype_name(from));
    else if (has_plain_scales(e, false))
        mg_emit_direct(e, name);
}

/* ---- normalisation ---- */

static uint32_t axes_from(const struct mg_emit *e, int64_t *axes)
{
    uint32_t count = 0, rank = e->d->in_shape[0].rank;
    for (int64_t d = mg_emit_int(e, MG_ATTR_AXIS); d < rank; d++)
        axes[count++] = d;
    return count;
}

void mg_emit_layer_norm(const struct mg_emit *e, const char *name)
{
    int64_t axis = mg_emit_int(e, MG_ATTR_AXIS), axes[MG_MAX_RANK];
    struct mg_shape params = {.rank = axes_from(e, axes)};
    for (uint32_t d = 0; d < params.rank; d++)
        params.dim[d] = e->d->in_shape[0].dim[axes[d]];
    bool given = e->d->in_count > 1;
    const char *scale = given ? e->in[1] : mg_emit_filled(e, NULL, &params, mg_emit_dtype(e), 1);
    mg_emit_node(e->s, name, IN(e->in[0], scale, e->d->in_count > 2 ? e->in[2] : ""), e->out, 3,
                 FIELDS(F_INT("axis", axis), F_REAL("epsilon", mg_emit_real(e, MG_ATTR_EPSILON))));
}

/* 1 / sqrt(mean of squares + epsilon) over the axes. */
static const char *rstd_of(const struct mg_emit *e, const char *out, const char *x, const int64_t *axes, uint32_t count)
{
    const char *square = mg_emit_binary(e, NULL, "Mul", x, x);
    const char *mean = mg_emit_reduce(e, NULL, "ReduceMean", square, axes, count, true);
    mean = mg_emit_by(e, NULL, "Add", mean, mg_emit_real(e, MG_ATTR_EPSILON));
    return mg_emit_unary(e, out, "Reciprocal", mg_emit_unary(e, NULL, "Sqrt", mean));
}

void mg_emit_rms_norm(const struct mg_emit *e, const char *name)
{
    int64_t axes[MG_MAX_RANK];
    uint32_t count = axes_from(e, axes);
    bool scaled = e->d->in_count > 1;
    (void)name;
    if (e->out[1] && e->d->out_dtype[1] != mg_emit_dtype(e)) {
        mg_emit_refuse(e, "whose statistics in %s are read", mg_dtype_name(e->d->out_dtype[1]));
        return;
    }
    const char *rstd = rstd_of(e, e->out[1], e->in[0], axes, count);
    const char *y = mg_emit_binary(e, scaled ? NULL : e->out[0], "Mul", e->in[0], rstd);
    if (scaled)
        mg_emit_binary(e, e->out[0], "Mul", y, e->in[1]);
}

/* A parameter of each channel, so that it broadcasts over [n, c, ...]. */
static const char *for_channels(const struct mg_emit *e, const char *x)
{
    struct mg_shape shape = {.rank = e->d->in_shape[0].rank};
    for (uint32_t d = 0; d < shape.rank; d++)
        shape.dim[d] = d == 1 ? e->d->in_shape[0].dim[1] : 1;
    return mg_emit_reshape(e, NULL, x, &shape);
}

/* y = x scale + shift, operands `at` and the next, if they are given. */
static void scale_and_shift(const struct mg_emit *e, const char *x, uint32_t at)
{
    if (e->d->in_count <= at) {
        mg_emit_unary(e, e->out[0], "Identity", x);
        return;
    }
    x = mg_emit_binary(e, NULL, "Mul", x, for_channels(e, e->in[at]));
    mg_emit_binary(e, e->out[0], "Add", x, for_channels(e, e->in[at + 1]));
}

void mg_emit_batch_norm(const struct mg_emit *e, const char *name)
{
    int64_t axes[MG_MAX_RANK];
    uint32_t count = 0;
    (void)name;
    for (uint32_t d = 0; d < e->d->in_shape[0].rank; d++)
        if (d != 1)
            axes[count++] = d;
    if (e->d->out_dtype[1] != mg_emit_dtype(e)) {
        mg_emit_refuse(e, "of %s with statistics in %s", mg_dtype_name(mg_emit_dtype(e)),
                       mg_dtype_name(e->d->out_dtype[1]));
        return;
    }
    const char *mean = mg_emit_reduce(e, e->out[1], "ReduceMean", e->in[0], axes, count, true);
    const char *centred = mg_emit_binary(e, NULL, "Sub", e->in[0], mean);
    const char *rstd = rstd_of(e, e->out[2], centred, axes, count);
    scale_and_shift(e, mg_emit_binary(e, NULL, "Mul", centred, rstd), 1);
}

void mg_emit_bn_apply(const struct mg_emit *e, const char *name)
{
    const char *mean = e->in[1], *rstd = e->in[2];
    (void)name;
    if (e->d->in_dtype[1] != mg_emit_dtype(e)) {
        const struct mg_field *to = FIELDS(F_INT("to", mg_onnx_elem_type(mg_emit_dtype(e))));
        mean = mg_emit_one(e->s, NULL, "Cast", IN(mean), to);
        rstd = mg_emit_one(e->s, NULL, "Cast", IN(rstd), to);
    }
    const char *centred = mg_emit_binary(e, NULL, "Sub", e->in[0], mean);
    scale_and_shift(e, mg_emit_binary(e, NULL, "Mul", centred, rstd), 3);
}

static const char *instance_norm(const struct mg_emit *e, const char *out, const char *x, int64_t groups,
                                 const char *scale, const char *shift)
{
    const struct mg_shape shape = {.rank = 1, .dim = {groups}};
    scale = scale ? scale : mg_emit_filled(e, NULL, &shape, mg_emit_dtype(e), 1);
    shift = shift ? shift : mg_emit_filled(e, NULL, &shape, mg_emit_dtype(e), 0);
    return mg_emit_one(e->s, out, "InstanceNormalization", IN(x, scale, shift),
                       FIELDS(F_REAL("epsilon", mg_emit_real(e, MG_ATTR_EPSILON))));
}

/* Opset 17 has none for groups: the channels of a group become one. */
void mg_emit_group_norm(const struct mg_emit *e, const char *name)
{
    const struct mg_shape *x = &e->d->in_shape[0];
    bool groups_given = e->d->type == MG_OP_GROUP_NORM, scaled = e->d->in_count > 1;
    int64_t groups = groups_given ? mg_emit_int(e, MG_ATTR_NUM_GROUPS) : x->dim[1];
    (void)name;
    if (e->out[1] || e->out[2]) {
        mg_emit_refuse(e, "whose statistics are read");
        return;
    }
    if (!groups_given) {
        instance_norm(e, e->out[0], e->in[0], groups, scaled ? e->in[1] : NULL, scaled ? e->in[2] : NULL);
        return;
    }
    struct mg_shape rows = {.rank = 3, .dim = {x->dim[0], groups, 1}};
    int64_t all = x->dim[0] * groups;
    rows.dim[2] = all ? mg_shape_elements(x) / all : 0;
    const char *y = instance_norm(e, NULL, mg_emit_reshape(e, NULL, e->in[0], &rows), groups, NULL, NULL);
    scale_and_shift(e, mg_emit_reshape(e, NULL, y, x), 1);
}

void mg_emit_mean_variance(const struct mg_emit *e, const char *name)
{
    uint32_t count;
    const int64_t *axes = mg_emit_list(e, MG_ATTR_AXES, &count);
    if (mg_emit_real(e, MG_ATTR_EPSILON) != 1e-9)
        mg_emit_refuse(e, "with an epsilon of its own");
    else
        mg_emit_one(e->s, e->out[0], name, e->in, 1, FIELDS(F_INTS("axes", axes, count)));
}

/* ---- pooling and resampling ---- */

void mg_emit_pool(const struct mg_emit *e, const char *name)
{
    enum mg_op_type type = e->d->type;
    struct mg_field fields[7] = {{.name = "kernel_shape", .kind = MG_FIELD_INTS}};
    uint32_t count = 4;
    bool max = type == MG_OP_MAX_POOL || type == MG_OP_MAX_POOL_INDICES, ceil = mg_emit_int(e, MG_ATTR_CEIL_MODE);
    fields[0].ints = mg_emit_list(e, MG_ATTR_KERNEL_SHAPE, &fields[0].count);
    window_fields(e, fields + 1);
    if (!max && !mg_emit_list_is(e, MG_ATTR_DILATIONS, 1)) {
        mg_emit_refuse(e, "with dilations, which opset %d has not", MG_ONNX_OPSET);
        return;
    }
    if (type == MG_OP_LP_POOL && ceil) {
        mg_emit_refuse(e, "with ceil_mode, which opset %d has not", MG_ONNX_OPSET);
        return;
    }
    count -= !max;
    if (type == MG_OP_LP_POOL)
        fields[count++] = (struct mg_field)F_INT("p", mg_emit_int(e, MG_ATTR_P));
    else
        fields[count++] = (struct mg_field)F_INT("ceil_mode", ceil);
    if (type == MG_OP_AVG_POOL)
        fields[count++] = (struct mg_field)F_INT("count_include_pad", mg_emit_int(e, MG_ATTR_COUNT_INCLUDE_PAD));
    else if (type == MG_OP_MAX_POOL_INDICES)
        fields[count++] = (struct mg_field)F_INT("storage_order", mg_emit_int(e, MG_ATTR_STORAGE_ORDER));
    fields[count].name = NULL;
    mg_emit_node(e->s, max ? "MaxPool" : name, e->in, 1, e->out, e->d->out_count, fields);
}

/* Any window does that leads to the stated size. */
void mg_emit_max_unpool(const struct mg_emit *e, const char *name)
{
    const struct mg_shape *x = &e->d->in_shape[0], *y = &e->d->out_shape[0];
    int64_t kernel[MG_MAX_RANK];
    for (uint32_t d = 2; d < x->rank; d++)
        kernel[d - 2] = y->dim[d] - x->dim[d] + 1;
    const char *size = mg_emit_ints(e->s, y->dim, y->rank);
    mg_emit_one(e->s, e->out[0], name, IN(e->in[0], e->in[1], size),
                FIELDS(F_INTS("kernel_shape", kernel, x->rank - 2)));
}

void mg_emit_adaptive_pool(const struct mg_emit *e, const char *name)
{
    const struct mg_shape *x = &e->d->in_shape[0], *y = &e->d->out_shape[0];
    int64_t kernel[MG_MAX_RANK];
    (void)name;
    for (uint32_t d = 2; d < x->rank; d++) {
        if (!y->dim[d] || x->dim[d] % y->dim[d]) {
            mg_emit_refuse(e, "to sizes that do not divide the operand's");
            return;
        }
        kernel[d - 2] = x->dim[d] / y->dim[d];
    }
    mg_emit_one(e->s, e->out[0], "AveragePool", e->in, 1,
                FIELDS(F_INTS("kernel_shape", kernel, x->rank - 2), F_INTS("strides", kernel, x->rank - 2)));
}

/* Scales of all dimensions where one is given that the sizes do not tell; else "". */
static const char *scales_of(const struct mg_emit *e)
{
    static const enum mg_attr_key keys[] = {MG_ATTR_SCALES_W, MG_ATTR_SCALES_H, MG_ATTR_SCALES_D};
    const struct mg_shape *x = &e->d->in_shape[0], *y = &e->d->out_shape[0], list = {.rank = 1, .dim = {x->rank}};
    double scales[MG_MAX_RANK];
    bool given = false;
    for (uint32_t d = 0; d < x->rank; d++) {
        double own = d < 2 ? 0 : mg_emit_real(e, keys[x->rank - 1 - d]);
        given = given || own != 0;
        scales[d] = own != 0 ? own : x->dim[d] ? (double)y->dim[d] / (double)x->dim[d] : 1;
    }
    if (!given)
        return "";
    const char *name = mg_emit_fresh(e->s, "c");
    mg_emit_initializer(e->s, name, MG_DTYPE_F32, &list, mg_onnx_encode(MG_DTYPE_F32, scales, x->rank, e->s->arena));
    return name;
}

void mg_emit_resize(const struct mg_emit *e, const char *name)
{
    static const char *const known[] = {"asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"};
    const char *coordinates = mg_emit_text(e, MG_ATTR_COORDINATES), *nearest = mg_emit_text(e, MG_ATTR_NEAREST_MODE);
    bool found = false;
    for (int i = 0; i < 4; i++)
        found = found || strcmp(known[i], coordinates) == 0;
    if (!found || mg_emit_int(e, MG_ATTR_ANTIALIAS)) {
        mg_emit_refuse(e, "%s, which opset %d has not", found ? "antialias" : coordinates, MG_ONNX_OPSET);
        return;
    }
    const char *scales = scales_of(e);
    const char *sizes = *scales ? "" : mg_emit_ints(e->s, e->d->out_shape[0].dim, e->d->out_shape[0].rank);
    mg_emit_one(e->s, e->out[0], name, IN(e->in[0], "", scales, sizes),
                FIELDS(F_TEXT("mode", mg_emit_text(e, MG_ATTR_MODE)),
                       F_TEXT("coordinate_transformation_mode", coordinates),
                       F_TEXT("nearest_mode", *nearest ? nearest : "floor"),
                       F_REAL("cubic_coeff_a", mg_emit_real(e, MG_ATTR_CUBIC_COEFF_A)),
                       F_INT("exclude_outside", mg_emit_int(e, MG_ATTR_EXCLUDE_OUTSIDE))));
}

void mg_emit_grid_sample(const struct mg_emit *e, const char *name)
{
    const char *mode = mg_emit_text(e, MG_ATTR_MODE);
    if (e->d->in_shape[0].rank != 4) {
        mg_emit_refuse(e, "of other than 2 spatial dimensions, which opset %d has not", MG_ONNX_OPSET);
        return;
    }
    mode = strcmp(mode, "linear") == 0 ? "bilinear" : strcmp(mode, "cubic") == 0 ? "bicubic" : mode;
    mg_emit_one(e->s, e->out[0], name, e->in, 2,
                FIELDS(F_TEXT("mode", mode), F_TEXT("padding_mode", mg_emit_text(e, MG_ATTR_PADDING)),
                       F_INT("align_corners", mg_emit_int(e, MG_ATTR_ALIGN_CORNERS))));
}

void mg_emit_roi_align(const struct mg_emit *e, const char *name)
{
    uint32_t count;
    const int64_t *size = mg_emit_list(e, MG_ATTR_SPATIAL, &count);
    mg_emit_one(e->s, e->out[0], name, e->in, 3,
                FIELDS(F_INT("output_height", size[0]), F_INT("output_width", size[1]),
                       F_TEXT("mode", mg_emit_text(e, MG_ATTR_MODE)),
                       F_TEXT("coordinate_transformation_mode", mg_emit_text(e, MG_ATTR_COORDINATES)),
                       F_INT("sampling_ratio", mg_emit_int(e, MG_ATTR_SAMPLING_RATIO)),
                       F_REAL("spatial_scale", mg_emit_real(e, MG_ATTR_SPATIAL_SCALE))));
}

/* ---- attention ---- */

/* [..., heads, seq, dim] with each head repeated. */
static const char *repeated(const struct mg_emit *e, const char *x, const struct mg_shape *shape, int64_t times)
{
    struct mg_shape apart = *shape, whole = *shape;
    uint32_t r = shape->rank;
    if (times == 1)
        return x;
    apart.rank = r + 1;
    apart.dim[r] = shape->dim[r - 1];
    apart.dim[r - 1] = shape->dim[r - 2];
    apart.dim[r - 2] = 1;
    x = mg_emit_reshape(e, NULL, x, &apart);
    apart.dim[r - 2] = times;
    x = mg_emit_one(e->s, NULL, "Expand", IN(x, mg_emit_ints(e->s, apart.dim, apart.rank)), NULL);
    whole.dim[r - 3] *= times;
    return mg_emit_reshape(e, NULL, x, &whole);
}

static const char *scores_of(const struct mg_emit *e, int64_t shared)
{
    const struct mg_shape *q = &e->d->in_shape[0], *k = &e->d->in_shape[1];
    uint32_t r = q->rank;
    const char *keys = turned(e, repeated(e, e->in[1], k, shared), r);
    const char *scores = mg_emit_binary(e, NULL, "MatMul", e->in[0], keys);
    scores = mg_emit_by(e, NULL, "Mul", scores, mg_emit_real(e, MG_ATTR_SCALE));
    if (e->d->in_count > 3)
        scores = mg_emit_binary(e, NULL, "Add", scores, e->in[3]);
    if (!mg_emit_int(e, MG_ATTR_CAUSAL))
        return scores;
    const struct mg_shape plane = {.rank = 2, .dim = {q->dim[r - 2], k->dim[r - 2]}};
    const char *never = mg_emit_filled(e, NULL, &plane, mg_emit_dtype(e), -(double)INFINITY);
    const char *next = mg_emit_number(e->s, MG_DTYPE_I64, 1);
    never = mg_emit_one(e->s, NULL, "Trilu", IN(never, next), FIELDS(F_INT("upper", 1)));
    return mg_emit_binary(e, NULL, "Add", scores, never);
}

void mg_emit_attention(const struct mg_emit *e, const char *name)
{
    const struct mg_shape *q = &e->d->in_shape[0], *k = &e->d->in_shape[1];
    const int64_t last = q->rank - 1, shared = q->dim[last - 2] / (k->dim[last - 2] ? k->dim[last - 2] : 1);
    (void)name;
    if ((shared > 1 && q->rank == MG_MAX_RANK) || (e->out[1] && e->d->out_dtype[1] != mg_emit_dtype(e))) {
        mg_emit_refuse(e, "of %u dimensions, or whose sums in another dtype are read", q->rank);
        return;
    }
    const char *scores = scores_of(e, shared);
    if (e->out[1])
        mg_emit_reduce(e, e->out[1], "ReduceLogSumExp", scores, &last, 1, true);
    const char *weights = mg_emit_one(e->s, NULL, "Softmax", IN(scores), FIELDS(F_INT("axis", last)));
    const char *values = repeated(e, e->in[2], &e->d->in_shape[2], shared);
    mg_emit_binary(e, e->out[0], "MatMul", weights, values);
}

/* ---- recurrent layers: (x, w, r, b, lengths, h, c, peepholes) in ONNX, ours without lengths ---- */

void mg_emit_recurrent(const struct mg_emit *e, const char *name)
{
    enum mg_op_type type = e->d->type;
    const char *in[8] = {""}, *activation = mg_emit_text(e, MG_ATTR_ACTIVATION);
    uint32_t count = 0;
    for (uint32_t i = 0; i < e->d->in_count; i++) {
        if (i == 4)
            in[count++] = "";
        in[count++] = e->in[i];
    }
    const char *direction = mg_emit_int(e, MG_ATTR_REVERSE) ? "reverse" : "forward";
    struct mg_field fields[] = {F_INT("hidden_size", mg_emit_int(e, MG_ATTR_HIDDEN_SIZE)),
                                F_TEXT("direction", direction),
                                {.name = NULL},
                                {.name = NULL}};
    if (type == MG_OP_GRU)
        fields[2] = (struct mg_field)F_INT("linear_before_reset", mg_emit_int(e, MG_ATTR_LINEAR_BEFORE_RESET));
    else if (type == MG_OP_RNN)
        fields[2] = (struct mg_field){
            .name = "activations", .kind = MG_FIELD_TEXTS, .text = strcmp(activation, "relu") == 0 ? "Relu" : "Tanh"};
    mg_emit_node(e->s, name, in, count, e->out, e->d->out_count, fields);
}
