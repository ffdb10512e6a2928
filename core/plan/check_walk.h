/* The state of the checker's walk over a plan's steps, and its judgements. Private to check_*.c.
 *
 * All that return bool have refused the plan when they return false. */
#ifndef MG_PLAN_CHECK_WALK_H
#define MG_PLAN_CHECK_WALK_H

#include "plan/check_priv.h"

struct mg_check_copy {
    uint32_t place; /* whose body stored it; MG_NONE: none */
    uint32_t instance;
};
struct mg_check_note { /* a read of a resident value inside regions */
    uint32_t place, next;
    struct mg_check_use use[MG_CHECK_DEPTH];
};
struct mg_check_walk {
    struct mg_check *c;
    uint32_t at, place;
    const struct mg_step *step;
    const struct mg_check_place *here;
    struct mg_check_copy *host; /* by value */
    uint32_t *updated;          /* by value: the step that overwrote it */
    uint32_t *notes_of;         /* by value: the last note since the outermost region began */
    uint32_t *notes_in;         /* by value: that region's begin */
    struct mg_check_note *notes;
    size_t note_count, note_capacity;
    uint32_t *locals, *unwritten; /* by place: living instances of the body; outputs not yet written */
    bool **done;                  /* by place: operators that have run, in the order of the region's list */
    mg_op last_impure;
    bool *ran; /* by operator, impure ones only */
};

#define REFUSE_UNLESS(condition, reason, ...) MG_CHECK(condition, w->c, w->at, reason, __VA_ARGS__)

static inline const char *mg_check_name_of(const struct mg_check_walk *w, uint32_t instance)
{
    return w->c->g->values[w->c->plan->instances[instance].value].name;
}

static inline bool mg_check_same_use(struct mg_check_use a, struct mg_check_use b)
{
    return a.dim == b.dim && a.mult == b.mult;
}

/* ---- reading (check_read.c) ---- */
bool mg_check_alive(struct mg_check_walk *w, uint32_t instance);
/* `need`: the uses by which the enclosing regions cut what is read. */
bool mg_check_content(struct mg_check_walk *w, uint32_t instance, const struct mg_check_use *need);
/* For updates in the same regions. */
void mg_check_note_read(struct mg_check_walk *w, uint32_t instance, const struct mg_check_use *need);
bool mg_check_operand(struct mg_check_walk *w, uint32_t slot);
void mg_check_strides(const struct mg_instance *instance, int64_t stride[MG_MAX_RANK]);

/* ---- lives (check_life.c) ---- */
bool mg_check_begin_life(struct mg_check_walk *w, uint32_t instance, uint32_t home);
/* Is the stated shape the instance's box, cut by as many regions? */
bool mg_check_shape(struct mg_check_walk *w, uint32_t instance, uint32_t levels);
/* A new storage of the instance's own. */
bool mg_check_allocate(struct mg_check_walk *w, uint32_t instance);
bool mg_check_views(struct mg_check_walk *w, uint32_t instance);
bool mg_check_before(struct mg_check_walk *w); /* what is there before the first step */
bool mg_check_after(struct mg_check_walk *w);  /* what must be there after the last */

/* ---- writing (check_write.c, check_in_place.c) ---- */
bool mg_check_result(struct mg_check_walk *w, uint32_t slot);
/* The step writes (this part's box of) a buffer; `box` is what it writes. */
bool mg_check_write_buffer(struct mg_check_walk *w, uint32_t buffer, const struct mg_check_use *box);
/* Levels below the buffer's home that lack a use. */
uint32_t mg_check_absent_levels(const struct mg_check_walk *w, const struct mg_check_instance *buffer);
/* The result's storage is an operand's. */
bool mg_check_take_storage(struct mg_check_walk *w, uint32_t result, uint32_t instance);

#endif
