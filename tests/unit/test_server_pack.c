/* Compressed blobs, gzip, and plans at rest. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#include "plan/builder.h"
#include "server/pack.h"
#include "server/plan_blob.h"
#include "zoo/zoo.h"

Test(pack, round_trip)
{
    char text[5000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7 % 251);
    for (size_t size = 0; size < sizeof text; size += 977) {
        unsigned char *blob;
        char *plain;
        size_t blob_size, plain_size;
        cr_assert(mg_pack(text, size, &blob, &blob_size));
        cr_assert(mg_unpack(blob, blob_size, sizeof text, &plain, &plain_size));
        cr_assert_eq(plain_size, size);
        cr_assert_eq(memcmp(plain, text, size), 0);
        free(plain);
        if (size)
            cr_assert_not(mg_unpack(blob, blob_size, size - 1, &plain, &plain_size), "over the limit");
        for (size_t cut = 0; cut < blob_size; cut += 11)
            cr_assert_not(mg_unpack(blob, cut, sizeof text, &plain, &plain_size), "cut at %zu", cut);
        free(blob);
    }
}

static unsigned char *gzip(const void *data, size_t size, size_t *out_size)
{
    z_stream z = {0};
    cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, size) + 64;
    unsigned char *out = malloc(room);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)room;
    cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    *out_size = room - z.avail_out;
    deflateEnd(&z);
    return out;
}

Test(pack, gunzip)
{
    size_t size, plain_size;
    char *plain;
    const char *text = "{\"zoo\": {\"model\": \"mlp\"}}";
    unsigned char *file = gzip(text, strlen(text), &size);
    cr_assert_eq(mg_gunzip(file, size, 1000, 200, &plain, &plain_size), MG_GUNZIP_OK);
    cr_assert_eq(plain_size, strlen(text));
    cr_assert_str_eq(plain, text);
    free(plain);
    cr_assert_eq(mg_gunzip(file, size, strlen(text), 200, &plain, &plain_size), MG_GUNZIP_OK, "exactly the limit");
    free(plain);
    cr_assert_eq(mg_gunzip(file, size, strlen(text) - 1, 200, &plain, &plain_size), MG_GUNZIP_TOO_LARGE);
    for (size_t cut = 0; cut < size; cut++)
        cr_assert_neq(mg_gunzip(file, cut, 1000, 200, &plain, &plain_size), MG_GUNZIP_OK, "cut at %zu", cut);
    file[size / 2] ^= 0x55;
    cr_assert_neq(mg_gunzip(file, size, 1000, 200, &plain, &plain_size), MG_GUNZIP_OK, "damaged");
    free(file);
}

Test(pack, gunzip_refuses_bombs)
{
    size_t size, plain_size, large = 40 << 20;
    char *plain, *zeros = calloc(1, large);
    unsigned char *file = gzip(zeros, large, &size);
    cr_assert_lt(size * 200, large, "the test's file is a bomb");
    cr_assert_eq(mg_gunzip(file, size, 64 << 20, 200, &plain, &plain_size), MG_GUNZIP_TOO_LARGE);
    cr_assert_eq(mg_gunzip(file, size, 64 << 20, 2000, &plain, &plain_size), MG_GUNZIP_OK);
    free(plain);
    free(zeros);
    free(file);
}

/* One of a gigabyte is found out as soon: of its megabyte only the beginning can be read here, the rest faults. */
Test(pack, gunzip_refuses_bombs_at_their_beginning)
{
    size_t size, plain_size, large = 40 << 20, page = 4096;
    char *plain, *zeros = calloc(1, large);
    unsigned char *file = gzip(zeros, large, &size);
    unsigned char *guarded = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(guarded != MAP_FAILED && size > 4 * page);
    memcpy(guarded, file, 4 * page);
    cr_assert_eq(mprotect(guarded + 4 * page, (1 << 20) - 4 * page, PROT_NONE), 0);
    cr_expect_eq(mg_gunzip(guarded, 1 << 20, (size_t)1 << 30, 200, &plain, &plain_size), MG_GUNZIP_TOO_LARGE);
    munmap(guarded, 1 << 20);
    free(zeros);
    free(file);
}

/* ---- plans ---- */

struct sample {
    struct mg_arena arena;
    struct mg_graph *graph;
    struct mg_plan *plan;
};

static enum mg_code build_sample(void *context, struct mg_error *err)
{
    struct sample *s = context;
    struct mg_graph *built;
    struct mg_zoo_option options[] = {{"batch", "4"}};
    enum mg_code code = mg_zoo_build("mlp", options, 1, &s->arena, &built, err);
    if (code == MG_OK)
        code = mg_graph_normalise(built, &s->arena, &s->graph, err);
    return code == MG_OK ? mg_plan_original(s->graph, mg_device_builtin("rtx3090"), &s->arena, &s->plan, err) : code;
}

static void open_sample(struct sample *s)
{
    struct mg_error err = {0};
    mg_arena_init(&s->arena, SIZE_MAX);
    cr_assert_eq(mg_arena_guard(&s->arena, build_sample, s, &err), MG_OK, "%s", err.message);
}

/* Everything that a plan says, made up, so that each field is seen to come back. */
static void decorate(struct mg_plan *plan)
{
    static struct mg_edit edits[] = {{"swap", "{\"value\":\"h0\"}", "[]", "[\"h0@load1\"]"}};
    static struct mg_region_op ops[] = {{0, 1, 1}, {1, 0, 3}};
    static struct mg_region regions[] = {{MG_NONE, 32, 4, ops, 2}, {0, 8, 2, ops, 1}};
    plan->edits = edits;
    plan->edit_count = 1;
    plan->regions = regions;
    plan->region_count = 2;
    plan->numerics = MG_NUMERICS_EXACT;
    plan->figures.host_bytes = 12345678901234ull;
    plan->original = (struct mg_figures){0.25, 99, 100, 0};
    if (plan->price_count) {
        plan->prices[0].workspace = 4096;
        plan->prices[0].source = MG_PRICE_SCALED;
    }
}

static void same_steps(const struct mg_plan *a, const struct mg_plan *b)
{
    cr_assert_eq(a->step_count, b->step_count);
    for (size_t i = 0; i < a->step_count; i++) {
        cr_assert_eq(a->steps[i].kind, b->steps[i].kind);
        cr_assert_eq(a->steps[i].op, b->steps[i].op);
        cr_assert_eq(a->steps[i].in_count, b->steps[i].in_count);
        cr_assert_eq(a->steps[i].out_count, b->steps[i].out_count);
        cr_assert_eq(a->steps[i].price_count, b->steps[i].price_count);
        if (a->steps[i].in_count)
            cr_assert_eq(a->steps[i].in, b->steps[i].in);
        if (a->steps[i].price_count)
            cr_assert_eq(a->steps[i].price, b->steps[i].price);
    }
    cr_assert_eq(a->ref_count, b->ref_count);
    cr_assert_arr_eq(a->refs, b->refs, a->ref_count * sizeof *a->refs);
}

static void same_tables(const struct mg_plan *a, const struct mg_plan *b)
{
    cr_assert_eq(a->storage_count, b->storage_count);
    cr_assert_arr_eq(a->storages, b->storages, a->storage_count * sizeof *a->storages);
    cr_assert_eq(a->instance_count, b->instance_count);
    for (size_t i = 0; i < a->instance_count; i++) {
        const struct mg_instance *x = &a->instances[i], *y = &b->instances[i];
        cr_assert(x->value == y->value && x->storage == y->storage && x->made_by == y->made_by);
        cr_assert(x->view_of == y->view_of && x->offset == y->offset && mg_shape_equal(&x->shape, &y->shape));
        cr_assert_arr_eq(x->stride, y->stride, x->shape.rank * sizeof x->stride[0]);
    }
    cr_assert_eq(a->price_count, b->price_count);
    for (size_t i = 0; i < a->price_count; i++) {
        cr_assert_str_eq(a->prices[i].name, b->prices[i].name);
        cr_assert_str_eq(a->prices[i].signature, b->prices[i].signature);
        cr_assert_eq(a->prices[i].seconds, b->prices[i].seconds);
        cr_assert_eq(a->prices[i].workspace, b->prices[i].workspace);
        cr_assert_eq(a->prices[i].source, b->prices[i].source);
    }
}

Test(plan_blob, round_trip)
{
    struct sample s;
    unsigned char *blob;
    size_t size;
    struct mg_plan *back;
    struct mg_error err;
    open_sample(&s);
    decorate(s.plan);
    cr_assert_eq(mg_plan_pack(s.plan, &blob, &size, &err), MG_OK);
    cr_assert_eq(mg_plan_unpack(blob, size, &s.arena, &back, &err), MG_OK, "%s", err.message);
    same_steps(s.plan, back);
    same_tables(s.plan, back);
    cr_assert_str_eq(back->graph_digest, s.plan->graph_digest);
    cr_assert_str_eq(back->device.name, "rtx3090");
    cr_assert_eq(back->device.mem_bw, s.plan->device.mem_bw);
    cr_assert_eq(back->numerics, MG_NUMERICS_EXACT);
    cr_assert_eq(back->region_count, 2);
    cr_assert_eq(back->regions[1].parent, 0);
    cr_assert_eq(back->regions[0].ops[1].scale, 3);
    cr_assert_str_eq(back->edits[0].added, "[\"h0@load1\"]");
    cr_assert_eq(back->figures.latency_s, s.plan->figures.latency_s);
    cr_assert_eq(back->figures.host_bytes, 12345678901234ull);
    cr_assert_eq(back->original.arena_bytes, 100);
    free(blob);
    mg_arena_release(&s.arena);
}

/* Damaged bytes give an error or a plan whose indices are all in range, never a wild one. */
Test(plan_blob, damaged)
{
    struct sample s;
    unsigned char *blob, *packed;
    char *plain;
    size_t size, plain_size, packed_size, refused = 0, tried = 0;
    struct mg_error err;
    open_sample(&s);
    cr_assert_eq(mg_plan_pack(s.plan, &blob, &size, &err), MG_OK);
    cr_assert(mg_unpack(blob, size, 1 << 24, &plain, &plain_size));
    for (size_t at = 0; at < plain_size; at += 3) {
        struct mg_arena arena;
        struct mg_plan *back;
        plain[at] ^= (char)(0x81 + at % 7);
        mg_arena_init(&arena, 64 << 20);
        cr_assert(mg_pack(plain, plain_size, &packed, &packed_size));
        tried++;
        if (mg_plan_unpack(packed, packed_size, &arena, &back, &err) != MG_OK)
            refused++;
        else
            for (size_t i = 0; i < back->step_count; i++)
                for (uint32_t k = 0; k < back->steps[i].in_count; k++)
                    cr_assert_lt(back->refs[back->steps[i].in + k], back->instance_count);
        plain[at] ^= (char)(0x81 + at % 7);
        free(packed);
        mg_arena_release(&arena);
    }
    cr_assert_gt(refused, tried / 20);
    for (size_t cut = 0; cut < plain_size; cut += 5) {
        struct mg_plan *back;
        cr_assert(mg_pack(plain, cut, &packed, &packed_size));
        cr_assert_neq(mg_plan_unpack(packed, packed_size, &s.arena, &back, &err), MG_OK, "cut at %zu", cut);
        free(packed);
    }
    free(plain);
    free(blob);
    mg_arena_release(&s.arena);
}
