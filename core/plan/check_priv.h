/* What the files of the independent checker share. Nothing here is used by, or taken from, builder,
 * simulator, placement or search.
 *
 * A *place* is where a step stands: place 0 is outside all regions, place r + 1 is the body of region r.
 * A *use* says how one region cuts a value: dimension `dim` holds `mult` elements for each unit of the
 * region's length; dim -1: not at all. The *box* of an instance is one use for each region around the
 * body in which it lives, outermost first; it names the part of the value that the instance holds, for
 * every part of every region at once, because bounds of parts are functions of the region alone. */
#ifndef MG_PLAN_CHECK_PRIV_H
#define MG_PLAN_CHECK_PRIV_H

#include "plan/plan.h"

enum { MG_CHECK_DEPTH = 8 };

struct mg_check_use {
    int32_t dim;
    int64_t mult;
};

/* Extents of one part of every region of a chain; `lo` is where the first such part begins, within the part
 * around it. */
struct mg_check_tuple {
    int64_t extent[MG_CHECK_DEPTH], lo[MG_CHECK_DEPTH];
};

struct mg_check_place {
    uint32_t depth;
    uint32_t chain[MG_CHECK_DEPTH]; /* places from the outermost region's to this one */
    /* The distinct tuples of extents in order of first occurrence. Those under tuple t of the parent are
     * first[t] (parts_large[t] parts) and, if parts_small[t] > 0, first[t] + 1. */
    uint32_t tuple_count;
    struct mg_check_tuple *tuples;
    uint32_t *first, *parts_large, *parts_small;
    uint32_t begin, end; /* steps */
};

enum mg_check_life { MG_CHECK_UNBORN, MG_CHECK_ALIVE, MG_CHECK_FREED, MG_CHECK_OVERWRITTEN };

struct mg_check_instance {
    enum mg_check_life life;
    uint32_t home;    /* place in whose body it lives */
    bool buffer;      /* allocated by a begin */
    bool written;     /* false: a buffer that nothing has been written to */
    bool partial;     /* a partial result: to be joined and accumulated, never read */
    bool accumulated; /* a buffer whose writer lacks an axis */
    bool stored;
    bool update;                    /* whole new version of a resident value, on its storage */
    uint32_t writer;                /* place of the step that makes or writes it */
    uint32_t born;                  /* step */
    const struct mg_check_use *box; /* one for each region of the writer's chain */
    uint32_t first_view, next_view; /* views of this instance */
    uint32_t reader, reader_slot;   /* first compute step that reads it or a view of it */
    uint32_t reader_as;             /* ... through this instance */
};

struct mg_check_storage {
    uint32_t lower, upper; /* live at steps [lower, upper); lower is MG_NONE: not allocated */
    uint32_t owner;        /* instance */
};

struct mg_check {
    struct mg_check_memo *memo; /* may be NULL */
    const struct mg_graph *original;
    const struct mg_graph *g; /* the one that the plan's edits make of it; for most plans the same */
    const struct mg_plan *plan;
    struct mg_arena *arena;
    struct mg_verdict *verdict;
    struct mg_check_place *places;
    uint32_t *home; /* by step: place in which it stands (begin: the outer one; end: the inner one) */
    struct mg_check_instance *instances;
    struct mg_check_storage *storages;
};

/* Refuses; always returns false. `step` is MG_NONE where no step is to blame. */
bool mg_check_refuse(struct mg_check *c, uint32_t step, const char *reason, const char *fmt, ...) MG_PRINTF(4, 5);
#define MG_CHECK(condition, c, step, reason, ...)                                                                      \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)mg_check_refuse((c), (step), (reason), __VA_ARGS__);                                                 \
            return false;                                                                                              \
        }                                                                                                              \
    } while (0)

static inline const uint32_t *mg_check_in(const struct mg_check *c, const struct mg_step *s)
{
    return c->plan->refs + s->in;
}
static inline const uint32_t *mg_check_out(const struct mg_check *c, const struct mg_step *s)
{
    return c->plan->refs + s->out;
}
static inline uint32_t mg_check_base(const struct mg_check *c, uint32_t instance)
{
    uint32_t base = c->plan->instances[instance].view_of;
    return base == MG_NONE ? instance : base;
}

/* ---- the phases, in this order; each trusts what those before it have established ---- */
/* check_form.c: every index and count points somewhere; device, edits and figures are of this world. */
bool mg_check_head(struct mg_check *c); /* what needs no graph but the original; the rest after mg_check_edits */
bool mg_check_form(struct mg_check *c);
/* check_edit.c: the edits are known, allowed, and make c->g. */
bool mg_check_edits(struct mg_check *c);
/* check_region.c: R1 on the operators listed, lengths, tuples; where each step stands. */
bool mg_check_regions(struct mg_check *c);
/* check_walk.c and its parts: order, residency and meaning of every step; lives of storages. */
bool mg_check_walk(struct mg_check *c);
/* check_edit.c: the edits list the plan's recomputations and swaps. */
bool mg_check_listed(struct mg_check *c);
/* check_write.c: is the part's box of a written region output contiguous in it (R5)? */
bool mg_check_box_contiguous(const struct mg_check *c, uint32_t buffer);
/* check_price.c: every price from the profile. */
bool mg_check_prices(struct mg_check *c);
/* check_original.c: the figures that ratios are taken of. */
bool mg_check_original(struct mg_check *c);
/* check_memory.c: peak, arena, placement, host bytes. */
bool mg_check_memory(struct mg_check *c);
/* check_time.c: latency. */
bool mg_check_time(struct mg_check *c);

/* ---- regions ---- */
/* The operator's entry in the region of a place, or NULL. */
const struct mg_region_op *mg_check_entry(const struct mg_check *c, uint32_t place, mg_op op);
/* The use of operand (result) `slot` of the operator in region `place`: dim -1 where it is not listed. */
struct mg_check_use mg_check_operand_use(const struct mg_check *c, uint32_t place, mg_op op, uint32_t slot);
struct mg_check_use mg_check_result_use(const struct mg_check *c, uint32_t place, mg_op op, uint32_t slot);
/* `whole` cut by the first `levels` uses of a box at a tuple of a place. */
struct mg_shape mg_check_cut(const struct mg_shape *whole, const struct mg_check_use *box, uint32_t levels,
                             const struct mg_check_tuple *tuple);
/* How many outermost regions two places have in common. */
uint32_t mg_check_common(const struct mg_check *c, uint32_t a, uint32_t b);

/* ---- views (check_view.c) ---- */
/* Is view instance `view` what the graph's view operators make of its base instance? Fills its box. */
bool mg_check_view(struct mg_check *c, uint32_t step, uint32_t view);
/* Carries a use of `value` in region `place` back through view operators to `root`; false where they are
 * not in the region or do not carry the axis. */
bool mg_check_use_of_base(const struct mg_check *c, uint32_t place, mg_value value, mg_value root,
                          struct mg_check_use *use);

#endif
