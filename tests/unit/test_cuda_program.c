/* Whole plans on the cuda back end, over a driver that records: what runs on which stream, and that what has ended
 * before an operator or a copy starts is exactly what S4 (plan/MODEL.md) says, no less and no more. Both are vector
 * clocks: those of the plan from its actions alone, those of the device from the recorded events and waits. */
#include <math.h>

#include "cuda_recorder.h"
#include "exec/walk_plan.h"
#include "measure/program.h"
#include "program_util.h"

static struct mg_engine engine;
static struct mg_backend noting; /* the cuda back end, its runs kept in the queue */

static enum mg_code run_noted(struct mg_prepared *prepared, const void *const *in, void *const *out,
                              const struct mg_exec_origin *origin, struct mg_error *err)
{
    keep((struct recorded){.kind = RECORDED_RUN, .device = (uint64_t)(uintptr_t)out[0]});
    return mg_backend_cuda.run(prepared, in, out, origin, err);
}

static void open_engine(void)
{
    struct cuda_calls calls = recorder();
    struct mg_error err = {0};
    memset(&log_, 0, sizeof log_);
    log_.choices = 1;
    log_.left = (size_t)8 << 30;
    noting = mg_backend_cuda;
    noting.run = run_noted;
    engine = (struct mg_engine){.backend = &noting};
    cr_assert_eq(mg_cuda_open(&engine, &calls, 0, &err), MG_OK, "%s", err.message);
}

static void close_engine(void)
{
    mg_engine_free(&engine, MG_PLACE_DEVICE, engine.pool);
    mg_backend_cuda.close(&engine);
    free(engine.allocations);
    free(queue_.list);
    cr_expect(!engine.used_bytes && !log_.streams && !log_.events && !log_.memory && !log_.hosts && !log_.modules &&
                  !log_.layouts && !log_.descs && !log_.tensors,
              "something is left open");
}

TestSuite(cuda_program, .init = open_engine, .fini = close_engine);

/* ---- the plan's clocks ---- */

struct clock {
    uint32_t of[3]; /* so many operators, stores, loads have ended */
};
static void join(struct clock *to, const struct clock *from)
{
    for (int s = 0; s < 3; s++)
        to->of[s] = to->of[s] > from->of[s] ? to->of[s] : from->of[s];
}

struct access {
    bool host, write;
    uint64_t lo, hi;
};
struct step {
    enum mg_stream stream;
    struct clock start; /* what has ended before it */
    uint64_t at;        /* in the arena, of the first result or of what is copied */
    struct access access[16];
    uint32_t access_count;
};
struct room { /* a storage alive */
    uint64_t at, bytes;
    struct clock touched, loaded;
};
enum { MOST_ROOMS = 4096 };
struct expectation {
    struct step *steps;
    uint32_t count, capacity;
    struct room rooms[MOST_ROOMS];
    uint32_t room_count;
    struct clock last[3], freed, *stored;
};

static void note_access(struct step *step, const struct mg_located *box, bool write)
{
    uint64_t last = 0;
    for (uint32_t d = 0; d < box->shape.rank; d++)
        last += (uint64_t)((box->shape.dim[d] - 1) * box->stride[d]);
    cr_assert_lt(step->access_count, 16);
    if (mg_shape_elements(&box->shape) > 0)
        step->access[step->access_count++] = (struct access){
            .write = write, .lo = box->offset, .hi = box->offset + (last + 1) * mg_dtype_size(box->dtype)};
}

static struct room *room_of(struct expectation *e, const struct mg_located *box)
{
    for (uint32_t i = 0; i < e->room_count && mg_shape_elements(&box->shape) > 0; i++)
        if (box->offset >= e->rooms[i].at && box->offset < e->rooms[i].at + e->rooms[i].bytes)
            return &e->rooms[i];
    return NULL;
}

/* Boxes before the step: what made what is read; in place, all that touched. */
static void wait_for_boxes(struct expectation *e, struct step *step, const struct mg_located *boxes, uint32_t count,
                           bool write)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct room *room = room_of(e, &boxes[i]);
        note_access(step, &boxes[i], write);
        if (room)
            join(&step->start, write ? &room->touched : &room->loaded);
    }
}

static void touch_boxes(struct expectation *e, const struct clock *end, const struct mg_located *boxes, uint32_t count,
                        bool loads)
{
    for (uint32_t i = 0; i < count; i++) {
        struct room *room = room_of(e, &boxes[i]);
        if (room)
            join(&room->touched, end);
        if (room && loads)
            join(&room->loaded, end);
    }
}

static void expect_step(struct expectation *e, const struct mg_action *action)
{
    if (e->count == e->capacity) {
        e->capacity = 2 * e->capacity + 256;
        e->steps = realloc(e->steps, e->capacity * sizeof *e->steps);
        cr_assert_not_null(e->steps);
    }
    struct step *step = &e->steps[e->count++];
    bool computes = action->kind == MG_ACTION_COMPUTE, loads = action->kind == MG_ACTION_LOAD;
    uint32_t reads = computes ? action->op->in_count : !loads, writes = computes ? action->op->out_count : loads;
    *step = (struct step){.stream = computes ? MG_STREAM_COMPUTE : loads ? MG_STREAM_LOAD : MG_STREAM_STORE};
    step->at = writes ? action->out[0].offset : action->in[0].offset;
    join(&step->start, &e->last[step->stream]);
    join(&step->start, &e->last[MG_STREAM_COMPUTE]);
    join(&step->start, &e->freed);
    wait_for_boxes(e, step, action->in, reads, false);
    wait_for_boxes(e, step, action->out, writes, true);
    uint64_t host = (uint64_t)action->copy << 32;
    if (!computes)
        step->access[step->access_count++] = (struct access){true, !loads, host, host + action->bytes};
    if (loads)
        join(&step->start, &e->stored[action->copy]);
    struct clock end = step->start;
    end.of[step->stream]++;
    e->last[step->stream] = end;
    touch_boxes(e, &end, action->in, reads, false);
    touch_boxes(e, &end, action->out, writes, loads);
    if (!computes && !loads)
        e->stored[action->copy] = end;
}

static uint32_t find_room(const struct expectation *e, const struct mg_action *action)
{
    uint32_t i = 0;
    while (i < e->room_count && (e->rooms[i].at != action->out->offset || e->rooms[i].bytes != action->bytes))
        i++;
    return i;
}

static enum mg_code expect_action(void *context, const struct mg_action *action, struct mg_error *err)
{
    struct expectation *e = context;
    (void)err;
    if (action->kind == MG_ACTION_COMPUTE || action->kind == MG_ACTION_STORE || action->kind == MG_ACTION_LOAD)
        expect_step(e, action);
    else if (action->kind == MG_ACTION_ALLOCATE && find_room(e, action) == e->room_count) {
        cr_assert_lt(e->room_count, MOST_ROOMS);
        e->rooms[e->room_count++] = (struct room){.at = action->out->offset, .bytes = action->bytes};
    } else if (action->kind == MG_ACTION_FREE) {
        uint32_t i = find_room(e, action);
        cr_assert_lt(i, e->room_count);
        join(&e->freed, &e->rooms[i].touched);
        e->rooms[i] = e->rooms[--e->room_count];
    }
    return MG_OK;
}

/* ---- the device's clocks ---- */

enum { MOST_EVENTS = 1024 };
struct device {
    struct clock now[3], at[MOST_EVENTS];
    void *event[MOST_EVENTS];
    uint32_t event_count, waits, overlaps;
    uint64_t base; /* of the arena */
};

static enum mg_stream stream_of(const void *stream)
{
    const struct cuda *cuda = engine.detail;
    for (int s = 0; s < 3; s++)
        if (cuda->stream[s] == stream)
            return (enum mg_stream)s;
    cr_assert_fail("a stream that nobody made");
    return MG_STREAM_COMPUTE;
}

static struct clock *clock_at(struct device *d, void *event)
{
    uint32_t i = 0;
    while (i < d->event_count && d->event[i] != event)
        i++;
    cr_assert_lt(i, MOST_EVENTS);
    d->event_count += i == d->event_count;
    d->event[i] = event;
    return &d->at[i];
}

/* Of two steps on different streams that touch the same bytes, one of them writing, the first has ended. */
static void expect_no_race(const struct step *steps, uint32_t later, const uint32_t *turn, const char *label)
{
    const struct step *b = &steps[later];
    for (uint32_t i = 0; i < later; i++)
        for (uint32_t x = 0; x < steps[i].access_count && steps[i].stream != b->stream; x++)
            for (uint32_t y = 0; y < b->access_count; y++) {
                const struct access *p = &steps[i].access[x], *q = &b->access[y];
                bool meet = p->host == q->host && p->lo < q->hi && q->lo < p->hi && (p->write || q->write);
                cr_assert(!meet || b->start.of[steps[i].stream] >= turn[i], "%s: step %u does not wait for step %u",
                          label, later, i);
            }
}

static void compare_step(struct device *d, const struct expectation *e, uint32_t number, enum mg_stream stream,
                         uint64_t address, const char *label)
{
    const struct step *step = &e->steps[number];
    const struct clock *now = &d->now[stream];
    cr_assert_eq(stream, step->stream, "%s: step %u is on stream %d", label, number, stream);
    d->base = number ? d->base : address - step->at;
    cr_assert_eq(address, d->base + step->at, "%s: step %u is elsewhere", label, number);
    cr_assert(memcmp(now, &step->start, sizeof *now) == 0,
              "%s: before step %u of stream %d have ended %u, %u, %u steps, the model says %u, %u, %u", label, number,
              stream, now->of[0], now->of[1], now->of[2], step->start.of[0], step->start.of[1], step->start.of[2]);
    d->overlaps += stream == MG_STREAM_COMPUTE && now->of[MG_STREAM_LOAD] < d->now[MG_STREAM_LOAD].of[MG_STREAM_LOAD];
    d->now[stream].of[stream]++;
}

/* Follows the queue through all steps of the plan; behind them are the guards' copies. */
static void follow_queue(struct device *d, const struct expectation *e, const char *label)
{
    uint32_t number = 0, i = 0;
    for (; i < queue_.count && number < e->count; i++) {
        const struct recorded *item = &queue_.list[i];
        enum mg_stream stream = item->kind == RECORDED_RUN ? MG_STREAM_COMPUTE : stream_of(item->stream);
        if (item->kind == RECORDED_EVENT)
            *clock_at(d, item->event) = d->now[stream];
        else if (item->kind == RECORDED_WAIT) {
            struct clock before = d->now[stream];
            join(&d->now[stream], clock_at(d, item->event));
            cr_assert(memcmp(&before, &d->now[stream], sizeof before) != 0, "%s: a wait for nothing", label);
            d->waits++;
        } else if (item->kind == RECORDED_LAUNCH)
            cr_assert_eq(stream, MG_STREAM_COMPUTE);
        else
            compare_step(d, e, number++, stream, item->device, label);
    }
    cr_assert_eq(number, e->count, "%s: %u of %u steps", label, number, e->count);
}

/* ---- plans ---- */

static struct {
    uint32_t plans, regions, stores, recomputes, waits, overlaps, steps;
} seen;

static bool recomputes(const struct mg_plan *plan)
{
    for (size_t i = 0; i < plan->instance_count; i++)
        for (size_t k = 0; k < i && plan->instances[i].made_by != MG_NONE; k++)
            if (plan->instances[k].value == plan->instances[i].value && plan->instances[k].made_by != MG_NONE &&
                plan->steps[plan->instances[k].made_by].kind == MG_STEP_COMPUTE &&
                plan->steps[plan->instances[i].made_by].kind == MG_STEP_COMPUTE)
                return true;
    return false;
}

static void check_plan(const struct mg_graph *g, const struct mg_plan *plan, double *const *given, const char *label)
{
    static struct expectation e;
    static struct device d;
    struct mg_arena scratch;
    struct mg_error err = {0};
    struct mg_program *program;
    struct mg_plan_visitor visitor = {&e, expect_action};
    double seconds;
    e = (struct expectation){.stored = calloc(mg_plan_graph(g, plan)->value_count, sizeof *e.stored)};
    d = (struct device){.base = 0};
    mg_arena_init(&scratch, SIZE_MAX);
    cr_assert_eq(mg_exec_walk(g, plan, 3, &visitor, &scratch, &err), MG_OK, "%s: %s", label, err.message);
    mg_arena_release(&scratch);
    cr_assert_eq(mg_program_build(&engine, g, plan, 3, &program, &err), MG_OK, "%s: %s", label, err.message);
    cr_assert_eq(mg_program_load(program, given, &err), MG_OK, "%s", err.message);
    queue_.count = 0;
    queue_.keeps = true;
    cr_assert_eq(mg_program_run(program, &seconds, &err), MG_OK, "%s: %s", label, err.message);
    queue_.keeps = false;
    follow_queue(&d, &e, label);
    uint32_t *turn = calloc(e.count, sizeof *turn), turns[3] = {0, 0, 0};
    for (uint32_t i = 0; i < e.count; i++) {
        turn[i] = ++turns[e.steps[i].stream];
        expect_no_race(e.steps, i, turn, label);
    }
    seen.plans++;
    seen.regions += plan->region_count > 0;
    seen.stores += plan->figures.host_bytes > 0;
    seen.recomputes += recomputes(plan);
    seen.waits += d.waits;
    seen.overlaps += d.overlaps;
    seen.steps += e.count;
    mg_program_free(program);
    free(turn);
    free(e.stored);
    free(e.steps);
}

static void check_net(const struct net *net, const char *dtype, struct mg_arena *arena)
{
    struct net of = *net;
    struct mg_device device = tight_device();
    char label[64];
    snprintf(label, sizeof label, "%s %s", net->name, dtype);
    of.options[of.count++] = (struct mg_zoo_option){"dtype", dtype};
    device.link_bw_d2h = device.link_bw_h2d = 4e6;
    struct mg_graph *g = training_graph(&of, arena);
    struct mg_search_result result = search_plans(g, &device, arena);
    double **given = mg_exec_random_values(g, 3, 3, arena);
    check_plan(g, result.original.plan, given, label);
    for (uint32_t i = 0; i < result.front_count; i++)
        check_plan(g, result.front[i].plan, given, label);
}

static enum mg_code check_all(void *context, struct mg_error *err)
{
    static const char *const dtypes[] = {"f32", "bf16", "f16"};
    (void)err;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
            struct mg_arena *arena = context;
            struct mg_arena_mark mark = mg_arena_mark(arena);
            check_net(&nets[i], dtypes[d], arena);
            mg_arena_rewind(arena, mark);
        }
    return MG_OK;
}

static void with_arena(enum mg_code (*fn)(void *context, struct mg_error *err))
{
    struct mg_arena arena;
    struct mg_error err = {0};
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&arena, fn, &arena, &err), MG_OK, "%s", err.message);
    mg_arena_release(&arena);
}

Test(cuda_program, steps_wait_for_what_the_model_says_and_nothing_else)
{
    with_arena(check_all);
    cr_expect(seen.plans > 30 && seen.regions > 9 && seen.stores > 9 && seen.recomputes > 9,
              "%u plans, with regions %u, stores %u, recomputation %u", seen.plans, seen.regions, seen.stores,
              seen.recomputes);
    cr_expect(seen.overlaps > 100, "%u operators are queued while something is loaded that they do not read",
              seen.overlaps);
    cr_expect(log_.products[1][CUBLASLT_F32] && log_.products[0][CUBLASLT_BF16] && log_.products[0][CUBLASLT_F16],
              "products in TF32, bf16 and f16");
    cr_expect_eq(log_.products[0][CUBLASLT_F32], 0);
}
