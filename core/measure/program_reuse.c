/* How far back what an instruction touches was touched before. A cache holds what was touched last: the bytes touched
 * since, each counted once, tell whether it holds this still (the stack distance of Mattson et al., "Evaluation
 * techniques for storage hierarchies", 1970). Here they are counted by pieces of the arena that were last touched
 * together; a Fenwick tree over time has at each moment the bytes that were touched then and not since (after Bennett
 * and Kruskal, "LRU stack processing", 1975). What is written moves twice: a processor's cache fetches it before, and
 * it leaves later. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/program_priv.h"

enum { MOST_ROWS = 1024, FEWEST_TIMES = 1 << 12 };
enum { LOOK = 1024 }; /* instructions from one look at whether to go on to the next */

struct piece {
    uint64_t at, end; /* bytes of the arena; copies on the host lie behind it */
    uint32_t time;    /* from 1 */
};
struct trace {
    struct mg_arena *arena;
    struct piece *pieces; /* by address, without overlap */
    size_t count, capacity;
    uint64_t *tree;      /* bytes by time */
    uint32_t now, times; /* times: the tree's */
    uint64_t apart[REUSES];
    float *shares;     /* of the instruction that touches; NULL: nobody asks */
    double own, total; /* bytes: that it touches, that it has moved */
    double moves;      /* how many bytes move for each that it touches now */
    double written;    /* ... for each that it writes */
};

/* ---- bytes over time ---- */

static void add(struct trace *t, uint32_t time, uint64_t by)
{
    for (; time <= t->times; time += time & -time)
        t->tree[time] += by;
}

/* From that time on. */
static uint64_t bytes_since(const struct trace *t, uint32_t time)
{
    uint64_t later = 0, earlier = 0;
    for (uint32_t at = t->now; at; at -= at & -at)
        later += t->tree[at];
    for (uint32_t at = time - 1; at; at -= at & -at)
        earlier += t->tree[at];
    return later - earlier;
}

static int latest_first(const void *a, const void *b)
{
    const struct piece *x = *(const struct piece *const *)a, *y = *(const struct piece *const *)b;
    return (x->time < y->time) - (x->time > y->time);
}

/* What no cache can hold any more is forgotten; the others' times begin anew. */
static void renumber(struct trace *t)
{
    struct mg_arena_mark mark = mg_arena_mark(t->arena);
    struct piece **order = MG_NEW_ARRAY(t->arena, struct piece *, t->count);
    size_t kept = 0, left = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->count; i++)
        order[i] = &t->pieces[i];
    qsort(order, t->count, sizeof *order, latest_first);
    for (; kept < t->count && bytes <= t->apart[REUSE_FAR]; kept++)
        bytes += order[kept]->end - order[kept]->at;
    for (size_t i = 0; i < t->count; i++)
        order[i]->time = i < kept ? (uint32_t)(kept - i) : 0;
    mg_arena_rewind(t->arena, mark);
    for (size_t i = 0; i < t->count; i++)
        if (t->pieces[i].time)
            t->pieces[left++] = t->pieces[i];
    t->count = left;
    t->now = (uint32_t)kept;
    if (2 * kept > t->times) {
        t->times = 4 * (uint32_t)kept;
        t->tree = MG_NEW_ARRAY(t->arena, uint64_t, t->times + 1);
    }
    memset(t->tree, 0, (t->times + 1) * sizeof *t->tree);
    for (size_t i = 0; i < t->count; i++)
        add(t, t->pieces[i].time, t->pieces[i].end - t->pieces[i].at);
}

/* ---- shares ---- */

/* Distances that are no longer than the operator's own are one. Between two the time is taken to grow with the
 * logarithm: caches are nested and none ends sharply. */
static void count(struct trace *t, double distance, double bytes)
{
    double edge[REUSES];
    int after = 0;
    for (int r = 0; r < REUSES; r++)
        edge[r] = fmax(t->own, (double)t->apart[r]);
    while (after < REUSES - 1 && distance > edge[after])
        after++;
    while (after > 0 && edge[after] <= edge[after - 1])
        after--;
    int before = after > 0 ? after - 1 : 0;
    while (before > 0 && edge[before] <= edge[before - 1])
        before--;
    double share =
        before == after || distance >= edge[after] ? 1 : log(distance / edge[before]) / log(edge[after] / edge[before]);
    t->shares[after] += (float)(t->moves * bytes * share);
    t->shares[before] += (float)(t->moves * bytes * (1 - share));
    t->total += t->moves * bytes;
}

/* ---- touching ---- */

static size_t first_after(const struct trace *t, uint64_t at)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->pieces[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Pieces [from, to) give way to `added`. */
static void replace(struct trace *t, size_t from, size_t to, const struct piece *added, size_t added_count)
{
    size_t left = t->count - (to - from) + added_count;
    t->pieces = mg_arena_grow(t->arena, t->pieces, t->count, &t->capacity, left, sizeof *t->pieces);
    memmove(t->pieces + from + added_count, t->pieces + to, (t->count - to) * sizeof *t->pieces);
    memcpy(t->pieces + from, added, added_count * sizeof *added);
    t->count = left;
}

static uint64_t common_of(const struct piece *p, uint64_t at, uint64_t end)
{
    return (p->end < end ? p->end : end) - (p->at > at ? p->at : at);
}

static void count_pieces(struct trace *t, const struct piece *p, const struct piece *last, uint64_t at, uint64_t end)
{
    uint64_t known = 0;
    for (; p < last; p++) {
        uint64_t common = common_of(p, at, end);
        count(t, (double)bytes_since(t, p->time), (double)common);
        known += common;
    }
    count(t, INFINITY, (double)(end - at - known));
}

static void touch_range(struct trace *t, uint64_t at, uint64_t bytes)
{
    if (bytes == 0)
        return;
    if (t->now == t->times)
        renumber(t);
    uint64_t end = at + bytes;
    size_t from = first_after(t, at), to = from, added_count = 0;
    struct piece added[3];
    while (to < t->count && t->pieces[to].at < end)
        to++;
    if (t->shares)
        count_pieces(t, t->pieces + from, t->pieces + to, at, end);
    for (size_t i = from; i < to; i++)
        add(t, t->pieces[i].time, -common_of(&t->pieces[i], at, end));
    if (from < to && t->pieces[from].at < at)
        added[added_count++] = (struct piece){t->pieces[from].at, at, t->pieces[from].time};
    added[added_count++] = (struct piece){at, end, t->now + 1};
    if (from < to && t->pieces[to - 1].end > end)
        added[added_count++] = (struct piece){end, t->pieces[to - 1].end, t->pieces[to - 1].time};
    replace(t, from, to, added, added_count);
    add(t, ++t->now, bytes);
}

/* ---- boxes ---- */

/* A box in memory: rows of one length, one behind the other; a span where its rows are many and close, or too many. */
struct rows {
    uint64_t at, bytes; /* of a row */
    uint32_t rank;      /* dimensions of rows */
    int64_t dim[MG_MAX_RANK];
    uint64_t step[MG_MAX_RANK]; /* bytes */
    uint64_t count;
};

static struct rows rows_of(uint64_t at, const struct mg_shape *shape, const int64_t *stride, uint64_t size)
{
    struct rows rows = {.at = at, .count = 1};
    int64_t length = 1, last = 0;
    uint32_t d = shape->rank;
    for (; d > 0 && (shape->dim[d - 1] == 1 || stride[d - 1] == length || stride[d - 1] == 0); d--)
        length *= stride[d - 1] ? shape->dim[d - 1] : 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        last += (shape->dim[i] - 1) * stride[i];
    for (uint32_t i = 0; i < d; i++) {
        if (stride[i] == 0 || shape->dim[i] == 1)
            continue;
        rows.dim[rows.rank] = shape->dim[i];
        rows.step[rows.rank++] = (uint64_t)stride[i] * size;
        rows.count *= (uint64_t)shape->dim[i];
    }
    rows.bytes = (uint64_t)length * size;
    uint64_t span = ((uint64_t)last + 1) * size;
    if (mg_shape_elements(shape) == 0)
        rows.count = 0;
    else if (rows.count > MOST_ROWS || 2 * rows.count * rows.bytes >= span)
        rows = (struct rows){.at = at, .bytes = span, .count = 1};
    return rows;
}

static void touch_rows(struct trace *t, const struct rows *rows)
{
    for (uint64_t i = 0; i < rows->count; i++) {
        uint64_t at = rows->at, rest = i;
        for (uint32_t d = rows->rank; d-- > 0; rest /= (uint64_t)rows->dim[d])
            at += rest % (uint64_t)rows->dim[d] * rows->step[d];
        touch_range(t, at, rows->bytes);
    }
}

/* What is chosen by index is read where it is chosen: no more than the result has. */
static struct rows rows_of_operand(const struct mg_prepared *prepared, uint32_t i, uint64_t at)
{
    const struct mg_op_desc *op = &prepared->op;
    uint64_t size = mg_dtype_size(op->in_dtype[i]);
    struct rows rows = rows_of(at, &op->in_shape[i], prepared->in[i].at, size);
    bool chosen = op->type == MG_OP_GATHER || op->type == MG_OP_GATHER_ELEMENTS || op->type == MG_OP_GATHER_ND;
    uint64_t most = (uint64_t)mg_shape_elements(&op->out_shape[0]) * size;
    if (chosen && i == 0 && rows.count == 1 && rows.bytes > most)
        rows.bytes = most;
    return rows;
}

static struct rows rows_of_result(const struct mg_prepared *prepared, uint32_t i, uint64_t at)
{
    const struct mg_op_desc *op = &prepared->op;
    return rows_of(at, &op->out_shape[i], prepared->out[i].at, mg_dtype_size(op->out_dtype[i]));
}

/* ---- instructions ---- */

struct following {
    struct mg_program *program;
    const uint64_t *host; /* the place of each copy, where the processor's cache holds these too; else NULL */
    uint64_t base;        /* of the arena, in addresses */
};

/* Operands, then results. */
static struct rows rows_at(const struct following *f, const struct instruction *item, uint32_t i)
{
    const struct mg_prepared *prepared = f->program->ops[item->op].prepared;
    const uint64_t *address = f->program->address;
    uint32_t in_count = prepared->op.in_count;
    return i < in_count ? rows_of_operand(prepared, i, address[item->in + i] - f->base)
                        : rows_of_result(prepared, i - in_count, address[item->out + i - in_count] - f->base);
}

/* A result in place is its operand. */
static void touch_op(struct trace *t, const struct following *f, const struct instruction *item)
{
    const struct distinct *part = &f->program->ops[item->op];
    const struct mg_op_desc *op = &part->prepared->op;
    uint32_t count = op->in_count + op->out_count, skipped = part->in_place ? op->in_count : count;
    for (uint32_t i = 0; i < count; i++) {
        struct rows rows = rows_at(f, item, i);
        t->own += i == skipped ? 0 : (double)(rows.count * rows.bytes);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct rows rows = rows_at(f, item, i);
        t->moves = i >= op->in_count || i + 1 == part->in_place ? t->written : 1;
        if (i != skipped)
            touch_rows(t, &rows);
    }
}

/* Copies by other streams take as long as their link needs. */
static void touch_copy(struct trace *t, const struct following *f, struct instruction *item)
{
    if (f->host) {
        t->own = 2 * (double)item->bytes;
        t->moves = item->kind == KIND_STORE ? t->written : 1;
        touch_range(t, f->host[item->copy], item->bytes);
    } else {
        t->shares = NULL;
        item->reuse[REUSE_FAR] = 1;
    }
    t->moves = item->kind == KIND_LOAD ? t->written : 1;
    touch_range(t, item->at, item->bytes);
}

static void follow(struct trace *t, const struct following *f, struct instruction *item)
{
    struct mg_program *p = f->program;
    struct distinct *part = item->kind == KIND_RUN ? &p->ops[item->op] : &p->copies[item->op];
    t->shares = item->reuse;
    t->total = t->own = 0;
    if (item->kind == KIND_RUN)
        touch_op(t, f, item);
    else
        touch_copy(t, f, item);
    for (int r = 0; r < REUSES; r++) {
        if (t->shares)
            item->reuse[r] = t->total > 0 ? item->reuse[r] / (float)t->total : r == REUSE_OWN;
        part->wanted[r] = part->wanted[r] || item->reuse[r] > 0;
    }
}

static const uint64_t *place_host(struct mg_program *p)
{
    if (p->engine->properties.copy_streams > 0)
        return NULL;
    uint64_t *host = MG_NEW_ARRAY(&p->scratch, uint64_t, p->host_count), end = p->arena_bytes;
    for (size_t v = 0; v < p->host_count; end += p->host_bytes[v++])
        host[v] = end;
    return host;
}

static enum mg_code follow_all(void *context, struct mg_error *err)
{
    struct mg_program *p = context;
    struct trace t = {.arena = &p->scratch, .times = FEWEST_TIMES};
    struct following f = {p, place_host(p), mg_program_base(p)};
    enum mg_code code = MG_OK;
    for (int r = 0; r < REUSES; r++)
        t.apart[r] = mg_program_apart(p, (enum reuse)r);
    t.written = f.host ? 2 : 1; /* cards' caches do not fetch what is written whole */
    t.tree = MG_NEW_ARRAY(t.arena, uint64_t, t.times + 1);
    for (size_t i = 0; i < p->given_count; i++) {
        const struct mg_located *place = &p->given[i].place;
        struct rows rows = rows_of(place->offset, &place->shape, place->stride, mg_dtype_size(place->dtype));
        if (!p->given[i].on_host)
            touch_rows(&t, &rows);
    }
    for (size_t i = 0; i < p->count && !code; i++) {
        if (i % LOOK == 0)
            code = mg_program_go_on(p, err);
        if (p->items[i].kind != KIND_WAIT)
            follow(&t, &f, &p->items[i]);
    }
    return code;
}

enum mg_code mg_program_follow_reuse(struct mg_program *p, struct mg_error *err)
{
    if (p->followed)
        return MG_OK;
    for (size_t i = 0; i < p->count; i++)
        memset(p->items[i].reuse, 0, sizeof p->items[i].reuse);
    enum mg_code code = mg_arena_guard(&p->scratch, follow_all, p, err);
    mg_arena_release(&p->scratch);
    p->followed = code == MG_OK;
    return code;
}

uint64_t mg_program_apart(const struct mg_program *p, enum reuse reuse)
{
    static const uint64_t share[REUSES] = {0, 16, 4, 1};
    return share[reuse] ? p->engine->properties.cache_bytes / share[reuse] : 0;
}
