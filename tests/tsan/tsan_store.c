/* The store under ThreadSanitizer: several threads submit and read while one runs callbacks, then a life of a job. */
#include "tests/unit/store_util.h"

enum { THREADS = 4, EACH = 40 };

static struct fixture f;
static int ok, failed;

static void count_cb(void *ctx, const struct mg_store_result *result)
{
    (void)ctx;
    ok += result->code == MG_STORE_OK;
    failed += result->code != MG_STORE_OK;
}

static void *work(void *arg)
{
    struct mg_store_op_stats stats[64];
    (void)arg;
    for (int i = 0; i < EACH; i++) {
        struct mg_store_submission s = any_submission(NULL);
        struct mg_store_query q = {.limit = 20, .q = "night"};
        mg_store_submit(f.store, &s, count_cb, NULL);
        mg_store_list_jobs(f.store, &q, count_cb, NULL);
        mg_store_get_stats(f.store, count_cb, NULL);
        mg_store_op_counters(f.store, stats, 64);
    }
    return NULL;
}

static int check(const struct got *got, const char *what)
{
    if (got->code != MG_STORE_OK) {
        fprintf(stderr, "%s: %s\n", what, got->message);
    }
    return got->code != MG_STORE_OK;
}

static int life(void)
{
    struct mg_store_point point = any_point(MG_POINT_FRONT, "0123456789abcdef", 1, 10);
    struct mg_store_points points = {.points = &point, .n_points = 1, .event = "{}"};
    struct mg_store_outcome end = {.state = MG_JOB_SUCCEEDED, .outcome = MG_JOB_OUTCOME_FRONT, .best = point.plan};
    const char *id = "aaaaaaaaaaaa";
    return check(submit_any(&f, id), "submit") + check(DO(&f, claim, id, 0), "claim") +
           check(DO(&f, save_points, id, &points), "save") + check(DO(&f, finish, id, &end, NULL), "finish") +
           check(DO(&f, get_plan, id, "best"), "plan") + check(DO(&f, delete, id), "delete");
}

int main(void)
{
    pthread_t threads[THREADS];
    fixture_init(&f);
    if (fixture_open(&f) != MG_STORE_OK) {
        fprintf(stderr, "%s\n", f.got.message);
        return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, NULL);
    }
    while (ok + failed < THREADS * EACH) {
        mg_store_poll(f.store);
        usleep(1000);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    fixture_wait(&f);
    int bad = life() + (failed != 0) + (ok != THREADS * EACH * 3);
    fixture_release(&f);
    printf("store: %d operations, %d failed\n", ok, failed);
    return bad != 0;
}
