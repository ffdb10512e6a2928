/* Members of a request that steer the search: device, limit, budget, techniques, numerics, constraints, baselines. */
#include <stdio.h>
#include <string.h>

#include "server/request_priv.h"
#include "server/timing_parse.h"

/* ---- device, limit, budget ---- */

/* A profile that was PUT (route_device.c writes them). */
static bool read_stored_device(const char *dir, const char *name, struct mg_device *device)
{
    char path[4096], text[16384];
    struct mg_error err;
    if (!dir || !*name || *name == '.' || strchr(name, '/') ||
        snprintf(path, sizeof path, "%s/%s.json", dir, name) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    return mg_device_read(text, size, device, &err) == MG_OK;
}

/* "class:ID" */
static bool read_class(struct mg_request_reader *r, const char *id, struct mg_device *device)
{
    const struct mg_request_rules *rules = r->rules;
    if (strlen(id) != 16 || strspn(id, "0123456789abcdef") != 16)
        return mg_json_fail(r->json, MG_ERR_INVALID,
                            "class: is followed by the 16 hexadecimal digits of a device class");
    if (!rules->class_id || strcmp(rules->class_id, id) != 0) {
        snprintf(r->request->wanted_class, sizeof r->request->wanted_class, "%s", id);
        return mg_json_fail(r->json, MG_ERR_INVALID, "the device class %s is not known here", id);
    }
    if (!mg_timing_profile(rules->device_dir, rules->class_model, device))
        return mg_json_fail(
            r->json, MG_ERR_INVALID,
            "no profile names the device of class %s, \"%.60s\": PUT /devices/NAME one that has it among its "
            "gpu_names",
            id, rules->class_model);
    snprintf(device->gpu_names[0], sizeof device->gpu_names[0], "class:%s", id);
    device->gpu_name_count = 1;
    return true;
}

static bool read_device_name(struct mg_request_reader *r, struct mg_device *device)
{
    const char *name;
    char list[300] = "";
    size_t used = 0;
    if (!mg_json_string(r->json, &name, NULL))
        return false;
    if (strncmp(name, "class:", 6) == 0)
        return read_class(r, name + 6, device);
    const struct mg_device *known = mg_device_builtin(name);
    if (known) {
        *device = *known;
        return true;
    }
    if (read_stored_device(r->rules->device_dir, name, device))
        return true;
    for (uint32_t i = 0; mg_device_at(i) && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", mg_device_at(i)->name);
    return mg_json_fail(
        r->json, MG_ERR_INVALID,
        "unknown device \"%.60s\"; known: %s. For another card take one of these with that card's memory "
        "(memory_bytes, --memory-bytes 24GB), or fit its profile on the card (magisd measure --calibrate "
        "--device cuda:0 -o FILE.json), and give that: --device FILE.json, or PUT /devices/NAME",
        name, list);
}

bool mg_request_read_device(struct mg_request_reader *r, void *into)
{
    const char *text;
    size_t size;
    struct mg_error err;
    if (mg_json_peek(r->json) != MG_JSON_OBJECT)
        return read_device_name(r, into);
    if (!mg_json_skip(r->json, &text, &size))
        return false;
    if (mg_device_read(text, size, into, &err) == MG_OK)
        return true;
    return mg_json_fail(r->json, err.code, "device profile: %s%s%s", err.pointer, *err.pointer ? ": " : "",
                        err.message);
}

bool mg_request_read_timings(struct mg_request_reader *r, void *into)
{
    static const char *const words[] = {"near", "model", "exact"};
    int at = MG_READ_WORD(r, words);
    if (at >= 0)
        *(const char **)into = words[at];
    return at >= 0;
}

bool mg_request_read_limit(struct mg_request_reader *r, void *into)
{
    static const struct mg_request_member members[] = {
        {"latency_ratio", mg_request_read_positive, MG_REQUEST_AT(latency_ratio)},
        {"latency_s", mg_request_read_positive, MG_REQUEST_AT(latency_s)},
        {"memory_bytes", mg_request_read_count, MG_REQUEST_AT(memory_bytes)},
        {"memory_ratio", mg_request_read_positive, MG_REQUEST_AT(memory_ratio)}};
    struct mg_job_request *q = r->request;
    (void)into;
    if (!MG_READ_MEMBERS(r, members))
        return false;
    if (q->latency_ratio > 0 && q->latency_s > 0)
        return mg_json_fail(r->json, MG_ERR_INVALID, "latency_ratio and latency_s exclude each other");
    if (q->memory_bytes > 0 && q->memory_ratio > 0)
        return mg_json_fail(r->json, MG_ERR_INVALID, "memory_bytes and memory_ratio exclude each other");
    return true;
}

bool mg_request_read_reserve(struct mg_request_reader *r, void *into)
{
    r->request->has_reserve = true;
    return mg_request_read_uint(r, into);
}

static bool read_threads(struct mg_request_reader *r, void *into)
{
    uint64_t *threads = into;
    return mg_request_read_count(r, into) && (*threads == 1 || mg_json_fail(r->json, MG_ERR_UNSUPPORTED,
                                                                            "more than one thread is not supported by "
                                                                            "this version"));
}

bool mg_request_read_budget(struct mg_request_reader *r, void *into)
{
    static const struct mg_request_member members[] = {
        {"seconds", mg_request_read_positive, MG_REQUEST_AT(seconds)},
        {"evaluations", mg_request_read_count, MG_REQUEST_AT(evaluations)},
        {"seed", mg_request_read_uint, MG_REQUEST_AT(seed)},
        {"deadline_s", mg_request_read_positive, MG_REQUEST_AT(deadline_s)},
        {"threads", read_threads, MG_REQUEST_AT(threads)}};
    (void)into;
    return MG_READ_MEMBERS(r, members);
}

/* ---- techniques, numerics, constraints ---- */

const char *const mg_request_techniques[MG_REQUEST_TECHNIQUES] = {"fission", "window_fission", "remat",
                                                                  "swap",    "reorder",        "rewrite"};

bool mg_request_read_techniques(struct mg_request_reader *r, void *into)
{
    uint32_t *mask = into;
    const char *key;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        unsigned at = 0;
        bool on;
        while (at < MG_REQUEST_TECHNIQUES && strcmp(mg_request_techniques[at], key) != 0)
            at++;
        if (at == MG_REQUEST_TECHNIQUES)
            return mg_json_fail(r->json, MG_ERR_INVALID, "unknown technique \"%.40s\"", key);
        r->member = mg_request_techniques[at];
        if (!(1u << at == MG_TECHNIQUE_WINDOW_FISSION ? mg_request_refuse_true(r, NULL) : mg_json_bool(r->json, &on)))
            return false;
        if (1u << at != MG_TECHNIQUE_WINDOW_FISSION)
            *mask = on ? *mask | (1u << at) : *mask & ~(1u << at);
    }
    return r->json->err.code == MG_OK;
}

bool mg_request_read_numerics(struct mg_request_reader *r, void *into)
{
    static const char *const words[] = {"reassociate", "exact"};
    int at = MG_READ_WORD(r, words);
    if (at >= 0)
        *(enum mg_numerics *)into = (enum mg_numerics)at;
    return at >= 0;
}

bool mg_request_read_accumulate(struct mg_request_reader *r, void *into)
{
    static const char *const words[] = {"same", "f32"};
    int at = MG_READ_WORD(r, words);
    return at == 1 ? mg_request_refuse(r, into) : at == 0;
}

static bool read_forbid(struct mg_request_reader *r, uint32_t *mask)
{
    if (!mg_json_enter_array(r->json))
        return false;
    while (mg_json_next_element(r->json)) {
        int at = MG_READ_WORD(r, mg_request_techniques);
        if (at < 0)
            return false;
        *mask |= 1u << at;
    }
    return r->json->err.code == MG_OK;
}

static bool read_constraint(struct mg_request_reader *r, struct mg_constraint *out)
{
    const char *key;
    if (!mg_json_enter_object(r->json))
        return false;
    while (mg_json_next_member(r->json, &key)) {
        bool good = strcmp(key, "name") == 0 ? mg_request_read_text(r, &out->pattern)
                    : strcmp(key, "forbid") == 0
                        ? read_forbid(r, &out->forbid)
                        : mg_json_fail(r->json, MG_ERR_INVALID, "unknown member \"%.40s\"; known: name, forbid", key);
        if (!good)
            return false;
    }
    if (r->json->err.code == MG_OK && (!out->pattern || !out->forbid))
        return mg_json_fail(r->json, MG_ERR_INVALID, "a constraint has a name and a list of what it forbids");
    return r->json->err.code == MG_OK;
}

bool mg_request_read_constraints(struct mg_request_reader *r, void *into)
{
    struct mg_job_request *q = r->request;
    (void)into;
    if (!mg_json_enter_array(r->json))
        return false;
    while (mg_json_next_element(r->json)) {
        if (q->constraint_count == 1000)
            return mg_json_fail(r->json, MG_ERR_LIMIT, "more than 1000 constraints");
        if (!read_constraint(r, MG_PUSH(r->arena, q->constraints, q->constraint_count, q->constraint_capacity)))
            return false;
    }
    return r->json->err.code == MG_OK;
}

const char *const mg_request_baselines[MG_REQUEST_BASELINES] = {"sublinear", "microbatch"};
static const char *const later_baselines[] = {"liveness", "inplace", "recursive", "dtr", "rotor", "pofo", "swap-all"};

static bool read_baseline(struct mg_request_reader *r)
{
    struct mg_job_request *q = r->request;
    const char *text;
    if (!mg_json_string(r->json, &text, NULL))
        return false;
    for (size_t i = 0; i < sizeof later_baselines / sizeof later_baselines[0]; i++)
        if (strcmp(text, later_baselines[i]) == 0)
            return mg_json_fail(r->json, MG_ERR_UNSUPPORTED, "baseline \"%s\" is not supported by this version", text);
    for (size_t i = 0; i < MG_REQUEST_BASELINES; i++)
        if (strcmp(text, mg_request_baselines[i]) == 0) {
            if (mg_job_request_wants_baseline(q, text))
                return mg_json_fail(r->json, MG_ERR_INVALID, "baseline \"%s\" is named twice", text);
            *MG_PUSH(r->arena, q->baselines, q->baseline_count, q->baseline_capacity) = mg_request_baselines[i];
            return true;
        }
    return mg_json_fail(r->json, MG_ERR_INVALID, "unknown baseline \"%.40s\"; known: sublinear, microbatch", text);
}

bool mg_request_read_baselines(struct mg_request_reader *r, void *into)
{
    (void)into;
    r->request->has_baselines = true;
    r->request->baseline_count = 0;
    if (!mg_json_enter_array(r->json))
        return false;
    while (mg_json_next_element(r->json))
        if (!read_baseline(r))
            return false;
    return r->json->err.code == MG_OK;
}

bool mg_request_read_priority(struct mg_request_reader *r, void *into)
{
    static const char *const words[] = {"interactive", "normal", "batch"};
    int at = MG_READ_WORD(r, words);
    if (at >= 0)
        *(enum mg_request_priority *)into = (enum mg_request_priority)at;
    return at >= 0;
}
