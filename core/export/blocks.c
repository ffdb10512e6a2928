/* The choice of modules for a checkpoint. A result counts to the innermost module that all operators of the forward
 * pass that make or read it are in: inside of that module, and of those around it, it can be dropped. */
#include "export/blocks.h"

#include <string.h>

#include "base/names.h"

enum { MOST_LEVELS = 64 }; /* that are told apart in a path */

struct module {
    const char *name;
    struct module *around; /* NULL: the model itself */
    uint32_t depth;
    mg_value last;                  /* value that was counted last among what it reads */
    uint64_t kept, dropped, parked; /* bytes of results inside that wait for the backward pass; of those, by fate */
    uint64_t reads, extra;          /* bytes of what it reads; of those, what nobody keeps without a checkpoint */
    bool has_parts, numbered, in_list;
    bool lists_blocks, holds_blocks; /* a numbered module with parts is in it; anywhere inside of it */
    bool has_batch_norm, taken;
};
struct tree {
    const struct mg_graph *g;
    mg_op forward;
    struct mg_arena *arena;
    struct mg_names names;
    struct module **modules; /* those around others first */
    size_t count, capacity;
    struct module **of;        /* by operator */
    uint32_t *first, *readers; /* by value that is no view: its computing readers, views seen through */
    bool *waits;               /* by value: the backward pass reads it */
};

bool mg_is_within(const char *module, const char *around)
{
    size_t size = strlen(around);
    return strncmp(module, around, size) == 0 && (module[size] == 0 || module[size] == '.');
}

/* ---- the tree of modules ---- */

static struct module *add_module(struct tree *t, const char *name, struct module *around)
{
    void **at = mg_names_at(&t->names, t->arena, name);
    struct module *module = *at;
    if (module)
        return module;
    *at = module = MG_NEW(t->arena, struct module);
    const char *last = strrchr(name, '.');
    last = last ? last + 1 : name;
    bool numbered = *last && strspn(last, "0123456789") == strlen(last);
    *module = (struct module){.name = name, .around = around, .last = MG_NONE, .numbered = numbered};
    module->depth = around ? around->depth + 1 : 0;
    module->in_list = numbered || (around && around->in_list);
    if (around)
        around->has_parts = true;
    *MG_PUSH(t->arena, t->modules, t->count, t->capacity) = module;
    return module;
}

static struct module *module_of(struct tree *t, const char *name)
{
    struct module *module = add_module(t, "", NULL);
    for (const char *dot = strchr(name, '.'); dot && module->depth < MOST_LEVELS; dot = strchr(dot + 1, '.'))
        if (dot > name)
            module = add_module(t, mg_arena_printf(t->arena, "%.*s", (int)(dot - name), name), module);
    return *name ? add_module(t, name, module) : module;
}

static void find_modules(struct tree *t)
{
    t->of = MG_NEW_ARRAY(t->arena, struct module *, t->forward);
    for (mg_op op = 0; op < t->forward; op++) {
        const struct mg_op_info *info = &t->g->ops[op];
        bool same = op && strcmp(info->module, t->of[op - 1]->name) == 0;
        t->of[op] = same ? t->of[op - 1] : module_of(t, info->module);
        if (info->type == MG_OP_BATCH_NORM)
            t->of[op]->has_batch_norm = true;
    }
    for (size_t i = t->count; i-- > 0;) {
        struct module *module = t->modules[i], *around = module->around;
        if (!around)
            continue;
        around->has_batch_norm |= module->has_batch_norm;
        around->holds_blocks |= module->holds_blocks || (module->numbered && module->has_parts);
        around->lists_blocks |= module->numbered && module->has_parts;
    }
}

static struct module *around_both(struct module *a, struct module *b)
{
    while (a != b) {
        if (a->depth < b->depth) {
            b = b->around;
        } else {
            a = a->around;
        }
    }
    return a;
}

/* ---- what is inside ---- */

static mg_value base_of(const struct mg_graph *g, mg_value value)
{
    return g->values[value].base;
}

static void find_readers(struct tree *t)
{
    const struct mg_graph *g = t->g;
    t->first = MG_NEW_ARRAY(t->arena, uint32_t, g->value_count + 2);
    t->waits = MG_NEW_ARRAY(t->arena, bool, g->value_count);
    for (int pass = 0; pass < 2; pass++) {
        for (mg_op op = 0; op < g->op_count; op++) {
            for (uint32_t i = 0; i < g->ops[op].in_count && !g->ops[op].is_view; i++) {
                mg_value base = base_of(g, g->ops[op].in[i]);
                if (op >= t->forward)
                    t->waits[base] = true;
                else if (pass)
                    t->readers[t->first[base + 1]++] = op;
                else
                    t->first[base + 2]++;
            }
        }
        if (pass)
            break;
        for (size_t v = 2; v < g->value_count + 2; v++)
            t->first[v] += t->first[v - 1];
        t->readers = MG_NEW_ARRAY(t->arena, uint32_t, t->first[g->value_count + 1] + 1);
    }
}

/* What a module reads and does not make itself: a checkpoint keeps it. */
static void count_reads(struct tree *t, mg_value v)
{
    const struct mg_value_info *value = &t->g->values[v];
    const struct module *maker = value->producer < t->forward ? t->of[value->producer] : NULL;
    if (value->kind != MG_KIND_INPUT && !maker)
        return;
    for (uint32_t i = t->first[v]; i < t->first[v + 1]; i++) {
        for (struct module *m = t->of[t->readers[i]]; m && m->last != v; m = m->around) {
            if (maker && mg_is_within(maker->name, m->name))
                break;
            m->last = v;
            m->reads += value->bytes;
            m->extra += maker && !t->waits[v] ? value->bytes : 0;
        }
    }
}

/* A first result that nothing of the forward pass reads is what its module gives; others are masks and statistics. */
static bool is_given(const struct tree *t, mg_value v, const bool *is_output)
{
    return is_output[v] || (t->g->values[v].slot == 0 && t->first[v] == t->first[v + 1]);
}

static void count_inside(struct tree *t, const bool *is_output, const enum mg_fate *fates)
{
    for (mg_value v = 0; v < t->g->value_count; v++) {
        const struct mg_value_info *value = &t->g->values[v];
        if (base_of(t->g, v) != v)
            continue;
        count_reads(t, v);
        if (value->producer >= t->forward || !t->waits[v])
            continue;
        struct module *module = is_given(t, v, is_output) ? t->modules[0] : t->of[value->producer];
        for (uint32_t i = t->first[v]; i < t->first[v + 1]; i++)
            module = around_both(module, t->of[t->readers[i]]);
        module->kept += value->bytes;
        module->dropped += fates[value->producer] == MG_FATE_RECOMPUTE ? value->bytes : 0;
        module->parked += fates[value->producer] == MG_FATE_OFFLOAD ? value->bytes : 0;
    }
    for (size_t i = t->count; i-- > 0;) {
        struct module *module = t->modules[i], *around = module->around;
        if (!around)
            continue;
        around->kept += module->kept;
        around->dropped += module->dropped;
        around->parked += module->parked;
    }
}

/* ---- the choice ---- */

/* Is it worth it, and small enough? Its backward pass holds all that is inside at once: no list of blocks is taken as
 * one (which may not be called, either), nor what holds most of the network. What it drops has to outweigh what it
 * keeps for that, and to be more than the statistics of a norm. */
static bool is_block(const struct module *module, uint64_t all)
{
    bool many = module->in_list ? module->lists_blocks : module->holds_blocks;
    if (many || module->kept / 3 > all / 4 || module->kept <= module->extra)
        return false;
    return module->kept - module->extra >= module->reads / 8 &&
           (module->dropped + module->parked) / 2 >= module->kept / 5;
}

static struct mg_blocks take_blocks(struct tree *t)
{
    struct mg_blocks blocks = {.again = MG_NEW_ARRAY(t->arena, const char *, t->count + 1),
                               .offload = MG_NEW_ARRAY(t->arena, const char *, t->count + 1),
                               .kept = t->count ? t->modules[0]->kept : 0};
    for (size_t i = 1; i < t->count; i++) {
        struct module *module = t->modules[i];
        module->taken = module->around && module->around->taken;
        if (module->taken || !is_block(module, blocks.kept))
            continue;
        module->taken = true;
        if (module->parked > module->dropped) {
            blocks.offload[blocks.offload_count++] = module->name;
            blocks.parked += module->kept;
        } else {
            blocks.again[blocks.again_count++] = module->name;
            blocks.dropped += module->kept;
            blocks.has_batch_norm |= module->has_batch_norm;
        }
    }
    return blocks;
}

struct mg_blocks mg_choose_blocks(const struct mg_graph *g, mg_op forward, const enum mg_fate *fates,
                                  struct mg_arena *arena)
{
    struct tree t = {.g = g, .forward = forward, .arena = arena};
    bool *is_output = MG_NEW_ARRAY(arena, bool, g->value_count);
    for (mg_value v = 0; v < g->value_count; v++)
        is_output[base_of(g, v)] |= g->values[v].is_output;
    find_modules(&t);
    find_readers(&t);
    count_inside(&t, is_output, fates);
    return take_blocks(&t);
}

bool mg_in_blocks(const struct mg_blocks *blocks, const char *module)
{
    for (size_t i = 0; i < blocks->again_count; i++)
        if (mg_is_within(module, blocks->again[i]))
            return true;
    for (size_t i = 0; i < blocks->offload_count; i++)
        if (mg_is_within(module, blocks->offload[i]))
            return true;
    return false;
}
