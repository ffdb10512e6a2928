/* The analytic model against figures worked out by hand (each case says which
 * tile, split and number of waves wins), and device profiles as JSON. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"

enum { MOST = 4 };

struct operand {
    enum mg_dtype dtype;
    uint32_t rank;
    int64_t dim[5];
};

struct price_case {
    const char *what, *device;
    enum mg_op_type type;
    enum mg_math math;
    struct mg_attr attrs[2];
    struct operand in[MOST], out[1];
    double seconds;
};

#define F32 MG_DTYPE_F32
#define INT_ATTR(key_, value)                                                                                          \
    {                                                                                                                  \
        .key = MG_ATTR_##key_, .type = MG_ATTR_TYPE_INT, .i = value                                                    \
    }
#define INTS_ATTR(key_, n, ...)                                                                                        \
    {                                                                                                                  \
        .key = MG_ATTR_##key_, .type = MG_ATTR_TYPE_INTS, .count = n, .ints = (const int64_t[])                        \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static const struct price_case cases[] = {
    /* tile 32, split 4, one wave: 2*32*32*32*82 / (35.6e12*0.45) + 2*4*128*128*4 / 936e9 */
    {"small square",
     "rtx3090",
     MG_OP_MATMUL,
     MG_MATH_TF32,
     {{0}},
     {{F32, 2, {128, 128}}, {F32, 2, {128, 128}}},
     {{F32, 2, {128, 128}}},
     5.895589436281572e-06},
    /* a weight without batch dimension: M = 32 * 512; tile 128, 10 waves */
    {"linear layer",
     "rtx3090",
     MG_OP_MATMUL,
     MG_MATH_TF32,
     {{0}},
     {{F32, 3, {32, 512, 768}}, {F32, 2, {768, 768}}},
     {{F32, 3, {32, 512, 768}}},
     0.0006490691535580524},
    {"linear layer, transposed weight",
     "rtx3090",
     MG_OP_MATMUL,
     MG_MATH_TF32,
     {INT_ATTR(TRANS_B, 1)},
     {{F32, 3, {32, 512, 3072}}, {F32, 2, {768, 3072}}},
     {{F32, 3, {32, 512, 768}}},
     5e-6 + 10.0 * 2 * 128 * 128 * 3072 * 82 / (35.6e12 * 0.9)},
    {"weight gradient, transposed input",
     "rtx3090",
     MG_OP_MATMUL,
     MG_MATH_TF32,
     {INT_ATTR(TRANS_A, 1)},
     {{F32, 2, {128, 128}}, {F32, 2, {128, 128}}},
     {{F32, 2, {128, 128}}},
     5.895589436281572e-06},
    /* 12 * 32 batches, bound by memory */
    {"scores",
     "h200",
     MG_OP_MATMUL,
     MG_MATH_F32,
     {INT_ATTR(TRANS_B, 1)},
     {{MG_DTYPE_BF16, 4, {32, 12, 512, 64}}, {MG_DTYPE_BF16, 4, {32, 12, 512, 64}}},
     {{MG_DTYPE_BF16, 4, {32, 12, 512, 512}}},
     6.468094117647059e-05},
    /* math f32 on a card with tf32: tile 128, split 8, 5 waves */
    {"plain f32",
     "a100-80gb",
     MG_OP_MATMUL,
     MG_MATH_F32,
     {{0}},
     {{F32, 2, {1024, 1024}}, {F32, 2, {1024, 1024}}},
     {{F32, 2, {1024, 1024}}},
     0.00016596814329799674},
    /* no f64 peak: f32 / 32; no f8 peak: 2 * bf16 */
    {"f64",
     "rtx3090",
     MG_OP_MATMUL,
     MG_MATH_F32,
     {{0}},
     {{MG_DTYPE_F64, 2, {512, 512}}, {MG_DTYPE_F64, 2, {512, 512}}},
     {{MG_DTYPE_F64, 2, {512, 512}}},
     0.0003574657365984827},
    {"f8",
     "rtx3090",
     MG_OP_MATMUL,
     MG_MATH_F32,
     {{0}},
     {{MG_DTYPE_F8E4M3, 2, {512, 512}}, {MG_DTYPE_F8E4M3, 2, {512, 512}}},
     {{MG_DTYPE_F8E4M3, 2, {512, 512}}},
     8.450370465489568e-06},
    {"dot product",
     "rtx3090",
     MG_OP_MATMUL,
     MG_MATH_TF32,
     {{0}},
     {{F32, 2, {1, 4096}}, {F32, 2, {4096, 1}}},
     {{F32, 2, {1, 1}}},
     7.683758225295305e-06},
    {"stem",
     "rtx3090",
     MG_OP_CONV,
     MG_MATH_TF32,
     {INT_ATTR(GROUP, 1), INTS_ATTR(STRIDES, 2, 2, 2)},
     {{F32, 4, {64, 3, 224, 224}}, {F32, 4, {64, 3, 7, 7}}},
     {{F32, 4, {64, 64, 112, 112}}},
     0.0006112678292134831},
    /* K = 64 * 49 / 4 */
    {"stem's gradient to the input",
     "rtx3090",
     MG_OP_CONV_GRAD_INPUT,
     MG_MATH_TF32,
     {INT_ATTR(GROUP, 1), INTS_ATTR(STRIDES, 2, 2, 2)},
     {{F32, 4, {64, 64, 112, 112}}, {F32, 4, {64, 3, 7, 7}}},
     {{F32, 4, {64, 3, 224, 224}}},
     0.010064555092134832},
    {"stem's gradient to the weight",
     "rtx3090",
     MG_OP_CONV_GRAD_WEIGHT,
     MG_MATH_TF32,
     {INT_ATTR(GROUP, 1), INTS_ATTR(STRIDES, 2, 2, 2)},
     {{F32, 4, {64, 64, 112, 112}}, {F32, 4, {64, 3, 224, 224}}},
     {{F32, 4, {64, 3, 7, 7}}},
     0.0010576228995294345},
    {"grouped",
     "rtx3090",
     MG_OP_CONV,
     MG_MATH_TF32,
     {INT_ATTR(GROUP, 32), INTS_ATTR(STRIDES, 2, 1, 1)},
     {{F32, 4, {64, 128, 56, 56}}, {F32, 4, {128, 4, 3, 3}}},
     {{F32, 4, {64, 128, 56, 56}}},
     0.0009288366921348315},
    /* K = 3 / 16, but at least 1 */
    {"depth under the stride",
     "rtx3090",
     MG_OP_CONV_GRAD_INPUT,
     MG_MATH_TF32,
     {INT_ATTR(GROUP, 1), INTS_ATTR(STRIDES, 2, 4, 4)},
     {{F32, 4, {8, 3, 4, 4}}, {F32, 4, {3, 5, 1, 1}}},
     {{F32, 4, {8, 5, 16, 16}}},
     5.053489190548014e-06},
    {"one spatial axis",
     "rtx3090",
     MG_OP_CONV,
     MG_MATH_TF32,
     {INT_ATTR(GROUP, 1), INTS_ATTR(STRIDES, 1, 1)},
     {{F32, 3, {4, 16, 100}}, {F32, 3, {32, 16, 5}}},
     {{F32, 3, {4, 32, 100}}},
     5.638119273984443e-06},
    {"three spatial axes",
     "rtx3090",
     MG_OP_CONV,
     MG_MATH_TF32,
     {INT_ATTR(GROUP, 1), INTS_ATTR(STRIDES, 3, 1, 1, 1)},
     {{F32, 5, {2, 3, 8, 8, 8}}, {F32, 5, {6, 3, 3, 3, 3}}},
     {{F32, 5, {2, 6, 8, 8, 8}}},
     5.53482439258619e-06},
    /* full occupancy; the floor of 1/64; 80000 / (82 * 2048) in between */
    {"large relu",
     "rtx3090",
     MG_OP_RELU,
     MG_MATH_F32,
     {{0}},
     {{F32, 2, {1024, 1024}}},
     {{F32, 2, {1024, 1024}}},
     1.554375062845651e-05},
    {"small relu",
     "rtx3090",
     MG_OP_RELU,
     MG_MATH_F32,
     {{0}},
     {{F32, 1, {1000}}},
     {{F32, 1, {1000}}},
     5.643539467068879e-06},
    {"bias",
     "rtx3090",
     MG_OP_ADD,
     MG_MATH_F32,
     {{0}},
     {{F32, 2, {800, 100}}, {F32, 1, {100}}},
     {{F32, 2, {800, 100}}},
     6.689702966314732e-06},
    /* rows touched, not the table of 94 MB */
    {"embedding",
     "rtx3090",
     MG_OP_GATHER,
     MG_MATH_F32,
     {INT_ATTR(AXIS, 0)},
     {{F32, 2, {30522, 768}}, {MG_DTYPE_I64, 2, {32, 512}}},
     {{F32, 3, {32, 512, 768}}},
     0.00013168975364504778},
    {"embedding's gradient",
     "rtx3090",
     MG_OP_SCATTER_ADD,
     MG_MATH_F32,
     {INT_ATTR(AXIS, 0), INT_ATTR(SIZE, 30522)},
     {{F32, 3, {32, 512, 768}}, {MG_DTYPE_I64, 2, {32, 512}}},
     {{F32, 2, {30522, 768}}},
     0.00013168975364504778},
    {"view",
     "rtx3090",
     MG_OP_TRANSPOSE,
     MG_MATH_F32,
     {INTS_ATTR(PERM, 2, 1, 0)},
     {{F32, 2, {1024, 1024}}},
     {{F32, 2, {1024, 1024}}},
     0},
};

static uint32_t unpack(const struct operand *from, uint32_t most, struct mg_shape *shape, enum mg_dtype *dtype)
{
    uint32_t count = 0;
    for (; count < most && from[count].rank; count++) {
        shape[count] = (struct mg_shape){.rank = from[count].rank};
        memcpy(shape[count].dim, from[count].dim, sizeof from[count].dim);
        dtype[count] = from[count].dtype;
    }
    return count;
}

static double price(const struct price_case *c)
{
    struct mg_shape in_shape[MOST], out_shape[1];
    enum mg_dtype in_dtype[MOST], out_dtype[1];
    struct mg_op_desc op = {.type = c->type,
                            .math = c->math,
                            .attrs = c->attrs,
                            .attr_count = 2,
                            .in_shape = in_shape,
                            .out_shape = out_shape,
                            .in_dtype = in_dtype,
                            .out_dtype = out_dtype};
    op.in_count = unpack(c->in, MOST, in_shape, in_dtype);
    op.out_count = unpack(c->out, 1, out_shape, out_dtype);
    while (op.attr_count && c->attrs[op.attr_count - 1].type == MG_ATTR_TYPE_INT &&
           c->attrs[op.attr_count - 1].key == 0 && c->attrs[op.attr_count - 1].i == 0)
        op.attr_count--;
    return mg_device_latency(mg_device_builtin(c->device), &op);
}

Test(device, prices_by_hand)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double got = price(&cases[i]);
        cr_expect(fabs(got - cases[i].seconds) <= 1e-12 * cases[i].seconds, "%s: %.17g instead of %.17g", cases[i].what,
                  got, cases[i].seconds);
    }
}

/* Fused attention is its two contractions in one launch: scores 512 x 512 x 64, values 512 x 64 x 512. */
Test(device, attention_is_the_sum_of_its_contractions)
{
    struct mg_shape qkv = {4, {32, 12, 512, 64}}, lse = {4, {32, 12, 512, 1}};
    struct mg_shape in[3] = {qkv, qkv, qkv}, out[2] = {qkv, lse};
    enum mg_dtype dtype[3] = {F32, F32, F32};
    struct mg_op_desc op = {.type = MG_OP_ATTENTION,
                            .math = MG_MATH_TF32,
                            .in_count = 3,
                            .out_count = 2,
                            .in_shape = in,
                            .out_shape = out,
                            .in_dtype = dtype,
                            .out_dtype = dtype};
    double scores = 75.0 * 2 * 128 * 128 * 64 * 82 / (35.6e12 * 0.9);
    double values =
        fmin(fmin(19.0 * 2 * 128 * 128 * 512 * 82 / (35.6e12 * 0.9), 38.0 * 2 * 64 * 64 * 512 * 82 / (35.6e12 * 0.7)),
             150.0 * 2 * 32 * 32 * 512 * 82 / (35.6e12 * 0.45));
    double got = mg_device_latency(mg_device_builtin("rtx3090"), &op);
    cr_expect(fabs(got - (5e-6 + scores + values)) <= 1e-12 * got, "%.17g instead of %.17g", got,
              5e-6 + scores + values);
}

/* seq 10, 4 samples, 16 inputs, 32 hidden: one input projection, ten products with the hidden state. */
Test(device, lstm_pays_for_every_step)
{
    struct mg_shape in[3] = {{3, {10, 4, 16}}, {3, {1, 128, 16}}, {3, {1, 128, 32}}};
    struct mg_shape out[3] = {{4, {10, 1, 4, 32}}, {3, {1, 4, 32}}, {3, {1, 4, 32}}};
    enum mg_dtype dtype[3] = {F32, F32, F32};
    struct mg_op_desc op = {.type = MG_OP_LSTM,
                            .math = MG_MATH_F32,
                            .in_count = 3,
                            .out_count = 3,
                            .in_shape = in,
                            .out_shape = out,
                            .in_dtype = dtype,
                            .out_dtype = dtype};
    double one = mg_device_latency(mg_device_builtin("rtx3090"), &op);
    in[0].dim[0] = 20;
    out[0].dim[0] = 20;
    double two = mg_device_latency(mg_device_builtin("rtx3090"), &op);
    cr_expect(two > 1.8 * one - 5e-6 && two < 2 * one, "%g %g", one, two);
}

Test(device, opaque_operators_say_their_cost)
{
    struct mg_shape shape = {2, {1024, 1024}};
    enum mg_dtype dtype = F32;
    struct mg_attr attrs[] = {{.key = MG_ATTR_FLOPS, .type = MG_ATTR_TYPE_FLOAT, .f = 35.6e9},
                              {.key = MG_ATTR_BYTES, .type = MG_ATTR_TYPE_FLOAT, .f = 0},
                              {.key = MG_ATTR_LATENCY, .type = MG_ATTR_TYPE_STRING, .string = ""}};
    struct mg_op_desc op = {.type = MG_OP_OPAQUE,
                            .attrs = attrs,
                            .attr_count = 3,
                            .in_count = 1,
                            .out_count = 1,
                            .in_shape = &shape,
                            .out_shape = &shape,
                            .in_dtype = &dtype,
                            .out_dtype = &dtype};
    const struct mg_device *device = mg_device_builtin("rtx3090");
    cr_expect_float_eq(mg_device_latency(device, &op), 5e-6 + 1e-3, 1e-15);
    attrs[0].f = 0;
    cr_expect_float_eq(mg_device_latency(device, &op), 1.554375062845651e-05, 1e-18);
    attrs[1].f = 936e6 * 0.85;
    cr_expect_float_eq(mg_device_latency(device, &op), 5e-6 + 1e-3, 1e-15);
    attrs[2].string = "{\"h200\": 1, \"rtx3090\": 0.25}";
    cr_expect_float_eq(mg_device_latency(device, &op), 0.25, 0);
}

Test(device, copies_and_transfers)
{
    const struct mg_device *d = mg_device_builtin("rtx3090");
    cr_expect_float_eq(mg_device_copy_latency(d, 1 << 20, 4 << 20), 1.554375062845651e-05, 1e-18);
    cr_expect_float_eq(mg_device_acc_latency(d, 1 << 20, 4 << 20), 5e-6 + 12 * 1048576.0 / (936e9 * 0.85), 1e-18);
    cr_expect_float_eq(mg_device_store_latency(d, 12000000), 1e-5 + 1e-3, 1e-18);
    cr_expect_float_eq(mg_device_load_latency(d, 12000000), 1e-5 + 1e-3, 1e-18);
    cr_expect_eq(mg_device_storage(d, 1), 512);
    cr_expect_eq(mg_device_storage(d, 1024), 1024);
}

/* ---- profiles ---- */

static char *written(const struct mg_device *device)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_device_write(&w, device);
    cr_assert(mg_writer_finish(&w));
    char *text = strdup(w.data);
    mg_writer_release(&w);
    return text;
}

Test(device, profiles_read_back_as_written)
{
    uint32_t count = 0;
    for (const struct mg_device *device; (device = mg_device_at(count)) != NULL; count++) {
        char *text = written(device);
        struct mg_device back;
        struct mg_error err;
        cr_assert_eq(mg_device_read(text, strlen(text), &back, &err), MG_OK, "%s: %s", err.pointer, err.message);
        char *again = written(&back);
        cr_expect_str_eq(text, again);
        cr_expect_str_eq(back.name, device->name);
        cr_expect_eq(mg_device_builtin(device->name), device);
        free(text);
        free(again);
    }
    cr_expect_eq(count, 3);
    cr_expect_null(mg_device_builtin("tpu"));
}

Test(device, canonical_form)
{
    char *text = written(mg_device_builtin("h200"));
    cr_expect_str_eq(text, "{\"align\":512,\"copy_streams\":2,\"gpu_names\":[\"NVIDIA H200\"],\"launch_s\":3e-06,"
                           "\"link_bw_d2h\":50000000000,\"link_bw_h2d\":50000000000,\"link_latency_s\":1e-05,"
                           "\"mem_bw\":4800000000000,\"mem_eff\":0.85,\"memory_bytes\":141000000000,"
                           "\"name\":\"h200\",\"peak_flops\":{\"bf16\":989000000000000,\"f16\":989000000000000,"
                           "\"f32\":67000000000000,\"tf32\":494000000000000},\"reserve_bytes\":805306368,"
                           "\"sm_count\":132}");
    free(text);
}

#define REST                                                                                                           \
    "\"mem_bw\":1e12,\"launch_s\":1e-6,\"link_bw_d2h\":1e9,\"link_bw_h2d\":2e9,\"link_latency_s\":0,"                  \
    "\"memory_bytes\":1073741824"

Test(device, defaults_of_a_user_profile)
{
    const char *text = "{\"name\":\"mine\",\"sm_count\":4,\"peak_flops\":{\"f32\":1e12}," REST "}";
    struct mg_device device;
    struct mg_error err;
    cr_assert_eq(mg_device_read(text, strlen(text), &device, &err), MG_OK, "%s: %s", err.pointer, err.message);
    cr_expect_float_eq(device.mem_eff, 0.85, 0);
    cr_expect_eq(device.align, 512);
    cr_expect_eq(device.copy_streams, 2);
    cr_expect_eq(device.reserve_bytes, 805306368);
    cr_expect_eq(device.sm_count, 4);
    cr_expect_float_eq(device.link_bw_h2d, 2e9, 0);
    cr_expect_float_eq(device.peak_flops_bf16, 0, 0);
}

Test(device, bad_profiles_point_at_the_place)
{
    static const struct {
        const char *text, *pointer, *word;
    } bad[] = {
        {"[]", "", "object"},
        {"{\"name\":\"x\"", "/name", ""},
        {"{\"name\":7}", "/name", "string"},
        {"{\"name\":\"\"}", "/name", "bytes"},
        {"{\"nme\":\"x\"}", "/nme", "no member"},
        {"{\"name\":\"x\",\"sm_count\":0}", "/sm_count", "between"},
        {"{\"name\":\"x\",\"sm_count\":1.5}", "/sm_count", ""},
        {"{\"name\":\"x\",\"mem_eff\":2}", "/mem_eff", "between"},
        {"{\"name\":\"x\",\"peak_flops\":{\"f12\":1}}", "/peak_flops/f12", "no member"},
        {"{\"name\":\"x\",\"peak_flops\":{\"bf16\":1}}", "/peak_flops", "f32"},
        {"{\"name\":\"x\",\"peak_flops\":{\"f32\":-1}}", "/peak_flops/f32", "between"},
        {"{\"name\":\"x\",\"gpu_names\":[\"a\",3]}", "/gpu_names/1", "string"},
        {"{\"name\":\"x\",\"copy_streams\":3}", "/copy_streams", "between"},
        {"{\"name\":\"x\",\"sm_count\":4," REST "}", "", "peak_flops"},
        {"{\"name\":\"x\",\"sm_count\":4,\"align\":48,\"peak_flops\":{\"f32\":1e12}," REST "}", "/align", "power"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mg_device device;
        struct mg_error err;
        cr_expect_neq(mg_device_read(bad[i].text, strlen(bad[i].text), &device, &err), MG_OK, "%s", bad[i].text);
        cr_expect_str_eq(err.pointer, bad[i].pointer, "%s: %s", bad[i].text, err.message);
        cr_expect(strstr(err.message, bad[i].word) != NULL, "%s: %s", bad[i].text, err.message);
    }
}
