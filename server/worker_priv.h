/* Inside a worker: one search, what is kept of its front, and how it is told. */
#ifndef MG_SERVER_WORKER_PRIV_H
#define MG_SERVER_WORKER_PRIV_H

#include "magis.h"
#include "server/pareto.h"
#include "server/request.h"

struct mg_worker_spooled {
    char id[17];
    bool sent; /* its point line is out */
    uint64_t offset, length, crc;
    double measured_share;
    bool measured; /* every operator, parts included */
};

struct mg_worker_run {
    struct mg_arena arena;
    struct mg_job_request request;
    struct mg_graph *graph;
    struct mg_search_options options;
    struct mg_timings timings;
    struct mg_front_limits limits;
    /* the front as reported, reduced */
    struct mg_front_point *front;
    size_t count, capacity;
    bool changed;
    struct mg_worker_spooled *spooled; /* plans in the spool: those of a point live only as long as its report */
    size_t spooled_count, spooled_capacity;
    uint64_t spool_at;
    double started, published_at, progress_at, said_at;
    /* control lines that the pipe did not take yet */
    char *out;
    size_t out_size, out_capacity;
    bool broken;          /* pipe, spool or memory failed: stop */
    const char *why_code; /* what it broke of, as the error line says it; NULL: the pipe, which takes no line */
    struct mg_error why;
    uint64_t evaluations, rejected;
};

/* ---- worker_load.c ---- */

/* Job and prices, as the descriptors give them. */
enum mg_code mg_worker_load(struct mg_worker_run *run, struct mg_error *err);

/* ---- worker_lines.c ---- */

void mg_worker_begin_line(struct mg_writer *w, const char *type);
void mg_worker_end_line(struct mg_worker_run *run, struct mg_writer *w);
/* At most `most` bytes of a text, cut at a character. */
void mg_worker_write_cut(struct mg_writer *w, const char *key, const char *text, size_t most);
void mg_worker_send_error(struct mg_worker_run *run, const char *code, const struct mg_error *err);
/* Says what the run broke of. */
void mg_worker_send_why(struct mg_worker_run *run);
/* What the pipe takes at once; and all of it, however long that takes. */
void mg_worker_flush_some(struct mg_worker_run *run);
void mg_worker_flush(struct mg_worker_run *run);

/* ---- worker_front.c ---- */

void mg_worker_set_limits(struct mg_worker_run *run, const struct mg_figures *original);
/* Appends the point's plan to the spool unless it is there; NULL: the run is broken. */
const struct mg_worker_spooled *mg_worker_spool(struct mg_worker_run *run, const struct mg_point *point);
struct mg_front_point mg_worker_front_point(const struct mg_point *point, const struct mg_worker_spooled *entry);
void mg_worker_send_point(struct mg_worker_run *run, const char *type, const char *series,
                          const struct mg_front_point *point);
void mg_worker_add_to_front(struct mg_worker_run *run, const struct mg_point *point);
void mg_worker_publish(struct mg_worker_run *run, bool final);
void mg_worker_publish_if_due(struct mg_worker_run *run, double time);

#endif
