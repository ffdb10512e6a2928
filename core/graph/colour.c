/* Colour refinement, one round per unit of radius: O(radius * edges).
 *
 * A round mixes into an operator's colour the colours of the makers of its operands (in order) and
 * the sum, over its results' readers, of edge tokens: a sum, because readers have no order. */
#include <string.h>

#include "base/digest.h"
#include "graph/colour.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
    return mg_hash_words((uint64_t[]){a, b}, 2).lo;
}

static uint64_t shape_token(const struct mg_value_info *v)
{
    uint64_t token = mix(v->dtype, v->shape.rank);
    for (uint32_t d = 0; d < v->shape.rank; d++)
        token = mix(token, (uint64_t)v->shape.dim[d]);
    return token;
}

static uint64_t attr_token(const struct mg_attr *attr)
{
    uint64_t token = attr->key, bits;
    switch (attr->type) {
    case MG_ATTR_TYPE_INT:
        return mix(token, (uint64_t)attr->i);
    case MG_ATTR_TYPE_FLOAT:
        memcpy(&bits, &attr->f, sizeof bits);
        return mix(token, bits);
    case MG_ATTR_TYPE_STRING:
        return mix(token, mg_hash_bytes(attr->string, strlen(attr->string), 0).lo);
    case MG_ATTR_TYPE_INTS:
        for (uint32_t i = 0; i < attr->count; i++)
            token = mix(token, (uint64_t)attr->ints[i]);
    }
    return token;
}

/* An attribute that tells occurrences apart without changing what they do. */
static bool is_identity(enum mg_attr_key key)
{
    return key == MG_ATTR_SEED;
}

static uint64_t own_token(const struct mg_graph *g, mg_op op)
{
    const struct mg_op_info *info = &g->ops[op];
    uint64_t token = mix(info->type, (uint64_t)((int64_t)info->in_place + 1));
    for (uint32_t i = 0; i < info->attr_count; i++) {
        if (!is_identity(info->attrs[i].key))
            token = mix(token, attr_token(&info->attrs[i]));
    }
    for (uint32_t i = 0; i < info->in_count; i++) {
        const struct mg_value_info *v = &g->values[info->in[i]];
        token = mix(token, mix(shape_token(v), v->kind));
    }
    for (uint32_t i = 0; i < info->out_count; i++) {
        const struct mg_value_info *v = &g->values[info->out[i]];
        token = mix(token, mix(shape_token(v), (uint64_t)v->is_output * 2 + (v->update_of != MG_NONE)));
    }
    return token;
}

/* Sum over readers of v and the positions at which they read it. */
static uint64_t readers_token(const struct mg_graph *g, mg_value v, const uint64_t *colour)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < g->values[v].reader_count; r++) {
        const struct mg_op_info *reader = &g->ops[g->values[v].readers[r]];
        for (uint32_t i = 0; i < reader->in_count; i++) {
            if (reader->in[i] == v)
                sum += mix(colour[g->values[v].readers[r]], i);
        }
    }
    return sum;
}

static uint64_t refined(const struct mg_graph *g, mg_op op, const uint64_t *colour)
{
    const struct mg_op_info *info = &g->ops[op];
    uint64_t token = colour[op];
    for (uint32_t i = 0; i < info->in_count; i++) {
        const struct mg_value_info *v = &g->values[info->in[i]];
        token = mix(token, v->producer == MG_NONE ? 1 : mix(colour[v->producer], v->slot));
    }
    for (uint32_t i = 0; i < info->out_count; i++)
        token = mix(token, readers_token(g, info->out[i], colour));
    return token;
}

struct colours {
    const struct mg_graph *g;
    uint32_t radius;
    struct mg_arena *arena;
    uint64_t *out;
};

static enum mg_code run(void *context, struct mg_error *err)
{
    (void)err;
    const struct colours *c = context;
    uint64_t *next = MG_NEW_ARRAY(c->arena, uint64_t, c->g->op_count);
    for (mg_op op = 0; op < c->g->op_count; op++)
        c->out[op] = own_token(c->g, op);
    for (uint32_t round = 0; round < c->radius; round++) {
        for (mg_op op = 0; op < c->g->op_count; op++)
            next[op] = refined(c->g, op, c->out);
        memcpy(c->out, next, c->g->op_count * sizeof *next);
    }
    return MG_OK;
}

enum mg_code mg_graph_colours(const struct mg_graph *g, uint32_t radius, struct mg_arena *arena, uint64_t *out,
                              struct mg_error *err)
{
    struct mg_arena_mark mark = mg_arena_mark(arena);
    struct colours c = {g, radius, arena, out};
    enum mg_code code = mg_arena_guard(arena, run, &c, err);
    mg_arena_rewind(arena, mark);
    return code;
}
