/* The steps of a plan as Python statements. A region becomes a function for each distinct tuple of extents and a loop
 * over its parts; what a part allocates ends with its call. */
#include <stdarg.h>
#include <stdio.h>

#include "export/torch_priv.h"

void mg_torch_line(struct mg_torch *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = mg_arena_alloc(t->e->arena, (size_t)(size < 0 ? 0 : size) + 1);
    va_start(args, fmt);
    vsnprintf(text, (size_t)(size < 0 ? 0 : size) + 1, fmt, args);
    va_end(args);
    mg_write_text(t->body, "%*s%s\n", (int)(4 * t->indent), "", text);
}

size_t mg_torch_name(struct mg_torch *t, const char *name)
{
    void **number = mg_names_at(&t->name_index, t->e->arena, name);
    if (!*number) {
        *MG_PUSH(t->e->arena, t->names, t->name_count, t->name_capacity) = name;
        *number = (void *)(uintptr_t)t->name_count;
    }
    return (size_t)(uintptr_t)*number - 1;
}

static uint32_t base_of(const struct mg_torch *t, uint32_t instance)
{
    uint32_t base = mg_instance_at(t->e, instance)->view_of;
    return base == MG_NONE ? instance : base;
}

static const char *dtype_of(const struct mg_torch *t, uint32_t instance)
{
    return mg_dtype_name(t->e->g->values[mg_instance_at(t->e, instance)->value].dtype);
}

/* ---- reading and writing instances ---- */

/* An instance that is about to be read: whoever loads it has ended before. */
static void await_load(struct mg_torch *t, uint32_t instance)
{
    struct mg_torch_held *held = &t->held[base_of(t, instance)];
    if (!held->loading)
        return;
    mg_torch_line(t, "wait(%s)", held->loading);
    if (held->depth == t->depth)
        held->loading = NULL; /* a part's code may be written again for other extents */
}

static enum mg_code read_part(struct mg_torch *t, uint32_t instance, const struct mg_torch_box *box, const char **out)
{
    struct mg_torch_held held;
    await_load(t, instance);
    enum mg_code code = mg_torch_resolve(t, instance, &held);
    if (code == MG_OK)
        *out = mg_torch_part_of(t, &held, box ? box : &held.box);
    return code;
}

/* A new variable that holds this box from here on. */
static const char *hold(struct mg_torch *t, uint32_t instance, const struct mg_torch_box *box)
{
    const char *name = mg_arena_printf(t->e->arena, "v%u", instance);
    t->held[instance] =
        (struct mg_torch_held){.alive = true, .expr = name, .root = name, .box = *box, .depth = t->depth};
    return name;
}

static bool made_at_begin(const struct mg_torch *t, uint32_t instance)
{
    uint32_t maker = mg_instance_at(t->e, instance)->made_by;
    return maker != MG_NONE && t->e->plan->steps[maker].kind == MG_STEP_BEGIN;
}

/* Anything but a variable may have strides that its result would inherit. */
static bool is_plain(const char *expr)
{
    return strpbrk(expr, ".[(") == NULL;
}

/* ---- compute ---- */

/* The operand whose storage the first result takes, or MG_NONE. */
static uint32_t taken_operand(const struct mg_torch *t, const struct mg_step *step)
{
    for (uint32_t i = 0; i < step->in_count && step->out_count; i++)
        if (mg_instance_at(t->e, mg_step_in(t->e, step, i))->storage ==
            mg_instance_at(t->e, mg_step_out(t->e, step, 0))->storage)
            return i;
    return MG_NONE;
}

/* Must the result stand in the operand's memory? So it is with what others hold too: weights, states, and what was
 * made outside of a part. Else a new tensor may follow the old one. */
static bool must_stay(const struct mg_torch *t, uint32_t instance)
{
    uint32_t base = base_of(t, instance);
    return mg_instance_at(t->e, base)->made_by == MG_NONE || t->held[base].depth < t->depth;
}

/* The first result takes the place of an operand. Inside a region an update does so slice by slice (R9): the old
 * version stays there for the other parts. */
static enum mg_code write_in_place(struct mg_torch *t, const struct mg_step *step, uint32_t slot,
                                   const char *const *operands, bool plain)
{
    struct mg_torch_held held;
    struct mg_torch_box box;
    const char *call;
    uint32_t old = mg_step_in(t->e, step, slot), result = mg_step_out(t->e, step, 0);
    struct mg_torch_held *base = &t->held[base_of(t, old)];
    bool direct = slot == 0 && mg_torch_call_in_place(t, step->op), stay = must_stay(t, old);
    enum mg_code code = mg_torch_resolve(t, old, &held);
    if (code == MG_OK)
        code = mg_torch_call(t, step->op, operands, direct, &call);
    if (code != MG_OK)
        return code;
    if (base->stored)
        mg_torch_line(t, "wait(%s)", base->stored);
    base->alive = stay && t->depth;
    held.stored = held.loading = NULL;
    mg_torch_box_of(t, step->op, true, 0, t->depth, &box);
    if (direct)
        mg_torch_line(t, "%s", call);
    else if (stay)
        mg_torch_line(t, "%s.copy_(%s)", operands[slot], call);
    else
        mg_torch_line(t, plain ? "%s = %s" : "%s = dense(%s)", hold(t, result, &box), call);
    if (direct || stay)
        t->held[result] = held;
    else
        mg_torch_line(t, "del %s", held.root);
    return MG_OK;
}

/* Where a result goes: a new variable, or for now a temporary that is copied into a region's output. */
static const char *target_of(struct mg_torch *t, const struct mg_step *step, uint32_t slot)
{
    struct mg_torch_box box;
    uint32_t instance = mg_step_out(t->e, step, slot);
    if (made_at_begin(t, instance))
        return mg_arena_printf(t->e->arena, "t%u", t->temporaries++);
    mg_torch_box_of(t, step->op, true, slot, t->depth, &box);
    return hold(t, instance, &box);
}

static const char *whole_part(struct mg_torch *t, const struct mg_step *step, uint32_t slot)
{
    struct mg_torch_box box;
    mg_torch_box_of(t, step->op, true, slot, t->depth, &box);
    return mg_torch_part_of(t, &t->held[mg_step_out(t->e, step, slot)], &box);
}

static void write_results(struct mg_torch *t, const struct mg_step *step, const char *call)
{
    const char *targets = "", **names = MG_NEW_ARRAY(t->e->arena, const char *, step->out_count);
    if (step->out_count == 1 && made_at_begin(t, mg_step_out(t->e, step, 0))) {
        mg_torch_line(t, "%s.copy_(%s)", whole_part(t, step, 0), call);
        return;
    }
    for (uint32_t i = 0; i < step->out_count; i++) {
        names[i] = target_of(t, step, i);
        targets = mg_arena_printf(t->e->arena, "%s%s%s", targets, i ? ", " : "", names[i]);
    }
    mg_torch_line(t, "%s = %s", targets, call);
    for (uint32_t i = 0; i < step->out_count; i++)
        if (made_at_begin(t, mg_step_out(t->e, step, i))) {
            mg_torch_line(t, "%s.copy_(%s)", whole_part(t, step, i), names[i]);
            mg_torch_line(t, "del %s", names[i]);
        }
}

static enum mg_code write_compute(struct mg_torch *t, const struct mg_step *step)
{
    const char **operands = MG_NEW_ARRAY(t->e->arena, const char *, step->in_count), *call;
    bool plain = true;
    for (uint32_t i = 0; i < step->in_count; i++) {
        struct mg_torch_box box;
        mg_torch_box_of(t, step->op, false, i, t->depth, &box);
        enum mg_code code = read_part(t, mg_step_in(t->e, step, i), &box, &operands[i]);
        if (code != MG_OK)
            return code;
        plain = plain && is_plain(operands[i]);
    }
    uint32_t taken = taken_operand(t, step);
    if (taken != MG_NONE && step->out_count == 1)
        return write_in_place(t, step, taken, operands, plain);
    enum mg_code code = mg_torch_call(t, step->op, operands, false, &call);
    if (code == MG_OK)
        write_results(t, step, plain ? call : mg_arena_printf(t->e->arena, "dense(%s)", call));
    return code;
}

/* ---- copies to the host and back ---- */

static enum mg_code write_store(struct mg_torch *t, const struct mg_step *step)
{
    uint32_t instance = mg_step_in(t->e, step, 0);
    mg_value value = mg_instance_at(t->e, instance)->value, home = t->e->g->values[value].update_of;
    struct mg_torch_held held;
    const char *expr;
    enum mg_code code = read_part(t, instance, NULL, &expr);
    if (code == MG_OK)
        code = mg_torch_resolve(t, instance, &held);
    if (code != MG_OK)
        return code;
    const char *host = mg_arena_printf(t->e->arena, "h%u", instance);
    const char *event = mg_arena_printf(t->e->arena, "s%u", instance);
    if (home != MG_NONE && t->e->g->values[home].home == MG_HOME_HOST)
        mg_torch_line(t, "%s, %s = store(%s, w%u)", host, event, expr, home);
    else
        mg_torch_line(t, "%s, %s = store(%s)", host, event, expr);
    t->held[base_of(t, instance)].stored = event;
    t->host[value] = (struct mg_torch_held){.alive = true, .expr = host, .box = held.box, .depth = t->depth};
    *MG_PUSH(t->e->arena, t->stored, t->stored_count, t->stored_capacity) = value;
    return MG_OK;
}

static enum mg_code write_load(struct mg_torch *t, const struct mg_step *step)
{
    uint32_t instance = mg_step_out(t->e, step, 0);
    const struct mg_torch_held *copy = &t->host[mg_instance_at(t->e, instance)->value];
    if (!copy->alive)
        return mg_fail(t->e->err, MG_ERR_INVALID, "", "the plan loads what is not on the host");
    const char *event = mg_arena_printf(t->e->arena, "e%u", instance);
    const char *name = hold(t, instance, &copy->box);
    mg_torch_line(t, "%s, %s = load(%s, device)", name, event, copy->expr);
    t->held[instance].loading = event;
    return MG_OK;
}

static enum mg_code write_free(struct mg_torch *t, const struct mg_step *step)
{
    struct mg_torch_held *held = &t->held[mg_step_in(t->e, step, 0)];
    if (!held->alive)
        return mg_fail(t->e->err, MG_ERR_INVALID, "", "the plan frees an instance that is not alive");
    if (held->stored)
        mg_torch_line(t, "wait(%s)", held->stored);
    mg_torch_line(t, "del %s", held->root);
    held->alive = false;
    return MG_OK;
}

/* ---- regions ---- */

static enum mg_code write_slice(struct mg_torch *t, uint32_t at)
{
    const struct mg_step *step = &t->e->plan->steps[at];
    struct mg_torch_box box;
    mg_op reader;
    uint32_t slot;
    const char *expr;
    if (!mg_first_reader(t->e, at, mg_step_out(t->e, step, 0), &reader, &slot))
        return mg_fail(t->e->err, MG_ERR_INVALID, "", "the plan has a slice that nobody reads");
    mg_torch_box_of(t, reader, false, slot, t->depth, &box);
    enum mg_code code = read_part(t, mg_step_in(t->e, step, 0), &box, &expr);
    if (code == MG_OK)
        mg_torch_line(t, "%s = copied(%s)", hold(t, mg_step_out(t->e, step, 0), &box), expr);
    return code;
}

/* The part of a region's output that `from` fills. */
static enum mg_code output_part(struct mg_torch *t, const struct mg_step *step, const char **part, const char **target)
{
    struct mg_torch_held held;
    enum mg_code code = read_part(t, mg_step_in(t->e, step, 0), NULL, part);
    if (code == MG_OK)
        code = mg_torch_resolve(t, mg_step_in(t->e, step, 0), &held);
    if (code == MG_OK)
        *target = mg_torch_part_of(t, &t->held[mg_step_in(t->e, step, 1)], &held.box);
    return code;
}

static enum mg_code write_join(struct mg_torch *t, const struct mg_step *step)
{
    const char *part, *target;
    enum mg_code code = output_part(t, step, &part, &target);
    if (code == MG_OK)
        mg_torch_line(t, "%s.copy_(%s)", target, part);
    return code;
}

/* "p0 == 0 and p1 == 0": the first of every region in whose axis the value is summed (R6). */
static const char *first_part(const struct mg_torch *t, uint32_t into, enum mg_combiner *combiner)
{
    mg_value value = mg_instance_at(t->e, into)->value;
    mg_op op = t->e->g->values[value].producer;
    uint32_t slot = t->e->g->values[value].slot, axis_count;
    uint32_t buffer = t->e->plan->steps[mg_instance_at(t->e, into)->made_by].op;
    const struct mg_axis *axes = mg_op_axes(t->e->g, op, &axis_count);
    const char *text = "";
    bool inside = false;
    for (uint32_t i = 0; i < t->depth; i++) {
        const struct mg_region_op *use = mg_region_find(&t->e->plan->regions[t->open[i].region], op);
        inside = inside || t->open[i].region == buffer;
        if (!inside || !use)
            continue;
        const struct mg_axis *axis = &axes[use->axis];
        if (axis->out[slot].dim >= 0)
            continue;
        *combiner = axis->combiner;
        text = mg_arena_printf(t->e->arena, "%s%sp%u == 0", text, *text ? " and " : "", t->open[i].region);
    }
    return *text ? text : "True";
}

static enum mg_code write_acc(struct mg_torch *t, const struct mg_step *step)
{
    static const char *const how[] = {"none", "sum", "max", "min", "prod"};
    const char *part, *target;
    enum mg_combiner combiner = MG_COMBINE_NONE;
    if (!made_at_begin(t, mg_step_in(t->e, step, 1)))
        return mg_fail(t->e->err, MG_ERR_INVALID, "", "the plan accumulates into something that is no region output");
    const char *first = first_part(t, mg_step_in(t->e, step, 1), &combiner);
    enum mg_code code = output_part(t, step, &part, &target);
    if (code == MG_OK)
        mg_torch_line(t, "accumulate(%s, %s, \"%s\", first=%s)", target, part, how[combiner], first);
    return code;
}

static enum mg_code write_begin(struct mg_torch *t, const struct mg_step *step)
{
    for (uint32_t i = 0; i < step->out_count; i++) {
        uint32_t instance = mg_step_out(t->e, step, i);
        const struct mg_value_info *value = &t->e->g->values[mg_instance_at(t->e, instance)->value];
        struct mg_torch_box box;
        if (value->producer == MG_NONE)
            return mg_fail(t->e->err, MG_ERR_INVALID, "", "the plan has a region output that no operator makes");
        mg_torch_box_of(t, value->producer, true, value->slot, t->depth, &box);
        mg_torch_line(t, "%s = torch.empty(%s, dtype=DTYPE[\"%s\"], device=device)", hold(t, instance, &box),
                      mg_torch_tuple(t->e->arena, box.shape.dim, box.shape.rank), dtype_of(t, instance));
    }
    return MG_OK;
}

/* Copies that were made in the part end with it; they are the last ones that were made. */
static void drop_part_copies(struct mg_torch *t)
{
    while (t->stored_count && t->host[t->stored[t->stored_count - 1]].depth >= t->depth)
        t->host[t->stored[--t->stored_count]].alive = false;
}

/* One function for the parts of one extent, from part `first` on. */
static enum mg_code write_parts(struct mg_torch *t, uint32_t begin, uint32_t end, uint32_t first, uint32_t function)
{
    uint32_t region = t->e->plan->steps[begin].op;
    mg_write_text(t->body, "\n");
    mg_torch_line(t, "def part%u(p%u):", function, region);
    t->open[t->depth++] = (struct mg_torch_open){region, first};
    t->indent++;
    size_t size = t->body->size;
    enum mg_code code = mg_torch_write_steps(t, begin + 1, end);
    if (t->body->size == size)
        mg_torch_line(t, "pass");
    drop_part_copies(t);
    t->indent--;
    t->depth--;
    mg_write_text(t->body, "\n");
    return code;
}

static enum mg_code write_region(struct mg_torch *t, uint32_t begin, uint32_t end)
{
    const struct mg_step *step = &t->e->plan->steps[begin];
    const struct mg_region *region = &t->e->plan->regions[step->op];
    if (t->depth == MG_TORCH_DEPTH)
        return mg_fail(t->e->err, MG_ERR_LIMIT, "", "regions nested deeper than %d", MG_TORCH_DEPTH);
    int64_t length = mg_torch_length(t, step->op), parts = region->parts, larger = length % parts;
    int64_t split = larger * ((length + parts - 1) / parts), small = length / parts;
    mg_torch_line(t, "# region %u: %lld in %lld parts", step->op, (long long)length, (long long)parts);
    enum mg_code code = write_begin(t, step);
    uint32_t first = t->functions, second = larger ? first + 1 : first;
    t->functions = second + 1;
    if (code == MG_OK && larger)
        code = write_parts(t, begin, end, 0, first);
    if (code == MG_OK)
        code = write_parts(t, begin, end, (uint32_t)larger, second);
    if (larger) {
        mg_torch_line(t, "for p%u in range(0, %lld, %lld):", step->op, (long long)split, (long long)small + 1);
        mg_torch_line(t, "    part%u(p%u)", first, step->op);
    }
    mg_torch_line(t, "for p%u in range(%lld, %lld, %lld):", step->op, (long long)split, (long long)length,
                  (long long)small);
    mg_torch_line(t, "    part%u(p%u)", second, step->op);
    return code;
}

/* ---- the list ---- */

static enum mg_code write_step(struct mg_torch *t, uint32_t at)
{
    const struct mg_step *step = &t->e->plan->steps[at];
    switch (step->kind) {
    case MG_STEP_COMPUTE:
        return write_compute(t, step);
    case MG_STEP_STORE:
        return write_store(t, step);
    case MG_STEP_LOAD:
        return write_load(t, step);
    case MG_STEP_FREE:
        return write_free(t, step);
    case MG_STEP_SLICE:
        return write_slice(t, at);
    case MG_STEP_JOIN:
        return write_join(t, step);
    case MG_STEP_ACC:
        return write_acc(t, step);
    case MG_STEP_BEGIN:
    case MG_STEP_END:
        break;
    }
    return mg_fail(t->e->err, MG_ERR_INVALID, "", "the plan ends a region that did not begin");
}

enum mg_code mg_torch_write_steps(struct mg_torch *t, uint32_t from, uint32_t to)
{
    for (uint32_t s = from; s < to; s++) {
        enum mg_code code;
        if (t->e->plan->steps[s].kind == MG_STEP_BEGIN) {
            uint32_t end = mg_step_body_end(t->e, s);
            code = write_region(t, s, end);
            s = end;
        } else {
            code = write_step(t, s);
        }
        if (code != MG_OK)
            return code;
    }
    return MG_OK;
}
