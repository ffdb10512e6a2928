/* The front that the search reports point by point: plans go to the spool, every two seconds the thinned front is
 * published: first the points that are new, then the list. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "search/limits.h"
#include "server/answer.h"
#include "server/clock.h"
#include "server/file.h"
#include "server/plan_blob.h"
#include "server/worker.h"
#include "server/worker_priv.h"

static const double batch_seconds = 2;

static double measured_share(const struct mg_plan *plan)
{
    double shares[MG_PRICE_SOURCES];
    mg_plan_price_shares(plan, shares);
    return shares[MG_PRICE_EXACT] + shares[MG_PRICE_NEAR];
}

/* Does every operator of the plan have a measured price? */
static bool is_measured(const struct mg_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        for (uint32_t k = 0; plan->steps[i].kind == MG_STEP_COMPUTE && k < plan->steps[i].price_count; k++)
            if (plan->prices[plan->refs[plan->steps[i].price + k]].source < MG_PRICE_NEAR)
                return false;
    return true;
}

/* The point's own plan may be gone: what is asked of it was kept when it was spooled. */
struct mg_front_point mg_worker_front_point(const struct mg_point *point, const struct mg_worker_spooled *entry)
{
    struct mg_front_point out = {.latency_s = point->figures.latency_s,
                                 .peak_bytes = point->figures.peak_bytes,
                                 .arena_bytes = point->figures.arena_bytes,
                                 .host_bytes = point->figures.host_bytes,
                                 .techniques = point->techniques,
                                 .measured_share = entry->measured_share};
    memcpy(out.id, point->id, sizeof out.id);
    return out;
}

static struct mg_worker_spooled *find_spooled(const struct mg_worker_run *run, const char *id)
{
    for (size_t i = 0; i < run->spooled_count; i++)
        if (memcmp(run->spooled[i].id, id, 16) == 0)
            return &run->spooled[i];
    return NULL;
}

static struct mg_worker_spooled *new_spooled(struct mg_worker_run *run)
{
    if (run->spooled_count == run->spooled_capacity) {
        size_t capacity = run->spooled_capacity * 2 + 64;
        struct mg_worker_spooled *larger = realloc(run->spooled, capacity * sizeof *larger);
        if (!larger)
            return NULL;
        run->spooled = larger;
        run->spooled_capacity = capacity;
    }
    return &run->spooled[run->spooled_count++];
}

/* ---- what breaks it ---- */

static void break_off(struct mg_worker_run *run, const char *code)
{
    run->broken = true;
    run->why_code = code;
}

static void break_of_memory(struct mg_worker_run *run)
{
    break_off(run, mg_code_name(mg_fail(&run->why, MG_ERR_NOMEM, "", "out of memory for what the search found")));
}

/* Plans that cannot be written to the spool are lost. */
static void break_of_spool(struct mg_worker_run *run, int error)
{
    bool full = error == EFBIG;
    (void)mg_fail(&run->why, MG_ERR_INTERNAL, "",
                  "the plans that the search found could not be written to the data directory's spool: %s; %s; the "
                  "plans shown so far are kept",
                  strerror(error), full ? "one job's plans take more than it may hold" : "free space on its disk");
    break_off(run, full ? MG_WORKER_SPOOL_FULL : MG_WORKER_NO_SPOOL);
}

/* ---- the spool ---- */

/* Appends the point's plan to the spool unless it is there. */
const struct mg_worker_spooled *mg_worker_spool(struct mg_worker_run *run, const struct mg_point *point)
{
    unsigned char *blob;
    size_t size;
    struct mg_worker_spooled *entry = find_spooled(run, point->id);
    if (entry || run->broken)
        return entry;
    if (mg_plan_pack(point->plan, &blob, &size, &run->why) != MG_OK) {
        break_off(run, mg_code_name(run->why.code));
        return NULL;
    }
    entry = new_spooled(run);
    if (entry && mg_write_all(MG_WORKER_SPOOL, blob, size)) {
        *entry = (struct mg_worker_spooled){.offset = run->spool_at,
                                            .length = size,
                                            .crc = crc32(0, blob, (uInt)size),
                                            .measured_share = measured_share(point->plan),
                                            .measured = is_measured(point->plan)};
        memcpy(entry->id, point->id, sizeof entry->id);
        run->spool_at += size;
    } else if (entry) {
        break_of_spool(run, errno);
        run->spooled_count--;
    } else {
        break_of_memory(run);
    }
    free(blob);
    return run->broken ? NULL : entry;
}

static void write_figures(struct mg_writer *w, const struct mg_front_point *point)
{
    char techniques[MG_TECHNIQUES_TEXT];
    mg_answer_techniques(point->techniques, techniques);
    mg_write_member_string(w, "plan", point->id);
    mg_write_member_double(w, "latency_s", point->latency_s);
    mg_write_member_uint(w, "peak_bytes", point->peak_bytes);
    mg_write_member_uint(w, "arena_bytes", point->arena_bytes);
    mg_write_member_uint(w, "host_bytes", point->host_bytes);
    mg_write_member_uint(w, "techniques", point->techniques);
    mg_write_member_double(w, "measured_share", point->measured_share);
}

void mg_worker_send_point(struct mg_worker_run *run, const char *type, const char *series,
                          const struct mg_front_point *point)
{
    struct mg_writer w;
    struct mg_worker_spooled *entry = find_spooled(run, point->id);
    if (!entry)
        return;
    mg_worker_begin_line(&w, type);
    if (series)
        mg_write_member_string(&w, "series", series);
    write_figures(&w, point);
    mg_write_member_uint(&w, "offset", entry->offset);
    mg_write_member_uint(&w, "length", entry->length);
    mg_write_member_uint(&w, "crc", entry->crc);
    mg_worker_end_line(run, &w);
    entry->sent |= !series;
}

void mg_worker_publish(struct mg_worker_run *run, bool final)
{
    struct mg_front_point *points = malloc((run->count + 1) * sizeof *points);
    struct mg_writer w;
    if (!points) {
        break_of_memory(run);
        return;
    }
    if (run->count)
        memcpy(points, run->front, run->count * sizeof *points);
    size_t count = mg_pareto_thin(points, run->count, &run->limits, MG_FRONT_MAX);
    for (size_t i = 0; i < count; i++)
        if (find_spooled(run, points[i].id) && !find_spooled(run, points[i].id)->sent)
            mg_worker_send_point(run, "point", NULL, &points[i]);
    mg_worker_begin_line(&w, "front");
    mg_write_member_bool(&w, "final", final);
    mg_write_key(&w, "ids");
    mg_write_begin_array(&w);
    for (size_t i = 0; i < count; i++)
        mg_write_string(&w, points[i].id);
    mg_write_end_array(&w);
    mg_worker_end_line(run, &w);
    free(points);
    run->changed = false;
    run->published_at = mg_clock_seconds();
}

void mg_worker_publish_if_due(struct mg_worker_run *run, double time)
{
    if (run->changed && run->out_size == 0 && time - run->published_at >= batch_seconds)
        mg_worker_publish(run, false);
}

void mg_worker_add_to_front(struct mg_worker_run *run, const struct mg_point *point)
{
    const struct mg_worker_spooled *entry = find_spooled(run, point->id);
    if (run->request.require_measured && !(entry ? entry->measured : point->plan && is_measured(point->plan)))
        return; /* a plan that is gone and was not spooled was refused when it was reported */
    if (run->count == run->capacity) {
        size_t capacity = run->capacity * 2 + 64;
        struct mg_front_point *larger = realloc(run->front, capacity * sizeof *larger);
        if (!larger) {
            break_of_memory(run);
            return;
        }
        run->front = larger;
        run->capacity = capacity;
    }
    entry = mg_worker_spool(run, point);
    if (!entry)
        return;
    run->front[run->count++] = mg_worker_front_point(point, entry);
    run->count = mg_pareto_reduce(run->front, run->count, &run->limits);
    run->changed = true;
}

void mg_worker_set_limits(struct mg_worker_run *run, const struct mg_figures *original)
{
    const struct mg_job_request *q = &run->request;
    run->limits = (struct mg_front_limits){
        .latency_s = q->latency_ratio > 0 ? q->latency_ratio * original->latency_s : q->latency_s,
        .peak_bytes = q->memory_ratio > 0 ? mg_limits_share(q->memory_ratio, original->peak_bytes) : 0,
        .arena_bytes = q->memory_bytes ? q->memory_bytes - q->reserve_bytes : 0,
        .original_latency_s = original->latency_s,
        .original_peak = original->peak_bytes};
}
