/* What is posted to /optimize and /estimate, taken apart: a request as JSON and the graph beside it. For intake. */
#ifndef MG_SERVER_POSTED_H
#define MG_SERVER_POSTED_H

#include <zlib.h>

#include "server/media.h"
#include "server/request.h"

struct mg_posted {
    struct mg_writer written; /* a request made from the query string */
    const char *request;      /* JSON */
    size_t request_size;
    const char *graph; /* JSON beside the request, or NULL */
    size_t graph_size;
    bool has_onnx;
    struct mg_bytes onnx; /* the model: what follows is its source */
    struct mg_bytes_block block;
    z_stream *inflate;
    unsigned char *buffer;
    size_t inflated, limit, packed;
    bool ended;
};
/* The whole body is the model; the rest of the request comes as names and values of the query string, where
 * "limit.memory_ratio" names a member of a member. With `gzip` it is inflated as it is read, at most to `limit` bytes.
 * `body` must outlive it. */
enum mg_code mg_posted_open_onnx(struct mg_posted *posted, const char *body, size_t size, bool gzip, size_t limit,
                                 const char *query, struct mg_arena *arena, struct mg_error *err) MG_WARN_UNUSED;
/* Parts `request` (JSON, may be left out) and `graph` (JSON or ONNX). */
enum mg_code mg_posted_open_multipart(struct mg_posted *posted, const char *body, size_t size, const char *boundary,
                                      struct mg_error *err) MG_WARN_UNUSED;
void mg_posted_close(struct mg_posted *posted); /* also when opening failed, or of all zeros */

#endif
