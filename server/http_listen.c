/* The listening socket: HOST:PORT, [V6]:PORT, or unix:PATH. Port 0 takes a free one. */
#include "server/http_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static int fail(struct mg_error *err, int fd, const char *what)
{
    (void)mg_fail(err, MG_ERR_INVALID, "", "%s: %s", what, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A socket file that nobody answers on is left over from a crash; one that answers is not ours, and no other file. */
static enum mg_code remove_stale(const struct sockaddr_un *address, struct mg_error *err)
{
    struct stat st;
    if (lstat(address->sun_path, &st) != 0)
        return MG_OK;
    if (!S_ISSOCK(st.st_mode))
        return mg_fail(err, MG_ERR_INVALID, "",
                       "--listen unix:%s: there is a file that is no socket; give another path", address->sun_path);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool alive = probe >= 0 && connect(probe, (const struct sockaddr *)address, sizeof *address) == 0;
    if (probe >= 0)
        close(probe);
    if (alive)
        return mg_fail(err, MG_ERR_INVALID, "", "%s is in use", address->sun_path);
    if (unlink(address->sun_path) == 0)
        return MG_OK;
    return mg_fail(err, MG_ERR_INVALID, "", "%s: a socket of an earlier run cannot be removed: %s", address->sun_path,
                   strerror(errno));
}

static enum mg_code check_unix(const char *path, struct mg_error *err)
{
    size_t most = sizeof((struct sockaddr_un){0}).sun_path - 1;
    if (*path && strlen(path) <= most)
        return MG_OK;
    return mg_fail(err, MG_ERR_INVALID, "", "--listen unix:PATH: the path is %s", *path ? "too long" : "missing");
}

static int listen_unix(struct mg_http *http, const char *path, struct mg_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (check_unix(path, err) != MG_OK)
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (remove_stale(&address, err) != MG_OK)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0)
        return fail(err, fd, path);
    http->local = true; /* who may connect is up to the file's permissions */
    http->unix_path = mg_must(strdup(path));
    snprintf(http->address, sizeof http->address, "unix:%s", path);
    return fd;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24) == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static void remember_address(struct mg_http *http, int fd)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char host[INET6_ADDRSTRLEN] = "", port[8] = "";
    memset(&bound, 0, sizeof bound);
    getsockname(fd, (struct sockaddr *)&bound, &size);
    getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(http->address, sizeof http->address, bound.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static int fail_bind(struct mg_error *err, int fd, const char *listen)
{
    if (errno != EADDRINUSE)
        return fail(err, fd, listen);
    close(fd);
    (void)mg_fail(err, MG_ERR_INVALID, "",
                  "%s is in use: end the program that listens there, or give another port: --listen %.*s:OTHER", listen,
                  (int)(strrchr(listen, ':') - listen), listen);
    return -1;
}

static int listen_inet(struct mg_http *http, const struct addrinfo *info, struct mg_error *err)
{
    int yes = 1;
    http->local = is_loopback(info->ai_addr);
    if (!http->local && !http->config.insecure && !mg_tokens_exist(http->tokens)) {
        (void)mg_fail(err, MG_ERR_INVALID, "",
                      "--listen %s: an address beyond this machine needs a token (magisd token add) or --insecure",
                      http->listen);
        return -1;
    }
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(err, fd, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
        return fail_bind(err, fd, http->listen);
    remember_address(http, fd);
    return fd;
}

/* "HOST:PORT" or "[V6]:PORT" in two. */
static bool split_address(const char *text, char *host, size_t host_size, const char **port)
{
    const char *colon = strrchr(text, ':');
    if (!colon || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        strtol(colon + 1, NULL, 10) > 65535)
        return false;
    size_t length = (size_t)(colon - text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return false;
    }
    if (length == 0 || length >= host_size)
        return false;
    memcpy(host, text, length);
    host[length] = 0;
    *port = colon + 1;
    return true;
}

/* NULL: err says why. */
static struct addrinfo *resolve(const char *listen, struct mg_error *err)
{
    char host[256];
    const char *port;
    struct addrinfo *info = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    if (!split_address(listen, host, sizeof host, &port)) {
        (void)mg_fail(err, MG_ERR_INVALID, "", "--listen %s: expected HOST:PORT, [V6]:PORT or unix:PATH", listen);
        return NULL;
    }
    int status = getaddrinfo(host, port, &hints, &info);
    if (status == 0)
        return info;
    (void)mg_fail(err, MG_ERR_INVALID, "", "--listen %s: %s", listen, gai_strerror(status));
    return NULL;
}

enum mg_code mg_http_check_listen(const char *listen, struct mg_error *err)
{
    if (strncmp(listen, "unix:", 5) == 0)
        return check_unix(listen + 5, err);
    struct addrinfo *info = resolve(listen, err);
    if (!info)
        return MG_ERR_INVALID;
    freeaddrinfo(info);
    return MG_OK;
}

int mg_listen_open(struct mg_http *http, struct mg_error *err)
{
    if (strncmp(http->listen, "unix:", 5) == 0)
        return listen_unix(http, http->listen + 5, err);
    struct addrinfo *info = resolve(http->listen, err);
    if (!info)
        return -1;
    int fd = listen_inet(http, info, err);
    freeaddrinfo(info);
    return fd;
}
