/* POST /optimize and /estimate: the body goes to intake as it came. */
#include <stdlib.h>
#include <string.h>

#include "server/http.h"
#include "server/jobs.h"
#include "server/routes.h"
#include "server/tokens.h"

enum { MAX_FORM = 12000 };

static bool check_room(struct mg_request *req)
{
    struct mg_jobs_stats stats;
    mg_jobs_stats(mg_request_config(req)->jobs, &stats);
    if (!stats.draining)
        return true;
    mg_reply_header(req, "Retry-After", "10");
    mg_reply_problem(req, "draining", NULL, "the daemon is stopping");
    return false;
}

static bool check_headers(struct mg_request *req)
{
    if (!mg_request_header(req, "Idempotency-Key"))
        return true;
    mg_reply_problem(req, "unsupported", NULL, "Idempotency-Key is not supported yet");
    return false;
}

static bool begin(struct mg_request *req, struct mg_submission *submission)
{
    if (!check_room(req) || !check_headers(req) || !mg_request_wait(req, &submission->wait_s))
        return false;
    submission->owner = mg_request_caller(req)->name;
    submission->request_id = mg_request_id(req);
    submission->form = mg_request_form(req);
    if (!submission->form || strlen(submission->form) > MAX_FORM) {
        mg_reply_problem(req, "bad-parameter", NULL, "the query string is too long");
        free(submission->form);
        return false;
    }
    submission->body_fd = mg_request_take_body(req, &submission->body_size, &submission->gzip);
    return true;
}

void mg_route_optimize(struct mg_request *req)
{
    struct mg_submission submission = {0};
    if (begin(req, &submission))
        mg_request_await(req, mg_jobs_submit(mg_request_config(req)->jobs, &submission, mg_route_answer_created, req));
}

void mg_route_estimate(struct mg_request *req)
{
    struct mg_submission submission = {0};
    if (begin(req, &submission))
        mg_request_await(req, mg_jobs_estimate(mg_request_config(req)->jobs, &submission, mg_request_answer, req));
}
