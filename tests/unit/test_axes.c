/* Iteration axes against execution: every operator, split along every axis that is no window, run part by part
 * and combined, equals the whole. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op_cases.h"

static const bool has_kernel[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, split, grad, kernel, ...)                           \
    [MG_OP_##id] = #kernel[0] != '0',
#include "graph/ops.def"
#undef MG_OP
};

static struct mg_arena arena;
static struct mg_error err;
static uint32_t cases_of[MG_OP_COUNT], splits_of[MG_OP_COUNT], splits;

struct subject {
    const struct op_case *c;
    struct mg_graph *g;
    double **values; /* operands and whole results */
    char label[96];
};

/* The part of a dense tensor that an axis use covers for indices [lo, hi). */
static struct mg_tensor part_of(double *data, const struct mg_shape *whole, struct mg_axis_use use, int64_t lo,
                                int64_t hi)
{
    struct mg_tensor tensor = mg_tensor_dense(data, whole);
    if (use.dim >= 0) {
        tensor.data += lo * use.unit * tensor.stride[use.dim];
        tensor.shape.dim[use.dim] = (hi - lo) * use.unit;
    }
    return tensor;
}

static double combine(enum mg_combiner combiner, double a, double b)
{
    switch (combiner) {
    case MG_COMBINE_SUM:
        return a + b;
    case MG_COMBINE_MAX:
        return fmax(a, b);
    case MG_COMBINE_MIN:
        return fmin(a, b);
    case MG_COMBINE_PROD:
        return a * b;
    default:
        return NAN;
    }
}

/* Runs indices [lo, hi) of an axis and writes into (or combines with) `results`. */
static void run_part(const struct subject *s, uint32_t axis, int64_t lo, int64_t hi, double **results, bool first)
{
    uint32_t count;
    const struct mg_axis *use = &mg_op_axes(s->g, 0, &count)[axis];
    const struct mg_op_info *info = &s->g->ops[0];
    struct mg_cut cut = {axis, lo, hi};
    struct mg_op_desc desc;
    struct mg_tensor in[9], out[3], temporary[3];
    enum mg_code code = mg_op_describe(s->g, 0, &cut, 1, &arena, &desc, &err);
    cr_assert_eq(code, MG_OK, "%s: %s", s->label, err.message);
    for (uint32_t i = 0; i < info->in_count; i++) {
        in[i] = part_of(s->values[info->in[i]], &s->g->values[info->in[i]].shape, use->in[i], lo, hi);
        cr_assert(mg_shape_equal(&in[i].shape, &desc.in_shape[i]), "%s: operand %u has another shape", s->label, i);
    }
    struct mg_exec_origin origin = {.seed = 9, .whole = s->g->values[info->out[0]].shape};
    if (use->out[0].dim >= 0)
        origin.lo[use->out[0].dim] = lo * use->out[0].unit;
    for (uint32_t i = 0; i < info->out_count; i++) {
        out[i] = part_of(results[i], &s->g->values[info->out[i]].shape, use->out[i], lo, hi);
        cr_assert(mg_shape_equal(&out[i].shape, &desc.out_shape[i]), "%s: result %u has another shape", s->label, i);
        temporary[i] = mg_tensor_dense(MG_NEW_ARRAY(&arena, double, mg_shape_elements(&out[i].shape)), &out[i].shape);
    }
    code = mg_exec_op(&desc, in, temporary, &origin, &arena, &err);
    cr_assert_eq(code, MG_OK, "%s: %s", s->label, err.message);
    for (uint32_t i = 0; i < info->out_count; i++) {
        int64_t elements = mg_shape_elements(&out[i].shape);
        double *old = MG_NEW_ARRAY(&arena, double, elements);
        mg_tensor_pack(&out[i], old);
        for (int64_t e = 0; e < elements && use->out[i].dim < 0 && !first; e++)
            temporary[i].data[e] = combine(use->combiner, old[e], temporary[i].data[e]);
        mg_tensor_unpack(&out[i], temporary[i].data);
    }
}

static void compare_axis(struct subject *s, uint32_t axis, uint32_t parts)
{
    uint32_t count;
    const struct mg_axis *use = &mg_op_axes(s->g, 0, &count)[axis];
    const struct mg_op_info *info = &s->g->ops[0];
    double *results[3];
    snprintf(s->label, sizeof s->label, "%s (case %d), axis %s in %u parts", mg_op_type_name(info->type),
             (int)(s->c - op_cases), use->name, parts);
    for (uint32_t i = 0; i < info->out_count; i++)
        results[i] = MG_NEW_ARRAY(&arena, double, mg_shape_elements(&s->g->values[info->out[i]].shape));
    for (uint32_t p = 0; p < parts; p++) {
        int64_t lo = use->length * p / parts, hi = use->length * (p + 1) / parts;
        run_part(s, axis, lo, hi, results, p == 0);
    }
    for (uint32_t i = 0; i < info->out_count; i++)
        for (int64_t e = 0; e < mg_shape_elements(&s->g->values[info->out[i]].shape); e++) {
            double whole = s->values[info->out[i]][e];
            cr_assert(fabs(whole - results[i][e]) <= 1e-9 * fmax(1, fabs(whole)),
                      "%s: result %u at %lld is %.12g, in parts %.12g", s->label, i, (long long)e, whole,
                      results[i][e]);
        }
    splits++;
    splits_of[info->type]++;
}

/* A result without the axis and without a combiner forbids the split (unless there is no such result). */
static bool splittable(const struct mg_graph *g, const struct mg_axis *axis)
{
    for (uint32_t i = 0; i < g->ops[0].out_count; i++)
        if (axis->out[i].dim < 0 && axis->combiner == MG_COMBINE_NONE)
            return false;
    return !axis->window;
}

static void check_case(const struct op_case *c, uint64_t seed)
{
    struct subject s = {.c = c};
    struct mg_graph *raw;
    uint32_t count;
    snprintf(s.label, sizeof s.label, "%s (case %d)", mg_op_type_name(c->type), (int)(c - op_cases));
    cr_assert_eq(case_graph(c, &arena, &raw, &err), MG_OK, "%s: %s", s.label, err.message);
    cr_assert_eq(mg_graph_normalise(raw, &arena, &s.g, &err), MG_OK, "%s: %s", s.label, err.message);
    cr_assert_eq(s.g->op_count, 1, "%s: normalisation adds operators", s.label);
    s.values = MG_NEW_ARRAY(&arena, double *, s.g->value_count);
    case_fill(c, s.g, seed, s.values, &arena);
    cr_assert_eq(mg_exec_graph(s.g, 9, s.values, &arena, &err), MG_OK, "%s: %s", s.label, err.message);
    const struct mg_axis *axes = mg_op_axes(s.g, 0, &count);
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t parts = 2; parts <= 3 && parts <= axes[a].length && splittable(s.g, &axes[a]); parts++)
            compare_axis(&s, a, parts);
    cases_of[c->type]++;
}

static enum mg_code all_cases(void *context, struct mg_error *e)
{
    (void)context;
    (void)e;
    for (uint32_t i = 0; i < OP_CASE_COUNT; i++) {
        struct mg_arena_mark mark = mg_arena_mark(&arena);
        check_case(&op_cases[i], 1);
        check_case(&op_cases[i], 2);
        mg_arena_rewind(&arena, mark);
    }
    return MG_OK;
}

/* The table says that the operator cannot be split. */
static bool whole_only(uint32_t type)
{
    static const char *const rules[MG_OP_COUNT] = {
#define MG_OP(id, name, min_in, max_in, n_out, attrs, shape, axes, ...) [MG_OP_##id] = #axes,
#include "graph/ops.def"
#undef MG_OP
    };
    return strcmp(rules[type], "axes_none") == 0;
}

Test(axes, parts_of_every_operator_make_the_whole)
{
    mg_arena_init(&arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&arena, all_cases, NULL, &err), MG_OK, "%s", err.message);
    mg_arena_release(&arena);
    for (uint32_t type = 0; type < MG_OP_COUNT; type++) {
        cr_expect(!has_kernel[type] || cases_of[type], "%s has a kernel and no case", mg_op_type_name(type));
        cr_expect(!has_kernel[type] || splits_of[type] || whole_only(type), "%s has no axis that can be split",
                  mg_op_type_name(type));
    }
    cr_expect_gt(splits, 400, "only %u splits", splits);
}
