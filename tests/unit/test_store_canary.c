/* What an agent is told of how fast its card can be. */
#include "timings_util.h"

static const char CARD[] = "GPU-1";
static const int64_t DAY_MS = 24LL * 3600 * 1000;

static void setup(void)
{
    fixture_init(&f);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
}

static void teardown(void)
{
    fixture_release(&f);
}

TestSuite(store_canary, .init = setup, .fini = teardown);

static void on_known(void *ctx, const struct mg_store_result *result)
{
    *(double *)ctx = result->timings ? result->timings->canary_s : -1;
}

/* What the agent is told, which itself says `own`. */
static double told(const char *name, const char *token, const char *uuid, double own)
{
    double seconds = -1;
    const struct mg_timing_agent agent = {.name = name,
                                          .host = "host",
                                          .version = "1",
                                          .uuid = uuid,
                                          .state = "idle",
                                          .token = token,
                                          .class = {class_id, "card", "{\"device\":\"card\"}"},
                                          .canary_s = own};
    mg_store_put_agent(f.store, &agent, on_known, &seconds);
    fixture_wait(&f);
    return seconds;
}

static void post_canaries(const char *name, double before_s, double after_s, double best_s)
{
    static int count;
    char batch[16];
    const struct mg_timing_row row = row_of(0, "a", 1e-3);
    snprintf(batch, sizeof batch, "c%d", count++);
    const struct mg_timing_batch b = {.agent = name,
                                      .host = "host",
                                      .version = "1",
                                      .batch = batch,
                                      .token = "t",
                                      .class = {class_id, "card", "{\"device\":\"card\"}"},
                                      .canary_before_s = before_s,
                                      .canary_after_s = after_s,
                                      .canary_best_s = best_s,
                                      .busy = busy,
                                      .rows = &row,
                                      .n_rows = 1};
    cr_assert_eq(ASK(add_timings, &b, 1)->added, 1);
}

Test(store_canary, what_the_card_did_is_known)
{
    cr_expect_eq(told("one", "t", CARD, 0), 0, "nothing yet");
    post_canaries("one", 1.03e-5, 1.02e-5, 1e-5);
    cr_expect_eq(told("two", "t", CARD, 0), 1.02e-5, "another agent on the same card");
    post_canaries("two", 1.01e-5, 1.04e-5, 1e-5);
    cr_expect_eq(told("one", "t", CARD, 0), 1.01e-5, "the least");
    cr_expect_eq(told("one", "t", CARD, 2e-5), 2e-5, "its own comes first");
    cr_expect_eq(told("three", "t", "GPU-2", 0), 0, "of another card");
    cr_expect_eq(told("four", "t", "", 0), 0, "of none");
    cr_expect_eq(told("five", "u", CARD, 0), 0, "of another token's batches");
    class_id = "00000000000000bb";
    cr_expect_eq(told("six", "t", CARD, 0), 0, "of another class: its driver is another one");
}

Test(store_canary, what_was_disturbed_does_not_count)
{
    told("one", "t", CARD, 0);
    post_canaries("one", 1e-6, 2e-6, 1e-6);
    post_canaries("one", 0, 0, 1e-6);
    busy = true;
    post_canaries("one", 1e-6, 1e-6, 1e-6);
    cr_expect_eq(told("two", "t", CARD, 0), 0);
}

Test(store_canary, luck_and_what_is_long_ago_do_not_count)
{
    told("one", "t", CARD, 0);
    post_canaries("one", 1e-6, 1e-6, 1e-6);
    for (int i = 0; i < 20; i++)
        post_canaries("one", (1000 + i) * 1e-8, 1.02e-5, 1e-5);
    cr_expect_float_eq(told("two", "t", CARD, 0), 1.001e-5, 1e-12, "the lower tenth of 21: %g",
                       told("two", "t", CARD, 0));
    fixture_set_now(&f, f.now + MG_TIMING_CANARY_DAYS * DAY_MS - 1);
    cr_expect_gt(told("two", "t", CARD, 0), 0, "within thirty days");
    fixture_set_now(&f, f.now + 1);
    cr_expect_eq(told("two", "t", CARD, 0), 0, "after thirty days");
}
