/* Device profiles: the built-in ones, and those that were PUT (DIR/devices/NAME.json, read once at
 * the start). A profile is written by a thread of the pool: to a file beside, synced, renamed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/device.h"
#include "server/devices.h"
#include "server/file.h"
#include "server/http_priv.h"
#include "server/log.h"
#include "server/routes.h"
#include "store/timings.h"

enum { MAX_DEVICES = 256, MAX_FILE = 64 << 10 };

struct mg_devices {
    struct mg_device *list;
    size_t count;
};

static bool is_device_name(const char *name)
{
    size_t length = strlen(name);
    return length >= 1 && length < 48 && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == length;
}

static struct mg_device *find_own(struct mg_devices *devices, const char *name)
{
    for (size_t k = 0; k < devices->count; k++)
        if (!strcmp(devices->list[k].name, name))
            return &devices->list[k];
    return NULL;
}

static bool keep(struct mg_devices *devices, const struct mg_device *device)
{
    struct mg_device *known = find_own(devices, device->name);
    if (!known && devices->count == MAX_DEVICES)
        return false;
    if (!known) {
        devices->list = mg_must(realloc(devices->list, (devices->count + 1) * sizeof *devices->list));
        known = &devices->list[devices->count++];
    }
    *known = *device;
    return true;
}

static void load_file(struct mg_devices *devices, int dir, const char *file)
{
    struct mg_device device;
    struct mg_error err = {0};
    char *text = mg_must(malloc(MAX_FILE));
    int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t size = fd < 0 ? -1 : read(fd, text, MAX_FILE);
    if (size > 0 && mg_device_read(text, (size_t)size, &device, &err) == MG_OK)
        keep(devices, &device);
    else
        mg_log(MG_LOG_WARN, "device-profile", "%s is left out: %s", file, err.message);
    if (fd >= 0)
        close(fd);
    free(text);
}

struct mg_devices *mg_devices_load(const char *data_dir)
{
    struct mg_devices *devices = mg_must(calloc(1, sizeof *devices));
    char path[4096];
    snprintf(path, sizeof path, "%s/devices", data_dir ? data_dir : "");
    DIR *dir = data_dir ? opendir(path) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name);
        if (length > 5 && entry->d_name[0] != '.' && !strcmp(entry->d_name + length - 5, ".json"))
            load_file(devices, dirfd(dir), entry->d_name);
    }
    if (dir)
        closedir(dir);
    return devices;
}

void mg_devices_free(struct mg_devices *devices)
{
    free(devices->list);
    free(devices);
}

/* ---- reading ---- */

static void write_entry(struct mg_writer *w, const struct mg_device *device, bool builtin)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", device->name);
    mg_write_member_string(w, "source", builtin ? "built-in" : "user");
    mg_write_member_uint(w, "memory_bytes", device->memory_bytes);
    mg_write_member_uint(w, "reserve_bytes", device->reserve_bytes);
    mg_write_key(w, "profile");
    mg_device_write(w, device);
    mg_write_end_object(w);
}

static void write_class(struct mg_writer *w, const struct mg_timing_class_stats *c)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "id", c->class.id);
    mg_write_member_string(w, "device", c->class.model);
    mg_write_key(w, "key");
    mg_write_raw(w, c->class.key, strlen(c->class.key));
    mg_write_member_int(w, "generation", c->generation);
    mg_write_member_int(w, "rows", c->rows);
    mg_write_member_int(w, "operators", c->signatures);
    mg_write_member_int(w, "suspects", c->suspects);
    mg_write_member_int(w, "drifting", c->drifting);
    mg_write_member_int(w, "failures", c->failures);
    mg_write_member_int(w, "wanted", c->wanted);
    mg_write_member_int(w, "settled", c->settled);
    mg_write_member_int(w, "oldest_at", c->oldest_at);
    mg_write_member_int(w, "newest_at", c->newest_at);
    mg_write_end_object(w);
}

static void write_devices(struct mg_writer *w, const struct mg_devices *devices, const struct mg_store_timings *t)
{
    const struct mg_device *device;
    mg_write_begin_object(w);
    mg_write_key(w, "devices");
    mg_write_begin_array(w);
    for (uint32_t k = 0; (device = mg_device_at(k)); k++)
        write_entry(w, device, true);
    for (size_t k = 0; k < devices->count; k++)
        write_entry(w, &devices->list[k], false);
    mg_write_end_array(w);
    mg_write_key(w, "classes");
    mg_write_begin_array(w);
    for (size_t k = 0; t && k < t->n_classes; k++)
        write_class(w, &t->classes[k]);
    mg_write_end_array(w);
    mg_write_end_object(w);
}

struct listing {
    struct mg_http *http;
    struct mg_request *req; /* NULL: the asker has gone */
};

static void leave_listing(void *state)
{
    ((struct listing *)state)->req = NULL;
}

static void on_classes(void *context, const struct mg_store_result *result)
{
    struct listing *listing = context;
    struct mg_writer w;
    if (listing->req) {
        mg_request_keep(listing->req, NULL, NULL);
        mg_writer_init(&w);
        write_devices(&w, listing->http->devices, result->timings);
        mg_reply_json(listing->req, 200, &w);
    }
    free(listing);
}

void mg_route_devices(struct mg_request *req)
{
    struct mg_writer w;
    if (!req->http->config.store) {
        mg_writer_init(&w);
        write_devices(&w, req->http->devices, NULL);
        mg_reply_json(req, 200, &w);
        return;
    }
    struct listing *listing = mg_must(calloc(1, sizeof *listing));
    *listing = (struct listing){req->http, req};
    mg_request_keep(req, listing, leave_listing);
    mg_store_list_classes(req->http->config.store, on_classes, listing);
}

void mg_route_device(struct mg_request *req)
{
    const char *name = mg_request_part(req, 0);
    const struct mg_device *builtin = mg_device_builtin(name);
    const struct mg_device *device = builtin ? builtin : find_own(req->http->devices, name);
    struct mg_writer w;
    if (!device) {
        mg_reply_problem(req, "not-found", NULL, "there is no such device profile; GET /devices lists them");
        return;
    }
    mg_writer_init(&w);
    write_entry(&w, device, builtin != NULL);
    mg_reply_json(req, 200, &w);
}

/* ---- storing ---- */

struct put {
    uv_work_t work;
    struct mg_http *http;
    struct mg_request *req; /* NULL: the asker has gone */
    struct mg_device device;
    struct mg_writer text;
    char error[160];
};

static bool write_beside(int dir, const char *name, const struct mg_writer *text)
{
    char file[80], beside[80];
    snprintf(file, sizeof file, "%s.json", name);
    snprintf(beside, sizeof beside, ".%s.new", name);
    int fd = openat(dir, beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return false;
    bool fine = mg_write_all(fd, text->data, text->size) && fsync(fd) == 0;
    fine = close(fd) == 0 && fine && renameat(dir, beside, dir, file) == 0 && fsync(dir) == 0;
    if (!fine)
        unlinkat(dir, beside, 0);
    return fine;
}

static void write_file(uv_work_t *work)
{
    struct put *put = work->data;
    char path[4096];
    snprintf(path, sizeof path, "%s/devices", put->http->config.data_dir);
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        snprintf(put->error, sizeof put->error, "%s", strerror(errno));
        return;
    }
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || !write_beside(dir, put->device.name, &put->text))
        snprintf(put->error, sizeof put->error, "%s", strerror(errno));
    if (dir >= 0)
        close(dir);
}

static void free_put(struct put *put)
{
    mg_writer_release(&put->text);
    free(put);
}

static void on_written(uv_work_t *work, int status)
{
    struct put *put = work->data;
    struct mg_request *req = put->req;
    if (status != 0)
        snprintf(put->error, sizeof put->error, "%s", uv_strerror(status));
    if (req)
        mg_request_keep(req, NULL, NULL);
    if (*put->error) {
        mg_log(MG_LOG_ERROR, "device-profile", "%s was not stored: %s", put->device.name, put->error);
        if (req)
            mg_reply_problem(req, "store-failed", NULL, "the profile was not stored");
    } else if (req) { /* without an asker the daemon is stopping, and reads the file at its next start */
        keep(put->http->devices, &put->device);
        mg_route_device(req);
    }
    free_put(put);
}

static void abandon(void *state)
{
    struct put *put = state;
    put->req = NULL;
}

static bool check_put(struct mg_request *req, const char *name)
{
    const struct mg_devices *devices = req->http->devices;
    if (!is_device_name(name))
        mg_reply_problem(req, "invalid-request", NULL, "a name is 1 to 47 of a-z 0-9 - _ . and begins with no dot");
    else if (mg_device_builtin(name))
        mg_reply_problem(req, "conflict", NULL, "%s is a built-in profile; choose another name", name);
    else if (!find_own(req->http->devices, name) && devices->count == MAX_DEVICES)
        mg_reply_problem(req, "conflict", NULL, "there are %d profiles already", MAX_DEVICES);
    else if (!req->http->config.data_dir)
        mg_reply_problem(req, "store-failed", NULL, "the daemon has no data directory");
    else
        return true;
    return false;
}

void mg_route_device_put(struct mg_request *req)
{
    const char *name = mg_request_part(req, 0);
    struct mg_device device;
    struct mg_error err = {0};
    size_t size;
    const char *body = mg_request_body(req, &size);
    if (!check_put(req, name))
        return;
    if (mg_device_read(body, size, &device, &err) != MG_OK) {
        mg_reply_problem(req, err.code == MG_ERR_SYNTAX ? "invalid-json" : "invalid-request", err.pointer, "%s",
                         err.message);
        return;
    }
    if (strcmp(device.name, name) != 0) {
        mg_reply_problem(req, "invalid-request", "/name", "the profile's name is %s, the path says %s", device.name,
                         name);
        return;
    }
    struct put *put = mg_must(calloc(1, sizeof *put));
    put->http = req->http;
    put->req = req;
    put->device = device;
    put->work.data = put;
    mg_writer_init(&put->text);
    mg_device_write(&put->text, &device);
    mg_must(mg_writer_finish(&put->text) ? put->text.data : NULL);
    mg_request_keep(req, put, abandon);
    uv_queue_work(req->http->config.loop, &put->work, write_file, on_written);
}
