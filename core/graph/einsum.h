/* The equation of an einsum operator, taken apart. */
#ifndef MG_GRAPH_EINSUM_H
#define MG_GRAPH_EINSUM_H

#include "graph/graph.h"

enum { MG_EINSUM_OPERANDS = 8, MG_EINSUM_LETTERS = 52 };
struct mg_einsum {
    uint32_t operands;
    char letters[MG_EINSUM_OPERANDS + 1][MG_MAX_RANK + 1]; /* of each operand, the result's last; ended by 0 */
};
/* The letters of operand i, or of the result for i = operands. */
#define MG_EINSUM_RESULT(e) ((e)->letters[(e)->operands])

/* Takes a canonical equation (as normalised operators have) apart. */
void mg_einsum_parse(const char *equation, struct mg_einsum *out);
/* Where dimension `letter` stands in a list of letters; -1: nowhere. */
int mg_einsum_at(const char *letters, char letter);
/* Sizes of all letters by their position in the alphabet (A-Z, then a-z), 0 for those that do not occur; a size of 1 is
 * broadcast. False where sizes disagree. */
bool mg_einsum_sizes(const struct mg_einsum *e, const struct mg_shape *in, int64_t size[MG_EINSUM_LETTERS]);
uint32_t mg_einsum_index(char letter);
/* A letter's distance, in elements, in a dense operand or result of this shape: 0 where it is broadcast, added up where
 * it stands twice. */
int64_t mg_einsum_stride(const char *letters, const struct mg_shape *shape, char letter);

#endif
