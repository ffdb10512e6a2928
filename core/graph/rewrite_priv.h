/* What the matcher (rewrite_rules.c) and the application of edits (rewrite.c) share. */
#ifndef MG_GRAPH_REWRITE_PRIV_H
#define MG_GRAPH_REWRITE_PRIV_H

#include "graph/rewrite.h"

/* A graph with what the rules ask about it. */
struct mg_rewrite_source {
    const struct mg_graph *g;
    struct mg_arena *arena;  /* results */
    struct mg_arena scratch; /* as long as the call */
    bool *overwritten;       /* by base value: an operator works in place on it */
    mg_op *op_slots;         /* operators by name, open addressing */
    size_t slot_count;
};
void mg_rewrite_prepare(struct mg_rewrite_source *s);
mg_op mg_rewrite_op_named(const struct mg_rewrite_source *s, const char *name); /* MG_NONE if unknown */

struct mg_rewrite_axes {
    uint32_t operand, result;
};
struct mg_rewrite_rule {
    const char *name;
    bool (*fits)(const struct mg_rewrite_source *s, mg_op first, mg_op other);
    struct mg_rewrite_axes (*axes)(const struct mg_graph *g, mg_op op);
    bool biased;
};
enum mg_rewrite_rule_id {
#define MG_RULE(id, ...) MG_RULE_##id,
#include "graph/rules.def"
#undef MG_RULE
    MG_RULE_COUNT
};
const struct mg_rewrite_rule *mg_rewrite_rule(enum mg_rewrite_rule_id id);
const struct mg_rewrite_rule *mg_rewrite_rule_named(const char *name); /* NULL if unknown */

/* The addition that follows operator `op` under a biased rule. */
mg_op mg_rewrite_bias_add(const struct mg_graph *g, mg_op op);

/* One application: a rule, its operators, and the names of what it adds. */
struct mg_rewrite_app {
    const struct mg_rewrite_rule *rule;
    const mg_op *ops; /* ascending */
    uint32_t op_count;
    const char *weights, *biases, *wide, *sum; /* names of the new operators; NULL: there is none */
    const char **parts;                        /* slices, one for each of ops */
};
void mg_rewrite_name(struct mg_rewrite_source *s, struct mg_rewrite_app *app);
/* Its record; MG_ERR_NOMEM. */
enum mg_code mg_rewrite_record(struct mg_rewrite_source *s, const struct mg_rewrite_app *app, struct mg_edit *out,
                               struct mg_error *err) MG_WARN_UNUSED;

#endif
