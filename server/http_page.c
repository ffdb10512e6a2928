/* The page's files: embedded in the binary (embed.sh writes the table at build), or read from a
 * directory while somebody works on them (--web DIR). */
#include "server/http_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"

static const char *media_type(const char *name)
{
    static const char *const types[][2] = {
        {"html", "text/html; charset=utf-8"},
        {"js", "text/javascript; charset=utf-8"},
        {"mjs", "text/javascript; charset=utf-8"},
        {"css", "text/css; charset=utf-8"},
        {"svg", "image/svg+xml"},
        {"png", "image/png"},
        {"ico", "image/x-icon"},
        {"json", "application/json"},
        {"woff2", "font/woff2"},
        {"txt", "text/plain; charset=utf-8"},
    };
    const char *dot = strrchr(name, '.');
    for (size_t k = 0; dot && k < sizeof types / sizeof *types; k++)
        if (!strcmp(dot + 1, types[k][0]))
            return types[k][1];
    return "application/octet-stream";
}

static void set_tag(struct mg_request *req, const void *data, size_t size)
{
    char hex[65];
    mg_sha256_hex(data, size, hex);
    hex[16] = 0;
    mg_reply_etag(req, hex, false);
}

const struct mg_web_file *mg_web_file_find(const char *name)
{
    for (size_t k = 0; k < mg_web_file_count; k++)
        if (strcmp(mg_web_files[k].name, name) == 0)
            return &mg_web_files[k];
    return NULL;
}

static bool serve_embedded(struct mg_request *req, const char *name)
{
    const struct mg_web_file *file = mg_web_file_find(name);
    if (!file || strncmp(name, "clients/", strlen("clients/")) == 0)
        return false;
    size_t size = (size_t)(file->end - file->data);
    set_tag(req, file->data, size);
    mg_reply_static(req, 200, media_type(name), file->data, size);
    return true;
}

/* Below the directory only: no "..", nothing hidden, no absolute path. */
static bool is_tame(const char *name)
{
    return *name && *name != '/' && *name != '.' && !strstr(name, "/.") && !strchr(name, '\\');
}

static char *read_file(const char *path, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    char *data = NULL;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < (16 << 20)) {
        data = mg_must(malloc((size_t)st.st_size + 1));
        ssize_t got = read(fd, data, (size_t)st.st_size);
        *size = got < 0 ? 0 : (size_t)got;
    }
    close(fd);
    return data;
}

static bool serve_from_directory(struct mg_request *req, const char *name)
{
    char path[4096];
    size_t size = 0;
    if (!is_tame(name))
        return false;
    snprintf(path, sizeof path, "%s/%s", req->http->config.web_dir, name);
    char *data = read_file(path, &size);
    if (!data)
        return false;
    set_tag(req, data, size);
    mg_reply_data(req, 200, media_type(name), data, size);
    return true;
}

void mg_page_serve(struct mg_request *req, const char *name)
{
    req->page = true;
    if (!*name)
        name = "index.html";
    bool found = req->http->config.web_dir ? serve_from_directory(req, name) : serve_embedded(req, name);
    if (!found)
        mg_reply_problem(req, "not-found", NULL, "the page has no such file");
}
