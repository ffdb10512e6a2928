/* ONNX rules: movement. */
#include <string.h>

#include "formats/onnx_rules.h"

/* ---- shapes of views; shared with folding ---- */

bool onnx_reshape_target(struct onnx_call *c, struct mg_shape *out)
{
    uint32_t count;
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    const int64_t *dims = mg_onnx_known_ints(c, 1, &count);
    int64_t open = -1, known = 1, total = mg_shape_elements(in);
    *out = (struct mg_shape){.rank = count};
    if (count > MG_MAX_RANK)
        mg_onnx_unsupported(c, "to %u dimensions", count);
    for (uint32_t d = 0; c->code == MG_OK && d < count; d++) {
        out->dim[d] = dims[d];
        if (dims[d] == 0 && !mg_onnx_int(c, "allowzero", 0) && d < in->rank)
            out->dim[d] = in->dim[d];
        if ((dims[d] == -1 && open >= 0) || dims[d] < -1)
            mg_onnx_invalid(c, "entry %u of the shape is %lld", d, (long long)dims[d]);
        else if (dims[d] == -1)
            open = d;
        else if (__builtin_mul_overflow(known, out->dim[d], &known))
            mg_onnx_invalid(c, "the shape is too large");
    }
    if (c->code == MG_OK && open >= 0)
        out->dim[open] = known ? total / known : 0;
    if (c->code == MG_OK && (open >= 0 ? (known && total % known) : known != total))
        mg_onnx_invalid(c, "%lld elements do not fill the shape", (long long)total);
    return c->code == MG_OK;
}

/* Marks axes, negative ones from the end. */
static bool mark_axes(struct onnx_call *c, uint32_t rank, bool marked[MG_MAX_RANK], uint32_t *count)
{
    const int64_t *axes = mg_onnx_list(c, 1, "axes", count);
    memset(marked, 0, MG_MAX_RANK * sizeof *marked);
    for (uint32_t i = 0; i < *count && c->code == MG_OK; i++)
        marked[mg_onnx_axis(c, axes[i], rank)] = true;
    return c->code == MG_OK;
}

bool onnx_squeeze_target(struct onnx_call *c, struct mg_shape *out)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    bool gone[MG_MAX_RANK];
    uint32_t count;
    *out = (struct mg_shape){0};
    mark_axes(c, in->rank, gone, &count);
    for (uint32_t d = 0; d < in->rank; d++) {
        bool drop = count ? gone[d] : in->dim[d] == 1;
        if (!drop)
            out->dim[out->rank++] = in->dim[d];
        else if (in->dim[d] != 1)
            mg_onnx_invalid(c, "dimension %u is %lld, not 1", d, (long long)in->dim[d]);
    }
    return c->code == MG_OK;
}

bool onnx_unsqueeze_target(struct onnx_call *c, struct mg_shape *out)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    bool added[MG_MAX_RANK];
    uint32_t count, from = 0;
    *out = (struct mg_shape){0};
    (void)mg_onnx_list(c, 1, "axes", &count);
    if (count + in->rank > MG_MAX_RANK)
        mg_onnx_unsupported(c, "to %u dimensions", count + in->rank);
    if (c->code != MG_OK || !mark_axes(c, in->rank + count, added, &count))
        return false;
    out->rank = in->rank + count;
    for (uint32_t d = 0; d < out->rank; d++) {
        if (!added[d] && from == in->rank)
            mg_onnx_invalid(c, "an axis is given twice");
        out->dim[d] = added[d] || from == in->rank ? 1 : in->dim[from++];
    }
    return c->code == MG_OK;
}

bool onnx_expand_target(struct onnx_call *c, struct mg_shape *out)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    uint32_t count;
    const int64_t *dims = mg_onnx_known_ints(c, 1, &count);
    *out = (struct mg_shape){.rank = count > in->rank ? count : in->rank};
    if (out->rank > MG_MAX_RANK)
        mg_onnx_unsupported(c, "to %u dimensions", out->rank);
    for (uint32_t d = 0; c->code == MG_OK && d < out->rank; d++) {
        int64_t have = d + in->rank >= out->rank ? in->dim[d + in->rank - out->rank] : 1;
        int64_t want = d + count >= out->rank ? dims[d + count - out->rank] : 1;
        if (want < 0 || (have != want && have != 1 && want != 1))
            mg_onnx_invalid(c, "entry %u of the shape does not fit", d);
        out->dim[d] = have == 1 ? want : have;
    }
    return c->code == MG_OK;
}

static void reshape_last(struct onnx_call *c, const struct mg_shape *shape)
{
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_reshape(c, x, shape);
}

void onnx_rule_reshape(struct onnx_call *c, int which)
{
    struct mg_shape out;
    (void)which;
    if (onnx_reshape_target(c, &out))
        reshape_last(c, &out);
}

void onnx_rule_squeeze(struct onnx_call *c, int which)
{
    struct mg_shape out;
    (void)which;
    if (onnx_squeeze_target(c, &out))
        reshape_last(c, &out);
}

void onnx_rule_unsqueeze(struct onnx_call *c, int which)
{
    struct mg_shape out;
    (void)which;
    if (onnx_unsqueeze_target(c, &out))
        reshape_last(c, &out);
}

void onnx_rule_flatten(struct onnx_call *c, int which)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    int64_t axis = mg_onnx_int(c, "axis", 1);
    struct mg_shape out = {.rank = 2, .dim = {1, 1}};
    (void)which;
    axis = axis < 0 ? axis + in->rank : axis;
    for (uint32_t d = 0; d < in->rank; d++)
        out.dim[d >= axis] *= in->dim[d];
    reshape_last(c, &out);
}

void onnx_rule_expand(struct onnx_call *c, int which)
{
    struct mg_shape out;
    (void)which;
    if (!onnx_expand_target(c, &out))
        return;
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_EXPAND, OPERANDS(x), ATTRS(A_INTS(SHAPE, out.dim, out.rank)), 1, NULL);
}

void onnx_rule_tile(struct onnx_call *c, int which)
{
    uint32_t count;
    const int64_t *repeats = mg_onnx_known_ints(c, 1, &count);
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_TILE, OPERANDS(x), ATTRS(A_INTS(REPEATS, repeats, count)), 1, NULL);
}

void onnx_rule_transpose(struct onnx_call *c, int which)
{
    uint32_t count, rank = mg_onnx_shape(c, 0)->rank;
    const int64_t *perm = mg_onnx_ints(c, "perm", &count);
    int64_t backwards[MG_MAX_RANK];
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    for (uint32_t d = 0; d < rank; d++)
        backwards[d] = rank - 1 - d;
    if (perm && count != rank)
        mg_onnx_invalid(c, "perm has %u entries for %u dimensions", count, rank);
    mg_onnx_last(c);
    mg_onnx_permute(c, x, perm ? perm : backwards);
}

/* ---- joining and cutting ---- */

void onnx_rule_concat(struct onnx_call *c, int which)
{
    mg_value *in = MG_NEW_ARRAY(c->m->arena, mg_value, c->in_count + 1);
    (void)which;
    if (c->in_count == 1) {
        mg_onnx_alias(c, 0, c->in[0]);
        return;
    }
    uint32_t axis = mg_onnx_axis(c, mg_onnx_int(c, "axis", 0), mg_onnx_shape(c, 0)->rank);
    for (uint32_t i = 0; i < c->in_count; i++)
        in[i] = mg_onnx_in(c, i);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_CONCAT, in, c->in_count, ATTRS(A_INT(AXIS, axis)), 1, NULL);
}

void onnx_rule_split(struct onnx_call *c, int which)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    uint32_t axis = mg_onnx_axis(c, mg_onnx_int(c, "axis", 0), in->rank), count;
    const int64_t *parts = mg_onnx_list(c, 1, "split", &count);
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    if (mg_onnx_int(c, "num_outputs", c->out_count) != c->out_count)
        mg_onnx_invalid(c, "num_outputs is not the number of outputs");
    if (count && count != c->out_count)
        mg_onnx_invalid(c, "%u sizes for %u outputs", count, c->out_count);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_SPLIT, OPERANDS(x), ATTRS(A_INT(AXIS, axis), A_INTS(SPLIT, parts, count)), c->out_count, NULL);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Start, end and size of one dimension by the rules of numpy. */
static void slice_dimension(struct onnx_slice *s, uint32_t d, int64_t size, int64_t start, int64_t end, int64_t step)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    start = clamp(start < 0 ? start + size : start, low < 0 ? 0 : low, high < 0 ? 0 : high);
    end = clamp(end < 0 ? (end < -size ? -1 : end + size) : end, low, high < 0 ? 0 : high);
    int64_t room = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
    s->start[d] = start;
    s->step[d] = step;
    s->size[d] = size > 0 && room > 0 ? (room - 1) / stride + 1 : 0;
    s->end[d] = end;
}

/* Newer opsets: (data, starts, ends[, axes[, steps]]); before 10: attributes. */
bool onnx_slice_of(struct onnx_call *c, struct onnx_slice *s)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    uint32_t starts, ends, axes, steps = 0;
    const int64_t *start = mg_onnx_list(c, 1, "starts", &starts), *end = mg_onnx_list(c, 2, "ends", &ends);
    const int64_t *axis = mg_onnx_list(c, 3, "axes", &axes);
    const int64_t *step = mg_onnx_has(c, 4) ? mg_onnx_known_ints(c, 4, &steps) : NULL;
    for (uint32_t d = 0; d < in->rank; d++)
        slice_dimension(s, d, in->dim[d], 0, in->dim[d], 1);
    if (c->code == MG_OK && (starts != ends || (axis && axes != starts) || (step && steps != starts)))
        mg_onnx_invalid(c, "starts, ends, axes and steps have different lengths");
    for (uint32_t i = 0; c->code == MG_OK && i < starts; i++) {
        uint32_t d = mg_onnx_axis(c, axis ? axis[i] : i, in->rank);
        int64_t by = step ? step[i] : 1;
        if (by == 0 || by < -INT32_MAX)
            mg_onnx_invalid(c, "step %lld", (long long)by);
        else if (c->code == MG_OK)
            slice_dimension(s, d, in->dim[d], start[i], end[i], by);
    }
    return c->code == MG_OK;
}

void onnx_rule_slice(struct onnx_call *c, int which)
{
    struct onnx_slice s = {.start = {0}};
    (void)which;
    if (!onnx_slice_of(c, &s))
        return;
    const struct mg_shape in = *mg_onnx_shape(c, 0);
    mg_value x = mg_onnx_in(c, 0);
    bool backwards = false, forwards = false;
    for (uint32_t d = 0; d < in.rank; d++) {
        backwards = backwards || s.step[d] < 0;
        forwards = forwards || (s.step[d] > 0 && (s.size[d] != in.dim[d]));
    }
    for (uint32_t d = 0; d < in.rank && backwards; d++) {
        if (s.step[d] > 0)
            continue;
        mg_value order = mg_onnx_add(c, MG_OP_IOTA, NULL, 0,
                                     ATTRS(A_INT(SIZE, s.size[d]), A_TEXT(TO, "i64"), A_REAL(START, (double)s.start[d]),
                                           A_REAL(DELTA, (double)s.step[d])),
                                     1, NULL);
        x = mg_onnx_add(c, MG_OP_GATHER, OPERANDS(x, order), ATTRS(A_INT(AXIS, d)), 1, NULL);
        s.start[d] = 0;
        s.end[d] = s.size[d];
        s.step[d] = 1;
    }
    if (backwards && !forwards) {
        mg_onnx_result(c, 0, x);
        return;
    }
    int64_t axes[MG_MAX_RANK];
    for (uint32_t d = 0; d < in.rank; d++) {
        axes[d] = d;
        s.end[d] = s.end[d] < s.start[d] ? s.start[d] : s.end[d];
    }
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_SLICE, OPERANDS(x),
                ATTRS(A_INTS(STARTS, s.start, in.rank), A_INTS(ENDS, s.end, in.rank), A_INTS(AXES, axes, in.rank),
                      A_INTS(STEPS, s.step, in.rank)),
                1, NULL);
}

void onnx_rule_gather(struct onnx_call *c, int which)
{
    uint32_t axis = mg_onnx_axis(c, mg_onnx_int(c, "axis", 0), mg_onnx_shape(c, 0)->rank);
    mg_value x = mg_onnx_in(c, 0), indices = mg_onnx_in(c, 1);
    (void)which;
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_GATHER, OPERANDS(x, indices), ATTRS(A_INT(AXIS, axis)), 1, NULL);
}

/* ---- pad ---- */

static void pad_by(struct onnx_call *c, mg_value x, const int64_t *pads, const char *mode, double value)
{
    uint32_t rank = mg_onnx_info(c, x)->shape.rank;
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_PAD, OPERANDS(x),
                ATTRS(A_INTS(PADS, pads, 2 * rank), A_TEXT(MODE, mode), A_REAL(VALUE, value)), 1, NULL);
}

void onnx_rule_pad(struct onnx_call *c, int which)
{
    uint32_t rank = mg_onnx_shape(c, 0)->rank, count, axes = rank;
    const int64_t *given = mg_onnx_list(c, 1, c->opset < 2 ? "paddings" : "pads", &count);
    const int64_t *axis = mg_onnx_has(c, 3) ? mg_onnx_known_ints(c, 3, &axes) : NULL;
    double value = mg_onnx_known_scalar(c, 2, mg_onnx_real(c, "value", 0));
    int64_t pads[2 * MG_MAX_RANK] = {0};
    const char *mode = mg_onnx_text(c, "mode", "constant");
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    if (strcmp(mode, "wrap") == 0)
        mg_onnx_unsupported(c, "mode wrap");
    if (c->code == MG_OK && count != 2 * axes)
        mg_onnx_invalid(c, "%u pads for %u dimensions", count, axes);
    for (uint32_t i = 0; i < axes && c->code == MG_OK; i++) {
        uint32_t d = mg_onnx_axis(c, axis ? axis[i] : i, rank);
        pads[d] = given[i];
        pads[d + rank] = given[i + axes];
    }
    pad_by(c, x, pads, mode, value);
}

/* Cropping is padding by a negative number. */
void onnx_rule_center_crop_pad(struct onnx_call *c, int which)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    uint32_t count, axes = in->rank;
    const int64_t *want = mg_onnx_known_ints(c, 1, &count), *axis = mg_onnx_ints(c, "axes", &axes);
    int64_t pads[2 * MG_MAX_RANK] = {0};
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    axes = axis ? axes : in->rank;
    if (c->code == MG_OK && count != axes)
        mg_onnx_invalid(c, "%u sizes for %u dimensions", count, axes);
    for (uint32_t i = 0; i < axes && c->code == MG_OK; i++) {
        uint32_t d = mg_onnx_axis(c, axis ? axis[i] : i, in->rank);
        int64_t more = want[i] - in->dim[d], less = -more;
        pads[d] = more > 0 ? more / 2 : -(less / 2);
        pads[d + in->rank] = more - pads[d];
    }
    pad_by(c, x, pads, "constant", 0);
}

void onnx_rule_depth(struct onnx_call *c, int which)
{
    mg_value x = mg_onnx_in(c, 0);
    mg_onnx_last(c);
    mg_onnx_add(c, (enum mg_op_type)which, OPERANDS(x),
                ATTRS(A_INT(BLOCKSIZE, mg_onnx_int(c, "blocksize", 1)), A_TEXT(MODE, mg_onnx_text(c, "mode", "DCR"))),
                1, NULL);
}

/* ---- picking ---- */

mg_value onnx_counting(struct onnx_call *c, int64_t size, double start, enum mg_dtype dtype, uint32_t axis,
                       uint32_t rank)
{
    struct mg_shape shape = {.rank = rank};
    for (uint32_t d = 0; d < rank; d++)
        shape.dim[d] = d == axis ? size : 1;
    bool last = c->last;
    c->last = false;
    mg_value count = mg_onnx_add(
        c, MG_OP_IOTA, NULL, 0,
        ATTRS(A_INT(SIZE, size), A_TEXT(TO, mg_dtype_name(dtype)), A_REAL(START, start), A_REAL(DELTA, 1)), 1, NULL);
    count = mg_onnx_reshape(c, count, &shape);
    c->last = last;
    return count;
}

mg_value onnx_contents(struct onnx_call *c, const struct mg_onnx_data *data)
{
    struct onnx_value value = {.name = mg_arena_printf(c->m->arena, "%s.%u", c->name, ++c->made),
                               .dtype = data->dtype,
                               .shape = data->shape,
                               .value = MG_NONE,
                               .data = data};
    return c->code == MG_OK ? mg_onnx_materialise(c->m, &value, MG_KIND_CONSTANT) : MG_NONE;
}

struct mg_onnx_data *onnx_integers(struct onnx_call *c, const int64_t *list, uint32_t count)
{
    struct mg_onnx_data *data = MG_NEW(c->m->arena, struct mg_onnx_data);
    *data = (struct mg_onnx_data){.dtype = MG_DTYPE_I64, .shape = {.rank = 1, .dim = {count}}};
    data->whole = mg_arena_copy(c->m->arena, list, count * sizeof *list);
    c->m->folded += count;
    return data;
}

void onnx_rule_compress(struct onnx_call *c, int which)
{
    const struct mg_shape *in = mg_onnx_shape(c, 0);
    uint32_t count, kept = 0, axis = 0;
    const int64_t *condition = mg_onnx_known_ints(c, 1, &count);
    int64_t *list = MG_NEW_ARRAY(c->m->arena, int64_t, count + 1);
    struct mg_shape flat = {.rank = 1, .dim = {mg_shape_elements(in)}};
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    if (mg_onnx_attr(c, "axis"))
        axis = mg_onnx_axis(c, mg_onnx_int(c, "axis", 0), in->rank);
    else
        x = mg_onnx_reshape(c, x, &flat);
    for (uint32_t i = 0; i < count; i++)
        if (condition[i])
            list[kept++] = i;
    mg_value indices = onnx_contents(c, onnx_integers(c, list, kept));
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_GATHER, OPERANDS(x, indices), ATTRS(A_INT(AXIS, axis)), 1, NULL);
}

/* Elements on, above or below diagonal k of the last two dimensions. */
void onnx_rule_trilu(struct onnx_call *c, int which)
{
    int64_t k = mg_onnx_known_integer(c, 1, 0);
    mg_value x = mg_onnx_in(c, 0);
    (void)which;
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_TRILU, OPERANDS(x), ATTRS(A_INT(UPPER, mg_onnx_int(c, "upper", 1)), A_INT(DIAGONAL, k)), 1,
                NULL);
}

void onnx_rule_one_hot(struct onnx_call *c, int which)
{
    int64_t depth = mg_onnx_known_integer(c, 1, 0);
    mg_value indices = mg_onnx_in(c, 0), values = mg_onnx_in(c, 2);
    (void)which;
    if (mg_onnx_dtype_of(c, 0) < MG_DTYPE_I64)
        indices = mg_onnx_cast(c, indices, MG_DTYPE_I64);
    mg_onnx_last(c);
    mg_onnx_add(c, MG_OP_ONE_HOT, OPERANDS(indices, values),
                ATTRS(A_INT(DEPTH, depth), A_INT(AXIS, mg_onnx_int(c, "axis", -1))), 1, NULL);
}
