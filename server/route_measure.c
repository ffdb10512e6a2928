/* Plans measured as wholes: asked for by people, done by agents. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "server/http_priv.h"
#include "server/jobs.h"
#include "server/routes.h"
#include "server/small_json.h"
#include "store/measured.h"

static struct mg_jobs *jobs_of(const struct mg_request *req)
{
    return mg_request_config(req)->jobs;
}

static const char *text_of(const json_t *root, const char *key)
{
    const char *text = json_string_value(json_object_get(root, key));
    return text ? text : "";
}

/* A device's name as its driver tells it, "class:" with the class's 16 digits, or "any". */
static bool is_device(const char *text)
{
    if (strncmp(text, "class:", 6) == 0)
        return strlen(text) == 22 && strspn(text + 6, "0123456789abcdef") == 16;
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return false;
    return *text;
}

/* The body may be missing. */
void mg_route_plan_measure(struct mg_request *req)
{
    static const struct mg_member known[] = {{"device", MG_MEMBER_TEXT}, {NULL, MG_MEMBER_TEXT}};
    size_t size;
    mg_request_body(req, &size);
    json_t *root = size ? mg_route_body(req, known) : json_object();
    const char *device = root && json_object_get(root, "device") ? text_of(root, "device") : NULL;
    if (device && !is_device(device))
        mg_reply_problem(
            req, "invalid-request", "/device",
            "a device's name, class: with its 16 hexadecimal digits, or any is expected; GET /agents lists "
            "the devices of agents");
    else if (root)
        mg_request_await(req, mg_jobs_measure(jobs_of(req), &req->caller, mg_request_part(req, 0),
                                              mg_request_part(req, 1), device, mg_request_answer, req));
    json_decref(root);
}

void mg_route_plan_measurements(struct mg_request *req)
{
    mg_request_await(req, mg_jobs_measurements(jobs_of(req), mg_request_part(req, 0), mg_request_part(req, 1),
                                               mg_request_answer, req));
}

void mg_route_measurements_claim(struct mg_request *req)
{
    static const struct mg_member known[] = {{"agent", MG_MEMBER_TEXT}, {NULL, MG_MEMBER_TEXT}};
    json_t *root = mg_route_body(req, known);
    if (root && !*text_of(root, "agent"))
        mg_reply_problem(req, "invalid-request", "/agent", "the agent's name is missing");
    else if (root)
        mg_request_await(
            req, mg_jobs_measure_claim(jobs_of(req), &req->caller, text_of(root, "agent"), mg_request_answer, req));
    json_decref(root);
}

/* ---- what an agent found ---- */

static bool read_seconds(const json_t *root, const char *key, double *out)
{
    const json_t *value = json_object_get(root, key);
    *out = json_number_value(value);
    return !value || (*out >= 0 && *out < 1e6);
}

static bool read_count(const json_t *root, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(root, key);
    *out = json_integer_value(value);
    return !value || (*out >= 0 && *out < INT64_C(1) << 60);
}

/* NULL, or the member that is wrong. */
static const char *read_answer(const json_t *root, struct mg_measured *m)
{
    int64_t runs;
    int state = mg_measured_state_parse(text_of(root, "state"));
    *m = (struct mg_measured){.state = (enum mg_measured_state)state,
                              .reason = text_of(root, "reason"),
                              .host = text_of(root, "host"),
                              .busy = json_is_true(json_object_get(root, "busy"))};
    if (state != MG_MEASURED_DONE && state != MG_MEASURED_FAILED && state != MG_MEASURED_WANTED)
        return "/state";
    if (!read_count(root, "number", &m->number) || m->number == 0)
        return "/number";
    if (!read_count(root, "runs", &runs) || runs > 1000000)
        return "/runs";
    m->runs = (uint32_t)runs;
    if (!read_seconds(root, "latency_s", &m->latency_s) || (state == MG_MEASURED_DONE && m->latency_s <= 0))
        return "/latency_s";
    if (!read_seconds(root, "mad_s", &m->mad_s))
        return "/mad_s";
    if (!read_seconds(root, "sum_of_operators_s", &m->operators_s))
        return "/sum_of_operators_s";
    if (!read_count(root, "peak_bytes", &m->peak))
        return "/peak_bytes";
    if (!read_count(root, "arena_bytes", &m->arena))
        return "/arena_bytes";
    return read_count(root, "host_bytes", &m->host_bytes) ? NULL : "/host_bytes";
}

void mg_route_measurements_post(struct mg_request *req)
{
    static const struct mg_member known[] = {
        {"agent", MG_MEMBER_TEXT},         {"number", MG_MEMBER_INTEGER},
        {"state", MG_MEMBER_TEXT},         {"reason", MG_MEMBER_TEXT},
        {"host", MG_MEMBER_TEXT},          {"runs", MG_MEMBER_INTEGER},
        {"latency_s", MG_MEMBER_NUMBER},   {"mad_s", MG_MEMBER_NUMBER},
        {"busy", MG_MEMBER_BOOL},          {"sum_of_operators_s", MG_MEMBER_NUMBER},
        {"peak_bytes", MG_MEMBER_INTEGER}, {"arena_bytes", MG_MEMBER_INTEGER},
        {"host_bytes", MG_MEMBER_INTEGER}, {NULL, MG_MEMBER_TEXT}};
    json_t *root = mg_route_body(req, known);
    struct mg_measured answer;
    const char *wrong = !root ? NULL : *text_of(root, "agent") ? read_answer(root, &answer) : "/agent";
    if (wrong)
        mg_reply_problem(req, "invalid-request", wrong, "the member is missing or has no such value");
    else if (root)
        mg_request_await(req, mg_jobs_measure_answer(jobs_of(req), &req->caller, text_of(root, "agent"), &answer,
                                                     mg_request_answer, req));
    json_decref(root);
}
