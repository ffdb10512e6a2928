/* Latency by S4 and R2: three clocks and F, and every step of part 0 literally.
 *
 * Of the other parts one of each run of equal parts (same tuple of extents) is walked and its duration
 * counts for all of the run. That is exact. Let T be the later of F and the compute stream's clock when a
 * part other than part 0 begins. All that is local to a part is freed in it, so F is not before the end
 * of any copy of an earlier part; and part 0 has waited for every outside instance that the body reads
 * and, on a copy stream that the body uses, for the copies in flight before. So all times that a step of
 * this part waits for are at most T, each step starts at T plus what the steps of this part before it
 * make of it, and equal parts take equally long and leave clocks, F and ends at the same distance from T.
 * A region costs at most three walks of its body: 3^depth walks of the innermost, which is bounded. */
#include "plan/check_priv.h"

enum { D_STREAM = 1, H_STREAM = 2 };

struct timing {
    const struct mg_check *c;
    double clock[3]; /* C, D, H */
    double freed;    /* F */
    double last;
    double *made, *touched, *host; /* by instance, storage, value */
    uint32_t *moved_storage, *moved_instance, *moved_value, serial;
    bool part0[MG_CHECK_DEPTH + 1];
    uint64_t effort;
    bool tired;
};

static const uint64_t most_effort = UINT64_C(1) << 26;

static double later(double a, double b)
{
    return a > b ? a : b;
}

static uint32_t stream_of(const struct mg_check *c, const struct mg_step *step)
{
    int streams = c->plan->device.copy_streams;
    if (streams == 0 || (step->kind != MG_STEP_STORE && step->kind != MG_STEP_LOAD))
        return 0;
    return step->kind == MG_STEP_LOAD && streams == 2 ? H_STREAM : D_STREAM;
}

/* A first part (R6) writes directly, or joins where the box is not contiguous. */
static double acc_seconds(const struct timing *t, const struct mg_step *step, uint32_t place, uint32_t tuple)
{
    const struct mg_check *c = t->c;
    const struct mg_check_place *p = &c->places[place];
    const struct mg_check_instance *buffer = &c->instances[mg_check_in(c, step)[1]];
    bool first = true;
    for (uint32_t j = c->places[buffer->home].depth; j < p->depth; j++)
        first = first && (buffer->box[j].dim >= 0 || t->part0[j]);
    if (first && step->price_count == p->tuple_count)
        return 0;
    return c->plan->prices[c->plan->refs[step->price + tuple + (first ? p->tuple_count : 0)]].seconds;
}

static double seconds_of(const struct timing *t, const struct mg_step *step, uint32_t place, uint32_t tuple)
{
    if (step->kind == MG_STEP_ACC)
        return acc_seconds(t, step, place, tuple);
    return t->c->plan->prices[t->c->plan->refs[step->price + tuple]].seconds;
}

static void touch(struct timing *t, uint32_t instance, double end)
{
    double *touched = &t->touched[t->c->plan->instances[instance].storage];
    *touched = later(*touched, end);
}

static double start_of(const struct timing *t, const struct mg_step *step, uint32_t stream)
{
    const struct mg_check *c = t->c;
    double start = later(later(t->clock[stream], t->clock[0]), t->freed);
    if (step->kind == MG_STEP_LOAD)
        return step->in_count ? later(start, t->host[c->plan->instances[mg_check_out(c, step)[0]].value]) : start;
    for (uint32_t i = 0; i < step->in_count; i++)
        start = later(start, t->made[mg_check_base(c, mg_check_in(c, step)[i])]);
    for (uint32_t i = 0; i < step->out_count; i++) /* in place: after all that touched the storage */
        start = later(start, t->touched[c->plan->instances[mg_check_out(c, step)[i]].storage]);
    return start;
}

static void run_step(struct timing *t, const struct mg_step *step, uint32_t place, uint32_t tuple)
{
    const struct mg_check *c = t->c;
    const uint32_t *in = mg_check_in(c, step), *out = mg_check_out(c, step);
    if (step->kind == MG_STEP_FREE) {
        t->freed = later(t->freed, t->touched[c->plan->instances[in[0]].storage]);
        return;
    }
    uint32_t stream = stream_of(c, step);
    double end = start_of(t, step, stream) + seconds_of(t, step, place, tuple);
    t->clock[stream] = end;
    t->last = later(t->last, end);
    for (uint32_t i = 0; i < step->in_count && step->kind != MG_STEP_LOAD; i++)
        touch(t, in[i], end);
    for (uint32_t i = 0; i < step->out_count; i++) {
        touch(t, out[i], end);
        t->made[out[i]] = end;
    }
    if (step->kind == MG_STEP_STORE)
        t->host[c->plan->instances[in[0]].value] = end;
}

/* ---- the parts of a region ---- */

/* What ends after the body has run (`now`) is a copy from outside, still in flight: it stays where it is. */
static void move_storage(struct timing *t, uint32_t instance, double now, double by)
{
    uint32_t storage = t->c->plan->instances[instance].storage;
    if (t->moved_storage[storage] != t->serial && t->touched[storage] <= now)
        t->touched[storage] += by;
    t->moved_storage[storage] = t->serial;
}

static void move_instance(struct timing *t, uint32_t instance, double by)
{
    if (t->moved_instance[instance] != t->serial)
        t->made[instance] += by;
    t->moved_instance[instance] = t->serial;
}

static void move_step(struct timing *t, const struct mg_step *step, double now, double by, bool used[3])
{
    const struct mg_check *c = t->c;
    if (step->kind == MG_STEP_FREE || step->kind == MG_STEP_BEGIN || step->kind == MG_STEP_END)
        return;
    used[stream_of(c, step)] = true;
    for (uint32_t i = 0; i < step->in_count && step->kind != MG_STEP_LOAD; i++)
        move_storage(t, mg_check_in(c, step)[i], now, by);
    for (uint32_t i = 0; i < step->out_count; i++) {
        move_storage(t, mg_check_out(c, step)[i], now, by);
        move_instance(t, mg_check_out(c, step)[i], by);
    }
    if (step->kind != MG_STEP_STORE)
        return;
    mg_value v = c->plan->instances[mg_check_in(c, step)[0]].value;
    if (t->moved_value[v] != t->serial)
        t->host[v] += by;
    t->moved_value[v] = t->serial;
}

/* As if the body that has just run had run later. */
static void move(struct timing *t, uint32_t from, uint32_t to, double by)
{
    bool used[3] = {false, false, false};
    double now = later(t->clock[0], t->freed);
    t->serial++;
    for (uint32_t s = from; s < to; s++)
        move_step(t, &t->c->plan->steps[s], now, by, used);
    t->freed += by;
    for (int i = 0; i < 3; i++) {
        t->clock[i] += used[i] ? by : 0;
        t->last = later(t->last, used[i] ? t->clock[i] : 0);
    }
}

static void run_range(struct timing *t, uint32_t from, uint32_t to, uint32_t place, uint32_t tuple);

static void run_equal_parts(struct timing *t, uint32_t place, uint32_t tuple, uint32_t count)
{
    const struct mg_check_place *p = &t->c->places[place];
    double before = later(t->clock[0], t->freed);
    if (count == 0)
        return;
    run_range(t, p->begin + 1, p->end, place, tuple);
    if (count > 1)
        move(t, p->begin + 1, p->end, (later(t->clock[0], t->freed) - before) * (count - 1));
}

static void run_region(struct timing *t, uint32_t place, uint32_t outer_tuple)
{
    const struct mg_check_place *p = &t->c->places[place];
    uint32_t tuple = p->first[outer_tuple];
    t->part0[p->depth - 1] = true;
    run_range(t, p->begin + 1, p->end, place, tuple);
    t->part0[p->depth - 1] = false;
    run_equal_parts(t, place, tuple, p->parts_large[outer_tuple] - 1);
    run_equal_parts(t, place, tuple + 1, p->parts_small[outer_tuple]);
}

static void run_range(struct timing *t, uint32_t from, uint32_t to, uint32_t place, uint32_t tuple)
{
    t->effort += to - from;
    t->tired = t->tired || t->effort > most_effort;
    for (uint32_t s = from; s < to && !t->tired; s++) {
        const struct mg_step *step = &t->c->plan->steps[s];
        if (step->kind == MG_STEP_BEGIN) {
            run_region(t, step->op + 1, tuple);
            s = t->c->places[step->op + 1].end;
        } else {
            run_step(t, step, place, tuple);
        }
    }
}

bool mg_check_time(struct mg_check *c)
{
    struct timing t = {.c = c};
    t.made = MG_NEW_ARRAY(c->arena, double, c->plan->instance_count);
    t.touched = MG_NEW_ARRAY(c->arena, double, c->plan->storage_count);
    t.host = MG_NEW_ARRAY(c->arena, double, c->g->value_count);
    t.moved_instance = MG_NEW_ARRAY(c->arena, uint32_t, c->plan->instance_count);
    t.moved_storage = MG_NEW_ARRAY(c->arena, uint32_t, c->plan->storage_count);
    t.moved_value = MG_NEW_ARRAY(c->arena, uint32_t, c->g->value_count);
    run_range(&t, 0, (uint32_t)c->plan->step_count, 0, 0);
    MG_CHECK(!t.tired, c, MG_NONE, "size", "regions nest too deeply to be timed");
    c->verdict->figures.latency_s = t.last;
    return true;
}
