/* A plan of its own size: what a builder makes has grown, and lies among what led to it. */
#include <string.h>

#include "plan/plan.h"

#define COPY_ARRAY(arena, array, count) ((array) = mg_arena_copy((arena), (array), (count) * sizeof *(array)))

struct mg_plan *mg_plan_copy(const struct mg_plan *plan, struct mg_arena *arena)
{
    struct mg_plan *copy = mg_arena_copy(arena, plan, sizeof *plan);
    COPY_ARRAY(arena, copy->edits, copy->edit_count);
    for (size_t i = 0; i < copy->edit_count; i++) {
        struct mg_edit *edit = &copy->edits[i];
        edit->rule = mg_arena_strdup(arena, edit->rule);
        edit->binding = mg_arena_strdup(arena, edit->binding);
        edit->removed = mg_arena_strdup(arena, edit->removed);
        edit->added = mg_arena_strdup(arena, edit->added);
    }
    COPY_ARRAY(arena, copy->regions, copy->region_count);
    for (size_t i = 0; i < copy->region_count; i++)
        COPY_ARRAY(arena, copy->regions[i].ops, copy->regions[i].op_count);
    COPY_ARRAY(arena, copy->prices, copy->price_count);
    for (size_t i = 0; i < copy->price_count; i++)
        copy->prices[i].signature = mg_arena_strdup(arena, copy->prices[i].signature);
    COPY_ARRAY(arena, copy->storages, copy->storage_count);
    COPY_ARRAY(arena, copy->instances, copy->instance_count);
    COPY_ARRAY(arena, copy->steps, copy->step_count);
    COPY_ARRAY(arena, copy->refs, copy->ref_count);
    return copy;
}
