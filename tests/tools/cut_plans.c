/* Writes plans with regions grown at random from a graph: cut_plans GRAPH SEED COUNT FOLDER
 *
 * GRAPH is native or a captured step. The plans, FOLDER/0.json ..., have up to three regions inside each other, over
 * any dimension, with slices, joins, accumulation and values that leave for the host meanwhile: all that the model of
 * plans allows, whether or not the search would choose it. The scripts that run plans in PyTorch are tested by them. */
#include <stdio.h>
#include <stdlib.h>

#include "export/export.h"
#include "formats/formats.h"
#include "../unit/region_util.h"

enum { TRIES = 30 };

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    *size = 0;
    for (size_t capacity = 1 << 16; file && (text = realloc(text, capacity)) != NULL; capacity *= 2) {
        *size += fread(text + *size, 1, capacity - *size, file);
        if (*size < capacity)
            break;
    }
    if (file)
        fclose(file);
    return text;
}

static struct mg_graph *read_graph(const char *path, struct mg_arena *arena)
{
    struct mg_error err = {0};
    struct mg_graph *g = NULL, *whole = NULL;
    struct mg_training training;
    bool has_training = false;
    size_t size;
    char *text = read_file(path, &size);
    enum mg_code code = text ? mg_graph_read(text, size, arena, &g, &training, &has_training, &err) : MG_ERR_INVALID;
    if (code == MG_OK && has_training) {
        struct mg_graph *forward = g;
        code = mg_graph_differentiate(forward, &training, arena, &g, &err);
    }
    if (code == MG_OK)
        code = mg_graph_normalise(g, arena, &whole, &err);
    if (code != MG_OK)
        fprintf(stderr, "cut_plans: %s: %s\n", path, err.message);
    free(text);
    return code == MG_OK ? whole : NULL;
}

/* Regions from random seeds; one that grows from the batch of all inputs is tried first now and then. */
static bool grow_tree(struct region_tree *t)
{
    uint32_t wanted = 1 + (uint32_t)mg_rng_below(&t->rng, MOST_LEVELS);
    for (uint32_t tries = 0; tries < TRIES && t->depth < wanted; tries++) {
        mg_value seed = (mg_value)mg_rng_below(&t->rng, t->g->value_count);
        bool batch = mg_rng_below(&t->rng, 3) == 0;
        if (!t->g->values[seed].shape.rank)
            continue;
        start_level(t, t->depth, 2 + (uint32_t)mg_rng_below(&t->rng, 3));
        struct carried *use = t->level[t->depth].use;
        use[seed] = (struct carried){true, (int8_t)mg_rng_below(&t->rng, t->g->values[seed].shape.rank), 1};
        for (mg_value v = 0; batch && v < t->g->value_count; v++)
            use[v].there = use[v].there || (t->g->values[v].kind == MG_KIND_INPUT && t->g->values[v].shape.rank);
        for (mg_value v = 0; batch && v < t->g->value_count; v++)
            if (t->g->values[v].kind == MG_KIND_INPUT)
                use[v].unit = 1;
        t->depth += grow_level(t, t->depth);
    }
    return t->depth > 0;
}

static bool write_plan(const struct mg_graph *g, const struct mg_plan *plan, struct mg_arena *arena, const char *path)
{
    struct mg_error err = {0};
    struct mg_writer w;
    mg_writer_init(&w);
    enum mg_code code = mg_export_write(MG_EXPORT_JSON, &w, g, plan, NULL, arena, &err);
    FILE *file = code == MG_OK && mg_writer_finish(&w) ? fopen(path, "wb") : NULL;
    bool written = file && fwrite(w.data, 1, w.size, file) == w.size;
    if (file)
        written = fclose(file) == 0 && written;
    if (!written)
        fprintf(stderr, "cut_plans: %s: %s\n", path, err.message);
    mg_writer_release(&w);
    return written;
}

int main(int argc, char **argv)
{
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    if (argc != 5) {
        fprintf(stderr, "usage: cut_plans GRAPH SEED COUNT FOLDER\n");
        return 2;
    }
    const struct mg_graph *g = read_graph(argv[1], &arena);
    int count = atoi(argv[3]), made = 0;
    struct mg_rng rng;
    mg_rng_init(&rng, strtoull(argv[2], NULL, 10));
    for (int tries = 0; g && made < count && tries < TRIES * count; tries++) {
        struct region_tree t = {.g = g, .arena = &arena, .swap_percent = (uint32_t)mg_rng_below(&rng, 2) * 30};
        struct mg_error err = {0};
        char path[4096];
        mg_rng_init(&t.rng, mg_rng_below(&rng, UINT32_MAX));
        if (!grow_tree(&t) || mg_arena_guard(&arena, plan_of_tree, &t, &err) != MG_OK)
            continue;
        snprintf(path, sizeof path, "%s/%d.json", argv[4], made);
        if (!write_plan(g, t.plan, &arena, path))
            return 1;
        made++;
    }
    mg_arena_release(&arena);
    return made == count ? 0 : 1;
}
