#include "measure/moves.h"

#include <string.h>

/* All of an operand to all of result `to`: to be narrowed by the caller. */
static struct mg_move *add(struct mg_prepared *p, struct mg_moves *moves, uint32_t to, uint32_t from,
                           const struct mg_shape *shape)
{
    struct mg_move *move = MG_PUSH(&p->arena, moves->items, moves->count, moves->capacity);
    *move = (struct mg_move){.shape = *shape, .to = to, .from = from};
    memcpy(move->to_stride, p->out[to].at, sizeof move->to_stride);
    if (from != MG_NONE)
        memcpy(move->from_stride, p->in[from].at, sizeof move->from_stride);
    return move;
}

static void fill(struct mg_prepared *p, struct mg_moves *moves, double value)
{
    add(p, moves, 0, MG_NONE, &p->op.out_shape[0])->value = value;
}

/* A reshape: one side, if dense, is seen in the other's shape. */
static bool copy(struct mg_prepared *p, struct mg_moves *moves)
{
    const struct mg_shape *in = &p->op.in_shape[0], *out = &p->op.out_shape[0];
    struct mg_move *move = add(p, moves, 0, 0, out);
    if (mg_shape_equal(in, out))
        return true;
    if (mg_layout_contiguous(in, p->in[0].at)) {
        mg_shape_strides(out, move->from_stride);
        return true;
    }
    move->shape = *in;
    mg_shape_strides(in, move->to_stride);
    return mg_layout_contiguous(out, p->out[0].at);
}

static void expand(struct mg_prepared *p, struct mg_moves *moves)
{
    const struct mg_shape *in = &p->op.in_shape[0], *out = &p->op.out_shape[0];
    struct mg_move *move = add(p, moves, 0, 0, out);
    uint32_t skip = out->rank - in->rank;
    for (uint32_t d = 0; d < out->rank; d++)
        move->from_stride[d] = d < skip || in->dim[d - skip] == 1 ? 0 : p->in[0].at[d - skip];
}

static void transpose(struct mg_prepared *p, struct mg_moves *moves)
{
    struct mg_move *move = add(p, moves, 0, 0, &p->op.out_shape[0]);
    for (uint32_t d = 0; d < move->shape.rank; d++)
        move->from_stride[d] = p->in[0].at[mg_prepared_ints(p, MG_ATTR_PERM, d, d)];
}

/* Starts and steps on one side. */
static void narrow(const struct mg_prepared *p, uint32_t rank, int64_t *offset, int64_t *stride)
{
    for (uint32_t d = 0; d < rank; d++) {
        *offset += mg_prepared_ints(p, MG_ATTR_STARTS, d, 0) * stride[d];
        stride[d] *= mg_prepared_ints(p, MG_ATTR_STEPS, d, 1);
    }
}

static void slice(struct mg_prepared *p, struct mg_moves *moves)
{
    struct mg_move *move = add(p, moves, 0, 0, &p->op.out_shape[0]);
    narrow(p, move->shape.rank, &move->from_offset, move->from_stride);
}

static void slice_grad(struct mg_prepared *p, struct mg_moves *moves)
{
    fill(p, moves, 0);
    struct mg_move *move = add(p, moves, 0, 0, &p->op.in_shape[0]);
    narrow(p, move->shape.rank, &move->to_offset, move->to_stride);
}

static void split(struct mg_prepared *p, struct mg_moves *moves)
{
    int64_t axis = mg_prepared_int(p, MG_ATTR_AXIS), at = 0;
    for (uint32_t i = 0; i < p->op.out_count; i++) {
        add(p, moves, i, 0, &p->op.out_shape[i])->from_offset = at * p->in[0].at[axis];
        at += p->op.out_shape[i].dim[axis];
    }
}

static void concat(struct mg_prepared *p, struct mg_moves *moves)
{
    int64_t axis = mg_prepared_int(p, MG_ATTR_AXIS), at = 0;
    for (uint32_t i = 0; i < p->op.in_count; i++) {
        add(p, moves, 0, i, &p->op.in_shape[i])->to_offset = at * p->out[0].at[axis];
        at += p->op.in_shape[i].dim[axis];
    }
}

/* Constant padding; negative pads cut. */
static bool pad(struct mg_prepared *p, struct mg_moves *moves)
{
    const struct mg_shape *in = &p->op.in_shape[0], *out = &p->op.out_shape[0];
    if (!mg_prepared_text_is(p, MG_ATTR_MODE, "constant"))
        return false;
    fill(p, moves, mg_prepared_float(p, MG_ATTR_VALUE));
    struct mg_move *move = add(p, moves, 0, 0, in);
    for (uint32_t d = 0; d < in->rank; d++) {
        int64_t begin = mg_prepared_ints(p, MG_ATTR_PADS, d, 0), skip = begin < 0 ? -begin : 0;
        int64_t room = out->dim[d] - (begin > 0 ? begin : 0), left = in->dim[d] - skip;
        move->from_offset += skip * move->from_stride[d];
        move->to_offset += (begin > 0 ? begin : 0) * move->to_stride[d];
        move->shape.dim[d] = left < room ? left : room;
        if (move->shape.dim[d] < 0)
            move->shape.dim[d] = 0;
    }
    return true;
}

/* One move for each repetition. */
static void tile(struct mg_prepared *p, struct mg_moves *moves)
{
    const struct mg_shape *in = &p->op.in_shape[0];
    struct mg_shape turns = {.rank = in->rank};
    int64_t index[MG_MAX_RANK] = {0}, count;
    for (uint32_t d = 0; d < in->rank; d++)
        turns.dim[d] = mg_prepared_ints(p, MG_ATTR_REPEATS, d, 1);
    count = mg_shape_elements(&turns);
    for (int64_t i = 0; i < count; i++) {
        struct mg_move *move = add(p, moves, 0, 0, in);
        for (uint32_t d = 0; d < in->rank; d++)
            move->to_offset += index[d] * in->dim[d] * move->to_stride[d];
        for (uint32_t d = in->rank; d-- > 0 && ++index[d] == turns.dim[d];)
            index[d] = 0;
    }
}

static void reverse(struct mg_prepared *p, struct mg_moves *moves)
{
    const struct mg_shape *in = &p->op.in_shape[0];
    struct mg_move *move = add(p, moves, 0, 0, in);
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t axis = mg_prepared_ints(p, MG_ATTR_AXES, i, -1);
        if (axis < 0 || in->dim[axis] == 0)
            continue;
        move->from_offset += (in->dim[axis] - 1) * move->from_stride[axis];
        move->from_stride[axis] = -move->from_stride[axis];
    }
}

/* Along each axis two pieces change places: a move for every choice of one of them. */
static void roll(struct mg_prepared *p, struct mg_moves *moves)
{
    const struct mg_shape *in = &p->op.in_shape[0];
    int64_t shift[MG_MAX_RANK] = {0}, axis;
    for (uint32_t i = 0; (axis = mg_prepared_ints(p, MG_ATTR_AXES, i, -1)) >= 0; i++) {
        int64_t size = in->dim[axis] ? in->dim[axis] : 1;
        shift[axis] = (mg_prepared_ints(p, MG_ATTR_SHIFTS, i, 0) % size + size) % size;
    }
    for (uint32_t choice = 0; choice < 1U << in->rank; choice++) {
        struct mg_move piece = {.shape = *in};
        for (uint32_t d = 0; d < in->rank; d++) {
            bool wraps = choice >> d & 1;
            int64_t rest = in->dim[d] - shift[d];
            piece.shape.dim[d] = wraps ? shift[d] : rest;
            piece.from_offset += (wraps ? rest : 0) * p->in[0].at[d];
            piece.to_offset += (wraps ? 0 : shift[d]) * p->out[0].at[d];
        }
        if (choice && mg_shape_elements(&piece.shape) == 0)
            continue;
        struct mg_move *move = add(p, moves, 0, 0, &piece.shape);
        move->from_offset = piece.from_offset;
        move->to_offset = piece.to_offset;
    }
}

/* [n, c, h, b, w, b] on both sides. */
static void blocks(struct mg_prepared *p, struct mg_moves *moves, bool to_space)
{
    const struct mg_shape *deep = to_space ? &p->op.in_shape[0] : &p->op.out_shape[0];
    const int64_t *in = p->in[0].at, *out = p->out[0].at, *d = to_space ? in : out, *s = to_space ? out : in;
    int64_t b = mg_prepared_int(p, MG_ATTR_BLOCKSIZE), channels = deep->dim[1] / (b * b);
    bool crd = mg_prepared_text_is(p, MG_ATTR_MODE, "CRD");
    struct mg_shape shape = {6, {deep->dim[0], channels, deep->dim[2], b, deep->dim[3], b}};
    int64_t block = crd ? d[1] : channels * d[1], channel = crd ? b * b * d[1] : d[1];
    int64_t in_depth[6] = {d[0], channel, d[2], b * block, d[3], block};
    int64_t in_space[6] = {s[0], s[1], b * s[2], s[2], b * s[3], s[3]};
    struct mg_move *move = add(p, moves, 0, 0, &shape);
    memcpy(move->from_stride, to_space ? in_depth : in_space, sizeof in_depth);
    memcpy(move->to_stride, to_space ? in_space : in_depth, sizeof in_depth);
}

bool mg_moves_of(struct mg_prepared *p, struct mg_moves *out)
{
    *out = (struct mg_moves){0};
    switch (p->op.type) {
    case MG_OP_COPY:
    case MG_OP_CAST:
    case MG_OP_RESHAPE:
    case MG_OP_SQUEEZE:
    case MG_OP_UNSQUEEZE:
    case MG_OP_FLATTEN:
        return copy(p, out);
    case MG_OP_EXPAND:
        expand(p, out);
        return true;
    case MG_OP_TRANSPOSE:
        transpose(p, out);
        return true;
    case MG_OP_SLICE:
        slice(p, out);
        return true;
    case MG_OP_SLICE_GRAD:
        slice_grad(p, out);
        return true;
    case MG_OP_SPLIT:
        split(p, out);
        return true;
    case MG_OP_CONCAT:
        concat(p, out);
        return true;
    case MG_OP_PAD:
        return pad(p, out);
    case MG_OP_TILE:
        tile(p, out);
        return true;
    case MG_OP_REVERSE:
        reverse(p, out);
        return true;
    case MG_OP_ROLL:
        roll(p, out);
        return true;
    case MG_OP_DEPTH_TO_SPACE:
    case MG_OP_SPACE_TO_DEPTH:
        blocks(p, out, p->op.type == MG_OP_DEPTH_TO_SPACE);
        return true;
    case MG_OP_FILL:
        fill(p, out, mg_prepared_float(p, MG_ATTR_VALUE));
        return true;
    default:
        return false;
    }
}
