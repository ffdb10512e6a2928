/* The extreme elements of rows, and triangles of matrices. */
#include <stdlib.h>
#include <string.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"

/* ---- arg max, arg min, hard max ---- */

enum { COLUMNS = 128, LANES = 32 }; /* rows that lie across one another are searched side by side */

struct extremes {
    struct cpu_rows rows;
    enum mg_dtype dtype; /* native */
    bool least, last;    /* of equals */
    uint64_t found;      /* hard max: the places, in the scratch */
};

/* x against the best so far; selects instead of branching, so that it takes as long whatever the numbers. */
#define BETTER(x, best) ((x) == (best) ? e->last : e->least ? (x) < (best) : (x) > (best))
#define EXTREMES(type)                                                                                                 \
    MG_WIDE static void columns_##type(const struct extremes *e, const type *in, int64_t extent, int64_t step,         \
                                       int64_t columns, type *best, int64_t *out)                                      \
    {                                                                                                                  \
        const bool least = e->least, last = e->last;                                                                   \
        for (int64_t j = 0; j < columns; j++) {                                                                        \
            best[j] = in[j];                                                                                           \
            out[j] = 0;                                                                                                \
        }                                                                                                              \
        for (int64_t i = 1; i < extent; i++)                                                                           \
            for (int64_t j = 0; j < columns; j++) {                                                                    \
                const type x = in[i * step + j], y = best[j];                                                          \
                const bool better = (last & (x == y)) | (least & (x < y)) | (!least & (x > y));                        \
                best[j] = better ? x : y;                                                                              \
                out[j] = better ? i : out[j];                                                                          \
            }                                                                                                          \
    }                                                                                                                  \
    /* A dense row in lanes; of equal lanes the first or the last place counts. */                                     \
    static int64_t row_##type(const struct extremes *e, const type *in)                                                \
    {                                                                                                                  \
        type lane[LANES], best = in[0];                                                                                \
        int64_t at[LANES], turns = e->rows.extent / LANES, place = 0;                                                  \
        if (turns)                                                                                                     \
            columns_##type(e, in, turns, LANES, LANES, lane, at);                                                      \
        for (int64_t j = 0; turns && j < LANES; j++) {                                                                 \
            const int64_t here = at[j] * LANES + j;                                                                    \
            const bool between = lane[j] == best && (e->last ? here > place : here < place);                           \
            if (j == 0 || between || (lane[j] != best && BETTER(lane[j], best))) {                                     \
                best = lane[j];                                                                                        \
                place = here;                                                                                          \
            }                                                                                                          \
        }                                                                                                              \
        for (int64_t i = turns * LANES; i < e->rows.extent; i++)                                                       \
            if (i > 0 && BETTER(in[i], best)) {                                                                        \
                best = in[i];                                                                                          \
                place = i;                                                                                             \
            }                                                                                                          \
        return place;                                                                                                  \
    }                                                                                                                  \
    static void find_##type(const struct extremes *e, const type *in, int64_t *out)                                    \
    {                                                                                                                  \
        const struct cpu_rows *rows = &e->rows;                                                                        \
        type best[COLUMNS];                                                                                            \
        for (int64_t o = 0; o < rows->outer; o++, in += rows->extent * rows->inner, out += rows->inner)                \
            for (int64_t j = 0; j < rows->inner; j += COLUMNS) {                                                       \
                int64_t columns = rows->inner - j < COLUMNS ? rows->inner - j : COLUMNS;                               \
                if (rows->inner == 1)                                                                                  \
                    *out = row_##type(e, in);                                                                          \
                else                                                                                                   \
                    columns_##type(e, in + j, rows->extent, rows->inner, columns, best, out + j);                      \
            }                                                                                                          \
    }
EXTREMES(float)
EXTREMES(int64_t)
EXTREMES(uint8_t)

static void find(const struct extremes *e, const void *in, int64_t *out)
{
    if (e->dtype == MG_DTYPE_F32)
        find_float(e, in, out);
    else if (e->dtype == MG_DTYPE_I64)
        find_int64_t(e, in, out);
    else
        find_uint8_t(e, in, out);
}

static enum mg_code run_arg_max(const struct cpu_call *call)
{
    const struct extremes *e = ((const struct cpu_op *)call->p->detail)->data;
    find(e, call->in[0], call->out[0]);
    return MG_OK;
}

static void put_one(enum mg_dtype native, void *to, int64_t at)
{
    if (native == MG_DTYPE_F32)
        ((float *)to)[at] = 1;
    else if (native == MG_DTYPE_I64)
        ((int64_t *)to)[at] = 1;
    else
        ((uint8_t *)to)[at] = 1;
}

static enum mg_code run_hard_max(const struct cpu_call *call)
{
    const struct extremes *e = ((const struct cpu_op *)call->p->detail)->data;
    int64_t *found = (int64_t *)(void *)(call->scratch + e->found), rows = e->rows.outer * e->rows.inner;
    find(e, call->in[0], found);
    memset(call->out[0], 0, (size_t)(rows * e->rows.extent) * mg_dtype_size(e->dtype));
    for (int64_t r = 0; r < rows; r++)
        put_one(e->dtype, call->out[0], mg_cpu_row_begin(&e->rows, r) + found[r] * e->rows.inner);
    return MG_OK;
}

enum mg_code mg_cpu_extremes(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct extremes *e = MG_NEW(&p->arena, struct extremes);
    *e = (struct extremes){.rows = mg_cpu_rows(&p->op.in_shape[0], mg_prepared_int(p, MG_ATTR_AXIS))};
    e->dtype = mg_cpu_native(p->op.in_dtype[0]);
    e->least = p->op.type == MG_OP_ARG_MIN;
    e->last = mg_prepared_int(p, MG_ATTR_SELECT_LAST_INDEX);
    if (e->rows.extent == 0)
        return mg_cpu_by_reference(p, op, err);
    if (p->op.type == MG_OP_HARD_MAX)
        e->found = mg_cpu_reserve(p, (uint64_t)(e->rows.outer * e->rows.inner) * sizeof(int64_t));
    op->data = e;
    op->run = p->op.type == MG_OP_HARD_MAX ? run_hard_max : run_arg_max;
    return MG_OK;
}

/* ---- top k: few are kept in order while a row is read, many are sorted ---- */

enum { FEW = 24 };

struct entry { /* the better, the smaller; of equals the one that stands first */
    double key;
    int64_t at;
};
struct top {
    struct cpu_rows rows;
    int64_t count;
    enum mg_dtype dtype;
    bool largest;
    uint64_t entries; /* in the scratch */
};

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

#define READ_ROW(type)                                                                                                 \
    do {                                                                                                               \
        const type *x = from;                                                                                          \
        for (int64_t i = 0; i < top->rows.extent; i++)                                                                 \
            to[i] = (struct entry){sign * (double)x[i * top->rows.inner], i};                                          \
    } while (0)

static void read_row(const struct top *top, const void *from, struct entry *to)
{
    const double sign = top->largest ? -1 : 1;
    if (top->dtype == MG_DTYPE_F32)
        READ_ROW(float);
    else if (top->dtype == MG_DTYPE_I64)
        READ_ROW(int64_t);
    else
        READ_ROW(uint8_t);
}

/* The best `count` first, in order: each entry sinks into those before it, if it is better than the last of them. */
static void select_few(struct entry *entries, int64_t extent, int64_t count)
{
    for (int64_t i = 1; i < extent; i++) {
        struct entry x = entries[i];
        int64_t at = i < count ? i : count;
        if (at == count && !(x.key < entries[count - 1].key))
            continue;
        for (at = at == count ? count - 1 : at; at > 0 && x.key < entries[at - 1].key; at--)
            entries[at] = entries[at - 1];
        entries[at] = x;
    }
}

static void write_row(const struct top *top, const struct entry *entries, const char *from, char *to, int64_t *index)
{
    uint32_t bytes = mg_dtype_size(top->dtype);
    for (int64_t n = 0; n < top->count; n++) {
        index[n * top->rows.inner] = entries[n].at;
        memcpy(to + n * top->rows.inner * bytes, from + entries[n].at * top->rows.inner * bytes, bytes);
    }
}

static enum mg_code run_top_k(const struct cpu_call *call)
{
    const struct top *top = ((const struct cpu_op *)call->p->detail)->data;
    struct cpu_rows kept = {top->rows.outer, top->count, top->rows.inner};
    struct entry *entries = (struct entry *)(void *)(call->scratch + top->entries);
    uint32_t bytes = mg_dtype_size(top->dtype);
    for (int64_t r = 0; r < kept.outer * kept.inner; r++) {
        const char *from = (const char *)call->in[0] + mg_cpu_row_begin(&top->rows, r) * bytes;
        int64_t to = mg_cpu_row_begin(&kept, r);
        read_row(top, from, entries);
        if (top->count <= FEW)
            select_few(entries, top->rows.extent, top->count);
        else
            qsort(entries, (size_t)top->rows.extent, sizeof *entries, compare);
        write_row(top, entries, from, (char *)call->out[0] + to * bytes, (int64_t *)call->out[1] + to);
    }
    return MG_OK;
}

enum mg_code mg_cpu_top_k(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct top *top = MG_NEW(&p->arena, struct top);
    int64_t axis = mg_prepared_int(p, MG_ATTR_AXIS);
    (void)err;
    top->rows = mg_cpu_rows(&p->op.in_shape[0], axis);
    top->count = p->op.out_shape[0].dim[axis];
    top->dtype = mg_cpu_native(p->op.in_dtype[0]);
    top->largest = mg_prepared_int(p, MG_ATTR_LARGEST);
    top->entries = mg_cpu_reserve(p, (uint64_t)top->rows.extent * sizeof(struct entry));
    op->data = top;
    op->run = run_top_k;
    return MG_OK;
}

/* ---- triangles ---- */

static int64_t clamped(int64_t x, int64_t size)
{
    return x < 0 ? 0 : x > size ? size : x;
}

static enum mg_code run_trilu(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct mg_shape *x = &p->op.in_shape[0];
    int64_t rows = x->dim[x->rank - 2], columns = x->dim[x->rank - 1], diagonal = mg_prepared_int(p, MG_ATTR_DIAGONAL);
    bool upper = mg_prepared_int(p, MG_ATTR_UPPER);
    size_t bytes = mg_dtype_size(mg_cpu_native(p->op.in_dtype[0]));
    const char *from = call->in[0];
    char *to = call->out[0];
    for (int64_t r = 0; r < mg_shape_elements(x) / columns; r++, from += (size_t)columns * bytes) {
        int64_t cut = clamped(r % rows + diagonal + !upper, columns); /* kept from here on, or up to here */
        int64_t kept = upper ? columns - cut : cut, first = upper ? cut : 0;
        memset(to, 0, (size_t)columns * bytes);
        memcpy(to + (size_t)first * bytes, from + (size_t)first * bytes, (size_t)kept * bytes);
        to += (size_t)columns * bytes;
    }
    return MG_OK;
}

enum mg_code mg_cpu_trilu(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    (void)p;
    (void)err;
    op->run = run_trilu;
    return MG_OK;
}

static enum mg_code run_eye(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct mg_shape *shape = &p->op.out_shape[0];
    enum mg_dtype native = mg_cpu_native(p->op.out_dtype[0]);
    int64_t diagonal = mg_prepared_int(p, MG_ATTR_DIAGONAL);
    memset(call->out[0], 0, (size_t)mg_shape_elements(shape) * mg_dtype_size(native));
    for (int64_t r = 0; r < shape->dim[0]; r++)
        if (r + diagonal >= 0 && r + diagonal < shape->dim[1])
            put_one(native, call->out[0], r * shape->dim[1] + r + diagonal);
    return MG_OK;
}

enum mg_code mg_cpu_eye(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    (void)p;
    (void)err;
    op->run = run_eye;
    return MG_OK;
}
