/* Plans, their timelines, and the graph: rendered by intake on demand. */
#include <string.h>

#include "server/http.h"
#include "server/jobs.h"
#include "server/routes.h"

/* json where not given; a known format that comes later is 406, an unknown one 400. */
static const char *read_format(struct mg_request *req)
{
    static const char later[] = " torch onnx checkpoint ";
    const char *format = mg_request_query(req, "format");
    if (!format || !strcmp(format, "json"))
        return "json";
    if (!strcmp(format, "dot"))
        return "dot";
    const char *at = *format ? strstr(later, format) : NULL;
    if (at && at[-1] == ' ' && at[strlen(format)] == ' ')
        mg_reply_problem(req, "not-acceptable", NULL, "the format %s is not available; json and dot are", format);
    else
        mg_reply_problem(req, "bad-parameter", NULL, "format must be json or dot");
    return NULL;
}

void mg_route_plan(struct mg_request *req)
{
    const char *format = read_format(req);
    if (format)
        mg_request_await(req, mg_jobs_plan(mg_request_config(req)->jobs, mg_request_part(req, 0),
                                           mg_request_part(req, 1), format, mg_request_answer, req));
}

void mg_route_plan_timeline(struct mg_request *req)
{
    mg_request_await(req, mg_jobs_timeline(mg_request_config(req)->jobs, mg_request_part(req, 0),
                                           mg_request_part(req, 1), mg_request_answer, req));
}

void mg_route_job_graph(struct mg_request *req)
{
    const char *format = read_format(req);
    if (format)
        mg_request_await(
            req, mg_jobs_graph(mg_request_config(req)->jobs, mg_request_part(req, 0), format, mg_request_answer, req));
}
