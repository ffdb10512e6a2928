/* A plan as a Python module, in parts: where things lie (torch_box.c), what steps do (torch_step.c), the module around
 * them (torch.c), and the functions that it needs (library.c).
 *
 * No text of a graph stands in the code but inside one string, the JSON list NAMES. Variables are v0, v1, ... (by
 * instance), t0, t1, ... (results on their way into a larger tensor), h, s and e (host copies, their events, those of
 * loads, by instance), w (what is at home on the host, by value), p0, p1, ... (begin of the current part, by region).
 */
#ifndef MG_EXPORT_TORCH_PRIV_H
#define MG_EXPORT_TORCH_PRIV_H

#include "base/names.h"
#include "export/steps.h"
#include "plan/plan_priv.h"

enum { MG_TORCH_DEPTH = 16 };

/* A position as a sum of the begins of the open regions' parts, outermost first. */
struct mg_linear {
    int64_t factor[MG_TORCH_DEPTH];
};
/* Part of a value: where it begins in the whole, and its extents. */
struct mg_torch_box {
    struct mg_linear lo[MG_MAX_RANK];
    struct mg_shape shape;
};
/* What an instance (or host copy) is at this place of the code. */
struct mg_torch_held {
    bool alive;
    const char *expr; /* the tensor */
    const char *root; /* variable that keeps its memory */
    struct mg_torch_box box;
    uint32_t depth;      /* regions open around it: in these its box is a part's */
    const char *stored;  /* event of a copy to the host that still reads it, or NULL */
    const char *loading; /* event that the first reader waits for, or NULL */
};
struct mg_torch_open {
    uint32_t region, part; /* part: the first of those for which this code is */
};
struct mg_torch_cut {
    uint32_t axis;
    struct mg_linear lo;
    int64_t first, extent; /* lo in the representative part */
};
struct mg_torch {
    struct mg_export *e;
    struct mg_writer *body; /* step() */
    uint32_t indent, temporaries, functions;
    bool *whole_draw;           /* by operator: a random one that is computed under different partitions */
    struct mg_torch_held *held; /* by instance */
    struct mg_torch_held *host; /* by value: alive where there is a host copy */
    mg_value *stored;           /* those with host copies that a step made, in order */
    size_t stored_count, stored_capacity;
    const char **names;
    size_t name_count, name_capacity;
    struct mg_names name_index; /* number in `names`, counted from 1 */
    struct mg_torch_open open[MG_TORCH_DEPTH];
    uint32_t depth;
};

/* ---- library.c ---- */
/* Is there a function of that name? */
bool mg_torch_has_function(const char *name);
/* Writes the functions that `code` calls, and those that they call, in the library's order. */
void mg_torch_write_functions(struct mg_writer *w, const char *code, struct mg_arena *arena);

/* ---- torch_box.c ---- */
uint32_t mg_torch_cuts(const struct mg_torch *t, mg_op op, uint32_t depth, struct mg_torch_cut cuts[MG_MAX_AXES]);
/* Length of the region inside the part that the code is written for. */
int64_t mg_torch_length(const struct mg_torch *t, uint32_t region);
void mg_torch_whole_box(const struct mg_torch *t, mg_value value, struct mg_torch_box *box);
/* The box of operand (or result) `slot` of `op` under the first `depth` open regions. */
void mg_torch_box_of(const struct mg_torch *t, mg_op op, bool is_result, uint32_t slot, uint32_t depth,
                     struct mg_torch_box *box);
/* The operator under the first `depth` open regions, for the part that the code is written for. */
enum mg_code mg_torch_describe(const struct mg_torch *t, mg_op op, uint32_t depth, struct mg_op_desc *desc);
/* "p0 * 8 + p1", or "0". */
const char *mg_torch_linear(const struct mg_torch *t, const struct mg_linear *linear);
/* "(1, 2)", "(1,)" */
const char *mg_torch_tuple(struct mg_arena *arena, const int64_t *numbers, uint32_t count);
/* What the instance is; of a view, its base seen through the view operators. */
enum mg_code mg_torch_resolve(const struct mg_torch *t, uint32_t instance, struct mg_torch_held *out);
/* A box of it as an expression. */
const char *mg_torch_part_of(const struct mg_torch *t, const struct mg_torch_held *held,
                             const struct mg_torch_box *box);
/* Turns what holds `base` into the view of it that is `value`. */
enum mg_code mg_torch_view(const struct mg_torch *t, mg_value value, mg_value base, struct mg_torch_held *held);

/* ---- torch_step.c ---- */
enum mg_code mg_torch_write_steps(struct mg_torch *t, uint32_t from, uint32_t to);
/* Index of the name in NAMES, added if it is new. */
size_t mg_torch_name(struct mg_torch *t, const char *name);
void mg_torch_line(struct mg_torch *t, const char *fmt, ...) MG_PRINTF(2, 3);

/* ---- torch_call.c ---- */
/* The call of the operator's function, "op_relu(v1)": `operands` are expressions. in_place: the variant that writes
 * into the first operand. */
enum mg_code mg_torch_call(struct mg_torch *t, mg_op op, const char *const *operands, bool in_place, const char **out);
/* An opaque operator that is a PyTorch call, aten.word.word, with arguments that can be written. */
bool mg_torch_can_call(const struct mg_op_info *op);
/* How a message names an opaque operator. */
const char *mg_torch_call_name(const struct mg_torch *t, const struct mg_op_info *op);
bool mg_torch_call_in_place(const struct mg_torch *t, mg_op op); /* is there such a variant? */

#endif
