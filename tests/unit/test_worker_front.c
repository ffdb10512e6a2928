/* What a worker says when it cannot keep what its search found. Packing is the test's own. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/plan_blob.h"
#include "server/worker.h"
#include "server/worker_priv.h"
#include "tests/unit/temp_util.h"

static bool no_memory;

enum mg_code mg_plan_pack(const struct mg_plan *plan, unsigned char **out, size_t *size, struct mg_error *err)
{
    (void)plan;
    if (no_memory)
        return mg_fail(err, MG_ERR_NOMEM, "", "out of memory while packing a plan");
    *size = 4;
    *out = calloc(1, *size);
    return MG_OK;
}

/* Spools a plan to the file; `said` is what the daemon hears. */
static bool spool(const char *path, char *said, size_t size)
{
    struct mg_plan plan = {0};
    struct mg_point point = {.id = "0123456789abcdef", .plan = &plan};
    struct mg_worker_run run = {0};
    int out[2], file = open(path, O_RDWR | O_CREAT, 0600), before = dup(STDOUT_FILENO);
    cr_assert(file >= 0 && pipe(out) == 0 && dup2(file, MG_WORKER_SPOOL) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0);
    bool kept = mg_worker_spool(&run, &point);
    if (run.why_code)
        mg_worker_send_why(&run);
    cr_assert_eq(kept, !run.broken);
    dup2(before, STDOUT_FILENO);
    close(out[1]);
    ssize_t got = read(out[0], said, size - 1);
    said[got > 0 ? got : 0] = '\0';
    close(out[0]);
    free(run.out);
    free(run.spooled);
    return kept;
}

Test(worker_front, says_why_a_plan_is_lost)
{
    char said[2000], path[200];
    temp_name(path, sizeof path, "spool");
    int made = mkstemp(path);
    cr_assert_geq(made, 0);
    cr_expect(spool(path, said, sizeof said));
    cr_expect_str_empty(said);
    no_memory = true;
    cr_expect_not(spool(path, said, sizeof said));
    cr_expect(strstr(said, "\"code\":\"nomem\"") && strstr(said, "while packing a plan"), "%s", said);
    no_memory = false;
    cr_expect_not(spool("/dev/full", said, sizeof said));
    cr_expect(strstr(said, "\"code\":\"spool\"") && strstr(said, "No space left"), "%s", said);
    const struct rlimit none = {0, 0};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    cr_expect_not(spool(path, said, sizeof said));
    cr_expect(strstr(said, "\"code\":\"spool-full\""), "%s", said);
    close(made);
    unlink(path);
}
