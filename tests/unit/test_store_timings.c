/* The timing cache in the store: nothing is added twice, leases end, what is revoked is gone from later generations and
 * stays in earlier ones. */
#include <stdatomic.h>
#include <time.h>

#include "device/timings.h"
#include "timings_util.h"

static atomic_bool held;

/* The next step of the store's threads waits until it is no longer held. */
static enum mg_store_code hold(void *ctx, const char *what)
{
    (void)ctx;
    (void)what;
    while (atomic_load(&held)) {
        usleep(1000);
    }
    return MG_STORE_OK;
}

static void setup(void)
{
    fixture_init(&f);
    f.fault = hold;
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
}

static void teardown(void)
{
    fixture_release(&f);
}

TestSuite(store_timings, .init = setup, .fini = teardown);

Test(store_timings, a_retry_adds_nothing)
{
    const struct mg_timing_row rows[] = {row_of(0, "a", 1e-3), row_of(1, "bb", 1.1e-3), row_of(2, "ccc", 0.9e-3)};
    cr_expect_eq(post("one", "t", "b1", rows, 3)->added, 3);
    int64_t generation = got.generation;
    cr_expect_eq(post("one", "t", "b1", rows, 3)->known, 3);
    cr_expect(got.added == 0 && got.generation == generation);
    cr_expect_eq(post("one", "t", "b2", rows, 2)->added, 2, "another batch is another measurement");
    cr_expect_eq(got.generation, generation + 1);
    cr_expect_eq(post("one", "other", "b3", rows, 1)->code, MG_STORE_CONFLICT, "an agent belongs to its token");
    cr_expect_eq(list()->n_rows, 5);
}

Test(store_timings, wants_are_leased_to_one_and_leases_end)
{
    const struct mg_timing_want wants[] = {{"add", "cheap", {1, 1}, 1, 1e-3, true},
                                           {"add", "dear", {2, 2}, 5, 1e-3, true}};
    const struct mg_timing_row done[] = {row_of(0, "x", 1e-3)};
    post("one", "t", "b1", done, 1);
    post("two", "u", "b1", done, 1);
    ASK(add_wants, "graph", "[\"card\"]", wants, 2);
    cr_expect_eq(ASK(claim_timings, "one", "t", false, 1, 0)->n_wants, 1);
    cr_expect_str_eq(got.first, "dear", "the most valuable first");
    cr_expect_eq(ASK(claim_timings, "two", "u", false, 10, 0)->n_wants, 1);
    cr_expect_str_eq(got.first, "cheap", "what one has the other does not get");
    cr_expect_eq(ASK(claim_timings, "two", "u", false, 10, 0)->n_wants, 1);
    cr_expect_str_eq(got.first, "cheap", "what an agent has thrown away it may have again");
    fixture_set_now(&f, f.now + MG_TIMING_LEASE_MS + 1);
    cr_expect_eq(ASK(claim_timings, "two", "u", false, 10, 0)->n_wants, 2, "a lease ends");
    cr_expect_eq(ASK(claim_timings, "two", "t", false, 10, 0)->code, MG_STORE_CONFLICT);
    cr_expect_eq(ASK(claim_timings, "three", "t", true, 10, 0)->code, MG_STORE_NOT_FOUND);
}

enum { HOUR_MS = 3600 * 1000 };

static void expect_wanted(size_t count, const char *first, const char *when)
{
    cr_expect_eq(ASK(list_missing, CLASS, NULL, 10)->n_wants, count, "%s: of the class %zu", when, got.n_wants);
    cr_expect_eq(ASK(list_missing, NULL, "card", 10)->n_wants, count, "%s: of the model %zu", when, got.n_wants);
    ASK(pick_class, "graph", "[\"card\"]");
    cr_expect_eq(got.settled, 2 - (int64_t)count, "%s: settled %lld", when, (long long)got.settled);
    cr_expect_eq(ASK(claim_timings, "one", "t", false, 10, 0)->n_wants, count, "%s: claimed %zu", when, got.n_wants);
    cr_expect_str_eq(got.first, first, "%s", when);
}

Test(store_timings, failures_are_asked_again)
{
    const struct mg_timing_want wants[] = {{"add", "a", row_of(0, "a", 1).key, 2, 1e-3, true},
                                           {"add", "bb", row_of(0, "bb", 1).key, 1, 1e-3, true}};
    struct mg_timing_row rows[] = {row_of(0, "a", 0), row_of(1, "bb", 0)};
    rows[0].status = MG_TIMING_UNSUPPORTED;
    rows[1].status = MG_TIMING_NOMEM;
    ASK(add_wants, "graph", "[\"card\"]", wants, 2);
    cr_expect_eq(post("one", "t", "b1", rows, 2)->added, 2);
    int64_t begin = f.now;
    expect_wanted(0, "", "at once");
    fixture_set_now(&f, begin + HOUR_MS - 1);
    expect_wanted(0, "", "within the hour");
    fixture_set_now(&f, begin + HOUR_MS);
    expect_wanted(1, "bb", "memory may be free after an hour");
    fixture_set_now(&f, begin + MG_TIMING_FAILURE_DAYS * 24LL * HOUR_MS - 1);
    expect_wanted(1, "bb", "within thirty days");
    fixture_set_now(&f, begin + MG_TIMING_FAILURE_DAYS * 24LL * HOUR_MS);
    expect_wanted(2, "a", "kernels may have been written after thirty days");
}

Test(store_timings, failures_make_no_generation)
{
    const struct mg_store_submission job = any_submission("aaaaaaaaaaaa");
    const struct mg_timing_row good = row_of(0, "a", 1e-3);
    struct mg_timing_row bad[] = {row_of(0, "bb", 0), row_of(1, "ccc", 0)};
    bad[0].status = MG_TIMING_UNSUPPORTED;
    bad[1].status = MG_TIMING_NOMEM;
    cr_expect_eq(post("two", "t", "b1", bad, 2)->generation, 0);
    int64_t generation = post("one", "t", "b1", &good, 1)->generation;
    cr_expect_eq(post("two", "t", "b2", bad, 2)->generation, generation, "nothing has another price");
    list();
    cr_expect(got.n_rows == 5 && !got.suspects[0] && !got.suspects[1] && !got.suspects[3] && !got.suspects[4]);
    DO(&f, submit, &job);
    cr_expect_eq(DO(&f, set_timings, job.id, CLASS, generation)->code, MG_STORE_OK);
    cr_expect_eq(ASK(revoke_timings, "agent", "two", 0)->added, 4);
    cr_expect_eq(got.n_jobs, 0, "nor has anybody used them");
    cr_expect(ASK(revoke_timings, "agent", "one", 0)->n_jobs == 1 && got.added == 1);
}

/* Nobody wants them any more: a hundred days see each measured again once. */
Test(store_timings, a_hundredth_is_measured_again_each_day)
{
    enum { ROWS = 150, DAYS = 100 };
    struct mg_timing_row rows[ROWS];
    char names[ROWS][16];
    size_t again = 0;
    for (int i = 0; i < ROWS; i++) {
        snprintf(names[i], sizeof names[i], "again%d", i);
        rows[i] = row_of((uint32_t)i, names[i], 1e-3);
        rows[i].key = (struct mg_hash128){(uint64_t)i + 1, 8};
    }
    cr_expect_eq(post("one", "t", "b1", rows, ROWS)->added, ROWS);
    cr_expect_eq(ASK(claim_timings, "one", "t", false, 64, 0)->n_wants, 0, "measured today");
    for (int day = 0; day < DAYS; day++) {
        fixture_set_now(&f, f.now + 24 * HOUR_MS + 1);
        again += ASK(claim_timings, "one", "t", false, 64, 0)->n_wants;
        cr_expect_leq(got.n_wants, 2u);
        cr_expect_eq(ASK(claim_timings, "two", "u", false, 64, 0)->n_wants, 0, "what one has the other does not get");
    }
    cr_expect_eq(again, ROWS);
}

/* ---- thousands of wants ---- */

enum { MANY = 950 };

static unsigned ended;

static void on_end(void *ctx, const struct mg_store_result *result)
{
    cr_assert_eq(result->code, MG_STORE_OK, "%s", result->message);
    *(unsigned *)ctx = ++ended;
}

Test(store_timings, promises_pass_thousands_of_wants)
{
    const struct mg_timing_row done[] = {row_of(0, "x", 1e-3)};
    struct mg_timing_want *wants = calloc(MANY, sizeof *wants);
    const struct mg_store_submission job = any_submission("aaaaaaaaaaaa");
    unsigned wants_ended, job_ended;
    post("one", "t", "b1", done, 1);
    for (unsigned i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "want%u", i);
        wants[i] = (struct mg_timing_want){"add", strdup(name), {i + 1, 9}, i, 1e-3, i % 2 == 0};
    }
    atomic_store(&held, true); /* until everything is queued */
    mg_store_add_wants(f.store, "graph", "[\"card\"]", wants, MANY, on_end, &wants_ended);
    mg_store_submit(f.store, &job, on_end, &job_ended);
    atomic_store(&held, false);
    fixture_wait(&f);
    cr_expect(job_ended == 1 && wants_ended == 2, "%u %u", job_ended, wants_ended);
    cr_expect_eq(ASK(list_missing, CLASS, NULL, MANY + 1)->n_wants, MANY);
    cr_expect_eq(ASK(pick_class, "graph", "[\"card\"]")->total, (MANY + 1) / 2, "all that are whole");
    for (unsigned i = 0; i < MANY; i++) {
        free((void *)(uintptr_t)wants[i].signature);
    }
    free(wants);
}

Test(store_timings, a_graph_is_wanted_for_each_list_of_models)
{
    const struct mg_timing_want wants[] = {{"add", "a", {1, 1}, 1, 1e-3, true},
                                           {"add", "part", {2, 2}, 1, 1e-3, false}};
    const struct mg_timing_row row = row_of(0, "x", 1e-3);
    post("one", "t", "b1", &row, 1);
    cr_expect(!ASK(pick_class, "graph", "[\"card\"]")->known_graph);
    ASK(add_wants, "graph", "[\"other\"]", wants, 2);
    cr_expect(ASK(pick_class, "graph", "[\"other\"]")->known_graph);
    cr_expect(!ASK(pick_class, "graph", "[\"card\"]")->known_graph, "nobody measures it there");
    cr_expect_eq(got.total, 1, "but its operators are the same");
    cr_expect_eq(ASK(list_missing, CLASS, NULL, 10)->n_wants, 0);
    ASK(add_wants, "graph", "[\"card\"]", wants, 2);
    cr_expect(ASK(pick_class, "graph", "[\"card\"]")->known_graph);
    cr_expect_eq(ASK(list_missing, CLASS, NULL, 10)->n_wants, 2);
}

Test(store_timings, what_is_measured_of_other_graphs_settles_nothing)
{
    const struct mg_timing_want wants[] = {{"add", "a", row_of(0, "a", 1).key, 4, 1e-3, true},
                                           {"add", "bb", row_of(0, "bb", 1).key, 3, 1e-3, true},
                                           {"add", "ccc", row_of(0, "ccc", 1).key, 2, 1e-3, true},
                                           {"add", "dddd", row_of(0, "dddd", 1).key, 1, 1e-3, true}};
    struct mg_timing_row rows[] = {row_of(0, "other", 1e-3), row_of(1, "others", 1e-3), row_of(2, "another", 1e-3),
                                   row_of(3, "a", 1e-3),     row_of(4, "bb", 0),        row_of(5, "ccc", 8e-3)};
    rows[4].status = MG_TIMING_NOMEM;
    ASK(add_wants, "graph", "[\"card\"]", wants, 4);
    cr_expect_eq(post("one", "t", "b1", rows, 6)->suspect, 1);
    mg_store_list_classes(f.store, on_timings, &got);
    asked();
    cr_expect(got.operators == 4 && got.wanted == 4);
    cr_expect_eq(got.wanted_settled, 2, "one is measured, for one memory is short, one is a suspect");
    fixture_set_now(&f, f.now + HOUR_MS);
    mg_store_list_classes(f.store, on_timings, &got);
    cr_expect_eq(asked()->wanted_settled, 1, "there may be memory again");
}

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Processor time of a batch of operators that nobody has measured yet. */
static double time_batch(int number)
{
    enum { ROWS = 4000 };
    static char texts[ROWS][48];
    struct mg_timing_row *rows = calloc(ROWS, sizeof *rows);
    char name[16];
    snprintf(name, sizeof name, "b%d", number);
    for (int i = 0; i < ROWS; i++) {
        snprintf(texts[i], sizeof texts[i], "many%d.%d", number, i);
        rows[i] = row_of((uint32_t)i, texts[i], 1e-3);
        rows[i].key = mg_hash_bytes(texts[i], strlen(texts[i]), 0);
    }
    double start = cpu_seconds();
    cr_expect_eq(post("one", "t", name, rows, ROWS)->added, ROWS);
    free(rows);
    return cpu_seconds() - start;
}

/* Keys are random: where there are many, each row changes a page that was there before, and what SQLite puts aside of
 * these must not be gone through for each row. */
Test(store_timings, batches_take_as_long_where_there_are_many)
{
    enum { BATCHES = 40 };
    double first = time_batch(0), last = 0;
    for (int i = 1; i < 3; i++)
        first += time_batch(i);
    for (int i = 3; i < BATCHES; i++)
        last = i < BATCHES - 3 ? (time_batch(i), 0) : last + time_batch(i);
    cr_expect_lt(last, 5 * first, "three batches took %.3f s at first, %.3f s in the end", first, last);
}

static size_t entries_of(int64_t generation)
{
    struct mg_timings timings;
    struct mg_error err;
    static char data[1 << 16];
    cr_assert_eq(ASK(snapshot, CLASS, generation)->code, MG_STORE_OK);
    FILE *file = fdopen(got.snapshot, "rb");
    cr_assert(file);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    cr_assert_eq(mg_timings_open(data, size, &timings, &err), MG_OK, "%s", err.message);
    return timings.entry_count;
}

Test(store_timings, what_is_revoked_stays_in_earlier_generations)
{
    const struct mg_timing_row a = row_of(0, "a", 1e-3), b = row_of(0, "bb", 1e-3);
    post("one", "t", "b1", &a, 1);
    int64_t before = post("two", "u", "b1", &b, 1)->generation;
    cr_expect_eq(entries_of(before), 2);
    cr_expect_eq(ASK(revoke_timings, "agent", "two", 0)->added, 1);
    int64_t after = got.generation;
    cr_expect_eq(after, before + 1);
    cr_expect_eq(entries_of(after), 1);
    cr_expect_eq(entries_of(before), 2, "a job that pinned it finds what it had");
    cr_expect_eq(ASK(revoke_timings, "token", "t", f.now + 1)->added, 0, "measured earlier");
    cr_expect_eq(ASK(revoke_timings, "host", "host", 0)->added, 1);
    list();
    cr_expect(got.n_rows == 2 && got.revoked[0] && got.revoked[1]);
}

static bool has_cache(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/cache", f.dir);
    return access(path, F_OK) == 0;
}

static void open_again(bool read_only)
{
    mg_store_close(f.store);
    f.read_only = read_only;
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
}

Test(store_timings, who_only_reads_makes_no_file)
{
    const struct mg_timing_row row = row_of(0, "a", 1e-3);
    int64_t generation = post("one", "t", "b1", &row, 1)->generation;
    open_again(true);
    cr_expect_eq(entries_of(generation), 1);
    cr_expect(!has_cache());
    open_again(false);
    cr_expect_eq(entries_of(generation), 1);
    cr_expect(has_cache());
    cr_expect_eq(entries_of(generation), 1, "from the file");
}
