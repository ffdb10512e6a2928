/* The cuda back end against a driver that only records: what is opened, compiled, launched, copied and waited for. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_recorder.h"
#include "graph_util.h"
#include "measure/calibrate.h"
#include "server/batch.h"

static struct mg_engine engine;
static struct mg_error err;

static void open_with(struct cuda_calls calls)
{
    engine = (struct mg_engine){.backend = &mg_backend_cuda};
    cr_assert_eq(mg_cuda_open(&engine, &calls, 0, &err), MG_OK, "%s", err.message);
}

static void open_recorder(void)
{
    memset(&log_, 0, sizeof log_);
    log_.choices = 1;
    log_.left = (size_t)8 << 30;
    open_with(recorder());
}

/* Everything that was opened is closed. */
static void close_recorder(void)
{
    mg_backend_cuda.close(&engine);
    free(engine.allocations);
    cr_expect(!log_.sessions && !engine.used_bytes && !log_.streams && !log_.events && !log_.memory && !log_.hosts &&
                  !log_.modules && !log_.programs && !log_.layouts && !log_.descs,
              "something is left open");
}

TestSuite(cuda, .init = open_recorder, .fini = close_recorder);

/* ---- operators ---- */

static struct mg_op_desc op_of(enum mg_op_type type, const struct mg_shape *shapes, const enum mg_dtype *dtypes,
                               uint32_t in_count, const struct mg_attr *attrs, uint32_t attr_count)
{
    return (struct mg_op_desc){.type = type,
                               .attrs = attrs,
                               .attr_count = attr_count,
                               .in_count = in_count,
                               .out_count = 1,
                               .in_shape = shapes,
                               .out_shape = shapes + in_count,
                               .in_dtype = dtypes,
                               .out_dtype = dtypes + in_count};
}
static const enum mg_dtype f32s[] = {MG_DTYPE_F32, MG_DTYPE_F32, MG_DTYPE_F32, MG_DTYPE_F32};

Test(cuda, properties_are_the_drivers)
{
    const struct mg_engine_properties *p = mg_engine_properties(&engine);
    cr_expect_str_eq(p->device, "Recorder 0");
    cr_expect_str_eq(p->driver, "555.42.06", "the driver's own version, not that of CUDA");
    cr_expect_str_eq(p->runtime, "NVRTC 12.4");
    cr_expect(p->units == 132 && p->memory_bytes == 1u << 30 && p->pinned);
    cr_expect_str_eq(p->compute, "9.0");
}

/* What changes times is in the class, so that cards with other links or parts of cards share none. */
Test(cuda, the_class_tells_link_and_part)
{
    struct mg_writer w;
    cr_expect_str_eq(mg_engine_properties(&engine)->link, "PCIe 5 x16");
    cr_expect_str_eq(mg_engine_properties(&engine)->partition, "", "a whole card");
    close_recorder();
    log_.is_part = true;
    open_with(recorder());
    cr_expect_str_eq(mg_engine_properties(&engine)->uuid, "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f");
    mg_writer_init(&w);
    mg_engine_write_class(&w, &engine, &mg_time_policy_default);
    cr_assert(mg_writer_finish(&w));
    cr_expect(strstr(w.data, "\"partition\":\"MIG 1c.2g, 9984 MiB\"") && strstr(w.data, "\"link\":\"PCIe 5 x16\"") &&
                  strstr(w.data, "\"driver\":\"555.42.06\""),
              "%s", w.data);
    mg_writer_release(&w);
}

/* Without the library, or with an older one, all that is unknown. */
Test(cuda, what_nobody_tells_stays_empty)
{
    struct cuda_calls calls = recorder();
    const struct mg_engine_properties *p = mg_engine_properties(&engine);
    struct mg_timing timing;
    struct mg_shape shapes[] = {*SHAPE(64), *SHAPE(64)};
    struct mg_op_desc op = op_of(MG_OP_NEG, shapes, f32s, 1, NULL, 0);
    for (int older = 0; older < 2; older++) {
        close_recorder();
        calls.nvml.driver_version = NULL;
        calls.nvml.link_width = NULL;
        calls.nvml.clock_mhz = NULL;
        calls.nvml.slowed_by = NULL;
        if (!older)
            memset(&calls.nvml, 0, sizeof calls.nvml);
        log_.slowed_by = NVML_SLOWED_BY_HEAT;
        open_with(calls);
        cr_expect_str_eq(p->driver, "CUDA 12.4");
        cr_expect(!*p->link && !*p->partition && *p->uuid);
        cr_assert_eq(mg_engine_time_op(&engine, &op, NULL, NULL, &mg_time_policy_default, &timing, &err), MG_OK);
        cr_expect(timing.clock_mhz == 0 && !timing.throttled);
        calls = recorder();
    }
}

Test(cuda, timings_tell_the_clock_and_whether_it_was_slowed)
{
    struct mg_shape shapes[] = {*SHAPE(64), *SHAPE(64)};
    struct mg_op_desc op = op_of(MG_OP_NEG, shapes, f32s, 1, NULL, 0);
    static const struct {
        unsigned long long by;
        bool throttled;
    } cases[] = {{0, false}, {1 /* idle */, false}, {4 /* its limit of power */, false}, {0x20, true}, {0x88, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mg_timing timing;
        log_.slowed_by = cases[i].by;
        cr_assert_eq(mg_engine_time_op(&engine, &op, NULL, NULL, &mg_time_policy_default, &timing, &err), MG_OK);
        cr_expect_eq(timing.clock_mhz, 1755);
        cr_expect_eq(timing.throttled, cases[i].throttled, "%llx", cases[i].by);
    }
}

/* An agent throws away what a throttled card did, and does not take its time for the best. */
Test(cuda, a_throttled_canary_is_slow)
{
    struct mg_canary canary = {.who = "magisd agent: cuda:0"};
    double seconds;
    log_.slowed_by = NVML_SLOWED_BY_OVERHEATING;
    cr_assert(mg_canary_run(&canary, &engine, &seconds));
    cr_expect(seconds == INFINITY && canary.best_s == 0 && mg_canary_is_slow(&canary, seconds));
    log_.slowed_by = 0;
    cr_assert(mg_canary_run(&canary, &engine, &seconds));
    cr_expect(canary.best_s == seconds && !mg_canary_is_slow(&canary, seconds));
}

Test(cuda, an_elementwise_operator_is_compiled_and_launched)
{
    struct mg_shape shapes[] = {*SHAPE(100, 30), *SHAPE(30), *SHAPE(100, 30)};
    struct mg_op_desc op = op_of(MG_OP_ADD, shapes, f32s, 2, NULL, 0);
    struct mg_prepared *prepared;
    float x, y, z;
    const void *in[] = {&x, &y};
    void *out[] = {&z};
    cr_assert_eq(mg_engine_prepare(&engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    cr_expect_str_eq(log_.option, "--gpu-architecture=compute_90");
    cr_expect(strstr(log_.source, "(x + y)"), "%s", log_.source);
    cr_expect(strstr(log_.source, "i < 3000LL"), "%s", log_.source);
    cr_expect_eq(mg_prepared_run(prepared, in, out, NULL, &err), MG_OK);
    cr_expect(log_.launches == 1 && log_.grid == 12 && log_.block == 256, "%u x %u", log_.grid, log_.block);
    cr_expect(log_.address[0] == (uint64_t)(uintptr_t)&z && log_.address[1] == (uint64_t)(uintptr_t)&x);
    mg_prepared_free(prepared);
}

Test(cuda, movement_is_a_kernel_for_each_box)
{
    struct mg_shape shapes[] = {*SHAPE(4, 6), *SHAPE(4, 2), *SHAPE(4, 8)};
    struct mg_attr axis[] = {INT_OF(AXIS, 1)};
    struct mg_op_desc op = op_of(MG_OP_CONCAT, shapes, f32s, 2, axis, 1);
    struct mg_prepared *prepared;
    float x, y, z;
    cr_assert_eq(mg_engine_prepare(&engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    cr_expect(strstr(log_.source, "void k0(") && strstr(log_.source, "void k1("), "%s", log_.source);
    cr_expect(strstr(log_.source, "o0 + p0 + 6LL"), "%s", log_.source);
    cr_expect_eq(mg_prepared_run(prepared, (const void *const[]){&x, &y}, (void *const[]){&z}, NULL, &err), MG_OK);
    cr_expect_eq(log_.launches, 2);
    mg_prepared_free(prepared);
}

Test(cuda, a_product_goes_to_the_library)
{
    struct mg_shape shapes[] = {*SHAPE(7, 5), *SHAPE(9, 5), *SHAPE(7, 9), *SHAPE(7, 9)};
    struct mg_attr attrs[] = {INT_OF(TRANS_A, 0), INT_OF(TRANS_B, 1), REAL_OF(ALPHA, 2)};
    struct mg_op_desc op = op_of(MG_OP_MATMUL, shapes, f32s, 3, attrs, 3);
    struct mg_prepared *prepared;
    float m[4];
    const void *in[] = {&m[0], &m[1], &m[2]};
    void *out[] = {&m[3]};
    cr_assert_eq(mg_engine_prepare(&engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    cr_expect(log_.trans[0] == 0 && log_.trans[1] == 1 && log_.rows == 7 && log_.ld == 9);
    cr_expect_eq(mg_prepared_workspace(prepared), 1024);
    cr_expect_eq(mg_prepared_run(prepared, in, out, NULL, &err), MG_OK, "%s", err.message);
    cr_expect(log_.launches == 1 && log_.alpha == 2 && log_.beta == 1);
    mg_prepared_free(prepared);
    log_.choices = 0;
    cr_assert_eq(mg_engine_prepare(&engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    cr_expect(strstr(log_.source, "#define F_PRODUCT 1LL"), "a kernel stands in");
    mg_prepared_free(prepared);
}

Test(cuda, a_row_is_a_blocks_work)
{
    struct mg_shape shapes[] = {*SHAPE(40, 600), *SHAPE(40, 600)};
    struct mg_attr axis[] = {INT_OF(AXIS, 1)};
    struct mg_op_desc op = op_of(MG_OP_SOFTMAX, shapes, f32s, 1, axis, 1);
    struct mg_prepared *prepared;
    float x, y;
    cr_assert_eq(mg_engine_prepare(&engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    cr_expect(strstr(log_.source, "#define F_SOFTMAX 1LL") && strstr(log_.source, "#define EXTENT 600LL"));
    cr_expect_null(strstr(log_.source, "#define BY_THREAD"));
    cr_expect_eq(mg_prepared_run(prepared, (const void *const[]){&x}, (void *const[]){&y}, NULL, &err), MG_OK);
    cr_expect(log_.launches == 1 && log_.grid == 40 && log_.block == 256, "%u x %u", log_.grid, log_.block);
    mg_prepared_free(prepared);
}

Test(cuda, what_has_no_kernel_is_refused_by_name)
{
    struct mg_shape shapes[] = {*SHAPE(4, 60, 60), *SHAPE(4)}; /* more than one thread keeps to itself */
    struct mg_op_desc op = op_of(MG_OP_DET, shapes, f32s, 1, NULL, 0);
    struct mg_prepared *prepared;
    cr_expect_eq(mg_engine_prepare(&engine, &op, NULL, NULL, &prepared, &err), MG_ERR_UNSUPPORTED);
    cr_expect(strstr(err.message, "det"), "%s", err.message);
    cr_expect_null(prepared);
}

/* ---- convolutions ---- */

static struct mg_prepared *prepare_conv(enum mg_op_type type, const int64_t *pads)
{
    static struct mg_shape shapes[] = {{4, {2, 6, 9, 8}}, {4, {8, 6, 3, 3}}, {1, {8}}, {4, {2, 8, 9, 8}}};
    static struct mg_shape weight[] = {{4, {2, 8, 9, 8}}, {4, {2, 6, 9, 8}}, {4, {8, 6, 3, 3}}};
    const struct mg_attr attrs[] = {INT_OF(GROUP, 1),
                                    {.key = MG_ATTR_PADS, .type = MG_ATTR_TYPE_INTS, .ints = pads, .count = 4}};
    bool forward = type == MG_OP_CONV;
    struct mg_op_desc op = op_of(type, forward ? shapes : weight, f32s, forward ? 3 : 2, attrs, 2);
    struct mg_prepared *prepared;
    cr_assert_eq(mg_engine_prepare(&engine, &op, NULL, NULL, &prepared, &err), MG_OK, "%s", err.message);
    return prepared;
}

Test(cuda, a_convolution_goes_to_the_library)
{
    float m[4];
    struct mg_prepared *prepared = prepare_conv(MG_OP_CONV, (const int64_t[]){1, 1, 1, 1});
    cr_expect_eq(mg_prepared_workspace(prepared), 4096);
    cr_expect_eq(
        mg_prepared_run(prepared, (const void *const[]){&m[0], &m[1], &m[2]}, (void *const[]){&m[3]}, NULL, &err),
        MG_OK);
    cr_expect(log_.algorithm == 7 && log_.launches == 2, "the convolution, and its bias");
    cr_expect(log_.tensors == 4 && log_.pad == 1);
    mg_prepared_free(prepared);
    cr_expect_eq(log_.tensors, 0);
    prepared = prepare_conv(MG_OP_CONV_GRAD_WEIGHT, (const int64_t[]){1, 1, 1, 1});
    cr_expect_eq(mg_prepared_run(prepared, (const void *const[]){&m[0], &m[1]}, (void *const[]){&m[3]}, NULL, &err),
                 MG_OK);
    cr_expect_eq(log_.algorithm, 9);
    mg_prepared_free(prepared);
}

Test(cuda, what_the_library_does_not_take_has_a_stand_in_that_is_not_timed)
{
    struct mg_timing timing;
    struct mg_prepared *prepared = prepare_conv(MG_OP_CONV, (const int64_t[]){0, 1, 2, 1});
    cr_expect(strstr(log_.source, "#define F_CONV_Y 1LL") && log_.tensors == 0);
    cr_expect_eq(mg_prepared_time(prepared, &mg_time_policy_default, &timing, &err), MG_ERR_UNSUPPORTED);
    cr_expect(strstr(err.message, "conv"), "%s", err.message);
    mg_prepared_free(prepared);
}

/* A sequence is a plane of height one: the step over its rows may be too large for the library's numbers. */
Test(cuda, a_convolution_whose_steps_no_int_holds_has_a_stand_in)
{
    struct mg_shape shapes[] = {{3, {1, 6, 70000}}, {3, {8, 6, 3}}, {3, {1, 8, 69998}}};
    const struct mg_attr attrs[] = {
        INT_OF(GROUP, 1),
        {.key = MG_ATTR_PADS, .type = MG_ATTR_TYPE_INTS, .ints = (const int64_t[]){0, 0}, .count = 2}};
    struct mg_strides in[] = {{{6, 1, 40000}}, {{18, 3, 1}}}, out[] = {{{8 * 69998, 69998, 1}}};
    struct mg_op_desc op = op_of(MG_OP_CONV, shapes, f32s, 2, attrs, 2);
    struct mg_prepared *prepared;
    cr_assert_eq(mg_engine_prepare(&engine, &op, in, out, &prepared, &err), MG_OK, "%s", err.message);
    cr_expect(strstr(log_.source, "#define F_CONV_Y 1LL") && log_.tensors == 0);
    mg_prepared_free(prepared);
}

/* ---- time, memory, streams ---- */

Test(cuda, time_is_between_events)
{
    struct mg_shape shapes[] = {*SHAPE(64), *SHAPE(64)};
    struct mg_op_desc op = op_of(MG_OP_NEG, shapes, f32s, 1, NULL, 0);
    struct mg_time_policy policy = {.warm_up = 1, .repeats = 4};
    struct mg_timing timing;
    cr_assert_eq(mg_engine_time_op(&engine, &op, NULL, NULL, &policy, &timing, &err), MG_OK, "%s", err.message);
    cr_expect(timing.n == 4 && timing.median_s > 0.00149 && timing.median_s < 0.00151 && log_.launches == 5);
}

Test(cuda, running_out_of_memory_is_a_result)
{
    struct mg_shape shapes[] = {*SHAPE(64), *SHAPE(64)};
    struct mg_op_desc op = op_of(MG_OP_NEG, shapes, f32s, 1, NULL, 0);
    struct mg_timing timing;
    log_.fail_alloc = 1;
    cr_expect_eq(mg_engine_time_op(&engine, &op, NULL, NULL, &mg_time_policy_default, &timing, &err), MG_ERR_NOMEM);
}

static enum mg_code time_with(size_t left, bool cold, const struct mg_shape *shapes)
{
    struct mg_op_desc op = op_of(MG_OP_NEG, shapes, f32s, 1, NULL, 0);
    struct mg_time_policy policy = {.warm_up = 1, .repeats = 15, .apart = cold ? MG_WHOLE_CACHE : 0, .made = cold};
    struct mg_timing timing;
    log_.copied = 0;
    log_.left = left;
    mg_engine_limit_memory(&engine, 1);
    enum mg_code code = mg_engine_time_op(&engine, &op, NULL, NULL, &policy, &timing, &err);
    mg_engine_free(&engine, MG_PLACE_DEVICE, engine.pool); /* else the next one finds it */
    engine.pool = NULL;
    engine.pool_bytes = 0;
    return code;
}

/* Sets of operands fill the cache whatever their size; where there is no memory for them nothing is timed. */
Test(cuda, cold_operands_fill_the_cache_or_are_not_timed)
{
    struct mg_shape small[] = {*SHAPE(64), *SHAPE(64)}, large[] = {*SHAPE(1 << 16), *SHAPE(1 << 16)};
    const struct mg_shape *sizes[] = {small, large};
    engine.properties.cache_bytes = 1 << 20;
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(time_with(4 << 20, true, sizes[i]), MG_OK, "%s", err.message);
        cr_expect_geq(log_.copied, engine.properties.cache_bytes);
        cr_expect_eq(time_with(1000 << 10, true, sizes[i]), MG_ERR_NOMEM);
        cr_expect_eq(time_with(1000 << 10, false, sizes[i]), MG_OK, "%s", err.message);
        cr_expect_lt(log_.copied, engine.properties.cache_bytes);
    }
}

Test(cuda, copies_and_waits_go_to_their_streams)
{
    const struct cuda *cuda = engine.detail;
    void *host, *device;
    cr_assert_eq(mg_engine_alloc(&engine, MG_PLACE_HOST, 8, &host, &err), MG_OK);
    cr_assert_eq(mg_engine_alloc(&engine, MG_PLACE_DEVICE, 8, &device, &err), MG_OK);
    memcpy(host, "1234567", 8);
    cr_expect_eq(mg_engine_copy(&engine, MG_STREAM_LOAD, device, host, 8, &err), MG_OK);
    cr_expect_eq(mg_engine_mark(&engine, MG_STREAM_LOAD, 2, &err), MG_OK);
    cr_expect_eq(mg_engine_await(&engine, MG_STREAM_COMPUTE, 2, &err), MG_OK);
    cr_expect(log_.recorded == cuda->marks[2] && log_.waited_for == cuda->marks[2] &&
              log_.waiting == cuda->stream[MG_STREAM_COMPUTE]);
    memset(host, 0, 8);
    cr_expect_eq(mg_engine_copy(&engine, MG_STREAM_STORE, host, device, 8, &err), MG_OK);
    cr_expect_str_eq(host, "1234567");
    cr_expect_eq(mg_engine_wait(&engine, &err), MG_OK);
    mg_engine_free(&engine, MG_PLACE_DEVICE, device);
    mg_engine_free(&engine, MG_PLACE_HOST, host);
}

Test(cuda, others_are_seen_by_the_management_library)
{
    char why[128];
    cr_expect_str_eq(mg_engine_properties(&engine)->uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    cr_expect_not(mg_engine_is_busy(&engine, INFINITY, why), "%s", why);
    log_.pids[0] = (unsigned)getpid();
    log_.pid_count = 1;
    cr_expect_not(mg_engine_is_busy(&engine, INFINITY, why), "we are no stranger: %s", why);
    log_.pids[1] = 1;
    log_.pid_count = 2;
    cr_expect(mg_engine_is_busy(&engine, INFINITY, why) && strstr(why, "other processes"), "%s", why);
    log_.pids[0] = 2;
    log_.pid_count = 1;
    cr_expect_not(mg_engine_is_busy(&engine, INFINITY, why), "one unknown, numbered apart, is us: %s", why);
    log_.percent = 60;
    cr_expect(mg_engine_is_busy(&engine, INFINITY, why) && strstr(why, "60 %"), "%s", why);
    cr_expect(mg_engine_is_busy(&engine, 2, why) && strstr(why, "60 %"), "%s", why);
    cr_expect_not(mg_engine_is_busy(&engine, 0, why), "that may have been us: %s", why);
    cr_expect_not(mg_engine_is_busy(&engine, 1, why), "that may have been us: %s", why);
    log_.pid_count = 2;
    cr_expect(mg_engine_is_busy(&engine, 0, why) && strstr(why, "other processes"), "we are not two: %s", why);
    log_.pid_count = 1;
    log_.left = 0; /* the library knows better than the memory */
    log_.percent = 0;
    cr_expect_not(mg_engine_is_busy(&engine, INFINITY, why), "%s", why);
}

Test(cuda, without_it_by_the_memory_that_others_use)
{
    struct cuda_calls calls = recorder();
    char why[128];
    void *ours;
    close_recorder();
    memset(&calls.nvml, 0, sizeof calls.nvml);
    open_with(calls);
    log_.left = (size_t)7 << 30;
    cr_expect_not(mg_engine_is_busy(&engine, INFINITY, why), "a context takes some: %s", why);
    log_.left = (size_t)6 << 30;
    cr_expect(mg_engine_is_busy(&engine, INFINITY, why) && strstr(why, "512 MiB"), "%s", why);
    cr_assert_eq(mg_engine_alloc(&engine, MG_PLACE_DEVICE, (uint64_t)1 << 30, &ours, &err), MG_OK);
    cr_expect_not(mg_engine_is_busy(&engine, INFINITY, why), "that was us: %s", why);
    mg_engine_free(&engine, MG_PLACE_DEVICE, ours);
    cr_expect(mg_engine_is_busy(&engine, INFINITY, why));
}

Test(cuda, a_share_of_the_free_memory_is_all_that_is_used)
{
    void *first, *second, *host;
    log_.left = 4000;
    mg_engine_limit_memory(&engine, 0.25);
    cr_assert_eq(mg_engine_alloc(&engine, MG_PLACE_DEVICE, 600, &first, &err), MG_OK);
    cr_expect_eq(mg_engine_alloc(&engine, MG_PLACE_DEVICE, 401, &second, &err), MG_ERR_NOMEM);
    cr_expect(strstr(err.message, "400"), "%s", err.message);
    cr_assert_eq(mg_engine_alloc(&engine, MG_PLACE_HOST, 5000, &host, &err), MG_OK, "the host has memory of its own");
    cr_assert_eq(mg_engine_alloc(&engine, MG_PLACE_DEVICE, 400, &second, &err), MG_OK, "%s", err.message);
    mg_engine_free(&engine, MG_PLACE_DEVICE, first);
    cr_assert_eq(mg_engine_alloc(&engine, MG_PLACE_DEVICE, 600, &first, &err), MG_OK,
                 "what is freed may be used again");
    mg_engine_free(&engine, MG_PLACE_DEVICE, first);
    mg_engine_free(&engine, MG_PLACE_DEVICE, second);
    mg_engine_free(&engine, MG_PLACE_HOST, host);
}

Test(cuda_device, a_device_that_is_not_there_is_refused)
{
    struct cuda_calls calls = recorder();
    struct mg_engine none = {.backend = &mg_backend_cuda}, *opened;
    cr_expect_eq(mg_cuda_open(&none, &calls, 1, &err), MG_ERR_INVALID);
    mg_backend_cuda.close(&none);
    cr_expect_eq(mg_engine_open("cuda:first", &opened, &err), MG_ERR_INVALID);
    if (mg_engine_open("cuda:0", &opened, &err) != MG_OK) /* a machine without a card says why */
        cr_expect(err.code == MG_ERR_UNSUPPORTED && *err.message, "%s", err.message);
    else
        mg_engine_close(opened);
}
