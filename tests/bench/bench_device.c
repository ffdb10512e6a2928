/* How well measured operators foretell whole runs: for the zoo's networks at sizes that run in about a second, the
 * original and points of its front, predicted as the sum of their operators timed alone, and measured as wholes in one
 * arena. A network is judged only where a fixed piece of work took as long afterwards as before (3 %).
 *
 *   bench_device [--device cpu|cuda:0] [NETWORK ...] */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"
#include "measure/calibrate.h"
#include "measure/program.h"
#include "search/search.h"
#include "zoo/zoo.h"

enum { RUNS = 9, MOST_PLANS = 6 };

struct network {
    const char *name;
    enum mg_loss loss;
    struct mg_zoo_option options[6];
};
#define BATCH(n)                                                                                                       \
    {                                                                                                                  \
        "batch", n                                                                                                     \
    }
static const struct network networks[] = {
    {"mlp", MG_LOSS_MSE, {BATCH("1024"), {"hidden", "2048"}}},
    {"resnet18", MG_LOSS_MSE, {BATCH("16"), {"image", "64"}, {"classes", "100"}}},
    {"resnet50", MG_LOSS_MSE, {BATCH("8"), {"image", "64"}, {"classes", "100"}}},
    {"vgg16", MG_LOSS_MSE, {BATCH("4"), {"image", "64"}, {"width", "0.5"}}},
    {"densenet121", MG_LOSS_MSE, {BATCH("4"), {"image", "64"}, {"classes", "100"}}},
    {"mobilenet-v2", MG_LOSS_MSE, {BATCH("8"), {"image", "64"}, {"classes", "100"}}},
    {"efficientnet-b0", MG_LOSS_MSE, {BATCH("4"), {"image", "64"}, {"classes", "100"}}},
    {"unet", MG_LOSS_MSE, {BATCH("2"), {"image", "64"}, {"width", "0.5"}}},
    {"unet++", MG_LOSS_MSE, {BATCH("2"), {"image", "64"}, {"width", "0.5"}}},
    {"nasnet-like", MG_LOSS_MSE, {BATCH("8"), {"image", "16"}, {"cells", "1"}}},
    {"bert-tiny", MG_LOSS_MSE, {BATCH("8"), {"seq_len", "128"}, {"vocabulary", "2000"}}},
    {"bert-mini", MG_LOSS_MSE, {BATCH("4"), {"seq_len", "128"}, {"vocabulary", "2000"}}},
    {"vit-tiny-16", MG_LOSS_MSE, {BATCH("8"), {"image", "64"}, {"layers", "6"}, {"classes", "100"}}},
    {"gpt-neo-125m", MG_LOSS_MSE, {BATCH("2"), {"seq_len", "64"}, {"layers", "2"}, {"vocabulary", "2000"}}},
    {"llama-tiny", MG_LOSS_MSE, {BATCH("4"), {"seq_len", "64"}, {"vocabulary", "2000"}, {"dtype", "f32"}}},
    {"lstm", MG_LOSS_MSE, {BATCH("16"), {"seq_len", "8"}, {"layers", "2"}, {"hidden", "256"}, {"classes", "500"}}},
};

struct outcome {
    bool judged, exact;
    double original_error, plan_error, rank;
    uint32_t plans;
};

static double clock_of(void *context)
{
    (void)context;
    return mg_measure_clock();
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return count ? values[count / 2] : NAN;
}

/* Spearman's: 1 where both rise together. */
static double rank_correlation(const double *a, const double *b, uint32_t count)
{
    double square = 0;
    for (uint32_t i = 0; i < count; i++) {
        double rank = 0;
        for (uint32_t k = 0; k < count; k++)
            rank += (a[k] < a[i]) - (b[k] < b[i]);
        square += rank * rank;
    }
    return count > 1 ? 1 - 6 * square / ((double)count * ((double)count * (double)count - 1)) : NAN;
}

/* ---- one plan ---- */

struct bench {
    struct mg_engine *engine;
    struct mg_device device;
    struct mg_arena arena;
    const struct mg_graph *g;
    double **given;
};

static enum mg_code run_plan(struct bench *b, const struct mg_plan *plan, double *predicted, double *measured,
                             bool *exact, struct mg_error *err)
{
    static const struct mg_time_policy policy = {.warm_up = 1, .repeats = 9, .seconds = 0.3, .cold = true};
    struct mg_program *program;
    struct mg_program_facts facts;
    double samples[RUNS];
    struct mg_timing timing;
    enum mg_code code = mg_program_build(b->engine, b->g, plan, 1, &program, err);
    for (int i = -1; i < RUNS && !code; i++) { /* one to warm up */
        code = mg_program_load(program, b->given, err);
        if (!code)
            code = mg_program_run(program, &samples[i < 0 ? 0 : i], err);
    }
    if (!code)
        code = mg_program_predict(program, &policy, INFINITY, predicted, err);
    if (!code) {
        mg_timing_of(samples, RUNS, &timing);
        mg_program_facts(program, &facts);
        *measured = timing.median_s;
        *exact = facts.peak_bytes == plan->figures.peak_bytes && facts.arena_bytes == plan->figures.arena_bytes;
    }
    mg_program_free(program);
    return code;
}

/* ---- one network ---- */

static enum mg_code build_step(struct bench *b, const struct network *n, struct mg_graph **out, struct mg_error *err)
{
    struct mg_graph *forward, *raw;
    struct mg_training training = {.loss = n->loss, .optimizer = MG_OPTIMIZER_SGD};
    uint32_t count = 0;
    while (count < 6 && n->options[count].name)
        count++;
    enum mg_code code = mg_zoo_build(n->name, n->options, count, &b->arena, &forward, err);
    if (!code)
        code = mg_graph_differentiate(forward, &training, &b->arena, &raw, err);
    return code ? code : mg_graph_normalise(raw, &b->arena, out, err);
}

static enum mg_code run_front(struct bench *b, const struct mg_search_result *found, struct outcome *out,
                              struct mg_error *err)
{
    double predicted[MOST_PLANS], measured[MOST_PLANS], errors[MOST_PLANS];
    uint32_t step = found->front_count > MOST_PLANS ? found->front_count / MOST_PLANS : 1;
    for (uint32_t i = 0; i < found->front_count && out->plans < MOST_PLANS; i += step) {
        uint32_t k = out->plans;
        bool exact;
        enum mg_code code = run_plan(b, found->front[i].plan, &predicted[k], &measured[k], &exact, err);
        if (code)
            return code;
        out->exact = out->exact && exact;
        errors[k] = fabs(predicted[k] / measured[k] - 1);
        printf("    plan %-17s peak %5.3f  predicted %9.6f s  measured %9.6f s\n", found->front[i].id,
               (double)found->front[i].figures.peak_bytes / (double)found->original.figures.peak_bytes, predicted[k],
               measured[k]);
        out->plans++;
    }
    out->rank = rank_correlation(predicted, measured, out->plans);
    out->plan_error = median(errors, out->plans);
    return MG_OK;
}

static enum mg_code run_network(struct bench *b, const struct network *n, struct outcome *out, struct mg_error *err)
{
    struct mg_graph *g;
    struct mg_search_result found;
    struct mg_observer observer = {.now = clock_of};
    struct mg_search_options options = {
        .device = &b->device, .max_evaluations = 600, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    double before, after, predicted = 0, measured = 0;
    enum mg_code code = build_step(b, n, &g, err);
    if (!code)
        code = mg_search(g, &options, &observer, &b->arena, &found, err);
    if (code)
        return code;
    b->g = g;
    b->given = mg_exec_random_values(g, 1, 2, &b->arena);
    code = mg_engine_canary(b->engine, &before, err);
    if (!code)
        code = run_plan(b, found.original.plan, &predicted, &measured, &out->exact, err);
    if (!code)
        printf("  %-16s original predicted %9.6f s  measured %9.6f s\n", n->name, predicted, measured);
    if (!code)
        code = run_front(b, &found, out, err);
    if (!code)
        code = mg_engine_canary(b->engine, &after, err);
    out->original_error = fabs(predicted / measured - 1);
    out->judged = !code && fabs(after / before - 1) <= 0.03;
    return code;
}

struct job {
    struct bench *bench;
    const struct network *network;
    struct outcome *outcome;
};

static enum mg_code guarded(void *context, struct mg_error *err)
{
    struct job *job = context;
    return run_network(job->bench, job->network, job->outcome, err);
}

static bool report(const struct network *n, const struct outcome *o)
{
    bool good = o->exact && o->plan_error <= 0.20 && (o->plans < 3 || o->rank >= 0.9);
    printf("%-16s original off by %4.1f %%, %u plans by %4.1f %%, rank correlation %4.2f, peaks %s: %s\n", n->name,
           100 * o->original_error, o->plans, 100 * o->plan_error, o->rank, o->exact ? "exact" : "WRONG",
           !o->exact    ? "MISSED"
           : !o->judged ? "not judged: the machine was busy"
           : good       ? "ok"
                        : "MISSED");
    fflush(stdout);
    return o->exact && (!o->judged || good);
}

static bool wanted(const char *name, int argc, char **argv, int first)
{
    for (int i = first; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return first >= argc;
}

static bool run_all(struct bench *b, int argc, char **argv, int first)
{
    double errors[sizeof networks / sizeof *networks];
    uint32_t judged = 0;
    bool good = true;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct outcome outcome = {.exact = false};
        struct mg_error err = {0};
        struct job job = {b, &networks[i], &outcome};
        if (!wanted(networks[i].name, argc, argv, first))
            continue;
        mg_arena_init(&b->arena, SIZE_MAX);
        if (mg_arena_guard(&b->arena, guarded, &job, &err) != MG_OK) {
            printf("%-16s failed: %s %s\n", networks[i].name, err.pointer, err.message);
            good = false;
        } else
            good = report(&networks[i], &outcome) && good;
        if (outcome.judged)
            errors[judged++] = outcome.original_error;
        mg_arena_release(&b->arena);
    }
    double middle = median(errors, judged);
    if (judged == 0)
        printf("originals: not judged\n");
    else
        printf("originals: off by %.1f %% (median of %u judged; at most 15): %s\n", 100 * middle, judged,
               middle <= 0.15 ? "ok" : "MISSED");
    return good && (judged == 0 || middle <= 0.15);
}

/* One processor, the one that this runs on. */
static void pin(void)
{
    cpu_set_t one;
    int cpu = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(cpu < 0 ? 0 : cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        printf("not pinned to one processor\n");
}

int main(int argc, char **argv)
{
    struct bench b = {.engine = NULL};
    struct mg_error err = {0};
    bool named = argc > 2 && strcmp(argv[1], "--device") == 0;
    pin();
    if (mg_engine_open(named ? argv[2] : "cpu", &b.engine, &err) != MG_OK ||
        mg_engine_calibrate(b.engine, &b.device, &err) != MG_OK) {
        printf("not measured: %s\n", err.message);
        return 0;
    }
    printf("%s: %.1f GFLOP/s, %.1f GB/s, launch %.2f us\n", mg_engine_properties(b.engine)->device,
           b.device.peak_flops_f32 / 1e9, b.device.mem_bw / 1e9, b.device.launch_s * 1e6);
    bool good = run_all(&b, argc, argv, named ? 3 : 1);
    mg_engine_close(b.engine);
    return good ? 0 : 1;
}
