/* Several threads start operations of the store while another polls: no data race, each operation
 * answered once, every job there in the end. (Criterion's runner does not work under ThreadSanitizer,
 * hence a plain program.) */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/store.h"

enum { THREADS = 3, ROUNDS = 25, OPERATIONS = 3 };

struct tally {
    mg_store *store;
    atomic_int notified, answered, wrong;
    int listed;
};

static void notify(void *context)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->notified, 1);
}

static void count_answer(void *context, const struct mg_store_result *result)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->answered, 1);
    if (result->code != MG_STORE_OK) {
        fprintf(stderr, "%s: %s\n", mg_store_code_name(result->code), result->message);
        atomic_fetch_add(&tally->wrong, 1);
    }
    if (result->jobs)
        tally->listed = (int)result->n_jobs;
}

static void *start_operations(void *context)
{
    struct tally *tally = context;
    struct mg_store_request normal = {
        .request = "{}", .request_digest = "00", .graph = {"graph", 5}, .graph_digest = "11"};
    struct mg_store_submission job = {.state = MG_JOB_QUEUED, .priority = MG_PRIORITY_NORMAL, .normal = &normal};
    struct mg_store_query query = {.limit = 200};
    for (int i = 0; i < ROUNDS; i++) {
        mg_store_submit(tally->store, &job, count_answer, tally);
        mg_store_list_jobs(tally->store, &query, count_answer, tally);
        mg_store_get_stats(tally->store, count_answer, tally);
    }
    return NULL;
}

static void poll_until(struct tally *tally, int answers)
{
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 30000 && atomic_load(&tally->answered) < answers; i++) {
        mg_store_poll(tally->store);
        nanosleep(&pause, NULL);
    }
}

int main(void)
{
    char folder[] = "/tmp/magis-tsan-XXXXXX", message[256], command[64];
    struct tally tally = {0};
    pthread_t threads[THREADS];
    if (!mkdtemp(folder))
        return 1;
    struct mg_store_config config = {.dir = folder, .notify = notify, .notify_ctx = &tally};
    if (mg_store_open(&tally.store, &config, message, sizeof message) != MG_STORE_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, start_operations, &tally);
    poll_until(&tally, THREADS * ROUNDS * OPERATIONS / 2);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    poll_until(&tally, THREADS * ROUNDS * OPERATIONS);
    struct mg_store_query query = {.limit = 200};
    mg_store_list_jobs(tally.store, &query, count_answer, &tally);
    mg_store_close(tally.store);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    bool good = tally.answered == THREADS * ROUNDS * OPERATIONS + 1 && tally.wrong == 0 && tally.notified > 0 &&
                tally.listed == THREADS * ROUNDS && system(command) == 0;
    printf("%d operations answered, %d wrong, %d jobs listed\n", tally.answered, tally.wrong, tally.listed);
    return !good;
}
