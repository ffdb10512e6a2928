/* Signatures: what is written reads back as the same operator, whole and in parts; nothing else is accepted. */
#include <criterion/criterion.h>

#include "device/signature.h"
#include "tests/unit/op_samples.h"

static char *text_of(struct bench *b, const struct mg_op_desc *desc)
{
    size_t bound = mg_signature_bound(desc->attrs, desc->attr_count, desc->in_count + desc->out_count);
    char *text = mg_arena_alloc(&b->arena, bound);
    size_t size = mg_signature_print(desc, text);
    cr_expect(size == strlen(text) && size < bound);
    return text;
}

static void judge(struct bench *b, const struct mg_op_desc *desc, const char *sample)
{
    struct mg_op_desc back;
    const char *name = mg_op_type_name(desc->type);
    char *text = text_of(b, desc);
    enum mg_code code = mg_signature_read(name, text, &b->arena, &back, &b->err);
    cr_assert_eq(code, MG_OK, "%s: %s: %s", sample, text, b->err.message);
    cr_expect_str_eq(text_of(b, &back), text);
    cr_expect(back.type == desc->type && back.in_count == desc->in_count && back.out_count == desc->out_count);
    for (uint32_t i = 0; i < desc->in_count; i++)
        cr_expect(mg_shape_equal(&back.in_shape[i], &desc->in_shape[i]) && back.in_dtype[i] == desc->in_dtype[i]);
}

static enum mg_code judge_sample(void *context, struct mg_error *err)
{
    struct bench *b = context;
    uint32_t axes;
    struct mg_op_desc desc;
    enum mg_code code = mg_graph_normalise(b->g, &b->arena, &b->n, err);
    if (code != MG_OK)
        return code;
    mg_op op = (mg_op)(b->n->op_count - 1);
    cr_assert_eq(mg_op_describe(b->n, op, NULL, 0, &b->arena, &desc, err), MG_OK);
    judge(b, &desc, mg_op_type_name(desc.type));
    const struct mg_axis *axis = mg_op_axes(b->n, op, &axes);
    for (uint32_t a = 0; a < axes; a++) {
        struct mg_cut cut = {a, 0, (axis[a].length + 1) / 2};
        if (!axis[a].window && axis[a].length > 1 && mg_op_describe(b->n, op, &cut, 1, &b->arena, &desc, err) == MG_OK)
            judge(b, &desc, axis[a].name);
    }
    return MG_OK;
}

Test(signature, reads_back)
{
    for (size_t i = 0; i < OP_SAMPLES; i++) {
        struct bench b;
        cr_assert(sample_build(&b, op_samples[i]), "%s", op_samples[i]);
        cr_assert_eq(mg_arena_guard(&b.arena, judge_sample, &b, &b.err), MG_OK, "%s: %s", op_samples[i], b.err.message);
        bench_close(&b);
    }
}

struct refusal {
    const char *name, *text;
};

static enum mg_code read_refused(void *context, struct mg_error *err)
{
    static const struct refusal refused[] = {
        {"matmul", ""},
        {"matmul", "f32;"},
        {"no_such", "f32;f32[2]->f32[2]"},
        {"add", "f32;f32[2],f32[2]->f32[3]"},
        {"add", "f32;f32[2],f32[2]->f32[2] "},
        {"add", "f32;f32[02],f32[2]->f32[2]"},
        {"add", "f32;f32[2]f32[2]->f32[2]"},
        {"add", "f32;f32[2],f32[2]->f32[2],"},
        {"add", "f32;f32[-2],f32[-2]->f32[-2]"},
        {"add", "f32;q7[2],f32[2]->f32[2]"},
        {"add", "f32;nothing=1;f32[2],f32[2]->f32[2]"},
        {"add", "f32;f32[9999999999999,9999999999999],f32[1]->f32[9999999999999,9999999999999]"},
        {"add", "bf16;f32[2],f32[2]->f32[2]"},
        {"add", "f32;f32[1,1,1,1,1,1,1,1,1],f32[1]->f32[1,1,1,1,1,1,1,1,1]"},
        {"matmul", "f32;trans_a=0;trans_b=0;f32[4,5],f32[6,7]->f32[4,7]"},
        {"gather", "f32;axis=-1;f32[2,300],i64[10]->f32[2,10]"},
        {"gather", "f32;f32[300,2],i64[10]->f32[10,2]"},
    };
    struct bench *b = context;
    struct mg_op_desc desc;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        b->err.message[0] = 0;
        cr_expect_eq(mg_signature_read(refused[i].name, refused[i].text, &b->arena, &desc, &b->err), MG_ERR_INVALID,
                     "%s %s", refused[i].name, refused[i].text);
        cr_expect(b->err.message[0]);
    }
    cr_expect_eq(mg_signature_read("add", "f32;f32[2],f32[2]->f32[2]", &b->arena, &desc, err), MG_OK, "%s",
                 err->message);
    return MG_OK;
}

Test(signature, refuses_what_it_would_not_write)
{
    struct bench b;
    bench_open(&b);
    cr_assert_eq(mg_arena_guard(&b.arena, read_refused, &b, &b.err), MG_OK);
    bench_close(&b);
}

Test(signature, keys_differ)
{
    struct mg_hash128 a = mg_signature_key("add", "f32;f32[2],f32[2]->f32[2]"),
                      b = mg_signature_key("sub", "f32;f32[2],f32[2]->f32[2]"),
                      c = mg_signature_key("add", "f32;f32[3],f32[3]->f32[3]");
    cr_expect(a.lo != b.lo && a.lo != c.lo && a.hi != b.hi && a.hi != c.hi);
}
