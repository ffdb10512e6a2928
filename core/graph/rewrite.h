/* Algebraic rewrites of a normalised graph (the TASO family: Jia et al., SOSP 2019).
 *
 * Aggregation: operators that share their first operand and differ in the second alone (the projections of
 * attention; convolutions of one input) become one wide operator on the joined second operands, and slices of
 * its result. Folding: a matrix product takes in the scaling of its result or operand, or an addition to it
 * (alpha a b + c). An edit names a rule of rules.def and binds it to operators; from the original graph and a list
 * of edits follows exactly one edited graph. Values that both graphs have keep their names. */
#ifndef MG_GRAPH_REWRITE_H
#define MG_GRAPH_REWRITE_H

#include "graph/graph.h"

/* All texts are canonical JSON, but `rule`. */
struct mg_edit {
    const char *rule;            /* "remat", "swap", or a rule of rules.def */
    const char *binding;         /* an object; of a rewrite: {"ops": [names of the aggregated operators]} */
    const char *removed, *added; /* arrays; of a rewrite: names of operators */
};

/* Does the rule change the graph (is it one of rules.def)? */
bool mg_rewrite_is_rule(const char *rule);

struct mg_rewrite_match {
    struct mg_edit edit;
    const mg_op *ops; /* the operators bound, ascending */
    uint32_t op_count;
    bool joins; /* copies of their second operands are held, which may cost more than the rule saves */
};
/* Matches, no operator in two of them, rule by rule in the order of rules.def; with `joins` also of the rules that
 * hold copies. Any subset may be applied. */
enum mg_code mg_rewrite_find(const struct mg_graph *g, bool joins, struct mg_arena *arena,
                             struct mg_rewrite_match **out, uint32_t *count, struct mg_error *err) MG_WARN_UNUSED;

/* The edited graph, normalised, in `arena`. Edits of other rules (remat, swap) are passed over. Every condition
 * is checked: MG_ERR_INVALID points at /edits/N; the texts must be those that mg_rewrite_find would give. */
enum mg_code mg_rewrite_apply(const struct mg_graph *g, const struct mg_edit *edits, size_t count,
                              struct mg_arena *arena, struct mg_graph **out, struct mg_error *err) MG_WARN_UNUSED;

#endif
