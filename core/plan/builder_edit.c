/* The plan's list of edits: the rewrites of its graph, then each recomputation and each swap in the order of the steps
 * that make them. */
#include <string.h>

#include "plan/builder_priv.h"

static void push_edit(struct mg_plan_builder *b, const struct mg_edit *edit)
{
    *MG_PUSH(b->arena, b->edits, b->edit_count, b->edit_capacity) = *edit;
}

void mg_plan_builder_set_rewritten(struct mg_plan_builder *b, const struct mg_graph *original,
                                   const struct mg_edit *edits, size_t count)
{
    b->original = original;
    for (size_t e = 0; e < count; e++)
        push_edit(b, &(struct mg_edit){
                         .rule = mg_arena_strdup(b->arena, edits[e].rule),
                         .binding = mg_arena_strdup(b->arena, edits[e].binding),
                         .removed = mg_arena_strdup(b->arena, edits[e].removed),
                         .added = mg_arena_strdup(b->arena, edits[e].added),
                     });
}

/* The binding's size; the text itself into `room`, if given. 0: no memory. */
static size_t write_binding(const char *member, const char *name, char *room)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, member, name);
    mg_write_end_object(&w);
    size_t size = mg_writer_finish(&w) ? w.size : 0;
    if (size && room)
        memcpy(room, w.data, size);
    mg_writer_release(&w);
    return size;
}

/* Written twice, so that no allocation of the arena's can jump past a writer. */
static void list(struct mg_plan_builder *b, const char *rule, const char *member, const char *name)
{
    size_t size = write_binding(member, name, NULL);
    char *binding = mg_arena_alloc(b->arena, size + 1);
    if (!size || write_binding(member, name, binding) != size)
        mg_builder_fail(b, "no memory for an edit");
    push_edit(b, &(struct mg_edit){rule, binding, "[]", "[]"});
}

void mg_builder_list_compute(struct mg_plan_builder *b, mg_op op)
{
    if (b->computed[op])
        list(b, "remat", "op", b->g->ops[op].name);
    b->computed[op] = true;
}

/* What comes home to the host is no swap. */
void mg_builder_list_store(struct mg_plan_builder *b, mg_value value)
{
    mg_value old = b->g->values[value].update_of;
    if (old == MG_NONE || b->g->values[old].home != MG_HOME_HOST)
        list(b, "swap", "value", b->g->values[value].name);
}
