/* Inside intake: one question, and what answers it. */
#ifndef MG_SERVER_INTAKE_QUESTION_H
#define MG_SERVER_INTAKE_QUESTION_H

#include "magis.h"
#include "server/intake.h"
#include "server/posted.h"
#include "server/request.h"
#include "server/wire.h"

struct mg_intake_ask {
    const char *device_dir;
    const struct mg_wire_question *question;
    const char *input; /* the mapped memfd */
    size_t input_size;
    const char *text; /* the posted body after decoding */
    size_t text_size;
    enum mg_media media;
    struct mg_posted posted;
    struct mg_arena arena;
    struct mg_job_request request;
    struct mg_graph *graph;
    struct mg_writer body, meta;
    unsigned char *blob; /* the result instead of body */
    size_t blob_size;
    const char *problem; /* by default that of the error's code */
};

/* The member `key` of the small arguments as a number or a text. */
bool mg_intake_argument(struct mg_intake_ask *a, const char *key, const char **text, double *number);
bool mg_intake_is(struct mg_intake_ask *a, const char *key, const char *value);

/* Answers: in body and meta or in blob, within the arena's guard. */

/* ---- intake_posted.c: what is posted ---- */

enum mg_code mg_intake_submit(struct mg_intake_ask *a, struct mg_error *err);
enum mg_code mg_intake_estimate(struct mg_intake_ask *a, struct mg_error *err);
enum mg_code mg_intake_timings(struct mg_intake_ask *a, struct mg_error *err);

/* ---- intake_stored.c: what is stored ---- */

enum mg_code mg_intake_graph(struct mg_intake_ask *a, struct mg_error *err);
/* A plan in a format, the formats that it is to be had in, or its timeline. */
enum mg_code mg_intake_plan(struct mg_intake_ask *a, struct mg_error *err);
enum mg_code mg_intake_wants(struct mg_intake_ask *a, struct mg_error *err);
enum mg_code mg_intake_reprice(struct mg_intake_ask *a, struct mg_error *err);

#endif
