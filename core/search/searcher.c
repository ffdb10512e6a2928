#include "search/searcher.h"

#include <float.h>
#include <string.h>

#include "search/front.h"
#include "search/variant.h"

enum { LOOK_STRIDE = 64 };
static const double LOOK_S = 0.01; /* between looks at the clock */

static enum mg_code build_problems(struct mg_searcher *s, struct mg_error *err)
{
    enum mg_code code = mg_problem_build(s->g, s->options, s->arena, s->scratch, &s->variants[0].p, err);
    s->variant_count = code == MG_OK;
    return code == MG_OK ? mg_variants_build(s, err) : code;
}

static void prepare_variant(struct mg_searcher *s, struct mg_variant *v, uint32_t capacity)
{
    v->dimensions = mg_dimensions_build(v->p->g, s->arena);
    mg_evaluator_init(&v->evaluator, v->p, s->arena, capacity);
    mg_spans_init(&v->spans, v->p, s->arena, capacity);
}

enum mg_code mg_searcher_init(struct mg_searcher *s, const struct mg_graph *g, struct mg_error *err)
{
    s->g = g;
    s->started = s->observer->now(s->observer->context);
    enum mg_code code = build_problems(s, err);
    if (code != MG_OK)
        return code;
    uint32_t capacity = 0, values = 0;
    for (uint32_t v = 0; v < s->variant_count; v++) {
        const struct mg_problem *p = s->variants[v].p;
        capacity = p->order_count > capacity ? p->order_count : capacity;
        values = p->value_count > values ? p->value_count : values;
    }
    capacity = 4 * capacity + 256;
    for (uint32_t v = 0; v < s->variant_count; v++)
        prepare_variant(s, &s->variants[v], capacity);
    mg_searcher_enter(s, s->variants[0].p);
    mg_pool_init(&s->pool, s->arena, capacity);
    mg_schemes_init(&s->schemes, s->arena);
    mg_rng_init(&s->rng, s->options->seed);
    s->look_stride = 1;
    s->gaps = MG_NEW_ARRAY(s->arena, struct mg_gap, values);
    s->live = MG_NEW_ARRAY(s->arena, uint64_t, capacity);
    s->best_live = MG_NEW_ARRAY(s->arena, uint64_t, capacity);
    s->trial = mg_list_new(s->arena, capacity);
    s->best = mg_list_new(s->arena, capacity);
    return MG_OK;
}

void mg_searcher_release(struct mg_searcher *s)
{
    for (uint32_t v = 0; v < MG_VARIANTS_MAX; v++)
        mg_problem_release(s->variants[v].p);
    mg_schemes_release(&s->schemes);
}

struct mg_list mg_list_new(struct mg_arena *arena, uint32_t capacity)
{
    return (struct mg_list){MG_NEW_ARRAY(arena, mg_word, capacity), 0, capacity};
}

void mg_searcher_enter(struct mg_searcher *s, const struct mg_problem *p)
{
    if (s->p == p)
        return;
    struct mg_variant *to = s->variants;
    while (to->p != p)
        to++;
    for (uint32_t v = 0; v < s->variant_count; v++)
        if (s->variants[v].p == s->p) {
            s->variants[v].evaluator = s->evaluator;
            s->variants[v].spans = s->spans;
        }
    s->p = to->p;
    s->dimensions = to->dimensions;
    s->evaluator = to->evaluator;
    s->spans = to->spans;
}

void mg_list_copy(struct mg_list *to, const struct mg_list *from)
{
    memcpy(to->word, from->word, from->count * sizeof *to->word);
    to->count = from->count;
}

/* How many points there will be to publish at the end: where they are shown on the way, what came since then, and of
 * that not much more than was worth showing the last time. */
static uint32_t points_to_publish(const struct mg_searcher *s)
{
    uint32_t most = s->archive.count < MG_FRONT_MAX ? s->archive.count : MG_FRONT_MAX;
    if (!s->observer->plan)
        return most;
    uint32_t usual = s->showings > 1 ? 2 * s->shown_last + 4 : most, points = s->unshown < usual ? s->unshown : usual;
    return points < most ? points : most;
}

/* The front is published within the seconds, too; at most a third of them are kept for it. */
static double time_to_publish(const struct mg_searcher *s)
{
    double seconds = points_to_publish(s) * s->publish_seconds;
    return seconds < s->options->max_seconds / 3 ? seconds : s->options->max_seconds / 3;
}

static void stop(struct mg_searcher *s, enum mg_stopped_by why)
{
    if (s->stop)
        return;
    s->stop = true;
    s->stopped_by = why;
    s->stopped = s->observer->now(s->observer->context);
}

bool mg_searcher_has_time(struct mg_searcher *s)
{
    const struct mg_search_options *o = s->options;
    const struct mg_observer *observer = s->observer;
    bool cancelled = observer->cancelled && observer->cancelled(observer->context);
    bool late =
        o->max_seconds > 0 && observer->now(observer->context) - s->started + time_to_publish(s) >= o->max_seconds;
    if (cancelled || late)
        stop(s, cancelled ? MG_STOPPED_CANCELLED : MG_STOPPED_SECONDS);
    mg_searcher_report(s);
    return !cancelled && !late;
}

bool mg_searcher_fits(struct mg_searcher *s, double share, double seconds)
{
    const struct mg_observer *o = s->observer;
    double most = s->options->max_seconds;
    bool shares = most > 0 && !s->options->seconds_only_end;
    return mg_searcher_has_time(s) && (!shares || o->now(o->context) - s->started + seconds < share * most);
}

bool mg_searcher_look(struct mg_searcher *s)
{
    return mg_searcher_has_time(s) && !s->stop;
}

/* Looks again after as many evaluations as fit LOOK_S at the pace since the last time. */
static void look_at_pace(struct mg_searcher *s)
{
    double now = s->observer->now(s->observer->context), took = now - s->looked;
    uint32_t most = 2 * s->look_stride < LOOK_STRIDE ? 2 * s->look_stride : LOOK_STRIDE; /* trusts slowly */
    double stride = took > 0 ? s->look_stride * LOOK_S / took : most;
    s->look_stride = stride < 1 ? 1 : stride > most ? most : (uint32_t)stride;
    s->looked = now;
    s->next_look = s->evaluations + s->look_stride;
    mg_searcher_look(s);
}

struct mg_cost mg_searcher_try(struct mg_searcher *s, const struct mg_scheme *scheme, struct mg_list *list)
{
    if (s->stop)
        return (struct mg_cost){DBL_MAX, UINT64_MAX, UINT64_MAX};
    mg_edit_place_copies(&s->evaluator, scheme, list, s->scratch);
    struct mg_cost cost = mg_evaluate(&s->evaluator, scheme, list);
    s->evaluations++;
    if (!s->options->host_memory || cost.host <= s->options->host_memory)
        s->unshown += mg_archive_offer(&s->archive, &s->pool, scheme, list, cost);
    if (s->options->max_evaluations && s->evaluations >= s->options->max_evaluations)
        stop(s, MG_STOPPED_EVALUATIONS);
    if (s->evaluations >= s->next_look)
        look_at_pace(s);
    return cost;
}

const struct mg_scheme *mg_searcher_scheme(struct mg_searcher *s, const struct mg_region *specs, uint32_t count,
                                           struct mg_error *why)
{
    return mg_schemes_get(&s->schemes, s->p, specs, count, s->scratch, why);
}
