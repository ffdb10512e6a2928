/* Walks a list once and dictates it to the plan builder. */
#include "search/publish.h"

#include <stdio.h>
#include <string.h>

struct publisher {
    const struct mg_problem *p;
    const struct mg_scheme *scheme;
    const struct mg_list *list;
    struct mg_plan_builder *b;
    struct mg_spans spans;
    uint32_t *free_head; /* per step: first span + 1 that ends behind it */
    uint32_t *free_next; /* per span */
    uint32_t *root_of_span;
    uint32_t *instance;   /* per value: its present instance */
    uint32_t *storage_of; /* per root: the instance whose storage is freed */
    uint32_t *stored;     /* per root: the instance that was stored */
    uint32_t *region;     /* per region: the builder's number */
    uint32_t *in, *out;   /* scratch for one operator */
    uint32_t *moved;      /* per root: step + 1 at which a result took its storage */
    bool keep_apart;
};

/* Which spans end behind which step. A span whose root is an output of an open region is freed outside. */
static void plan_frees(struct publisher *s, struct mg_arena *arena)
{
    const struct mg_problem *p = s->p;
    s->free_head = MG_NEW_ARRAY(arena, uint32_t, s->list->count + 1);
    s->free_next = MG_NEW_ARRAY(arena, uint32_t, s->spans.count);
    s->root_of_span = MG_NEW_ARRAY(arena, uint32_t, s->spans.count);
    for (uint32_t v = 0; v < p->value_count; v++)
        for (uint32_t i = s->spans.head[v]; i != MG_NONE; i = s->spans.span[i].next) {
            const struct mg_span *span = &s->spans.span[i];
            s->root_of_span[i] = v;
            s->free_next[i] = s->free_head[span->last];
            s->free_head[span->last] = i + 1;
        }
}

static void emit_frees(struct publisher *s, uint32_t step)
{
    for (uint32_t i = s->free_head[step]; i; i = s->free_next[i - 1])
        if (s->moved[s->root_of_span[i - 1]] != step + 1)
            mg_plan_builder_free(s->b, s->storage_of[s->root_of_span[i - 1]]);
}

/* The operand whose storage the result takes, or -1: the first candidate that ends behind this step. */
static int32_t reused_operand(const struct publisher *s, mg_op op, uint32_t step)
{
    const struct mg_op_info *info = &s->p->g->ops[op];
    const struct mg_rows *reuse = &s->scheme->reuse;
    for (uint32_t i = reuse->start[op]; i < reuse->start[op + 1] && !s->keep_apart; i++)
        for (uint32_t k = s->free_head[step]; k; k = s->free_next[k - 1])
            if (s->root_of_span[k - 1] == reuse->item[i])
                for (uint32_t slot = 0; slot < info->in_count; slot++)
                    if (info->in[slot] == reuse->item[i])
                        return (int32_t)slot;
    return info->in_place;
}

static void emit_compute(struct publisher *s, mg_op op, uint32_t step)
{
    const struct mg_graph *g = s->p->g;
    const struct mg_op_info *info = &g->ops[op];
    bool inside = s->scheme->region_of[op] != MG_NONE;
    for (uint32_t k = 0; k < info->in_count; k++) {
        uint32_t instance = s->instance[g->values[info->in[k]].base];
        s->in[k] = inside ? mg_plan_builder_operand(s->b, op, k, instance) : instance;
    }
    bool whole = false;
    for (uint32_t k = 0; k < info->out_count; k++) {
        uint32_t v = info->out[k];
        whole |= s->scheme->is_region_output[v];
        s->out[k] = s->scheme->is_region_output[v] ? s->instance[v] : MG_NONE;
    }
    int32_t reused = reused_operand(s, op, step);
    if (whole)
        mg_plan_builder_run(s->b, op, s->in, s->out);
    else
        mg_plan_builder_compute_as(s->b, op, s->in, s->out, reused);
    if (!whole && reused >= 0 && reused != info->in_place)
        s->moved[info->in[reused]] = step + 1; /* its storage lives on in the result */
    for (uint32_t k = 0; k < info->out_count; k++) {
        uint32_t v = info->out[k];
        if (s->scheme->is_region_output[v])
            continue;
        s->instance[v] = s->out[k];
        s->storage_of[s->p->root[v]] = s->out[k];
    }
}

static void emit_begin(struct publisher *s, uint32_t r, struct mg_arena *arena)
{
    const struct mg_scheme_region *region = &s->scheme->regions[r];
    mg_value *outputs = MG_NEW_ARRAY(arena, mg_value, region->output_count);
    uint32_t *outs = MG_NEW_ARRAY(arena, uint32_t, region->output_count);
    memcpy(outputs, region->outputs, region->output_count * sizeof *outputs);
    mg_plan_builder_begin(s->b, s->region[r], outputs, region->output_count, outs);
    for (uint32_t i = 0; i < region->output_count; i++) {
        s->instance[outputs[i]] = outs[i];
        s->storage_of[outputs[i]] = outs[i];
    }
}

static void emit_word(struct publisher *s, uint32_t step, struct mg_arena *arena)
{
    uint32_t x = mg_word_index(s->list->word[step]);
    switch (mg_word_kind(s->list->word[step])) {
    case MG_WORD_COMPUTE:
        emit_compute(s, x, step);
        break;
    case MG_WORD_STORE:
        mg_plan_builder_store(s->b, s->instance[x]);
        s->stored[x] = s->instance[x];
        break;
    case MG_WORD_LOAD:
        s->instance[x] = s->storage_of[x] = mg_plan_builder_load(s->b, s->stored[x]);
        break;
    case MG_WORD_FREE:
        break; /* the span ends here */
    case MG_WORD_BEGIN:
        emit_begin(s, x, arena);
        break;
    case MG_WORD_END:
        mg_plan_builder_end(s->b, s->region[x]);
        break;
    }
    emit_frees(s, step);
}

static void declare_regions(struct publisher *s, struct mg_arena *arena)
{
    s->region = MG_NEW_ARRAY(arena, uint32_t, s->scheme->region_count);
    for (uint32_t r = 0; r < s->scheme->region_count; r++) {
        const struct mg_region *spec = &s->scheme->specs[r];
        uint32_t parent = spec->parent == MG_NONE ? MG_NONE : s->region[spec->parent];
        s->region[r] = mg_plan_builder_region(s->b, parent, spec->length, spec->parts, spec->ops, spec->op_count);
    }
}

static void prepare(struct publisher *s, struct mg_arena *arena)
{
    const struct mg_graph *g = s->p->g;
    uint32_t widest = 1;
    for (uint32_t o = 0; o < s->p->op_count; o++) {
        uint32_t wide = g->ops[o].in_count > g->ops[o].out_count ? g->ops[o].in_count : g->ops[o].out_count;
        widest = wide > widest ? wide : widest;
    }
    s->in = MG_NEW_ARRAY(arena, uint32_t, widest);
    s->out = MG_NEW_ARRAY(arena, uint32_t, widest);
    s->instance = MG_NEW_ARRAY(arena, uint32_t, s->p->value_count);
    s->storage_of = MG_NEW_ARRAY(arena, uint32_t, s->p->value_count);
    s->stored = MG_NEW_ARRAY(arena, uint32_t, s->p->value_count);
    s->moved = MG_NEW_ARRAY(arena, uint32_t, s->p->value_count);
    for (uint32_t v = 0; v < s->p->value_count; v++)
        s->instance[v] = s->storage_of[v] = mg_plan_builder_initial(s->b, v);
}

enum mg_code mg_publish(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                        enum mg_numerics numerics, bool keep_apart, const struct mg_figures *original,
                        struct mg_arena *arena, struct mg_plan **out, struct mg_error *err)
{
    struct publisher s = {.p = p, .scheme = scheme, .list = list, .keep_apart = keep_apart};
    s.b = mg_plan_builder_new(p->g, p->device, arena);
    mg_plan_builder_set_pricer(s.b, p->pricer);
    mg_plan_builder_set_numerics(s.b, numerics);
    if (p->edit_count)
        mg_plan_builder_set_rewritten(s.b, p->original, p->edits, p->edit_count);
    prepare(&s, arena);
    mg_spans_init(&s.spans, p, arena, list->count);
    mg_spans_build(&s.spans, p, scheme, list);
    plan_frees(&s, arena);
    declare_regions(&s, arena);
    for (uint32_t i = 0; i < list->count; i++)
        emit_word(&s, i, arena);
    return mg_plan_builder_finish(s.b, original, out, err);
}

uint32_t mg_list_techniques(const struct mg_problem *p, const struct mg_scheme *scheme, const struct mg_list *list,
                            struct mg_arena *scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    uint8_t *ran = MG_NEW_ARRAY(scratch, uint8_t, p->op_count);
    uint32_t mask = scheme->region_count ? MG_TECHNIQUE_FISSION : 0, last = 0;
    mask |= p->edit_count ? MG_TECHNIQUE_REWRITE : 0;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t x = mg_word_index(list->word[i]);
        if (mg_word_kind(list->word[i]) == MG_WORD_STORE)
            mask |= MG_TECHNIQUE_SWAP;
        if (mg_word_kind(list->word[i]) != MG_WORD_COMPUTE)
            continue;
        if (ran[x])
            mask |= MG_TECHNIQUE_REMAT;
        else if (x < last)
            mask |= scheme->region_count ? 0 : MG_TECHNIQUE_REORDER;
        else
            last = x;
        ran[x] = 1;
    }
    mg_arena_rewind(scratch, mark);
    return mask;
}
