/* How well measured operators foretell whole runs: for the zoo's networks at sizes that run in about a second, the
 * original and points of its front, predicted as the sum of their operators timed alone, and measured as wholes in one
 * arena: medians of such sums and of nine runs, which take turns and count only beside a canary that does not move
 * (device/turns.h); a network of which too few count is not judged. Its order is judged only where its plans differ by
 * more than what can be told apart. On the processor each network has a process of its own.
 *
 *   bench_device [--device cpu|cuda:0] [--times N] [--plans N] [--max-seconds S] [--parts] [NETWORK ...]
 * Exit status 1 where one is missed or fails, or none was measured.
 *
 * --times: batches so many times as large (0.25, 16), of those that have one; --plans: of each front (5);
 * --max-seconds: end after so many, with what there is; --parts tells of each plan which kinds of operators take more
 * or less in its course than alone. */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/device/turns.h"
#include "exec/exec.h"
#include "measure/calibrate.h"
#include "measure/operands.h"
#include "measure/program.h"
#include "search/search.h"
#include "zoo/zoo.h"

enum { MOST_PLANS = TURNS_MOST_SUBJECTS - 1, CANARIES = 9, MOST_OPTIONS = 12 };

struct network {
    const char *name, *options;
    bool trains; /* its training step, with mean squared error and SGD; else the graph as it is */
};
static const struct network networks[] = {
#define NETWORK(name, options) {name, options, true},
#define GRAPH(name, options) {name, options, false},
#include "bench_device.def"
#undef NETWORK
#undef GRAPH
};

struct outcome {
    bool exact;
    double original_error, plan_error, rank, spread;
    uint32_t plans, pairs;
    struct turns taken;
};

static double clock_of(void *context)
{
    (void)context;
    return mg_measure_clock();
}

/* Kendall's tau over the pairs of plans whose predictions lie further apart than what two runs can be told apart by
 * (each may be off by what the canary may): 1 where the one predicted to be slower is slower. *pairs: how many these
 * are. */
static double rank_correlation(const double *predicted, const double *measured, uint32_t count, uint32_t *pairs)
{
    double sum = 0;
    *pairs = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (predicted[k] > predicted[i] * (1 + 2 * TURNS_RESOLUTION)) {
                sum += (measured[k] > measured[i]) - (measured[k] < measured[i]);
                ++*pairs;
            }
    return *pairs ? sum / *pairs : NAN;
}

/* ---- plans ---- */

struct subject {
    const struct mg_point *point;
    struct mg_program *program;
};
/* The original, then points of the front. */
struct subjects {
    struct subject list[MOST_PLANS + 1];
    uint32_t count;
    struct mg_program_prices *prices; /* of the last time that operators were timed */
};
struct bench {
    struct mg_engine *engine;
    struct mg_device device;
    struct mg_arena arena;
    const struct mg_graph *g;
    struct subjects *all;
    double **given, until; /* by mg_measure_clock() */
    double times;
    uint32_t plans; /* at most so many of a front */
    bool parts;
};

static bool is_late(void *context)
{
    return mg_measure_clock() >= ((const struct bench *)context)->until;
}

/* The median of some: one alone differs from the next by as much as what it is to tell. */
static enum mg_code take_canary(void *context, double *seconds, struct mg_error *err)
{
    const struct bench *b = context;
    double taken[CANARIES];
    enum mg_code code = MG_OK;
    for (int i = 0; i < CANARIES && !code; i++)
        code = mg_engine_canary(b->engine, &taken[i], err);
    *seconds = code ? NAN : turns_median(taken, CANARIES);
    return code;
}

static enum mg_code run_subject(void *context, uint32_t at, double *seconds, struct mg_error *err)
{
    struct bench *b = context;
    struct mg_program *program = b->all->list[at].program;
    enum mg_code code = mg_program_load(program, b->given, err);
    return code ? code : mg_program_run(program, seconds, err);
}

/* Times the operators of all plans once; those that plans share have one price. */
static enum mg_code sum_subjects(void *context, double *seconds, struct mg_error *err)
{
    static const struct mg_time_policy policy = {.warm_up = 1, .repeats = 1};
    struct bench *b = context;
    struct subjects *all = b->all;
    enum mg_code code = MG_OK;
    mg_program_prices_free(all->prices);
    all->prices = mg_program_prices_new(b->engine);
    if (!all->prices)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    for (uint32_t i = 0; i < all->count && !code; i++)
        code = mg_program_price(all->list[i].program, all->prices, 1, &policy, b->until, err);
    for (uint32_t i = 0; i < all->count && !code; i++)
        seconds[i] = mg_program_latency(all->list[i].program, all->prices);
    return code;
}

static enum mg_code measure_all(struct bench *b, struct turns *taken, struct mg_error *err)
{
    struct turns_work work = {.context = b,
                              .subjects = b->all->count,
                              .canary = take_canary,
                              .run = run_subject,
                              .sum = sum_subjects,
                              .now = mg_measure_clock};
    return turns_take(&work, taken, err);
}

/* What operators take in the midst of the others, for --parts. */
static enum mg_code profile(struct bench *b, struct mg_error *err)
{
    enum mg_code code = MG_OK;
    for (uint32_t i = 0; i < b->all->count && b->parts && !code; i++)
        for (int run = 0; run < 3 && !code; run++) {
            code = mg_program_load(b->all->list[i].program, b->given, err);
            code = code ? code : mg_program_profile(b->all->list[i].program, err);
        }
    return code;
}

/* ---- where a prediction is lost ---- */

static int by_difference(const void *a, const void *b)
{
    const struct mg_program_part *x = a, *y = b;
    double p = fabs(x->within_s - x->alone_s), q = fabs(y->within_s - y->alone_s);
    return (p < q) - (p > q);
}

/* Parts of one name together. */
static size_t by_kind(const struct mg_program_part *parts, size_t count, struct mg_program_part *kinds)
{
    size_t kind_count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < kind_count && strcmp(kinds[k].name, parts[i].name) != 0)
            k++;
        if (k == kind_count)
            kinds[kind_count++] = (struct mg_program_part){.name = parts[i].name, .text = ""};
        kinds[k].uses += parts[i].uses;
        kinds[k].alone_s += parts[i].alone_s;
        kinds[k].within_s += parts[i].within_s;
    }
    return kind_count;
}

static void print_worst(struct mg_program_part *parts, size_t count)
{
    qsort(parts, count, sizeof *parts, by_difference);
    for (size_t i = 0; i < 8 && i < count; i++)
        printf("      alone %8.3f ms  within %8.3f ms %5u x %s %.120s\n", parts[i].alone_s * 1e3,
               parts[i].within_s * 1e3, parts[i].uses, parts[i].name, parts[i].text);
}

static void print_parts(struct bench *b, const struct subject *subject, const struct mg_program_prices *prices)
{
    struct mg_program_part *parts;
    size_t count = mg_program_parts(subject->program, prices, &parts, &b->arena);
    struct mg_program_part *kinds = MG_NEW_ARRAY(&b->arena, struct mg_program_part, count);
    size_t kind_count = by_kind(parts, count, kinds);
    print_worst(kinds, kind_count);
    print_worst(parts, count);
}

/* ---- one network ---- */

/* "batch=16,image=64" as options, the batch as many times as large as is asked for. */
static uint32_t read_sizes(struct bench *b, const struct network *n, struct mg_zoo_option *options)
{
    char *rest, *text = mg_arena_printf(&b->arena, "%s", n->options);
    uint32_t count = 0;
    for (char *name = strtok_r(text, "=", &rest); name && count < MOST_OPTIONS; name = strtok_r(NULL, "=", &rest)) {
        const char *value = strtok_r(NULL, ",", &rest);
        if (strcmp(name, "batch") == 0)
            value = mg_arena_printf(&b->arena, "%.0f", fmax(1, round(b->times * strtod(value, NULL))));
        options[count++] = (struct mg_zoo_option){name, value};
    }
    return count;
}

static enum mg_code build_graph(struct bench *b, const struct network *n, struct mg_graph **out, struct mg_error *err)
{
    struct mg_graph *raw;
    struct mg_training training = {.loss = MG_LOSS_MSE, .optimizer = MG_OPTIMIZER_SGD};
    struct mg_zoo_option options[MOST_OPTIONS];
    uint32_t count = read_sizes(b, n, options);
    enum mg_code code = mg_zoo_build(n->name, options, count, &b->arena, &raw, err);
    if (!code && n->trains)
        code = mg_graph_differentiate(raw, &training, &b->arena, &raw, err);
    return code ? code : mg_graph_normalise(raw, &b->arena, out, err);
}

/* Points of the front up to twice the latency of the fastest, of which each takes less memory than the last by what
 * somebody would care for. */
static uint32_t worth_having(const struct mg_search_result *found, const struct mg_point **out)
{
    const struct mg_point *front = found->front;
    double step = 0.005 * (double)found->original.figures.peak_bytes;
    uint32_t count = 0;
    for (uint32_t i = 0; i < found->front_count; i++) {
        if (front[i].figures.latency_s > 2 * front[0].figures.latency_s)
            break;
        if (count == 0 || (double)front[i].figures.peak_bytes + step <= (double)out[count - 1]->figures.peak_bytes)
            out[count++] = &front[i];
    }
    return count;
}

/* Those that lie far apart in modelled latency. */
static void choose(struct bench *b, const struct mg_search_result *found)
{
    const struct mg_point **points = MG_NEW_ARRAY(&b->arena, const struct mg_point *, found->front_count);
    uint32_t count = worth_having(found, points), taken = 0;
    struct subjects *all = b->all;
    all->list[all->count++].point = &found->original;
    for (uint32_t i = 0; i < count && taken < b->plans; i++) {
        double first = points[0]->figures.latency_s, span = points[count - 1]->figures.latency_s - first;
        double next = b->plans > 1 ? first + span * taken / (b->plans - 1) : first;
        bool rest = count - i <= b->plans - taken;
        if (rest || points[i]->figures.latency_s >= next * (1 - 1e-12)) {
            all->list[all->count++].point = points[i];
            taken++;
        }
    }
}

static bool states_its_memory(const struct subject *subject)
{
    struct mg_program_facts facts;
    const struct mg_figures *stated = &subject->point->figures;
    mg_program_facts(subject->program, &facts);
    return facts.peak_bytes == stated->peak_bytes && facts.arena_bytes == stated->arena_bytes;
}

static void print_subject(struct bench *b, const struct network *n, uint32_t at, const struct turns *taken)
{
    const struct subject *subjects = b->all->list;
    double peak = (double)subjects[at].point->figures.peak_bytes / (double)subjects[0].point->figures.peak_bytes;
    printf("  %-16s %-16s peak %5.3f  predicted %9.6f s  measured %9.6f s  (%+5.1f %%)\n", n->name,
           at ? subjects[at].point->id : "original", peak, taken->predicted[at], taken->measured[at],
           100 * (taken->predicted[at] / taken->measured[at] - 1));
    if (b->parts)
        print_parts(b, &subjects[at], b->all->prices);
}

static void judge(struct bench *b, const struct network *n, const struct turns *taken, struct outcome *out)
{
    double errors[MOST_PLANS + 1], least = INFINITY, most = 0;
    for (uint32_t i = 0; i < b->all->count; i++) {
        errors[i] = fabs(taken->predicted[i] / taken->measured[i] - 1);
        least = fmin(least, taken->measured[i]);
        most = fmax(most, taken->measured[i]);
        out->exact = out->exact && states_its_memory(&b->all->list[i]);
        print_subject(b, n, i, taken);
    }
    out->taken = *taken;
    out->plans = b->all->count - 1;
    out->original_error = errors[0];
    out->rank = rank_correlation(taken->predicted + 1, taken->measured + 1, out->plans, &out->pairs);
    out->spread = most / least - 1;
    out->plan_error = turns_median(errors + 1, out->plans);
}

static enum mg_code find_subjects(struct bench *b, const struct network *n, struct mg_error *err)
{
    struct mg_search_result *found = MG_NEW(&b->arena, struct mg_search_result);
    struct mg_observer observer = {.now = clock_of};
    struct mg_search_options options = {
        .device = &b->device, .max_evaluations = 5000, .seed = 1, .techniques = MG_TECHNIQUE_ALL};
    struct mg_graph *g;
    enum mg_code code = build_graph(b, n, &g, err);
    if (code)
        return code;
    b->g = g;
    code = mg_search(g, &options, &observer, &b->arena, found, err);
    if (!code)
        choose(b, found);
    return code;
}

static enum mg_code build_programs(struct bench *b, struct mg_error *err)
{
    enum mg_code code = MG_OK;
    b->given = mg_exec_random_values(b->g, 1, 2, &b->arena);
    mg_operand_spread(b->g, b->given, 1, &b->arena);
    for (uint32_t i = 0; i < b->all->count && !code; i++) {
        struct subject *subject = &b->all->list[i];
        code = mg_program_build(b->engine, b->g, subject->point->plan, 1, &subject->program, err);
        if (!code)
            mg_program_stop_when(subject->program, is_late, b);
    }
    return code;
}

static enum mg_code run_network(struct bench *b, const struct network *n, struct outcome *out, struct mg_error *err)
{
    struct turns taken;
    enum mg_code code = find_subjects(b, n, err);
    code = code ? code : build_programs(b, err);
    code = code ? code : measure_all(b, &taken, err);
    code = code ? code : profile(b, err);
    if (!code)
        judge(b, n, &taken, out);
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

static enum mg_code run_and_free(struct bench *b, const struct network *n, struct outcome *out, struct mg_error *err)
{
    struct job job = {.bench = b, .network = n, .outcome = out};
    struct subjects all = {.count = 0};
    b->all = &all;
    mg_arena_init(&b->arena, SIZE_MAX);
    enum mg_code code = mg_arena_guard(&b->arena, guarded, &job, err);
    for (uint32_t i = 0; i < all.count; i++)
        mg_program_free(all.list[i].program);
    mg_program_prices_free(all.prices);
    mg_arena_release(&b->arena);
    return code;
}

struct answer {
    struct outcome outcome;
    struct mg_error err;
    bool given;
};

static void answer_and_exit(struct bench *b, const struct network *n, struct answer *answer)
{
    enum mg_code code = mg_engine_open("cpu", &b->engine, &answer->err);
    code = code ? code : run_and_free(b, n, &answer->outcome, &answer->err);
    answer->err.code = code;
    answer->given = true;
    fflush(stdout);
    _exit(0);
}

/* In a process of its own, with memory of its own: where others were measured before it may be another kind of memory,
 * that takes twice as long. */
static enum mg_code run_apart(struct bench *b, const struct network *n, struct outcome *out, struct mg_error *err)
{
    struct answer *answer = mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answer == MAP_FAILED)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    answer->outcome = *out;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        answer_and_exit(b, n, answer);
    if (child > 0)
        waitpid(child, NULL, 0);
    if (!answer->given)
        mg_fail(&answer->err, MG_ERR_INTERNAL, "", "its process ended");
    *out = answer->outcome;
    *err = answer->err;
    munmap(answer, sizeof *answer);
    return err->code;
}

/* Where all plans take about as long their order is chance. */
static bool has_order(const struct outcome *o)
{
    return o->pairs >= 3;
}

static bool report(const struct network *n, const struct outcome *o)
{
    bool good = o->exact && o->plan_error <= 0.20 && (!has_order(o) || o->rank >= 0.9);
    if (o->exact && !o->taken.counts) {
        printf("%-16s not judged: the machine was busy: %u of %u steps do not count\n", n->name, o->taken.uncounted,
               o->taken.steps);
        return true;
    }
    printf("%-16s original off by %4.1f %%, %u plans by %4.1f %%, rank correlation %5.2f of %u pairs over %5.1f %%%s, "
           "peaks %s, %u of %u steps count: %s\n",
           n->name, 100 * o->original_error, o->plans, 100 * o->plan_error, o->rank, o->pairs, 100 * o->spread,
           has_order(o) ? "" : " (not judged)", o->exact ? "exact" : "WRONG", o->taken.steps - o->taken.uncounted,
           o->taken.steps, good ? "ok" : "MISSED");
    return good;
}

static bool wanted(const char *name, int argc, char **argv, int first)
{
    for (int i = first; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return first >= argc;
}

/* The processor has a kernel for every operator. */
static bool may_lack_kernels(const struct bench *b)
{
    return strcmp(mg_engine_properties(b->engine)->backend, "cpu") != 0;
}

/* What is said of a network that was not judged; true: that is no fault, as long as others are measured. */
static bool excuse(const struct bench *b, const struct network *n, const struct mg_error *err)
{
    bool late = err->code == MG_ERR_CANCELLED, untimed = err->code == MG_ERR_UNSUPPORTED && may_lack_kernels(b);
    if (late)
        printf("%-16s left out: the time is up\n", n->name);
    else
        printf("%-16s %s: %s %s\n", n->name, untimed ? "left out" : "failed", err->pointer, err->message);
    return late || untimed;
}

/* Of those that were judged; `measured`: how many there were of these, and of those that the machine was too busy for.
 */
static bool report_all(double *errors, uint32_t judged, uint32_t measured)
{
    double middle = turns_median(errors, judged);
    if (measured == 0)
        printf("originals: MISSED, no network was measured\n");
    else if (judged == 0)
        printf("originals: not judged: the machine was busy\n");
    else
        printf("originals: off by %.1f %% (median of %u judged; at most 15): %s\n", 100 * middle, judged,
               middle <= 0.15 ? "ok" : "MISSED");
    return measured > 0 && (judged == 0 || middle <= 0.15);
}

static bool run_all(struct bench *b, int argc, char **argv, int first)
{
    double errors[sizeof networks / sizeof *networks];
    uint32_t judged = 0, measured = 0;
    bool good = true, apart = strcmp(mg_engine_properties(b->engine)->backend, "cpu") == 0;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct outcome outcome = {.exact = true};
        struct mg_error err = {.code = MG_ERR_CANCELLED};
        if (!wanted(networks[i].name, argc, argv, first))
            continue;
        if (is_late(b) || (apart ? run_apart : run_and_free)(b, &networks[i], &outcome, &err) != MG_OK) {
            good = excuse(b, &networks[i], &err) && good;
            continue;
        }
        good = report(&networks[i], &outcome) && good;
        measured++;
        if (outcome.taken.counts)
            errors[judged++] = outcome.original_error;
    }
    return report_all(errors, judged, measured) && good;
}

/* Takes the options; what is left are names. */
static int read_options(struct bench *b, int argc, char **argv, const char **device)
{
    int at = 1;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        bool valued = at + 1 < argc;
        if (strcmp(argv[at], "--parts") == 0)
            b->parts = true;
        else if (strcmp(argv[at], "--device") == 0 && valued)
            *device = argv[++at];
        else if (strcmp(argv[at], "--times") == 0 && valued)
            b->times = strtod(argv[++at], NULL);
        else if (strcmp(argv[at], "--plans") == 0 && valued)
            b->plans = (uint32_t)fmin(MOST_PLANS, strtoul(argv[++at], NULL, 10));
        else if (strcmp(argv[at], "--max-seconds") == 0 && valued)
            b->until = mg_measure_clock() + strtod(argv[++at], NULL);
        else
            break;
    }
    return at;
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
    struct bench b = {.until = INFINITY, .times = 1, .plans = 5};
    struct mg_error err = {0};
    const char *device = "cpu";
    int first = read_options(&b, argc, argv, &device);
    setvbuf(stdout, NULL, _IOLBF, 0); /* what is said stays said when this is killed */
    pin();
    if (mg_engine_open(device, &b.engine, &err) != MG_OK ||
        mg_engine_calibrate(b.engine, NULL, NULL, &b.device, &err) != MG_OK) {
        printf("not measured: %s\n", err.message);
        return 0;
    }
    printf("%s: %.1f GFLOP/s, %.1f GB/s, launch %.2f us\n", mg_engine_properties(b.engine)->device,
           b.device.peak_flops_f32 / 1e9, b.device.mem_bw / 1e9, b.device.launch_s * 1e6);
    bool good = run_all(&b, argc, argv, first);
    mg_engine_close(b.engine);
    return good ? 0 : 1;
}
