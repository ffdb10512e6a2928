/* Parts are those of each axis cut into n equal ones, for every divisor n of its length up to 64: the numbers of parts
 * that the search moves through. */
#include "server/timing_want.h"

#include <stdlib.h>
#include <string.h>

#include "device/signature.h"

enum { MOST_PARTS = 64, MOST_CANDIDATES = 60000 };

struct wants {
    const struct mg_graph *g;
    const struct mg_device *device;
    struct mg_arena *arena, *scratch;
    struct mg_timing_want *list;
    size_t count, capacity;
};

static bool is_measurable(const struct mg_op_info *op)
{
    return !op->is_view && op->type != MG_OP_OPAQUE && mg_op_cost(op->type) != MG_COST_VIEW;
}

static void add(struct wants *w, const struct mg_op_desc *desc, double uses, bool whole)
{
    size_t bound = mg_signature_bound(desc->attrs, desc->attr_count, desc->in_count + desc->out_count);
    char *text = mg_arena_alloc(w->scratch, bound);
    const char *name = mg_op_type_name(desc->type);
    double seconds = mg_device_latency(w->device, desc);
    if (mg_signature_print(desc, text) >= MG_SIGNATURE_MAX || seconds <= 0)
        return;
    *MG_PUSH(w->arena, w->list, w->count, w->capacity) = (struct mg_timing_want){
        name, mg_arena_strdup(w->arena, text), mg_signature_key(name, text), seconds * uses, seconds, whole};
}

static void add_parts(struct wants *w, mg_op op)
{
    uint32_t axes;
    const struct mg_axis *axis = mg_op_axes(w->g, op, &axes);
    struct mg_op_desc desc;
    struct mg_error ignored;
    for (uint32_t a = 0; a < axes; a++)
        for (int64_t n = 2; n <= MOST_PARTS && n <= axis[a].length && !axis[a].window; n++) {
            struct mg_cut cut = {a, 0, axis[a].length / n};
            if (axis[a].length % n == 0 && w->count < MOST_CANDIDATES &&
                mg_op_describe(w->g, op, &cut, 1, w->scratch, &desc, &ignored) == MG_OK)
                add(w, &desc, (double)n, false);
        }
}

static enum mg_code collect(void *context, struct mg_error *err)
{
    struct wants *w = context;
    struct mg_op_desc desc;
    for (int parts = 0; parts < 2; parts++)
        for (mg_op op = 0; op < w->g->op_count; op++) {
            struct mg_arena_mark mark = mg_arena_mark(w->scratch);
            if (is_measurable(&w->g->ops[op]) && !parts &&
                mg_op_describe(w->g, op, NULL, 0, w->scratch, &desc, err) == MG_OK)
                add(w, &desc, 1, true);
            if (is_measurable(&w->g->ops[op]) && parts)
                add_parts(w, op);
            mg_arena_rewind(w->scratch, mark);
        }
    return MG_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct mg_timing_want *x = a, *y = b;
    if (x->key.lo != y->key.lo)
        return x->key.lo < y->key.lo ? -1 : 1;
    return x->key.hi < y->key.hi ? -1 : x->key.hi > y->key.hi;
}

static int by_worth(const void *a, const void *b)
{
    const struct mg_timing_want *x = a, *y = b;
    if (x->whole != y->whole)
        return x->whole ? -1 : 1;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return by_key(a, b);
}

/* Equal ones become one, worth their sum. */
static size_t merge(struct mg_timing_want *list, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(list, count, sizeof *list, by_key);
    for (size_t i = 0; i < count; i++) {
        if (kept && by_key(&list[kept - 1], &list[i]) == 0) {
            list[kept - 1].value += list[i].value;
            list[kept - 1].whole |= list[i].whole;
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

void mg_timing_wants_of(const struct mg_graph *g, const struct mg_device *device, struct mg_arena *arena,
                        struct mg_timing_want **wants, size_t *count)
{
    struct mg_arena scratch;
    struct wants w = {.g = g, .device = device, .arena = arena, .scratch = &scratch};
    size_t whole = 0;
    mg_arena_init(&scratch, 256 << 20);
    (void)!mg_arena_guard(&scratch, collect, &w, NULL); /* what was found until the room ran out is enough */
    mg_arena_release(&scratch);
    size_t n = merge(w.list, w.count);
    if (n)
        qsort(w.list, n, sizeof *w.list, by_worth);
    while (whole < n && w.list[whole].whole)
        whole++;
    size_t most = whole > MG_TIMING_GRAPH_WANTS ? whole : MG_TIMING_GRAPH_WANTS;
    *wants = w.list;
    *count = n < most ? n : most;
}
