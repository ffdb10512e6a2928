/* The JSON that command line and HTTP interface answer with. */
#ifndef MG_SERVER_ANSWER_H
#define MG_SERVER_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "graph/graph.h"

enum { MG_TECHNIQUES_TEXT = 96 };

/* One point of a front or baseline. */
struct mg_answer_point {
    const char *plan; /* id; NULL or "": null */
    double latency_s;
    uint64_t peak_bytes, arena_bytes, host_bytes;
    const char *techniques; /* JSON array, or NULL: the member is left out */
    bool has_k;
    int k;                                                  /* < 0: null */
    void (*more)(struct mg_writer *w, const void *context); /* NULL, or writes further members */
    const void *context;
};
struct mg_answer_original {
    double latency_s;
    uint64_t peak_bytes, arena_bytes;
};

void mg_answer_write_original(struct mg_writer *w, const struct mg_answer_original *original);
void mg_answer_write_point(struct mg_writer *w, const struct mg_answer_point *point,
                           const struct mg_answer_original *original);
/* The operators that are opaque because nobody knows them: [{"operator", "count", "bytes" that they make}], most
 * frequent first. Inside a guard on `scratch`. */
void mg_answer_write_unsupported(struct mg_writer *w, const struct mg_graph *g, struct mg_arena *scratch);
/* A mask of enum mg_technique as a JSON array of names. */
void mg_answer_techniques(uint32_t mask, char out[MG_TECHNIQUES_TEXT]);
/* `text` as a terminal may show it: control characters, which could steer it, become "?". At most `room` - 1 bytes. */
void mg_answer_visible(const char *text, char *out, size_t room);
/* "12.93 GB" */
void mg_answer_bytes(uint64_t bytes, char out[24]);

/* {"networks": [...]}: what the zoo has, with its parameters. */
void mg_answer_write_zoo(struct mg_writer *w);

#endif
