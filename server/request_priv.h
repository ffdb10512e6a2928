/* What the files of the request share: its reader, and one function for each kind of member. */
#ifndef MG_SERVER_REQUEST_PRIV_H
#define MG_SERVER_REQUEST_PRIV_H

#include "server/request.h"

struct mg_request_reader {
    struct mg_json *json;
    struct mg_arena *arena;
    struct mg_job_request *request;
    const struct mg_request_rules *rules;
    const char *member; /* being read, for messages */
};
struct mg_request_member {
    const char *name;
    bool (*read)(struct mg_request_reader *r, void *into);
    size_t offset; /* into struct mg_job_request */
};

#define MG_REQUEST_AT(member) offsetof(struct mg_job_request, member)

/* An object with these members alone. */
bool mg_request_read_members(struct mg_request_reader *r, const struct mg_request_member *members, size_t count);
#define MG_READ_MEMBERS(r, members) mg_request_read_members((r), (members), sizeof(members) / sizeof((members)[0]))
/* A text's index among `words`, or -1 after an error that lists them. */
int mg_request_read_word(struct mg_request_reader *r, const char *const *words, int count);
#define MG_READ_WORD(r, words) mg_request_read_word((r), (words), (int)(sizeof(words) / sizeof((words)[0])))

/* Words of the interface, by the values they stand for. */
enum { MG_REQUEST_TECHNIQUES = 6, MG_REQUEST_BASELINES = 2 };
extern const char *const mg_request_losses[5], *const mg_request_optimizers[5];
extern const char *const mg_request_techniques[MG_REQUEST_TECHNIQUES],
    *const mg_request_baselines[MG_REQUEST_BASELINES];

/* Where the document is not well-formed, the place: true. */
bool mg_request_find_syntax_error(const char *json, size_t size, struct mg_arena *arena, struct mg_error *err);

/* Kinds of members. */
bool mg_request_read_text(struct mg_request_reader *r, void *into);
bool mg_request_read_uint(struct mg_request_reader *r, void *into);
bool mg_request_read_count(struct mg_request_reader *r, void *into);
bool mg_request_read_positive(struct mg_request_reader *r, void *into);
bool mg_request_read_flag(struct mg_request_reader *r, void *into);
bool mg_request_read_labels(struct mg_request_reader *r, void *into);
bool mg_request_read_graph(struct mg_request_reader *r, void *into);
bool mg_request_read_zoo(struct mg_request_reader *r, void *into);
bool mg_request_read_symbols(struct mg_request_reader *r, void *into);
bool mg_request_read_training(struct mg_request_reader *r, void *into);
bool mg_request_read_device(struct mg_request_reader *r, void *into);
bool mg_request_read_timings(struct mg_request_reader *r, void *into);
bool mg_request_read_limit(struct mg_request_reader *r, void *into);
bool mg_request_read_reserve(struct mg_request_reader *r, void *into);
bool mg_request_read_budget(struct mg_request_reader *r, void *into);
bool mg_request_read_techniques(struct mg_request_reader *r, void *into);
bool mg_request_read_numerics(struct mg_request_reader *r, void *into);
bool mg_request_read_accumulate(struct mg_request_reader *r, void *into);
bool mg_request_read_constraints(struct mg_request_reader *r, void *into);
bool mg_request_read_baselines(struct mg_request_reader *r, void *into);
bool mg_request_read_priority(struct mg_request_reader *r, void *into);
/* A member of the interface whose feature this version does not have. */
bool mg_request_refuse(struct mg_request_reader *r, void *into);
bool mg_request_refuse_true(struct mg_request_reader *r, void *into);

#endif
