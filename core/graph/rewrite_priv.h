/* What the matcher (rewrite_rules.c), the rules (rewrite_aggregate.c, rewrite_fold.c) and the application of
 * edits (rewrite.c) share. */
#ifndef MG_GRAPH_REWRITE_PRIV_H
#define MG_GRAPH_REWRITE_PRIV_H

#include "graph/rewrite.h"

/* A graph with what the rules ask about it. */
struct mg_rewrite_source {
    const struct mg_graph *g;
    struct mg_arena *arena;  /* results */
    struct mg_arena scratch; /* as long as the call */
    bool *overwritten;       /* by base value: an operator works in place on it */
    bool *taken;             /* by operator: a match has it already */
    mg_op *op_slots;         /* operators by name, open addressing */
    size_t slot_count;
};
void mg_rewrite_prepare(struct mg_rewrite_source *s);
mg_op mg_rewrite_op_named(const struct mg_rewrite_source *s, const char *name); /* MG_NONE if unknown */
/* "<name of op>.<suffix>", changed until no operator and no value of the graph has it. */
const char *mg_rewrite_fresh(struct mg_rewrite_source *s, mg_op op, const char *suffix);

/* One application: a rule, its operators, what it removes, and the names of what it adds. */
struct mg_rewrite_app {
    const struct mg_rewrite_rule *rule;
    mg_op *ops; /* bound, ascending */
    uint32_t op_count;
    mg_op *removed;
    uint32_t removed_count;
    mg_value *dropped; /* results of removed operators that the new graph lacks */
    uint32_t dropped_count;
    const char **added; /* names of new operators, in the rule's order */
    uint32_t added_count;
};

/* The new graph while it is written. */
struct mg_rewrite_target {
    struct mg_rewrite_source *s;
    struct mg_graph *to; /* in scratch */
    mg_value *map;       /* by old value; MG_NONE: dropped */
    mg_op *new_index;    /* by old operator: its place in `to`; of a removed one, its successor's */
};
/* Adds an operator with one result; what belongs to it is taken from the old operator `like`, whose successor it
 * becomes. */
enum mg_code mg_rewrite_add(struct mg_rewrite_target *t, enum mg_op_type type, const char *name, const mg_value *in,
                            uint32_t in_count, const struct mg_attr *attrs, uint32_t attr_count, const char *result,
                            mg_op like, mg_value *out, struct mg_error *err) MG_WARN_UNUSED;

typedef bool mg_rewrite_fits(struct mg_rewrite_source *s, struct mg_rewrite_app *app);
typedef bool mg_rewrite_finds(struct mg_rewrite_source *s, mg_op at, struct mg_rewrite_app *app);
typedef void mg_rewrite_names(struct mg_rewrite_source *s, struct mg_rewrite_app *app);
typedef enum mg_code mg_rewrite_emits(struct mg_rewrite_target *t, const struct mg_rewrite_app *app, mg_op at,
                                      struct mg_error *err);
struct mg_rewrite_rule {
    const char *name;
    mg_rewrite_fits *fits;
    mg_rewrite_finds *find;
    mg_rewrite_names *name_added;
    mg_rewrite_emits *emit;
    bool joins;
};
mg_rewrite_fits fits_linear, fits_matmul, fits_conv, fits_result_scale, fits_operand_scale, fits_addend;
mg_rewrite_finds find_linear, find_matmul, find_conv, find_result_scale, find_operand_scale, find_addend;
mg_rewrite_names name_aggregate, name_result_scale, name_operand_scale, name_addend;
mg_rewrite_emits emit_aggregate, emit_result_scale, emit_operand_scale, emit_addend;

const struct mg_rewrite_rule *mg_rewrite_rule_named(const char *name); /* NULL if unknown */

/* May the value go away, or become a part of another: nothing but operators that read it knows it? */
bool mg_rewrite_is_inner(const struct mg_rewrite_source *s, mg_value v);

/* The record of a named application; MG_ERR_NOMEM. */
enum mg_code mg_rewrite_record(struct mg_rewrite_source *s, const struct mg_rewrite_app *app, struct mg_edit *out,
                               struct mg_error *err) MG_WARN_UNUSED;

#endif
