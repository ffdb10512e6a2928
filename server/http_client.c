#include "server/http_client.h"

#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/json.h"

enum { MOST_BYTES = 256 << 20 };

struct place {
    char host[256], port[8], prefix[256];
    const char *unix_path;
};

static bool read_place(const char *server, struct place *at)
{
    memset(at, 0, sizeof *at);
    if (strncmp(server, "unix:", 5) == 0) {
        at->unix_path = server + 5;
        snprintf(at->host, sizeof at->host, "localhost");
        return true;
    }
    const char *start = strncmp(server, "http://", 7) == 0 ? server + 7 : NULL;
    if (!start)
        return false;
    size_t length = strcspn(start, "/");
    const char *colon = memchr(start, ':', length);
    if (*start == '[') {
        const char *end = memchr(start, ']', length);
        colon = end && end[1] == ':' ? end + 1 : NULL;
    }
    size_t host = colon ? (size_t)(colon - start) : length;
    if (host == 0 || host >= sizeof at->host || (colon && length - host - 1 >= sizeof at->port))
        return false;
    memcpy(at->host, start, host);
    snprintf(at->port, sizeof at->port, "%.*s", colon ? (int)(length - host - 1) : 2, colon ? colon + 1 : "80");
    size_t prefix = strlen(start + length);
    while (prefix && start[length + prefix - 1] == '/')
        prefix--;
    snprintf(at->prefix, sizeof at->prefix, "%.*s", (int)prefix, start + length);
    return true;
}

static void set_timeout(int fd, unsigned seconds)
{
    struct timeval time = {.tv_sec = seconds ? seconds : 60};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int connect_inet(const struct place *at, unsigned timeout_s)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char host[256];
    size_t length = strlen(at->host);
    bool bracketed = at->host[0] == '[' && length > 2;
    snprintf(host, sizeof host, "%.*s", (int)(bracketed ? length - 2 : length), at->host + bracketed);
    if (getaddrinfo(host, at->port, &hints, &list) != 0)
        return -1;
    int fd = -1;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0)
            continue;
        set_timeout(fd, timeout_s);
        if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static bool send_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool send_request(int fd, const struct mg_call_http *call, const struct place *at)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_text(&w, "%s %s%s HTTP/1.1\r\nHost: %s%s%s\r\nConnection: close\r\nAccept: */*\r\n", call->method,
                  at->prefix, call->path, at->host, *at->port ? ":" : "", at->port);
    if (call->token)
        mg_write_text(&w, "Authorization: Bearer %s\r\n", call->token);
    if (call->body)
        mg_write_text(&w, "Content-Type: %s\r\nContent-Length: %zu\r\n", call->media_type, call->body_size);
    mg_write_text(&w, "\r\n");
    bool good = mg_writer_finish(&w) && send_all(fd, w.data, w.size) &&
                (!call->body || send_all(fd, call->body, call->body_size));
    mg_writer_release(&w);
    return good;
}

/* All until the peer closes; NULL: it broke off. */
static char *receive(int fd, size_t *size)
{
    size_t capacity = 0;
    char *data = NULL;
    *size = 0;
    for (;;) {
        if (*size + 65536 > capacity) {
            capacity = 2 * capacity + (128 << 10);
            char *larger = capacity <= MOST_BYTES ? realloc(data, capacity) : NULL;
            if (!larger)
                break;
            data = larger;
        }
        ssize_t got = recv(fd, data + *size, capacity - *size - 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0 && *size) {
            data[*size] = '\0';
            return data;
        }
        if (got <= 0)
            break;
        *size += (size_t)got;
    }
    free(data);
    return NULL;
}

/* The daemon gives every answer its length. */
static bool take_apart(char *data, size_t size, struct mg_answer_http *answer)
{
    char *end = strstr(data, "\r\n\r\n"), *length = NULL;
    if (!end || strncmp(data, "HTTP/1.", 7) != 0 || data[8] != ' ')
        return false;
    char *digits = data + 9, *rest;
    long status = strtol(digits, &rest, 10);
    if (rest != digits + 3)
        return false;
    *end = '\0';
    for (char *line = strstr(data, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, "Content-Length:", 15) == 0)
            length = line + 17;
    size_t head = (size_t)(end + 4 - data);
    if (length && strtoull(length, NULL, 10) != size - head)
        return false;
    answer->status = (int)status;
    answer->size = size - head;
    memmove(data, end + 4, answer->size + 1);
    answer->body = data;
    return true;
}

static void say(struct mg_answer_http *answer, const char *text)
{
    free(answer->body);
    *answer = (struct mg_answer_http){0, strdup(text), strlen(text)};
    if (!answer->body)
        abort();
}

void mg_http_call(const struct mg_call_http *call, struct mg_answer_http *answer)
{
    struct place at;
    size_t size;
    memset(answer, 0, sizeof *answer);
    if (!read_place(call->server, &at)) {
        say(answer, "the server is http://HOST:PORT or unix:PATH (TLS belongs to a proxy on this host)");
        return;
    }
    int fd = at.unix_path ? connect_unix(at.unix_path) : connect_inet(&at, call->timeout_s);
    if (fd < 0) {
        char text[300];
        snprintf(text, sizeof text, "%.200s cannot be reached; is \"magisd serve\" running there?", call->server);
        say(answer, text);
        return;
    }
    set_timeout(fd, call->timeout_s);
    /* an early refusal may close the way in: its answer is read all the same */
    bool sent = send_request(fd, call, &at);
    char *data = receive(fd, &size);
    close(fd);
    if (!data || !take_apart(data, size, answer)) {
        free(data);
        say(answer, sent ? "the server gave no whole answer" : "the connection broke");
    }
}

char *mg_http_problem(const struct mg_answer_http *answer)
{
    json_t *root = answer->status ? json_loads(answer->body, 0, NULL) : NULL;
    const char *detail = json_string_value(json_object_get(root, "detail"));
    int size = detail ? (int)strlen(detail) : (int)strcspn(answer->body, "\r\n");
    char *text;
    if (asprintf(&text, "%.*s%s", size, detail ? detail : answer->body,
                 answer->status == 401 ? " (--token, or MAGISD_TOKEN)" : "") < 0)
        abort();
    json_decref(root);
    return text;
}
