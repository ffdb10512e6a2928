/* Bodies as they arrive: large ones go into a memfd that intake reads, small ones into memory.
 * Content-Length is held against the limit before a byte is read; chunked bodies are counted. */
#include "server/http_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_MODEL ((uint64_t)2 << 30)

static bool is_json_type(const char *type)
{
    size_t length = strcspn(type, "; ");
    return (length == 16 && !strncasecmp(type, "application/json", 16)) ||
           (length == 20 && !strncasecmp(type, "application/x-ndjson", 20)) ||
           (length == 28 && !strncasecmp(type, "application/merge-patch+json", 28));
}

/* A model may be large: its weights are skipped when it is read. */
static uint64_t body_limit(const struct mg_request *req)
{
    const struct mg_http_limits *limits = &req->http->config.limits;
    if (!req->route || req->route->body != MG_BODY_LARGE)
        return MG_SMALL_BODY;
    if (req->media == MG_MEDIA_JSON)
        return limits->body_bytes;
    return limits->uploads_bytes < MAX_MODEL ? limits->uploads_bytes : MAX_MODEL;
}

static void refuse_size(struct mg_request *req)
{
    mg_reply_problem(req, "too-large", NULL, "the body has more than %llu bytes", (unsigned long long)body_limit(req));
}

static void refuse_all(struct mg_request *req)
{
    mg_reply_header(req, "Retry-After", "2");
    mg_reply_problem(req, "busy", NULL, "too many bodies are being received at once");
}

/* No body needs no type: whether one is needed, the handler knows. */
static bool has_no_body(const struct mg_request *req, const char *type)
{
    return !req->has_body && !type && req->route->body == MG_BODY_SMALL;
}

static bool check_type(struct mg_request *req)
{
    const char *type = mg_request_header(req, "Content-Type");
    const char *encoding = mg_request_header(req, "Content-Encoding");
    bool large = req->route->body == MG_BODY_LARGE;
    req->media = has_no_body(req, type) || (type && is_json_type(type)) ? MG_MEDIA_JSON
                 : type && large                                        ? mg_media_of(type)
                                                                        : MG_MEDIA_COUNT;
    if (req->media == MG_MEDIA_COUNT) {
        mg_reply_problem(req, "unsupported-media", NULL, "Content-Type must be application/json%s",
                         large ? ", application/onnx, application/octet-stream or multipart/form-data" : "");
        return false;
    }
    if (req->media != MG_MEDIA_ONNX && !mg_request_known_query(req))
        return false;
    req->gzip = encoding && (!strcasecmp(encoding, "gzip") || !strcasecmp(encoding, "x-gzip"));
    bool plain = !encoding || !strcasecmp(encoding, "identity");
    if (plain || (req->gzip && req->route->body == MG_BODY_LARGE))
        return true;
    mg_reply_problem(req, "unsupported-media", NULL, "the Content-Encoding is not supported here");
    return false;
}

static bool check_length(struct mg_request *req)
{
    const char *text = mg_request_header(req, "Content-Length");
    uint64_t length = text ? strtoull(text, NULL, 10) : 0;
    if (length > body_limit(req)) {
        refuse_size(req);
        return false;
    }
    if (req->http->uploads_bytes + length > req->http->config.limits.uploads_bytes) {
        refuse_all(req);
        return false;
    }
    return true;
}

bool mg_body_begin(struct mg_request *req)
{
    if (req->route->body == MG_BODY_NONE) {
        if (req->has_body)
            mg_reply_problem(req, "unexpected-body", NULL, "this request takes no body");
        return !req->has_body;
    }
    if (!check_type(req) || !check_length(req))
        return false;
    if (req->route->body == MG_BODY_LARGE) {
        req->body_fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (req->body_fd < 0) {
            mg_reply_problem(req, "busy", NULL, "no descriptor or memory for the body: %s", strerror(errno));
            return false;
        }
    }
    return true;
}

static bool write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        size -= (size_t)written;
    }
    return true;
}

static void keep_small(struct mg_request *req, const char *data, size_t size)
{
    if (req->body_size + size + 1 > req->body_capacity) {
        req->body_capacity = 2 * (req->body_size + size + 1);
        req->body = mg_must(realloc(req->body, req->body_capacity));
    }
    memcpy(req->body + req->body_size, data, size);
    req->body[req->body_size + size] = 0;
}

bool mg_body_add(struct mg_request *req, const char *data, size_t size)
{
    struct mg_http *http = req->http;
    mg_metric_add(&http->metrics, MG_METRIC_HTTP_RECEIVED, (double)size);
    if (!req->route || req->body_size + size > body_limit(req)) {
        /* an answer may be queued only at the end, so the rest is read and dropped, within reason */
        if (!req->replied)
            refuse_size(req);
        req->body_size += size;
        return !req->route || req->body_size < 2 * body_limit(req) + (1 << 20);
    }
    if (req->replied)
        return true;
    if (req->route->body == MG_BODY_LARGE) {
        if (http->uploads_bytes + size > http->config.limits.uploads_bytes)
            refuse_all(req);
        else if (!write_all(req->body_fd, data, size))
            mg_reply_problem(req, "busy", NULL, "no memory for the body");
        http->uploads_bytes += size;
        req->body_counted += size;
    } else {
        keep_small(req, data, size);
    }
    req->body_size += size;
    return true;
}

void mg_body_release(struct mg_request *req)
{
    if (req->body_fd >= 0)
        close(req->body_fd);
    req->http->uploads_bytes -= req->body_counted; /* only now: until the answer the body waits for intake */
    req->body_counted = 0;
    req->body_fd = -1;
    free(req->body);
    req->body = NULL;
}

const char *mg_request_body(const struct mg_request *req, size_t *size)
{
    *size = req->body_size;
    return req->body ? req->body : "";
}

int mg_request_take_body(struct mg_request *req, size_t *size, bool *gzip)
{
    int fd = req->body_fd;
    *size = req->body_size;
    *gzip = req->gzip;
    req->body_fd = -1;
    return fd;
}
