/* Plans measured as wholes in the store: wishes, leases, answers, and who may give them. */
#include <criterion/criterion.h>

#include "store/measured.h"
#include "store/timings.h"
#include "store_util.h"

#define A "aaaaaaaaaaaa"
#define P0 "0000000000000000"
#define P1 "1111111111111111"
#define P2 "2222222222222222"

static struct fixture f;
static struct measured_got {
    enum mg_store_code code;
    struct mg_measured one;
    char models[64], agent[32], model[32], reason[64];
    size_t n;
    int64_t revision;
} got;

static void on_measured(void *ctx, const struct mg_store_result *result)
{
    struct measured_got *g = ctx;
    *g = (struct measured_got){.code = result->code, .n = result->n_measured};
    g->revision = result->job ? result->job->revision : 0;
    if (!result->n_measured) {
        return;
    }
    g->one = result->measured[result->n_measured - 1];
    got_text(g->models, sizeof g->models, g->one.models);
    got_text(g->agent, sizeof g->agent, g->one.agent);
    got_text(g->model, sizeof g->model, g->one.model);
    got_text(g->reason, sizeof g->reason, g->one.reason);
}

static const struct measured_got *asked(void)
{
    fixture_wait(&f);
    return &got;
}

#define ASK(op, ...) (mg_store_##op(f.store, __VA_ARGS__, on_measured, &got), asked())

static const char *state = "idle", *uuid = ""; /* of the agents that are put */

static void put_agent_of(const char *name, const char *token, const char *model, const char *class_id, const char *key)
{
    const struct mg_timing_agent agent = {.name = name,
                                          .host = "host",
                                          .version = "1",
                                          .uuid = uuid,
                                          .state = state,
                                          .token = token,
                                          .class = {class_id, model, key}};
    DO(&f, put_agent, &agent);
}

static void put_agent(const char *name, const char *token, const char *model, const char *class_id)
{
    put_agent_of(name, token, model, class_id, "{\"device\":\"x\"}");
    cr_assert_eq(f.got.code, MG_STORE_OK);
}

static void setup(void)
{
    fixture_init(&f);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
    struct mg_store_request request = any_request;
    struct mg_store_submission s = any_submission(A);
    request.timings_models = "[\"card\"]";
    s.normal = &request;
    DO(&f, submit, &s);
    DO(&f, claim, A, 0);
    const struct mg_store_point points[] = {any_point(MG_POINT_ORIGINAL, P0, 1.0, 1000),
                                            any_point(MG_POINT_FRONT, P1, 1.1, 800),
                                            any_point(MG_POINT_FRONT, P2, 1.2, 700)};
    const struct mg_store_points all = {.points = points, .n_points = 3};
    cr_assert_eq(DO(&f, save_points, A, &all)->code, MG_STORE_OK, "%s", f.got.message);
    put_agent("one", "t1", "card", "00000000000000aa");
    put_agent("two", "t2", "card", "00000000000000bb");
    put_agent("other", "t1", "abacus", "00000000000000cc");
}

static void teardown(void)
{
    fixture_release(&f);
}

TestSuite(store_measured, .init = setup, .fini = teardown);

static struct mg_measured answer_to(int64_t number, double latency_s)
{
    return (struct mg_measured){.number = number,
                                .state = MG_MEASURED_DONE,
                                .host = "h",
                                .runs = 9,
                                .latency_s = latency_s,
                                .mad_s = 0.25,
                                .operators_s = 0.5,
                                .peak = 7,
                                .arena = 8,
                                .host_bytes = 9,
                                .busy = true};
}

Test(store_measured, a_wish_is_leased_answered_and_listed)
{
    int64_t number = ASK(want_measured, A, P1, NULL, "me")->one.number;
    cr_expect_eq(got.one.state, MG_MEASURED_WANTED);
    cr_expect_str_eq(got.models, "[\"card\"]", "the devices of the job");
    int64_t revision = got.revision;
    cr_expect_eq(ASK(want_measured, A, P1, NULL, "you")->one.number, number, "an equal wish is the same one");
    cr_expect_eq(ASK(claim_measured, "other", "t1", false)->n, 0, "not on this device");
    cr_assert_eq(ASK(claim_measured, "one", "t1", false)->one.number, number);
    cr_expect_str_eq(got.one.job, A);
    cr_expect_str_eq(got.one.plan, P1);
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->n, 0, "leased to one at a time");
    struct mg_measured answer = answer_to(number, 2.5), other = answer_to(number, 3.5);
    cr_expect_eq(ASK(add_measured, "two", "t2", false, &answer)->code, MG_STORE_CONFLICT);
    cr_assert_eq(ASK(add_measured, "one", "t1", false, &answer)->code, MG_STORE_OK);
    cr_expect_gt(got.revision, revision, "the job has changed");
    revision = got.revision;
    cr_expect_eq(ASK(add_measured, "one", "t1", false, &other)->one.latency_s, 2.5, "the first answer stands");
    cr_expect_eq(got.revision, revision, "and the job as it is");
    cr_assert_eq(ASK(list_measured, A, P1)->n, 1);
    cr_expect(got.one.state == MG_MEASURED_DONE && got.one.runs == 9 && got.one.mad_s == 0.25 && got.one.busy);
    cr_expect(got.one.operators_s == 0.5 && got.one.peak == 7 && got.one.arena == 8 && got.one.host_bytes == 9);
    cr_expect(got.one.at == f.now && strcmp(got.agent, "one") == 0 && strcmp(got.model, "card") == 0);
    cr_expect_eq(ASK(get_front, A)->n, 1);
    cr_expect_eq(ASK(list_measured, A, NULL)->n, 1);
    cr_expect_eq(ASK(list_measured, A, P2)->n, 0);
    cr_expect_neq(ASK(want_measured, A, P1, NULL, "me")->one.number, number, "an answered wish may be had again");
}

Test(store_measured, a_class_or_any_device_may_be_named)
{
    int64_t first = ASK(want_measured, A, P1, "[\"class:00000000000000bb\"]", "me")->one.number;
    int64_t second = ASK(want_measured, A, "original", "[]", "me")->one.number;
    cr_expect_eq(ASK(claim_measured, "other", "t1", false)->one.number, second);
    cr_expect_eq(ASK(claim_measured, "one", "t1", false)->n, 0);
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->one.number, first);
    cr_expect_eq(ASK(want_measured, A, P1, "[\"class:00000000000000ee\"]", "me")->code, MG_STORE_INVALID,
                 "a class that nobody ever was of");
}

Test(store_measured, a_model_takes_no_wish_for_any_device)
{
    put_agent_of("paper", "t1", "model:card", "00000000000000dd", "{\"backend\":\"model\",\"device\":\"model:card\"}");
    int64_t any = ASK(want_measured, A, P1, "[]", "me")->one.number;
    cr_expect_eq(ASK(claim_measured, "paper", "t1", false)->n, 0);
    int64_t named = ASK(want_measured, A, P1, "[\"model:card\"]", "me")->one.number;
    cr_expect_eq(ASK(claim_measured, "paper", "t1", false)->one.number, named);
    cr_expect_eq(ASK(claim_measured, "one", "t1", false)->one.number, any);
}

Test(store_measured, an_agent_that_lives_keeps_its_lease)
{
    int64_t number = ASK(want_measured, A, P1, NULL, "me")->one.number;
    cr_assert_eq(ASK(claim_measured, "one", "t1", false)->one.number, number);
    state = "measuring";
    for (int i = 0; i < 3; i++) {
        fixture_set_now(&f, f.now + MG_MEASURED_LEASE_MS - 1);
        put_agent("one", "t1", "card", "00000000000000aa");
        cr_expect_eq(ASK(claim_measured, "two", "t2", false)->n, 0, "renewed");
    }
    fixture_set_now(&f, f.now + MG_MEASURED_LEASE_MS);
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->one.number, number);
    put_agent("one", "t1", "card", "00000000000000aa");
    fixture_set_now(&f, f.now + MG_MEASURED_LEASE_MS);
    cr_expect_eq(ASK(claim_measured, "one", "t1", false)->one.number, number, "nobody renews the lease of another");
}

/* It has lost what it had: another process, or another device. */
Test(store_measured, who_is_not_at_it_keeps_no_lease)
{
    int64_t number = ASK(want_measured, A, P1, NULL, "me")->one.number;
    cr_assert_eq(ASK(claim_measured, "one", "t1", false)->one.number, number);
    fixture_set_now(&f, f.now + MG_MEASURED_LEASE_MS - 1);
    put_agent("one", "t1", "card", "00000000000000aa");
    state = "measuring";
    put_agent("one", "t1", "abacus", "00000000000000cc");
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->n, 0, "not yet");
    fixture_set_now(&f, f.now + 1);
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->one.number, number);
}

static enum mg_store_code put_on(const char *device)
{
    uuid = device;
    put_agent_of("one", "t1", "card", "00000000000000aa", "{}");
    return f.got.code;
}

/* Else each would get what the other has leased. */
Test(store_measured, one_name_is_of_one_device_at_a_time)
{
    cr_expect_eq(put_on("GPU-1"), MG_STORE_OK, "of those that were put nobody knows the device");
    cr_expect_eq(put_on("GPU-1"), MG_STORE_OK, "it is started again");
    fixture_set_now(&f, f.now + MG_TIMING_LEASE_MS - 1);
    cr_expect_eq(put_on("GPU-2"), MG_STORE_CONFLICT);
    cr_expect(strstr(f.got.message, "--name"), "%s", f.got.message);
    cr_expect_eq(put_on(""), MG_STORE_OK, "who does not say");
    cr_expect_eq(put_on("GPU-1"), MG_STORE_OK);
    fixture_set_now(&f, f.now + MG_TIMING_LEASE_MS);
    cr_expect_eq(put_on("GPU-2"), MG_STORE_OK, "the other one is silent");
    state = MG_TIMING_ENDED;
    cr_expect_eq(put_on("GPU-2"), MG_STORE_OK);
    state = "idle";
    cr_expect_eq(put_on("GPU-1"), MG_STORE_OK, "or it has ended");
}

Test(store_measured, a_wish_given_back_is_anybodys)
{
    int64_t number = ASK(want_measured, A, P1, NULL, "me")->one.number;
    struct mg_measured back = {.number = number, .state = MG_MEASURED_WANTED};
    for (int i = 0; i < 2 * MG_MEASURED_ATTEMPTS; i++) {
        cr_assert_eq(ASK(claim_measured, "one", "t1", false)->one.number, number, "it is no attempt that failed");
        cr_expect_eq(ASK(add_measured, "two", "t2", false, &back)->code, MG_STORE_CONFLICT, "not by another");
        cr_assert_eq(ASK(add_measured, "one", "t1", false, &back)->one.state, MG_MEASURED_WANTED);
        cr_expect_str_eq(got.agent, "");
    }
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->one.number, number);
    struct mg_measured answer = answer_to(number, 2);
    cr_assert_eq(ASK(add_measured, "two", "t2", false, &answer)->one.state, MG_MEASURED_DONE);
    cr_expect_eq(ASK(add_measured, "two", "t2", false, &back)->one.state, MG_MEASURED_DONE, "what is answered stays");
}

Test(store_measured, a_dead_agents_wish_goes_on)
{
    int64_t number = ASK(want_measured, A, P1, NULL, "me")->one.number;
    int64_t later = ASK(want_measured, A, P2, NULL, "me")->one.number;
    ASK(claim_measured, "one", "t1", false);
    cr_expect_eq(ASK(claim_measured, "one", "t1", false)->one.number, number, "its own one first: it was lost");
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->one.number, later);
    fixture_set_now(&f, f.now + MG_MEASURED_LEASE_MS);
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->one.number, later);
    struct mg_measured answer = answer_to(later, 1), late = answer_to(number, 1);
    ASK(add_measured, "two", "t2", false, &answer);
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->one.number, number, "the lease has ended");
    cr_expect_eq(ASK(add_measured, "one", "t1", false, &late)->code, MG_STORE_CONFLICT, "too late");
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(ASK(claim_measured, "two", "t2", false)->one.number, number);
    }
    int64_t revision = got.revision;
    cr_expect_eq(ASK(claim_measured, "two", "t2", false)->n, 0);
    cr_expect_eq(ASK(list_measured, A, P1)->one.state, MG_MEASURED_FAILED, "it ends its agents");
    cr_expect_eq(got.revision, revision + 1, "the job has changed");
    cr_expect_neq(got.reason[0], 0);
}

Test(store_measured, who_is_refused)
{
    int64_t number = ASK(want_measured, A, P1, NULL, "me")->one.number;
    cr_expect_eq(ASK(want_measured, A, "99", NULL, "me")->code, MG_STORE_NOT_FOUND);
    cr_expect_eq(ASK(want_measured, "bbbbbbbbbbbb", P1, NULL, "me")->code, MG_STORE_NOT_FOUND);
    cr_expect_eq(ASK(claim_measured, "nobody", "t1", true)->code, MG_STORE_NOT_FOUND);
    cr_expect_eq(ASK(claim_measured, "one", "t2", false)->code, MG_STORE_CONFLICT, "of another token");
    cr_expect_eq(ASK(claim_measured, "one", "t2", true)->code, MG_STORE_OK, "an administrator may");
    struct mg_measured answer = answer_to(number + 100, 1);
    cr_expect_eq(ASK(add_measured, "one", "t1", false, &answer)->code, MG_STORE_NOT_FOUND);
    struct mg_store_replacement gone = {P2, P1};
    const struct mg_store_points replaced = {.replaced = &gone, .n_replaced = 1};
    cr_assert_eq(DO(&f, save_points, A, &replaced)->code, MG_STORE_OK);
    cr_expect_eq(ASK(want_measured, A, P2, NULL, "me")->code, MG_STORE_GONE);
    char models[32];
    for (int i = 1; i < MG_MEASURED_OPEN; i++) {
        snprintf(models, sizeof models, "[\"%d\"]", i);
        cr_assert_eq(ASK(want_measured, A, P1, models, "me")->code, MG_STORE_OK);
    }
    cr_expect_eq(ASK(want_measured, A, P1, "[]", "me")->code, MG_STORE_CONFLICT, "too many wait");
}

/* Every step from the n-th on fails, for every n: then nothing has happened, and the same call succeeds afterwards. */
static int fault_at, fault_count;

static enum mg_store_code fail_nth(void *ctx, const char *what)
{
    (void)ctx;
    (void)what;
    return ++fault_count >= fault_at ? MG_STORE_IO : MG_STORE_OK;
}

Test(store_measured, happens_whole_or_not_at_all)
{
    int64_t number = ASK(want_measured, A, P1, NULL, "me")->one.number;
    ASK(claim_measured, "one", "t1", false);
    mg_store_close(f.store);
    f.fault = fail_nth;
    cr_assert_eq(fixture_open(&f), MG_STORE_OK);
    struct mg_measured answer = answer_to(number, 2);
    for (fault_at = 1;; fault_at++) {
        fault_count = 0;
        enum mg_store_code code = ASK(add_measured, "one", "t1", false, &answer)->code;
        bool failed = code != MG_STORE_OK;
        fault_count = -1000000;
        ASK(list_measured, A, P1);
        cr_assert_eq(got.one.state, failed ? MG_MEASURED_MEASURING : MG_MEASURED_DONE, "step %d", fault_at);
        if (!failed) {
            break;
        }
    }
    cr_assert_gt(fault_at, 4);
}
