/* The request as it is kept, and the digest of what steers. */
#include <string.h>

#include "base/digest.h"
#include "server/request_priv.h"
#include "server/version.h"

static void write_text(struct mg_writer *w, const char *key, const char *text)
{
    if (text)
        mg_write_member_string(w, key, text);
}

static void write_budget(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "budget");
    mg_write_begin_object(w);
    if (q->deadline_s > 0)
        mg_write_member_double(w, "deadline_s", q->deadline_s);
    if (q->evaluations)
        mg_write_member_uint(w, "evaluations", q->evaluations);
    if (q->seconds > 0)
        mg_write_member_double(w, "seconds", q->seconds);
    mg_write_member_uint(w, "seed", q->seed);
    mg_write_member_uint(w, "threads", q->threads);
    mg_write_end_object(w);
}

static void write_technique_names(struct mg_writer *w, uint32_t mask)
{
    mg_write_begin_array(w);
    for (unsigned i = 0; i < MG_REQUEST_TECHNIQUES; i++)
        if (mask & (1u << i))
            mg_write_string(w, mg_request_techniques[i]);
    mg_write_end_array(w);
}

static void write_constraints(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "constraints");
    mg_write_begin_array(w);
    for (size_t i = 0; i < q->constraint_count; i++) {
        mg_write_begin_object(w);
        mg_write_key(w, "forbid");
        write_technique_names(w, q->constraints[i].forbid);
        mg_write_member_string(w, "name", q->constraints[i].pattern);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

static bool is_builtin(const struct mg_device *device)
{
    struct mg_writer a, b;
    const struct mg_device *known = mg_device_builtin(device->name);
    if (!known)
        return false;
    mg_writer_init(&a);
    mg_writer_init(&b);
    mg_device_write(&a, device);
    mg_device_write(&b, known);
    bool equal = mg_writer_finish(&a) && mg_writer_finish(&b) && strcmp(a.data, b.data) == 0;
    mg_writer_release(&a);
    mg_writer_release(&b);
    return equal;
}

static void write_device(struct mg_writer *w, const struct mg_device *device)
{
    mg_write_key(w, "device");
    if (is_builtin(device))
        mg_write_string(w, device->name);
    else
        mg_device_write(w, device);
}

static void write_labels(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "labels");
    mg_write_begin_object(w);
    for (size_t i = 0; i < q->label_count; i++)
        mg_write_member_string(w, q->labels[i].key, q->labels[i].value);
    mg_write_end_object(w);
}

static void write_limit(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "limit");
    mg_write_begin_object(w);
    if (q->latency_ratio > 0)
        mg_write_member_double(w, "latency_ratio", q->latency_ratio);
    if (q->latency_s > 0)
        mg_write_member_double(w, "latency_s", q->latency_s);
    if (q->memory_bytes)
        mg_write_member_uint(w, "memory_bytes", q->memory_bytes);
    if (q->memory_ratio > 0)
        mg_write_member_double(w, "memory_ratio", q->memory_ratio);
    mg_write_end_object(w);
}

static void write_techniques(struct mg_writer *w, uint32_t mask)
{
    mg_write_key(w, "techniques");
    mg_write_begin_object(w);
    for (unsigned i = 0; i < MG_REQUEST_TECHNIQUES; i++)
        mg_write_member_bool(w, mg_request_techniques[i], mask & (1u << i));
    mg_write_end_object(w);
}

static void write_training(struct mg_writer *w, const struct mg_training *training)
{
    mg_write_key(w, "training");
    mg_write_begin_object(w);
    mg_write_member_string(w, "loss", mg_request_losses[training->loss]);
    mg_write_member_string(w, "optimizer", mg_request_optimizers[training->optimizer]);
    if (training->trainable) {
        mg_write_key(w, "trainable");
        mg_write_begin_array(w);
        for (uint32_t i = 0; i < training->trainable_count; i++)
            mg_write_string(w, training->trainable[i]);
        mg_write_end_array(w);
    }
    mg_write_end_object(w);
}

static void write_zoo(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "zoo");
    mg_write_begin_object(w);
    mg_write_member_string(w, "model", q->model);
    for (size_t i = 0; i < q->option_count; i++)
        mg_write_member_string(w, q->options[i].name, q->options[i].value);
    mg_write_end_object(w);
}

static void write_baselines(struct mg_writer *w, const struct mg_job_request *q)
{
    mg_write_key(w, "baselines");
    mg_write_begin_array(w);
    for (size_t i = 0; i < q->baseline_count; i++)
        mg_write_string(w, q->baselines[i]);
    mg_write_end_array(w);
}

static void write_symbols(struct mg_writer *w, const struct mg_job_request *q)
{
    if (!q->symbol_count)
        return;
    mg_write_key(w, "symbols");
    mg_write_begin_object(w);
    for (size_t i = 0; i < q->symbol_count; i++)
        mg_write_member_int(w, q->symbols[i].name, q->symbols[i].value);
    mg_write_end_object(w);
}

void mg_job_request_write(struct mg_writer *w, const struct mg_job_request *q)
{
    static const char *const priorities[] = {"interactive", "normal", "batch"};
    static const char *const numerics[] = {"reassociate", "exact"};
    mg_write_begin_object(w);
    write_baselines(w, q);
    write_budget(w, q);
    write_constraints(w, q);
    write_device(w, &q->device);
    mg_write_member_bool(w, "fresh", q->fresh);
    if (q->host_memory_bytes)
        mg_write_member_uint(w, "host_memory_bytes", q->host_memory_bytes);
    write_labels(w, q);
    write_limit(w, q);
    write_text(w, "name", q->name);
    mg_write_member_string(w, "numerics", numerics[q->numerics]);
    mg_write_member_string(w, "priority", priorities[q->priority]);
    mg_write_member_bool(w, "require_measured", q->require_measured);
    mg_write_member_uint(w, "reserve_bytes", q->reserve_bytes);
    write_symbols(w, q);
    write_techniques(w, q->techniques);
    mg_write_member_string(w, "timings", q->timings);
    if (q->has_training)
        write_training(w, &q->training);
    if (q->model)
        write_zoo(w, q);
    mg_write_end_object(w);
}

/* Everything else of the request steers the search; these do not. */
static void write_steering(struct mg_writer *w, const struct mg_job_request *request)
{
    struct mg_job_request q = *request;
    q.name = NULL;
    q.label_count = 0;
    q.model = NULL;
    q.has_training = false; /* in the graph already */
    q.symbol_count = 0;
    q.priority = MG_REQUEST_NORMAL;
    q.fresh = false;
    q.deadline_s = 0;
    q.seconds = 0;
    mg_write_begin_object(w);
    mg_write_key(w, "device");
    mg_device_write(w, &q.device);
    mg_write_key(w, "request");
    mg_job_request_write(w, &q);
    mg_write_member_int(w, "optimizer", MG_OPTIMIZER_VERSION);
    mg_write_end_object(w);
}

enum mg_code mg_job_request_digest(const struct mg_job_request *request, char out[65], struct mg_error *err)
{
    struct mg_writer w;
    enum mg_code code = MG_OK;
    mg_writer_init(&w);
    write_steering(&w, request);
    if (mg_writer_finish(&w))
        mg_sha256_hex(w.data, w.size, out);
    else
        code = mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
    mg_writer_release(&w);
    return code;
}
