/* Timings as lines of JSON. */
#include "server/timing_parse.h"

#include <string.h>

/* The next line is a document of its own: no comma comes before it. */
static void end_line(struct mg_writer *w)
{
    mg_write_text(w, "\n");
    w->state[w->depth] = 0;
}

void mg_timing_write_batch(struct mg_writer *w, const struct mg_timing_batch *b)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "agent", b->agent);
    mg_write_member_string(w, "batch", b->batch);
    mg_write_member_string(w, "host", b->host);
    mg_write_member_string(w, "version", b->version);
    mg_write_key(w, "class");
    mg_write_raw(w, b->class.key, strlen(b->class.key));
    if (b->at)
        mg_write_member_int(w, "at", b->at);
    mg_write_key(w, "canary");
    mg_write_begin_object(w);
    mg_write_member_double(w, "before_s", b->canary_before_s);
    mg_write_member_double(w, "after_s", b->canary_after_s);
    mg_write_member_double(w, "best_s", b->canary_best_s);
    mg_write_end_object(w);
    mg_write_member_bool(w, "busy", b->busy);
    mg_write_end_object(w);
    end_line(w);
}

bool mg_timing_status_of(enum mg_code code, enum mg_timing_status *status)
{
    *status = code == MG_OK ? MG_TIMING_OK : code == MG_ERR_NOMEM ? MG_TIMING_NOMEM : MG_TIMING_UNSUPPORTED;
    return code == MG_OK || code == MG_ERR_NOMEM || code == MG_ERR_UNSUPPORTED || code == MG_ERR_INVALID;
}

void mg_timing_write_row(struct mg_writer *w, const struct mg_timing_row *row)
{
    mg_write_begin_object(w);
    mg_write_member_uint(w, "row", row->row);
    mg_write_member_string(w, "op", row->op);
    mg_write_member_string(w, "signature", row->signature);
    mg_write_member_string(w, "status", mg_timing_status_name(row->status));
    if (row->status == MG_TIMING_OK) {
        mg_write_member_uint(w, "n", row->n);
        mg_write_member_double(w, "median_s", row->median_s);
        mg_write_member_double(w, "mad_s", row->mad_s);
        mg_write_member_double(w, "min_s", row->min_s);
        mg_write_member_uint(w, "workspace_bytes", row->workspace);
        mg_write_member_double(w, "clock_mhz", row->clock_mhz);
        mg_write_member_bool(w, "throttled", row->throttled);
    }
    mg_write_end_object(w);
    end_line(w);
}

void mg_timing_write_want(struct mg_writer *w, const struct mg_timing_want *want)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "op", want->op);
    mg_write_member_string(w, "signature", want->signature);
    mg_write_member_double(w, "value", want->value);
    mg_write_member_double(w, "seconds", want->seconds);
    mg_write_end_object(w);
    end_line(w);
}
