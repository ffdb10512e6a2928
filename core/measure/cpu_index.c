/* Reading and writing by index: single elements, slices, one_hot, sequences reversed by their lengths. What is only
 * moved goes by its size in bytes; what is added up or compared goes by its type. */
#include <string.h>

#include "measure/cpu_priv.h"

enum mg_code mg_cpu_out_of_range(const struct cpu_call *call)
{
    return mg_fail(call->err, MG_ERR_INVALID, "", "an index of '%s' is out of range",
                   mg_op_type_name(call->p->op.type));
}

static uint32_t element_size(const struct mg_prepared *p, uint32_t operand)
{
    return mg_dtype_size(mg_cpu_native(p->op.in_dtype[operand]));
}

/* Elements of dimensions [from, to). */
static int64_t extent(const struct mg_shape *shape, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t d = from; d < to; d++)
        n *= shape->dim[d];
    return n;
}

/* ---- how an update meets what is there ---- */

enum reduction { REDUCE_NONE, REDUCE_ADD, REDUCE_MUL, REDUCE_MAX, REDUCE_MIN };

static enum reduction reduction_of(const struct mg_prepared *p)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    for (int i = REDUCE_ADD; i <= REDUCE_MIN; i++)
        if (mg_prepared_text_is(p, MG_ATTR_REDUCTION, names[i]))
            return (enum reduction)i;
    return REDUCE_NONE;
}

/* to[i * to_step] meets from[i * from_step]. */
#define MEET_ROW(type, expression)                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const type old = t[i * to_step], x = f[i * from_step];                                                         \
        t[i * to_step] = (expression);                                                                                 \
    }
#define MEET(type)                                                                                                     \
    static void meet_##type(enum reduction how, type *t, int64_t to_step, const type *f, int64_t from_step, int64_t n) \
    {                                                                                                                  \
        if (how == REDUCE_ADD)                                                                                         \
            MEET_ROW(type, old + x)                                                                                    \
        else if (how == REDUCE_MUL)                                                                                    \
            MEET_ROW(type, old *x)                                                                                     \
        else if (how == REDUCE_MAX)                                                                                    \
            MEET_ROW(type, old > x ? old : x)                                                                          \
        else                                                                                                           \
            MEET_ROW(type, old < x ? old : x)                                                                          \
    }
MEET(float)
MEET(int64_t)

static void meet(enum reduction how, bool real, char *to, int64_t to_step, const char *from, int64_t from_step,
                 int64_t n)
{
    const void *f = from;
    void *t = to;
    if (real)
        meet_float(how, t, to_step, f, from_step, n);
    else
        meet_int64_t(how, t, to_step, f, from_step, n);
}

/* ---- elements ---- */

struct elements {
    int64_t size, step;   /* of the data along the axis */
    struct cpu_walk walk; /* over the indices: their own place, and the data's with 0 along the axis */
    enum reduction how;
    uint32_t bytes;
    bool real, scatter;
};

#define MOVE_ROW(type)                                                                                                 \
    do {                                                                                                               \
        const type *f = from;                                                                                          \
        type *t = to;                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int64_t at = index[i * own];                                                                               \
            at = i * other + (at < 0 ? at + e->size : at) * e->step;                                                   \
            t[e->scatter ? at : i * own] = f[e->scatter ? i * own : at];                                               \
        }                                                                                                              \
    } while (0)

static void move_row(const struct elements *e, const int64_t *index, const void *from, void *to, int64_t n)
{
    int64_t own = e->walk.stride[0][e->walk.rank - 1], other = e->walk.stride[1][e->walk.rank - 1];
    if (e->bytes == 4)
        MOVE_ROW(uint32_t);
    else if (e->bytes == 8)
        MOVE_ROW(uint64_t);
    else
        MOVE_ROW(uint8_t);
}

static void meet_row(const struct elements *e, const int64_t *index, const char *from, char *to, int64_t n)
{
    int64_t own = e->walk.stride[0][e->walk.rank - 1], other = e->walk.stride[1][e->walk.rank - 1];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index[i * own];
        at = i * other + (at < 0 ? at + e->size : at) * e->step;
        meet(e->how, e->real, to + at * e->bytes, 1, from + i * own * e->bytes, 1, 1);
    }
}

static bool in_range(const struct elements *e, const int64_t *index, int64_t n)
{
    bool good = true;
    for (int64_t i = 0; i < n; i++)
        good &= index[i] >= -e->size && index[i] < e->size;
    return good;
}

static enum mg_code run_elements(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    const struct elements *e = ((const struct cpu_op *)call->p->detail)->data;
    int64_t place[MG_MAX_RANK + 1] = {0}, at[MG_WALK_SIDES] = {0}, count = mg_shape_elements(&op->in_shape[1]);
    const int64_t *index = call->in[1];
    const char *from = call->in[e->scatter ? 2 : 0];
    char *to = call->out[0];
    if (e->scatter)
        memcpy(to, call->in[0], (size_t)mg_shape_elements(&op->out_shape[0]) * e->bytes);
    if (!in_range(e, index, count))
        return mg_cpu_out_of_range(call);
    if (count == 0)
        return MG_OK;
    int64_t n = e->walk.dim[e->walk.rank - 1];
    do {
        const char *f = from + at[e->scatter ? 0 : 1] * e->bytes;
        char *t = to + at[e->scatter ? 1 : 0] * e->bytes;
        if (e->how == REDUCE_NONE)
            move_row(e, index + at[0], f, t, n);
        else
            meet_row(e, index + at[0], f, t, n);
    } while (mg_cpu_walk_next(&e->walk, place, at));
    return MG_OK;
}

/* Booleans are moved, not added up. */
static bool can_reduce(const struct mg_prepared *p)
{
    return reduction_of(p) == REDUCE_NONE || mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_BOOL;
}

enum mg_code mg_cpu_elements(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct elements *e = MG_NEW(&p->arena, struct elements);
    const struct mg_shape *data = &p->op.in_shape[0];
    int64_t own[MG_MAX_RANK], there[MG_MAX_RANK], axis = mg_prepared_int(p, MG_ATTR_AXIS);
    if (!can_reduce(p))
        return mg_cpu_by_reference(p, op, err);
    mg_shape_strides(&p->op.in_shape[1], own);
    mg_shape_strides(data, there);
    *e = (struct elements){.size = data->dim[axis], .step = there[axis], .how = reduction_of(p)};
    e->scatter = p->op.type == MG_OP_SCATTER_ELEMENTS;
    e->bytes = element_size(p, 0);
    e->real = mg_cpu_native(p->op.in_dtype[0]) == MG_DTYPE_F32;
    there[axis] = 0;
    mg_cpu_walk_join(&e->walk, &p->op.in_shape[1], (const int64_t *const[]){own, there}, 2);
    op->data = e;
    op->run = run_elements;
    return MG_OK;
}

/* ---- slices ---- */

struct slices {
    int64_t batches, per_batch;      /* of indices */
    int64_t count, dim[MG_MAX_RANK]; /* numbers of an index, and what they choose from */
    int64_t size, batch_slices;      /* elements of a slice; slices of the data in a batch */
    enum reduction how;
    uint32_t bytes;
    bool real, scatter;
};

/* Number of the slice of a batch, or -1. */
static int64_t slice_of(const struct slices *s, const int64_t *index)
{
    int64_t at = 0;
    for (int64_t c = 0; c < s->count; c++) {
        int64_t i = index[c] < 0 ? index[c] + s->dim[c] : index[c];
        if (i < 0 || i >= s->dim[c])
            return -1;
        at = at * s->dim[c] + i;
    }
    return at;
}

static enum mg_code run_slices(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    const struct slices *s = ((const struct cpu_op *)call->p->detail)->data;
    size_t bytes = (size_t)s->size * s->bytes;
    const int64_t *index = call->in[1];
    const char *from = call->in[s->scatter ? 2 : 0];
    char *to = call->out[0];
    if (s->scatter)
        memcpy(to, call->in[0], (size_t)mg_shape_elements(&op->out_shape[0]) * s->bytes);
    for (int64_t i = 0; i < s->batches * s->per_batch; i++) {
        int64_t slice = slice_of(s, index + i * s->count);
        if (slice < 0)
            return mg_cpu_out_of_range(call);
        slice += i / s->per_batch * s->batch_slices;
        const char *f = from + (size_t)(s->scatter ? i : slice) * bytes;
        char *t = to + (size_t)(s->scatter ? slice : i) * bytes;
        if (s->how == REDUCE_NONE)
            memcpy(t, f, bytes);
        else
            meet(s->how, s->real, t, 1, f, 1, s->size);
    }
    return MG_OK;
}

enum mg_code mg_cpu_slices(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct slices *s = MG_NEW(&p->arena, struct slices);
    const struct mg_shape *data = &p->op.in_shape[0], *index = &p->op.in_shape[1];
    uint32_t batch = (uint32_t)mg_prepared_int(p, MG_ATTR_BATCH_DIMS);
    if (!can_reduce(p))
        return mg_cpu_by_reference(p, op, err);
    s->count = index->dim[index->rank - 1];
    s->batches = extent(index, 0, batch);
    s->per_batch = extent(index, batch, index->rank - 1);
    s->batch_slices = extent(data, batch, batch + (uint32_t)s->count);
    s->size = extent(data, batch + (uint32_t)s->count, data->rank);
    memcpy(s->dim, data->dim + batch, (size_t)s->count * sizeof *s->dim);
    s->how = reduction_of(p);
    s->bytes = element_size(p, 0);
    s->real = mg_cpu_native(p->op.in_dtype[0]) == MG_DTYPE_F32;
    s->scatter = p->op.type == MG_OP_SCATTER_ND;
    op->data = s;
    op->run = run_slices;
    return MG_OK;
}

/* ---- one_hot ---- */

#define ONE_HOT(type)                                                                                                  \
    do {                                                                                                               \
        const type *values = call->in[1];                                                                              \
        type *out = call->out[0];                                                                                      \
        for (int64_t i = 0; i < rows->outer * rows->extent * rows->inner; i++)                                         \
            out[i] = values[0];                                                                                        \
        for (int64_t i = 0; i < rows->outer * rows->inner; i++) {                                                      \
            int64_t at = index[i] < 0 ? index[i] + rows->extent : index[i];                                            \
            if (at >= 0 && at < rows->extent)                                                                          \
                out[mg_cpu_row_begin(rows, i) + at * rows->inner] = values[1];                                         \
        }                                                                                                              \
    } while (0)

/* Indices out of range are off everywhere. */
static enum mg_code run_one_hot(const struct cpu_call *call)
{
    const struct cpu_rows *rows = ((const struct cpu_op *)call->p->detail)->data;
    const int64_t *index = call->in[0];
    uint32_t bytes = element_size(call->p, 1);
    if (bytes == 4)
        ONE_HOT(uint32_t);
    else if (bytes == 8)
        ONE_HOT(uint64_t);
    else
        ONE_HOT(uint8_t);
    return MG_OK;
}

enum mg_code mg_cpu_one_hot(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct cpu_rows *rows = MG_NEW(&p->arena, struct cpu_rows);
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_I64)
        return mg_cpu_by_reference(p, op, err);
    *rows = mg_cpu_rows(&p->op.out_shape[0], mg_prepared_int(p, MG_ATTR_AXIS));
    op->data = rows;
    op->run = run_one_hot;
    return MG_OK;
}

/* ---- places of the largest, back ---- */

#define UNPOOL(type)                                                                                                   \
    do {                                                                                                               \
        const type *from = call->in[0];                                                                                \
        type *to = call->out[0];                                                                                       \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            if (index[i] < 0 || index[i] >= room)                                                                      \
                return mg_cpu_out_of_range(call);                                                                      \
            to[index[i]] = from[i];                                                                                    \
        }                                                                                                              \
    } while (0)

static enum mg_code run_unpool(const struct cpu_call *call)
{
    const struct mg_op_desc *op = &call->p->op;
    int64_t count = mg_shape_elements(&op->in_shape[0]), room = mg_shape_elements(&op->out_shape[0]);
    const int64_t *index = call->in[1];
    uint32_t bytes = element_size(call->p, 0);
    memset(call->out[0], 0, (size_t)room * bytes);
    if (bytes == 4)
        UNPOOL(uint32_t);
    else if (bytes == 8)
        UNPOOL(uint64_t);
    else
        UNPOOL(uint8_t);
    return MG_OK;
}

enum mg_code mg_cpu_max_unpool(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    (void)p;
    (void)err;
    op->run = run_unpool;
    return MG_OK;
}

/* ---- sequences: [.., batch, .., time, .., chunk] or time first ---- */

static enum mg_code run_sequences(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct mg_shape *x = &p->op.in_shape[0];
    int64_t batch = mg_prepared_int(p, MG_ATTR_BATCH_AXIS), time = mg_prepared_int(p, MG_ATTR_TIME_AXIS);
    uint32_t rank = (uint32_t)(batch > time ? batch : time) + 1;
    size_t bytes = (size_t)extent(x, rank, x->rank) * element_size(p, 0);
    int64_t index[MG_MAX_RANK] = {0}, count = extent(x, 0, rank), step = extent(x, (uint32_t)time + 1, rank);
    const int64_t *lengths = call->in[1];
    const char *from = call->in[0];
    char *to = call->out[0];
    for (int64_t i = 0; i < count; i++) {
        int64_t length = lengths[index[batch]], at = index[time];
        if (length < 0 || length > x->dim[time])
            return mg_cpu_out_of_range(call);
        int64_t source = at < length ? i + (length - 1 - 2 * at) * step : i;
        memcpy(to + (size_t)i * bytes, from + (size_t)source * bytes, bytes);
        for (uint32_t d = rank; d-- > 0 && ++index[d] == x->dim[d];)
            index[d] = 0;
    }
    return MG_OK;
}

enum mg_code mg_cpu_reverse_sequence(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    if (mg_cpu_native(p->op.in_dtype[1]) != MG_DTYPE_I64)
        return mg_cpu_by_reference(p, op, err);
    op->run = run_sequences;
    return MG_OK;
}
