/* The rules of rules.def are identities: on random shapes and numbers, the edited graph gives the outputs of
 * the original; plans over it are checked, written, read and executed; forged edits are refused. */
#include <math.h>

#include "base/digest.h"
#include "exec/exec.h"
#include "plan_util.h"
#include "search/search.h"
#include "zoo/zoo.h"

static uint32_t find(struct bench *b, struct mg_rewrite_match **matches)
{
    uint32_t count = 0;
    cr_assert_eq(mg_rewrite_find(b->n, true, &b->arena, matches, &count, &b->err), MG_OK, "%s", b->err.message);
    return count;
}

static struct mg_edit *edits_of(struct bench *b, const struct mg_rewrite_match *matches, uint32_t count)
{
    struct mg_edit *edits = MG_NEW_ARRAY(&b->arena, struct mg_edit, count);
    for (uint32_t i = 0; i < count; i++)
        edits[i] = matches[i].edit;
    return edits;
}

static enum mg_code allocate_edits(void *context, struct mg_error *err)
{
    void **c = context;
    (void)err;
    *(struct mg_edit **)c[3] = edits_of(c[0], c[1], *(uint32_t *)c[2]);
    return MG_OK;
}

/* All matches of the bench's graph, as edits. */
static uint32_t all_edits(struct bench *b, struct mg_edit **edits)
{
    struct mg_rewrite_match *matches;
    uint32_t count = find(b, &matches);
    void *context[] = {b, matches, &count, edits};
    guarded(&b->arena, allocate_edits, context);
    return count;
}

struct comparison {
    const struct mg_graph *a, *b;
    struct mg_arena *arena;
    double difference;
    uint32_t compared;
};

static bool is_result(const struct mg_value_info *v)
{
    return v->is_output || v->update_of != MG_NONE;
}

static enum mg_code compare_graphs(void *context, struct mg_error *err)
{
    struct comparison *c = context;
    double **x = mg_exec_random_values(c->a, 7, 3, c->arena);
    double **y = mg_exec_random_values(c->b, 7, 3, c->arena);
    for (mg_value v = 0; v < c->a->value_count; v++)
        if (c->a->values[v].kind != MG_KIND_COMPUTED)
            y[mg_graph_find_value(c->b, c->a->values[v].name)] = x[v];
    MG_TRY(mg_exec_graph(c->a, 7, x, c->arena, err));
    MG_TRY(mg_exec_graph(c->b, 7, y, c->arena, err));
    for (mg_value v = 0; v < c->a->value_count; v++) {
        if (!is_result(&c->a->values[v]))
            continue;
        mg_value w = mg_graph_find_value(c->b, c->a->values[v].name);
        cr_assert(w != MG_NONE && mg_shape_equal(&c->a->values[v].shape, &c->b->values[w].shape));
        c->compared++;
        for (int64_t i = 0; i < mg_shape_elements(&c->a->values[v].shape); i++)
            c->difference = fmax(c->difference, fabs(x[v][i] - y[w][i]) / fmax(1, fabs(x[v][i])));
    }
    return MG_OK;
}

static struct mg_graph *apply_all(struct bench *b, struct mg_edit **edits, uint32_t *count)
{
    struct mg_graph *edited;
    *count = all_edits(b, edits);
    enum mg_code code = mg_rewrite_apply(b->n, *edits, *count, &b->arena, &edited, &b->err);
    cr_assert_eq(code, MG_OK, "%s %s", b->err.pointer, b->err.message);
    return edited;
}

static void expect_same(struct bench *b, const struct mg_graph *edited, const char *label)
{
    struct comparison c = {b->n, edited, &b->arena, 0, 0};
    guarded(&b->arena, compare_graphs, &c);
    cr_assert_gt(c.compared, 0);
    cr_assert_lt(c.difference, 1e-12, "%s: differ by %g", label, c.difference);
}

static uint32_t count_ops(const struct mg_graph *g, enum mg_op_type type)
{
    uint32_t count = 0;
    for (mg_op op = 0; op < g->op_count; op++)
        count += g->ops[op].type == type;
    return count;
}

static int64_t roll(struct mg_rng *rng, int64_t most)
{
    return 1 + (int64_t)mg_rng_below(rng, (uint64_t)most);
}

static mg_value weight(struct bench *b, const char *kind, int i, const struct mg_shape *shape)
{
    char name[16];
    snprintf(name, sizeof name, "%s%d", kind, i);
    return value_of(b, MG_KIND_WEIGHT, name, shape);
}

/* What reads a part: elementwise, or through a reshape that a part's strides do not allow. */
static void read_part(struct bench *b, mg_value v, struct mg_rng *rng)
{
    if (mg_rng_below(rng, 2)) {
        int64_t all = mg_shape_elements(&b->g->values[v].shape);
        v = op1(b, MG_OP_RESHAPE, NULL, VALUES(v), ATTRS(LIST_OF(SHAPE, all)));
    }
    mg_graph_add_output(b->g, op1(b, MG_OP_TANH, NULL, VALUES(v), NO_ATTRS));
}

/* ---- each rule on random shapes ---- */

static void products(struct bench *b, struct mg_rng *rng, bool biased, int members)
{
    int64_t batch = roll(rng, 3), m = roll(rng, 5), k = roll(rng, 5);
    bool ta = mg_rng_below(rng, 2), tb = mg_rng_below(rng, 2), many = mg_rng_below(rng, 2);
    mg_value x = input(b, "x", ta ? SHAPE(batch, k, m) : SHAPE(batch, m, k));
    for (int i = 0; i < members; i++) {
        int64_t n = roll(rng, 5);
        struct mg_shape shape =
            many ? (tb ? *SHAPE(batch, n, k) : *SHAPE(batch, k, n)) : (tb ? *SHAPE(n, k) : *SHAPE(k, n));
        mg_value y = op1(b, MG_OP_MATMUL, NULL, VALUES(x, weight(b, "w", i, &shape)),
                         ATTRS(INT_OF(TRANS_A, ta), INT_OF(TRANS_B, tb)));
        if (biased)
            y = op1(b, MG_OP_ADD, NULL, VALUES(y, weight(b, "b", i, SHAPE(n))), NO_ATTRS);
        read_part(b, y, rng);
    }
    cr_assert(normalise(b), "%s", b->err.message);
}

static void check_products(bool biased, const char *rule)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct bench b;
        struct mg_rng rng;
        struct mg_edit *edits;
        uint32_t count;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int members = 2 + (int)mg_rng_below(&rng, 3);
        products(&b, &rng, biased, members);
        struct mg_graph *edited = apply_all(&b, &edits, &count);
        cr_assert_eq(count, 1, "seed %d: %u matches", (int)seed, count);
        cr_assert_str_eq(edits[0].rule, rule);
        cr_assert_eq(count_ops(edited, MG_OP_MATMUL), 1);
        cr_assert_eq(count_ops(edited, MG_OP_ADD), biased ? 1 : 0);
        expect_same(&b, edited, rule);
        bench_close(&b);
    }
}

Test(rewrite, matmuls_of_one_left_operand_are_one_wide_matmul)
{
    check_products(false, "aggregate_matmul");
}

Test(rewrite, linear_layers_of_one_input_are_one_wide_layer)
{
    check_products(true, "aggregate_linear");
}

Test(rewrite, convolutions_of_one_input_are_one_wide_convolution)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct bench b;
        struct mg_rng rng;
        struct mg_edit *edits;
        uint32_t count;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t c = roll(&rng, 3), kernel = roll(&rng, 3), stride = roll(&rng, 2), pad = roll(&rng, 2) - 1;
        bool biased = mg_rng_below(&rng, 2);
        int members = 2 + (int)mg_rng_below(&rng, 2);
        mg_value x = input(&b, "x", SHAPE(roll(&rng, 2), c, 6, 5));
        for (int i = 0; i < members; i++) {
            int64_t f = roll(&rng, 4);
            mg_value in[3] = {x, weight(&b, "w", i, SHAPE(f, c, kernel, kernel)), weight(&b, "b", i, SHAPE(f))};
            read_part(&b,
                      op1(&b, MG_OP_CONV, NULL, in, biased ? 3 : 2,
                          ATTRS(LIST_OF(STRIDES, stride, stride), LIST_OF(PADS, pad, pad, pad, pad))),
                      &rng);
        }
        cr_assert(normalise(&b), "%s", b.err.message);
        struct mg_graph *edited = apply_all(&b, &edits, &count);
        cr_assert_eq(count, 1);
        cr_assert_str_eq(edits[0].rule, "aggregate_conv");
        cr_assert_eq(count_ops(edited, MG_OP_CONV), 1);
        expect_same(&b, edited, "aggregate_conv");
        bench_close(&b);
    }
}

/* ---- what is no match ---- */

Test(rewrite, leaves_alone_what_differs_or_is_an_output_or_overwritten)
{
    struct bench b;
    struct mg_rewrite_match *matches;
    bench_open(&b);
    mg_value x = input(&b, "x", SHAPE(4, 4)), z = input(&b, "z", SHAPE(4, 4)), w[6];
    for (int i = 0; i < 6; i++)
        w[i] = weight(&b, "w", i, SHAPE(4, 4));
    mg_value a = op1(&b, MG_OP_MATMUL, NULL, VALUES(x, w[0]), NO_ATTRS);
    mg_value transposed = op1(&b, MG_OP_MATMUL, NULL, VALUES(x, w[1]), ATTRS(INT_OF(TRANS_B, 1)));
    mg_value other = op1(&b, MG_OP_MATMUL, NULL, VALUES(z, w[2]), NO_ATTRS);
    mg_value output = op1(&b, MG_OP_MATMUL, NULL, VALUES(x, w[3]), NO_ATTRS);
    mg_value chained = op1(&b, MG_OP_MATMUL, NULL, VALUES(x, a), NO_ATTRS);
    mg_value lost = op1(&b, MG_OP_MATMUL, NULL, VALUES(x, w[4]), NO_ATTRS);
    mg_value over = op1(&b, MG_OP_RELU, "over", VALUES(lost), NO_ATTRS);
    mg_graph_set_in_place(b.g, (mg_op)b.g->op_count - 1, 0);
    mg_value sums[] = {transposed, other, chained, over};
    for (int i = 0; i < 4; i++)
        a = op1(&b, MG_OP_ADD, NULL, VALUES(a, sums[i]), NO_ATTRS);
    mg_graph_add_output(b.g, output);
    mg_graph_add_output(b.g, a);
    cr_assert(normalise(&b), "%s", b.err.message);
    uint32_t count = find(&b, &matches);
    for (uint32_t i = 0; i < count; i++)
        cr_assert(!matches[i].joins, "%s", matches[i].edit.binding);
    bench_close(&b);
}

/* ---- folding ---- */

static mg_value scaled(struct bench *b, mg_value x, double alpha, double beta)
{
    return op1(b, MG_OP_AFFINE, NULL, VALUES(x), ATTRS(REAL_OF(ALPHA, alpha), REAL_OF(BETA, beta)));
}

static void read_by_tanh(struct bench *b, mg_value v)
{
    mg_graph_add_output(b->g, op1(b, MG_OP_TANH, NULL, VALUES(v), NO_ATTRS));
}

/* One match of the rule, which leaves no operator of the folded type. */
static void expect_folded(struct bench *b, const char *rule, enum mg_op_type folded)
{
    struct mg_edit *edits;
    uint32_t count;
    cr_assert(normalise(b), "%s", b->err.message);
    struct mg_graph *edited = apply_all(b, &edits, &count);
    cr_assert_eq(count, 1, "%s: %u matches", rule, count);
    cr_assert_str_eq(edits[0].rule, rule);
    cr_assert_eq(count_ops(edited, folded), 0);
    expect_same(b, edited, rule);
    bench_close(b);
}

static void expect_unfolded(struct bench *b)
{
    struct mg_rewrite_match *matches;
    cr_assert(normalise(b), "%s", b->err.message);
    cr_assert_eq(find(b, &matches), 0);
    bench_close(b);
}

static mg_value product_of(struct bench *b, struct mg_rng *rng)
{
    int64_t batch = roll(rng, 3), m = roll(rng, 5), k = roll(rng, 5), n = 1 + roll(rng, 4);
    bool ta = mg_rng_below(rng, 2), tb = mg_rng_below(rng, 2), wide = mg_rng_below(rng, 2);
    mg_value x = input(b, "x", ta ? SHAPE(batch, k, m) : SHAPE(batch, m, k));
    mg_value w = weight(b, "w", 0, tb ? SHAPE(n, k) : SHAPE(k, n));
    return op1(b, MG_OP_MATMUL, NULL, VALUES(x, w),
               ATTRS(INT_OF(TRANS_A, ta), INT_OF(TRANS_B, tb), REAL_OF(ALPHA, wide ? 1 : 0.75)));
}

Test(rewrite, scale_of_a_product_is_folded_into_it)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        read_by_tanh(&b, scaled(&b, product_of(&b, &rng), -1.5, 0));
        expect_folded(&b, "fold_result_scale", MG_OP_AFFINE);
    }
}

Test(rewrite, scale_of_operands_is_folded_into_all_products)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t m = roll(&rng, 4), k = roll(&rng, 4);
        mg_value s = scaled(&b, input(&b, "x", SHAPE(2, m, k)), 0.3, 0), c = input(&b, "c", SHAPE(2, m, 2));
        mg_value left = weight(&b, "w", 0, SHAPE(k, 2)), right = weight(&b, "w", 1, SHAPE(2, 3, m));
        read_by_tanh(&b, op1(&b, MG_OP_MATMUL, NULL, VALUES(s, left, c), NO_ATTRS));
        read_by_tanh(&b, op1(&b, MG_OP_MATMUL, NULL, VALUES(right, s), ATTRS(REAL_OF(ALPHA, 2))));
        expect_folded(&b, "fold_operand_scale", MG_OP_AFFINE);
    }
}

Test(rewrite, addition_to_a_product_is_folded_into_it)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        mg_value p = product_of(&b, &rng);
        struct mg_shape shape = b.g->values[p].shape;
        bool vector = mg_rng_below(&rng, 2), first = mg_rng_below(&rng, 2);
        mg_value c = input(&b, "c", vector ? SHAPE(shape.dim[2]) : &shape);
        read_by_tanh(&b, op1(&b, MG_OP_ADD, NULL, VALUES(first ? p : c, first ? c : p), NO_ATTRS));
        expect_folded(&b, "fold_addend", MG_OP_ADD);
    }
}

Test(rewrite, addition_to_a_convolution_is_folded_into_it)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct bench b;
        struct mg_rng rng;
        bench_open(&b);
        mg_rng_init(&rng, seed);
        int64_t c = roll(&rng, 3), f = roll(&rng, 4), n = roll(&rng, 2);
        bool backward = mg_rng_below(&rng, 2), biased = !backward && mg_rng_below(&rng, 2);
        mg_value in[3] = {input(&b, "x", SHAPE(n, backward ? f : c, 4, 4)), weight(&b, "w", 0, SHAPE(f, c, 3, 3))};
        if (biased)
            in[2] = weight(&b, "b", 0, SHAPE(f));
        struct mg_attr attrs[] = {LIST_OF(PADS, 1, 1, 1, 1), LIST_OF(SPATIAL, 4, 4)};
        mg_value y =
            op1(&b, backward ? MG_OP_CONV_GRAD_INPUT : MG_OP_CONV, NULL, in, biased ? 3 : 2, attrs, backward ? 2 : 1);
        struct mg_shape shape = b.g->values[y].shape;
        read_by_tanh(&b, op1(&b, MG_OP_ADD, NULL, VALUES(input(&b, "c", &shape), y), NO_ATTRS));
        expect_folded(&b, "fold_addend", MG_OP_ADD);
    }
}

Test(rewrite, what_others_read_or_know_is_not_folded)
{
    struct bench b;
    struct mg_rng rng;
    for (int i = 0; i < 5; i++) {
        bench_open(&b);
        mg_rng_init(&rng, 3);
        mg_value p = product_of(&b, &rng);
        struct mg_shape shape = b.g->values[p].shape;
        if (i == 0) /* an offset is no scale */
            read_by_tanh(&b, scaled(&b, p, 2, 1));
        if (i == 1 || i == 2)
            read_by_tanh(&b, scaled(&b, p, 2, 0));
        if (i == 1) /* the product is an output */
            mg_graph_add_output(b.g, p);
        if (i == 2 || i == 3) /* it has another reader */
            read_by_tanh(&b, p);
        if (i == 3)
            read_by_tanh(&b, op1(&b, MG_OP_ADD, NULL, VALUES(p, input(&b, "c", &shape)), NO_ATTRS));
        if (i == 4) /* both terms are the product */
            read_by_tanh(&b, op1(&b, MG_OP_ADD, NULL, VALUES(p, p), NO_ATTRS));
        expect_unfolded(&b);
    }
}

/* ---- whole networks ---- */

static const struct mg_zoo_option small_bert[] = {{"batch", "2"},  {"variant", "paper"}, {"seq_len", "3"},
                                                  {"layers", "2"}, {"hidden", "4"},      {"heads", "2"}};
static const struct mg_zoo_option small_real_bert[] = {{"batch", "2"},  {"variant", "real"}, {"seq_len", "3"},
                                                       {"layers", "2"}, {"hidden", "4"},     {"heads", "2"}};

static void open_net(struct bench *b, const struct mg_zoo_option *options, enum mg_optimizer optimizer)
{
    struct mg_graph *forward;
    struct mg_training training = {MG_LOSS_SQUARED, optimizer, NULL, 0};
    bench_open(b);
    enum mg_code code = mg_zoo_build("bert-base", options, 6, &b->arena, &forward, &b->err);
    if (code == MG_OK)
        code = mg_graph_differentiate(forward, &training, &b->arena, &b->g, &b->err);
    cr_assert_eq(code, MG_OK, "%s", b->err.message);
    cr_assert(normalise(b), "%s", b->err.message);
}

Test(rewrite, training_step_of_attention_keeps_its_updates)
{
    const struct mg_zoo_option *nets[] = {small_bert, small_real_bert};
    const char *rules[] = {"aggregate_matmul", "aggregate_linear"};
    for (int i = 0; i < 2; i++) {
        struct bench b;
        struct mg_edit *edits;
        uint32_t count;
        open_net(&b, nets[i], MG_OPTIMIZER_ADAM);
        struct mg_graph *edited = apply_all(&b, &edits, &count);
        uint32_t joined = 0;
        for (uint32_t k = 0; k < count; k++)
            joined += strcmp(edits[k].rule, rules[i]) == 0;
        cr_assert_eq(joined, 2, "%u matches of %s", joined, rules[i]);
        cr_assert_eq(count_ops(b.n, MG_OP_MATMUL) - count_ops(edited, MG_OP_MATMUL), 4);
        cr_assert_gt(edited->forward_ops, 0);
        cr_assert_lt(edited->forward_ops, edited->op_count);
        if (i == 0) /* the other one draws random numbers by operator: see the plan below */
            expect_same(&b, edited, "bert");
        bench_close(&b);
    }
}

/* The plan of the edited graph as it stands, as a plan for the original. */
static struct mg_plan *plan_over(struct bench *b, struct mg_graph *edited, struct mg_edit *edits, uint32_t count)
{
    struct mg_plan *plan, *original;
    const struct mg_device *device = mg_device_builtin("rtx3090");
    cr_assert_eq(mg_plan_original(b->n, device, &b->arena, &original, &b->err), MG_OK, "%s", b->err.message);
    cr_assert_eq(mg_plan_original(edited, device, &b->arena, &plan, &b->err), MG_OK, "%s", b->err.message);
    memcpy(plan->graph_digest, b->n->digest, sizeof plan->graph_digest);
    plan->edited = edited;
    plan->edits = edits;
    plan->edit_count = count;
    plan->original = original->figures;
    return plan;
}

static struct mg_verdict check(struct bench *b, const struct mg_plan *plan)
{
    struct mg_verdict verdict;
    cr_assert_eq(mg_plan_check(b->n, plan, &b->arena, &verdict, &b->err), MG_OK, "%s", b->err.message);
    return verdict;
}

static enum mg_code compare_plan(void *context, struct mg_error *err)
{
    void **c = context;
    struct bench *b = c[0];
    return mg_exec_compare(b->n, c[1], 5, 2, c[2], &b->arena, err);
}

Test(rewrite, plans_over_edited_graphs_are_checked_and_executed)
{
    const struct mg_zoo_option *nets[] = {small_bert, small_real_bert};
    for (int i = 0; i < 2; i++) {
        struct bench b;
        struct mg_edit *edits;
        uint32_t count;
        double difference = NAN;
        open_net(&b, nets[i], MG_OPTIMIZER_SGD);
        struct mg_graph *edited = apply_all(&b, &edits, &count);
        struct mg_plan *plan = plan_over(&b, edited, edits, count);
        struct mg_verdict verdict = check(&b, plan);
        cr_assert(verdict.accepted, "%s: %s", verdict.reason, verdict.message);
        void *context[] = {&b, plan, &difference};
        guarded(&b.arena, compare_plan, context);
        cr_assert_lt(difference, 1e-9, "differ by %g", difference);
        bench_close(&b);
    }
}

static char *json_of(struct bench *b, const struct mg_plan *plan)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_plan_write(&w, b->n, plan);
    cr_assert(mg_writer_finish(&w));
    char *text = strdup(w.data);
    mg_writer_release(&w);
    return text;
}

Test(rewrite, plans_over_edited_graphs_are_written_and_read)
{
    struct bench b;
    struct mg_edit *edits;
    struct mg_plan *again;
    uint32_t count;
    open_net(&b, small_bert, MG_OPTIMIZER_SGD);
    struct mg_graph *edited = apply_all(&b, &edits, &count);
    char *text = json_of(&b, plan_over(&b, edited, edits, count));
    cr_assert_eq(mg_plan_read(b.n, text, strlen(text), &b.arena, &again, &b.err), MG_OK, "%s %s", b.err.pointer,
                 b.err.message);
    char *twice = json_of(&b, again);
    cr_assert_str_eq(text, twice);
    struct mg_verdict verdict = check(&b, again);
    cr_assert(verdict.accepted, "%s: %s", verdict.reason, verdict.message);
    free(text);
    free(twice);
    bench_close(&b);
}

/* ---- forged edits ---- */

static void expect_refused(struct bench *b, struct mg_plan *plan, const struct mg_edit *forged, const char *reason)
{
    struct mg_edit *edits = calloc(plan->edit_count, sizeof *edits);
    struct mg_plan copy = *plan;
    memcpy(edits, plan->edits, plan->edit_count * sizeof *edits);
    edits[0] = *forged;
    copy.edits = edits;
    struct mg_verdict verdict = check(b, &copy);
    cr_assert(!verdict.accepted, "%s was accepted", reason);
    cr_assert_str_eq(verdict.reason, "edit");
    cr_assert(strstr(verdict.message, reason), "'%s' does not tell '%s'", verdict.message, reason);
    free(edits);
}

Test(rewrite, checker_refuses_forged_edits)
{
    struct bench b;
    struct mg_edit *edits;
    uint32_t count;
    open_net(&b, small_bert, MG_OPTIMIZER_SGD);
    struct mg_graph *edited = apply_all(&b, &edits, &count);
    struct mg_plan *plan = plan_over(&b, edited, edits, count);
    struct mg_edit e = edits[0];
    e.binding = edits[1].binding;
    expect_refused(&b, plan, &e, "removes");
    e = edits[0];
    e.binding = "{\"ops\":[\"nobody\",\"no one\"]}";
    expect_refused(&b, plan, &e, "nobody");
    e.binding = "{\"ops\":7}";
    expect_refused(&b, plan, &e, "binding");
    e = edits[0];
    e.added = "[]";
    expect_refused(&b, plan, &e, "adds");
    expect_refused(&b, plan, &edits[1], "taken");
    e = edits[0];
    e.rule = "aggregate_conv";
    expect_refused(&b, plan, &e, "does not fit");
    e.rule = "aggregate_everything";
    expect_refused(&b, plan, &e, "not known");
    plan->numerics = MG_NUMERICS_EXACT;
    expect_refused(&b, plan, &edits[0], "exact");
    plan->numerics = MG_NUMERICS_REASSOCIATE;
    plan->edit_count = 1; /* one rewrite less than the steps take for granted */
    cr_assert(!check(&b, plan).accepted);
    bench_close(&b);
}

/* ---- the search ---- */

static double clock_of(void *context)
{
    double *now = context;
    return *now += 1e-6;
}

static void must_not_reject(void *context, const struct mg_plan *plan, const struct mg_verdict *verdict)
{
    (void)context;
    (void)plan;
    cr_expect_fail("the checker refused step %u: %s (%s)", verdict->step, verdict->message, verdict->reason);
}

static const struct mg_zoo_option wide_bert[] = {{"batch", "12"}, {"variant", "paper"}, {"seq_len", "8"},
                                                 {"layers", "2"}, {"hidden", "4"},      {"heads", "2"}};

static void search(struct bench *b, enum mg_numerics numerics, uint32_t techniques, struct mg_search_result *result)
{
    double now = 0;
    struct mg_device device = *mg_device_builtin("rtx3090");
    device.align = 8;
    struct mg_observer observer = {.context = &now, .now = clock_of};
    if (numerics == MG_NUMERICS_REASSOCIATE) /* parts by hand, a baseline, are not exact: the checker says so */
        observer.rejected = must_not_reject;
    struct mg_search_options options = {.device = &device, .max_evaluations = 1500, .seed = 1};
    options.techniques = techniques;
    options.numerics = numerics;
    cr_assert_eq(mg_search(b->n, &options, &observer, &b->arena, result, &b->err), MG_OK, "%s", b->err.message);
    cr_assert_eq(result->rejected, 0);
}

static uint32_t rewritten(const struct mg_search_result *result)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < result->front_count; i++)
        count += (result->front[i].techniques & MG_TECHNIQUE_REWRITE) != 0;
    return count;
}

Test(rewrite, search_publishes_plans_over_the_edited_graph)
{
    struct bench b;
    struct mg_search_result result, again;
    open_net(&b, wide_bert, MG_OPTIMIZER_SGD);
    search(&b, MG_NUMERICS_REASSOCIATE, MG_TECHNIQUE_ALL, &result);
    cr_assert_gt(rewritten(&result), 0);
    for (uint32_t i = 0; i < result.front_count; i++) {
        double difference = NAN;
        void *context[] = {&b, (void *)result.front[i].plan, &difference};
        cr_assert_eq(result.front[i].plan->edited != NULL, (result.front[i].techniques & MG_TECHNIQUE_REWRITE) != 0);
        guarded(&b.arena, compare_plan, context);
        cr_assert_lt(difference, 1e-9, "plan %s differs by %g", result.front[i].id, difference);
    }
    search(&b, MG_NUMERICS_REASSOCIATE, MG_TECHNIQUE_ALL, &again);
    cr_assert_eq(result.front_count, again.front_count);
    for (uint32_t i = 0; i < result.front_count; i++)
        cr_assert_str_eq(result.front[i].id, again.front[i].id);
    bench_close(&b);
}

Test(rewrite, search_does_not_rewrite_where_it_must_not)
{
    struct bench b;
    struct mg_search_result result;
    open_net(&b, wide_bert, MG_OPTIMIZER_SGD);
    search(&b, MG_NUMERICS_EXACT, MG_TECHNIQUE_REWRITE | MG_TECHNIQUE_REMAT | MG_TECHNIQUE_SWAP, &result);
    cr_assert_eq(rewritten(&result), 0);
    search(&b, MG_NUMERICS_REASSOCIATE, MG_TECHNIQUE_ALL & ~(uint32_t)MG_TECHNIQUE_REWRITE, &result);
    cr_assert_eq(rewritten(&result), 0);
    bench_close(&b);
}
