/* The steps of a scheme as the evaluator reads them. */
#include "search/scheme_priv.h"

static void find_defs(const struct mg_problem *p, struct mg_scheme *scheme, struct mg_arena *arena)
{
    scheme->defs.start = MG_NEW_ARRAY(arena, uint32_t, p->op_count + 1);
    scheme->defs.item = MG_NEW_ARRAY(arena, uint32_t, p->defs.start[p->op_count]);
    uint32_t n = 0;
    for (uint32_t op = 0; op < p->op_count; op++) {
        scheme->defs.start[op] = n;
        for (uint32_t i = p->defs.start[op]; i < p->defs.start[op + 1]; i++)
            if (!scheme->is_region_output[p->defs.item[i]])
                scheme->defs.item[n++] = p->defs.item[i];
    }
    scheme->defs.start[p->op_count] = n;
}

/* In-place candidates: result and operand belong to the same body and to no buffer of a region; so they are equally
 * large, too (mg_op_may_reuse). */
static void find_reuse(const struct mg_problem *p, struct mg_scheme *scheme, struct mg_arena *arena)
{
    uint32_t n = 0;
    scheme->reuse.start = MG_NEW_ARRAY(arena, uint32_t, p->op_count + 1);
    scheme->reuse.item = MG_NEW_ARRAY(arena, uint32_t, p->reads.start[p->op_count]);
    for (uint32_t op = 0; op < p->op_count; op++) {
        const struct mg_op_info *info = &p->g->ops[op];
        scheme->reuse.start[op] = n;
        for (uint32_t k = 0; p->computes[op] && k < info->in_count; k++) {
            uint32_t from = info->in[k], to = info->out[0];
            if (p->root[from] == from && mg_op_may_reuse(p->g, op, k) &&
                !((p->value_flags[from] | p->value_flags[to]) & MG_VALUE_PINNED) &&
                !(p->value_flags[from] & MG_VALUE_OUTPUT) && scheme->home[from] == scheme->home[to] &&
                !scheme->is_region_output[from] && !scheme->is_region_output[to])
                scheme->reuse.item[n++] = from;
        }
    }
    scheme->reuse.start[p->op_count] = n;
}

static int8_t reuse_mask(const struct mg_rows *reuse, uint32_t op, uint32_t root)
{
    for (uint32_t i = reuse->start[op]; i < reuse->start[op + 1]; i++)
        if (reuse->item[i] == root)
            return -1;
    return 0;
}

/* Each record takes MG_STEP_READS operands and one result. */
static uint32_t record_count(const struct mg_problem *p, const struct mg_scheme *scheme, uint32_t op)
{
    uint32_t reads = p->reads.start[op + 1] - p->reads.start[op];
    uint32_t by_reads = (reads + MG_STEP_READS - 1) / MG_STEP_READS;
    uint32_t by_defs = scheme->defs.start[op + 1] - scheme->defs.start[op];
    uint32_t count = by_reads > by_defs ? by_reads : by_defs;
    return count ? count : 1;
}

/* Operands and results of a step's record `at`. */
static void fill_record(const struct mg_problem *p, const struct mg_scheme *scheme, uint32_t op, uint32_t at,
                        struct mg_scheme_step *record)
{
    const struct mg_rows *reads = &p->reads, *defs = &scheme->defs;
    record->more = at + 1 < record_count(p, scheme, op);
    record->special = record->more;
    for (uint32_t k = 0; k < MG_STEP_READS; k++) {
        uint32_t i = reads->start[op] + at * MG_STEP_READS + k;
        bool used = i < reads->start[op + 1];
        record->reads[k] = used ? p->dense[reads->item[i]] : p->dense_count;
        record->reuse[k] = used ? reuse_mask(&scheme->reuse, op, reads->item[i]) : 0;
        record->special |= record->reuse[k] != 0;
    }
    uint32_t i = defs->start[op] + at;
    record->def = i < defs->start[op + 1] ? p->dense[defs->item[i]] : p->dense_count;
    record->def_bytes = i < defs->start[op + 1] ? scheme->bytes[defs->item[i]] : 0;
}

static void fill_records(const struct mg_problem *p, struct mg_scheme *scheme, struct mg_arena *arena)
{
    uint32_t further = 0;
    for (uint32_t op = 0; op < p->op_count; op++)
        further += record_count(p, scheme, op) - 1;
    scheme->further = MG_NEW_ARRAY(arena, struct mg_scheme_step, further);
    scheme->further_of = MG_NEW_ARRAY(arena, uint32_t, p->op_count);
    further = 0;
    for (uint32_t op = 0; op < p->op_count; op++) {
        uint32_t count = record_count(p, scheme, op);
        fill_record(p, scheme, op, 0, &scheme->steps[op]);
        scheme->further_of[op] = further;
        for (uint32_t at = 1; at < count; at++)
            fill_record(p, scheme, op, at, &scheme->further[further++]);
    }
}

void mg_scheme_fill_steps(const struct mg_problem *p, struct mg_scheme *scheme, struct mg_arena *arena)
{
    find_defs(p, scheme, arena);
    find_reuse(p, scheme, arena);
    fill_records(p, scheme, arena);
    scheme->dense_bytes = MG_NEW_ARRAY(arena, uint64_t, p->dense_count + 1);
    for (uint32_t v = 0; v < p->value_count; v++)
        if (p->dense[v] != MG_NONE)
            scheme->dense_bytes[p->dense[v]] = scheme->bytes[v];
}
