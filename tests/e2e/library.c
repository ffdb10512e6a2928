/* The library from a program of its own: plans the training step of a small network for 70 % of its memory, has the
 * plan checked, runs it on numbers beside the plain order, and writes the plan as JSON.
 *
 *     cc example.c $(pkg-config --cflags --libs magis) && ./a.out plan.json */
#include <magis.h>
#include <stdio.h>

struct example {
    struct mg_arena arena;
    const struct mg_device *device;
    struct mg_graph *graph;
    struct mg_search_result result;
};

/* A network of the zoo, made a training step, normalised. */
static enum mg_code build(struct example *e, struct mg_error *err)
{
    const struct mg_zoo_option options[] = {{"batch", "512"}, {"in", "32"}, {"hidden", "32"}, {"layers", "8"}};
    const struct mg_training training = {.loss = MG_LOSS_MSE, .optimizer = MG_OPTIMIZER_SGD};
    struct mg_graph *forward, *step;
    enum mg_code code = mg_zoo_build("mlp", options, 4, &e->arena, &forward, err);
    if (code == MG_OK)
        code = mg_graph_differentiate(forward, &training, &e->arena, &step, err);
    if (code == MG_OK)
        code = mg_graph_normalise(step, &e->arena, &e->graph, err);
    return code;
}

static double now(void *context)
{
    (void)context;
    return mg_measure_clock();
}

static enum mg_code optimize(struct example *e, struct mg_error *err)
{
    const struct mg_search_options options = {
        .device = e->device,
        .memory_ratio = 0.7,
        .max_evaluations = 2000,
        .seed = 1,
        .techniques = MG_TECHNIQUE_ALL,
    };
    const struct mg_observer observer = {.now = now};
    return mg_search(e->graph, &options, &observer, &e->arena, &e->result, err);
}

/* The checker proves the plan from graph and plan alone; the executor compares results. */
static enum mg_code prove(struct example *e, const struct mg_plan *plan, struct mg_error *err)
{
    struct mg_verdict verdict;
    double difference;
    enum mg_code code = mg_plan_check(e->graph, plan, &e->arena, &verdict, err);
    if (code != MG_OK)
        return code;
    printf("checker: %s\n", verdict.accepted ? "accepted" : verdict.message);
    code = mg_exec_compare(e->graph, plan, 1, 10, &difference, &e->arena, err);
    if (code == MG_OK)
        printf("results: %s\n", difference <= 1e-9 ? "equal" : "different");
    return code;
}

static void write_plan(const struct example *e, const struct mg_plan *plan, const char *path)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_plan_write(&w, e->graph, plan);
    FILE *file = mg_writer_finish(&w) ? fopen(path, "w") : NULL;
    if (!file || fwrite(w.data, 1, w.size, file) != w.size)
        perror(path);
    if (file)
        fclose(file);
    mg_writer_release(&w);
}

static enum mg_code run(struct example *e, const char *path, struct mg_error *err)
{
    enum mg_code code = build(e, err);
    if (code == MG_OK)
        code = optimize(e, err);
    if (code != MG_OK)
        return code;
    const struct mg_point *best = &e->result.front[e->result.best];
    printf("limit: %s\n", e->result.outcome == MG_OUTCOME_MET ? "met" : "not met");
    printf("peak: %llu of %llu bytes\n", (unsigned long long)best->figures.peak_bytes,
           (unsigned long long)e->result.original.figures.peak_bytes);
    code = prove(e, best->plan, err);
    if (code == MG_OK && path)
        write_plan(e, best->plan, path);
    return code;
}

int main(int argc, char **argv)
{
    struct example e = {.device = mg_device_builtin("rtx3090")};
    struct mg_error err = {.code = MG_OK};
    mg_arena_init(&e.arena, (size_t)1 << 30);
    enum mg_code code = run(&e, argc > 1 ? argv[1] : NULL, &err);
    if (code != MG_OK)
        fprintf(stderr, "%s: %s %s\n", mg_code_name(code), err.pointer, err.message);
    mg_arena_release(&e.arena);
    return code != MG_OK;
}
