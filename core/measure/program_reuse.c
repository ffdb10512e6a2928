/* How far back what an instruction touches was touched before. A cache holds what was touched last: the bytes touched
 * since, each counted once, tell whether it holds this still (the stack distance of Mattson et al., "Evaluation
 * techniques for storage hierarchies", 1970). Here they are counted by pieces of the arena that were last touched
 * together; a Fenwick tree over time has at each moment the bytes that were touched then and not since (after Bennett
 * and Kruskal, "LRU stack processing", 1975). A box of many rows far from one another, as columns of a matrix are, is
 * counted as one, by the lines that it touches: a comb. What is read by one is taken to lie as far back as when the
 * same was touched before, or else as what lies there; where one is written, all that it spans is taken to be of that
 * time. What is written moves twice: a processor's cache fetches it before, and it leaves later. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/program_priv.h"
#include "measure/rows.h"

enum { MOST_ROWS = 1024, FEWEST_TIMES = 1 << 12 };
enum { LOOK = 1024 }; /* instructions from one look at whether to go on to the next */

struct piece {
    uint64_t at, end; /* bytes of the arena; copies on the host lie behind it */
    uint32_t time;    /* from 1 */
    bool hollow;      /* a comb was written here: its bytes are counted with that */
};
/* A box of many rows with gaps, counted apart from the pieces: what lies in its gaps was not touched. */
struct comb {
    uint64_t at, end, held; /* held: bytes of the lines that it touches */
    uint64_t shape;         /* a hash of its rows */
    uint32_t time;
};
struct trace {
    struct mg_arena *arena;
    struct piece *pieces; /* by address, without overlap */
    size_t count, capacity;
    struct comb *combs;
    size_t comb_count, comb_capacity;
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

/* When something was touched, wherever that is kept. */
struct moment {
    uint32_t *time;
    uint64_t bytes;
};

static int latest_first(const void *a, const void *b)
{
    uint32_t x = *((const struct moment *)a)->time, y = *((const struct moment *)b)->time;
    return (x < y) - (x > y);
}

static uint64_t bytes_of(const struct piece *p)
{
    return p->hollow ? 0 : p->end - p->at;
}

static struct moment *list_moments(const struct trace *t)
{
    struct moment *list = MG_NEW_ARRAY(t->arena, struct moment, t->count + t->comb_count);
    for (size_t i = 0; i < t->count; i++)
        list[i] = (struct moment){&t->pieces[i].time, bytes_of(&t->pieces[i])};
    for (size_t i = 0; i < t->comb_count; i++)
        list[t->count + i] = (struct moment){&t->combs[i].time, t->combs[i].held};
    qsort(list, t->count + t->comb_count, sizeof *list, latest_first);
    return list;
}

/* What has no time any more goes. */
static void forget(struct trace *t)
{
    size_t pieces = 0, combs = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->pieces[i].time)
            t->pieces[pieces++] = t->pieces[i];
    for (size_t i = 0; i < t->comb_count; i++)
        if (t->combs[i].time)
            t->combs[combs++] = t->combs[i];
    t->count = pieces;
    t->comb_count = combs;
}

/* What no cache can hold any more is forgotten; the others' times begin anew. */
static void renumber(struct trace *t)
{
    struct mg_arena_mark mark = mg_arena_mark(t->arena);
    struct moment *list = list_moments(t);
    size_t kept = 0, all = t->count + t->comb_count;
    for (uint64_t bytes = 0; kept < all && bytes <= t->apart[REUSE_FAR]; kept++)
        bytes += list[kept].bytes;
    for (size_t i = 0; i < all; i++)
        *list[i].time = i < kept ? (uint32_t)(kept - i) : 0;
    mg_arena_rewind(t->arena, mark);
    forget(t);
    t->now = (uint32_t)kept;
    if (2 * kept > t->times) {
        t->times = 4 * (uint32_t)kept;
        t->tree = MG_NEW_ARRAY(t->arena, uint64_t, t->times + 1);
    }
    memset(t->tree, 0, (t->times + 1) * sizeof *t->tree);
    for (size_t i = 0; i < t->count; i++)
        add(t, t->pieces[i].time, bytes_of(&t->pieces[i]));
    for (size_t i = 0; i < t->comb_count; i++)
        add(t, t->combs[i].time, t->combs[i].held);
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

/* Bytes from `at` to `end`, of which each counts so many. */
static void count_range(struct trace *t, uint64_t at, uint64_t end, double scale)
{
    uint64_t known = 0;
    if (!t->shares)
        return;
    for (size_t i = first_after(t, at); i < t->count && t->pieces[i].at < end; i++) {
        uint64_t common = common_of(&t->pieces[i], at, end);
        count(t, (double)bytes_since(t, t->pieces[i].time), scale * (double)common);
        known += common;
    }
    count(t, INFINITY, scale * (double)(end - at - known));
}

/* Combs that lie there are nothing of their own any more. */
static void drop_combs(struct trace *t, uint64_t at, uint64_t end)
{
    for (size_t i = 0; i < t->comb_count; i++)
        while (i < t->comb_count && t->combs[i].at >= at && t->combs[i].end <= end) {
            add(t, t->combs[i].time, -t->combs[i].held);
            t->combs[i] = t->combs[--t->comb_count];
        }
}

/* These bytes are of the next moment; to be added to it. */
static void mark_range(struct trace *t, uint64_t at, uint64_t end, bool hollow)
{
    size_t from = first_after(t, at), to = from, added_count = 0;
    struct piece added[3];
    for (; to < t->count && t->pieces[to].at < end; to++)
        if (!t->pieces[to].hollow)
            add(t, t->pieces[to].time, -common_of(&t->pieces[to], at, end));
    if (from < to && t->pieces[from].at < at)
        added[added_count++] = (struct piece){t->pieces[from].at, at, t->pieces[from].time, t->pieces[from].hollow};
    added[added_count++] = (struct piece){at, end, t->now + 1, hollow};
    if (from < to && t->pieces[to - 1].end > end)
        added[added_count++] =
            (struct piece){end, t->pieces[to - 1].end, t->pieces[to - 1].time, t->pieces[to - 1].hollow};
    replace(t, from, to, added, added_count);
}

static void touch_range(struct trace *t, uint64_t at, uint64_t bytes)
{
    if (bytes == 0)
        return;
    if (t->now == t->times)
        renumber(t);
    count_range(t, at, at + bytes, 1);
    drop_combs(t, at, at + bytes);
    mark_range(t, at, at + bytes, false);
    add(t, ++t->now, bytes);
}

/* ---- boxes ---- */

struct box {
    uint64_t at;
    struct mg_rows rows;
    bool written;
};

/* Rows that are many and leave gaps. */
static bool is_comb(const struct mg_rows *rows)
{
    return rows->count > MOST_ROWS && 2 * rows->held < rows->span;
}

/* Rows that are to be touched one by one. */
static bool is_loose(const struct mg_rows *rows)
{
    return rows->count <= MOST_ROWS && 2 * rows->held < rows->span;
}

/* What it holds of the cache while its instruction runs. */
static double own_of(const struct mg_rows *rows)
{
    return (double)(is_comb(rows) || is_loose(rows) ? rows->held : rows->span);
}

static uint64_t hash_of(const struct mg_rows *rows)
{
    uint64_t words[2 + 2 * MG_MAX_RANK] = {rows->bytes, rows->rank};
    for (uint32_t d = 0; d < rows->rank; d++) {
        words[2 + 2 * d] = (uint64_t)rows->dim[d];
        words[3 + 2 * d] = rows->step[d];
    }
    return mg_hash_words(words, 2 + 2 * rows->rank).lo;
}

static struct comb *find_comb(struct trace *t, uint64_t at, uint64_t shape)
{
    for (size_t i = t->comb_count; i-- > 0;)
        if (t->combs[i].at == at && t->combs[i].shape == shape)
            return &t->combs[i];
    return NULL;
}

/* The same box as before, or else a part of what lies there. */
static void touch_comb(struct trace *t, const struct box *box)
{
    uint64_t at = box->at, end = at + box->rows.span, held = box->rows.held, shape = hash_of(&box->rows);
    if (t->now == t->times)
        renumber(t);
    struct comb *comb = find_comb(t, at, shape);
    if (!comb)
        count_range(t, at, end, (double)held / (double)box->rows.span);
    else if (t->shares)
        count(t, (double)bytes_since(t, comb->time), (double)held);
    if (comb)
        add(t, comb->time, -held);
    else
        comb = MG_PUSH(t->arena, t->combs, t->comb_count, t->comb_capacity);
    *comb = (struct comb){at, end, held, shape, t->now + 1};
    if (box->written)
        mark_range(t, at, end, true);
    add(t, ++t->now, held);
}

/* Whole lines. */
static void touch_row(struct trace *t, uint64_t at, uint64_t bytes)
{
    uint64_t begin = at / MG_LINE * MG_LINE, end = (at + bytes + MG_LINE - 1) / MG_LINE * MG_LINE;
    touch_range(t, begin, end - begin);
}

static void touch_loose(struct trace *t, const struct box *box)
{
    const struct mg_rows *rows = &box->rows;
    for (uint64_t i = 0; i < rows->count; i++) {
        uint64_t at = box->at, rest = i;
        for (uint32_t d = rows->rank; d-- > 0; rest /= (uint64_t)rows->dim[d])
            at += rest % (uint64_t)rows->dim[d] * rows->step[d];
        touch_row(t, at, rows->bytes);
    }
}

static void touch(struct trace *t, const struct box *box)
{
    if (is_comb(&box->rows))
        touch_comb(t, box);
    else if (is_loose(&box->rows))
        touch_loose(t, box);
    else
        touch_range(t, box->at, box->rows.span);
}

/* What is chosen by index is read where it is chosen: no more than the result has. */
static struct mg_rows rows_of_operand(const struct mg_prepared *prepared, uint32_t i)
{
    const struct mg_op_desc *op = &prepared->op;
    uint64_t size = mg_dtype_size(op->in_dtype[i]);
    struct mg_rows rows = mg_rows_of(&op->in_shape[i], prepared->in[i].at, size);
    bool chosen = op->type == MG_OP_GATHER || op->type == MG_OP_GATHER_ELEMENTS || op->type == MG_OP_GATHER_ND;
    uint64_t most = (uint64_t)mg_shape_elements(&op->out_shape[0]) * size;
    if (chosen && i == 0 && own_of(&rows) > (double)most)
        rows = (struct mg_rows){.bytes = most, .count = 1, .span = most, .held = most};
    return rows;
}

static struct mg_rows rows_of_result(const struct mg_prepared *prepared, uint32_t i)
{
    const struct mg_op_desc *op = &prepared->op;
    return mg_rows_of(&op->out_shape[i], prepared->out[i].at, mg_dtype_size(op->out_dtype[i]));
}

/* ---- instructions ---- */

struct following {
    struct mg_program *program;
    const uint64_t *host; /* the place of each copy, where the processor's cache holds these too; else NULL */
    uint64_t base;        /* of the arena, in addresses */
};

/* Operands, then results. */
static struct box box_at(const struct following *f, const struct instruction *item, uint32_t i)
{
    const struct distinct *part = &f->program->ops[item->op];
    const uint64_t *address = f->program->address;
    uint32_t in_count = part->prepared->op.in_count;
    if (i < in_count)
        return (struct box){address[item->in + i] - f->base, rows_of_operand(part->prepared, i),
                            i + 1 == part->in_place};
    return (struct box){address[item->out + i - in_count] - f->base, rows_of_result(part->prepared, i - in_count),
                        true};
}

/* A result in place is its operand. */
static void touch_op(struct trace *t, const struct following *f, const struct instruction *item)
{
    const struct distinct *part = &f->program->ops[item->op];
    const struct mg_op_desc *op = &part->prepared->op;
    uint32_t count = op->in_count + op->out_count, skipped = part->in_place ? op->in_count : count;
    for (uint32_t i = 0; i < count; i++) {
        struct box box = box_at(f, item, i);
        t->own += i == skipped ? 0 : own_of(&box.rows);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct box box = box_at(f, item, i);
        t->moves = box.written ? t->written : 1;
        if (i != skipped)
            touch(t, &box);
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
        struct box box = {place->offset, mg_rows_of(&place->shape, place->stride, mg_dtype_size(place->dtype)), true};
        if (!p->given[i].on_host)
            touch(&t, &box);
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
    static const double share[REUSES] = {0, 1.0 / 16, 1.0 / 4, 1.0 / 2, 2};
    return (uint64_t)(share[reuse] * (double)p->engine->properties.cache_bytes);
}
