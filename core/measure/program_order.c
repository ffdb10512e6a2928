/* Who waits for whom while a plan runs: what S4 asks for (plan/MODEL.md), and nothing else, so that a plan takes the
 * time that the model says. A copy or an operator that others wait for sets a mark behind it. `known` holds, as vector
 * clocks do, what is certain to have ended, so that nothing is waited for twice. */
#include <string.h>

#include "measure/program_priv.h"

static void wait_for(struct mg_program *p, enum mg_stream stream, uint32_t after)
{
    if (after == MG_NONE)
        return;
    enum mg_stream earlier = p->items[after].stream;
    uint32_t *known = p->order.known[stream];
    if (known[earlier] >= p->items[after].known[earlier])
        return;
    struct instruction *item = MG_PUSH(&p->arena, p->items, p->count, p->capacity);
    *item = (struct instruction){.kind = KIND_WAIT, .stream = stream, .after = after, .mark = MG_NONE};
    for (int s = 0; s < 3; s++)
        known[s] = known[s] > p->items[after].known[s] ? known[s] : p->items[after].known[s];
}

/* ---- copies by the storages that they touch ---- */

static struct touched *find_touched(struct ordering *order, const struct mg_located *box)
{
    for (size_t i = 0; i < order->touched_count && mg_shape_elements(&box->shape) > 0; i++)
        if (box->offset >= order->touched[i].at && box->offset - order->touched[i].at < order->touched[i].bytes)
            return &order->touched[i];
    return NULL;
}

/* The live allocation that a box lies in is touched for the first time. */
static struct touched *add_touched(struct mg_program *p, const struct mg_located *box)
{
    for (size_t i = 0; i < p->alive_count; i++)
        if (box->offset >= p->alive[i].at && box->offset - p->alive[i].at < p->alive[i].bytes) {
            struct touched *added =
                MG_PUSH(&p->arena, p->order.touched, p->order.touched_count, p->order.touched_capacity);
            *added = (struct touched){p->alive[i].at, p->alive[i].bytes, {MG_NONE, MG_NONE, MG_NONE}};
            return added;
        }
    return NULL;
}

static void touch(struct mg_program *p, const struct mg_located *box, enum mg_stream stream, uint32_t by)
{
    struct touched *touched = find_touched(&p->order, box);
    if (!touched)
        touched = add_touched(p, box);
    if (touched)
        touched->by[stream] = by;
}

void mg_program_order_free(struct mg_program *p, const struct storage *storage)
{
    struct ordering *order = &p->order;
    for (size_t i = 0; i < order->touched_count; i++) {
        struct touched *touched = &order->touched[i];
        if (touched->at != storage->at || touched->bytes != storage->bytes)
            continue;
        for (int s = 0; s < 3; s++)
            if (touched->by[s] != MG_NONE && (order->freed[s] == MG_NONE || order->freed[s] < touched->by[s]))
                order->freed[s] = touched->by[s];
        *touched = order->touched[--order->touched_count];
        return;
    }
}

/* ---- what an instruction waits for ---- */

/* What is read was made by a load; what is overwritten in place (S6) may also still be stored. */
static void wait_for_boxes(struct mg_program *p, enum mg_stream stream, const struct mg_located *boxes, uint32_t count,
                           bool written)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct touched *touched = find_touched(&p->order, &boxes[i]);
        if (touched)
            wait_for(p, stream, touched->by[MG_STREAM_LOAD]);
        if (touched && written)
            wait_for(p, stream, touched->by[MG_STREAM_STORE]);
    }
}

static void wait_for_all(struct mg_program *p, enum mg_stream stream, const struct mg_action *action)
{
    struct ordering *order = &p->order;
    bool computes = stream == MG_STREAM_COMPUTE;
    wait_for(p, stream, order->computed);
    for (int s = 0; s < 3; s++)
        wait_for(p, stream, order->freed[s]);
    if (stream == MG_STREAM_LOAD)
        wait_for(p, stream, order->stored[action->copy]);
    else
        wait_for_boxes(p, stream, action->in, computes ? action->op->in_count : 1, false);
    if (computes)
        wait_for_boxes(p, stream, action->out, action->op->out_count, true);
}

struct instruction *mg_program_add(struct mg_program *p, enum kind kind, const struct mg_action *action)
{
    static const enum mg_stream streams[] = {
        [KIND_RUN] = MG_STREAM_COMPUTE, [KIND_STORE] = MG_STREAM_STORE, [KIND_LOAD] = MG_STREAM_LOAD};
    enum mg_stream stream = streams[kind];
    struct ordering *order = &p->order;
    wait_for_all(p, stream, action);
    uint32_t index = (uint32_t)p->count;
    struct instruction *item = MG_PUSH(&p->arena, p->items, p->count, p->capacity);
    *item = (struct instruction){.kind = kind, .stream = stream, .mark = MG_NONE};
    order->known[stream][stream]++;
    memcpy(item->known, order->known[stream], sizeof item->known);
    if (kind == KIND_RUN)
        order->computed = index;
    else
        touch(p, kind == KIND_STORE ? action->in : action->out, stream, index);
    if (kind == KIND_STORE)
        order->stored[action->copy] = index;
    return item;
}

/* ---- begin and end ---- */

void mg_program_begin_order(struct mg_program *p)
{
    p->order = (struct ordering){.freed = {MG_NONE, MG_NONE, MG_NONE}, .computed = MG_NONE};
    p->order.stored = MG_NEW_ARRAY(&p->arena, uint32_t, p->host_count);
    memset(p->order.stored, 0xff, p->host_count * sizeof *p->order.stored);
}

/* A mark is free again behind the last wait for it: from the end on, that one is met first. */
void mg_program_end_order(struct mg_program *p)
{
    uint32_t *free_marks = NULL;
    size_t free_count = 0, free_capacity = 0;
    for (size_t i = p->count; i-- > 0;) {
        struct instruction *item = &p->items[i];
        if (item->kind == KIND_WAIT) {
            uint32_t *mark = &p->items[item->after].mark;
            if (*mark == MG_NONE)
                *mark = free_count ? free_marks[--free_count] : p->order.mark_count++;
            item->mark = *mark;
        } else if (item->mark != MG_NONE)
            *MG_PUSH(&p->arena, free_marks, free_count, free_capacity) = item->mark;
    }
    p->mark_at = MG_NEW_ARRAY(&p->arena, double, p->order.mark_count);
}
