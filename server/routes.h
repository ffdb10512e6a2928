/* What the files of the endpoints share. */
#ifndef MG_SERVER_ROUTES_H
#define MG_SERVER_ROUTES_H

#include "server/http.h"
#include "server/small_json.h"

/* The page of a job, below the daemon's own address. */
#define MG_JOB_PAGE "/ui/#/jobs/%.20s"

/* The handlers. */
#define ROUTE(method, pattern, role, body, query, handler, request, answer, summary)                                   \
    void handler(struct mg_request *req);
#include "server/routes.def"
#undef ROUTE

/* The small body as an object whose members are as `known` says; NULL after a problem was replied. */
struct json_t *mg_route_body(struct mg_request *req, const struct mg_member *known);

/* As mg_request_answer, for replies that make a job: adds Location and Retry-After. */
void mg_route_answer_created(void *context, struct mg_reply *reply);

#endif
