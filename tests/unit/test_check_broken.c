/* Plans that are wrong in one way each, and the word with which the checker refuses them. Every variant
 * starts from a plan that is accepted. Steps are named by kind and number, so that what is broken is
 * broken exactly there. */
#include <math.h>

#include "tests/unit/check_util.h"

struct broken {
    const struct mg_graph *g;
    struct mg_arena *arena;
    struct mg_plan *plan;
    uint32_t blame; /* the step that must be named, or MG_NONE: any */
};

/* ---- surgery ---- */

static uint32_t nth(const struct broken *b, enum mg_step_kind kind, uint32_t n)
{
    for (uint32_t s = 0; s < b->plan->step_count; s++)
        if (b->plan->steps[s].kind == kind && n-- == 0)
            return s;
    cr_assert_fail("the plan has not so many steps of kind %d", (int)kind);
    return 0;
}

static uint32_t compute_of(const struct broken *b, const char *op, uint32_t n)
{
    for (uint32_t s = 0; s < b->plan->step_count; s++)
        if (b->plan->steps[s].kind == MG_STEP_COMPUTE && !strcmp(b->g->ops[b->plan->steps[s].op].name, op) && n-- == 0)
            return s;
    cr_assert_fail("the plan does not compute %s", op);
    return 0;
}

static uint32_t *in_of(const struct broken *b, uint32_t step, uint32_t i)
{
    return &b->plan->refs[b->plan->steps[step].in + i];
}

static uint32_t *out_of(const struct broken *b, uint32_t step, uint32_t i)
{
    return &b->plan->refs[b->plan->steps[step].out + i];
}

static void renumber(struct broken *b, const uint32_t *new_index)
{
    for (size_t i = 0; i < b->plan->instance_count; i++)
        if (b->plan->instances[i].made_by != MG_NONE)
            b->plan->instances[i].made_by = new_index[b->plan->instances[i].made_by];
}

/* Moves a step; instances go with it. */
static void move_step(struct broken *b, uint32_t from, uint32_t to)
{
    uint32_t *new_index = MG_NEW_ARRAY(b->arena, uint32_t, b->plan->step_count);
    struct mg_step step = b->plan->steps[from];
    for (uint32_t s = 0; s < b->plan->step_count; s++)
        new_index[s] = s == from ? to : s - (s > from) + (s - (s > from) >= to);
    memmove(b->plan->steps + from, b->plan->steps + from + 1, (b->plan->step_count - from - 1) * sizeof step);
    memmove(b->plan->steps + to + 1, b->plan->steps + to, (b->plan->step_count - to - 1) * sizeof step);
    b->plan->steps[to] = step;
    renumber(b, new_index);
}

static void insert_step(struct broken *b, uint32_t at, struct mg_step step)
{
    size_t n = b->plan->step_count;
    struct mg_step *steps = MG_NEW_ARRAY(b->arena, struct mg_step, n + 1);
    memcpy(steps, b->plan->steps, n * sizeof step);
    steps[n] = step;
    b->plan->steps = steps;
    b->plan->step_count = n + 1;
    move_step(b, (uint32_t)n, at);
}

/* What the step makes is made by no step that there is. */
static void remove_step(struct broken *b, uint32_t at)
{
    move_step(b, at, (uint32_t)b->plan->step_count - 1);
    b->plan->step_count--;
    for (size_t i = 0; i < b->plan->instance_count; i++)
        if (b->plan->instances[i].made_by == b->plan->step_count)
            b->plan->instances[i].made_by = 0;
}

static uint32_t add_ref(struct broken *b, uint32_t value)
{
    uint32_t *refs = MG_NEW_ARRAY(b->arena, uint32_t, b->plan->ref_count + 1);
    memcpy(refs, b->plan->refs, b->plan->ref_count * sizeof *refs);
    refs[b->plan->ref_count] = value;
    b->plan->refs = refs;
    return (uint32_t)b->plan->ref_count++;
}

static struct mg_step free_of(struct broken *b, uint32_t instance)
{
    return (struct mg_step){.kind = MG_STEP_FREE, .op = MG_NONE, .in = add_ref(b, instance), .in_count = 1};
}

static struct mg_region_op *own_ops(struct broken *b, uint32_t region)
{
    struct mg_region *r = &b->plan->regions[region];
    struct mg_region_op *ops = mg_arena_copy(b->arena, r->ops, r->op_count * sizeof *ops);
    r->ops = ops;
    return ops;
}

/* The instance of a value that a step made (not a view), or that was there at first. */
static uint32_t instance_of(const struct broken *b, const char *value, uint32_t n)
{
    for (uint32_t i = 0; i < b->plan->instance_count; i++)
        if (!strcmp(b->g->values[b->plan->instances[i].value].name, value) && n-- == 0)
            return i;
    cr_assert_fail("the plan has no such instance of %s", value);
    return 0;
}

/* A copy of the instance with a storage of its own. */
static uint32_t twin_of(struct broken *b, uint32_t instance)
{
    struct mg_plan *p = b->plan;
    struct mg_instance *instances = MG_NEW_ARRAY(b->arena, struct mg_instance, p->instance_count + 1);
    struct mg_storage *storages = MG_NEW_ARRAY(b->arena, struct mg_storage, p->storage_count + 1);
    memcpy(instances, p->instances, p->instance_count * sizeof *instances);
    memcpy(storages, p->storages, p->storage_count * sizeof *storages);
    instances[p->instance_count] = instances[instance];
    instances[p->instance_count].storage = (uint32_t)p->storage_count;
    storages[p->storage_count] = (struct mg_storage){storages[instances[instance].storage].bytes, UINT64_C(1) << 40};
    p->instances = instances;
    p->storages = storages;
    p->storage_count++;
    return (uint32_t)p->instance_count++;
}

/* ---- plans to break ---- */

/* a = relu x, b = tanh a, c = exp a, y = b + c; with a swapped out and back, and t = transpose c read by z. */
static void swap_graph(struct bench *b)
{
    mg_value x = input(b, "x", SHAPE(64, 32));
    mg_value a = op1(b, MG_OP_RELU, "a", VALUES(x), NO_ATTRS), h = op1(b, MG_OP_TANH, "b", VALUES(a), NO_ATTRS);
    mg_value c = op1(b, MG_OP_EXP, "c", VALUES(a), NO_ATTRS);
    mg_value t = op1(b, MG_OP_TRANSPOSE, "t", VALUES(c), ATTRS(LIST_OF(PERM, 1, 0)));
    mg_graph_add_output(b->g, op1(b, MG_OP_ADD, "y", VALUES(h, c), NO_ATTRS));
    mg_graph_add_output(b->g, op1(b, MG_OP_SIN, "z", VALUES(t), NO_ATTRS));
    cr_assert(normalise(b), "%s", b->err.message);
}

struct fixture {
    struct bench *b;
    struct mg_plan *plan;
};

static enum mg_code build_swap(void *context, struct mg_error *err)
{
    struct fixture *f = context;
    const struct mg_graph *g = f->b->n;
    struct mg_plan_builder *b = mg_plan_builder_new(g, mg_device_builtin("rtx3090"), &f->b->arena);
    uint32_t x = mg_plan_builder_initial(b, mg_graph_find_value(g, "x")), a = MG_NONE, h = MG_NONE, c = MG_NONE;
    uint32_t y = MG_NONE, z = MG_NONE;
    mg_plan_builder_compute(b, op_named(g, "a"), &x, &a);
    mg_plan_builder_free(b, x);
    mg_plan_builder_store(b, a);
    mg_plan_builder_compute(b, op_named(g, "b"), &a, &h); /* meanwhile */
    mg_plan_builder_free(b, a);
    uint32_t again = mg_plan_builder_load(b, a);
    mg_plan_builder_compute(b, op_named(g, "c"), &again, &c);
    mg_plan_builder_free(b, again);
    mg_plan_builder_compute(b, op_named(g, "y"), (uint32_t[]){h, c}, &y);
    mg_plan_builder_free(b, h);
    mg_plan_builder_compute(b, op_named(g, "z"), &c, &z);
    mg_plan_builder_free(b, c);
    return mg_plan_builder_finish(b, NULL, &f->plan, err);
}

/* The same graph; a is swapped out and back for b, and computed again for c. */
static enum mg_code build_edits(void *context, struct mg_error *err)
{
    struct fixture *f = context;
    const struct mg_graph *g = f->b->n;
    struct mg_plan_builder *b = mg_plan_builder_new(g, mg_device_builtin("rtx3090"), &f->b->arena);
    uint32_t x = mg_plan_builder_initial(b, mg_graph_find_value(g, "x")), a = MG_NONE, twin = MG_NONE;
    uint32_t h = MG_NONE, c = MG_NONE, y = MG_NONE, z = MG_NONE;
    mg_plan_builder_compute(b, op_named(g, "a"), &x, &a);
    mg_plan_builder_store(b, a);
    mg_plan_builder_free(b, a);
    uint32_t loaded = mg_plan_builder_load(b, a);
    mg_plan_builder_compute(b, op_named(g, "b"), &loaded, &h);
    mg_plan_builder_free(b, loaded);
    mg_plan_builder_compute(b, op_named(g, "a"), &x, &twin);
    mg_plan_builder_free(b, x);
    mg_plan_builder_compute(b, op_named(g, "c"), &twin, &c);
    mg_plan_builder_free(b, twin);
    mg_plan_builder_compute(b, op_named(g, "y"), (uint32_t[]){h, c}, &y);
    mg_plan_builder_free(b, h);
    mg_plan_builder_compute(b, op_named(g, "z"), &c, &z);
    mg_plan_builder_free(b, c);
    return mg_plan_builder_finish(b, NULL, &f->plan, err);
}

/* Two layers, forward, backward, updates: in parts of 3, 3 and 2 rows. Sums of gradients, a view of a part. */
static void train_graph(struct bench *b)
{
    training_step(b, 2, 8, 16);
}

static enum mg_code build_train(void *context, struct mg_error *err)
{
    struct fixture *f = context;
    uint32_t updates = 0;
    for (mg_op op = 0; op < f->b->n->op_count; op++)
        updates += f->b->n->ops[op].type == MG_OP_SGD;
    struct span span = {0, (uint32_t)f->b->n->op_count - updates, 3, MG_NONE, 8, 0, NULL};
    struct assembly s = {.g = f->b->n,
                         .device = mg_device_builtin("rtx3090"),
                         .arena = &f->b->arena,
                         .spans = &span,
                         .span_count = 1,
                         .swap_percent = 30};
    mg_rng_init(&s.rng, 2);
    enum mg_code code = assemble(&s, err);
    f->plan = s.plan;
    return code;
}

/* y = a b, cut along n and, within, along k: the boxes of the sums are not contiguous. u = relu(layer_norm x), cut
 * along dimension 1, reads slices of x and is joined. */
static void nested_graph(struct bench *b)
{
    mg_value a = input(b, "a", SHAPE(6, 12)), w = value_of(b, MG_KIND_WEIGHT, "w", SHAPE(12, 8)), n[3];
    mg_value x = input(b, "x", SHAPE(4, 6, 8));
    mg_graph_add_output(b->g, op1(b, MG_OP_MATMUL, "y", VALUES(a, w), NO_ATTRS));
    cr_assert_eq(mg_graph_add_op(b->g, MG_OP_LAYER_NORM, "norm", &x, 1, NULL, 0, NULL, 3, n, &b->err), MG_OK);
    mg_graph_add_output(b->g, op1(b, MG_OP_RELU, "u", VALUES(n[0]), NO_ATTRS));
    cr_assert(normalise(b), "%s", b->err.message);
}

static uint32_t axis_named(const struct mg_graph *g, mg_op op, const char *name)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(g, op, &count);
    for (uint32_t a = 0; a < count; a++)
        if (strcmp(axes[a].name, name) == 0)
            return a;
    return MG_NONE;
}

static void build_product(struct mg_plan_builder *b, const struct mg_graph *g)
{
    mg_op op = op_named(g, "y");
    struct mg_region_op n = {op, axis_named(g, op, "n"), 1}, k = {op, axis_named(g, op, "k"), 1};
    uint32_t outer = mg_plan_builder_region(b, MG_NONE, 8, 2, &n, 1), whole, result;
    uint32_t inner = mg_plan_builder_region(b, outer, 12, 3, &k, 1), in[2];
    in[0] = mg_plan_builder_initial(b, mg_graph_find_value(g, "a"));
    in[1] = mg_plan_builder_initial(b, mg_graph_find_value(g, "w"));
    mg_value out = g->ops[op].out[0];
    mg_plan_builder_begin(b, outer, &out, 1, &whole);
    mg_plan_builder_begin(b, inner, NULL, 0, NULL);
    for (uint32_t i = 0; i < 2; i++)
        in[i] = mg_plan_builder_operand(b, op, i, in[i]);
    mg_plan_builder_run(b, op, in, &result);
    mg_plan_builder_end(b, inner);
    mg_plan_builder_end(b, outer);
}

static void build_rows(struct mg_plan_builder *b, const struct mg_graph *g)
{
    mg_op norm = op_named(g, "norm"), relu = op_named(g, "u");
    struct mg_region_op ops[2] = {{norm, axis_named(g, norm, "d1"), 1}, {relu, axis_named(g, relu, "d1"), 1}};
    uint32_t region = mg_plan_builder_region(b, MG_NONE, 6, 4, ops, 2), whole;
    uint32_t x = mg_plan_builder_initial(b, mg_graph_find_value(g, "x")), n[3], u;
    mg_plan_builder_begin(b, region, &g->ops[relu].out[0], 1, &whole);
    uint32_t slice = mg_plan_builder_operand(b, norm, 0, x);
    mg_plan_builder_run(b, norm, &slice, n);
    for (int i = 1; i < 3; i++)
        mg_plan_builder_free(b, n[i]);
    mg_plan_builder_free(b, slice);
    mg_plan_builder_run(b, relu, n, &u);
    mg_plan_builder_free(b, n[0]);
    mg_plan_builder_free(b, u);
    mg_plan_builder_end(b, region);
}

static enum mg_code build_nested(void *context, struct mg_error *err)
{
    struct fixture *f = context;
    struct mg_plan_builder *b = mg_plan_builder_new(f->b->n, mg_device_builtin("rtx3090"), &f->b->arena);
    build_product(b, f->b->n);
    build_rows(b, f->b->n);
    return mg_plan_builder_finish(b, NULL, &f->plan, err);
}

/* e = exp w, f = g w, d = e + f; w' = sgd(w, d): e, d and w' in one region over the rows of all, f before it. */
static void update_graph(struct bench *b)
{
    mg_value g = input(b, "g", SHAPE(9, 9)), w = value_of(b, MG_KIND_WEIGHT, "w", SHAPE(9, 9));
    mg_value f = op1(b, MG_OP_MATMUL, "f", VALUES(g, w), NO_ATTRS), e = op1(b, MG_OP_EXP, "e", VALUES(w), NO_ATTRS);
    mg_value d = op1(b, MG_OP_ADD, "d", VALUES(f, e), NO_ATTRS);
    mg_graph_add_update(b->g, w, op1(b, MG_OP_SGD, "w2", VALUES(w, d), ATTRS(REAL_OF(LR, 0.1))));
    cr_assert(normalise(b), "%s", b->err.message);
}

/* With `inside`, f is in the region: it reads all rows of w in every part, though some are overwritten by then. */
static enum mg_code build_update_with(struct fixture *fixture, bool inside, struct mg_error *err)
{
    const struct mg_graph *g = fixture->b->n;
    struct mg_plan_builder *b = mg_plan_builder_new(g, mg_device_builtin("rtx3090"), &fixture->b->arena);
    static const char *const names[] = {"f", "e", "d", "w2"};
    struct mg_region_op ops[4];
    for (int i = 0; i < 4; i++)
        ops[i] = (struct mg_region_op){op_named(g, names[i]), i ? 0 : axis_named(g, op_named(g, "f"), "m"), 1};
    uint32_t region = mg_plan_builder_region(b, MG_NONE, 9, 2, ops + !inside, 3 + inside);
    uint32_t x = mg_plan_builder_initial(b, mg_graph_find_value(g, "g")), f = MG_NONE, e = MG_NONE, d = MG_NONE;
    uint32_t w = mg_plan_builder_initial(b, mg_graph_find_value(g, "w")), updated = MG_NONE;
    if (!inside)
        mg_plan_builder_compute(b, ops[0].op, (uint32_t[]){x, w}, &f);
    mg_plan_builder_begin(b, region, NULL, 0, NULL);
    if (inside)
        mg_plan_builder_compute(b, ops[0].op, (uint32_t[]){x, w}, &f);
    mg_plan_builder_compute(b, ops[1].op, &w, &e);
    mg_plan_builder_compute(b, ops[2].op, (uint32_t[]){f, e}, &d);
    mg_plan_builder_free(b, e);
    if (inside)
        mg_plan_builder_free(b, f);
    mg_plan_builder_compute(b, ops[3].op, (uint32_t[]){w, d}, &updated);
    mg_plan_builder_free(b, d);
    mg_plan_builder_end(b, region);
    if (!inside)
        mg_plan_builder_free(b, f);
    mg_plan_builder_free(b, x);
    return mg_plan_builder_finish(b, NULL, &fixture->plan, err);
}

static enum mg_code build_update(void *context, struct mg_error *err)
{
    return build_update_with(context, false, err);
}

static enum mg_code build_update_inside(void *context, struct mg_error *err)
{
    return build_update_with(context, true, err);
}

/* The same without a region, w at home on the host, something impure before and after, p in place on d. */
static void home_graph(struct bench *b)
{
    mg_value g = input(b, "g", SHAPE(8, 4)), w = value_of(b, MG_KIND_WEIGHT, "w", SHAPE(8, 4)), o[2];
    mg_value m = value_of(b, MG_KIND_STATE, "m", SHAPE(8, 4));
    b->g->values[w].home = MG_HOME_HOST;
    for (int i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "o%d", i);
        o[i] = mg_graph_add_value(b->g, name, MG_KIND_COMPUTED, MG_DTYPE_F32, SHAPE(8, 4));
        b->g->values[o[i]].declared = true;
        const char *names[] = {name};
        cr_assert_eq(mg_graph_add_op(b->g, MG_OP_OPAQUE, name, &g, 1, NULL, 0, names, 1, &o[i], &b->err), MG_OK, "%s",
                     b->err.message);
    }
    mg_value e = op1(b, MG_OP_EXP, "e", VALUES(w), NO_ATTRS);
    mg_value d = op1(b, MG_OP_ADD, "d", VALUES(o[0], e), NO_ATTRS), p = op1(b, MG_OP_TANH, "p", VALUES(d), NO_ATTRS);
    mg_value q = op1(b, MG_OP_ADD, "q", VALUES(p, o[1]), NO_ATTRS);
    mg_graph_add_update(b->g, w, op1(b, MG_OP_SGD, "w2", VALUES(w, q), ATTRS(REAL_OF(LR, 0.1))));
    mg_graph_add_output(b->g, op1(b, MG_OP_SIN, "r", VALUES(w), NO_ATTRS));
    mg_graph_add_update(b->g, m, op1(b, MG_OP_MOMENTUM, "m2", VALUES(m, q), NO_ATTRS));
    cr_assert(normalise(b), "%s", b->err.message);
}

static enum mg_code build_home(void *context, struct mg_error *err)
{
    struct fixture *f = context;
    const struct mg_graph *g = f->b->n;
    struct mg_plan_builder *b = mg_plan_builder_new(g, mg_device_builtin("rtx3090"), &f->b->arena);
    uint32_t x = mg_plan_builder_initial(b, mg_graph_find_value(g, "g")), o[2] = {MG_NONE, MG_NONE}, e = MG_NONE;
    uint32_t d = MG_NONE, p = MG_NONE, q = MG_NONE, r = MG_NONE, w2 = MG_NONE, m2 = MG_NONE;
    uint32_t m = mg_plan_builder_initial(b, mg_graph_find_value(g, "m"));
    uint32_t w = mg_plan_builder_load_home(b, mg_graph_find_value(g, "w"));
    mg_plan_builder_compute(b, op_named(g, "o0"), &x, &o[0]);
    mg_plan_builder_compute(b, op_named(g, "o1"), &x, &o[1]);
    mg_plan_builder_free(b, x);
    mg_plan_builder_compute(b, op_named(g, "e"), &w, &e);
    mg_plan_builder_compute(b, op_named(g, "d"), (uint32_t[]){o[0], e}, &d);
    mg_plan_builder_free(b, e);
    mg_plan_builder_free(b, o[0]);
    mg_plan_builder_compute_as(b, op_named(g, "p"), &d, &p, 0);
    mg_plan_builder_compute(b, op_named(g, "q"), (uint32_t[]){p, o[1]}, &q);
    mg_plan_builder_free(b, p);
    mg_plan_builder_free(b, o[1]);
    mg_plan_builder_compute(b, op_named(g, "r"), &w, &r);
    mg_plan_builder_compute(b, op_named(g, "w2"), (uint32_t[]){w, q}, &w2);
    mg_plan_builder_compute(b, op_named(g, "m2"), (uint32_t[]){m, q}, &m2);
    mg_plan_builder_free(b, q);
    mg_plan_builder_store(b, w2);
    mg_plan_builder_free(b, w2);
    return mg_plan_builder_finish(b, NULL, &f->plan, err);
}

/* ---- order and residency ---- */

static void reader_first(struct broken *b)
{
    move_step(b, compute_of(b, "y", 0), b->blame = nth(b, MG_STEP_LOAD, 0) + 1);
}
static void freed_before_last_reader(struct broken *b)
{
    b->blame = compute_of(b, "y", 0);
    move_step(b, b->blame + 1, b->blame);
    b->blame++;
}
static void read_after_free(struct broken *b)
{
    uint32_t load = nth(b, MG_STEP_LOAD, 0);
    *in_of(b, b->blame = compute_of(b, "c", 0), 0) = *in_of(b, load, 0);
}
static void load_missing(struct broken *b)
{
    remove_step(b, nth(b, MG_STEP_LOAD, 0));
    b->blame = compute_of(b, "c", 0);
}
static void load_without_store(struct broken *b)
{
    remove_step(b, nth(b, MG_STEP_STORE, 0));
    b->blame = nth(b, MG_STEP_LOAD, 0);
}
static void load_before_store(struct broken *b)
{
    move_step(b, nth(b, MG_STEP_LOAD, 0), b->blame = nth(b, MG_STEP_STORE, 0));
}
static void load_of_another_value(struct broken *b)
{
    *in_of(b, b->blame = nth(b, MG_STEP_LOAD, 0), 0) = instance_of(b, "b", 0);
}
static void load_from_no_home(struct broken *b)
{
    b->plan->steps[b->blame = nth(b, MG_STEP_LOAD, 0)].in_count = 0;
}
static void stored_after_free(struct broken *b)
{
    move_step(b, nth(b, MG_STEP_STORE, 0), b->blame = nth(b, MG_STEP_FREE, 1));
}
static void freed_twice(struct broken *b)
{
    insert_step(b, b->blame = nth(b, MG_STEP_FREE, 0) + 1, free_of(b, instance_of(b, "x", 0)));
}
static void view_freed(struct broken *b)
{
    uint32_t last = nth(b, MG_STEP_FREE, 4);
    *in_of(b, b->blame = last, 0) = instance_of(b, "t", 0);
}
static void output_freed(struct broken *b)
{
    insert_step(b, (uint32_t)b->plan->step_count, free_of(b, instance_of(b, "y", 0)));
}
static void output_never_made(struct broken *b)
{
    remove_step(b, compute_of(b, "z", 0));
    b->plan->instance_count--; /* z's is the last */
}
static void other_value(struct broken *b)
{
    *in_of(b, b->blame = compute_of(b, "y", 0), 0) = instance_of(b, "c", 0);
}
static void operands_exchanged(struct broken *b)
{
    b->blame = compute_of(b, "y", 0);
    uint32_t first = *in_of(b, b->blame, 0);
    *in_of(b, b->blame, 0) = *in_of(b, b->blame, 1);
    *in_of(b, b->blame, 1) = first;
}
static void other_result(struct broken *b)
{
    b->plan->instances[*out_of(b, b->blame = compute_of(b, "b", 0), 0)].value = mg_graph_find_value(b->g, "c");
}
static void other_operator(struct broken *b)
{
    b->plan->steps[b->blame = compute_of(b, "c", 0)].op = op_named(b->g, "b");
}
static void made_twice(struct broken *b)
{
    insert_step(b, b->blame = compute_of(b, "b", 0) + 1, b->plan->steps[compute_of(b, "b", 0)]);
}
static void made_elsewhere(struct broken *b)
{
    b->blame = compute_of(b, "b", 0);
    b->plan->instances[instance_of(b, "b", 0)].made_by = 0;
}
static void made_by_nobody(struct broken *b)
{
    b->plan->instances[instance_of(b, "b", 0)].made_by = MG_NONE;
}
static void storage_shared(struct broken *b)
{
    b->blame = compute_of(b, "b", 0);
    b->plan->instances[instance_of(b, "b", 0)].storage = b->plan->instances[instance_of(b, "x", 0)].storage;
}
static void input_missing(struct broken *b)
{
    uint32_t x = instance_of(b, "x", 0);
    b->plan->instances[x].value = mg_graph_find_value(b->g, "a");
    b->plan->instances[x].made_by = 1;
}
static void input_twice(struct broken *b)
{
    twin_of(b, instance_of(b, "x", 0));
}
static void never_made(struct broken *b)
{
    twin_of(b, instance_of(b, "y", 0));
}
static void view_stride(struct broken *b)
{
    b->blame = compute_of(b, "c", 0);
    b->plan->instances[instance_of(b, "t", 0)].stride[0] = 32;
}
static void view_offset(struct broken *b)
{
    b->blame = compute_of(b, "c", 0);
    b->plan->instances[instance_of(b, "t", 0)].offset = 1;
}
static void view_of_another(struct broken *b)
{
    uint32_t t = instance_of(b, "t", 0), y = instance_of(b, "y", 0);
    b->plan->instances[t].view_of = y;
    b->plan->instances[t].storage = b->plan->instances[y].storage;
    b->plan->instances[t].made_by = b->plan->instances[y].made_by;
    b->blame = compute_of(b, "y", 0);
}
static void view_of_a_view(struct broken *b)
{
    uint32_t t = instance_of(b, "t", 0);
    b->plan->instances[t].view_of = t;
}
static void shape_wrong(struct broken *b)
{
    b->blame = compute_of(b, "b", 0);
    b->plan->instances[instance_of(b, "b", 0)].shape.dim[0] = 32;
}

/* ---- figures ---- */

static void latency_false(struct broken *b)
{
    b->plan->figures.latency_s *= 1 + 2e-9;
}
static void latency_nan(struct broken *b)
{
    b->plan->figures.latency_s = NAN;
}
static void peak_false(struct broken *b)
{
    b->plan->figures.peak_bytes -= 512;
}
static void arena_larger(struct broken *b)
{
    b->plan->figures.arena_bytes += 512;
}
static void arena_smaller(struct broken *b)
{
    b->plan->figures.arena_bytes -= 512;
}
static void host_false(struct broken *b)
{
    b->plan->figures.host_bytes += 1;
}
static void original_latency(struct broken *b)
{
    b->plan->original.latency_s *= 1.01;
}
static void original_peak(struct broken *b)
{
    b->plan->original.peak_bytes += 512;
    b->plan->original.arena_bytes += 512;
}
static void original_arena(struct broken *b)
{
    uint64_t storage = 64 * 32 * sizeof(float); /* x, a, b, c, y and z; t is a view */
    b->plan->original.arena_bytes = 6 * storage;
    cr_expect(verdict_of(b->g, b->plan, b->arena).accepted);
    b->plan->original.arena_bytes += 512;
}
static void original_arena_below_peak(struct broken *b)
{
    b->plan->original.arena_bytes = b->plan->original.peak_bytes - 512;
}
static void price_seconds(struct broken *b)
{
    b->blame = 0;
    b->plan->prices[0].seconds *= 0.999;
}
static void price_name(struct broken *b)
{
    b->blame = 0;
    snprintf(b->plan->prices[0].name, sizeof b->plan->prices[0].name, "tanh");
}
static void price_signature(struct broken *b)
{
    b->blame = 0;
    b->plan->prices[0].signature = "f32;f32[64,16]->f32[64,16]";
}
static void price_measured_signature(struct broken *b)
{
    b->blame = 0;
    b->plan->prices[0].source = MG_PRICE_EXACT;
    b->plan->prices[0].signature = "f32;f32[64,16]->f32[64,16]";
}
static void price_workspace(struct broken *b)
{
    b->blame = 0;
    b->plan->prices[0].workspace = 512;
}
static void workspace_without_storage(struct broken *b)
{
    b->blame = 0;
    b->plan->prices[0].source = MG_PRICE_EXACT;
    b->plan->prices[0].workspace = 512;
}
static void price_of_another(struct broken *b)
{
    uint32_t store = nth(b, MG_STEP_STORE, 0);
    b->blame = store;
    b->plan->refs[b->plan->steps[store].price] = b->plan->refs[b->plan->steps[0].price];
}
static void price_unused(struct broken *b)
{
    struct mg_price *prices = MG_NEW_ARRAY(b->arena, struct mg_price, b->plan->price_count + 1);
    memcpy(prices, b->plan->prices, b->plan->price_count * sizeof *prices);
    prices[b->plan->price_count] = prices[0];
    b->plan->prices = prices;
    b->plan->price_count++;
}
static void offsets_overlap(struct broken *b)
{
    b->plan->storages[b->plan->instances[instance_of(b, "b", 0)].storage].offset =
        b->plan->storages[b->plan->instances[instance_of(b, "c", 0)].storage].offset;
}
static void offset_misaligned(struct broken *b)
{
    b->plan->storages[0].offset += 256;
    b->plan->figures.arena_bytes += 512;
}
static void storage_bytes(struct broken *b)
{
    b->blame = compute_of(b, "b", 0);
    b->plan->storages[b->plan->instances[instance_of(b, "b", 0)].storage].bytes -= 512;
}
static void storage_unused(struct broken *b)
{
    twin_of(b, instance_of(b, "x", 0));
    b->plan->instance_count--;
}

/* ---- the frame ---- */

static void other_graph(struct broken *b)
{
    b->plan->graph_digest[0] ^= 1;
}
static void edit_unknown(struct broken *b)
{
    b->plan->edits[0].rule = "aggregate";
}
static void edits_missing(struct broken *b)
{
    b->blame = nth(b, MG_STEP_STORE, 0);
    b->plan->edit_count = 0;
}
static void edit_missing(struct broken *b)
{
    b->blame = compute_of(b, "a", 1);
    b->plan->edit_count--;
}
static void edit_twice(struct broken *b)
{
    struct mg_edit *edits = MG_NEW_ARRAY(b->arena, struct mg_edit, 3);
    memcpy(edits, b->plan->edits, 2 * sizeof *edits);
    edits[2] = edits[1];
    b->plan->edits = edits;
    b->plan->edit_count = 3;
}
static void edits_exchanged(struct broken *b)
{
    struct mg_edit first = b->plan->edits[0];
    b->blame = nth(b, MG_STEP_STORE, 0);
    b->plan->edits[0] = b->plan->edits[1];
    b->plan->edits[1] = first;
}
static void edit_of_another_rule(struct broken *b)
{
    b->blame = nth(b, MG_STEP_STORE, 0);
    b->plan->edits[0].rule = "remat";
}
static void swap_renamed(struct broken *b)
{
    b->blame = nth(b, MG_STEP_STORE, 0);
    b->plan->edits[0].binding = "{\"value\":\"b\"}";
}
static void remat_renamed(struct broken *b)
{
    b->blame = compute_of(b, "a", 1);
    b->plan->edits[1].binding = "{\"op\":\"b\"}";
}
static void remat_bound_to_a_value(struct broken *b)
{
    b->blame = compute_of(b, "a", 1);
    b->plan->edits[1].binding = "{\"value\":\"a\"}";
}
static void swap_adds(struct broken *b)
{
    b->blame = nth(b, MG_STEP_STORE, 0);
    b->plan->edits[0].added = "[\"a@load1\"]";
}
static void remat_removes(struct broken *b)
{
    b->blame = compute_of(b, "a", 1);
    b->plan->edits[1].removed = "[\"a\"]";
}
static void device_align(struct broken *b)
{
    b->plan->device.align = 384;
}
static void device_faster(struct broken *b)
{
    b->blame = 0;
    b->plan->device.mem_bw *= 2;
}
static void device_streams(struct broken *b)
{
    b->plan->device.copy_streams = 0;
}
static void garbage_instance(struct broken *b)
{
    *in_of(b, b->blame = 2, 0) = 4000000000u;
}
static void garbage_range(struct broken *b)
{
    b->plan->steps[b->blame = 2].in = 4000000000u;
}
static void garbage_price(struct broken *b)
{
    b->plan->refs[b->plan->steps[b->blame = 2].price] = 99999;
}
static void garbage_storage(struct broken *b)
{
    b->plan->instances[1].storage = 99999;
}
static void garbage_value(struct broken *b)
{
    b->plan->instances[1].value = 99999;
}
static void garbage_operator(struct broken *b)
{
    b->plan->steps[b->blame = 2].op = 99999;
}
static void garbage_kind(struct broken *b)
{
    b->plan->steps[b->blame = 2].kind = (enum mg_step_kind)77;
}

/* ---- versions, in place, impure ---- */

static void update_before_reader(struct broken *b)
{
    move_step(b, compute_of(b, "w2", 0), b->blame = compute_of(b, "r", 0));
    b->blame++;
}
static void recomputed_from_old(struct broken *b)
{
    uint32_t e = compute_of(b, "e", 0), at = compute_of(b, "w2", 0) + 1, twin = twin_of(b, *out_of(b, e, 0));
    struct mg_step step = b->plan->steps[e];
    step.out = add_ref(b, twin);
    insert_step(b, b->blame = at, step);
    b->plan->instances[twin].made_by = at;
}
static void old_version_loaded(struct broken *b)
{
    uint32_t load = nth(b, MG_STEP_LOAD, 0), twin = twin_of(b, *out_of(b, load, 0));
    struct mg_step step = b->plan->steps[load];
    step.out = add_ref(b, twin);
    uint32_t at = compute_of(b, "w2", 0) + 1;
    insert_step(b, b->blame = at, step);
    b->plan->instances[twin].made_by = at;
}
static void update_missing(struct broken *b)
{
    remove_step(b, compute_of(b, "m2", 0));
    b->plan->instance_count--; /* m2's is the last */
}
static void update_not_stored(struct broken *b)
{
    remove_step(b, nth(b, MG_STEP_STORE, 0));
}
static void update_elsewhere(struct broken *b)
{
    uint32_t m2 = instance_of(b, "m2", 0), twin = twin_of(b, m2);
    b->plan->instances[m2].storage = b->plan->instances[twin].storage;
    b->plan->instance_count--;
    b->blame = compute_of(b, "m2", 0);
}
static void state_freed(struct broken *b)
{
    insert_step(b, (uint32_t)b->plan->step_count, free_of(b, instance_of(b, "m2", 0)));
}
static void in_place_on_input(struct broken *b)
{
    b->blame = compute_of(b, "o0", 0);
    b->plan->instances[instance_of(b, "o0", 0)].storage = b->plan->instances[instance_of(b, "g", 0)].storage;
}
static void in_place_on_weight(struct broken *b)
{
    b->blame = compute_of(b, "e", 0);
    b->plan->instances[instance_of(b, "e", 0)].storage = b->plan->instances[instance_of(b, "w", 0)].storage;
}
static void overwritten_then_read(struct broken *b)
{
    /* p overwrites d: let q read d's instance as if it still held p's operand */
    uint32_t twice = compute_of(b, "p", 0);
    insert_step(b, b->blame = twice + 1, b->plan->steps[twice]);
}
static void impure_twice(struct broken *b)
{
    uint32_t o = compute_of(b, "o0", 0), twin = twin_of(b, *out_of(b, o, 0));
    struct mg_step step = b->plan->steps[o];
    step.out = add_ref(b, twin);
    insert_step(b, b->blame = o + 1, step);
    b->plan->instances[twin].made_by = o + 1;
}
static void impure_order(struct broken *b)
{
    move_step(b, compute_of(b, "o0", 0), compute_of(b, "o1", 0));
    b->blame = compute_of(b, "o0", 0);
}
static void home_twice(struct broken *b)
{
    b->plan->instances[instance_of(b, "w", 0)].made_by = MG_NONE;
}

/* ---- regions ---- */

static void acc_dropped(struct broken *b)
{
    remove_step(b, nth(b, MG_STEP_ACC, 0));
    b->blame = nth(b, MG_STEP_END, 0);
}
static void acc_twice(struct broken *b)
{
    uint32_t acc = nth(b, MG_STEP_ACC, 0);
    insert_step(b, acc, b->plan->steps[acc]);
    b->blame = acc;
}
static void acc_into_another(struct broken *b)
{
    uint32_t a = nth(b, MG_STEP_ACC, 0), c = nth(b, MG_STEP_ACC, 1);
    *in_of(b, b->blame = a, 1) = *in_of(b, c, 1);
}
static void acc_as_join(struct broken *b)
{
    b->plan->steps[b->blame = nth(b, MG_STEP_ACC, 0)].kind = MG_STEP_JOIN;
}
static void acc_of_late_free(struct broken *b)
{
    uint32_t acc = b->blame = nth(b, MG_STEP_ACC, 0);
    move_step(b, acc + 1, acc + 2);
}
static void sum_written_directly(struct broken *b)
{
    uint32_t acc = nth(b, MG_STEP_ACC, 0), local = *in_of(b, acc, 0), whole = *in_of(b, acc, 1);
    for (uint32_t s = 0; s < acc; s++)
        if (b->plan->steps[s].kind == MG_STEP_COMPUTE && *out_of(b, s, 0) == local)
            *out_of(b, b->blame = s, 0) = whole;
}
/* The update that reads a gradient moves into the region, before the acc. Returns its step. */
static uint32_t update_inside(struct broken *b)
{
    uint32_t acc = nth(b, MG_STEP_ACC, 0), update = 0;
    mg_value sum = b->plan->instances[*in_of(b, acc, 0)].value;
    while (b->plan->steps[update].kind != MG_STEP_COMPUTE || b->g->ops[b->plan->steps[update].op].type != MG_OP_SGD ||
           b->g->ops[b->plan->steps[update].op].in[1] != sum)
        update++;
    struct mg_region *r = &b->plan->regions[0];
    struct mg_region_op *ops = MG_NEW_ARRAY(b->arena, struct mg_region_op, r->op_count + 1);
    memcpy(ops, r->ops, r->op_count * sizeof *ops);
    ops[r->op_count] = (struct mg_region_op){b->plan->steps[update].op, 0, 2};
    for (uint32_t i = r->op_count++; i > 0 && ops[i - 1].op > ops[i].op; i--) {
        struct mg_region_op later = ops[i - 1];
        ops[i - 1] = ops[i];
        ops[i] = later;
    }
    r->ops = ops;
    move_step(b, update, acc);
    return acc;
}
static void temporary_read(struct broken *b)
{
    uint32_t update = b->blame = update_inside(b);
    *in_of(b, update, 1) = *in_of(b, update + 1, 0);
}
static void sum_read_inside(struct broken *b)
{
    uint32_t update = update_inside(b);
    *in_of(b, update, 1) = *in_of(b, update + 1, 1);
    move_step(b, update, b->blame = update + 2); /* after the acc and its free */
}
static void exact_numerics(struct broken *b)
{
    b->plan->numerics = MG_NUMERICS_EXACT;
    b->blame = nth(b, MG_STEP_ACC, 0);
}
static void parts_zero(struct broken *b)
{
    b->plan->regions[0].parts = 0;
}
static void parts_many(struct broken *b)
{
    b->plan->regions[0].parts = 9;
}
static void parts_other(struct broken *b)
{
    b->plan->regions[0].parts = 4;
}
static void length_other(struct broken *b)
{
    b->plan->regions[0].length = 7;
}
static void axis_garbage(struct broken *b)
{
    own_ops(b, 0)[0].axis = 99;
}
static void axis_other(struct broken *b)
{
    own_ops(b, 0)[0].axis++;
}
static void scale_zero(struct broken *b)
{
    own_ops(b, 0)[0].scale = 0;
}
static void scale_other(struct broken *b)
{
    own_ops(b, 0)[0].scale = 2;
}
static void operator_unlisted(struct broken *b)
{
    b->plan->regions[0].ops++;
    b->plan->regions[0].op_count--;
    b->blame = nth(b, MG_STEP_COMPUTE, 0);
}
static void operator_not_run(struct broken *b)
{
    /* the region claims its first reader outside */
    uint32_t update = compute_of(b, b->g->ops[b->g->op_count - 1].name, 0);
    struct mg_region_op *ops = MG_NEW_ARRAY(b->arena, struct mg_region_op, b->plan->regions[0].op_count + 1);
    memcpy(ops, b->plan->regions[0].ops, b->plan->regions[0].op_count * sizeof *ops);
    ops[b->plan->regions[0].op_count++] = (struct mg_region_op){b->plan->steps[update].op, 0, 2};
    b->plan->regions[0].ops = ops;
}
static void operator_twice(struct broken *b)
{
    struct mg_region_op *ops = own_ops(b, 0);
    ops[1] = ops[0];
}
static void output_freed_inside(struct broken *b)
{
    uint32_t end = nth(b, MG_STEP_END, 0);
    insert_step(b, b->blame = end, free_of(b, *out_of(b, nth(b, MG_STEP_BEGIN, 0), 0)));
}
static void input_freed_inside(struct broken *b)
{
    uint32_t end = nth(b, MG_STEP_END, 0), from = end + 1;
    while (b->plan->steps[from].kind != MG_STEP_FREE)
        from++;
    move_step(b, from, b->blame = end);
}
static void output_stored_inside(struct broken *b)
{
    uint32_t end = nth(b, MG_STEP_END, 0), store = nth(b, MG_STEP_STORE, 0);
    struct mg_step step = b->plan->steps[store];
    step.in = add_ref(b, *out_of(b, nth(b, MG_STEP_BEGIN, 0), 0));
    insert_step(b, b->blame = end, step);
}
static void local_not_freed(struct broken *b)
{
    uint32_t end = nth(b, MG_STEP_END, 0), last = end;
    while (b->plan->steps[last].kind != MG_STEP_FREE || b->plan->steps[last - 1].kind == MG_STEP_ACC)
        last--;
    remove_step(b, last);
    b->blame = end - 1;
}
static void begin_missing(struct broken *b)
{
    b->plan->steps[nth(b, MG_STEP_BEGIN, 0)].op = 99;
    b->blame = nth(b, MG_STEP_BEGIN, 0);
}
static void end_missing(struct broken *b)
{
    remove_step(b, nth(b, MG_STEP_END, 0));
}
static void own_parent(struct broken *b)
{
    b->plan->regions[0].parent = 0;
}
static void prices_exchanged(struct broken *b)
{
    b->blame = nth(b, MG_STEP_COMPUTE, 0);
    uint32_t *prices = b->plan->refs + b->plan->steps[b->blame].price, first = prices[0];
    cr_assert_neq(prices[0], prices[1]);
    prices[0] = prices[1];
    prices[1] = first;
}
static void price_missing(struct broken *b)
{
    b->plan->steps[b->blame = nth(b, MG_STEP_COMPUTE, 0)].price_count = 1;
}

/* ---- nested regions, slices, joins ---- */

static void regions_cross(struct broken *b)
{
    uint32_t end = nth(b, MG_STEP_END, 0);
    move_step(b, end, end + 1);
    b->blame = end;
}
static void siblings_wait(struct broken *b)
{
    b->plan->regions[1].parent = MG_NONE; /* as if the two stood side by side, each in the other */
    b->plan->regions[1].length = 12;
    b->blame = nth(b, MG_STEP_BEGIN, 1);
}
static void join_dropped(struct broken *b)
{
    remove_step(b, nth(b, MG_STEP_JOIN, 0));
    b->blame = nth(b, MG_STEP_END, 2);
}
static void join_of_another(struct broken *b)
{
    uint32_t join = b->blame = nth(b, MG_STEP_JOIN, 0);
    *in_of(b, join, 1) = *out_of(b, nth(b, MG_STEP_BEGIN, 0), 0);
}
static void join_from_slice(struct broken *b)
{
    *in_of(b, b->blame = nth(b, MG_STEP_JOIN, 0), 0) = *out_of(b, nth(b, MG_STEP_SLICE, 0), 0);
}
static void join_needed(struct broken *b)
{
    uint32_t join = nth(b, MG_STEP_JOIN, 0);
    *out_of(b, b->blame = compute_of(b, "u", 0), 0) = *in_of(b, join, 1);
}
static void slice_needed(struct broken *b)
{
    remove_step(b, nth(b, MG_STEP_SLICE, 0));
    *in_of(b, b->blame = compute_of(b, "norm", 0), 0) = instance_of(b, "x", 0);
}
static void slice_unread(struct broken *b)
{
    *in_of(b, compute_of(b, "norm", 0), 0) = instance_of(b, "x", 0);
    b->blame = nth(b, MG_STEP_SLICE, 0);
}
static void slice_of_another(struct broken *b)
{
    *in_of(b, b->blame = nth(b, MG_STEP_SLICE, 0), 0) = instance_of(b, "a", 0);
}
static void slice_shape(struct broken *b)
{
    b->plan->instances[*out_of(b, b->blame = nth(b, MG_STEP_SLICE, 0), 0)].shape.dim[1] = 3;
}
static void other_axes(struct broken *b)
{
    /* relu runs along dimension 0 while layer_norm runs along dimension 1 */
    struct mg_region_op *ops = own_ops(b, 2);
    b->plan->regions[2].length = 4;
    b->plan->regions[2].parts = 4;
    ops[0].axis = axis_named(b->g, ops[0].op, "d0");
    ops[1].axis = axis_named(b->g, ops[1].op, "d0");
}
static void reader_on_other_axis(struct broken *b)
{
    struct mg_region_op *ops = own_ops(b, 2);
    ops[1].axis = axis_named(b->g, ops[1].op, "d2");
    ops[1].scale = 1;
}
static void join_price_missing(struct broken *b)
{
    uint32_t acc = b->blame = nth(b, MG_STEP_ACC, 0);
    b->plan->steps[acc].price_count = 1;
}
static void combiner_missing(struct broken *b)
{
    /* mean and rstd do not carry layer_norm's own dimension, nor can its parts be combined */
    struct mg_region_op *ops = own_ops(b, 2);
    ops[0].axis = 2;
}
static void read_outside(struct broken *b)
{
    uint32_t u = compute_of(b, "u", 0), twin = twin_of(b, *out_of(b, u, 0)), at = nth(b, MG_STEP_END, 2) + 1;
    struct mg_step step = b->plan->steps[u];
    step.out = add_ref(b, twin);
    insert_step(b, b->blame = at, step);
    b->plan->instances[twin].made_by = at;
}
static void not_connected(struct broken *b)
{
    struct mg_region_op *ops = MG_NEW_ARRAY(b->arena, struct mg_region_op, 3);
    ops[0] = (struct mg_region_op){op_named(b->g, "y"), axis_named(b->g, op_named(b->g, "y"), "m"), 1};
    memcpy(ops + 1, b->plan->regions[2].ops, 2 * sizeof *ops);
    b->plan->regions[2].ops = ops;
    b->plan->regions[2].op_count = 3;
}

/* ---- updates in regions (R9) ---- */

static void weight_read_after_update(struct broken *b)
{
    uint32_t e = compute_of(b, "e", 0), w2 = compute_of(b, "w2", 0), twin = twin_of(b, *out_of(b, e, 0));
    struct mg_step step = b->plan->steps[e];
    step.out = add_ref(b, twin);
    insert_step(b, w2 + 1, step);
    b->plan->instances[twin].made_by = w2 + 1;
    b->blame = w2 + 1;
}
static void new_version_read_inside(struct broken *b)
{
    uint32_t d = compute_of(b, "d", 0);
    *in_of(b, d, 1) = instance_of(b, "w2", 0);
    b->blame = d;
}

struct variant {
    const char *name, *reason;
    void (*damage)(struct broken *b);
};
#define VARIANT(damage, reason)                                                                                        \
    {                                                                                                                  \
#damage, reason, damage                                                                                        \
    }

static void try_variant(const struct variant *v, void (*graph)(struct bench *b),
                        enum mg_code (*build)(void *context, struct mg_error *err))
{
    struct bench b;
    bench_open(&b);
    graph(&b);
    struct fixture f = {&b, NULL};
    guarded(&b.arena, build, &f);
    state_original(b.n, f.plan, &b.arena);
    expect_accepted(b.n, f.plan, &b.arena, v->name, 0);
    struct broken broken = {b.n, &b.arena, f.plan, MG_NONE};
    v->damage(&broken);
    struct mg_verdict verdict = verdict_of(b.n, f.plan, &b.arena);
    cr_expect(!verdict.accepted, "%s: accepted", v->name);
    cr_expect_str_eq(verdict.reason, v->reason, "%s: refused as '%s' (%s), not as '%s'", v->name, verdict.reason,
                     verdict.message, v->reason);
    cr_expect(broken.blame == MG_NONE || verdict.step == broken.blame, "%s: step %u is blamed, not %u: %s", v->name,
              verdict.step, broken.blame, verdict.message);
    bench_close(&b);
}
#define TRY_ALL(variants, graph, build)                                                                                \
    for (size_t i = 0; i < sizeof(variants) / sizeof *(variants); i++)                                                 \
    try_variant(&(variants)[i], graph, build)

Test(check_broken, order_residency_figures)
{
    static const struct variant variants[] = {
        VARIANT(reader_first, "order"),
        VARIANT(freed_before_last_reader, "freed"),
        VARIANT(read_after_free, "freed"),
        VARIANT(load_missing, "order"),
        VARIANT(load_without_store, "load"),
        VARIANT(load_before_store, "load"),
        VARIANT(load_of_another_value, "value"),
        VARIANT(load_from_no_home, "load"),
        VARIANT(stored_after_free, "freed"),
        VARIANT(freed_twice, "freed"),
        VARIANT(view_freed, "view"),
        VARIANT(output_freed, "output"),
        VARIANT(output_never_made, "output"),
        VARIANT(other_value, "value"),
        VARIANT(operands_exchanged, "value"),
        VARIANT(other_result, "value"),
        VARIANT(other_operator, "value"),
        VARIANT(made_twice, "order"),
        VARIANT(made_elsewhere, "order"),
        VARIANT(made_by_nobody, "order"),
        VARIANT(storage_shared, "storage"),
        VARIANT(input_missing, "residency"),
        VARIANT(input_twice, "residency"),
        VARIANT(never_made, "order"),
        VARIANT(view_stride, "view"),
        VARIANT(view_offset, "view"),
        VARIANT(view_of_another, "view"),
        VARIANT(view_of_a_view, "view"),
        VARIANT(shape_wrong, "shape"),
        VARIANT(latency_false, "latency"),
        VARIANT(latency_nan, "latency"),
        VARIANT(peak_false, "peak"),
        VARIANT(arena_larger, "arena"),
        VARIANT(arena_smaller, "arena"),
        VARIANT(host_false, "host"),
        VARIANT(original_latency, "original"),
        VARIANT(original_peak, "original"),
        VARIANT(original_arena, "original"),
        VARIANT(original_arena_below_peak, "original"),
        VARIANT(price_seconds, "price"),
        VARIANT(price_name, "price"),
        VARIANT(price_signature, "price"),
        VARIANT(price_measured_signature, "price"),
        VARIANT(price_workspace, "price"),
        VARIANT(workspace_without_storage, "workspace"),
        VARIANT(price_of_another, "price"),
        VARIANT(price_unused, "price"),
        VARIANT(offsets_overlap, "overlap"),
        VARIANT(offset_misaligned, "align"),
        VARIANT(storage_bytes, "bytes"),
        VARIANT(storage_unused, "storage"),
        VARIANT(other_graph, "graph"),
        VARIANT(edit_unknown, "edit"),
        VARIANT(device_align, "device"),
        VARIANT(device_faster, "price"),
        VARIANT(garbage_instance, "form"),
        VARIANT(garbage_range, "form"),
        VARIANT(garbage_price, "form"),
        VARIANT(garbage_storage, "form"),
        VARIANT(garbage_value, "form"),
        VARIANT(garbage_operator, "form"),
        VARIANT(garbage_kind, "form"),
        VARIANT(device_streams, "latency"),
    };
    TRY_ALL(variants, swap_graph, build_swap);
}

Test(check_broken, edits)
{
    static const struct variant variants[] = {
        VARIANT(edits_missing, "edit"),   VARIANT(edit_missing, "edit"),           VARIANT(edit_twice, "edit"),
        VARIANT(edits_exchanged, "edit"), VARIANT(edit_of_another_rule, "edit"),   VARIANT(swap_renamed, "edit"),
        VARIANT(remat_renamed, "edit"),   VARIANT(remat_bound_to_a_value, "edit"), VARIANT(swap_adds, "edit"),
        VARIANT(remat_removes, "edit"),
    };
    TRY_ALL(variants, swap_graph, build_edits);
}

Test(check_broken, versions_and_impure)
{
    static const struct variant variants[] = {
        VARIANT(update_before_reader, "version"), VARIANT(recomputed_from_old, "version"),
        VARIANT(old_version_loaded, "version"),   VARIANT(update_missing, "output"),
        VARIANT(update_not_stored, "residency"),  VARIANT(update_elsewhere, "in-place"),
        VARIANT(state_freed, "residency"),        VARIANT(in_place_on_input, "in-place"),
        VARIANT(in_place_on_weight, "in-place"),  VARIANT(overwritten_then_read, "version"),
        VARIANT(impure_twice, "impure"),          VARIANT(impure_order, "impure"),
        VARIANT(home_twice, "residency"),
    };
    TRY_ALL(variants, home_graph, build_home);
}

Test(check_broken, regions)
{
    static const struct variant variants[] = {
        VARIANT(acc_dropped, "unwritten"),      VARIANT(acc_twice, "acc"),
        VARIANT(acc_into_another, "value"),     VARIANT(acc_as_join, "partial"),
        VARIANT(acc_of_late_free, "acc"),       VARIANT(sum_written_directly, "acc"),
        VARIANT(temporary_read, "partial"),     VARIANT(sum_read_inside, "partial"),
        VARIANT(exact_numerics, "numerics"),    VARIANT(parts_zero, "parts"),
        VARIANT(parts_many, "parts"),           VARIANT(parts_other, "shape"),
        VARIANT(length_other, "length"),        VARIANT(axis_garbage, "axis"),
        VARIANT(axis_other, "length"),          VARIANT(scale_zero, "axis"),
        VARIANT(scale_other, "length"),         VARIANT(operator_unlisted, "region"),
        VARIANT(operator_not_run, "region"),    VARIANT(operator_twice, "region"),
        VARIANT(output_freed_inside, "scope"),  VARIANT(input_freed_inside, "scope"),
        VARIANT(output_stored_inside, "scope"), VARIANT(local_not_freed, "leak"),
        VARIANT(begin_missing, "form"),         VARIANT(end_missing, "nesting"),
        VARIANT(own_parent, "nesting"),         VARIANT(prices_exchanged, "price"),
        VARIANT(price_missing, "price"),
    };
    TRY_ALL(variants, train_graph, build_train);
}

Test(check_broken, nested_regions)
{
    static const struct variant variants[] = {
        VARIANT(regions_cross, "nesting"),    VARIANT(siblings_wait, "nesting"),
        VARIANT(join_dropped, "unwritten"),   VARIANT(join_of_another, "value"),
        VARIANT(join_from_slice, "value"),    VARIANT(join_needed, "join"),
        VARIANT(slice_needed, "layout"),      VARIANT(slice_unread, "slice"),
        VARIANT(slice_of_another, "value"),   VARIANT(slice_shape, "shape"),
        VARIANT(other_axes, "shape"),         VARIANT(reader_on_other_axis, "length"),
        VARIANT(join_price_missing, "price"), VARIANT(combiner_missing, "axis"),
        VARIANT(read_outside, "freed"),       VARIANT(not_connected, "connected"),
    };
    TRY_ALL(variants, nested_graph, build_nested);
}

Test(check_broken, updates_in_regions)
{
    static const struct variant variants[] = {
        VARIANT(weight_read_after_update, "version"),
        VARIANT(new_version_read_inside, "value"),
    };
    TRY_ALL(variants, update_graph, build_update);
}

Test(check_broken, a_weight_read_whole_beside_its_update)
{
    struct bench b;
    bench_open(&b);
    update_graph(&b);
    struct fixture f = {&b, NULL};
    guarded(&b.arena, build_update_inside, &f);
    state_original(b.n, f.plan, &b.arena);
    struct mg_verdict verdict = verdict_of(b.n, f.plan, &b.arena);
    cr_expect(!verdict.accepted && !strcmp(verdict.reason, "version"), "%s: %s", verdict.reason, verdict.message);
    cr_expect_eq(b.n->ops[f.plan->steps[verdict.step].op].type, MG_OP_SGD);
    bench_close(&b);
}
