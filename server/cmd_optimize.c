/* A job without a server: source, search, answer. Ctrl-C ends the search; the best so far is written. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/pricer.h"
#include "export/export.h"
#include "server/answer.h"
#include "server/clock.h"
#include "server/file.h"
#include "server/interrupt.h"
#include "server/local_timings.h"
#include "server/source.h"

struct optimize {
    const struct mg_options *options;
    struct mg_source source;
    struct mg_search_options search;
    struct mg_search_result result;
    bool bar;                      /* stderr is a terminal */
    struct mg_local_timings local; /* of --data */
};

static double now(void *context)
{
    (void)context;
    return mg_clock_seconds();
}

static bool cancelled(void *context)
{
    (void)context;
    return mg_interrupted();
}

static void show_progress(void *context, const struct mg_progress *progress)
{
    const struct optimize *o = context;
    enum { WIDTH = 28 };
    char bar[WIDTH + 1], best[24];
    if (!o->bar)
        return;
    int full = (int)(progress->fraction * WIDTH);
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = '\0';
    mg_answer_bytes(progress->best.peak_bytes, best);
    fprintf(stderr, "\r[%s] %3.0f %%  %llu states  %u points  best %s  %.0f s ", bar, progress->fraction * 100,
            (unsigned long long)progress->evaluations, progress->front_count, best, progress->seconds);
}

static void report_rejected(void *context, const struct mg_plan *plan, const struct mg_verdict *verdict)
{
    char place[40];
    (void)context;
    (void)plan;
    fprintf(stderr, "\nmagisd: a bug: the checker refused %s: %s: %s\n", mg_verdict_place(verdict, place),
            verdict->reason, verdict->message);
}

/* ---- the answer as JSON ---- */

static struct mg_answer_original original_of(const struct mg_search_result *result)
{
    const struct mg_figures *figures = &result->original.figures;
    return (struct mg_answer_original){figures->latency_s, figures->peak_bytes, figures->arena_bytes};
}

static void write_point(struct mg_writer *w, const struct optimize *o, const struct mg_point *point, bool techniques)
{
    char names[MG_TECHNIQUES_TEXT];
    struct mg_answer_original original = original_of(&o->result);
    mg_answer_techniques(point->techniques, names);
    struct mg_answer_point answer = {.plan = point->id,
                                     .latency_s = point->figures.latency_s,
                                     .peak_bytes = point->figures.peak_bytes,
                                     .arena_bytes = point->figures.arena_bytes,
                                     .host_bytes = point->figures.host_bytes,
                                     .techniques = techniques ? names : NULL};
    mg_answer_write_point(w, &answer, &original);
}

static void write_baselines(struct mg_writer *w, const struct optimize *o)
{
    mg_write_key(w, "baselines");
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < o->result.baseline_count; i++) {
        const struct mg_baseline_result *baseline = &o->result.baselines[i];
        if (!mg_job_request_wants_baseline(&o->source.request, baseline->name))
            continue;
        mg_write_begin_object(w);
        mg_write_member_string(w, "name", baseline->name);
        mg_write_key(w, "points");
        mg_write_begin_array(w);
        for (uint32_t k = 0; k < baseline->point_count; k++)
            write_point(w, o, &baseline->points[k], false);
        mg_write_end_array(w);
        mg_write_key(w, "not_applicable");
        if (baseline->not_applicable)
            mg_write_string(w, baseline->not_applicable);
        else
            mg_write_null(w);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

/* Shares of the original's operators by where their price comes from. */
static void write_prices(struct mg_writer *w, const struct mg_plan *plan)
{
    uint64_t count[4] = {0}, all = 0;
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == MG_STEP_COMPUTE && plan->steps[i].price_count > 0) {
            count[plan->prices[plan->refs[plan->steps[i].price]].source]++;
            all++;
        }
    double whole = all ? (double)all : 1;
    mg_write_key(w, "prices");
    mg_write_begin_object(w);
    mg_write_member_double(w, "exact", (double)count[MG_PRICE_EXACT] / whole);
    mg_write_member_double(w, "near", (double)count[MG_PRICE_NEAR] / whole);
    mg_write_member_double(w, "scaled", (double)count[MG_PRICE_SCALED] / whole);
    mg_write_member_double(w, "modelled", (double)count[MG_PRICE_MODEL] / whole);
    mg_write_end_object(w);
    mg_write_member_double(w, "measured_share", (double)(count[MG_PRICE_EXACT] + count[MG_PRICE_NEAR]) / whole);
}

static const char *outcome_name(enum mg_outcome outcome)
{
    static const char *const names[] = {"met", "not_met", "infeasible", "front"};
    return names[outcome];
}

static void write_graph_member(struct mg_writer *w, const struct mg_graph *g)
{
    mg_write_key(w, "graph");
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", g->name);
    mg_write_member_uint(w, "operators", g->op_count);
    mg_write_member_uint(w, "values", g->value_count);
    mg_write_member_string(w, "digest", g->digest);
    mg_write_end_object(w);
}

static void write_answer(struct mg_writer *w, const struct optimize *o, struct mg_arena *scratch)
{
    const struct mg_search_result *result = &o->result;
    struct mg_answer_original original = original_of(result);
    mg_write_begin_object(w);
    write_graph_member(w, o->source.graph);
    mg_write_member_string(w, "device", o->source.request.device.name);
    mg_write_key(w, "original");
    mg_answer_write_original(w, &original);
    mg_write_key(w, "best");
    write_point(w, o, &result->front[result->best], false);
    mg_write_member_string(w, "outcome", outcome_name(result->outcome));
    mg_write_member_uint(w, "lower_bound_bytes", result->lower_bound_bytes);
    mg_write_key(w, "pareto");
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < result->front_count; i++)
        write_point(w, o, &result->front[i], true);
    mg_write_end_array(w);
    write_baselines(w, o);
    mg_write_member_uint(w, "evaluations", result->evaluations);
    mg_write_member_double(w, "seconds", result->seconds);
    mg_write_key(w, "checked");
    mg_write_begin_object(w);
    mg_write_member_uint(w, "accepted", result->accepted);
    mg_write_member_uint(w, "rejected", result->rejected);
    mg_write_end_object(w);
    write_prices(w, result->original.plan);
    mg_write_key(w, "unsupported");
    mg_answer_write_unsupported(w, o->source.graph, scratch);
    mg_write_end_object(w);
}

static bool print_json(struct optimize *o)
{
    struct mg_writer w;
    mg_writer_init(&w);
    write_answer(&w, o, &o->source.arena);
    bool good = mg_writer_finish(&w) && puts(w.data) >= 0;
    mg_writer_release(&w);
    return good;
}

/* ---- the answer as a table ---- */

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 1; /* nothing of nothing is all of it */
}

static void print_point(const struct optimize *o, const struct mg_point *point, const char *mark)
{
    const struct mg_figures *original = &o->result.original.figures, *f = &point->figures;
    char peak[24], host[24], names[MG_TECHNIQUES_TEXT];
    mg_answer_bytes(f->peak_bytes, peak);
    mg_answer_bytes(f->host_bytes, host);
    mg_answer_techniques(point->techniques, names);
    char *to = names; /* ["a","b"] as a,b */
    for (const char *c = names; *c; c++)
        if (!strchr("[]\" ", *c))
            *to++ = *c;
    *to = '\0';
    printf("%-2s%-17s %10.6f s %7.4f  %9s %7.4f  %9s  %s\n", mark, point->id, f->latency_s,
           ratio(f->latency_s, original->latency_s), peak, ratio((double)f->peak_bytes, (double)original->peak_bytes),
           host, names);
}

enum { FRONT_SHOWN = 11, BASELINE_SHOWN = 4 };

/* True for `most` of `count`, evenly spread, first and last among them; for all where there are no more. */
static bool is_spread(uint32_t at, uint32_t count, uint32_t most)
{
    if (count <= most || at == 0)
        return true;
    return at * (most - 1) / (count - 1) != (at - 1) * (most - 1) / (count - 1);
}

static void print_table(const struct optimize *o)
{
    const struct mg_search_result *result = &o->result;
    char name[256];
    mg_answer_visible(o->source.graph->name, name, sizeof name);
    printf("%s on %s: %zu operators\n", name, o->source.request.device.name, o->source.graph->op_count);
    printf("  %-17s %12s %7s  %9s %7s  %9s  %s\n", "plan", "latency", "ratio", "peak", "ratio", "host", "by");
    print_point(o, &result->original, "=");
    uint32_t left_out = 0;
    for (uint32_t i = 0; i < result->front_count; i++) {
        if (i == result->best || is_spread(i, result->front_count, FRONT_SHOWN))
            print_point(o, &result->front[i], i == result->best ? "*" : "");
        else
            left_out++;
    }
    for (uint32_t i = 0; i < result->baseline_count; i++) {
        const struct mg_baseline_result *baseline = &result->baselines[i];
        if (!mg_job_request_wants_baseline(&o->source.request, baseline->name))
            continue;
        printf("%s:%s%s\n", baseline->name, baseline->not_applicable ? " " : "",
               baseline->not_applicable ? baseline->not_applicable : "");
        for (uint32_t k = 0; k < baseline->point_count; k++) {
            if (is_spread(k, baseline->point_count, BASELINE_SHOWN))
                print_point(o, &baseline->points[k], "");
            else
                left_out++;
        }
    }
    char bound[24];
    if (left_out)
        printf("(%u more are not shown: --json prints all, --all-plans DIR writes those of the front)\n", left_out);
    printf("= as it is, * the best; by: the techniques that a plan uses\n");
    mg_answer_bytes(result->lower_bound_bytes, bound);
    printf("outcome %s; lower bound %s; %llu states in %.1f s; checker: %llu accepted, %llu rejected\n",
           outcome_name(result->outcome), bound, (unsigned long long)result->evaluations, result->seconds,
           (unsigned long long)result->accepted, (unsigned long long)result->rejected);
}

/* Why of all plans this one is the answer. */
static const char *why_best(const struct optimize *o)
{
    const struct mg_job_request *q = &o->source.request;
    switch (o->result.outcome) {
    case MG_OUTCOME_NOT_MET:
        return "the limit is not met; the nearest to it that was found";
    case MG_OUTCOME_INFEASIBLE:
        return "no plan can meet the limit; the nearest to it that was found";
    default:
        break;
    }
    if (q->memory_bytes || q->memory_ratio > 0)
        return "the fastest within the limit";
    return q->latency_ratio > 0 || q->latency_s > 0 ? "the smallest within the limit"
                                                    : "no limit was given; the smallest that takes at most 10 % longer";
}

static void print_missed_bytes(FILE *to, const char *option, const char *given, uint64_t limit, uint64_t needed)
{
    char by[24], most[24], needs[24];
    if (!limit || needed <= limit)
        return;
    mg_answer_bytes(needed - limit, by);
    mg_answer_bytes(limit, most);
    mg_answer_bytes(needed, needs);
    fprintf(to, "the limit --%s %s is missed by %s: %s needed, %s allowed\n", option, given, by, needs, most);
}

static void print_missed_seconds(FILE *to, const char *option, const char *given, double limit, double needed)
{
    if (limit > 0 && needed > limit)
        fprintf(to, "the limit --%s %s is missed by %.6f s: %.6f s needed, %.6f s allowed\n", option, given,
                needed - limit, needed, limit);
}

/* Each limit that the best plan does not keep, and by how much. */
static void print_missed(FILE *to, const struct optimize *o)
{
    const struct mg_job_request *q = &o->source.request;
    const struct mg_figures *f = &o->result.front[o->result.best].figures, *original = &o->result.original.figures;
    const char *const *given = o->options->value;
    print_missed_bytes(to, "memory-ratio", given[MG_OPTION_MEMORY_RATIO],
                       (uint64_t)(q->memory_ratio * (double)original->peak_bytes), f->peak_bytes);
    print_missed_bytes(to, "memory-bytes", given[MG_OPTION_MEMORY_BYTES],
                       q->memory_bytes ? q->memory_bytes - q->reserve_bytes : 0, f->arena_bytes);
    print_missed_seconds(to, "latency-ratio", given[MG_OPTION_LATENCY_RATIO], q->latency_ratio * original->latency_s,
                         f->latency_s);
    print_missed_seconds(to, "latency-s", given[MG_OPTION_LATENCY_S], q->latency_s, f->latency_s);
}

/* The last thing that is read: which plan, what it needs, where it is. */
static void print_best(const struct optimize *o, bool written)
{
    const struct mg_point *best = &o->result.front[o->result.best];
    const struct mg_figures *original = &o->result.original.figures, *f = &best->figures;
    const char *output = o->options->value[MG_OPTION_OUTPUT];
    char peak[24], before[24], arena[24], where[256];
    mg_answer_bytes(f->peak_bytes, peak);
    mg_answer_bytes(f->arena_bytes, arena);
    mg_answer_bytes(original->peak_bytes, before);
    mg_answer_visible(output ? output : "", where, sizeof where);
    bool differ = f->peak_bytes > 0 && strcmp(peak, arena) != 0;
    printf("%s:\nplan %s needs %s%s%s instead of %s (%.0f %%)%s and %.4f times the time; ", why_best(o), best->id,
           differ ? arena : peak, differ ? " (arena; its peak is " : "", differ ? peak : "", before,
           100 * ratio((double)f->peak_bytes, (double)original->peak_bytes), differ ? ")" : "",
           ratio(f->latency_s, original->latency_s));
    if (!written)
        printf("not everything was written\n");
    else if (output && strcmp(output, "-") != 0)
        printf("it is in %s\n", where);
    else
        printf("%s\n", output ? "it is above" : "-o FILE writes it down");
}

/* ---- files ---- */

static bool write_plan(const struct optimize *o, const struct mg_point *point, const char *path, bool dot)
{
    struct mg_writer w;
    struct mg_error err;
    struct mg_arena arena;
    mg_arena_init(&arena, SIZE_MAX);
    mg_writer_init(&w);
    bool good = mg_export_write(dot ? MG_EXPORT_DOT : MG_EXPORT_JSON, &w, o->source.graph, point->plan, NULL, &arena,
                                &err) == MG_OK &&
                mg_writer_finish(&w) && mg_file_write(path, w.data, w.size);
    mg_writer_release(&w);
    mg_arena_release(&arena);
    return good;
}

static bool write_all_plans(const struct optimize *o, const char *directory)
{
    bool good = true;
    for (uint32_t i = 0; good && i < o->result.front_count; i++) {
        char path[4096];
        int size = snprintf(path, sizeof path, "%s/%s.json", directory, o->result.front[i].id);
        good = size > 0 && (size_t)size < sizeof path && write_plan(o, &o->result.front[i], path, false);
    }
    if (!good)
        fprintf(stderr, "magisd: %s: cannot write all plans\n", directory);
    return good;
}

static bool write_files(const struct optimize *o)
{
    const char *format = o->options->value[MG_OPTION_FORMAT], *output = o->options->value[MG_OPTION_OUTPUT];
    const char *all = o->options->value[MG_OPTION_ALL_PLANS];
    bool dot = format && strcmp(format, "dot") == 0;
    if (output && !write_plan(o, &o->result.front[o->result.best], output, dot))
        return false;
    return !all || write_all_plans(o, all);
}

static bool prepare_directory(const char *path)
{
    struct stat info;
    bool there = mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &info) == 0);
    bool other = there && stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
    if (there && !other && access(path, W_OK | X_OK) == 0)
        return true;
    fprintf(stderr, "magisd: --all-plans %s: %s\n", path,
            other ? "this is no directory; name one, or one that is to be made" : strerror(errno));
    return false;
}

/* Asked before the search, which may take long: nothing is found that then cannot be written. */
static bool prepare_files(const struct mg_options *options)
{
    const char *output = options->value[MG_OPTION_OUTPUT], *all = options->value[MG_OPTION_ALL_PLANS];
    return (!output || mg_file_writable(output)) && (!all || prepare_directory(all));
}

/* ---- the job ---- */

static bool missed(const struct mg_search_result *result)
{
    return result->outcome == MG_OUTCOME_NOT_MET || result->outcome == MG_OUTCOME_INFEASIBLE;
}

static int exit_code(const struct mg_search_result *result)
{
    if (mg_interrupted())
        return MG_EXIT_INTERRUPTED;
    return missed(result) ? MG_EXIT_NOT_MET : MG_EXIT_DONE;
}

static int answer(struct optimize *o)
{
    bool json = mg_options_flag(o->options, MG_OPTION_JSON);
    if (!json)
        print_table(o);
    bool good = (!json || print_json(o)) && write_files(o);
    if (missed(&o->result))
        print_missed(json ? stderr : stdout, o);
    if (!json)
        print_best(o, good);
    return good ? exit_code(&o->result) : MG_EXIT_FAILED;
}

/* --data: priced from what was measured there. */
static bool take_timings(struct optimize *o)
{
    const char *dir = o->options->value[MG_OPTION_DATA], *use = o->source.request.timings;
    if (!dir || strcmp(use, "model") == 0)
        return true;
    if (!mg_local_timings_open(&o->local, dir, o->search.device))
        return false;
    if (o->local.snapshot.data)
        o->search.pricer = mg_pricer_new(o->search.device, &o->local.timings,
                                         strcmp(use, "exact") == 0 ? MG_TIMINGS_EXACT : MG_TIMINGS_NEAR);
    return true;
}

static int search(struct optimize *o)
{
    struct mg_error err;
    struct mg_observer observer = {
        .context = o, .now = now, .cancelled = cancelled, .progress = show_progress, .rejected = report_rejected};
    mg_job_request_search_options(&o->source.request, &o->search);
    if (!take_timings(o))
        return MG_EXIT_USAGE;
    o->bar = isatty(STDERR_FILENO) == 1;
    enum mg_code code = mg_search(o->source.graph, &o->search, &observer, &o->source.arena, &o->result, &err);
    if (o->bar)
        fprintf(stderr, "\n");
    if (code == MG_ERR_REJECTED) /* reported */
        return MG_EXIT_FAILED;
    return code == MG_OK ? answer(o) : mg_source_complain("search", &err);
}

static bool arguments_fit(const struct mg_options *options)
{
    const char *format = options->value[MG_OPTION_FORMAT];
    if (!format || strcmp(format, "json") == 0 || strcmp(format, "dot") == 0)
        return true;
    fprintf(stderr, "magisd optimize: --format is json or dot, not \"%s\"; `magisd export` knows more\n", format);
    return false;
}

int mg_cmd_optimize(int argc, char **argv)
{
    struct mg_options options;
    struct optimize o = {.options = &options};
    int code;
    if (mg_options_parse(&options, MG_COMMAND_OPTIMIZE, argc, argv, &code)) {
        code = MG_EXIT_USAGE;
        if (arguments_fit(&options)) {
            mg_interrupt_catch(SIGINT, true);
            mg_interrupt_catch(SIGTERM, true);
            code = mg_source_open(&o.source, &options, options.argument[0]);
            if (code == MG_EXIT_DONE)
                code = prepare_files(&options) ? search(&o) : MG_EXIT_USAGE;
            mg_pricer_free(o.search.pricer);
            mg_local_timings_release(&o.local);
            mg_source_release(&o.source);
        }
    }
    mg_options_release(&options);
    return code;
}
