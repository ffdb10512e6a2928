/* Storages and views of a captured step, made functional.
 *
 * The graph knows values, a captured step writes into storages. Each storage has a version; each tensor remembers the
 * version its value was derived at. Writing gives the tensor a new value, carries it to the storage's base through the
 * views in between (a reshape or a transpose backwards; a part is put into its whole by a call of its own), and makes
 * all others stale: reading a stale view derives it again from its parent. */
#include <string.h>

#include "formats/aten_priv.h"

/* ---- survey ---- */

/* Storages are numbered as they are met: the document's numbers may be anything. */
static void number_storages(struct aten_builder *b)
{
    size_t slots = 64, count = b->document->node_count;
    while (slots < 2 * count)
        slots *= 2;
    uint32_t *slot = MG_NEW_ARRAY(b->arena, uint32_t, slots), used = 0;
    memset(slot, 0xff, slots * sizeof *slot);
    for (uint32_t n = 0; n < count; n++) {
        const struct aten_node *node = &b->document->nodes[n];
        if (!node->has_out)
            continue;
        size_t at = (size_t)(node->storage * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (slots - 1);
        while (slot[at] != MG_NONE && b->document->nodes[slot[at]].storage != node->storage)
            at = (at + 1) & (slots - 1);
        if (slot[at] == MG_NONE) {
            slot[at] = n;
            b->storages[used] = (struct aten_storage){.last_write = MG_NONE, .base = n};
            b->tensors[n].storage = used++;
        } else {
            b->tensors[n].storage = b->tensors[slot[at]].storage;
        }
    }
}

static void note_writes(struct aten_builder *b, uint32_t n)
{
    const struct aten_node *node = &b->document->nodes[n];
    for (size_t i = 0; i < node->write_count; i++) {
        const struct aten_arg *arg = node->writes[i] >= 0 ? aten_argument(node, (size_t)node->writes[i], NULL) : NULL;
        if (arg && aten_is_tensor(arg) && b->document->nodes[arg->node].has_out)
            b->storages[b->tensors[arg->node].storage].last_write = n;
    }
}

static void note_reads(struct aten_builder *b, const struct aten_arg *arg)
{
    if (arg->kind == ATEN_NODE)
        b->is_read[arg->node] = true;
    for (size_t i = 0; i < arg->count; i++)
        note_reads(b, &arg->item[i]);
}

/* Which nodes somebody reads: outputs, and what calls read that are read themselves, write or are not PyTorch's. */
static void find_read(struct aten_builder *b)
{
    for (size_t i = 0; i < b->document->output_count; i++)
        b->is_read[b->document->outputs[i].node] = true;
    for (size_t n = b->document->node_count; n-- > 0;) {
        const struct aten_node *node = &b->document->nodes[n];
        bool plain = node->kind == ATEN_GETITEM || strncmp(node->op, "aten.", 5) == 0;
        b->is_read[n] = b->is_read[n] || node->write_count || node->kind == ATEN_PLACEHOLDER || !plain;
        if (b->is_read[n]) {
            note_reads(b, &node->args);
            note_reads(b, &node->kwargs);
        }
    }
}

void aten_survey(struct aten_builder *b)
{
    size_t count = b->document->node_count;
    b->tensors = MG_NEW_ARRAY(b->arena, struct aten_tensor, count);
    b->storages = MG_NEW_ARRAY(b->arena, struct aten_storage, count);
    b->first_item = MG_NEW_ARRAY(b->arena, uint32_t, count);
    b->next_item = MG_NEW_ARRAY(b->arena, uint32_t, count);
    b->is_read = MG_NEW_ARRAY(b->arena, bool, count);
    memset(b->first_item, 0xff, count * sizeof *b->first_item);
    for (size_t n = 0; n < count; n++)
        b->tensors[n] = (struct aten_tensor){.value = MG_NONE, .parent = MG_NONE, .axis = -1};
    number_storages(b);
    for (uint32_t n = (uint32_t)count; n-- > 0;) {
        const struct aten_node *node = &b->document->nodes[n];
        if (node->kind != ATEN_GETITEM)
            continue;
        b->next_item[n] = b->first_item[node->args.item[0].node];
        b->first_item[node->args.item[0].node] = n;
    }
    for (uint32_t n = 0; n < count; n++)
        note_writes(b, n);
    find_read(b);
}

/* ---- how a view lies in its parent ---- */

static const char *base_name(const char *op, size_t *size)
{
    const char *start = strncmp(op, "aten.", 5) == 0 ? op + 5 : op;
    *size = strcspn(start, ".");
    return start;
}

static bool is_called(const struct aten_node *node, const char *const *names)
{
    size_t size;
    const char *name = base_name(node->op, &size);
    for (; *names; names++)
        if (strlen(*names) == size && strncmp(*names, name, size) == 0)
            return true;
    return false;
}

/* The permutation of a transposing call; false if its arguments do not make one. */
static bool permutation(const struct aten_node *node, uint32_t rank, int64_t perm[MG_MAX_RANK])
{
    size_t size;
    const char *name = base_name(node->op, &size);
    for (uint32_t d = 0; d < rank; d++)
        perm[d] = d;
    if (size == 7 && strncmp(name, "permute", size) == 0) {
        uint32_t seen = 0;
        if (aten_ints(node, 1, "dims", 1, perm) != rank)
            return false;
        for (uint32_t d = 0; d < rank; d++) {
            perm[d] = aten_axis(perm[d], rank);
            if (perm[d] < 0 || perm[d] >= rank)
                return false;
            seen |= 1U << perm[d];
        }
        return seen == (1U << rank) - 1;
    }
    bool matrix = size < 3; /* t, t_ */
    int64_t a = matrix ? 0 : aten_axis(aten_int(node, 1, "dim0", 0), rank);
    int64_t c = matrix ? 1 : aten_axis(aten_int(node, 2, "dim1", 1), rank);
    if (rank < 2)
        return true;
    if (a < 0 || a >= rank || c < 0 || c >= rank)
        return false;
    perm[a] = c;
    perm[c] = a;
    return true;
}

static bool is_dense(const struct aten_node *node)
{
    return node->strides.rank == node->shape.rank && mg_layout_contiguous(&node->shape, node->strides.dim);
}

enum lie { LIE_ALIAS, LIE_RESHAPE, LIE_TRANSPOSE, LIE_EXPAND, LIE_SLICE, LIE_SELECT, LIE_STRIDED, LIE_NONE };

/* What a view by strides is a part of: all that its first argument is a view of. */
static uint32_t root_of(const struct aten_builder *b, uint32_t n)
{
    while (b->tensors[n].parent != MG_NONE)
        n = b->tensors[n].parent;
    return n;
}

static enum lie lie_of(const struct aten_builder *b, uint32_t n)
{
    static const char *const aliases[] = {"detach", "alias", "lift_fresh", "lift", "contiguous", "as_strided_", NULL};
    static const char *const reshapes[] = {"view",      "_unsafe_view", "_reshape_alias", "reshape",  "squeeze",
                                           "unsqueeze", "flatten",      "view_as",        "squeeze_", "unsqueeze_",
                                           NULL};
    static const char *const transposes[] = {"t", "t_", "transpose", "transpose_", "permute", "numpy_T", NULL};
    static const char *const expands[] = {"expand", "expand_as", NULL};
    static const char *const slices[] = {"slice", "narrow", NULL};
    static const char *const selects[] = {"select", NULL};
    static const char *const strided[] = {"as_strided", NULL}, *const turned[] = {"as_strided_", NULL};
    const struct aten_node *node = &b->document->nodes[n], *from;
    if (node->kind != ATEN_CALL || !node->has_out || node->args.count == 0 || !aten_is_tensor(&node->args.item[0]))
        return LIE_NONE;
    from = &b->document->nodes[node->args.item[0].node];
    if (!from->has_out || b->tensors[n].storage != b->tensors[node->args.item[0].node].storage ||
        from->dtype != node->dtype)
        return LIE_NONE;
    bool all = mg_shape_elements(&from->shape) == mg_shape_elements(&node->shape);
    if (is_called(node, aliases) && mg_shape_equal(&from->shape, &node->shape))
        return LIE_ALIAS;
    if (is_called(node, reshapes) && all)
        return LIE_RESHAPE;
    if (is_called(node, strided) && all && is_dense(node) && is_dense(from) && node->offset == from->offset)
        return LIE_RESHAPE;
    if (is_called(node, transposes))
        return LIE_TRANSPOSE;
    if (is_called(node, expands))
        return LIE_EXPAND;
    if (is_called(node, slices))
        return LIE_SLICE;
    if (is_called(node, selects))
        return LIE_SELECT;
    from = &b->document->nodes[root_of(b, node->args.item[0].node)];
    bool written = node->write_count > 0 && !is_called(node, turned);
    return !written && from->has_out && aten_is_strided(from, node) ? LIE_STRIDED : LIE_NONE;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

struct part {
    int64_t axis, start, end, step;
};

/* The part of its parent that a slice or a selected row is. */
static bool part_of(const struct aten_node *node, const struct mg_shape *from, struct part *out)
{
    static const char *const narrow[] = {"narrow", NULL}, *const select[] = {"select", NULL};
    out->axis = aten_axis(aten_int(node, 1, "dim", 0), from->rank);
    if (out->axis < 0 || out->axis >= from->rank)
        return false;
    int64_t size = from->dim[out->axis], start = aten_int(node, 2, is_called(node, select) ? "index" : "start", 0);
    int64_t end = aten_int(node, 3, "end", size);
    out->step = is_called(node, narrow) || is_called(node, select) ? 1 : aten_int(node, 4, "step", 1);
    out->start = clamp(start < 0 ? start + size : start, 0, size);
    if (is_called(node, select))
        end = out->start + 1;
    else if (is_called(node, narrow))
        end += out->start;
    else
        end = end < 0 ? end + size : end;
    out->end = clamp(end, out->start, size);
    return out->step >= 1 && out->start < size;
}

/* Where the view `n` lies in its parent of shape `from`, if it is a part of it. */
static bool place_of(const struct aten_builder *b, uint32_t n, const struct mg_shape *from, struct part *out)
{
    const struct aten_node *node = &b->document->nodes[n];
    const struct aten_tensor *t = &b->tensors[n];
    if (node->kind != ATEN_GETITEM)
        return part_of(node, from, out);
    int64_t size = node->shape.rank < from->rank ? 1 : node->shape.dim[t->axis];
    *out = (struct part){t->axis, t->piece, t->piece + size, 1};
    return out->end <= from->dim[t->axis];
}

static mg_value transposed(struct aten_builder *b, mg_value v, const int64_t *perm)
{
    aten_set_ints(b, MG_ATTR_PERM, perm, aten_shape(b, v)->rank);
    return aten_emit1(b, MG_OP_TRANSPOSE, v);
}

/* The view `n` of its parent's value. */
static mg_value derive(struct aten_builder *b, uint32_t n, mg_value from)
{
    const struct aten_node *node = &b->document->nodes[n];
    const struct aten_tensor *t = &b->tensors[n];
    int64_t perm[MG_MAX_RANK];
    struct part part;
    if (from == MG_NONE)
        return MG_NONE;
    if (node->kind == ATEN_GETITEM) { /* a piece of a split or of an unbinding */
        if (t->axis < 0)
            return from;
        if (!place_of(b, n, aten_shape(b, from), &part))
            return aten_decline(b);
        return aten_reshape(b, aten_slice(b, from, part.axis, part.start, part.end, 1), &node->shape);
    }
    switch (lie_of(b, n)) {
    case LIE_RESHAPE:
        return aten_reshape(b, from, &node->shape);
    case LIE_TRANSPOSE:
        return permutation(node, aten_shape(b, from)->rank, perm) ? transposed(b, from, perm) : aten_decline(b);
    case LIE_EXPAND:
        return aten_expand(b, from, &node->shape);
    case LIE_SLICE:
    case LIE_SELECT:
        if (!part_of(node, aten_shape(b, from), &part))
            return aten_decline(b);
        return aten_reshape(b, aten_slice(b, from, part.axis, part.start, part.end, part.step), &node->shape);
    case LIE_STRIDED:
        return aten_strided_part(b, t->parent, n, from);
    default: /* aliases, and in-place calls, whose result is their first argument */
        return from;
    }
}

/* The parent's value, given a new value of all of the view `n` of it. */
static mg_value carry(struct aten_builder *b, uint32_t n, mg_value value, mg_value parent)
{
    const struct aten_node *node = &b->document->nodes[n];
    int64_t perm[MG_MAX_RANK], inverse[MG_MAX_RANK];
    const struct mg_shape *whole = &b->document->nodes[b->tensors[n].parent].shape;
    enum lie lie = lie_of(b, n);
    if (node->kind == ATEN_GETITEM ? b->tensors[n].axis < 0 : lie == LIE_ALIAS || lie == LIE_NONE)
        return value;
    if (lie == LIE_RESHAPE)
        return aten_reshape(b, value, whole);
    if (lie == LIE_TRANSPOSE && permutation(node, whole->rank, perm)) {
        for (uint32_t d = 0; d < whole->rank; d++)
            inverse[perm[d]] = d;
        return transposed(b, value, inverse);
    }
    if (node->kind != ATEN_GETITEM && lie == LIE_STRIDED)
        return aten_strided_put(b, b->tensors[n].parent, n, parent, value);
    struct part part;
    if (!place_of(b, n, whole, &part))
        return aten_decline(b);
    struct mg_shape shape = *whole; /* of the part, its axis included */
    shape.dim[part.axis] = (part.end - part.start + part.step - 1) / part.step;
    return aten_put(b, parent, aten_reshape(b, value, &shape), part.axis, part.start, part.end, part.step);
}

/* ---- reading and writing ---- */

/* Contents of a tensor that nobody wrote: zeros are as good as anything. */
static mg_value undefined(struct aten_builder *b, uint32_t n)
{
    const struct aten_node *node = &b->document->nodes[n];
    if (!node->has_out)
        return aten_decline(b);
    if (node->kind == ATEN_GETITEM && !b->as_is[node->args.item[0].node])
        b->as_is[node->args.item[0].node] = b->again = true; /* a result that the rule does not give */
    aten_note(b, n);
    return b->tensors[n].value = aten_fill(b, &node->shape, node->dtype, 0);
}

mg_value aten_read(struct aten_builder *b, uint32_t n)
{
    struct aten_tensor *t = &b->tensors[n];
    uint32_t *stale = NULL;
    size_t count = 0, capacity = 0;
    if (!b->document->nodes[n].has_out)
        return t->value != MG_NONE ? t->value : aten_decline(b);
    uint32_t version = b->storages[t->storage].version, at = n;
    while (b->tensors[at].parent != MG_NONE && (b->tensors[at].version != version || b->tensors[at].value == MG_NONE)) {
        *MG_PUSH(b->arena, stale, count, capacity) = at;
        at = b->tensors[at].parent;
    }
    mg_value value = b->tensors[at].value == MG_NONE ? undefined(b, at) : b->tensors[at].value;
    while (count-- > 0 && value != MG_NONE) {
        aten_note(b, stale[count]);
        value = b->tensors[stale[count]].value = derive(b, stale[count], value);
        b->tensors[stale[count]].version = version;
    }
    return value;
}

static bool is_part(const struct aten_builder *b, uint32_t n)
{
    enum lie lie = lie_of(b, n);
    return b->document->nodes[n].kind == ATEN_GETITEM
               ? b->tensors[n].axis >= 0
               : lie == LIE_SLICE || lie == LIE_SELECT || lie == LIE_EXPAND || lie == LIE_STRIDED;
}

bool aten_is_whole(const struct aten_builder *b, uint32_t n)
{
    for (; b->tensors[n].parent != MG_NONE; n = b->tensors[n].parent)
        if (is_part(b, n))
            return false;
    return true;
}

void aten_write(struct aten_builder *b, uint32_t n, mg_value contents)
{
    struct aten_storage *s = &b->storages[b->tensors[n].storage];
    if (s->tangled && !b->code) {
        b->code =
            mg_fail(b->err, MG_ERR_UNSUPPORTED, "", "'%.100s' writes to a storage of which an unknown call made a view",
                    b->document->nodes[b->node].name);
        return;
    }
    uint32_t old = s->version++;
    for (uint32_t at = n; contents != MG_NONE;) {
        struct aten_tensor *t = &b->tensors[at];
        t->value = contents;
        t->version = s->version;
        if (t->parent == MG_NONE)
            break;
        mg_value whole = MG_NONE;
        if (is_part(b, at)) {
            s->version = old; /* the whole as it was */
            whole = aten_read(b, t->parent);
            s->version = old + 1;
        }
        contents = carry(b, at, contents, whole);
        at = t->parent;
    }
}

void aten_alias(struct aten_builder *b, uint32_t target, mg_value value)
{
    struct aten_tensor *t = &b->tensors[b->node];
    t->parent = target;
    t->version = b->storages[t->storage].version;
    t->value = value;
}

bool aten_view(struct aten_builder *b, uint32_t n)
{
    struct aten_tensor *t = &b->tensors[n];
    const struct aten_node *node = &b->document->nodes[n];
    enum lie lie = lie_of(b, n);
    if (lie == LIE_NONE)
        return false;
    struct aten_mark mark = aten_try(b);
    t->parent = lie == LIE_STRIDED ? root_of(b, node->args.item[0].node) : node->args.item[0].node;
    (void)aten_read(b, n);
    if (!b->declined)
        return true;
    aten_take_back(b, mark);
    t->parent = MG_NONE;
    return false;
}
