/* Small graphs in few words, for the graph tests. */
#ifndef MG_TESTS_GRAPH_UTIL_H
#define MG_TESTS_GRAPH_UTIL_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/ops_priv.h"

#define SHAPE(...)                                                                                                     \
    (&(struct mg_shape){.rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = {__VA_ARGS__}})
#define LIST_OF(key_, ...)                                                                                             \
    ((struct mg_attr){.key = MG_ATTR_##key_,                                                                           \
                      .type = MG_ATTR_TYPE_INTS,                                                                       \
                      .count = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                     \
                      .ints = (int64_t[]){__VA_ARGS__}})
#define INT_OF(key_, value) ((struct mg_attr){.key = MG_ATTR_##key_, .type = MG_ATTR_TYPE_INT, .i = (value)})
#define REAL_OF(key_, value) ((struct mg_attr){.key = MG_ATTR_##key_, .type = MG_ATTR_TYPE_FLOAT, .f = (value)})
#define TEXT_OF(key_, value) ((struct mg_attr){.key = MG_ATTR_##key_, .type = MG_ATTR_TYPE_STRING, .string = (value)})
#define ATTRS(...) (struct mg_attr[]){__VA_ARGS__}, sizeof((struct mg_attr[]){__VA_ARGS__}) / sizeof(struct mg_attr)
#define NO_ATTRS NULL, 0
#define VALUES(...) (mg_value[]){__VA_ARGS__}, sizeof((mg_value[]){__VA_ARGS__}) / sizeof(mg_value)

struct bench {
    struct mg_arena arena;
    struct mg_graph *g;
    struct mg_graph *n; /* normalised */
    struct mg_error err;
};

static inline void bench_open(struct bench *b)
{
    memset(b, 0, sizeof *b);
    mg_arena_init(&b->arena, SIZE_MAX);
    b->g = mg_graph_new(&b->arena, "test");
}

static inline void bench_close(struct bench *b)
{
    mg_arena_release(&b->arena);
}

static inline mg_value value_of(struct bench *b, enum mg_kind kind, const char *name, const struct mg_shape *shape)
{
    return mg_graph_add_value(b->g, name, kind, MG_DTYPE_F32, shape);
}

static inline mg_value input(struct bench *b, const char *name, const struct mg_shape *shape)
{
    return value_of(b, MG_KIND_INPUT, name, shape);
}

static inline mg_value typed(struct bench *b, const char *name, enum mg_dtype dtype, const struct mg_shape *shape)
{
    return mg_graph_add_value(b->g, name, MG_KIND_INPUT, dtype, shape);
}

/* One result, fresh name unless `out` is given; MG_NONE (and b->err) on failure. */
static inline mg_value op1(struct bench *b, enum mg_op_type type, const char *out, const mg_value *in, size_t in_count,
                           const struct mg_attr *attrs, size_t attr_count)
{
    mg_value v = MG_NONE;
    enum mg_code code = mg_graph_add_op(b->g, type, out, in, (uint32_t)in_count, attrs, (uint32_t)attr_count,
                                        out ? &out : NULL, 1, &v, &b->err);
    return code == MG_OK ? v : MG_NONE;
}

static inline enum mg_code opn(struct bench *b, enum mg_op_type type, const mg_value *in, size_t in_count,
                               const struct mg_attr *attrs, size_t attr_count, uint32_t out_count, mg_value *out)
{
    return mg_graph_add_op(b->g, type, NULL, in, (uint32_t)in_count, attrs, (uint32_t)attr_count, NULL, out_count, out,
                           &b->err);
}

static inline bool normalise(struct bench *b)
{
    return mg_graph_normalise(b->g, &b->arena, &b->n, &b->err) == MG_OK;
}

static inline const char *shape_str(struct bench *b, const struct mg_graph *g, mg_value v)
{
    return v == MG_NONE ? b->err.message : mg_shape_text(&b->arena, &g->values[v].shape);
}

/* Index of the operator called `name`, MG_NONE if there is none. */
static inline mg_op op_named(const struct mg_graph *g, const char *name)
{
    for (mg_op op = 0; op < g->op_count; op++) {
        if (strcmp(g->ops[op].name, name) == 0)
            return op;
    }
    return MG_NONE;
}

#endif
