/* What the daemon is and how it fares: health, metrics, version, errors, description, page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>

#include "server/http_priv.h"
#include "server/intake.h"
#include "server/jobs.h"
#include "server/routes.h"
#include "server/version.h"
#include "store/store.h"

void mg_route_root(struct mg_request *req)
{
    mg_reply_redirect(req, "/ui/");
}

/* /ui/jobs/ID, as people write it; the page itself keeps what it shows after the #. */
static bool redirect_to_run(struct mg_request *req, const char *name)
{
    char path[64];
    const char *id = name ? name + strlen("jobs/") : "";
    if (!name || strncmp(name, "jobs/", strlen("jobs/")) != 0 || strlen(id) != 12 ||
        strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz") != 12)
        return false;
    snprintf(path, sizeof path, MG_JOB_PAGE, id);
    mg_reply_redirect(req, path);
    return true;
}

void mg_route_page(struct mg_request *req)
{
    const char *name = mg_request_part(req, 0);
    if (redirect_to_run(req, name))
        return;
    mg_page_serve(req, name ? name : "");
}

/* NULL, or what hinders its work until somebody puts it right. */
static const char *trouble(const struct mg_jobs_stats *stats)
{
    return stats->store_lost ? "the store's file was removed or replaced under the running daemon"
           : stats->disk_full
               ? "the disk of the data directory is nearly full: new jobs are refused, those that run finish"
               : NULL;
}

/* It lives while it answers: what hinders its work is told, and makes it not ready. */
void mg_route_healthz(struct mg_request *req)
{
    struct mg_jobs_stats stats;
    struct mg_writer w;
    mg_jobs_stats(req->http->config.jobs, &stats);
    const char *why = trouble(&stats);
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, "status", why ? "degraded" : "ok");
    if (why)
        mg_write_member_string(&w, "why", why);
    mg_write_end_object(&w);
    mg_reply_json(req, 200, &w);
}

static const char *why_not_ready(const struct mg_request *req)
{
    struct mg_jobs_stats stats;
    mg_jobs_stats(req->http->config.jobs, &stats);
    if (req->http->draining || stats.draining)
        return "draining";
    if (trouble(&stats))
        return trouble(&stats);
    if (!stats.claiming)
        return "too many workers died, or could not start: one job at a time is tried, after a pause";
    if (!stats.store_ok)
        return "the store does not take writes";
    return NULL;
}

void mg_route_readyz(struct mg_request *req)
{
    const char *why = why_not_ready(req);
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, "status", why ? "not ready" : "ready");
    if (why)
        mg_write_member_string(&w, "why", why);
    mg_write_end_object(&w);
    if (why)
        mg_reply_header(req, "Retry-After", "5");
    mg_reply_json(req, why ? 503 : 200, &w);
}

static void read_jobs(struct mg_metrics *m, const struct mg_jobs_stats *s)
{
    mg_metric_set(m, MG_METRIC_JOBS_VALIDATING, (double)s->validating);
    mg_metric_set(m, MG_METRIC_JOBS_QUEUED, (double)s->queued);
    mg_metric_set(m, MG_METRIC_JOBS_RUNNING, (double)s->running);
    mg_metric_set(m, MG_METRIC_JOBS_CANCELLING, (double)s->cancelling);
    mg_metric_set(m, MG_METRIC_JOBS_SUBMITTED, (double)s->submitted);
    mg_metric_set(m, MG_METRIC_JOBS_REUSED, (double)s->reused);
    mg_metric_set(m, MG_METRIC_JOBS_SUCCEEDED, (double)s->succeeded);
    mg_metric_set(m, MG_METRIC_JOBS_FAILED, (double)s->failed);
    mg_metric_set(m, MG_METRIC_JOBS_CANCELLED, (double)s->cancelled);
    mg_metric_set(m, MG_METRIC_EVALUATIONS, (double)s->evaluations);
    mg_metric_set(m, MG_METRIC_PLANS_ACCEPTED, (double)s->plans_accepted);
    mg_metric_set(m, MG_METRIC_PLANS_REJECTED, (double)s->plans_rejected);
    mg_metric_set(m, MG_METRIC_SEARCH_SECONDS, s->search_seconds);
    mg_metric_set(m, MG_METRIC_WORKERS, s->workers);
    mg_metric_set(m, MG_METRIC_WORKERS_BUSY, s->workers_busy);
    mg_metric_set(m, MG_METRIC_WORKER_STARTS, (double)s->worker_starts);
    mg_metric_set(m, MG_METRIC_WORKER_DEATHS, (double)s->worker_deaths);
    mg_metric_set(m, MG_METRIC_JOBS_PUT_OFF, (double)s->put_off);
    mg_metric_set(m, MG_METRIC_LISTENERS, (double)s->listeners);
}

static void read_intake(struct mg_metrics *m, const struct mg_intake_stats *s)
{
    mg_metric_set(m, MG_METRIC_INTAKE_QUEUED, (double)s->queued);
    mg_metric_set(m, MG_METRIC_INTAKE_ANSWERED, (double)s->answered);
    mg_metric_set(m, MG_METRIC_INTAKE_FAILED, (double)s->failed);
    mg_metric_set(m, MG_METRIC_INTAKE_DEATHS, (double)s->deaths);
}

/* Whole operations of the store: how many, how many failed, how long they took. */
static void write_store(struct mg_writer *w, const struct mg_store *store)
{
    struct mg_store_op_stats op[32];
    size_t count = mg_store_op_counters(store, op, sizeof op / sizeof *op);
    if (count > sizeof op / sizeof *op)
        count = sizeof op / sizeof *op;
    mg_write_text(w, "# HELP magisd_store_operations_total Operations of the store\n"
                     "# TYPE magisd_store_operations_total counter\n");
    for (size_t k = 0; k < count; k++)
        mg_write_text(w, "magisd_store_operations_total{operation=\"%s\"} %llu\n", op[k].name,
                      (unsigned long long)op[k].count);
    mg_write_text(w, "# HELP magisd_store_errors_total Operations of the store that failed\n"
                     "# TYPE magisd_store_errors_total counter\n");
    for (size_t k = 0; k < count; k++)
        mg_write_text(w, "magisd_store_errors_total{operation=\"%s\"} %llu\n", op[k].name,
                      (unsigned long long)op[k].errors);
    mg_write_text(w, "# HELP magisd_store_seconds_total Time from the start of an operation to its result\n"
                     "# TYPE magisd_store_seconds_total counter\n");
    for (size_t k = 0; k < count; k++)
        mg_write_text(w, "magisd_store_seconds_total{operation=\"%s\"} %.17g\n", op[k].name, op[k].seconds_sum);
}

static double resident_bytes(void)
{
    char text[128] = "";
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    char *at = fgets(text, sizeof text, file) ? strchr(text, ' ') : NULL; /* total, resident, ... in pages */
    fclose(file);
    return at ? (double)strtoull(at, NULL, 10) * (double)sysconf(_SC_PAGESIZE) : 0;
}

void mg_route_metrics(struct mg_request *req)
{
    struct mg_metrics *metrics = mg_http_metrics(mg_request_http(req));
    struct mg_jobs_stats jobs;
    struct mg_intake_stats intake;
    struct mg_writer w;
    mg_jobs_stats(req->http->config.jobs, &jobs);
    mg_intake_stats(req->http->config.intake, &intake);
    read_jobs(metrics, &jobs);
    read_intake(metrics, &intake);
    mg_writer_init(&w);
    mg_metric_set(metrics, MG_METRIC_MEMORY, resident_bytes());
    mg_metrics_write(metrics, &w);
    if (req->http->config.store)
        write_store(&w, req->http->config.store);
    mg_must(mg_writer_finish(&w) ? w.data : NULL);
    mg_reply_data(req, 200, "text/plain; version=0.0.4; charset=utf-8", w.data, w.size);
}

void mg_route_version(struct mg_request *req)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_member_string(&w, "name", "magisd");
    mg_write_member_string(&w, "version", MG_VERSION);
    mg_write_member_int(&w, "optimizer", MG_OPTIMIZER_VERSION);
    mg_write_member_string(&w, "compiler", __VERSION__);
    mg_write_key(&w, "libraries");
    mg_write_begin_object(&w);
    mg_write_member_string(&w, "libmicrohttpd", MHD_get_version());
    mg_write_member_string(&w, "libuv", uv_version_string());
    mg_write_end_object(&w);
    mg_write_end_object(&w);
    mg_reply_json(req, 200, &w);
}

void mg_route_whoami(struct mg_request *req)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_key(&w, "name");
    if (*req->caller.name)
        mg_write_string(&w, req->caller.name);
    else
        mg_write_null(&w);
    mg_write_member_string(&w, "role", mg_role_name(req->caller.role));
    if (!*req->caller.name)
        mg_write_member_string(&w, "why", "no token is needed on this address");
    mg_write_end_object(&w);
    mg_reply_json(req, 200, &w);
}

void mg_route_openapi(struct mg_request *req)
{
    mg_reply_static(req, 200, "application/json", req->http->description, req->http->description_size);
}

void mg_route_errors(struct mg_request *req)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_begin_object(&w);
    mg_write_key(&w, "errors");
    mg_problem_list(&w);
    mg_write_end_object(&w);
    mg_reply_json(req, 200, &w);
}

void mg_route_error(struct mg_request *req)
{
    struct mg_writer w;
    mg_writer_init(&w);
    if (mg_problem_describe(&w, mg_request_part(req, 0))) {
        mg_reply_json(req, 200, &w);
        return;
    }
    mg_writer_release(&w);
    mg_reply_problem(req, "not-found", NULL, "no problem has this name; GET /errors lists them");
}

/* A client script, in which the line URL = "..." names this server. */
void mg_route_client(struct mg_request *req)
{
    static const char line[] = "\nURL = \"", fallback[] = "http://127.0.0.1:8080";
    char name[128];
    const char *file_name = mg_request_part(req, 0), *host = mg_request_header(req, "Host");
    snprintf(name, sizeof name, "clients/%.100s", file_name ? file_name : "");
    const struct mg_web_file *file = mg_web_file_find(name);
    if (!file) {
        mg_reply_problem(req, "not-found", NULL, "there are magis_capture.py and magis_apply.py");
        return;
    }
    const char *data = (const char *)file->data, *public_url = req->http->public_url;
    size_t size = (size_t)(file->end - file->data);
    const char *at = memmem(data, size, line, strlen(line)), *quote = at ? at + strlen(line) : NULL;
    const char *end = quote ? memchr(quote, '"', size - (size_t)(quote - data)) : NULL;
    struct mg_writer w;
    mg_writer_init(&w);
    if (end && strcspn(host ? host : "", "\"\\\n") == strlen(host ? host : "")) {
        const char *scheme = *public_url ? "" : host ? "http://" : "";
        mg_write_text(&w, "%.*s%s%s%.*s", (int)(quote - data), data, scheme,
                      *public_url ? public_url
                      : host      ? host
                                  : fallback,
                      (int)(size - (size_t)(end - data)), end);
    } else {
        mg_write_text(&w, "%.*s", (int)size, data);
    }
    mg_must(mg_writer_finish(&w) ? w.data : NULL);
    mg_reply_header(req, "Content-Disposition", "attachment; filename=\"%s\"", file_name);
    mg_reply_data(req, 200, "text/x-python; charset=utf-8", w.data, w.size);
}
