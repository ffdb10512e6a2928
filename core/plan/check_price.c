/* Prices, recomputed from the profile for every distinct tuple of extents of every step.
 *
 * A price entry stands for one operator with its attributes, shapes and dtypes: what its signature says.
 * At its first use the signature is written anew and the seconds are computed; later uses need only be
 * of an equal description. Measured prices (source not "model") cannot be recomputed: their seconds are
 * taken as stated, their signature is not. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "plan/check_priv.h"

struct known {
    const char *name; /* NULL: not used yet */
    struct mg_op_desc desc;
};
struct pricing {
    struct mg_check *c;
    uint32_t at;
    const struct mg_step *step;
    const struct mg_check_place *place;
    struct known *known; /* by price */
    char *text;          /* a signature under construction */
    size_t size, capacity;
};

/* ---- signatures ---- */

static void put(struct pricing *p, const char *fmt, ...) MG_PRINTF(2, 3);
static void put(struct pricing *p, const char *fmt, ...)
{
    for (;;) {
        va_list args;
        va_start(args, fmt);
        int n = vsnprintf(p->text ? p->text + p->size : NULL, p->capacity - p->size, fmt, args);
        va_end(args);
        if (n < 0)
            return;
        size_t need = p->size + (size_t)n + 1;
        if (need <= p->capacity) {
            p->size += (size_t)n;
            return;
        }
        p->text = mg_arena_grow(p->c->arena, p->text, p->size, &p->capacity, need, 1);
    }
}

static void put_shape(struct pricing *p, enum mg_dtype dtype, const struct mg_shape *shape)
{
    put(p, "%s[", mg_dtype_name(dtype));
    for (uint32_t d = 0; d < shape->rank; d++)
        put(p, "%s%lld", d ? "," : "", (long long)shape->dim[d]);
    put(p, "]");
}

static void put_shapes(struct pricing *p, const enum mg_dtype *dtypes, const struct mg_shape *shapes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        put(p, "%s", i ? "," : "");
        put_shape(p, dtypes[i], &shapes[i]);
    }
}

static void put_attr(struct pricing *p, const struct mg_attr *attr)
{
    put(p, "%s=", mg_attr_name(attr->key));
    switch (attr->type) {
    case MG_ATTR_TYPE_INT:
        put(p, "%lld", (long long)attr->i);
        break;
    case MG_ATTR_TYPE_FLOAT:
        put(p, "%.17g", attr->f);
        break;
    case MG_ATTR_TYPE_INTS:
        for (uint32_t i = 0; i < attr->count; i++)
            put(p, "%s%lld", i ? "," : "", (long long)attr->ints[i]);
        break;
    case MG_ATTR_TYPE_STRING:
        put(p, "%s", attr->string ? attr->string : "");
        break;
    }
    put(p, ";");
}

static void put_desc(struct pricing *p, const struct mg_op_desc *desc)
{
    put(p, "%s;", desc->math == MG_MATH_TF32 ? "tf32" : "f32");
    for (uint32_t i = 0; i < desc->attr_count; i++)
        put_attr(p, &desc->attrs[i]);
    put_shapes(p, desc->in_dtype, desc->in_shape, desc->in_count);
    put(p, "->");
    put_shapes(p, desc->out_dtype, desc->out_shape, desc->out_count);
    if (p->size > MG_PRICE_SIGNATURE_MAX) {
        char hex[65];
        mg_sha256_hex(p->text, p->size, hex);
        p->size = 0;
        put(p, "sha256:%s", hex);
    }
}

/* ---- descriptions ---- */

static bool same_shapes(const struct mg_shape *a, const struct mg_shape *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!mg_shape_equal(&a[i], &b[i]))
            return false;
    return true;
}

static bool same_desc(const struct mg_op_desc *a, const struct mg_op_desc *b)
{
    if (a->type != b->type || a->math != b->math || a->attr_count != b->attr_count || a->in_count != b->in_count ||
        a->out_count != b->out_count || !same_shapes(a->in_shape, b->in_shape, a->in_count) ||
        !same_shapes(a->out_shape, b->out_shape, a->out_count) ||
        (a->in_count && memcmp(a->in_dtype, b->in_dtype, a->in_count * sizeof *a->in_dtype) != 0) ||
        (a->out_count && memcmp(a->out_dtype, b->out_dtype, a->out_count * sizeof *a->out_dtype) != 0))
        return false;
    for (uint32_t i = 0; i < a->attr_count; i++)
        if (!mg_attr_equal(&a->attrs[i], &b->attrs[i]))
            return false;
    return true;
}

/* One cut for each axis, absolute, of the first part with these extents. */
static uint32_t cuts_of(const struct pricing *p, const struct mg_check_tuple *tuple, struct mg_cut *cuts)
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < p->place->depth; j++) {
        const struct mg_region_op *entry = mg_check_entry(p->c, p->place->chain[j], p->step->op);
        uint32_t i = 0;
        while (i < n && cuts[i].axis != entry->axis)
            i++;
        int64_t around = i < n ? cuts[i].lo : 0, lo = around + tuple->lo[j] * entry->scale;
        n += i == n;
        cuts[i] = (struct mg_cut){entry->axis, lo, lo + tuple->extent[j] * entry->scale};
    }
    return n;
}

/* ---- prices ---- */

static bool close_to(double stated, double mine)
{
    return fabs(stated - mine) <= 1e-9 * mine;
}

/* The signature has been put. */
static bool check_first_use(struct pricing *p, uint32_t index, const char *name, double seconds)
{
    const struct mg_price *price = &p->c->plan->prices[index];
    MG_CHECK(strcmp(price->name, name) == 0, p->c, p->at, "price", "price %u is of '%s', not of '%s'", index,
             price->name, name);
    MG_CHECK(strcmp(price->signature, p->text) == 0, p->c, p->at, "price", "price %u is not of %.150s", index, p->text);
    if (price->source != MG_PRICE_MODEL)
        return true;
    MG_CHECK(price->workspace == 0, p->c, p->at, "price", "price %u: modelled operators need no workspace", index);
    MG_CHECK(close_to(price->seconds, seconds), p->c, p->at, "price", "price %u is %.12g s, not %.12g s", index,
             price->seconds, seconds);
    return true;
}

static bool check_price(struct pricing *p, uint32_t index, const char *name, const struct mg_op_desc *desc,
                        double (*seconds)(const struct pricing *p, const struct mg_op_desc *desc))
{
    struct known *known = &p->known[index];
    if (known->name) {
        MG_CHECK(known->name == name && same_desc(&known->desc, desc), p->c, p->at, "price",
                 "price %u is of another operator, other attributes or shapes", index);
        return true;
    }
    *known = (struct known){name, *desc};
    p->size = 0;
    if (p->step->kind == MG_STEP_COMPUTE)
        put_desc(p, desc);
    else
        put_shape(p, desc->in_dtype[0], &desc->in_shape[0]);
    return check_first_use(p, index, name, seconds(p, desc));
}

static double compute_seconds(const struct pricing *p, const struct mg_op_desc *desc)
{
    return mg_device_latency(&p->c->plan->device, desc);
}

static bool price_compute(struct pricing *p, uint32_t index, const struct mg_check_tuple *tuple)
{
    struct mg_check *c = p->c;
    struct mg_cut cuts[MG_CHECK_DEPTH];
    struct mg_op_desc desc;
    struct mg_error err = {0};
    enum mg_code code = mg_op_describe(c->g, p->step->op, cuts, cuts_of(p, tuple, cuts), c->arena, &desc, &err);
    MG_CHECK(code == MG_OK, c, p->at, "axis", "%.200s", err.message);
    return check_price(p, index, mg_op_type_name(desc.type), &desc, compute_seconds);
}

static uint64_t moved_elements(const struct mg_op_desc *desc)
{
    return (uint64_t)mg_shape_elements(&desc->in_shape[0]);
}
static uint64_t moved_bytes(const struct mg_op_desc *desc)
{
    return moved_elements(desc) * mg_dtype_size(desc->in_dtype[0]);
}
static double store_seconds(const struct pricing *p, const struct mg_op_desc *desc)
{
    return mg_device_store_latency(&p->c->plan->device, moved_bytes(desc));
}
static double load_seconds(const struct pricing *p, const struct mg_op_desc *desc)
{
    return mg_device_load_latency(&p->c->plan->device, moved_bytes(desc));
}
static double copy_seconds(const struct pricing *p, const struct mg_op_desc *desc)
{
    return mg_device_copy_latency(&p->c->plan->device, moved_elements(desc), moved_bytes(desc));
}
static double acc_seconds(const struct pricing *p, const struct mg_op_desc *desc)
{
    return mg_device_acc_latency(&p->c->plan->device, moved_elements(desc), moved_bytes(desc));
}

/* `moved`: the instance whose box is copied. */
static bool price_copy(struct pricing *p, uint32_t index, const struct mg_check_tuple *tuple, uint32_t moved,
                       enum mg_step_kind as)
{
    static const struct {
        const char *name;
        double (*seconds)(const struct pricing *p, const struct mg_op_desc *desc);
    } kinds[] = {
        [MG_STEP_STORE] = {"store", store_seconds}, [MG_STEP_LOAD] = {"load", load_seconds},
        [MG_STEP_SLICE] = {"slice", copy_seconds},  [MG_STEP_JOIN] = {"join", copy_seconds},
        [MG_STEP_ACC] = {"acc", acc_seconds},
    };
    const struct mg_check *c = p->c;
    const struct mg_value_info *v = &c->g->values[c->plan->instances[moved].value];
    struct mg_shape *shape = MG_NEW(c->arena, struct mg_shape);
    *shape = mg_check_cut(&v->shape, c->instances[moved].box, p->place->depth, tuple);
    struct mg_op_desc desc = {.in_count = 1, .in_shape = shape, .in_dtype = &v->dtype};
    return check_price(p, index, kinds[as].name, &desc, kinds[as].seconds);
}

static bool price_one(struct pricing *p, uint32_t i)
{
    const struct mg_check *c = p->c;
    uint32_t tuples = p->place->tuple_count, index = c->plan->refs[p->step->price + i];
    const struct mg_check_tuple *tuple = &p->place->tuples[i % tuples];
    switch (p->step->kind) {
    case MG_STEP_COMPUTE:
        return price_compute(p, index, tuple);
    case MG_STEP_LOAD:
    case MG_STEP_SLICE:
        return price_copy(p, index, tuple, mg_check_out(c, p->step)[0], p->step->kind);
    default:
        return price_copy(p, index, tuple, mg_check_in(c, p->step)[0], i < tuples ? p->step->kind : MG_STEP_JOIN);
    }
}

/* R6: where the box is not contiguous, first parts join. */
static bool check_count(struct pricing *p)
{
    const struct mg_check *c = p->c;
    uint32_t wanted = p->place->tuple_count;
    if (p->step->kind == MG_STEP_ACC && !mg_check_box_contiguous(c, mg_check_in(c, p->step)[1]))
        wanted *= 2;
    MG_CHECK(p->step->price_count == wanted, p->c, p->at, "price", "%u prices for %u tuples of extents",
             p->step->price_count, wanted);
    return true;
}

static bool check_step(struct pricing *p)
{
    if (p->step->kind == MG_STEP_FREE || p->step->kind == MG_STEP_BEGIN || p->step->kind == MG_STEP_END)
        return true;
    if (!check_count(p))
        return false;
    for (uint32_t i = 0; i < p->step->price_count; i++)
        if (!price_one(p, i))
            return false;
    return true;
}

bool mg_check_prices(struct mg_check *c)
{
    struct pricing p = {.c = c, .known = MG_NEW_ARRAY(c->arena, struct known, c->plan->price_count)};
    for (p.at = 0; p.at < c->plan->step_count; p.at++) {
        p.step = &c->plan->steps[p.at];
        p.place = &c->places[c->home[p.at]];
        if (!check_step(&p))
            return false;
    }
    for (uint32_t i = 0; i < c->plan->price_count; i++)
        MG_CHECK(p.known[i].name, c, MG_NONE, "price", "price %u is used by no step", i);
    return true;
}
