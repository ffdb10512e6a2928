/* The store's operations, one after the other; crashes, faults and paging are in test_store_durable.c. */
#include <criterion/criterion.h>

#include "store/store_priv.h"
#include "store_util.h"

#define A "aaaaaaaaaaaa"
#define B "bbbbbbbbbbbb"
#define C "cccccccccccc"
#define P0 "0000000000000000"
#define P1 "1111111111111111"
#define P2 "2222222222222222"
#define P3 "3333333333333333"
#define CRASH_ERROR "{\"type\":\"/errors/worker-died\"}"

static struct fixture f;

static void setup(void)
{
    fixture_init(&f);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
}

static void teardown(void)
{
    fixture_release(&f);
}

TestSuite(store, .init = setup, .fini = teardown);

static void save(const char *id, const struct mg_store_point *points, size_t n)
{
    struct mg_store_points all = {.points = points, .n_points = n};
    const struct got *got = DO(&f, save_points, id, &all);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
}

static void finish(const char *id, const char *best)
{
    struct mg_store_outcome end = {.state = MG_JOB_SUCCEEDED,
                                   .outcome = MG_JOB_OUTCOME_FRONT,
                                   .stopped_by = MG_STOP_SECONDS,
                                   .best = best,
                                   .evaluations = 77,
                                   .elapsed_s = 30,
                                   .lower_bound = -1,
                                   .smallest_found = -1,
                                   .reproducible = true};
    const struct got *got = DO(&f, finish, id, &end, NULL);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
}

/* A job with original, a front of two and a best plan, ended. */
static void make_ended(const char *id)
{
    struct mg_store_point points[] = {any_point(MG_POINT_ORIGINAL, P0, 1.0, 1000),
                                      any_point(MG_POINT_FRONT, P2, 1.3, 300), any_point(MG_POINT_FRONT, P1, 1.1, 500)};
    cr_assert_eq(submit_any(&f, id)->code, MG_STORE_OK);
    cr_assert_eq(DO(&f, claim, id, 0)->code, MG_STORE_OK);
    save(id, points, 3);
    finish(id, P1);
}

Test(store, submit_gives_the_job_back)
{
    struct mg_store_submission s = any_submission(NULL);
    s.deadline_at = 42;
    s.priority = MG_PRIORITY_BATCH;
    const struct got *got = DO(&f, submit, &s);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_eq(strlen(got->job.id), MG_JOB_ID_LEN);
    cr_assert_eq(strspn(got->job.id, "0123456789abcdefghijklmnopqrstuvwxyz"), MG_JOB_ID_LEN);
    cr_assert_eq(got->job.state, MG_JOB_QUEUED);
    cr_assert_eq(got->job.priority, MG_PRIORITY_BATCH);
    cr_assert_eq(got->job.deadline_at, 42);
    cr_assert_eq(got->job.created_at, f.now);
    cr_assert_eq(got->job.queued_at, f.now);
    cr_assert_eq(got->job.budget_seconds, 30);
    cr_assert_eq(got->job.lower_bound, -1);
    cr_assert_not(got->job.has_original || got->job.has_best);
    cr_assert_str_eq(got->name, "nightly");
    cr_assert_str_eq(got->labels, "{\"branch\":\"main\"}");
    cr_assert_eq(got->n_events, 1);
    cr_assert_str_eq(got->events[0].type, "state");
    cr_assert_str_eq(got->events[0].data, "{\"state\":\"queued\"}");
    cr_assert_eq(got->job.last_event, 1);
}

Test(store, submit_refuses_what_is_wrong)
{
    struct mg_store_request no_graph = any_request;
    struct mg_store_submission s = any_submission("BAD");
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_INVALID);
    s = any_submission(A);
    s.labels = "{broken";
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_INVALID);
    s = any_submission(A);
    s.state = MG_JOB_RUNNING;
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_INVALID);
    no_graph.graph.size = 0;
    s = any_submission(A);
    s.normal = &no_graph;
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_INVALID);
    cr_assert_eq(DO(&f, get_job, A)->code, MG_STORE_NOT_FOUND);
    cr_assert_eq(submit_any(&f, A)->code, MG_STORE_OK);
    cr_assert_eq(submit_any(&f, A)->code, MG_STORE_CONFLICT);
    cr_assert_eq(DO0(&f, get_stats)->stats.jobs[MG_JOB_QUEUED], 1);
}

Test(store, validating_job_is_accepted)
{
    struct mg_store_submission s = any_submission(A);
    s.state = MG_JOB_VALIDATING;
    s.normal = NULL;
    s.body = (struct mg_blob){"posted\0bytes", 12};
    s.body_type = "application/json";
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_OK);
    cr_assert_eq(DO(&f, get_request, A)->code, MG_STORE_CONFLICT);
    cr_assert_eq(DO(&f, get_work, A)->code, MG_STORE_CONFLICT);
    cr_assert_eq(DO(&f, claim, A, 0)->code, MG_STORE_CONFLICT);
    const struct got *got = DO(&f, get_body, A);
    cr_assert_eq(got->code, MG_STORE_OK);
    cr_assert_eq(got->blob_size, 12);
    cr_assert_eq(memcmp(got->blob, "posted\0bytes", 12), 0);
    cr_assert_str_eq(got->text, "application/json");
    got = DO(&f, accept, A, &any_request);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_eq(got->job.state, MG_JOB_QUEUED);
    cr_assert_eq(DO(&f, get_body, A)->code, MG_STORE_CONFLICT);
    cr_assert_eq(DO(&f, accept, A, &any_request)->code, MG_STORE_CONFLICT);
    got = DO(&f, get_work, A);
    cr_assert_eq(got->blob_size, sizeof GRAPH_TEXT - 1);
    cr_assert_eq(memcmp(got->blob, GRAPH_TEXT, got->blob_size), 0);
    cr_assert_str_eq(got->text, any_request.request);
    got = DO(&f, get_request, A);
    cr_assert_eq(memcmp(got->blob, any_request.request, got->blob_size), 0);
}

Test(store, body_from_a_file)
{
    struct mg_store_submission s = any_submission(A);
    FILE *file = tmpfile();
    fputs("in a file", file);
    fflush(file);
    s.state = MG_JOB_VALIDATING;
    s.normal = NULL;
    s.body.size = 10;
    s.body_fd = fileno(file);
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_INVALID, "the file is shorter");
    s.body_fd = -1;
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_INVALID);
    s.body_fd = fileno(file);
    s.body.size = 9;
    mg_store_submit(f.store, &s, got_cb, fixture_clear(&f));
    fclose(file);
    cr_assert_eq(fixture_result(&f)->code, MG_STORE_OK, "%s", f.got.message);
    cr_assert_eq(DO(&f, get_body, A)->blob_size, 9);
    cr_assert_eq(memcmp(f.got.blob, "in a file", 9), 0);
}

Test(store, validating_job_fails_with_its_problem)
{
    struct mg_store_submission s = any_submission(A);
    struct mg_store_outcome end = {.state = MG_JOB_FAILED, .error = "{\"type\":\"/errors/invalid\"}"};
    s.state = MG_JOB_VALIDATING;
    s.normal = NULL;
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_OK);
    const struct got *got = DO(&f, finish, A, &end, NULL);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_str_eq(got->error, end.error);
    cr_assert_eq(got->n_events, 2);
    cr_assert_str_eq(got->events[1].type, "end");
    cr_assert_str_eq(got->events[1].data, "{\"state\":\"failed\",\"outcome\":null,\"stopped_by\":null}");
    cr_assert_eq(DO(&f, retry, A, NULL, NULL)->code, MG_STORE_CONFLICT);
}

Test(store, an_end_needs_its_problem_exactly_when_failed)
{
    struct mg_store_outcome end = {.state = MG_JOB_FAILED};
    submit_any(&f, A);
    cr_assert_eq(DO(&f, finish, A, &end, NULL)->code, MG_STORE_INVALID);
    end = (struct mg_store_outcome){.state = MG_JOB_CANCELLED, .error = "{}"};
    cr_assert_eq(DO(&f, finish, A, &end, NULL)->code, MG_STORE_INVALID);
    end = (struct mg_store_outcome){.state = MG_JOB_RUNNING};
    cr_assert_eq(DO(&f, finish, A, &end, NULL)->code, MG_STORE_INVALID);
    end = (struct mg_store_outcome){.state = MG_JOB_SUCCEEDED};
    cr_assert_eq(DO(&f, finish, A, &end, NULL)->code, MG_STORE_CONFLICT);
    end = (struct mg_store_outcome){.state = MG_JOB_FAILED, .error = "no json"};
    cr_assert_eq(DO(&f, finish, A, &end, NULL)->code, MG_STORE_INVALID);
    cr_assert_eq(DO(&f, get_job, A)->job.state, MG_JOB_QUEUED);
}

Test(store, claim_raises_attempts)
{
    submit_any(&f, A);
    const struct got *got = DO(&f, claim, A, 99);
    cr_assert_eq(got->job.state, MG_JOB_RUNNING);
    cr_assert_eq(got->job.attempts, 1);
    cr_assert_eq(got->job.lease_until, 99);
    cr_assert_eq(got->job.started_at, f.now);
    cr_assert_eq(got->job.revision, 2);
    cr_assert_eq(DO(&f, claim, A, 0)->code, MG_STORE_CONFLICT);
    cr_assert_eq(f.got.job.state, MG_JOB_RUNNING);
    got = DO(&f, requeue, A, MG_REQUEUE_DRAIN, NULL);
    cr_assert_eq(got->job.state, MG_JOB_QUEUED);
    cr_assert_eq(got->job.crashes, 0);
    got = DO(&f, claim, A, 0);
    cr_assert_eq(got->job.attempts, 2);
    cr_assert(got->job.resumed);
}

Test(store, a_claim_without_a_worker_is_no_attempt)
{
    submit_any(&f, A);
    submit_any(&f, B);
    int64_t order = DO(&f, get_job, A)->job.queue_order;
    DO(&f, claim, A, 99);
    f.now += 10;
    const struct got *got = DO(&f, requeue, A, MG_REQUEUE_UNSTARTED, NULL);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_eq(got->job.state, MG_JOB_QUEUED);
    cr_assert_eq(got->job.attempts, 0);
    cr_assert_eq(got->job.crashes, 0);
    cr_assert_eq(got->job.started_at, 0);
    cr_assert_eq(got->job.queue_order, order);
    got = DO(&f, claim, A, 0);
    cr_assert_eq(got->job.attempts, 1);
    cr_assert_eq(got->job.started_at, f.now);
    cr_assert_not(got->job.resumed);
    int64_t started = f.now;
    DO(&f, requeue, A, MG_REQUEUE_DRAIN, NULL);
    f.now += 10;
    DO(&f, claim, A, 0);
    got = DO(&f, requeue, A, MG_REQUEUE_UNSTARTED, NULL);
    cr_assert_eq(got->job.attempts, 1);
    cr_assert_eq(got->job.started_at, started);
}

Test(store, waiting_and_back)
{
    submit_any(&f, A);
    cr_assert_eq(DO(&f, set_waiting, A, false)->code, MG_STORE_CONFLICT);
    cr_assert_eq(DO(&f, set_waiting, A, true)->job.state, MG_JOB_WAITING);
    cr_assert_eq(DO(&f, set_waiting, A, false)->job.state, MG_JOB_QUEUED);
    cr_assert_eq(DO(&f, set_waiting, A, true)->job.state, MG_JOB_WAITING);
    cr_assert_eq(DO(&f, claim, A, 0)->job.state, MG_JOB_RUNNING);
}

Test(store, crash_goes_to_the_end_of_the_queue_then_fails)
{
    submit_any(&f, A);
    submit_any(&f, B);
    DO(&f, claim, A, 0);
    cr_assert_eq(DO(&f, requeue, A, MG_REQUEUE_CRASH, NULL)->code, MG_STORE_INVALID);
    const struct got *got = DO(&f, requeue, A, MG_REQUEUE_CRASH, CRASH_ERROR);
    cr_assert_eq(got->job.state, MG_JOB_QUEUED);
    cr_assert_eq(got->job.crashes, 1);
    int64_t order = got->job.queue_order;
    cr_assert_gt(order, DO(&f, get_job, B)->job.queue_order);
    DO(&f, claim, A, 0);
    got = DO(&f, requeue, A, MG_REQUEUE_CRASH, CRASH_ERROR);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_eq(got->job.state, MG_JOB_FAILED);
    cr_assert_eq(got->job.crashes, 2);
    cr_assert_str_eq(got->error, CRASH_ERROR);
}

Test(store, cancel_by_state)
{
    submit_any(&f, A);
    const struct got *got = DO(&f, cancel, A);
    cr_assert_eq(got->job.state, MG_JOB_CANCELLED);
    cr_assert_eq(got->job.stopped_by, MG_STOP_CANCELLED);
    cr_assert_eq(DO(&f, cancel, A)->code, MG_STORE_CONFLICT);
    submit_any(&f, B);
    DO(&f, claim, B, 0);
    cr_assert_eq(DO(&f, cancel, B)->job.state, MG_JOB_CANCELLING);
    got = DO(&f, cancel, B);
    cr_assert_eq(got->code, MG_STORE_OK);
    cr_assert_eq(got->n_events, 0);
    got = DO(&f, requeue, B, MG_REQUEUE_DRAIN, NULL);
    cr_assert_eq(got->job.state, MG_JOB_CANCELLED);
    cr_assert_eq(DO(&f, cancel, C)->code, MG_STORE_NOT_FOUND);
}

Test(store, evaluations_job_starts_over)
{
    struct mg_store_request r = any_request;
    struct mg_store_submission s = any_submission(A);
    struct mg_store_points p = {.progress = &(struct mg_store_progress){.evaluations = 10, .elapsed_s = 2}};
    r.seconds = 0;
    r.evaluations = 1000;
    s.normal = &r;
    DO(&f, submit, &s);
    DO(&f, claim, A, 0);
    cr_assert_eq(DO(&f, save_points, A, &p)->job.evaluations, 10);
    DO(&f, requeue, A, MG_REQUEUE_DRAIN, NULL);
    const struct got *got = DO(&f, claim, A, 0);
    cr_assert_eq(got->job.evaluations, 0);
    cr_assert_eq(got->job.elapsed_s, 0);
    cr_assert_not(got->job.resumed);
}

Test(store, front_is_numbered_at_the_end)
{
    struct mg_store_point points[] = {
        any_point(MG_POINT_ORIGINAL, P0, 1.0, 1000), any_point(MG_POINT_FRONT, P2, 1.3, 300),
        any_point(MG_POINT_FRONT, P0, 1.0, 1000),    any_point(MG_POINT_FRONT, P1, 1.1, 500),
        any_point(MG_POINT_BASELINE, P3, 1.4, 400),  {.kind = MG_POINT_BASELINE, .series = "dtr", .reason = "no loop"}};
    points[4].series = "sublinear";
    submit_any(&f, A);
    DO(&f, claim, A, 0);
    save(A, points, 6);
    cr_assert_eq(DO(&f, get_plan, A, "1")->code, MG_STORE_NOT_FOUND);
    finish(A, P1);
    const struct got *got = DO(&f, get_front, A);
    static const struct {
        const char *plan, *series;
        enum mg_point_kind kind;
        int k;
    } want[] = {{P0, "", MG_POINT_ORIGINAL, 0},     {P0, "", MG_POINT_FRONT, 0},
                {P1, "", MG_POINT_FRONT, 1},        {P2, "", MG_POINT_FRONT, 2},
                {"", "dtr", MG_POINT_BASELINE, -1}, {P3, "sublinear", MG_POINT_BASELINE, -1}};
    cr_assert_eq(got->n_points, 6);
    for (size_t i = 0; i < 6; i++) {
        cr_assert_str_eq(got->points[i].plan, want[i].plan);
        cr_assert_str_eq(got->points[i].series, want[i].series);
        cr_assert_eq(got->points[i].kind, want[i].kind);
        cr_assert_eq(got->points[i].k, want[i].k, "point %zu has k = %d", i, got->points[i].k);
    }
    cr_assert_str_eq(got->points[4].reason, "no loop");
    cr_assert(got->job.has_original);
    cr_assert_eq(got->job.original_peak, 1000);
    cr_assert_eq(got->job.best_peak, 500);
    cr_assert_str_eq(got->job.best_plan, P1);
    cr_assert_eq(got->job.evaluations, 77);
    cr_assert(got->job.reproducible);
}

Test(store, plans_by_every_name)
{
    static const struct {
        const char *which, *plan;
    } names[] = {{P1, P1}, {"1", P1}, {"2", P2}, {"0", P0}, {"original", P0}, {"best", P1}};
    make_ended(A);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct got *got = DO(&f, get_plan, A, names[i].which);
        cr_assert_eq(got->code, MG_STORE_OK, "%s: %s", names[i].which, got->message);
        cr_assert_str_eq(got->text, names[i].plan);
        cr_assert_eq(got->blob_size, 16);
        cr_assert_eq(memcmp(got->blob, names[i].plan, 16), 0);
        cr_assert_str_eq(got->points[0].plan, names[i].plan);
    }
    static const char *const bad[] = {"3", "9999999", "", "x", P3};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(DO(&f, get_plan, A, bad[i])->code, MG_STORE_NOT_FOUND, "%s", bad[i]);
    }
}

Test(store, replaced_plan_points_to_its_successor)
{
    struct mg_store_point one = any_point(MG_POINT_FRONT, P1, 1.1, 500), two = any_point(MG_POINT_FRONT, P2, 1.0, 400),
                          three = any_point(MG_POINT_FRONT, P3, 0.9, 300);
    struct mg_store_points p = {.points = &two,
                                .n_points = 1,
                                .replaced = &(struct mg_store_replacement){P1, P2},
                                .n_replaced = 1,
                                .progress = &(struct mg_store_progress){.evaluations = 5, .best = P2},
                                .event = "{\"points\":1}"};
    submit_any(&f, A);
    DO(&f, claim, A, 0);
    save(A, &one, 1);
    const struct got *got = DO(&f, save_points, A, &p);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_str_eq(got->events[0].type, "front");
    cr_assert_eq(got->job.best_peak, 400);
    p = (struct mg_store_points){
        .points = &three, .n_points = 1, .replaced = &(struct mg_store_replacement){P2, P3}, .n_replaced = 1};
    cr_assert_eq(DO(&f, save_points, A, &p)->code, MG_STORE_OK);
    got = DO(&f, get_plan, A, P1);
    cr_assert_eq(got->code, MG_STORE_GONE);
    cr_assert_str_eq(got->replaced_by, P3);
    cr_assert_eq(DO(&f, get_front, A)->n_points, 1);
    cr_assert_eq(DO0(&f, get_stats)->stats.plans, 1);
    one.blob.size = 0;
    p = (struct mg_store_points){.points = &one, .n_points = 1};
    cr_assert_eq(DO(&f, save_points, A, &p)->code, MG_STORE_INVALID, "its blob is gone");
    p = (struct mg_store_points){.replaced = &(struct mg_store_replacement){P3, P1}, .n_replaced = 1};
    cr_assert_eq(DO(&f, save_points, A, &p)->code, MG_STORE_INVALID, "a replaced plan cannot stand for another");
}

Test(store, points_of_a_wrong_set_leave_nothing)
{
    struct mg_store_point points[] = {any_point(MG_POINT_FRONT, P1, 1.1, 500),
                                      any_point(MG_POINT_FRONT, "short", 1, 1)};
    struct mg_store_points p = {.points = points, .n_points = 2};
    submit_any(&f, A);
    DO(&f, claim, A, 0);
    int64_t revision = DO(&f, get_job, A)->job.revision;
    cr_assert_eq(DO(&f, save_points, A, &p)->code, MG_STORE_INVALID);
    cr_assert_eq(DO(&f, get_front, A)->n_points, 0);
    cr_assert_eq(f.got.job.revision, revision);
}

Test(store, last_points_come_with_the_end)
{
    struct mg_store_point point = any_point(MG_POINT_FRONT, P1, 1.1, 500);
    struct mg_store_points last = {.points = &point, .n_points = 1};
    struct mg_store_outcome end = {.state = MG_JOB_SUCCEEDED,
                                   .outcome = MG_JOB_OUTCOME_NOT_MET,
                                   .stopped_by = MG_STOP_EXHAUSTED,
                                   .best = P1,
                                   .lower_bound = 10,
                                   .smallest_found = 500,
                                   .prices = {0.25, 0.25, 0.125, 0.375}};
    submit_any(&f, A);
    DO(&f, claim, A, 0);
    const struct got *got = DO(&f, finish, A, &end, &last);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_eq(got->job.outcome, MG_JOB_OUTCOME_NOT_MET);
    cr_assert_eq(got->job.lower_bound, 10);
    cr_assert_eq(got->job.smallest_found, 500);
    cr_assert_eq(got->job.prices[3], 0.375);
    cr_assert_eq(got->job.best_arena, 501);
    cr_assert_str_eq(got->events[got->n_events - 1].data,
                     "{\"state\":\"succeeded\",\"outcome\":\"not_met\",\"stopped_by\":\"exhausted\"}");
    cr_assert_eq(DO(&f, get_plan, A, "1")->code, MG_STORE_OK);
    cr_assert_eq(DO(&f, save_points, A, &last)->code, MG_STORE_CONFLICT);
}

Test(store, events_read_since)
{
    submit_any(&f, A);
    DO(&f, claim, A, 0);
    const struct mg_store_points front = {.event = "{\"n\":1}"}, broken = {.event = "broken"};
    const struct got *got = DO(&f, save_points, A, &front);
    cr_assert_eq(got->events[0].seq, 3);
    cr_assert_eq(DO(&f, save_points, A, &broken)->code, MG_STORE_INVALID);
    got = DO(&f, get_events, A, (int64_t)1, 10);
    cr_assert_eq(got->n_events, 2);
    cr_assert_eq(got->events[0].seq, 2);
    cr_assert_str_eq(got->events[0].data, "{\"state\":\"running\"}");
    cr_assert_str_eq(got->events[1].data, "{\"n\":1}");
    cr_assert_eq(DO(&f, get_events, A, (int64_t)0, 1)->n_events, 1);
    cr_assert_eq(DO(&f, get_events, A, (int64_t)3, 10)->n_events, 0);
    cr_assert_eq(DO(&f, get_events, B, (int64_t)0, 10)->code, MG_STORE_NOT_FOUND);
}

Test(store, idempotency_key)
{
    struct mg_store_request other = any_request;
    struct mg_store_submission s = any_submission(A);
    other.request_digest = "d2";
    s.idempotency_key = "k";
    cr_assert_not(DO(&f, submit, &s)->replayed);
    s.id = NULL;
    const struct got *got = DO(&f, submit, &s);
    cr_assert_eq(got->code, MG_STORE_OK);
    cr_assert(got->replayed);
    cr_assert_str_eq(got->job.id, A);
    s.normal = &other;
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_CONFLICT);
    s.token = "another";
    cr_assert_not(DO(&f, submit, &s)->replayed, "the scope is the token");
    DO(&f, cancel, A);
    DO(&f, delete, A);
    s = any_submission(NULL);
    s.idempotency_key = "k";
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_GONE);
    fixture_set_now(&f, f.now + 25 * 3600 * 1000LL);
    DO(&f, expire, 30.0, (int64_t)0, 10);
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_OK, "a day later the key is free");
}

Test(store, idempotency_key_while_validating)
{
    struct mg_store_submission s = any_submission(A);
    s.idempotency_key = "k";
    s.state = MG_JOB_VALIDATING;
    s.normal = NULL;
    DO(&f, submit, &s);
    s = any_submission(NULL);
    s.idempotency_key = "k";
    cr_assert_eq(DO(&f, submit, &s)->code, MG_STORE_CONFLICT);
    cr_assert_eq(f.got.job.state, MG_JOB_VALIDATING);
    DO(&f, accept, A, &any_request);
    cr_assert(DO(&f, submit, &s)->replayed);
}

Test(store, delete_takes_all_that_is_its_own)
{
    make_ended(A);
    cr_assert_eq(submit_any(&f, B)->code, MG_STORE_OK);
    cr_assert_eq(DO(&f, delete, B)->code, MG_STORE_CONFLICT);
    cr_assert_eq(DO(&f, delete, A)->code, MG_STORE_OK);
    cr_assert_eq(DO(&f, delete, A)->code, MG_STORE_NOT_FOUND);
    cr_assert_eq(DO(&f, get_work, B)->code, MG_STORE_OK, "the graph is shared");
    const struct got *got = DO0(&f, get_stats);
    cr_assert_eq(got->stats.plans, 0);
    cr_assert_eq(got->stats.graphs, 1);
    DO(&f, cancel, B);
    DO(&f, delete, B);
    got = DO0(&f, get_stats);
    cr_assert_eq(got->stats.graphs, 0);
    cr_assert_gt(got->stats.file_bytes, 0);
}

Test(store, retry_is_a_new_job)
{
    make_ended(A);
    const struct got *got = DO(&f, retry, A, "someone", "token");
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_str_neq(got->job.id, A);
    cr_assert_eq(got->job.state, MG_JOB_QUEUED);
    cr_assert_eq(got->job.attempts, 0);
    cr_assert_str_eq(got->labels, "{\"branch\":\"main\"}");
    char id[32];
    snprintf(id, sizeof id, "%s", got->job.id);
    cr_assert_eq(DO(&f, get_work, id)->blob_size, sizeof GRAPH_TEXT - 1);
    cr_assert_eq(DO(&f, retry, id, NULL, NULL)->code, MG_STORE_CONFLICT);
}

Test(store, reuse_copies_the_answer)
{
    make_ended(A);
    submit_any(&f, B);
    const struct got *got = DO(&f, find_reusable, "r1", 30.0, "[]");
    cr_assert_eq(got->code, MG_STORE_OK);
    cr_assert_str_eq(got->job.id, A);
    cr_assert_eq(DO(&f, find_reusable, "r1", 31.0, "[]")->code, MG_STORE_NOT_FOUND);
    cr_assert_eq(DO(&f, find_reusable, "r2", 1.0, "[]")->code, MG_STORE_NOT_FOUND);
    got = DO(&f, reuse, B, A);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_eq(got->job.state, MG_JOB_SUCCEEDED);
    cr_assert_str_eq(got->reused_from, A);
    cr_assert_eq(got->job.best_peak, 500);
    cr_assert_str_eq(got->events[1].data, "{\"state\":\"succeeded\",\"outcome\":\"front\",\"stopped_by\":\"seconds\"}");
    DO(&f, delete, A);
    cr_assert_eq(DO(&f, get_plan, B, "2")->code, MG_STORE_OK);
    cr_assert_eq(DO(&f, reuse, B, A)->code, MG_STORE_NOT_FOUND);
}

Test(store, patch_and_pin)
{
    submit_any(&f, A);
    const struct got *got = DO(&f, patch, A, "renamed", NULL);
    cr_assert_str_eq(got->name, "renamed");
    cr_assert_str_eq(got->labels, "{\"branch\":\"main\"}");
    cr_assert_eq(got->job.revision, 2);
    got = DO(&f, patch, A, NULL, "{\"branch\":\"dev\"}");
    cr_assert_str_eq(got->name, "renamed");
    struct mg_store_query q = {.labels = &(struct mg_store_label){"branch", "dev"}, .n_labels = 1, .limit = 10};
    cr_assert_eq(DO(&f, list_jobs, &q)->n_jobs, 1);
    q.labels = &(struct mg_store_label){"branch", "main"};
    cr_assert_eq(DO(&f, list_jobs, &q)->n_jobs, 0);
    cr_assert_eq(DO(&f, patch, A, NULL, "[")->code, MG_STORE_INVALID);
    cr_assert(DO(&f, pin, A, true)->job.pinned);
    cr_assert_not(DO(&f, pin, A, false)->job.pinned);
}

Test(store, retention_keeps_pinned_and_newest_of_each_label)
{
    static const char *const ids[] = {"aaaaaaaaaaa1", "aaaaaaaaaaa2", "aaaaaaaaaaa3", "aaaaaaaaaaa4"};
    for (size_t i = 0; i < 4; i++) {
        struct mg_store_submission s = any_submission(ids[i]);
        s.labels = i < 3 ? "{\"branch\":\"main\"}" : NULL;
        DO(&f, submit, &s);
        DO(&f, cancel, ids[i]);
    }
    DO(&f, pin, ids[0], true);
    cr_assert_eq(DO(&f, expire, 30.0, (int64_t)0, 10)->count, 0, "nothing is old");
    fixture_set_now(&f, f.now + 31 * 24 * 3600 * 1000LL);
    const struct got *got = DO(&f, expire, 30.0, (int64_t)0, 10);
    cr_assert_eq(got->count, 2);
    cr_assert_str_eq(got->ids[0], ids[1]);
    cr_assert_str_eq(got->ids[1], ids[3]);
    cr_assert_eq(DO(&f, get_job, ids[0])->code, MG_STORE_OK);
    cr_assert_eq(DO(&f, get_job, ids[2])->code, MG_STORE_OK);
}

Test(store, retention_by_size_takes_the_oldest)
{
    static char graph[300000];
    for (int i = 0; i < 6; i++) {
        char id[32], digest[16], commit[32];
        snprintf(id, sizeof id, "aaaaaaaaaaa%d", i);
        snprintf(digest, sizeof digest, "g%d", i);
        snprintf(commit, sizeof commit, "{\"commit\":\"%d\"}", i);
        struct mg_store_request r = any_request;
        struct mg_store_submission s = any_submission(id);
        r.graph = (struct mg_blob){graph, sizeof graph};
        r.graph_digest = digest;
        s.normal = &r;
        s.labels = commit;
        fixture_set_now(&f, f.now + 1);
        DO(&f, submit, &s);
        DO(&f, cancel, id);
    }
    const struct got *got = DO(&f, expire, 30.0, (int64_t)1000000, 10);
    cr_assert_geq(got->count, 3);
    cr_assert_leq(got->count, 4);
    cr_assert_str_eq(got->ids[0], "aaaaaaaaaaa0");
    cr_assert_eq(DO(&f, expire, 30.0, (int64_t)1000000, 10)->count, 0);
    got = DO0(&f, get_stats);
    cr_assert_lt(got->stats.file_bytes - got->stats.free_bytes, 1000000);
    for (int i = 0; i < 1000 && got->stats.free_bytes > 0; i++) {
        usleep(2000);
        got = DO0(&f, get_stats);
    }
    cr_assert_eq(got->stats.free_bytes, 0, "pages went back to the file system");
}

Test(store, recover_after_a_clean_stop)
{
    submit_any(&f, A);
    submit_any(&f, B);
    submit_any(&f, C);
    DO(&f, claim, B, 0);
    DO(&f, claim, C, 0);
    DO(&f, cancel, C);
    mg_store_close(f.store);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
    cr_assert_not(f.store->unclean);
    const struct got *got = DO0(&f, recover);
    cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
    cr_assert_eq(got->n_jobs, 3);
    cr_assert_eq(got->states[0], MG_JOB_QUEUED);
    cr_assert_str_eq(got->ids[1], B);
    cr_assert_eq(got->states[1], MG_JOB_QUEUED);
    cr_assert_eq(got->states[2], MG_JOB_CANCELLED);
    cr_assert_eq(DO(&f, get_job, B)->job.unclean_starts, 0);
    cr_assert_eq(DO(&f, claim, B, 0)->job.attempts, 2);
}

Test(store, list_filters)
{
    struct mg_store_request r = any_request;
    struct mg_store_submission s = any_submission(A);
    s.labels = "{\"branch\":\"main\",\"commit\":\"a\\\"b\"}";
    DO(&f, submit, &s);
    r.network = "unet";
    r.device = "a100";
    s = any_submission(B);
    s.normal = &r;
    s.owner = "bob";
    s.name = "100% odd_name";
    DO(&f, submit, &s);
    DO(&f, cancel, B);
    const struct mg_store_label both[] = {{"branch", "main"}, {"commit", "a\"b"}};
    static const struct {
        struct mg_store_query q;
        const char *only; /* NULL: both */
    } cases[] = {{{.limit = 9}, NULL},
                 {{.limit = 9, .states = 1u << MG_JOB_QUEUED}, A},
                 {{.limit = 9, .states = 1u << MG_JOB_CANCELLED | 1u << MG_JOB_FAILED}, B},
                 {{.limit = 9, .network = "unet"}, B},
                 {{.limit = 9, .device = "rtx3090"}, A},
                 {{.limit = 9, .owner = "bob"}, B},
                 {{.limit = 9, .q = "NIGHT"}, A},
                 {{.limit = 9, .q = "0% o"}, B},
                 {{.limit = 9, .q = "d_n"}, B},
                 {{.limit = 9, .q = "bbb"}, B},
                 {{.limit = 9, .q = "a\"b"}, A},
                 {{.limit = 9, .q = "main"}, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct got *got = DO(&f, list_jobs, &cases[i].q);
        cr_assert_eq(got->code, MG_STORE_OK, "%s", got->message);
        cr_assert_eq(got->n_jobs, cases[i].only ? 1 : 2, "case %zu: %zu jobs", i, got->n_jobs);
        cr_assert_str_eq(got->ids[0], cases[i].only ? cases[i].only : B);
    }
    struct mg_store_query q = {.limit = 9, .labels = both, .n_labels = 2};
    cr_assert_eq(DO(&f, list_jobs, &q)->n_jobs, 1);
    q.n_labels = 1;
    cr_assert_eq(DO(&f, list_jobs, &q)->n_jobs, 2);
    q.q = "nothing has this";
    cr_assert_eq(DO(&f, list_jobs, &q)->n_jobs, 0);
    q.limit = 0;
    cr_assert_eq(DO(&f, list_jobs, &q)->code, MG_STORE_INVALID);
}

Test(store, list_sorts)
{
    static const int64_t peaks[] = {500, 300, 900};
    static const char *const ids[] = {A, B, C};
    for (int i = 0; i < 3; i++) {
        struct mg_store_point points[] = {any_point(MG_POINT_ORIGINAL, P0, 1.0, i == 2 ? 9000 : 1000),
                                          any_point(MG_POINT_FRONT, P1, 1.1, peaks[i])};
        submit_any(&f, ids[i]);
        DO(&f, claim, ids[i], 0);
        save(ids[i], points, 2);
        fixture_set_now(&f, f.now + (i == 0 ? 5000 : 1000 * i));
        finish(ids[i], P1);
    }
    submit_any(&f, "dddddddddddd");
    static const struct {
        enum mg_job_sort sort;
        bool reverse;
        const char *order; /* first letters */
    } cases[] = {{MG_SORT_CREATED, false, "dcba"},  {MG_SORT_CREATED, true, "abcd"}, {MG_SORT_PEAK, false, "bacd"},
                 {MG_SORT_PEAK, true, "dcab"},      {MG_SORT_SAVING, false, "cbad"}, {MG_SORT_SAVING, true, "dabc"},
                 {MG_SORT_DURATION, false, "acbd"}, {MG_SORT_DURATION, true, "dbca"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int labelled = 0; labelled < 2; labelled++) {
            struct mg_store_query q = {.limit = 9, .sort = cases[i].sort, .reverse = cases[i].reverse};
            q.labels = &(struct mg_store_label){"branch", "main"};
            q.n_labels = (size_t)labelled;
            const struct got *got = DO(&f, list_jobs, &q);
            cr_assert_eq(got->n_jobs, 4);
            for (size_t k = 0; k < 4; k++) {
                cr_assert_eq(got->ids[k][0], cases[i].order[k], "sort %zu at %zu: %s", i, k, got->ids[k]);
            }
        }
    }
}

Test(store, cursor_is_bound_to_its_query)
{
    submit_any(&f, A);
    submit_any(&f, B);
    struct mg_store_query q = {.limit = 1};
    const struct got *got = DO(&f, list_jobs, &q);
    cr_assert(got->has_next);
    char cursor[64];
    snprintf(cursor, sizeof cursor, "%s", got->next);
    q.cursor = cursor;
    got = DO(&f, list_jobs, &q);
    cr_assert_eq(got->n_jobs, 1);
    cr_assert_str_eq(got->ids[0], A);
    cr_assert_not(got->has_next);
    q.owner = "ci";
    cr_assert_eq(DO(&f, list_jobs, &q)->code, MG_STORE_INVALID);
    q.owner = NULL;
    q.reverse = true;
    cr_assert_eq(DO(&f, list_jobs, &q)->code, MG_STORE_INVALID);
    q.reverse = false;
    q.cursor = "junk";
    cr_assert_eq(DO(&f, list_jobs, &q)->code, MG_STORE_INVALID);
}

Test(store, counters_count)
{
    struct mg_store_op_stats stats[64];
    submit_any(&f, A);
    DO(&f, get_job, A);
    DO(&f, get_job, A);
    size_t n = mg_store_op_counters(f.store, stats, 64);
    cr_assert_leq(n, 64);
    for (size_t i = 0; i < n; i++) {
        uint64_t want = strcmp(stats[i].name, "submit") == 0 ? 1 : strcmp(stats[i].name, "get_job") == 0 ? 2 : 0;
        cr_assert_eq(stats[i].count, want, "%s", stats[i].name);
        cr_assert(want == 0 || stats[i].seconds_sum > 0);
    }
}

static void chain_cb(void *ctx, const struct mg_store_result *result)
{
    cr_assert_eq(result->code, MG_STORE_OK);
    mg_store_get_job(f.store, A, got_cb, ctx);
}

Test(store, close_runs_every_callback)
{
    struct got *got = calloc(2, sizeof *got);
    struct mg_store_submission s = any_submission(A);
    mg_store_submit(f.store, &s, chain_cb, &got[1]);
    mg_store_patch(f.store, A, "note", NULL, got_cb, &got[0]);
    mg_store_close(f.store);
    cr_assert_eq(got[0].calls, 1);
    cr_assert_eq(got[0].code, MG_STORE_OK);
    cr_assert_eq(got[1].calls, 1);
    cr_assert_eq(got[1].code, MG_STORE_CLOSED);
    free(got);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
    cr_assert_str_eq(DO(&f, get_job, A)->name, "note");
}
