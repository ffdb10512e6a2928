#include "measure/operands.h"

#include <math.h>
#include <string.h>

#include "base/digest.h"
#include "measure/convert.h"

enum kind { ORDINARY, INDICES, PLACES, LENGTHS, BOXES, COORDINATES };

struct numbers {
    enum kind kind;
    const struct mg_op_desc *op;
    uint64_t total;             /* elements of the operand */
    uint64_t pitch;             /* from a row to the next; 0: it has no rows */
    int64_t below[MG_MAX_RANK]; /* of each number of a row */
    uint32_t columns;           /* of a row that differ */
    double largest, box[4];
};

static int64_t attr(const struct mg_op_desc *op, enum mg_attr_key key)
{
    const struct mg_attr *found = mg_attr_find(op->attrs, op->attr_count, key);
    return found ? found->i : 0;
}

/* Elements from one row to the next, where the numbers of a row lie one behind the other and all rows as far apart. */
static uint64_t pitch_of(const struct mg_shape *shape, const struct mg_strides *strides)
{
    if (shape->rank == 0)
        return 0;
    int64_t size = shape->dim[shape->rank - 1], pitch = size;
    if (size > 1 && strides->at[shape->rank - 1] != 1)
        return 0;
    for (uint32_t d = shape->rank - 1, first = 1; d-- > 0;) {
        if (shape->dim[d] <= 1 || strides->at[d] == 0)
            continue;
        pitch = first ? strides->at[d] : pitch;
        first = 0;
        if (pitch < size || strides->at[d] % pitch)
            return 0;
    }
    return (uint64_t)pitch;
}

static int64_t least(const int64_t *list, uint32_t count)
{
    int64_t found = list[0];
    for (uint32_t i = 1; i < count; i++)
        found = list[i] < found ? list[i] : found;
    return found;
}

static void set_indices(struct numbers *n, int64_t below)
{
    n->kind = INDICES;
    n->columns = 1;
    n->below[0] = below;
}

/* Tuples: each number has its own axis. */
static void set_tuples(struct numbers *n)
{
    const struct mg_shape *data = &n->op->in_shape[0], *index = &n->op->in_shape[1];
    n->kind = INDICES;
    n->columns = (uint32_t)index->dim[index->rank - 1];
    memcpy(n->below, data->dim + attr(n->op, MG_ATTR_BATCH_DIMS), n->columns * sizeof *n->below);
    if (n->pitch == 0)
        set_indices(n, least(n->below, n->columns));
}

/* x, y of one corner, then of the other. */
static void set_boxes(struct numbers *n)
{
    const struct mg_attr *found = mg_attr_find(n->op->attrs, n->op->attr_count, MG_ATTR_SPATIAL_SCALE);
    double scale = found && found->f > 0 ? found->f : 1;
    n->kind = n->pitch ? BOXES : ORDINARY;
    n->columns = 4;
    n->box[2] = (double)n->op->in_shape[0].dim[3] / scale;
    n->box[3] = (double)n->op->in_shape[0].dim[2] / scale;
}

static void set_lengths(struct numbers *n)
{
    set_indices(n, n->op->in_shape[0].dim[attr(n->op, MG_ATTR_TIME_AXIS)]);
    n->kind = LENGTHS;
}

static void set_places(struct numbers *n)
{
    set_indices(n, mg_shape_elements(&n->op->out_shape[0]));
    n->kind = PLACES;
}

/* Operand 1, or another one where it says so. */
static void choose(struct numbers *n, uint32_t i)
{
    const struct mg_op_desc *op = n->op;
    const struct mg_shape *in = op->in_shape;
    if (op->type == MG_OP_ONE_HOT && i == 0)
        set_indices(n, attr(op, MG_ATTR_DEPTH));
    else if ((op->type == MG_OP_CROSS_ENTROPY_GRAD || op->type == MG_OP_NLL_LOSS_GRAD) && i == 2)
        set_indices(n, in[1].dim[1]);
    else if (op->type == MG_OP_ROI_ALIGN && i == 2)
        set_indices(n, in[0].dim[0]);
    else if (i == 1 &&
             (op->type == MG_OP_GATHER || op->type == MG_OP_GATHER_ELEMENTS || op->type == MG_OP_SCATTER_ELEMENTS))
        set_indices(n, in[0].dim[attr(op, MG_ATTR_AXIS)]);
    else if (op->type == MG_OP_SCATTER_ADD && i == 1)
        set_indices(n, attr(op, MG_ATTR_SIZE));
    else if ((op->type == MG_OP_GATHER_ND || op->type == MG_OP_SCATTER_ND) && i == 1)
        set_tuples(n);
    else if ((op->type == MG_OP_CROSS_ENTROPY || op->type == MG_OP_NLL_LOSS) && i == 1)
        set_indices(n, in[0].dim[1]);
    else if (op->type == MG_OP_ROI_ALIGN && i == 1)
        set_boxes(n);
    else if (op->type == MG_OP_REVERSE_SEQUENCE && i == 1)
        set_lengths(n);
    else if (op->type == MG_OP_MAX_UNPOOL && i == 1)
        set_places(n);
    else if (op->type == MG_OP_GRID_SAMPLE && i == 1)
        n->kind = COORDINATES;
}

static bool is_real(enum mg_dtype dtype)
{
    return dtype == MG_DTYPE_F32 || dtype == MG_DTYPE_F64 || dtype == MG_DTYPE_BF16 || dtype == MG_DTYPE_F16;
}

/* What the narrower whole numbers hold. */
static double largest_of(enum mg_dtype dtype)
{
    uint32_t size = mg_dtype_size(dtype);
    return is_real(dtype) || size > 2 ? INFINITY : size == 2 ? INT16_MAX : INT8_MAX;
}

static double number(const struct numbers *n, uint64_t at, struct mg_rng *rng)
{
    uint64_t column = n->columns > 1 ? at % n->pitch % n->columns : 0;
    int64_t below = n->below[column];
    switch (n->kind) {
    case INDICES:
        return below > 1 ? (double)mg_rng_below(rng, (uint64_t)below) : 0;
    case PLACES: /* near those of its neighbours, as where a pool found them */
        return floor((double)at / (double)n->total * (double)below);
    case LENGTHS:
        return (double)below;
    case BOXES:
        return n->box[column];
    default: /* of an image, from its one border to the other */
        return 2 * mg_rng_unit(rng) - 1;
    }
}

static void fill_ordinary(void *memory, enum mg_dtype dtype, uint64_t count, struct mg_rng *rng)
{
    if (is_real(dtype)) {
        for (uint64_t i = 0; i < count; i++)
            mg_convert_save(memory, dtype, (int64_t)i, 0.5 + mg_rng_unit(rng));
    } else { /* of the narrowest formats, tiny numbers */
        uint32_t size = mg_dtype_size(dtype);
        memset(memory, 0, count * size);
        for (uint64_t i = 0; i < count; i++)
            ((uint8_t *)memory)[i * size] = (uint8_t)mg_rng_below(rng, 2);
    }
}

uint64_t mg_operand_fill(const struct mg_op_desc *op, uint32_t i, const struct mg_strides *strides, void *memory,
                         uint64_t count)
{
    const struct mg_shape *shape = &op->in_shape[i];
    struct numbers n = {.op = op, .total = (uint64_t)mg_shape_elements(shape), .pitch = pitch_of(shape, strides)};
    struct mg_rng rng;
    mg_rng_init(&rng, count);
    n.largest = largest_of(op->in_dtype[i]);
    choose(&n, i);
    if (n.kind == ORDINARY) {
        fill_ordinary(memory, op->in_dtype[i], count, &rng);
        return count;
    }
    if (n.columns > 1 && count > n.pitch)
        count -= count % n.pitch;
    for (uint64_t k = 0; k < count; k++)
        mg_convert_save(memory, op->in_dtype[i], (int64_t)k, fmin(number(&n, k, &rng), n.largest));
    return count;
}

bool mg_operand_is_anywhere(const struct mg_op_desc *op, uint32_t i)
{
    struct numbers n = {.op = op, .pitch = 1};
    choose(&n, i);
    return n.columns <= 1 && n.kind != PLACES;
}

/* ---- of a graph ---- */

/* What a value must lie below; OPEN: no matter; COMPUTED_WITH: an index is computed with it, who knows how. */
enum { OPEN = 0, COMPUTED_WITH = -1 };

static int64_t both(int64_t a, int64_t b)
{
    if (a == COMPUTED_WITH || b == COMPUTED_WITH)
        return COMPUTED_WITH;
    return a == OPEN || (b != OPEN && b < a) ? b : a;
}

static int64_t bound_of(const struct mg_op_desc *op, uint32_t i)
{
    struct numbers n = {.op = op};
    choose(&n, i);
    switch (n.kind) {
    case INDICES:
        return n.columns ? least(n.below, n.columns) : OPEN;
    case LENGTHS:
        return n.below[0] + 1;
    case PLACES:
        return n.below[0];
    default:
        return OPEN;
    }
}

static bool only_moves(const struct mg_op_info *op)
{
    return op->is_view || op->type == MG_OP_COPY || op->type == MG_OP_CONCAT || op->type == MG_OP_CAST;
}

static void bound_operands(const struct mg_graph *g, mg_op index, int64_t *below, struct mg_arena *arena)
{
    const struct mg_op_info *op = &g->ops[index];
    struct mg_op_desc desc;
    struct mg_error ignored;
    struct mg_arena_mark mark = mg_arena_mark(arena);
    int64_t results = OPEN;
    for (uint32_t k = 0; k < op->out_count; k++)
        results = both(results, below[op->out[k]]);
    bool moves = only_moves(op);
    bool known = !moves && mg_op_describe(g, index, NULL, 0, arena, &desc, &ignored) == MG_OK;
    for (uint32_t i = 0; i < op->in_count; i++) {
        int64_t bound =
            moves ? results : both(known ? bound_of(&desc, i) : OPEN, results == OPEN ? OPEN : COMPUTED_WITH);
        below[op->in[i]] = both(below[op->in[i]], bound);
    }
    mg_arena_rewind(arena, mark);
}

void mg_operand_spread(const struct mg_graph *g, double **values, uint64_t seed, struct mg_arena *arena)
{
    int64_t *below = MG_NEW_ARRAY(arena, int64_t, g->value_count);
    struct mg_rng rng;
    mg_rng_init(&rng, seed);
    for (mg_op op = (mg_op)g->op_count; op-- > 0;)
        bound_operands(g, op, below, arena);
    for (size_t v = 0; v < g->value_count; v++) {
        const struct mg_value_info *value = &g->values[v];
        if (value->kind != MG_KIND_INPUT || value->dtype < MG_DTYPE_I64 || value->dtype == MG_DTYPE_BOOL ||
            below[v] <= 0)
            continue;
        int64_t count = mg_shape_elements(&value->shape);
        double largest = largest_of(value->dtype);
        for (int64_t i = 0; i < count; i++)
            values[v][i] = fmin((double)mg_rng_below(&rng, (uint64_t)below[v]), largest);
    }
}
