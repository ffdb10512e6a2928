/* A back end against the reference executor: every operator sample, with dense, unaligned and strided operands.
 * MAGIS_DEVICE names another device than the processor. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "backend_util.h"
#include "measure/calibrate.h"
#include "measure/cpu_math.h"
#include "measure/measure_priv.h"

static void open_cpu(void)
{
    struct mg_error err;
    cr_assert_eq(mg_engine_open(getenv("MAGIS_DEVICE") ? getenv("MAGIS_DEVICE") : "cpu", &engine, &err), MG_OK, "%s",
                 err.message);
}

static void close_cpu(void)
{
    mg_engine_close(engine);
}

/* Of what ONNX has not, or cards: others do without them. */
static const char *const more_samples[] = {
    "resize_grad | 4,6,7,9 | 1 | spatial=5,4 mode=cubic coordinates=half_pixel",
    "scatter_add | i64:4,6,8 i64:4,6 | 1 | size=9",
    "reduce_max | bool:4,5,6 | 1 | axes=0",
    "arg_max | bool:40,3 | 1 | select_last_index=1",
    "hard_max | i64:4,9 | 1",
    "lp_pool | 4,6,9 | 1 | kernel_shape=3 p=3 dilations=2",
    "resize | 4,6,5 | 1 | spatial=9 coordinates=tf_half_pixel_for_nn nearest_mode=floor",
    "grid_sample | 2,3,4,5,6 2,3,2,4,3 | 1",
    "scatter_elements | 4,6 i64:4,9 4,9 | 1 | axis=1 reduction=min",
    "scatter_elements | bool:4,6 i64:4,9 bool:4,9 | 1 | axis=1",
    "bit_shift | i32:4,6 i32:6 | 1 | direction=RIGHT",
};
enum { MORE_SAMPLES = sizeof more_samples / sizeof *more_samples };

TestSuite(measure_cpu, .init = open_cpu, .fini = close_cpu);

/* On a device that is lent for minutes, MAGIS_SECONDS: then what was not tried is left out, and that is said. */
static int try_samples(enum mg_dtype dtype)
{
    double until = getenv("MAGIS_SECONDS") ? mg_measure_clock() + strtod(getenv("MAGIS_SECONDS"), NULL) : INFINITY;
    struct mg_rng rng;
    int tried = 0;
    mg_rng_init(&rng, 1);
    sample_dtype = dtype;
    for (; tried < OP_SAMPLES + MORE_SAMPLES && mg_measure_clock() < until; tried++)
        try_sample(tried < OP_SAMPLES ? op_samples[tried] : more_samples[tried - OP_SAMPLES], &rng);
    fprintf(stderr, "%s on %s: %d of %d samples\n", mg_dtype_name(dtype), mg_engine_properties(engine)->device, tried,
            OP_SAMPLES + MORE_SAMPLES);
    return tried;
}

Test(measure_cpu, every_operator_agrees_with_the_reference)
{
    try_samples(MG_DTYPE_F32);
    if (!on_cpu()) {
        fprintf(stderr, "without kernel:%s\n", lacking);
        return;
    }
    cr_expect_str_empty(lacking, "not timed:%s", lacking);
}

static void try_narrow(enum mg_dtype dtype)
{
    each_layout = 1;
    int tried = try_samples(dtype);
    cr_expect(tried < OP_SAMPLES || narrow_samples > OP_SAMPLES * 3 / 4, "%d samples in %s", narrow_samples,
              mg_dtype_name(dtype));
}

Test(measure_cpu, bf16_agrees_within_its_tolerance)
{
    try_narrow(MG_DTYPE_BF16);
}

Test(measure_cpu, f16_agrees_within_its_tolerance)
{
    try_narrow(MG_DTYPE_F16);
}

Test(measure_cpu, it_says_what_it_is)
{
    const struct mg_engine_properties *p = mg_engine_properties(engine);
    if (!on_cpu())
        return;
    cr_expect_str_eq(p->backend, "cpu");
    cr_expect(strstr(p->dnn, "oneDNN "));
    cr_expect(*p->device && *p->compute && p->units == 1 && p->memory_bytes > 0);
}

static struct mg_op_desc product(const struct mg_shape *shapes, const enum mg_dtype *dtypes)
{
    static const struct mg_attr attrs[] = {INT_OF(TRANS_A, 0), INT_OF(TRANS_B, 0), REAL_OF(ALPHA, 1)};
    return (struct mg_op_desc){.type = MG_OP_MATMUL,
                               .attrs = attrs,
                               .attr_count = 3,
                               .in_count = 2,
                               .out_count = 1,
                               .in_shape = shapes,
                               .out_shape = shapes + 2,
                               .in_dtype = dtypes,
                               .out_dtype = dtypes};
}

Test(measure_cpu, a_timing_has_its_statistics)
{
    struct mg_shape shapes[] = {*SHAPE(64, 64), *SHAPE(64, 64), *SHAPE(64, 64)};
    enum mg_dtype dtypes[] = {MG_DTYPE_F32, MG_DTYPE_F32, MG_DTYPE_F32};
    struct mg_op_desc op = product(shapes, dtypes);
    struct mg_time_policy policy = {.warm_up = 1, .repeats = 5};
    struct mg_timing timing;
    struct mg_error err;
    cr_assert_eq(mg_engine_time_op(engine, &op, NULL, NULL, &policy, &timing, &err), MG_OK, "%s", err.message);
    cr_expect_eq(timing.n, 5);
    cr_expect(timing.min_s > 0 && timing.min_s <= timing.median_s && timing.mad_s >= 0);
}

/* Reals of any width are reduced by loops of the back end's own. */
Test(measure_cpu, narrow_reductions_are_timed)
{
    struct mg_shape shapes[] = {*SHAPE(40, 30), *SHAPE(40)};
    enum mg_dtype dtypes[] = {MG_DTYPE_BF16, MG_DTYPE_BF16};
    const int64_t axes[] = {1};
    const struct mg_attr attrs[] = {{.key = MG_ATTR_AXES, .type = MG_ATTR_TYPE_INTS, .ints = axes, .count = 1},
                                    INT_OF(KEEPDIMS, 0),
                                    REAL_OF(DIVISOR, 30)};
    struct mg_op_desc op = {MG_OP_REDUCE_MEAN};
    struct mg_prepared *prepared;
    struct mg_timing timing;
    struct mg_error err;
    uint16_t in[40 * 30], out[40];
    op.attrs = attrs;
    op.attr_count = 3;
    op.in_count = op.out_count = 1;
    op.in_shape = shapes;
    op.out_shape = shapes + 1;
    op.in_dtype = op.out_dtype = dtypes;
    for (int i = 0; i < 40 * 30; i++)
        in[i] = i / 30 % 2 ? 0x4000 : 0x3f80; /* 2 and 1 */
    cr_assert_eq(mg_engine_prepare(engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_prepared_run(prepared, (const void *const[]){in}, (void *const[]){out}, NULL, &err), MG_OK);
    cr_expect(out[0] == 0x3f80 && out[1] == 0x4000 && out[39] == 0x4000, "%x %x", out[0], out[1]);
    cr_expect_eq(mg_prepared_time(prepared, &mg_time_policy_default, &timing, &err), MG_OK, "%s", err.message);
    mg_prepared_free(prepared);
}

/* A back end that keeps the addresses that it is given. */
static const void *seen[3][80];
static uint32_t seen_count;

static enum mg_code see(struct mg_prepared *prepared, const void *const *in, void *const *out, double *seconds,
                        struct mg_error *err)
{
    (void)prepared;
    (void)err;
    if (seen_count < 80) {
        seen[0][seen_count] = in[0];
        seen[1][seen_count] = in[1];
        seen[2][seen_count++] = out[0];
    }
    *seconds = 1e-3;
    return MG_OK;
}

static enum mg_code see_ready(struct mg_prepared *prepared, struct mg_error *err)
{
    (void)prepared;
    (void)err;
    return MG_OK;
}

static uint32_t distinct(const void *const *list)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < seen_count; i++) {
        uint32_t k = 0;
        while (k < i && list[k] != list[i])
            k++;
        found += k == i;
    }
    return found;
}

/* Times a product of three matrices of 16 KiB on a back end, in a cache of 1 MiB, and keeps the addresses; `in`: where
 * elements of the operands lie, NULL: dense. */
static struct mg_timing watch_strided(const struct mg_backend *backend, const struct mg_strides *in,
                                      const struct mg_time_policy *policy)
{
    struct mg_engine seeing = {.backend = backend, .properties = {.cache_bytes = 1 << 20}};
    struct mg_shape shapes[] = {*SHAPE(64, 64), *SHAPE(64, 64), *SHAPE(64, 64)};
    enum mg_dtype dtypes[] = {MG_DTYPE_F32, MG_DTYPE_F32, MG_DTYPE_F32};
    struct mg_op_desc op = product(shapes, dtypes);
    struct mg_timing timing;
    struct mg_error err;
    seen_count = 0;
    cr_assert_eq(mg_engine_time_op(&seeing, &op, in, NULL, policy, &timing, &err), MG_OK, "%s", err.message);
    mg_engine_free(&seeing, MG_PLACE_DEVICE, seeing.pool);
    free(seeing.allocations);
    return timing;
}

static struct mg_timing watch(const struct mg_backend *backend, const struct mg_time_policy *policy)
{
    return watch_strided(backend, NULL, policy);
}

static const struct mg_backend seeing_backend = {
    .only_times = true, .prepare = see_ready, .time_run = see, .alloc = mg_host_alloc, .free = mg_host_free};

/* How many addresses each operand and the result take in turns: 48 KiB a set. */
static void expect_turns(uint64_t apart, bool made, uint32_t first, uint32_t others)
{
    struct mg_time_policy policy = {.repeats = 80, .apart = apart, .made = made};
    cr_expect(watch(&seeing_backend, &policy).n == 80 && seen_count == 80);
    cr_expect(distinct(seen[0]) == first && distinct(seen[1]) == others && distinct(seen[2]) == others,
              "apart %llu: %u, %u, %u", (unsigned long long)apart, distinct(seen[0]), distinct(seen[1]),
              distinct(seen[2]));
}

Test(measure, operands_take_turns_as_far_apart_as_asked)
{
    expect_turns(0, false, 1, 1);
    expect_turns(MG_WHOLE_CACHE, true, 1, 21); /* 53,760 bytes with what staggers them */
    expect_turns(MG_WHOLE_CACHE, false, 20, 20);
    expect_turns(1 << 17, false, 3, 3);
    expect_turns(1 << 10, false, 1, 1);
}

/* In place on the second operand: a set is two operands, the result has no memory of its own. */
Test(measure, results_in_place_take_their_operand)
{
    struct mg_time_policy policy = {.repeats = 80, .apart = MG_WHOLE_CACHE, .in_place = 2};
    watch(&seeing_backend, &policy);
    cr_assert_eq(seen_count, 80);
    for (uint32_t i = 0; i < seen_count; i++)
        cr_assert(seen[2][i] == seen[1][i] && seen[0][i] != seen[1][i], "%u", i);
    cr_expect_eq(distinct(seen[1]), 30, "%u", distinct(seen[1]));
}

/* Columns of a matrix of 1024: 16 such boxes of 16 KiB lie in 256 KiB, and there are as many sets as of dense ones. */
Test(measure, strided_operands_lie_in_the_gaps_of_one_another)
{
    struct mg_strides in[2] = {{{1024, 1}}, {{64, 1}}};
    struct mg_time_policy policy = {.repeats = 80, .apart = MG_WHOLE_CACHE};
    watch_strided(&seeing_backend, in, &policy);
    uint32_t sets = distinct(seen[0]);
    cr_expect(sets >= 20 && sets <= 22, "%u sets", sets);
    cr_expect(distinct(seen[1]) == sets && distinct(seen[2]) == sets);
    for (uint32_t i = 0; i < seen_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            int64_t between = (const char *)seen[0][i] - (const char *)seen[0][k];
            cr_assert(between % 256 == 0 && (between || i % sets == k % sets), "turns %u, %u: %lld bytes", k, i,
                      (long long)between);
        }
    int64_t next = (const char *)seen[0][1] - (const char *)seen[0][0];
    cr_expect(next == 256, "%lld bytes from one to the next", (long long)next);
}

Test(measure, strided_operands_may_be_shared_or_in_place)
{
    struct mg_strides in[2] = {{{1024, 1}}, {{64, 1}}};
    struct mg_time_policy policy = {.repeats = 80, .apart = MG_WHOLE_CACHE, .made = true};
    watch_strided(&seeing_backend, in, &policy);
    cr_expect(distinct(seen[0]) == 1 && distinct(seen[1]) > 20 && distinct(seen[2]) == distinct(seen[1]));
    policy.made = false;
    policy.in_place = 1;
    watch_strided(&seeing_backend, in, &policy);
    for (uint32_t i = 0; i < seen_count; i++)
        cr_assert(seen[2][i] == seen[0][i] && seen[0][i] != seen[1][i], "%u", i);
    cr_expect(distinct(seen[0]) > 20 && distinct(seen[1]) == distinct(seen[0]), "%u", distinct(seen[0]));
}

/* A clock whose reading takes a microsecond, and runs that take half of one. */
static double slow_clock;
static double read_slowly(void)
{
    return slow_clock += 1e-6;
}
static enum mg_code see_run(struct mg_prepared *prepared, const void *const *in, void *const *out,
                            const struct mg_exec_origin *origin, struct mg_error *err)
{
    double ignored;
    (void)origin;
    slow_clock += 5e-7;
    return see(prepared, in, out, &ignored, err);
}

/* So short that many make a sample: each finds its operands as far back as asked. */
Test(measure, short_runs_of_a_sample_take_turns_too)
{
    static const struct mg_backend backend = {.prepare = see_ready,
                                              .run = see_run,
                                              .now = read_slowly,
                                              .alloc = mg_host_alloc,
                                              .free = mg_host_free,
                                              .copy = mg_host_copy};
    struct mg_time_policy policy = {.warm_up = 2, .repeats = 3, .apart = MG_WHOLE_CACHE};
    struct mg_timing timing = watch(&backend, &policy);
    cr_expect_eq(seen_count, 80, "only %u runs in 5 samples", seen_count);
    for (uint32_t i = 1; i < seen_count; i++)
        cr_assert_neq(seen[0][i], seen[0][i - 1], "run %u finds what was just used", i);
    cr_expect_float_eq(timing.median_s, 5e-7, 1e-8, "%g s", timing.median_s);
}

/* An operator without operands shares none. */
Test(measure_cpu, what_has_no_operands_is_timed_too)
{
    static const struct mg_attr attrs[] = {REAL_OF(VALUE, 1)};
    struct mg_shape shapes[] = {*SHAPE(64, 64)};
    enum mg_dtype dtypes[] = {MG_DTYPE_F32};
    struct mg_op_desc fill = {.type = MG_OP_FILL, .out_count = 1, .out_shape = shapes, .out_dtype = dtypes};
    struct mg_timing timing;
    struct mg_error err;
    fill.attrs = attrs;
    fill.attr_count = 1;
    cr_assert_eq(mg_engine_time_op(engine, &fill, NULL, NULL, &mg_time_policy_default, &timing, &err), MG_OK, "%s",
                 err.message);
    cr_expect(timing.n == 15 && timing.min_s > 0);
}

static void draw(struct mg_op_desc op, const struct mg_shape *out, const struct mg_exec_origin *origin, const void *in,
                 void *result)
{
    struct mg_prepared *prepared;
    struct mg_error err;
    op.out_shape = out;
    cr_assert_eq(mg_engine_prepare(engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_prepared_run(prepared, &in, &result, origin, &err), MG_OK, "%s", err.message);
    mg_prepared_free(prepared);
}

/* Row 2 of 3, columns 1 to 4 of 5: drawn alone as with the others. */
static void expect_part(enum mg_op_type type, bool chooses)
{
    struct mg_shape whole = *SHAPE(3, 5), part = chooses ? *SHAPE(1, 5) : *SHAPE(1, 4), in[2] = {whole, part};
    static const enum mg_dtype dtypes[] = {MG_DTYPE_F32};
    static const struct mg_attr attrs[] = {REAL_OF(LOW, -3),  REAL_OF(HIGH, 4),       REAL_OF(MEAN, 1),
                                           REAL_OF(SCALE, 2), INT_OF(SAMPLE_SIZE, 5), INT_OF(SEED, 6)};
    struct mg_exec_origin origin = {.seed = 9, .op = 4, .whole = whole};
    float operand[15], all[15], some[5];
    struct mg_op_desc op = {.type = type, .out_count = 1};
    op.attrs = attrs;
    op.attr_count = 6;
    op.out_dtype = op.in_dtype = dtypes;
    op.in_count = type == MG_OP_BERNOULLI || chooses;
    for (int i = 0; i < 15; i++)
        operand[i] = 0.5f;
    op.in_shape = in;
    draw(op, &whole, &origin, operand, all);
    origin.lo[0] = 2;
    origin.lo[1] = chooses ? 0 : 1;
    op.in_shape = in + 1;
    draw(op, &part, &origin, operand, some);
    bool differ = false;
    for (int i = 0; i < part.dim[1]; i++) {
        cr_expect_eq(some[i], all[10 + origin.lo[1] + i], "%s: %d", mg_op_type_name(type), i);
        differ = differ || some[i] != all[i];
    }
    cr_expect(differ, "%s", mg_op_type_name(type));
}

Test(measure_cpu, random_numbers_are_the_same_in_parts)
{
    expect_part(MG_OP_RANDOM_UNIFORM, false);
    expect_part(MG_OP_RANDOM_NORMAL, false);
    expect_part(MG_OP_BERNOULLI, false);
    expect_part(MG_OP_MULTINOMIAL, true);
}

/* Minus infinity is what a mask says; a row of nothing else has no softmax, and a processor no integer for that. */
Test(measure_cpu, a_row_of_masked_elements_alone_is_no_number)
{
    struct mg_shape shapes[] = {*SHAPE(2, 300), *SHAPE(2), {.rank = 0}};
    enum mg_dtype dtypes[] = {MG_DTYPE_F32, MG_DTYPE_I64};
    float in[2 * 300], out = 0;
    const int64_t target[2] = {0, 0};
    struct mg_op_desc op = {.type = MG_OP_CROSS_ENTROPY, .in_count = 2, .out_count = 1};
    struct mg_prepared *prepared;
    struct mg_error err;
    static const struct mg_attr attrs[] = {REAL_OF(DIVISOR, 2), INT_OF(IGNORE_INDEX, -100)};
    op.attrs = attrs;
    op.attr_count = 2;
    op.in_shape = shapes;
    op.out_shape = shapes + 2;
    op.in_dtype = op.out_dtype = dtypes;
    for (int i = 0; i < 2 * 300; i++)
        in[i] = i < 300 ? -INFINITY : 0;
    cr_assert_eq(mg_engine_prepare(engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    cr_assert_eq(mg_prepared_run(prepared, (const void *const[]){in, target}, (void *const[]){&out}, NULL, &err),
                 MG_OK);
    cr_expect(isnan(out), "%g", (double)out);
    in[0] = 0; /* one that is not masked has it all; the other row's logarithm is that of its length */
    cr_assert_eq(mg_prepared_run(prepared, (const void *const[]){in, target}, (void *const[]){&out}, NULL, &err),
                 MG_OK);
    cr_expect(fabs((double)out - log(300) / 2) < 1e-6, "%g", (double)out);
    mg_prepared_free(prepared);
}

/* One query; `in`: dy, q, then keys, values, y and lse. */
static void gradient_of(int64_t keys, const float *in, const float *want)
{
    const struct mg_shape one = *SHAPE(1, 1, 1, 1), row = *SHAPE(1, 1, keys, 1);
    const struct mg_shape shapes[] = {one, one, row, row, one, one, one, row, row};
    static const enum mg_dtype dtypes[] = {MG_DTYPE_F32, MG_DTYPE_F32, MG_DTYPE_F32,
                                           MG_DTYPE_F32, MG_DTYPE_F32, MG_DTYPE_F32};
    static const struct mg_attr attrs[] = {REAL_OF(SCALE, 1), INT_OF(CAUSAL, 0)};
    struct mg_op_desc op = {.type = MG_OP_ATTENTION_GRAD, .in_count = 6, .out_count = 3};
    struct mg_prepared *prepared;
    struct mg_error err;
    float out[5];
    op.attrs = attrs;
    op.attr_count = 2;
    op.in_shape = shapes;
    op.out_shape = shapes + 6;
    op.in_dtype = op.out_dtype = dtypes;
    cr_assert_eq(mg_engine_prepare(engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    const void *const from[] = {in, in + 1, in + 2, in + 2 + keys, in + 2 + 2 * keys, in + 3 + 2 * keys};
    cr_assert_eq(mg_prepared_run(prepared, from, (void *const[]){out, out + 1, out + 1 + keys}, NULL, &err), MG_OK);
    for (int64_t i = 0; i < 1 + 2 * keys; i++)
        cr_expect(fabsf(out[i] - want[i]) < 1e-5f, "%d: %g, not %g", (int)i, (double)out[i], (double)want[i]);
    mg_prepared_free(prepared);
}

/* A huge score swallows the logarithm of the sum; of a part of the keys only that tells the others' share. */
Test(measure_cpu, gradients_of_attention_know_their_sum)
{
    gradient_of(2, (const float[]){1, 1, 1e20f, 1e20f, 2, 4, 3, 1e20f}, (const float[]){0, -0.5f, 0.5f, 0.5f, 0.5f});
    gradient_of(1, (const float[]){1, 1, 5, 2, 3, 5.69314718f}, (const float[]){-2.5f, -0.5f, 0.5f});
}

Test(measure, exponentials_are_those_of_libm)
{
    static const float special[] = {0, 1e-30f, 0.34657359f, 88.7f, -87.3f, 1e30f, -1e30f, INFINITY, -INFINITY};
    cr_expect(isnan(fast_exp(NAN)) && isnan(fast_exp(-NAN)) && isnan(fast_tanh(NAN)) && isnan(fast_erf(NAN)));
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        cr_expect(fast_exp(special[i]) == expf(special[i]) ||
                      fabsf(fast_exp(special[i]) / expf(special[i]) - 1) < 1e-6f,
                  "of %g: %g", (double)special[i], (double)fast_exp(special[i]));
    for (float x = -87; x < 88; x += 0.0137f)
        cr_expect(fabsf(fast_exp(x) / expf(x) - 1) < 1e-6f, "of %g: %g", (double)x, (double)fast_exp(x));
}

Test(measure, statistics_are_medians)
{
    double samples[] = {5, 1, 3, 100, 2};
    struct mg_timing timing;
    mg_timing_of(samples, 5, &timing);
    cr_expect(timing.n == 5 && timing.median_s == 3 && timing.min_s == 1 && timing.mad_s == 2);
    double even[] = {4, 2};
    mg_timing_of(even, 2, &timing);
    cr_expect(timing.median_s == 3 && timing.mad_s == 1);
}

Test(measure, the_model_takes_as_long_as_it_says)
{
    struct mg_engine *model;
    struct mg_error err;
    struct mg_shape shapes[] = {*SHAPE(64, 32), *SHAPE(32, 16), *SHAPE(64, 16)};
    enum mg_dtype dtypes[] = {MG_DTYPE_F32, MG_DTYPE_F32, MG_DTYPE_F32};
    struct mg_op_desc op = product(shapes, dtypes);
    struct mg_timing timing;
    cr_assert_eq(mg_engine_open("model:h200", &model, &err), MG_OK);
    cr_assert_eq(mg_engine_time_op(model, &op, NULL, NULL, &mg_time_policy_default, &timing, &err), MG_OK);
    cr_expect_eq(timing.median_s, mg_device_latency(mg_device_builtin("h200"), &op));
    cr_expect_eq(timing.mad_s, 0);
    mg_engine_close(model);
}

static void expect_near(const char *profile, const char *what, double got, double want)
{
    cr_expect(want > 0 && fabs(got / want - 1) < 1e-3, "%s: %s %g, not %g", profile, what, got, want);
}

/* Within a thousandth: the tiniest sum, which is taken for a launch, moves some bytes too. */
Test(measure, calibrating_a_profile_gives_it_back)
{
    for (uint32_t i = 0; mg_device_at(i); i++) {
        const struct mg_device *want = mg_device_at(i);
        struct mg_engine *model;
        struct mg_device got;
        struct mg_error err;
        char name[80];
        snprintf(name, sizeof name, "model:%s", want->name);
        cr_assert_eq(mg_engine_open(name, &model, &err), MG_OK);
        cr_assert_eq(mg_engine_calibrate(model, NULL, NULL, &got, &err), MG_OK, "%s", err.message);
        expect_near(name, "f32", got.peak_flops_f32, want->peak_flops_f32);
        expect_near(name, "tf32", got.peak_flops_tf32, want->peak_flops_tf32);
        expect_near(name, "bf16", got.peak_flops_bf16, want->peak_flops_bf16);
        expect_near(name, "f16", got.peak_flops_f16, want->peak_flops_f16);
        expect_near(name, "bandwidth", got.mem_bw * got.mem_eff, want->mem_bw * want->mem_eff);
        expect_near(name, "launch", got.launch_s, want->launch_s);
        expect_near(name, "link to the host", got.link_bw_d2h, want->link_bw_d2h);
        expect_near(name, "link to the device", got.link_bw_h2d, want->link_bw_h2d);
        expect_near(name, "latency of the link", got.link_latency_s, want->link_latency_s);
        cr_expect(got.sm_count == want->sm_count && got.memory_bytes == want->memory_bytes &&
                  got.copy_streams == want->copy_streams);
        mg_engine_close(model);
    }
}

/* True after *left times. */
static bool count_down(void *left)
{
    return --*(int *)left < 0;
}

Test(measure, calibrating_ends_where_it_must)
{
    struct mg_engine *model;
    struct mg_device device;
    struct mg_error err;
    cr_assert_eq(mg_engine_open("model:h200", &model, &err), MG_OK);
    for (int times = 0; times < 6; times++) {
        int left = times;
        cr_expect_eq(mg_engine_calibrate(model, count_down, &left, &device, &err), MG_ERR_CANCELLED, "%d", times);
    }
    mg_engine_close(model);
}

Test(measure, unknown_devices_are_refused)
{
    struct mg_engine *none;
    struct mg_error err;
    cr_expect_eq(mg_engine_open("tpu", &none, &err), MG_ERR_INVALID);
    cr_expect_eq(mg_engine_open("cpu:1", &none, &err), MG_ERR_INVALID);
    cr_expect_eq(mg_engine_open("model:abacus", &none, &err), MG_ERR_INVALID);
    cr_expect_null(none);
}
