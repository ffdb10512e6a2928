#include "server/local_timings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/owner.h"
#include "store/timings.h"

struct choice {
    const struct mg_device *device;
    char class_id[20];
    int snapshot; /* or -1 */
    int64_t generation, signatures;
};

/* Where a class is named, others of the same model do not count. */
static bool names(const struct mg_device *device, const struct mg_timing_class *class)
{
    bool by_class = false;
    for (uint32_t i = 0; i < device->gpu_name_count; i++) {
        const char *name = device->gpu_names[i];
        bool is_class = strncmp(name, "class:", 6) == 0;
        if (strcmp(is_class ? name + 6 : name, is_class ? class->id : class->model) == 0)
            return true;
        by_class = by_class || is_class;
    }
    return !by_class && strcmp(device->name, class->model) == 0;
}

static void on_classes(void *context, const struct mg_store_result *result)
{
    struct choice *choice = context;
    const struct mg_store_timings *t = result->timings;
    for (size_t i = 0; t && i < t->n_classes; i++) {
        const struct mg_timing_class_stats *c = &t->classes[i];
        choice->generation = c->generation > choice->generation ? c->generation : choice->generation;
        if (!names(choice->device, &c->class) || c->signatures <= choice->signatures)
            continue;
        choice->signatures = c->signatures;
        snprintf(choice->class_id, sizeof choice->class_id, "%s", c->class.id);
    }
}

static void on_snapshot(void *context, const struct mg_store_result *result)
{
    struct choice *choice = context;
    if (result->code == MG_STORE_OK)
        choice->snapshot = fcntl(result->fd, F_DUPFD_CLOEXEC, 3);
    else
        fprintf(stderr, "magisd: no snapshot of the timings: %s\n", result->message);
}

static void wait_for(mg_store *store)
{
    while (mg_store_pending(store)) {
        mg_store_poll(store);
        usleep(500);
    }
}

static bool map(struct mg_local_timings *local, const char *dir, int fd)
{
    struct mg_error err = {0};
    if (!mg_file_map(&local->snapshot, fd)) {
        fprintf(stderr, "magisd: %s: the snapshot of the timings cannot be read\n", dir);
        return false;
    }
    if (mg_timings_open(local->snapshot.data, local->snapshot.size, &local->timings, &err) != MG_OK) {
        fprintf(stderr, "magisd: %s: %s\n", dir, err.message);
        return false;
    }
    return true;
}

static mg_store *open_store(const char *dir)
{
    const struct mg_store_config config = {.dir = dir, .read_only = true};
    mg_store *store;
    char message[4400], file[4096];
    bool fits = snprintf(file, sizeof file, "%s/store.db", dir) < (int)sizeof file;
    if (fits && access(file, R_OK) != 0 && errno == EACCES && mg_owner_explain(file, R_OK, message, sizeof message)) {
        fprintf(stderr, "magisd: --data %s: %s: ask its owner to let you read it, or run this as that user\n", dir,
                message);
        return NULL;
    }
    if (!fits || access(file, R_OK) != 0) {
        fprintf(stderr, "magisd: --data %s: no daemon or agent has kept anything there\n", dir);
        return NULL;
    }
    if (mg_store_open(&store, &config, message, sizeof message) != MG_STORE_OK) {
        fprintf(stderr, "magisd: --data %s: %s\n", dir, message);
        return NULL;
    }
    return store;
}

bool mg_local_timings_open(struct mg_local_timings *local, const char *dir, const struct mg_device *device)
{
    struct choice choice = {.device = device, .snapshot = -1};
    *local = (struct mg_local_timings){.snapshot = {NULL, 0, NULL}};
    mg_store *store = open_store(dir);
    if (!store)
        return false;
    mg_store_list_classes(store, on_classes, &choice);
    wait_for(store);
    if (choice.signatures > 0)
        mg_store_snapshot(store, choice.class_id, choice.generation, on_snapshot, &choice);
    wait_for(store);
    mg_store_close(store);
    if (choice.signatures == 0)
        fprintf(stderr, "magisd: --data %s: nothing was measured on %s; prices are modelled\n", dir, device->name);
    bool good = choice.signatures == 0 || (choice.snapshot >= 0 && map(local, dir, choice.snapshot));
    if (choice.snapshot >= 0)
        close(choice.snapshot);
    return good;
}

void mg_local_timings_release(struct mg_local_timings *local)
{
    mg_file_close(&local->snapshot);
}

struct naming {
    char *model;
    size_t size;
};

static void on_class(void *context, const struct mg_store_result *result)
{
    struct naming *naming = context;
    if (result->code == MG_STORE_OK && result->timings && result->timings->class.id)
        snprintf(naming->model, naming->size, "%s", result->timings->class.model);
}

bool mg_local_timings_class(const char *dir, const char *class_id, char *model, size_t size)
{
    struct naming naming = {model, size};
    char models[64];
    mg_store *store = open_store(dir);
    if (!store)
        return false;
    *model = '\0';
    snprintf(models, sizeof models, "[\"class:%.16s\"]", class_id);
    mg_store_pick_class(store, "", models, on_class, &naming);
    wait_for(store);
    mg_store_close(store);
    if (!*model)
        fprintf(stderr,
                "magisd: --device class:%.16s: no such class was measured in %s (magisd timings stats --data %s lists "
                "those that were)\n",
                class_id, dir, dir);
    return *model != '\0';
}
