/* Jobs, one by one and as a list: what is asked is passed on to the job manager. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http_priv.h"
#include "server/jobs.h"
#include "server/routes.h"

enum { MAX_LABELS = 16 };

static struct mg_jobs *jobs_of(const struct mg_request *req)
{
    return mg_request_config(req)->jobs;
}

/* An asker that prefers a page to data gets the page. */
static bool wants_page(const struct mg_request *req)
{
    return mg_request_accepts(req, "text/html") && !mg_request_accepts(req, "application/json");
}

void mg_route_job(struct mg_request *req)
{
    double wait = 0;
    mg_reply_header(req, "Vary", "Accept");
    if (wants_page(req)) {
        char path[64];
        snprintf(path, sizeof path, MG_JOB_PAGE, mg_request_part(req, 0));
        mg_reply_redirect(req, path);
        return;
    }
    if (mg_request_wait(req, &wait))
        mg_request_await(req, mg_jobs_get(jobs_of(req), mg_request_part(req, 0), wait, mg_request_answer, req));
}

/* The next page as a Link header (RFC 8288), the query string kept but for the cursor. */
static void link_next(struct mg_request *req, const char *next)
{
    char query[900] = "";
    size_t used = 0;
    const char *at = strchr(req->uri, '?');
    for (at = at ? at + 1 : ""; *at; at += *at == '&') {
        size_t word = strcspn(at, "&");
        bool fits = used + word + 2 < sizeof query;
        if (word && strncmp(at, "cursor=", 7) != 0 && fits)
            used += (size_t)snprintf(query + used, sizeof query - used, "%.*s&", (int)word, at);
        at += word;
    }
    char *link = mg_http_link(req->http, "/jobs");
    if (strlen(link) + used + strlen(next) < 980 && !strpbrk(query, "<>\" "))
        mg_reply_header(req, "Link", "<%s?%scursor=%s>; rel=\"next\"", link, query, next);
    free(link);
}

/* The list's own member "next" stands at its end: {"jobs": [...], "next": "..."}. */
static void find_next(struct mg_request *req, const struct mg_reply *reply)
{
    static const char key[] = "\"next\":\"";
    char cursor[512];
    if (reply->problem || !reply->body)
        return;
    for (size_t at = reply->body_size; at-- > 0;) {
        const char *text = reply->body + at;
        if (*text != '"' || reply->body_size - at < sizeof key || memcmp(text, key, sizeof key - 1) != 0)
            continue;
        size_t length = strcspn(text + sizeof key - 1, "\"");
        if (length < sizeof cursor) {
            snprintf(cursor, sizeof cursor, "%.*s", (int)length, text + sizeof key - 1);
            link_next(req, cursor);
        }
        return;
    }
}

static void on_list(void *context, struct mg_reply *reply)
{
    struct mg_request *req = context;
    find_next(req, reply);
    mg_request_answer(req, reply);
}

static bool read_query(struct mg_request *req, struct mg_job_query *query, const char **labels)
{
    int64_t limit = 50;
    query->state = mg_request_query(req, "state");
    query->network = mg_request_query(req, "network");
    query->device = mg_request_query(req, "device");
    query->owner = mg_request_query(req, "owner");
    query->q = mg_request_query(req, "q");
    query->sort = mg_request_query(req, "sort");
    query->cursor = mg_request_query(req, "cursor");
    query->labels = labels;
    query->label_count = mg_request_query_all(req, "label", labels, MAX_LABELS);
    if (query->label_count > MAX_LABELS) {
        mg_reply_problem(req, "bad-parameter", NULL, "at most %d labels", MAX_LABELS);
        return false;
    }
    for (size_t k = 0; k < query->label_count; k++)
        if (!strchr(labels[k], ':')) {
            mg_reply_problem(req, "bad-parameter", NULL, "label must be key:value");
            return false;
        }
    if (!mg_request_integer(req, "limit", 1, 200, &limit))
        return false;
    query->limit = (unsigned)limit;
    return true;
}

void mg_route_jobs(struct mg_request *req)
{
    const char *labels[MAX_LABELS];
    struct mg_job_query query = {0};
    if (read_query(req, &query, labels))
        mg_request_await(req, mg_jobs_list(jobs_of(req), &query, on_list, req));
}

void mg_route_job_patch(struct mg_request *req)
{
    size_t size;
    const char *body = mg_request_body(req, &size);
    mg_request_await(req, mg_jobs_patch(jobs_of(req), mg_request_caller(req), mg_request_part(req, 0), body, size,
                                        mg_request_answer, req));
}

void mg_route_job_delete(struct mg_request *req)
{
    mg_request_await(
        req, mg_jobs_delete(jobs_of(req), mg_request_caller(req), mg_request_part(req, 0), mg_request_answer, req));
}

void mg_route_job_cancel(struct mg_request *req)
{
    mg_request_await(
        req, mg_jobs_cancel(jobs_of(req), mg_request_caller(req), mg_request_part(req, 0), mg_request_answer, req));
}

/* 202 with the place of the new job. */
void mg_route_answer_created(void *context, struct mg_reply *reply)
{
    struct mg_request *req = context;
    if (!reply->problem && *reply->job) {
        char path[48];
        snprintf(path, sizeof path, "/jobs/%s", reply->job);
        char *link = mg_http_link(req->http, path);
        mg_reply_header(req, "Location", "%s", link);
        free(link);
        if (reply->status == 202 && !reply->retry_after_s)
            reply->retry_after_s = 1;
    }
    mg_request_answer(req, reply);
}

void mg_route_job_retry(struct mg_request *req)
{
    mg_request_await(req, mg_jobs_retry(jobs_of(req), mg_request_caller(req), mg_request_part(req, 0),
                                        mg_route_answer_created, req));
}

void mg_route_job_pin(struct mg_request *req)
{
    mg_request_await(
        req, mg_jobs_pin(jobs_of(req), mg_request_caller(req), mg_request_part(req, 0), true, mg_request_answer, req));
}

void mg_route_job_unpin(struct mg_request *req)
{
    mg_request_await(
        req, mg_jobs_pin(jobs_of(req), mg_request_caller(req), mg_request_part(req, 0), false, mg_request_answer, req));
}

void mg_route_job_request(struct mg_request *req)
{
    mg_request_await(req, mg_jobs_request(jobs_of(req), mg_request_part(req, 0), mg_request_answer, req));
}

void mg_route_job_pareto(struct mg_request *req)
{
    mg_request_await(req, mg_jobs_pareto(jobs_of(req), mg_request_part(req, 0), mg_request_answer, req));
}

void mg_route_job_repricing(struct mg_request *req)
{
    mg_request_await(req, mg_jobs_reprice(jobs_of(req), mg_request_part(req, 0), mg_request_answer, req));
}
