/* How far back what an instruction touches was touched before. A cache holds what was touched last: the bytes touched
 * since, each counted once, tell whether it holds this still (the stack distance of Mattson et al., "Evaluation
 * techniques for storage hierarchies", 1970). They are counted over blocks of the arena by a Fenwick tree over time
 * that has a one where a block was last touched (Bennett and Kruskal, "LRU stack processing", 1975). */
#include <math.h>
#include <string.h>

#include "measure/program_priv.h"

enum { BLOCK = 4096, MOST_BLOCKS = 1 << 18 };

struct trace {
    uint64_t block, near, cache; /* bytes */
    uint32_t *touched;           /* by block: when last, from 1; 0: never */
    uint32_t *block_at;          /* by time */
    uint32_t *tree;
    uint32_t now, times, alive, latest; /* times: the tree's; latest: the block touched last */
    float *shares;                      /* of the instruction that touches; NULL: nobody asks */
    double own, total;                  /* bytes: that it touches, that it has touched */
};

/* ---- blocks over time ---- */

static void add(struct trace *t, uint32_t time, uint32_t by)
{
    for (; time <= t->times; time += time & -time)
        t->tree[time] += by;
}

static uint32_t sum(const struct trace *t, uint32_t time)
{
    uint32_t found = 0;
    for (; time; time -= time & -time)
        found += t->tree[time];
    return found;
}

/* All times were given: those that still count begin anew. */
static void renumber(struct trace *t)
{
    uint32_t kept = 0;
    memset(t->tree, 0, (t->times + 1) * sizeof *t->tree);
    for (uint32_t time = 1; time <= t->now; time++) {
        uint32_t block = t->block_at[time];
        if (t->touched[block] != time)
            continue;
        t->touched[block] = ++kept;
        t->block_at[kept] = block;
        add(t, kept, 1);
    }
    t->now = kept;
}

/* Blocks touched since this one was, itself included; 0: never touched. */
static uint32_t touch_block(struct trace *t, uint32_t block)
{
    uint32_t before = t->touched[block], since = before ? t->alive - sum(t, before - 1) : 0;
    if (t->now == t->times)
        renumber(t);
    if (t->touched[block])
        add(t, t->touched[block], (uint32_t)-1);
    else
        t->alive++;
    t->touched[block] = ++t->now;
    t->block_at[t->now] = block;
    add(t, t->now, 1);
    return since;
}

/* ---- shares ---- */

/* Distances that are no longer than the operator's own are one. Between two the time is taken to grow with the
 * logarithm: caches are nested and none ends sharply. */
static void count(struct trace *t, double distance, double bytes)
{
    const double edge[REUSES] = {t->own, fmax(t->own, (double)t->near), fmax(t->own, (double)t->cache)};
    int after = 0;
    while (after < REUSES - 1 && distance > edge[after])
        after++;
    while (after > 0 && edge[after] <= edge[after - 1])
        after--;
    int before = after > 0 ? after - 1 : 0;
    while (before > 0 && edge[before] <= edge[before - 1])
        before--;
    double share =
        before == after || distance >= edge[after] ? 1 : log(distance / edge[before]) / log(edge[after] / edge[before]);
    t->shares[after] += (float)(bytes * share);
    t->shares[before] += (float)(bytes * (1 - share));
    t->total += bytes;
}

static void touch_range(struct trace *t, uint64_t at, uint64_t bytes)
{
    for (uint64_t block = at / t->block; block <= (at + bytes - 1) / t->block && bytes; block++) {
        uint64_t begin = block * t->block, end = begin + t->block;
        begin = begin > at ? begin : at;
        end = end < at + bytes ? end : at + bytes;
        uint32_t since = block == t->latest ? 1 : touch_block(t, (uint32_t)block);
        t->latest = (uint32_t)block;
        if (t->shares)
            count(t, since ? (double)since * (double)t->block : INFINITY, (double)(end - begin));
    }
}

/* Of elements that lie one behind the other from the last dimensions on; *rank: the dimensions that are left. */
static int64_t run_length(const struct mg_shape *shape, const int64_t *stride, uint32_t *rank)
{
    int64_t length = 1;
    while (*rank > 0 && (shape->dim[*rank - 1] == 1 || stride[*rank - 1] == length || stride[*rank - 1] == 0)) {
        length *= stride[*rank - 1] ? shape->dim[*rank - 1] : 1;
        --*rank;
    }
    return length;
}

static void touch_rows(struct trace *t, uint64_t at, const struct mg_shape *shape, const int64_t *stride, uint32_t rank,
                       uint64_t row, uint64_t size)
{
    if (rank == 0) {
        touch_range(t, at, row);
        return;
    }
    int64_t rows = stride[0] ? shape->dim[0] : 1;
    struct mg_shape rest = {.rank = rank - 1};
    memcpy(rest.dim, shape->dim + 1, (rank - 1) * sizeof *rest.dim);
    for (int64_t i = 0; i < rows; i++)
        touch_rows(t, at + (uint64_t)(i * stride[0]) * size, &rest, stride + 1, rank - 1, row, size);
}

/* Where rows are shorter than what lies between them and many, all is touched that lies between first and last. */
static void touch_box(struct trace *t, uint64_t at, const struct mg_shape *shape, const int64_t *stride, uint64_t size)
{
    uint64_t last = 0;
    uint32_t rank = shape->rank;
    if (mg_shape_elements(shape) == 0)
        return;
    for (uint32_t d = 0; d < shape->rank; d++)
        last += (uint64_t)((shape->dim[d] - 1) * stride[d]);
    uint64_t row = (uint64_t)run_length(shape, stride, &rank) * size;
    if (row < t->block / 4)
        touch_range(t, at, (last + 1) * size);
    else
        touch_rows(t, at, shape, stride, rank, row, size);
}

/* ---- instructions ---- */

static uint64_t bytes_of(const struct mg_shape *shape, enum mg_dtype dtype)
{
    return (uint64_t)mg_shape_elements(shape) * mg_dtype_size(dtype);
}

static uint64_t bytes_of_op(const struct mg_op_desc *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->in_count; i++)
        bytes += bytes_of(&op->in_shape[i], op->in_dtype[i]);
    for (uint32_t i = 0; i < op->out_count; i++)
        bytes += bytes_of(&op->out_shape[i], op->out_dtype[i]);
    return bytes;
}

static void touch_op(struct trace *t, const struct mg_program *p, const struct instruction *item)
{
    const struct mg_prepared *prepared = p->ops[item->op].prepared;
    const struct mg_op_desc *op = &prepared->op;
    for (uint32_t i = 0; i < op->in_count; i++)
        touch_box(t, p->address[item->in + i], &op->in_shape[i], prepared->in[i].at, mg_dtype_size(op->in_dtype[i]));
    for (uint32_t i = 0; i < op->out_count; i++)
        touch_box(t, p->address[item->out + i], &op->out_shape[i], prepared->out[i].at,
                  mg_dtype_size(op->out_dtype[i]));
}

static void touch(struct trace *t, struct mg_program *p, struct instruction *item, const uint64_t *host)
{
    struct distinct *part = item->kind == KIND_RUN ? &p->ops[item->op] : &p->copies[item->op];
    t->shares = item->reuse;
    t->total = 0;
    t->own = (double)(item->kind == KIND_RUN ? bytes_of_op(&part->prepared->op) : item->bytes * (host ? 2 : 1));
    if (item->kind == KIND_RUN)
        touch_op(t, p, item);
    else if (host)
        touch_range(t, host[item->copy], item->bytes);
    if (item->kind != KIND_RUN)
        touch_range(t, item->at, item->bytes);
    for (int r = 0; r < REUSES; r++) {
        item->reuse[r] = t->total > 0 ? item->reuse[r] / (float)t->total : r == 0;
        part->wanted[r] = part->wanted[r] || item->reuse[r] > 0;
    }
}

/* Where copies are the processor's own, its cache holds the host's memory too: copies lie behind the arena. */
static const uint64_t *place_host(struct mg_program *p, uint64_t *end)
{
    if (p->engine->properties.copy_streams > 0)
        return NULL;
    uint64_t *host = MG_NEW_ARRAY(&p->scratch, uint64_t, p->host_count);
    for (size_t v = 0; v < p->host_count; v++) {
        host[v] = *end;
        *end += (p->host_bytes[v] + BLOCK - 1) / BLOCK * BLOCK;
    }
    return host;
}

void mg_program_follow_reuse(struct mg_program *p)
{
    struct trace t = {.block = BLOCK, .cache = p->engine->properties.cache_bytes, .latest = MG_NONE};
    uint64_t end = p->arena_bytes;
    const uint64_t *host = place_host(p, &end);
    t.near = mg_program_apart(p, REUSE_NEAR);
    while (end / t.block + 1 > MOST_BLOCKS)
        t.block *= 2;
    uint32_t blocks = (uint32_t)(end / t.block) + 1;
    t.times = 2 * blocks;
    t.touched = MG_NEW_ARRAY(&p->scratch, uint32_t, blocks);
    t.block_at = MG_NEW_ARRAY(&p->scratch, uint32_t, t.times + 1);
    t.tree = MG_NEW_ARRAY(&p->scratch, uint32_t, t.times + 1);
    for (size_t i = 0; i < p->given_count; i++)
        if (!p->given[i].on_host)
            touch_box(&t, p->given[i].place.offset, &p->given[i].place.shape, p->given[i].place.stride,
                      mg_dtype_size(p->given[i].place.dtype));
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].kind != KIND_WAIT)
            touch(&t, p, &p->items[i], host);
}

uint64_t mg_program_apart(const struct mg_program *p, enum reuse reuse)
{
    uint64_t cache = p->engine->properties.cache_bytes;
    return reuse == REUSE_OWN ? 0 : reuse == REUSE_NEAR ? cache / 8 : cache;
}
