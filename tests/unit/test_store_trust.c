/* What the timing cache believes: suspects wait for agreement, and nothing that is sent again, or back-dated, gets past
 * that. */
#include "timings_util.h"

static void setup(void)
{
    fixture_init(&f);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
}

static void teardown(void)
{
    fixture_release(&f);
}

TestSuite(store_trust, .init = setup, .fini = teardown);

Test(store_trust, a_suspect_waits_for_another_agent_or_day)
{
    const struct mg_timing_row good[] = {row_of(0, "a", 1e-3), row_of(1, "bb", 1e-3), row_of(2, "ccc", 1e-3)};
    const struct mg_timing_row slow = row_of(0, "dddd", 8e-3), fast = row_of(0, "eeeee", 1e-6);
    post("one", "t", "b1", good, 3);
    cr_expect_eq(post("one", "t", "b2", &slow, 1)->suspect, 1, "more than five times what its kind takes");
    cr_expect_eq(post("one", "t", "b3", &slow, 1)->suspect, 1, "the same agent on the same day proves nothing");
    cr_expect_eq(post("one", "t", "b4", &fast, 1)->suspect, 1, "faster than the device can be");
    cr_expect_eq(post("two", "u", "b1", &slow, 1)->confirmed, 2, "another agent agrees");
    cr_expect_eq(got.suspect, 0);
    fixture_set_now(&f, f.now + 24 * 3600 * 1000);
    cr_expect_eq(post("one", "t", "b5", &fast, 1)->confirmed, 1, "or the same on another day");
}

Test(store_trust, nobody_is_somebody_else)
{
    const struct mg_timing_row slow = row_of(0, "dddd", 8e-3);
    measured_at = f.now - 24 * 3600 * 1000;
    cr_expect_eq(post("one", "t", "b1", &slow, 1)->suspect, 1);
    measured_at = f.now;
    cr_expect_eq(post("one", "t", "b2", &slow, 1)->suspect, 1, "days are those of the store, not what batches say");
    cr_expect_eq(post("two", "t", "b1", &slow, 1)->suspect, 1,
                 "one token is one party, whatever its agents are called");
    fixture_set_now(&f, f.now + 24 * 3600 * 1000);
    cr_expect_eq(post("one", "t", "b3", &slow, 1)->confirmed, 3, "which agrees with itself on another day");
    measured_at = 0;
    const struct mg_timing_row odd = row_of(0, "eeeee", 8e-3);
    post("three", "", "b1", &odd, 1);
    cr_expect_eq(post("four", "", "b1", &odd, 1)->confirmed, 1, "where there are no tokens an agent is its name");
}

Test(store_trust, who_measures_badly_does_not_agree_with_everything)
{
    struct mg_timing_row slow = row_of(0, "dddd", 8e-3), vague = row_of(0, "dddd", 8.0);
    post("one", "t", "b1", &slow, 1);
    vague.mad_s = vague.median_s;
    cr_expect_eq(post("two", "u", "b1", &vague, 1)->suspect, 1, "a thousand times as long");
    vague.median_s = 12e-3;
    cr_expect_eq(post("two", "u", "b2", &vague, 1)->suspect, 1, "half as long again");
    vague.median_s = 9e-3;
    cr_expect_eq(post("two", "u", "b3", &vague, 1)->confirmed, 1, "not further than three tenths");
    vague = row_of(0, "a", 1e-3);
    post("one", "t", "b2", &vague, 1);
    vague.median_s = vague.mad_s = 2e-3;
    post("two", "u", "b4", &vague, 1);
    list();
    cr_expect(got.n_rows == 6 && got.drifts[5], "nor is its drift hidden");
}

/* Rows of `factor` times what the model says, of operators that nobody has measured yet. */
static const struct timings_got *post_factor(const char *agent, const char *name, double factor)
{
    struct mg_timing_row rows[4];
    char texts[4][64];
    for (uint32_t i = 0; i < 4; i++) {
        snprintf(texts[i], sizeof texts[i], "%s%u", name, i);
        rows[i] = row_of(i, texts[i], 1e-3 * factor);
        rows[i].key = mg_hash_bytes(texts[i], strlen(texts[i]), 0);
        rows[i].floor_s = 0;
    }
    return post(agent, agent, name, rows, 4);
}

Test(store_trust, first_rows_do_not_vouch_for_themselves)
{
    cr_expect_eq(post_factor("one", "fast", 1e-3)->suspect, 4, "a thousand times too fast, and all alike");
    cr_expect_eq(got.generation, 0, "nothing has a price by them");
    cr_expect_eq(post_factor("one", "slow", 10)->suspect, 4, "too slow");
    cr_expect_eq(post_factor("two", "fast", 1e-3)->confirmed, 4, "another agent agrees");
    cr_expect_eq(post_factor("one", "faster", 0.5e-3)->suspect, 0, "from now on that is what this kind takes");
}

Test(store_trust, nobody_leads_the_ratios_away)
{
    cr_expect_eq(post_factor("one", "a", 1 / 4.9)->suspect, 0);
    cr_expect_eq(post_factor("one", "b", 1 / 24.0)->suspect, 0, "within the band of what was accepted");
    cr_expect_eq(post_factor("one", "c", 1 / 110.0)->suspect, 4, "but not of what that led to");
}

Test(store_trust, another_class_of_the_model_knows_the_kind)
{
    post_factor("one", "a", 20);
    cr_expect_eq(post_factor("two", "a", 20)->confirmed, 4);
    class_id = "00000000000000bb"; /* another driver, say */
    cr_expect_eq(post_factor("three", "b", 25)->suspect, 0);
    cr_expect_eq(post_factor("four", "c", 1.0 / 20)->suspect, 4);
}

Test(store_trust, what_nothing_judges_waits_until_a_profile_is_there)
{
    struct mg_timing_row rows[] = {row_of(0, "a", 1e-3), row_of(1, "bb", 1e-6), row_of(2, "ccc", 1e-3)};
    for (int i = 0; i < 3; i++)
        rows[i].model_s = rows[i].floor_s = 0;
    cr_expect_eq(post("one", "t", "b1", rows, 3)->suspect, 3);
    cr_expect_eq(got.unjudged, 3);
    cr_expect_eq(post("one", "t", "b1", rows, 3)->unjudged, 3, "sent again nothing has changed");
    for (int i = 0; i < 3; i++)
        rows[i].model_s = 1e-3;
    rows[2].median_s = 1.5e-3;
    cr_expect_eq(post("one", "t", "b1", rows, 3)->confirmed, 1, "the profile has come");
    cr_expect(got.known == 3 && got.unjudged == 0);
    list();
    cr_expect(!got.suspects[0], "plausible");
    cr_expect(got.suspects[1], "a thousand times too fast");
    cr_expect(got.suspects[2], "another time is another row's");
    cr_expect_eq(post("one", "t", "b1", rows, 2)->confirmed, 0, "judged once");
}

Test(store_trust, drift_is_marked)
{
    const struct mg_timing_row before = row_of(0, "a", 1e-3), after = row_of(0, "a", 2e-3);
    post("one", "t", "b1", &before, 1);
    post("one", "t", "b2", &after, 1);
    list();
    cr_expect(got.n_rows == 2 && !got.drifts[0] && got.drifts[1]);
}

/* Sends the row as batch `name`, which nothing can judge, then what `again` makes of it: whether it is believed. */
static bool believed_again(const char *name, struct mg_timing_row row, const struct mg_timing_row *again)
{
    row.model_s = row.floor_s = 0;
    cr_assert_eq(post("one", "t", name, &row, 1)->unjudged, 1);
    busy = false;
    cr_assert_eq(post("one", "t", name, again, 1)->known, 1);
    return got.confirmed > 0;
}

Test(store_trust, what_is_sent_again_is_what_was_sent)
{
    const struct mg_timing_row row = row_of(0, "a", 1e-3), other = row_of(0, "bb", 1e-3);
    struct mg_timing_row throttled = row;
    throttled.throttled = true;
    cr_expect(believed_again("b1", row, &row));
    cr_expect(!believed_again("b2", row, &other), "what is plausible for another operator says nothing of this one");
    cr_expect(!believed_again("b3", throttled, &row), "throttled it was");
    busy = true;
    cr_expect(!believed_again("b4", row, &row), "and somebody else used the device");
    struct mg_timing_row unjudged = row;
    unjudged.model_s = 0;
    cr_expect_eq(post("one", "t", "b5", &unjudged, 1)->unjudged, 1);
    class_id = "00000000000000bb";
    cr_expect_eq(post("one", "t", "b5", &row, 1)->confirmed, 0, "on another device");
    list();
    cr_expect(got.n_rows == 5 && !got.suspects[0] && got.suspects[1] && got.suspects[2] && got.suspects[3] &&
              got.suspects[4]);
}

Test(store_trust, a_batch_is_as_old_as_its_youngest_row)
{
    const struct mg_timing_row rows[] = {row_of(0, "a", 1e-3), row_of(1, "dddd", 8e-3)};
    post("one", "t", "b1", rows, 1);
    fixture_set_now(&f, f.now + 24 * 3600 * 1000);
    cr_expect_eq(post("one", "t", "b1", rows, 2)->suspect, 1);
    cr_expect_eq(post("one", "t", "b2", &rows[1], 1)->suspect, 1, "no other day");
    fixture_set_now(&f, f.now + 24 * 3600 * 1000);
    cr_expect_eq(post("one", "t", "b3", &rows[1], 1)->confirmed, 2);
}

Test(store_trust, nobody_dates_rows_back_before_a_revocation)
{
    const struct mg_timing_row rows[] = {row_of(0, "a", 1e-3), row_of(1, "bb", 1e-3)};
    int64_t begin = f.now;
    measured_at = 1;
    post("one", "t", "b1", rows, 1);
    post("two", "u", "b1", rows, 1);
    fixture_set_now(&f, begin + 1000);
    post("two", "u", "b1", rows, 2);
    cr_expect_eq(ASK(revoke_timings, "token", "t", begin + 1)->added, 0, "it came before");
    cr_expect_eq(ASK(revoke_timings, "host", "host", begin + 1)->added, 2, "a batch of which a part came later");
    cr_expect_eq(ASK(revoke_timings, "agent", "one", begin)->added, 1);
}
