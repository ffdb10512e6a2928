/* One list for each graph, in which equal signatures add up; over the graphs they count as in the one that uses them
 * most, since only one of them will run. */
#include "search/forecast.h"

#include <stdlib.h>
#include <string.h>

#include "device/signature.h"
#include "graph/rewrite.h"
#include "search/tree.h"

enum { MOST_CANDIDATES = 60000, MOST_PARTS = 64, ENOUGH_EVEN = 3 };

struct list {
    struct mg_forecast *item;
    size_t count, capacity;
};

/* Operators with one signature have the same parts: they are looked at once. */
struct kind {
    struct mg_hash128 key;
    mg_op op; /* the first of them */
};

struct forecaster {
    const struct mg_graph *g; /* the one looked at: the original, or what rewrites make of it */
    const struct mg_graph *original;
    const char **names; /* of the original's operators, sorted */
    const struct mg_device *device;
    struct mg_arena *arena, *scratch;
    struct list all, here; /* of the graphs before, and of this one */
    struct kind *kind;     /* of this graph, one an operator */
    size_t kind_count, kind_capacity;
};

static bool is_measurable(const struct mg_op_info *op)
{
    return !op->is_view && op->type != MG_OP_OPAQUE && mg_op_cost(op->type) != MG_COST_VIEW;
}

static bool add(struct forecaster *f, const struct mg_op_desc *desc, double uses, bool whole)
{
    size_t bound = mg_signature_bound(desc->attrs, desc->attr_count, desc->in_count + desc->out_count);
    char *text = mg_arena_alloc(f->scratch, bound);
    const char *name = mg_op_type_name(desc->type);
    double seconds = mg_device_latency(f->device, desc);
    if (mg_signature_print(desc, text) >= MG_SIGNATURE_MAX || seconds <= 0)
        return false;
    *MG_PUSH(f->arena, f->here.item, f->here.count, f->here.capacity) = (struct mg_forecast){
        name, mg_arena_strdup(f->arena, text), mg_signature_key(name, text), seconds * uses, seconds, whole};
    return true;
}

static void add_whole(struct forecaster *f, mg_op op)
{
    struct mg_op_desc desc;
    struct mg_error ignored;
    if (mg_op_describe(f->g, op, NULL, 0, f->scratch, &desc, &ignored) == MG_OK &&
        add(f, &desc, 1, f->g == f->original))
        *MG_PUSH(f->arena, f->kind, f->kind_count, f->kind_capacity) =
            (struct kind){f->here.item[f->here.count - 1].key, op};
}

static void add_part(struct forecaster *f, mg_op op, uint32_t axis, int64_t extent, int64_t uses)
{
    struct mg_cut cut = {axis, 0, extent};
    struct mg_op_desc desc;
    struct mg_error ignored;
    if (uses > 0 && extent > 0 && f->here.count < MOST_CANDIDATES &&
        mg_op_describe(f->g, op, &cut, 1, f->scratch, &desc, &ignored) == MG_OK)
        add(f, &desc, (double)uses, false);
}

/* Measuring every part costs more than it is worth: where enough numbers divide an axis, those do. */
static bool has_even_parts(int64_t length)
{
    int divisors = 0;
    for (int64_t n = 2; n <= 8; n++)
        divisors += length % n == 0;
    return divisors >= ENOUGH_EVEN;
}

static void add_axis(struct forecaster *f, mg_op op, uint32_t axis, int64_t length, int64_t uses)
{
    uint32_t counts[MG_PARTS_MAX], n = mg_part_counts(length, counts);
    bool even = has_even_parts(length);
    for (uint32_t i = 0; i < n && counts[i] <= MOST_PARTS; i++) {
        int64_t smaller = length / counts[i], larger_parts = length % counts[i];
        if (even && larger_parts)
            continue;
        add_part(f, op, axis, smaller + 1, uses * larger_parts);
        add_part(f, op, axis, smaller, uses * (counts[i] - larger_parts));
    }
}

static void add_parts(struct forecaster *f, mg_op op, int64_t uses)
{
    uint32_t axes;
    const struct mg_axis *axis = mg_op_axes(f->g, op, &axes);
    for (uint32_t a = 0; a < axes; a++)
        if (!axis[a].window)
            add_axis(f, op, a, axis[a].length, uses);
}

static int compare_keys(struct mg_hash128 x, struct mg_hash128 y)
{
    if (x.lo != y.lo)
        return x.lo < y.lo ? -1 : 1;
    return x.hi < y.hi ? -1 : x.hi > y.hi;
}

static int by_key(const void *a, const void *b)
{
    const struct mg_forecast *x = a, *y = b;
    return compare_keys(x->key, y->key);
}

static int by_kind(const void *a, const void *b)
{
    const struct kind *x = a, *y = b;
    int keys = compare_keys(x->key, y->key);
    return keys ? keys : (x->op > y->op) - (x->op < y->op);
}

static int by_worth(const void *a, const void *b)
{
    const struct mg_forecast *x = a, *y = b;
    if (x->whole != y->whole)
        return x->whole ? -1 : 1;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return by_key(a, b);
}

/* Equal ones become one: worth their sum in one graph, and what the graph says that uses them most. */
static void merge(struct list *list, bool sum)
{
    size_t kept = 0;
    if (list->count)
        qsort(list->item, list->count, sizeof *list->item, by_key);
    for (size_t i = 0; i < list->count; i++) {
        struct mg_forecast *last = kept ? &list->item[kept - 1] : NULL, *item = &list->item[i];
        if (last && by_key(last, item) == 0) {
            last->value = sum ? last->value + item->value : last->value > item->value ? last->value : item->value;
            last->whole |= item->whole;
        } else {
            list->item[kept++] = *item;
        }
    }
    list->count = kept;
}

static void take_over(struct forecaster *f)
{
    merge(&f->here, true);
    for (size_t i = 0; i < f->here.count; i++)
        *MG_PUSH(f->arena, f->all.item, f->all.count, f->all.capacity) = f->here.item[i];
    f->here.count = 0;
    merge(&f->all, false);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What rewrites make has names of its own; the rest was looked at in the original. */
static bool is_new(const struct forecaster *f, const struct mg_op_info *op)
{
    return f->g == f->original || !bsearch(&op->name, f->names, f->original->op_count, sizeof *f->names, by_name);
}

static void add_all_whole(struct forecaster *f)
{
    f->kind_count = 0;
    for (mg_op op = 0; op < f->g->op_count; op++) {
        struct mg_arena_mark mark = mg_arena_mark(f->scratch);
        if (is_measurable(&f->g->ops[op]) && is_new(f, &f->g->ops[op]))
            add_whole(f, op);
        mg_arena_rewind(f->scratch, mark);
    }
}

static void add_all_parts(struct forecaster *f)
{
    if (f->kind_count)
        qsort(f->kind, f->kind_count, sizeof *f->kind, by_kind);
    for (size_t i = 0, end; i < f->kind_count; i = end) {
        for (end = i + 1; end < f->kind_count && compare_keys(f->kind[i].key, f->kind[end].key) == 0;)
            end++;
        struct mg_arena_mark mark = mg_arena_mark(f->scratch);
        add_parts(f, f->kind[i].op, (int64_t)(end - i));
        mg_arena_rewind(f->scratch, mark);
    }
}

static void add_graph(struct forecaster *f, const struct mg_graph *g)
{
    f->g = g;
    add_all_whole(f);
    add_all_parts(f);
    take_over(f);
}

/* What every match makes: a search takes those that pay, but to know which takes longer than is worth it here. */
static enum mg_code add_rewritten(struct forecaster *f, bool joins, struct mg_error *err)
{
    struct mg_rewrite_match *matches;
    struct mg_graph *edited;
    uint32_t count;
    enum mg_code code = mg_rewrite_find(f->original, joins, f->scratch, &matches, &count, err);
    if (code != MG_OK || count == 0)
        return code;
    struct mg_edit *edits = MG_NEW_ARRAY(f->scratch, struct mg_edit, count);
    for (uint32_t i = 0; i < count; i++)
        edits[i] = matches[i].edit;
    code = mg_rewrite_apply(f->original, edits, count, f->scratch, &edited, err);
    if (code == MG_OK)
        add_graph(f, edited);
    return code;
}

static enum mg_code collect(void *context, struct mg_error *err)
{
    struct forecaster *f = context;
    enum mg_code code = MG_OK;
    f->names = MG_NEW_ARRAY(f->scratch, const char *, f->original->op_count);
    for (mg_op op = 0; op < f->original->op_count; op++)
        f->names[op] = f->original->ops[op].name;
    qsort(f->names, f->original->op_count, sizeof *f->names, by_name);
    add_graph(f, f->original);
    for (int joins = 0; joins < 2 && code == MG_OK; joins++) {
        struct mg_arena_mark mark = mg_arena_mark(f->scratch);
        code = add_rewritten(f, joins, err);
        mg_arena_rewind(f->scratch, mark);
    }
    return code;
}

static enum mg_code collect_guarded(void *context, struct mg_error *err)
{
    struct forecaster *f = context;
    return mg_arena_guard(f->scratch, collect, f, err);
}

void mg_forecast_build(const struct mg_graph *g, const struct mg_device *device, struct mg_arena *arena,
                       struct mg_forecast **out, size_t *count)
{
    struct mg_arena scratch;
    struct forecaster f = {.original = g, .device = device, .arena = arena, .scratch = &scratch};
    mg_arena_init(&scratch, 256 << 20);
    (void)!mg_arena_guard(arena, collect_guarded, &f, NULL); /* whichever runs out: the scratch is released */
    mg_arena_release(&scratch);
    take_over(&f); /* what the room running out left behind */
    if (f.all.count)
        qsort(f.all.item, f.all.count, sizeof *f.all.item, by_worth);
    *out = f.all.item;
    *count = f.all.count;
}
