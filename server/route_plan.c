/* Plans, their timelines, and the graph: rendered by intake on demand. */
#include "export/export.h"
#include "server/http.h"
#include "server/jobs.h"
#include "server/routes.h"

/* json where not given; of a graph only `last` and those before it. A format that does not apply is 406, an unknown
 * one 400. */
static const char *read_format(struct mg_request *req, enum mg_export_format last)
{
    const char *name = mg_request_query(req, "format");
    enum mg_export_format format = name ? mg_export_from_name(name) : MG_EXPORT_JSON;
    if (format <= last)
        return mg_export_name(format);
    if (format < MG_EXPORT_COUNT)
        mg_reply_problem(req, "not-acceptable", NULL, "the format %s is for plans; json and dot are for graphs", name);
    else
        mg_reply_problem(req, "bad-parameter", NULL,
                         "format must be json or dot; of a plan also torch, checkpoint or onnx");
    return NULL;
}

void mg_route_plan(struct mg_request *req)
{
    const char *format = read_format(req, MG_EXPORT_COUNT - 1);
    if (format)
        mg_request_await(req, mg_jobs_plan(mg_request_config(req)->jobs, mg_request_part(req, 0),
                                           mg_request_part(req, 1), format, mg_request_answer, req));
}

void mg_route_plan_timeline(struct mg_request *req)
{
    mg_request_await(req, mg_jobs_timeline(mg_request_config(req)->jobs, mg_request_part(req, 0),
                                           mg_request_part(req, 1), mg_request_answer, req));
}

void mg_route_plan_formats(struct mg_request *req)
{
    mg_request_await(req, mg_jobs_formats(mg_request_config(req)->jobs, mg_request_part(req, 0),
                                          mg_request_part(req, 1), mg_request_answer, req));
}

void mg_route_job_graph(struct mg_request *req)
{
    const char *format = read_format(req, MG_EXPORT_DOT);
    if (format)
        mg_request_await(
            req, mg_jobs_graph(mg_request_config(req)->jobs, mg_request_part(req, 0), format, mg_request_answer, req));
}
