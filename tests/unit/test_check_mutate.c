/* Random damage: one field of a valid plan is changed. The checker never crashes (run under
 * AddressSanitizer), and what it still accepts means the same: the reference executor computes the
 * graph's own numbers from it, the simulator finds the stated figures, and the field is one of those that
 * carry no meaning of their own in the place where it was changed (`harmless`). */
#include <math.h>

#include "exec/exec.h"
#include "tests/unit/check_util.h"

/* Why a change may be accepted:
 *   device       peaks of dtypes that the graph does not use, a copy stream that no copy uses, memory
 *   source       whether a price was modelled or measured, the seconds being those of the model
 *   numerics     exact, where no sum is split
 *   original     the original's arena, of which only bounds are known
 *   empty        where an empty range of operands or prices begins
 *   dense        offset and strides of an instance that is no view, strides of dimensions of size 1
 *   offset       a storage placed elsewhere, still free there
 *   operand      another instance of the same value, alive and complete: recomputed, loaded, joined
 *   order        two neighbours that make nothing and do not wait for each other (frees, stores)
 *   range        another range that lists the same prices, or names the same results */
static const char *const harmless[] = {"device", "source", "numerics", "original", "empty",
                                       "dense",  "offset", "operand",  "order",    "range"};

struct mutation {
    struct mg_rng *rng;
    struct mg_plan *plan;
    const char *kind;
};

static uint64_t odd(struct mutation *m, uint64_t value)
{
    switch (below(m->rng, 6)) {
    case 0:
        return value + 1;
    case 1:
        return value - 1;
    case 2:
        return below(m->rng, 12);
    case 3:
        return value ^ (UINT64_C(1) << below(m->rng, 64));
    case 4:
        return mg_rng_next(m->rng);
    default:
        return MG_NONE;
    }
}

static double odd_real(struct mutation *m, double value)
{
    static const double specials[] = {0, -1, 1e300, NAN, INFINITY, 1e-300};
    return below(m->rng, 2) ? value * (1 + 1e-6) : specials[below(m->rng, 6)];
}

static uint32_t pick(struct mutation *m, size_t count)
{
    return count ? below(m->rng, (uint32_t)count) : 0;
}

static void mutate_step(struct mutation *m)
{
    struct mg_step *s = &m->plan->steps[pick(m, m->plan->step_count)];
    m->kind = "step";
    switch (below(m->rng, 8)) {
    case 0:
        s->kind = (enum mg_step_kind)(below(m->rng, 4) ? below(m->rng, 9) : (uint32_t)odd(m, s->kind));
        break;
    case 1:
        s->op = (uint32_t)odd(m, s->op);
        break;
    case 2:
        m->kind = s->in_count ? "operand" : "empty"; /* another range of operands */
        s->in = (uint32_t)odd(m, s->in);
        break;
    case 3:
        s->in_count = (uint32_t)odd(m, s->in_count);
        break;
    case 4:
        m->kind = s->out_count ? "range" : "empty";
        s->out = (uint32_t)odd(m, s->out);
        break;
    case 5:
        s->out_count = (uint32_t)odd(m, s->out_count);
        break;
    case 6:
        m->kind = s->price_count ? "range" : "empty";
        s->price = (uint32_t)odd(m, s->price);
        break;
    default:
        s->price_count = (uint32_t)odd(m, s->price_count);
    }
}

static void mutate_ref(struct mutation *m)
{
    uint32_t *ref = &m->plan->refs[pick(m, m->plan->ref_count)];
    m->kind = "operand";
    *ref = below(m->rng, 3) ? pick(m, m->plan->instance_count) : (uint32_t)odd(m, *ref);
}

static void exchange_steps(struct mutation *m)
{
    uint32_t a = pick(m, m->plan->step_count), b = a + 1 < m->plan->step_count ? a + 1 : a;
    struct mg_step step = m->plan->steps[a];
    m->plan->steps[a] = m->plan->steps[b];
    m->plan->steps[b] = step;
    m->kind = "order";
}

static void mutate_instance(struct mutation *m)
{
    struct mg_instance *x = &m->plan->instances[pick(m, m->plan->instance_count)];
    uint32_t d = below(m->rng, MG_MAX_RANK);
    m->kind = "instance";
    switch (below(m->rng, 8)) {
    case 0:
        x->value = (uint32_t)odd(m, x->value);
        break;
    case 1:
        x->storage = below(m->rng, 2) ? pick(m, m->plan->storage_count) : (uint32_t)odd(m, x->storage);
        break;
    case 2:
        x->made_by = below(m->rng, 2) ? pick(m, m->plan->step_count) : (uint32_t)odd(m, x->made_by);
        break;
    case 3:
        x->view_of = below(m->rng, 2) ? pick(m, m->plan->instance_count) : (uint32_t)odd(m, x->view_of);
        break;
    case 4:
        m->kind = x->view_of == MG_NONE ? "dense" : "instance";
        x->offset = (int64_t)odd(m, (uint64_t)x->offset);
        break;
    case 5:
        m->kind = x->view_of == MG_NONE || d >= x->shape.rank || x->shape.dim[d] < 2 ? "dense" : "instance";
        x->stride[d] = (int64_t)odd(m, (uint64_t)x->stride[d]);
        break;
    case 6:
        m->kind = d >= x->shape.rank ? "dense" : "instance";
        x->shape.dim[d] = (int64_t)odd(m, (uint64_t)x->shape.dim[d]);
        break;
    default:
        x->shape.rank = (uint32_t)odd(m, x->shape.rank);
    }
}

static void mutate_storage(struct mutation *m)
{
    struct mg_storage *s = &m->plan->storages[pick(m, m->plan->storage_count)];
    m->kind = "offset";
    if (below(m->rng, 2)) {
        s->offset = below(m->rng, 2) ? UINT64_C(512) * below(m->rng, 20) : odd(m, s->offset);
    } else {
        m->kind = "storage";
        s->bytes = below(m->rng, 2) ? UINT64_C(512) * below(m->rng, 20) : odd(m, s->bytes);
    }
}

static void mutate_region(struct mutation *m)
{
    if (!m->plan->region_count)
        return;
    struct mg_region *r = &m->plan->regions[pick(m, m->plan->region_count)];
    struct mg_region_op *op = (struct mg_region_op *)(uintptr_t)&r->ops[pick(m, r->op_count)];
    m->kind = "region";
    switch (below(m->rng, 7)) {
    case 0:
        r->parent = (uint32_t)odd(m, r->parent);
        break;
    case 1:
        r->length = (int64_t)odd(m, (uint64_t)r->length);
        break;
    case 2:
        r->parts = (uint32_t)odd(m, r->parts);
        break;
    case 3:
        r->op_count = below(m->rng, r->op_count); /* a larger count would be a lie about memory, not about a plan */
        break;
    case 4:
        op->op = (uint32_t)odd(m, op->op);
        break;
    case 5:
        op->axis = (uint32_t)odd(m, op->axis);
        break;
    default:
        op->scale = (int64_t)odd(m, (uint64_t)op->scale);
    }
}

static void mutate_price(struct mutation *m)
{
    struct mg_price *p = &m->plan->prices[pick(m, m->plan->price_count)];
    m->kind = "price";
    switch (below(m->rng, 5)) {
    case 0:
        p->seconds = odd_real(m, p->seconds);
        break;
    case 1:
        p->workspace = odd(m, p->workspace);
        break;
    case 2:
        m->kind = "source";
        p->source = (enum mg_price_source)odd(m, p->source);
        break;
    case 3:
        p->name[below(m->rng, sizeof p->name)] = (char)below(m->rng, 256);
        m->kind = "name"; /* behind the terminator nothing is read */
        break;
    default:
        p->signature = below(m->rng, 2) ? "" : NULL;
    }
}

static void mutate_figures(struct mutation *m)
{
    struct mg_figures *f = below(m->rng, 2) ? &m->plan->figures : &m->plan->original;
    m->kind = f == &m->plan->original ? "original" : "figures";
    switch (below(m->rng, 4)) {
    case 0:
        m->kind = "figures";
        f->latency_s = odd_real(m, f->latency_s);
        break;
    case 1:
        m->kind = "figures";
        f->peak_bytes = odd(m, f->peak_bytes);
        break;
    case 2:
        f->arena_bytes = odd(m, f->arena_bytes);
        break;
    default:
        f->host_bytes = odd(m, f->host_bytes);
    }
}

static void mutate_device(struct mutation *m)
{
    struct mg_device *d = &m->plan->device;
    double *reals[] = {&d->peak_flops_f32, &d->peak_flops_tf32, &d->peak_flops_bf16, &d->peak_flops_f16,
                       &d->peak_flops_f64, &d->peak_flops_f8,   &d->mem_bw,          &d->mem_eff,
                       &d->launch_s,       &d->link_bw_d2h,     &d->link_bw_h2d,     &d->link_latency_s};
    m->kind = "device";
    switch (below(m->rng, 5)) {
    case 0:
        d->sm_count = (int64_t)odd(m, (uint64_t)d->sm_count);
        break;
    case 1:
        d->align = odd(m, d->align);
        break;
    case 2:
        d->copy_streams = (int)odd(m, (uint64_t)d->copy_streams);
        break;
    default: {
        double *real = reals[below(m->rng, 12)];
        *real = odd_real(m, *real);
    }
    }
}

static void mutate_edit(struct mutation *m)
{
    if (!m->plan->edit_count)
        return;
    uint32_t e = pick(m, m->plan->edit_count), other = pick(m, m->plan->edit_count);
    struct mg_edit *edit = &m->plan->edits[e], first = *edit;
    m->kind = "edit";
    switch (below(m->rng, 6)) {
    case 0:
        edit->binding = below(m->rng, 2) ? "{}" : NULL;
        break;
    case 1:
        edit->binding = "{\"value\":\"of nobody\"}";
        break;
    case 2:
        edit->rule = below(m->rng, 2) ? "fuse" : NULL;
        break;
    case 3:
        *(below(m->rng, 2) ? &edit->added : &edit->removed) = below(m->rng, 2) ? "[\"a\"]" : NULL;
        break;
    case 4:
        m->plan->edit_count = e;
        break;
    default:
        *edit = m->plan->edits[other];
        m->plan->edits[other] = first;
    }
}

static void mutate_frame(struct mutation *m)
{
    m->kind = "frame";
    switch (below(m->rng, 3)) {
    case 0:
        m->kind = "numerics";
        m->plan->numerics = (enum mg_numerics)odd(m, m->plan->numerics);
        break;
    case 1:
        m->plan->graph_digest[below(m->rng, 65)] ^= (char)(1 << below(m->rng, 7));
        break;
    default:
        mutate_edit(m);
    }
}

static void mutate(struct mutation *m)
{
    static void (*const ways[])(struct mutation *) = {
        mutate_step,    mutate_step,   mutate_ref,    mutate_ref,   exchange_steps, mutate_instance, mutate_instance,
        mutate_storage, mutate_region, mutate_region, mutate_price, mutate_figures, mutate_device,   mutate_frame};
    m->kind = "nothing";
    ways[below(m->rng, sizeof ways / sizeof *ways)](m);
}

/* Every array in an allocation of its own size, so that reading beyond it is seen. */
static void *copy_of(const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    cr_assert_not_null(copy);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

static struct mg_plan clone(const struct mg_plan *plan)
{
    struct mg_plan c = *plan;
    c.steps = copy_of(c.steps, c.step_count * sizeof *c.steps);
    c.refs = copy_of(c.refs, c.ref_count * sizeof *c.refs);
    c.instances = copy_of(c.instances, c.instance_count * sizeof *c.instances);
    c.storages = copy_of(c.storages, c.storage_count * sizeof *c.storages);
    c.prices = copy_of(c.prices, c.price_count * sizeof *c.prices);
    c.edits = copy_of(c.edits, c.edit_count * sizeof *c.edits);
    c.regions = copy_of(c.regions, c.region_count * sizeof *c.regions);
    for (size_t r = 0; r < c.region_count; r++)
        c.regions[r].ops = copy_of(c.regions[r].ops, c.regions[r].op_count * sizeof *c.regions[r].ops);
    return c;
}

static void discard(struct mg_plan *c)
{
    for (size_t r = 0; r < c->region_count; r++)
        free((void *)(uintptr_t)c->regions[r].ops);
    void *all[] = {c->steps, c->refs, c->instances, c->storages, c->prices, c->edits, c->regions};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static bool is_harmless(const char *kind)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(kind, harmless[i]) == 0)
            return true;
    return false;
}

static bool same_bytes(const void *a, const void *b, size_t size)
{
    return size == 0 || memcmp(a, b, size) == 0;
}

static bool unchanged(const struct mg_plan *a, const struct mg_plan *b)
{
    for (size_t r = 0; r < a->region_count; r++) {
        const struct mg_region *x = &a->regions[r], *y = &b->regions[r];
        if (x->parent != y->parent || x->length != y->length || x->parts != y->parts || x->op_count != y->op_count ||
            !same_bytes(x->ops, y->ops, x->op_count * sizeof *x->ops))
            return false;
    }
    if (a->edit_count != b->edit_count)
        return false;
    for (size_t e = 0; e < a->edit_count; e++)
        if (strcmp(a->edits[e].rule, b->edits[e].rule) || strcmp(a->edits[e].binding, b->edits[e].binding) ||
            strcmp(a->edits[e].removed, b->edits[e].removed) || strcmp(a->edits[e].added, b->edits[e].added))
            return false;
    for (size_t p = 0; p < a->price_count; p++)
        if (strcmp(a->prices[p].name, b->prices[p].name) || a->prices[p].seconds != b->prices[p].seconds)
            return false;
    return same_bytes(a->steps, b->steps, a->step_count * sizeof *a->steps) &&
           same_bytes(a->refs, b->refs, a->ref_count * sizeof *a->refs) &&
           same_bytes(a->instances, b->instances, a->instance_count * sizeof *a->instances) &&
           same_bytes(a->storages, b->storages, a->storage_count * sizeof *a->storages) &&
           same_bytes(&a->figures, &b->figures, sizeof a->figures) &&
           same_bytes(&a->original, &b->original, sizeof a->original) && a->numerics == b->numerics &&
           strcmp(a->graph_digest, b->graph_digest) == 0 && memcmp(&a->device, &b->device, sizeof a->device) == 0;
}

struct tally {
    uint32_t tried, refused, accepted, executed;
};

/* What is accepted means the same. */
static void expect_same(struct bench *b, const struct mg_plan *plan, const struct mutation *m, struct tally *tally)
{
    struct mg_simulation sim;
    struct mg_error err = {0};
    double difference = NAN;
    cr_expect(is_harmless(m->kind), "a change of %s is accepted", m->kind);
    cr_assert_eq(mg_plan_simulate(b->n, plan, &b->arena, &sim, &err), MG_OK, "%s: %s", m->kind, err.message);
    cr_expect(sim.peak_bytes == plan->figures.peak_bytes && sim.host_bytes == plan->figures.host_bytes &&
                  fabs(sim.latency_s - plan->figures.latency_s) <= 2e-9 * sim.latency_s,
              "a change of %s changes the figures", m->kind);
    cr_assert_eq(mg_exec_compare(b->n, plan, 5, 3, &difference, &b->arena, &err), MG_OK, "%s: %s %s", m->kind,
                 err.pointer, err.message);
    cr_expect(difference < 1e-9, "a change of %s changes the numbers by %g", m->kind, difference);
    tally->executed++;
}

static void damage(struct bench *b, const struct mg_plan *plan, struct mg_rng *rng, uint32_t times, struct tally *tally)
{
    for (uint32_t i = 0; i < times; i++) {
        struct mg_arena_mark mark = mg_arena_mark(&b->arena);
        struct mg_plan changed = clone(plan);
        struct mutation m = {rng, &changed, NULL};
        mutate(&m);
        struct mg_verdict verdict = verdict_of(b->n, &changed, &b->arena);
        tally->tried++;
        tally->accepted += verdict.accepted;
        tally->refused += !verdict.accepted;
        if (!verdict.accepted)
            cr_expect(verdict.reason[0] && verdict.message[0], "refused without a reason: %s", m.kind);
        else if (!unchanged(plan, &changed))
            expect_same(b, &changed, &m, tally);
        discard(&changed);
        mg_arena_rewind(&b->arena, mark);
    }
}

Test(check_mutate, trees_of_regions)
{
    struct tally tally = {0};
    for (uint64_t seed = 1; tally.tried < 5000; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        random_network(&b, &rng);
        const struct mg_plan *plan = random_tree(&b, &rng);
        if (plan && verdict_of(b.n, plan, &b.arena).accepted)
            damage(&b, plan, &rng, 60, &tally);
        bench_close(&b);
    }
    cr_expect(tally.refused > 4000 && tally.executed > 50, "%u refused, %u executed", tally.refused, tally.executed);
}

Test(check_mutate, training_steps)
{
    struct tally tally = {0};
    for (uint64_t seed = 1; tally.tried < 3000; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t batch = 2 + below(&rng, 6);
        training_step(&b, 3, batch, 4);
        struct span span = {0, 14, 2 + below(&rng, (uint32_t)batch - 1), MG_NONE, batch, 0, NULL};
        struct assembly s = {.g = b.n,
                             .device = mg_device_builtin("h200"),
                             .arena = &b.arena,
                             .spans = &span,
                             .span_count = below(&rng, 2),
                             .swap_percent = 30};
        s.rng = rng;
        guarded(&b.arena, assemble, &s);
        state_original(b.n, s.plan, &b.arena);
        expect_accepted(b.n, s.plan, &b.arena, "training step", seed);
        damage(&b, s.plan, &rng, 100, &tally);
        bench_close(&b);
    }
    cr_expect(tally.refused > 2000 && tally.executed > 50, "%u refused, %u executed", tally.refused, tally.executed);
}
