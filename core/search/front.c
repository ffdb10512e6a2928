#include "search/front.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/limits.h"
#include "search/publish.h"

static const double CANCELLED_S = 2; /* for publishing after a cancellation */

static uint64_t memory_limit(const struct mg_searcher *s)
{
    const struct mg_search_options *o = s->options;
    if (o->memory_ratio > 0)
        return mg_limits_share(o->memory_ratio, s->original.peak);
    return o->memory_limit;
}

static double latency_limit(const struct mg_searcher *s)
{
    const struct mg_search_options *o = s->options;
    if (o->latency_ratio > 0)
        return o->latency_ratio * s->original.latency;
    return o->latency_limit;
}

uint32_t mg_targets(const struct mg_searcher *s, struct mg_target out[MG_TARGETS_MAX], uint32_t *fixed)
{
    uint64_t memory = memory_limit(s);
    double latency = latency_limit(s);
    if (memory || latency > 0) {
        out[0] = (struct mg_target){memory ? 0 : latency, memory};
        return *fixed = 1;
    }
    struct mg_limits usual[MG_LIMITS_TARGETS];
    uint32_t n = *fixed = MG_LIMITS_TARGETS;
    mg_limits_targets(s->original.latency, s->original.peak, usual);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (struct mg_target){usual[i].latency_s, usual[i].peak_bytes};
    for (uint32_t i = 0; i < s->hand_count && n < MG_TARGETS_MAX; i++)
        out[n++] = (struct mg_target){s->hand[i].latency * (1 + 1e-9), 0};
    return n;
}

struct mg_state *mg_front_best(const struct mg_searcher *s)
{
    const struct mg_archive *a = &s->archive;
    uint64_t memory = memory_limit(s);
    double latency = latency_limit(s);
    struct mg_state *best;
    if (memory) {
        best = mg_archive_under(a, memory);
        return best ? best : a->state[a->count - 1];
    }
    best = mg_archive_within(a, latency > 0 ? latency : mg_limits_usual(s->original.latency).latency_s);
    return best ? best : a->state[0];
}

/* A ratio of memory compares peaks, a limit in bytes holds for the arena. */
static struct mg_limits limits_of(const struct mg_searcher *s)
{
    const struct mg_search_options *o = s->options;
    return (struct mg_limits){.latency_s = latency_limit(s),
                              .peak_bytes = o->memory_ratio > 0 ? memory_limit(s) : 0,
                              .arena_bytes = o->memory_limit};
}

bool mg_front_meets(const struct mg_searcher *s, const struct mg_figures *figures)
{
    struct mg_limits limits = limits_of(s);
    return mg_limits_met(&limits, figures);
}

/* ---- points ---- */

enum mg_code mg_front_point(struct mg_searcher *s, const struct mg_plan *plan, uint32_t techniques,
                            struct mg_point *out, struct mg_error *err)
{
    struct mg_verdict verdict;
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    enum mg_code code = mg_plan_check_with(s->g, plan, &s->memo, s->scratch, &verdict, err);
    if (code == MG_OK && !verdict.accepted) {
        if (s->observer->rejected)
            s->observer->rejected(s->observer->context, plan, &verdict);
        char place[40];
        code = mg_fail(err, MG_ERR_REJECTED, "", "the checker refused %s: %s: %s", mg_verdict_place(&verdict, place),
                       verdict.reason, verdict.message);
    }
    mg_arena_rewind(s->scratch, mark);
    if (code != MG_OK)
        return code;
    *out = (struct mg_point){.figures = plan->figures, .techniques = techniques, .plan = plan};
    return mg_plan_id(s->g, plan, out->id, err);
}

/* The plan of a state. Building takes several times its size, in scratch memory; a plan that may go with that stays. */
static enum mg_code plan_of(struct mg_searcher *s, const struct mg_state *state, bool keep_apart, struct mg_plan **out,
                            struct mg_error *err)
{
    struct mg_figures original = {s->original.latency, s->original.peak, s->original_arena, 0};
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    enum mg_code code = mg_publish(state->scheme->p, state->scheme, &state->list, s->options->numerics, keep_apart,
                                   &original, s->scratch, out, err);
    if (s->arena == s->scratch)
        return code;
    if (code == MG_OK)
        *out = mg_plan_copy(*out, s->arena);
    mg_arena_rewind(s->scratch, mark);
    return code;
}

enum mg_code mg_front_publish(struct mg_searcher *s, const struct mg_state *state, bool keep_apart,
                              struct mg_point *out, struct mg_error *err)
{
    const struct mg_problem *p = state->scheme->p;
    struct mg_plan *plan;
    double before = s->observer->now(s->observer->context);
    enum mg_code code = plan_of(s, state, keep_apart, &plan, err);
    if (code != MG_OK)
        return code;
    double drift = fabs(plan->figures.latency_s - state->cost.latency);
    if (plan->figures.peak_bytes != state->cost.peak || drift > 1e-9 * state->cost.latency)
        return mg_fail(err, MG_ERR_INTERNAL, "", "the evaluator says %.9g s and %llu bytes, the plan %.9g s and %llu",
                       state->cost.latency, (unsigned long long)state->cost.peak, plan->figures.latency_s,
                       (unsigned long long)plan->figures.peak_bytes);
    code = mg_front_point(s, plan, mg_list_techniques(p, state->scheme, &state->list, s->scratch), out, err);
    double took = s->observer->now(s->observer->context) - before;
    s->publish_seconds = took > s->publish_seconds ? took : s->publish_seconds + (took - s->publish_seconds) / 8;
    return code;
}

/* ---- thinning ---- */

/* How much a front needs a point: a step between others; the best of a target; an end of the front; the answer. */
enum { KEEP_STEP = 1, KEEP_TARGET, KEEP_END, KEEP_ALWAYS };

/* Marks the states that are more than steps. Returns how many. */
static uint32_t mark_essential(const struct mg_searcher *s, uint8_t *keep)
{
    const struct mg_archive *a = &s->archive;
    struct mg_target target[MG_TARGETS_MAX];
    uint32_t fixed, n = mg_targets(s, target, &fixed), kept = 0;
    memset(keep, 0, a->count);
    const struct mg_state *best = mg_front_best(s);
    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t t = 0; t < n; t++)
            if (a->state[i] ==
                (target[t].latency > 0 ? mg_archive_within(a, target[t].latency) : mg_archive_under(a, target[t].peak)))
                keep[i] = KEEP_TARGET;
        if (i == 0 || i + 1 == a->count)
            keep[i] = KEEP_END;
        if (a->state[i] == best)
            keep[i] = KEEP_ALWAYS;
        kept += keep[i] != 0;
    }
    return kept;
}

/* Marks the states to publish: the essential ones, then the points that stand farthest from their
 * neighbours, down to steps of 0.5 % in either figure. */
static uint32_t thin(const struct mg_searcher *s, uint8_t *keep)
{
    const struct mg_archive *a = &s->archive;
    uint32_t kept = mark_essential(s, keep);
    for (uint32_t round = 0; round < 9; round++) { /* from 8 % down to 0.5 % */
        const double gap = 0.08 / (double)(1u << round / 2) * (round % 2 ? 0.7071067811865476 : 1.0);
        const struct mg_state *last = a->state[0];
        for (uint32_t i = 1; i < a->count && kept < MG_FRONT_MAX; i++) {
            const struct mg_state *x = a->state[i];
            bool far = x->cost.latency > last->cost.latency * (1 + gap) ||
                       (double)x->cost.peak < (double)last->cost.peak * (1 - gap);
            if (far && !keep[i]) {
                keep[i] = KEEP_STEP;
                kept++;
            }
            if (keep[i])
                last = x;
        }
    }
    return kept;
}

/* Makes a point of a state; once the observer has been shown it, what is left of it are its figures. */
static bool publish_one(struct mg_searcher *s, struct mg_front *front, struct mg_state *state, struct mg_point *point)
{
    struct mg_error err;
    if (state->shown) {
        *point = *state->shown;
        return true;
    }
    if (mg_front_publish(s, state, false, point, &err) == MG_OK) {
        front->accepted++;
        return true;
    }
    front->rejected++;
    return false;
}

static void show(struct mg_searcher *s, struct mg_state *state, const struct mg_point *point)
{
    struct mg_point *kept = mg_arena_copy(s->arena, point, sizeof *point);
    s->observer->plan(s->observer->context, point);
    kept->plan = NULL;
    state->shown = kept;
}

/* Nobody watches, but publishing at the end has to be in time: one of the states tells what it takes by now. */
static void rehearse(struct mg_searcher *s)
{
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    struct mg_arena *arena = s->arena;
    struct mg_point point;
    struct mg_error err;
    const struct mg_observer *observer = s->observer;
    struct mg_observer quiet = *observer;
    quiet.rejected = NULL;
    s->observer = &quiet;
    s->arena = s->scratch;
    enum mg_code code = mg_front_publish(s, s->archive.state[s->archive.count / 2], false, &point, &err);
    s->arena = arena;
    s->observer = observer;
    (void)code; /* what is wrong with it is told at the end */
    mg_arena_rewind(s->scratch, mark);
}

static void publish_new(struct mg_searcher *s, struct mg_front *front)
{
    uint8_t keep[MG_ARCHIVE_MAX + 1];
    struct mg_arena_mark mark = mg_arena_mark(s->scratch);
    thin(s, keep);
    struct mg_arena *arena = s->arena;
    uint32_t shown = 0;
    for (uint32_t i = 0; i < s->archive.count && mg_searcher_look(s); i++) {
        struct mg_state *state = s->archive.state[i];
        struct mg_point point;
        if (!keep[i] || state->shown)
            continue;
        s->arena = s->scratch; /* the observer keeps nothing: the plan may go */
        bool ok = publish_one(s, front, state, &point);
        s->arena = arena;
        if (ok)
            show(s, state, &point);
        shown += ok;
        mg_arena_rewind(s->scratch, mark);
    }
    s->unshown = s->stop ? s->unshown : 0;
    s->showings++;
    s->shown_last = shown;
}

void mg_front_update(struct mg_searcher *s, struct mg_front *front)
{
    double now = s->observer->now(s->observer->context) - s->started;
    double pause = s->observer->plan ? 2.0 : 2.0 + 20 * s->publish_seconds; /* a rehearsal costs a twentieth at most */
    if (now - front->last_published < pause)
        return;
    if (s->observer->plan)
        publish_new(s, front);
    else if (s->options->max_seconds > 0 && s->archive.count > 0)
        rehearse(s);
    front->last_published = s->observer->now(s->observer->context) - s->started;
}

static int by_latency(const void *a, const void *b)
{
    const struct mg_point *x = a, *y = b;
    if (x->figures.latency_s != y->figures.latency_s)
        return x->figures.latency_s < y->figures.latency_s ? -1 : 1;
    if (x->figures.peak_bytes != y->figures.peak_bytes)
        return x->figures.peak_bytes < y->figures.peak_bytes ? -1 : 1;
    return strcmp(x->id, y->id);
}

void mg_front_sort(struct mg_point *points, uint32_t count)
{
    qsort(points, count, sizeof *points, by_latency);
}

static uint32_t find_best(const struct mg_searcher *s, const struct mg_search_result *out)
{
    struct mg_limits limits = limits_of(s);
    uint32_t best = 0;
    if (limits.latency_s <= 0 && !limits.peak_bytes && !limits.arena_bytes)
        limits = mg_limits_usual(s->original.latency);
    for (uint32_t i = 1; i < out->front_count; i++)
        if (mg_limits_prefer(&limits, &out->front[i].figures, &out->front[best].figures))
            best = i;
    return best;
}

/* Is there time to publish more than the least? Who cancels waits for the end. */
static bool has_time(const struct mg_searcher *s, const struct mg_state *state)
{
    if (state->shown || s->stopped_by == MG_STOPPED_EVALUATIONS || s->stopped_by == MG_STOPPED_EXHAUSTED)
        return true;
    double then = s->observer->now(s->observer->context) + s->publish_seconds;
    return s->stopped_by == MG_STOPPED_SECONDS ? then - s->started < s->options->max_seconds
                                               : then - s->stopped < CANCELLED_S;
}

/* What is needed most comes first. False if there was no time for one of the ends. */
static bool publish_marked(struct mg_searcher *s, struct mg_front *front, const uint8_t *keep,
                           struct mg_search_result *out)
{
    bool whole = true;
    for (uint8_t rank = KEEP_ALWAYS; rank >= KEEP_STEP; rank--)
        for (uint32_t i = 0; i < s->archive.count; i++) {
            struct mg_state *state = s->archive.state[i];
            struct mg_point *point = &out->front[out->front_count];
            if (keep[i] != rank)
                continue;
            if (rank < KEEP_ALWAYS && !has_time(s, state)) {
                whole &= rank != KEEP_END;
                continue;
            }
            if (!publish_one(s, front, state, point))
                continue;
            if (!state->shown && s->observer->plan)
                show(s, state, point);
            out->front_count++;
        }
    return whole;
}

static bool is_reached(const struct mg_limits *limits, const struct mg_point *front, uint32_t count,
                       const struct mg_figures *figures)
{
    for (uint32_t i = 0; i < count; i++)
        if (mg_limits_reach(limits, &front[i].figures, figures))
            return true;
    return false;
}

static void keep_pareto(const struct mg_limits *limits, struct mg_search_result *out)
{
    uint32_t kept = 0;
    mg_front_sort(out->front, out->front_count);
    for (uint32_t i = 0; i < out->front_count; i++)
        if (!is_reached(limits, out->front, kept, &out->front[i].figures))
            out->front[kept++] = out->front[i];
    out->front_count = kept;
}

/* However short the search was, the front is nowhere worse than the baselines, whose plans are checked already; nor,
 * where its ends are not `whole`, than the original. */
static void add_checked(const struct mg_searcher *s, struct mg_front *front, bool whole, struct mg_search_result *out)
{
    const struct mg_limits limits = limits_of(s);
    if (!whole && !is_reached(&limits, out->front, out->front_count, &out->original.figures))
        out->front[out->front_count++] = out->original;
    for (uint32_t b = 0; b < out->baseline_count; b++)
        for (uint32_t i = 0; i < out->baselines[b].point_count; i++) {
            const struct mg_point *point = &out->baselines[b].points[i];
            bool allowed = (point->techniques & ~s->options->techniques) == 0;
            if (allowed && !is_reached(&limits, out->front, out->front_count, &point->figures)) {
                out->front[out->front_count++] = *point;
                front->accepted++;
            }
        }
    keep_pareto(&limits, out);
}

/* Room for the states that are kept, all baselines and the original. */
static struct mg_point *front_of(struct mg_searcher *s, const struct mg_search_result *out, uint32_t kept)
{
    uint32_t most = kept + 1;
    for (uint32_t b = 0; b < out->baseline_count; b++)
        most += out->baselines[b].point_count;
    return MG_NEW_ARRAY(s->arena, struct mg_point, most);
}

void mg_front_finish(struct mg_searcher *s, struct mg_front *front, struct mg_search_result *out)
{
    uint8_t keep[MG_ARCHIVE_MAX + 1];
    uint32_t kept = thin(s, keep);
    out->front = front_of(s, out, kept);
    bool whole = publish_marked(s, front, keep, out);
    if (out->front_count == 0) /* each was refused: the original stands, which was checked before all else */
        out->front[out->front_count++] = out->original;
    add_checked(s, front, whole, out);
    out->best = find_best(s, out);
    out->accepted = front->accepted;
    out->rejected = front->rejected;
}
