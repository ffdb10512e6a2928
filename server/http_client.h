/* A small HTTP/1.1 client for the command line and the agent: one request, one connection, http:// or unix:PATH. */
#ifndef MG_SERVER_HTTP_CLIENT_H
#define MG_SERVER_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct mg_call_http {
    const char *server;                     /* http://HOST[:PORT][/PREFIX] or unix:PATH */
    const char *token;                      /* NULL: none */
    const char *method, *path, *media_type; /* media_type: of the body */
    const char *body;                       /* NULL: none */
    size_t body_size;
    unsigned timeout_s; /* of each step */
};
struct mg_answer_http {
    int status; /* 0: no answer; `body` says why then */
    char *body; /* malloc'ed and NUL-terminated */
    size_t size;
};

void mg_http_call(const struct mg_call_http *call, struct mg_answer_http *answer);
/* The `detail` of a problem document, or the body's first line, and how to give a token where one is wanted; malloc'ed.
 */
char *mg_http_problem(const struct mg_answer_http *answer);

#endif
